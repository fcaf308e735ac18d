//! Observes a running program from outside: the counters in procfs, the pages of mapped files in its page tables, and
//! the requests of io_uring.

use super::input::{self, Input};
use super::tally::Tally;
use crate::core::{ProcessIo, is_libcufile};
use crate::trust::process::{self, Identity, identity};
use crate::trust::{Allowance, Examiner, Limits};
use procfs::process::{MMPermissions, MMapPath, MemoryMaps, Process};
use procfs::{FromRead, ProcResult};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum time between two readings. After a slow reading the time is longer, so that readings take at most one
/// percent of the time. The limit is for the rare reading that waits for a process.
const LEAST: Duration = Duration::from_millis(50);
const SHARE: u32 = 100;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Maximum number of rings of io_uring. The program can write any number of them into the shared file.
const MOST_RINGS: usize = 65_536;
/// The bit of an entry in /proc/PID/pagemap for a page that is present.
const PRESENT: u64 = 1 << 63;

/// Facts about the processes of a program.
#[derive(Debug)]
pub(super) struct Outside {
    root: u32,
    next: Instant,
    io: Input,
    /// The completed requests of each ring of io_uring, by process and descriptor, or by 0 and inode.
    rings: HashMap<(u32, u64), u64>,
    /// For each process without the recording library: how often it was seen like that, and its program.
    without: HashMap<u32, (u32, String)>,
    unrecorded: BTreeSet<String>,
    cuda: HashSet<u32>,
    examiner: Examiner,
}

/// A program that starts may not have the library yet. If its mappings cannot be read, it must be seen this many times.
/// The linker maps libcufile after the recording library.
const SEEN_WITHOUT: u32 = 3;
/// Maximum number of programs that are listed as not recorded.
const MOST_UNRECORDED: usize = 32;

impl Outside {
    pub(super) fn new(root: u32) -> Self {
        Self {
            root,
            next: Instant::now(),
            io: Input::default(),
            rings: HashMap::new(),
            without: HashMap::new(),
            unrecorded: BTreeSet::new(),
            cuda: HashSet::new(),
            examiner: Examiner::new(Limits::of_own_program()),
        }
    }

    /// Reads all processes, if the next reading is due.
    pub(super) fn look(&mut self, tally: &mut Tally) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let mapping = tally.plain_processes();
        let first = self.examiner.left_out();
        self.examiner.begin_round();
        let mut processes = self.io.tree(self.root);
        input::begin_with(&mut processes, first);
        self.io.add(&processes, &mut self.examiner);
        for process in &processes {
            let of = identity(process.pid.unsigned_abs());
            self.completions(of);
            let wants_data = mapping.contains(&of.0);
            // A process that was not examined may have the recording library.
            let mapped = self.examiner.ask(of, move |allowed| Mapped::of(of.0, wants_data, allowed));
            let Ok(mapped) = mapped.map(Result::ok) else { continue };
            self.libraries(process, mapped.as_ref());
            if let Some(mapped) = mapped.filter(|_| wants_data) {
                self.pages(of, mapped.data, tally);
            }
        }
        self.next = Instant::now() + pause(now.elapsed());
    }

    /// Waits for a program that has ended, so that its counters are complete.
    ///
    /// Only root can read /proc/PID/io of a process that has ended. When it is waited for, the kernel adds its counters to
    /// those of this process, as proc(5) describes for its children.
    pub(super) fn wait<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.examiner.begin_round();
        let processes = self.io.tree(self.root);
        self.io.add(&processes, &mut self.examiner);
        let faults = children_faults();
        let before = own_io();
        let ended = wait();
        let after = own_io();
        if let Some((before, after)) = before.zip(after) {
            let [major_faults, minor_faults] = difference(children_faults(), faults);
            // The bytes of the first reading itself were counted after it.
            let [read_call_bytes, storage_read_bytes] =
                difference(after.counters, [before.counters[0].saturating_add(before.bytes), before.counters[1]]);
            let io =
                ProcessIo { read_call_bytes, storage_read_bytes, major_faults, minor_faults, ..ProcessIo::default() };
            self.io.end(self.root, io);
        }
        ended
    }

    /// Notes whether a process has libcuda, and whether it may use libcufile without the recording library. `mapped` is
    /// `None` if its mappings could not be read.
    fn libraries(&mut self, process: &Process, mapped: Option<&Mapped>) {
        if process.stat().is_ok_and(|stat| matches!(stat.state, 'Z' | 'X')) {
            return;
        }
        let pid = process.pid.unsigned_abs();
        if mapped.is_some_and(|mapped| mapped.libcuda) {
            self.cuda.insert(pid);
        }
        if mapped.is_some_and(|mapped| mapped.recorder || !mapped.libcufile) {
            self.without.remove(&pid);
            return;
        }
        let program = process.exe().map(|path| path.to_string_lossy().into_owned());
        // A process that ends has no executable any more, and its mappings can be incomplete.
        let is_complete = mapped.is_some() && program.is_ok();
        let program = program.or_else(|_| process.stat().map(|stat| stat.comm)).unwrap_or_default();
        let seen = self.without.entry(pid).or_default();
        *seen = if seen.1 == program { (seen.0 + 1, program) } else { (1, program) };
        if (is_complete || seen.0 == SEEN_WITHOUT) && self.unrecorded.len() < MOST_UNRECORDED {
            self.unrecorded.insert(seen.1.clone());
        }
    }

    /// The programs that may use libcufile without being recorded.
    pub(super) fn unrecorded(&self) -> Vec<String> {
        self.unrecorded.iter().cloned().collect()
    }

    /// The number of processes that had libcuda mapped.
    pub(super) fn cuda_processes(&self) -> u64 {
        self.cuda.len() as u64
    }

    /// The largest number of processes that were not examined at one time.
    pub(super) const fn unexamined(&self) -> u64 {
        self.examiner.unexamined()
    }

    /// Reads the number of requests that the rings of a process completed.
    fn completions(&mut self, process: Identity) {
        let rings = self.examiner.ask(process, move |allowed| rings(process.0, allowed));
        for (fd, inode, completed) in rings.into_iter().flatten() {
            self.complete((process.0, fd), inode, completed);
        }
    }

    /// Records which pages of recorded files a process has in its page tables.
    fn pages(&mut self, process: Identity, data: Vec<Data>, tally: &mut Tally) {
        let known = |data: Data| {
            let file = tally.known(data.path.to_str()?)?;
            (tally.files[file].plain.mappings > 0).then_some((file, data.address, data.offset))
        };
        let wanted: Vec<_> = data.into_iter().filter_map(known).collect();
        if wanted.is_empty() {
            return;
        }
        let ranges = self.examiner.ask(process, move |allowed| pages(process.0, &wanted, allowed));
        for (file, ranges) in ranges.into_iter().flatten() {
            tally.files[file].touch(&ranges);
        }
    }

    /// Notes the number of requests that a ring completed. The child of a fork has the ring of its parent, with the same
    /// inode. Before Linux 5.14 the inode is unknown (0).
    pub(super) fn complete(&mut self, descriptor: (u32, u64), inode: u64, completed: u64) {
        let ring = if inode == 0 { descriptor } else { (0, inode) };
        if self.rings.len() < MOST_RINGS || self.rings.contains_key(&ring) {
            let known = self.rings.entry(ring).or_default();
            *known = completed.max(*known);
        }
    }

    /// The total counters of all processes. For a closed ring of io_uring, it is the last known number.
    pub(super) fn io(&self) -> Option<ProcessIo> {
        let io_uring_requests = self.rings.values().fold(0, |sum: u64, completed| sum.saturating_add(*completed));
        self.io.total().map(|io| ProcessIo { io_uring_requests, ..io })
    }
}

