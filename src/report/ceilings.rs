//! The measured ceilings in words, and each run as a share of its own.

use super::words::plain;
use crate::analysis::{median, median_u64};
use crate::domain::{CacheState, Ceiling, CeilingKind, Engine, RunResult, units};
use crate::session::{Group, Lane, State};
use serde_json::{Value, json};

/// The ceiling of a lane that loaded, and the share of it that was reached.
fn reached<'s>(state: &'s State, lane: &Lane) -> Option<(&'s Ceiling, f64, f64)> {
    let run = lane.result.as_deref().filter(|r| r.error.is_none() && r.verified != Some(false))?;
    let rate = units::bytes_per_s(run.bytes, run.wall_ns)?;
    let ceiling = state.ceiling(lane.cache, &lane.target, &run.model)?;
    Some((ceiling, rate, rate / ceiling.bytes_per_s))
}

/// The ceilings, each a sentence, and then each kind of run that has one, its repeats as one: `hot pread: 49.7 GB/s (median of 3) = 90 % of the pinned copy
/// rate 55.1 GB/s; 89 % to 92 %`. Empty where none was measured.
#[must_use]
pub fn ceiling_words(state: &State) -> Vec<String> {
    let mut said: Vec<String> = state
        .ceilings
        .iter()
        .map(|c| {
            let of = c.model.as_deref().or(c.gpu.as_deref()).map_or_else(String::new, |of| format!(" ({})", plain(of)));
            format!(
                "{}{of}: {} ({}; measured in {})",
                c.kind.words(),
                units::rate(c.bytes_per_s),
                plain(&c.how),
                units::duration(c.took_ns)
            )
        })
        .collect();
    let mut kinds: Vec<Kind> = Vec::new();
    for lane in &state.lanes {
        // One of several at once has a share of what bounds them all; the whole is told below.
        if lane.group().is_some() {
            continue;
        }
        let Some((ceiling, _, _)) = reached(state, lane) else { continue };
        // Told below with its repeats, beside the reads that went before each.
        if ceiling.kind == CeilingKind::DirectRead && !ceiling.passes.is_empty() && lane.cache == CacheState::Cold {
            continue;
        }
        let of = lane.share.as_ref().map_or_else(String::new, |s| format!(" {}", plain(&s.label(&lane.target))));
        let what = format!("{} {}{of}", lane.cache, plain(&lane.engine.to_string()));
        let bound = format!("the {} {}", ceiling.kind.words(), units::rate(ceiling.bytes_per_s));
        if let Some(run) = lane.result.as_deref() {
            Kind::add(&mut kinds, what, bound, ceiling.bytes_per_s, run);
        }
    }
    said.extend(kinds.iter().filter_map(Kind::words));
    let beside = beside_passes(state);
    let several = beside.iter().any(|b| b.ceiling.model != beside[0].ceiling.model);
    said.extend(beside.iter().map(|b| b.words(several)));
    let mut wholes: Vec<Kind> = Vec::new();
    for group in state.groups() {
        let Some((run, kind, bound, _)) = whole_reached(state, &group) else { continue };
        let how = if group.is_one_model() { "cut over" } else { "at once into" };
        let (engine, model, target) = (plain(&run.engine.to_string()), plain(&run.model), plain(&run.target));
        let what = format!("{} {engine}, {model} {how} {target}, together", run.cache);
        // Whether models share a disk is not known; where they do, less is possible.
        let each = if kind == CeilingKind::DirectRead && !group.is_one_model() {
            ", were their disks not the same"
        } else {
            ""
        };
        let allowed = format!("{}, which the {} allows{each}", units::rate(bound), kind.words());
        Kind::add(&mut wholes, what, allowed, bound, run);
    }
    said.extend(wholes.iter().filter_map(Kind::words));
    said
}

/// The repeats of a load that one ceiling bounds.
struct Kind {
    what: String,
    bound: String,
    bound_bytes_per_s: f64,
    /// Bytes and time of each.
    runs: Vec<(u64, u64)>,
}

impl Kind {
    fn add(kinds: &mut Vec<Self>, what: String, bound: String, bound_bytes_per_s: f64, run: &RunResult) {
        let one = (run.bytes, run.wall_ns);
        match kinds.iter_mut().find(|kind| kind.what == what && kind.bound == bound) {
            Some(kind) => kind.runs.push(one),
            None => kinds.push(Self { what, bound, bound_bytes_per_s, runs: vec![one] }),
        }
    }

    /// The rate at the median time, as in the table above it.
    fn words(&self) -> Option<String> {
        let (bytes, walls): (Vec<u64>, Vec<u64>) = self.runs.iter().copied().unzip();
        let rate = units::bytes_per_s(median_u64(&bytes)?, median_u64(&walls)?)?;
        let percent = |rate: f64| format!("{:.0} %", rate / self.bound_bytes_per_s * 100.0);
        let shares = || self.runs.iter().filter_map(|(bytes, ns)| units::bytes_per_s(*bytes, *ns));
        let (low, high) = (percent(shares().reduce(f64::min)?), percent(shares().reduce(f64::max)?));
        let range = if low == high { String::new() } else { format!("; {low} to {high}") };
        let of = if self.runs.len() > 1 { format!(" (median of {})", self.runs.len()) } else { String::new() };
        Some(format!("{}: {}{of} = {} of {}{range}", self.what, units::rate(rate), percent(rate), self.bound))
    }
}

