//! Bandwidth and memory over time, for each cache state.

use crate::core::{LaneInks, units};
use crate::present::{SessionAnalysis, series};
use crate::report::section::{Axis, Block, Chart, Scale, Section, Series};

const SECONDS: Axis = Axis { name: "seconds since the clock started", scale: Scale::Linear, tick: units::short };

pub(super) fn sections(analysis: &SessionAnalysis<'_>) -> Vec<Section> {
    let caches = series::caches(analysis);
    let bandwidth = caches.iter().map(|cache| Chart {
        title: series::title("Bandwidth", *cache),
        caption: series::BANDWIDTH_CAPTION.to_owned(),
        series: coloured(analysis, series::bandwidth(analysis, *cache)),
        x: SECONDS,
        y: Axis { name: "GB/s", scale: Scale::Linear, tick: units::short },
        height: 260.0,
    });
    let memory = caches.iter().map(|cache| Chart {
        title: series::title("Host memory", *cache),
        caption: series::HOST_MEMORY_CAPTION.to_owned(),
        series: coloured(analysis, series::host_memory(analysis, *cache)),
        x: SECONDS,
        y: Axis { name: "GiB", scale: Scale::Linear, tick: units::short },
        height: 220.0,
    });
    bandwidth.chain(memory).filter(|chart| !chart.series.is_empty()).map(section).collect()
}

pub(super) fn section(chart: Chart) -> Section {
    Section::new(chart.title.clone()).block(Block::Chart(chart))
}

/// The series with the colours of their engines.
pub(super) fn coloured(analysis: &SessionAnalysis<'_>, series: Vec<series::Series>) -> Vec<Series> {
    let inks = LaneInks::of(analysis.state.lanes.iter().map(|lane| &lane.engine));
    let one = |s: series::Series| Series {
        label: s.label,
        colour: s.engine.as_ref().map(|engine| inks.place(engine)),
        points: s.points,
        line: s.line,
        dashed: s.dashed,
    };
    series.into_iter().map(one).collect()
}
