//! What one run teaches by itself: costs that weigh, and what would spare them.

use super::facts::{Advice, RunFacts, named};
use crate::domain::{Phase, Route, units};

/// Shares of the wall time from which a cost is worth a word.
const WORTH_A_WORD: f64 = 0.10;
const DOMINANT: f64 = 0.25;
/// From here on something was done many times, not once a thread.
const MANY: u64 = 16;
/// The longest transfer that libcufile gives to the kernel at once, in KiB, and what it is where libraries keep it small.
const DIRECT_IO: &str = "max_direct_io_size_kb";
const LITTLE_KIB: u64 = 1024;

fn about(fact: &RunFacts<'_>, at_stake_ns: u64, text: String) -> Advice {
    Advice {
        engine: Some(fact.run.engine.clone()),
        cache: Some(fact.run.cache),
        text,
        at_stake_ns: Some(at_stake_ns),
        explains: false,
        crossing: false,
    }
}

pub(super) fn registrations(fact: &RunFacts<'_>) -> Option<Advice> {
    let (ns, share) = fact.share(&[Phase::RegisterBuffer, Phase::Deregister]);
    (fact.registrations >= MANY && share >= WORTH_A_WORD).then(|| {
        let text = format!(
            "{}: {} registrations cost {} of {}: register once{}.",
            named(&fact.run.engine, fact.run.cache),
            units::count(fact.registrations),
            units::duration(ns),
            units::duration(fact.run.wall_ns),
            pinned_by_each(fact).unwrap_or_default()
        );
        about(fact, ns, text)
    })
}

/// What libcufile pins for a registration in compat mode, where that is more than it need be.
fn pinned_by_each(fact: &RunFacts<'_>) -> Option<String> {
    let kib = *fact.run.knobs.get(DIRECT_IO)?;
    let compat = fact.run.route.as_ref().is_some_and(|route| route.route == Route::Compat);
    (compat && kib > LITTLE_KIB).then(|| {
        format!(
            ", or pin less: in compat mode each pins {}, whatever it registers; see --set {DIRECT_IO}={LITTLE_KIB}, which cufile.json can keep",
            units::bytes(kib * units::KIB)
        )
    })
}

pub(super) fn per_tensor(fact: &RunFacts<'_>) -> Option<Advice> {
    let cost = fact.cost.as_ref()?;
    let ns = cost.per_tensor_ns() * fact.tensors as f64;
    (ns >= DOMINANT * fact.run.wall_ns as f64 && fact.tensors >= MANY && cost.fit.r2 >= 0.5 && cost.fit.tells_the_load()).then(|| {
        let text = format!(
            "{}: {} tensors at {} each before their first byte make {} of {}: read in larger blocks that hold several tensors.",
            named(&fact.run.engine, fact.run.cache),
            units::count(fact.tensors),
            units::duration(cost.per_tensor_ns() as u64),
            units::duration(ns as u64),
            units::duration(fact.run.wall_ns)
        );
        about(fact, ns as u64, text)
    })
}

pub(super) fn one_time_cost(fact: &RunFacts<'_>) -> Option<Advice> {
    let (ns, share) = fact.share(&[Phase::RegisterBuffer, Phase::Allocate]);
    (fact.registrations < MANY.min(u64::from(fact.run.slots) * 2 + 4) && share >= DOMINANT).then(|| {
        let text = format!(
            "{}: allocating and registering memory took {} of {}; a process that loads more than once should keep it.",
            named(&fact.run.engine, fact.run.cache),
            units::duration(ns),
            units::duration(fact.run.wall_ns)
        );
        about(fact, ns, text)
    })
}

pub(super) fn idle_slots(fact: &RunFacts<'_>) -> Option<Advice> {
    let (ns, share) = fact.share(&[Phase::Idle]);
    // Of two threads the second reads little where it checks the headers meanwhile.
    (fact.run.slots > 2 && share >= 0.5).then(|| {
        let text = format!(
            "{}: its {} slots were idle {:.0} % of the time; fewer threads, or smaller blocks that share out better, may do as well.",
            named(&fact.run.engine, fact.run.cache),
            fact.run.slots,
            share * 100.0
        );
        Advice { at_stake_ns: None, ..about(fact, ns, text) }
    })
}

pub(super) fn first_reads(fact: &RunFacts<'_>) -> Option<Advice> {
    let ns = fact.first_reads_ns;
    (fact.run.engine.uses_cufile() && ns as f64 >= DOMINANT * fact.run.wall_ns as f64).then(|| {
        let text = format!(
            "{}: its {} threads waited {} longer for their first read than for a later one, of {}: what the library makes then pays off with a larger \
             model, or in a process that loads more than once.",
            named(&fact.run.engine, fact.run.cache),
            fact.run.slots,
            units::duration(ns),
            units::duration(fact.run.wall_ns)
        );
        about(fact, ns, text)
    })
}
