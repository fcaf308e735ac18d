//! The storage part of a serving system's configuration: which path it takes, and which options have no effect.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A program whose configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serving {
    /// LMCache.
    Lmcache,
    /// llm-d's file-system connector.
    Llmd,
    /// vLLM: its `--kv-transfer-config`.
    Vllm,
    /// NIXL: a back end with parameters.
    Nixl,
}

impl Serving {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lmcache, Self::Llmd, Self::Vllm, Self::Nixl];

    /// The name as typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lmcache => "lmcache",
            Self::Llmd => "llmd",
            Self::Vllm => "vllm",
            Self::Nixl => "nixl",
        }
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Serving {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == text)
            .ok_or_else(|| format!("'{text}' is not a serving system; known: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The part of a system that moves the KV cache to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// LMCache's GDS L1 tier: one slab.
    LmcacheGdsL1,
    /// LMCache's GDS back end: a file for each chunk.
    LmcacheGds,
    /// LMCache's back end on NIXL.
    LmcacheNixl,
    /// LMCache's local disk back end.
    LmcacheDisk,
    /// llm-d's file-system connector.
    Llmd,
    /// vLLM's file-system tier.
    VllmFs,
    /// vLLM's offloading to host memory.
    VllmHost,
    /// A NIXL back end.
    Nixl,
    /// The configuration names no storage.
    None,
}

/// The fallback for a transfer that cuFile cannot make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutCufile {
    /// The program does not start.
    StartFails,
    /// The program uses POSIX calls and a copy instead.
    Posix,
    /// The program uses pinned staging, if the driver does not open; single failures drop the write or ignore the read.
    StagingAtStart,
    /// It uses no cuFile.
    NotUsed,
}

/// An option that today's version does not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredOption {
    /// The option, with dots between levels.
    pub option: String,
    /// The option that takes its place; empty if none does.
    pub instead: String,
}

/// The storage part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingConfig {
    /// The program.
    pub serving: Serving,
    /// The part that stores.
    pub store: StoreKind,
    /// The folder or folders of the store.
    pub paths: Vec<PathBuf>,
    /// Whether cuFile reads.
    pub cufile_reads: bool,
    /// Whether cuFile writes.
    pub cufile_writes: bool,
    /// Whether files are opened with O_DIRECT.
    pub direct_io: bool,
    /// The behaviour without cuFile.
    pub without_cufile: WithoutCufile,
    /// Whether the user named the use of GDS, so that the file system does not switch it off.
    pub insists: bool,
    /// Options with their values that matter here, in order.
    pub options: Vec<(String, String)>,
    /// Options that are not read.
    pub ignored: Vec<IgnoredOption>,
    /// Options without which it cannot work.
    pub missing: Vec<String>,
}

/// A folder that holds KV caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvStore {
    /// The system whose files these are, as `bench-kv` names it.
    pub system: String,
    /// Complete files, or slabs.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were not completed.
    pub partial: u64,
    /// Chunks without metadata, which their system does not find.
    pub without_metadata: u64,
    /// The models that names or descriptions mention.
    pub models: Vec<String>,
    /// The dimensions of the first chunk: vectors, layers, tokens, elements; empty if files do not describe them.
    pub shape: Vec<u64>,
    /// Whether the folder has more files than were looked at.
    pub truncated: bool,
}
