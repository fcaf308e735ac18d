//! The loads that the lesson shows, with figures and timelines: recorded loads of a small and a large model, and
//! loads of this session.

use super::engine_rows::{EngineRow, row_groups};
use crate::analysis::{CostModel, cost_model, crossover, tensor_rows};
use crate::core::units::{duration, percent};
use crate::core::{CacheState, Engine, ModelInfo, PackedSpans, Phase, PhaseTimes, RacePlan, Span};
use crate::session::State;
use crate::session::shipped;
use std::sync::Arc;

/// Loads of one model.
#[derive(Clone, Debug)]
pub(crate) struct ModelLoads {
    /// The model's name.
    pub(crate) model: String,
    /// Number of its tensors.
    pub(crate) tensors: u64,
    /// Total bytes of its tensors.
    pub(crate) bytes: u64,
    /// One entry for each engine and cache state.
    pub(crate) loads: Vec<Load>,
}

/// The runs of one engine in one cache state.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) engine: Engine,
    pub(crate) cache: CacheState,
    /// Number of successful runs.
    pub(crate) runs: usize,
    /// Median time in nanoseconds.
    pub(crate) wall_ns: u64,
    /// The phases of the run with the median time.
    pub(crate) phases: PhaseTimes,
    pub(crate) cost: Option<CostModel>,
    /// Bytes and slot time in nanoseconds of every tensor.
    pub(crate) points: Vec<(u64, u64)>,
    /// The spans of the run with the median time. Only engines whose timeline is shown have spans, because others may
    /// have a hundred thousand.
    pub(crate) spans: Vec<Span>,
    /// Whether the route of its reads was proven to be compat.
    pub(crate) compat: bool,
}

/// The loads of one model before their spans were analysed.
#[derive(Clone, Debug)]
pub(crate) struct ModelLoadsJob {
    name: String,
    model: Arc<ModelInfo>,
    loads: Vec<LoadJob>,
}

#[derive(Clone, Debug)]
struct LoadJob {
    spans: PackedSpans,
    result_wall_ns: u64,
    repeats_ns: Vec<u64>,
    /// The load without the values that are derived from its spans.
    load: Load,
}

/// Whether the lesson draws the slots of this engine.
fn shows_timeline(engine: &Engine) -> bool {
    matches!(engine, Engine::GdsPerTensor | Engine::GdsSlab)
}

impl LoadJob {
    fn of(entry: &EngineRow<'_>) -> Option<Self> {
        let lane = entry.typical()?;
        let result = lane.result.as_deref()?;
        let load = Load {
            engine: entry.engine.clone(),
            cache: entry.cache,
            runs: entry.n(),
            wall_ns: entry.wall_ns()?,
            phases: result.phases,
            cost: None,
            points: Vec::new(),
            spans: Vec::new(),
            compat: result.route.as_ref().is_some_and(|r| r.proven && r.route == crate::core::Route::Compat),
        };
        let repeats_ns = entry.results().map(|r| r.wall_ns).collect();
        Some(Self { spans: lane.spans.clone(), result_wall_ns: result.wall_ns, repeats_ns, load })
    }

    fn run(self, model: &ModelInfo) -> Load {
        let spans = self.spans.unpack();
        let rows = tensor_rows(model, &spans);
        let cost = cost_model(&rows, self.result_wall_ns, &self.repeats_ns);
        let points = rows.iter().map(|row| (row.bytes, row.busy_ns())).collect();
        let shown = shows_timeline(&self.load.engine);
        Load { cost, points, spans: if shown { spans } else { Vec::new() }, ..self.load }
    }
}

impl ModelLoadsJob {
    /// The job for the loads of a state; `None` while the state has no model.
    pub(crate) fn of(name: &str, state: &State) -> Option<Self> {
        let loads = row_groups(state).iter().flat_map(|h| &h.rows).filter_map(LoadJob::of).collect();
        Some(Self { name: name.to_owned(), model: state.model.clone()?, loads })
    }

