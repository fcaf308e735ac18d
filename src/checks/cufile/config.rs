//! The configuration of libcufile: syntax, compat mode, P2PDMA, lists.

use crate::checks::context::{Context, Subject};
use crate::checks::cufile::config_file::{FileState, SYSTEM_FILE};
use crate::checks::cufile::log::log_folder_is_missing;
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged, Scope};
use crate::checks::logs::signatures::explain_cufile;
use crate::checks::spec::CheckId;
use crate::core::{FindingFact, FixId, Route};
use crate::machine::{self, BlockKind, LibcufileFacts, Unread};

const P2P_ROUTES: &[Route] = &[Route::P2pdma, Route::C2c];

/// Checks of the configuration: files and environment only.
pub(crate) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = vec![parse(ctx)];
    out.extend(env_path(ctx));
    out.push(compat(ctx));
    out.extend(effective(ctx));
    out
}

/// Keys that do nothing, and lists that shut a path out.
fn effective(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::CfgEffective;
    const WHY: &str = "A value in the file is not always in effect: unknown keys are ignored silently, and a denylist sends a path through host memory.";
    let config = ctx.config();
    let mut out = Vec::new();
    let silent = config.passed_over();
    if let Some((key, origin, meant)) = silent.first() {
        let mut judged = Judged::warn(ID, format!("{key} does nothing; {meant} is meant"))
            .advice(format!("Rename it to {meant} in {origin}."));
        for (key, origin, meant) in &silent {
            judged = judged.found(*origin, format!("{key} is not known to libcufile, {meant} is"));
        }
        out.push(judged.why(WHY));
    }
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let disks = machine::disks(facts);
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
                    Judged::lack(ID, format!("{key} shuts this path out: {word}"))
                        .found(origin, format!("{key} contains {word}"))
                        .missing(Cost::Setting, DIRECT)
                        .advice(format!("Take {word} out of {key} in {origin}."))
                        .why(WHY)
                        .of(Scope::Path(number)),
                );
            }
        }
    }
    out
}

