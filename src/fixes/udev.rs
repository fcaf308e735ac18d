//! Plans for udev: the record of a disk, and the rule that reads the level of a RAID.

use super::parts::{empty, line_in, run, words};
use crate::checks::Report;
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{BlockDevice, BlockKind, PathFacts, Root, Unread, gone_device, udev_record_path};
use std::path::PathBuf;

/// The plan that adds missing udev records for the devices of the examined paths.
pub(super) fn record_plan(root: &Root, report: &Report) -> Option<FixPlan> {
    let mut changes: Vec<Change> = Vec::new();
    let mut obstacle = None;
    let mut names = Vec::new();
    for verdict in &report.verdicts {
        let Some(facts) = root.path_facts(&verdict.path) else { continue };
        let (Some(device), Some((major, _))) = (facts.device.as_deref(), facts.device_numbers()) else { continue };
        // The next disk with this number would get the record.
        if gone_device(root, &facts).is_some() {
            continue;
        }
        let path = PathBuf::from(udev_record_path(device));
        let known = |change: &Change| matches!(change, Change::WriteFile { path: other, .. } if *other == path);
        if major == 0 || changes.iter().any(known) {
            continue;
        }
        let before = match root.read_text(&path) {
            Ok(text) => Some(text),
            Err(Unread::Missing) => None,
            Err(why) => {
                obstacle = Some(format!("{} {why}", path.display()));
                continue;
            }
        };
        let after = record(&facts, before.as_deref());
        if before.as_deref() != Some(after.as_str()) {
            names.push(facts.source.clone().unwrap_or_else(|| device.to_owned()));
            changes.push(Change::WriteFile { path, before, after, mode: 0o644 });
        }
    }
    if changes.is_empty() && obstacle.is_none() {
        return None;
    }
    Some(FixPlan {
        title: format!("Write the udev record of {}", if names.is_empty() { "the disk".to_owned() } else { names.join(", ") }),
        why: "libcufile reads ID_FS_USAGE of the disk from udev before it registers a file. If the record is missing, every registration fails with 5027. These lines are sufficient (measured with libcufile 1.15 and 1.20). In a container you can mount the host's records instead: -v /run/udev:/run/udev:ro."
            .to_owned(),
        changes,
        verify: "the check udev-database runs again".to_owned(),
        obstacle,
        ..empty(FixId::UdevRecord, Needs::Root, FixRisk::Low, FixPolicy::Ask)
    })
}

/// The record that udev would have written: the existing lines, and those about the file system in place of others.
fn record(facts: &PathFacts, before: Option<&str>) -> String {
    // Unknown values are not written, because libcufile reads only the usage.
    let mut wanted: Vec<(&str, String)> = facts.filesystem.iter().map(|kind| ("E:ID_FS_TYPE=", kind.clone())).collect();
    wanted.push(("E:ID_FS_USAGE=", "filesystem".to_owned()));
    let level = facts.block_device.first().and_then(|device| device.level.clone());
    wanted.extend(level.map(|level| ("E:MD_LEVEL=", level)));
    let mut lines: Vec<String> = before.unwrap_or("").lines().map(str::to_owned).collect();
    // Without this line, the record is older than the file system, or of another use of the disk.
    let is_of_filesystem = lines.iter().any(|line| line == "E:ID_FS_USAGE=filesystem");
    for (key, value) in wanted {
        let line = format!("{key}{value}");
        match lines.iter_mut().find(|old| old.starts_with(key)) {
            Some(old) if !is_of_filesystem => *old = line,
            Some(_) => {}
            None => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}

const RULES: &str = "/etc/udev/rules.d/64-md-level-gds.rules";

/// The plan adds a separate rule, so that the rule of the distribution is not changed.
pub(super) fn md_rule(root: &Root, report: &Report) -> FixPlan {
    let is_raid = |device: &&BlockDevice| device.kind == BlockKind::Md;
    let array = report.paths.iter().flat_map(|facts| &facts.block_device).find(is_raid);
    let array = array.map_or("md0", |device| device.name.as_str());
    // udev uses the path literally. If neither file exists, the usual path is used.
    let mdadm =
        if root.exists("/sbin/mdadm") && !root.exists("/usr/sbin/mdadm") { "/sbin/mdadm" } else { "/usr/sbin/mdadm" };
    let rule = format!(
        "SUBSYSTEM==\"block\", KERNEL==\"md*\", ACTION!=\"remove\", IMPORT{{program}}=\"{mdadm} --detail --export $devnode\""
    );
    let rules = match root.read_text(RULES) {
        Ok(_) => line_in(root, RULES, &rule),
        Err(_) => line_in(root, RULES, &format!("# cuFile reads the level of a RAID from udev (MD_LEVEL).\n{rule}")),
    };
    FixPlan {
        why: "cuFile reads the RAID level from MD_LEVEL in udev, and rejects the RAID if it is missing (NVIDIA's GDS guide, udev rules for RAID volumes). The rule is in a separate file in /etc, which no update replaces."
            .to_owned(),
        changes: rules
            .into_iter()
            .chain([run("sudo udevadm control --reload"), run("sudo udevadm trigger --subsystem-match=block --settle")])
            .collect(),
        verify: format!("udevadm info /dev/{array} shows MD_LEVEL=raid0, and gds-top check: md-raid"),
        undo_commands: vec![words("sudo udevadm control --reload")],
        ..empty(FixId::MdUdev, Needs::Root, FixRisk::Low, FixPolicy::Ask)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn facts() -> PathFacts {
        PathFacts { filesystem: Some("xfs".to_owned()), ..PathFacts::default() }
    }

    #[test]
    fn a_new_record_has_what_libcufile_asks_for() {
        assert_eq!(record(&facts(), None), "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\n");
    }

    #[test]
    fn a_file_system_that_is_not_known_is_not_named() {
        assert_eq!(record(&PathFacts::default(), None), "E:ID_FS_USAGE=filesystem\n");
    }

    #[test]
    fn lines_about_other_facts_are_kept() {
        let before = "I:123\nE:ID_FS_USAGE=other\nE:ID_SERIAL=x\n";
        assert_eq!(
            record(&facts(), Some(before)),
            "I:123\nE:ID_FS_USAGE=filesystem\nE:ID_SERIAL=x\nE:ID_FS_TYPE=xfs\n"
        );
    }

    #[test]
    fn a_record_of_another_use_gets_the_type_of_the_mounted_file_system() {
        let raid = "E:ID_FS_USAGE=raid\nE:ID_FS_TYPE=linux_raid_member\n";
        assert_eq!(record(&facts(), Some(raid)), "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=xfs\n");
        // The kernel can mount an ext3 as ext4, so a record with the right usage keeps its type.
        let complete = "E:ID_FS_TYPE=ext3\nE:ID_FS_USAGE=filesystem\n";
        assert_eq!(record(&facts(), Some(complete)), complete);
        // The type of a file system that is not known is kept.
        assert_eq!(
            record(&PathFacts::default(), Some(raid)),
            "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=linux_raid_member\n"
        );
    }
}
