"""Stand-in for kvikio.defaults."""
import kvikio

KNOWN = {"compat_mode": kvikio.CompatMode, "num_threads": int, "task_size": int, "bounce_buffer_size": int, "auto_direct_io_read": bool}


def set(config, /):
    for name, value in config.items():
        assert isinstance(value, KNOWN[name]), name
