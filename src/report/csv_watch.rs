//! A watched program as CSV tables: its calls by function, its files, their tensors, and single calls.

use super::csv::cell;
use crate::core::{WatchReport, WatchedFile};
use crate::present::watch;
use crate::session::State;
use crate::text::CsvRows;
use std::io::{self, Write};

/// Writes one row per function.
pub(super) fn calls(report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&["function", "calls", "errors", "bytes", "total_ns"])?;
    for call in report.calls.iter().chain(&report.other_calls) {
        let numbers = [call.count, call.errors, call.bytes, call.total_ns].map(|number| number.to_string());
        rows.put(&std::iter::once(call.function.clone()).chain(numbers).collect::<Vec<_>>())?;
    }
    rows.flush()
}

/// A column of numbers about a file.
type Column = (&'static str, fn(&WatchedFile) -> u64);

const COLUMNS: [Column; 20] = [
    ("reads", |file| file.reads.count),
    ("read_bytes", |file| file.reads.bytes),
    ("read_errors", |file| file.reads.errors),
    ("writes", |file| file.writes.count),
    ("written_bytes", |file| file.writes.bytes),
    ("write_errors", |file| file.writes.errors),
    ("below_mib", |file| file.reads.below_mib.saturating_add(file.writes.below_mib)),
    ("unaligned", |file| file.reads.unaligned.saturating_add(file.writes.unaligned)),
    ("unregistered", |file| file.reads.unregistered.saturating_add(file.writes.unregistered)),
    ("batched", |file| file.reads.batched.saturating_add(file.writes.batched)),
    ("streamed", |file| file.reads.streamed.saturating_add(file.writes.streamed)),
    ("registrations", |file| file.registrations),
    ("failed_registrations", |file| file.failed_registrations),
    ("plain_reads", |file| file.plain.count),
    ("plain_read_bytes", |file| file.plain.bytes),
    ("plain_read_errors", |file| file.plain.errors),
    ("plain_read_ns", |file| file.plain.total_ns),
    ("mappings", |file| file.plain.mappings),
    ("mapped_bytes", |file| file.plain.mapped_bytes),
    ("touched_bytes", |file| file.plain.touched_bytes),
];

/// Writes one row per file. The columns of `plain` and of mappings are about reads without cuFile.
pub(super) fn files(report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let head = ["path", "route", "route_proven", "route_source"].into_iter().chain(COLUMNS.map(|(name, _)| name));
    rows.put(&head.chain(["o_direct"]).collect::<Vec<_>>())?;
    for file in &report.files {
        let mut cells = vec![file.path.clone()];
        // A file without cuFile has no route.
        cells.extend(match watch::is_of_cufile(file) {
            true => [file.route.to_string(), file.proven.to_string(), watch::proof(file.proof).to_owned()],
            false => Default::default(),
        });
        cells.extend(COLUMNS.map(|(_, value)| value(file).to_string()));
        cells.push(cell(file.o_direct));
        rows.put(&cells)?;
    }
    rows.flush()
}

/// Writes one row per tensor that was read.
pub(super) fn tensors(report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&["path", "tensor", "bytes", "reads", "read_bytes", "touched_bytes"])?;
    for file in &report.files {
        for tensor in &file.tensors {
            let numbers =
                [tensor.size, tensor.reads, tensor.bytes, tensor.touched_bytes].map(|number| number.to_string());
            let names = [file.path.clone(), tensor.name.clone()];
            rows.put(&names.into_iter().chain(numbers).collect::<Vec<_>>())?;
        }
    }
    rows.flush()
}

/// Writes one row per single call that was kept.
pub(super) fn timeline(state: &State, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&[
        "function",
        "process",
        "thread",
        "start_ns",
        "duration_ns",
        "path",
        "offset",
        "bytes",
        "write",
        "alignment",
        "memory_registered",
        "flags",
        "result",
        "error",
    ])?;
    for call in &state.calls {
        rows.put(&[
            call.function.clone(),
            call.process.to_string(),
            call.thread.to_string(),
            call.start_ns.to_string(),
            call.duration_ns.to_string(),
            cell(call.file.as_ref()),
            cell(call.offset),
            call.bytes.to_string(),
            call.write.to_string(),
            cell(call.alignment),
            cell(call.registered),
            cell(call.flags),
            cell(call.result),
            call.error.to_string(),
        ])?;
    }
    rows.flush()
}
