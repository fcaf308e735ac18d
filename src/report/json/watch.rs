//! A watched program as JSON. Scripts read the fields of `watch`; `program` contains the details.

use crate::core::{WatchReport, WatchedCall};
use crate::present::watch;
use crate::session::State;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The details of the program. Its calls are written one by one, because there can be many.
#[derive(Serialize)]
pub(super) struct Program<'a> {
    #[serde(flatten)]
    facts: Value,
    timeline: &'a VecDeque<WatchedCall>,
    timeline_left_out: u64,
}

pub(super) fn watch(state: &State, report: &WatchReport) -> Value {
    let missing = watch::gaps(state);
    let files = report.files.iter().filter(|file| watch::is_of_cufile(file)).map(|file| {
        json!({
            "path": file.path,
            "route": file.route,
            "proven": file.proven,
            "proof": watch::proof(file.proof),
            "reads": file.reads.count,
            "bytes": file.reads.bytes,
        })
    });
    let advice = watch::advice(report)
        .into_iter()
        .map(|(advice, text, proof)| json!({"id": advice.id(), "text": text, "proof": proof}));
    json!({
        "calls": report.calls,
        "files": files.collect::<Vec<_>>(),
        "threads": report.threads,
        "lost_events": report.lost_events,
        "complete": missing.is_empty(),
        "missing": missing,
        "advice": advice.collect::<Vec<_>>(),
    })
}

pub(super) fn program<'a>(state: &'a State, report: &WatchReport) -> Program<'a> {
    Program { facts: facts(report), timeline: &state.calls, timeline_left_out: state.calls_left_out }
}

fn facts(report: &WatchReport) -> Value {
    json!({
        "command": report.command,
        "ended": report.ended,
        "wall_ns": report.wall_ns,
        "programs": report.programs,
        "libraries": report.libraries,
        "reading_threads": report.reading_threads,
        "uncounted": report.uncounted,
        "paused": report.paused,
        "libraries_left_out": report.libraries_left_out,
        "not_loaded": report.not_loaded,
        "unrecorded": report.unrecorded,
        "in_other_session": report.in_other_session,
        "still_running": report.still_running,
        "cuda_processes": report.cuda_processes,
        "unexamined_processes": report.unexamined(),
        "transfers": report.files,
        "sizes": report.sizes,
        "failures": report.failures,
        "buffers": report.buffers,
        "unfinished": report.unfinished,
        "open_calls": report.open_calls,
        "paces": report.paces,
        "statistics": report.statistics,
        "unseen": report.unseen,
        "attached": report.attached,
        "other_calls": report.other_calls,
        "process_io": report.process_io,
        "configurations": report.configurations,
        "properties": report.properties,
        "latencies": report.latencies,
    })
}
