//! The memory that a process has registered, itself or before it was forked.

use super::{Process, Tally};
use crate::watch::entry::Buffer;
use cufile_audit::layout::{Function, Record};

impl Tally {
    /// Processes a registration or release of memory.
    pub(super) fn buffer(&mut self, function: Function, process: u32, record: &Record, failed: bool) {
        let took_ns = record.end_ns.saturating_sub(record.start_ns);
        self.buffers.total_ns = self.buffers.total_ns.saturating_add(took_ns);
        if failed {
            return;
        }
        if function == Function::BufDeregister {
            self.release(process, record);
        } else {
            self.register(process, record);
        }
        let registered_bytes = self.of(process).registered_bytes;
        self.buffers.registered += u64::from(function == Function::BufRegister);
        self.buffers.most_bytes = self.buffers.most_bytes.max(registered_bytes);
    }

    fn register(&mut self, process: u32, record: &Record) {
        let known = self.of(process);
        let is_new = !known.buffers.contains_key(&record.base);
        if known.lost.may_release(record.end_ns) {
            return;
        }
        let is_kept = self.may_keep(is_new);
        let known = self.of(process);
        if is_kept {
            let buffer = Buffer { size: record.size, since_ns: record.end_ns };
            let former = known.buffers.insert(record.base, buffer).map_or(0, |former| former.size);
            known.registered_bytes = known.registered_bytes.saturating_sub(former).saturating_add(record.size);
        } else {
            known.lost.registration_ns = record.end_ns.max(1);
        }
    }

    fn release(&mut self, process: u32, record: &Record) {
        let known = self.of(process);
        known.released_ns = record.end_ns;
        if let Some(buffer) = known.buffers.remove(&record.base) {
            known.registered_bytes = known.registered_bytes.saturating_sub(buffer.size);
            self.registered -= 1;
        } else {
            known.has_released_inherited |= known.parent.is_some();
        }
    }

    /// Whether memory is registered in a process. `None` if it is not known. The child of a fork has the memory that
    /// its parent registered before, also if the parent releases it later.
    pub(super) fn is_registered(&self, process: u32, from: u64, end: u64) -> Option<bool> {
        let mut child: Option<&Process> = None;
        for known in self.line(process).filter_map(|at| self.processes.get(&at)) {
            let nearest = known.buffers.range(..=from).next_back();
            let is_in = nearest.is_some_and(|(base, buffer)| {
                end <= base.saturating_add(buffer.size) && child.is_none_or(|child| buffer.since_ns <= child.forked_ns)
            });
            if is_in {
                return Some(true);
            }
            let has_released = child.is_some_and(|child| known.released_ns > child.forked_ns);
            if has_released || known.has_released_inherited || known.lost.may_have_registered() {
                return None;
            }
            child = Some(known);
        }
        if self.began_late { None } else { Some(false) }
    }

    pub(super) fn forget_buffers(&mut self, process: u32) {
        let known = self.of(process);
        known.registered_bytes = 0;
        let buffers = std::mem::take(&mut known.buffers);
        self.registered -= buffers.len();
    }
}
