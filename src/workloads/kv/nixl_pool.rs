//! Transfers of LMCache's back end on NIXL (`nixl_storage_backend.py`). All files of a pool are open and registered
//! before the first transfer, and so is each page of the buffer, a page per chunk. One NIXL transfer moves several
//! chunks between the buffer and their files. The agent belongs to one thread, as in LMCache.

use super::job::{Job, wrong};
use super::layout::Task;
use super::order::Method;
use super::params::KvSetting;
use super::pipeline;
use super::shared::Shared;
use super::store::failed;
use super::work::{Done, look_up, stored};
use crate::core::{Note, Phase};
use crate::device::{CopyQueue, Device, DeviceMemory, Piece};
use crate::engines::nixl_library::{Nixl, find, named};
use crate::engines::nixl_requests::Requests;
use crate::engines::{Block, EngineContext, LoadError, Recorder, What};
use nixl_ffi::{Agent, Memory, Operation, Part, Registered, RegisteredFile, Transfer};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Starts NIXL for the run. `None` if the run does not use it.
pub(super) fn open_nixl(job: &Job) -> Result<Option<Nixl>, LoadError> {
    let Method::Nixl(plugin) = job.lane.method else { return Ok(None) };
    let threads = job.settings.get(KvSetting::NixlThreads);
    let params: Vec<(&str, String)> = match threads {
        0 => Vec::new(),
        threads => vec![("thread_count", threads.to_string())],
    };
    Nixl::open(plugin, &params, find()?).map(Some)
}

/// The chunks of one transfer, which is also the number of pages of the buffer.
pub(super) fn batch(job: &Job) -> u64 {
    job.settings.get(KvSetting::BatchChunks).clamp(1, job.layout.files.len().max(1) as u64)
}

/// Rejects a transfer that would never end. In compat mode each of its requests needs a buffer of libcufile's pool
/// (ai-dynamo/nixl#2070), and `Requests` is half of that pool.
pub(super) fn check_batch(job: &Job, context: &EngineContext<'_>) -> Result<(), LoadError> {
    let Method::Nixl(plugin) = job.lane.method else { return Ok(()) };
    let compat = context.cufile.is_some_and(|cufile| !cufile.direct_possible);
    let Some(requests) = Requests::by_default(context, plugin).filter(|_| compat) else { return Ok(()) };
    let (chunks, each, most) = (batch(job), requests.count(job.layout.payload).max(1), 2 * requests.most);
    if chunks * each <= most {
        return Ok(());
    }
    Err(LoadError::Nixl(format!(
        "a transfer of {chunks} chunks has {} requests, but in compat mode libcufile has buffers for {most} and never ends a batch without a free one: set batch_chunks to {} or less",
        chunks * each,
        (most / each).max(1)
    )))
}

/// Opens the files of the pool. A write creates them. A read leaves out the files that do not exist.
pub(super) fn open_files(job: &Job) -> Result<Vec<Option<File>>, LoadError> {
    if !matches!(job.lane.method, Method::Nixl(_)) {
        return Ok(Vec::new());
    }
    let mut flags = OFlags::CLOEXEC | OFlags::RDWR;
    if job.settings.on(KvSetting::Odirect) {
        flags |= OFlags::DIRECT;
    }
    if job.lane.write {
        flags |= OFlags::CREATE;
    }
    let open = |path: &std::path::Path| match rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(rustix::io::Errno::NOENT) if !job.lane.write => Ok(None),
        Err(errno) => Err(failed("opening", path, errno.into())),
    };
    if let Some(folder) = job.layout.files.first().and_then(|file| file.path.parent()).filter(|_| job.lane.write) {
        fs::create_dir_all(folder).map_err(|error| failed("making", folder, error))?;
    }
    job.layout.files.iter().map(|file| open(&file.path)).collect()
}

/// The registered files and pages of a run.
pub(super) struct Pool<'a> {
    agent: &'a Agent,
    nixl: &'a Nixl,
    pages: Vec<Registered<'a, DeviceMemory>>,
    files: Vec<Option<RegisteredFile<'a>>>,
    page_bytes: u64,
}

