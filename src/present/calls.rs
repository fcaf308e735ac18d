//! The calls of a watched program over time: rates, latencies by size, a timeline for each thread, and the files with
//! the most bytes.

use super::view::{Answer, GAP};
use super::watch::{self, moved};
use crate::core::units::{self, bytes, count, duration, plural};
use crate::core::{WatchReport, WatchedCall, WatchedFile};
use crate::session::State;
use std::collections::BTreeMap;

/// The rate over time for one method of moving bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The method that moves the bytes.
    pub name: &'static str,
    /// Pairs of the time since the program started, in seconds, and the rate up to that time, in bytes per second.
    pub points: Vec<(f64, f64)>,
}

/// The start of the first call that moved bytes by one of the methods in [`rates`]. `None` if the recording has not all
/// calls.
fn first_ns(state: &State, method: &str) -> Option<u64> {
    let method_of = |call: &WatchedCall| match call.function.as_str() {
        function if function.starts_with("cuMem") => "CUDA copies",
        function if function.starts_with("cuFile") || call.is_submitted() => "cuFile",
        _ => "read calls",
    };
    let of_method = state.calls.iter().filter(|call| call.bytes > 0 && method_of(call) == method);
    of_method.map(|call| call.start_ns).min().filter(|_| state.calls_left_out == 0)
}

/// The rates of cuFile, of reads by libc and of copies to the GPU. A rate that is always 0 is left out.
#[must_use]
pub fn rates(state: &State) -> Vec<Rate> {
    type Reading = fn(&crate::session::CallCount) -> u64;
    let kinds: [(&str, Reading); 3] =
        [("cuFile", |c| c.cufile_bytes), ("read calls", |c| c.plain_bytes), ("CUDA copies", |c| c.copied_bytes)];
    let rate = |name: &str, reading: Reading| -> Vec<(f64, f64)> {
        let start = crate::session::CallCount::default();
        let from = std::iter::once(&start).chain(&state.call_rates);
        let mut points = Vec::new();
        for (before, now) in from.zip(&state.call_rates).filter(|(before, now)| now.at_ns > before.at_ns) {
            let moved = reading(now).saturating_sub(reading(before));
            // In a short run, the time before the first call is a large part of the first step.
            let first = if reading(before) == 0 && moved > 0 { first_ns(state, name) } else { None };
            let first = first.filter(|first| (before.at_ns + 1..now.at_ns).contains(first));
            let rate = moved as f64 * 1e9 / (now.at_ns - first.unwrap_or(before.at_ns)) as f64;
            points.extend(first.into_iter().flat_map(|first| [(first as f64 / 1e9, 0.0), (first as f64 / 1e9, rate)]));
            points.push((now.at_ns as f64 / 1e9, rate));
        }
        points
    };
    let all = kinds.into_iter().map(|(name, reading)| Rate { name, points: rate(name, reading) });
    all.filter(|rate| rate.points.iter().any(|(_, y)| *y > 0.0)).collect()
}

/// Histogram of reads and batch entries by size and duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The longest duration of each column, as text.
    pub durations: Vec<String>,
    /// For each row: the largest size, as text, and the number of reads in each column.
    pub rows: Vec<(String, Vec<u64>)>,
}

/// The histogram of latencies. Empty if no duration was recorded.
#[must_use]
pub fn latencies(report: &WatchReport) -> Latencies {
    let mut columns: Vec<u64> = report.latencies.iter().map(|class| class.up_to_ns).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut rows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for class in &report.latencies {
        let row = rows.entry(class.up_to_bytes).or_insert_with(|| vec![0; columns.len()]);
        if let Some(at) = columns.iter().position(|up_to_ns| *up_to_ns == class.up_to_ns) {
            row[at] += class.count;
        }
    }
    let size = |up_to| if up_to == u64::MAX { "larger".to_owned() } else { bytes(up_to) };
    let time = |up_to| if up_to == u64::MAX { "longer".to_owned() } else { duration(up_to) };
    Latencies {
        durations: columns.into_iter().map(time).collect(),
        rows: rows.into_iter().map(|(up_to, row)| (size(up_to), row)).collect(),
    }
}

/// The share of time that a thread spent in calls, for each part of a time window.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTime {
    /// `process/thread`.
    pub name: String,
    /// Shares from 0 to 1.
    pub shares: Vec<f64>,
}

/// Length of the timeline in nanoseconds. It shows the most recent calls.
const WINDOW_NS: u64 = 30_000_000_000;

