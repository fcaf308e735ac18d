//! The fixed list of commands that checks may run. Each command runs in a child process with a time limit and limited
//! output.

use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of bytes that are kept of each output stream. The end is kept: the last messages of a log count.
pub(super) const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// Maximum number of 64 KiB blocks that are read from a pipe in one pass.
const MOST_BLOCKS: usize = 64;

/// The output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// The program and its arguments.
    #[serde(default, deserialize_with = "super::lenient::list")]
    pub argv: Vec<String>,
    /// Exit status; `None` if a signal or the time limit ended it.
    #[serde(default, deserialize_with = "super::lenient::signed32")]
    pub exit_code: Option<i32>,
    /// Standard output.
    #[serde(default, deserialize_with = "super::lenient::string")]
    pub stdout: String,
    /// Standard error.
    #[serde(default, deserialize_with = "super::lenient::string")]
    pub stderr: String,
}

/// The command by which captures name the kernel log.
pub(super) const KERNEL_MESSAGES: [&str; 5] = ["journalctl", "-k", "-b", "-o", "cat"];

/// The commands that checks may run. All of them only read.
#[must_use]
fn allowed_commands() -> &'static [&'static [&'static str]] {
    &[
        &["uname", "-r"],
        &["dkms", "status"],
        &["modinfo", "nvidia"],
        &["modinfo", "nvidia_fs"],
        &["mokutil", "--sb-state"],
        &KERNEL_MESSAGES,
        &["ldconfig", "-p"],
        &["nvidia-smi"],
        &["nv-fabricmanager", "--version"],
        &["ofed_info", "-s"],
    ]
}

pub(super) fn is_allowed(argv: &[String]) -> bool {
    is_smart_log(argv)
        || allowed_commands().iter().any(|allowed| allowed.iter().copied().eq(argv.iter().map(String::as_str)))
}

