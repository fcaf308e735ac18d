//! Prints the result of a sweep: as text with reasons, as JSON, and as a command with the best settings.

use super::args::RaceArgs;
use super::terminal::columns;
use crate::analysis::{Swept, Untimed};
use crate::present::sweep;
use crate::report;
use crate::report::section::{Block, Section};
use crate::text::quoted;
use serde_json::json;

/// The differences of the best settings from the engine's choice, as command-line arguments.
fn arguments(swept: &Swept) -> String {
    let differs = swept.best.iter().filter(|(setting, value)| swept.default.get(*setting) != Some(*value));
    differs.map(|(setting, value)| format!(" --set {}.{setting}={value}", swept.engine)).collect()
}

/// The command that runs the engine with the best settings.
fn command(swept: &Swept, model: &str, race: &RaceArgs) -> String {
    let gpu = race.gpu.as_ref().map_or_else(String::new, |gpu| format!(" --target {gpu}"));
    let model = quoted(model);
    // The settings that applied to all runs of the sweep are part of its result.
    let set = race.settings.iter().map(|order| format!(" --set {order}")).collect::<String>();
    let Swept { engine, cache, .. } = swept;
    format!("gds-top bench {model} --engine {engine} --cache {cache}{gpu}{set}{}", arguments(swept))
}

pub(super) fn to_text(swept: &Swept, model: &str, race: &RaceArgs) -> String {
    let sentences = swept.reasons.iter().map(sweep::reason).chain(sweep::conclusion(swept));
    let section = Section::from(sweep::table(swept)).block(Block::List(sentences.collect()));
    let command = swept.failed_proof.is_none().then(|| command(swept, model, race));
    let section = section.block(Block::Commands(command.into_iter().collect()));
    report::lines(&[], &[section], columns(), false)
}

pub(super) fn to_json(swept: &Swept, model: &str, race: &RaceArgs) -> serde_json::Value {
    let tried: Vec<_> = swept
        .tried
        .iter()
        .map(|t| json!({"settings": t.settings, "wall_ns": t.wall_ns.as_ref().ok(), "error": t.wall_ns.as_ref().err().map(sweep::untimed)}))
        .collect();
    let reasons: Vec<String> = swept.reasons.iter().map(sweep::reason).collect();
    // Runs that read from the page cache have no valid time, but their bytes were verified.
    let is_verified = !matches!(swept.failed_proof, Some(Untimed::Failed(_)));
    json!({
        "engine": swept.engine, "cache": swept.cache, "tried": tried, "default": swept.default, "best": swept.best,
        "reasons": reasons, "best_wall_ns": swept.proof.map(|p| p.best_ns), "default_wall_ns": swept.proof.map(|p| p.default_ns),
        "verified": is_verified, "error": swept.failed_proof.as_ref().map(sweep::untimed), "command": command(swept, model, race),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Engine, EngineSettings, Setting};

    fn swept(failed_proof: Option<Untimed>) -> Swept {
        Swept {
            engine: Engine::Pread,
            cache: CacheState::Hot,
            tried: Vec::new(),
            default: EngineSettings::from_iter([(Setting::Threads, 8), (Setting::Slots, 2)]),
            best: EngineSettings::from_iter([(Setting::Threads, 16), (Setting::Slots, 2)]),
            reasons: Vec::new(),
            proof: None,
            failed_proof,
        }
    }

    #[test]
    fn the_command_has_the_changed_settings_and_a_quoted_path() {
        assert_eq!(
            command(&swept(None), "/m/it's", &RaceArgs::default()),
            "gds-top bench \"/m/it's\" --engine pread --cache hot --set pread.threads=16"
        );
    }

    #[test]
    fn bytes_of_runs_from_the_page_cache_are_verified_and_those_of_failed_runs_are_not() {
        for (failed_proof, is_verified) in
            [(None, true), (Some(Untimed::NotCold(0.9)), true), (Some(Untimed::Failed("no".to_owned())), false)]
        {
            let has_error = failed_proof.is_some();
            let json = to_json(&swept(failed_proof), "/m", &RaceArgs::default());
            assert_eq!((&json["verified"], json["error"].is_string()), (&json!(is_verified), has_error), "{json}");
        }
    }
}
