//! Engine names, cache states and targets as they are typed and reported.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way of loading a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Map the file and copy each tensor out of the mapping.
    Mmap,
    /// Threads read through the page cache into a pinned ring.
    Pread,
    /// O_DIRECT reads into a pinned ring.
    Direct,
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
    /// A loader that comes with a script of ours (see [`LOADERS`]), measured as a command is.
    Loader(String),
    /// A lane of a workload, `WORKLOAD/VARIANT/DIRECTION`: `lmcache/gds/read`.
    Workload(String),
}

/// Loaders that come with a script, by name: the published packages that load safetensors files.
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
    /// The engines with a fixed name, in the order in which tables name them.
    pub const NAMED: [Self; 12] = [
        Self::Mmap,
        Self::Pread,
        Self::Direct,
        Self::GdsPerTensor,
        Self::GdsBounce,
        Self::GdsSlab,
        Self::GdsBatch,
        Self::GdsStream,
        Self::Nixl(NixlPlugin::Gds),
        Self::Auto,
        Self::Nixl(NixlPlugin::GdsMt),
        Self::Nixl(NixlPlugin::Posix),
    ];

    /// Whether the engine needs libcufile.
    #[must_use]
    pub fn uses_cufile(&self) -> bool {
        match self {
            Self::Workload(name) => name.split('/').nth(1).is_some_and(|variant| variant.starts_with("gds")),
            _ => {
                matches!(self, Self::GdsPerTensor | Self::GdsBounce | Self::GdsSlab | Self::GdsBatch | Self::GdsStream)
            }
        }
    }

    /// Its name in a session that is about one workload: of a lane of that its variant, of an engine its name.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Workload(lane) => lane.split('/').nth(1).unwrap_or(lane).to_owned(),
            _ => self.to_string(),
        }
    }

    /// The direction of a workload's lane, `read` or `write`; `None` for engines that load models.
    #[must_use]
    pub fn direction(&self) -> Option<&str> {
        match self {
            Self::Workload(name) => name.split('/').nth(2),
            _ => None,
        }
    }

    /// Its place among the eleven colours of lanes: the order of [`Self::NAMED`], the plugins of NIXL as one, then everything outside.
    #[must_use]
    pub fn place(&self) -> usize {
        let like = if matches!(self, Self::Nixl(_)) { &Self::Nixl(NixlPlugin::Gds) } else { self };
        Self::NAMED[..10].iter().position(|engine| engine == like).unwrap_or(10)
    }

    /// Whether the lane opens cuFile: to use it, or to read its statistics beside a library that does.
    #[must_use]
    pub fn opens_cufile(&self) -> bool {
        self.uses_cufile() || matches!(self, Self::Nixl(plugin) if plugin.uses_cufile())
    }

    /// Whether it is a process of somebody else's, watched from outside.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        matches!(self, Self::Command(_) | Self::Loader(_))
    }

    /// One line that says what the engine does.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match self {
            Self::Mmap => "map the file, copy each tensor from the mapping",
            Self::Pread => "threads read through the page cache into a pinned ring, copies overlap",
            Self::Direct => "O_DIRECT reads into a pinned ring, copies overlap",
            Self::GdsPerTensor => "cuFile, tensor by tensor: register, submit, wait, deregister",
            Self::GdsBounce => "cuFile into unregistered memory",
            Self::GdsSlab => "cuFile into one slab, coalesced aligned reads over threads",
            Self::GdsBatch => "cuFile batch I/O",
            Self::GdsStream => "cuFile asynchronous reads on streams",
            Self::Nixl(NixlPlugin::Gds) => "the NIXL library, tensor by tensor, by its plugin GDS (cuFile batches)",
            Self::Nixl(NixlPlugin::GdsMt) => {
                "the NIXL library, tensor by tensor, by its plugin GDS_MT (threads over cuFile)"
            }
            Self::Nixl(NixlPlugin::Posix) => "the NIXL library, tensor by tensor, by its plugin POSIX (host memory)",
            Self::Auto => "the fastest for this path, machine and cache state",
            Self::Command(_) => "a command, measured from outside",
            Self::Loader(_) => "a published loader by its script, measured from outside",
            Self::Workload(_) => "a lane of a workload",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mmap => "mmap",
            Self::Pread => "pread",
            Self::Direct => "direct",
            Self::GdsPerTensor => "gds-per-tensor",
            Self::GdsBounce => "gds-bounce",
            Self::GdsSlab => "gds-slab",
            Self::GdsBatch => "gds-batch",
            Self::GdsStream => "gds-stream",
            Self::Nixl(NixlPlugin::Gds) => "nixl",
            Self::Nixl(NixlPlugin::GdsMt) => "nixl:GDS_MT",
            Self::Nixl(NixlPlugin::Posix) => "nixl:POSIX",
            Self::Auto => "auto",
            Self::Command(line) => return write!(f, "command:{line}"),
            Self::Loader(name) => return write!(f, "loader:{name}"),
            Self::Workload(name) => name,
        })
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(line) = text.strip_prefix("command:") {
            return if line.trim().is_empty() {
                Err("'command:' needs a command line after the colon".to_owned())
            } else {
                Ok(Self::Command(line.to_owned()))
            };
        }
        if let Some(name) = text.strip_prefix("loader:") {
            return if LOADERS.contains(&name) {
                Ok(Self::Loader(name.to_owned()))
            } else {
                Err(format!(
                    "'{name}' is no loader with a script; known are {}; any other runs as command:LINE",
                    LOADERS.join(", ")
                ))
            };
        }
        if text == "nixl:GDS" {
            return Ok(Self::Nixl(NixlPlugin::Gds));
        }
        // Three parts between slashes, the last a direction: no other engine is written so.
        let parts: Vec<&str> = text.split('/').collect();
        if let [workload, variant, "read" | "write"] = parts.as_slice()
            && !workload.is_empty()
            && !variant.is_empty()
        {
            return Ok(Self::Workload(text.to_owned()));
        }
        Self::NAMED.into_iter().find(|engine| engine.to_string() == text).ok_or_else(|| {
            let known: Vec<String> = Self::NAMED.iter().map(ToString::to_string).collect();
            format!("'{text}' is no engine; known are {}, loader:NAME and command:LINE", known.join(", "))
        })
    }
}

