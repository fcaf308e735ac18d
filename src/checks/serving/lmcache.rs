//! Reads the configuration of LMCache: options in a file or in the environment (`LMCACHE_…` overrides the file), and
//! flags of the server in multi-process mode.

use super::parts::{ignored, nixl_backend, none, paths, switch, text_of};
use super::source::Source;
use crate::core::{Serving, ServingConfig, StoreKind, WithoutCufile};
use serde_json::Value;

/// Options of early guides and versions, and the options that replaced them.
const IGNORED: [(&str, &str); 9] = [
    ("enable_gds", "gds_path"),
    ("backend", "gds_path"),
    ("gds_config", "gds_path, gds_buffer_size"),
    ("weka_path", "gds_path"),
    ("cufile_buffer_size", "gds_buffer_size"),
    ("enable_layerwise", "use_layerwise"),
    ("use_async", "enable_async_loading"),
    ("prefetch_factor", ""),
    ("enable_compression", "remote_serde"),
];

pub(super) fn read(source: &Source) -> Result<ServingConfig, String> {
    let mut config = none(Serving::Lmcache);
    config.ignored = ignored(source.map(), "", &IGNORED);
    if let Some(path) = source.flag("gds-l1-path") {
        slab(source, path, &mut config);
        return Ok(config);
    }
    let option = |name: &str| -> Option<Value> {
        let variable = format!("LMCACHE_{}", name.to_ascii_uppercase());
        let value = source.variable(&variable).map(|text| Value::String(text.to_owned()));
        value.or_else(|| source.map().get(name).cloned()).filter(|value| !value.is_null())
    };
    let extra = match option("extra_config") {
        Some(Value::String(text)) => {
            serde_json::from_str(&text).map_err(|error| format!("extra_config is malformed: {error}"))?
        }
        other => other.unwrap_or_default(),
    };
    for name in ["chunk_size", "gds_path", "gds_buffer_size", "use_gds", "gds_backend", "local_disk", "use_layerwise"] {
        config.options.extend(option(name).map(|value| (name.to_owned(), text_of(&value))));
    }
    if let Value::Object(all) = &extra {
        config.options.extend(all.iter().map(|(name, value)| (format!("extra_config.{name}"), text_of(value))));
    }
    if let Some(path) = option("gds_path") {
        let named = switch(option("use_gds").as_ref());
        let on = named.unwrap_or(true);
        config.store = StoreKind::LmcacheGds;
        config.paths = paths(&text_of(&path));
        (config.cufile_reads, config.cufile_writes, config.insists) = (on, on, named.is_some());
        config.direct_io = on && switch(extra.get("use_direct_io")).unwrap_or(false);
        config.without_cufile = if on { WithoutCufile::StartFails } else { WithoutCufile::Posix };
        if option("gds_buffer_size").is_none() {
            config.missing.push("gds_buffer_size".to_owned());
        }
    } else if switch(extra.get("enable_nixl_storage")) == Some(true) {
        config.paths = extra.get("nixl_path").map(text_of).map_or_else(Vec::new, |text| paths(&text));
        let backend = extra.get("nixl_backend").map(text_of);
        nixl_backend(&mut config, backend.as_deref(), StoreKind::LmcacheNixl);
        config.direct_io = switch(extra.get("use_direct_io")).unwrap_or(false);
    } else if let Some(path) = option("local_disk") {
        config.store = StoreKind::LmcacheDisk;
        config.paths = paths(text_of(&path).trim_start_matches("file://"));
    }
    Ok(config)
}

/// The GDS L1 tier of the server.
fn slab(source: &Source, path: &str, config: &mut ServingConfig) {
    config.store = StoreKind::LmcacheGdsL1;
    config.paths = paths(path);
    (config.cufile_reads, config.cufile_writes) = (true, true);
    config.direct_io = source.flag("no-gds-l1-use-direct-io").is_none();
    config.without_cufile = WithoutCufile::StartFails;
    for name in ["gds-l1-path", "l1-size-gb", "gds-l1-backend"] {
        config.options.extend(source.flag(name).map(|value| (format!("--{name}"), value.to_owned())));
    }
    if source.flag("l1-size-gb").is_none() {
        config.missing.push("--l1-size-gb".to_owned());
    }
}
