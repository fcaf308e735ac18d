//! Adds arguments to the kernel command line, in the file that this machine's boot loader reads.

use super::parts::{Family, family, line_in, run, words};
use crate::core::Change;
use crate::machine::{BootLoader, Root, boot_loader, kernel_release, os_release};
use std::ops::Range;
use std::path::PathBuf;

const GRUB: &str = "/etc/default/grub";
const CMDLINE: &str = "/etc/kernel/cmdline";

/// The tool that regenerates the menu of GRUB.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Menu {
    /// update-grub of Debian and its derivatives.
    Update,
    /// grubby, which changes all entries.
    Grubby,
    /// pbl of SUSE. It reads the name of the boot loader from /etc/sysconfig/bootloader.
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

/// The place of a new argument, as part of a sentence: `to GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub`.
pub(super) fn place(root: &Root) -> &'static str {
    match (loader(root), menu(root)) {
        (BootLoader::SystemdBoot, _) => "to /etc/kernel/cmdline, the source of systemd-boot's entries",
        (BootLoader::Kernelstub, _) => "to the options of kernelstub for systemd-boot",
        (BootLoader::RpmOstree, _) => "to the kernel arguments of rpm-ostree's deployments",
        (BootLoader::Extlinux, _) => "to APPEND in /boot/extlinux/extlinux.conf",
        (BootLoader::Grub, Menu::Grubby) => "to the boot entries, by grubby",
        (BootLoader::Grub, Menu::Pbl) => "to the boot loader's settings, by pbl",
        (BootLoader::Grub, Menu::Update | Menu::MakeConfig) => "to GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub",
    }
}

/// Whether a separate tool stores the kernel arguments of an image-based system. No new image is then needed.
pub(super) fn is_kept_with_the_image(root: &Root) -> bool {
    loader(root) == BootLoader::RpmOstree
}

/// The changes that add an argument to the kernel command line, and the commands that remove it after the files are
/// restored. Other arguments are unchanged. If the key already has a value, the value is changed.
pub(super) fn arguments(root: &Root, word: &str) -> (Vec<Change>, Vec<Vec<String>>) {
    let started = root.read_text("/proc/cmdline").unwrap_or_default();
    let key = key(word);
    let old: Vec<&str> = started.split_whitespace().filter(|other| self::key(other) == key).collect();
    // The tools support one argument per key, so their argument also includes the values of the running kernel.
    let after = with_word(&started, word).unwrap_or_else(|| started.clone());
    let merged = place_of(&after, key).map_or(word, |place| &after[place]);
    // Some tools only add arguments. The old argument must be removed explicitly.
    let replaced: Vec<&str> = old.into_iter().filter(|other| *other != merged).collect();
    let each = |option: &str, words: &[&str]| words.iter().map(|word| format!("{option}{word}")).collect::<Vec<_>>();
    // The commands for the change and for its undo.
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
        // On SUSE, pbl also writes the entries of systemd-boot.
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
    // The undo does not remove an argument that existed before.
    let is_new = started.split_whitespace().all(|other| other != merged);
    (changes, back.iter().filter(|_| is_new).map(|line| words(line)).collect())
}

/// The part of an argument before the first `=`.
fn key(word: &str) -> &str {
    word.split_once('=').map_or(word, |(key, _)| key)
}

/// The position of the last argument with this key.
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

/// Adds an argument to a command line. `None` if it is already there. A module parameter has a single value, so the
/// value is replaced. For other keys, the value is added to the list.
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
            // Bridges in the existing list are kept.
            Some(known) if self::key(value) == "disable_acs_redir" => union(known, value),
            // For example, `data=ordered` replaces `data=writeback`.
            _ => value.to_owned(),
        };
        parts.chain([last.as_str()]).collect::<Vec<_>>().join(",")
    };
    if now.split(',').any(|part| part == value) || now == wanted {
        return None;
    }
    Some(format!("{}{key}={wanted}{}", &words[..place.start], &words[place.end..]))
}

/// Merges two lists: `KEY=A` and `KEY=B` become `KEY=A;B`.
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

/// The edit of `/etc/kernel/cmdline`, and the command that writes new boot entries. If the file does not exist,
/// kernel-install uses the arguments of the running kernel. So a new file contains them too.
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

/// The edit of GRUB's settings. `None` if they have the argument. `merged` also includes the values of the running
/// kernel.
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
        // The user must edit a line in another form.
        Some(Argument::Unusual) | None => Some(run(&format!("sudoedit {GRUB}"))),
    }
}

/// The edit of a file that is read after the other files in `/etc/default/grub.d`. It is needed if one of them sets
/// the variable again, as in cloud images, because `/etc/default/grub` then has no effect. `None` if no file does or
/// if the argument needs quotes. The inner `None` means that the file already has the argument.
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
    // Files are read in the order of their names, and this name is the last.
    Some(line_in(root, &format!("{FOLDER}/zz-gds-top.cfg"), &format!("{KEY}\"$GRUB_CMDLINE_LINUX_DEFAULT {word}\"")))
}

/// The result of editing `/etc/default/grub`.
#[derive(Debug, PartialEq, Eq)]
enum Argument {
    /// The text with the added argument.
    Added(String),
    /// The text already has the argument.
    There,
    /// The text does not have exactly one ordinary line, or the argument needs quotes.
    Unusual,
}

/// Adds an argument to `GRUB_CMDLINE_LINUX_DEFAULT` in the text of `/etc/default/grub`. An argument with a semicolon
/// is not added, because semicolons separate commands in grub.cfg.
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
