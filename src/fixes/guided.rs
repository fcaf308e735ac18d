//! Selects the next step of the guided set-up, with as few reboots as possible.

use super::journal::{Journal, Stage};
use super::place::Place;
use super::preview::changes_text;
use super::resume::boot_id;
use super::statement;
use crate::core::guide::{plans_after, rebuilt_once};
use crate::core::{Change, CheckId, FixId, FixPlan, FixPolicy, Guide, GuideStep, Needs, StepState};

/// The next action of the guided set-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Apply this plan. Its reboot is postponed until no other step is possible before it.
    Apply(Box<FixPlan>),
    /// The user must do this step manually: its title, and the reason or the instructions.
    ByHand(String, Vec<String>),
    /// Reboot, because these fixes take effect after it and no other step is possible before it.
    Reboot(Vec<FixId>),
    /// Prove the route with reads, because no fix is left.
    Prove,
    /// Stop, because no direct route is possible on this machine.
    Impossible,
}

/// The fixes that were applied since the last boot and take effect after the next one.
#[must_use]
pub fn waiting(place: &Place) -> Vec<FixId> {
    let boot = place.open_root().ok().and_then(|root| boot_id(&root));
    let entries = Journal::all(place).iter().flat_map(Journal::entries).collect::<Vec<_>>();
    let is_waiting = |stage, waits, then: &Option<String>| stage == Stage::Applied && waits && *then == boot;
    entries
        .into_iter()
        // A limit of the user takes effect after a new login.
        .filter(|entry| is_waiting(entry.stage, entry.waits_for_boot, &entry.boot_id) && entry.id != FixId::Memlock)
        .map(|entry| entry.id)
        .collect()
}

/// The next step. `waiting` is the result of [`waiting()`]. `tried` are the fixes that were applied since the set-up
/// was started.
#[must_use]
pub fn next(guide: &Guide, waiting: &[FixId], tried: &[FixId]) -> Next {
    if guide.steps.iter().any(|step| step.state == StepState::Impossible) {
        return Next::Impossible;
    }
    // The last step is the proof, which has no fix.
    let steps = guide.steps.split_last().map_or(&[][..], |(_, steps)| steps);
    for step in steps.iter().filter(|step| matches!(step.state, StepState::Open | StepState::Unknown)) {
        // Nothing below helps without the GPU, the place of the model or the network card.
        if is_first(step) && waiting.is_empty() {
            return Next::ByHand(step.title.clone(), step.advice.clone());
        }
        for plan in &step.plans {
            if waiting.contains(&plan.id) || tried.contains(&plan.id) {
                continue;
            }
            match &plan.obstacle {
                // The obstacle can be an earlier step that is not in effect yet.
                Some(_) if !waiting.is_empty() => {}
                Some(why) => return Next::ByHand(step.title.clone(), vec![format!("{}: {why}", plan.id)]),
                None if plan.is_executable() => {
                    let is_left = |other: &&FixPlan| !waiting.contains(&other.id) && !tried.contains(&other.id);
                    let plan = rebuilt_once(plan, plans_after(steps, plan).filter(is_left));
                    return Next::Apply(Box::new(executable(&plan)));
                }
                None if plan.policy == FixPolicy::Never => {}
                None => return Next::ByHand(step.title.clone(), lines(plan)),
            }
        }
    }
    if waiting.is_empty() { Next::Prove } else { Next::Reboot(waiting.to_vec()) }
}

/// Whether an open step needs other hardware or another place of the model, and no fix does it.
fn is_first(step: &GuideStep) -> bool {
    let is_before_software =
        |id: &CheckId| id.spec().step.is_some_and(|part| part.step <= crate::core::check::Step::Network);
    step.state == StepState::Open
        && step.checks.iter().any(is_before_software)
        && step.plans.iter().all(|plan| plan.policy == FixPolicy::Never)
        && !step.advice.is_empty()
}

