//! The result of a sweep: the tested settings, the reasons and the conclusion.

use super::view::{Table, number, text};
use crate::analysis::{PROOF_RUNS, PhaseGrowth, Reason, Swept, Tried, Untimed};
use crate::core::{EngineSettings, units};

/// The table of the tested settings. The last rows are the alternating runs that decide.
#[must_use]
pub fn table(swept: &Swept) -> Table {
    let fastest = swept.tried.iter().filter_map(|tried| tried.wall_ns.as_ref().ok()).min();
    let row = |(number, tried): (usize, &Tried)| {
        let changed = match tried.changed {
            None if number == 0 => "default".to_owned(),
            None if tried.settings == swept.default => "default again".to_owned(),
            None => "best so far".to_owned(),
            Some((setting, value)) => format!("{setting}={}", setting.text(value)),
        };
        match &tried.wall_ns {
            Ok(ns) => {
                let rate = units::bytes_per_s(tried.bytes, *ns).map_or_else(String::new, units::rate);
                let mark = if Some(ns) == fastest { " ◀" } else { "" };
                vec![changed, units::duration(*ns), rate, format!("{}{mark}", settings(&tried.settings))]
            }
            Err(why) => {
                let name = if matches!(why, Untimed::NotCold(_)) { "not cold" } else { "failed" };
                vec![changed, name.to_owned(), String::new(), untimed(why)]
            }
        }
    };
    Table {
        title: format!("{}, {}", swept.engine, swept.cache),
        note: String::new(),
        heads: vec![text("changed"), number("time"), number("rate"), text("settings")],
        rows: swept.tried.iter().enumerate().map(row).chain(proven(swept)).collect(),
    }
}

/// The rows of the alternating runs of the default and the best settings.
fn proven(swept: &Swept) -> Vec<Vec<String>> {
    let Some(proof) = swept.proof else { return Vec::new() };
    let row = |what: &str, ns: u64, used: &EngineSettings| {
        let rate = units::bytes_per_s(proof.bytes, ns).map_or_else(String::new, units::rate);
        vec![format!("{what}, median of {PROOF_RUNS}"), units::duration(ns), rate, settings(used)]
    };
    let mut rows = vec![row("default", proof.default_ns, &swept.default)];
    if swept.best != swept.default {
        rows.push(row("best", proof.best_ns, &swept.best));
    }
    rows
}

fn settings(all: &EngineSettings) -> String {
    all.iter().map(|(setting, value)| format!("{setting} {}", setting.text(value))).collect::<Vec<_>>().join(", ")
}

/// The reason why runs have no time, as a sentence.
#[must_use]
pub fn untimed(why: &Untimed) -> String {
    match why {
        Untimed::Failed(why) => why.clone(),
        Untimed::NotCold(cached) => {
            format!("up to {} of the model was in the page cache before a cold run", units::percent(*cached))
        }
    }
}

