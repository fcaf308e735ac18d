//! Invented loads for the scenes: plans, progress, meters, spans and results.

use super::{MS, Scene, Tape, UUID, model};
use crate::core::{
    CacheState, Engine, EventBody, LaneId, LaneStage, Metric, PackedSpans, Phase, PhaseTimes, Route, RouteCounts,
    RunResult, Sample, Span, Target,
};

struct Plan {
    engine: Engine,
    wall_ms: u64,
    setup_ms: u64,
    phases: &'static [(Phase, u64)],
    rss_gib: f64,
    pinned_gib: f64,
}

fn plans() -> Vec<Plan> {
    use Phase::{Allocate, Copy, Deregister, Idle, Map, Open, RegisterBuffer, RegisterHandle, Submit, Sync, Transfer};
    let plan = |engine, wall_ms, setup_ms, phases, rss_gib, pinned_gib| Plan {
        engine,
        wall_ms,
        setup_ms,
        phases,
        rss_gib,
        pinned_gib,
    };
    vec![
        plan(Engine::Mmap, 1760, 420, &[(Open, 1), (Map, 1), (Allocate, 2), (Copy, 95), (Idle, 1)], 14.6, 0.0),
        plan(
            Engine::Pread,
            690,
            430,
            &[(Open, 1), (Allocate, 6), (Transfer, 61), (Copy, 24), (Sync, 5), (Idle, 3)],
            0.9,
            0.5,
        ),
        plan(Engine::Odirect, 3_900, 430, &[(Open, 1), (Allocate, 2), (Transfer, 90), (Copy, 5), (Idle, 2)], 0.7, 0.25),
        plan(
            Engine::GdsPerTensor,
            2_670,
            510,
            &[(RegisterHandle, 1), (RegisterBuffer, 34), (Submit, 3), (Transfer, 52), (Deregister, 9), (Idle, 1)],
            0.6,
            0.0,
        ),
        plan(
            Engine::GdsSlab,
            310,
            520,
            &[(RegisterHandle, 1), (RegisterBuffer, 4), (Submit, 1), (Transfer, 90), (Sync, 3), (Idle, 1)],
            0.6,
            0.0,
        ),
    ]
}

pub(super) fn race(tape: &mut Tape, scene: Scene) {
    let gpu = scene != Scene::NoGpu;
    let target = if gpu {
        Target::Gpu { ordinal: 0, uuid: Some(UUID.into()), name: "NVIDIA H200".into() }
    } else {
        Target::Host
    };
    let plans: Vec<Plan> = plans().into_iter().filter(|p| gpu || !p.engine.uses_cufile()).collect();
    let plans: Vec<Plan> =
        plans.into_iter().filter(|p| scene != Scene::Failed || p.engine != Engine::GdsSlab).collect();
    for (i, plan) in plans.iter().enumerate() {
        let (lane, engine, target) = (LaneId(i as u32), plan.engine.clone(), target.clone());
        tape.put(EventBody::LanePlanned { lane, engine, cache: CacheState::Hot, target, repeat: 0 });
    }
    if scene == Scene::Failed {
        let why = "libcufile cannot register files here (5027); see udev-database".into();
        tape.put(EventBody::EngineUnavailable { engine: Engine::GdsSlab, why });
    }
    if !gpu {
        for engine in [Engine::GdsPerTensor, Engine::GdsSlab] {
            let why = "libcufile 1.15 needs a GPU; 1.16 and later can read into host memory".into();
            tape.put(EventBody::EngineUnavailable { engine, why });
        }
    }
    let total = model().tensor_bytes();
    for (i, plan) in plans.iter().enumerate() {
        let lane = LaneId(i as u32);
        let dies = scene == Scene::Failed && plan.engine == Engine::GdsPerTensor;
        let stop_at = (scene == Scene::Live && plan.engine == Engine::Odirect).then_some(0.38);
        if run(tape, lane, plan, total, gpu, dies, stop_at) {
            return;
        }
    }
    tape.wait(20 * MS);
    tape.put(EventBody::SessionEnded { interrupted: false });
}

