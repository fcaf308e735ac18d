"""InstantTensor: one safe_open over all files; its tensors own their memory.

GDS_TOP_INSTANTTENSOR_BACKEND=URING, AIO, URING_BUFFERED, AIO_BUFFERED, MMAP, CUFILE or BUFFERED selects its reader (default: its own choice);
--set block_bytes=BYTES sets its chunk size, --set depth=N its queue depth, --set threads=N its number of concurrent reads.
"""
import os

import gds_top_lane as lane

package = lane.need("instanttensor", "instanttensor")
place = lane.device()
lane.program("instanttensor", "torch")
options = {}
for knob, name in (("block_bytes", "chunk_size"), ("depth", "io_depth"), ("threads", "concurrency")):
    if lane.setting(knob, 0):
        options[name] = lane.setting(knob, 0)
backend = os.environ.get("GDS_TOP_INSTANTTENSOR_BACKEND")
if backend:
    found = getattr(package.Backend, backend, None) or getattr(package.BackendPolicy, backend, None)
    if found is None:
        lane.fail(f"InstantTensor has no back end '{backend}'; it has {', '.join(one.name for one in package.Backend)}")
    options["backend"] = found

paths = lane.files()
lane.ready()
with lane.phase("open"):
    opened = package.safe_open(paths, framework="pt", device=place, **options)
    source = opened.__enter__()
with lane.phase("transfer"):
    tensors = dict(source.tensors())
chosen = getattr(source, "backend", None)
with lane.phase("release"):
    opened.__exit__(None, None, None)
lane.done(paths, place)
if chosen is not None:
    lane.tell(note=f"it read by {getattr(chosen, 'name', chosen)}")
lane.verify(tensors, paths)
