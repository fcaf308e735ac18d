//! The path of a run's bytes from the storage to the target. For each hop it has the measured rate, and it marks the
//! hop that is at its ceiling.

use super::progress::{elapsed_ns, rate_now};
use crate::core::units::{self, NS_PER_S};
use crate::core::{CacheState, CeilingKind, Engine, Metric, NixlPlugin, ProcessUse, Target};
use crate::session::{Lane, State};

/// A hop limits the run if it reaches this share of its ceiling.
const LIMITS_FROM: f64 = 0.7;
/// If the device delivered less than this share of the loaded bytes, the storage was not the source of the load.
const LEAST_SOURCE: f64 = 0.05;
/// The times before and after a load that the readings of the device's counter include are at most one part of this
/// number of parts of the load.
const MOST_OUTSIDE: u64 = 4;
/// The time over which the rates of a running load are measured, in nanoseconds.
const WINDOW_NS: u64 = NS_PER_S;
/// Minimum load time for which the GPU's rate meter is used, in nanoseconds. The meter shows an average that includes
/// the time before the load.
const SHORTEST_METERED_NS: u64 = NS_PER_S;

/// A part of the machine through which bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// The storage device.
    Storage,
    /// The kernel's page cache.
    PageCache,
    /// Pinned staging buffers.
    PinnedMemory,
    /// Memory of a watched process.
    ProcessMemory,
    /// Host memory as the target.
    HostMemory,
    /// A GPU.
    Gpu,
}

impl Station {
    /// The name on the screens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::PageCache => "page cache",
            Self::PinnedMemory => "pinned memory",
            Self::ProcessMemory => "process memory",
            Self::HostMemory => "host memory",
            Self::Gpu => "GPU",
        }
    }
}

/// The link into a GPU whose meter NVML reads.
const PCIE: &str = "PCIe";

/// One hop of the path, from one station to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The station at the start of the hop.
    pub from: Station,
    /// The link whose own meter gave the rate, if one did.
    pub link: Option<&'static str>,
    /// Bytes per second; `None` if the rate was not measured.
    pub bytes_per_s: Option<f64>,
    /// The rate divided by the measured ceiling of the hop.
    pub share: Option<f64>,
    /// Whether the hop limits the run.
    pub limits: bool,
}

/// The path of the bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The hops from the storage to the target.
    pub hops: Vec<Hop>,
    /// The last station, which is the target.
    pub to: Station,
    /// The unknown part of the path.
    pub unknown: Option<&'static str>,
    /// Whether bytes are moving now.
    pub moves: bool,
}

impl Flow {
    /// A sentence about the bottleneck: `Limited by storage: 97 % of its ceiling.` `None` if no hop is at its
    /// ceiling.
    #[must_use]
    pub fn bottleneck(&self) -> Option<String> {
        let hop = self.hops.iter().find(|hop| hop.limits)?;
        Some(format!("Limited by {}: {} of its ceiling.", hop.from.name(), units::percent(hop.share?)))
    }

    /// Marks the hop with the highest share of its ceiling, if that share is high enough.
    fn mark(mut self) -> Self {
        let nearest = self.hops.iter().filter_map(|hop| hop.share).reduce(f64::max);
        if let Some(nearest) = nearest.filter(|share| *share >= LIMITS_FROM)
            && let Some(hop) = self.hops.iter_mut().find(|hop| hop.share == Some(nearest))
        {
            hop.limits = true;
        }
        self
    }
}

