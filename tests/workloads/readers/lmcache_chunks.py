"""Reads or writes chunks with LMCache's own code, without a GPU.

lmcache_chunks.py read FOLDER:  LMCache scans the folder as at its start and loads every chunk. One JSON line per chunk.
lmcache_chunks.py write FOLDER: LMCache stores two chunks. One JSON line per chunk.

GdsBackend is built without its constructor, which needs a GPU. Its POSIX path is used, with memmove instead of
cudaMemcpy.
"""

import ctypes
import hashlib
import json
import os
import sys
import threading
from collections import OrderedDict

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.storage_backend import gds_backend
from lmcache.v1.storage_backend.gds_backend import GdsBackend


def copy(to, source, count, _kind):
    ctypes.memmove(to, source, count.value)
    return 0


def backend(folder):
    made = GdsBackend.__new__(GdsBackend)
    made.gds_path, made.gds_paths = folder, [folder]
    made.data_suffix = gds_backend._DATA_FILE_SUFFIX
    made.gds_module, made._gpu_memcpy = None, copy
    made.use_direct_io, made._use_noatime = False, True
    made.hot_lock, made.hot_cache = threading.Lock(), OrderedDict()
    made.metadata_dirs = set()
    return made


def say(key, path, shape, dtype, fmt, payload):
    print(json.dumps({
        "key": key.to_string(), "path": path, "shape": list(shape), "dtype": str(dtype), "fmt": fmt.value,
        "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest(),
    }))


def read(folder):
    made = backend(folder)
    for name in sorted(os.listdir(folder)):
        made._scan_metadata_subdir(os.path.join(folder, name), name)
    for key, entry in made.hot_cache.items():
        buffer = ctypes.create_string_buffer(entry.size)
        address = ctypes.c_void_p(ctypes.addressof(buffer))
        got = made._load_gds(entry.path, gds_backend._METADATA_MAX_SIZE, address, entry.size, 0)
        assert got == entry.size, (entry.path, got)
        found = made._key_to_path(key)[0]
        assert found == entry.path, (found, entry.path)
        say(key, entry.path, entry.shape, entry.dtype, entry.fmt, buffer.raw)


def write(folder):
    made = backend(folder)
    for number in (1, 2):
        key = CacheEngineKey("meta/Tiny model", 1, 0, number * 0x1234567890ABCDEF % (1 << 63), torch.bfloat16)
        chunk = torch.arange(2 * 3 * 64 * 32, dtype=torch.int32).to(torch.bfloat16).reshape(2, 3, 64, 32) * number
        path, _, first, second = made._key_to_path(key)
        os.makedirs(os.path.join(folder, first, second), exist_ok=True)
        metadata = made._save_gds(path, ".tmp", chunk, MemoryFormat.KV_2LTD, chunk.data_ptr(), 0)
        with open(path + gds_backend._METADATA_FILE_SUFFIX, "wb") as file:
            file.write(metadata)
        payload = ctypes.string_at(chunk.data_ptr(), chunk.nbytes)
        say(key, path, chunk.shape, chunk.dtype, MemoryFormat.KV_2LTD, payload)


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](sys.argv[2])
