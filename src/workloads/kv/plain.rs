//! Transfers without cuFile. There are three methods: pieces through pinned staging memory; a complete file in one
//! read or write with all copies in one batch, like llm-d's connector and vLLM's file-system tier; and host memory
//! only.

use super::layout::Task;
use super::pipeline::Operation;
use super::shared::OpenFile;
use super::store::failed;
use super::transfer::Worker;
use crate::core::Phase;
use crate::device::Piece;
use crate::engines::{LoadError, What};
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;

impl Worker<'_, '_> {
    /// Whether the system stages complete files and the staging buffer is large enough for this.
    pub(super) fn staged_together(&self, tasks: &[Task]) -> bool {
        let bytes: u64 = tasks.iter().map(|task| task.bytes).sum();
        let room = self.staging.as_ref().map_or(0, |slot| slot.len() as u64);
        self.shared.order.kind.is_block_major() && bytes > 0 && room >= bytes
    }

    /// Moves a complete file, which is one operation of the system.
    pub(super) fn complete_file(&mut self, opened: &OpenFile, tasks: &[Task], start: u64) -> Result<(), LoadError> {
        let OpenFile::Plain(file) = opened else {
            return Err(LoadError::CuFile("the file is not open for plain reads".to_owned()));
        };
        let shared = self.shared;
        let Some((first, of)) =
            tasks.first().and_then(|first| Some((first, shared.layout.files.get(first.file as usize)?)))
        else {
            return Ok(());
        };
        let bytes: u64 = tasks.iter().map(|task| task.bytes).sum();
        let offset = shared.layout.file_offset(first);
        let pieces: Vec<Piece> = shared.layout.place(first.file, first.offset, bytes);
        let what = What::block(shared.layout.image_offset(first), bytes);
        let mut slot = self.staging.take().ok_or(LoadError::Stopped)?;
        let length = bytes as usize;
        let mut at = self.rec.now();
        if shared.lane.write {
            self.queue.gather_pieces(self.memory(), &mut slot, &pieces)?;
            at = self.rec.end(Phase::Copy, at, What::SETUP);
            file.write_all_at(&slot.bytes()[..length], offset).map_err(|e| failed("writing", &of.temporary, e))?;
            self.rec.end(Phase::Transfer, at, what);
        } else {
            file.read_exact_at(&mut slot.bytes_mut()[..length], offset).map_err(|e| failed("reading", &of.path, e))?;
            at = self.rec.end(Phase::Transfer, at, what);
            self.queue.scatter_pieces(&slot, self.memory(), &pieces)?;
            self.rec.end(Phase::Copy, at, What::SETUP);
        }
        self.staging = Some(slot);
        let end = self.rec.now();
        self.operations.push(Operation { layer: first.layer, start_ns: start, end_ns: end, bytes });
        shared.context.landed(bytes);
        Ok(())
    }

    /// Moves a transfer with plain reads or writes through this worker's pinned staging memory.
    pub(super) fn plainly(&mut self, opened: &OpenFile, task: &Task) -> Result<(), LoadError> {
        let OpenFile::Plain(file) = opened else {
            return Err(LoadError::CuFile("the file is not open for plain reads".to_owned()));
        };
        let shared = self.shared;
        let Some(of) = shared.layout.files.get(task.file as usize) else { return Ok(()) };
        let place = self.place(task);
        if shared.lane.write {
            self.gather(task, place)?;
        }
        let offset = shared.layout.file_offset(task);
        let mut slot = self.staging.take().ok_or(LoadError::Stopped)?;
        let mut done = 0;
        while done < task.bytes {
            let length = ((task.bytes - done) as usize).min(slot.len());
            let mut at = self.rec.now();
            let what = match task.tensor {
                Some(tensor) => {
                    What::tensor_bytes(tensor as usize, shared.layout.image_offset(task) + done, length as u64)
                }
                None => What::block(shared.layout.image_offset(task) + done, length as u64),
            };
            if shared.lane.write {
                self.memory().read_back(place + done, &mut slot.bytes_mut()[..length])?;
                at = self.rec.end(Phase::Copy, at, self.of(task, false));
                file.write_all_at(&slot.bytes()[..length], offset + done)
                    .map_err(|e| failed("writing", &of.temporary, e))?;
                self.rec.end(Phase::Transfer, at, what);
            } else {
                file.read_exact_at(&mut slot.bytes_mut()[..length], offset + done)
                    .map_err(|e| failed("reading", &of.path, e))?;
                at = self.rec.end(Phase::Transfer, at, what);
                slot = self.queue.copy(slot, 0, length, self.memory(), place + done)?.finish()?;
                self.rec.end(Phase::Copy, at, self.of(task, false));
            }
            done += length as u64;
        }
        self.staging = Some(slot);
        if !shared.lane.write {
            self.scatter(task, place)?;
        }
        Ok(())
    }

    /// Moves a transfer to host memory or back.
    pub(super) fn in_memory(&mut self, task: &Task) -> Result<(), LoadError> {
        let shared = self.shared;
        let place = self.place(task);
        if shared.lane.write {
            self.gather(task, place)?;
        }
        let at = self.rec.now();
        let Some(slot) = shared.ram.get(task.file as usize) else { return Err(LoadError::Stopped) };
        {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let range = task.offset as usize..(task.offset + task.bytes) as usize;
            if shared.lane.write {
                self.memory().read_back(place, &mut slot.bytes_mut()[range])?;
            } else {
                self.memory().write_pageable(place, &slot.bytes()[range])?;
            }
        }
        self.rec.end(Phase::Copy, at, self.of(task, true));
        if !shared.lane.write {
            self.scatter(task, place)?;
        }
        Ok(())
    }
}
