//! Creates the checklist for a proven direct route and marks the steps that are done (`gds-top fix nvidia-gds`).

use super::bare;
use super::boot::preferred_iommu;
use super::in_effect::add_reboot;
use super::next_boot::ready_steps;
use super::order::{after_driver, nfs_client_first, once, settings_first, without_repeats};
use super::parts::family;
use super::plans::{check_of, for_id, step_with};
use super::repository as source;
use crate::checks::{Report, how_to_fix};
use crate::core::check::{Step as Row, place_of};
use crate::core::{Change, CheckId, Finding, FixId, FixPlan, Guide, GuideStep as Step, Route, Status, Verdict};
use crate::machine::{Root, nvidia_driver};
use crate::text::capitalised;

pub use super::guide_text::text;
pub use super::order::later_reboot;
pub use crate::core::StepState as State;

/// The id of the checklist.
pub const ID: &str = "nvidia-gds";

/// The checklist for this machine. It leads to the best possible route of the verdicts, and its open steps are those of
/// the verdicts. If no direct route is possible, it begins with the reason, and only offers steps to reads through host
/// memory.
#[must_use]
pub fn guide(root: &Root, report: &Report) -> Guide {
    let mut guide = with_sudo(root, report);
    ready_steps(root, &mut guide.steps);
    bare::guide(root, guide)
}

/// The checklist whose commands have sudo.
fn with_sudo(root: &Root, report: &Report) -> Guide {
    let verdict = report.verdicts.iter().filter(|one| !is_left(report, one)).min_by_key(|verdict| verdict.possible);
    let closed = closed(report, verdict);
    let possible = verdict.map_or(Route::Nvfs, |verdict| verdict.possible);
    if !closed.is_empty() || !possible.is_direct() {
        return without_direct_route(root, report, verdict, &closed);
    }
    let reason = match possible {
        _ if verdict.is_none() => {
            "no path was examined, so these are the steps of nvidia-fs (pass --path DIR with your models for the best route)"
        }
        Route::P2pdma => "P2PDMA needs the least effort here, without nvidia-fs and a patched NVMe driver",
        Route::C2c => "on Grace, disks reach GPU memory over the coherent link; nvidia-fs is not needed",
        Route::Rdma => "the client of this file system moves data by RDMA",
        _ => "the route nvfs needs the least effort here",
    };
    let wanted = wanted(report, verdict);
    let mut steps = rows(root, report, possible, wanted.as_deref());
    nfs_client_first(&mut steps, wanted.as_deref().unwrap_or_default());
    add_repository(root, report, &mut steps);
    steps.push(proof(report, possible));
    once(&mut steps);
    settings_first(&mut steps);
    without_repeats(&mut steps);
    add_reboot(root, &mut steps);
    let reason = format!("{}{}", capitalised(reason), without_route(root, report));
    Guide { route: possible, reason, open: Vec::new(), steps }
}

/// Whether the steps of a verdict would replace the NVMe driver by which another GPU reads the path directly.
fn is_left(report: &Report, verdict: &Verdict) -> bool {
    let has_p2pdma = |other: &Verdict| other.path == verdict.path && other.route == Route::P2pdma;
    verdict.steps.contains(&CheckId::NvfsNvmeSymbol) && report.verdicts.iter().any(has_p2pdma)
}

/// The GPUs for which the steps lead to no direct route, if another GPU has one.
fn without_route(root: &Root, report: &Report) -> String {
    let machine = crate::machine::machine(root);
    let has_route =
        |uuid: &String| report.verdicts.iter().any(|one| one.gpu.as_ref() == Some(uuid) && one.possible.is_direct());
    let is_examined = |uuid: &String| report.verdicts.iter().any(|one| one.gpu.as_ref() == Some(uuid));
    let closed = machine.gpus.iter().filter(|gpu| is_examined(&gpu.uuid) && !has_route(&gpu.uuid));
    let names: Vec<String> = closed.map(|gpu| format!("GPU {} ({})", gpu.index, gpu.name)).collect();
    let mut said = match names.len() {
        0 => String::new(),
        1 => format!("; {} has no direct route", names[0]),
        _ => format!("; {} have no direct route", names.join(", ")),
    };
    let left: Vec<&str> =
        report.verdicts.iter().filter(|one| is_left(report, one)).filter_map(|one| one.gpu_name.as_deref()).collect();
    if !left.is_empty() {
        said.push_str(&format!(
            "; nvfs for GPU {} is not a step, because it replaces the driver of all NVMe disks ({})",
            left.join(", "),
            FixId::NvmePatch
        ));
    }
    said
}

