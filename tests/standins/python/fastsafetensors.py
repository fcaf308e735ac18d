"""Stand-in for fastsafetensors 0.5."""
import os

import standin_files
import torch


class Copier:
    pass


class Buffers:
    def __init__(self, tensors):
        self.tensors = tensors

    def get_tensor(self, tensor_name):
        return self.tensors[tensor_name]

    def close(self):
        self.tensors = None


class SafeTensorsFileLoader:
    copier_class = Copier

    def __init__(self, pg, device="cpu", bbuf_size_kb=16 * 1024, max_threads=16, nogds=False):
        assert bbuf_size_kb >= 1 and max_threads >= 1
        self.device, self.cufile = device, not nogds and os.path.exists("/dev/nvidia-fs0")
        self.names = []

    def add_filenames(self, filenames):
        self.files = filenames[0]

    def copy_files_to_device(self, use_buf_register=True):
        tensors = {name: torch.of(data, self.device) for path in self.files for name, data in standin_files.read(path)}
        self.names = list(tensors)
        return Buffers(tensors)

    def get_keys(self):
        return self.names

    def close(self):
        self.files = None
