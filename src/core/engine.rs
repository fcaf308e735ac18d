//! Engines, cache states and targets.

use super::access::Access;
use super::workload_lane::WorkloadLane;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A method of loading a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Map the file and copy each tensor out of the mapping.
    Mmap,
    /// Threads read through the page cache into a pinned ring.
    Pread,
    /// O_DIRECT reads into a pinned ring.
    Odirect,
    /// Register, submit, wait, deregister for each tensor (the NIXL pattern).
    GdsPerTensor,
    /// `cuFileRead` into unregistered memory.
    GdsBounce,
    /// One slab, coalesced aligned `cuFileRead`s over threads.
    GdsSlab,
    /// `cuFileBatchIOSubmit`.
    GdsBatch,
    /// `cuFileReadAsync` on streams.
    GdsStream,
    /// The NIXL library, by one of its plugins for files.
    Nixl(NixlPlugin),
    /// The fastest of the others for this path, machine and cache state.
    Auto,
    /// Any loader as a command line, measured from outside.
    Command(String),
    /// A loader with a script of gds-top (see [`LOADERS`]), measured like a command.
    Loader(String),
    /// A lane of a KV-cache workload.
    Workload(WorkloadLane),
}

/// Loaders with a script, by name: the published packages that load safetensors files.
pub const LOADERS: [&str; 6] =
    ["safetensors", "fastsafetensors", "runai-model-streamer", "instanttensor", "kvikio", "torch-cuda-gds"];

/// A plugin of NIXL that reads files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NixlPlugin {
    /// `GDS`: cuFile's batches.
    Gds,
    /// `GDS_MT`: threads over `cuFileRead`.
    GdsMt,
    /// `POSIX`: asynchronous reads of the kernel into host memory.
    Posix,
}

impl NixlPlugin {
    /// NIXL's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gds => "GDS",
            Self::GdsMt => "GDS_MT",
            Self::Posix => "POSIX",
        }
    }

    /// Whether it reads by cuFile.
    #[must_use]
    pub const fn uses_cufile(self) -> bool {
        matches!(self, Self::Gds | Self::GdsMt)
    }
}

impl Engine {
    /// Whether it is another program's process, watched from outside.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        matches!(self, Self::Command(_) | Self::Loader(_))
    }

    /// The direction of a workload's lane; `None` for engines that load models.
    #[must_use]
    pub const fn direction(&self) -> Option<Access> {
        match self {
            Self::Workload(lane) => Some(lane.access),
            _ => None,
        }
    }
}

/// The state of the page cache before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Dropped before the run.
    Cold,
    /// Read into the page cache before the run.
    Hot,
    /// Left as found.
    AsIs,
}

impl fmt::Display for CacheState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cold => "cold",
            Self::Hot => "hot",
            Self::AsIs => "as-is",
        })
    }
}

impl FromStr for CacheState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cold" => Ok(Self::Cold),
            "hot" => Ok(Self::Hot),
            "as-is" => Ok(Self::AsIs),
            _ => Err(format!("'{text}' is not a cache state; use cold, hot or as-is")),
        }
    }
}

/// The destination of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Target {
    /// Memory of the GPU with this CUDA ordinal.
    Gpu {
        /// CUDA ordinal.
        ordinal: u32,
        /// UUID as NVML prints it, `GPU-…`, where known.
        uuid: Option<String>,
        /// Marketing name.
        name: String,
    },
    /// Host memory, because there is no GPU or on request.
    Host,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu { ordinal, name, .. } => write!(f, "{name} (GPU {ordinal})"),
            Self::Host => f.pad("host memory"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cache_states_parse_back() {
        for state in [CacheState::Cold, CacheState::Hot, CacheState::AsIs] {
            assert_eq!(state.to_string().parse::<CacheState>().unwrap(), state);
        }
    }
}
