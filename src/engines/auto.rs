//! `auto`: chooses the fastest engine for this model, machine and page cache state. The facts for the choice are
//! collected before the clock starts, so that the choice takes almost no time. The result contains the engine and the
//! reason.

use super::context::{EngineContext, Loaded};
use super::cufile::CuFile;
use super::error::LoadError;
use super::{files, gds_slab, odirect, pread};
use crate::core::{AutoChoice, AutoReason, CacheState, Engine, LaneOrder, Made, Route, Setting, Target};
use crate::device::{Device, DeviceMemory};
use cufile_ffi::FileHandle;
use std::path::Path;
use std::sync::Arc;

/// The cached share of the model from which buffered reads are faster. With a share r in the page cache, buffered
/// reads take (1 - r) / b + r / h seconds per gigabyte, and `O_DIRECT` reads take 1 / d. On the H200 machines of the
/// recordings, b is 1.7 GB/s, d is 3.0 and h is 49, so both are equal at r = 0.45.
const MOSTLY_CACHED: f64 = 0.45;

/// The facts on which the choice depends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Facts {
    /// The share of the model in the page cache, 0 to 1. `None` if it could not be read.
    resident: Option<f64>,
    cache: CacheState,
    /// The proven route of a test read before the clock. `None` if no route was proven.
    route: Option<Route>,
}

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let facts = Facts { resident: context.resident_before, cache: context.order.cache, route: context.proven_route };
    let shard = context.model().shards.first();
    let choice = choose(facts, || shard.is_some_and(|shard| files::open_shard(&shard.path, true).is_ok()));
    let mut loaded = match choice.engine {
        Engine::GdsSlab => gds_slab::load(context),
        Engine::Odirect => odirect::load(context),
        _ => pread::load(context),
    }?;
    loaded.auto_choice = Some(choice);
    Ok(loaded)
}

/// The chosen engine and the reason. Support for `O_DIRECT` is tested only if the choice depends on it, because the
/// test opens a file after the clock has started.
fn choose(facts: Facts, accepts_direct: impl Fn() -> bool) -> AutoChoice {
    let cached = match (facts.resident, facts.cache) {
        (Some(share), _) => share >= MOSTLY_CACHED,
        (None, cache) => cache != CacheState::Cold,
    };
    let (engine, reason) = match facts.route.filter(|route| route.is_direct()) {
        _ if cached => (Engine::Pread, AutoReason::Cached),
        Some(route) => (Engine::GdsSlab, AutoReason::DirectRoute(route)),
        None if accepts_direct() => (Engine::Odirect, AutoReason::NotCached),
        None => (Engine::Pread, AutoReason::NoDirectIo),
    };
    AutoChoice { engine, reason: Some(reason) }
}

/// Whether `auto` opens cuFile, which takes 0.1 to 0.5 s of set-up time. It does so only if a direct route to the GPU
/// is possible.
pub(super) fn wants_cufile(order: &LaneOrder) -> bool {
    if order.engine != Engine::Auto || order.target == Target::Host {
        return false;
    }
    match order.settings.get(Setting::Cufile) {
        Some(value) => value != 0,
        None => order.cache != CacheState::Hot && (Path::new("/proc/driver/nvidia-fs/version").exists() || p2pdma()),
    }
}

/// Whether the kernel provides the memory of an NVIDIA device for P2PDMA (`pci_p2pdma`,
/// Documentation/ABI/testing/sysfs-bus-pci).
fn p2pdma() -> bool {
    std::fs::read_dir("/sys/bus/pci/drivers/nvidia")
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join("p2pmem").is_dir()))
}

/// Reads a page of the model with cuFile and returns its route from the statistics. `None` if no route is proven.
/// Call it before the clock starts.
pub(super) fn prove_route(cufile: &CuFile, device: &Device, order: &LaneOrder) -> Option<Route> {
    let shard = order.model.shards.first()?;
    let file = files::open_shard(&shard.path, true).ok()?;
    let handle = FileHandle::register(&cufile.driver, file).ok()?;
    let memory = Arc::new(DeviceMemory::allocate(device, 64 << 10).ok()?);
    let before = cufile.counts();
    let bytes = handle.read_at(&memory, 0, super::blocks::PAGE.min(shard.file_bytes) as usize, 0).ok()?;
    let counts = cufile.route(before, cufile.counts(), &Made::exactly(1, bytes as u64));
    counts.proven.then_some(counts.route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn facts(resident: Option<f64>, cache: CacheState) -> Facts {
        Facts { resident, cache, route: None }
    }

    #[test]
    fn what_is_cached_is_read_through_the_cache_and_what_is_not_is_not() {
        for (resident, cache, engine) in [
            (Some(1.0), CacheState::Hot, Engine::Pread),
            (Some(0.0), CacheState::Cold, Engine::Odirect),
            // The measured share overrides the requested state, because the page cache could not be dropped.
            (Some(0.9), CacheState::Cold, Engine::Pread),
            (Some(0.2), CacheState::Hot, Engine::Odirect),
            (Some(0.44), CacheState::AsIs, Engine::Odirect),
            (Some(0.46), CacheState::AsIs, Engine::Pread),
            (None, CacheState::Cold, Engine::Odirect),
            (None, CacheState::Hot, Engine::Pread),
        ] {
            let reason = if engine == Engine::Pread { AutoReason::Cached } else { AutoReason::NotCached };
            let chosen = choose(facts(resident, cache), || true);
            assert_eq!(chosen, AutoChoice { engine, reason: Some(reason) }, "{resident:?} {cache}");
        }
    }

    #[test]
    fn cufile_is_taken_only_on_a_direct_route_that_was_proven() {
        for (route, engine) in [
            (Some(Route::Nvfs), Engine::GdsSlab),
            (Some(Route::P2pdma), Engine::GdsSlab),
            (Some(Route::Compat), Engine::Odirect),
            (Some(Route::None), Engine::Odirect),
            (None, Engine::Odirect),
        ] {
            let cold = Facts { route, ..facts(Some(0.0), CacheState::Cold) };
            assert_eq!(choose(cold, || true).engine, engine, "{route:?}");
            let hot = Facts { route, ..facts(Some(1.0), CacheState::Hot) };
            let asked = Cell::new(false);
            let asks = || {
                asked.set(true);
                true
            };
            assert_eq!(choose(hot, asks).engine, Engine::Pread);
            assert!(!asked.get(), "a file was opened for nothing");
        }
    }

    #[test]
    fn without_direct_reads_the_page_cache_is_what_is_left() {
        let chosen = choose(facts(Some(0.0), CacheState::Cold), || false);
        assert_eq!((chosen.engine, chosen.reason), (Engine::Pread, Some(AutoReason::NoDirectIo)));
    }
}
