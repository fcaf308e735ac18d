//! Engines, cache states and targets.

use super::access::Access;
use super::nixl_plugin::NixlPlugin;
use super::workload_lane::{KvPath, WorkloadLane};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A method to load a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Maps the file and copies each tensor from the mapping.
    Mmap,
    /// Threads read through the page cache into a pinned ring.
    Pread,
    /// `O_DIRECT` reads into a pinned ring.
    Odirect,
    /// Registers, submits, waits and deregisters for each tensor, as NIXL does.
    GdsPerTensor,
    /// `cuFileRead` into unregistered memory.
    GdsBounce,
    /// Threads call `cuFileRead` with large aligned blocks into one registered slab.
    GdsSlab,
    /// Uses `cuFileBatchIOSubmit`.
    GdsBatch,
    /// Uses `cuFileReadAsync` on CUDA streams.
    GdsStream,
    /// Loads with the NIXL library and one of its file plugins.
    Nixl(NixlPlugin),
    /// Chooses the fastest engine for this path, machine and cache state.
    Auto,
    /// Runs a command line that loads the model and measures its process.
    Command(String),
    /// Runs a loader with a script of gds-top (see [`LOADERS`]) and measures it like a command.
    Loader(String),
    /// A variant of a KV-cache workload.
    Workload(WorkloadLane),
}

/// The names of the loaders with a script. They are the published packages that load safetensors files.
pub const LOADERS: [&str; 7] = [
    "safetensors",
    "fastsafetensors",
    "runai-model-streamer",
    "instanttensor",
    "kvikio",
    "torch-cuda-gds",
    "transformers",
];

impl Engine {
    /// Whether it is the process of another program, which is measured from outside.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        matches!(self, Self::Command(_) | Self::Loader(_))
    }

    /// Whether it is a store in host memory, which a workload uses for comparison.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Workload(WorkloadLane { path: KvPath::Ram, .. }))
    }

    /// The plugin of NIXL that it uses. `None` without NIXL.
    #[must_use]
    pub const fn nixl_plugin(&self) -> Option<NixlPlugin> {
        match self {
            Self::Nixl(plugin) => Some(*plugin),
            Self::Workload(WorkloadLane { path: KvPath::Nixl(plugin), .. }) => Some(*plugin),
            _ => None,
        }
    }

    /// The direction of a workload. `None` for engines that load models.
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
    /// The page cache is dropped before the run.
    Cold,
    /// The files are read into the page cache before the run.
    Hot,
    /// The page cache is not changed before the run.
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

/// The memory in which the bytes are stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Target {
    /// Memory of the GPU with this CUDA ordinal.
    Gpu {
        /// The ordinal of the GPU in CUDA.
        ordinal: u32,
        /// The UUID as NVML prints it, `GPU-…`. `None` if it is unknown.
        uuid: Option<String>,
        /// The marketing name.
        name: String,
    },
    /// Host memory. It is used if there is no GPU, or on request.
    Host,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu { ordinal, name, .. } => write!(f, "{name} (GPU {ordinal})"),
            Self::Host => f.pad(HOST_MEMORY),
        }
    }
}

/// The target of a finished run. In JSON it is a string: the names of the GPUs, or `host memory`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum TargetName {
    /// The marketing name of a GPU, or the names of several.
    Gpu(String),
    /// Host memory.
    Host,
}

const HOST_MEMORY: &str = "host memory";

impl TargetName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gpu(name) => name,
            Self::Host => HOST_MEMORY,
        }
    }
}

impl From<&Target> for TargetName {
    fn from(target: &Target) -> Self {
        match target {
            Target::Gpu { name, .. } => Self::Gpu(name.clone()),
            Target::Host => Self::Host,
        }
    }
}

impl From<String> for TargetName {
    fn from(name: String) -> Self {
        if name == HOST_MEMORY { Self::Host } else { Self::Gpu(name) }
    }
}

impl From<&str> for TargetName {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<TargetName> for String {
    fn from(name: TargetName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn target_of_a_run_is_a_string_in_json() {
        for (name, json) in [(TargetName::Host, "host memory"), (TargetName::Gpu("NVIDIA H200".into()), "NVIDIA H200")]
        {
            assert_eq!(serde_json::to_value(&name).unwrap(), json);
            assert_eq!(serde_json::from_value::<TargetName>(json.into()).unwrap(), name);
        }
    }

    #[test]
    fn cache_states_parse_back() {
        for state in [CacheState::Cold, CacheState::Hot, CacheState::AsIs] {
            assert_eq!(state.to_string().parse::<CacheState>().unwrap(), state);
        }
    }
}
