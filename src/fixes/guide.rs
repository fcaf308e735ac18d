//! Creates the checklist for a proven direct route and marks the steps that are done (`gds-top fix nvidia-gds`).

use super::parts::family;
use super::plans::{for_id, plan_by_id};
use super::preview::changes_text;
use super::repository as source;
use crate::checks::Report;
use crate::core::check::{Scope, Step as Row};
use crate::core::{CheckId, Finding, FixId, Guide, GuideStep as Step, Route, Status, Verdict};
use crate::machine::{Root, nvidia_driver};
use crate::text::capitalised;
use std::fmt::Write as _;

pub use crate::core::StepState as State;

/// The id of the checklist.
pub const ID: &str = "nvidia-gds";

/// The checklist for this machine. It leads to the best possible route of the verdicts. If no direct route is possible,
/// it begins with the reason, and only offers steps to reads through host memory.
#[must_use]
pub fn guide(root: &Root, report: &Report) -> Guide {
    let verdict = report.verdicts.iter().min_by_key(|verdict| verdict.possible);
    let closed = closed(report, verdict);
    if !closed.is_empty() {
        return without_direct_route(root, report, verdict, &closed);
    }
    let possible = verdict.map_or(Route::None, |verdict| verdict.possible);
    let passes = |id: CheckId| report.finding(id).is_some_and(|finding| finding.status == Status::Pass);
    let (route, reason) = match possible {
        Route::P2pdma => (possible, "P2PDMA needs the fewest steps here, without nvidia-fs and a patched NVMe driver"),
        Route::C2c => (possible, "on Grace, disks reach GPU memory over the coherent link; nvidia-fs is not needed"),
        Route::Nvfs => (possible, "the route nvfs needs the fewest steps here"),
        Route::Rdma => (possible, "the client of this file system moves data by RDMA"),
        _ if verdict.is_none() => (
            Route::Nvfs,
            "no path was examined, so these are the steps of nvidia-fs (pass --path DIR with your models for the best route)",
        ),
        _ if passes(CheckId::KernelP2pdma) => (
            Route::P2pdma,
            "no direct route is possible here; these are the steps of P2PDMA, which the kernel supports",
        ),
        _ => (Route::Nvfs, "no direct route is possible here; these are the steps of nvidia-fs"),
    };
    let reason = match obstacle(report, possible) {
        Some(finding) => format!("{}, so {reason}", finding.summary),
        None => reason.to_owned(),
    };
    let mut steps: Vec<Step> = rows(root, report, route, None);
    add_repository(root, report, &mut steps);
    steps.push(proof(report, route));
    for (at, cause) in causes_elsewhere(report, &steps) {
        // The cause of a problem is shown in its step, unless the cause has its own step.
        let Some(finding) = report.finding(cause) else { continue };
        match finding.fix.and_then(|id| for_id(root, report, id, finding.id)) {
            Some(plan) => steps[at].plans.push(plan),
            None => steps[at].advice.extend(finding.advice.clone()),
        }
        steps[at].checks.push(finding.id);
        steps[at].found.push(format!("{}: {}", finding.id, finding.summary));
    }
    once(&mut steps);
    Guide { route, reason: capitalised(&reason), open: Vec::new(), steps }
}

/// The findings that close every direct route permanently, as the verdict lists them. Without a path there is no
/// verdict, and only findings about the GPU and the kind of system are used.
fn closed<'r>(report: &'r Report, verdict: Option<&Verdict>) -> Vec<&'r Finding> {
    match verdict {
        Some(verdict) if verdict.possible.is_direct() => Vec::new(),
        Some(verdict) => {
            let ids = verdict.blockers.iter().filter(|id| !verdict.steps.contains(id));
            ids.filter_map(|id| report.finding(*id)).collect()
        }
        None => report.findings.iter().find(|finding| is_given(finding)).into_iter().collect(),
    }
}

