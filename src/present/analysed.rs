//! The analysis of a session, which is computed once for all report formats.

use super::comparisons::{Comparison, comparisons};
use crate::analysis::{
    Advice, ComparisonGroup, CostModel, Crossover, Prediction, RunFacts, Shape, TensorRow, Timings, advice, cost_model,
    crossover, of_median_time, predict, tensor_rows, timing,
};
use crate::core::{CacheState, Engine, LaneShare, ModelInfo, RunResult, Target};
use crate::session::{Lane, State};
use std::collections::HashMap;

/// A completed run with its tensors.
#[derive(Debug)]
pub struct AnalysedRun<'a> {
    /// The run.
    pub lane: &'a Lane,
    /// The measured tensors. Empty if there are no spans, or if the run loaded another model than the state contains.
    pub rows: Vec<TensorRow>,
    /// Its cost model, if one was fitted.
    pub cost: Option<CostModel>,
    /// Whether its reads are blocks with several tensors. Then the time of a block is divided among its tensors by
    /// bytes.
    pub in_blocks: bool,
}

impl AnalysedRun<'_> {
    /// Whether another run is a repeat of this run. Both ran alone, or both ran together with the same other runs.
    fn is_repeat_of(&self, other: &Self) -> bool {
        fn run<'a>(l: &'a AnalysedRun<'_>) -> Option<(&'a str, &'a str)> {
            l.good().map(|r| (r.model.as_str(), r.target.as_str()))
        }
        let part = |l: &Self| l.lane.share.as_ref().map(|s| (s.group.is_some(), s.label(&l.lane.target)));
        (&self.lane.engine, self.lane.cache, part(self)) == (&other.lane.engine, other.lane.cache, part(other))
            && run(self) == run(other)
    }

    /// The result, if the run was successful.
    #[must_use]
    pub fn good(&self) -> Option<&RunResult> {
        self.lane.result.as_deref().filter(|r| r.error.is_none() && r.verified != Some(false))
    }

    /// The result, if the run was successful and loaded a complete model alone. A run of a part, or a run together with
    /// others, is not a sample of a complete load.
    fn complete(&self) -> Option<&RunResult> {
        let complete = self.lane.share.as_ref().is_none_or(|share| share.part.is_none() && share.group.is_none());
        self.good().filter(|_| complete)
    }

    /// The reason why the run failed, as a sentence; `None` if it was successful.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.lane.error()
    }
}

/// The tensor size at which two engines take the same time.
#[derive(Debug)]
pub struct Crossing<'a> {
    /// One engine.
    pub first: &'a Engine,
    /// The other.
    pub second: &'a Engine,
    /// Cache state.
    pub cache: CacheState,
    /// The part or model that was loaded, if there are several.
    pub which: Option<String>,
    /// The tensor size at the crossover.
    pub crossover: Crossover,
}

/// A prediction for the same model from which it was computed, with the measured time.
#[derive(Debug)]
pub struct CheckedPrediction {
    /// The engine.
    pub engine: Engine,
    /// Cache state.
    pub cache: CacheState,
    /// The model's name.
    pub model: String,
    /// The prediction.
    pub predicted: Prediction,
    /// The measured median time in nanoseconds.
    pub measured_ns: u64,
}

/// The runs of a session with their analysis.
#[derive(Debug)]
pub struct SessionAnalysis<'a> {
    /// The session.
    pub state: &'a State,
    /// The completed runs, in order.
    pub runs: Vec<AnalysedRun<'a>>,
    /// The comparisons of engines.
    pub comparisons: Vec<Comparison<'a>>,
    /// The advice, with the largest possible gain first.
    pub advice: Vec<Advice>,
}

