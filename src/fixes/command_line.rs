//! Adds arguments to the kernel command line, in the file that this machine's boot loader reads.

use super::parts::{Family, family, line_in, run, words};
use crate::core::Change;
use crate::machine::{
    BootLoader, GRUB, GRUB_FOLDER, GrubArgument, Root, boot_loader, grub_files, grub_lines, os_release, renew_entries,
};
use std::ops::Range;
use std::path::PathBuf;

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

/// Whether no file shows the boot loader of a machine with a device tree, as with a boot script of U-Boot. It has no tools
/// of GRUB.
pub(super) fn is_unknown(root: &Root) -> bool {
    root.exists("/proc/device-tree") && !root.exists("/sys/firmware/efi") && boot_loader(root).is_none()
}

/// Whether a change is for GRUB.
pub(super) fn is_of_grub(change: &Change) -> bool {
    match change {
        Change::Run { argv } => argv.iter().any(|word| word.contains("grub") || word == "pbl"),
        Change::WriteFile { path, .. } => path.to_string_lossy().starts_with(GRUB),
    }
}

/// The place of a new argument, as part of a sentence: `to GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub`.
pub(super) fn place(root: &Root) -> &'static str {
    if is_unknown(root) {
        return "to the settings of the boot loader, which no file shows";
    }
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
            let merged = in_quotes(merged);
            let deleted: String =
                replaced.iter().map(|other| format!("--delete-if-present={} ", in_quotes(other))).collect();
            let added: String =
                replaced.iter().map(|other| format!(" --append-if-missing={}", in_quotes(other))).collect();
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
        // Whether pbl keeps quotes is not known, so a person edits the file.
        (BootLoader::Grub, Menu::Pbl) if merged.contains(';') => {
            (vec![format!("sudoedit {GRUB}"), "sudo pbl --config".to_owned()], Vec::new())
        }
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
            let add = |word: &str| format!("sudo grubby --update-kernel=ALL --args={}", in_quotes(word));
            back.extend(replaced.iter().map(|word| add(word)));
            (vec![add(merged)], back)
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

/// How an argument is removed from the kernel command line.
pub(super) struct Removed {
    /// Its value in the file of the boot loader, or of the running kernel.
    pub(super) value: String,
    /// The changes that remove it.
    pub(super) changes: Vec<Change>,
    /// The commands that add it again after the files are restored.
    pub(super) undo: Vec<Vec<String>>,
}

/// How the argument with this key is removed. `None` if the kernel has no such argument, or if it is not known where it
/// is set.
pub(super) fn without(root: &Root, key: &str) -> Option<Removed> {
    let started = root.read_text("/proc/cmdline").unwrap_or_default();
    let word = place_of(started.trim_end(), key).map(|place| started[place].to_owned());
    let value = |word: &str| word.split_once('=').map_or_else(String::new, |(_, value)| value.to_owned());
    let by = |lines: Vec<String>, back: Vec<String>, word: &str| Removed {
        value: value(word),
        changes: lines.iter().map(|line| run(line)).collect(),
        undo: back.iter().map(|line| words(line)).collect(),
    };
    match (loader(root), menu(root)) {
        // GRUB may have cut the value at a semicolon. These tools need the value that is stored, which is not known.
        (BootLoader::Extlinux | BootLoader::RpmOstree, _) | (_, Menu::Pbl) => None,
        (BootLoader::Kernelstub, _) => word.map(|word| {
            let back = format!("sudo kernelstub --add-options {word}");
            by(vec![format!("sudo kernelstub --delete-options {word}")], vec![back], &word)
        }),
        (BootLoader::Grub, Menu::Grubby) => in_entries(root, key).map(|word| {
            let back = format!("sudo grubby --update-kernel=ALL --args={}", in_quotes(&word));
            by(vec![format!("sudo grubby --update-kernel=ALL --remove-args={key}")], vec![back], &word)
        }),
        (BootLoader::SystemdBoot, _) => {
            let before = root.read_text(CMDLINE).ok()?;
            let place = place_of(before.trim_end(), key)?;
            let word = before[place.clone()].to_owned();
            let after = format!("{}{}", before[..place.start].trim_end(), &before[place.end..]);
            let (_, renew) = kernel_install(root, &word);
            let edit = Change::WriteFile { path: PathBuf::from(CMDLINE), before: Some(before), after, mode: 0o644 };
            Some(Removed { value: value(&word), changes: vec![edit, run(&renew)], undo: vec![words(&renew)] })
        }
        (BootLoader::Grub, menu) => {
            let make = match menu {
                Menu::MakeConfig => "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
                _ => "sudo update-grub",
            };
            let (found, edits) = from_grub(root, key);
            // A script of /etc/grub.d can add an argument that is in none of these files.
            let word = found.filter(|_| root.exists(GRUB))?;
            let changes = edits.into_iter().chain([run(make)]).collect();
            Some(Removed { value: value(&word), changes, undo: vec![words(make)] })
        }
    }
}

/// The argument in the boot entries, with its complete value. `None` if no entry can be read or has it.
fn in_entries(root: &Root, key: &str) -> Option<String> {
    const FOLDER: &str = "/boot/loader/entries";
    let names = root.entries(FOLDER).ok()?;
    let entries = names.iter().filter_map(|name| root.read_text(format!("{FOLDER}/{name}")).ok());
    entries
        .filter_map(|entry| {
            let options = entry.lines().find_map(|line| line.strip_prefix("options "))?.trim_end().to_owned();
            place_of(&options, key).map(|place| options[place].trim_matches('"').to_owned())
        })
        .next()
}

