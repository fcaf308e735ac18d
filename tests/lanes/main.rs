//! Tests of engines and runs from outside. The program runs as a lane process, like in a session, and its reports are
//! compared with the files. The tests use host memory, stand-ins for CUDA and cuFile, and the real libcufile of its
//! public wheels.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../program/mod.rs"]
mod program;
#[path = "../standins/mod.rs"]
mod standins;

mod changes;
mod gpu;
mod gpu_failures;
mod harness;
mod host;
mod matrix;
mod models;
mod nixl;
mod outside;
mod probes;
mod proof;
mod race;
mod real;
mod several;
mod signals;
mod sound;
#[path = "../program/spread.rs"]
mod spread;
mod threads;
