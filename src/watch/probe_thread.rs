//! The thread that reads calls from kernel probes. It reads memory to which their arguments point, so it must not wait
//! until procfs has been read.

use super::group::Group;
use super::probes::Recorder;
use super::rings::{Totals, now_ns};
use super::tally::Tally;
use crate::core::{OpenCall, units};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, unbounded};
use rustix::process::setpriority_process;
use std::cell::Cell;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time between two readings.
const DRAIN_EVERY: Duration = Duration::from_millis(5);

/// Maximum time without an answer of the thread. The kernel may need seconds to set the probes. Reading memory can last for
/// ever: a process can map a file of a file system that it serves itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same while it sets no probes.
const READING: Duration = Duration::from_secs(3);

/// The highest priority of an ordinary thread, so that the thread reads memory before the program changes it.
const FIRST: i32 = -20;

/// The result of [`ProbeThread::add`].
type Added = Result<Option<Group>, String>;

/// A question to the thread.
enum Request {
    Add { process: u32, range: (u64, u64), path: PathBuf, answer: Sender<Added> },
    State,
}

/// A message of the thread.
enum Reported {
    Group(Group),
    /// A registration or release before this time in nanoseconds may have been lost.
    Lost(u64),
    /// The numbers after all groups before it, and before all later ones.
    State(RecorderState),
}

/// The numbers of a recorder.
#[derive(Clone, Debug, Default)]
pub(super) struct RecorderState {
    pub(super) totals: Totals,
    pub(super) open_calls: Vec<OpenCall>,
    /// The number of known processes that belong to the watched one.
    pub(super) processes: u64,
}

/// A recorder in its thread.
#[derive(Debug)]
pub(super) struct ProbeThread {
    /// `None` at the end.
    requests: Option<Sender<Request>>,
    reported: Receiver<Reported>,
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
        body: impl FnOnce(&Receiver<Request>, &Sender<Reported>) + Send + 'static,
    ) -> Result<Self, String> {
        let (requests, asked) = unbounded();
        let (reports, reported) = unbounded();
        let thread = std::thread::Builder::new().name("probes".to_owned());
        let thread = thread.spawn(move || body(&asked, &reports)).map_err(|error| units::no_thread(&error))?;
        Ok(Self { requests: Some(requests), reported, thread: Some(thread), patience, hangs: Cell::new(false) })
    }

    /// Adds probes to a copy of libcufile, as [`Recorder::add`].
    pub(super) fn add(&self, process: u32, range: (u64, u64), path: PathBuf) -> Added {
        let (answer, answered) = bounded(1);
        self.ask(Request::Add { process, range, path, answer });
        answered.recv_timeout(self.patience).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => "the thread that sets kernel probes hangs",
                RecvTimeoutError::Disconnected => "the thread that sets kernel probes ended",
            }
            .to_owned())
        })
    }

    /// Passes the new calls to `tally`, in the order of time. Returns the numbers after these calls, or `None` if the
    /// thread has ended or does not answer.
    pub(super) fn drain(&self, tally: &mut Tally) -> Option<RecorderState> {
        self.ask(Request::State);
        loop {
            match self.reported.recv_timeout(self.patience.min(READING)) {
                Ok(Reported::Group(group)) => tally.take(&group),
                Ok(Reported::Lost(at_ns)) => tally.lose_in_all(at_ns),
                Ok(Reported::State(state)) => return Some(state),
                Err(error) => {
                    self.hangs.set(error == RecvTimeoutError::Timeout);
                    return None;
                }
            }
        }
    }

    fn ask(&self, request: Request) {
        // If the thread has ended, the answer is missing too.
        let _ = self.requests.as_ref().map(|requests| requests.send(request));
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.requests = None;
        let until = Instant::now() + if self.hangs.get() { Duration::ZERO } else { self.patience };
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

fn record(mut recorder: Recorder, asked: &Receiver<Request>, reports: &Sender<Reported>) {
    // Only root may do this, and only root may set probes.
    let _ = setpriority_process(None, FIRST);
    loop {
        let request = asked.try_recv();
        let wants_state = matches!(request, Ok(Request::State));
        match request {
            Ok(Request::Add { process, range, path, answer }) => {
                let _ = answer.send(recorder.add(process, range, &path));
            }
            Ok(Request::State) => {}
            Err(TryRecvError::Empty) => recorder.wait(DRAIN_EVERY),
            Err(TryRecvError::Disconnected) => return,
        }
        let (lost_ns, groups) = recorder.drain();
        // The receiver exists as long as the sender of requests.
        if let Some(at_ns) = lost_ns {
            let _ = reports.send(Reported::Lost(at_ns));
        }
        for group in groups {
            let _ = reports.send(Reported::Group(group));
        }
        // The calls before the question are read first: at the end of the process, there is no later question.
        if wants_state {
            let (totals, open_calls) = (recorder.totals(), recorder.open_calls(now_ns()));
            let state = RecorderState { totals, open_calls, processes: recorder.processes() };
            let _ = reports.send(Reported::State(state));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::device::Hit;
    use cufile_audit::layout::Function;

    #[test]
    fn the_numbers_come_after_all_calls_before_the_question() {
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
        let ((requests, asked), (reports, reported)) = (unbounded(), unbounded());
        requests.send(Request::State).unwrap();
        drop(requests);
        std::thread::spawn(move || record(recorder, &asked, &reports)).join().unwrap();
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
    fn a_thread_that_does_not_answer_is_left() {
        let (end, ended) = bounded::<()>(0);
        let body = move |_: &Receiver<Request>, _: &Sender<Reported>| {
            let _ = ended.recv();
        };
        let thread = ProbeThread::running(Duration::from_millis(20), body).unwrap();
        assert!(thread.drain(&mut Tally::default()).is_none());
        assert!(thread.add(1, (0, 1), PathBuf::new()).is_err());
        // This would not return before `end` is dropped.
        drop(thread);
        drop(end);
    }
}
