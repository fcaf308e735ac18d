//! The `bench-kv` command that measures the store of a serving system's configuration.

use super::params::{self, KvSetting};
use super::shape::Shape;
use crate::core::{KvPath, KvSystem, NixlPlugin, ServingConfig, StoreKind, units};

/// The settings that are options of a system, with the name of the option if it is another one.
const SAME: &[(StoreKind, KvSetting, Option<&str>)] = &[
    (StoreKind::Llmd, KvSetting::BlockSize, None),
    (StoreKind::Llmd, KvSetting::ThreadsPerGpu, None),
    (StoreKind::VllmFs, KvSetting::BlockSize, None),
    (StoreKind::VllmFs, KvSetting::NReadThreads, None),
    (StoreKind::VllmFs, KvSetting::NWriteThreads, None),
    (StoreKind::LmcacheGds, KvSetting::ChunkSize, None),
    (StoreKind::LmcacheGds, KvSetting::EnableLayerwise, Some("use_layerwise")),
    (StoreKind::LmcacheGds, KvSetting::MaxConcurrentOps, Some("extra_config.disk_io_threads")),
    (StoreKind::LmcacheGdsL1, KvSetting::ChunkSize, Some("--chunk-size")),
    (StoreKind::LmcacheDisk, KvSetting::ChunkSize, None),
    (StoreKind::LmcacheDisk, KvSetting::EnableLayerwise, Some("use_layerwise")),
    (StoreKind::LmcacheNixl, KvSetting::ChunkSize, None),
    (StoreKind::LmcacheNixl, KvSetting::NixlThreads, Some("params.thread_count")),
    (StoreKind::Nixl, KvSetting::NixlThreads, Some("params.thread_count")),
];

/// The options that select the directory, the system or the variants of the command.
const SELECTING: [&str; 19] = [
    "--gds-l1-backend",
    "--gds-l1-path",
    "--l1-manager backend",
    "--l1-manager direct_io",
    "--l1-manager path",
    "--l1-manager type",
    "backend",
    "extra_config.enable_nixl_storage",
    "extra_config.nixl_backend",
    "extra_config.nixl_path",
    "extra_config.nixl_backend_params",
    "extra_config.use_direct_io",
    "gds_backend",
    "gds_mode",
    "gds_path",
    "kv_connector",
    "local_disk",
    "shared_storage_path",
    "use_gds",
];

/// The reasons why the command does not have an option. Other options are not settings of `bench-kv`.
const REASONS: [(&str, &str); 9] = [
    ("--l1-manager size_gb", "the size follows from --tokens and --batch"),
    ("--l1-size-gb", "the size follows from --tokens and --batch"),
    ("cpu_bytes_to_use", "the tier in host memory is not measured"),
    ("extra_config.nixl_pool_size", "the number of files follows from --tokens and --batch"),
    ("gds_buffer_size", "the staging memory has one chunk for each worker"),
    ("max_local_cpu_size", "the tier in host memory is not measured"),
    ("max_write_queued_seconds", "all writes are made"),
    ("nixl_buffer_size", "the buffer has the default number of pages"),
    ("read_preferring_ratio", "it affects only reads with concurrent writes (--set write_percent=N), which use 0.75"),
];

/// The command for a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggested {
    /// The words of the command line.
    pub words: Vec<String>,
    /// The options of the configuration that the command does not have, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// The command for a configuration. `None` if the configuration stores nothing in files, or names no directory. `text` is
