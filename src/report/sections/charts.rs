//! Bandwidth and memory over time, for each cache state.

use crate::core::{CacheState, LaneInks, units};
use crate::present::{SessionAnalysis, series};
use crate::report::section::{Axis, Block, Chart, Scale, Section, Series};

const TIME: Axis = Axis { name: "time since the clock started", scale: Scale::Linear, tick: seconds };

fn seconds(value: f64) -> String {
    if value > 0.0 { units::short_duration((value * 1e9).round() as u64) } else { "0".to_owned() }
}

pub(super) fn sections(analysis: &SessionAnalysis<'_>) -> Vec<Section> {
    let caches = series::caches(analysis);
    let bandwidth = caches.iter().map(|cache| Chart {
        title: series::title("Bandwidth", *cache),
        caption: series::BANDWIDTH_CAPTION.to_owned(),
        series: coloured(analysis, series::bandwidth(analysis, *cache)),
        x: TIME,
        y: Axis { name: "GB/s", scale: Scale::Linear, tick: units::short },
        height: 340.0,
    });
    let memory = caches.iter().map(|cache| memory(analysis, *cache));
    bandwidth.chain(memory).filter(|chart| !chart.series.is_empty()).map(section).collect()
}

fn memory(analysis: &SessionAnalysis<'_>, cache: CacheState) -> Chart {
    let (mut series, caption) = series::host_memory(analysis, cache);
    let highest = series.iter().flat_map(|one| &one.points).map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    let (unit, name) = if highest < units::GIB as f64 { (units::MIB, "MiB") } else { (units::GIB, "GiB") };
    series.iter_mut().flat_map(|one| &mut one.points).for_each(|(_, bytes)| *bytes /= unit as f64);
    Chart {
        title: series::title("Host memory", cache),
        caption,
        series: coloured(analysis, series),
        x: TIME,
        y: Axis { name, scale: Scale::Linear, tick: units::short },
        height: 300.0,
    }
}

pub(super) fn section(chart: Chart) -> Section {
    Section::new(chart.title.clone()).block(Block::Chart(chart))
}

/// The series with the colours and markers of their engines.
pub(super) fn coloured(analysis: &SessionAnalysis<'_>, series: Vec<series::Series>) -> Vec<Series> {
    let inks = LaneInks::of(analysis.state.lanes.iter().map(|lane| &lane.engine));
    let one = |s: series::Series| Series {
        label: s.label,
        colour: s.engine.as_ref().map(|engine| inks.place(engine)),
        marker: s.engine.as_ref().map(|engine| inks.marker(engine)),
        points: s.points,
        line: s.line,
        dashed: s.dashed,
    };
    series.into_iter().map(one).collect()
}
