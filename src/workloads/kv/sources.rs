//! The settings with which the sources of the KV-cache systems measured.

use crate::core::{KvPath, KvSystem};

impl KvSystem {
    /// One line that says what it is.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Ucm => {
                "UCM's store: a file a block, one operation a tensor piece, file handles cached with reference counts"
            }
            Self::Llmd => {
                "llm-d's file-system back end: a file a group of blocks, threads per GPU, fall-back to pinned staging"
            }
            Self::Lmcache => {
                "LMCache's GDS back end: chunk files found by token hash, read layer by layer ahead of computing"
            }
        }
    }

    /// The shape and the number of tokens that the source measured with.
    #[must_use]
    pub const fn usual(self) -> (&'static str, u64) {
        match self {
            Self::Ucm => ("qwq-32b", 2048),
            Self::Llmd => ("llama-3.1-8b", 10_240),
            Self::Lmcache => ("llama-3.1-70b", 2048),
        }
    }

    /// The variants that are compared if none are named.
    #[must_use]
    pub const fn usual_variants(self) -> [KvPath; 4] {
        match self {
            Self::Llmd => [KvPath::Staging, KvPath::Ram, KvPath::Gds, KvPath::GdsRegistered],
            _ => [KvPath::Disk, KvPath::Ram, KvPath::Gds, KvPath::GdsRegistered],
        }
    }
}
