//! The reasons why a session does not have all calls of a watched program.

use crate::core::{OpenCall, WatchReport};
use serde::{Deserialize, Serialize};

/// A call of this age is not just in progress, in nanoseconds.
pub(super) const LONG_CALL_NS: u64 = 10_000_000_000;

/// The calls that never returned: those of a program that has ended, and those that take very long. The others of a
/// program that runs on are in progress.
#[must_use]
pub fn not_returned(report: &WatchReport) -> Vec<&OpenCall> {
    let is_over = report.ended.is_some();
    report.open_calls.iter().filter(|call| is_over || call.age_ns >= LONG_CALL_NS).collect()
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// It is still running.
    Running,
    /// It ended as planned.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// Its end was not recorded, for example because gds-top was killed.
    Cut,
}

impl SessionEnd {
    /// `ended` is whether the session was interrupted, `None` without an end. `is_over`: no more events will come.
    #[must_use]
    pub const fn of(ended: Option<bool>, is_over: bool) -> Self {
        match (ended, is_over) {
            (Some(true), _) => Self::Interrupted,
            (Some(false), _) => Self::Complete,
            (None, true) => Self::Cut,
            (None, false) => Self::Running,
        }
    }
}

/// A reason why calls of the program are missing in its report. Advice about the same fact has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchGap {
    /// The end of the session was not recorded.
    SessionCut,
    /// The user interrupted the session.
    SessionInterrupted,
    /// No call was recorded: no program loaded the recording library, or the calls of the process could not be recorded.
    NotRecorded,
    /// A libcufile was loaded after the attach, so its first calls may be missing.
    LoadedLate,
    /// Details of calls were lost.
    LostEvents,
    /// Processes of the program of an attach were not examined. They can have other copies of libcufile.
    ProcessesNotExamined,
    /// The program paused the recording.
    Paused,
    /// A process has more copies of libcufile than are recorded.
    LibrariesLeftOut,
    /// Programs were not recorded.
    ProgramsNotRecorded,
    /// An inner session recorded programs.
    OtherSession,
    /// Calls did not return.
    CallsNotReturned,
    /// Processes ran longer than the program.
    StillRunning,
    /// libcufile counted more transfers than were recorded.
    UnseenTransfers,
}

impl WatchGap {
    /// Its name in JSON and in other formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::SessionCut => "session-cut",
            Self::SessionInterrupted => "session-interrupted",
            Self::NotRecorded => "not-recorded",
            Self::LoadedLate => "loaded-late",
            Self::LostEvents => "lost-events",
            Self::ProcessesNotExamined => "processes-not-examined",
            Self::Paused => "paused",
            Self::LibrariesLeftOut => "libraries-left-out",
            Self::ProgramsNotRecorded => "programs-not-recorded",
            Self::OtherSession => "other-session",
            Self::CallsNotReturned => "calls-not-returned",
            Self::StillRunning => "still-running",
            Self::UnseenTransfers => "unseen-transfers",
        }
    }
}

/// The reasons why calls are missing, the most important first. Empty if no call is known to be missing.
#[must_use]
pub fn watch_gaps(report: &WatchReport, end: SessionEnd) -> Vec<WatchGap> {
    // A program that was just started has not loaded the library yet.
    let is_recorded = match &report.attached {
        Some(process) => process.recorded,
        None => report.programs > 0 || end == SessionEnd::Running,
    };
    let of_session = [
        (WatchGap::SessionCut, end == SessionEnd::Cut),
        (WatchGap::SessionInterrupted, end == SessionEnd::Interrupted),
        (WatchGap::NotRecorded, !is_recorded),
    ];
    only(of_session).chain(of_report(report)).collect()
}

/// Whether no call until the report is known to be missing.
#[must_use]
pub fn is_complete(report: &WatchReport) -> bool {
    of_report(report).next().is_none()
}

/// Whether the totals of a started program's calls have every call until the report. Details of calls may be lost.
#[must_use]
pub fn has_all_totals(report: &WatchReport) -> bool {
    let are_all = report.attached.is_none() && report.uncounted == 0;
    are_all && of_report(report).all(|gap| gap == WatchGap::LostEvents)
}

