//! Random states that any sequence of events could produce, however unusual.

use gds_top::core::CheckId;
use gds_top::core::*;
use gds_top::session::State;

/// A random number generator with a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 32)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.roll() % most.max(1)
    }

    fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coin() { Some(make(self)) } else { None }
    }

    fn size(&mut self) -> u64 {
        self.roll() & ((1 << self.below(63)) - 1)
    }

    fn real(&mut self) -> f64 {
        match self.below(6) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => 0.0,
            3 => -1.5,
            _ => self.size() as f64 / 3.0,
        }
    }

    pub(crate) fn text(&mut self) -> String {
        let texts = [
            "",
            "/data/models",
            "pipe | here, comma, \"quote\"",
            "<script>alert('x')</script> & more",
            "two\nlines\r\nand a tab\t",
            "\u{1b}[31mred\u{7} \u{202e}back",
            "# heading `code` *star* _under_ [link](x) \\",
            "größe 模型 🦀",
            "=cmd()",
            "]]> --> </svg> {brace} 100 %",
        ];
        self.pick(&texts).to_owned()
    }
}

const CACHES: [CacheState; 3] = [CacheState::Cold, CacheState::Hot, CacheState::AsIs];
const ROUTES: [Route; 6] = [Route::Nvfs, Route::P2pdma, Route::C2c, Route::Rdma, Route::Compat, Route::None];
const STATUSES: [Status; 5] = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na];
const METRICS: [Metric; 5] =
    [Metric::GpuMemoryBytes, Metric::LaneRssBytes, Metric::PcieRxBytesPerS, Metric::PowerWatts, Metric::SelfRssBytes];

fn finding(d: &mut Dice) -> Finding {
    Finding {
        id: d.pick(CheckId::ALL),
        group: d.pick(&[Group::Gpu, Group::NvidiaFs, Group::Files, Group::Cufile, Group::Limits]),
        status: d.pick(&STATUSES),
        summary: d.text(),
        evidence: (0..d.below(3)).map(|_| Evidence { source: d.text(), text: d.text() }).collect(),
        why: d.text(),
        blocks: (0..d.below(3)).map(|_| d.pick(&ROUTES)).collect(),
        fix: d.maybe(|d| d.pick(FixId::ALL)),
        advice: d.maybe(Dice::text),
        command: None,
        cause: d.maybe(|d| d.pick(CheckId::ALL)),
        permanent: d.coin(),
        facts: Vec::new(),
    }
}

fn any_engine(d: &mut Dice) -> Engine {
    match d.below(9) {
        0 => Engine::Command(format!("x{}", d.text())),
        1 => Engine::Loader(d.pick(&LOADERS).to_owned()),
        _ => d.pick(&Engine::named().cloned().collect::<Vec<_>>()),
    }
}

fn any_outside(d: &mut Dice) -> Outside {
    Outside {
        program: d.maybe(Dice::text),
        exit: d.text(),
        stderr_tail: d.maybe(Dice::text),
        clock: d.text(),
        bytes_source: d.text(),
        processes: d.below(9) as u32,
        read_call_bytes: d.maybe(Dice::size),
        storage_read_bytes: d.maybe(Dice::size),
        major_faults: d.maybe(Dice::size),
        rss_peak_bytes: d.maybe(Dice::size),
        pss_peak_bytes: d.maybe(Dice::size),
    }
}

