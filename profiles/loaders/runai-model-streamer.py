"""Run:ai Model Streamer: streams all files into host memory, and copies each tensor to the device when it arrives.

--set threads=N sets RUNAI_STREAMER_CONCURRENCY; its other settings are environment variables (RUNAI_STREAMER_...).
"""
import os

import gds_top_lane as lane

threads = lane.setting("threads", 0)
if threads:
    os.environ["RUNAI_STREAMER_CONCURRENCY"] = str(threads)
# One process loads everything, so the load is not divided among processes.
os.environ.setdefault("RUNAI_STREAMER_DIST", "0")
package = lane.need("runai_model_streamer", "runai-model-streamer")
place = lane.device()
lane.program("runai-model-streamer", "torch")

paths = lane.files()
lane.ready()
tensors = {}
with package.SafetensorsStreamer() as streamer:
    with lane.phase("submit"):
        streamer.stream_files(paths, device=place)
    with lane.phase("transfer"):
        for name, tensor in streamer.get_tensors():
            tensors[name] = tensor if tensor.is_cuda else tensor.to(place)
lane.done(paths, place)
lane.verify(tensors, paths)
