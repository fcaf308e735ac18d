//! Advice that is based on the measured times of the runs.

mod alone;
mod facts;
mod several;

use super::compare::ComparisonGroup;
use super::winner::Outcome;
use crate::core::median::of_median_time;
use alone::{first_reads, idle_slots, one_time_cost, per_tensor, registrations};
pub use facts::{Advice, Lesson, RunFacts};
use several::{compat_loses, crossing, disk_decides, pageable, read_again};

/// Advice from the runs. Advice with the largest overhead is first, advice without a measured overhead is last.
/// Failed runs give no advice. Runs of a workload are compared only with one another, because the settings decide
/// what each of them reads.
#[must_use]
pub fn advice(facts: &[RunFacts<'_>], groups: &[ComparisonGroup]) -> Vec<Advice> {
    let mut chosen: Vec<Advice> = Vec::new();
    let middle = middles(facts);
    let several = groups.iter().any(|group| group.model != groups[0].model);
    for fact in middle.iter().filter(|fact| fact.run.engine.direction().is_none()) {
        // Larger blocks also avoid the registrations. If registrations are the smaller overhead, only the larger
        // blocks are advised.
        let (registering, each) = (registrations(fact), per_tensor(fact));
        let smaller_part =
            |r: &Advice| each.as_ref().is_some_and(|each| each.at_stake_ns > r.at_stake_ns.map(|ns| 2 * ns));
        let registering = registering.filter(|r| !smaller_part(r));
        let all = [registering.or(each), one_time_cost(fact), idle_slots(fact), first_reads(fact)];
        chosen.extend(all.into_iter().flatten().map(|advice| of_model(advice, &fact.run.model, several)));
    }
    // The page cache decided the times of a group that was not cold.
    for group in groups.iter().filter(|group| !matches!(group.outcome(), Some(Outcome::NotCold { .. }))) {
        let explained = [compat_loses(group, facts), disk_decides(group), read_again(group), pageable(group)];
        let all = explained.into_iter().flatten().chain(crossing(group, &middle));
        chosen.extend(all.map(|advice| of_model(advice, &group.model, several)));
    }
    chosen.sort_by_key(|a| std::cmp::Reverse(a.at_stake_ns));
    chosen
}

/// Adds the model's name if the session loaded several models.
fn of_model(advice: Advice, model: &str, several: bool) -> Advice {
    Advice { model: several.then(|| model.to_owned()), ..advice }
}

/// One run of each engine, cache state and model: the repeat with the median time. Results tables show the same time.
fn middles<'f, 'r>(facts: &'f [RunFacts<'r>]) -> Vec<&'f RunFacts<'r>> {
    let key = |f: &RunFacts<'r>| (&f.run.engine, f.run.cache, &f.run.model);
    let mut kinds: Vec<Vec<&RunFacts<'_>>> = Vec::new();
    for fact in facts.iter().filter(|f| f.run.error.is_none() && f.run.wall_ns > 0) {
        match kinds.iter_mut().find(|kind| kind.first().is_some_and(|first| key(first) == key(fact))) {
            Some(kind) => kind.push(fact),
            None => kinds.push(vec![fact]),
        }
    }
    kinds.into_iter().filter_map(|kind| of_median_time(kind, |fact| fact.run.wall_ns)).collect()
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::compare;
    use crate::analysis::compare::tests::run;
    use crate::core::{
        CacheState, Engine, Phase, PhaseTimes, Route, RouteCounts, RunResult, Setting, SettingName, Span,
        WorkloadResult,
    };

    fn with_phases(mut run: RunResult, phases: &[(Phase, u64)]) -> RunResult {
        run.phases = PhaseTimes::default();
        for (phase, ns) in phases {
            run.phases.add(*phase, *ns);
        }
        run
    }

    /// The engine and the lesson of each piece of advice.
    fn lessons(facts: &[RunFacts<'_>]) -> Vec<(Option<Engine>, Lesson)> {
        let runs: Vec<&RunResult> = facts.iter().map(|f| f.run).collect();
        advice(facts, &compare(&runs)).into_iter().map(|a| (a.engine, a.lesson)).collect()
    }

    fn fact(run: &RunResult, registrations: u64) -> RunFacts<'_> {
        RunFacts { run, registrations, tensors: 311, first_reads_ns: 0, cost: None }
    }

    #[test]
    fn many_registrations_that_take_much_time_are_named() {
        let slow = run(Engine::GdsPerTensor, CacheState::Hot, 0, 540_000_000);
        let slow = with_phases(slow, &[(Phase::RegisterBuffer, 160_000_000), (Phase::Deregister, 70_000_000)]);
        // The first run is an outlier: the median run represents its repeats.
        let again = RunResult { repeat: 1, ..slow.clone() };
        let first = RunResult { wall_ns: 900_000_000, ..slow.clone() };
        let runs = [fact(&first, 311), fact(&slow, 311), fact(&again, 311)];
        let lesson = Lesson::Registrations { count: 311, ns: 230_000_000, pinned_each_bytes: None };
        assert_eq!(lessons(&runs), [(Some(Engine::GdsPerTensor), lesson)]);
        let all: Vec<&RunResult> = runs.iter().map(|f| f.run).collect();
        assert_eq!(advice(&runs, &compare(&all))[0].wall_ns, Some(540_000_000));
    }

    #[test]
    fn what_each_registration_pins_in_compat_mode_is_named_if_less_would_do() {
        let pinned = |route, kib| {
            let slow = run(Engine::GdsPerTensor, CacheState::Hot, 0, 540_000_000);
            let mut slow = with_phases(slow, &[(Phase::RegisterBuffer, 230_000_000)]);
            slow.settings = [(SettingName::Engine(Setting::MaxDirectIoSizeKb), kib)].into();
            slow.route = Some(RouteCounts::without_libcufile(route, None, String::new(), true));
            match lessons(&[fact(&slow, 311)]).as_slice() {
                [(_, Lesson::Registrations { pinned_each_bytes, .. })] => *pinned_each_bytes,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(pinned(Route::Compat, 16384), Some(16 << 20));
        assert_eq!(pinned(Route::Compat, 1024), None);
        assert_eq!(pinned(Route::Nvfs, 16384), None);
    }

    #[test]
    fn figures_that_do_not_support_advice_give_none() {
        let cheap = run(Engine::GdsPerTensor, CacheState::Hot, 0, 540_000_000);
        let cheap = with_phases(cheap, &[(Phase::RegisterBuffer, 20_000_000)]);
        assert!(lessons(&[fact(&cheap, 311)]).is_empty());
        let mut failed = with_phases(cheap.clone(), &[(Phase::RegisterBuffer, 500_000_000)]);
        failed.error = Some("gone".into());
        assert!(lessons(&[fact(&failed, 311)]).is_empty());
    }

    #[test]
    fn compat_is_only_blamed_if_it_is_proven_and_explains() {
        let on_gpu =
            |engine, repeat, ns| RunResult { target: "a GPU".into(), ..run(engine, CacheState::Hot, repeat, ns) };
        let fast = on_gpu(Engine::Pread, 0, 100);
        let mut slow = on_gpu(Engine::GdsSlab, 0, 310);
        let counts = RouteCounts {
            route: Route::Compat,
            nvfs_reads: None,
            p2p_reads: None,
            posix_reads: Some(7),
            source: "cuFile level-3 statistics".into(),
            proven: true,
        };
        let unproven = RunResult { route: Some(RouteCounts { proven: false, ..counts.clone() }), ..slow.clone() };
        slow.route = Some(counts.clone());
        let to_host = RunResult { target: "host memory".into(), ..slow.clone() };
        assert!(lessons(&[fact(&fast, 1), fact(&unproven, 1)]).is_empty());
        let blamed = |engine: Engine, ratio, fastest| vec![(Some(engine), Lesson::Compat { ratio, fastest })];
        assert_eq!(lessons(&[fact(&fast, 1), fact(&slow, 1)]), blamed(Engine::GdsSlab, 3.1, Engine::Pread));
        // Host memory has no other route. If the winner also uses compat mode, compat mode is not the reason. If the
        // runs overlap, there is no difference to explain.
        let fast_to_host = run(Engine::Pread, CacheState::Hot, 0, 100);
        assert!(lessons(&[fact(&fast_to_host, 1), fact(&to_host, 1)]).is_empty());
        let nixl = RunResult { route: Some(counts), ..on_gpu(Engine::Nixl(crate::core::NixlPlugin::Gds), 0, 100) };
        assert!(lessons(&[fact(&nixl, 1), fact(&slow, 1)]).is_empty());
        let (lucky, unlucky) = (RunResult { repeat: 1, ..slow.clone() }, on_gpu(Engine::Pread, 1, 320));
        assert!(lessons(&[fact(&fast, 1), fact(&unlucky, 1), fact(&slow, 1), fact(&lucky, 1)]).is_empty());
        // A copy within host memory says nothing about a disk.
        let lane =
            |name: &str, run: &RunResult| RunResult { engine: Engine::Workload(name.parse().unwrap()), ..run.clone() };
        let disk = lane("ucm/disk/read", &on_gpu(Engine::Pread, 0, 200));
        let (ram, gds) = (lane("ucm/ram/read", &fast), lane("ucm/gds/read", &slow));
        let lessons_of = lessons(&[fact(&ram, 1), fact(&disk, 1), fact(&gds, 1)]);
        assert_eq!(lessons_of, blamed(gds.engine.clone(), 1.55, disk.engine.clone()));
        // A write that ends in the page cache is faster for another reason.
        let ends = |run: &RunResult, in_page_cache| RunResult {
            workload: Some(WorkloadResult { in_page_cache, ..WorkloadResult::default() }),
            ..run.clone()
        };
        let of = |cached| lessons(&[fact(&ends(&disk, cached), 1), fact(&ends(&gds, false), 1)]);
        assert_eq!((of(true).len(), of(false).len()), (0, 1));
    }

    #[test]
    fn cold_engines_that_take_the_same_time_are_bound_by_the_disk() {
        let lessons_of = |walls: Vec<(Engine, u64)>| {
            let chose = |e: &Engine| {
                (*e == Engine::Auto).then_some(crate::core::AutoChoice { engine: Engine::Odirect, reason: None })
            };
            let runs: Vec<RunResult> = walls
                .into_iter()
                .map(|(e, t)| RunResult { auto_choice: chose(&e), ..run(e, CacheState::Cold, 0, t) })
                .collect();
            lessons(&runs.iter().map(|run| RunFacts::new(run, &[], 9, None)).collect::<Vec<_>>())
        };
        let alike = vec![(Engine::Mmap, 104), (Engine::Pread, 100), (Engine::Odirect, 101), (Engine::GdsSlab, 150)];
        let engines = vec![Engine::Pread, Engine::Odirect, Engine::Mmap];
        assert_eq!(lessons_of(alike), [(None, Lesson::DiskBound { engines, bytes_per_s: 1e10 })]);
        // The page cache, not the disk, had the bytes.
        let cached = [Engine::Mmap, Engine::Pread, Engine::Odirect]
            .map(|e| RunResult { cache_resident_before_fraction: Some(1.0), ..run(e, CacheState::Cold, 0, 100) });
        assert!(lessons(&cached.each_ref().map(|run| fact(run, 0))).is_empty());
        // auto is a second sample of the engine that it chose, and variants of a workload are not engines.
        assert!(lessons_of(vec![(Engine::Auto, 100), (Engine::Odirect, 101), (Engine::Pread, 102)]).is_empty());
        let lane = |name: &str| Engine::Workload(format!("lmcache/disk:prefetch_factor={name}/read").parse().unwrap());
        assert!(lessons_of(vec![(lane("0"), 100), (lane("1"), 101), (lane("2"), 102)]).is_empty());
    }

    #[test]
    fn the_most_at_stake_comes_first() {
        let on_gpu = |engine, ns| RunResult { target: "a GPU".into(), ..run(engine, CacheState::Hot, 0, ns) };
        let many = with_phases(on_gpu(Engine::GdsPerTensor, 500_000_000), &[(Phase::RegisterBuffer, 200_000_000)]);
        let runs = [
            many,
            on_gpu(Engine::Pread, 40_000_000),
            on_gpu(Engine::Odirect, 700_000_000),
            on_gpu(Engine::Mmap, 90_000_000),
        ];
        let lessons_of = lessons(&runs.each_ref().map(|run| fact(run, 300)));
        let engines: Vec<Engine> = lessons_of.into_iter().filter_map(|(engine, _)| engine).collect();
        assert_eq!(engines, [Engine::Odirect, Engine::GdsPerTensor, Engine::Mmap]);
    }

    #[test]
    fn first_reads_that_take_much_longer_are_named() {
        let block = |slot, start_ns, end_ns| Span {
            slot,
            phase: Phase::Transfer,
            tensor: None,
            start_ns,
            end_ns,
            bytes: 1 << 22,
            offset: 0,
        };
        let mut spans = vec![block(0, 0, 31_000_000), block(1, 0, 31_000_000)];
        spans.extend((31..70).flat_map(|t| [0, 1].map(|slot| block(slot, t * 1_000_000, (t + 1) * 1_000_000))));
        let slow = RunResult { slots: 2, ..run(Engine::GdsSlab, CacheState::Hot, 0, 70_000_000) };
        let lessons_of = lessons(&[RunFacts::new(&slow, &spans, 9, None)]);
        assert_eq!(lessons_of, [(Some(Engine::GdsSlab), Lesson::FirstReads { slots: 2, ns: 30_000_000 })]);
        let long = RunResult { wall_ns: 900_000_000, ..slow };
        assert!(lessons(&[RunFacts::new(&long, &spans, 9, None)]).is_empty());
    }

    #[test]
    fn hot_o_direct_and_mmap_get_their_reasons() {
        let lessons_of = |walls: [(Engine, u64); 3], target: &str| {
            let runs: Vec<RunResult> = walls
                .into_iter()
                .map(|(e, t)| RunResult { target: target.into(), ..run(e, CacheState::Hot, 0, t) })
                .collect();
            lessons(&runs.iter().map(|run| RunFacts::new(run, &[], 9, None)).collect::<Vec<_>>())
        };
        let past =
            |ratio, fastest, use_auto| (Some(Engine::Odirect), Lesson::ReadsPastTheCache { ratio, fastest, use_auto });
        let pageable = (Some(Engine::Mmap), Lesson::PageableCopies { ratio: 6.0, fastest: Engine::Pread });
        let three = [(Engine::Mmap, 600), (Engine::Pread, 100), (Engine::Odirect, 1000)];
        assert_eq!(lessons_of(three, "NVIDIA H200"), [past(10.0, Engine::Pread, true), pageable]);
        // `auto` ran and was not faster, so it is not advised.
        let auto = [(Engine::Mmap, 100), (Engine::Odirect, 160), (Engine::Auto, 170)];
        assert_eq!(lessons_of(auto, "host memory"), [past(1.6, Engine::Mmap, false)]);
    }

    #[test]
    fn advice_has_its_model_if_several_were_loaded() {
        let of = |model: &str, engine, cache, ns| RunResult { model: model.into(), ..run(engine, cache, 0, ns) };
        let session = |model| {
            let hot = [(Engine::Pread, 100), (Engine::Odirect, 1000)].map(|(e, t)| of(model, e, CacheState::Hot, t));
            let cold = [Engine::Mmap, Engine::Pread, Engine::Odirect].map(|e| of(model, e, CacheState::Cold, 100));
            hot.into_iter().chain(cold)
        };
        let models = |runs: Vec<RunResult>| {
            let facts: Vec<RunFacts<'_>> = runs.iter().map(|r| RunFacts::new(r, &[], 9, None)).collect();
            let all = advice(&facts, &compare(&runs.iter().collect::<Vec<_>>()));
            all.into_iter().map(|advice| advice.model).collect::<Vec<_>>()
        };
        assert_eq!(models(session("q06").collect()), [None, None]);
        let mut two: Vec<Option<String>> = models(session("q06").chain(session("q7b")).collect());
        two.sort();
        assert_eq!(two.iter().flatten().collect::<Vec<_>>(), ["q06", "q06", "q7b", "q7b"]);
    }

    #[test]
    fn degenerate_runs_teach_nothing_and_break_nothing() {
        let empty = RunResult { bytes: 0, wall_ns: 0, slots: 0, ..run(Engine::GdsSlab, CacheState::Hot, 0, 1) };
        let one = run(Engine::GdsPerTensor, CacheState::Hot, 0, 1);
        let facts = [RunFacts::new(&empty, &[], 0, None), RunFacts::new(&one, &[], 1, None)];
        assert!(lessons(&facts).is_empty());
        assert!(advice(&[], &[]).is_empty());
    }
}
