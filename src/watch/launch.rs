//! Starts a program with the recording library and reads its calls until it ends.

use super::error::WatchError;
use super::files::File;
use super::group::Group;
use super::library::{self, Library};
use super::losses::Losses;
use super::not_loaded;
use super::outside::Outside;
use super::rings::{Reader, Totals, now_ns};
use super::routes::{self, MachineRoutes};
use super::starts::Starts;
use super::tally::Tally;
use crate::core::units::plural;
use crate::core::{NotLoaded, OpenCall, ProgramEnd, Route, WITHOUT_SPACE, WatchReport, WatchedCall};
use crate::device::signals;
use cufile_audit::layout::{ENV_FILE, FUNCTION_COUNT, header, options};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The environment variable with the libraries that the dynamic linker loads for auditing.
const ENV_AUDIT: &str = "LD_AUDIT";
/// Time between two readings of the rings. A ring has space for 2048 calls.
const DRAIN_EVERY: Duration = Duration::from_millis(2);
/// Time between two looks at a program that has paused the recording. Nothing is read in between, so a benchmark that
/// alternates between recorded and other calls measures the work of this process too.
const PAUSED_LOOK: Duration = Duration::from_millis(5);
/// Ended threads are searched for at every n-th reading, or if few rings are left for new threads. A search takes
/// time in proportion to the rings, so the pause after it is this many times its duration.
const LOOK_FOR_ENDED: u64 = 50;
const SEARCH_SHARE: u32 = 4;

/// Time in which the processes that a program started can end after it. Helper processes end shortly after it:
/// the fork server and the resource tracker of Python's multiprocessing need 20 to 57 ms (2026-11-29, 2 cores, 5 runs).
const GRACE: Duration = Duration::from_millis(300);
/// Time between two looks at these processes.
const GRACE_LOOK: Duration = Duration::from_millis(10);

/// Maximum number of files whose share in the page cache is read. A KV cache can have very many.
const MOST_CACHE_LOOKS: usize = 1024;

/// The program to watch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and its arguments. It must not be empty.
    pub command: Vec<OsString>,
    /// Whether to enable libcufile's level-3 statistics in the program.
    pub statistics: bool,
    /// Whether a proven direct route is required for every transfer.
    pub requires_direct: bool,
    /// The destination of the program's output.
    pub output: Output,
}

/// The destination of the program's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Both streams are those of gds-top.
    #[default]
    Inherited,
    /// Standard output is redirected to standard error.
    ToStderr,
    /// The output is discarded, because the screens need the terminal. The program also gets no input.
    Dropped,
}

/// The numbers in the shared file that change with each call.
#[derive(Clone, Debug)]
struct Counted {
    totals: Totals,
    open_calls: Vec<OpenCall>,
    /// The number of calls without a ring.
    uncounted: u64,
}

/// A running program that is being watched.
#[derive(Debug)]
pub struct Watched {
    library: Library,
    child: Child,
    program: OsString,
    command: Vec<String>,
    started_ns: u64,
    /// The time at which the program was seen to have ended.
    ended_ns: Option<u64>,
    /// The end of the last recorded call, in nanoseconds.
    last_call_ns: u64,
    reader: Reader,
    tally: Tally,
    outside: Outside,
    starts: Starts,
    /// Calls that are not processed yet, because an earlier call may still arrive.
    waiting: Vec<Group>,
    /// All calls before this time have arrived, in nanoseconds.
    complete_until_ns: u64,
    drains: u64,
    /// Whether the program has paused the recording at some time.
    paused: bool,
    /// The first and the last time in nanoseconds at which the recording was seen paused, since the last reading.
    pause_ns: Option<[u64; 2]>,
    /// Whether the library or the shared file was removed or replaced.
    is_gone: bool,
    next_search: Instant,
    still_running: u64,
    /// The numbers at the last reading of calls. Processes that still run change those in the file after it.
    at_end: Option<Counted>,
    ended: Option<ProgramEnd>,
    requires_direct: bool,
    not_loaded: Option<NotLoaded>,
    /// The route that the counters of libcufile prove so far.
    held: Option<Route>,
    nvfs_reads_before: Option<u64>,
}

