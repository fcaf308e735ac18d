//! Bandwidth and memory over time.

use crate::core::{LaneInks, units};
use crate::present::{SessionAnalysis, series};
use crate::report::section::{Axis, Block, Chart, Scale, Section, Series};

const SECONDS: Axis =
    Axis { name: "seconds since the clock started", scale: Scale::Linear, tick: |value| units::three_digits(value) };

pub(super) fn sections(analysis: &SessionAnalysis<'_>) -> Vec<Section> {
    let bandwidth = Chart {
        title: "Bandwidth, GB/s",
        caption:
            "Bytes that landed on the target, from the spans of the run with the median time. Cold runs are dashed."
                .to_owned(),
        series: coloured(analysis, series::bandwidth(analysis)),
        x: SECONDS,
        y: Axis { name: "GB/s", scale: Scale::Linear, tick: |value| units::three_digits(value) },
        height: 300.0,
    };
    let memory = Chart {
        title: "Host memory, GiB",
        caption: "Resident memory of the loading process. Cold runs are dashed.".to_owned(),
        series: coloured(analysis, series::host_memory(analysis)),
        x: SECONDS,
        y: Axis { name: "GiB", scale: Scale::Linear, tick: |value| units::three_digits(value) },
        height: 240.0,
    };
    [bandwidth, memory].into_iter().filter(|chart| !chart.series.is_empty()).map(section).collect()
}

pub(super) fn section(chart: Chart) -> Section {
    Section::new(chart.title).block(Block::Chart(chart))
}

/// Series in the colours of their engines.
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
