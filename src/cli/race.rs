//! Runs races: on screens, headless, or without checks.

use super::args::{Export, ExportArgs, OutputArgs, RaceArgs};
use super::baseline::{self, Baseline, Wanted};
use super::consent;
use super::outcome::{BAD_ANSWER, BAD_CALL, COULD_NOT_RUN, FINE, INTERRUPTED, Ran, fail, not_started, note};
use super::settings::{self, Look};
use super::streams;
use super::terminal::headless_options;
use crate::analysis::{LEAST_RUNS, is_busy};
use crate::core::{CacheState, Engine, WatchReport, units};
use crate::headless::{self, Asked};
use crate::machine::Root;
use crate::report::{self, Format};
use crate::session::live::{self, GpuChoice, SessionConfig};
use crate::session::{Command, Feed, REAL_TIME, State};
use crate::tui;
use crossbeam_channel::{Receiver, Sender};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Origin;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The time limit for a session that must end. It ends its run immediately, and an idle machine completes a recording
/// of several hours within a second. A session that takes longer is stuck, and its recording is incomplete.
const SESSION_END: Duration = Duration::from_secs(15);

/// The interactive program.
pub(super) fn interactive(
    model: Option<String>,
    folder: Option<PathBuf>,
    race: &RaceArgs,
    export: Option<Export>,
    output: &OutputArgs,
) -> Ran {
    let look = settings::look(output)?;
    let mut config = config(race)?;
    if race.baseline.is_some() {
        return Err("--baseline compares at the end of a race: use it with 'gds-top bench' or '--headless'".to_owned());
    }
    if let Some(folder) = &folder {
        crate::fixes::Place::folder(folder)?;
        if model.is_some() {
            return Err("--capture examines a captured machine and cannot load a model: leave out MODEL".to_owned());
        }
    }
    if !consent::to_make(model.as_slice(), race.yes)? {
        return Ok(consent::declined());
    }
    // Without a model, nothing is written or loaded before the user presses a key.
    config.race = model.is_some();
    config.model = model;
    let captured = folder.is_some();
    config.folder = folder;
    config.end_after_race = false;
    let feed = match live::start(config) {
        Ok(feed) => feed,
        Err(error) => return not_started(&error),
    };
    screens_of(feed, look, (tui::ScreenId::Environment, captured), REAL_TIME, export)
}

/// Shows a feed on the screens, starting with `first`. At the end it exports the report if requested. `speed` is the
/// replay speed in sixteenths of real time.
pub(super) fn screens(feed: Feed, look: Look, first: tui::ScreenId, speed: u32, export: Option<Export>) -> Ran {
    screens_of(feed, look, (first, false), speed, export)
}

/// Like [`screens`]. If `captured` is set, no meters of this machine are shown, because the checks examine a captured
/// machine.
fn screens_of(feed: Feed, look: Look, first: (tui::ScreenId, bool), speed: u32, export: Option<Export>) -> Ran {
    show(feed, look, first, speed, export).map(|(_, exit)| exit)
}

/// Shows a watched program on the screens. After them, the result is printed as without screens, and the exit status is
/// the same.
pub(super) fn watched_on_screens(
    feed: Feed,
    look: Look,
    output: &OutputArgs,
    export: Option<Export>,
) -> Result<headless::Outcome, String> {
    let (state, exit) = show(feed, look, (tui::ScreenId::Race, false), REAL_TIME, export)?;
    headless::print_result(&state, &headless_options(output, None), false, &mut streams::result(output.json))
        .or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
        .map_err(|error| format!("the result could not be written to standard output: {error}"))?;
    // A program that continues after SIGTERM has no end in the state.
    let unended = if state.ended.is_none() { INTERRUPTED } else { FINE };
    let exit = exit.max(headless::exit_code(&state)).max(unended);
    Ok(headless::Outcome { state, exit, exported: Vec::new() })
}

