//! The current and total resource use of a process tree, from procfs.
//!
//! The use of an ended process is added to the process that waited for it: wait(2) adds its CPU time, faults and I/O
//! to the parent's counters. The root of the tree adopts orphans, so the sum over the tree is complete.

use crate::core::is_libcufile;
use crate::trust;
use procfs::process::{MMapPath, MemoryMaps, Process, Stat};
use procfs::{FromRead, ProcResult};
use rustix::process::{Pid, Signal};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Maximum time to wait for killed processes. A process in a system call of a driver ends later than others.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The resource use of a process tree. A value that could not be read for any process is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeUse {
    /// Number of living processes without the keeper and the supervisor of a command.
    pub processes: u32,
    /// Number of threads of these processes.
    pub threads: u64,
    /// Sum of the resident memory in bytes. Pages that several processes share are counted for each of them.
    pub rss_bytes: Option<u64>,
    /// The anonymous part of this memory in bytes.
    pub rss_anon_bytes: Option<u64>,
    /// The part of this memory that belongs to mapped files, in bytes.
    pub rss_file_bytes: Option<u64>,
    /// Total CPU time (user and system) in nanoseconds, including processes that have ended.
    pub cpu_ns: u64,
    /// Total bytes read from storage (`read_bytes`).
    pub storage_read_bytes: Option<u64>,
    /// Total bytes read by system calls (`rchar`).
    pub read_call_bytes: Option<u64>,
    /// Total number of page faults that needed storage.
    pub major_faults: u64,
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

impl TreeUse {
    fn take(&mut self, process: &Process, stat: &Stat) {
        self.major_faults += stat.majflt + stat.cmajflt;
        let reaped = u64::try_from(stat.cutime).unwrap_or(0) + u64::try_from(stat.cstime).unwrap_or(0);
        let ticks = (stat.utime + stat.stime + reaped) as f64;
        self.cpu_ns += (ticks * 1e9 / procfs::ticks_per_second() as f64) as u64;
        if !is_ours(process) {
            self.take_memory(process);
        }
        if let Ok(io) = process.io() {
            add(&mut self.storage_read_bytes, Some(io.read_bytes));
            add(&mut self.read_call_bytes, Some(io.rchar));
        }
    }

    fn take_memory(&mut self, process: &Process) {
        self.processes += 1;
        if let Ok(status) = process.status() {
            let bytes = |kib: Option<u64>| kib.map(|kib| kib.saturating_mul(1024));
            add(&mut self.rss_bytes, bytes(status.vmrss));
            add(&mut self.rss_anon_bytes, bytes(status.rssanon));
            add(&mut self.rss_file_bytes, bytes(status.rssfile));
            self.threads += status.threads;
        }
    }
}

/// The process ids of the root and its descendants, without zombies. The root is first.
#[must_use]
pub fn members(root: u32) -> Vec<u32> {
    tree(root).into_iter().map(|(process, _)| process.pid.unsigned_abs()).collect()
}

/// Identifies a process, even if its number is used again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pid: i32,
    /// Start time of the process in clock ticks since boot.
    started: u64,
}

/// The identities of the descendants of `root`, without zombies.
#[must_use]
pub fn identities(root: u32) -> Vec<Identity> {
    let identity = |(_, stat): (Process, Stat)| Identity { pid: stat.pid, started: stat.starttime };
    tree(root).into_iter().map(identity).filter(|one| one.pid.unsigned_abs() != root).collect()
}

