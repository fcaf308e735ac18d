//! Plans that change how the machine boots or mounts.

use super::command_line::{arguments, place};
use super::fstab::{Fstab, ORDERED, with_options};
use super::parts::{empty, family, initramfs as rebuild, line_in, run};
use crate::checks::Report;
use crate::core::{Change, CheckId, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{NvmlGpu, Root, excluded, ext4_journal, ext4_mode, ext4_sets_ordered, has_display_mode, pci_gpus};
use crate::text::quoted;
use std::path::PathBuf;

fn is_arm(root: &Root) -> bool {
    root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64")
}

/// The preference of NVIDIA's guide (GDS Installation and Troubleshooting Guide, IOMMU). `None` on Arm.
pub(super) fn preferred_iommu(root: &Root) -> Option<&'static str> {
    const PREFERRED: &str =
        "NVIDIA prefers iommu=off for function and performance, and supports iommu=pt on certain platforms.";
    (!is_arm(root)).then_some(PREFERRED)
}

/// The plan for the IOMMU in pass-through mode.
pub(super) fn iommu(root: &Root) -> FixPlan {
    let guests = root.entries("/run/libvirt/qemu").unwrap_or_default().iter().any(|name| name.ends_with(".pid"));
    let word = if is_arm(root) { "iommu.passthrough=1" } else { "iommu=pt" };
    FixPlan {
        why: format!(
            "A translating IOMMU breaks or slows down transfers between devices. It protects memory from devices, and virtual machines need it.{} The argument {word} is added {}.{} If no guest needs the IOMMU and nvidia-fs still counts dma-map errors or lists bridges with ACS, switch it off instead (intel_iommu=off or amd_iommu=off). On Grace the IOMMU must be on and translate.",
            if guests { " Virtual machines run here: stop or migrate them before the reboot." } else { "" },
            place(root),
            preferred_iommu(root).map(|preference| format!(" {preference}")).unwrap_or_default()
        ),
        verify: "/proc/cmdline has the argument; gds-top check: iommu-state".to_owned(),
        ..with_word(root, word, empty(FixId::IommuOff, Needs::Reboot, FixRisk::Medium, FixPolicy::Show))
    }
}

/// Adds the changes that set a kernel argument to a plan, and the commands that remove it.
fn with_word(root: &Root, word: &str, plan: FixPlan) -> FixPlan {
    let (changes, undo_commands) = arguments(root, word);
    FixPlan { changes, undo_commands, undo: format!("remove {word} and reboot"), ..plan }
}

/// The plan that rebuilds the initramfs, for the check `check`.
pub(super) fn initramfs(root: &Root, check: CheckId) -> FixPlan {
    // The package of the driver excludes nouveau; NVIDIA's installer may not.
    let has_nouveau = pci_gpus(root).into_iter().flatten().any(|gpu| gpu.driver.as_deref() == Some("nouveau"));
    let exclusion = (has_nouveau && excluded(root, "nouveau").is_none())
        .then(|| line_in(root, "/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau"))
        .flatten();
    let check = if has_nouveau { CheckId::GpuPresent } else { check };
    let plan = empty(FixId::Initramfs, Needs::Reboot, FixRisk::Low, FixPolicy::Ask);
    let (title, why, undo) = match check {
        CheckId::NvfsNvmeSymbol => (
            "Rebuild the initramfs, so that the installed NVMe driver is loaded at the next boot".to_owned(),
            "The initramfs loads its copy of the NVMe driver before the root file system is mounted. Its copy is older than the installed driver.",
            "remove the package of the NVMe driver, then rebuild the initramfs",
        ),
        _ => (
            exclusion
                .as_ref()
                .map_or_else(|| plan.title.clone(), |_| "Exclude nouveau and rebuild the initramfs".to_owned()),
            "Drivers in the initramfs use its copy of /etc/modprobe.d, so a change on the disk has no effect on them.",
            "undo the fix that changed the setting, then rebuild the initramfs",
        ),
    };
    FixPlan {
        title,
        why: why.to_owned(),
        changes: exclusion.into_iter().chain([run(rebuild(root, family(root)))]).collect(),
        verify: format!("after the reboot: gds-top check: {check}"),
        undo: undo.to_owned(),
        remaining: vec!["sudo reboot".to_owned()],
        ..plan
    }
}

