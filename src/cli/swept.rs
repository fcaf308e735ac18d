//! Prints the result of a sweep: as text with reasons, as JSON, and as a command with the best settings.

use super::args::RaceArgs;
use crate::core::{CacheState, Engine, EngineSettings, PHASES, PhaseTimes, Setting, units};
use crate::text::quoted;
use serde_json::json;
use std::fmt::Write as _;

/// The number of alternating runs of the default and the best settings that measure the gain.
pub(super) const PROOF_RUNS: u32 = 3;
/// A smaller gain is ignored, because the speed of a disk varies more from minute to minute.
pub(super) const WORTH: f64 = 0.03;
/// One tested setting, with the median of its runs or the reason why there is none.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) settings: EngineSettings,
    pub(super) changed: Option<(Setting, u64)>,
    pub(super) wall_ns: Result<u64, String>,
    /// The phases of the run with the median time.
    pub(super) phases: PhaseTimes,
    pub(super) bytes: u64,
}

/// The reason why two times differ: the phase that grows most from the faster to the slower run.
pub(super) fn because(slower: &Tried, faster: &Tried) -> String {
    let (slower, faster) = (&slower.phases, &faster.phases);
    let most = PHASES.into_iter().max_by_key(|phase| slower.get(*phase).saturating_sub(faster.get(*phase)));
    let grown = most.filter(|phase| slower.get(*phase) > faster.get(*phase));
    grown.map_or_else(String::new, |phase| {
        let (name, slow, fast) = (phase.name(), slower.get(phase), faster.get(phase));
        format!(": {name} takes {} instead of {}", units::duration(slow), units::duration(fast))
    })
}

/// The result for one engine and one cache state.
pub(super) struct Swept {
    pub(super) engine: Engine,
    pub(super) cache: CacheState,
    pub(super) tried: Vec<Tried>,
    /// The settings that the engine chose in its first run.
    pub(super) default: EngineSettings,
    pub(super) best: EngineSettings,
    pub(super) reasons: Vec<String>,
    /// Medians of the default and the best settings with verification, and the spread of both. `None` if the default
    /// is the best.
    pub(super) proof: Option<Proof>,
    pub(super) failed_proof: Option<String>,
}

/// The times of the best and the default settings.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    pub(super) default_ns: u64,
    pub(super) best_ns: u64,
    pub(super) bytes: u64,
}

/// A warning if times of the same setting differ by more than the smallest useful gain.
pub(super) fn noise(tried: &[Tried]) -> Option<String> {
    let extent = |settings: &EngineSettings| {
        let same = tried.iter().filter(|t| t.settings == *settings).filter_map(|t| t.wall_ns.as_ref().ok());
        Some((*same.clone().min()?, *same.max()?))
    };
    let widest = |(low, high): &(u64, u64)| *high as f64 / (*low).max(1) as f64;
    let (low, high) =
        tried.iter().filter_map(|t| extent(&t.settings)).max_by(|a, b| widest(a).total_cmp(&widest(b)))?;
    (low as f64 <= high as f64 * (1.0 - WORTH)).then(|| {
        format!(
            "the same settings took {} to {} in this sweep: a difference of less than a factor of {:.1} may be noise",
            units::duration(low),
            units::duration(high),
            high as f64 / low.max(1) as f64
        )
    })
}

impl Swept {
    /// The differences from the engine's choice, as command-line arguments.
    fn arguments(&self) -> String {
        let differs = self.best.iter().filter(|(setting, value)| self.default.get(*setting) != Some(*value));
        differs.map(|(setting, value)| format!(" --set {}.{setting}={value}", self.engine)).collect()
    }

    fn command(&self, model: &str, race: &RaceArgs) -> String {
        let gpu = race.gpu.as_ref().map_or_else(String::new, |gpu| format!(" --gpu {gpu}"));
        let model = quoted(model);
        // The settings that applied to all runs of the sweep are part of its result.
        let set = race.settings.iter().map(|order| format!(" --set {order}")).collect::<String>();
        format!("gds-top bench {model} --engine {} --cache {}{gpu}{set}{}", self.engine, self.cache, self.arguments())
    }

