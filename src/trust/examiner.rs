//! Examines processes that another user can have made. A process can hold the lock of its memory for ever: then procfs
//! answers no reader of its command line, environment, counters and mappings. So a separate thread reads, and the caller
//! waits for it only for a limited time. The kernel ends a thread that waits in procfs at the end of this program.

use super::allowance::Allowance;
use super::process::{self, Identity};
use crossbeam_channel::{Sender, bounded, unbounded};
use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time for an answer after the time in which the examination must end by itself.
const GRACE: Duration = Duration::from_millis(200);
/// Maximum number of threads that wait for processes of one user, so that no user can hide the processes of others.
const MOST_OF_A_USER: usize = 4;
/// Maximum number of threads that wait for a process. With as many, no process is examined.
const MOST_ABANDONED: usize = 16;
/// A question gets this part of the bytes and descriptors of a round at most, so that no process takes those of all.
const PARTS: usize = 4;

/// The limits of the examinations of a round.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The time for each question about a process.
    pub process: Duration,
    /// The time of a round.
    pub round: Duration,
    /// The bytes that are read from procfs. A quarter of them for each question.
    pub bytes: u64,
    /// The bytes of the paths that are kept.
    pub path_bytes: usize,
    /// The bytes of the paths that are kept for each question.
    pub question_path_bytes: usize,
    /// The descriptors that are examined. A quarter of them for each question.
    pub descriptors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            process: Duration::from_millis(400),
            round: Duration::from_secs(2),
            bytes: 512 << 20,
            path_bytes: 8 << 20,
            question_path_bytes: 8 << 20,
            descriptors: 800_000,
        }
    }
}

impl Limits {
    /// Limits for a program that the user started: examining the pages of a large mapping takes long.
    #[must_use]
    pub fn of_own_program() -> Self {
        Self { process: Duration::from_secs(2), round: Duration::from_secs(4), ..Self::default() }
    }

    /// Limits for samples of all processes of the machine, which list the paths of each. A path can have 4096 bytes.
    #[must_use]
    pub fn of_all_processes() -> Self {
        Self { question_path_bytes: 512 << 10, ..Self::default() }
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
    /// As many other processes of its user did not answer as threads may wait for.
    User,
    /// A limit was reached.
    Limit,
}

impl Unexamined {
    /// The reason in words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoAnswer => "no answer in time",
            Self::User => "other processes of its user do not answer",
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

/// A process that did not answer.
#[derive(Debug)]
struct Silent {
    process: Identity,
    /// `None` if it has ended.
    user: Option<u32>,
    /// The thread that waits for it.
    thread: JoinHandle<()>,
}

/// Examines processes in rounds.
#[derive(Debug)]
pub struct Examiner {
    limits: Limits,
    worker: Option<Worker>,
    /// The processes that did not answer and for which a thread still waits.
    silent: Vec<Silent>,
    /// The user of the process with an id.
    user_of: fn(u32) -> Option<u32>,
    /// The limits that are left in this round.
    left: Allowance,
    /// The processes that were not examined in this round.
    unexamined: BTreeSet<Identity>,
    most_unexamined: u64,
    /// The first process of this round for which the others left too little.
    left_out: Option<Identity>,
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
        let user_of = |pid: u32| process::user(&process::folder(pid.cast_signed()));
        Self {
            limits,
            worker: None,
            silent: Vec::new(),
            user_of,
            left,
            unexamined: BTreeSet::new(),
            most_unexamined: 0,
            left_out: None,
        }
    }

    /// Begins a round with new limits.
    pub fn begin_round(&mut self) {
        self.left = self.limits.begin();
        self.unexamined.clear();
        self.left_out = None;
    }

    /// The first process of this round that was not examined because the others left too little. If the next round begins
    /// with it, it gets all that a process can get. A process that needs more is never this one.
    #[must_use]
    pub const fn left_out(&self) -> Option<Identity> {
        self.left_out
    }

    /// The largest number of processes that were not examined in one round.
    #[must_use]
    pub const fn unexamined(&self) -> u64 {
        self.most_unexamined
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
            self.most_unexamined = self.most_unexamined.max(self.unexamined.len() as u64);
        }
        answer
    }

