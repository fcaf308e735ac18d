//! `bench --sweep` finds the best settings of an engine. It changes one setting at a time and explains the result.

use super::args::{OutputArgs, RaceArgs};
use super::consent;
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, INTERRUPTED, Ran, fail, not_started, note, print, print_json};
use super::race::{SignalsFor, config, keep_signals_for_sessions};
use super::streams;
use super::swept::{to_json, to_text};
use super::terminal::headless_options;
use crate::analysis::{self, LEAST_GAIN, PROOF_RUNS, PhaseGrowth, Proof, Reason, Swept, Tried, Untimed, sweep_noise};
use crate::core::{CacheState, Engine, EngineSettings, EventBody, LaneId, RunResult, Setting, SettingOrder, units};
use crate::headless::Progress;
use crate::session::State;
use crate::session::live::{self, SessionConfig};
use serde_json::json;

const MIB: u64 = units::MIB;

/// The engines of a sweep if the user names none.
const USUAL: [Engine; 3] = [Engine::Pread, Engine::Odirect, Engine::GdsSlab];
/// Settings that pin or use more bytes than this are skipped.
const MOST_STAGING: u64 = 512 * MIB;

/// The names of the engines that can be swept.
fn swept_engines() -> Vec<String> {
    Engine::named().filter(|engine| !Setting::swept(engine, 1).is_empty()).map(ToString::to_string).collect()
}

/// The host memory in bytes that the settings would use. Unknown settings count as 0.
fn staging_bytes(engine: &Engine, settings: &EngineSettings) -> u64 {
    let get = |setting| settings.get(setting).unwrap_or(1);
    match engine {
        Engine::Pread | Engine::Odirect => {
            get(Setting::Threads).saturating_mul(get(Setting::Slots)).saturating_mul(get(Setting::BlockBytes))
        }
        _ => 0,
    }
}

/// Sweeps the engines for each model and prints the results.
pub(super) fn run(models: &[String], race: &RaceArgs, output: &OutputArgs) -> Ran {
    if output.json && models.len() > 1 {
        return Err("--json prints one result: name one model for --sweep".to_owned());
    }
    if let Some(error) = models.iter().find_map(|model| live::find(model).err()) {
        return not_started(&error);
    }
    if !consent::to_make(models, race.yes)? {
        return Ok(consent::declined());
    }
    Ok(models.iter().map(|model| one(model, race, output)).max().unwrap_or(FINE))
}

fn one(model: &str, race: &RaceArgs, output: &OutputArgs) -> u8 {
    let engines = Some(race.engines()).filter(|named| !named.is_empty()).unwrap_or_else(|| USUAL.to_vec());
    if let Some(engine) = engines.iter().find(|engine| Setting::swept(engine, 1).is_empty()) {
        return fail(
            super::outcome::BAD_CALL,
            &format!("'{engine}' has no settings to sweep; use one of {}", swept_engines().join(", ")),
        );
    }
    let runner = match Runner::new(model, race, output) {
        Ok(runner) if matches!(runner.base.gpu, live::GpuChoice::All | live::GpuChoice::Several(_)) => {
            return fail(super::outcome::BAD_CALL, "--sweep finds settings for one GPU; name it with --target");
        }
        Ok(runner) => runner,
        Err(sentence) => return fail(super::outcome::BAD_CALL, &sentence),
    };
    let mut all = Vec::new();
    for cache in runner.base.caches.clone() {
        for engine in &engines {
            match runner.sweep(engine, cache) {
                Ok(swept) => {
                    if !output.json {
                        print(to_text(&swept, model, race).as_bytes());
                    }
                    all.push(swept);
                }
                Err(End::Interrupted) => return INTERRUPTED,
                Err(End::Failed(why)) => note(&format!("{engine} {cache} was not swept: {why}")),
            }
        }
    }
    if output.json {
        print_json(&json!({ "sweeps": all.iter().map(|swept| to_json(swept, model, race)).collect::<Vec<_>>() }));
    }
    status(&all)
}

/// The exit status: 1 if a run with the proposed settings failed, 3 if they could not be measured.
fn status(all: &[Swept]) -> u8 {
    let failed = |swept: &Swept| matches!(swept.failed_proof, Some(Untimed::Failed(_)));
    match () {
        () if all.is_empty() => COULD_NOT_RUN,
        () if all.iter().any(failed) => BAD_ANSWER,
        () if all.iter().any(|swept| swept.failed_proof.is_some()) => COULD_NOT_RUN,
        () => FINE,
    }
}

