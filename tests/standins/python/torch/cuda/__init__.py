"""Stand-in for torch.cuda."""
chosen = None


def is_available():
    import os
    return os.environ.get("STANDIN_TORCH_CUDA", "1") == "1"


def set_device(name):
    global chosen
    assert name.startswith("cuda:")
    chosen = name


def synchronize():
    assert chosen, "no context"
