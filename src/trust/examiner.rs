//! Examines processes that another user can have made. A process can hold the lock of its memory for ever: then procfs
//! answers no reader of its command line, environment, counters and mappings. So a separate thread reads, and the caller
//! waits for it only for a limited time. The kernel ends a thread that waits in procfs at the end of this program.

use super::allowance::Allowance;
use super::process::Identity;
use crossbeam_channel::{Sender, bounded, unbounded};
use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time for an answer after the time in which the examination must end by itself.
const GRACE: Duration = Duration::from_millis(200);
/// Maximum number of threads that wait for a process. With as many, no process is examined.
const MOST_ABANDONED: usize = 8;

/// The limits of the examinations of a round.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The time for each question about a process.
    pub process: Duration,
    /// The time of a round.
    pub round: Duration,
    /// The bytes that are read from procfs.
    pub bytes: u64,
    /// The bytes of the paths that are kept.
    pub path_bytes: usize,
    /// The descriptors that are examined.
    pub descriptors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            process: Duration::from_millis(400),
            round: Duration::from_secs(2),
            bytes: 512 << 20,
            path_bytes: 8 << 20,
            descriptors: 200_000,
        }
    }
}

impl Limits {
    /// Limits for a program that the user started: examining the pages of a large mapping takes long.
    #[must_use]
    pub fn of_own_program() -> Self {
        Self { process: Duration::from_secs(2), round: Duration::from_secs(4), ..Self::default() }
    }

    fn begin(&self) -> Allowance {
        let Self { bytes, path_bytes, descriptors, .. } = *self;
        Allowance { until: Some(Instant::now() + self.round), bytes, path_bytes, descriptors, is_exceeded: false }
    }
}

/// The reason why a process was not examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexamined {
    /// It did not answer in time, now or earlier.
    NoAnswer,
    /// A limit was reached.
    Limit,
}

impl Unexamined {
    /// The reason in words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoAnswer => "no answer in time",
            Self::Limit => "limit of an examination reached",
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that examines one process after another.
#[derive(Debug)]
struct Worker {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start() -> std::io::Result<Self> {
        let (jobs, received) = unbounded::<Job>();
        let thread = std::thread::Builder::new().name("examiner".to_owned());
        let thread = thread.spawn(move || received.into_iter().for_each(|job| job()))?;
        Ok(Self { jobs, thread })
    }
}

/// Examines processes in rounds.
#[derive(Debug)]
pub struct Examiner {
    limits: Limits,
    worker: Option<Worker>,
    /// The processes that did not answer, with the threads that still wait for them.
    abandoned: Vec<(Identity, JoinHandle<()>)>,
    /// The limits that are left in this round.
    left: Allowance,
    /// The processes that were not examined in this round.
    unexamined: BTreeSet<Identity>,
}

impl Default for Examiner {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Examiner {
    /// Its thread is started with the first question.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let left = limits.begin();
        Self { limits, worker: None, abandoned: Vec::new(), left, unexamined: BTreeSet::new() }
    }

    /// Begins a round with new limits.
    pub fn begin_round(&mut self) {
        self.left = self.limits.begin();
        self.unexamined.clear();
    }

    /// The number of processes that were not examined in this round.
    #[must_use]
    pub fn unexamined(&self) -> u64 {
        self.unexamined.len() as u64
    }

    /// The result of an examination of a process.
    ///
    /// # Errors
    /// Returns the reason if the process was not examined.
    pub fn ask<T: Send + 'static>(
        &mut self,
        process: Identity,
        examine: impl FnOnce(&mut Allowance) -> T + Send + 'static,
    ) -> Result<T, Unexamined> {
        let answer = self.answer(process, examine);
        if answer.is_err() {
            self.unexamined.insert(process);
        }
        answer
    }

