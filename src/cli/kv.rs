//! The command `bench-kv`: KV-cache workloads.

use super::args::{ExportArgs, OutputArgs, RunArgs, ScreenArgs};
use super::outcome::{COULD_NOT_RUN, Ran, fail, has_terminal, not_started, note, print_fitted, print_json};
use super::{consent, race, settings};
use crate::analysis::LEAST_RUNS;
use crate::core::{CacheState, FallbackReason, KvPath, KvSystem, units};
use crate::session::REAL_TIME;
use crate::session::live::{self, WorkloadPlan};
use crate::tui;
use crate::workloads::kv::{self, Folder, GdsMode, Request, Shape};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The arguments of `bench-kv`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Each variant writes and then reads: disk (llmd: staging), ram, gds, gds-registered, and with NIXL nixl-gds, nixl-gds-mt, nixl-posix. A variant can have settings after colons: --variants gds,gds:handle_cache=0. 'gds-top bench-kv --list' lists workloads, settings and shapes."
)]
pub(super) struct KvArgs {
    /// Workload: lmcache-mp, lmcache-nixl, llmd, vllm-fs, lmcache (deprecated in LMCache), ucm (a proposal)
    #[arg(required_unless_present = "list", value_name = "SYSTEM", value_parser = super::hints::kv_systems(), hide_possible_values = true)]
    profile: Option<KvSystem>,
    /// A directory on the disk to be measured; files are written to a new directory in it
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,
    /// List workloads, their settings, and shapes
    #[arg(long)]
    list: bool,
    /// Shape of the KV cache by name, or a JSON file of the same form (default: the shape of the source)
    #[arg(long, value_name = "NAME|FILE")]
    shape: Option<String>,
    /// Tokens of a sequence (default: those of the source)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tokens: Option<u64>,
    /// Sequences
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    /// Share of each sequence that is in the store, 0 to 1, to the nearest file; with 0 every lookup misses
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    hit_rate: f64,
    /// Variants, separated by commas (default: all of the workload)
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = super::hints::kv_variants(), hide_possible_values = true)]
    variants: Vec<String>,
    /// Run every variant once with each value: handle_cache=0,65536
    #[arg(long, value_name = "NAME=A,B")]
    compare: Option<String>,
    /// A setting of the workload, for all runs
    #[arg(long = "set", value_name = "NAME=NUMBER")]
    settings: Vec<String>,
    /// Only write, or only read (files are then written by plain writes before the clock)
    #[arg(long, value_name = "write|read", value_parser = ["write", "read"])]
    direction: Option<String>,
    /// ucm: break the 4 KiB alignment of offsets by 512 bytes, on purpose
    #[arg(long)]
    misalign: bool,
    /// llmd: provoke a fallback: no-library, init-failed, no-odirect, operation-failed
    #[arg(long, value_name = "REASON", value_parser = super::hints::fallbacks(), hide_possible_values = true)]
    provoke: Option<FallbackReason>,
    /// llmd: the variants of a gds_mode: disabled, read_only, write_only, read_write, bb_read_only, bb_write_only, bb_read_write
    #[arg(long, value_name = "MODE", value_parser = super::hints::gds_modes(), hide_possible_values = true)]
    gds_mode: Option<GdsMode>,
    /// cufile.json of the runs: llmd, llmd-32, a file, or none (default: llmd for llmd)
    #[arg(long, value_name = "NAME|FILE|none")]
    cufile_json: Option<String>,
    /// Page cache before each read: cold, hot, as-is; several are measured one after another (default: cold)
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = super::hints::caches(), hide_possible_values = true)]
    cache: Vec<CacheState>,
    /// Runs of each variant in each cache state, alternating (default: 3, which a winner needs; 1 if one variant runs)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// GPU by index or UUID, or 'host' for host memory
    #[arg(long = "target", visible_alias = "gpu", value_name = "INDEX|UUID|host")]
    gpu: Option<String>,
    /// Seed of contents, tokens and slots
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep the files
    #[arg(long)]
    keep: bool,
    /// Read the files that an earlier run kept. Damaged and missing files count as misses
    #[arg(long, conflicts_with = "direction")]
    as_found: bool,
    /// Do not compare the loaded bytes with the stored ones
    #[arg(long)]
    no_verify: bool,
    /// Do not read meters during the run
    #[arg(long)]
    no_telemetry: bool,
    /// Write more than 1 GiB without asking
    #[arg(long)]
    yes: bool,
    /// No screens, also on a terminal
    #[arg(long)]
    headless: bool,
    /// Record the session. The recording is FILE.partial until the session ends and then replaces an earlier
    /// recording, but no other file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    output: RunArgs,
    #[command(flatten)]
    screens: ScreenArgs,
}

