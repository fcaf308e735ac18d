//! vLLM's `--kv-transfer-config`, and the options of llm-d's connector in it.

use super::lmcache;
use super::parts::{check_numbers, ignored, none, paths, rejected, text_of, unknown};
use super::source::{MULTI, OpenFile, Source};
use crate::core::{IgnoredOption, Serving, ServingConfig, StoreKind, WithoutCufile, WrongValue};
use serde_json::Value;

/// Options of llm-d's draft, and the options that replaced them.
const IGNORED: [(&str, &str); 2] = [("enable_gds", "gds_mode"), ("gds_config", "CUFILE_ENV_PATH_JSON")];
/// The options of llm-d's connector, and those that vLLM reads from the same map.
const NAMES: [&str; 14] = [
    "backend",
    "block_size",
    "enable_events",
    "gds_mode",
    "max_staging_memory_gb",
    "max_write_queued_seconds",
    "read_preferring_ratio",
    "shared_storage_path",
    "spec_module_path",
    "spec_name",
    "storage_events_endpoint",
    "storage_events_hwm",
    "storage_medium",
    "threads_per_gpu",
];
/// The values of `gds_mode`.
const MODES: &str = "disabled, read_only, write_only, read_write, bb_read_only, bb_write_only, bb_read_write";
/// The connectors of vLLM that move KV caches between instances and store none.
const WITHOUT_STORAGE: [&str; 4] = ["NixlConnector", "P2pNcclConnector", "MooncakeConnector", "MoRIIOConnector"];
/// The specification with which vLLM uses `secondary_tiers`.
const TIERS: &str = "TieringOffloadingSpec";
/// The keys of a file-system tier of vLLM.
const TIER_NAMES: [&str; 7] =
    ["type", "root_dir", "n_read_threads", "n_write_threads", "block_size", "enable_kv_events", "locality"];
/// The default of vLLM's `--block-size`. llm-d asserts that its files are a multiple of it.
const GPU_BLOCK: u64 = 16;
/// The default directory of llm-d.
const USUAL_PATH: &str = "/tmp/shared-kv";

/// Reads the options of llm-d's connector.
pub(super) fn llmd(source: &Source, extra: &Value, serving: Serving) -> ServingConfig {
    let mut config = none(serving);
    config.store = StoreKind::Llmd;
    config.ignored = ignored(extra, "", &IGNORED);
    if extra.get("backend").is_some_and(|backend| text_of(backend) == "OBJ") {
        config.store = StoreKind::LlmdObjects;
        config.options.push(("backend".to_owned(), "OBJ".to_owned()));
        let mode = extra.get("gds_mode").map(|_| "gds_mode".to_owned());
        config.ignored.extend(mode.map(|option| IgnoredOption { option, instead: String::new() }));
        // The other options are those of NIXL's plugin OBJ.
        return config;
    }
    config.unknown = unknown(extra, &NAMES, &IGNORED);
    let path = extra.get("shared_storage_path").map_or_else(|| USUAL_PATH.to_owned(), text_of);
    config.paths = paths(&path);
    let relevant = [
        "shared_storage_path",
        "gds_mode",
        "block_size",
        "threads_per_gpu",
        "max_staging_memory_gb",
        "read_preferring_ratio",
        "max_write_queued_seconds",
        "backend",
    ];
    for name in relevant {
        config.options.extend(extra.get(name).map(|value| (name.to_owned(), text_of(value))));
    }
    check_numbers(&mut config, &["block_size", "threads_per_gpu"], |name| extra.get(name).cloned());
    let number = |text: String| text.trim().parse::<u64>().ok();
    let gpu_block = source.flag("block-size").and_then(|text| number(text.to_owned())).filter(|size| *size > 0);
    let gpu_block = gpu_block.unwrap_or(GPU_BLOCK);
    let size = extra.get("block_size").and_then(|value| number(text_of(value)));
    if let Some(size) = size.filter(|size| *size == 0 || !size.is_multiple_of(gpu_block)) {
        let accepted = format!("a multiple of {gpu_block}, the block size of vLLM (--block-size)");
        config.wrong.push(rejected("block_size", size.to_string(), &[&accepted]));
    }
    let mode = extra.get("gds_mode").map_or_else(|| "disabled".to_owned(), text_of);
    let direction = mode.strip_prefix("bb_").unwrap_or(&mode).to_owned();
    (config.cufile_reads, config.cufile_writes) = match direction.as_str() {
        "read_only" => (true, false),
        "write_only" => (false, true),
        "read_write" => (true, true),
        "disabled" if mode == "disabled" => (false, false),
        _ => {
            config.wrong.push(WrongValue {
                option: "gds_mode".to_owned(),
                value: mode,
                accepted: MODES.to_owned(),
                used: Some("disabled".to_owned()),
            });
            (false, false)
        }
    };
    let by_cufile = config.cufile_reads || config.cufile_writes;
    config.direct_io = by_cufile;
    config.without_cufile = if by_cufile { WithoutCufile::StagingAtStart } else { WithoutCufile::NotUsed };
    config
}

