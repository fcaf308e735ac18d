//! Watches a running process. As root, its calls are recorded with kernel probes. procfs shows which libcufile it has
//! mapped, which files it uses, and how much it reads.

use super::error::WatchError;
use super::input::{self, Input};
use super::probe_thread::{ProbeThread, RecorderState};
use super::probes;
use super::process_files::{Copies, Files, MOST_FILES};
use super::process_log::ProcessLog;
use super::rings::now_ns;
use super::routes::{self, MachineRoutes};
use super::tally::Tally;
use crate::core::{AttachedLog, AttachedProcess, MORE_FILES, ProcessIo, ProgramEnd, WatchReport, WatchedCall};
use crate::trust::process::{Identity, folder, identity, is_own};
use crate::trust::{self, Allowance, Examiner, Unexamined};
use procfs::process::Process;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time between two readings of procfs. Between them, calls are read from the kernel more often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const DRAIN_EVERY: Duration = Duration::from_millis(5);
/// Examining a process with many threads and mappings takes long. The pause before the next examination is this many
/// times the duration, up to a limit.
const SHARE: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of bytes of the paths of listed files.
const PATH_BYTES: usize = 8 << 20;

/// A running process that is watched.
#[derive(Debug)]
pub struct Attached {
    process: Process,
    started: u64,
    attached_at: Instant,
    time: Option<Duration>,
    until: Option<Instant>,
    next_look: Instant,
    /// The time of the next reading of the counters alone, which is faster than a look.
    next_reading: Instant,
    examiner: Examiner,
    /// The process with which the next look begins: the first one for which the others left too little.
    first: Option<Identity>,
    read_before: Option<ProcessIo>,
    input: Input,
    nvfs_before: Option<u64>,
    report: WatchReport,
    recorder: Option<ProbeThread>,
    tally: Tally,
    /// The numbers of the recorder for exactly the calls in `tally`.
    counted: RecorderState,
    /// The processes whose settings are known: their start time and the address of their first copy of libcufile.
    configured: HashMap<u32, (u64, u64)>,
    log: Option<ProcessLog>,
    /// The messages in the log at its last reading.
    log_text: Option<String>,
}

/// Attaches to a process until it ends or the time is over.
///
/// # Errors
/// Fails if the process does not exist.
pub fn attach(pid: u32, time: Option<Duration>) -> Result<Attached, WatchError> {
    attach_with(pid, time, Examiner::default())
}

fn attach_with(pid: u32, time: Option<Duration>, mut examiner: Examiner) -> Result<Attached, WatchError> {
    let number = i32::try_from(pid).unwrap_or(i32::MAX);
    // The number can be that of a thread.
    let number = Process::new(number).and_then(|task| task.status()).map_or(number, |status| status.tgid);
    let pid = u32::try_from(number).unwrap_or(pid);
    let process = Process::new(number).map_err(|error| {
        let why = match error {
            procfs::ProcError::NotFound(_) => "there is no such process".to_owned(),
            other => other.to_string(),
        };
        WatchError::Attach(pid, why)
    })?;
    let failed = |error: procfs::ProcError| WatchError::Attach(pid, error.to_string());
    let stat = process.stat().map_err(failed)?;
    if stat.state == 'Z' {
        return Err(WatchError::Attach(pid, "it has ended".to_owned()));
    }
    let other_user = !is_own(&folder(number));
    let started = stat.starttime;
    let mut input = Input::default();
    let command = examiner.ask(identity(pid), move |allowed| trust::process::command_line(&folder(number), allowed));
    let processes = input.tree(pid);
    input.add(&processes, &mut examiner);
    let mut attached = Attached {
        started,
        attached_at: Instant::now(),
        time,
        until: None,
        next_look: Instant::now(),
        next_reading: Instant::now(),
        examiner,
        first: None,
        read_before: input.total(),
        input,
        nvfs_before: routes::nvfs_reads(),
        report: WatchReport {
            command: trust::process::shown_command(command.ok().and_then(Result::ok).unwrap_or_default()),
            attached: Some(AttachedProcess { pid, other_user, ..AttachedProcess::default() }),
            ..WatchReport::default()
        },
        process,
        recorder: None,
        tally: Tally::default(),
        counted: RecorderState::default(),
        configured: HashMap::new(),
        log: None,
        log_text: None,
    };
    match ProbeThread::start(pid) {
        Ok(recorder) => attached.recorder = Some(recorder),
        Err(why) => attached.report.attached.iter_mut().for_each(|seen| seen.not_recorded = Some(why.clone())),
    }
    attached.tally.began_late = true;
    attached.tally.began_at(now_ns());
    attached.look();
    attached.report.attached.iter_mut().for_each(|seen| seen.loaded_late = false);
    // The kernel may need a second or more to set the probes. The time to watch begins then.
    attached.attached_at = Instant::now();
    attached.until = attached.time.map(|time| attached.attached_at + time);
    Ok(attached)
}

