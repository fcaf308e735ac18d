//! The answers in words: what a person reads first, the same in every form of the report and on the terminal.

use crate::analysis::{Comparison, Standing, compare, grid_sentences};
use crate::domain::{Fallback, FallbackReason, LogLevel, Phase, Route, RouteCounts, RunResult, Status, Verdict, units};
use crate::session::{Lane, LaneStatus, State};
use std::collections::BTreeSet;

/// Text of others without control characters (a tensor's name may hold an escape sequence) and without those that turn the writing direction.
#[must_use]
pub fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).filter(|c| !turns(*c)).collect()
}

/// `Will reads of this path go straight to the GPU?`, answered.
fn verdict_sentence(verdict: &Verdict) -> String {
    let path = plain(&verdict.path.to_string_lossy());
    let proof = if verdict.proven { "proven" } else { "not proven, from the checks" };
    let mut said = match verdict.route {
        route if route.is_direct() => format!("Yes: cuFile reads of {path} go straight to the GPU ({route}, {proof})."),
        Route::Compat => format!("No: cuFile reads of {path} are copied through host memory (compat, {proof})."),
        _ => format!("No: no cuFile read of {path} works ({proof})."),
    };
    if verdict.possible != verdict.route {
        let steps: Vec<String> = verdict.steps.iter().map(|id| plain(id)).collect();
        match steps.as_slice() {
            [] => said += &format!(" {} is possible here.", verdict.possible),
            [one] => said += &format!(" {} is possible once {one} is mended.", verdict.possible),
            [rest @ .., last] => {
                said += &format!(" {} is possible once {} and {last} are mended.", verdict.possible, rest.join(", "));
            }
        }
    }
    said
}

/// Times within this of one another are level.
const LEVEL: f64 = 1.05;

/// `Which way of loading is fastest here?`, answered for one model, target and cache state.
#[must_use]
pub fn race_sentence(comparison: &Comparison) -> String {
    let Some(best) = comparison.fastest() else { return String::new() };
    if !comparison.standings.iter().any(Standing::moved) {
        return nothing_moved(comparison, best);
    }
    // Of auto and what it took neither beats the other unless clearly: both did the same, and what is asked is how far ahead of the rest they are.
    let second = comparison.standings.get(1);
    // A single load of each tells nothing between them, nor do a few percent, whose ranges lie apart by chance once in ten times.
    let apart = |next: &Standing| {
        best.runs > 1 && next.runs > 1 && best.clearly_ahead_of(next) && next.ratio_to_fastest > LEVEL
    };
    let twin = second.filter(|next| best.is_twin_of(next) && !apart(next));
    let took = match (&best.auto_took, twin) {
        (Some(took), _) => format!(" (it took {})", plain(&took.to_string())),
        (None, Some(_)) => " (auto took it)".to_owned(),
        (None, None) => String::new(),
    };
    let next = comparison.standings.get(if twin.is_some() { 2 } else { 1 });
    // Where there is nothing else, nothing is the fastest.
    let verb = match (next, took.as_str()) {
        (Some(_), _) => " is fastest:",
        (None, "") => " took",
        (None, _) => ":",
    };
    let mut said = format!("{}{took}{verb} {}", plain(&best.engine.to_string()), units::duration(best.wall_ns));
    match next.filter(|next| !next.in_doubt) {
        Some(next) if best.clearly_ahead_of(next) => {
            said += &format!(
                ", {}× faster than {} ({})",
                units::three_digits(next.ratio_to_fastest),
                plain(&next.engine.to_string()),
                units::duration(next.wall_ns)
            );
        }
        Some(next) => {
            let (name, time) = (plain(&next.engine.to_string()), units::duration(next.wall_ns));
            // A median far behind whose runs touch is not level: it only was not beaten each time.
            said += &match next.ratio_to_fastest <= LEVEL {
                true => format!(", level with {name} ({time})"),
                false => format!(", but not clearly: its runs overlap with those of {name} ({time})"),
            };
        }
        // Two samples of the same reads, and nothing else.
        None => {
            let other = twin.filter(|_| next.is_none());
            said += &other.map_or_else(String::new, |twin| {
                format!(", {} {}", plain(&twin.engine.to_string()), units::duration(twin.wall_ns))
            });
        }
    }
    said += &format!(", {} cache, {}, n = {}, ", comparison.cache, plain(&comparison.target), best.runs);
    said += match best.verified {
        Some(true) if best.engine.is_outside() => "bytes verified by itself.",
        Some(true) => "bytes verified.",
        Some(false) => "bytes wrong.",
        None => "bytes not verified.",
    };
    for doubted in comparison.standings.iter().filter(|s| s.in_doubt) {
        said += &format!(
            " {} ended after {} and ranks behind: nothing tells that it loaded the whole model.",
            plain(&doubted.engine.to_string()),
            units::duration(doubted.wall_ns)
        );
    }
    said
}

