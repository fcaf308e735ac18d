//! An answer: meaning, facts, causes and remedies.

use serde::Serialize;

/// The subject of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An error code of libcufile.
    CufileCode,
    /// An error code of the CUDA driver or runtime.
    CudaCode,
    /// An error number of the operating system.
    SystemError,
    /// A key of cufile.json.
    Key,
    /// An environment variable of libcufile.
    Variable,
    /// A line of a log or of a program's output.
    Line,
    /// A check.
    Check,
    /// A fix.
    Fix,
    /// A route of reads.
    Route,
    /// An engine of 'bench'.
    Engine,
    /// A class of GPUs of the support matrix.
    GpuClass,
    /// A kind of storage of the support matrix.
    Storage,
    /// A class of GPUs together with a kind of storage.
    Pair,
}

/// The explanation of one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The kind of its subject.
    pub kind: Kind,
    /// Its name: `CU_FILE_INTERNAL_ERROR`, `properties.io_batchsize`, the line.
    pub name: String,
    /// The number, if the subject is a code.
    pub code: Option<i32>,
    /// The meaning. It is a sentence without a full stop.
    pub meaning: String,
    /// Further facts, such as the type and the default of a key.
    pub facts: Vec<Fact>,
    /// The causes, the most likely first.
    pub causes: Vec<Cause>,
    /// A command that shows the current state.
    pub how_to_check: Option<String>,
    /// The fix.
    pub fix: Option<Remedy>,
    /// Further advice.
    pub advice: Option<String>,
}

/// A fact with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// A possible cause.
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
    /// The advice if there is no fix, or in addition to the fix.
    pub advice: Option<String>,
}

/// A fix of gds-top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Its id.
    pub id: String,
    /// The command that previews and applies it.
    pub command: String,
    /// Its effect.
    pub does: String,
}
