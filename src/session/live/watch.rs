//! A session that watches a program. It starts the program and converts the reports of the audit library to events.

use super::bus::Bus;
use super::examine::root_without_cuda;
use super::run::SessionError;
use super::session::Watcher;
use super::started::started;
use crate::checks;
use crate::checks::log_signatures::explain_cufile;
use crate::core::{
    EventBody, LogLevel, Machine, Metric, ProgramEnd, Sample, Status, WatchReport, WatchedConfiguration,
};
use crate::machine::{FoundLibrary, LibcufileFacts, PathFacts};
use crate::session::{Command, Feed};
use crate::telemetry::cpu_pressure_percent;
use crate::trust::process::{folder, has_these_mounts};
use crate::watch::{self, Launch, Source, WatchError};
use crossbeam_channel::{Receiver, TryRecvError, bounded, unbounded};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two reports. In a long session the time grows to a twentieth of the elapsed time.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// The time between two reports is at least this many times that of a report, up to a limit, because no calls are taken
/// from the rings meanwhile. The report of a program with thousands of files takes long.
const REPORT_SHARE: u32 = 20;
/// The limit of that time.
const REPORT_AT_LEAST_EVERY: Duration = Duration::from_secs(20);
/// Maximum number of calls in one event, because lines of recordings have a limit.
const CALLS_OF_EVENT: usize = 1000;
/// Maximum number of causes from the log of a process.
const MOST_CAUSES: usize = 6;
/// Maximum number of file systems in the description of the machine.
const MOST_FILE_SYSTEMS: usize = 8;
/// Maximum number of files whose file systems are read.
const MOST_FILES: usize = 64;
/// Time that the program has to end after the front end has ended. Then it is terminated.
const PATIENCE: Duration = Duration::from_secs(3);
/// A program that ends within this time after a signal was interrupted by it.
const AFTER_SIGNAL: Duration = Duration::from_secs(3);
/// Maximum time between the end of a program by a signal and the arrival of the same signal here.
const SIGNAL_DELAY: Duration = Duration::from_millis(200);

