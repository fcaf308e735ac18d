//! The effects of a serving system's configuration on this machine, as sentences for `check --for`.

use super::verdict::{self, no_gpu};
use crate::core::{KvStore, Route, Serving, ServingConfig, Status, StoreKind, Verdict, WithoutCufile, units};

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its status.
    pub status: Status,
    /// The sentence.
    pub text: String,
}

const fn store(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::LmcacheGdsL1 => "LMCache's GDS L1 tier (one slab file)",
        StoreKind::LmcacheGds => {
            "LMCache's GDS back end (a file for each chunk; deprecated, use --gds-l1-path of the LMCache server)"
        }
        StoreKind::LmcacheNixl => "LMCache's back end on NIXL",
        StoreKind::LmcacheDisk => "LMCache's local disk back end",
        StoreKind::Llmd => "llm-d's file-system connector",
        StoreKind::LlmdObjects => "llm-d's connector with an object store, through NIXL; gds-top measures files only",
        StoreKind::VllmFs => "vLLM's file-system tier",
        StoreKind::VllmHost => "vLLM's offloading to host memory",
        StoreKind::Nixl => "a NIXL back end",
        StoreKind::LmcacheServer => "the LMCache server, which has a separate configuration",
        StoreKind::OtherConnector => "a connector that gds-top does not know",
        StoreKind::None => "no storage",
    }
}

/// Describes a KV-cache store that was recognised in a directory.
#[must_use]
pub fn store_lines(store: &KvStore) -> Vec<String> {
    let more = if store.truncated { " (only the first files were counted)" } else { "" };
    let mut lines = vec![format!(
        "KV-cache store of {}: {}, {}{more}.",
        store.system,
        units::plural(store.files, "file"),
        units::bytes(store.bytes)
    )];
    if !store.models.is_empty() {
        lines.push(format!("Models: {}.", store.models.join(", ")));
    }
    if let [vectors, layers, tokens, elements] = store.shape[..] {
        lines.push(format!(
            "A chunk contains {tokens} tokens, {layers} layers, {vectors} vectors of {elements} elements."
        ));
    }
    if store.partial > 0 {
        lines.push(format!("{} not completed.", units::plural(store.partial, "file")));
    }
    if store.without_metadata > 0 {
        lines.push(format!(
            "{} without metadata, which LMCache does not find.",
            units::plural(store.without_metadata, "chunk")
        ));
    }
    lines.push(format!("Measure it: gds-top bench-kv {} DIR, on a directory of the same disk.", store.system));
    lines
}

/// Facts about a path of the store: its file system, and whether O_DIRECT works there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorePath {
    /// Type of the file system.
    pub filesystem: Option<String>,
    /// Whether a file can be opened with O_DIRECT; `None` if there was no file to test.
    pub direct_io: Option<bool>,
    /// Whether the path exists.
    pub exists: bool,
    /// The memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
}

/// Options that name an amount of host memory: the option, its unit in bytes, and the effect of more than the machine
/// has.
const HOST_MEMORY: [(&str, f64, &str); 3] = [
    ("max_staging_memory_gb", units::GIB as f64, "it limits nothing"),
    ("cpu_bytes_to_use", 1.0, "vLLM cannot allocate it"),
    ("max_local_cpu_size", units::GIB as f64, "LMCache cannot allocate it"),
];

/// The option that names more host memory than the machine has.
fn too_much_memory(config: &ServingConfig, memory_bytes: u64) -> Option<String> {
    let value = |name: &str| config.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let wants = HOST_MEMORY.iter().filter_map(|(name, unit, effect)| {
        let bytes = value(name)?.trim().parse::<f64>().ok()? * unit;
        Some((name, bytes, effect))
    });
    let (name, bytes, effect) = wants.into_iter().find(|(_, bytes, _)| *bytes > memory_bytes as f64)?;
    Some(format!(
        "{name} is {}, and the machine has {}: {effect}.",
        units::bytes(bytes as u64),
        units::bytes(memory_bytes)
    ))
}

