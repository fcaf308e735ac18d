//! The spelling of names and values for all front ends.

use super::view::GAP;
use crate::analysis::RankedEngine;
use crate::core::{
    AutoChoice, AutoReason, CacheState, Engine, Route, RouteCounts, RouteProof, RunResult, Status, units,
};

/// The name of an engine in a sentence. Tables and options use the name from the command line.
#[must_use]
pub fn engine(engine: &Engine) -> String {
    const MOST: usize = 32;
    match engine {
        Engine::Odirect => "O_DIRECT".to_owned(),
        Engine::Loader(name) => name.clone(),
        Engine::Command(line) if line.chars().count() > MOST => {
            line.chars().take(MOST - 1).chain(std::iter::once('…')).collect()
        }
        Engine::Command(line) => line.clone(),
        _ => engine.label(),
    }
}

/// GPUs in one line: those of one model together, `8 × H200 (0 to 7), 8 (L4)`. A name is an index and a model, `0 (H200)`;
/// others, such as a UUID, stay as they are.
#[must_use]
pub fn gpus(names: &[&str]) -> String {
    let parts = |name: &&str| {
        let (index, model) = name.strip_suffix(')')?.split_once(" (")?;
        Some((index.parse::<u32>().ok()?, model.to_owned()))
    };
    let mut out: Vec<String> = Vec::new();
    let mut done: Vec<String> = Vec::new();
    for name in names {
        let Some((_, model)) = parts(name).filter(|(_, model)| !model.is_empty()) else {
            out.push((*name).to_owned());
            continue;
        };
        if done.contains(&model) {
            continue;
        }
        let same: Vec<u32> =
            names.iter().filter_map(parts).filter(|(_, other)| *other == model).map(|(n, _)| n).collect();
        let is_range = same.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        out.push(match same.as_slice() {
            [first, .., last] if is_range && same.len() > 2 => format!("{} × {model} ({first} to {last})", same.len()),
            [_, _, ..] => {
                let numbers: Vec<String> = same.iter().map(u32::to_string).collect();
                format!("{} × {model} ({})", same.len(), numbers.join(", "))
            }
            _ => (*name).to_owned(),
        });
        done.push(model);
    }
    out.join(", ")
}

/// The name of a ranked engine in a sentence. For `auto` it includes the chosen engine. It also says if cuFile made none
/// of its transfers.
#[must_use]
pub fn ranked(ranked: &RankedEngine) -> String {
    match &ranked.auto_chose {
        Some(chosen) => format!("{} ({})", engine(&ranked.engine), engine(chosen)),
        None if ranked.all_staged => format!("{} (all staged)", engine(&ranked.engine)),
        None => engine(&ranked.engine),
    }
}

/// An engine with its cache state: `gds-slab (hot)`, or `gds (cold read)` for a workload. The model's name is added
/// if several models were loaded.
#[must_use]
pub fn engine_in(of: &Engine, cache: CacheState, model: Option<&str>) -> String {
    let direction = of.direction().map_or_else(String::new, |direction| format!(" {direction}"));
    let model = model.map_or_else(String::new, |model| format!(", {model}"));
    format!("{} ({cache}{direction}{model})", engine(of))
}

/// The name of a cache state at the beginning of a sentence.
#[must_use]
pub const fn cache_capital(cache: CacheState) -> &'static str {
    match cache {
        CacheState::Cold => "Cold",
        CacheState::Hot => "Hot",
        CacheState::AsIs => "As-is",
    }
}

/// Formats a factor: `1.03×`, `1.3×`, `38×`.
#[must_use]
pub fn factor(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => GAP.to_owned(),
        ratio if ratio < 1.095 => format!("{ratio:.2}×"),
        ratio if ratio < 9.95 => format!("{ratio:.1}×"),
        ratio => format!("{ratio:.0}×"),
    }
}

/// Formats a share: `93 %`, `0.4 %`. If `total` is 0, the text is the dash for missing values.
#[must_use]
pub fn percent(part: u64, total: u64) -> String {
    match (part, total) {
        (0, _) | (_, 0) => GAP.to_owned(),
        _ => match part as f64 * 100.0 / total as f64 {
            share if share < 0.05 => "< 0.1 %".to_owned(),
            share if share < 0.95 => format!("{share:.1} %"),
            share => format!("{share:.0} %"),
        },
    }
}

/// Formats a count at the beginning of a sentence: `Two fixes`, `12 fixes`.
#[must_use]
pub fn counted(count: usize, thing: &str) -> String {
    const WORDS: [&str; 10] = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];
    let number = WORDS.get(count).map_or_else(|| count.to_string(), |word| (*word).to_owned());
    format!("{number} {}", plural(count, thing))
}

/// The singular or plural form of a noun: `fix`, `fixes`; `run`, `runs`.
pub(super) fn plural(count: usize, thing: &str) -> String {
    match (count, thing.ends_with('x')) {
        (1, _) => thing.to_owned(),
        (_, true) => format!("{thing}es"),
        (_, false) => format!("{thing}s"),
    }
}

