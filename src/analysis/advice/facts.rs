//! The facts of a run that advice is based on, and a piece of advice as data.

use crate::analysis::cost::CostModel;
use crate::core::median::median_u64;
use crate::core::{CacheState, Engine, Phase, RunResult, Span};
use std::collections::BTreeMap;

/// A run with the figures that advice needs.
#[derive(Clone, Debug)]
pub struct RunFacts<'a> {
    /// The run.
    pub run: &'a RunResult,
    /// The number of buffer registrations or pinnings in its spans.
    pub registrations: u64,
    /// The number of tensors that it loaded.
    pub tensors: u64,
    /// How much longer the first read of a slot took than later reads, as an average over the slots in nanoseconds.
    pub first_reads_ns: u64,
    /// Its cost model. `None` if no line could be fitted.
    pub cost: Option<CostModel>,
}

impl<'a> RunFacts<'a> {
    /// Counts the figures that advice needs in the spans of the run.
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

/// How much longer the first read of a slot took than the median, as an average over the slots. It is defined only
/// for blocks of one size: single tensors differ in size and cannot be compared.
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
    /// Many buffer registrations take a large share of the time.
    Registrations {
        /// The number of registrations.
        count: u64,
        /// Their total time in nanoseconds.
        ns: u64,
        /// The memory that libcufile pins for each one in compat mode, in bytes. `None` if it pins no more than
        /// necessary.
        pinned_each_bytes: Option<u64>,
    },
    /// The overhead of many tensors takes a large share of the time.
    PerTensor {
        /// The number of tensors.
        tensors: u64,
        /// The overhead of one tensor in nanoseconds.
        each_ns: u64,
        /// The overhead of all tensors in nanoseconds.
        ns: u64,
    },
    /// Allocation and registration before the first read take a large share of the time.
    Setup {
        /// Their time in nanoseconds.
        ns: u64,
    },
    /// Workers wait without work.
    IdleWorkers {
        /// The number of workers.
        slots: u32,
        /// The share of their time in which they wait, 0 to 1.
        fraction: f64,
    },
    /// The first read of each thread takes much longer than its later reads.
    FirstReads {
        /// The number of threads.
        slots: u32,
        /// The additional time per thread in nanoseconds, on average.
        ns: u64,
    },
    /// `O_DIRECT` reads bytes from the disk that are in the page cache.
    ReadsPastTheCache {
        /// How many times slower it is than `fastest`.
        ratio: f64,
        /// The fastest engine.
        fastest: Engine,
        /// Whether `auto` would have checked the page cache first.
        use_auto: bool,
    },
    /// One thread copies from memory that is not pinned.
    PageableCopies {
        /// How many times slower it is than `fastest`.
        ratio: f64,
        /// The fastest engine.
        fastest: Engine,
    },
    /// cuFile copies through host memory, as other engines do.
    Compat {
        /// How many times slower it is than `fastest`.
        ratio: f64,
        /// The fastest engine.
        fastest: Engine,
    },
    /// The disk is the bottleneck: the engines take the same time.
    DiskBound {
        /// The engines that were compared.
        engines: Vec<Engine>,
        /// Their median rate in bytes per second.
        bytes_per_s: f64,
    },
    /// mmap loads small tensors faster than a cuFile engine.
    Crossover {
        /// Tensors below this size are faster with mmap.
        bytes: u64,
    },
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The engine that the advice is for. `None` if it is for several.
    pub engine: Option<Engine>,
    /// The cache state of the runs. `None` if the advice holds for both.
    pub cache: Option<CacheState>,
    /// The model. `None` if the session loaded only one.
    pub model: Option<String>,
    /// The observation.
    pub lesson: Lesson,
    /// Wall time of the run, in nanoseconds; `None` if several runs were compared.
    pub wall_ns: Option<u64>,
    /// The part of the wall time that the change could save, in nanoseconds. `None` if it was not measured.
    pub at_stake_ns: Option<u64>,
    /// Whether it explains why the fastest engine is faster than this one.
    pub explains: bool,
}

impl Advice {
    /// Advice for one engine in one cache state.
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

    /// Whether reports list it next to the fitted lines.
    #[must_use]
    pub const fn is_crossover(&self) -> bool {
        matches!(self.lesson, Lesson::Crossover { .. })
    }
}
