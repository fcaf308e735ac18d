//! Counts the recorded calls. It tracks the handles, buffers, batches and streams of every process.

mod buffers;
mod counters;
mod names;
mod report;
mod submitted;

use super::classes::{CLASSES, class_of};
use super::entry::{Buffer, Entry, Handle};
use super::files::{File, How, Transfer};
use super::group::Group;
use super::losses::Losses;
use super::named_file::NamedFile;
use super::paces::Paces;
use super::readings::{Account, Bounds, Counters};
use super::recent::{Details, Recent};
use super::rings::now_ns;
use super::settings::{AllSettings, Settings};
use super::streams::Streams;
use crate::core::{BufferUse, DriverProperties, RouteProof, RouteStatistics, SizeClass, WatchedLibrary};
use crate::trust::{self, Allowance, Examiner, Limits, Unexamined};
use cufile_audit::layout::{
    Answer, ERRNO_WORD, EVENTS_WORD, FUNCTIONS, Function, IN_OTHER_SESSION, Record, kind, settings,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

/// Number of duration classes. The classes are powers of four from 1 µs. The last one contains all longer reads.
const DURATIONS: usize = 12;
/// Maximum number of files, libraries and kinds of failures. The limit is needed because the program can write any
/// number of them into the shared file.
const MOST_FILES: usize = 65_536;
const MOST_LIBRARIES: usize = 256;
const MOST_FAILURES: usize = 4096;
/// Maximum number of handles, buffers and batches that are kept of all processes. A program can register any number of
/// them and never end one.
const MOST_REGISTERED: usize = 1 << 20;

/// The registrations and submissions of a process.
#[derive(Debug, Default)]
struct Process {
    /// Registered files by library and handle.
    handles: HashMap<(u8, u64), Handle>,
    /// Registered memory by address.
    buffers: BTreeMap<u64, Buffer>,
    registered_bytes: u64,
    /// The end of the last release of memory in nanoseconds.
    released_ns: u64,
    /// Whether it released memory that it did not register itself since it was forked.
    has_released_inherited: bool,
    /// Submitted entries by library and batch.
    batches: HashMap<(u8, u64), Vec<Entry>>,
    orphans: Vec<(u8, Record)>,
    /// The process that it was forked from, if it runs the same program, and the start of that process in nanoseconds.
    /// 0 if it is not known.
    parent: Option<(u32, u64)>,
    /// The time of its first record in nanoseconds. 0 if it is not known.
    began_ns: u64,
    /// The time in nanoseconds up to which the registrations and releases of its parent were before the fork.
    forked_ns: u64,
    lost: Losses,
    /// Whether it closed the driver.
    has_closed: bool,
    /// Whether its settings are known.
    is_configured: bool,
}

/// Identifies a copy of libcufile in a process.
type Counted = (u32, u8);

/// The function, the code, errno, and whether the error came after the submission.
type FailureKey = (String, i64, i32, bool);

/// Everything that is known from the calls so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Handles, buffers and batches of all processes.
    registered: usize,
    /// Handles, buffers and batches that were not kept, and calls that were discarded.
    not_kept: u64,
    /// Bytes of the headers of models that were read.
    header_bytes: u64,
    processes: HashMap<u32, Process>,
    pub(super) files: Vec<File>,
    by_name: HashMap<NamedFile, usize>,
    /// The newest file with a path, and the number of files with it.
    by_path: HashMap<String, (usize, u64)>,
    libraries: Vec<(WatchedLibrary, HashSet<u32>)>,
    library_of: HashMap<Counted, usize>,
    reading_threads: HashSet<(u32, u32)>,
    sizes: [SizeClass; CLASSES],
    durations: [[u64; DURATIONS]; CLASSES],
    properties: Option<DriverProperties>,
    /// Files that libc reads or maps, by process, device and inode.
    pub(super) inodes: HashMap<(u32, u64, u64), usize>,
    /// The rings of io_uring since they were taken last: process and descriptor, inode or 0, and completed requests.
    pub(super) completed: Vec<((u32, u64), u64, u64)>,
    /// Whether the process was already running when it was attached, so that it may have registered memory before.
    pub(super) began_late: bool,
    /// Calls that wait for the path of their file.
    pub(super) waiting: Vec<Group>,
    /// The calls for timelines.
    pub(super) recent: Recent,
    /// The count and the first file of each kind of failure.
    failures: BTreeMap<FailureKey, (u64, Option<usize>)>,
    buffers: BufferUse,
    pub(super) streams: Streams,
    paces: Paces,
    statistics: HashMap<Counted, Counters>,
    /// The time in nanoseconds at which counters began again at 0. A reading that began before can have the former ones.
    began_again: HashMap<Counted, u64>,
    /// The final counters of programs that another one replaced in its process, and of drivers that were closed.
    ended_statistics: RouteStatistics,
    /// The transfers that the counters must contain.
    accounts: HashMap<Counted, Account>,
    /// Those of the programs in `ended_statistics`.
    ended_bounds: Bounds,
    /// The time in nanoseconds of the last reading of counters, until it is taken.
    read_ns: Option<u64>,
    /// Batch entries whose end the program did not wait for, and transfers that had not ended when another program took
    /// the place of theirs.
    unseen_transfers: u64,
    /// Losses of processes that are not known.
    lost_by_all: Losses,
    /// Losses of processes of which only the slot is known.
    lost_by_slot: HashMap<usize, Losses>,
    /// Copies of libcufile whose driver was closed since their last counters, and whether a file was registered after.
    closed: HashMap<Counted, bool>,
    /// The settings of libcufile.
    pub(super) settings: AllSettings,
    /// Programs that another session records.
    pub(super) in_other_session: BTreeSet<String>,
    /// Processes that made transfers, by their copy of libcufile.
    transferring: HashSet<Counted>,
    /// Examines the files that processes name.
    examiner: Examiner,
}