/// The path of a running or completed run. `None` before its clock starts. `None` also for workloads, because their
/// calls take different paths.
#[must_use]
pub fn of_run(state: &State, lane: &Lane, clock_ns: u64) -> Option<Flow> {
    let run = lane.result.as_deref().filter(|run| run.is_good());
    let start = lane.clock_ns?;
    let elapsed = elapsed_ns(lane, clock_ns).filter(|ns| *ns > 0)?;
    let end = start.saturating_add(elapsed);
    let moves = lane.is_running() && lane.loaded_ns.is_none();
    let from = if moves { start.max(end.saturating_sub(WINDOW_NS)) } else { start };
    let landed = match run {
        Some(run) => units::bytes_per_s(run.bytes, run.wall_ns),
        None => rate_now(lane),
    }?;
    let engine = run.and_then(|run| run.chosen_engine()).unwrap_or(&lane.engine);
    let counts = run.and_then(|run| run.route.as_ref());
    let direct = counts.is_some_and(|counts| counts.route.is_direct());
    let to = if lane.target == Target::Host { Station::HostMemory } else { Station::Gpu };
    let mut through = through(engine, direct, to)?;
    let disk = read_rate(state, from, end);
    // Only O_DIRECT and a direct route leave out a filled page cache. Without a meter the cache state decides.
    let past_cache = direct || *engine == Engine::Odirect;
    let from_storage =
        disk.map_or(past_cache || lane.cache != CacheState::Hot, |disk| past_cache || disk >= landed * LEAST_SOURCE);
    let into_gpu =
        if to == Station::Gpu && end - from >= SHORTEST_METERED_NS { pcie_rate(state, from, end) } else { None };
    let bound = |kind: CeilingKind, rate: Option<f64>| {
        let model = state.model_of(lane).map(|model| model.name.as_str());
        let of = state.ceilings.iter().filter(|c| c.kind == kind && c.bytes_per_s > 0.0);
        let fits = of.filter(|c| c.model.is_none() || c.model.as_deref() == model);
        Some(rate? / fits.map(|c| c.bytes_per_s).reduce(f64::min)?)
    };
    // Bytes that the storage did not give came from the page cache; without a meter the source of such reads is not known.
    if !from_storage && disk.is_some() && through.first() != Some(&Station::PageCache) {
        through.insert(0, Station::PageCache);
    }
    let mut hops = Vec::new();
    let mut add = |from, link, bytes_per_s, share| hops.push(Hop { from, link, bytes_per_s, share, limits: false });
    if from_storage {
        add(Station::Storage, None, disk.or(Some(landed)), bound(CeilingKind::DirectRead, disk.or(Some(landed))));
    }
    let last = through.last().copied();
    for station in through {
        let metered = into_gpu.filter(|_| Some(station) == last);
        let kind = if station == Station::PinnedMemory { CeilingKind::PinnedCopy } else { CeilingKind::CachedRead };
        // While the page cache is being filled, it is as fast as the storage, so its ceiling does not apply.
        let share = if kind == CeilingKind::CachedRead && from_storage { None } else { bound(kind, Some(landed)) };
        add(station, metered.map(|_| PCIE), metered.or(Some(landed)), share);
    }
    (!hops.is_empty()).then(|| Flow { hops, to, unknown: None, moves }.mark())
}

/// The stations between the storage and the target.
fn through(engine: &Engine, direct: bool, to: Station) -> Option<Vec<Station>> {
    let mut stations = match engine {
        Engine::Workload(_) | Engine::Auto => return None,
        _ if direct => Vec::new(),
        Engine::Mmap | Engine::Command(_) | Engine::Loader(_) => vec![Station::PageCache],
        Engine::Pread | Engine::Nixl(NixlPlugin::Posix) => vec![Station::PageCache, Station::PinnedMemory],
        _ => vec![Station::PinnedMemory],
    };
    if to != Station::Gpu {
        stations.retain(|station| *station != Station::PinnedMemory);
    }
    Some(stations)
}

/// Bytes per second that the model's device delivered between two times. `None` if its counter was not read often
/// enough: the readings may be a little before and after the load, but not so far that reads of another kind, such as
/// those of the verification, would change the rate.
fn read_rate(state: &State, from: u64, to: u64) -> Option<f64> {
    const SLACK_NS: u64 = NS_PER_S / 5;
    let near = from.saturating_sub(SLACK_NS)..=to.saturating_add(SLACK_NS);
    let mut start: Option<(u64, f64)> = None;
    let mut end: Option<(u64, f64)> = None;
    for (at, bytes) in state.series_between(Metric::DeviceReadBytes, None, near.clone()) {
        if !near.contains(&at) {
            continue;
        }
        if at <= from || start.is_none() {
            start = Some((at, bytes));
        }
        if end.is_none_or(|(end, _)| end < to) {
            end = Some((at, bytes));
        }
    }
    let ((first_at, first), (last_at, last)) = (start?, end?);
    let ns = last_at.checked_sub(first_at).filter(|ns| *ns >= NS_PER_S / 10)?;
    let outside = from.saturating_sub(first_at) + last_at.saturating_sub(to);
    if outside * MOST_OUTSIDE > to - from {
        return None;
    }
    // All bytes between these readings belong to the load.
    let span = (to - from).min(ns).max(1);
    (last >= first).then(|| (last - first) * NS_PER_S as f64 / span as f64)
}

