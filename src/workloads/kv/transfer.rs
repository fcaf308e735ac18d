//! One worker of a run. It opens files by the policy of the system, and moves bytes between target and store with
//! cuFile, with plain reads and writes, or to host memory.

use super::flights::Flights;
use super::layout::Task;
use super::opening::open_file;
use super::order::Method;
use super::params::KvSetting;
use super::pipeline::Operation;
use super::shared::{OpenFile, Refused, Shared};
use super::store::{self, failed};
use crate::core::{FallbackAction, FallbackReason, KvSystem, Phase};
use crate::device::{CopyQueue, DeviceMemory, MemoryPart, Piece, Slot};
use crate::engines::{LoadError, Recorder, What, explain};
use crate::trust::shown;
use cufile_ffi::{BufferRegistration, Error, IoMemory};
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Memory for a cuFile call: the memory, the offset at which the transfer begins, and the number of the transfer's
/// bytes in it.
pub(super) struct Part {
    pub(super) memory: Arc<dyn IoMemory>,
    pub(super) offset: usize,
    pub(super) bytes: u64,
}

/// Alignment that GDS requires, in bytes.
const PAGE: u64 = 4096;

/// The state of one worker thread.
pub(super) struct Worker<'s, 'a> {
    pub(super) shared: &'s Shared<'a>,
    pub(super) rec: Recorder,
    pub(super) queue: CopyQueue,
    pub(super) staging: Option<Slot>,
    /// The start of this worker's area in the slab.
    pub(super) slab_at: u64,
    pub(super) operations: Vec<Operation>,
    /// The unfinished transfers, if they are asynchronous.
    pub(super) flights: Option<Flights>,
}

impl Worker<'_, '_> {
    /// Moves all transfers of one unit, which belong to one file.
    pub(super) fn unit(&mut self, tasks: &[Task]) -> Result<(), LoadError> {
        let Some(file) = tasks.first().map(|task| task.file) else { return Ok(()) };
        let shared = self.shared;
        let start = self.rec.now();
        if shared.lane.write && shared.method != Method::Ram {
            self.begin_file(file)?;
        }
        let done = match shared.method {
            // The pool makes these transfers.
            Method::Nixl(_) => Ok(false),
            Method::Ram => self.each(tasks, start, |worker, task| worker.in_memory(task).map(|()| true)),
            Method::Plain => {
                if let Some((reason, detail)) = &shared.without {
                    let counts = (self.transfers_of_file(FallbackAction::Staged, tasks), 1);
                    shared.fallbacks.add(*reason, FallbackAction::Staged, counts, shared.order, detail);
                }
                self.plain_unit(file, tasks, start)
            }
            Method::Gds => match self.open(file, true) {
                Ok(opened) => {
                    let done = self.each(tasks, start, |worker, task| worker.with_fallback(&opened, task));
                    drop(opened);
                    self.close(file, true);
                    done
                }
                Err(refused) => match self.after(&refused, Some(tasks))? {
                    FallbackAction::Staged => self.plain_unit(file, tasks, start),
                    FallbackAction::Dropped | FallbackAction::Ignored => Ok(false),
                },
            },
        };
        match done? {
            true if shared.lane.write && shared.method != Method::Ram => self.end_file(file, tasks.len())?,
            true => {}
            false => self.give_up(file),
        }
        Ok(())
    }

    /// Makes one transfer after another and records the end of each. Returns false if the file was abandoned.
    fn each(
        &mut self,
        tasks: &[Task],
        mut start: u64,
        mut transfer: impl FnMut(&mut Self, &Task) -> Result<bool, LoadError>,
    ) -> Result<bool, LoadError> {
        for task in tasks {
            if self.shared.context.stopped() {
                return Err(LoadError::Stopped);
            }
            if !transfer(self, task)? {
                return Ok(false);
            }
            let end = self.rec.now();
            self.operations.push(Operation { layer: task.layer, start_ns: start, end_ns: end, bytes: task.bytes });
            self.shared.context.landed(task.bytes);
            start = end;
        }
        Ok(true)
    }

    /// The number of transfers of a file for which cuFile is not used: one if staging moves the complete file at once.
    fn transfers_of_file(&self, action: FallbackAction, tasks: &[Task]) -> u64 {
        let at_once = action == FallbackAction::Staged && self.staged_together(tasks);
        if at_once { 1 } else { tasks.len() as u64 }
    }

