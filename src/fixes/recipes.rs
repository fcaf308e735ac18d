//! The fixes that can be offered for a report: one that gds-top applies, and those that it shows (reference 1.8).

use super::applied;
use crate::checks::{Report, udev_record_path};
use crate::domain::{Change, FixPlan, FixRisk, Needs, Status};
use crate::host::{PathFacts, Root, Unread, os_release};
use std::path::PathBuf;

/// Plans for everything in `report` that a fix can mend, in the order of the findings.
#[must_use]
pub fn plan(root: &Root, report: &Report) -> Vec<FixPlan> {
    let mut out: Vec<FixPlan> = Vec::new();
    for finding in &report.findings {
        let by_check = BY_CHECK.iter().find(|(check, _)| *check == finding.id).map(|(_, id)| *id);
        let Some(id) = finding.fix.as_deref().or(by_check) else { continue };
        if !matches!(finding.status, Status::Fail | Status::Warn) || out.iter().any(|plan| plan.id == id) {
            continue;
        }
        out.extend(for_id(root, report, id, &finding.id));
    }
    out
}

/// Fixes of checks that name none themselves.
const BY_CHECK: &[(&str, &str)] = &[
    ("nvfs-dkms", "nvfs-dkms"),
    ("nvfs-build-inputs", "nvfs-dkms"),
    ("nvfs-secureboot", "secure-boot-key"),
    ("nvfs-nvme-symbol", "nvme-patch"),
    ("gpu-bar1-size", "bar1-large"),
    ("kernel-p2pdma", "kernel-p2pdma"),
    ("ctr-udev", "container-devices"),
    ("nvfs-devnodes", "container-devices"),
];

/// The plan of a fix, whether or not a check asks for it.
pub(super) fn for_id(root: &Root, report: &Report, id: &str, check: &str) -> Option<FixPlan> {
    match id {
        "udev-record" => udev_record(root, report),
        "p2pdma-registry-keys" | "cufile-p2pdma-keys" | "memlock" | "nvfs-load" => applied::plan(root, id, check),
        _ => {
            let mut plan = shown(root, id, check)?;
            if id == "ext4-ordered" {
                name_the_mount(root, report, &mut plan);
            }
            Some(plan)
        }
    }
}

/// Puts the mount point of the examined path into the commands; the root file system cannot be unmounted, and gets a boot parameter.
fn name_the_mount(root: &Root, report: &Report, plan: &mut FixPlan) {
    let point = report.verdicts.iter().find_map(|verdict| root.path_facts(&verdict.path)?.mount_point);
    let Some(point) = point.map(|point| point.display().to_string()) else { return };
    if point == "/" {
        "This is the root file system: rootflags=data=ordered goes into GRUB_CMDLINE_LINUX_DEFAULT, and takes effect at the next boot."
            .clone_into(&mut plan.why);
        plan.changes = match family(root) {
            Family::RedHat => {
                vec![run("sudo grubby --update-kernel=ALL --args=rootflags=data=ordered"), run("sudo reboot")]
            }
            Family::Debian => vec![run("sudoedit /etc/default/grub"), run("sudo update-grub"), run("sudo reboot")],
            Family::Suse => {
                vec![run("sudo pbl --add-option rootflags=data=ordered"), run("sudo pbl --config"), run("sudo reboot")]
            }
        };
        plan.needs = Needs::Reboot;
        "remove the parameter, reboot".clone_into(&mut plan.undo);
        return;
    }
    for change in &mut plan.changes {
        if let Change::Run { argv } = change {
            argv.iter_mut().filter(|word| *word == "MOUNT_POINT").for_each(|word| word.clone_from(&point));
        }
    }
}

