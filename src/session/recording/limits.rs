//! Limits for untrusted recordings. A small file can unpack to a large one, and a short line can become a large
//! state. So the unpacked file and the state have limits.

use crate::core::{CheckId, Event, EventBody};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Maximum length of the line of an ordinary event, in bytes. The longest line of the shipped recordings has 40 KB.
const LINE_BYTES: u64 = 16 << 20;
/// Maximum length in bytes of the line of a model, of spans or of a watched program. A model with a million tensors
/// needs 150 MB.
const LONG_LINE_BYTES: u64 = 256 << 20;
/// Maximum number of JSON values in an ordinary line. An empty value takes 2 bytes in the file and up to 100 bytes in
/// memory.
const LINE_VALUES: u64 = 500_000;
/// Maximum number of JSON values in a long line. A tensor has about ten values.
const LONG_LINE_VALUES: u64 = 24_000_000;
/// Maximum number of events. A session of eight hours with screens has about a million.
const EVENTS: u64 = 5_000_000;
/// Maximum number of bytes after decompression.
const TOTAL_BYTES: u64 = 2 << 30;
/// Number of decompressed bytes that are accepted for a file of any size.
const FREE_BYTES: u64 = 64 << 20;
/// Maximum ratio of unpacked to compressed bytes above [`FREE_BYTES`]. A model with a million regular tensor names
/// reaches 140, and repeats of one run reach 300.
const RATIO: u64 = 1_000;
/// Maximum number of JSON values in the state, without models, spans and samples. The largest shipped recording has
/// 40 000.
const VALUES: u64 = 5_000_000;
/// Maximum number of planned runs. It is enough for ten engines in one cache state with the maximum number of
/// repeats.
pub const MOST_RUNS: u64 = 10_000;
/// Maximum number of grid cells. The default grid has 40.
const CELLS: u64 = 10_000;
/// Maximum number of tensors of all models and watched files. The largest published models have about 100 000.
const TENSORS: u64 = 4_000_000;
/// Maximum number of files of one model. The largest published models have about 200.
const SHARDS: u64 = 20_000;
/// Maximum number of samples. It is enough for two days with five samples per second.
const SAMPLES: u64 = 1_000_000;
/// Maximum number of messages and fix events.
const MESSAGES: u64 = 100_000;
/// Maximum number of verdicts for different (path, GPU) pairs. It is enough for 1000 paths and ten GPUs.
const VERDICTS: u64 = 10_000;
/// Maximum number of models with different names.
const MODELS: u64 = 1_000;
/// Maximum number of measured ceilings and of engines that cannot run.
const CEILINGS: u64 = 10_000;
/// Maximum number of plans that are run in one session.
const PAGES: u64 = 256;
/// Maximum number of findings, verdicts and fix events on all pages. Each page has a copy of them.
const COPIES: u64 = 200_000;

/// The limits for reading a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of the line of an ordinary event, in bytes.
    pub line_bytes: u64,
    /// Maximum number of events.
    pub events: u64,
    /// Maximum number of bytes after decompression.
    pub total_bytes: u64,
    /// Whether the limits for the state and for the compression ratio apply.
    pub bounded_state: bool,
}

impl Limits {
    /// No limits, for files that this process wrote.
    pub const NONE: Self = Self { line_bytes: u64::MAX, events: u64::MAX, total_bytes: u64::MAX, bounded_state: false };

    /// Maximum length in bytes of the line of an event of this kind.
    pub(super) fn line_bytes_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Ordinary => self.line_bytes,
            Kind::Long => self.line_bytes.max(LONG_LINE_BYTES),
        }
    }

    /// Whether the compression ratio of a stream is higher than that of any real recording.
    pub(super) fn is_bomb(&self, unpacked: u64, compressed: u64) -> bool {
        self.bounded_state && unpacked > FREE_BYTES && unpacked / RATIO > compressed
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: LINE_BYTES, events: EVENTS, total_bytes: TOTAL_BYTES, bounded_state: true }
    }
}

/// The kinds of events, by the possible length of their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ordinary,
    Long,
}

