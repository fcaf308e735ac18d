//! One run of a command: it prepares the page cache, starts and watches the command, and creates the result.

use super::lines::LineStream;
use super::loaders;
use super::prepare::{Prepared, prepare};
use super::watch::{TREE_PATIENCE, Watched, Why};
use crate::core::{Engine, EventBody, LaneId, LaneOrder, PackedSpans, Target, units};
use crate::engines::protocol::monotonic_ns;
use crate::session::live::bus::Bus;
use crate::session::live::child::ChildProcess;
use crate::session::live::gate::Place;
use crate::session::live::process::{LaneEnd, not_started};
use crate::telemetry::tree::KEEPER;
use crate::text::quoted;
use crossbeam_channel::Receiver;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time limit in seconds if the order contains none.
const LIMIT_S: u64 = 600;

/// Runs a command to its end. If it has a place at a gate, it starts together with the others. `cancel` ends it
/// early. `on_start` gets the process id to watch.
pub(in crate::session::live) fn run(
    bus: &Bus,
    exe: &Path,
    (lane, mut order): (LaneId, LaneOrder),
    place: Option<&Place>,
    cancel: &Receiver<()>,
    on_start: &dyn Fn(u32),
) -> LaneEnd {
    let died = |how: String, stderr_tail: String| {
        bus.emit(EventBody::LaneDied { lane, how, stderr_tail: stderr_tail.clone() });
        LaneEnd::Died(stderr_tail)
    };
    let cancelled = || {
        bus.emit(EventBody::LaneCancelled { lane });
        LaneEnd::Cancelled
    };
    order.spawned_monotonic_ns = monotonic_ns();
    let line = match &order.engine {
        Engine::Loader(name) => loaders::line(name, &order.scratch),
        Engine::Command(line) => Ok(line.clone()),
        other => Err(format!("{other} is not a command")),
    };
    let line = match line {
        Ok(line) => filled(&line, &order),
        Err(error) => return died(error, String::new()),
    };
    let mut result = match prepare(bus, exe, lane, &order, cancel) {
        Prepared::Ready(result) => *result,
        Prepared::Cancelled => return cancelled(),
        Prepared::Failed(how, words) => return died(how, words),
    };
    if result.error.is_some() {
        bus.emit(EventBody::LaneFinished { lane, result: result.into() });
        return LaneEnd::Finished { route: None, failed: true };
    }

    if let Some(place) = place {
        // The page cache must not be changed while the clock of another command runs, so the gate comes after the
        // preparation.
        place.arrive();
        let at_ns = place.wait(0);
        std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())));
    }
    let started_ns = monotonic_ns();
    let mut child = match spawn(exe, &order, &line) {
        Ok(child) => child,
        Err(error) => return died(not_started(&error), String::new()),
    };
    let pid = child.id();
    bus.emit(EventBody::LaneStarted { lane, pid });
    on_start(pid);
    let control = child.stdin.take();
    let Some(stdout) = child.stdout.take() else {
        return died("its pipes could not be created".to_owned(), String::new());
    };
    let stream = match LineStream::start(stdout) {
        Ok(stream) => stream,
        Err(error) => {
            // When the input of the supervisor closes, it ends the process tree.
            drop(control);
            let _ = child.wait(TREE_PATIENCE);
            return died(format!("its output could not be read: {}", units::no_thread(error)), String::new());
        }
    };
    let lines = &stream.lines;
    let limit_s = order.limit_s.unwrap_or(LIMIT_S);
    let mut watched = Watched::new(pid, started_ns, &order.target);
    let limit = Duration::from_secs(limit_s);
    let why = watched.until_end(bus, (lane, &order), lines, cancel, limit, &mut || child.status().is_none());
    // When its input closes, the supervisor ends the process tree and then reports the resource use.
    drop(control);
    if why != Why::Ended {
        watched.drain(lines, TREE_PATIENCE);
    }
    let lost = child.wait(TREE_PATIENCE).is_none();
    if lost || watched.received.ended.is_none() {
        // If the supervisor was killed, the process tree may still be running.
        child.end();
        watched.end_members();
    }
    let words = child.stderr_tail();
    match why {
        Why::Cancelled => return cancelled(),
        Why::TooLong => {
            let how = format!(
                "it took more than {limit_s} s and was stopped{}; --limit SECONDS sets another limit",
                match watched.most_processes {
                    0 | 1 => String::new(),
                    more => format!(" with its {more} processes"),
                }
            );
            return died(how, words);
        }
        Why::Ended if watched.received.ended.is_none() => {
            return died("its supervisor ended before it".to_owned(), words);
        }
        Why::Ended => {}
    }
    if let Some(note) = stream.note() {
        watched.received.notes.insert(0, note);
    }
    watched.fill(&mut result, &order, &words);
    for spans in watched.spans.chunks(16 << 10) {
        bus.emit(EventBody::LaneSpans { lane, spans: PackedSpans::pack(spans) });
    }
    let (route, failed) = (result.route.clone(), result.error.is_some());
    bus.emit(EventBody::LaneFinished { lane, result: result.into() });
    let end = LaneEnd::Finished { route, failed };
    crate::session::live::explain::after_lane(
        bus,
        &order.target,
        &end,
        &order.scratch.join("cufile.log"),
        &Default::default(),
    );
    end
}

/// The command line for `sh` with the model and the GPU filled in.
fn filled(line: &str, order: &LaneOrder) -> String {
    line.replace("{model}", &quoted(&order.model.path.to_string_lossy())).replace("{gpu}", &gpu(order))
}

/// The CUDA ordinal of the target, or `host`.
fn gpu(order: &LaneOrder) -> String {
    match &order.target {
        Target::Gpu { ordinal, .. } => ordinal.to_string(),
        Target::Host => "host".to_owned(),
    }
}

fn spawn(exe: &Path, order: &LaneOrder, line: &str) -> std::io::Result<ChildProcess> {
    let mut command = Command::new(exe);
    for (setting, value) in order.settings.iter() {
        command.env(format!("GDS_TOP_SET_{}", setting.name().to_uppercase()), value.to_string());
    }
    command
        .arg(KEEPER)
        .arg(line)
        .env("GDS_TOP_MODEL", &order.model.path)
        .env("GDS_TOP_GPU", gpu(order))
        .env("GDS_TOP_VERIFY", if order.verify { "1" } else { "0" })
        .env("CUFILE_LOGFILE_PATH", order.scratch.join("cufile.log"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    ChildProcess::start(&mut command)
}