/// The missing udev records of the devices of the paths under examination.
fn udev_record(root: &Root, report: &Report) -> Option<FixPlan> {
    let mut changes: Vec<Change> = Vec::new();
    let mut obstacle = None;
    let mut names = Vec::new();
    for verdict in &report.verdicts {
        let Some(facts) = root.path_facts(&verdict.path) else { continue };
        let (Some(device), Some((major, _))) = (facts.device.as_deref(), facts.device_numbers()) else { continue };
        let path = PathBuf::from(udev_record_path(device));
        let known = |change: &Change| matches!(change, Change::WriteFile { path: other, .. } if *other == path);
        if major == 0 || changes.iter().any(known) {
            continue;
        }
        let before = match root.read_text(&path) {
            Ok(text) => Some(text),
            Err(Unread::Missing) => None,
            Err(why) => {
                obstacle = Some(format!("{} {why}", path.display()));
                continue;
            }
        };
        let after = record(&facts, before.as_deref());
        if before.as_deref() != Some(after.as_str()) {
            names.push(facts.source.clone().unwrap_or_else(|| device.to_owned()));
            changes.push(Change::WriteFile { path, before, after, mode: 0o644 });
        }
    }
    if changes.is_empty() && obstacle.is_none() {
        return None;
    }
    Some(FixPlan {
        id: "udev-record".to_owned(),
        check: "udev-database".to_owned(),
        title: format!("Write the udev record of {}", if names.is_empty() { "the disk".to_owned() } else { names.join(", ") }),
        why: "libcufile asks udev for ID_FS_USAGE of the disk before it registers a file; where the record is missing every registration fails with \
              5027. With these lines it worked at once (measured with libcufile 1.15 and 1.20). In a container the host's records can be brought in \
              instead: -v /run/udev:/run/udev:ro."
            .to_owned(),
        changes,
        needs: Needs::Root,
        risk: FixRisk::Low,
        verify: "the check udev-database runs again".to_owned(),
        undo: "gds-top fix --undo udev-record restores what was there; without it the record lasts until the next boot, because /run is in memory".to_owned(),
        obstacle,
    })
}

