//! Around libcufile: what it loads, tools beside it, where its log goes, sizes against the GPU, shared statistics.

use super::config_file::FileState;
use super::context::Context;
use super::judged::{Cost, EVERY, Judged};
use crate::domain::{Group::Cufile, Route, units};
use serde_json::Value;

/// The value of a key over the files, the later file counting, with its origin.
pub(super) fn value(ctx: &Context<'_>, key: &str) -> Option<(Value, String)> {
    ctx.config().files.iter().rev().find_map(|file| match &file.state {
        FileState::Good(values) => values.get(key).map(|value| (value.clone(), file.path.clone())),
        _ => None,
    })
}

/// Checks of files and environment.
pub(super) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.push(log_location(ctx));
    out.extend(log_level(ctx));
    out.extend(super::static_config::routing(ctx));
    out.extend(tools(ctx));
    out.extend(shared_statistics(ctx));
    out
}

/// Checks that wait for libcufile or NVML.
pub(super) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    out.extend(dependencies(ctx));
    out.extend(sizes(ctx));
    out.extend(super::static_config::gpus(ctx));
    out.extend(variables(ctx));
    out.extend(rdma_helper(ctx));
    out
}

/// The helper library for file systems over user-space RDMA; for local disks it does not matter that it is absent.
fn rdma_helper(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "lib-rdma";
    const NEEDED: &[&str] = &["libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1"];
    let mut kinds = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()?.filesystem.as_deref());
    let kind = kinds.find(|kind| matches!(*kind, "gpfs" | "mmfs" | "wekafs"))?;
    let output = ctx.root.command(&["ldconfig", "-p"]).filter(|o| o.exit_code == Some(0) && !o.stdout.is_empty());
    let judged = match output {
        None => Judged::na(ID, Cufile, "which libraries are installed could not be listed")
            .found("ldconfig -p", "no answer")
            .unknown(&[Route::Rdma]),
        Some(output) => {
            let lacking: Vec<&str> = NEEDED
                .iter()
                .copied()
                .filter(|name| !output.stdout.lines().any(|line| line.trim().starts_with(&format!("{name} "))))
                .collect();
            if lacking.is_empty() {
                Judged::pass(ID, Cufile, "the libraries of RDMA are installed").found("ldconfig -p", NEEDED.join(" "))
            } else {
                Judged::lack(ID, Cufile, format!("{kind} goes over RDMA, and {} is not installed", lacking.join(", ")))
                    .found("ldconfig -p", format!("no {}", lacking.join(", no ")))
                    .missing(Cost::Install, &[Route::Rdma])
                    .advice("apt-get install rdma-core ibverbs-providers, or dnf install rdma-core libibverbs.")
            }
        }
    };
    Some(judged.why("libcufile_rdma.so registers GPU memory with the network card through these."))
}

/// Whether the folder of the log makes every open fail; then that is the cause of a failing open.
pub(super) fn log_folder_is_missing(ctx: &Context<'_>) -> bool {
    log_location(ctx).in_the_way().next().is_some()
}

fn log_location(ctx: &Context<'_>) -> Judged {
    const ID: &str = "log-location";
    const WHY: &str = "The reason for a fallback stands in cufile.log: CUFILE_LOGFILE_PATH names it, else logging.dir its folder, else it lies in the \
                       working directory.";
    if let Some(path) = ctx.root.variable("CUFILE_LOGFILE_PATH").filter(|path| !path.is_empty()) {
        return Judged::pass(ID, Cufile, format!("the log is {path}"))
            .found("environment", format!("CUFILE_LOGFILE_PATH={path}"))
            .why(WHY);
    }
    let Some((folder, origin)) =
        value(ctx, "logging.dir").and_then(|(v, origin)| Some((v.as_str()?.to_owned(), origin)))
    else {
        return Judged::info(ID, Cufile, "each program leaves cufile.log in its working directory")
                .found("cufile.json", "no logging.dir")
                .advice("export CUFILE_LOGFILE_PATH=/var/tmp/cufile.log to have it at one place; gds-top's own runs keep it in a scratch folder.")
                .why(WHY);
    };
    // Of a captured machine only what was looked at is there, so a folder whose parent is not there either says nothing.
    let parent_seen = std::path::Path::new(&folder).parent().is_some_and(|parent| ctx.root.exists(parent));
    let judged = if ctx.root.exists(&folder) {
        Judged::pass(ID, Cufile, format!("the log lies in {folder}"))
    } else if parent_seen || ctx.root.is_live() {
        Judged::lack(ID, Cufile, format!("the folder of the log, {folder}, does not exist: every open fails"))
            .missing(Cost::Root, EVERY)
            .advice(format!("sudo mkdir -p -m 1777 {folder}, or correct logging.dir in {origin}."))
    } else {
        Judged::na(ID, Cufile, format!("whether {folder} exists is not part of this capture"))
    };
    judged.found(origin, format!("logging.dir is {folder}")).why(WHY)
}

