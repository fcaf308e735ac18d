//! The calls of a watched program: latencies by size, a timeline for each thread, and the files with the most bytes.

use super::headline::UNEXPECTED_END;
use super::view::Answer;
use super::watch::{self, moved};
use crate::analysis::SessionEnd;
use crate::core::units::{self, bytes, duration, plural};
use crate::core::{Route, RouteProof, Status, WatchReport, WatchedFile};
use crate::session::State;
use std::collections::BTreeMap;

/// Histogram of reads and batch entries by size and duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The longest duration of each column, as text.
    pub durations: Vec<String>,
    /// The largest size of each row in bytes.
    pub up_to_bytes: Vec<u64>,
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
    let time = |up_to| if up_to == u64::MAX { "longer".to_owned() } else { units::short_duration(up_to) };
    Latencies {
        durations: columns.into_iter().map(time).collect(),
        up_to_bytes: rows.keys().copied().collect(),
        rows: rows.into_iter().map(|(up_to, row)| (size(up_to), row)).collect(),
    }
}

impl Latencies {
    /// The columns with the most reads and the rows with the most bytes, as far as there is space for them, and the
    /// number of reads in the others.
    #[must_use]
    pub fn within(&self, columns: usize, rows: usize) -> (Self, u64) {
        let of_column = |column: usize| units::sum(self.rows.iter().map(|(_, row)| row[column]));
        let shown_columns = largest(self.durations.len(), columns, of_column);
        let reads_of_row = |row: usize| units::sum(shown_columns.iter().map(|column| self.rows[row].1[*column]));
        let of_row = |row: usize| reads_of_row(row).saturating_mul(self.up_to_bytes[row]);
        let shown_rows = largest(self.rows.len(), rows, of_row);
        let shown = Self {
            durations: shown_columns.iter().map(|column| self.durations[*column].clone()).collect(),
            up_to_bytes: shown_rows.iter().map(|row| self.up_to_bytes[*row]).collect(),
            rows: (shown_rows.iter())
                .map(|row| &self.rows[*row])
                .map(|(size, row)| (size.clone(), shown_columns.iter().map(|column| row[*column]).collect()))
                .collect(),
        };
        let hidden = self.reads().saturating_sub(shown.reads());
        (shown, hidden)
    }

    fn reads(&self) -> u64 {
        units::sum(self.rows.iter().flat_map(|(_, row)| row.iter().copied()))
    }
}

/// The indices of the `room` largest of `count` values, in increasing order.
fn largest(count: usize, room: usize, value: impl Fn(usize) -> u64) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..count).collect();
    indices.sort_by_key(|index| std::cmp::Reverse(value(*index)));
    indices.truncate(room);
    indices.sort_unstable();
    indices
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

/// The time window of the timeline and the rates, in nanoseconds since the program started. It ends with the newest
/// call. If no call was recorded, it ends with the newest counters.
#[must_use]
pub fn window(state: &State) -> (u64, u64) {
    let end = state.calls.iter().map(|call| call.start_ns.saturating_add(call.duration_ns)).max();
    let end = end.or_else(|| state.call_rates.last().map(|count| count.at_ns)).unwrap_or(0);
    let first = state.calls.iter().map(|call| call.start_ns).min().unwrap_or(0);
    (first.max(end.saturating_sub(WINDOW_NS)), end)
}

/// Whether calls before the time window are known.
#[must_use]
pub fn is_part(state: &State) -> bool {
    let (start, _) = window(state);
    state.calls.iter().any(|call| call.start_ns < start)
}

/// The threads in the time window, with the busiest thread first.
#[must_use]
pub fn timeline(state: &State, parts: usize) -> Vec<ThreadTime> {
    // A submitted transfer takes no time of its thread.
    let calls = || state.calls.iter().filter(|call| !call.is_submitted());
    let (start, end) = window(state);
    let step = (end - start).div_ceil(parts.max(1) as u64).max(1);
    let mut threads: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for call in calls() {
        let (from, to) = (call.start_ns.max(start), call.start_ns.saturating_add(call.duration_ns).min(end));
        if to <= from {
            continue;
        }
        let busy = threads.entry((call.process, call.thread)).or_insert_with(|| vec![0; parts]);
        let (one, last) = (((from - start) / step) as usize, ((to - 1 - start) / step) as usize);
        for (part, busy) in busy.iter_mut().enumerate().take(last + 1).skip(one) {
            let begin = start + part as u64 * step;
            *busy += to.min(begin.saturating_add(step)).saturating_sub(from.max(begin));
        }
    }
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(_, busy)| std::cmp::Reverse(units::sum(busy.iter().copied())));
    let shares = |busy: Vec<u64>| busy.into_iter().map(|ns| (ns as f64 / step as f64).min(1.0)).collect();
    let rows = threads
        .into_iter()
        .map(|((process, thread), busy)| ThreadTime { name: format!("{process}/{thread}"), shares: shares(busy) });
    rows.collect()
}

