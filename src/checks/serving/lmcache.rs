//! Reads the configuration of LMCache: options in a file or in the environment (`LMCACHE_…` overrides the file), and
//! flags of the server in multi-process mode.

use super::lmcache_names::NAMES;
use super::parts::{check_numbers, ignored, nixl_backend, none, paths, rejected, switch, text_of, unknown};
use super::source::{OpenFile, Source};
use crate::core::{IgnoredOption, Serving, ServingConfig, StoreKind, WithoutCufile};
use serde_json::Value;

/// Options of early guides and versions, and the options that replaced them.
const IGNORED: [(&str, &str); 11] = [
    ("enable_gds", "gds_path"),
    ("backend", "gds_path"),
    ("gds_config", "gds_path, gds_buffer_size"),
    ("weka_path", "gds_path"),
    ("cufile_buffer_size", "gds_buffer_size"),
    ("enable_layerwise", "use_layerwise"),
    ("use_async", "enable_async_loading"),
    ("prefetch_factor", ""),
    ("enable_compression", "remote_serde"),
    ("compression_algo", "remote_serde"),
    ("eviction_policy", "cache_policy"),
];

/// The entries of `gds_config` of early guides, and the options that replaced them. The other entries have no
/// replacement.
const IGNORED_GDS: [(&str, &str); 5] = [
    ("cache_dir", "gds_path"),
    ("buffer_size", "gds_buffer_size"),
    ("enable_compression", "remote_serde"),
    ("compression_algo", "remote_serde"),
    ("eviction_policy", "cache_policy"),
];

/// Entries of `extra_config` of early versions, and the entries that replaced them.
const IGNORED_EXTRA: [(&str, &str); 1] = [("gds_io_threads", "extra_config.disk_io_threads")];
/// The plugins with which LMCache's back end on NIXL starts.
const NIXL_PLUGINS: [&str; 5] = ["GDS", "GDS_MT", "POSIX", "HF3FS", "OBJ"];

/// The back ends of the GDS L1 tier.
const GDS_L1_BACKENDS: [&str; 4] = ["auto", "cufile", "hipfile", "ugds"];

/// The options that the result contains.
const OPTIONS: [&str; 9] = [
    "chunk_size",
    "gds_path",
    "gds_buffer_size",
    "use_gds",
    "gds_backend",
    "local_disk",
    "max_local_cpu_size",
    "nixl_buffer_size",
    "use_layerwise",
];

/// The variable that names LMCache's file.
const CONFIG_FILE: &str = "LMCACHE_CONFIG_FILE";

/// LMCache's options. Variables override the options of the file that one of them names, and entries of vLLM's map
/// override both.
pub(super) fn read_with_file(source: &Source, open: OpenFile<'_>) -> Result<ServingConfig, String> {
    // The map of a file takes the place of the file that the variable names. The server reads no file.
    let is_server = ["gds-l1-path", "l1-manager"].iter().any(|flag| source.flag(flag).is_some());
    let Some(file) = source.variable(CONFIG_FILE).filter(|_| !is_server && !source.is_options_file()) else {
        return read(source);
    };
    let unusable = |error: String| format!("the configuration {file} cannot be used: {error}");
    let mut merged = Source::new(&open(file)?, source.variables()).map_err(unusable)?;
    merged.set_connector(source.extra_config());
    read(&merged).map_err(unusable)
}

