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
const SETUP: &str = "░ set-up";
/// The mark of a set-up that is longer than its part of the axis.
const BREAK: &str = "╱╱";
/// Minimum width in columns of bars that have the set-up before them.
const LEAST_WITH_HEAD: u16 = 12;
/// Minimum width in columns of bars with space for the time of a set-up.
const LEAST_WITH_TIME: u16 = 40;
/// The width of that space.
const TIME_OF_SETUP: u16 = 10;

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
        let head = match bar {
            ..LEAST_WITH_HEAD => 0,
            LEAST_WITH_HEAD..LEAST_WITH_TIME => (bar / 7).max(2),
            _ => (bar / 7).max(TIME_OF_SETUP),
        };
        let scale_ns = groups.iter().map(|group| scale_ns(group, state, ctx)).max().unwrap_or(0);
        Self { zero: name + head, head, columns: bar.saturating_sub(head + 1), scale_ns }
    }

    pub(super) fn share(self, ns: u64) -> f64 {
        if self.scale_ns == 0 { 0.0 } else { ns as f64 / self.scale_ns as f64 }
    }

    /// Draws the set-up of a run directly before the start of its clock, on the scale of the axis. A set-up that does
    /// not fit has no bar, because the bars of all such set-ups would be equal: it is the mark of a broken axis, after
    /// its time if there is space for it.
    pub(super) fn setup(self, pen: &mut Pen<'_>, ns: u64, theme: &Theme) {
        let wanted = (self.share(ns) * f64::from(self.columns)).round();
        if wanted <= f64::from(self.head) {
            for x in self.zero - wanted as u16..self.zero {
                pen.cell(x, 0, '░', theme.faint);
            }
            return;
        }
        let timed = format!("{} {BREAK}", duration(ns));
        let words = if width(&timed) <= usize::from(self.head) { &timed } else { BREAK };
        if width(words) <= usize::from(self.head) {
            pen.right(self.zero, 0, words, theme.dim);
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
        if self.head > 0 && usize::from(self.zero) > width(SETUP) + 1 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Taste;
    use ratatui::buffer::{Buffer, Cell};
    use ratatui::layout::Rect;

    fn drawn(head: u16, setup_ns: u64) -> String {
        let axis = Axis { zero: head, head, columns: 60, scale_ns: 600 };
        let area = Rect::new(0, 0, head, 1);
        let mut buffer = Buffer::empty(area);
        axis.setup(&mut Pen::new(&mut buffer, area), setup_ns, &Theme::new(Taste::default()));
        buffer.content().iter().map(Cell::symbol).collect()
    }

    #[test]
    fn a_setup_is_at_the_scale_of_the_axis_or_marked_as_longer_than_it() {
        assert_eq!(drawn(10, 0).trim(), "");
        assert_eq!(drawn(10, 40).trim().chars().count(), 4);
        assert_eq!(drawn(10, 100), "░".repeat(10));
        for (head, setup_ns) in [(10, 120), (10, 900), (2, 30), (2, 90)] {
            let shown = drawn(head, setup_ns);
            assert!(shown.ends_with(BREAK) && !shown.contains('░'), "{shown}");
            assert_eq!(shown.contains(&duration(setup_ns)), head == 10, "{shown}");
        }
    }
}
