//! A watched program as CSV tables: the program, its calls by function, its files, their tensors, and single calls.

use super::csv::cell;
use crate::core::{ProgramEnd, WatchReport, WatchedFile};
use crate::present::watch;
use crate::session::State;
use crate::text::CsvRows;
use std::io::{self, Write};

/// Writes one row about the program and the session: without calls, the other tables have no row that shows whether
/// calls are missing.
pub(super) fn program(state: &State, report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&["command", "exit_status", "signal", "wall_ns", "complete", "missing", "lost_calls", "uncounted_calls"])?;
    let (status, signal) = match report.ended {
        Some(ProgramEnd::Status(status)) => (Some(status), None),
        Some(ProgramEnd::Signal(signal)) => (None, Some(signal)),
        Some(ProgramEnd::Unknown) | None => (None, None),
    };
    let missing = watch::gaps(state);
    rows.put(&[
        report.command.join(" "),
        cell(status),
        cell(signal),
        report.wall_ns.to_string(),
        missing.is_empty().to_string(),
        watch::gap_ids(&missing),
        report.lost_events.to_string(),
        report.uncounted.to_string(),
    ])?;
    rows.flush()
}

/// Writes one row per function.
pub(super) fn calls(state: &State, report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let complete = watch::gaps(state).is_empty().to_string();
    rows.put(&["function", "calls", "errors", "bytes", "total_ns", "complete"])?;
    for call in report.calls.iter().chain(&report.other_calls) {
        let numbers = [call.count, call.errors, call.bytes, call.total_ns].map(|number| number.to_string());
        let cells = std::iter::once(call.function.clone()).chain(numbers).chain([complete.clone()]);
        rows.put(&cells.collect::<Vec<_>>())?;
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
pub(super) fn files(state: &State, report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let complete = watch::gaps(state).is_empty().to_string();
    let head = ["path", "route", "route_proven", "route_source"].into_iter().chain(COLUMNS.map(|(name, _)| name));
    rows.put(&head.chain(["o_direct", "complete"]).collect::<Vec<_>>())?;
    for file in &report.files {
        let mut cells = vec![file.path.clone()];
        // A file without cuFile has no route.
        cells.extend(match watch::is_of_cufile(file) {
            true => [file.route.to_string(), file.proven.to_string(), watch::proof(file.proof).to_owned()],
            false => Default::default(),
        });
        cells.extend(COLUMNS.map(|(_, value)| value(file).to_string()));
        cells.extend([cell(file.o_direct), complete.clone()]);
        rows.put(&cells)?;
    }
    rows.flush()
}

/// Writes one row per tensor that was read.
pub(super) fn tensors(state: &State, report: &WatchReport, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let complete = watch::gaps(state).is_empty().to_string();
    rows.put(&[
        "path",
        "tensor",
        "bytes",
        "reads",
        "read_bytes",
        "touched_bytes",
        "covered_bytes",
        "read_ns",
        "complete",
    ])?;
    for file in &report.files {
        for tensor in &file.tensors {
            let numbers =
                [tensor.size, tensor.reads, tensor.bytes, tensor.touched_bytes].map(|number| number.to_string());
            let names = [file.path.clone(), tensor.name.clone()];
            let others = [cell(tensor.covered_bytes), cell(tensor.read_ns), complete.clone()];
            rows.put(&names.into_iter().chain(numbers).chain(others).collect::<Vec<_>>())?;
        }
    }
    rows.flush()
}

/// Writes one row per single call that was kept.
pub(super) fn timeline(state: &State, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let complete = (watch::gaps(state).is_empty() && state.calls_left_out == 0).to_string();
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
        "complete",
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
            complete.clone(),
        ])?;
    }
    rows.flush()
}
