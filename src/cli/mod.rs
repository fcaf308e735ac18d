//! Door: arguments, mode, exit code.
