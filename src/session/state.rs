//! `State`: everything that is known about a session. Only [`State::reduce`] changes it, by applying events. Front
//! ends and reports read only the state.

use super::kinds::Kinds;
use super::lane::{Lane, LaneStatus};
use super::timed::TimedSample;
use crate::core::median::median_share;
use crate::core::units::NS_PER_S;
use crate::core::{
    AppliedFix, Ceiling, Engine, Event, EventBody, Finding, FixPlan, FixProgress, Grid, Guide, LaneId, LeftOutVariable,
    LogLevel, Machine, Metric, ModelInfo, PackedSpans, RacePlan, SystemSample, Verdict, WatchReport, WatchedCall,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Maximum number of samples of the System screen that are kept. At one sample every two seconds, this is ten
/// minutes.
pub const SYSTEM_HISTORY: usize = 300;

/// Maximum number of calls of a watched program that are kept for timelines.
pub const CALLS_KEPT: usize = 100_000;

/// Counters of a watched program at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Time since the program started, in nanoseconds.
    pub at_ns: u64,
    /// Number of cuFile calls.
    pub calls: u64,
    /// Bytes that cuFile transferred.
    pub cufile_bytes: u64,
    /// Bytes that read calls of libc returned.
    pub plain_bytes: u64,
    /// Bytes that libcuda copied.
    pub copied_bytes: u64,
}

impl CallCount {
    fn of(report: &WatchReport) -> Self {
        let copied = report.other_calls.iter().filter(|call| call.is_gpu_copy());
        Self {
            at_ns: report.wall_ns,
            calls: report.calls.iter().map(|call| call.count).sum(),
            cufile_bytes: report.files.iter().map(|file| file.reads.bytes + file.writes.bytes).sum(),
            plain_bytes: report.files.iter().map(|file| file.plain.bytes).sum(),
            copied_bytes: copied.map(|call| call.bytes).sum(),
        }
    }
}

/// Everything that is known about a session.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Time of the newest event in nanoseconds since the session began.
    pub now_ns: u64,
    /// The program that made the events, for example `gds-top 0.1.0`.
    pub tool: String,
    /// The command line of the session; empty if the recording does not contain it.
    pub command: String,
    /// The working directory of the session; empty if the recording does not contain it.
    pub directory: String,
    /// The variables of the caller that the session does not use.
    pub left_out_variables: Vec<LeftOutVariable>,
    /// Start of the session in milliseconds since the Unix epoch; 0 before its first event.
    pub started_unix_ms: u64,
    /// Whether the session was interrupted; `None` while it has not ended.
    pub ended: Option<bool>,
    /// The bytes written so far and the total bytes, while a synthetic model is written.
    pub model_written: Option<(u64, u64)>,
    /// The machine.
    pub machine: Option<Machine>,
    /// Findings by group. Within a group, they are in the order of their arrival.
    pub checks: Vec<Finding>,
    /// The duration of the last round of checks in nanoseconds; `None` while a round runs or if none ran.
    pub checks_took_ns: Option<u64>,
    /// Verdicts by path and GPU.
    pub verdicts: Vec<Verdict>,
    /// The plans of fixes that the user can apply.
    pub plans: Vec<FixPlan>,
    /// The steps to a direct route, after all checks are done.
    pub guide: Option<Guide>,
    /// Fixes that are applied and can be undone, the newest last.
    pub applied: Vec<AppliedFix>,
    /// The progress messages of fixes, in order.
    pub fix_log: Vec<FixProgress>,
    /// The model that was opened last.
    pub model: Option<Arc<ModelInfo>>,
    /// All opened models in order, without duplicate names.
    pub models: Vec<Arc<ModelInfo>>,
    /// The runs, in the order in which they run.
    pub lanes: Vec<Lane>,
    /// The measured ceilings.
    pub ceilings: Vec<Ceiling>,
    /// The grid of storage measurements.
    pub grid: Option<Grid>,
    /// The watched program.
    pub watch: Option<Arc<WatchReport>>,
    /// The newest calls of the watched program, at most [`CALLS_KEPT`], with the newest last.
    pub calls: VecDeque<WatchedCall>,
    /// Number of calls of the watched program that are not in `calls`.
    pub calls_left_out: u64,
    /// Counters of the watched program at the time of each report.
    pub call_rates: Vec<CallCount>,
    /// Name and title of the plan on this page; `None` for the first plan of the session.
    pub race_plan: Option<(String, String)>,
    /// Other plans that can be run.
    pub race_plans: Vec<RacePlan>,
    /// The state at the end of each earlier plan, the oldest first. These states contain no earlier plans.
    pub earlier: Vec<Arc<State>>,
    /// Engines that cannot run here, with the reason.
    pub unavailable: Vec<(Engine, String)>,
    /// Samples of the meters over time.
    pub samples: Vec<TimedSample>,
    /// The newest samples of the processes that use GPUs and storage, at most [`SYSTEM_HISTORY`], with the newest
    /// last.
    pub system: VecDeque<(u64, SystemSample)>,
    /// Messages: session time in nanoseconds, level and text.
    pub messages: Vec<(u64, LogLevel, String)>,
    /// Whether the race was stopped. Waiting runs will not start.
    pub stopped: bool,
    /// Shows which runs are repeats of one another.
    pub(super) kinds: Kinds,
    /// The index in `lanes` of the first run with each number. A long race has thousands of runs with many events
    /// each.
    places: BTreeMap<LaneId, usize>,
}

