//! The state of the Environment screen.

use crate::core::{Finding, FixId, FixPlan, Group, Verdict};
use crate::session::State;
use crate::tui::context;
use crate::tui::keys::action::Action;
use crate::tui::widgets::scroll::Scroll;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

pub(super) type Ui<'a> = context::Ui<'a, Environment>;

/// A part of the screen that takes the arrows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    List,
    Detail,
    /// The road to the direct route.
    Road,
}

/// A line of the list of checks, by its content and not by its number, so that the selection stays if the list grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Group(Group),
    Check(String),
}

/// The sheet of a fix.
#[derive(Clone, Debug)]
pub(crate) struct FixSheet {
    /// The id of its plan.
    pub(crate) id: FixId,
    pub(crate) scroll: Scroll,
    /// It was scrolled by hand, so that it does not follow its output.
    pub(crate) held: bool,
}

impl FixSheet {
    pub(super) fn new(id: FixId) -> Self {
        Self { id, scroll: Scroll::default(), held: false }
    }

    /// Scrolls. A sheet that follows its output is scrolled from the end, and follows again when it is back there.
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
    /// `None`: the line that deserves it most.
    pub(crate) selected: Option<RowKey>,
    /// Groups that the user opened or closed.
    pub(crate) toggled: BTreeSet<Group>,
    pub(crate) filter: String,
    pub(crate) pane: Pane,
    /// The selected station of the road.
    pub(crate) hop: usize,
    pub(crate) detail: Scroll,
    /// The verdict that is shown, by its number.
    pub(crate) verdict: usize,
    /// Lines of the list in the last frame. Groups are open by default while there is space.
    pub(crate) room: Cell<usize>,
    /// The lines of the last frame, by which a click finds its own.
    pub(crate) drawn: RefCell<Vec<RowKey>>,
    /// The selected line of the checklist, if it is open.
    pub(crate) guide: Option<usize>,
    /// The sheet of a fix, if it is open; one that was opened from the checklist is over it.
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

/// A plan that was offered for a finding or is in the checklist; for an applied fix, the plan that was applied.
pub(super) fn plan_of(state: &State, id: FixId) -> Option<&FixPlan> {
    let applied = state.applied.iter().find(|fix| fix.plan.id == id);
    if let Some(fix) = applied.filter(|fix| fix.stands) {
        return Some(&fix.plan);
    }
    let steps = state.guide.iter().flat_map(|guide| &guide.steps).flat_map(|step| &step.plans);
    state.plans.iter().chain(steps).find(|plan| plan.id == id).or(applied.map(|fix| &fix.plan))
}
