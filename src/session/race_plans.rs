//! The plans of the Race screen, from the data files in `profiles/plans`. A new plan needs a file and no code.

use crate::core::{CacheState, KvSystem};
use serde::Deserialize;
use std::sync::LazyLock;

/// The plan files, in the order of the list on the screen.
const FILES: [&str; 9] = [
    include_str!("../../profiles/plans/load.json"),
    include_str!("../../profiles/plans/load-cold-hot.json"),
    include_str!("../../profiles/plans/kv-lmcache-mp.json"),
    include_str!("../../profiles/plans/kv-lmcache-nixl.json"),
    include_str!("../../profiles/plans/kv-lmcache.json"),
    include_str!("../../profiles/plans/kv-ucm.json"),
    include_str!("../../profiles/plans/kv-llmd.json"),
    include_str!("../../profiles/plans/kv-vllm-fs.json"),
    include_str!("../../profiles/plans/io-grid.json"),
];

/// A plan as stored in its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) name: String,
    pub(super) answers: String,
    pub(super) run: What,
}

/// The work of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum What {
    /// Load the session's model in these cache states. If none are named, the cache states of the session are used.
    Load { caches: Vec<CacheState> },
    /// Run a KV-cache workload with the default shape and number of tokens of its source.
    Kv { workload: KvSystem },
    /// Measure a grid with these block sizes and thread counts, and with every transfer that can run.
    Grid { block_bytes: Vec<u64>, threads: Vec<u32>, file_bytes: u64, cell_ns: u64 },
}

static KEPT: LazyLock<Vec<Kept>> =
    LazyLock::new(|| FILES.iter().filter_map(|text| serde_json::from_str(text).ok()).collect());

/// All plans.
pub(super) fn all() -> &'static [Kept] {
    &KEPT
}

/// The plan with this name.
pub(super) fn named(name: &str) -> Option<&'static Kept> {
    KEPT.iter().find(|plan| plan.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_plan_and_every_workload_has_one() {
        assert_eq!(all().len(), FILES.len());
        for kind in KvSystem::ALL {
            assert!(all().iter().any(|plan| plan.run == What::Kv { workload: kind }), "{}", kind.name());
        }
        let names: std::collections::BTreeSet<_> = all().iter().map(|plan| &plan.name).collect();
        assert_eq!(names.len(), FILES.len());
        assert!(all().iter().all(|plan| plan.answers.ends_with('?')));
    }

    #[test]
    fn grids_have_room_for_their_largest_blocks() {
        for plan in all() {
            if let What::Grid { block_bytes, threads, file_bytes, cell_ns } = &plan.run {
                let most = block_bytes.iter().max().copied().unwrap_or(0)
                    * u64::from(threads.iter().max().copied().unwrap_or(0));
                assert!(most > 0 && *file_bytes >= most && *cell_ns > 0);
                assert!(block_bytes.iter().all(|size| size % 4096 == 0));
            }
        }
        assert!(named("io grid").is_some() && named("io").is_none());
    }
}
