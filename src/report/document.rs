//! What all forms of the report share: the state, and what the analysis makes of it, worked out once.

use crate::analysis::{
    Advice, Comparison, CostModel, Crossover, Prediction, RunFacts, TensorRow, advice, compare, cost_model, crossover,
    predict, tensor_rows,
};
use crate::domain::{CacheState, Engine, ModelInfo, RunResult};
use crate::session::{Lane, LaneStatus, State};

/// A lane that ran, with its tensors.
pub(super) struct LaneReport<'a> {
    pub(super) lane: &'a Lane,
    /// Rows of the tensors that were measured; empty where there are no spans or the model is not the one in the state.
    pub(super) rows: Vec<TensorRow>,
    pub(super) cost: Option<CostModel>,
}

impl LaneReport<'_> {
    /// The result of a run that went well.
    pub(super) fn good(&self) -> Option<&RunResult> {
        self.lane.result.as_ref().filter(|r| r.error.is_none() && r.verified != Some(false))
    }

    /// Why the run failed, in a sentence.
    pub(super) fn error(&self) -> Option<&str> {
        match &self.lane.status {
            LaneStatus::Failed(why) => Some(why),
            _ => None,
        }
    }
}

/// Where two engines cost the same.
pub(super) struct Crossing<'a> {
    pub(super) first: &'a Engine,
    pub(super) second: &'a Engine,
    pub(super) cache: CacheState,
    pub(super) crossover: Crossover,
}

/// The cost model applied to the model that it was fitted to, beside what was measured.
pub(super) struct Check<'a> {
    pub(super) engine: &'a Engine,
    pub(super) cache: CacheState,
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
    pub(super) fn new(state: &'a State) -> Self {
        let lanes: Vec<LaneReport<'a>> =
            state.lanes.iter().filter(|l| l.ended_ns.is_some()).map(|lane| lane_report(state, lane)).collect();
        let runs: Vec<&RunResult> = lanes.iter().filter_map(|l| l.lane.result.as_ref()).collect();
        let comparisons = compare(&runs);
        let facts: Vec<RunFacts<'_>> = lanes
            .iter()
            // Advice is about loads of models.
            .filter(|l| l.lane.engine.direction().is_none())
            .filter_map(|l| Some(RunFacts::new(l.good()?, &l.lane.spans, l.rows.len() as u64, l.cost.clone())))
            .collect();
        let advice = advice(&facts, &comparisons);
        Self { state, lanes, comparisons, advice }
    }

    /// The first good run of each engine and cache state that has a cost model.
    pub(super) fn costs(&self) -> Vec<(&LaneReport<'a>, &CostModel)> {
        let mut first: Vec<(&LaneReport<'a>, &CostModel)> = Vec::new();
        for lane in &self.lanes {
            let Some(cost) = lane.cost.as_ref().filter(|_| lane.good().is_some()) else { continue };
            if !first.iter().any(|(l, _)| l.lane.engine == lane.lane.engine && l.lane.cache == lane.lane.cache) {
                first.push((lane, cost));
            }
        }
        first
    }

    pub(super) fn crossings(&self) -> Vec<Crossing<'_>> {
        let costs = self.costs();
        let mut crossings = Vec::new();
        for (i, (a, cost_a)) in costs.iter().enumerate() {
            if a.lane.engine.direction().is_some() {
                continue;
            }
            for (b, cost_b) in costs.iter().skip(i + 1).filter(|(b, _)| b.lane.cache == a.lane.cache) {
                if let Some(crossover) = crossover(cost_a, cost_b) {
                    let (first, second) = (&a.lane.engine, &b.lane.engine);
                    crossings.push(Crossing { first, second, cache: a.lane.cache, crossover });
                }
            }
        }
        crossings
    }

    pub(super) fn checks_of_the_cost_model(&self) -> Vec<Check<'_>> {
        let Some(model) = &self.state.model else { return Vec::new() };
        let sizes: Vec<u64> = model.tensors.iter().map(|t| t.bytes).collect();
        let median = |lane: &Lane| {
            let standing = |c: &Comparison| c.standings.iter().find(|s| s.engine == lane.engine).map(|s| s.wall_ns);
            self.comparisons.iter().filter(|c| c.cache == lane.cache && c.model == model.name).find_map(standing)
        };
        self.costs()
            .into_iter()
            .filter_map(|(lane, cost)| {
                Some(Check {
                    engine: &lane.lane.engine,
                    cache: lane.lane.cache,
                    told: predict(cost, &sizes),
                    measured_ns: median(lane.lane)?,
                })
            })
            .collect()
    }
}

fn lane_report<'a>(state: &'a State, lane: &'a Lane) -> LaneReport<'a> {
    // A state holds the newest model; spans of a lane that loaded another would be laid against the wrong tensors.
    let model = state.model.as_deref().filter(|m| {
        lane.result.as_ref().is_some_and(|r| r.model == m.name && r.bytes == model_bytes(m)) && !lane.spans.is_empty()
    });
    let mut rows = model.map(|m| tensor_rows(m, &lane.spans)).unwrap_or_default();
    rows.retain(|r| r.start_ns.is_some());
    let repeats: Vec<u64> = state
        .lanes
        .iter()
        .filter(|l| l.engine == lane.engine && l.cache == lane.cache && l.target == lane.target)
        .filter_map(|l| l.result.as_ref().filter(|r| r.error.is_none()).map(|r| r.wall_ns))
        .collect();
    let cost = lane.result.as_ref().filter(|r| r.error.is_none()).and_then(|r| cost_model(&rows, r.wall_ns, &repeats));
    LaneReport { lane, rows, cost }
}

/// Bytes of all tensors; saturates, since a recording from a stranger may claim any sizes.
pub(super) fn model_bytes(model: &ModelInfo) -> u64 {
    model.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes))
}
