//! The command line: parses arguments, selects the command and returns the exit status.

mod args;
mod bar;
mod baseline;
mod capture;
mod check;
mod commands;
mod completions;
mod config;
mod consent;
mod engine_tables;
mod examples;
mod exit;
mod explain;
mod exporter;
mod fix;
mod fix_work;
mod fleet;
mod guided;
mod hints;
mod internal;
mod io;
mod kv;
mod learn;
mod loaders;
mod manual;
mod measured;
mod models;
mod names;
mod outcome;
mod overhead;
mod predict;
mod race;
mod recordings;
mod report_file;
mod selftest;
mod serving;
mod settings;
mod streams;
mod sudo;
mod sweep;
mod swept;
mod targets;
mod terminal;
mod test_file;
mod together;
mod top;
mod view;
mod watch;

use crate::device::endings;
use crate::engines;
use crate::models::{Profile, WeightsError};
use crate::trust;
use crate::tui;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use commands::{Cli, Sub};
use outcome::{BAD_CALL, COULD_NOT_RUN, Ran, fail};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs the program. When it returns, all errors have been printed on standard error.
#[must_use]
pub fn main() -> ExitCode {
    endings::report_file_size();
    endings::report_threads();
    if std::env::args_os().nth(1).is_some_and(|command| command == endings::SWEEP) {
        let status = std::env::args_os().nth(2).and_then(|status| status.to_str()?.parse().ok());
        trust::remove_leftovers(std::env::args_os().skip(3));
        return ExitCode::from(status.unwrap_or(endings::STATUS));
    }
    let command = names::signed(exit::documented(examples::added(concise(names::without_settings(Cli::command())))));
    let call = match command
        .color(names::colour_of_help(std::env::args_os().skip(1)))
        .try_get_matches_from(Cli::in_order(std::env::args_os().collect()))
    {
        Ok(call) => call,
        Err(error) => match misspelt(&error, std::env::args_os().skip(1)) {
            Some(sentence) => return ExitCode::from(fail(BAD_CALL, &sentence)),
            None => return refuse(error),
        },
    };
    if let Some(sentence) = Cli::misplaced(&call) {
        // The word in front of the command can be a misspelt command, as in 'hlep bench'.
        let sentence = misspelt_first(std::env::args_os().skip(1)).unwrap_or(sentence);
        return ExitCode::from(fail(BAD_CALL, &sentence));
    }
    let cli = match Cli::from_arg_matches(&call) {
        Ok(cli) => cli,
        Err(error) => return refuse(error),
    };
    if matches!(&cli.command, Some(Sub::Internal(internal)) if internal.is_child_of_a_session()) {
        if !engines::end_with_parent() {
            return ExitCode::from(outcome::INTERRUPTED);
        }
    } else {
        endings::report(endings::Screen { is_open: tui::has_terminal, leave: tui::LEAVE });
    }
    let aside = cli.command.as_ref().is_some_and(Sub::needs_no_settings);
    if !aside && let Err(sentence) = settings::read(cli.config.as_deref()) {
        return ExitCode::from(fail(BAD_CALL, &sentence));
    }
    if let Some(sentence) = targets::missing(&call) {
        return ExitCode::from(fail(COULD_NOT_RUN, &sentence));
    }
    let status = run(cli).unwrap_or_else(|sentence| fail(BAD_CALL, &sentence));
    // Other output was flushed before. A closed pipe is not an error.
    let _ = std::io::stdout().flush();
    ExitCode::from(status)
}

/// The options that the short help of the program lists. `gds-top bench -h` lists those of a benchmark.
const OF_SHORT_HELP: [&str; 6] = ["headless", "root", "json", "quiet", "color", "theme"];

/// The command with a short help that fits on a screen.
fn concise(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| match arg.is_positional() || OF_SHORT_HELP.contains(&arg.get_id().as_str()) {
        true => arg,
        false => arg.hide_short_help(true),
    })
}

