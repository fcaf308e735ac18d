//! Makes the page cache cold or hot before a run, and measures the resident share.

use super::context::EngineContext;
use super::error::LoadError;
use super::files;
use crate::core::{CacheState, ModelInfo, NotCold, Note};
use crate::device;
use rustix::fs::Advice;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Brings the page cache into the requested state. Returns a note for the result.
pub(super) fn prepare(context: &EngineContext<'_>) -> Result<Option<Note>, LoadError> {
    match context.order.cache {
        CacheState::AsIs => Ok(None),
        CacheState::Cold => make_cold(context),
        CacheState::Hot => make_hot(context).map(|()| None),
    }
}

/// The share of the model's pages in the page cache, 0 to 1. `None` if the kernel does not report it.
pub(super) fn resident_fraction(context: &EngineContext<'_>) -> Option<f64> {
    let mut resident = 0_u64;
    for (number, shard) in context.model().shards.iter().enumerate() {
        let range = context.range(number);
        let length = range.end - range.start;
        let file = files::open_shard(&shard.path, false).ok()?;
        resident += device::resident_bytes(&file, range).ok()?.min(length);
    }
    let total = context.file_bytes();
    (total > 0).then(|| resident as f64 / total as f64)
}

/// The share of the model that can stay in the page cache for a cold run. The kernel may immediately read the pages
/// of the headers ahead again.
const COLD_ENOUGH: f64 = 0.005;

/// Drops the files of the model from the page cache with posix_fadvise, which skips pages that other processes map.
/// If pages stay and the order permits it, the complete page cache is dropped, which slows down all programs on the
/// machine.
fn make_cold(context: &EngineContext<'_>) -> Result<Option<Note>, LoadError> {
    drop_files(context.model())?;
    if resident_fraction(context).is_some_and(|share| share <= COLD_ENOUGH) {
        return Ok(None);
    }
    if let Some(path) = context.model().shards.iter().map(|shard| &shard.path).find(|path| lives_in_memory(path)) {
        return Ok(Some(Note::NotCold(NotCold::InMemory { path: path.display().to_string() })));
    }
    if !context.order.drop_caches {
        return Ok(Some(Note::NotCold(NotCold::PagesLeft)));
    }
    if let Err(error) = std::fs::write("/proc/sys/vm/drop_caches", "3") {
        return Ok(Some(Note::NotCold(NotCold::NeedsRoot { error: error.to_string() })));
    }
    Ok(Some(Note::PageCacheDropped { cached: resident_fraction(context).filter(|share| *share > COLD_ENOUGH) }))
}

/// Whether the content of a file exists only in memory, so that it cannot be dropped.
fn lives_in_memory(path: &Path) -> bool {
    const TMPFS: i128 = 0x0102_1994;
    const RAMFS: i128 = 0x8584_58f6;
    rustix::fs::statfs(path).is_ok_and(|fs| [TMPFS, RAMFS].contains(&i128::from(fs.f_type)))
}

/// Drops the files of a model from the page cache, file by file.
pub(super) fn drop_files(model: &ModelInfo) -> Result<(), LoadError> {
    for shard in &model.shards {
        let file = files::open_shard(&shard.path, false)?;
        // Dirty pages cannot be dropped, so they are written first. A read-only file system returns an error, but it
        // has no dirty pages.
        let _ = rustix::fs::fdatasync(&file);
        let _ = rustix::fs::fadvise(&file, 0, NonZeroU64::new(shard.file_bytes), Advice::DontNeed);
    }
    Ok(())
}

/// Reads the complete model through the page cache. If it was not cached before, it is read twice. At the second read
/// of a page, the kernel moves it to the active list under a lock that many threads compete for. With only one read,
/// the first measured load would take about twice as long as later loads (634 ms and 295 ms on 16 cores).
fn make_hot(context: &EngineContext<'_>) -> Result<(), LoadError> {
    let was_there = resident_fraction(context).is_some_and(|share| share >= 1.0);
    read_all(context)?;
    if !was_there {
        read_all(context)?;
    }
    Ok(())
}

/// Reads the complete model once through the page cache with many threads.
fn read_all(context: &EngineContext<'_>) -> Result<(), LoadError> {
    const STEP: u64 = 8 << 20;
    let model = context.model();
    let mut pieces = Vec::new();
    for index in 0..model.shards.len() {
        let range = context.range(index);
        pieces.extend(range.clone().step_by(STEP as usize).map(|at| (index, at, STEP.min(range.end - at) as usize)));
    }
    let next = AtomicUsize::new(0);
    let opened = files::open_shards(model, false)?;
    super::context::run_workers(context, context.cpus.clamp(1, 16), |_| {
        let mut buffer = vec![0; STEP as usize];
        while let Some((shard, at, length)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            files::read_fully(&opened[*shard], &model.shards[*shard].path, &mut buffer[..*length], *at, *length)?;
        }
        Ok(())
    })?;
    Ok(())
}
