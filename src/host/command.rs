//! Commands that a check may run: a fixed list, each in a child with a time limit and bounded output.

use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Most bytes kept of each output stream.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// What a command said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// Program and arguments.
    #[serde(default, deserialize_with = "super::lenient::list")]
    pub argv: Vec<String>,
    /// Exit status; `None` where it was ended by a signal or the time limit.
    #[serde(default, deserialize_with = "super::lenient::signed32")]
    pub exit_code: Option<i32>,
    /// Standard output.
    #[serde(default, deserialize_with = "super::lenient::string")]
    pub stdout: String,
    /// Standard error.
    #[serde(default, deserialize_with = "super::lenient::string")]
    pub stderr: String,
}

/// The commands that may be run, all of them readers.
#[must_use]
pub fn allowed_commands() -> &'static [&'static [&'static str]] {
    &[
        &["uname", "-r"],
        &["dkms", "status"],
        &["modinfo", "nvidia"],
        &["modinfo", "nvidia_fs"],
        &["mokutil", "--sb-state"],
        &["journalctl", "-k", "-b", "-o", "cat"],
        &["ldconfig", "-p"],
        &["nvidia-smi"],
    ]
}

pub(super) fn is_allowed(argv: &[String]) -> bool {
    allowed_commands().iter().any(|allowed| allowed.iter().copied().eq(argv.iter().map(String::as_str)))
}

pub(super) fn run(argv: &[String], limit: Duration) -> Option<CommandOutput> {
    let (program, arguments) = argv.split_first()?;
    // The tools of an administrator are often outside a user's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin");
    let program = which::which_in(program, Some(&path), "/").ok()?;
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env("SYSTEMD_PAGER", "").env("SYSTEMD_COLORS", "0");
    let ran = run_limited(&mut command, limit).ok()?;
    Some(CommandOutput { argv: argv.to_vec(), exit_code: ran.exit_code, stdout: ran.stdout, stderr: ran.stderr })
}

/// How a child with a time limit ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Exit status, where it exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, bounded.
    pub stdout: String,
    /// Standard error, bounded.
    pub stderr: String,
    /// Whether it was ended at the time limit.
    pub timed_out: bool,
}

/// Runs a command with empty input, bounded output and a time limit, after which it is killed.
///
/// # Errors
/// The operating system's, when it cannot be started.
pub fn run_limited(command: &mut Command, limit: Duration) -> std::io::Result<Ran> {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    // A group of its own, so that at the time limit its children go with it.
    command.process_group(0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = Stream::drain(child.stdout.take());
    let stderr = Stream::drain(child.stderr.take());
    let (status, timed_out) = wait_until(&mut child, Instant::now() + limit)?;
    Ok(Ran {
        exit_code: status.and_then(|s| s.code()).filter(|_| !timed_out),
        signal: status.and_then(|s| s.signal()).filter(|_| !timed_out),
        stdout: stdout.take(),
        stderr: stderr.take(),
        timed_out,
    })
}

/// What a child has written so far, read by a thread.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: mpsc::Receiver<()>,
}

impl Stream {
    fn drain(stream: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (tx, end) = mpsc::channel();
        let kept = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            let Some(mut stream) = stream else { return };
            // Past the bound the rest is thrown away, so that the child never blocks on a full pipe.
            while let Ok(read @ 1..) = stream.read(&mut block) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_OUTPUT_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&block[..read.min(room)]);
            }
            // The receiver may have stopped waiting.
            let _ = tx.send(());
        });
        Self { bytes, end }
    }

    /// All of it; where somebody holds the pipe open after the child's end, what arrived until a moment later.
    fn take(self) -> String {
        let _ = self.end.recv_timeout(Duration::from_millis(300));
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn wait_until(child: &mut Child, end: Instant) -> std::io::Result<(Option<std::process::ExitStatus>, bool)> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), false));
        }
        if Instant::now() >= end {
            if let Ok(pid) = i32::try_from(child.id())
                && let Some(group) = rustix::process::Pid::from_raw(pid)
            {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            child.kill()?;
            return Ok((child.wait().ok(), true));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_commands_may_run() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_allowed(&words("uname -r")));
        assert!(!is_allowed(&words("uname")));
        assert!(!is_allowed(&words("rm -r /")));
    }

    #[test]
    fn a_child_that_hangs_is_ended_and_said_so() {
        let ran = run_limited(Command::new("sleep").arg("30"), Duration::from_millis(50)).unwrap();
        assert!(ran.timed_out);
        assert_eq!(ran.exit_code, None);
    }

    #[test]
    fn output_and_status_come_back() {
        let ran =
            run_limited(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]), Duration::from_secs(5));
        let ran = ran.unwrap();
        assert_eq!((ran.exit_code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(7), "out\n", "err\n"));
    }
}
