//! The configuration of libcufile: syntax, compat mode, P2PDMA, lists.

use crate::checks::advice::Advice;
use crate::checks::classes;
use crate::checks::container::bring::bring_file;
use crate::checks::context::Context;
use crate::checks::cufile::config_file::{ConfigFile, FileState, RESTART, SYSTEM_FILE, edit};
use crate::checks::cufile::denylist;
use crate::checks::cufile::log::{log_folder_is_missing, missing_folder};
use crate::checks::cufile::variables::unset;
use crate::checks::cufile_json::{Ignored, distance, is_in_home, repair};
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged};
use crate::checks::logs::signatures::explain_cufile;
use crate::core::{CheckId, FindingFact, FixId, Route};
use crate::machine::{self, BlockKind, LibcufileFacts, PathFacts, Unread};
use crate::text::quoted;

const P2P_ROUTES: &[Route] = &[Route::P2pdma, Route::C2c];

/// Checks of the configuration. They read only files and the environment.
pub(crate) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = vec![parse(ctx)];
    out.extend(env_path(ctx));
    out.push(compat(ctx));
    out.extend(effective(ctx));
    out
}

/// Keys without effect, and denylists that exclude a path.
fn effective(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: CheckId = CheckId::CfgEffective;
    let config = ctx.config();
    let mut out = Vec::new();
    let silent: Vec<(&str, &Ignored)> = config.passed_over().collect();
    if let Some((origin, first)) = silent.first() {
        let summary = match silent.len() {
            1 => first.meant.map_or_else(
                || format!("{} has no effect: libcufile does not know it", first.key),
                |meant| format!("{} has no effect; a known name is {meant}", first.key),
            ),
            count => format!("{count} keys have no effect, such as {}", first.key),
        };
        let names = silent.iter().filter_map(|(_, key)| Some(format!("{} to {}", key.key, key.meant?)));
        let names: Vec<String> = names.take(4).collect();
        let todo = if names.is_empty() {
            ": remove the unknown keys.".to_owned()
        } else {
            format!(": rename {} if you meant {}.", names.join(", "), if names.len() == 1 { "it" } else { "them" })
        };
        let judged = Judged::warn(ID, summary).advice(edit(ctx.root, origin).text(todo));
        let known = silent.iter().take(8);
        out.push(known.fold(judged, |judged, (origin, key)| judged.found(*origin, key.text.clone())));
    }
    out.extend(denylist::excluded(ctx));
    out
}

/// The key that enables P2PDMA for the transport of a path.
pub(crate) fn transport_key(facts: Option<&PathFacts>) -> &'static str {
    let Some(facts) = facts else { return "block.nvme.use_pci_p2pdma" };
    if facts.filesystem.as_deref() == Some("virtiofs") {
        "fs.virtiofs.use_pci_p2pdma"
    } else if facts.block_device.iter().any(|device| device.kind == BlockKind::Md) {
        "block.raid.use_pci_p2pdma"
    } else {
        "block.nvme.use_pci_p2pdma"
    }
}

/// The error of libcufile about its configuration, if the linter finds no error.
pub(crate) fn refused_by_the_library(ctx: &Context<'_>, facts: &LibcufileFacts) -> Option<Judged> {
    let open = facts.open.as_ref().filter(|open| matches!(open.code, Some(5002 | -22 | 5030)))?;
    if ctx.config().is_fatal() || log_folder_is_missing(ctx) {
        return None;
    }
    let cause = explain_cufile(&open.stderr).into_iter().find(|c| c.check == Some(CheckId::CfgParse));
    let is_of_log = cause.as_ref().is_some_and(|cause| cause.line.contains("log directory name"));
    let is_of_entry = open.code != Some(5030) && !is_of_log;
    if let Some(judged) = is_of_entry.then(|| denylist::rejected(ctx)).flatten() {
        return Some(judged.found("stderr of the library", open.stderr.lines().next().unwrap_or_default().trim()));
    }
    let cause = cause?;
    let paths: Vec<&str> = ctx.config().files.iter().map(|file| file.path.as_str()).collect();
    // Not all releases name the directory.
    let set = cause.line.contains("log directory name").then(|| ctx.config().latest("logging.dir")).flatten();
    let folder = set.and_then(|(value, origin)| Some((value.as_str()?.to_owned(), origin)));
    let judged = match folder.filter(|(folder, _)| folder.starts_with('/') && !ctx.root.exists(folder)) {
        Some((folder, origin)) => missing_folder(&folder, &origin),
        None => Judged::lack(CheckId::CfgParse, format!("libcufile rejects its configuration: {}", cause.meaning))
            .missing(Cost::Root, EVERY)
            .advice(
                Advice::run("gds-top config lint")
                    .text(format!(" to see the line. The library read {}.", paths.join(" and "))),
            ),
    };
    Some(judged.found("stderr of the library", cause.line).found("files of the configuration", paths.join(", ")))
}