/// The cold loads of an engine beside the plain reader's passes over the same files, one with each round of them.
struct Beside<'s> {
    engine: &'s Engine,
    ceiling: &'s Ceiling,
    target: String,
    /// Rates of the loads, and of the pass before each where there was one.
    rates: Vec<(f64, Option<f64>)>,
}

impl Beside<'_> {
    fn median_rate(&self) -> f64 {
        median(&self.rates.iter().map(|(rate, _)| *rate).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Lowest and highest share of the pass of its own round.
    fn by_round(&self) -> Option<(f64, f64)> {
        let shares = || self.rates.iter().filter_map(|(rate, pass)| Some(rate / (*pass)?));
        Some((shares().reduce(f64::min)?, shares().reduce(f64::max)?))
    }

    fn words(&self, several: bool) -> String {
        let of = self.ceiling.model.as_ref().filter(|_| several).map_or_else(String::new, |m| format!(" {}", plain(m)));
        // Of one round there is nothing beside its medians.
        let range = self.by_round().filter(|_| self.rates.len() > 1);
        let rounds = range.map_or_else(String::new, |(low, high)| {
            format!("; round by round {:.0} % to {:.0} %", low * 100.0, high * 100.0)
        });
        let passes = self.ceiling.passes.len();
        format!(
            "cold {}{of} onto {}: the median of {} is {} = {:.0} % of the median {} of {} by a plain O_DIRECT reader, in turn with them{rounds}",
            plain(&self.engine.to_string()),
            plain(&self.target),
            counted(self.rates.len(), "load"),
            units::rate(self.median_rate()),
            self.median_rate() / self.ceiling.bytes_per_s * 100.0,
            units::rate(self.ceiling.bytes_per_s),
            counted(passes, "read").replace(" read", " whole read"),
        )
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// One for each engine, model and target; none where no plain reader read in turn with the loads.
fn beside_passes(state: &State) -> Vec<Beside<'_>> {
    let mut told: Vec<Beside<'_>> = Vec::new();
    for lane in state.lanes.iter().filter(|lane| lane.cache == CacheState::Cold && lane.group().is_none()) {
        let Some(run) = lane.result.as_deref().filter(|r| r.error.is_none() && r.verified != Some(false)) else {
            continue;
        };
        let Some(rate) = units::bytes_per_s(run.bytes, run.wall_ns) else { continue };
        let reads = |c: &&Ceiling| c.kind == CeilingKind::DirectRead && c.model.as_deref() == Some(&run.model);
        let Some(ceiling) = state.ceilings.iter().find(reads).filter(|c| !c.passes.is_empty()) else { continue };
        let pass = ceiling.passes.iter().find(|pass| pass.round == lane.repeat).map(|pass| pass.bytes_per_s);
        let same = |b: &&mut Beside<'_>| {
            *b.engine == lane.engine && b.target == run.target && b.ceiling.model == ceiling.model
        };
        match told.iter_mut().find(same) {
            Some(beside) => beside.rates.push((rate, pass)),
            None => told.push(Beside {
                engine: &lane.engine,
                ceiling,
                target: run.target.clone(),
                rates: vec![(rate, pass)],
            }),
        }
    }
    told
}

/// The cold loads beside the plain reader, for `report.json`.
pub(super) fn beside_json(state: &State) -> Vec<Value> {
    beside_passes(state)
        .iter()
        .map(|b| {
            let rounds = b.by_round();
            json!({
                "engine": b.engine, "model": b.ceiling.model, "target": b.target, "runs": b.rates.len(), "passes": b.ceiling.passes.len(),
                "run_bytes_per_s": b.median_rate(), "read_bytes_per_s": b.ceiling.bytes_per_s,
                "fraction": b.median_rate() / b.ceiling.bytes_per_s,
                "lowest_fraction": rounds.map(|r| r.0), "highest_fraction": rounds.map(|r| r.1),
            })
        })
        .collect()
}

/// The whole of a group that loaded, what bounds it, at which rate, and the share of that which was reached.
fn whole_reached<'g>(state: &State, group: &'g Group<'_>) -> Option<(&'g RunResult, CeilingKind, f64, f64)> {
    let run = group.whole.as_ref().filter(|r| r.error.is_none() && r.verified != Some(false))?;
    let rate = units::bytes_per_s(run.bytes, run.wall_ns)?;
    let (kind, bound) = state.group_ceiling(group)?;
    Some((run, kind, bound, rate / bound))
}

