//! The progress of a session: a bar on a terminal, otherwise one line per start and end.

use super::options::{FirstTask, Options};
use crate::core::{CellResult, Engine, Event, EventBody, Failure, LaneId, LaneStage, LogLevel, Status, units};
use crate::present::engine_rows::{SAME_OBSTACLE, cannot_run};
use crate::present::failures::stderr_tail;
use crate::present::{grid, labels, machine, progress};
use crate::report::paint;
use crate::session::{Lane, LaneStatus, State};
use crate::text::{fitted, sanitise_line};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

/// The shortest interval between two redraws of the bar.
const REDRAW: Duration = Duration::from_millis(66);

/// Tasks that are shorter than this print no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// The task after the end of a session. Only a large recording takes longer than [`SHOWN_AFTER`].
const WRITING: &str = "writing the recording";

/// Prints the progress.
pub struct Progress {
    quiet: bool,
    verbose: bool,
    bar: bool,
    first_task: FirstTask,
    /// The engines that the user named.
    named: Vec<Engine>,
    /// The width at which lines are wrapped.
    edge: usize,
    colour: bool,
    width: usize,
    drawn: bool,
    /// The bytes of test files at the last progress line.
    files_printed: u64,
    /// The runs whose start was printed. A command starts twice: a process prepares the page cache for it.
    started: BTreeSet<LaneId>,
    last: Option<Instant>,
    /// The task and its start, while the session does something other than a load.
    doing: Option<(String, Instant)>,
}