/// The files with the most bytes: bytes as a share of those of the first file, bytes, methods and path.
#[must_use]
pub fn top_files(report: &WatchReport, most: usize) -> Vec<(f64, String, String, String)> {
    let has_large = report.files.iter().any(watch::is_large);
    let shown = |file: &&WatchedFile| !has_large || watch::is_large(file) || watch::is_of_cufile(file);
    let mut files: Vec<&WatchedFile> = report.files.iter().filter(shown).collect();
    files.sort_by_key(|file| std::cmp::Reverse(moved(file)));
    let largest = files.first().map_or(0, |file| moved(file));
    let rows = files.into_iter().take(most);
    rows.map(|file| (moved(file) as f64 / largest.max(1) as f64, bytes(moved(file)), methods(file), watch::name(file)))
        .collect()
}

/// The route of a file's transfers and the other methods that moved a tenth of its bytes: `compat, inferred; mapping`.
fn methods(file: &WatchedFile) -> String {
    let has_transfers = file.reads.count + file.writes.count > 0;
    let is_shown = |bytes: u64| bytes > moved(file) / 10;
    let others = [("read calls", file.plain.bytes), ("mapping", file.plain.touched_bytes)];
    let others = others.into_iter().filter(|(_, bytes)| is_shown(*bytes)).map(|(name, _)| name.to_owned());
    let route = has_transfers.then(|| match (file.route, file.proof) {
        (Route::None, RouteProof::AllFailed) => "all failed".to_owned(),
        (Route::None, _) => "route not known".to_owned(),
        _ => watch::route(file),
    });
    let all: Vec<String> = route.into_iter().chain(others).collect();
    match all.is_empty() {
        false => all.join("; "),
        true if watch::is_of_cufile(file) => "registered only".to_owned(),
        true if file.plain.count > 0 => "read calls".to_owned(),
        true if file.plain.mappings > 0 => "mapping".to_owned(),
        true => "opened only".to_owned(),
    }
}

/// The texts of panes without bytes, without calls and without files. `is_over`: no more events will come.
#[must_use]
pub fn nothing_seen(state: &State, is_over: bool) -> [&'static str; 3] {
    let has_ended = state.watch.as_deref().is_some_and(|report| report.ended.is_some());
    match is_over || has_ended || state.ended.is_some() {
        true => ["No bytes were recorded.", "No call was recorded.", "No file was recorded."],
        false => ["No bytes yet.", "No call yet.", "No file yet."],
    }
}

/// The reason why there are no latencies.
#[must_use]
pub fn no_latencies(report: &WatchReport) -> &'static str {
    let reads = || report.files.iter().map(|file| &file.reads);
    if reads().any(|read| read.errors > 0) && reads().all(|read| read.errors >= read.count) {
        return "All reads by cuFile failed, and failed reads have no latency.";
    }
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

/// Sentences about the calls so far. `headline`: the answer as it is shown. If it does not contain the transfers, the
/// first sentence has them.
#[must_use]
pub fn summary(state: &State, report: &WatchReport, headline: &str) -> Vec<String> {
    let calls: u64 = units::sum(report.calls.iter().map(|call| call.count));
    let time = duration(report.wall_ns);
    let made = match watch::amounts(report).filter(|(amounts, _)| !headline.contains(amounts.as_str())) {
        Some((amounts, true)) => format!("At least {amounts} in {time}."),
        Some((amounts, false)) => format!("{amounts} in {time}."),
        // The answer counts transfers, so the sentence says that these are calls of the other functions too.
        None => format!("{} in {time}, of all functions.", plural(calls, "cuFile call")),
    };
    let left_out = state.calls_left_out;
    let left_out = (left_out > 0).then(|| format!("Not in the timeline: {}.", plural(left_out, "call")));
    [made].into_iter().chain(left_out).collect()
}