/// Prints the help, the version, or an error, which can contain any argument.
fn refuse(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let mut out = streams::out();
        // clap prints colours, but only UTF-8.
        let printed = if out.is_ascii() { write!(out, "{}", error.render()) } else { error.print() };
        let printed = printed.and_then(|()| out.flush());
        return ExitCode::from(outcome::written(printed));
    }
    // A value after `--` would be another model.
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested)
        && tips.iter().any(|tip| tip.to_string().contains("as a value, use"))
    {
        error.remove(ContextKind::Suggested);
    }
    // The usage of clap contains the suggested option as if it were required.
    if error.get(ContextKind::SuggestedArg).is_some() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(Cli::usage(std::env::args_os().skip(1))));
    }
    let words: Vec<OsString> = std::env::args_os().filter(|word| word.to_str().is_none()).collect();
    if let (ErrorKind::InvalidUtf8, [word]) = (error.kind(), words.as_slice()) {
        return ExitCode::from(fail(BAD_CALL, &format!("the argument {word:?} is not UTF-8")));
    }
    let mut text = error.render().to_string();
    // clap writes the range as in the source: `0 is not in 1..=1000`.
    if let Some(reason) = std::error::Error::source(&error).map(ToString::to_string)
        && let Some((value, range)) = reason.split_once(" is not in ")
        && let Some((least, most)) = range.split_once("..=")
    {
        text = text.replace(&reason, &format!("{value} is not a number from {least} to {most}"));
    }
    fail(BAD_CALL, text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    ExitCode::from(BAD_CALL)
}

/// A sentence about a misspelt command before other arguments, or after `help`. clap takes the first for a model.
fn misspelt(error: &clap::Error, words: impl Iterator<Item = OsString>) -> Option<String> {
    use ErrorKind::{InvalidSubcommand, MissingRequiredArgument, UnknownArgument};
    if !matches!(error.kind(), UnknownArgument | InvalidSubcommand | MissingRequiredArgument) {
        return None;
    }
    let all: Vec<OsString> = words.collect();
    let mut words = all.iter().map(|word| word.to_string_lossy().into_owned()).filter(|word| !word.starts_with('-'));
    if words.next()? == "help" {
        let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
        let mut line: Vec<String> = words.take_while(|other| other != word).collect();
        line.push(Cli::similar_below(&line, word)?);
        return Some(format!("'{word}' is not a command; did you mean 'gds-top help {}'?", line.join(" ")));
    }
    misspelt_first(all.into_iter())
}

/// A sentence if the first word is a misspelt command.
fn misspelt_first(words: impl Iterator<Item = OsString>) -> Option<String> {
    let first = words.map(|word| word.to_string_lossy().into_owned()).find(|word| !word.starts_with('-'))?;
    let command = Some(&first).filter(|word| !Cli::has_command(word)).and_then(|word| Cli::similar(word))?;
    Some(format!("'{first}' is not a command; did you mean 'gds-top {command}'?"))
}

