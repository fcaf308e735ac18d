//! The measured ceilings as sentences, and the rate of each engine as a share of its ceiling.

use super::labels::{engine, engine_in};
use super::progress::rate_now;
use super::together::how;
use crate::analysis::{median, median_u64};
use crate::core::{CacheState, Ceiling, CeilingKind, Engine, RunResult, TargetName, units};
use crate::session::{Group, Lane, State};

/// The ceiling of a run and the share of it that the run reached; `None` if the run did not load.
#[must_use]
pub fn reached<'s>(state: &'s State, lane: &Lane) -> Option<(&'s Ceiling, f64)> {
    let run = lane.result.as_deref().filter(|run| run.is_good())?;
    let rate = units::bytes_per_s(run.bytes, run.wall_ns)?;
    let ceiling = state.ceiling(lane.cache, &lane.target, &run.model)?;
    Some((ceiling, rate / ceiling.bytes_per_s))
}

/// The ceiling of a lane that loads, and the share of it that its present rate is.
#[must_use]
pub fn reaching<'s>(state: &'s State, lane: &Lane) -> Option<(&'s Ceiling, f64)> {
    let ceiling = state.ceiling(lane.cache, &lane.target, &state.model_of(lane)?.name)?;
    Some((ceiling, rate_now(lane)? / ceiling.bytes_per_s))
}

/// The result of a group, its ceiling, and the share of it that the group reached; `None` if the group did not load.
#[must_use]
pub fn combined_reached<'g>(state: &State, group: &'g Group<'_>) -> Option<(&'g RunResult, CeilingKind, f64, f64)> {
    let run = group.combined.as_ref().filter(|run| run.is_good())?;
    let rate = units::bytes_per_s(run.bytes, run.wall_ns)?;
    let (kind, bound) = state.group_ceiling(group)?;
    Some((run, kind, bound, rate / bound))
}

/// A sentence for each ceiling, followed by one for each engine with its share of the ceiling. Repeats are combined.
/// Empty if no ceiling was measured.
#[must_use]
pub fn sentences(state: &State) -> Vec<String> {
    let mut said: Vec<String> = state.ceilings.iter().map(ceiling).collect();
    let mut kinds: Vec<Repeats> = Vec::new();
    for lane in &state.lanes {
        // Runs that load together share a ceiling. They follow below as one run.
        let Some((ceiling, _)) = reached(state, lane).filter(|_| lane.group().is_none()) else { continue };
        // This run follows below, with the plain reads that alternated with it.
        if ceiling.kind == CeilingKind::DirectRead && !ceiling.passes.is_empty() && lane.cache == CacheState::Cold {
            continue;
        }
        let share = lane.share.as_ref().map(|share| share.label(&lane.target));
        let what = engine_in(&lane.engine, lane.cache, share.as_deref());
        if let Some(run) = lane.result.as_deref() {
            Repeats::add(&mut kinds, what, ceiling.kind, ceiling.bytes_per_s, run);
        }
    }
    said.extend(kinds.iter().filter_map(|kind| kind.sentence("")));
    let cold = cold_reads(state);
    let several = cold.iter().any(|one| one.ceiling.model != cold[0].ceiling.model);
    said.extend(cold.iter().map(|one| one.sentence(several)));
    let mut combined_runs: Vec<Repeats> = Vec::new();
    let mut shared_disk = false;
    for group in state.groups() {
        let Some((run, kind, bound, _)) = combined_reached(state, &group) else { continue };
        let what = format!("{} ({}, {} {} {})", engine(&run.engine), run.cache, run.model, how(&group), run.target);
        // It is unknown whether the models share a disk. If they do, the ceiling is lower.
        shared_disk |= kind == CeilingKind::DirectRead && !group.is_one_model();
        Repeats::add(&mut combined_runs, what, kind, bound, run);
    }
    let caveat = if shared_disk { ", if each model has a separate disk" } else { "" };
    said.extend(combined_runs.iter().filter_map(|kind| kind.sentence(caveat)));
    said
}

/// Formats a ceiling: `pinned copy rate (GPU-…): 55.1 GB/s (block size, threads; measured in 210 ms)`.
fn ceiling(ceiling: &Ceiling) -> String {
    let of = ceiling.model.as_deref().or(ceiling.gpu.as_deref()).map_or_else(String::new, |of| format!(" ({of})"));
    format!(
        "{}{of}: {} ({}; measured in {}).",
        ceiling.kind.words(),
        units::rate(ceiling.bytes_per_s),
        without_zeros(&ceiling.how),
        units::duration(ceiling.took_ns)
    )
}

/// The text with sizes as [`units::bytes`] formats them. Recordings of earlier versions have zeros at their end.
fn without_zeros(text: &str) -> String {
    ["KiB", "MiB", "GiB"].iter().fold(text.to_owned(), |text, unit| {
        [".00", ".0"].iter().fold(text, |text, zeros| text.replace(&format!("{zeros} {unit}"), &format!(" {unit}")))
    })
}