/// Starts the program.
///
/// # Errors
/// Fails if a temporary file cannot be written or the program cannot be started.
pub fn start(launch: &Launch) -> Result<Watched, WatchError> {
    let library = Library::install(launch.statistics)?;
    let (program, arguments) = launch
        .command
        .split_first()
        .ok_or_else(|| WatchError::Start(OsString::new(), std::io::Error::from(std::io::ErrorKind::InvalidInput)))?;
    let mut audit = OsString::from(library.path());
    // A second copy of this library, of a session that watches gds-top, would record each call twice.
    let others = std::env::var_os(ENV_AUDIT).unwrap_or_default();
    let is_other = |path: &&[u8]| !path.is_empty() && !path.ends_with(library::NAME.as_bytes());
    for other in others.as_bytes().split(|byte| *byte == b':').filter(is_other) {
        audit.push(":");
        audit.push(OsStr::from_bytes(other));
    }
    let spawn = |program: &OsStr, script: Option<PathBuf>| {
        let mut command = Command::new(program);
        command.args(script).args(arguments);
        command.env(ENV_AUDIT, &audit).env(ENV_FILE, &library.shared);
        signals::keep_ignored(&mut command);
        match launch.output {
            Output::Inherited => {}
            Output::ToStderr => _ = command.stdout(Stdio::from(std::io::stderr())),
            Output::Dropped => _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
        }
        command.spawn()
    };
    // Like execvp, run a script that names no interpreter by the shell.
    let by_shell = |error: std::io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOEXEC) => spawn(OsStr::new("/bin/sh"), not_loaded::find(program)),
        _ => Err(error),
    };
    let nvfs_reads_before = routes::nvfs_reads();
    let started_ns = now_ns();
    let child = spawn(program, None).or_else(by_shell).map_err(|error| WatchError::Start(program.clone(), error))?;
    let mut tally = Tally::of_own_program();
    tally.began_at(started_ns);
    Ok(Watched {
        library,
        outside: Outside::new(child.id()),
        starts: Starts::default(),
        child,
        program: program.clone(),
        command: launch.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
        started_ns,
        ended_ns: None,
        last_call_ns: started_ns,
        reader: Reader::new(),
        tally,
        waiting: Vec::new(),
        complete_until_ns: started_ns,
        drains: 0,
        paused: false,
        pause_ns: None,
        is_gone: false,
        next_search: Instant::now(),
        still_running: 0,
        at_end: None,
        ended: None,
        requires_direct: launch.requires_direct,
        not_loaded: None,
        held: None,
        nvfs_reads_before,
    })
}

impl Watched {
    /// The process id of the program.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Reads new calls for a short time. Returns whether the program is still running.
    ///
    /// # Errors
    /// Fails if waiting for the program fails.
    pub fn step(&mut self) -> Result<bool, WatchError> {
        let has_ended = self.has_ended();
        if !has_ended && self.is_paused() {
            self.paused = true;
            let now = now_ns();
            self.pause_ns = Some([self.pause_ns.map_or(now, |[first, _]| first), now]);
            std::thread::sleep(PAUSED_LOOK);
            return Ok(true);
        }
        self.drain();
        if has_ended {
            self.ended_ns = Some(now_ns());
            let status = self.outside.wait(|| self.child.wait()).map_err(WatchError::Wait)?;
            self.ended = Some(match (status.code(), status.signal()) {
                (Some(code), _) => ProgramEnd::Status(code),
                (None, signal) => ProgramEnd::Signal(signal.unwrap_or(0)),
            });
            self.still_running = self.wait_for_others();
            self.library.is_used = self.still_running > 0;
            self.finish();
            return if self.library.words.is_cut() { Err(WatchError::Cut) } else { Ok(false) };
        }
        std::thread::sleep(DRAIN_EVERY);
        Ok(true)
    }

    /// Reads the calls of other processes for a short time, until they have ended. Returns the number of those that still
    /// run.
    fn wait_for_others(&mut self) -> u64 {
        let until = Instant::now() + GRACE;
        loop {
            let running = self.reader.running(&self.library.words, &self.library.shared, self.child.id());
            if running == 0 || Instant::now() >= until {
                return running;
            }
            std::thread::sleep(GRACE_LOOK);
            self.drain();
        }
    }

