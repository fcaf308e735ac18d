//! Words of the kernel's command line, written where what starts this machine has them from.

use super::parts::{Family, family, line_in, run, words};
use crate::core::Change;
use crate::machine::{BootLoader, Root, boot_loader, kernel_release, os_release};
use std::ops::Range;
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

/// The place of a word, for a sentence: `into GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub`.
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

/// Whether the words of an image-based system are kept by a separate tool, so that a word alone needs no new image.
pub(super) fn is_kept_with_the_image(root: &Root) -> bool {
    loader(root) == BootLoader::RpmOstree
}

/// The changes that add a word to the kernel's command line, and the commands that remove it after the files are restored. Other words stay; an earlier
/// value of the same key is changed.
pub(super) fn arguments(root: &Root, word: &str) -> (Vec<Change>, Vec<Vec<String>>) {
    let started = root.read_text("/proc/cmdline").unwrap_or_default();
    let key = key(word);
    let old: Vec<&str> = started.split_whitespace().filter(|other| self::key(other) == key).collect();
    // Tools know one word per key, so theirs also has the values of the running kernel.
    let after = with_word(&started, word).unwrap_or_else(|| started.clone());
    let merged = place_of(&after, key).map_or(word, |place| &after[place]);
    // Tools that only add would leave the old value next to the new one.
    let replaced: Vec<&str> = old.into_iter().filter(|other| *other != merged).collect();
    let each = |option: &str, words: &[&str]| words.iter().map(|word| format!("{option}{word}")).collect::<Vec<_>>();
    // The lines that make the change, and those that take it back.
    let (lines, back) = match (loader(root), menu(root)) {
        (BootLoader::RpmOstree, _) => {
            let deleted: String = replaced.iter().map(|other| format!("--delete-if-present={other} ")).collect();
            let added: String = replaced.iter().map(|other| format!(" --append-if-missing={other}")).collect();
            (
                vec![format!("sudo rpm-ostree kargs {deleted}--append-if-missing={merged}")],
                vec![format!("sudo rpm-ostree kargs --delete-if-present={merged}{added}")],
            )
        }
        (BootLoader::Kernelstub, _) => (
            [each("sudo kernelstub --delete-options ", &replaced), each("sudo kernelstub --add-options ", &[merged])]
                .concat(),
            [each("sudo kernelstub --delete-options ", &[merged]), each("sudo kernelstub --add-options ", &replaced)]
                .concat(),
        ),
        (BootLoader::Extlinux, _) => (vec!["sudoedit /boot/extlinux/extlinux.conf".to_owned()], Vec::new()),
        // SUSE's tool writes the entries of systemd-boot too.
        (BootLoader::SystemdBoot | BootLoader::Grub, Menu::Pbl) => {
            let config = vec!["sudo pbl --config".to_owned()];
            let edit = |gone: &[&str], come: &[&str]| {
                [each("sudo pbl --del-option ", gone), each("sudo pbl --add-option ", come), config.clone()].concat()
            };
            (edit(&replaced, &[merged]), edit(&[merged], &replaced))
        }
        (BootLoader::Grub, Menu::Grubby) => {
            let mut back = vec![format!("sudo grubby --update-kernel=ALL --remove-args={key}")];
            back.extend(each("sudo grubby --update-kernel=ALL --args=", &replaced));
            (vec![format!("sudo grubby --update-kernel=ALL --args={merged}")], back)
        }
        (BootLoader::SystemdBoot, _) => {
            let (edit, renew) = kernel_install(root, word);
            let changes = edit.into_iter().chain([run(&renew), run("sudo reboot")]).collect();
            return (changes, vec![words(&renew)]);
        }
        (BootLoader::Grub, menu) => {
            let make = match menu {
                Menu::MakeConfig => "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
                _ => "sudo update-grub",
            };
            let changes = grub(root, word, merged).into_iter().chain([run(make), run("sudo reboot")]).collect();
            return (changes, vec![words(make)]);
        }
    };
    let changes = lines.iter().map(|line| run(line)).chain([run("sudo reboot")]).collect();
    // A word that was there before stays.
    let is_new = started.split_whitespace().all(|other| other != merged);
    (changes, back.iter().filter(|_| is_new).map(|line| words(line)).collect())
}

