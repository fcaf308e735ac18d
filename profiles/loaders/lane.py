"""Shared by the loader scripts: the files of the model, and the reports to gds-top, one JSON object per line.

A script imports its package with need(), opens the GPU with device(), calls ready(), loads, calls done(), and then compares bytes with verify().
Without GDS_TOP_FD, the lines are printed to standard output. gds-top writes this file next to each script as gds_top_lane.py.
"""
import contextlib
import ctypes
import importlib
import importlib.metadata
import json
import os
import struct
import sys
import time

_OUT = os.fdopen(int(os.environ.get("GDS_TOP_FD", "1")), "w", buffering=1, closefd=False)
# Other programs that a loader starts must not inherit it.
if "GDS_TOP_FD" in os.environ:
    os.set_inheritable(_OUT.fileno(), False)


def tell(**what):
    """One line; the time of the event is that of the call unless it is given."""
    what.setdefault("at_ns", time.monotonic_ns())
    _OUT.write(json.dumps(what) + "\n")


@contextlib.contextmanager
def phase(name, **more):
    """Tells what is inside as a phase of the report."""
    start = time.monotonic_ns()
    try:
        yield
    finally:
        end = time.monotonic_ns()
        tell(phase=name, ns=end - start, at_ns=end, **more)


def _tell_of(kind, error, trace):
    """What ends a script is told in one line, for messages of CUDA end in lines of general advice."""
    sentence = next((line for line in str(error).splitlines() if line.strip()), "without a word")
    tell(error=f"{kind.__name__}: {sentence.strip()}")
    sys.__excepthook__(kind, error, trace)


sys.excepthook = _tell_of


def need(module, package):
    """Imports a module; a sentence and status 3 where it is not installed, or a library that it loads is not."""
    try:
        found = importlib.import_module(module)
    except (ImportError, OSError) as error:
        print(f"{package} cannot be imported by {sys.executable} ({error}): install it with 'pip install {package}', "
              f"or set GDS_TOP_PYTHON to a Python that has it", file=sys.stderr)
        raise SystemExit(3)
    return found


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def setting(name, default):
    """A number set by --set NAME=NUMBER."""
    return int(os.environ.get("GDS_TOP_SET_" + name.upper(), default))


def program(package, *others):
    """Tells name and version, with those of packages that matter beside it."""
    tell(program=", ".join(f"{name} {version(name)}" for name in (package, *others)))


def fail(sentence):
    """Ends the run with a sentence."""
    tell(error=sentence)
    raise SystemExit(1)


def files():
    """The model's files, in order of name."""
    path = sys.argv[1]
    if not os.path.isdir(path):
        if not path.endswith(".json"):
            return [path]
        folder = os.path.dirname(path)
        with open(path, encoding="utf-8") as index:
            return sorted({os.path.join(folder, name) for name in json.load(index)["weight_map"].values()})
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".safetensors"))


def header(path):
    """Where each tensor lies: name -> (type, shape, first byte, byte behind the last)."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        table = json.loads(file.read(length))
    first = 8 + length
    table.pop("__metadata__", None)
    return {name: (row["dtype"], row["shape"], first + row["data_offsets"][0], first + row["data_offsets"][1])
            for name, row in table.items()}


def total(paths):
    """Tensor bytes of all files."""
    return sum(end - start for path in paths for (_, _, start, end) in header(path).values())


def device(host=False):
    """The torch device of the run with its context up; None for host memory, which only some loaders have."""
    if sys.argv[2] == "host":
        if host:
            return None
        fail("this loader needs a GPU, and the target is host memory")
    torch = need("torch", "torch")
    if not torch.cuda.is_available():
        fail(f"torch {torch.__version__} of {sys.executable} can use no GPU: it needs a build for CUDA that suits the driver")
    name = f"cuda:{sys.argv[2]}"
    torch.cuda.set_device(name)
    torch.empty(1, device=name)
    torch.cuda.synchronize()
    return name


def ready():
    """The clock starts."""
    tell(ready=True)


def done(paths, place):
    """The clock stops, once the GPU has nothing left to do."""
    if place is not None:
        import torch
        with phase("sync"):
            torch.cuda.synchronize()
    at = time.monotonic_ns()
    tell(done=True, at_ns=at, bytes=total(paths))


def verify(tensors, paths):
    """Compares every byte of every tensor with the file, unless that was declined. `tensors` maps names to torch or numpy arrays."""
    if os.environ.get("GDS_TOP_VERIFY") == "0":
        return
    for path in paths:
        with open(path, "rb") as file:
            for name, (_, _, start, end) in header(path).items():
                if start == end:
                    continue
                file.seek(start)
                if name not in tensors or raw(tensors[name]) != file.read(end - start):
                    tell(verified=False, note=f"the bytes of {name} differ from {path}")
                    return
    tell(verified=True)


def raw(tensor):
    """The bytes of a tensor."""
    if hasattr(tensor, "cpu"):
        import torch
# The address is used, because torch can convert to bytes only with numpy, which may be missing.
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
        return ctypes.string_at(flat.data_ptr(), flat.numel())
    return tensor.tobytes()


def views(image, table):
    """Tensors as views of a device image of their file, one byte an element. Those of a type or place that torch cannot view stay bytes."""
    import torch
    types = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
             "I8": "int8", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    found = {}
    for name, (kind, shape, start, end) in table.items():
        part = image[start:end]
        kind = getattr(torch, types.get(kind, ""), None)
        if kind is not None and part.numel() and part.data_ptr() % kind.itemsize == 0:
            part = part.view(kind).reshape(shape)
        found[name] = part
    return found