/// Shows the screens. Returns the state at the end of the session and the exit status, which does not depend on the
/// content of the screens.
fn show(
    feed: Feed,
    look: Look,
    (first, captured): (tui::ScreenId, bool),
    speed: u32,
    export: Option<Export>,
) -> Result<(State, u8), String> {
    let liked = settings::current();
    let replay = feed.replay;
    // A rule of sudo can permit 'top', so it neither runs, changes nor writes anything.
    let alone = first == tui::ScreenId::System;
    let authorize =
        (!replay && super::sudo::is_needed(captured)).then_some(super::sudo::authorize as fn() -> Result<(), String>);
    let options = tui::Options {
        taste: look.taste,
        palette: look.palette,
        markers: look.markers,
        no_mouse: liked.mouse == Some(false),
        frames_per_second: liked.frames_per_second,
        keys: settings::keys(),
        first_screen: first,
        captured,
        // The lesson and 'top' run no checks.
        unasked: !replay && matches!(first, tui::ScreenId::Learn | tui::ScreenId::System),
        alone,
        speed,
        export: (!alone).then_some(export_here as fn(&State) -> String),
        baseline: (!alone).then_some(keep_baseline as fn(&State) -> String),
        authorize,
        is_root_without_sudo: !replay && !captured && Root::live().is_root_without_sudo(),
    };
    let (rest, unrecorded) = (feed.events.clone(), feed.unrecorded.clone());
    let mut outcome = tui::run(feed, options).map_err(|error| error.to_string())?;
    // The program ends after the screens.
    let waits = |report: &WatchReport| report.attached.is_none() && report.ended.is_none();
    if !replay && outcome.state.ended.is_none() && outcome.state.watch.as_deref().is_some_and(waits) {
        note("waiting for the program to end; it gets SIGTERM after a few seconds");
    }
    // The recording is complete only after the session has ended.
    let until = Instant::now() + SESSION_END;
    while let Ok(event) = rest.recv_deadline(until) {
        outcome.state.reduce(&event);
    }
    if let Some(why) = unrecorded.get() {
        note(why);
    }
    if let Some((folder, formats)) = export {
        let files = report::export(&outcome.state, &folder, &formats).map_err(|error| error.to_string())?;
        files.iter().for_each(|file| note(&format!("wrote {}", file.display())));
    }
    let exit = match outcome.signal {
        Some(signal_hook::consts::SIGINT) => 130,
        Some(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        None if unrecorded.get().is_some() => COULD_NOT_RUN,
        None => FINE,
    };
    Ok((outcome.state, exit))
}

/// Writes the report of a running session into a new directory below the working directory.
fn export_here(state: &State) -> String {
    let folder = PathBuf::from(format!("gds-top-report-{}", units::utc_stamp(state.started_unix_ms)));
    match report::export(state, &folder, &Format::ALL) {
        Ok(files) => format!("wrote {} files to {}", files.len(), folder.display()),
        Err(error) => error.to_string(),
    }
}

/// Saves the report of a running session as the baseline in the working directory. It replaces an earlier one.
fn keep_baseline(state: &State) -> String {
    match report::export(state, Path::new("gds-top-baseline"), &[Format::Json]) {
        Ok(_) => "kept as gds-top-baseline/report.json, for --baseline".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Runs checks and race without screens and prints the report.
pub(super) fn headless(model: Option<String>, race: &RaceArgs, export: Option<Export>, output: &OutputArgs) -> Ran {
    let (mut config, baseline) = (config(race)?, baseline(race)?);
    if !consent::to_make(model.as_slice(), race.yes)? {
        return Ok(consent::declined());
    }
    config.model = model;
    follow(config, output, export, baseline.as_ref())
}

/// Runs the race without checks for each model.
pub(super) fn load(models: &[String], race: &RaceArgs, export: &ExportArgs, output: &OutputArgs) -> Ran {
    let several = models.len() > 1;
    if several && output.json {
        return Err(
            "--json prints one result; name one model, or use --export DIR, which gets a directory for each".to_owned()
        );
    }
    let mut worst = FINE;
    let baseline = baseline(race)?;
    // A wrong name is reported before the first model is measured.
    if let Some(error) = models.iter().filter(|_| several).find_map(|model| live::find(model).err()) {
        return not_started(&error);
    }
    if !consent::to_make(models, race.yes)? {
        return Ok(consent::declined());
    }
    let signals = keep_signals_for_sessions();
    for (number, model) in models.iter().enumerate() {
        let mut config = config(race)?;
        config.model = Some(model.clone());
        config.checks = false;
        // With several models, each has a recording and a directory, labelled with its number and name.
        let label = || {
            let name = Path::new(model).file_name().map_or_else(|| model.clone(), |n| n.to_string_lossy().into_owned());
            format!("{}-{name}", number + 1)
        };
        if several {
            config.record = config.record.map(|path| labelled(&path, &label()));
        }
        let export = export.plan().map(|(dir, formats)| (if several { dir.join(label()) } else { dir }, formats));
        // If a model cannot be loaded, the next one is loaded anyway.
        let ran = follow_with(config, output, export, baseline.as_ref(), signals.clone());
        let status = ran.unwrap_or_else(|sentence| fail(BAD_CALL, &sentence));
        if status == 130 {
            return Ok(status);
        }
        worst = worst.max(status);
    }
    Ok(worst)
}

/// Adds a label to a path: `race.gdsrec` with `1-q06` becomes `race-1-q06.gdsrec`.
pub(super) fn labelled(path: &Path, label: &str) -> PathBuf {
    let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{label}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{label}"),
    };
    path.with_file_name(name)
}

/// Runs a live session without screens to its end.
///
/// Engines that seem slower than in the baseline run again in the same session, because a machine that was busy for a
/// short time is not a regression. All results then include these runs.
pub(super) fn follow(
    config: SessionConfig,
    output: &OutputArgs,
    export: Option<Export>,
    baseline: Option<&Baseline>,
) -> Ran {
    follow_with(config, output, export, baseline, keep_signals_for_sessions())
}

/// Like [`follow`], for one of several sessions.
fn follow_with(
    mut config: SessionConfig,
    output: &OutputArgs,
    export: Option<Export>,
    baseline: Option<&Baseline>,
    signals: SignalsFor,
) -> Ran {
    let asked = Asked {
        engines: config.engines.clone().unwrap_or_default(),
        cells: config.grid.as_ref().is_some_and(|grid| !grid.able_only),
        load: config.race && config.grid.is_none() && config.folder.is_none(),
    };
    let named = config.engines.clone();
    let is_recorded = config.record.is_some();
    let (sender, receiver) = crossbeam_channel::bounded(1);
    config.again = baseline.is_some().then_some(receiver);
    let feed = match live::start(config) {
        Ok(feed) => feed,
        Err(error) => return not_started(&error),
    };
    signals.pass_to(&feed);
    let mut unsent = baseline.map(|baseline| (baseline, sender));
    let mut observe = |state: &State| {
        if state.lanes.last().is_none_or(|lane| lane.ended_ns.is_none()) {
            return;
        }
        if state.lanes.iter().all(|lane| lane.ended_ns.is_some())
            && let Some((baseline, sender)) = unsent.take()
        {
            let suspects = baseline.slower(&baseline::measured(state), baseline::pressure(state));
            for (engine, cache) in &suspects {
                note(&crate::present::baseline::repeats(engine, *cache));
            }
            // The session may have ended.
            let _ = sender.send(suspects);
        }
    };
    let options = headless::Options { asked, ..headless_options(output, export) };
    let outcome =
        headless::run_observed(&feed, &options, &mut observe, &mut streams::result(output.json), &mut streams::err());
    let pressure = baseline::pressure(&outcome.state);
    if is_recorded && !output.quiet && is_busy(pressure) {
        note(&crate::present::baseline::poor_baseline(pressure));
    }
    // Sessions that were interrupted or could not run are not compared.
    let Some(baseline) = baseline.filter(|_| outcome.exit <= BAD_ANSWER) else {
        return Ok(outcome.exit);
    };
    let runs = baseline::measured(&outcome.state);
    let wanted = named.as_deref().map_or(Wanted::Usual, Wanted::Named);
    Ok(outcome.exit.max(baseline::judge(baseline, &runs, pressure, wanted, output)))
}

/// The baseline that the user named. It is read before anything runs.
pub(super) fn baseline(race: &RaceArgs) -> Result<Option<Baseline>, String> {
    let read = |path| baseline::read(path, race.threshold);
    race.baseline.as_deref().map(read).transpose()
}

/// Follows a feed without screens.
pub(super) fn follow_feed(feed: &Feed, output: &OutputArgs, export: Option<Export>) -> headless::Outcome {
    end_on_signals(feed);
    print_feed(feed, &headless_options(output, export))
}

/// Like [`follow_feed`], for a watched program. It ends at signals if it decides so.
pub(super) fn follow_watched(feed: &Feed, signals: &SignalsFor, options: &headless::Options) -> headless::Outcome {
    let _ = signals.0.send(feed.commands.clone());
    print_feed(feed, options)
}

fn print_feed(feed: &Feed, options: &headless::Options) -> headless::Outcome {
    // Unlocked handles are used, because a lock would block libraries that print for minutes.
    headless::run(feed, options, &mut streams::result(options.json), &mut streams::err())
}

type Signals = SignalsInfo<WithOrigin>;

/// At INT, TERM, HUP and QUIT, ends the session regularly: it ends the active run and reports the interruption. A second
/// signal ends the process.
fn end_on_signals(feed: &Feed) {
    let commands = feed.commands.clone();
    on_signals(move || commands.send(Command::Quit).is_ok());
}

/// Takes the session to which signals are passed on.
#[derive(Clone)]
pub(super) struct SignalsFor(Sender<Sender<Command>>);

impl SignalsFor {
    /// Passes signals on to this session.
    pub(super) fn pass_to(self, feed: &Feed) {
        let _ = self.0.send(feed.commands.clone());
    }
}

/// The time in which a session that is starting gets a signal.
const START: Duration = Duration::from_secs(2);

/// Keeps INT, TERM, HUP and QUIT for the sessions that start next, one after another. The running one ends regularly:
/// it ends its active run, removes its temporary directory and reports the interruption. A second signal ends the process.
pub(super) fn keep_signals_for_sessions() -> SignalsFor {
    let (give, given) = crossbeam_channel::unbounded();
    on_signals(move || {
        let is_taken = quit(&given, Instant::now() + START);
        if !is_taken {
            note("interrupted, so the results are incomplete");
        }
        is_taken
    });
    SignalsFor(give)
}

/// Ends the running session, or the one that starts until then. Returns whether there is one.
fn quit(given: &Receiver<Sender<Command>>, until: Instant) -> bool {
    // Earlier sessions have ended and take no command.
    std::iter::from_fn(|| given.recv_deadline(until).ok()).any(|commands| commands.send(Command::Quit).is_ok())
}

/// Keeps INT, TERM, HUP and QUIT for the session of a program that starts next. If the session does not take them,
/// because the program has ended and the rest takes long, they end the process.
pub(super) fn keep_signals() -> SignalsFor {
    const NOT_TAKEN: usize = 2;
    let (give, given) = crossbeam_channel::bounded::<Sender<Command>>(1);
    let session = OnceLock::new();
    on_each_signal(move |_, origin| {
        // Without a session, the program could not be started, and this process ends.
        let none = || crossbeam_channel::bounded(0).0;
        let commands = session.get_or_init(|| given.recv_timeout(START).unwrap_or_else(|_| none()));
        let is_taken = commands.len() < NOT_TAKEN;
        is_taken && commands.send(Command::Signal(origin.signal, origin.process.is_some())).is_ok()
    });
    SignalsFor(give)
}

/// A flag that INT, TERM, HUP and QUIT set, for work that polls it. A second signal ends the process.
pub(super) fn ended_by_signals() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let shared = ended.clone();
    on_signals(move || {
        shared.store(true, Ordering::Relaxed);
        true
    });
    ended
}

/// Until the returned flag is set, INT, TERM, HUP and QUIT end the process with this sentence.
pub(super) fn end_with(sentence: &'static str) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let shared = is_over.clone();
    on_signals(move || {
        let is_over = shared.load(Ordering::Relaxed);
        if !is_over {
            note(sentence);
        }
        is_over
    });
    is_over
}

/// Calls `end` at INT, TERM, HUP or QUIT on a separate thread. A second signal ends the process. It also ends if `end`
/// returns false.
pub(super) fn on_signals(end: impl Fn() -> bool + Send + 'static) {
    on_each_signal(move |earlier, _| earlier == 0 && end());
}

/// Calls `handle` at each INT, TERM, HUP or QUIT on a separate thread, with the number of earlier ones. If it returns
/// false, the process ends.
pub(super) fn on_each_signal(handle: impl Fn(usize, &Origin) -> bool + Send + 'static) {
    let (hand_over, taken) = crossbeam_channel::bounded::<Signals>(1);
    let begun = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(mut signals) = taken.recv() else { return };
        for (count, origin) in signals.forever().enumerate() {
            if !handle(count, &origin) {
                std::process::exit(130);
            }
        }
    });
    // Signal handlers are installed only if the thread runs. Otherwise signals end the process, as by default.
    match begun {
        Ok(_) => drop(Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).map(|signals| hand_over.send(signals))),
        Err(error) => {
            note(&format!("Ctrl-C will end the program immediately, without a report: {}", units::no_thread(error)))
        }
    }
}

