//! The command `overhead` measures the profiling overhead. It runs the same load in three modes: bare (no meters),
//! headless with meters, and with the screens on a pseudo-terminal. Each mode is a separate session. They alternate
//! in each round, so that drift of the machine affects all three.

use super::args::{OutputArgs, RaceArgs};
use super::bar::Bar;
use super::outcome::{
    BAD_ANSWER, BAD_CALL, COULD_NOT_RUN, FINE, INTERRUPTED, Ran, fail, not_started, note, print, print_json,
};
use super::{baseline, consent, race, settings, terminal};
use crate::analysis::{ProfilingMode as Mode, ProfilingOverhead};
use crate::core::{CacheState, Engine, units};
use crate::present::profiling;
use crate::report;
use crate::session::live;
use crate::session::{Feed, REAL_TIME, State, recording};
use crate::text::sanitise_line;
use crate::trust::Scratch;
use crate::tui::ScreenId;
use rustix::process::{Pid, Signal, getpid, ioctl_tiocsctty, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The number of rounds without `--repeat`.
const ROUNDS: u32 = 5;
/// The size of the pseudo-terminal.
const TERMINAL: Winsize = Winsize { ws_row: 36, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
/// The interval at which the end of a session is polled.
const LOOK: Duration = Duration::from_millis(50);
/// A session that takes longer than this is stuck and is ended.
const PATIENCE: Duration = Duration::from_secs(900);
/// The time that the screens stay open after the race.
const AFTER: Duration = Duration::from_millis(200);
/// The exit status of a session with screens after TERM.
const BY_TERM: i32 = 143;

/// Runs the rounds and prints the ratios.
pub(super) fn run(model: &str, race: &RaceArgs, output: &OutputArgs) -> Ran {
    if let Some(sentence) = refused(race) {
        return Err(sentence);
    }
    let engines = if race.engines().is_empty() { vec![Engine::Pread] } else { race.engines() };
    race::limits_an_engine(race, &engines)?;
    if std::path::Path::new(model).exists() || !crate::models::Profile::names().contains(&model) {
        crate::models::open(model).map_err(|error| error.to_string())?;
    }
    Scratch::examine_place()?;
    if !consent::to_make(&[model], race.yes)? {
        return Ok(consent::declined());
    }
    let caches = if race.cache.is_empty() { vec![CacheState::Hot] } else { race.cache.clone() };
    let rounds = race.repeat.unwrap_or(ROUNDS);
    let ended = race::ended_by_signals();
    let mut measured = Vec::new();
    for (engine, cache) in engines.iter().flat_map(|e| caches.iter().map(move |c| (e, *c))) {
        match measure(model, race, engine, cache, rounds, output, &ended) {
            Ok(overhead) => measured.push(overhead),
            Err(_) if ended.load(Ordering::Relaxed) => {
                return Ok(fail(INTERRUPTED, "interrupted, so there is no result"));
            }
            Err((status, sentence)) => return Ok(fail(status, &sentence)),
        }
    }
    let printed = if output.json {
        print_json(&json!({ "overheads": measured.iter().map(to_json).collect::<Vec<_>>() }))
    } else {
        let sections: Vec<_> = measured.iter().map(|overhead| profiling::table(overhead).into()).collect();
        print(report::lines(&[], &sections, terminal::columns(), false).as_bytes())
    };
    let is_decided = measured.iter().all(|overhead| overhead.doubt().is_none());
    Ok(printed.max(if is_decided { FINE } else { COULD_NOT_RUN }))
}

/// Why a race option cannot be used here. It must not be ignored silently.
fn refused(race: &RaceArgs) -> Option<String> {
    let of_one_session =
        [("--record", race.record.is_some()), ("--baseline", race.baseline.is_some()), ("--ceilings", race.ceilings)];
    let (name, _) = of_one_session.into_iter().find(|(_, given)| *given)?;
    Some(format!("{name} works with one session, but 'overhead' runs many: use it with 'gds-top bench'"))
}

/// An exit status and a sentence.
type Failed = (u8, String);

fn measure(
    model: &str,
    race: &RaceArgs,
    engine: &Engine,
    cache: CacheState,
    rounds: u32,
    output: &OutputArgs,
    ended: &AtomicBool,
) -> Result<ProfilingOverhead, Failed> {
    let folder = Scratch::new("gds-top-overhead-").map_err(|e| {
        (COULD_NOT_RUN, format!("making a temporary directory failed: {e}; set TMPDIR to another directory"))
    })?;
    let mut overhead =
        ProfilingOverhead { engine: engine.clone(), cache, bytes: 0, walls: Default::default(), pressures: Vec::new() };
    let mut bar = Bar::new(output);
    let (sessions, mut done) = ((u64::from(rounds) + 1) * Mode::ALL.len() as u64, 0);
    // Round 0 is discarded, because the first load has different caches and clock rates.
    for round in 0..=rounds {
        // Each round starts with a different mode.
        for turn in 0..Mode::ALL.len() {
            let at = (turn + round as usize) % Mode::ALL.len();
            let mode = Mode::ALL[at];
            let recording = folder.path().join(format!("{}-{round}.gdsrec", mode.name()));
            let arguments = arguments(model, race, engine, cache, &recording);
            bar.show(done, sessions, &format!("{engine} ({cache}), {done} of {sessions} sessions"));
            let ran = session(mode, &arguments, ended);
            bar.clear();
            if let Err((status, sentence)) = ran {
                // A session that began has the reason in its recording.
                let reason = recording.exists().then(|| result(&recording, mode).err()).flatten();
                return Err((status, reason.unwrap_or(sentence)));
            }
            done += 1;
            let (wall_ns, bytes, pressure) = result(&recording, mode).map_err(|sentence| (BAD_ANSWER, sentence))?;
            overhead.bytes = bytes;
            if round > 0 {
                // A bare session has no meters.
                overhead.pressures.extend(Some(pressure).filter(|_| mode != Mode::Bare));
                overhead.walls[at].push(wall_ns);
            }
            if !output.quiet {
                let word = if round == 0 { "warm-up".to_owned() } else { format!("round {round} of {rounds}") };
                note(&format!("{engine} ({cache}), {word}, {}: {}", mode.name(), units::duration(wall_ns)));
            }
        }
    }
    Ok(overhead)
}

fn arguments(model: &str, race: &RaceArgs, engine: &Engine, cache: CacheState, recording: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![model.into()];
    let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    option("--engine", engine.to_string().into());
    option("--cache", cache.to_string().into());
    option("--record", recording.into());
    // Each session has one load, independent of the settings file.
    option("--repeat", "1".into());
    if let Some(file) = settings::file() {
        option("--config", file.into());
    }
    if let Some(gpu) = &race.gpu {
        option("--target", gpu.into());
    }
    if let Some(seconds) = race.limit.filter(|_| engine.is_outside()) {
        option("--limit", seconds.to_string().into());
    }
    for order in &race.settings {
        option("--set", order.to_string().into());
    }
    // Verification is not part of the measured time and takes longer than the load.
    arguments.push("--no-verify".into());
    // The user has consented before the first session.
    arguments.push("--yes".into());
    arguments
}

fn session(mode: Mode, arguments: &[OsString], ended: &AtomicBool) -> Result<(), Failed> {
    let exe =
        std::env::current_exe().map_err(|e| (BAD_ANSWER, format!("the executable of gds-top cannot be found: {e}")))?;
    let failed = |e: std::io::Error| (BAD_ANSWER, format!("a session ({}) failed: {e}", mode.name()));
    let mut command = Command::new(exe);
    if mode == Mode::Screens {
        return under_screens(command.arg("__on-terminal").args(arguments), ended).map_err(failed);
    }
    command.arg("load").args(arguments).arg("--quiet").stdin(Stdio::null()).stdout(Stdio::null());
    // Ctrl-C must reach only this program, which passes it on. A second signal would end the session before it
    // removes its files.
    command.process_group(0);
    if mode == Mode::Bare {
        command.arg("--no-telemetry");
    }
    // The recording contains failed runs. The exit status and the message show that a session could not start.
    let status = command.spawn().and_then(|mut child| wait(&mut child, ended)).map_err(failed)?;
    // The session printed its reason on the same standard error.
    let unable =
        |of_session| (of_session, format!("the session ({}) ended with {status}; its reason is above", mode.name()));
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(FINE | BAD_ANSWER) => Ok(()),
        Some(of_session @ (BAD_CALL | COULD_NOT_RUN)) => Err(unable(of_session)),
        _ => Err(unable(BAD_ANSWER)),
    }
}

/// Runs the program on a pseudo-terminal. Its output is read and discarded.
fn under_screens(command: &mut Command, ended: &AtomicBool) -> std::io::Result<()> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, TERMINAL)?;
    let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave).env("TERM", "xterm-256color");
    let mut child = command.spawn()?;
    // The command holds the child's side of the pseudo-terminal. The reader ends only when it is closed.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut shown = File::from(master);
    let reader = std::thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        // The last part is kept, because it has the reason if the program fails.
        let mut last = Vec::new();
        while let Ok(count @ 1..) = shown.read(&mut buffer) {
            last = buffer[count.saturating_sub(400)..count].to_vec();
        }
        String::from_utf8_lossy(&last).trim().to_owned()
    });
    let reader = reader.map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        std::io::Error::other(units::no_thread(error))
    })?;
    let status = wait(&mut child, ended);
    // The reader ends when the child's side is closed.
    let stderr_tail = reader.join().unwrap_or_default();
    match status? {
        status if status.success() || status.code() == Some(BY_TERM) => Ok(()),
        status => Err(std::io::Error::other(format!("it ended with {status}: {}", sanitise_line(&stderr_tail)))),
    }
}

