"""transformers: from_pretrained of Hugging Face with Accelerate's device_map, the plain loader of the study Mini-GDS. The folder needs config.json.

Packages are imported and the configuration is read before the clock. The load contains building the model and placing its weights.
"""
import os

import gds_top_lane as lane

transformers = lane.need("transformers", "transformers")
lane.need("accelerate", "accelerate")
place = lane.device(host=True)
lane.program("transformers", "accelerate", "torch")

paths = lane.files()
folder = os.path.dirname(os.path.abspath(paths[0])) if paths else ""
if not os.path.isfile(os.path.join(folder, "config.json")):
    lane.fail(f"there is no config.json in {folder}, and Transformers builds the model from it")
config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
names = getattr(config, "architectures", None) or ["none"]
model_class = getattr(transformers, names[0], None)
if model_class is None:
    lane.fail(f"this version of Transformers does not have the architecture of config.json: {names[0]}")
lane.ready()
with lane.phase("transfer"):
    model = model_class.from_pretrained(folder, config=config, dtype="auto", device_map={"": place or "cpu"},
                                        local_files_only=True, use_safetensors=True)
lane.done(paths, place)
tensors = dict(model.state_dict())
lane.verify(tensors, paths)
