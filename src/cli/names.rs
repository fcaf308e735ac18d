//! The names of commands: misplaced arguments, and suggestions for misspelt names.

use super::commands::Cli;
use crate::models::Profile;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};

impl Cli {
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
        // A word with a slash or a dot is a path or a repository name, not a misspelt command.
        if word.contains(['/', '.']) || std::path::Path::new(word).exists() || Profile::names().contains(&word) {
            return None;
        }
        let word = word.to_lowercase();
        let cli = Self::command();
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
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn options_before_a_command_are_rejected() {
        let misplaced = |arguments: &[&str]| Cli::misplaced(&Cli::command().try_get_matches_from(arguments).unwrap());
        for (arguments, named) in [
            (["gds-top", "--json", "check", "/models"].as_slice(), "--json is before the command 'check'"),
            (&["gds-top", "--engine", "pread", "bench", "m"], "--engine is before"),
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
