//! The request of a user: the workload and the options of `bench-kv`.

use super::mode::GdsMode;
use crate::core::{FallbackReason, KvSystem};

/// The request of a user.
#[derive(Clone, Debug)]
pub struct Request {
    /// The system.
    pub kind: KvSystem,
    /// The shape by name or file; `None` for the default of the source system.
    pub shape: Option<String>,
    /// Tokens per sequence; `None` for the default of the source system.
    pub tokens: Option<u64>,
    /// Number of sequences.
    pub batch: u64,
    /// Share of each sequence that is stored, 0 to 1.
    pub hit_rate: f64,
    /// Seed of contents, tokens and slots.
    pub seed: u64,
    /// llm-d's `gds_mode`, which determines the variant of each direction.
    pub gds_mode: Option<GdsMode>,
    /// Variants, with settings after colons. If empty, the default variants of the workload are used.
    pub variants: Vec<String>,
    /// `NAME=A,B`: runs every variant once with each value.
    pub compare: Option<String>,
    /// Settings for all runs, `NAME=NUMBER`.
    pub settings: Vec<String>,
    /// Whether to write and whether to read.
    pub directions: (bool, bool),
    /// A fallback to cause on purpose.
    pub provoke: Option<FallbackReason>,
    /// cufile.json for the runs: the name of a shipped file, a path, or `none`. `None`: the file of the workload.
    pub cufile_json: Option<String>,
    /// Whether to read the existing files in the directory without writing first.
    pub as_found: bool,
}

impl Request {
    /// The request with which the source system was measured, for writing and reading.
    #[must_use]
    pub const fn usual(kind: KvSystem) -> Self {
        Self {
            kind,
            shape: None,
            tokens: None,
            batch: 1,
            hit_rate: 1.0,
            seed: 0,
            gds_mode: None,
            variants: Vec::new(),
            compare: None,
            settings: Vec::new(),
            directions: (true, true),
            provoke: None,
            cufile_json: None,
            as_found: false,
        }
    }
}
