//! From one measured model to another: what an engine would take for a model of another shape.

use super::fit::{Fit, fit};
use super::median;
use super::rows::TensorRow;
use std::collections::BTreeMap;

/// What an engine costs here.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// Cost of a tensor on its slot.
    pub fit: Fit,
    /// Slots that worked at once, on average: time on slots over time on the clock, at least a little above 0.
    pub parallelism: f64,
    /// Part of the clock before the first tensor and after the last: opening, pinning, allocating, releasing.
    pub fixed_ns: u64,
    /// Bytes of the model that was measured.
    pub measured_bytes: u64,
    /// Half the distance between the fastest and the slowest repeat over their median; `None` with fewer than two repeats.
    pub repeat_spread: Option<f64>,
    /// Where tensors are loaded one after another: median size and time of a tensor on its slot by size class (powers of two), growing in both.
    /// Small and large tensors may differ in more than their bytes (cuFile registers them in different ways), which no line tells.
    classes: Vec<(f64, f64)>,
    /// What the measured load took beyond this model of it, in nanoseconds: a first read that waits, a buffer that is made once.
    unexplained_ns: f64,
}

impl CostModel {
    /// What a tensor adds to the clock whatever its size, in nanoseconds.
    #[must_use]
    pub fn per_tensor_ns(&self) -> f64 {
        self.fit.overhead_ns / self.parallelism
    }

    /// Time on slots for tensors of these sizes, one after the other, in nanoseconds.
    fn work_ns(&self, sizes_bytes: &[u64]) -> f64 {
        let bytes = sizes_bytes.iter().fold(0, |sum: u64, b| sum.saturating_add(*b));
        if self.classes.len() < 2 {
            return self.fit.model_ns(sizes_bytes.len() as u64, bytes);
        }
        sizes_bytes.iter().map(|bytes| along(&self.classes, *bytes as f64)).sum()
    }

    /// Bytes a second on the clock, all slots together, overhead left out.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.fit.bytes_per_s * self.parallelism
    }
}

/// The cost model of an engine from one run's rows, its wall time, and the wall times of all its repeats. `None` where no line can be fitted.
#[must_use]
pub fn cost_model(rows: &[TensorRow], wall_ns: u64, repeats_ns: &[u64]) -> Option<CostModel> {
    let fit = fit(rows)?;
    let first = rows.iter().filter_map(|r| r.start_ns).min()?;
    let last = rows.iter().filter_map(|r| r.end_ns).max()?.min(wall_ns);
    let working = last.checked_sub(first).filter(|ns| *ns > 0)?;
    let busy: f64 = rows.iter().map(|r| r.busy_ns() as f64).sum();
    let parallelism = busy / working as f64;
    let times: Vec<f64> = repeats_ns.iter().map(|ns| *ns as f64).collect();
    let spread = match (times.iter().copied().reduce(f64::min), times.iter().copied().reduce(f64::max), median(&times))
    {
        (Some(low), Some(high), Some(middle)) if times.len() > 1 && middle > 0.0 => Some((high - low) / 2.0 / middle),
        _ => None,
    };
    let mut model = (parallelism > 1e-6).then(|| CostModel {
        fit,
        parallelism,
        fixed_ns: wall_ns.saturating_sub(working),
        measured_bytes: rows.iter().map(|r| r.bytes).fold(0, u64::saturating_add),
        repeat_spread: spread,
        classes: if parallelism < MOST_SERIAL { classes(rows) } else { Vec::new() },
        unexplained_ns: 0.0,
    })?;
    let sizes: Vec<u64> = rows.iter().map(|r| r.bytes).collect();
    model.unexplained_ns = (working as f64 - model.work_ns(&sizes) / parallelism).max(0.0);
    Some(model)
}

/// Up to this many slots at once, tensors count as loaded one after another.
const MOST_SERIAL: f64 = 1.2;
/// A class of fewer tensors tells nothing, save the largest: a model has few tensors of its vocabulary's size, and they weigh most.
const LEAST_OF_A_CLASS: usize = 4;

fn classes(rows: &[TensorRow]) -> Vec<(f64, f64)> {
    let mut by_class: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.bytes > 0 && r.busy_ns() > 0) {
        by_class.entry(row.bytes.ilog2()).or_default().push((row.bytes as f64, row.busy_ns() as f64));
    }
    let largest = by_class.keys().next_back().copied();
    let mut knots: Vec<(f64, f64)> = Vec::new();
    for (class, points) in by_class {
        if points.len() < LEAST_OF_A_CLASS && Some(class) != largest {
            continue;
        }
        let (sizes, times): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
        if let (Some(size), Some(time)) = (median(&sizes), median(&times)) {
            // Noise must not make a larger tensor cheaper.
            let before = knots.last().map_or(0.0, |(_, ns)| *ns);
            knots.push((size, time.max(before)));
        }
    }
    knots
}

