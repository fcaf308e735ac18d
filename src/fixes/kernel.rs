//! The plan for a newer kernel. It includes the packages to build its modules, and a check of the modules before the
//! reboot.

use super::boot_entry;
use super::distribution::{called, dnf, fedora, id, release, rhel};
use super::packages::enabled;
use super::parts::{Family, empty, line_in, run};
use crate::checks::Report;
use crate::core::{Change, CheckId, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{
    Root, debian_base, dkms_rows, kernel_release, kernel_version, kernel_with_p2pdma, old_release, ubuntu_base,
};

/// The plan for this machine.
pub(super) fn plan(root: &Root, report: &Report, family: Family) -> FixPlan {
    let plan = FixPlan {
        verify: "before the reboot, dkms status lists nvidia as installed for the new kernel; after it, gds-top check: kernel-version and kernel-p2pdma"
            .to_owned(),
        undo: "choose the old kernel in the boot menu".to_owned(),
        ..empty(FixId::KernelP2pdma, Needs::Reboot, FixRisk::High, FixPolicy::Show)
    };
    let of_family = match family {
        Family::RedHat => " NVIDIA excludes RHEL 9.5 on x86; 9.6 and 10 support it.",
        Family::Debian | Family::Suse => "",
    };
    let needed = format!("P2PDMA into GPU memory needs Linux 6.2 or later with CONFIG_PCI_P2PDMA.{of_family}");
    if let Some(release) = kernel_with_p2pdma(root) {
        let rows = dkms_rows(root);
        let drivers = || rows.iter().filter(|row| row.is_driver());
        let to_build = drivers().next().is_some() && !drivers().any(|row| row.is_installed_for(&release));
        let is_uek = |kernel: &str| kernel.contains("uek");
        // An update of the package in DEFAULTKERNEL becomes the default (Oracle Linux, "Managing Kernels").
        let instead = if is_uek(&kernel_release(root).unwrap_or_default()) && !is_uek(&release) {
            " Set DEFAULTKERNEL=kernel-core in /etc/sysconfig/kernel, so that an update of UEK does not become the default."
        } else if kernel_version(root).is_some_and(|running| running >= (6, 2)) {
            " If the present kernel is needed, build it again with CONFIG_PCI_P2PDMA=y."
        } else {
            ""
        };
        return FixPlan {
            title: format!("Boot the installed kernel {release}"),
            why: format!(
                "{needed} The kernel {release} is installed and has it, so no kernel is downloaded. Reboot only if the previous commands succeed.{instead}{}",
                boot_entry::pinned(root).unwrap_or_default()
            ),
            changes: boot_entry::changes(root, family, &release, to_build),
            undo: boot_entry::undo(root, family),
            ..plan
        };
    }
    let newest = boot_entry::of_package(family, &image(root, family));
    let packages = match packages(root, family) {
        Ok(packages) => packages,
        Err(why) => return FixPlan { why: needed, obstacle: Some(why), ..plan },
    };
    let driver = driver(root);
    let mut why = format!(
        "{needed} The plan also installs its headers, because DKMS needs them to build the NVIDIA driver. Reboot only if the previous command succeeds; the old kernel stays in the boot menu."
    );
    let mut changes = Vec::new();
    if id(root) == "rhel" && rhel(root) == Some(9) {
        why.push_str(
            " If subscription-manager fixes the release (subscription-manager release --show), it must be 9.6 or later.",
        );
    }
    changes.extend(packages);
    if family == Family::Debian && ubuntu_base(root).is_none() && debian_base(root) == Some(12) {
        why.push_str(
            " If the server has no bookworm-backports, take http://archive.debian.org/debian, where Debian moves such suites after their support.",
        );
    }
    let nvidia_fs = has_nvidia_fs(root, report);
    if let Driver::Ready(file) = &driver {
        changes.extend(
            precompiled(root, file, nvidia_fs).map(|packages| run(&format!("sudo apt-get install -y {packages}"))),
        );
        why = format!(
            "{why} The driver was not built by DKMS ({file}), so it exists only for certain kernels. If the check fails, install its package for the new kernel, or the DKMS package, before the reboot."
        );
    }
    let found = format!("{newest}; {{ echo {}; echo \"$new\"; }} | sort -VC || exit 1", oldest(root, family));
    let by_dkms = driver == Driver::Dkms || dkms_has(root, is_nvidia_fs);
    if by_dkms {
        // UEK 8 for Oracle Linux 9 was built with another compiler than that of the system.
        let is_uek = kernel_release(root).is_some_and(|release| release.contains("el9uek"));
        let compiler = if is_uek { enabled("gcc-toolset-14") } else { String::new() };
        // nvidia-fs is built with the symbols of the driver, so the driver is built first.
        let rows = dkms_rows(root);
        let first = rows
            .iter()
            .find(|row| row.is_driver() && dkms_has(root, is_nvidia_fs))
            .map_or_else(String::new, |row| format!("dkms install {}/{} -k \"$new\"; ", row.name, row.version));
        changes.push(shell(&format!("{found}; {compiler}{first}dkms autoinstall -k \"$new\"")));
    }
    if driver == Driver::Absent {
        changes.push(shell(&found));
    } else {
        let modules = if nvidia_fs { "nvidia nvidia_fs" } else { "nvidia" };
        let status = if by_dkms { "dkms status -k \"$new\" && " } else { "" };
        changes.push(shell(&format!("{found}; {status}modinfo -k \"$new\" -n {modules}")));
    }
    let pinned = boot_entry::pinned(root);
    let is_amazon = id(root) == "amzn";
    let undo = if pinned.is_some() || boot_entry::has_foreign(root) || is_amazon {
        let before = format!("{found}; ");
        changes.push(boot_entry::start_by_default(root, family, "$new", &before));
        why.push_str(pinned.as_deref().unwrap_or(if is_amazon {
            " The present kernel stays the default until the last command before the reboot."
        } else {
            " The boot loader would start the kernel with the highest version, so the new one is made its default."
        }));
        boot_entry::undo(root, family)
    } else {
        plan.undo.clone()
    };
    changes.push(run("sudo reboot"));
    FixPlan { why, changes, undo, ..plan }
}

/// The oldest kernel with P2PDMA of this family, for `sort -V`. The commands stop before the reboot if the installation
/// failed and an older kernel is still the newest.
fn oldest(root: &Root, family: Family) -> &'static str {
    let is_uek = kernel_release(root).is_some_and(|release| release.contains("uek"));
    match (family, rhel(root)) {
        // The kernel of RHEL 9.6 has a backport.
        (Family::RedHat, Some(9)) if !is_uek => "5.14.0-570",
        _ => "6.2",
    }
}

