//! The order of the steps of the checklist: with as few reboots as possible, and nothing is done twice.

use super::distribution::adds_source;
use super::guided::is_reboot;
use super::in_effect::{is_reboot_step, reboots};
use super::install;
use super::parts::run;
use super::secure_boot::is_of_key;
use crate::core::{Change, CheckId, FixId, FixPlan, GuideStep as Step, Needs, StepState as State};

/// Whether a step has one of these fixes.
fn offers(step: &Step, fixes: &[FixId]) -> bool {
    step.plans.iter().any(|plan| fixes.contains(&plan.id))
}

/// Whether a step is the open test and change of a mount over RDMA.
fn is_mount(step: &Step) -> bool {
    step.state == State::Open && step.checks.contains(&CheckId::NfsRdma)
}

/// Moves the NFS client before nvidia-fs, which is built after it. The mount over RDMA is next to it, in the order of
/// the verdict: its test is first if the present client can do it.
pub(super) fn nfs_client_first(steps: &mut Vec<Step>, wanted: &[CheckId]) {
    const NVIDIA_FS: [FixId; 3] = [FixId::NvfsInstall, FixId::NvfsDkms, FixId::NvfsLoad];
    let Some(client) = steps.iter().position(|step| offers(step, &[FixId::NfsRdmaClient])) else { return };
    if let Some(module) = steps[..client].iter().position(|step| offers(step, &NVIDIA_FS)) {
        steps[module..=client].rotate_right(1);
    }
    let Some(mount) = steps.iter().position(is_mount) else { return };
    let mount = steps.remove(mount);
    let at = |id: CheckId| wanted.iter().position(|known| *known == id);
    let is_test_first = at(CheckId::NfsRdma) < at(CheckId::NvfsRegistered);
    let client = steps.iter().position(|step| offers(step, &[FixId::NfsRdmaClient])).unwrap_or(steps.len());
    steps.insert(if is_test_first { client } else { steps.len().min(client + 1) }, mount);
}

/// If several steps need the same fix, the fix is shown in the first of them.
pub(super) fn once(steps: &mut [Step]) {
    let mut shown: Vec<FixId> = Vec::new();
    for step in steps {
        let (mine, known): (Vec<_>, Vec<_>) =
            std::mem::take(&mut step.plans).into_iter().partition(|p| !shown.contains(&p.id));
        step.advice.extend(known.iter().map(|plan| format!("done by the fix {} above", plan.id)));
        shown.extend(mine.iter().map(|plan| plan.id));
        step.plans = mine;
    }
}

/// Whether a step tests the client that an earlier step installs. `earlier` are the steps before it.
fn tests_client(step: &Step, earlier: &[Step]) -> bool {
    is_mount(step) && earlier.iter().any(|before| offers(before, &[FixId::NfsRdmaClient]))
}

/// Whether a plan needs what the reboot of an earlier plan brings.
fn waits(plan: &FixPlan) -> bool {
    plan.obstacle.is_some() || plan.id == FixId::NvfsLoad
}

/// Whether a step only changes settings for the next boot, so that it can be before every other step.
fn is_setting(step: &Step) -> bool {
    const SETTINGS: [FixId; 5] =
        [FixId::IommuOff, FixId::AcsRedirect, FixId::NvmeMultipathOff, FixId::P2pdmaRegistryKeys, FixId::Ext4Ordered];
    let is_setting = |plan: &FixPlan| SETTINGS.contains(&plan.id) && reboots(plan) && !waits(plan);
    step.state == State::Open && !step.plans.is_empty() && step.plans.iter().all(is_setting)
}

/// Moves the settings that need a reboot before the last reboot that another step waits for. They need no further one.
pub(super) fn settings_first(steps: &mut [Step]) {
    for at in 0..steps.len() {
        if !is_setting(&steps[at]) {
            continue;
        }
        let is_waiting =
            |place: &usize| steps[*place].plans.iter().any(waits) || tests_client(&steps[*place], &steps[..*place]);
        let Some(waiting) = (0..at).rev().find(is_waiting) else { continue };
        let reboot =
            steps[..waiting].iter().rposition(|step| step.plans.iter().any(|plan| reboots(plan) && !waits(plan)));
        if let Some(reboot) = reboot {
            steps[reboot..=at].rotate_right(1);
        }
    }
}

