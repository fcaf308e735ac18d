//! The sentence about the winner of a group. It claims only what the runs support.

use super::labels::{cache_capital, engine, factor, plural, ranked};
use super::view::Answer;
use crate::analysis::{ComparisonGroup, LEAST_RUNS, Outcome, RankedEngine};
use crate::core::{Access, Engine, Status, TargetName, units};

/// The parts of a group's name that differ between the groups of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// Whether several models were loaded.
    pub model: bool,
    /// Whether there are several targets.
    pub target: bool,
}

impl Naming {
    /// Finds the parts that differ between these groups.
    #[must_use]
    pub fn of(groups: &[&ComparisonGroup]) -> Self {
        let differ = |of: fn(&ComparisonGroup) -> &str| groups.iter().any(|group| of(group) != of(groups[0]));
        Self { model: differ(|group| &group.model), target: differ(|group| group.target.as_str()) }
    }
}

/// The beginning of the sentence: `Cold`; `Hot reads`; `Hot, Qwen3-0.6B on 2 × NVIDIA H200`.
fn opening(group: &ComparisonGroup, naming: Naming) -> String {
    let mut opening = cache_capital(group.cache).to_owned();
    if let Some(direction) = group.direction() {
        opening += &format!(" {direction}s");
    }
    if naming.model {
        opening += &format!(", {}", group.model);
    }
    if naming.target {
        opening += &format!("{} {}", if naming.model { " on" } else { ", on" }, group.target);
    }
    opening
}

/// The answer to the question which engine wins the group. `None` for a group without engines.
#[must_use]
pub fn answer(group: &ComparisonGroup, naming: Naming) -> Option<Answer> {
    let answer = of_runs(group, naming)?;
    let Some(pressure) = group.busy().filter(|_| answer.status != Status::Info) else { return Some(answer) };
    let busy = format!("The machine was busy: tasks waited for a CPU in {} of the time.", units::percent(pressure));
    Some(Answer::new(Status::Warn, answer.headline, format!("{busy} {}", answer.conditions)))
}

/// The answer without regard to other programs on the machine.
fn of_runs(group: &ComparisonGroup, naming: Naming) -> Option<Answer> {
    let opening = opening(group, naming);
    let time = |ranked: &RankedEngine| units::duration(ranked.wall_ns);
    let (headline, caveat) = match group.outcome()? {
        Outcome::NothingMoved => return Some(nothing_moved(group, &opening)),
        Outcome::NotCold { cached } => {
            let headline = format!("{opening}: no winner, because the runs were not cold.");
            let share = units::percent(cached);
            let cause = "A process maps, locks or reads its files, or they are in memory.";
            let conditions =
                format!("Up to {share} of the model was in the page cache. {cause} {}", measured(group, true));
            return Some(Answer::new(Status::Warn, headline, conditions));
        }
        Outcome::Alone { first } => (format!("{opening}: {} took {}.", ranked(first), time(first)), None),
        Outcome::Noisy { first, next } => {
            let headline = format!("{opening}: too noisy to name a winner.");
            let (auto, chosen) = if first.auto_chose.is_some() { (first, next) } else { (next, first) };
            let differ = format!("auto took {}, and {}, which it chose, {}.", time(auto), ranked(chosen), time(chosen));
            let conditions = format!("{differ} Run again. {}", measured(group, true));
            return Some(Answer::new(Status::Warn, headline, conditions));
        }
        Outcome::TooNoisy { first, next } => {
            let headline = format!("{opening}: too noisy to compare {} and {}.", ranked(first), ranked(next));
            let overlap = format!("Their runs overlap, with medians of {} and {}.", time(first), time(next));
            let conditions = format!("{overlap} Run again on an idle machine. {}", measured(group, true));
            return Some(Answer::new(Status::Warn, headline, conditions));
        }
        Outcome::Tie { first, next } => (
            format!("{opening}: {} and {} tie, {} and {}.", ranked(first), ranked(next), time(first), time(next)),
            Some("Their runs overlap.".to_owned()),
        ),
        Outcome::TooFewRuns { first, next } => {
            let fewest = if first.runs <= next.runs { first } else { next };
            let few = match (group.engines.iter().all(|engine| engine.runs == fewest.runs), fewest.runs) {
                (true, 1) => format!("One run each{}", into_host(group)),
                (true, runs) => format!("{runs} runs each{}", into_host(group)),
                (false, 1) => format!("{} ran once", ranked(fewest)),
                (false, runs) => format!("{} ran {runs} times", ranked(fewest)),
            };
            (
                format!("{opening}: {} leads, {}{}.", ranked(first), time(first), ahead(group, first, next)),
                // After an interruption more runs were planned.
                Some(match group.interrupted {
                    true => format!("{few}."),
                    false => format!("{few}; use --repeat {LEAST_RUNS} for a winner."),
                }),
            )
        }
        Outcome::Winner { first, next } => {
            (format!("{opening}: {} wins, {}{}.", ranked(first), time(first), ahead(group, first, next)), None)
        }
    };
    // The caveat names the number of runs if all engines have the same.
    let few = matches!(group.outcome(), Some(Outcome::TooFewRuns { .. }));
    let is_told = few && group.engines.iter().all(|engine| engine.runs == group.engines[0].runs);
    let is_worth = caveat.is_none() || group.engines.iter().any(|engine| engine.runs > 1);
    let mut conditions: Vec<String> = caveat.into_iter().collect();
    conditions.push(measured(group, is_worth && !is_told));
    conditions.extend(best_on_storage(group));
    conditions.extend(doubts(group));
    conditions.extend(in_page_cache(group));
    Some(Answer::new(Status::Pass, headline, conditions.join(" ")))
}

