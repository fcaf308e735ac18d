//! The result of watching a program: its answer, facts, tables and advice.

mod advice;
pub(super) mod answer;
mod file;
mod tables;

pub use advice::advice;
pub use answer::{UNPROVEN, answer, end, facts};
pub use file::{is_of_cufile, proof};
pub(super) use file::{name, route};
pub use tables::tables;
