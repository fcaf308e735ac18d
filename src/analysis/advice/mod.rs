//! Advice in words, and only where the figures of the runs support it.

mod alone;
mod beside;
mod facts;

use super::compare::Comparison;
use super::of_median_time;
use alone::{first_reads, idle_slots, one_time_cost, per_tensor, registrations};
use beside::{compat_loses, crossing, disk_decides, pageable, read_again};
pub use facts::{Advice, RunFacts};

/// What the runs teach, the most costly first, and last what costs nothing that was measured. Runs that failed teach nothing; of the lanes of a workload
/// only what they teach beside one another is told: what each does is what its settings ask for.
#[must_use]
pub fn advice(facts: &[RunFacts<'_>], comparisons: &[Comparison]) -> Vec<Advice> {
    let mut told: Vec<Advice> = Vec::new();
    let middle = middles(facts);
    let several = comparisons.iter().any(|comparison| comparison.model != comparisons[0].model);
    for fact in middle.iter().filter(|fact| fact.run.engine.direction().is_none()) {
        // Reading in larger blocks spares the registrations too: where they are the smaller part, that is the advice.
        let (registering, each) = (registrations(fact), per_tensor(fact));
        let smaller_part =
            |r: &Advice| each.as_ref().is_some_and(|each| each.at_stake_ns > r.at_stake_ns.map(|ns| 2 * ns));
        let registering = registering.filter(|r| !smaller_part(r));
        let all = [registering.or(each), one_time_cost(fact), idle_slots(fact), first_reads(fact)];
        told.extend(all.into_iter().flatten().map(|advice| of_model(advice, &fact.run.model, several)));
    }
    for comparison in comparisons {
        let beside =
            [compat_loses(comparison, facts), disk_decides(comparison), read_again(comparison), pageable(comparison)];
        let all = beside.into_iter().flatten().chain(crossing(comparison, &middle));
        told.extend(all.map(|advice| of_model(advice, &comparison.model, several)));
    }
    told.sort_by_key(|a| std::cmp::Reverse(a.at_stake_ns));
    told
}

/// With the model's name beside the cache state, where several were loaded.
fn of_model(advice: Advice, model: &str, several: bool) -> Advice {
    let Some(cache) = advice.cache.filter(|_| several) else { return advice };
    let named = advice.text.replacen(&format!("({cache})"), &format!("({cache}, {model})"), 1);
    // Of engines that are all alike, no one is named with a state.
    Advice { text: named.replacen("Cold, ", &format!("Cold ({model}), "), 1), ..advice }
}

/// One run of each engine, cache state and model: repeats say the same again, so the one in the middle, whose time is the one that is told, speaks for all.
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
mod tests {
    use super::*;
    use crate::analysis::compare;
    use crate::analysis::compare::tests::run;
    use crate::domain::{AutoChoice, CacheState, Engine, Phase, PhaseTimes, Route, RouteCounts, RunResult, Span};

    fn with_phases(mut run: RunResult, phases: &[(Phase, u64)]) -> RunResult {
        run.phases = PhaseTimes::default();
        for (phase, ns) in phases {
            run.phases.add(*phase, *ns);
        }
        run
    }

    fn texts(facts: &[RunFacts<'_>]) -> Vec<String> {
        let runs: Vec<&RunResult> = facts.iter().map(|f| f.run).collect();
        advice(facts, &compare(&runs)).into_iter().map(|a| a.text).collect()
    }

    #[test]
    fn many_registrations_that_cost_much_are_named_with_their_cost() {
        let slow = run(Engine::GdsPerTensor, CacheState::Hot, 0, 540_000_000);
        let slow = with_phases(slow, &[(Phase::RegisterBuffer, 160_000_000), (Phase::Deregister, 70_000_000)]);
        // The first run was an outlier: what is told is the one in the middle.
        let again = RunResult { repeat: 1, ..slow.clone() };
        let first = RunResult { wall_ns: 900_000_000, ..slow.clone() };
        let fact = |run| RunFacts { run, registrations: 311, tensors: 311, first_reads_ns: 0, cost: None };
        assert_eq!(
            texts(&[fact(&first), fact(&slow), fact(&again)]),
            ["gds-per-tensor (hot): 311 registrations cost 230 ms of 540 ms: register once."]
        );
    }

    #[test]
    fn what_each_registration_pins_in_compat_mode_is_named_where_less_would_do() {
        let told = |route, kib| {
            let slow = run(Engine::GdsPerTensor, CacheState::Hot, 0, 540_000_000);
            let mut slow = with_phases(slow, &[(Phase::RegisterBuffer, 230_000_000)]);
            slow.knobs = [("max_direct_io_size_kb".to_owned(), kib)].into();
            slow.route = Some(RouteCounts {
                route,
                nvfs_reads: None,
                p2p_reads: None,
                posix_reads: None,
                source: String::new(),
                proven: true,
            });
            texts(&[RunFacts { run: &slow, registrations: 311, tensors: 311, first_reads_ns: 0, cost: None }])[0]
                .clone()
        };
        let less = told(Route::Compat, 16384);
        assert!(
            less.ends_with(
                "register once, or pin less: in compat mode each pins 16.0 MiB, whatever it registers; see --set \
            max_direct_io_size_kb=1024, which cufile.json can keep."
            ),
            "{less}"
        );
        assert!(told(Route::Compat, 1024).ends_with("register once."));
        assert!(told(Route::Nvfs, 16384).ends_with("register once."));
    }

    #[test]
    fn figures_that_do_not_support_advice_give_none() {
        let cheap = with_phases(
            run(Engine::GdsPerTensor, CacheState::Hot, 0, 540_000_000),
            &[(Phase::RegisterBuffer, 20_000_000)],
        );
        assert!(
            texts(&[RunFacts { run: &cheap, registrations: 311, tensors: 311, first_reads_ns: 0, cost: None }])
                .is_empty()
        );
        let mut failed = with_phases(cheap.clone(), &[(Phase::RegisterBuffer, 500_000_000)]);
        failed.error = Some("gone".into());
        assert!(
            texts(&[RunFacts { run: &failed, registrations: 311, tensors: 311, first_reads_ns: 0, cost: None }])
                .is_empty()
        );
    }

    #[test]
    fn compat_is_only_blamed_where_it_is_proven_and_explains() {
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
        let told = |slow| {
            let plain = |run| RunFacts { run, registrations: 1, tensors: 9, first_reads_ns: 0, cost: None };
            texts(&[plain(&fast), plain(slow)])
        };
        assert!(told(&unproven).is_empty());
        let told = told(&slow);
        assert!(told[0].contains("3.10× slower than pread") && told[0].contains("compat"), "{told:?}");
        let plain = |run| RunFacts { run, registrations: 1, tensors: 9, first_reads_ns: 0, cost: None };
        // Host memory has no other way; what wins by compat too wins by something else; ranges that touch have no reason; nor is host memory a disk.
        let fast_to_host = run(Engine::Pread, CacheState::Hot, 0, 100);
        assert!(texts(&[plain(&fast_to_host), plain(&to_host)]).is_empty());
        let nixl = RunResult { route: Some(counts), ..on_gpu(Engine::Nixl(crate::domain::NixlPlugin::Gds), 0, 100) };
        assert!(texts(&[plain(&nixl), plain(&slow)]).is_empty());
        let (lucky, unlucky) = (RunResult { repeat: 1, ..slow.clone() }, on_gpu(Engine::Pread, 1, 320));
        assert!(texts(&[plain(&fast), plain(&unlucky), plain(&slow), plain(&lucky)]).is_empty());
        let lane = |name: &str, run: &RunResult| RunResult { engine: Engine::Workload(name.to_owned()), ..run.clone() };
        let (ram, disk, gds) = (
            lane("ucm/ram/read", &fast),
            lane("ucm/disk/read", &on_gpu(Engine::Pread, 0, 200)),
            lane("ucm/gds/read", &slow),
        );
        let told = texts(&[plain(&ram), plain(&disk), plain(&gds)]);
        assert!(
            matches!(told.as_slice(), [only] if only.contains("1.55× slower than disk: its reads went")),
            "{told:?}"
        );
        let written = |name: &str, run| lane(&format!("ucm/{name}/write"), run);
        let (disk, gds) = (written("disk", &on_gpu(Engine::Pread, 0, 200)), written("gds", &slow));
        assert!(texts(&[plain(&disk), plain(&gds)])[0].contains("its writes went through compat"));
    }

    #[test]
    fn cold_engines_that_are_all_alike_are_told_that_the_disk_decides() {
        let told = |walls: Vec<(Engine, u64)>| {
            let took = |e: &Engine| (*e == Engine::Auto).then_some(AutoChoice { engine: Engine::Direct, reason: None });
            let runs: Vec<RunResult> = walls
                .into_iter()
                .map(|(e, t)| RunResult { auto_choice: took(&e), ..run(e, CacheState::Cold, 0, t) })
                .collect();
            texts(&runs.iter().map(|run| RunFacts::new(run, &[], 9, None)).collect::<Vec<_>>())
        };
        let alike = vec![(Engine::Mmap, 104), (Engine::Pread, 100), (Engine::Direct, 101), (Engine::GdsSlab, 150)];
        assert_eq!(
            told(alike),
            [
                "Cold, pread, direct and mmap are within 5 % of each other at 10.0 GB/s: between them the disk decides, not the engine."
            ]
        );
        // auto is what it took once more, and variants of a workload are no engines.
        assert!(told(vec![(Engine::Auto, 100), (Engine::Direct, 101), (Engine::Pread, 102)]).is_empty());
        let lane = |name: &str| Engine::Workload(format!("lmcache/disk:prefetch_factor={name}/read"));
        assert!(told(vec![(lane("0"), 100), (lane("1"), 101), (lane("2"), 102)]).is_empty());
    }

    #[test]
    fn what_costs_most_is_told_first_whoever_says_it() {
        let on_gpu = |engine, ns| RunResult { target: "a GPU".into(), ..run(engine, CacheState::Hot, 0, ns) };
        let many = with_phases(on_gpu(Engine::GdsPerTensor, 500_000_000), &[(Phase::RegisterBuffer, 200_000_000)]);
        let runs = [
            many,
            on_gpu(Engine::Pread, 40_000_000),
            on_gpu(Engine::Direct, 700_000_000),
            on_gpu(Engine::Mmap, 90_000_000),
        ];
        let fact = |run| RunFacts { run, registrations: 300, tensors: 300, first_reads_ns: 0, cost: None };
        let told = texts(&runs.each_ref().map(fact));
        let order = ["direct (hot)", "gds-per-tensor (hot)", "mmap (hot)"];
        assert!(told.len() == 3 && told.iter().zip(order).all(|(told, begins)| told.starts_with(begins)), "{told:?}");
    }

    #[test]
    fn what_the_first_reads_cost_is_told_where_it_weighs() {
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
        let told = texts(&[RunFacts::new(&slow, &spans, 9, None)]);
        assert!(told[0].contains("2 threads waited 30.0 ms longer") && told[0].contains("70.0 ms"), "{told:?}");
        let long = RunResult { wall_ns: 900_000_000, ..slow };
        assert!(texts(&[RunFacts::new(&long, &spans, 9, None)]).is_empty());
    }

    #[test]
    fn hot_direct_and_mmap_are_told_why_they_lose() {
        let runs: Vec<RunResult> = [(Engine::Mmap, 600), (Engine::Pread, 100), (Engine::Direct, 1000)]
            .into_iter()
            .map(|(e, t)| RunResult { target: "NVIDIA H200".into(), ..run(e, CacheState::Hot, 0, t) })
            .collect();
        let facts: Vec<RunFacts<'_>> = runs.iter().map(|run| RunFacts::new(run, &[], 9, None)).collect();
        let told = texts(&facts);
        assert!(told.iter().any(|t| t.contains("10.0× slower than pread: it reads from the disk")), "{told:?}");
        assert!(told.iter().any(|t| t.contains("Use auto, which looks there first")), "{told:?}");
        assert!(told.iter().any(|t| t.contains("6.00× slower than pread") && t.contains("not pinned")), "{told:?}");
    }

    #[test]
    fn auto_is_no_way_out_where_it_was_no_faster() {
        let runs: Vec<RunResult> = [(Engine::Mmap, 100), (Engine::Direct, 160), (Engine::Auto, 170)]
            .into_iter()
            .map(|(e, t)| run(e, CacheState::Hot, 0, t))
            .collect();
        let facts: Vec<RunFacts<'_>> = runs.iter().map(|run| RunFacts::new(run, &[], 9, None)).collect();
        let told = texts(&facts);
        assert!(
            told.iter().any(|t| t.contains("Use mmap here")) && !told.iter().any(|t| t.contains("Use auto")),
            "{told:?}"
        );
    }

    #[test]
    fn advice_names_the_model_where_several_were_loaded() {
        let of = |model: &str, engine, cache, ns| RunResult { model: model.into(), ..run(engine, cache, 0, ns) };
        let race = |model| {
            let hot = [(Engine::Pread, 100), (Engine::Direct, 1000)].map(|(e, t)| of(model, e, CacheState::Hot, t));
            let cold = [Engine::Mmap, Engine::Pread, Engine::Direct].map(|e| of(model, e, CacheState::Cold, 100));
            hot.into_iter().chain(cold)
        };
        let told =
            |runs: Vec<RunResult>| texts(&runs.iter().map(|r| RunFacts::new(r, &[], 9, None)).collect::<Vec<_>>());
        let one = told(race("q06").collect());
        assert!(one.len() == 2 && !one.iter().any(|text| text.contains("q06")), "{one:?}");
        let two = told(race("q06").chain(race("q7b")).collect());
        for begins in ["direct (hot, q06) is", "direct (hot, q7b) is", "Cold (q06), ", "Cold (q7b), "] {
            assert!(two.len() == 4 && two.iter().any(|text| text.starts_with(begins)), "{begins}: {two:?}");
        }
    }

    #[test]
    fn degenerate_runs_teach_nothing_and_break_nothing() {
        let empty = RunResult { bytes: 0, wall_ns: 0, slots: 0, ..run(Engine::GdsSlab, CacheState::Hot, 0, 1) };
        let one = run(Engine::GdsPerTensor, CacheState::Hot, 0, 1);
        let facts = [RunFacts::new(&empty, &[], 0, None), RunFacts::new(&one, &[], 1, None)];
        assert!(texts(&facts).is_empty());
        assert!(advice(&[], &[]).is_empty());
    }
}
