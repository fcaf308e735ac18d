//! Writes a recording while a session runs.

use super::header::{Header, RECORDING_VERSION, RecordingError};
use super::limits::Limits;
use super::partial::{Opened, Partial, share};
use super::reader::Reader;
use super::spans::SpanLine;
use crate::core::{Event, EventBody};
use crate::trust::open_regular;
use rustix::fs::AtFlags;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;
use zstd::zstd_safe::CParameter;

/// The intended maximum size of a recording in bytes, so that it can be attached to a message. Above it, the times of
/// spans are rounded at the end.
pub const SIZE_GOAL_BYTES: u64 = 2 << 20;

/// Compression level while the session runs. It is low, so that recording takes little CPU time from the load.
const LIVE_LEVEL: i32 = 1;
/// Compression level at the end, after all measurements. Higher levels take far longer for slightly smaller files.
const FINAL_LEVEL: i32 = 9;
/// Window size at the end: 2^19 bytes, or 512 KiB. A replay needs this much memory all the time.
const FINAL_WINDOW_LOG: u32 = 19;
/// Sizes of the compressor's tables at the end: 2^19 and 2^18 entries. They need less memory than those of the level.
const FINAL_TABLE_LOGS: [CParameter; 2] = [CParameter::ChainLog(19), CParameter::HashLog(18)];
/// Maximum time of events that are lost if the process is killed. The owner of the writer flushes it at this interval.
pub const FLUSH_EVERY: Duration = Duration::from_millis(250);
/// Resolutions of span times that are tried until the recording is small enough. Without spans, only the first is.
const RESOLUTIONS_NS: [u64; 3] = [1, 1_000, 10_000];

/// A recording that is being written.
pub struct Writer {
    path: PathBuf,
    /// The file that had the name when the session began.
    earlier: Option<Identity>,
    partial: Partial,
    set_aside: Option<PathBuf>,
    encoder: Encoder<'static, File>,
    flushed: Instant,
    /// Whether events are not flushed.
    waits: bool,
    events: u64,
    has_spans: bool,
    worth: Worth,
}

/// The identity of a file at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Time of the last status change, in seconds and nanoseconds.
    changed: (i64, i64),
}

/// The reasons to keep the recording of an interrupted session.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    interrupted: bool,
    /// Whether a run, a cell or a ceiling was completed, or a program was recorded.
    measured: bool,
    /// Whether a check was completed.
    found: bool,
}

impl Worth {
    fn see(&mut self, body: &EventBody) {
        match body {
            EventBody::SessionEnded { interrupted } => self.interrupted = *interrupted,
            EventBody::LaneFinished { .. }
            | EventBody::LaneDied { .. }
            | EventBody::GridCellDone { .. }
            | EventBody::CeilingMeasured { .. } => self.measured = true,
            EventBody::ProgramSeen { report } if report.programs > 0 => self.measured = true,
            EventBody::CheckDone { .. } | EventBody::VerdictReached { .. } => self.found = true,
            _ => {}
        }
    }

    /// Whether the recording is kept under the requested name. A complete session is always kept. An interrupted
    /// session replaces an earlier recording only if it has measurements.
    fn is_kept(self, has_earlier: bool) -> bool {
        !self.interrupted || self.measured || (self.found && !has_earlier)
    }
}

/// The result of writing a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Path of the file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// Number of events in it.
    pub events: u64,
    /// Resolution of span times in nanoseconds; 1 means that no time was rounded.
    pub span_resolution_ns: u64,
}

impl Writer {
    /// Creates `PATH.partial` next to the file and writes the header. An earlier recording at `path` is kept until
    /// [`Writer::finish`] replaces it. Any other file is not changed.
    ///
    /// # Errors
    /// Fails if the file cannot be created, another session records to `path`, or `path` is not a recording.
    pub fn create(path: &Path) -> Result<Self, RecordingError> {
        refuse_strangers(path)?;
        let Opened { partial, file, set_aside } = Partial::open(path)?;
        let earlier = identity(&partial);
        let mut encoder = Encoder::new(file, LIVE_LEVEL).map_err(io_error(path, "starting the compressor"))?;
        write_line(&mut encoder, &header(1)).map_err(io_error(path, "writing the header"))?;
        encoder.flush().map_err(io_error(path, "writing the header"))?;
        let (path, flushed, worth) = (path.to_owned(), Instant::now(), Worth::default());
        let (waits, events, has_spans) = (false, 0, false);
        Ok(Self { path, earlier, partial, set_aside, encoder, flushed, waits, events, has_spans, worth })
    }

