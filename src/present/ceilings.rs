//! Tables of the measured ceilings, and of the rate of each engine as a share of its ceiling.

use super::labels::{engine, engine_in};
use super::progress::rate_now;
use super::together::how;
use super::view::{GAP, Table, number, or_gap, text};
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

/// A table of the ceilings, and a table of the runs with their share of a ceiling. Repeats are combined. Empty if no
/// ceiling was measured.
#[must_use]
pub fn tables(state: &State) -> Vec<Table> {
    let measured = Table {
        title: "Ceilings measured in this session".to_owned(),
        note: "On average, no complete load on this machine can exceed these rates. For a short time the rate can be higher.".to_owned(),
        heads: vec![text("ceiling"), text("of"), number("rate"), number("measured in"), text("method")],
        rows: state.ceilings.iter().map(ceiling).collect(),
    };
    let shares = Table {
        title: "Share of the ceiling".to_owned(),
        note: "The rate at the median time. The range is that of the runs. For loads that alternate with a plain reader: the medians of the loads and of the reads, \
               and the range of the rounds."
            .to_owned(),
        heads: vec![
            text("engine"),
            number("rate"),
            number("share"),
            number("range"),
            text("ceiling"),
            text("compared with"),
        ],
        rows: shares(state),
    };
    [measured, shares].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// A row for each engine, then for each group of runs that loaded together.
fn shares(state: &State) -> Vec<Vec<String>> {
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
    let mut rows: Vec<Vec<String>> = kinds.iter().filter_map(|kind| kind.row(GAP)).collect();
    let cold = cold_reads(state);
    let several = Several {
        models: cold.iter().any(|one| one.ceiling.model != cold[0].ceiling.model),
        targets: cold.iter().any(|one| one.target != cold[0].target),
    };
    rows.extend(cold.iter().map(|one| one.row(several)));
    let mut combined_runs: Vec<Repeats> = Vec::new();
    let mut shared_disk = false;
    for group in state.groups() {
        let Some((run, kind, bound, _)) = combined_reached(state, &group) else { continue };
        let what = format!("{} ({}, {} {} {})", engine(&run.engine), run.cache, run.model, how(&group), run.target);
        // It is unknown whether the models share a disk. If they do, the ceiling is lower.
        shared_disk |= kind == CeilingKind::DirectRead && !group.is_one_model();
        Repeats::add(&mut combined_runs, what, kind, bound, run);
    }
    let caveat = if shared_disk { "the sum for all models, if each has a separate disk" } else { GAP };
    rows.extend(combined_runs.iter().filter_map(|kind| kind.row(caveat)));
    rows
}

/// The row of a ceiling: its name, its GPU or model, its rate, and its measurement.
fn ceiling(ceiling: &Ceiling) -> Vec<String> {
    vec![
        ceiling.kind.words().to_owned(),
        or_gap(ceiling.model.clone().or_else(|| ceiling.gpu.clone())),
        units::rate(ceiling.bytes_per_s),
        units::duration(ceiling.took_ns),
        without_zeros(&ceiling.how),
    ]
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

    /// The row of the repeats: the rate at the median time, as in the results table, its share of the ceiling, and
    /// the range of the shares.
    fn row(&self, caveat: &str) -> Option<Vec<String>> {
        let (bytes, walls): (Vec<u64>, Vec<u64>) = self.runs.iter().copied().unzip();
        let rate = units::bytes_per_s(median_u64(&bytes)?, median_u64(&walls)?)?;
        let percent = |rate: f64| units::percent(rate / self.bound_bytes_per_s);
        let shares = || self.runs.iter().filter_map(|(bytes, ns)| units::bytes_per_s(*bytes, *ns));
        let (low, high) = (percent(shares().reduce(f64::min)?), percent(shares().reduce(f64::max)?));
        let range = if low == high { GAP.to_owned() } else { format!("{low} – {high}") };
        let cells = [&self.what, &units::rate(rate), &percent(rate), &range, self.kind.words(), caveat];
        Some(cells.map(str::to_owned).to_vec())
    }
}

/// The parts of the names of cold loads that differ.
#[derive(Clone, Copy)]
struct Several {
    models: bool,
    targets: bool,
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

    fn row(&self, several: Several) -> Vec<String> {
        let model = self.ceiling.model.as_deref().filter(|_| several.models);
        let target = if several.targets { format!(" into {}", self.target) } else { String::new() };
        // With only one round there is no range.
        let range = self.by_round().filter(|_| self.rates.len() > 1);
        let loads = units::plural(self.rates.len() as u64, "load");
        let reads = units::plural(self.ceiling.passes.len() as u64, "read");
        vec![
            engine_in(self.engine, CacheState::Cold, model) + &target,
            units::rate(self.median_rate()),
            units::percent(self.median_rate() / self.ceiling.bytes_per_s),
            or_gap(range.map(|(low, high)| format!("{} – {}", units::percent(low), units::percent(high)))),
            self.ceiling.kind.words().to_owned(),
            format!("a plain reader: {loads}, {reads}"),
        ]
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
    fn repeats_are_one_row_with_the_rate_of_their_median_time() {
        let mut kinds = Vec::new();
        for (what, wall_ns) in [("pread (hot)", 100), ("mmap (hot)", 900), ("pread (hot)", 125), ("pread (hot)", 110)] {
            let run = serde_json::from_value(json!({
                "engine": "pread", "model": "m", "cache": "hot", "target": "host memory", "repeat": 0, "bytes": 1000, "wall_ns": wall_ns, "setup_ns": 1,
                "bytes_per_s": 0.0, "phases": PhaseTimes::default(), "slots": 1, "settings": {}, "setup_parts_ns": {}, "notes": [],
            }));
            Repeats::add(&mut kinds, what.to_owned(), CeilingKind::PinnedCopy, 10e9, &run.unwrap());
        }
        let rows: Vec<String> = kinds.iter().filter_map(|kind| Some(kind.row(GAP)?.join("|"))).collect();
        assert_eq!(
            rows,
            [
                "pread (hot)|9.09 GB/s|91 %|80 % – 100 %|pinned copy rate|–",
                "mmap (hot)|1.11 GB/s|11 %|–|pinned copy rate|–"
            ]
        );
    }

    #[test]
    fn a_cold_load_names_its_model_and_target_if_there_are_several_and_its_rounds_if_there_were_some() {
        let ceiling: Ceiling = serde_json::from_value(json!({
            "kind": "direct_read", "gpu": null, "model": "m", "bytes_per_s": 2e9, "how": "", "took_ns": 1, "passes": [{"round": 0, "bytes_per_s": 2e9}],
        }))
        .unwrap();
        let said = |rounds: usize, several: bool| {
            let several = Several { models: several, targets: several };
            let rates = vec![(1e9, Some(2e9)); rounds];
            ColdReads { engine: &Engine::Odirect, ceiling: &ceiling, target: TargetName::Host, rates }.row(several)
        };
        let row = |rounds, several| said(rounds, several)[..5].join("|");
        assert_eq!(row(1, true), "O_DIRECT (cold, m) into host memory|1.00 GB/s|50 %|–|O_DIRECT read rate");
        assert_eq!(row(2, false), "O_DIRECT (cold)|1.00 GB/s|50 %|50 % – 50 %|O_DIRECT read rate");
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
        let rows = shares(&state);
        assert_eq!(rows[0][1..5].join("|"), "1.90 GB/s|95 %|95 % – 100 %|O_DIRECT read rate");
        assert!(rows[0][5].ends_with("a plain reader: 4 loads, 3 reads"), "{rows:?}");
    }
}
