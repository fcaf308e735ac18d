//! What the checks say of machines: of the fixtures in `tests/machines`, of others that differ from them in a few files, of the one that runs the tests,
//! and of what a capture keeps of each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adversary;
mod capture;
mod expected;
mod fabric;
mod faults;
mod field;
mod fixtures;
mod folder;
mod gds_diag;
mod healthy;
mod live;
mod machine;
#[path = "../program/mod.rs"]
mod program;
mod secrets;
mod symbols;
