//! Bytes that landed over time, for charts.

use crate::domain::{Phase, Span};
use std::ops::Range;

/// Bytes that landed in each of `buckets` equal parts of `window_ns`, told from spans. Where anything was copied to the target, copies are what
/// lands; otherwise transfers are (cuFile, or reads straight into host memory). The bytes of a span are spread evenly over it. Bytes outside the
/// window are not counted; the buckets add up to those inside, to a byte.
#[must_use]
pub fn bytes_per_bucket(spans: &[Span], window_ns: Range<u64>, buckets: usize) -> Vec<u64> {
    let copied = spans.iter().any(|s| s.phase == Phase::Copy && s.bytes > 0);
    let landing = if copied { Phase::Copy } else { Phase::Transfer };
    let width = window_ns.end.saturating_sub(window_ns.start) as f64 / buckets.max(1) as f64;
    if buckets == 0 || width <= 0.0 {
        return vec![0; buckets];
    }
    let at = |ns: u64| (ns as f64 - window_ns.start as f64) / width;
    let mut edge = vec![0.0_f64; buckets];
    let mut rate = vec![0.0_f64; buckets + 1];
    for span in spans.iter().filter(|s| s.phase == landing && s.bytes > 0) {
        let (start, end) = (at(span.start_ns), at(span.end_ns));
        let last = buckets as f64;
        if end < 0.0 || start >= last {
            continue;
        }
        if end <= start {
            edge[start as usize] += span.bytes as f64;
            continue;
        }
        let per_bucket = span.bytes as f64 / (end - start);
        let (from, to) = (start.max(0.0), end.min(last));
        let (first, final_) = (from as usize, (to as usize).min(buckets - 1));
        if first == final_ {
            edge[first] += per_bucket * (to - from);
        } else {
            edge[first] += per_bucket * (first as f64 + 1.0 - from);
            edge[final_] += per_bucket * (to - final_ as f64);
            rate[first + 1] += per_bucket;
            rate[final_] -= per_bucket;
        }
    }
    // The sum so far is rounded, not each bucket, so that nothing is lost.
    let (mut level, mut sum, mut told) = (0.0, 0.0, 0_u64);
    (0..buckets)
        .map(|i| {
            level += rate[i];
            sum += edge[i] + level;
            let bucket = (sum.round().max(0.0) as u64).saturating_sub(told);
            told += bucket;
            bucket
        })
        .collect()
}

/// The same, told from progress: (time, bytes so far), in order of time. Between two points bytes are taken to land evenly. A bucket that lies before
/// the first point or after the last is `None`: nobody looked.
#[must_use]
pub fn landed_per_bucket(progress: &[(u64, u64)], window_ns: Range<u64>, buckets: usize) -> Vec<Option<u64>> {
    let length = window_ns.end.saturating_sub(window_ns.start);
    let (Some((first_ns, _)), Some((last_ns, _))) = (progress.first(), progress.last()) else {
        return vec![None; buckets];
    };
    let edge = |i: usize| {
        window_ns.start + u64::try_from(u128::from(length) * i as u128 / buckets.max(1) as u128).unwrap_or(length)
    };
    let so_far = |ns: u64| {
        let after = progress.partition_point(|(at, _)| *at <= ns);
        match (after.checked_sub(1).and_then(|i| progress.get(i)), progress.get(after)) {
            (Some((t0, b0)), Some((t1, b1))) => {
                let share = u128::from(b1.saturating_sub(*b0)) * u128::from(ns - t0) / u128::from((t1 - t0).max(1));
                b0.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
            }
            (Some((_, b)), None) | (None, Some((_, b))) => *b,
            (None, None) => 0,
        }
    };
    (0..buckets)
        .map(|i| {
            let (from, to) = (edge(i), edge(i + 1));
            (to > *first_ns && from < *last_ns).then(|| so_far(to).saturating_sub(so_far(from)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moved(phase: Phase, start_ns: u64, end_ns: u64, bytes: u64) -> Span {
        Span { slot: 0, phase, tensor: None, start_ns, end_ns, bytes, offset: 0 }
    }

    #[test]
    fn copies_count_where_there_are_any_and_transfers_otherwise() {
        let read = moved(Phase::Transfer, 0, 40, 400);
        assert_eq!(bytes_per_bucket(&[read], 0..100, 5), [200, 200, 0, 0, 0]);
        assert_eq!(bytes_per_bucket(&[read, moved(Phase::Copy, 50, 80, 300)], 0..100, 5), [0, 0, 100, 200, 0]);
    }

    #[test]
    fn progress_is_spread_between_looks_and_nobody_looked_outside() {
        let curve = landed_per_bucket(&[(20, 0), (60, 400)], 0..100, 5);
        assert_eq!(curve, [None, Some(200), Some(200), None, None]);
        assert_eq!(landed_per_bucket(&[], 0..100, 2), [None, None]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_counted_twice(
            spans in proptest::collection::vec((0..900_u64, 0..100_u64, 1..1_000_000_u64), 0..50), buckets in 1..70_usize,
        ) {
            let spans: Vec<Span> = spans.iter().map(|(at, long, b)| moved(Phase::Copy, *at, at + long, *b)).collect();
            let total: u64 = spans.iter().map(|s| s.bytes).sum();
            let counted: u64 = bytes_per_bucket(&spans, 0..1001, buckets).iter().sum();
            prop_assert!(counted.abs_diff(total) <= 1, "{counted} of {total}");
        }
    }
}
