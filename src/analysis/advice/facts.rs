//! The facts of a run that advice is based on, and a piece of advice.

use crate::analysis::cost::CostModel;
use crate::analysis::median_u64;
use crate::domain::{CacheState, Engine, Phase, RunResult, Span};
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
    /// What the first reads of its slots took beyond a later one, averaged over the slots, in nanoseconds.
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

/// Where blocks of one size are read: how much longer than the median one the first of each slot took, averaged over the slots. Tensors of their own differ in
/// size, so that nothing is told of them.
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

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The engine that it is about, if one.
    pub engine: Option<Engine>,
    /// The cache state in which it was seen, if one.
    pub cache: Option<CacheState>,
    /// What was seen and what to do.
    pub text: String,
    /// The part of the wall time that is at stake, in nanoseconds, if it was measured.
    pub at_stake_ns: Option<u64>,
    /// Says why the fastest is faster than another engine, and not only what one of them could do better.
    pub explains: bool,
    /// Tells where two lines cross, which reports list beside the lines.
    pub crossing: bool,
}

/// `pread (hot)`; of a workload's lane its variant with the direction: `gds (read, cold)`.
pub(super) fn named(engine: &Engine, cache: CacheState) -> String {
    let direction = engine.direction().map(|direction| format!("{direction}, ")).unwrap_or_default();
    format!("{} ({direction}{cache})", engine.label())
}
