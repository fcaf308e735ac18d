//! Compares engines by the median time of their runs, relative to the fastest engine of the group.

use super::against::is_busy;
use crate::core::median::{median_time, median_u64};
use crate::core::{Access, CacheState, Engine, RunResult, TargetName, WorkloadResult, units};

/// The runs of one engine in a group.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedEngine {
    /// The engine.
    pub engine: Engine,
    /// The number of runs that succeeded and have no wrong bytes.
    pub runs: usize,
    /// The number of failed runs.
    pub failed: usize,
    /// Median wall time in nanoseconds. It is the time of one of the runs.
    pub wall_ns: u64,
    /// The wall times of the fastest and the slowest run in nanoseconds.
    pub wall_range_ns: (u64, u64),
    /// The bytes divided by the median wall time, per second.
    pub bytes_per_s: f64,
    /// The median set-up time before the clock starts, in nanoseconds.
    pub setup_ns: u64,
    /// The wall time divided by that of the fastest engine. It is 1 for the fastest.
    pub ratio_to_fastest: f64,
    /// Whether all successful runs were verified. `None` if verification was switched off for one of them.
    pub verified: Option<bool>,
    /// Whether there is no proof that it loaded the model, although other engines did. It ranks behind them.
    pub in_doubt: bool,
    /// The largest share of the model in the page cache before its runs, if they should be cold and were not.
    pub cached: Option<f64>,
    /// Whether its writes end in the page cache, before the disk has the bytes.
    pub in_page_cache: bool,
    /// Whether it should use cuFile, but all of its transfers were staged in host memory.
    pub all_staged: bool,
    /// The engine that `auto` chose in all of its runs. `None` for other engines, or if `auto` chose different
    /// engines.
    pub auto_chose: Option<Engine>,
}

impl RankedEngine {
    /// Whether one engine is `auto` and the other is the engine that `auto` chose. Both then measure the same reads.
    #[must_use]
    pub fn is_twin_of(&self, other: &Self) -> bool {
        let chose = |auto: &Self, other: &Self| auto.auto_chose.as_ref() == Some(&other.engine);
        chose(self, other) || chose(other, self)
    }

    /// Whether it moved bytes. If every lookup of a read missed, there is no rate, no rank and nothing to verify.
    #[must_use]
    pub fn moved(&self) -> bool {
        self.bytes_per_s > 0.0
    }
}

/// Engines that loaded the same model onto the same target from the same cache state.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonGroup {
    /// The model's name.
    pub model: String,
    /// The target of the bytes.
    pub target: TargetName,
    /// Cache state.
    pub cache: CacheState,
    /// The engines with a successful run, the fastest first.
    pub engines: Vec<RankedEngine>,
    /// The share of the session in which at least one task waited for a CPU, 0 to 1. `None` if it is unknown.
    pub cpu_pressure: Option<f64>,
    /// Whether the session was interrupted, so that planned runs are missing.
    pub interrupted: bool,
}

impl ComparisonGroup {
    /// The CPU pressure, if it was so high that other programs can have decided the order.
    #[must_use]
    pub fn busy(&self) -> Option<f64> {
        self.cpu_pressure.filter(|pressure| is_busy(*pressure))
    }

    /// The fastest engine.
    #[must_use]
    pub fn fastest(&self) -> Option<&RankedEngine> {
        self.engines.first()
    }

    /// The direction of a workload. `None` for loads of a model.
    #[must_use]
    pub fn direction(&self) -> Option<Access> {
        self.engines.first()?.engine.direction()
    }

    /// Whether a run belongs to the group.
    #[must_use]
    pub fn holds(&self, run: &RunResult) -> bool {
        (&self.model, &self.target, self.cache, self.direction())
            == (&run.model, &run.target, run.cache, run.engine.direction())
    }
}

/// Groups runs by model, target, cache state and direction, and ranks the engines of each group. The order of the
/// groups is the order of their first runs.
#[must_use]
pub fn compare(runs: &[&RunResult]) -> Vec<ComparisonGroup> {
    let mut groups: Vec<ComparisonGroup> = Vec::new();
    for run in runs {
        if !groups.iter().any(|group| group.holds(run)) {
            let engines = rank(runs, run);
            if !engines.is_empty() {
                groups.push(ComparisonGroup {
                    model: run.model.clone(),
                    target: run.target.clone(),
                    cache: run.cache,
                    engines,
                    cpu_pressure: None,
                    interrupted: false,
                });
            }
        }
    }
    groups
}

