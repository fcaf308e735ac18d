//! The facts of a run that advice is based on, and a piece of advice as data.

use crate::analysis::cost::CostModel;
use crate::analysis::median_u64;
use crate::core::{CacheState, Engine, Phase, RunResult, Span};
use std::collections::BTreeMap;

/// A run and what else is known of it.
#[derive(Clone, Debug)]
pub struct RunFacts<'a> {
    /// The run.
    pub run: &'a RunResult,
    /// Buffer registrations (or pinnings) in its spans.
    pub registrations: u64,
    /// Tensors that it loaded.
    pub tensors: u64,
    /// The extra time of the first reads of its slots compared with later ones, averaged over the slots, in
    /// nanoseconds.
    pub first_reads_ns: u64,
    /// Its cost model, where one could be fitted.
    pub cost: Option<CostModel>,
}

impl<'a> RunFacts<'a> {
    /// Counts in the spans what advice needs.
    #[must_use]
    pub fn new(run: &'a RunResult, spans: &[Span], tensors: u64, cost: Option<CostModel>) -> Self {
        let registrations = spans.iter().filter(|s| s.phase == Phase::RegisterBuffer).count() as u64;
        Self { run, registrations, tensors, first_reads_ns: first_reads_ns(spans, run.slots), cost }
    }

    pub(super) fn share(&self, phases: &[Phase]) -> (u64, f64) {
        let ns = phases.iter().map(|p| self.run.phases.get(*p)).sum();
        (ns, ns as f64 / self.run.wall_ns.max(1) as f64)
    }
}

/// If blocks of one size are read: how much longer than the median the first of each slot took, averaged over the
/// slots. Single tensors differ in size and cannot be compared.
fn first_reads_ns(spans: &[Span], slots: u32) -> u64 {
    let reads = || spans.iter().filter(|s| s.phase == Phase::Transfer && s.bytes > 0);
    if slots == 0 || reads().any(|s| s.tensor.is_some()) {
        return 0;
    }
    let Some(usual) = median_u64(&reads().map(Span::duration_ns).collect::<Vec<_>>()) else { return 0 };
    let mut first: BTreeMap<u16, &Span> = BTreeMap::new();
    for span in reads() {
        let known = first.entry(span.slot).or_insert(span);
        if span.start_ns < known.start_ns {
            *known = span;
        }
    }
    let beyond = |span: &&Span| span.duration_ns().saturating_sub(usual);
    first.values().map(beyond).fold(0, u64::saturating_add) / u64::from(slots)
}

/// An observation with the figures that support it.
#[derive(Clone, Debug, PartialEq)]
pub enum Lesson {
    /// Many buffer registrations take much of the time.
    Registrations {
        /// How many.
        count: u64,
        /// Their time.
        ns: u64,
        /// The memory that libcufile pins for each in compat mode, if less is enough.
        pinned_each_bytes: Option<u64>,
    },
    /// The overhead of many tensors takes much of the time.
    PerTensor {
        /// How many.
        tensors: u64,
        /// The overhead of each.
        each_ns: u64,
        /// The overhead of all.
        ns: u64,
    },
    /// Allocating and registering memory once takes much of the time.
    Setup {
        /// Its time.
        ns: u64,
    },
    /// Workers idle.
    IdleWorkers {
        /// How many workers.
        slots: u32,
        /// Share of their time, 0 to 1.
        fraction: f64,
    },
    /// The first read of each thread takes much longer than later ones.
    FirstReads {
        /// How many threads.
        slots: u32,
        /// The additional time, on average.
        ns: u64,
    },
    /// O_DIRECT reads from disk what is in the page cache.
    ReadsPastTheCache {
        /// How many times slower it is.
        ratio: f64,
        /// Than this engine.
        fastest: Engine,
        /// Whether `auto` would have looked at the page cache first.
        use_auto: bool,
    },
    /// One thread copies from memory that is not pinned.
    PageableCopies {
        /// How many times slower it is.
        ratio: f64,
        /// Than this engine.
        fastest: Engine,
    },
    /// cuFile copies through host memory as other engines do.
    Compat {
        /// How many times slower it is.
        ratio: f64,
        /// Than this engine.
        fastest: Engine,
    },
    /// The disk decides: engines take the same time.
    DiskBound {
        /// The engines.
        engines: Vec<Engine>,
        /// Their rate.
        bytes_per_s: f64,
    },
    /// mmap loads small tensors faster than an engine of cuFile.
    Crossover {
        /// Below this size.
        bytes: u64,
    },
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The engine that it is about, if one.
    pub engine: Option<Engine>,
    /// The cache state in which it was seen, if one.
    pub cache: Option<CacheState>,
    /// The model, if the session loaded several.
    pub model: Option<String>,
    /// The observation.
    pub lesson: Lesson,
    /// Wall time of the run, in nanoseconds; `None` if several runs were compared.
    pub wall_ns: Option<u64>,
    /// The part of the wall time that is at stake, in nanoseconds, if it was measured.
    pub at_stake_ns: Option<u64>,
    /// Whether it explains why the fastest engine is faster than another one.
    pub explains: bool,
}

impl Advice {
    /// About an engine in a cache state.
    pub(super) fn of(engine: &Engine, cache: CacheState, lesson: Lesson) -> Self {
        Self {
            engine: Some(engine.clone()),
            cache: Some(cache),
            model: None,
            lesson,
            wall_ns: None,
            at_stake_ns: None,
            explains: false,
        }
    }

    /// Whether reports list it with the fitted lines.
    #[must_use]
    pub const fn is_crossover(&self) -> bool {
        matches!(self.lesson, Lesson::Crossover { .. })
    }
}
