//! Voice: the same session on standard output and standard error.
