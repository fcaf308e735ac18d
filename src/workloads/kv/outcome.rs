//! The result of a run: figures, spans and notes.

use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method};
use super::params::KvSetting;
use super::pipeline::{hidden_fraction, layer_times, union_ns};
use super::shared::Shared;
use super::work::{Done, stored};
use crate::core::{
    ConcurrentWrites, Fallback, FallbackAction, Histogram, KvSystem, LaneOrder, Note, Percentiles, Recompute,
    RouteCounts, Span, Unchecked, WorkloadResult, units,
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

pub(super) fn measured(shared: &Shared<'_>, done: &Done, wall_ns: u64, fallbacks: Vec<Fallback>) -> WorkloadResult {
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
        requested: fallbacks.iter().any(|fall| fall.action != FallbackAction::Staged).then(|| requested(shared, done)),
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

/// The number of transfers of the files that are written, or that were found.
fn requested(shared: &Shared<'_>, done: &Done) -> u64 {
    shared.layout.tasks.iter().filter(|task| stored(done.found.as_ref(), task)).count() as u64
}

/// Whether writes end in the page cache, before the disk has the bytes. In compat mode libcufile writes buffered
/// if the file was opened without O_DIRECT or the transfer is off the 4 KiB grid (measured with libcufile 1.15).
/// Transfers that fell back to staging are plain writes.
pub(super) fn in_page_cache(shared: &Shared<'_>, route: Option<&RouteCounts>, fallbacks: &[Fallback]) -> bool {
    let Shared { lane, method, settings, .. } = shared;
    let off_grid = settings.on(KvSetting::Misalign) || settings.on(KvSetting::MisalignLength);
    let buffered = match method {
        Method::Ram => false,
        Method::Plain => !settings.on(KvSetting::PlainOdirect),
        Method::Gds => {
            let direct = route.is_some_and(|counts| counts.route.is_direct());
            (!direct && (!settings.on(KvSetting::Odirect) || off_grid)) || is_staged_in_page_cache(shared, fallbacks)
        }
        Method::Nixl(_) => !settings.on(KvSetting::Odirect),
    };
    lane.write && buffered && !settings.on(KvSetting::Fsync)
}

/// Whether transfers fell back to staging, which writes through the page cache.
fn is_staged_in_page_cache(shared: &Shared<'_>, fallbacks: &[Fallback]) -> bool {
    let is_staged = |fall: &Fallback| fall.action == FallbackAction::Staged && fall.operations > 0;
    !shared.settings.on(KvSetting::PlainOdirect) && fallbacks.iter().any(is_staged)
}

/// The comparison of a read with computing all tokens, if a time per token was given.
fn recompute(shared: &Shared<'_>, hits: Option<u64>, wall_ns: u64) -> Option<Recompute> {
    let token_ns = shared.settings.get(KvSetting::RecomputeUs).saturating_mul(1000);
    let read = hits.filter(|_| !shared.lane.write && token_ns > 0)?.saturating_mul(shared.layout.file_tokens());
    let tokens = shared.order.tokens.saturating_mul(shared.order.batch);
    Some(Recompute::of(token_ns, tokens, read, wall_ns))
}

/// The notes about a result.
pub(super) fn notes(
    shared: &Shared<'_>,
    done: &Done,
    concurrent: Option<&ConcurrentWrites>,
    fallbacks: &[Fallback],
    wall_ns: u64,
) -> Vec<Note> {
    let Shared { lane, method, settings, .. } = shared;
    let mut notes = Vec::new();
    if let Some(found) = done.found.as_ref().filter(|found| found.refused > 0) {
        let first_error = found.first_refusal.clone().unwrap_or_default();
        notes.push(Note::FilesRejected { files: found.refused, first_error });
    }
    notes.extend(done.found.as_ref().and_then(|found| found.limited.clone()));
    let waits = settings.on(KvSetting::Fsync);
    let is_plain = *method == Method::Plain && !settings.on(KvSetting::PlainOdirect);
    if lane.write && (is_plain || is_staged_in_page_cache(shared, fallbacks)) && !waits {
        notes.push(Note::WritesInPageCache);
    }
    let off_grid = settings.on(KvSetting::Misalign) || settings.on(KvSetting::MisalignLength);
    if lane.write && *method == Method::Gds && off_grid && !waits {
        notes.push(Note::MisalignedWritesInPageCache);
    }
    if !done.computing.is_empty() {
        notes.push(Note::ComputingSimulated { us: settings.get(KvSetting::ComputeUs) });
    }
    notes.extend(concurrent.cloned().map(Note::ConcurrentWrites));
    if let Some(seen) = done.on_streams {
        notes.push(Note::OnStreams { seen, in_call: seen.in_call_fraction(wall_ns).unwrap_or(0.0) });
        let wanted = settings.get(KvSetting::AsyncDepth).max(1);
        if seen.depth < wanted {
            notes.push(Note::StreamsLimited { depth: seen.depth, wanted });
        }
    }
    let amount = |setting| Some(settings.get(setting)).filter(|bytes| *bytes > 0);
    notes.extend(amount(KvSetting::Misalign).map(|bytes| Note::MisalignedOffsets { bytes }));
    notes.extend(amount(KvSetting::MisalignLength).map(|bytes| Note::MisalignedLengths { bytes }));
    notes
}
