//! Code that the cuFile engines with one slab share: opening and registering files, reads with a second try, and
//! closing.

use super::blocks::PAGE;
use super::clock::{Recorder, What};
use super::context::{EngineContext, Loaded};
use super::cufile::{CuFile, TransferCounts};
use super::cufile_files::{not_registered, open_for_cufile};
use super::error::LoadError;
use super::files;
use super::second_try::{Missing, SecondTries};
use super::settings::Chosen;
use crate::core::{Note, Setting, Unused};
use crate::core::{Phase, Span, units::MIB};
use crate::device::{DeviceMemory, MemoryPart};
use crate::models::plan::Block;
use cufile_ffi::{BufferRegistration, Error, FileHandle, IoMemory};
use std::sync::{Arc, Mutex, PoisonError};

/// How a slab is opened.
#[derive(Debug)]
pub(super) struct Opening {
    /// Whether it is registered with cuFile.
    pub(super) register: Chosen,
    /// The size in bytes of each registered piece.
    pub(super) piece_bytes: Chosen,
    /// Whether the files are opened with `O_DIRECT`.
    pub(super) odirect: Chosen,
    /// The number of reads, and their bytes. A fraction of them can fail and be repeated without cuFile.
    pub(super) reads: (usize, u64),
}

/// The files, their handles, and the memory for the model's image.
pub(super) struct Slab<'a> {
    context: &'a EngineContext<'a>,
    cufile: &'a CuFile,
    memory: Arc<DeviceMemory>,
    /// The registrations of the slab, piece by piece. `None` for a piece that was rejected.
    pieces: Vec<Option<Arc<BufferRegistration<DeviceMemory>>>>,
    piece_bytes: Chosen,
    register: Chosen,
    handles: Vec<Arc<FileHandle<'static>>>,
    counts: TransferCounts,
    notes: Vec<Note>,
    tries: SecondTries,
    odirect: Chosen,
}

impl<'a> Slab<'a> {
    /// Opens and registers the files, allocates the image, and registers it if requested. The headers are checked
    /// during the first reads.
    pub(super) fn open(
        context: &'a EngineContext<'a>,
        rec: &mut Recorder,
        opening: Opening,
    ) -> Result<Self, LoadError> {
        let cufile = context.cufile.ok_or_else(|| LoadError::CuFile("cuFile is not open".to_owned()))?;
        let model = context.model();
        let mut notes = Vec::new();
        let mut at = rec.now();
        files::check_lengths(model)?;
        let opened = open_for_cufile(context, opening.odirect.is_on(), &mut notes)?;
        at = rec.end(Phase::Open, at, What::SETUP);
        let handles = opened
            .into_iter()
            .zip(&model.shards)
            .map(|(file, shard)| {
                FileHandle::register(&cufile.driver, file)
                    .map(Arc::new)
                    .map_err(|error| not_registered(model, &shard.path, &error))
            })
            .collect::<Result<Vec<_>, _>>()?;
        at = rec.end(Phase::RegisterHandle, at, What::SETUP);
        let memory = context.allocate(context.image_bytes())?;
        at = rec.end(Phase::Allocate, at, What::SETUP);
        let mut pieces = Vec::new();
        if opening.register.is_on() {
            let (all, piece) = (memory.len(), opening.piece_bytes.count());
            let mut refused = None;
            for start in (0..all).step_by(piece) {
                let done = match refused {
                    // The pieces after a rejected one would also be rejected, and each call is slow.
                    Some(_) => None,
                    None => {
                        let done = cufile.driver.register(&memory, start, piece.min(all - start), 0);
                        done.map_err(|error| refused = Some((start, error))).ok()
                    }
                };
                pieces.push(done.map(Arc::new));
            }
            if let Some((start, error)) = refused {
                let (from_bytes, slab_bytes) = (start as u64, all as u64);
                notes.push(Note::SlabNotRegistered { from_bytes, slab_bytes, error: error.to_string() });
            }
            rec.end(Phase::RegisterBuffer, at, What::SETUP);
        }
        Ok(Self {
            context,
            cufile,
            memory,
            pieces,
            piece_bytes: opening.piece_bytes,
            handles,
            counts: cufile.counts(),
            notes,
            tries: SecondTries::new(opening.reads.0, opening.reads.1),
            register: opening.register,
            odirect: opening.odirect,
        })
    }

