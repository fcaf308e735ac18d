//! Data to draw in tests: made-up machines and races, put together from events only. Nothing here was measured.

use crate::domain::{
    CacheState, Change, Engine, Event, EventBody, Evidence, Finding, FixPlan, FixProgress, FixRisk, FixStage, Gpu,
    Group, LaneId, LaneStage, LibcufileSeen, Machine, Metric, ModelInfo, Needs, Phase, PhaseTimes, Route, RouteCounts,
    RunResult, Sample, ShardInfo, Span, SpanBatch, Status, Target, TensorInfo, Verdict,
};
use crate::session::State;
use std::path::PathBuf;

/// A situation to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Checks arrive, no verdict yet.
    Loading,
    /// The third lane is loading.
    Live,
    /// Everything went well.
    Done,
    /// One lane died, one engine cannot run, no route works.
    Failed,
    /// A machine without a GPU.
    NoGpu,
}

impl Scene {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Loading, Self::Live, Self::Done, Self::Failed, Self::NoGpu];

    /// A name for files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Live => "live",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::NoGpu => "no-gpu",
        }
    }
}

const MS: u64 = 1_000_000;
const UUID: &str = "GPU-00000000-0000-0000-0000-000000000001";

/// The events of a scene, by time.
pub(crate) fn events(scene: Scene) -> Vec<Event> {
    let mut tape = Tape { events: Vec::new(), at_ns: 0 };
    tape.put(EventBody::SessionStarted { tool: "gds-top 0.1.0".into(), unix_ms: 1_760_000_000_000 });
    tape.put(EventBody::MachineSeen { machine: machine(scene != Scene::NoGpu) });
    for finding in findings(scene) {
        tape.wait(12 * MS);
        tape.put(EventBody::CheckDone { finding });
        if scene == Scene::Loading && tape.events.len() > 12 {
            return tape.events;
        }
    }
    tape.put(EventBody::VerdictReached { verdict: verdict(scene) });
    tape.put(EventBody::ChecksDone { took_ns: tape.at_ns });
    if scene != Scene::NoGpu {
        tape.put(EventBody::FixPlanned { plan: udev_plan() });
    }
    tape.wait(30 * MS);
    tape.put(EventBody::ModelOpened { model: model() });
    race(&mut tape, scene);
    tape.events
}

/// The state of a scene.
pub(crate) fn state(scene: Scene) -> State {
    let mut state = State::default();
    events(scene).iter().for_each(|event| state.reduce(event));
    state
}

/// The state of a scene after its fix ran, up to a stage.
pub(crate) fn fixing(stage: FixStage) -> State {
    let mut state = state(Scene::Failed);
    let told = [
        (FixStage::Applying, "writing /run/udev/data/b254:0"),
        (FixStage::Verifying, "written; the check runs again"),
        (FixStage::Mended, "✔ udev-database passes now: cuFile can register files of this disk"),
    ];
    for (at, text) in told {
        let finding = (at == FixStage::Mended).then(|| Finding { status: Status::Pass, ..udev_finding() });
        let progress = FixProgress { id: "udev-record".into(), stage: at, text: text.into(), finding };
        state.reduce(&Event { at_ns: state.now_ns + 5 * MS, body: EventBody::FixProgress { progress } });
        if at == stage {
            break;
        }
    }
    state
}

struct Tape {
    events: Vec<Event>,
    at_ns: u64,
}

impl Tape {
    fn put(&mut self, body: EventBody) {
        self.events.push(Event { at_ns: self.at_ns, body });
    }

    fn wait(&mut self, ns: u64) {
        self.at_ns += ns;
    }
}

fn machine(gpu: bool) -> Machine {
    Machine {
        host: "node-17".into(),
        kernel: "6.8.0".into(),
        distribution: "Ubuntu 24.04.2 LTS".into(),
        cpus: 32,
        memory_bytes: 256 << 30,
        gpus: if gpu {
            vec![Gpu {
                index: 0,
                uuid: UUID.into(),
                name: "NVIDIA H200".into(),
                pci_bus_id: "0000:8d:00.0".into(),
                compute_capability: Some("9.0".into()),
                memory_total_bytes: Some(141 << 30),
                bar1_total_bytes: Some(256 << 30),
                pcie_generation: Some((5, 5)),
                pcie_width: Some((16, 16)),
            }]
        } else {
            Vec::new()
        },
        driver: gpu.then(|| "580.159.04 open".into()),
        cuda: gpu.then(|| "13.0".into()),
        libcufile: Some(LibcufileSeen { path: "/usr/lib/libcufile.so.0".into(), version: Some("1.15.1".into()) }),
        nvidia_fs: None,
        container: None,
    }
}

fn finding(id: &str, group: Group, status: Status, summary: &str) -> Finding {
    Finding {
        id: id.into(),
        group,
        status,
        summary: summary.into(),
        evidence: vec![Evidence { source: "/proc/modules".into(), text: summary.to_lowercase() }],
        why: "It decides whether a read can reach the GPU without a stop in host memory.".into(),
        blocks: Vec::new(),
        fix: None,
        advice: None,
        cause: None,
    }
}

