//! Produces the output of two commands without a child process, because starting one takes several milliseconds. The
//! kernel log is read from /dev/kmsg, and the list of libraries from the loader's cache. If the file cannot provide
//! the output, the result is `None` and the command is run.

use super::command::{CommandOutput, KERNEL_MESSAGES, MAX_OUTPUT_BYTES, keep_end};
use crate::trust::cached_libraries;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Maximum length of a record of /dev/kmsg. The kernel returns an error for a smaller buffer.
const RECORD_BYTES: usize = 8 << 10;

/// The output that the command would print.
pub(super) fn answer(argv: &[String]) -> Option<CommandOutput> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let stdout = match words.as_slice() {
        words if words == KERNEL_MESSAGES => kernel_messages()?,
        ["ldconfig", "-p"] => listed(&libraries(&std::fs::read("/etc/ld.so.cache").ok()?)?),
        _ => return None,
    };
    Some(CommandOutput { argv: argv.to_vec(), exit_code: Some(0), stdout, stderr: String::new() })
}

/// The command whose output has the messages of the kernel with their times, and its messages without them. The lines
/// after the first one of a message are indented, so each line without indentation begins with a time.
pub(super) const WITH_TIMES: [&str; 5] = ["journalctl", "-k", "-b", "-o", "short-unix"];

/// The messages in the output of [`WITH_TIMES`], one in a line. Lines after the first one of a message are left out.
pub(super) fn without_times(output: &str) -> String {
    let message = |line: &str| {
        let is_start = line.starts_with(|first: char| first.is_ascii_digit());
        let rest = line.split_once(' ')?.1.split_once(' ')?.1;
        let (source, text) = rest.split_once(": ")?;
        (is_start && source == "kernel").then(|| format!("{text}\n"))
    };
    output.lines().filter_map(message).collect()
}

/// The kernel messages of this boot. `None` if the user may not read them, or if the ring buffer has overwritten the
/// first messages.
fn kernel_messages() -> Option<String> {
    let mut log = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").ok()?;
    messages(|| read_record(&mut log))
}

/// Reads the next record; `Ok(None)` at the end.
fn read_record(log: &mut File) -> Result<Option<String>, ErrorKind> {
    let mut bytes = [0; RECORD_BYTES];
    loop {
        return match log.read(&mut bytes) {
            Ok(0) => Ok(None),
            Ok(length) => Ok(Some(String::from_utf8_lossy(&bytes[..length]).into_owned())),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // BrokenPipe means that the record was overwritten before it was read.
            Err(error) => Err(error.kind()),
        };
    }
}

/// The texts of the kernel's records (`6,0,12345,-;text`, Documentation/ABI/testing/dev-kmsg). Records that programs
/// wrote have another facility and are skipped, as in `journalctl -k`.
fn messages(mut next: impl FnMut() -> Result<Option<String>, ErrorKind>) -> Option<String> {
    let mut out = Vec::new();
    let mut is_first = true;
    while let Some(record) = next().ok()? {
        let (head, text) = record.split_once(';')?;
        let mut fields = head.split(',');
        let priority: u32 = fields.next()?.parse().ok()?;
        let number: u64 = fields.next()?.parse().ok()?;
        if is_first && number != 0 {
            return None;
        }
        is_first = false;
        if priority >> 3 != 0 {
            continue;
        }
        // The lines after the first one begin with a space and contain the device of the message. Control characters
        // stay escaped (`\x0a`): a user can choose the name of a program, which the kernel prints when it crashes.
        out.extend_from_slice(text.lines().next().unwrap_or_default().as_bytes());
        out.push(b'\n');
        if out.len() > 2 * MAX_OUTPUT_BYTES {
            keep_end(&mut out, MAX_OUTPUT_BYTES);
        }
    }
    keep_end(&mut out, MAX_OUTPUT_BYTES);
    (!is_first).then(|| String::from_utf8_lossy(&out).into_owned())
}

