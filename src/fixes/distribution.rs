//! The distribution and its release, which determine packages and kernels.

use super::parts::{Family, line_in, run};
use crate::core::Change;
pub(super) use crate::machine::packages::{dnf, fedora, headers, id, release, rhel};
use crate::machine::{Root, is_aarch64, modprobe, os_release};
use std::path::PathBuf;

/// The name for display.
pub(super) fn called(root: &Root) -> String {
    os_release(root, "PRETTY_NAME").or_else(|| os_release(root, "ID")).unwrap_or_else(|| "this system".to_owned())
}

/// A note about packages that are not in NVIDIA's lists for this distribution. It is empty if they are. NVIDIA's
/// guide (branch 620) names the driver packages for Amazon Linux 2023 and Azure Linux 4, but no nvidia-gds for these
/// or for SUSE.
pub(super) fn not_confirmed(root: &Root, package: &str) -> String {
    match (id(root).as_str(), release(root)) {
        // AWS lists nvidia-gds and nvidia-fs-dkms of NVIDIA's repository in its images of Amazon Linux 2023.
        ("amzn", _) => String::new(),
        ("azurelinux", Some((3, _))) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'tdnf list {package}'. Microsoft's repository has the open driver built \
             for each kernel (azurelinux-repos-nvidia, then cuda-open); then build nvidia-fs with that one.",
            called(root)
        ),
        ("azurelinux", _) if package == "nvidia-open" => String::new(),
        ("azurelinux", _) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'dnf list {package}'.{}",
            called(root),
            instead(package)
        ),
        (name, _) if package != "nvidia-open" && (name.starts_with("sle") || name.starts_with("opensuse")) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'zypper search {package}'.{}",
            called(root),
            instead(package)
        ),
        _ => String::new(),
    }
}

/// What to install if the repository lacks a package. It starts with a space.
fn instead(package: &str) -> &'static str {
    if package.starts_with("libcufile") {
        " If it lacks it, use the Python wheel nvidia-cufile-cu12 or nvidia-cufile."
    } else {
        " If it lacks it, build nvidia-fs from https://github.com/NVIDIA/gds-nvidia-fs (make and 'sudo make install' in src), and use the Python wheel of libcufile."
    }
}

/// The commands that add the package source with DKMS (EPEL, and the source of its dependencies) if the distribution has
/// no DKMS. Empty if DKMS or the source is there.
pub(super) fn dkms_source(root: &Root) -> Vec<Change> {
    const FOLDER: &str = "/etc/yum.repos.d";
    let Some(major) = rhel(root) else { return Vec::new() };
    let names = root.entries(FOLDER).unwrap_or_default();
    let texts = names.iter().filter_map(|name| root.read_text(format!("{FOLDER}/{name}")).ok()).collect::<String>();
    let is_on = |word: &str| sections(&texts).any(|(name, is_enabled)| is_enabled && name.contains(word));
    if is_on("epel") || root.exists("/usr/sbin/dkms") {
        return Vec::new();
    }
    let has_builder = ["crb", "powertools", "codeready-builder"].into_iter().any(is_on);
    let arch = root.read_text("/proc/sys/kernel/arch").ok().map(|arch| arch.trim().to_owned());
    let arch = arch.filter(|arch| !arch.is_empty()).unwrap_or_else(|| "x86_64".to_owned());
    match id(root).as_str() {
        "rhel" => [
            format!("sudo subscription-manager repos --enable=codeready-builder-for-rhel-{major}-{arch}-rpms"),
            format!("sudo dnf install -y https://dl.fedoraproject.org/pub/epel/epel-release-latest-{major}.noarch.rpm"),
        ]
        .iter()
        .skip(usize::from(has_builder))
        .map(|line| run(line))
        .collect(),
        "ol" => vec![run(&format!("sudo dnf install -y oracle-epel-release-el{major}"))],
        _ => {
            let builder = if major == 8 { "powertools" } else { "crb" };
            [format!("sudo dnf config-manager --set-enabled {builder}"), "sudo dnf install -y epel-release".to_owned()]
                .iter()
                .skip(usize::from(has_builder))
                .map(|line| run(line))
                .collect()
        }
    }
}

/// The commands that add the package source with DKMS on every family. Empty if the distribution has DKMS, or if DKMS
/// or the source is there.
pub(super) fn sources_of_dkms(root: &Root, family: Family) -> Vec<Change> {
    match family {
        Family::Debian => Vec::new(),
        Family::RedHat => dkms_source(root),
        Family::Suse => package_hub(root).filter(|_| !root.exists("/usr/sbin/dkms")).into_iter().collect(),
    }
}

