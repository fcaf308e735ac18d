//! The findings and verdicts of one round of checks.

use crate::core::{CheckId, Finding, FixId, Route, Status, Verdict};
use crate::machine::PathFacts;

/// The result of a round of checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The findings in the order of their groups, one for each check that applies.
    pub findings: Vec<Finding>,
    /// The verdicts, one for each (path, GPU) pair.
    pub verdicts: Vec<Verdict>,
    /// The facts of the examined paths.
    pub paths: Vec<PathFacts>,
    /// Whether NVML or the bus shows a GPU.
    pub has_gpu: bool,
    /// The duration of the round in nanoseconds.
    pub took_ns: u64,
}

impl Report {
    /// Whether no cuFile read works for some path and GPU. `gds-top check` then ends with exit status 1. The caller
    /// uses [`Report::has_gpu`] to exclude benchmarks on a machine without a GPU.
    #[must_use]
    pub fn blocks_route_in_use(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.route == Route::None)
    }

    /// The finding of a check.
    #[must_use]
    pub fn finding<T>(&self, id: T) -> Option<&Finding>
    where
        CheckId: PartialEq<T>,
    {
        self.findings.iter().find(|finding| finding.id == id)
    }

    /// The fix that installs another driver, if it is a step of a verdict.
    #[must_use]
    pub fn replaced_driver(&self) -> Option<FixId> {
        let mut fixes = self.verdicts.iter().flat_map(|one| &one.steps).filter_map(|id| self.finding(*id)?.fix);
        fixes.find(|fix| fix.installs_driver())
    }

    /// Replaces the verdict for the same path and GPU.
    pub fn take_proven(&mut self, verdict: Verdict) {
        let same = |old: &&mut Verdict| old.path == verdict.path && old.gpu == verdict.gpu;
        if let Some(old) = self.verdicts.iter_mut().find(same) {
            *old = verdict;
        }
    }

    /// The number of findings with a status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// The `checks` and `verdicts` parts of report.json.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "checks": self.findings, "verdicts": self.verdicts, "took_ns": self.took_ns })
    }
}