/// The route of reads and whether it is proven: `compat, proven`.
#[must_use]
pub fn route(counts: Option<&RouteCounts>) -> String {
    counts.map_or_else(|| GAP.to_owned(), |counts| format!("{}, {}", counts.route, proof(counts.proven)))
}

/// The text for whether a route is proven.
#[must_use]
pub const fn proof(proven: bool) -> &'static str {
    if proven { "proven" } else { "not proven" }
}

/// The status of a route.
#[must_use]
pub fn route_status(counts: &RouteCounts) -> Status {
    match counts.route {
        Route::None => Status::Fail,
        _ if counts.straight() => Status::Pass,
        _ => Status::Warn,
    }
}

/// The routes of several runs. If all runs used the same route, it appears once; otherwise each route appears with
/// its number of runs.
#[must_use]
pub fn routes(runs: &[&RunResult]) -> String {
    each_once(runs, |run| run.route.as_ref().map(|counts| route(Some(counts))))
}

/// The evidence for the routes of an engine's runs: `Route of mmap: nvfs, proven by cuFile level-3 statistics.` `None`
/// if no run has a route.
#[must_use]
pub fn routes_evidence(engine: &Engine, runs: &[&RunResult]) -> Option<String> {
    let evidence = |run: &RunResult| {
        run.route.as_ref().map(|counts| match counts.proven {
            true => format!("{}, proven by {}", counts.route, counts.source),
            false => format!("{}, not proven: {}", counts.route, counts.source),
        })
    };
    let known = runs.iter().any(|run| run.route.is_some());
    known.then(|| format!("Route of {engine}: {}.", each_once(runs, evidence)))
}

/// Combines a text of several runs. If all texts are equal, the text appears once; otherwise each text appears with
/// its number of runs, because the proof of one run does not apply to another.
fn each_once(runs: &[&RunResult], text: impl Fn(&RunResult) -> Option<String>) -> String {
    let mut texts: Vec<(Option<String>, usize)> = Vec::new();
    for text in runs.iter().map(|run| text(run)) {
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => texts.push((text, 1)),
        }
    }
    match texts.as_slice() {
        [] | [(None, _)] => GAP.to_owned(),
        [(Some(only), _)] => only.clone(),
        several => {
            let one = |(text, count): &(Option<String>, usize)| {
                format!("{} ({count} of {})", text.as_deref().unwrap_or("not known"), runs.len())
            };
            several.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}

/// The table cell that shows whether the bytes of an engine's runs were verified, with its status.
#[must_use]
pub fn verified(ranked: &RankedEngine) -> (Status, &'static str) {
    match ranked.verified {
        _ if ranked.in_doubt => (Status::Warn, "in doubt"),
        _ if !ranked.moved() => (Status::Na, GAP),
        Some(true) if ranked.engine.is_outside() => (Status::Info, "by the command"),
        Some(true) => (Status::Pass, "yes"),
        Some(false) => (Status::Fail, "wrong bytes"),
        None => (Status::Na, "not asked"),
    }
}

/// The end of a sentence that shows whether the bytes of a run were verified. It begins with a comma.
#[must_use]
pub const fn run_verified(run: &RunResult) -> &'static str {
    match run.verified {
        Some(true) => "verified",
        Some(false) => "wrong bytes",
        None if run.bytes == 0 => "nothing to verify",
        None => "not verified",
    }
}

/// The table cell with the ratio to the fastest engine. Runs that should be cold and were not have no ratio.
#[must_use]
pub fn ratio(ranked: &RankedEngine) -> String {
    if ranked.cached.is_some() {
        return "cached".to_owned();
    }
    if ranked.in_doubt || !ranked.moved() { GAP.to_owned() } else { factor(ranked.ratio_to_fastest) }
}

/// The table cell with the rate at the median time.
#[must_use]
pub fn rate(ranked: &RankedEngine) -> String {
    if ranked.moved() { units::rate(ranked.bytes_per_s) } else { GAP.to_owned() }
}

/// The table cell with the number of successful and failed runs, and the share of the model that the page cache had
/// before runs that should be cold.
#[must_use]
pub fn runs(ranked: &RankedEngine) -> String {
    let failed = if ranked.failed > 0 { format!(", {} failed", ranked.failed) } else { String::new() };
    let cached = ranked.cached.map_or_else(String::new, |share| format!(", {} cached", units::percent(share)));
    format!("{}{failed}{cached}", ranked.runs)
}

/// The engine that `auto` chose and the reason: `chose pread: 100 % of the model is cached`.
#[must_use]
pub fn auto_choice(choice: &AutoChoice, resident: Option<f64>) -> String {
    let share = resident.map(units::percent);
    let cached =
        share.map_or_else(|| "how much is cached is unknown".to_owned(), |s| format!("{s} of the model is cached"));
    let name = engine(&choice.engine);
    match choice.reason {
        None => format!("chose {name}"),
        Some(AutoReason::Cached) => format!("chose {name}: {cached}"),
        Some(AutoReason::DirectRoute(route)) => format!("chose {name}: {cached}, and a test read took {route}"),
        Some(AutoReason::NotCached) => format!("chose {name}: {cached}"),
        Some(AutoReason::NoDirectIo) => {
            format!("chose {name}: {cached}, but its file system does not support O_DIRECT")
        }
    }
}