/// The repeats of a load with their common ceiling.
struct Repeats {
    what: String,
    kind: CeilingKind,
    bound_bytes_per_s: f64,
    /// Bytes and time in nanoseconds of each repeat.
    runs: Vec<(u64, u64)>,
}

impl Repeats {
    fn add(all: &mut Vec<Self>, what: String, kind: CeilingKind, bound_bytes_per_s: f64, run: &RunResult) {
        let one = (run.bytes, run.wall_ns);
        match all.iter_mut().find(|known| known.what == what && known.kind == kind) {
            Some(known) => known.runs.push(one),
            None => all.push(Self { what, kind, bound_bytes_per_s, runs: vec![one] }),
        }
    }

    /// Formats the repeats: `pread (hot): 49.7 GB/s, 90 % of the pinned copy rate (89 % to 92 %).` The rate is the
    /// one at the median time, as in the results table.
    fn sentence(&self, caveat: &str) -> Option<String> {
        let (bytes, walls): (Vec<u64>, Vec<u64>) = self.runs.iter().copied().unzip();
        let rate = units::bytes_per_s(median_u64(&bytes)?, median_u64(&walls)?)?;
        let percent = |rate: f64| units::percent(rate / self.bound_bytes_per_s);
        let shares = || self.runs.iter().filter_map(|(bytes, ns)| units::bytes_per_s(*bytes, *ns));
        let (low, high) = (percent(shares().reduce(f64::min)?), percent(shares().reduce(f64::max)?));
        let range = if low == high { String::new() } else { format!(" ({low} to {high})") };
        Some(format!(
            "{}: {}, {} of the {}{caveat}{range}.",
            self.what,
            units::rate(rate),
            percent(rate),
            self.kind.words()
        ))
    }
}

/// The cold loads of an engine, compared with reads of the same files by a plain reader. Each round of loads has one
/// plain read.
#[derive(Debug)]
pub struct ColdReads<'s> {
    /// The engine.
    pub engine: &'s Engine,
    /// The rate of the plain reader.
    pub ceiling: &'s Ceiling,
    /// The target of the loads.
    pub target: TargetName,
    /// The rate of each load, and the rate of the plain read before it, if there was one, in bytes per second.
    pub rates: Vec<(f64, Option<f64>)>,
}

