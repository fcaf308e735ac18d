//! What the lesson is told with: the recorded loads of a small and a large model, and the load that was made here, boiled down to the figures and
//! timelines of its steps.

use crate::analysis::{CostModel, cost_model, crossover, tensor_rows};
use crate::domain::{CacheState, Engine, ModelInfo, PackedSpans, Phase, PhaseTimes, Span};
use crate::present::{EngineRow, row_groups};
use crate::session::State;
use crate::session::shipped;
use std::sync::Arc;

/// Loads of one model.
#[derive(Clone, Debug)]
pub(crate) struct Told {
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
    /// Where the time of the run nearest to the median went.
    pub(crate) phases: PhaseTimes,
    pub(crate) cost: Option<CostModel>,
    /// (bytes, time on slots) of every tensor.
    pub(crate) points: Vec<(u64, u64)>,
    /// The timeline of the run nearest to the median, of engines whose timeline is shown: others' may have a hundred thousand spans.
    pub(crate) spans: Vec<Span>,
    /// Whether its reads' route was proven to be compat.
    pub(crate) compat: bool,
}

/// Loads of one model before their spans were looked through.
#[derive(Clone, Debug)]
pub(crate) struct Seeds {
    name: String,
    model: Arc<ModelInfo>,
    seeds: Vec<Seed>,
}

#[derive(Clone, Debug)]
struct Seed {
    spans: PackedSpans,
    result_wall_ns: u64,
    repeats_ns: Vec<u64>,
    /// With what its spans tell left open.
    load: Load,
}

/// Engines of which the lesson draws each slot.
fn shows_timeline(engine: &Engine) -> bool {
    matches!(engine, Engine::GdsPerTensor | Engine::GdsSlab)
}

impl Seed {
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
            compat: result.route.as_ref().is_some_and(|r| r.proven && r.route == crate::domain::Route::Compat),
        };
        let repeats_ns = entry.results().map(|r| r.wall_ns).collect();
        Some(Self { spans: lane.spans.clone(), result_wall_ns: result.wall_ns, repeats_ns, load })
    }

    fn grow(self, model: &ModelInfo) -> Load {
        let spans = self.spans.unpack();
        let rows = tensor_rows(model, &spans);
        let cost = cost_model(&rows, self.result_wall_ns, &self.repeats_ns);
        let points = rows.iter().map(|row| (row.bytes, row.busy_ns())).collect();
        let shown = shows_timeline(&self.load.engine);
        Load { cost, points, spans: if shown { spans } else { Vec::new() }, ..self.load }
    }
}

impl Seeds {
    /// The loads of a state; `None` while it has no model.
    pub(crate) fn of(name: &str, state: &State) -> Option<Self> {
        let seeds = row_groups(state).iter().flat_map(|h| &h.rows).filter_map(Seed::of).collect();
        Some(Self { name: name.to_owned(), model: state.model.clone()?, seeds })
    }

    /// Spans and tensors to look through.
    pub(crate) fn weight(&self) -> usize {
        self.seeds.iter().map(|seed| seed.spans.len() + self.model.tensors.len()).sum()
    }

    /// What they tell; `None` where nothing was loaded.
    pub(crate) fn grow(self) -> Option<Told> {
        let loads: Vec<Load> = self.seeds.into_iter().map(|seed| seed.grow(&self.model)).collect();
        (!loads.is_empty()).then(|| Told {
            model: self.name,
            tensors: self.model.tensors.len() as u64,
            bytes: self.model.tensor_bytes(),
            loads,
        })
    }
}

impl Load {
    /// How many spans of a phase there are.
    pub(crate) fn count(&self, phase: Phase) -> u64 {
        self.spans.iter().filter(|s| s.phase == phase).count() as u64
    }

    /// Time that moved no byte, on all slots together.
    pub(crate) fn overhead_ns(&self) -> u64 {
        self.phases.overhead_ns()
    }
}

impl Told {
    /// What a state tells of its model; `None` while it tells nothing.
    pub(crate) fn of(name: &str, state: &State) -> Option<Self> {
        Seeds::of(name, state)?.grow()
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

    /// The size from which a tensor costs as much by reads of its own with cuFile as by mmap.
    pub(crate) fn even_with_mmap(&self) -> Option<u64> {
        let cost = |engine| self.load(engine)?.cost.as_ref();
        // Beyond what was measured it is a guess.
        crossover(cost(&Engine::GdsPerTensor)?, cost(&Engine::Mmap)?).filter(|c| !c.extrapolated).map(|c| c.bytes)
    }
}

/// The lesson's material.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    pub(crate) small: Told,
    pub(crate) large: Told,
}

