//! The sentences about a read layer by layer. Each has three lengths, and the longest is first.

use super::workload::hidden;
use crate::core::{LayerTimes, Status, WorkloadResult, units};

/// The headline: the share of the transfer time in which computing did not wait for transfers.
pub(crate) fn headline(result: &WorkloadResult) -> (Status, [String; 3]) {
    let hides = hidden(result);
    let Some(share) = result.hidden_fraction else {
        return (Status::Na, [hides.clone(), hides.clone(), hides]);
    };
    let layers = &result.layers;
    let waited = units::duration(units::sum(layers.iter().map(|layer| layer.wait_ns)));
    let slow = layers.iter().filter(|layer| layer.wait_ns > layer.compute_ns / 10).count();
    let status = if share >= 0.9 { Status::Pass } else { Status::Warn };
    let texts = [
        format!("{hides}; computing waited {waited}, noticeably for {slow} of {} layers.", layers.len()),
        format!("{hides}; computing waited {waited}."),
        format!("{} % of loading is hidden, waited {waited}", (share * 100.0).floor()),
    ];
    (status, texts)
}

/// The times of one layer.
pub(crate) fn layer(number: usize, of: usize, layer: &LayerTimes) -> [String; 3] {
    let (load, start) = (units::duration(layer.load_ns), units::duration(layer.load_start_ns));
    let (compute, wait) = (units::duration(layer.compute_ns), units::duration(layer.wait_ns));
    [
        format!("layer {number} of {of}: loaded in {load} from {start} on, computed in {compute}, waited for {wait}"),
        format!("layer {number}: load {load}, compute {compute}, waited {wait}"),
        format!("{number}: load {load}, waited {wait}"),
    ]
}
