"""Stand-in for safetensors.torch of safetensors 0.8."""
import standin_files
import torch


def load_file(filename, device="cpu"):
    return {name: torch.of(data, device) for name, data in standin_files.read(filename)}
