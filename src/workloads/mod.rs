//! Workloads that do not load a model: the KV caches of several systems (`kv`) and the storage grid (`io`). Both use
//! the same run life cycle as engines.

pub mod io;
pub mod kv;
