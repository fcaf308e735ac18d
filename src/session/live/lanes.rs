//! Runs one lane process: starts it, reads its frames and handles its end.

use super::bus::Bus;
use super::child::{ChildProcess, PATIENCE, on_thread};
use super::gate::{GATES, Place};
use super::lines::messages;
use super::process::{LaneEnd, not_started, signal_words};
use crate::core::{EventBody, LaneId, LaneOrder, LaneStage, LogLevel, RouteCounts, Setting, units};
use crate::engines::protocol::{ENV_KEPT_HEAP, Frame, GO, LaneMessage, monotonic_ns};
use crossbeam_channel::{Receiver, bounded, select, tick};
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A lane without progress for this time is ended, because a hanging cuFile call cannot be cancelled.
const STALLED_AFTER: Duration = Duration::from_secs(90);
/// Like [`STALLED_AFTER`], but while the page cache is prepared or models are loaded before the clock starts. These
/// steps can take long and send no progress messages.
const SLOW_START: Duration = Duration::from_secs(1800);
/// Like [`STALLED_AFTER`], but while CUDA and cuFile are opened, which takes a few seconds.
const SETUP_LIMIT: Duration = Duration::from_secs(180);

/// Runs a lane to its end. `cancel` ends it early. A lane that loads together with others has a place at their gate.
pub(super) fn run_lane(
    bus: &Bus,
    exe: &Path,
    (lane, order): (LaneId, LaneOrder),
    place: Option<&Place>,
    cancel: &Receiver<()>,
    on_start: &dyn Fn(u32),
) -> LaneEnd {
    let end = run_to_end(bus, exe, (lane, order), place, cancel, on_start);
    if let Some(place) = place {
        place.leave();
    }
    end
}

fn run_to_end(
    bus: &Bus,
    exe: &Path,
    (lane, mut order): (LaneId, LaneOrder),
    place: Option<&Place>,
    cancel: &Receiver<()>,
    on_start: &dyn Fn(u32),
) -> LaneEnd {
    if order.engine.is_outside() {
        return super::outside::run(bus, exe, (lane, order), place, cancel, on_start);
    }
    order.spawned_monotonic_ns = monotonic_ns();
    let died = |how: String, stderr_tail: String| {
        bus.emit(EventBody::LaneDied { lane, how, stderr_tail: stderr_tail.clone() });
        LaneEnd::Died(stderr_tail)
    };
    let mut child = match spawn(exe, &order) {
        Ok(child) => child,
        Err(error) => return died(not_started(&error), String::new()),
    };
    let pid = child.id();
    bus.emit(EventBody::LaneStarted { lane, pid });
    on_start(pid);
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return died("its pipes could not be created".to_owned(), String::new());
    };
    let slow_setup = order.workload.is_some() || order.settings.get(Setting::Warmup).is_some_and(|loads| loads > 0);
    let setup_limit = if slow_setup { SLOW_START } else { SETUP_LIMIT };
    let (alive, heartbeat) = bounded::<Duration>(4);
    let frames = {
        let (bus, place) = (bus.clone(), place.cloned());
        // The order for a model with many tensors is larger than a pipe. It is written on another thread, because
        // this thread waits for the lane. The lane reads the complete order before it answers.
        on_thread(move || {
            let stdin = give_order(stdin, &order);
            drop(order);
            match place.clone() {
                // Another thread waits at the gates. It always ends, because a gate does not wait for lanes that have
                // left it.
                Some(gate) => {
                    if let Err(error) = Builder::new().spawn(move || pass_gates(stdin, &gate)) {
                        // The thread owns the standard input of the lane. When it ends, the input closes, and this
                        // ends the lane.
                        bus.say(LogLevel::Error, format!("lane {}: {}", lane.0, units::no_thread(error)));
                    }
                }
                None => drop(stdin),
            }
            forward(&bus, (lane, setup_limit), stdout, &alive, place.as_ref())
        })
    };
    let frames = match frames {
        Ok(frames) => frames,
        Err(error) => return died(format!("its output could not be read: {}", units::no_thread(error)), String::new()),
    };
    let (status, reason) = wait(&mut child, setup_limit, &heartbeat, cancel);
    let finished = frames.recv_timeout(PATIENCE).unwrap_or(None);
    if let Some(place) = place {
        place.leave();
    }
    let stderr_tail = child.stderr_tail();
    if let (Reason::Ended, Some((route, failed))) = (&reason, finished) {
        return LaneEnd::Finished { route, failed };
    }
    match (reason, status) {
        (Reason::Cancelled, _) => {
            bus.emit(EventBody::LaneCancelled { lane });
            LaneEnd::Cancelled
        }
        (Reason::Stalled(limit), _) => died(
            format!(
                "no bytes moved for {} s, so it was killed; a hanging library call cannot be cancelled otherwise",
                limit.as_secs()
            ),
            stderr_tail,
        ),
        (Reason::Ended, Some(status)) => died(describe(status), stderr_tail),
        (Reason::Ended, None) => died("its process did not end".to_owned(), stderr_tail),
    }
}

