//! The race: interactive, headless, or without checks.

use super::args::{FormatArg, OutputArgs, RaceArgs};
use super::outcome::{BAD_CALL, FINE, fail, note};
use crate::config::{Taste, ThemeName};
use crate::domain::{CacheState, Event, EventBody};
use crate::headless;
use crate::report::{self, Format};
use crate::session::live::{self, GpuChoice, SessionConfig};
use crate::session::{Command, Feed, REAL_TIME, State};
use crate::tui;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interactive program.
pub(super) fn interactive(model: Option<String>, race: &RaceArgs, output: &OutputArgs) -> u8 {
    let taste = match taste(output) {
        Ok(taste) => taste,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    let mut config = match config(race) {
        Ok(config) => config,
        Err(sentence) => return fail(BAD_CALL, &sentence),
    };
    config.model = model;
    config.end_after_race = false;
    let feed = match live::start(config) {
        Ok(feed) => feed,
        Err(error) => return fail(BAD_CALL, &error.to_string()),
    };
    screens(feed, taste, tui::Screen::Environment, REAL_TIME, output)
}

/// Shows a feed on screens, `first` at first; exports at the end where asked. `speed` is that of a replay, in sixteenths of real time.
pub(super) fn screens(feed: Feed, taste: Taste, first: tui::Screen, speed: u32, output: &OutputArgs) -> u8 {
    let options = tui::Options { taste, first_screen: first, speed, export: Some(export_here) };
    let replay = feed.replay;
    let events = feed.events.clone();
    let outcome = tui::run(feed, options);
    wait_for_end(&events);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return fail(BAD_CALL, &error.to_string()),
    };
    if let Some((folder, formats)) = export_plan(output) {
        match report::export(&outcome.state, &folder, &formats) {
            Ok(files) => files.iter().for_each(|file| note(&format!("wrote {}", file.display()))),
            Err(error) => return fail(BAD_CALL, &error.to_string()),
        }
    }
    match outcome.signal {
        Some(signal_hook::consts::SIGINT) => 130,
        Some(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        // The user looked and left: what was seen is not the exit status's business.
        None if replay => FINE,
        None => FINE,
    }
}

/// Lets a session that was told to end clear away what it made, which takes milliseconds; not for ever, should a library hang.
fn wait_for_end(events: &crossbeam_channel::Receiver<Event>) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while let Ok(event) = events.recv_deadline(deadline) {
        if matches!(event.body, EventBody::SessionEnded { .. }) {
            return;
        }
    }
}

/// Writes the report of a session under way into a new folder below the working directory.
fn export_here(state: &State) -> String {
    let folder = PathBuf::from(format!("gds-top-report-{}", state.started_unix_ms / 1000));
    match report::export(state, &folder, &Format::ALL) {
        Ok(files) => format!("wrote {} files to {}", files.len(), folder.display()),
        Err(error) => error.to_string(),
    }
}

/// Checks, race, report, without a terminal.
pub(super) fn headless(model: Option<String>, race: &RaceArgs, output: &OutputArgs) -> u8 {
    match config(race) {
        Ok(mut config) => {
            config.model = model;
            follow(config, output, export_plan(output))
        }
        Err(sentence) => fail(BAD_CALL, &sentence),
    }
}

/// The race without checks, model after model.
pub(super) fn load(models: &[String], race: &RaceArgs, output: &OutputArgs) -> u8 {
    let several = models.len() > 1;
    if several && output.json {
        return fail(
            BAD_CALL,
            "--json prints one result; name one model, or use --export DIR, which gets a folder for each",
        );
    }
    let mut worst = FINE;
    for (number, model) in models.iter().enumerate() {
        let mut config = match config(race) {
            Ok(config) => config,
            Err(sentence) => return fail(BAD_CALL, &sentence),
        };
        config.model = Some(model.clone());
        config.checks = false;
        // Several models: a recording and a folder each, named by number and model.
        let label = || {
            let name = Path::new(model).file_name().map_or_else(|| model.clone(), |n| n.to_string_lossy().into_owned());
            format!("{}-{name}", number + 1)
        };
        if several {
            config.record = config.record.map(|path| labelled(&path, &label()));
        }
        let export = export_plan(output).map(|(dir, formats)| (if several { dir.join(label()) } else { dir }, formats));
        let status = follow(config, output, export);
        if status == 130 {
            return status;
        }
        worst = worst.max(status);
    }
    worst
}

/// `race.gdsrec` with the label `1-q06` is `race-1-q06.gdsrec`.
fn labelled(path: &Path, label: &str) -> PathBuf {
    let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{label}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{label}"),
    };
    path.with_file_name(name)
}