    fn answer<T: Send + 'static>(
        &mut self,
        process: Identity,
        examine: impl FnOnce(&mut Allowance) -> T + Send + 'static,
    ) -> Result<T, Unexamined> {
        // A thread that ended after all is not counted, and its process is asked again.
        self.silent.retain(|silent| !silent.thread.is_finished());
        if self.silent.iter().any(|silent| silent.process == process) {
            return Err(Unexamined::NoAnswer);
        }
        if self.silent.len() >= MOST_ABANDONED || !self.left.clone().may_go_on() {
            self.left_out.get_or_insert(process);
            return Err(Unexamined::Limit);
        }
        if self.silent.len() >= MOST_OF_A_USER {
            let user = (self.user_of)(process.0);
            if self.silent.iter().filter(|silent| silent.user == user).count() >= MOST_OF_A_USER {
                return Err(Unexamined::User);
            }
        }
        let most = Instant::now() + self.limits.process;
        let until = self.left.until.map_or(most, |round| round.min(most));
        let (most_bytes, most_descriptors) = (self.limits.bytes / PARTS as u64, self.limits.descriptors / PARTS);
        let (bytes, descriptors) = (self.left.bytes.min(most_bytes), self.left.descriptors.min(most_descriptors));
        let has_less = until < most || bytes < most_bytes || descriptors < most_descriptors;
        let path_bytes = self.left.path_bytes.min(self.limits.question_path_bytes);
        let mut allowance = Allowance { until: Some(until), bytes, descriptors, path_bytes, ..self.left };
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
            self.silent.push(Silent { process, user: (self.user_of)(process.0), thread: worker.thread });
            return Err(Unexamined::NoAnswer);
        };
        self.worker = Some(worker);
        self.left.bytes -= bytes.saturating_sub(left.bytes);
        self.left.descriptors -= descriptors.saturating_sub(left.descriptors);
        self.left.path_bytes -= path_bytes.saturating_sub(left.path_bytes);
        if !left.is_exceeded {
            return Ok(seen);
        }
        if has_less {
            self.left_out.get_or_insert(process);
        }
        Err(Unexamined::Limit)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::waiting_tests::patient;
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
    fn silent_processes_of_one_user_leave_those_of_others_examined() {
        let (end, ended) = bounded::<()>(0);
        let mut examiner =
            Examiner::new(Limits { process: Duration::ZERO, round: Duration::from_secs(60), ..Limits::default() });
        let waits = |process: u32, examiner: &mut Examiner| {
            let ended = ended.clone();
            examiner.ask((process, 1), move |_| _ = ended.recv())
        };
        // Each hundred of ids belongs to another user.
        examiner.user_of = |process| Some(process / 100);
        let users = (MOST_ABANDONED / MOST_OF_A_USER) as u32;
        let until = Instant::now() + Duration::from_secs(60);
        for user in 0..users {
            while examiner.ask((user * 100 + 99, 1), |_| 7) != Ok(7) {
                assert!(Instant::now() < until);
            }
            for process in 0..MOST_OF_A_USER as u32 {
                assert_eq!(waits(user * 100 + process, &mut examiner), Err(Unexamined::NoAnswer));
            }
            let of_user = examiner.ask((user * 100 + 98, 1), |_| ());
            assert_eq!(of_user, Err(if user + 1 < users { Unexamined::User } else { Unexamined::Limit }));
        }
        assert_eq!(examiner.ask((users * 100, 1), |_| ()), Err(Unexamined::Limit));
        assert!(examiner.unexamined() > MOST_ABANDONED as u64);
        drop(end);
    }

    #[test]
    fn the_limits_of_a_round_are_those_of_all_its_processes() {
        let mut examiner = Examiner::new(Limits { descriptors: 16, ..patient() });
        let three = |allowance: &mut Allowance| (0..3).filter(|_| allowance.descriptor()).count();
        let seen: Vec<_> = (0..7).map(|process| examiner.ask((process, 1), three)).collect();
        assert_eq!(seen[..5], [Ok(3); 5]);
        assert_eq!(seen[5..], [Err(Unexamined::Limit); 2]);
        assert_eq!((examiner.unexamined(), examiner.left_out()), (2, Some((5, 1))));
        examiner.begin_round();
        assert_eq!((examiner.ask((5, 1), three), examiner.left_out()), (Ok(3), None));
        assert_eq!(examiner.ask((6, 1), |allowance| while allowance.descriptor() {}), Err(Unexamined::Limit));
        assert_eq!(examiner.unexamined(), 2, "the largest number of a round");
        let mut examiner = Examiner::new(Limits { round: Duration::ZERO, ..Limits::default() });
        assert_eq!((examiner.ask((1, 1), |_| ()), examiner.left_out()), (Err(Unexamined::Limit), Some((1, 1))));
    }

    #[test]
    fn the_paths_of_a_process_in_a_sample_of_all_are_limited() {
        let (process, round) = (Duration::from_secs(60), Duration::from_secs(600));
        let mut examiner = Examiner::new(Limits { process, round, path_bytes: 1 << 20, ..Limits::of_all_processes() });
        let path = "x".repeat(4096);
        let kept: Vec<_> = (0..3)
            .map(|process| {
                let path = path.clone();
                examiner.ask((process, 1), move |allowance| (0..1_000).filter(|_| allowance.path(&path)).count())
            })
            .collect();
        // The third process gets what the others left of the round.
        assert_eq!(kept, [Ok(128), Ok(128), Ok(0)]);
        assert_eq!(examiner.unexamined(), 0);
    }

    #[test]
    fn a_process_above_the_limits_leaves_the_others_examined_and_begins_no_round() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("maps");
        std::fs::File::create(&file).unwrap().set_len(4 << 20).unwrap();
        let mut examiner = Examiner::new(Limits { descriptors: 16, bytes: 8 << 20, ..patient() });
        for _ in 0..2 {
            examiner.begin_round();
            let all = |allowance: &mut Allowance| while allowance.descriptor() {};
            assert_eq!(examiner.ask((1, 1), all), Err(Unexamined::Limit));
            let path = file.clone();
            let read = move |allowance: &mut Allowance| allowance.beginning(&path, 4 << 20).is_ok();
            assert_eq!(examiner.ask((2, 1), read), Err(Unexamined::Limit));
            assert_eq!(
                (examiner.ask((3, 1), |allowance| allowance.descriptor()), examiner.unexamined()),
                (Ok(true), 2)
            );
            assert_eq!(examiner.left_out(), None);
        }
    }
}
