//! Child processes with a limit: probes of libraries that may hang or crash.

use crate::domain::units;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Limit of a probe of CUDA or libcufile: opening either takes under two seconds where it works.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// Runs this program's own hidden subcommand and parses the last line that it prints, a JSON object. The child is killed at the limit.
///
/// # Errors
/// A sentence: it could not be started, took too long, died, or printed something else.
pub fn probe_child(exe: &Path, arguments: &[&str], limit: Duration) -> Result<Value, String> {
    child_until(exe, arguments, limit, &mut || false)
}

/// The same, ended as soon as `cancelled` says so.
pub(super) fn child_until(
    exe: &Path,
    arguments: &[&str],
    limit: Duration,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Value, String> {
    let name = arguments.first().map_or("probe", |a| a.trim_start_matches('_'));
    let mut child = Command::new(exe)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{name} could not be started: {e}"))?;
    // Pipes are read on threads, so that a child that prints much does not wait for us while we wait for it.
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(4 << 20).read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = read(child.stdout.take().map(|p| Box::new(p) as _));
    let stderr = read(child.stderr.take().map(|p| Box::new(p) as _));
    let (stdout, stderr) = match (stdout, stderr) {
        (Ok(stdout), Ok(stderr)) => (stdout, stderr),
        (Err(error), _) | (_, Err(error)) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{name} could not be listened to: {}", units::no_thread(error)));
        }
    };
    let deadline = Instant::now() + limit;
    let mut nap = Duration::from_millis(1);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} gave no answer within {} s and was ended", limit.as_secs()));
            }
            Ok(None) if cancelled() => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} was cancelled"));
            }
            Ok(None) => {
                std::thread::sleep(nap);
                nap = (nap * 2).min(Duration::from_millis(20));
            }
            Err(error) => return Err(format!("{name} could not be waited for: {error}")),
        }
    };
    let text = stdout.join().unwrap_or_default();
    let said = stderr.join().unwrap_or_default();
    // Lines before the last are what was known before something that may hang; a child that died after one gave no answer.
    let last = text.lines().rev().map(str::trim).find(|line| line.starts_with('{'));
    let answer = last.filter(|_| status.success()).and_then(|line| serde_json::from_str(line).ok());
    answer.ok_or_else(|| {
        let said = said.trim();
        let words = if said.is_empty() { String::new() } else { format!("; its last words: {said}") };
        format!("{name} ended with {status} and no answer{words}")
    })
}
