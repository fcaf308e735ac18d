//! The open cuFile driver of a run, and the route according to its statistics.

use super::error::LoadError;
use super::settings::Chosen;
use crate::core::{Access, Counted, Made, Route, RouteCounts, Setting, Target, units};
use cufile_ffi::{Driver, Library, OpenOptions, Search, Version, values};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The library and its open driver.
#[derive(Debug)]
pub struct CuFile {
    /// The open driver handle.
    pub driver: Driver,
    /// The time to find and load the library, in nanoseconds.
    pub library_ns: u64,
    /// The time of `cuFileDriverOpen`, in nanoseconds.
    pub driver_open_ns: u64,
    /// The largest request that the library passes to the kernel, in bytes. `None` if it does not report it.
    pub max_direct_io_bytes: Option<u64>,
    /// Whether a direct route is possible on this machine: nvidia-fs responds, or P2PDMA is on.
    pub direct_possible: bool,
    /// The same size as a setting in KiB, with its reason. `None` if the library does not report it.
    pub(super) direct_io: Option<Chosen>,
    pub(super) host_target: bool,
    statistics: Result<(), String>,
}

/// Level 3 has at most this many GPUs.
const MOST_GPUS: usize = 16;
const UNREAD: &str = "cuFile's statistics could not be read";

/// The sums of the counters of all GPUs at one time.
#[derive(Clone, Copy, Debug)]
pub struct TransferCounts {
    access: Access,
    /// Level-3 counts of transfers with nvidia-fs, P2PDMA and POSIX calls.
    by_route: [u64; 3],
    /// The level-3 count of bytes.
    bytes: u64,
    /// Transfers of level 3 by GPU.
    by_gpu: [u64; MOST_GPUS],
    /// Level-1 counts of batch entries on the same routes, and of their bytes.
    batch: [u64; 3],
    batch_bytes: u64,
    /// Level-1 counts of transfers outside of batches and of their bytes. They include host memory.
    alone: u64,
    alone_bytes: u64,
    /// The number of failed reads, inside and outside of batches.
    failed: u64,
    /// The library has counters, but they could not be read this time. The other fields are invalid.
    unread: bool,
    /// The reads of all processes that nvidia-fs has counted. `None` if it does not count.
    module: Option<u64>,
}

impl TransferCounts {
    const fn none(access: Access) -> Self {
        Self {
            access,
            by_route: [0; 3],
            bytes: 0,
            by_gpu: [0; MOST_GPUS],
            batch: [0; 3],
            batch_bytes: 0,
            alone: 0,
            alone_bytes: 0,
            failed: 0,
            unread: false,
            module: None,
        }
    }

    /// Adds the counters of a GPU. A library can have any numbers in them.
    fn add(&mut self, gpu: usize, by_route: [u64; 3], bytes: u64) {
        for (sum, more) in self.by_route.iter_mut().zip(by_route) {
            *sum = sum.saturating_add(more);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(of_gpu) = self.by_gpu.get_mut(gpu) {
            *of_gpu = by_route.iter().fold(0, |sum, more| sum.saturating_add(*more));
        }
    }

    /// The number of reads that failed since an earlier reading.
    pub(super) const fn failed_since(self, before: Self) -> u64 {
        self.failed.saturating_sub(before.failed)
    }

    /// The transfers since an earlier reading, from level 3. If level 3 counted nothing, they are the batch entries
    /// of level 1.
    fn since(self, before: Self) -> (Counted, &'static str) {
        let difference = |of: fn(&Self) -> [u64; 3]| {
            let (after, before) = (of(&self), of(&before));
            std::array::from_fn(|i| after[i].saturating_sub(before[i]))
        };
        let batch: [u64; 3] = difference(|counts| counts.batch);
        let batch_bytes = self.batch_bytes.saturating_sub(before.batch_bytes);
        let mut counted = Counted {
            access: self.access,
            by_route: difference(|counts| counts.by_route),
            bytes: self.bytes.saturating_sub(before.bytes),
            all: batch.iter().fold(self.alone.saturating_sub(before.alone), |all, more| all.saturating_add(*more)),
            all_bytes: self.alone_bytes.saturating_sub(before.alone_bytes).saturating_add(batch_bytes),
            nvidia_fs_loaded: super::nvfs::is_loaded(),
            // nvidia-fs may count the entries of batches in another line.
            nvidia_fs_reads: self
                .module
                .filter(|_| batch == [0; 3])
                .zip(before.module)
                .map(|(after, before)| after.saturating_sub(before)),
            gpus: Some(self.by_gpu.iter().zip(&before.by_gpu).filter(|(after, before)| after > before).count()),
        };
        if counted.by_route != [0; 3] {
            return (counted, "cuFile level-3 statistics");
        }
        // Some versions of the library do not count batch entries at level 3. Level 1 counts them by route.
        (counted.by_route, counted.bytes) = (batch, batch_bytes);
        (counted, "cuFile level-1 statistics of batches")
    }
}

/// The path of libcufile that the user named, made absolute for processes with another working directory. A name
/// without a slash is left to the loader.
#[must_use]
pub fn named_libcufile() -> Option<PathBuf> {
    let named = std::env::var_os(cufile_ffi::ENV_LIBCUFILE).map(PathBuf::from)?;
    (named.components().count() > 1).then(|| std::path::absolute(named).ok()).flatten()
}

impl CuFile {
    /// Closes and reopens the driver. Both opens are part of the set-up time. `between` runs while the driver is
    /// closed.
    pub(super) fn read_again(self, between: impl FnOnce(&Library)) -> Result<Self, LoadError> {
        let (library, host_target) = (self.driver.library().clone(), self.host_target);
        let (library_ns, open_ns) = (self.library_ns, self.driver_open_ns);
        // The P2PDMA flags are not read again. In 1.18 that would read cufile.json again and discard the values that
        // `between` set (seen on an H200, and without a GPU).
        let direct_possible = self.direct_possible;
        drop(self);
        between(&library);
        let mut opened = Self::with_driver(&library, library_ns, host_target, |_| direct_possible)?;
        opened.driver_open_ns += open_ns;
        Ok(opened)
    }

