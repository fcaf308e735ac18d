//! The event stream: everything that happens in a session is an event with a time.

use super::ceiling::Ceiling;
use super::engine::{CacheState, Engine, Target};
use super::finding::{Finding, Verdict};
use super::fix::{AppliedFix, FixPlan, FixProgress};
use super::grid::{CellResult, GridPlan};
use super::guide::Guide;
use super::left_out::LeftOutVariable;
use super::machine::Machine;
use super::model::ModelInfo;
use super::packed::PackedSpans;
use super::race_plan::RacePlan;
use super::run::{LaneId, RunResult};
use super::sample::Sample;
use super::share::LaneShare;
use super::system::SystemSample;
use super::watch::WatchReport;
use super::watched_call::WatchedCall;
use serde::{Deserialize, Serialize};

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds since the session started.
    pub at_ns: u64,
    /// The kind of event and its data.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneStage {
    /// The process starts and opens CUDA and its libraries.
    Setup,
    /// The page cache is dropped or filled.
    PreparingCache,
    /// The clock is running.
    Loading,
    /// The bytes on the target are compared with the file.
    Verifying,
}

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Information that needs no action.
    Info,
    /// A problem that the user should know about.
    Warn,
    /// An operation failed.
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
    /// The session started.
    SessionStarted {
        /// The program and its version, `gds-top 0.1.0`.
        tool: String,
        /// Milliseconds since the Unix epoch.
        unix_ms: u64,
        /// The command line that started the session, without secrets. It is empty in recordings of earlier versions.
        #[serde(default)]
        command: String,
        /// The working directory. It is empty in recordings of earlier versions.
        #[serde(default)]
        directory: String,
        /// The variables of the caller that the session does not use.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out_variables: Vec<LeftOutVariable>,
    },
    /// The machine was examined. This event can occur several times.
    MachineSeen {
        /// The description.
        machine: Machine,
    },
    /// A check has a result. It replaces an earlier result of the same check.
    CheckDone {
        /// The result.
        finding: Finding,
    },
    /// There is a verdict for one (path, GPU) pair. It replaces an earlier verdict for the same pair.
    VerdictReached {
        /// The verdict.
        verdict: Verdict,
    },
    /// All checks of a round are done.
    ChecksDone {
        /// Their duration in nanoseconds.
        took_ns: u64,
    },
    /// A fix is available.
    FixPlanned {
        /// Its preview.
        plan: FixPlan,
    },
    /// The checklist to a direct route is available. It replaces an earlier one.
    GuideMade {
        /// The checklist.
        guide: Guide,
    },
    /// A fix entered a stage or printed output.
    FixProgress {
        /// Its stage and text.
        progress: FixProgress,
    },
    /// The applied fixes in the journal that can be undone. It replaces the earlier list.
    FixesApplied {
        /// The fixes, the newest last.
        applied: Vec<AppliedFix>,
    },
    /// The headers of the model's files were read.
    ModelOpened {
        /// The tensors and files of the model.
        model: ModelInfo,
    },
    /// A synthetic model is being written.
    ModelFilesWritten {
        /// Bytes written so far.
        bytes: u64,
        /// Bytes of all files.
        of_bytes: u64,
    },
    /// A run was planned.
    LanePlanned {
        /// The number of the run.
        lane: LaneId,
        /// Its engine.
        engine: Engine,
        /// Cache state.
        cache: CacheState,
        /// The target.
        target: Target,
        /// The number of the repeat, from 0.
        repeat: u32,
    },
    /// The race was stopped. Runs that have not started are skipped.
    RaceStopped,
    /// The share of a planned run, if the session has several models or targets.
    LaneShared {
        /// The number of the run.
        lane: LaneId,
        /// Its model or part, and its group.
        share: LaneShare,
    },
    /// A ceiling was measured. It replaces an earlier one of the same kind, GPU and model.
    CeilingMeasured {
        /// The ceiling.
        ceiling: Ceiling,
    },
    /// An engine cannot run on this machine.
    EngineUnavailable {
        /// The engine.
        engine: Engine,
        /// The reason, in a sentence.
        why: String,
    },
    /// The process of a run was started.
    LaneStarted {
        /// The number of the run.
        lane: LaneId,
        /// The id of its process.
        pid: u32,
    },
    /// A run entered a stage. `Loading` marks the start of its clock.
    LaneStage {
        /// The number of the run.
        lane: LaneId,
        /// The stage.
        stage: LaneStage,
    },
    /// Bytes reached the target. This is sampled about twenty times per second.
    LaneProgress {
        /// The number of the run.
        lane: LaneId,
        /// Tensor bytes on the target so far.
        landed_bytes: u64,
        /// The pinned memory at this moment, in bytes.
        pinned_bytes: u64,
        /// The bytes that were verified so far.
        verified_bytes: u64,
    },
    /// Spans of a run. All of its spans have arrived when the run ends.
    LaneSpans {
        /// The number of the run.
        lane: LaneId,
        /// The spans, with times relative to the clock of the run.
        spans: PackedSpans,
    },
    /// A run ended. If it failed, the error is in the result.
    LaneFinished {
        /// The number of the run.
        lane: LaneId,
        /// The result.
        result: Box<RunResult>,
    },
    /// The process of a run died without a result.
    LaneDied {
        /// The number of the run.
        lane: LaneId,
        /// The exit status or signal, in a sentence.
        how: String,
        /// The last lines of its standard error.
        #[serde(alias = "last_words")]
        stderr_tail: String,
    },
    /// The user stopped a run, so it has no result.
    LaneCancelled {
        /// The number of the run.
        lane: LaneId,
    },
    /// A grid of storage measurements was planned.
    GridPlanned {
        /// The cells of the grid.
        plan: GridPlan,
    },
    /// The grid's test files are being written.
    GridFilesWritten {
        /// Bytes written so far.
        bytes: u64,
        /// Bytes of all files.
        of_bytes: u64,
    },
    /// A cell of the grid was started.
    GridCellStarted {
        /// Its number in the plan.
        cell: u32,
    },
    /// A cell of the grid ended. If it failed, the error is in the result.
    GridCellDone {
        /// The result.
        result: CellResult,
    },
    /// The grid ended: either all cells ended, or it was stopped.
    GridEnded,
    /// The plans that the user can choose to run in this session.
    RacePlansOffered {
        /// The plans in the order of the list.
        plans: Vec<RacePlan>,
    },
    /// Another plan was started. All measurements before this event belong to the previous plan.
    RacePlanStarted {
        /// Its name.
        name: String,
        /// The title of the plan.
        title: String,
    },
    /// The report of a watched program so far. It replaces an earlier report.
    ProgramSeen {
        /// The report.
        report: Box<WatchReport>,
    },
    /// Calls of a watched program, for timelines.
    CallsSeen {
        /// The calls and submitted transfers, in the order in which they became known.
        calls: Vec<WatchedCall>,
        /// The number of calls since the last such event that are not in `calls`.
        left_out: u64,
    },
    /// Meters were read.
    Sampled {
        /// The readings.
        sample: Sample,
    },
    /// The processes that use GPUs and storage at this moment. This event is sent only while the screens show it. It
    /// is never recorded, because it names processes of other users.
    SystemSeen {
        /// The processes, GPUs and disks.
        system: SystemSample,
    },
    /// A message for the user.
    Said {
        /// Its severity.
        level: LogLevel,
        /// The text, in a sentence.
        text: String,
    },
    /// The session ended.
    SessionEnded {
        /// Whether the user interrupted it.
        interrupted: bool,
    },
}