impl State {
    /// Applies one event. A state changes only through this function.
    pub fn reduce(&mut self, event: &Event) {
        self.now_ns = self.now_ns.max(event.at_ns);
        let at_ns = event.at_ns;
        match &event.body {
            EventBody::SessionStarted { tool, unix_ms, command, directory, left_out_variables } => {
                self.tool.clone_from(tool);
                self.command.clone_from(command);
                self.directory.clone_from(directory);
                self.left_out_variables.clone_from(left_out_variables);
                self.started_unix_ms = *unix_ms;
            }
            EventBody::MachineSeen { machine } => self.machine = Some(machine.clone()),
            EventBody::CheckDone { finding } => self.put_finding(finding),
            EventBody::VerdictReached { verdict } => {
                // The bytes are compared, because comparing paths parses them, and there may be thousands.
                let same = |v: &&mut Verdict| v.path.as_os_str() == verdict.path.as_os_str() && v.gpu == verdict.gpu;
                match self.verdicts.iter_mut().find(same) {
                    Some(old) => *old = verdict.clone(),
                    None => self.verdicts.push(verdict.clone()),
                }
            }
            EventBody::ChecksDone { took_ns } => self.checks_took_ns = Some(*took_ns),
            EventBody::FixPlanned { plan } => match self.plans.iter_mut().find(|p| p.id == plan.id) {
                Some(old) => *old = plan.clone(),
                None => self.plans.push(plan.clone()),
            },
            EventBody::GuideMade { guide } => self.guide = Some(guide.clone()),
            EventBody::FixProgress { progress } => {
                if let Some(finding) = &progress.finding {
                    self.put_finding(finding);
                }
                self.fix_log.push(progress.clone());
            }
            EventBody::FixesApplied { applied } => self.applied.clone_from(applied),
            EventBody::ModelFilesWritten { bytes, of_bytes } => self.model_written = Some((*bytes, *of_bytes)),
            EventBody::ModelOpened { model } => {
                self.model_written = None;
                let model = Arc::new(model.clone());
                match self.models.iter_mut().find(|known| known.name == model.name) {
                    Some(known) => *known = model.clone(),
                    None => self.models.push(model.clone()),
                }
                self.model = Some(model);
            }
            EventBody::LanePlanned { lane, engine, cache, target, repeat } => {
                self.lanes.push(Lane {
                    id: *lane,
                    engine: engine.clone(),
                    cache: *cache,
                    target: target.clone(),
                    repeat: *repeat,
                    status: LaneStatus::Waiting,
                    pid: None,
                    started_ns: None,
                    clock_ns: None,
                    loaded_ns: None,
                    ended_ns: None,
                    progress: Vec::new(),
                    pinned_bytes: 0,
                    verified_bytes: 0,
                    spans: PackedSpans::default(),
                    result: None,
                    stderr_tail: None,
                    share: None,
                });
                self.places.entry(*lane).or_insert(self.lanes.len() - 1);
                self.stopped = false;
                self.kinds.add(&self.lanes);
            }
            EventBody::RaceStopped => self.stopped = true,
            EventBody::EngineUnavailable { engine, why } => {
                if !self.unavailable.iter().any(|(e, _)| e == engine) {
                    self.unavailable.push((engine.clone(), why.clone()));
                }
            }
            EventBody::CeilingMeasured { ceiling } => self.put_ceiling(ceiling),
            EventBody::GridPlanned { plan } => self.grid = Some(Grid::new(plan.clone())),
            EventBody::RacePlansOffered { plans } => self.race_plans.clone_from(plans),
            EventBody::RacePlanStarted { name, title } => self.turn_page((name.clone(), title.clone())),
            EventBody::GridFilesWritten { bytes, of_bytes } => {
                if let Some(grid) = &mut self.grid {
                    grid.written = Some((*bytes, *of_bytes));
                }
            }
            EventBody::GridEnded => self.end_grid(),
            EventBody::ProgramSeen { report } => {
                self.call_rates.push(CallCount::of(report));
                self.watch = Some(Arc::new((**report).clone()));
            }
            EventBody::CallsSeen { calls, left_out } => {
                self.calls.extend(calls.iter().cloned());
                let more = self.calls.len().saturating_sub(CALLS_KEPT);
                self.calls.drain(..more);
                self.calls_left_out += left_out + more as u64;
            }
            EventBody::GridCellStarted { cell } => {
                if let Some(grid) = &mut self.grid {
                    grid.written = None;
                    grid.running = Some(*cell);
                }
            }
            EventBody::GridCellDone { result } => {
                // A damaged recording may contain a cell that was never planned; it is ignored.
                if let Some(grid) = &mut self.grid
                    && let Some(at) = grid.plan.cells.iter().position(|cell| *cell == result.key)
                    && let Some(slot) = grid.results.get_mut(at)
                {
                    *slot = Some(result.clone());
                }
            }
            EventBody::Sampled { sample } => self.samples.push(TimedSample::of(at_ns, sample)),
            EventBody::SystemSeen { system } => {
                if self.system.len() >= SYSTEM_HISTORY {
                    self.system.pop_front();
                }
                self.system.push_back((at_ns, system.clone()));
            }
            EventBody::Said { level, text } => self.messages.push((at_ns, *level, text.clone())),
            EventBody::SessionEnded { interrupted } => {
                self.ended = Some(*interrupted);
                self.end_grid();
            }
            EventBody::LaneStarted { lane, .. }
            | EventBody::LaneStage { lane, .. }
            | EventBody::LaneProgress { lane, .. }
            | EventBody::LaneSpans { lane, .. }
            | EventBody::LaneShared { lane, .. }
            | EventBody::LaneFinished { lane, .. }
            | EventBody::LaneDied { lane, .. }
            | EventBody::LaneCancelled { lane } => {
                // A damaged recording may contain a run that was never planned; it is ignored.
                if let Some(at) = self.place(*lane) {
                    self.lanes[at].reduce(at_ns, &event.body);
                    if matches!(event.body, EventBody::LaneShared { .. }) {
                        self.kinds.add_again(at, &self.lanes);
                    }
                }
            }
        }
    }