/// Kills these processes and all their descendants. This is repeated until no process is left, because a process may
/// start another one before it is killed.
pub fn end(processes: &[Identity]) {
    let start = Instant::now();
    let mut known: BTreeSet<Identity> = processes.iter().copied().collect();
    while start.elapsed() < END_LIMIT {
        let alive = |one: &Identity| {
            let stat = Process::new(one.pid).and_then(|process| process.stat());
            stat.is_ok_and(|stat| stat.starttime == one.started && stat.state != 'Z')
        };
        known.retain(alive);
        if known.is_empty() {
            return;
        }
        let more: Vec<Identity> = known.iter().flat_map(|one| identities(one.pid.unsigned_abs())).collect();
        known.extend(more);
        for pid in known.iter().filter_map(|one| Pid::from_raw(one.pid)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn tree(root: u32) -> Vec<(Process, Stat)> {
    let Ok(all) = procfs::process::all_processes() else { return Vec::new() };
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let mut known = BTreeMap::new();
    for process in all.filter_map(ProcResult::ok) {
        // The process has ended, so it cannot be one of these processes.
        let Ok(stat) = process.stat() else { continue };
        children.entry(stat.ppid).or_default().push(stat.pid);
        known.insert(stat.pid, (process, stat));
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut left: Vec<i32> = i32::try_from(root).into_iter().collect();
    while let Some(pid) = left.pop() {
        if !seen.insert(pid) {
            continue;
        }
        left.extend(children.get(&pid).into_iter().flatten());
        if let Some(one) = known.remove(&pid).filter(|(_, stat)| stat.state != 'Z') {
            found.push(one);
        }
    }
    found
}

/// The current and total resource use of `root` and its descendants; `None` if the root has ended.
#[must_use]
pub fn usage(root: u32) -> Option<TreeUse> {
    let tree = tree(root);
    if tree.is_empty() {
        return None;
    }
    let mut sum = TreeUse::default();
    for (process, stat) in &tree {
        sum.take(process, stat);
    }
    Some(sum)
}

/// Memory of the tree in bytes, with shared pages counted once (proportional set size). The kernel walks all memory
/// mappings for it, so it is too slow for every sample. `None` if the kernel or a missing permission prevents it.
#[must_use]
pub fn shared_once_bytes(root: u32) -> Option<u64> {
    let mut sum = None;
    for (process, _) in tree(root).into_iter().filter(|(process, _)| !is_ours(process)) {
        let rollup = process.smaps_rollup().ok();
        let pss = rollup.and_then(|r| r.memory_map_rollup.0.first()?.extension.map.get("Pss").copied());
        add(&mut sum, pss);
    }
    sum
}

/// The path of the libcufile that a process of the tree has mapped, and whether all processes could be examined.
#[must_use]
pub fn mapped_cufile(root: u32) -> (Option<String>, bool) {
    let mut readable = true;
    for (process, _) in tree(root) {
        let maps = trust::process::mappings(&trust::process::folder(process.pid), &mut trust::Allowance::unlimited());
        let Some(maps) = maps.ok().and_then(|maps| MemoryMaps::from_read(maps.as_bytes()).ok()) else {
            readable = false;
            continue;
        };
        let found = maps.iter().find_map(|map| match &map.pathname {
            MMapPath::Path(path) if is_libcufile(path) => Some(path.to_string_lossy().into_owned()),
            _ => None,
        });
        if found.is_some() {
            return (found, readable);
        }
    }
    (None, readable)
}

/// Whether a process is the keeper of a command. It is the root of the command's tree.
pub(super) fn is_keeper(pid: u32) -> bool {
    let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
    process.is_some_and(|process| subcommand(&process).is_some_and(|word| word == KEEPER))
}

/// Whether a process is the keeper or the supervisor of a command. Both are not part of the command.
fn is_ours(process: &Process) -> bool {
    subcommand(process).is_some_and(|word| word == KEEPER || word == SUPERVISOR)
}

fn subcommand(process: &Process) -> Option<String> {
    trust::process::command_line(&trust::process::folder(process.pid), &mut trust::Allowance::unlimited())
        .ok()?
        .into_iter()
        .nth(1)
}

/// The hidden subcommand of gds-top that starts a supervisor and adopts its orphaned processes.
pub const KEEPER: &str = "__outside";

/// The hidden subcommand of gds-top that runs a command and adopts its orphaned processes.
pub const SUPERVISOR: &str = "__outside-supervisor";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_tree_is_its_root_and_all_that_came_of_it() {
        let mut child =
            Command::new("sh").args(["-c", "sh -c 'sleep 3600 & wait' & wait"]).stdin(Stdio::null()).spawn().unwrap();
        let start = std::time::Instant::now();
        let found = loop {
            let found = members(child.id());
            if found.len() >= 3 || start.elapsed().as_secs() > 180 {
                break found;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!((found.len(), found[0]), (3, child.id()), "{found:?}");
        let used = usage(child.id()).unwrap();
        assert_eq!(used.processes, 3);
        assert!(used.rss_bytes.is_some_and(|b| b > 0) && used.read_call_bytes.is_some(), "{used:?}");
        // The root is the first one. So no parent is left that could reap the others before they are killed.
        for pid in found {
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid as i32).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
        }
        child.wait().unwrap();
        assert_eq!(usage(child.id()), None);
    }

    #[test]
    fn what_a_child_read_is_kept_by_the_parent_that_waited_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        std::fs::write(&file, vec![0; 8 << 20]).unwrap();
        let line = format!("cat {} > /dev/null; exec sleep 3600", file.display());
        let mut child = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).spawn().unwrap();
        let start = std::time::Instant::now();
        let enough = |used: TreeUse| used.processes == 1 && used.read_call_bytes.is_some_and(|bytes| bytes >= 8 << 20);
        while !usage(child.id()).is_some_and(enough) {
            assert!(start.elapsed().as_secs() < 180, "{:?}", usage(child.id()));
        }
        assert!(!is_keeper(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
