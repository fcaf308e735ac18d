//! Reads the cufile.log that a running process writes.

use crate::trust::{self, Allowance, open_regular};
use procfs::process::Process;
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The name of the log, if `CUFILE_LOGFILE_PATH` names no other.
const NAME: &str = "cufile.log";
const VARIABLE: &str = "CUFILE_LOGFILE_PATH";
/// The bytes that are read at once, and the maximum number of such parts of one reading. libcufile truncates its log at
/// 32 MiB by default.
const PART_BYTES: u64 = 1 << 20;
const MOST_PARTS: usize = 64;
/// Maximum number of different messages that are kept, and their maximum length in bytes.
const MOST_MESSAGES: usize = 1000;
const MESSAGE_BYTES: usize = 500;

/// The log of a process, and the messages in it that are from this process.
#[derive(Debug)]
pub(super) struct ProcessLog {
    /// The path as the process sees it.
    pub(super) path: String,
    file: File,
    /// The process id in the namespace of the process, with which libcufile marks each line.
    mark: String,
    at: u64,
    /// The bytes after the last line end.
    rest: Vec<u8>,
    /// The number of lines of the process.
    pub(super) lines: u64,
    /// Different messages without their time.
    messages: BTreeSet<String>,
}

impl ProcessLog {
    /// The log that the process has open: libcufile keeps it open. `None` if there is none, or if it must not be opened.
    pub(super) fn find(process: u32, allowed: &mut Allowance) -> Option<Self> {
        let folder = trust::process::folder(process.cast_signed());
        // Root opens no file that another user may have put there.
        if geteuid().is_root() && !trust::process::is_own(&folder) {
            return None;
        }
        let variables = trust::process::variables(&folder, &[VARIABLE], allowed);
        let named = variables.and_then(|all| all.get(std::ffi::OsStr::new(VARIABLE)).map(PathBuf::from));
        let is_log = |path: &Path| {
            path.file_name().is_some_and(|name| name == NAME)
                || named.as_ref().is_some_and(|named| path.ends_with(named))
        };
        let mut found: Option<PathBuf> = None;
        for entry in std::fs::read_dir(folder.join("fd")).ok()?.flatten() {
            if !allowed.descriptor() {
                return None;
            }
            let path = entry.path().read_link().ok().filter(|path| path.is_absolute() && is_log(path));
            found = found.into_iter().chain(path).min();
        }
        Self::open(process, &found?)
    }

    fn open(process: u32, path: &Path) -> Option<Self> {
        let folder = trust::process::folder(process.cast_signed());
        let file = open_regular(&trust::process::path_of(&folder, path)?).ok()?;
        let status = Process::new(process.cast_signed()).and_then(|process| process.status()).ok();
        let inside = status.and_then(|status| status.nspid.and_then(|ids| ids.last().copied()));
        let mark = format!("[pid={} ", inside.unwrap_or(process.cast_signed()));
        let path = path.to_string_lossy().into_owned();
        Some(Self { path, file, mark, at: 0, rest: Vec::new(), lines: 0, messages: BTreeSet::new() })
    }

    /// Reads the lines that were added. A later call reads those that are left at the end of the time.
    pub(super) fn read(&mut self, allowed: &Allowance) {
        let length = self.file.metadata().map_or(0, |file| file.len());
        if length < self.at {
            // libcufile truncated it.
            (self.at, self.rest) = (0, Vec::new());
        }
        for _ in 0..MOST_PARTS {
            if !allowed.has_time() {
                return;
            }
            match self.read_part() {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Reads some lines. Returns whether there can be more.
    fn read_part(&mut self) -> std::io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.rest);
        self.file.seek(SeekFrom::Start(self.at))?;
        let read = Read::by_ref(&mut self.file).take(PART_BYTES).read_to_end(&mut bytes)?;
        self.at += read as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // libcufile writes no longer line.
        if bytes.len() - end < MESSAGE_BYTES {
            self.rest = bytes.split_off(end);
        }
        for line in String::from_utf8_lossy(&bytes).lines() {
            let Some((_, rest)) = line.split_once(self.mark.as_str()) else { continue };
            self.lines += 1;
            let message = rest.split_once(']').map_or(rest, |(_, message)| message).trim();
            if self.messages.len() < MOST_MESSAGES {
                self.messages.insert(message.chars().take(MESSAGE_BYTES).collect());
            }
        }
        Ok(read as u64 == PART_BYTES)
    }

    /// Whether libcufile reported in this process that it has no direct route.
    pub(super) fn reports_compat(&self) -> bool {
        self.messages.iter().any(|message| message.to_ascii_lowercase().contains("running in compatible mode"))
    }

    /// The different messages of the process, one per line.
    pub(super) fn text(&self) -> String {
        self.messages.iter().fold(String::new(), |text, message| text + message + "\n")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_lines_of_the_process_are_read_once_and_after_a_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = File::create(dir.path().join(NAME)).unwrap();
        let process = std::process::id();
        let line = |pid: u32, text: &str| format!(" 27-11-2026 14:39:59:877 [pid={pid} tid=9] NOTICE  {text}\n");
        log.write_all(line(1, "running in compatible mode").as_bytes()).unwrap();
        let mut seen = ProcessLog::open(process, &dir.path().join(NAME)).unwrap();
        assert!(seen.path.ends_with(NAME));
        seen.read(&Allowance::unlimited());
        assert!(!seen.reports_compat() && seen.lines == 0, "another process reported it");
        let own = line(process, "cufio-drv:1257 running in compatible mode");
        log.write_all(&own.as_bytes()[..40]).unwrap();
        seen.read(&Allowance::unlimited());
        assert!(!seen.reports_compat(), "the line has no end yet");
        log.write_all(&own.as_bytes()[40..]).unwrap();
        log.write_all(own.as_bytes()).unwrap();
        seen.read(&Allowance::unlimited());
        assert!(seen.reports_compat());
        assert_eq!((seen.lines, seen.text().lines().count()), (2, 1));
        log.set_len(0).unwrap();
        log.seek(SeekFrom::Start(0)).unwrap();
        log.write_all(line(process, "x").as_bytes()).unwrap();
        seen.read(&Allowance::unlimited());
        assert_eq!((seen.lines, seen.text().lines().count()), (3, 2));
    }
}
