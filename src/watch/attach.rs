//! Watches a running process. As root, its calls are recorded with kernel probes. procfs shows which libcufile it has
//! mapped, which files it uses, and how much it reads.

use super::error::WatchError;
use super::outside::{self, Input};
use super::probe_thread::{ProbeThread, RecorderState};
use super::probes;
use super::process_log::ProcessLog;
use super::rings::now_ns;
use super::routes::{self, MachineRoutes};
use super::settings::Settings;
use super::tally::Tally;
use crate::core::{
    AttachedFile, AttachedLog, AttachedProcess, MORE_FILES, ProcessIo, ProgramEnd, WatchReport, WatchedCall,
    is_libcufile,
};
use crate::trust::process::{folder, has_these_mounts, identity, is_own};
use crate::trust::{self, Allowance, Examiner, Unexamined};
use procfs::process::{MMPermissions, MMapPath, Process};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two readings of procfs. Between them, calls are read from the kernel more often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const DRAIN_EVERY: Duration = Duration::from_millis(5);
/// Examining a process with many threads and mappings takes long. The pause before the next examination is this many
/// times the duration, up to a limit.
const SHARE: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of listed files of a process, and maximum number of bytes of their paths.
const MOST_FILES: usize = 10_000;
const PATH_BYTES: usize = 8 << 20;
/// Maximum number of descriptors of a file whose flags are read. The kernel writes all locks of a file after the flags.
const MOST_FLAGS: u64 = 16;
/// Maximum number of bytes of the facts about a descriptor.
const INFO_BYTES: u64 = 4096;
/// The bit of O_DIRECT in the flags of a descriptor.
const O_DIRECT: u32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

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
    /// The position in the tree of the first process for which the limit of the last look left no time.
    first: usize,
    read_before: Option<ProcessIo>,
    input: Input,
    nvfs_before: Option<u64>,
    report: WatchReport,
    recorder: Option<ProbeThread>,
    tally: Tally,
    /// The numbers of the recorder for exactly the calls in `tally`.
    counted: RecorderState,
    /// The processes whose settings are known.
    configured: HashSet<u32>,
    log: Option<ProcessLog>,
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
        first: 0,
        read_before: input.total(),
        input,
        nvfs_before: routes::nvfs_reads(),
        report: WatchReport {
            command: command.ok().and_then(Result::ok).unwrap_or_default(),
            attached: Some(AttachedProcess { pid, other_user, ..AttachedProcess::default() }),
            ..WatchReport::default()
        },
        process,
        recorder: None,
        tally: Tally::default(),
        counted: RecorderState::default(),
        configured: HashSet::new(),
        log: None,
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
        if let Some(state) = recorder.drain(&mut self.tally) {
            self.counted = state;
            return;
        }
        self.recorder = None;
        if let Some(seen) = self.report.attached.as_mut() {
            seen.recorded = false;
            seen.not_recorded = Some("the memory of the process could not be read".to_owned());
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
        let processes = self.input.tree(self.process.pid.unsigned_abs());
        self.input.add(&processes, &mut self.examiner);
        self.note_reads();
        self.note_unexamined();
        processes
    }

    fn note_unexamined(&mut self) {
        if let Some(seen) = self.report.attached.as_mut() {
            seen.unexamined_processes = seen.unexamined_processes.max(self.examiner.unexamined());
        }
    }

    /// Examines the process. Returns the time in which probes were set, which is no load of procfs.
    fn look(&mut self) -> Duration {
        self.examiner.begin_round();
        self.look_at_files();
        let mut processes = self.read_counters();
        let first = std::mem::take(&mut self.first) % processes.len().max(1);
        processes.rotate_left(first);
        // A probe is set in the file of a library, so one process that maps the file is enough.
        let mut libraries: Vec<(u32, (u64, u64), PathBuf)> = Vec::new();
        let mut mapping: Vec<(u32, PathBuf)> = Vec::new();
        for (at, process) in processes.iter().enumerate() {
            let of = identity(process.pid.unsigned_abs());
            let wants_settings = !self.configured.contains(&of.0);
            let seen = self.examiner.ask(of, move |allowed| Copies::of(of.0, wants_settings, allowed));
            if seen.as_ref().is_err_and(|why| *why == Unexamined::Limit) && self.first == 0 {
                self.first = first + at;
            }
            let Ok(Copies { mapped, settings }) = seen else { continue };
            if !mapped.is_empty() {
                self.configured.insert(of.0);
            }
            settings.into_iter().for_each(|settings| self.tally.settings.add(settings));
            for (range, path) in mapped {
                mapping.push((of.0, path.clone()));
                if libraries.len() < probes::MOST_COPIES && !libraries.iter().any(|(_, _, known)| *known == path) {
                    libraries.push((of.0, range, path));
                }
            }
        }
        self.look_at_log();
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
        self.log = read.ok().flatten();
        if let Some((log, seen)) = self.log.as_ref().zip(self.report.attached.as_mut()) {
            let (path, lines, compat) = (log.path.clone(), log.lines, log.reports_compat());
            seen.log = Some(AttachedLog { path, lines, compat, causes: Vec::new() });
        }
    }

    /// The messages of the process in its log.
    pub(super) fn log_text(&self) -> Option<String> {
        self.log.as_ref().map(ProcessLog::text)
    }

    fn machine(&self) -> MachineRoutes {
        let log_reports_compat = self.log.as_ref().is_some_and(ProcessLog::reports_compat);
        MachineRoutes {
            log_reports_compat,
            ..MachineRoutes::look(self.nvfs_before, self.tally.settings.may_use_p2pdma)
        }
    }

    /// Reads the open and mapped files of the process.
    fn look_at_files(&mut self) {
        let examined = self.ask(Files::of);
        let Some(seen) = self.report.attached.as_mut() else { return };
        let Ok(Files { readable, has_foreign_mounts, libcufile, mut files }) = examined else { return };
        // It stays true if the process ends at this moment.
        seen.readable |= readable;
        seen.has_foreign_mounts = has_foreign_mounts;
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
        let RecorderState { totals, open_calls, processes } = self.counted.clone();
        let mut report = WatchReport {
            wall_ns,
            command: self.report.command.clone(),
            ended: self.report.ended,
            attached: self.report.attached.clone(),
            open_calls,
            // The results of stream transfers are not known, because they are read too late.
            unfinished: 0,
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

/// The copies of libcufile that a process has mapped, and its settings if they were wanted and it has a copy.
struct Copies {
    mapped: Vec<((u64, u64), PathBuf)>,
    settings: Option<Settings>,
}

impl Copies {
    fn of(pid: u32, wants_settings: bool, allowed: &mut Allowance) -> Self {
        let mut mapped: Vec<((u64, u64), PathBuf)> = Vec::new();
        for map in outside::maps(pid, allowed).into_iter().flatten() {
            let MMapPath::Path(path) = map.pathname else { continue };
            let is_new = || !mapped.iter().any(|(_, known)| *known == path);
            if is_libcufile(&path) && mapped.len() < probes::MOST_COPIES && is_new() {
                mapped.push((map.address, path));
            }
        }
        let settings = (wants_settings && !mapped.is_empty()).then(|| Settings::of(pid, allowed)).flatten();
        Self { mapped, settings }
    }
}

/// The open and mapped files of a process.
struct Files {
    readable: bool,
    has_foreign_mounts: bool,
    libcufile: Option<String>,
    files: BTreeMap<String, AttachedFile>,
}

impl Files {
    fn of(pid: u32, allowed: &mut Allowance) -> Self {
        let process = folder(pid.cast_signed());
        let maps = outside::maps(pid, allowed);
        let descriptors = std::fs::read_dir(process.join("fd"));
        let readable = maps.is_ok() && descriptors.is_ok();
        // Its paths name other files here, and the user decides whether their file systems answer.
        let has_foreign_mounts = readable && !is_own(&process) && !has_these_mounts(&process);
        let is_listed = |path: &Path| !has_foreign_mounts && is_data(path);
        let mut libcufile = None;
        let mut files = BTreeMap::new();
        let mut last = PathBuf::new();
        for map in maps.into_iter().flatten() {
            let MMapPath::Path(path) = map.pathname else { continue };
            if path == last {
                continue;
            }
            if is_libcufile(&path) {
                libcufile = Some(path.to_string_lossy().into_owned());
            }
            // All mappings of a file are adjacent, and a part of a library can be executed.
            if map.perms.contains(MMPermissions::EXECUTE) || is_library(&path) {
                continue;
            }
            if !allowed.may_go_on() {
                break;
            }
            if is_listed(&path) {
                entry(&mut files, &path, allowed).mapped = true;
            }
            last = path;
        }
        for descriptor in descriptors.into_iter().flatten().flatten() {
            if !allowed.descriptor() {
                break;
            }
            let Ok(path) = descriptor.path().read_link() else { continue };
            if !is_listed(&path) {
                continue;
            }
            let file = entry(&mut files, &path, allowed);
            if file.descriptors < MOST_FLAGS {
                let info = allowed.beginning(&process.join("fdinfo").join(descriptor.file_name()), INFO_BYTES);
                let direct = info.is_ok_and(|info| flags(&info.bytes).is_some_and(|flags| flags & O_DIRECT != 0));
                file.o_direct = direct && (file.o_direct || file.descriptors == 0);
            }
            file.descriptors += 1;
        }
        Self { readable, has_foreign_mounts, libcufile, files }
    }
}

/// The pause after an examination that took this time.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(SHARE).min(LONGEST_PAUSE)
}

/// The flags in the facts about a descriptor.
fn flags(info: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(info);
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok()
}

fn entry<'a>(
    files: &'a mut BTreeMap<String, AttachedFile>,
    path: &Path,
    allowed: &mut Allowance,
) -> &'a mut AttachedFile {
    let mut path = path.to_string_lossy().into_owned();
    if !files.contains_key(&path) && (files.len() >= MOST_FILES || !allowed.path(&path)) {
        path = MORE_FILES.to_owned();
    }
    files.entry(path.clone()).or_insert_with(|| {
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        AttachedFile { path, bytes, ..AttachedFile::default() }
    })
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn is_library(path: &Path) -> bool {
    name(path).ends_with(".so") || name(path).contains(".so.")
}