/// The open steps without a fix, and their advice.
pub fn advice(guide: &Guide) -> impl Iterator<Item = (&GuideStep, &[String])> {
    let steps = guide.steps.split_last().map_or(&[][..], |(_, steps)| steps);
    let is_left = |step: &&GuideStep| step.state == StepState::Open && step.plans.is_empty() && !step.advice.is_empty();
    steps.iter().filter(is_left).map(|step| (step, step.advice.as_slice()))
}

/// Whether a change is the command that reboots.
pub(super) fn is_reboot(change: &Change) -> bool {
    let is_it = |argv: &[String]| argv.iter().map(String::as_str).skip_while(|word| *word == "sudo").eq(["reboot"]);
    matches!(change, Change::Run { argv } if is_it(argv))
}

/// The plan as the guided set-up applies it: without its reboot, and with the sentence about its undo.
fn executable(plan: &FixPlan) -> FixPlan {
    let mut out = FixPlan { policy: FixPolicy::Ask, ..plan.clone() };
    let reboot = out.changes.iter().find(|change| is_reboot(change)).cloned();
    out.changes.retain(|change| !is_reboot(change));
    if let Some(Change::Run { argv }) = reboot {
        out.needs = Needs::Reboot;
        out.remaining.push(argv.join(" "));
    }
    if plan.policy != FixPolicy::Ask {
        out.undo = statement::of_plan(&FixPlan { undo: String::new(), ..out.clone() });
    }
    out
}