/// The mean rate of the GPU's PCIe link in bytes per second. `None` if it was not read often enough.
fn pcie_rate(state: &State, from: u64, to: u64) -> Option<f64> {
    let read = state.series_between(Metric::PcieRxBytesPerS, None, from..=to);
    let values: Vec<f64> = read.filter(|(at, _)| (from..=to).contains(at)).map(|(_, rate)| rate).collect();
    (values.len() >= 5).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// How much of their capacity the hops of a process use, as shares: the storage, and the link into the GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// The rate of the reads over the measured rate of the storage, or the share of time in which the busiest disk was busy.
    pub storage: Option<f64>,
    /// The rate into the GPU over the measured rate of pinned copies.
    pub into_gpu: Option<f64>,
}

/// The path of the reads of a process, as far as its counters show it.
#[must_use]
pub fn of_process(process: &ProcessUse, into_gpu: Option<f64>, loaded: Loaded) -> Flow {
    let storage = process.storage_bytes_per_s;
    let calls = process.call_bytes_per_s;
    let hop = |from, link, bytes_per_s: Option<f64>, share: Option<f64>| {
        let share = share.filter(|_| bytes_per_s.is_some_and(|rate| rate > 1e6));
        Hop { from, link, bytes_per_s, share, limits: false }
    };
    let mut hops = vec![hop(Station::Storage, None, storage, loaded.storage)];
    // If read calls returned more bytes than the storage delivered, the rest was in the page cache.
    let cached = calls.unwrap_or(0.0) > storage.unwrap_or(0.0) * (1.0 + LEAST_SOURCE) + 1e6;
    // The counters do not distinguish the reads of a process that may read past the page cache and through it.
    let may_bypass =
        process.cufile.is_some() || !process.files_readable || process.files.iter().any(|file| file.direct);
    let may_cache = cached || !process.mapped.is_empty() || process.files.iter().any(|file| !file.direct);
    let is_mixed = may_bypass && may_cache;
    if cached && !is_mixed {
        hops.push(hop(Station::PageCache, None, calls, None));
    }
    if process.cuda {
        hops.push(hop(Station::ProcessMemory, into_gpu.map(|_| PCIE), into_gpu, loaded.into_gpu));
    }
    let moves = [storage, calls].into_iter().flatten().any(|rate| rate > 1e6);
    let to = if process.cuda { Station::Gpu } else { Station::ProcessMemory };
    Flow { hops, to, unknown: is_mixed.then_some("page cache not known"), moves }.mark()
}