    /// The new path of the recording of an earlier session that was killed before it was completed.
    #[must_use]
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }

    /// Appends an event. If the process is killed, the events since the last flush are lost.
    ///
    /// # Errors
    /// Fails if the disk is full or missing. Earlier events stay readable.
    pub fn write(&mut self, event: &Event) -> Result<(), RecordingError> {
        self.partial.keep();
        write_event(&mut self.encoder, event, 1).map_err(io_error(self.partial.path(), "writing an event"))?;
        self.worth.see(&event.body);
        self.has_spans |= matches!(event.body, EventBody::LaneSpans { .. });
        self.events += 1;
        self.waits = true;
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush()?;
        }
        Ok(())
    }

    /// Flushes all events to the file.
    ///
    /// # Errors
    /// Fails if the disk is full or missing.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        if !std::mem::take(&mut self.waits) {
            return Ok(());
        }
        self.encoder.flush().map_err(io_error(self.partial.path(), "writing events"))?;
        self.flushed = Instant::now();
        Ok(())
    }

    /// Removes the file of a session that did not begin.
    pub fn discard(self) {
        self.partial.discard();
    }

    /// Closes the recording, compresses it again at a higher level, and renames it. If the result is larger than
    /// [`SIZE_GOAL_BYTES`], the times of *spans* are rounded down to microseconds or to tens of microseconds. The
    /// header and the returned value contain the resolution. Results, samples and events do not change, so a recording
    /// without spans can be larger.
    ///
    /// `None` if the session was interrupted before anything was worth keeping; then no file is written.
    ///
    /// # Errors
    /// Fails if the file cannot be completed, or if another file has its name now. The session is then in
    /// `PATH.partial`. If only the second compression fails, the recording is renamed without it, and the error
    /// reports this.
    pub fn finish(self) -> Result<Option<Finished>, RecordingError> {
        self.finish_within(SIZE_GOAL_BYTES)
    }

    fn finish_within(self, goal_bytes: u64) -> Result<Option<Finished>, RecordingError> {
        let Self { path, earlier, mut partial, encoder, events, has_spans, worth, .. } = self;
        if !worth.is_kept(earlier.is_some_and(|earlier| earlier.bytes > 0)) {
            partial.discard();
            return Ok(None);
        }
        partial.keep();
        // The file is kept until the end, because the lock ends when the file is closed.
        let file = encoder.finish().map_err(io_error(partial.path(), "completing it"))?;
        if identity(&partial) != earlier {
            return Err(RecordingError::Changed { path, partial: partial.path().to_owned() });
        }
        // Without spans, a second compression changes nothing.
        let goal_bytes = if has_spans { goal_bytes } else { u64::MAX };
        match smaller(&path, &partial, &file, goal_bytes) {
            Ok((file_bytes, span_resolution_ns)) => {
                partial.discard();
                Ok(Some(Finished { path, file_bytes, events, span_resolution_ns }))
            }
            Err(error) => {
                partial.rename().map_err(io_error(&path, "giving it its name"))?;
                Err(error)
            }
        }
    }
}

/// Compresses the partial file again and moves the result to `path`. Returns its size in bytes and the resolution of
/// span times in nanoseconds.
fn smaller(path: &Path, partial: &Partial, file: &File, goal_bytes: u64) -> Result<(u64, u64), RecordingError> {
    let again = "compressing it again (the recording itself is complete)";
    let temporary_error = "creating a temporary file next to it (the recording itself is complete)";
    let mut temporary = partial.folder().unfinished_file().map_err(io_error(path, temporary_error))?;
    let (mut file_bytes, mut resolution_ns) = (0, 1);
    for unit in RESOLUTIONS_NS {
        temporary.file_mut().set_len(0).map_err(io_error(path, again))?;
        io::Seek::rewind(temporary.file_mut()).map_err(io_error(path, again))?;
        let input = file.try_clone().map_err(io_error(path, again))?;
        file_bytes = recompress(partial.path(), input, temporary.file_mut(), unit)?;
        resolution_ns = unit;
        if file_bytes <= goal_bytes {
            break;
        }
    }
    share(temporary.file()).map_err(io_error(path, again))?;
    temporary.persist(partial.target()).map_err(io_error(path, "replacing it with its smaller form"))?;
    Ok((file_bytes, resolution_ns))
}

