//! Functions that the readers of several systems share.

use crate::core::{IgnoredOption, Serving, ServingConfig, StoreKind, WithoutCufile};
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
    }
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
    let by_cufile = matches!(backend.to_ascii_uppercase().as_str(), "GDS" | "GDS_MT");
    let stores = by_cufile || matches!(backend.to_ascii_uppercase().as_str(), "POSIX" | "HF3FS");
    if stores {
        config.store = kind;
    }
    (config.cufile_reads, config.cufile_writes) = (by_cufile, by_cufile);
    config.without_cufile = if by_cufile { WithoutCufile::StartFails } else { WithoutCufile::NotUsed };
}