    /// Finds the library (or uses the named one) and opens the driver.
    ///
    /// # Errors
    /// A sentence if there is no libcufile, if it does not support the target, or if it does not open.
    pub fn open_for(library: Option<&Path>, target: &Target) -> Result<Self, LoadError> {
        let start = Instant::now();
        let library = match library {
            Some(path) => Library::open(&Search::only(path)),
            None => Library::find(),
        }
        .map_err(|e| LoadError::CuFile(e.to_string()))?;
        let library_ns = start.elapsed().as_nanos() as u64;
        let host_target = *target == Target::Host;
        if host_target && library.version().is_none_or(|v| v < Version::new(1, 16)) {
            let version = library.version().map_or_else(|| "an unknown version".to_owned(), |v| v.to_string());
            return Err(LoadError::CuFile(format!(
                "cuFile reads into host memory need libcufile 1.16 or later, and {} is {version}",
                library.path().map_or_else(|| library.name().to_owned(), |p| p.display().to_string())
            )));
        }
        Self::with_driver(&library, library_ns, host_target, |driver| !host_target && direct_possible(driver))
    }

    fn with_driver(
        library: &Library,
        library_ns: u64,
        host_target: bool,
        direct_possible: impl FnOnce(&Driver) -> bool,
    ) -> Result<Self, LoadError> {
        let driver = Driver::open(library, &OpenOptions::default()).map_err(|e| LoadError::CuFile(e.to_string()))?;
        let statistics = library
            .set_stats_level(3)
            .and_then(|()| driver.stats_start())
            .map_err(|e| format!("cuFile statistics are not available: {e}"));
        let direct_io = max_direct_io_kib(&driver);
        Ok(Self {
            library_ns,
            driver_open_ns: driver.opening().as_nanos() as u64,
            direct_possible: direct_possible(&driver),
            driver,
            max_direct_io_bytes: direct_io.map(|kib| kib.saturating_mul(units::KIB)),
            direct_io: direct_io.map(as_found),
            host_target,
            statistics,
        })
    }

    /// The current counters of reads. All are zero if the library has no counters.
    #[must_use]
    pub fn counts(&self) -> TransferCounts {
        self.counts_of(Access::Read)
    }

    /// The current counters of transfers in one direction. All are zero if the library has no counters.
    #[must_use]
    pub fn counts_of(&self, access: Access) -> TransferCounts {
        let mut counts = TransferCounts::none(access);
        // The counter of nvidia-fs is read only if it can show something that the library does not count.
        if self.direct_possible && access == Access::Read {
            counts.module = super::nvfs::nvfs_reads();
        }
        if self.statistics.is_err() {
            return counts;
        }
        let Ok(stats) = self.driver.stats_l3() else { return TransferCounts { unread: true, ..counts } };
        let basic = &stats.detailed.totals.basic;
        let gpus = || stats.gpus.iter().map(|gpu| &gpu.counters);
        match access {
            Access::Read => {
                counts.batch =
                    [basic.batch_nvfs_submit_ops.ok, basic.batch_p2p_submit_ops.ok, basic.batch_posix_processed_ops.ok];
                counts.batch_bytes = basic.batch_read_bytes;
                (counts.alone, counts.alone_bytes) = (basic.read_ops.ok, basic.read_bytes);
                counts.failed = basic.read_ops.err.saturating_add(basic.batch_complete_ops.err);
                for (at, gpu) in gpus().enumerate() {
                    counts.add(at, [gpu.n_nvfs_reads, gpu.n_p2p_reads, gpu.n_posix_reads], gpu.read_bytes);
                }
            }
            Access::Write => {
                (counts.alone, counts.alone_bytes) = (basic.write_ops.ok, basic.write_bytes);
                for (at, gpu) in gpus().enumerate() {
                    counts.add(at, [gpu.n_nvfs_writes, gpu.n_p2p_writes, gpu.n_posix_writes], gpu.writes_bytes);
                }
            }
        }
        counts
    }