/// The function of a record.
fn function_of(record: &Record) -> Option<Function> {
    Function::ALL.get(usize::from(record.kind())).copied()
}

/// The version of a libcufile according to its name, as cuFileGetVersion reports it. A path of a process with other
/// mounts names another file here.
fn version_in_name(process: u32, path: &str) -> Option<u64> {
    let folder = trust::process::folder(process.cast_signed());
    let known = Some(path).filter(|_| !trust::process::has_other_mounts(&folder));
    let known = known.and_then(|path| trust::process::path_of(&folder, Path::new(path)));
    known.and_then(|path| cufile_ffi::version_of_file(&path)).and_then(|version| u64::try_from(version.0).ok())
}

impl Tally {
    /// For a program that the user started.
    pub(super) fn of_own_program() -> Self {
        Self { examiner: Examiner::new(Limits::of_own_program()), ..Self::default() }
    }

    /// Sets the time at which the program started or was attached, in nanoseconds.
    pub(super) const fn began_at(&mut self, at_ns: u64) {
        self.recent.origin_ns = at_ns;
        self.paces.origin_ns = at_ns;
    }

    /// Processes one call.
    pub(super) fn take(&mut self, group: &Group) {
        let record = &group.record;
        match function_of(record) {
            Some(function) if function.is_cufile() => self.call(function, group),
            Some(function) => self.plain(function, group),
            None if record.kind() == kind::FILE => self.plain_file(group),
            None if record.kind() == kind::TOUCHED => self.touched(group),
            None if record.kind() == kind::URING && self.completed.len() < MOST_REGISTERED => {
                self.completed.push(((group.process, record.object), record.offset, record.size));
            }
            None if record.kind() == kind::LIBRARY => self.library(group),
            None if record.kind() == kind::STATISTICS => self.statistics(group),
            None if record.kind() == kind::PROCESS => {
                self.end_counters(group.process);
                self.start(group.process, [record.object, record.base, record.offset], record.start_ns);
            }
            None if record.kind() == kind::SETTINGS => {
                let named = (record.object & settings::NAMED != 0).then(|| group.text());
                let has_p2pdma = record.object & settings::P2PDMA != 0;
                self.configure(group.process, named, has_p2pdma);
            }
            None if record.kind() == kind::NOT_RECORDED
                && record.object == IN_OTHER_SESSION
                && self.in_other_session.len() < MOST_LIBRARIES =>
            {
                self.in_other_session.insert(group.text());
            }
            None => {}
        }
    }

