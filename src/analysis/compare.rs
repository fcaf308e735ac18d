//! Runs side by side: medians over repeats, and how far each engine is from the fastest.

use super::median_u64;
use crate::domain::{CacheState, Engine, RunResult, units};

/// How one engine did, over its repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The engine.
    pub engine: Engine,
    /// Runs that count: without error and not found wrong.
    pub runs: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Median wall time in nanoseconds.
    pub wall_ns: u64,
    /// Fastest and slowest run.
    pub wall_range_ns: (u64, u64),
    /// Bytes over the median wall time.
    pub bytes_per_s: f64,
    /// Median set-up time before the clock.
    pub setup_ns: u64,
    /// Wall time over that of the fastest; 1 for the fastest.
    pub ratio_to_fastest: f64,
    /// Whether all runs that count were verified; `None` where any was not asked to be.
    pub verified: Option<bool>,
    /// Whether nothing tells that it loaded the model, beside others that did: it ranks behind them, however soon it ended.
    pub in_doubt: bool,
    /// What `auto` took in all of its runs, where it is `auto` and that was one engine.
    pub auto_took: Option<Engine>,
}

impl Standing {
    /// Whether one is `auto` and the other what it took: two samples of the same reads.
    #[must_use]
    pub fn is_twin_of(&self, other: &Self) -> bool {
        let took = |auto: &Self, it: &Self| auto.auto_took.as_ref() == Some(&it.engine);
        took(self, other) || took(other, self)
    }

    /// Whether it moved bytes: a read whose every lookup missed moved none, and then there is no rate, no rank and nothing to verify.
    #[must_use]
    pub fn moved(&self) -> bool {
        self.bytes_per_s > 0.0
    }

    /// Its rate in words; none where nothing was moved.
    #[must_use]
    pub fn rate_words(&self) -> String {
        if self.moved() { units::rate(self.bytes_per_s) } else { "–".to_owned() }
    }

    /// How many times the fastest's time it took, in words; none where it is in doubt or moved nothing.
    #[must_use]
    pub fn ratio_words(&self) -> String {
        if self.in_doubt || !self.moved() {
            "–".to_owned()
        } else {
            format!("{}×", units::three_digits(self.ratio_to_fastest))
        }
    }

    /// Whether the bytes were right, in a word or two: what a command says of itself is its own word.
    #[must_use]
    pub fn verified_words(&self) -> &'static str {
        match self.verified {
            _ if self.in_doubt => "in doubt",
            _ if !self.moved() => "–",
            Some(true) if self.engine.is_outside() => "by itself",
            Some(true) => "yes",
            Some(false) => "no",
            None => "not asked",
        }
    }

    /// Whether it is clearly faster than a slower one: their ranges do not touch, or with a single run each they are more than 3 % apart. What says who wins,
    /// and why somebody loses, asks this, so that noise is given no reasons.
    #[must_use]
    pub fn clearly_ahead_of(&self, next: &Self) -> bool {
        if self.runs > 1 || next.runs > 1 {
            self.wall_range_ns.1 < next.wall_range_ns.0
        } else {
            next.wall_ns as f64 > self.wall_ns as f64 * 1.03
        }
    }
}

/// Engines on the same model, target and cache state.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The model's name.
    pub model: String,
    /// Where the bytes landed.
    pub target: String,
    /// Cache state.
    pub cache: CacheState,
    /// Engines, the fastest first.
    pub standings: Vec<Standing>,
}

impl Comparison {
    /// The fastest engine.
    #[must_use]
    pub fn fastest(&self) -> Option<&Standing> {
        self.standings.first()
    }
}

/// Whether a run's time may be compared: it finished, took time, and its bytes were not found wrong.
fn counts(run: &RunResult) -> bool {
    run.error.is_none() && run.verified != Some(false) && run.wall_ns > 0
}

/// Compares runs; those that differ in model, target or cache state are kept apart. Comparisons come in the order in which their first run does.
#[must_use]
pub fn compare(runs: &[&RunResult]) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    for run in runs {
        let same = |c: &&mut Comparison| {
            let direction = c.standings.first().and_then(|s| s.engine.direction());
            (&c.model, &c.target, c.cache, direction) == (&run.model, &run.target, run.cache, run.engine.direction())
        };
        if comparisons.iter_mut().find(same).is_none() {
            let standings = standings(runs, run);
            if !standings.is_empty() {
                comparisons.push(Comparison {
                    model: run.model.clone(),
                    target: run.target.clone(),
                    cache: run.cache,
                    standings,
                });
            }
        }
    }
    comparisons
}