/// The pause after a reading that took this time.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(SHARE).clamp(LEAST, LONGEST_PAUSE)
}

/// The mapping of a file with data.
struct Data {
    path: PathBuf,
    address: (u64, u64),
    offset: u64,
}

/// The mapped files of a process.
#[derive(Default)]
struct Mapped {
    libcuda: bool,
    libcufile: bool,
    /// Whether the recording library is mapped.
    recorder: bool,
    data: Vec<Data>,
}

impl Mapped {
    /// Fails if the mappings cannot be read.
    fn of(pid: u32, wants_data: bool, allowed: &mut Allowance) -> ProcResult<Self> {
        let mut found = Self::default();
        for map in maps(pid, allowed)? {
            let MMapPath::Path(path) = map.pathname else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.libcuda |= name.starts_with("libcuda.so");
            found.recorder |= name.starts_with(super::library::NAME);
            found.libcufile |= is_libcufile(&path);
            if wants_data && !map.perms.contains(MMPermissions::EXECUTE) {
                found.data.push(Data { address: map.address, offset: map.offset, path });
            }
        }
        Ok(found)
    }
}

/// A reading of /proc/self/io.
struct OwnIo {
    /// `rchar` and `read_bytes`.
    counters: [u64; 2],
    /// The size of the text.
    bytes: u64,
}

fn own_io() -> Option<OwnIo> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let counters = [number(&text, "rchar:")?, number(&text, "read_bytes:")?];
    Some(OwnIo { counters, bytes: text.len() as u64 })
}

/// The major and minor page faults of the children that this process waited for.
fn children_faults() -> [u64; 2] {
    let stat = Process::myself().and_then(|process| process.stat());
    stat.map_or([0; 2], |stat| [stat.cmajflt, stat.cminflt])
}

fn difference(after: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])]
}

/// The mappings of a process. A path that is not UTF-8 gets replacement characters.
pub(super) fn maps(pid: u32, allowed: &mut Allowance) -> ProcResult<MemoryMaps> {
    maps_in(&process::folder(pid.cast_signed()), allowed)
}

/// The mappings of the process with this directory in procfs.
pub(super) fn maps_in(folder: &Path, allowed: &mut Allowance) -> ProcResult<MemoryMaps> {
    MemoryMaps::from_read(process::mappings(folder, allowed)?.as_bytes())
}

