//! Plans that change how the machine boots or mounts.

use super::command_line::{arguments, place};
use super::parts::{empty, family, initramfs as rebuild, run};
use crate::checks::Report;
use crate::core::{Change, CheckId, FindingFact, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::Root;
use std::path::PathBuf;

/// The plan for the IOMMU in pass-through mode.
pub(super) fn iommu(root: &Root) -> FixPlan {
    let arm = root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64");
    let word = if arm { "iommu.passthrough=1" } else { "iommu=pt" };
    FixPlan {
        why: format!(
            "A translating IOMMU breaks or slows down transfers between devices. It protects memory from devices, and virtual machines need it. The argument {word} is added {}. On Grace the IOMMU must be on and translate.",
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
    FixPlan {
        why: "Drivers in the initramfs use its copy of /etc/modprobe.d, so a change on the disk has no effect on them."
            .to_owned(),
        changes: vec![run(rebuild(root, family(root)))],
        verify: "after the reboot: gds-top check: reboot-pending".to_owned(),
        undo: "undo the fix that changed the setting, then rebuild the initramfs".to_owned(),
        remaining: vec!["sudo reboot".to_owned()],
        ..empty(FixId::Initramfs, Needs::Reboot, FixRisk::Low, FixPolicy::Ask)
    }
}

/// The plan for a large BAR1.
pub(super) fn bar1() -> FixPlan {
    FixPlan {
        why: "Set it in the firmware: Above-4G decoding and Resizable BAR. L40, L40S, A40 and the RTX A and Ada workstation cards need NVIDIA's \
              display-mode-selector tool, which switches them to compute mode."
            .to_owned(),
        changes: vec![run("sudo systemctl reboot --firmware-setup")],
        verify: "gds-top check: gpu-bar1-size".to_owned(),
        undo: "restore the earlier firmware settings".to_owned(),
        ..empty(FixId::Bar1Large, Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
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
    FixPlan {
        why: format!(
            "Change the BIOS setting 'ACS' if possible. Otherwise boot with {word}, only for the bridges between GPU and disk: ACS disabled on all bridges can make NVMe disks fall off the bus, and removes the isolation of devices. The argument is added {}. In a shell, quote it because of the semicolons.",
            place(root)
        ),
        verify: "/proc/driver/nvidia-fs/bridges is empty, and gds-top check: pcie-acs".to_owned(),
        ..with_word(root, &word, empty(FixId::AcsRedirect, Needs::Reboot, FixRisk::High, FixPolicy::Never))
    }
}

/// The plan for the mount option data=ordered.
pub(super) fn ordered(root: &Root, report: &Report) -> FixPlan {
    let point = report
        .verdicts
        .iter()
        .find_map(|verdict| root.path_facts(&verdict.path)?.mount_point)
        .map(|point| point.display().to_string());
    let plan = FixPlan {
        why: "libcufile reads the mount options, and the kernel does not print its default.".to_owned(),
        verify: "/proc/mounts shows data=ordered".to_owned(),
        ..empty(FixId::Ext4Ordered, Needs::Root, FixRisk::Low, FixPolicy::Ask)
    };
    if point.as_deref() == Some("/") {
        return FixPlan {
            why: format!(
                "This is the root file system: rootflags=data=ordered is added {}, and takes effect at the next boot.",
                place(root)
            ),
            needs: Needs::Reboot,
            policy: FixPolicy::Show,
            ..with_word(root, "rootflags=data=ordered", plan)
        };
    }
    let Some(point) = point else {
        return FixPlan {
            changes: vec![run("sudo umount MOUNT_POINT"), run("sudo mount MOUNT_POINT")],
            policy: FixPolicy::Show,
            undo: "remove the option from /etc/fstab, unmount and mount".to_owned(),
            obstacle: Some("the file system is not known: name a path with --path".to_owned()),
            ..plan
        };
    };
    // The path is a single argument even if it contains spaces.
    let mounts: Vec<Vec<String>> =
        ["umount", "mount"].map(|what| vec!["sudo".to_owned(), what.to_owned(), point.clone()]).into();
    let before = root.read_text("/etc/fstab").ok();
    let edited = before.as_deref().and_then(|text| with_option(text, &point, "data=ordered"));
    match edited {
        Some(after) => FixPlan {
            changes: [Change::WriteFile { path: PathBuf::from("/etc/fstab"), before, after, mode: 0o644 }]
                .into_iter()
                .chain(mounts.iter().cloned().map(|argv| Change::Run { argv }))
                .collect(),
            why: format!(
                "{} A remount cannot change the journal mode, so stop all programs that use {point}.",
                plan.why
            ),
            undo_commands: mounts,
            ..plan
        },
        None => FixPlan {
            changes: mounts.into_iter().map(|argv| Change::Run { argv }).collect(),
            policy: FixPolicy::Show,
            why: format!(
                "{} /etc/fstab has no line for {point}: add the option to the command that mounts it.",
                plan.why
            ),
            undo: "remove the option, unmount and mount".to_owned(),
            ..plan
        },
    }
}

/// `/etc/fstab` with an additional mount option for a mount point. `None` if there is no such line, or if it already
/// has the option.
fn with_option(fstab: &str, point: &str, option: &str) -> Option<String> {
    let mut found = false;
    let lines: Vec<String> = fstab
        .split_inclusive('\n')
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, at, _, options, ..] = fields.as_slice() else { return line.to_owned() };
            let named = at.replace("\\040", " ");
            if line.trim_start().starts_with('#')
                || named != point
                || options.split(',').any(|o| o.starts_with("data="))
            {
                return line.to_owned();
            }
            // The options are in the fourth field.
            let mut rest = line;
            let mut skipped = 0;
            for _ in 0..3 {
                let blank = rest.len() - rest.trim_start().len();
                let word = rest.trim_start().find(char::is_whitespace).unwrap_or(rest.len() - blank);
                skipped += blank + word;
                rest = &line[skipped..];
            }
            let start = skipped + rest.len() - rest.trim_start().len();
            found = true;
            format!("{}{options},{option}{}", &line[..start], &line[start + options.len()..])
        })
        .collect();
    found.then(|| lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_option_is_added_to_one_line_and_nothing_else_moves() {
        let fstab = "# /data is ours\nUUID=1\t/\text4 errors=remount-ro 0 1\nUUID=2  /data\text4\tdefaults,noatime\t0 2 # big\n";
        let after = "# /data is ours\nUUID=1\t/\text4 errors=remount-ro 0 1\nUUID=2  /data\text4\tdefaults,noatime,data=ordered\t0 2 # big\n";
        assert_eq!(with_option(fstab, "/data", "data=ordered").as_deref(), Some(after));
        assert_eq!(with_option(after, "/data", "data=ordered"), None, "it is there");
        assert_eq!(with_option(fstab, "/models", "data=ordered"), None);
        assert_eq!(with_option("x /d ext4 data=writeback", "/d", "data=ordered"), None, "another mode was chosen");
        assert_eq!(
            with_option("ext4 /d ext4 ro", "/d", "data=ordered").as_deref(),
            Some("ext4 /d ext4 ro,data=ordered")
        );
    }
}
