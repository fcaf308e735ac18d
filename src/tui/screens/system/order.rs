//! The order of the processes in the table, and the selected process.

use super::state::{ProcessSort, Ui};
use crate::core::{ProcessUse, SystemSample};
use crate::present::top;
use crate::session::State;

/// The processes in the order of the table: by the chosen column, or else by read rate and then by GPU memory.
pub(crate) fn order<'s>(sample: &'s SystemSample, ui: &Ui<'_>) -> Vec<&'s ProcessUse> {
    let filter = ui.screen.filter.to_lowercase();
    let matches = |p: &&ProcessUse| {
        filter.is_empty()
            || p.command.to_lowercase().contains(&filter)
            || p.name.to_lowercase().contains(&filter)
            || p.pid.to_string().contains(&filter)
            || top::method(p.route).to_lowercase().contains(&filter)
    };
    let mut all: Vec<&ProcessUse> = sample.processes.iter().filter(matches).collect();
    let complete = |value: Option<f64>| value.map(|v| v.round().max(0.0) as u64);
    // Unknown values are last.
    let key = |p: &ProcessUse| -> (Option<u64>, Option<u64>) {
        match ui.screen.sort {
            // Small read rates are rounded away, so that noise does not change the order of the rows.
            ProcessSort::Activity => (Some(top::reading(p).round() as u64 / 1_000_000), p.gpu_memory_bytes),
            ProcessSort::Storage => (complete(p.storage_bytes_per_s), None),
            ProcessSort::Calls => (complete(p.call_bytes_per_s), None),
            ProcessSort::Memory => (p.rss_bytes, None),
            ProcessSort::Gpu => (p.gpu_memory_bytes, None),
            ProcessSort::Cpu => (complete(p.cpu_percent), None),
            ProcessSort::Pid => (Some(u64::from(u32::MAX - p.pid)), None),
        }
    };
    all.sort_by_key(|p| (std::cmp::Reverse(key(p)), p.pid));
    if ui.screen.reversed {
        all.reverse();
    }
    all
}

/// The selected process.
pub(super) fn selected<'s>(state: &'s State, ui: &Ui<'_>) -> Option<&'s ProcessUse> {
    let (_, sample) = state.system.back()?;
    let order = order(sample, ui);
    let chosen = ui.screen.pid.and_then(|pid| order.iter().find(|p| p.pid == pid));
    chosen.or_else(|| order.first()).copied()
}
