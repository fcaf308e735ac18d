//! Judgement: facts become findings, findings become one verdict for each path and GPU. Does nothing.

mod config_file;
mod context;
mod cufile;
mod cufile_details;
pub mod cufile_json;
mod fabric;
mod file_details;
mod files;
mod gpu;
mod gpu_present;
mod gpu_state;
mod judged;
mod kernel;
mod kernel_log;
mod library_routes;
mod limits;
mod log_scan;
pub mod log_signatures;
mod nvfs_build;
mod nvfs_dkms;
mod nvfs_module;
mod nvidia_fs;
mod proof;
mod reboot_pending;
mod registry_keys;
mod report;
mod static_config;
mod storage;
mod surroundings;
pub mod text;
mod topology;
mod verdict;

use crate::domain::{Finding, Machine};
use crate::host::{self, Root};
use context::Context;
pub(crate) use files::udev_record_path;
use judged::Judged;
pub(crate) use nvfs_build::kept_out;
pub use proof::{Trial, with_counts, with_trial};
pub use report::Report;
use std::path::PathBuf;
use std::thread::Scope;
use std::time::Instant;

/// The machine with the settings of its cufile.json. Waits for NVML and libcufile, so call it after the checks.
#[must_use]
pub fn machine(root: &Root) -> Machine {
    Machine { cufile_settings: cufile_json::settings(root), ..host::machine(root) }
}

/// Runs all checks for `paths` and the GPU of that index or UUID (`None` is every GPU). Findings are emitted as they come, the quick ones
/// at once; a finding that the rest of the round changes is emitted again, and the later one counts.
pub fn run(root: &Root, paths: &[PathBuf], gpu: Option<&str>, emit: &mut dyn FnMut(Finding)) -> Report {
    let began = Instant::now();
    std::thread::scope(|scope| {
        // The slow ones begin first; the view keeps their answers, and who needs one waits for it there.
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
                let installed =
                    root.command(&["modinfo", "nvidia_fs"]).is_some_and(|output| output.exit_code == Some(0));
                // DKMS knows of it where it is built for another kernel only.
                let known = root.exists("/var/lib/dkms")
                    && root.command(&["dkms", "status"]).is_some_and(|o| o.stdout.contains("nvidia-fs"));
                if installed || known || root.exists("/sys/module/nvidia_fs") {
                    let _ = root.command(&["journalctl", "-k", "-b", "-o", "cat"]);
                }
            }
        });
        round(root, paths, gpu, emit, began)
    })
}

/// Asks on a thread of its own; where the system gives none, whoever needs the answer asks.
fn early<'scope>(scope: &'scope Scope<'scope, '_>, ask: impl FnOnce() + Send + 'scope) {
    let _ = std::thread::Builder::new().spawn_scoped(scope, ask);
}

fn host_has_gpu(root: &Root) -> bool {
    crate::host::pci_gpus(root).is_some_and(|gpus| !gpus.is_empty()) || root.exists("/proc/driver/nvidia/version")
}

/// The groups of checks in the order in which they run: what needs no slow answer first.
const GROUPS: [fn(&Context<'_>) -> Vec<Judged>; 21] = [
    files::run,
    file_details::run,
    storage::run,
    topology::run,
    limits::run,
    kernel::run,
    cufile::quick,
    cufile_details::quick,
    gpu::quick,
    gpu_present::run,
    gpu::slow,
    topology::late,
    gpu_state::run,
    nvidia_fs::run,
    cufile::slow,
    cufile_details::slow,
    fabric::run,
    gpu_state::late,
    surroundings::run,
    surroundings::slow,
    limits::slow,
];

fn round(root: &Root, paths: &[PathBuf], gpu: Option<&str>, emit: &mut dyn FnMut(Finding), began: Instant) -> Report {
    let ctx = Context::new(root, paths, gpu);
    let mut all: Vec<Judged> = Vec::new();
    let mut sent: Vec<Finding> = Vec::new();
    let mut take = |judged: Vec<Judged>, all: &mut Vec<Judged>, early: bool| {
        if early {
            // What is in some route's way has its status only when all is known; the rest can be shown at once.
            let known: Vec<Judged> = judged.iter().filter(|j| j.in_the_way().next().is_none()).cloned().collect();
            let whole = |f: &Finding| !judged.iter().any(|j| j.finding.id == f.id && j.in_the_way().next().is_some());
            for finding in verdict::merge(&ctx, &known).into_iter().filter(whole) {
                emit(finding.clone());
                sent.push(finding);
            }
        }
        all.extend(judged);
    };
    for group in GROUPS {
        take(group(&ctx), &mut all, true);
    }
    let explained = log_scan::run(&ctx, &all);
    take(explained, &mut all, true);
    let waits = |s: &context::Subject| {
        s.facts.as_ref().and_then(|f| f.filesystem.as_deref()).is_some_and(files::waits_for_version)
    };
    if ctx.subjects.iter().any(waits) {
        // Whether cuFile takes files of an overlay and the like depends on the library's version, which is known only now.
        let anew = files::run(&ctx);
        all.retain(|old| !anew.iter().any(|new| new.finding.id == old.finding.id));
        take(anew, &mut all, false);
    }
    let verdicts = verdict::settle(&ctx, &mut all);
    let findings = verdict::merge(&ctx, &all);
    for finding in &findings {
        if !sent.contains(finding) {
            emit(finding.clone());
        }
    }
    let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Report { findings, verdicts, has_gpu: ctx.has_gpu(), took_ns }
}
