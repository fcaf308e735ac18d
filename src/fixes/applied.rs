//! Fixes that write files and run a few commands. They are applied after consent, and they have a journal and an
//! undo.

use super::advised;
use super::distribution::unsupported_modules;
use super::driver::waits_for_reboot;
use super::modprobe::load_before;
use super::parts::{empty, line_in, p2pdma_keys, run};
use crate::checks::Report;
use crate::checks::cufile_json::{SYSTEM_FILE, is_of_user, named_file, rename_misspelt, set_keys};
use crate::core::{Change, CheckId, Finding, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{Excluded, Kept, Root, Unread, excluded, kept, modules_disabled, nvidia_fs_installed};
use std::path::PathBuf;

/// The plan that enables the counters of nvidia-fs.
pub(super) fn stats() -> FixPlan {
    const FILE: &str = "/sys/module/nvidia_fs/parameters/rw_stats_enabled";
    let set = |value: u32| ["sudo", "sh", "-c", &format!("echo {value} > {FILE}")].map(str::to_owned).to_vec();
    FixPlan {
        why: "Without it /proc/driver/nvidia-fs/stats shows no reads. Small reads become slightly slower. The setting lasts \
              until the module is unloaded."
            .to_owned(),
        changes: vec![Change::Run { argv: set(1) }],
        verify: "/proc/driver/nvidia-fs/stats shows 'IO stats: Enabled'".to_owned(),
        undo_commands: vec![set(0)],
        ..empty(FixId::NvfsStats, Needs::Root, FixRisk::Low, FixPolicy::Ask)
    }
}

/// Whether a line of modules-load.d names the module. The file accepts both spellings.
fn is_nvidia_fs(line: &str) -> bool {
    line.trim().replace('-', "_") == "nvidia_fs"
}

/// The change that loads nvidia-fs at boot. `None` if a file already does.
pub(super) fn load_at_boot(root: &Root) -> Option<Change> {
    // If several directories have a file with the same name, only the first is read (modules-load.d(5)).
    const FOLDERS: [&str; 4] =
        ["/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d"];
    let mut names: Vec<String> = Vec::new();
    let mut paths = vec!["/etc/modules".to_owned()];
    for folder in FOLDERS {
        for name in root.entries(folder).unwrap_or_default().into_iter().filter(|name| name.ends_with(".conf")) {
            if !names.contains(&name) {
                paths.push(format!("{folder}/{name}"));
                names.push(name);
            }
        }
    }
    if paths.iter().any(|path| root.read_text(path).is_ok_and(|text| text.lines().any(is_nvidia_fs))) {
        return None;
    }
    line_in(root, "/etc/modules-load.d/nvidia_fs.conf", "nvidia_fs")
}

/// Why the kernel would reject the installed nvidia-fs: a GPU before Turing keeps the proprietary modules.
fn rejected(root: &Root, report: &Report) -> Option<String> {
    let version = nvidia_fs_installed(root)?;
    let needs_open = |finding: &&Finding| {
        finding.fix.is_none() && matches!(finding.cause, Some(CheckId::GpuOpenCapable | CheckId::DriverFlavour))
    };
    report.finding(CheckId::NvfsLoaded).filter(needs_open)?;
    let gpu = report.finding(CheckId::GpuOpenCapable)?;
    Some(format!("{}; nvidia-fs {version} needs the open kernel modules", gpu.summary))
}

/// The plan that loads nvidia-fs now and at boot.
pub(super) fn load(root: &Root, report: &Report) -> FixPlan {
    let (order, contradicting) = match load_before(root, "nvidia_fs", &["nvidia", "nvme"], "nvidia-fs.conf") {
        Ok(change) => (change, None),
        Err(why) => (None, Some(why)),
    };
    let kept = excluded(root, "nvidia_fs");
    // The module can be loaded only after the driver.
    let waits = waits_for_reboot(root) || modules_disabled(root).is_some();
    let obstacle = kept.as_ref().filter(|kept| kept.by_hand_too).map(|kept| {
        let Excluded { file, line, others, .. } = kept;
        let all = if others.is_empty() { String::new() } else { format!(": remove {}", kept.lines()) };
        format!("'{line}' in {file} disables modprobe for it; remove the line first{all}")
    });
    let remaining = kept
        .filter(|_| obstacle.is_none())
        .map(|kept| format!("remove {}; otherwise the module is not loaded at boot", kept.lines()));
    FixPlan {
        why: "The module is installed, but not loaded. It must be loaded after nvidia and nvme, because it needs their symbols."
            .to_owned(),
        changes: [load_at_boot(root), order, unsupported_modules(root), (!waits).then(|| run("sudo modprobe nvidia-fs"))]
            .into_iter()
            .flatten()
            .collect(),
        verify: "gds-top check: nvfs-loaded; cat /proc/driver/nvidia-fs/version".to_owned(),
        remaining: remaining.into_iter().chain(waits.then(|| "sudo reboot".to_owned())).collect(),
        obstacle: rejected(root, report).or(obstacle).or(contradicting),
        ..empty(FixId::NvfsLoad, if waits { Needs::Reboot } else { Needs::Root }, FixRisk::Low, FixPolicy::Ask)
    }
}

/// The plan that sets the P2PDMA keys. A container gets them with its start if a change of its files is lost.
pub(super) fn p2pdma_keys_plan(root: &Root, report: &Report) -> FixPlan {
    let path = named_file(root).unwrap_or_else(|| SYSTEM_FILE.to_owned());
    match kept(root, &path) {
        Kept::Lost => advised::with_keys(root, report),
        Kept::Here | Kept::Outside => cufile_keys(root, report),
    }
}

/// The variable that overrides `properties.use_pci_p2pdma` of all files. Only `true` counts as true.
const VARIABLE: &str = "CUFILE_USE_PCIP2PDMA";

/// The plan that sets the P2PDMA keys, in the user's file if one is named, otherwise in the system's file. The rest
/// of the file is unchanged.
fn cufile_keys(root: &Root, report: &Report) -> FixPlan {
    let keys = p2pdma_keys(report);
    let named = named_file(root);
    let needs = if named.as_deref().is_some_and(is_of_user) { Needs::User } else { Needs::Root };
    let path = named.clone().unwrap_or_else(|| SYSTEM_FILE.to_owned());
    let mut obstacle = root.variable(VARIABLE).filter(|value| !value.eq_ignore_ascii_case("true")).map(|value| {
        format!("{VARIABLE}={value} overrides the keys: unset the variable first (gds-top explain cfg-p2p-both)")
    });
    let before = match root.read_text(&path) {
        Ok(text) => Some(text),
        Err(Unread::Missing) => None,
        Err(why) => {
            obstacle = Some(format!("{path} {why}"));
            None
        }
    };
    let mut after = String::new();
    // A misspelt key would stay next to the correct one and look as if it had an effect.
    let corrected = rename_misspelt(before.as_deref().unwrap_or("{\n}\n"), &keys);
    match set_keys(&corrected, &keys.iter().map(|key| (*key, "true")).collect::<Vec<_>>()) {
        Ok(text) => after = text,
        Err(error) => obstacle = Some(format!("{path}: {error}")),
    }
    let changes = if obstacle.is_some() {
        Vec::new()
    } else {
        vec![Change::WriteFile { path: PathBuf::from(&path), before, after, mode: 0o644 }]
    };
    FixPlan {
        title: format!("Enable P2PDMA in {path}"),
        why: "Both keys are off by default. Comments, order and the other keys are kept. Without root, set the two keys in another file and name it in CUFILE_ENV_PATH_JSON: its keys override those of /etc/cufile.json."
            .to_owned(),
        changes,
        verify: "gds-top check: cfg-p2p-both; cuFile's statistics of a load count P2PDMA reads".to_owned(),
        obstacle,
        ..empty(FixId::CufileP2pdmaKeys, needs, FixRisk::Low, FixPolicy::Ask)
    }
}
