//! The route of each (path, GPU) pair, and the direct route that needs the least effort.

use crate::checks::classes;
use crate::checks::context::{Context, GpuSeen, Subject};
use crate::checks::cufile::route_table;
use crate::checks::guest;
use crate::checks::judged::{Cost, Judged, Scope, Weight};
use crate::checks::kernel::p2pdma;
use crate::checks::matrix;
use crate::core::{CheckId, Route, Status};
use crate::machine;

/// The result for one path and one GPU.
pub(crate) struct Pair {
    pub(crate) path: usize,
    pub(crate) gpu: Option<usize>,
    pub(crate) route: Route,
    /// The direct route with the least effort, if none works now.
    pub(crate) goal: Option<Route>,
    pub(crate) candidates: Vec<Route>,
    /// Why a route that fixes would open is not a goal: it is not known to work.
    pub(crate) doubt: Option<String>,
    /// Whether another GPU has the route, so this one needs none.
    pub(crate) is_left: bool,
}

pub(crate) fn concerns(judged: &Judged, pair: &Pair) -> bool {
    match judged.scope {
        Scope::Machine => true,
        Scope::Path(path) => path == pair.path,
        Scope::Gpu(gpu) => Some(gpu) == pair.gpu,
        Scope::Pair(path, gpu) => path == pair.path && Some(gpu) == pair.gpu,
    }
}

/// The bonus for a route that is already configured.
const SET_UP_BONUS: u32 = 4;

pub(crate) fn pairs(ctx: &Context<'_>, judged: &[Judged]) -> Vec<Pair> {
    let mut out = Vec::new();
    let nvfs_is_set_up = ctx.has_gpu() && machine::nvidia_fs_known(ctx.root);
    for (path, subject) in ctx.subjects.iter().enumerate() {
        let gpus: Vec<Option<usize>> =
            if ctx.gpus().is_empty() { vec![None] } else { (0..ctx.gpus().len()).map(Some).collect() };
        for gpu in gpus {
            let candidates = candidates(ctx, subject, gpu.map(|g| &ctx.gpus()[g]));
            let mut pair = Pair { path, gpu, route: Route::None, goal: None, candidates, doubt: None, is_left: false };
            let state = |route: Route| state(ctx, judged, &pair, route);
            let compat = !judged.iter().any(|j| concerns(j, &pair) && j.stops(Route::Compat));
            let now = pair.candidates.iter().copied().find(|route| state(*route) == State::Works);
            // A configured route is the goal unless another route needs much less effort.
            let tried = |route: Route| if route == Route::Nvfs && nvfs_is_set_up { SET_UP_BONUS } else { 0 };
            let seen = gpu.map(|gpu| &ctx.gpus()[gpu]);
            let in_mig = seen.is_some_and(classes::is_partitioned)
                && !judged.iter().any(|j| j.id == CheckId::GpuMigVgpu && concerns(j, &pair) && j.stops(Route::Compat));
            let doubt = if is_of_the_host(ctx, &pair, Route::P2pdma) {
                unproven_virtiofs(ctx)
            } else if in_mig {
                Some(UNPROVEN_MIG.to_owned())
            } else {
                seen.and_then(|_| classes::doubt(ctx))
            };
            // NVIDIA offers no patched NVMe driver for the kernels of these clouds, and documents none for other virtual
            // machines. If P2PDMA only lacks a change of the topology, it is the better aim.
            let is_guest = || {
                guest::is_virtual(ctx)
                    && judged
                        .iter()
                        .any(|j| j.id == CheckId::KernelP2pRootports && j.stops(Route::P2pdma) && concerns(j, &pair))
                    && !nvfs_is_set_up
            };
            let is_unpatched = (classes::undocumented(ctx).is_some() || is_guest())
                && judged.iter().any(|j| j.id == CheckId::NvfsNvmeSymbol && j.stops(Route::Nvfs) && concerns(j, &pair));
            let is_doubtful = |route: Route| match route {
                Route::P2pdma => doubt.is_some(),
                Route::Nvfs if !nvfs_is_set_up && classes::is_arm_without_c2c(ctx) => true,
                Route::Nvfs => is_unpatched || (in_mig && !nvfs_is_set_up),
                _ => false,
            };
            let fixable = |route: Route| match state(route) {
                State::Fixable(cost) => Some((cost.saturating_sub(tried(route)), route)),
                State::Unsure => Some((0, route)),
                _ => None,
            };
            let (doubtful, known): (Vec<_>, Vec<_>) = pair
                .candidates
                .iter()
                .copied()
                .filter_map(fixable)
                .partition(|(cost, route)| *cost > 0 && is_doubtful(*route));
            let first_doubtful = doubtful.first().map(|(_, route)| *route);
            let goal = known.into_iter().min_by_key(|(cost, _)| *cost).map(|(_, route)| route);
            let doubt = doubt.filter(|_| goal.is_none() && now.is_none() && !doubtful.is_empty());
            let forced = goal.or(first_doubtful).filter(|route| now.is_none() && is_chosen(judged, &pair, *route));
            let (goal, doubt) = match forced {
                Some(_) => (None, Some(FORCED.to_owned())),
                None => (goal, doubt),
            };
            pair.route = now.unwrap_or(if compat { Route::Compat } else { Route::None });
            pair.goal = if now.is_some() { None } else { goal };
            pair.doubt = doubt;
            if pair.route == Route::Compat && takes_failing_route(ctx, judged, &pair) {
                pair.route = Route::None;
            }
            out.push(pair);
        }
    }
    leave_to_neighbour(ctx, judged, &mut out);
    // The GPU with a route leads, then one that can have one.
    out.sort_by_key(|pair| (pair.path, !pair.route.is_direct(), pair.goal.is_none()));
    out
}

