//! The one stream: everything that happens is an event with a time.

use super::ceiling::Ceiling;
use super::engine::{CacheState, Engine, Target};
use super::finding::{Finding, Verdict};
use super::fix::{AppliedFix, FixPlan, FixProgress};
use super::grid::{CellResult, GridPlan};
use super::guide::Guide;
use super::machine::Machine;
use super::model::ModelInfo;
use super::packed::PackedSpans;
use super::race_plan::RacePlan;
use super::run::{LaneId, RunResult};
use super::sample::Sample;
use super::share::LaneShare;
use super::system::SystemSample;
use super::watch::{WatchReport, WatchedCall};
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds since the session began.
    pub at_ns: u64,
    /// What.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The stage of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneStage {
    /// The process starts and opens CUDA and libraries.
    Setup,
    /// The page cache is being made cold or hot.
    PreparingCache,
    /// The clock runs.
    Loading,
    /// Bytes on the target are compared with the file.
    Verifying,
}

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For the record.
    Info,
    /// The user should know.
    Warn,
    /// Something did not work.
    Error,
}

/// The kinds of event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
#[allow(
    clippy::large_enum_variant,
    reason = "events are moved, not stored in bulk; boxing would cost an allocation an event"
)]
pub enum EventBody {
    /// The session began.
    SessionStarted {
        /// `gds-top 0.1.0`.
        tool: String,
        /// Milliseconds since the Unix epoch.
        unix_ms: u64,
        /// The command line that started it, without secrets. Empty in recordings of earlier versions.
        #[serde(default)]
        command: String,
    },
    /// The machine was examined, possibly again.
    MachineSeen {
        /// The description.
        machine: Machine,
    },
    /// A check has an outcome; replaces an earlier one with the same id.
    CheckDone {
        /// The outcome.
        finding: Finding,
    },
    /// A verdict was reached; replaces an earlier one for the same path and GPU.
    VerdictReached {
        /// The verdict.
        verdict: Verdict,
    },
    /// All checks of a round are done.
    ChecksDone {
        /// Their duration.
        took_ns: u64,
    },
    /// A fix can be offered.
    FixPlanned {
        /// Its preview.
        plan: FixPlan,
    },
    /// The way to a direct route, step by step; replaces an earlier one.
    GuideMade {
        /// The checklist.
        guide: Guide,
    },
    /// A fix moved on.
    FixProgress {
        /// How.
        progress: FixProgress,
    },
    /// The applied fixes of the journal that can be undone; replaces the earlier list.
    FixesApplied {
        /// The newest last.
        applied: Vec<AppliedFix>,
    },
    /// The model's files were read.
    ModelOpened {
        /// Their content.
        model: ModelInfo,
    },
    /// A synthetic model is being written.
    ModelFilesWritten {
        /// Bytes written so far.
        bytes: u64,
        /// Bytes of all files.
        of_bytes: u64,
    },
    /// A lane will run.
    LanePlanned {
        /// Its number.
        lane: LaneId,
        /// Its engine.
        engine: Engine,
        /// Cache state.
        cache: CacheState,
        /// Where to.
        target: Target,
        /// Which repeat, from 0.
        repeat: u32,
    },
    /// The race was stopped: lanes that have not started will not run.
    RaceStopped,
    /// The share of a planned lane, if the session has several models or targets.
    LaneShared {
        /// Its number.
        lane: LaneId,
        /// Its model or part, and its group.
        share: LaneShare,
    },
    /// A rate that no load can exceed here was measured; replaces an earlier one of the same kind, GPU and model.
    CeilingMeasured {
        /// What.
        ceiling: Ceiling,
    },
    /// An engine cannot run here.
    EngineUnavailable {
        /// The engine.
        engine: Engine,
        /// Why, in a sentence.
        why: String,
    },
    /// The lane's process runs.
    LaneStarted {
        /// Its number.
        lane: LaneId,
        /// Its process.
        pid: u32,
    },
    /// The lane entered a stage. `Loading` marks the start of its clock.
    LaneStage {
        /// Its number.
        lane: LaneId,
        /// The stage.
        stage: LaneStage,
    },
    /// Bytes have landed (sampled, about twenty times a second).
    LaneProgress {
        /// Its number.
        lane: LaneId,
        /// Tensor bytes on the target so far.
        landed_bytes: u64,
        /// Pinned memory now.
        pinned_bytes: u64,
        /// Verified so far.
        verified_bytes: u64,
    },
    /// Spans of a lane, complete for the run once it finished.
    LaneSpans {
        /// Its number.
        lane: LaneId,
        /// The spans, relative to the lane's clock.
        spans: PackedSpans,
    },
    /// The lane finished, well or with an error inside the result.
    LaneFinished {
        /// Its number.
        lane: LaneId,
        /// The measured value.
        result: Box<RunResult>,
    },
    /// The lane died without a result.
    LaneDied {
        /// Its number.
        lane: LaneId,
        /// How, in a sentence: exit status or signal.
        how: String,
        /// The end of its standard error.
        #[serde(alias = "last_words")]
        stderr_tail: String,
    },
    /// The user stopped the lane, so that it has no result.
    LaneCancelled {
        /// Its number.
        lane: LaneId,
    },
    /// A grid of storage measurements will be made.
    GridPlanned {
        /// Its cells.
        plan: GridPlan,
    },
    /// The grid's test files are being written.
    GridFilesWritten {
        /// Bytes written so far.
        bytes: u64,
        /// Bytes of all files.
        of_bytes: u64,
    },
    /// A cell of the grid runs.
    GridCellStarted {
        /// Its number in the plan.
        cell: u32,
    },
    /// A cell of the grid ended, well or with an error inside the result.
    GridCellDone {
        /// The measured value.
        result: CellResult,
    },
    /// The grid is over: all cells ended, or it was stopped.
    GridEnded,
    /// The plans that can run in this session, while a user can choose.
    RacePlansOffered {
        /// In the order in which they are listed.
        plans: Vec<RacePlan>,
    },
    /// Another plan starts; all measurements until now belong to the plan before it.
    RacePlanStarted {
        /// Its name.
        name: String,
        /// The plan.
        title: String,
    },
    /// The report of a watched program so far; replaces an earlier one.
    ProgramSeen {
        /// The report.
        report: Box<WatchReport>,
    },
    /// Calls of a watched program, for timelines.
    CallsSeen {
        /// The calls, in order.
        calls: Vec<WatchedCall>,
        /// Calls since the last such event that are not among them.
        left_out: u64,
    },
    /// Meters were read.
    Sampled {
        /// The readings.
        sample: Sample,
    },
    /// The processes that use GPUs and storage now. Sent only while the screens show it, and never recorded: it names
    /// processes of other users.
    SystemSeen {
        /// The machine now.
        system: SystemSample,
    },
    /// A message for the user.
    Said {
        /// Its severity.
        level: LogLevel,
        /// A sentence.
        text: String,
    },
    /// The session ended.
    SessionEnded {
        /// Whether it was cut short by the user.
        interrupted: bool,
    },
}
