//! Finds the line that excludes a kernel module from loading.

use super::modprobe::{self, COMMAND_LINE};
use super::root::Root;

/// A line that excludes a kernel module from loading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The file with the line.
    pub file: String,
    /// The line, or the argument of the kernel command line.
    pub line: String,
    /// Whether the line also prevents loading with a manual `modprobe`.
    pub by_hand_too: bool,
    /// The other lines that exclude the module, with their files. All of them must be removed: a manual `modprobe` ignores
    /// `blacklist`, but systemd-modules-load does not.
    pub others: Vec<(String, String)>,
}

impl Excluded {
    /// All lines with their files, for a sentence: `'blacklist x' from /etc/modprobe.d/a.conf`.
    #[must_use]
    pub fn lines(&self) -> String {
        let first = [(&self.file, &self.line)].into_iter();
        let all = first.chain(self.others.iter().map(|(file, line)| (file, line)));
        all.map(|(file, line)| format!("'{line}' from {file}")).collect::<Vec<_>>().join(" and ")
    }
}

/// The line in modprobe.d or on the kernel command line that excludes a module from loading; `None` if there is none.
#[must_use]
pub fn excluded(root: &Root, module: &str) -> Option<Excluded> {
    let is_it = |word: &str| word.replace('-', "_") == module.replace('-', "_");
    let argument = |word: &str| {
        let list = word.strip_prefix("modprobe.blacklist=").or_else(|| word.strip_prefix("module_blacklist="))?;
        let by_hand_too = word.starts_with("module_blacklist=");
        list.split(',').any(is_it).then(|| (COMMAND_LINE.to_owned(), word.to_owned(), by_hand_too))
    };
    let statement = |file: &str, line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let by_hand_too = match words.as_slice() {
            ["blacklist", name, ..] if is_it(name) => false,
            ["install", name, command, ..] if is_it(name) && is_no_load(command) => true,
            // prime-select of Ubuntu writes such an alias.
            ["alias", name, "off", ..] if is_it(name) => true,
            _ => return None,
        };
        Some((file.to_owned(), line.trim().to_owned(), by_hand_too))
    };
    // An argument of the kernel has the strongest effect: it stays if the files are corrected.
    let cmdline = root.read_text(COMMAND_LINE).unwrap_or_default();
    let mut all: Vec<(String, String, bool)> = cmdline.split_whitespace().filter_map(argument).collect();
    for file in modprobe::files(root) {
        all.extend(file.text.lines().filter_map(|line| statement(&file.path, line)));
    }
    let first = all.iter().position(|(.., by_hand_too)| *by_hand_too).unwrap_or(0);
    let (file, line, by_hand_too) = (first < all.len()).then(|| all.remove(first))?;
    let others = all.into_iter().map(|(file, line, _)| (file, line)).collect();
    Some(Excluded { file, line, by_hand_too, others })
}

/// Whether a command in an `install` line loads nothing.
fn is_no_load(command: &str) -> bool {
    matches!(command.rsplit('/').next(), Some("false" | "true" | ":"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;

    fn found(file: &str, cmdline: &str, module: &str) -> Option<(String, bool)> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [("etc/modprobe.d/site.conf", file), ("proc/cmdline", cmdline)] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let excluded = excluded(&Root::tree(folder.path()).unwrap(), module)?;
        Some((excluded.line, excluded.by_hand_too))
    }

    #[test]
    fn every_form_of_exclusion_is_found() {
        for (file, cmdline, line, by_hand_too) in [
            ("# x\nblacklist nvidia\n", "quiet", "blacklist nvidia", false),
            ("install nvidia /bin/false\n", "quiet", "install nvidia /bin/false", true),
            ("alias nvidia off\n", "quiet", "alias nvidia off", true),
            ("", "ro modprobe.blacklist=nouveau,nvidia", "modprobe.blacklist=nouveau,nvidia", false),
            ("blacklist nvidia\ninstall nvidia /bin/false\n", "quiet", "install nvidia /bin/false", true),
            ("blacklist nvidia\n", "ro module_blacklist=nvidia", "module_blacklist=nvidia", true),
        ] {
            assert_eq!(found(file, cmdline, "nvidia"), Some((line.to_owned(), by_hand_too)), "{file} {cmdline}");
        }
        let others =
            "blacklist nouveau\nblacklist nvidiafb\n#blacklist nvidia\ninstall nvidia /sbin/modprobe nvidia-uvm\n";
        assert_eq!(found(others, "rd.driver.blacklist=nouveau module_blacklist=nvidia_drm", "nvidia"), None);
        assert!(found("blacklist nvidia-fs\n", "", "nvidia_fs").is_some());
    }
}
