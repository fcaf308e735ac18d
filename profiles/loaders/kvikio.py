"""KvikIO: its thread pool reads each file into one device buffer; tensors are views.

--set threads=N (16), --set block_bytes=BYTES of a task (16 MiB), --set cufile=0: pread instead of cuFile (1: only cuFile; default: its
own choice), --set odirect=1: O_DIRECT instead of pread, --set register=1: registers the buffers
"""
import os

import gds_top_lane as lane

kvikio = lane.need("kvikio", "kvikio-cu13")
lane.need("kvikio.defaults", "kvikio-cu13")
place = lane.device()
import torch  # noqa: E402

lane.tell(program=f"kvikio {kvikio.__version__}, torch {torch.__version__}")
block = lane.setting("block_bytes", 16 << 20)
mode = {0: "ON", 1: "OFF"}.get(lane.setting("cufile", -1), "AUTO")
kvikio.defaults.set({"compat_mode": getattr(kvikio.CompatMode, mode), "num_threads": lane.setting("threads", 16), "task_size": block,
                     "bounce_buffer_size": max(block, 16 << 20), "auto_direct_io_read": lane.setting("odirect", 0) != 0})
register = lane.setting("register", 0) != 0

paths = lane.files()
lane.ready()
running, tensors = [], {}
for path in paths:
    size = os.path.getsize(path)
    with lane.phase("allocate"):
        image = torch.empty(size, dtype=torch.uint8, device=place)
    if register:
        with lane.phase("register_buffer"):
            kvikio.memory_register(image)
    with lane.phase("open"):
        file = kvikio.CuFile(path, "r")
    with lane.phase("submit"):
        running.append((path, size, image, file, file.pread(image, size)))
for path, size, image, file, future in running:
    with lane.phase("transfer"):
        got = future.get()
    if got != size:
        lane.fail(f"{path}: {got} of {size} bytes were read")
    with lane.phase("release"):
        file.close()
    if register:
        with lane.phase("deregister"):
            kvikio.memory_deregister(image)
    with lane.phase("map"):
        tensors.update(lane.views(image, lane.header(path)))
lane.done(paths, place)
lane.verify(tensors, paths)
