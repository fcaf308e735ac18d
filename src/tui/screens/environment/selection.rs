//! The list of checks with its groups and lines, the selected line, and the fix for the selection.

use super::guide;
use super::state::{RowKey, Ui, finding_of, plan_of};
use crate::core::{AppliedFix, Finding, FixPlan, Group, Status};
use crate::present::verdict::steps;
use crate::session::State;
use crate::tui::remedy::next_open;

pub(super) const GROUPS: [Group; 7] =
    [Group::Gpu, Group::NvidiaFs, Group::Kernel, Group::Storage, Group::Files, Group::Cufile, Group::Limits];

fn matches(finding: &Finding, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    filter.is_empty()
        || [finding.id.as_str(), &finding.summary, &finding.why]
            .iter()
            .any(|text| text.to_lowercase().contains(&filter))
        || finding.status.word() == filter
        || finding
            .evidence
            .iter()
            .any(|e| e.source.to_lowercase().contains(&filter) || e.text.to_lowercase().contains(&filter))
}

/// The checks of a group, with the worst one first, so that problems are directly below the name of the group.
pub(super) fn members<'s>(state: &'s State, ui: &Ui<'_>, group: Group) -> Vec<&'s Finding> {
    let mut found: Vec<&Finding> = state.group(group).filter(|f| matches(f, &ui.screen.filter)).collect();
    found.sort_by_key(|f| std::cmp::Reverse(f.status.weight()));
    found
}

/// Whether the group is open, so that its checks are in the list.
pub(crate) fn is_open(state: &State, ui: &Ui<'_>, group: Group) -> bool {
    open_groups(state, ui).contains(&group)
}

pub(super) fn worst(findings: &[&Finding]) -> Status {
    findings.iter().map(|f| f.status).max_by_key(|s| s.weight()).unwrap_or(Status::Na)
}

/// The open groups: groups with problems, as many others as fit, and groups that the user opened. With a filter, all
/// groups are open.
pub(super) fn open_groups(state: &State, ui: &Ui<'_>) -> Vec<Group> {
    let count = |group: Group| state.group(group).count();
    let all = |group: Group| state.group(group).collect::<Vec<&Finding>>();
    let steps = ui.screen.verdict(state).map(|verdict| steps(state, verdict)).unwrap_or_default();
    let next = steps.first().map(|finding| finding.group);
    // The rank of a group: first the one with the next fix, then failures, then warnings.
    let rank = |group: Group| match worst(&all(group)) {
        _ if next == Some(group) => 4,
        _ if steps.iter().any(|finding| finding.group == group) => 3,
        Status::Fail => 2,
        Status::Warn => 1,
        _ => 0,
    };
    let room = ui.screen.room.get();
    let heads = GROUPS.into_iter().filter(|g| count(*g) > 0).count();
    let mut ordered = GROUPS;
    ordered.sort_by_key(|group| std::cmp::Reverse(rank(*group)));
    let (mut used, mut open) = (heads, Vec::new());
    for group in ordered {
        // The worst group is always open. Other groups are open if all lines stay visible. In a short list, groups
        // without problems are closed.
        let fits = used + count(group) <= room && (rank(group) > 0 || room >= 24);
        if (rank(group) > 0 && open.is_empty()) || fits {
            used += count(group);
            open.push(group);
        }
    }
    let toggled = |group: &Group| ui.screen.toggled.contains(group);
    GROUPS.into_iter().filter(|group| !ui.screen.filter.is_empty() || open.contains(group) != toggled(group)).collect()
}

/// The lines of the list.
pub(super) fn rows(state: &State, ui: &Ui<'_>) -> Vec<RowKey> {
    let mut rows = Vec::new();
    let open = open_groups(state, ui);
    for group in GROUPS {
        let found = members(state, ui, group);
        if found.is_empty() {
            continue;
        }
        rows.push(RowKey::Group(group));
        if open.contains(&group) {
            rows.extend(found.iter().map(|f| RowKey::Check(f.id)));
        }
    }
    rows
}

/// The selected line: the user's choice, or else the first step to the goal, or else the worst check, preferably with
/// a fix.
pub(super) fn selected_row(state: &State, ui: &Ui<'_>) -> Option<RowKey> {
    let rows = rows(state, ui);
    if let Some(chosen) = &ui.screen.selected
        && rows.contains(chosen)
    {
        return Some(chosen.clone());
    }
    if let Some(verdict) = ui.screen.verdict(state) {
        let row = |step: &&Finding| rows.iter().find(|row| matches!(row, RowKey::Check(id) if *id == step.id));
        if let Some(row) = steps(state, verdict).iter().find_map(row) {
            return Some(row.clone());
        }
    }
    // `max_by_key` returns the last of equal items, so the list is reversed to get the first one.
    let best = rows.iter().rev().filter_map(|row| Some((row, finding_of(state, row)?)));
    let best = best.max_by_key(|(_, f)| (f.status.weight(), f.fix.is_some(), f.cause.is_none()));
    best.filter(|(_, f)| f.status.weight() >= Status::Warn.weight())
        .map(|(row, _)| row.clone())
        .or_else(|| rows.first().cloned())
}

/// The selected check.
pub(super) fn selected_finding<'s>(state: &'s State, ui: &Ui<'_>) -> Option<&'s Finding> {
    finding_of(state, &selected_row(state, ui)?)
}

/// The plan of the open sheet: of a fix, or of the selected line in the checklist.
pub(super) fn sheet_plan<'s>(state: &'s State, ui: &Ui<'_>) -> Option<&'s FixPlan> {
    match &ui.screen.fix {
        Some(fix) => plan_of(state, fix.id),
        None => guide::rows(state).get(ui.screen.guide?).and_then(|row| row.plan),
    }
}

/// The plan that the key for fixes opens: the next one that still has to be applied. In the sheet of a fix it is the
/// plan after that one.
pub(super) fn next_fix<'s>(state: &'s State, ui: &Ui<'_>) -> Option<&'s FixPlan> {
    next_open(state, ui.screen.verdict(state), ui.screen.fix.as_ref().map(|sheet| sheet.id))
}

/// The applied fix that the key for undo opens: the fix of the selected check, checklist line or group, or else the
/// fix that was applied last.
pub(super) fn undo_of_selection<'s>(state: &'s State, ui: &Ui<'_>) -> Option<&'s AppliedFix> {
    let newest = |suits: &dyn Fn(&AppliedFix) -> bool| state.applied.iter().rev().find(|fix| suits(fix));
    let chosen = match selected_row(state, ui) {
        _ if ui.screen.guide.is_some() => sheet_plan(state, ui).and_then(|plan| newest(&|fix| fix.plan.id == plan.id)),
        Some(RowKey::Check(id)) => {
            let named = state.checks.iter().find(|finding| finding.id == id).and_then(|f| f.fix);
            newest(&|fix| fix.plan.check == id || named == Some(fix.plan.id))
        }
        Some(RowKey::Group(group)) => newest(&|fix| state.group(group).any(|finding| finding.id == fix.plan.check)),
        None => None,
    };
    chosen.or_else(|| newest(&|_| true))
}
