//! Measures one cell: threads start together, move blocks until the time is over, and check the last block.

use super::content::{self, Places};
use super::order::GridOrder;
use super::slots::Mover;
use crate::core::{Access, CellKey, CellResult, Made, Pattern, Percentiles, units};
use crate::device::Device;
use crate::engines::cpu_ns;
use crate::engines::cufile::CuFile;
use crate::trust;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of latencies that are kept per thread. A cell of one second has fewer, even with one operation per
/// microsecond. In a longer cell, the first latencies represent all.
const LATENCIES: usize = 1 << 20;

/// The measurements of one thread.
struct ThreadResult {
    latencies: Vec<u64>,
    operations: u64,
    ended: Instant,
    right: Option<bool>,
}

/// The region of a thread's blocks as `(first offset, number of blocks)`. Regions of threads do not overlap.
fn region(file_bytes: u64, key: &CellKey, thread: u32) -> Option<(u64, u64)> {
    let blocks = file_bytes / u64::from(key.threads.max(1)) / key.block_bytes.max(1);
    (blocks > 0).then(|| (u64::from(thread) * blocks * key.block_bytes, blocks))
}

/// Measures one cell.
pub(super) fn measure(order: &GridOrder, key: &CellKey, device: &Device, cufile: Result<&CuFile, &str>) -> CellResult {
    let path = if key.access == Access::Read { &order.read_path } else { &order.write_path };
    let began = Instant::now();
    // The threads first open their files and then start together. At that time the main thread reads clocks and
    // counters.
    let (ready, go) = (Barrier::new(key.threads as usize + 1), Barrier::new(key.threads as usize + 1));
    let complete: OnceLock<bool> = OnceLock::new();
    let stop = AtomicBool::new(false);
    let failure: Mutex<Option<String>> = Mutex::new(None);
    let fail = |why: String| {
        stop.store(true, Ordering::Relaxed);
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    };
    let counts = |cufile: &CuFile| cufile.counts_of(key.access);
    let counter = cufile.ok().filter(|_| key.transfer.uses_cufile());
    let measured = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..key.threads)
            .map(|number| {
                let (ready, go, stop, fail, complete) = (&ready, &go, &stop, &fail, &complete);
                let work = move || {
                    // If a thread could not be started, the others must not wait for it.
                    if !*complete.wait() {
                        return None;
                    }
                    let opened = device
                        .bind()
                        .map_err(|e| e.to_string())
                        .and_then(|()| prepare(order, key, number, path, device, cufile));
                    ready.wait();
                    go.wait();
                    match opened {
                        Ok((mover, region)) => run(order, key, number, mover, region, stop).map_err(fail).ok(),
                        Err(why) => {
                            fail(why);
                            None
                        }
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, work)
            })
            .collect();
        let begun: std::io::Result<Vec<_>> = threads.into_iter().collect();
        let _ = complete.set(begun.is_ok());
        let threads = begun.map_err(units::no_thread)?;
        ready.wait();
        let setup_ns = began.elapsed().as_nanos() as u64;
        let counted = counter.map(counts);
        let (started, cpu_before) = (Instant::now(), cpu_ns());
        go.wait();
        let done: Vec<ThreadResult> = threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect();
        Ok::<_, String>((done, started, setup_ns, cpu_before, counted))
    });
    let (done, started, setup_ns, cpu_before, counted) = match measured {
        Ok(measured) => measured,
        Err(why) => return CellResult::failed(*key, why),
    };
    let cpu = cpu_ns().saturating_sub(cpu_before);
    if let Some(why) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return CellResult { setup_ns, ..CellResult::failed(*key, why) };
    }
    if done.len() != key.threads as usize {
        return CellResult::failed(*key, "a thread of the measurement ended without a result");
    }
    let wall_ns = done.iter().map(|t| t.ended.duration_since(started).as_nanos() as u64).max().unwrap_or(0);
    let operations: u64 = done.iter().map(|t| t.operations).sum();
    let bytes = operations * key.block_bytes;
    let mut latencies: Vec<u64> = done.iter().flat_map(|t| &t.latencies).copied().collect();
    let verified = done.iter().map(|t| t.right).try_fold(true, |all, right| Some(all && right?));
    let mut route = counter
        .zip(counted)
        .map(|(cufile, before)| cufile.route(before, counts(cufile), &Made::at_least(operations, bytes)));
    if let Some(route) = route.as_mut().filter(|_| done.iter().any(|thread| thread.right == Some(false))) {
        route.brought_wrong_bytes();
    }
    CellResult {
        key: *key,
        bytes,
        operations,
        wall_ns,
        bytes_per_s: (wall_ns > 0).then(|| bytes as f64 * 1e9 / wall_ns as f64),
        latency_ns: Percentiles::of(&mut latencies),
        cpu_ns: Some(cpu),
        setup_ns,
        route,
        checked_bytes: done.iter().filter(|t| t.right.is_some()).count() as u64 * key.block_bytes,
        verified,
        error: None,
        died: false,
    }
}

fn prepare(
    order: &GridOrder,
    key: &CellKey,
    number: u32,
    path: &Path,
    device: &Device,
    cufile: Result<&CuFile, &str>,
) -> Result<(Mover, (u64, u64)), String> {
    let region = region(order.file_bytes, key, number).ok_or_else(|| {
        format!(
            "{} threads with {} bytes each do not fit into a file of {} bytes; use a larger --file-size",
            key.threads, key.block_bytes, order.file_bytes
        )
    })?;
    let block =
        usize::try_from(key.block_bytes).map_err(|_| "the block is larger than the address space".to_owned())?;
    let mut mover = Mover::open(key.transfer, key.access, path, block, device, cufile)?;
    if key.access == Access::Write {
        // Each thread writes the same content repeatedly. The content depends on its offset, so the check also
        // verifies the offset.
        let mut bytes = vec![0; block];
        content::fill(&mut bytes, written_seed(order, number), 0);
        mover.put(&bytes)?;
    }
    // The first operation with a buffer includes set-up that later operations do not need, such as mappings. So it is
    // not part of the rate.
    mover.operate(key.access, region.0, block)?;
    Ok((mover, region))
}

