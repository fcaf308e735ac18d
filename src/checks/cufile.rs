//! libcufile and its configuration.

use super::config_file::FileState;
use super::context::Context;
use super::judged::{Cost, DIRECT, EVERY, Judged};
use crate::domain::{Group::Cufile, Route};
use crate::host::{self, LibcufileFacts, Unread};

const P2P_ROUTES: &[Route] = &[Route::P2pdma, Route::C2c];

/// Checks of the configuration: files and environment only.
pub(super) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = vec![parse(ctx)];
    out.extend(env_path(ctx));
    out.push(compat(ctx));
    out.extend(effective(ctx));
    out
}

/// Keys that do nothing, and lists that shut a path out.
fn effective(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: &str = "cfg-effective";
    const WHY: &str = "What stands in the file is not always in effect: unknown keys are passed over silently, and a denylist sends a path through host memory.";
    let config = ctx.config();
    let mut out = Vec::new();
    let silent = config.passed_over();
    if let Some((key, origin, meant)) = silent.first() {
        let mut judged = Judged::warn(ID, Cufile, format!("{key} does nothing; {meant} is meant"))
            .advice(format!("Rename it to {meant} in {origin}."));
        for (key, origin, meant) in &silent {
            judged = judged.found(*origin, format!("{key} is not known to libcufile, {meant} is"));
        }
        out.push(judged.why(WHY));
    }
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let disks = super::storage::disks(facts);
        let source = facts.source.as_deref().unwrap_or("");
        let mount = facts.mount_point.as_deref().map(|p| p.display().to_string()).unwrap_or_default();
        let hits = [
            ("denylist.filesystems", facts.filesystem.iter().map(String::as_str).collect::<Vec<_>>()),
            ("denylist.devices", vec![source]),
            ("denylist.mounts", vec![mount.as_str()]),
            (
                "denylist.drivers",
                if disks.iter().any(|d| d.name.starts_with("nvme")) { vec!["nvme"] } else { Vec::new() },
            ),
        ];
        for (key, mine) in hits {
            let (denied, origin) = config.list(key);
            if let Some(word) = denied.iter().find(|word| !word.is_empty() && mine.contains(word)) {
                out.push(
                    Judged::lack(ID, Cufile, format!("{key} shuts this path out: {word}"))
                        .found(origin, format!("{key} contains {word}"))
                        .missing(Cost::Setting, DIRECT)
                        .advice(format!("Take {word} out of {key} in {origin}."))
                        .why(WHY)
                        .of(super::judged::Scope::Path(number)),
                );
            }
        }
    }
    out
}

/// Checks that wait for the probe of libcufile.
pub(super) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let facts = ctx.root.libcufile();
    let mut out = vec![found(ctx, facts)];
    out.extend(refused_by_the_library(ctx, facts));
    if facts.chosen.is_some() || facts.open.is_some() {
        out.extend([version(facts), opens(ctx, facts)]);
    }
    if ctx.subjects.is_empty() {
        out.push(p2p_keys(ctx, facts, "block.nvme.use_pci_p2pdma"));
    }
    for (number, subject) in ctx.subjects.iter().enumerate() {
        out.push(p2p_keys(ctx, facts, transport_key(ctx, subject)).of(super::judged::Scope::Path(number)));
    }
    out
}

