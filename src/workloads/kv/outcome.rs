//! The result of a run: figures, spans and notes.

use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method};
use super::params::KvSetting;
use super::pipeline::{hidden_fraction, layer_times, union_ns};
use super::shared::Shared;
use super::work::Done;
use crate::core::{
    BesideWrites, Histogram, KvSystem, LaneOrder, Percentiles, Recompute, Span, Unchecked, WorkloadResult, units,
};
use std::sync::atomic::Ordering;

/// The spans that began before the end of the wall time.
pub(super) fn within(spans: &[Span], wall_ns: u64) -> Vec<Span> {
    spans.iter().filter(|span| span.start_ns < wall_ns).copied().collect()
}

/// The spans with offsets in the session's model. If a run divides files differently (`--compare chunk_size=…`), its
/// spans keep times and bytes but have no offsets.
pub(super) fn mapped(mut spans: Vec<Span>, lane_order: &LaneOrder, layout: &Layout, order: &KvOrder) -> Vec<Span> {
    if layout.model(order).tensors != lane_order.model.tensors {
        let end = lane_order.model.image_bytes();
        for span in &mut spans {
            (span.tensor, span.offset) = (None, end);
        }
    }
    spans
}

pub(super) fn named(order: &KvOrder, lane: &LaneName) -> WorkloadResult {
    WorkloadResult {
        workload: order.kind.name().to_owned(),
        variant: lane.lane.variant(),
        direction: lane.lane.access.to_string(),
        shape: order.shape.name.clone(),
        tokens: order.tokens,
        batch: order.batch,
        ..WorkloadResult::default()
    }
}

pub(super) fn measured(
    shared: &Shared<'_>,
    done: &Done,
    wall_ns: u64,
    fallbacks: Vec<crate::core::Fallback>,
) -> WorkloadResult {
    let intervals: Vec<(u64, u64)> = done.operations.iter().map(|o| (o.start_ns, o.end_ns)).collect();
    let busy_ns = union_ns(&intervals);
    let mut latencies: Vec<u64> = intervals.iter().map(|(start, end)| end - start).collect();
    let layers = layer_times(&done.operations, &done.computing);
    let waits: Vec<(u64, u64)> = layers
        .iter()
        .map(|layer| (layer.compute_start_ns.saturating_sub(layer.wait_ns), layer.compute_start_ns))
        .collect();
    let bytes = shared.context.counters.landed_bytes.load(Ordering::Relaxed);
    let stored = shared.layout.files.len() as u64;
    let asked: u64 = shared.layout.asked.iter().map(|keys| keys.len() as u64).sum();
    // In host memory only the stored part exists. The rest of the request is a miss, as on disk.
    let (lookups, hits) = match (&done.found, shared.lane.write) {
        (Some(found), _) => (Some(found.lookups), Some(found.hits)),
        (None, false) => (Some(asked), Some(stored)),
        (None, true) => (None, None),
    };
    WorkloadResult {
        operations: done.operations.len() as u64,
        operation_bytes: done.operations.iter().map(|o| o.bytes).max().unwrap_or(0),
        busy_ns,
        busy_bytes_per_s: units::bytes_per_s(bytes, busy_ns),
        busy_fraction: (wall_ns > 0).then(|| (busy_ns as f64 / wall_ns as f64).min(1.0)),
        latency_histogram: Histogram::of(&latencies),
        latency_ns: Percentiles::of(&mut latencies),
        lookups,
        hits,
        hit_rate_fraction: lookups.zip(hits).filter(|(all, _)| *all > 0).map(|(all, hits)| hits as f64 / all as f64),
        lookup_ns: done.found.as_ref().map(|_| done.lookup_ns),
        handle_cache: (!matches!(shared.method, Method::Ram | Method::Nixl(_))).then(|| shared.handles.counts()),
        handle_registrations: shared.handle_registrations.load(Ordering::Relaxed),
        buffer_registrations: shared.registered.len() as u64,
        evicted_chunks: (shared.lane.write && shared.order.kind == KvSystem::Lmcache && shared.method != Method::Ram)
            .then(|| shared.limit.evicted()),
        fallbacks,
        simulated_compute_ns: (!layers.is_empty()).then(|| shared.settings.get(KvSetting::ComputeUs) * 1000),
        computed_ns: done.computing.last().map(|(_, end, _)| *end),
        hidden_fraction: if layers.is_empty() { None } else { hidden_fraction(&intervals, &waits) },
        layers,
        on_streams: done.on_streams,
        recompute: recompute(shared, hits, wall_ns),
        unchecked: (shared.layout.is_slab()
            && done.on_streams.is_some()
            && !shared.settings.on(KvSetting::CheckResults))
        .then(|| Unchecked {
            operations: shared.lost_operations.load(Ordering::Relaxed),
            lost_bytes: shared.lost_bytes.load(Ordering::Relaxed),
        }),
        ..named(shared.order, shared.lane)
    }
}