/// Why a sweep ended early.
enum End {
    Interrupted,
    Failed(String),
}

struct Runner<'a> {
    base: SessionConfig,
    race: &'a RaceArgs,
    output: &'a OutputArgs,
    cpus: u64,
    signals: SignalsFor,
}

impl<'a> Runner<'a> {
    fn new(model: &str, race: &'a RaceArgs, output: &'a OutputArgs) -> Result<Self, String> {
        let mut base = config(race)?;
        base.model = Some(model.to_owned());
        base.checks = false;
        base.telemetry = false;
        base.record = None;
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        Ok(Self { base, race, output, cpus, signals: keep_signals_for_sessions() })
    }

    /// Runs the variants of one engine `repeat` times and returns the results of each. The variants alternate, so
    /// that a slower disk affects all of them.
    fn runs(
        &self,
        engine: &Engine,
        cache: CacheState,
        variants: &[EngineSettings],
        repeat: u32,
        verify: bool,
    ) -> Result<Vec<Vec<Result<RunResult, String>>>, End> {
        let mut config = self.base.clone();
        config.engines = Some(vec![engine.clone()]);
        config.caches = vec![cache];
        config.variants = variants.to_vec();
        config.repeat = repeat;
        config.verify = verify;
        let feed = live::start(config).map_err(|error| End::Failed(error.to_string()))?;
        self.signals.clone().pass_to(&feed);
        let mut results: Vec<Vec<Result<RunResult, String>>> = vec![Vec::new(); variants.len()];
        let place = |lane: LaneId| place(lane, variants.len());
        let mut state = State::default();
        let mut unavailable = None;
        let mut progress = Progress::new(&headless_options(self.output, None));
        for event in &feed.events {
            state.reduce(&event);
            progress.bar(&state, &mut streams::err());
            match event.body {
                EventBody::LaneFinished { lane, result } => {
                    let result = result.failure().map_or(Ok(*result), |failure| Err(failure.to_string()));
                    results[place(lane)].push(result);
                }
                EventBody::LaneDied { lane, how, .. } => results[place(lane)].push(Err(how)),
                EventBody::EngineUnavailable { why, .. } => unavailable = Some(why),
                _ => {}
            }
        }
        progress.clear(&mut streams::err());
        // After its last event, the session still removes its files.
        match unavailable {
            _ if state.ended == Some(true) => Err(End::Interrupted),
            Some(why) => Err(End::Failed(why)),
            None => Ok(results),
        }
    }

    /// Runs variants once, or as often as the user requested, and adds them to the table.
    fn try_all(
        &self,
        engine: &Engine,
        cache: CacheState,
        variants: &[(Option<(Setting, u64)>, EngineSettings)],
    ) -> Result<Vec<Tried>, End> {
        let settings: Vec<EngineSettings> = variants.iter().map(|(_, settings)| settings.clone()).collect();
        let results = self.runs(engine, cache, &settings, self.race.repeat.unwrap_or(1), false)?;
        Ok(variants.iter().zip(results).map(|((changed, settings), runs)| tried(*changed, settings, &runs)).collect())
    }

