//! From what each check means for each route to one verdict for each path and GPU, and to what each finding is worth.

use super::context::{Context, GpuSeen, Subject};
use super::judged::{Judged, Scope, Weight};
use super::library_routes;
use crate::domain::{Basis, Finding, Route, Status, Verdict};

/// Causes before consequences; ids that are not listed come last, in the order in which they were found.
const ROOT_FIRST: &[&str] = &[
    "wsl",
    "cpu-arch",
    "gpu-present",
    "driver-mismatch",
    "cuda-driver-runtime",
    "driver-version",
    "driver-flavour",
    "gpu-fabric",
    "distro-blocklist",
    "gpu-compute-cap",
    "gpu-open-capable",
    "gpu-class",
    "gpu-gdr-attr",
    "gpu-mig-vgpu",
    "gpu-bar1-size",
    "gpu-compute-mode",
    "gpu-bar1-free",
    "gpu-p2pdma-model",
    "fs-resolve",
    "fs-space-owner",
    "fs-type",
    "odirect-open",
    "inode-flags",
    "ext4-extents",
    "vm-type",
    "nvme-transport",
    "nvme-integrity",
    "md-raid",
    "dm-lvm",
    "nfs-rdma",
    "dfs-client-version",
    "ctr-devices",
    "udev-database",
    "ctr-proc-sys",
    "cfg-parse",
    "log-location",
    "lib-found",
    "lib-deps",
    "lib-open-probe",
    "kernel-version",
    "kernel-p2pdma",
    "nvfs-secureboot",
    "nvfs-build-inputs",
    "nvfs-dkms",
    "nvfs-load-errors",
    "nvfs-loaded",
    "nvfs-version",
    "nvfs-devnodes",
    "nvfs-nvme-symbol",
    "nvfs-registered",
    "gpu-static-bar1",
    "nvme-multipath",
    "iommu-state",
    "ext4-ordered",
    "cfg-compat",
    "cfg-effective",
    "cfg-p2p-both",
];

/// What was concluded for one path and one GPU.
struct Pair {
    path: usize,
    gpu: Option<usize>,
    route: Route,
    /// The direct route that could be reached most cheaply, where none works now.
    goal: Option<Route>,
    candidates: Vec<Route>,
}

