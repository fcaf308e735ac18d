//! The report as a Chrome trace (JSON, for Perfetto). Each run is a process, each slot a track, each span a complete
//! event, and each meter a counter. For a watched program, each process is a process with one track per thread,
//! and the transfers that they submitted.

use crate::core::WatchedCall;
use crate::present::{SessionAnalysis, watch};
use crate::session::State;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Traces use microseconds with fractions.
fn microseconds(ns: u64) -> Value {
    json!(ns as f64 / 1e3)
}

/// Writes the trace, one event at a time.
pub(super) fn write(state: &State, mut out: impl Write) -> io::Result<()> {
    let analysis = SessionAnalysis::new(state);
    let missing = watch::gaps(state);
    let about = match &state.watch {
        Some(_) => json!({"tool": "gds-top", "complete": missing.is_empty(), "missing": missing}),
        None => json!({"tool": "gds-top"}),
    };
    writeln!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
    let mut first = true;
    let mut put = |event: Value| {
        if !std::mem::take(&mut first) {
            out.write_all(b",\n")?;
        }
        crate::text::write_json(&mut out, &event)
    };
    put(json!({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "meters of the machine"}}))?;
    for report in &analysis.runs {
        let lane = report.lane;
        // Process 0 contains the meters of the machine.
        let pid = u64::from(lane.id.0) + 1;
        let share = lane.share.as_ref().map_or_else(String::new, |s| format!(", {}", s.label(&lane.target)));
        let name = format!("{} {} #{}{share}", lane.engine, lane.cache, lane.repeat);
        put(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}))?;
        put(json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}))?;
        let Some(clock_ns) = lane.clock_ns else { continue };
        let mut slots: Vec<u16> = lane.spans.iter().map(|s| s.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            put(
                json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": slot, "args": {"name": format!("slot {slot}")}}),
            )?;
        }
        // Tensor names are shown only if the spans are known to belong to this model.
        let model = state.model_of(lane).filter(|_| !report.rows.is_empty());
        for span in lane.spans.iter() {
            let tensor = span.tensor.and_then(|t| model?.tensors.get(t as usize)).map(|t| &t.name);
            put(json!({
                "ph": "X", "name": span.phase.name(), "cat": "phase", "pid": pid, "tid": span.slot,
                "ts": microseconds(clock_ns.saturating_add(span.start_ns)), "dur": microseconds(span.duration_ns()),
                "args": {"tensor": tensor, "bytes": span.bytes, "offset": span.offset},
            }))?;
        }
    }
    calls(state, &mut put)?;
    if let (Some(report), Some(sentence)) = (&state.watch, watch::incomplete(&missing)) {
        let end = microseconds(report.wall_ns);
        put(json!({"ph": "i", "s": "g", "name": sentence, "cat": "missing", "pid": 0, "tid": 0, "ts": end}))?;
    }
    for timed in &state.samples {
        let pid = timed.lane.map_or(0, |l| u64::from(l.0) + 1);
        for (metric, value) in timed.readings().filter(|(_, v)| v.is_finite()) {
            let name = super::common::metric_name(metric);
            put(
                json!({"ph": "C", "name": name, "pid": pid, "ts": microseconds(timed.at_ns), "args": {"value": value}}),
            )?;
        }
    }
    out.write_all(b"\n]}\n")
}

/// Writes the calls of a watched program, with a process for each of its processes and a track for each thread.
fn calls(state: &State, put: &mut impl FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    let threads: BTreeSet<(u32, u32)> = state.calls.iter().map(|call| (call.process, call.thread)).collect();
    let processes: BTreeSet<u32> = threads.iter().map(|(process, _)| *process).collect();
    for pid in &processes {
        put(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": format!("process {pid}")}}))?;
    }
    for (pid, tid) in threads {
        let name = format!("thread {tid}");
        put(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}))?;
    }
    for (number, call) in state.calls.iter().enumerate() {
        let args = arguments(call);
        let (name, pid, tid, from) = (&call.function, call.process, call.thread, microseconds(call.start_ns));
        if !call.is_submitted() {
            let dur = microseconds(call.duration_ns);
            put(json!({
                "ph": "X", "name": name, "cat": "call", "pid": pid, "tid": tid, "ts": from, "dur": dur, "args": args,
            }))?;
            continue;
        }
        // Transfers of one thread overlap, so they are asynchronous events, which a viewer shows on other tracks.
        let to = microseconds(call.start_ns.saturating_add(call.duration_ns));
        let event = |phase: &str, at: Value, args: Value| {
            json!({
                "ph": phase, "name": name, "cat": "transfer", "id": number, "pid": pid, "tid": tid, "ts": at,
                "args": args,
            })
        };
        put(event("b", from, args))?;
        put(event("e", to, json!({})))?;
    }
    Ok(())
}

/// The facts about a call that are not in other fields of its event. Unknown facts are left out.
fn arguments(call: &WatchedCall) -> Value {
    let mut all = json!(call);
    if let Some(all) = all.as_object_mut() {
        let elsewhere = ["process", "thread", "function", "start_ns", "duration_ns"];
        all.retain(|name, value| !elsewhere.contains(&name.as_str()) && !value.is_null());
        if call.error == 0 {
            all.remove("error");
        }
    }
    all
}