    /// The index of a run in [`State::lanes`].
    fn place(&self, lane: LaneId) -> Option<usize> {
        let is = |at: &usize| self.lanes.get(*at).is_some_and(|l| l.id == lane);
        self.places.get(&lane).copied().filter(is).or_else(|| self.lanes.iter().position(|l| l.id == lane))
    }

    fn end_grid(&mut self) {
        if let Some(grid) = &mut self.grid {
            grid.end();
        }
    }

    /// Moves the measurements to an earlier page, so that the next plan begins on an empty page. Facts about the
    /// machine are on both pages.
    fn turn_page(&mut self, plan: (String, String)) {
        if self.lanes.is_empty() && self.grid.is_none() {
            self.race_plan = Some(plan);
            return;
        }
        let mut earlier = std::mem::take(&mut self.earlier);
        let system = std::mem::take(&mut self.system);
        let next = Self {
            now_ns: self.now_ns,
            tool: self.tool.clone(),
            command: self.command.clone(),
            left_out_variables: self.left_out_variables.clone(),
            started_unix_ms: self.started_unix_ms,
            machine: self.machine.clone(),
            checks: self.checks.clone(),
            checks_took_ns: self.checks_took_ns,
            verdicts: self.verdicts.clone(),
            plans: self.plans.clone(),
            guide: self.guide.clone(),
            applied: self.applied.clone(),
            fix_log: self.fix_log.clone(),
            ceilings: self.ceilings.clone(),
            race_plan: Some(plan),
            race_plans: self.race_plans.clone(),
            system,
            ..Self::default()
        };
        let mut past = std::mem::replace(self, next);
        past.race_plans = Vec::new();
        earlier.push(Arc::new(past));
        self.earlier = earlier;
    }

