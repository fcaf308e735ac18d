//! Values that are derived from the spans of a run: the arrival of its bytes, the overhead of its tensors and, on
//! request, a row for each tensor.

use super::tensor_rows::TensorRows;
use crate::analysis::{CostModel, LandingCurve, RunFacts, cost_model, tensor_rows};
use crate::core::{LaneId, ModelInfo, PackedSpans, RunResult};
use crate::session::{Lane, State};
use std::sync::Arc;

/// The spans of a run, with the data that is needed to analyse them.
#[derive(Clone, Debug)]
pub(crate) struct LaneJob {
    pub(crate) lane: LaneId,
    spans: PackedSpans,
    model: Option<Arc<ModelInfo>>,
    result: Option<Box<RunResult>>,
    /// Whether no other run loaded at the same time, so that its times are not affected by others.
    alone: bool,
    /// Whether a row for each tensor is requested too.
    pub(crate) rows: bool,
}

impl LaneJob {
    pub(crate) fn of(state: &State, lane: &Lane, rows: bool) -> Self {
        Self {
            lane: lane.id,
            spans: lane.spans.clone(),
            model: state.model_of(lane).cloned(),
            result: lane.result.clone(),
            alone: lane.group().is_none(),
            rows,
        }
    }

    /// Amount of work, as the number of spans and tensors.
    pub(crate) fn weight(&self) -> usize {
        self.spans.len() + self.model.as_ref().map_or(0, |m| m.tensors.len())
    }

    /// Number of spans.
    pub(crate) fn span_count(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn run(self) -> LaneFacts {
        let spans = self.spans.unpack();
        let wall = self.result.as_deref().map_or(0, |result| result.wall_ns);
        let rows = self.model.as_ref().map(|model| tensor_rows(model, &spans)).unwrap_or_default();
        let cost = if self.alone { cost_model(&rows, wall, &[wall]) } else { None };
        let tensors = self.model.as_ref().map_or(0, |model| model.tensors.len() as u64);
        let facts = self.result.as_deref().map(|run| RunFacts::new(run, &spans, tensors, None));
        LaneFacts {
            lane: self.lane,
            spans: spans.len(),
            curve: LandingCurve::of_spans(&spans, wall),
            registrations: facts.as_ref().map_or(0, |f| f.registrations),
            first_reads_ns: facts.as_ref().map_or(0, |f| f.first_reads_ns),
            loaded: tensors,
            tensors: self.rows.then(|| TensorRows::new(spans.len(), rows, cost.clone(), wall)),
            cost,
        }
    }
}

/// Values that are derived from the spans of a run.
#[derive(Debug)]
pub(crate) struct LaneFacts {
    pub(crate) lane: LaneId,
    pub(crate) spans: usize,
    pub(crate) curve: LandingCurve,
    pub(crate) cost: Option<CostModel>,
    pub(crate) registrations: u64,
    pub(crate) first_reads_ns: u64,
    /// Number of tensors of its model.
    pub(crate) loaded: u64,
    pub(crate) tensors: Option<TensorRows>,
}
