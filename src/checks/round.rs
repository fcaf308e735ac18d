//! Runs a round of checks: their order, and the findings as they arrive.

use super::container::{dynamic_routing, limits, of_host, surroundings};
use super::context::{Context, Subject};
use super::cufile::{config, details, library};
use super::filesystem::{file, kind, mount};
use super::gpu::{device, driver, fabric, guest_driver, present, state};
use super::guest;
use super::image_host;
use super::judged::Judged;
use super::kernel::{next_boot, platform};
use super::logs::scan;
use super::nvidia_fs::run as nvidia_fs;
use super::pcie::topology;
use super::report::Report;
use super::storage::{health, nvme, smart};
use super::verdict::{commands::complete, merge::merge, settle::settle};
use crate::core::{CheckId, Finding, Status};
use crate::machine::{self, Root};
use std::path::PathBuf;
use std::thread::Scope;
use std::time::Instant;

/// Runs all checks for `paths` and one GPU (by index or UUID, `None` for every GPU). Findings are emitted as they
/// arrive. A finding that later checks change is emitted again and replaces the earlier one.
pub fn run(root: &Root, paths: &[PathBuf], gpu: Option<&str>, emit: &mut dyn FnMut(Finding)) -> Report {
    let began = Instant::now();
    let _kept = root.keep_reads();
    std::thread::scope(|scope| {
        // The slow sources are started first. The machine view stores their results, and checks wait for them.
        early(scope, || {
            let _ = root.nvml();
        });
        early(scope, || {
            let _ = root.libcufile();
        });
        early(scope, || {
            if host_has_gpu(root) && root.entries("/sys/class/nvme").is_ok_and(|names| !names.is_empty()) {
                let _ = root.symbols();
            }
        });
        early(scope, || {
            if host_has_gpu(root) {
                let _ = root.command(&["modinfo", "nvidia"]);
                // The kernel log contains the reason if a driver or a disk was rejected.
                let _ = machine::kernel_log(root);
                let _ = machine::nvidia_fs_known(root);
            }
        });
        round(root, paths, gpu, emit, began)
    })
}

/// Queries a source on another thread. If no thread can be started, the first check that needs the result queries it.
fn early<'scope>(scope: &'scope Scope<'scope, '_>, ask: impl FnOnce() + Send + 'scope) {
    let _ = std::thread::Builder::new().spawn_scoped(scope, ask);
}

fn host_has_gpu(root: &Root) -> bool {
    crate::machine::pci_gpus(root).is_some_and(|gpus| !gpus.is_empty()) || root.exists("/proc/driver/nvidia/version")
}

/// The groups of checks in the order in which they run. Groups that do not wait for a slow source are first.
const GROUPS: [fn(&Context<'_>) -> Vec<Judged>; 25] = [
    mount::run,
    file::run,
    nvme::run,
    health::run,
    smart::run,
    topology::run,
    limits::run,
    platform::run,
    config::quick,
    details::quick,
    driver::quick,
    present::run,
    driver::slow,
    device::slow,
    topology::late,
    state::run,
    nvidia_fs::run,
    library::slow,
    details::slow,
    fabric::run,
    state::late,
    surroundings::run,
    surroundings::slow,
    dynamic_routing::run,
    limits::slow,
];

/// Removes causes whose checks pass: they explain nothing, and their consequence would be in no list of blockers.
fn drop_passed_causes(all: &mut [Judged]) {
    let passed: Vec<CheckId> = all.iter().filter(|j| j.finding.status == Status::Pass).map(|j| j.finding.id).collect();
    let failed: Vec<CheckId> = all.iter().filter(|j| j.finding.status != Status::Pass).map(|j| j.finding.id).collect();
    for judged in all.iter_mut() {
        let cause = judged.finding.cause;
        let has_passed = cause.is_some_and(|id| passed.contains(&id) && !failed.contains(&id));
        if has_passed {
            judged.finding.cause = None;
        }
    }
}

fn round(root: &Root, paths: &[PathBuf], gpu: Option<&str>, emit: &mut dyn FnMut(Finding), began: Instant) -> Report {
    let ctx = Context::new(root, paths, gpu);
    let mut all: Vec<Judged> = Vec::new();
    let mut sent: Vec<Finding> = Vec::new();
    let mut take = |judged: Vec<Judged>, all: &mut Vec<Judged>, early: bool| {
        let judged = of_host::adapt(&ctx, image_host::adapt(&ctx, guest_driver::adapt(&ctx, judged)));
        let mut judged = guest::adapt(&ctx, judged);
        complete(&ctx, &mut judged);
        if early {
            // The status of a finding that blocks a route is known only at the end. Other findings are emitted
            // immediately.
            let known: Vec<Judged> = judged.iter().filter(|j| j.in_the_way().next().is_none()).cloned().collect();
            let is_final =
                |f: &Finding| !judged.iter().any(|j| j.finding.id == f.id && j.in_the_way().next().is_some());
            for finding in merge(&ctx, &known).into_iter().filter(is_final) {
                emit(finding.clone());
                sent.push(finding);
            }
        }
        all.extend(judged);
    };
    for group in GROUPS {
        take(group(&ctx), &mut all, true);
    }
    let explained = scan::run(&ctx, &all);
    take(explained, &mut all, true);
    let waits =
        |s: &Subject| s.facts.as_ref().and_then(|f| f.filesystem.as_deref()).is_some_and(kind::waits_for_version);
    if ctx.subjects.iter().any(waits) {
        // Whether overlays and similar file systems are supported depends on the version of libcufile, which is known
        // only now.
        let again = mount::run(&ctx);
        all.retain(|old| !again.iter().any(|new| new.finding.id == old.finding.id));
        take(again, &mut all, false);
    }
    drop_passed_causes(&mut all);
    let verdicts = settle(&ctx, &mut all);
    next_boot::prepare_all(&ctx, &mut all);
    let findings = merge(&ctx, &all);
    for finding in &findings {
        if !sent.contains(finding) {
            emit(finding.clone());
        }
    }
    let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let paths = ctx.subjects.iter().filter_map(|subject| subject.present().cloned()).collect();
    Report { findings, verdicts, paths, has_gpu: ctx.has_gpu(), took_ns }
}
