//! One lane of the state: its progress and its measurements.

use crate::core::{
    CacheState, Engine, EventBody, Failure, LaneId, LaneShare, LaneStage, PackedSpans, RunResult, Target,
};

/// The name of a lane in reports that the user stopped.
const CANCELLED: &str = "cancelled";

/// The state of a lane.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneStatus {
    /// Planned, not started.
    Waiting,
    /// Running.
    Running(LaneStage),
    /// Finished and, if requested, verified.
    Done,
    /// Finished with an error, failed verification, or died.
    Failed(Failure),
    /// Stopped by the user.
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
    /// Where to.
    pub target: Target,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Its state.
    pub status: LaneStatus,
    /// Its process, once started.
    pub pid: Option<u32>,
    /// When its process started (session time).
    pub started_ns: Option<u64>,
    /// When its clock started (session time): the zero of its spans.
    pub clock_ns: Option<u64>,
    /// When it left the loading stage (session time).
    pub loaded_ns: Option<u64>,
    /// When it ended (session time).
    pub ended_ns: Option<u64>,
    /// (session time, tensor bytes landed), as sampled while it ran.
    pub progress: Vec<(u64, u64)>,
    /// Pinned memory in the last message.
    pub pinned_bytes: u64,
    /// Bytes compared so far.
    pub verified_bytes: u64,
    /// Its spans, relative to `clock_ns`.
    pub spans: PackedSpans,
    /// The measurements.
    pub result: Option<Box<RunResult>>,
    /// The end of its standard error, if it died.
    pub stderr_tail: Option<String>,
    /// The part that it loads, and its group, if the session has several models or targets.
    pub share: Option<LaneShare>,
}

impl Lane {
    /// Tensor bytes landed so far.
    #[must_use]
    pub fn landed_bytes(&self) -> u64 {
        self.progress.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// The group of lanes that it runs together with.
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

    /// Takes in an event of this lane.
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
