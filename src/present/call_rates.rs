//! The rates of a watched program, in the time window of its timeline.

use super::calls::window;
use crate::core::WatchedCall;
use crate::core::units::{duration, rate};
use crate::session::{CallCount, State};

/// The rate over time for one method of moving bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The method that moves the bytes.
    pub name: &'static str,
    /// The corners of its steps: pairs of the time since the program started, in seconds, and the rate in bytes per
    /// second.
    pub points: Vec<(f64, f64)>,
    /// Whether the rates are those of the calls. Otherwise not all calls are known, and the rates are averages between
    /// two reports.
    pub is_of_calls: bool,
}

/// The rates of cuFile, of reads by libc and of copies to the GPU, as steps. The time window has `parts` parts. A rate
/// that is always 0 is left out.
#[must_use]
pub fn rates(state: &State, parts: usize) -> Vec<Rate> {
    type Counter = fn(&CallCount) -> u64;
    // In the order of the methods.
    let kinds: [(&str, Counter); 3] = [
        ("cuFile", |count| count.cufile_bytes),
        ("read calls", |count| count.plain_bytes),
        ("CUDA copies", |count| count.copied_bytes),
    ];
    let (from, to) = window(state);
    let step = (to - from).div_ceil(parts.max(1) as u64).max(1);
    let parts = parts.min((to - from).div_ceil(step) as usize);
    let mut known = [0_u64; 3];
    let mut by_calls = vec![vec![0.0; parts]; 3];
    for call in &state.calls {
        let Some(method) = call.method() else { continue };
        let bytes = call.moved_bytes();
        known[method as usize] = known[method as usize].saturating_add(bytes);
        distribute(&mut by_calls[method as usize], call, bytes, (from, step));
    }
    let all = kinds.into_iter().zip(known).zip(by_calls).map(|(((name, counter), known), by_calls)| {
        let counted = state.call_rates.last().map_or(0, counter);
        // The calls can be newer than the counters. If some are missing, the counters are larger.
        let is_of_calls = known >= counted - counted / 100;
        let moved: Vec<Option<f64>> = if is_of_calls {
            by_calls.into_iter().map(Some).collect()
        } else {
            by_counters(&state.call_rates, counter, (from, step), parts)
        };
        Rate { name, points: steps(&moved, (from, step)), is_of_calls }
    });
    all.filter(|rate| rate.points.iter().any(|(_, y)| *y > 0.0)).collect()
}