fn read(source: &Source) -> Result<ServingConfig, String> {
    let mut config = none(Serving::Lmcache);
    config.ignored = ignored(source.map(), "", &IGNORED);
    for name in source.map().get("gds_config").and_then(Value::as_object).into_iter().flat_map(|map| map.keys()) {
        let instead = IGNORED_GDS.iter().find(|(known, _)| known == name).map_or("", |(_, instead)| *instead);
        config.ignored.push(IgnoredOption { option: format!("gds_config.{name}"), instead: instead.to_owned() });
    }
    // A map with the connector of vLLM has other names.
    if source.map().get("kv_connector").is_none() {
        config.unknown = unknown(source.map(), &NAMES, &IGNORED);
    }
    let variables = IGNORED.iter().map(|(name, instead)| (variable_of(name), *instead));
    config.ignored.extend(variables.filter(|(name, _)| source.variable(name).is_some()).map(|(option, instead)| {
        let instead =
            instead.split(", ").filter(|name| !name.is_empty()).map(variable_of).collect::<Vec<_>>().join(", ");
        IgnoredOption { option, instead }
    }));
    if let Some(path) = source.flag("gds-l1-path") {
        let direct_io = source.flag("no-gds-l1-use-direct-io").is_none();
        for name in ["gds-l1-path", "l1-size-gb", "gds-l1-backend"] {
            config.options.extend(source.flag(name).map(|value| (format!("--{name}"), value.to_owned())));
        }
        if source.flag("l1-size-gb").is_none() {
            config.missing.push("--l1-size-gb".to_owned());
        }
        slab(source, path, ("--gds-l1-backend", source.flag("gds-l1-backend")), direct_io, &mut config);
        return Ok(config);
    }
    if source.flag("l1-manager").is_some() {
        managers(source, &mut config)?;
        return Ok(config);
    }
    // vLLM's connector applies the entries `lmcache.NAME` of its map last. It reports other names and ignores them.
    let connector = source.extra_config();
    for name in connector.as_object().into_iter().flat_map(|map| map.keys()) {
        match name.strip_prefix("lmcache.") {
            Some("config_file") => {
                config
                    .ignored
                    .push(IgnoredOption { option: name.clone(), instead: format!("the variable {CONFIG_FILE}") });
            }
            Some(option) if !NAMES.contains(&option) => config.unknown.push(name.clone()),
            _ => {}
        }
    }
    let option = |name: &str| -> Option<Value> {
        if let Some(value) = connector.get(format!("lmcache.{name}")).filter(|value| !value.is_null()) {
            return Some(value.clone());
        }
        let value = source.variable(&variable_of(name)).map(|text| Value::String(text.to_owned()));
        value.or_else(|| source.map().get(name).cloned()).filter(|value| !value.is_null())
    };
    let extra = match option("extra_config") {
        Some(Value::String(text)) => {
            serde_json::from_str(&text).map_err(|error| format!("extra_config is malformed: {error}"))?
        }
        other => other.unwrap_or_default(),
    };
    for name in OPTIONS {
        config.options.extend(option(name).map(|value| (name.to_owned(), text_of(&value))));
    }
    if let Value::Object(all) = &extra {
        config.options.extend(all.iter().map(|(name, value)| (format!("extra_config.{name}"), text_of(value))));
    }
    let threads = extra.get("nixl_backend_params").and_then(|params| params.get("thread_count"));
    config.options.extend(threads.map(|value| ("params.thread_count".to_owned(), text_of(value))));
    config.ignored.extend(ignored(&extra, "extra_config.", &IGNORED_EXTRA));
    check_numbers(&mut config, &["chunk_size", "gds_buffer_size", "nixl_buffer_size"], option);
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
        for (name, known) in [("gds_path_sharding", "by_gpu"), ("gds_backend", "cufile hipfile")] {
            let known: Vec<&str> = known.split(' ').collect();
            let value = option(name).map(|value| text_of(&value)).filter(|value| !known.contains(&value.as_str()));
            config.wrong.extend(value.map(|value| rejected(name, value, &known)));
        }
    } else if switch(extra.get("enable_nixl_storage")) == Some(true) {
        config.paths = extra.get("nixl_path").map(text_of).map_or_else(Vec::new, |text| paths(&text));
        let backend = extra.get("nixl_backend").map(text_of);
        nixl_backend(&mut config, backend.as_deref(), StoreKind::LmcacheNixl);
        config.direct_io = switch(extra.get("use_direct_io")).unwrap_or(false);
        match backend.filter(|name| !NIXL_PLUGINS.contains(&name.as_str())) {
            Some(other) => config.wrong.push(rejected("extra_config.nixl_backend", other, &NIXL_PLUGINS)),
            None => nixl(&option, &extra, &mut config),
        }
    } else if let Some(path) = option("local_disk") {
        config.store = StoreKind::LmcacheDisk;
        config.paths = paths(text_of(&path).trim_start_matches("file://"));
    }
    Ok(config)
}