fn udev_finding() -> Finding {
    Finding {
        id: "udev-database".into(),
        group: Group::Files,
        status: Status::Fail,
        summary: "cuFile cannot register any file on this disk: error 5027.".into(),
        evidence: vec![
            Evidence { source: "read".into(), text: "/run/udev/data/b254:0 does not exist".into() },
            Evidence { source: "cufile.log".into(), text: "udev property not found: ID_FS_USAGE".into() },
        ],
        why: "libcufile asks udev for the file system of the disk; containers often lack /run/udev, and then every cuFile call \
              fails, compat too."
            .into(),
        blocks: vec![Route::Nvfs, Route::P2pdma, Route::Compat],
        fix: Some("udev-record".into()),
        advice: Some("in a container: start it with -v /run/udev:/run/udev:ro".into()),
        cause: None,
    }
}

fn findings(scene: Scene) -> Vec<Finding> {
    use Status::{Fail, Info, Na, Pass, Warn};
    if scene == Scene::NoGpu {
        return vec![
            finding("gpu-present", Group::Gpu, Na, "No NVIDIA GPU was found: neither a driver nor a device."),
            finding("kernel-version", Group::Kernel, Pass, "Linux 6.8 is recent enough for P2PDMA."),
            finding("file-system", Group::Files, Pass, "ext4 on /dev/vda1."),
            finding("o-direct", Group::Files, Pass, "A file opens with O_DIRECT."),
            finding("libcufile-found", Group::Cufile, Pass, "libcufile 1.15.1 opens."),
            finding("memlock", Group::Limits, Warn, "Locked memory is limited to 8 MiB."),
        ];
    }
    let mut all = vec![
        finding("gpu-present", Group::Gpu, Pass, "One GPU: NVIDIA H200."),
        finding("driver-version", Group::Gpu, Pass, "Driver 580.159.04, open kernel modules."),
        finding("bar1-size", Group::Gpu, Pass, "BAR1 covers all of the GPU's memory."),
        finding("nvidia-fs-loaded", Group::NvidiaFs, Na, "Not needed for P2PDMA."),
        finding("nvidia-fs-version", Group::NvidiaFs, Na, "The module is not loaded."),
        finding("kernel-version", Group::Kernel, Pass, "Linux 6.8 is recent enough for P2PDMA."),
        finding("kernel-p2pdma", Group::Kernel, Pass, "CONFIG_PCI_P2PDMA is set."),
        finding("iommu", Group::Kernel, Warn, "The IOMMU translates; peer reads may take a detour."),
        finding("nvme-distance", Group::Storage, Info, "The disk and the GPU are on different root ports."),
        finding("file-system", Group::Files, Pass, "ext4 on /dev/vda1."),
        finding("o-direct", Group::Files, Pass, "A file opens with O_DIRECT."),
        finding("ext4-journal", Group::Files, Warn, "ext4 does not show data=ordered."),
        finding("libcufile-found", Group::Cufile, Pass, "libcufile 1.15.1 opens."),
        finding("cufile-json", Group::Cufile, Warn, "use_pci_p2pdma is not set in /etc/cufile.json."),
        finding("cufile-log", Group::Cufile, Pass, "The log is writable."),
        finding("memlock", Group::Limits, Pass, "Locked memory is not limited."),
    ];
    if scene == Scene::Failed {
        all.push(udev_finding());
        all.push(Finding {
            cause: Some("udev-database".into()),
            ..finding("cufile-register", Group::Cufile, Fail, "A test file could not be registered: 5027.")
        });
    }
    all
}

fn verdict(scene: Scene) -> Verdict {
    let (route, possible, blockers): (_, _, &[&str]) = match scene {
        Scene::NoGpu => (Route::None, Route::None, &[]),
        Scene::Failed => (Route::None, Route::P2pdma, &["udev-database", "cufile-json"]),
        Scene::Done => (Route::P2pdma, Route::P2pdma, &[]),
        _ => (Route::Compat, Route::P2pdma, &["bar1-static", "cufile-json"]),
    };
    Verdict {
        path: "/data/models".into(),
        gpu: (scene != Scene::NoGpu).then(|| UUID.into()),
        route,
        possible,
        proven: matches!(scene, Scene::Done | Scene::Live),
        proof: if matches!(scene, Scene::Done | Scene::Live) {
            "cuFile level-3 statistics".into()
        } else {
            "no read was made".into()
        },
        blockers: blockers.iter().map(|id| (*id).to_owned()).collect(),
        advice: String::new(),
    }
}

