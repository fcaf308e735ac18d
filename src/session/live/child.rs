//! Starts all processes of a session. Each process has a separate group and ends with the session. Its streams are
//! read, and all waits have a time limit.

use super::process::stderr_tail;
use crate::core::units;
use crate::engines::ENV_SESSION;
use crossbeam_channel::{Receiver, bounded};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time limit of a probe of CUDA or libcufile. Opening one of them takes less than two seconds if it works.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for the end of a killed process and for its last output. A process in a system call of a driver may
/// take longer; it is then abandoned.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of bytes that are read from the standard output of a probe.
const ANSWER_BYTES: u64 = 4 << 20;

/// A child process. It is killed with all processes of its group when this value is dropped.
pub(super) struct ChildProcess {
    child: Child,
    status: Option<ExitStatus>,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    stderr: Receiver<String>,
}

impl ChildProcess {
    /// Starts a process of this program. The process gets a separate process group. So signals from the terminal
    /// reach only the session, which ends its children in order. The kernel kills the child if its parent dies (see
    /// [`crate::engines::end_with_parent`]).
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        command
            .env(ENV_SESSION, std::process::id().to_string())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (send, stderr) = bounded(1);
        let mut process = Self { child, status: None, stdin, stdout, stderr };
        let reader = Builder::new().spawn(move || {
            let _ = send.send(errors.map(stderr_tail).unwrap_or_default());
        });
        match reader {
            Ok(_) => Ok(process),
            Err(error) => {
                process.end();
                Err(io::Error::other(units::no_thread(error)))
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits for the end of the process, but not longer than `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let (start, mut nap) = (Instant::now(), Duration::from_millis(1));
        while self.status().is_none() && start.elapsed() < limit {
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(20));
        }
        self.status
    }

    /// Kills the process and its group. `None` if it did not end within [`PATIENCE`].
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        if self.status().is_none() {
            // The child has not been waited for, so no other process can have its number.
            if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.kill();
        }
        self.wait(PATIENCE)
    }

    /// The end of its standard error, which is read after the end of the process. If a descendant keeps the stream
    /// open, the function does not wait for it.
    pub(super) fn stderr_tail(&self) -> String {
        self.stderr.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs work on a thread, such as reading a stream. Without it, a child that writes much output would block while its
/// parent waits for it.
pub(super) fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Receiver<T>> {
    let (send, receive) = bounded(1);
    let work = move || {
        let _ = send.send(work());
    };
    Builder::new().spawn(work).map(|_| receive)
}

/// Runs a hidden subcommand of this program and parses the last line of its output as a JSON object. The child is
/// killed at the limit.
///
/// # Errors
/// Returns a sentence if the child could not be started, took too long, died, or printed something else.
pub fn probe_child(exe: &Path, arguments: &[&str], limit: Duration) -> Result<Value, String> {
    child_until(exe, arguments, limit, &mut || false)
}

/// Like [`probe_child`], but ends when `cancelled` returns true.
pub(super) fn child_until(
    exe: &Path,
    arguments: &[&str],
    limit: Duration,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Value, String> {
    let name = arguments.first().map_or("probe", |a| a.trim_start_matches('_'));
    let mut child = ChildProcess::start(Command::new(exe).args(arguments))
        .map_err(|error| format!("{name} could not be started: {error}"))?;
    drop(child.stdin.take());
    let stdout = child.stdout.take();
    let answer = on_thread(move || {
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(ANSWER_BYTES).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
    .map_err(|error| format!("{name} could not be read: {}", units::no_thread(error)))?;
    let (start, mut nap) = (Instant::now(), Duration::from_millis(1));
    let status = loop {
        if let Some(status) = child.status() {
            break status;
        }
        if start.elapsed() >= limit {
            return Err(format!("{name} did not answer within {} s and was killed", limit.as_secs()));
        }
        if cancelled() {
            return Err(format!("{name} was cancelled"));
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(20));
    };
    let text = answer.recv_timeout(PATIENCE).unwrap_or_default();
    // A child prints its findings before an operation that may hang. So if it died, an earlier line is not its
    // answer.
    let last = text.lines().rev().map(str::trim).find(|line| line.starts_with('{'));
    let answer = last.filter(|_| status.success()).and_then(|line| serde_json::from_str(line).ok());
    answer.ok_or_else(|| {
        let tail = child.stderr_tail();
        let tail = if tail.is_empty() { tail } else { format!("; the end of its standard error: {tail}") };
        format!("{name} ended with {status} and no answer{tail}")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sh(script: &str) -> ChildProcess {
        ChildProcess::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn ending_a_child_ends_its_group_and_no_wait_is_unbounded() {
        // The second process also has both streams open.
        let mut child = sh("sleep 3600 & echo $!; wait");
        let mut line = [0; 16];
        let read = child.stdout.as_mut().unwrap().read(&mut line).unwrap();
        let pid: i32 = std::str::from_utf8(&line[..read]).unwrap().trim().parse().unwrap();
        assert!(child.end().is_some());
        assert_eq!(child.stderr_tail(), "");
        let start = Instant::now();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
        };
        while !gone() {
            assert!(start.elapsed() < Duration::from_secs(60), "the second process is still running");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_child_has_a_group_of_its_own_and_knows_its_session() {
        let mut child = sh("echo $GDS_TOP_SESSION; cat >&2");
        let mut text = String::new();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let group: u32 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert_eq!(group, child.id());
        io::Write::write_all(&mut child.stdin.take().unwrap(), b"tail").unwrap();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text.trim(), std::process::id().to_string());
        assert!(child.wait(Duration::from_secs(60)).unwrap().success());
        assert_eq!(child.stderr_tail(), "tail");
    }

    #[test]
    fn a_child_that_hangs_is_ended_at_its_limit() {
        let error = probe_child(Path::new("sh"), &["-c", "sleep 3600"], Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("did not answer within"), "{error}");
    }
}
