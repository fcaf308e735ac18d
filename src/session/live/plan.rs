//! The configuration of a session: its runs and their targets.

use crate::core::{CacheState, Engine, EngineSettings, GridPlan, ModelInfo, SettingOrder, WorkloadOrder};
use crossbeam_channel::Receiver;
use std::path::PathBuf;

/// Selects the target of the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuChoice {
    /// The first GPU that CUDA lists, or else host memory.
    #[default]
    Auto,
    /// The GPU with this NVML index.
    Index(u32),
    /// The GPU with this UUID.
    Uuid(String),
    /// Host memory.
    Host,
    /// Every GPU that CUDA lists.
    All,
    /// These targets, in order; a target may occur several times. A single model is divided among them. Several
    /// models are distributed over them one after another.
    Several(Vec<GpuChoice>),
}

impl GpuChoice {
    /// Whether GPUs are requested. Then host memory is not used as a substitute.
    #[must_use]
    pub fn names_a_gpu(&self) -> bool {
        match self {
            Self::Index(_) | Self::Uuid(_) | Self::All => true,
            Self::Several(choices) => choices.iter().any(Self::names_a_gpu),
            Self::Auto | Self::Host => false,
        }
    }

    /// Each choice of several.
    pub(super) fn each(&self) -> &[Self] {
        match self {
            Self::Several(choices) if !choices.is_empty() => choices.as_slice(),
            one => std::slice::from_ref(one),
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

/// The request for a storage measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridRequest {
    /// The plan. Its `target` is set when the device is known.
    pub plan: GridPlan,
    /// Whether transfers that cannot run here are left out, because the user did not name them.
    pub able_only: bool,
    /// The path of the libcufile to use. `None`: it is searched for.
    pub libcufile: Option<PathBuf>,
    /// Seed of the random content of the files.
    pub seed: u64,
}

/// A workload that runs instead of loading a model. Its runs are processes like those of engines, and its pieces are
/// handled like tensors.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// The files and pieces, as a model.
    pub model: ModelInfo,
    /// The engines of its runs, in order. Those that need cuFile are left out if cuFile cannot serve the target.
    pub lanes: Vec<Engine>,
    /// The order for each run.
    pub order: WorkloadOrder,
    /// Sentences about parts of the request that are not possible.
    pub warnings: Vec<String>,
}

/// The configuration of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The path of this program, which is started for runs and probes.
    pub exe: PathBuf,
    /// The model, as the user named it. `None` for the small synthetic model.
    pub model: Option<String>,
    /// Further models. Each model is loaded alone, then all of them together.
    pub together_with: Vec<String>,
    /// Whether to run the checks.
    pub checks: bool,
    /// Whether to run the race.
    pub race: bool,
    /// Whether the session only shows the processes of the machine: it takes no command that runs, writes or changes
    /// anything.
    pub looks_only: bool,
    /// Whether to end after the race instead of waiting for commands.
    pub end_after_race: bool,
    /// Engines by name; `None` for all engines that can run here.
    pub engines: Option<Vec<Engine>>,
    /// Cache states in order.
    pub caches: Vec<CacheState>,
    /// Number of runs of each engine in each cache state.
    pub repeat: u32,
    /// The target of the bytes.
    pub gpu: GpuChoice,
    /// Whether to compare every byte after a load.
    pub verify: bool,
    /// Whether to fill the target before a load, so that missing bytes are found.
    pub poison: bool,
    /// Whether to drop the complete page cache if files of the model stay in it before a cold run.
    pub drop_caches: bool,
    /// Whether to read meters during runs.
    pub telemetry: bool,
    /// Settings of the engines.
    pub settings: Vec<SettingOrder>,
    /// Each engine runs once with each of these settings, in addition to `settings`. If there are none, it runs once.
    pub variants: Vec<EngineSettings>,
    /// Time limit for a command or loader, in seconds.
    pub limit_s: Option<u64>,
    /// Whether to measure the ceilings before the first run.
    pub ceilings: bool,
    /// The grid of storage accesses to measure instead of loading a model.
    pub grid: Option<GridRequest>,
    /// The path of a recording to write.
    pub record: Option<PathBuf>,
    /// The directory of a captured machine to examine instead of this machine, without a benchmark.
    pub folder: Option<PathBuf>,
    /// The workload to run instead of loading a model.
    pub workload: Option<WorkloadPlan>,
    /// When all runs have ended, the session waits here for the engines that run again, and then ends. `None`: no
    /// engine runs again.
    pub again: Option<Receiver<Vec<(Engine, CacheState)>>>,
}

impl SessionConfig {
    /// The runs that are planned for one model on one target. It is not known yet which of the usual engines can run.
    pub(super) fn least_runs(&self) -> u64 {
        let engines = match (&self.engines, &self.workload) {
            (Some(named), _) => named.len(),
            (None, Some(plan)) => plan.lanes.len(),
            (None, None) => 1,
        };
        let runs = engines.max(1) * self.variants.len().max(1) * self.caches.len().max(1);
        (runs as u64).saturating_mul(u64::from(self.repeat.max(1)))
    }

    /// A configuration with default values.
    #[must_use]
    pub fn new(exe: PathBuf) -> Self {
        Self {
            exe,
            model: None,
            together_with: Vec::new(),
            checks: true,
            race: true,
            looks_only: false,
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
            again: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GpuChoice::{All, Auto, Host, Index, Several};

    #[test]
    fn all_gpus_are_requested_and_not_replaced_by_host_memory() {
        for (choice, named) in
            [(All, true), (Index(0), true), (Several(vec![Index(0)]), true), (Host, false), (Auto, false)]
        {
            assert_eq!(choice.names_a_gpu(), named, "{choice:?}");
        }
    }
}