impl Serialize for Engine {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Engine {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What the page cache holds of the model before a run.
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
            _ => Err(format!("'{text}' is no cache state; known are cold, hot, as-is")),
        }
    }
}

/// Where the bytes land.
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
    /// Host memory, because there is no GPU or because it was asked for.
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
    fn names_parse_back_to_the_engine_they_print() {
        for engine in Engine::NAMED {
            assert_eq!(engine.to_string().parse::<Engine>().unwrap(), engine);
        }
        let lane = Engine::Workload("lmcache/gds:prefetch_factor=0/read".to_owned());
        assert_eq!(lane.to_string().parse::<Engine>().unwrap(), lane);
        assert!(lane.uses_cufile() && lane.direction() == Some("read"));
        assert!("lmcache//read".parse::<Engine>().is_err() && "a/b/c".parse::<Engine>().is_err());
        let command = Engine::Command("python3 load.py".to_owned());
        assert_eq!(command.to_string().parse::<Engine>().unwrap(), command);
        for name in LOADERS {
            let loader = format!("loader:{name}").parse::<Engine>().unwrap();
            assert_eq!((loader.to_string(), loader.is_outside()), (format!("loader:{name}"), true));
        }
        assert_eq!("nixl:GDS".parse(), Ok(Engine::Nixl(NixlPlugin::Gds)));
    }

    #[test]
    fn an_unknown_engine_is_answered_with_the_known_ones() {
        let said = "gds".parse::<Engine>().unwrap_err();
        assert!(said.contains("gds-per-tensor") && said.contains("mmap"), "{said}");
        assert!("command: ".parse::<Engine>().is_err());
        assert!("loader:vllm".parse::<Engine>().unwrap_err().contains("fastsafetensors"));
    }

    #[test]
    fn cache_states_parse_back() {
        for state in [CacheState::Cold, CacheState::Hot, CacheState::AsIs] {
            assert_eq!(state.to_string().parse::<CacheState>().unwrap(), state);
        }
    }
}