    /// Takes new calls, if the program has not ended. After its end, all of its calls were taken.
    pub(super) fn drain_while_running(&mut self) {
        if self.ended.is_none() {
            self.drain();
        }
    }

    /// Whether the program has ended. It stays in procfs until it is waited for. After an error, waiting shows the error.
    fn has_ended(&self) -> bool {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), options) {
            Ok(status) => status.is_some(),
            Err(error) => error != Errno::INTR,
        }
    }

    /// Whether the program has paused the recording.
    fn is_paused(&self) -> bool {
        self.library.words.load(header::OPTIONS) & options::PAUSED != 0
    }

    fn drain(&mut self) {
        let before_ns = now_ns();
        self.paused |= self.is_paused();
        let mut new = self.reader.drain(&self.library.words);
        self.starts.look(&self.library.words);
        self.drains += 1;
        let now = Instant::now();
        let is_scarce = Reader::is_scarce(&self.library.words) && now >= self.next_search;
        let searches = is_scarce || self.drains.is_multiple_of(LOOK_FOR_ENDED);
        if searches {
            self.is_gone |= self.library.is_gone();
            // The counters of ended threads are added, so they are examined before.
            self.reader.check(&self.library.words, self.started_ns);
            self.reader.free_ended(&self.library.words, &mut new);
            self.next_search = now + now.elapsed() * SEARCH_SHARE;
        }
        self.take_new(new, before_ns);
    }

    /// Processes the calls of a reading that began at `before_ns`.
    fn take_new(&mut self, mut new: Vec<Group>, before_ns: u64) {
        self.reader.check_records(&new, self.started_ns);
        if self.reader.is_overwritten(&self.library.words) {
            return;
        }
        new.iter().for_each(|group| self.tally.meet(group));
        let calls = new.iter().filter(|group| usize::from(group.record.kind()) < FUNCTION_COUNT);
        self.last_call_ns = calls.map(|group| group.record.end_ns).fold(self.last_call_ns, u64::max);
        let had_any = !new.is_empty();
        self.waiting.append(&mut new);
        if had_any {
            self.waiting.sort_by_key(Group::order);
        }
        // The program could register and release anything during a pause.
        if let Some([first_ns, last_ns]) = self.pause_ns.take() {
            let before = self.waiting.partition_point(|group| group.order() < first_ns);
            for group in self.waiting.drain(..before) {
                self.tally.take(&group);
            }
            self.tally.lose_in_all(Losses::all(last_ns));
        }
        // Calls that began before the previous reading are in a ring now, unless they are still running.
        let complete_until_ns = std::mem::replace(&mut self.complete_until_ns, before_ns);
        let ready = self.waiting.partition_point(|group| group.order() < complete_until_ns);
        for group in self.waiting.drain(..ready) {
            self.tally.take(&group);
        }
        // A loss that was not known at the previous reading came after these calls.
        for (process, lost) in self.reader.take_losses() {
            self.tally.lose(process, lost);
        }
        for slot in self.reader.take_without_ring(&self.library.words) {
            self.tally.lose_in_slot(slot, now_ns());
        }
        let ended = self.tally.streams.look();
        self.tally.end_streams(&ended);
        self.take_completions();
        if let Some(reading) = self.tally.take_reading() {
            self.held = routes::hold(self.held, &reading, MachineRoutes::look(self.nvfs_reads_before, None));
        }
        self.outside.look(&mut self.tally);
    }

    /// Notes the requests of io_uring that the library counted.
    fn take_completions(&mut self) {
        for (descriptor, inode, completed) in self.tally.completed.drain(..) {
            self.outside.complete(descriptor, inode, completed);
        }
    }

    /// The calls since the last report for timelines, and the number of further calls.
    pub(super) fn take_calls(&mut self) -> (Vec<WatchedCall>, u64) {
        self.tally.recent.take()
    }

    /// Programs whose calls are not recorded: those that did not report that they loaded the library, and those that were
    /// seen without it.
    fn unrecorded(&self) -> Vec<String> {
        let mut all: std::collections::BTreeSet<String> =
            self.starts.unrecorded(self.ended.is_some()).cloned().collect();
        // A program can be reported with a relative path and be seen with its full one.
        let name = |path: &str| Path::new(path).file_name().map(OsStr::to_owned);
        let reported: Vec<_> = all.iter().map(|path| name(path)).collect();
        all.extend(self.outside.unrecorded().into_iter().filter(|path| !reported.contains(&name(path))));
        if self.is_gone {
            all.insert("programs started after the files of the recording were removed".to_owned());
        }
        let lost = self.library.words.load(header::STARTS_LOST);
        if lost > 0 {
            all.insert(format!("{} that could not be followed", plural(lost, "start")));
        }
        let without_space = self.library.words.load(header::WITHOUT_SPACE);
        if without_space > 0 {
            all.insert(format!("{} {WITHOUT_SPACE}", plural(without_space, "program")));
        }
        all.into_iter().collect()
    }

    /// Reads all remaining calls.
    fn finish(&mut self) {
        self.is_gone |= self.library.is_gone();
        self.drain();
        let before_ns = now_ns();
        let (new, totals) = self.reader.drain_last(&self.library.words);
        self.at_end = Some(self.counted(totals));
        self.take_new(new, before_ns);
        for group in std::mem::take(&mut self.waiting) {
            self.tally.take(&group);
        }
        self.tally.end_waiting();
        self.take_completions();
        self.tally.put_unfinished(now_ns());
        self.tally.files.iter_mut().take(MOST_CACHE_LOOKS).for_each(File::look_at_cache);
        self.reader.check(&self.library.words, self.started_ns);
        if self.library.words.load(header::PROGRAMS) == 0 {
            let is_cut = self.library.words.is_cut();
            self.not_loaded = if is_cut { Some(NotLoaded::Truncated) } else { not_loaded::reason(&self.program) };
        }
    }

    /// The numbers at this time.
    fn counted(&self, totals: Totals) -> Counted {
        let words = &self.library.words;
        let ended = self.ended.map(|_| self.child.id());
        let open_calls = self.reader.open_calls(words, now_ns(), ended);
        Counted { totals, open_calls, uncounted: words.load(header::WITHOUT_RING) }
    }

    /// The current report.
    #[must_use]
    pub fn report(&self) -> WatchReport {
        let words = &self.library.words;
        // A process can make calls after the end of the program. Their bytes are counted, so their time is counted too.
        let until_ns = self.ended_ns.map_or_else(now_ns, |ended_ns| ended_ns.max(self.last_call_ns));
        let wall_ns = until_ns.saturating_sub(self.started_ns);
        let unexamined_processes = self.outside.unexamined().max(self.tally.unexamined());
        if self.reader.is_overwritten(words) {
            // No number in the file is known to be right, not even the number of programs.
            return WatchReport {
                command: self.command.clone(),
                ended: self.ended,
                wall_ns,
                requires_direct: self.requires_direct,
                not_loaded: Some(NotLoaded::Overwritten),
                process_io: self.outside.io(),
                unexamined_processes,
                ..WatchReport::default()
            };
        }
        let now = || self.counted(self.reader.totals(words));
        let Counted { totals, open_calls, uncounted } = self.at_end.clone().unwrap_or_else(now);
        let mut report = WatchReport {
            command: self.command.clone(),
            ended: self.ended,
            wall_ns,
            programs: words.load(header::PROGRAMS),
            open_calls,
            uncounted,
            paused: self.paused,
            requires_direct: self.requires_direct,
            wants_statistics: self.library.words.load(header::OPTIONS) & options::STATISTICS != 0,
            lost_events: totals.lost + uncounted,
            libraries_left_out: words.load(header::LIBRARIES_LEFT_OUT),
            not_loaded: self.not_loaded,
            unrecorded: self.unrecorded(),
            in_other_session: self.tally.in_other_session.iter().cloned().collect(),
            cuda_processes: self.outside.cuda_processes(),
            unexamined_processes,
            still_running: self.still_running,
            process_io: self.outside.io(),
            ..self.tally.report(&totals)
        };
        let p2pdma = self.tally.p2pdma(report.lost_events > 0);
        let machine = MachineRoutes::look(self.nvfs_reads_before, p2pdma);
        let requested_bytes = self.tally.requested_bytes();
        if self.ended.is_some() {
            routes::decide(&mut report, requested_bytes, machine);
        } else {
            routes::decide_running(&mut report, requested_bytes, machine, self.held);
        }
        report
    }
}