impl Progress {
    /// The state before any output.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            quiet: options.quiet,
            verbose: options.verbose,
            bar: options.progress && !options.quiet,
            first_task: options.first_task,
            named: options.asked.engines.clone(),
            edge: options.edge(),
            colour: options.colour,
            width: usize::from(options.progress_width).max(20),
            drawn: false,
            files_printed: 0,
            started: BTreeSet::new(),
            last: None,
            doing: None,
        }
    }

    /// Prints an event that is already part of `state`.
    pub fn event(&mut self, state: &State, event: &Event, err: &mut impl Write) {
        match &event.body {
            EventBody::SessionStarted { .. } => match self.first_task {
                FirstTask::Checks => self.begin("checks"),
                FirstTask::Watching => self.begin("watching"),
                FirstTask::SharedTerminal => self.doing = None,
            },
            EventBody::Said { level: LogLevel::Info, text } if self.first_task == FirstTask::Checks => {
                self.begin(&sanitise_line(text));
            }
            EventBody::SessionEnded { .. } => self.begin(WRITING),
            EventBody::ChecksDone { .. } | EventBody::ModelOpened { .. } | EventBody::LaneStarted { .. } => {
                self.doing = None;
            }
            _ => {}
        }
        for line in self.lines(state, &event.body) {
            self.line(&line, err);
        }
        self.bar(state, err);
    }

    /// Begins a task without a known end.
    fn begin(&mut self, task: &str) {
        self.doing = Some((task.to_owned(), Instant::now()));
    }

    /// Draws the bar unless it was drawn very recently. A command with many sessions uses the bar without the lines.
    pub fn bar(&mut self, state: &State, err: &mut impl Write) {
        if self.last.is_none_or(|at| at.elapsed() >= REDRAW) {
            self.tick(state, err);
        }
    }

    /// Draws the bar again.
    pub fn tick(&mut self, state: &State, err: &mut impl Write) {
        if !self.bar {
            return;
        }
        let text = match (state.running_lane(), files_share(state), state.model_written) {
            (Some(lane), ..) => self.bar_text(state, lane),
            (None, Some((bytes, of_bytes)), _) => self.files_text("test files", bytes, of_bytes),
            (None, None, Some((bytes, of_bytes))) => self.files_text("synthetic model", bytes, of_bytes),
            (None, None, None) => match self.doing_text() {
                Some(text) => text,
                None => return,
            },
        };
        self.last = Some(Instant::now());
        self.drawn = true;
        let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
    }

    /// Erases the bar.
    pub fn clear(&mut self, err: &mut impl Write) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }

    fn line(&mut self, text: &str, err: &mut impl Write) {
        self.clear(err);
        let _ = writeln!(err, "{}", fitted(text, self.edge));
    }

    fn mark(&self, status: Status) -> String {
        paint(self.colour, status, &status.mark().to_string())
    }

    /// The line about an engine that cannot run. A reason is printed once. The write and the read of a variant have the
    /// same name.
    fn unavailable(&self, state: &State, engine: &Engine, why: &str) -> Vec<String> {
        let name = labels::engine(engine);
        let earlier = state.unavailable.split_last().map_or(&[][..], |(_, earlier)| earlier);
        let same = |(_, reason): &&(Engine, String)| reason == why;
        let is_said = state.messages.iter().any(|(_, level, text)| *level == LogLevel::Error && text == why);
        if is_said || earlier.iter().filter(same).any(|(other, _)| labels::engine(other) == name) {
            return vec![];
        }
        let reason = match earlier.iter().any(|one| same(&one)) {
            true => SAME_OBSTACLE.to_owned(),
            false => cannot_run(why),
        };
        let status = if self.named.contains(engine) { Status::Fail } else { Status::Na };
        vec![format!("{} {}", self.mark(status), sanitise_line(&format!("{name} {reason}")))]
    }

    fn lines(&mut self, state: &State, body: &EventBody) -> Vec<String> {
        let lane = |id: &LaneId| state.lanes.iter().find(|lane| lane.id == *id);
        let marked = |status: Status, text: &str| format!("{} {}", self.mark(status), sanitise_line(text));
        match body {
            EventBody::Said { level: LogLevel::Error, text } => vec![marked(Status::Fail, text)],
            // The reason why a named engine cannot run is an error.
            EventBody::EngineUnavailable { engine, why } if !self.quiet || self.named.contains(engine) => {
                self.unavailable(state, engine, why)
            }
            _ if self.quiet => vec![],
            EventBody::Said { level: LogLevel::Warn, text } => vec![marked(Status::Warn, text)],
            EventBody::Said { text, .. } => vec![sanitise_line(text).into_owned()],
            EventBody::CheckDone { finding } if self.verbose => {
                vec![marked(finding.status, &format!("{}: {}", finding.id, finding.summary))]
            }
            EventBody::ChecksDone { took_ns } => {
                vec![format!("checks: {} ({})", machine::check_counts(state), units::duration(*took_ns))]
            }
            EventBody::FixProgress { progress } => {
                vec![format!("{}: {}", progress.id, sanitise_line(&progress.text))]
            }
            EventBody::ModelOpened { .. } => machine::model(state)
                .map(|(_, model)| sanitise_line(&format!("model {model}")).into_owned())
                .into_iter()
                .collect(),
            // The bar already shows the runs that have started.
            EventBody::LaneStarted { lane: id, .. } if !self.bar => {
                if !self.started.insert(*id) {
                    return vec![];
                }
                let started =
                    |lane| sanitise_line(&format!("{}: started", progress::run_name(state, lane))).into_owned();
                lane(id).filter(|lane| !only_fails(state, lane)).map(started).into_iter().collect()
            }
            EventBody::LaneFinished { lane: id, .. }
            | EventBody::LaneDied { lane: id, .. }
            | EventBody::LaneCancelled { lane: id } => {
                lane(id).map(|lane| self.ending(state, lane)).unwrap_or_default()
            }
            // The bar shows this progress. A log gets one line per quarter.
            EventBody::GridFilesWritten { bytes, of_bytes } if !self.bar && *of_bytes > 0 => {
                let quarter = |bytes: u64| bytes.saturating_mul(4) / *of_bytes;
                if quarter(*bytes) > quarter(self.files_printed) || self.files_printed == 0 {
                    self.files_printed = *bytes;
                    let words = state.grid.as_ref().and_then(grid::progress).map(|(_, words)| words);
                    return words.into_iter().collect();
                }
                vec![]
            }
            EventBody::GridCellDone { result } if is_repeated_cell(state, result) => vec![],
            EventBody::GridCellDone { result } => {
                let (done, all) = state.grid.as_ref().map_or((0, 0), |g| (g.done(), g.plan.cells.len()));
                let status = if result.error.is_some() { Status::Fail } else { Status::Pass };
                let head = format!("[{done}/{all}] {} {}", result.key.access, grid::cell_name(&result.key));
                vec![marked(status, &format!("{head}: {}", grid::cell_result(result)))]
            }
            _ => vec![],
        }
    }

    fn ending(&self, state: &State, lane: &Lane) -> Vec<String> {
        let Some((status, words)) = progress::ending(lane).filter(|_| !is_repeated(state, lane)) else {
            return Vec::new();
        };
        let head = sanitise_line(&format!("{}: {words}", progress::run_name(state, lane))).into_owned();
        let mut lines = vec![format!("{} {head}", self.mark(status))];
        // The last lines of standard error usually have the reason why a process died.
        let mut details = stderr_tail(lane.stderr_tail.as_deref().unwrap_or_default());
        if self.verbose {
            details.extend(lane.result.iter().flat_map(|run| progress::notes(run)));
        }
        lines.extend(details.iter().map(|line| format!("    {}", sanitise_line(line))));
        lines
    }

    /// The task of the session and its elapsed time. Ceilings and checks have no known end, so they have no bar.
    fn doing_text(&self) -> Option<String> {
        let (text, since) = self.doing.as_ref().filter(|(_, since)| since.elapsed() >= SHOWN_AFTER)?;
        let seconds = format!(" {} s", since.elapsed().as_secs());
        let room = self.width.saturating_sub(seconds.len() + 1);
        Some(text.chars().take(room).chain(seconds.chars()).collect())
    }

    /// The bar while files are written, before the first load or cell.
    fn files_text(&self, what: &str, bytes: u64, of_bytes: u64) -> String {
        let share = if of_bytes > 0 { (bytes as f64 / of_bytes as f64).clamp(0.0, 1.0) } else { 0.0 };
        let room = self.width.saturating_sub(48).clamp(4, 40);
        let full = (share * room as f64) as usize;
        let bar = "█".repeat(full) + &"░".repeat(room - full);
        let text =
            format!("{what} {bar} {:>3.0} %  {} of {}", share * 100.0, units::bytes(bytes), units::bytes(of_bytes));
        text.chars().take(self.width.saturating_sub(1)).collect()
    }

    fn bar_text(&self, state: &State, lane: &Lane) -> String {
        // Parallel loads share one bar: the sum of their bytes, and the clock of the first.
        let running =
            || state.lanes.iter().filter(|l| l.id == lane.id || lane.group().is_some() && l.group() == lane.group());
        let total = running().fold(0_u64, |sum, l| sum.saturating_add(state.bytes_of(l)));
        let landed = running().fold(0_u64, |sum, l| sum.saturating_add(l.landed_bytes()));
        let verified = running().fold(0_u64, |sum, l| sum.saturating_add(l.verified_bytes));
        let at = state.lanes.iter().position(|l| l.id == lane.id).unwrap_or(0);
        let head =
            format!("[{}/{}] {} {}", at + 1, state.lanes.len(), sanitise_line(&lane.engine.to_string()), lane.cache);
        let (done, tail) = match lane.status {
            LaneStatus::Running(LaneStage::Loading) => {
                let passed = lane.clock_ns.map_or(0, |c| state.now_ns.saturating_sub(c));
                let rate = units::bytes_per_s(landed, passed).map_or(String::new(), units::rate);
                (landed, format!("{rate}  {}", units::duration(passed)))
            }
            LaneStatus::Running(stage @ LaneStage::Verifying) => (verified, progress::stage_short(stage).to_owned()),
            LaneStatus::Running(stage) => (0, progress::stage_short(stage).to_owned()),
            _ => (0, String::new()),
        };
        let share = if total > 0 { (done as f64 / total as f64).clamp(0.0, 1.0) } else { 0.0 };
        let room = self.width.saturating_sub(head.chars().count() + 34).clamp(4, 40);
        let full = (share * room as f64) as usize;
        let bar = "█".repeat(full) + &"░".repeat(room - full);
        let text = format!("{head} {bar} {:>3.0} %  {tail}", share * 100.0);
        // A line that wraps cannot be redrawn.
        text.chars().take(self.width.saturating_sub(1)).collect()
    }
}

