//! Reads a recording: lenient with the traces of a crash or a later version, strict with hostile input.

use super::header::{Header, RECORDING_VERSION, RecordingError, partial_name};
use super::limits::{Kind, Limits, Taken};
use super::spans::{self, KIND, SpansOf};
use super::version1::Version1;
use crate::core::{Event, EventBody, LaneId, ModelInfo, WatchReport};
use crate::text::{json_values, sanitise_line, truncate};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zstd::stream::read::Decoder;

/// The header is short; a longer first line is not a header.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;
/// The decompressor keeps this much at most, 64 MiB; no version of this program wrote a larger window.
const WINDOW_LOG: u32 = 26;

/// Counts of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events given out.
    pub events: u64,
    /// Events passed over because this program does not know their kind or cannot read them, by kind.
    pub skipped: BTreeMap<String, u64>,
    /// The reason why the end is missing, if it is: the session was killed or the file was cut.
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
    /// Bytes taken from the file so far.
    compressed_bytes: Arc<AtomicU64>,
    taken: Taken,
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

/// The line of a model. The body is read by itself: with `flatten` and a tag serde would first take up each value in thirty bytes.
#[derive(Deserialize)]
struct ModelLine {
    at_ns: u64,
    model: ModelInfo,
}

/// The line of a watched program, for the same reason.
#[derive(Deserialize)]
struct ProgramLine {
    at_ns: u64,
    report: Box<WatchReport>,
}

/// Reads an event from its line.
fn event(kind: &str, line: &[u8]) -> serde_json::Result<Event> {
    let event = |at_ns, body| Event { at_ns, body };
    match kind {
        KIND => spans::read(line),
        "model_opened" => serde_json::from_slice(line)
            .map(|ModelLine { at_ns, model }| event(at_ns, EventBody::ModelOpened { model })),
        "program_seen" => serde_json::from_slice(line)
            .map(|ProgramLine { at_ns, report }| event(at_ns, EventBody::ProgramSeen { report })),
        _ => serde_json::from_slice(line),
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.bytes.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

enum Line {
    Whole,
    End,
    Cut(String),
    TooLong(u64),
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
    /// As [`read`], for errors of the content. `name` replaces the path.
    pub fn from_bytes(name: &Path, bytes: &'static [u8]) -> Result<Self, RecordingError> {
        Self::from_source(name, bytes, Limits::NONE)
    }

    fn from_source(path: &Path, source: impl Read + Send + 'static, limits: Limits) -> Result<Self, RecordingError> {
        let strange = |found: &str| RecordingError::NotARecording { path: path.to_owned(), found: found.to_owned() };
        let failed = |source| RecordingError::Io { path: path.to_owned(), doing: "starting the decompressor", source };
        let compressed_bytes = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: source, bytes: compressed_bytes.clone() };
        let mut decoder = Decoder::new(counted).map_err(failed)?;
        decoder.window_log_max(WINDOW_LOG).map_err(failed)?;
        let mut reader = Self {
            path: path.to_owned(),
            header: Header { gds_top_recording: 0, tool: String::new(), span_resolution_ns: 1 },
            input: Box::new(BufReader::with_capacity(1 << 16, decoder)),
            limits: Limits { line_bytes: HEADER_LIMIT_BYTES, ..limits },
            line: Vec::new(),
            line_number: 0,
            total_bytes: 0,
            compressed_bytes,
            taken: Taken::default(),
            summary: Summary::default(),
            over: false,
            without_spans: BTreeSet::new(),
            version1: None,
        };
        match reader.next_line() {
            Line::Whole => {}
            Line::End => return Err(strange("it holds nothing")),
            Line::Cut(why) => return Err(strange(&format!("its header is cut off ({why})"))),
            Line::TooLong(_) => return Err(strange("its first line is too long for a header")),
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
        let mut most = self.limits.line_bytes;
        loop {
            // One byte more than allowed distinguishes a long line from one that just fits.
            let room = most.saturating_add(1).saturating_sub(self.line.len() as u64);
            match (&mut self.input).take(room).read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.is_empty() => return Line::End,
                Ok(count) => {
                    self.total_bytes = self.total_bytes.saturating_add(count as u64);
                    if self.line.ends_with(b"\n") {
                        return Line::Whole;
                    }
                    if (self.line.len() as u64) <= most {
                        return Line::Cut("the last line is not complete".to_owned());
                    }
                    let longest = self.limits.line_bytes_of(Kind::of(&self.line));
                    if longest <= most || self.line_number == 1 {
                        return Line::TooLong(most);
                    }
                    most = longest;
                }
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Line::Cut("the compressed stream ends early".to_owned());
                }
                Err(e) => return Line::Cut(format!("the compressed stream is damaged: {e}")),
            }
        }
    }

    /// The limit that the stream exceeds so far, if any.
    fn excess(&self) -> Option<String> {
        if self.line_number - 1 > self.limits.events {
            return Some(format!("it holds more than {} events", self.limits.events));
        }
        if self.total_bytes > self.limits.total_bytes {
            return Some(format!("it unpacks to more than {} bytes", self.limits.total_bytes));
        }
        let compressed = self.compressed_bytes.load(Ordering::Relaxed);
        let bomb = self.limits.is_bomb(self.total_bytes, compressed);
        bomb.then(|| format!("{compressed} bytes of the file unpack to more than {} bytes", self.total_bytes))
    }

    fn too_large(&self, what: String) -> RecordingError {
        RecordingError::TooLarge { path: self.path.clone(), line: self.line_number, what }
    }

    /// The event in the current line; `None` for one that is passed over.
    fn parse(&mut self) -> Result<Option<Event>, RecordingError> {
        let bounded = self.limits.bounded_state;
        let count = if bounded { json_values(&self.line) } else { 0 };
        Taken::line(Kind::of(&self.line), count).map_err(|what| self.too_large(what))?;
        let first = match serde_json::from_slice::<AnyEvent>(&self.line) {
            Ok(any) if any.event == KIND && self.is_passed_over() => return Ok(None),
            Ok(any) => any,
            Err(e) => {
                return Err(RecordingError::Damaged {
                    path: self.path.clone(),
                    line: self.line_number,
                    found: format!("this is not an event ({e})"),
                });
            }
        };
        if let Ok(event) = event(&first.event, &self.line).or_else(|_| serde_json::from_slice(&self.line)) {
            if bounded {
                self.taken.add(&event, count).map_err(|what| self.too_large(what))?;
            }
            return Ok(Some(event));
        }
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
                Line::TooLong(most) => Err(self.too_large(format!("a line is longer than {most} bytes"))),
                Line::Whole => match self.excess() {
                    Some(what) => Err(self.too_large(what)),
                    None => self.parse(),
                },
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