/// Adds one run. Returns true if the scene ends during it.
fn run(tape: &mut Tape, lane: LaneId, plan: &Plan, total: u64, gpu: bool, dies: bool, stop_at: Option<f64>) -> bool {
    tape.put(EventBody::LaneStarted { lane, pid: 4000 + lane.0 });
    for stage in [LaneStage::Setup, LaneStage::PreparingCache] {
        tape.put(EventBody::LaneStage { lane, stage });
        for _ in 0..plan.setup_ms / 200 {
            tape.wait(100 * MS);
            meters(tape, lane, plan, 0.0, gpu);
        }
    }
    tape.put(EventBody::LaneStage { lane, stage: LaneStage::Loading });
    let steps = (plan.wall_ms / 50).max(1);
    for step in 1..=steps {
        tape.wait(plan.wall_ms * MS / steps);
        // A slow wave is added, so that the curve is not a straight line.
        let linear = step as f64 / steps as f64;
        let share = (linear - 0.04 * (linear * 9.0).sin() * (1.0 - linear)).clamp(0.0, 1.0);
        let landed_bytes = (total as f64 * share) as u64;
        let pinned_bytes = (plan.pinned_gib * (1_u64 << 30) as f64) as u64;
        tape.put(EventBody::LaneProgress { lane, landed_bytes, pinned_bytes, verified_bytes: 0 });
        if step % 2 == 0 {
            meters(tape, lane, plan, share, gpu);
        }
        if stop_at.is_some_and(|stop| share >= stop) {
            return true;
        }
        if dies && share > 0.4 {
            let how = "the process was ended by signal 11 (SIGSEGV)".into();
            let stderr_tail = "cuFileBufRegister: 5027\nlibcufile: udev property not found: ID_FS_USAGE\n".into();
            tape.put(EventBody::LaneDied { lane, how, stderr_tail });
            return false;
        }
    }
    tape.put(EventBody::LaneStage { lane, stage: LaneStage::Verifying });
    tape.wait(250 * MS);
    tape.put(EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans(plan, total)) });
    tape.put(EventBody::LaneFinished { lane, result: result(plan, total, gpu).into() });
    tape.wait(40 * MS);
    false
}

fn meters(tape: &mut Tape, lane: LaneId, plan: &Plan, share: f64, gpu: bool) {
    const GIB: f64 = (1_u64 << 30) as f64;
    let mut values = std::collections::BTreeMap::from([
        (Metric::LaneRssBytes, GIB * (0.4 + (plan.rss_gib - 0.4) * share)),
        (Metric::PageCacheBytes, GIB * (40.0 + 0.5 * share)),
        (Metric::LanePinnedBytes, GIB * plan.pinned_gib * f64::from(u8::from(share > 0.0))),
        (Metric::SelfCpuPercent, 0.4),
        (Metric::SelfRssBytes, 11.0 * 1024.0 * 1024.0),
    ]);
    if gpu {
        values.insert(Metric::GpuMemoryBytes, GIB * (0.6 + 14.3 * share));
        values.insert(Metric::PcieRxBytesPerS, if share > 0.0 { 15.2e9 / plan.wall_ms as f64 * 1000.0 } else { 0.0 });
    }
    tape.put(EventBody::Sampled { sample: Sample { lane: Some(lane), values } });
}

/// A pseudo-random number between 0 and 1 that is always the same for a seed.
fn noise(seed: u64) -> f64 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24)
}

