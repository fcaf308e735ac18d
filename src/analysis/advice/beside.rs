//! What runs teach beside one another: why an engine loses to the fastest.

use super::facts::{Advice, RunFacts, named};
use crate::analysis::compare::{Comparison, Standing};
use crate::analysis::cost::crossover;
use crate::domain::{CacheState, Engine, Route, Target, units};

/// Engines closer than this are equally fast.
const SAME: f64 = 1.05;
/// From here on an engine is another class of slow.
const TWICE: f64 = 2.0;

/// O_DIRECT goes to the disk for what the page cache holds.
pub(super) fn read_again(comparison: &Comparison) -> Option<Advice> {
    let fastest = comparison.fastest().filter(|s| s.engine != Engine::Direct && !s.engine.opens_cufile())?;
    let direct = slower(comparison, fastest).find(|s| s.engine == Engine::Direct)?;
    // auto is a choice among engines, not a promise: where it ran and was no faster, it is no way out.
    let auto = comparison.standings.iter().find(|s| s.engine == Engine::Auto);
    let way_out = match auto {
        Some(auto) if !auto.clearly_ahead_of(direct) => format!("Use {} here.", fastest.engine),
        _ => "Use auto, which looks there first.".to_owned(),
    };
    (comparison.cache == CacheState::Hot).then(|| Advice {
        engine: Some(Engine::Direct),
        cache: Some(CacheState::Hot),
        text: format!(
            "direct (hot) is {}× slower than {}: it reads from the disk what lies in the page cache. {way_out}",
            units::three_digits(direct.ratio_to_fastest),
            fastest.engine
        ),
        at_stake_ns: Some(direct.wall_ns.saturating_sub(fastest.wall_ns)),
        explains: true,
        crossing: false,
    })
}

/// One thread that copies from memory which is not pinned.
pub(super) fn pageable(comparison: &Comparison) -> Option<Advice> {
    let fastest = comparison.fastest().filter(|s| matches!(s.engine, Engine::Pread | Engine::Auto))?;
    let mmap = comparison.standings.iter().find(|s| s.engine == Engine::Mmap && s.ratio_to_fastest > TWICE)?;
    let on_gpu = comparison.target != Target::Host.to_string();
    (comparison.cache == CacheState::Hot && on_gpu).then(|| Advice {
        engine: Some(Engine::Mmap),
        cache: Some(CacheState::Hot),
        text: format!(
            "mmap (hot) is {}× slower than {}: one thread copies from memory that is not pinned, so the driver copies every byte once more. Read into a small \
             pinned ring over several threads.",
            units::three_digits(mmap.ratio_to_fastest),
            fastest.engine
        ),
        at_stake_ns: Some(mmap.wall_ns.saturating_sub(fastest.wall_ns)),
        explains: true, crossing: false,
    })
}

/// Engines behind the fastest by more than noise.
fn slower<'a>(comparison: &'a Comparison, fastest: &'a Standing) -> impl Iterator<Item = &'a Standing> {
    comparison.standings.iter().filter(|s| s.ratio_to_fastest > SAME && fastest.clearly_ahead_of(s))
}

/// Compat explains why cuFile loses only against what went another way, to a target that has a straight one: not to host memory, and not against a copy in
/// host memory that no disk is behind.
pub(super) fn compat_loses(comparison: &Comparison, facts: &[RunFacts<'_>]) -> Option<Advice> {
    if comparison.target == Target::Host.to_string() {
        return None;
    }
    let through_compat = |engine: &Engine, proven: bool| {
        facts.iter().any(|f| {
            f.run.engine == *engine
                && f.run.cache == comparison.cache
                && f.run.model == comparison.model
                && f.run.target == comparison.target
                && f.run.route.as_ref().is_some_and(|r| r.route == Route::Compat && (r.proven || !proven))
        })
    };
    let from_disk =
        |s: &&Standing| !matches!(&s.engine, Engine::Workload(name) if name.split('/').nth(1) == Some("ram"));
    let fastest = comparison.standings.iter().find(from_disk)?;
    if fastest.engine.opens_cufile() || through_compat(&fastest.engine, false) {
        return None;
    }
    let slower = slower(comparison, fastest).find(|s| through_compat(&s.engine, true))?;
    let ratio = slower.wall_ns as f64 / fastest.wall_ns.max(1) as f64;
    if ratio <= SAME {
        return None;
    }
    let what = if slower.engine.direction() == Some("write") { "writes" } else { "reads" };
    Some(Advice {
        engine: Some(slower.engine.clone()),
        cache: Some(comparison.cache),
        text: format!(
            "{} is {}× slower than {}: its {what} went through compat, so through host memory like all others. Use {} here until cuFile has a direct route.",
            named(&slower.engine, comparison.cache),
            units::three_digits(ratio),
            fastest.engine.label(),
            fastest.engine.label()
        ),
        at_stake_ns: Some(slower.wall_ns.saturating_sub(fastest.wall_ns)),
        explains: true,
        crossing: false,
    })
}

/// Cold loads that all took the same time. Of `auto` and what it took one is counted; and workloads pace themselves, by their computing too.
pub(super) fn disk_decides(comparison: &Comparison) -> Option<Advice> {
    let level: Vec<&Standing> = comparison.standings.iter().filter(|s| s.ratio_to_fastest <= SAME).collect();
    let twin = |s: &&&Standing| s.engine == Engine::Auto && level.iter().any(|other| s.is_twin_of(other));
    let close: Vec<String> = level.iter().filter(|s| !twin(s)).map(|s| s.engine.label()).collect();
    let loads = level.iter().all(|s| s.engine.direction().is_none() && !s.in_doubt);
    let (last, others) = close.split_last()?;
    (comparison.cache == CacheState::Cold && loads && close.len() >= 3).then(|| Advice {
        engine: None,
        cache: Some(CacheState::Cold),
        text: format!(
            "Cold, {} and {last} are within 5 % of each other at {}: between them the disk decides, not the engine.",
            others.join(", "),
            units::rate(comparison.standings[0].bytes_per_s)
        ),
        at_stake_ns: None,
        explains: true,
        crossing: false,
    })
}

pub(super) fn crossing(comparison: &Comparison, facts: &[&RunFacts<'_>]) -> Vec<Advice> {
    let cost = |engine: &Engine| {
        facts
            .iter()
            .find(|f| {
                f.run.engine == *engine
                    && f.run.cache == comparison.cache
                    && f.run.model == comparison.model
                    && f.cost.is_some()
            })
            .and_then(|f| f.cost.as_ref())
    };
    let Some(mmap) = cost(&Engine::Mmap) else { return Vec::new() };
    let mut told = Vec::new();
    for standing in comparison.standings.iter().filter(|s| s.engine.uses_cufile()) {
        let Some(cross) = cost(&standing.engine).and_then(|c| crossover(mmap, c)) else { continue };
        if cross.first_wins_below && !cross.extrapolated {
            told.push(Advice {
                engine: Some(standing.engine.clone()),
                cache: Some(comparison.cache),
                text: format!(
                    "Tensors under {} load faster by mmap than by {} ({}).",
                    units::bytes(cross.bytes),
                    standing.engine,
                    comparison.cache
                ),
                at_stake_ns: None,
                explains: false,
                crossing: true,
            });
        }
    }
    told
}