/// Removes what a later step makes unnecessary: all reboots but the last before a step that waits for one, and keys and
/// tools that an earlier step installs.
pub(super) fn without_repeats(steps: &mut [Step]) {
    let mut is_reboot_later = false;
    for at in (0..steps.len()).rev() {
        is_reboot_later &= !tests_client(&steps[at], &steps[..at]);
        for plan in steps[at].plans.iter_mut().rev() {
            let reboots = reboots(plan);
            if reboots && is_reboot_later {
                plan.changes.retain(|change| !is_reboot(change));
                plan.needs = Needs::Reboot;
                if plan.remaining.is_empty() {
                    plan.remaining.push("sudo reboot".to_owned());
                }
            }
            is_reboot_later |= reboots;
            // The reboot that it waits for is before its own.
            is_reboot_later &= !waits(plan);
        }
    }
    let mut before: Vec<Change> = Vec::new();
    for plan in steps.iter_mut().flat_map(|step| &mut step.plans) {
        plan.changes.retain(|change| !before.contains(change));
        let is_lasting =
            |change: &&Change| plan.id == FixId::NvidiaRepository || is_of_key(change) || adds_source(change);
        before.extend(plan.changes.iter().filter(is_lasting).cloned());
    }
}

/// The plan of nvidia-fs behind a step that installs the driver: it is built with the driver's sources, and the reboot
/// of the driver loads it too.
pub(super) fn after_driver(mut plan: FixPlan, earlier: &[Step]) -> FixPlan {
    let is_prebuilt = |change: &Change| matches!(change, Change::Run { argv } if argv.iter().any(|word| word.starts_with("linux-modules-nvidia-")));
    let driver = earlier
        .iter()
        .flat_map(|step| &step.plans)
        .find(|plan| plan.id.installs_driver() && plan.obstacle.is_none() && !plan.changes.is_empty());
    let Some(driver) = driver else { return plan };
    match plan.obstacle.as_deref() {
        Some(install::NO_DRIVER) if !driver.changes.iter().any(is_prebuilt) => {
            plan.obstacle = None;
            plan.needs = Needs::Reboot;
            plan.changes.retain(|change| *change != run(install::LOAD));
            if !plan.changes.iter().any(is_reboot) {
                plan.changes.push(run("sudo reboot"));
            }
        }
        Some(install::NO_DRIVER | install::CLOSED_DRIVER) => {
            plan.obstacle = Some(format!("it follows the reboot into the driver of {}", driver.id));
        }
        _ => {}
    }
    plan
}

/// The place of the later step whose reboot replaces the one of a plan in the step `number`, counted from 0. `None` if
/// gds-top applies the plan, or if its reboot is not postponed.
#[must_use]
pub fn later_reboot(steps: &[Step], number: usize, plan: &FixPlan) -> Option<usize> {
    let is_postponed = plan.remaining.iter().any(|line| line.trim_start_matches("sudo ") == "reboot");
    if plan.applies() || !is_postponed { None } else { reboot_after(steps, number) }
}

/// The place of the later step whose reboot also brings a step into effect. `None` if there is none.
fn reboot_after(steps: &[Step], number: usize) -> Option<usize> {
    let mut last = None;
    for (place, step) in steps.iter().enumerate().skip(number + 1) {
        if tests_client(step, &steps[..place]) {
            return last;
        }
        for plan in &step.plans {
            if waits(plan) {
                return last;
            }
            if plan.changes.iter().any(is_reboot) {
                return Some(place);
            }
            if reboots(plan) {
                last = Some(place);
            }
        }
        if is_reboot_step(step) {
            return Some(place);
        }
    }
    last
}
