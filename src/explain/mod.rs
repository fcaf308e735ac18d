//! Explains codes, keys of cufile.json, lines of logs, checks and fixes: meaning, causes, how to check, how to fix. All of it is compiled in.

mod causes;
mod checks;
mod cuda_codes;
mod cufile_codes;
mod keys;
mod lines;
mod matrix;
mod page;
mod query;
mod render;
#[cfg(test)]
mod tests;

pub use query::{Unknown, explain, explain_log};
pub use render::text;

use serde::Serialize;

/// The subject of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A code of libcufile.
    CufileCode,
    /// A code of the CUDA driver or runtime.
    CudaCode,
    /// An error number of the operating system.
    SystemError,
    /// A key of cufile.json.
    Key,
    /// A variable of libcufile.
    Variable,
    /// A line of a log or of a program.
    Line,
    /// A check.
    Check,
    /// A fix.
    Fix,
    /// A class of GPUs of the support matrix.
    GpuClass,
    /// A kind of storage of the support matrix.
    Storage,
    /// A class of GPUs with a kind of storage.
    Pair,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The kind of its subject.
    pub kind: Kind,
    /// Its name: `CU_FILE_INTERNAL_ERROR`, `properties.io_batchsize`, the line.
    pub name: String,
    /// The number of a code.
    pub code: Option<i32>,
    /// The meaning, a sentence without a full stop.
    pub meaning: String,
    /// Facts, such as type and default of a key.
    pub facts: Vec<Fact>,
    /// Causes, the most likely first.
    pub causes: Vec<Cause>,
    /// A command that shows the state.
    pub how_to_check: Option<String>,
    /// The fix.
    pub fix: Option<Remedy>,
    /// Further advice.
    pub advice: Option<String>,
}

/// A named fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The cause.
    pub cause: String,
    /// The check that finds it.
    pub check: Option<&'static str>,
    /// A command that shows it.
    pub how_to_check: Option<String>,
    /// The fix.
    pub fix: Option<Remedy>,
    /// The remedy without a fix, or in addition to it.
    pub advice: Option<String>,
}

/// A fix of gds-top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Its id.
    pub id: String,
    /// The command that shows and applies it.
    pub command: String,
    /// Its effect.
    pub does: String,
}