    fn sweep(&self, engine: &Engine, cache: CacheState) -> Result<Swept, End> {
        if !self.output.quiet && !self.output.json {
            note(&format!("sweeping {engine}, {cache}"));
        }
        // The first run shows the settings that the engine chooses. The other runs change them.
        let first = self.runs(engine, cache, &[EngineSettings::default()], self.race.repeat.unwrap_or(1), false)?;
        let runs = first.into_iter().next().unwrap_or_default();
        let swept_settings = Setting::swept(engine, self.cpus);
        let default: EngineSettings = match runs.iter().find_map(|run| run.as_ref().ok()) {
            Some(run) => {
                let used = |(setting, _): &(Setting, _)| Some((*setting, run.setting(*setting)?));
                swept_settings.iter().filter_map(used).collect()
            }
            None => {
                let why = runs.into_iter().find_map(Result::err);
                return Err(End::Failed(why.unwrap_or_else(|| "it has no result".to_owned())));
            }
        };
        let default_tried = tried(None, &default, &runs);
        // If even these runs were not cold, neither are the others.
        if let Err(why @ Untimed::NotCold(_)) = &default_tried.wall_ns {
            return Err(End::Failed(crate::present::sweep::untimed(why)));
        }
        let by_threads = runs.iter().flatten().any(|run| run.setting(Setting::IoUring) == Some(0));
        let mut swept = Swept {
            engine: engine.clone(),
            cache,
            tried: vec![default_tried],
            best: default.clone(),
            default,
            reasons: Vec::new(),
            proof: None,
            failed_proof: None,
        };
        let fixed = SettingOrder::settings_for(&self.base.settings, engine);
        for (name, values) in swept_settings {
            let Some(now) = swept.best.get(name) else { continue };
            if fixed.has(name) {
                swept.reasons.push(Reason::SetByUser(name, now));
                continue;
            }
            if name == Setting::Threads && by_threads {
                swept.reasons.push(Reason::ThreadsFollowDepth);
                continue;
            }
            let variants: Vec<_> = values
                .into_iter()
                .filter(|value| *value != now)
                .map(|value| {
                    let mut settings = swept.best.clone();
                    settings.set(name, value);
                    (Some((name, value)), settings)
                })
                .filter(|(_, settings)| staging_bytes(engine, settings) <= MOST_STAGING)
                .collect();
            if variants.is_empty() {
                continue;
            }
            // The best value so far is repeated at both ends of each round. All values are then compared within
            // minutes, and one slow run does not favour another value.
            let again = || std::iter::once((None, swept.best.clone()));
            let variants: Vec<_> = again().chain(variants).chain(again()).collect();
            let round = self.try_all(engine, cache, &variants)?;
            let same = round.iter().filter(|t| t.changed.is_none());
            let best = same.filter_map(|t| Some((t.wall_ns.clone().ok()?, t))).min_by_key(|(ns, _)| *ns);
            let Some((best_ns, so_far)) = best else {
                swept.reasons.push(Reason::NotSwept(name));
                swept.tried.extend(round);
                continue;
            };
            let others = round.iter().filter(|t| t.changed.is_some());
            let fastest = others.filter_map(|t| Some((t.wall_ns.clone().ok()?, t))).min_by_key(|(ns, _)| *ns);
            match fastest {
                Some((ns, best)) if (ns as f64) < best_ns as f64 * (1.0 - LEAST_GAIN) => {
                    swept.reasons.push(Reason::Improved {
                        setting: name,
                        from: now,
                        to: best.settings.get(name).unwrap_or(0),
                        gain: best_ns as f64 / ns as f64 - 1.0,
                        growth: PhaseGrowth::between(so_far, best),
                    });
                    swept.best.clone_from(&best.settings);
                }
                Some((ns, next)) => swept.reasons.push(Reason::Kept {
                    setting: name,
                    value: now,
                    next: next.settings.get(name).unwrap_or(0),
                    slower: ns as f64 / best_ns as f64 - 1.0,
                    growth: PhaseGrowth::between(next, so_far),
                }),
                None => swept.reasons.push(Reason::NoOther(name, now)),
            }
            swept.tried.extend(round);
        }
        swept.reasons.extend(sweep_noise(&swept.tried));
        let not_cold: u64 = swept.tried.iter().map(|tried| tried.not_cold).sum();
        swept.reasons.extend((not_cold > 0).then_some(Reason::NotCold(not_cold)));
        self.prove(&mut swept)?;
        Ok(swept)
    }

    /// Runs the default and the best settings in alternation, with verification. The fastest of many single runs is
    /// partly a coincidence.
    fn prove(&self, swept: &mut Swept) -> Result<(), End> {
        let variants = if swept.best == swept.default {
            vec![EngineSettings::default()]
        } else {
            vec![EngineSettings::default(), swept.best.clone()]
        };
        let results = self.runs(&swept.engine, swept.cache, &variants, PROOF_RUNS, true)?;
        if let Some(why) = results.iter().flatten().find_map(|run| run.as_ref().err()) {
            swept.failed_proof = Some(Untimed::Failed(why.clone()));
            return Ok(());
        }
        if let Some(cached) = results.iter().flatten().flatten().filter_map(RunResult::cached_before).reduce(f64::max) {
            swept.failed_proof = Some(Untimed::NotCold(cached));
            return Ok(());
        }
        let median = |runs: Option<&Vec<Result<RunResult, String>>>| {
            let times: Vec<u64> = runs.into_iter().flatten().flatten().map(|run| run.wall_ns).collect();
            analysis::median_u64(&times)
        };
        let bytes = results.iter().flatten().flatten().next().map_or(0, |run| run.bytes);
        let (Some(default_ns), best_ns) = (median(results.first()), median(results.last())) else {
            swept.failed_proof = Some(Untimed::Failed("no run was measured".to_owned()));
            return Ok(());
        };
        let best_ns = best_ns.unwrap_or(default_ns);
        let proof = Proof { default_ns, best_ns, bytes };
        swept.proof = Some(proof);
        if best_ns as f64 > default_ns as f64 * (1.0 - LEAST_GAIN) && swept.best != swept.default {
            swept.reasons.push(Reason::NotConfirmed(proof));
            swept.best.clone_from(&swept.default);
        }
        Ok(())
    }
}