/// The share of a measured ceiling of the session that a rate is; `None` if none of its kind was measured.
#[must_use]
pub fn share_of(state: &State, kind: CeilingKind, bytes_per_s: Option<f64>) -> Option<f64> {
    let of = state.ceilings.iter().filter(|ceiling| ceiling.kind == kind && ceiling.bytes_per_s > 0.0);
    Some(bytes_per_s? / of.map(|ceiling| ceiling.bytes_per_s).reduce(f64::max)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::OpenFile;
    use crate::session::recording::Reader;
    use crate::session::shipped;
    use std::path::Path;

    #[test]
    fn each_finished_load_of_a_recording_has_a_path_that_fits_its_engine() {
        let mut state = State::default();
        for event in Reader::from_bytes(Path::new("small"), shipped::SMALL.bytes()).unwrap() {
            state.reduce(&event.unwrap());
        }
        let mut seen = 0;
        for lane in state.lanes.iter().filter(|lane| lane.result.as_deref().is_some_and(|run| run.is_good())) {
            let Some(flow) = of_run(&state, lane, state.now_ns) else { continue };
            let stations: Vec<Station> = flow.hops.iter().map(|hop| hop.from).collect();
            match lane.engine {
                Engine::Odirect => assert_eq!(stations.last(), Some(&Station::PinnedMemory), "{:?}", lane.id),
                Engine::Mmap => assert_eq!(stations.last(), Some(&Station::PageCache), "{:?}", lane.id),
                _ => {}
            }
            match (lane.cache, &lane.engine) {
                (CacheState::Hot, Engine::Mmap | Engine::Pread) => {
                    assert_eq!(stations[0], Station::PageCache, "{:?}", lane.id)
                }
                (CacheState::Cold, _) | (_, Engine::Odirect) => {
                    assert_eq!(stations[0], Station::Storage, "{:?}", lane.id)
                }
                _ => {}
            }
            assert_eq!(flow.to, Station::Gpu);
            assert!(!flow.moves && flow.hops.iter().filter(|hop| hop.limits).count() <= 1);
            assert!(flow.hops.iter().all(|hop| hop.bytes_per_s.is_none_or(|rate| rate > 0.0)), "{flow:?}");
            seen += 1;
        }
        assert!(seen >= 10, "{seen} loads");
    }

    #[test]
    fn a_process_is_limited_by_a_hop_that_moves_bytes_near_its_capacity() {
        let process = |rate| ProcessUse { cuda: true, storage_bytes_per_s: Some(rate), ..ProcessUse::default() };
        let loaded = Loaded { storage: Some(0.98), into_gpu: Some(0.2) };
        let flow = of_process(&process(3e9), Some(3e9), loaded);
        assert_eq!(flow.hops.iter().map(|hop| hop.limits).collect::<Vec<_>>(), [true, false]);
        assert!(flow.moves);
        let idle = of_process(&process(0.0), None, loaded);
        assert!(!idle.moves && idle.hops.iter().all(|hop| !hop.limits), "a disk that others keep busy");
    }

    #[test]
    fn the_page_cache_is_a_station_only_if_all_reads_can_pass_it() {
        let file = |direct| OpenFile { path: "/m/a.gguf".to_owned(), direct, ..OpenFile::default() };
        let process = |calls, files: &[bool], cufile: Option<&str>| ProcessUse {
            storage_bytes_per_s: Some(1e9),
            call_bytes_per_s: Some(calls),
            files: files.iter().map(|direct| file(*direct)).collect(),
            files_readable: true,
            cufile: cufile.map(str::to_owned),
            ..ProcessUse::default()
        };
        let shown = |process: &ProcessUse| {
            let flow = of_process(process, None, Loaded::default());
            (flow.hops.iter().map(|hop| hop.from).collect::<Vec<_>>(), flow.unknown)
        };
        let (past, through) = (vec![Station::Storage], vec![Station::Storage, Station::PageCache]);
        let unknown = Some("page cache not known");
        assert_eq!(shown(&process(2e9, &[false], None)), (through, None));
        assert_eq!(shown(&process(1e9, &[true], None)), (past.clone(), None));
        assert_eq!(shown(&process(2e9, &[true, false], None)), (past.clone(), unknown));
        assert_eq!(shown(&process(1e9, &[true, false], None)), (past.clone(), unknown));
        assert_eq!(shown(&process(2e9, &[false], Some("libcufile.so.0"))), (past.clone(), unknown));
        let hidden = ProcessUse { files_readable: false, ..process(2e9, &[], None) };
        assert_eq!(shown(&hidden), (past, unknown));
    }

    #[test]
    fn the_hop_nearest_to_its_ceiling_limits_the_run_and_none_does_far_below() {
        let hop = |from, share| Hop { from, link: None, bytes_per_s: Some(1e9), share, limits: false };
        let flow = |a, b| {
            let hops = vec![hop(Station::Storage, a), hop(Station::PinnedMemory, b)];
            Flow { hops, to: Station::Gpu, unknown: None, moves: false }.mark()
        };
        assert_eq!(flow(Some(0.97), Some(0.2)).bottleneck().unwrap(), "Limited by storage: 97 % of its ceiling.");
        assert!(flow(Some(0.75), Some(0.8)).hops[1].limits);
        assert_eq!(flow(Some(0.5), None).bottleneck(), None);
    }
}
