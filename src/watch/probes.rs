//! Records the cuFile calls of a running process with kernel probes. A hit at the entry of a function and a hit at
//! its return form one call.

use super::descriptors;
use super::group::{Group, Total};
use super::hit_memory::Memory;
use super::late_registrations::LateRegistrations;
use super::losses::{Losses, Lost};
use super::mapped_library;
use super::probed_call::{Begun, begin, end, ended_bytes};
use super::probed_process::{KnownFlags, has_breakpoint, is_mapped, parent_of};
use super::rings::{Totals, now_ns};
use super::symbols;
use crate::core::OpenCall;
use crate::device::{Hit, Probe, Probes};
use cufile_audit::layout::{Answer, EVENTS_WORD, FUNCTION_COUNT, FUNCTIONS, Function, Record, kind};
use rustix::process::geteuid;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of stack bytes in a hit of a function whose arguments are pointers. They usually point to local variables
/// of the caller.
const STACK: u32 = 8192;
/// Maximum number of copies of libcufile with probes. A process has one; a hostile process can map thousands of files
/// of that name.
pub(super) const MOST_COPIES: usize = 16;
/// Maximum number of open calls of one thread, and of threads with open calls. A thread can leave a call with
/// longjmp, so its end may never be recorded.
const MOST_BEGUN: usize = 64;
const MOST_THREADS: usize = 65_536;
/// Maximum number of calls inside one call that wait for its return. A function of libcufile calls at most two others
/// that are probed (1.15 to 1.20).
const MOST_INNER: usize = 8;
/// Reports of a fork of one process number that differ by less are those of the same fork. The kernel uses a number again
/// after all others.
const SAME_FORK_NS: u64 = 1_000_000_000;
/// Maximum time of a reading: half of it for the rings, and the rest for the calls in them. What remains is discarded and
/// counted as lost, so that a program that calls without end delays no answer.
const ROUND: Duration = Duration::from_millis(500);
/// Maximum number of records of a reading, of 128 bytes.
const MOST_RECORDS: usize = 1 << 18;

/// Whether the arguments or results of a function are in memory.
const fn points_to_arguments(function: Function) -> bool {
    matches!(
        function,
        Function::HandleRegister
            | Function::ReadAsync
            | Function::WriteAsync
            | Function::Readv
            | Function::Writev
            | Function::BatchSetUp
            | Function::BatchSubmit
            | Function::BatchGetStatus
            | Function::DriverGetProperties
            | Function::GetVersion
    )
}

/// Whether a registration has a file that is open and, if it succeeded, a handle.
fn is_valid_registration(group: &Group) -> bool {
    !group.parts.is_empty() && (group.record.result as u32 != 0 || group.record.object != 0)
}

/// A hit of a function of a library.
struct FunctionHit {
    at_ns: u64,
    library: usize,
    function: Function,
    at_return: bool,
    hit: Hit,
}

/// The open probes of one copy of libcufile.
#[derive(Debug)]
struct Set {
    probes: Probes,
    /// The open file. It keeps the path of the probes valid.
    _library: File,
    functions: Vec<(Function, bool)>,
}

/// Records the calls of a process and its children.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The start in nanoseconds of each known process that belongs to the watched one, and `None` of the others.
    belongs: HashMap<u32, Option<u64>>,
    /// The records of descendants that were forked since the last reading.
    forked: Vec<Group>,
    /// Calls that waited for the return of an outer call, which the thread left in another way, since the last reading.
    released: Vec<Group>,
    /// The copies that were probed or rejected.
    known: Vec<PathBuf>,
    sets: Vec<Set>,
    begun: HashMap<u32, Vec<Begun>>,
    totals: Vec<Total>,
    threads: HashSet<(u32, u32)>,
    lost: u64,
    /// The number of lost calls that are not in the totals.
    uncounted: u64,
    /// Whether a registration or release may have been lost since the last reading.
    lost_names: bool,
    /// The processes of which only details of a registration were lost since the last reading.
    lost_registrations: HashSet<u32>,
    /// The flags of descriptors that were read in this reading.
    flags: KnownFlags,
    late: LateRegistrations,
}