/// The plan for a large BAR1.
pub(super) fn bar1(root: &Root) -> FixPlan {
    let is_small = |gpu: &&NvmlGpu| gpu.bar1_total_bytes < gpu.memory_total_bytes;
    let gpu = root.nvml().gpus.iter().filter(is_small).find(|gpu| has_display_mode(&gpu.name)).cloned();
    let plan = FixPlan {
        verify: "gds-top check: gpu-bar1-size".to_owned(),
        ..empty(FixId::Bar1Large, Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
    };
    match gpu {
        Some(gpu) => FixPlan {
            why: format!(
                "BAR1 of {} depends on the display mode of the card. NVIDIA's Display Mode Selector Tool (developer.nvidia.com/displaymodeselector) switches it to the mode for computing, which switches off its display outputs. With displays on the card, set Above-4G decoding and Resizable BAR in the firmware instead.",
                gpu.name
            ),
            changes: vec![run("sudo ./displaymodeselector --gpumode physical_display_disabled"), run("sudo reboot")],
            undo: "sudo ./displaymodeselector --gpumode physical_display_enabled_256MB_bar1, reboot".to_owned(),
            ..plan
        },
        None => FixPlan {
            why: "Set it in the firmware: Above-4G decoding and Resizable BAR.".to_owned(),
            changes: vec![run("sudo systemctl reboot --firmware-setup")],
            undo: "restore the earlier firmware settings".to_owned(),
            ..plan
        },
    }
}

/// The plan for ACS of the bridges in the findings.
pub(super) fn acs(root: &Root, report: &Report) -> FixPlan {
    let mut bridges: Vec<String> = [CheckId::PcieAcs, CheckId::NvfsBridgesAcs]
        .into_iter()
        .filter_map(|id| report.finding(id))
        .flat_map(|finding| &finding.facts)
        .filter_map(|fact| match fact {
            FindingFact::Bridge(address) => Some(address.clone()),
            _ => None,
        })
        .collect();
    bridges.sort();
    bridges.dedup();
    let named = if bridges.is_empty() { "BRIDGE".to_owned() } else { bridges.join(";") };
    let word = format!("pci=disable_acs_redir={named}");
    let obstacle = bridges.is_empty().then(|| "no check found a bridge with ACS redirection".to_owned());
    FixPlan {
        obstacle,
        why: format!(
            "Change the BIOS setting 'ACS' if possible. Otherwise boot with {word}, only for the bridges between GPU and disk: ACS disabled on all bridges can make NVMe disks fall off the bus, and removes the isolation of devices. The argument is added {}.{}",
            place(root),
            if word.contains(';') { quoting(&word) } else { String::new() }
        ),
        verify: "/proc/cmdline has all bridges, and gds-top check: nvfs-bridges-acs and pcie-acs".to_owned(),
        ..with_word(root, &word, empty(FixId::AcsRedirect, Needs::Reboot, FixRisk::High, FixPolicy::Never))
    }
}

/// A sentence about an argument with semicolons, which end a command in the scripts of GRUB (GRUB manual, shell-like
/// scripting). It starts with a space. The shell that reads /etc/default/grub removes the backslashes.
fn quoting(word: &str) -> String {
    format!(
        " GRUB and shells end a command at a semicolon, so quotes must reach the boot entry: GRUB_CMDLINE_LINUX_DEFAULT=\"… \\\"{word}\\\"\". With other tools, put the argument in quotes too."
    )
}

/// The plan for the mount option data=ordered.
pub(super) fn ordered(root: &Root, report: &Report) -> FixPlan {
    let facts = report
        .verdicts
        .iter()
        .filter_map(|verdict| root.path_facts(&verdict.path))
        .find(|facts| facts.filesystem.as_deref() == Some("ext4") && facts.mount_point.is_some());
    let point = facts.as_ref().and_then(|facts| facts.mount_point.as_ref()).map(|point| point.display().to_string());
    let plan = FixPlan {
        why: "libcufile reads the mount options, and the kernel does not print its default.".to_owned(),
        verify: "/proc/mounts shows data=ordered".to_owned(),
        ..empty(FixId::Ext4Ordered, Needs::Root, FixRisk::Low, FixPolicy::Ask)
    };
    let device = facts.as_ref().and_then(|facts| facts.source.clone()).unwrap_or_else(|| "DEVICE".to_owned());
    // A mode among the options needs a journal.
    let unseen = facts.as_ref().filter(|facts| facts.option_value("data").is_none());
    let has_journal = unseen.map_or(Some(true), |facts| ext4_journal(root, facts).map(|(has, ..)| has));
    if has_journal == Some(false) {
        return FixPlan {
            policy: FixPolicy::Show,
            undo: "remove the mount option".to_owned(),
            obstacle: Some(format!("{device} has no journal, so the kernel does not mount it with data=ordered")),
            ..plan
        };
    }
    let test = has_journal.is_none().then(|| journal_test(&device));
    let is_hidden = unseen.is_some_and(|facts| {
        ext4_sets_ordered(root, facts).is_some()
            && ext4_journal(root, facts).is_none_or(|(.., text)| ext4_mode(&text) == "ordered")
    });
    let clear = is_hidden.then(|| cleared(&device));
    if point.as_deref() == Some("/") {
        let mut plan = with_word(root, "rootflags=data=ordered", plan);
        plan.changes = test.into_iter().chain(clear).chain(plan.changes).collect();
        // The mode in /etc/fstab is applied to the mounted root file system, which fails if it is another one.
        let before = root.read_text("/etc/fstab").ok();
        let is_other = facts.and_then(|facts| facts.option_value("data").map(|mode| mode != "ordered")) == Some(true);
        if let Some(Fstab::Changed(after)) =
            before.as_deref().filter(|_| is_other).map(|text| with_options(text, "/", ORDERED))
        {
            let path = PathBuf::from("/etc/fstab");
            plan.changes.insert(0, Change::WriteFile { path, before, after, mode: 0o644 });
        }
        return FixPlan {
            why: format!(
                "This is the root file system: rootflags=data=ordered is added {}, and takes effect at the next boot.",
                place(root)
            ),
            needs: Needs::Reboot,
            policy: FixPolicy::Show,
            ..plan
        };
    }
    let (Some(point), Some(mount)) = (point, facts.and_then(|facts| facts.mount_command(&[("data", "ordered")])))
    else {
        return FixPlan {
            policy: FixPolicy::Show,
            undo: "restore the mount option, unmount and mount".to_owned(),
            obstacle: Some("the file system is not known: name a path with --path".to_owned()),
            ..plan
        };
    };
    let run = |argv: Vec<String>| Change::Run { argv };
    // The path is a single argument even if it contains spaces.
    let unmount = ["sudo", "umount", &point].map(str::to_owned).to_vec();
    let by_fstab = ["sudo", "mount", &point].map(str::to_owned).to_vec();
    let why = format!(
        "{} A remount cannot change the journal mode, so stop all programs that use {point}. If 'sudo tune2fs -l {device} | grep journal_data_ordered' prints a line, the kernel does not show the mode: run 'sudo tune2fs -o ^journal_data_ordered {device}' after the unmount.",
        plan.why
    );
    let before = root.read_text("/etc/fstab").ok();
    let mut plan = match before.as_deref().map_or(Fstab::NoLine, |text| with_options(text, &point, ORDERED)) {
        Fstab::Changed(after) => FixPlan {
            changes: vec![
                Change::WriteFile { path: PathBuf::from("/etc/fstab"), before, after, mode: 0o644 },
                run(unmount.clone()),
                run(by_fstab.clone()),
            ],
            why,
            undo_commands: vec![unmount, by_fstab],
            ..plan
        },
        Fstab::HasIt => FixPlan {
            changes: [run(unmount.clone())].into_iter().chain(clear).chain([run(by_fstab.clone())]).collect(),
            why: if is_hidden {
                format!(
                    "{} /etc/fstab has data=ordered for {point} already, and the kernel does not list a mode that is the default in the superblock. So that default is removed. Stop all programs that use {point}.",
                    plan.why
                )
            } else {
                format!("{why} /etc/fstab has data=ordered for {point} already.")
            },
            undo: if is_hidden {
                format!("if tune2fs -l listed it before, run 'sudo tune2fs -o journal_data_ordered {device}'")
            } else {
                String::new()
            },
            undo_commands: vec![unmount, by_fstab],
            ..plan
        },
        // Without a line, only the complete command mounts it again.
        Fstab::NoLine => FixPlan {
            changes: vec![run(unmount), run(mount)],
            policy: FixPolicy::Show,
            why: format!(
                "{why} /etc/fstab has no line for {point}, so the command has all options of the present mount. Set data=ordered also where {point} is mounted at boot (a mount unit, a script)."
            ),
            undo: "unmount, and mount without the option".to_owned(),
            ..plan
        },
    };
    plan.changes = test.into_iter().chain(plan.changes).collect();
    plan
}

/// The command that removes the default mode in the superblock. Another mode is removed too, because they are one field.
fn cleared(device: &str) -> Change {
    Change::Run { argv: ["sudo", "tune2fs", "-o", "^journal_data_ordered", device].map(str::to_owned).to_vec() }
}

/// A command that stops the plan if the file system has no journal: a change would keep the system from starting.
fn journal_test(device: &str) -> Change {
    let test = format!("tune2fs -l {} | grep -q has_journal", quoted(device));
    Change::Run { argv: ["sudo", "sh", "-c", &test].map(str::to_owned).to_vec() }
}
