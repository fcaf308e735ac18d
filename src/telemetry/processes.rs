//! Finds the processes that use CUDA or cuFile, from procfs: their memory, storage and CPU use, and their apparent
//! method of reading models.

use super::access::{Libraries, Open, field, libraries, needs_settings, open_files, seen_route};
use crate::core::{HiddenProcess, ProcessUse, Route, RouteProof};
use crate::trust::{Allowance, Examiner, process};
use crate::watch::Running;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

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
    /// `None` for a process without the libraries.
    counts: Option<Counts>,
    /// The reason why its mappings cannot be read.
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
    examiner: Examiner,
    /// The process with which the next round begins: the first one for which the others left too little.
    first: u32,
}

/// The processes of the machine at one moment.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The processes that use CUDA or cuFile.
    pub(super) found: Vec<ProcessUse>,
    /// The processes that the kernel does not show to this user.
    pub(super) denied: Vec<HiddenProcess>,
    /// The processes that did not answer, or for which a limit was reached.
    pub(super) unexamined: Vec<HiddenProcess>,
}

impl Processes {
    /// `proc` is the mount point of procfs.
    pub(super) fn new(proc: PathBuf) -> Self {
        Self::with(proc, Examiner::new(crate::trust::Limits::of_all_processes()))
    }

    fn with(proc: PathBuf, examiner: Examiner) -> Self {
        Self {
            proc,
            own: std::process::id(),
            known: BTreeMap::new(),
            running: BTreeMap::new(),
            round: 0,
            before: None,
            examiner,
            first: 0,
        }
    }

    /// Examines all processes.
    pub(super) fn look(&mut self, now: Instant) -> Seen {
        self.round += 1;
        self.examiner.begin_round();
        let seconds = self.before.map(|before| now.duration_since(before).as_secs_f64()).filter(|s| *s > 0.0);
        self.before = Some(now);
        let pids: BTreeSet<u32> = fs::read_dir(&self.proc)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        self.known.retain(|pid, _| pids.contains(pid));
        self.running.retain(|pid, _| pids.contains(pid));
        let mut seen = Seen::default();
        for pid in pids.range(self.first..).chain(pids.range(..self.first)) {
            // This process uses NVML only, so it is skipped.
            if *pid == self.own {
                continue;
            }
            match self.one(*pid, seconds) {
                Look::Uses(process) => seen.found.push(*process),
                Look::Denied(process) => seen.denied.push(process),
                Look::Unexamined(process) => seen.unexamined.push(process),
                Look::Nothing => {}
            }
        }
        self.first = self.examiner.left_out().map_or(0, |(pid, _)| pid);
        seen.found.sort_by_key(|process| process.pid);
        [&mut seen.denied, &mut seen.unexamined].into_iter().for_each(|list| list.sort_by_key(|process| process.pid));
        seen
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
        let known = self.known.get(&pid).filter(|known| known.started == stat.started);
        let uid = fs::metadata(&folder).ok().map(|m| m.uid());
        let hidden = |name, denied| HiddenProcess { pid, name, uid, denied };
        // A process that uses the libraries is examined in each round.
        if let Some(known) = known.filter(|known| known.counts.is_none() && round < known.looked_at + AGAIN) {
            return known.denied.clone().map_or(Look::Nothing, |denied| Look::Denied(hidden(stat.name, denied)));
        }
        let before = known.and_then(|known| known.counts);
        let running = self.running.remove(&pid).filter(|(started, _)| *started == stat.started);
        let question = Question { folder, pid, running: running.and_then(|(_, running)| running) };
        let answer = match self.examiner.ask((pid, stat.started), move |allowed| question.answer(allowed)) {
            Ok(answer) => answer,
            Err(why) => return Look::Unexamined(hidden(stat.name, why.reason().to_owned())),
        };
        let storage = field(&answer.io, "read_bytes:");
        let counts = Counts { cpu_ticks: stat.cpu_ticks, storage, calls: field(&answer.io, "rchar:") };
        let libraries = answer.libraries;
        let uses = libraries.cuda || libraries.cufile.is_some();
        let (kept, denied) = (uses.then_some(counts), libraries.denied.clone());
        self.known.insert(pid, Known { started: stat.started, looked_at: round, counts: kept, denied });
        if !uses {
            return libraries.denied.map_or(Look::Nothing, |denied| Look::Denied(hidden(stat.name, denied)));
        }
        self.running.insert(pid, (stat.started, answer.running));
        let rate = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?) as f64 / seconds?);
        let open = answer.open;
        let route = seen_route(&libraries, open.as_ref(), answer.compat.is_some());
        Look::Uses(Box::new(ProcessUse {
            pid,
            name: stat.name,
            command: answer.command,
            uid,
            cuda: libraries.cuda,
            cufile: libraries.cufile,
            cpu_percent: before.and_then(|before| {
                let ticks = counts.cpu_ticks.saturating_sub(before.cpu_ticks) as f64;
                Some(ticks * 100.0 / procfs::ticks_per_second() as f64 / seconds?)
            }),
            rss_bytes: field(&answer.status, "VmRSS:").map(|kib| kib.saturating_mul(1024)),
            page_cache_bytes: field(&answer.status, "RssFile:").map(|kib| kib.saturating_mul(1024)),
            threads: field(&answer.status, "Threads:").and_then(|n| u32::try_from(n).ok()),
            gpu_memory_bytes: None,
            storage_bytes_per_s: rate(counts.storage, before.and_then(|b| b.storage)),
            call_bytes_per_s: rate(counts.calls, before.and_then(|b| b.calls)),
            route,
            compat_proof: answer.compat,
            log_open: open.as_ref().is_some_and(|open| open.log),
            mapped: libraries.mapped,
            files_readable: open.is_some(),
            files: open.map(|open| open.models).unwrap_or_default(),
        }))
    }
}