/// The ceiling of a group for `report.json`; null where one that bounds it was not measured.
pub(super) fn of_group(state: &State, group: &Group<'_>) -> Value {
    whole_reached(state, group)
        .map_or(Value::Null, |(_, kind, bound, share)| json!({"kind": kind, "bytes_per_s": bound, "fraction": share}))
}

/// The ceiling of a run for `report.json`; null where none was measured.
pub(super) fn of_run(state: &State, lane: &Lane) -> Value {
    reached(state, lane).map_or(
        Value::Null,
        |(ceiling, _, share)| json!({"kind": ceiling.kind, "bytes_per_s": ceiling.bytes_per_s, "fraction": share}),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::domain::{Event, EventBody, LaneId, ModelInfo, PhaseTimes, ReadPass, Target};

    #[test]
    fn repeats_are_told_as_one_with_the_rate_of_their_median_time() {
        let mut kinds = Vec::new();
        for (what, wall_ns) in [("hot pread", 100), ("hot mmap", 900), ("hot pread", 125), ("hot pread", 110)] {
            let run = serde_json::from_value(json!({
                "engine": "pread", "model": "m", "cache": "hot", "target": "host memory", "repeat": 0, "bytes": 1000, "wall_ns": wall_ns, "setup_ns": 1,
                "bytes_per_s": 0.0, "phases": PhaseTimes::default(), "slots": 1, "knobs": {}, "setup_parts_ns": {}, "notes": [],
            }));
            Kind::add(&mut kinds, what.to_owned(), "the pinned copy rate".to_owned(), 10e9, &run.unwrap());
        }
        let words: Vec<String> = kinds.iter().filter_map(Kind::words).collect();
        assert_eq!(
            words,
            [
                "hot pread: 9.09 GB/s (median of 3) = 91 % of the pinned copy rate; 80 % to 100 %",
                "hot mmap: 1.11 GB/s = 11 % of the pinned copy rate"
            ]
        );
    }

    #[test]
    fn a_cold_load_is_told_with_its_model_where_there_are_several_and_with_rounds_where_there_were_some() {
        let ceiling: Ceiling = serde_json::from_value(json!({
            "kind": "direct_read", "gpu": null, "model": "m", "bytes_per_s": 2e9, "how": "", "took_ns": 1, "passes": [{"round": 0, "bytes_per_s": 2e9}],
        }))
        .unwrap();
        let told = |rounds: usize| {
            let rates = vec![(1e9, Some(2e9)); rounds];
            Beside { engine: &Engine::Direct, ceiling: &ceiling, target: "host memory".to_owned(), rates }
        };
        let (one, two) = (told(1).words(true), told(2).words(false));
        assert!(one.starts_with("cold direct m onto host memory: ") && !one.contains("round by round"), "{one}");
        assert!(
            two.starts_with("cold direct onto host memory: ") && two.contains("round by round 50 % to 50 %"),
            "{two}"
        );
    }

    #[test]
    fn cold_loads_are_held_against_the_reads_of_their_own_rounds() {
        let mut state = State::default();
        let mut tell = |body| state.reduce(&Event { at_ns: 0, body });
        tell(EventBody::ModelOpened { model: ModelInfo { name: "m".into(), ..ModelInfo::default() } });
        // The disk is half as fast in the second round, for loads and reader alike, and the first pass failed in the fourth.
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
        tell(EventBody::CeilingMeasured { ceiling });
        for (repeat, (megabytes, _)) in (0..).zip(rounds) {
            for (lane, cache) in [(2 * repeat, CacheState::Cold), (2 * repeat + 1, CacheState::Hot)] {
                let (lane, engine, target) = (LaneId(lane), Engine::Direct, Target::Host);
                tell(EventBody::LanePlanned { lane, engine: engine.clone(), cache, target, repeat });
                let result: RunResult = serde_json::from_value(json!({
                    "engine": engine, "model": "m", "cache": cache, "target": "host memory", "repeat": repeat, "bytes": megabytes * 1_000_000,
                    "wall_ns": units::NS_PER_S, "setup_ns": 1, "bytes_per_s": 0.0, "phases": PhaseTimes::default(), "slots": 1, "knobs": {},
                    "setup_parts_ns": {}, "notes": [],
                }))
                .unwrap();
                tell(EventBody::LaneFinished { lane, result: Box::new(result) });
            }
        }
        let told = beside_json(&state);
        assert_eq!(told.len(), 1, "{told:?}");
        let number = |name: &str| told[0][name].as_f64().unwrap();
        assert_eq!((number("runs"), number("passes"), number("run_bytes_per_s")), (4.0, 3.0, 1.9e9));
        assert!((number("fraction") - 0.95).abs() < 1e-9);
        assert!((number("lowest_fraction") - 0.95).abs() < 1e-9 && (number("highest_fraction") - 1.0).abs() < 1e-9);
        let words = ceiling_words(&state).join("\n");
        assert!(words.contains("95 % of the median 2.00 GB/s of 3 whole reads"), "{words}");
        assert!(words.contains("round by round 95 % to 100 %"), "{words}");
    }
}
