//! Prepares a run before its clock starts: the driver, registered memory, staging, contents, and the files for a
//! read.

use super::content;
use super::job::{Job, wrong};
use super::layout::Layout;
use super::order::{KvOrder, Method, Settings};
use super::params::KvSetting;
use super::store;
use crate::core::{FallbackReason, KvSystem, LaneOrder, Note, units};
use crate::device::{DeviceMemory, Slot, Staging};
use crate::engines::cufile::CuFile;
use crate::engines::{EngineContext, LoadError, run_workers};
use crate::engines::{explain, open_cufile as open_driver};
use crate::trust::read_regular;
use cufile_ffi::BufferRegistration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// cuFile's flag for memory that is registered for RDMA. llm-d uses it when it registers blocks separately.
const RDMA_REGISTER: u32 = 1;

/// The registered ranges with their start offsets.
pub(super) type Registered = Vec<(u64, Arc<BufferRegistration<DeviceMemory>>)>;

/// The reason why cuFile is not used, with a sentence.
pub(super) type Without = Option<(FallbackReason, String)>;

/// Opens cuFile if the run needs it. Only llm-d continues without cuFile; the reason is returned.
pub(super) fn open_cufile(lane_order: &LaneOrder, job: &Job) -> Result<(Option<CuFile>, Without), LoadError> {
    let order = &job.order;
    match job.lane.method {
        Method::Gds => {}
        // NIXL's plugins use the same library. It is opened here to read its counters.
        Method::Nixl(plugin) if plugin.uses_cufile() => return Ok((Some(open_driver(lane_order)?), None)),
        Method::Nixl(_) | Method::Plain | Method::Ram => return Ok((None, None)),
    }
    if let Some(reason @ (FallbackReason::NoLibrary | FallbackReason::InitFailed)) = order.provoke {
        let what =
            if reason == FallbackReason::NoLibrary { "there were no libcufile" } else { "the driver did not open" };
        return Ok((None, Some((reason, format!("provoked: as if {what}")))));
    }
    match open_driver(lane_order) {
        Ok(cufile) => Ok((Some(cufile), None)),
        Err(error) if order.kind == KvSystem::Llmd => {
            // The settings can be the cause only if libcufile exists to read them.
            let library = match &lane_order.libcufile {
                Some(named) => cufile_ffi::Library::open(&cufile_ffi::Search::only(named)),
                None => cufile_ffi::Library::find(),
            };
            let (reason, hint) = match library {
                Err(_) => (FallbackReason::NoLibrary, String::new()),
                Ok(_) => (FallbackReason::InitFailed, settings_hint()),
            };
            Ok((None, Some((reason, format!("{error}{hint}")))))
        }
        Err(error) => Err(error),
    }
}

pub(super) fn threads(order: &KvOrder, settings: &Settings, layout: &Layout, cpus: usize) -> usize {
    let asked = match order.kind {
        KvSystem::Ucm => settings.get(KvSetting::StreamNumber),
        KvSystem::Llmd => settings.get(KvSetting::ThreadsPerGpu).min(cpus as u64),
        KvSystem::VllmFs if layout.is_write() => settings.get(KvSetting::NWriteThreads),
        KvSystem::VllmFs => settings.get(KvSetting::NReadThreads),
        KvSystem::Lmcache | KvSystem::LmcacheNixl => settings.get(KvSetting::MaxConcurrentOps),
        KvSystem::LmcacheMp => settings.get(KvSetting::GdsStreams),
    };
    (asked as usize).clamp(1, layout.units.len().max(1))
}

