//! A realistic race and its state.

use crate::any::Dice;
use gds_top::core::CheckId;
use gds_top::core::*;
use gds_top::session::State;
use std::collections::BTreeMap;

/// A small transformer: 4 layers and an embedding, with sizes like in Qwen3-0.6B.
fn small_model() -> ModelInfo {
    let mut tensors = Vec::new();
    let mut file_offset = 40_008;
    let mut add = |name: String, bytes: u64| {
        tensors.push(TensorInfo { name, dtype: "BF16".into(), shape: vec![bytes / 2], shard: 0, file_offset, bytes });
        file_offset += bytes;
    };
    add("model.embed_tokens.weight".into(), 311_164_928);
    for layer in 0..4 {
        add(format!("model.layers.{layer}.input_layernorm.weight"), 2_048);
        for (part, bytes) in [("mlp.down_proj", 6_291_456), ("mlp.up_proj", 6_291_456), ("self_attn.q_proj", 4_194_304)]
        {
            add(format!("model.layers.{layer}.{part}.weight"), bytes);
        }
        add(format!("model.layers.{layer}.self_attn.q_norm.weight"), 256);
    }
    let shards = vec![ShardInfo {
        path: "/data/models/small/model.safetensors".into(),
        file_bytes: file_offset,
        data_offset: 40_008,
    }];
    ModelInfo { name: "small".into(), path: "/data/models/small".into(), shards, tensors, synthetic: None }
}

/// The speed of one engine: overhead in nanoseconds per tensor, and bytes per nanosecond.
pub(crate) struct Pace {
    pub(crate) engine: Engine,
    pub(crate) cache: CacheState,
    pub(crate) overhead_ns: u64,
    pub(crate) bytes_per_ns: u64,
}

