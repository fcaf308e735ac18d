//! A thread for jobs that would delay a frame.

use super::queue::{Job, JobDone};
use crossbeam_channel::{Receiver, Sender, never, unbounded};

/// The job thread. It is started for the first job, because most sessions have none.
#[derive(Debug)]
pub(crate) struct JobThread {
    jobs: Option<Sender<Job>>,
    pub(crate) done: Receiver<JobDone>,
}

impl JobThread {
    pub(crate) fn new() -> Self {
        Self { jobs: None, done: never() }
    }

    /// Passes a job to the thread. If no thread can be started, the job is done immediately and its result is
    /// returned.
    pub(crate) fn run(&mut self, job: Job) -> Option<JobDone> {
        if self.jobs.is_none() {
            let (jobs, received): (Sender<Job>, Receiver<Job>) = unbounded();
            let (sender, done) = unbounded();
            let started = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
                for job in received {
                    if sender.send(job.run()).is_err() {
                        break;
                    }
                }
            });
            if started.is_ok() {
                self.jobs = Some(jobs);
                self.done = done;
            }
        }
        match &self.jobs {
            Some(jobs) => jobs.send(job).err().map(|unsent| unsent.0.run()),
            None => Some(job.run()),
        }
    }
}
