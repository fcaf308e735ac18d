//! Sessions that measure something other than a load: a storage grid, and a KV cache that is read layer by layer.

use super::{MS, model};
use crate::core::{
    Access, CacheState, CellResult, Engine, Event, EventBody, GridPlan, LaneId, LaneStage, LayerTimes, LogLevel,
    Pattern, Percentiles, RacePlan, Route, RouteCounts, Target, Transfer, WorkloadResult,
};
use crate::session::State;

fn reduce(state: &mut State, bodies: Vec<EventBody>) {
    for (n, body) in bodies.into_iter().enumerate() {
        state.reduce(&Event { at_ns: state.now_ns + n as u64 * MS, body });
    }
}

/// The rate of a cell in the test grid. It is higher for larger blocks, more threads and the direct route.
fn rate(cell: &crate::core::CellKey) -> f64 {
    let factor = [1.3, 1.0, 0.6, 0.7][cell.transfer as usize];
    let block = (cell.block_bytes as f64 / 4096.0).sqrt().min(40.0);
    let order = if cell.pattern == Pattern::Random { 0.8 } else { 1.0 };
    0.04e9 * factor * block * f64::from(cell.threads).sqrt() * order
}

/// A grid in which `done` cells have ended and the next one is running. One cell failed, and one had wrong bytes.
pub(crate) fn grid(done: usize) -> State {
    let cells = GridPlan::cells_of(
        Transfer::ALL,
        Access::ALL,
        Pattern::ALL,
        &[4 << 10, 64 << 10, 1 << 20, 16 << 20],
        &[1, 4, 16],
    );
    let plan = GridPlan {
        dir: "/data/models".into(),
        target: "NVIDIA H200 (GPU 0)".into(),
        file_bytes: 1 << 30,
        cell_ns: 500 * MS,
        cells: cells.clone(),
    };
    let mut state = State::default();
    let mut bodies = vec![EventBody::GridPlanned { plan }];
    for (number, key) in cells.iter().enumerate().take(done) {
        bodies.push(EventBody::GridCellStarted { cell: number as u32 });
        let rate = rate(key);
        let route = RouteCounts {
            route: Route::P2pdma,
            nvfs_reads: Some(0),
            p2p_reads: Some(900),
            posix_reads: Some(0),
            source: "cuFile level-3 statistics".into(),
            proven: true,
        };
        let each = (key.block_bytes as f64 * f64::from(key.threads) * 1e9 / rate) as u64;
        let result = CellResult {
            bytes: (rate / 2.0) as u64,
            operations: (rate / 2.0) as u64 / key.block_bytes,
            wall_ns: 500 * MS,
            bytes_per_s: Some(rate),
            latency_ns: Some(Percentiles { p50: each, p90: each * 2, p99: each * 3, max: each * 9 }),
            cpu_ns: Some(120 * MS),
            setup_ns: 3 * MS,
            route: key.transfer.uses_cufile().then_some(route),
            checked_bytes: key.block_bytes * u64::from(key.threads),
            verified: Some(number != 7),
            error: None,
            ..CellResult::failed(*key, "")
        };
        let failed = CellResult::failed(*key, "cuFileRead failed: error 5030 (the driver is not open)");
        bodies.push(EventBody::GridCellDone { result: if number == 3 { failed } else { result } });
    }
    if done < cells.len() && done > 0 {
        bodies.push(EventBody::GridCellStarted { cell: done as u32 });
    } else if done == 0 {
        bodies.push(EventBody::GridFilesWritten { bytes: 812 << 20, of_bytes: 2 << 30 });
    } else {
        bodies.push(EventBody::GridEnded);
    }
    reduce(&mut state, bodies);
    state
}

