//! The completions of shells.

use super::commands::Cli;
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

/// The completions for a shell, without the internal commands.
pub(super) fn text(shell: Shell) -> String {
    let mut text = Vec::new();
    generate(shell, &mut shown(&Cli::command()), "gds-top", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    // clap_complete writes a hyphen in the program's name in two ways, so no case after a command would match.
    if shell == Shell::Bash { text.replace("gds__subcmd__top", "gds__top") } else { text }
}

/// The command with those of its commands that are not internal. clap_complete also writes hidden ones.
fn shown(command: &Command) -> Command {
    Command::new("gds-top")
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|sub| !sub.get_name().starts_with("__")).cloned())
}