/// The effects of the configuration.
#[must_use]
pub fn lines(config: &ServingConfig, verdict: Option<&Verdict>, path: &StorePath) -> Vec<Line> {
    let mut all = Vec::new();
    let mut say = |status, text: String| all.push(Line { status, text });
    let place = config.paths.first().map_or_else(String::new, |path| format!(" in {}", path.display()));
    match config.store {
        StoreKind::None => say(Status::Fail, "The configuration names no storage for the KV cache.".to_owned()),
        StoreKind::OtherConnector => {
            let name = config.options.iter().find(|(name, _)| name == "kv_connector").map_or("", |(_, name)| name);
            say(Status::Na, format!("gds-top does not know where the connector {name} stores the KV cache."));
        }
        StoreKind::LmcacheServer => say(
            Status::Info,
            "KV cache: in the LMCache server. Check its command line: gds-top check --for lmcache FILE.".to_owned(),
        ),
        kind => say(Status::Info, format!("KV cache: {}{place}.", store(kind))),
    }
    let which = match (config.cufile_reads, config.cufile_writes) {
        (true, true) => "Reads and writes use cuFile",
        (true, false) => "Reads use cuFile, writes are staged in host memory",
        (false, true) => "Writes use cuFile, reads are staged in host memory",
        (false, false) => "Neither reads nor writes use cuFile",
    };
    let without_files = [StoreKind::None, StoreKind::LlmdObjects, StoreKind::LmcacheServer, StoreKind::OtherConnector];
    let by_cufile = config.cufile_reads || config.cufile_writes;
    // The other back ends of this tier use a raw device or AMD's library.
    let without_folder = config.store == StoreKind::LmcacheGdsL1 && !by_cufile;
    if without_folder {
        say(Status::Info, "This back end does not use cuFile; gds-top does not measure it.".to_owned());
    } else if !without_files.contains(&config.store) {
        let opened = match (config.store, config.direct_io) {
            (StoreKind::Nixl, _) => "the program that uses NIXL opens the files",
            (_, true) => "files are opened with O_DIRECT",
            (_, false) => "files are opened without O_DIRECT",
        };
        say(Status::Info, format!("{which}; {opened}."));
    }
    let switched_off = config.store == StoreKind::LmcacheGds
        && !config.insists
        && path.filesystem.as_deref().is_some_and(|fs| matches!(fs, "tmpfs" | "overlayfs"));
    if switched_off {
        say(
            Status::Warn,
            "LMCache switches GDS off on this file system and uses POSIX reads. Set use_gds: true to use GDS anyway."
                .to_owned(),
        );
    } else if by_cufile {
        say_route(&mut say, config, verdict);
    }
    if config.direct_io && path.direct_io == Some(false) {
        let text = match config.store {
            StoreKind::Llmd => {
                "O_DIRECT does not work there: llm-d drops each write and ignores each read that uses cuFile."
            }
            StoreKind::VllmFs => "O_DIRECT does not work there: vLLM uses buffered reads and writes.",
            _ => "O_DIRECT does not work there: the store cannot be opened.",
        };
        say(if config.store == StoreKind::VllmFs { Status::Warn } else { Status::Fail }, text.to_owned());
    }
    if config.direct_io && path.direct_io.is_none() && path.exists {
        say(
            Status::Na,
            "The directory has no file, so O_DIRECT was not tested: --test-file tests it with a temporary one."
                .to_owned(),
        );
    }
    if !path.exists && !config.paths.is_empty() && !without_folder {
        say(
            Status::Warn,
            "The directory does not exist yet; its file system is that of the nearest directory above.".to_owned(),
        );
    }
    if config.paths.len() > 1 {
        say(Status::Info, format!("{} directories: the number of the GPU selects one (by_gpu).", config.paths.len()));
    }
    if let Some(text) = path.memory_bytes.and_then(|memory| too_much_memory(config, memory)) {
        say(Status::Warn, text);
    }
    for option in &config.ignored {
        let instead = match option.instead.as_str() {
            "" => "it has no replacement".to_owned(),
            instead => format!("use {instead}"),
        };
        say(Status::Warn, format!("{} has no effect in the current version: {instead}.", option.option));
    }
    for option in &config.unknown {
        let text = match config.store {
            // vLLM reads the same map.
            StoreKind::Llmd => {
                format!("{option} is not an option of llm-d's connector; only vLLM itself could read it.")
            }
            StoreKind::VllmFs => format!("{option} is not a key of vLLM's file-system tier."),
            _ => format!("{option} is not an option of the current version, which ignores it."),
        };
        say(Status::Warn, text);
    }
    for wrong in &config.wrong {
        let (option, value, accepted) = (&wrong.option, &wrong.value, &wrong.accepted);
        match &wrong.used {
            Some(used) => say(
                Status::Warn,
                format!("{option} is {value:?}, which is not a value of it: {used} is used. It accepts {accepted}."),
            ),
            None => {
                say(Status::Fail, format!("The program does not start with {option} {value:?}: it accepts {accepted}."))
            }
        }
    }
    for option in &config.missing {
        say(Status::Fail, format!("{option} is missing or has no valid value."));
    }
    all
}

/// The line about several connectors.
#[must_use]
pub fn connectors(count: usize) -> Line {
    let text =
        format!("{count} connectors: vLLM writes to all of them and reads from the first one that has the tokens.");
    Line { status: Status::Info, text }
}

/// The line of a connector that stores nothing, next to other ones.
#[must_use]
pub fn without_storage(config: &ServingConfig) -> Line {
    let name = config.options.iter().find(|(name, _)| name == "kv_connector").map_or("A connector", |(_, name)| name);
    if config.serving == Serving::Lmcache {
        let text = format!("{name} has no storage configured, so LMCache keeps the KV cache in host memory only.");
        return Line { status: Status::Warn, text };
    }
    Line { status: Status::Info, text: format!("{name} moves the KV cache between instances and stores none of it.") }
}

