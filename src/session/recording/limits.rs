//! Limits of a recording from a stranger. A small file can unpack to much, and a short line can become a large state; so the state has limits, too.

use crate::core::{Event, EventBody};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Longest line of an ordinary event. The longest of the recorded sessions has 40 KB.
const LINE_BYTES: u64 = 16 << 20;
/// Longest line of a model, of spans and of a watched program: a model of a million tensors takes 150 MB.
const LONG_LINE_BYTES: u64 = 256 << 20;
/// JSON values in an ordinary line. A value without content takes 2 bytes of the file and up to 100 of memory.
const LINE_VALUES: u64 = 500_000;
/// JSON values in a long line. A tensor has about ten.
const LONG_LINE_VALUES: u64 = 24_000_000;
/// Events. A session of eight hours with screens has about a million.
const EVENTS: u64 = 5_000_000;
/// Bytes after decompression.
const TOTAL_BYTES: u64 = 2 << 30;
/// Bytes after decompression that are accepted of a file of any size.
const FREE_BYTES: u64 = 64 << 20;
/// Beyond them, the largest ratio of unpacked to compressed bytes. A million tensors with regular names reach 140, repeats of one run 300.
const RATIO: u64 = 1_000;
/// JSON values that the state keeps, models, spans and samples excepted. The largest recorded session has 40 000.
const VALUES: u64 = 5_000_000;
/// Planned runs: ten engines in one cache state with the most repeats that the command line accepts.
const RUNS: u64 = 10_000;
/// Cells of a grid. The default grid has 40.
const CELLS: u64 = 10_000;
/// Tensors of all models and watched files. The largest published models have about 100 000.
const TENSORS: u64 = 4_000_000;
/// Files of one model. The largest published models have about 200.
const SHARDS: u64 = 20_000;
/// Readings of meters: two days at five a second.
const SAMPLES: u64 = 1_000_000;
/// Messages, and news of fixes.
const MESSAGES: u64 = 100_000;
/// Verdicts of different (path, GPU) pairs: 1000 paths on ten GPUs.
const VERDICTS: u64 = 10_000;
/// Findings with different ids. There are about 100 checks.
const FINDINGS: u64 = 4_096;
/// Models with different names.
const MODELS: u64 = 1_000;
/// Measured ceilings, and engines that cannot run.
const CEILINGS: u64 = 10_000;
/// Plans of the Race screen in one session.
const PAGES: u64 = 256;
/// Findings, verdicts and news of fixes on all pages: each page has a copy.
const COPIES: u64 = 200_000;

/// How much of a recording is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line of an ordinary event, in bytes.
    pub line_bytes: u64,
    /// Most events.
    pub events: u64,
    /// Most bytes after decompression.
    pub total_bytes: u64,
    /// Whether the limits on the state and on the ratio of compression apply.
    pub bounded_state: bool,
}

impl Limits {
    /// For what this process wrote itself.
    pub const NONE: Self = Self { line_bytes: u64::MAX, events: u64::MAX, total_bytes: u64::MAX, bounded_state: false };

    /// Longest line of an event of this kind.
    pub(super) fn line_bytes_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Ordinary => self.line_bytes,
            Kind::Long => self.line_bytes.max(LONG_LINE_BYTES),
        }
    }

    /// Whether a stream of these sizes is more than a recording has.
    pub(super) fn is_bomb(&self, unpacked: u64, compressed: u64) -> bool {
        self.bounded_state && unpacked > FREE_BYTES && unpacked / RATIO > compressed
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: LINE_BYTES, events: EVENTS, total_bytes: TOTAL_BYTES, bounded_state: true }
    }
}

/// Whether the line of an event can be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ordinary,
    Long,
}

impl Kind {
    /// By the beginning of the line; the writer puts the kind behind the time.
    pub(super) fn of(line: &[u8]) -> Self {
        let head = String::from_utf8_lossy(line.get(..128).unwrap_or(line));
        let kind = head.split_once("\"event\":").and_then(|(_, rest)| rest.trim_start().split('"').nth(1));
        match kind {
            Some("lane_spans_packed" | "lane_spans" | "model_opened" | "program_seen") => Self::Long,
            _ => Self::Ordinary,
        }
    }
}

/// The input from which the state was made so far.
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
    findings: HashSet<u64>,
    verdicts: HashSet<u64>,
    models: HashSet<u64>,
}

impl Taken {
    /// Whether a line may be parsed at all; otherwise why not.
    pub(super) fn line(kind: Kind, values: u64) -> Result<(), String> {
        let most = if kind == Kind::Long { LONG_LINE_VALUES } else { LINE_VALUES };
        within(values, most, "values in one event")
    }

    /// Adds an event, before the state gets it.
    ///
    /// # Errors
    /// Which limit it exceeds.
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
                within(self.runs, RUNS, "runs")?;
            }
            EventBody::GridPlanned { plan } => within(plan.cells.len() as u64, CELLS, "cells")?,
            EventBody::CheckDone { finding } => self.finding(&finding.id)?,
            EventBody::VerdictReached { verdict } => {
                self.verdicts.insert(self.hashes.hash_one((&verdict.path, &verdict.gpu)));
                within(self.verdicts.len() as u64, VERDICTS, "verdicts")?;
            }
            EventBody::FixProgress { progress } => {
                if let Some(finding) = &progress.finding {
                    self.finding(&finding.id)?;
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

    fn finding(&mut self, id: &str) -> Result<(), String> {
        self.findings.insert(self.hashes.hash_one(id));
        within(self.findings.len() as u64, FINDINGS, "findings")
    }
}

fn within(count: u64, most: u64, what: &str) -> Result<(), String> {
    if count > most { Err(format!("it has more than {most} {what}")) } else { Ok(()) }
}