/// Refuses `--limit` if none of the engines has a time limit.
pub(super) fn limits_an_engine(race: &RaceArgs, engines: &[Engine]) -> Result<(), String> {
    if race.limit.is_none() || engines.iter().any(Engine::is_outside) {
        return Ok(());
    }
    Err("--limit has no effect here: it is for the engines command:LINE and loader:NAME".to_owned())
}

/// The session configuration for the arguments.
pub(super) fn config(race: &RaceArgs) -> Result<SessionConfig, String> {
    let exe = std::env::current_exe()
        .map_err(|e| format!("the file of this program, which lanes are started from, cannot be found: {e}"))?;
    let mut config = SessionConfig::new(exe);
    // The command line overrides the settings file, which overrides the defaults.
    let liked = settings::current();
    let engines = if race.engine.is_empty() { liked.engines.clone() } else { race.engines() };
    config.engines = Some(engines).filter(|named| !named.is_empty());
    let caches = if race.cache.is_empty() { &liked.cache } else { &race.cache };
    config.caches = if caches.is_empty() { vec![CacheState::Cold] } else { caches.clone() };
    // A winner needs three runs. A single engine has no competitor, so one run is enough.
    let compares = config.engines.as_ref().is_none_or(|named| named.len() != 1);
    config.repeat = race.repeat.or(liked.repeat).unwrap_or(if compares { LEAST_RUNS } else { 1 });
    let gpu = race.gpu.as_deref().or(liked.gpu.as_deref());
    config.gpu = gpu.map_or(Ok(GpuChoice::Auto), super::targets::parse)?;
    config.verify = !race.no_verify;
    config.telemetry = !race.no_telemetry;
    let named = config.engines.clone().unwrap_or_else(Engine::usual);
    for order in &race.settings {
        order.check_for(&named).map_err(|why| format!("--set: {why}"))?;
    }
    config.settings = liked.engine_settings.iter().map(|(order, _)| order).chain(&race.settings).cloned().collect();
    limits_an_engine(race, &named)?;
    config.ceilings = race.ceilings;
    config.limit_s = race.limit;
    config.record.clone_from(&race.record);
    config.drop_caches = race.drop_caches;
    if config.drop_caches && !config.caches.contains(&CacheState::Cold) {
        return Err("--drop-caches is for cold loads: add --cache cold".to_owned());
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_the_running_session_or_the_one_that_is_starting() {
        let soon = || Instant::now() + Duration::from_millis(20);
        let (give, given) = crossbeam_channel::unbounded();
        let signals = SignalsFor(give);
        let session = || {
            let (commands, taken) = crossbeam_channel::unbounded();
            let (_, events) = crossbeam_channel::unbounded();
            (Feed::new(events, commands, false), taken)
        };
        let ended = session();
        signals.clone().pass_to(&ended.0);
        drop(ended.1);
        assert!(!quit(&given, soon()), "no session runs or starts");
        signals.clone().pass_to(&ended.0);
        let (feed, taken) = session();
        let starts = signals.clone();
        let starting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            starts.pass_to(&feed);
            feed
        });
        assert!(quit(&given, Instant::now() + Duration::from_secs(60)));
        assert!(matches!(taken.try_recv(), Ok(Command::Quit)));
        assert!(starting.join().is_ok());
        // Without a further session, nothing waits.
        drop(signals);
        assert!(!quit(&given, Instant::now() + Duration::from_secs(600)));
    }

    #[test]
    fn a_recording_of_several_models_gets_a_name_for_each() {
        assert_eq!(labelled(Path::new("out/race.gdsrec"), "1-q06"), Path::new("out/race-1-q06.gdsrec"));
        assert_eq!(labelled(Path::new("race"), "2-q7b"), Path::new("race-2-q7b"));
    }
}