/// Whether a change adds a package source, which is there for all later steps.
pub(super) fn adds_source(change: &Change) -> bool {
    let is_it = |word: &String| {
        ["SUSEConnect", "subscription-manager"].contains(&word.as_str())
            || ["config-manager", "epel-release"].iter().any(|part| word.contains(part))
    };
    matches!(change, Change::Run { argv } if argv.iter().any(is_it))
}

/// The names of the sections of a dnf configuration, in lower case, and whether each is enabled.
fn sections(text: &str) -> impl Iterator<Item = (String, bool)> {
    text.split("\n[").map(|section| {
        let name = section.trim_start_matches('[').split(']').next().unwrap_or_default().to_ascii_lowercase();
        let is_off = |line: &str| {
            line.split_once('=').is_some_and(|(key, value)| key.trim() == "enabled" && value.trim() == "0")
        };
        (name, !section.lines().any(is_off))
    })
}

/// The change that adds Debian's component contrib, from which NVIDIA's packages need others (Driver Installation
/// Guide, Debian). `None` if a file configures it, and on other distributions.
pub(super) fn contrib(root: &Root) -> Option<Change> {
    const FOLDER: &str = "/etc/apt/sources.list.d";
    let codename = os_release(root, "VERSION_CODENAME").filter(|_| id(root) == "debian")?;
    let names = root.entries(FOLDER).unwrap_or_default().into_iter().map(|name| format!("{FOLDER}/{name}"));
    let files = ["/etc/apt/sources.list".to_owned()].into_iter().chain(names);
    let texts: Vec<String> = files.filter_map(|file| root.read_text(file).ok()).collect();
    let lines = || texts.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| !line.starts_with('#'));
    let has_contrib = |line: &str| {
        ["deb ", "Components:"].iter().any(|start| line.starts_with(start))
            && line.split_whitespace().any(|word| word == "contrib")
    };
    if lines().any(has_contrib) {
        return None;
    }
    // The mirror that the machine uses already: `URIs: ADDRESS`, or `deb ADDRESS SUITE main`.
    let is_mirror = |word: &&str| word.contains("://") && word.trim_end_matches('/').ends_with("/debian");
    let mirror = lines().flat_map(str::split_whitespace).find(is_mirror).unwrap_or("http://deb.debian.org/debian");
    line_in(
        root,
        &format!("{FOLDER}/contrib.list"),
        &format!("deb {} {codename} contrib", mirror.trim_end_matches('/')),
    )
}

/// Whether it is SUSE Linux Enterprise Server, also in its edition for SAP.
pub(super) fn is_sles(root: &Root) -> bool {
    id(root).starts_with("sles")
}

/// The command that adds the Package Hub of SLES, which has DKMS. `None` if it is registered, and on other
/// distributions.
pub(super) fn package_hub(root: &Root) -> Option<Change> {
    let version = os_release(root, "VERSION_ID").filter(|_| is_sles(root))?;
    let is_hub = |name: &String| name.to_ascii_lowercase().replace('_', "").contains("packagehub");
    let is_registered = |folder: &str| root.entries(folder).is_ok_and(|names| names.iter().any(is_hub));
    if ["/etc/zypp/services.d", "/etc/zypp/repos.d"].into_iter().any(is_registered) {
        return None;
    }
    let arch = if is_aarch64(root) { "aarch64" } else { "x86_64" };
    Some(run(&format!("sudo SUSEConnect --product PackageHub/{version}/{arch}")))
}

/// The change with which SLES loads modules that SUSE does not support, such as those that DKMS builds. `None` if it
/// loads them, and on other distributions.
pub(super) fn unsupported_modules(root: &Root) -> Option<Change> {
    const PATH: &str = "/etc/modprobe.d/10-unsupported-modules.conf";
    if !is_sles(root) || modprobe::unsupported_modules(root) == Some(true) {
        return None;
    }
    let before = root.read_text(PATH).ok();
    let is_switch = |line: &str| line.split_whitespace().next() == Some(modprobe::UNSUPPORTED);
    let kept = before.iter().flat_map(|text| text.lines()).filter(|line| !is_switch(line));
    let after: String =
        kept.map(|line| format!("{line}\n")).chain([format!("{} 1\n", modprobe::UNSUPPORTED)]).collect();
    Some(Change::WriteFile { path: PathBuf::from(PATH), before, after, mode: 0o644 })
}
