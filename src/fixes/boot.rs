//! Plans that change how the machine boots or mounts.

use super::command_line::{arguments, place};
use super::multipath;
use super::recipes::{empty, family, initramfs, run};
use crate::checks::Report;
use crate::domain::{Change, FixPlan, FixPolicy, FixRisk, Needs};
use crate::host::Root;
use std::path::PathBuf;

/// The plan of one of these fixes.
pub(super) fn plan(root: &Root, report: &Report, id: &str) -> Option<FixPlan> {
    let family = family(root);
    Some(match id {
        "nvme-multipath-off" => multipath::plan(root),
        "iommu-off" => {
            let arm = root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64");
            let word = if arm { "iommu.passthrough=1" } else { "iommu=pt" };
            FixPlan {
                title: "Boot with the IOMMU passing addresses through".to_owned(),
                why: format!(
                    "A translating IOMMU breaks or slows transfers between devices. It protects memory from devices and virtual machines need it. The \
                     word is {word}; it goes {}. Not on Grace, which wants it on and translating.",
                    place(root)
                ),
                changes: arguments(root, word),
                verify: "/proc/cmdline has the word, and gds-top check: iommu-state".to_owned(),
                undo: format!("remove {word} again, reboot"),
                ..empty(Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
            }
        }
        "acs-redirect" => acs(root, report),
        "initramfs" => FixPlan {
            title: "Rebuild the initramfs, so that settings of modules take effect at the next boot".to_owned(),
            why: "Drivers that are loaded from the initramfs read the copy of /etc/modprobe.d in it; a change on the disk alone has no effect."
                .to_owned(),
            changes: vec![run(initramfs(root, family))],
            verify: "after the reboot: gds-top check: reboot-pending".to_owned(),
            undo: "undo the setting, then rebuild it again".to_owned(),
            remaining: vec!["sudo reboot".to_owned()],
            ..empty(Needs::Reboot, FixRisk::Low, FixPolicy::Ask)
        },
        "ext4-ordered" => ordered(root, report),
        "bar1-large" => FixPlan {
            title: "A BAR1 as large as the GPU's memory".to_owned(),
            why: "In the BIOS: Above-4G decoding and Resizable BAR. L40, L40S, A40 and the RTX A and Ada workstation cards are switched to their compute \
                  mode by NVIDIA's display-mode-selector tool."
                .to_owned(),
            changes: vec![run("sudo systemctl reboot --firmware-setup")],
            verify: "gds-top check: gpu-bar1-size".to_owned(),
            undo: "the same settings back".to_owned(),
            ..empty(Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
        },
        _ => return None,
    })
}

/// The bridges that the findings name, and no others.
fn acs(root: &Root, report: &Report) -> FixPlan {
    let mut bridges: Vec<String> = ["pcie-acs", "nvfs-bridges-acs"]
        .iter()
        .filter_map(|id| report.finding(id))
        .flat_map(|finding| &finding.evidence)
        .flat_map(|e| {
            format!("{} {}", e.source, e.text).split([' ', ',', '/', ';']).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|word| is_bdf(word))
        .collect();
    bridges.sort();
    bridges.dedup();
    let named = if bridges.is_empty() { "BRIDGE".to_owned() } else { bridges.join(";") };
    let word = format!("pci=disable_acs_redir={named}");
    FixPlan {
        title: "Let transfers pass the PCIe switch without a detour over the root (ACS)".to_owned(),
        why: format!(
            "Best is the BIOS setting 'ACS'. Else the kernel's {word}, for the bridges between GPU and disk alone: ACS cleared on all bridges has made NVMe \
             disks drop off the bus, and devices lose their isolation from one another. The word goes {}; where a shell reads it, in quotes because of the \
             semicolons.",
            place(root)
        ),
        changes: arguments(root, &word),
        verify: "/proc/driver/nvidia-fs/bridges is empty, and gds-top check: pcie-acs".to_owned(),
        undo: "remove the word again, reboot".to_owned(),
        ..empty(Needs::Reboot, FixRisk::High, FixPolicy::Never)
    }
}

/// `0000:40:01.0`.
fn is_bdf(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_hexdigit());
    word.len() == 12
        && word.char_indices().all(|(at, c)| match at {
            4 | 7 => c == ':',
            10 => c == '.',
            _ => c.is_ascii_hexdigit(),
        })
}

fn ordered(root: &Root, report: &Report) -> FixPlan {
    let point = report
        .verdicts
        .iter()
        .find_map(|verdict| root.path_facts(&verdict.path)?.mount_point)
        .map(|point| point.display().to_string());
    let plan = FixPlan {
        title: "Mount the file system with data=ordered spelled out".to_owned(),
        why: "libcufile reads the printed mount options, and the kernel does not print its default.".to_owned(),
        verify: "/proc/mounts shows data=ordered".to_owned(),
        ..empty(Needs::Root, FixRisk::Low, FixPolicy::Ask)
    };
    if point.as_deref() == Some("/") {
        return FixPlan {
            why: format!(
                "This is the root file system: rootflags=data=ordered goes {}, and takes effect at the next boot.",
                place(root)
            ),
            changes: arguments(root, "rootflags=data=ordered"),
            needs: Needs::Reboot,
            policy: FixPolicy::Show,
            undo: "remove the parameter, reboot".to_owned(),
            ..plan
        };
    }
    let Some(point) = point else {
        return FixPlan {
            changes: vec![run("sudo umount MOUNT_POINT"), run("sudo mount MOUNT_POINT")],
            policy: FixPolicy::Show,
            undo: "remove the option from /etc/fstab, umount and mount".to_owned(),
            obstacle: Some("which file system it is, is not known: name a path with --path".to_owned()),
            ..plan
        };
    };
    // The path is one word, whatever is in it.
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
                "{} The mode of the journal cannot be changed by a remount, so nothing may use {point} meanwhile.",
                plan.why
            ),
            undo_commands: mounts,
            ..plan
        },
        None => FixPlan {
            changes: mounts.into_iter().map(|argv| Change::Run { argv }).collect(),
            policy: FixPolicy::Show,
            why: format!(
                "{} /etc/fstab has no line of {point} to add it to: add it where the file system is mounted.",
                plan.why
            ),
            undo: "remove the option again, umount and mount".to_owned(),
            ..plan
        },
    }
}

/// `/etc/fstab` with an option more in the line of a mount point; all else as it is. `None` if there is no such line, or the option is there.
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
            // The option field as a whole word, after the three fields before it.
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

    #[test]
    fn addresses_of_bridges_are_told_from_other_words() {
        assert!(is_bdf("0000:40:01.0") && is_bdf("(0000:be:00.0)"));
        assert!(!is_bdf("0000-40-01.0") && !is_bdf("ReqRedir"));
    }
}
