//! Sets the status of each finding, and derives the verdicts from the effect of each check on each route.

use crate::checks::advice::{Advice, Command, Sudo};
use crate::checks::classes::unlisted;
use crate::checks::context::{Context, GpuSeen};
use crate::checks::cufile::route_table;
use crate::checks::filesystem::network;
use crate::checks::judged::{Judged, Scope, Weight};
use crate::checks::kernel::next_boot;
use crate::checks::verdict::commands::{add_fixes, examined};
use crate::checks::verdict::pairs::{Pair, closes_all, concerns, is_for_good, pairs};
use crate::checks::verdict::sentences::{advice, proof};
use crate::core::{Basis, CheckId, FixId, Route, Status, Verdict};
use crate::machine;

/// Sets all statuses and returns the verdicts.
pub(crate) fn settle(ctx: &Context<'_>, judged: &mut [Judged]) -> Vec<Verdict> {
    let pairs = pairs(ctx, judged);
    let any_gpu = !ctx.gpus().is_empty() || ctx.has_gpu();
    // If one finding closes every direct route of a pair, those that close only some of them are not relevant.
    let is_closed: Vec<bool> = pairs
        .iter()
        .map(|pair| judged.iter().any(|j| concerns(j, pair) && closes_all(j, pair) && j.finding.cause.is_none()))
        .collect();
    for judged in judged.iter_mut() {
        // A check that passes stays passed if it only excludes one of several routes by design, for example P2PDMA
        // for NFS.
        if judged.in_the_way().next().is_none() || judged.finding.status == Status::Pass {
            continue;
        }
        let mine = pairs.iter().zip(&is_closed).filter(|(pair, _)| concerns(judged, pair));
        let worst = mine
            .map(|(pair, is_closed)| match weigh(judged, pair, any_gpu) {
                Status::Warn if *is_closed && !closes_all(judged, pair) && !judged.stops(Route::Compat) => Status::Info,
                status => status,
            })
            .max_by_key(|status| status.weight());
        // Without a path there are no pairs. A check that blocks all routes fails all the same.
        let status = worst.unwrap_or_else(|| if judged.stops(Route::Compat) { judged.severity } else { Status::Info });
        let unused = judged.explains
            && any_gpu
            && judged.finding.cause.is_none()
            && pairs.iter().any(|pair| concerns(judged, pair) && !pair.route.is_direct() && pair.goal.is_some());
        let provisional = if unused { Status::Warn } else { judged.finding.status };
        judged.finding.status = if status.weight() >= provisional.weight() { status } else { provisional };
        // Some warnings block a route too: those that nothing can fix, and those about a route that is not the goal.
        if matches!(judged.finding.status, Status::Fail | Status::Warn) {
            let relevant = |route: &Route| {
                *route == Route::Compat || pairs.is_empty() || pairs.iter().any(|pair| pair.candidates.contains(route))
            };
            let mut blocks: Vec<Route> = judged.in_the_way().filter(relevant).collect();
            blocks.sort();
            blocks.dedup();
            judged.finding.blocks = blocks;
        } else {
            judged.finding.blocks.clear();
        }
    }
    add_fixes(ctx, judged);
    rebuild_once(ctx, judged);
    let verdicts: Vec<Verdict> = pairs.iter().map(|pair| verdict(ctx, judged, pair, &pairs)).collect();
    let is_step = |j: &&Judged| verdicts.iter().any(|verdict| verdict.steps.contains(&j.id));
    let driver = judged.iter().filter(is_step).find_map(|j| j.finding.fix.filter(|fix| fix.installs_driver()));
    if let Some(fix) = driver {
        for judged in judged.iter_mut().filter(|j| j.finding.fix == Some(FixId::NvidiaFabricmanager)) {
            judged.finding.fix = Some(fix);
            judged.finding.command = Some(Command::Fix(fix).line(&examined(ctx, 0)));
        }
    }
    verdicts
}

