//! Measures keys and frames with 100 000 tensors and a million spans. Run it with `cargo bench --bench screens`. It
//! prints medians and the slowest run, and a single time for an action that happens once.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use gds_top::core::{
    CacheState, Engine, Event, EventBody, LaneId, LaneStage, ModelInfo, PackedSpans, Phase, PhaseTimes, RunResult,
    ShardInfo, Span, Target, TensorInfo,
};
use gds_top::session::State;
use gds_top::tui::{OffScreen, ScreenId};
use std::time::Instant;

/// Number of tensors of the model.
const TENSORS: u32 = 100_000;
/// Number of runs of each measurement. The median and the slowest run are printed.
const RUNS: usize = 21;

/// A mixture-of-experts model with realistic names: they begin with the same text and have 49 columns.
fn model() -> ModelInfo {
    let mut file_offset = 4096;
    let tensors: Vec<TensorInfo> = (0..TENSORS)
        .map(|n| {
            let bytes = u64::from(n * 7919 % 977 + 1) * 4096;
            let name = format!("model.layers.{}.mlp.experts.{}.down_proj.weight", n / 512, n % 512);
            let tensor =
                TensorInfo { name, dtype: "BF16".into(), shape: vec![bytes / 2], shard: 0, file_offset, bytes };
            file_offset += bytes;
            tensor
        })
        .collect();
    let shards = vec![ShardInfo { path: "/m/model.safetensors".into(), file_bytes: file_offset, data_offset: 4096 }];
    ModelInfo { name: "many".into(), path: "/m".into(), shards, tensors, synthetic: None }
}

/// Five spans per tensor, which is half a million per run.
fn spans(model: &ModelInfo, factor: u64) -> Vec<Span> {
    let mut now = 0;
    let mut spans = Vec::new();
    for (n, tensor) in (0_u32..).zip(&model.tensors) {
        let noise = u64::from(n).wrapping_mul(2_654_435_761) % 7_000;
        for (phase, ns, moved) in [
            (Phase::RegisterHandle, 3_000, 0),
            (Phase::RegisterBuffer, 40_000 / factor + noise, 0),
            (Phase::Submit, 2_000, 0),
            (Phase::Transfer, tensor.bytes / 5 * factor, tensor.bytes),
            (Phase::Deregister, 9_000, 0),
        ] {
            let (start_ns, end_ns) = (now, now + ns);
            let (tensor, offset) = (Some(n), tensor.file_offset);
            spans.push(Span { slot: 0, phase, tensor, start_ns, end_ns, bytes: moved, offset });
            now = end_ns;
        }
    }
    spans
}

fn result(engine: &Engine, model: &ModelInfo, wall_ns: u64, phases: PhaseTimes) -> RunResult {
    let bytes = model.tensor_bytes();
    RunResult {
        cache_resident_before_fraction: Some(1.0),
        bytes,
        wall_ns,
        setup_ns: 1,
        bytes_per_s: bytes as f64 * 1e9 / wall_ns as f64,
        verified: Some(true),
        phases,
        slots: 1,
        ..RunResult::new(engine.clone(), model.name.clone(), CacheState::Hot, "host memory")
    }
}

fn state() -> State {
    let model = model();
    let mut state = State::default();
    let mut at_ns = 0;
    let mut put = |state: &mut State, body| {
        at_ns += 1_000_000;
        state.reduce(&Event { at_ns, body });
    };
    put(&mut state, EventBody::ModelOpened { model: model.clone() });
    for (lane, engine, factor) in [(0, Engine::GdsPerTensor, 1), (1, Engine::Mmap, 2)] {
        let (lane, spans) = (LaneId(lane), spans(&model, factor));
        let wall = spans.last().map_or(1, |s| s.end_ns);
        let result = result(&engine, &model, wall, Span::phase_times(&spans, wall, 1));
        let planned = EventBody::LanePlanned { lane, engine, cache: CacheState::Hot, target: Target::Host, repeat: 0 };
        put(&mut state, planned);
        put(&mut state, EventBody::LaneStarted { lane, pid: 1 });
        put(&mut state, EventBody::LaneStage { lane, stage: LaneStage::Loading });
        put(&mut state, EventBody::LaneSpans { lane, spans: PackedSpans::pack(&spans) });
        put(&mut state, EventBody::LaneFinished { lane, result: result.into() });
    }
    state
}

/// Measures `work`. Its argument is the number of the run.
fn bench(name: &str, runs: usize, mut work: impl FnMut(usize)) {
    let mut times: Vec<f64> = (0..runs)
        .map(|run| {
            let start = Instant::now();
            work(run);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    // An action that happens once, such as the first sort, has no median.
    if let [once] = times.as_slice() {
        println!("{name:<52} once   {once:>8.3} ms");
        return;
    }
    println!("{name:<52} median {:>8.3} ms, slowest {:>8.3} ms", times[runs / 2], times[runs - 1]);
}

fn main() {
    let state = state();
    let spans: usize = state.lanes.iter().map(|lane| lane.spans.len()).sum();
    println!("{TENSORS} tensors, {spans} spans, 200x60");
    for screen in ScreenId::ALL {
        let mut stage = OffScreen::new(screen, 200, 60);
        bench(&format!("{}: the first frame", screen.title()), 1, |_| {
            stage.frame(&state);
        });
        stage.settle();
        bench(&format!("{}: the first frame with all results", screen.title()), 1, |_| {
            stage.frame(&state);
        });
        bench(&format!("{}: a frame", screen.title()), RUNS, |_| {
            stage.frame(&state);
        });
    }
    let mut stage = OffScreen::new(ScreenId::Tensors, 200, 60);
    stage.frame(&state);
    stage.settle();
    stage.frame(&state);
    let mut keys = |name: &str, keys: &str| {
        for key in keys.chars() {
            bench(&format!("Tensors: {name} {key:?}"), 1, |_| {
                stage.key(key, &state);
                stage.frame(&state);
            });
            stage.settle();
            stage.frame(&state);
        }
    };
    keys("sort, each column for the first time", "sssssssss");
    keys("sort, known", "ssssS");
    keys("filter", "/experts.17.down\u{8}\u{8}\n");
    keys("one tensor", "\n\n");
    keys("compare", "cc");
    for (name, key) in [("a line down", 'j'), ("a line up", 'k')] {
        bench(&format!("Tensors: {name}"), RUNS, |_| {
            stage.key(key, &state);
            stage.frame(&state);
        });
    }
}