/// Runs a live session headless, to its end.
pub(super) fn follow(config: SessionConfig, output: &OutputArgs, export: Option<(PathBuf, Vec<Format>)>) -> u8 {
    match live::start(config) {
        Ok(feed) => follow_feed(&feed, output, export).exit,
        Err(error) => fail(BAD_CALL, &error.to_string()),
    }
}

/// Follows any feed headless.
pub(super) fn follow_feed(
    feed: &Feed,
    output: &OutputArgs,
    export: Option<(PathBuf, Vec<Format>)>,
) -> headless::Outcome {
    end_on_signals(feed);
    let options = headless_options(output, export);
    // Written through the handles, not through locks held for minutes: a library that prints must not wait for us.
    headless::run(feed, &options, &mut io::stdout(), &mut io::stderr())
}

/// How headless output looks on these streams.
pub(super) fn headless_options(output: &OutputArgs, export: Option<(PathBuf, Vec<Format>)>) -> headless::Options {
    let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
    let no_colour = output.plain || dumb || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    headless::Options {
        json: output.json,
        quiet: output.quiet,
        verbose: output.verbose,
        progress: io::stderr().is_terminal() && !output.plain && !dumb,
        colour: io::stdout().is_terminal() && !no_colour,
        ascii: dumb,
        export,
        width: columns(),
    }
}

/// Columns of the terminal on standard output; 100 where it is none.
pub(super) fn columns() -> u16 {
    if !io::stdout().is_terminal() {
        return 100;
    }
    crossterm::terminal::size().map_or(100, |(columns, _)| columns.clamp(40, 160))
}

/// INT and TERM end the session in order: the running lane is ended and the report says that it was interrupted. A second one ends the process.
fn end_on_signals(feed: &Feed) {
    let commands = feed.commands.clone();
    let signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ]);
    let Ok(mut signals) = signals else { return };
    // The thread ends with the process.
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 || commands.send(Command::Quit).is_err() {
                std::process::exit(130);
            }
        }
    });
}

/// The export that was asked for.
pub(super) fn export_plan(output: &OutputArgs) -> Option<(PathBuf, Vec<Format>)> {
    let formats = if output.format.is_empty() {
        Format::ALL.to_vec()
    } else {
        output
            .format
            .iter()
            .map(|format| match format {
                FormatArg::Json => Format::Json,
                FormatArg::Md => Format::Markdown,
                FormatArg::Html => Format::Html,
                FormatArg::Csv => Format::Csv,
                FormatArg::Trace => Format::Trace,
                FormatArg::Prom => Format::Prom,
            })
            .collect()
    };
    output.export.clone().map(|dir| (dir, formats))
}

/// Theme, colours and glyphs.
pub(super) fn taste(output: &OutputArgs) -> Result<Taste, String> {
    let asked = match (&output.theme, output.plain) {
        (Some(name), _) => Some(name.parse::<ThemeName>()?),
        (None, true) => Some(ThemeName::Mono),
        (None, false) => None,
    };
    Ok(Taste::detect(asked, |name| std::env::var(name).ok()))
}

/// The session that the arguments describe.
pub(super) fn config(race: &RaceArgs) -> Result<SessionConfig, String> {
    let exe = std::env::current_exe()
        .map_err(|e| format!("the program's own file cannot be found, which lanes are started from: {e}"))?;
    let mut config = SessionConfig::new(exe);
    config.engines = (!race.engine.is_empty()).then(|| race.engine.clone());
    config.caches = if race.cache.is_empty() { vec![CacheState::Cold] } else { race.cache.clone() };
    config.repeat = race.repeat;
    config.gpu = match race.gpu.as_deref() {
        None => GpuChoice::Auto,
        Some("host") => GpuChoice::Host,
        Some(text) if text.to_ascii_lowercase().starts_with("gpu-") => GpuChoice::Uuid(text.to_owned()),
        Some(text) => match text.parse() {
            Ok(index) => GpuChoice::Index(index),
            Err(_) => {
                return Err(format!(
                    "--gpu takes an index, a UUID (GPU-…) or 'host', not '{text}'; 'nvidia-smi -L' lists the GPUs"
                ));
            }
        },
    };
    config.verify = !race.no_verify;
    config.telemetry = !race.no_telemetry;
    config.knobs = race.settings.iter().cloned().collect();
    config.record.clone_from(&race.record);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_of_several_models_gets_a_name_for_each() {
        assert_eq!(labelled(Path::new("out/race.gdsrec"), "1-q06"), Path::new("out/race-1-q06.gdsrec"));
        assert_eq!(labelled(Path::new("race"), "2-q7b"), Path::new("race-2-q7b"));
    }
}
