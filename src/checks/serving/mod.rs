//! Reads the configuration of serving systems as their current versions do: the path of the KV cache to storage, and
//! options without effect. Sources: LMCache 0.5.6 `lmcache/v1/config.py`, `gds_backend.py`, `nixl_storage_backend.py`
//! and `distributed/config.py`, llm-d's connector 0.22 `spec.py` and `worker.py`, vLLM
//! `kv_offload/tiering/fs/manager.py`, and the plugins of NIXL 1.5.1, all as of November 2026.

mod lmcache;
mod lmcache_names;
mod parts;
mod source;
mod vllm;

use crate::core::{IgnoredOption, Serving, ServingConfig, StoreKind};
use parts::{nixl_backend, none, paths, rejected, text_of};
use serde_json::Value;
pub use source::OpenFile;
use source::Source;
use std::collections::BTreeMap;

/// The maximum size of a configuration in bytes.
pub const MOST_BYTES: u64 = 1 << 20;

/// Reads a configuration: YAML, JSON, or a command line with environment and flags. `environment` overrides options,
/// as in the program itself. vLLM's MultiConnector contains several configurations; the other ones are one.
///
/// # Errors
/// A sentence if the text has none of these forms, or if a file that it names cannot be read.
pub fn read(
    serving: Serving,
    text: &str,
    environment: &BTreeMap<String, String>,
    open: OpenFile<'_>,
) -> Result<Vec<ServingConfig>, String> {
    let source = Source::new(text, environment)?;
    let of_vllm = || vllm::read(&source, open);
    let configs = match serving {
        Serving::Lmcache | Serving::Llmd if source.has_several_connectors() => of_vllm(),
        Serving::Lmcache => Ok(vec![lmcache::read_with_file(&source, open)?]),
        Serving::Llmd => Ok(vec![vllm::llmd(&source, &source.extra_config(), Serving::Llmd)]),
        Serving::Vllm => of_vllm(),
        Serving::Nixl => Ok(vec![nixl(&source)]),
    };
    let mut configs = configs?;
    if source.variable(ENABLE_GDS).is_some() {
        for config in &mut configs {
            let instead = match (config.store, config.serving) {
                (StoreKind::Llmd, _) => "gds_mode",
                (_, Serving::Lmcache) => "LMCACHE_GDS_PATH",
                _ => continue,
            };
            config.ignored.push(IgnoredOption { option: ENABLE_GDS.to_owned(), instead: instead.to_owned() });
        }
    }
    if let Some(first) = configs.first_mut() {
        let flags = source.foreign_flags().map(|(name, value)| {
            rejected(&format!("--{name}"), value.to_owned(), &["--kv-transfer-config with a JSON map instead"])
        });
        first.wrong.extend(flags);
    }
    Ok(configs)
}

/// A variable of early guides that no current version reads.
pub const ENABLE_GDS: &str = "ENABLE_GDS";

/// A NIXL back end with its parameters: `{"backend": "GDS", "params": {…}}`, or the option names of LMCache and
/// Dynamo.
fn nixl(source: &Source) -> ServingConfig {
    let map = source.map();
    let backend = ["backend", "nixl_backend", "plugin", "type"].iter().find_map(|name| map.get(name)?.as_str());
    let mut config = none(Serving::Nixl);
    config.paths =
        ["path", "nixl_path", "file_path"].iter().find_map(|name| map.get(name)?.as_str()).map_or_else(Vec::new, paths);
    nixl_backend(&mut config, backend, StoreKind::Nixl);
    if let Some(Value::Object(params)) = map.get("params").or_else(|| map.get("backend_params")) {
        config.options.extend(params.iter().map(|(name, value)| (format!("params.{name}"), text_of(value))));
        config.ignored.extend(ignored_params(backend, params));
    }
    config
}

