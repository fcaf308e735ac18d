//! The kernel that the next boot starts, and the modules of this machine that it lacks.

use super::boot::{BootLoader, boot_loader};
use super::dkms::{DkmsRow, dkms_rows};
use super::driver::Driver;
use super::grub::{GRUB, grub_files, grub_value};
use super::image::image_host;
use super::kernels::release_numbers;
use super::module_list::lists_module;
use super::nvidia_fs::{nvidia_fs_builds, nvidia_fs_loaded};
use super::plain_name::is_plain_name;
use super::root::Root;
use super::summary::{container, kernel_release};

/// The file in which GRUB stores its default entry, on RHEL and its rebuilds. Only root can read it.
pub const GRUB_ENVIRONMENT: &str = "/boot/grub2/grubenv";

/// A kernel that the next boot starts without a module that this machine uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyKernel {
    /// The release of the kernel. It can be the running one, if the file of its module was removed.
    pub release: String,
    /// The release of the running kernel.
    pub running: String,
    /// Whether it lacks the NVIDIA driver.
    pub lacks_driver: bool,
    /// Whether it lacks nvidia-fs, which is loaded now.
    pub lacks_nvidia_fs: bool,
}

impl UnreadyKernel {
    /// The module that it lacks. Without the driver, nvidia-fs has no use.
    #[must_use]
    pub const fn lacking(&self) -> &'static str {
        if self.lacks_driver { "the NVIDIA driver" } else { "nvidia-fs" }
    }
}

/// The kernel that the next boot starts, if it lacks a module. `None` if nothing shows this, in a container, and on hosts
/// whose image has the modules.
#[must_use]
pub fn unready_kernel(root: &Root) -> Option<UnreadyKernel> {
    if container(root).is_some() || image_host(root).is_some() {
        return None;
    }
    let running = kernel_release(root)?;
    let release = next_kernel_release(root).unwrap_or_else(|| running.clone());
    let rows: Vec<DkmsRow> = dkms_rows(root).into_iter().filter(DkmsRow::is_driver).collect();
    let is_loaded = Driver::of(root).is_loaded();
    let is_used = if release == running {
        // A driver that is not loaded has its own finding.
        is_loaded && root.command(&["modinfo", "nvidia"]).is_some_and(|output| output.exit_code == Some(1))
    } else {
        is_loaded || !rows.is_empty() || has_driver(root, &running)
    };
    let has_file = || has_driver(root, &release) || ubuntu_driver(root, &release).is_some();
    let lacks_driver = is_used && !has_file() && lacks(root, &release, "nvidia", &rows);
    let lacks_nvidia_fs = release != running
        && nvidia_fs_loaded(root) == Some(true)
        && lacks(root, &release, "nvidia_fs", &nvidia_fs_builds(root));
    (lacks_driver || lacks_nvidia_fs).then_some(UnreadyKernel { release, running, lacks_driver, lacks_nvidia_fs })
}

/// Whether a kernel is known to lack a module: DKMS did not install it, and the kernel's list of modules does not have it.
fn lacks(root: &Root, release: &str, module: &str, rows: &[DkmsRow]) -> bool {
    if rows.iter().any(|row| row.is_installed_for(release)) {
        return false;
    }
    match lists_module(root, release, module) {
        Some(is_listed) => !is_listed,
        None => !rows.is_empty() && root.entries(format!("/lib/modules/{release}")).is_ok(),
    }
}

/// Whether a kernel has a module of the driver, not counting Ubuntu's directories.
#[must_use]
pub fn has_driver(root: &Root, kernel: &str) -> bool {
    [
        "extra",
        "updates",
        "updates/dkms",
        "weak-updates",
        "extra/nvidia",
        "updates/nvidia",
        "kernel/drivers/video",
        "nvidia",
    ]
    .iter()
    .any(|folder| {
        let names = root.entries(format!("/lib/modules/{kernel}/{folder}")).unwrap_or_default();
        names.iter().any(|name| name == "nvidia.ko" || name.starts_with("nvidia.ko."))
    })
}

/// The directory in which Ubuntu keeps a driver that it built for a kernel: `nvidia-580srv-open`.
#[must_use]
pub fn ubuntu_driver(root: &Root, kernel: &str) -> Option<String> {
    let names = root.entries(format!("/lib/modules/{kernel}/kernel")).unwrap_or_default();
    let is_driver =
        |name: &str| name.strip_prefix("nvidia-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    names.into_iter().find(|name| is_driver(name) && is_plain_name(name))
}

/// The kernel of the next boot: that of the default entry, or the newest one if GRUB starts its first entry, as on Debian
/// and its derivatives. `None` if it is not known.
#[must_use]
pub fn next_kernel_release(root: &Root) -> Option<String> {
    if let Some((_, next)) = default_entry(root) {
        return Some(next);
    }
    let is_first = starts_first_entry(root);
    let names = root.entries("/boot").unwrap_or_default();
    let releases = names
        .iter()
        .filter_map(|name| name.strip_prefix("vmlinuz-"))
        .filter(|name| !name.ends_with(".old") && is_plain_name(name));
    releases.filter(|_| is_first).max_by_key(|release| release_numbers(release)).map(str::to_owned)
}

/// Whether GRUB starts the first entry of its menu. grub-mkconfig also uses that one if GRUB_DEFAULT is not set or
/// empty.
fn starts_first_entry(root: &Root) -> bool {
    let files = grub_files(root);
    boot_loader(root).is_some_and(|boot| boot.loader == BootLoader::Grub)
        && files.first().is_some_and(|(path, _)| path == GRUB)
        && grub_value(&files, "GRUB_DEFAULT").is_none_or(|(_, value)| matches!(value.as_str(), "" | "0"))
}

/// The default entry in grubenv, and its kernel.
#[must_use]
pub fn default_entry(root: &Root) -> Option<(String, String)> {
    let environment = root.read_text(GRUB_ENVIRONMENT).ok()?;
    let saved = environment.lines().find_map(|line| line.strip_prefix("saved_entry="))?.trim();
    if saved.is_empty() || saved.contains('/') {
        return None;
    }
    let entry = root.read_text(format!("/boot/loader/entries/{saved}.conf")).ok()?;
    let next = entry.lines().find_map(|line| line.strip_prefix("version "))?.trim();
    is_plain_name(next).then(|| (saved.to_owned(), next.to_owned()))
}