/// Gives the findings that only need a new initramfs the fix of a finding that changes a file before it makes one.
fn rebuild_once(ctx: &Context<'_>, judged: &mut [Judged]) {
    let is_module = machine::built_in(ctx.root, "nvme_core", "CONFIG_NVME_CORE").is_none()
        && machine::nvme_multipath_argument(ctx.root).is_none();
    let rebuilds = |fix: &FixId| *fix == FixId::P2pdmaRegistryKeys || (*fix == FixId::NvmeMultipathOff && is_module);
    let failed = judged.iter().filter(|j| j.finding.status == Status::Fail);
    let Some(fix) = failed.filter_map(|j| j.finding.fix).find(rebuilds) else { return };
    const OF_OPTIONS: [CheckId; 3] = [CheckId::GpuStaticBar1, CheckId::NvmeMultipath, CheckId::RebootPending];
    let waits = |j: &&mut Judged| j.finding.fix == Some(FixId::Initramfs) && OF_OPTIONS.contains(&j.id);
    for judged in judged.iter_mut().filter(waits) {
        judged.is_included = true;
        judged.finding.fix = Some(fix);
        judged.finding.command = Some(Command::Fix(fix).line(&examined(ctx, 0)));
    }
}

/// Whether one action resolves both. The plan of a driver also installs Fabric Manager in the driver's version, and the
/// command that builds the driver can also build nvidia-fs, which the reboot loads.
fn is_resolved_with(judged: &Judged, step: &Judged) -> bool {
    let is_fabric_of_driver =
        judged.finding.fix == Some(FixId::NvidiaFabricmanager) && step.finding.fix.is_some_and(FixId::installs_driver);
    let builds_nvfs = |advice: &Advice| advice.has_command_with(&["dkms install nvidia-fs"]);
    let is_built_with_driver = judged.id == CheckId::NvfsLoaded
        && judged.advice.is_none()
        && step.id == CheckId::GpuPresent
        && step.advice.as_ref().is_some_and(builds_nvfs);
    is_fabric_of_driver || is_built_with_driver || judged.finding.has_action_of(&step.finding)
}

/// The status of a blocker for one pair.
fn weigh(judged: &Judged, pair: &Pair, any_gpu: bool) -> Status {
    let stops_compat = judged.stops(Route::Compat);
    if !any_gpu {
        // Without a GPU this is the only relevant blocker. Other blockers affect only reads into host memory.
        return match (judged.id, stops_compat) {
            (CheckId::GpuPresent, _) => Status::Fail,
            (CheckId::FsResolve, true) => Status::Fail,
            (_, true) => Status::Warn,
            _ => Status::Info,
        };
    }
    if pair.route.is_direct() || pair.is_left {
        return Status::Info;
    }
    if stops_compat && pair.route == Route::None {
        return judged.severity;
    }
    match pair.goal {
        Some(goal) if judged.stops(goal) => judged.severity,
        None if is_for_good(judged, pair) => Status::Warn,
        _ => Status::Info,
    }
}

