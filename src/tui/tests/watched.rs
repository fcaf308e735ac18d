//! Tests of values and labels on the screens of a watched program and of all processes.

use super::calls::watched;
use super::{app, frame, text};
use crate::config::Taste;
use crate::core::{AttachedProcess, Event, EventBody, SystemSample, WatchReport};
use crate::session::State;
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;

/// A frame of a screen as text.
fn drawn(state: &State, screen: ScreenId, (width, height): (u16, u16)) -> String {
    text(&frame(state, &mut app(screen), &Theme::new(Taste::default()), width, height))
}

/// The watched program with a changed report.
fn with(change: impl FnOnce(&mut WatchReport)) -> State {
    let mut state = watched();
    let mut report = state.watch.as_deref().cloned().unwrap_or_default();
    change(&mut report);
    state.reduce(&Event { at_ns: 9, body: EventBody::ProgramSeen { report: Box::new(report) } });
    state
}

#[test]
fn each_label_of_the_report_has_a_space_before_its_value() {
    let process = AttachedProcess { recorded: true, read_call_bytes: Some(4096), ..AttachedProcess::default() };
    let state = with(|report| report.attached = Some(process));
    let shown = drawn(&state, ScreenId::Report, (140, 60));
    assert!(shown.contains("system calls 4 KiB"), "{shown}");
}

#[test]
fn processes_that_root_cannot_examine_are_not_hidden_from_a_user() {
    for (by_root, words) in [(true, "3 more denied by the kernel"), (false, "3 more hidden from this user")] {
        let system = SystemSample { hidden_processes: 3, by_root, ..SystemSample::default() };
        let mut state = State::default();
        state.reduce(&Event { at_ns: 1, body: EventBody::SystemSeen { system } });
        let shown = drawn(&state, ScreenId::System, (120, 36));
        assert!(shown.contains(words), "{shown}");
    }
}
