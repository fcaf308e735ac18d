//! The real program in a real pseudo-terminal: after any end the terminal is restored; keys act, and the output can
//! be read.

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