fn verdict(ctx: &Context<'_>, judged: &[Judged], pair: &Pair, pairs: &[Pair]) -> Verdict {
    let mine: Vec<&Judged> = judged.iter().filter(|j| concerns(j, pair)).collect();
    let gpu = pair.gpu.map(|number| &ctx.gpus()[number]);
    let has_gpu = gpu.is_some() || ctx.has_gpu();
    let stops = |route: Route| {
        mine.iter().copied().filter(move |j| j.finding.cause.is_none() && j.stops(route)).collect::<Vec<_>>()
    };
    let closes_compat =
        |j: &Judged| j.effects.iter().any(|(route, weight)| *route == Route::Compat && *weight == Weight::Never);
    let closed_for_good = || {
        let closes = |j: &&Judged| {
            j.finding.cause.is_none() && j.finding.status != Status::Pass && (is_for_good(j, pair) || closes_compat(j))
        };
        mine.iter().copied().filter(closes).collect::<Vec<_>>()
    };
    // The steps lead to the best possible route. Checks that close the direct routes permanently are blockers, not
    // steps.
    let (mut steps, mut permanent) = match (pair.route, pair.goal) {
        // Allowing compat mode does not lead to a direct route. It can be forbidden on purpose.
        (Route::None, Some(goal)) => {
            let needed = stops(Route::Compat).into_iter().filter(|j| j.id != CheckId::CfgCompat);
            (needed.chain(stops(goal)).collect(), Vec::new())
        }
        (Route::None, None) => (stops(Route::Compat), closed_for_good()),
        (Route::Compat, Some(goal)) => (stops(goal), Vec::new()),
        (Route::Compat, None) => (Vec::new(), closed_for_good()),
        _ => (Vec::new(), Vec::new()),
    };
    let is_relevant = |j: &&Judged| has_gpu || j.id == CheckId::GpuPresent || j.id == CheckId::FsResolve;
    permanent.retain(is_relevant);
    // If one of them closes every direct route, the others are not relevant.
    if permanent.iter().any(|j| closes_all(j, pair)) {
        permanent.retain(|j| closes_all(j, pair) || closes_compat(j));
    }
    // If compat mode is closed permanently too, no step helps.
    let is_hopeless = permanent.iter().any(|j| closes_compat(j));
    steps.retain(|j| is_relevant(j) && !is_hopeless);
    permanent.retain(|j| !is_hopeless || closes_compat(j));
    // A check that blocks both compat mode and the goal is listed once.
    let mut known: Vec<&Judged> = Vec::new();
    steps.retain(|judged| {
        let is_new = !known.iter().any(|one| std::ptr::eq(*one, *judged));
        known.extend(is_new.then_some(*judged));
        is_new
    });
    // The order is: permanent blockers, checks that block every route, hardware, then the rest: before the hardware is
    // there, other steps to the route have no effect. Causes are before their consequences. Compat mode can be
    // forbidden on purpose, so it is part of the rest.
    let blocks_all = |j: &&Judged| j.stops(Route::Compat) && j.id != CheckId::CfgCompat;
    steps.sort_by_key(|j| (!blocks_all(j), !j.needs_hardware(), work_order(ctx, pair, j)));
    permanent.sort_by_key(|j| (!blocks_all(j), work_order(ctx, pair, j)));
    // A fix or command that resolves several blockers is one step.
    let mut once: Vec<&Judged> = Vec::new();
    let mut again: Vec<&Judged> = Vec::new();
    for (at, judged) in steps.iter().copied().enumerate() {
        // The driver, or the fix that includes this one, can be a later step.
        let needs_later = |step: &Judged| {
            let is_fabric = judged.finding.fix == Some(FixId::NvidiaFabricmanager)
                && step.finding.fix.is_some_and(FixId::installs_driver);
            is_fabric || (judged.is_included && !step.is_included && step.finding.fix == judged.finding.fix)
        };
        let is_known = steps.iter().enumerate().any(|(other, step)| {
            let is_earlier = other < at && (judged.is_included || !step.is_included);
            (is_earlier || needs_later(step)) && is_resolved_with(judged, step)
        });
        if is_known { again.push(judged) } else { once.push(judged) }
    }
    steps = once;
    // The advice of a permanent blocker also has its step to compat mode.
    let is_permanent = |j: &&Judged| permanent.iter().any(|one| std::ptr::eq(*one, *j));
    let other_steps: Vec<&Judged> = steps.iter().copied().filter(|j| !is_permanent(j)).collect();
    let mut blockers = [permanent.clone(), steps.clone(), again].concat();
    blockers[permanent.len()..].sort_by_key(|j| (!blocks_all(j), !j.needs_hardware(), work_order(ctx, pair, j)));
    // A broken driver or library is why no read works, so it is named before the reasons against a direct route.
    let is_of_path = |j: &Judged| matches!(j.scope, Scope::Path(_) | Scope::Pair(..));
    let is_broken = |j: &&Judged| blocks_all(j) && !is_of_path(j);
    if pair.route == Route::None && pair.goal.is_none() && steps.iter().any(is_broken) {
        blockers.rotate_left(permanent.len());
    }
    // Why no read works until the direct route does.
    let forbids =
        |j: &&Judged| j.id == CheckId::CfgCompat && j.stops(Route::Compat) && !steps.iter().any(|s| s.id == j.id);
    if pair.route == Route::None && pair.goal.is_some() {
        blockers.extend(mine.iter().copied().filter(forbids));
    }
    if pair.goal.is_some() && has_gpu {
        // The reason why the configured route is not used is first.
        let why: Vec<&Judged> = mine
            .iter()
            .copied()
            .filter(|j| j.explains && j.finding.cause.is_none() && j.in_the_way().next().is_some())
            .filter(|j| !blockers.iter().any(|known| known.id == j.id))
            .collect();
        blockers = why.into_iter().chain(blockers).collect();
    }
    let is_forbidden = pair.route == Route::None && blockers.iter().any(forbids);
    let compat_for_good = mine.iter().any(|j| closes_compat(j));
    let possible = if pair.route.is_direct() {
        pair.route
    } else {
        pair.goal.unwrap_or(if compat_for_good { Route::None } else { Route::Compat })
    };
    let mut text = advice(ctx, (pair, pairs), &permanent, &other_steps, &mine, has_gpu);
    if is_forbidden {
        text.push_str(" Until then reads fail, because allow_compat_mode is false.");
    }
    Verdict {
        path: ctx.subjects[pair.path].path.clone(),
        gpu: gpu.map(|gpu| gpu.id.clone()),
        route: pair.route,
        possible: if has_gpu { possible } else { Route::None },
        proven: false,
        proof: proof(ctx, pair, &mine),
        basis: basis(ctx, pair, has_gpu),
        advice: Sudo::of(ctx.root).adapt(next_boot::prepared(ctx, pair.path, text)),
        caveat: gpu
            .filter(|_| possible == Route::P2pdma)
            .and_then(|gpu| unlisted(ctx, gpu))
            .or_else(|| pair.doubt.clone()),
        gpu_name: gpu.map(GpuSeen::label),
        steps: ids_of(&steps),
        blockers: ids_of(&blockers),
    }
}