/// The checks to fix for the best route, of all paths and GPUs with this route. `None` if no path was examined.
fn wanted(report: &Report, verdict: Option<&Verdict>) -> Option<Vec<CheckId>> {
    let best = verdict?.possible;
    let mut out: Vec<CheckId> = Vec::new();
    for id in report.verdicts.iter().filter(|one| one.possible == best).flat_map(|one| &one.steps) {
        if !out.contains(id) {
            out.push(*id);
        }
    }
    // A blocker with the action of a step is not a step of its own, but it is open too.
    let steps: Vec<&Finding> = out.iter().filter_map(|id| report.finding(*id)).collect();
    let is_best = |one: &&Verdict| one.possible == best;
    for id in report.verdicts.iter().filter(is_best).flat_map(|one| &one.blockers) {
        let is_done_by = |finding: &Finding| steps.iter().any(|step| finding.has_action_of(step));
        if !out.contains(id) && report.finding(*id).is_some_and(is_done_by) {
            out.push(*id);
        }
    }
    Some(out)
}

/// The findings that close every direct route permanently, as the verdict lists them. Without a path there is no
/// verdict, and only findings about the GPU and the kind of system are used.
fn closed<'r>(report: &'r Report, verdict: Option<&Verdict>) -> Vec<&'r Finding> {
    match verdict {
        Some(verdict) if verdict.possible.is_direct() => Vec::new(),
        Some(verdict) => {
            let found = verdict.blockers.iter().filter_map(|id| report.finding(*id));
            found.filter(|finding| finding.permanent || !verdict.steps.contains(&finding.id)).collect()
        }
        None => report.findings.iter().find(|finding| is_given(finding)).into_iter().collect(),
    }
}