fn log_level(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "log-level";
    const KNOWN: &[&str] = &["NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let (level, origin) = match ctx.root.variable("CUFILE_LOGGING_LEVEL").filter(|level| !level.is_empty()) {
        Some(level) => (level, "CUFILE_LOGGING_LEVEL".to_owned()),
        None => value(ctx, "logging.level").and_then(|(v, origin)| Some((v.as_str()?.to_owned(), origin)))?,
    };
    let judged = if !KNOWN.contains(&level.as_str()) {
        Judged::warn(ID, Cufile, format!("the log level {level} is none of libcufile's and is passed over"))
            .advice(format!("Write one of {}, in capitals.", KNOWN.join(", ")))
    } else if level == "DEBUG" || level == "TRACE" {
        Judged::warn(ID, Cufile, format!("the log level {level} slows every read down"))
            .advice("Keep DEBUG and TRACE for finding a cause, and set ERROR for measuring.")
    } else {
        Judged::pass(ID, Cufile, format!("log level {level}"))
    };
    Some(
        judged
            .found(origin, level)
            .why("Most lines on why a read fell back are WARN, INFO or DEBUG; writing them costs time."),
    )
}

/// Variables that do nothing, and that no other check tells of.
fn variables(ctx: &Context<'_>) -> Option<Judged> {
    const TOLD_ELSEWHERE: &[&str] = &["CUFILE_ENV_PATH_JSON", "CUFILE_FORCE_COMPAT_MODE", "CUFILE_LOGGING_LEVEL"];
    let linted = super::cufile_json::lint_environment(ctx.root, ctx.root.libcufile().version_numbers())?;
    let told = |key: &Option<String>| key.as_deref().is_some_and(|key| TOLD_ELSEWHERE.contains(&key));
    let problems: Vec<_> = linted.problems.into_iter().filter(|problem| !told(&problem.key)).collect();
    let first = problems.first()?;
    let mut judged = Judged::warn("cfg-effective", Cufile, first.what.clone()).advice(first.todo.clone());
    for problem in &problems {
        judged = judged.found("environment", &problem.what);
    }
    Some(
        judged.why(
            "What libcufile does not understand it passes over without a word, so what was meant is not in effect.",
        ),
    )
}

fn tools(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "tools-found";
    const TOOLS: &[&str] = &["gdscheck", "gdscheck.py", "gdsio", "gds_stats"];
    let names = ctx.root.entries("/usr/local").ok()?;
    let found = names.iter().filter(|name| name.starts_with("cuda")).find_map(|name| {
        let folder = format!("/usr/local/{name}/gds/tools");
        let inside = ctx.root.entries(&folder).ok()?;
        let tools: Vec<String> = inside.into_iter().filter(|tool| TOOLS.contains(&tool.as_str())).collect();
        (!tools.is_empty()).then_some((folder, tools))
    });
    let judged = match found {
        Some((folder, tools)) => Judged::pass(ID, Cufile, "NVIDIA's own tools are here").found(folder, tools.join(" ")),
        None => {
            Judged::info(ID, Cufile, "NVIDIA's own tools (gdscheck, gdsio) are not here; gds-top needs none of them")
                .found("/usr/local/cuda*/gds/tools", "not there")
        }
    };
    Some(judged.why("gdscheck and gdsio come with the toolkit; Python packages of libcufile bring neither."))
}

/// Segments in which libcufile shares its statistics: the key is the process (seen with 1.20).
fn shared_statistics(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "stats-shm";
    const FILE: &str = "/proc/sysvipc/shm";
    /// Size of the segment of 1.20.
    const BYTES: &str = "32192";
    let text = ctx.root.read_text(FILE).ok()?;
    let rows: Vec<(&str, &str, bool)> = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            // key shmid perms size cpid lpid nattch …
            let words: Vec<&str> = line.split_whitespace().collect();
            let (key, id, size, creator) = (words.first()?, words.get(1)?, words.get(3)?, words.get(4)?);
            let alone = words.get(6).is_some_and(|attached| *attached == "0");
            (key == creator && *size == BYTES).then_some((*id, *creator, alone))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let dead: Vec<&str> = rows.iter().filter(|(.., alone)| *alone).map(|(id, ..)| *id).collect();
    let judged = if dead.is_empty() {
        Judged::info(ID, Cufile, format!("{} programs share their cuFile statistics", rows.len()))
    } else {
        Judged::info(
            ID,
            Cufile,
            format!("{} segments of statistics were left behind by programs that ended", dead.len()),
        )
        .advice(format!("ipcrm -m {}", dead.join(" -m ")))
    };
    let processes: Vec<&str> = rows.iter().map(|(_, pid, _)| *pid).collect();
    Some(
        judged
            .found(FILE, format!("processes {}", processes.join(" ")))
            .why("gds_stats -p reads them; a program that was killed leaves its own behind."),
    )
}