/// Settings that keep freed memory in the heap of glibc, in huge pages. In compat mode, `cuFileBufRegister` allocates
/// a shadow buffer of the tensor's size. glibc maps and unmaps each allocation above 128 KiB, which causes page
/// faults. On an H200 with Qwen3-0.6B, registering and deregistering took 3.7 ms per tensor (1.3 million faults in
/// total), compared with 0.7 ms with these settings. The setting `keep_heap=0` turns them off.
const KEEP_HEAP: &str =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=8589934592";

/// The heap thresholds of a process that has freed a large buffer, as Python loaders usually have. glibc then raises
/// both thresholds to these values (mallopt(3), M_MMAP_THRESHOLD). Without them, a new lane has page faults that real
/// users of NIXL do not have.
const USED_HEAP: &str = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864";

fn spawn(exe: &Path, order: &LaneOrder) -> std::io::Result<ChildProcess> {
    let mut command = Command::new(exe);
    // NIXL runs like in its users' programs, unless the setting changes this.
    let keep_heap = order.engine.opens_cufile()
        && order.settings.get(Setting::KeepHeap).map_or(order.engine.uses_cufile(), |value| value != 0);
    // If the user has set GLIBC_TUNABLES, it is not changed.
    if keep_heap && std::env::var_os("GLIBC_TUNABLES").is_none() {
        command.env("GLIBC_TUNABLES", KEEP_HEAP).env(ENV_KEPT_HEAP, "1");
    } else if order.engine.opens_cufile()
        && !order.settings.has(Setting::KeepHeap)
        && std::env::var_os("GLIBC_TUNABLES").is_none()
    {
        command.env("GLIBC_TUNABLES", USED_HEAP);
    }
    if let Some(workload) = &order.workload {
        command.envs(&workload.environment);
    }
    crate::trust::without_foreign_variables(&mut command)
        .arg(order.workload.as_ref().map_or("__lane", |workload| &workload.child))
        // libcufile writes its log into the working directory, unless this variable names another place before it is
        // loaded.
        .env("CUFILE_LOGFILE_PATH", order.scratch.join("cufile.log"));
    ChildProcess::start(&mut command)
}

/// Writes the order through a buffer with the size of a pipe. Without a buffer, the JSON writer makes thousands of
/// small writes for a model with three hundred tensors.
fn give_order(stdin: ChildStdin, order: &LaneOrder) -> ChildStdin {
    let mut out = BufWriter::with_capacity(1 << 16, stdin);
    // A write error is ignored here. If the lane died first, its own error is reported.
    let _ = serde_json::to_writer(&mut out, order);
    let _ = out.write_all(b"\n").and_then(|()| out.flush());
    out.into_parts().0
}