impl<'a> SessionAnalysis<'a> {
    /// Analyses a session.
    #[must_use]
    pub fn new(state: &'a State) -> Self {
        let mut repeats: Repeats<'_> = HashMap::new();
        for lane in &state.lanes {
            if let Some(run) = lane.result.as_deref().filter(|run| run.error.is_none()) {
                repeats.entry(kind(lane)).or_default().push(run.wall_ns);
            }
        }
        let runs: Vec<AnalysedRun<'a>> =
            state.lanes.iter().filter(|l| l.ended_ns.is_some()).map(|lane| analysed(state, lane, &repeats)).collect();
        let comparisons = comparisons(state);
        // Only one run of each group is used, and none if the same load also ran alone. The reason is that runs of a
        // group slow each other.
        let first_of_group = |l: &&AnalysedRun<'_>| {
            let group = l.lane.group();
            let alike = |o: &AnalysedRun<'_>| {
                let model = |l: &AnalysedRun<'_>| l.good().map(|r| r.model.clone());
                o.lane.group().is_none()
                    && (&o.lane.engine, o.lane.cache) == (&l.lane.engine, l.lane.cache)
                    && model(o) == model(l)
            };
            group.is_none()
                || runs.iter().find(|o| o.lane.group() == group).is_some_and(|o| o.lane.id == l.lane.id)
                    && !runs.iter().any(alike)
        };
        let facts: Vec<RunFacts<'_>> = runs
            .iter()
            .filter(first_of_group)
            .filter_map(|l| Some(RunFacts::new(l.good()?, &l.lane.spans.unpack(), l.rows.len() as u64, l.cost.clone())))
            .collect();
        let groups: Vec<ComparisonGroup> = comparisons.iter().map(|comparison| comparison.group.clone()).collect();
        let advice = advice(&facts, &groups);
        Self { state, runs, comparisons, advice }
    }

    /// The advice without crossovers. Reports list crossovers with the fitted lines.
    pub fn lessons(&self) -> impl Iterator<Item = &Advice> {
        self.advice.iter().filter(|advice| !advice.is_crossover())
    }

    /// For each engine, model and cache state: the successful run with the median time and its cost model.
    #[must_use]
    pub fn costs(&self) -> Vec<(&AnalysedRun<'a>, &CostModel)> {
        let costly = self.typical(|l| l.cost.is_some());
        costly.into_iter().filter_map(|lane| Some((lane, lane.cost.as_ref()?))).collect()
    }

    /// The part or the model that a run loaded, if there are several for its engine and cache state.
    #[must_use]
    pub fn which(&self, lane: &AnalysedRun<'a>) -> Option<String> {
        let model = &lane.good()?.model;
        match &lane.lane.share {
            Some(share) if share.group.is_some() && share.part.is_none() => {
                Some(format!("{}, together", share.label(&lane.lane.target)))
            }
            Some(share) => Some(share.label(&lane.lane.target)),
            None => self.runs.iter().filter_map(AnalysedRun::good).any(|r| r.model != *model).then(|| model.clone()),
        }
    }

    /// For each set of repeats: the successful run with the median time. The order is that of the first runs.
    #[must_use]
    pub fn typical(&self, wanted: impl Fn(&AnalysedRun<'a>) -> bool) -> Vec<&AnalysedRun<'a>> {
        let mut kinds: Vec<Vec<&AnalysedRun<'a>>> = Vec::new();
        for lane in self.runs.iter().filter(|lane| lane.good().is_some() && wanted(lane)) {
            match kinds.iter_mut().find(|kind| kind.first().is_some_and(|first| first.is_repeat_of(lane))) {
                Some(repeats) => repeats.push(lane),
                None => kinds.push(vec![lane]),
            }
        }
        let wall_ns = |lane: &&AnalysedRun<'_>| lane.good().map_or(0, |r| r.wall_ns);
        kinds.into_iter().filter_map(|repeats| of_median_time(repeats, wall_ns)).collect()
    }

    /// The tensor sizes at which two engines take the same time.
    #[must_use]
    pub fn crossings(&self) -> Vec<Crossing<'_>> {
        let costs = self.costs();
        let mut crossings = Vec::new();
        for (i, (a, cost_a)) in costs.iter().enumerate() {
            if a.lane.engine.direction().is_some() {
                continue;
            }
            // The overhead of another model or target does not apply to this run.
            let same = |b: &AnalysedRun<'_>| {
                let on = |l: &AnalysedRun<'_>| l.good().map(|r| (r.model.clone(), r.target.clone()));
                b.lane.cache == a.lane.cache && on(b) == on(a)
            };
            for (b, cost_b) in costs.iter().skip(i + 1).filter(|(b, _)| same(b)) {
                if let Some(crossover) = crossover(cost_a, cost_b) {
                    let (first, second, which) = (&a.lane.engine, &b.lane.engine, self.which(a));
                    crossings.push(Crossing { first, second, cache: a.lane.cache, which, crossover });
                }
            }
        }
        crossings
    }

    /// The successful runs of complete models that should be cold and were not. [`Self::timings`] leaves them out.
    pub fn not_cold(&self) -> impl Iterator<Item = &RunResult> {
        self.runs.iter().filter_map(AnalysedRun::complete).filter(|run| run.cached_before().is_some())
    }

    /// The times of the successful runs for each engine, cache state and target. Runs that should be cold and were not
    /// are left out.
    #[must_use]
    pub fn timings(&self) -> Vec<Timings> {
        let mut all: Vec<Timings> = Vec::new();
        let cpus = self.state.machine.as_ref().map(|m| m.cpus).filter(|cpus| *cpus > 0);
        for lane in &self.runs {
            let Some(run) = lane.complete().filter(|run| run.cached_before().is_none()) else { continue };
            let Some(timing) = timing(&lane.rows, &lane.lane.spans.unpack(), run) else { continue };
            let same = |t: &&mut Timings| {
                t.engine == run.engine && t.cache == run.cache && t.model == run.model && t.target == run.target
            };
            match all.iter_mut().find(same) {
                Some(known) => known.runs.push(timing),
                None => all.push(Timings {
                    engine: run.engine.clone(),
                    cache: run.cache,
                    model: run.model.clone(),
                    target: run.target.clone(),
                    cpus,
                    settings: run.settings.clone(),
                    ceiling_bytes_per_s: self
                        .state
                        .ceiling(run.cache, &lane.lane.target, &run.model)
                        .map(|ceiling| ceiling.bytes_per_s),
                    runs: vec![timing],
                }),
            }
        }
        all
    }

    /// The predictions for the loaded models, with the measured times.
    #[must_use]
    pub fn predictions(&self) -> Vec<CheckedPrediction> {
        let shape = |timings: &Timings| {
            let lane = self.runs.iter().find(|l| l.good().is_some_and(|r| r.model == timings.model))?;
            let model = self.state.model_of(lane.lane)?;
            Some(Shape { sizes_bytes: model.tensors.iter().map(|t| t.bytes).collect(), ..Shape::default() })
        };
        let median = |timings: &Timings| {
            let engine = |g: &ComparisonGroup| g.engines.iter().find(|e| e.engine == timings.engine).map(|e| e.wall_ns);
            let same = |g: &&ComparisonGroup| {
                g.cache == timings.cache && g.model == timings.model && g.target == timings.target
            };
            self.comparisons.iter().map(|comparison| &comparison.group).filter(same).find_map(engine)
        };
        self.timings()
            .into_iter()
            .filter_map(|timings| {
                let (predicted, measured_ns) = (predict(&timings.runs, &shape(&timings)?)?, median(&timings)?);
                let Timings { engine, cache, model, .. } = timings;
                Some(CheckedPrediction { engine, cache, model, predicted, measured_ns })
            })
            .collect()
    }
}