    /// Examines files that a process names. Its program can name any process and any path.
    fn examine<T: Send + 'static>(
        &mut self,
        process: u32,
        examine: impl FnOnce(&mut Allowance) -> T + Send + 'static,
    ) -> Result<T, Unexamined> {
        self.examiner.begin_round();
        self.examiner.ask(trust::process::identity(process), examine)
    }

    /// The largest number of processes that were not examined at one time.
    pub(super) const fn unexamined(&self) -> u64 {
        self.examiner.unexamined()
    }

    /// Adds the settings of a process.
    fn configure(&mut self, process: u32, named: Option<String>, has_p2pdma: bool) {
        self.of(process).is_configured = true;
        let path = named.clone();
        let seen = match self.settings.is_full() {
            true => None,
            false => {
                let examine =
                    move |_: &mut Allowance| Settings::new(process, path.as_deref().map(OsStr::new), has_p2pdma);
                self.examine(process, examine).ok()
            }
        };
        self.settings.add(seen.unwrap_or_else(|| Settings::unknown(named.as_deref().map(OsStr::new))));
    }

    fn library(&mut self, group: &Group) {
        self.forget_library(group.process, group.record.library());
        self.begin_counters((group.process, group.record.library()), group.record.end_ns);
        let path = if self.libraries.len() < MOST_LIBRARIES { group.text() } else { "(more libraries)".to_owned() };
        let at = self.libraries.iter().position(|(known, _)| known.path == path).unwrap_or_else(|| {
            let (process, named) = (group.process, path.clone());
            let version = self.examine(process, move |_| version_in_name(process, &named)).ok().flatten();
            self.libraries.push((WatchedLibrary { path, version, processes: 0 }, HashSet::new()));
            self.libraries.len() - 1
        });
        self.libraries[at].1.insert(group.process);
        self.library_of.insert((group.process, group.record.library()), at);
    }

    fn statistics(&mut self, group: &Group) {
        let Record { offset, size, base, base_offset, extra, .. } = group.record;
        let [reads, writes, batch_entries, all_read_bytes, all_written_bytes, ..] = extra;
        let mut counted = RouteStatistics {
            reads,
            writes,
            batch_entries,
            all_read_bytes,
            all_written_bytes,
            batch_submissions: offset,
            batch_read_bytes: base_offset,
            handle_registrations: size,
            buffer_registrations: base,
            ..RouteStatistics::default()
        };
        for gpu in &group.parts {
            let [p2p_reads, nvfs_reads, posix_reads, _, p2p_writes, nvfs_writes, posix_writes] = gpu.extra;
            // The program can write any number into the shared file.
            let add =
                |sum: &mut u64, more: &[u64]| *sum = more.iter().fold(*sum, |sum, more| sum.saturating_add(*more));
            add(&mut counted.p2pdma, &[p2p_reads, p2p_writes]);
            add(&mut counted.nvfs, &[nvfs_reads, nvfs_writes]);
            add(&mut counted.posix, &[posix_reads, posix_writes]);
            add(&mut counted.writes_by_route, &[p2p_writes, nvfs_writes, posix_writes]);
            add(&mut counted.read_bytes, &[gpu.size]);
            add(&mut counted.written_bytes, &[gpu.offset]);
        }
        self.read_counters(
            (group.process, group.record.library()),
            counted,
            [group.record.start_ns, group.record.end_ns],
        );
        let library = self.library_number(group.process, group.record.library());
        if let Some((library, _)) = library.and_then(|at| self.libraries.get_mut(at)) {
            library.version = library.version.or(Some(group.record.object).filter(|version| *version > 0));
        }
    }

    /// Keeps the counters of a process in which another program starts.
    fn end_counters(&mut self, process: u32) {
        let is = |of: &Counted| of.0 == process;
        let lacks = self.transferring.iter().any(|of| is(of) && !self.statistics.contains_key(of));
        let partial_processes = (lacks && self.statistics.keys().any(is)).into();
        let mut ended =
            RouteStatistics { missing_processes: lacks.into(), partial_processes, ..RouteStatistics::default() };
        self.transferring.retain(|of| !is(of));
        self.closed.retain(|of, _| !is(of));
        self.began_again.retain(|of, _| !is(of));
        for (_, Counters { counted, .. }) in self.statistics.extract_if(|of, _| is(of)) {
            ended = RouteStatistics { processes: 1, ..ended.plus(&counted) };
        }
        self.ended_statistics = self.ended_statistics.plus(&ended);
        for (_, account) in self.accounts.extract_if(|of, _| is(of)) {
            self.ended_bounds = self.ended_bounds.plus(&account.at_end());
        }
    }

    fn call(&mut self, function: Function, group: &Group) {
        let record = &group.record;
        let (process, library) = (group.process, record.library());
        self.uses(process, library);
        let status = (record.result & 0xffff_ffff) as u32;
        let failed = match FUNCTIONS[function as usize].answer {
            Answer::Status => status != 0,
            Answer::Bytes => record.result.cast_signed() < 0,
            Answer::Plain => false,
        };
        let (mut concerned, mut moved) = (None, None);
        // A failed call can return at once, so its duration says nothing about the others.
        if !failed {
            let size = Some(record.size).filter(|_| FUNCTIONS[function as usize].answer == Answer::Bytes);
            self.paces.add(FUNCTIONS[function as usize].name, size, record.start_ns, record.end_ns);
        }
        match function {
            Function::HandleRegister => {
                let (named, at) = group.file();
                let file = self.file(named, at);
                self.files[file].register(failed, record.extra[1]);
                let key = (library, record.object);
                let is_new = !self.of(process).handles.contains_key(&key);
                if let Some(is_used) = self.closed.get_mut(&(process, library)).filter(|_| !failed) {
                    *is_used = true;
                }
                // After a lost release, this may be the handle of another file already.
                let is_old = self.of(process).lost.may_release(record.end_ns);
                if !failed && !is_old && self.may_keep(is_new) {
                    self.of(process).handles.insert(key, Handle { file, since_ns: record.end_ns });
                }
                concerned = Some(file);
            }
            Function::HandleDeregister => {
                concerned = self.of(process).handles.remove(&(library, record.object)).map(|handle| handle.file);
                self.registered -= usize::from(concerned.is_some());
            }
            Function::DriverClose | Function::DriverCloseV2 if !failed => {
                self.close_driver(process);
                if self.closed.len() < MOST_REGISTERED {
                    self.closed.insert((process, library), false);
                }
                self.begin_counters((process, library), record.end_ns);
            }
            Function::SetParameterBool | Function::DriverSetP2pFlags if !failed => {
                self.settings.change(function, record);
            }
            Function::StatsReset if !failed => self.begin_counters((process, library), record.end_ns),
            Function::BufRegister | Function::BufDeregister => self.buffer(function, process, record, failed),
            Function::Read | Function::Write | Function::Readv | Function::Writev => {
                let (file, transfer) = self.single(function, group);
                (concerned, moved) = (Some(file), Some(transfer));
            }
            Function::ReadAsync | Function::WriteAsync => {
                let (file, transfer) = self.stream(function, group, failed);
                (concerned, moved) = (Some(file), Some(transfer));
            }
            Function::BatchSubmit if !failed => concerned = self.submit_batch(group),
            Function::BatchGetStatus => {
                let events = || group.parts.iter().filter(|part| part.kind() == kind::BATCH_EVENT);
                if record.extra[EVENTS_WORD] > events().count() as u64 {
                    self.forget_entries(process, library, record);
                }
                for event in events() {
                    self.end_entry(process, library, event);
                }
            }
            Function::BatchCancel if !failed => self.cancel_batch(process, library, record.object),
            Function::BatchDestroy => self.destroy_batch(process, library, record),
            Function::DriverGetProperties if !failed => {
                let [versions, flags, features, ..] = record.extra;
                self.properties = Some(DriverProperties {
                    nvfs_major: versions as u32,
                    nvfs_minor: (versions >> 32) as u32,
                    status_flags: flags as u32,
                    control_flags: (flags >> 32) as u32,
                    features: features as u32,
                });
            }
            Function::GetVersion if !failed => {
                if let Some(at) = self.library_number(process, library) {
                    self.libraries[at].0.version = Some(record.extra[0]);
                }
            }
            _ => {}
        }
        let mut code = 0;
        if failed {
            code = match FUNCTIONS[function as usize].answer {
                Answer::Status => i64::from(status.cast_signed()),
                _ => record.result.cast_signed(),
            };
            let is_transfer = FUNCTIONS[function as usize].answer == Answer::Bytes;
            let errno = if is_transfer && code == -1 { record.extra[ERRNO_WORD] as u32 } else { 0 };
            self.failure(FUNCTIONS[function as usize].name, code, errno.cast_signed(), concerned, false);
            if errno > 0 {
                code = -i64::from(errno);
            }
        }
        let file = concerned.map(|file| self.files[file].path.as_str());
        self.recent.put(function, group, &Details { file, transfer: moved, error: code });
    }

    /// Whether a handle, buffer or batch can be kept. Those above the limit are counted as lost.
    fn may_keep(&mut self, is_new: bool) -> bool {
        if is_new && self.registered >= MOST_REGISTERED {
            self.not_kept += 1;
            return false;
        }
        self.registered += usize::from(is_new);
        true
    }

    /// Notes calls that were discarded before they were counted here.
    pub(super) fn discard(&mut self, calls: u64) {
        if calls > 0 {
            self.not_kept = self.not_kept.saturating_add(calls);
            self.lose_in_all(Losses::all(now_ns()));
        }
    }

    /// The processes in which libc read or mapped files.
    pub(super) fn plain_processes(&self) -> HashSet<u32> {
        self.inodes.keys().map(|(process, ..)| *process).collect()
    }

    /// The index of the newest file with this path, if it is known.
    pub(super) fn known(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).map(|(file, _)| *file)
    }

    /// The reason why P2PDMA may be enabled. If records were lost, the settings of a process may be among them.
    pub(super) fn p2pdma(&self, lacks_records: bool) -> Option<RouteProof> {
        let is_configured = |process: &u32| self.processes.get(process).is_some_and(|known| known.is_configured);
        let lacks = || self.transferring.iter().any(|(process, _)| !is_configured(process));
        self.settings.p2pdma().or_else(|| (lacks_records && lacks()).then_some(RouteProof::Nothing))
    }

    /// The bytes that the program requested in transfers that did not fail.
    pub(super) fn requested_bytes(&self) -> u64 {
        self.files.iter().map(File::requested_bytes).fold(0, u64::saturating_add)
    }

    fn failure(&mut self, function: &str, code: i64, errno: i32, file: Option<usize>, later: bool) {
        let (code, errno) = if self.failures.len() < MOST_FAILURES { (code, errno) } else { (-1, 0) };
        let seen = self.failures.entry((function.to_owned(), code, errno, later)).or_insert((0, file));
        seen.0 += 1;
    }

    /// A transfer with the address of its memory, and whether this memory is registered.
    fn transfer(&mut self, process: u32, record: &Record, write: bool, how: How) -> Transfer {
        self.transferring.insert((process, record.library()));
        let address = record.base.wrapping_add(record.base_offset);
        let end = address.saturating_add(record.size);
        // A new process has the losses of its slot.
        self.of(process);
        let registered = self.is_registered(process, address, end);
        Transfer { write, how, offset: record.offset, size: record.size, address, registered }
    }

    fn single(&mut self, function: Function, group: &Group) -> (usize, Transfer) {
        let record = &group.record;
        let write = matches!(function, Function::Write | Function::Writev);
        let file = self.file_of(group.process, record.library(), record.object);
        let transfer = self.transfer(group.process, record, write, How::Single);
        self.files[file].submit(&transfer);
        let took_ns = record.end_ns.saturating_sub(record.start_ns);
        self.files[file].finish(&transfer, record.result.cast_signed(), Some(took_ns));
        let account = self.accounts.entry((group.process, record.library())).or_default();
        account.call([record.start_ns, record.end_ns], &transfer, record.result.cast_signed());
        if !write {
            if record.result.cast_signed() > 0 {
                self.reading_threads.insert((group.process, group.thread));
            }
            if record.result.cast_signed() >= 0 {
                self.time_read(record.size, took_ns);
            }
        }
        (file, transfer)
    }

    /// Counts a read that did not fail with its size and duration.
    fn time_read(&mut self, size: u64, took_ns: u64) {
        let class = class_of(size);
        let seen = &mut self.sizes[class];
        seen.count += 1;
        seen.total_ns = seen.total_ns.saturating_add(took_ns);
        seen.longest_ns = seen.longest_ns.max(took_ns);
        let duration = (0..DURATIONS - 1).find(|at| took_ns <= 1000 << (2 * at)).unwrap_or(DURATIONS - 1);
        self.durations[class][duration] += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
