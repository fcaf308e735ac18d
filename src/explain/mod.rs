//! Explains codes, keys of cufile.json, log lines, checks and fixes: meaning, causes, how to check, how to fix. The
//! tables are part of the program.

mod answer;
mod causes;
mod checks;
mod cuda_codes;
mod cufile_codes;
mod keys;
mod lines;
mod matrix;
mod modules;
mod page;
mod query;
mod render;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Cause, Fact, Kind, Remedy};
pub use query::{Unknown, explain, explain_log};
pub use render::text;