/// Runs a workload. The exit statuses are those of `bench`.
pub(super) fn run(args: &KvArgs) -> Ran {
    let output = args.output.on(&args.screens);
    let (Some(kind), Some(dir), false) = (args.profile, args.dir.as_deref(), args.list) else {
        return Ok(list(&output));
    };
    let load = super::args::LoadArgs {
        gpu: args.gpu.clone(),
        cache: args.cache.clone(),
        repeat: args.repeat,
        ..super::args::LoadArgs::default()
    };
    let shared = super::args::RaceArgs {
        no_telemetry: args.no_telemetry,
        no_verify: args.no_verify,
        record: args.record.clone(),
        ..load.into()
    };
    let mut config = race::config(&shared)?;
    let look = settings::look(&output)?;
    let request = request(kind, args);
    let dir = &sharded(kind, dir, args.gpu.as_deref())?;
    if !args.as_found && !consent::to_create(dir, args.yes)? {
        return Ok(consent::declined());
    }
    // If the request is not possible, the files of earlier runs are kept.
    let place = Folder::place(dir, kind.name()).map_err(|error| error.to_string())?;
    let mut plan = kv::plan(&request, &place).map_err(|error| error.to_string())?;
    let mut folder =
        Folder::open(dir, kind.name(), args.as_found, args.keep || args.as_found).map_err(|error| error.to_string())?;
    let stop = ready(&mut plan, &mut folder, dir, args).transpose();
    if let Some(stop) = stop {
        if !args.as_found {
            folder.abandon();
        }
        return stop;
    }
    if !output.quiet {
        plan.notes.iter().for_each(|text| note(text));
    }
    // Variants that the user named always run and report their own errors. llm-d continues without cuFile.
    let named = !args.variants.is_empty() || kind == KvSystem::Llmd;
    config.engines = named.then(|| plan.lanes.clone());
    config.repeat = args.repeat.or(settings::current().repeat).unwrap_or(if plan.compares() { LEAST_RUNS } else { 1 });
    config.workload =
        Some(WorkloadPlan { model: plan.model, lanes: plan.lanes, order: plan.order, warnings: plan.warnings });
    config.checks = false;
    let screens = !args.headless && !output.json && !output.quiet && has_terminal();
    let ran = if screens {
        config.end_after_race = false;
        match live::start(config) {
            Ok(feed) => race::screens(feed, look, tui::ScreenId::Race, REAL_TIME, args.export.plan()),
            Err(error) => not_started(&error),
        }
    } else {
        race::follow(config, &output, args.export.plan(), None)
    };
    if let Some(text) = folder.close().filter(|_| !output.quiet) {
        note(&text);
    }
    ran
}

/// The request of the arguments.
fn request(kind: KvSystem, args: &KvArgs) -> Request {
    let mut settings = args.settings.clone();
    if args.misalign {
        settings.push("misalign=512".to_owned());
    }
    let write = !args.as_found && args.direction.as_deref() != Some("read");
    Request {
        kind,
        shape: args.shape.clone(),
        tokens: args.tokens,
        batch: args.batch,
        hit_rate: args.hit_rate,
        seed: args.seed,
        gds_mode: args.gds_mode,
        variants: args.variants.clone(),
        compare: args.compare.clone(),
        settings,
        directions: (write, args.direction.as_deref() != Some("write")),
        provoke: args.provoke,
        cufile_json: args.cufile_json.clone(),
        as_found: args.as_found,
    }
}