/// The evidence for the route of a file or of a process.
#[must_use]
pub const fn route_proof(proof: RouteProof) -> &'static str {
    match proof {
        RouteProof::Nothing => "not proven: no counter shows the route",
        RouteProof::NoTransfer => "no transfer",
        RouteProof::AllFailed => "all transfers failed",
        RouteProof::Statistics => "proven by libcufile's level-3 statistics",
        RouteProof::MixedStatistics => "not proven: libcufile's statistics count several routes",
        RouteProof::NoModule => "not proven: libcufile's statistics count nvfs, but nvidia-fs is not loaded",
        RouteProof::NvidiaFsCounter => "inferred: nvidia-fs counted reads, of any process",
        RouteProof::ProcessLog => "inferred: the cufile.log of the process reports compat mode",
        RouteProof::NoDirectRoute => "inferred: nvidia-fs is not loaded, p2pdma is not configured",
        RouteProof::SettingsMayEnableP2pdma => "not proven: cufile.json or CUFILE_USE_PCIP2PDMA may enable p2pdma",
        RouteProof::ParameterEnablesP2pdma => "not proven: cuFileSetParameterBool enabled p2pdma",
        RouteProof::FlagsEnableP2pdma => "not proven: cuFileDriverSetP2PFlags enabled p2pdma",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn equal_gpus_are_one_name_with_their_number() {
        let eight: Vec<String> = (0..8).map(|n| format!("{n} (H200)")).chain(["8 (L4)".to_owned()]).collect();
        let names: Vec<&str> = eight.iter().map(String::as_str).collect();
        assert_eq!(gpus(&names), "8 × H200 (0 to 7), 8 (L4)");
        assert_eq!(gpus(&["0 (H200)", "1 (GeForce RTX 4090)", "3 (H200)"]), "2 × H200 (0, 3), 1 (GeForce RTX 4090)");
        assert_eq!(gpus(&["GPU-1", "GPU-2"]), "GPU-1, GPU-2");
        assert_eq!(gpus(&["0 (H200)"]), "0 (H200)");
    }

    fn run(route: Option<&str>) -> Option<RunResult> {
        let route = route.map(|route| {
            serde_json::json!({"route": route, "nvfs_reads": null, "p2p_reads": null, "posix_reads": 1, "source": "statistics", "proven": true})
        });
        serde_json::from_value(serde_json::json!({
            "engine": "gds-slab", "model": "m", "cache": "hot", "target": "GPU", "repeat": 0, "bytes": 1, "wall_ns": 5, "setup_ns": 1,
            "bytes_per_s": 0.0, "phases": {}, "slots": 1, "settings": {}, "setup_parts_ns": {}, "notes": [], "route": route,
        }))
        .ok()
    }

    #[test]
    fn the_route_of_one_run_is_not_claimed_for_another() {
        let runs = [run(Some("compat")), run(Some("p2pdma")), run(None), run(Some("compat"))];
        let runs: Vec<&RunResult> = runs.iter().flatten().collect();
        assert_eq!(routes(&runs), "compat, proven (2 of 4); p2pdma, proven (1 of 4); not known (1 of 4)");
        assert_eq!((routes(&runs[..1]).as_str(), routes(&[]).as_str()), ("compat, proven", GAP));
        assert_eq!(
            routes_evidence(&Engine::Mmap, &runs[..1]).as_deref(),
            Some("Route of mmap: compat, proven by statistics.")
        );
        assert_eq!(routes_evidence(&Engine::Mmap, &runs[2..3]), None);
    }

    #[test]
    fn factors_show_what_differs_and_counts_are_words() {
        let shown = [1.0, 1.03, 1.306, 9.94, 9.96, 38.2, f64::NAN].map(factor);
        assert_eq!(shown, ["1.00×", "1.03×", "1.3×", "9.9×", "10×", "38×", GAP]);
        assert_eq!([0, 1, 2, 12].map(|n| counted(n, "fix")), ["No fixes", "One fix", "Two fixes", "12 fixes"]);
    }

    #[test]
    fn long_commands_are_cut_and_o_direct_is_not_confused_with_a_direct_route() {
        assert_eq!(engine(&Engine::Odirect), "O_DIRECT");
        let long = engine(&Engine::Command("python3 load.py --model a-very-long-name".to_owned()));
        assert!(long.chars().count() == 32 && long.ends_with('…'));
        assert_eq!(
            engine_in(&Engine::Workload("lmcache/gds/read".parse().unwrap()), CacheState::Cold, None),
            "gds (cold read)"
        );
        assert_eq!(engine_in(&Engine::GdsSlab, CacheState::Hot, Some("q")), "gds-slab (hot, q)");
    }
}