    fn answer<T: Send + 'static>(
        &mut self,
        process: Identity,
        examine: impl FnOnce(&mut Allowance) -> T + Send + 'static,
    ) -> Result<T, Unexamined> {
        // A thread that ended after all is not counted, and its process is asked again.
        self.abandoned.retain(|(_, thread)| !thread.is_finished());
        if self.abandoned.iter().any(|(silent, _)| *silent == process) {
            return Err(Unexamined::NoAnswer);
        }
        if self.abandoned.len() >= MOST_ABANDONED || !self.left.clone().may_go_on() {
            return Err(Unexamined::Limit);
        }
        let until = Instant::now() + self.limits.process;
        let until = self.left.until.map_or(until, |round| round.min(until));
        let mut allowance = Allowance { until: Some(until), ..self.left.clone() };
        let (answer, answered) = bounded(1);
        let job: Job = Box::new(move || {
            let seen = examine(&mut allowance);
            let _ = answer.send((seen, allowance));
        });
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start().map_err(|_| Unexamined::Limit)?,
        };
        // If the thread has ended, the answer is missing too.
        let _ = worker.jobs.send(job);
        let Ok((seen, left)) = answered.recv_deadline(until + GRACE) else {
            self.abandoned.push((process, worker.thread));
            return Err(Unexamined::NoAnswer);
        };
        self.worker = Some(worker);
        let is_exceeded = left.is_exceeded;
        self.left = Allowance { until: self.left.until, is_exceeded: false, ..left };
        if is_exceeded { Err(Unexamined::Limit) } else { Ok(seen) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::Path;

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn a_process_that_does_not_answer_is_counted_and_not_asked_again_until_it_answers() {
        let dir = tempfile::tempdir().unwrap();
        // Opening it waits for a writer.
        let silent = dir.path().join("environ");
        fifo(&silent);
        let mut examiner = Examiner::new(Limits {
            process: Duration::from_millis(20),
            round: Duration::from_secs(60),
            ..Limits::default()
        });
        let read = |path: &Path| {
            let path = path.to_owned();
            move |allowance: &mut Allowance| allowance.beginning(&path, 10).map(|seen| seen.bytes)
        };
        let began = Instant::now();
        assert_eq!(examiner.ask((1, 1), read(&silent)).unwrap_err(), Unexamined::NoAnswer);
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(examiner.ask((1, 1), |_| ()), Err(Unexamined::NoAnswer));
        assert_eq!(examiner.unexamined(), 1);
        // Another process can have the number later.
        let until = Instant::now() + Duration::from_secs(60);
        while examiner.ask((1, 2), |_| 7) != Ok(7) {
            assert!(Instant::now() < until);
        }
        let writer = std::fs::OpenOptions::new().write(true).open(&silent).unwrap();
        drop(writer);
        examiner.begin_round();
        while examiner.ask((1, 1), |_| 7) != Ok(7) {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_limited_number_of_threads_waits_and_then_no_process_is_examined() {
        let (end, ended) = bounded::<()>(0);
        let mut examiner =
            Examiner::new(Limits { process: Duration::ZERO, round: Duration::from_secs(60), ..Limits::default() });
        let waits = |process: u32, examiner: &mut Examiner| {
            let ended = ended.clone();
            examiner.ask((process, 1), move |_| _ = ended.recv())
        };
        for process in 0..MOST_ABANDONED as u32 {
            assert_eq!(waits(process, &mut examiner), Err(Unexamined::NoAnswer));
        }
        assert_eq!(waits(100, &mut examiner), Err(Unexamined::Limit));
        assert_eq!(examiner.unexamined(), MOST_ABANDONED as u64 + 1);
        drop(end);
    }

    #[test]
    fn the_limits_of_a_round_are_those_of_all_its_processes() {
        let limits = Limits {
            descriptors: 10,
            process: Duration::from_secs(60),
            round: Duration::from_secs(60),
            ..Limits::default()
        };
        let mut examiner = Examiner::new(limits);
        let four = |allowance: &mut Allowance| (0..4).filter(|_| allowance.descriptor()).count();
        let seen: Vec<_> = (0..4).map(|process| examiner.ask((process, 1), four)).collect();
        assert_eq!(seen, [Ok(4), Ok(4), Err(Unexamined::Limit), Err(Unexamined::Limit)]);
        assert_eq!(examiner.unexamined(), 2);
        examiner.begin_round();
        assert_eq!((examiner.ask((3, 1), four), examiner.unexamined()), (Ok(4), 0));
        let mut examiner = Examiner::new(Limits { round: Duration::ZERO, ..Limits::default() });
        assert_eq!(examiner.ask((1, 1), |_| ()), Err(Unexamined::Limit));
    }
}
