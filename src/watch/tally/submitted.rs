//! Transfers that a call submits and that end later: entries of batches and transfers on streams.

use super::Tally;
use crate::core::{BATCH_ENTRY, STREAM_TRANSFER};
use crate::watch::entry::Entry;
use crate::watch::files::{How, Transfer};
use crate::watch::group::Group;
use crate::watch::recent::Submitted;
use crate::watch::streams::{Ended, Pending};
use cufile_audit::layout::{Function, Record, kind};
use cufile_ffi::values::{BATCH_CANCELED, BATCH_COMPLETE};

/// The operation code of a read in a batch entry.
const OPCODE_READ: u64 = 0;
/// Maximum number of batch events that are kept until their submission arrives. Others belong to lost submissions.
const ORPHANS: usize = 4096;
/// Maximum number of entries that are kept per batch. libcufile allows 256.
const MOST_ENTRIES: usize = 65_536;

impl Tally {
    pub(super) fn stream(&mut self, function: Function, group: &Group, failed: bool) -> (usize, Transfer) {
        let record = &group.record;
        let write = function == Function::WriteAsync;
        let file = self.file_of(group.process, record.library(), record.object);
        let transfer = self.transfer(group.process, record, write, How::Stream);
        self.files[file].submit(&transfer);
        if failed {
            self.files[file].finish(&transfer, -1, None);
            return (file, transfer);
        }
        let library = record.library();
        self.accounts.entry((group.process, library)).or_default().submit(&transfer, record.start_ns);
        if !write {
            self.reading_threads.insert((group.process, group.thread));
        }
        let [result_at, before, after, ..] = record.extra;
        let Group { process, thread, is_visible, .. } = *group;
        let (submitted_ns, before) = (record.start_ns, before.cast_signed());
        let pending = Pending { process, library, thread, submitted_ns, file, transfer, result_at, before, is_visible };
        // Another transfer may have written its result to this address since.
        if self.of(process).lost.may_end(record.end_ns) {
            self.put_stream(&pending, None, record.end_ns);
        } else {
            let ended = self.streams.submit(pending, after.cast_signed(), record.end_ns);
            self.end_streams(&ended);
        }
        (file, transfer)
    }

    /// Processes stream transfers that have ended.
    pub(in crate::watch) fn end_streams(&mut self, ended: &[Ended]) {
        for (pending, result, at_ns) in ended {
            // The transfer ended before its result was seen, so its time is not known.
            self.files[pending.file].finish(&pending.transfer, *result, None);
            let account = self.accounts.entry((pending.process, pending.library)).or_default();
            account.end(&pending.transfer, *at_ns, *result);
            self.put_stream(pending, Some(*result), *at_ns);
            if *result < 0 {
                self.failure(STREAM_TRANSFER, *result, 0, Some(pending.file), true);
            }
        }
    }

    fn put_stream(&mut self, pending: &Pending, result: Option<i64>, at_ns: u64) {
        self.recent.put_submitted(&Submitted {
            function: STREAM_TRANSFER,
            process: pending.process,
            thread: pending.thread,
            times: [pending.submitted_ns, at_ns],
            file: &self.files[pending.file].path,
            transfer: pending.transfer,
            result,
        });
    }

    fn put_entry(&mut self, process: u32, entry: &Entry, result: Option<i64>, at_ns: u64) {
        self.recent.put_submitted(&Submitted {
            function: BATCH_ENTRY,
            process,
            thread: entry.thread,
            times: [entry.submitted_ns, at_ns],
            file: &self.files[entry.file].path,
            transfer: entry.transfer,
            result,
        });
    }

    /// Returns the file, if all entries have the same.
    pub(super) fn submit_batch(&mut self, group: &Group) -> Option<usize> {
        let (process, library) = (group.process, group.record.library());
        let mut files = Vec::new();
        for part in group.parts.iter().filter(|part| part.kind() == kind::BATCH_ENTRY) {
            let [cookie, opcode, handle, ..] = part.extra;
            let write = opcode != OPCODE_READ;
            let file = self.file_of(process, library, handle);
            let transfer = self.transfer(process, part, write, How::Batch);
            self.files[file].submit(&transfer);
            self.accounts.entry((process, library)).or_default().submit(&transfer, group.record.start_ns);
            files.push(file);
            if !write {
                self.reading_threads.insert((process, group.thread));
            }
            let (thread, submitted_ns) = (group.thread, group.record.start_ns);
            let entry = Entry { cookie, file, transfer, thread, submitted_ns, cancelled: false };
            // Its end may be lost, and another entry may have its cookie.
            if self.of(process).lost.may_end(group.record.end_ns) {
                self.put_entry(process, &entry, None, group.record.end_ns);
                continue;
            }
            let is_new = !self.of(process).batches.contains_key(&(library, part.object));
            if !self.may_keep(is_new) {
                continue;
            }
            let entries = self.of(process).batches.entry((library, part.object)).or_default();
            if entries.len() < MOST_ENTRIES {
                entries.push(entry);
            }
        }
        // An event before the submission belongs to an entry that was lost.
        let submitted_ns = group.record.start_ns;
        let orphans = std::mem::take(&mut self.of(process).orphans);
        for (library, event) in orphans.into_iter().filter(|(_, event)| event.end_ns >= submitted_ns) {
            self.end_entry(process, library, &event);
        }
        files.first().copied().filter(|first| files.iter().all(|file| file == first))
    }

