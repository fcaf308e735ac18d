//! Searches cufile.log at its usual paths and the kernel log for known causes.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::cufile::details::has_only_large_slabs;
use crate::checks::judged::Judged;
use crate::checks::logs::signatures::{Explained, NO_SMALL_SLAB, explain_cufile, explain_messages};
use crate::core::{CheckId, Route, Status};
use crate::machine;

/// The maximum number of causes per log. The most severe ones are shown.
const MOST: usize = 6;

/// The checks whose lines `nvfs-load-errors` and `nvme-state` already examine, together with the state in sysfs.
const ELSEWHERE: &[CheckId] = &[
    CheckId::DriverFlavour,
    CheckId::NvfsBuildInputs,
    CheckId::NvfsDkms,
    CheckId::NvfsAutoload,
    CheckId::NvfsSecureboot,
    CheckId::NvmeState,
];

/// `known` contains the findings so far. A log can be old, so a cause whose check passes now is not a warning.
pub(crate) fn run(ctx: &Context<'_>, known: &[Judged]) -> Vec<Judged> {
    let passes = |id: CheckId| known.iter().any(|judged| judged.id == id && judged.finding.status == Status::Pass);
    let does_open = !known.iter().any(|judged| judged.id == CheckId::LibOpenProbe && judged.stops(Route::Compat));
    cufile_log(ctx, does_open, &passes).into_iter().chain(kernel_log(ctx, known, &passes)).collect()
}

fn cufile_log(ctx: &Context<'_>, does_open: bool, passes: &dyn Fn(CheckId) -> bool) -> Option<Judged> {
    let mut places: Vec<String> = Vec::new();
    places.extend(ctx.root.variable("CUFILE_LOGFILE_PATH"));
    places
        .extend(ctx.config().text("logging.dir").map(|folder| format!("{}/cufile.log", folder.trim_end_matches('/'))));
    for facts in ctx.subjects.iter().filter_map(|subject| subject.facts.as_ref()) {
        // A program that was started in the model's directory writes its log there.
        places.extend(facts.real_path.as_ref().map(|path| path.join("cufile.log").display().to_string()));
    }
    let (place, text) =
        places.into_iter().find_map(|place| ctx.root.read_text(&place).ok().map(|text| (place, text)))?;
    let mut causes = explain_cufile(&text);
    // If the present file has no such slabs, the line is older than its repair.
    causes.retain(|cause| cause.meaning != NO_SMALL_SLAB || has_only_large_slabs(ctx));
    let mut judged = judged(CheckId::LogScan, "cufile.log", &place, &causes, passes);
    // The open of libcufile still fails, and its finding has the cause.
    let worst = causes.iter().find(|cause| cause.status >= Status::Warn);
    if !does_open && worst.is_some_and(|cause| cause.check == Some(CheckId::LibOpenProbe)) {
        judged.finding.status = Status::Info;
        judged.advice = None;
    }
    Some(judged)
}

fn kernel_log(ctx: &Context<'_>, known: &[Judged], passes: &dyn Fn(CheckId) -> bool) -> Option<Judged> {
    let log = machine::kernel_log(ctx.root).filter(|_| ctx.gpu_on_bus() || ctx.root.exists("/sys/module/nvidia_fs"))?;
    let mut causes = explain_messages(&log);
    // A line that is evidence of another finding is not reported again.
    let is_told = |line: &str| known.iter().any(|judged| judged.finding.evidence.iter().any(|e| e.text.trim() == line));
    // Such a check has examined all lines about its subject.
    let reports = |check: CheckId| {
        let is_of_log = |judged: &Judged| judged.finding.evidence.iter().any(|e| e.source == machine::KERNEL_LOG);
        known.iter().any(|judged| judged.id == check && is_of_log(judged))
    };
    causes.retain(|cause| {
        !cause.check.is_some_and(|check| ELSEWHERE.contains(&check) || reports(check)) && !is_told(&cause.line)
    });
    (!causes.is_empty()).then(|| judged(CheckId::KernelLog, "the kernel log", "journalctl -k -b", &causes, passes))
}

fn judged(id: CheckId, name: &str, source: &str, causes: &[Explained], passes: &dyn Fn(CheckId) -> bool) -> Judged {
    let open = |cause: &&Explained| cause.status >= Status::Warn && !cause.check.is_some_and(passes);
    let worst = causes.iter().find(open);
    let mut judged = match (worst, causes.first()) {
        (Some(cause), _) if cause.status == Status::Fail => {
            let advice = match cause.fix {
                Some((fix, after)) => Advice::run(fix).text(format!("{after}.")),
                None => cause.todo.clone().into(),
            };
            Judged::warn(id, format!("{name}: {}", cause.meaning)).advice(advice)
        }
        (Some(cause), _) => Judged::info(id, format!("{name}: {}", cause.meaning)),
        (None, Some(cause)) if cause.status >= Status::Warn => {
            Judged::info(id, format!("{name}: {}; its check passes now", cause.meaning))
        }
        (None, Some(_)) => Judged::pass(id, format!("{name} reports no problem")),
        (None, None) => Judged::pass(id, format!("{name} has no known line")).found(source, "read"),
    };
    // The summary and the advice have the meaning of this line.
    let is_explained = |cause: &Explained| worst.is_some_and(|w| w.status == Status::Fail && std::ptr::eq(w, cause));
    for cause in causes.iter().take(MOST) {
        let times = if cause.count > 1 { format!(" ({} times)", cause.count) } else { String::new() };
        let line = format!("{}{times}", cause.line);
        let text = if is_explained(cause) { line } else { format!("{line}: {}", cause.sentence()) };
        judged = judged.found(source, text);
    }
    judged
}
