//! Reads recordings of version 1, in which some facts exist only as text. The text is decoded here into the fields of
//! version 2.

use crate::core::{AutoChoice, AutoReason, Basis, CheckId, Event, EventBody, Finding, Note, Route, RunResult, Verdict};
use std::collections::BTreeMap;

/// Facts of earlier events that are needed to decode later events.
#[derive(Clone, Debug, Default)]
pub(super) struct Version1 {
    /// For each finding id: the text that a verdict's advice uses for the finding.
    advised_by: BTreeMap<CheckId, String>,
}

impl Version1 {
    /// Converts an event to version 2.
    pub(super) fn upgrade(&mut self, mut event: Event) -> Event {
        event.body = match event.body {
            EventBody::LaneDied { lane, how, .. } if how == "cancelled" => EventBody::LaneCancelled { lane },
            mut body => {
                match &mut body {
                    EventBody::CheckDone { finding } => self.finding(finding),
                    EventBody::FixProgress { progress } => {
                        if let Some(finding) = &mut progress.finding {
                            self.finding(finding);
                        }
                    }
                    EventBody::VerdictReached { verdict } => self.verdict(verdict),
                    EventBody::LaneFinished { result, .. } => run(result),
                    _ => {}
                }
                body
            }
        };
        event
    }

    fn finding(&mut self, finding: &mut Finding) {
        finding.permanent = finding.id == CheckId::GpuPresent && finding.summary.starts_with("no NVIDIA GPU");
        let words = finding.advice.as_deref().unwrap_or(&finding.summary).trim_end_matches('.');
        self.advised_by.insert(finding.id, words.to_owned());
    }

    /// The advice lists only the steps. If it names none of the blockers, all blockers are steps.
    fn verdict(&self, verdict: &mut Verdict) {
        let advised = |id: &&CheckId| self.advised_by.get(*id).is_some_and(|words| verdict.advice.contains(words));
        verdict.steps = verdict.blockers.iter().filter(advised).copied().collect();
        if verdict.steps.is_empty() {
            verdict.steps.clone_from(&verdict.blockers);
        }
        verdict.basis = if verdict.proof == "there is no GPU on this machine" {
            Basis::NoGpu
        } else if verdict.proof.contains("libcufile does not list") {
            Basis::LibraryDenies
        } else if verdict.proof.contains("libcufile lists") {
            Basis::LibraryLists
        } else {
            Basis::Checks
        };
        if let Some(rest) = verdict.proof.strip_prefix("not proven: ") {
            verdict.proof = rest.to_owned();
        }
    }
}

fn run(result: &mut RunResult) {
    result.notes.retain(|note| {
        let Note::Text(note) = note else { return true };
        if let Some(choice) = auto_choice(note) {
            result.auto_choice = Some(choice);
            return false;
        }
        let Some(difference) = note.strip_prefix("the bytes on the target differ from the file: ") else { return true };
        result.first_difference = Some(difference.to_owned());
        false
    });
    for fallback in result.workload.iter_mut().flat_map(|workload| &mut workload.fallbacks) {
        fallback.provoked = fallback.detail.starts_with("provoked");
    }
}