fn parse(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::CfgParse;
    let config = ctx.config();
    let mut read = Vec::new();
    for file in &config.files {
        match &file.state {
            FileState::Broken(problems) => {
                let mut judged = Judged::lack(ID, format!("libcufile rejects {}: every open fails", file.path))
                    .missing(if file.from_environment { Cost::Setting } else { Cost::Root }, EVERY)
                    .advice(format!("Correct {}: {}.{RESTART}", file.path, problems.join("; ")));
                for problem in problems {
                    judged = judged.found(&file.path, problem);
                }
                return judged.fact(FindingFact::BrokenFile(file.path.clone()));
            }
            FileState::Unreadable(why @ Unread::WrongKind) => {
                let judged =
                    Judged::lack(ID, format!("{} is not a regular file, so libcufile cannot read it", file.path))
                        .unread(&file.path, why)
                        .missing(Cost::Root, EVERY);
                // An editor cannot repair it.
                return judged.by_hand().advice(match machine::container(ctx.root) {
                    Some(container) => made_by_engine(&container, &file.path),
                    None => without_directory(ctx, &file.path),
                });
            }
            FileState::Unreadable(why) => {
                let judged = Judged::lack(ID, format!("this user cannot read {}: every open fails (5030)", file.path))
                    .unread(&file.path, why)
                    .fact(FindingFact::UnreadableFile(file.path.clone()));
                if file.from_environment && is_in_home(&file.path) {
                    return judged.missing(Cost::Setting, EVERY).by_hand().advice(outside_of_home(ctx, &file.path));
                }
                // Root can read the file, so the fix would find nothing as root.
                return judged
                    .missing(Cost::Root, EVERY)
                    .by_hand()
                    .advice(Advice::run(format!("sudo chmod a+r {}", quoted(&file.path))));
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
    judged
}

/// How to do without a file in a home directory that this user may not enter.
fn outside_of_home(ctx: &Context<'_>, path: &str) -> Advice {
    unset(ctx.root, "CUFILE_ENV_PATH_JSON")
        .text(" If its keys are needed, run ")
        .command(format!("sudo install -m 644 {} /etc/cufile-keys.json", quoted(path)))
        .text(" and set the variable to that copy.")
}

/// How to replace a directory that the engine of a container made in the place of a missing file of the host. The same
/// container does not start with a file in that place.
fn made_by_engine(container: &machine::Container, path: &str) -> Advice {
    match container.runtime.as_str() {
        "kubernetes" => format!(
            "A volume has made a directory of {path}. Mount the file with subPath of a ConfigMap, or by hostPath with type: File. Then create the pod again."
        ),
        _ => format!(
            "Container engines create a directory if `-v` names a missing file. On the host, run `sudo rmdir {}`, with the path that `-v` names. Put the file there or remove that `-v`. Then create the container again, because this one no longer starts.",
            quoted(path)
        ),
    }
    .into()
}

/// How to remove a directory in the place of a configuration file. One with files is renamed.
fn without_directory(ctx: &Context<'_>, path: &str) -> Advice {
    let place = quoted(path);
    match ctx.root.entries(path) {
        Ok(names) if names.is_empty() => Advice::run(format!("sudo rmdir {place}"))
            .text(": Docker creates such an empty directory if `-v` names a missing file."),
        Ok(_) => Advice::run(format!("sudo mv {place} {place}.old")).text(": it is a directory with files."),
        Err(_) => format!("Remove {path}, or replace it by a file.").into(),
    }
}

fn env_path(ctx: &Context<'_>) -> Option<Judged> {
    let file = ctx.config().files.iter().find(|file| file.from_environment)?;
    // The keys of P2PDMA may be in the missing file.
    let is_on = ctx.config().switch("properties.use_pci_p2pdma", false).0;
    let has_nvfs = machine::nvidia_fs_loaded(ctx.root) == Some(true);
    let lacks_p2pdma: &[Route] = if is_on || has_nvfs { &[] } else { P2P_ROUTES };
    let similar = similar_file(ctx, &file.path);
    let judged = match file.state {
        FileState::Missing => Judged::warn(
            CheckId::CfgEnvPath,
            format!("the file {}, named by CUFILE_ENV_PATH_JSON, does not exist", file.path),
        )
        .missing(Cost::Setting, lacks_p2pdma)
        .found("environment", format!("CUFILE_ENV_PATH_JSON={}", file.path))
        .advice(
            match machine::container(ctx.root).filter(|_| file.path.starts_with('/') && similar.is_none()) {
                // The file can be on the host: without it, the program loses its configuration.
                Some(container) => Advice::from(bring_file(&container, &file.path)),
                // Without the file, only the default is left.
                None if similar.is_some() => {
                    let file = similar.unwrap_or_default();
                    let place = machine::variable_line(ctx.root, "CUFILE_ENV_PATH_JSON")
                        .map_or_else(String::new, |found| format!(" in {}", found.file));
                    Advice::from(format!(
                        "Set CUFILE_ENV_PATH_JSON={file}{place}: this file exists. Then start the program again."
                    ))
                }
                None if !lacks_p2pdma.is_empty() => without_keys(ctx),
                None => unset(ctx.root, "CUFILE_ENV_PATH_JSON").text(" Or correct the path."),
            },
        ),
        _ => Judged::pass(CheckId::CfgEnvPath, format!("CUFILE_ENV_PATH_JSON names {}", file.path))
            .found("environment", format!("CUFILE_ENV_PATH_JSON={}", file.path)),
    };
    Some(judged)
}

/// What to do without a file that may have had the keys of P2PDMA. Without the variable, only the system's file is read.
fn without_keys(ctx: &Context<'_>) -> Advice {
    Advice::from("Correct the path to the file with the keys of P2PDMA. If that file is lost, remove the variable. ")
        .and(unset(ctx.root, "CUFILE_ENV_PATH_JSON"))
        .text(format!(" Then enable P2PDMA in {SYSTEM_FILE}: "))
        .command(FixId::CufileP2pdmaKeys)
}

/// A file in the same directory whose name differs from this one by two letters at most.
fn similar_file(ctx: &Context<'_>, path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/')?;
    let names = ctx.root.entries(if folder.is_empty() { "/" } else { folder }).ok()?;
    let file = names.iter().find(|other| other.as_str() != name && distance(other, name) <= 2)?;
    Some(format!("{folder}/{file}"))
}

/// The variable by which KvikIO (cuDF, RAPIDS) reads without cuFile.
const KVIKIO: &str = "KVIKIO_COMPAT_MODE";

/// Whether KvikIO takes a value of its variable as ON. With AUTO and OFF it opens cuFile.
fn is_on_for_kvikio(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "on" | "true" | "yes" | "1")
}

fn compat(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::CfgCompat;
    let config = ctx.config();
    let (force, force_from) = config.switch("properties.force_compat_mode", false);
    let (allow, allow_from) = config.switch("properties.allow_compat_mode", true);
    let variable = ctx.root.variable("CUFILE_FORCE_COMPAT_MODE");
    if force {
        Judged::lack(ID, "compat mode is forced: no read goes straight to the GPU")
            .found(force_from.to_string(), "force_compat_mode is true")
            .missing(Cost::Setting, DIRECT)
            .advice(match force_from.variable() {
                Some(variable) => unset(ctx.root, variable),
                None => {
                    edit(ctx.root, &force_from.to_string()).text(": remove properties.force_compat_mode.").text(RESTART)
                }
            })
    } else if !allow {
        Judged::lack(ID, "compat mode is not allowed: without a direct route, reads fail")
            .found(allow_from.to_string(), "allow_compat_mode is false")
            .missing(Cost::Setting, &[Route::Compat])
            .advice(
                edit(ctx.root, &allow_from.to_string())
                    .text(": set properties.allow_compat_mode to true, unless reads must fail without a direct route."),
            )
    } else if let Some(value) =
        variable.filter(|value| !matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | ""))
    {
        Judged::warn(ID, format!("CUFILE_FORCE_COMPAT_MODE={value} has no effect: libcufile accepts only true"))
            .found("environment", format!("CUFILE_FORCE_COMPAT_MODE={value}"))
            .advice(unset(ctx.root, "CUFILE_FORCE_COMPAT_MODE").text(" Or set it to true."))
    } else if let Some(value) = ctx.root.variable(KVIKIO).filter(|value| is_on_for_kvikio(value)) {
        Judged::warn(ID, format!("{KVIKIO}={value}: KvikIO reads with POSIX, without cuFile"))
            .found("environment", format!("{KVIKIO}={value}"))
            .advice(unset(ctx.root, KVIKIO).text(" Programs without KvikIO do not read this variable."))
    } else {
        Judged::pass(ID, "compat mode is allowed and not forced")
            .found(allow_from.to_string(), "allow_compat_mode is true")
    }
}

