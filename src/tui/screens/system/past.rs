//! The System screen of a recording: the meters of the machine during the session. Processes are never recorded, so
//! none are shown.

use super::state::Ui;
use super::time;
use crate::core::Metric;
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::pen::Pen;
use crate::tui::theme::Theme;
use crate::tui::widgets::chart::{Chart, Extras};
use crate::tui::widgets::series::Series;

const GIB: f64 = (1_u64 << 30) as f64;
/// Meters are read ten times a second. A longer distance than this between two readings is a gap.
const GAP_S: f64 = 0.45;
/// For readings that are closer together than this, the difference of two counters is mostly noise.
const LEAST_S: f64 = 0.04;
/// Minimum height of a useful chart in rows.
const ROWS: u16 = 8;
const COLUMNS: u16 = 50;

type Points = Vec<(f64, f64)>;

fn readings(state: &State, metric: Metric, scale: f64) -> Points {
    state.series(metric, None).map(|(at, value)| (at as f64 / 1e9, value / scale)).collect()
}

/// The rate of a counter between each two readings, in its unit per second.
fn rate(counts: &[(f64, f64)], scale: f64) -> Points {
    let mut rates = Points::new();
    let mut before: Option<(f64, f64)> = None;
    for (at, count) in counts.iter().copied() {
        let Some((since, least)) = before else {
            before = Some((at, count));
            continue;
        };
        if at - since < LEAST_S {
            continue;
        }
        // A counter that decreased was reset. After a long gap, the rate at one time is unknown.
        if at - since <= GAP_S && count >= least {
            rates.push((f64::midpoint(since, at), (count - least) / (at - since) / scale));
        }
        before = Some((at, count));
    }
    rates
}

struct Picture {
    title: &'static str,
    unit: &'static str,
    empty: &'static str,
    lines: Vec<(&'static str, Points, bool)>,
}

fn pictures(state: &State) -> [Picture; 4] {
    // Only the growth of the page cache is shown, because its other content does not belong to the load.
    let mut cache = readings(state, Metric::PageCacheBytes, GIB);
    let least = cache.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    cache.iter_mut().for_each(|p| p.1 -= least);
    // Some virtual machines do not count files there. A line at zero would be wrong, so there is no line.
    if cache.iter().all(|p| p.1 < 0.1) {
        cache.clear();
    }
    [
        Picture {
            title: "Read from the model's disk",
            unit: "GB/s",
            empty: "The read counter of the disk was not recorded.",
            lines: vec![("disk", rate(&readings(state, Metric::DeviceReadBytes, 1.0), 1e9), false)],
        },
        Picture {
            title: "Over PCIe",
            unit: "GB/s",
            empty: "No reading of a GPU's link was recorded.",
            lines: vec![
                ("into the GPU", readings(state, Metric::PcieRxBytesPerS, 1e9), false),
                ("out of it", readings(state, Metric::PcieTxBytesPerS, 1e9), false),
            ],
        },
        Picture {
            title: "Memory",
            unit: "GiB",
            empty: "No reading of memory was recorded.",
            lines: vec![
                ("GPU", readings(state, Metric::GpuMemoryBytes, GIB), false),
                ("increase of the page cache", cache, false),
            ],
        },
        Picture {
            title: "GPU",
            unit: "W · %",
            empty: "No reading of a GPU was recorded.",
            lines: vec![
                ("power", readings(state, Metric::PowerWatts, 1.0), false),
                ("busy (right)", readings(state, Metric::GpuUtilizationPercent, 1.0), true),
            ],
        },
    ]
}

/// Draws as many charts as fit. All have the session time as their axis.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let across = if w >= 2 * COLUMNS { 2 } else { 1 };
    let down = (h / ROWS).clamp(1, 4 / across);
    let shown = usize::from(across * down);
    let all = pictures(state);
    // If not all charts fit, Tab shows the next one.
    let first = if shown < all.len() { ui.screen.pane % all.len() } else { 0 };
    ui.screen.charted.set(true);
    ui.screen.more.set(shown < all.len());
    let (wide, high) = (w / across, h / down);
    for (place, picture) in (0..).zip(all.iter().cycle().skip(first).take(shown)) {
        let (column, line) = (place % across, place / across);
        let columns = if column + 1 == across { w - column * wide } else { wide };
        let rows = if line + 1 == down { h - line * high } else { high };
        chart(&mut pen.part(column * wide, line * high, columns, rows), picture, state, ui, theme);
    }
}

fn chart(pen: &mut Pen<'_>, picture: &Picture, state: &State, ui: &Ui<'_>, theme: &Theme) {
    const MARKERS: [char; 2] = ['•', '▪'];
    let lines = picture.lines.iter().filter(|(_, points, _)| !points.is_empty()).enumerate();
    let series: Vec<Series> = lines
        .map(|(i, (name, points, right))| Series {
            name: (*name).to_owned(),
            marker: MARKERS[i % MARKERS.len()],
            style: theme.series(i),
            points: points.clone(),
            gap: GAP_S,
            right: *right,
        })
        .collect();
    let (from, to) = ui.screen.time.window(time::full_range(state, ui));
    let mut inside = pen.frame(&time::title(picture.title, picture.unit, ui, theme), theme.faint);
    let chart =
        Chart { series: &series, x: (from, to), ceiling: None, cursor: ui.screen.time.cursor, empty: picture.empty };
    if let Some(plot) = chart.draw_with(&mut inside, theme, &Extras::default()) {
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        let spot = Spot::Time { from_us: micros(from), to_us: micros(to) };
        for y in plot.y..plot.y + plot.height {
            inside.hit(y, plot.x, plot.width, spot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn a_count_becomes_a_rate_if_it_was_read_often_and_not_reset() {
        let counts = [(0.0, 5.0), (0.01, 6.0), (0.1, 25.0), (0.2, 25.0), (2.0, 900.0), (2.1, 3.0), (2.2, 13.0)];
        let shown_points: Vec<(i64, i64)> =
            rate(&counts, 1.0).iter().map(|(at, rate)| ((at * 100.0).round() as i64, rate.round() as i64)).collect();
        assert_eq!(shown_points, [(5, 200), (15, 0), (215, 100)]);
    }
}
