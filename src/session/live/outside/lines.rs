//! The line protocol of commands, on the file descriptor in `GDS_TOP_FD`. Each line is a JSON object, and every key
//! is optional.
//!
//! | key | meaning |
//! |---|---|
//! | `at_ns` | time of the event, from CLOCK_MONOTONIC (Python's `time.monotonic_ns()`); without it, the time at which the line arrived |
//! | `program` | name and version of the loader |
//! | `ready` | true: the set-up is complete, the clock starts |
//! | `phase`, `ns` | name of a phase of the report and its duration; it ends at `at_ns`. Optional: `slot` (a timeline, default 0) and `bytes` |
//! | `landed` | number of bytes on the target so far |
//! | `done` | true: all bytes are on the target, the clock stops. Optional: `bytes`, the number of loaded bytes |
//! | `verified` | whether the bytes equal the file's bytes, if the command compared them |
//! | `note`, `error` | a sentence for the report; `error` means that the run failed |

use crate::core::{Note, Phase, Span, units};
use crate::engines::protocol::monotonic_ns;
use crate::session::live::lines::{Line as Piece, Lines};
use crate::session::live::process::plain;
use crossbeam_channel::{Receiver, Sender, bounded};
use serde::Deserialize;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;

/// Maximum length of a line in bytes.
const LONGEST_LINE: u64 = 1 << 16;

/// Maximum number of lines per second. A loader that reports each tensor of a large model within one second is below
/// this limit. More lines would use a CPU that the load needs.
const MOST_LINES_PER_S: u64 = 100_000;
/// Maximum number of lines in the queue, which is 16 MiB at most. A command that writes faster has to wait.
const QUEUE: usize = 256;

/// A line with its arrival time in CLOCK_MONOTONIC nanoseconds.
pub(super) type Arrived = (u64, String);

/// The lines of a stream, and the number of dropped lines.
#[derive(Clone, Debug)]
pub(super) struct LineStream {
    /// The lines.
    pub(super) lines: Receiver<Arrived>,
    dropped: Arc<AtomicU64>,
}

impl LineStream {
    /// Starts to read a stream. Reading ends when the stream closes or the receiver is dropped.
    pub(super) fn start(pipe: impl Read + Send + 'static) -> std::io::Result<Self> {
        let (send, lines) = bounded(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        Builder::new().spawn(move || read_lines(pipe, &send, &counted))?;
        Ok(Self { lines, dropped })
    }

    /// A note about the dropped lines.
    pub(super) fn note(&self) -> Option<Note> {
        let lines = self.dropped.load(Ordering::Relaxed);
        (lines > 0).then_some(Note::LinesDropped {
            lines,
            longest_kib: LONGEST_LINE >> 10,
            most_per_s: MOST_LINES_PER_S,
        })
    }
}

fn read_lines(pipe: impl Read, to: &Sender<Arrived>, dropped: &AtomicU64) {
    let mut lines = Lines::new(pipe, LONGEST_LINE);
    let (mut second, mut taken) = (0, 0_u64);
    while let Some(line) = lines.next() {
        let now_ns = monotonic_ns();
        if now_ns / units::NS_PER_S != second {
            (second, taken) = (now_ns / units::NS_PER_S, 0);
        }
        taken += 1;
        match line {
            // Lines about the start and end of the clock are always kept, because the times of the run depend on
            // them. The last line of the supervisor is always kept too.
            Piece::Complete(bytes) if taken <= MOST_LINES_PER_S || marks(bytes) => {
                if to.send((now_ns, String::from_utf8_lossy(bytes).into_owned())).is_err() {
                    return;
                }
            }
            _ => {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Whether a line may contain a key that must not be lost.
fn marks(line: &[u8]) -> bool {
    let has = |key: &str| line.windows(key.len()).any(|part| part == key.as_bytes());
    ["\"supervisor\"", "\"ready\"", "\"done\"", "\"error\""].into_iter().any(has)
}

/// A parsed line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    at_ns: Option<u64>,
    program: Option<String>,
    ready: bool,
    phase: Option<String>,
    ns: Option<u64>,
    slot: u16,
    bytes: Option<u64>,
    landed: Option<u64>,
    done: bool,
    verified: Option<bool>,
    note: Option<String>,
    error: Option<String>,
    pub(super) supervisor: Option<Ended>,
}

/// The last line of the supervisor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Ended {
    /// CLOCK_MONOTONIC time in nanoseconds just before the command was started.
    pub(super) started_ns: Option<u64>,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) storage_read_bytes: Option<u64>,
    pub(super) read_call_bytes: Option<u64>,
    pub(super) cpu_ns: Option<u64>,
    pub(super) major_faults: Option<u64>,
    /// Number of processes that were still running when the command itself had ended.
    pub(super) left: u32,
}

/// Maximum length of a command's sentence in a report, in characters.
const LONGEST_WORDS: usize = 400;

/// The beginning of a text, with a mark if it was cut.
pub(super) fn clipped(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST_WORDS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Maximum number of spans that are kept of one command, which limits the memory.
const MOST_SPANS: usize = 1 << 20;
/// Maximum number of notes that are kept of one command.
const MOST_NOTES: usize = 20;

/// Maximum number of invalid lines that are reported one by one. Further ones are only counted.
const MOST_GARBLED: u64 = 3;

/// All messages of a command so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CommandMessages {
    pub(super) program: Option<String>,
    /// CLOCK_MONOTONIC time of `ready` in nanoseconds.
    pub(super) ready_ns: Option<u64>,
    /// CLOCK_MONOTONIC time of `done` in nanoseconds.
    pub(super) done_ns: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) landed: Option<u64>,
    pub(super) verified: Option<bool>,
    pub(super) notes: Vec<Note>,
    pub(super) error: Option<String>,
    pub(super) ended: Option<Ended>,
    /// CLOCK_MONOTONIC time at which the command ended, in nanoseconds.
    pub(super) ended_ns: Option<u64>,
    /// Number of invalid lines that were not reported one by one.
    garbled: u64,
    /// CLOCK_MONOTONIC time of the start in nanoseconds. Earlier times in messages are ignored.
    not_before_ns: u64,
    /// The phases: phase, slot, end time, duration and bytes.
    phases: Vec<(Phase, u16, u64, u64, u64)>,
}

impl CommandMessages {
    /// No messages yet, for a command that started at this time.
    pub(super) fn since(not_before_ns: u64) -> Self {
        Self { not_before_ns, ..Self::default() }
    }

