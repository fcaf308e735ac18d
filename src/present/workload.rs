//! Results of KV-cache workloads: rates, latencies, hits, files, registrations, fallbacks and layers, and the
//! conditions of a direct route.

use super::labels::{engine_in, proof};
use super::machine::unnamed_library;
use super::view::{Head, Table, number, or_gap, text};
use crate::core::{HandleCacheCounts, Percentiles, RouteCounts, RunResult, WorkloadResult, units};
use crate::session::State;

/// Maximum number of layers of a run that are shown. `layers.csv` and the JSON report contain all layers.
const MOST_LAYERS: usize = 12;

/// The successful runs of workloads.
pub fn runs(state: &State) -> impl Iterator<Item = (&RunResult, &WorkloadResult)> {
    state
        .lanes
        .iter()
        .filter_map(|lane| lane.result.as_deref())
        .filter(|run| run.error.is_none())
        .filter_map(|run| Some((run, run.workload.as_ref()?)))
}

/// The successful runs that the tables show: of the repeats of a run, the one with the median time, the smaller of two.
/// The JSON and CSV reports contain all.
pub fn shown(state: &State) -> impl Iterator<Item = (&RunResult, &WorkloadResult)> {
    let mut groups: Vec<Vec<(&RunResult, &WorkloadResult)>> = Vec::new();
    for run in runs(state) {
        let same = |group: &&mut Vec<(&RunResult, &WorkloadResult)>| {
            group.first().is_some_and(|first| (&first.0.engine, first.0.cache) == (&run.0.engine, run.0.cache))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.into_iter().filter_map(|mut group| {
        group.sort_by_key(|(run, _)| run.wall_ns);
        group.get(group.len().saturating_sub(1) / 2).copied()
    })
}

/// Whether the session contains a workload run.
#[must_use]
pub fn any(state: &State) -> bool {
    runs(state).next().is_some()
}

/// The tables about workloads. Empty if the session contains no workload.
///
/// `brief` omits those about hits, files, layers and conditions.
#[must_use]
pub fn tables(state: &State, brief: bool) -> Vec<Table> {
    if !any(state) {
        return Vec::new();
    }
    let details = |table: fn(&State) -> Option<Table>| if brief { None } else { table(state) };
    let all = [
        Some(transfers(state)),
        details(|state| Some(cache_use(state))),
        details(files),
        fallbacks(state),
        lost(state),
        first_token(state),
        details(layers),
        details(|state| Some(conditions(state))),
    ];
    all.into_iter().flatten().collect()
}

fn percent(fraction: Option<f64>) -> String {
    or_gap(fraction.map(units::percent))
}

/// The name of the repeats of a run, of which a table shows one.
fn name(run: &RunResult) -> String {
    format!("{} {}", run.engine, run.cache)
}

/// The name of one of several repeats.
fn numbered(run: &RunResult) -> String {
    format!("{} #{}", name(run), run.repeat.saturating_add(1))
}

/// Column titles. The first column is text, and the others are numbers.
fn heads(titles: &[&'static str]) -> Vec<Head> {
    titles.iter().enumerate().map(|(i, title)| if i == 0 { text(title) } else { number(title) }).collect()
}

/// The size of the store compared with host memory, which can hold it in the page cache. `None` if no run used files.
fn store_and_memory(state: &State) -> Option<String> {
    let on_disk = runs(state).any(|(run, _)| !run.engine.is_in_memory());
    let store = state.model.as_ref().map(|model| model.file_bytes()).filter(|bytes| on_disk && *bytes > 0)?;
    let memory = state.machine.as_ref().map(|machine| machine.memory_bytes).filter(|bytes| *bytes > 0)?;
    Some(against_memory(store, memory))
}

fn against_memory(store: u64, memory: u64) -> String {
    let sizes = format!("The store has {}, the host {} of memory", units::bytes(store), units::bytes(memory));
    match store < memory {
        true => format!(
            "{sizes}: the page cache can hold it, so a repeated read reaches the disk only with O_DIRECT or after the files were dropped from the page cache (cold)."
        ),
        false => format!("{sizes}: the page cache cannot hold it."),
    }
}

fn transfers(state: &State) -> Table {
    let rows = shown(state).map(|(run, w)| {
        let latency = |of: fn(&Percentiles) -> u64| or_gap(w.latency_ns.as_ref().map(|l| units::duration(of(l))));
        vec![
            name(run),
            or_gap(w.busy_bytes_per_s.map(units::rate)),
            latency(|l| l.p50),
            latency(|l| l.p90),
            latency(|l| l.p99),
            latency(|l| l.max),
            units::count(w.operations),
            units::bytes(w.operation_bytes),
        ]
    });
    let rows_are = "Each row is the run with the median time. The rate counts only the time in which transfers were in flight. A latency is the time of one transfer, with opening and registering if it needs them.";
    Table {
        title: "KV-cache transfers".to_owned(),
        note: store_and_memory(state).map_or_else(|| rows_are.to_owned(), |store| format!("{store} {rows_are}")),
        heads: heads(&["run", "rate", "p50", "p90", "p99", "max", "transfers", "largest"]),
        rows: rows.collect(),
    }
}

fn cache_use(state: &State) -> Table {
    let rows = shown(state).map(|(run, w)| {
        vec![
            name(run),
            units::duration(run.wall_ns),
            percent(w.hit_rate_fraction),
            or_gap(w.lookups.zip(w.hits).map(|(all, hits)| format!("{hits} of {all}"))),
            or_gap(w.lookup_ns.map(units::duration)),
            percent(w.hidden_fraction),
            percent(w.busy_fraction),
            or_gap(run.cpu_ns.filter(|_| run.wall_ns > 0).map(|ns| format!("{:.2}", ns as f64 / run.wall_ns as f64))),
            or_gap(run.pinned_peak_bytes.map(units::bytes)),
        ]
    });
    Table {
        title: "Hits, hidden loading and resources".to_owned(),
        note: "Hidden: the share of the loading that computing did not wait for. Busy: the share of the time with transfers in flight. CPUs: CPU time over time."
            .to_owned(),
        heads: heads(&["run", "time", "hit rate", "found", "lookups", "hidden", "busy", "CPUs", "pinned peak"]),
        rows: rows.collect(),
    }
}

fn files(state: &State) -> Option<Table> {
    // Chunks are only evicted if the store has a size limit.
    let limited = runs(state).any(|(_, w)| w.evicted_chunks.is_some());
    let mut heads = heads(&["run", "limit", "reused", "opened", "closed", "most", "files reg.", "buffers reg."]);
    heads.extend(limited.then(|| number("evicted")));
    let rows: Vec<Vec<String>> = shown(state)
        .filter(|(_, w)| w.handle_cache.is_some())
        .map(|(run, w)| {
            let of = |of: fn(&HandleCacheCounts) -> u64| or_gap(w.handle_cache.as_ref().map(|h| units::count(of(h))));
            let mut row = vec![
                name(run),
                of(|h| h.limit),
                of(|h| h.hits),
                of(|h| h.misses),
                of(|h| h.evictions),
                of(|h| h.peak),
                units::count(w.handle_registrations),
                units::count(w.buffer_registrations),
            ];
            row.extend(limited.then(|| or_gap(w.evicted_chunks.map(units::count))));
            row
        })
        .collect();
    let evicted = if limited { " Evicted: chunks removed because the store was full." } else { "" };
    (!rows.is_empty()).then(|| Table {
        title: "Files, handles and registrations".to_owned(),
        note: format!(
            "Handles: the limit of the cache, reused, opened, closed because of the limit, and the maximum of open ones. Registrations of files and buffers \
             with cuFile.{evicted}"
        ),
        heads,
        rows,
    })
}

fn fallbacks(state: &State) -> Option<Table> {
    let mut shown: Vec<&str> = Vec::new();
    let rows: Vec<Vec<String>> = runs(state)
        .flat_map(|(run, w)| w.fallbacks.iter().map(move |fallback| (run, fallback)))
        .map(|(run, fallback)| {
            let before = shown.contains(&fallback.detail.as_str());
            shown.push(&fallback.detail);
            let detail = if before { "as above".to_owned() } else { fallback.detail.clone() };
            let action = fallback.action.name().to_owned();
            let (transfers, files) = (units::count(fallback.operations), units::count(fallback.files));
            vec![numbered(run), fallback.reason.to_string(), action, transfers, files, detail]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Transfers that cuFile did not make".to_owned(),
        note: "Staged: made by plain reads or writes through pinned buffers, if possible a complete file at once. Dropped: the file was not stored. Ignored: the target keeps its old bytes. Files: those that cuFile could not open or register, with all their transfers."
            .to_owned(),
        heads: vec![text("run"), text("reason"), text("result"), number("transfers"), number("files"), text("first case")],
        rows,
    })
}

/// The table of lost bytes in runs that ignored the results of their transfers.
fn lost(state: &State) -> Option<Table> {
    let rows: Vec<Vec<String>> = runs(state)
        .filter_map(|(run, w)| Some((run, w.unchecked?)))
        .map(|(run, lost)| vec![numbered(run), units::count(lost.operations), units::bytes(lost.lost_bytes)])
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Results that were not checked".to_owned(),
        note: "With check_results=0 a run ignores the results of its transfers, as LMCache does. cuFile reported that the lost bytes were not moved.".to_owned(),
        heads: heads(&["run", "failed transfers", "lost"]),
        rows,
    })
}

/// The time to the first token with the cache, next to computing all tokens.
fn first_token(state: &State) -> Option<Table> {
    let rows: Vec<Vec<String>> = shown(state)
        .filter_map(|(run, w)| Some((run, w.recompute?)))
        .map(|(run, of)| {
            let saved = of.saved_s();
            let sign = if saved < 0.0 { "-" } else { "" };
            vec![
                name(run),
                format!("{} of {}", units::count(of.read_tokens), units::count(of.tokens)),
                units::duration(of.without_ns),
                units::duration(of.first_token_ns),
                format!("{sign}{}", units::duration((saved.abs() * 1e9) as u64)),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Time to the first token".to_owned(),
        note: "Computing is calculated: recompute_us for each token, one after another. Recompute: all tokens. With the cache: the measured read, and computing the tokens that were not found. The read is that of a run alone."
            .to_owned(),
        heads: heads(&["run", "tokens read", "recompute", "with the cache", "saved"]),
        rows,
    })
}

fn layers(state: &State) -> Option<Table> {
    let mut rows = Vec::new();
    for (run, w) in shown(state).filter(|(_, w)| !w.layers.is_empty()) {
        let step = w.layers.len().div_ceil(MOST_LAYERS).max(1);
        for (number, layer) in w.layers.iter().enumerate().step_by(step) {
            rows.push(vec![
                name(run),
                number.to_string(),
                units::duration(layer.load_ns),
                units::duration(layer.compute_ns),
                units::duration(layer.wait_ns),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "Layers: loading and simulated computing".to_owned(),
        note: format!("At most {MOST_LAYERS} layers of a run, evenly spaced. Computing is simulated by sleeping."),
        heads: heads(&["run", "layer", "load", "compute (simulated)", "waited"]),
        rows,
    })
}

/// The share of the loading time that computing hides in a read layer by layer: `93 % of the loading is hidden behind
/// computing`.
pub(super) fn hidden(result: &WorkloadResult) -> String {
    // The share is rounded down, so that 100 % means that all loading is hidden.
    result.hidden_fraction.map_or_else(
        || "how much of the loading is hidden was not measured".to_owned(),
        |hidden| format!("{} % of the loading is hidden behind computing", (hidden * 100.0).floor()),
    )
}

/// The explanation of the drawings of layers, of which the first `shown` of `all` are drawn.
#[must_use]
pub fn layers_legend(shown: usize, all: usize) -> Vec<String> {
    let mut text = vec![
        "Above: all loading and all computing. Below: a row for each layer. Computing is simulated. Waiting is drawn over it in the colour of warnings; \
         hover for values."
            .to_owned(),
    ];
    if all > shown {
        text.push(format!("{} more runs are in the tables.", all - shown));
    }
    text
}

/// The title of the drawing of a run's layers.
#[must_use]
pub fn layers_title(run: &RunResult, workload: &WorkloadResult) -> String {
    format!("{} #{}: {}", engine_in(&run.engine, run.cache, None), run.repeat.saturating_add(1), hidden(workload))
}

/// The conditions of guides for KV caches on GDS that this session can check.
fn conditions(state: &State) -> Table {
    let machine = state.machine.as_ref();
    let unknown = || ("?", "the machine was not examined".to_owned());
    let mark = |met: bool| if met { "✔" } else { "✖" };
    let driver = machine.map_or_else(unknown, |m| match m.nvidia_fs.as_ref() {
        Some(seen) => ("✔", format!("nvidia-fs {}", seen.version.as_deref().unwrap_or("of unknown version"))),
        None => ("✖", "nvidia-fs is not loaded; P2PDMA may be used instead, see the route".to_owned()),
    });
    let library = machine.map_or_else(unknown, |m| match m.libcufile.as_ref() {
        Some(seen) => {
            ("✔", format!("libcufile {} ({})", seen.version.as_deref().unwrap_or("of unknown version"), seen.path))
        }
        None => {
            let (met, words) = unnamed_library(state);
            (met.map_or("?", mark), words.to_owned())
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
        .filter_map(|(run, _)| Some((run, run.route.as_ref()?)))
        .map(|(run, route)| {
            let mixed = match route.posix_reads {
                Some(reads) if reads > 0 && route.route.is_direct() => {
                    format!(", {} by POSIX", units::plural(reads, "read"))
                }
                _ => String::new(),
            };
            format!("{}: {} ({}{mixed})", run.engine, route.route, proof(route.proven))
        })
        .collect();
    // Repeats have the same text, which is listed once.
    let mut seen = std::collections::BTreeSet::new();
    routes.retain(|route| seen.insert(route.clone()));
    let direct = runs(state).filter_map(|(run, _)| run.route.as_ref()).any(RouteCounts::straight);
    let route = match routes.is_empty() {
        true => ("✖", "no run used cuFile".to_owned()),
        false => (mark(direct), routes.join("; ")),
    };
    let rows = [
        ("GDS driver", driver),
        ("cuFile library", library),
        ("CUDA 11.4 or later", cuda),
        ("direct route to the GPU", route),
    ];
    Table {
        title: "Conditions of a direct route".to_owned(),
        note: "The first requirements of guides for KV caches on GDS. `gds-top check DIR` examines each, with fixes."
            .to_owned(),
        heads: vec![text("condition"), text("met"), text("found")],
        rows: rows.into_iter().map(|(what, (mark, found))| vec![what.to_owned(), mark.to_owned(), found]).collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::units::GIB;
    use crate::session::recording;
    use std::path::Path;

    #[test]
    fn the_store_is_compared_with_host_memory() {
        assert!(against_memory(GIB, 8 * GIB).contains("1 GiB") && against_memory(GIB, 8 * GIB).contains("can hold"));
        assert!(against_memory(8 * GIB, 8 * GIB).contains("cannot hold"));
        let mut state = State::default();
        for event in recording::read(Path::new("assets/recordings/h200-kv-lmcache.gdsrec")).unwrap() {
            state.reduce(&event.unwrap());
        }
        let transfers = tables(&state, true).remove(0);
        assert!(transfers.note.starts_with("The store has 640 MiB"), "{}", transfers.note);
        // Each row is one of several repeats, so it has no number.
        assert!(transfers.rows.iter().all(|row| !row[0].contains('#')), "{:?}", transfers.rows);
    }
}