/// The other runs of the same engine. Runs that load parts of a model at the same time are separate.
fn others<'s>(state: &'s State, lane: &'s Lane) -> impl Iterator<Item = &'s Lane> {
    state.lanes.iter().filter(move |other| other.id != lane.id && other.engine == lane.engine && lane.group().is_none())
}

/// Whether all earlier runs of the engine failed. A missing library is printed once, and not as a start and an end of
/// each run.
fn only_fails(state: &State, lane: &Lane) -> bool {
    let failed = others(state, lane).any(|other| matches!(other.status, LaneStatus::Failed(_)));
    failed && !others(state, lane).any(|other| other.status == LaneStatus::Done)
}

/// Whether an earlier run of the engine failed for the same reason. The result names all failed runs.
fn is_repeated(state: &State, lane: &Lane) -> bool {
    matches!(lane.status, LaneStatus::Failed(Failure::Error(_) | Failure::Died(_)))
        && others(state, lane).any(|other| other.status == lane.status && other.stderr_tail == lane.stderr_tail)
}

/// Whether an earlier cell of the transfer failed for the same reason.
fn is_repeated_cell(state: &State, cell: &CellResult) -> bool {
    let mut cells = state.grid.iter().flat_map(|grid| grid.results.iter().flatten());
    let is_other = |other: &CellResult| other.key != cell.key && other.key.transfer == cell.key.transfer;
    cell.error.is_some() && cells.any(|other| is_other(other) && other.error == cell.error)
}

