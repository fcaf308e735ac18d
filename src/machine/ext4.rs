//! The journal of an ext4. Without one, the kernel does not mount it with data=ordered.

use super::kernel_log::{KERNEL_LOG, Source, kernel_log};
use super::path_facts::PathFacts;
use super::root::Root;

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