/// The checklist if no direct route is possible: the reason, then the steps until cuFile reads through host memory.
fn without_direct_route(root: &Root, report: &Report, verdict: Option<&Verdict>, closed: &[&Finding]) -> Guide {
    let mut first = Step {
        title: "Reasons against a direct route".to_owned(),
        state: State::Impossible,
        checks: closed.iter().map(|finding| finding.id).collect(),
        found: closed.iter().map(|finding| format!("{}: {}", finding.id, finding.summary)).collect(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    if closed.is_empty() {
        let doubt = verdict.and_then(|verdict| verdict.caveat.clone());
        first
            .found
            .push(doubt.unwrap_or_else(|| "this GPU and this storage have no direct route in common".to_owned()));
    }
    for advice in closed.iter().filter_map(|finding| finding.advice.clone()) {
        if !first.advice.contains(&advice) {
            first.advice.push(advice);
        }
    }
    let offered = wanted(report, verdict).unwrap_or_default();
    let mut steps = rows(root, report, Route::Compat, Some(&offered));
    for step in &mut steps {
        let is_offered = step.checks.iter().any(|id| offered.contains(id));
        let is_closed = |id: &CheckId| first.checks.contains(id) || closes_without_gpu(report, *id);
        if !is_offered && step.checks.iter().any(is_closed) {
            step.state = State::Impossible;
            let reasons: Vec<String> =
                step.checks.iter().filter(|id| is_closed(id)).map(|id| format!("{id}: ")).collect();
            step.found.retain(|found| reasons.iter().any(|id| found.starts_with(id)));
        }
        step.advice.retain(|advice| !first.advice.contains(advice));
    }
    add_repository(root, report, &mut steps);
    let summaries: Vec<&str> = match closed {
        [] => first.found.iter().map(String::as_str).collect(),
        closed => closed.iter().map(|finding| finding.summary.as_str()).collect(),
    };
    let rest = if offered.is_empty() {
        "until this is resolved, nothing below helps"
    } else {
        "until this is resolved, the steps below only lead to reads through host memory (compat)"
    };
    let place = if closed.is_empty() { "for this path and GPU" } else { place_of(&steps_of(closed)) };
    let summaries: Vec<&str> = summaries.into_iter().map(|text| text.trim_end_matches('.')).collect();
    let reason = format!("no direct route is possible {place}: {}; {rest}", summaries.join("; "));
    steps.insert(0, first);
    once(&mut steps);
    Guide { route: Route::Compat, reason: capitalised(&reason), open: Vec::new(), steps }
}

/// Whether a finding closes every direct route permanently on a machine without a GPU. The verdict of such a machine has
/// only the missing GPU as a blocker.
fn closes_without_gpu(report: &Report, id: CheckId) -> bool {
    let is_closed = |finding: &Finding| finding.permanent && finding.cause.is_none() && finding.status != Status::Pass;
    let closes_all = Route::DIRECT.iter().all(|route| id.spec().blocks.contains(route));
    !report.has_gpu && closes_all && report.finding(id).is_some_and(is_closed)
}

fn steps_of(closed: &[&Finding]) -> Vec<CheckId> {
    closed.iter().map(|finding| finding.id).collect()
}

/// Adds the plan of NVIDIA's repository before the first plan that installs packages from it, unless the repository is
/// configured.
fn add_repository(root: &Root, report: &Report, steps: &mut [Step]) {
    let family = family(root);
    let Err(was_read) = source::configured(root, family) else { return };
    let Some((step, at)) = steps.iter_mut().find_map(|step| step.plans.iter().position(installs).map(|at| (step, at)))
    else {
        return;
    };
    let id = FixId::NvidiaRepository;
    let Some(plan) = for_id(root, report, id, check_of(id)) else { return };
    let (folder, server) = (source::folder(family), source::SERVER);
    step.found.push(if was_read {
        format!("{folder}: no file names {server}, so the repository is added first")
    } else {
        format!("{folder} could not be read; omit nvidia-repository if a file there names {server}")
    });
    step.plans.insert(at, plan);
}

/// Whether a plan installs packages from NVIDIA's repository. A Python environment and a container get theirs from
/// elsewhere.
fn installs(plan: &FixPlan) -> bool {
    const FIXES: [FixId; 5] = [
        FixId::NvidiaDriverOpen,
        FixId::NvidiaDriverProprietary,
        FixId::NvidiaFabricmanager,
        FixId::NvfsInstall,
        FixId::LibcufileInstall,
    ];
    const MANAGERS: [&str; 5] = ["apt-get", "dnf", "tdnf", "yum", "zypper"];
    let is_install = |change: &Change| matches!(change, Change::Run { argv } if argv.iter().any(|word| MANAGERS.contains(&word.as_str())));
    FIXES.contains(&plan.id) && plan.changes.iter().any(is_install)
}

/// The steps of a route in their order. With `wanted`, the open steps are those of these checks.
fn rows(root: &Root, report: &Report, route: Route, wanted: Option<&[CheckId]>) -> Vec<Step> {
    let mut out = Vec::new();
    for row in Row::ALL {
        let checks: Vec<CheckId> = CheckId::ALL.iter().copied().filter(|id| row_of(report, *id) == Some(row)).collect();
        let is_open = |id: &CheckId| match (wanted, report.finding(*id)) {
            (Some(wanted), _) => wanted.contains(id),
            (None, Some(finding)) => row.is_for(route) && is_open(root, finding),
            (None, None) => false,
        };
        let (open, rest): (Vec<CheckId>, Vec<CheckId>) = checks.into_iter().partition(is_open);
        let mut row_step = row.is_for(route).then(|| settled(report, route, row, &rest)).flatten();
        for id in open {
            // One action is one step, in the place of the first check that needs it.
            if let Some(finding) = report.finding(id)
                && let Some(step) = out.iter_mut().find(|step| does(report, step, finding))
            {
                step.checks.push(id);
                step.found.push(format!("{id}: {}", finding.summary));
                continue;
            }
            // The first open check has the title of the row and its other checks.
            let mut step = row_step.take().unwrap_or_else(|| Step {
                title: row.title().to_owned(),
                state: State::Open,
                checks: Vec::new(),
                found: Vec::new(),
                plans: Vec::new(),
                advice: Vec::new(),
            });
            if out.iter().any(|known: &Step| known.title == step.title) {
                step.title = format!("{}: {}", row.title(), id.spec().examines);
            }
            add_open(root, report, &mut step, id, &out);
            out.push(step);
        }
        out.extend(row_step);
    }
    add_consequences(report, &mut out);
    out
}

/// The row of a check. An nvidia-fs that is built by hand is built after the storage driver, like that of the package.
fn row_of(report: &Report, id: CheckId) -> Option<Row> {
    let is_build = report.finding(id).is_some_and(Finding::needs_hand_built_nvidia_fs);
    if is_build { Some(Row::Module) } else { id.spec().step.map(|part| part.step) }
}

/// Whether an open step has the action of a finding.
fn does(report: &Report, step: &Step, finding: &Finding) -> bool {
    let is_same = |id: &CheckId| report.finding(*id).is_some_and(|known| finding.has_action_of(known));
    step.state == State::Open && step.checks.iter().any(is_same)
}

/// Whether a step is open if no path was examined.
fn is_open(root: &Root, finding: &Finding) -> bool {
    // Only P2PDMA needs a newer driver than nvidia-fs, so a working driver is kept.
    if finding.id == CheckId::DriverVersion && !is_too_old(root) {
        return false;
    }
    match finding.status {
        Status::Pass | Status::Na => false,
        // A finding that blocks no relevant route is information, even if something is missing.
        Status::Info => finding.fix.is_some() && finding.cause.is_none(),
        Status::Warn | Status::Fail => finding.cause.is_none(),
    }
}

/// Adds an open check to a step, with its fix or its advice. `earlier` are the steps before it.
fn add_open(root: &Root, report: &Report, step: &mut Step, id: CheckId, earlier: &[Step]) {
    step.state = State::Open;
    step.checks.push(id);
    let Some(finding) = report.finding(id) else {
        step.found.push(format!("{id}: not examined"));
        return;
    };
    step.found.push(format!("{id}: {}", finding.summary));
    let plan = finding.fix.and_then(|fix| for_id(root, report, fix, step_with(report, fix, id)));
    let plan = plan.map(|plan| after_driver(plan, earlier));
    // The place of the model and the way around a console are in the advice only.
    let is_partial = |plan: &FixPlan| matches!(plan.id, FixId::MoveModel | FixId::SecureBootKey);
    let is_enough = plan.as_ref().is_some_and(|plan| plan.obstacle.is_none() && !is_partial(plan));
    let iommu = plan.as_ref().filter(|plan| plan.id == FixId::IommuOff);
    step.advice.extend(iommu.and_then(|_| preferred_iommu(root)).map(str::to_owned));
    step.plans.extend(plan);
    if !is_enough {
        let advice = finding.advice.clone().or_else(|| Some(id.spec().todo.to_owned()));
        step.advice.extend(advice.filter(|advice| !advice.is_empty()));
    }
}

/// Whether a problem leaves a step open. The steps of a direct route have all problems that block it, so this concerns
/// a machine without a verdict of such a route.
fn leaves_open(finding: &Finding, route: Route) -> bool {
    let concerns = match finding.blocks.as_slice() {
        [] => finding.id.spec().blocks.contains(&route),
        blocks => blocks.contains(&route),
    };
    route == Route::Compat && matches!(finding.status, Status::Warn | Status::Fail) && concerns
}

/// Whether the driver that a failed check installs changes what this finding reports. Then it does not show that its step
/// is done.
fn is_done_by_other(report: &Report, finding: &Finding) -> bool {
    let is_same = |other: &Finding| other.status == Status::Fail && other.fix == finding.fix;
    finding.status == Status::Info
        && finding.fix.is_some_and(FixId::installs_driver)
        && report.findings.iter().any(is_same)
}

/// A step whose checks are not open. `None` if no check is about it on this machine.
fn settled(report: &Report, route: Route, row: Row, checks: &[CheckId]) -> Option<Step> {
    let mut out = Step {
        title: row.title().to_owned(),
        state: State::Done,
        checks: Vec::new(),
        found: Vec::new(),
        plans: Vec::new(),
        advice: Vec::new(),
    };
    let mut states = Vec::new();
    for id in checks {
        let is_needed = id.spec().step.is_some_and(|part| part.is_needed);
        let Some(finding) = report.finding(*id) else {
            if is_needed {
                states.push(State::Unknown);
                out.found.push(format!("{id}: not examined"));
            }
            continue;
        };
        if is_consequence(finding) || is_done_by_other(report, finding) {
            continue;
        }
        // A check without a result leaves a step open to doubt only if the step depends on it.
        match finding.status {
            Status::Na if is_needed => states.push(State::Unknown),
            Status::Na => {}
            _ if leaves_open(finding, route) => states.push(State::Open),
            _ => states.push(State::Done),
        }
        out.checks.push(*id);
        out.found.push(format!("{id}: {}", finding.summary));
        if finding.status == Status::Warn {
            let has_fix = finding.fix.is_some() && leaves_open(finding, route);
            out.advice.extend(how_to_fix(finding).filter(|_| has_fix));
            out.advice.extend(finding.advice.clone());
        }
    }
    if states.is_empty() || states.contains(&State::Unknown) {
        out.state = State::Unknown;
    }
    if states.contains(&State::Open) {
        out.state = State::Open;
    }
    (!out.found.is_empty()).then_some(out)
}

/// Whether a problem is resolved with its cause.
fn is_consequence(finding: &Finding) -> bool {
    finding.cause.is_some() && matches!(finding.status, Status::Fail | Status::Warn)
}

/// Shows the consequences in the steps of their causes.
fn add_consequences(report: &Report, steps: &mut [Step]) {
    for finding in report.findings.iter().filter(|finding| is_consequence(finding)) {
        let Some(cause) = finding.cause else { continue };
        if let Some(step) = steps.iter_mut().find(|step| step.state == State::Open && step.checks.contains(&cause)) {
            step.checks.push(finding.id);
            step.found.push(format!("{}: {} (caused by {cause})", finding.id, finding.summary));
        }
    }
}

/// Whether the driver is too old for nvidia-fs.
fn is_too_old(root: &Root) -> bool {
    let version = nvidia_driver(root).unwrap_or_default();
    version.split('.').next().and_then(|part| part.parse::<u32>().ok()).unwrap_or(0) < 460
}

/// Whether the kind of system or the GPU makes every direct route impossible.
fn is_given(finding: &Finding) -> bool {
    finding.id.spec().step.is_some_and(|part| part.step == Row::Gpu)
        && finding.permanent
        && finding.cause.is_none()
        && matches!(finding.status, Status::Warn | Status::Fail)
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
