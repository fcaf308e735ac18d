//! The commands `make-model` and `inspect`.

use super::args::OutputArgs;
use super::bar::Bar;
use super::consent;
use super::outcome::{COULD_NOT_RUN, INTERRUPTED, Ran, fail, note, print, print_fitted, print_json};
use super::race::{end_with, ended_by_signals};
use super::terminal::columns;
use crate::core::units;
use crate::models::{self, KeptModel, Profile, SynthOptions, WeightsError};
use crate::present;
use crate::workloads::kv;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Writes a synthetic model, or lists the profiles.
pub(super) fn synth(
    what: Option<(&str, &Path)>,
    (scale, seed): (f64, u64),
    list: bool,
    (yes, force): (bool, bool),
    output: &OutputArgs,
) -> Ran {
    if list {
        return list_profiles(output);
    }
    let Some((name, dir)) = what else {
        return Err("make-model needs a SHAPE and a DIR; 'gds-top make-model --list' lists the shapes".to_owned());
    };
    let is_writing = end_with("interrupted; no model was written");
    let options = SynthOptions { scale, seed };
    let asked = Profile::named(name).and_then(|profile| KeptModel::in_folder(profile, dir, options));
    let asked = asked.map_err(|error| error.to_string())?;
    // The question about the size is only for a place that can have the model.
    if dir.exists() && !dir.is_dir() {
        return Err(format!("{} is not a directory; pass a directory for the model", dir.display()));
    }
    let earlier = if force { None } else { asked.written() };
    if earlier.is_none() {
        if !force {
            asked.replaces_no_other().map_err(|error| error.to_string())?;
        }
        if !consent::to_write(asked.bytes(), dir, yes)? {
            return Ok(consent::declined());
        }
    }
    let reused = earlier.is_some();
    let ended = ended_by_signals();
    is_writing.store(true, Ordering::Relaxed);
    let started = Instant::now();
    let mut bar = Bar::new(output);
    let write = || {
        models::synthesize(&Profile::named(name)?, dir, &options, &mut |done, total| {
            bar.show(done, total, &format!("{} of {}", units::bytes(done), units::bytes(total)));
            !ended.load(Ordering::Relaxed)
        })
    };
    let made = earlier.map_or_else(write, Ok);
    bar.clear();
    let model = match made {
        Err(error @ WeightsError::Stopped) => return Ok(fail(INTERRUPTED, &error.to_string())),
        Err(error) if error.is_no_space() => return Ok(fail(COULD_NOT_RUN, &error.to_string())),
        made => made.map_err(|error| error.to_string())?,
    };
    let took = started.elapsed();
    if output.json {
        return Ok(print_json(&serde_json::json!({
            "profile": name, "path": dir, "tensors": model.tensors.len(), "shards": model.shards.len(),
            "tensor_bytes": model.tensor_bytes(), "file_bytes": model.file_bytes(), "wall_ns": took.as_nanos() as u64,
            "reused": reused,
        })));
    }
    let rate = units::bytes_per_s(model.file_bytes(), took.as_nanos() as u64)
        .map_or_else(String::new, |r| format!(", {}", units::rate(r)));
    let when = match reused {
        true => "written earlier with the same shape, scale and seed".to_owned(),
        false => format!("written in {}{rate}", units::duration(took.as_nanos() as u64)),
    };
    let text = format!(
        "{}: {} tensors, {} bytes ({}) in {} file{}, {when}\n",
        dir.display(),
        model.tensors.len(),
        model.tensor_bytes(),
        units::bytes(model.tensor_bytes()),
        model.shards.len(),
        if model.shards.len() == 1 { "" } else { "s" }
    );
    Ok(print_fitted(&text, false))
}

fn list_profiles(output: &OutputArgs) -> Ran {
    let profiles: Result<Vec<Profile>, _> = Profile::names().into_iter().map(Profile::named).collect();
    let profiles = profiles.map_err(|error| error.to_string())?;
    if output.json {
        let list: Vec<_> = profiles
            .iter()
            .map(|p| serde_json::json!({"name": p.name, "title": p.title, "tensors": p.tensors_total, "bytes": p.bytes_total, "shards": p.shards_total, "source": p.source}))
            .collect();
        return Ok(print_json(&serde_json::json!({ "profiles": list })));
    }
    let mut text = String::new();
    for p in &profiles {
        let _ = writeln!(
            text,
            "{:<16} {:>7} tensors  {:>9}  {:>9}  {}",
            p.name,
            p.tensors_total,
            units::bytes(p.bytes_total),
            units::plural(p.shards_total, "file"),
            p.title
        );
    }
    Ok(print_fitted(&text, false))
}

/// Prints the tensors, files and read plan of a model.
pub(super) fn inspect(model: &str, output: &OutputArgs) -> Ran {
    let folder = Path::new(model);
    let stores = if folder.is_dir() { kv::recognise(folder) } else { Vec::new() };
    if let Some(first) = stores.first() {
        if output.json {
            let mut answer = serde_json::json!({"schema_version": 1, "kv_store": first});
            if let (Some(map), [_, _, ..]) = (answer.as_object_mut(), stores.as_slice()) {
                map.insert("kv_stores".to_owned(), serde_json::json!(stores));
            }
            return Ok(print_json(&answer));
        }
        let lines: Vec<String> = stores.iter().flat_map(present::serving::store_lines).collect();
        let text: String = lines.iter().map(|line| crate::text::sanitise_line(line).into_owned() + "\n").collect();
        return Ok(print_fitted(&text, false));
    }
    let opened = models::open(model).map_err(|error| {
        if Profile::names().contains(&model) {
            note(&format!(
                "'{model}' is a shape profile; write it with 'gds-top make-model {model} DIR' to inspect it"
            ));
        }
        error.to_string()
    })?;
    let inspection = models::inspect(&opened);
    if output.json {
        let value = serde_json::to_value(&inspection);
        return value
            .map(|value| print_json(&value))
            .map_err(|error| format!("the result could not be written as JSON: {error}"));
    }
    Ok(print(inspection.to_text(usize::from(columns())).as_bytes()))
}
