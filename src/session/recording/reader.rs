//! Reads a recording. It tolerates the effects of a crash and events of a later version, and it limits hostile input.

use super::header::{Header, RECORDING_VERSION, RecordingError, partial_name};
use super::limits::{Kind, Limits, Taken};
use super::spans::{self, KIND, SpansOf};
use super::version1::Version1;
use crate::core::{Event, EventBody, LaneId, ModelInfo, WatchReport};
use crate::text::{json_values, sanitise_line, truncate};
use crate::trust::open_regular;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zstd::stream::read::Decoder;

/// Maximum length of the header line in bytes. A longer line is not a header.
const HEADER_LIMIT_BYTES: u64 = 64 << 10;
/// Limits the window of the decompressor to 64 MiB of memory. No version of this program wrote a larger window.
const WINDOW_LOG: u32 = 26;

/// Counts of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of events that were returned.
    pub events: u64,
    /// Number of skipped events by kind. An event is skipped if this program does not know its kind or cannot read
    /// it.
    pub skipped: BTreeMap<String, u64>,
    /// The reason why the end is missing: the session was killed or the file was cut. `None` if the recording is
    /// complete.
    pub truncated: Option<String>,
}

impl Summary {
    /// A sentence about missing events; `None` if no event is missing.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(why) = &self.truncated {
            parts.push(format!("the end of the recording is missing ({why}); it ends after {} events", self.events));
        }
        let count: u64 = self.skipped.values().sum();
        if count > 0 {
            let kinds: Vec<&str> = self.skipped.keys().map(String::as_str).collect();
            parts.push(format!("{count} events that this version cannot read were skipped ({})", kinds.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Opens a recording with the default [`Limits`].
///
/// # Errors
/// Fails if the file cannot be opened, is not a regular file or not a recording, or has a later version.
pub fn read(path: &Path) -> Result<Reader, RecordingError> {
    Reader::open(path, Limits::default())
}

/// Opens a recording with the given limits.
///
/// # Errors
/// See [`read`].
pub fn read_with(path: &Path, limits: Limits) -> Result<Reader, RecordingError> {
    Reader::open(path, limits)
}

/// A position between two events. Another reader of the same recording can continue from it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    line_number: u64,
    summary: Summary,
    version1: Option<Version1>,
}

/// Returns the events of a recording in order, and ends after an error. A missing end and events of unknown kinds are
/// not errors. They are counted in [`Reader::summary`].
pub struct Reader {
    path: PathBuf,
    header: Header,
    input: Box<dyn BufRead + Send>,
    limits: Limits,
    line: Vec<u8>,
    line_number: u64,
    total_bytes: u64,
    /// Number of bytes that were read from the file.
    compressed_bytes: Arc<AtomicU64>,
    taken: Taken,
    summary: Summary,
    over: bool,
    /// Runs whose spans the caller does not need.
    without_spans: BTreeSet<LaneId>,
    /// Converts events of recordings of version 1.
    version1: Option<Version1>,
}

/// The fields that every event has in all versions.
#[derive(Deserialize)]
struct AnyEvent {
    #[serde(rename = "at_ns")]
    _at_ns: u64,
    event: String,
}

/// The line of a model. Its body is parsed separately: with `flatten` and a tag, serde would first store each value
/// in about thirty bytes.
#[derive(Deserialize)]
struct ModelLine {
    at_ns: u64,
    model: ModelInfo,
}

/// The line of a watched program. Its body is parsed separately for the same reason.
#[derive(Deserialize)]
struct ProgramLine {
    at_ns: u64,
    report: Box<WatchReport>,
}

/// Parses an event from its line.
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
    Complete,
    End,
    Cut(String),
    TooLong(u64),
}

impl Reader {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// See [`read`].
    pub fn open(path: &Path, limits: Limits) -> Result<Self, RecordingError> {
        let io_error = |doing| move |source| RecordingError::Io { path: path.to_owned(), doing, source };
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
        Self::of_file(path, open_regular(path).map_err(io_error("opening it"))?, limits)
    }

    /// Like [`Reader::open`], for an open file. Errors contain `path`.
    pub(super) fn of_file(path: &Path, mut file: File, limits: Limits) -> Result<Self, RecordingError> {
        let io_error = |doing| move |source| RecordingError::Io { path: path.to_owned(), doing, source };
        io::Seek::rewind(&mut file).map_err(io_error("reading it"))?;
        let mut magic = Vec::new();
        (&mut file).take(4).read_to_end(&mut magic).map_err(io_error("reading it"))?;
        let strange = |found: &str| RecordingError::NotARecording { path: path.to_owned(), found: found.to_owned() };
        if magic.is_empty() {
            return Err(strange("the file is empty"));
        }
        if magic != [0x28, 0xb5, 0x2f, 0xfd] {
            return Err(strange("it is not compressed with zstd"));
        }
        io::Seek::rewind(&mut file).map_err(io_error("reading it"))?;
        Self::from_source(path, file, limits)
    }

    /// Reads a recording that is compiled into the program.
    ///
    /// # Errors
    /// Fails if the content is not valid, see [`read`]. Errors contain `name` instead of a path.
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
            Line::Complete => {}
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

    /// The header line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The counts so far. They are complete after the last event.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The position of the next event.
    pub(crate) fn place(&self) -> Place {
        Place { line_number: self.line_number, summary: self.summary.clone(), version1: self.version1.clone() }
    }

    /// Number of bytes after decompression so far.
    pub(crate) const fn unpacked_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Continues at a position that is not before the current one. Events in between are unpacked but not parsed.
    pub(crate) fn go_to(&mut self, place: &Place) {
        while self.line_number < place.line_number && matches!(self.next_line(), Line::Complete) {}
        (self.summary, self.version1) = (place.summary.clone(), place.version1.clone());
    }

    /// Skips the spans of a run from here on. Unpacking spans takes more time and memory than all other events
    /// together.
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
            // One byte more than the limit is read, so that a line that is too long can be detected.
            let room = most.saturating_add(1).saturating_sub(self.line.len() as u64);
            match (&mut self.input).take(room).read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.is_empty() => return Line::End,
                Ok(count) => {
                    self.total_bytes = self.total_bytes.saturating_add(count as u64);
                    if self.line.ends_with(b"\n") {
                        return Line::Complete;
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

    /// The limit that the stream exceeds, if any.
    fn excess(&self) -> Option<String> {
        if self.line_number - 1 > self.limits.events {
            return Some(format!("it contains more than {} events", self.limits.events));
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

    /// Parses the event in the current line; `None` if it is skipped.
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
        // The names of kinds are untrusted, so only a few are kept, and they are cut.
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
                Line::Complete => match self.excess() {
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