/// The switch of P2PDMA for the transport of a path.
fn transport_key(ctx: &Context<'_>, subject: &super::context::Subject) -> &'static str {
    let Some(facts) = &subject.facts else { return "block.nvme.use_pci_p2pdma" };
    if facts.filesystem.as_deref() == Some("virtiofs") {
        "fs.virtiofs.use_pci_p2pdma"
    } else if facts.block_device.iter().any(|device| device.kind == crate::host::BlockKind::Md) {
        "block.raid.use_pci_p2pdma"
    } else if super::storage::transports(ctx, facts).iter().any(|kind| kind == "rdma") {
        "block.nvmeof.use_pci_p2pdma"
    } else {
        "block.nvme.use_pci_p2pdma"
    }
}

/// What libcufile says of its configuration where the rules known here find nothing wrong with it.
fn refused_by_the_library(ctx: &Context<'_>, facts: &LibcufileFacts) -> Option<Judged> {
    let open = facts.open.as_ref().filter(|open| matches!(open.code, Some(5002 | -22 | 5030)))?;
    if ctx.config().is_fatal() || super::cufile_details::log_folder_is_missing(ctx) {
        return None;
    }
    let cause = super::log_signatures::explain_cufile(&open.stderr).into_iter().find(|c| c.check == "cfg-parse")?;
    let paths: Vec<&str> = ctx.config().files.iter().map(|file| file.path.as_str()).collect();
    Some(
        Judged::lack("cfg-parse", Cufile, format!("libcufile refuses its configuration: {}", cause.meaning))
            .found("stderr of the library", cause.line)
            .found("files of the configuration", paths.join(", "))
            .missing(Cost::Root, EVERY)
            .advice(format!("gds-top config lint names the place; the library read {}.", paths.join(" and ")))
            .why("A configuration that libcufile refuses makes cuFileDriverOpen fail in every program."),
    )
}

fn parse(ctx: &Context<'_>) -> Judged {
    const ID: &str = "cfg-parse";
    const WHY: &str = "A cufile.json that libcufile cannot read or refuses makes cuFileDriverOpen fail in every program (5002, -22 or 5030), also \
                       when only /etc/cufile.json is broken and a good file is given by CUFILE_ENV_PATH_JSON.";
    let config = ctx.config();
    let mut read = Vec::new();
    for file in &config.files {
        match &file.state {
            FileState::Broken(problems) => {
                let mut judged = Judged::lack(ID, Cufile, format!("libcufile refuses {}: every open fails", file.path))
                    .missing(if file.from_environment { Cost::Setting } else { Cost::Root }, EVERY)
                    .advice(format!("Correct {}: {}.", file.path, problems.join("; ")));
                for problem in problems {
                    judged = judged.found(&file.path, problem);
                }
                return judged.why(WHY);
            }
            FileState::Unreadable(why @ Unread::WrongKind) => {
                let judged = Judged::lack(
                    ID,
                    Cufile,
                    format!("{} is a folder or the like, and no file that libcufile could read", file.path),
                )
                .unread(&file.path, why)
                .missing(Cost::Root, EVERY);
                let judged = if host::container(ctx.root).is_some() {
                    judged.advice(format!(
                        "Container engines make a folder where -v names a file that the host does not have: make {} on the host, or leave that -v out, and start the container anew.",
                        file.path
                    ))
                } else {
                    judged.advice(format!("Remove {}, and put a file in its place or nothing.", file.path))
                };
                return judged.why(WHY);
            }
            FileState::Unreadable(why) => {
                return Judged::lack(
                    ID,
                    Cufile,
                    format!("{} is there, but this user may not read it: every open fails (5030)", file.path),
                )
                .unread(&file.path, why)
                .missing(Cost::Root, EVERY)
                .advice(format!("sudo chmod 644 {}", file.path))
                .why(WHY);
            }
            FileState::Good(values) => read.push((file.path.clone(), format!("{} keys", values.len()))),
            FileState::Missing => {}
        }
    }
    let mut judged = if read.is_empty() {
        Judged::info(ID, Cufile, "no cufile.json: the library's defaults apply")
            .found(super::config_file::SYSTEM_FILE, "does not exist")
    } else {
        Judged::pass(ID, Cufile, "cufile.json is well-formed")
    };
    for (path, text) in read {
        judged = judged.found(path, text);
    }
    judged.why(WHY)
}

fn env_path(ctx: &Context<'_>) -> Option<Judged> {
    let file = ctx.config().files.iter().find(|file| file.from_environment)?;
    let judged = match file.state {
        FileState::Missing => Judged::warn(
            "cfg-env-path",
            Cufile,
            format!("CUFILE_ENV_PATH_JSON names {}, which does not exist", file.path),
        )
        .found("environment", format!("CUFILE_ENV_PATH_JSON={}", file.path))
        .advice("Correct the path, or unset the variable."),
        _ => Judged::pass("cfg-env-path", Cufile, format!("CUFILE_ENV_PATH_JSON names {}", file.path))
            .found("environment", format!("CUFILE_ENV_PATH_JSON={}", file.path)),
    };
    Some(judged.why("The library passes over a missing file without a word, so a tuned file may not be in effect."))
}

fn compat(ctx: &Context<'_>) -> Judged {
    const ID: &str = "cfg-compat";
    const WHY: &str = "force_compat_mode sends every read through host memory; allow_compat_mode decides whether a broken direct route falls back silently or fails.";
    let config = ctx.config();
    let (force, force_from) = config.switch("properties.force_compat_mode", false);
    let (allow, allow_from) = config.switch("properties.allow_compat_mode", true);
    let variable = ctx.root.variable("CUFILE_FORCE_COMPAT_MODE");
    let judged = if force {
        Judged::lack(ID, Cufile, "compat mode is forced: no read goes straight to the GPU")
            .found(&force_from, "force_compat_mode is true")
            .missing(Cost::Setting, DIRECT)
            .advice(format!("Unset it: {force_from}."))
    } else if !allow {
        Judged::lack(ID, Cufile, "compat mode is not allowed: where no direct route works, reads fail")
            .found(&allow_from, "allow_compat_mode is false")
            .missing(Cost::Setting, &[Route::Compat])
            .advice("Set properties.allow_compat_mode to true, unless failing is what you want.")
    } else if let Some(value) =
        variable.filter(|value| !matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | ""))
    {
        Judged::warn(ID, Cufile, format!("CUFILE_FORCE_COMPAT_MODE={value} does nothing: only the word true counts"))
            .found("environment", format!("CUFILE_FORCE_COMPAT_MODE={value}"))
            .advice("Write true, or unset it.")
    } else {
        Judged::pass(ID, Cufile, "compat mode is allowed and not forced")
            .found(&allow_from, "allow_compat_mode is true")
    };
    judged.why(WHY)
}

