//! The open cuFile driver of a lane, and what its statistics say of the route.

use super::error::LoadError;
use super::settings::Chosen;
use crate::domain::{Route, RouteCounts, Setting, Target, units};
use cufile_ffi::{Driver, Library, OpenOptions, Search, Version, values};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The library and its open driver.
#[derive(Debug)]
pub struct CuFile {
    /// The open driver.
    pub driver: Driver,
    /// Time to find and load the library, in nanoseconds.
    pub library_ns: u64,
    /// Time of `cuFileDriverOpen`, in nanoseconds.
    pub driver_open_ns: u64,
    /// Bytes that the library gives to the kernel at once, where it tells.
    pub max_direct_io_bytes: Option<u64>,
    /// Whether this machine can have a direct route at all: nvidia-fs answers, or P2PDMA is on.
    pub direct_possible: bool,
    /// That size as a setting in KiB, with what chose it; `None` where the library does not tell it.
    pub(super) direct_io: Option<Chosen>,
    pub(super) host_target: bool,
    statistics: Result<(), String>,
}

const UNREAD: &str = "cuFile's statistics could not be read";

/// Counters of all GPUs together, at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadCounts {
    nvfs: u64,
    p2p: u64,
    posix: u64,
    /// Entries of batches by route (nvidia-fs, P2PDMA, POSIX), from level 1.
    batch: [u64; 3],
    /// All reads, from level 1, which host memory has too.
    all: u64,
    /// Reads that failed, alone or in batches.
    failed: u64,
    /// The library keeps counters, and did not give them this time: the others are no counts.
    unread: bool,
    /// Reads that the module nvidia-fs has counted for everybody, where it counts.
    module: Option<u64>,
}

impl ReadCounts {
    const UNREAD: Self =
        Self { nvfs: 0, p2p: 0, posix: 0, batch: [0; 3], all: 0, failed: 0, unread: true, module: None };

    /// Reads that failed since an earlier reading.
    pub(super) const fn failed_since(self, before: Self) -> u64 {
        self.failed.saturating_sub(before.failed)
    }
}

/// The libcufile that the user named by a path, made absolute for processes that work in another folder. A plain name is the loader's to find.
#[must_use]
pub fn named_libcufile() -> Option<PathBuf> {
    let named = std::env::var_os(cufile_ffi::ENV_LIBCUFILE).map(PathBuf::from)?;
    (named.components().count() > 1).then(|| std::path::absolute(named).ok()).flatten()
}

impl CuFile {
    /// The same with the driver closed and opened once more; both count as set-up. `between` runs while it is closed.
    pub(super) fn anew(self, between: impl FnOnce(&Library)) -> Result<Self, LoadError> {
        let (library, host_target) = (self.driver.library().clone(), self.host_target);
        let (library_ns, open_ns) = (self.library_ns, self.driver_open_ns);
        // Not asked again: in 1.18 asking for the flags of P2PDMA reads cufile.json once more, and what `between` set is gone (on an H200, and without a GPU).
        let direct_possible = self.direct_possible;
        drop(self);
        between(&library);
        let mut opened = Self::with_driver(&library, library_ns, host_target, |_| direct_possible)?;
        opened.driver_open_ns += open_ns;
        Ok(opened)
    }

    /// Finds the library (or takes the one named) and opens the driver.
    ///
    /// # Errors
    /// When there is no libcufile, it cannot serve the target, or it does not open; always a sentence.
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

    /// Counters now; all zero where the library keeps none.
    #[must_use]
    pub fn counts(&self) -> ReadCounts {
        // The module's are asked for where they can tell something that the library does not.
        let module = if self.direct_possible { super::nvfs_reads() } else { None };
        ReadCounts { module, ..self.own_counts() }
    }

    fn own_counts(&self) -> ReadCounts {
        let Ok(()) = &self.statistics else { return ReadCounts::default() };
        let Ok(stats) = self.driver.stats_l3() else { return ReadCounts::UNREAD };
        let basic = &stats.detailed.totals.basic;
        let batch = [basic.batch_nvfs_submit_ops.ok, basic.batch_p2p_submit_ops.ok, basic.batch_posix_processed_ops.ok];
        let all = basic.read_ops.ok + batch.iter().sum::<u64>();
        let failed = basic.read_ops.err + basic.batch_complete_ops.err;
        let mut counts = ReadCounts { all, batch, failed, ..ReadCounts::default() };
        for gpu in &stats.gpus {
            counts.nvfs += gpu.counters.n_nvfs_reads;
            counts.p2p += gpu.counters.n_p2p_reads;
            counts.posix += gpu.counters.n_posix_reads;
        }
        counts
    }

    /// Counters of writes now, as [`Self::counts`] gives those of reads.
    #[must_use]
    pub fn write_counts(&self) -> ReadCounts {
        let Ok(()) = &self.statistics else { return ReadCounts::default() };
        let Ok(stats) = self.driver.stats_l3() else { return ReadCounts::UNREAD };
        let all = stats.detailed.totals.basic.write_ops.ok;
        let mut counts = ReadCounts { all, ..ReadCounts::default() };
        for gpu in &stats.gpus {
            counts.nvfs += gpu.counters.n_nvfs_writes;
            counts.p2p += gpu.counters.n_p2p_writes;
            counts.posix += gpu.counters.n_posix_writes;
        }
        counts
    }

