//! Advice as sentences of at most 25 words: first the observation, then the action.

use super::labels::{cache_capital, engine, engine_in, factor};
use crate::analysis::{Advice, Lesson};
use crate::core::{Access, CacheState, Engine, units};

/// The advice as one or two sentences.
#[must_use]
pub fn sentence(advice: &Advice) -> String {
    let cache = advice.cache.unwrap_or(CacheState::AsIs);
    let model = advice.model.as_deref();
    let name = advice.engine.as_ref().map_or_else(String::new, |engine| engine_in(engine, cache, model));
    let wall = units::duration(advice.wall_ns.unwrap_or(0));
    let time = |ns: &u64| units::duration(*ns);
    match &advice.lesson {
        Lesson::Registrations { count, ns, pinned_each_bytes } => {
            let pins = pinned_each_bytes.map_or_else(String::new, |bytes| {
                format!(", or pin less than {} each (`--set max_direct_io_size_kb=1024`)", units::bytes(bytes))
            });
            format!("{name}: {} registrations take {} of {wall}. Register once{pins}.", units::count(*count), time(ns))
        }
        Lesson::PerTensor { tensors, each_ns, ns } => format!(
            "{name}: the overhead of {} tensors, {} each, takes {} of {wall}. Read blocks that contain several tensors.",
            units::count(*tensors),
            time(each_ns),
            time(ns)
        ),
        Lesson::Setup { ns } => format!(
            "{name}: allocating and registering memory takes {} of {wall}. A process that loads again should keep it.",
            time(ns)
        ),
        Lesson::IdleWorkers { slots, fraction } => {
            let share = units::percent(*fraction);
            format!("{name}: its {slots} workers idle {share} of the time. Try fewer threads or smaller blocks.")
        }
        Lesson::FirstReads { slots, ns } => format!(
            "{name}: the first read of its {slots} threads takes {} longer, of {wall}. Later loads do not have this delay.",
            time(ns)
        ),
        Lesson::ReadsPastTheCache { ratio, fastest, use_auto } => {
            let fastest = engine(fastest);
            let instead = if *use_auto { "auto, which checks the page cache first" } else { fastest.as_str() };
            format!(
                "{name} is {} slower than {fastest}: it reads cached data from disk. Use {instead}.",
                factor(*ratio)
            )
        }
        Lesson::PageableCopies { ratio, fastest } => format!(
            "{name} is {} slower than {}: one thread copies unpinned memory. Read into a pinned ring with several threads.",
            factor(*ratio),
            engine(fastest)
        ),
        Lesson::Compat { ratio, fastest } => {
            let writes = advice.engine.as_ref().and_then(Engine::direction) == Some(Access::Write);
            let (what, fastest) = (if writes { "writes" } else { "reads" }, engine(fastest));
            format!(
                "{name} is {} slower than {fastest}: its {what} go through host memory (compat). Use {fastest} until cuFile has a direct route.",
                factor(*ratio)
            )
        }
        Lesson::DiskBound { engines, bytes_per_s } => {
            let names: Vec<String> = engines.iter().map(engine).collect();
            let (last, others) = names
                .split_last()
                .map_or((String::new(), String::new()), |(last, others)| (last.clone(), others.join(", ")));
            let model = model.map_or_else(String::new, |model| format!(", {model}"));
            format!(
                "{}{model}: {others} and {last} differ by less than 5 % at {}. The disk decides, not the engine.",
                cache_capital(cache),
                units::rate(*bytes_per_s)
            )
        }
        Lesson::Crossover { bytes } => format!("{name}: mmap is faster for tensors under {}.", units::bytes(*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(of: Engine, lesson: Lesson) -> String {
        sentence(&Advice {
            engine: Some(of),
            cache: Some(CacheState::Hot),
            model: None,
            lesson,
            wall_ns: Some(540_000_000),
            at_stake_ns: None,
            explains: false,
        })
    }

    fn all() -> Vec<String> {
        let fastest = || Engine::Pread;
        let engines = vec![Engine::Pread, Engine::Odirect, Engine::Mmap];
        vec![
            said(
                Engine::GdsPerTensor,
                Lesson::Registrations { count: 311, ns: 230_000_000, pinned_each_bytes: Some(16 << 20) },
            ),
            said(Engine::GdsPerTensor, Lesson::PerTensor { tensors: 311, each_ns: 2_700_000, ns: 840_000_000 }),
            said(Engine::GdsSlab, Lesson::Setup { ns: 230_000_000 }),
            said(Engine::GdsSlab, Lesson::IdleWorkers { slots: 8, fraction: 0.6 }),
            said(Engine::GdsSlab, Lesson::FirstReads { slots: 8, ns: 120_000_000 }),
            said(Engine::Odirect, Lesson::ReadsPastTheCache { ratio: 3.1, fastest: fastest(), use_auto: true }),
            said(Engine::Mmap, Lesson::PageableCopies { ratio: 5.7, fastest: fastest() }),
            said(Engine::GdsSlab, Lesson::Compat { ratio: 2.1, fastest: fastest() }),
            said(Engine::Mmap, Lesson::DiskBound { engines, bytes_per_s: 3e9 }),
            said(Engine::GdsSlab, Lesson::Crossover { bytes: 37 << 20 }),
        ]
    }

    #[test]
    fn each_line_has_at_most_25_words() {
        for line in all() {
            let words = line.split_whitespace().count();
            assert!(words <= 25, "{words}: {line}");
        }
    }

    #[test]
    fn lines_name_the_engine_its_cache_state_and_what_to_do() {
        let all = all();
        assert_eq!(
            all[5],
            "O_DIRECT (hot) is 3.1× slower than pread: it reads cached data from disk. Use auto, which checks the page cache first."
        );
        assert_eq!(
            all[8],
            "Hot: pread, O_DIRECT and mmap differ by less than 5 % at 3.00 GB/s. The disk decides, not the engine."
        );
        assert!(
            all[0].starts_with(
                "gds-per-tensor (hot): 311 registrations take 230 ms of 540 ms. Register once, or pin less"
            )
        );
    }
}
