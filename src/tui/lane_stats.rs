//! Values derived from spans: computed once when a lane's spans arrive, not in every frame.

use super::jobs::lane::{LaneFacts, LaneJob};
use super::jobs::tensor_rows::TensorRows;
use crate::analysis::{Advice, CostModel, LandingCurve, RunFacts, advice, compare};
use crate::core::{LaneId, RunResult};
use crate::present::series::progress_curve;
use crate::present::{EngineRow, row_groups};
use crate::session::{Lane, LaneStatus, State};
use std::collections::{BTreeMap, BTreeSet};

/// Results by lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneStats {
    lanes: BTreeMap<LaneId, Known>,
    advice: Vec<Advice>,
    /// Lanes that the advice does not know yet.
    news: usize,
    /// A summary of the lanes when they were last examined.
    looked_at: Option<Glance>,
}

/// Shows quickly whether lanes or spans changed: lanes, ended lanes, all spans, the running lane.
type Glance = (usize, usize, usize, Option<LaneId>);

fn glance(state: &State) -> Glance {
    let mut glance = (state.lanes.len(), 0, 0, None);
    for lane in &state.lanes {
        glance.1 += usize::from(lane.ended_ns.is_some());
        glance.2 += lane.spans.len();
        if lane.is_running() {
            glance.3 = glance.3.or(Some(lane.id));
        }
    }
    glance
}

/// The derived values of a lane. Only lanes that are drawn keep a curve: a race of a thousand runs draws one for each
/// engine.
#[derive(Clone, Debug)]
struct Known {
    spans: usize,
    curve: Option<LandingCurve>,
    cost: Option<CostModel>,
    registrations: u64,
    first_reads_ns: u64,
    loaded: u64,
}

impl LaneStats {
    /// The jobs for finished lanes whose values are missing. Curves that are no longer drawn are dropped.
    pub(crate) fn wants(&mut self, state: &State) -> Vec<LaneJob> {
        let now = glance(state);
        if self.looked_at == Some(now) {
            return Vec::new();
        }
        let groups = row_groups(state);
        let drawn: BTreeSet<LaneId> =
            groups.iter().flat_map(|h| &h.rows).filter_map(EngineRow::shown).map(|lane| lane.id).collect();
        let mut wanted = Vec::new();
        for lane in &state.lanes {
            if lane.ended_ns.is_none() || lane.spans.is_empty() {
                continue;
            }
            let is_drawn = drawn.contains(&lane.id);
            match self.lanes.get_mut(&lane.id) {
                Some(known) if known.spans == lane.spans.len() && (known.curve.is_some() || !is_drawn) => {
                    if !is_drawn {
                        known.curve = None;
                    }
                }
                _ => wanted.push(LaneJob::of(state, lane, false)),
            }
        }
        // A job is requested again until its result has arrived.
        self.looked_at = wanted.is_empty().then_some(now);
        wanted
    }

    /// Takes the values of a lane; the rows for the Tensors screen are handed on.
    pub(crate) fn take(&mut self, facts: LaneFacts) -> Option<TensorRows> {
        let LaneFacts { lane, spans, curve, cost, registrations, first_reads_ns, loaded, tensors } = facts;
        let before =
            self.lanes.insert(lane, Known { spans, curve: Some(curve), cost, registrations, first_reads_ns, loaded });
        self.news += usize::from(before.is_none_or(|known| known.spans != spans));
        tensors
    }

    /// Derives the advice if there are new values. It compares all runs, so during a race it waits until an eighth of
    /// them is new: a race of thousands of short runs would otherwise compare thousands in every frame.
    pub(crate) fn conclude(&mut self, state: &State) {
        let enough = self.news * 8 >= self.lanes.len() || state.running_lane().is_none();
        if self.news > 0 && enough {
            self.news = 0;
            self.learn(state);
        }
    }

    /// The shortest time over which the bandwidth of a lane means something; 0 where its spans are not known.
    pub(crate) fn grain_s(&self, lane: &Lane) -> f64 {
        self.curve(lane).map_or(0.0, |curve| curve.grain_s)
    }

    fn curve(&self, lane: &Lane) -> Option<&LandingCurve> {
        // A lane of a replay that went back may have fewer spans than the curve was made of.
        let known = self.lanes.get(&lane.id).filter(|known| known.spans == lane.spans.len())?;
        known.curve.as_ref()
    }

    /// The advice from the finished runs, the largest overhead first.
    pub(crate) fn advice(&self) -> &[Advice] {
        &self.advice
    }

    fn learn(&mut self, state: &State) {
        let done = || state.lanes.iter().filter(|l| l.status == LaneStatus::Done && l.group().is_none());
        let facts: Vec<RunFacts<'_>> = done()
            .filter_map(|lane| {
                let run = lane.result.as_deref()?;
                let Known { cost, registrations, first_reads_ns, loaded, .. } = self.lanes.get(&lane.id)?;
                let (registrations, first_reads_ns) = (*registrations, *first_reads_ns);
                Some(RunFacts { run, registrations, tensors: *loaded, first_reads_ns, cost: cost.clone() })
            })
            .collect();
        let mut results = state.runs();
        results.retain(|r| r.error.is_none());
        self.advice = advice(&facts, &compare(&results.iter().collect::<Vec<&RunResult>>()));
    }

    /// Bytes per second of a lane over the seconds of its clock, each point the mean over `step_s` or more: from its spans once it has
    /// finished, else from its progress.
    pub(crate) fn bandwidth(&self, lane: &Lane, step_s: f64) -> Vec<(f64, f64)> {
        match self.curve(lane) {
            Some(curve) => curve.rates(step_s),
            None => progress_curve(lane).rates(step_s),
        }
    }
}
