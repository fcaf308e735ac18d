//! What all forms of the report share: the state, and what the analysis makes of it, worked out once.

use super::Timings;
use crate::analysis::{
    Advice, Comparison, CostModel, Crossover, Prediction, RunFacts, Shape, TensorRow, advice, compare, cost_model,
    crossover, of_median_time, predict, tensor_rows, timing,
};
use crate::domain::{CacheState, Engine, ModelInfo, RunResult};
use crate::session::{Lane, State};

/// A lane that ran, with its tensors.
pub(super) struct LaneReport<'a> {
    pub(super) lane: &'a Lane,
    /// Rows of the tensors that were measured; empty where there are no spans or the model is not the one in the state.
    pub(super) rows: Vec<TensorRow>,
    pub(super) cost: Option<CostModel>,
    /// Whether its reads are blocks that hold several tensors, whose time is shared by bytes.
    pub(super) in_blocks: bool,
}

impl LaneReport<'_> {
    /// Whether another lane did the same: a repeat of it, alone or beside as much.
    fn is_repeat_of(&self, other: &Self) -> bool {
        let run = |l: &Self| l.good().map(|r| (r.model.clone(), r.target.clone()));
        let part = |l: &Self| l.lane.share.as_ref().map(|s| (s.group.is_some(), s.label(&l.lane.target)));
        (&self.lane.engine, self.lane.cache, part(self)) == (&other.lane.engine, other.lane.cache, part(other))
            && run(self) == run(other)
    }

    /// The result of a run that went well.
    pub(super) fn good(&self) -> Option<&RunResult> {
        self.lane.result.as_deref().filter(|r| r.error.is_none() && r.verified != Some(false))
    }

    /// Why the run failed, in a sentence.
    pub(super) fn error(&self) -> Option<String> {
        self.lane.error()
    }
}

/// Where two engines cost the same.
pub(super) struct Crossing<'a> {
    pub(super) first: &'a Engine,
    pub(super) second: &'a Engine,
    pub(super) cache: CacheState,
    /// Of which load, where there are several.
    pub(super) which: Option<String>,
    pub(super) crossover: Crossover,
}

/// What the parts of the runs say of the model that they were taken from, beside what was measured.
pub(super) struct Check {
    pub(super) engine: Engine,
    pub(super) cache: CacheState,
    /// Name of the model that was loaded.
    pub(super) model: String,
    pub(super) told: Prediction,
    pub(super) measured_ns: u64,
}

/// The report before it has a form.
pub(super) struct Document<'a> {
    pub(super) state: &'a State,
    /// Lanes that ended, in order.
    pub(super) lanes: Vec<LaneReport<'a>>,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) advice: Vec<Advice>,
}

impl<'a> Document<'a> {
    /// The colours of the session's lanes.
    pub(super) fn inks(&self) -> crate::domain::LaneInks {
        crate::domain::LaneInks::of(self.state.lanes.iter().map(|lane| &lane.engine))
    }