/// The package whose kernel the plan installs.
fn image(root: &Root, family: Family) -> String {
    let running = kernel_release(root).unwrap_or_default();
    match family {
        Family::Debian => match ubuntu_base(root) {
            Some(version) => format!("linux-image-{}", ubuntu_meta(root, version)),
            None => format!("linux-image-{}", debian_flavour(root, &running)),
        },
        Family::RedHat => match id(root).as_str() {
            "amzn" => "kernel6.12".to_owned(),
            "azurelinux" if running.starts_with("6.6.") || running.is_empty() => "kernel".to_owned(),
            "azurelinux" => "kernel-hwe".to_owned(),
            _ if running.contains("uek") => "kernel-uek-core".to_owned(),
            _ if running.ends_with("+64k") => "kernel-64k-core".to_owned(),
            _ => "kernel-core".to_owned(),
        },
        Family::Suse => format!("kernel-{}", running.rsplit_once('-').map_or("default", |(_, flavour)| flavour)),
    }
}

fn shell(script: &str) -> Change {
    Change::Run { argv: ["sudo", "sh", "-c", script].map(str::to_owned).to_vec() }
}

/// How the NVIDIA driver for the running kernel was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Driver {
    /// DKMS built it, or this is unknown.
    Dkms,
    /// A package for specific kernels or NVIDIA's installer contains it. The text is the path of the module.
    Ready(String),
    /// There is none.
    Absent,
}

/// Whether a line of `dkms status` lists nvidia-fs.
fn is_nvidia_fs(line: &str) -> bool {
    line.starts_with("nvidia-fs") || line.starts_with("nvidia_fs")
}

fn dkms_has(root: &Root, is_meant: impl Fn(&str) -> bool) -> bool {
    root.command(&["dkms", "status"]).is_some_and(|output| output.stdout.lines().any(is_meant))
}

