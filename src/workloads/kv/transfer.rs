//! One worker of a lane: opens files by the lane's policy and moves bytes between target and store by cuFile, by plain reads and writes, or to host
//! memory.

use super::flights::Flights;
use super::handles::HandleCache;
use super::layout::{Layout, Task};
use super::order::{KvOrder, LaneName, Method, Settings};
use super::params::KvSetting;
use super::prepare::Registered;
use super::store::{self, Limit, failed};
use crate::core::{Fallback, FallbackReason, KvSystem, Phase};
use crate::device::{CopyQueue, DeviceMemory, Piece, Slot};
use crate::engines::{EngineContext, LoadError, Recorder, What, explain};
use crate::trust::shown;
use cufile_ffi::{BufferRegistration, Error, FileHandle, IoMemory};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that is open.
pub(super) enum OpenFile {
    /// Registered with cuFile.
    Gds(Arc<FileHandle<'static>>),
    /// For plain reads and writes.
    Plain(File),
}

/// The key of an open file: its number, and whether it is cuFile's.
type FileKey = (u32, bool);

/// Transfers that fell back, by reason.
#[derive(Debug, Default)]
pub(super) struct Fallbacks(Mutex<Vec<Fallback>>);

impl Fallbacks {
    pub(super) fn add(&self, reason: FallbackReason, order: &KvOrder, detail: &str) {
        let mut fallbacks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match fallbacks.iter_mut().find(|fall| fall.reason == reason) {
            Some(fall) => fall.operations += 1,
            None => {
                let provoked = order.provoke == Some(reason);
                fallbacks.push(Fallback { reason, provoked, operations: 1, detail: detail.to_owned() });
            }
        }
    }

    pub(super) fn take(&self) -> Vec<Fallback> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shared state of the workers of a lane.
pub(super) struct Shared<'a> {
    pub(super) context: &'a EngineContext<'a>,
    pub(super) order: &'a KvOrder,
    pub(super) lane: &'a LaneName,
    pub(super) settings: &'a Settings,
    pub(super) layout: &'a Layout,
    /// The method, after the trials before the clock.
    pub(super) method: Method,
    /// Why cuFile is not used although it was asked for: reason and sentence.
    pub(super) without: Option<(FallbackReason, String)>,
    pub(super) target: &'a Arc<DeviceMemory>,
    pub(super) slab: Option<&'a Arc<DeviceMemory>>,
    /// Registered ranges of slab or target by their beginnings, in order.
    pub(super) registered: &'a Registered,
    pub(super) ram: &'a [Mutex<Slot>],
    pub(super) headers: &'a [Vec<u8>],
    pub(super) handles: HandleCache<FileKey, OpenFile>,
    pub(super) handle_registrations: AtomicU64,
    pub(super) fallbacks: Fallbacks,
    /// Transfers left by file, after which it is moved into place.
    pub(super) left: Vec<AtomicUsize>,
    pub(super) limit: Limit,
    pub(super) tried: AtomicUsize,
}

/// Why cuFile does not take a file or a transfer.
pub(super) struct Refused {
    reason: FallbackReason,
    pub(super) error: LoadError,
}

/// A transfer that was made: its layer, when it began and ended on the run's clock.
pub(super) type Operation = (u32, u64, u64);

/// One thread's hands.
pub(super) struct Worker<'s, 'a> {
    pub(super) shared: &'s Shared<'a>,
    pub(super) rec: Recorder,
    pub(super) queue: CopyQueue,
    pub(super) staging: Option<Slot>,
    /// The start of this worker's place in the slab.
    pub(super) slab_at: u64,
    pub(super) operations: Vec<Operation>,
    /// The outstanding transfers, if they are asynchronous.
    pub(super) flights: Option<Flights>,
}

impl Worker<'_, '_> {
    /// Moves all transfers of one unit, which are of one file.
    pub(super) fn unit(&mut self, tasks: &[Task]) -> Result<(), LoadError> {
        let Some(file) = tasks.first().map(|task| task.file) else { return Ok(()) };
        let shared = self.shared;
        let mut start = self.rec.now();
        if shared.lane.write && shared.method != Method::Ram {
            self.begin_file(file)?;
        }
        let mut gds = None;
        let mut plain = None;
        match shared.method {
            Method::Ram => {}
            Method::Plain => plain = Some(self.open(file, false).map_err(|refused| refused.error)?),
            Method::Gds => match self.open(file, true) {
                Ok(opened) => gds = Some(opened),
                Err(refused) => {
                    self.may_fall(&refused, tasks.len())?;
                    plain = Some(self.open(file, false).map_err(|refused| refused.error)?);
                }
            },
        }
        for task in tasks {
            if shared.context.stopped() {
                return Err(LoadError::Stopped);
            }
            match (&gds, &plain) {
                (Some(handle), _) => {
                    let handle = Arc::clone(handle);
                    if let Err(refused) = self.by_cufile(&handle, task) {
                        self.may_fall(&refused, 1)?;
                        let again = self.open(file, false).map_err(|refused| refused.error)?;
                        let done = self.plainly(&again, task);
                        drop(again);
                        self.close(file, false);
                        done?;
                    }
                }
                (None, Some(handle)) => {
                    if let Some((reason, detail)) = &shared.without {
                        shared.fallbacks.add(*reason, shared.order, detail);
                    }
                    let handle = Arc::clone(handle);
                    self.plainly(&handle, task)?;
                }
                (None, None) => self.in_memory(task)?,
            }
            let end = self.rec.now();
            self.operations.push((task.layer, start, end));
            shared.context.landed(task.bytes);
            start = end;
        }
        for (opened, cufile) in [(gds, true), (plain, false)] {
            if opened.is_some() {
                drop(opened);
                self.close(file, cufile);
            }
        }
        if shared.lane.write && shared.method != Method::Ram {
            self.end_file(file, tasks.len())?;
        }
        Ok(())
    }