/// the configuration, which can contain the name of a model.
#[must_use]
pub fn suggested(config: &ServingConfig, text: &str) -> Option<Suggested> {
    let option = |name: &str| config.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let by_cufile = config.cufile_reads || config.cufile_writes;
    let (system, path) = match config.store {
        StoreKind::Llmd => (KvSystem::Llmd, None),
        StoreKind::VllmFs => (KvSystem::VllmFs, None),
        // The other back ends of this tier use no files.
        StoreKind::LmcacheGdsL1 if by_cufile => (KvSystem::LmcacheMp, None),
        StoreKind::LmcacheGds => (KvSystem::Lmcache, Some(if by_cufile { KvPath::Gds } else { KvPath::Disk })),
        StoreKind::LmcacheDisk => (KvSystem::Lmcache, Some(KvPath::Disk)),
        StoreKind::LmcacheNixl | StoreKind::Nixl => (KvSystem::LmcacheNixl, option("backend").and_then(plugin)),
        _ => return None,
    };
    let folders: Vec<String> = config.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let folders = match (system, folders.as_slice()) {
        (_, []) => return None,
        // Only this workload divides its files over several directories.
        (KvSystem::Lmcache, all) => all.join(","),
        (_, [first, ..]) => first.clone(),
    };
    let mut words = vec!["gds-top".to_owned(), "bench-kv".to_owned(), system.name().to_owned(), folders];
    let lower = text.to_ascii_lowercase();
    let shape = Shape::names().into_iter().find(|name| lower.contains(name));
    if let Some(shape) = shape {
        words.extend(["--shape".to_owned(), shape.to_owned()]);
    }
    if let Some(mode) = option("gds_mode").filter(|mode| mode.parse::<super::GdsMode>().is_ok()) {
        words.extend(["--gds-mode".to_owned(), mode.to_owned()]);
    }
    words.extend(path.into_iter().flat_map(|path| ["--variants".to_owned(), path.name().to_owned()]));
    let named = SAME.iter().filter(|(store, ..)| *store == config.store);
    let is_wrong = |name: &str| config.wrong.iter().any(|wrong| wrong.option == name);
    // Each setting with the option from which it follows.
    let mut settings: Vec<(&str, String)> = named
        .filter_map(|(_, setting, name)| {
            let name = name.unwrap_or(setting.name());
            let value = match option(name).filter(|_| !is_wrong(name))? {
                "true" | "True" => "1",
                "false" | "False" => "0",
                other => other,
            };
            Some((name, format!("{setting}={value}")))
        })
        .collect();
    if matches!(system, KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl) && by_cufile {
        settings.push(("", format!("{}={}", KvSetting::Odirect, u8::from(config.direct_io))));
    }
    let pages = batch_chunks(config, option(BUFFER), option(KvSetting::ChunkSize.name()), shape);
    settings.extend(pages.map(|pages| (BUFFER, pages)));
    if config.store == StoreKind::Llmd && option(STAGING).is_some() && !is_wrong(STAGING) {
        let threads = staging_threads(&option, shape);
        settings.retain(|(name, _)| threads.is_none() || *name != KvSetting::ThreadsPerGpu.name());
        settings.extend(threads.map(|threads| (STAGING, format!("{}={threads}", KvSetting::ThreadsPerGpu))));
    }
    let mut left_out = Vec::new();
    let mut used = vec![STAGING];
    for (name, setting) in settings {
        match params::parse(system, &setting) {
            Ok((parsed, value)) => {
                used.push(name);
                let known = params::parameters(system);
                // The defaults are left out, because they change nothing.
                if !known.iter().any(|one| one.setting == parsed && one.default == value) {
                    words.extend(["--set".to_owned(), setting]);
                }
            }
            Err(why) => {
                used.push(name);
                left_out.push((name.to_owned(), why));
            }
        }
    }
    let others = config
        .options
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| !used.contains(name) && !SELECTING.contains(name) && !is_wrong(name));
    left_out.extend(others.map(|name| {
        let reason = REASONS.iter().find(|(known, _)| *known == name);
        (name.to_owned(), reason.map_or("bench-kv has no such setting", |(_, why)| why).to_owned())
    }));
    Some(Suggested { words, left_out })
}

/// The size of the buffer of LMCache's back end on NIXL.
const BUFFER: &str = "nixl_buffer_size";
/// The maximum size of llm-d's staging buffers.
const STAGING: &str = "max_staging_memory_gb";