/// The part of a word before the first `=`.
fn key(word: &str) -> &str {
    word.split_once('=').map_or(word, |(key, _)| key)
}

/// The place of the last word with this key.
fn place_of(words: &str, key: &str) -> Option<Range<usize>> {
    let mut end = words.len();
    for word in words.rsplit(|c: char| c.is_ascii_whitespace()) {
        let start = end - word.len();
        if !word.is_empty() && self::key(word) == key {
            return Some(start..end);
        }
        end = start.saturating_sub(1);
    }
    None
}

/// Words of a command line with one more; `None` if it is there. A parameter of a module has one value, so another one is replaced; other keys take a list,
/// so the value is added to the list that is there.
fn with_word(words: &str, word: &str) -> Option<String> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let Some(place) = place_of(words, key) else {
        let gap = if words.is_empty() || words.ends_with(char::is_whitespace) { "" } else { " " };
        return Some(format!("{words}{gap}{word}"));
    };
    let now = words[place.clone()].split_once('=').map_or("", |(_, now)| now);
    let wanted = if key.contains('.') {
        value.to_owned()
    } else {
        let same = |part: &&str| self::key(part) == self::key(value);
        let parts = now.split(',').filter(|part| !part.is_empty() && !same(part));
        let last = match now.split(',').find(same) {
            // Bridges that are listed already stay.
            Some(known) if self::key(value) == "disable_acs_redir" => union(known, value),
            // `data=ordered` takes the place of `data=writeback`.
            _ => value.to_owned(),
        };
        parts.chain([last.as_str()]).collect::<Vec<_>>().join(",")
    };
    if now.split(',').any(|part| part == value) || now == wanted {
        return None;
    }
    Some(format!("{}{key}={wanted}{}", &words[..place.start], &words[place.end..]))
}

