//! Advice from a single run: large overheads, and the changes that avoid them.

use super::facts::{Advice, Lesson, RunFacts};
use crate::core::{Phase, Route, Setting, units};

/// The share of the wall time above which an overhead gets advice.
const WORTH_A_WORD: f64 = 0.10;
const DOMINANT: f64 = 0.25;
/// The count above which an operation was repeated many times, not once per thread.
const MANY: u64 = 16;
/// The longest transfer size in KiB of libraries that keep their transfers short.
const LITTLE_KIB: u64 = 1024;

fn about(fact: &RunFacts<'_>, at_stake_ns: u64, lesson: Lesson) -> Advice {
    let advice = Advice::of(&fact.run.engine, fact.run.cache, lesson);
    Advice { wall_ns: Some(fact.run.wall_ns), at_stake_ns: Some(at_stake_ns), ..advice }
}

pub(super) fn registrations(fact: &RunFacts<'_>) -> Option<Advice> {
    let (ns, share) = fact.share(&[Phase::RegisterBuffer, Phase::Deregister]);
    (fact.registrations >= MANY && share >= WORTH_A_WORD).then(|| {
        let pinned_each_bytes = pinned_by_each(fact);
        about(fact, ns, Lesson::Registrations { count: fact.registrations, ns, pinned_each_bytes })
    })
}

/// The memory that libcufile pins for one registration in compat mode, in bytes. `None` if it pins no more than
/// necessary.
fn pinned_by_each(fact: &RunFacts<'_>) -> Option<u64> {
    let kib = fact.run.setting(Setting::MaxDirectIoSizeKb)?;
    let compat = fact.run.route.as_ref().is_some_and(|route| route.route == Route::Compat);
    (compat && kib > LITTLE_KIB).then_some(kib * units::KIB)
}

pub(super) fn per_tensor(fact: &RunFacts<'_>) -> Option<Advice> {
    let cost = fact.cost.as_ref()?;
    let ns = cost.per_tensor_ns() * fact.tensors as f64;
    let much = ns >= DOMINANT * fact.run.wall_ns as f64 && fact.tensors >= MANY;
    (much && cost.fit.r2 >= 0.5 && cost.fit.explains_the_load()).then(|| {
        let (each_ns, ns) = (cost.per_tensor_ns() as u64, ns as u64);
        about(fact, ns, Lesson::PerTensor { tensors: fact.tensors, each_ns, ns })
    })
}

pub(super) fn one_time_cost(fact: &RunFacts<'_>) -> Option<Advice> {
    let (ns, share) = fact.share(&[Phase::RegisterBuffer, Phase::Allocate]);
    let once = fact.registrations < MANY.min(u64::from(fact.run.slots) * 2 + 4);
    (once && share >= DOMINANT).then(|| about(fact, ns, Lesson::Setup { ns }))
}

pub(super) fn idle_slots(fact: &RunFacts<'_>) -> Option<Advice> {
    let (ns, fraction) = fact.share(&[Phase::Idle]);
    // With two threads, one reads little because it checks the headers of the files.
    let idle = fact.run.slots > 2 && fraction >= 0.5;
    let lesson = Lesson::IdleWorkers { slots: fact.run.slots, fraction };
    idle.then(|| Advice { at_stake_ns: None, ..about(fact, ns, lesson) })
}

pub(super) fn first_reads(fact: &RunFacts<'_>) -> Option<Advice> {
    let ns = fact.first_reads_ns;
    let much = fact.run.engine.uses_cufile() && ns as f64 >= DOMINANT * fact.run.wall_ns as f64;
    much.then(|| about(fact, ns, Lesson::FirstReads { slots: fact.run.slots, ns }))
}