/// The answers of a whole session, each a sentence: the verdict per path, the race per cache state, and what went wrong.
#[must_use]
pub fn headlines(state: &State) -> Vec<String> {
    let mut said: Vec<String> = state.verdicts.iter().map(verdict_sentence).collect();
    let runs = state.runs();
    let comparisons = compare(&runs.iter().collect::<Vec<_>>());
    // What ran together is told by the sentences of its groups; engines are compared where there are several.
    let groups = super::group_tables(state);
    let wholes = |c: &&Comparison| groups.is_empty() || c.standings.len() > 1 || state.lanes.iter().any(|l| of(l, c));
    said.extend(comparisons.iter().filter(wholes).map(race_sentence));
    said.extend(groups.into_iter().map(|group| group.sentence));
    said.extend(fallen_back(state));
    if !state.lanes.is_empty() && comparisons.is_empty() && state.lanes.iter().all(|l| l.ended_ns.is_some()) {
        said.push("No engine loaded the model.".to_owned());
    }
    if let Some(grid) = &state.grid {
        said.extend(grid_sentences(grid).iter().map(|sentence| plain(sentence)));
    }
    let failed = state.lanes.iter().filter(|l| matches!(l.status, LaneStatus::Failed(_))).count();
    if failed > 0 {
        let runs = if failed == 1 { "1 run".to_owned() } else { format!("{failed} runs") };
        said.push(format!("{runs} of {} failed; see below.", state.lanes.len()));
    }
    if state.ended == Some(true) {
        said.push("The session was interrupted: what follows is incomplete.".to_owned());
    }
    said
}

/// Lanes that are called by cuFile's way and went another: for each the repeat in which most transfers did.
fn fallen_back(state: &State) -> Vec<String> {
    let mut most: Vec<(String, u64, u64, String)> = Vec::new();
    for (engine, w) in state.lanes.iter().filter_map(|l| Some((&l.engine, l.result.as_ref()?.workload.as_ref()?))) {
        let fell = w.fallbacks.iter().fold(0_u64, |sum, fall| sum.saturating_add(fall.operations));
        if fell == 0 {
            continue;
        }
        let mut reasons: Vec<&str> = w.fallbacks.iter().map(|fall| fall.reason.name()).collect();
        reasons.dedup();
        let (name, reasons) = (plain(&engine.to_string()), plain(&reasons.join(", ")));
        match most.iter_mut().find(|(known, ..)| *known == name) {
            Some(known) if known.1 >= fell => {}
            Some(known) => *known = (name, fell, w.operations, reasons),
            None => most.push((name, fell, w.operations, reasons)),
        }
    }
    let count = units::count;
    most.into_iter()
        .map(|(name, fell, of, reasons)| {
            format!("{name} made {} of {} transfers by staging instead of cuFile ({reasons}).", count(fell), count(of))
        })
        .collect()
}

/// Lookups that all missed are no race: what is fast may be what looked nowhere.
fn nothing_moved(comparison: &Comparison, first: &Standing) -> String {
    let took = |s: &Standing| format!("{} took {}", plain(&s.engine.to_string()), units::duration(s.wall_ns));
    let all: Vec<String> = comparison.standings.iter().map(took).collect();
    let why =
        if first.engine.direction() == Some("read") { "Every lookup missed" } else { "There was nothing to load" };
    let (cache, target) = (comparison.cache, plain(&comparison.target));
    format!("{why}: {}, {cache} cache, {target}, n = {}.", all.join(", "), first.runs)
}

/// Whether a lane ran alone and is of a comparison.
fn of(lane: &Lane, comparison: &Comparison) -> bool {
    let same = |r: &RunResult| r.model == comparison.model && r.target == comparison.target;
    lane.group().is_none() && lane.cache == comparison.cache && lane.result.as_deref().is_some_and(same)
}

