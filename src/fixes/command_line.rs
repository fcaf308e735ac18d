//! Words of the kernel's command line, written where what starts this machine has them from.

use super::recipes::{Family, family, line_in, run};
use crate::domain::Change;
use crate::host::{BootLoader, Root, boot_loader, kernel_release, os_release};
use std::path::PathBuf;

const GRUB: &str = "/etc/default/grub";
const CMDLINE: &str = "/etc/kernel/cmdline";

/// How GRUB's menu is made here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Menu {
    /// update-grub of Debian and its kin.
    Update,
    /// grubby, which writes into every entry.
    Grubby,
    /// pbl of SUSE, which knows the boot loader by /etc/sysconfig/bootloader.
    Pbl,
    /// grub2-mkconfig, as on Azure Linux.
    MakeConfig,
}

fn menu(root: &Root) -> Menu {
    match family(root) {
        Family::Debian => Menu::Update,
        Family::Suse => Menu::Pbl,
        Family::RedHat if os_release(root, "ID").as_deref() == Some("azurelinux") => Menu::MakeConfig,
        Family::RedHat => Menu::Grubby,
    }
}

fn loader(root: &Root) -> BootLoader {
    boot_loader(root).map_or(BootLoader::Grub, |boot| boot.loader)
}

/// Where a word goes, for a sentence: `into GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub`.
pub(super) fn place(root: &Root) -> &'static str {
    match (loader(root), menu(root)) {
        (BootLoader::SystemdBoot, _) => "into /etc/kernel/cmdline, from which the entries of systemd-boot are made",
        (BootLoader::Kernelstub, _) => "into the options of kernelstub, which keeps them for systemd-boot",
        (BootLoader::RpmOstree, _) => "into the kernel arguments that rpm-ostree keeps with each deployment",
        (BootLoader::Extlinux, _) => "behind APPEND in /boot/extlinux/extlinux.conf",
        (BootLoader::Grub, Menu::Grubby) => "into the boot entries, by grubby",
        (BootLoader::Grub, Menu::Pbl) => "into the boot loader's settings, by pbl",
        (BootLoader::Grub, Menu::Update | Menu::MakeConfig) => "into GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub",
    }
}

/// Whether the words of an image-based system are kept by a tool of its own, so that a word alone needs no new image.
pub(super) fn is_kept_with_the_image(root: &Root) -> bool {
    loader(root) == BootLoader::RpmOstree
}

/// A word more on the kernel's command line.
pub(super) fn arguments(root: &Root, word: &str) -> Vec<Change> {
    let mut changes = match (loader(root), menu(root)) {
        (BootLoader::RpmOstree, _) => vec![run(&format!("sudo rpm-ostree kargs --append-if-missing={word}"))],
        (BootLoader::Kernelstub, _) => vec![run(&format!("sudo kernelstub --add-options {word}"))],
        (BootLoader::Extlinux, _) => vec![run("sudoedit /boot/extlinux/extlinux.conf")],
        // Its own tool knows systemd-boot as well.
        (BootLoader::SystemdBoot | BootLoader::Grub, Menu::Pbl) => {
            vec![run(&format!("sudo pbl --add-option {word}")), run("sudo pbl --config")]
        }
        (BootLoader::SystemdBoot, _) => kernel_install(root, word),
        (BootLoader::Grub, Menu::Grubby) => vec![run(&format!("sudo grubby --update-kernel=ALL --args={word}"))],
        (BootLoader::Grub, menu) => {
            vec![
                grub(root, word),
                run(if menu == Menu::MakeConfig {
                    "sudo grub2-mkconfig -o /boot/grub2/grub.cfg"
                } else {
                    "sudo update-grub"
                }),
            ]
        }
    };
    changes.push(run("sudo reboot"));
    changes
}

/// The words of `/etc/kernel/cmdline`, and the entries anew. Without the file kernel-install takes the words that the kernel was started with, so a new one
/// has those too.
fn kernel_install(root: &Root, word: &str) -> Vec<Change> {
    let before = root.read_text(CMDLINE).ok();
    let started = || {
        let text = root.read_text("/proc/cmdline").ok()?;
        let of_the_loader = |word: &&str| !word.starts_with("BOOT_IMAGE=") && !word.starts_with("initrd=");
        Some(text.split_whitespace().filter(of_the_loader).collect::<Vec<_>>().join(" "))
    };
    let edit = match before.clone().or_else(started) {
        Some(words) => Change::WriteFile {
            path: PathBuf::from(CMDLINE),
            before,
            after: format!("{} {word}\n", words.trim_end()),
            mode: 0o644,
        },
        None => run(&format!("sudoedit {CMDLINE}")),
    };
    let release = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
    let image = match family(root) {
        Family::Debian => format!("/boot/vmlinuz-{release}"),
        _ => format!("/lib/modules/{release}/vmlinuz"),
    };
    let renew = if root.exists("/etc/kernel/proxmox-boot-uuids") {
        run("sudo proxmox-boot-tool refresh")
    } else {
        run(&format!("sudo kernel-install add {release} {image}"))
    };
    vec![edit, renew]
}