impl Lesson {
    /// Reads the recordings inside the program; takes a good part of a second.
    pub(crate) fn load() -> Result<Self, String> {
        let told = |shipped: shipped::Shipped| {
            // The cost of a tensor is fitted for the two ways that the lesson holds against each other.
            let with_timeline = |engine: &Engine| shows_timeline(engine) || *engine == Engine::Mmap;
            let told = shipped.tell(with_timeline, |state| Told::of(shipped.model, state));
            let none = || format!("{} holds no load that ended well", shipped.name);
            told.map_err(|error| error.to_string())?.ok_or_else(none)
        };
        Ok(Self { small: told(shipped::SMALL)?, large: told(shipped::LARGE)? })
    }
}

/// The simulation: a model read tensor by tensor, as the sliders say. It is arithmetic, not a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Simulation {
    /// Size of every tensor, as an index into [`Self::SIZES`].
    pub(crate) size: usize,
    /// Cost of a tensor before its first byte, as an index into [`Self::COSTS`].
    pub(crate) cost: usize,
}

impl Default for Simulation {
    fn default() -> Self {
        // About Qwen3-0.6B on the H200 of the recordings.
        Self { size: 4, cost: 5 }
    }
}

impl Simulation {
    /// Sizes of a tensor, in bytes.
    pub(crate) const SIZES: [u64; 9] =
        [64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 42 << 20, 128 << 20, 512 << 20];
    /// Costs of a tensor, in nanoseconds.
    pub(crate) const COSTS: [u64; 9] = [0, 20_000, 50_000, 100_000, 300_000, 800_000, 1_500_000, 2_700_000, 5_000_000];

    /// The size of a tensor.
    pub(crate) fn size_bytes(self) -> u64 {
        Self::SIZES[self.size.min(Self::SIZES.len() - 1)]
    }

    /// The cost of a tensor.
    pub(crate) fn cost_ns(self) -> u64 {
        Self::COSTS[self.cost.min(Self::COSTS.len() - 1)]
    }

    /// Time to load `bytes` one tensor after another on `slots` slots that together move `bytes_per_s`.
    pub(crate) fn wall_ns(self, bytes: u64, bytes_per_s: f64, slots: u64) -> f64 {
        let tensors = bytes.div_ceil(self.size_bytes().max(1)) as f64;
        tensors * self.cost_ns() as f64 / slots.max(1) as f64 + bytes as f64 * 1e9 / bytes_per_s.max(1.0)
    }

    /// Share of that time that moves no byte.
    pub(crate) fn overhead(self, bytes: u64, bytes_per_s: f64, slots: u64) -> f64 {
        let all = self.wall_ns(bytes, bytes_per_s, slots);
        1.0 - bytes as f64 * 1e9 / bytes_per_s.max(1.0) / all.max(1.0)
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
        let share = |told: &Told| {
            let load = told.load(&Engine::GdsPerTensor).unwrap();
            load.overhead_ns() as f64 / load.phases.total_ns() as f64
        };
        assert!(share(&lesson.small) > share(&lesson.large), "small tensors pay a larger share");
        assert!(lesson.large.mean_bytes() > 5 * lesson.small.mean_bytes());
    }

    #[test]
    fn the_simulation_pays_each_tensor_once_a_slot() {
        let free = Simulation { size: 4, cost: 0 };
        assert!((free.wall_ns(1_000_000_000, 1e9, 1) - 1e9).abs() < 1.0);
        let paid = Simulation { size: 2, cost: 3 };
        let tensors = 1_000_000_000_u64.div_ceil(1 << 20) as f64;
        assert!((paid.wall_ns(1_000_000_000, 1e9, 1) - 1e9 - tensors * 100_000.0).abs() < 1.0);
        assert!(paid.overhead(1_000_000_000, 1e9, 1) > 0.08 && free.overhead(1_000_000_000, 1e9, 4).abs() < 1e-9);
    }
}
