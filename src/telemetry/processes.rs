//! Finds the processes that use CUDA or cuFile, from procfs: their memory, storage and CPU use, and their apparent
//! method of reading models.

use crate::core::{
    HiddenProcess, MORE_FILES, OpenFile, ProcessUse, Route, RouteProof, SeenRoute, is_libcufile, os_error,
};
use crate::trust::process;
use crate::watch::Running;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Extensions of files that can be models. Other programs use some of them too, so the text calls them files.
const MODEL_ENDINGS: [&str; 6] = [".safetensors", ".gguf", ".bin", ".pt", ".pth", ".tensors"];
/// The bit of `O_DIRECT` in the octal flags of fdinfo, on x86-64 and on arm64 (include/uapi/asm-generic/fcntl.h,
/// arch/arm64).
const O_DIRECT: u64 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
/// Maximum number of characters of a command line that are kept.
const COMMAND: usize = 400;
/// Maximum number of listed mapped files of a process.
const MOST_MAPPED: usize = 1_000;
/// Maximum number of open model files of a process that are listed.
const MOST_OPEN: usize = 1_000;
/// Maximum number of bytes of the facts about a descriptor. Those of a file are below 100.
const INFO_BYTES: u64 = 4096;
/// The number of rounds after which a process without the libraries is examined again, because it may load them
/// later.
const AGAIN: u64 = 3;

/// The counters of a process at the previous sample.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cpu_ticks: u64,
    storage: Option<u64>,
    calls: Option<u64>,
}

/// The data about a process that is kept between two samples.
#[derive(Clone, Debug)]
struct Known {
    started: u64,
    looked_at: u64,
    libraries: Libraries,
    counts: Option<Counts>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Libraries {
    cuda: bool,
    cufile: Option<String>,
    mapped: Vec<String>,
    /// The reason why the mappings cannot be read.
    denied: Option<String>,
}

/// Reads all processes repeatedly and keeps the counters from which rates are computed.
pub(super) struct Processes {
    proc: PathBuf,
    own: u32,
    known: BTreeMap<u32, Known>,
    /// The processes whose route is inferred, with their start time.
    running: BTreeMap<u32, (u64, Option<Running>)>,
    round: u64,
    before: Option<Instant>,
}

impl Processes {
    /// `proc` is the mount point of procfs.
    pub(super) fn new(proc: PathBuf) -> Self {
        Self { proc, own: std::process::id(), known: BTreeMap::new(), running: BTreeMap::new(), round: 0, before: None }
    }

    /// The processes that use CUDA or cuFile, and those that could not be read.
    pub(super) fn look(&mut self, now: Instant) -> (Vec<ProcessUse>, Vec<HiddenProcess>) {
        self.round += 1;
        let seconds = self.before.map(|before| now.duration_since(before).as_secs_f64()).filter(|s| *s > 0.0);
        self.before = Some(now);
        let pids: BTreeSet<u32> = fs::read_dir(&self.proc)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        self.known.retain(|pid, _| pids.contains(pid));
        self.running.retain(|pid, _| pids.contains(pid));
        let mut found = Vec::new();
        let mut hidden = Vec::new();
        for pid in pids {
            // This process uses NVML only, so it is skipped.
            if pid == self.own {
                continue;
            }
            match self.one(pid, seconds) {
                Look::Uses(process) => found.push(*process),
                Look::Hidden(process) => hidden.push(process),
                Look::Nothing => {}
            }
        }
        (found, hidden)
    }

