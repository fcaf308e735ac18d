//! Writing a recording while a session runs.

use super::header::{Header, RECORDING_VERSION, RecordingError};
use super::packed::PackedSpans;
use super::reader::{Limits, Reader, read_with};
use crate::domain::{Event, EventBody};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zstd::stream::write::Encoder;

/// Recordings are meant to be attached and shipped: above this the times of spans are rounded when the recording is finished.
pub const SIZE_GOAL_BYTES: u64 = 2 << 20;

/// Level while the session runs: about 500 MB/s, so that recording does not take the CPU from the load.
const LIVE_LEVEL: i32 = 1;
/// Level at the end, when nothing is being measured any more.
const FINAL_LEVEL: i32 = 19;
/// Matches are sought this far back at the end, 512 KiB. Whoever replays the recording keeps as much of it unpacked in memory all the time; with 64 MiB
/// the recordings of the full race are 1.7 % smaller and take up to 8 MiB more.
const FINAL_WINDOW_LOG: u32 = 19;
/// At most this much is lost when the process is killed.
const FLUSH_EVERY: Duration = Duration::from_millis(250);
/// Resolutions tried in turn until the recording is small enough.
const RESOLUTIONS_NS: [u64; 3] = [1, 1_000, 10_000];

/// A recording being written.
pub struct Writer {
    path: PathBuf,
    encoder: Encoder<'static, File>,
    flushed: Instant,
    events: u64,
}

/// What became of a recording.
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
    /// Creates the file and writes the header. An earlier recording of that name is replaced; any other file is left alone.
    ///
    /// # Errors
    /// When the path cannot be created, is no regular file, or holds something that is not a recording.
    pub fn create(path: &Path) -> Result<Self, RecordingError> {
        refuse_strangers(path)?;
        let file = File::create(path).map_err(io_error(path, "creating it"))?;
        let mut encoder = Encoder::new(file, LIVE_LEVEL).map_err(io_error(path, "starting the compressor"))?;
        write_line(&mut encoder, &header(1)).map_err(io_error(path, "writing the header"))?;
        encoder.flush().map_err(io_error(path, "writing the header"))?;
        Ok(Self { path: path.to_owned(), encoder, flushed: Instant::now(), events: 0 })
    }

    /// Appends an event. What was written more than a quarter of a second before the last call is in the file even if the process is killed.
    ///
    /// # Errors
    /// When the disk is full or gone; the events before remain readable.
    pub fn write(&mut self, event: &Event) -> Result<(), RecordingError> {
        write_event(&mut self.encoder, event, 1).map_err(io_error(&self.path, "writing an event"))?;
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
        self.encoder.flush().map_err(io_error(&self.path, "writing events"))?;
        self.flushed = Instant::now();
        Ok(())
    }

    /// Closes the recording and compresses it again, harder. Where the result is larger than [`SIZE_GOAL_BYTES`], times of *spans* are rounded
    /// down to microseconds, then to tens of them; the header and the answer say so. Results, samples and events stay as they were.
    ///
    /// # Errors
    /// When the file cannot be completed. When only the second compression fails, the recording stays as it was and the error says so.
    pub fn finish(self) -> Result<Finished, RecordingError> {
        self.finish_within(SIZE_GOAL_BYTES)
    }

    fn finish_within(self, goal_bytes: u64) -> Result<Finished, RecordingError> {
        let Self { path, encoder, events, .. } = self;
        encoder.finish().map_err(io_error(&path, "completing it"))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut temporary = tempfile::Builder::new()
            .prefix(".gds-top-recording-")
            .tempfile_in(folder)
            .map_err(io_error(&path, "creating a temporary file beside it (the recording itself is whole)"))?;
        let (mut file_bytes, mut resolution_ns) = (0, 1);
        for unit in RESOLUTIONS_NS {
            temporary.as_file_mut().set_len(0).map_err(io_error(&path, "compressing it again"))?;
            io::Seek::rewind(temporary.as_file_mut()).map_err(io_error(&path, "compressing it again"))?;
            file_bytes = recompress(&path, temporary.as_file_mut(), unit)?;
            resolution_ns = unit;
            if file_bytes <= goal_bytes {
                break;
            }
        }
        // The permissions of the first file, which follow the umask; temporary files are private.
        let permissions = fs::metadata(&path).map_err(io_error(&path, "examining it"))?.permissions();
        fs::set_permissions(temporary.path(), permissions).map_err(io_error(&path, "compressing it again"))?;
        temporary.persist(&path).map_err(|e| io_error(&path, "replacing it with its smaller form")(e.error))?;
        Ok(Finished { path, file_bytes, events, span_resolution_ns: resolution_ns })
    }
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
            write_line(out, &PackedSpans::pack(event.at_ns, *lane, spans, resolution_ns))
        }
        // JSON has no NaN and no infinity. A reading that is none is left out: a gap.
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
            // A rate over no time: the run says by `bytes` and `wall_ns` that there is none.
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
    let again = "compressing it again (the recording itself is whole)";
    let mut encoder = Encoder::new(&mut *out, FINAL_LEVEL).map_err(io_error(path, again))?;
    encoder.include_checksum(true).map_err(io_error(path, again))?;
    encoder.window_log(FINAL_WINDOW_LOG).map_err(io_error(path, again))?;
    write_line(&mut encoder, &header(resolution_ns)).map_err(io_error(path, again))?;
    // What this process wrote itself is no stranger's: no limits, so that nothing is lost.
    for event in read_with(path, Limits::NONE)? {
        write_event(&mut encoder, &event?, resolution_ns).map_err(io_error(path, again))?;
    }
    encoder.finish().and_then(|file| file.sync_all()).map_err(io_error(path, again))?;
    out.metadata().map(|m| m.len()).map_err(io_error(path, again))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
