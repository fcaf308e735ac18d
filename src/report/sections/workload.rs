//! KV-cache workloads: their tables, and the layers over time for reads layer by layer.

use crate::present::workload::{layers_legend, layers_title, shown, tables};
use crate::report::section::{Block, Section};
use crate::session::State;

/// Maximum number of runs whose layers are drawn. The tables contain all runs.
const MOST_RUNS: usize = 12;

pub(super) fn sections(state: &State, brief: bool, full: bool) -> Vec<Section> {
    let tables = tables(state, brief).into_iter().map(Section::from);
    tables.chain(layers(state).filter(|_| full)).collect()
}

fn layers(state: &State) -> Option<Section> {
    let layered: Vec<_> = shown(state).filter(|(_, workload)| !workload.layers.is_empty()).collect();
    let first = layered.len().min(MOST_RUNS);
    let mut section = Section { text: layers_legend(first, layered.len()), ..Section::new("Layers over time") };
    for (run, workload) in layered.iter().take(first) {
        section.blocks.push(Block::Layers(layers_title(run, workload), workload.layers.clone()));
    }
    (first > 0).then_some(section)
}