/// The order of the steps: the order of the table of checks, with exceptions. A network card is hardware, so nothing is
/// installed before it. nvidia-fs is built against the NVMe driver and the NFS client. The test of a mount over RDMA
/// shows whether the server has it, so it is before the client, which replaces all network drivers. Next to the drivers
/// of DOCA only the client of DOCA can be loaded, so it is before the test.
fn work_order(ctx: &Context<'_>, pair: &Pair, judged: &Judged) -> (usize, u8) {
    const USUAL: u8 = 3;
    const AFTER: u8 = 4;
    let nfs_client = CheckId::NvfsDkms.rank();
    let is_nfs = || {
        let facts = ctx.subjects[pair.path].facts.as_ref();
        facts.and_then(|facts| facts.filesystem.as_deref()).is_some_and(|kind| kind.starts_with("nfs"))
    };
    match judged.id {
        CheckId::RdmaStack => (CheckId::GpuPresent.rank(), AFTER),
        _ if judged.finding.needs_hand_built_nvidia_fs() => (CheckId::NvfsNvmeSymbol.rank(), AFTER),
        CheckId::NvfsLoaded => (CheckId::NvfsNvmeSymbol.rank(), AFTER),
        CheckId::NvfsRegistered if is_nfs() => (nfs_client, 1),
        CheckId::NfsRdma => (nfs_client, if network::has_ofed(ctx) { 2 } else { 0 }),
        CheckId::LibVersion => (CheckId::LibFound.rank(), AFTER),
        other => (other.rank(), USUAL),
    }
}

/// The distinct ids of findings.
fn ids_of(judged: &[&Judged]) -> Vec<CheckId> {
    let mut ids: Vec<CheckId> = Vec::new();
    for judged in judged {
        if !ids.contains(&judged.id) {
            ids.push(judged.id);
        }
    }
    ids
}

fn basis(ctx: &Context<'_>, pair: &Pair, has_gpu: bool) -> Basis {
    let lists = |route: Route| route_table::says(ctx, &ctx.subjects[pair.path], route);
    match pair.goal {
        _ if !has_gpu => Basis::NoGpu,
        _ if pair.route.is_direct() && lists(pair.route) == Some(true) => Basis::LibraryLists,
        Some(goal) if lists(goal) == Some(false) => Basis::LibraryDenies,
        _ => Basis::Checks,
    }
}
