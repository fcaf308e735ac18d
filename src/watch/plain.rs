//! Processes the audit library's records of reads and mappings by libc, and of copies by libcuda.

use super::group::Group;
use super::recent::Details;
use super::tally::Tally;
use cufile_audit::layout::Function;

/// Maximum number of calls that wait for the path of their file.
const WAITING: usize = 4096;

impl Tally {
    /// Processes the record of a file that a process reads or maps for the first time.
    pub(super) fn plain_file(&mut self, group: &Group) {
        let [device, inode, ..] = group.record.extra;
        // The kernel names no file whose path is longer than 4095 bytes. A deleted file, or a file in another mount
        // namespace, still has a path.
        let (named, at) = group.file();
        let file = self.file(named, at);
        let key = (group.process, device, inode);
        self.inodes.insert(key, file);
        let of = |group: &Group| (group.process, group.record.extra[0], group.record.extra[1]) == key;
        let (known, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(of);
        self.waiting = waiting;
        let known: Vec<Group> = known;
        for group in &known {
            if let Some(function) = Function::ALL.get(usize::from(group.record.kind())) {
                self.plain(*function, group);
            }
        }
    }

    /// Processes the pages of a mapping before it is unmapped.
    pub(super) fn touched(&mut self, group: &Group) {
        let [device, inode, ..] = group.record.extra;
        // After a fork, the child has the mappings of its parent.
        let own = self.inodes.get(&(group.process, device, inode)).copied();
        let Some(file) = own.or_else(|| self.same_inode(device, inode)) else { return };
        let ranges = group.parts.iter().map(|part| (part.offset, part.offset.saturating_add(part.size)));
        self.files[file].touch(&ranges.collect::<Vec<_>>());
    }

    /// Processes a large read or mapping by libc, or a large copy.
    pub(super) fn plain(&mut self, function: Function, group: &Group) {
        let record = &group.record;
        if function.is_cuda() {
            let error = i64::from(record.result as u32);
            self.recent.put(function, group, &Details { error, ..Details::default() });
            return;
        }
        let [device, inode, ..] = record.extra;
        let file = match self.inodes.get(&(group.process, device, inode)).copied() {
            Some(file) => file,
            // The path is recorded later, because another thread began to read the file first.
            None if self.waiting.len() < WAITING => {
                self.waiting.push(group.clone());
                return;
            }
            None => self.unknown_file(),
        };
        self.count_plain(file, function, group);
    }

    /// Counts the calls that still wait for the path of their file when the recording ends. It was lost.
    pub(super) fn end_waiting(&mut self) {
        for group in std::mem::take(&mut self.waiting) {
            let Some(function) = Function::ALL.get(usize::from(group.record.kind())) else { continue };
            let [device, inode, ..] = group.record.extra;
            let known = self.inodes.get(&(group.process, device, inode)).copied();
            let file = known.unwrap_or_else(|| self.unknown_file());
            self.count_plain(file, *function, &group);
        }
    }

    /// The file with this device and inode in any process.
    fn same_inode(&self, device: u64, inode: u64) -> Option<usize> {
        let same = self.inodes.iter().find(|((_, d, i), _)| (*d, *i) == (device, inode));
        same.map(|(_, file)| *file)
    }

    fn count_plain(&mut self, file: usize, function: Function, group: &Group) {
        let record = &group.record;
        let mut error = 0;
        if matches!(function, Function::LibcMmap | Function::LibcMmap64) {
            self.files[file].map(record.size);
        } else {
            let result = record.result.cast_signed();
            self.files[file].finish_plain(record.offset, result, record.end_ns.saturating_sub(record.start_ns));
            error = result.min(0);
        }
        let path = self.files[file].path.as_str();
        self.recent.put(function, group, &Details { file: Some(path), error, ..Details::default() });
    }
}