/// A question about a process, with the earlier data for the answer.
struct Question {
    folder: PathBuf,
    pid: u32,
    running: Option<Running>,
}

/// The data about a process. Without the libraries, only these are known.
#[derive(Default)]
struct Answer {
    libraries: Libraries,
    io: String,
    status: String,
    command: String,
    open: Option<Open>,
    running: Option<Running>,
    compat: Option<RouteProof>,
}

impl Question {
    fn answer(self, allowed: &mut Allowance) -> Answer {
        let Self { folder, pid, running } = self;
        let libraries = libraries(&folder, allowed);
        if !libraries.cuda && libraries.cufile.is_none() {
            return Answer { libraries: Libraries { mapped: Vec::new(), ..libraries }, ..Answer::default() };
        }
        let open = open_files(&folder, allowed);
        let is_wanted = needs_settings(&libraries, open.as_ref());
        let mut running = running.or_else(|| if is_wanted { Running::new(pid, allowed) } else { None });
        let compat = running.as_mut().filter(|_| is_wanted).and_then(|running| compat(running, allowed));
        let command = process::command_line(&folder, allowed).unwrap_or_default();
        let command = process::shown_command(command).join(" ").trim().to_owned();
        let io = fs::read_to_string(folder.join("io")).unwrap_or_default();
        let status = text(&folder.join("status")).unwrap_or_default();
        Answer { libraries, io, status, command, open, running, compat }
    }
}

/// The evidence that a process that uses libcufile reads in compat mode, from its settings and its log.
fn compat(running: &mut Running, allowed: &mut Allowance) -> Option<RouteProof> {
    let (route, proof) = running.route(allowed);
    (route == Route::Compat).then_some(proof)
}

enum Look {
    Uses(Box<ProcessUse>),
    Denied(HiddenProcess),
    Unexamined(HiddenProcess),
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::access::O_DIRECT;
    use super::*;
    use crate::core::{MORE_FILES, SeenRoute};
    use crate::trust::waiting_tests::{patient, until};
    use crate::trust::{Limits, Unexamined};
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

    fn processes(proc: &tempfile::TempDir, limits: Limits) -> Processes {
        Processes::with(proc.path().to_owned(), Examiner::new(limits))
    }