/// Whether the command reads the health of an NVMe controller. It has an argument: `/dev/nvme0`.
fn is_smart_log(argv: &[String]) -> bool {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let ["nvme", "smart-log", device, "--output-format=json"] = words[..] else { return false };
    let number = device.strip_prefix("/dev/nvme").unwrap_or_default();
    (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn run(argv: &[String], limit: Duration) -> Option<CommandOutput> {
    let (program, arguments) = argv.split_first()?;
    let program = crate::trust::program(program).ok()?;
    let mut command = crate::trust::system_command(&program);
    command.args(arguments).env("SYSTEMD_PAGER", "").env("SYSTEMD_COLORS", "0");
    let ran = run_limited(&mut command, limit).ok()?;
    Some(CommandOutput { argv: argv.to_vec(), exit_code: ran.exit_code, stdout: ran.stdout, stderr: ran.stderr })
}

/// The result of a child process with a time limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The exit status, if the process exited normally.
    pub exit_code: Option<i32>,
    /// The signal that ended the process, if any.
    pub signal: Option<i32>,
    /// Standard output. Of more than the limit, only the last complete lines.
    pub stdout: String,
    /// Standard error, with the same limit.
    pub stderr: String,
    /// Whether the process was killed at the time limit.
    pub timed_out: bool,
}

/// Runs a command with empty input, limited output and a time limit. The process is killed at the time limit.
///
/// # Errors
/// Returns the error of the operating system if the command cannot be started.
pub fn run_limited(command: &mut Command, limit: Duration) -> std::io::Result<Ran> {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    // The child gets a separate process group, so that its children are also killed at the time limit.
    command.process_group(0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdout = Stream::of(child.stdout.take())?;
    let mut stderr = Stream::of(child.stderr.take())?;
    let (status, timed_out) = wait_until(&mut child, Instant::now() + limit, &mut stdout, &mut stderr)?;
    Ok(Ran {
        exit_code: status.and_then(|s| s.code()).filter(|_| !timed_out),
        signal: status.and_then(|s| s.signal()).filter(|_| !timed_out),
        stdout: stdout.text(),
        stderr: stderr.text(),
        timed_out,
    })
}

/// One output stream of a child process. It is read without blocking, because another process may keep the pipe open
/// after the child has ended. All output of the child is in the pipe by then.
struct Stream<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
    block: Vec<u8>,
}

impl<P: Read + AsFd> Stream<P> {
    fn of(pipe: Option<P>) -> std::io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pipe, bytes: Vec::new(), block: vec![0; 1 << 16] })
    }

    /// Reads the available data and returns whether there was any. All data is read, so that the child never blocks on
    /// a full pipe.
    fn take(&mut self) -> bool {
        let mut any = false;
        // 64 blocks are more than a full pipe, and a limit if the output never ends.
        for _ in 0..MOST_BLOCKS {
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut self.block) {
                Ok(read @ 1..) => {
                    self.bytes.extend_from_slice(&self.block[..read]);
                    // Removing the beginning moves all bytes, so it is done rarely.
                    if self.bytes.len() > 2 * MAX_OUTPUT_BYTES {
                        keep_end(&mut self.bytes, MAX_OUTPUT_BYTES);
                    }
                    any = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
        any
    }

    /// The pipe for `poll`; `None` after the end of the stream.
    fn as_poll(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN))
    }

    fn text(mut self) -> String {
        keep_end(&mut self.bytes, MAX_OUTPUT_BYTES);
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Removes the beginning of an output that is longer than the limit, and the rest of its first line: a part of a line
/// could look like another line.
pub(super) fn keep_end(bytes: &mut Vec<u8>, limit: usize) {
    let Some(excess) = bytes.len().checked_sub(limit).filter(|excess| *excess > 0) else { return };
    // The byte before the end that is kept can be a line end.
    let rest = bytes[excess - 1..].iter().position(|byte| *byte == b'\n').map(|at| excess + at);
    bytes.drain(..rest.unwrap_or(excess));
}

/// Waits for the end of a child and reads its output. Kills the child's process group at the time `end`.
fn wait_until(
    child: &mut Child,
    end: Instant,
    stdout: &mut Stream<impl Read + AsFd>,
    stderr: &mut Stream<impl Read + AsFd>,
) -> std::io::Result<(Option<ExitStatus>, bool)> {
    // A child closes its pipes when it ends, and this ends the wait below. Its exit status is available slightly
    // later.
    const SHORTEST: Duration = Duration::from_micros(100);
    const LONGEST: Duration = Duration::from_millis(10);
    let mut pause = SHORTEST;
    loop {
        let ended = child.try_wait()?;
        let any = stdout.take() | stderr.take();
        if let Some(status) = ended {
            return Ok((Some(status), false));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            if let Ok(pid) = i32::try_from(child.id())
                && let Some(group) = rustix::process::Pid::from_raw(pid)
            {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            child.kill()?;
            let status = child.wait().ok();
            let _ = stdout.take() | stderr.take();
            return Ok((status, true));
        }
        let pipes: Vec<PollFd<'_>> = [stdout.as_poll(), stderr.as_poll()].into_iter().flatten().collect();
        if pipes.is_empty() {
            std::thread::sleep(pause.min(left));
            pause = if any { SHORTEST } else { (pause * 2).min(LONGEST) };
        } else {
            wait_for_output(pipes, LONGEST.min(left));
        }
    }
}

/// Waits until a pipe has data or was closed. The wait is limited, because another process may keep a pipe open after
/// the child has ended.
fn wait_for_output(mut pipes: Vec<PollFd<'_>>, limit: Duration) {
    let Ok(limit) = rustix::event::Timespec::try_from(limit) else { return };
    // The caller repeats an interrupted wait.
    let _ = rustix::event::poll(&mut pipes, Some(&limit));
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
    fn the_last_complete_lines_of_a_long_output_are_kept() {
        for (text, limit, kept) in [
            ("one\ntwo\nthree\n", 100, "one\ntwo\nthree\n"),
            ("one\ntwo\nthree\n", 14, "one\ntwo\nthree\n"),
            ("one\ntwo\nthree\n", 10, "two\nthree\n"),
            ("one\ntwo\nthree\n", 9, "three\n"),
            ("a line without an end", 3, "end"),
        ] {
            let mut bytes = text.as_bytes().to_vec();
            keep_end(&mut bytes, limit);
            assert_eq!(String::from_utf8(bytes).unwrap(), kept, "{limit}");
        }
        let script = "head -c 9000000 /dev/zero | tr '\\0' '\\n'; echo last";
        let ran = run_limited(Command::new("sh").args(["-c", script]), Duration::from_secs(180)).unwrap();
        assert!(ran.stdout.len() <= MAX_OUTPUT_BYTES && ran.stdout.ends_with("\nlast\n"), "{}", ran.stdout.len());
    }

    #[test]
    fn a_child_that_hangs_is_ended_and_said_so() {
        let ran = run_limited(Command::new("sleep").arg("86400"), Duration::from_millis(50)).unwrap();
        assert!(ran.timed_out);
        assert_eq!(ran.exit_code, None);
    }

    #[test]
    fn output_and_status_come_back() {
        let ran =
            run_limited(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]), Duration::from_secs(180));
        let ran = ran.unwrap();
        assert_eq!((ran.exit_code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(7), "out\n", "err\n"));
    }

    #[test]
    fn all_that_a_child_wrote_is_taken_also_where_another_holds_its_pipes_open() {
        // The output is larger than a pipe, so it must be read while the child runs. The last line follows just
        // before the end.
        let script = "sleep 86400 & head -c 300000 /dev/zero | tr '\\0' x; echo; echo $!";
        let ran = run_limited(Command::new("sh").args(["-c", script]), Duration::from_secs(180)).unwrap();
        let mut lines = ran.stdout.lines();
        assert!(!ran.timed_out && lines.next().is_some_and(|line| line.len() == 300_000), "{}", ran.stdout.len());
        let holder = lines.next().and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(holder, rustix::process::Signal::KILL).unwrap();
    }
}