    /// Makes the transfers of a file with plain reads or writes.
    fn plain_unit(&mut self, file: u32, tasks: &[Task], start: u64) -> Result<bool, LoadError> {
        let opened = self.open(file, false).map_err(|refused| refused.error)?;
        let done = match self.staged_together(tasks) {
            true => self.complete_file(&opened, tasks, start).map(|()| true),
            false => self.each(tasks, start, |worker, task| worker.plainly(&opened, task).map(|()| true)),
        };
        drop(opened);
        self.close(file, false);
        done
    }

    /// Makes one transfer with cuFile, or with the system's fallback if cuFile cannot make it. Returns false if the
    /// file was abandoned.
    fn with_fallback(&mut self, opened: &OpenFile, task: &Task) -> Result<bool, LoadError> {
        let refused = match self.is_kept_from_cufile(task) {
            Some(refused) => refused,
            None => match self.by_cufile(opened, task) {
                Ok(()) => return Ok(true),
                Err(refused) => refused,
            },
        };
        match self.after(&refused, None)? {
            FallbackAction::Staged => {
                let plain = self.open(task.file, false).map_err(|refused| refused.error)?;
                let done = self.plainly(&plain, task);
                drop(plain);
                self.close(task.file, false);
                done.map(|()| true)
            }
            FallbackAction::Dropped | FallbackAction::Ignored => Ok(false),
        }
    }

    /// UCM's proposal checks the alignment itself. It does not pass misaligned transfers to cuFile.
    fn is_kept_from_cufile(&self, task: &Task) -> Option<Refused> {
        let off = |number: u64| !number.is_multiple_of(PAGE);
        let offset = self.shared.layout.file_offset(task);
        let kept = self.shared.settings.on(KvSetting::MisalignedFallback)
            && (off(offset) || off(task.bytes) || off(self.place(task)));
        kept.then(|| Refused {
            reason: FallbackReason::Misaligned,
            error: LoadError::CuFile(format!(
                "{} bytes at offset {offset} are not on the 4 KiB grid (misaligned_fallback=1)",
                task.bytes
            )),
        })
    }

    /// The system's behaviour after the rejection of a transfer, or of a file with all its transfers. Each rejected
    /// transfer is counted. If the system would fail, the run ends.
    fn after(&self, refused: &Refused, file: Option<&[Task]>) -> Result<FallbackAction, LoadError> {
        let shared = self.shared;
        let said = refused.error.to_string();
        let action = match shared.order.kind {
            _ if refused.reason == FallbackReason::Misaligned => FallbackAction::Staged,
            KvSystem::Llmd if shared.settings.on(KvSetting::OnFailure) => FallbackAction::Staged,
            KvSystem::Llmd if shared.lane.write => FallbackAction::Dropped,
            KvSystem::Llmd => FallbackAction::Ignored,
            _ => return Err(LoadError::CuFile(said)),
        };
        let counts = file.map_or((1, 0), |tasks| (self.transfers_of_file(action, tasks), 1));
        shared.fallbacks.add(refused.reason, action, counts, shared.order, &said);
        Ok(action)
    }

    /// Abandons a file after a failure. Written bytes are removed, and a file that is read stays.
    fn give_up(&mut self, file: u32) {
        let shared = self.shared;
        if let Some(gone) = shared.given_up.get(file as usize) {
            gone.store(true, Ordering::Relaxed);
        }
        if let Some(of) = shared.layout.files.get(file as usize).filter(|_| shared.lane.write) {
            let _ = fs::remove_file(&of.temporary);
        }
    }

    /// Creates the directory of a file, and writes the header if it has one.
    pub(super) fn begin_file(&mut self, file: u32) -> Result<(), LoadError> {
        let shared = self.shared;
        let Some(of) = shared.layout.files.get(file as usize) else { return Ok(()) };
        if shared.layout.is_slab() {
            return Ok(());
        }
        let at = self.rec.now();
        if let Some(folder) = of.temporary.parent() {
            fs::create_dir_all(folder).map_err(|e| failed("making", folder, e))?;
        }
        if let Some(header) = shared.headers.get(file as usize) {
            fs::write(&of.temporary, header).map_err(|e| failed("writing", &of.temporary, e))?;
        }
        self.rec.end(Phase::Open, at, What::SETUP);
        Ok(())
    }