impl ColdReads<'_> {
    /// The median rate of the loads in bytes per second.
    #[must_use]
    pub fn median_rate(&self) -> f64 {
        median(&self.rates.iter().map(|(rate, _)| *rate).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// The lowest and the highest ratio of a load to the plain read of the same round.
    #[must_use]
    pub fn by_round(&self) -> Option<(f64, f64)> {
        let shares = || self.rates.iter().filter_map(|(rate, pass)| Some(rate / (*pass)?));
        Some((shares().reduce(f64::min)?, shares().reduce(f64::max)?))
    }

    fn sentence(&self, several: bool) -> String {
        let model = self.ceiling.model.as_deref().filter(|_| several);
        // With only one round there is no range.
        let range = self.by_round().filter(|_| self.rates.len() > 1);
        let rounds = range.map_or_else(String::new, |(low, high)| {
            format!(" Round by round: {} to {}.", units::percent(low), units::percent(high))
        });
        format!(
            "{} into {}: {}, {} of the {} of a plain O_DIRECT reader. Medians of {} and {}, alternating.{rounds}",
            engine_in(self.engine, CacheState::Cold, model),
            self.target,
            units::rate(self.median_rate()),
            units::percent(self.median_rate() / self.ceiling.bytes_per_s),
            units::rate(self.ceiling.bytes_per_s),
            units::plural(self.rates.len() as u64, "load"),
            units::plural(self.ceiling.passes.len() as u64, "read"),
        )
    }
}

/// The cold loads for each engine, model and target, compared with a plain reader. Empty if no plain read alternated
/// with the loads.
#[must_use]
pub fn cold_reads(state: &State) -> Vec<ColdReads<'_>> {
    let mut all: Vec<ColdReads<'_>> = Vec::new();
    for lane in state.lanes.iter().filter(|lane| lane.cache == CacheState::Cold && lane.group().is_none()) {
        let Some(run) = lane.result.as_deref().filter(|run| run.is_good()) else { continue };
        let Some(rate) = units::bytes_per_s(run.bytes, run.wall_ns) else { continue };
        let reads = |c: &&Ceiling| c.kind == CeilingKind::DirectRead && c.model.as_deref() == Some(&run.model);
        let Some(ceiling) = state.ceilings.iter().find(reads).filter(|c| !c.passes.is_empty()) else { continue };
        let pass = ceiling.passes.iter().find(|pass| pass.round == lane.repeat).map(|pass| pass.bytes_per_s);
        let same = |known: &&mut ColdReads<'_>| {
            *known.engine == lane.engine && known.target == run.target && known.ceiling.model == ceiling.model
        };
        match all.iter_mut().find(same) {
            Some(known) => known.rates.push((rate, pass)),
            None => all.push(ColdReads {
                engine: &lane.engine,
                ceiling,
                target: run.target.clone(),
                rates: vec![(rate, pass)],
            }),
        }
    }
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody, LaneId, ModelInfo, PhaseTimes, ReadPass, Target};
    use serde_json::json;

    #[test]
    fn repeats_are_one_sentence_with_the_rate_of_their_median_time() {
        let mut kinds = Vec::new();
        for (what, wall_ns) in [("pread (hot)", 100), ("mmap (hot)", 900), ("pread (hot)", 125), ("pread (hot)", 110)] {
            let run = serde_json::from_value(json!({
                "engine": "pread", "model": "m", "cache": "hot", "target": "host memory", "repeat": 0, "bytes": 1000, "wall_ns": wall_ns, "setup_ns": 1,
                "bytes_per_s": 0.0, "phases": PhaseTimes::default(), "slots": 1, "settings": {}, "setup_parts_ns": {}, "notes": [],
            }));
            Repeats::add(&mut kinds, what.to_owned(), CeilingKind::PinnedCopy, 10e9, &run.unwrap());
        }
        let said: Vec<String> = kinds.iter().filter_map(|kind| kind.sentence("")).collect();
        assert_eq!(
            said,
            [
                "pread (hot): 9.09 GB/s, 91 % of the pinned copy rate (80 % to 100 %).",
                "mmap (hot): 1.11 GB/s, 11 % of the pinned copy rate."
            ]
        );
    }

    #[test]
    fn a_cold_load_names_its_model_if_there_are_several_and_its_rounds_if_there_were_some() {
        let ceiling: Ceiling = serde_json::from_value(json!({
            "kind": "direct_read", "gpu": null, "model": "m", "bytes_per_s": 2e9, "how": "", "took_ns": 1, "passes": [{"round": 0, "bytes_per_s": 2e9}],
        }))
        .unwrap();
        let said = |rounds: usize, several| {
            let rates = vec![(1e9, Some(2e9)); rounds];
            ColdReads { engine: &Engine::Odirect, ceiling: &ceiling, target: TargetName::Host, rates }.sentence(several)
        };
        let one = said(1, true);
        assert!(one.starts_with("O_DIRECT (cold, m) into host memory: ") && !one.contains("Round by round"), "{one}");
        let two = said(2, false);
        assert!(
            two.starts_with("O_DIRECT (cold) into host memory: ") && two.ends_with("Round by round: 50 % to 50 %.")
        );
    }

    #[test]
    fn cold_loads_are_compared_with_the_reads_of_their_own_rounds() {
        let mut state = State::default();
        let mut reduce = |body| state.reduce(&Event { at_ns: 0, body });
        reduce(EventBody::ModelOpened { model: ModelInfo { name: "m".into(), ..ModelInfo::default() } });
        // In the second round the disk is half as fast for both the loads and the reader. The plain read before the
        // fourth load failed.
        let rounds = [(1_900, Some(2e9)), (1_000, Some(1e9)), (1_960, Some(2e9)), (1_900, None)];
        let passes = (0..).zip(rounds).filter_map(|(round, (_, pass))| Some(ReadPass { round, bytes_per_s: pass? }));
        let ceiling = Ceiling {
            kind: CeilingKind::DirectRead,
            gpu: None,
            model: Some("m".into()),
            bytes_per_s: 2e9,
            how: String::new(),
            took_ns: 1,
            reader: None,
            passes: passes.collect(),
        };
        reduce(EventBody::CeilingMeasured { ceiling });
        for (repeat, (megabytes, _)) in (0..).zip(rounds) {
            for (lane, cache) in [(2 * repeat, CacheState::Cold), (2 * repeat + 1, CacheState::Hot)] {
                let (lane, engine, target) = (LaneId(lane), Engine::Odirect, Target::Host);
                reduce(EventBody::LanePlanned { lane, engine: engine.clone(), cache, target, repeat });
                let result: RunResult = serde_json::from_value(json!({
                    "engine": engine, "model": "m", "cache": cache, "target": "host memory", "repeat": repeat, "bytes": megabytes * 1_000_000,
                    "wall_ns": units::NS_PER_S, "setup_ns": 1, "bytes_per_s": 0.0, "phases": PhaseTimes::default(), "slots": 1, "settings": {},
                    "setup_parts_ns": {}, "notes": [],
                }))
                .unwrap();
                reduce(EventBody::LaneFinished { lane, result: Box::new(result) });
            }
        }
        let cold = cold_reads(&state);
        assert_eq!((cold.len(), cold[0].rates.len(), cold[0].ceiling.passes.len()), (1, 4, 3));
        assert!((cold[0].median_rate() - 1.9e9).abs() < 1.0);
        let (low, high) = cold[0].by_round().unwrap();
        assert!((low - 0.95).abs() < 1e-9 && (high - 1.0).abs() < 1e-9);
        let said = sentences(&state).join("\n");
        assert!(
            said.contains("95 % of the 2.00 GB/s of a plain O_DIRECT reader. Medians of 4 loads and 3 reads"),
            "{said}"
        );
    }
}
