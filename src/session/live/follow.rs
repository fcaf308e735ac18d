//! Reports causes of problems during a run. It reads new lines of the run's cufile.log and of the kernel log.

use super::bus::Bus;
use crate::checks::log_signatures::{Explained, explain_cufile, explain_messages};
use crate::core::{Engine, LaneId, LogLevel, Status, Target, units};
use crate::trust::open_regular;
use crossbeam_channel::{Sender, bounded};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two readings of the logs.
const EVERY: Duration = Duration::from_millis(250);
/// Maximum number of bytes of one log per reading. If a log grows faster, the rest is read later.
const MOST_BYTES: u64 = 256 << 10;
/// Maximum number of causes that are reported during a run.
const MOST_CAUSES: usize = 6;

/// The causes that were reported in this session, by engine. They are not reported again, because each repeat writes
/// the same lines.
pub(super) type ReportedCauses = Arc<Mutex<BTreeSet<(String, String)>>>;

/// Whether a cause affects a run with this target. Loads into host memory need no CUDA and have no direct route.
pub(super) fn matters(cause: &Explained, target: &Target) -> bool {
    !(*target == Target::Host && cause.needs_gpu)
}

/// Follows the logs of one run until [`Follower::end`].
pub(super) struct Follower {
    stop: Sender<()>,
    /// `None` if no thread could be started. The logs are then read at the end of the run.
    thread: Option<JoinHandle<BTreeSet<String>>>,
}

impl Follower {
    /// Starts at the current end of the kernel log. The run's cufile.log does not exist yet.
    pub(super) fn begin(
        bus: &Bus,
        lane: LaneId,
        (engine, target): (&Engine, &Target),
        log: PathBuf,
        reported_causes: &ReportedCauses,
    ) -> Self {
        let (stop, stopped) = bounded::<()>(1);
        let (bus, name, engine) = (bus.clone(), format!("lane {} ({engine})", lane.0), engine.to_string());
        let (target, reported_causes) = (target.clone(), Arc::clone(reported_causes));
        let loud = bus.clone();
        let thread = std::thread::Builder::new().name("logs".to_owned()).spawn(move || {
            let mut watch = Watch::new(log, KernelLog::open(), target);
            loop {
                let last = stopped.recv_timeout(EVERY).is_ok();
                for (meaning, sentence) in watch.look() {
                    if reported_causes.lock().unwrap_or_else(PoisonError::into_inner).insert((engine.clone(), meaning))
                    {
                        bus.say(LogLevel::Warn, format!("{name}: {sentence}"));
                    }
                }
                if last {
                    return watch.said;
                }
            }
        });
        let refused = |error| {
            loud.say(LogLevel::Warn, format!("the logs are not followed during a run: {}", units::no_thread(error)));
        };
        Self { stop, thread: thread.map_err(refused).ok() }
    }

    /// Reads the logs once more and returns the reported causes.
    pub(super) fn end(self) -> BTreeSet<String> {
        // The thread waits only for this message.
        let Some(thread) = self.thread else { return BTreeSet::new() };
        let _ = self.stop.send(());
        thread.join().unwrap_or_default()
    }
}

/// The two logs and the causes that were already reported from them.
struct Watch {
    log: Tail,
    kernel: Option<KernelLog>,
    target: Target,
    said: BTreeSet<String>,
}

impl Watch {
    fn new(log: PathBuf, kernel: Option<KernelLog>, target: Target) -> Self {
        Self { log: Tail::new(log), kernel, target, said: BTreeSet::new() }
    }

    /// The new causes, as meanings and sentences. The verdict already reports that reads go through host memory, so
    /// only the reasons are returned.
    fn look(&mut self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let appended = self.log.read();
        self.take("cufile.log", explain_cufile(&appended), Status::Fail, &mut out);
        let appended = self.kernel.as_mut().map(KernelLog::read).unwrap_or_default();
        let messages = crate::machine::KernelLog::parse(&appended);
        self.take("the kernel log", explain_messages(&messages), Status::Warn, &mut out);
        out
    }

    fn take(&mut self, name: &str, causes: Vec<Explained>, least: Status, out: &mut Vec<(String, String)>) {
        for cause in causes {
            if cause.status < least || cause.status == Status::Na || self.said.len() >= MOST_CAUSES {
                continue;
            }
            if matters(&cause, &self.target) && self.said.insert(cause.meaning.clone()) {
                let sentence = format!("{name}: {} ('{}')", cause.sentence(), cause.line);
                out.push((cause.meaning, sentence));
            }
        }
    }
}

/// A growing log. Each reading continues at the end of the previous one and returns complete lines only.
struct Tail {
    path: PathBuf,
    at: u64,
    /// The beginning of a line that is not complete yet.
    rest: String,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self { path, at: 0, rest: String::new() }
    }

    fn read(&mut self) -> String {
        let Some(bytes) = appended(&self.path, &mut self.at) else { return String::new() };
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        match self.rest.rfind('\n') {
            Some(end) => {
                let rest = self.rest.split_off(end + 1);
                std::mem::replace(&mut self.rest, rest)
            }
            None => String::new(),
        }
    }
}