/// The checklist if no direct route is possible: the reason, then the steps until cuFile reads through host memory.
fn without_direct_route(root: &Root, report: &Report, verdict: Option<&Verdict>, closed: &[&Finding]) -> Guide {
    let summaries: Vec<&str> = closed.iter().map(|finding| finding.summary.as_str()).collect();
    let mut first = Step {
        title: "What rules out a direct route".to_owned(),
        state: State::Impossible,
        checks: closed.iter().map(|finding| finding.id).collect(),
        found: closed.iter().map(|finding| format!("{}: {}", finding.id, finding.summary)).collect(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    for advice in closed.iter().filter_map(|finding| finding.advice.clone()) {
        if !first.advice.contains(&advice) {
            first.advice.push(advice);
        }
    }
    let offered = verdict.map_or(&[][..], |verdict| verdict.steps.as_slice());
    let mut steps: Vec<Step> = rows(root, report, Route::Compat, Some(offered));
    for step in &mut steps {
        if step.checks.iter().any(|id| first.checks.contains(id)) {
            step.state = State::Impossible;
        }
    }
    add_repository(root, report, &mut steps);
    steps.insert(0, first);
    once(&mut steps);
    let rest = if offered.is_empty() {
        "until this is resolved, nothing below helps"
    } else {
        "until this is resolved, the steps below only lead to reads through host memory (compat)"
    };
    let reason = format!("no direct route is possible on this machine: {}; {rest}", summaries.join("; "));
    Guide { route: Route::Compat, reason: capitalised(&reason), open: Vec::new(), steps }
}

/// Adds the step of NVIDIA's repository before the steps that install packages from it.
fn add_repository(root: &Root, report: &Report, steps: &mut Vec<Step>) {
    let installs = |step: &Step| step.plans.iter().any(|plan| INSTALLS.contains(&plan.id));
    let at = steps.iter().position(installs).map_or(REPOSITORY_AT, |at| at.min(REPOSITORY_AT)).min(steps.len());
    steps.insert(at, repository(root, report, steps));
}

/// If several steps need the same fix, the fix is shown in the first of them.
fn once(steps: &mut [Step]) {
    let mut shown: Vec<FixId> = Vec::new();
    for step in steps {
        let (mine, known): (Vec<_>, Vec<_>) =
            std::mem::take(&mut step.plans).into_iter().partition(|p| !shown.contains(&p.id));
        step.advice.extend(known.iter().map(|plan| format!("done by the fix {} above", plan.id)));
        shown.extend(mine.iter().map(|plan| plan.id));
        step.plans = mine;
    }
}

/// Causes without their own step, each with the first step that depends on it.
fn causes_elsewhere(report: &Report, steps: &[Step]) -> Vec<(usize, CheckId)> {
    let mut out: Vec<(usize, CheckId)> = Vec::new();
    let shown = |id: &CheckId| steps.iter().any(|step| step.checks.contains(id));
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.state == State::Open) {
        for id in &step.checks {
            let Some(cause) = report.finding(*id).and_then(|finding| finding.cause) else { continue };
            if !shown(&cause) && out.iter().all(|(_, known)| *known != cause) {
                out.push((at, cause));
            }
        }
    }
    out
}

/// The position of the step that adds the repository, unless an earlier step installs from it. It is then added before
/// that step.
const REPOSITORY_AT: usize = 2;
/// The fixes that install packages from NVIDIA's repository.
const INSTALLS: [FixId; 5] = [
    FixId::NvidiaDriverOpen,
    FixId::NvidiaDriverProprietary,
    FixId::NvidiaFabricmanager,
    FixId::NvfsInstall,
    FixId::LibcufileInstall,
];

/// The step that configures NVIDIA's repository, if packages from it are needed.
fn repository(root: &Root, report: &Report, steps: &[Step]) -> Step {
    let family = family(root);
    let mut out = Step {
        title: "NVIDIA's package repository".to_owned(),
        state: State::Done,
        checks: Vec::new(),
        found: Vec::new(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    let needed: Vec<FixId> = INSTALLS
        .into_iter()
        .filter(|id| steps.iter().flat_map(|step| &step.plans).any(|plan| plan.id == *id))
        .collect();
    let configured = source::configured(root, family);
    if let Ok(path) = &configured {
        out.found.push(format!("{path} names it"));
        return out;
    }
    if needed.is_empty() {
        out.found.push("no package is needed from it".to_owned());
        return out;
    }
    let (folder, server) = (source::folder(family), source::SERVER);
    out.found.push(format!(
        "no file in {folder} names {server}; it is needed for {}",
        needed.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")
    ));
    out.state = if configured == Err(true) { State::Open } else { State::Unknown };
    out.plans.extend(plan_by_id(root, report, FixId::NvidiaRepository));
    out
}

/// The steps of a route in their order. With `offered`, only these checks get a fix or advice.
fn rows(root: &Root, report: &Report, route: Route, offered: Option<&[CheckId]>) -> Vec<Step> {
    let needed = Row::ALL.into_iter().filter(|row| row.is_for(route));
    needed.filter_map(|row| step(root, report, row, route, offered)).collect()
}

/// A step with its checks. `None` if no check is about it on this machine.
fn step(root: &Root, report: &Report, row: Row, route: Route, offered: Option<&[CheckId]>) -> Option<Step> {
    let mut out = Step {
        title: row.title().to_owned(),
        state: State::Unknown,
        checks: Vec::new(),
        found: Vec::new(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    let mut states = Vec::new();
    for (check, part) in CheckId::ALL.iter().filter_map(|check| check.spec().step.map(|part| (check, part))) {
        if part.step != row {
            continue;
        }
        let Some(finding) = report.finding(*check) else {
            if part.is_needed {
                states.push(State::Unknown);
                out.found.push(format!("{check}: not examined"));
            }
            continue;
        };
        let mut state = state(finding, route, part.fix);
        // Only P2PDMA needs a newer driver than nvidia-fs, so a working driver is kept for other routes.
        if *check == CheckId::DriverVersion && state == State::Open && !stops(root, route) {
            state = State::Done;
        }
        // A check without a result leaves a step open to doubt only if the step depends on it.
        if state != State::Unknown || part.is_needed {
            states.push(state);
        }
        out.checks.push(finding.id);
        out.found.push(format!("{}: {}", finding.id, finding.summary));
        let is_offered = offered.is_none_or(|offered| offered.contains(&finding.id));
        if state == State::Done || state == State::Unknown || !is_offered {
            continue;
        }
        // A consequence is resolved with its cause.
        if let Some(cause) = finding.cause {
            out.advice.push(format!("{} is caused by {cause}: fix that first", finding.id));
            continue;
        }
        let id = finding.fix.or(part.fix);
        match id.and_then(|id| for_id(root, report, id, finding.id)) {
            Some(plan) if out.plans.iter().any(|known| known.id == plan.id) => {}
            Some(plan) => out.plans.push(plan),
            None => out.advice.extend(finding.advice.clone()),
        }
    }
    out.state = if states.contains(&State::Impossible) {
        State::Impossible
    } else if states.contains(&State::Open) {
        State::Open
    } else if states.contains(&State::Unknown) || states.is_empty() {
        State::Unknown
    } else {
        State::Done
    };
    (!out.found.is_empty()).then_some(out)
}

/// Whether the version of the driver blocks a route.
fn stops(root: &Root, route: Route) -> bool {
    let version = nvidia_driver(root).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    version < if route == Route::P2pdma { (565, 47) } else { (460, 0) }
}

/// Whether a check is about a property of the system or the GPU that every direct route needs and that cannot be
/// changed.
fn is_of_system(check: CheckId) -> bool {
    check.spec().step.is_some_and(|part| part.step == Row::Gpu)
}

/// Whether the kind of system or the GPU makes every direct route impossible.
fn is_given(finding: &Finding) -> bool {
    is_of_system(finding.id)
        && finding.cause.is_none()
        && matches!(finding.status, Status::Warn | Status::Fail)
        && finding.fix.is_none()
        && (finding.id != CheckId::GpuPresent || finding.permanent)
}

/// The finding that blocks both nvidia-fs and P2PDMA and has no fix, if no direct route is possible.
fn obstacle(report: &Report, possible: Route) -> Option<&Finding> {
    let blocks = |finding: &&Finding| {
        matches!(finding.status, Status::Warn | Status::Fail)
            && finding.cause.is_none()
            && finding.fix.is_none()
            && [Route::Nvfs, Route::P2pdma].iter().all(|route| finding.blocks.contains(route))
    };
    report.findings.iter().find(blocks).filter(|_| matches!(possible, Route::Compat | Route::None))
}

fn state(finding: &Finding, route: Route, fix: Option<FixId>) -> State {
    // The GPU and the kind of system cannot be changed, so advice about them is not a step.
    let is_of_gpu = finding.id.spec().scope == Scope::Gpu;
    let is_given = finding.fix.is_none() && fix.is_none() && (is_of_gpu || is_of_system(finding.id));
    // A GPU without a working driver is not an obstacle, because the driver can be fixed.
    let is_missing = finding.id != CheckId::GpuPresent || finding.permanent;
    if is_given && is_missing && finding.status == Status::Fail {
        return State::Impossible;
    }
    let is_fixable = finding.fix.is_some() || fix.is_some() || finding.advice.is_some();
    match finding.status {
        Status::Pass => State::Done,
        Status::Na => State::Unknown,
        // A finding that blocks no relevant route is information, even if something is missing.
        Status::Info if finding.fix.is_some() => State::Open,
        Status::Info => State::Done,
        // A consequence is resolved with its cause.
        Status::Warn | Status::Fail if is_fixable || finding.cause.is_some() => State::Open,
        Status::Fail if finding.blocks.contains(&route) => State::Impossible,
        Status::Warn | Status::Fail => State::Open,
    }
}

/// The last step: counted reads prove the route.
fn proof(report: &Report, route: Route) -> Step {
    let proven = report.verdicts.iter().find(|verdict| verdict.proven && verdict.route == route);
    Step {
        title: format!("The proof: reads counted on {route}"),
        state: if proven.is_some() { State::Done } else { State::Open },
        checks: Vec::new(),
        found: vec![proven.map_or_else(
            || "no read has been counted yet, and checks alone do not prove a route".to_owned(),
            |verdict| verdict.proof.clone(),
        )],
        plans: Vec::new(),
        advice: if proven.is_some() {
            Vec::new()
        } else {
            vec![
                "run 'gds-top check PATH' to prove it by reads into GPU memory without fallback (on the screens: r)"
                    .to_owned(),
                "run 'gds-top --headless MODEL' to load a model and count the route of its reads".to_owned(),
            ]
        },
    }
}

/// The checklist as text for the terminal.
#[must_use]
pub fn text(guide: &Guide) -> String {
    let mut out = String::new();
    let [how_far, why] = guide.head();
    let _ = writeln!(out, "{how_far}\n{why}\n");
    for open in &guide.open {
        for line in open.lines() {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
    }
    for (number, step) in guide.steps.iter().enumerate() {
        let _ = writeln!(out, "{} {:>2}. {} ({})", step.state.mark(), number + 1, step.title, step.state.word());
        for found in &step.found {
            let _ = writeln!(out, "       {found}");
        }
        for plan in &step.plans {
            let _ = writeln!(out, "     → {} ({}; {})", plan.title, plan.who(), plan.how());
            for line in changes_text(plan).lines() {
                let _ = writeln!(out, "         {line}");
            }
            if let Some(obstacle) = &plan.obstacle {
                let _ = writeln!(out, "         but {obstacle}");
            }
            let _ = writeln!(out, "         verify: {}", plan.verify);
        }
        for advice in &step.advice {
            let _ = writeln!(out, "     → {advice}");
        }
    }
    out
}