/// The switch of P2PDMA for the transport of a path.
pub(crate) fn transport_key(ctx: &Context<'_>, subject: &Subject) -> &'static str {
    let Some(facts) = &subject.facts else { return "block.nvme.use_pci_p2pdma" };
    if facts.filesystem.as_deref() == Some("virtiofs") {
        "fs.virtiofs.use_pci_p2pdma"
    } else if facts.block_device.iter().any(|device| device.kind == BlockKind::Md) {
        "block.raid.use_pci_p2pdma"
    } else if machine::nvme_transports(ctx.root, facts).iter().any(|kind| kind == "rdma") {
        "block.nvmeof.use_pci_p2pdma"
    } else {
        "block.nvme.use_pci_p2pdma"
    }
}

/// The complaint of libcufile about its configuration, if the rules of the linter find no error.
pub(crate) fn refused_by_the_library(ctx: &Context<'_>, facts: &LibcufileFacts) -> Option<Judged> {
    let open = facts.open.as_ref().filter(|open| matches!(open.code, Some(5002 | -22 | 5030)))?;
    if ctx.config().is_fatal() || log_folder_is_missing(ctx) {
        return None;
    }
    let cause = explain_cufile(&open.stderr).into_iter().find(|c| c.check == Some(CheckId::CfgParse))?;
    let paths: Vec<&str> = ctx.config().files.iter().map(|file| file.path.as_str()).collect();
    Some(
        Judged::lack(CheckId::CfgParse, format!("libcufile refuses its configuration: {}", cause.meaning))
            .found("stderr of the library", cause.line)
            .found("files of the configuration", paths.join(", "))
            .missing(Cost::Root, EVERY)
            .advice(format!("gds-top config lint names the place; the library read {}.", paths.join(" and ")))
            .why("A configuration that libcufile refuses makes cuFileDriverOpen fail in every program."),
    )
}

fn parse(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::CfgParse;
    const WHY: &str = "A cufile.json that libcufile cannot read or refuses makes cuFileDriverOpen fail in every program (5002, -22 or 5030), also \
                       when only /etc/cufile.json is broken and a good file is given by CUFILE_ENV_PATH_JSON.";
    let config = ctx.config();
    let mut read = Vec::new();
    for file in &config.files {
        match &file.state {
            FileState::Broken(problems) => {
                let mut judged = Judged::lack(ID, format!("libcufile refuses {}: every open fails", file.path))
                    .missing(if file.from_environment { Cost::Setting } else { Cost::Root }, EVERY)
                    .advice(format!("Correct {}: {}.", file.path, problems.join("; ")));
                for problem in problems {
                    judged = judged.found(&file.path, problem);
                }
                return judged.fact(FindingFact::BrokenFile(file.path.clone())).why(WHY);
            }
            FileState::Unreadable(why @ Unread::WrongKind) => {
                let judged = Judged::lack(
                    ID,
                    format!("{} is a folder or the like, and no file that libcufile could read", file.path),
                )
                .unread(&file.path, why)
                .missing(Cost::Root, EVERY);
                let judged = if machine::container(ctx.root).is_some() {
                    judged.advice(format!(
                        "Container engines make a folder where -v names a file that the host does not have: make {} on the host, or leave that -v out, and start the container again.",
                        file.path
                    ))
                } else {
                    judged.advice(format!("Remove {}, and put a file in its place or nothing.", file.path))
                };
                return judged.fact(FindingFact::BrokenFile(file.path.clone())).why(WHY);
            }
            FileState::Unreadable(why) => {
                return Judged::lack(
                    ID,
                    format!("{} is there, but this user may not read it: every open fails (5030)", file.path),
                )
                .unread(&file.path, why)
                .fact(FindingFact::BrokenFile(file.path.clone()))
                .missing(Cost::Root, EVERY)
                .advice(format!("sudo chmod 644 {}", file.path))
                .why(WHY);
            }
            FileState::Good(values) => read.push((file.path.clone(), format!("{} keys", values.len()))),
            FileState::Missing => {}
        }
    }
    let mut judged = if read.is_empty() {
        Judged::info(ID, "no cufile.json: the library's defaults apply").found(SYSTEM_FILE, "does not exist")
    } else {
        Judged::pass(ID, "cufile.json is well-formed")
    };
    for (path, text) in read {
        judged = judged.found(path, text);
    }
    judged.why(WHY)
}

fn env_path(ctx: &Context<'_>) -> Option<Judged> {
    let file = ctx.config().files.iter().find(|file| file.from_environment)?;
    let judged = match file.state {
        FileState::Missing => {
            Judged::warn(CheckId::CfgEnvPath, format!("CUFILE_ENV_PATH_JSON names {}, which does not exist", file.path))
                .found("environment", format!("CUFILE_ENV_PATH_JSON={}", file.path))
                .advice("Correct the path, or unset the variable.")
        }
        _ => Judged::pass(CheckId::CfgEnvPath, format!("CUFILE_ENV_PATH_JSON names {}", file.path))
            .found("environment", format!("CUFILE_ENV_PATH_JSON={}", file.path)),
    };
    Some(judged.why("The library passes over a missing file without a word, so a tuned file may not be in effect."))
}

fn compat(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::CfgCompat;
    const WHY: &str = "force_compat_mode sends every read through host memory; allow_compat_mode decides whether a broken direct route falls back silently or fails.";
    let config = ctx.config();
    let (force, force_from) = config.switch("properties.force_compat_mode", false);
    let (allow, allow_from) = config.switch("properties.allow_compat_mode", true);
    let variable = ctx.root.variable("CUFILE_FORCE_COMPAT_MODE");
    let judged = if force {
        Judged::lack(ID, "compat mode is forced: no read goes straight to the GPU")
            .found(&force_from, "force_compat_mode is true")
            .missing(Cost::Setting, DIRECT)
            .advice(format!("Unset it: {force_from}."))
    } else if !allow {
        Judged::lack(ID, "compat mode is not allowed: without a direct route, reads fail")
            .found(&allow_from, "allow_compat_mode is false")
            .missing(Cost::Setting, &[Route::Compat])
            .advice("Set properties.allow_compat_mode to true, unless failing is what you want.")
    } else if let Some(value) =
        variable.filter(|value| !matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | ""))
    {
        Judged::warn(ID, format!("CUFILE_FORCE_COMPAT_MODE={value} does nothing: only the word true counts"))
            .found("environment", format!("CUFILE_FORCE_COMPAT_MODE={value}"))
            .advice("Write true, or unset it.")
    } else {
        Judged::pass(ID, "compat mode is allowed and not forced").found(&allow_from, "allow_compat_mode is true")
    };
    judged.why(WHY)
}

pub(crate) fn p2p_keys(ctx: &Context<'_>, facts: &LibcufileFacts, second: &'static str) -> Judged {
    const ID: CheckId = CheckId::CfgP2pBoth;
    const WHY: &str =
        "P2PDMA is off by default; libraries from 1.16 on want it switched on for all and for the transport.";
    let config = ctx.config();
    let (master, master_from) = config.switch("properties.use_pci_p2pdma", false);
    let (nvme, nvme_from) = config.switch(second, false);
    // 1.14 has only the first key, 1.20 both (strings of the libraries); the first release that needs the second is
    // between them.
    let wants_second = facts.version_numbers().is_none_or(|version| version >= (1, 16));
    let judged = if master && (nvme || !wants_second) {
        Judged::pass(ID, "P2PDMA is switched on")
    } else {
        let absent = match (master, nvme || !wants_second) {
            (false, false) => format!("properties.use_pci_p2pdma and {second} are"),
            (false, true) => "properties.use_pci_p2pdma is".to_owned(),
            _ => format!("{second} is"),
        };
        Judged::lack(ID, format!("{absent} not switched on"))
            .missing(Cost::Setting, P2P_ROUTES)
            .fix(FixId::CufileP2pdmaKeys)
            .advice(
                "Run `gds-top fix cufile-p2pdma-keys`, or set them in a cufile.json that CUFILE_ENV_PATH_JSON names.",
            )
    };
    judged
        .found(master_from, format!("properties.use_pci_p2pdma is {master}"))
        .found(nvme_from, format!("{second} is {nvme}"))
        .why(WHY)
}