    /// Parses a line that arrived at `now_ns`. A line that is not a JSON object is reported once.
    pub(super) fn take(&mut self, text: &str, now_ns: u64) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let mut line: Line = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(error) => {
                let line = plain(text).chars().take(80).collect();
                let note = Note::LineNotUnderstood { error: error.to_string(), line };
                if !self.notes.contains(&note) {
                    self.garbled += 1;
                    if self.garbled <= MOST_GARBLED {
                        self.note(note);
                    }
                }
                return;
            }
        };
        // A time in the future, before the start, or from another clock would make the results wrong, so it is
        // ignored.
        let at_ns = line.at_ns.filter(|at| (self.not_before_ns..=now_ns).contains(at)).unwrap_or(now_ns);
        for words in [&mut line.program, &mut line.note, &mut line.error].into_iter().flatten() {
            *words = clipped(&plain(words));
        }
        if line.program.is_some() {
            self.program = line.program;
        }
        if line.ready && self.ready_ns.is_none() {
            self.ready_ns = Some(at_ns);
        }
        if let Some(name) = &line.phase {
            let phase = serde_json::from_value::<Phase>(serde_json::Value::String(name.clone()));
            match (phase, line.ns) {
                (Ok(phase), Some(ns)) if self.phases.len() < MOST_SPANS => {
                    self.phases.push((phase, line.slot, at_ns.saturating_sub(ns), at_ns, line.bytes.unwrap_or(0)));
                }
                (Ok(_), Some(_)) => self.note(Note::TooManyPhases { kept: MOST_SPANS as u64 }),
                (Ok(_), None) => self.note(Note::PhaseWithoutTime { phase: name.clone() }),
                (Err(_), _) => self.note(Note::UnknownPhase { phase: name.clone() }),
            }
        }
        if line.done && self.done_ns.is_none() {
            self.done_ns = Some(at_ns);
            self.bytes = line.bytes;
        }
        self.landed = line.landed.or(self.landed);
        self.verified = line.verified.or(self.verified);
        self.error = line.error.or(self.error.take());
        if let Some(text) = line.note {
            self.note(Note::Claim { text });
        }
        if line.supervisor.is_some() {
            self.ended = line.supervisor;
            self.ended_ns = Some(at_ns);
        }
    }

    /// A note about invalid lines that were not reported one by one.
    pub(super) fn more_garbled(&self) -> Option<Note> {
        let lines = self.garbled.saturating_sub(MOST_GARBLED);
        (lines > 0).then_some(Note::MoreLinesNotUnderstood { lines })
    }

    pub(super) fn note(&mut self, note: Note) {
        if self.notes.len() < MOST_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The phases as spans, and the number of slots. The clock started at `start_ns` and ran for `wall_ns`; spans are
    /// cut at both ends. Spans of a slot never overlap: if two phases overlap, the earlier one keeps the time.
    pub(super) fn spans(&self, start_ns: u64, wall_ns: u64) -> (Vec<Span>, u32) {
        let mut spans: Vec<Span> = self
            .phases
            .iter()
            .map(|(phase, slot, start, end, bytes)| Span {
                slot: *slot,
                phase: *phase,
                tensor: None,
                start_ns: start.saturating_sub(start_ns),
                end_ns: end.saturating_sub(start_ns).min(wall_ns),
                bytes: *bytes,
                offset: 0,
            })
            .collect();
        spans.sort_by_key(|span| (span.slot, span.start_ns, span.end_ns));
        let mut before = (0, 0);
        for span in &mut spans {
            if before.0 == span.slot {
                span.start_ns = span.start_ns.max(before.1);
            }
            before = (span.slot, span.end_ns.max(span.start_ns));
        }
        spans.retain(|span| span.start_ns < span.end_ns);
        let slots = spans.iter().map(|span| u32::from(span.slot) + 1).max().unwrap_or(0);
        (spans, slots)
    }
}

/// Parses bytes as if a command had written them, and returns the number of spans and notes. Tests of hostile input
/// use it.
#[doc(hidden)]
#[must_use]
pub fn read_protocol(bytes: &[u8]) -> (usize, usize) {
    let mut received = CommandMessages::since(0);
    let mut lines = Lines::new(bytes, LONGEST_LINE);
    let mut now_ns = 0;
    while let Some(line) = lines.next() {
        now_ns += 1;
        if let Piece::Complete(bytes) = line {
            received.take(&String::from_utf8_lossy(bytes), now_ns);
        }
    }
    (received.spans(0, u64::MAX).0.len(), received.notes.len())
}