fn any_result(d: &mut Dice, engine: Engine, cache: CacheState, model: &ModelInfo) -> RunResult {
    let mut phases = PhaseTimes::default();
    for _ in 0..d.below(6) {
        phases.add(d.pick(&PHASES), d.size() >> 8);
    }
    RunResult {
        engine,
        model: if d.below(4) > 0 { model.name.clone() } else { d.text() },
        cache,
        cache_resident_before_fraction: d.maybe(|d| d.below(1001) as f64 / 1000.0),
        target: d.text().into(),
        repeat: d.below(4) as u32,
        bytes: if d.below(4) > 0 {
            model.tensors.iter().fold(0, |s: u64, t| s.saturating_add(t.bytes))
        } else {
            d.size()
        },
        wall_ns: d.size(),
        setup_ns: d.size(),
        bytes_per_s: d.real(),
        verified: d.maybe(Dice::coin),
        route: d.maybe(|d| RouteCounts {
            route: d.pick(&ROUTES),
            nvfs_reads: d.maybe(Dice::size),
            p2p_reads: d.maybe(Dice::size),
            posix_reads: d.maybe(Dice::size),
            source: d.text(),
            proven: d.coin(),
        }),
        phases,
        slots: d.below(70) as u32,
        host_peak_bytes: d.maybe(Dice::size),
        host_anonymous_bytes: None,
        host_file_bytes: None,
        pinned_peak_bytes: d.maybe(Dice::size),
        gpu_peak_bytes: d.maybe(Dice::size),
        cpu_ns: d.maybe(Dice::size),
        settings: (0..d.below(3)).map(|_| (d.text().as_str().into(), d.size())).collect(),
        settings_why: (0..d.below(3)).map(|_| (d.text().as_str().into(), d.text())).collect(),
        outside: d.maybe(any_outside),
        workload: d.maybe(any_workload),
        setup_parts_ns: (0..d.below(3)).map(|_| (d.text(), d.size())).collect(),
        auto_choice: d.maybe(|d| AutoChoice { engine: any_engine(d), reason: d.maybe(|_| AutoReason::Cached) }),
        first_difference: d.maybe(Dice::text),
        repeated_reads: d.maybe(Dice::size),
        notes: (0..d.below(3)).map(|_| Note::Text(d.text())).collect(),
        error: if d.below(4) == 0 { Some(d.text()) } else { None },
    }
}

fn any_workload(d: &mut Dice) -> WorkloadResult {
    let mut latencies: Vec<u64> = (0..d.below(5)).map(|_| d.size()).collect();
    let layers = (0..d.below(20)).map(|_| LayerTimes {
        load_start_ns: d.size(),
        load_ns: d.size(),
        compute_start_ns: d.size(),
        compute_ns: d.size(),
        wait_ns: d.size(),
    });
    let layers = layers.collect();
    let fallbacks = (0..d.below(3))
        .map(|_| Fallback {
            reason: d.pick(&FallbackReason::ALL),
            action: d.pick(&[FallbackAction::Staged, FallbackAction::Dropped, FallbackAction::Ignored]),
            provoked: d.coin(),
            operations: d.size(),
            files: d.size(),
            detail: d.text(),
        })
        .collect();
    WorkloadResult {
        workload: d.text(),
        variant: d.text(),
        direction: if d.coin() { "read" } else { "write" }.to_owned(),
        shape: d.text(),
        operations: d.size(),
        busy_ns: d.size(),
        latency_histogram: if d.coin() { Histogram::of(&latencies) } else { None },
        latency_ns: Percentiles::of(&mut latencies),
        lookups: d.maybe(Dice::size),
        hit_rate_fraction: d.maybe(|d| d.below(101) as f64 / 100.0),
        handle_cache: d.maybe(|d| HandleCacheCounts {
            limit: d.size(),
            hits: d.size(),
            ..HandleCacheCounts::default()
        }),
        hidden_fraction: d.maybe(|d| d.below(101) as f64 / 100.0),
        fallbacks,
        layers,
        ..WorkloadResult::default()
    }
}

fn any_model(d: &mut Dice) -> ModelInfo {
    let shards = d.below(4) as u32;
    ModelInfo {
        name: d.text(),
        path: d.text().into(),
        shards: (0..shards)
            .map(|_| ShardInfo { path: d.text().into(), file_bytes: d.size() >> 24, data_offset: d.size() })
            .collect(),
        tensors: (0..d.below(40))
            .map(|_| TensorInfo {
                name: d.text(),
                dtype: "BF16".into(),
                shape: vec![d.size()],
                shard: d.below(u64::from(shards) + 1) as u32,
                file_offset: d.size() >> 24,
                bytes: d.size() >> 24,
            })
            .collect(),
        synthetic: None,
    }
}

