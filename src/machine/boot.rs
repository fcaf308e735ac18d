//! Finds the boot loader of a machine and the location of its kernel command line, by reading files.

use super::root::Root;
use super::summary::os_release;

/// The program that sets the kernel command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootLoader {
    /// GRUB. Its menu is generated from `/etc/default/grub`.
    Grub,
    /// systemd-boot, or kernels that the firmware starts directly. kernel-install generates the boot entries from
    /// `/etc/kernel/cmdline`.
    SystemdBoot,
    /// kernelstub of Pop!_OS, which keeps the kernel options in a separate file.
    Kernelstub,
    /// rpm-ostree, which stores the kernel options with each deployment.
    RpmOstree,
    /// extlinux with the file `/boot/extlinux/extlinux.conf`, as on Tegra boards.
    Extlinux,
}

/// The boot loader and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The boot loader.
    pub loader: BootLoader,
    /// The file that shows the boot loader.
    pub source: String,
    /// The text in that file that shows the boot loader.
    pub text: String,
}

/// The EFI variable in which a boot loader stores its name (Boot Loader Interface of systemd): four bytes of
/// attributes, then UTF-16 text.
const NAME: &str = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The boot loader of this machine; `None` if no file shows it.
#[must_use]
pub fn boot_loader(root: &Root) -> Option<Boot> {
    let boot =
        |loader, source: &str, text: &str| Some(Boot { loader, source: source.to_owned(), text: text.to_owned() });
    let first = |paths: &[&'static str]| paths.iter().copied().find(|path| root.exists(path));
    if root.exists("/run/ostree-booted")
        && let Some(path) = first(&["/usr/bin/rpm-ostree"])
    {
        return boot(BootLoader::RpmOstree, path, "exists");
    }
    // kernelstub sets the kernel options with every boot loader, so it is tested first.
    if let Some(path) = first(&["/etc/kernelstub/configuration", "/usr/bin/kernelstub"]) {
        return boot(BootLoader::Kernelstub, path, "exists");
    }
    let grub = first(&["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/grub2/grubenv", "/boot/grub/grubenv"]);
    if let Some(name) = efi_text(root, NAME) {
        let lower = name.to_lowercase();
        if lower.contains("systemd-boot") || lower.contains("systemd-stub") {
            return boot(BootLoader::SystemdBoot, NAME, &name);
        }
        if lower.contains("grub") {
            return boot(BootLoader::Grub, NAME, &name);
        }
    }
    if let Some(path) = grub {
        return boot(BootLoader::Grub, path, "exists");
    }
    if let Some(path) = first(&["/boot/extlinux/extlinux.conf"]) {
        return boot(BootLoader::Extlinux, path, "exists");
    }
    let entries = ["/efi/loader/loader.conf", "/boot/loader/loader.conf", "/boot/efi/loader/loader.conf"];
    if let Some(path) = first(&entries) {
        return boot(BootLoader::SystemdBoot, path, "exists");
    }
    first(&["/etc/default/grub"]).and_then(|path| boot(BootLoader::Grub, path, "exists"))
}

/// The text of an EFI variable of the Boot Loader Interface.
pub(super) fn efi_text(root: &Root, variable: &str) -> Option<String> {
    let bytes = root.read_bytes(variable).ok()?;
    let units: Vec<u16> = bytes.get(4..)?.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let name = String::from_utf16_lossy(&units);
    let name = name.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
    (!name.is_empty()).then_some(name)
}

/// The initramfs of a kernel, found by the file names that distributions use; `None` if none exists.
#[must_use]
pub fn initramfs(root: &Root, release: &str) -> Option<String> {
    let names = [
        format!("/boot/initrd.img-{release}"),
        format!("/boot/initramfs-{release}.img"),
        format!("/boot/initrd-{release}"),
    ];
    // In an image of OSTree, the initramfs is part of the image and its file time is not meaningful.
    if os_release(root, "OSTREE_VERSION").is_some() {
        return None;
    }
    names.into_iter().find(|path| root.exists(path))
}