    fn one(&mut self, pid: u32, seconds: Option<f64>) -> Look {
        let folder = self.proc.join(pid.to_string());
        let Some(stat) = text(&folder.join("stat")).and_then(|text| Stat::parse(&text)) else {
            return Look::Nothing;
        };
        // Kernel threads and zombies have no memory mappings.
        if stat.kernel || stat.zombie {
            return Look::Nothing;
        }
        let round = self.round;
        let known = self.known.get(&pid).filter(|known| known.started == stat.started).cloned();
        let stale = |known: &Known| {
            let uses = known.libraries.cuda || known.libraries.cufile.is_some();
            uses || round >= known.looked_at + AGAIN
        };
        let mut known = match known {
            Some(known) if !stale(&known) => known,
            earlier => Known {
                started: stat.started,
                looked_at: round,
                libraries: libraries(&folder),
                counts: earlier.and_then(|known| known.counts),
            },
        };
        let libraries = known.libraries.clone();
        if !libraries.cuda && libraries.cufile.is_none() {
            self.known.insert(pid, known);
            let uid = fs::metadata(&folder).ok().map(|m| m.uid());
            let hidden = |denied| Look::Hidden(HiddenProcess { pid, name: stat.name, uid, denied });
            return libraries.denied.map_or(Look::Nothing, hidden);
        }
        let io = fs::read_to_string(folder.join("io")).unwrap_or_default();
        let counts =
            Counts { cpu_ticks: stat.cpu_ticks, storage: field(&io, "read_bytes:"), calls: field(&io, "rchar:") };
        let before = known.counts.replace(counts);
        self.known.insert(pid, known);
        let rate = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?) as f64 / seconds?);
        let status = text(&folder.join("status")).unwrap_or_default();
        let open = open_files(&folder);
        let (mut route, mut evidence) = seen_route(&libraries, open.as_ref());
        if route == SeenRoute::Cufile
            && let Some(why) = self.compat(pid, stat.started)
        {
            (route, evidence) = (SeenRoute::Compat, format!("{evidence}, {why}"));
        } else if route == SeenRoute::Cufile {
            evidence.push_str(": P2PDMA or compat");
        }
        let command = process::command_line(&folder).unwrap_or_default().join(" ");
        let command: String = command.trim().chars().take(COMMAND).collect();
        Look::Uses(Box::new(ProcessUse {
            pid,
            name: stat.name,
            command,
            uid: fs::metadata(&folder).ok().map(|m| m.uid()),
            cuda: libraries.cuda,
            cufile: libraries.cufile,
            cpu_percent: before.and_then(|before| {
                let ticks = counts.cpu_ticks.saturating_sub(before.cpu_ticks) as f64;
                Some(ticks * 100.0 / procfs::ticks_per_second() as f64 / seconds?)
            }),
            rss_bytes: field(&status, "VmRSS:").map(|kib| kib.saturating_mul(1024)),
            page_cache_bytes: field(&status, "RssFile:").map(|kib| kib.saturating_mul(1024)),
            threads: field(&status, "Threads:").and_then(|n| u32::try_from(n).ok()),
            gpu_memory_bytes: None,
            storage_bytes_per_s: rate(counts.storage, before.and_then(|b| b.storage)),
            call_bytes_per_s: rate(counts.calls, before.and_then(|b| b.calls)),
            route,
            evidence,
            mapped: libraries.mapped,
            files_readable: open.is_some(),
            files: open.map(|open| open.models).unwrap_or_default(),
        }))
    }

    /// Why a process that uses libcufile is inferred to read in compat mode. `None` without evidence.
    fn compat(&mut self, pid: u32, started: u64) -> Option<&'static str> {
        let entry = self.running.entry(pid).or_insert((started, None));
        if entry.0 != started || entry.1.is_none() {
            *entry = (started, Running::new(pid));
        }
        match entry.1.as_mut()?.route() {
            (Route::Compat, RouteProof::ProcessLog) => Some("its log reports compat mode and P2PDMA is not configured"),
            (Route::Compat, _) => Some("nvidia-fs is not loaded and P2PDMA is not configured"),
            _ => None,
        }
    }
}

enum Look {
    Uses(Box<ProcessUse>),
    Hidden(HiddenProcess),
    Nothing,
}

