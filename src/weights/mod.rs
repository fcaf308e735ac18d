//! Safetensors: headers, shards, index, read plans; writing synthetic models. Knows no devices.
