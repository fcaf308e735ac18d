//! The thread that reads calls from kernel probes. It reads memory to which their arguments point, so it must not wait
//! until procfs has been read.

use super::group::Group;
use super::losses::Lost;
use super::probes::Recorder;
use super::rings::{Totals, now_ns};
use super::tally::Tally;
use crate::core::{OpenCall, units};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, unbounded};
use rustix::process::setpriority_process;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time between two readings.
const DRAIN_EVERY: Duration = Duration::from_millis(5);

/// Maximum time in which the kernel sets the probes of a library.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum time of any other answer of the thread, and without any message of it. Reading memory can last for ever: a
/// process can map a file of a file system that it serves itself.
const ANSWER: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(3);
/// Time in which calls are counted before an answer. Those that come later are discarded and counted as lost.
const COUNTING: Duration = Duration::from_secs(1);
/// Maximum number of records, of 128 bytes, that wait to be counted. Further calls are counted as lost.
const MOST_WAITING: usize = 1 << 18;

/// The reasons why nothing is recorded any more.
const HANGS: &str = "the thread that sets kernel probes hangs";
const ENDED: &str = "the thread that sets kernel probes ended";
const UNREADABLE: &str = "the memory of the process could not be read";
const BEHIND: &str = "the recording did not keep up with the calls";

/// The highest priority of an ordinary thread, so that the thread reads memory before the program changes it.
const FIRST: i32 = -20;

/// The result of [`ProbeThread::add`].
type Added = Result<Option<Group>, String>;

/// A question to the thread.
enum Request {
    Add { process: u32, range: (u64, u64), path: PathBuf, answer: Sender<Adding> },
    State,
}

/// The progress of [`ProbeThread::add`].
enum Adding {
    /// The library was read, and the kernel sets the probes.
    IsRead,
    Ended(Added),
}

/// A message of the thread.
enum Reported {
    Group(Group),
    /// Calls that may have been registrations or releases were lost before the next calls.
    Lost(Lost),
    /// The numbers after all groups before it, and before all later ones.
    State(RecorderState),
}

/// Sends messages from the thread.
struct Reports {
    sender: Sender<Reported>,
    /// The number of records that wait to be counted.
    waiting: Arc<AtomicUsize>,
}

impl Reports {
    /// Sends a call, if not too many wait. Returns whether it was sent.
    fn send(&self, group: Group) -> bool {
        let records = records_of(&group);
        if self.waiting.load(Ordering::Relaxed) + records > MOST_WAITING {
            return false;
        }
        self.waiting.fetch_add(records, Ordering::Relaxed);
        // The receiver exists as long as the sender of requests.
        let _ = self.sender.send(Reported::Group(group));
        true
    }
}

fn records_of(group: &Group) -> usize {
    1 + group.parts.len()
}

/// The numbers of a recorder.
#[derive(Clone, Debug, Default)]
pub(super) struct RecorderState {
    pub(super) totals: Totals,
    pub(super) open_calls: Vec<OpenCall>,
    /// The number of known processes that belong to the watched one.
    pub(super) processes: u64,
    /// The number of lost calls that are not in the totals.
    pub(super) uncounted: u64,
}

/// A recorder in its thread.
#[derive(Debug)]
pub(super) struct ProbeThread {
    /// `None` at the end.
    requests: Option<Sender<Request>>,
    reported: Receiver<Reported>,
    /// The number of records in `reported`.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
    /// Whether it did not answer in time, so that it is not waited for again.
    hangs: Cell<bool>,
}

impl ProbeThread {
    /// Starts a thread that records a process and its descendants.
    ///
    /// # Errors
    /// Returns a sentence without its end if no thread can be started.
    pub(super) fn start(root: u32) -> Result<Self, String> {
        Self::running(PATIENCE, move |asked, reports| record(Recorder::new(root), asked, reports))
    }

    fn running(
        patience: Duration,
        body: impl FnOnce(&Receiver<Request>, &Reports) + Send + 'static,
    ) -> Result<Self, String> {
        let (requests, asked) = unbounded();
        let (sender, reported) = unbounded();
        let waiting = Arc::new(AtomicUsize::new(0));
        let reports = Reports { sender, waiting: Arc::clone(&waiting) };
        let thread = std::thread::Builder::new().name("probes".to_owned());
        let thread = thread.spawn(move || body(&asked, &reports)).map_err(|error| units::no_thread(&error))?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(Self { requests, reported, waiting, thread, patience, hangs: Cell::new(false) })
    }