/// The events of a race between these engines, with three repeats each, on a machine with one GPU whose reads use
/// compat mode.
pub(crate) fn race_events(paces: &[Pace]) -> Vec<Event> {
    let model = small_model();
    let mut events = Vec::new();
    let mut put = |at_ns: u64, body| events.push(Event { at_ns, body });
    put(
        0,
        EventBody::SessionStarted {
            tool: "gds-top 0.1.0".into(),
            unix_ms: 1_790_000_000_000,
            command: "gds-top bench toy --cache cold,hot --export report --format md".into(),
            directory: "/data".into(),
            left_out_variables: Vec::new(),
        },
    );
    let machine = Machine {
        host: "node-17".into(),
        kernel: "6.8.0-90-generic".into(),
        distribution: "Ubuntu 24.04.3 LTS".into(),
        cpus: 16,
        memory_bytes: 128 << 30,
        gpus: vec![Gpu {
            name: "NVIDIA H200".into(),
            uuid: "GPU-1".into(),
            memory_total_bytes: Some(150_754_820_096),
            ..Gpu::default()
        }],
        driver: Some("580.159.04 open".into()),
        cuda: Some("13.0".into()),
        libcufile: Some(LibcufileSeen { path: "/usr/lib/libcufile.so.0".into(), version: Some("1.15".into()) }),
        nvidia_fs: None,
        cpu: Some("AMD EPYC 9654 96-Core Processor".into()),
        kernel_parameters: vec!["iommu=pt".into()],
        numa_nodes: vec![NumaNode { node: 0, cpus: "0-7".into() }, NumaNode { node: 1, cpus: "8-15".into() }],
        storage: vec![Storage {
            path: "/data/toy".into(),
            filesystem: Some("ext4".into()),
            mount_point: Some("/data".into()),
            mount_options: Some("rw,relatime".into()),
            device: Some("/dev/nvme0n1p1".into()),
            disks: vec![Disk {
                name: "nvme0n1".into(),
                model: Some("SAMSUNG MZQL27T6HBLA-00A07".into()),
                firmware: Some("GDC5602Q".into()),
                driver: Some("nvme".into()),
                pci_bus_id: Some("0000:41:00.0".into()),
                numa_node: Some(1),
            }],
        }],
        cufile_settings: vec![CufileSetting {
            key: "properties.max_direct_io_size_kb".into(),
            value: "1024".into(),
            origin: "/etc/cufile.json, line 12".into(),
        }],
        cufile_defaults: vec![CufileSetting {
            key: "profile.cufile_stats".into(),
            value: "0".into(),
            origin: "default of libcufile 1.15".into(),
        }],
        container: Some("docker".into()),
    };
    put(1_000, EventBody::MachineSeen { machine });
    let check = |id: &str, group, status, summary: &str| EventBody::CheckDone {
        finding: Finding {
            id: id.parse().unwrap(),
            group,
            status,
            summary: summary.into(),
            evidence: vec![Evidence { source: "/run/udev/data/b254:0".into(), text: "does not exist".into() }],
            why: "libcufile asks udev for the file system of the disk.".into(),
            blocks: if status == Status::Fail { vec![Route::P2pdma] } else { vec![] },
            fix: (status == Status::Fail).then_some(FixId::UdevRecord),
            advice: None,
            command: None,
            cause: None,
            permanent: false,
            facts: Vec::new(),
        },
    };
    put(2_000, check("gpu-present", Group::Gpu, Status::Pass, "one GPU: NVIDIA H200"));
    put(3_000, check("nvfs-loaded", Group::NvidiaFs, Status::Warn, "nvidia_fs is not loaded"));
    put(
        4_000,
        check("udev-database", Group::Files, Status::Fail, "cuFile cannot register any file on this disk: error 5027"),
    );
    put(
        5_000,
        EventBody::VerdictReached {
            verdict: Verdict {
                path: "/data/models/small".into(),
                gpu: Some("GPU-1".into()),
                route: Route::Compat,
                possible: Route::P2pdma,
                proven: true,
                proof: "a read of 4 KiB: 1 POSIX read in cuFile level-3 statistics".into(),
                basis: Basis::Checks,
                blockers: vec![CheckId::UdevDatabase],
                steps: vec![CheckId::UdevDatabase],
                gpu_name: None,
                caveat: None,
                advice: "write the udev record".into(),
            },
        },
    );
    put(6_000, EventBody::ChecksDone { took_ns: 5_000 });
    put(7_000, EventBody::ModelOpened { model: model.clone() });
    put(
        7_500,
        EventBody::EngineUnavailable {
            engine: Engine::Nixl(NixlPlugin::Gds),
            why: "libnixl_capi was not found".into(),
        },
    );
    let target = Target::Gpu { ordinal: 0, uuid: Some("GPU-1".into()), name: "NVIDIA H200".into() };
    let mut at_ns = 10_000;
    let mut dice = Dice::new(3);
    for (i, pace) in paces.iter().enumerate() {
        for repeat in 0..3 {
            let lane = LaneId((i * 3) as u32 + repeat);
            let planned = EventBody::LanePlanned {
                lane,
                engine: pace.engine.clone(),
                cache: pace.cache,
                target: target.clone(),
                repeat,
            };
            put(at_ns, planned);
        }
    }
    for (i, pace) in paces.iter().enumerate() {
        for repeat in 0..3 {
            let lane = LaneId((i * 3) as u32 + repeat);
            put(at_ns, EventBody::LaneStarted { lane, pid: 4_000 + lane.0 });
            at_ns += 200_000_000;
            put(at_ns, EventBody::LaneStage { lane, stage: LaneStage::Loading });
            let mut clock = 1_000_000;
            let mut landed = 0;
            let mut spans = vec![Span {
                slot: 0,
                phase: Phase::Open,
                tensor: None,
                start_ns: 0,
                end_ns: clock,
                bytes: 0,
                offset: 0,
            }];
            for (index, tensor) in model.tensors.iter().enumerate() {
                let moving = tensor.bytes / pace.bytes_per_ns * (990 + dice.below(20)) / 1000 + 1;
                let overhead = pace.overhead_ns * (990 + dice.below(20)) / 1000;
                for (phase, ns) in [
                    (Phase::RegisterBuffer, overhead * 7 / 10),
                    (Phase::Transfer, moving),
                    (Phase::Deregister, overhead * 3 / 10),
                ] {
                    if ns > 0 {
                        let bytes = if phase == Phase::Transfer { tensor.bytes } else { 0 };
                        let offset = if bytes > 0 { tensor.file_offset } else { 0 };
                        spans.push(Span {
                            slot: 0,
                            phase,
                            tensor: Some(index as u32),
                            start_ns: clock,
                            end_ns: clock + ns,
                            bytes,
                            offset,
                        });
                        clock += ns;
                    }
                }
                landed += tensor.bytes;
                let progress =
                    EventBody::LaneProgress { lane, landed_bytes: landed, pinned_bytes: 64 << 20, verified_bytes: 0 };
                put(at_ns + clock, progress);
            }
            let values =
                [(Metric::GpuMemoryBytes, 1.5e9), (Metric::LaneRssBytes, 4e8), (Metric::PcieRxBytesPerS, 3.1e9)];
            put(at_ns + clock / 2, EventBody::Sampled { sample: Sample { lane: Some(lane), values: values.into() } });
            at_ns += clock;
            put(at_ns, EventBody::LaneStage { lane, stage: LaneStage::Verifying });
            put(at_ns, EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans) });
            let result = RunResult {
                cache_resident_before_fraction: Some(if pace.cache == CacheState::Hot { 1.0 } else { 0.0 }),
                repeat,
                bytes: landed,
                wall_ns: clock,
                setup_ns: 200_000_000,
                bytes_per_s: landed as f64 * 1e9 / clock as f64,
                verified: Some(true),
                route: pace.engine.uses_cufile().then(|| RouteCounts {
                    route: Route::Compat,
                    nvfs_reads: Some(0),
                    p2p_reads: Some(0),
                    posix_reads: Some(21),
                    source: "cuFile level-3 statistics".into(),
                    proven: true,
                }),
                phases: Span::phase_times(&spans, clock, 1),
                slots: 1,
                host_peak_bytes: Some(400 << 20),
                pinned_peak_bytes: Some(64 << 20),
                gpu_peak_bytes: Some(landed),
                cpu_ns: Some(clock / 2),
                settings: BTreeMap::from([("threads".into(), 1)]),
                settings_why: BTreeMap::from([("threads".into(), "one tensor after another".to_owned())]),
                setup_parts_ns: BTreeMap::from([("context".to_owned(), 150_000_000)]),
                ..RunResult::new(pace.engine.clone(), model.name.clone(), pace.cache, target.to_string())
            };
            at_ns += 100_000_000;
            put(at_ns, EventBody::LaneFinished { lane, result: result.into() });
        }
    }
    put(at_ns + 1, EventBody::SessionEnded { interrupted: false });
    events
}

/// The race that the reports show.
pub(crate) fn usual_paces() -> Vec<Pace> {
    let pace = |engine, cache, overhead_ns, bytes_per_ns| Pace { engine, cache, overhead_ns, bytes_per_ns };
    vec![
        pace(Engine::Mmap, CacheState::Hot, 20_000, 6),
        pace(Engine::Pread, CacheState::Hot, 0, 20),
        pace(Engine::GdsPerTensor, CacheState::Hot, 2_700_000, 8),
        pace(Engine::Mmap, CacheState::Cold, 20_000, 2),
        pace(Engine::GdsPerTensor, CacheState::Cold, 2_700_000, 3),
    ]
}

pub(crate) fn reduce(events: &[Event]) -> State {
    let mut state = State::default();
    events.iter().for_each(|e| state.reduce(e));
    state
}

pub(crate) fn race() -> State {
    reduce(&race_events(&usual_paces()))
}