/// The maximum depth of connectors within connectors, and their maximum number.
const MOST_DEPTH: usize = 4;
const MOST_CONNECTORS: usize = 16;

/// Reads the connector that the configuration names, or all connectors of a MultiConnector in order.
pub(super) fn read(source: &Source, open: OpenFile<'_>) -> Result<Vec<ServingConfig>, String> {
    let mut found = Vec::new();
    follow(source, &source.transfer_config()?, open, 0, &mut found)?;
    Ok(found)
}

/// vLLM writes to all connectors of a MultiConnector, and reads from the first one that has the tokens.
fn follow(
    source: &Source,
    transfer: &Value,
    open: OpenFile<'_>,
    depth: usize,
    found: &mut Vec<ServingConfig>,
) -> Result<(), String> {
    if depth > MOST_DEPTH || found.len() >= MOST_CONNECTORS {
        return Err(format!("it has more than {MOST_CONNECTORS} connectors, or more than {MOST_DEPTH} levels of them"));
    }
    if transfer.get("kv_connector").is_none_or(|name| name != MULTI) {
        found.push(connector(source, transfer, open)?);
        return Ok(());
    }
    let list = transfer.get("kv_connector_extra_config").and_then(|extra| extra.get("connectors")?.as_array());
    match list {
        Some(list) if !list.is_empty() => {
            list.iter().try_for_each(|inner| follow(source, inner, open, depth + 1, found))
        }
        _ => {
            let mut config = none(Serving::Vllm);
            config.missing.push("connectors".to_owned());
            found.push(config);
            Ok(())
        }
    }
}

fn connector(source: &Source, transfer: &Value, open: OpenFile<'_>) -> Result<ServingConfig, String> {
    let connector = transfer.get("kv_connector").map(text_of).unwrap_or_default();
    let extra = transfer.get("kv_connector_extra_config").cloned().unwrap_or_default();
    let mut config = none(Serving::Vllm);
    if connector == "LMCacheMPConnector" {
        config.store = StoreKind::LmcacheServer;
        return Ok(config);
    }
    if connector.starts_with("LMCache") {
        let mut inner = source.clone();
        inner.set_connector(extra);
        let mut config = lmcache::read_with_file(&inner, open)?;
        config.options.insert(0, ("kv_connector".to_owned(), connector));
        return Ok(config);
    }
    if connector.is_empty() {
        config.missing.push("kv_connector".to_owned());
        return Ok(config);
    }
    let spec = extra.get("spec_name").map(text_of).unwrap_or_default();
    if spec == "SharedStorageOffloadingSpec" {
        return Ok(llmd(source, &extra, Serving::Vllm));
    }
    config.options.push(("kv_connector".to_owned(), connector.clone()));
    if connector == "OffloadingConnector" {
        let bytes = extra.get("cpu_bytes_to_use").map(|value| ("cpu_bytes_to_use".to_owned(), text_of(value)));
        config.options.extend(bytes);
    }
    let tiers = extra.get("secondary_tiers").and_then(Value::as_array);
    if tiers.is_some() && spec != TIERS && connector == "OffloadingConnector" {
        let instead = format!("it together with spec_name {TIERS}");
        config.ignored.push(IgnoredOption { option: "secondary_tiers".to_owned(), instead });
    }
    let tiers = tiers.filter(|_| spec == TIERS);
    let tier =
        tiers.into_iter().flatten().find(|tier| tier.get("type").is_some_and(|kind| text_of(kind).starts_with("fs")));
    match (connector.as_str(), tier) {
        ("OffloadingConnector", Some(tier)) => {
            config.store = StoreKind::VllmFs;
            config.direct_io = true;
            match tier.get("root_dir") {
                Some(path) => config.paths = paths(&text_of(path)),
                None => config.missing.push("root_dir".to_owned()),
            }
            let size = tier.get("block_size").or_else(|| extra.get("block_size"));
            config.options.extend(size.map(|value| ("block_size".to_owned(), text_of(value))));
            for name in ["n_read_threads", "n_write_threads"] {
                config.options.extend(tier.get(name).map(|value| (name.to_owned(), text_of(value))));
            }
            config.unknown = unknown(tier, &TIER_NAMES, &[]);
        }
        ("OffloadingConnector", None) => config.store = StoreKind::VllmHost,
        (other, _) if WITHOUT_STORAGE.contains(&other) => {}
        _ => config.store = StoreKind::OtherConnector,
    }
    Ok(config)
}
