//! The result of a sweep: the tested settings, the best ones, and the reasons for them.

use crate::core::{CacheState, Engine, EngineSettings, PHASES, Phase, PhaseTimes, Setting};

/// The number of alternating runs of the default and the best settings that measure the gain.
pub const PROOF_RUNS: u32 = 3;
/// A smaller gain is ignored, because the speed of a disk varies more from minute to minute.
pub const LEAST_GAIN: f64 = 0.03;

/// One tested setting, with the median of its runs or the reason why there is none.
#[derive(Clone, Debug)]
pub struct Tried {
    /// All settings of the runs.
    pub settings: EngineSettings,
    /// The changed setting; `None` for the default and for the best settings so far.
    pub changed: Option<(Setting, u64)>,
    /// The median time in nanoseconds.
    pub wall_ns: Result<u64, Untimed>,
    /// The number of runs that should be cold and were not. They are not in the median.
    pub not_cold: u64,
    /// The phases of the run with the median time.
    pub phases: PhaseTimes,
    /// The loaded bytes.
    pub bytes: u64,
}

/// The reason why runs have no time.
#[derive(Clone, Debug, PartialEq)]
pub enum Untimed {
    /// A run failed, in a sentence.
    Failed(String),
    /// The runs should be cold, but the page cache had this share of the model before one of them, 0 to 1.
    NotCold(f64),
}

/// The phase that differs most between a slower and a faster run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseGrowth {
    /// The phase.
    pub phase: Phase,
    /// Its time in the slower run in nanoseconds.
    pub slow_ns: u64,
    /// Its time in the faster run in nanoseconds.
    pub fast_ns: u64,
}

impl PhaseGrowth {
    /// The phase that grows most from the faster to the slower run. `None` if no phase grows.
    #[must_use]
    pub fn between(slower: &Tried, faster: &Tried) -> Option<Self> {
        let all = PHASES.into_iter().map(|phase| Self {
            phase,
            slow_ns: slower.phases.get(phase),
            fast_ns: faster.phases.get(phase),
        });
        all.filter(|growth| growth.slow_ns > growth.fast_ns).max_by_key(|growth| growth.slow_ns - growth.fast_ns)
    }
}

/// A result of the sweep about one setting, or about all runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The user set the value.
    SetByUser(Setting, u64),
    /// Without io_uring, the number of threads follows the depth.
    ThreadsFollowDepth,
    /// No run with the best settings so far has a time.
    NotSwept(Setting),
    /// This number of runs should be cold and was not.
    NotCold(u64),
    /// Another value is faster.
    Improved {
        /// The setting.
        setting: Setting,
        /// The earlier value.
        from: u64,
        /// The better value.
        to: u64,
        /// The earlier time divided by the better one, minus one.
        gain: f64,
        /// The phase that explains the difference.
        growth: Option<PhaseGrowth>,
    },
    /// No other value is faster by at least [`LEAST_GAIN`].
    Kept {
        /// The setting.
        setting: Setting,
        /// Its value.
        value: u64,
        /// The fastest other value.
        next: u64,
        /// The time of the other value divided by the time of this one, minus one.
        slower: f64,
        /// The phase that explains the difference.
        growth: Option<PhaseGrowth>,
    },
    /// No other value has a result.
    NoOther(Setting, u64),
    /// The same settings took different times.
    Noise {
        /// The shortest time in nanoseconds.
        low_ns: u64,
        /// The longest time in nanoseconds.
        high_ns: u64,
    },
    /// In alternating runs, the changed settings are not faster by at least [`LEAST_GAIN`].
    NotConfirmed(Proof),
}

/// The median times of the best and the default settings in alternating, verified runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The time of the default settings in nanoseconds.
    pub default_ns: u64,
    /// The time of the best settings in nanoseconds.
    pub best_ns: u64,
    /// The loaded bytes.
    pub bytes: u64,
}

/// The result for one engine and one cache state.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The engine.
    pub engine: Engine,
    /// The cache state.
    pub cache: CacheState,
    /// The tested settings in their order. The first ones are the default.
    pub tried: Vec<Tried>,
    /// The settings that the engine chose in its first run.
    pub default: EngineSettings,
    /// The best settings.
    pub best: EngineSettings,
    /// The reasons for the best settings.
    pub reasons: Vec<Reason>,
    /// The gain. `None` if it could not be measured.
    pub proof: Option<Proof>,
    /// The reason why the gain could not be measured.
    pub failed_proof: Option<Untimed>,
}

/// A warning if times of the same settings differ by at least [`LEAST_GAIN`].
#[must_use]
pub fn sweep_noise(tried: &[Tried]) -> Option<Reason> {
    let extent = |settings: &EngineSettings| {
        let same = tried.iter().filter(|t| t.settings == *settings).filter_map(|t| t.wall_ns.as_ref().ok());
        Some((*same.clone().min()?, *same.max()?))
    };
    let widest = |(low, high): &(u64, u64)| *high as f64 / (*low).max(1) as f64;
    let (low_ns, high_ns) =
        tried.iter().filter_map(|t| extent(&t.settings)).max_by(|a, b| widest(a).total_cmp(&widest(b)))?;
    (low_ns as f64 <= high_ns as f64 * (1.0 - LEAST_GAIN)).then_some(Reason::Noise { low_ns, high_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_times_of_the_same_settings_are_noise() {
        let tried = |threads: u64, wall_ns: u64| Tried {
            settings: EngineSettings::from_iter([(Setting::Threads, threads)]),
            changed: None,
            wall_ns: Ok(wall_ns),
            not_cold: 0,
            phases: PhaseTimes::default(),
            bytes: 1,
        };
        assert_eq!(
            sweep_noise(&[tried(4, 100), tried(8, 20), tried(4, 250)]),
            Some(Reason::Noise { low_ns: 100, high_ns: 250 })
        );
        assert_eq!(sweep_noise(&[tried(4, 100), tried(8, 20), tried(4, 101)]), None);
    }
}