/// The height of a broken line; level before its first knot, and on behind its last as its last piece goes.
fn along(knots: &[(f64, f64)], x: f64) -> f64 {
    let next = knots.partition_point(|(at, _)| *at <= x).clamp(1, knots.len().saturating_sub(1).max(1));
    match (knots.get(next - 1), knots.get(next)) {
        (Some((x0, y0)), Some((x1, y1))) => (y0 + (x.max(knots[0].0) - x0) * (y1 - y0) / (x1 - x0)).max(0.0),
        (Some((_, y0)), None) => *y0,
        _ => 0.0,
    }
}

/// What a load is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Expected wall time in nanoseconds.
    pub wall_ns: u64,
    /// Not likely less.
    pub low_ns: u64,
    /// Not likely more.
    pub high_ns: u64,
    /// Part of `wall_ns` that is overhead per tensor.
    pub overhead_ns: u64,
    /// Whether tensors are larger or smaller than any that was measured.
    pub extrapolated: bool,
}

/// Narrower than this no prediction is: machines vary by as much from minute to minute.
const LEAST_DOUBT: f64 = 0.05;
/// Doubt with a single run, of whose repeats nothing is known.
const SINGLE_RUN_DOUBT: f64 = 0.15;

/// Predicts the load of a model with tensors of these sizes: `fixed + (overhead * N + bytes / bandwidth) / parallelism`, with the broken line through
/// the size classes in place of the straight one where tensors are loaded one after another.
///
/// The interval is two standard errors of the line plus what the line left unexplained (half of it where it is counted) plus the spread of the repeats (15 % where there was one run, never under 5 %); its upper end also
/// lets the fixed part grow with the model, since allocations and registrations may. Sizes twice outside those measured double it.
#[must_use]
pub fn predict(model: &CostModel, sizes_bytes: &[u64]) -> Prediction {
    let count = sizes_bytes.len() as u64;
    let bytes = sizes_bytes.iter().fold(0, |sum: u64, b| sum.saturating_add(*b));
    let work = model.work_ns(sizes_bytes) / model.parallelism;
    // Of a smaller model as much of it as there are bytes, of a larger one no more than there was.
    let counted = model.unexplained_ns * (bytes as f64 / model.measured_bytes.max(1) as f64).min(1.0);
    let wall = work + model.fixed_ns as f64 + counted;
    let (low, high) = model.fit.sizes_bytes;
    // Below the smallest measured tensor the overhead still tells; far above the largest the bandwidth might change.
    let extrapolated = sizes_bytes.iter().any(|b| *b > high.saturating_mul(2) || b.saturating_mul(2) < low);
    let doubt = model.repeat_spread.unwrap_or(SINGLE_RUN_DOUBT).max(LEAST_DOUBT);
    let mut half =
        2.0 * model.fit.model_error_ns(count, bytes) / model.parallelism + doubt * wall + model.unexplained_ns
            - counted / 2.0;
    if extrapolated {
        half *= 2.0;
    }
    let growth = (bytes as f64 / model.measured_bytes.max(1) as f64 - 1.0).max(0.0) * model.fixed_ns as f64;
    Prediction {
        wall_ns: wall as u64,
        low_ns: (wall - half).max(0.0) as u64,
        high_ns: (wall + half + growth) as u64,
        overhead_ns: (model.per_tensor_ns() * count as f64) as u64,
        extrapolated,
    }
}

/// Where two engines take the same time for a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossover {
    /// Size of the tensor in bytes.
    pub bytes: u64,
    /// Whether the first engine wins below it (and the second above).
    pub first_wins_below: bool,
    /// Whether it lies outside the sizes that were measured.
    pub extrapolated: bool,
}

/// Lines that explain less than this say nothing about where they cross.
const LEAST_R2: f64 = 0.8;

