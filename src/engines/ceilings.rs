//! Measures ceilings in a child process of the session: copies from pinned memory to the GPU, `O_DIRECT` reads of the
//! model's files, and reads from the page cache. The readers do nothing else, and the best of a few block sizes and
//! depths is used, so that no engine can be faster.

use super::cache;
use super::error::LoadError;
use super::files;
use super::probe::answer;
use crate::core::{Ceiling, CeilingKind, ModelInfo, ReaderSetting, units};
use crate::device::{CopyQueue, CudaDevice, Device, DeviceMemory, Slot, Staging};
use crate::models;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The ceilings to measure.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The model whose files are read.
    pub model: &'a Path,
    /// The UUID or index of the GPU. If it is `None`, no copies are measured.
    pub gpu: Option<&'a str>,
    /// Whether only copies are measured.
    pub copies_only: bool,
    /// Whether the page cache must not change. Reads from it are then not measured.
    pub keep_cache: bool,
    /// Whether only the best setting for `O_DIRECT` reads is needed, because passes over all files follow.
    pub passes_follow: bool,
}

const MIB: u64 = units::MIB;
/// The duration of the test of one setting. The best few are tested again for longer.
const TRY: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(600);
/// The number of settings that are tested again.
const TRIED_AGAIN: usize = 3;
/// The maximum number of bytes that are read from the page cache.
const CACHED_BYTES: u64 = 1 << 30;

/// Measures the ceilings and prints `{"ceilings": […], "gaps": ["…"]}`.
#[must_use]
pub fn measure(asked: Asked<'_>) -> u8 {
    answer(|_| {
        let (mut ceilings, mut gaps) = (Vec::new(), Vec::new());
        let mut put = |measured: Result<Ceiling, String>| match measured {
            Ok(ceiling) => ceilings.push(ceiling),
            Err(gap) => gaps.push(gap),
        };
        if let Some(gpu) = asked.gpu {
            put(copies(gpu).map_err(|e| format!("the pinned copy rate was not measured: {e}")));
        }
        if !asked.copies_only {
            match models::open(asked.model) {
                Ok(model) => {
                    put(direct_reads(&model, !asked.passes_follow)
                        .map_err(|e| format!("the O_DIRECT read rate was not measured: {e}")));
                    put(cached_reads(&model, asked.keep_cache)
                        .map_err(|e| format!("the page-cache read rate was not measured: {e}")));
                }
                Err(error) => put(Err(format!("the read rates were not measured: {error}"))),
            }
        }
        let ceilings: Vec<Value> = ceilings.iter().filter_map(|c| serde_json::to_value(c).ok()).collect();
        json!({"ceilings": ceilings, "gaps": gaps})
    })
}

/// Drops a model's files from the page cache, reads every block once with `O_DIRECT`, and prints `{"bytes_per_s": …,
/// "took_ns": …}` or `{"error": "…"}`. Files are opened and buffers are touched before the clock starts, so that only
/// the device is measured.
#[must_use]
pub fn pass(model: &Path, reader: ReaderSetting) -> u8 {
    answer(|_| {
        let begin = Instant::now();
        let read = || -> Result<f64, String> {
            let model = models::open(model).map_err(|e| e.to_string())?;
            read_complete(&model, reader).map_err(|e| e.to_string())
        };
        match read() {
            Ok(rate) => json!({"bytes_per_s": rate, "took_ns": begin.elapsed().as_nanos() as u64}),
            Err(error) => json!({"error": error}),
        }
    })
}

fn read_complete(model: &ModelInfo, reader: ReaderSetting) -> Result<f64, LoadError> {
    cache::drop_files(model)?;
    let block_bytes = reader.block_bytes.clamp(4096, 1 << 30).next_multiple_of(4096);
    let track = Track::new(model, block_bytes, u64::MAX);
    read(model, &track, reader.threads.clamp(1, 256) as usize, true, None)
}

