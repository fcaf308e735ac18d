"""torch.cuda.gds: the cuFile wrapper of PyTorch, with one read per file into one storage (default) or, with --set block_bytes=1, one per tensor.

--set threads=N: number of files or tensors at a time (1), --set register=1: each storage is registered
"""
import os
from concurrent.futures import ThreadPoolExecutor

import gds_top_lane as lane

torch = lane.need("torch", "torch")
gds = lane.need("torch.cuda.gds", "torch")
place = lane.device()
lane.program("torch")
register = lane.setting("register", 0) != 0
by_tensor = lane.setting("block_bytes", 0) == 1

paths = lane.files()
lane.ready()
tensors, images, reads = {}, [], []
for path in paths:
    with lane.phase("open"):
        table = lane.header(path)
# This opens the file with O_DIRECT and registers it with cuFile.
        file = gds.GdsFile(path, os.O_RDONLY)
    with lane.phase("allocate"):
        if by_tensor:
            for name, (_, _, start, end) in table.items():
                tensors[name] = torch.empty(end - start, dtype=torch.uint8, device=place)
                if end > start:
                    reads.append((file, tensors[name], start))
        else:
            image = torch.empty(os.path.getsize(path), dtype=torch.uint8, device=place)
            images.append((image, table))
            reads.append((file, image, 0))
if register:
    with lane.phase("register_buffer"):
        for _, target, _ in reads:
            gds.gds_register_buffer(target.untyped_storage())


def read(one):
    file, target, offset = one
    torch.cuda.set_device(place)
    file.load_storage(target.untyped_storage(), offset)


with lane.phase("transfer"), ThreadPoolExecutor(lane.setting("threads", 1)) as pool:
    list(pool.map(read, reads))
if register:
    with lane.phase("deregister"):
        for _, target, _ in reads:
            gds.gds_deregister_buffer(target.untyped_storage())
with lane.phase("map"):
    for image, table in images:
        tensors.update(lane.views(image, table))
lane.done(paths, place)
lane.verify(tensors, paths)