/// Writes the files that the runs need, if the disk has enough space. Otherwise it returns the exit status.
fn ready(plan: &mut kv::Plan, folder: &mut Folder, dir: &Path, args: &KvArgs) -> Result<Option<u8>, String> {
    let as_found = args.as_found;
    let on_disk = plan.lanes.iter().any(|lane| !lane.is_in_memory());
    if let Some(free) = free_bytes(folder.path()).filter(|free| on_disk && !as_found && *free < plan.disk_bytes) {
        let sentence = format!(
            "{} needs {} on the disk, and {} has {} free: use fewer tokens or sequences, or another DIR",
            plan.model.name,
            units::bytes(plan.disk_bytes),
            dir.display(),
            units::bytes(free)
        );
        return Ok(Some(fail(COULD_NOT_RUN, &sentence)));
    }
    if on_disk && !as_found && !consent::to_write(plan.disk_bytes, dir, args.yes)? {
        return Ok(Some(consent::declined()));
    }
    plan.settle(folder).map(|()| None).map_err(|error| error.to_string())
}

/// The bytes that this user can still write to the file system. `None` if they are unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let volume = rustix::fs::statvfs(folder).ok()?;
    Some(volume.f_bavail.saturating_mul(volume.f_frsize))
}

/// The directory of a GPU among several that are separated by commas, as in LMCache's `gds_path_sharding: by_gpu`.
fn sharded(kind: KvSystem, dir: &Path, gpu: Option<&str>) -> Result<PathBuf, String> {
    let shards = matches!(kind, KvSystem::Lmcache | KvSystem::LmcacheNixl);
    let Some(text) = dir.to_str().filter(|text| shards && text.contains(',') && !dir.exists()) else {
        return Ok(dir.to_owned());
    };
    let all: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    let number = match gpu {
        None | Some("host") => 0,
        Some(gpu) => gpu.parse::<usize>().map_err(|_| {
            format!("--target {gpu} is not an index, but the index of the GPU selects one of several directories; name the index or one directory")
        })?,
    };
    all.get(number % all.len().max(1)).map(PathBuf::from).ok_or_else(|| format!("'{text}' names no directory"))
}

/// The variants of a workload that run by default.
fn variants(kind: KvSystem) -> Vec<&'static str> {
    kind.usual_variants().iter().map(|path| path.name()).collect()
}

/// The other variants that a workload accepts. `staging` is another name of `disk`.
fn other_variants(kind: KvSystem) -> Vec<&'static str> {
    let usual = kind.usual_variants();
    let others = KvPath::ALL.iter().filter(|path| kind.has(**path) && !usual.contains(path));
    others.filter(|path| !matches!(path, KvPath::Disk | KvPath::Staging)).map(|path| path.name()).collect()
}

