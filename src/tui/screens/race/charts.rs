//! The charts of the race: the bandwidth of all runs with a common clock, and the memory and GPU of the selected run.

use super::names::entry_marker;
use super::phases;
use super::state::{Race, Ui};
use crate::core::{Metric, Target};
use crate::present::progress::elapsed_ns;
use crate::present::{RowGroup, row_groups, series};
use crate::session::{Lane, State};
use crate::tui::clicks::Spot;
use crate::tui::context::Context;
use crate::tui::pen::{Pen, Run};
use crate::tui::selection::selected_entry;
use crate::tui::theme::Theme;
use crate::tui::widgets::chart::{Chart, Extras};
use crate::tui::widgets::series::Series;
use crate::tui::words::{row_name, variant_name};

const GIB: f64 = (1_u64 << 30) as f64;
/// Meters are read ten times a second. A longer distance than this between two readings is a gap.
const METER_GAP_S: f64 = 0.45;
/// Width of a run's name in a legend, because a command can be long.
const LEGEND: u16 = 24;
/// Number of charts, including the one with the phases.
const COUNT: usize = 4;
/// Minimum load time in seconds for which a rate meter is shown. A meter is an average over a tenth of a second, so
/// for a shorter load it mostly shows the time before and after.
pub(crate) const SHORTEST_METERED_S: f64 = 0.2;
/// Progress messages arrive twenty times a second. A longer distance than this is a gap.
const PROGRESS_GAP_S: f64 = 0.6;

/// Draws the charts that fit. With `phases`, a pane with the phases is between them.
pub(crate) fn row(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, phases: bool, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let unread = without_meters(state, ui);
    ui.screen.more.set(!unread && (w < 116 || (phases && !on_host(state, ui))));
    if phases {
        let two = w < 110 || unread;
        let first = if two { w / 2 } else { w * 3 / 8 };
        let second = if two { w - first } else { w * 3 / 8 };
        one(&mut pen.part(0, 0, first, h), state, ui, theme, 0);
        phases::pane(&mut pen.part(first, 0, second, h), state, ui.ctx, theme);
        if first + second < w {
            one(&mut pen.part(first + second, 0, w - first - second, h), state, ui, theme, 1 + ui.screen.chart % 2);
        }
        return;
    }
    // Without a GPU, the GPU chart would be empty, and the title of the runs already shows that there is none.
    let host = on_host(state, ui);
    let useful: u16 = if unread {
        1
    } else if host {
        2
    } else {
        3
    };
    let count = match w {
        0..100 => 1,
        100..116 => useful.min(2),
        _ => useful,
    };
    if count == 1 {
        one(pen, state, ui, theme, ui.screen.chart);
        return;
    }
    if h >= 30 {
        // If there is enough height, the chart with the answer has the full width and the others are below it.
        let top = h * 11 / 20;
        one(&mut pen.part(0, 0, w, top), state, ui, theme, 0);
        let left = if host { w } else { w / 2 };
        one(&mut pen.part(0, top, left, h - top), state, ui, theme, 1);
        if !host {
            one(&mut pen.part(left, top, w - left, h - top), state, ui, theme, 2);
        }
        return;
    }
    // The first chart answers the question of the screen, so it gets the remaining columns.
    let narrow = w * 3 / (3 * count + 1);
    let first = w - narrow * (count - 1);
    let mut x = 0;
    for index in 0..count {
        let columns = if index == 0 { first } else { narrow };
        let which = if count == 2 && index == 1 && !host { 1 + ui.screen.chart % 2 } else { usize::from(index) };
        one(&mut pen.part(x, 0, columns, h), state, ui, theme, which);
        x += columns;
    }
}

/// Whether the session is over and no meter was read in it, so that the charts of memory would be empty.
fn without_meters(state: &State, ui: &Ui<'_>) -> bool {
    (ui.ctx.over || state.ended.is_some()) && state.samples.is_empty()
}

/// The part of a stretch of time that is shown.
fn part(full_range: (f64, f64), ui: &Ui<'_>) -> (f64, f64) {
    ui.screen.time.window(full_range)
}

/// The complete time range of the charts in seconds since the clock started. Zoom, pan and cursor move in this range.
pub(crate) fn full_range(state: &State, ui: &Ui<'_>) -> (f64, f64) {
    let group = group(state, ui);
    let end = group.as_ref().map_or(0.0, |group| end_of(group, ui));
    let (mut from, mut to) = (0.0, end);
    if let Some(((a, b), _)) = chosen(state, ui).and_then(|lane| window(lane, now_ns(ui))) {
        (from, to) = (a.min(from), b.max(to));
    }
    (from, if to > from { to } else { from + 1.0 })
}