fn spans(plan: &Plan, total: u64) -> Vec<Span> {
    let wall = (plan.wall_ms * MS) as f64;
    let (before, phase, after): (f64, Phase, f64) = match plan.engine {
        Engine::GdsPerTensor => (2.2e6, Phase::Transfer, 0.5e6),
        Engine::Mmap => (0.02e6, Phase::Copy, 0.0),
        _ => return blocks(plan, total),
    };
    let model = model();
    let rest = wall - (before + after) * 1.1 * model.tensors.len() as f64;
    let mut at = 0.0;
    let mut spans = Vec::new();
    for (i, tensor) in model.tensors.iter().enumerate() {
        let shaken = 0.8 + 0.4 * noise(i as u64 + plan.wall_ms);
        let moving = rest * 0.97 * tensor.bytes as f64 / total as f64 * (0.97 + 0.06 * noise(i as u64));
        for (phase, length, bytes) in [
            (Phase::RegisterBuffer, before * shaken, 0),
            (phase, moving, tensor.bytes),
            (Phase::Deregister, after * shaken, 0),
        ] {
            if length > 0.0 {
                let (start_ns, end_ns) = (at as u64, (at + length) as u64);
                let tensor = Some(i as u32);
                spans.push(Span { slot: 0, phase, tensor, start_ns, end_ns, bytes, offset: 0 });
                at += length;
            }
        }
    }
    spans
}

/// Blocks of several tensors, like the reads of coalescing engines.
fn blocks(plan: &Plan, total: u64) -> Vec<Span> {
    let moving = if plan.phases.iter().any(|p| p.0 == Phase::Copy) { Phase::Copy } else { Phase::Transfer };
    let count = 120_u64;
    let wall = plan.wall_ms * MS;
    let image = model().image_bytes();
    (0..count)
        .map(|i| {
            // Every seventh block starts late.
            let late = if i % 7 == 0 { wall / count / 3 } else { 0 };
            let start_ns = wall / 20 + wall * 19 / 20 * i / count + late;
            let end_ns = wall / 20 + wall * 19 / 20 * (i + 1) / count;
            Span {
                slot: 0,
                phase: moving,
                tensor: None,
                start_ns,
                end_ns,
                bytes: total / count,
                offset: image / count * i,
            }
        })
        .collect()
}

fn result(plan: &Plan, total: u64, gpu: bool) -> RunResult {
    let wall_ns = plan.wall_ms * MS;
    let mut phases = PhaseTimes::default();
    for (phase, percent) in plan.phases {
        phases.add(*phase, wall_ns * percent / 100);
    }
    let route = RouteCounts {
        route: Route::P2pdma,
        nvfs_reads: Some(0),
        p2p_reads: Some(339),
        posix_reads: Some(0),
        source: "cuFile level-3 statistics".into(),
        proven: true,
    };
    RunResult {
        cache_resident_before_fraction: Some(1.0),
        bytes: total,
        wall_ns,
        setup_ns: plan.setup_ms * MS,
        bytes_per_s: total as f64 * 1000.0 / plan.wall_ms as f64,
        verified: Some(true),
        route: plan.engine.uses_cufile().then_some(route),
        phases,
        slots: 1,
        host_peak_bytes: Some((plan.rss_gib * (1_u64 << 30) as f64) as u64),
        pinned_peak_bytes: Some((plan.pinned_gib * (1_u64 << 30) as f64) as u64),
        gpu_peak_bytes: gpu.then_some(total),
        cpu_ns: Some(wall_ns / 2),
        ..RunResult::new(
            plan.engine.clone(),
            "Qwen2.5-7B",
            CacheState::Hot,
            if gpu { "NVIDIA H200" } else { "host memory" },
        )
    }
}

/// A successful cold run that loaded `bytes` into host memory in `wall_ns`.
pub(super) fn plain_result(engine: crate::core::Engine, bytes: u64, wall_ns: u64) -> RunResult {
    let mut made = result(&plans()[0], bytes, false);
    made.phases = PhaseTimes::default();
    made.phases.add(Phase::Transfer, wall_ns * 6 / 10);
    made.phases.add(Phase::Idle, wall_ns - wall_ns * 6 / 10);
    made.bytes_per_s = bytes as f64 * 1e9 / wall_ns as f64;
    made.route = made.route.filter(|_| engine.uses_cufile());
    RunResult { engine, wall_ns, cache: CacheState::Cold, cache_resident_before_fraction: Some(0.0), ..made }
}
