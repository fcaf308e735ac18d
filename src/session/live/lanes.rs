//! Running one lane: its process, its frames, its end.

use super::bus::Bus;
use super::gate::{GATES, Place};
use super::process::{LaneEnd, not_started, signal_words, stderr_tail};
use crate::domain::{EventBody, LaneId, LaneOrder, LaneStage, LogLevel, RouteCounts, Setting, units};
use crate::engines::protocol::{ENV_KEPT_HEAP, Frame, GO, LaneMessage, monotonic_ns};
use crossbeam_channel::{Receiver, bounded, select, tick};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A lane in which nothing moves for this long is ended: a cuFile call that hangs cannot be cancelled otherwise.
const STALLED_AFTER: Duration = Duration::from_secs(90);
/// The same before its clock starts: a large model is read into the page cache there, and counts nothing.
const SLOW_START: Duration = Duration::from_secs(1800);

/// Runs a lane to its end. `cancel` ends it early; a lane that runs together with others has a place at their gate.
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
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        let _ = child.kill();
        return died("its pipes could not be made".to_owned(), String::new());
    };
    let (alive, heartbeat) = bounded::<bool>(4);
    let words = Builder::new().spawn(move || stderr_tail(stderr));
    let frames = {
        let (bus, place) = (bus.clone(), place.cloned());
        // The order of a model with many tensors is larger than a pipe, so it is not written here, where the lane is waited for. A lane reads it
        // whole before it answers.
        Builder::new().spawn(move || {
            let stdin = give_order(stdin, &order);
            drop(order);
            match place.clone() {
                // The word to go on is waited for beside the reading; that thread ends by itself, for nobody waits for those who left the gate.
                Some(gate) => {
                    if let Err(error) = Builder::new().spawn(move || pass_gates(stdin, &gate)) {
                        // With the thread its standard input is gone, which ends the lane.
                        bus.say(LogLevel::Error, format!("lane {}: {}", lane.0, units::no_thread(error)));
                    }
                }
                None => drop(stdin),
            }
            forward(&bus, lane, stdout, &alive, place.as_ref())
        })
    };
    let (words, frames) = match (words, frames) {
        (Ok(words), Ok(frames)) => (words, frames),
        (Err(error), _) | (_, Err(error)) => {
            let _ = child.kill();
            let _ = child.wait();
            return died(format!("it could not be listened to: {}", units::no_thread(error)), String::new());
        }
    };
    let (status, reason) = wait(&mut child, &heartbeat, cancel);
    let finished = frames.join().unwrap_or(None);
    if let Some(place) = place {
        place.leave();
    }
    let stderr_tail = words.join().unwrap_or_default();
    if let (Reason::Ended, Some((route, failed))) = (&reason, finished) {
        return LaneEnd::Finished { route, failed };
    }
    match (reason, status) {
        (Reason::Cancelled, _) => {
            bus.emit(EventBody::LaneCancelled { lane });
            LaneEnd::Cancelled
        }
        (Reason::Stalled, _) => died(
            format!(
                "nothing moved for {} s, so it was ended; a hanging library call cannot be cancelled otherwise",
                STALLED_AFTER.as_secs()
            ),
            stderr_tail,
        ),
        (Reason::Ended, Some(status)) => died(describe(status), stderr_tail),
        (Reason::Ended, None) => died("its process was lost".to_owned(), stderr_tail),
    }
}

/// Keeps freed memory in the C library's heap, in huge pages. In compat mode `cuFileBufRegister` allocates a shadow buffer of the tensor's size, and
/// glibc maps and unmaps anything over 128 KiB anew, page fault by page fault: on an H200, 1.3 million faults and 3.7 ms (register and deregister) a tensor of
/// Qwen3-0.6B, against 0.7 ms with the heap kept. The setting `keep_heap=0` leaves glibc as it is.
const KEEP_HEAP: &str =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=8589934592";

/// The heap of a process that has freed a large buffer before, as loaders in Python have: glibc raises both thresholds to these by itself then
/// (mallopt(3), M_MMAP_THRESHOLD). A lane that is fresh would pay for page faults that NIXL's users do not have.
const USED_HEAP: &str = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864";