impl<'a> Pool<'a> {
    /// Registers the pages of the buffer and the files.
    pub(super) fn new(
        nixl: &'a Nixl,
        agent: &'a Agent,
        job: &Job,
        buffer: &Arc<DeviceMemory>,
        device: &Device,
        opened: &'a [Option<File>],
    ) -> Result<Self, LoadError> {
        let refused = |error: nixl_ffi::Error| LoadError::Nixl(format!("{}: {error}", named(&nixl.library)));
        let kind = match device {
            Device::Cuda(cuda) if !buffer.is_host() => Memory::Gpu(cuda.info().ordinal),
            _ => Memory::Host,
        };
        let page_bytes = job.layout.slab_step();
        let pages = (0..batch(job))
            .map(|page| agent.register(buffer, kind, (page * page_bytes) as usize, job.layout.payload as usize))
            .collect::<Result<_, _>>()
            .map_err(refused)?;
        let file = |file: &'a File| agent.register_file(file.as_fd(), 0, job.layout.payload as usize);
        let files = opened
            .iter()
            .map(|opened| opened.as_ref().map(file).transpose())
            .collect::<Result<_, _>>()
            .map_err(refused)?;
        Ok(Self { agent, nixl, pages, files, page_bytes })
    }

    /// A note about the registrations and the transfers.
    pub(super) fn note(&self) -> Note {
        Note::NixlRegistered {
            library: named(&self.nixl.library),
            plugin: self.nixl.plugin,
            pages: self.pages.len() as u64,
            files: self.files.iter().flatten().count() as u64,
        }
    }

    fn refused(&self, error: &nixl_ffi::Error, first: &Task, chunks: usize) -> LoadError {
        LoadError::Nixl(format!(
            "{} by {}: a transfer of {chunks} chunks from number {} on failed: {error}",
            self.nixl.plugin.name(),
            named(&self.nixl.library),
            first.file
        ))
    }
}

/// The copies of the chunks between the paged cache and the buffer. The plugin POSIX needs a buffer in host memory.
struct Copies<'a, 's> {
    shared: &'s Shared<'a>,
    buffer: &'a Arc<DeviceMemory>,
    queue: CopyQueue,
    scratch: Vec<u8>,
}

impl Copies<'_, '_> {
    fn copy(&mut self, task: &Task, page: u64) -> Result<(), LoadError> {
        let (write, target) = (self.shared.lane.write, self.shared.target);
        let placed = self.shared.layout.place(task.file, task.offset, task.bytes);
        if self.buffer.is_host() == target.is_host() {
            let pieces: Vec<Piece> = placed
                .into_iter()
                .map(|piece| match write {
                    true => Piece { from: piece.to, to: page + piece.from, bytes: piece.bytes },
                    false => Piece { from: page + piece.from, ..piece },
                })
                .collect();
            let (from, to) = if write { (target, self.buffer) } else { (self.buffer, target) };
            return Ok(self.queue.copy_pieces(from, to, &pieces)?);
        }
        for piece in placed {
            if write {
                self.scratch.resize(piece.bytes as usize, 0);
                target.read_back(piece.to, &mut self.scratch)?;
                self.buffer.write_pageable(page + piece.from, &self.scratch)?;
            } else {
                target.copy_from_host(piece.to, self.buffer, page + piece.from, piece.bytes as usize)?;
            }
        }
        Ok(())
    }
}