/// The identity of the file that has the name of the recording now.
fn identity(partial: &Partial) -> Option<Identity> {
    let stat = rustix::fs::statat(partial.folder().held(), partial.target(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let changed = (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0));
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    Some(Identity { device: stat.st_dev, inode: stat.st_ino, bytes, changed })
}

fn header(span_resolution_ns: u64) -> Header {
    Header {
        gds_top_recording: RECORDING_VERSION,
        tool: concat!("gds-top ", env!("CARGO_PKG_VERSION")).to_owned(),
        span_resolution_ns,
    }
}

fn io_error(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> RecordingError {
    move |source| RecordingError::Io { path: path.to_owned(), doing, source }
}

fn refuse_strangers(path: &Path) -> Result<(), RecordingError> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    if !metadata.is_file() {
        return Err(RecordingError::NotAFile { path: path.to_owned() });
    }
    let mut magic = Vec::new();
    let file = open_regular(path).map_err(io_error(path, "opening the existing file"))?;
    file.take(4).read_to_end(&mut magic).map_err(io_error(path, "reading the existing file"))?;
    if !magic.is_empty() && Reader::open(path, Limits::default()).is_err() {
        return Err(RecordingError::WouldOverwrite { path: path.to_owned() });
    }
    Ok(())
}

fn write_line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn write_event(out: &mut impl Write, event: &Event, resolution_ns: u64) -> io::Result<()> {
    match &event.body {
        EventBody::LaneSpans { lane, spans } => {
            write_line(out, &SpanLine::new(event.at_ns, *lane, spans, resolution_ns))
        }
        // JSON has no NaN and no infinity. So such a value is left out, which means that it is missing.
        EventBody::Sampled { sample } if sample.values.values().any(|v| !v.is_finite()) => {
            let mut sample = sample.clone();
            sample.values.retain(|_, v| v.is_finite());
            write_line(out, &Event { at_ns: event.at_ns, body: EventBody::Sampled { sample } })
        }
        EventBody::LaneFinished { lane, result }
            if !result.bytes_per_s.is_finite()
                || result.cache_resident_before_fraction.is_some_and(|f| !f.is_finite()) =>
        {
            let mut result = result.clone();
            // A rate for a time of zero. `bytes` and `wall_ns` of the run show that there is no rate.
            if !result.bytes_per_s.is_finite() {
                result.bytes_per_s = 0.0;
            }
            result.cache_resident_before_fraction = result.cache_resident_before_fraction.filter(|f| f.is_finite());
            write_line(out, &Event { at_ns: event.at_ns, body: EventBody::LaneFinished { lane: *lane, result } })
        }
        _ => write_line(out, event),
    }
}

fn recompress(path: &Path, mut input: File, out: &mut File, resolution_ns: u64) -> Result<u64, RecordingError> {
    let again = "compressing it again (the recording itself is complete)";
    let mut encoder = Encoder::new(&mut *out, FINAL_LEVEL).map_err(io_error(path, again))?;
    encoder.include_checksum(true).map_err(io_error(path, again))?;
    encoder.window_log(FINAL_WINDOW_LOG).map_err(io_error(path, again))?;
    for table in FINAL_TABLE_LOGS {
        encoder.set_parameter(table).map_err(io_error(path, again))?;
    }
    // The input was written by this process, so no limits are needed.
    if resolution_ns == 1 {
        io::Seek::rewind(&mut input).map_err(io_error(path, again))?;
        let mut lines = Decoder::new(input).map_err(io_error(path, again))?;
        io::copy(&mut lines, &mut encoder).map_err(io_error(path, again))?;
    } else {
        write_line(&mut encoder, &header(resolution_ns)).map_err(io_error(path, again))?;
        for event in Reader::of_file(path, input, Limits::NONE)? {
            write_event(&mut encoder, &event?, resolution_ns).map_err(io_error(path, again))?;
        }
    }
    encoder.finish().and_then(|file| file.sync_all()).map_err(io_error(path, again))?;
    out.metadata().map(|m| m.len()).map_err(io_error(path, again))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