/// The required fields of `/proc/PID/stat` (proc(5)).
struct Stat {
    name: String,
    zombie: bool,
    kernel: bool,
    cpu_ticks: u64,
    started: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The process name may contain parentheses and spaces, so the last closing parenthesis ends it.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let rest: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
        let number = |at: usize| rest.get(at).and_then(|f| f.parse::<u64>().ok());
        const KERNEL_THREAD: u64 = 0x0020_0000; // The flag PF_KTHREAD from include/linux/sched.h.
        Some(Self {
            name: text.get(open + 1..close)?.to_owned(),
            zombie: matches!(rest.first(), Some(&("Z" | "X"))),
            kernel: number(6)? & KERNEL_THREAD != 0,
            cpu_ticks: number(11)?.saturating_add(number(12)?),
            started: number(19)?,
        })
    }
}

/// The text of a file in /proc. A process chooses its name, which need not be UTF-8.
fn text(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// The number after a label at the start of a line.
fn field(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}

fn is_model(path: &str) -> bool {
    MODEL_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

fn libraries(folder: &Path) -> Libraries {
    let mut found = Libraries::default();
    let maps = match process::mappings(folder) {
        Ok(maps) => maps,
        // A process that ended meanwhile hides nothing.
        Err(_) if !folder.exists() => return found,
        Err(error) => {
            return Libraries { denied: Some(format!("maps: {}", os_error(&error))), ..found };
        }
    };
    let mut last = "";
    let mut known = HashSet::new();
    for line in maps.lines() {
        // The path is the sixth field and may contain spaces. All mappings of a file are adjacent.
        let Some(path) = line.find('/').and_then(|at| line.get(at..)) else { continue };
        if path == last {
            continue;
        }
        last = path;
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with("libcuda.so") {
            found.cuda = true;
        } else if is_libcufile(Path::new(path)) {
            found.cufile = Some(name.to_owned());
        } else if is_model(path) && known.insert(path) && known.len() <= MOST_MAPPED {
            found.mapped.push(path.to_owned());
        }
    }
    if known.len() > MOST_MAPPED {
        found.mapped.push(MORE_FILES.to_owned());
    }
    found
}

struct Open {
    models: Vec<OpenFile>,
    nvidia_fs: bool,
    /// Whether the process has a cufile.log open: libcufile opens it together with its driver.
    log: bool,
}

/// The open files of a process that are models or devices of GDS; `None` without permission.
fn open_files(folder: &Path) -> Option<Open> {
    let mut open = Open { models: Vec::new(), nvidia_fs: false, log: false };
    for entry in fs::read_dir(folder.join("fd")).ok()?.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let path = target.to_string_lossy().into_owned();
        open.nvidia_fs |= path.starts_with("/dev/nvidia-fs");
        open.log |= path.ends_with("/cufile.log");
        if !is_model(&path) || open.models.len() >= MOST_OPEN {
            continue;
        }
        let info = process::beginning(&folder.join("fdinfo").join(entry.file_name()), INFO_BYTES);
        let info = info.map(|info| String::from_utf8_lossy(&info.bytes).into_owned()).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| u64::from_str_radix(text.trim(), 8).ok()).unwrap_or(0);
        open.models.push(OpenFile {
            offset: field(&info, "pos:").unwrap_or(0),
            bytes: fs::metadata(&target).ok().map(|m| m.len()),
            direct: flags & O_DIRECT != 0,
            path,
        });
    }
    open.models.sort_by(|a, b| a.path.cmp(&b.path).then(b.direct.cmp(&a.direct)));
    open.models.dedup_by(|a, b| a.path == b.path && a.direct == b.direct && a.offset == b.offset);
    Some(open)
}

