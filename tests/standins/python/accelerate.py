"""Stand-in for accelerate, which transformers needs for device_map."""