fn standings(runs: &[&RunResult], like: &RunResult) -> Vec<Standing> {
    // Reads and writes of a workload are two races.
    let key = |r: &RunResult| (r.model.clone(), r.target.clone(), r.cache, r.engine.direction().map(str::to_owned));
    let same: Vec<&&RunResult> = runs.iter().filter(|r| key(r) == key(like)).collect();
    // What this program's own engines loaded is the whole model.
    let whole = same.iter().filter(|r| r.outside.is_none() && counts(r)).map(|r| r.bytes).max().unwrap_or(0);
    let mut standings: Vec<Standing> = Vec::new();
    for run in &same {
        if standings.iter().any(|s| s.engine == run.engine) {
            continue;
        }
        let all: Vec<&&&RunResult> = same.iter().filter(|r| r.engine == run.engine).collect();
        let good: Vec<&&&RunResult> = all.iter().copied().filter(|r| counts(r)).collect();
        let walls: Vec<u64> = good.iter().map(|r| r.wall_ns).collect();
        let Some((wall_ns, (low, high))) = median_u64(&walls).zip(walls.iter().min().zip(walls.iter().max())) else {
            continue;
        };
        // Bytes over the time that is shown beside it: the median of two rates is another number than the rate of their median time.
        let bytes = median_u64(&good.iter().map(|r| r.bytes).collect::<Vec<_>>()).unwrap_or(0);
        let setups: Vec<u64> = good.iter().map(|r| r.setup_ns).collect();
        standings.push(Standing {
            engine: run.engine.clone(),
            runs: good.len(),
            failed: all.len() - good.len(),
            wall_ns,
            wall_range_ns: (*low, *high),
            bytes_per_s: units::bytes_per_s(bytes, wall_ns).unwrap_or(0.0),
            setup_ns: median_u64(&setups).unwrap_or(0),
            ratio_to_fastest: 1.0,
            verified: good.iter().map(|r| r.verified).try_fold(true, |all, v| v.map(|v| all && v)),
            in_doubt: good.iter().any(|r| r.in_doubt(whole)),
            auto_took: good
                .first()
                .and_then(|first| first.chosen_engine())
                .filter(|chosen| good.iter().all(|r| r.chosen_engine() == Some(chosen)))
                .cloned(),
        });
    }
    standings.sort_by_key(|s| (s.in_doubt, s.wall_ns));
    let fastest = standings.first().map_or(1, |s| s.wall_ns).max(1);
    for standing in &mut standings {
        standing.ratio_to_fastest = standing.wall_ns as f64 / fastest as f64;
    }
    standings
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::PhaseTimes;

    pub(in crate::analysis) fn run(engine: Engine, cache: CacheState, repeat: u32, wall_ns: u64) -> RunResult {
        RunResult {
            engine,
            model: "m".into(),
            cache,
            cache_resident_before_fraction: None,
            target: "host memory".into(),
            repeat,
            bytes: 1000,
            wall_ns,
            setup_ns: 5,
            bytes_per_s: 1e12 / wall_ns as f64,
            verified: Some(true),
            route: None,
            phases: PhaseTimes::default(),
            slots: 1,
            host_peak_bytes: None,
            pinned_peak_bytes: None,
            gpu_peak_bytes: None,
            cpu_ns: None,
            knobs: Default::default(),
            knobs_why: Default::default(),
            outside: None,
            setup_parts_ns: Default::default(),
            workload: None,
            auto_choice: None,
            first_difference: None,
            notes: vec![],
            error: None,
        }
    }

    #[test]
    fn medians_decide_and_cache_states_are_kept_apart() {
        let mut runs: Vec<RunResult> =
            [90, 100, 500].iter().enumerate().map(|(i, t)| run(Engine::Mmap, CacheState::Hot, i as u32, *t)).collect();
        runs.extend([210, 190, 200].iter().map(|t| run(Engine::Pread, CacheState::Hot, 0, *t)));
        runs.push(run(Engine::Pread, CacheState::Cold, 0, 900));
        let told = compare(&runs.iter().collect::<Vec<_>>());
        assert_eq!(told.iter().map(|c| c.cache).collect::<Vec<_>>(), [CacheState::Hot, CacheState::Cold]);
        let hot = &told[0].standings;
        assert_eq!((hot[0].engine.clone(), hot[0].wall_ns, hot[0].wall_range_ns), (Engine::Mmap, 100, (90, 500)));
        assert_eq!((hot[1].ratio_to_fastest, hot[1].runs, hot[1].verified), (2.0, 3, Some(true)));
    }

    #[test]
    fn a_fast_wrong_run_wins_nothing() {
        let mut wrong = run(Engine::Direct, CacheState::Hot, 0, 1);
        wrong.verified = Some(false);
        let mut broken = run(Engine::Mmap, CacheState::Hot, 1, 2);
        broken.error = Some("disk gone".into());
        let fine = run(Engine::Mmap, CacheState::Hot, 0, 100);
        let told = compare(&[&wrong, &broken, &fine]);
        assert_eq!(told[0].standings.len(), 1);
        assert_eq!((told[0].standings[0].wall_ns, told[0].standings[0].failed), (100, 1));
        assert!(compare(&[&wrong]).is_empty());
    }

    #[test]
    fn a_command_that_shows_no_load_wins_nothing() {
        let told = |bytes, verified| {
            let outside = crate::domain::Outside {
                program: None,
                exit: "status 0".into(),
                last_words: None,
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
        let nothing = told(90, None);
        let hot = &compare(&[&nothing, &own])[0];
        assert_eq!((&hot.standings[0].engine, hot.standings[0].ratio_to_fastest), (&Engine::Pread, 1.0));
        assert_eq!(hot.standings[1].verified_words(), "in doubt");
        let (read_it, compared_it) = (told(900, None), told(90, Some(true)));
        assert_eq!(compare(&[&read_it, &own])[0].standings[0].verified_words(), "not asked");
        assert_eq!(compare(&[&compared_it, &own])[0].standings[0].verified_words(), "by itself");
        assert!(!compare(&[&nothing])[0].standings[0].in_doubt, "beside nothing there is nothing to doubt it by");
    }

    #[test]
    fn verified_is_only_said_when_every_run_was() {
        let mut unasked = run(Engine::Mmap, CacheState::Hot, 0, 100);
        unasked.verified = None;
        let asked = run(Engine::Mmap, CacheState::Hot, 1, 100);
        assert_eq!(compare(&[&unasked, &asked])[0].standings[0].verified, None);
    }
}
