//! The time axis of the charts on the System screen: the visible range, the cursor, and the hold.
//!
//! Cursor and range are stored in session time, so that they do not move while time passes. The axis counts back from
//! now.

use super::state::{Ui, is_past};
use crate::core::SystemSample;
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::pen::{Pen, Run};
use crate::tui::theme::Theme;
use crate::tui::widgets::chart::{Chart, Extras};
use crate::tui::widgets::series::Series;

/// Samples arrive every two seconds. A longer distance than this between two samples is a gap.
const GAP_S: f64 = 5.0;
/// Minimum length of the time axis in seconds.
const LEAST_S: f64 = 10.0;

fn seconds(at_ns: u64) -> f64 {
    at_ns as f64 / 1e9
}

/// The session time that the charts treat as now, in seconds: the time of the newest sample, unless the charts are on
/// hold.
fn now_s(state: &State, ui: &Ui<'_>) -> f64 {
    let newest = state.system.back().map_or(0, |(at, _)| *at);
    seconds(ui.screen.held_ns.map_or(newest, |held| held.min(newest)))
}

/// The complete time range in seconds of the session.
pub(crate) fn full_range(state: &State, ui: &Ui<'_>) -> (f64, f64) {
    if is_past(state, ui.ctx) {
        let end = |sample: Option<&crate::session::TimedSample>| sample.map_or(0.0, |s| seconds(s.at_ns));
        let (first, last) = (end(state.samples.first()), end(state.samples.last()));
        return (first, last.max(first + 1.0));
    }
    let now = now_s(state, ui);
    let first = state.system.front().map_or(now, |(at, _)| seconds(*at));
    (first.min(now - LEAST_S), now)
}

/// A value over time, in seconds before now.
pub(super) fn over_time(state: &State, ui: &Ui<'_>, value: impl Fn(&SystemSample) -> Option<f64>) -> Vec<(f64, f64)> {
    let now = now_s(state, ui);
    let before = |at: u64| seconds(at) - now;
    let shown = state.system.iter().filter(|(at, _)| before(*at) <= 1e-9);
    shown.filter_map(|(at, sample)| Some((before(*at), value(sample)?))).collect()
}

/// Draws lines over the visible range and records the clickable area.
pub(super) fn draw(pen: &mut Pen<'_>, lines: &[Series], empty: &str, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let now = now_s(state, ui);
    let (from, to) = ui.screen.time.window(full_range(state, ui));
    let cursor = ui.screen.time.cursor.map(|at| at - now);
    let chart = Chart { series: lines, x: (from - now, to - now), ceiling: None, cursor, empty };
    if let Some(plot) = chart.draw_with(pen, theme, &Extras::default()) {
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        let spot = Spot::Time { from_us: micros(from), to_us: micros(to) };
        for y in plot.y..plot.y + plot.height {
            pen.hit(y, plot.x, plot.width, spot);
        }
    }
}

/// The title of a chart. It contains the time if the charts are on hold.
pub(super) fn title(name: &str, unit: &str, ui: &Ui<'_>, theme: &Theme) -> Vec<Run> {
    let mut runs = vec![(name.to_owned(), theme.strong), (format!("  {unit}"), theme.dim)];
    if ui.screen.held_ns.is_some() {
        runs.push((" ‖ held still".to_owned(), theme.accent));
    }
    runs
}

pub(super) fn series(name: &str, marker: char, index: usize, points: Vec<(f64, f64)>, theme: &Theme) -> Series {
    Series { name: name.to_owned(), marker, style: theme.series(index), points, gap: GAP_S, right: false }
}