impl Recorder {
    pub(super) fn new(root: u32) -> Self {
        Self {
            belongs: HashMap::from([(root, Some(0))]),
            forked: Vec::new(),
            released: Vec::new(),
            known: Vec::new(),
            sets: Vec::new(),
            begun: HashMap::new(),
            totals: vec![Total::default(); FUNCTION_COUNT],
            threads: HashSet::new(),
            lost: 0,
            uncounted: 0,
            lost_names: false,
            lost_registrations: HashSet::new(),
            flags: KnownFlags::default(),
            late: LateRegistrations::default(),
        }
    }

    /// Adds probes to a copy of libcufile that a process has mapped at `range`. Returns the record of its load, or
    /// `None` if the copy already has probes or was refused before, or if the process does not have it any more.
    /// `is_read` is called when only the kernel has to set the probes.
    pub(super) fn add(
        &mut self,
        process: u32,
        range: (u64, u64),
        path: &Path,
        is_read: impl FnOnce(),
    ) -> Result<Option<Group>, String> {
        if self.known.len() >= MOST_COPIES || self.known.iter().any(|known| known == path) {
            return Ok(None);
        }
        let library = match geteuid().is_root() {
            true => mapped_library::open(process, range, path),
            false => Err("kernel probes need root".to_owned()),
        };
        // A later look finds the copy in another process, or at the addresses at which the linker maps it at last.
        if library.is_err() && !is_mapped(process, range) {
            return Ok(None);
        }
        self.known.push(path.to_owned());
        let library = library?;
        let real = PathBuf::from(format!("/proc/self/fd/{}", library.as_raw_fd()));
        let mut probes = Vec::new();
        let mut functions = Vec::new();
        for (function, offset) in symbols::functions(&library, path)? {
            let stack_bytes = if points_to_arguments(function) { STACK } else { 0 };
            for at_return in [false, true] {
                probes.push(Probe { path: real.clone(), offset, at_return, stack_bytes });
                functions.push((function, at_return));
            }
        }
        is_read();
        let cpus = descriptors::cpus_for(probes.len())?;
        let first = probes.first().map_or(0, |probe| probe.offset);
        let probes = Probes::open(&probes, &cpus).map_err(|error| format!("the kernel rejects probes: {error}"))?;
        if has_breakpoint(process, path, first) == Some(false) {
            return Err("the kernel accepted the probes but did not set them in the process".to_owned());
        }
        let number = self.sets.len() as u8;
        self.sets.push(Set { probes, _library: library, functions });
        let record = Record { head: Record::head(kind::LIBRARY, number, 0), ..Record::default() };
        Ok(Some(Group::with_text(process, process, record, &*path.to_string_lossy())))
    }

    /// The losses since the last reading, and all calls that have returned since, in the order of time. `elapsed` is
    /// the time since the begin of the reading.
    pub(super) fn drain(&mut self, elapsed: &mut dyn FnMut() -> Duration) -> (Vec<Lost>, Vec<Group>) {
        self.flags = KnownFlags::default();
        let (mut hits, mut forks, mut discarded, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0_u64);
        for (library, set) in self.sets.iter_mut().enumerate() {
            for hit in set.probes.drain(&mut || elapsed() >= ROUND / 2) {
                let function_of = |probe: usize| set.functions.get(probe).copied();
                match hit {
                    Hit::Forked { process, parent, at_ns } => forks.push((process, parent, at_ns)),
                    Hit::Lost(count) => lost = lost.saturating_add(count),
                    Hit::Discarded { probe, process, count } => {
                        discarded.extend(function_of(probe).map(|(_, at_return)| (process, at_return, count)));
                    }
                    Hit::Probe { probe, at_ns, .. } => {
                        let known = function_of(probe);
                        hits.extend(known.map(|(function, at_return)| FunctionHit {
                            at_ns,
                            library,
                            function,
                            at_return,
                            hit,
                        }));
                    }
                }
            }
        }
        self.lose(lost);
        forks.sort_by_key(|(.., at_ns)| *at_ns);
        for (process, parent, at_ns) in forks {
            self.fork(process, parent, at_ns);
        }
        let mut groups = self.calls(hits, &discarded, elapsed);
        groups.append(&mut self.forked);
        groups.append(&mut self.released);
        groups.sort_by_key(Group::order);
        (self.take_losses(now_ns()), groups)
    }