fn p2p_keys(ctx: &Context<'_>, facts: &LibcufileFacts, second: &'static str) -> Judged {
    const ID: &str = "cfg-p2p-both";
    const WHY: &str =
        "P2PDMA is off by default; libraries from 1.16 on want it switched on for all and for the transport.";
    let config = ctx.config();
    let (master, master_from) = config.switch("properties.use_pci_p2pdma", false);
    let (nvme, nvme_from) = config.switch(second, false);
    // 1.14 has only the first key, 1.20 both (strings of the libraries); the first release that wants the second lies between.
    let wants_second = facts.version_numbers().is_none_or(|version| version >= (1, 16));
    let judged = if master && (nvme || !wants_second) {
        Judged::pass(ID, Cufile, "P2PDMA is switched on")
    } else {
        let absent = match (master, nvme || !wants_second) {
            (false, false) => format!("properties.use_pci_p2pdma and {second} are"),
            (false, true) => "properties.use_pci_p2pdma is".to_owned(),
            _ => format!("{second} is"),
        };
        Judged::lack(ID, Cufile, format!("{absent} not switched on"))
            .missing(Cost::Setting, P2P_ROUTES)
            .fix("cufile-p2pdma-keys")
            .advice("Switch them on in a cufile.json of your own, named by CUFILE_ENV_PATH_JSON.")
    };
    judged
        .found(master_from, format!("properties.use_pci_p2pdma is {master}"))
        .found(nvme_from, format!("{second} is {nvme}"))
        .why(WHY)
}