impl Attached {
    /// Takes the calls of a short time, and examines the process if it is due. Returns whether more can follow.
    pub(super) fn look_again(&mut self) -> bool {
        let next = Instant::now() + LOOK_EVERY;
        let next = self.until.map_or(next, |until| next.min(until));
        while Instant::now() < next {
            let time = DRAIN_EVERY.min(next.saturating_duration_since(Instant::now()));
            std::thread::sleep(time);
            self.drain();
        }
        // The process may have ended, and another process may have its number now.
        let runs = self.process.stat().is_ok_and(|stat| stat.starttime == self.started && stat.state != 'Z');
        if !runs {
            self.drain();
            // Only the parent of the process can get its exit status.
            self.report.ended = Some(ProgramEnd::Unknown);
            return false;
        }
        let is_over = |until: Option<Instant>| until.is_some_and(|until| Instant::now() >= until);
        let began = Instant::now();
        if is_over(self.until) || began >= self.next_look {
            let probing = self.look();
            self.next_look = Instant::now() + pause(began.elapsed().saturating_sub(probing));
            self.drain();
        } else if began >= self.next_reading {
            self.examiner.begin_round();
            self.read_counters();
            self.next_reading = Instant::now() + pause(began.elapsed());
        }
        !is_over(self.until)
    }

    /// Reads the counters at the end of the session. After the end of the process, only root can read them, and only until
    /// its parent has waited for it.
    pub(super) fn finish(&mut self) {
        let of = (self.process.pid.unsigned_abs(), self.started);
        let exists = identity(of.0) == of;
        if exists {
            self.examiner.begin_round();
            self.read_counters();
        }
        // A process that has ended waits for no child any more.
        let lacks_child = self.report.ended.is_some() && self.input.has_ended_process;
        let is_complete = exists && self.input.is_current(of) && !lacks_child;
        self.report.attached.iter_mut().for_each(|seen| seen.reads_at_least |= !is_complete);
    }

    fn drain(&mut self) {
        let Some(recorder) = &self.recorder else { return };
        match recorder.drain(&mut self.tally) {
            Ok(state) => self.counted = state,
            Err(why) => {
                self.recorder = None;
                if let Some(seen) = self.report.attached.as_mut() {
                    seen.recorded = false;
                    seen.not_recorded = Some(why.to_owned());
                }
            }
        }
    }