    /// Takes the losses until now.
    fn take_losses(&mut self, at_ns: u64) -> Vec<Lost> {
        let registration = Losses { registration_ns: at_ns, ..Losses::default() };
        let mut lost: Vec<Lost> =
            self.lost_registrations.drain().map(|process| (Some(process), registration)).collect();
        if std::mem::take(&mut self.lost_names) {
            lost.push((None, Losses::all(at_ns)));
        }
        lost
    }

    /// The calls that end with these hits. `discarded` has the process of other hits, whether they were at a return, and
    /// their number.
    fn calls(
        &mut self,
        mut hits: Vec<FunctionHit>,
        discarded: &[(u32, bool, u64)],
        elapsed: &mut dyn FnMut() -> Duration,
    ) -> Vec<Group> {
        hits.sort_by_key(|hit| hit.at_ns);
        let thread_of = |hit: &Hit| if let Hit::Probe { thread, .. } = hit { *thread } else { 0 };
        let last: HashMap<u32, usize> =
            hits.iter().enumerate().map(|(at, found)| (thread_of(&found.hit), at)).collect();
        let (mut groups, mut records, mut is_over) = (Vec::new(), 0, false);
        // The returns of calls that have begun may be among the discarded hits of these processes.
        let (mut lacks_hits, mut lost) = (false, 0_u64);
        // A discarded call counts at its entry. Those without a return are below.
        for (_, at_return, count) in discarded.iter().filter(|(process, ..)| self.may_belong(*process)) {
            lacks_hits = true;
            lost = lost.saturating_add(if *at_return { 0 } else { *count });
        }
        for (at, FunctionHit { library, function, at_return, hit, .. }) in hits.into_iter().enumerate() {
            let Hit::Probe { process, thread, .. } = hit else { continue };
            is_over = is_over || records >= MOST_RECORDS || elapsed() >= ROUND;
            if is_over {
                if self.may_belong(process) {
                    lacks_hits = true;
                    lost = lost.saturating_add(u64::from(!at_return));
                }
                continue;
            }
            if self.belongs(process) {
                let went_on = last.get(&thread) != Some(&at);
                let group = self.take(library, function, at_return, hit, went_on);
                records += group.as_ref().map_or(0, |group| 1 + group.parts.len());
                groups.extend(group);
            }
        }
        if lacks_hits {
            let begun: u64 = self.begun.drain().map(|(_, calls)| calls.len() as u64).sum();
            self.lose(lost.saturating_add(begun));
        }
        groups
    }

    /// Notes calls that are in no total.
    fn lose(&mut self, calls: u64) {
        self.uncounted = self.uncounted.saturating_add(calls);
        self.lose_details(calls);
    }

    /// Notes calls whose details are lost.
    pub(super) fn lose_details(&mut self, calls: u64) {
        self.lost = self.lost.saturating_add(calls);
        self.lost_names |= calls > 0;
    }

    /// Whether a process is not known to be another one. Nothing is read.
    fn may_belong(&self, process: u32) -> bool {
        self.belongs.get(&process).is_none_or(Option::is_some)
    }

