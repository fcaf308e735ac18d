//! Workloads that are not a model: the KV caches of four systems (`kv`) and the storage grid (`io`). Both run on the engines' run life cycle.

pub mod io;
pub mod kv;
