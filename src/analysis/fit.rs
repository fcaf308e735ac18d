//! The time of a tensor as a line: `t = overhead + bytes / bandwidth`.

use super::rows::TensorRow;
use crate::core::median::median;

/// A fitted line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The time of a tensor independent of its size, in nanoseconds on its slot. It is never negative.
    pub overhead_ns: f64,
    /// The bandwidth of one slot in bytes per second, without the overhead.
    pub bytes_per_s: f64,
    /// The share of the variance of the logarithms of the times that the line explains (R²), at most 1. Logarithms
    /// are used because sizes and times span five powers of ten and the noise is proportional to the time. Without
    /// them, the largest tensor alone would make every line look good.
    pub r2: f64,
    /// The number of tensors to which the line was fitted.
    pub used: usize,
    /// The number of tensors that were left out because they are too far from the line, for example after many page
    /// faults.
    pub rejected: usize,
    /// The size of the smallest and the largest fitted tensor in bytes. The line is an extrapolation outside of this
    /// range.
    pub sizes_bytes: (u64, u64),
    /// The predicted time of all tensors divided by their measured time. Tensors that were left out are included. If
    /// the value is far below 1, the left-out tensors take most of the time, and the line does not describe the load.
    pub explained_share: f64,
    /// The typical deviation of a tensor's time from the line, as a share of that time.
    pub relative_error: f64,
    /// The variances of the overhead (ns²) and of the time per byte (ns²).
    variances: [f64; 2],
}

impl Fit {
    /// The predicted time of one tensor of this size on its slot, in nanoseconds.
    #[must_use]
    pub fn tensor_ns(&self, bytes: u64) -> f64 {
        self.overhead_ns + bytes as f64 * self.ns_per_byte()
    }

    /// The time per byte in nanoseconds.
    #[must_use]
    pub fn ns_per_byte(&self) -> f64 {
        1e9 / self.bytes_per_s
    }

    /// Whether the line predicts the time of the load within 20 %. It is used for single sizes only if it does.
    #[must_use]
    pub fn explains_the_load(&self) -> bool {
        (self.explained_share - 1.0).abs() <= MOST_OFF
    }

    /// The standard errors of the overhead (ns) and of the time per byte (ns).
    #[must_use]
    pub fn errors(&self) -> (f64, f64) {
        (self.variances[0].max(0.0).sqrt(), self.variances[1].max(0.0).sqrt())
    }
}

/// The number of groups for the robust first line. All pairs of so few groups can be computed.
const GROUPS: usize = 200;
/// A tensor is left out if its deviation is more than this many typical deviations.
const REJECT: f64 = 4.0;
/// A line is not used if its predicted total time is off by more than this share.
const MOST_OFF: f64 = 0.2;

/// Fits the line to the rows that have bytes and time.
///
/// The times have outliers on one side, and their noise grows with the time. So the fit has three steps:
/// 1. The tensors are put into up to 200 groups by size. Theil–Sen gives a first line: the weighted median of the
///    slopes between all pairs of group medians. It tolerates 25 % of outliers.
/// 2. Tensors whose deviation from this line is above four times the median relative deviation are left out.
/// 3. Least squares fits the rest. The weight of a tensor is the inverse square of its time on the first line, so
///    that small tensors determine the overhead and large ones the bandwidth.
///
/// The result is `None` with fewer than four tensors, if the sizes differ by less than a factor of two (they
/// determine no slope), or if larger tensors do not take longer.
#[must_use]
pub fn fit(rows: &[TensorRow]) -> Option<Fit> {
    let mut points: Vec<(f64, f64)> =
        rows.iter().filter(|r| r.bytes > 0 && r.busy_ns() > 0).map(|r| (r.bytes as f64, r.busy_ns() as f64)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (smallest, largest) = (points.first()?.0, points.last()?.0);
    if points.len() < 4 || largest < 2.0 * smallest {
        return None;
    }
    let (start_a, start_b) = theil_sen(&points)?;
    // The weight has an upper limit, because the time on the first line can be near zero.
    let floor = median(&points.iter().map(|p| p.1).collect::<Vec<_>>())? * 1e-3;
    let expected = |bytes: f64| (start_a + start_b * bytes).max(floor);
    let deviations: Vec<f64> = points.iter().map(|(x, y)| (y - expected(*x)).abs() / expected(*x)).collect();
    let most = (median(&deviations)? * REJECT).max(0.02);
    let used: Vec<(f64, f64, f64)> = points
        .iter()
        .zip(&deviations)
        .filter(|(_, d)| **d <= most)
        .map(|((x, y), _)| (*x, *y, expected(*x).powi(-2)))
        .collect();
    let (fitted_a, fitted_b) = least_squares(&used)?;
    let line = if fitted_a < 0.0 { (0.0, through_origin(&used)?) } else { (fitted_a, fitted_b) };
    if line.1 <= 0.0 || !line.1.is_finite() {
        return None;
    }
    let explained: f64 = points.iter().map(|(bytes, _)| line.0 + line.1 * bytes).sum();
    let taken: f64 = points.iter().map(|(_, ns)| ns).sum();
    Some(Fit { explained_share: explained / taken, ..describe(&used, line, points.len() - used.len()) })
}

fn theil_sen(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut groups: Vec<(f64, f64, f64)> = Vec::new();
    let most = points.len().div_ceil(GROUPS).max(1);
    // Equal sizes stay together. Small groups of different sizes are merged up to `most` tensors.
    let mut from = 0;
    while from < points.len() {
        let mut to = (from + most).min(points.len());
        while to < points.len() && points[to].0 == points[to - 1].0 {
            to += 1;
        }
        let part = &points[from..to];
        let xs: Vec<f64> = part.iter().map(|p| p.0).collect();
        let ys: Vec<f64> = part.iter().map(|p| p.1).collect();
        groups.push((median(&xs)?, median(&ys)?, part.len() as f64));
        from = to;
    }
    let mut slopes = Vec::with_capacity(groups.len() * groups.len() / 2);
    for (i, (x0, y0, w0)) in groups.iter().enumerate() {
        for (x1, y1, w1) in groups.iter().skip(i + 1).filter(|g| g.0 > *x0) {
            // Pairs that are farther apart determine the slope better.
            slopes.push(((y1 - y0) / (x1 - x0), (w0 * w1).sqrt() * (x1 - x0)));
        }
    }
    let slope = weighted_median(&mut slopes)?;
    let mut rests: Vec<(f64, f64)> =
        groups.iter().map(|(x, y, w)| (y - slope * x, *w / (1.0 + slope.abs() * x))).collect();
    Some((weighted_median(&mut rests)?.max(0.0), slope.max(0.0)))
}

fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half: f64 = values.iter().map(|v| v.1).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    for (value, weight) in values.iter() {
        sum += weight;
        if sum >= half {
            return Some(*value);
        }
    }
    values.last().map(|v| v.0)
}

