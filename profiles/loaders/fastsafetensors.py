"""fastsafetensors: loads all files to one device with its loader, with cuFile if it supports it, otherwise with pinned memory.

--set threads=N (16), --set block_bytes=BYTES: the total pinned memory (16 MiB), --set register=0: unregistered buffers, --set cufile=0: never cuFile;
2: cuFile even without /dev/nvidia-fs0, in compat mode or with P2PDMA
"""
import os

import gds_top_lane as lane

package = lane.need("fastsafetensors", "fastsafetensors")
place = lane.device()
lane.program("fastsafetensors", "torch")
cufile = lane.setting("cufile", 1)
exists = os.path.exists
if cufile and not exists("/dev/nvidia-fs0"):
    if cufile == 2:
# This is the only condition for which it uses pread instead.
        os.path.exists = lambda path: path == "/dev/nvidia-fs0" or exists(path)
    else:
        lane.tell(note="fastsafetensors takes cuFile only where /dev/nvidia-fs0 exists, which it does not here; --set cufile=2 has it try")

paths = lane.files()
lane.ready()
with lane.phase("open"):
    loader = package.SafeTensorsFileLoader(
        None, place, bbuf_size_kb=lane.setting("block_bytes", 16 << 20) >> 10, max_threads=lane.setting("threads", 16), nogds=cufile == 0)
    loader.add_filenames({0: paths})
with lane.phase("transfer"):
    buffers = loader.copy_files_to_device(use_buf_register=lane.setting("register", 1) != 0)
with lane.phase("map"):
    tensors = {name: buffers.get_tensor(name) for name in loader.get_keys()}
lane.done(paths, place)
copier = getattr(getattr(loader, "copier_class", None), "__name__", None)
if copier:
    lane.tell(note=f"it copied by {copier}")
lane.verify(tensors, paths)
buffers.close()
loader.close()