fn say_route(say: &mut impl FnMut(Status, String), config: &ServingConfig, verdict: Option<&Verdict>) {
    let without = match config.without_cufile {
        WithoutCufile::StartFails => "the program does not start",
        WithoutCufile::Posix => "the program uses POSIX reads and a copy",
        WithoutCufile::StagingAtStart => "the program stages all transfers in host memory",
        WithoutCufile::NotUsed => return,
    };
    let Some(verdict) = verdict else {
        return say(Status::Na, "The route was not examined: no directory is named.".to_owned());
    };
    let answer = verdict::answer(verdict);
    let effect = match verdict.route {
        _ if no_gpu(verdict) => format!(" cuFile needs a GPU, so {without}."),
        Route::None => format!(" So {without}."),
        Route::Compat => " Plain reads are usually as fast.".to_owned(),
        _ => String::new(),
    };
    say(answer.status, answer.text() + &effect);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Basis, IgnoredOption};

    fn config(kind: StoreKind) -> ServingConfig {
        ServingConfig {
            serving: Serving::Lmcache,
            store: kind,
            paths: vec!["/mnt/kv".into()],
            cufile_reads: true,
            cufile_writes: true,
            direct_io: true,
            without_cufile: WithoutCufile::StartFails,
            insists: false,
            options: Vec::new(),
            ignored: vec![IgnoredOption { option: "enable_gds".to_owned(), instead: "gds_path".to_owned() }],
            missing: Vec::new(),
            unknown: Vec::new(),
            wrong: Vec::new(),
        }
    }

    fn verdict(route: Route) -> Verdict {
        Verdict {
            path: "/mnt/kv".into(),
            gpu: Some("GPU-1".to_owned()),
            route,
            possible: route,
            proven: true,
            basis: Basis::Checks,
            proof: String::new(),
            blockers: Vec::new(),
            steps: Vec::new(),
            gpu_name: None,
            caveat: None,
            advice: String::new(),
        }
    }

    #[test]
    fn the_fallback_without_a_gpu_is_named() {
        let nowhere = Verdict { basis: Basis::NoGpu, ..verdict(Route::None) };
        for (without_cufile, named) in [
            (WithoutCufile::StartFails, "does not start"),
            (WithoutCufile::Posix, "POSIX reads"),
            (WithoutCufile::StagingAtStart, "stages all transfers"),
        ] {
            let config = ServingConfig { without_cufile, ..config(StoreKind::Llmd) };
            let said = lines(&config, Some(&nowhere), &StorePath::default());
            assert!(said[2].text.contains(named), "{said:?}");
        }
    }

    #[test]
    fn more_host_memory_than_the_machine_has_is_a_warning() {
        for (option, value, is_too_much) in [
            ("max_staging_memory_gb", "150", true),
            ("max_staging_memory_gb", "32", false),
            ("cpu_bytes_to_use", "100000000000", true),
            ("max_local_cpu_size", "5.5", false),
            ("max_local_cpu_size", "many", false),
        ] {
            let options = vec![(option.to_owned(), value.to_owned())];
            let config = ServingConfig { options, ..config(StoreKind::Llmd) };
            let path = StorePath { memory_bytes: Some(64 << 30), ..StorePath::default() };
            let said = lines(&config, Some(&verdict(Route::Compat)), &path);
            assert_eq!(said.iter().any(|line| line.text.starts_with(option)), is_too_much, "{option} {value}");
        }
    }

    #[test]
    fn the_result_follows_from_the_route_the_file_system_and_the_options() {
        let path =
            StorePath { filesystem: Some("ext4".to_owned()), direct_io: Some(true), exists: true, memory_bytes: None };
        let of = |kind, route, path: &StorePath| {
            let lines = lines(&config(kind), Some(&verdict(route)), path);
            lines.iter().map(|line| line.status).collect::<Vec<_>>()
        };
        use Status::{Fail, Info, Pass, Warn};
        assert_eq!(of(StoreKind::LmcacheGdsL1, Route::Nvfs, &path), [Info, Info, Pass, Warn]);
        assert_eq!(of(StoreKind::LmcacheGdsL1, Route::Compat, &path), [Info, Info, Warn, Warn]);
        assert_eq!(of(StoreKind::LmcacheGdsL1, Route::None, &path), [Info, Info, Fail, Warn]);
        let no_direct = StorePath { direct_io: Some(false), ..path.clone() };
        assert_eq!(of(StoreKind::Llmd, Route::Compat, &no_direct), [Info, Info, Warn, Fail, Warn]);
        let tmpfs = StorePath { filesystem: Some("tmpfs".to_owned()), ..path };
        let said = lines(&config(StoreKind::LmcacheGds), Some(&verdict(Route::None)), &tmpfs);
        assert!(said[2].text.contains("switches GDS off"), "{said:?}");
    }
}
