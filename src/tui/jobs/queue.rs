//! Jobs that may run on another thread, because a million spans take longer than a frame has, and the queue of those that run there.

use super::lane::{LaneFacts, LaneJob};
use super::lesson::{Lesson, ModelLoads, ModelLoadsJob};
use super::names::NameIndex;
use super::tensor_rows::TensorRows;
use crate::core::{LaneId, ModelInfo};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Spans and tensors that a frame looks through itself: about two milliseconds, which cannot be noticed between two
/// keys.
pub(crate) const AT_ONCE: usize = 8192;

/// Something to compute.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// Values derived from the spans of a lane.
    Lane(Box<LaneJob>),
    /// The names of a model, prepared for searching and sorting.
    Names(Arc<ModelInfo>),
    /// The loads of this session, for the lesson.
    Measured(ModelLoadsJob),
    /// The recordings of the lesson: they take a good part of a second.
    Lesson,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum JobResult {
    Lane(Box<LaneFacts>),
    /// The tensors of a lane, which a job of the lane also returns on request.
    Tensors(LaneId, Box<TensorRows>),
    Names(Box<NameIndex>),
    Measured(Option<ModelLoads>),
    Lesson(Result<Arc<Lesson>, String>),
}

/// A job's result, and the job that it is of.
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
    /// Spans and tensors to look through; `None` is always too much for a frame.
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

/// The jobs of a frame: those that it does itself, and those for another thread.
#[derive(Clone, Debug)]
pub(crate) struct JobQueue {
    /// The amount of work in a frame.
    pub(crate) at_once: usize,
    /// Jobs for the other thread, which the event loop hands on.
    pub(crate) out: Vec<Job>,
    away: BTreeSet<JobKey>,
}

impl Default for JobQueue {
    /// Everything at once: for pictures, which cannot wait.
    fn default() -> Self {
        Self { at_once: usize::MAX, out: Vec::new(), away: BTreeSet::new() }
    }
}

impl JobQueue {
    /// Splits jobs into those for now, which are returned, and those for the other thread, once each.
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

    /// Whether a result is pending.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.away.is_empty()
    }

    /// Takes a job that is done off the list.
    pub(crate) fn back(&mut self, done: &JobDone) {
        self.away.remove(&done.key);
    }
}