/// Whether libcufile takes the route nvfs, on which reads fail: nothing else blocks it.
fn takes_failing_route(ctx: &Context<'_>, judged: &[Judged], pair: &Pair) -> bool {
    let (failing, others): (Vec<&Judged>, Vec<&Judged>) =
        judged.iter().filter(|j| concerns(j, pair) && j.stops(Route::Nvfs)).partition(|j| j.fails_reads);
    pair.goal == Some(Route::Nvfs)
        && !failing.is_empty()
        && others.is_empty()
        && machine::nvidia_fs_loaded(ctx.root) == Some(true)
}

/// Drops the goal of a GPU without P2PDMA that needs another driver of all NVMe disks, if another GPU reads the same path
/// by P2PDMA or lacks only a setting: the first is most likely for a screen, and the driver works for the other.
fn leave_to_neighbour(ctx: &Context<'_>, judged: &[Judged], pairs: &mut [Pair]) {
    let has_p2pdma = |pair: &Pair| {
        let is_near = |price| price <= Cost::Setting as u32;
        pair.route == Route::P2pdma
            || (pair.goal == Some(Route::P2pdma)
                && matches!(state(ctx, judged, pair, Route::P2pdma), State::Fixable(price) if is_near(price)))
    };
    let replaces = |pair: &Pair| {
        let has =
            |id, stops: &dyn Fn(&Judged) -> bool| judged.iter().any(|j| j.id == id && concerns(j, pair) && stops(j));
        pair.goal == Some(Route::Nvfs)
            && has(CheckId::NvfsNvmeSymbol, &|j| j.stops(Route::Nvfs))
            && has(CheckId::GpuP2pdmaModel, &|j| j.effects.contains(&(Route::P2pdma, Weight::Never)))
    };
    let owners: Vec<(usize, Option<usize>)> =
        pairs.iter().filter(|pair| has_p2pdma(pair)).map(|pair| (pair.path, pair.gpu)).collect();
    for pair in pairs.iter_mut() {
        let owner = owners.iter().find(|(path, gpu)| *path == pair.path && *gpu != pair.gpu);
        if let Some(gpu) = owner.and_then(|(_, gpu)| ctx.gpus().get((*gpu)?)).filter(|_| replaces(pair)) {
            pair.goal = None;
            pair.is_left = true;
            pair.doubt = Some(format!(
                "GPU {} has P2PDMA here; nvfs for this GPU would replace the driver of all NVMe disks.",
                gpu.label()
            ));
        }
    }
}

const UNPROVEN_MIG: &str =
    "NVIDIA does not document GPUDirect Storage on MIG instances, so a direct route is not known to work.";
const FORCED: &str = "The configuration forces compat mode, and no direct route is set up.";

/// Whether the user chose compat mode: it is forced, and the direct route also lacks something else.
fn is_chosen(judged: &[Judged], pair: &Pair, route: Route) -> bool {
    let mine = || judged.iter().filter(|j| concerns(j, pair) && j.finding.cause.is_none());
    let stops = |j: &Judged| j.stops(route) && !j.stops(Route::Compat);
    mine().any(|j| j.id == CheckId::CfgCompat && stops(j)) && mine().any(|j| j.id != CheckId::CfgCompat && stops(j))
}

