//! Values that are derived from spans. They are computed once when the spans of a run arrive, and not in every frame.

use super::jobs::lane::{LaneFacts, LaneJob};
use super::jobs::tensor_rows::TensorRows;
use crate::analysis::{Advice, CostModel, LandingCurve, RunFacts, advice, compare};
use crate::core::{LaneId, RunResult};
use crate::present::series::progress_curve;
use crate::present::{EngineRow, row_groups};
use crate::session::{Lane, LaneStatus, State};
use std::collections::{BTreeMap, BTreeSet};

/// The derived values by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneStats {
    lanes: BTreeMap<LaneId, Known>,
    advice: Vec<Advice>,
    /// Number of runs that the advice does not include yet.
    news: usize,
    /// The summary of the runs when they were last examined.
    looked_at: Option<Glance>,
}

/// A summary that shows quickly whether runs or spans have changed: number of runs, ended runs and spans, and the
/// running run.
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

/// The derived values of a run. Only runs that are drawn have a curve, because a race with a thousand runs draws only
/// one per engine.
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
    /// The jobs for ended runs whose values are missing. Curves that are no longer drawn are removed.
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

    /// Stores the values of a run. The rows for the Tensors screen are returned.
    pub(crate) fn take(&mut self, facts: LaneFacts) -> Option<TensorRows> {
        let LaneFacts { lane, spans, curve, cost, registrations, first_reads_ns, loaded, tensors } = facts;
        let before =
            self.lanes.insert(lane, Known { spans, curve: Some(curve), cost, registrations, first_reads_ns, loaded });
        self.news += usize::from(before.is_none_or(|known| known.spans != spans));
        tensors
    }

    /// Computes the advice if there are new values. The advice compares all runs. So during a race it is computed
    /// only after the number of runs has grown by an eighth; otherwise a race with thousands of short runs would
    /// compare them in every frame.
    pub(crate) fn conclude(&mut self, state: &State) {
        let enough = self.news * 8 >= self.lanes.len() || state.running_lane().is_none();
        if self.news > 0 && enough {
            self.news = 0;
            self.learn(state);
        }
    }

    /// The shortest time in seconds for which the bandwidth of a run is meaningful; 0 if its spans are unknown.
    pub(crate) fn grain_s(&self, lane: &Lane) -> f64 {
        self.curve(lane).map_or(0.0, |curve| curve.grain_s)
    }

    fn curve(&self, lane: &Lane) -> Option<&LandingCurve> {
        // After a seek to an earlier time, a run may have fewer spans than its curve was computed from.
        let known = self.lanes.get(&lane.id).filter(|known| known.spans == lane.spans.len())?;
        known.curve.as_ref()
    }

    /// The advice from the ended runs, with the largest overhead first.
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

    /// The bandwidth of a run in bytes per second over the seconds since its start. Each point is the mean over at
    /// least `step_s` seconds. It is computed from the spans of an ended run, or else from its progress.
    pub(crate) fn bandwidth(&self, lane: &Lane, step_s: f64) -> Vec<(f64, f64)> {
        match self.curve(lane) {
            Some(curve) => curve.rates(step_s),
            None => progress_curve(lane).rates(step_s),
        }
    }
}