    /// Waits for new calls, for at most this time.
    pub(super) fn wait(&self, time: Duration) {
        Probes::wait(self.sets.iter().map(|set| &set.probes), time);
    }

    /// Processes a hit of a function of a library. `went_on` is whether the thread has had another hit since. Returns the
    /// call if it has returned and its arguments are known.
    pub(super) fn take(
        &mut self,
        library: usize,
        function: Function,
        at_return: bool,
        hit: Hit,
        went_on: bool,
    ) -> Option<Group> {
        let Hit::Probe { process, thread, at_ns, result, arguments, stack_pointer, stack, .. } = hit else {
            return None;
        };
        let memory = Memory { process, stack_pointer, stack: &stack, used_current: Cell::new(false) };
        if !at_return {
            let mut begun = begin(function, library as u8, at_ns, arguments, &memory);
            begun.read_ns = memory.used_current.get().then(now_ns);
            if function == Function::HandleRegister {
                let overwritten = self.late.begin(process, [arguments[0], arguments[1]], at_ns);
                self.lose_details(overwritten);
            }
            self.begin(thread, begun);
            return None;
        }
        let open = self.begun.get_mut(&thread)?;
        let at = open.iter().rposition(|begun| begun.function == function && usize::from(begun.library) == library)?;
        let begun = open.drain(at..).next()?;
        let mut group = end(&begun, process, thread, (at_ns, result), &memory, &mut self.flags);
        // The program may have changed the memory after the call had returned.
        let is_late = begun.read_ns.is_some_and(|read_ns| read_ns > at_ns) || (went_on && memory.used_current.get());
        match open.last_mut() {
            Some(outer) if outer.inner.len() < MOST_INNER => {
                // Arguments that are not certain are not kept.
                outer.inner.extend((!is_late).then_some(group));
                outer.has_jumped |= outer.stack_pointer == begun.stack_pointer;
                return None;
            }
            Some(_) => {}
            None => _ = self.begun.remove(&thread),
        }
        let places = [begun.arguments[0], begun.arguments[1]];
        let may_count = is_late && function == Function::HandleRegister && is_valid_registration(&group);
        if may_count && self.late.add(process, places, now_ns()) {
            self.count(&group);
            return Some(group);
        }
        if is_late && function != Function::BatchSetUp {
            self.lost += 1;
            group.parts.clear();
            group.record.size = 0;
            self.count(&group);
            // The handle and the descriptor may be those of other files.
            if function == Function::HandleRegister {
                self.lost_registrations.insert(process);
                group.record.head = Record::head(function as u16, begun.library, 0);
                group.record.extra[1] = u64::MAX;
                return Some(group);
            }
            // The end of the entries is unknown.
            group.record.extra[EVENTS_WORD] = 1;
            return (function == Function::BatchGetStatus).then_some(group);
        }
        self.count(&group);
        Some(group)
    }

    /// Adds a call that has not returned.
    fn begin(&mut self, thread: u32, begun: Begun) {
        if self.begun.len() >= MOST_THREADS && !self.begun.contains_key(&thread) {
            self.lost += self.begun.drain().map(|(_, calls)| calls.len() as u64).sum::<u64>();
            self.lost_names = true;
        }
        let calls = self.begun.entry(thread).or_default();
        let left = calls.iter().position(|call| call.is_left_at(&begun)).unwrap_or(calls.len());
        let released: Vec<Group> = calls.drain(left..).flat_map(|call| call.inner).collect();
        if calls.len() >= MOST_BEGUN {
            calls.remove(0);
            self.lost += 1;
            self.lost_names = true;
        }
        calls.push(begun);
        for group in released {
            self.count(&group);
            self.released.push(group);
        }
    }

