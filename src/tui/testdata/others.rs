//! Invented machines in use, and a model with very many tensors.

use super::MS;
use crate::core::{
    CacheState, DiskUse, Engine, Event, EventBody, GpuUse, LaneId, LaneStage, ModelInfo, OpenFile, PackedSpans, Phase,
    ProcessUse, RunResult, SeenRoute, ShardInfo, Span, SystemSample, Target, TensorInfo,
};
use crate::session::State;

const GIB: u64 = 1 << 30;

/// A machine that is in use for some time: a model server that loads, a process of another user, and an idle process.
pub(crate) fn in_use(mut state: State, gpu: bool) -> State {
    for step in 0..20_u64 {
        let at_ns = state.now_ns + 2_000 * MS;
        let system = system(step, gpu);
        state.reduce(&Event { at_ns, body: EventBody::SystemSeen { system } });
    }
    state
}

/// A machine whose GPUs and processes could not be examined.
pub(crate) fn unseen(mut state: State) -> State {
    let system = SystemSample {
        gpu_problem: Some(
            "NVML could not be started: the driver and the library differ in version (NVML error 18)".into(),
        ),
        hidden_processes: 212,
        ..SystemSample::default()
    };
    state.reduce(&Event { at_ns: state.now_ns + 2_000 * MS, body: EventBody::SystemSeen { system } });
    state
}

fn system(step: u64, gpu: bool) -> SystemSample {
    let wave = (step as f64 / 3.0).sin().abs();
    let rate = |gb: f64| (step > 0).then_some(gb * 1e9);
    let file = |n: u64, direct| OpenFile {
        path: format!("/data/models/Qwen2.5-7B/model-{n:05}-of-00004.safetensors"),
        offset: step * GIB / 8,
        bytes: Some(4 * GIB),
        direct,
    };
    let vllm = ProcessUse {
        pid: 4711,
        name: "python3".into(),
        command: "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model /data/models/Qwen2.5-7B --load-format fastsafetensors".into(),
        uid: Some(1000),
        cuda: true,
        cufile: Some("libcufile.so.1.15.1".into()),
        cpu_percent: rate(wave * 1.9e-7),
        rss_bytes: Some(3 * GIB),
        page_cache_bytes: Some(GIB),
        threads: Some(87),
        gpu_memory_bytes: Some(12 * GIB + step * GIB / 10),
        storage_bytes_per_s: rate(6.2 * wave),
        call_bytes_per_s: rate(0.004),
        route: SeenRoute::Cufile,
        mapped: Vec::new(),
        files: vec![file(1, true), file(2, true)],
        files_readable: true,
        compat_proof: None,
        log_open: false,
    };
    let hidden = ProcessUse {
        pid: 991,
        name: "trainer".into(),
        command: "/opt/train/trainer --resume".into(),
        uid: Some(1002),
        cuda: true,
        rss_bytes: Some(41 * GIB),
        threads: Some(16),
        gpu_memory_bytes: Some(80 * GIB),
        cpu_percent: rate(9.8e-8),
        ..ProcessUse::default()
    };
    let resting = ProcessUse {
        pid: 120,
        name: "python3".into(),
        command: "python3 notebook.py".into(),
        uid: Some(1000),
        cuda: true,
        rss_bytes: Some(GIB),
        threads: Some(9),
        storage_bytes_per_s: rate(0.0),
        call_bytes_per_s: rate(0.0),
        cpu_percent: rate(0.0),
        route: SeenRoute::Mapped,
        mapped: vec!["/data/models/q06/model.safetensors".into()],
        files_readable: true,
        ..ProcessUse::default()
    };
    let h200 = |index, used: u64| GpuUse {
        index,
        name: "NVIDIA H200".into(),
        memory_used_bytes: Some(used),
        memory_total_bytes: Some(141 * GIB),
        utilization_percent: Some(3.0),
        rx_bytes_per_s: Some(6.4e9 * wave),
        tx_bytes_per_s: Some(2e6),
        bar1_used_bytes: Some(2 * GIB),
        bar1_total_bytes: Some(256 * GIB),
        power_watts: Some(121.4),
    };
    let disk = |name: &str, gb: f64| DiskUse {
        name: name.into(),
        read_bytes_per_s: rate(gb),
        written_bytes_per_s: rate(0.0),
        reads_per_s: rate(gb / 1e6),
        read_latency_ns: (step > 0 && gb > 0.0).then_some(181_000.0),
        queue: rate(11.5e-9 * wave),
        busy_percent: rate(97e-9 * wave),
    };
    SystemSample {
        gpus: if gpu { vec![h200(0, 12 * GIB + step * GIB / 10), h200(1, 80 * GIB)] } else { Vec::new() },
        gpu_problem: (!gpu)
            .then(|| "NVML could not be started: libnvidia-ml.so.1: cannot open shared object file".to_owned()),
        disks: vec![disk("nvme0n1", 6.3 * wave), disk("nvme1n1", 0.0)],
        processes: if gpu { vec![resting, hidden, vllm] } else { Vec::new() },
        hidden_processes: 14,
        unexamined_processes: 0,
        hidden: Vec::new(),
        by_root: false,
    }
}

/// A completed load of very many tensors, with a separate read for each.
pub(crate) fn many_tensors(count: u32) -> State {
    let bytes = |n: u32| u64::from(n % 977 + 1) * 4096;
    let mut file_offset = 4096;
    let mut tensors = Vec::new();
    let mut spans = Vec::new();
    let mut now = 0;
    for n in 0..count {
        let bytes = bytes(n);
        let name = format!("blocks.{}", n);
        tensors.push(TensorInfo { name, dtype: "BF16".into(), shape: vec![bytes / 2], shard: 0, file_offset, bytes });
        for (phase, ns, moved) in [(Phase::RegisterBuffer, 40_000, 0), (Phase::Transfer, bytes / 5, bytes)] {
            spans.push(Span {
                slot: 0,
                phase,
                tensor: Some(n),
                start_ns: now,
                end_ns: now + ns,
                bytes: moved,
                offset: file_offset,
            });
            now += ns;
        }
        file_offset += bytes;
    }
    let shards = vec![ShardInfo { path: "/m/model.safetensors".into(), file_bytes: file_offset, data_offset: 4096 }];
    let model = ModelInfo { name: "many".into(), path: "/m".into(), shards, tensors, synthetic: None };
    let (lane, engine) = (LaneId(0), Engine::GdsPerTensor);
    let result = RunResult {
        cache_resident_before_fraction: Some(1.0),
        bytes: model.tensor_bytes(),
        wall_ns: now,
        setup_ns: 1,
        bytes_per_s: model.tensor_bytes() as f64 * 1e9 / now as f64,
        verified: Some(true),
        slots: 1,
        ..RunResult::new(engine.clone(), "many", CacheState::Hot, "host memory")
    };
    let mut state = State::default();
    for (at_ns, body) in [
        (0, EventBody::ModelOpened { model }),
        (1, EventBody::LanePlanned { lane, engine, cache: CacheState::Hot, target: Target::Host, repeat: 0 }),
        (2, EventBody::LaneStarted { lane, pid: 1 }),
        (3, EventBody::LaneStage { lane, stage: LaneStage::Loading }),
        (now, EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans) }),
        (now, EventBody::LaneFinished { lane, result: result.into() }),
    ] {
        state.reduce(&Event { at_ns, body });
    }
    state
}
