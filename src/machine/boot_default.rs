//! The setting with which the boot loader selects one certain kernel, also after another one was installed.

use super::boot::{BootLoader, boot_loader, efi_text};
use super::grub::{grub_files, grub_value, shell_value};
use super::packages::{Family, family};
use super::root::Root;

/// A setting that selects the entry of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedEntry {
    /// The file with the setting.
    pub source: String,
    /// The setting.
    pub text: String,
}

/// The file in which gds-top selects an entry of GRUB on Debian and its derivatives, where it overrides
/// /etc/default/grub.
pub const PINNED_BY_GRUB: &str = "/etc/default/grub.d/zz-gds-top-kernel.cfg";

/// The EFI variable of systemd-boot's default entry (Boot Loader Interface). It overrides loader.conf.
const DEFAULT_ENTRY: &str = "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The setting that selects the entry of one kernel. `None` if the boot loader starts a newly installed kernel, or if no
/// file shows it.
#[must_use]
pub fn pinned_entry(root: &Root) -> Option<PinnedEntry> {
    match boot_loader(root)?.loader {
        BootLoader::Grub => by_grub(root),
        BootLoader::SystemdBoot => by_systemd_boot(root),
        BootLoader::Extlinux => by_extlinux(root),
        BootLoader::Kernelstub | BootLoader::RpmOstree => None,
    }
}

fn by_grub(root: &Root) -> Option<PinnedEntry> {
    let files = grub_files(root);
    let (source, set) = grub_value(&files, "GRUB_DEFAULT")?;
    if set != "saved" {
        return names_kernel(&set).then(|| PinnedEntry { source, text: format!("GRUB_DEFAULT={set}") });
    }
    // With this setting, the script 20-grub.install of Fedora and RHEL makes a new kernel the saved entry.
    let kernel = root.read_text("/etc/sysconfig/kernel").unwrap_or_default();
    let is_updated = shell_value(&kernel, "UPDATEDEFAULT").as_deref() == Some("yes")
        && grub_value(&files, "GRUB_UPDATE_DEFAULT_KERNEL").is_none_or(|(_, value)| value != "false");
    if family(root) == Family::RedHat && is_updated {
        return None;
    }
    ["/boot/grub2/grubenv", "/boot/grub/grubenv"].into_iter().find_map(|path| {
        let text = root.read_text(path).ok()?;
        let saved = text.lines().find_map(|line| line.strip_prefix("saved_entry="))?.trim().to_owned();
        names_kernel(&saved).then(|| PinnedEntry { source: path.to_owned(), text: format!("saved_entry={saved}") })
    })
}

fn by_systemd_boot(root: &Root) -> Option<PinnedEntry> {
    let is_one = |name: &str| !name.contains(['*', '?', '[', '@']) && names_kernel(name);
    if let Some(text) = efi_text(root, DEFAULT_ENTRY) {
        return is_one(&text).then(|| PinnedEntry { source: DEFAULT_ENTRY.to_owned(), text });
    }
    ["/efi/loader/loader.conf", "/boot/loader/loader.conf", "/boot/efi/loader/loader.conf"].into_iter().find_map(
        |path| {
            let text = root.read_text(path).ok()?;
            let line = text.lines().map(str::trim).find(|line| line.starts_with("default "))?;
            is_one(line).then(|| PinnedEntry { source: path.to_owned(), text: line.to_owned() })
        },
    )
}

/// The id of systemd-boot's entry for a kernel: the name of a file of its directories. `None` if they cannot be read, or if the
/// names have another form.
#[must_use]
pub fn systemd_boot_entry(root: &Root, release: &str) -> Option<String> {
    let end = format!("-{release}");
    let is_of_kernel = |name: &String| {
        let stem = name.strip_suffix(".conf").or_else(|| name.strip_suffix(".efi"));
        stem.is_some_and(|stem| stem.ends_with(&end))
    };
    let places = ["/efi", "/boot", "/boot/efi"].into_iter();
    let mut folders = places.flat_map(|place| [format!("{place}/loader/entries"), format!("{place}/EFI/Linux")]);
    folders.find_map(|folder| root.entries(&folder).ok()?.into_iter().find(is_of_kernel))
}

/// The entries of extlinux are fixed, unless u-boot-menu writes them.
fn by_extlinux(root: &Root) -> Option<PinnedEntry> {
    const PATH: &str = "/boot/extlinux/extlinux.conf";
    let text = root.read_text(PATH).ok().filter(|_| !root.exists("/etc/default/u-boot"))?;
    let line = text.lines().map(str::trim).find(|line| line.to_ascii_lowercase().starts_with("default "))?;
    Some(PinnedEntry { source: PATH.to_owned(), text: line.to_owned() })
}

/// Whether a boot entry is that of one kernel: it has a kernel release, or a position other than the first one. The first
/// entry, and the first one of the menu of kernels (`1>0`), are those of the newest kernel.
fn names_kernel(entry: &str) -> bool {
    if let Some((_, last)) = entry.rsplit_once('>') {
        return last.trim() != "0";
    }
    match entry.parse::<u32>() {
        Ok(position) => position != 0,
        Err(_) => entry
            .split([' ', '-'])
            .any(|word| word.starts_with(|letter: char| letter.is_ascii_digit()) && word.matches('.').count() >= 2),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_kernel_is_a_file_of_systemd_boot() {
        let folder = tempfile::tempdir().unwrap();
        let entry = |release: &str| systemd_boot_entry(&Root::tree(folder.path()).unwrap(), release);
        assert_eq!(entry("6.1.0-41-amd64"), None);
        let path = folder.path().join("boot/efi/loader/entries");
        std::fs::create_dir_all(&path).unwrap();
        for name in ["3c0a-6.1.0-41-amd64.conf", "3c0a-6.1.0-41-amd64-rescue.conf", "memtest.conf"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        assert_eq!(entry("6.1.0-41-amd64").as_deref(), Some("3c0a-6.1.0-41-amd64.conf"));
        assert_eq!(entry("1.0-41-amd64"), None);
    }

    #[test]
    fn an_entry_of_one_kernel_is_recognised() {
        for (entry, expected) in [
            ("0", false),
            ("2", true),
            ("1>0", false),
            ("1>2", true),
            ("Advanced options for Ubuntu>Ubuntu, with Linux 5.15.0-130-generic", true),
            ("gnulinux-simple-2d3c-4f", false),
            ("gnulinux-5.15.0-130-generic-advanced-2d3c-4f", true),
            ("openSUSE Leap 15.6", false),
            ("5e1f-5.14.0-427.13.1.el9_4.x86_64", true),
            ("arch.conf", false),
            ("", false),
        ] {
            assert_eq!(names_kernel(entry), expected, "{entry}");
        }
    }
}