    pub(super) fn to_text(&self, model: &str, race: &RaceArgs) -> String {
        let mut out = format!("{}, {}\n", self.engine, self.cache);
        let fastest = self.tried.iter().filter_map(|t| t.wall_ns.as_ref().ok()).min().copied().unwrap_or(0);
        for (number, tried) in self.tried.iter().enumerate() {
            let what = match tried.changed {
                None if number == 0 => "default".to_owned(),
                None => "best so far, again".to_owned(),
                Some((setting, value)) => format!("{setting}={}", setting.text(value)),
            };
            let all: Vec<String> =
                tried.settings.iter().map(|(setting, value)| format!("{setting} {}", setting.text(value))).collect();
            let line = match &tried.wall_ns {
                Ok(ns) => {
                    let rate = units::bytes_per_s(tried.bytes, *ns).map_or_else(String::new, units::rate);
                    let mark = if *ns == fastest { " ◀" } else { "" };
                    format!("{:>9} {rate:>10}  {}{mark}", units::duration(*ns), all.join(", "))
                }
                Err(why) => format!("failed: {why}"),
            };
            let _ = writeln!(out, "  {what:<22} {line}");
        }
        for reason in &self.reasons {
            let _ = writeln!(out, "  {reason}");
        }
        if let Some(why) = &self.failed_proof {
            let _ = writeln!(out, "  the settings were not proven: {why}");
            return out;
        }
        if let Some(proof) = self.proof {
            let rate = |ns| units::bytes_per_s(proof.bytes, ns).map_or_else(String::new, units::rate);
            let verdict = if self.best == self.default {
                format!("keep the default: {} ({})", units::duration(proof.default_ns), rate(proof.default_ns))
            } else {
                format!(
                    "best: {} ({}), the default took {} ({})",
                    units::duration(proof.best_ns),
                    rate(proof.best_ns),
                    units::duration(proof.default_ns),
                    rate(proof.default_ns)
                )
            };
            let _ = writeln!(out, "  {verdict}; medians of {PROOF_RUNS} verified runs, alternating");
        }
        let _ = writeln!(out, "  {}\n", self.command(model, race));
        out
    }

    pub(super) fn to_json(&self, model: &str, race: &RaceArgs) -> serde_json::Value {
        let tried: Vec<_> = self
            .tried
            .iter()
            .map(|t| json!({"settings": t.settings, "wall_ns": t.wall_ns.as_ref().ok(), "error": t.wall_ns.as_ref().err()}))
            .collect();
        json!({
            "engine": self.engine, "cache": self.cache, "tried": tried, "default": self.default, "best": self.best,
            "reasons": self.reasons, "best_wall_ns": self.proof.map(|p| p.best_ns), "default_wall_ns": self.proof.map(|p| p.default_ns),
            "verified": self.failed_proof.is_none(), "error": self.failed_proof, "command": self.command(model, race),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_told_where_one_setting_took_different_times() {
        let tried = |threads: u64, wall_ns: u64| Tried {
            settings: EngineSettings::from_iter([(Setting::Threads, threads)]),
            changed: None,
            wall_ns: Ok(wall_ns),
            phases: PhaseTimes::default(),
            bytes: 1,
        };
        let said = noise(&[tried(4, 100_000_000), tried(8, 20_000_000), tried(4, 250_000_000)]).unwrap();
        assert!(said.contains("100 ms to 250 ms") && said.contains("factor of 2.5"), "{said}");
        assert_eq!(noise(&[tried(4, 100_000_000), tried(8, 20_000_000), tried(4, 101_000_000)]), None);
    }

    #[test]
    fn the_command_names_only_what_differs_and_quotes_what_must_be() {
        let swept = Swept {
            engine: Engine::Pread,
            cache: CacheState::Hot,
            tried: Vec::new(),
            default: EngineSettings::from_iter([(Setting::Threads, 8), (Setting::Slots, 2)]),
            best: EngineSettings::from_iter([(Setting::Threads, 16), (Setting::Slots, 2)]),
            reasons: Vec::new(),
            proof: None,
            failed_proof: None,
        };
        let race = RaceArgs::default();
        assert_eq!(
            swept.command("/m/it's", &race),
            "gds-top bench \"/m/it's\" --engine pread --cache hot --set pread.threads=16"
        );
    }
}
