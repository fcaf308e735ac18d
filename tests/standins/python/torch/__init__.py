"""Stand-in for PyTorch over host memory: as much of it as the scripts of profiles/loaders call. Tests only; it measures nothing."""
import ctypes

__version__ = "0.0.stand-in"


class dtype:
    def __init__(self, itemsize):
        self.itemsize = itemsize


uint8, int8, bool = dtype(1), dtype(1), dtype(1)
float16, bfloat16, int16 = dtype(2), dtype(2), dtype(2)
float32, int32, float64, int64 = dtype(4), dtype(4), dtype(8), dtype(8)


class Tensor:
    """Part of a buffer. `device` is where it would be."""

    def __init__(self, memory, start, size, kind, device):
        self.memory, self.start, self.size, self.kind, self.device = memory, start, size, kind, device

    is_cuda = property(lambda self: self.device is not None)

    def __getitem__(self, part):
        start, end, _ = part.indices(self.size)
        return Tensor(self.memory, self.start + start, end - start, self.kind, self.device)

    def numel(self):
        return self.size // self.kind.itemsize

    def data_ptr(self):
        return ctypes.addressof(self.memory) + self.start

    def view(self, kind):
        assert self.data_ptr() % kind.itemsize == 0, "torch refuses a view that is not aligned"
        return Tensor(self.memory, self.start, self.size, kind, self.device)

    def fill(self, data):
        assert len(data) <= self.size
        ctypes.memmove(self.data_ptr(), data, len(data))
        return self

    def to(self, device):
        return Tensor(self.memory, self.start, self.size, self.kind, device)

    def cpu(self):
        return self.to(None)

    def reshape(self, *_shape):
        return self

    detach = contiguous = untyped_storage = lambda self: self


def empty(size, dtype=uint8, device=None):
    memory = (ctypes.c_char * (size * dtype.itemsize + 1))()
    return Tensor(memory, 0, size * dtype.itemsize, dtype, device)


def of(data, device):
    """Bytes as a tensor."""
    return empty(len(data), device=device).fill(data)


from . import cuda  # noqa: E402, F401
