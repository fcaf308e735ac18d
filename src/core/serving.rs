//! The storage settings of a serving system: the path that bytes take, and options that have no effect.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A program whose configuration gds-top can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serving {
    /// LMCache.
    Lmcache,
    /// llm-d's file-system connector.
    Llmd,
    /// vLLM: its `--kv-transfer-config`.
    Vllm,
    /// NIXL: a back end and its parameters.
    Nixl,
}

impl Serving {
    /// All programs.
    pub const ALL: [Self; 4] = [Self::Lmcache, Self::Llmd, Self::Vllm, Self::Nixl];

    /// Its name on the command line.
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
    /// LMCache's GDS back end: one file per chunk.
    LmcacheGds,
    /// LMCache's back end on NIXL.
    LmcacheNixl,
    /// LMCache's local disk back end.
    LmcacheDisk,
    /// llm-d's file-system connector.
    Llmd,
    /// llm-d's connector with an object store, through NIXL.
    LlmdObjects,
    /// vLLM's file-system tier.
    VllmFs,
    /// vLLM's offloading to host memory.
    VllmHost,
    /// A NIXL back end.
    Nixl,
    /// The LMCache server, which has a separate configuration.
    LmcacheServer,
    /// A connector of vLLM that gds-top does not know.
    OtherConnector,
    /// The configuration names no storage.
    None,
}

/// The fallback if cuFile cannot make a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutCufile {
    /// The program does not start.
    StartFails,
    /// The program uses POSIX calls and a copy.
    Posix,
    /// If the driver does not open, the program uses pinned staging buffers. If a single transfer fails, it drops the
    /// write or ignores the read.
    StagingAtStart,
    /// The program does not use cuFile.
    NotUsed,
}

/// An option that the current version of the program ignores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredOption {
    /// The name of the option, with dots between levels.
    pub option: String,
    /// The option that replaces it. It is empty if there is none.
    pub instead: String,
}

/// A value that the program does not use as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongValue {
    /// The name of the option.
    pub option: String,
    /// The value in the configuration.
    pub value: String,
    /// The values that the program accepts.
    pub accepted: String,
    /// The value that the program uses instead. `None` if it does not start.
    pub used: Option<String>,
}

/// The storage settings of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingConfig {
    /// The program.
    pub serving: Serving,
    /// The part that stores the KV cache.
    pub store: StoreKind,
    /// The directories of the store.
    pub paths: Vec<PathBuf>,
    /// Whether reads use cuFile.
    pub cufile_reads: bool,
    /// Whether writes use cuFile.
    pub cufile_writes: bool,
    /// Whether files are opened with `O_DIRECT`.
    pub direct_io: bool,
    /// The fallback without cuFile.
    pub without_cufile: WithoutCufile,
    /// Whether the user set the use of GDS explicitly. The program then keeps it on for every file system.
    pub insists: bool,
    /// The relevant options with their values, in order.
    pub options: Vec<(String, String)>,
    /// The options that the program ignores.
    pub ignored: Vec<IgnoredOption>,
    /// The required options that are missing.
    pub missing: Vec<String>,
    /// The options that the program does not know. It ignores them.
    pub unknown: Vec<String>,
    /// The values that the program does not use as written.
    pub wrong: Vec<WrongValue>,
}

/// A directory with KV caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvStore {
    /// The system that wrote the files, as `bench-kv` names it.
    pub system: String,
    /// The number of complete files or slabs.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of incomplete files.
    pub partial: u64,
    /// The number of chunks without metadata. Their system does not find them.
    pub without_metadata: u64,
    /// The models in file names or metadata.
    pub models: Vec<String>,
    /// The dimensions of the first chunk: vectors, layers, tokens, elements. It is empty if the files have no
    /// metadata.
    pub shape: Vec<u64>,
    /// Whether the directory has more files than were examined.
    pub truncated: bool,
}
