//! The queue of jobs for another thread. It is needed because analysing a million spans takes longer than a frame.

use super::lane::{LaneFacts, LaneJob};
use super::names::NameIndex;
use super::tensor_rows::TensorRows;
use crate::core::{LaneId, ModelInfo};
use crate::present::lesson::{Lesson, ModelLoads, ModelLoadsJob};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of spans and tensors that a frame analyses itself. This takes about two milliseconds, which users
/// do not notice.
pub(crate) const AT_ONCE: usize = 8192;

/// A computation.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// Analyse the spans of a run.
    Lane(Box<LaneJob>),
    /// Prepare the names of a model for searching and sorting.
    Names(Arc<ModelInfo>),
    /// Analyse the loads of this session for the lesson.
    Measured(ModelLoadsJob),
    /// Read the recordings of the lesson, which takes a large part of a second.
    Lesson,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum JobResult {
    Lane(Box<LaneFacts>),
    /// The tensors of a run. A job for the run returns them on request.
    Tensors(LaneId, Box<TensorRows>),
    Names(Box<NameIndex>),
    Measured(Option<ModelLoads>),
    Lesson(Result<Arc<Lesson>, String>),
}

/// The result of a job, with the identity of the job.
#[derive(Debug)]
pub(crate) struct JobDone {
    key: JobKey,
    pub(crate) result: JobResult,
}

/// The identity of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum JobKey {
    Lane(LaneId, usize, bool),
    Names(PathBuf, usize),
    Measured,
    Lesson,
}

impl Job {
    /// Amount of work, as the number of spans and tensors. `None` is always too much for a frame.
    fn weight(&self) -> Option<usize> {
        Some(match self {
            Self::Lane(job) => job.weight(),
            Self::Names(model) => model.tensors.len(),
            Self::Measured(job) => job.weight(),
            Self::Lesson => return None,
        })
    }

    fn key(&self) -> JobKey {
        match self {
            Self::Lane(job) => JobKey::Lane(job.lane, job.span_count(), job.rows),
            Self::Names(model) => JobKey::Names(model.path.clone(), model.tensors.len()),
            Self::Measured(_) => JobKey::Measured,
            Self::Lesson => JobKey::Lesson,
        }
    }

    pub(crate) fn run(self) -> JobDone {
        let key = self.key();
        let result = match self {
            Self::Lane(job) => JobResult::Lane(Box::new(job.run())),
            Self::Names(model) => JobResult::Names(Box::new(NameIndex::of(&model))),
            Self::Measured(job) => JobResult::Measured(job.run()),
            Self::Lesson => JobResult::Lesson(Lesson::load().map(Arc::new)),
        };
        JobDone { key, result }
    }
}

/// Divides jobs into those that a frame does itself and those for another thread.
#[derive(Clone, Debug)]
pub(crate) struct JobQueue {
    /// Maximum amount of work that a frame does itself.
    pub(crate) at_once: usize,
    /// Jobs for the other thread. The event loop passes them on.
    pub(crate) out: Vec<Job>,
    away: BTreeSet<JobKey>,
}

impl Default for JobQueue {
    /// All jobs run immediately. This is for pictures, which cannot wait.
    fn default() -> Self {
        Self { at_once: usize::MAX, out: Vec::new(), away: BTreeSet::new() }
    }
}

impl JobQueue {
    /// Returns the jobs that the frame does itself, and queues the others for the other thread. A queued job is not
    /// queued again.
    pub(crate) fn sort(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let mut room = self.at_once;
        let mut now = Vec::new();
        for job in jobs {
            if self.away.contains(&job.key()) {
                continue;
            }
            match job.weight().and_then(|weight| room.checked_sub(weight)) {
                Some(left) => {
                    room = left;
                    now.push(job);
                }
                None => {
                    self.away.insert(job.key());
                    self.out.push(job);
                }
            }
        }
        now
    }

    /// Whether any result is still pending.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.away.is_empty()
    }

    /// Removes a completed job from the list of pending jobs.
    pub(crate) fn back(&mut self, done: &JobDone) {
        self.away.remove(&done.key);
    }
}
