//! Compares runs with earlier runs of the same engines: faster or slower beyond the noise, or failed now.

use crate::core::median::median_time;
use crate::core::{CacheState, Engine, RunResult, TargetName, cached_before};
use serde::Deserialize;

/// The part of a run that is compared. The `runs[]` array of a report is read into these.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Measured {
    /// The engine.
    pub engine: Engine,
    /// The model's name; `None` if the run ended before it was known.
    pub model: Option<String>,
    /// Cache state.
    pub cache: CacheState,
    /// The share of the model in the page cache before the run. `None` if it was not measured.
    #[serde(default)]
    pub cache_resident_before_fraction: Option<f64>,
    /// The target of the bytes.
    pub target: TargetName,
    /// The bytes of its tensors. `None` if the report has no such field.
    pub bytes: Option<u64>,
    /// Wall time in nanoseconds. `None` if the run failed.
    pub wall_ns: Option<u64>,
    /// Whether every byte equals the file. `None` if the bytes were not verified.
    pub verified: Option<bool>,
    /// The error of a failed run.
    pub error: Option<String>,
}

impl From<&RunResult> for Measured {
    fn from(run: &RunResult) -> Self {
        Self {
            engine: run.engine.clone(),
            model: Some(run.model.clone()),
            cache: run.cache,
            cache_resident_before_fraction: run.cache_resident_before_fraction,
            target: run.target.clone(),
            bytes: Some(run.bytes),
            wall_ns: Some(run.wall_ns),
            verified: run.verified,
            error: run.error.clone(),
        }
    }
}

impl Measured {
    /// Its time, if the run succeeded, verification found no wrong bytes, and the run was cold if it should be.
    #[must_use]
    pub fn good_ns(&self) -> Option<u64> {
        self.loaded_ns().filter(|_| !self.is_not_cold())
    }

    /// Its time, if the run succeeded and verification found no wrong bytes.
    fn loaded_ns(&self) -> Option<u64> {
        self.wall_ns.filter(|ns| *ns > 0 && self.error.is_none() && self.verified != Some(false))
    }

    /// Whether it loaded the model and should be cold, but the page cache had a part of the model. Its time is not
    /// compared.
    #[must_use]
    pub fn is_not_cold(&self) -> bool {
        self.loaded_ns().is_some() && cached_before(self.cache, self.cache_resident_before_fraction).is_some()
    }

    fn is_like(&self, other: &Self) -> bool {
        // If a model has the same name but another size, it is a different model. For another program, `bytes` is what
        // its process read, which differs from run to run.
        let same_bytes = self.engine.is_outside()
            || match (self.bytes, other.bytes) {
                (Some(one), Some(two)) if self.error.is_none() && other.error.is_none() => one == two,
                _ => true,
            };
        self.engine == other.engine && self.is_beside(other) && same_bytes
    }

    /// Whether it has the same model, target and cache state.
    fn is_beside(&self, other: &Self) -> bool {
        self.cache == other.cache && self.target == other.target && self.model == other.model
    }
}

/// The runs of an engine in one of the two reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// Median time in nanoseconds.
    pub wall_ns: u64,
    /// The number of runs that succeeded.
    pub runs: usize,
    /// Half the difference between the slowest and the fastest run, divided by the median. It is 0 for one run.
    pub spread: f64,
    /// The times of the fastest and the slowest run in nanoseconds.
    pub range_ns: (u64, u64),
}

impl Side {
    fn of(walls: &[u64]) -> Option<Self> {
        let wall_ns = median_time(walls)?;
        let (low, high) = (*walls.iter().min()?, *walls.iter().max()?);
        let spread = (high - low) as f64 / 2.0 / wall_ns.max(1) as f64;
        Some(Self { wall_ns, runs: walls.len(), spread, range_ns: (low, high) })
    }

    /// Whether it is slower than another side beyond the noise, and each of its runs is slower than each run of that
    /// side.
    fn is_slower_than(&self, other: &Self, allowed: f64) -> bool {
        self.wall_ns as f64 > other.wall_ns as f64 * (1.0 + allowed) && self.range_ns.0 > other.range_ns.1
    }