/// Layers that are loaded before they are computed. Computing waits for the first layer and for every fourth one.
fn layers(count: u64, ahead: bool) -> Vec<LayerTimes> {
    let (load, compute) = (900_000, 1_100_000);
    let mut layers: Vec<LayerTimes> = Vec::new();
    let (mut free, mut computed) = (0, 0);
    for layer in 0..count {
        let slow = if layer % 4 == 3 { 700_000 } else { 0 };
        let from = if ahead { free } else { free.max(computed) };
        free = from + load + slow;
        let begin = free.max(computed);
        layers.push(LayerTimes {
            load_start_ns: from,
            load_ns: load + slow,
            compute_start_ns: begin,
            compute_ns: compute,
            wait_ns: begin - computed,
        });
        computed = begin + compute;
    }
    layers
}

/// A KV cache that two variants write and read, layer by layer.
pub(crate) fn kv() -> State {
    let mut state = State::default();
    let mut model = model();
    model.name = "lmcache qwen3-0.6b 1k".into();
    let bytes = model.tensor_bytes();
    let mut bodies = vec![EventBody::ModelOpened { model }];
    let lanes = [("gds", 2, true), ("disk", 3, true), ("disk:prefetch_factor=0", 4, false)];
    let mut number = 0;
    for (variant, slow, ahead) in lanes {
        for direction in ["write", "read"] {
            let name = format!("lmcache/{variant}/{direction}");
            let engine: Engine = name.parse().unwrap_or(Engine::Pread);
            let lane = LaneId(number);
            number += 1;
            let target = Target::Host;
            let layers = if direction == "read" { layers(28, ahead) } else { Vec::new() };
            let wall_ns = 20 * MS * slow;
            let mut result = super::loads::plain_result(engine.clone(), bytes, wall_ns);
            // Writes have no files in the page cache before.
            result.cache_resident_before_fraction = (direction == "read").then_some(0.0);
            result.workload = Some(WorkloadResult {
                workload: "lmcache".into(),
                variant: variant.into(),
                direction: direction.into(),
                hidden_fraction: (direction == "read").then_some(if ahead { 0.873 } else { 0.0 }),
                layers,
                ..WorkloadResult::default()
            });
            bodies.extend([
                EventBody::LanePlanned { lane, engine, cache: CacheState::Cold, target, repeat: 0 },
                EventBody::LaneStarted { lane, pid: 100 + number },
                EventBody::LaneStage { lane, stage: LaneStage::Loading },
                EventBody::LaneFinished { lane, result: result.into() },
            ]);
        }
    }
    reduce(&mut state, bodies);
    state
}

/// The plans that a session with a model offers.
pub(crate) fn offers() -> Vec<RacePlan> {
    let plan = |name: &str, title: &str, answers: &str, writes: Option<&str>, obstacle: Option<&str>| RacePlan {
        name: name.into(),
        title: title.into(),
        answers: answers.into(),
        writes: writes.map(str::to_owned),
        obstacle: obstacle.map(str::to_owned),
    };
    vec![
        plan("load", "load Qwen2.5-7B", "Which engine loads this model fastest here, and why?", None, None),
        plan(
            "bench-kv lmcache",
            "bench-kv lmcache",
            "LMCache's GDS back end: how much of a layer-by-layer transfer of the KV cache overlaps with computing?",
            Some(
                "writes up to 640 MiB at once into the new directory /data/models/gds-top-kv-lmcache, which is removed in the end",
            ),
            None,
        ),
        plan(
            "io grid",
            "io grid",
            "Which rate does the storage reach, by block size, number of threads and transfer?",
            None,
            Some("/data/models has 1.2 GiB free, and the measurement needs 2.04 GiB for its two files"),
        ),
    ]
}

/// A session that measured a KV cache and then a grid, with the plans that it offers.
pub(crate) fn several() -> State {
    let mut state = kv();
    let started = |name: &str| EventBody::RacePlanStarted { name: name.into(), title: name.into() };
    let planned = grid(0).grid.map(|grid| EventBody::GridPlanned { plan: grid.plan });
    let said = EventBody::Said { level: LogLevel::Info, text: "writing 2 GiB of test files".into() };
    let plans = EventBody::RacePlansOffered { plans: offers() };
    reduce(&mut state, [started("io grid")].into_iter().chain(planned).chain([said, plans]).collect());
    state
}
