//! vLLM's `--kv-transfer-config`, and the options of llm-d's connector in it.

use super::lmcache;
use super::parts::{ignored, none, paths, text_of};
use super::source::Source;
use crate::core::{Serving, ServingConfig, StoreKind, WithoutCufile};
use serde_json::Value;

/// Options of llm-d's draft, and the options that replaced them.
const IGNORED: [(&str, &str); 2] = [("enable_gds", "gds_mode"), ("gds_config", "CUFILE_ENV_PATH_JSON")];
/// The default directory of llm-d.
const USUAL_PATH: &str = "/tmp/shared-kv";

/// Reads the options of llm-d's connector.
pub(super) fn llmd(extra: &Value, serving: Serving) -> ServingConfig {
    let mut config = none(serving);
    config.store = StoreKind::Llmd;
    config.ignored = ignored(extra, "", &IGNORED);
    let path = extra.get("shared_storage_path").map_or_else(|| USUAL_PATH.to_owned(), text_of);
    config.paths = paths(&path);
    for name in ["shared_storage_path", "gds_mode", "block_size", "threads_per_gpu", "backend"] {
        config.options.extend(extra.get(name).map(|value| (name.to_owned(), text_of(value))));
    }
    let mode = extra.get("gds_mode").map_or_else(|| "disabled".to_owned(), text_of);
    let direction = mode.strip_prefix("bb_").unwrap_or(&mode);
    (config.cufile_reads, config.cufile_writes) = match direction {
        "read_only" => (true, false),
        "write_only" => (false, true),
        "read_write" => (true, true),
        "disabled" if mode == "disabled" => (false, false),
        _ => {
            config.missing.push("gds_mode".to_owned());
            (false, false)
        }
    };
    let by_cufile = config.cufile_reads || config.cufile_writes;
    config.direct_io = by_cufile;
    config.without_cufile = if by_cufile { WithoutCufile::StagingAtStart } else { WithoutCufile::NotUsed };
    config
}

/// Reads the connector that the configuration names.
pub(super) fn read(source: &Source) -> Result<ServingConfig, String> {
    let transfer = source.transfer_config()?;
    let connector = transfer.get("kv_connector").map(text_of).unwrap_or_default();
    let extra = transfer.get("kv_connector_extra_config").cloned().unwrap_or_default();
    if connector.starts_with("LMCache") {
        return lmcache::read(source);
    }
    let mut config = none(Serving::Vllm);
    if connector.is_empty() {
        config.missing.push("kv_connector".to_owned());
        return Ok(config);
    }
    let spec = extra.get("spec_name").map(text_of).unwrap_or_default();
    if spec == "SharedStorageOffloadingSpec" {
        return Ok(llmd(&extra, Serving::Vllm));
    }
    config.options.push(("kv_connector".to_owned(), connector.clone()));
    let tiers = extra.get("secondary_tiers").and_then(Value::as_array);
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
        }
        ("OffloadingConnector", None) => config.store = StoreKind::VllmHost,
        _ => {}
    }
    Ok(config)
}