    /// Whether the workload goes on without cuFile; each such transfer is counted.
    fn may_fall(&self, refused: &Refused, operations: usize) -> Result<(), LoadError> {
        let said = refused.error.to_string();
        if self.shared.order.kind != KvSystem::Llmd {
            return Err(LoadError::CuFile(said));
        }
        (0..operations).for_each(|_| self.shared.fallbacks.add(refused.reason, self.shared.order, &said));
        Ok(())
    }

    /// Makes the folder of a file, and its header if it has one.
    pub(super) fn begin_file(&mut self, file: u32) -> Result<(), LoadError> {
        let shared = self.shared;
        let Some(of) = shared.layout.files.get(file as usize) else { return Ok(()) };
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

    /// Moves a file into place after its last transfer, and removes what is over the limit.
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
        fs::rename(&of.temporary, &of.path).map_err(|e| failed("moving into place", &of.temporary, e))?;
        for gone in shared.limit.add(file) {
            if let Some(gone) = shared.layout.files.get(gone as usize) {
                fs::remove_file(&gone.path).map_err(|e| failed("removing", &gone.path, e))?;
            }
        }
        self.rec.end(Phase::Sync, at, What::SETUP);
        Ok(())
    }

    pub(super) fn open(&mut self, file: u32, cufile: bool) -> Result<Arc<OpenFile>, Refused> {
        let (shared, rec) = (self.shared, &mut self.rec);
        shared.handles.acquire(&(file, cufile), || open_file(shared, rec, file, cufile))
    }

    pub(super) fn close(&mut self, file: u32, cufile: bool) {
        let at = self.rec.now();
        let closed = self.shared.handles.release(&(file, cufile));
        if !closed.is_empty() {
            drop(closed);
            self.rec.end(Phase::Deregister, at, What::SETUP);
        }
    }