/// The parameters that a plugin of NIXL 1.5.1 ignores. A plugin reads the names that it knows and no others.
fn ignored_params(backend: Option<&str>, params: &serde_json::Map<String, Value>) -> Vec<IgnoredOption> {
    let known: &[&str] = match backend {
        Some("GDS") => &["batch_pool_size", "batch_limit", "max_request_size"],
        Some("GDS_MT") => &["thread_count"],
        Some("POSIX") => &["use_uring", "use_aio", "use_posix_aio", "ios_pool_size", "kernel_queue_size"],
        _ => return Vec::new(),
    };
    let without = params.keys().filter(|name| !known.contains(&name.as_str()));
    let instead = |name: &str| match (backend, name) {
        (Some("GDS"), "mode" | "thread_count") => "the plugin GDS_MT",
        _ => "",
    };
    without.map(|name| IgnoredOption { option: format!("params.{name}"), instead: instead(name).to_owned() }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::WithoutCufile;
    use std::path::PathBuf;

    fn of(serving: Serving, text: &str) -> ServingConfig {
        all(serving, text, &BTreeMap::new()).remove(0)
    }

    fn all(serving: Serving, text: &str, environment: &BTreeMap<String, String>) -> Vec<ServingConfig> {
        read(serving, text, environment, &|file| Err(format!("no {file}"))).unwrap()
    }

    fn names(config: &ServingConfig) -> Vec<&str> {
        config.ignored.iter().map(|ignored| ignored.option.as_str()).collect()
    }

    #[test]
    fn the_configuration_of_the_early_guides_stores_nothing_today() {
        let guide = "backend: \"gds\"\nenable_gds: true\ngds_config:\n  cache_dir: /mnt/nvme\n  enable_rdma: true\n  eviction_policy: lru\nenable_layerwise: true\n";
        let environment = BTreeMap::from([("ENABLE_GDS".to_owned(), "1".to_owned())]);
        let config = all(Serving::Lmcache, guide, &environment).remove(0);
        assert_eq!((config.store, config.cufile_reads), (StoreKind::None, false));
        assert_eq!(
            names(&config),
            [
                "enable_gds",
                "backend",
                "gds_config",
                "enable_layerwise",
                "gds_config.cache_dir",
                "gds_config.enable_rdma",
                "gds_config.eviction_policy",
                "ENABLE_GDS"
            ]
        );
        assert_eq!(config.ignored[6].instead, "cache_policy");
        assert_eq!(config.ignored[1].instead, "gds_path");
    }

    #[test]
    fn lmcache_files_are_read_with_defaults_and_the_environment_overrides_them() {
        let yaml =
            "chunk_size: 256\ngds_path: /mnt/a,/mnt/b\ngds_buffer_size: 4096\nextra_config:\n  use_direct_io: true\n";
        let config = of(Serving::Lmcache, yaml);
        assert_eq!((config.store, config.paths.len(), config.direct_io), (StoreKind::LmcacheGds, 2, true));
        assert!(config.cufile_reads && !config.insists && config.missing.is_empty());
        assert_eq!(config.without_cufile, WithoutCufile::StartFails);
        let environment = BTreeMap::from([
            ("LMCACHE_USE_GDS".to_owned(), "false".to_owned()),
            ("LMCACHE_GDS_PATH".to_owned(), "/mnt/c".to_owned()),
        ]);
        let config = all(Serving::Lmcache, yaml, &environment).remove(0);
        assert!(!config.cufile_reads && config.insists && config.paths == [PathBuf::from("/mnt/c")]);
        assert_eq!(of(Serving::Lmcache, "gds_path: /mnt/a\n").missing, ["gds_buffer_size"]);
    }

    #[test]
    fn flags_of_the_lmcache_server_turn_on_the_slab() {
        let config =
            of(Serving::Lmcache, "lmcache server --l1-size-gb 200 --gds-l1-path /mnt/nvme --no-gds-l1-use-direct-io");
        assert_eq!((config.store, config.direct_io), (StoreKind::LmcacheGdsL1, false));
        assert_eq!(config.paths, [PathBuf::from("/mnt/nvme")]);
        assert!(of(Serving::Lmcache, "lmcache server --gds-l1-path=/mnt/nvme").direct_io);
    }

    #[test]
    fn managers_and_back_ends_of_the_lmcache_server_are_read() {
        let manager = r#"lmcache server --chunk-size 512 --l1-manager '{"type":"DRAM","tag":"_default","size_gb":20}'
            --l1-manager '{"type":"GDS","tag":"nvme","size_gb":100,"path":"/mnt/nvme","backend":"BACKEND","direct_io":false}'"#;
        let with = |backend| of(Serving::Lmcache, &manager.replace("BACKEND", backend));
        let config = with("cufile");
        assert_eq!(
            (config.store, config.paths.as_slice()),
            (StoreKind::LmcacheGdsL1, &[PathBuf::from("/mnt/nvme")][..])
        );
        assert!(config.cufile_reads && !config.direct_io && config.missing.is_empty() && config.wrong.is_empty());
        assert!(config.options.contains(&("--chunk-size".to_owned(), "512".to_owned())));
        assert_eq!((with("ugds").cufile_reads, with("ugds").wrong.len(), with("magic").wrong.len()), (false, 0, 1));
        let legacy = "lmcache server --l1-size-gb 8 --gds-l1-path /dev/ugds_drv0 --gds-l1-backend ugds";
        assert!(!of(Serving::Lmcache, legacy).cufile_reads);
        assert_eq!(of(Serving::Lmcache, &legacy.replace(" ugds", " rocks")).wrong[0].option, "--gds-l1-backend");
    }

    #[test]
    fn the_command_line_of_the_early_guide_does_not_start_and_names_no_storage() {
        let line = "$ python -m vllm.entrypoints.openai.api_server \\\n    --model meta-llama/Llama-2-70b \\\n    --kv-connector=LMCacheConnectorV1 \\\n    --kv-connector-extra-config=\"lmcache.config_file=/etc/llm/lmcache_gds.yaml\"\n";
        for serving in [Serving::Vllm, Serving::Lmcache] {
            let config = of(serving, line);
            assert_eq!((config.serving, config.store), (Serving::Lmcache, StoreKind::None));
            let wrong: Vec<&str> = config.wrong.iter().map(|wrong| wrong.option.as_str()).collect();
            assert_eq!(wrong, ["--kv-connector", "--kv-connector-extra-config"]);
            assert_eq!(names(&config), ["lmcache.config_file"]);
            assert!(config.ignored[0].instead.contains("LMCACHE_CONFIG_FILE"));
        }
        let json = r#"{"kv_connector":"LMCacheConnectorV1","kv_connector_extra_config":{"lmcache.config_file":"/a","lmcache.chunk_sise":64}}"#;
        let config = of(Serving::Vllm, json);
        assert_eq!((names(&config), config.wrong.len()), (vec!["lmcache.config_file"], 0));
        assert_eq!(config.unknown, ["lmcache.chunk_sise"]);
        // The same line with the flag of today's vLLM.
        let today = line.replace("--kv-connector=", "--kv-transfer-config.kv_connector=");
        assert_eq!(of(Serving::Vllm, &today).wrong.len(), 1);
    }

    #[test]
    fn the_environment_overrides_single_options_of_the_file_that_it_names() {
        let environment = BTreeMap::from([
            ("LMCACHE_CONFIG_FILE".to_owned(), "/etc/lmcache.yaml".to_owned()),
            ("LMCACHE_GDS_PATH".to_owned(), "/mnt/c".to_owned()),
        ]);
        let file = |_: &str| Ok("gds_path: /mnt/a\ngds_buffer_size: 512\nchunk_size: 64\n".to_owned());
        let connector = r#"{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}"#;
        let config = read(Serving::Vllm, connector, &environment, &file).unwrap().remove(0);
        assert_eq!((config.paths.as_slice(), config.missing.len()), (&[PathBuf::from("/mnt/c")][..], 0));
        assert!(config.options.contains(&("chunk_size".to_owned(), "64".to_owned())));
        // A file that the user passes takes the place of the variable.
        let config = read(Serving::Lmcache, "chunk_size: 128\n", &environment, &file).unwrap().remove(0);
        assert!(config.options.contains(&("chunk_size".to_owned(), "128".to_owned())));
    }

    #[test]
    fn flags_for_single_keys_of_the_transfer_configuration_are_read_like_the_map() {
        for prefix in ["--kv-", "--kv-transfer-config.kv_"] {
            let line = format!(
                r#"vllm serve m --block-size 32 {prefix}connector OffloadingConnector {prefix}connector_extra_config '{{"spec_name":"SharedStorageOffloadingSpec","shared_storage_path":"/mnt/kv","gds_mode":"read_write","block_size":BLOCK}}'"#
            )
            .replace("--kv-connector_extra_config", "--kv-connector-extra-config");
            let config = of(Serving::Vllm, &line.replace("BLOCK", "64"));
            let flags = if prefix == "--kv-" { 2 } else { 0 };
            assert_eq!((config.store, config.cufile_reads, config.wrong.len()), (StoreKind::Llmd, true, flags));
            assert_eq!(of(Serving::Vllm, &line.replace("BLOCK", "48")).wrong[0].option, "block_size");
        }
        assert_eq!(of(Serving::Llmd, r#"{"shared_storage_path":"/a","block_size":100}"#).wrong[0].value, "100");
    }

    #[test]
    fn the_transfer_configuration_of_vllm_leads_to_llm_d_vllm_or_lmcache() {
        let command = r#"vllm serve m --kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both",
            "kv_connector_extra_config":{"spec_name":"SharedStorageOffloadingSpec","shared_storage_path":"/mnt/kv","gds_mode":"bb_read_only","enable_gds":true}}'"#;
        let config = of(Serving::Vllm, command);
        assert_eq!((config.store, config.cufile_reads, config.cufile_writes), (StoreKind::Llmd, true, false));
        assert_eq!((names(&config), config.ignored[0].instead.as_str()), (vec!["enable_gds"], "gds_mode"));
        let tier = r#"{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec",
            "secondary_tiers":[{"type":"fs","root_dir":"/mnt/kv","n_raed_threads":4}]}}"#;
        let config = of(Serving::Vllm, tier);
        assert_eq!(config.unknown, ["n_raed_threads"]);
        assert_eq!((config.store, config.cufile_reads, config.direct_io), (StoreKind::VllmFs, false, true));
        let lmcache = r#"{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}"#;
        let environment = BTreeMap::from([("LMCACHE_GDS_PATH".to_owned(), "/mnt/c".to_owned())]);
        let config = all(Serving::Vllm, lmcache, &environment).remove(0);
        assert_eq!((config.serving, config.store), (Serving::Lmcache, StoreKind::LmcacheGds));
        assert_eq!(of(Serving::Vllm, r#"{"kv_connector":"NixlConnector"}"#).store, StoreKind::None);
    }

    #[test]
    fn options_of_lmcache_come_from_its_file_the_environment_and_the_map_of_vllm() {
        let command = r#"LMCACHE_CONFIG_FILE=/etc/lmcache.yaml LMCACHE_GDS_BUFFER_SIZE=512 vllm serve m --kv-transfer-config
            '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both","kv_connector_extra_config":{"lmcache.use_gds":false}}'"#;
        let with = |options: &str| {
            let file =
                |path: &str| if path == "/etc/lmcache.yaml" { Ok(options.to_owned()) } else { Err(path.to_owned()) };
            read(Serving::Vllm, command, &BTreeMap::new(), &file)
        };
        let config = with("gds_path: /mnt/kv\nenable_gds: true\n").unwrap().remove(0);
        assert_eq!((config.store, config.paths.len()), (StoreKind::LmcacheGds, 1));
        assert!(!config.cufile_reads && config.insists && config.missing.is_empty() && config.unknown.is_empty());
        assert_eq!(names(&config), ["enable_gds"]);
        assert!(with("[1]").unwrap_err().contains("/etc/lmcache.yaml"));
    }

    #[test]
    fn the_connectors_of_a_multi_connector_are_read_in_order() {
        let text = r#"vllm serve m --kv-transfer-config '{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":[
            {"kv_connector":"NixlConnector","kv_role":"kv_both"},
            {"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":
                {"spec_name":"SharedStorageOffloadingSpec","shared_storage_path":"/mnt/kv","gds_mode":"read_write"}},
            {"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[
                {"kv_connector":"LMCacheConnectorV1","kv_connector_extra_config":{"lmcache.gds_path":"/mnt/lm","lmcache.gds_buffer_size":512}}]}}]}}'"#;
        for serving in [Serving::Vllm, Serving::Llmd, Serving::Lmcache] {
            let configs = all(serving, text, &BTreeMap::new());
            let stores: Vec<StoreKind> = configs.iter().map(|config| config.store).collect();
            assert_eq!(stores, [StoreKind::None, StoreKind::Llmd, StoreKind::LmcacheGds]);
            assert!(configs[1].cufile_reads && configs[2].paths == [PathBuf::from("/mnt/lm")]);
            assert!(configs[0].options.contains(&("kv_connector".to_owned(), "NixlConnector".to_owned())));
        }
        let empty = all(Serving::Vllm, r#"{"kv_connector":"MultiConnector"}"#, &BTreeMap::new());
        assert_eq!(empty[0].missing, ["connectors"]);
        // A list that contains itself is not possible in JSON, but a deep one is.
        let mut deep = r#"{"kv_connector":"NixlConnector"}"#.to_owned();
        for _ in 0..20 {
            deep =
                format!(r#"{{"kv_connector":"MultiConnector","kv_connector_extra_config":{{"connectors":[{deep}]}}}}"#);
        }
        assert!(read(Serving::Vllm, &deep, &BTreeMap::new(), &|_| Ok(String::new())).is_err());
    }

    #[test]
    fn llm_d_stages_by_default_and_refuses_unknown_modes() {
        let config = of(Serving::Llmd, r#"{"shared_storage_path":"/mnt/kv","block_size":256}"#);
        assert_eq!((config.store, config.cufile_reads, config.paths.len()), (StoreKind::Llmd, false, 1));
        let odd = of(Serving::Llmd, r#"{"gds_mode":"on","prefetch":2}"#);
        assert_eq!((odd.unknown, odd.paths), (vec!["prefetch".to_owned()], vec![PathBuf::from("/tmp/shared-kv")]));
        assert_eq!((odd.wrong[0].value.as_str(), odd.wrong[0].used.as_deref()), ("on", Some("disabled")));
        let objects = of(Serving::Llmd, r#"{"backend":"OBJ","gds_mode":"read_write","threads_per_gpu":"64"}"#);
        assert_eq!((objects.store, objects.cufile_reads), (StoreKind::LlmdObjects, false));
        assert_eq!((names(&objects), objects.paths.len()), (vec!["gds_mode"], 0));
    }

    #[test]
    fn a_nixl_back_end_is_read_with_its_parameters() {
        let config = of(Serving::Nixl, "backend: GDS\npath: /mnt/x\nparams:\n  mode: mt\n");
        assert!(config.cufile_reads);
        assert!(config.options.contains(&("params.mode".to_owned(), "mt".to_owned())));
        assert_eq!((names(&config), config.ignored[0].instead.as_str()), (vec!["params.mode"], "the plugin GDS_MT"));
        assert!(names(&of(Serving::Nixl, "backend: GDS_MT\nparams: {thread_count: 8}")).is_empty());
        assert!(!of(Serving::Nixl, "backend: POSIX").cufile_reads);
        assert_eq!(of(Serving::Nixl, "path: /x").missing, ["backend"]);
    }

    #[test]
    fn unknown_and_rejected_options_of_lmcache_are_named() {
        let config = of(
            Serving::Lmcache,
            "gds_path: /mnt/a\ngds_buffer_size: 4096\ngds_paht: /b\ngds_path_sharding: round_robin\n",
        );
        assert_eq!(config.unknown, ["gds_paht"]);
        assert_eq!((config.wrong[0].option.as_str(), &config.wrong[0].used), ("gds_path_sharding", &None));
        let nixl = |device: &str, backend: &str, more: &str| {
            let text = format!(
                "nixl_buffer_device: {device}\n{more}extra_config: {{enable_nixl_storage: true, nixl_backend: {backend}, nixl_pool_size: 64, nixl_path: /mnt/a}}\n"
            );
            let config = of(Serving::Lmcache, &text);
            (config.missing, config.wrong.into_iter().map(|wrong| wrong.option).collect::<Vec<_>>())
        };
        let size = "nixl_buffer_size: 1073741824\n";
        assert_eq!(nixl("cuda", "GDS", size), (vec![], vec![]));
        assert_eq!(nixl("cuda", "GDS", ""), (vec!["nixl_buffer_size".to_owned()], vec![]));
        assert_eq!(nixl("cuda", "POSIX", size).1, ["nixl_buffer_device"]);
        assert_eq!(nixl("cpu", "POSIX", size).1, ["nixl_buffer_size"]);
        let bare = of(Serving::Lmcache, "extra_config: {enable_nixl_storage: true, nixl_backend: GDS_MT}\n");
        assert_eq!(bare.missing, ["extra_config.nixl_pool_size", "nixl_buffer_device", "extra_config.nixl_path"]);
    }

    #[test]
    fn old_variables_and_values_that_are_no_numbers_are_named() {
        let wrong = |config: &ServingConfig| {
            config.wrong.iter().map(|wrong| wrong.option.clone()).collect::<Vec<_>>().join(" ")
        };
        let weka = "LMCACHE_WEKA_PATH=/mnt/weka LMCACHE_CUFILE_BUFFER_SIZE=8192 LMCACHE_LOCAL_CPU=False";
        let config = of(Serving::Lmcache, weka);
        assert_eq!(names(&config), ["LMCACHE_WEKA_PATH", "LMCACHE_CUFILE_BUFFER_SIZE"]);
        assert_eq!(config.ignored[0].instead, "LMCACHE_GDS_PATH");
        let config = of(
            Serving::Lmcache,
            "gds_path: /a\ngds_buffer_size: 4 GB\nchunk_size: 256\nextra_config: {gds_io_threads: 32}\n",
        );
        assert_eq!((wrong(&config).as_str(), names(&config)), ("gds_buffer_size", vec!["extra_config.gds_io_threads"]));
        let config = of(Serving::Lmcache, "extra_config: {enable_nixl_storage: true, nixl_backend: GDSMT}\n");
        assert_eq!((wrong(&config).as_str(), config.missing.len()), ("extra_config.nixl_backend", 0));
        let config = of(Serving::Llmd, r#"{"shared_storage_path":"/a","threads_per_gpu":"many","block_size":256}"#);
        assert_eq!(wrong(&config), "threads_per_gpu");
    }

    #[test]
    fn a_connector_without_files_of_its_own_is_named_and_tiers_need_their_specification() {
        let store = |text: &str| of(Serving::Vllm, text).store;
        assert_eq!(store(r#"{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}"#), StoreKind::LmcacheServer);
        assert_eq!(store(r#"{"kv_connector":"ExampleConnector"}"#), StoreKind::OtherConnector);
        assert_eq!(store(r#"{"kv_connector":"NixlConnector"}"#), StoreKind::None);
        let tiers = r#"{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"secondary_tiers":[{"type":"fs","root_dir":"/a"}]}}"#;
        let config = of(Serving::Vllm, tiers);
        assert_eq!((config.store, names(&config)), (StoreKind::VllmHost, vec!["secondary_tiers"]));
    }

    #[test]
    fn a_text_that_is_not_a_configuration_is_an_error() {
        for text in ["", "[1, 2]", "a: [", "\u{1b}[31m"] {
            assert!(read(Serving::Lmcache, text, &BTreeMap::new(), &|_| Ok(String::new())).is_err(), "{text:?}");
        }
    }
}
