//! Collects events. It adds the time to each event, writes it to the recording if there is one, and passes it to the
//! front end.

use crate::core::{Event, EventBody, LogLevel, Metric};
use crate::engines::protocol::monotonic_ns;
use crate::session::recording::{FLUSH_EVERY, RecordingError, Writer};
use crossbeam_channel::Sender;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A cloneable sender for the events of one session.
#[derive(Clone)]
pub(super) struct Bus(Arc<Inner>);

struct Inner {
    origin_monotonic_ns: u64,
    events: Sender<Event>,
    recording: Mutex<Option<Writer>>,
    /// The reason why the recording is not complete.
    unrecorded: Arc<OnceLock<String>>,
    /// The recording of an earlier session that was killed.
    set_aside: Option<PathBuf>,
    /// GPU memory in use in bytes, from the last reading; 0 before the first reading.
    gpu_memory_bytes: AtomicU64,
}

impl Inner {
    /// Flushes the recording. Returns whether there is one.
    fn flush(&self) -> bool {
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = recording.as_mut() else { return false };
        let Err(error) = writer.flush() else { return true };
        *recording = None;
        drop(recording);
        self.report_failure(monotonic_ns().saturating_sub(self.origin_monotonic_ns), &error);
        false
    }

    /// Reports that the recording has no later event.
    fn report_failure(&self, at_ns: u64, error: &RecordingError) {
        let text = format!("the recording stops here: {error}");
        let _ = self.unrecorded.set(text.clone());
        let _ = self.events.send(Event { at_ns, body: EventBody::Said { level: LogLevel::Error, text } });
    }
}

impl Bus {
    /// Opens the recording, if one is requested. This happens first, so that an invalid path fails before an hour of
    /// work.
    pub(super) fn new(events: Sender<Event>, record: Option<&Path>) -> Result<Self, RecordingError> {
        let recording = record.map(Writer::create).transpose()?;
        let set_aside = recording.as_ref().and_then(|writer| writer.set_aside().map(Path::to_owned));
        let inner = Arc::new(Inner {
            origin_monotonic_ns: monotonic_ns(),
            events,
            recording: Mutex::new(recording),
            unrecorded: Arc::default(),
            set_aside,
            gpu_memory_bytes: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&inner);
        let flush = move || {
            while weak.upgrade().is_some_and(|inner| inner.flush()) {
                std::thread::sleep(FLUSH_EVERY);
            }
        };
        if record.is_some() {
            // Without this thread, an event is flushed with a later one.
            let _ = std::thread::Builder::new().name("recording".to_owned()).spawn(flush);
        }
        Ok(Self(inner))
    }

    /// Sends the first event, and names the recording of an earlier session that was killed.
    pub(super) fn begin(&self, started: EventBody) {
        self.emit(started);
        if let Some(path) = self.0.set_aside.as_deref() {
            let text =
                format!("an earlier session was killed while it was recorded; its recording is {}", path.display());
            self.say(LogLevel::Info, text);
        }
    }

    /// Sends an event with the current time.
    pub(super) fn emit(&self, body: EventBody) {
        self.emit_at(monotonic_ns(), body);
    }

    /// Sends an event with the time `monotonic_ns`.
    pub(super) fn emit_at(&self, monotonic_ns: u64, body: EventBody) {
        if let EventBody::Sampled { sample } = &body {
            let bytes = sample.values.get(&Metric::GpuMemoryBytes).copied().unwrap_or(0.0);
            self.0.gpu_memory_bytes.store(bytes as u64, Ordering::Relaxed);
        }
        let event = Event { at_ns: monotonic_ns.saturating_sub(self.0.origin_monotonic_ns), body };
        let mut failed = None;
        {
            let mut recording = self.0.recording.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(writer) = recording.as_mut()
                && let Err(error) = writer.write(&event)
            {
                failed = Some(error);
                *recording = None;
            }
        }
        let at_ns = event.at_ns;
        // If the front end is closed, the events are only recorded.
        let _ = self.0.events.send(event);
        if let Some(error) = failed {
            self.0.report_failure(at_ns, &error);
        }
    }

    /// GPU memory that all processes use, in bytes, from the newest sample. `None` if there is no value.
    pub(super) fn gpu_memory_bytes(&self) -> Option<f64> {
        Some(self.0.gpu_memory_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
    }

    /// Sends an event with the current time that is not recorded.
    pub(super) fn show(&self, body: EventBody) {
        let at_ns = monotonic_ns().saturating_sub(self.0.origin_monotonic_ns);
        let _ = self.0.events.send(Event { at_ns, body });
    }

    /// Sends a message for the user.
    pub(super) fn say(&self, level: LogLevel, text: impl Into<String>) {
        self.emit(EventBody::Said { level, text: text.into() });
    }

    /// The reason why the recording is not complete, see [`Feed::unrecorded`](crate::session::Feed::unrecorded).
    pub(super) fn unrecorded(&self) -> Arc<OnceLock<String>> {
        self.0.unrecorded.clone()
    }

    /// Removes the recording of a session that did not begin.
    pub(super) fn discard_recording(&self) {
        let writer = self.0.recording.lock().unwrap_or_else(PoisonError::into_inner).take();
        writer.into_iter().for_each(Writer::discard);
    }

    /// Completes the recording.
    pub(super) fn finish(&self) {
        let writer = self.0.recording.lock().unwrap_or_else(PoisonError::into_inner).take();
        match writer.map(Writer::finish) {
            Some(Err(error)) => {
                let text = format!("the recording is not complete: {error}");
                let _ = self.0.unrecorded.set(text.clone());
                self.say(LogLevel::Error, text);
            }
            Some(Ok(None)) => {
                self.say(LogLevel::Warn, "no recording was kept: the session was interrupted before its first result");
            }
            Some(Ok(Some(_))) | None => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::session::recording::read;
    use std::time::{Duration, Instant};

    #[test]
    fn an_event_without_a_later_one_is_in_the_file_after_a_short_time() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, _events) = crossbeam_channel::unbounded();
        let bus = Bus::new(sender, Some(&folder.path().join("a.gdsrec"))).unwrap();
        bus.say(LogLevel::Info, "alone");
        let partial = folder.path().join("a.gdsrec.partial");
        let until = Instant::now() + Duration::from_secs(20);
        while read(&partial).unwrap().filter(Result::is_ok).count() == 0 {
            assert!(Instant::now() < until, "the event is not in the file");
            std::thread::sleep(Duration::from_millis(10));
        }
        bus.discard_recording();
    }
}