    /// Processes an event of a batch: the entry with its cookie has ended. If several entries have this cookie, the
    /// oldest one has ended.
    pub(super) fn end_entry(&mut self, process: u32, library: u8, event: &Record) {
        let [cookie, status, ..] = event.extra;
        let known = self.of(process);
        let entries = known.batches.get_mut(&(library, event.object));
        let at = entries.as_ref().and_then(|entries| entries.iter().position(|entry| entry.cookie == cookie));
        let Some((entries, at)) = entries.zip(at) else {
            if known.orphans.len() < ORPHANS {
                known.orphans.push((library, *event));
            }
            return;
        };
        let entry = entries.remove(at);
        if status == u64::from(BATCH_CANCELED) {
            self.abandon(process, &[Entry { cancelled: true, ..entry }], event.end_ns);
            return;
        }
        let result = event.result.cast_signed();
        let failed = status != u64::from(BATCH_COMPLETE) || result < 0;
        let result = if failed { result.min(-1) } else { result };
        let Transfer { write, size, .. } = entry.transfer;
        // The program sees the end of an entry when it asks for the status of the batch.
        let took_ns = event.end_ns.saturating_sub(entry.submitted_ns);
        self.files[entry.file].finish(&entry.transfer, result, Some(took_ns));
        self.accounts.entry((process, library)).or_default().end(&entry.transfer, event.end_ns, result);
        if !failed {
            self.paces.add(BATCH_ENTRY, Some(size), entry.submitted_ns, event.end_ns);
        }
        if !failed && !write {
            self.time_read(size, took_ns);
        }
        self.put_entry(process, &entry, Some(result), event.end_ns);
        if failed {
            self.failure(BATCH_ENTRY, result, 0, Some(entry.file), true);
        }
    }

    /// Removes the entries of a batch after a status call whose events are unknown: another entry may have the cookie of
    /// one that has ended.
    pub(super) fn forget_entries(&mut self, process: u32, library: u8, status: &Record) {
        let entries = self.of(process).batches.get_mut(&(library, status.object)).map(std::mem::take);
        for entry in entries.unwrap_or_default() {
            self.put_entry(process, &entry, None, status.end_ns);
        }
    }

    /// Processes the cancellation of a batch. The program can still see the end of entries that had ended before.
    pub(super) fn cancel_batch(&mut self, process: u32, library: u8, batch: u64) {
        let entries = self.of(process).batches.get_mut(&(library, batch));
        entries.into_iter().flatten().for_each(|entry| entry.cancelled = true);
    }

    /// Processes entries whose end the program will not see. Returns the number of those that were not cancelled.
    fn abandon(&mut self, process: u32, entries: &[Entry], at_ns: u64) -> u64 {
        for entry in entries {
            self.put_entry(process, entry, None, at_ns);
            if entry.cancelled {
                self.files[entry.file].cancel(&entry.transfer);
            }
        }
        entries.iter().filter(|entry| !entry.cancelled).count() as u64
    }

    /// Processes the end of a batch. The program did not see the end of the remaining entries.
    pub(super) fn destroy_batch(&mut self, process: u32, library: u8, destroy: &Record) {
        let Some(entries) = self.of(process).batches.remove(&(library, destroy.object)) else { return };
        self.registered -= 1;
        let unseen = self.abandon(process, &entries, destroy.start_ns);
        self.unseen_transfers = self.unseen_transfers.saturating_add(unseen);
    }

    /// Removes all transfers of a process that have not ended, because their end is not known any more. Returns the number
    /// of those that were not cancelled.
    pub(super) fn forget_transfers(&mut self, process: u32, at_ns: u64) -> u64 {
        let batches = std::mem::take(&mut self.of(process).batches);
        self.registered -= batches.len();
        let entries: Vec<Entry> = batches.into_values().flatten().collect();
        let unseen = self.abandon(process, &entries, at_ns);
        let pending = self.streams.forget(process);
        for pending in &pending {
            self.put_stream(pending, None, at_ns);
        }
        unseen + pending.len() as u64
    }

    /// Adds the transfers without a known end to the timeline, when the recording ends.
    pub(in crate::watch) fn put_unfinished(&mut self, at_ns: u64) {
        let entries: Vec<(u32, Entry)> = (self.processes.iter())
            .flat_map(|(process, known)| known.batches.values().flatten().map(|entry| (*process, *entry)))
            .collect();
        for (process, entry) in entries {
            let unseen = self.abandon(process, &[entry], at_ns);
            self.unseen_transfers = self.unseen_transfers.saturating_add(unseen);
        }
        let pending: Vec<Pending> = self.streams.pending().copied().collect();
        for pending in &pending {
            self.put_stream(pending, None, at_ns);
        }
    }
}
