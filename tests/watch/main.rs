//! Tests of `gds-top watch` with C programs that use a stand-in for libcufile, or the real one on host memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../program/mod.rs"]
mod program;
#[path = "../standins/mod.rs"]
mod standins;

mod advice;
mod attach;
mod ends;
mod files;
mod harness;
mod incomplete;
mod outputs;
mod plain;
mod programs;
mod real;
mod routes;
mod survivors;
mod timeline;
mod unrecorded;
mod wheels;