/// How the reads of a run went, in a few words: `compat, proven by cuFile level-3 statistics`.
#[must_use]
pub fn route_words(route: Option<&RouteCounts>) -> String {
    match route {
        None => "–".to_owned(),
        Some(r) if r.proven => format!("{}, proven by {}", r.route, plain(&r.source)),
        Some(r) => format!("{}, not proven ({})", r.route, plain(&r.source)),
    }
}

/// How the reads of all repeats went: told once where all went one way, else each way with its number of runs, for a proof of one is none of another.
#[must_use]
pub fn routes_words(runs: &[&RunResult]) -> String {
    let mut ways: Vec<(String, usize)> = Vec::new();
    for words in runs.iter().map(|run| route_words(run.route.as_ref())) {
        match ways.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => ways.push((words, 1)),
        }
    }
    match ways.as_slice() {
        [] => route_words(None),
        [(only, _)] => only.clone(),
        several => {
            let of = |(words, count): &(String, usize)| {
                let words = if words == "–" { "not told" } else { words.as_str() };
                format!("{words} ({count} of {})", runs.len())
            };
            several.iter().map(of).collect::<Vec<_>>().join("; ")
        }
    }
}

/// The three largest phases: `transfer 71 %, copy 22 %, sync 3 %`, the words of one held together by no-break spaces; `–` where none is known.
#[must_use]
pub fn where_time_went(run: &RunResult) -> String {
    let mut phases: Vec<(Phase, u64)> = run.phases.iter().collect();
    phases.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let share = |ns: u64| ns as f64 * 100.0 / run.wall_ns.max(1) as f64;
    let parts: Vec<String> = phases
        .iter()
        .filter(|(_, ns)| share(*ns) >= 1.0)
        .take(3)
        .map(|(phase, ns)| format!("{}\u{a0}{:.0}\u{a0}%", phase.name(), share(*ns)))
        .collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(", ") }
}

/// The counts of checks: `71 ✔ 6 ▲ 2 ✖`.
#[must_use]
pub fn check_counts(state: &State) -> String {
    let statuses = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na];
    let parts: Vec<String> = statuses
        .iter()
        .filter_map(|s| {
            let count = state.checks.iter().filter(|f| f.status == *s).count();
            (count > 0).then(|| format!("{count} {} {}", s.mark(), s.word()))
        })
        .collect();
    parts.join(" · ")
}

/// What could not be measured or run, each a sentence.
#[must_use]
pub fn gaps(state: &State) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    let mut say = |sentence: String| {
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    };
    for (engine, why) in &state.unavailable {
        say(format!("{} did not run: {}", plain(&engine.to_string()), plain(why)));
    }
    for finding in state.checks.iter().filter(|f| f.status == Status::Na) {
        say(format!("{} was not checked: {}", plain(&finding.id), plain(&finding.summary)));
    }
    let named = |lane: &Lane, again: &str| {
        let share = lane.share.as_ref().map_or_else(String::new, |s| format!(", {}", plain(&s.label(&lane.target))));
        format!("{} ({}{again}{share})", plain(&lane.engine.to_string()), lane.cache)
    };
    let first = state.lanes.iter().filter(|lane| lane.repeat == 0);
    let of_first: BTreeSet<String> = first
        .filter_map(|lane| Some((named(lane, ""), lane.result.as_ref()?)))
        .flat_map(|(name, r)| r.notes.iter().map(move |note| format!("{name}: {}", plain(note))))
        .collect();
    for lane in &state.lanes {
        let name = named(lane, "");
        let Some(r) = &lane.result else { continue };
        if state.model_of(lane).is_some_and(|m| m.name != r.model) {
            say(format!(
                "{name}: tensors of {} are left out, since this session ends with another model.",
                plain(&r.model)
            ));
        }
        // Where nothing was moved there is nothing to compare, nor to find in the page cache.
        if r.verified.is_none() && r.error.is_none() && r.bytes > 0 {
            say(format!("{name}: the bytes were not verified."));
        }
        // A run that failed before its clock started never asked.
        let ran = r.wall_ns > 0;
        // Of a workload only a read of files has a page cache to find them in.
        let files = r.workload.as_ref().is_none_or(|w| w.lookup_ns.is_some() && r.bytes > 0);
        if r.cache_resident_before_fraction.is_none() && ran && files {
            say(format!("{name}: how much of the model was in the page cache could not be read."));
        }
        if let Some(route) = r.route.as_ref().filter(|route| !route.proven) {
            say(format!("{name}: the route is not proven ({}).", plain(&route.source)));
        }
        for note in &r.notes {
            // What every repeat says is said once; what a later one says alone, with its number, as tables name it.
            let told = format!("{name}: {}", plain(note));
            let again = format!(" #{}", lane.repeat.saturating_add(1));
            say(if lane.repeat == 0 || of_first.contains(&told) {
                told
            } else {
                format!("{}: {}", named(lane, &again), plain(note))
            });
        }
    }
    if !state.lanes.is_empty() && state.samples.is_empty() {
        say("No meters were read during the loads.".to_owned());
    }
    for (_, _, text) in state.messages.iter().filter(|(_, level, _)| *level != LogLevel::Info) {
        say(plain(text));
    }
    said
}

