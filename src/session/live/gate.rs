//! A gate for runs that load together. No run continues before all of them have arrived or ended.

use crate::engines::protocol::monotonic_ns;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Number of gates in a run: one before the clock starts, and one before the verification.
pub(super) const GATES: usize = 2;
/// Time from the last arrival to the common start, in nanoseconds. The message must reach every run within this time.
const LEAD_NS: u64 = 5_000_000;

/// The gates of one group.
#[derive(Debug)]
struct Shared {
    lanes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: [usize; GATES],
    /// The time at which all runs continue, in CLOCK_MONOTONIC nanoseconds.
    opens: [Option<u64>; GATES],
}

/// The place of one run at the gates. The others do not wait for a run that has ended for any reason.
#[derive(Clone, Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    passed: Arc<Mutex<usize>>,
}

/// Creates the gates for this number of runs.
pub(super) fn places(lanes: usize) -> Vec<Place> {
    let shared = Arc::new(Shared { lanes, state: Mutex::default(), changed: Condvar::new() });
    (0..lanes).map(|_| Place { shared: shared.clone(), passed: Arc::default() }).collect()
}

impl Place {
    /// The run has arrived at its next gate.
    pub(super) fn arrive(&self) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if *passed < GATES {
            self.shared.arrive(*passed);
            *passed += 1;
        }
    }

    /// The run has ended.
    pub(super) fn leave(&self) {
        (0..GATES).for_each(|_| self.arrive());
    }

    /// Waits until a gate opens. Returns the time at which all runs continue, in CLOCK_MONOTONIC nanoseconds.
    pub(super) fn wait(&self, gate: usize) -> u64 {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match state.opens.get(gate).copied().flatten() {
                Some(at) => return at,
                None => state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Shared {
    fn arrive(&self, gate: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived[gate] += 1;
        if state.arrived[gate] == self.lanes {
            state.opens[gate] = Some(monotonic_ns() + LEAD_NS);
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_lanes_start_at_one_time_and_an_ended_one_delays_none() {
        let places = places(3);
        let waiting = AtomicUsize::new(0);
        let times: Vec<u64> = std::thread::scope(|scope| {
            let handles: Vec<_> = places[..2]
                .iter()
                .map(|place| {
                    let waiting = &waiting;
                    scope.spawn(move || {
                        place.arrive();
                        waiting.fetch_add(1, Ordering::Relaxed);
                        let start = place.wait(0);
                        place.arrive();
                        (start, place.wait(1))
                    })
                })
                .collect();
            while waiting.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            // Two runs wait at the gate, and the third one dies before it arrives.
            places[2].leave();
            places[2].leave();
            let ends: Vec<(u64, u64)> = handles.into_iter().map(|h| h.join().unwrap()).collect();
            assert!(ends.iter().all(|(start, end)| start <= end));
            assert_eq!(ends[0].1, ends[1].1);
            ends.into_iter().map(|(start, _)| start).collect()
        });
        assert_eq!(times[0], times[1]);
    }
}
