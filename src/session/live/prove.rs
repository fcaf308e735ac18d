//! Proves a verdict with real reads in a child process. Compat mode is forbidden first. If the read fails, a second
//! process reads with compat mode allowed.

use super::child::probe_child;
use crate::checks::{Report, Trial, with_trial};
use crate::core::{CheckId, RouteCounts, Status, Verdict};
use crate::trust::Scratch;
use serde_json::Value;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Time limit of a read of 32 MiB, after CUDA and libcufile were opened. A machine that needs longer has a fault that
/// should be reported.
const LIMIT: Duration = Duration::from_secs(20);

/// Proves the routes of a report and returns the verdicts that changed. Each GPU is tested in a separate child
/// process, at the same time. Nothing is tested if libcufile cannot be opened, or if CUDA can open no GPU.
#[must_use]
pub fn prove(exe: &Path, report: &Report) -> Vec<Verdict> {
    if report.finding(CheckId::LibOpenProbe).is_none_or(|finding| finding.status != Status::Pass) {
        return Vec::new();
    }
    let scratch = Scratch::new("gds-top-proof-");
    let mut out = Vec::new();
    let able: Vec<&Verdict> =
        report.verdicts.iter().filter(|v| v.gpu.as_deref().is_some_and(|gpu| gpu.starts_with("GPU-"))).collect();
    let mut rest = able.as_slice();
    while let Some(first) = rest.first() {
        // The GPUs of one path are tested at the same time, but the paths one after another, because they may share a
        // disk.
        let (group, others) = rest.split_at(rest.iter().take_while(|v| v.path == first.path).count());
        rest = others;
        let proven: Vec<Verdict> = std::thread::scope(|scope| {
            let try_one = |verdict: &Verdict| match &scratch {
                Ok(scratch) => one(exe, verdict, scratch.path()),
                Err(why) => {
                    let error = format!("a temporary directory cannot be created: {why}");
                    with_trial(verdict, &Trial::Untried { error }, None)
                }
            };
            let start = |verdict| std::thread::Builder::new().spawn_scoped(scope, move || try_one(verdict));
            let tasks: Vec<_> = group.iter().map(|verdict| (start(verdict), *verdict)).collect();
            // If no further thread can be started, the GPUs are tested one after another.
            let end = |(task, verdict): (std::io::Result<ScopedJoinHandle<'_, Verdict>>, &Verdict)| match task {
                Ok(task) => task.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => try_one(verdict),
            };
            tasks.into_iter().map(end).collect()
        });
        out.extend(proven.into_iter().zip(group).filter(|(new, old)| new != **old).map(|(new, _)| new));
    }
    out
}

fn one(exe: &Path, verdict: &Verdict, scratch: &Path) -> Verdict {
    let strict = read(exe, verdict, scratch, false);
    // If the first read was not possible (no file, no CUDA or no result), a second one would only take the same time
    // again.
    let allowed = matches!(strict, Trial::Refused { .. }).then(|| read(exe, verdict, scratch, true));
    with_trial(verdict, &strict, allowed.as_ref())
}

fn read(exe: &Path, verdict: &Verdict, scratch: &Path, allow: bool) -> Trial {
    let (path, scratch) = (verdict.path.to_string_lossy(), scratch.to_string_lossy());
    let gpu = verdict.gpu.as_deref().unwrap_or_default();
    let mut arguments = vec!["__probe-read", "--scratch", scratch.as_ref()];
    if allow {
        arguments.push("--allow-compat");
    }
    arguments.extend(["--", path.as_ref(), gpu]);
    match probe_child(exe, &arguments, LIMIT) {
        Ok(said) => understood(&said),
        // A hang or a crash is a fact about the machine, but shows nothing about the route.
        Err(error) => Trial::Untried { error },
    }
}

fn understood(said: &Value) -> Trial {
    let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    if said.get("ok") == Some(&Value::Bool(true)) {
        let counts = said.get("route").and_then(|route| serde_json::from_value::<RouteCounts>(route.clone()).ok());
        return Trial::Worked {
            file: text("file"),
            bytes: said.get("bytes").and_then(Value::as_u64).unwrap_or(0),
            counts,
        };
    }
    match said.get("stage").and_then(Value::as_str) {
        Some("open" | "register" | "read" | "config") => Trial::Refused { error: text("error") },
        Some("bytes") => Trial::Wrong { error: text("error") },
        _ => Trial::Untried { error: text("error") },
    }
}
