"""Computes file names with the file mapper of llm-d's connector.

llmd_files.py CONNECTOR FOLDER NAME: reads config.json of the model in FOLDER, and prints the path of the file with this hash
below FOLDER as llm-d names it. With NAME 'write', llm-d's mapper describes a model and one file of it is created.

The mapper imports vLLM for two functions and for the types of its arguments. They are replaced here, because vLLM needs
a GPU. The two functions split a key as vLLM does: the hash, and four bytes with the number of the group.
"""

import glob
import importlib.util
import json
import os
import sys
import types

for name in ("vllm", "vllm.config", "vllm.v1", "vllm.v1.kv_cache_interface", "vllm.v1.kv_offload",
             "vllm.v1.kv_offload.base"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["vllm.config"].VllmConfig = object
sys.modules["vllm.v1.kv_cache_interface"].KVCacheConfig = object
base = sys.modules["vllm.v1.kv_offload.base"]
base.OffloadKey = bytes
base.get_offload_block_hash = lambda key: key[:-4]
base.get_offload_group_idx = lambda key: int.from_bytes(key[-4:], "big")

connector, folder, wanted = sys.argv[1:4]
spec = importlib.util.spec_from_file_location("file_mapper", os.path.join(connector, "llmd_fs_backend/file_mapper.py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


def mapper(fields):
    return module.FileMapper(root_dir=folder, rank=0, **fields)


if wanted == "write":
    groups = [{"block_size": 16, "layer_names": ["model.layers.0.self_attn.attn"]}]
    made = mapper({
        "model_name": "meta/Tiny", "hash_block_size": 16, "gpu_blocks_per_file": 16, "tp_size": 1, "pp_size": 1,
        "pcp_size": 1, "dcp_size": 1, "dtype": "bfloat16", "kv_cache_groups": groups,
    })
    made.write_run_config()
    path = made.get_file_name(bytes(range(32)) + bytes(4))
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(b"x" * 4096)
else:
    with open(glob.glob(os.path.join(folder, "*", "config.json"))[0]) as file:
        fields = json.load(file)
    path = mapper(fields).get_file_name(bytes.fromhex(wanted) + bytes(4))
print(os.path.relpath(path, folder))
