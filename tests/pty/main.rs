//! Tests of the real program in a real pseudo-terminal: the terminal is restored after any end, keys have an effect,
//! and the output is readable.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../checks/machine.rs"]
mod machine;
#[path = "../program/mod.rs"]
mod program;

mod ends;
mod fixes;
mod looks;
mod sessions;
mod tabs;
mod terminal;
