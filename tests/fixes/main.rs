//! Tests of fixes on copies of captured machines, with the library and with the program: plan, preview, apply,
//! verify, undo, and interruption at every step.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../checks/machine.rs"]
mod machine;
#[path = "../program/mod.rs"]
mod program;

mod agree;
mod bare;
mod checklist;
mod commands;
mod config;
mod consent;
mod copies;
mod cuts;
mod doca;
mod docs;
mod drivers;
mod guide;
mod kernel;
mod merging;
mod one_go;
mod origins;
mod package_manager;
mod policies;
mod properties;
mod releases;
mod right_advice;
mod root;
mod since;
mod starts;
mod statements;
mod throwaway;
mod trust;
mod udev;
