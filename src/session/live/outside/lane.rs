//! One run of a command: the page cache made cold or hot, the command started and watched, its end, and the result of what was seen.

use super::evidence::{Seen, nvfs_reads};
use super::lines::Told;
use super::loaders::{self, quoted};
use crate::domain::{
    Engine, EventBody, LaneId, LaneOrder, LaneStage, Outside, PhaseTimes, RunResult, Span, SpanBatch, Target, units,
};
use crate::engines::protocol::{Frame, LaneMessage, monotonic_ns};
use crate::session::live::bus::Bus;
use crate::session::live::lanes::{LaneEnd, last_words};
use crate::telemetry::tree::{self, SUPERVISOR, TreeUse};
use crossbeam_channel::{Receiver, Sender, select, tick, unbounded};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The setting for the most seconds that a command may take.
const KNOB_LIMIT: &str = "limit_s";
/// Without it.
const LIMIT_S: u64 = 600;
/// How often the tree is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Its mappings and shared pages are looked at every so many times, for that takes longer.
const LOOK_CLOSELY: u64 = 5;
/// How long a supervisor may take to end its tree.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest line that is taken in.
const LONGEST_LINE: u64 = 1 << 16;
/// The exit status by which a script of ours says that its package is not installed.
const NOT_INSTALLED: i32 = 3;

/// Why the watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Ended,
    Cancelled,
    TooLong,
}

/// Runs a command as a lane to its end. `cancel` ends it early; `on_start` is told the process to watch.
pub(in crate::session::live) fn run(
    bus: &Bus,
    exe: &Path,
    lane: LaneId,
    mut order: LaneOrder,
    cancel: &Receiver<()>,
    on_start: &dyn Fn(u32),
) -> LaneEnd {
    let died = |how: String, last_words: String| {
        bus.emit(EventBody::LaneDied { lane, how, last_words: last_words.clone() });
        LaneEnd::Died(last_words)
    };
    let cancelled = || {
        bus.emit(EventBody::LaneDied { lane, how: "cancelled".to_owned(), last_words: String::new() });
        LaneEnd::Cancelled
    };
    order.spawned_monotonic_ns = monotonic_ns();
    let line = match &order.engine {
        Engine::Loader(name) => {
            loaders::line(name, &order.scratch).map_err(|e| format!("its script could not be written: {e}"))
        }
        Engine::Command(line) => Ok(line.clone()),
        other => Err(format!("{other} is no command")),
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
        bus.emit(EventBody::LaneFinished { lane, result });
        return LaneEnd::Finished { route: None, failed: true };
    }

    let started_ns = monotonic_ns();
    let mut child = match spawn(exe, &order, &line) {
        Ok(child) => child,
        Err(error) => return died(format!("its process could not be started: {error}"), String::new()),
    };
    let pid = child.id();
    bus.emit(EventBody::LaneStarted { lane, pid });
    on_start(pid);
    let control = child.stdin.take();
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        let _ = child.kill();
        return died("its pipes could not be made".to_owned(), String::new());
    };
    let words = std::thread::spawn(move || last_words(stderr));
    let (send, lines) = unbounded();
    std::thread::spawn(move || read_lines(stdout, &send));
    let limit_s = order.knobs.get(KNOB_LIMIT).copied().unwrap_or(LIMIT_S);
    let mut watched = Watched::new(pid, started_ns);
    let why = watched.until_end(bus, lane, &order, &lines, cancel, Duration::from_secs(limit_s));
    // Without its input the supervisor ends the tree, then tells what it used.
    drop(control);
    if why != Why::Ended {
        watched.drain(&lines);
    }
    let lost = !wait_for(&mut child);
    let words = if lost { String::new() } else { words.join().unwrap_or_default() };
    match why {
        Why::Cancelled => return cancelled(),
        Why::TooLong => {
            let how = format!(
                "it took more than {limit_s} s and was cut off with its {} processes; --limit SECONDS sets another limit",
                watched.most_processes
            );
            return died(how, words);
        }
        Why::Ended if watched.told.ended.is_none() => {
            return died("its supervisor ended before it".to_owned(), words);
        }
        Why::Ended => {}
    }
    watched.fill(&mut result, &order, &words);
    for spans in watched.spans.chunks(16 << 10) {
        bus.emit(EventBody::LaneSpans { lane, spans: SpanBatch::pack(spans) });
    }
    let (route, failed) = (result.route.clone(), result.error.is_some());
    bus.emit(EventBody::LaneFinished { lane, result });
    let end = LaneEnd::Finished { route, failed };
    crate::session::live::explain::after_lane(bus, &end, &order.scratch.join("cufile.log"), &Default::default());
    end
}

