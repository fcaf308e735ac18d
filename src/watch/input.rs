//! The counters of a process and its descendants in procfs.

use crate::core::ProcessIo;
use crate::trust::Examiner;
use crate::trust::process::{Identity, identity};
use procfs::process::Process;
use procfs::{ProcError, ProcResult};
use std::collections::{HashMap, HashSet};

/// Maximum number of processes of a program that are read in one sample. A program can start processes faster than
/// they are read.
const MOST_PROCESSES: usize = 4096;
/// Maximum number of threads of these processes whose children are read.
const MOST_TASKS: usize = 65_536;

/// The counters of a process and its descendants in procfs.
///
/// When a process has waited for a child that ended, the kernel adds the counters of the child to its own. So the
/// counters of the processes that exist are added. No process of the tree waits for an orphan, so the last counters of an
/// orphan stay in the sum. The sum is less if a parent never waits for its children; then the largest sum stays.
#[derive(Debug, Default)]
pub(super) struct Input {
    largest: Option<ProcessIo>,
    /// The processes of the last reading.
    known: HashMap<Identity, ProcessIo>,
    /// The known processes whose parent ended before them.
    orphans: HashSet<Identity>,
    /// The counters of orphans that have ended.
    ended: ProcessIo,
    /// Whether counters of a process are missing, and no later reading can have them.
    is_partial: bool,
    /// The processes that could not be read in the last reading, except those that have ended. A later reading can have
    /// all their counters.
    unread: HashSet<Identity>,
    /// The known processes that exist, but could not be read in the last reading.
    stale: HashSet<Identity>,
    /// Whether a process ended between the last two readings.
    pub(super) has_ended_process: bool,
    /// Whether the sum of the last reading was less than an earlier one.
    is_less: bool,
}

impl Input {
    /// A process and its descendants, and orphans that were its descendants.
    pub(super) fn tree(&mut self, root: u32) -> Vec<Process> {
        let roots = std::iter::once(root).chain(self.orphans.iter().map(|(pid, _)| *pid));
        let (processes, is_cut) = tree(roots.collect());
        self.is_partial |= is_cut;
        processes
    }

    /// Adds the counters of all processes of a tree.
    pub(super) fn add(&mut self, processes: &[Process], examiner: &mut Examiner) {
        let before = std::mem::take(&mut self.known);
        let unread = std::mem::take(&mut self.unread);
        self.stale.clear();
        self.has_ended_process = false;
        for process in processes {
            let of = identity(process.pid.unsigned_abs());
            if of.1 == 0 {
                continue;
            }
            match examiner.ask(of, move |_| counters(of.0)) {
                Ok(Ok(counted)) => _ = self.known.insert(of, counted),
                // It has ended.
                Ok(Err(ProcError::NotFound(_))) => {}
                // Without the right to examine a process, its counters are missing, not zero. Only root can read those of a
                // process that has ended. The process that waits for it gets them.
                _ => {
                    if process.stat().is_ok_and(|stat| stat.state != 'Z') && identity(of.0) == of {
                        self.unread.insert(of);
                    }
                }
            }
        }
        for (&of, &last) in &before {
            if self.known.contains_key(&of) {
                continue;
            }
            let process =
                i32::try_from(of.0).ok().and_then(|pid| Process::new(pid).ok()).filter(|_| identity(of.0) == of);
            if let Some(process) = process {
                // The list of children may be incomplete while it changes.
                let parent = process.stat().map_or(0, |stat| stat.ppid);
                if !self.known.keys().chain(before.keys()).any(|(pid, _)| i32::try_from(*pid) == Ok(parent)) {
                    self.orphans.insert(of);
                }
                let now = examiner.ask(of, move |_| counters(of.0)).ok().and_then(Result::ok);
                match now {
                    Some(_) => _ = self.unread.remove(&of),
                    None => _ = self.stale.insert(of),
                }
                self.known.insert(of, now.unwrap_or(last));
                continue;
            }
            self.has_ended_process = true;
            if self.orphans.remove(&of) {
                // It may have read more after its last reading.
                self.is_partial = true;
                self.ended = merged(self.ended, last, u64::saturating_add);
            }
        }
        // A process that was never read may have ended, or its parent has.
        let is_present = |of: &Identity| self.known.contains_key(of) || self.unread.contains(of);
        self.is_partial |= !unread.iter().all(|of| is_present(of) || before.contains_key(of));
        let now = self.known.values().copied().reduce(|a, b| merged(a, b, u64::saturating_add));
        let now = now.map(|now| merged(now, self.ended, u64::saturating_add));
        let is_less = self.largest.zip(now).is_some_and(|(most, now)| now.read_call_bytes < most.read_call_bytes);
        // A parent may get the counters of a child between the readings of the two, and the next sum has them. Without a
        // wait of the parent, they stay missing.
        let was_less = std::mem::replace(&mut self.is_less, is_less);
        self.is_partial |= was_less && is_less;
        self.largest = match (self.largest, now) {
            (Some(before), Some(now)) => Some(merged(before, now, u64::max)),
            (before, now) => before.or(now),
        };
    }