/// Where to set the keys. The file that CUFILE_ENV_PATH_JSON names overrides /etc/cufile.json.
fn enable_in(ctx: &Context<'_>, second: &str, wants_second: bool) -> String {
    let files = &ctx.config().files;
    let sets = |state: &FileState| match state {
        FileState::Good(values) => {
            let is_on = |key: &str| values.get(key).is_some_and(|value| value == true);
            is_on("properties.use_pci_p2pdma") && (is_on(second) || !wants_second)
        }
        _ => false,
    };
    let other = files.iter().any(|file| !file.from_environment && sets(&file.state));
    match files.iter().find(|file| file.from_environment && !matches!(file.state, FileState::Missing)) {
        Some(file) if other => format!(
            "Enable P2PDMA in {}, or unset CUFILE_ENV_PATH_JSON: that file overrides {SYSTEM_FILE}, which enables it.",
            file.path
        ),
        Some(file) => format!("Enable P2PDMA in {}, which CUFILE_ENV_PATH_JSON names.", file.path),
        None => format!("Enable P2PDMA in {SYSTEM_FILE}, or in a file that CUFILE_ENV_PATH_JSON names."),
    }
}

/// A file that libcufile rejects and that, once repaired, sets so many keys `use_pci_p2pdma` to true.
fn rejected_file_enables<'a>(ctx: &'a Context<'_>, keys: usize) -> Option<&'a ConfigFile> {
    let mut broken = ctx.config().files.iter().filter(|file| matches!(file.state, FileState::Broken(_)));
    broken.find(|file| {
        // The repair also corrects `"true"`, so the keys do not need a second step.
        let text = repair(ctx.root, &ctx.root.read_text(&file.path).unwrap_or_default()).text;
        let values = text.split("\"use_pci_p2pdma\"").skip(1);
        let is_on =
            |rest: &&str| rest.trim_start().strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with("true"));
        values.filter(is_on).count() >= keys
    })
}

