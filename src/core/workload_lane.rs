//! A lane of a KV-cache workload: the system, the path of the bytes, settings of this lane, and the direction.

use super::access::Access;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A KV-cache system whose accesses are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvSystem {
    /// UCM's GDS proposal of October 2025: a file for each block, an operation for each tensor piece, cached handles.
    Ucm,
    /// llm-d's file-system back end: a file for each group of blocks, threads per GPU, `gds_mode` per direction.
    Llmd,
    /// vLLM's file-system tier: the same files, through host memory only.
    VllmFs,
    /// LMCache's GDS back end, deprecated there: a file for each chunk, found by token hash.
    Lmcache,
    /// LMCache's GDS L1 tier: one slab file, one handle, asynchronous transfers into registered regions.
    LmcacheMp,
}

impl KvSystem {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ucm, Self::Llmd, Self::VllmFs, Self::Lmcache, Self::LmcacheMp];

    /// The name as typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ucm => "ucm",
            Self::Llmd => "llmd",
            Self::VllmFs => "vllm-fs",
            Self::Lmcache => "lmcache",
            Self::LmcacheMp => "lmcache-mp",
        }
    }

    /// Whether a file holds blocks of the paged cache, each with all layers; the others contain complete layers.
    #[must_use]
    pub const fn is_block_major(self) -> bool {
        matches!(self, Self::Llmd | Self::VllmFs)
    }

    /// Whether it stores chunks that are gathered from the paged cache and scattered into it.
    #[must_use]
    pub const fn is_chunked(self) -> bool {
        matches!(self, Self::Lmcache | Self::LmcacheMp)
    }

    /// Whether it has a path with cuFile.
    #[must_use]
    pub const fn has_cufile(self) -> bool {
        !matches!(self, Self::VllmFs)
    }
}

/// The path of the bytes of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KvPath {
    /// With cuFile, in memory that is not registered.
    Gds,
    /// With cuFile, in registered memory.
    GdsRegistered,
    /// With plain reads and writes through pinned staging.
    Disk,
    /// The same, under the name that llm-d has for it.
    Staging,
    /// To host memory and back.
    Ram,
}

impl KvPath {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gds, Self::GdsRegistered, Self::Disk, Self::Staging, Self::Ram];

    /// The name as typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gds => "gds",
            Self::GdsRegistered => "gds-registered",
            Self::Disk => "disk",
            Self::Staging => "staging",
            Self::Ram => "ram",
        }
    }
}

/// The reason why a text is not a lane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadLaneError {
    /// Not three parts between slashes.
    #[error("'{0}' is not a lane of a KV-cache workload, SYSTEM/VARIANT/DIRECTION")]
    Form(String),
    /// An unknown system.
    #[error("'{0}' is not a KV-cache workload; known workloads: {known}", known = KvSystem::ALL.map(KvSystem::name).join(", "))]
    System(String),
    /// An unknown variant.
    #[error(
        "'{0}' is not a variant; known variants: gds, gds-registered, disk (or staging) and ram, each with settings after a colon: gds:handle_cache=0"
    )]
    Path(String),
    /// An unknown direction.
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

/// A lane of a workload, written as `SYSTEM/VARIANT/DIRECTION`: `lmcache/gds:prefetch_factor=0/read`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadLane {
    /// The system.
    pub system: KvSystem,
    /// How bytes travel.
    pub path: KvPath,
    /// Settings of this lane, as typed after the path: `prefetch_factor=0:handle_cache=7`.
    pub settings: Option<String>,
    /// The direction.
    pub access: Access,
}

impl WorkloadLane {
    /// The path with the settings, as typed.
    #[must_use]
    pub fn variant(&self) -> String {
        match &self.settings {
            Some(settings) => format!("{}:{settings}", self.path.name()),
            None => self.path.name().to_owned(),
        }
    }

    /// The same lane without its direction, which distinguishes the variants of a session.
    #[must_use]
    pub fn without_direction(&self) -> String {
        format!("{}/{}", self.system.name(), self.variant())
    }

    /// Whether it calls cuFile.
    #[must_use]
    pub const fn uses_cufile(&self) -> bool {
        matches!(self.path, KvPath::Gds | KvPath::GdsRegistered)
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