fn of_report(report: &WatchReport) -> impl Iterator<Item = WatchGap> {
    let is_late = report.attached.as_ref().is_some_and(|process| process.loaded_late);
    only([
        (WatchGap::LoadedLate, is_late),
        (WatchGap::LostEvents, report.lost_events > 0),
        (WatchGap::ProcessesNotExamined, report.attached.is_some() && report.unexamined() > 0),
        (WatchGap::Paused, report.paused),
        (WatchGap::LibrariesLeftOut, report.libraries_left_out > 0),
        (WatchGap::ProgramsNotRecorded, !report.unrecorded.is_empty()),
        (WatchGap::OtherSession, !report.in_other_session.is_empty()),
        (WatchGap::CallsNotReturned, !not_returned(report).is_empty()),
        (WatchGap::StillRunning, report.still_running > 0),
        (WatchGap::UnseenTransfers, report.unseen.is_some()),
    ])
}

fn only<const N: usize>(gaps: [(WatchGap, bool); N]) -> impl Iterator<Item = WatchGap> {
    gaps.into_iter().filter(|(_, is)| *is).map(|(gap, _)| gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{AttachedProcess, OpenCall, ProgramEnd, UnseenTransfers};

    #[test]
    fn an_attach_that_did_not_examine_some_processes_is_incomplete() {
        let gaps = |unexamined_processes| {
            let attached = AttachedProcess { recorded: true, unexamined_processes, ..AttachedProcess::default() };
            watch_gaps(&WatchReport { attached: Some(attached), ..WatchReport::default() }, SessionEnd::Complete)
        };
        assert_eq!((gaps(0), gaps(26)), (vec![], vec![WatchGap::ProcessesNotExamined]));
        // Calls of a started program are recorded without an examination of its processes.
        let started = WatchReport { programs: 1, unexamined_processes: 26, ..WatchReport::default() };
        assert_eq!(watch_gaps(&started, SessionEnd::Complete), []);
    }

    #[test]
    fn each_reason_is_named_once_and_an_end_that_is_missing_is_the_first() {
        let whole = WatchReport { programs: 1, ..WatchReport::default() };
        assert_eq!(watch_gaps(&whole, SessionEnd::of(Some(false), true)), []);
        assert_eq!(watch_gaps(&WatchReport::default(), SessionEnd::Running), []);
        let attached = AttachedProcess { loaded_late: true, unexamined_processes: 1, ..AttachedProcess::default() };
        let all = WatchReport {
            attached: Some(attached),
            lost_events: 1,
            paused: true,
            libraries_left_out: 1,
            unrecorded: vec!["su".to_owned()],
            in_other_session: vec!["sh".to_owned()],
            open_calls: vec![OpenCall { age_ns: LONG_CALL_NS, ..OpenCall::default() }],
            still_running: 1,
            unseen: Some(UnseenTransfers::default()),
            ..WatchReport::default()
        };
        let cut = watch_gaps(&all, SessionEnd::of(None, true));
        let interrupted = watch_gaps(&all, SessionEnd::of(Some(true), true));
        assert_eq!((cut.len(), cut[0], interrupted[0]), (12, WatchGap::SessionCut, WatchGap::SessionInterrupted));
        let names: std::collections::BTreeSet<&str> = cut.iter().chain(&interrupted).map(|gap| gap.id()).collect();
        assert_eq!(names.len(), 13);
        for gap in cut.into_iter().chain(interrupted) {
            assert_eq!(serde_json::to_value(gap).ok(), Some(gap.id().into()));
        }
        assert!(!is_complete(&all) && is_complete(&whole));
    }

    #[test]
    fn calls_in_progress_at_the_chosen_end_are_no_gap_unless_they_are_old_or_the_process_ended() {
        let gaps = |age_ns, ended| {
            let attached = Some(AttachedProcess { recorded: true, ..AttachedProcess::default() });
            let open_calls = vec![OpenCall { age_ns, ..OpenCall::default() }];
            watch_gaps(&WatchReport { attached, ended, open_calls, ..WatchReport::default() }, SessionEnd::Complete)
        };
        assert_eq!(gaps(78_000_000, None), []);
        assert_eq!(gaps(LONG_CALL_NS, None), [WatchGap::CallsNotReturned]);
        assert_eq!(gaps(100_000, Some(ProgramEnd::Unknown)), [WatchGap::CallsNotReturned]);
    }
}