fn grub(root: &Root, word: &str) -> Change {
    if let Some(edit) = behind_others(root, word) {
        return edit;
    }
    let before = root.read_text(GRUB).ok();
    match before.as_deref().and_then(|text| with_argument(text, word)) {
        Some(after) => Change::WriteFile { path: PathBuf::from(GRUB), before, after, mode: 0o644 },
        // A line that differs from the usual is edited by hand.
        None => run(&format!("sudoedit {GRUB}")),
    }
}

/// A file behind those of `/etc/default/grub.d`, where one of them sets the line anew, as in cloud images: what stands in `/etc/default/grub` is not in
/// effect then. None where no file does, or the word needs quotes of its own.
fn behind_others(root: &Root, word: &str) -> Option<Change> {
    const FOLDER: &str = "/etc/default/grub.d";
    const KEY: &str = "GRUB_CMDLINE_LINUX_DEFAULT=";
    let names = root.entries(FOLDER).unwrap_or_default();
    let sets = |name: &&String| {
        name.ends_with(".cfg")
            && root
                .read_text(format!("{FOLDER}/{name}"))
                .is_ok_and(|text| text.lines().any(|l| l.trim().starts_with(KEY)))
    };
    if word.contains(';') || !names.iter().any(|name| sets(&name)) {
        return None;
    }
    // Names are taken in order, so this one comes last.
    line_in(root, &format!("{FOLDER}/zz-gds-top.cfg"), &format!("{KEY}\"$GRUB_CMDLINE_LINUX_DEFAULT {word}\""))
}

/// `/etc/default/grub` with a word more in `GRUB_CMDLINE_LINUX_DEFAULT`; none where it has not one such line, the word is there, or it needs quotes of
/// its own (a semicolon parts commands in grub.cfg).
fn with_argument(grub: &str, word: &str) -> Option<String> {
    const KEY: &str = "GRUB_CMDLINE_LINUX_DEFAULT=";
    let is_ours = |line: &&str| line.trim_start().starts_with(KEY);
    if word.contains(';') || grub.lines().filter(is_ours).count() != 1 {
        return None;
    }
    let line = grub.lines().find(is_ours)?;
    let value = line.trim_start().strip_prefix(KEY)?.trim_end();
    let (quote, inner) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => (quote, value[1..].strip_suffix(quote).filter(|inner| !inner.contains(quote))?),
        _ if value.contains(['"', '\'', '#', ' ']) => return None,
        _ => ('"', value),
    };
    if inner.split_whitespace().any(|known| known == word) {
        return None;
    }
    let gap = if inner.is_empty() { "" } else { " " };
    Some(grub.replacen(line, &format!("{KEY}{quote}{inner}{gap}{word}{quote}"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_added_to_the_line_of_grub_and_nothing_else_moves() {
        let grub = |line: &str| {
            format!("# GRUB_CMDLINE_LINUX_DEFAULT=\"old\"\nGRUB_TIMEOUT=0\n{line}\nGRUB_CMDLINE_LINUX=\"\"\n")
        };
        for (before, after) in [
            ("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash iommu=pt\""),
            ("GRUB_CMDLINE_LINUX_DEFAULT=''", "GRUB_CMDLINE_LINUX_DEFAULT='iommu=pt'"),
            ("GRUB_CMDLINE_LINUX_DEFAULT=quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\""),
        ] {
            assert_eq!(with_argument(&grub(before), "iommu=pt"), Some(grub(after)));
            assert_eq!(with_argument(&grub(after), "iommu=pt"), None, "it is there");
        }
        for line in [
            "GRUB_TIMEOUT=1",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"a\" # x",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"a\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"b\"",
        ] {
            assert_eq!(with_argument(&grub(line), "iommu=pt"), None, "{line}");
        }
        assert_eq!(with_argument(&grub("GRUB_CMDLINE_LINUX_DEFAULT=\"\""), "pci=disable_acs_redir=a;b"), None);
    }
}