/// Registers memory with cuFile, depending on the setting. A failed registration ends the run, because the
/// measurement would have another meaning. An exception is llm-d, whose connector prints a warning and continues with
/// unregistered memory.
pub(super) fn register(
    cufile: &CuFile,
    job: &Job,
    target: &Arc<DeviceMemory>,
    slab: Option<&Arc<DeviceMemory>>,
    on_gpu: bool,
    notes: &mut Vec<Note>,
) -> Result<Registered, LoadError> {
    let Job { order, settings, layout, .. } = job;
    let how = settings.get(KvSetting::Register);
    if how == 0 {
        return Ok(Vec::new());
    }
    let (memory, ranges, flags) = match slab {
        Some(slab) => (slab, regions(slab.len() as u64, settings.get(KvSetting::RegionBytes)), 0),
        // libcufile rejects the flag for host memory with 5045, in 1.16, 1.18 and 1.20.
        None if how == 2 => (target, layout.registrations(true), if on_gpu { RDMA_REGISTER } else { 0 }),
        None => (target, layout.registrations(false), 0),
    };
    let all = ranges.len();
    let mut registered = Vec::with_capacity(all);
    for range in ranges {
        let length = range.end - range.start;
        match cufile.driver.register(memory, range.start as usize, length as usize, flags) {
            Ok(registration) => registered.push((range.start, Arc::new(registration))),
            Err(error) => {
                let doing = format!("registering {} of the target with cuFile", units::bytes(length));
                let said = match explain(&doing, &error) {
                    LoadError::CuFile(said) if flags == RDMA_REGISTER => LoadError::CuFile(format!(
                        "{said}; register=2 uses cuFile's flag for RDMA, as llm-d does, but libcufile does not accept it for all memory; register=1 does not use it"
                    )),
                    said => said,
                };
                if order.kind != KvSystem::Llmd {
                    return Err(said);
                }
                notes.push(Note::BuffersNotRegistered {
                    registered: registered.len() as u64,
                    buffers: all as u64,
                    error: said.to_string(),
                });
                return Ok(registered);
            }
        }
    }
    Ok(registered)
}

/// The ranges of the staging memory that are registered: the complete memory, or regions with the given size in
/// bytes.
fn regions(bytes: u64, region: u64) -> Vec<std::ops::Range<u64>> {
    let step = if region == 0 { bytes } else { region }.max(1);
    (0..bytes.div_ceil(step)).map(|number| number * step..((number + 1) * step).min(bytes)).collect()
}

/// A pinned buffer for each worker that may make plain reads or writes.
pub(super) fn staging(
    context: &EngineContext<'_>,
    job: &Job,
    method: Method,
    threads: usize,
) -> Result<Vec<Slot>, LoadError> {
    let Some(bytes) = staging_bytes(job, method) else { return Ok(Vec::new()) };
    let slots = Staging::slots(context.device, threads, bytes as usize)?;
    if context.device.is_gpu() {
        context.counters.pin(slots.iter().map(|slot| slot.len() as u64).sum());
    }
    Ok(slots)
}

/// The size of one staging buffer in bytes. `None` if the run has none.
pub(super) fn staging_bytes(job: &Job, method: Method) -> Option<u64> {
    let (Job { settings, layout, .. }, kind) = (job, job.order.kind);
    let may_stage = kind == KvSystem::Llmd || settings.on(KvSetting::MisalignedFallback);
    if matches!(method, Method::Ram | Method::Nixl(_)) || (method == Method::Gds && !may_stage) {
        return None;
    }
    let wanted = match (kind, settings.get(KvSetting::StagingBytes)) {
        // The buffer has the size of a complete file, which is read or written at once.
        (KvSystem::Llmd | KvSystem::VllmFs, 0) if !layout.files.is_empty() => layout.payload,
        (KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl, _) | (_, 0) => layout.largest,
        (KvSystem::Llmd | KvSystem::VllmFs, bytes) => bytes,
        (KvSystem::Ucm, bytes) => bytes.min(layout.largest),
    };
    Some(wanted.max(1))
}

