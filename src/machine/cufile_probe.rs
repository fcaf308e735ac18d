//! Queries libcufile in a child process with a time limit, because some versions loop or crash when they are opened.

use super::command::run_limited;
use super::libcufile::LibcufileFacts;
use super::live_options::LiveOptions;
use crate::trust::{Scratch, without_foreign_variables};
use std::process::Command;
use std::time::Duration;

/// The environment variable with the path of libcufile's log.
const LOG_FILE: &str = "CUFILE_LOGFILE_PATH";

/// Queries the library in a child process. `modules_are_readable` is whether /proc/modules can be read.
pub(super) fn probe_live(options: &LiveOptions, modules_are_readable: bool) -> LibcufileFacts {
    let Some((program, arguments)) = options.cufile_probe.as_ref().and_then(|argv| argv.split_first()) else {
        return LibcufileFacts::failed("libcufile was not probed");
    };
    // Since 1.16 the library loops forever if /proc/modules cannot be opened (measured with 1.20). So the limit is
    // short in this case.
    let limit =
        if modules_are_readable { options.probe_limit } else { options.probe_limit.min(Duration::from_secs(3)) };
    // The library writes cufile.log to a given directory, or to its working directory. A private directory is used, so that
    // no other user can create a link there.
    let scratch = match Scratch::new("gds-top-probe-") {
        Ok(scratch) => scratch,
        Err(error) => {
            return LibcufileFacts::failed(format!("cannot create a scratch directory for the probe: {error}"));
        }
    };
    let mut command = Command::new(program);
    without_foreign_variables(&mut command).args(arguments).arg(scratch.path()).current_dir(scratch.path());
    // If no log path is set, the child would restart itself with one.
    if std::env::var_os(LOG_FILE).is_none() {
        command.env(LOG_FILE, scratch.path().join("cufile.log"));
    }
    if !options.open_cufile {
        command.arg("--no-open");
    }
    let ran = match run_limited(&mut command, limit) {
        Ok(ran) => ran,
        Err(error) => return LibcufileFacts::failed(format!("the probe {program} could not be started: {error}")),
    };
    // The library may print text before and after the facts. The facts are the last line that is a JSON object.
    let facts = ran.stdout.lines().rev().find_map(|line| {
        let line = line.trim();
        line.starts_with('{').then(|| serde_json::from_str::<LibcufileFacts>(line).ok()).flatten()
    });
    let died = ran.signal.map(|signal| format!("the probe of libcufile died by signal {signal}"));
    let hung = ran.timed_out.then(|| format!("the probe of libcufile did not end within {} s", limit.as_secs()));
    match (facts, hung.or(died)) {
        (Some(mut facts), None) => {
            facts.left_closed = !options.open_cufile;
            if let Some(open) = facts.open.as_mut().filter(|open| open.stderr.is_empty()) {
                open.stderr = ran.stderr;
            }
            facts
        }
        (facts, Some(how)) => {
            // The probe prints its findings before it opens the library, so they are available if the call hangs or
            // crashes.
            let mut facts = facts.unwrap_or_else(|| LibcufileFacts::failed(how.clone()));
            let mut open = facts.open.take().unwrap_or_default();
            open.timed_out = ran.timed_out;
            open.stdout = ran.stdout;
            open.stderr = if ran.timed_out { ran.stderr } else { format!("{how}\n{}", ran.stderr) };
            facts.open = Some(open);
            facts
        }
        (None, None) => LibcufileFacts::failed(format!(
            "the probe of libcufile ended with status {} and without a result{}",
            ran.exit_code.unwrap_or(-1),
            ran.stderr.lines().next().map_or(String::new(), |line| format!(": {line}"))
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn probed(script: &str, limit: Duration) -> LibcufileFacts {
        let options = LiveOptions {
            cufile_probe: Some(vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()]),
            probe_limit: limit,
            ..LiveOptions::default()
        };
        probe_live(&options, true)
    }

    #[test]
    fn the_answer_is_found_between_the_librarys_own_words() {
        let facts = probed(
            r#"echo noise; echo '{"found":[{"path":"/l","version":"1.15"}],"chosen":"/l","open":{"code":0}}'; echo bye"#,
            Duration::from_secs(180),
        );
        assert_eq!(facts.version_numbers(), Some((1, 15)));
        assert_eq!(facts.open.unwrap().code, Some(0));
    }

    #[test]
    fn a_probe_that_hangs_after_its_first_words_is_a_fact_and_keeps_them() {
        let facts = probed(
            r#"echo '{"found":[{"path":"/l","version":"1.20"}],"chosen":"/l"}'; sleep 86400"#,
            // The limit is longer than the first output takes, because the test waits for the complete limit.
            Duration::from_secs(3),
        );
        assert_eq!(facts.version(), Some("1.20"));
        let open = facts.open.unwrap();
        assert!(open.timed_out);
        assert_eq!(open.code, None);
    }

    #[test]
    fn the_probe_is_given_a_private_folder_and_works_in_it() {
        let facts = probed(
            r#"printf '{"chosen":"%s","error":"%s"}\n' "$0" "$(stat -c %a "$0") $(pwd)""#,
            Duration::from_secs(180),
        );
        let folder = facts.chosen.unwrap();
        assert_eq!(facts.error.unwrap(), format!("700 {folder}"));
        assert!(!std::path::Path::new(&folder).exists());
    }

    #[test]
    fn crashed_and_silent_probes_are_reported() {
        let crashed = probed("kill -SEGV $$", Duration::from_secs(180));
        assert!(crashed.open.unwrap().stderr.contains("signal 11"));
        let silent = probed("exit 3", Duration::from_secs(180));
        assert!(silent.error.unwrap().contains("status 3"));
    }
}
