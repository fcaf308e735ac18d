//! Tests of every report format and of the headless output, for a realistic race and for random states.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any;
mod forms;
mod headless;
mod json;
#[path = "../program/mod.rs"]
mod program;
mod race;
mod recorded;
