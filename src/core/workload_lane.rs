//! A variant of a KV-cache workload: the system, the path of the bytes, the settings and the direction.

use super::access::Access;
use super::nearest::hint;
use super::nixl_plugin::NixlPlugin;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A KV-cache system whose accesses gds-top repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvSystem {
    /// UCM's GDS proposal of October 2025: one file per block, one operation per piece of a tensor, cached handles.
    Ucm,
    /// llm-d's file-system back end: one file per group of blocks, threads per GPU, `gds_mode` per direction.
    Llmd,
    /// vLLM's file-system tier: the same files as llm-d, through host memory only.
    VllmFs,
    /// LMCache's GDS back end, which LMCache has deprecated: one file per chunk, found by token hash.
    Lmcache,
    /// LMCache's GDS L1 tier: one slab file, one handle, asynchronous transfers into registered regions.
    LmcacheMp,
    /// LMCache's back end on NIXL: a pool of open files, each registered once, and one transfer for several chunks.
    LmcacheNixl,
}

impl KvSystem {
    /// All systems.
    pub const ALL: [Self; 6] = [Self::Ucm, Self::Llmd, Self::VllmFs, Self::Lmcache, Self::LmcacheMp, Self::LmcacheNixl];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ucm => "ucm",
            Self::Llmd => "llmd",
            Self::VllmFs => "vllm-fs",
            Self::Lmcache => "lmcache",
            Self::LmcacheMp => "lmcache-mp",
            Self::LmcacheNixl => "lmcache-nixl",
        }
    }

    /// Whether a file contains blocks of the paged cache, each with all layers. The files of the other systems
    /// contain complete layers.
    #[must_use]
    pub const fn is_block_major(self) -> bool {
        matches!(self, Self::Llmd | Self::VllmFs)
    }

    /// Whether it stores chunks. Chunks are gathered from the paged cache and scattered into it.
    #[must_use]
    pub const fn is_chunked(self) -> bool {
        matches!(self, Self::Lmcache | Self::LmcacheMp | Self::LmcacheNixl)
    }

    /// Whether a variant with this path exists: cuFile itself for the systems that call it, NIXL for the system that
    /// is built on it, host memory and plain files for all.
    #[must_use]
    pub const fn has(self, path: KvPath) -> bool {
        match path {
            KvPath::Gds | KvPath::GdsRegistered => !matches!(self, Self::VllmFs | Self::LmcacheNixl),
            KvPath::Nixl(_) => matches!(self, Self::LmcacheNixl),
            KvPath::Disk | KvPath::Staging | KvPath::Ram => true,
        }
    }
}

/// The path of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KvPath {
    /// cuFile with unregistered memory.
    Gds,
    /// cuFile with registered memory.
    GdsRegistered,
    /// Plain reads and writes through pinned staging buffers.
    Disk,
    /// The same as `Disk`, under the name in llm-d.
    Staging,
    /// Copies to host memory and back.
    Ram,
    /// NIXL with this plugin.
    Nixl(NixlPlugin),
}

impl KvPath {
    /// All paths.
    pub const ALL: [Self; 8] = [
        Self::Gds,
        Self::GdsRegistered,
        Self::Disk,
        Self::Staging,
        Self::Ram,
        Self::Nixl(NixlPlugin::Gds),
        Self::Nixl(NixlPlugin::GdsMt),
        Self::Nixl(NixlPlugin::Posix),
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gds => "gds",
            Self::GdsRegistered => "gds-registered",
            Self::Disk => "disk",
            Self::Staging => "staging",
            Self::Ram => "ram",
            Self::Nixl(NixlPlugin::Gds) => "nixl-gds",
            Self::Nixl(NixlPlugin::GdsMt) => "nixl-gds-mt",
            Self::Nixl(NixlPlugin::Posix) => "nixl-posix",
        }
    }
}

