//! Runs the commands of a fix and reports their output line by line.

use crate::core::units;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// Runs a command of a plan, see [`run_streamed`]. As root, `sudo` is omitted. A command that asks for a password
/// uses the terminal, if there is one. All other commands get no signal of the terminal: Ctrl-C and a closed terminal
/// end the fix after the command, and a package manager that is killed leaves a broken system.
///
/// # Errors
/// The same as [`run_streamed`].
pub fn run_for_root(argv: &[String], line: &mut dyn FnMut(String)) -> Result<(), String> {
    let has_sudo = argv.first().is_some_and(|word| word == "sudo");
    let is_root = rustix::process::geteuid().is_root();
    let argv = if has_sudo && is_root { &argv[1..] } else { argv };
    let mut command = command(argv)?;
    let asks = argv.iter().find(|word| *word != "sudo").is_some_and(|word| word == "mokutil");
    if asks && std::io::stdin().is_terminal() {
        return run_attached(&mut command);
    }
    // Only the foreground group can read the password for sudo from the terminal.
    if is_root || !has_sudo {
        command.process_group(0);
    }
    stream(&mut command, line)
}

/// Runs a command without input and reports each line of its output (standard output and error) when it arrives.
///
/// # Errors
/// If the command cannot be started or fails. The text is a part of a sentence.
pub fn run_streamed(argv: &[String], line: &mut dyn FnMut(String)) -> Result<(), String> {
    stream(&mut command(argv)?, line)
}

fn command(argv: &[String]) -> Result<Command, String> {
    let Some((program, arguments)) = argv.split_first() else { return Err("it is empty".to_owned()) };
    let mut command = crate::trust::system_command(&crate::trust::program(program)?);
    command.args(arguments);
    Ok(command)
}

/// Runs a command on the terminal of this process.
fn run_attached(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(e) => Err(format!("it cannot be started: {e}")),
    }
}

/// Runs a command as [`run_streamed`] does.
fn stream(command: &mut Command, line: &mut dyn FnMut(String)) -> Result<(), String> {
    let mut child = command
        // Without this, Debian's package managers ask questions on the terminal.
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("it cannot be started: {e}"))?;
    let (sender, lines) = mpsc::channel();
    for stream in [
        child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
        child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
    ]
    .into_iter()
    .flatten()
    {
        let sender = sender.clone();
        let begun = std::thread::Builder::new().spawn(move || {
            for said in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                // A progress bar overwrites its line, so only the last state of the line is reported.
                let said = String::from_utf8_lossy(&said).trim_end().to_owned();
                let said = said.rsplit('\r').next().unwrap_or_default().to_owned();
                if sender.send(said).is_err() {
                    return;
                }
            }
        });
        if let Err(error) = begun {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it was stopped because its output cannot be read: {}", units::no_thread(error)));
        }
    }
    drop(sender);
    for said in lines {
        if !said.trim().is_empty() {
            line(said);
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(e) => Err(format!("waiting for it failed: {e}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_reported_one_by_one_and_then_the_end() {
        let mut said = Vec::new();
        let argv = |text: &str| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()];
        run_streamed(&argv("echo one; printf '10%%\\r100%%\\n'; echo two"), &mut |line| said.push(line)).unwrap();
        assert_eq!(said, ["one", "100%", "two"]);
        let failed = run_streamed(&argv("exit 3"), &mut |_| {}).unwrap_err();
        assert!(failed.contains('3'), "{failed}");
        assert!(run_streamed(&["no-such-program-here".to_owned()], &mut |_| {}).unwrap_err().contains("not installed"));
    }
}