    /// The spread of the repeats. For a single run it is assumed.
    fn noise(&self) -> f64 {
        if self.runs > 1 { self.spread } else { SINGLE_RUN_NOISE }
    }
}

/// The result of an engine compared with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The difference is within the noise.
    Same,
    /// Faster beyond the noise.
    Faster,
    /// Slower beyond the noise.
    Slower,
    /// The engine loaded the model in the baseline. Now it fails or loads wrong bytes.
    Broken,
    /// The median is slower, but these runs cannot show that the engine is.
    Undecided(Doubt),
}

/// Why a slower median does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Tasks waited for a CPU most of the time.
    BusyCpus,
    /// The repeats differ too much.
    Spread,
}

impl Change {
    /// Its name in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Broken => "broken",
            Self::Undecided(_) => "undecided",
        }
    }

    /// Whether the change is a regression.
    #[must_use]
    pub const fn is_regression(self) -> bool {
        matches!(self, Self::Slower | Self::Broken)
    }
}

/// The comparison of an engine that is in both sets of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Against {
    /// The engine.
    pub engine: Engine,
    /// Cache state.
    pub cache: CacheState,
    /// The model's name.
    pub model: String,
    /// The target of the bytes.
    pub target: TargetName,
    /// The runs of the baseline.
    pub before: Side,
    /// The runs of now. `None` if all of them failed.
    pub now: Option<Side>,
    /// The share by which the medians may differ.
    pub allowed: f64,
    /// The conclusion.
    pub change: Change,
}

impl Against {
    /// The time now divided by the time before, minus one. `None` if all runs of now failed.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        self.now.map(|now| now.wall_ns as f64 / self.before.wall_ns.max(1) as f64 - 1.0)
    }
}

/// The medians of equal sessions differ by this share even if the repeats within a session agree.
pub const LEAST_NOISE: f64 = 0.05;
/// The noise that is assumed for a single run without repeats.
const SINGLE_RUN_NOISE: f64 = 0.15;
/// Repeats that differ by more than this can hide any slowdown, so a slower median is then undecided.
pub(super) const MOST_NOISE: f64 = 0.5;
/// An idle machine usually has a lower CPU pressure than this.
const QUIET: f64 = 0.05;
/// Above this CPU pressure, a slower engine can be the fault of other programs.
const BUSY: f64 = 0.5;
/// A busy machine explains a slowdown up to this multiple of the slowdown that the pressure alone causes.
const FAR: f64 = 2.0;

/// The limits of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The share by which an engine may be slower, in addition to the spread of the repeats.
    pub threshold: f64,
    /// The share of the time in which at least one task waited for a CPU, 0 to 1: the higher one of both sessions.
    pub pressure: f64,
}

impl Tolerance {
    /// The permitted slowdown. Moderate pressure permits what it explains, but at most the threshold again.
    #[must_use]
    pub fn allowed(self) -> f64 {
        let moderate = (QUIET..=BUSY).contains(&self.pressure);
        if moderate { self.threshold + self.explained().min(self.threshold) } else { self.threshold }
    }

    /// The slowdown beyond which a busy machine is not the reason. `allowed`: the permitted slowdown with all noise.
    pub(super) fn far(self, allowed: f64) -> f64 {
        allowed + FAR * self.explained()
    }

    /// The slowdown that the pressure explains. If the engine is the task that waits in a share `p` of the time, it
    /// takes 1 / (1 − `p`) times as long.
    fn explained(self) -> f64 {
        let pressure = self.pressure.clamp(0.0, 0.99);
        pressure / (1.0 - pressure)
    }

    /// Whether tasks waited for a CPU most of the time.
    #[must_use]
    pub fn is_busy(self) -> bool {
        is_busy(self.pressure)
    }
}

/// Whether tasks waited for a CPU most of the time. `pressure` is the share of the time in which at least one waited.
#[must_use]
pub fn is_busy(pressure: f64) -> bool {
    pressure > BUSY
}

/// An engine that was not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// The engine.
    pub engine: Engine,
    /// Cache state.
    pub cache: CacheState,
    /// The reason.
    pub lack: Lack,
}