fn found(ctx: &Context<'_>, facts: &LibcufileFacts) -> Judged {
    const ID: &str = "lib-found";
    const WHY: &str = "Every cuFile read goes through libcufile; frameworks often bring their own, of another version than the toolkit's.";
    let error = facts.error.clone().unwrap_or_else(|| "nothing found".to_owned());
    let mut judged = if facts.unasked {
        Judged::na(ID, Cufile, "libcufile could not be asked").found("probe", error).unknown(EVERY)
    } else if facts.found.is_empty() && facts.chosen.is_none() {
        Judged::lack(ID, Cufile, "libcufile is not installed: no cuFile read is possible")
            .found("dynamic loader", error)
            .missing(Cost::Install, EVERY)
            .fix("libcufile-install")
            .advice({
                let (major, minor) = host::cuda_packages(ctx.root);
                let wheel =
                    host::cufile_wheel(major).map_or_else(String::new, |wheel| format!("or pip install {wheel}, "));
                format!("Install the package libcufile-{major}-{minor}, {wheel}or name it by GDS_TOP_LIBCUFILE.")
            })
    } else {
        let mut versions: Vec<&str> = facts.found.iter().filter_map(|f| f.version.as_deref()).collect();
        versions.sort_unstable();
        versions.dedup();
        let chosen = facts.chosen.as_deref().unwrap_or("the first one");
        if versions.len() > 1 {
            Judged::warn(ID, Cufile, format!("{} versions of libcufile are here; {chosen} is taken", versions.len()))
                .advice("A framework may load another one than the tools do, with other defaults; GDS_TOP_LIBCUFILE names the one to examine, /proc/PID/maps shows which one a program has loaded.")
        } else {
            Judged::pass(ID, Cufile, format!("libcufile at {chosen}"))
        }
    };
    for library in facts.found.iter().take(8) {
        judged = judged.found(&library.path, library.version.clone().unwrap_or_else(|| "version not said".to_owned()));
    }
    judged.why(WHY)
}

fn version(facts: &LibcufileFacts) -> Judged {
    const ID: &str = "lib-version";
    let source = facts.chosen.clone().unwrap_or_else(|| "libcufile".to_owned());
    let judged = match (facts.version(), facts.version_numbers()) {
        (Some(text), Some(numbers)) if numbers < (1, 7) => {
            Judged::warn(ID, Cufile, format!("libcufile {text} is older than 1.7"))
                .found(source, text)
                .advice("Install a current libcufile.")
        }
        (Some(text), Some(numbers)) if numbers < (1, 16) => Judged::info(
            ID,
            Cufile,
            format!("libcufile {text} cannot say by itself which route it takes; 1.16 and later can"),
        )
        .found(source, text),
        (Some(text), _) => Judged::pass(ID, Cufile, format!("libcufile {text}")).found(source, text),
        (None, _) => {
            Judged::na(ID, Cufile, "the library does not say its version").found(source, "no cuFileGetVersion")
        }
    };
    judged.why("Newer releases bring buffered files (1.7), compat mode on overlay (1.16), and counters that prove the route (1.16 to 1.20).")
}