/// The command line with the model and the GPU in their places, as words for `sh`.
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

fn spawn(exe: &Path, order: &LaneOrder, line: &str) -> std::io::Result<Child> {
    let mut command = Command::new(exe);
    for (name, value) in &order.knobs {
        command.env(format!("GDS_TOP_SET_{}", name.to_uppercase().replace('-', "_")), value.to_string());
    }
    command
        .arg(SUPERVISOR)
        .arg(line)
        .env("GDS_TOP_MODEL", &order.model.path)
        .env("GDS_TOP_GPU", gpu(order))
        .env("GDS_TOP_VERIFY", if order.verify { "1" } else { "0" })
        .env("CUFILE_LOGFILE_PATH", order.scratch.join("cufile.log"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// What came of preparing the page cache.
enum Prepared {
    Ready(Box<RunResult>),
    Cancelled,
    Failed(String, String),
}

/// Has a lane process make the page cache cold or hot and measure what it holds; it knows that a command is not its to run.
fn prepare(bus: &Bus, exe: &Path, lane: LaneId, order: &LaneOrder, cancel: &Receiver<()>) -> Prepared {
    let lost = |what: String| Prepared::Failed(format!("the page cache could not be prepared: {what}"), String::new());
    let spawned =
        Command::new(exe).arg("__lane").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return lost(error.to_string()),
    };
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return lost("no pipes".to_owned());
    };
    bus.emit(EventBody::LaneStarted { lane, pid: child.id() });
    let text = serde_json::to_vec(order).unwrap_or_default();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&text);
    });
    let words = std::thread::spawn(move || last_words(stderr));
    let (send, lines) = unbounded();
    std::thread::spawn(move || read_lines(stdout, &send));
    let mut result = None;
    let ended = loop {
        select! {
            recv(cancel) -> _ => break false,
            recv(lines) -> line => match line.ok().map(|(_, line)| serde_json::from_str::<Frame>(&line)) {
                None => break true,
                Some(Ok(Frame { message: LaneMessage::Stage { stage }, at_monotonic_ns })) => {
                    bus.emit_at(at_monotonic_ns, EventBody::LaneStage { lane, stage });
                }
                Some(Ok(Frame { message: LaneMessage::Finished { result: told }, .. })) => result = Some(told),
                Some(_) => {}
            },
        }
    };
    if !ended {
        let _ = child.kill();
    }
    let _ = child.wait();
    let _ = writer.join();
    let words = words.join().unwrap_or_default();
    match result {
        _ if !ended => Prepared::Cancelled,
        Some(result) => Prepared::Ready(Box::new(result)),
        None => Prepared::Failed("the process that prepares the page cache died".to_owned(), words),
    }
}

/// Sends each line with the time of its arrival, until the pipe closes.
fn read_lines(pipe: impl Read, to: &Sender<(u64, String)>) {
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(1..) if to.send((monotonic_ns(), String::from_utf8_lossy(&bytes).into_owned())).is_ok() => {}
            _ => return,
        }
    }
}