/// The time window in seconds and the threads in it, with the busiest thread first.
#[must_use]
pub fn timeline(state: &State, parts: usize) -> ((f64, f64), Vec<ThreadTime>) {
    // A submitted transfer takes no time of its thread.
    let calls = || state.calls.iter().filter(|call| !call.is_submitted());
    let end = calls().map(|call| call.start_ns.saturating_add(call.duration_ns)).max().unwrap_or(0);
    let first = calls().map(|call| call.start_ns).min().unwrap_or(0);
    let start = first.max(end.saturating_sub(WINDOW_NS));
    let step = ((end - start) / parts.max(1) as u64).max(1);
    let mut threads: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for call in calls() {
        let (from, to) = (call.start_ns.max(start), call.start_ns.saturating_add(call.duration_ns).min(end));
        if to <= from {
            continue;
        }
        let busy = threads.entry((call.process, call.thread)).or_insert_with(|| vec![0; parts]);
        let (one, last) = (((from - start) / step) as usize, ((to - 1 - start) / step) as usize);
        for (part, busy) in busy.iter_mut().enumerate().take(last + 1).skip(one) {
            let (begin, finish) = (start + part as u64 * step, start + (part as u64 + 1) * step);
            *busy += to.min(finish).saturating_sub(from.max(begin));
        }
    }
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(_, busy)| std::cmp::Reverse(units::sum(busy.iter().copied())));
    let shares = |busy: Vec<u64>| busy.into_iter().map(|ns| (ns as f64 / step as f64).min(1.0)).collect();
    let rows = threads
        .into_iter()
        .map(|((process, thread), busy)| ThreadTime { name: format!("{process}/{thread}"), shares: shares(busy) });
    ((start as f64 / 1e9, end as f64 / 1e9), rows.collect())
}

/// The files with the most bytes: share of all bytes, bytes, method and path.
#[must_use]
pub fn top_files(report: &WatchReport, most: usize) -> Vec<(f64, String, String, String)> {
    let all: u64 = units::sum(report.files.iter().map(moved));
    let has_large = report.files.iter().any(watch::is_large);
    let without = |file: &WatchedFile| file.plain.bytes.saturating_add(file.plain.touched_bytes);
    let method = |file: &WatchedFile| match (watch::is_of_cufile(file), file.plain.touched_bytes > file.plain.bytes) {
        (true, _) if file.reads.count + file.writes.count > 0 => match without(file) > moved(file) / 10 {
            true => format!("{}, reads", watch::route(file)),
            false => watch::route(file),
        },
        (_, true) => "mapping".to_owned(),
        _ if file.plain.count > 0 => "read calls".to_owned(),
        _ => GAP.to_owned(),
    };
    let shown = |file: &&WatchedFile| !has_large || watch::is_large(file) || watch::is_of_cufile(file);
    let mut files: Vec<&WatchedFile> = report.files.iter().filter(shown).collect();
    files.sort_by_key(|file| std::cmp::Reverse(moved(file)));
    let rows = files.into_iter().take(most);
    rows.map(|file| (moved(file) as f64 / all.max(1) as f64, bytes(moved(file)), method(file), watch::name(file)))
        .collect()
}

/// The reason why there are no latencies.
#[must_use]
pub fn no_latencies(report: &WatchReport) -> &'static str {
    let reads = || report.files.iter().map(|file| &file.reads);
    let has_batches = reads().any(|read| read.batched > 0);
    // Without durations, entries that moved bytes are from a recording of an earlier version.
    let ended = reads().any(|read| read.batched > 0 && read.bytes > 0 && read.streamed < read.count);
    match (has_batches, ended, reads().any(|read| read.streamed > 0), report.ended.is_some()) {
        (true, true, _, _) => "The recording has no durations of batch entries: an earlier version of gds-top made it.",
        (true, false, _, false) => "No batch entry has ended yet.",
        (true, false, _, true) => "No batch entry ended.",
        (false, _, true, _) => "The reads are on streams; their durations are not known.",
        (false, _, false, false) => "No single read by cuFile yet.",
        (false, _, false, true) => "The program made no single read by cuFile.",
    }
}

/// One line that summarizes the calls so far.
#[must_use]
pub fn summary(state: &State, report: &WatchReport) -> String {
    let calls: u64 = units::sum(report.calls.iter().map(|call| call.count));
    let left_out = match state.calls_left_out {
        0 => String::new(),
        n => format!("; not in the timeline: {}", count(n)),
    };
    format!("{} in {}{left_out}", plural(calls, "cuFile call"), duration(report.wall_ns))
}