    /// The route of the transfers between two readings of the counters. It is proven only if they have exactly the
    /// transfers that were made.
    #[must_use]
    pub fn route(&self, before: TransferCounts, after: TransferCounts, made: &Made) -> RouteCounts {
        let unread = before.unread || after.unread;
        let module = after.module.zip(before.module).map(|(after, before)| after.saturating_sub(before));
        // If the first reading failed, earlier counts are unknown and belong to other transfers.
        let (counted, source) = after.since(if unread { after } else { before });
        let name = after.access.name();
        if self.host_target {
            return RouteCounts {
                route: Route::Compat,
                nvfs_reads: None,
                p2p_reads: None,
                posix_reads: None,
                source: format!(
                    "the target is host memory, for which cuFile uses only POSIX {name}s ({})",
                    match &self.statistics {
                        Ok(()) if unread => UNREAD.to_owned(),
                        Ok(()) => format!("{} counted by level-1 statistics", units::plural(counted.all, name)),
                        Err(why) => why.clone(),
                    }
                ),
                proven: true,
            };
        }
        if let Some(route) = counted.route(made, source) {
            return route;
        }
        let why = match &self.statistics {
            Err(why) => why.clone(),
            Ok(()) if unread => UNREAD.to_owned(),
            Ok(()) => format!("cuFile level-3 statistics counted no {name} of this GPU"),
        };
        without_statistics(self.direct_possible, module, &why)
    }
}

/// The route if the library's statistics do not show it: unknown, or inferred from the counters of nvidia-fs. Those
/// include all processes, so they prove nothing.
fn without_statistics(direct_possible: bool, module: Option<u64>, why: &str) -> RouteCounts {
    let route_counts = RouteCounts::without_libcufile;
    match (direct_possible, module) {
        (true, Some(reads @ 1..)) => route_counts(
            Route::Nvfs,
            Some(reads),
            format!(
                "inferred: {} counted {} of all processes during the run; {why}",
                crate::core::NVFS_STATS,
                units::plural(reads, "read")
            ),
            false,
        ),
        (true, Some(0)) => route_counts(
            Route::None,
            Some(0),
            format!("nvidia-fs counted no read during the run, so P2PDMA or POSIX was used; {why}"),
            false,
        ),
        (true, None) => route_counts(Route::None, None, why.to_owned(), false),
        (false, _) => {
            let source =
                format!("inferred: neither nvidia-fs nor P2PDMA is available to cuFile on this machine; {why}");
            route_counts(Route::Compat, None, source, false)
        }
    }
}

/// The size in the open driver, in KiB. `None` if the driver does not report it.
pub(super) fn max_direct_io_kib(driver: &Driver) -> Option<u64> {
    let property = driver.properties().ok().map(|p| p.nvfs.max_direct_io_size).filter(|kib| *kib > 0);
    let parameter = || driver.library().size(values::PARAM_MAX_DIRECT_IO_SIZE_KB).ok().filter(|kib| *kib > 0);
    property.or_else(parameter).map(|kib| kib as u64)
}

/// The size as a setting that the user did not set.
fn as_found(kib: u64) -> Chosen {
    Chosen::fixed(Setting::MaxDirectIoSizeKb, kib, "the value of libcufile: from cufile.json, or its default")
}

/// Whether a direct route is possible with this driver: nvidia-fs has a version, or the P2P flag is set for a
/// transport.
fn direct_possible(driver: &Driver) -> bool {
    let nvfs = driver.properties().is_ok_and(|p| p.nvfs.major_version > 0 || p.nvfs.minor_version > 0);
    let transports = 0..16;
    nvfs || transports.into_iter().any(|t| driver.library().p2p_flags(t).is_ok_and(|flags| flags != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_count_of_all_processes_is_no_proof() {
        for (direct, module, route, proven, part) in [
            (true, Some(5), Route::Nvfs, false, "/proc/driver/nvidia-fs/stats"),
            (true, Some(0), Route::None, false, "counted no read"),
            (true, None, Route::None, false, "old"),
            (false, None, Route::Compat, false, "inferred"),
            (false, Some(3), Route::Compat, false, "inferred"),
        ] {
            let route_counts = without_statistics(direct, module, "the library is too old");
            assert_eq!((route_counts.route, route_counts.proven), (route, proven), "{route_counts:?}");
            assert!(route_counts.source.contains(part) && route_counts.source.contains("too old"), "{route_counts:?}");
        }
    }
}