/// Puts the bytes to write on the target. For a read from host memory, puts them into host memory and returns it,
/// with one slot per file.
pub(super) fn contents(
    context: &EngineContext<'_>,
    job: &Job,
    method: Method,
    target: &DeviceMemory,
) -> Result<Vec<Mutex<Slot>>, LoadError> {
    const STEP: u64 = 4 << 20;
    let Job { order, lane, layout, .. } = job;
    let ram = if method == Method::Ram && !layout.files.is_empty() {
        let slots = Staging::slots(context.device, layout.files.len(), layout.payload as usize)?;
        if context.device.is_gpu() {
            context.counters.pin(slots.iter().map(|slot| slot.len() as u64).sum());
        }
        slots.into_iter().map(Mutex::new).collect()
    } else {
        Vec::new()
    };
    if !lane.write && method != Method::Ram {
        return Ok(ram);
    }
    let next = AtomicUsize::new(0);
    run_workers(context, context.cpus.clamp(1, 16), |_| {
        context.device.bind()?;
        let mut buffer = Vec::new();
        loop {
            let file = next.fetch_add(1, Ordering::Relaxed);
            if file >= layout.files.len() {
                return Ok(());
            }
            if let Some(slot) = ram.get(file).filter(|_| !lane.write) {
                let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                content::fill(order.seed, layout.content_of(file), 0, &mut slot.bytes_mut()[..layout.payload as usize]);
                continue;
            }
            let mut at = 0;
            while at < layout.payload {
                let length = STEP.min(layout.payload - at);
                buffer.resize(length as usize, 0);
                content::fill(order.seed, layout.content_of(file), at, &mut buffer);
                for piece in layout.place(file as u32, at, length) {
                    let range = piece.from as usize..(piece.from + piece.bytes) as usize;
                    target.write_pageable(piece.to, &buffer[range])?;
                }
                at += length;
            }
        }
    })?;
    Ok(ram)
}

/// The headers of all chunks that are written. Several threads compute them, because their checksums take a while.
pub(super) fn headers(context: &EngineContext<'_>, job: &Job, method: Method) -> Result<Vec<Vec<u8>>, LoadError> {
    let Job { order, lane, layout, .. } = job;
    if !lane.write || order.kind != KvSystem::Lmcache || method == Method::Ram {
        return Ok(Vec::new());
    }
    let files = layout.files.len();
    let threads = context.cpus.clamp(1, 16).min(files.max(1));
    let share = files.div_ceil(threads);
    let parts = run_workers(context, threads, |number| {
        let range = (number * share).min(files)..((number + 1) * share).min(files);
        store::headers(order, layout, range).map_err(wrong)
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// Writes the files for a read, unless an earlier run wrote them.
pub(super) fn prepare_files(context: &EngineContext<'_>, job: &Job) -> Result<Option<Note>, LoadError> {
    let Job { order, layout, .. } = job;
    let missing: Vec<usize> =
        (0..layout.files.len()).filter(|index| layout.files.get(*index).is_some_and(|f| !f.path.exists())).collect();
    if !order.prepare || missing.is_empty() {
        return Ok(None);
    }
    if layout.is_slab() {
        store::make_slab(layout)?;
    }
    let next = AtomicUsize::new(0);
    run_workers(context, context.cpus.clamp(1, 8), |_| {
        while let Some(index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let header = match order.kind {
                KvSystem::Lmcache => store::headers(order, layout, *index..*index + 1).map_err(wrong)?.pop(),
                _ => None,
            };
            store::write_plainly(layout, *index, header.as_deref())?;
        }
        Ok(())
    })?;
    Ok(Some(Note::FilesPrepared { files: missing.len() as u64 }))
}

/// A hint about llm-d's many threads: opening the driver may fail, because some versions of libcufile have a lower
/// limit.
fn settings_hint() -> String {
    let Some(file) = std::env::var_os("CUFILE_ENV_PATH_JSON").map(std::path::PathBuf::from) else {
        return String::new();
    };
    let read = read_regular(&file, 1 << 20).ok();
    let asked = read.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    match asked.as_ref().and_then(|all| all.pointer("/execution/max_io_threads")).and_then(serde_json::Value::as_u64) {
        Some(threads) if threads > 32 => format!(
            "; {} requests {threads} threads (max_io_threads), which some versions of libcufile reject; --cufile-json llmd-32 requests 32",
            file.display()
        ),
        _ => String::new(),
    }
}