/// Decodes the choice of `auto` from a note.
fn auto_choice(note: &str) -> Option<AutoChoice> {
    let (engine, why) = note.strip_prefix("auto took ")?.split_once(':')?;
    let reason = if why.contains("reading through it is taken to be faster") {
        Some(AutoReason::Cached)
    } else if why.contains("went the direct way") {
        Route::DIRECT.into_iter().find(|route| why.contains(&format!("({route})"))).map(AutoReason::DirectRoute)
    } else if why.contains("spare the way through it") {
        Some(AutoReason::NotCached)
    } else if why.contains("takes no O_DIRECT reads") {
        Some(AutoReason::NoDirectIo)
    } else {
        None
    };
    Some(AutoChoice { engine: engine.parse().ok()?, reason })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::core::{Engine, Group, LaneId, Status};

    fn upgraded(events: Vec<EventBody>) -> Vec<EventBody> {
        let mut version = Version1::default();
        events.into_iter().map(|body| version.upgrade(Event { at_ns: 0, body }).body).collect()
    }

    fn finding(id: &str, summary: &str, advice: Option<&str>) -> EventBody {
        let finding = Finding {
            id: id.parse().unwrap(),
            group: Group::Kernel,
            status: Status::Fail,
            summary: summary.to_owned(),
            evidence: Vec::new(),
            why: String::new(),
            blocks: Vec::new(),
            fix: None,
            advice: advice.map(str::to_owned),
            command: None,
            cause: None,
            permanent: false,
            facts: Vec::new(),
        };
        EventBody::CheckDone { finding }
    }

    fn verdict(blockers: &[&str], proof: &str, advice: &str) -> EventBody {
        let verdict = Verdict {
            path: "/data".into(),
            gpu: None,
            route: Route::Compat,
            possible: Route::P2pdma,
            proven: false,
            basis: Basis::Checks,
            proof: proof.to_owned(),
            blockers: blockers.iter().map(|id| id.parse().unwrap()).collect(),
            steps: Vec::new(),
            gpu_name: None,
            caveat: None,
            advice: advice.to_owned(),
        };
        EventBody::VerdictReached { verdict }
    }

    #[test]
    fn steps_are_the_blockers_that_the_advice_names() {
        let all = ["nvfs-dkms", "udev-database", "iommu-state"];
        let upgraded_events = upgraded(vec![
            finding("nvfs-dkms", "nvidia-fs is not built", Some("Build it.")),
            finding("udev-database", "udev has no record of the disk", None),
            finding("iommu-state", "an option is missing", Some("Add it.")),
            verdict(&all, "", "1. udev has no record of the disk (as root). 2. Add it (a reboot)."),
            verdict(&all, "", "Something else."),
            verdict(&["fs-type"], "", "Something else."),
        ]);
        let steps = |body: &EventBody| match body {
            EventBody::VerdictReached { verdict } => verdict.steps.clone(),
            _ => Vec::new(),
        };
        assert_eq!(steps(&upgraded_events[3]), ["udev-database", "iommu-state"]);
        assert_eq!(steps(&upgraded_events[4]), all);
        assert_eq!(steps(&upgraded_events[5]), ["fs-type"]);
    }

    #[test]
    fn the_basis_of_a_verdict_and_a_missing_gpu_are_decoded() {
        let upgraded_events = upgraded(vec![
            finding("gpu-present", "no NVIDIA GPU on this machine", None),
            verdict(&[], "not proven: libcufile does not list nvfs for NVMe; counters would prove it", ""),
            verdict(&[], "not proven: libcufile lists rdma for WekaFS, but no read was counted yet", ""),
            verdict(&[], "there is no GPU on this machine", ""),
            verdict(&[], "derived from the checks", ""),
        ]);
        assert!(matches!(&upgraded_events[0], EventBody::CheckDone { finding } if finding.permanent));
        let bases: Vec<(Basis, bool)> = upgraded_events[1..]
            .iter()
            .filter_map(|body| match body {
                EventBody::VerdictReached { verdict } => Some((verdict.basis, verdict.proof.contains("not proven"))),
                _ => None,
            })
            .collect();
        let all = [Basis::LibraryDenies, Basis::LibraryLists, Basis::NoGpu, Basis::Checks];
        assert_eq!(bases, all.map(|basis| (basis, false)));
    }

    #[test]
    fn choices_differences_and_provoked_fallbacks_leave_the_notes() {
        let result = serde_json::json!({
            "engine": "auto", "model": "m", "cache": "hot", "target": "GPU", "repeat": 0, "bytes": 1, "wall_ns": 5, "setup_ns": 1,
            "bytes_per_s": 0.0, "phases": {}, "slots": 1, "settings": {}, "setup_parts_ns": {}, "verified": false,
            "notes": [
                "auto took gds-slab: 0 % of the model lies in the page cache, and a read that was tried before the clock went the direct way (p2pdma), \
                 by cuFile's statistics",
                "the bytes on the target differ from the file: tensor a, byte 7", "another note",
            ],
            "workload": {"fallbacks": [
                {"reason": "no_library", "operations": 1, "detail": "provoked: as if there were no libcufile"},
                {"reason": "init_failed", "operations": 1, "detail": "error 5001"},
            ]},
        });
        let result = serde_json::from_value(result).unwrap();
        let upgraded_events = upgraded(vec![EventBody::LaneFinished { lane: LaneId(0), result }]);
        let [EventBody::LaneFinished { result, .. }] = upgraded_events.as_slice() else {
            panic!("{upgraded_events:?}")
        };
        let reason = Some(AutoReason::DirectRoute(Route::P2pdma));
        assert_eq!(result.auto_choice, Some(AutoChoice { engine: Engine::GdsSlab, reason }));
        assert_eq!(result.first_difference.as_deref(), Some("tensor a, byte 7"));
        assert_eq!(result.notes, [Note::Text("another note".to_owned())]);
        let provoked: Vec<bool> = result.workload.iter().flat_map(|w| &w.fallbacks).map(|f| f.provoked).collect();
        assert_eq!(provoked, [true, false]);
    }

    #[test]
    fn a_lane_that_was_stopped_is_cancelled_and_one_that_died_is_not() {
        let died = |how: &str| EventBody::LaneDied { lane: LaneId(1), how: how.to_owned(), stderr_tail: String::new() };
        let upgraded_events = upgraded(vec![died("cancelled"), died("its process was killed")]);
        assert_eq!(upgraded_events[0], EventBody::LaneCancelled { lane: LaneId(1) });
        assert_eq!(upgraded_events[1], died("its process was killed"));
    }
}
