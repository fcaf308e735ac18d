//! `bench A B --together` loads each model alone, then all at the same time.

use super::args::{Export, OutputArgs, RaceArgs};
use super::consent;
use super::outcome::{INTERRUPTED, Ran, note};
use super::race::{baseline, config, ended_by_signals, follow};
use crate::models::{KeptModel, Profile, WeightsError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the loads in one session and shows it.
pub(super) fn load(models: &[String], race: &RaceArgs, export: Option<Export>, output: &OutputArgs) -> Ran {
    let [first, others @ ..] = models else { return Err("name at least two models to load together".to_owned()) };
    if others.is_empty() {
        return Err("--together loads several models at the same time: name at least two (one can be named twice). To divide one model among GPUs, use --target 0,1 instead".to_owned());
    }
    let mut config = config(race)?;
    let baseline = baseline(race)?;
    config.model = Some(first.clone());
    // The session compares a single load with parallel loads, not engines.
    config.repeat = race.repeat.unwrap_or(1);
    if !consent::to_make(models, race.yes)? {
        return Ok(consent::declined());
    }
    let ended = ended_by_signals();
    config.together_with = match others.iter().map(|name| made(name, &ended)).collect() {
        Err(_) if ended.load(Ordering::Relaxed) => return Ok(INTERRUPTED),
        others => others?,
    };
    config.checks = false;
    follow(config, output, export, baseline.as_ref())
}

/// The path of a model. A shape profile becomes a synthetic model, which is written on first use. An existing path
/// with the same name has precedence.
fn made(name: &str, ended: &AtomicBool) -> Result<String, String> {
    if Path::new(name).exists() || !Profile::names().contains(&name) {
        return Ok(name.to_owned());
    }
    note(&format!("loading a synthetic model in the shape of {name}; it is written once and kept"));
    let make = || KeptModel::full(Profile::named(name)?)?.open_or_write(&mut |_, _| !ended.load(Ordering::Relaxed));
    let model = make().map_err(|e: WeightsError| e.to_string())?;
    let path = model.path.into_os_string().into_string();
    path.map_err(|path| format!("the path {} is not UTF-8; --together needs paths in UTF-8", path.display()))
}
