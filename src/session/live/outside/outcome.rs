//! Converts the observations and messages of a command to the result of a run.

use super::evidence::Seen;
use super::lines::{Ended, clipped};
use super::watch::Watched;
use crate::core::{Engine, LaneOrder, Note, Outside, PhaseTimes, RunResult, Span, units};
use crate::engines::nvfs_reads;
use crate::engines::protocol::monotonic_ns;
use crate::session::live::process::signal_words;
use crate::telemetry::tree::TreeUse;
use std::collections::BTreeMap;

/// A command may load more bytes than the files contain, because it may use a wider type. More than this multiple is
/// an error.
const MOST_TIMES: u64 = 8;

/// The exit status of a script if the loader's package is not installed.
const NOT_INSTALLED: i32 = 3;

impl Watched {
    /// Writes the observations into the result.
    pub(super) fn fill(&mut self, result: &mut RunResult, order: &LaneOrder, words: &str) {
        let ended = self.received.ended.clone().unwrap_or_default();
        // Without `done`, the clock stops at the end of the command, so the final resource use of the process tree is
        // complete.
        if self.received.done_ns.is_none() {
            let stop = self.at_stop.get_or_insert_default();
            stop.read_call_bytes = ended.read_call_bytes.or(stop.read_call_bytes);
            stop.storage_read_bytes = ended.storage_read_bytes.or(stop.storage_read_bytes);
            stop.cpu_ns = ended.cpu_ns.unwrap_or(stop.cpu_ns);
            stop.major_faults = ended.major_faults.unwrap_or(stop.major_faults);
        }
        // The start of the keeper and the supervisor is not part of the load.
        let began_ns = ended.started_ns.filter(|at| *at >= self.started_ns).unwrap_or(self.started_ns);
        let start_ns = self.received.ready_ns.unwrap_or(began_ns);
        let stop_ns = self.received.done_ns.or(self.received.ended_ns).unwrap_or_else(monotonic_ns).max(start_ns);
        result.wall_ns = stop_ns - start_ns;
        result.setup_ns = start_ns.saturating_sub(order.spawned_monotonic_ns);
        result.setup_parts_ns = BTreeMap::from([
            ("page_cache".to_owned(), self.started_ns.saturating_sub(order.spawned_monotonic_ns)),
            ("command".to_owned(), start_ns.saturating_sub(self.started_ns)),
        ]);
        let complete = self.received.ready_ns.is_none();
        let files = order.model.file_bytes();
        let believed = self.received.bytes.filter(|bytes| *bytes <= files.saturating_mul(MOST_TIMES));
        if let (Some(claimed), None) = (self.received.bytes, believed) {
            self.received.note(Note::ImplausibleBytes { claimed, files_bytes: files });
        }
        let (bytes, bytes_source) = match (believed, self.moved(complete)) {
            (Some(bytes), _) => (bytes, "reported by the command".to_owned()),
            (None, Some((bytes, counter))) => (
                bytes,
                format!(
                    "{counter} of /proc/PID/io, all processes; bytes read through mappings of the page cache are not counted there"
                ),
            ),
            (None, None) => (0, "not known: /proc/PID/io could not be read".to_owned()),
        };
        result.bytes = bytes;
        result.bytes_per_s = units::bytes_per_s(bytes, result.wall_ns).unwrap_or(0.0);
        // If a command claims more bytes than exist, its claim that it compared them is not trusted either.
        result.verified = self.received.verified.filter(|_| self.received.bytes == believed);
        let (spans, slots) = self.received.spans(start_ns, result.wall_ns);
        result.phases =
            if spans.is_empty() { PhaseTimes::default() } else { Span::phase_times(&spans, result.wall_ns, slots) };
        result.slots = slots;
        self.spans = spans;
        let stop = self.at_stop.clone().unwrap_or_default();
        let start = if complete { TreeUse::default() } else { self.at_start.clone() };
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        result.cpu_ns = Some(stop.cpu_ns.saturating_sub(start.cpu_ns)).filter(|ns| *ns > 0);
        result.host_peak_bytes = self.most_shared_once.or(self.most_rss);
        result.pinned_peak_bytes = None;
        result.gpu_peak_bytes =
            self.most_gpu_of_tree.or_else(|| self.gpu_memory.map(|(first, most)| (most - first) as u64));
        self.seen.nvfs = self.nvfs_before.and_then(|before| Some(nvfs_reads()?.saturating_sub(before)));
        self.seen.log = Seen::read_log(&order.scratch);
        let (route, how) = self.seen.route();
        result.route = route;
        result.error = self.error(&order.engine, words, &ended);
        let exit = match (ended.code, ended.signal) {
            (Some(code), _) => format!("status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown".to_owned(),
        };
        result.outside = Some(Outside {
            program: self.received.program.clone(),
            exit,
            stderr_tail: Some(words.to_owned()).filter(|words| !words.is_empty()),
            clock: if complete {
                "from the start of the process to its end"
            } else {
                "from its line 'ready' to its line 'done'"
            }
            .to_owned(),
            bytes_source,
            // A process may have ended before it was counted, so there is at least one.
            processes: self.most_processes.max(1),
            read_call_bytes: since(stop.read_call_bytes, start.read_call_bytes),
            storage_read_bytes: since(stop.storage_read_bytes, start.storage_read_bytes),
            major_faults: Some(stop.major_faults.saturating_sub(start.major_faults)),
            rss_peak_bytes: self.most_rss,
            pss_peak_bytes: self.most_shared_once,
        });
        result.notes.extend(self.notes(result, files, complete, how));
        if ended.left > 0 {
            result.notes.push(Note::ProcessesLeft { processes: ended.left.into() });
        }
    }

    /// The reason why the run failed; `None` if it did not fail.
    fn error(&self, engine: &Engine, words: &str, ended: &Ended) -> Option<String> {
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).map(|line| clipped(line.trim()));
        let last = last.as_deref().unwrap_or_default();
        let said = if last.is_empty() { String::new() } else { format!("; standard error ends with: {last}") };
        match (ended.code, ended.signal, &self.received.error) {
            (_, _, Some(error)) => Some(error.clone()),
            (Some(0), _, None) if self.received.ready_ns.is_some() && self.received.done_ns.is_none() => {
                Some(format!("it reported that it was ready and ended without reporting that it was done{said}"))
            }
            (Some(0), ..) => None,
            (Some(NOT_INSTALLED), ..) if matches!(engine, Engine::Loader(_)) && !last.is_empty() => {
                Some(last.to_owned())
            }
            (Some(127), ..) => Some(format!("ended with status 127: the shell found no such program{said}")),
            (Some(126), ..) => Some(format!(
                "ended with status 126: the shell found the program and could not run it; it may lack the permission to be executed{said}"
            )),
            (Some(code), ..) => Some(format!("ended with status {code}{said}")),
            (None, Some(signal), _) => Some(format!("was killed by signal {}{said}", signal_words(signal))),
            (None, None, _) => Some(format!("how it ended is not known{said}")),
        }
    }