/// Waits until the session ends, or until a signal ends this program.
fn wait(child: &mut Child, ended: &AtomicBool) -> std::io::Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if ended.load(Ordering::Relaxed) {
            // At TERM the session removes its files, and its status reports that.
            let _ = i32::try_from(child.id()).map(|pid| kill_process(Pid::from_raw(pid)?, Signal::TERM).ok());
            return child.wait().and_then(|_| Err(std::io::ErrorKind::Interrupted.into()));
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "it did not end within a quarter of an hour",
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// The time, the bytes and the CPU pressure of the load in a recording. For parts on several targets, they are those of the group.
fn result(path: &Path, mode: Mode) -> Result<(u64, u64, f64), String> {
    let mut state = State::default();
    for event in recording::read(path).map_err(|e| e.to_string())? {
        state.reduce(&event.map_err(|e| e.to_string())?);
    }
    let lane = state.lanes.first();
    let run = lane.and_then(|l| l.result.as_deref()).ok_or_else(|| {
        let why = state.unavailable.first().map_or_else(|| "it did not finish".to_owned(), |(_, why)| why.clone());
        format!("the load ({}) has no result: {why}", mode.name())
    })?;
    let together = state.groups().first().and_then(|group| group.combined.clone());
    let run = together.as_ref().unwrap_or(run);
    match &run.error {
        Some(error) => Err(format!("the load ({}) failed: {error}", mode.name())),
        None => Ok((run.wall_ns, run.bytes, baseline::pressure(&state))),
    }
}

fn to_json(overhead: &ProfilingOverhead) -> serde_json::Value {
    let modes = Mode::ALL.into_iter().map(|mode| {
        json!({
            "mode": mode.name(), "wall_ns": overhead.walls[mode as usize], "median_ns": overhead.median_ns(mode),
            "ratio": overhead.ratio(mode),
        })
    });
    let ProfilingOverhead { engine, cache, bytes, .. } = overhead;
    json!({"engine": engine, "cache": cache, "bytes": bytes, "noise": overhead.noise(), "cpu_pressure": overhead.pressure(), "decided": overhead.doubt().is_none(), "modes": modes.collect::<Vec<_>>()})
}

/// Runs the race on the screens and ends after it. The terminal on standard input becomes the controlling terminal of
/// this session, so that its size and its signals apply.
pub(super) fn on_terminal(model: String, arguments: &RaceArgs) -> Ran {
    let own = setsid().and_then(|_| ioctl_tiocsctty(std::io::stdin()));
    if let Err(error) = own {
        return Err(format!("the terminal on standard input cannot become the controlling terminal: {error}"));
    }
    let output = OutputArgs::default();
    let (mut config, look) = (race::config(arguments)?, settings::look(&output)?);
    config.model = Some(model);
    config.checks = false;
    let session = match live::start(config) {
        Ok(session) => session,
        Err(error) => return not_started(&error),
    };
    let (sender, events) = crossbeam_channel::unbounded();
    let shown = Feed::new(events, session.commands, false);
    let begun = std::thread::Builder::new().spawn(move || {
        for event in &session.events {
            if sender.send(event).is_err() {
                return;
            }
        }
        drop(sender);
        std::thread::sleep(AFTER);
        // At TERM the screens restore the terminal and the program ends.
        let _ = kill_process(getpid(), Signal::TERM);
    });
    if let Err(error) = begun {
        return Ok(fail(COULD_NOT_RUN, &units::no_thread(error)));
    }
    race::screens(shown, look, ScreenId::Race, REAL_TIME, None)
}

#[cfg(test)]
mod tests {
    use super::super::args::LoadArgs;
    use super::*;
    use crate::core::{Setting, SettingOrder};

    #[test]
    fn options_without_effect_are_rejected() {
        assert_eq!(refused(&RaceArgs::default()), None);
        for (race, name) in [
            (RaceArgs { record: Some("/r".into()), ..RaceArgs::default() }, "--record"),
            (RaceArgs { baseline: Some("/b".into()), ..RaceArgs::default() }, "--baseline"),
            (RaceArgs { ceilings: true, ..RaceArgs::default() }, "--ceilings"),
        ] {
            assert!(refused(&race).is_some_and(|sentence| sentence.contains(name)), "{name}");
        }
    }

    #[test]
    fn sessions_differ_only_in_their_mode() {
        let settings = vec![SettingOrder { engine: None, setting: Setting::Threads, value: 2 }];
        let load = LoadArgs { gpu: Some("host".into()), limit: Some(9), settings, ..LoadArgs::default() };
        let race = RaceArgs::from(load);
        for (engine, limit) in [(Engine::Odirect, ""), (Engine::Command("true".into()), " --limit 9")] {
            let arguments_of = arguments("m", &race, &engine, CacheState::Cold, Path::new("/r"));
            let arguments_of: Vec<_> = arguments_of.iter().map(|a| a.to_string_lossy().into_owned()).collect();
            assert_eq!(
                arguments_of.join(" "),
                format!(
                    "m --engine {engine} --cache cold --record /r --repeat 1 --target host{limit} --set threads=2 --no-verify --yes"
                )
            );
        }
    }
}