    /// The route of the reads between two readings of the counters.
    #[must_use]
    pub fn route(&self, before: ReadCounts, after: ReadCounts) -> RouteCounts {
        let unread = before.unread || after.unread;
        let module = after.module.zip(before.module).map(|(after, before)| after.saturating_sub(before));
        // What was counted before the first reading that came is not of these reads.
        let before = if unread { after } else { before };
        let mut told = [
            after.nvfs.saturating_sub(before.nvfs),
            after.p2p.saturating_sub(before.p2p),
            after.posix.saturating_sub(before.posix),
        ];
        let mut source = "cuFile level-3 statistics";
        if told == [0; 3] {
            // Whether level 3 counts the entries of batches depends on the library; level 1 has them by route.
            told = std::array::from_fn(|i| after.batch[i].saturating_sub(before.batch[i]));
            source = "cuFile level-1 statistics of batches";
        }
        let [nvfs, p2p, posix] = told;
        let all = after.all.saturating_sub(before.all);
        if self.host_target {
            return RouteCounts {
                route: Route::Compat,
                nvfs_reads: None,
                p2p_reads: None,
                posix_reads: None,
                source: format!(
                    "the target, host memory, which cuFile reaches by POSIX reads only ({})",
                    match &self.statistics {
                        Ok(()) if unread => UNREAD.to_owned(),
                        Ok(()) => format!("{} counted by level-1 statistics", units::plural(all, "read")),
                        Err(why) => why.clone(),
                    }
                ),
                proven: true,
            };
        }
        // A direct route is named where most reads took it; a tie is no proof of one.
        let route = match (nvfs, p2p, posix) {
            (0, 0, 0) => Route::None,
            (n, p, c) if n >= p && n > c => Route::Nvfs,
            (_, p, c) if p > c => Route::P2pdma,
            _ => Route::Compat,
        };
        if route != Route::None {
            let shares: Vec<String> = [("nvidia-fs", nvfs), ("P2PDMA", p2p), ("POSIX reads", posix)]
                .into_iter()
                .filter(|(_, reads)| *reads > 0)
                .map(|(way, reads)| format!("{} by {way}", units::count(reads)))
                .collect();
            // What went another way is told wherever the proof is.
            let source = if shares.len() > 1 { format!("{source}: {}", shares.join(", ")) } else { source.to_owned() };
            return RouteCounts {
                route,
                nvfs_reads: Some(nvfs),
                p2p_reads: Some(p2p),
                posix_reads: Some(posix),
                source,
                proven: true,
            };
        }
        let why = match &self.statistics {
            Err(why) => why.clone(),
            Ok(()) if unread => UNREAD.to_owned(),
            Ok(()) => "cuFile level-3 statistics counted no read of this GPU".to_owned(),
        };
        without_statistics(self.direct_possible, module, &why)
    }
}

/// The route where the library's statistics tell none: by what nvidia-fs counted meanwhile, which proves that route and no other; else inferred, or unknown.
fn without_statistics(direct_possible: bool, module: Option<u64>, why: &str) -> RouteCounts {
    let told = RouteCounts::without_libcufile;
    match (direct_possible, module) {
        (true, Some(reads @ 1..)) => told(
            Route::Nvfs,
            Some(reads),
            format!("{}, which counts everybody's reads; {why}", super::NVFS_STATS),
            true,
        ),
        (true, Some(0)) => told(
            Route::None,
            Some(0),
            format!("nvidia-fs counted no read meanwhile, so they went by P2PDMA or POSIX; {why}"),
            false,
        ),
        (true, None) => told(Route::None, None, why.to_owned(), false),
        (false, _) => {
            let source =
                format!("inferred: neither nvidia-fs nor P2PDMA is available to cuFile on this machine; {why}");
            told(Route::Compat, None, source, false)
        }
    }
}

/// The size as the open driver has it, in KiB.
pub(super) fn max_direct_io_kib(driver: &Driver) -> Option<u64> {
    let property = driver.properties().ok().map(|p| p.nvfs.max_direct_io_size).filter(|kib| *kib > 0);
    let parameter = || driver.library().size(values::PARAM_MAX_DIRECT_IO_SIZE_KB).ok().filter(|kib| *kib > 0);
    property.or_else(parameter).map(|kib| kib as u64)
}

/// The same as a setting that nobody made.
fn as_found(kib: u64) -> Chosen {
    Chosen::fixed(Setting::MaxDirectIoSizeKb, kib, "as libcufile has it, by cufile.json or by itself")
}

/// Whether any direct route exists for this driver: nvidia-fs has a version, or a P2P flag is set for some transport.
fn direct_possible(driver: &Driver) -> bool {
    let nvfs = driver.properties().is_ok_and(|p| p.nvfs.major_version > 0 || p.nvfs.minor_version > 0);
    let transports = 0..16;
    nvfs || transports.into_iter().any(|t| driver.library().p2p_flags(t).is_ok_and(|flags| flags != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_library_keeps_no_statistics_the_module_s_count_is_the_proof() {
        for (direct, module, route, proven, part) in [
            (true, Some(5), Route::Nvfs, true, "/proc/driver/nvidia-fs/stats"),
            (true, Some(0), Route::None, false, "counted no read"),
            (true, None, Route::None, false, "old"),
            (false, None, Route::Compat, false, "inferred"),
            (false, Some(3), Route::Compat, false, "inferred"),
        ] {
            let told = without_statistics(direct, module, "the library is too old");
            assert_eq!((told.route, told.proven), (route, proven), "{told:?}");
            assert!(told.source.contains(part) && told.source.contains("too old"), "{told:?}");
        }
    }
}
