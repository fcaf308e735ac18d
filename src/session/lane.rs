//! The progress and the measurements of one run.

use crate::core::{
    CacheState, Engine, EventBody, Failure, LaneId, LaneShare, LaneStage, PackedSpans, RunResult, Target,
};

/// The text in reports for a run that the user stopped.
const CANCELLED: &str = "cancelled";

/// The status of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneStatus {
    /// The run is planned but not started.
    Waiting,
    /// The run is in this stage.
    Running(LaneStage),
    /// The run finished and was verified, if that was requested.
    Done,
    /// The run failed, its verification failed, or its process died.
    Failed(Failure),
    /// The user stopped the run.
    Cancelled,
}

/// One run of one engine.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// Its engine.
    pub engine: Engine,
    /// Cache state.
    pub cache: CacheState,
    /// Target of the bytes.
    pub target: Target,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Its status.
    pub status: LaneStatus,
    /// Its process id, after the process started.
    pub pid: Option<u32>,
    /// Session time in nanoseconds at which its process started.
    pub started_ns: Option<u64>,
    /// Session time in nanoseconds at which its clock started. The times of its spans are relative to it.
    pub clock_ns: Option<u64>,
    /// Session time in nanoseconds at which all bytes had landed.
    pub loaded_ns: Option<u64>,
    /// Session time in nanoseconds at which it ended.
    pub ended_ns: Option<u64>,
    /// Pairs of session time in nanoseconds and landed tensor bytes, sampled while it ran.
    pub progress: Vec<(u64, u64)>,
    /// Pinned memory in bytes, from the last message.
    pub pinned_bytes: u64,
    /// Number of bytes that were compared so far.
    pub verified_bytes: u64,
    /// Its spans. Times are relative to `clock_ns`.
    pub spans: PackedSpans,
    /// The measurements.
    pub result: Option<Box<RunResult>>,
    /// The end of its standard error, if its process died.
    pub stderr_tail: Option<String>,
    /// The part that it loads and its group, if the session has several models or targets.
    pub share: Option<LaneShare>,
}

impl Lane {
    /// Number of tensor bytes that have landed.
    #[must_use]
    pub fn landed_bytes(&self) -> u64 {
        self.progress.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// The number of the group with which it loads together.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        self.share.as_ref()?.group
    }

    /// The reason why it failed or was stopped; `None` otherwise.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match &self.status {
            LaneStatus::Failed(failure) => Some(failure.to_string()),
            LaneStatus::Cancelled => Some(CANCELLED.to_owned()),
            _ => None,
        }
    }

    /// Whether it is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.status, LaneStatus::Running(_))
    }

    /// Applies an event of this run.
    pub(super) fn reduce(&mut self, at_ns: u64, body: &EventBody) {
        match body {
            EventBody::LaneStarted { pid, .. } => {
                self.pid = Some(*pid);
                self.started_ns = Some(at_ns);
                self.status = LaneStatus::Running(LaneStage::Setup);
            }
            EventBody::LaneStage { stage, .. } => {
                if *stage == LaneStage::Loading {
                    self.clock_ns = Some(at_ns);
                    self.progress.push((at_ns, 0));
                } else if matches!(self.status, LaneStatus::Running(LaneStage::Loading)) {
                    self.loaded_ns = Some(at_ns);
                }
                self.status = LaneStatus::Running(*stage);
            }
            EventBody::LaneProgress { landed_bytes, pinned_bytes, verified_bytes, .. } => {
                if self.progress.last().is_none_or(|(_, bytes)| bytes != landed_bytes) {
                    self.progress.push((at_ns, *landed_bytes));
                }
                self.pinned_bytes = *pinned_bytes;
                self.verified_bytes = *verified_bytes;
            }
            EventBody::LaneSpans { spans, .. } => self.spans.append(spans),
            EventBody::LaneShared { share, .. } => self.share = Some(share.clone()),
            EventBody::LaneFinished { result, .. } => {
                self.ended_ns = Some(at_ns);
                self.status = result.failure().map_or(LaneStatus::Done, LaneStatus::Failed);
                self.result = Some(result.clone());
            }
            EventBody::LaneDied { how, stderr_tail, .. } => {
                self.ended_ns = Some(at_ns);
                self.status = LaneStatus::Failed(Failure::Died(how.clone()));
                self.stderr_tail = Some(stderr_tail.clone());
            }
            EventBody::LaneCancelled { .. } => {
                self.ended_ns = Some(at_ns);
                self.status = LaneStatus::Cancelled;
            }
            _ => {}
        }
    }
}