/// The session time of the charts in nanoseconds: the current time, unless the charts are on hold.
fn now_ns(ui: &Ui<'_>) -> u64 {
    ui.screen.held_ns.map_or(ui.ctx.clock_ns, |held| held.min(ui.ctx.clock_ns))
}

/// The elapsed time of a run in seconds, as the charts show it.
fn seconds(lane: &Lane, ui: &Ui<'_>) -> f64 {
    let ran = elapsed_ns(lane, ui.ctx.clock_ns).unwrap_or(0);
    let held = ui.screen.held_ns.map(|held| held.saturating_sub(lane.clock_ns.or(lane.started_ns).unwrap_or(held)));
    held.map_or(ran, |held| held.min(ran)) as f64 / 1e9
}

/// The group of the selected entry.
fn group<'s>(state: &'s State, ui: &Ui<'_>) -> Option<RowGroup<'s>> {
    let at = selected_entry(state, ui.ctx).unwrap_or(0);
    let mut before = 0;
    row_groups(state).into_iter().find(|h| {
        before += h.rows.len();
        at < before
    })
}

fn end_of(group: &RowGroup<'_>, ui: &Ui<'_>) -> f64 {
    group.rows.iter().filter_map(|e| e.shown()).map(|lane| seconds(lane, ui)).fold(0.0, f64::max)
}

/// Draws a chart and makes it clickable.
fn put(chart: &Chart<'_>, pen: &mut Pen<'_>, theme: &Theme, extras: &Extras) {
    if let Some(plot) = chart.draw_with(pen, theme, extras) {
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        let spot = Spot::Time { from_us: micros(chart.x.0), to_us: micros(chart.x.1) };
        for y in plot.y..plot.y + plot.height {
            pen.hit(y, plot.x, plot.width, spot);
        }
    }
}

/// Draws one chart: 0 is bandwidth, 1 host memory, 2 GPU, 3 the phases.
pub(crate) fn one(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme, which: usize) {
    ui.screen.charted.set(ui.screen.charted.get() || which % COUNT != 3);
    match which % COUNT {
        0 => bandwidth(pen, state, ui, theme),
        1 => host_memory(pen, state, ui, theme),
        2 => gpu(pen, state, ui, theme),
        _ => phases::pane(pen, state, ui.ctx, theme),
    }
}

/// Draws the bandwidth over the complete time, for a page without a cursor.
pub(crate) fn bandwidth_of_all(pen: &mut Pen<'_>, state: &State, ctx: &Context, theme: &Theme) {
    bandwidth(pen, state, &Ui { ctx, screen: &Race::default() }, theme);
}

/// The number of the chart after the current one. The GPU chart is skipped if there is no GPU.
pub(crate) fn next(state: &State, ui: &Ui<'_>) -> usize {
    match (ui.screen.chart + 1) % COUNT {
        2 if on_host(state, ui) => 3,
        next => next,
    }
}

/// Whether the charts show a load into host memory.
fn on_host(state: &State, ui: &Ui<'_>) -> bool {
    chosen(state, ui).is_some_and(|lane| lane.target == Target::Host)
}

/// The run that the memory charts show.
pub(super) fn chosen<'s>(state: &'s State, ui: &Ui<'_>) -> Option<&'s Lane> {
    let at = selected_entry(state, ui.ctx)?;
    row_groups(state).iter().flat_map(|h| &h.rows).nth(at)?.shown()
}

fn title(name: &str, unit: &str, lane: Option<&Lane>, theme: &Theme) -> Vec<Run> {
    let mut runs = vec![(name.to_owned(), theme.strong), (format!("  {unit}"), theme.dim)];
    if let Some(lane) = lane {
        runs.push((" ─ ".to_owned(), theme.faint));
        runs.push((format!("{} ", theme.marker(&lane.engine)), theme.lane(&lane.engine)));
        runs.push((variant_name(&lane.engine, LEGEND), theme.text));
    }
    runs
}

