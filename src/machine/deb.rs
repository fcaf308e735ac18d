//! The packages that dpkg has installed.

use super::packages::initramfs_command;
use super::root::Root;
use std::collections::BTreeMap;

/// A package that dpkg has installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebPackage {
    /// Its name without the architecture.
    pub name: String,
    /// Its version; empty if only the list of its files is known.
    pub version: String,
    /// Whether `apt-mark hold` keeps it as it is.
    pub is_held: bool,
}

/// The installed packages, by name. A machine whose status file is not readable still shows the lists of their files.
#[must_use]
pub fn deb_packages(root: &Root) -> Vec<DebPackage> {
    let status = root.read_text("/var/lib/dpkg/status").unwrap_or_default();
    let mut known: BTreeMap<String, Option<DebPackage>> = status
        .split("\n\n")
        .filter_map(|part| {
            let field = |name: &str| part.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let (name, state) = (field("Package:")?.to_owned(), field("Status:")?);
            let version = field("Version:").unwrap_or_default().to_owned();
            let package = DebPackage { name: name.clone(), version, is_held: state.starts_with("hold ") };
            // A removed package keeps its entry as long as it has configuration files.
            Some((name, state.ends_with(" installed").then_some(package)))
        })
        .collect();
    for file in root.entries("/var/lib/dpkg/info").unwrap_or_default() {
        let Some(name) = file.strip_suffix(".list").and_then(|name| name.split(':').next()) else { continue };
        let package = || DebPackage { name: name.to_owned(), version: String::new(), is_held: false };
        known.entry(name.to_owned()).or_insert_with(|| Some(package()));
    }
    known.into_values().flatten().collect()
}

/// Whether dpkg could not configure a package: its build failed, and every later apt-get starts it again.
#[must_use]
pub fn is_half_configured(root: &Root, name: &str) -> bool {
    let status = root.read_text("/var/lib/dpkg/status").unwrap_or_default();
    let is_meant =
        |part: &&str| part.lines().any(|line| line.strip_prefix("Package:").is_some_and(|n| n.trim() == name));
    let state =
        |part: &str| part.lines().find_map(|line| line.strip_prefix("Status:")).map(|state| state.trim().to_owned());
    let found = status.split("\n\n").find(is_meant).and_then(state);
    found.is_some_and(|state| ["half-configured", "unpacked"].iter().any(|word| state.ends_with(word)))
}

/// The sign that update-initramfs failed, for example because /boot is full: the file that it leaves, or the state of its
/// package in dpkg.
#[must_use]
pub fn failed_initramfs(root: &Root) -> Option<(&'static str, String)> {
    if !initramfs_command(root).is_some_and(|command| command.contains("update-initramfs")) {
        return None;
    }
    let is_left = |name: &String| name.starts_with("initrd.img-") && name.ends_with(".new");
    match root.entries("/boot").unwrap_or_default().into_iter().find(is_left) {
        Some(name) => Some(("/boot", name)),
        None => is_half_configured(root, "initramfs-tools")
            .then(|| ("/var/lib/dpkg/status", "initramfs-tools is not configured".to_owned())),
    }
}