    /// The place on the target at which a transfer begins or ends: in the slab, or its own.
    pub(super) fn place(&self, task: &Task) -> u64 {
        match self.shared.slab {
            Some(_) => self.slab_at,
            None => self.shared.layout.place(task.file, task.offset, task.bytes).first().map_or(0, |piece| piece.to),
        }
    }

    pub(super) fn memory(&self) -> &Arc<DeviceMemory> {
        self.shared.slab.unwrap_or(self.shared.target)
    }

    /// Gathers a transfer's bytes from the paged cache into the slab.
    fn gather(&mut self, task: &Task) -> Result<(), LoadError> {
        let Some(slab) = self.shared.slab else { return Ok(()) };
        let at = self.rec.now();
        let pieces: Vec<Piece> = self.pieces(task).map(|p| Piece { from: p.to, to: p.from, bytes: p.bytes }).collect();
        self.queue.copy_pieces(self.shared.target, slab, &pieces)?;
        self.rec.end(Phase::Copy, at, What::SETUP);
        Ok(())
    }

    /// Scatters a transfer's bytes from the slab into the paged cache.
    fn scatter(&mut self, task: &Task) -> Result<(), LoadError> {
        let Some(slab) = self.shared.slab else { return Ok(()) };
        let at = self.rec.now();
        let pieces: Vec<Piece> = self.pieces(task).collect();
        self.queue.copy_pieces(slab, self.shared.target, &pieces)?;
        self.rec.end(Phase::Copy, at, self.of(task, false));
        Ok(())
    }

    /// Pieces of a transfer, from its place in the slab to the paged cache.
    fn pieces(&self, task: &Task) -> impl Iterator<Item = Piece> + use<> {
        let start = self.slab_at;
        let placed = self.shared.layout.place(task.file, task.offset, task.bytes);
        placed.into_iter().map(move |p| Piece { from: start + p.from, ..p })
    }

    /// The object of a transfer's span; with its bytes once.
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
            return Err(failure(LoadError::CuFile("provoked: this transfer was made to fail".to_owned())));
        }
        if write {
            self.gather(task).map_err(failure)?;
        }
        let at = self.rec.now();
        let place = self.place(task);
        let (memory, base): (&dyn IoMemory, u64) = match self.registration(place, task.bytes) {
            Some((start, registration)) => (&**registration, *start),
            None => (&**self.memory(), 0),
        };
        let offset = shared.layout.data_offset + task.offset;
        let mut done = 0;
        while done < task.bytes {
            let (from, length) = ((place - base + done) as usize, (task.bytes - done) as usize);
            let moved = if write {
                handle.write_at(memory, from, length, offset + done)
            } else {
                handle.read_at(memory, from, length, offset + done)
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
            self.scatter(task).map_err(failure)?;
        }
        Ok(())
    }

    /// The registration that holds a range of the target, with where it begins: only its base counts as registered.
    pub(super) fn registration(&self, place: u64, bytes: u64) -> Option<&(u64, Arc<BufferRegistration<DeviceMemory>>)> {
        let registered = self.shared.registered;
        let next = registered.partition_point(|(start, _)| *start <= place);
        let last = next.checked_sub(1).and_then(|last| registered.get(last));
        last.filter(|(start, registration)| place + bytes <= start + registration.len() as u64)
    }

    /// The operation on the file of a transfer, and the file.
    fn doing(&self, task: &Task) -> (&'static str, String) {
        let path = self.shared.layout.files.get(task.file as usize).map(|f| shown(&f.path).display().to_string());
        (if self.shared.lane.write { "writing" } else { "reading" }, path.unwrap_or_default())
    }

    /// A transfer that moved nothing more.
    pub(super) fn ended_early(&self, task: &Task, done: u64) -> LoadError {
        let (doing, path) = self.doing(task);
        LoadError::CuFile(format!("{doing} {path} ended at byte {done} of a piece of {}", task.bytes))
    }