    /// Adds probes to the copies of libcufile that the process and its children have mapped.
    fn probe(&mut self, libraries: &[(u32, (u64, u64), PathBuf)]) {
        let Some(seen) = self.report.attached.as_mut() else { return };
        for (process, range, library) in libraries {
            match self.recorder.as_ref().map(|recorder| recorder.add(*process, *range, library.clone())) {
                Some(Ok(Some(group))) => {
                    (seen.recorded, seen.loaded_late) = (true, true);
                    self.tally.take(&group);
                }
                Some(Err(why)) => {
                    seen.not_recorded.get_or_insert(why);
                    if !seen.recorded {
                        self.recorder = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// The calls since the last report for timelines, and the number of further calls.
    pub(super) fn take_calls(&mut self) -> (Vec<WatchedCall>, u64) {
        self.tally.recent.take()
    }

    /// Reads the counters of the process and its descendants.
    fn read_counters(&mut self) -> Vec<Process> {
        let mut processes = self.input.tree(self.process.pid.unsigned_abs());
        input::begin_with(&mut processes, self.first);
        self.input.add(&processes, &mut self.examiner);
        self.note_reads();
        self.note_unexamined();
        processes
    }

    fn note_unexamined(&mut self) {
        if let Some(seen) = self.report.attached.as_mut() {
            seen.unexamined_processes = self.examiner.unexamined().max(self.tally.unexamined());
        }
    }

    /// Examines the process. Returns the time in which probes were set, because it is not spent in procfs.
    fn look(&mut self) -> Duration {
        self.examiner.begin_round();
        self.look_at_files();
        self.look_at_log();
        let processes = self.read_counters();
        // A probe is set in the file of a library, so one process that maps the file is enough.
        let mut libraries: Vec<(u32, (u64, u64), PathBuf)> = Vec::new();
        let mut mapping: Vec<(u32, PathBuf)> = Vec::new();
        for process in &processes {
            let of = identity(process.pid.unsigned_abs());
            let known = self.configured.get(&of.0).filter(|(began, _)| *began == of.1).map(|(_, address)| *address);
            let seen = self.examiner.ask(of, move |allowed| Copies::of(of.0, known, allowed));
            let Ok(Copies { mapped, settings }) = seen else { continue };
            // A program that starts has no variables for a moment.
            if let Some((settings, ((address, _), _))) = settings.zip(mapped.first()) {
                self.configured.insert(of.0, (of.1, *address));
                self.tally.settings.add(settings);
            }
            for (range, path) in mapped {
                mapping.push((of.0, path.clone()));
                if libraries.len() < probes::MOST_COPIES && !libraries.iter().any(|(_, _, known)| *known == path) {
                    libraries.push((of.0, range, path));
                }
            }
        }
        self.first = self.examiner.left_out();
        self.note_unexamined();
        let began = Instant::now();
        self.probe(&libraries);
        let probing = began.elapsed();
        mapping.iter().for_each(|(process, path)| self.tally.maps(*process, &path.to_string_lossy()));
        probing
    }

    /// Asks about the watched process.
    fn ask<T: Send + 'static>(
        &mut self,
        examine: impl FnOnce(u32, &mut Allowance) -> T + Send + 'static,
    ) -> Result<T, Unexamined> {
        let pid = self.process.pid.unsigned_abs();
        self.examiner.ask((pid, self.started), move |allowed| examine(pid, allowed))
    }

    /// Reads the new lines of the process's log.
    fn look_at_log(&mut self) {
        if self.report.attached.as_ref().is_none_or(|seen| seen.libcufile.is_none()) {
            return;
        }
        let known = self.log.take();
        let read = self.ask(move |pid, allowed| {
            let mut log = known.or_else(|| ProcessLog::find(pid, allowed))?;
            log.read(allowed);
            Some(log)
        });
        // Without an answer, the log is searched for again. The report keeps the lines that were read.
        self.log = read.ok().flatten();
        let Some((log, seen)) = self.log.as_ref().zip(self.report.attached.as_mut()) else { return };
        let (path, lines, compat) = (log.path.clone(), log.lines, log.reports_compat());
        let before = seen.log.as_ref().map(|before| before.lines);
        // A log that is read from its beginning again is not read completely, or it was truncated.
        if before.is_some_and(|before| before > lines) {
            return;
        }
        if before != Some(lines) {
            self.log_text = Some(log.text());
        }
        seen.log = Some(AttachedLog { path, lines, compat, causes: Vec::new() });
    }

    /// The messages of the process in its log.
    pub(super) fn log_text(&self) -> Option<String> {
        self.log_text.clone()
    }

    fn machine(&self) -> MachineRoutes {
        let log = self.report.attached.as_ref().and_then(|seen| seen.log.as_ref());
        let log_reports_compat = log.is_some_and(|log| log.compat);
        MachineRoutes { log_reports_compat, ..MachineRoutes::look(self.nvfs_before, self.tally.settings.p2pdma()) }
    }

    /// Reads the open and mapped files of the process.
    fn look_at_files(&mut self) {
        let examined = self.ask(Files::of);
        let Some(seen) = self.report.attached.as_mut() else { return };
        let Ok(Files { readable, has_foreign_mounts, libcufile, mut files }) = examined else { return };
        // Both stay as they are if the process ends at this moment.
        seen.readable |= readable;
        if readable {
            seen.has_foreign_mounts = has_foreign_mounts;
        }
        seen.libcufile = libcufile.or_else(|| seen.libcufile.take());
        // A file that was seen once stays in the report, even if it was closed since.
        let mut path_bytes: usize = files.keys().map(String::len).sum();
        for file in std::mem::take(&mut seen.files) {
            path_bytes += file.path.len();
            if (files.len() < MOST_FILES && path_bytes < PATH_BYTES) || file.path == MORE_FILES {
                files.entry(file.path.clone()).or_insert(file);
            }
        }
        seen.files = files.into_values().collect();
    }

    /// Notes the bytes that were read since the attach.
    fn note_reads(&mut self) {
        let Some(seen) = self.report.attached.as_mut() else { return };
        seen.reads_at_least = self.input.is_partial();
        if let Some((now, before)) = self.input.total().zip(self.read_before) {
            seen.read_call_bytes = Some(now.read_call_bytes.saturating_sub(before.read_call_bytes));
            seen.storage_read_bytes = Some(now.storage_read_bytes.saturating_sub(before.storage_read_bytes));
        }
        seen.nvfs_reads = routes::nvfs_reads().zip(self.nvfs_before).map(|(now, then)| now.saturating_sub(then));
    }

    /// The current report.
    pub(super) fn report(&self) -> WatchReport {
        let wall_ns = u64::try_from(self.attached_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.recorder.is_none() || self.report.attached.as_ref().is_none_or(|seen| !seen.recorded) {
            let mut report =
                WatchReport { wall_ns, configurations: self.tally.settings.configurations(), ..self.report.clone() };
            if let Some(seen) = report.attached.as_mut().filter(|seen| seen.libcufile.is_some()) {
                (seen.route, seen.route_proof) = self.machine().route(true);
            }
            return report;
        }
        let RecorderState { totals, open_calls, processes, uncounted } = self.counted.clone();
        let mut report = WatchReport {
            wall_ns,
            command: self.report.command.clone(),
            ended: self.report.ended,
            attached: self.report.attached.clone(),
            open_calls,
            // The results of stream transfers are not known, because they are read too late.
            unfinished: 0,
            uncounted,
            ..self.tally.report(&totals)
        };
        let machine = self.machine();
        if let Some(seen) = &mut report.attached {
            seen.processes = processes;
            (seen.route, seen.route_proof) = machine.route(true);
        }
        routes::decide(&mut report, self.tally.requested_bytes(), machine);
        report
    }
}

/// The pause after an examination that took this time.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(SHARE).min(LONGEST_PAUSE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::trust::Limits;
    use crate::trust::waiting_tests::patient;

    fn attached(pid: u32, time: Option<Duration>) -> Attached {
        attach_with(pid, time, Examiner::new(patient())).unwrap()
    }

    #[test]
    fn open_and_mapped_files_of_a_process_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        std::fs::write(&path, "x").unwrap();
        let open = std::fs::File::open(&path).unwrap();
        let report = attached(std::process::id(), Some(Duration::ZERO)).report();
        let seen = report.attached.unwrap();
        let wanted = path.canonicalize().unwrap().to_string_lossy().into_owned();
        let file = seen.files.iter().find(|file| file.path == wanted).unwrap();
        assert!(seen.readable && file.descriptors == 1 && !file.o_direct && !file.mapped, "{file:?}");
        assert!(!seen.files.iter().any(|file| file.path.contains("libc.so")));
        assert_eq!(seen.libcufile, None);
        drop(open);
        assert!(attach(u32::MAX, None).is_err());
    }

    #[test]
    fn bytes_are_at_least_if_a_process_ended_after_its_last_reading() {
        const READ: u64 = 48 << 20;
        for is_waited_for in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::File::create(dir.path().join("data")).unwrap().set_len(READ).unwrap();
            let script = "while test ! -e go; do sleep 0.02; done; exec cat data";
            let mut command = std::process::Command::new("sh");
            command.args(["-c", script]).current_dir(dir.path()).stdout(std::process::Stdio::null());
            let mut child = command.spawn().unwrap();
            let mut attached = attached(child.id(), None);
            std::fs::write(dir.path().join("go"), "").unwrap();
            if is_waited_for {
                child.wait().unwrap();
            }
            let until = Instant::now() + Duration::from_secs(60);
            while attached.look_again() {
                assert!(Instant::now() < until);
            }
            attached.finish();
            let seen = attached.report().attached.unwrap();
            child.wait().unwrap();
            let is_complete = seen.read_call_bytes.is_some_and(|read| read >= READ);
            // Root reads the counters of a process that has ended, until its parent waits for it.
            assert!(seen.reads_at_least || (is_complete && !is_waited_for), "{seen:?}");
        }
    }

    #[test]
    fn the_bytes_of_the_last_moment_of_a_session_are_counted() {
        // A pipe holds this much at least.
        const READ: usize = 4096;
        let piped = std::process::Stdio::piped;
        let mut command = std::process::Command::new("dd");
        command.arg("bs=4096").stdin(piped()).stdout(piped()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        // After its first block it has started completely.
        let mut copy = || {
            let mut bytes = [0; READ];
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), &bytes).unwrap();
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut bytes).unwrap();
        };
        copy();
        let mut attached = attached(pid, None);
        copy();
        attached.finish();
        let seen = attached.report().attached.unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(seen.read_call_bytes, Some(READ as u64), "{seen:?}");
    }

