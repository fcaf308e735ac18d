//! The step of the checklist that brings settings into effect: the reboot that no plan contains.

use super::guided::is_reboot;
use crate::core::check::Step as Row;
use crate::core::{CheckId, FixId, FixPlan, GuideStep, Needs, StepState};
use crate::machine::Root;

/// Whether a plan takes effect after a reboot.
pub(super) fn reboots(plan: &FixPlan) -> bool {
    plan.needs == Needs::Reboot || plan.changes.iter().any(is_reboot)
}

/// The end of the advice of the step with the reboot.
const ONCE: &str = "once, after the steps above: their settings take effect at the next boot.";

/// Whether a step is the reboot that no plan contains.
pub(super) fn is_reboot_step(step: &GuideStep) -> bool {
    step.advice.iter().any(|advice| advice.ends_with(ONCE))
}

/// Opens the step of the changes in effect, or adds it, if the last plan that waits for a reboot does not contain it.
pub(super) fn add_reboot(root: &Root, steps: &mut Vec<GuideStep>) {
    let known = steps.iter().position(|step| step.checks.contains(&CheckId::RebootPending));
    // A limit of the user takes effect after a new login.
    let waits = |plan: &FixPlan| reboots(plan) && plan.id != FixId::Memlock && plan.obstacle.is_none();
    let before = &steps[..known.unwrap_or(steps.len())];
    let Some(last) = before.iter().rposition(|step| step.plans.iter().any(waits)) else { return };
    let plan = before[last].plans.iter().rfind(|plan| waits(plan));
    if plan.is_some_and(|plan| plan.changes.iter().any(is_reboot)) {
        return;
    }
    let command = if root.is_root_without_sudo() { "reboot" } else { "sudo reboot" };
    let advice = format!("Run `{command}` {ONCE}");
    match known {
        Some(at) => {
            steps[at].state = StepState::Open;
            steps[at].advice.push(advice);
        }
        None => steps.insert(
            last + 1,
            GuideStep {
                title: Row::InEffect.title().to_owned(),
                state: StepState::Open,
                checks: Vec::new(),
                found: Vec::new(),
                plans: Vec::new(),
                advice: vec![advice],
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{FixPolicy, FixRisk};
    use crate::fixes::parts::{empty, run};

    fn step(checks: &[CheckId], plans: Vec<FixPlan>) -> GuideStep {
        GuideStep {
            title: String::new(),
            state: if plans.is_empty() { StepState::Done } else { StepState::Open },
            checks: checks.to_vec(),
            found: Vec::new(),
            plans,
            advice: Vec::new(),
        }
    }

    #[test]
    fn a_checklist_shows_the_reboot_that_no_plan_contains() {
        let root = Root::live();
        let keys = || empty(FixId::P2pdmaRegistryKeys, Needs::Reboot, FixRisk::Medium, FixPolicy::Ask);
        let driver = || FixPlan { changes: vec![run("sudo reboot")], ..keys() };
        let last = || step(&[], Vec::new());
        let in_effect = || step(&[CheckId::RebootPending], Vec::new());
        for (mut steps, places) in [
            (vec![step(&[], vec![keys()]), in_effect(), last()], &[0, 1][..]),
            (vec![step(&[], vec![keys()]), last(), last()], &[0, 1]),
            (vec![step(&[], vec![keys()]), step(&[], vec![driver()]), in_effect(), last()], &[0, 1]),
            (vec![in_effect(), last()], &[]),
        ] {
            add_reboot(&root, &mut steps);
            let open = steps.iter().enumerate().filter(|(_, step)| step.state == StepState::Open);
            assert_eq!(open.map(|(place, _)| place).collect::<Vec<_>>(), places, "{steps:?}");
        }
    }
}
