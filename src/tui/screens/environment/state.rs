//! The state of the Environment screen.

use crate::core::{CheckId, Finding, FixId, FixPlan, Group, Verdict};
use crate::session::State;
use crate::tui::context;
use crate::tui::keys::action::Action;
use crate::tui::widgets::scroll::Scroll;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

pub(super) type Ui<'a> = context::Ui<'a, Environment>;

/// A part of the screen that can have the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    List,
    Detail,
    /// The road to the direct route.
    Road,
}

/// A line in the list of checks. It is identified by its content and not by its index, so that the selection is kept
/// if the list changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Group(Group),
    Check(CheckId),
}

/// The sheet of a fix.
#[derive(Clone, Debug)]
pub(crate) struct FixSheet {
    /// The id of the fix.
    pub(crate) id: FixId,
    pub(crate) scroll: Scroll,
    /// Whether the user scrolled, so that the sheet does not follow the output.
    pub(crate) held: bool,
}

impl FixSheet {
    pub(super) fn new(id: FixId) -> Self {
        Self { id, scroll: Scroll::default(), held: false }
    }

    /// Scrolls the sheet. If it follows its output, scrolling starts at the end. It follows again when the user
    /// returns to the end.
    pub(super) fn scroll(&mut self, action: Action, has_output: bool) {
        if has_output && !self.held {
            self.scroll.set(self.scroll.last());
        }
        self.scroll.act(action);
        self.held = self.scroll.at() < self.scroll.last();
    }
}

/// The Environment screen.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The line that the user selected. `None`: the most important line is selected.
    pub(crate) selected: Option<RowKey>,
    /// Groups that the user opened or closed.
    pub(crate) toggled: BTreeSet<Group>,
    pub(crate) filter: String,
    pub(crate) pane: Pane,
    /// The index of the selected station on the road.
    pub(crate) hop: usize,
    pub(crate) detail: Scroll,
    /// The index of the shown verdict.
    pub(crate) verdict: usize,
    /// Number of list lines in the last frame. Groups are open by default while there is space.
    pub(crate) room: Cell<usize>,
    /// The lines of the last frame, so that a click can find its line.
    pub(crate) drawn: RefCell<Vec<RowKey>>,
    /// The selected line of the checklist, if it is open.
    pub(crate) guide: Option<usize>,
    /// The sheet of a fix, if it is open. A sheet that was opened from the checklist covers the checklist.
    pub(crate) fix: Option<FixSheet>,
}

impl Environment {
    /// The verdict that is shown.
    pub(super) fn verdict<'s>(&self, state: &'s State) -> Option<&'s Verdict> {
        state.verdicts.get(self.verdict.min(state.verdicts.len().saturating_sub(1)))
    }

    pub(super) fn select(&mut self, row: Option<RowKey>) {
        self.selected = row;
        self.detail.set(0);
    }

    pub(crate) fn open_fix(&mut self, id: FixId) {
        self.fix = Some(FixSheet::new(id));
    }
}

/// The check of a line.
pub(super) fn finding_of<'s>(state: &'s State, row: &RowKey) -> Option<&'s Finding> {
    match row {
        RowKey::Check(id) => state.checks.iter().find(|finding| finding.id == *id),
        RowKey::Group(_) => None,
    }
}

/// The plan of a finding or of the checklist. For an applied fix, the plan that was applied.
pub(super) fn plan_of(state: &State, id: FixId) -> Option<&FixPlan> {
    let applied = state.applied.iter().find(|fix| fix.plan.id == id);
    if let Some(fix) = applied.filter(|fix| fix.in_effect) {
        return Some(&fix.plan);
    }
    let steps = state.guide.iter().flat_map(|guide| &guide.steps).flat_map(|step| &step.plans);
    state.plans.iter().chain(steps).find(|plan| plan.id == id).or(applied.map(|fix| &fix.plan))
}
