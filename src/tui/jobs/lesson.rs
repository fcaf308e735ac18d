//! The loads that the lesson shows: those recorded of a small and a large model, and those made in this session, with figures and timelines.

use crate::analysis::{CostModel, cost_model, crossover, tensor_rows};
use crate::core::{CacheState, Engine, ModelInfo, PackedSpans, Phase, PhaseTimes, Span};
use crate::present::{EngineRow, row_groups};
use crate::session::State;
use crate::session::shipped;
use std::sync::Arc;

/// Loads of one model.
#[derive(Clone, Debug)]
pub(crate) struct ModelLoads {
    /// The model's name.
    pub(crate) model: String,
    /// Its tensors.
    pub(crate) tensors: u64,
    /// Their bytes together.
    pub(crate) bytes: u64,
    /// One for each engine and cache state.
    pub(crate) loads: Vec<Load>,
}

/// The runs of one engine in one cache state.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) engine: Engine,
    pub(crate) cache: CacheState,
    /// Runs that ended well.
    pub(crate) runs: usize,
    /// Median time.
    pub(crate) wall_ns: u64,
    /// The phases of the run nearest to the median.
    pub(crate) phases: PhaseTimes,
    pub(crate) cost: Option<CostModel>,
    /// (bytes, time on slots) of every tensor.
    pub(crate) points: Vec<(u64, u64)>,
    /// The timeline of the run nearest to the median, of engines whose timeline is shown: others' may have a hundred thousand spans.
    pub(crate) spans: Vec<Span>,
    /// Whether its reads' route was proven to be compat.
    pub(crate) compat: bool,
}

/// Loads of one model before their spans were analysed.
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
    /// Without the values that its spans give.
    load: Load,
}

/// Engines of which the lesson draws each slot.
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
    /// The loads of a state; `None` while it has no model.
    pub(crate) fn of(name: &str, state: &State) -> Option<Self> {
        let loads = row_groups(state).iter().flat_map(|h| &h.rows).filter_map(LoadJob::of).collect();
        Some(Self { name: name.to_owned(), model: state.model.clone()?, loads })
    }

    /// Spans and tensors to look through.
    pub(crate) fn weight(&self) -> usize {
        self.loads.iter().map(|load| load.spans.len() + self.model.tensors.len()).sum()
    }

    /// The loads; `None` if nothing was loaded.
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

    /// Time that moved no byte, on all slots together.
    pub(crate) fn overhead_ns(&self) -> u64 {
        self.phases.overhead_ns()
    }
}

impl ModelLoads {
    /// The loads of the state's model; `None` if there are none yet.
    pub(crate) fn of(name: &str, state: &State) -> Option<Self> {
        ModelLoadsJob::of(name, state)?.run()
    }

    /// The load of an engine: with a hot cache, where the storage's own pace does not hide the rest, else in any.
    pub(crate) fn load(&self, engine: &Engine) -> Option<&Load> {
        let of = |cache| self.loads.iter().find(|l| l.engine == *engine && l.cache == cache);
        of(CacheState::Hot).or_else(|| self.loads.iter().find(|l| l.engine == *engine))
    }

    /// The load of an engine in a cache state.
    pub(crate) fn load_in(&self, engine: &Engine, cache: CacheState) -> Option<&Load> {
        self.loads.iter().find(|l| l.engine == *engine && l.cache == cache)
    }

    /// The fastest load in a cache state.
    pub(crate) fn fastest(&self, cache: CacheState) -> Option<&Load> {
        self.loads.iter().filter(|l| l.cache == cache).min_by_key(|l| l.wall_ns)
    }

    /// Mean size of a tensor.
    pub(crate) fn mean_bytes(&self) -> u64 {
        self.bytes / self.tensors.max(1)
    }

    /// The size from which a tensor takes as long with a separate cuFile registration as with mmap.
    pub(crate) fn even_with_mmap(&self) -> Option<u64> {
        let cost = |engine| self.load(engine)?.cost.as_ref();
        // Beyond what was measured it is a guess.
        crossover(cost(&Engine::GdsPerTensor)?, cost(&Engine::Mmap)?).filter(|c| !c.extrapolated).map(|c| c.bytes)
    }
}

/// The lesson's material.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    pub(crate) small: ModelLoads,
    pub(crate) large: ModelLoads,
}

impl Lesson {
    /// Reads the recordings inside the program; takes a good part of a second.
    pub(crate) fn load() -> Result<Self, String> {
        let told = |shipped: shipped::Shipped| {
            // The overhead of a tensor is fitted for the two engines that the lesson compares.
            let with_timeline = |engine: &Engine| shows_timeline(engine) || *engine == Engine::Mmap;
            let told = shipped.tell(with_timeline, |state| ModelLoads::of(shipped.model, state));
            let none = || format!("{} holds no load that ended well", shipped.name);
            told.map_err(|error| error.to_string())?.ok_or_else(none)
        };
        Ok(Self { small: told(shipped::SMALL)?, large: told(shipped::LARGE)? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_bear_the_lesson_out() {
        let lesson = Lesson::load().unwrap();
        for told in [&lesson.small, &lesson.large] {
            let wall = |engine| told.load_in(&engine, CacheState::Hot).unwrap().wall_ns;
            assert!(wall(Engine::GdsSlab) < wall(Engine::GdsPerTensor), "registering once is faster: {}", told.model);
            assert!(told.load(&Engine::GdsPerTensor).unwrap().count(Phase::RegisterBuffer) >= told.tensors);
            let slab = told.load(&Engine::GdsSlab).unwrap();
            assert!(slab.count(Phase::RegisterBuffer) < told.tensors / 2, "{}", slab.count(Phase::RegisterBuffer));
        }
        let share = |told: &ModelLoads| {
            let load = told.load(&Engine::GdsPerTensor).unwrap();
            load.overhead_ns() as f64 / load.phases.total_ns() as f64
        };
        assert!(share(&lesson.small) > share(&lesson.large), "small tensors pay a larger share");
        assert!(lesson.large.mean_bytes() > 5 * lesson.small.mean_bytes());
    }
}