fn bandwidth(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let group = group(state, ui);
    let mut series = Vec::new();
    let entries = group.as_ref().map(|h| h.rows.as_slice()).unwrap_or_default();
    let end = group.as_ref().map_or(0.0, |group| end_of(group, ui));
    for entry in entries {
        let Some(lane) = entry.shown() else { continue };
        // One mean value per column, but at most thirty per run, because a finer curve shows only the noise of single
        // blocks.
        let step = (end / f64::from(pen.width().max(20))).max(seconds(lane, ui) / 30.0).max(ui.ctx.stats.grain_s(lane));
        let points = ui.ctx.stats.bandwidth(lane, step).into_iter().map(|(t, rate)| (t, rate / 1e9)).collect();
        let of_spans = !lane.spans.is_empty() && lane.ended_ns.is_some();
        series.push(Series {
            name: match entry.place() {
                Some(_) => row_name(entry, LEGEND),
                None => variant_name(entry.engine, LEGEND),
            },
            marker: entry_marker(entry, theme),
            style: theme.lane(entry.engine),
            points,
            gap: if of_spans { f64::INFINITY } else { PROGRESS_GAP_S },
            right: false,
        });
    }
    // The selected run is drawn last, on top of the others.
    let shown: Vec<_> = entries.iter().filter_map(|e| e.shown()).map(|lane| lane.id).collect();
    let on_top = chosen(state, ui).and_then(|lane| shown.iter().position(|id| *id == lane.id));
    if let Some(at) = on_top.filter(|at| *at < series.len()) {
        let top = series.remove(at);
        series.push(top);
    }
    let mut title = title("Bandwidth", "GB/s", None, theme);
    if ui.screen.held_ns.is_some() {
        title.push((" ‖ held still".to_owned(), theme.accent));
    }
    let mut inside = pen.frame(&title, theme.faint);
    let chart = Chart {
        series: &series,
        x: part((0.0, if end > 0.0 { end } else { 1.0 }), ui),
        ceiling: group
            .as_ref()
            .and_then(|group| measured_ceiling(state, group).or_else(|| pcie_ceiling(state, group.target))),
        cursor: ui.screen.time.cursor,
        empty: "No bytes have moved yet.",
    };
    put(&chart, &mut inside, theme, &Extras::default());
}