impl Kind {
    /// The kind of an event from the beginning of its line. The writer puts the event's name after the time.
    pub(super) fn of(line: &[u8]) -> Self {
        let head = String::from_utf8_lossy(line.get(..128).unwrap_or(line));
        let kind = head.split_once("\"event\":").and_then(|(_, rest)| rest.trim_start().split('"').nth(1));
        match kind {
            Some("lane_spans_packed" | "lane_spans" | "model_opened" | "program_seen") => Self::Long,
            _ => Self::Ordinary,
        }
    }
}

/// Counts of the events that were read so far.
#[derive(Debug, Default)]
pub(super) struct Taken {
    values: u64,
    runs: u64,
    tensors: u64,
    samples: u64,
    messages: u64,
    ceilings: u64,
    pages: u64,
    copies: u64,
    hashes: RandomState,
    findings: HashSet<CheckId>,
    verdicts: HashSet<u64>,
    models: HashSet<u64>,
}

impl Taken {
    /// Checks whether a line may be parsed. Returns the exceeded limit as an error.
    pub(super) fn line(kind: Kind, values: u64) -> Result<(), String> {
        let most = if kind == Kind::Long { LONG_LINE_VALUES } else { LINE_VALUES };
        within(values, most, "values in one event")
    }

    /// Counts an event before it changes the state.
    ///
    /// # Errors
    /// Returns the exceeded limit.
    pub(super) fn add(&mut self, event: &Event, line_values: u64) -> Result<(), String> {
        match &event.body {
            EventBody::LaneSpans { .. } => return Ok(()),
            EventBody::ModelOpened { model } => {
                within(model.shards.len() as u64, SHARDS, "files of a model")?;
                self.tensors += model.tensors.len() as u64;
                self.models.insert(self.hashes.hash_one(&model.name));
                within(self.models.len() as u64, MODELS, "models")?;
                return within(self.tensors, TENSORS, "tensors");
            }
            EventBody::ProgramSeen { report } => {
                let tensors: usize = report.files.iter().map(|file| file.tensors.len() + 1).sum();
                return within(tensors as u64, TENSORS, "tensors");
            }
            EventBody::Sampled { .. } => {
                self.samples += 1;
                return within(self.samples, SAMPLES, "readings of meters");
            }
            EventBody::LaneProgress { .. } => return Ok(()),
            EventBody::LanePlanned { .. } => {
                self.runs += 1;
                within(self.runs, MOST_RUNS, "runs")?;
            }
            EventBody::GridPlanned { plan } => within(plan.cells.len() as u64, CELLS, "cells")?,
            EventBody::CheckDone { finding } => {
                self.findings.insert(finding.id);
            }
            EventBody::VerdictReached { verdict } => {
                self.verdicts.insert(self.hashes.hash_one((&verdict.path, &verdict.gpu)));
                within(self.verdicts.len() as u64, VERDICTS, "verdicts")?;
            }
            EventBody::FixProgress { progress } => {
                if let Some(finding) = &progress.finding {
                    self.findings.insert(finding.id);
                }
                self.messages += 1;
                within(self.messages, MESSAGES, "messages")?;
            }
            EventBody::Said { .. } => {
                self.messages += 1;
                within(self.messages, MESSAGES, "messages")?;
            }
            EventBody::CeilingMeasured { .. } | EventBody::EngineUnavailable { .. } => {
                self.ceilings += 1;
                within(self.ceilings, CEILINGS, "ceilings")?;
            }
            EventBody::RacePlanStarted { .. } => {
                self.pages += 1;
                self.copies += (self.findings.len() + self.verdicts.len()) as u64 + self.messages;
                within(self.pages, PAGES, "plans")?;
                within(self.copies, COPIES, "findings, verdicts and messages on all plans")?;
            }
            _ => {}
        }
        self.values += line_values;
        within(self.values, VALUES, "values in all events")
    }
}

fn within(count: u64, most: u64, what: &str) -> Result<(), String> {
    if count > most { Err(format!("it has more than {most} {what}")) } else { Ok(()) }
}