    /// A note if the counters do not match one load of the complete model.
    fn doubts(&self, outside: &Outside, files_bytes: u64) -> Option<Note> {
        let read_bytes = outside.read_call_bytes?.max(outside.storage_read_bytes?);
        if read_bytes < files_bytes / 2 && self.received.bytes.is_none() {
            return Some(Note::ReadTooLittle { read_bytes, files_bytes });
        }
        (files_bytes > 0 && read_bytes >= files_bytes.saturating_mul(3) / 2)
            .then(|| Note::ReadTooMuch { times: read_bytes as f64 / files_bytes as f64 })
    }

    fn notes(&self, result: &RunResult, files: u64, complete: bool, evidence: String) -> Vec<Note> {
        let mut notes = Vec::new();
        notes.extend(self.received.program.clone().map(|program| Note::Program { program }));
        notes.extend(self.received.notes.iter().cloned());
        notes.extend(self.received.more_garbled());
        if result.error.is_some() {
            return notes;
        }
        if complete {
            notes.push(Note::ClockIncludesSetup);
        } else if result.phases == PhaseTimes::default() {
            notes.push(Note::NoPhases);
        }
        if let Some(outside) = &result.outside {
            let Outside { read_call_bytes, storage_read_bytes, .. } = *outside;
            notes.push(Note::SeenFromOutside { read_call_bytes, storage_read_bytes });
            notes.extend(self.doubts(outside, files));
            if self.received.bytes.is_none() {
                notes.push(Note::BytesSource { source: outside.bytes_source.clone() });
            }
        }
        if self.most_gpu_of_tree.is_some() {
            notes.push(Note::GpuMemoryOfProcesses);
        } else if self.gpu_memory.is_some() {
            notes.push(Note::GpuMemoryOfGpu);
        }
        notes.push(Note::RouteEvidence { evidence });
        if result.verified.is_some() {
            notes.push(Note::VerifiedByCommand);
        }
        notes
    }
}