/// The size at which two engines cost the same a tensor, all slots working; `None` where one is better at every size, where a line fits badly, or where
/// overheads or costs of a byte differ by less than two of their standard errors: then the crossing would be one of noise.
#[must_use]
pub fn crossover(first: &CostModel, second: &CostModel) -> Option<Crossover> {
    let (a1, a2) = (first.per_tensor_ns(), second.per_tensor_ns());
    let (b1, b2) = (1e9 / first.bytes_per_s(), 1e9 / second.bytes_per_s());
    let error = |m: &CostModel| {
        let (a, b) = m.fit.errors();
        (a / m.parallelism, b / m.parallelism)
    };
    let ((ea1, eb1), (ea2, eb2)) = (error(first), error(second));
    let differ = (a1 - a2).abs() > 2.0 * ea1.hypot(ea2) && (b1 - b2).abs() > 2.0 * eb1.hypot(eb2);
    if !differ || first.fit.r2.min(second.fit.r2) < LEAST_R2 {
        return None;
    }
    let bytes = (a1 - a2) / (b2 - b1);
    // Not a number where the lines are parallel; negative where one is better at every size.
    if !(1.0..1e18).contains(&bytes) {
        return None;
    }
    let inside = |m: &CostModel| (m.fit.sizes_bytes.0..=m.fit.sizes_bytes.1).contains(&(bytes as u64));
    Some(Crossover { bytes: bytes as u64, first_wins_below: a1 < a2, extrapolated: !(inside(first) && inside(second)) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fit::tests::{row, sizes};

    /// Rows one after the other on one slot.
    fn rows(sizes: &[u64], overhead_ns: u64, bytes_per_ns: u64) -> (Vec<TensorRow>, u64) {
        let mut at = 0;
        let rows = sizes
            .iter()
            .map(|b| {
                let mut row = row(*b, overhead_ns, b / bytes_per_ns);
                row.start_ns = Some(at);
                at += row.busy_ns();
                row.end_ns = Some(at);
                row
            })
            .collect();
        (rows, at)
    }

    #[test]
    fn a_model_of_another_shape_is_predicted_from_the_first() {
        let (measured, wall_ns) = rows(&sizes(), 2_700_000, 7);
        let model = cost_model(&measured, wall_ns + 50_000_000, &[wall_ns + 50_000_000]).unwrap();
        assert_eq!(model.fixed_ns, 50_000_000);
        let large: Vec<u64> = (0..339).map(|i| if i % 2 == 0 { 7168 } else { 89_000_000 }).collect();
        let (_, truth) = rows(&large, 2_700_000, 7);
        let told = predict(&model, &large);
        assert!((told.wall_ns as f64 / (truth + 50_000_000) as f64 - 1.0).abs() < 0.01, "{told:?} {truth}");
        assert!(told.low_ns < told.wall_ns && told.wall_ns < told.high_ns && !told.extrapolated);
        assert!((told.overhead_ns as f64 / 339.0 / 2.7e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn sizes_never_measured_widen_the_interval() {
        let (measured, wall_ns) = rows(&sizes(), 100_000, 7);
        let model = cost_model(&measured, wall_ns, &[wall_ns, wall_ns, wall_ns]).unwrap();
        let (inside, outside) = (predict(&model, &[300_000_000]), predict(&model, &[3_000_000_000]));
        assert!(outside.extrapolated && !inside.extrapolated);
        let width = |p: &Prediction| (p.high_ns - p.low_ns) as f64 / p.wall_ns as f64;
        assert!(width(&outside) > 1.5 * width(&inside));
    }

    #[test]
    fn slots_that_work_at_once_count_once_on_the_clock() {
        let (mut measured, wall_ns) = rows(&sizes(), 100_000, 7);
        for row in &mut measured {
            row.start_ns = row.start_ns.map(|t| t / 4);
            row.end_ns = row.end_ns.map(|t| t / 4);
        }
        let model = cost_model(&measured, wall_ns / 4, &[]).unwrap();
        assert!((model.parallelism - 4.0).abs() < 0.01);
        let told = predict(&model, &sizes()).wall_ns as f64;
        assert!((told / (wall_ns / 4) as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn engines_cross_where_their_lines_do() {
        let (a, wall_a) = rows(&sizes(), 2_000_000, 20);
        let (b, wall_b) = rows(&sizes(), 100_000, 10);
        let (a, b) = (cost_model(&a, wall_a, &[]).unwrap(), cost_model(&b, wall_b, &[]).unwrap());
        let cross = crossover(&a, &b).unwrap();
        assert!((cross.bytes as f64 / 38e6 - 1.0).abs() < 0.01, "{cross:?}");
        assert!(!cross.first_wins_below && !cross.extrapolated);
        assert!(crossover(&b, &a).unwrap().first_wins_below);
        let (c, wall_c) = rows(&sizes(), 50_000, 20);
        assert_eq!(crossover(&cost_model(&c, wall_c, &[]).unwrap(), &b), None, "better at every size");
    }

    #[test]
    fn noise_makes_no_crossing() {
        // Overheads alike but for noise; one is a tenth slower a byte, so a crossing could only come from the noise.
        let noisy = |shift: u64, bytes_per_ns| {
            let (mut rows, wall_ns) = rows(&sizes(), 100_000, bytes_per_ns);
            for (i, row) in rows.iter_mut().enumerate() {
                row.phases.add(crate::domain::Phase::Sync, row.busy_ns() * ((i as u64 * 5 + shift) % 13) / 30);
            }
            cost_model(&rows, wall_ns, &[]).unwrap()
        };
        let (a, b) = (noisy(0, 11), noisy(3, 10));
        assert!((a.fit.overhead_ns - b.fit.overhead_ns).abs() > 1.0, "they do differ a little");
        assert_eq!(crossover(&a, &b), None);
    }
}
