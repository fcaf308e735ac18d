//! Eyes: a read-only view of a machine, live or captured in a folder. Reads, never judges.