    /// Moves a file into place after its last transfer. Removes files above the limit.
    pub(super) fn end_file(&mut self, file: u32, transfers: usize) -> Result<(), LoadError> {
        let shared = self.shared;
        let Some((of, left)) = shared.layout.files.get(file as usize).zip(shared.left.get(file as usize)) else {
            return Ok(());
        };
        if left.fetch_sub(transfers, Ordering::AcqRel) != transfers {
            return Ok(());
        }
        let at = self.rec.now();
        if shared.settings.on(KvSetting::Fsync) {
            let synced = File::open(&of.temporary).and_then(|file| file.sync_data());
            synced.map_err(|e| failed("waiting for the disk for", &of.temporary, e))?;
        }
        if shared.layout.is_slab() {
            return Ok(());
        }
        fs::rename(&of.temporary, &of.path).map_err(|e| failed("moving into place", &of.temporary, e))?;
        if let Some(header) = shared.headers.get(file as usize) {
            store::write_metadata(&of.path, header).map_err(|e| failed("writing the metadata of", &of.path, e))?;
        }
        for gone in shared.limit.add(file) {
            if let Some(gone) = shared.layout.files.get(gone as usize) {
                store::remove(shared.order.kind, &gone.path)?;
            }
        }
        self.rec.end(Phase::Sync, at, What::SETUP);
        Ok(())
    }

    pub(super) fn open(&mut self, file: u32, cufile: bool) -> Result<Arc<OpenFile>, Refused> {
        let (shared, rec) = (self.shared, &mut self.rec);
        shared.handles.acquire(&(shared.handle_number(file), cufile), || open_file(shared, rec, file, cufile))
    }

    pub(super) fn close(&mut self, file: u32, cufile: bool) {
        let at = self.rec.now();
        let closed = self.shared.handles.release(&(self.shared.handle_number(file), cufile));
        if !closed.is_empty() {
            drop(closed);
            self.rec.end(Phase::Deregister, at, What::SETUP);
        }
    }

    /// The offset on the target at which a transfer begins or ends: in the slab, or in the paged cache.
    pub(super) fn place(&self, task: &Task) -> u64 {
        match self.shared.slab {
            Some(_) => self.slab_at,
            None => self.shared.layout.place(task.file, task.offset, task.bytes).first().map_or(0, |piece| piece.to),
        }
    }

    pub(super) fn memory(&self) -> &Arc<DeviceMemory> {
        self.shared.slab.unwrap_or(self.shared.target)
    }

    /// Gathers the bytes of a transfer from the paged cache into the slab.
    pub(super) fn gather(&mut self, task: &Task, place: u64) -> Result<(), LoadError> {
        let Some(slab) = self.shared.slab else { return Ok(()) };
        let at = self.rec.now();
        let pieces: Vec<Piece> =
            self.pieces(task, place).map(|p| Piece { from: p.to, to: p.from, bytes: p.bytes }).collect();
        self.queue.copy_pieces(self.shared.target, slab, &pieces)?;
        self.rec.end(Phase::Copy, at, What::SETUP);
        Ok(())
    }

    /// Scatters the bytes of a transfer from the slab into the paged cache.
    pub(super) fn scatter(&mut self, task: &Task, place: u64) -> Result<(), LoadError> {
        let Some(slab) = self.shared.slab else { return Ok(()) };
        let at = self.rec.now();
        let pieces: Vec<Piece> = self.pieces(task, place).collect();
        self.queue.copy_pieces(slab, self.shared.target, &pieces)?;
        self.rec.end(Phase::Copy, at, self.of(task, false));
        Ok(())
    }

    /// The pieces of a transfer, from its offset in the slab to the paged cache.
    fn pieces(&self, task: &Task, start: u64) -> impl Iterator<Item = Piece> + use<> {
        let placed = self.shared.layout.place(task.file, task.offset, task.bytes);
        placed.into_iter().map(move |p| Piece { from: start + p.from, ..p })
    }

    /// The object of a transfer's span. `moved` adds its bytes, which must be counted once.
    pub(super) fn of(&self, task: &Task, moved: bool) -> What {
        match (task.tensor, moved) {
            (Some(tensor), true) => {
                What::tensor_bytes(tensor as usize, self.shared.layout.image_offset(task), task.bytes)
            }
            (None, true) => What::block(self.shared.layout.image_offset(task), task.bytes),
            (Some(tensor), false) => What::tensor(tensor as usize),
            (None, false) => What::SETUP,
        }
    }