fn driver(root: &Root) -> Driver {
    let by_dkms = dkms_has(root, |line| line.starts_with("nvidia") && !is_nvidia_fs(line));
    let information = root.command(&["modinfo", "nvidia"]).map(|output| output.stdout).unwrap_or_default();
    let file = information.lines().find_map(|line| line.strip_prefix("filename:")).map(|file| file.trim().to_owned());
    match file {
        _ if by_dkms => Driver::Dkms,
        Some(file) if !file.contains("/dkms/") => Driver::Ready(file),
        None if !root.exists("/proc/driver/nvidia/version") && !root.exists("/sys/module/nvidia") => Driver::Absent,
        _ => Driver::Dkms,
    }
}

/// Ubuntu's packages with precompiled modules for the new kernel, derived from the directory of the current driver:
/// `nvidia-580srv-open`. The kernel flavour nvidia also has a package with nvidia-fs.
fn precompiled(root: &Root, file: &str, nvidia_fs: bool) -> Option<String> {
    let folder = file
        .split('/')
        .find(|part| part.strip_prefix("nvidia-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))?;
    let meta = ubuntu_meta(root, ubuntu_base(root)?);
    let driver = format!("linux-modules-{}-{meta}", folder.replacen("srv", "-server", 1));
    let with_nvidia_fs = nvidia_fs && meta.starts_with("nvidia") && !dkms_has(root, is_nvidia_fs);
    Some(if with_nvidia_fs { format!("{driver} linux-modules-nvidia-fs-{meta}") } else { driver })
}

/// Whether nvidia-fs is installed on this machine.
pub(super) fn has_nvidia_fs(root: &Root, report: &Report) -> bool {
    let installed = || root.command(&["modinfo", "nvidia_fs"]).is_some_and(|output| output.exit_code == Some(0));
    root.exists("/sys/module/nvidia_fs")
        || root.exists("/proc/driver/nvidia-fs")
        || report.finding(CheckId::NvfsVersion).is_some_and(|finding| finding.status == crate::core::Status::Pass)
        || dkms_has(root, is_nvidia_fs)
        || installed()
}

/// Whether the machine has an Arm CPU.
pub(super) fn is_arm(root: &Root) -> bool {
    let arch = root.read_text("/proc/sys/kernel/arch").map(|text| text.trim().to_owned());
    arch.map_or_else(
        |_| kernel_release(root).is_some_and(|release| release.contains("aarch64") || release.contains("arm64")),
        |arch| arch == "aarch64",
    )
}

/// The commands that install a kernel 6.2 or later with its headers. The error is the reason why this release has
/// none.
fn packages(root: &Root, family: Family) -> Result<Vec<Change>, String> {
    let running = kernel_release(root).unwrap_or_default();
    if let Some(old) = old_release(root) {
        return Err(format!("{} has no such kernel; its newest is {}. {}", called(root), old.newest, old.instead));
    }
    let lines = |lines: &[&str]| Ok(lines.iter().map(|line| run(line)).collect());
    match family {
        Family::Debian => Ok(debian(root, &running)),
        Family::RedHat => {
            let devel = match running.as_str() {
                r if r.ends_with("+64k") => "sudo dnf install -y kernel-64k-devel-matched kernel-headers",
                _ => "sudo dnf install -y kernel-devel-matched kernel-headers",
            };
            let is_uek = running.contains("uek");
            match (id(root).as_str(), release(root).map(|(major, _)| major), rhel(root)) {
                // kernel6.12-headers replaces kernel-headers.
                ("amzn", ..) => lines(&[
                    "sudo dnf install -y --allowerasing kernel6.12 kernel6.12-devel kernel6.12-headers kernel6.12-modules-extra",
                ]),
                ("azurelinux", Some(3..), _) => {
                    let name = if running.starts_with("6.6.") || running.is_empty() { "kernel" } else { "kernel-hwe" };
                    let tool = dnf(root);
                    Ok(vec![
                        run(&format!("sudo {tool} upgrade -y {name}")),
                        run(&format!("sudo {tool} install -y {name}-devel kernel-headers")),
                    ])
                }
                ("ol", _, Some(major @ 9..)) if is_uek => Ok(vec![
                    run(&format!("sudo dnf config-manager --enable ol{major}_UEKR8")),
                    run("sudo dnf upgrade -y --refresh kernel-uek"),
                    run("sudo dnf install -y kernel-uek-devel kernel-headers"),
                ]),
                // P2PDMA exists since 9.6, so the release must be updated.
                (_, _, Some(9)) => lines(&["sudo dnf upgrade -y --refresh", devel]),
                (_, _, Some(_)) => lines(&["sudo dnf upgrade -y kernel", devel]),
                _ if fedora(root).is_some() => lines(&["sudo dnf upgrade -y kernel", devel]),
                _ => Err(format!("gds-top does not know the kernels of {}", called(root))),
            }
        }
        Family::Suse => {
            let flavour = running.rsplit_once('-').map_or("default", |(_, flavour)| flavour);
            let devel = format!("sudo zypper --non-interactive install kernel-{flavour}-devel");
            match release(root) {
                // The subcommand is a plugin, which has its own options: zypper rejects global ones in front of it.
                Some((15, ..=5)) => {
                    lines(&["sudo zypper migration --non-interactive --auto-agree-with-licenses", &devel])
                }
                _ => lines(&[&format!("sudo zypper --non-interactive update kernel-{flavour}"), &devel]),
            }
        }
    }
}

/// The suffix of the kernel packages after `linux-` and `linux-headers-`.
fn ubuntu_meta(root: &Root, version: (u32, u32)) -> String {
    let running = kernel_release(root).unwrap_or_default();
    // The flavour is `aws` in 5.15.0-1030-aws and `generic-64k` in 6.8.0-60-generic-64k.
    let flavour = running.splitn(3, '-').nth(2).unwrap_or("generic");
    match (version, flavour) {
        // Ubuntu updates the kernels of these clouds within a release under the same package name.
        (_, "aws" | "azure" | "gcp" | "oracle") => flavour.to_owned(),
        ((22 | 24, 4), "generic-64k" | "lowlatency" | "lowlatency-64k" | "nvidia" | "nvidia-64k") => {
            format!("{flavour}-hwe-{}.04", version.0)
        }
        ((22 | 24, 4), _) => format!("generic-hwe-{}.04", version.0),
        (_, "generic-64k" | "nvidia" | "nvidia-64k") => flavour.to_owned(),
        _ => "generic".to_owned(),
    }
}

/// The flavour in the names of Debian's kernel packages: `amd64`, `cloud-amd64`.
fn debian_flavour(root: &Root, running: &str) -> String {
    let arch = if is_arm(root) { "arm64" } else { "amd64" };
    let flavour = ["cloud", "rt"].into_iter().find(|kind| running.contains(&format!("-{kind}-")));
    flavour.map_or_else(|| arch.to_owned(), |kind| format!("{kind}-{arch}"))
}

fn debian(root: &Root, running: &str) -> Vec<Change> {
    if let Some(version) = ubuntu_base(root) {
        let meta = ubuntu_meta(root, version);
        // For the flavour nvidia in 22.04, only the name of the image package is confirmed.
        let kernel = if meta.starts_with("nvidia") { format!("linux-image-{meta}") } else { format!("linux-{meta}") };
        return vec![run(&format!("sudo apt-get install -y {kernel} linux-headers-{meta}"))];
    }
    let flavour = debian_flavour(root, running);
    let packages = format!("linux-image-{flavour} linux-headers-{flavour}");
    if debian_base(root) == Some(12) {
        let install = format!("sudo apt-get install -y -t bookworm-backports {packages}");
        return backports(root).into_iter().chain([run("sudo apt-get update"), run(&install)]).collect();
    }
    vec![run(&format!("sudo apt-get install -y {packages}"))]
}

/// The change that adds the backports of Debian 12. `None` if a file configures them.
fn backports(root: &Root) -> Option<Change> {
    const FOLDER: &str = "/etc/apt/sources.list.d";
    let names = root.entries(FOLDER).unwrap_or_default().into_iter().map(|name| format!("{FOLDER}/{name}"));
    let named = |path: String| {
        let is_named = |line: &str| !line.trim_start().starts_with('#') && line.contains("bookworm-backports");
        root.read_text(path).is_ok_and(|text| text.lines().any(is_named))
    };
    if names.chain(["/etc/apt/sources.list".to_owned()]).any(named) {
        return None;
    }
    line_in(
        root,
        &format!("{FOLDER}/bookworm-backports.list"),
        "deb http://deb.debian.org/debian bookworm-backports main",
    )
}