/// The written and the total bytes of test files. `None` if no files are being written.
fn files_share(state: &State) -> Option<(u64, u64)> {
    let grid = state.grid.as_ref().filter(|grid| grid.done() == 0 && !grid.ended)?;
    grid.written.filter(|(bytes, of_bytes)| bytes < of_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Target};

    /// The printed lines of these events.
    fn printed(bodies: Vec<EventBody>) -> Vec<String> {
        let (mut progress, mut state) = (Progress::new(&Options::default()), State::default());
        let mut err = Vec::new();
        for body in bodies {
            let event = Event { at_ns: 0, body };
            state.reduce(&event);
            progress.event(&state, &event, &mut err);
        }
        String::from_utf8_lossy(&err).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_failure_of_every_run_of_an_engine_is_printed_once_and_a_start_too() {
        let died = |lane: u32, how: &str| EventBody::LaneDied {
            lane: LaneId(lane),
            how: how.to_owned(),
            stderr_tail: String::new(),
        };
        let mut bodies: Vec<EventBody> = (0..4)
            .map(|lane| EventBody::LanePlanned {
                lane: LaneId(lane),
                engine: Engine::GdsSlab,
                cache: CacheState::Cold,
                target: Target::Host,
                repeat: lane,
            })
            .collect();
        for (lane, how) in [(0, "no library"), (1, "no library"), (2, "no memory"), (3, "no library")] {
            let start = EventBody::LaneStarted { lane: LaneId(lane), pid: 1 };
            bodies.extend([start.clone(), start, died(lane, how)]);
        }
        let lines = printed(bodies);
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!((count(": started"), count("no library"), count("no memory")), (1, 1, 1), "{lines:?}");
    }

    #[test]
    fn a_program_that_shares_the_terminal_has_no_progress_before_the_end_of_the_session() {
        let started = EventBody::SessionStarted {
            tool: String::new(),
            unix_ms: 0,
            command: String::new(),
            directory: String::new(),
            left_out_variables: Vec::new(),
        };
        let said = EventBody::Said { level: LogLevel::Info, text: "an earlier session".to_owned() };
        let seen = EventBody::ProgramSeen { report: Box::default() };
        let tasks = |first_task| {
            let mut progress = Progress::new(&Options { first_task, ..Options::default() });
            let state = State::default();
            let mut tasks = Vec::new();
            for body in [started.clone(), said.clone(), seen.clone(), EventBody::SessionEnded { interrupted: false }] {
                progress.event(&state, &Event { at_ns: 0, body }, &mut Vec::new());
                tasks.push(progress.doing.as_ref().map(|(task, _)| task.clone()));
            }
            tasks
        };
        let same = |task: &str| Some(task.to_owned());
        let (watching, said, last) = (same("watching"), same("an earlier session"), same(WRITING));
        assert_eq!(tasks(FirstTask::SharedTerminal), [None, None, None, last.clone()]);
        assert_eq!(tasks(FirstTask::Watching), [watching.clone(), watching.clone(), watching, last.clone()]);
        assert_eq!(tasks(FirstTask::Checks), [same("checks"), said.clone(), said, last]);
    }
}
