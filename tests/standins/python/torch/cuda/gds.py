"""Stand-in for torch.cuda.gds of PyTorch 2.11."""
import os


class GdsFile:
    def __init__(self, filename, flags):
        self.fd = os.open(filename, flags)

    def load_storage(self, storage, offset=0):
        storage.fill(os.pread(self.fd, storage.size, offset))

    def __del__(self):
        os.close(self.fd)


def gds_register_buffer(s):
    s.registered = True


def gds_deregister_buffer(s):
    assert s.registered