/// Makes all transfers of a run in this thread.
pub(super) fn run(shared: &Shared<'_>, pool: &Pool<'_>) -> Result<Done, LoadError> {
    let (context, layout) = (shared.context, shared.layout);
    let buffer = shared.slab.ok_or_else(|| wrong("a run with NIXL has no buffer".to_owned()))?;
    context.device.bind()?;
    let mut rec = Recorder::new(context.clock, 0, 5 * layout.tasks.len() + 64);
    let mut copies = Copies { shared, buffer, queue: CopyQueue::new(context.device)?, scratch: Vec::new() };
    let looked_at = rec.now();
    let found = look_up(shared)?;
    let lookup_ns = if found.is_some() { rec.end(Phase::Open, looked_at, What::SETUP) - looked_at } else { 0 };
    let tasks: Vec<Task> = layout.tasks.iter().filter(|task| stored(found.as_ref(), task)).copied().collect();
    let mut operations = Vec::with_capacity(tasks.len());
    for together in tasks.chunks(pool.pages.len().max(1)) {
        if context.stopped() {
            return Err(LoadError::Stopped);
        }
        let start = rec.now();
        if shared.lane.write {
            copy_all(&mut copies, together, pool, &mut rec)?;
        }
        transfer(shared, pool, together, &mut rec)?;
        if !shared.lane.write {
            copy_all(&mut copies, together, pool, &mut rec)?;
        }
        let end = rec.now();
        operations.extend(together.iter().map(|task| pipeline::Operation {
            layer: task.layer,
            start_ns: start,
            end_ns: end,
            bytes: task.bytes,
        }));
        context.landed(together.iter().map(|task| task.bytes).sum());
    }
    let at = rec.now();
    if shared.lane.write && shared.settings.on(KvSetting::Fsync) {
        for file in &layout.files {
            let synced = File::open(&file.path).and_then(|file| file.sync_data());
            synced.map_err(|error| failed("waiting for the disk for", &file.path, error))?;
        }
    }
    context.device.synchronize()?;
    rec.end(Phase::Sync, at, What::SETUP);
    Ok(Done {
        spans: rec.into_spans(),
        slots: 1,
        operations,
        computing: Vec::new(),
        found,
        lookup_ns,
        concurrent: Vec::new(),
        on_streams: None,
    })
}

fn copy_all(copies: &mut Copies<'_, '_>, tasks: &[Task], pool: &Pool<'_>, rec: &mut Recorder) -> Result<(), LoadError> {
    for (number, task) in tasks.iter().enumerate() {
        let at = rec.now();
        copies.copy(task, number as u64 * pool.page_bytes)?;
        rec.end(Phase::Copy, at, What::SETUP);
    }
    Ok(())
}

/// One NIXL transfer of several chunks.
fn transfer(shared: &Shared<'_>, pool: &Pool<'_>, tasks: &[Task], rec: &mut Recorder) -> Result<(), LoadError> {
    let Some(first) = tasks.first() else { return Ok(()) };
    let refused = |error: nixl_ffi::Error| pool.refused(&error, first, tasks.len());
    let mut at = rec.now();
    let pages: Vec<&Registered<'_, DeviceMemory>> = pool.pages.iter().take(tasks.len()).collect();
    let files = tasks
        .iter()
        .map(|task| pool.files.get(task.file as usize).and_then(Option::as_ref))
        .collect::<Option<Vec<&RegisteredFile<'_>>>>()
        .ok_or_else(|| wrong("a file of the pool is not open".to_owned()))?;
    let parts: Vec<Part> = tasks
        .iter()
        .enumerate()
        .map(|(number, task)| Part {
            memory: number,
            memory_offset: 0,
            file: number,
            file_offset: shared.layout.file_offset(task) as usize,
            len: task.bytes as usize,
        })
        .collect();
    let operation = if shared.lane.write { Operation::Write } else { Operation::Read };
    let mut transfer: Transfer<'_, DeviceMemory> =
        pool.agent.prepare(operation, &pages, &files, &parts).map_err(refused)?;
    at = rec.end(Phase::Submit, at, What::SETUP);
    transfer.run().map_err(refused)?;
    let blocks: Vec<Block> = tasks
        .iter()
        .map(|task| Block {
            shard: task.file,
            file_offset: shared.layout.file_offset(task),
            bytes: task.bytes,
            image_offset: shared.layout.image_offset(task),
        })
        .collect();
    at = rec.share(Phase::Transfer, at, &blocks);
    drop(transfer);
    rec.end(Phase::Release, at, What::SETUP);
    Ok(())
}