    pub(super) fn new(state: &'a State) -> Self {
        let lanes: Vec<LaneReport<'a>> =
            state.lanes.iter().filter(|l| l.ended_ns.is_some()).map(|lane| lane_report(state, lane)).collect();
        let runs = state.runs();
        let comparisons = compare(&runs.iter().collect::<Vec<_>>());
        // One lane speaks for its group, and for one that ran alone too that one: beside others it took longer by what they cost each other.
        let first_of_group = |l: &&LaneReport<'_>| {
            let group = l.lane.group();
            let alike = |o: &LaneReport<'_>| {
                let model = |l: &LaneReport<'_>| l.good().map(|r| r.model.clone());
                o.lane.group().is_none()
                    && (&o.lane.engine, o.lane.cache) == (&l.lane.engine, l.lane.cache)
                    && model(o) == model(l)
            };
            group.is_none()
                || lanes.iter().find(|o| o.lane.group() == group).is_some_and(|o| o.lane.id == l.lane.id)
                    && !lanes.iter().any(alike)
        };
        let facts: Vec<RunFacts<'_>> = lanes
            .iter()
            .filter(first_of_group)
            .filter_map(|l| Some(RunFacts::new(l.good()?, &l.lane.spans.unpack(), l.rows.len() as u64, l.cost.clone())))
            .collect();
        let advice = advice(&facts, &comparisons);
        Self { state, lanes, comparisons, advice }
    }

    /// The advice that is told beside the list of crossings.
    pub(super) fn lessons(&self) -> impl Iterator<Item = &Advice> {
        self.advice.iter().filter(|advice| !advice.crossing)
    }

    /// Of each engine, model and cache state the good run with the median time that has a cost model.
    pub(super) fn costs(&self) -> Vec<(&LaneReport<'a>, &CostModel)> {
        let costly = self.typical(|l| l.cost.is_some());
        costly.into_iter().filter_map(|lane| Some((lane, lane.cost.as_ref()?))).collect()
    }

    /// What tells a lane from others of its engine and cache state: its part or its model, where there are several.
    pub(super) fn which(&self, lane: &LaneReport<'a>) -> Option<String> {
        let model = &lane.good()?.model;
        match &lane.lane.share {
            Some(share) if share.group.is_some() && share.part.is_none() => {
                Some(format!("{}, beside others", share.label(&lane.lane.target)))
            }
            Some(share) => Some(share.label(&lane.lane.target)),
            None => self.lanes.iter().filter_map(LaneReport::good).any(|r| r.model != *model).then(|| model.clone()),
        }
    }

    /// The good run that speaks for an engine of a comparison: the one with the median time.
    pub(super) fn run_of(&self, comparison: &Comparison, engine: &Engine) -> Option<&RunResult> {
        of_median_time(self.runs_of(comparison, engine), |run| run.wall_ns)
    }

    /// The good runs of an engine of a comparison. What ran beside others is no run of it.
    pub(super) fn runs_of(&self, comparison: &Comparison, engine: &Engine) -> Vec<&RunResult> {
        let of_it = |l: &&LaneReport<'a>| {
            l.lane.engine == *engine && l.lane.cache == comparison.cache && l.lane.group().is_none()
        };
        let like = |r: &&RunResult| (&r.model, &r.target) == (&comparison.model, &comparison.target);
        self.lanes.iter().filter(of_it).filter_map(LaneReport::good).filter(like).collect()
    }

    /// One good run for each kind of run, in order of their first: the one with the median time.
    pub(super) fn typical(&self, wanted: impl Fn(&LaneReport<'a>) -> bool) -> Vec<&LaneReport<'a>> {
        let mut kinds: Vec<Vec<&LaneReport<'a>>> = Vec::new();
        for lane in self.lanes.iter().filter(|lane| lane.good().is_some() && wanted(lane)) {
            match kinds.iter_mut().find(|kind| kind.first().is_some_and(|first| first.is_repeat_of(lane))) {
                Some(repeats) => repeats.push(lane),
                None => kinds.push(vec![lane]),
            }
        }
        let wall_ns = |lane: &&LaneReport<'_>| lane.good().map_or(0, |r| r.wall_ns);
        kinds.into_iter().filter_map(|repeats| of_median_time(repeats, wall_ns)).collect()
    }

    pub(super) fn crossings(&self) -> Vec<Crossing<'_>> {
        let costs = self.costs();
        let mut crossings = Vec::new();
        for (i, (a, cost_a)) in costs.iter().enumerate() {
            if a.lane.engine.direction().is_some() {
                continue;
            }
            // Another model's or target's costs say nothing of this one's.
            let same = |b: &LaneReport<'_>| {
                let on = |l: &LaneReport<'_>| l.good().map(|r| (r.model.clone(), r.target.clone()));
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

    /// The good runs of each engine and cache state on each target, taken apart.
    pub(super) fn timings(&self) -> Vec<Timings> {
        let mut all: Vec<Timings> = Vec::new();
        let cpus = self.state.machine.as_ref().map(|m| m.cpus).filter(|cpus| *cpus > 0);
        for lane in &self.lanes {
            // A part of a model says nothing of a whole one, and a load beside others nothing of one alone.
            let whole = lane.lane.share.as_ref().is_none_or(|share| share.part.is_none() && share.group.is_none());
            let Some(run) = lane.good().filter(|_| whole) else { continue };
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
                    knobs: run.knobs.clone(),
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

    pub(super) fn checks_of_the_cost_model(&self) -> Vec<Check> {
        let shape = |timings: &Timings| {
            let lane = self.lanes.iter().find(|l| l.good().is_some_and(|r| r.model == timings.model))?;
            let model = self.state.model_of(lane.lane)?;
            Some(Shape { sizes_bytes: model.tensors.iter().map(|t| t.bytes).collect(), ..Shape::default() })
        };
        let median = |timings: &Timings| {
            let standing = |c: &Comparison| c.standings.iter().find(|s| s.engine == timings.engine).map(|s| s.wall_ns);
            let same =
                |c: &&Comparison| c.cache == timings.cache && c.model == timings.model && c.target == timings.target;
            self.comparisons.iter().filter(same).find_map(standing)
        };
        self.timings()
            .into_iter()
            .filter_map(|timings| {
                let (told, measured_ns) = (predict(&timings.runs, &shape(&timings)?)?, median(&timings)?);
                let Timings { engine, cache, model, .. } = timings;
                Some(Check { engine, cache, model, told, measured_ns })
            })
            .collect()
    }
}

fn lane_report<'a>(state: &'a State, lane: &'a Lane) -> LaneReport<'a> {
    // Spans of a lane that loaded another model than is known would be laid against the wrong tensors.
    let model = state.model_of(lane).filter(|m| {
        let known = |r: &RunResult| r.model == m.name && r.bytes == state.bytes_of(lane);
        lane.result.as_deref().is_some_and(known) && !lane.spans.is_empty()
    });
    let spans = lane.spans.unpack();
    let mut rows = model.map(|m| tensor_rows(m, &spans)).unwrap_or_default();
    let in_blocks = spans.iter().any(|span| span.bytes > 0 && span.tensor.is_none());
    rows.retain(|r| r.start_ns.is_some());
    let repeats: Vec<u64> = state
        .lanes
        .iter()
        .filter(|l| l.engine == lane.engine && l.cache == lane.cache && alike(l, lane))
        .filter_map(|l| l.result.as_deref().filter(|r| r.error.is_none()).map(|r| r.wall_ns))
        .collect();
    // A lane beside others, or with a part only, tells nothing of what a whole model costs alone.
    let alone = lane.result.as_deref().filter(|r| r.error.is_none() && lane.group().is_none());
    let cost = alone.and_then(|r| cost_model(&rows, r.wall_ns, &repeats));
    LaneReport { lane, rows, cost, in_blocks }
}

/// Whether two lanes loaded the same onto the same, alone or beside as much.
fn alike(a: &Lane, b: &Lane) -> bool {
    let model = |lane: &Lane| lane.result.as_deref().map(|run| run.model.clone());
    a.target == b.target && a.share == b.share && a.group().is_some() == b.group().is_some() && model(a) == model(b)
}

/// Bytes of all tensors; saturates, since a recording from a stranger may claim any sizes.
pub(super) fn model_bytes(model: &ModelInfo) -> u64 {
    model.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes))
}