/// Whether a path is a regular file outside /proc and /sys. Models can be in /dev/shm.
fn is_data(path: &Path) -> bool {
    path.is_absolute() && !["/proc", "/sys"].iter().any(|folder| path.starts_with(folder)) && path.is_file()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn open_and_mapped_files_of_a_process_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        std::fs::write(&path, "x").unwrap();
        let open = std::fs::File::open(&path).unwrap();
        let attached = attach_patiently(Some(Duration::ZERO));
        let report = attached.report();
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
            let mut attached = attach(child.id(), None).unwrap();
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

    /// Attaches to this process and waits long for each answer, because the machine can be busy.
    fn attach_patiently(time: Option<Duration>) -> Attached {
        let long = Duration::from_secs(60);
        let limits = trust::Limits { process: long, round: long, ..trust::Limits::default() };
        attach_with(std::process::id(), time, Examiner::new(limits)).unwrap()
    }

    #[test]
    fn the_bytes_of_the_last_moment_of_a_session_are_counted() {
        const READ: usize = 4 << 20;
        let mut attached = attach_patiently(None);
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        std::io::Read::read_exact(&mut &zeros, &mut vec![0; READ]).unwrap();
        attached.finish();
        let seen = attached.report().attached.unwrap();
        assert!(seen.read_call_bytes.is_some_and(|read| read >= READ as u64), "{seen:?}");
    }

    #[test]
    fn the_pause_after_a_long_examination_is_short() {
        assert_eq!(pause(Duration::from_millis(2)), Duration::from_millis(20));
        assert_eq!(pause(Duration::from_secs(2)), LONGEST_PAUSE);
    }
}