    /// A transfer that cuFile did not make; `how` is behind its name.
    pub(super) fn failed_by_cufile(&self, task: &Task, how: &str, error: &Error) -> LoadError {
        let (doing, path) = self.doing(task);
        match error.cufile().and_then(|e| e.errno) {
            // Nothing else can write there either.
            Some(libc::ENOSPC) => failed(doing, path.as_ref(), std::io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => explain(&format!("{doing} {path} by cuFile{how}"), error),
        }
    }

    /// By plain reads or writes through this worker's pinned staging.
    fn plainly(&mut self, opened: &OpenFile, task: &Task) -> Result<(), LoadError> {
        let OpenFile::Plain(file) = opened else {
            return Err(LoadError::CuFile("the file is not open for plain reads".to_owned()));
        };
        let shared = self.shared;
        let Some(of) = shared.layout.files.get(task.file as usize) else { return Ok(()) };
        if shared.lane.write {
            self.gather(task)?;
        }
        let place = self.place(task);
        let offset = shared.layout.data_offset + task.offset;
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
            self.scatter(task)?;
        }
        Ok(())
    }

    /// To host memory and back.
    fn in_memory(&mut self, task: &Task) -> Result<(), LoadError> {
        let shared = self.shared;
        if shared.lane.write {
            self.gather(task)?;
        }
        let at = self.rec.now();
        let place = self.place(task);
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
            self.scatter(task)?;
        }
        Ok(())
    }
}

/// Opens a file, and registers it where cuFile is to have it.
fn open_file(shared: &Shared<'_>, rec: &mut Recorder, file: u32, cufile: bool) -> Result<OpenFile, Refused> {
    let refused = |reason, error| Refused { reason, error };
    let gone = || refused(FallbackReason::OperationFailed, LoadError::Stopped);
    let of = shared.layout.files.get(file as usize).ok_or_else(gone)?;
    let path = if shared.lane.write { &of.temporary } else { &of.path };
    let setting = if cufile { KvSetting::Odirect } else { KvSetting::PlainOdirect };
    let direct = shared.settings.on(setting);
    let mut flags = OFlags::CLOEXEC;
    flags |= if shared.lane.write { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
    if direct {
        flags |= OFlags::DIRECT;
    }
    let mut at = rec.now();
    let provoked = cufile && shared.order.provoke == Some(FallbackReason::NoOdirect);
    let opened = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)) {
        Ok(_) if provoked => {
            let said = "provoked: the file system was made to look as if it refused O_DIRECT".to_owned();
            return Err(refused(FallbackReason::NoOdirect, LoadError::CuFile(said)));
        }
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::INVAL) if direct => {
            let error = LoadError::CuFile(format!(
                "{} cannot be opened with O_DIRECT: its file system does not support direct I/O; use a folder on ext4 or xfs, or --set {setting}=0",
                shown(path).display()
            ));
            return Err(refused(FallbackReason::NoOdirect, error));
        }
        Err(errno) => {
            return Err(refused(FallbackReason::OperationFailed, failed("opening", path, errno.into())));
        }
    };
    at = rec.end(Phase::Open, at, What::SETUP);
    if !cufile {
        return Ok(OpenFile::Plain(opened));
    }
    let Some(cufile) = shared.context.cufile else { return Err(gone()) };
    let handle = FileHandle::register(&cufile.driver, opened).map_err(|error| {
        let doing = format!("registering {} with cuFile", shown(path).display());
        refused(FallbackReason::OperationFailed, explain(&doing, &error))
    })?;
    shared.handle_registrations.fetch_add(1, Ordering::Relaxed);
    rec.end(Phase::RegisterHandle, at, What::SETUP);
    Ok(OpenFile::Gds(Arc::new(handle)))
}

/// Removes what a failed lane left half written.
pub(super) fn tidy(shared: &Shared<'_>) {
    if shared.lane.write {
        drop(shared.handles.cleanup());
        store::remove_partial(shared.layout);
    }
}