/// The answers about the program. `is_over`: no more events will come.
#[must_use]
pub fn answers(state: &State, is_over: bool) -> Vec<Answer> {
    let Some(report) = state.watch.as_deref() else { return Vec::new() };
    let end = SessionEnd::of(state.ended, is_over);
    let cut = (end == SessionEnd::Cut).then(|| Answer::new(Status::Warn, UNEXPECTED_END, ""));
    cut.into_iter().chain([watch::answer(report, end)]).chain(watch::end(report)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody, LatencyClass, ProgramEnd, WatchedCall, WatchedLibrary};

    fn call(thread: u32, start_ns: u64, duration_ns: u64) -> WatchedCall {
        WatchedCall { process: 1, thread, start_ns, duration_ns, ..WatchedCall::default() }
    }

    #[test]
    fn the_timeline_has_the_share_of_each_part_and_the_busiest_thread_first() {
        let mut state = State::default();
        let calls = vec![call(5, 0, 10), call(6, 0, 100), call(5, 90, 10)];
        state.reduce(&Event { at_ns: 1, body: EventBody::CallsSeen { calls, left_out: 2 } });
        let threads = timeline(&state, 10);
        assert_eq!(window(&state), (0, 100));
        let names: Vec<_> = threads.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["1/6", "1/5"]);
        assert_eq!(threads[0].shares, [1.0; 10]);
        assert_eq!((threads[1].shares[0], threads[1].shares[5], threads[1].shares[9]), (1.0, 0.0, 1.0));
        assert_eq!(state.calls_left_out, 2);
        assert_eq!(timeline(&State::default(), 10), Vec::new());
    }

    #[test]
    fn latencies_are_a_grid_and_the_sizes_with_the_most_bytes_remain() {
        let class = |up_to_bytes, up_to_ns, count| LatencyClass { up_to_bytes, up_to_ns, count };
        let report = WatchReport {
            latencies: vec![class(4096, 1000, 3), class(4096, u64::MAX, 1), class(16384, 1000, 2)],
            ..WatchReport::default()
        };
        let grid = latencies(&report);
        assert_eq!(grid.durations.len(), 2);
        assert_eq!(grid.rows[0].1, [3, 1]);
        assert_eq!(grid.rows[1].1, [2, 0]);
        assert_eq!(grid.within(2, 2), (grid.clone(), 0));
        let (shown, hidden) = grid.within(1, 1);
        assert_eq!((shown.rows[0].1.as_slice(), shown.up_to_bytes[0], hidden), ([2].as_slice(), 16384, 4));
        assert_eq!(grid.within(0, 0).1, 6);
    }

    #[test]
    fn the_line_of_calls_says_that_it_counts_all_functions() {
        let mut state = State::default();
        state.reduce(&Event { at_ns: 1, body: EventBody::CallsSeen { calls: Vec::new(), left_out: 2 } });
        let text = summary(&state, &WatchReport::default(), "").join(" ");
        assert!(text.contains("of all functions.") && text.ends_with("Not in the timeline: 2 calls."), "{text}");
    }

    #[test]
    fn transfers_are_in_the_summary_if_the_headline_does_not_contain_them() {
        let mut file = watch::answer::tests::file_without_route();
        (file.reads.count, file.reads.bytes, file.reads.errors, file.writes.errors) = (25_000, 4096, 12_000, 800);
        let report = WatchReport {
            programs: 1,
            libraries: vec![WatchedLibrary::default()],
            ended: Some(ProgramEnd::Status(0)),
            files: vec![file],
            ..WatchReport::default()
        };
        let answer = watch::answer(&report, SessionEnd::Complete);
        let of = |headline: &str| summary(&State::default(), &report, headline).join(" ");
        let (short, complete) = (of(&answer.headline), of(&answer.text()));
        assert!(short.contains("25\u{202f}000 reads") && short.contains("12\u{202f}800 failed"), "{short}");
        assert!(complete.contains("of all functions") && !complete.contains("reads"), "{complete}");
    }

    #[test]
    fn each_file_has_its_methods_in_words() {
        let methods = |route: Route, reads: u64, bytes: u64, (calls, touched): (u64, u64)| {
            let mut file = watch::answer::tests::file_without_route();
            (file.route, file.reads.count, file.reads.bytes) = (route, reads, bytes);
            file.registrations = reads;
            file.plain.count = u64::from(calls > 0);
            (file.plain.bytes, file.plain.touched_bytes) = (calls, touched);
            methods(&file)
        };
        assert_eq!(methods(Route::Compat, 1, 4096, (0, 0)), "compat, inferred");
        assert_eq!(methods(Route::Compat, 1, 4096, (100, 4096)), "compat, inferred; mapping");
        assert_eq!(methods(Route::None, 1, 4096, (0, 0)), "route not known");
        assert_eq!(methods(Route::None, 0, 0, (4096, 8192)), "read calls; mapping");
        assert_eq!(methods(Route::None, 0, 0, (4096, 0)), "read calls");
        assert_eq!(methods(Route::None, 0, 0, (0, 0)), "opened only");
    }

    #[test]
    fn nothing_is_expected_after_the_end() {
        let mut state = State::default();
        let running = nothing_seen(&state, false);
        assert_ne!(nothing_seen(&state, true), running);
        state.reduce(&Event { at_ns: 1, body: EventBody::SessionEnded { interrupted: false } });
        assert!(nothing_seen(&state, false).iter().zip(running).all(|(ended, running)| *ended != running));
    }

    #[test]
    fn the_bars_of_files_are_relative_to_the_largest_file() {
        let file = |bytes: u64| {
            let mut file = watch::answer::tests::file_without_route();
            (file.reads.count, file.reads.bytes) = (1, bytes);
            file
        };
        let report = WatchReport { files: vec![file(2 << 20), file(8 << 20), file(4 << 20)], ..WatchReport::default() };
        let shares: Vec<f64> = top_files(&report, 9).into_iter().map(|(share, ..)| share).collect();
        assert_eq!(shares, [1.0, 0.5, 0.25]);
    }

    #[test]
    fn missing_durations_of_an_earlier_version_are_not_batches_without_end() {
        use crate::core::Transfers;
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

    #[test]
    fn failed_reads_are_the_reason_of_missing_latencies() {
        let mut file = watch::answer::tests::file_without_route();
        (file.reads.count, file.reads.errors) = (4, 4);
        let mut report = WatchReport { files: vec![file], ..WatchReport::default() };
        assert!(no_latencies(&report).contains("failed"));
        report.files[0].reads.errors = 3;
        assert!(!no_latencies(&report).contains("failed"));
    }
}