/// The values without which LMCache's back end on NIXL does not start.
fn nixl(option: &dyn Fn(&str) -> Option<Value>, extra: &Value, config: &mut ServingConfig) {
    let backend = extra.get("nixl_backend").and_then(Value::as_str);
    if extra.get("nixl_pool_size").is_none() {
        config.missing.push("extra_config.nixl_pool_size".to_owned());
    }
    let size = option("nixl_buffer_size").map(|value| text_of(&value));
    let devices: &[&str] = match backend {
        Some("GDS" | "GDS_MT" | "OBJ") => &["cuda", "cpu"],
        _ => &["cpu"],
    };
    match option("nixl_buffer_device").map(|value| text_of(&value)) {
        None => config.missing.push("nixl_buffer_device".to_owned()),
        Some(device) if !devices.contains(&device.split(':').next().unwrap_or_default()) => {
            config.wrong.push(rejected("nixl_buffer_device", device, devices));
        }
        Some(device) => match (device.as_str(), size) {
            ("cpu", Some(size)) => config.wrong.push(rejected("nixl_buffer_size", size, &["no value with cpu"])),
            ("cpu", None) | (_, Some(_)) => {}
            (_, None) => config.missing.push("nixl_buffer_size".to_owned()),
        },
    }
    let on_files = matches!(backend, Some("GDS" | "GDS_MT" | "POSIX" | "HF3FS"));
    if on_files && extra.get("nixl_path").is_none() {
        config.missing.push("extra_config.nixl_path".to_owned());
    }
}

/// The environment variable of an option.
fn variable_of(option: &str) -> String {
    format!("LMCACHE_{}", option.to_ascii_uppercase())
}

/// The managers of the server's L1: each is a JSON object. One of them can be the GDS L1 tier.
fn managers(source: &Source, config: &mut ServingConfig) -> Result<(), String> {
    for text in source.flag_values("l1-manager") {
        let manager: Value =
            serde_json::from_str(text).map_err(|error| format!("--l1-manager is malformed: {error}"))?;
        let value = |name: &str| manager.get(name).filter(|value| !value.is_null()).map(text_of);
        for name in ["type", "path", "size_gb", "backend", "direct_io"] {
            config.options.extend(value(name).map(|value| (format!("--l1-manager {name}"), value)));
        }
        match value("type").as_deref() {
            Some("GDS") => {}
            Some("DRAM" | "DEVDAX") => continue,
            Some(other) => {
                config.wrong.push(rejected("--l1-manager type", other.to_owned(), &["DRAM", "GDS", "DEVDAX"]));
                continue;
            }
            None => {
                config.missing.push("type of --l1-manager".to_owned());
                continue;
            }
        }
        for name in ["tag", "size_gb", "path"] {
            if value(name).is_none() {
                config.missing.push(format!("{name} of --l1-manager"));
            }
        }
        let direct_io = switch(manager.get("direct_io")).unwrap_or(true);
        let backend = value("backend");
        let path = value("path").unwrap_or_default();
        slab(source, &path, ("--l1-manager backend", backend.as_deref()), direct_io, config);
    }
    Ok(())
}

/// The GDS L1 tier of the server. Its back end `ugds` uses a raw device without cuFile.
fn slab(
    source: &Source,
    path: &str,
    (option, backend): (&str, Option<&str>),
    direct_io: bool,
    config: &mut ServingConfig,
) {
    config.store = StoreKind::LmcacheGdsL1;
    config.paths = paths(path);
    config.options.extend(source.flag("chunk-size").map(|value| ("--chunk-size".to_owned(), value.to_owned())));
    let backend = backend.unwrap_or("auto");
    if !GDS_L1_BACKENDS.contains(&backend) {
        config.wrong.push(rejected(option, backend.to_owned(), &GDS_L1_BACKENDS));
    }
    if matches!(backend, "auto" | "cufile") {
        (config.cufile_reads, config.cufile_writes) = (true, true);
        config.direct_io = direct_io;
        config.without_cufile = WithoutCufile::StartFails;
    }
}