    /// Amount of work, as the number of spans and tensors.
    pub(crate) fn weight(&self) -> usize {
        self.loads.iter().map(|load| load.spans.len() + self.model.tensors.len()).sum()
    }

    /// Analyses the loads; `None` if nothing was loaded.
    pub(crate) fn run(self) -> Option<ModelLoads> {
        let loads: Vec<Load> = self.loads.into_iter().map(|load| load.run(&self.model)).collect();
        (!loads.is_empty()).then(|| ModelLoads {
            model: self.name,
            tensors: self.model.tensors.len() as u64,
            bytes: self.model.tensor_bytes(),
            loads,
        })
    }
}

impl Load {
    /// The number of spans of a phase.
    pub(crate) fn count(&self, phase: Phase) -> u64 {
        self.spans.iter().filter(|s| s.phase == phase).count() as u64
    }

    /// The total time on all slots in which no bytes moved, in nanoseconds.
    pub(crate) fn overhead_ns(&self) -> u64 {
        self.phases.overhead_ns()
    }
}

impl ModelLoads {
    /// The loads of the state's model; `None` if there are none.
    pub(crate) fn of(name: &str, state: &State) -> Option<Self> {
        ModelLoadsJob::of(name, state)?.run()
    }

    /// The load of an engine. A load with a hot cache is preferred, because the speed of the storage does not hide
    /// the other phases.
    pub(crate) fn load(&self, engine: &Engine) -> Option<&Load> {
        let of = |cache| self.loads.iter().find(|l| l.engine == *engine && l.cache == cache);
        of(CacheState::Hot).or_else(|| self.loads.iter().find(|l| l.engine == *engine))
    }

    /// The load of an engine in a cache state.
    pub(crate) fn load_in(&self, engine: &Engine, cache: CacheState) -> Option<&Load> {
        self.loads.iter().find(|l| l.engine == *engine && l.cache == cache)
    }

    /// The fastest load with a cache state.
    pub(crate) fn fastest(&self, cache: CacheState) -> Option<&Load> {
        self.loads.iter().filter(|l| l.cache == cache).min_by_key(|l| l.wall_ns)
    }

    /// The mean size of a tensor in bytes.
    pub(crate) fn mean_bytes(&self) -> u64 {
        self.bytes / self.tensors.max(1)
    }

    /// The tensor size in bytes above which cuFile with separate registrations is at least as fast as mmap.
    pub(crate) fn crossover_with_mmap(&self) -> Option<u64> {
        let cost = |engine| self.load(engine)?.cost.as_ref();
        // A size outside the measured range would be a guess.
        crossover(cost(&Engine::GdsPerTensor)?, cost(&Engine::Mmap)?).filter(|c| !c.extrapolated).map(|c| c.bytes)
    }
}

/// The progress of a measurement in this session, or the loads that it measured. `None` if nothing was started.
pub(crate) fn measured_here(state: &State, measured: Option<&ModelLoads>) -> Option<String> {
    if let Some(lane) = state.running_lane() {
        let number = state.lanes.iter().position(|l| l.id == lane.id).map_or(1, |at| at + 1);
        let total = state.bytes_of(lane);
        let done = match lane.clock_ns {
            Some(_) if total > 0 => percent(lane.landed_bytes() as f64 / total as f64),
            _ => "about to begin".to_owned(),
        };
        let (engine, cache, all) = (&lane.engine, lane.cache, state.lanes.len());
        return Some(format!("Measuring here: {engine} ({cache}), {done}, run {number} of {all}."));
    }
    if let Some(here) = measured {
        let loads: Vec<String> =
            here.loads.iter().map(|l| format!("{} {} {}", l.engine, l.cache, duration(l.wall_ns))).collect();
        return Some(format!("Measured here with {}: {}.", here.model, loads.join(", ")));
    }
    let ended = !state.lanes.is_empty() && state.lanes.iter().all(|lane| lane.ended_ns.is_some());
    ended.then(|| "The measurement was stopped or failed before a load finished. Race (2) shows why.".to_owned())
}