    /// Adds probes to a copy of libcufile, as [`Recorder::add`].
    pub(super) fn add(&self, process: u32, range: (u64, u64), path: PathBuf) -> Added {
        if self.hangs.get() {
            return Err(HANGS.to_owned());
        }
        let (answer, answered) = bounded(2);
        self.ask(Request::Add { process, range, path, answer });
        let mut patience = self.patience.min(ANSWER);
        loop {
            match answered.recv_timeout(patience) {
                Ok(Adding::IsRead) => patience = self.patience,
                Ok(Adding::Ended(added)) => return added,
                Err(RecvTimeoutError::Timeout) => {
                    self.hangs.set(true);
                    return Err(HANGS.to_owned());
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ENDED.to_owned()),
            }
        }
    }

    /// Passes the new calls to `tally`, in the order of time. Returns the numbers after these calls.
    ///
    /// # Errors
    /// Returns the reason if the thread has ended or does not answer in time.
    pub(super) fn drain(&self, tally: &mut Tally) -> Result<RecorderState, &'static str> {
        let began = Instant::now();
        self.drain_within(tally, || began.elapsed())
    }

    /// `elapsed` is the time since the begin of the call.
    fn drain_within(&self, tally: &mut Tally, elapsed: impl Fn() -> Duration) -> Result<RecorderState, &'static str> {
        if self.hangs.get() {
            return Err(HANGS);
        }
        self.ask(Request::State);
        let mut discarded = 0;
        let state = loop {
            let (silence, left) = (self.patience.min(SILENCE), ANSWER.saturating_sub(elapsed()));
            match self.reported.recv_timeout(silence.min(left)) {
                Ok(Reported::Group(group)) => {
                    self.waiting.fetch_sub(records_of(&group), Ordering::Relaxed);
                    if elapsed() < COUNTING {
                        tally.take(&group);
                    } else {
                        discarded += 1;
                    }
                }
                Ok(Reported::Lost((Some(process), lost))) => tally.lose(process, lost),
                Ok(Reported::Lost((None, lost))) => tally.lose_in_all(lost),
                Ok(Reported::State(state)) => break Ok(state),
                Err(RecvTimeoutError::Timeout) => {
                    self.hangs.set(true);
                    break Err(if left < silence { BEHIND } else { UNREADABLE });
                }
                Err(RecvTimeoutError::Disconnected) => break Err(ENDED),
            }
        };
        tally.discard(discarded);
        state
    }

    fn ask(&self, request: Request) {
        // If the thread has ended, the answer is missing too.
        let _ = self.requests.as_ref().map(|requests| requests.send(request));
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.requests = None;
        let patience = self.patience.min(ANSWER);
        let until = Instant::now() + if self.hangs.get() { Duration::ZERO } else { patience };
        let ends = loop {
            match self.reported.recv_deadline(until) {
                Ok(_) => {}
                Err(error) => break error == RecvTimeoutError::Disconnected,
            }
        };
        // A thread that hangs in the kernel is left. It removes its probes when it continues, or the kernel does it at
        // the end of this program.
        if let Some(thread) = self.thread.take().filter(|_| ends) {
            let _ = thread.join();
        }
    }
}

