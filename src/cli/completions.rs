//! The completions of shells.

use super::commands::Cli;
use super::hints::profile_words;
use crate::models::Profile;
use clap::{Arg, Command, CommandFactory};
use clap_complete::{Shell, generate};

/// The completions for a shell, without the internal commands.
pub(super) fn text(shell: Shell) -> String {
    let mut text = Vec::new();
    generate(shell, &mut shown(&Cli::command()), "gds-top", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    match shell {
        // clap_complete writes a hyphen in the program's name in two ways, so no case after a command would match.
        Shell::Bash => text.replace("gds__subcmd__top", "gds__top"),
        Shell::Zsh => with_files(&text),
        Shell::Fish => text + &shapes_of_fish(),
        _ => text,
    }
}

/// The completions of zsh, in which a model can be a file too. clap_complete offers either names or files.
fn with_files(text: &str) -> String {
    let shapes = format!(":({})'", profile_words());
    let both = format!(r#": _alternative "shapes:shape:({})" "files:file:_files"'"#, profile_words());
    let line = |line: &str| if line.contains(":profile -- ") { line.to_owned() } else { line.replace(&shapes, &both) };
    text.lines().map(|one| line(one) + "\n").collect()
}

/// The shapes for fish: clap_complete writes no values of positional arguments.
fn shapes_of_fish() -> String {
    let has_shapes = |sub: &Command| {
        let values = sub.get_positionals().flat_map(Arg::get_possible_values);
        values.map(|value| value.get_name().to_owned()).any(|name| Profile::names().contains(&name.as_str()))
    };
    let line = |sub: &Command| {
        format!(
            "complete -c gds-top -n \"__fish_gds_top_using_subcommand {}\" -a \"{}\"\n",
            sub.get_name(),
            profile_words()
        )
    };
    Cli::command().get_subcommands().filter(|sub| has_shapes(sub)).map(line).collect()
}

/// The command with those of its commands that are not internal. clap_complete also writes hidden ones.
fn shown(command: &Command) -> Command {
    Command::new("gds-top")
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|sub| !sub.get_name().starts_with("__")).cloned())
}
