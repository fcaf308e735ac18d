//! The overhead per tensor: dots, fitted lines, phases by size, and the sizes at which two engines take the same
//! time.

use super::charts;
use crate::core::{CacheState, units};
use crate::present::cost::{by_size, crossings, lines};
use crate::present::{SessionAnalysis, series};
use crate::report::section::{Axis, Block, Chart, Scale, Section};

pub(super) fn sections(analysis: &SessionAnalysis<'_>, full: bool) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    if full {
        all.extend(series::caches(analysis).into_iter().filter_map(|cache| scatter(analysis, cache)));
    }
    let mut fitted = lines(analysis, full).map(Section::from);
    let crossings = crossings(analysis);
    if let Some(section) = fitted.as_mut().filter(|_| !crossings.is_empty()) {
        section.blocks.push(Block::List(crossings));
    }
    all.extend(fitted);
    all.extend(by_size(analysis).filter(|_| full).map(Section::from));
    all
}

fn scatter(analysis: &SessionAnalysis<'_>, cache: CacheState) -> Option<Section> {
    let (series, every) = series::tensors(analysis, cache);
    let chart = Chart {
        title: series::title("Size and time", cache),
        caption: series::tensors_caption(every, series::has_blocks(analysis, cache)),
        series: charts::coloured(analysis, series),
        x: Axis { name: "size of the tensor", scale: Scale::Log2, tick: |value| units::bytes(value as u64) },
        y: Axis { name: "time", scale: Scale::Log, tick: |value| units::short_duration(value as u64) },
        height: 360.0,
    };
    (!chart.series.is_empty()).then(|| charts::section(chart))
}
