//! The bytes of a load over time: the landing curve of screens and reports.

use crate::core::{Phase, Span};

/// The number of time steps in which the bytes of a load are summed.
const BINS: usize = 2048;
/// Over shorter intervals the rate varies because of the scheduler and page faults.
const LEAST_GRAIN_S: f64 = 0.015;

/// The bytes that reached the target over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LandingCurve {
    /// (seconds since the clock started, bytes so far), in ascending order.
    points: Vec<(f64, f64)>,
    /// The shortest interval over which a rate is meaningful, in seconds.
    pub grain_s: f64,
}

impl LandingCurve {
    /// The curve of a finished load from its spans. If the load copies from staging buffers, a byte lands when it is
    /// copied, otherwise when it is transferred.
    #[must_use]
    pub fn of_spans(spans: &[Span], wall_ns: u64) -> Self {
        Self { points: landed(spans, wall_ns), grain_s: grain_s(spans, wall_ns) }
    }

    /// The curve from progress events: (nanoseconds since the clock started, bytes so far), in ascending order.
    #[must_use]
    pub fn of_progress(points: impl Iterator<Item = (u64, u64)>) -> Self {
        Self { points: points.map(|(ns, bytes)| (ns as f64 / 1e9, bytes as f64)).collect(), grain_s: 0.0 }
    }

    /// Whether no byte reached the target.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.last().is_none_or(|(_, bytes)| *bytes <= 0.0)
    }

    /// The rate in bytes per second between points that are at least `step_s` apart. Each rate is placed in the
    /// middle of its interval.
    #[must_use]
    pub fn rates(&self, step_s: f64) -> Vec<(f64, f64)> {
        let mut out = Vec::new();
        let Some(mut from) = self.points.first().copied() else { return out };
        for (i, to) in self.points.iter().enumerate().skip(1) {
            let long = to.0 - from.0;
            if long > 0.0 && (long >= step_s || i + 1 == self.points.len()) {
                out.push(((from.0 + to.0) / 2.0, (to.1 - from.1).max(0.0) / long));
                from = *to;
            }
        }
        // A last interval much shorter than the step is mostly noise.
        if let [.., (a, _), (b, _)] = out.as_slice()
            && b - a < step_s * 0.9
        {
            out.pop();
        }
        out
    }
}

/// The average duration of three pieces, at most a sixth of the run. Over shorter intervals the rate shows single
/// pieces.
fn grain_s(spans: &[Span], wall_ns: u64) -> f64 {
    let pieces = |phase| spans.iter().filter(|s| s.phase == phase && s.bytes > 0).count();
    // A block is copied in as many pieces as it has tensors, but it is read in one piece.
    let pieces = [pieces(Phase::Transfer), pieces(Phase::Copy)].into_iter().filter(|n| *n > 0).min().unwrap_or(1);
    let wall_s = wall_ns as f64 / 1e9;
    (3.0 * wall_s / pieces as f64).max(LEAST_GRAIN_S).min(wall_s / 6.0)
}

fn landed(spans: &[Span], wall_ns: u64) -> Vec<(f64, f64)> {
    let copied = spans.iter().any(|s| s.phase == Phase::Copy && s.bytes > 0);
    let landing = if copied { Phase::Copy } else { Phase::Transfer };
    let landed = || spans.iter().filter(|s| s.phase == landing && s.bytes > 0);
    let end_ns = landed().map(|s| s.end_ns).max().unwrap_or(0).max(wall_ns);
    if end_ns == 0 {
        return Vec::new();
    }
    let bin_ns = end_ns.div_ceil(BINS as u64).max(1);
    let bins = end_ns.div_ceil(bin_ns) as usize;
    let mut bytes = vec![0.0_f64; bins + 1];
    for span in landed() {
        // The exact time of each byte is unknown, so the bytes of a span are spread evenly over its duration.
        let length = span.duration_ns();
        let (first, last) = ((span.start_ns / bin_ns) as usize, (span.end_ns / bin_ns) as usize);
        for (bin, sum) in bytes.iter_mut().enumerate().take(last.saturating_add(1)).skip(first) {
            let bin = bin as u64;
            let from = span.start_ns.max(bin.saturating_mul(bin_ns));
            let to = span.end_ns.min((bin + 1).saturating_mul(bin_ns)).max(from);
            *sum += span.bytes as f64 * if length == 0 { 1.0 } else { (to - from) as f64 / length as f64 };
        }
    }
    let mut sum = 0.0;
    let mut points = vec![(0.0, 0.0)];
    points.extend(bytes.iter().take(bins).enumerate().map(|(bin, bytes)| {
        sum += bytes;
        ((bin as u64 + 1).saturating_mul(bin_ns).min(end_ns) as f64 / 1e9, sum)
    }));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(phase: Phase, start_ns: u64, end_ns: u64, bytes: u64) -> Span {
        Span { slot: 0, phase, tensor: None, start_ns, end_ns, bytes, offset: 0 }
    }

    #[test]
    fn all_bytes_land_once() {
        let spans: Vec<Span> = (0..100).map(|i| span(Phase::Transfer, i * 1_003, i * 1_003 + 900, 4096)).collect();
        let points = landed(&spans, 100 * 1_003);
        assert!(points.last().is_some_and(|(_, bytes)| (bytes - 409_600.0).abs() < 1.0), "{:?}", points.last());
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn copies_count_if_there_are_copies() {
        let spans = [span(Phase::Transfer, 0, 50, 10), span(Phase::Copy, 50, 100, 10)];
        let points = landed(&spans, 100);
        assert!(points.iter().all(|(t, bytes)| *t > 50.5e-9 || *bytes == 0.0));
        assert!(points.last().is_some_and(|(_, bytes)| (bytes - 10.0).abs() < 1e-9));
    }

    #[test]
    fn a_steady_load_has_a_flat_bandwidth() {
        let spans: Vec<Span> =
            (0..1000).map(|i| span(Phase::Transfer, i * 1_000_000, (i + 1) * 1_000_000, 1_000_000)).collect();
        let rates = LandingCurve::of_spans(&spans, 1_000_000_000).rates(0.02);
        assert!(rates.len() > 40 && rates.iter().all(|(_, rate)| (rate - 1e9).abs() < 1e6), "{rates:?}");
    }

    #[test]
    fn nothing_lands_without_spans_or_progress() {
        assert!(LandingCurve::of_spans(&[], 0).is_empty() && LandingCurve::of_spans(&[], 1000).is_empty());
        let progress = LandingCurve::of_progress([(0, 0), (500_000_000, 1_000_000_000)].into_iter());
        assert_eq!(progress.rates(0.1), [(0.25, 2e9)]);
    }
}
