//! Tests of workloads that do not load a model, from outside: the storage grid and KV caches, on host memory and with
//! stand-ins for CUDA and cuFile. Nothing is measured.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../program/mod.rs"]
mod program;
#[path = "../standins/mod.rs"]
mod standins;

mod io;
mod kv;
mod kv_async;
mod kv_faults;
mod kv_layers;
mod kv_nixl;
mod matrix;
mod place;
mod readers;
