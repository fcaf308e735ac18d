//! The order of a session.

use crate::core::{CacheState, Engine, EngineSettings, GridPlan, ModelInfo, SettingOrder, WorkloadOrder};
use std::path::PathBuf;

/// Which GPU the bytes go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuChoice {
    /// The first that CUDA offers, else host memory.
    #[default]
    Auto,
    /// This NVML index.
    Index(u32),
    /// This UUID.
    Uuid(String),
    /// Host memory.
    Host,
    /// Every GPU that CUDA offers.
    All,
    /// These, in order; one may be named several times. A single model is cut over them, several models get one each,
    /// round robin.
    Several(Vec<GpuChoice>),
}

impl GpuChoice {
    /// Whether a GPU is named, so that host memory cannot take its place.
    #[must_use]
    pub fn names_a_gpu(&self) -> bool {
        match self {
            Self::Index(_) | Self::Uuid(_) => true,
            Self::Several(choices) => choices.iter().any(Self::names_a_gpu),
            Self::Auto | Self::Host | Self::All => false,
        }
    }

    /// Whether no GPU is requested.
    #[must_use]
    pub fn is_host(&self) -> bool {
        match self {
            Self::Host => true,
            Self::Several(choices) => choices.iter().all(Self::is_host),
            _ => false,
        }
    }
}

/// The storage measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridRequest {
    /// The plan; its `target` is filled in when the device is known.
    pub plan: GridPlan,
    /// Omit transfers that cannot run here, because they were not requested by name.
    pub able_only: bool,
    /// The libcufile to use; searched where absent.
    pub libcufile: Option<PathBuf>,
    /// Seed of the files' content.
    pub seed: u64,
}

/// A workload that is run in place of a model's load: its lanes are processes as engines are, and its pieces take the
/// place of tensors.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// The files and pieces, as a model.
    pub model: ModelInfo,
    /// The lanes, in order; those that need cuFile are left out if it cannot serve the target.
    pub lanes: Vec<Engine>,
    /// The order of each lane.
    pub order: WorkloadOrder,
    /// Parts of the request that cannot be met.
    pub warnings: Vec<String>,
}

/// The configuration of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// This program, which lanes and probes are children of.
    pub exe: PathBuf,
    /// The model as the user named it; `None` for the small synthetic one.
    pub model: Option<String>,
    /// Further models: each is loaded alone, then all of them together.
    pub together_with: Vec<String>,
    /// Run the checks.
    pub checks: bool,
    /// Run the race.
    pub race: bool,
    /// End when the race has ended, instead of waiting for commands.
    pub end_after_race: bool,
    /// Engines by name; `None` for every one that can run here.
    pub engines: Option<Vec<Engine>>,
    /// Cache states, in order.
    pub caches: Vec<CacheState>,
    /// Runs of each engine in each state.
    pub repeat: u32,
    /// The target of the bytes.
    pub gpu: GpuChoice,
    /// Compare every byte afterwards.
    pub verify: bool,
    /// Fill the target first.
    pub poison: bool,
    /// Drop the complete page cache if files of the model stay in it before a cold run.
    pub drop_caches: bool,
    /// Read meters while lanes run.
    pub telemetry: bool,
    /// Engine settings.
    pub settings: Vec<SettingOrder>,
    /// Each engine runs once with each of these settings on top of `settings`; once without any if there are none.
    pub variants: Vec<EngineSettings>,
    /// Time limit for a command or loader, in seconds.
    pub limit_s: Option<u64>,
    /// Measure the ceilings before the first lane.
    pub ceilings: bool,
    /// Measure this grid of storage accesses instead of loading a model.
    pub grid: Option<GridRequest>,
    /// Keep a recording here.
    pub record: Option<PathBuf>,
    /// Examine this captured machine instead of this one, without a benchmark.
    pub folder: Option<PathBuf>,
    /// Run this in place of a model's load.
    pub workload: Option<WorkloadPlan>,
}

impl SessionConfig {
    /// A session of this program with everything at its default.
    #[must_use]
    pub fn new(exe: PathBuf) -> Self {
        Self {
            exe,
            model: None,
            together_with: Vec::new(),
            checks: true,
            race: true,
            end_after_race: true,
            engines: None,
            caches: vec![CacheState::Cold],
            repeat: 1,
            gpu: GpuChoice::Auto,
            verify: true,
            poison: false,
            drop_caches: false,
            telemetry: true,
            settings: Vec::new(),
            variants: Vec::new(),
            limit_s: None,
            ceilings: false,
            grid: None,
            record: None,
            folder: None,
            workload: None,
        }
    }
}
