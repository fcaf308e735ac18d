//! The plugins of NIXL that read and write files.

use serde::{Deserialize, Serialize};

/// A plugin of NIXL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NixlPlugin {
    /// `GDS`: the batch calls of cuFile.
    Gds,
    /// `GDS_MT`: `cuFileRead` in threads.
    GdsMt,
    /// `POSIX`: asynchronous kernel reads into host memory.
    Posix,
}

impl NixlPlugin {
    /// Its name in NIXL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gds => "GDS",
            Self::GdsMt => "GDS_MT",
            Self::Posix => "POSIX",
        }
    }

    /// Whether it reads with cuFile.
    #[must_use]
    pub const fn uses_cufile(self) -> bool {
        matches!(self, Self::Gds | Self::GdsMt)
    }
}