    /// The handle of the file of a block.
    pub(super) fn handle(&self, block: &Block) -> &Arc<FileHandle<'static>> {
        &self.handles[block.shard as usize]
    }

    /// The memory for one asynchronous read of a block, and the offset in it. If the memory is registered, it is the
    /// registered region. Otherwise it is the range of the block with offset 0, because in compat mode libcufile 1.15
    /// and 1.20 move nothing at another offset of unregistered memory and return -5 (H200, 2026-11-22).
    pub(super) fn memory_of(&self, block: &Block) -> Result<(Arc<dyn IoMemory>, usize), LoadError> {
        match self.registered(block) {
            Some((piece, offset)) => Ok((piece.clone(), offset as usize)),
            None => Ok((Arc::new(MemoryPart::new(&self.memory, block.image_offset, block.bytes as usize)?), 0)),
        }
    }

    /// The memory of a block for transfers, and the offset in it. If there is a registered piece, it is that piece,
    /// because cuFile recognises only the base address of a registration.
    pub(super) fn memory(&self, block: &Block) -> (Arc<dyn IoMemory>, usize) {
        match self.registered(block) {
            Some((piece, offset)) => (piece.clone(), offset as usize),
            None => (self.memory.clone(), block.image_offset as usize),
        }
    }

    /// The registered piece that contains a block, and the offset in it. Blocks end at the ends of pieces (see
    /// [`blocks`]).
    fn registered(&self, block: &Block) -> Option<(&Arc<BufferRegistration<DeviceMemory>>, u64)> {
        let bytes = self.piece_bytes.value.max(1);
        let piece = self.pieces.get((block.image_offset / bytes) as usize)?.as_ref()?;
        Some((piece, block.image_offset % bytes))
    }

    /// Reads a block with `cuFileRead` from its byte `done` on. If the read fails, it is repeated with `pread`.
    pub(super) fn read(&self, block: &Block, mut done: u64) -> Result<(), LoadError> {
        let (memory, offset): (&dyn IoMemory, u64) = match self.registered(block) {
            Some((piece, offset)) => (&**piece, offset),
            None => (&*self.memory, block.image_offset),
        };
        while done < block.bytes {
            let read = self.handle(block).read_at(
                memory,
                (offset + done) as usize,
                (block.bytes - done) as usize,
                block.file_offset + done,
            );
            match read {
                Ok(0) => return Err(self.short(block, done)),
                Ok(got) => done += got as u64,
                Err(error) => return self.retry(block, done, &error),
            }
        }
        Ok(())
    }

    /// Handles the result of a submitted read: finishes a short read, and repeats a failed one with `pread`.
    pub(super) fn finish(&self, block: &Block, result: Result<usize, Error>) -> Result<(), LoadError> {
        match result {
            Ok(0) => Err(self.short(block, 0)),
            Ok(got) => self.read(block, got as u64),
            Err(error) => self.retry(block, 0, &error),
        }
    }

    fn short(&self, block: &Block, done: u64) -> LoadError {
        let path = &self.context.model().shards[block.shard as usize].path;
        files::short(path, block.file_offset + done, block.file_offset + block.bytes)
    }

    /// Reads the rest of a block with `pread` and a copy (see [`SecondTries::read`]).
    pub(super) fn retry(&self, block: &Block, done: u64, error: &Error) -> Result<(), LoadError> {
        let path = &self.context.model().shards[block.shard as usize].path;
        let missing = Missing {
            what: &path.display().to_string(),
            path,
            file_offset: block.file_offset + done,
            target_offset: block.image_offset + done,
            bytes: block.bytes - done,
        };
        self.tries.read(&missing, &self.memory, error)
    }

    /// Waits for the device, deregisters and closes. This time is recorded at the end of slot 0.
    pub(super) fn close(
        mut self,
        mut first: Recorder,
        others: impl Iterator<Item = Recorder>,
        slots: usize,
        mut settings: Vec<Chosen>,
    ) -> Result<Loaded, LoadError> {
        let mut notes = std::mem::take(&mut self.notes);
        let mut at = first.now();
        self.context.device.synchronize()?;
        at = first.end(Phase::Sync, at, What::SETUP);
        // The settings that were used. A registration may have been rejected.
        let registered = self.pieces.iter().any(Option::is_some);
        settings.push(self.register.at_most(u64::from(registered), "refused"));
        if registered {
            settings.push(self.piece_bytes);
        } else if self.context.order.settings.has(Setting::SlabBytes) {
            notes.push(Note::Unused { settings: vec![Setting::SlabBytes], why: Unused::NothingRegistered });
        }
        settings.push(self.odirect);
        drop(self.pieces);
        drop(self.handles);
        first.end(Phase::Deregister, at, What::SETUP);
        let mut spans: Vec<Span> = first.into_spans();
        spans.extend(others.flat_map(Recorder::into_spans));
        notes.extend(self.tries.note());
        Ok(Loaded {
            repeated_reads: Some(self.tries.repeated()),
            staging: Vec::new(),
            memory: self.memory,
            tensor_offsets: self.context.image_offsets(),
            spans,
            slots: slots as u32,
            settings,
            auto_choice: None,
            notes,
            route: Some(self.cufile.route(self.counts, self.cufile.counts(), &self.tries.made())),
        })
    }
}