fn record(mut recorder: Recorder, asked: &Receiver<Request>, reports: &Reports) {
    // Only root may do this, and only root may set probes.
    let _ = setpriority_process(None, FIRST);
    loop {
        let request = asked.try_recv();
        let wants_state = matches!(request, Ok(Request::State));
        match request {
            Ok(Request::Add { process, range, path, answer }) => {
                let is_read = || _ = answer.send(Adding::IsRead);
                let added = recorder.add(process, range, &path, is_read);
                let _ = answer.send(Adding::Ended(added));
            }
            Ok(Request::State) => {}
            Err(TryRecvError::Empty) => recorder.wait(DRAIN_EVERY),
            Err(TryRecvError::Disconnected) => return,
        }
        let began = Instant::now();
        let (losses, groups) = recorder.drain(&mut || began.elapsed());
        for lost in losses {
            let _ = reports.sender.send(Reported::Lost(lost));
        }
        let discarded: u64 = groups.into_iter().map(|group| u64::from(!reports.send(group))).sum();
        recorder.lose_details(discarded);
        // The calls before the question are read first, because the last question comes at the end of the process.
        if wants_state {
            let (totals, open_calls) = (recorder.totals(), recorder.open_calls(now_ns()));
            let (processes, uncounted) = (recorder.processes(), recorder.uncounted());
            let state = RecorderState { totals, open_calls, processes, uncounted };
            let _ = reports.sender.send(Reported::State(state));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::device::Hit;
    use cufile_audit::layout::{Function, Record};

    /// The messages of a recorder after one question, if this many records already wait to be counted.
    fn answers(recorder: Recorder, waiting: usize) -> Vec<Reported> {
        let ((requests, asked), (sender, reported)) = (unbounded(), unbounded());
        requests.send(Request::State).unwrap();
        drop(requests);
        let reports = Reports { sender, waiting: Arc::new(AtomicUsize::new(waiting)) };
        std::thread::spawn(move || record(recorder, &asked, &reports)).join().unwrap();
        reported.iter().collect()
    }

    /// A recorder with one call that has returned and is not read yet.
    fn with_a_call() -> Recorder {
        let mut recorder = Recorder::new(1);
        // The thread leaves the first call without a return, so the call inside it counts with the third one.
        for (function, at_return, stack_pointer) in [
            (Function::Read, false, 80),
            (Function::BufRegister, false, 40),
            (Function::BufRegister, true, 48),
            (Function::DriverClose, false, 96),
        ] {
            let (arguments, stack) = ([0; 6], Vec::new());
            let hit =
                Hit::Probe { probe: 0, process: 1, thread: 9, at_ns: 5, result: 0, arguments, stack_pointer, stack };
            recorder.take(0, function, at_return, hit, false);
        }
        recorder
    }

    #[test]
    fn the_numbers_come_after_all_calls_before_the_question() {
        let reported = answers(with_a_call(), 0);
        let order: Vec<&str> = (reported.iter())
            .map(|message| match message {
                Reported::Group(_) => "call",
                Reported::Lost(_) => "loss",
                Reported::State(_) => "numbers",
            })
            .collect();
        assert_eq!(order, ["call", "numbers"]);
    }

    #[test]
    fn calls_are_lost_and_not_kept_if_too_many_wait() {
        for (waiting, is_sent) in [(MOST_WAITING - 1, true), (MOST_WAITING, false)] {
            let mut reported = answers(with_a_call(), waiting);
            let Some(Reported::State(state)) = reported.pop() else { unreachable!("the numbers are last") };
            assert_eq!((reported.len(), state.totals.lost), (usize::from(is_sent), u64::from(!is_sent)));
            // The totals have the call.
            assert_eq!((state.totals.functions[Function::BufRegister as usize][0], state.uncounted), (1, 0));
        }
    }

    /// A thread that sends this many calls, then its numbers if `answers`, and runs until it is dropped.
    fn sending(calls: usize, answers: bool) -> ProbeThread {
        let body = move |asked: &Receiver<Request>, reports: &Reports| {
            for _ in 0..calls {
                let record = Record { head: Record::head(Function::Read as u16, 0, 0), ..Record::default() };
                reports.send(Group { process: 1, thread: 1, is_visible: true, record, parts: Vec::new() });
            }
            if answers {
                let _ = reports.sender.send(Reported::State(RecorderState::default()));
            }
            while asked.recv().is_ok() {}
        };
        let thread = ProbeThread::running(Duration::from_secs(60), body).unwrap();
        while thread.reported.len() < calls + usize::from(answers) {
            std::thread::sleep(Duration::from_millis(1));
        }
        thread
    }

    #[test]
    fn calls_that_come_after_the_time_to_count_them_are_lost() {
        for (elapsed, lost) in [(Duration::ZERO, 0), (COUNTING, 100)] {
            let (thread, mut tally) = (sending(100, true), Tally::default());
            let state = thread.drain_within(&mut tally, || elapsed).unwrap();
            assert_eq!(tally.report(&state.totals).lost_events, lost);
            assert_eq!(thread.waiting.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_thread_that_sends_calls_without_end_did_not_keep_up() {
        let (thread, mut tally) = (sending(100, false), Tally::default());
        assert_eq!(thread.drain_within(&mut tally, || ANSWER).unwrap_err(), BEHIND);
        assert!(thread.hangs.get());
    }

    #[test]
    fn a_thread_that_hangs_while_it_adds_probes_is_not_waited_for_again() {
        let (end, ended) = bounded::<()>(0);
        let body = move |_: &Receiver<Request>, _: &Reports| {
            let _ = ended.recv();
        };
        let thread = ProbeThread::running(Duration::from_millis(20), body).unwrap();
        assert!(thread.add(1, (0, 1), PathBuf::new()).is_err_and(|why| why == HANGS) && thread.hangs.get());
        assert_eq!(thread.drain(&mut Tally::default()).unwrap_err(), HANGS);
        drop(thread);
        drop(end);
    }

    #[test]
    fn a_thread_that_does_not_answer_is_left() {
        let (end, ended) = bounded::<()>(0);
        let body = move |_: &Receiver<Request>, _: &Reports| {
            let _ = ended.recv();
        };
        let thread = ProbeThread::running(Duration::from_millis(20), body).unwrap();
        assert_eq!(thread.drain(&mut Tally::default()).unwrap_err(), UNREADABLE);
        assert!(thread.add(1, (0, 1), PathBuf::new()).is_err());
        // This would not return before `end` is dropped.
        drop(thread);
        drop(end);
    }
}
