//! The names of commands: misplaced arguments, and suggestions for misspelt names.

use super::args::{RunArgs, ScreenArgs};
use super::commands::Cli;
use crate::models::Profile;
use clap::builder::StyledStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, ColorChoice, Command, CommandFactory};
use std::ffi::OsString;

impl Cli {
    /// The words of a call. Options about the output that are in front of the command are moved behind it, where the
    /// command accepts or refuses them.
    pub(super) fn in_order(words: Vec<OsString>) -> Vec<OsString> {
        let options = ScreenArgs::augment_args(RunArgs::augment_args(Command::new("options")));
        let settings = Self::command().get_arguments().filter(|arg| arg.is_global_set()).cloned().collect::<Vec<_>>();
        let values = |word: &str| -> Option<usize> {
            let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
            let is = |arg: &&Arg| match (name.strip_prefix("--"), name.strip_prefix('-')) {
                (Some(long), _) => {
                    arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|a| a.contains(&long))
                }
                (None, Some(short)) => arg.get_short().is_some_and(|known| short.chars().eq([known])),
                (None, None) => false,
            };
            let arg = options.get_arguments().chain(&settings).find(is)?;
            Some(usize::from(arg.get_action().takes_values() && !has_value))
        };
        let mut at = 1;
        while let Some(more) = words.get(at).and_then(|word| values(word.to_str()?)) {
            at += 1 + more;
        }
        let mut command = Self::command();
        let mut end = at;
        while let Some(sub) = words.get(end).and_then(|word| command.find_subcommand(word).cloned()) {
            command = sub;
            end += 1;
        }
        if at == 1 || end == at {
            return words;
        }
        [&words[..1], &words[at..end], &words[1..at], &words[end..]].concat()
    }

    /// An argument that is in front of the command but must follow it. At its position it would have no effect.
    pub(super) fn misplaced(call: &ArgMatches) -> Option<String> {
        let command = call.subcommand_name()?;
        let cli = Self::command();
        let given = |arg: &&Arg| call.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let arg = cli.get_arguments().filter(|arg| !arg.is_global_set()).find(given)?;
        let what = arg.get_long().map_or_else(|| "a model".to_owned(), |long| format!("--{long}"));
        Some(format!("{what} is before the command '{command}'; write it after: gds-top {command} ..."))
    }

    /// Whether a word is a command, also a hidden one.
    pub(super) fn has_command(word: &str) -> bool {
        word == "help"
            || Self::command()
                .get_subcommands()
                .any(|sub| sub.get_name() == word || sub.get_all_aliases().any(|a| a == word))
    }

    /// The command whose name is similar to a word that is not a model.
    pub(super) fn similar(word: &str) -> Option<String> {
        Self::similar_below(&[], word)
    }

    /// The command below these commands whose name is similar to a word.
    pub(super) fn similar_below(parents: &[String], word: &str) -> Option<String> {
        // A word with a slash or a dot is a path or a repository name, not a misspelt command.
        if word.contains(['/', '.']) || std::path::Path::new(word).exists() || Profile::names().contains(&word) {
            return None;
        }
        let word = word.to_lowercase();
        let mut cli = Self::command();
        for parent in parents {
            cli = cli.find_subcommand(parent)?.clone();
        }
        let names = cli.get_subcommands().flat_map(|command| {
            std::iter::once(command.get_name()).chain(command.get_all_aliases()).map(|name| (name, command.get_name()))
        });
        names
            .chain([("help", "help")])
            .filter(|(name, _)| !name.starts_with("__"))
            .map(|(name, command)| (strsim::jaro_winkler(&word, name), command))
            .filter(|(score, _)| *score >= 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, command)| command.to_owned())
    }

    /// The usage of the command in a call.
    pub(super) fn usage(words: impl Iterator<Item = OsString>) -> StyledStr {
        let mut command = Self::command();
        command.build();
        for word in words {
            if let Some(sub) = command.find_subcommand(&word).cloned() {
                command = sub;
            }
        }
        command.render_usage()
    }
}

/// The commands that read no settings file.
const WITHOUT_SETTINGS: [&str; 5] = ["settings", "explain", "fleet", "completions", "man"];

/// The program whose help shows `--config` only for commands that read the settings file.
pub(super) fn without_settings(mut program: Command) -> Command {
    for name in WITHOUT_SETTINGS {
        let config = program.get_arguments().find(|arg| arg.get_id().as_str() == "settings_file").cloned();
        // clap does not replace an argument of a command by a global one with the same id.
        program = program.mut_subcommand(name, |command| command.args(config.map(|arg| arg.hide(true))));
    }
    program
}

