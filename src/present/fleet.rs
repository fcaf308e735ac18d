//! The answer for a fleet: how many nodes read on a direct route.

use super::Answer;
use crate::core::{Status, units};

/// The number of nodes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// All nodes.
    pub nodes: usize,
    /// The nodes with a direct route.
    pub direct: usize,
    /// The nodes with a direct route that a read proved.
    pub proven: usize,
    /// The nodes that read through host memory.
    pub compat: usize,
    /// The nodes without a route.
    pub broken: usize,
    /// The files that could not be read.
    pub unread: usize,
    /// The entries of directories that were not read, such as links.
    pub skipped: usize,
    /// The reports that newer ones replaced.
    pub superseded: usize,
}

/// The answer for a fleet.
#[must_use]
pub fn answer(counts: &FleetCounts) -> Answer {
    let FleetCounts { nodes, direct, proven, compat, broken, unread, skipped, superseded } = *counts;
    let status = match () {
        () if broken > 0 || unread > 0 => Status::Fail,
        () if proven == nodes => Status::Pass,
        () => Status::Warn,
    };
    let of = |count: usize, thing| units::plural(count as u64, thing);
    let headline = format!(
        "{}: {direct} on a direct route ({proven} proven), {compat} on compat, {broken} without a route.",
        of(nodes, "node")
    );
    let unchecked = nodes.saturating_sub(direct + compat + broken);
    let mut conditions = Vec::new();
    if unchecked > 0 {
        conditions.push(format!(
            "{} {} no verdict.",
            of(unchecked, "node"),
            if unchecked == 1 { "has" } else { "have" }
        ));
    }
    if unread > 0 {
        conditions.push(format!("{} could not be read.", of(unread, "file")));
    }
    if skipped > 0 {
        let (entry, was) = if skipped == 1 { ("entry", "was") } else { ("entries", "were") };
        conditions.push(format!("{} {entry} {was} skipped.", units::count(skipped as u64)));
    }
    if superseded > 0 {
        let were = if superseded == 1 { "was" } else { "were" };
        conditions.push(format!("{} {were} replaced by newer ones.", of(superseded, "older report")));
    }
    Answer::new(status, headline, conditions.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fleet_passes_only_if_every_node_is_proven() {
        let all = FleetCounts { nodes: 3, direct: 3, proven: 3, ..FleetCounts::default() };
        let status = |counts: FleetCounts| answer(&counts).status;
        assert_eq!(status(all), Status::Pass);
        assert_eq!(status(FleetCounts { proven: 2, ..all }), Status::Warn);
        assert_eq!(status(FleetCounts { nodes: 4, ..all }), Status::Warn);
        assert_eq!(status(FleetCounts { nodes: 4, broken: 1, ..all }), Status::Fail);
        assert_eq!(status(FleetCounts { unread: 1, ..all }), Status::Fail);
    }
}