/// Settles every status and concludes the verdicts.
pub(super) fn settle(ctx: &Context<'_>, judged: &mut [Judged]) -> Vec<Verdict> {
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

/// The place of a check among causes and consequences.
fn place(id: &str) -> usize {
    ROOT_FIRST.iter().position(|known| *known == id).unwrap_or(ROOT_FIRST.len())
}

fn concerns(judged: &Judged, pair: &Pair) -> bool {
    match judged.scope {
        Scope::Machine => true,
        Scope::Path(path) => path == pair.path,
        Scope::Gpu(gpu) => Some(gpu) == pair.gpu,
        Scope::Pair(path, gpu) => path == pair.path && Some(gpu) == pair.gpu,
    }
}

/// How much a finding that is in some route's way matters for one pair.
fn weigh(judged: &Judged, pair: &Pair, any_gpu: bool) -> Status {
    let stops_compat = judged.stops(Route::Compat);
    if !any_gpu {
        // Without a GPU that is the one answer; what else would be in the way matters for reads into host memory at most.
        return match (judged.finding.id.as_str(), stops_compat) {
            ("gpu-present", _) => Status::Fail,
            ("fs-resolve", true) => Status::Fail,
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

/// Whether it closes a route of the pair for good.
fn is_for_good(judged: &Judged, pair: &Pair) -> bool {
    judged.bears.iter().any(|(route, weight)| *weight == Weight::Never && pair.candidates.contains(route))
}

/// What it counts for in the price of a route that it was set up already; a step of [`Cost`](super::judged::Cost) less.
const SET_UP_BONUS: u32 = 4;

fn pairs(ctx: &Context<'_>, judged: &[Judged]) -> Vec<Pair> {
    let mut out = Vec::new();
    let nvfs_is_set_up = ctx.has_gpu() && super::nvfs_dkms::is_anywhere(ctx);
    for (path, subject) in ctx.subjects.iter().enumerate() {
        let gpus: Vec<Option<usize>> =
            if ctx.gpus().is_empty() { vec![None] } else { (0..ctx.gpus().len()).map(Some).collect() };
        for gpu in gpus {
            let candidates = candidates(ctx, subject, gpu.map(|g| &ctx.gpus()[g]));
            let mut pair = Pair { path, gpu, route: Route::None, goal: None, candidates };
            let state = |route: Route| state(ctx, judged, &pair, route);
            let compat = !judged.iter().any(|j| concerns(j, &pair) && j.stops(Route::Compat));
            let now = pair.candidates.iter().copied().find(|route| state(*route) == State::Works);
            // A route that somebody set up is what they want mended, unless another one is much nearer.
            let tried = |route: Route| if route == Route::Nvfs && nvfs_is_set_up { SET_UP_BONUS } else { 0 };
            let goal = pair
                .candidates
                .iter()
                .copied()
                .filter_map(|route| match state(route) {
                    State::Mendable(cost) => Some((cost.saturating_sub(tried(route)), route)),
                    State::Unsure => Some((0, route)),
                    _ => None,
                })
                .min_by_key(|(cost, _)| *cost)
                .map(|(_, route)| route);
            pair.route = now.unwrap_or(if compat { Route::Compat } else { Route::None });
            pair.goal = if now.is_some() { None } else { goal };
            out.push(pair);
        }
    }
    out
}

/// The direct routes that exist for this kind of machine and file system, in the order in which a library prefers them.
fn candidates(ctx: &Context<'_>, subject: &Subject, gpu: Option<&GpuSeen>) -> Vec<Route> {
    let kind = subject.facts.as_ref().and_then(|facts| facts.filesystem.clone()).unwrap_or_default();
    if matches!(kind.as_str(), "gpfs" | "mmfs" | "wekafs") {
        return vec![Route::Rdma];
    }
    if ctx.is_aarch64() {
        return if gpu.is_none_or(|gpu| gpu.is_grace() || gpu.nvml.is_none()) {
            vec![Route::C2c, Route::Nvfs]
        } else {
            vec![Route::Nvfs]
        };
    }
    // P2PDMA is off unless somebody switched it on, so where it works it was asked for.
    vec![Route::P2pdma, Route::Nvfs]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    /// Nothing is known to be in the way, but not all could be looked at.
    Unsure,
    Mendable(u32),
    Never,
}

fn state(ctx: &Context<'_>, judged: &[Judged], pair: &Pair, route: Route) -> State {
    let mut cost = None;
    let mut unsure = false;
    let says = library_routes::says(ctx, &ctx.subjects[pair.path], route);
    let listed = says == Some(true);
    for judged in judged.iter().filter(|j| concerns(j, pair)) {
        // The library lists P2PDMA only after CUDA showed it that BAR1 is mapped statically, however that was asked for.
        if listed && judged.finding.id == "gpu-static-bar1" {
            continue;
        }
        for (_, weight) in judged.bears.iter().filter(|(r, _)| *r == route) {
            match weight {
                Weight::Never => return State::Never,
                // A consequence goes away with its cause, which has its own price.
                Weight::Missing(_) if judged.finding.cause.is_some() => cost = Some(cost.unwrap_or(0)),
                Weight::Missing(price) => cost = Some(cost.unwrap_or(0) + *price as u32),
                Weight::Unknown => unsure = true,
            }
        }
    }
    if let Some(cost) = cost {
        return State::Mendable(cost);
    }
    match says {
        // The library's own table of routes overrules what could not be looked at, and what was overlooked.
        Some(true) => State::Works,
        Some(false) => State::Unsure,
        // RDMA in user space is the file system's own affair, P2PDMA of virtiofs that of the machine around it; nothing that was checked shows that it works.
        None if unsure || route == Route::Rdma || is_of_the_host(ctx, pair, route) => State::Unsure,
        None => State::Works,
    }
}

/// Whether the other end decides over the route: virtiofs moves data by P2PDMA only where the hypervisor's side was built for it.
fn is_of_the_host(ctx: &Context<'_>, pair: &Pair, route: Route) -> bool {
    route == Route::P2pdma
        && ctx.subjects[pair.path].facts.as_ref().is_some_and(|f| f.filesystem.as_deref() == Some("virtiofs"))
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
            let only_policy = all.iter().all(|j| j.finding.id == "cfg-compat");
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
        blockers.retain(|j| j.finding.id == "gpu-present" || j.finding.id == "fs-resolve");
    }
    blockers.sort_by_key(|j| place(&j.finding.id));
    let steps = blockers.clone();
    // Where the settings alone forbid host memory, what keeps a direct route away is the reason all the same.
    let forbidden = pair.route == Route::None && blockers.iter().any(|j| j.finding.id == "cfg-compat");
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
    let lists = |route: Route| library_routes::says(ctx, &ctx.subjects[pair.path], route);
    match pair.goal {
        _ if !has_gpu => Basis::NoGpu,
        _ if pair.route.is_direct() && lists(pair.route) == Some(true) => Basis::LibraryLists,
        Some(goal) if lists(goal) == Some(false) => Basis::LibraryDenies,
        _ => Basis::Checks,
    }
}

fn proof(ctx: &Context<'_>, pair: &Pair, mine: &[&Judged], has_gpu: bool) -> String {
    if !has_gpu {
        return "there is no GPU on this machine".to_owned();
    }
    let subject = &ctx.subjects[pair.path];
    let base = match pair.route {
        Route::None => "derived from the checks that fail; no read was tried".to_owned(),
        Route::Compat => {
            let listed = pair
                .goal
                .filter(|goal| library_routes::says(ctx, subject, *goal) == Some(false))
                .and_then(|goal| library_routes::sentence(ctx, subject, goal));
            match listed {
                Some(said) => format!("{said}; counters of a real read would prove it"),
                None => "derived from the checks; counters of a real read would prove it".to_owned(),
            }
        }
        route => match library_routes::sentence(ctx, subject, route) {
            Some(said) => format!("{said}, but no read was counted yet"),
            None => "every check passes, but no read was counted yet".to_owned(),
        },
    };
    let asked = if pair.route == Route::None { Route::Compat } else { pair.route };
    let unknown: Vec<&str> = mine
        .iter()
        .filter(|j| j.bears.iter().any(|(route, weight)| *route == asked && *weight == Weight::Unknown))
        .map(|j| j.finding.id.as_str())
        .collect();
    if unknown.is_empty() { base } else { format!("{base}; could not be checked: {}", unknown.join(", ")) }
}

fn advice(ctx: &Context<'_>, pair: &Pair, blockers: &[&Judged], has_gpu: bool) -> String {
    if !has_gpu {
        return "gds-top still races the engines into host memory and says so.".to_owned();
    }
    if pair.route.is_direct() {
        return "Nothing is in the way; gds-top load proves the route with a real read.".to_owned();
    }
    let steps: Vec<String> = blockers
        .iter()
        .map(|j| {
            let step = j.finding.advice.as_deref().unwrap_or(&j.finding.summary).trim_end_matches('.');
            match j.price() {
                Some(cost) => format!("{step} ({})", cost.words()),
                None => step.to_owned(),
            }
        })
        .collect();
    match (steps.as_slice(), pair.goal) {
        ([], Some(goal)) if library_routes::says(ctx, &ctx.subjects[pair.path], goal) == Some(false) => {
            format!(
                "Nothing that was checked tells why libcufile leaves {goal} out; its log does: run the program once with CUFILE_LOGGING_LEVEL=DEBUG and CUFILE_LOGFILE_PATH=/tmp/cufile.log, and read the lines with cufio-fs and cufio-rdma."
            )
        }
        ([], Some(goal)) => {
            format!(
                "{goal} may work already: nothing is known to be in its way, but nothing shows it either; a load with gds-top counts its reads."
            )
        }
        ([], None) => "Reads go through host memory; nothing that was checked explains it.".to_owned(),
        ([one], _) => format!("{one}."),
        (several, _) => several.iter().zip(1..).map(|(step, n)| format!("{n}. {step}.")).collect::<Vec<_>>().join(" "),
    }
}

/// One finding for each id: of several paths or GPUs the worst one speaks, with the evidence of all that are as bad.
pub(super) fn merge(ctx: &Context<'_>, judged: &[Judged]) -> Vec<Finding> {
    let mut out: Vec<Finding> = Vec::new();
    let mut members: Vec<Vec<&Judged>> = Vec::new();
    for one in judged {
        match out.iter().position(|f| f.id == one.finding.id) {
            Some(at) => members[at].push(one),
            None => {
                out.push(one.finding.clone());
                members.push(vec![one]);
            }
        }
    }
    for (finding, members) in out.iter_mut().zip(&members) {
        if members.len() == 1 {
            continue;
        }
        let worst = members.iter().map(|j| j.finding.status.weight()).max().unwrap_or(0);
        let bad: Vec<&&Judged> = members.iter().filter(|j| j.finding.status.weight() == worst).collect();
        if let Some(first) = bad.first() {
            *finding = first.finding.clone();
            let same = bad.iter().all(|j| j.finding.summary == first.finding.summary);
            if bad.len() < members.len() || !same {
                finding.summary = format!("{}: {}", name(ctx, first.scope), first.finding.summary);
            }
            for other in bad.iter().skip(1) {
                for evidence in &other.finding.evidence {
                    if !finding.evidence.contains(evidence) && finding.evidence.len() < 16 {
                        finding.evidence.push(evidence.clone());
                    }
                }
                for route in &other.finding.blocks {
                    if !finding.blocks.contains(route) {
                        finding.blocks.push(*route);
                    }
                }
            }
            finding.blocks.sort();
        }
    }
    out.sort_by_key(|finding| (finding.group, place(&finding.id)));
    out
}

fn name(ctx: &Context<'_>, scope: Scope) -> String {
    match scope {
        Scope::Machine => "machine".to_owned(),
        Scope::Path(number) => ctx.subjects.get(number).map_or_else(String::new, |s| s.path.display().to_string()),
        Scope::Gpu(number) => ctx.gpus().get(number).map_or_else(String::new, |g| format!("GPU {}", g.address)),
        Scope::Pair(path, gpu) => format!("{}, {}", name(ctx, Scope::Path(path)), name(ctx, Scope::Gpu(gpu))),
    }
}
