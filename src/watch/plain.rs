//! Reads and mappings by libc and copies by libcuda, as the audit library records them.

use super::rings::Group;
use super::tally::Tally;
use cufile_audit::layout::Function;

/// Calls that wait for the path of their file, at most.
const WAITING: usize = 4096;

impl Tally {
    /// A file, before libc reads or maps it for the first time in a process.
    pub(super) fn plain_file(&mut self, group: &Group) {
        let path = group.text();
        // A deleted file, or one of another mount namespace, still has a path.
        if path.is_empty() {
            return;
        }
        let [device, inode, ..] = group.record.extra;
        let file = self.file(path, 0);
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

    /// A large read or mapping by libc, or a large copy.
    pub(super) fn plain(&mut self, function: Function, group: &Group) {
        let record = &group.record;
        if function.is_cuda() {
            self.recent.put(function, group, None, i64::from(record.result as u32));
            return;
        }
        let [device, inode, ..] = record.extra;
        let Some(file) = self.inodes.get(&(group.process, device, inode)).copied() else {
            // Another thread began to read the file later and recorded its path.
            if self.waiting.len() < WAITING {
                self.waiting.push(group.clone());
            }
            return;
        };
        let mut error = 0;
        if matches!(function, Function::LibcMmap | Function::LibcMmap64) {
            self.files[file].map(record.size);
        } else {
            let result = record.result.cast_signed();
            self.files[file].finish_plain(record.offset, result, record.end_ns.saturating_sub(record.start_ns));
            error = result.min(0);
        }
        let path = self.files[file].path.as_str();
        self.recent.put(function, group, Some(path), error);
    }
}
