//! The reasons why a report does not have all calls of a program.

use crate::analysis::{SessionEnd, WatchGap, watch_gaps};
use crate::core::WatchReport;
use crate::core::units::duration;
use crate::session::State;

/// The sentence if the end of a program is unknown.
pub const NO_END: &str = "The exit status of the program was not recorded.";

/// The reasons for the report of a session that runs no more.
#[must_use]
pub fn gaps(state: &State) -> Vec<WatchGap> {
    let end = SessionEnd::of(state.ended, true);
    state.watch.as_deref().map_or_else(Vec::new, |report| watch_gaps(report, end))
}

/// The names of the reasons, for tables and metrics.
#[must_use]
pub fn gap_ids(gaps: &[WatchGap]) -> String {
    gaps.iter().map(|gap| gap.id()).collect::<Vec<_>>().join(" ")
}

/// The sentence about missing calls. `None` if no call is known to be missing.
#[must_use]
pub fn incomplete(gaps: &[WatchGap]) -> Option<String> {
    (!gaps.is_empty()).then(|| format!("The recording is incomplete: {}.", reasons(gaps)))
}

/// The reasons as a list.
pub(in crate::present) fn reasons(gaps: &[WatchGap]) -> String {
    gaps.iter().map(|gap| words(*gap)).collect::<Vec<_>>().join(", ")
}

/// The sentence if the recording ends before the program. `None` if it has the end of the program.
pub(super) fn early_end(report: &WatchReport, end: SessionEnd) -> Option<String> {
    let begin = if report.attached.is_some() { "attach" } else { "start" };
    let is_early = matches!(end, SessionEnd::Cut | SessionEnd::Interrupted) && report.ended.is_none();
    is_early.then(|| format!("The recording ends {} after the {begin}, before the program.", duration(report.wall_ns)))
}

/// The fact about missing calls. `None` while the session runs.
pub(super) fn fact(report: &WatchReport, end: SessionEnd) -> Option<(&'static str, String)> {
    let text = match watch_gaps(report, end).as_slice() {
        _ if end == SessionEnd::Running => return None,
        [] => "yes".to_owned(),
        gaps => format!("no: {}", reasons(gaps)),
    };
    Some(("complete", text))
}

const fn words(gap: WatchGap) -> &'static str {
    match gap {
        WatchGap::SessionCut => "unexpected end of the session",
        WatchGap::SessionInterrupted => "interrupted session",
        WatchGap::NotRecorded => "calls not recorded",
        WatchGap::LoadedLate => "libcufile loaded after the attach",
        WatchGap::LostEvents => "lost details of calls",
        WatchGap::ProcessesNotExamined => "processes not examined",
        WatchGap::Paused => "pauses of the recording",
        WatchGap::LibrariesLeftOut => "copies of libcufile not recorded",
        WatchGap::ProgramsNotRecorded => "programs not recorded",
        WatchGap::OtherSession => "programs of an inner session",
        WatchGap::CallsNotReturned => "calls without a return",
        WatchGap::StillRunning => "processes that ran longer",
        WatchGap::UnseenTransfers => "transfers that only libcufile counted",
    }
}