/// Prints the workloads, their settings and shapes.
fn list(output: &OutputArgs) -> u8 {
    let shapes: Vec<Shape> = Shape::names().into_iter().filter_map(|name| Shape::named(name).ok()).collect();
    if output.json {
        let workloads: Vec<_> = KvSystem::ALL
            .iter()
            .map(|kind| {
                let settings: Vec<_> = kv::parameters(*kind)
                    .iter()
                    .map(|p| json!({"name": p.setting.name(), "default": p.default, "least": p.range.0, "most": p.range.1, "what": p.what}))
                    .collect();
                let (shape, tokens) = kind.usual();
                json!({
                    "name": kind.name(), "what": kind.describe(), "shape": shape, "tokens": tokens, "variants": variants(*kind),
                    "other_variants": other_variants(*kind),
                    "settings": settings,
                })
            })
            .collect();
        return print_json(&json!({"workloads": workloads, "shapes": shapes}));
    }
    let mut text = String::new();
    for kind in KvSystem::ALL {
        let (shape, tokens) = kind.usual();
        text += &format!("{}: {}\n", kind.name(), kind.describe());
        text += &format!("  variants {}; by default {shape}, {tokens} tokens\n", variants(kind).join(", "));
        let others = other_variants(kind);
        if !others.is_empty() {
            text += &format!("  other variants {}\n", others.join(", "));
        }
        for p in kv::parameters(kind) {
            text += &format!("  {:<18} {:>8}  {}\n", p.setting, p.default, p.what);
        }
        text += &format!("    other settings of the source: {}\n\n", kv::elsewhere(kind));
    }
    text += "shapes (layers, KV heads, head size, type, bytes of a token):\n";
    for shape in shapes {
        text += &format!(
            "  {:<14} {:>3} {:>3} {:>4} {} {:>7}{}  {}\n",
            shape.name,
            shape.layers,
            shape.kv_heads,
            shape.head_size,
            shape.dtype,
            shape.token_bytes(),
            if shape.mla { " MLA" } else { "" },
            shape.source
        );
    }
    print_fitted(&text, false)
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_variant_is_listed() {
        for kind in KvSystem::ALL {
            let listed = [variants(kind), other_variants(kind)].concat();
            for path in KvPath::ALL.into_iter().filter(|path| kind.has(*path)) {
                let is_alias = matches!(path, KvPath::Disk | KvPath::Staging);
                assert!(is_alias || listed.contains(&path.name()), "{kind:?} accepts {path:?}");
            }
            assert!(listed.contains(&"disk") != listed.contains(&"staging"), "{kind:?}");
        }
    }

    /// The arguments behind `gds-top bench-kv` in the texts between backticks and in the lines of examples.
    fn commands(page: &str) -> Vec<Vec<String>> {
        let parts = page.split('`').flat_map(str::lines).filter_map(|line| line.strip_prefix("gds-top bench-kv "));
        let without_comment = parts.map(|line| line.split(" #").next().unwrap_or(line));
        without_comment.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn every_command_of_the_documents_is_possible_and_asks_for_consent_if_it_writes_much() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: KvArgs,
        }
        let pages = [include_str!("../../docs/claims.md"), include_str!("../../docs/kv-caches.md")];
        let mut planned = 0;
        for words in pages.iter().flat_map(|page| commands(page)) {
            if words.iter().any(|word| word == "--list" || word == "SYSTEM") {
                continue;
            }
            let line = words.join(" ");
            let parsed = <Line as clap::Parser>::try_parse_from([vec!["bench-kv".to_owned()], words].concat());
            let args = parsed.unwrap_or_else(|error| panic!("{line}: {error}")).args;
            let request = request(args.profile.unwrap_or(KvSystem::Ucm), &args);
            match kv::plan(&request, Path::new("/nonexistent")) {
                Ok(plan) => assert!(args.yes || plan.disk_bytes <= 1 << 30, "{line} writes {}", plan.disk_bytes),
                Err(error) => panic!("{line}: {error}"),
            }
            planned += 1;
        }
        assert!(planned >= 15, "{planned} commands");
    }

    #[test]
    fn the_number_of_the_gpu_selects_one_of_several_folders() {
        let of = |kind, dir: &str, gpu| {
            sharded(kind, Path::new(dir), gpu).map_or_else(|why| why, |dir| dir.display().to_string())
        };
        assert_eq!(of(KvSystem::Lmcache, "/a,/b", None), "/a");
        assert_eq!(of(KvSystem::Lmcache, "/a, /b", Some("1")), "/b");
        assert_eq!(of(KvSystem::Lmcache, "/a,/b", Some("2")), "/a");
        assert_eq!(of(KvSystem::Ucm, "/a,/b", Some("1")), "/a,/b");
        assert!(of(KvSystem::Lmcache, "/a,/b", Some("GPU-1234")).contains("is not an index"));
    }
}