    fn by_cufile(&mut self, opened: &OpenFile, task: &Task) -> Result<(), Refused> {
        let failure = |error| Refused { reason: FallbackReason::OperationFailed, error };
        let OpenFile::Gds(handle) = opened else {
            return Err(failure(LoadError::CuFile("the file is not registered with cuFile".to_owned())));
        };
        let (shared, write) = (self.shared, self.shared.lane.write);
        let nth = shared.tried.fetch_add(1, Ordering::Relaxed);
        if shared.order.provoke == Some(FallbackReason::OperationFailed) && nth % 8 == 7 {
            return Err(failure(LoadError::CuFile(
                "provoked: the caller requested that this transfer fails".to_owned(),
            )));
        }
        let place = self.place(task);
        if write {
            self.gather(task, place).map_err(failure)?;
        }
        let at = self.rec.now();
        let offset = shared.layout.file_offset(task);
        let mut done = 0;
        while done < task.bytes {
            // Unregistered memory is passed directly, because synchronous calls accept any offset in it.
            let part = if self.has_regions() || self.registration(place + done, task.bytes - done).is_some() {
                self.part(place + done, task.bytes - done).map_err(failure)?
            } else {
                Part {
                    memory: Arc::clone(self.memory()) as Arc<dyn IoMemory>,
                    offset: (place + done) as usize,
                    bytes: task.bytes - done,
                }
            };
            let length = part.bytes as usize;
            let moved = if write {
                handle.write_at(&*part.memory, part.offset, length, offset + done)
            } else {
                handle.read_at(&*part.memory, part.offset, length, offset + done)
            };
            match moved {
                Ok(0) => return Err(failure(self.ended_early(task, done))),
                Ok(moved) => done += moved as u64,
                Err(error) => return Err(failure(self.failed_by_cufile(task, "", &error))),
            }
        }
        let of = self.of(task, true);
        self.rec.end(Phase::Transfer, at, of);
        if !write {
            self.scatter(task, place).map_err(failure)?;
        }
        Ok(())
    }

    /// Whether the staging memory is divided into regions that are registered separately.
    pub(super) fn has_regions(&self) -> bool {
        let divided = self.shared.layout.is_slab() || !self.shared.registered.is_empty();
        self.shared.slab.is_some() && divided && self.shared.settings.on(KvSetting::RegionBytes)
    }

    /// The memory for a cuFile call on a range of the target. It is a registration with the offset in it, or a region
    /// as far as the range is in it, or the range itself. In the last case the offset is 0: in compat mode,
    /// asynchronous calls reject other offsets of unregistered memory (libcufile 1.15 and 1.20).
    pub(super) fn part(&self, place: u64, bytes: u64) -> Result<Part, LoadError> {
        let (mut start, mut length, mut offset) = (place, bytes, 0);
        if self.has_regions() {
            let (region, all) = (self.shared.settings.get(KvSetting::RegionBytes).max(1), self.memory().len() as u64);
            start = place / region * region;
            let end = (start + region).min(all);
            (length, offset) = (bytes.min(end - place), place - start);
            if self.registration(place, length).is_none() {
                let memory = Arc::new(MemoryPart::new(self.memory(), start, (end - start) as usize)?);
                return Ok(Part { memory, offset: offset as usize, bytes: length });
            }
        }
        Ok(match self.registration(place, length) {
            Some((start, registration)) => {
                Part { memory: Arc::clone(registration) as _, offset: (place - start) as usize, bytes: length }
            }
            None => Part {
                memory: Arc::new(MemoryPart::new(self.memory(), start, length as usize)?),
                offset: offset as usize,
                bytes: length,
            },
        })
    }

    /// The registration that contains a range of the target, with its start. cuFile only recognises the base address
    /// as registered.
    pub(super) fn registration(&self, place: u64, bytes: u64) -> Option<&(u64, Arc<BufferRegistration<DeviceMemory>>)> {
        let registered = self.shared.registered;
        let next = registered.partition_point(|(start, _)| *start <= place);
        let last = next.checked_sub(1).and_then(|last| registered.get(last));
        last.filter(|(start, registration)| place + bytes <= start + registration.len() as u64)
    }

    /// The operation on a transfer's file and the path of the file, for errors.
    fn doing(&self, task: &Task) -> (&'static str, String) {
        let path = self.shared.layout.files.get(task.file as usize).map(|f| shown(&f.path).display().to_string());
        (if self.shared.lane.write { "writing" } else { "reading" }, path.unwrap_or_default())
    }

    /// The error for a transfer that ended too early.
    pub(super) fn ended_early(&self, task: &Task, done: u64) -> LoadError {
        let (doing, path) = self.doing(task);
        LoadError::CuFile(format!("{doing} {path} ended at byte {done} of a piece of {}", task.bytes))
    }

    /// The error for a transfer that cuFile did not make. `how` follows the name of cuFile.
    pub(super) fn failed_by_cufile(&self, task: &Task, how: &str, error: &Error) -> LoadError {
        let (doing, path) = self.doing(task);
        match error.cufile().and_then(|e| e.errno) {
            // The disk is full, so a fallback could not write either.
            Some(libc::ENOSPC) => failed(doing, path.as_ref(), std::io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => explain(&format!("{doing} {path} by cuFile{how}"), error),
        }
    }
}
