//! The processes between a session and a command.
//!
//! The supervisor adopts the orphans of the command, so that all descendants form one tree. It ends that tree when the
//! command has ended, when the session requests it, and when the session ends, which closes the supervisor's standard
//! input. The keeper is the parent of the supervisor. It adopts the tree if the supervisor is killed, and ends it. So
//! the tree ends if two of the three are killed at the same time. If all are killed, the kernel kills the process
//! group of the command.

use crate::core::units;
use crate::device::GroupEnd;
use crate::engines::protocol::monotonic_ns;
use crate::telemetry::tree::{self, SUPERVISOR};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for the end of killed processes. A process in a system call of a driver ends later than others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a supervisor for the command line, and ends the processes that it leaves.
#[must_use]
pub fn keep(line: &str) -> u8 {
    answer(run_supervisor(line))
}

fn run_supervisor(line: &str) -> std::io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The session ends the group of this process if it does not end in time. The supervisor then still ends the tree.
    let supervisor = Command::new(std::env::current_exe()?).args([SUPERVISOR, line]).process_group(0).spawn();
    let ended = supervisor?.wait();
    end_tree(std::process::id());
    ended.map(drop)
}

/// Runs a command line with `sh -c` to its end, then ends its remaining processes. The standard output of the command
/// is redirected to standard error. The descriptor in `GDS_TOP_FD` is the standard output of this process. The last
/// line there is written by the supervisor: `{"supervisor": {...}}`.
#[must_use]
pub fn supervise(line: &str) -> u8 {
    answer(run(line))
}

fn answer(result: std::io::Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("gds-top: the command could not be started: {error}");
            2
        }
    }
}

fn run(line: &str) -> std::io::Result<()> {
    let own = std::process::id();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let lines = rustix::io::fcntl_dupfd_cloexec(std::io::stdout().as_fd(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr().as_fd())?;
    // The descriptor belongs to the command, so it must stay open across exec.
    rustix::io::fcntl_setfd(&lines, FdFlags::empty())?;
    let mut group = GroupEnd::new()?;
    let started_ns = monotonic_ns();
    // The absolute path is used, because the PATH of root may contain a directory of another user.
    let started = Command::new("/bin/sh")
        .arg0("sh")
        .args(["-c", line])
        .env("GDS_TOP_FD", lines.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    rustix::io::fcntl_setfd(&lines, FdFlags::CLOEXEC)?;
    let mut child = started?;
    let named = group.name(child.id());
    let listener = std::thread::Builder::new().spawn(move || {
        // The stream carries no data. It closes when the session requests the end, or ends.
        let _ = std::io::stdin().read(&mut [0]);
        end_tree(own);
    });
    if let Err(error) = named.and(listener.map(drop).map_err(|error| std::io::Error::other(units::no_thread(error)))) {
        // If nothing can end the tree later, the tree must not keep running.
        end_tree(own);
        return Err(error);
    }
    let status = child.wait()?;
    let at_ns = monotonic_ns();
    let left = tree::members(own).len().saturating_sub(1);
    end_tree(own);
    // Waiting for the descendants adds their resource use to the counters of this process.
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    let used = tree::usage(own).unwrap_or_default();
    let end_line = json!({"at_ns": at_ns, "supervisor": {
        "started_ns": started_ns, "code": status.code(), "signal": status.signal(), "storage_read_bytes": used.storage_read_bytes,
        "read_call_bytes": used.read_call_bytes, "cpu_ns": used.cpu_ns, "major_faults": used.major_faults, "left": left,
    }});
    let mut lines = File::from(lines);
    // The line begins with a line end, because the command may have left an incomplete line.
    let _ = writeln!(lines, "\n{end_line}");
    Ok(())
}

/// Kills all descendants. This is repeated until no process is left, because a process may start another one before
/// it is killed.
fn end_tree(own: u32) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let others: Vec<u32> = tree::members(own).into_iter().filter(|pid| *pid != own).collect();
        if others.is_empty() {
            return;
        }
        for pid in others {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