    /// Notes the final counters of a process, with those of its descendants that it waited for.
    pub(super) fn end(&mut self, root: u32, io: ProcessIo) {
        let others = self.known.iter().filter(|((pid, _), _)| *pid != root).map(|(_, io)| *io);
        let now = others.chain([self.ended]).fold(io, |sum, more| merged(sum, more, u64::saturating_add));
        self.largest = Some(self.largest.map_or(now, |before| merged(before, now, u64::max)));
    }

    /// The sum. `None` if no process could be examined.
    pub(super) const fn total(&self) -> Option<ProcessIo> {
        self.largest
    }

    /// Whether the sum is a lower bound, because a process could not be examined, or its last bytes are missing.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial || !self.unread.is_empty()
    }

    /// Whether the last reading has the counters of this process.
    pub(super) fn is_current(&self, process: Identity) -> bool {
        self.known.contains_key(&process) && !self.stale.contains(&process)
    }
}

fn merged(a: ProcessIo, b: ProcessIo, merge: fn(u64, u64) -> u64) -> ProcessIo {
    ProcessIo {
        read_call_bytes: merge(a.read_call_bytes, b.read_call_bytes),
        storage_read_bytes: merge(a.storage_read_bytes, b.storage_read_bytes),
        major_faults: merge(a.major_faults, b.major_faults),
        minor_faults: merge(a.minor_faults, b.minor_faults),
        io_uring_requests: merge(a.io_uring_requests, b.io_uring_requests),
    }
}

/// The counters of a process and of its children that have ended.
fn counters(pid: u32) -> ProcResult<ProcessIo> {
    let process = Process::new(pid.cast_signed())?;
    let counted = process.io()?;
    let mut io =
        ProcessIo { read_call_bytes: counted.rchar, storage_read_bytes: counted.read_bytes, ..ProcessIo::default() };
    if let Ok(stat) = process.stat() {
        io.major_faults = stat.majflt.saturating_add(stat.cmajflt);
        io.minor_faults = stat.minflt.saturating_add(stat.cminflt);
    }
    Ok(io)
}

/// Moves the processes before this one to the end of a list.
pub(super) fn begin_with(processes: &mut [Process], first: Option<Identity>) {
    let is_first = |process: &Process| first.is_some_and(|(pid, _)| pid == process.pid.unsigned_abs());
    let at = processes.iter().position(is_first).unwrap_or(0);
    processes.rotate_left(at);
}

