//! The completions of shells: the scripts of clap_complete, and the values that they lack. They complete no list with commas, no
//! value of a positional argument in fish, no word with ':' or '=' in bash, and nothing in zsh after a command that an
//! optional argument can replace.

use super::commands::Cli;
use super::hints::profile_words;
use crate::core::Serving;
use clap::{Arg, Command, CommandFactory};
use clap_complete::{Shell, generate};

/// The mark around the values of a list in the script of clap_complete.
const LIST: &str = "@";
/// A function that joins split words and completes lists.
const BASH: &str = include_str!("completions.bash");
/// The functions for lists, and for models instead of commands.
const FISH: &str = include_str!("completions.fish");

/// The completions for a shell, without internal commands and hidden options.
pub(super) fn text(shell: Shell) -> String {
    let cli =
        shown(&super::names::without_settings(Cli::command()), shell != Shell::Zsh).version(env!("CARGO_PKG_VERSION"));
    let mut command = if matches!(shell, Shell::Zsh | Shell::Fish) { marked(cli.clone()) } else { cli.clone() };
    let mut text = Vec::new();
    generate(shell, &mut command, "gds-top", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    match shell {
        Shell::Bash => bash(&text, &cli),
        Shell::Zsh => zsh(&text),
        Shell::Fish => fish(&text, &cli),
        _ => text,
    }
}

/// The script of bash, which calls the function for split words.
fn bash(text: &str, cli: &Command) -> String {
    // clap_complete writes a hyphen in the program's name in two ways, so no case after a command would match.
    let text = text.replace("gds__subcmd__top", "gds__top").replace("complete -F _gds__top ", "complete -F _gds_top ");
    let mut lists: Vec<String> = Vec::new();
    for arg in std::iter::once(cli).chain(cli.get_subcommands()).flat_map(Command::get_arguments) {
        lists.extend(arg.get_long().filter(|_| is_list(arg)).map(|long| format!("--{long}")));
    }
    lists.sort();
    lists.dedup();
    let once = cli.get_subcommands().filter_map(|sub| {
        let once = sub.get_positionals().filter(|arg| !is_repeated(arg)).flat_map(names).collect::<Vec<_>>().join(" ");
        (!once.is_empty()).then(|| format!("        {}) once=\"{once}\" ;;", sub.get_name()))
    });
    let function = BASH.replace("@lists@", &lists.join(" ")).replace("@shapes@", &profile_words());
    text + &function.replace("@once@", &once.collect::<Vec<_>>().join("\n"))
}

/// The script of zsh, in which a model can be a file too, also instead of a command.
fn zsh(text: &str) -> String {
    let models = format!(r#""shapes:shape:({})" "files:file:_files""#, profile_words());
    let shapes = format!(":({})'", profile_words());
    let files = format!(": _alternative {models}'");
    let line = |line: &str| match line.strip_prefix("'*::") {
        // The program that 'watch' starts is completed as a command line.
        Some(rest) if rest.starts_with("command -- ") => line.replace(":_default'", ":_normal'"),
        // With '*::', zsh would take the options after the first argument for arguments.
        Some(rest) => format!("'*:{}", rest.replace(&shapes, &files)),
        None if line.contains(":profile -- ") => line.to_owned(),
        None => line.replace(&shapes, &files),
    };
    let text: String = text.lines().map(|one| line(one) + "\n").collect();
    // The second value of this option is a file.
    let systems = format!(":({})", Serving::ALL.map(Serving::name).join(" "));
    let text = text.replace(&format!("{systems}:SYSTEM{systems}"), &format!("{systems}:CONFIG:_files"));
    // If an argument that another one follows can be missing, zsh offers the values of both.
    let lines: Vec<&str> = text.lines().collect();
    let needed = |(at, line): (usize, &&str)| match line.strip_prefix("'::") {
        Some(rest) if lines.get(at + 1).is_some_and(|next| next.starts_with("'::")) => format!("':{rest}\n"),
        _ => format!("{line}\n"),
    };
    let text: String = lines.iter().enumerate().map(needed).collect();
    let text = replaced(&text, ":(@", "@)'", |names| format!(":_sequence compadd - {}'", names.replace(LIST, " ")));
    let commands = r#"":: :_gds-top_commands""#;
    let first = format!(r#"': : _alternative "commands:command:_gds-top_commands" {models}'"#);
    // After a model, the options of the program follow.
    let options = text.split_once("_arguments ").and_then(|(_, after)| after.split_once(commands));
    let after_a_model = options.map_or_else(String::new, |(options, _)| {
        format!("        (*)\n_arguments {options}&& ret=0\n;;\n        esac\n    ;;\nesac\n}}\n")
    });
    text.replacen(commands, &first, 1).replacen("        esac\n    ;;\nesac\n}\n", &after_a_model, 1)
}

/// The script of fish, with the values of positional arguments, and with options after a model.
fn fish(text: &str, cli: &Command) -> String {
    let text =
        replaced(text, "\"@", "@\\t''\"", |names| format!("\"(__fish_gds_top_list {})\"", names.replace(LIST, " ")));
    let text = text.replace("\"__fish_gds_top_needs_command\" -", "\"__fish_gds_top_no_command\" -");
    let commands = text.replace("\"__fish_gds_top_no_command\" -a", "\"__fish_gds_top_needs_command\" -a");
    let names = cli.get_subcommands().flat_map(|sub| std::iter::once(sub.get_name()).chain(sub.get_all_aliases()));
    let functions = FISH.replace("@commands@", &names.chain(["help"]).collect::<Vec<_>>().join(" "));
    let of_program = cli.get_positionals().map(|arg| values_of_fish("__fish_gds_top_needs_command", arg));
    let of_commands = cli.get_subcommands().flat_map(|sub| {
        let condition = format!("__fish_gds_top_using_subcommand {}", sub.get_name());
        sub.get_positionals().map(move |arg| values_of_fish(&condition, arg)).collect::<Vec<_>>()
    });
    // Only commands follow 'help'.
    let shown: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
    let shown = shown.join(" ");
    let help = "__fish_gds_top_using_subcommand help";
    let of_help = format!(
        "complete -c gds-top -n \"{help}\" -f\n\
         complete -c gds-top -n \"{help}; and not __fish_seen_subcommand_from {shown}\" -a \"{shown}\"\n"
    );
    commands + &functions + &of_program.chain(of_commands).collect::<String>() + &of_help
}

/// The line of fish for the values of a positional argument.
fn values_of_fish(condition: &str, arg: &Arg) -> String {
    let values = names(arg).join(" ");
    if values.is_empty() {
        return String::new();
    }
    let once = if is_repeated(arg) { String::new() } else { format!("; and not __fish_seen_subcommand_from {values}") };
    let files = if arg.get_id().as_str().starts_with("model") { "" } else { " -f" };
    format!("complete -c gds-top -n \"{condition}{once}\"{files} -a \"{values}\"\n")
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append)
}

/// Whether an option has values separated by commas. `--engine` separates them itself.
fn is_list(arg: &Arg) -> bool {
    (arg.get_value_delimiter() == Some(',') || arg.get_id() == "engine") && !names(arg).is_empty()
}

fn names(arg: &Arg) -> Vec<String> {
    let takes_value = arg.get_action().takes_values();
    arg.get_possible_values().iter().filter(|_| takes_value).map(|value| value.get_name().to_owned()).collect()
}

/// Puts marks around the values of lists.
fn marked(command: Command) -> Command {
    let mark = |arg: Arg| match is_list(&arg) {
        true => {
            let names = names(&arg).join(LIST);
            arg.value_parser([format!("{LIST}{names}{LIST}")])
        }
        false => arg,
    };
    command.mut_args(mark).mut_subcommands(marked)
}

/// Replaces each text between two marks.
fn replaced(text: &str, open: &str, close: &str, with: impl Fn(&str) -> String) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(open)
        && let Some((inner, more)) = after.split_once(close)
    {
        out += before;
        out += &with(inner);
        rest = more;
    }
    out + rest
}

/// The command with those of its commands and options that are shown. clap_complete also writes hidden ones.
fn shown(command: &Command, with_positionals: bool) -> Command {
    let arguments =
        command.get_arguments().filter(|arg| !arg.is_hide_set() && (with_positionals || !arg.is_positional()));
    let commands = command.get_subcommands().filter(|sub| !sub.get_name().starts_with("__"));
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(arguments.cloned())
        .subcommands(commands.map(|sub| shown(sub, true)))
}