/// The content of a file after the offset `at`, which is advanced. If the file became shorter, it is read from its
/// start, because libcufile truncates its log at a maximum size.
fn appended(path: &Path, at: &mut u64) -> Option<Vec<u8>> {
    let mut file = open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    if length < *at {
        *at = 0;
    }
    if length == *at {
        return None;
    }
    file.seek(std::io::SeekFrom::Start(*at)).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    *at += bytes.len() as u64;
    Some(bytes)
}

/// An open `/dev/kmsg` that returns new records. Each read returns one record, `6,1234,56789,-;text`.
struct KernelLog(OwnedFd);

impl KernelLog {
    /// Opens the kernel log; `None` if the user has no permission.
    fn open() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?;
        rustix::fs::seek(&fd, SeekFrom::End(0)).ok()?;
        Some(Self(fd))
    }

    fn read(&mut self) -> String {
        let (mut out, mut record) = (String::new(), [0_u8; 8192]);
        while (out.len() as u64) < MOST_BYTES {
            match rustix::io::read(&self.0, &mut record) {
                Ok(0) => break,
                Ok(length) => out.push_str(&message(&record[..length])),
                // Overwritten records are lost, but the next record can be read.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        out
    }
}

/// The text of a record with its line end.
fn message(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    let first = text.split_once(';').map_or("", |(_, text)| text).lines().next().unwrap_or_default();
    format!("{first}\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gpu() -> Target {
        Target::Gpu { ordinal: 0, uuid: None, name: "a GPU".to_owned() }
    }

    #[test]
    fn without_a_gpu_as_target_no_missing_gpu_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cufile.log");
        std::fs::write(
            &path,
            "WARN cufio-cuda:140 unable to load, libcuda.so.1\nERROR udev property not found: ID_FS_USAGE vda\n",
        )
        .unwrap();
        let said = |target| -> Vec<String> {
            Watch::new(path.clone(), None, target).look().into_iter().map(|(meaning, _)| meaning).collect()
        };
        assert_eq!(said(gpu()).len(), 2);
        assert!(matches!(said(Target::Host).as_slice(), [only] if only.contains("udev")));
    }

    #[test]
    fn a_cause_is_said_once_while_the_log_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cufile.log");
        let mut watch = Watch::new(path.clone(), None, gpu());
        assert!(watch.look().is_empty(), "there is no log yet");
        let mut file = std::fs::File::create(&path).unwrap();
        write!(file, "NOTICE running in compatible mode\nERROR cufio-udev:85 udev property not fou").unwrap();
        assert!(watch.look().is_empty(), "half a line has no cause, and compat mode is reported by the verdict");
        writeln!(file, "nd: ID_FS_USAGE vda").unwrap();
        let said = watch.look();
        assert_eq!(said.len(), 1);
        assert!(
            said[0].1.starts_with("cufile.log: udev has no record") && said[0].1.contains("ID_FS_USAGE vda"),
            "{said:?}"
        );
        writeln!(file, "ERROR cufio-udev:85 udev property not found: ID_FS_USAGE vda").unwrap();
        assert!(watch.look().is_empty());
        writeln!(file, "ERROR EXT4 journal mode for device not supported!").unwrap();
        assert_eq!(watch.look().len(), 1);
    }

    #[test]
    fn appended_lines_are_read_and_a_truncated_log_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cufile.log");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.read(), "one\ntwo\n");
        assert_eq!(tail.read(), "");
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(tail.read(), "x\n");
        std::fs::write(&path, vec![b'y'; (MOST_BYTES + 10) as usize]).unwrap();
        tail.read();
        assert_eq!(tail.at, 2 + MOST_BYTES, "a fast log is caught up with piece by piece");
    }

    #[test]
    fn a_log_full_of_causes_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cufile.log");
        let lines = [
            "udev property not found: ID_FS_USAGE",
            "nvidia-fs.ko driver access denied",
            "ext4 journal mode for device not supported!",
            "RAID level not supported by cuFile for RAID group",
            "cuFile does not support file-system type: x",
            "exceeds permitted bar size: 1",
            "Inc-bar-usage failed: size 1",
            "NVMe Driver not registered with nvidia-fs!!!",
        ];
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        assert_eq!(Watch::new(path, None, gpu()).look().len(), MOST_CAUSES);
    }

    #[test]
    fn a_record_of_the_kernel_is_its_message() {
        let record =
            b"3,1523,98765432,-;nvidia_fs: Unknown symbol nvidia_p2p_dma_map_pages (err -2)\n SUBSYSTEM=module\n";
        assert_eq!(message(record), "nvidia_fs: Unknown symbol nvidia_p2p_dma_map_pages (err -2)\n");
        assert_eq!(message(b"garbage"), "\n");
    }
}
