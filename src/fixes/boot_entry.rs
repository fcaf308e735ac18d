//! Which kernel a plan means: an installed one with P2PDMA, or the one that a command has just installed; and how the
//! boot loader starts it.

use super::parts::{Family, run};
use crate::core::Change;
use crate::machine::{
    BootLoader, PINNED_BY_GRUB, Root, boot_loader, installed_kernels, is_foreign_kernel, kernel_release, packages,
    pinned_entry, systemd_boot_entry,
};
use crate::text::quoted;

/// Whether the boot loader may start another kernel than the one that a package brings: a custom kernel can
/// have a higher version.
pub(super) fn has_foreign(root: &Root) -> bool {
    let running = kernel_release(root);
    installed_kernels(root).into_iter().chain(running).any(|release| is_foreign_kernel(&release))
}

/// A shell command that names the kernel of the package `package` after its installation.
pub(super) fn of_package(family: Family, package: &str) -> String {
    match family {
        // The package only depends on that of the kernel.
        Family::Debian => format!(
            "new=$(dpkg-query -W -f='${{Depends}}' {package} | grep -o 'linux-image-[0-9][^ ,]*' | head -n 1 | cut -d - -f 3-)"
        ),
        Family::RedHat | Family::Suse => format!(
            "new=$(rpm -ql \"$(rpm -q --last {package} | head -n 1 | cut -d ' ' -f 1)\" | grep -o '/lib/modules/[^/]*' | head -n 1 | cut -d / -f 4)"
        ),
    }
}

/// Why the boot loader does not start a new kernel by itself: a sentence that starts with a space. `None` if it does.
pub(super) fn pinned(root: &Root) -> Option<String> {
    let pinned = pinned_entry(root)?;
    let edit = match boot_loader(root).map(|boot| boot.loader) {
        Some(BootLoader::Extlinux) => " Add an entry for the new kernel there, and name its label after DEFAULT.",
        _ => "",
    };
    Some(format!(
        " The boot loader starts another kernel, because {} has {}, so the plan changes its default.{edit}",
        pinned.source, pinned.text
    ))
}

/// The commands that make a kernel the default of the boot loader. `release` can be a variable of a shell.
pub(super) fn start_by_default(root: &Root, family: Family, release: &str, before: &str) -> Change {
    let script = match (boot_loader(root).map(|boot| boot.loader), family) {
        // Its default is the label of an entry, which a person must write.
        (Some(BootLoader::Extlinux), _) => return run("sudoedit /boot/extlinux/extlinux.conf"),
        // Before version 250, systemd-boot does not know patterns, so the complete id is set. Without a name of a file, it
        // is one of the list: on SUSE, the number of a snapshot follows the kernel.
        (Some(BootLoader::SystemdBoot), _) => match systemd_boot_entry(root, release) {
            Some(entry) => {
                let argv = ["sudo", "bootctl", "set-default", &entry].map(str::to_owned).to_vec();
                return Change::Run { argv };
            }
            None => format!(
                "{before}entry=$(bootctl list | sed -n 's/^ *id: *//p' | grep -F -e \"-{release}.\" -e \"-{release}-\" | head -n 1) && test -n \"$entry\" && bootctl set-default \"$entry\""
            ),
        },
        (Some(BootLoader::Kernelstub), _) => {
            format!("{before}kernelstub -k \"/boot/vmlinuz-{release}\" -i \"/boot/initrd.img-{release}\"")
        }
        // A file in this directory overrides /etc/default/grub on Debian and Ubuntu.
        (_, Family::Debian) => format!(
            "{before}root=$(grub-probe --target=fs_uuid /) && echo \"GRUB_DEFAULT='gnulinux-advanced-$root>gnulinux-{release}-advanced-$root'\" > {PINNED_BY_GRUB} && update-grub && grep -q \"gnulinux-{release}-advanced-$root\" /boot/grub/grub.cfg"
        ),
        (_, Family::RedHat) => format!("{before}grubby --set-default \"/boot/vmlinuz-{release}\""),
        (_, Family::Suse) => format!(
            "{before}root=$(grub2-probe --target=fs_uuid /) && grub2-set-default \"gnulinux-advanced-$root>gnulinux-{release}-advanced-$root\" && grub2-mkconfig -o /boot/grub2/grub.cfg"
        ),
    };
    Change::Run { argv: ["sudo", "sh", "-c", &script].map(str::to_owned).to_vec() }
}

/// How to return to the present kernel.
pub(super) fn undo(root: &Root, family: Family) -> String {
    let present = || kernel_release(root).and_then(|release| systemd_boot_entry(root, &release));
    match (boot_loader(root).map_or(BootLoader::Grub, |boot| boot.loader), family) {
        (BootLoader::SystemdBoot, _) => match present() {
            Some(entry) => format!("sudo bootctl set-default {}, then reboot", quoted(&entry)),
            None => "choose the old kernel in the boot menu".to_owned(),
        },
        (BootLoader::Grub, Family::Debian) => format!("sudo rm {PINNED_BY_GRUB} && sudo update-grub, then reboot"),
        _ => "choose the old kernel in the boot menu".to_owned(),
    }
}

/// The commands that start an installed kernel. DKMS builds its modules first, if it has them for another one only. The
/// families of RHEL install a kernel without its headers.
pub(super) fn changes(root: &Root, family: Family, release: &str, to_build: bool) -> Vec<Change> {
    let lacks_headers =
        to_build && family == Family::RedHat && !root.exists(format!("/lib/modules/{release}/build/Makefile"));
    let headers = lacks_headers.then(|| packages::install_headers(root, release, false)).flatten();
    let build = to_build.then(|| run(&format!("sudo dkms autoinstall -k {release}")));
    let found = run(&format!("sudo modinfo -k {release} -n nvidia"));
    let headers = headers.map(|line| run(&line.replacen(" install ", " install -y ", 1)));
    let first = headers.into_iter().chain(build);
    first.chain([found, start_by_default(root, family, release, ""), run("sudo reboot")]).collect()
}
