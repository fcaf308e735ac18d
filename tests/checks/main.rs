//! Tests the results of the checks: for the fixtures in `tests/machines`, for changed fixtures, for the machine that
//! runs the tests, and for captures of each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adversary;
mod advice;
mod capture;
mod captured;
mod classes;
mod coverage;
mod expected;
mod fabric;
mod faults;
mod field;
mod fixtures;
mod folder;
mod forged;
mod gds_diag;
mod healthy;
mod incomplete;
mod live;
mod machine;
#[path = "../program/mod.rs"]
mod program;
mod remedies;
mod secrets;
mod sentences;
#[path = "../program/spread.rs"]
mod spread;
mod symbols;