fn spawn(exe: &Path, order: &LaneOrder) -> std::io::Result<Child> {
    let mut command = Command::new(exe);
    // NIXL is shown as its users run it, unless the setting says otherwise.
    let keep_heap = order.engine.opens_cufile()
        && order.settings.get(Setting::KeepHeap).map_or(order.engine.uses_cufile(), |value| value != 0);
    // What the user set for glibc is the user's.
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
    command
        .arg(order.workload.as_ref().map_or("__lane", |workload| &workload.child))
        // The library writes its log into the working directory unless it is told otherwise before it loads.
        .env("CUFILE_LOGFILE_PATH", order.scratch.join("cufile.log"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Writes the order in pieces as large as a pipe. Unbuffered, JSON goes out word by word: thousands of writes for a model of three hundred tensors.
fn give_order(stdin: ChildStdin, order: &LaneOrder) -> ChildStdin {
    let mut out = BufWriter::with_capacity(1 << 16, stdin);
    // A lane that dies first answers for itself.
    let _ = serde_json::to_writer(&mut out, order);
    let _ = out.write_all(b"\n").and_then(|()| out.flush());
    out.into_parts().0
}

/// Tells the lane at each gate when to go on.
fn pass_gates(mut stdin: ChildStdin, gate: &Place) {
    for number in 0..GATES {
        let at = gate.wait(number);
        let _ = writeln!(stdin, "{GO} {at}").and_then(|()| stdin.flush());
    }
}

enum Reason {
    Ended,
    Stalled,
    Cancelled,
}

fn wait(child: &mut Child, heartbeat: &Receiver<bool>, cancel: &Receiver<()>) -> (Option<ExitStatus>, Reason) {
    let clock = tick(Duration::from_millis(500));
    let mut last = Instant::now();
    let mut limit = SLOW_START;
    let end = |child: &mut Child| {
        let _ = child.kill();
        child.wait().ok()
    };
    loop {
        select! {
            recv(heartbeat) -> beat => match beat {
                Ok(counting) => {
                    last = Instant::now();
                    limit = if counting { STALLED_AFTER } else { SLOW_START };
                }
                // The pipe closed: the lane has ended or is about to.
                Err(_) => return (child.wait().ok(), Reason::Ended),
            },
            recv(cancel) -> _ => return (end(child), Reason::Cancelled),
            recv(clock) -> _ => if last.elapsed() > limit {
                return (end(child), Reason::Stalled);
            },
        }
    }
}

/// Turns frames into events until the pipe closes. Returns the route of the result and whether it is an error, if a result came.
fn forward(
    bus: &Bus,
    lane: LaneId,
    stdout: impl Read,
    alive: &crossbeam_channel::Sender<bool>,
    place: Option<&Place>,
) -> Option<(Option<RouteCounts>, bool)> {
    let mut finished = None;
    let mut moved = (0, 0);
    let mut counting = false;
    for line in BufReader::with_capacity(1 << 16, stdout).lines() {
        let Ok(line) = line else { break };
        let frame: Frame = match serde_json::from_str(&line) {
            Ok(frame) => frame,
            Err(error) => {
                bus.say(LogLevel::Warn, format!("a message of the lane was not understood: {error}"));
                continue;
            }
        };
        let mut moving = true;
        let body = match frame.message {
            LaneMessage::Stage { stage } => {
                counting = matches!(stage, LaneStage::Loading | LaneStage::Verifying);
                EventBody::LaneStage { lane, stage }
            }
            LaneMessage::Progress { landed_bytes, pinned_bytes, verified_bytes } => {
                moving = moved != (landed_bytes, verified_bytes);
                moved = (landed_bytes, verified_bytes);
                EventBody::LaneProgress { lane, landed_bytes, pinned_bytes, verified_bytes }
            }
            LaneMessage::Spans { spans } => EventBody::LaneSpans { lane, spans },
            LaneMessage::Waiting { .. } => {
                // However long the others take, it is not stalled.
                let _ = alive.send(false);
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
            let _ = alive.try_send(counting);
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