    /// A short title of the Race screen: the title of the plan, or a description.
    #[must_use]
    pub fn race_title(&self) -> String {
        if let Some((_, title)) = &self.race_plan {
            return title.clone();
        }
        if self.grid.is_some() {
            return "io grid".to_owned();
        }
        let workload = self.lanes.iter().find_map(|lane| lane.result.as_deref()?.workload.as_ref());
        match (workload, &self.model) {
            (Some(seen), _) => format!("bench-kv {}", seen.workload),
            (None, Some(model)) => format!("load {}", model.name),
            (None, None) => "load".to_owned(),
        }
    }

    /// The kind of a run from its index in `lanes`. Kinds are numbered from 0 in the order of their first runs. Runs
    /// of one kind have the same engine, cache state and target, and load the same share of the same model. `None` if
    /// the kind is unknown.
    #[must_use]
    pub fn kind(&self, lane: usize) -> Option<usize> {
        self.kinds.get(lane, self.lanes.len())
    }

    /// Whether a race or a grid is running. This includes the time between two runs, while caches are emptied and
    /// processes start.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        // Runs start in their planned order, so the status of the last one shows whether any run is waiting.
        let to_come = || self.lanes.last().is_some_and(|lane| lane.status == LaneStatus::Waiting);
        self.running_lane().is_some()
            || (!self.stopped && self.ended.is_none() && to_come())
            || self.grid.as_ref().is_some_and(|grid| !grid.ended)
    }

    fn put_finding(&mut self, finding: &Finding) {
        if let Some(old) = self.checks.iter_mut().find(|f| f.id == finding.id) {
            *old = finding.clone();
            return;
        }
        let at = self.checks.partition_point(|f| f.group <= finding.group);
        self.checks.insert(at, finding.clone());
    }

    /// The run that is running now.
    #[must_use]
    pub fn running_lane(&self) -> Option<&Lane> {
        self.lanes.iter().find(|l| l.is_running())
    }

    /// The readings of one meter as pairs of session time in nanoseconds and value, for one run or for none. The
    /// caller must detect gaps in time.
    pub fn series(&self, metric: Metric, lane: Option<LaneId>) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.series_between(metric, lane, 0..=u64::MAX)
    }

    /// The typical value of a pressure metric of this session as a share, 0 to 1. `None` without samples.
    #[must_use]
    pub fn pressure(&self, metric: Metric) -> Option<f64> {
        median_share(self.samples.iter().filter_map(|sample| sample.get(metric)))
    }

    /// Like [`State::series`], but only for a range of session time in nanoseconds and up to a second around it. So a
    /// chart of one run need not search the readings of an hour.
    pub fn series_between(
        &self,
        metric: Metric,
        lane: Option<LaneId>,
        during_ns: RangeInclusive<u64>,
    ) -> impl Iterator<Item = (u64, f64)> + '_ {
        // The samples of several samplers may be slightly out of order, so the range is extended.
        let (from, to) = (during_ns.start().saturating_sub(NS_PER_S), during_ns.end().saturating_add(NS_PER_S));
        let first = self.samples.partition_point(|s| s.at_ns < from);
        let last = self.samples.partition_point(|s| s.at_ns <= to).max(first);
        self.samples[first..last]
            .iter()
            .filter(move |s| lane.is_none() || s.lane == lane)
            .filter_map(move |s| Some((s.at_ns, s.get(metric)?)))
    }

    /// The findings of one group.
    pub fn group(&self, group: crate::core::Group) -> impl Iterator<Item = &Finding> {
        self.checks.iter().filter(move |f| f.group == group)
    }
}
