//! Every form of a report and what the session says without a screen: of a race as it might really be, and of any state whatever.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any;
mod forms;
mod headless;
mod json;
#[path = "../program/mod.rs"]
mod program;
mod race;
mod recorded;