    #[test]
    fn a_process_whose_name_is_not_utf_8_is_found() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 4_000_001, "7f1 r-xp 0 08:01 6 /opt/libcufile.so.0\n", 100, 1_000);
        let folder = proc.path().join("4000001");
        fs::write(folder.join("stat"), b"4000001 (a\xff) S 1 1 1 0 -1 4194304 0 0 0 0 1 0 0 0 20 0 9 0 777 0 0")
            .unwrap();
        fs::write(folder.join("status"), b"Name:\ta\xff\nVmRSS:\t    2048 kB\nThreads:\t9\n").unwrap();
        let seen = processes(&proc, patient()).look(Instant::now());
        assert_eq!((seen.found.len(), seen.denied.len()), (1, 0));
        assert_eq!(seen.found[0].name, "a\u{fffd}");
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
        let mut processes = processes(&proc, patient());
        let start = Instant::now();
        let Seen { found: first, denied, unexamined } = processes.look(start);
        assert_eq!((first.len(), denied.len(), unexamined.len()), (1, 0, 0));
        assert_eq!(first[0].storage_bytes_per_s, None, "one sample gives no rate");
        process(proc.path(), 4_000_001, maps, 300, 5_000);
        let second = processes.look(start + Duration::from_secs(2)).found;
        let seen = &second[0];
        assert_eq!((seen.name.as_str(), seen.command.as_str()), ("py (x) thon", "python -m vllm"));
        assert_eq!((seen.storage_bytes_per_s, seen.call_bytes_per_s), (Some(2_000.0), Some(4_000.0)));
        assert_eq!((seen.rss_bytes, seen.threads), (Some(2 << 20), Some(9)));
        assert_eq!(seen.cufile.as_deref(), Some("libcufile-6a1b.so.1.15.1"));
        assert!(seen.cuda && seen.files[0].direct && seen.files[0].offset == 64 && seen.files[0].bytes == Some(100));
        assert_eq!(seen.route, SeenRoute::Cufile);
        assert_eq!((seen.log_open, seen.compat_proof), (false, None));
        // Without O_DIRECT, the log shows that the driver is open.
        put(&proc.path().join("4000001/fdinfo/5"), "pos:\t64\nflags:\t0\n");
        let route = |processes: &mut Processes| processes.look(start + Duration::from_secs(3)).found[0].route;
        assert_eq!(route(&mut processes), SeenRoute::Cached);
        std::os::unix::fs::symlink("/data/cufile.log", fd.join("6")).unwrap();
        assert_eq!(route(&mut processes), SeenRoute::Cufile);
        // A mapped library alone does not show how the process reads.
        [5, 6].iter().for_each(|number| fs::remove_file(fd.join(number.to_string())).unwrap());
        let found = processes.look(start + Duration::from_secs(4)).found;
        assert_eq!(found[0].route, SeenRoute::Unknown);
    }

    #[test]
    fn a_running_process_whose_settings_allow_only_compat_has_this_route_as_in_watch() {
        let dir = tempfile::tempdir().unwrap();
        let settings = dir.path().join("cufile.json");
        fs::write(&settings, "{}").unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("60").env("CUFILE_ENV_PATH_JSON", &settings).spawn().unwrap();
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), child.id(), "7f1 r-xp 0 08:01 6 /opt/libcufile.so.0\n", 1, 1);
        // While a program starts, it has no variables for a moment.
        let mut running = None;
        until(|| {
            running = Running::new(child.id(), &mut Allowance::unlimited());
            running.is_some()
        });
        let expected = running.unwrap().route(&mut Allowance::unlimited()).0;
        let found = || processes(&proc, patient()).look(Instant::now()).found;
        let mapped = found();
        std::os::unix::fs::symlink("/data/cufile.log", proc.path().join(format!("{}/fd/5", child.id()))).unwrap();
        let found = found();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(mapped[0].route, SeenRoute::Unknown, "nothing shows that it uses cuFile");
        let expected = if expected == Route::Compat { SeenRoute::Compat } else { SeenRoute::Cufile };
        assert_eq!((found[0].route, found[0].log_open), (expected, true), "{:?}", found[0].compat_proof);
    }

    #[test]
    fn a_mapped_model_and_a_process_that_cannot_be_looked_into_are_told_apart() {
        let proc = tempfile::tempdir().unwrap();
        let maps = "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n7f1 r--s 0 08:01 6 /m/a.safetensors\n";
        process(proc.path(), 4_000_001, maps, 1, 1);
        process(proc.path(), 4_000_002, "", 1, 1);
        fs::remove_file(proc.path().join("4000002/maps")).unwrap();
        let all = processes(&proc, patient()).look(Instant::now());
        let (seen, hidden) = (all.found, all.denied);
        let [hidden] = hidden.as_slice() else { unreachable!("one process") };
        assert_eq!((seen.len(), hidden.pid, hidden.denied.starts_with("maps: ")), (1, 4_000_002, true));
        assert_eq!(
            (seen[0].route, seen[0].mapped.as_slice()),
            (SeenRoute::Mapped, &["/m/a.safetensors".to_owned()][..])
        );
    }

    #[test]
    fn libraries_loaded_later_are_noticed() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 4_000_001, "7f0 r-xp 0 08:01 5 /usr/lib/libc.so.6\n", 1, 1);
        let mut processes = processes(&proc, patient());
        assert!(processes.look(Instant::now()).found.is_empty());
        process(proc.path(), 4_000_001, "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n", 1, 1);
        let rounds = (0..AGAIN).filter(|_| processes.look(Instant::now()).found.is_empty()).count() as u64;
        assert!(rounds < AGAIN, "noticed within {AGAIN} rounds");
    }

    #[test]
    fn a_process_that_does_not_answer_is_listed_with_the_reason_and_the_others_are_seen() {
        let proc = tempfile::tempdir().unwrap();
        let maps = "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n";
        process(proc.path(), 4_000_001, maps, 1, 1);
        process(proc.path(), 4_000_002, maps, 1, 1);
        // Opening it waits for a writer.
        let silent = proc.path().join("4000001/cmdline");
        fs::remove_file(&silent).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &silent, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let mut processes = processes(&proc, Limits { process: Duration::from_millis(100), ..patient() });
        let silent = vec![(4_000_001, Unexamined::NoAnswer.reason().to_owned())];
        let (start, mut rounds) = (Instant::now(), 0);
        while rounds < 2 {
            let Seen { found, denied, unexamined } = processes.look(Instant::now());
            let found: Vec<u32> = found.into_iter().map(|process| process.pid).collect();
            let unexamined: Vec<_> = unexamined.into_iter().map(|process| (process.pid, process.denied)).collect();
            // On a stalled machine, the other process can be late too.
            rounds += i32::from(denied.is_empty() && found == [4_000_002] && unexamined == silent);
            assert!(start.elapsed() < Duration::from_secs(60), "{found:?} {unexamined:?}");
        }
    }

    #[test]
    fn processes_above_the_limit_of_a_round_are_examined_in_the_next_one() {
        let proc = tempfile::tempdir().unwrap();
        // The third one is above the limit of a process.
        for (pid, descriptors) in [(1, 10), (2, 10), (3, 11), (4, 10), (5, 10), (6, 10)] {
            process(proc.path(), 4_000_000 + pid, "7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n", 1, 1);
            for fd in 0..descriptors {
                std::os::unix::fs::symlink("/x", proc.path().join(format!("400000{pid}/fd/{fd}"))).unwrap();
            }
        }
        let mut processes = processes(&proc, Limits { descriptors: 40, ..patient() });
        let mut pids = || {
            let Seen { found, denied, unexamined } = processes.look(Instant::now());
            assert!(denied.is_empty() && unexamined.iter().any(|process| process.pid == 4_000_003));
            found.iter().map(|process| process.pid - 4_000_000).collect::<Vec<_>>()
        };
        let rounds: Vec<_> = (0..3).map(|_| pids()).collect();
        assert_eq!(rounds, [vec![1, 2, 4], vec![1, 2, 5, 6], vec![4, 5, 6]]);
    }

    #[test]
    fn the_paths_of_all_processes_have_one_limit() {
        let proc = tempfile::tempdir().unwrap();
        for pid in 4_000_001..=4_000_002 {
            let model = |n: usize| format!("7f{n:x} r--s 0 08:01 {n} /m/{n}.safetensors\n");
            let maps: String = (0..10).map(model).collect();
            process(proc.path(), pid, &format!("7f0 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n{maps}"), 1, 1);
        }
        let path_bytes = 15 * "/m/0.safetensors".len();
        let seen = processes(&proc, Limits { path_bytes, ..patient() }).look(Instant::now());
        let counts: Vec<usize> = seen.found.iter().map(|process| process.mapped.len()).collect();
        assert_eq!(counts, [10, 6], "five, and one entry for the others");
        assert_eq!(seen.found[1].mapped[5], MORE_FILES);
    }
}
