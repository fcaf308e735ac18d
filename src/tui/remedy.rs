//! Finds the plan that fixes a finding, and the next plan to apply.

use crate::core::{Finding, FixId, FixPlan, FixStage, Status, Verdict};
use crate::present::verdict::{obstacles, steps};
use crate::session::State;

/// The plan that fixes a finding. If the finding passes, it is the plan that fixed it.
pub(crate) fn plan_for<'s>(state: &'s State, finding: &Finding) -> Option<&'s FixPlan> {
    let applied = state.applied.iter().rev().find(|fix| fix.in_effect && fix.plan.check == finding.id);
    if let Some(fix) = applied {
        return Some(&fix.plan);
    }
    let named = finding.fix.as_ref().and_then(|id| state.plans.iter().find(|plan| plan.id == *id));
    let plan = named.or_else(|| state.plans.iter().find(|plan| plan.check == finding.id))?;
    let last = state.fix_log.iter().rev().find(|line| line.id == plan.id && line.stage != FixStage::Previewed);
    let fixed = || last.is_some_and(|line| line.stage == FixStage::Fixed);
    (finding.status != Status::Pass || fixed()).then_some(plan)
}

/// The fix of a finding in one line: the title of its plan, otherwise the command of its fix, otherwise the advice.
pub(crate) fn remedy<'s>(state: &'s State, finding: &'s Finding) -> Option<&'s str> {
    let command = finding.command.as_deref().filter(|_| finding.fix.is_some());
    plan_for(state, finding).map(|plan| plan.title.as_str()).or(command).or(finding.advice.as_deref())
}

/// Whether a plan still has to be applied.
pub(crate) fn is_open(state: &State, plan: &FixPlan) -> bool {
    let applied = state.applied.iter().any(|fix| fix.in_effect && fix.plan.id == plan.id);
    let last = state.fix_log.iter().rev().find(|line| line.id == plan.id && line.stage != FixStage::Previewed);
    let in_place = last.is_some_and(|line| matches!(line.stage, FixStage::Fixed | FixStage::Waiting));
    let passes = state.checks.iter().any(|finding| finding.id == plan.check && finding.status == Status::Pass);
    !applied && !in_place && !passes
}

/// The first plan for the goal of the verdict that still has to be applied.
pub(crate) fn first_plan<'s>(state: &'s State, verdict: &Verdict) -> Option<&'s FixPlan> {
    let mut plans = obstacles(state, verdict).into_iter().filter_map(|finding| plan_for(state, finding));
    plans.find(|plan| is_open(state, plan))
}

/// The next plan to apply. Plans for the goal of the verdict are first, then the others in the order of their
/// severity. `shown` is the id of the plan that is already shown: the result is then the plan after it, and after the
/// last plan the first one.
pub(crate) fn next_open<'s>(state: &'s State, verdict: Option<&Verdict>, shown: Option<FixId>) -> Option<&'s FixPlan> {
    let mut others: Vec<&Finding> = state.checks.iter().collect();
    others.sort_by_key(|finding| std::cmp::Reverse(finding.status.weight()));
    let towards = verdict.map(|verdict| steps(state, verdict)).unwrap_or_default();
    let mut plans: Vec<&FixPlan> = Vec::new();
    for plan in towards.into_iter().chain(others).filter_map(|finding| plan_for(state, finding)) {
        if is_open(state, plan) && !plans.iter().any(|known| known.id == plan.id) {
            plans.push(plan);
        }
    }
    let after = plans.iter().position(|plan| Some(plan.id) == shown).map_or(0, |at| at + 1);
    plans.iter().cycle().skip(after).take(plans.len()).copied().find(|plan| Some(plan.id) != shown)
}