/// Whether libcufile does not open because a library is absent that it loads.
pub(super) fn lacks_libraries(ctx: &Context<'_>) -> bool {
    dependencies(ctx).is_some_and(|judged| judged.in_the_way().next().is_some())
}

/// Libraries that libcufile loads when it opens; asked about only where it does not open.
fn dependencies(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "lib-deps";
    const WHY: &str = "libcufile loads these by itself while it opens, and slim containers lack them.";
    let open = ctx.root.libcufile().open.as_ref()?;
    if open.code == Some(0) {
        return Some(Judged::pass(ID, Cufile, "what libcufile loads is there").found("cuFileDriverOpen", "0").why(WHY));
    }
    let output = ctx.root.command(&["ldconfig", "-p"]).filter(|o| o.exit_code == Some(0) && !o.stdout.is_empty())?;
    let lacks = |name: &str| !output.stdout.lines().any(|line| line.trim().starts_with(&format!("{name} ")));
    let needed: Vec<&str> = ["libudev.so.1", "libmount.so.1"].into_iter().filter(|name| lacks(name)).collect();
    let judged = if needed.is_empty() {
        let optional: Vec<&str> = ["libnuma.so.1", "liburcu-bp.so.6"].into_iter().filter(|name| lacks(name)).collect();
        if optional.is_empty() {
            Judged::pass(ID, Cufile, "what libcufile loads is installed")
        } else {
            Judged::info(ID, Cufile, format!("libcufile goes without {}", optional.join(" and ")))
        }
        .found("ldconfig -p", "libudev.so.1, libmount.so.1")
    } else {
        Judged::lack(ID, Cufile, format!("libcufile needs {}, which is not installed", needed.join(" and ")))
            .found("ldconfig -p", format!("no {}", needed.join(", no ")))
            .missing(Cost::Install, EVERY)
            .advice("apt-get install libudev1 libmount1 libnuma1, or dnf install systemd-libs libmount numactl-libs.")
    };
    Some(judged.why(WHY))
}

/// Whether more memory is on a GPU than libcufile may register at once: the template of the toolkit says 32 GiB, whatever the GPU has.
fn pinned_limit(ctx: &Context<'_>) -> Option<Judged> {
    const KEY: &str = "properties.max_device_pinned_mem_size_kb";
    let (value, origin) = value(ctx, KEY)?;
    let limit = value.as_u64()?.checked_mul(1024)?;
    let memory = ctx.gpus().iter().filter_map(|gpu| gpu.nvml.as_ref()?.memory_total_bytes).max()?;
    (limit < memory).then(|| {
        Judged::info(
            "cfg-vs-hardware",
            Cufile,
            format!("{KEY} is {}, the GPU has {}", units::bytes(limit), units::bytes(memory)),
        )
        .found(origin, format!("{KEY}: {limit} bytes"))
        .advice("A program that registers more at once gets 5016; gds-top config tune MODEL says what a model takes.")
        .why("All buffers that a program has registered, and libcufile's own, count against it.")
    })
}

/// Limits of the configuration against what the GPU has.
fn sizes(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "cfg-vs-hardware";
    let bar1 =
        ctx.gpus().iter().filter(|gpu| !gpu.is_grace()).filter_map(|gpu| gpu.nvml.as_ref()?.bar1_total_bytes).min()?;
    let over: Vec<(&str, u64, String)> =
        ["properties.max_device_cache_size_kb", "properties.max_device_pinned_mem_size_kb"]
            .into_iter()
            .filter_map(|key| {
                let (value, origin) = value(ctx, key)?;
                let bytes = value.as_u64()?.checked_mul(1024)?;
                // The default of the second is 32 GiB whatever the GPU has, so only the first and larger values say something.
                (bytes > bar1 && bytes != 32 * units::GIB).then_some((key, bytes, origin))
            })
            .collect();
    let Some((key, bytes, _)) = over.first() else { return pinned_limit(ctx) };
    let mut judged =
        Judged::info(ID, Cufile, format!("{key} is {}, but BAR1 has {}", units::bytes(*bytes), units::bytes(bar1)))
            .advice("Keep both below the size of BAR1; what does not fit fails with 5016 when it is registered.");
    for (key, bytes, origin) in over {
        judged = judged.found(origin, format!("{key}: {bytes} bytes"));
    }
    Some(judged.why("Registered memory and libcufile's own buffers are mapped in BAR1."))
}