/// Whether `O_DIRECT` is useful. A direct route requires it. In compat mode it is useful only for bytes that are not
/// in the page cache.
pub(super) fn wants_odirect(context: &EngineContext<'_>) -> Chosen {
    let direct = context.direct_possible();
    let cached = context.resident_before.is_some_and(|share| share > 0.5);
    let default = match (direct, cached) {
        (true, _) => (1, "a direct route needs it"),
        (false, true) => (0, "compat mode, and the page cache holds most of the model"),
        (false, false) => (1, "compat mode, and the page cache does not hold most of the model"),
    };
    context.setting(Setting::Odirect, default)
}

/// Whether the slab is registered by default.
pub(super) fn wants_registration(context: &EngineContext<'_>) -> Chosen {
    let default = match context.direct_possible() {
        true => (1, "a direct route reads straight into registered memory"),
        false => (0, "in compat mode it needs shadow buffers and is not faster"),
    };
    context.setting(Setting::Register, default)
}

/// The bytes of one registration. The default is the complete slab. Smaller pieces are needed if BAR1 is too small.
pub(super) fn piece_setting(context: &EngineContext<'_>) -> Chosen {
    let complete = context.image_bytes().max(PAGE).next_multiple_of(PAGE);
    let mut setting =
        context.setting_within(Setting::SlabBytes, (complete, "the complete model at once"), (PAGE, complete));
    setting.value = setting.value.next_multiple_of(PAGE);
    setting
}

/// The bytes of one registration for reads on streams: regions of 16 MiB, as LMCache registers its staging memory. In
/// compat mode, a read at an offset of such a region works (libcufile 1.15 and 1.20 on an H200, one stream,
/// 2026-11-22), but reads of a model failed (2026-11-23).
pub(super) fn region_setting(context: &EngineContext<'_>) -> Chosen {
    let complete = context.image_bytes().max(PAGE).next_multiple_of(PAGE);
    let region = complete.min(16 * MIB);
    let mut setting =
        context.setting_within(Setting::SlabBytes, (region, "a region of at most 16 MiB"), (PAGE, complete));
    setting.value = setting.value.next_multiple_of(PAGE);
    setting
}

/// The reads of the data section in file order. No read crosses the border between two pieces of the slab.
pub(super) fn blocks(context: &EngineContext<'_>, block_bytes: u64, piece_bytes: u64) -> Vec<Block> {
    let mut cut = Vec::new();
    for mut block in context.blocks(block_bytes, PAGE) {
        loop {
            let room = piece_bytes - block.image_offset % piece_bytes;
            if block.bytes <= room {
                break;
            }
            cut.push(Block { bytes: room, ..block });
            block = Block {
                file_offset: block.file_offset + room,
                image_offset: block.image_offset + room,
                bytes: block.bytes - room,
                ..block
            };
        }
        cut.push(block);
    }
    cut
}

/// The bytes of one read. On a direct route it is `most` or the largest request of cuFile, whichever is smaller. In
/// compat mode the library copies in the calling thread, and smaller reads overlap better.
pub(super) fn block_setting(context: &EngineContext<'_>) -> Chosen {
    let (_, most) = Setting::BlockBytes.bounds(&context.order.engine);
    let at_once =
        context.cufile.and_then(|cufile| cufile.max_direct_io_bytes).map_or(most, |bytes| bytes / PAGE * PAGE);
    let default = match context.direct_possible() {
        true if (PAGE..16 * MIB).contains(&at_once) => {
            (at_once, "the largest request of cuFile (max_direct_io_size_kb)")
        }
        true => (16 * MIB, "large reads fill a direct route"),
        false => (4 * MIB, "in compat mode each thread reads and copies, and smaller reads overlap better"),
    };
    context.block_setting(default)
}

/// The number of threads that read: at most one per block, and one more to check the headers.
pub(super) fn thread_setting(context: &EngineContext<'_>, most: usize, blocks: usize) -> Chosen {
    let default = context.cpus.clamp(1, most) as u64;
    let setting = context.setting(Setting::Threads, (default, format!("one per CPU, at most {most}")));
    setting.at_most(blocks as u64 + 1, "one per read, and one for the headers")
}

/// Runs threads that each return a recorder. The calling thread continues with the recorder of the set-up, so that
/// slot 0 is one timeline. The last thread checks the headers before it reads.
pub(super) fn run_threads(
    context: &EngineContext<'_>,
    threads: usize,
    first: Recorder,
    spans: usize,
    work: impl Fn(usize, &mut Recorder) -> Result<(), LoadError> + Sync,
) -> Result<(Recorder, Vec<Recorder>), LoadError> {
    let first = Mutex::new(Some(first));
    let results = super::context::run_workers(context, threads, |number| {
        let own = if number == 0 { first.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None };
        let mut rec = own.unwrap_or_else(|| Recorder::new(context.clock, number, spans));
        if number + 1 == threads {
            let at = rec.now();
            files::check_headers(context.order)?;
            rec.end(Phase::Open, at, What::SETUP);
        }
        context.device.bind()?;
        work(number, &mut rec)?;
        Ok(rec)
    })?;
    let mut recorders = results.into_iter();
    let first = recorders.next().ok_or(LoadError::Stopped)?;
    Ok((first, recorders.collect()))
}
