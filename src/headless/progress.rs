//! What is told while a session runs: a bar on a terminal, otherwise a line for each start and end.

use super::Options;
use crate::analysis::cell_words;
use crate::domain::{Event, EventBody, LaneId, LaneStage, LogLevel, Status, units};
use crate::report::words::{check_counts, plain, route_words};
use crate::session::{Lane, LaneStatus, State};
use std::io::Write;
use std::time::{Duration, Instant};

/// At most this often a bar is redrawn while events pour in.
const REDRAW: Duration = Duration::from_millis(66);

/// The teller.
pub(super) struct Progress {
    quiet: bool,
    verbose: bool,
    bar: bool,
    colour: bool,
    ascii: bool,
    width: usize,
    drawn: bool,
    /// Bytes of test files when they were last told of.
    files_told: u64,
    last: Option<Instant>,
}

impl Progress {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            quiet: options.quiet,
            verbose: options.verbose,
            bar: options.progress && !options.quiet,
            colour: options.colour,
            ascii: options.ascii,
            width: usize::from(options.width).max(20),
            drawn: false,
            files_told: 0,
            last: None,
        }
    }

    /// Tells of an event that the state has just taken in.
    pub(super) fn event(&mut self, state: &State, event: &Event, err: &mut impl Write) {
        for line in self.lines(state, &event.body) {
            self.line(&line, err);
        }
        if self.last.is_none_or(|at| at.elapsed() >= REDRAW) {
            self.tick(state, err);
        }
    }

    /// Draws the bar again.
    pub(super) fn tick(&mut self, state: &State, err: &mut impl Write) {
        if !self.bar {
            return;
        }
        let text = match (state.running_lane(), files_share(state)) {
            (Some(lane), _) => self.bar_text(state, lane),
            (None, Some((bytes, of_bytes))) => self.files_text(bytes, of_bytes),
            (None, None) => return,
        };
        self.last = Some(Instant::now());
        self.drawn = true;
        let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
    }

    /// Takes the bar away.
    pub(super) fn clear(&mut self, err: &mut impl Write) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }

    fn line(&mut self, text: &str, err: &mut impl Write) {
        self.clear(err);
        let _ = writeln!(err, "{text}");
    }

    fn mark(&self, status: Status) -> String {
        let mark = match (self.ascii, status) {
            (false, _) => status.mark().to_string(),
            (true, Status::Pass) => "ok".to_owned(),
            (true, _) => status.word().to_owned(),
        };
        paint(self.colour, status, &mark)
    }

    fn lines(&mut self, state: &State, body: &EventBody) -> Vec<String> {
        let name = |id: &LaneId| {
            let at = state.lanes.iter().position(|l| l.id == *id)?;
            let lane = state.lanes.get(at)?;
            let share =
                lane.share.as_ref().map_or_else(String::new, |s| format!(", {}", plain(&s.label(&lane.target))));
            let text = format!("{} {} #{}{share}", plain(&lane.engine.to_string()), lane.cache, lane.repeat + 1);
            Some((lane, format!("[{}/{}] {text}", at + 1, state.lanes.len())))
        };
        match body {
            EventBody::Said { level: LogLevel::Error, text } => {
                vec![format!("{} {}", self.mark(Status::Fail), plain(text))]
            }
            _ if self.quiet => vec![],
            EventBody::Said { level: LogLevel::Warn, text } => {
                vec![format!("{} {}", self.mark(Status::Warn), plain(text))]
            }
            EventBody::Said { text, .. } => vec![plain(text)],
            EventBody::CheckDone { finding } if self.verbose => {
                vec![format!("{} {}: {}", self.mark(finding.status), plain(&finding.id), plain(&finding.summary))]
            }
            EventBody::ChecksDone { took_ns } => {
                vec![format!("checks: {} ({})", check_counts(state), units::duration(*took_ns))]
            }
            EventBody::FixProgress { progress } => vec![format!("{}: {}", plain(&progress.id), plain(&progress.text))],
            EventBody::ModelOpened { model } => {
                let bytes = model.tensors.iter().fold(0_u64, |sum, t| sum.saturating_add(t.bytes));
                let tensors = units::count(model.tensors.len() as u64);
                vec![format!("model {}: {tensors} tensors, {}", plain(&model.name), units::bytes(bytes))]
            }
            EventBody::EngineUnavailable { engine, why } => {
                vec![format!(
                    "{} {} cannot run here: {}",
                    self.mark(Status::Na),
                    plain(&engine.to_string()),
                    plain(why)
                )]
            }
            // A bar shows by itself what has started.
            EventBody::LaneStarted { lane, .. } if !self.bar => {
                name(lane).map(|(_, name)| format!("{name}: started")).into_iter().collect()
            }
            EventBody::LaneFinished { lane, .. }
            | EventBody::LaneDied { lane, .. }
            | EventBody::LaneCancelled { lane } => {
                name(lane).map(|(lane, name)| self.ending(lane, &name)).unwrap_or_default()
            }
            // A bar shows it as it grows; a line each quarter is enough for a log.
            EventBody::GridFilesWritten { bytes, of_bytes } if !self.bar && *of_bytes > 0 => {
                let quarter = |bytes: u64| bytes.saturating_mul(4) / *of_bytes;
                if quarter(*bytes) > quarter(self.files_told) || self.files_told == 0 {
                    self.files_told = *bytes;
                    return vec![format!(
                        "test files: {} of {} written ({:.0} %)",
                        units::bytes(*bytes),
                        units::bytes(*of_bytes),
                        *bytes as f64 * 100.0 / *of_bytes as f64
                    )];
                }
                vec![]
            }
            EventBody::GridCellDone { result } => {
                let (done, all) = state.grid.as_ref().map_or((0, 0), |g| (g.done(), g.plan.cells.len()));
                let told = match (&result.error, result.bytes_per_s) {
                    (Some(why), _) => format!("{} {}", self.mark(Status::Fail), plain(why)),
                    (None, rate) => rate.map_or("–".to_owned(), units::rate),
                };
                vec![format!("[{done}/{all}] {} {}: {told}", result.key.access, cell_words(&result.key))]
            }
            _ => vec![],
        }
    }

    fn ending(&self, lane: &Lane, name: &str) -> Vec<String> {
        let mut lines = Vec::new();
        match (&lane.status, &lane.result) {
            (LaneStatus::Cancelled, _) => lines.push(format!("{} {name}: stopped", self.mark(Status::Na))),
            (LaneStatus::Failed(why), _) => {
                lines.push(format!("{} {name}: {}", self.mark(Status::Fail), plain(&why.to_string())));
                let words = lane.last_words.as_deref().unwrap_or_default();
                // The last lines are those that tell.
                let tail: Vec<&str> = words.lines().rev().filter(|l| !l.trim().is_empty()).take(5).collect();
                lines.extend(tail.iter().rev().map(|l| format!("    {}", plain(l))));
            }
            (_, Some(r)) => {
                let verified = match r.verified {
                    Some(true) => "verified",
                    Some(false) => "wrong bytes",
                    None if r.bytes == 0 => "nothing to verify",
                    None => "not verified",
                };
                let rate = units::bytes_per_s(r.bytes, r.wall_ns).filter(|rate| *rate > 0.0);
                let rate = rate.map_or("nothing moved".to_owned(), units::rate);
                let mut line =
                    format!("{} {name}: {}, {rate}, {verified}", self.mark(Status::Pass), units::duration(r.wall_ns));
                if r.route.is_some() {
                    line += &format!(", {}", route_words(r.route.as_ref()));
                }
                lines.push(line);
                if self.verbose {
                    lines.extend(r.notes.iter().map(|note| format!("    {}", plain(note))));
                }
            }
            _ => {}
        }
        lines
    }

    /// The bar while test files are written, before the first cell.
    fn files_text(&self, bytes: u64, of_bytes: u64) -> String {
        let share = if of_bytes > 0 { (bytes as f64 / of_bytes as f64).clamp(0.0, 1.0) } else { 0.0 };
        let room = self.width.saturating_sub(48).clamp(4, 40);
        let full = (share * room as f64) as usize;
        let (on, off) = if self.ascii { ("#", "-") } else { ("█", "░") };
        let bar = on.repeat(full) + &off.repeat(room - full);
        let text =
            format!("test files {bar} {:>3.0} %  {} of {}", share * 100.0, units::bytes(bytes), units::bytes(of_bytes));
        text.chars().take(self.width.saturating_sub(1)).collect()
    }

    fn bar_text(&self, state: &State, lane: &Lane) -> String {
        // Lanes that run together are one bar: all their bytes, by the clock of the first.
        let running =
            || state.lanes.iter().filter(|l| l.id == lane.id || lane.group().is_some() && l.group() == lane.group());
        let total = running().fold(0_u64, |sum, l| sum.saturating_add(state.bytes_of(l)));
        let landed = running().fold(0_u64, |sum, l| sum.saturating_add(l.landed_bytes()));
        let verified = running().fold(0_u64, |sum, l| sum.saturating_add(l.verified_bytes));
        let at = state.lanes.iter().position(|l| l.id == lane.id).unwrap_or(0);
        let head = format!("[{}/{}] {} {}", at + 1, state.lanes.len(), plain(&lane.engine.to_string()), lane.cache);
        let (done, tail) = match lane.status {
            LaneStatus::Running(LaneStage::Loading) => {
                let passed = lane.clock_ns.map_or(0, |c| state.now_ns.saturating_sub(c));
                let rate = units::bytes_per_s(landed, passed).map_or(String::new(), units::rate);
                (landed, format!("{rate}  {}", units::duration(passed)))
            }
            LaneStatus::Running(LaneStage::Verifying) => (verified, "verifying".to_owned()),
            LaneStatus::Running(LaneStage::PreparingCache) => (0, "preparing the cache".to_owned()),
            _ => (0, "starting".to_owned()),
        };
        let share = if total > 0 { (done as f64 / total as f64).clamp(0.0, 1.0) } else { 0.0 };
        let room = self.width.saturating_sub(head.chars().count() + 34).clamp(4, 40);
        let full = (share * room as f64) as usize;
        let (on, off) = if self.ascii { ("#", "-") } else { ("█", "░") };
        let text = format!("{head} {}{} {:>3.0} %  {tail}", on.repeat(full), off.repeat(room - full), share * 100.0);
        // A line that wraps could not be redrawn.
        text.chars().take(self.width.saturating_sub(1)).collect()
    }
}

/// Bytes of test files written and to be written, while that is what happens.
fn files_share(state: &State) -> Option<(u64, u64)> {
    let grid = state.grid.as_ref().filter(|grid| grid.done() == 0 && !grid.ended)?;
    grid.written.filter(|(bytes, of_bytes)| bytes < of_bytes)
}

/// Text in the colour of a status.
pub(super) fn paint(colour: bool, status: Status, text: &str) -> String {
    let code = match status {
        Status::Pass => "32",
        Status::Info => "34",
        Status::Warn => "33",
        Status::Fail => "31",
        Status::Na => "2",
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