/// What is known of libcufile where the machine's summary names none, for only the checks look for it, with whether that meets the need for one.
pub(super) fn unnamed_library(state: &State) -> (Option<bool>, &'static str) {
    let results = || state.lanes.iter().filter_map(|lane| lane.result.as_deref());
    if results().any(|result| result.route.is_some()) {
        return (Some(true), "used by loads of this session, which did not ask for its version");
    }
    let fell_back = |fall: &Fallback| {
        matches!(fall.reason, FallbackReason::NoLibrary | FallbackReason::InitFailed) && !fall.provoked
    };
    let in_vain = state.unavailable.iter().any(|(engine, _)| engine.uses_cufile())
        || results().filter_map(|result| result.workload.as_ref()).any(|w| w.fallbacks.iter().any(fell_back));
    match (in_vain, state.checks_took_ns) {
        (true, _) => (Some(false), "loads of this session could not use one; what did not run or fell back says why"),
        (false, None) => (None, "this session did not look for it"),
        (false, Some(_)) => (Some(false), "not found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(route: Route, possible: Route, proven: bool, blockers: &[&str]) -> String {
        let verdict = Verdict {
            path: "/data".into(),
            gpu: None,
            route,
            possible,
            proven,
            basis: crate::domain::Basis::Checks,
            proof: String::new(),
            blockers: Vec::new(),
            steps: blockers.iter().map(|b| (*b).to_owned()).collect(),
            advice: String::new(),
        };
        verdict_sentence(&verdict)
    }

    #[test]
    fn nothing_is_called_direct_without_saying_whether_it_was_proven() {
        assert_eq!(
            verdict(Route::P2pdma, Route::P2pdma, true, &[]),
            "Yes: cuFile reads of /data go straight to the GPU (p2pdma, proven)."
        );
        assert!(verdict(Route::Nvfs, Route::Nvfs, false, &[]).contains("not proven"));
        assert_eq!(
            verdict(Route::Compat, Route::P2pdma, true, &["udev-database", "p2pdma-config"]),
            "No: cuFile reads of /data are copied through host memory (compat, proven). p2pdma is possible once udev-database and p2pdma-config are mended."
        );
        assert!(verdict(Route::None, Route::None, false, &[]).starts_with("No: no cuFile read"));
    }

    #[test]
    fn a_route_of_one_repeat_is_none_of_another() {
        let run = |route: Option<&str>| {
            let route = route.map(|route| serde_json::json!({"route": route, "nvfs_reads": null, "p2p_reads": null, "posix_reads": 1, "source": "statistics", "proven": true}));
            serde_json::from_value::<RunResult>(serde_json::json!({
                "engine": "gds-slab", "model": "m", "cache": "hot", "target": "GPU", "repeat": 0, "bytes": 1, "wall_ns": 5, "setup_ns": 1, "bytes_per_s": 0.0,
                "phases": {}, "slots": 1, "knobs": {}, "setup_parts_ns": {}, "notes": [], "route": route,
            }))
        };
        let runs = [run(Some("compat")), run(Some("p2pdma")), run(None), run(Some("compat"))].map(|run| run.ok());
        let runs: Vec<&RunResult> = runs.iter().flatten().collect();
        assert_eq!(
            routes_words(&runs),
            "compat, proven by statistics (2 of 4); p2pdma, proven by statistics (1 of 4); not told (1 of 4)"
        );
        assert_eq!(
            (routes_words(&runs[..1]).as_str(), routes_words(&[]).as_str()),
            ("compat, proven by statistics", "–")
        );
    }

    #[test]
    fn escape_sequences_and_turned_text_do_not_pass() {
        assert_eq!(plain("a\u{1b}[31mb\u{202e}c\nd"), "a [31mbc d");
    }

    #[test]
    fn auto_and_what_it_took_are_one_winner_unless_one_is_clearly_ahead() {
        let standing = |engine, median: u64, slowest: u64, auto_took: Option<Engine>| Standing {
            engine,
            runs: 3,
            failed: 0,
            wall_ns: median * 1_000_000,
            wall_range_ns: ((median - 2) * 1_000_000, slowest * 1_000_000),
            bytes_per_s: 1e9,
            setup_ns: 0,
            ratio_to_fastest: 1.0,
            verified: Some(true),
            in_doubt: false,
            auto_took,
        };
        let said = |mut standings: Vec<Standing>| {
            let best = standings[0].wall_ns as f64;
            standings.iter_mut().for_each(|s| s.ratio_to_fastest = s.wall_ns as f64 / best);
            let (model, target) = ("m".to_owned(), "GPU 0".to_owned());
            race_sentence(&Comparison { model, target, cache: crate::domain::CacheState::Cold, standings })
        };
        use crate::domain::Engine::{self, Auto, Direct, Mmap, Pread, Workload};
        let (direct, mmap) = (|| standing(Direct, 120, 130, None), || standing(Mmap, 300, 310, None));
        let level = said(vec![standing(Auto, 100, 125, Some(Direct)), direct(), mmap()]);
        assert!(
            level.starts_with("auto (it took direct) is fastest: 100 ms, 3.00× faster than mmap (300 ms)"),
            "{level}"
        );
        let turned = said(vec![standing(Direct, 100, 125, None), standing(Auto, 110, 130, Some(Direct)), mmap()]);
        assert!(turned.starts_with("direct (auto took it) is fastest: 100 ms, 3.00× faster than mmap"), "{turned}");
        let clear = said(vec![standing(Auto, 100, 105, Some(Direct)), direct(), mmap()]);
        assert!(
            clear.starts_with("auto (it took direct) is fastest: 100 ms, 1.20× faster than direct (120 ms)"),
            "{clear}"
        );
        let mut once = vec![standing(Auto, 100, 100, Some(Direct)), direct(), mmap()];
        once.iter_mut().for_each(|standing| standing.runs = 1);
        let once = said(once);
        assert!(once.starts_with("auto (it took direct) is fastest: 100 ms, 3.00× faster than mmap"), "{once}");
        let noise = said(vec![standing(Auto, 119, 119, Some(Direct)), standing(Direct, 122, 123, None), mmap()]);
        assert!(noise.starts_with("auto (it took direct) is fastest: 119 ms, 2.52× faster than mmap"), "{noise}");
        for (only, words) in [
            (vec![mmap()], "mmap took 300 ms, cold cache"),
            (
                vec![standing(Auto, 100, 125, Some(Direct)), direct()],
                "auto (it took direct): 100 ms, direct 120 ms, cold cache",
            ),
        ] {
            let only = said(only);
            assert!(only.starts_with(words), "{only}");
        }
        let miss = |name: &str| Standing {
            bytes_per_s: 0.0,
            verified: None,
            ..standing(Workload(format!("llmd/{name}/read")), 5, 7, None)
        };
        let missed = said(vec![miss("ram"), miss("gds")]);
        assert_eq!(
            missed,
            "Every lookup missed: llmd/ram/read took 5.00 ms, llmd/gds/read took 5.00 ms, cold cache, GPU 0, n = 3."
        );
        assert_eq!((miss("ram").verified_words(), miss("ram").ratio_words().as_str()), ("–", "–"));
        let other = said(vec![standing(Auto, 100, 125, Some(Pread)), direct()]);
        assert!(other.starts_with("auto (it took pread) is fastest: 100 ms, but not clearly"), "{other}");
    }
}
