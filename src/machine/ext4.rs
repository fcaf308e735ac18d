//! The journal of an ext4 and its mode. Without a journal, the kernel does not mount it with data=ordered.

use super::fstab::{FSTAB, fstab_mounts};
use super::kernel_log::{KERNEL_LOG, Source, kernel_log};
use super::path_facts::PathFacts;
use super::root::Root;
use std::path::Path;

/// Whether the ext4 of a path has a journal, the source and its text. `None` if it is not known.
#[must_use]
pub fn ext4_journal(root: &Root, facts: &PathFacts) -> Option<(bool, String, String)> {
    let device = &facts.block_device.first()?.name;
    // This file has the options in effect, and the journal mode only if there is a journal.
    let options = format!("/proc/fs/ext4/{device}/options");
    if let Some(text) = root.read_text(&options).ok().filter(|text| !text.trim().is_empty()) {
        let mode = text.lines().find(|line| line.starts_with("data="));
        return Some((mode.is_some(), options, mode.unwrap_or("no line data=").to_owned()));
    }
    let start = format!("EXT4-fs ({device}): mounted filesystem ");
    let log = kernel_log(root)?;
    let message = log.of(Source::Disk).rev().find(|message| message.text.starts_with(&start))?;
    let is_without = message.text.contains("without journal");
    let is_known = is_without || message.text.contains(" data mode");
    is_known.then(|| (!is_without, KERNEL_LOG.to_owned(), message.line.clone()))
}

/// The journal mode in effect, in the text of [`ext4_journal`] for an ext4 with a journal.
#[must_use]
pub fn ext4_mode(text: &str) -> &'static str {
    if text.contains("data=writeback") || text.contains("writeback data mode") {
        "writeback"
    } else if text.contains("data=journal") || text.contains("journalled data mode") {
        "journal"
    } else {
        "ordered"
    }
}

/// The setting that mounts the ext4 of a path with data=ordered, and its file: the kernel command line for the root file
/// system, /etc/fstab for others. The kernel lists a mode only if it differs from the default in the superblock (`tune2fs -o`,
/// fs/ext4/super.c), so the mount options can lack it.
#[must_use]
pub fn ext4_sets_ordered(root: &Root, facts: &PathFacts) -> Option<(&'static str, String)> {
    const CMDLINE: &str = "/proc/cmdline";
    let point = facts.mount_point.as_deref()?;
    if point == Path::new("/") {
        let started = root.read_text(CMDLINE).ok()?;
        let is_set = |word: &&str| word.starts_with("rootflags=") && word.contains("data=ordered");
        return started.split_whitespace().find(is_set).map(|word| (CMDLINE, word.to_owned()));
    }
    let planned = fstab_mounts(root).into_iter().find(|planned| planned.point == point)?;
    planned.options.split(',').any(|option| option == "data=ordered").then_some((FSTAB, planned.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_that_of_the_options_or_the_log() {
        for (text, mode) in [
            ("data=ordered", "ordered"),
            ("data=writeback", "writeback"),
            ("data=journal", "journal"),
            ("EXT4-fs (sda1): mounted filesystem 1b4e r/w with ordered data mode. Quota mode: none.", "ordered"),
            ("EXT4-fs (sda1): mounted filesystem with writeback data mode. Opts: (null)", "writeback"),
            ("EXT4-fs (sda1): mounted filesystem with journalled data mode. Quota mode: none.", "journal"),
        ] {
            assert_eq!(ext4_mode(text), mode, "{text}");
        }
    }
}
