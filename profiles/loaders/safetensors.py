"""safetensors: calls load_file for each file, to the GPU with torch, or into numpy arrays without a GPU."""
import gds_top_lane as lane

lane.need("safetensors", "safetensors")
place = lane.device(host=True)
if place is None:
    numpy = lane.need("numpy", "numpy")
    load = lane.need("safetensors.numpy", "safetensors").load_file
    try:
# This import adds the type bfloat16 to numpy. safetensors uses numpy's types for 8 bits.
        small = lane.importlib.import_module("ml_dtypes")
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"):
            if hasattr(small, name) and not hasattr(numpy, name):
                setattr(numpy, name, getattr(small, name))
    except ImportError:
        kinds = {kind for path in lane.files() for kind, *_ in lane.header(path).values()}
        unknown = sorted(kind for kind in kinds if kind == "BF16" or kind.startswith("F8"))
        if unknown:
            lane.fail(f"the model holds {', '.join(unknown)}, which numpy does not know without ml_dtypes: pip install ml_dtypes, or load to a GPU by torch")
    lane.program("safetensors", "numpy")
else:
    torch_load = lane.need("safetensors.torch", "safetensors").load_file
    lane.program("safetensors", "torch")

    def load(path):
        return torch_load(path, device=place)

paths = lane.files()
lane.ready()
tensors = {}
for path in paths:
    with lane.phase("transfer"):
        tensors.update(load(path))
lane.done(paths, place)
lane.verify(tensors, paths)