/// The apparent route of a process's reads, with the reason. It is inferred from outside the process, so it is never
/// 'direct to the GPU'.
fn seen_route(libraries: &Libraries, open: Option<&Open>) -> (SeenRoute, String) {
    let direct = open.map_or(0, |o| o.models.iter().filter(|f| f.direct).count());
    let cached = open.map_or(0, |o| o.models.iter().filter(|f| !f.direct).count());
    let files = |n: usize| if n == 1 { "one file".to_owned() } else { format!("{n} files") };
    match (&libraries.cufile, open) {
        (Some(library), Some(o)) if o.nvidia_fs => {
            (SeenRoute::NvidiaFs, format!("{library} is mapped and /dev/nvidia-fs is open"))
        }
        (Some(library), Some(o)) if direct > 0 || o.log => {
            let log = if o.log { ", cufile.log is open" } else { "" };
            let direct = if direct > 0 { format!(", {} open with O_DIRECT", files(direct)) } else { String::new() };
            let text = format!("{library} is mapped{log}{direct}, /dev/nvidia-fs is not open");
            (SeenRoute::Cufile, text)
        }
        (Some(library), None) => {
            (SeenRoute::Unknown, format!("{library} is mapped; its open files need the rights of its owner or of root"))
        }
        (None, _) if direct > 0 => (SeenRoute::Direct, format!("{} open with O_DIRECT, no cuFile", files(direct))),
        _ if !libraries.mapped.is_empty() => (SeenRoute::Mapped, format!("{} mapped", files(libraries.mapped.len()))),
        _ if cached > 0 => (SeenRoute::Cached, format!("{} open without O_DIRECT", files(cached))),
        (_, None) => (SeenRoute::Unknown, "its open files need the rights of its owner or of root".to_owned()),
        _ => (SeenRoute::Unknown, "no file with an ending of models is open or mapped".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates the procfs files of a process with the given CPU ticks and read bytes.
    fn process(proc: &Path, pid: u32, maps: &str, ticks: u64, read: u64) {
        let folder = proc.join(pid.to_string());
        put(
            &folder.join("stat"),
            &format!("{pid} (py (x) thon) S 1 1 1 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 9 0 777 0 0"),
        );
        put(&folder.join("maps"), maps);
        put(&folder.join("io"), &format!("rchar: {}\nwchar: 0\nread_bytes: {read}\n", read * 2));
        put(&folder.join("status"), "Name:\tpython\nVmRSS:\t    2048 kB\nThreads:\t9\n");
        put(&folder.join("cmdline"), "python\0-m\0vllm");
        fs::create_dir_all(folder.join("fd")).unwrap();
    }

    #[test]
    fn a_process_whose_name_is_not_utf_8_is_found() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 4_000_001, "7f1 r-xp 0 08:01 6 /opt/libcufile.so.0\n", 100, 1_000);
        let folder = proc.path().join("4000001");
        fs::write(folder.join("stat"), b"4000001 (a\xff) S 1 1 1 0 -1 4194304 0 0 0 0 1 0 0 0 20 0 9 0 777 0 0")
            .unwrap();
        fs::write(folder.join("status"), b"Name:\ta\xff\nVmRSS:\t    2048 kB\nThreads:\t9\n").unwrap();
        let (found, hidden) = Processes::new(proc.path().to_owned()).look(Instant::now());
        assert_eq!((found.len(), hidden.len()), (1, 0));
        assert_eq!(found[0].name, "a\u{fffd}");
    }

    #[test]
    fn a_process_with_cufile_is_found_with_rates_and_evidence_and_others_are_not() {
        let proc = tempfile::tempdir().unwrap();
        let model = proc.path().join("model-1.safetensors");
        fs::write(&model, [0; 100]).unwrap();
        let maps = "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.580.1\n7f1 r-xp 0 08:01 6 /opt/a b/libcufile-6a1b.so.1.15.1\n7f2 rw-p 0 00:00 0\n";
        process(proc.path(), 4_000_001, maps, 100, 1_000);
        process(proc.path(), 4_000_002, "7f0 r-xp 0 08:01 5 /usr/lib/libc.so.6\n", 5, 5);
        let fd = proc.path().join("4000001/fd");
        std::os::unix::fs::symlink(&model, fd.join("5")).unwrap();
        put(&proc.path().join("4000001/fdinfo/5"), &format!("pos:\t64\nflags:\t0{O_DIRECT:o}\n"));
        let mut processes = Processes::new(proc.path().to_owned());
        let start = Instant::now();
        let (first, hidden) = processes.look(start);
        assert_eq!((first.len(), hidden), (1, Vec::new()));
        assert_eq!(first[0].storage_bytes_per_s, None, "one sample gives no rate");
        process(proc.path(), 4_000_001, maps, 300, 5_000);
        let (second, _) = processes.look(start + Duration::from_secs(2));
        let seen = &second[0];
        assert_eq!((seen.name.as_str(), seen.command.as_str()), ("py (x) thon", "python -m vllm"));
        assert_eq!((seen.storage_bytes_per_s, seen.call_bytes_per_s), (Some(2_000.0), Some(4_000.0)));
        assert_eq!((seen.rss_bytes, seen.threads), (Some(2 << 20), Some(9)));
        assert_eq!(seen.cufile.as_deref(), Some("libcufile-6a1b.so.1.15.1"));
        assert!(seen.cuda && seen.files[0].direct && seen.files[0].offset == 64 && seen.files[0].bytes == Some(100));
        assert_eq!(seen.route, SeenRoute::Cufile);
        assert!(seen.evidence.contains("P2PDMA or compat"), "{}", seen.evidence);
        // Without O_DIRECT, the log shows that the driver is open.
        put(&proc.path().join("4000001/fdinfo/5"), "pos:\t64\nflags:\t0\n");
        let route = |processes: &mut Processes| processes.look(start + Duration::from_secs(3)).0[0].route;
        assert_eq!(route(&mut processes), SeenRoute::Cached);
        std::os::unix::fs::symlink("/data/cufile.log", fd.join("6")).unwrap();
        assert_eq!(route(&mut processes), SeenRoute::Cufile);
    }

    #[test]
    fn a_mapped_model_and_a_process_that_cannot_be_looked_into_are_told_apart() {
        let proc = tempfile::tempdir().unwrap();
        let maps = "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n7f1 r--s 0 08:01 6 /m/a.safetensors\n";
        process(proc.path(), 4_000_001, maps, 1, 1);
        process(proc.path(), 4_000_002, "", 1, 1);
        fs::remove_file(proc.path().join("4000002/maps")).unwrap();
        let (seen, hidden) = Processes::new(proc.path().to_owned()).look(Instant::now());
        let [hidden] = hidden.as_slice() else { unreachable!("one process") };
        assert_eq!((seen.len(), hidden.pid, hidden.denied.starts_with("maps: ")), (1, 4_000_002, true));
        assert_eq!(
            (seen[0].route, seen[0].mapped.as_slice()),
            (SeenRoute::Mapped, &["/m/a.safetensors".to_owned()][..])
        );
        assert_eq!(seen[0].evidence, "one file mapped");
    }

    #[test]
    fn of_many_mapped_files_the_first_are_listed() {
        let proc = tempfile::tempdir().unwrap();
        let maps = |count: usize| -> String {
            (0..count).map(|n| format!("7f{n:x} r--s 0 08:01 {n} /m/{n}.safetensors\n")).collect()
        };
        process(proc.path(), 4_000_001, &maps(MOST_MAPPED), 1, 1);
        process(proc.path(), 4_000_002, &maps(MOST_MAPPED + 1), 1, 1);
        let mapped = |pid: u32| libraries(&proc.path().join(pid.to_string())).mapped;
        assert_eq!(mapped(4_000_001).len(), MOST_MAPPED);
        assert!(!mapped(4_000_001).contains(&MORE_FILES.to_owned()));
        assert_eq!(mapped(4_000_002).len(), MOST_MAPPED + 1);
        assert_eq!(mapped(4_000_002).last().map(String::as_str), Some(MORE_FILES));
    }

    #[test]
    fn libraries_loaded_later_are_noticed() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 4_000_001, "7f0 r-xp 0 08:01 5 /usr/lib/libc.so.6\n", 1, 1);
        let mut processes = Processes::new(proc.path().to_owned());
        assert!(processes.look(Instant::now()).0.is_empty());
        process(proc.path(), 4_000_001, "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n", 1, 1);
        let rounds = (0..AGAIN).filter(|_| processes.look(Instant::now()).0.is_empty()).count() as u64;
        assert!(rounds < AGAIN, "noticed within {AGAIN} rounds");
    }
}
