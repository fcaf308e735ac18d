//! Plans that change how the machine boots or mounts.

use super::command_line::{arguments, place};
use super::parts::{empty, family, initramfs as rebuild, line_in, run};
use crate::checks::Report;
use crate::core::{Change, CheckId, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{NvmlGpu, Root, excluded, has_display_mode, pci_gpus};
use std::path::PathBuf;

/// The plan for the IOMMU in pass-through mode.
pub(super) fn iommu(root: &Root) -> FixPlan {
    let guests = root.entries("/run/libvirt/qemu").unwrap_or_default().iter().any(|name| name.ends_with(".pid"));
    let arm = root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64");
    let word = if arm { "iommu.passthrough=1" } else { "iommu=pt" };
    FixPlan {
        why: format!(
            "A translating IOMMU breaks or slows down transfers between devices. It protects memory from devices, and virtual machines need it.{} The argument {word} is added {}. If no guest needs the IOMMU and nvidia-fs still counts dma-map errors, switch it off instead (intel_iommu=off or amd_iommu=off). On Grace the IOMMU must be on and translate.",
            if guests { " Virtual machines run here: stop or migrate them before the reboot." } else { "" },
            place(root)
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

/// The plan that rebuilds the initramfs.
pub(super) fn initramfs(root: &Root) -> FixPlan {
    // The package of the driver excludes nouveau; NVIDIA's installer may not.
    let has_nouveau = pci_gpus(root).into_iter().flatten().any(|gpu| gpu.driver.as_deref() == Some("nouveau"));
    let exclusion = (has_nouveau && excluded(root, "nouveau").is_none())
        .then(|| line_in(root, "/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau"));
    FixPlan {
        why: "Drivers in the initramfs use its copy of /etc/modprobe.d, so a change on the disk has no effect on them."
            .to_owned(),
        changes: exclusion.flatten().into_iter().chain([run(rebuild(root, family(root)))]).collect(),
        verify: "after the reboot: gds-top check: reboot-pending".to_owned(),
        undo: "undo the fix that changed the setting, then rebuild the initramfs".to_owned(),
        remaining: vec!["sudo reboot".to_owned()],
        ..empty(FixId::Initramfs, Needs::Reboot, FixRisk::Low, FixPolicy::Ask)
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
        verify: "/proc/cmdline has all bridges, /proc/driver/nvidia-fs/bridges is empty, and gds-top check: pcie-acs"
            .to_owned(),
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
    if point.as_deref() == Some("/") {
        let mut plan = with_word(root, "rootflags=data=ordered", plan);
        // The mode in /etc/fstab is applied to the mounted root file system, which fails if it is another one.
        let before = root.read_text("/etc/fstab").ok();
        let is_other = facts.and_then(|facts| facts.option_value("data").map(|mode| mode != "ordered")) == Some(true);
        if let Some(Fstab::Changed(after)) =
            before.as_deref().filter(|_| is_other).map(|text| with_data_ordered(text, "/"))
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
        "{} A remount cannot change the journal mode, so stop all programs that use {point}. If the superblock asks for another mode (sudo tune2fs -l DEVICE shows journal_data), remove it with sudo tune2fs -o ^journal_data DEVICE.",
        plan.why
    );
    let before = root.read_text("/etc/fstab").ok();
    match before.as_deref().map_or(Fstab::NoLine, |text| with_data_ordered(text, &point)) {
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
            changes: vec![run(unmount.clone()), run(by_fstab.clone())],
            why: format!("{why} /etc/fstab has data=ordered for {point} already."),
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
    }
}

/// What `/etc/fstab` says about the journal mode of a mount point.
#[derive(Debug, PartialEq, Eq)]
enum Fstab {
    /// The text with data=ordered in the options, in place of another journal mode.
    Changed(String),
    /// The line has data=ordered.
    HasIt,
    /// No line names the mount point.
    NoLine,
}

/// `/etc/fstab` with data=ordered for a mount point. Other options, blanks and lines stay as they are.
fn with_data_ordered(fstab: &str, point: &str) -> Fstab {
    let mut out = String::new();
    let (mut is_named, mut is_changed) = (false, false);
    for line in fstab.split_inclusive('\n') {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let options = match fields.as_slice() {
            [device, at, _, options, ..] if !device.starts_with('#') && at.replace("\\040", " ") == point => options,
            _ => {
                out.push_str(line);
                continue;
            }
        };
        is_named = true;
        let kept: Vec<&str> = options.split(',').filter(|option| !option.starts_with("data=")).collect();
        if options.split(',').filter(|option| option.starts_with("data=")).eq(["data=ordered"]) {
            out.push_str(line);
            continue;
        }
        is_changed = true;
        // The options are in the fourth field.
        let mut start = 0;
        for field in &fields[..3] {
            start += line[start..].find(field).unwrap_or(0) + field.len();
        }
        start += line[start..].len() - line[start..].trim_start().len();
        let changed = kept.into_iter().chain(["data=ordered"]).collect::<Vec<_>>().join(",");
        out.push_str(&line[..start]);
        out.push_str(&changed);
        out.push_str(&line[start + options.len()..]);
    }
    match (is_named, is_changed) {
        (false, _) => Fstab::NoLine,
        (true, false) => Fstab::HasIt,
        (true, true) => Fstab::Changed(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_mode_of_one_line_is_set_and_nothing_else_moves() {
        let changed = |text: &str| Fstab::Changed(text.to_owned());
        let fstab = "# /data is ours\nUUID=1\t/\text4 errors=remount-ro 0 1\nUUID=2  /data\text4\tdefaults,noatime\t0 2 # big\n";
        let after = "# /data is ours\nUUID=1\t/\text4 errors=remount-ro 0 1\nUUID=2  /data\text4\tdefaults,noatime,data=ordered\t0 2 # big\n";
        assert_eq!(with_data_ordered(fstab, "/data"), changed(after));
        assert_eq!(with_data_ordered(after, "/data"), Fstab::HasIt);
        assert_eq!(with_data_ordered(fstab, "/models"), Fstab::NoLine);
        for mode in ["journal", "writeback"] {
            let other = format!("UUID=2 /d ext4 noatime,data={mode},nofail 0 2\nUUID=3 /e ext4 data={mode} 0 2\n");
            let kept = format!("UUID=2 /d ext4 noatime,nofail,data=ordered 0 2\nUUID=3 /e ext4 data={mode} 0 2\n");
            assert_eq!(with_data_ordered(&other, "/d"), changed(&kept));
        }
        assert_eq!(with_data_ordered("x /d ext4 data=writeback", "/d"), changed("x /d ext4 data=ordered"));
        assert_eq!(with_data_ordered("ext4 /d ext4 ro", "/d"), changed("ext4 /d ext4 ro,data=ordered"));
    }
}
