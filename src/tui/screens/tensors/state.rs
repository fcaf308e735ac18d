//! The state of the Tensors screen, with values that are derived from it.

use super::watched_order::WatchedOrder;
use crate::analysis::Crossover;
use crate::core::{LaneId, Span, WatchReport};
use crate::session::State;
use crate::tui::context;
use crate::tui::jobs::names::NameIndex;
use crate::tui::jobs::tensor_rows::{Sort, TensorRows};
use std::collections::BTreeMap;

pub(super) type Ui<'a> = context::Ui<'a, Tensors>;

/// The report of the session's program, if the session watches one.
pub(super) fn watched_report(state: &State) -> Option<&WatchReport> {
    state.watch.as_deref().filter(|_| state.lanes.is_empty())
}

/// The inputs from which an order is computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrderKey {
    pub(super) lane: LaneId,
    pub(super) spans: usize,
    pub(super) rival: Option<LaneId>,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
}

/// One tensor in two runs, with its spans.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detail {
    pub(super) tensor: u32,
    pub(super) lane: LaneId,
    pub(super) spans: usize,
    /// The spans that moved its bytes, in the order of their start.
    pub(crate) reads: Vec<Span>,
}

/// The Tensors screen.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// The index of the selected line in `order`.
    pub(crate) at: usize,
    /// Whether the scatter chart is shown if only one of chart and table fits.
    pub(crate) scatter: bool,
    /// Whether one tensor is shown.
    pub(crate) open: bool,
    /// The number of the run for comparison, which the key increments. After the last run, there is no comparison.
    pub(crate) against: usize,
    /// The shown rows as indices of the model's tensors.
    pub(crate) order: Vec<u32>,
    pub(crate) lane: Option<LaneId>,
    /// The run for comparison, and the tensor size at which both runs take the same time.
    pub(crate) rival: Option<(LaneId, Option<Crossover>)>,
    pub(crate) detail: Option<Detail>,
    /// The inputs from which `order` was computed.
    pub(super) key: Option<OrderKey>,
    pub(super) names: NameIndex,
    pub(super) runs: BTreeMap<LaneId, TensorRows>,
    /// The tensors of a watched program.
    pub(super) watched: WatchedOrder,
}

impl Tensors {
    pub(crate) fn run(&self, lane: LaneId) -> Option<&TensorRows> {
        self.runs.get(&lane)
    }

    /// The run for comparison.
    pub(crate) fn other(&self) -> Option<(LaneId, &TensorRows)> {
        let (id, _) = self.rival.as_ref()?;
        Some((*id, self.run(*id)?))
    }

    /// Stores the rows of a run.
    pub(super) fn take_rows(&mut self, lane: LaneId, run: TensorRows) {
        self.runs.insert(lane, run);
        // Orders by difference to this run are outdated, so they are removed.
        for run in self.runs.values_mut() {
            run.forget_differences_to(lane);
        }
    }

    pub(super) fn take_names(&mut self, names: NameIndex) {
        self.names = names;
        self.key = None;
    }

    /// The selected tensor.
    pub(crate) fn tensor(&self) -> Option<u32> {
        self.order.get(self.at).copied()
    }

    /// Width of the longest name in columns.
    pub(crate) const fn longest_name(&self) -> u16 {
        self.names.longest()
    }
}
