//! The real program in a real pseudo-terminal: whatever ends it, the terminal is whole again; what is pressed is done, and what is shown can be read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../checks/machine.rs"]
mod machine;
#[path = "../program/mod.rs"]
mod program;

mod ends;
mod fixes;
mod looks;
mod sessions;
mod terminal;