/// The reason why a watching session could not start.
#[derive(Debug, thiserror::Error)]
pub enum WatchSessionError {
    /// Creating the recording or a thread failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Starting or attaching to the program failed.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// The program or process to watch.
#[derive(Clone, Debug)]
pub enum WatchTarget {
    /// Start a program.
    Launch(Launch),
    /// Watch a running process until it ends or the time is over.
    Process(u32, Option<Duration>),
}

/// Starts the program, or attaches to the process, and starts a session that watches it. With `stays`, the session shows
/// the machine after the end of the program, until the front end quits.
///
/// # Errors
/// Fails if the recording cannot be created, or if the program cannot be started or watched.
pub fn watch(target: &WatchTarget, record: Option<&Path>, stays: bool) -> Result<Feed, WatchSessionError> {
    let (event_sender, events) = unbounded();
    let (commands, command_receiver) = unbounded();
    let bus = Bus::new(event_sender, record).map_err(SessionError::from)?;
    let unrecorded = bus.unrecorded();
    bus.begin(started());
    // Without the thread, the program would run on without gds-top.
    let (hand_over, taken) = bounded(1);
    let unused = bus.clone();
    let session = move || taken.recv().into_iter().for_each(|watched| follow(watched, &bus, &command_receiver, stays));
    std::thread::Builder::new().name("watch".to_owned()).spawn(session).map_err(SessionError::Thread)?;
    let watched = match target {
        WatchTarget::Launch(launch) => watch::start(launch).map(|program| Source::Launched(Box::new(program))),
        WatchTarget::Process(pid, time) => {
            watch::attach(*pid, *time).map(|process| Source::Attached(Box::new(process)))
        }
    };
    // The thread waits for it.
    let _ = hand_over.send(watched.inspect_err(|_| unused.discard_recording())?);
    Ok(Feed { unrecorded, ..Feed::new(events, commands, false) })
}

fn follow(mut watched: Source, bus: &Bus, commands: &Receiver<Command>, stays: bool) {
    let system = Watcher { bus: bus.clone(), running: Arc::default() };
    // A process that ends during the session no longer has a namespace.
    let has_mounts =
        watched.report().attached.is_none_or(|process| has_these_mounts(&folder(process.pid.cast_signed())));
    let started = Instant::now();
    // The first report is made at once, so that a recording that is cut off has one.
    let mut next = Duration::ZERO;
    let mut quit_at: Option<Instant> = None;
    let mut asked = false;
    let mut signal_at: Option<Instant> = None;
    loop {
        match watched.step() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                bus.say(LogLevel::Error, error.to_string());
                break;
            }
        }
        match commands.try_recv() {
            Ok(Command::WatchSystem(on)) => system.set(on),
            Ok(Command::Signal(signal, is_sent)) => {
                signal_at = Some(Instant::now());
                match watched.launched() {
                    Some(pid) if is_sent => send(pid, Signal::from_named_raw(signal)),
                    Some(_) => {}
                    None => quit_at = signal_at,
                }
            }
            Ok(Command::Quit) | Err(TryRecvError::Disconnected) if quit_at.is_none() => quit_at = Some(Instant::now()),
            _ => {}
        }
        // A process that was already running before this session is not ended.
        if quit_at.is_some() && watched.launched().is_none() {
            break;
        }
        if !asked && quit_at.is_some_and(|at| at.elapsed() > PATIENCE) {
            asked = true;
            watched.launched().into_iter().for_each(|pid| send(pid, Some(Signal::TERM)));
        }
        let elapsed = started.elapsed();
        if elapsed >= next {
            seen(bus, &mut watched);
            let took = started.elapsed().saturating_sub(elapsed);
            let share = took.saturating_mul(REPORT_SHARE).min(REPORT_AT_LEAST_EVERY);
            next = elapsed + REPORT_EVERY.max(elapsed / 20).max(share);
        }
    }
    watched.finish();
    let ended = watched.launched().and_then(|_| watched.report().ended);
    // The terminal sends Ctrl-C to the program, too. The program can end before the signal arrives here.
    let delay = if matches!(ended, Some(ProgramEnd::Signal(_))) { SIGNAL_DELAY } else { Duration::ZERO };
    while signal_at.is_none() && quit_at.is_none() {
        match commands.recv_timeout(delay) {
            Ok(Command::WatchSystem(on)) => system.set(on),
            Ok(Command::Signal(..)) => signal_at = Some(Instant::now()),
            Ok(Command::Quit) => quit_at = Some(Instant::now()),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let ended_by_signal = signal_at.is_some_and(|at| at.elapsed() < AFTER_SIGNAL);
    seen(bus, &mut watched);
    // The facts are read after the program, so that reading them does not slow it down.
    bus.emit(EventBody::MachineSeen { machine: machine(&watched.report(), has_mounts) });
    // Ctrl-C is the normal end of watching a process that continues to run. A program can also handle a signal and go on.
    // If it ends with status 0 after a signal, it has done all that it wanted.
    let is_complete = !asked && matches!(ended, Some(ProgramEnd::Status(0)));
    let interrupted = (quit_at.is_some() || ended_by_signal) && watched.launched().is_some() && !is_complete;
    drop(watched);
    bus.emit(EventBody::SessionEnded { interrupted });
    bus.finish();
    if stays && quit_at.is_none() {
        loop {
            match commands.recv() {
                Ok(Command::WatchSystem(on)) => system.set(on),
                Ok(Command::Quit | Command::Signal(..)) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
    system.set(false);
}

fn send(pid: u32, signal: Option<Signal>) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some((pid, signal)) = pid.zip(signal) {
        // The process may have ended at this moment, so the error is ignored.
        let _ = kill_process(pid, signal);
    }
}

/// The machine, with the storage below the files of the program. If it used no files, the storage below the working
/// directory is described, which a started program inherits. `has_mounts`: the paths of the program have the same
/// meaning here.
fn machine(report: &WatchReport, has_mounts: bool) -> Machine {
    let root = root_without_cuda(used_library(report));
    let mut storage: Vec<PathFacts> = Vec::new();
    let files = report.files.iter().map(|file| PathBuf::from(&file.path));
    let here = std::env::current_dir().ok().filter(|_| report.files.is_empty() && report.attached.is_none());
    for path in files.chain(here).filter(|path| has_mounts && path.exists()).take(MOST_FILES) {
        let Some(facts) = root.path_facts(&path) else { continue };
        let is_new = storage.iter().all(|known| known.mount_point != facts.mount_point);
        if is_new && storage.len() < MOST_FILE_SYSTEMS {
            storage.push(facts);
        }
    }
    let machine = checks::machine(&root, &storage);
    let named = root.variable("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty());
    let is_own = |seen: &WatchedConfiguration| named.as_deref() == seen.from_environment.then_some(seen.path.as_str());
    if has_mounts && report.configurations.iter().all(is_own) {
        return machine;
    }
    // The section about the program names the file that it read.
    Machine { cufile_settings: Vec::new(), cufile_defaults: Vec::new(), ..machine }
}

/// The first libcufile of the program. `None` if it loaded none, or if this is unknown.
fn used_library(report: &WatchReport) -> Option<LibcufileFacts> {
    let mapped = || report.attached.as_ref().and_then(|process| process.libcufile.clone());
    let loaded = report.libraries.first().map(|library| (library.path.clone(), library.version_text()));
    let (path, version) = loaded.or_else(|| Some((mapped()?, None)))?;
    let found = vec![FoundLibrary { path: path.clone(), version }];
    Some(LibcufileFacts { chosen: Some(path), found, left_closed: true, ..LibcufileFacts::default() })
}

fn seen(bus: &Bus, watched: &mut Source) {
    let mut report = watched.report();
    let (calls, mut left_out) = watched.take_calls();
    for calls in calls.chunks(CALLS_OF_EVENT) {
        bus.emit(EventBody::CallsSeen { calls: calls.to_vec(), left_out: std::mem::take(&mut left_out) });
        watched.drain();
    }
    if let Some(log) = report.attached.as_mut().and_then(|process| process.log.as_mut()) {
        let causes = explain_cufile(&watched.log_text().unwrap_or_default());
        let causes = causes.iter().filter(|cause| cause.status >= Status::Warn && cause.status != Status::Na);
        log.causes = causes.take(MOST_CAUSES).map(|cause| cause.sentence()).collect();
    }
    bus.emit(EventBody::ProgramSeen { report: Box::new(report) });
    watched.drain();
    // A busy machine makes calls slower, so a comparison needs it.
    if let Some(percent) = cpu_pressure_percent() {
        let values = [(Metric::CpuPressurePercent, percent)].into();
        bus.emit(EventBody::Sampled { sample: Sample { lane: None, values } });
    }
}