/// Processes and all their descendants, and whether some can be missing because of a limit.
fn tree(mut left: Vec<u32>) -> (Vec<Process>, bool) {
    let mut found = Vec::new();
    let mut tasks = 0;
    while let Some(pid) = left.pop() {
        if found.len() >= MOST_PROCESSES || tasks >= MOST_TASKS {
            return (found, true);
        }
        let Some(process) = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok()) else { continue };
        for task in process.tasks().into_iter().flatten().flatten().take(MOST_TASKS - tasks) {
            tasks += 1;
            left.extend(task.children().unwrap_or_default());
        }
        found.push(process);
    }
    (found, false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::trust::Limits;
    use crate::trust::waiting_tests::{patient, until};
    use std::process::Stdio;
    use std::time::Duration;

    #[test]
    fn reads_of_a_child_and_of_an_orphan_are_counted() {
        const READ: u64 = 16 << 20;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::File::create(path("data")).unwrap().set_len(READ).unwrap();
        let script = "cat data > /dev/null; sh -c 'echo $$ > pid; while test ! -e go; do sleep 0.02; done; cat data > /dev/null; \
            touch done; exec sleep 60' & while test ! -e end; do sleep 0.02; done";
        let mut shell = std::process::Command::new("sh").args(["-c", script]).current_dir(dir.path()).spawn().unwrap();
        let root = shell.id();
        let (mut input, mut examiner) = (Input::default(), Examiner::new(patient()));
        let mut add = |input: &mut Input| {
            examiner.begin_round();
            let processes = input.tree(root);
            input.add(&processes, &mut examiner);
        };
        until(|| std::fs::read_to_string(path("pid")).is_ok_and(|pid| pid.ends_with('\n')));
        add(&mut input);
        std::fs::write(path("end"), "").unwrap();
        until(|| Process::new(root.cast_signed()).unwrap().stat().unwrap().state == 'Z');
        add(&mut input);
        let before = input.total().unwrap().read_call_bytes;
        assert!((READ..2 * READ).contains(&before), "{before}");
        std::fs::write(path("go"), "").unwrap();
        until(|| path("done").exists());
        add(&mut input);
        let after = input.total().unwrap().read_call_bytes;
        let pid =
            std::fs::read_to_string(path("pid")).unwrap().trim().parse().ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(after >= 2 * READ && !input.is_partial(), "{after}");
    }

    #[test]
    fn a_list_begins_with_the_process_that_was_left_out() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, other) = (std::process::id().cast_signed(), child.id().cast_signed());
        let mut processes: Vec<Process> = [own, other].into_iter().map(|pid| Process::new(pid).unwrap()).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut order = |first: Option<u32>| {
            begin_with(&mut processes, first.map(|pid| (pid, 1)));
            processes.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!((order(None), order(Some(child.id()))), (vec![own, other], vec![other, own]));
        assert_eq!(order(Some(u32::MAX)), [other, own], "it is not in the list");
    }

    #[test]
    fn counters_of_a_process_that_does_not_answer_are_missing() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut input = Input::default();
        let mut examiner = Examiner::new(Limits { round: Duration::ZERO, ..Limits::default() });
        let processes = input.tree(child.id());
        input.add(&processes, &mut examiner);
        assert!(input.is_partial() && input.total().is_none() && examiner.unexamined() == 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_late_answer_makes_numbers_lower_bounds_until_the_next_reading_only() {
        let mut children = [(); 2].map(|()| std::process::Command::new("sleep").arg("60").spawn().unwrap());
        let [id, other] = [0, 1].map(|at| children[at].id());
        let mut input = Input::default();
        let add = |input: &mut Input, root: u32, round: Duration| {
            let mut examiner = Examiner::new(Limits { process: round, round, ..Limits::default() });
            let processes = input.tree(root);
            input.add(&processes, &mut examiner);
            input.is_partial()
        };
        let long = Duration::from_secs(60);
        let times = [Duration::ZERO, long, Duration::ZERO, long];
        let are_partial = times.map(|round| add(&mut input, id, round));
        let mut unread = Input::default();
        add(&mut unread, other, Duration::ZERO);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(are_partial, [true, false, true, false]);
        assert!(add(&mut unread, other, long), "the counters of a process that was never read are lost with it");
    }

    #[test]
    fn an_orphan_that_has_ended_has_no_current_counters_and_its_child_is_no_orphan() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "cat; true"]).stdin(Stdio::piped()).spawn().unwrap();
        until(|| tree(vec![child.id()]).0.len() == 2);
        let of = identity(child.id());
        let mut input = Input::default();
        let mut examiner = Examiner::new(patient());
        let processes = input.tree(of.0);
        input.add(&processes, &mut examiner);
        assert!(input.is_current(of) && !input.has_ended_process);
        // The tree does not have them, but both exist.
        input.add(&[], &mut examiner);
        assert!(input.orphans == HashSet::from([of]) && input.is_current(of) && !input.is_partial());
        // Without its input, the child ends too.
        child.kill().unwrap();
        child.wait().unwrap();
        input.add(&[], &mut examiner);
        assert!(!input.is_current(of) && input.has_ended_process && input.is_partial());
    }
}