/// `KEY=A;B` of `KEY=A` and `KEY=B`.
fn union(known: &str, value: &str) -> String {
    let (key, more) = value.split_once('=').unwrap_or((value, ""));
    let mut items: Vec<&str> = known.split_once('=').map_or("", |(_, list)| list).split(';').collect();
    for item in more.split(';') {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items.retain(|item| !item.is_empty());
    format!("{key}={}", items.join(";"))
}

/// The edit of `/etc/kernel/cmdline`, and the command that writes new entries. Without the file kernel-install takes the words of the running kernel, so
/// a new file has those too.
fn kernel_install(root: &Root, word: &str) -> (Option<Change>, String) {
    let before = root.read_text(CMDLINE).ok();
    let started = || {
        let text = root.read_text("/proc/cmdline").ok()?;
        let of_the_loader = |word: &&str| !word.starts_with("BOOT_IMAGE=") && !word.starts_with("initrd=");
        Some(text.split_whitespace().filter(of_the_loader).collect::<Vec<_>>().join(" "))
    };
    let edit = match before.clone().or_else(started) {
        Some(words) => {
            let after = with_word(words.trim_end(), word).map_or_else(|| words.clone(), |after| format!("{after}\n"));
            (before.as_ref() != Some(&after)).then(|| Change::WriteFile {
                path: PathBuf::from(CMDLINE),
                before,
                after,
                mode: 0o644,
            })
        }
        None => Some(run(&format!("sudoedit {CMDLINE}"))),
    };
    let release = kernel_release(root).unwrap_or_else(|| "KERNEL".to_owned());
    let image = match family(root) {
        Family::Debian => format!("/boot/vmlinuz-{release}"),
        _ => format!("/lib/modules/{release}/vmlinuz"),
    };
    let renew = if root.exists("/etc/kernel/proxmox-boot-uuids") {
        "sudo proxmox-boot-tool refresh".to_owned()
    } else {
        format!("sudo kernel-install add {release} {image}")
    };
    (edit, renew)
}

/// The edit of GRUB's settings; none if the word is there. `merged` also has the values of the running kernel.
fn grub(root: &Root, word: &str, merged: &str) -> Option<Change> {
    if let Some(file) = behind_others(root, merged) {
        return file;
    }
    let before = root.read_text(GRUB).ok();
    match before.as_deref().map(|text| with_argument(text, word)) {
        Some(Argument::Added(after)) => {
            Some(Change::WriteFile { path: PathBuf::from(GRUB), before, after, mode: 0o644 })
        }
        Some(Argument::There) => None,
        // A line that differs from the usual is edited by hand.
        Some(Argument::Unusual) | None => Some(run(&format!("sudoedit {GRUB}"))),
    }
}

/// A file behind those of `/etc/default/grub.d`, if one of them sets the line again, as in cloud images:
/// `/etc/default/grub` is not in effect then. `None` if no file does, or the word needs quotes; an inner `None` if
/// the file has the word.
fn behind_others(root: &Root, word: &str) -> Option<Option<Change>> {
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
    Some(line_in(root, &format!("{FOLDER}/zz-gds-top.cfg"), &format!("{KEY}\"$GRUB_CMDLINE_LINUX_DEFAULT {word}\"")))
}

/// The result of an edit of `/etc/default/grub`.
#[derive(Debug, PartialEq, Eq)]
enum Argument {
    /// The text with the word.
    Added(String),
    /// The word is there.
    There,
    /// It has not one usual line to add the word to, or the word needs quotes.
    Unusual,
}

/// `/etc/default/grub` with a word in `GRUB_CMDLINE_LINUX_DEFAULT`. A semicolon parts commands in grub.cfg, so a word with one is not added.
fn with_argument(grub: &str, word: &str) -> Argument {
    const KEY: &str = "GRUB_CMDLINE_LINUX_DEFAULT=";
    let is_ours = |line: &&str| line.trim_start().starts_with(KEY);
    let mut lines = grub.lines().filter(is_ours);
    let (Some(line), None) = (lines.next(), lines.next()) else { return Argument::Unusual };
    let value = line.trim_start().strip_prefix(KEY).unwrap_or_default().trim_end();
    let (quote, inner) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => match value[1..].strip_suffix(quote).filter(|inner| !inner.contains(quote)) {
            Some(inner) => (quote, inner),
            None => return Argument::Unusual,
        },
        _ if value.contains(['"', '\'', '#', ' ']) => return Argument::Unusual,
        _ => ('"', value),
    };
    match with_word(inner, word) {
        Some(_) if word.contains(';') => Argument::Unusual,
        None => Argument::There,
        Some(inner) => Argument::Added(grub.replacen(line, &format!("{KEY}{quote}{inner}{quote}"), 1)),
    }
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
            assert_eq!(with_argument(&grub(before), "iommu=pt"), Argument::Added(grub(after)));
            assert_eq!(with_argument(&grub(after), "iommu=pt"), Argument::There);
        }
        for line in [
            "GRUB_TIMEOUT=1",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"a\" # x",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"a\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"b\"",
        ] {
            assert_eq!(with_argument(&grub(line), "iommu=pt"), Argument::Unusual, "{line}");
        }
        let semicolon = with_argument(&grub("GRUB_CMDLINE_LINUX_DEFAULT=\"\""), "pci=disable_acs_redir=a;b");
        assert_eq!(semicolon, Argument::Unusual);
    }

    #[test]
    fn a_word_meets_the_words_that_are_there() {
        for (before, word, after) in [
            ("", "iommu=pt", Some("iommu=pt")),
            ("quiet  splash", "iommu=pt", Some("quiet  splash iommu=pt")),
            ("a iommu=nobypass b", "iommu=pt", Some("a iommu=nobypass,pt b")),
            ("a iommu=nobypass,pt", "iommu=pt", None),
            ("intel_iommu=on", "iommu=pt", Some("intel_iommu=on iommu=pt")),
            (
                "nvme_core.io_timeout=255 nvme_core.multipath=Y q",
                "nvme_core.multipath=N",
                Some("nvme_core.io_timeout=255 nvme_core.multipath=N q"),
            ),
            ("nvme_core.multipath=N", "nvme_core.multipath=N", None),
            (
                "ro rootflags=noatime,data=writeback",
                "rootflags=data=ordered",
                Some("ro rootflags=noatime,data=ordered"),
            ),
            ("pci=noaer,disable_acs_redir=a;b", "pci=disable_acs_redir=b;c", Some("pci=noaer,disable_acs_redir=a;b;c")),
            ("pci=noaer", "pci=disable_acs_redir=0000:40:01.0", Some("pci=noaer,disable_acs_redir=0000:40:01.0")),
        ] {
            assert_eq!(with_word(before, word).as_deref(), after, "{before} + {word}");
        }
    }
}