/// The reason why a text is not a variant of a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadLaneError {
    /// The text does not have three parts between slashes.
    #[error("'{0}' is not a lane of a KV-cache workload, SYSTEM/VARIANT/DIRECTION")]
    Form(String),
    /// The system is unknown.
    #[error("'{0}' is not a KV-cache workload{near}", near = hint(.0, &KvSystem::ALL.map(KvSystem::name)))]
    System(String),
    /// The variant is unknown.
    #[error(
        "'{0}' is not a variant; known variants: gds, gds-registered, disk (or staging), ram, nixl-gds, nixl-gds-mt and nixl-posix, each with settings after a colon: gds:handle_cache=0"
    )]
    Path(String),
    /// The direction is unknown.
    #[error("'{0}' is not a direction; known directions: write and read")]
    Direction(String),
}

impl FromStr for KvSystem {
    type Err = WorkloadLaneError;

    fn from_str(text: &str) -> Result<Self, WorkloadLaneError> {
        let named = Self::ALL.into_iter().find(|system| system.name() == text);
        named.ok_or_else(|| WorkloadLaneError::System(text.to_owned()))
    }
}

/// A variant of a workload, written as `SYSTEM/VARIANT/DIRECTION`: `lmcache/gds:prefetch_factor=0/read`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadLane {
    /// The system.
    pub system: KvSystem,
    /// The path of the bytes.
    pub path: KvPath,
    /// The settings as typed after the path: `prefetch_factor=0:handle_cache=7`.
    pub settings: Option<String>,
    /// The direction.
    pub access: Access,
}

impl WorkloadLane {
    /// The path with the settings as typed.
    #[must_use]
    pub fn variant(&self) -> String {
        match &self.settings {
            Some(settings) => format!("{}:{settings}", self.path.name()),
            None => self.path.name().to_owned(),
        }
    }

    /// The name without the direction, which identifies a variant in a session.
    #[must_use]
    pub fn without_direction(&self) -> String {
        format!("{}/{}", self.system.name(), self.variant())
    }

    /// Whether it calls cuFile itself. NIXL needs a separate test.
    #[must_use]
    pub const fn uses_cufile(&self) -> bool {
        match self.path {
            KvPath::Gds | KvPath::GdsRegistered => true,
            KvPath::Disk | KvPath::Staging | KvPath::Ram | KvPath::Nixl(_) => false,
        }
    }
}

impl fmt::Display for WorkloadLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.without_direction(), self.access.name())
    }
}

impl FromStr for WorkloadLane {
    type Err = WorkloadLaneError;

    fn from_str(text: &str) -> Result<Self, WorkloadLaneError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [system, variant, direction] = parts.as_slice() else {
            return Err(WorkloadLaneError::Form(text.to_owned()));
        };
        let system = system.parse()?;
        let (path, settings) = match variant.split_once(':') {
            Some((path, settings)) => (path, Some(settings.to_owned())),
            None => (*variant, None),
        };
        let path = KvPath::ALL
            .into_iter()
            .find(|known| known.name() == path)
            .ok_or_else(|| WorkloadLaneError::Path(path.to_owned()))?;
        let access = Access::ALL
            .iter()
            .copied()
            .find(|access| access.name() == *direction)
            .ok_or_else(|| WorkloadLaneError::Direction((*direction).to_owned()))?;
        Ok(Self { system, path, settings, access })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_parses_back_to_its_text() {
        for text in
            ["lmcache/gds:prefetch_factor=0:handle_cache=7/read", "ucm/gds-registered/write", "llmd/staging/read"]
        {
            assert_eq!(text.parse::<WorkloadLane>().unwrap().to_string(), text);
        }
        let lane: WorkloadLane = "lmcache/gds:prefetch_factor=0/read".parse().unwrap();
        assert_eq!((lane.system, lane.path, lane.access), (KvSystem::Lmcache, KvPath::Gds, Access::Read));
        assert_eq!((lane.uses_cufile(), lane.settings.as_deref()), (true, Some("prefetch_factor=0")));
    }

    #[test]
    fn what_is_not_a_lane_is_refused_by_its_wrong_part() {
        use WorkloadLaneError::{Direction, Form, Path, System};
        for (text, wrong) in [
            ("vllm/gds/read", System("vllm".to_owned())),
            ("ucm/gdx/read", Path("gdx".to_owned())),
            ("ucm//read", Path(String::new())),
            ("ucm/gds/sideways", Direction("sideways".to_owned())),
            ("ucm/gds", Form("ucm/gds".to_owned())),
        ] {
            assert_eq!(text.parse::<WorkloadLane>(), Err(wrong));
        }
    }
}