/// Why P2PDMA of virtiofs is not known to work. `None` if the user enabled it in cufile.json.
fn unproven_virtiofs(ctx: &Context<'_>) -> Option<String> {
    let is_on = |key| ctx.config().switch(key, false).0;
    let is_wanted = ["properties.use_pci_p2pdma", "fs.virtiofs.use_pci_p2pdma"].into_iter().any(is_on);
    (!is_wanted).then(|| {
        "P2PDMA of virtiofs needs a device that writes into GPU memory, such as a DPU; virtiofsd of a hypervisor cannot.".to_owned()
    })
}

/// The direct routes that exist for this machine and file system, in the order of preference of libcufile.
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
    // P2PDMA is off by default. If it is on, the user wants it.
    vec![Route::P2pdma, Route::Nvfs]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Works,
    /// No blocker is known, but some checks have no result.
    Unsure,
    Fixable(u32),
    Never,
}

fn state(ctx: &Context<'_>, judged: &[Judged], pair: &Pair, route: Route) -> State {
    let class = pair.gpu.and_then(|gpu| classes::of_gpu(&ctx.gpus()[gpu]));
    let storage = ctx.subjects[pair.path].facts.as_ref().and_then(|facts| classes::of_path(ctx.root, facts));
    if matrix::is_closed(class, storage, route) {
        return State::Never;
    }
    let mut cost = None;
    let mut unsure = false;
    let says = route_table::says(ctx, &ctx.subjects[pair.path], route);
    let listed = says == Some(true);
    for judged in judged.iter().filter(|j| concerns(j, pair)) {
        // libcufile lists P2PDMA only if CUDA reports a statically mapped BAR1.
        if listed && judged.id == CheckId::GpuStaticBar1 {
            continue;
        }
        for (_, weight) in judged.effects.iter().filter(|(r, _)| *r == route) {
            match weight {
                Weight::Never => return State::Never,
                // A consequence is resolved with its cause. The effort of the cause is already counted.
                Weight::Missing(_) if judged.finding.cause.is_some() => cost = Some(cost.unwrap_or(0)),
                Weight::Missing(price) => cost = Some(cost.unwrap_or(0) + *price as u32),
                Weight::Unknown => unsure = true,
            }
        }
    }
    if let Some(cost) = cost {
        let more = if route == Route::P2pdma { kernel_effort(ctx, judged, pair) } else { 0 };
        return State::Fixable(cost + more);
    }
    match says {
        // libcufile's table of routes overrides checks without a result.
        Some(true) => State::Works,
        Some(false) => State::Unsure,
        // User-space RDMA depends on the client of the file system, and P2PDMA of virtiofs depends on the host. No
        // check can show that they work.
        None if unsure || route == Route::Rdma || is_of_the_host(ctx, pair, route) => State::Unsure,
        None => State::Works,
    }
}

/// The additional effort of a newer kernel. P2PDMA is preferred to nvidia-fs with its driver only if the release of the
/// distribution has such a kernel, and if the kernel is the last step.
fn kernel_effort(ctx: &Context<'_>, judged: &[Judged], pair: &Pair) -> u32 {
    let is_lacking = |j: &Judged| {
        matches!(j.id, CheckId::KernelVersion | CheckId::KernelP2pdma) && concerns(j, pair) && j.stops(Route::P2pdma)
    };
    // The kernel of a container is that of its host, and an image brings its kernel.
    let is_elsewhere = machine::container(ctx.root).is_some() || machine::image_host(ctx.root).is_some();
    if is_elsewhere || !judged.iter().any(is_lacking) || machine::kernel_with_p2pdma(ctx.root).is_some() {
        return 0;
    }
    match (machine::old_release(ctx.root), p2pdma::newer_kernel(ctx)) {
        (Some(_), _) => Cost::Release as u32,
        // The check of the kernel counts it.
        (None, Some(_)) => 0,
        (None, None) => Cost::Install as u32,
    }
}

/// Whether the host decides if the route works: virtiofs uses P2PDMA only if the hypervisor supports it.
fn is_of_the_host(ctx: &Context<'_>, pair: &Pair, route: Route) -> bool {
    route == Route::P2pdma
        && ctx.subjects[pair.path].facts.as_ref().is_some_and(|f| f.filesystem.as_deref() == Some("virtiofs"))
}

/// Whether the finding alone closes all direct routes of the pair permanently.
pub(crate) fn closes_all(judged: &Judged, pair: &Pair) -> bool {
    let is_closed = |route: &Route| judged.effects.contains(&(*route, Weight::Never));
    judged.finding.status != Status::Pass && pair.candidates.iter().all(is_closed)
}

/// Whether the finding blocks a route of the pair permanently.
pub(crate) fn is_for_good(judged: &Judged, pair: &Pair) -> bool {
    judged.effects.iter().any(|(route, weight)| *weight == Weight::Never && pair.candidates.contains(route))
}