fn written_seed(order: &GridOrder, number: u32) -> u64 {
    order.seed ^ (u64::from(number) + 1).wrapping_mul(0xa076_1d64_78bd_642f)
}

fn run(
    order: &GridOrder,
    key: &CellKey,
    number: u32,
    mut mover: Mover,
    (base, blocks): (u64, u64),
    stop: &AtomicBool,
) -> Result<ThreadResult, String> {
    let block = key.block_bytes as usize;
    let time = Duration::from_nanos(order.cell_ns);
    let mut places = Places::new(order.seed ^ u64::from(number));
    let mut latencies = Vec::with_capacity(1 << 12);
    let (mut operations, mut last) = (0_u64, base);
    let start = Instant::now();
    let mut at = start;
    // At least one operation is made, even if a busy machine started it late.
    while (operations == 0 || at.duration_since(start) < time) && !stop.load(Ordering::Relaxed) {
        let index = if key.pattern == Pattern::Random { places.below(blocks) } else { operations % blocks };
        last = base + index * key.block_bytes;
        mover.operate(key.access, last, block)?;
        let now = Instant::now();
        if latencies.len() < LATENCIES {
            latencies.push(now.duration_since(at).as_nanos() as u64);
        }
        at = now;
        operations += 1;
    }
    let ended = at;
    let mut bytes = vec![0; block];
    // There is no operation if another thread failed before.
    let right = if operations == 0 {
        None
    } else if key.access == Access::Read {
        mover.get(&mut bytes)?;
        Some(content::holds(&bytes, order.seed, last))
    } else {
        read_written(&order.write_path, &mut bytes, last)?;
        Some(content::holds(&bytes, written_seed(order, number), 0))
    };
    Ok(ThreadResult { latencies, operations, ended, right })
}

/// Reads the last written block with a normal read.
fn read_written(path: &Path, bytes: &mut [u8], offset: u64) -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    std::fs::File::open(path)
        .and_then(|file| file.read_exact_at(bytes, offset))
        .map_err(|e| format!("reading the written bytes of {} back failed: {e}", trust::shown(path).display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{GridPlan, Target, Transfer};
    use crate::workloads::io::Files;

    #[test]
    fn regions_of_threads_lie_in_the_file_and_apart() {
        let key = CellKey {
            transfer: Transfer::Cpu,
            access: Access::Read,
            pattern: Pattern::Random,
            block_bytes: 4096,
            threads: 3,
        };
        let regions: Vec<(u64, u64)> = (0..3).map(|n| region(100 * 4096, &key, n).unwrap()).collect();
        assert_eq!(regions, [(0, 33), (33 * 4096, 33), (66 * 4096, 33)]);
        assert_eq!(region(2 * 4096, &key, 0), None);
    }

    #[test]
    fn cells_into_host_memory_move_bytes_check_them_and_fail_with_a_sentence() {
        // The directory of the build is on a disk. /tmp may be a tmpfs, which has no O_DIRECT on older kernels.
        let built = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(built.parent().unwrap()).or_else(|_| tempfile::tempdir()).unwrap();
        let files = Files::make(dir.path(), 1 << 20, 9, &mut |_| true).unwrap();
        let order = GridOrder {
            target: Target::Host,
            folder: (files.folder().0.to_owned(), files.folder().1),
            read_path: files.read_path(),
            write_path: files.write_path(),
            file_bytes: 1 << 20,
            cell_ns: 3_000_000,
            seed: 9,
            libcufile: None,
            cells: Vec::new(),
        };
        let cells =
            GridPlan::cells_of(&[Transfer::Cpu, Transfer::CpuGpu], Access::ALL, Pattern::ALL, &[4096, 65536], &[1, 2]);
        for key in cells {
            let result = measure(&order, &key, &Device::Host, Err("no library"));
            if result.error.as_deref().is_some_and(|why| why.contains("no O_DIRECT")) {
                return;
            }
            assert_eq!((result.error.as_deref(), result.verified), (None, Some(true)), "{key:?}");
            // A cell counts as verified only if all moved blocks were compared.
            assert_eq!(result.checked_bytes, key.block_bytes * u64::from(key.threads));
            assert_eq!(result.verified(), (result.checked_bytes >= result.bytes).then_some(true), "{key:?}");
            assert!(result.bytes == result.operations * key.block_bytes && result.operations >= u64::from(key.threads));
            assert!(result.latency_ns.unwrap().p50 > 0 && result.wall_ns >= 3_000_000);
            let wrong = GridOrder { seed: 10, ..order.clone() };
            if key.access == Access::Read {
                assert_eq!(
                    measure(&wrong, &key, &Device::Host, Err("")).verified,
                    Some(false),
                    "other content is seen"
                );
            }
        }
        let key = CellKey {
            transfer: Transfer::Gds,
            access: Access::Read,
            pattern: Pattern::Random,
            block_bytes: 4096,
            threads: 1,
        };
        assert_eq!(measure(&order, &key, &Device::Host, Err("no library")).error.as_deref(), Some("no library"));
        let key = CellKey { transfer: Transfer::Cpu, block_bytes: 1 << 20, threads: 2, ..key };
        assert!(measure(&order, &key, &Device::Host, Err("")).error.unwrap().contains("--file-size"));
    }
}
