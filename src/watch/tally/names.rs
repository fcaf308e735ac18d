//! The files that handles mean, also after records were lost: a handle never means the file of an earlier registration.

use super::{MOST_FILES, Process, Tally};
use crate::core::{MORE_FILES, UNKNOWN_FILE};
use crate::watch::files::File;
use crate::watch::group::Group;
use crate::watch::losses::Losses;
use crate::watch::named_file::{Descriptor, NamedFile};
use cufile_audit::layout::{Function, kind, slot_of};

/// Maximum number of forks from the process that registered a file to one that uses it.
const MOST_FORKS: usize = 64;

impl Tally {
    pub(super) fn of(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_insert_with(|| {
            let in_slot = self.lost_by_slot.get(&slot_of(process.into())).copied().unwrap_or_default();
            Process { lost: self.lost_by_all.and(in_slot), ..Process::default() }
        })
    }

    /// The index of this file, which a process used with this descriptor. All files without a known path share one entry.
    pub(in crate::watch) fn file(&mut self, named: NamedFile, at: Option<Descriptor>) -> usize {
        if named.path.is_empty() {
            return self.unknown_file();
        }
        if let Some(file) = self.by_name.get(&named) {
            return *file;
        }
        // A process with a filter of system calls records no identity.
        if let Some(file) = self.known(&named.shown()).filter(|_| !named.is_identified()) {
            return file;
        }
        if self.files.len() >= MOST_FILES {
            return self.file_without_path(MORE_FILES);
        }
        let mut file = File::new(named.clone(), at, &mut self.header_bytes);
        let number = self.files.len();
        let known = self.by_path.entry(file.path.clone()).or_default();
        *known = (number, known.1 + 1);
        // Another file had this path before.
        if known.1 > 1 {
            file.path = format!("{} (file {})", file.path, known.1);
        }
        self.by_name.insert(named, number);
        self.files.push(file);
        number
    }

    /// Reads the header of a model in a new record, while the process most likely has it open. The record is processed
    /// later, when all earlier ones have arrived.
    pub(in crate::watch) fn meet(&mut self, group: &Group) {
        let names_file = [Function::HandleRegister as u16, kind::FILE].contains(&group.record.kind());
        let (named, at) = if names_file { group.file() } else { return };
        if named.is_safetensors() {
            self.file(named, at);
        }
    }

    /// The index of the unknown file.
    pub(in crate::watch) fn unknown_file(&mut self) -> usize {
        self.file_without_path(UNKNOWN_FILE)
    }

    /// The entry of files without a known path.
    fn file_without_path(&mut self, name: &str) -> usize {
        let named = NamedFile::without_path(name);
        if let Some(file) = self.by_name.get(&named) {
            return *file;
        }
        self.files.push(File::new(named.clone(), None, &mut self.header_bytes));
        self.by_name.insert(named, self.files.len() - 1);
        self.files.len() - 1
    }

    /// The file that a handle means in a process.
    pub(super) fn file_of(&mut self, process: u32, library: u8, handle: u64) -> usize {
        let own = self.processes.get(&process).and_then(|known| known.handles.get(&(library, handle)));
        let known = own.map(|handle| handle.file).or_else(|| self.inherited(process, library, handle));
        known.unwrap_or_else(|| self.unknown_file())
    }

    /// The file of a handle that the process has since it was forked.
    fn inherited(&self, process: u32, library: u8, handle: u64) -> Option<usize> {
        let mut at = process;
        for _ in 0..MOST_FORKS {
            let child = self.processes.get(&at)?;
            // A copy of libcufile that it loaded itself has other handles, and so can a registration that was lost.
            if self.library_of.contains_key(&(at, library)) || child.lost.registration_ns > 0 {
                return None;
            }
            at = self.parent(at)?;
            if let Some(found) = self.processes.get(&at)?.handles.get(&(library, handle)) {
                return (found.since_ns < child.began_ns).then_some(found.file);
            }
        }
        None
    }

    /// The process that a process was forked from, unless another program or process has its number since.
    fn parent(&self, process: u32) -> Option<u32> {
        let (parent, began_ns) = self.processes.get(&process)?.parent?;
        let is_same = began_ns == 0 || self.processes.get(&parent)?.began_ns == began_ns;
        is_same.then_some(parent)
    }