/// The fastest variant that uses storage, if a variant without storage is first: ` Fastest on storage: gds, 158 ms.`
fn best_on_storage(group: &ComparisonGroup) -> Option<String> {
    let without = |ranked: &RankedEngine| ranked.engine.is_in_memory();
    let contenders = group.contenders();
    if !contenders.first().copied().is_some_and(without) {
        return None;
    }
    let mut stored = contenders.into_iter().filter(|ranked| !without(ranked));
    let best = stored.next()?;
    let time = units::duration(best.wall_ns);
    Some(match stored.next() {
        Some(next) if best.clearly_ahead_of(next) => format!(
            "Fastest on storage: {}, {time} ({} faster than {}).",
            ranked(best),
            factor(next.wall_ns as f64 / best.wall_ns.max(1) as f64),
            ranked(next)
        ),
        Some(next) => {
            let (both, other) = (format!("{} and {}", ranked(best), ranked(next)), units::duration(next.wall_ns));
            match best.is_close_to(next) {
                true => format!("On storage {both} tie, {time} and {other}."),
                false => format!("On storage, too noisy to compare {both}, with medians of {time} and {other}."),
            }
        }
        None => format!("On storage: {}, {time}.", ranked(best)),
    })
}

/// The ratio to another engine: ` (1.3× faster than mmap)`. The other engine is mmap, the usual loader, if it ran, or
/// else the next engine.
fn ahead(group: &ComparisonGroup, first: &RankedEngine, next: &RankedEngine) -> String {
    let usual = |other: &&RankedEngine| other.engine == Engine::Mmap && first.engine != Engine::Mmap;
    let other = group.contenders().into_iter().find(usual).unwrap_or(next);
    format!(" ({} faster than {})", factor(other.wall_ns as f64 / first.wall_ns.max(1) as f64), ranked(other))
}

/// ` into host memory` if that was the target, otherwise empty.
fn into_host(group: &ComparisonGroup) -> &'static str {
    if group.target == TargetName::Host { " into host memory" } else { "" }
}

/// The number of runs and their verification: `3 runs, all bytes verified.`, or without the number `All bytes
/// verified.`
fn measured(group: &ComparisonGroup, with_runs: bool) -> String {
    if !with_runs {
        let verification = verification(group);
        let (first, rest) = verification.split_at(verification.chars().next().map_or(0, char::len_utf8));
        return format!("{}{rest}.", first.to_uppercase());
    }
    let most = group.engines.iter().map(|engine| engine.runs).max().unwrap_or(0);
    let least = group.engines.iter().map(|engine| engine.runs).min().unwrap_or(0);
    let runs = if least == most { most.to_string() } else { format!("{least} to {most}") };
    format!("{runs} {}{}, {}.", plural(most, "run"), into_host(group), verification(group))
}

fn verification(group: &ComparisonGroup) -> String {
    let engines = || group.engines.iter().filter(|ranked| !ranked.in_doubt);
    let named = |ranked: Vec<&RankedEngine>| {
        let names: Vec<String> = ranked.into_iter().map(|ranked| engine(&ranked.engine)).collect();
        names.join(", ")
    };
    let unverified: Vec<&RankedEngine> = engines().filter(|ranked| ranked.verified != Some(true)).collect();
    let by_itself: Vec<&RankedEngine> =
        engines().filter(|ranked| ranked.verified == Some(true) && ranked.engine.is_outside()).collect();
    match (unverified.len(), by_itself.len()) {
        (0, 0) => "all bytes verified".to_owned(),
        (0, _) => format!("all bytes verified ({}: by the command)", named(by_itself)),
        (n, _) if n == engines().count() => "bytes not verified".to_owned(),
        _ => format!("bytes verified except {}", named(unverified)),
    }
}