/// Waits at each gate and sends the lane the time at which it continues.
fn pass_gates(mut stdin: ChildStdin, gate: &Place) {
    for number in 0..GATES {
        let at = gate.wait(number);
        let _ = writeln!(stdin, "{GO} {at}").and_then(|()| stdin.flush());
    }
}

enum Reason {
    Ended,
    /// No bytes moved for this time.
    Stalled(Duration),
    Cancelled,
}

fn wait(
    child: &mut ChildProcess,
    setup_limit: Duration,
    heartbeat: &Receiver<Duration>,
    cancel: &Receiver<()>,
) -> (Option<ExitStatus>, Reason) {
    let clock = tick(Duration::from_millis(500));
    let mut last = Instant::now();
    let mut limit = setup_limit;
    loop {
        select! {
            recv(heartbeat) -> beat => match beat {
                Ok(next) => (last, limit) = (Instant::now(), next),
                // The pipe closed, so the lane has ended or will end soon.
                Err(_) => return (child.wait(PATIENCE).or_else(|| child.end()), Reason::Ended),
            },
            recv(cancel) -> _ => return (child.end(), Reason::Cancelled),
            recv(clock) -> _ => if last.elapsed() > limit {
                return (child.end(), Reason::Stalled(limit));
            },
        }
    }
}

/// Maximum number of invalid frames that are reported one by one.
const MOST_GARBLED: u32 = 3;

/// Converts frames to events until the pipe closes. If a result arrived, returns its route and whether it is an
/// error.
fn forward(
    bus: &Bus,
    (lane, setup_limit): (LaneId, Duration),
    stdout: impl Read,
    alive: &crossbeam_channel::Sender<Duration>,
    place: Option<&Place>,
) -> Option<(Option<RouteCounts>, bool)> {
    let mut finished = None;
    let mut moved = (0, 0);
    let mut limit = setup_limit;
    let mut garbled = 0_u32;
    for line in messages(stdout) {
        let frame: Frame = match serde_json::from_str(&line) {
            Ok(frame) => frame,
            Err(error) => {
                garbled = garbled.saturating_add(1);
                if garbled <= MOST_GARBLED {
                    bus.say(LogLevel::Warn, format!("a message of the run could not be parsed: {error}"));
                }
                continue;
            }
        };
        let mut moving = true;
        let body = match frame.message {
            LaneMessage::Stage { stage } => {
                limit = match stage {
                    LaneStage::Setup => setup_limit,
                    LaneStage::PreparingCache => SLOW_START,
                    LaneStage::Loading | LaneStage::Verifying => STALLED_AFTER,
                };
                EventBody::LaneStage { lane, stage }
            }
            LaneMessage::Progress { landed_bytes, pinned_bytes, verified_bytes } => {
                moving = moved != (landed_bytes, verified_bytes);
                moved = (landed_bytes, verified_bytes);
                EventBody::LaneProgress { lane, landed_bytes, pinned_bytes, verified_bytes }
            }
            LaneMessage::Spans { spans } => EventBody::LaneSpans { lane, spans },
            LaneMessage::Waiting { .. } => {
                // While it waits for the other lanes, it is not stalled.
                let _ = alive.send(SLOW_START);
                if let Some(place) = place {
                    place.arrive();
                }
                continue;
            }
            LaneMessage::Said { level, text } => EventBody::Said { level, text },
            LaneMessage::Finished { result } => {
                finished = Some((result.route.clone(), result.error.is_some()));
                EventBody::LaneFinished { lane, result: result.into() }
            }
        };
        if moving {
            let _ = alive.try_send(limit);
        }
        bus.emit_at(frame.at_monotonic_ns, body);
    }
    finished
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (_, Some(signal)) => {
            format!("its process was killed by signal {}", signal_words(signal))
        }
        (Some(code), None) => format!("its process ended with status {code} and without a result"),
        (None, None) => "its process ended without a result".to_owned(),
    }
}
