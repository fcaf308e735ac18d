//! The `bench-kv` command that measures the store of a serving system's configuration.

use super::params::{self, KvSetting};
use super::shape::Shape;
use crate::core::{KvPath, KvSystem, NixlPlugin, ServingConfig, StoreKind};

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

/// The words of the command line. `None` if the configuration stores nothing in files, or names no directory. `text` is the
/// configuration, which can contain the name of a model.
#[must_use]
pub fn suggested(config: &ServingConfig, text: &str) -> Option<Vec<String>> {
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
    let mut settings: Vec<String> = named
        .filter_map(|(_, setting, name)| {
            let name = name.unwrap_or(setting.name());
            if config.wrong.iter().any(|wrong| wrong.option == name) {
                return None;
            }
            let value = match option(name)? {
                "true" | "True" => "1",
                "false" | "False" => "0",
                other => other,
            };
            Some(format!("{setting}={value}"))
        })
        .collect();
    if matches!(system, KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl) && by_cufile {
        settings.push(format!("{}={}", KvSetting::Odirect, u8::from(config.direct_io)));
    }
    settings.extend(batch_chunks(config, option("nixl_buffer_size"), option(KvSetting::ChunkSize.name()), shape));
    for setting in settings {
        // The defaults and values out of range are left out.
        let Ok((name, value)) = params::parse(system, &setting) else { continue };
        let is_default = params::parameters(system).iter().any(|one| one.setting == name && one.default == value);
        if !is_default {
            words.extend(["--set".to_owned(), setting]);
        }
    }
    Some(words)
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
            assert_eq!(command.map(|words| words.join(" ")).as_deref(), wanted, "{store:?}");
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
            suggested(&rejected, "").map(|words| words.join(" ")).as_deref(),
            Some("gds-top bench-kv llmd /mnt/kv")
        );
        let nowhere = ServingConfig { paths: Vec::new(), ..config(StoreKind::Llmd, true, &[]) };
        assert_eq!(suggested(&nowhere, ""), None);
    }
}
