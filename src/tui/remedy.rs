//! Which plan fixes a finding, and which comes first.

use crate::domain::{Finding, FixPlan, FixStage, Status, Verdict};
use crate::present::verdict::steps;
use crate::session::State;

/// The plan that mends a finding; of one that passes, the plan that mended it.
pub(crate) fn plan_for<'s>(state: &'s State, finding: &Finding) -> Option<&'s FixPlan> {
    let applied = state.applied.iter().rev().find(|fix| fix.stands && fix.plan.check == finding.id);
    if let Some(fix) = applied {
        return Some(&fix.plan);
    }
    let named = finding.fix.as_ref().and_then(|id| state.plans.iter().find(|plan| plan.id == *id));
    let plan = named.or_else(|| state.plans.iter().find(|plan| plan.check == finding.id))?;
    let last = state.fix_log.iter().rev().find(|line| line.id == plan.id && line.stage != FixStage::Previewed);
    let mended = || last.is_some_and(|line| line.stage == FixStage::Mended);
    (finding.status != Status::Pass || mended()).then_some(plan)
}

/// The first fix towards the goal.
pub(crate) fn first_plan<'s>(state: &'s State, verdict: &Verdict) -> Option<&'s FixPlan> {
    steps(state, verdict).into_iter().find_map(|finding| plan_for(state, finding))
}