/// Runs the command.
fn run(cli: Cli) -> Ran {
    match cli.command {
        Some(Sub::Internal(internal)) => internal.run(),
        Some(Sub::Export(args)) => exporter::run(&args),
        Some(Sub::Fleet(args)) => fleet::run(&args),
        Some(Sub::Io { io, export, output, screens }) => io::run(&io, export.plan(), &output.on(&screens)),
        Some(Sub::Kv(args)) => kv::run(&args),
        Some(Sub::Top(args)) => top::run(&args),
        Some(Sub::Watch(args)) => watch::run(args),
        Some(Sub::Load { list_loaders: true, output, .. }) => Ok(loaders::list(&output.output())),
        Some(Sub::Load { models, together: true, race, export, output, .. }) => {
            together::load(&models, &race, export.plan(), &output.output())
        }
        Some(Sub::Load { models, sweep: true, race, output, .. }) => sweep::run(&models, &race, &output.output()),
        Some(Sub::Load { models, race, export, output, .. }) => race::load(&models, &race, &export, &output.output()),
        Some(Sub::Synth { profile, dir, scale, seed, list, yes, force, output, quiet }) => {
            let what = profile.as_deref().zip(dir.as_deref());
            models::synth(what, (scale, seed), list, (yes, force), &output.quiet(quiet))
        }
        Some(Sub::Inspect { model, predict: true, from, target, output }) => {
            predict::run(&model, &from, target.as_deref(), &output.output())
        }
        Some(Sub::Inspect { model, output, .. }) => models::inspect(&model, &output.output()),
        Some(Sub::Replay { recording, speed, headless, export, output, screens }) => {
            let output = output.on(&screens);
            has_effect(headless, &output)?;
            recordings::replay(&recording, speed, headless, export.plan(), &output)
        }
        Some(Sub::Learn { model, html, theme, headless, yes, no_verify, load }) => {
            let output = args::OutputArgs { theme, ..args::OutputArgs::default() };
            learn::run(model, html.as_deref(), headless, &args::RaceArgs { yes, no_verify, ..load.into() }, &output)
        }
        Some(Sub::Report { recordings, baseline, threshold, export, output }) => recordings::report(
            &recordings,
            baseline.as_deref().map(|path| (path, threshold)),
            &export,
            &output.output(),
        ),
        Some(Sub::Selftest { load, no_telemetry, record, output }) => {
            selftest::run(&args::RaceArgs { no_telemetry, record, ..load.into() }, &output.output())
        }
        Some(Sub::Overhead { load, yes, no_verify, model, output, quiet }) => {
            overhead::run(&model, &args::RaceArgs { yes, no_verify, ..load.into() }, &output.quiet(quiet))
        }
        Some(Sub::Settings { engines: true, .. }) => Ok(outcome::print_fitted(&engine_tables::tables(), false)),
        Some(Sub::Settings { template, keys, .. }) => settings::show(template.as_deref(), keys),
        Some(Sub::Completions { shell }) => Ok(outcome::print_file(completions::text(shell).as_bytes())),
        Some(Sub::Man { dir }) => manual::write(dir.as_deref()),
        Some(Sub::Explain { query, output }) => explain::run(&query, &output.output()),
        Some(Sub::Config { action }) => config::run(action),
        Some(Sub::Capture { file, paths, verbose, output }) => capture::run(&file, &paths, verbose, &output.output()),
        Some(Sub::Check { require: Some(check::Level::Proven), no_probe: true, .. }) => {
            Err("--require proven needs a read: leave out --no-probe".to_owned())
        }
        Some(Sub::Check { serving, root, no_probe, test_file, output, .. }) if !serving.is_empty() => {
            serving::run(&serving, root.as_deref(), !no_probe, test_file, &output.output())
        }
        Some(Sub::Check { paths, root, no_probe, require, test_file, target, export, output, .. }) => {
            // The files exist until the checks are finished.
            let _files = if test_file { test_file::create(&check::or_here(&paths))? } else { Vec::new() };
            let wanted = check::Wanted { level: require, target: target.as_deref() };
            check::run(&paths, root.as_deref(), !no_probe, &wanted, export.plan(), &output.output())
        }
        Some(Sub::Fix { dry_run: false, list: false, ids, output, .. })
            if output.output().json && !ids.iter().any(|id| id == crate::fixes::guide::ID) =>
        {
            Err("fix prints JSON with --list or --dry-run only".to_owned())
        }
        Some(Sub::Fix { ids, dry_run, yes, undo, list, path, root, consent, stream, output }) => {
            let mode = match (dry_run, yes, undo, list) {
                (true, ..) => fix_work::Mode::DryRun,
                (_, true, ..) => fix_work::Mode::Yes,
                (_, _, true, _) => fix_work::Mode::Undo,
                (_, _, _, true) => fix_work::Mode::List,
                _ => fix_work::Mode::Ask,
            };
            let order =
                fix_work::Order { ids: &ids, mode, path: path.as_deref(), root: root.as_deref(), consent, stream };
            Ok(fix::run(&order, &output.output()))
        }
        None if cli.model.as_deref().and_then(Cli::similar).is_some() => {
            let word = cli.model.unwrap_or_default();
            let command = Cli::similar(&word).unwrap_or_default();
            Err(format!("'{word}' is neither a command nor a model; did you mean 'gds-top {command}'?"))
        }
        None if cli.headless && cli.root.is_some() => {
            Err("--headless measures this machine; use 'gds-top check --capture FILE' to examine a captured one"
                .to_owned())
        }
        None if cli.headless => {
            has_effect(true, &cli.output.on(&cli.screens))?;
            race::headless(cli.model, &cli.race, cli.export.plan(), &cli.output.output())
        }
        None if !outcome::has_terminal() => Err(without_terminal(cli.model.as_deref().filter(|_| cli.root.is_none()))),
        None => {
            let output = cli.output.on(&cli.screens);
            has_effect(false, &output)?;
            race::interactive(cli.model, cli.root, &cli.race, cli.export.plan(), &output)
        }
    }
}

/// The reason why no screens are shown. A model or path that does not exist is named first, because it is wrong with a
/// terminal too.
fn without_terminal(model: Option<&str>) -> String {
    let model = model.filter(|model| !Profile::names().contains(model));
    match model.and_then(|model| crate::models::open(model).err()) {
        Some(error @ (WeightsError::NotFound { .. } | WeightsError::NotCached { .. })) => error.to_string(),
        _ => "the interactive program needs a terminal on standard input and output; use 'gds-top --headless', 'gds-top check' or 'gds-top bench MODEL' without one"
            .to_owned(),
    }
}

/// Refuses options that would have no effect: those of text on the screens, and those of the screens in text.
fn has_effect(headless: bool, output: &args::OutputArgs) -> Result<(), String> {
    match if headless { output.without_effect_on_text() } else { output.without_effect_on_screens() } {
        Some(option) if headless => Err(format!("{option} is for the screens: leave it out, or leave out --headless")),
        Some(option) => Err(format!("{option} has no effect on the screens: leave it out, or add --headless")),
        None => Ok(()),
    }
}
