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
use crate::trust;
use procfs::process::{FDTarget, MMapPath, Process};
use rustix::process::geteuid;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two readings of procfs. Between them, calls are read from the kernel more often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const DRAIN_EVERY: Duration = Duration::from_millis(5);
/// Examining a process with many threads and mappings takes long. The pause before the next examination is this many
/// times the duration.
const SHARE: u32 = 10;
/// Maximum number of listed files of a process.
const MOST_FILES: usize = 10_000;
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
    look_took: Duration,
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
    let other_user = process.uid().map_err(failed)? != geteuid().as_raw();
    let started = stat.starttime;
    let mut input = Input::default();
    input.add(&input.tree(pid));
    let mut attached = Attached {
        started,
        attached_at: Instant::now(),
        time,
        until: None,
        look_took: Duration::ZERO,
        read_before: input.total(),
        input,
        nvfs_before: routes::nvfs_reads(),
        report: WatchReport {
            command: trust::process::command_line(&trust::process::folder(number)).unwrap_or_default(),
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
    /// Examines the process once. Returns whether it can be examined again.
    pub(super) fn look_again(&mut self) -> bool {
        let next = Instant::now() + LOOK_EVERY.max(self.look_took * SHARE);
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
        let began = Instant::now();
        self.look();
        self.look_took = began.elapsed();
        self.drain();
        self.until.is_none_or(|until| Instant::now() < until)
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

    fn look(&mut self) {
        let processes = self.input.tree(self.process.pid.unsigned_abs());
        self.input.add(&processes);
        self.look_at_files();
        // A probe is set in the file of a library, so one process that maps the file is enough.
        let mut libraries: Vec<(u32, (u64, u64), PathBuf)> = Vec::new();
        for process in processes {
            let pid = process.pid.unsigned_abs();
            for map in outside::maps(&process).into_iter().flatten() {
                let MMapPath::Path(path) = map.pathname else { continue };
                if !is_libcufile(&path) {
                    continue;
                }
                if self.configured.insert(pid)
                    && let Some(settings) = Settings::of(&process)
                {
                    self.tally.settings.add(settings);
                }
                if libraries.len() < probes::MOST_COPIES && !libraries.iter().any(|(_, _, known)| *known == path) {
                    libraries.push((pid, map.address, path));
                }
            }
        }
        self.probe(&libraries);
        self.look_at_log();
    }

    /// Reads the new lines of the process's log.
    fn look_at_log(&mut self) {
        let Some(seen) = self.report.attached.as_mut().filter(|seen| seen.libcufile.is_some()) else { return };
        if self.log.is_none() {
            self.log = ProcessLog::find(&self.process);
        }
        if let Some(log) = &mut self.log {
            log.read();
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

    /// Reads the open files and counters of the process.
    fn look_at_files(&mut self) {
        let Some(seen) = self.report.attached.as_mut() else { return };
        let mut files: BTreeMap<String, AttachedFile> = BTreeMap::new();
        let maps = outside::maps(&self.process);
        let descriptors = self.process.fd();
        // It stays true if the process ends at this moment.
        seen.readable |= maps.is_ok() && descriptors.is_ok();
        for map in maps.into_iter().flatten() {
            let MMapPath::Path(path) = map.pathname else { continue };
            if is_libcufile(&path) {
                seen.libcufile = Some(path.to_string_lossy().into_owned());
            }
            if is_data(&path) && !map.perms.contains(procfs::process::MMPermissions::EXECUTE) && !is_library(&path) {
                entry(&mut files, &path).mapped = true;
            }
        }
        for descriptor in descriptors.into_iter().flatten().flatten() {
            let FDTarget::Path(path) = descriptor.target else { continue };
            if !is_data(&path) {
                continue;
            }
            let direct = probes::flags(seen.pid, descriptor.fd).is_some_and(|flags| flags & O_DIRECT != 0);
            let file = entry(&mut files, &path);
            file.o_direct = direct && (file.o_direct || file.descriptors == 0);
            file.descriptors += 1;
        }
        // A file that was seen once stays in the report, even if it was closed since.
        for file in std::mem::take(&mut seen.files) {
            if files.len() < MOST_FILES || file.path == MORE_FILES {
                files.entry(file.path.clone()).or_insert(file);
            }
        }
        seen.files = files.into_values().collect();
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

fn entry<'a>(files: &'a mut BTreeMap<String, AttachedFile>, path: &Path) -> &'a mut AttachedFile {
    let mut path = path.to_string_lossy().into_owned();
    if files.len() >= MOST_FILES && !files.contains_key(&path) {
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
        let attached = attach(std::process::id(), Some(Duration::ZERO)).unwrap();
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
}