fn udev_plan() -> FixPlan {
    FixPlan {
        id: "udev-record".into(),
        check: "udev-database".into(),
        title: "write the missing udev record".into(),
        why: "libcufile reads ID_FS_USAGE and ID_FS_TYPE of the disk from this record and refuses the file without it."
            .into(),
        changes: vec![
            Change::WriteFile {
                path: "/run/udev/data/b254:0".into(),
                before: None,
                after: "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\nE:DEVTYPE=disk\nG:systemd\n".into(),
                mode: 0o644,
            },
            Change::Run { argv: vec!["udevadm".into(), "info".into(), "--query=property".into(), "/dev/vda".into()] },
        ],
        needs: Needs::Root,
        risk: FixRisk::Low,
        verify: "the check runs again and libcufile registers a test file".into(),
        undo: "remove the record".into(),
        obstacle: None,
    }
}

/// The shape of a seven-billion model: few large tensors, many tiny ones.
fn model() -> ModelInfo {
    const LAYER: [(&str, u64); 12] = [
        ("input_layernorm.weight", 7_168),
        ("mlp.down_proj.weight", 135_790_592),
        ("mlp.gate_proj.weight", 135_790_592),
        ("mlp.up_proj.weight", 135_790_592),
        ("post_attention_layernorm.weight", 7_168),
        ("self_attn.k_proj.bias", 1_024),
        ("self_attn.k_proj.weight", 3_670_016),
        ("self_attn.o_proj.weight", 25_690_112),
        ("self_attn.q_proj.bias", 7_168),
        ("self_attn.q_proj.weight", 25_690_112),
        ("self_attn.v_proj.bias", 1_024),
        ("self_attn.v_proj.weight", 3_670_016),
    ];
    const HEADER: u64 = 16_384;
    let mut sizes =
        vec![("model.embed_tokens.weight".to_owned(), 1_089_994_752), ("lm_head.weight".to_owned(), 1_089_994_752)];
    for layer in 0..28 {
        sizes.extend(LAYER.iter().map(|(name, bytes)| (format!("model.layers.{layer}.{name}"), *bytes)));
    }
    sizes.push(("model.norm.weight".to_owned(), 7_168));
    let mut offsets = [HEADER; 4];
    let tensors = sizes
        .into_iter()
        .enumerate()
        .map(|(i, (name, bytes))| {
            let shard = (i / 85).min(3);
            let file_offset = offsets[shard];
            offsets[shard] += bytes;
            let (dtype, shape) = ("BF16".into(), vec![bytes / 2]);
            TensorInfo { name, dtype, shape, shard: shard as u32, file_offset, bytes }
        })
        .collect();
    let shards = (0..4)
        .map(|n| ShardInfo {
            path: PathBuf::from(format!("/data/models/Qwen2.5-7B/model-{:05}-of-00004.safetensors", n + 1)),
            file_bytes: offsets[n],
            data_offset: HEADER,
        })
        .collect();
    ModelInfo { name: "Qwen2.5-7B".into(), path: "/data/models/Qwen2.5-7B".into(), shards, tensors }
}

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
        plan(Engine::Direct, 3_900, 430, &[(Open, 1), (Allocate, 2), (Transfer, 90), (Copy, 5), (Idle, 2)], 0.7, 0.25),
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

fn race(tape: &mut Tape, scene: Scene) {
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
        let stop_at = (scene == Scene::Live && plan.engine == Engine::Direct).then_some(0.38);
        if run(tape, lane, plan, total, gpu, dies, stop_at) {
            return;
        }
    }
    tape.wait(20 * MS);
    tape.put(EventBody::SessionEnded { interrupted: false });
}

/// One lane; true when the scene ends in its middle.
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
        // A gentle wave, so that the curve is not a straight line.
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
            let last_words = "cuFileBufRegister: 5027\nlibcufile: udev property not found: ID_FS_USAGE\n".into();
            tape.put(EventBody::LaneDied { lane, how, last_words });
            return false;
        }
    }
    tape.put(EventBody::LaneStage { lane, stage: LaneStage::Verifying });
    tape.wait(250 * MS);
    tape.put(EventBody::LaneSpans { lane, spans: SpanBatch::pack(&spans(plan, total)) });
    tape.put(EventBody::LaneFinished { lane, result: result(plan, total, gpu) });
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

/// A number between 0 and 1 that looks random and is always the same.
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

/// Blocks of several tensors, as coalescing engines read them.
fn blocks(plan: &Plan, total: u64) -> Vec<Span> {
    let moving = if plan.phases.iter().any(|p| p.0 == Phase::Copy) { Phase::Copy } else { Phase::Transfer };
    let count = 120_u64;
    let wall = plan.wall_ms * MS;
    let image = model().image_bytes();
    (0..count)
        .map(|i| {
            // Every seventh block is slow to begin.
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
        engine: plan.engine.clone(),
        model: "Qwen2.5-7B".into(),
        cache: CacheState::Hot,
        cache_resident_before_fraction: Some(1.0),
        target: if gpu { "NVIDIA H200".into() } else { "host memory".into() },
        repeat: 0,
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
        knobs: std::collections::BTreeMap::new(),
        setup_parts_ns: std::collections::BTreeMap::new(),
        notes: Vec::new(),
        error: None,
    }
}
