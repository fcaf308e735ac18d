//! Writing a recording while a session runs.

use super::header::{Header, RECORDING_VERSION, RecordingError};
use super::limits::Limits;
use super::partial::{Opened, Partial};
use super::reader::{Reader, read_with};
use super::spans::SpanLine;
use crate::core::{Event, EventBody};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zstd::stream::write::Encoder;

/// The goal for the size of a recording, so that it can be attached. Above it the times of spans are rounded at the
/// end.
pub const SIZE_GOAL_BYTES: u64 = 2 << 20;

/// Level while the session runs: about 500 MB/s, so that recording does not take the CPU from the load.
const LIVE_LEVEL: i32 = 1;
/// The compression level at the end, after all measurements.
const FINAL_LEVEL: i32 = 19;
/// Matches are searched this far back at the end, 512 KiB. A replay keeps as much unpacked in memory all the time;
/// with 64 MiB the recordings of the full race are 1.7 % smaller and take up to 8 MiB more.
const FINAL_WINDOW_LOG: u32 = 19;
/// At most this much is lost when the process is killed.
const FLUSH_EVERY: Duration = Duration::from_millis(250);
/// Resolutions tried one after another until the recording is small enough.
const RESOLUTIONS_NS: [u64; 3] = [1, 1_000, 10_000];

/// A recording being written.
pub struct Writer {
    path: PathBuf,
    /// The file that had the name when the session began.
    earlier: Option<Identity>,
    partial: Partial,
    set_aside: Option<PathBuf>,
    encoder: Encoder<'static, File>,
    flushed: Instant,
    events: u64,
    worth: Worth,
}

/// A file as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

/// The reason to keep a recording of an interrupted session.
#[derive(Clone, Copy, Debug, Default)]
struct Worth {
    interrupted: bool,
    /// A run, a cell or a ceiling ended.
    measured: bool,
    /// A check was done.
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
            EventBody::CheckDone { .. } | EventBody::VerdictReached { .. } => self.found = true,
            _ => {}
        }
    }

    /// Whether it is kept under the requested name. A complete session is; an interrupted one replaces an earlier
    /// recording only if it has measurements.
    fn is_kept(self, has_earlier: bool) -> bool {
        !self.interrupted || self.measured || (self.found && !has_earlier)
    }
}

/// The result of writing a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Times of spans are multiples of this many nanoseconds; 1 means nothing was rounded.
    pub span_resolution_ns: u64,
}

impl Writer {
    /// Creates `PATH.partial` next to the file and writes the header into it. An earlier recording at `path` stays
    /// until [`Writer::finish`] replaces it; any other file is not changed.
    ///
    /// # Errors
    /// When the file cannot be created, another session records to `path`, or `path` is something that is not a recording.
    pub fn create(path: &Path) -> Result<Self, RecordingError> {
        refuse_strangers(path)?;
        let Opened { partial, file, set_aside } = Partial::open(path)?;
        let earlier = identity(path);
        let mut encoder = Encoder::new(file, LIVE_LEVEL).map_err(io_error(path, "starting the compressor"))?;
        write_line(&mut encoder, &header(1)).map_err(io_error(path, "writing the header"))?;
        encoder.flush().map_err(io_error(path, "writing the header"))?;
        let (path, flushed, worth) = (path.to_owned(), Instant::now(), Worth::default());
        Ok(Self { path, earlier, partial, set_aside, encoder, flushed, events: 0, worth })
    }

