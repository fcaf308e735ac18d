//! The state of the Tensors screen, and values derived from it.

use crate::analysis::Crossover;
use crate::core::{LaneId, Span};
use crate::tui::context;
use crate::tui::jobs::names::NameIndex;
use crate::tui::jobs::tensor_rows::{Sort, TensorRows};
use std::collections::BTreeMap;

pub(super) type Ui<'a> = context::Ui<'a, Tensors>;

/// The inputs of an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrderKey {
    pub(super) lane: LaneId,
    pub(super) spans: usize,
    pub(super) rival: Option<LaneId>,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
}

/// One tensor in two runs, span by span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detail {
    pub(super) tensor: u32,
    pub(super) lane: LaneId,
    pub(super) spans: usize,
    /// The spans that moved its bytes, by start.
    pub(crate) reads: Vec<Span>,
}

/// The Tensors screen.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// Selected line of `order`.
    pub(crate) at: usize,
    /// The scatter instead of the table, where only one has room.
    pub(crate) scatter: bool,
    /// One tensor is shown.
    pub(crate) open: bool,
    /// The number of the run for comparison, which the key increments; none after the last.
    pub(crate) against: usize,
    /// Rows shown, as indices into the model's tensors.
    pub(crate) order: Vec<u32>,
    pub(crate) lane: Option<LaneId>,
    /// The run that it is compared with, and the size from which they cost the same.
    pub(crate) rival: Option<(LaneId, Option<Crossover>)>,
    pub(crate) detail: Option<Detail>,
    /// The input of `order`.
    pub(super) key: Option<OrderKey>,
    pub(super) names: NameIndex,
    pub(super) runs: BTreeMap<LaneId, TensorRows>,
}

impl Tensors {
    pub(crate) fn run(&self, lane: LaneId) -> Option<&TensorRows> {
        self.runs.get(&lane)
    }

    /// The run that it is compared with.
    pub(crate) fn other(&self) -> Option<(LaneId, &TensorRows)> {
        let (id, _) = self.rival.as_ref()?;
        Some((*id, self.run(*id)?))
    }

    /// Takes in the rows of a run.
    pub(super) fn take_rows(&mut self, lane: LaneId, run: TensorRows) {
        self.runs.insert(lane, run);
        // Orders by difference to an older state of this run are made again.
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

    /// Columns of the longest name.
    pub(crate) const fn longest_name(&self) -> u16 {
        self.names.longest()
    }
}