fn analysed<'a>(state: &'a State, lane: &'a Lane, repeats: &Repeats<'_>) -> AnalysedRun<'a> {
    // If the run loaded another model, its spans would be matched with the wrong tensors.
    let model = state.model_of(lane).filter(|m| {
        let known = |r: &RunResult| r.model == m.name && r.bytes == state.bytes_of(lane);
        lane.result.as_deref().is_some_and(known) && !lane.spans.is_empty()
    });
    let spans = lane.spans.unpack();
    let mut rows = model.map(|m| tensor_rows(m, &spans)).unwrap_or_default();
    let in_blocks = spans.iter().any(|span| span.bytes > 0 && span.tensor.is_none());
    rows.retain(|r| r.start_ns.is_some());
    // A run of a part, or a run together with others, is not a sample of a complete load. Without rows there is no
    // model.
    let alone = lane.result.as_deref().filter(|r| r.error.is_none() && lane.group().is_none() && !rows.is_empty());
    let cost = alone.and_then(|r| cost_model(&rows, r.wall_ns, repeats.get(&kind(lane)).map_or(&[], Vec::as_slice)));
    AnalysedRun { lane, rows, cost, in_blocks }
}

/// The properties that repeats share: the engine, the cache state, the target, the part and the model. All ran alone, or
/// all ran together with others.
type Kind<'a> = (&'a Engine, CacheState, &'a Target, Option<&'a LaneShare>, bool, Option<&'a str>);

/// The times of all successful repeats. A recording may contain thousands of runs.
type Repeats<'a> = HashMap<Kind<'a>, Vec<u64>>;

fn kind(lane: &Lane) -> Kind<'_> {
    let model = lane.result.as_deref().map(|run| run.model.as_str());
    (&lane.engine, lane.cache, &lane.target, lane.share.as_ref(), lane.group().is_some(), model)
}

/// Bytes of all tensors. The sum saturates, because an untrusted recording can contain any sizes.
#[must_use]
pub fn model_bytes(model: &ModelInfo) -> u64 {
    model.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes))
}
