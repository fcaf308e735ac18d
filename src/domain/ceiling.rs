//! Ceilings: rates that no load can exceed here, measured in the same session.

use serde::{Deserialize, Serialize};

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// Copies from pinned host memory to the GPU.
    PinnedCopy,
    /// O_DIRECT reads of the model's files by a plain reader, without a target.
    DirectRead,
    /// Reads of the model's files from the page cache by a plain reader, without a target.
    CachedRead,
}

impl CeilingKind {
    /// As it is called in sentences: `the pinned copy rate`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::PinnedCopy => "pinned copy rate",
            Self::DirectRead => "O_DIRECT read rate",
            Self::CachedRead => "page-cache read rate",
        }
    }
}

/// A measured ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// What.
    pub kind: CeilingKind,
    /// UUID or ordinal of the GPU, for copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Name of the model, for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The rate.
    pub bytes_per_s: f64,
    /// How it was reached: block size, threads.
    pub how: String,
    /// How long measuring it took.
    pub took_ns: u64,
    /// The plain reader's best setting, for O_DIRECT reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<ReaderSetting>,
    /// Reads of the whole files in turn with the cold loads that are held against them; the rate is then the median of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<ReadPass>,
}

/// How a plain reader reads: each thread one block after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaderSetting {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Threads, which is as many reads in flight.
    pub threads: u64,
}

/// One read of all files of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadPass {
    /// The repeat of the loads that it went before.
    pub round: u32,
    /// Its rate.
    pub bytes_per_s: f64,
}
