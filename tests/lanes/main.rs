//! Engines and lanes from outside: the program runs as a lane process, as its session would run it, and its reports
//! are compared with the files. On host memory, on stand-ins for CUDA and cuFile, and on the real libcufile of its
//! public wheels.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../program/mod.rs"]
mod program;
#[path = "../standins/mod.rs"]
mod standins;

mod changes;
mod gpu;
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
mod threads;