/// The answers about the program.
#[must_use]
pub fn answers(report: &WatchReport) -> Vec<Answer> {
    std::iter::once(watch::answer(report)).chain(watch::end(report)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody, LatencyClass, PlainReads};

    fn call(thread: u32, start_ns: u64, duration_ns: u64) -> WatchedCall {
        WatchedCall { process: 1, thread, start_ns, duration_ns, ..WatchedCall::default() }
    }

    #[test]
    fn the_timeline_has_the_share_of_each_part_and_the_busiest_thread_first() {
        let mut state = State::default();
        let calls = vec![call(5, 0, 10), call(6, 0, 100), call(5, 90, 10)];
        state.reduce(&Event { at_ns: 1, body: EventBody::CallsSeen { calls, left_out: 2 } });
        let (window, threads) = timeline(&state, 10);
        assert_eq!(window, (0.0, 1e-7));
        let names: Vec<_> = threads.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["1/6", "1/5"]);
        assert_eq!(threads[0].shares, [1.0; 10]);
        assert_eq!((threads[1].shares[0], threads[1].shares[5], threads[1].shares[9]), (1.0, 0.0, 1.0));
        assert_eq!(state.calls_left_out, 2);
        assert_eq!(timeline(&State::default(), 10).1, Vec::new());
    }

    #[test]
    fn rates_are_differences_and_latencies_a_grid() {
        let mut state = State::default();
        for (seconds, read) in [(1, 100), (2, 100), (4, 500)] {
            let mut report = WatchReport { wall_ns: seconds * 1_000_000_000, ..WatchReport::default() };
            report.files = vec![crate::core::WatchedFile {
                plain: PlainReads { bytes: read, ..PlainReads::default() },
                ..watch::answer::tests::file_without_route()
            }];
            state.reduce(&Event { at_ns: seconds, body: EventBody::ProgramSeen { report: Box::new(report) } });
        }
        let rates = rates(&state);
        let plain = rates.iter().find(|rate| rate.name == "read calls").unwrap();
        let values: Vec<f64> = plain.points.iter().map(|(_, y)| *y).collect();
        assert_eq!(values[1..], [0.0, 200.0]);
        let class = |up_to_bytes, up_to_ns, count| LatencyClass { up_to_bytes, up_to_ns, count };
        let report = WatchReport {
            latencies: vec![class(4096, 1000, 3), class(4096, u64::MAX, 1), class(16384, 1000, 2)],
            ..WatchReport::default()
        };
        let grid = latencies(&report);
        assert_eq!(grid.durations.len(), 2);
        assert_eq!(grid.rows[0].1, [3, 1]);
        assert_eq!(grid.rows[1].1, [2, 0]);
    }

    #[test]
    fn the_rate_of_a_short_run_begins_at_the_first_call() {
        let mut state = State::default();
        let read = |start_ns| WatchedCall { function: "pread".to_owned(), bytes: 50, ..call(5, start_ns, 10_000_000) };
        let calls = vec![read(300_000_000), read(280_000_000)];
        state.reduce(&Event { at_ns: 1, body: EventBody::CallsSeen { calls, left_out: 0 } });
        for (wall_ns, bytes) in [(1000, 0), (330_000_000, 100)] {
            let plain = PlainReads { bytes, ..PlainReads::default() };
            let file = WatchedFile { plain, ..watch::answer::tests::file_without_route() };
            let report = WatchReport { wall_ns, files: vec![file], ..WatchReport::default() };
            state.reduce(&Event { at_ns: 2, body: EventBody::ProgramSeen { report: Box::new(report) } });
        }
        let points = |state: &State| {
            let all = rates(state);
            all.iter().find(|rate| rate.name == "read calls").unwrap().points.clone()
        };
        assert_eq!(points(&state), [(1e-6, 0.0), (0.28, 0.0), (0.28, 2000.0), (0.33, 2000.0)]);
        // The first call may be one that was left out.
        state.calls_left_out = 1;
        assert_eq!(points(&state).len(), 2);
    }

    #[test]
    fn missing_durations_of_an_earlier_version_are_not_batches_without_end() {
        use crate::core::{ProgramEnd, Transfers};
        let why = |count, batched, streamed, bytes, ended: bool| {
            let mut file = watch::answer::tests::file_without_route();
            file.reads = Transfers { count, bytes, batched, streamed, ..Transfers::default() };
            let ended = ended.then_some(ProgramEnd::Status(0));
            no_latencies(&WatchReport { files: vec![file], ended, ..WatchReport::default() })
        };
        let reasons = [
            why(4, 4, 0, 4096, true),
            why(4, 4, 0, 0, true),
            why(4, 4, 0, 0, false),
            why(4, 0, 4, 4096, true),
            why(0, 0, 0, 0, true),
            why(0, 0, 0, 0, false),
        ];
        assert_eq!(reasons.iter().collect::<std::collections::BTreeSet<_>>().len(), reasons.len());
    }
}
