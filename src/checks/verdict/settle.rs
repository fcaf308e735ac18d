//! From what each check means for each route to the verdicts and the status of each finding.

use crate::checks::context::Context;
use crate::checks::cufile::route_table;
use crate::checks::judged::{Judged, Weight};
use crate::checks::spec::CheckId;
use crate::checks::verdict::pairs::{Pair, concerns, is_for_good, pairs};
use crate::checks::verdict::sentences::{advice, proof};
use crate::domain::{Basis, Route, Status, Verdict};

/// Settles every status and concludes the verdicts.
pub(crate) fn settle(ctx: &Context<'_>, judged: &mut [Judged]) -> Vec<Verdict> {
    let pairs = pairs(ctx, judged);
    let any_gpu = !ctx.gpus().is_empty() || ctx.has_gpu();
    for judged in judged.iter_mut() {
        // A pass that closes one of several routes by nature (NFS has no P2PDMA) stays a pass.
        if judged.in_the_way().next().is_none() || judged.finding.status == Status::Pass {
            continue;
        }
        let mine = pairs.iter().filter(|pair| concerns(judged, pair));
        let worst = mine.map(|pair| weigh(judged, pair, any_gpu)).max_by_key(|status| status.weight());
        // With no path to judge there is no pair; what stops everything still does.
        let status = worst.unwrap_or_else(|| if judged.stops(Route::Compat) { judged.severity } else { Status::Info });
        let unused = judged.explains
            && any_gpu
            && judged.finding.cause.is_none()
            && pairs.iter().any(|pair| concerns(judged, pair) && !pair.route.is_direct());
        let provisional = if unused { Status::Warn } else { judged.finding.status };
        judged.finding.status = if status.weight() >= provisional.weight() { status } else { provisional };
        if judged.finding.status == Status::Fail {
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
    pairs.iter().map(|pair| verdict(ctx, judged, pair)).collect()
}

/// How much a finding that is in some route's way matters for one pair.
fn weigh(judged: &Judged, pair: &Pair, any_gpu: bool) -> Status {
    let stops_compat = judged.stops(Route::Compat);
    if !any_gpu {
        // Without a GPU that is the one answer; what else would be in the way matters for reads into host memory at most.
        return match (judged.id, stops_compat) {
            (CheckId::GpuPresent, _) => Status::Fail,
            (CheckId::FsResolve, true) => Status::Fail,
            (_, true) => Status::Warn,
            _ => Status::Info,
        };
    }
    if pair.route.is_direct() {
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

fn verdict(ctx: &Context<'_>, judged: &[Judged], pair: &Pair) -> Verdict {
    let mine: Vec<&Judged> = judged.iter().filter(|j| concerns(j, pair)).collect();
    let gpu = pair.gpu.map(|number| &ctx.gpus()[number]);
    let has_gpu = gpu.is_some() || ctx.has_gpu();
    let stops = |route: Route| {
        mine.iter().copied().filter(move |j| j.finding.cause.is_none() && j.stops(route)).collect::<Vec<_>>()
    };
    let mut blockers: Vec<&Judged> = match (pair.route, pair.goal) {
        (Route::None, _) => {
            let all = stops(Route::Compat);
            let only_policy = all.iter().all(|j| j.id == CheckId::CfgCompat);
            match pair.goal.filter(|_| only_policy) {
                Some(goal) => stops(goal).into_iter().chain(all).collect(),
                None => all,
            }
        }
        (Route::Compat, Some(goal)) => stops(goal),
        (Route::Compat, None) => {
            // What could be mended is beside the point where something else can not.
            mine.iter()
                .copied()
                .filter(|j| j.finding.cause.is_none() && j.finding.status != Status::Pass && is_for_good(j, pair))
                .collect()
        }
        _ => Vec::new(),
    };
    if !has_gpu {
        blockers.retain(|j| j.id == CheckId::GpuPresent || j.id == CheckId::FsResolve);
    }
    blockers.sort_by_key(|j| j.id.rank());
    let steps = blockers.clone();
    // Where the settings alone forbid host memory, what keeps a direct route away is the reason all the same.
    let forbidden = pair.route == Route::None && blockers.iter().any(|j| j.id == CheckId::CfgCompat);
    if (pair.route == Route::Compat || forbidden) && pair.goal.is_some() && has_gpu {
        // Why the route that was set up is not taken comes before what leads to another one.
        let why: Vec<&Judged> = mine
            .iter()
            .copied()
            .filter(|j| j.explains && j.finding.cause.is_none() && j.in_the_way().next().is_some())
            .filter(|j| !blockers.iter().any(|known| known.finding.id == j.finding.id))
            .collect();
        blockers = why.into_iter().chain(blockers).collect();
    }
    let compat_for_good =
        mine.iter().any(|j| j.bears.iter().any(|(route, weight)| *route == Route::Compat && *weight == Weight::Never));
    let possible = if pair.route.is_direct() {
        pair.route
    } else {
        pair.goal.unwrap_or(if compat_for_good { Route::None } else { Route::Compat })
    };
    Verdict {
        path: ctx.subjects[pair.path].path.clone(),
        gpu: gpu.map(|gpu| gpu.id.clone()),
        route: pair.route,
        possible: if has_gpu { possible } else { Route::None },
        proven: false,
        proof: proof(ctx, pair, &mine, has_gpu),
        basis: basis(ctx, pair, has_gpu),
        advice: advice(ctx, pair, &steps, has_gpu),
        steps: ids_of(&steps),
        blockers: ids_of(&blockers),
    }
}

/// Their ids, each once.
fn ids_of(judged: &[&Judged]) -> Vec<String> {
    let mut ids: Vec<String> = judged.iter().map(|j| j.finding.id.clone()).collect();
    ids.dedup();
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