/// The libraries in the loader's cache. `None` if the loader has no cache.
fn libraries(cache: &[u8]) -> Option<Vec<(String, String)>> {
    cached_libraries(cache).filter(|libraries| !libraries.is_empty())
}

/// Formats the libraries as in `ldconfig -p`, without the kinds in parentheses.
fn listed(libraries: &[(String, String)]) -> String {
    libraries.iter().map(|(name, path)| format!("\t{name} (libc6) => {path}\n")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::process::Command;

    fn line_of(records: &[&str]) -> Option<String> {
        let mut records = records.iter();
        messages(|| Ok(records.next().map(|record| (*record).to_owned())))
    }

    #[test]
    fn lines_after_the_first_one_of_a_message_are_left_out() {
        let journal = "-- Boot 1 --\n1700000000.000001 host kernel: Linux version 6.14.0\n\
                       1700000001.000002 host kernel: x[7]: segfault at 8 in x\n                          NVRM: Xid: 79\n\
                       1700000002.000003 host systemd[1]: started: yes\n1700000003.000004 host kernel: nvme nvme0: live\n";
        let kept = "Linux version 6.14.0\nx[7]: segfault at 8 in x\nnvme nvme0: live\n";
        assert_eq!(without_times(journal), kept);
        assert_eq!(without_times("-- No entries --\n"), "");
    }

    #[test]
    fn messages_of_the_kernel_are_kept_and_those_of_programs_left_out() {
        let log = line_of(&[
            "5,0,0,-;Linux version 6.14.0\n",
            "30,1,100,-;systemd[1]: started\n",
            "3,2,200,-;NVRM: rejected\\x0atwice\n SUBSYSTEM=pci\n DEVICE=+pci:0000:01:00.0\n",
        ]);
        assert_eq!(log.unwrap(), "Linux version 6.14.0\nNVRM: rejected\\x0atwice\n");
    }

    #[test]
    fn the_end_of_a_long_log_is_kept() {
        let text = "x".repeat(1000);
        let mut number = 0;
        let log = messages(|| {
            number += 1;
            Ok((number <= 20_000).then(|| format!("6,{},100,-;{number} {text}\n", number - 1)))
        });
        let log = log.unwrap();
        assert!(log.len() <= MAX_OUTPUT_BYTES && log.len() > MAX_OUTPUT_BYTES - 2000, "{}", log.len());
        assert!(log.lines().next_back().unwrap().starts_with("20000 x"));
        assert!(log.lines().all(|line| line.ends_with(&text)), "all lines are complete");
    }

    #[test]
    fn a_log_without_its_beginning_or_with_a_gap_is_not_used() {
        assert_eq!(line_of(&["5,17,0,-;Linux version 6.14.0\n"]), None);
        assert_eq!(line_of(&[]), None);
        let mut first = true;
        let broken = messages(|| {
            if std::mem::take(&mut first) { Ok(Some("5,0,0,-;x\n".to_owned())) } else { Err(ErrorKind::BrokenPipe) }
        });
        assert_eq!(broken, None);
    }

    #[test]
    fn the_list_of_libraries_is_that_of_ldconfig() {
        let program =
            ["/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter().find(|path| std::path::Path::new(path).exists());
        let (Some(program), Ok(bytes)) = (program, std::fs::read("/etc/ld.so.cache")) else {
            eprintln!("skipped: this machine has no ldconfig or no cache");
            return;
        };
        let output = Command::new(program).arg("-p").output().unwrap();
        let pairs = |text: &str| -> BTreeSet<(String, String)> {
            let pair = |line: &str| {
                let (name, path) = line.trim().split_once(" => ")?;
                Some((name.split(" (").next()?.to_owned(), path.to_owned()))
            };
            text.lines().filter_map(pair).collect()
        };
        let own = listed(&libraries(&bytes).unwrap());
        assert_eq!(pairs(&own), pairs(&String::from_utf8_lossy(&output.stdout)));
        for length in 0..bytes.len().min(4096) {
            let _ = libraries(&bytes[..length]);
        }
    }
}