/// A random state that some sequence of events could produce.
pub(crate) fn any_state(seed: u64) -> State {
    let d = &mut Dice::new(seed);
    let mut state = State::default();
    let mut model = ModelInfo::default();
    let mut at_ns = 0;
    let put = |state: &mut State, at_ns: u64, body| state.reduce(&Event { at_ns, body });
    if d.coin() {
        put(
            &mut state,
            0,
            EventBody::SessionStarted {
                tool: d.text(),
                unix_ms: d.size(),
                command: d.text(),
                directory: d.text(),
                left_out_variables: (0..d.below(3))
                    .map(|_| LeftOutVariable { name: d.text(), in_part: d.coin(), reason: d.text() })
                    .collect(),
            },
        );
    }
    if d.coin() {
        let gpus = (0..d.below(3)).map(|i| Gpu {
            index: i as u32,
            name: d.text(),
            memory_total_bytes: d.maybe(Dice::size),
            pcie_width: d.maybe(|d| (d.below(17) as u32, 16)),
            ..Gpu::default()
        });
        let gpus = gpus.collect();
        let libcufile = d.maybe(|d| LibcufileSeen { path: d.text(), version: d.maybe(Dice::text) });
        let machine = Machine { host: d.text(), gpus, libcufile, container: d.maybe(Dice::text), ..Machine::default() };
        put(&mut state, 1, EventBody::MachineSeen { machine });
    }
    for _ in 0..d.below(60) {
        at_ns += d.below(1_000_000_000);
        let lane = LaneId(d.below(4) as u32);
        let body = match d.below(16) {
            0 => EventBody::CheckDone { finding: finding(d) },
            1 => EventBody::VerdictReached {
                verdict: Verdict {
                    path: d.text().into(),
                    gpu: d.maybe(Dice::text),
                    route: d.pick(&ROUTES),
                    possible: d.pick(&ROUTES),
                    proven: d.coin(),
                    basis: d.pick(&[Basis::Checks, Basis::LibraryLists, Basis::LibraryDenies, Basis::NoGpu]),
                    proof: d.text(),
                    blockers: (0..d.below(3)).map(|_| d.pick(CheckId::ALL)).collect(),
                    steps: (0..d.below(3)).map(|_| d.pick(CheckId::ALL)).collect(),
                    gpu_name: d.maybe(Dice::text),
                    caveat: d.maybe(Dice::text),
                    advice: d.text(),
                },
            },
            2 => {
                model = any_model(d);
                EventBody::ModelOpened { model: model.clone() }
            }
            3 | 4 => EventBody::LanePlanned {
                lane: LaneId(state.lanes.len() as u32),
                engine: any_engine(d),
                cache: d.pick(&CACHES),
                target: if d.coin() { Target::Host } else { Target::Gpu { ordinal: 0, uuid: None, name: d.text() } },
                repeat: d.below(3) as u32,
            },
            5 => EventBody::EngineUnavailable { engine: any_engine(d), why: d.text() },
            6 => EventBody::LaneStarted { lane, pid: 7 },
            7 => EventBody::LaneStage {
                lane,
                stage: d.pick(&[LaneStage::Setup, LaneStage::PreparingCache, LaneStage::Loading, LaneStage::Verifying]),
            },
            8 => EventBody::LaneProgress {
                lane,
                landed_bytes: d.size(),
                pinned_bytes: d.size(),
                verified_bytes: d.size(),
            },
            9 | 10 => {
                let spans: Vec<Span> = (0..d.below(60))
                    .map(|_| {
                        let start_ns = d.size() >> 20;
                        Span {
                            slot: d.below(5) as u16,
                            phase: d.pick(&PHASES),
                            tensor: d.maybe(|d| d.below(50) as u32),
                            start_ns,
                            end_ns: start_ns + (d.size() >> 30),
                            bytes: d.size() >> 24,
                            offset: d.size() >> 24,
                        }
                    })
                    .collect();
                EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans) }
            }
            11 | 12 => {
                let (engine, cache) = state
                    .lanes
                    .iter()
                    .find(|l| l.id == lane)
                    .map_or((Engine::Mmap, CacheState::Hot), |l| (l.engine.clone(), l.cache));
                EventBody::LaneFinished { lane, result: any_result(d, engine, cache, &model).into() }
            }
            13 if d.coin() => EventBody::LaneCancelled { lane },
            13 => EventBody::LaneDied { lane, how: d.text(), stderr_tail: d.text() },
            14 => EventBody::Sampled {
                sample: Sample {
                    lane: d.maybe(|_| lane),
                    values: (0..d.below(4)).map(|_| (d.pick(&METRICS), d.real())).collect(),
                },
            },
            _ => EventBody::Said { level: d.pick(&[LogLevel::Info, LogLevel::Warn, LogLevel::Error]), text: d.text() },
        };
        put(&mut state, at_ns, body);
    }
    if d.coin() {
        put(&mut state, at_ns, EventBody::SessionEnded { interrupted: d.coin() });
    }
    state
}