/// Waits for the supervisor, and ends it where it does not come to its end. False then: some of its tree may live on.
fn wait_for(child: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return false,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// A command under watch.
struct Watched {
    pid: u32,
    started_ns: u64,
    told: Told,
    seen: Seen,
    /// Use of the tree when the clock started, and when it stopped.
    at_start: TreeUse,
    at_stop: Option<TreeUse>,
    most_rss: Option<u64>,
    most_shared_once: Option<u64>,
    most_processes: u32,
    gpu_memory: Option<(f64, f64)>,
    nvfs_before: Option<u64>,
    spans: Vec<Span>,
    looks: u64,
}

impl Watched {
    fn new(pid: u32, started_ns: u64) -> Self {
        Self {
            pid,
            started_ns,
            told: Told::default(),
            seen: Seen { readable: true, ..Seen::default() },
            at_start: TreeUse::default(),
            at_stop: None,
            most_rss: None,
            most_shared_once: None,
            most_processes: 0,
            gpu_memory: None,
            nvfs_before: nvfs_reads(),
            spans: Vec::new(),
            looks: 0,
        }
    }

    /// Watches until the command has ended, or must be ended.
    fn until_end(
        &mut self,
        bus: &Bus,
        lane: LaneId,
        order: &LaneOrder,
        lines: &Receiver<(u64, String)>,
        cancel: &Receiver<()>,
        limit: Duration,
    ) -> Why {
        let start = Instant::now();
        let clock = tick(LOOK_EVERY);
        let mut stage = LaneStage::Setup;
        let mut go = |to: LaneStage, at_ns: u64| {
            if to != stage {
                bus.emit_at(at_ns, EventBody::LaneStage { lane, stage: to });
                stage = to;
            }
        };
        // A command that tells nothing is loading from its first moment.
        let mut silent = true;
        go(LaneStage::Loading, self.started_ns);
        loop {
            select! {
                recv(lines) -> line => {
                    let Ok((now_ns, line)) = line else { return Why::Ended };
                    let (ready, done) = (self.told.ready_ns, self.told.done_ns);
                    self.told.take(&line, now_ns);
                    if let (None, Some(at)) = (ready, self.told.ready_ns) {
                        self.at_start = tree::usage(self.pid).unwrap_or_default();
                        self.most_rss = None;
                        self.most_shared_once = None;
                        silent = false;
                        // Its first moment was set-up after all.
                        go(LaneStage::Setup, now_ns);
                        go(LaneStage::Loading, at.max(self.started_ns));
                    }
                    if let (None, Some(at)) = (done, self.told.done_ns) {
                        self.look(bus, true);
                        self.at_stop = tree::usage(self.pid);
                        go(LaneStage::Verifying, at);
                    }
                }
                recv(clock) -> _ => {
                    self.look(bus, self.looks.is_multiple_of(LOOK_CLOSELY));
                    if self.told.done_ns.is_none() {
                        let landed = self.told.landed.or_else(|| self.moved(silent).map(|(bytes, _)| bytes)).unwrap_or(0);
                        bus.emit(EventBody::LaneProgress {
                            lane,
                            landed_bytes: landed.min(order.model.tensor_bytes()),
                            pinned_bytes: 0,
                            verified_bytes: 0,
                        });
                    }
                    if start.elapsed() > limit {
                        return Why::TooLong;
                    }
                }
                recv(cancel) -> _ => return Why::Cancelled,
            }
        }
    }

    /// Takes in what is left of the lines, for a moment.
    fn drain(&mut self, lines: &Receiver<(u64, String)>) {
        let until = Instant::now() + PATIENCE;
        while let Ok((now_ns, line)) = lines.recv_deadline(until) {
            self.told.take(&line, now_ns);
        }
    }

    fn look(&mut self, bus: &Bus, closely: bool) {
        self.looks += 1;
        let Some(used) = tree::usage(self.pid) else { return };
        // The supervisor is not the command.
        self.most_processes = self.most_processes.max(used.processes.saturating_sub(1));
        self.most_rss = self.most_rss.max(used.rss_bytes);
        if let Some(now) = bus.gpu_memory_bytes() {
            let (first, most) = self.gpu_memory.unwrap_or((now, now));
            self.gpu_memory = Some((first, most.max(now)));
        }
        if closely {
            self.most_shared_once = self.most_shared_once.max(tree::shared_once_bytes(self.pid));
            if self.seen.cufile.is_none() {
                let (found, readable) = tree::mapped_cufile(self.pid);
                self.seen.cufile = found;
                self.seen.readable &= readable;
            }
        }
        if self.told.done_ns.is_none() {
            self.at_stop = Some(used);
        }
    }

    /// Bytes that the tree has read since the clock started, and by which of its counters.
    fn moved(&self, all: bool) -> Option<(u64, &'static str)> {
        let start = if all { TreeUse::default() } else { self.at_start.clone() };
        let stop = self.at_stop.as_ref()?;
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        let calls = since(stop.read_call_bytes, start.read_call_bytes);
        let storage = since(stop.storage_read_bytes, start.storage_read_bytes);
        match (calls, storage) {
            (Some(calls), storage) if storage.is_none_or(|s| s <= calls) => Some((calls, "rchar")),
            (_, Some(storage)) => Some((storage, "read_bytes")),
            _ => None,
        }
    }

    /// Writes what was seen into the result.
    fn fill(&mut self, result: &mut RunResult, order: &LaneOrder, words: &str) {
        let ended = self.told.ended.clone().unwrap_or_default();
        // Where the clock did not stop before, the end of the tree tells the most: nothing of it is missed.
        if self.told.done_ns.is_none() {
            let stop = self.at_stop.get_or_insert_default();
            stop.read_call_bytes = ended.read_call_bytes.or(stop.read_call_bytes);
            stop.storage_read_bytes = ended.storage_read_bytes.or(stop.storage_read_bytes);
            stop.cpu_ns = ended.cpu_ns.unwrap_or(stop.cpu_ns);
            stop.major_faults = ended.major_faults.unwrap_or(stop.major_faults);
        }
        let start_ns = self.told.ready_ns.unwrap_or(self.started_ns);
        let stop_ns = self.told.done_ns.or(self.told.ended_ns).unwrap_or_else(monotonic_ns).max(start_ns);
        result.wall_ns = stop_ns - start_ns;
        result.setup_ns = start_ns.saturating_sub(order.spawned_monotonic_ns);
        result.setup_parts_ns = BTreeMap::from([
            ("page_cache".to_owned(), self.started_ns.saturating_sub(order.spawned_monotonic_ns)),
            ("command".to_owned(), start_ns.saturating_sub(self.started_ns)),
        ]);
        let whole = self.told.ready_ns.is_none();
        let (bytes, bytes_source) = match (self.told.bytes, self.moved(whole)) {
            (Some(bytes), _) => (bytes, "told by the command".to_owned()),
            (None, Some((bytes, counter))) => (
                bytes,
                format!(
                    "{counter} of /proc/PID/io, all processes; what was read out of mappings of the page cache counts there nowhere"
                ),
            ),
            (None, None) => (0, "not known: /proc/PID/io could not be read".to_owned()),
        };
        result.bytes = bytes;
        result.bytes_per_s = units::bytes_per_s(bytes, result.wall_ns).unwrap_or(0.0);
        result.verified = self.told.verified;
        let (spans, slots) = self.told.spans(start_ns, result.wall_ns);
        result.phases =
            if spans.is_empty() { PhaseTimes::default() } else { Span::phase_times(&spans, result.wall_ns, slots) };
        result.slots = slots;
        self.spans = spans;
        let stop = self.at_stop.clone().unwrap_or_default();
        let start = if whole { TreeUse::default() } else { self.at_start.clone() };
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        result.cpu_ns = Some(stop.cpu_ns.saturating_sub(start.cpu_ns)).filter(|ns| *ns > 0);
        result.host_peak_bytes = self.most_shared_once.or(self.most_rss);
        result.pinned_peak_bytes = None;
        result.gpu_peak_bytes = self.gpu_memory.map(|(first, most)| (most - first) as u64);
        self.seen.nvfs = self.nvfs_before.and_then(|before| Some(nvfs_reads()?.saturating_sub(before)));
        self.seen.log = Seen::read_log(&order.scratch);
        let (route, how) = self.seen.route();
        result.route = route;
        result.error = self.error(&order.engine, words, &ended);
        let exit = match (ended.code, ended.signal) {
            (Some(code), _) => format!("status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown".to_owned(),
        };
        result.outside = Some(Outside {
            program: self.told.program.clone(),
            exit,
            last_words: Some(words.to_owned()).filter(|words| !words.is_empty()),
            clock: if whole {
                "from the start of the process to its end"
            } else {
                "from its line 'ready' to its line 'done'"
            }
            .to_owned(),
            bytes_source,
            processes: self.most_processes,
            read_call_bytes: since(stop.read_call_bytes, start.read_call_bytes),
            storage_read_bytes: since(stop.storage_read_bytes, start.storage_read_bytes),
            major_faults: Some(stop.major_faults.saturating_sub(start.major_faults)),
            rss_peak_bytes: self.most_rss,
            pss_peak_bytes: self.most_shared_once,
        });
        result.notes.extend(self.notes(result, whole, &how));
    }

    /// Why the run counts as failed, if it does.
    fn error(&self, engine: &Engine, words: &str, ended: &super::lines::Ended) -> Option<String> {
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let said = if last.is_empty() { String::new() } else { format!("; its last words: {last}") };
        match (ended.code, ended.signal, &self.told.error) {
            (_, _, Some(error)) => Some(error.clone()),
            (Some(0), _, None) if self.told.ready_ns.is_some() && self.told.done_ns.is_none() => {
                Some(format!("it told that it was ready and ended without telling that it was done{said}"))
            }
            (Some(0), ..) => None,
            (Some(NOT_INSTALLED), ..) if matches!(engine, Engine::Loader(_)) && !last.is_empty() => {
                Some(last.to_owned())
            }
            (Some(127), ..) => Some(format!("ended with status 127: the shell found no such program{said}")),
            (Some(code), ..) => Some(format!("ended with status {code}{said}")),
            (None, Some(signal), _) => Some(format!("was killed by signal {signal}{said}")),
            (None, None, _) => Some(format!("how it ended is not known{said}")),
        }
    }

    fn notes(&self, result: &RunResult, whole: bool, how: &str) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.told.program.clone());
        notes.extend(self.told.notes.iter().cloned());
        if result.error.is_some() {
            return notes;
        }
        if whole {
            notes.push(
                "it told no phases and no start, so the clock ran from the start of its process to its end, its set-up included".to_owned(),
            );
        } else if result.phases == PhaseTimes::default() {
            notes.push("it told no phases, so where the time went is not known".to_owned());
        }
        if let Some(outside) = &result.outside {
            let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), units::bytes);
            let cached = outside.read_call_bytes.zip(outside.storage_read_bytes);
            let cached = cached.map(|(calls, storage)| calls.saturating_sub(storage));
            notes.push(format!(
                "seen from outside: {} read by system calls, {} from storage; {} or more came out of the page cache",
                size(outside.read_call_bytes),
                size(outside.storage_read_bytes),
                size(cached)
            ));
            if self.told.bytes.is_none() {
                notes.push(format!("bytes are {}", outside.bytes_source));
            }
        }
        if self.gpu_memory.is_some() {
            notes.push("its GPU memory is what the whole GPU's use grew by meanwhile (NVML)".to_owned());
        }
        notes.push(format!("route: {how}"));
        if result.verified.is_some() {
            notes.push("verified by the command itself".to_owned());
        }
        notes
    }
}
