//! Creates the plan of each fix for a machine, and finds the fix of each finding.

use super::parts::family;
use super::{
    advised, applied, bare, boot, config, doca, driver, fabric, fitting, install, kernel, limits, multipath, next_boot,
    registry, repository, secure_boot, spec, statement, udev,
};
use crate::checks::Report;
use crate::core::{Change, CheckId, Finding, FixId, FixPlan, Needs, Status};
use crate::machine::Root;

/// The plans for all findings of `report` that a fix can resolve, in the order of the findings.
#[must_use]
pub fn plan(root: &Root, report: &Report) -> Vec<FixPlan> {
    let mut out: Vec<FixPlan> = Vec::new();
    let is_loud = |finding: &&Finding| matches!(finding.status, Status::Fail | Status::Warn);
    for finding in report.findings.iter().filter(is_loud) {
        let Some(id) = finding.fix else { continue };
        if out.iter().any(|plan| plan.id == id) {
            continue;
        }
        out.extend(for_id(root, report, id, step_with(report, id, finding.id)).filter(changes_something));
    }
    out.into_iter().map(|plan| bare::plan(root, next_boot::ready(root, plan))).collect()
}

/// The plans that are offered if the user names no fix. Without a GPU, those that only matter with one are left out.
#[must_use]
pub fn offered(root: &Root, report: &Report) -> Vec<FixPlan> {
    let mut plans = plan(root, report);
    plans.retain(|plan| is_offered(report, plan));
    plans
}

/// Whether a plan is offered if the user does not name it.
#[must_use]
pub fn is_offered(report: &Report, plan: &FixPlan) -> bool {
    report.has_gpu || !report.finding(plan.check).is_some_and(Finding::is_only_for_gpus)
}

/// The sentence if there are plans, but none of them is offered.
#[must_use]
pub fn no_help(report: &Report, plans: &[FixPlan]) -> Option<String> {
    let has_offer = plans.iter().any(|plan| is_offered(report, plan));
    let ids: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    (!plans.is_empty() && !has_offer)
        .then(|| format!("no fix helps while the machine has no GPU; by name: {}", ids.join(", ")))
}

/// Whether a plan does more than to write the present text of files.
fn changes_something(plan: &FixPlan) -> bool {
    let is_same =
        |change: &Change| matches!(change, Change::WriteFile { before: Some(before), after, .. } if before == after);
    plan.changes.is_empty() || !plan.changes.iter().all(is_same)
}

/// The check whose plan is shown for a fix. A fix that resolves several findings is one step of the verdict, and its plan
/// is for that one.
pub(super) fn step_with(report: &Report, fix: FixId, check: CheckId) -> CheckId {
    let mut steps = report.verdicts.iter().flat_map(|verdict| &verdict.steps).copied();
    let is_same = |step: &CheckId| report.finding(*step).is_some_and(|finding| finding.fix == Some(fix));
    steps.clone().find(|step| *step == check).or_else(|| steps.find(is_same)).unwrap_or(check)
}

/// The check that a fix is for.
#[must_use]
pub fn check_of(id: FixId) -> CheckId {
    spec::of(id).check
}

/// The plan of a fix, even if no check needs it. `None` if there is nothing to change on the machine.
#[must_use]
pub fn plan_by_id(root: &Root, report: &Report, id: FixId) -> Option<FixPlan> {
    for_id(root, report, id, check_of(id)).map(|plan| bare::plan(root, next_boot::ready(root, plan)))
}

/// The plan of a fix for the check `check`. Its commands have sudo.
pub(super) fn for_id(root: &Root, report: &Report, id: FixId, check: CheckId) -> Option<FixPlan> {
    let family = family(root);
    let plan = match id {
        FixId::UdevRecord => udev::record_plan(root, report)?,
        FixId::MdUdev => udev::md_rule(root, report),
        FixId::NvidiaRepository => repository::plan(root, family),
        FixId::NvidiaDriverOpen => driver::open(root, report, family),
        FixId::NvidiaDriverProprietary => driver::proprietary(root, report, family),
        FixId::NvidiaFabricmanager => fabric::plan(root, report, family),
        FixId::NvfsInstall => install::nvfs(root, report, family),
        FixId::NvfsLoad => applied::load(root, report),
        FixId::NvfsDkms => install::dkms(root, report, family),
        FixId::NvfsStats => applied::stats(),
        FixId::SecureBootKey => secure_boot::plan(root, report, family),
        FixId::NvmePatch => doca::plan(root, report, family, doca::Transport::Nvme),
        FixId::NfsRdmaClient => doca::plan(root, report, family, doca::Transport::NfsRdma),
        FixId::IommuOff => boot::iommu(root),
        FixId::AcsRedirect => boot::acs(root, report),
        FixId::Ext4Ordered => boot::ordered(root, report),
        FixId::NvmeMultipathOff => multipath::plan(root),
        FixId::P2pdmaRegistryKeys => registry::plan(root),
        FixId::Initramfs => boot::initramfs(root, check),
        FixId::CufileP2pdmaKeys => applied::p2pdma_keys_plan(root, report),
        FixId::CufileConfig => config::plan(root, report),
        FixId::CufileLog => advised::log(root, report),
        FixId::LibcufileInstall => install::libcufile(root, report, family),
        FixId::ContainerDevices => advised::container(root, report),
        FixId::Bar1Large => boot::bar1(root),
        FixId::Memlock => limits::plan(root),
        FixId::KernelP2pdma => kernel::plan(root, report, family),
        FixId::GpuNearDisk => advised::gpu_near_disk(root, report),
        FixId::MoveModel => advised::move_model(root, report),
    };
    let plan = fitting::fitted(root, report, FixPlan { check: check.to_owned(), ..plan });
    let needs = if plan.needs == Needs::User && runs_as_root(&plan) { Needs::Root } else { plan.needs };
    Some(FixPlan { undo: statement::of_plan(&plan), needs, ..plan })
}

/// Whether a command of a plan runs as root.
fn runs_as_root(plan: &FixPlan) -> bool {
    let is_it = |argv: &[String]| {
        argv.iter().flat_map(|word| word.split_whitespace()).any(|word| matches!(word, "sudo" | "sudoedit"))
    };
    plan.changes.iter().any(|change| matches!(change, Change::Run { argv } if is_it(argv)))
}