/// The files that a measurement in this session writes first. `None` if it writes none.
pub(crate) fn written_first(state: &State) -> Option<&str> {
    state.race_plans.iter().find(|plan| plan.name == RacePlan::LOAD)?.writes.as_deref()
}

/// The loads and values of the lesson.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    pub(crate) small: ModelLoads,
    pub(crate) large: ModelLoads,
    /// Hot loads with 1024 KiB for each registration, on the same machine as those of `small`, which have 16384. The
    /// large models were loaded on other machines of the same kind.
    pub(crate) small_1024: ModelLoads,
    /// Hot loads of the large model, also with NIXL, with 16384 KiB.
    pub(crate) large_usual: ModelLoads,
}

impl Lesson {
    /// Reads the compiled-in recordings. This takes a large part of a second.
    pub(crate) fn load() -> Result<Self, String> {
        // The lesson compares two engines by their overhead per tensor, so both timelines are needed for the fit.
        let fitted = |engine: &Engine| shows_timeline(engine) || *engine == Engine::Mmap;
        let model_loads = |shipped: shipped::Shipped, with_timeline: &dyn Fn(&Engine) -> bool| {
            let model_loads = shipped.read_part(with_timeline, |state| ModelLoads::of(shipped.model, state));
            let none = || format!("{} contains no successful load", shipped.name);
            model_loads.map_err(|error| error.to_string())?.ok_or_else(none)
        };
        Ok(Self {
            small: model_loads(shipped::SMALL_LESSON, &fitted)?,
            large: model_loads(shipped::LARGE, &fitted)?,
            small_1024: model_loads(shipped::SMALL_1024, &|_| false)?,
            large_usual: model_loads(shipped::LARGE_USUAL, &|_| false)?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_support_the_lesson() {
        let lesson = Lesson::load().unwrap();
        for model_loads in [&lesson.small, &lesson.large] {
            let wall = |engine| model_loads.load_in(&engine, CacheState::Cold).unwrap().wall_ns;
            assert!(
                wall(Engine::GdsSlab) < wall(Engine::GdsPerTensor),
                "registering once is faster: {}",
                model_loads.model
            );
            assert!(
                model_loads.load(&Engine::GdsPerTensor).unwrap().count(Phase::RegisterBuffer) >= model_loads.tensors
            );
            let slab = model_loads.load(&Engine::GdsSlab).unwrap();
            assert!(
                slab.count(Phase::RegisterBuffer) < model_loads.tensors / 2,
                "{}",
                slab.count(Phase::RegisterBuffer)
            );
        }
        let share = |model_loads: &ModelLoads| {
            let load = model_loads.load(&Engine::GdsPerTensor).unwrap();
            load.overhead_ns() as f64 / load.phases.total_ns() as f64
        };
        assert!(share(&lesson.small) > share(&lesson.large), "small tensors pay a larger share");
        let wall =
            |model_loads: &ModelLoads, engine| model_loads.load_in(&engine, CacheState::Hot).unwrap().wall_ns as f64;
        let over_mmap = |model_loads| wall(model_loads, Engine::GdsPerTensor) / wall(model_loads, Engine::Mmap);
        assert!(over_mmap(&lesson.small) > 1.3 && (0.9..1.1).contains(&over_mmap(&lesson.small_1024)));
        let once = lesson.small.load_in(&Engine::GdsSlab, CacheState::Cold).unwrap();
        assert_eq!(once.count(Phase::RegisterBuffer), 1);
        assert!(once.phases.get(Phase::RegisterBuffer) > 1_000_000, "the slab was registered");
        assert!(over_mmap(&lesson.large_usual) < 1.0, "the large model is faster");
        assert!(lesson.large.mean_bytes() > 5 * lesson.small.mean_bytes());
    }
}
