//! Creates the plan of each fix for a machine, and finds the fix of each finding.

use super::parts::family;
use super::{
    advised, applied, boot, config, doca, driver, fabric, fitting, install, kernel, limits, multipath, registry,
    repository, secure_boot, spec, statement, udev,
};
use crate::checks::{CheckId, Report};
use crate::core::{Finding, FixId, FixPlan, Status};
use crate::machine::Root;

/// The plans for all findings of `report` that a fix can resolve, in the order of the findings.
#[must_use]
pub fn plan(root: &Root, report: &Report) -> Vec<FixPlan> {
    let mut out: Vec<FixPlan> = Vec::new();
    for finding in &report.findings {
        let Some(id) = fix_of(finding) else { continue };
        if !matches!(finding.status, Status::Fail | Status::Warn) || out.iter().any(|plan| plan.id == id) {
            continue;
        }
        out.extend(for_id(root, report, id, &finding.id));
    }
    out
}

/// The plan of a fix, even if no check needs it. `None` if there is nothing to change on the machine.
#[must_use]
pub fn plan_by_id(root: &Root, report: &Report, id: FixId) -> Option<FixPlan> {
    for_id(root, report, id, spec::of(id).check.as_str())
}

/// The fixes of checks whose findings do not name one.
const BY_CHECK: &[(CheckId, FixId)] = &[
    (CheckId::NvfsDkms, FixId::NvfsDkms),
    (CheckId::NvfsBuildInputs, FixId::NvfsDkms),
    (CheckId::NvfsSecureboot, FixId::SecureBootKey),
    (CheckId::NvfsNvmeSymbol, FixId::NvmePatch),
    (CheckId::GpuBar1Size, FixId::Bar1Large),
    (CheckId::KernelP2pdma, FixId::KernelP2pdma),
    (CheckId::CtrDevices, FixId::ContainerDevices),
    (CheckId::NvfsDevnodes, FixId::ContainerDevices),
    (CheckId::NvfsAutoload, FixId::NvfsLoad),
    (CheckId::NvfsStatsOn, FixId::NvfsStats),
    (CheckId::NvfsBridgesAcs, FixId::AcsRedirect),
    (CheckId::PcieAcs, FixId::AcsRedirect),
    (CheckId::CfgParse, FixId::CufileConfig),
    (CheckId::LogLocation, FixId::CufileLog),
    (CheckId::FsType, FixId::MoveModel),
];

/// The fix that a finding names, or the fix of its check.
pub(super) fn fix_of(finding: &Finding) -> Option<FixId> {
    if finding.fix.is_some() {
        return finding.fix;
    }
    // A consequence is resolved with its cause.
    if finding.cause.is_some() {
        return None;
    }
    BY_CHECK.iter().find(|(check, _)| finding.id == *check).map(|(_, fix)| *fix)
}

/// The plan of a fix for the check `check`.
pub(super) fn for_id(root: &Root, report: &Report, id: FixId, check: &str) -> Option<FixPlan> {
    let family = family(root);
    let plan = match id {
        FixId::UdevRecord => udev::record_plan(root, report)?,
        FixId::MdUdev => udev::md_rule(root),
        FixId::NvidiaRepository => repository::plan(root, family),
        FixId::NvidiaDriverOpen => driver::open(root, report, family),
        FixId::NvidiaDriverProprietary => driver::proprietary(root, report, family),
        FixId::NvidiaFabricmanager => fabric::plan(root, family),
        FixId::NvfsInstall => install::nvfs(root, report, family),
        FixId::NvfsLoad => applied::load(root),
        FixId::NvfsDkms => install::dkms(root, report, family),
        FixId::NvfsStats => applied::stats(),
        FixId::SecureBootKey => secure_boot::plan(root, report, family),
        FixId::NvmePatch => doca::plan(root, report, family),
        FixId::IommuOff => boot::iommu(root),
        FixId::AcsRedirect => boot::acs(root, report),
        FixId::Ext4Ordered => boot::ordered(root, report),
        FixId::NvmeMultipathOff => multipath::plan(root),
        FixId::P2pdmaRegistryKeys => registry::plan(root),
        FixId::Initramfs => boot::initramfs(root),
        FixId::CufileP2pdmaKeys => applied::cufile_keys(root),
        FixId::CufileConfig => config::plan(root, report),
        FixId::CufileLog => advised::log(root, report),
        FixId::LibcufileInstall => install::libcufile(root, report, family),
        FixId::ContainerDevices => advised::container(root),
        FixId::Bar1Large => boot::bar1(),
        FixId::Memlock => limits::plan(root),
        FixId::KernelP2pdma => kernel::plan(root, report, family),
        FixId::GpuNearDisk => advised::gpu_near_disk(root),
        FixId::MoveModel => advised::move_model(report),
    };
    let plan = fitting::fitted(root, report, FixPlan { check: check.to_owned(), ..plan });
    Some(FixPlan { undo: statement::of_plan(&plan), ..plan })
}