/// The runs that a comparison lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A successful run in the baseline.
    Before,
    /// A run of now: the engine is only in the baseline.
    Now,
    /// A cold run in the baseline: all successful ones were not cold.
    ColdBefore,
    /// A cold run of now: all successful ones were not cold.
    ColdNow,
}

/// The engines that [`against`] leaves out: those of now without a successful run in the baseline, those of the
/// baseline that did not run now with the same model, target and cache state, and those whose cold runs on one side
/// were not cold.
#[must_use]
pub fn left_out(baseline: &[Measured], now: &[Measured]) -> Vec<LeftOut> {
    let good = |run: &&Measured| run.good_ns().is_some();
    let lack = |run: &Measured| {
        let like = |runs: &[Measured], is: &dyn Fn(&Measured) -> bool| runs.iter().any(|r| r.is_like(run) && is(r));
        if run.model.is_none() || !like(baseline, &|b| b.good_ns().is_some()) {
            let was_cached = run.model.is_some() && like(baseline, &Measured::is_not_cold);
            return Some(if was_cached { Lack::ColdBefore } else { Lack::Before });
        }
        (!like(now, &|n| !n.is_not_cold())).then_some(Lack::ColdNow)
    };
    let new = now.iter().filter_map(|run| Some((run, lack(run)?)));
    let gone = baseline.iter().filter(good).filter(|run| {
        now.iter().any(|n| n.is_beside(run)) && !now.iter().any(|n| n.engine == run.engine && n.is_beside(run))
    });
    let mut all: Vec<LeftOut> = Vec::new();
    for (run, lack) in new.chain(gone.map(|run| (run, Lack::Now))) {
        let one = LeftOut { engine: run.engine.clone(), cache: run.cache, lack };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// Compares the runs of each engine with the same model, size, target and cache state.
///
/// A time is different if two conditions hold. First, the medians differ by more than the tolerance plus half the range
/// of the repeats of either side (15 % for a single run). Second, the runs of both sides do not overlap: a busy
/// machine can make the same load two to ten times slower, but rarely all repeats. A slowdown is relative to the
/// baseline's time and a speedup to the new time, so that the rule is symmetric. If only the first condition holds, or
/// the repeats differ by more than 50 %, a slower median is undecided and never "the same".
///
/// Engines without a successful run in the baseline, and engines that are in only one set, are left out. So are runs
/// that should be cold and were not.
#[must_use]
pub fn against(baseline: &[Measured], now: &[Measured], tolerance: Tolerance) -> Vec<Against> {
    let mut compared: Vec<Against> = Vec::new();
    for run in now.iter().filter(|run| !run.is_not_cold()) {
        let Some(model) = &run.model else { continue };
        if compared
            .iter()
            .any(|t| t.engine == run.engine && t.cache == run.cache && t.model == *model && t.target == run.target)
        {
            continue;
        }
        let like = |runs: &[Measured]| -> Vec<u64> {
            runs.iter().filter(|r| r.is_like(run)).filter_map(Measured::good_ns).collect()
        };
        let Some(before) = Side::of(&like(baseline)) else { continue };
        let side = Side::of(&like(now));
        let wrong = now.iter().any(|r| r.is_like(run) && r.verified == Some(false));
        let noise = before.noise() + side.map_or(0.0, |side| side.noise());
        let allowed = tolerance.allowed() + noise;
        let far = tolerance.far(allowed);
        let is_hidden = noise > MOST_NOISE || tolerance.is_busy();
        let certain = if is_hidden { tolerance.allowed() } else { allowed };
        let change = match side {
            None => Change::Broken,
            Some(_) if wrong => Change::Broken,
            Some(side) if tolerance.is_busy() && side.is_slower_than(&before, far) => Change::Slower,
            Some(side) if side.is_slower_than(&before, allowed) => {
                if tolerance.is_busy() {
                    Change::Undecided(Doubt::BusyCpus)
                } else {
                    Change::Slower
                }
            }
            Some(side) if side.wall_ns as f64 > before.wall_ns as f64 * (1.0 + certain) => {
                Change::Undecided(if tolerance.is_busy() { Doubt::BusyCpus } else { Doubt::Spread })
            }
            Some(side) if before.is_slower_than(&side, allowed) => Change::Faster,
            Some(_) => Change::Same,
        };
        compared.push(Against {
            engine: run.engine.clone(),
            cache: run.cache,
            model: model.clone(),
            target: run.target.clone(),
            before,
            now: side,
            allowed,
            change,
        });
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::tests::run;

    fn runs(engine: &Engine, walls: &[u64]) -> Vec<Measured> {
        let one = |ns: &u64| Measured::from(&run(engine.clone(), CacheState::Hot, 0, *ns));
        walls.iter().map(one).collect()
    }

    const QUIET: Tolerance = Tolerance { threshold: LEAST_NOISE, pressure: 0.0 };

    fn change(before: &[u64], now: &[u64]) -> Change {
        against(&runs(&Engine::Pread, before), &runs(&Engine::Pread, now), QUIET)[0].change
    }

    #[test]
    fn pressure_permits_the_threshold_again_and_above_a_limit_nothing_is_green() {
        let before = runs(&Engine::Pread, &[100, 100, 100]);
        for (pressure, now, expected) in [
            (0.0, 104, Change::Same),
            (0.0, 107, Change::Slower),
            (0.03, 107, Change::Slower),
            (0.3, 109, Change::Same),
            (0.3, 111, Change::Slower),
            (0.5, 111, Change::Slower),
            (0.6, 104, Change::Same),
            (0.6, 107, Change::Undecided(Doubt::BusyCpus)),
            // 60 % explain 2.5 times the time.
            (0.6, 400, Change::Undecided(Doubt::BusyCpus)),
            (0.6, 410, Change::Slower),
            (0.9, 1500, Change::Undecided(Doubt::BusyCpus)),
            (0.9, 3000, Change::Slower),
            (0.99, 104, Change::Same),
            (0.99, 3000, Change::Undecided(Doubt::BusyCpus)),
            (1.0, 3000, Change::Undecided(Doubt::BusyCpus)),
            (1.0, 30_000, Change::Slower),
            (0.99, 50, Change::Faster),
        ] {
            let tolerance = Tolerance { threshold: 0.05, pressure };
            let compared = against(&before, &runs(&Engine::Pread, &[now, now, now]), tolerance);
            assert_eq!(compared[0].change, expected, "{now} at {pressure}");
            assert!(tolerance.allowed() <= 0.1 + 1e-9, "{pressure}");
        }
    }

    #[test]
    fn cold_runs_that_the_page_cache_served_are_not_compared() {
        let cold = |walls: &[u64], resident: f64| -> Vec<Measured> {
            let of = |run: Measured| Measured {
                cache: CacheState::Cold,
                cache_resident_before_fraction: Some(resident),
                ..run
            };
            runs(&Engine::Pread, walls).into_iter().map(of).collect()
        };
        let one = |lack| LeftOut { engine: Engine::Pread, cache: CacheState::Cold, lack };
        let (disk, cached) = (cold(&[100, 101, 102], 0.0), cold(&[10, 11, 12], 0.9));
        for (before, now, expected) in [(&cached, &disk, Lack::ColdBefore), (&disk, &cached, Lack::ColdNow)] {
            assert_eq!((against(before, now, QUIET), left_out(before, now)), (vec![], vec![one(expected)]));
        }
        // The other runs are compared.
        let mixed = [cached.clone(), disk.clone()].concat();
        let compared = against(&disk, &mixed, QUIET);
        assert_eq!((compared[0].change, compared[0].now.map(|side| side.runs)), (Change::Same, Some(3)));
        assert_eq!(left_out(&disk, &mixed), []);
        // The page cache does not excuse wrong bytes.
        let mut wrong = cached;
        wrong[0].verified = Some(false);
        assert_eq!(against(&disk, &wrong, QUIET)[0].change, Change::Broken);
    }

    #[test]
    fn a_command_is_compared_whatever_its_process_read() {
        let command = Engine::Command("cat {model}".into());
        let (before, mut now) = (runs(&command, &[100]), runs(&command, &[900]));
        now[0].bytes = Some(5);
        assert_eq!(against(&before, &now, QUIET)[0].change, Change::Slower);
        assert_eq!(left_out(&before, &now), []);
        now[0].model = Some("other".into());
        assert!(against(&before, &now, QUIET).is_empty());
    }

    #[test]
    fn engines_in_one_set_only_are_listed() {
        let of = |engines: &[Engine]| engines.iter().flat_map(|engine| runs(engine, &[100, 100])).collect::<Vec<_>>();
        let (before, now) = (of(&[Engine::Pread, Engine::Odirect]), of(&[Engine::Pread, Engine::Mmap]));
        let one = |engine, lack| LeftOut { engine, cache: CacheState::Hot, lack };
        assert_eq!(left_out(&before, &now), [one(Engine::Mmap, Lack::Before), one(Engine::Odirect, Lack::Now)]);
        let mut failed = of(&[Engine::Pread]);
        failed[0].error = Some("no".into());
        failed[1].error = Some("no".into());
        assert_eq!(left_out(&failed, &of(&[Engine::Pread])), [one(Engine::Pread, Lack::Before)]);
        assert_eq!(left_out(&of(&[Engine::Pread]), &failed), [], "it is broken, so it is compared");
    }

    #[test]
    fn what_lies_within_the_noise_is_the_same_and_what_lies_beyond_is_not() {
        for (before, now, expected) in [
            (&[100, 100, 100][..], &[104, 104, 104][..], Change::Same),
            (&[100, 100, 100], &[107, 107, 107], Change::Slower),
            (&[107, 107, 107], &[100, 100, 100], Change::Faster),
            // Repeats that differ by a third hide a difference of a fifth between the medians.
            (&[85, 100, 115], &[105, 120, 135], Change::Same),
            (&[85, 100, 115], &[140, 150, 160], Change::Slower),
            (&[100], &[130], Change::Same),
            (&[100], &[140], Change::Slower),
            // Measured on a busy machine: five times as slow at the median, and one run as fast as before.
            (&[110, 118, 500], &[98, 675, 1030], Change::Undecided(Doubt::Spread)),
            (&[100, 100, 3000], &[2900, 2950, 3100], Change::Undecided(Doubt::Spread)),
            (&[100, 100, 100], &[99, 300, 300], Change::Undecided(Doubt::Spread)),
            (&[100, 120, 300], &[110, 180, 310], Change::Undecided(Doubt::Spread)),
            (&[100, 120, 300], &[110, 125, 310], Change::Same),
            (&[675, 98, 1030], &[110, 118, 500], Change::Same),
        ] {
            assert_eq!(change(before, now), expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_threshold_allows_a_slower_run() {
        let sides = (runs(&Engine::Pread, &[100, 100, 100]), runs(&Engine::Pread, &[115, 115, 115]));
        let of = |threshold| against(&sides.0, &sides.1, Tolerance { threshold, pressure: 0.0 })[0].change;
        assert_eq!((of(0.1), of(0.2)), (Change::Slower, Change::Same));
    }

    #[test]
    fn an_engine_that_fails_now_or_lands_wrong_bytes_is_a_regression() {
        let before = runs(&Engine::Pread, &[100, 101]);
        let mut wrong = runs(&Engine::Pread, &[50, 50]);
        wrong[1].verified = Some(false);
        let mut failed = runs(&Engine::Pread, &[50]);
        failed[0].error = Some("disk gone".into());
        for now in [wrong, failed] {
            let compared = against(&before, &now, QUIET);
            assert!(compared[0].change == Change::Broken && compared[0].change.is_regression(), "{compared:?}");
        }
    }

    #[test]
    fn only_the_same_engine_model_target_and_cache_are_compared() {
        let before = runs(&Engine::Pread, &[100]);
        let mut other = runs(&Engine::Pread, &[900]);
        other[0].bytes = Some(5);
        assert!(against(&before, &other, QUIET).is_empty(), "another model under the same name");
        assert!(against(&before, &runs(&Engine::Mmap, &[900]), QUIET).is_empty());
        let mut broken_before = runs(&Engine::Pread, &[100]);
        broken_before[0].error = Some("no".into());
        assert!(against(&broken_before, &runs(&Engine::Pread, &[100]), QUIET).is_empty());
    }
}