    /// The recording of an earlier session that was killed before it could be completed, under its new name.
    #[must_use]
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }

    /// Appends an event. Events that were written more than a quarter of a second before the last call are in the
    /// file even if the process is killed.
    ///
    /// # Errors
    /// If the disk is full or missing. The earlier events stay readable.
    pub fn write(&mut self, event: &Event) -> Result<(), RecordingError> {
        self.partial.keep();
        write_event(&mut self.encoder, event, 1).map_err(io_error(self.partial.path(), "writing an event"))?;
        self.worth.see(&event.body);
        self.events += 1;
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush()?;
        }
        Ok(())
    }

    /// Brings everything written so far into the file.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.encoder.flush().map_err(io_error(self.partial.path(), "writing events"))?;
        self.flushed = Instant::now();
        Ok(())
    }

    /// Closes the recording, compresses it again, harder, and gives it its name. If the result is larger than [`SIZE_GOAL_BYTES`], times of *spans*
    /// are rounded down to microseconds, then to tens of them; the header and the answer say so. Results, samples and events stay as they were.
    ///
    /// `None`: the session was interrupted before there was anything to keep, so nothing was written.
    ///
    /// # Errors
    /// When the file cannot be completed, or another file has its name by now; the session is then in `PATH.partial`. When only the second
    /// compression fails, the recording gets its name as it is, and the error contains that.
    pub fn finish(self) -> Result<Option<Finished>, RecordingError> {
        self.finish_within(SIZE_GOAL_BYTES)
    }

    fn finish_within(self, goal_bytes: u64) -> Result<Option<Finished>, RecordingError> {
        let Self { path, earlier, mut partial, encoder, events, worth, .. } = self;
        if !worth.is_kept(earlier.is_some_and(|earlier| earlier.bytes > 0)) {
            partial.discard();
            return Ok(None);
        }
        partial.keep();
        // Held to the end: the lock goes with it.
        let _locked = encoder.finish().map_err(io_error(partial.path(), "completing it"))?;
        if identity(&path) != earlier {
            return Err(RecordingError::Changed { path, partial: partial.path().to_owned() });
        }
        match smaller(&path, partial.path(), goal_bytes) {
            Ok((file_bytes, span_resolution_ns)) => {
                partial.discard();
                Ok(Some(Finished { path, file_bytes, events, span_resolution_ns }))
            }
            Err(error) => {
                partial.rename(&path).map_err(io_error(&path, "giving it its name"))?;
                Err(error)
            }
        }
    }
}

/// Compresses the partial file again and puts the result in its place at `path`. Returns its size in bytes and the resolution of spans in ns.
fn smaller(path: &Path, partial: &Path, goal_bytes: u64) -> Result<(u64, u64), RecordingError> {
    let again = "compressing it again (the recording itself is complete)";
    let temporary_error = "creating a temporary file next to it (the recording itself is complete)";
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".gds-top-recording-")
        .tempfile_in(folder)
        .map_err(io_error(path, temporary_error))?;
    let (mut file_bytes, mut resolution_ns) = (0, 1);
    for unit in RESOLUTIONS_NS {
        temporary.as_file_mut().set_len(0).map_err(io_error(path, again))?;
        io::Seek::rewind(temporary.as_file_mut()).map_err(io_error(path, again))?;
        file_bytes = recompress(partial, temporary.as_file_mut(), unit)?;
        resolution_ns = unit;
        if file_bytes <= goal_bytes {
            break;
        }
    }
    // The permissions of the first file, which follow the umask; temporary files are private.
    let permissions = fs::metadata(partial).map_err(io_error(partial, "examining it"))?.permissions();
    temporary.as_file().set_permissions(permissions).map_err(io_error(path, again))?;
    temporary.persist(path).map_err(|e| io_error(path, "replacing it with its smaller form")(e.error))?;
    Ok((file_bytes, resolution_ns))
}

/// The file that has the name now.
fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::metadata(path).ok()?;
    let changed = (meta.mtime(), meta.mtime_nsec());
    Some(Identity { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), changed })
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
    let file = File::open(path).map_err(io_error(path, "opening the file that is there"))?;
    file.take(4).read_to_end(&mut magic).map_err(io_error(path, "reading the file that is there"))?;
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
        // JSON has no NaN and no infinity, so such a reading is omitted: a gap.
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
            // A rate without time: `bytes` and `wall_ns` of the run show that there is none.
            if !result.bytes_per_s.is_finite() {
                result.bytes_per_s = 0.0;
            }
            result.cache_resident_before_fraction = result.cache_resident_before_fraction.filter(|f| f.is_finite());
            write_line(out, &Event { at_ns: event.at_ns, body: EventBody::LaneFinished { lane: *lane, result } })
        }
        _ => write_line(out, event),
    }
}

fn recompress(path: &Path, out: &mut File, resolution_ns: u64) -> Result<u64, RecordingError> {
    let again = "compressing it again (the recording itself is complete)";
    let mut encoder = Encoder::new(&mut *out, FINAL_LEVEL).map_err(io_error(path, again))?;
    encoder.include_checksum(true).map_err(io_error(path, again))?;
    encoder.window_log(FINAL_WINDOW_LOG).map_err(io_error(path, again))?;
    write_line(&mut encoder, &header(resolution_ns)).map_err(io_error(path, again))?;
    // The input is this process's own file, so there are no limits and nothing is lost.
    for event in read_with(path, Limits::NONE)? {
        write_event(&mut encoder, &event?, resolution_ns).map_err(io_error(path, again))?;
    }
    encoder.finish().and_then(|file| file.sync_all()).map_err(io_error(path, again))?;
    out.metadata().map(|m| m.len()).map_err(io_error(path, again))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