/// The text of an empty chart. The second text is for a run that has ended and will get no more readings.
fn unread(lane: Option<&Lane>, [so_far, at_all]: [&'static str; 2]) -> &'static str {
    if lane.is_some_and(|lane| lane.ended_ns.is_some()) { at_all } else { so_far }
}

/// The lowest ceiling that applies to the loads of a group: its rate in GB/s and its name.
fn measured_ceiling(state: &State, group: &RowGroup<'_>) -> Option<(f64, String)> {
    series::ceiling(state, group.rows.first()?.lanes.first()?)
}

/// The capacity of the GPU's PCIe link in GB/s, from its generation and width (PCI Express Base Specification:
/// transfer rate times coding).
fn pcie_ceiling(state: &State, target: &Target) -> Option<(f64, String)> {
    const LANE_GB_S: [f64; 7] = [0.0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563];
    let Target::Gpu { uuid, ordinal, .. } = target else { return None };
    let gpus = &state.machine.as_ref()?.gpus;
    let gpu = match uuid {
        Some(uuid) => gpus.iter().find(|g| g.uuid == *uuid)?,
        None => gpus.get(*ordinal as usize)?,
    };
    // An idle link runs at a lower generation, so the highest generation is used.
    let (_, generation) = gpu.pcie_generation?;
    let (_, lanes) = gpu.pcie_width?;
    let lane = LANE_GB_S.get(generation as usize).filter(|rate| **rate > 0.0)?;
    (lanes > 0).then(|| (lane * f64::from(lanes), format!("PCIe {generation}.0 ×{lanes} link")))
}

/// The lifetime of the run's process in seconds since its clock started, and the session time of that start in
/// nanoseconds.
fn window(lane: &Lane, now_ns: u64) -> Option<((f64, f64), u64)> {
    let started = lane.started_ns?;
    let zero = lane.clock_ns.unwrap_or(started);
    let end = lane.ended_ns.unwrap_or(now_ns).min(now_ns).max(started + 1);
    let on_clock = |at: u64| (at as f64 - zero as f64) / 1e9;
    Some(((on_clock(started), on_clock(end)), zero))
}

/// The events of a run.
fn events(lane: Option<&Lane>) -> Extras {
    let landed = lane.and_then(|lane| lane.result.as_deref()).filter(|result| result.error.is_none());
    let events = landed.map(|result| (result.wall_ns as f64 / 1e9, "loaded".to_owned())).into_iter().collect();
    Extras { events, ..Extras::default() }
}

struct Meter {
    metric: Metric,
    name: &'static str,
    /// Whether the values belong to the run and not to the machine.
    of_lane: bool,
    scale: f64,
    right: bool,
    /// Whether the values are shown as the increase above their minimum in the time range.
    rise: bool,
    marker: char,
}

fn meters(state: &State, lane: &Lane, now_ns: u64, list: &[Meter], theme: &Theme) -> Vec<Series> {
    let Some(((from, to), zero)) = window(lane, now_ns) else { return Vec::new() };
    let started_ns = lane.started_ns.unwrap_or(zero);
    let mut all = Vec::new();
    for (index, meter) in list.iter().enumerate() {
        let mut points: Vec<(f64, f64)> = state
            .series_between(meter.metric, meter.of_lane.then_some(lane.id), started_ns..=now_ns)
            .map(|(at, value)| ((at as f64 - zero as f64) / 1e9, value / meter.scale))
            .filter(|(t, _)| *t >= from && *t <= to)
            .collect();
        let averaged = meter.metric == Metric::PcieRxBytesPerS;
        if averaged
            && lane.ended_ns.is_some()
            && elapsed_ns(lane, now_ns).is_some_and(|ns| (ns as f64) < SHORTEST_METERED_S * 1e9)
        {
            points.clear();
        }
        if meter.rise {
            let least = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
            points.iter_mut().for_each(|p| p.1 -= least);
        }
        all.push(Series {
            name: meter.name.to_owned(),
            marker: meter.marker,
            style: theme.series(index),
            points,
            gap: METER_GAP_S,
            right: meter.right,
        });
    }
    all
}

fn host_memory(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let lane = chosen(state, ui);
    let list = [
        Meter {
            metric: Metric::LaneRssBytes,
            name: "RSS",
            of_lane: true,
            scale: GIB,
            right: false,
            rise: false,
            marker: '•',
        },
        Meter {
            metric: Metric::PageCacheBytes,
            name: "cache grew",
            of_lane: false,
            scale: GIB,
            right: false,
            rise: true,
            marker: '▫',
        },
        Meter {
            metric: Metric::LanePinnedBytes,
            name: "pinned",
            of_lane: true,
            scale: GIB,
            right: false,
            rise: false,
            marker: '▪',
        },
    ];
    let series = lane.map(|lane| meters(state, lane, now_ns(ui), &list, theme)).unwrap_or_default();
    let x = lane.and_then(|l| window(l, now_ns(ui))).map_or((0.0, 1.0), |(x, _)| x);
    let (x, cursor) = (part(x, ui), ui.screen.time.cursor);
    let mut inside = pen.frame(&title("Host memory", "GiB", lane, theme), theme.faint);
    let chart = Chart {
        series: &series,
        x,
        ceiling: None,
        cursor,
        empty: unread(lane, ["No reading of this run's memory yet.", "No reading of this run's memory."]),
    };
    put(&chart, &mut inside, theme, &events(lane));
}

fn gpu(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let lane = chosen(state, ui);
    if lane.is_some_and(|l| l.target == Target::Host) {
        let mut inside = pen.frame(&title("GPU", "", None, theme), theme.faint);
        let empty = "No GPU: the bytes land in host memory.";
        Chart { series: &[], x: (0.0, 1.0), ceiling: None, cursor: None, empty }.draw(&mut inside, theme);
        return;
    }
    let list = [
        Meter {
            metric: Metric::GpuMemoryBytes,
            name: "memory",
            of_lane: false,
            scale: GIB,
            right: false,
            rise: false,
            marker: '•',
        },
        Meter {
            metric: Metric::PcieRxBytesPerS,
            name: "PCIe in (right)",
            of_lane: false,
            scale: 1e9,
            right: true,
            rise: false,
            marker: '▪',
        },
    ];
    let series = lane.map(|lane| meters(state, lane, now_ns(ui), &list, theme)).unwrap_or_default();
    let x = lane.and_then(|l| window(l, now_ns(ui))).map_or((0.0, 1.0), |(x, _)| x);
    let (x, cursor) = (part(x, ui), ui.screen.time.cursor);
    let mut inside = pen.frame(&title("GPU", "GiB · GB/s", lane, theme), theme.faint);
    let chart = Chart {
        series: &series,
        x,
        ceiling: None,
        cursor,
        empty: unread(lane, ["No reading of the GPU yet.", "No reading of the GPU."]),
    };
    put(&chart, &mut inside, theme, &events(lane));
}