    /// A process and those that it was forked from, the nearest first.
    pub(super) fn line(&self, process: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(process), |at| self.parent(*at)).take(MOST_FORKS)
    }

    /// The index of a copy of libcufile. After a fork, the child has the copies of its parent. In an attached process and
    /// its children, a number always means the same copy.
    pub(super) fn library_number(&self, process: u32, library: u8) -> Option<usize> {
        let found = self.line(process).find_map(|process| self.library_of.get(&(process, library)));
        let same = || self.library_of.iter().find(|((_, number), _)| *number == library).map(|(_, at)| at);
        found.or_else(|| if self.began_late { same() } else { None }).copied()
    }

    /// Notes that a process has a copy of libcufile mapped, which it may have had before the attach or since a fork.
    pub(in crate::watch) fn maps(&mut self, process: u32, path: &str) {
        if let Some((_, processes)) = self.libraries.iter_mut().find(|(library, _)| library.path == path) {
            processes.insert(process);
        }
    }

    /// Notes that a process called a copy of libcufile. In an attached process, only one load of a copy is recorded.
    pub(super) fn uses(&mut self, process: u32, library: u8) {
        if self.began_late
            && let Some(at) = self.library_number(process, library)
        {
            self.libraries[at].1.insert(process);
        }
    }

    /// Processes the start of a program in a process: nothing of an earlier program or process of this number is left.
    /// `parent` is the process that it was forked from, or 0, `parent_began_ns` the start of that process if it is
    /// known, and `forked_ns` the time up to which the calls of that process about memory were before the fork.
    pub(super) fn start(&mut self, process: u32, [parent, parent_began_ns, forked_ns]: [u64; 3], at_ns: u64) {
        self.forget_handles(process);
        self.forget_buffers(process);
        let unfinished = self.forget_transfers(process, at_ns);
        self.unseen_transfers = self.unseen_transfers.saturating_add(unfinished);
        let parent = u32::try_from(parent).ok().filter(|parent| *parent > 0 && *parent != process);
        let parent = parent.map(|parent| (parent, parent_began_ns));
        let known = self.of(process);
        let lost = known.lost.after(at_ns);
        *known = Process { parent, began_ns: at_ns, forked_ns, lost, ..Process::default() };
    }

    /// Notes the losses of a process.
    pub(in crate::watch) fn lose(&mut self, process: u32, lost: Losses) {
        let known = self.of(process);
        let before = known.lost;
        let now = before.and(lost.after(known.began_ns));
        known.lost = now;
        let lacks_registration = now.registration_ns > before.registration_ns;
        // Without a lost release, only the end of the driver lets a lost registration return a known handle.
        if now.release_ns > before.release_ns || (lacks_registration && known.has_closed) {
            self.forget_handles(process);
        }
        if now.release_ns > before.release_ns {
            self.forget_buffers(process);
        }
        if now.transfer_ns > before.transfer_ns {
            self.forget_transfers(process, now.transfer_ns);
        }
    }

    /// Notes losses of processes that are not known.
    pub(in crate::watch) fn lose_in_all(&mut self, lost: Losses) {
        self.lost_by_all = self.lost_by_all.and(lost);
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        processes.into_iter().for_each(|process| self.lose(process, lost));
    }

    /// Notes that calls of the processes with this slot found no free ring.
    pub(in crate::watch) fn lose_in_slot(&mut self, slot: usize, at_ns: u64) {
        let lost = Losses::all(at_ns);
        self.lost_by_slot.insert(slot, lost);
        let processes = self.processes.keys().copied().filter(|process| slot_of((*process).into()) == slot);
        let processes: Vec<u32> = processes.collect();
        processes.into_iter().for_each(|process| self.lose(process, lost));
    }

    /// Processes the end of the driver.
    pub(super) fn close_driver(&mut self, process: u32) {
        let known = self.of(process);
        known.has_closed = true;
        if known.lost.registration_ns > 0 {
            self.forget_handles(process);
        }
    }

    /// A copy of libcufile that is loaded again has no handle of its former load.
    pub(super) fn forget_library(&mut self, process: u32, library: u8) {
        let handles = &mut self.of(process).handles;
        let before = handles.len();
        handles.retain(|(number, _), _| *number != library);
        let forgotten = before - handles.len();
        self.registered -= forgotten;
    }

    fn forget_handles(&mut self, process: u32) {
        let handles = std::mem::take(&mut self.of(process).handles);
        self.registered -= handles.len();
    }
}
