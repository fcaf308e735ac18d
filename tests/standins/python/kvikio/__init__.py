"""Stand-in for KvikIO 26.10."""
from enum import Enum

__version__ = "0.0.stand-in"
CompatMode = Enum("CompatMode", "OFF ON AUTO")


class Future:
    def __init__(self, size):
        self.size = size

    def get(self):
        return self.size


class CuFile:
    def __init__(self, file, flags="r"):
        assert flags == "r"
        self.file = open(file, "rb")

    def pread(self, buf, size=None, file_offset=0, task_size=None):
        self.file.seek(file_offset)
        data = self.file.read(size)
        buf.fill(data)
        return Future(len(data))

    def close(self):
        self.file.close()


def memory_register(buf):
    buf.registered = True


def memory_deregister(buf):
    assert buf.registered