    fn count(&mut self, group: &Group) {
        let record = &group.record;
        let function = usize::from(record.kind());
        let (failed, bytes) = match FUNCTIONS[function].answer {
            Answer::Status => (record.result as u32 != 0, ended_bytes(group)),
            // A result above the requested size is not believed, because a program can pretend to be libcufile.
            Answer::Bytes if record.size > 0 => (record.result.cast_signed() < 0, record.result.min(record.size)),
            Answer::Bytes => (record.result.cast_signed() < 0, record.result),
            Answer::Plain => (false, 0),
        };
        let total = &mut self.totals[function];
        let added =
            [1, u64::from(failed), if failed { 0 } else { bytes }, record.end_ns.saturating_sub(record.start_ns)];
        for (sum, more) in total.iter_mut().zip(added) {
            *sum = sum.saturating_add(more);
        }
        self.threads.insert((group.process, group.thread));
    }

    /// Processes a fork that the kernel reported.
    fn fork(&mut self, process: u32, parent: u32, at_ns: u64) {
        let belongs = |process: u32| self.belongs.get(&process).copied().flatten();
        // Each copy of libcufile reports the fork, and procfs may have shown the process before. Later, another process
        // has its number.
        let is_known = belongs(process).is_some_and(|began_ns| at_ns < began_ns.saturating_add(SAME_FORK_NS));
        if process == parent || is_known {
            return;
        }
        match belongs(parent) {
            Some(_) => self.add_descendant(process, parent, at_ns),
            // It has the number of a process that has ended. The parent may be a descendant that made no call yet.
            None => _ = self.belongs.remove(&process),
        }
    }

    /// Adds a descendant with its parent.
    fn add_descendant(&mut self, process: u32, parent: u32, at_ns: u64) {
        self.belongs.insert(process, Some(at_ns));
        let record = Record {
            head: Record::head(kind::PROCESS, 0, 0),
            start_ns: at_ns,
            end_ns: at_ns,
            object: u64::from(parent),
            base: self.belongs.get(&parent).copied().flatten().unwrap_or(0),
            offset: at_ns,
            ..Record::default()
        };
        self.forked.push(Group { process, thread: process, is_visible: true, record, parts: Vec::new() });
    }

    /// Whether a process is the watched one or one of its descendants. The parent of an unknown process is read from
    /// procfs: it was forked before the probes were set, or its fork is not reported yet.
    fn belongs(&mut self, process: u32) -> bool {
        if let Some(known) = self.belongs.get(&process) {
            return known.is_some();
        }
        let mut line = Vec::new();
        let mut at = process;
        let found = loop {
            if let Some(known) = self.belongs.get(&at) {
                break known.is_some();
            }
            let parent = parent_of(at);
            line.push((at, parent));
            match parent {
                Some((parent, _)) if line.len() < 64 => at = parent,
                _ => break false,
            }
        };
        for (process, parent) in line.into_iter().rev() {
            match parent.filter(|_| found) {
                Some((parent, began_ns)) => self.add_descendant(process, parent, began_ns),
                None => _ = self.belongs.insert(process, None),
            }
        }
        found
    }

    /// Number of known processes that belong to the watched one.
    pub(super) fn processes(&self) -> u64 {
        self.belongs.values().flatten().count() as u64
    }

    /// The calls of the process and its descendants that have not returned.
    pub(super) fn open_calls(&self, now_ns: u64) -> Vec<OpenCall> {
        let all = self.begun.iter().flat_map(|(thread, calls)| calls.iter().map(move |call| (*thread, call)));
        all.map(|(thread, call)| OpenCall {
            function: FUNCTIONS[call.function as usize].name.to_owned(),
            process: call.process,
            thread,
            age_ns: now_ns.saturating_sub(call.at_ns),
            ..OpenCall::default()
        })
        .collect()
    }

    /// The number of lost calls that are not in the totals.
    pub(super) const fn uncounted(&self) -> u64 {
        self.uncounted
    }

    pub(super) fn totals(&self) -> Totals {
        Totals { functions: self.totals.clone(), threads: self.threads.len() as u64, lost: self.lost }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
