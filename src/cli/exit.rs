//! The exit statuses. The program, the help of each command and the tests use the same table.

use clap::Command;

/// Success.
pub(super) const FINE: u8 = 0;
/// The result is bad.
pub(super) const BAD_ANSWER: u8 = 1;
/// The usage or the input is wrong.
pub(super) const BAD_CALL: u8 = 2;
/// Something that was requested could not run.
pub(super) const COULD_NOT_RUN: u8 = 3;
/// Interrupted by a signal.
pub(super) const INTERRUPTED: u8 = 130;

/// All statuses: the number, the meaning, and the cases.
const TABLE: [(u8, &str, &[&str]); 5] = [
    (FINE, "fine", &[]),
    (
        BAD_ANSWER,
        "a check, a requirement or a comparison failed",
        &[
            "a check blocks the route in use or leaves none",
            "--require or --strict is not met",
            "wrong bytes",
            "a regression",
            "a fix failed",
            "the watched program failed",
        ],
    ),
    (BAD_CALL, "wrong usage or input", &[]),
    (
        COULD_NOT_RUN,
        "something that was requested could not run",
        &[
            "no such GPU",
            "the model does not fit into memory or on the disk",
            "there is no directory for its files",
            "an engine is not available",
            "a fix needs root",
            "a fix to undo is not applied",
            "no call of the watched program could be recorded",
            "a run process died",
            "the question before a write was declined",
            "a comparison was not possible or not decided",
        ],
    ),
    (INTERRUPTED, "interrupted", &[]),
];

/// The table in the form of the help text. The documents contain the same rows (`tests/readme`).
fn help() -> String {
    let row = |(status, meaning, cases): &(u8, &str, &[&str])| {
        let cases = if cases.is_empty() { String::new() } else { format!(": {}", cases.join(", ")) };
        format!("  {status:>3}  {meaning}{cases}")
    };
    format!("Exit status:\n{}", TABLE.iter().map(row).collect::<Vec<_>>().join("\n"))
}

/// The statuses and their meanings on one line.
fn summary() -> String {
    let all: Vec<String> = TABLE.iter().map(|(status, meaning, _)| format!("{status} {meaning}")).collect();
    format!("Exit status: {}", all.join(", "))
}

/// Adds the meanings to the short help and the table to the long help of the command and of each subcommand.
pub(super) fn documented(command: Command) -> Command {
    let with = |table: String, before: Option<&clap::builder::StyledStr>| match before {
        Some(before) => format!("{before}\n\n{table}"),
        None => table,
    };
    let short = with(summary(), command.get_after_help());
    let long = with(help(), command.get_after_long_help().or_else(|| command.get_after_help()));
    command.after_help(short).after_long_help(long).mut_subcommands(documented)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::Cli;
    use clap::CommandFactory as _;

    fn all(command: &Command, check: &dyn Fn(&Command)) {
        check(command);
        command.get_subcommands().for_each(|sub| all(sub, check));
    }

    #[test]
    fn every_command_shows_the_table() {
        all(&documented(Cli::command()), &|command| {
            for (text, end) in [(command.get_after_help(), summary()), (command.get_after_long_help(), help())] {
                let text = text.map(ToString::to_string).unwrap_or_default();
                assert!(text.ends_with(&end), "{}: {text}", command.get_name());
            }
        });
    }
}
