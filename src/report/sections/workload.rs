//! KV-cache workloads: their tables, and the layers over time for reads layer by layer.

use crate::present::labels::engine_in;
use crate::present::workload::{hidden, runs, tables};
use crate::report::section::{Block, Section};
use crate::session::State;

/// Maximum number of runs whose layers are drawn. The tables contain all runs.
const MOST_RUNS: usize = 12;

pub(super) fn sections(state: &State, full: bool) -> Vec<Section> {
    let tables = tables(state).into_iter().map(Section::from);
    tables.chain(layers(state).filter(|_| full)).collect()
}

fn layers(state: &State) -> Option<Section> {
    let layered: Vec<_> = runs(state).filter(|(_, workload)| !workload.layers.is_empty()).collect();
    let first = layered.len().min(MOST_RUNS);
    let mut section = Section::new("Layers over time").text(
        "Above, all loading and all computing; below, a row for each layer. Computing is simulated. Waiting is drawn over it in the colour of warnings; \
         hover for values.",
    );
    if layered.len() > first {
        section.text.push(format!("{} more runs are in the tables.", layered.len() - first));
    }
    for (run, workload) in layered.iter().take(first) {
        let title = format!(
            "{} #{}: {}",
            engine_in(&run.engine, run.cache, None),
            run.repeat.saturating_add(1),
            hidden(workload)
        );
        section.blocks.push(Block::Layers(title, workload.layers.clone()));
    }
    (first > 0).then_some(section)
}
