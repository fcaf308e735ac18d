//! Advice from several runs: why an engine is slower than the fastest.

use super::facts::{Advice, Lesson, RunFacts};
use crate::analysis::compare::{ComparisonGroup, RankedEngine};
use crate::analysis::cost::crossover;
use crate::core::{CacheState, Engine, Route, TargetName};

/// Engines whose times differ by less than this factor count as equally fast.
const SAME: f64 = 1.05;
/// An engine that is slower by at least this factor gets its own advice.
const TWICE: f64 = 2.0;

/// `O_DIRECT` reads from the disk although the page cache holds the file.
pub(super) fn read_again(group: &ComparisonGroup) -> Option<Advice> {
    let fastest = group.fastest().filter(|s| s.engine != Engine::Odirect && !s.engine.opens_cufile())?;
    let direct = slower(group, fastest).find(|s| s.engine == Engine::Odirect)?;
    // `auto` chooses one of the engines. If it ran and was not faster, it is not advised.
    let auto = group.engines.iter().find(|s| s.engine == Engine::Auto);
    let use_auto = auto.is_none_or(|auto| auto.clearly_ahead_of(direct));
    (group.cache == CacheState::Hot).then(|| {
        let (ratio, fastest_engine) = (direct.ratio_to_fastest, fastest.engine.clone());
        explained(group, direct, fastest, Lesson::ReadsPastTheCache { ratio, fastest: fastest_engine, use_auto })
    })
}

/// Advice for an engine that is slower than the fastest.
fn explained(group: &ComparisonGroup, slower: &RankedEngine, fastest: &RankedEngine, lesson: Lesson) -> Advice {
    let at_stake_ns = Some(slower.wall_ns.saturating_sub(fastest.wall_ns));
    Advice { at_stake_ns, explains: true, ..Advice::of(&slower.engine, group.cache, lesson) }
}

/// One thread copies from memory that is not pinned.
pub(super) fn pageable(group: &ComparisonGroup) -> Option<Advice> {
    let fastest = group.fastest().filter(|s| matches!(s.engine, Engine::Pread | Engine::Auto))?;
    let mmap = group.engines.iter().find(|s| s.engine == Engine::Mmap && s.ratio_to_fastest > TWICE)?;
    let on_gpu = group.target != TargetName::Host;
    (group.cache == CacheState::Hot && on_gpu).then(|| {
        let lesson = Lesson::PageableCopies { ratio: mmap.ratio_to_fastest, fastest: fastest.engine.clone() };
        explained(group, mmap, fastest, lesson)
    })
}

/// The engines that are slower than the fastest by more than noise.
fn slower<'a>(group: &'a ComparisonGroup, fastest: &'a RankedEngine) -> impl Iterator<Item = &'a RankedEngine> {
    group.engines.iter().filter(|s| s.ratio_to_fastest > SAME && fastest.clearly_ahead_of(s))
}

/// Compat mode explains a slow cuFile run only if the faster engine used another route and the target supports a
/// direct route. Host memory does not, and neither does a copy of pages in host memory.
pub(super) fn compat_loses(group: &ComparisonGroup, facts: &[RunFacts<'_>]) -> Option<Advice> {
    if group.target == TargetName::Host {
        return None;
    }
    let through_compat = |engine: &Engine, proven: bool| {
        facts.iter().any(|f| {
            f.run.engine == *engine
                && f.run.cache == group.cache
                && f.run.model == group.model
                && f.run.target == group.target
                && f.run.route.as_ref().is_some_and(|r| r.route == Route::Compat && (r.proven || !proven))
        })
    };
    let from_disk = |s: &&RankedEngine| !s.engine.is_in_memory();
    let fastest = group.engines.iter().find(from_disk)?;
    if fastest.engine.opens_cufile() || through_compat(&fastest.engine, false) {
        return None;
    }
    // A write that ends in the page cache is faster than one that ends on the disk, whatever the route.
    let same_end = |s: &RankedEngine| s.in_page_cache || !fastest.in_page_cache;
    let slower = slower(group, fastest).find(|s| same_end(s) && through_compat(&s.engine, true))?;
    let ratio = slower.wall_ns as f64 / fastest.wall_ns.max(1) as f64;
    if ratio <= SAME {
        return None;
    }
    let lesson = Lesson::Compat { ratio, fastest: fastest.engine.clone() };
    Some(explained(group, slower, fastest, lesson))
}

/// All cold loads took the same time. `auto` and the engine that it chose count once. Workloads are left out: their
/// settings and their computation limit their speed.
pub(super) fn disk_decides(group: &ComparisonGroup) -> Option<Advice> {
    let level: Vec<&RankedEngine> = group.engines.iter().filter(|s| s.ratio_to_fastest <= SAME).collect();
    let twin = |s: &&&RankedEngine| s.engine == Engine::Auto && level.iter().any(|other| s.is_twin_of(other));
    let engines: Vec<Engine> = level.iter().filter(|s| !twin(s)).map(|s| s.engine.clone()).collect();
    let loads = level.iter().all(|s| s.engine.direction().is_none() && !s.in_doubt);
    let bytes_per_s = group.fastest()?.bytes_per_s;
    (group.cache == CacheState::Cold && loads && engines.len() >= 3).then_some(Advice {
        engine: None,
        cache: Some(CacheState::Cold),
        model: None,
        lesson: Lesson::DiskBound { engines, bytes_per_s },
        wall_ns: None,
        at_stake_ns: None,
        explains: true,
    })
}

pub(super) fn crossing(group: &ComparisonGroup, facts: &[&RunFacts<'_>]) -> Vec<Advice> {
    let cost = |engine: &Engine| {
        facts
            .iter()
            .find(|f| {
                f.run.engine == *engine && f.run.cache == group.cache && f.run.model == group.model && f.cost.is_some()
            })
            .and_then(|f| f.cost.as_ref())
    };
    let Some(mmap) = cost(&Engine::Mmap) else { return Vec::new() };
    let mut kept = Vec::new();
    for ranked in group.engines.iter().filter(|s| s.engine.uses_cufile()) {
        let Some(cross) = cost(&ranked.engine).and_then(|c| crossover(mmap, c)) else { continue };
        if cross.first_wins_below && !cross.extrapolated {
            kept.push(Advice::of(&ranked.engine, group.cache, Lesson::Crossover { bytes: cross.bytes }));
        }
    }
    kept
}