pub(crate) fn p2p_keys(ctx: &Context<'_>, facts: &LibcufileFacts, second: &'static str) -> Judged {
    const ID: CheckId = CheckId::CfgP2pBoth;
    let config = ctx.config();
    let (master, master_from) = config.switch("properties.use_pci_p2pdma", false);
    let (nvme, nvme_from) = config.switch(second, false);
    // 1.14 has only the first key, 1.20 has both (strings in the libraries). The first release that needs the second
    // key is between them.
    let wants_second = facts.version_numbers().is_none_or(|version| version >= (1, 16));
    let variable = master_from.variable().filter(|_| !master);
    // The keys can be in the file that this user cannot read.
    let hidden = config.files.iter().find_map(|file| match &file.state {
        FileState::Unreadable(why @ Unread::Denied(_)) => Some((file, why)),
        _ => None,
    });
    if let Some((file, why)) = hidden.filter(|_| variable.is_none() && !(master && (nvme || !wants_second))) {
        return Judged::na(ID, format!("{} can have the keys of P2PDMA, but cannot be read", file.path))
            .unread(&file.path, why)
            .unknown(P2P_ROUTES);
    }
    let judged = if master && classes::is_arm_without_c2c(ctx) {
        Judged::warn(ID, "P2PDMA is enabled, but it exists only on x86_64; Arm has C2C, on Grace only")
            .advice("Stay with compat mode here. The keys of P2PDMA have no effect on this machine and can be removed.")
    } else if master && (nvme || !wants_second) {
        Judged::pass(ID, "P2PDMA is enabled")
    } else if let Some(variable) = variable {
        // The variable overrides the files, so no change of a file helps.
        let in_file = config.latest("properties.use_pci_p2pdma").is_some_and(|(value, _)| value == true);
        let judged = Judged::lack(ID, format!("{master_from} disables P2PDMA and overrides cufile.json"))
            .missing(Cost::Setting, P2P_ROUTES);
        let unset = unset(ctx.root, variable);
        if in_file && (nvme || !wants_second) {
            judged.advice(unset)
        } else if machine::container(ctx.root).is_some() {
            // The start of the container gets the keys.
            judged.fix(FixId::CufileP2pdmaKeys).advice(unset.text(" Then enable P2PDMA in cufile.json."))
        } else {
            // The fix of the keys changes nothing while the variable is set.
            let then = unset.text(" After that, enable P2PDMA in cufile.json with ");
            judged.by_hand().advice(then.command(FixId::CufileP2pdmaKeys))
        }
    } else {
        let absent = match (master, nvme || !wants_second) {
            (false, false) => format!("properties.use_pci_p2pdma and {second} are"),
            (false, true) => "properties.use_pci_p2pdma is".to_owned(),
            _ => format!("{second} is"),
        };
        // A misspelt key is renamed by the fix.
        let misspelt = config
            .passed_over()
            .find(|(_, key)| key.meant.is_some_and(|meant| meant == second || meant == "properties.use_pci_p2pdma"));
        let judged = Judged::lack(ID, format!("{absent} not enabled"))
            .missing(Cost::Setting, P2P_ROUTES)
            .fix(FixId::CufileP2pdmaKeys)
            .advice(match misspelt {
                Some((origin, Ignored { key, meant: Some(meant), .. })) => {
                    format!("Rename {key} to {meant} in {origin}.")
                }
                _ => enable_in(ctx, second, wants_second),
            });
        // The user's settings are in another file than the variable names.
        let is_lost = |file: &ConfigFile| file.from_environment && matches!(file.state, FileState::Missing);
        if config.files.iter().any(is_lost) && machine::nvidia_fs_loaded(ctx.root) != Some(true) {
            Judged { advice: None, ..judged.fixes(None).cause(CheckId::CfgEnvPath) }
        // The file of the host that belongs in the place of this directory can have the keys.
        } else if machine::container(ctx.root).is_some() && config.files.iter().any(ConfigFile::is_directory) {
            Judged { advice: None, ..judged.fixes(None).cause(CheckId::CfgParse) }
        // A rejected file that sets the keys needs no second correction.
        } else if let Some(file) = rejected_file_enables(ctx, if wants_second { 2 } else { 1 }) {
            let mut judged = Judged { advice: None, ..judged.fixes(None).cause(CheckId::CfgParse) };
            judged.finding.summary = format!("{} enables P2PDMA as soon as libcufile accepts it", file.path);
            judged.found(&file.path, "use_pci_p2pdma is true after its errors are corrected")
        } else {
            judged
        }
    };
    judged
        .found(master_from.to_string(), format!("properties.use_pci_p2pdma is {master}"))
        .found(nvme_from.to_string(), format!("{second} is {nvme}"))
}
