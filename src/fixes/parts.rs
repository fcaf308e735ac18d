//! Parts of plans: the distribution family, commands, and file changes.

use super::spec;
use crate::checks::{Report, transport_key};
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::Root;
pub(super) use crate::machine::packages::{Family, family, initramfs, known_family};
use std::path::PathBuf;

/// The keys of cufile.json that enable P2PDMA for local NVMe disks.
pub const P2PDMA_KEYS: [&str; 2] = ["properties.use_pci_p2pdma", "block.nvme.use_pci_p2pdma"];

/// The keys for the storage of the examined paths: each transport has its own.
pub(super) fn p2pdma_keys(report: &Report) -> Vec<&'static str> {
    let mut keys = vec![P2PDMA_KEYS[0]];
    for key in report.paths.iter().map(|facts| transport_key(Some(facts))) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.len() == 1 { P2PDMA_KEYS.to_vec() } else { keys }
}

/// An empty plan with the title and check of the fix's specification.
pub(super) fn empty(id: FixId, needs: Needs, risk: FixRisk, policy: FixPolicy) -> FixPlan {
    let spec = spec::of(id);
    FixPlan {
        id,
        check: spec.check,
        title: spec.title.to_owned(),
        why: String::new(),
        changes: Vec::new(),
        needs,
        risk,
        policy,
        verify: String::new(),
        undo: String::new(),
        undo_commands: Vec::new(),
        remaining: Vec::new(),
        obstacle: None,
    }
}

pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

pub(super) fn run(line: &str) -> Change {
    Change::Run { argv: words(line) }
}

/// The change that adds a line to a file. `None` if the file already has the line.
pub(super) fn line_in(root: &Root, path: &str, line: &str) -> Option<Change> {
    let before = root.read_text(path).ok();
    let text = before.clone().unwrap_or_default();
    if text.lines().any(|known| known.trim() == line) {
        return None;
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(Change::WriteFile { path: PathBuf::from(path), before, after: format!("{text}{gap}{line}\n"), mode: 0o644 })
}