/// The reason of a plan, which names the downloads, then its commands and the lines of its files.
fn lines(plan: &FixPlan) -> Vec<String> {
    [plan.why.clone()].into_iter().chain(changes_text(plan).lines().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{FixRisk, Route};

    fn plan(id: FixId, commands: &[&str], obstacle: Option<&str>) -> FixPlan {
        let changes = commands.iter().map(|line| super::super::parts::run(line)).collect();
        let plan = super::super::parts::empty(id, Needs::Reboot, FixRisk::High, FixPolicy::Show);
        FixPlan { changes, obstacle: obstacle.map(str::to_owned), ..plan }
    }

    fn guide(plans: Vec<FixPlan>) -> Guide {
        let step = |state, plans| GuideStep {
            title: "a step".to_owned(),
            state,
            checks: Vec::new(),
            found: Vec::new(),
            plans,
            advice: Vec::new(),
        };
        let mut steps: Vec<GuideStep> = plans.into_iter().map(|plan| step(StepState::Open, vec![plan])).collect();
        steps.push(step(StepState::Open, Vec::new()));
        Guide { route: Route::Nvfs, reason: String::new(), open: Vec::new(), steps }
    }

    const DRIVER: FixId = FixId::NvidiaDriverOpen;
    const NVFS: FixId = FixId::NvfsInstall;

    #[test]
    fn reboots_are_merged_and_what_needs_one_waits_for_it() {
        let install = plan(DRIVER, &["sudo apt-get install -y nvidia-open", "sudo reboot"], None);
        let nvfs = plan(NVFS, &["sudo apt-get install -y nvidia-gds"], Some("the driver is not loaded"));
        let keys = plan(FixId::P2pdmaRegistryKeys, &["sudo update-initramfs -u", "sudo reboot"], None);
        let all = guide(vec![install, nvfs, keys]);
        let Next::Apply(first) = next(&all, &[], &[]) else { unreachable!("the driver comes first") };
        assert_eq!((first.id, first.changes.len(), first.needs), (DRIVER, 1, Needs::Reboot));
        assert_eq!(first.remaining, ["sudo reboot"]);
        // nvidia-fs depends on the reboot, but the keys do not.
        let Next::Apply(second) = next(&all, &[DRIVER], &[DRIVER]) else { unreachable!("the keys follow") };
        assert_eq!(second.id, FixId::P2pdmaRegistryKeys);
        let both = [DRIVER, FixId::P2pdmaRegistryKeys];
        assert_eq!(next(&all, &both, &both), Next::Reboot(both.to_vec()));
        // If no reboot is pending, the user must resolve the obstacle.
        assert!(matches!(next(&guide(vec![all.steps[1].plans[0].clone()]), &[], &[]), Next::ByHand(..)));
        assert_eq!(next(&guide(Vec::new()), &[], &[]), Next::Prove);
    }

    #[test]
    fn the_initramfs_is_rebuilt_once_before_a_reboot() {
        const REBUILD: &str = "sudo update-initramfs -u -k all";
        let file =
            |path: &str| Change::WriteFile { path: path.into(), before: None, after: String::new(), mode: 0o644 };
        let writing = |id, path: &str, obstacle| {
            let mut plan = plan(id, &[REBUILD, "sudo reboot"], obstacle);
            plan.changes.insert(0, file(path));
            plan
        };
        let keys = writing(FixId::P2pdmaRegistryKeys, "/etc/modprobe.d/nvidia-p2pdma.conf", None);
        let paths = |obstacle| writing(FixId::NvmeMultipathOff, "/etc/modprobe.d/nvme.conf", obstacle);
        let rebuilds = |all: &Guide, waiting: &[FixId], tried: &[FixId]| match next(all, waiting, tried) {
            Next::Apply(plan) => (plan.id, plan.changes.contains(&super::super::parts::run(REBUILD))),
            other => unreachable!("{other:?}"),
        };
        let both = guide(vec![keys.clone(), paths(None)]);
        let Next::Apply(without) = next(&both, &[], &[]) else { unreachable!("the keys come first") };
        assert_eq!(both.left_rebuild(&without), Some(super::super::parts::words(REBUILD).as_slice()));
        assert_eq!(both.left_rebuild(&keys), None);
        let first = [FixId::P2pdmaRegistryKeys];
        assert_eq!(rebuilds(&both, &[], &[]), (FixId::P2pdmaRegistryKeys, false));
        assert_eq!(rebuilds(&both, &first, &first), (FixId::NvmeMultipathOff, true));
        // The later step is already applied, or cannot be applied.
        let applied = [FixId::NvmeMultipathOff];
        assert_eq!(rebuilds(&both, &applied, &applied), (FixId::P2pdmaRegistryKeys, true));
        let blocked = guide(vec![keys, paths(Some("no such disk"))]);
        assert_eq!(rebuilds(&blocked, &[], &[]), (FixId::P2pdmaRegistryKeys, true));
        // The same plans are shown, also those for a root user without sudo.
        let bare = |mut plan: FixPlan| {
            plan.changes.iter_mut().for_each(|change| {
                if let Change::Run { argv } = change {
                    argv.retain(|word| word != "sudo");
                }
            });
            plan
        };
        let bare_guide = guide(both.steps.iter().flat_map(|step| step.plans.iter().cloned().map(bare)).collect());
        let counts = |guide: &Guide| -> Vec<usize> {
            guide.steps.iter().flat_map(|step| &step.plans).map(|plan| plan.changes.len()).collect()
        };
        for all in [&both, &bare_guide] {
            assert_eq!((counts(all), counts(&all.shown())), (vec![3, 3], vec![2, 3]));
        }
    }

    #[test]
    fn nothing_is_installed_before_hardware_that_is_missing() {
        let mut all = guide(vec![plan(DRIVER, &["sudo apt-get install -y nvidia-open"], None)]);
        let advice = vec!["Use a network card with RDMA.".to_owned()];
        let card = GuideStep {
            checks: vec![CheckId::RdmaStack],
            plans: Vec::new(),
            advice: advice.clone(),
            ..all.steps[0].clone()
        };
        all.steps.insert(0, card);
        assert_eq!(next(&all, &[], &[]), Next::ByHand("a step".to_owned(), advice));
    }

    #[test]
    fn steps_for_a_person_are_not_run() {
        for line in
            ["sudoedit /etc/default/grub", "sudo rpm -Uvh doca-host-*.rpm", "sudo ./mlnxofedinstall", "export A=b"]
        {
            assert!(!plan(DRIVER, &[line], None).is_executable(), "{line}");
        }
        assert!(plan(DRIVER, &["sudo apt-get install -y nvidia-open"], None).is_executable());
        assert!(!plan(FixId::Bar1Large, &["sudo systemctl reboot --firmware-setup"], None).is_executable());
    }
}
