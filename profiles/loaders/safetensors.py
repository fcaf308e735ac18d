"""safetensors: load_file of each file, to the GPU by torch; into numpy arrays without one."""
import gds_top_lane as lane

lane.need("safetensors", "safetensors")
place = lane.device(host=True)
if place is None:
    lane.need("numpy", "numpy")
    load = lane.need("safetensors.numpy", "safetensors").load_file
    try:
        # It teaches numpy the name bfloat16.
        lane.importlib.import_module("ml_dtypes")
    except ImportError:
        if any(kind == "BF16" for path in lane.files() for kind, *_ in lane.header(path).values()):
            lane.fail("the model holds BF16 and numpy does not know it without ml_dtypes: pip install ml_dtypes, or load to a GPU by torch")
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