/// Measures copies from pinned memory to the GPU, with eight copies in flight on one stream.
fn copies(gpu: &str) -> Result<Ceiling, LoadError> {
    const BLOCK: u64 = 16 * MIB;
    let begin = Instant::now();
    let (ordinal, uuid) = gpu.parse().map_or((0, Some(gpu)), |ordinal: u32| (ordinal, None));
    let device = Device::Cuda(Arc::new(CudaDevice::open(ordinal, uuid)?));
    let mut free = Staging::slots(&device, 8, BLOCK as usize)?;
    let target = Arc::new(DeviceMemory::allocate(&device, 8 * BLOCK)?);
    let queue = CopyQueue::new(&device)?;
    let mut best = 0.0_f64;
    for _ in 0..3 {
        let (start, mut copied, mut number) = (Instant::now(), 0_u64, 0_u64);
        let mut flying = std::collections::VecDeque::new();
        while start.elapsed() < TRY {
            while let Some(slot) = free.pop() {
                flying.push_back(queue.copy(slot, 0, BLOCK as usize, &target, (number % 8) * BLOCK)?);
                (copied, number) = (copied + BLOCK, number + 1);
            }
            if let Some(oldest) = flying.pop_front() {
                free.push(oldest.finish()?);
            }
        }
        for copy in flying {
            free.push(copy.finish()?);
        }
        best = best.max(copied as f64 / start.elapsed().as_secs_f64());
    }
    Ok(Ceiling {
        kind: CeilingKind::PinnedCopy,
        gpu: Some(gpu.to_owned()),
        model: None,
        bytes_per_s: best,
        how: "copies of 16 MiB, the best of 3".to_owned(),
        took_ns: begin.elapsed().as_nanos() as u64,
        reader: None,
        passes: Vec::new(),
    })
}

/// The position at which a reader continues. After the last block of the files it starts again at the first one.
struct Track {
    /// (index of the file, offset, length) of each block.
    blocks: Vec<(usize, u64, usize)>,
    next: AtomicU64,
}

impl Track {
    fn new(model: &ModelInfo, block_bytes: u64, most_bytes: u64) -> Self {
        let mut blocks = Vec::new();
        let mut left = most_bytes;
        for (file, shard) in model.shards.iter().enumerate() {
            for at in (0..shard.file_bytes.min(left)).step_by(block_bytes as usize) {
                blocks.push((file, at, block_bytes.min(shard.file_bytes - at) as usize));
            }
            left = left.saturating_sub(shard.file_bytes);
        }
        Self { blocks, next: AtomicU64::new(0) }
    }
}