/// The unit in which the highest rate has at least one digit before the point, and its size in bytes per second.
#[must_use]
pub fn unit(rates: &[Rate]) -> (&'static str, f64) {
    let highest = rates.iter().flat_map(|rate| &rate.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    units.into_iter().find(|(_, size)| highest >= *size).unwrap_or(("B/s", 1.0))
}

/// The rates of the last second of the time window, as a line without its end. `None` before the first byte.
#[must_use]
pub fn newest(state: &State) -> Option<String> {
    const SECOND_NS: u64 = 1_000_000_000;
    let (from, to) = window(state);
    let length = to - from;
    let rates = rates(state, length.div_ceil(SECOND_NS).max(1) as usize);
    let time = match rates.iter().all(|rate| rate.is_of_calls) {
        false => "Between reports".to_owned(),
        true if length < SECOND_NS => format!("Last {}", duration(length)),
        true => "Last second".to_owned(),
    };
    let moving = rates.iter().filter_map(|of| Some((of.name, of.points.last()?.1))).filter(|(_, now)| *now > 0.0);
    let moving: Vec<String> = moving.map(|(name, now)| format!("{name} {}", rate(now))).collect();
    let text = if moving.is_empty() { rate(0.0) } else { moving.join(", ") };
    (!rates.is_empty()).then(|| format!("{time}: {text}"))
}

/// Adds the bytes of a call to the parts in which it ran.
fn distribute(parts: &mut [f64], call: &WatchedCall, bytes: u64, (from, step): (u64, u64)) {
    let (start, end) = (call.start_ns, call.start_ns.saturating_add(call.duration_ns.max(1)));
    if end <= from || start >= end {
        return;
    }
    let per_ns = bytes as f64 / (end - start) as f64;
    let first = (start.max(from) - from) / step;
    let last = (end - 1 - from) / step;
    let parts = parts.iter_mut().enumerate().skip(first as usize);
    for (part, moved) in parts.take_while(|(part, _)| *part as u64 <= last) {
        let begin = from + part as u64 * step;
        let overlap = end.min(begin.saturating_add(step)).saturating_sub(start.max(begin));
        *moved += per_ns * overlap as f64;
    }
}

/// The bytes of each part from the counters before and after its middle. `None` after the newest counters.
fn by_counters(
    counts: &[CallCount],
    counter: fn(&CallCount) -> u64,
    (from, step): (u64, u64),
    parts: usize,
) -> Vec<Option<f64>> {
    let at = |part: usize| {
        let middle = from + part as u64 * step + step / 2;
        let next = counts.partition_point(|count| count.at_ns <= middle);
        let after = counts.get(next)?;
        let before = next.checked_sub(1).and_then(|at| counts.get(at)).copied().unwrap_or_default();
        let moved = counter(after).saturating_sub(counter(&before));
        Some(moved as f64 * step as f64 / after.at_ns.saturating_sub(before.at_ns).max(1) as f64)
    };
    (0..parts).map(at).collect()
}

/// The corners of the steps. Parts without a value have no corners.
fn steps(moved: &[Option<f64>], (from, step): (u64, u64)) -> Vec<(f64, f64)> {
    let corners = |(part, moved): (usize, &Option<f64>)| {
        let rate = (*moved)? * 1e9 / step as f64;
        let at = |part: usize| from.saturating_add(part as u64 * step) as f64 / 1e9;
        Some([(at(part), rate), (at(part + 1), rate)])
    };
    moved.iter().enumerate().filter_map(corners).flatten().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody};
    use proptest::prelude::*;

    fn read(start_ns: u64, duration_ns: u64, bytes: u64) -> WatchedCall {
        WatchedCall { function: "pread".to_owned(), start_ns, duration_ns, bytes, ..WatchedCall::default() }
    }

    fn state(calls: Vec<WatchedCall>, counts: &[(u64, u64)]) -> State {
        let mut state = State::default();
        state.reduce(&Event { at_ns: 1, body: EventBody::CallsSeen { calls, left_out: 0 } });
        let count = |(at_ns, plain_bytes): &(u64, u64)| CallCount {
            at_ns: *at_ns,
            plain_bytes: *plain_bytes,
            ..CallCount::default()
        };
        state.call_rates = counts.iter().map(count).collect();
        state
    }

    #[test]
    fn the_bytes_of_a_call_are_in_the_parts_of_its_time() {
        let calls = vec![read(0, 100, 1000), read(300, 100, 500)];
        let rates = rates(&state(calls, &[(1_000_000_000, 1500)]), 4);
        let [rate] = rates.as_slice() else { unreachable!("one method") };
        let values: Vec<f64> = rate.points.iter().map(|(_, y)| (y / 1e6).round()).collect();
        assert_eq!(values, [10_000.0, 10_000.0, 0.0, 0.0, 0.0, 0.0, 5000.0, 5000.0]);
        assert_eq!((rate.points[0].0, rate.points[7].0), (0.0, 4e-7));
        assert!(rate.is_of_calls);
    }

    #[test]
    fn the_unit_fits_the_highest_rate() {
        let name_of =
            |highest| unit(&[Rate { name: "cuFile", points: vec![(0.0, 2.0), (1.0, highest)], is_of_calls: true }]);
        for (highest, expected) in
            [(3e9, ("GB/s", 1e9)), (50e6, ("MB/s", 1e6)), (2e3, ("kB/s", 1e3)), (9.0, ("B/s", 1.0))]
        {
            assert_eq!(name_of(highest), expected);
        }
        assert_eq!(unit(&[]), ("B/s", 1.0));
    }

    #[test]
    fn without_all_calls_the_rates_are_averages_between_two_reports() {
        // The newest call is after the newest counters.
        let calls = vec![read(0, 10, 10), read(3990, 10, 10)];
        let rates = rates(&state(calls, &[(1000, 1000), (2000, 1000), (3000, 4000)]), 4);
        let values: Vec<f64> = rates[0].points.iter().map(|(_, y)| (y / 1e6).round()).collect();
        assert_eq!(values, [1000.0, 1000.0, 0.0, 0.0, 3000.0, 3000.0]);
        assert!(!rates[0].is_of_calls);
    }

    #[test]
    fn the_newest_rates_are_those_of_the_last_second() {
        const SECOND: u64 = 1_000_000_000;
        let two = vec![read(0, SECOND, 4 * SECOND), read(SECOND, SECOND, 2 * SECOND)];
        let short = vec![read(0, 100, 1000)];
        let idle = vec![read(0, SECOND, SECOND), read(2 * SECOND, SECOND, 0)];
        let unknown = vec![read(0, 10, 10), read(3990, 10, 10)];
        for (calls, counts, line) in [
            (two, vec![(2 * SECOND, 6 * SECOND)], Some("Last second: read calls 2.00 GB/s")),
            (short, vec![(100, 1000)], Some("Last 100 ns: read calls 10.0 GB/s")),
            (idle, vec![(3 * SECOND, SECOND)], Some("Last second: 0 B/s")),
            (unknown, vec![(1000, 1000), (2000, 1000), (3000, 4000)], Some("Between reports: read calls 3.00 GB/s")),
            (Vec::new(), Vec::new(), None),
        ] {
            assert_eq!(newest(&state(calls, &counts)).as_deref(), line);
        }
    }

    proptest! {
        #[test]
        fn no_byte_of_the_window_is_lost(
            calls in prop::collection::vec((0_u64..10_000, 0_u64..3000, 0_u64..1000), 1..40), parts in 1_usize..100,
        ) {
            let calls: Vec<WatchedCall> = calls.into_iter().map(|(at, ns, bytes)| read(at, ns, bytes)).collect();
            let bytes: u64 = calls.iter().map(|call| call.bytes).sum();
            let state = state(calls, &[]);
            let rates = rates(&state, parts);
            let shown: f64 = rates.iter().flat_map(|rate| rate.points.chunks(2)).map(|c| c[0].1 * (c[1].0 - c[0].0)).sum();
            prop_assert!(shown <= bytes as f64 * 1.001);
            // A call without a duration at the end of the window is not in a part.
            let short: u64 = state.calls.iter().filter(|call| call.duration_ns == 0).map(|call| call.bytes).sum();
            prop_assert!(shown >= (bytes - short) as f64 * 0.999, "{shown} of {bytes}");
        }
    }
}