/// The edits that remove an argument from GRUB's settings, and the argument that was there.
fn from_grub(root: &Root, key: &str) -> (Option<String>, Vec<Change>) {
    let mut found = None;
    let mut changes = Vec::new();
    for (path, before) in grub_files(root) {
        let lines = grub_lines(&before);
        let ours: Vec<&GrubArgument> =
            lines.iter().flat_map(|line| &line.arguments).filter(|word| self::key(&word.text) == key).collect();
        let mut after = before.clone();
        for word in ours.iter().rev() {
            // The blank before the argument is removed too, or the one after the first argument.
            let (mut start, mut end) = (word.place.start, word.place.end);
            if after[..start].ends_with(' ') {
                start -= 1;
            } else if after[end..].starts_with(' ') {
                end += 1;
            }
            after.replace_range(start..end, "");
        }
        if let Some(word) = ours.last() {
            found = Some(word.text.clone());
            changes.push(Change::WriteFile { path: PathBuf::from(path), before: Some(before), after, mode: 0o644 });
        }
    }
    (found, changes)
}

/// An argument as GRUB reads it in a boot entry. Its command blscfg makes a script of the entry, in which a semicolon
/// without quotes ends the command (rhboot/grub2, `create_entry`).
fn in_quotes(word: &str) -> String {
    if word.contains(';') && !word.contains('"') { format!("\"{word}\"") } else { word.to_owned() }
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
    (edit, renew_entries(root))
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
        // Debian's GRUB reads the directory after the file, so the form of the line does not matter.
        Some(Argument::Unusual) if family(root) == Family::Debian && !merged.contains(';') => last_file(root, merged),
        // The user must edit a line in another form.
        Some(Argument::Unusual) | None => Some(run(&format!("sudoedit {GRUB}"))),
    }
}

/// The edit of a file that is read after the other files in `/etc/default/grub.d`. It is needed if one of them sets
/// the variable again, as in cloud images, because `/etc/default/grub` then has no effect. `None` if no file does or
/// if the argument needs quotes. The inner `None` means that the file already has the argument.
fn behind_others(root: &Root, word: &str) -> Option<Option<Change>> {
    const KEY: &str = "GRUB_CMDLINE_LINUX_DEFAULT=";
    let names = root.entries(GRUB_FOLDER).unwrap_or_default();
    let sets = |name: &&String| {
        name.ends_with(".cfg")
            && root
                .read_text(format!("{GRUB_FOLDER}/{name}"))
                .is_ok_and(|text| text.lines().any(|l| l.trim().starts_with(KEY)))
    };
    if word.contains(';') || !names.iter().any(|name| sets(&name)) {
        return None;
    }
    Some(last_file(root, word))
}

/// The edit of the last file that GRUB reads: files are read in the order of their names.
fn last_file(root: &Root, word: &str) -> Option<Change> {
    let line = format!("GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {word}\"");
    line_in(root, &format!("{GRUB_FOLDER}/zz-gds-top.cfg"), &line)
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
#[allow(clippy::unwrap_used)]
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
    fn an_argument_leaves_the_files_of_grub_and_nothing_else_moves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etc/default");
        std::fs::create_dir_all(&path).unwrap();
        for (before, after, value) in [
            ("\"quiet a.b=c=1;d=1 x\"", "\"quiet x\"", Some("a.b=c=1;d=1")),
            ("\"a.b=\\\"c=1;d=1\\\" x\"", "\"x\"", Some("a.b=c=1;d=1")),
            ("'a.b=\"c=1\"'", "''", Some("a.b=c=1")),
            ("\"a.bc=1\"", "\"a.bc=1\"", None),
        ] {
            let text = |value: &str| format!("GRUB_TIMEOUT=1\nGRUB_CMDLINE_LINUX_DEFAULT={value}\n# a.b=1\n");
            std::fs::write(path.join("grub"), text(before)).unwrap();
            let (found, changes) = from_grub(&Root::tree(folder.path()).unwrap(), "a.b");
            assert_eq!(found.as_deref(), value, "{before}");
            let written = changes.first().map(|change| match change {
                Change::WriteFile { after, .. } => after.clone(),
                Change::Run { .. } => String::new(),
            });
            assert_eq!(written.unwrap_or_else(|| text(before)), text(after), "{before}");
        }
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

    #[test]
    fn an_argument_is_removed_only_if_its_complete_value_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let removed = || without(&Root::tree(folder.path()).unwrap(), "a.b").map(|removed| removed.value);
        write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n");
        // GRUB cut the value at a semicolon.
        write("proc/cmdline", "ro a.b=c=1\n");
        for (release, entry, value) in [
            ("ID=rhel\nID_LIKE=fedora\n", None, None),
            ("ID=rhel\nID_LIKE=fedora\n", Some("options ro a.b=c=1;d=1\n"), Some("c=1;d=1")),
            ("ID=sles\nID_LIKE=suse\n", Some("options ro a.b=c=1;d=1\n"), None),
            ("ID=debian\n", None, None),
        ] {
            write("etc/os-release", release);
            let _ = std::fs::remove_dir_all(folder.path().join("boot"));
            if let Some(entry) = entry {
                write("boot/loader/entries/one.conf", entry);
            }
            assert_eq!(removed().as_deref(), value, "{release} {entry:?}");
        }
    }
}