/// The index of the variant of a run. Variants alternate, and each round starts with the next one.
fn place(lane: LaneId, variants: usize) -> usize {
    let round = u32::try_from(variants).unwrap_or(u32::MAX).max(1);
    ((lane.0 % round) as usize + live::goes_first(lane.0 / round, variants)) % variants.max(1)
}

fn tried(changed: Option<(Setting, u64)>, settings: &EngineSettings, runs: &[Result<RunResult, String>]) -> Tried {
    // Runs that should be cold and were not are left out.
    let cached = runs.iter().flatten().filter_map(RunResult::cached_before);
    let counted: Vec<&RunResult> = runs.iter().flatten().filter(|run| run.cached_before().is_none()).collect();
    let times: Vec<u64> = counted.iter().map(|run| run.wall_ns).collect();
    let error = runs.iter().find_map(|run| run.as_ref().err().cloned());
    let median = analysis::of_median_time(counted, |run: &&RunResult| run.wall_ns);
    let without_time = match (error, cached.clone().reduce(f64::max)) {
        (Some(why), _) => Some(Untimed::Failed(why)),
        (None, Some(cached)) if times.is_empty() => Some(Untimed::NotCold(cached)),
        (None, _) => None,
    };
    let wall_ns = match (without_time, analysis::median_u64(&times)) {
        (Some(why), _) => Err(why),
        (None, Some(wall_ns)) => Ok(wall_ns),
        (None, None) => Err(Untimed::Failed("it has no result".to_owned())),
    };
    Tried {
        settings: settings.clone(),
        changed,
        wall_ns,
        not_cold: cached.count() as u64,
        phases: median.map(|run| run.phases).unwrap_or_default(),
        bytes: runs.iter().flatten().next().map_or(0, |run| run.bytes),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_staging_memory_of_large_settings_is_computed() {
        let large = [(Setting::Threads, 32), (Setting::Slots, 8), (Setting::BlockBytes, 16 * MIB)];
        assert!(staging_bytes(&Engine::Pread, &large.into_iter().collect()) > MOST_STAGING);
    }

    #[test]
    fn cold_runs_that_the_page_cache_served_have_no_time() {
        let run = |wall_ns, resident| {
            let new = RunResult::new(Engine::Pread, "m", CacheState::Cold, "host memory");
            Ok(RunResult { wall_ns, cache_resident_before_fraction: Some(resident), ..new })
        };
        let of = |runs: &[Result<RunResult, String>]| tried(None, &EngineSettings::default(), runs);
        let mixed = of(&[run(10, 0.9), run(100, 0.0)]);
        assert_eq!((mixed.wall_ns, mixed.not_cold), (Ok(100), 1));
        let cached = of(&[run(10, 0.9), run(11, 0.5)]);
        assert_eq!((cached.wall_ns, cached.not_cold), (Err(Untimed::NotCold(0.9)), 2));
        let failed = of(&[run(10, 0.9), Err("no".to_owned())]);
        assert_eq!(failed.wall_ns, Err(Untimed::Failed("no".to_owned())));
        let swept = |failed_proof| Swept {
            engine: Engine::Pread,
            cache: CacheState::Cold,
            tried: Vec::new(),
            default: EngineSettings::default(),
            best: EngineSettings::default(),
            reasons: Vec::new(),
            proof: None,
            failed_proof,
        };
        assert_eq!(status(&[swept(None), swept(Some(Untimed::NotCold(0.9)))]), COULD_NOT_RUN);
        assert_eq!(status(&[swept(Some(Untimed::Failed("no".to_owned()))), swept(None)]), BAD_ANSWER);
    }

    #[test]
    fn each_run_is_assigned_to_its_variant() {
        let variants = ["default", "best"];
        let ran: Vec<&str> = (0..6).map(|lane| variants[place(LaneId(lane), variants.len())]).collect();
        assert_eq!(ran, ["default", "best", "best", "default", "default", "best"]);
    }
}
