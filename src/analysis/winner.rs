//! The rule that finds the winner of a group. Screens, reports and advice use it.

use super::compare::{ComparisonGroup, RankedEngine};

/// `auto` and the engine that it chose measure the same reads, so a smaller ratio of their medians is ignored.
const TWINS_DIFFER: f64 = 1.05;
/// If the runs of two engines overlap, but their medians differ by more than this factor, the session is noisy: the
/// runs show neither a tie nor a winner.
const NOISY: f64 = 1.25;
/// With a single run of each engine, a smaller ratio of the times is a tie.
const SINGLE_RUNS_DIFFER: f64 = 1.03;

/// The number of runs of each engine that a winner needs.
pub const LEAST_RUNS: u32 = 3;

/// The result of the ranking of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<'g> {
    /// No engine moved a byte: every lookup missed, or there was nothing to load.
    NothingMoved,
    /// The runs of the fastest engines should be cold, but the page cache had a part of the model.
    NotCold {
        /// The largest share of the model in the page cache before a run, 0 to 1.
        cached: f64,
    },
    /// Only one engine ran, or `auto` and the engine that it chose.
    Alone {
        /// The only engine.
        first: &'g RankedEngine,
    },
    /// One of the two fastest engines ran fewer than [`LEAST_RUNS`] times, so the noise is unknown.
    TooFewRuns {
        /// The fastest engine.
        first: &'g RankedEngine,
        /// The second fastest engine.
        next: &'g RankedEngine,
    },
    /// `auto` and the engine that it chose do the same reads, but their times differ. The conditions changed between
    /// the runs, so no difference in the session is reliable.
    Noisy {
        /// The faster of the two.
        first: &'g RankedEngine,
        /// The slower of the two.
        next: &'g RankedEngine,
    },
    /// The runs of the two fastest engines overlap, but their medians are too different for a tie.
    TooNoisy {
        /// The engine with the lowest median.
        first: &'g RankedEngine,
        /// The second fastest engine.
        next: &'g RankedEngine,
    },
    /// The runs of the two fastest engines overlap and their medians are similar: the difference is within noise.
    Tie {
        /// The engine with the lowest median.
        first: &'g RankedEngine,
        /// The second fastest engine.
        next: &'g RankedEngine,
    },
    /// Every run of the first engine was faster than every run of the next.
    Winner {
        /// The winner.
        first: &'g RankedEngine,
        /// The second fastest engine.
        next: &'g RankedEngine,
    },
}

impl RankedEngine {
    /// Whether it is clearly faster than a slower engine: their runs do not overlap. With a single run of each, the
    /// times must differ by more than 3 %.
    #[must_use]
    pub fn clearly_ahead_of(&self, next: &Self) -> bool {
        if self.runs > 1 || next.runs > 1 {
            self.wall_range_ns.1 < next.wall_range_ns.0
        } else {
            next.wall_ns as f64 > self.wall_ns as f64 * SINGLE_RUNS_DIFFER
        }
    }

    /// Whether a slower engine has a similar median. If their runs overlap, the two tie.
    #[must_use]
    pub fn is_close_to(&self, next: &Self) -> bool {
        next.wall_ns as f64 <= self.wall_ns as f64 * NOISY
    }
}

impl ComparisonGroup {
    /// The engines that compete, the fastest first. Engines in doubt and the slower of `auto` and its chosen engine
    /// are left out.
    #[must_use]
    pub fn contenders(&self) -> Vec<&RankedEngine> {
        let mut contenders: Vec<&RankedEngine> = self.engines.iter().filter(|engine| !engine.in_doubt).collect();
        if let [first, rest @ ..] = contenders.as_slice()
            && let Some(twin) = rest.iter().position(|other| first.is_twin_of(other))
        {
            contenders.remove(twin + 1);
        }
        contenders
    }

    /// `auto` and the engine that it chose, the faster first, if the repeats of both show a difference that the
    /// engine cannot explain.
    fn twins_that_disagree(&self) -> Option<(&RankedEngine, &RankedEngine)> {
        let sure = || self.engines.iter().filter(|engine| !engine.in_doubt);
        let first = sure().next()?;
        let twin = sure().find(|other| first.is_twin_of(other))?;
        let repeated = first.runs > 1 && twin.runs > 1;
        let apart = twin.wall_ns as f64 / first.wall_ns.max(1) as f64;
        let disagree = apart > NOISY || (apart > TWINS_DIFFER && first.clearly_ahead_of(twin));
        (repeated && disagree).then_some((first, twin))
    }

