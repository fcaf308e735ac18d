//! The time axis of the runs: the bars, the set-up before them, a dot for each run, and the labels of the axis.

use crate::core::units::duration;
use crate::present::progress::elapsed_ns;
use crate::present::{EngineRow, RowGroup};
use crate::session::{Lane, State};
use crate::tui::context::Context;
use crate::tui::pen::{Pen, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// Label of the set-up in the line of the axis.
const SETUP: &str = "set-up";
/// Minimum width in columns of bars that have the set-up before them.
const LEAST_WITH_HEAD: u16 = 12;

/// The time axis of a pane. The bars of all its groups and their phases use this axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// The column at which the clocks start.
    pub(super) zero: u16,
    /// Number of columns before the start, for the set-up of a run.
    head: u16,
    /// Number of columns after the start of the clocks.
    pub(super) columns: u16,
    /// The time that fills these columns, in nanoseconds.
    pub(super) scale_ns: u64,
}

impl Axis {
    /// Creates the axis of a pane, in a bar column that begins after `name` columns and has `bar` columns.
    pub(super) fn new(name: u16, bar: u16, groups: &[RowGroup<'_>], state: &State, ctx: &Context) -> Self {
        let head = if bar >= LEAST_WITH_HEAD { (bar / 7).max(2) } else { 0 };
        let scale_ns = groups.iter().map(|group| scale_ns(group, state, ctx)).max().unwrap_or(0);
        Self { zero: name + head, head, columns: bar.saturating_sub(head + 1), scale_ns }
    }

    pub(super) fn share(self, ns: u64) -> f64 {
        if self.scale_ns == 0 { 0.0 } else { ns as f64 / self.scale_ns as f64 }
    }

    /// Draws the set-up of a run directly before the start of its clock. If it does not fit, it begins with an arrow.
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

    /// Draws one dot for each run if there are several, which shows their spread.
    pub(super) fn dots(self, pen: &mut Pen<'_>, walls: &[u64], style: Style) {
        for ns in walls {
            let at = (self.share(*ns) * f64::from(self.columns)).ceil() as u16;
            pen.cell(self.zero + at.clamp(1, self.columns.max(1)) - 1, 0, '•', style);
        }
    }

    /// Draws the labels at the ends of the axis and, if there is space, its title.
    pub(super) fn label(self, pen: &mut Pen<'_>, y: u16, style: Style) {
        const LONG: &str = "time, shorter is faster";
        let end = duration(self.scale_ns);
        let bare = self.scale_ns == 0 || usize::from(self.columns) <= width(&end) + 4;
        if !bare {
            pen.text(self.zero, y, "0", style);
            pen.right(self.zero + self.columns, y, &end, style);
        }
        let (at, taken) = if bare { (0, 0) } else { (2, width(&end) + 4) };
        let room = usize::from(self.columns).saturating_sub(taken);
        let words = if width(LONG) <= room { LONG } else { "time" };
        if width(words) <= room {
            pen.text(self.zero + at, y, words, style);
        }
        if usize::from(self.head) > width(SETUP) {
            pen.right(self.zero - 1, y, SETUP, style);
        }
    }
}

/// The time that fills a bar, in nanoseconds: the slowest ended run of the group, or the expected time of a running
/// one if that is longer.
fn scale_ns(group: &RowGroup<'_>, state: &State, ctx: &Context) -> u64 {
    let expected = |entry: &EngineRow<'_>| {
        let lane = entry.running()?;
        let elapsed = elapsed_ns(lane, ctx.clock_ns)?;
        // The estimate needs a minimum share of the bytes.
        let share = loaded_share(lane, state).filter(|share| *share > 0.02).unwrap_or(1.0);
        Some((elapsed as f64 / share) as u64)
    };
    let slowest = |entry: &EngineRow<'_>| entry.ranked().map(|ranked| ranked.wall_range_ns.1);
    group.rows.iter().filter_map(|entry| expected(entry).max(slowest(entry))).max().unwrap_or(0)
}

/// The share of its bytes that a running load has on the target.
pub(super) fn loaded_share(lane: &Lane, state: &State) -> Option<f64> {
    let total = state.bytes_of(lane);
    (total > 0).then(|| lane.landed_bytes() as f64 / total as f64)
}
