//! Functions that the readers of several systems share.

use crate::core::{IgnoredOption, Serving, ServingConfig, StoreKind, WithoutCufile, WrongValue};
use serde_json::Value;
use std::path::PathBuf;

/// A configuration without storage. The readers fill in its fields.
pub(super) fn none(serving: Serving) -> ServingConfig {
    ServingConfig {
        serving,
        store: StoreKind::None,
        paths: Vec::new(),
        cufile_reads: false,
        cufile_writes: false,
        direct_io: false,
        without_cufile: WithoutCufile::NotUsed,
        insists: false,
        options: Vec::new(),
        ignored: Vec::new(),
        missing: Vec::new(),
        unknown: Vec::new(),
        wrong: Vec::new(),
    }
}

/// A value that the program rejects, with the values that it accepts.
pub(super) fn rejected(option: &str, value: String, accepted: &[&str]) -> WrongValue {
    WrongValue { option: option.to_owned(), value, accepted: accepted.join(", "), used: None }
}

/// Adds the options among `names` whose value is not an integer. The programs convert them when they start.
pub(super) fn check_numbers(config: &mut ServingConfig, names: &[&str], option: impl Fn(&str) -> Option<Value>) {
    let is_integer = |text: &str| text.trim().replace('_', "").parse::<i64>().is_ok();
    let values = names.iter().filter_map(|name| Some((*name, text_of(&option(name)?))));
    let wrong = values.filter(|(_, text)| !is_integer(text));
    config.wrong.extend(wrong.map(|(name, text)| rejected(name, text, &["an integer"])));
}

/// The names in a map that are neither known nor listed as ignored.
pub(super) fn unknown(map: &Value, known: &[&str], ignored: &[(&str, &str)]) -> Vec<String> {
    let names = map.as_object().into_iter().flat_map(|map| map.keys());
    let is_known =
        |name: &&String| known.contains(&name.as_str()) || ignored.iter().any(|(option, _)| option == &name.as_str());
    names.filter(|name| !is_known(name)).cloned().collect()
}

/// The options in a map that the program ignores, according to `known`.
pub(super) fn ignored(map: &Value, prefix: &str, known: &[(&str, &str)]) -> Vec<IgnoredOption> {
    known
        .iter()
        .filter(|(option, _)| map.get(option).is_some())
        .map(|(option, instead)| IgnoredOption { option: format!("{prefix}{option}"), instead: (*instead).to_owned() })
        .collect()
}

/// A value as text. Strings have no quotes.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A switch as Python programs write it: a boolean, or the word for it.
pub(super) fn switch(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(on) => Some(*on),
        Value::String(text) => Some(matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on")),
        Value::Number(number) => Some(number.as_i64() != Some(0)),
        _ => None,
    }
}

/// Paths separated by commas.
pub(super) fn paths(text: &str) -> Vec<PathBuf> {
    text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// Sets the fields that the name of a NIXL plugin determines.
pub(super) fn nixl_backend(config: &mut ServingConfig, backend: Option<&str>, kind: StoreKind) {
    let Some(backend) = backend else {
        config.missing.push("backend".to_owned());
        return;
    };
    config.options.push(("backend".to_owned(), backend.to_owned()));
    // NIXL compares the names of its plugins exactly.
    let by_cufile = matches!(backend, "GDS" | "GDS_MT");
    let stores = by_cufile || matches!(backend, "POSIX" | "HF3FS");
    if stores {
        config.store = kind;
    }
    (config.cufile_reads, config.cufile_writes) = (by_cufile, by_cufile);
    config.without_cufile = if by_cufile { WithoutCufile::StartFails } else { WithoutCufile::NotUsed };
}