    /// The result of the ranking. `None` for a group without engines.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome<'_>> {
        let contenders = self.contenders();
        let first = *contenders.first()?;
        if !self.engines.iter().any(RankedEngine::moved) {
            return Some(Outcome::NothingMoved);
        }
        if let Some(cached) = contenders.iter().take(2).filter_map(|engine| engine.cached).reduce(f64::max) {
            return Some(Outcome::NotCold { cached });
        }
        if let Some((first, next)) = self.twins_that_disagree() {
            return Some(Outcome::Noisy { first, next });
        }
        let Some(next) = contenders.get(1).copied() else { return Some(Outcome::Alone { first }) };
        Some(match (first.runs.min(next.runs), first.clearly_ahead_of(next)) {
            (_, false) if first.is_close_to(next) => Outcome::Tie { first, next },
            (_, false) => Outcome::TooNoisy { first, next },
            (few, true) if few < LEAST_RUNS as usize => Outcome::TooFewRuns { first, next },
            (_, true) => Outcome::Winner { first, next },
        })
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Engine};

    fn engine(engine: Engine, median: u64, slowest: u64) -> RankedEngine {
        RankedEngine {
            engine,
            runs: 3,
            failed: 0,
            wall_ns: median,
            wall_range_ns: (median - 2, slowest),
            bytes_per_s: 1e9,
            setup_ns: 0,
            ratio_to_fastest: 1.0,
            verified: Some(true),
            in_doubt: false,
            cached: None,
            in_page_cache: false,
            all_staged: false,
            auto_chose: None,
        }
    }

    fn auto(median: u64, slowest: u64, chose: Engine) -> RankedEngine {
        RankedEngine { auto_chose: Some(chose), ..engine(Engine::Auto, median, slowest) }
    }

    fn group(engines: Vec<RankedEngine>) -> ComparisonGroup {
        ComparisonGroup {
            model: "m".into(),
            target: "GPU 0".into(),
            cache: CacheState::Cold,
            engines,
            cpu_pressure: None,
            interrupted: false,
        }
    }

    /// The name of the outcome and its engines.
    fn winner_of(engines: Vec<RankedEngine>) -> (&'static str, Vec<Engine>) {
        let group = group(engines);
        match group.outcome().expect("engines") {
            Outcome::NothingMoved => ("nothing moved", vec![]),
            Outcome::NotCold { .. } => ("not cold", vec![]),
            Outcome::Alone { first } => ("alone", vec![first.engine.clone()]),
            Outcome::TooFewRuns { first, next } => ("too few runs", vec![first.engine.clone(), next.engine.clone()]),
            Outcome::Noisy { first, next } => ("noisy", vec![first.engine.clone(), next.engine.clone()]),
            Outcome::TooNoisy { first, next } => ("too noisy", vec![first.engine.clone(), next.engine.clone()]),
            Outcome::Tie { first, next } => ("tie", vec![first.engine.clone(), next.engine.clone()]),
            Outcome::Winner { first, next } => ("winner", vec![first.engine.clone(), next.engine.clone()]),
        }
    }

    #[test]
    fn an_engine_wins_if_its_runs_do_not_overlap_with_the_next_and_both_were_repeated() {
        use Engine::{Mmap, Pread};
        assert_eq!(winner_of(vec![engine(Pread, 100, 105), engine(Mmap, 300, 310)]), ("winner", vec![Pread, Mmap]));
        assert_eq!(winner_of(vec![engine(Pread, 100, 299), engine(Mmap, 300, 310)]), ("too noisy", vec![Pread, Mmap]));
        assert_eq!(winner_of(vec![engine(Pread, 100, 140), engine(Mmap, 124, 130)]), ("tie", vec![Pread, Mmap]));
        assert_eq!(winner_of(vec![engine(Pread, 100, 140), engine(Mmap, 126, 130)]), ("too noisy", vec![Pread, Mmap]));
        let once = |median| RankedEngine { runs: 1, wall_range_ns: (median, median), ..engine(Pread, median, median) };
        let other = |median| RankedEngine { engine: Mmap, ..once(median) };
        assert_eq!(winner_of(vec![once(100), other(300)]), ("too few runs", vec![Pread, Mmap]));
        assert_eq!(winner_of(vec![once(100), other(102)]).0, "tie");
        let twice = RankedEngine { runs: 2, ..engine(Pread, 100, 105) };
        assert_eq!(winner_of(vec![twice, engine(Mmap, 300, 310)]).0, "too few runs");
        assert_eq!(winner_of(vec![once(100), engine(Mmap, 300, 310)]).0, "too few runs");
        assert_eq!(winner_of(vec![engine(Mmap, 300, 310)]), ("alone", vec![Mmap]));
        assert_eq!(group(vec![]).outcome(), None);
    }

    #[test]
    fn auto_and_what_it_chose_are_one_contender_and_the_session_is_noisy_if_one_is_clearly_faster() {
        use Engine::{Auto, Mmap, Odirect, Pread};
        let mmap = || engine(Mmap, 300, 310);
        assert_eq!(
            winner_of(vec![auto(100, 125, Odirect), engine(Odirect, 120, 130), mmap()]),
            ("winner", vec![Auto, Mmap])
        );
        assert_eq!(
            winner_of(vec![engine(Odirect, 100, 125), auto(110, 130, Odirect), mmap()]),
            ("winner", vec![Odirect, Mmap])
        );
        assert_eq!(
            winner_of(vec![auto(100, 105, Odirect), engine(Odirect, 120, 130), mmap()]),
            ("noisy", vec![Auto, Odirect])
        );
        assert_eq!(
            winner_of(vec![auto(100, 105, Odirect), engine(Mmap, 110, 112), engine(Odirect, 120, 130)]),
            ("noisy", vec![Auto, Odirect]),
            "also with another engine between them"
        );
        assert_eq!(
            winner_of(vec![auto(100, 200, Odirect), engine(Odirect, 150, 160), mmap()]).0,
            "noisy",
            "far apart, although the runs overlap"
        );
        // The times do not overlap, but they differ by less than 5 %.
        assert_eq!(winner_of(vec![auto(118, 118, Odirect), engine(Odirect, 122, 123), mmap()]).1, [Auto, Mmap]);
        let mut once = vec![auto(100, 100, Odirect), engine(Odirect, 120, 120), mmap()];
        once[..2].iter_mut().for_each(|e| e.runs = 1);
        assert_eq!(winner_of(once), ("too few runs", vec![Auto, Mmap]));
        assert_eq!(winner_of(vec![auto(100, 125, Odirect), engine(Odirect, 120, 130)]), ("alone", vec![Auto]));
        assert_eq!(winner_of(vec![auto(100, 125, Pread), engine(Odirect, 120, 130)]), ("tie", vec![Auto, Odirect]));
    }

    #[test]
    fn nothing_wins_if_the_page_cache_had_the_model_before_one_of_the_two_fastest() {
        use Engine::{Mmap, Odirect, Pread};
        let cached = |of, median| RankedEngine { cached: Some(0.5), ..engine(of, median, median) };
        assert_eq!(winner_of(vec![cached(Pread, 100), engine(Odirect, 300, 310)]).0, "not cold");
        assert_eq!(winner_of(vec![engine(Odirect, 100, 110), cached(Pread, 300)]).0, "not cold");
        assert_eq!(winner_of(vec![cached(Pread, 100)]).0, "not cold");
        let slowest = vec![engine(Odirect, 100, 110), engine(Mmap, 300, 310), cached(Pread, 900)];
        assert_eq!(winner_of(slowest), ("winner", vec![Odirect, Mmap]));
    }

    #[test]
    fn what_moved_nothing_or_is_in_doubt_wins_nothing() {
        let miss = RankedEngine { bytes_per_s: 0.0, ..engine(Engine::Mmap, 5, 7) };
        assert_eq!(winner_of(vec![miss]), ("nothing moved", vec![]));
        let doubtful = RankedEngine { in_doubt: true, ..engine(Engine::Command("true".into()), 5, 7) };
        assert_eq!(winner_of(vec![engine(Engine::Mmap, 300, 310), doubtful]), ("alone", vec![Engine::Mmap]));
    }
}