/// The colours of help and errors, which clap prints before the arguments are known.
pub(super) fn colour_of_help(words: impl Iterator<Item = OsString>) -> ColorChoice {
    let mut words = words.map(|word| word.to_string_lossy().into_owned()).take_while(|word| word != "--");
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        match value.as_deref() {
            Some("always") => return ColorChoice::Always,
            Some("never") => return ColorChoice::Never,
            _ => {}
        }
    }
    ColorChoice::Auto
}

/// The command whose options accept negative numbers, so that an error names the option and its range. Without this,
/// the number is an unknown option.
pub(super) fn signed(command: Command) -> Command {
    let with_numbers = |arg: Arg| match arg.is_positional() || !arg.get_action().takes_values() {
        true => arg,
        false => arg.allow_negative_numbers(true),
    };
    command.mut_args(with_numbers).mut_subcommands(signed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::FromArgMatches as _;

    #[test]
    fn options_before_a_command_are_rejected() {
        let misplaced = |arguments: &[&str]| Cli::misplaced(&Cli::command().try_get_matches_from(arguments).unwrap());
        for (arguments, named) in [
            (["gds-top", "--engine", "pread", "bench", "m"].as_slice(), "--engine is before the command 'bench'"),
            (&["gds-top", "/models", "check"], "a model is before"),
        ] {
            let said = misplaced(arguments).unwrap();
            assert!(said.contains(named) && said.contains("write it after"), "{said}");
        }
        for fine in [["gds-top", "--config", "f", "bench", "m"].as_slice(), &["gds-top", "m", "--json"], &["gds-top"]] {
            assert_eq!(misplaced(fine), None);
        }
    }

    #[test]
    fn help_has_the_colours_of_the_option() {
        let chosen = |line: &str| colour_of_help(line.split(' ').map(OsString::from));
        assert_eq!(chosen("--color always --help"), ColorChoice::Always);
        assert_eq!(chosen("bench --help --color=never"), ColorChoice::Never);
        for line in ["--help", "--color auto --help", "watch -- ls --color=always"] {
            assert_eq!(chosen(line), ColorChoice::Auto, "{line}");
        }
    }

    #[test]
    fn help_shows_the_settings_file_only_for_commands_that_read_it() {
        let mut program = without_settings(Cli::command());
        program.build();
        for name in program.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>() {
            let sub = program.find_subcommand(&name).unwrap();
            if name == "help" || name.starts_with("__") || sub.has_subcommands() {
                continue;
            }
            let help = sub.clone().render_long_help().to_string();
            assert_eq!(help.contains("--config <FILE>"), !WITHOUT_SETTINGS.contains(&name.as_str()), "{name}: {help}");
        }
        for line in ["settings", "explain 5030", "fleet report.json", "completions bash", "man"] {
            let words = ["gds-top", "--config", "f"].into_iter().chain(line.split(' '));
            let call = without_settings(Cli::command()).try_get_matches_from(words).unwrap();
            let cli = Cli::from_arg_matches(&call).unwrap();
            assert!(cli.config.is_some() && cli.command.unwrap().needs_no_settings(), "{line}");
        }
    }

    #[test]
    fn options_about_the_output_are_accepted_on_both_sides_of_a_command() {
        let ordered = |line: &str| {
            let words = Cli::in_order(line.split(' ').map(OsString::from).collect());
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("gds-top -q --color never check /m", "gds-top check -q --color never /m"),
            ("gds-top --colour=always --config f load m --json", "gds-top load --colour=always --config f m --json"),
            ("gds-top --json config lint", "gds-top config lint --json"),
            ("gds-top -q", "gds-top -q"),
            ("gds-top -q model --json", "gds-top -q model --json"),
            ("gds-top --engine pread bench m", "gds-top --engine pread bench m"),
            ("gds-top --color", "gds-top --color"),
            ("gds-top check -q", "gds-top check -q"),
            ("gds-top --json settings", "gds-top settings --json"),
        ] {
            assert_eq!(ordered(line), expected);
        }
        let parsed = |line: &str| {
            Cli::command().try_get_matches_from(Cli::in_order(line.split(' ').map(OsString::from).collect()))
        };
        assert!(parsed("gds-top -q --color never check /m").is_ok());
        assert!(parsed("gds-top --json settings").is_err(), "the command does not have the option");
    }

    #[test]
    fn a_misspelt_command_has_a_suggestion_and_a_model_has_none() {
        for (word, command) in
            [("chek", "check"), ("bnech", "bench"), ("Check", "check"), ("kvv", "bench-kv"), ("lod", "bench")]
        {
            assert_eq!(Cli::similar(word).as_deref(), Some(command), "{word}");
        }
        for model in ["qwen3-0.6b", "/models/check", "org/check", "./chek", "zzz"] {
            assert_eq!(Cli::similar(model), None, "{model}");
        }
    }
}