    #[test]
    fn a_report_of_a_log_stays_if_a_later_look_has_no_answer() {
        let dir = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("cufile.log")).unwrap();
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("60").stdout(log.try_clone().unwrap()).spawn().unwrap();
        let line = format!(" 27-11-2026 14:39:59:877 [pid={} tid=9] NOTICE  running in compatible mode\n", child.id());
        std::io::Write::write_all(&mut &log, line.as_bytes()).unwrap();
        let mut attached = attached(child.id(), None);
        attached.report.attached.as_mut().unwrap().libcufile = Some("/l/libcufile.so.0".to_owned());
        let shown = |attached: &Attached| (attached.machine().log_reports_compat, attached.log_text());
        attached.look_at_log();
        let before = shown(&attached);
        attached.examiner = Examiner::new(Limits { round: Duration::ZERO, ..Limits::default() });
        attached.look_at_log();
        let (is_lost, later) = (attached.log.is_none(), shown(&attached));
        log.set_len(0).unwrap();
        attached.examiner = Examiner::new(patient());
        attached.look_at_log();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(before.0 && before.1.as_ref().is_some_and(|text| text.ends_with("running in compatible mode\n")));
        assert!(is_lost && later == before);
        assert!(attached.log.is_some() && shown(&attached) == before, "it is truncated and read again");
    }

    #[test]
    fn the_pause_after_a_long_examination_is_short() {
        assert_eq!(pause(Duration::from_millis(2)), Duration::from_millis(20));
        assert_eq!(pause(Duration::from_secs(2)), LONGEST_PAUSE);
    }
}