/// The sentence for a reason.
#[must_use]
pub fn reason(reason: &Reason) -> String {
    let because = |growth: &Option<PhaseGrowth>| {
        growth.map_or_else(String::new, |PhaseGrowth { phase, slow_ns, fast_ns }| {
            format!(" {} takes {} instead of {}.", phase.name(), units::duration(slow_ns), units::duration(fast_ns))
        })
    };
    match reason {
        Reason::SetByUser(setting, value) => format!("{setting} is {}, as set by the user.", setting.text(*value)),
        Reason::ThreadsFollowDepth => {
            "threads follow depth: without io_uring each read in flight needs a thread.".to_owned()
        }
        Reason::NotSwept(setting) => {
            format!("{setting} was not swept: no run with the best settings so far has a time.")
        }
        Reason::NotCold(runs) => format!(
            "{} {} left out: the page cache had a part of the model before.",
            units::plural(*runs, "cold run"),
            units::verb(*runs, "was", "were")
        ),
        Reason::Improved { setting, from, to, gain, growth } => {
            let (from, to) = (setting.text(*from), setting.text(*to));
            let cause = because(growth);
            let cause = if cause.is_empty() { cause } else { format!(" With {from},{cause}") };
            format!("{setting} {to} instead of {from}: {} faster.{cause}", units::percent(*gain))
        }
        Reason::Kept { setting, value, next, slower, growth } => {
            let (value, next) = (setting.text(*value), setting.text(*next));
            let difference = match *slower {
                share if share >= 0.0 => format!("{} slower.{}", units::percent(share), because(growth)),
                share => format!("only {} faster.", units::percent(-share)),
            };
            format!("{setting} stays {value}: the next best, {next}, is {difference}")
        }
        Reason::NoOther(setting, value) => {
            format!("{setting} stays {}: no other value has a result.", setting.text(*value))
        }
        Reason::Noise { low_ns, high_ns } => format!(
            "The same settings took {} to {} in this sweep. A difference below a factor of {:.1} may be noise.",
            units::duration(*low_ns),
            units::duration(*high_ns),
            *high_ns as f64 / (*low_ns).max(1) as f64
        ),
        Reason::NotConfirmed(proof) => format!(
            "In alternating runs the changed settings took {} and the default {}: the gain is too small.",
            units::duration(proof.best_ns),
            units::duration(proof.default_ns)
        ),
    }
}

/// The conclusion; `None` if nothing was measured.
#[must_use]
pub fn conclusion(swept: &Swept) -> Option<String> {
    if let Some(why) = &swept.failed_proof {
        return Some(format!("The settings were not proven: {}", untimed(why)));
    }
    let proof = swept.proof?;
    let time = |ns| {
        let rate = units::bytes_per_s(proof.bytes, ns).map_or_else(String::new, units::rate);
        format!("{} ({rate})", units::duration(ns))
    };
    let result = if swept.best == swept.default {
        format!("Keep the default: {}", time(proof.default_ns))
    } else {
        format!("Best: {}, default: {}", time(proof.best_ns), time(proof.default_ns))
    };
    Some(format!("{result}. Medians of {PROOF_RUNS} verified runs, alternating."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Proof;
    use crate::core::{CacheState, Engine, PhaseTimes, Setting};

    #[test]
    fn repeats_of_the_default_are_named_and_the_deciding_medians_have_rows() {
        let threads = |count| EngineSettings::from_iter([(Setting::Threads, count)]);
        let tried = |changed, count, ms: u64| Tried {
            settings: threads(count),
            changed,
            wall_ns: Ok(ms * 1_000_000),
            not_cold: 0,
            phases: PhaseTimes::default(),
            bytes: 1000,
        };
        let mut swept = Swept {
            engine: Engine::Pread,
            cache: CacheState::Hot,
            tried: vec![
                tried(None, 8, 104),
                tried(None, 8, 105),
                tried(Some((Setting::Threads, 16)), 16, 90),
                tried(None, 16, 91),
            ],
            default: threads(8),
            best: threads(8),
            reasons: Vec::new(),
            proof: Some(Proof { default_ns: 247_000_000, best_ns: 247_000_000, bytes: 1000 }),
            failed_proof: None,
        };
        let named = |swept: &Swept| -> Vec<String> {
            table(swept).rows.iter().map(|row| format!("{} {}", row[0], row[1])).collect()
        };
        let tried = ["default 104 ms", "default again 105 ms", "threads=16 90.0 ms", "best so far 91.0 ms"];
        assert_eq!(named(&swept), [&tried[..], &["default, median of 3 247 ms"]].concat());
        swept.best = threads(16);
        swept.proof = Some(Proof { default_ns: 247_000_000, best_ns: 200_000_000, bytes: 1000 });
        assert_eq!(named(&swept)[4..], ["default, median of 3 247 ms", "best, median of 3 200 ms"]);
    }
}
