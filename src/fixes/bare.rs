//! Plans without sudo, for a root user on a machine that has none.

use crate::core::{Change, FixPlan, Guide};
use crate::machine::{Root, container};
use crate::text::without_sudo;

/// The plan as this user can run it. In a container, the commands that gds-top only shows are for the host.
pub(super) fn plan(root: &Root, plan: FixPlan) -> FixPlan {
    let is_of_host = || container(root).is_some() && !plan.applies();
    if root.is_root_without_sudo() && !is_of_host() { stripped(plan) } else { plan }
}

/// The checklist with such plans.
pub(super) fn guide(root: &Root, mut guide: Guide) -> Guide {
    if root.is_root_without_sudo() {
        for step in &mut guide.steps {
            step.plans = std::mem::take(&mut step.plans).into_iter().map(|one| plan(root, one)).collect();
        }
    }
    guide
}

fn stripped(plan: FixPlan) -> FixPlan {
    let change = |change: Change| match change {
        Change::Run { argv } => Change::Run { argv: without(argv) },
        written @ Change::WriteFile { .. } => written,
    };
    FixPlan {
        changes: plan.changes.into_iter().map(change).collect(),
        undo_commands: plan.undo_commands.into_iter().map(without).collect(),
        remaining: plan.remaining.iter().map(|line| without_sudo(line)).collect(),
        why: without_sudo(&plan.why),
        verify: without_sudo(&plan.verify),
        undo: without_sudo(&plan.undo),
        obstacle: plan.obstacle.as_deref().map(without_sudo),
        ..plan
    }
}

fn without(mut argv: Vec<String>) -> Vec<String> {
    match argv.first().map(String::as_str) {
        Some("sudo") => {
            argv.remove(0);
        }
        Some("sudoedit") => "vi".clone_into(&mut argv[0]),
        _ => {}
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{FixId, FixPolicy, FixRisk, Needs};
    use crate::fixes::parts::{empty, run};

    #[test]
    fn no_part_of_a_plan_keeps_sudo() {
        let plan = FixPlan {
            changes: vec![run("sudo update-initramfs -u"), run("sudoedit /etc/f"), run("sudo reboot")],
            undo_commands: vec![vec!["sudo".to_owned(), "true".to_owned()]],
            remaining: vec!["sudo reboot".to_owned()],
            undo: "sudo rm /etc/f, then reboot".to_owned(),
            ..empty(FixId::KernelP2pdma, Needs::Reboot, FixRisk::High, FixPolicy::Show)
        };
        let plan = stripped(plan);
        assert_eq!(plan.changes, [run("update-initramfs -u"), run("vi /etc/f"), run("reboot")]);
        assert_eq!(plan.undo_commands, [["true"]]);
        assert_eq!((plan.remaining, plan.undo.as_str()), (vec!["reboot".to_owned()], "rm /etc/f, then reboot"));
    }
}
