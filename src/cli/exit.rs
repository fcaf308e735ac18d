//! The exit statuses. The program, the help of each command and the tests use the same table.

use clap::Command;

/// Success.
pub(super) const FINE: u8 = 0;
/// The result is bad: a check failed, bytes are wrong, or there is a regression.
pub(super) const BAD_ANSWER: u8 = 1;
/// The usage or the input is wrong.
pub(super) const BAD_CALL: u8 = 2;
/// A requested engine, GPU or model could not run.
pub(super) const COULD_NOT_RUN: u8 = 3;
/// Interrupted by a signal.
pub(super) const INTERRUPTED: u8 = 130;

/// All statuses with their meanings.
const TABLE: [(u8, &str); 5] = [
    (FINE, "fine"),
    (
        BAD_ANSWER,
        "the answer is bad: a check blocks the route in use or leaves none, --require or --strict is not met, wrong bytes, a regression",
    ),
    (BAD_CALL, "wrong usage or input"),
    (
        COULD_NOT_RUN,
        "a requested run was not possible: the GPU does not exist, the model does not fit, an engine is not available, no call of the watched program could be recorded; or a run process died; or a comparison was not possible, or not decided",
    ),
    (INTERRUPTED, "interrupted"),
];

/// The table in the form of the help text.
fn help() -> String {
    let rows: Vec<String> = TABLE.iter().map(|(status, meaning)| format!("  {status:>3}  {meaning}")).collect();
    format!("Exit status:\n{}", rows.join("\n"))
}

/// Adds the table to the short and the long help of the command and of each subcommand.
pub(super) fn documented(command: Command) -> Command {
    let with_table = |before: Option<&clap::builder::StyledStr>| {
        before.map_or_else(help, |before| format!("{before}\n\n{}", help()))
    };
    let short = with_table(command.get_after_help());
    let long = with_table(command.get_after_long_help().or_else(|| command.get_after_help()));
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
            for text in [command.get_after_help(), command.get_after_long_help()] {
                let text = text.map(ToString::to_string).unwrap_or_default();
                for (status, meaning) in TABLE {
                    assert!(text.contains(&format!("{status}  {meaning}")), "{}: {text}", command.get_name());
                }
            }
        });
    }
}