/// The threads of llm-d if its staging buffers, one for each thread with the size of a file, would be larger than
/// `max_staging_memory_gb`. `None` if they are not. The modes that use cuFile in both directions have no buffers.
fn staging_threads<'a>(option: &dyn Fn(&str) -> Option<&'a str>, shape: Option<&str>) -> Option<u64> {
    let default =
        |setting| params::parameters(KvSystem::Llmd).iter().find(|one| one.setting == setting).map(|one| one.default);
    let number = |setting: KvSetting| option(setting.name()).and_then(|text| text.trim().parse().ok());
    let of = |setting: KvSetting| number(setting).or_else(|| default(setting));
    let most = option(STAGING)?.trim().parse::<u64>().ok()?.saturating_mul(units::GIB);
    let shape = Shape::named(shape.unwrap_or(KvSystem::Llmd.usual().0)).ok()?;
    let file = shape.token_bytes().saturating_mul(of(KvSetting::BlockSize)?);
    let staged = option("gds_mode").is_none_or(|mode| !matches!(mode, "read_write" | "bb_read_write"));
    let threads = most.checked_div(file)?.max(1);
    (staged && threads < of(KvSetting::ThreadsPerGpu)?).then_some(threads)
}

/// The pages of the buffer of LMCache's back end on NIXL, which limit the chunks of a transfer. A page has the size of a
/// chunk.
fn batch_chunks(
    config: &ServingConfig,
    buffer: Option<&str>,
    chunk_tokens: Option<&str>,
    shape: Option<&str>,
) -> Option<String> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    let buffer = number(buffer.filter(|_| config.store == StoreKind::LmcacheNixl)?)?;
    let tokens = chunk_tokens.and_then(number);
    let parameters = params::parameters(KvSystem::LmcacheNixl);
    let usual = parameters.iter().find(|one| one.setting == KvSetting::ChunkSize).map(|one| one.default);
    let shape = Shape::named(shape.unwrap_or(KvSystem::LmcacheNixl.usual().0)).ok()?;
    let pages = buffer.checked_div(shape.token_bytes().saturating_mul(tokens.or(usual)?))?;
    let most = parameters.iter().find(|one| one.setting == KvSetting::BatchChunks).map_or(1, |one| one.range.1);
    (pages > 0).then(|| format!("{}={}", KvSetting::BatchChunks, pages.min(most)))
}