fn opens(ctx: &Context<'_>, facts: &LibcufileFacts) -> Judged {
    const ID: &str = "lib-open-probe";
    const WHY: &str =
        "Opened in a child process with a time limit, because some versions spin or crash while they open.";
    let modules = ctx.root.read_bytes("/proc/modules").err();
    let spins = facts.version_numbers().is_none_or(|v| v >= (1, 16));
    let said = |judged: Judged| match facts.open.as_ref().map(|open| open.stderr.trim()).filter(|text| !text.is_empty())
    {
        Some(text) => judged.found("stderr of the library", text.lines().take(4).collect::<Vec<_>>().join("; ")),
        None => judged,
    };
    let judged = match &facts.open {
        Some(open) if open.code == Some(0) => {
            let judged = Judged::pass(ID, Cufile, "libcufile opens").found("cuFileDriverOpen", "0");
            match &facts.p2p_flags {
                Some(flags) if !flags.is_empty() => judged.found("cuFileDriverGetP2PFlags", describe(flags)),
                _ => judged,
            }
        }
        Some(open) if open.timed_out || open.code.is_none() => {
            let how = if open.timed_out { "it did not come back within the time limit" } else { "its process died" };
            let judged = Judged::lack(ID, Cufile, format!("libcufile does not open: {how}"))
                .missing(Cost::System, EVERY)
                .found("cuFileDriverOpen", how);
            match &modules {
                _ if super::kernel::is_wsl(ctx) => judged.cause("wsl"),
                Some(why) if spins => judged.unread("/proc/modules", why).cause("ctr-proc-sys"),
                _ => judged
                    .advice("Run gds-top check -v for what it printed; try another libcufile with GDS_TOP_LIBCUFILE."),
            }
        }
        Some(open) => {
            let code = open.code.unwrap_or(0);
            let cuda = open.cuda_code.filter(|c| *c != 0).map_or(String::new(), |c| format!(", CUDA {c}"));
            let judged = Judged::lack(ID, Cufile, format!("libcufile does not open: error {code}{cuda}"))
                .found("cuFileDriverOpen", format!("{code}{cuda}"))
                .missing(Cost::Root, EVERY);
            let told = super::log_signatures::explain_cufile(&open.stderr);
            let says = |check: &str| told.iter().any(|cause| cause.check == check);
            if super::kernel::is_wsl(ctx) {
                judged.cause("wsl")
            } else if matches!(code, 5002 | -22 | 5030)
                && (ctx.config().is_fatal() || refused_by_the_library(ctx, facts).is_some())
            {
                judged.cause("cfg-parse")
            } else if open.cuda_code == Some(802) && ctx.has_fabric() {
                judged.cause("gpu-fabric")
            } else if open.cuda_code == Some(802) {
                judged.advice("CUDA waits for the NVSwitch fabric (802): sudo systemctl start nvidia-fabricmanager, of the version of the driver.")
            } else if open.cuda_code == Some(803) && !super::gpu::is_mismatched(ctx) {
                judged.advice("CUDA finds a driver of another version than its own libcuda (803): reboot after an update of the driver, or remove the libcuda of a compatibility package from LD_LIBRARY_PATH.")
            } else if (code == 5004 || says("nvfs-version")) && super::nvidia_fs::is_too_old(ctx) {
                judged.cause("nvfs-version")
            } else if (code == 5025 || says("nvfs-devnodes")) && super::nvidia_fs::lacks_devices(ctx) {
                judged.cause("nvfs-devnodes")
            } else if matches!(code, 5002 | -22) && super::cufile_details::log_folder_is_missing(ctx) {
                judged.cause("log-location")
            } else if matches!(code, 5011 | 5033) && super::gpu_state::library_is_newer(ctx) {
                judged.cause("cuda-driver-runtime")
            } else if matches!(code, 5011 | 5033) && super::gpu::is_mismatched(ctx) {
                judged.cause("driver-mismatch")
            } else if code == 5033 && super::surroundings::lacks_devices(ctx) {
                judged.cause("ctr-devices")
            } else if super::cufile_details::lacks_libraries(ctx) {
                judged.cause("lib-deps")
            } else if code == 5033 || (code == 5011 && !ctx.has_gpu()) {
                judged.cause("gpu-present")
            } else if code == 5001 && !ctx.config().switch("properties.allow_compat_mode", true).0 {
                judged.cause("cfg-compat")
            } else {
                judged.advice("Run gds-top check -v for what the library printed.")
            }
        }
        None => match &modules {
            Some(why) if spins => {
                Judged::lack(ID, Cufile, "libcufile was not opened: this version would spin for ever here")
                    .unread("/proc/modules", why)
                    .missing(Cost::System, EVERY)
                    .cause("ctr-proc-sys")
            }
            _ if facts.left_closed => Judged::na(ID, Cufile, "libcufile was found, and not opened, as --no-probe asks")
                .found("cuFileDriverOpen", "not called: it initialises CUDA")
                .advice(
                    "gds-top check without --no-probe opens it in a child process and proves the route with a read.",
                ),
            _ => Judged::na(ID, Cufile, "libcufile was found, but not opened").unknown(EVERY),
        },
    };
    said(judged).why(WHY)
}

/// The masks in words: `nvme: p2pdma nvfs`.
fn describe(flags: &std::collections::BTreeMap<String, u64>) -> String {
    let words = super::library_routes::words;
    flags.iter().map(|(transport, mask)| format!("{transport}: {}", words(*mask))).collect::<Vec<_>>().join(", ")
}
