//! The order of a run, and its name: workload, variant, settings and direction.

use super::params::{self, KvSetting};
use super::shape::Shape;
use crate::core::{Access, FallbackReason, KvPath, KvSystem, NixlPlugin, WorkloadLane, WorkloadLaneError};
use crate::trust::FileId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The method that moves the bytes between target and store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// With cuFile.
    Gds,
    /// With plain reads and writes through pinned staging memory.
    Plain,
    /// To host memory and back.
    Ram,
    /// With NIXL and this plugin.
    Nixl(NixlPlugin),
}

/// The parts of a run's name that the workload needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaneName {
    pub(super) lane: WorkloadLane,
    pub(super) method: Method,
    /// Whether the variant registers buffers; `None` if its name does not determine this.
    pub(super) registers: Option<bool>,
    /// The settings in the name of the variant.
    pub(super) settings: BTreeMap<KvSetting, u64>,
    pub(super) write: bool,
}

impl LaneName {
    pub(super) fn new(lane: WorkloadLane) -> Result<Self, String> {
        let method = match lane.path {
            KvPath::Gds | KvPath::GdsRegistered => Method::Gds,
            KvPath::Disk | KvPath::Staging => Method::Plain,
            KvPath::Ram => Method::Ram,
            KvPath::Nixl(plugin) => Method::Nixl(plugin),
        };
        if !lane.system.has(lane.path) {
            let known: Vec<&str> =
                KvPath::ALL.into_iter().filter(|path| lane.system.has(*path)).map(KvPath::name).collect();
            let (system, path) = (lane.system.name(), lane.path.name());
            return Err(format!("{system} has no variant {path}; its variants: {}", known.join(", ")));
        }
        let registers = (method == Method::Gds).then_some(lane.path == KvPath::GdsRegistered);
        let mut settings = BTreeMap::new();
        for setting in lane.settings.iter().flat_map(|all| all.split(':')).filter(|one| !one.is_empty()) {
            let (name, value) = params::parse(lane.system, setting)?;
            settings.insert(name, value);
        }
        let write = lane.access == Access::Write;
        Ok(Self { lane, method, registers, settings, write })
    }
}

impl FromStr for LaneName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text.parse().map_err(|error: WorkloadLaneError| error.to_string())?)
    }
}

impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lane.fmt(f)
    }
}

/// The order for every run of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KvOrder {
    /// The system.
    pub kind: KvSystem,
    /// The shape of the cache.
    pub shape: Shape,
    /// Tokens per sequence.
    pub tokens: u64,
    /// Number of sequences.
    pub batch: u64,
    /// Share of each sequence that is stored, 0 to 1.
    pub hit_rate: f64,
    /// Seed of contents, tokens and slots.
    pub seed: u64,
    /// The private directory with the files.
    pub folder: PathBuf,
    /// The identity of that directory, so that another directory with its name is not used. `None` until the directory is
    /// created.
    pub folder_id: Option<FileId>,
    /// Settings for all runs.
    pub settings: BTreeMap<KvSetting, u64>,
    /// A fallback that is caused on purpose.
    pub provoke: Option<FallbackReason>,
    /// Whether a reading run writes the files itself before the clock starts, because no earlier run wrote them.
    pub prepare: bool,
}

impl KvOrder {
    /// The settings of a run: the defaults, overridden by those of the order, overridden by those of the variant.
    pub(super) fn settings(&self, lane: &LaneName) -> Settings {
        let mut all: BTreeMap<KvSetting, u64> =
            params::parameters(self.kind).iter().map(|p| (p.setting, p.default)).collect();
        all.extend(&self.settings);
        // `--set` applies to all runs. The name of a variant determines whether buffers are registered, unless its
        // settings do. The settings determine how they are registered.
        match (lane.registers, self.settings.get(&KvSetting::Register)) {
            (Some(true), Some(1..)) | (None, _) => {}
            (Some(registers), _) => {
                all.insert(KvSetting::Register, u64::from(registers));
            }
        }
        all.extend(&lane.settings);
        Settings(all)
    }
}

/// The values of all settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings(pub(super) BTreeMap<KvSetting, u64>);

impl Settings {
    /// The value of a setting; 0 if this workload does not have it.
    pub(super) fn get(&self, setting: KvSetting) -> u64 {
        self.0.get(&setting).copied().unwrap_or(0)
    }

    pub(super) fn on(&self, setting: KvSetting) -> bool {
        self.get(setting) != 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lanes_name_gives_its_path_its_settings_and_its_direction() {
        let lane: LaneName = "lmcache/gds:prefetch_factor=0:handle_cache=7/read".parse().unwrap();
        assert_eq!((lane.method, lane.registers, lane.write), (Method::Gds, Some(false), false));
        assert_eq!((lane.settings[&KvSetting::PrefetchFactor], lane.settings[&KvSetting::HandleCache]), (0, 7));
        let lane: LaneName = "ucm/gds-registered/write".parse().unwrap();
        assert_eq!((lane.registers, lane.write), (Some(true), true));
        assert!("ucm/gds:prefetch_factor=1/read".parse::<LaneName>().is_err());
    }

    #[test]
    fn whether_buffers_are_registered_is_the_variants_word_and_how_is_the_settings() {
        let registers = |variant: &str, set: Option<u64>| {
            let set: Vec<(&str, u64)> = set.map(|value| ("register", value)).into_iter().collect();
            let order = crate::workloads::kv::layout::tests::order(KvSystem::Llmd, 512, 1, &set);
            order.settings(&format!("llmd/{variant}/read").parse().unwrap()).get(KvSetting::Register)
        };
        assert_eq!((registers("gds", None), registers("gds-registered", None)), (0, 1));
        assert_eq!((registers("gds", Some(2)), registers("gds-registered", Some(2))), (0, 2));
        assert_eq!((registers("gds:register=2", Some(0)), registers("gds-registered", Some(0))), (2, 1));
    }

    #[test]
    fn reasons_to_fall_back_are_typed_with_either_dash() {
        assert_eq!("no-odirect".parse(), Ok(FallbackReason::NoOdirect));
        assert_eq!("operation_failed".parse(), Ok(FallbackReason::OperationFailed));
        assert!("rain".parse::<FallbackReason>().unwrap_err().contains("init_failed"));
    }
}