/// The comparison of a read with computing all tokens, if a time per token was given.
fn recompute(shared: &Shared<'_>, hits: Option<u64>, wall_ns: u64) -> Option<Recompute> {
    let token_ns = shared.settings.get(KvSetting::RecomputeUs).saturating_mul(1000);
    let read = hits.filter(|_| !shared.lane.write && token_ns > 0)?.saturating_mul(shared.layout.file_tokens());
    let tokens = shared.order.tokens.saturating_mul(shared.order.batch);
    Some(Recompute::of(token_ns, tokens, read, wall_ns))
}

/// The notes about a result.
pub(super) fn notes(shared: &Shared<'_>, done: &Done, beside: Option<&BesideWrites>, wall_ns: u64) -> Vec<String> {
    let Shared { lane, method, settings, .. } = shared;
    let mut notes = Vec::new();
    if let Some(found) = done.found.as_ref().filter(|found| found.refused > 0) {
        notes.push(format!(
            "{} not taken as complete, so later chunks of the same sequence are missed too; the first: {}",
            match found.refused {
                1 => "1 file existed but was".to_owned(),
                many => format!("{many} files existed but were"),
            },
            found.first_refusal.as_deref().unwrap_or_default()
        ));
    }
    notes.extend(done.found.as_ref().and_then(|found| found.limited.clone()));
    if lane.write && *method == Method::Plain && !settings.on(KvSetting::PlainOdirect) && !settings.on(KvSetting::Fsync)
    {
        notes.push("plain writes end in the page cache; --set fsync=1 waits for the disk, --set plain_odirect=1 bypasses the cache".to_owned());
    }
    if lane.write && *method == Method::Gds && settings.on(KvSetting::Misalign) && !settings.on(KvSetting::Fsync) {
        notes.push(
            "in compat mode, writes off the 4 KiB grid seem to use the page cache and to end before the disk has the bytes (measured with libcufile 1.15: 1 GiB at 3.3 GB/s onto a disk that took 1.0 on the grid); --set fsync=1 waits for the disk"
                .to_owned(),
        );
    }
    if !done.computing.is_empty() {
        notes.push(format!(
            "computing is simulated: each layer sleeps {} µs (compute_us), and the time and rate of the read are paced by it; the rate during transfers is reported separately",
            settings.get(KvSetting::ComputeUs)
        ));
    }
    if let Some(beside) = beside {
        notes.push(format!(
            "{} files were written during this read by the same threads, {}: {} of their {} transfers had ended when the last read did, and all after {}",
            beside.files,
            if beside.read_priority { "reads before writes on three of four threads" } else { "in the order of the requests" },
            beside.before_last_read_operations,
            beside.operations,
            units::duration(beside.ended_ns)
        ));
    }
    if let Some(seen) = done.on_streams {
        let inside = seen.in_call_fraction(wall_ns).unwrap_or(0.0);
        notes.push(format!(
            "asynchronous on {} CUDA streams, with at most {} outstanding transfers per stream (async_depth is {}); the workers spent {:.0} % of their time inside the calls{}",
            seen.streams,
            seen.most_under_way,
            seen.depth,
            100.0 * inside,
            if inside > 0.5 { ": transfers are made before their calls return, as in compat mode" } else { "" }
        ));
    }
    for (setting, what) in [(KvSetting::Misalign, "offsets"), (KvSetting::MisalignLength, "lengths")] {
        if settings.get(setting) > 0 {
            notes.push(format!("{what} are off the 4 KiB grid on purpose, by {} bytes", settings.get(setting)));
        }
    }
    notes
}
