//! Reads a recording: lenient with the traces of a crash or a later version, strict with hostile input.

use super::header::{Header, RECORDING_VERSION, RecordingError, partial_name};
use super::spans::{self, KIND, SpansOf};
use super::version1::Version1;
use crate::core::{Event, LaneId};
use crate::text::{sanitise_line, truncate};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use zstd::stream::read::Decoder;

/// The header is short; a longer first line is not a header.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;

/// How much of a recording is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, in bytes.
    pub line_bytes: u64,
    /// Most events.
    pub events: u64,
    /// Most bytes after decompression.
    pub total_bytes: u64,
}

impl Limits {
    /// For what this process wrote itself.
    pub const NONE: Self = Self { line_bytes: u64::MAX, events: u64::MAX, total_bytes: u64::MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 64 << 20, events: 5_000_000, total_bytes: 2 << 30 }
    }
}

/// Counts of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events given out.
    pub events: u64,
    /// Events passed over because this program does not know their kind or cannot read them, by kind.
    pub skipped: BTreeMap<String, u64>,
    /// Why the end is missing, if it is: the session was killed or the file was cut.
    pub truncated: Option<String>,
}

impl Summary {
    /// A sentence on missing events, or `None` if there are none.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(why) = &self.truncated {
            parts.push(format!("the end of the recording is missing ({why}); it ends after {} events", self.events));
        }
        let count: u64 = self.skipped.values().sum();
        if count > 0 {
            let kinds: Vec<&str> = self.skipped.keys().map(String::as_str).collect();
            parts.push(format!("{count} events that this version cannot read were passed over ({})", kinds.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Opens a recording with the usual [`Limits`].
///
/// # Errors
/// If the file cannot be opened, is not a regular file or not a recording, or is of a later version.
pub fn read(path: &Path) -> Result<Reader, RecordingError> {
    Reader::open(path, Limits::default())
}

/// Opens a recording with other limits.
///
/// # Errors
/// As [`read`].
pub fn read_with(path: &Path, limits: Limits) -> Result<Reader, RecordingError> {
    Reader::open(path, limits)
}

/// A place between two events, from which another reader of the same recording reads on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    line_number: u64,
    summary: Summary,
    version1: Option<Version1>,
}

/// Returns the events of a recording in order. After an error it ends; a missing end and events of unknown kinds are
/// not errors, they are counted in [`Reader::summary`].
pub struct Reader {
    path: PathBuf,
    header: Header,
    input: Box<dyn BufRead + Send>,
    limits: Limits,
    line: Vec<u8>,
    line_number: u64,
    total_bytes: u64,
    summary: Summary,
    over: bool,
    /// Lanes of which the caller needs no spans.
    without_spans: BTreeSet<LaneId>,
    /// Decodes the words of a recording of version 1.
    version1: Option<Version1>,
}

/// The fields of every event, in all versions.
#[derive(Deserialize)]
struct AnyEvent {
    #[serde(rename = "at_ns")]
    _at_ns: u64,
    event: String,
}

enum Line {
    Whole,
    End,
    Cut(String),
    TooLong,
}

impl Reader {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// As [`read`].
    pub fn open(path: &Path, limits: Limits) -> Result<Self, RecordingError> {
        let io_error = |doing| move |source| RecordingError::Io { path: path.to_owned(), doing, source };
        // Asked before opening: opening a FIFO waits for a writer.
        let meta = std::fs::metadata(path).map_err(|source| {
            let partial = partial_name(path);
            if source.kind() == io::ErrorKind::NotFound && partial.is_file() {
                return RecordingError::OnlyPartial { path: path.to_owned(), partial };
            }
            io_error("opening it")(source)
        })?;
        if !meta.is_file() {
            return Err(RecordingError::NotAFile { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(io_error("opening it"))?;
        let mut magic = Vec::new();
        (&mut file).take(4).read_to_end(&mut magic).map_err(io_error("reading it"))?;
        let strange = |found: &str| RecordingError::NotARecording { path: path.to_owned(), found: found.to_owned() };
        if magic.is_empty() {
            return Err(strange("the file is empty"));
        }
        if magic != [0x28, 0xb5, 0x2f, 0xfd] {
            return Err(strange("it does not begin with the mark of zstd"));
        }
        io::Seek::rewind(&mut file).map_err(io_error("reading it"))?;
        Self::from_source(path, file, limits)
    }

    /// Reads a recording that is part of the program.
    ///
    /// # Errors
    /// As [`read`], as far as it is about the content; `name` takes the place of the path there.
    pub fn from_bytes(name: &Path, bytes: &'static [u8]) -> Result<Self, RecordingError> {
        Self::from_source(name, bytes, Limits::NONE)
    }

    fn from_source(path: &Path, source: impl Read + Send + 'static, limits: Limits) -> Result<Self, RecordingError> {
        let strange = |found: &str| RecordingError::NotARecording { path: path.to_owned(), found: found.to_owned() };
        let decoder = Decoder::new(source).map_err(|source| RecordingError::Io {
            path: path.to_owned(),
            doing: "starting the decompressor",
            source,
        })?;
        let mut reader = Self {
            path: path.to_owned(),
            header: Header { gds_top_recording: 0, tool: String::new(), span_resolution_ns: 1 },
            input: Box::new(BufReader::with_capacity(1 << 16, decoder)),
            limits: Limits { line_bytes: HEADER_LIMIT_BYTES, ..limits },
            line: Vec::new(),
            line_number: 0,
            total_bytes: 0,
            summary: Summary::default(),
            over: false,
            without_spans: BTreeSet::new(),
            version1: None,
        };
        match reader.next_line() {
            Line::Whole => {}
            Line::End => return Err(strange("it holds nothing")),
            Line::Cut(why) => return Err(strange(&format!("its header is cut off ({why})"))),
            Line::TooLong => return Err(strange("its first line is too long for a header")),
        }
        reader.header = serde_json::from_slice(&reader.line)
            .map_err(|e| strange(&format!("its first line is not the header of a recording ({e})")))?;
        if reader.header.gds_top_recording > RECORDING_VERSION {
            return Err(RecordingError::TooNew { path: path.to_owned(), version: reader.header.gds_top_recording });
        }
        reader.version1 = (reader.header.gds_top_recording < 2).then(Version1::default);
        reader.limits = limits;
        Ok(reader)
    }

    /// The first line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The counts so far; complete after the last event.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The place of the next event.
    pub(crate) fn place(&self) -> Place {
        Place { line_number: self.line_number, summary: self.summary.clone(), version1: self.version1.clone() }
    }

    /// Bytes after decompression so far.
    pub(crate) const fn unpacked_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Unpacks, without reading the events, up to a place that is not before this one.
    pub(crate) fn go_to(&mut self, place: &Place) {
        while self.line_number < place.line_number && matches!(self.next_line(), Line::Whole) {}
        (self.summary, self.version1) = (place.summary.clone(), place.version1.clone());
    }

    /// Passes over the spans of a lane from here on: unpacking them takes more time and memory than all other events together.
    pub(crate) fn pass_over_spans(&mut self, lane: LaneId) {
        self.without_spans.insert(lane);
    }

    fn is_passed_over(&self) -> bool {
        let of = || serde_json::from_slice::<SpansOf>(&self.line).ok();
        !self.without_spans.is_empty() && of().is_some_and(|of| self.without_spans.contains(&of.lane))
    }

    fn next_line(&mut self) -> Line {
        self.line.clear();
        self.line_number += 1;
        // One byte more than allowed distinguishes a long line from one that just fits.
        let most = self.limits.line_bytes.saturating_add(1);
        match (&mut self.input).take(most).read_until(b'\n', &mut self.line) {
            Ok(0) => Line::End,
            Ok(count) => {
                self.total_bytes = self.total_bytes.saturating_add(count as u64);
                if self.line.ends_with(b"\n") {
                    Line::Whole
                } else if count as u64 > self.limits.line_bytes {
                    Line::TooLong
                } else {
                    Line::Cut("the last line is not complete".to_owned())
                }
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Line::Cut("the compressed stream ends early".to_owned())
            }
            Err(e) => Line::Cut(format!("the compressed stream is damaged: {e}")),
        }
    }

    fn too_large(&self, what: String) -> RecordingError {
        RecordingError::TooLarge { path: self.path.clone(), line: self.line_number, what }
    }

    /// The event in the current line; `None` for one that is passed over.
    fn parse(&mut self) -> Result<Option<Event>, RecordingError> {
        let first = match serde_json::from_slice::<AnyEvent>(&self.line) {
            Ok(any) if any.event == KIND && self.is_passed_over() => return Ok(None),
            Ok(any) if any.event == KIND => match spans::read(&self.line) {
                Ok(event) => return Ok(Some(event)),
                Err(_) => any,
            },
            Ok(any) => match serde_json::from_slice::<Event>(&self.line) {
                Ok(event) => return Ok(Some(event)),
                Err(_) => any,
            },
            Err(e) => {
                return Err(RecordingError::Damaged {
                    path: self.path.clone(),
                    line: self.line_number,
                    found: format!("this is not an event ({e})"),
                });
            }
        };
        // The kinds come from the file: few are kept, and short, whatever it says.
        let mut kind = truncate(&sanitise_line(&first.event), 40).into_owned();
        if self.summary.skipped.len() >= 20 && !self.summary.skipped.contains_key(&kind) {
            kind = "other".to_owned();
        }
        *self.summary.skipped.entry(kind).or_default() += 1;
        Ok(None)
    }
}

impl Iterator for Reader {
    type Item = Result<Event, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            let outcome = match self.next_line() {
                Line::End => break,
                Line::Cut(why) => {
                    self.summary.truncated = Some(why);
                    break;
                }
                Line::TooLong => Err(self.too_large(format!("a line is longer than {} bytes", self.limits.line_bytes))),
                Line::Whole if self.line_number - 1 > self.limits.events => {
                    Err(self.too_large(format!("it holds more than {} events", self.limits.events)))
                }
                Line::Whole if self.total_bytes > self.limits.total_bytes => {
                    Err(self.too_large(format!("it unpacks to more than {} bytes", self.limits.total_bytes)))
                }
                Line::Whole => self.parse(),
            };
            match outcome {
                Ok(Some(event)) => {
                    self.summary.events += 1;
                    return Some(Ok(match &mut self.version1 {
                        Some(version1) => version1.upgrade(event),
                        None => event,
                    }));
                }
                Ok(None) => {}
                Err(e) => {
                    self.over = true;
                    return Some(Err(e));
                }
            }
        }
        self.over = true;
        None
    }
}
