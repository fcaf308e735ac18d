//! The KV-cache systems whose access patterns are run.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A KV-cache system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// UCM's NFS store with GDS: a file a block, an operation a tensor piece, cached handles.
    Ucm,
    /// llm-d's file-system back end: a file a group of blocks, threads per GPU, staging as the fall-back.
    Llmd,
    /// LMCache's GDS back end: chunk files found by token hash, read layer by layer.
    Lmcache,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ucm, Self::Llmd, Self::Lmcache];

    /// The name as typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ucm => "ucm",
            Self::Llmd => "llmd",
            Self::Lmcache => "lmcache",
        }
    }

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

    /// The variants that are compared where none are named.
    #[must_use]
    pub const fn usual_variants(self) -> [&'static str; 4] {
        match self {
            Self::Llmd => ["staging", "ram", "gds", "gds-registered"],
            _ => ["disk", "ram", "gds", "gds-registered"],
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            format!("'{text}' is no KV-cache workload; known are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