/// (overhead, cost per byte) of weighted points (x, y, w).
fn least_squares(points: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    let w: f64 = points.iter().map(|p| p.2).sum();
    let mean_x = points.iter().map(|p| p.0 * p.2).sum::<f64>() / w;
    let mean_y = points.iter().map(|p| p.1 * p.2).sum::<f64>() / w;
    let sxx: f64 = points.iter().map(|p| p.2 * (p.0 - mean_x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| p.2 * (p.0 - mean_x) * (p.1 - mean_y)).sum();
    (points.len() >= 4 && sxx > 0.0).then(|| (mean_y - sxy / sxx * mean_x, sxy / sxx))
}

fn through_origin(points: &[(f64, f64, f64)]) -> Option<f64> {
    let sxx: f64 = points.iter().map(|p| p.2 * p.0 * p.0).sum();
    (sxx > 0.0).then(|| points.iter().map(|p| p.2 * p.0 * p.1).sum::<f64>() / sxx)
}

fn describe(points: &[(f64, f64, f64)], (overhead_ns, ns_per_byte): (f64, f64), rejected: usize) -> Fit {
    let w: f64 = points.iter().map(|p| p.2).sum();
    let mean_x = points.iter().map(|p| p.0 * p.2).sum::<f64>() / w;
    let sxx: f64 = points.iter().map(|p| p.2 * (p.0 - mean_x).powi(2)).sum();
    let residual: f64 = points.iter().map(|p| p.2 * (p.1 - overhead_ns - ns_per_byte * p.0).powi(2)).sum();
    // The weights are inverse squares of the times, so the weighted residuals are relative.
    let variance = residual / (points.len() as f64 - 2.0).max(1.0);
    let (vb, va) = (variance / sxx, variance * (1.0 / w + mean_x * mean_x / sxx));
    let sizes = points.iter().fold((u64::MAX, 0), |(low, high), p| (low.min(p.0 as u64), high.max(p.0 as u64)));
    Fit {
        overhead_ns,
        bytes_per_s: 1e9 / ns_per_byte,
        r2: explained(points, |bytes| overhead_ns + ns_per_byte * bytes),
        used: points.len(),
        rejected,
        sizes_bytes: sizes,
        explained_share: 1.0,
        relative_error: variance.sqrt(),
        variances: [va, vb],
    }
}

/// The share of the variance of the logarithms of the times that a line explains (R²).
fn explained(points: &[(f64, f64, f64)], line: impl Fn(f64) -> f64) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|p| (p.1.ln(), line(p.0).max(f64::MIN_POSITIVE).ln())).collect();
    let mean = logs.iter().map(|l| l.0).sum::<f64>() / logs.len().max(1) as f64;
    let total: f64 = logs.iter().map(|l| (l.0 - mean).powi(2)).sum();
    let residual: f64 = logs.iter().map(|l| (l.0 - l.1).powi(2)).sum();
    if total > 0.0 { 1.0 - residual / total } else { 0.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use crate::core::{Phase, PhaseTimes};
    use proptest::prelude::*;

    pub(in crate::analysis) fn row(bytes: u64, overhead_ns: u64, moving_ns: u64) -> TensorRow {
        let mut phases = PhaseTimes::default();
        phases.add(Phase::RegisterBuffer, overhead_ns);
        phases.add(Phase::Transfer, moving_ns);
        TensorRow { tensor: 0, bytes, file_offset: 0, aligned: true, start_ns: Some(0), end_ns: Some(1), phases }
    }

    /// Tensor sizes as in a transformer: norms, matrices, one embedding.
    pub(in crate::analysis) fn sizes() -> Vec<u64> {
        let mut sizes = vec![311_164_928];
        for _ in 0..28 {
            sizes.extend([
                2048, 256, 256, 2048, 4_194_304, 2_097_152, 2_097_152, 4_194_304, 6_291_456, 6_291_456, 6_291_456,
            ]);
        }
        sizes
    }

    proptest! {
        #[test]
        fn the_line_is_found_through_noise_and_outliers(
            overhead_us in 5_u64..5_000, gigabytes_per_s in 1_u64..50, seed in any::<u64>(),
        ) {
            let mut state = seed;
            let mut noise = move || { state = state.wrapping_mul(6364136223846793005).wrapping_add(1); (state >> 40) as f64 / (1 << 24) as f64 };
            let rows: Vec<TensorRow> = sizes().iter().enumerate().map(|(i, bytes)| {
                let time = overhead_us as f64 * 1e3 + *bytes as f64 / gigabytes_per_s as f64;
                let wild = if i % 12 == 5 { 3.0 + 20.0 * noise() } else { 0.97 + 0.06 * noise() };
                row(*bytes, 0, (time * wild) as u64)
            }).collect();
            let fit = fit(&rows).unwrap();
            prop_assert!((fit.overhead_ns / (overhead_us as f64 * 1e3) - 1.0).abs() < 0.05, "{fit:?}");
            // The slope is measurable only if it is not small compared with the overhead.
            let total: f64 = sizes().into_iter().map(|bytes| fit.tensor_ns(bytes)).sum();
            let truth = 309.0 * overhead_us as f64 * 1e3 + sizes().iter().sum::<u64>() as f64 / gigabytes_per_s as f64;
            prop_assert!((total / truth - 1.0).abs() < 0.05, "{total} {truth}");
            prop_assert!(fit.rejected >= 20 && fit.relative_error < 0.05, "{fit:?}");
        }
    }

    #[test]
    fn an_exact_line_is_found_exactly() {
        let rows: Vec<TensorRow> = sizes().iter().map(|b| row(*b, 2_700_000, b / 8)).collect();
        let fit = fit(&rows).unwrap();
        assert!((fit.overhead_ns - 2.7e6).abs() < 100.0 && (fit.bytes_per_s / 8e9 - 1.0).abs() < 1e-3, "{fit:?}");
        assert!(fit.r2 > 0.999_9 && fit.rejected == 0);
        assert_eq!(fit.sizes_bytes, (256, 311_164_928));
    }

    #[test]
    fn a_line_beside_which_most_of_the_time_passed_does_not_tell_the_load() {
        let rows = |long: u64| -> Vec<TensorRow> {
            let time = |i: usize, bytes: u64| if i % 20 == 7 { long * bytes } else { bytes / 4 };
            (0..200).map(|i| (i, 4096 * (1 + i as u64 % 50))).map(|(i, b)| row(b, 1000, time(i, b))).collect()
        };
        let (calm, storms) = (fit(&rows(0)).unwrap(), fit(&rows(20)).unwrap());
        assert!(calm.explains_the_load() && calm.r2 > 0.9, "{calm:?}");
        assert!(storms.r2 > 0.9 && storms.rejected >= 10, "{storms:?}");
        assert!(storms.explained_share < 0.4 && !storms.explains_the_load(), "{storms:?}");
    }

    #[test]
    fn no_overhead_is_never_less_than_none() {
        let rows: Vec<TensorRow> = sizes().iter().map(|b| row(*b, 0, (b / 8).saturating_sub(20_000).max(1))).collect();
        assert!(fit(&rows).unwrap().overhead_ns >= 0.0);
    }

    #[test]
    fn too_little_to_tell_is_no_fit() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[row(10, 1, 1), row(1000, 1, 9), row(9000, 1, 10)]), None);
        assert_eq!(fit(&vec![row(1000, 5, 5); 50]), None, "one size determines no slope");
        let shrinking: Vec<TensorRow> = (1..50).map(|i| row(i * 1000, 0, 1_000_000 / i)).collect();
        assert_eq!(fit(&shrinking), None, "larger tensors that take less time give no line");
    }
}
