//! Bandwidth and memory over time, for each cache state.

use crate::core::{CacheState, LaneInks, units};
use crate::present::{SessionAnalysis, series};
use crate::report::section::{Axis, Block, Chart, Scale, Section, Series};

const SECONDS: Axis = Axis { name: "seconds since the clock started", scale: Scale::Linear, tick: number };

pub(super) fn sections(analysis: &SessionAnalysis<'_>) -> Vec<Section> {
    let caches = series::caches(analysis);
    let bandwidth = caches.iter().map(|cache| Chart {
        title: format!("Bandwidth{}", of(*cache)),
        caption: "GB/s of bytes that landed on the target, from the spans of the run with the median time.".to_owned(),
        series: coloured(analysis, series::bandwidth(analysis, *cache)),
        x: SECONDS,
        y: Axis { name: "GB/s", scale: Scale::Linear, tick: number },
        height: 260.0,
    });
    let memory = caches.iter().map(|cache| Chart {
        title: format!("Host memory{}", of(*cache)),
        caption: "GiB of resident memory of the loading process.".to_owned(),
        series: coloured(analysis, series::host_memory(analysis, *cache)),
        x: SECONDS,
        y: Axis { name: "GiB", scale: Scale::Linear, tick: number },
        height: 220.0,
    });
    bandwidth.chain(memory).filter(|chart| !chart.series.is_empty()).map(section).collect()
}

/// The end of a title: `, cold cache`.
pub(super) fn of(cache: CacheState) -> &'static str {
    match cache {
        CacheState::Cold => ", cold cache",
        CacheState::Hot => ", hot cache",
        CacheState::AsIs => "",
    }
}

/// The label of a tick. A round value has no trailing zeros.
fn number(value: f64) -> String {
    plain(&units::three_digits(value))
}

/// Removes trailing zeros from a number, which may have a unit: `1.00 ms` becomes `1 ms`.
pub(super) fn plain(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_zeros_at_their_end() {
        for (text, expected) in
            [("1.00 ms", "1 ms"), ("0.500", "0.5"), ("100", "100"), ("14.2 GiB", "14.2 GiB"), ("512 B", "512 B")]
        {
            assert_eq!(plain(text), expected);
        }
    }
}
