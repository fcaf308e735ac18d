//! Workloads in reports: rates and latencies, hits, files and registrations, layers, and the conditions of the direct way, as tables for every form.

use super::words::unnamed_library;
use crate::domain::{RouteCounts, RunResult, WorkloadResult, units};
use crate::session::State;

/// Layers of a lane beyond which only some are shown; `layers.csv` and the JSON have all.
const MOST_LAYERS: usize = 12;

/// A table before it has a form.
#[derive(Debug)]
pub struct Table {
    /// Its title.
    pub title: &'static str,
    /// What it shows, in a sentence.
    pub says: String,
    /// Heads of the columns.
    pub head: Vec<&'static str>,
    /// Which columns are numbers.
    pub right: Vec<bool>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

/// Runs of workloads that went well.
pub(super) fn runs(state: &State) -> impl Iterator<Item = (&RunResult, &WorkloadResult)> {
    state
        .lanes
        .iter()
        .filter_map(|lane| lane.result.as_deref())
        .filter(|r| r.error.is_none())
        .filter_map(|r| Some((r, r.workload.as_ref()?)))
}

/// Whether a workload ran.
pub(super) fn any(state: &State) -> bool {
    runs(state).next().is_some()
}

/// The tables of a session with a workload; none otherwise.
#[must_use]
pub fn tables(state: &State) -> Vec<Table> {
    if !any(state) {
        return Vec::new();
    }
    [
        Some(transfers(state)),
        Some(use_of_cache(state)),
        files(state),
        fallbacks(state),
        layers(state),
        Some(conditions(state)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn gap(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn percent(fraction: Option<f64>) -> String {
    gap(fraction.map(|f| format!("{:.0} %", f * 100.0)))
}

fn name(run: &RunResult) -> String {
    let several = if run.repeat > 0 { format!(" #{}", run.repeat + 1) } else { String::new() };
    format!("{} {}{several}", run.engine, run.cache)
}

/// Columns: the first is text, the others are numbers.
fn numbers(columns: usize) -> Vec<bool> {
    std::iter::once(false).chain(std::iter::repeat_n(true, columns.saturating_sub(1))).collect()
}

/// What LMCache calls read throughput and read latency, for every lane side by side.
fn transfers(state: &State) -> Table {
    let rows = runs(state).map(|(r, w)| {
        let latency =
            |of: fn(&crate::domain::Percentiles) -> u64| gap(w.latency_ns.as_ref().map(|l| units::duration(of(l))));
        vec![
            name(r),
            gap(w.busy_bytes_per_s.map(units::rate)),
            latency(|l| l.p50),
            latency(|l| l.p90),
            latency(|l| l.p99),
            latency(|l| l.max),
            units::count(w.operations),
            units::bytes(w.operation_bytes),
        ]
    });
    let head = vec!["lane", "rate", "p50", "p90", "p99", "max", "transfers", "largest"];
    Table {
        title: "Transfers of the KV cache",
        says: "The rate is that of the time in which transfers were under way. Latency is that of one transfer, opening and registering included where it \
               has to."
            .to_owned(),
        right: numbers(head.len()),
        head,
        rows: rows.collect(),
    }
}

/// What it calls hit rate and DMA utilization, and what computing hides.
fn use_of_cache(state: &State) -> Table {
    let rows = runs(state).map(|(r, w)| {
        vec![
            name(r),
            units::duration(r.wall_ns),
            percent(w.hit_rate_fraction),
            gap(w.lookups.zip(w.hits).map(|(all, hits)| format!("{hits} of {all}"))),
            gap(w.lookup_ns.map(units::duration)),
            percent(w.hidden_fraction),
            percent(w.busy_fraction),
            gap(r.cpu_ns.filter(|_| r.wall_ns > 0).map(|ns| format!("{:.2}", ns as f64 / r.wall_ns as f64))),
            gap(r.pinned_peak_bytes.map(units::bytes)),
        ]
    });
    let head = vec!["lane", "time", "hit rate", "found", "lookups", "hidden", "busy", "CPUs", "pinned"];
    Table {
        title: "Hits, hiding and what it takes",
        says: "Hidden is the share of the loading that computing did not wait for; busy the share of the time with transfers under way; CPUs the CPU time over \
               the time."
            .to_owned(),
        right: numbers(head.len()),
        head,
        rows: rows.collect(),
    }
}

fn files(state: &State) -> Option<Table> {
    // Only a store with a limit loses chunks.
    let limited = runs(state).any(|(_, w)| w.evicted_chunks.is_some());
    let mut head = vec!["lane", "limit", "reused", "opened", "closed", "most", "files reg.", "buffers reg."];
    head.extend(limited.then_some("evicted"));
    let rows: Vec<Vec<String>> = runs(state)
        .filter(|(_, w)| w.handle_cache.is_some())
        .map(|(r, w)| {
            let of = |of: fn(&crate::domain::HandleCacheCounts) -> u64| {
                gap(w.handle_cache.as_ref().map(|h| units::count(of(h))))
            };
            let mut row = vec![
                name(r),
                of(|h| h.limit),
                of(|h| h.hits),
                of(|h| h.misses),
                of(|h| h.evictions),
                of(|h| h.peak),
                units::count(w.handle_registrations),
                units::count(w.buffer_registrations),
            ];
            row.extend(limited.then(|| gap(w.evicted_chunks.map(units::count))));
            row
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Files, handles and registrations",
        says: format!(
            "Handles: the limit of the cache, reused from it, opened, closed because unused and over the limit, and most open at once; registrations of \
             files and buffers with cuFile{}.",
            if limited { "; chunks that went (evicted) because the store was full" } else { "" }
        ),
        right: numbers(head.len()),
        head,
        rows,
    })
}

fn fallbacks(state: &State) -> Option<Table> {
    let mut told: Vec<&str> = Vec::new();
    let rows: Vec<Vec<String>> = runs(state)
        .flat_map(|(r, w)| w.fallbacks.iter().map(move |f| (r, f)))
        .map(|(r, f)| {
            let before = told.contains(&f.detail.as_str());
            told.push(&f.detail);
            let detail = if before { "the same as above".to_owned() } else { f.detail.clone() };
            vec![name(r), f.reason.to_string(), units::count(f.operations), detail]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Fall-backs to staging",
        says: "Transfers that were asked of cuFile and made by plain reads or writes through pinned buffers."
            .to_owned(),
        head: vec!["lane", "reason", "transfers", "the first"],
        right: vec![false, false, true, false],
        rows,
    })
}

fn layers(state: &State) -> Option<Table> {
    let mut rows = Vec::new();
    for (r, w) in runs(state).filter(|(_, w)| !w.layers.is_empty()) {
        let step = w.layers.len().div_ceil(MOST_LAYERS).max(1);
        for (number, layer) in w.layers.iter().enumerate().step_by(step) {
            rows.push(vec![
                name(r),
                number.to_string(),
                units::duration(layer.load_ns),
                units::duration(layer.compute_ns),
                units::duration(layer.wait_ns),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "Layers: loading against simulated computing",
        says: format!("Every so many layers, at most {MOST_LAYERS} of a lane. Computing is simulated: it sleeps for the time that was set."),
        head: vec!["lane", "layer", "load", "compute (simulated)", "waited"],
        right: vec![false, true, true, true, true],
        rows,
    })
}

/// The conditions that guides for KV caches on GDS list, as far as this session knows them.
fn conditions(state: &State) -> Table {
    let machine = state.machine.as_ref();
    let unknown = || ("?", "the machine was not looked at".to_owned());
    let mark = |met: bool| if met { "✔" } else { "✖" };
    let driver = machine.map_or_else(unknown, |m| match m.nvidia_fs.as_ref() {
        Some(seen) => ("✔", format!("nvidia-fs {}", seen.version.as_deref().unwrap_or("of unknown version"))),
        None => ("✖", "nvidia-fs is not loaded; P2PDMA may serve instead, which the route tells".to_owned()),
    });
    let library = machine.map_or_else(unknown, |m| match m.libcufile.as_ref() {
        Some(seen) => {
            ("✔", format!("libcufile {} ({})", seen.version.as_deref().unwrap_or("of unknown version"), seen.path))
        }
        None => {
            let (met, said) = unnamed_library(state);
            (met.map_or("?", mark), said.to_owned())
        }
    });
    let cuda = machine.map_or_else(unknown, |m| match m.cuda.as_deref() {
        Some(version) => {
            let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
            let known = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
            (mark(known >= (11, 4)), format!("CUDA {version}"))
        }
        None => ("✖", "no CUDA driver answers".to_owned()),
    });
    let mut routes: Vec<String> = runs(state)
        .filter_map(|(r, _)| Some((r, r.route.as_ref()?)))
        .map(|(r, route)| {
            let proof = if route.proven { "proven" } else { "not proven" };
            let mixed = match route.posix_reads {
                Some(reads) if reads > 0 && route.route.is_direct() => {
                    format!(", {} by POSIX", units::plural(reads, "read"))
                }
                _ => String::new(),
            };
            format!("{}: {} ({proof}{mixed})", r.engine, route.route)
        })
        .collect();
    // Repeats say the same again.
    let mut seen = std::collections::BTreeSet::new();
    routes.retain(|told| seen.insert(told.clone()));
    let direct = runs(state).filter_map(|(r, _)| r.route.as_ref()).any(RouteCounts::straight);
    let route = match routes.is_empty() {
        true => ("✖", "no lane used cuFile".to_owned()),
        false => (mark(direct), routes.join("; ")),
    };
    let rows = [
        ("GDS driver", driver),
        ("cuFile library", library),
        ("CUDA 11.4 or later", cuda),
        ("bytes went straight to the GPU", route),
    ];
    Table {
        title: "Conditions of the direct way",
        says: "What guides for KV caches on GDS ask for first; 'gds-top check DIR' examines each, and the disk, with remedies.".to_owned(),
        head: vec!["condition", "met", "found"],
        right: vec![false, false, false],
        rows: rows.into_iter().map(|(what, (mark, found))| vec![what.to_owned(), mark.to_owned(), found]).collect(),
    }
}