/// Sentences about commands for which there is no evidence that they loaded the model.
fn doubts(group: &ComparisonGroup) -> Vec<String> {
    let doubted = group.engines.iter().filter(|ranked| ranked.in_doubt);
    doubted
        .map(|ranked| {
            format!(
                "{} took {}, but nothing shows that it loaded the model.",
                engine(&ranked.engine),
                units::duration(ranked.wall_ns)
            )
        })
        .collect()
}

/// The sentence about writes that end before the disk has the bytes. Those of other engines take longer.
fn in_page_cache(group: &ComparisonGroup) -> Option<String> {
    let cached: Vec<String> = group.engines.iter().filter(|engine| engine.in_page_cache).map(ranked).collect();
    (!cached.is_empty())
        .then(|| format!("Writes of {} end in the page cache; --set fsync=1 waits for the disk.", cached.join(", ")))
}

/// The answer if all lookups missed. These runs are not compared, because they read no data.
fn nothing_moved(group: &ComparisonGroup, opening: &str) -> Answer {
    let what =
        if group.direction() == Some(Access::Read) { "every lookup missed" } else { "there was nothing to load" };
    let times: Vec<String> = group
        .engines
        .iter()
        .map(|ranked| format!("{} {}", engine(&ranked.engine), units::duration(ranked.wall_ns)))
        .collect();
    Answer::new(Status::Info, format!("{opening}: {what}."), format!("{}.", times.join(", ")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::labels;
    use super::*;
    use crate::core::CacheState;

    fn engine_of(engine: Engine, ms: u64, runs: usize) -> RankedEngine {
        RankedEngine {
            engine,
            runs,
            failed: 0,
            wall_ns: ms * 1_000_000,
            wall_range_ns: (ms * 1_000_000, ms * 1_000_000),
            bytes_per_s: 1e9,
            setup_ns: 0,
            ratio_to_fastest: 1.0,
            verified: Some(true),
            in_doubt: false,
            cached: None,
            in_page_cache: false,
            all_staged: false,
            auto_chose: None,
        }
    }

    fn group(engines: Vec<RankedEngine>) -> ComparisonGroup {
        ComparisonGroup {
            model: "m".into(),
            target: "NVIDIA H200 (GPU 0)".into(),
            cache: CacheState::Cold,
            engines,
            cpu_pressure: None,
            interrupted: false,
        }
    }

    fn said(engines: Vec<RankedEngine>) -> String {
        answer(&group(engines), Naming::default()).map(|answer| answer.text()).unwrap_or_default()
    }

    #[test]
    fn runs_that_were_not_cold_are_named_and_nothing_wins() {
        let cached = RankedEngine { cached: Some(0.4), ..engine_of(Engine::Pread, 50, 3) };
        assert_eq!(
            said(vec![cached.clone(), engine_of(Engine::Odirect, 500, 3)]),
            "Cold: no winner, because the runs were not cold. Up to 40 % of the model was in the page cache. A process maps, locks or reads its files, or they are in memory. 3 runs, all bytes verified."
        );
        assert!(said(vec![cached.clone()]).contains("not cold"));
        assert_eq!([labels::ratio(&cached), labels::runs(&cached)], ["cached", "3, 40 % cached"]);
        // A slower engine that was cached does not decide the winner.
        let slow = RankedEngine { wall_ns: 900_000_000, wall_range_ns: (900_000_000, 900_000_000), ..cached };
        let text = said(vec![engine_of(Engine::Odirect, 100, 3), engine_of(Engine::Mmap, 500, 3), slow]);
        assert!(text.starts_with("Cold: O_DIRECT wins"), "{text}");
    }

    #[test]
    fn writes_that_end_in_the_page_cache_are_named() {
        let writes = |variant: &str, ms, in_page_cache| {
            let engine = format!("ucm/{variant}/write").parse().unwrap();
            RankedEngine { in_page_cache, ..engine_of(engine, ms, 3) }
        };
        let answer = said(vec![writes("gds:misalign=512", 158, true), writes("gds:misalign=0", 523, false)]);
        let sentence = "Writes of gds:misalign=512 end in the page cache; --set fsync=1 waits for the disk.";
        assert!(answer.contains("gds:misalign=512 wins") && answer.ends_with(sentence), "{answer}");
        assert!(!said(vec![writes("gds", 158, false), writes("disk", 523, false)]).contains("page cache"));
    }

    #[test]
    fn the_best_variant_on_storage_is_named_if_host_memory_wins() {
        let reads = |variant: &str, ms| engine_of(format!("llmd/{variant}/read").parse().unwrap(), ms, 3);
        let told = said(vec![reads("ram", 20), reads("gds", 150), reads("staging", 300)]);
        assert!(told.contains("ram wins"), "{told}");
        assert!(told.contains("Fastest on storage: gds, 150 ms (2.0× faster than staging)."), "{told}");
        let tie = said(vec![reads("ram", 20), reads("gds", 150), reads("staging", 150)]);
        assert!(tie.contains("On storage gds and staging tie, 150 ms and 150 ms."), "{tie}");
        assert!(said(vec![reads("ram", 20), reads("disk", 40)]).contains("On storage: disk, 40.0 ms."));
        assert!(!said(vec![reads("gds", 20), reads("ram", 40)]).contains("storage"));
    }

    #[test]
    fn variants_without_a_transfer_by_cufile_are_named_as_staged() {
        let reads = |variant: &str, ms, all_staged| RankedEngine {
            all_staged,
            ..engine_of(format!("llmd/{variant}/read").parse().unwrap(), ms, 3)
        };
        let told = said(vec![reads("ram", 20, false), reads("gds", 90, true), reads("staging", 300, false)]);
        assert!(
            told.contains("than gds (all staged))") && told.contains("storage: gds (all staged), 90.0 ms"),
            "{told}"
        );
        assert!(!said(vec![reads("ram", 20, false), reads("gds", 90, false)]).contains("staged"));
    }

    #[test]
    fn a_winner_is_named_with_its_time_and_its_lead_over_mmap() {
        let all =
            vec![engine_of(Engine::Odirect, 625, 3), engine_of(Engine::Pread, 700, 3), engine_of(Engine::Mmap, 817, 3)];
        assert_eq!(said(all), "Cold: O_DIRECT wins, 625 ms (1.3× faster than mmap). 3 runs, all bytes verified.");
        let without = vec![engine_of(Engine::Mmap, 100, 3), engine_of(Engine::Pread, 200, 2)];
        assert_eq!(
            said(without),
            "Cold: mmap leads, 100 ms (2.0× faster than pread). pread ran 2 times; use --repeat 3 for a winner. 2 to 3 runs, all bytes verified."
        );
        let auto = RankedEngine { auto_chose: Some(Engine::Odirect), ..engine_of(Engine::Auto, 100, 3) };
        let chosen = vec![auto, engine_of(Engine::Odirect, 101, 3), engine_of(Engine::Mmap, 200, 3)];
        assert_eq!(
            said(chosen),
            "Cold: auto (O_DIRECT) wins, 100 ms (2.0× faster than mmap). 3 runs, all bytes verified."
        );
    }

    #[test]
    fn a_winner_on_a_busy_machine_is_marked() {
        let both = || vec![engine_of(Engine::Odirect, 625, 3), engine_of(Engine::Mmap, 817, 3)];
        let at =
            |pressure| answer(&ComparisonGroup { cpu_pressure: pressure, ..group(both()) }, Naming::default()).unwrap();
        let busy = at(Some(0.62));
        assert_eq!(busy.status, Status::Warn);
        assert!(busy.headline.contains("O_DIRECT wins"), "{}", busy.text());
        assert_eq!(
            busy.conditions,
            "The machine was busy: tasks waited for a CPU in 62 % of the time. 3 runs, all bytes verified."
        );
        for quiet in [None, Some(0.5)] {
            assert_eq!((at(quiet).status, at(quiet).text().contains("busy")), (Status::Pass, false));
        }
    }

    #[test]
    fn auto_and_the_engine_that_it_chose_are_named_with_their_times_if_they_differ() {
        for (auto, chosen) in [(100, 150), (158, 49)] {
            let of_auto = RankedEngine { auto_chose: Some(Engine::Odirect), ..engine_of(Engine::Auto, auto, 3) };
            let mut engines = vec![of_auto, engine_of(Engine::Odirect, chosen, 3), engine_of(Engine::Mmap, 200, 3)];
            engines.sort_by_key(|engine| engine.wall_ns);
            let text = said(engines);
            let times = |ms: u64| units::duration(ms * 1_000_000);
            let differ = format!("auto took {}, and O_DIRECT, which it chose, {}.", times(auto), times(chosen));
            assert!(text.starts_with("Cold: too noisy to name a winner.") && text.contains(&differ), "{text}");
        }
    }

    #[test]
    fn one_run_of_each_engine_names_no_winner() {
        let once = vec![engine_of(Engine::Odirect, 625, 1), engine_of(Engine::Mmap, 817, 1)];
        assert_eq!(
            said(once),
            "Cold: O_DIRECT leads, 625 ms (1.3× faster than mmap). One run each; use --repeat 3 for a winner. All bytes verified."
        );
        let twice = vec![engine_of(Engine::Odirect, 625, 2), engine_of(Engine::Mmap, 817, 2)];
        assert!(said(twice).ends_with("2 runs each; use --repeat 3 for a winner. All bytes verified."));
        let some = vec![engine_of(Engine::Odirect, 625, 3), engine_of(Engine::Mmap, 817, 1)];
        assert!(said(some).contains("mmap ran once; use --repeat 3 for a winner."));
    }

    #[test]
    fn an_interrupted_session_has_no_advice_about_repeats() {
        let engines = vec![engine_of(Engine::Odirect, 625, 3), engine_of(Engine::Mmap, 817, 2)];
        let interrupted = ComparisonGroup { interrupted: true, ..group(engines) };
        let text = answer(&interrupted, Naming::default()).unwrap().text();
        assert!(text.contains("mmap ran 2 times. 2 to 3 runs") && !text.contains("--repeat"), "{text}");
    }

    #[test]
    fn ties_single_engines_and_misses_have_their_sentences() {
        let tie = vec![engine_of(Engine::Odirect, 625, 3), engine_of(Engine::Mmap, 625, 3)];
        assert_eq!(
            said(tie),
            "Cold: O_DIRECT and mmap tie, 625 ms and 625 ms. Their runs overlap. 3 runs, all bytes verified."
        );
        // The same ratio has the same words at each time.
        for (fast, slow, word) in [(100, 120, " tie, "), (100, 146, "too noisy"), (55_800, 81_600, "too noisy")] {
            let slow = RankedEngine { wall_range_ns: (1, u64::MAX), ..engine_of(Engine::Mmap, slow, 3) };
            let text = said(vec![engine_of(Engine::Odirect, fast, 3), slow]);
            assert!(text.contains(word), "{text}");
        }
        let slow = RankedEngine { wall_range_ns: (600_000_000, 3_000_000_000), ..engine_of(Engine::Mmap, 1700, 3) };
        assert_eq!(
            said(vec![engine_of(Engine::Odirect, 625, 3), slow]),
            "Cold: too noisy to compare O_DIRECT and mmap. Their runs overlap, with medians of 625 ms and 1.70 s. Run again on an idle machine. 3 runs, all bytes verified."
        );
        assert_eq!(said(vec![engine_of(Engine::Mmap, 300, 3)]), "Cold: mmap took 300 ms. 3 runs, all bytes verified.");
        let miss = |name: &str| RankedEngine {
            bytes_per_s: 0.0,
            verified: None,
            ..engine_of(Engine::Workload(format!("llmd/{name}/read").parse().unwrap()), 5, 3)
        };
        assert_eq!(said(vec![miss("ram"), miss("gds")]), "Cold reads: every lookup missed. ram 5.00 ms, gds 5.00 ms.");
    }

    #[test]
    fn bytes_that_were_not_verified_and_commands_in_doubt_are_named() {
        let command = || engine_of(Engine::Command("load".into()), 900, 3);
        let own = || engine_of(Engine::Mmap, 300, 3);
        assert!(said(vec![own(), command()]).ends_with("all bytes verified (load: by the command)."));
        let unasked = RankedEngine { verified: None, ..command() };
        assert!(said(vec![own(), unasked]).ends_with("bytes verified except load."));
        let doubted = RankedEngine { in_doubt: true, ..command() };
        assert!(said(vec![own(), doubted]).ends_with("load took 900 ms, but nothing shows that it loaded the model."));
        let none = vec![RankedEngine { verified: None, ..own() }];
        assert!(said(none).ends_with("3 runs, bytes not verified."));
    }

    #[test]
    fn groups_are_named_by_their_models_and_targets() {
        let one = group(vec![engine_of(Engine::Mmap, 300, 3)]);
        let other = ComparisonGroup { model: "q".into(), target: "host memory".into(), ..one.clone() };
        let naming = Naming::of(&[&one, &other]);
        let answer_text = |group| answer(group, naming).map(|answer| answer.headline);
        assert_eq!(answer_text(&one).as_deref(), Some("Cold, m on NVIDIA H200 (GPU 0): mmap took 300 ms."));
        assert_eq!(answer_text(&other).as_deref(), Some("Cold, q on host memory: mmap took 300 ms."));
        assert!(
            answer(&other, Naming::default()).is_some_and(|a| a.conditions.starts_with("3 runs into host memory,"))
        );
    }
}