/// The engines of the runs that can be compared with `like`, the fastest first.
fn rank(runs: &[&RunResult], like: &RunResult) -> Vec<RankedEngine> {
    let key = |r: &RunResult| (r.model.clone(), r.target.clone(), r.cache, r.engine.direction());
    let wanted = key(like);
    rank_engines(&runs.iter().copied().filter(|r| key(r) == wanted).collect::<Vec<_>>())
}

/// The engines of comparable runs, the fastest first. Engines without a successful run are left out.
#[must_use]
pub fn rank_engines(runs: &[&RunResult]) -> Vec<RankedEngine> {
    // Engines of this program always load the complete model, so their size is the expected one.
    let most_bytes = runs.iter().filter(|r| r.outside.is_none() && r.is_good()).map(|r| r.bytes).max().unwrap_or(0);
    let mut engines: Vec<RankedEngine> = Vec::new();
    for run in runs {
        if engines.iter().any(|known| known.engine == run.engine) {
            continue;
        }
        let all: Vec<&RunResult> = runs.iter().copied().filter(|r| r.engine == run.engine).collect();
        let good: Vec<&RunResult> = all.iter().copied().filter(|r| r.is_good()).collect();
        let walls: Vec<u64> = good.iter().map(|r| r.wall_ns).collect();
        let Some((wall_ns, (low, high))) = median_time(&walls).zip(walls.iter().min().zip(walls.iter().max())) else {
            continue;
        };
        // The rate is computed from the median time that is shown next to it. The median of the rates would not match
        // that time.
        let bytes = median_u64(&good.iter().map(|r| r.bytes).collect::<Vec<_>>()).unwrap_or(0);
        let setups: Vec<u64> = good.iter().map(|r| r.setup_ns).collect();
        engines.push(RankedEngine {
            engine: run.engine.clone(),
            runs: good.len(),
            failed: all.len() - good.len(),
            wall_ns,
            wall_range_ns: (*low, *high),
            bytes_per_s: units::bytes_per_s(bytes, wall_ns).unwrap_or(0.0),
            setup_ns: median_u64(&setups).unwrap_or(0),
            ratio_to_fastest: 1.0,
            verified: good.iter().map(|r| r.verified).try_fold(true, |all, v| v.map(|v| all && v)),
            in_doubt: good.iter().any(|r| r.in_doubt(most_bytes)),
            cached: good.iter().filter_map(|r| r.cached_before()).reduce(f64::max),
            in_page_cache: good.iter().any(|r| r.workload.as_ref().is_some_and(|w| w.in_page_cache)),
            all_staged: good.iter().all(|r| r.workload.as_ref().is_some_and(WorkloadResult::is_all_staged)),
            auto_chose: good
                .first()
                .and_then(|first| first.chosen_engine())
                .filter(|chosen| good.iter().all(|r| r.chosen_engine() == Some(chosen)))
                .cloned(),
        });
    }
    engines.sort_by_key(|e| (e.in_doubt, e.wall_ns));
    let fastest = engines.first().map_or(1, |e| e.wall_ns).max(1);
    for engine in &mut engines {
        engine.ratio_to_fastest = engine.wall_ns as f64 / fastest as f64;
    }
    engines
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::analysis) fn run(engine: Engine, cache: CacheState, repeat: u32, wall_ns: u64) -> RunResult {
        RunResult {
            repeat,
            bytes: 1000,
            wall_ns,
            setup_ns: 5,
            bytes_per_s: 1e12 / wall_ns as f64,
            verified: Some(true),
            slots: 1,
            ..RunResult::new(engine, "m", cache, "host memory")
        }
    }

    #[test]
    fn medians_decide_and_cache_states_are_kept_apart() {
        let mut runs: Vec<RunResult> =
            [90, 100, 500].iter().enumerate().map(|(i, t)| run(Engine::Mmap, CacheState::Hot, i as u32, *t)).collect();
        runs.extend([210, 190, 200].iter().map(|t| run(Engine::Pread, CacheState::Hot, 0, *t)));
        runs.push(run(Engine::Pread, CacheState::Cold, 0, 900));
        let groups = compare(&runs.iter().collect::<Vec<_>>());
        assert_eq!(groups.iter().map(|c| c.cache).collect::<Vec<_>>(), [CacheState::Hot, CacheState::Cold]);
        let hot = &groups[0].engines;
        assert_eq!((hot[0].engine.clone(), hot[0].wall_ns, hot[0].wall_range_ns), (Engine::Mmap, 100, (90, 500)));
        assert_eq!((hot[1].ratio_to_fastest, hot[1].runs, hot[1].verified), (2.0, 3, Some(true)));
    }

    #[test]
    fn the_median_of_an_even_count_is_the_time_of_a_run() {
        let runs: Vec<RunResult> =
            [100, 90, 300, 120].iter().map(|ns| run(Engine::Mmap, CacheState::Hot, 0, *ns)).collect();
        let groups = compare(&runs.iter().collect::<Vec<_>>());
        assert_eq!(groups[0].engines[0].wall_ns, 100);
    }

    #[test]
    fn the_largest_share_in_the_page_cache_before_cold_runs_is_kept() {
        let group = |cache, share| {
            let of = |engine: Engine, ns| (0..3).map(move |repeat| run(engine.clone(), cache, repeat, ns));
            let mut runs: Vec<RunResult> = of(Engine::Pread, 100).chain(of(Engine::Odirect, 300)).collect();
            runs[1].cache_resident_before_fraction = Some(share);
            compare(&runs.iter().collect::<Vec<_>>()).remove(0)
        };
        for (cache, share, kept) in
            [(CacheState::Cold, 0.5, Some(0.5)), (CacheState::Cold, 0.04, None), (CacheState::Hot, 1.0, None)]
        {
            let engines = group(cache, share).engines;
            assert_eq!((engines[0].cached, engines[1].cached), (kept, None), "{cache} {share}");
        }
    }

    #[test]
    fn a_fast_wrong_run_wins_nothing() {
        let mut wrong = run(Engine::Odirect, CacheState::Hot, 0, 1);
        wrong.verified = Some(false);
        let mut broken = run(Engine::Mmap, CacheState::Hot, 1, 2);
        broken.error = Some("disk gone".into());
        let fine = run(Engine::Mmap, CacheState::Hot, 0, 100);
        let groups = compare(&[&wrong, &broken, &fine]);
        assert_eq!(groups[0].engines.len(), 1);
        assert_eq!((groups[0].engines[0].wall_ns, groups[0].engines[0].failed), (100, 1));
        assert!(compare(&[&wrong]).is_empty());
    }

    #[test]
    fn a_command_that_shows_no_load_wins_nothing() {
        let groups = |bytes, verified| {
            let outside = crate::core::Outside {
                program: None,
                exit: "status 0".into(),
                stderr_tail: None,
                clock: String::new(),
                bytes_source: String::new(),
                processes: 1,
                read_call_bytes: Some(bytes),
                storage_read_bytes: Some(0),
                major_faults: None,
                rss_peak_bytes: None,
                pss_peak_bytes: None,
            };
            let run = run(Engine::Command("true".into()), CacheState::Hot, 0, 3);
            RunResult { bytes, verified, outside: Some(outside), ..run }
        };
        let own = run(Engine::Pread, CacheState::Hot, 0, 100);
        let nothing = groups(90, None);
        let hot = &compare(&[&nothing, &own])[0];
        assert_eq!((&hot.engines[0].engine, hot.engines[0].ratio_to_fastest), (&Engine::Pread, 1.0));
        assert!(hot.engines[1].in_doubt);
        let (read_it, compared_it) = (groups(900, None), groups(90, Some(true)));
        let first = |outside: &RunResult| compare(&[outside, &own])[0].engines[0].clone();
        assert_eq!((first(&read_it).in_doubt, first(&read_it).verified), (false, None));
        assert_eq!((first(&compared_it).in_doubt, first(&compared_it).verified), (false, Some(true)));
        assert!(!compare(&[&nothing])[0].engines[0].in_doubt, "a run without others to compare with is not in doubt");
    }

    #[test]
    fn verified_is_only_said_when_every_run_was() {
        let mut unasked = run(Engine::Mmap, CacheState::Hot, 0, 100);
        unasked.verified = None;
        let asked = run(Engine::Mmap, CacheState::Hot, 1, 100);
        assert_eq!(compare(&[&unasked, &asked])[0].engines[0].verified, None);
    }
}
