//! The settings with which the source systems of the KV-cache workloads were measured.

use crate::core::{KvPath, KvSystem, NixlPlugin};

impl KvSystem {
    /// A description of the system in one line.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Ucm => {
                "UCM's GDS proposal of October 2025 (its three pull requests were closed): one file per block, one operation per tensor piece, file handles cached"
            }
            Self::Llmd => {
                "llm-d's file-system back end 0.22: one file per group of blocks, threads per GPU, gds_mode per direction"
            }
            Self::VllmFs => {
                "vLLM's file-system tier: the same files with O_DIRECT into host memory, then copies to the GPU; no cuFile"
            }
            Self::Lmcache => {
                "LMCache's GDS back end, which LMCache has deprecated: one chunk file per token hash, one read per chunk into a slab"
            }
            Self::LmcacheMp => {
                "LMCache's GDS L1 tier (multi-process mode): one slab file, one handle, asynchronous transfers into registered regions"
            }
            Self::LmcacheNixl => {
                "LMCache's back end on NIXL: a pool of open files, each registered once, one transfer for several chunks"
            }
        }
    }

    /// The shape and the number of tokens with which the source system was measured.
    #[must_use]
    pub const fn usual(self) -> (&'static str, u64) {
        match self {
            Self::Ucm => ("qwq-32b", 2048),
            Self::Llmd => ("llama-3.1-8b", 10_240),
            // These two systems were not measured by their sources. The shapes are those of similar systems.
            Self::VllmFs => ("llama-3.1-8b", 10_240),
            Self::Lmcache | Self::LmcacheMp | Self::LmcacheNixl => ("llama-3.1-70b", 2048),
        }
    }

    /// The variants that are compared if the user names none.
    #[must_use]
    pub const fn usual_variants(self) -> &'static [KvPath] {
        match self {
            Self::Llmd => &[KvPath::Staging, KvPath::Ram, KvPath::Gds, KvPath::GdsRegistered],
            Self::VllmFs => &[KvPath::Disk, KvPath::Ram],
            Self::LmcacheMp => &[KvPath::Disk, KvPath::Ram, KvPath::GdsRegistered],
            Self::LmcacheNixl => &[
                KvPath::Disk,
                KvPath::Ram,
                KvPath::Nixl(NixlPlugin::Posix),
                KvPath::Nixl(NixlPlugin::Gds),
                KvPath::Nixl(NixlPlugin::GdsMt),
            ],
            Self::Ucm | Self::Lmcache => &[KvPath::Disk, KvPath::Ram, KvPath::Gds, KvPath::GdsRegistered],
        }
    }
}