/// The rings of io_uring of a process: descriptor, inode and completed requests.
fn rings(pid: u32, allowed: &mut Allowance) -> Vec<(u64, u64, u64)> {
    let folder = process::folder(pid.cast_signed());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
        if !allowed.descriptor() || found.len() >= MOST_RINGS {
            break;
        }
        if !std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]") {
            continue;
        }
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
        // The numbers of its requests come first.
        let info = process::descriptor_facts(&folder, &entry.file_name(), allowed);
        if let Some(completed) = completed(&info) {
            found.push((fd, number(&info, "ino:").unwrap_or(0), completed));
        }
    }
    found
}

/// The number of completions of a ring, from its fdinfo.
fn completed(info: &str) -> Option<u64> {
    number(info, "CqTail:")
}

/// The number in a line of fdinfo.
fn number(info: &str, name: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// The offsets of the present pages of mappings, by file.
fn pages(pid: u32, wanted: &[(usize, (u64, u64), u64)], allowed: &mut Allowance) -> HashMap<usize, Vec<(u64, u64)>> {
    let mut ranges: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    let Ok(pagemap) = File::open(process::folder(pid.cast_signed()).join("pagemap")) else { return ranges };
    for (file, address, offset) in wanted {
        present(&pagemap, *address, *offset, ranges.entry(*file).or_default(), allowed);
    }
    ranges
}

/// Adds the offsets of the present pages of a mapping.
fn present(pagemap: &File, (from, to): (u64, u64), offset: u64, ranges: &mut Vec<(u64, u64)>, allowed: &Allowance) {
    let page_bytes = rustix::param::page_size() as u64;
    let mut room = vec![0; 64 << 10];
    let mut page = from / page_bytes;
    while page < to / page_bytes && allowed.has_time() {
        let wanted = ((to / page_bytes - page) * 8).min(room.len() as u64) as usize;
        let Ok(read) = pagemap.read_at(&mut room[..wanted], page * 8) else { return };
        if read < 8 {
            return;
        }
        for entry in room[..read].chunks_exact(8) {
            let entry = entry.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            if entry & PRESENT != 0 {
                let at = offset + page * page_bytes - from;
                match ranges.last_mut().filter(|(_, end)| *end == at) {
                    Some(last) => last.1 = at + page_bytes,
                    None => ranges.push((at, at + page_bytes)),
                }
            }
            page += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::trust::waiting_tests::until;

    #[test]
    fn reads_until_the_end_of_a_program_are_counted() {
        const READ: u64 = 16 << 20;
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(READ).unwrap();
        let mut command = std::process::Command::new("cat");
        let mut child = command.arg(file.path()).stdout(std::process::Stdio::null()).spawn().unwrap();
        let mut outside = Outside::new(child.id());
        until(|| Process::new(child.id().cast_signed()).unwrap().stat().unwrap().state == 'Z');
        // A user cannot read the counters of the zombie, so the test leaves them out.
        outside.root = 0;
        assert!(outside.wait(|| child.wait()).unwrap().success());
        let io = outside.io().unwrap();
        // This process may wait for children of other tests too, which read more.
        assert!(io.read_call_bytes >= READ && io.minor_faults > 0, "{io:?}");
    }

    #[test]
    fn a_process_that_was_not_examined_is_not_listed_as_unrecorded() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut outside = Outside::new(child.id());
        outside.examiner = Examiner::new(Limits { round: Duration::ZERO, ..Limits::default() });
        for _ in 0..=SEEN_WITHOUT {
            outside.next = Instant::now();
            outside.look(&mut Tally::default());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(outside.unrecorded().is_empty() && outside.unexamined() == 1);
    }

    #[test]
    fn the_pause_after_a_reading_that_waited_for_a_process_is_limited() {
        assert_eq!(pause(Duration::ZERO), LEAST);
        assert_eq!(pause(Duration::from_millis(2)), Duration::from_millis(200));
        assert_eq!(pause(Duration::from_secs(4)), LONGEST_PAUSE);
    }

    #[test]
    fn touched_pages_of_a_mapping_are_seen_and_others_are_not() {
        const PAGE: u64 = 64 << 10;
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * PAGE).unwrap();
        let mapping = crate::device::FileMapping::new(&file).unwrap();
        let bytes = mapping.bytes();
        assert_eq!(bytes[0] + bytes[40 * PAGE as usize], 0);
        let from = bytes.as_ptr().addr() as u64;
        let mut ranges = Vec::new();
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        present(&pagemap, (from, from + 64 * PAGE), 0, &mut ranges, &Allowance::unlimited());
        let has = |page: u64| ranges.iter().any(|(from, to)| (*from..*to).contains(&(page * PAGE)));
        assert!(has(0) && has(40) && !has(20), "{ranges:?}");
        assert_eq!(super::super::files::joined(&[(0, 10), (5, 20), (20, 30), (40, 50)]), [(0, 30), (40, 50)]);
        assert_eq!(completed("pos:\t0\nCqHead:\t3\nCqTail:\t7\nCachedCqTail:\t7\n"), Some(7));
        assert_eq!(completed("pos:\t0\n"), None);
    }
}