/// Reads with this number of threads until the time limit, or reads each block once if there is no limit. Returns
/// bytes per second.
fn read(
    model: &ModelInfo,
    track: &Track,
    threads: usize,
    direct: bool,
    time: Option<Duration>,
) -> Result<f64, LoadError> {
    let opened = files::open_shards(model, direct)?;
    let longest = track.blocks.iter().map(|(_, _, bytes)| *bytes).max().unwrap_or(1).next_multiple_of(4096);
    let slots = (0..threads).map(|_| Staging::slots(&Device::Host, 1, longest)).collect::<Result<Vec<_>, _>>()?;
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    let count = track.blocks.len() as u64;
    let wanted = threads;
    let worker = |mut slots: Vec<Slot>| -> Result<(), LoadError> {
        let Some(slot) = slots.first_mut() else { return Ok(()) };
        loop {
            let number = track.next.fetch_add(1, Ordering::Relaxed);
            let over = time.map_or(number >= count, |time| start.elapsed() >= time);
            let Some((file, at, bytes)) = track.blocks.get((number % count.max(1)) as usize).copied().filter(|_| !over)
            else {
                return Ok(());
            };
            let length = if direct { bytes.next_multiple_of(4096) } else { bytes };
            let path = &model.shards[file].path;
            files::read_block(&opened[file], path, &mut slot.bytes_mut()[..length], at, bytes)?;
            done.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let worker = &worker;
        let start = |slots| std::thread::Builder::new().spawn_scoped(scope, move || worker(slots));
        let threads: Vec<_> = slots.into_iter().map(start).collect();
        threads.into_iter().try_for_each(|thread| match thread.map(ScopedJoinHandle::join) {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // A smaller number of threads would not be the reported setting.
            Err(source) => Err(LoadError::Threads { threads: wanted, source }),
        })
    })?;
    Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// Finds the best setting (block bytes, threads): each setting is tested, and the best few are tested again for
/// longer.
fn best_of(
    model: &ModelInfo,
    kind: CeilingKind,
    most_bytes: u64,
    settings: &[(u64, usize)],
) -> Result<Ceiling, LoadError> {
    let begin = Instant::now();
    let direct = kind == CeilingKind::DirectRead;
    let mut at = 0;
    let mut try_one = |block_bytes: u64, threads: usize, time: Duration| {
        let track = Track::new(model, block_bytes, most_bytes);
        // Each setting continues where the previous one ended, so that caches of the device are not read twice.
        track.next.store(at / block_bytes, Ordering::Relaxed);
        let rate = read(model, &track, threads, direct, Some(time));
        at = track.next.into_inner() * block_bytes;
        rate.map(|rate| (rate, block_bytes, threads))
    };
    let sorted = |mut tried: Vec<(f64, u64, usize)>| {
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        tried
    };
    let tried = settings.iter().map(|(block, threads)| try_one(*block, *threads, TRY)).collect::<Result<_, _>>()?;
    let again = sorted(tried).into_iter().take(TRIED_AGAIN).map(|(_, block, threads)| try_one(block, threads, AGAIN));
    let best = sorted(again.collect::<Result<_, _>>()?).into_iter().next();
    let (rate, block_bytes, threads) = best.ok_or(LoadError::Stopped)?;
    Ok(Ceiling {
        kind,
        gpu: None,
        model: Some(model.name.clone()),
        bytes_per_s: rate,
        how: format!(
            "{}, blocks of {}, the best of {} settings for {} ms",
            units::plural(threads as u64, "thread"),
            units::bytes(block_bytes),
            settings.len(),
            AGAIN.as_millis()
        ),
        took_ns: begin.elapsed().as_nanos() as u64,
        reader: direct.then_some(ReaderSetting { block_bytes, threads: threads as u64 }),
        passes: Vec::new(),
    })
}

fn direct_reads(model: &ModelInfo, pass_now: bool) -> Result<Ceiling, LoadError> {
    let begin = Instant::now();
    let settings: Vec<(u64, usize)> =
        [MIB / 2, MIB, 4 * MIB].into_iter().flat_map(|block| [4, 8, 16, 32].map(|threads| (block, threads))).collect();
    let mut ceiling = best_of(model, CeilingKind::DirectRead, u64::MAX, &settings)?;
    if let Some(reader) = ceiling.reader.filter(|_| pass_now) {
        // A test of less than a second does not show the sustained rate of the device.
        ceiling.bytes_per_s = read_complete(model, reader)?;
        ceiling.how = reader_words(reader, settings.len());
        ceiling.took_ns = begin.elapsed().as_nanos() as u64;
    }
    Ok(ceiling)
}

fn reader_words(reader: ReaderSetting, settings: usize) -> String {
    format!(
        "every block of the files once by {} threads with blocks of {}, the best of {settings} settings",
        reader.threads,
        units::bytes(reader.block_bytes)
    )
}

fn cached_reads(model: &ModelInfo, keep_cache: bool) -> Result<Ceiling, String> {
    if keep_cache {
        return Err("a race with --cache as-is must not change the page cache; use --cache hot or cold".to_owned());
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let measure = || {
        let begin = Instant::now();
        let track = Track::new(model, 8 * MIB, CACHED_BYTES);
        read(model, &track, cpus.min(16), false, None)?;
        let threads = [1, 2, 4, 8, 16, 32].into_iter().filter(|threads| *threads <= cpus.max(2) * 2);
        let settings: Vec<(u64, usize)> = threads.map(|threads| (MIB, threads)).collect();
        let mut ceiling = best_of(model, CeilingKind::CachedRead, CACHED_BYTES, &settings)?;
        ceiling.took_ns = begin.elapsed().as_nanos() as u64;
        Ok(ceiling)
    };
    measure().map_err(|error: LoadError| error.to_string())
}