fn plugin(backend: &str) -> Option<KvPath> {
    let plugin = match backend {
        "GDS" => NixlPlugin::Gds,
        "GDS_MT" => NixlPlugin::GdsMt,
        "POSIX" => NixlPlugin::Posix,
        _ => return None,
    };
    Some(KvPath::Nixl(plugin))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Serving, WithoutCufile, WrongValue};

    fn config(store: StoreKind, by_cufile: bool, options: &[(&str, &str)]) -> ServingConfig {
        ServingConfig {
            serving: Serving::Vllm,
            store,
            paths: vec!["/mnt/kv".into(), "/mnt/b".into()],
            cufile_reads: by_cufile,
            cufile_writes: by_cufile,
            direct_io: true,
            without_cufile: WithoutCufile::NotUsed,
            insists: false,
            options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ignored: Vec::new(),
            missing: Vec::new(),
            unknown: Vec::new(),
            wrong: Vec::new(),
        }
    }

    #[test]
    fn the_command_has_the_parameters_of_the_configuration() {
        for (store, by_cufile, options, wanted) in [
            (
                StoreKind::Llmd,
                true,
                &[("gds_mode", "bb_read_only"), ("block_size", "64"), ("threads_per_gpu", "64")][..],
                Some("gds-top bench-kv llmd /mnt/kv --shape qwen2.5-7b --gds-mode bb_read_only --set block_size=64"),
            ),
            (
                StoreKind::VllmFs,
                false,
                &[("n_read_threads", "32"), ("block_size", "64")],
                Some("gds-top bench-kv vllm-fs /mnt/kv --shape qwen2.5-7b --set block_size=64 --set n_read_threads=32"),
            ),
            (
                StoreKind::LmcacheGds,
                true,
                &[("chunk_size", "512"), ("extra_config.disk_io_threads", "many"), ("use_layerwise", "true")],
                Some(
                    "gds-top bench-kv lmcache /mnt/kv,/mnt/b --shape qwen2.5-7b --variants gds --set chunk_size=512 --set enable_layerwise=1 --set odirect=1",
                ),
            ),
            (
                StoreKind::LmcacheGdsL1,
                true,
                &[("--chunk-size", "512")],
                Some("gds-top bench-kv lmcache-mp /mnt/kv --shape qwen2.5-7b --set chunk_size=512"),
            ),
            (StoreKind::LmcacheGdsL1, false, &[("--gds-l1-backend", "ugds")], None),
            (
                StoreKind::LmcacheNixl,
                true,
                &[("backend", "GDS_MT"), ("params.thread_count", "8")],
                Some(
                    "gds-top bench-kv lmcache-nixl /mnt/kv --shape qwen2.5-7b --variants nixl-gds-mt --set nixl_threads=8 --set odirect=1",
                ),
            ),
            (
                StoreKind::LmcacheNixl,
                true,
                // A token of this shape has 56 KiB, so a chunk of 256 has 14 MiB.
                &[("backend", "POSIX"), ("nixl_buffer_size", "64_000_000"), ("chunk_size", "256")],
                Some(
                    "gds-top bench-kv lmcache-nixl /mnt/kv --shape qwen2.5-7b --variants nixl-posix --set odirect=1 --set batch_chunks=4",
                ),
            ),
            (StoreKind::VllmHost, false, &[], None),
        ] {
            let command = suggested(&config(store, by_cufile, options), "vllm serve Qwen/Qwen2.5-7B-Instruct");
            assert_eq!(command.map(|command| command.words.join(" ")).as_deref(), wanted, "{store:?}");
        }
        // A value that the system rejects is not measured.
        let wrong = WrongValue {
            option: "block_size".to_owned(),
            value: "100".to_owned(),
            accepted: "a multiple of 16".to_owned(),
            used: None,
        };
        let rejected = ServingConfig { wrong: vec![wrong], ..config(StoreKind::Llmd, true, &[("block_size", "100")]) };
        assert_eq!(
            suggested(&rejected, "").map(|command| command.words.join(" ")).as_deref(),
            Some("gds-top bench-kv llmd /mnt/kv")
        );
        let nowhere = ServingConfig { paths: Vec::new(), ..config(StoreKind::Llmd, true, &[]) };
        assert_eq!(suggested(&nowhere, ""), None);
    }

    #[test]
    fn the_options_that_the_command_does_not_have_are_named() {
        for (store, options, wanted) in [
            (
                StoreKind::Llmd,
                &[
                    ("shared_storage_path", "/mnt/kv"),
                    ("gds_mode", "read_only"),
                    ("threads_per_gpu", "999"),
                    ("read_preferring_ratio", "0.5"),
                    ("max_write_queued_seconds", "10"),
                ][..],
                &["threads_per_gpu", "read_preferring_ratio", "max_write_queued_seconds"][..],
            ),
            (StoreKind::Llmd, &[("threads_per_gpu", "64"), ("max_staging_memory_gb", "150")], &[]),
            (
                StoreKind::LmcacheGds,
                &[("gds_path", "/mnt/kv"), ("gds_buffer_size", "4096"), ("extra_config.disk_io_threads", "many")],
                &["extra_config.disk_io_threads", "gds_buffer_size"],
            ),
            (StoreKind::LmcacheNixl, &[("backend", "GDS"), ("nixl_buffer_size", "64000000")], &[]),
        ] {
            let command = suggested(&config(store, true, options), "Qwen2.5-7B").unwrap();
            let names: Vec<&str> = command.left_out.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, wanted, "{store:?} {options:?}");
        }
    }

    #[test]
    fn the_limit_of_staging_memory_limits_the_threads() {
        // A file of 256 tokens of this shape has 14 MiB, so 1 GiB is enough for 73 buffers, and with 512 tokens for 36.
        for (mode, block_size, gb, wanted) in [
            ("disabled", "256", "1", ""),
            ("disabled", "512", "1", " --set block_size=512 --set threads_per_gpu=36"),
            ("read_only", "512", "1", " --gds-mode read_only --set block_size=512 --set threads_per_gpu=36"),
            ("bb_read_write", "512", "1", " --gds-mode bb_read_write --set block_size=512"),
        ] {
            let options = [("gds_mode", mode), ("block_size", block_size), (STAGING, gb)];
            let command = suggested(&config(StoreKind::Llmd, true, &options), "Qwen2.5-7B").unwrap();
            let common = "gds-top bench-kv llmd /mnt/kv --shape qwen2.5-7b";
            let words = command.words.join(" ").replace(" --gds-mode disabled", "");
            assert_eq!((words, command.left_out.as_slice()), (format!("{common}{wanted}"), &[][..]), "{options:?}");
        }
    }
}