/// What udev would have written: the lines that are there, and those of the file system.
fn record(facts: &PathFacts, before: Option<&str>) -> String {
    let kind = facts.filesystem.as_deref().unwrap_or("unknown");
    let mut wanted = vec![("E:ID_FS_TYPE=", kind.to_owned()), ("E:ID_FS_USAGE=", "filesystem".to_owned())];
    let level = facts.block_device.first().and_then(|device| device.level.clone());
    wanted.extend(level.map(|level| ("E:MD_LEVEL=", level)));
    let mut lines: Vec<String> = before.unwrap_or("").lines().map(str::to_owned).collect();
    for (key, value) in wanted {
        let line = format!("{key}{value}");
        match lines.iter_mut().find(|old| old.starts_with(key)) {
            Some(old) if key == "E:ID_FS_USAGE=" => *old = line,
            Some(_) => {}
            None => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Debian,
    RedHat,
    Suse,
}

pub(super) fn family(root: &Root) -> Family {
    let words =
        [os_release(root, "ID"), os_release(root, "ID_LIKE")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    if words.contains("rhel") || words.contains("fedora") || words.contains("centos") {
        Family::RedHat
    } else if words.contains("suse") {
        Family::Suse
    } else {
        Family::Debian
    }
}

/// The version of nvidia-fs that DKMS knows: `nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed`.
fn dkms_version(root: &Root) -> Option<String> {
    let output = root.command(&["dkms", "status"])?;
    let line = output.stdout.lines().find_map(|line| line.strip_prefix("nvidia-fs/"))?;
    Some(line.split([',', ':']).next()?.trim().to_owned()).filter(|version| !version.is_empty())
}

fn run(line: &str) -> Change {
    Change::Run { argv: line.split(' ').map(str::to_owned).collect() }
}

/// A change of a whole file, read first so that the preview is a diff.
pub(super) fn file(root: &Root, path: &str, after: &str) -> Change {
    Change::WriteFile {
        path: PathBuf::from(path),
        before: root.read_text(path).ok(),
        after: after.to_owned(),
        mode: 0o644,
    }
}

fn install(family: Family, debian: &str, others: &str) -> Change {
    match family {
        Family::Debian => run(&format!("sudo apt-get install {debian}")),
        Family::RedHat => run(&format!("sudo dnf install {others}")),
        Family::Suse => run(&format!("sudo zypper install {others}")),
    }
}

pub(super) fn initramfs(family: Family) -> Change {
    match family {
        Family::Debian => run("sudo update-initramfs -u -k all"),
        Family::RedHat => run("sudo dracut -f --regenerate-all"),
        Family::Suse => run("sudo dracut -f"),
    }
}

/// Plans that are shown and not applied.
fn shown(root: &Root, id: &str, check: &str) -> Option<FixPlan> {
    let family = family(root);
    let (title, why, changes, needs, verify, undo) = match id {
        "nvme-multipath-off" => (
            "Switch NVMe native multipath off",
            "P2PDMA does not pass through the multipath head. Not for machines whose disks really have several paths.",
            vec![
                file(root, "/etc/modprobe.d/nvme.conf", "options nvme_core multipath=N\n"),
                initramfs(family),
                run("sudo reboot"),
            ],
            Needs::Reboot,
            "cat /sys/module/nvme_core/parameters/multipath",
            "remove the file, rebuild the initramfs, reboot",
        ),
        "nvfs-install" => (
            "Install nvidia-fs",
            "The route nvfs needs this kernel module. On RHEL-like systems the package may pull another kernel: compare grubby --default-kernel.",
            vec![install(family, "nvidia-gds", "nvidia-gds"), run("sudo modprobe nvidia-fs")],
            Needs::Root,
            "gds-top check",
            "remove the package",
        ),
        "nvidia-driver-open" => (
            "Install the open kernel modules of the NVIDIA driver",
            "nvidia-fs from 2.17.5 on and P2PDMA work with the open modules only. Not for Pascal and Volta GPUs. GPU programs must stop.",
            match family {
                Family::RedHat => vec![
                    run("sudo dnf module reset nvidia-driver"),
                    run("sudo dnf module enable nvidia-driver:open-dkms"),
                    run("sudo dnf install nvidia-open"),
                    run("sudo reboot"),
                ],
                _ => vec![install(family, "nvidia-open", "nvidia-open"), run("sudo reboot")],
            },
            Needs::Reboot,
            "/proc/driver/nvidia/version says 'Open Kernel Module'",
            "install the proprietary package of the same version",
        ),
        "libcufile-install" => (
            "Install libcufile",
            "Every cuFile read goes through this library. Without root: pip install nvidia-cufile.",
            vec![install(family, "libcufile-13-0", "libcufile-13-0")],
            Needs::Root,
            "gds-top check",
            "remove the package",
        ),
        "iommu-off" => (
            "Boot with the IOMMU passing addresses through",
            "A translating IOMMU breaks or slows transfers between devices. It protects memory from devices and virtual machines need it. The word is iommu=pt, in GRUB_CMDLINE_LINUX_DEFAULT.",
            match family {
                Family::RedHat => vec![run("sudo grubby --update-kernel=ALL --args=iommu=pt"), run("sudo reboot")],
                // The line is edited by hand: what else stands in it differs from machine to machine.
                Family::Debian => vec![run("sudoedit /etc/default/grub"), run("sudo update-grub"), run("sudo reboot")],
                Family::Suse => {
                    vec![run("sudo pbl --add-option iommu=pt"), run("sudo pbl --config"), run("sudo reboot")]
                }
            },
            Needs::Reboot,
            "cat /proc/cmdline",
            "remove iommu=pt again, reboot",
        ),
        "ext4-ordered" => (
            "Mount the file system with data=ordered spelled out",
            "libcufile reads the printed mount options, and the kernel does not print its default. Add data=ordered to the options of its line in /etc/fstab first.",
            vec![run("sudo umount MOUNT_POINT"), run("sudo mount MOUNT_POINT")],
            Needs::Root,
            "grep data=ordered /proc/mounts",
            "remove the option from /etc/fstab, umount and mount",
        ),
        "nvfs-dkms" => (
            "Build nvidia-fs for the running kernel",
            "The module must be built for this kernel and against the loaded driver. Where the driver's modules are .ko.zst, nvidia-fs 2.29 or later is needed. Take the version from 'dkms status'.",
            vec![
                match family {
                    Family::Debian => run("sudo apt-get install dkms build-essential linux-headers-KERNEL"),
                    Family::RedHat => {
                        run("sudo dnf install dkms kernel-devel-KERNEL kernel-headers gcc make elfutils-libelf-devel")
                    }
                    Family::Suse => run("sudo zypper install dkms kernel-default-devel gcc make"),
                },
                run("sudo dkms remove nvidia-fs/VERSION --all"),
                run("sudo dkms install nvidia-fs/VERSION -k KERNEL"),
                run("sudo modprobe nvidia-fs"),
            ],
            Needs::Root,
            "dkms status, modinfo nvidia_fs, gds-top check",
            "sudo dkms remove nvidia-fs/VERSION --all",
        ),
        "secure-boot-key" => (
            "Enrol the key that signs nvidia-fs",
            "Secure Boot loads only modules whose key is enrolled. The choice 'Enroll MOK' comes up at the console during the next boot, so somebody must be there.",
            match family {
                Family::Debian => {
                    vec![run("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der"), run("sudo reboot")]
                }
                _ => vec![run("sudo mokutil --import /var/lib/dkms/mok.pub"), run("sudo reboot")],
            },
            Needs::Reboot,
            "mokutil --list-enrolled, then sudo modprobe nvidia-fs",
            "sudo mokutil --delete with the same file, reboot",
        ),
        "nvme-patch" => (
            "An NVMe driver that is built for GDS",
            "The route nvfs needs it; P2PDMA does not, and is the shorter way where kernel and GPU have it. It replaces the driver of the disks, perhaps of the root disk. On Ubuntu the linux-nvidia kernels have it ready.",
            match family {
                Family::Debian => {
                    vec![run("sudo apt-get install doca-ofed mlnx-nvme-dkms"), initramfs(family), run("sudo reboot")]
                }
                Family::RedHat => {
                    vec![run("sudo dnf install doca-ofed kmod-mlnx-nvme"), initramfs(family), run("sudo reboot")]
                }
                Family::Suse => vec![
                    run("sudo ./mlnxofedinstall --with-nvmf --with-nfsrdma --enable-gds --add-kernel-support --dkms"),
                    initramfs(family),
                    run("sudo reboot"),
                ],
            },
            Needs::Reboot,
            "grep nvme_v /proc/kallsyms shows nvme_v1_register_nvfs_dma_ops or nvme_v2_…",
            "remove the packages, rebuild the initramfs, reboot",
        ),
        "bar1-large" => (
            "A BAR1 as large as the GPU's memory",
            "In the BIOS: Above-4G decoding and Resizable BAR. L40, L40S, A40 and the RTX A and Ada workstation cards are switched to their compute mode by NVIDIA's display-mode-selector tool.",
            vec![run("sudo systemctl reboot --firmware-setup")],
            Needs::Reboot,
            "gds-top check: gpu-bar1-size",
            "the same settings back",
        ),
        "kernel-p2pdma" => (
            "A kernel with PCI P2PDMA",
            "P2PDMA into GPU memory needs 6.2 or later with CONFIG_PCI_P2PDMA. RHEL 9.5 on x86 is excluded by NVIDIA; 9.6 and 10 have it.",
            vec![
                match family {
                    Family::Debian => run("sudo apt-get install linux-generic-hwe-24.04"),
                    Family::RedHat => run("sudo dnf upgrade kernel"),
                    Family::Suse => run("sudo zypper update kernel-default"),
                },
                run("sudo reboot"),
            ],
            Needs::Reboot,
            "gds-top check: kernel-p2pdma",
            "choose the old kernel in the boot menu",
        ),
        "container-devices" => (
            "Start the container with what cuFile needs",
            "udev's records, the nodes of nvidia-fs, and the right to lock memory come from outside; inside nothing can be done. One --device for each /dev/nvidia-fsN.",
            vec![run(
                "docker run --gpus all --ipc=host --ulimit memlock=-1 --cap-add IPC_LOCK -v /run/udev:/run/udev:ro -v /etc/cufile.json:/etc/cufile.json:ro --device /dev/nvidia-fs0 IMAGE",
            )],
            Needs::User,
            "gds-top check inside",
            "start it as before",
        ),
        _ => return None,
    };
    // The words that stand for this machine's own.
    let kernel = crate::host::kernel_release(root).unwrap_or_else(|| "$(uname -r)".to_owned());
    let module = dkms_version(root).unwrap_or_else(|| "VERSION".to_owned());
    let changes = changes
        .into_iter()
        .map(|change| match change {
            Change::Run { argv } => Change::Run {
                argv: argv
                    .into_iter()
                    .map(|word| word.replace("KERNEL", &kernel).replace("VERSION", &module))
                    .collect(),
            },
            other => other,
        })
        .collect();
    Some(FixPlan {
        id: id.to_owned(),
        check: check.to_owned(),
        title: title.to_owned(),
        why: why.to_owned(),
        changes,
        needs,
        risk: FixRisk::ShownOnly,
        verify: verify.to_owned(),
        undo: undo.to_owned(),
        obstacle: None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn facts() -> PathFacts {
        PathFacts { filesystem: Some("xfs".to_owned()), ..PathFacts::default() }
    }

    #[test]
    fn a_new_record_has_what_libcufile_asks_for() {
        assert_eq!(record(&facts(), None), "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\n");
    }

    #[test]
    fn what_udev_wrote_is_kept() {
        let before = "I:123\nE:ID_FS_USAGE=other\nE:ID_SERIAL=x\n";
        assert_eq!(
            record(&facts(), Some(before)),
            "I:123\nE:ID_FS_USAGE=filesystem\nE:ID_SERIAL=x\nE:ID_FS_TYPE=xfs\n"
        );
    }
}
