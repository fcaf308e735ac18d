//! The time axis of the lanes: bars, the set-up before them, a dot for each run, and the ends of the axis.

use crate::core::units::duration;
use crate::present::progress::elapsed_ns;
use crate::present::{EngineRow, RowGroup};
use crate::session::{Lane, State};
use crate::tui::context::Context;
use crate::tui::pen::{Pen, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// The time axis of a group: its bars and its phases are drawn on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// The column at which the clocks start.
    pub(super) zero: u16,
    /// Columns before it, for the set-up of a run.
    head: u16,
    /// Columns from the start of the clocks on.
    pub(super) columns: u16,
    /// The time that fills these.
    pub(super) scale_ns: u64,
}

impl Axis {
    /// The axis of a group in a column of bars that begins at `name` and is `bar` columns wide.
    pub(super) fn new(name: u16, bar: u16, group: &RowGroup<'_>, state: &State, ctx: &Context) -> Self {
        // Too few columns show no difference between set-ups.
        let head = if bar >= 30 { bar / 7 } else { 0 };
        Self { zero: name + head, head, columns: bar.saturating_sub(head + 1), scale_ns: scale_ns(group, state, ctx) }
    }

    pub(super) fn share(self, ns: u64) -> f64 {
        if self.scale_ns == 0 { 0.0 } else { ns as f64 / self.scale_ns as f64 }
    }

    /// The set-up of a run, right before the start of its clock; a longer one than the axis has room for begins with an arrow.
    pub(super) fn setup(self, pen: &mut Pen<'_>, ns: u64, theme: &Theme) {
        let wanted = (self.share(ns) * f64::from(self.columns)).round();
        let shown = wanted.min(f64::from(self.head)) as u16;
        for x in self.zero - shown..self.zero {
            pen.cell(x, 0, '░', theme.faint);
        }
        if wanted > f64::from(self.head) && self.head > 1 {
            pen.cell(self.zero - shown, 0, '◀', theme.faint);
        }
    }

    /// One dot for each run, where several show how far they are apart.
    pub(super) fn dots(self, pen: &mut Pen<'_>, walls: &[u64], style: Style) {
        for ns in walls {
            let at = (self.share(*ns) * f64::from(self.columns)).ceil() as u16;
            pen.cell(self.zero + at.clamp(1, self.columns.max(1)) - 1, 0, '•', style);
        }
    }

    /// The ends of the axis.
    pub(super) fn label(self, pen: &mut Pen<'_>, y: u16, style: Style) {
        let end = duration(self.scale_ns);
        if self.scale_ns > 0 && usize::from(self.columns) > width(&end) + 4 {
            pen.text(self.zero, y, "0", style);
            pen.right(self.zero + self.columns, y, &end, style);
        }
    }
}

/// The time that fills a bar: the slowest finished run of the group, or the expected time of a running one if that is longer.
fn scale_ns(group: &RowGroup<'_>, state: &State, ctx: &Context) -> u64 {
    let expected = |entry: &EngineRow<'_>| {
        let lane = entry.running()?;
        let elapsed = elapsed_ns(lane, ctx.clock_ns)?;
        // Before some bytes have arrived there is no basis for an estimate.
        let share = loaded_share(lane, state).filter(|share| *share > 0.02).unwrap_or(1.0);
        Some((elapsed as f64 / share) as u64)
    };
    let slowest = |entry: &EngineRow<'_>| entry.ranked().map(|ranked| ranked.wall_range_ns.1);
    group.rows.iter().filter_map(|entry| expected(entry).max(slowest(entry))).max().unwrap_or(0)
}

/// The share of its bytes that a running lane has on the target.
pub(super) fn loaded_share(lane: &Lane, state: &State) -> Option<f64> {
    let total = state.bytes_of(lane);
    (total > 0).then(|| lane.landed_bytes() as f64 / total as f64)
}
