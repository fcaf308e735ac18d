"""Stand-in for safetensors."""
