//! What an engine costs a tensor, on its slot and on the clock, and where two engines cost the same.

use super::fit::{Fit, fit};
use super::median;
use super::rows::TensorRow;

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
}

impl CostModel {
    /// What a tensor adds to the clock whatever its size, in nanoseconds.
    #[must_use]
    pub fn per_tensor_ns(&self) -> f64 {
        self.fit.overhead_ns / self.parallelism
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
    (parallelism > 1e-6).then(|| CostModel {
        fit,
        parallelism,
        fixed_ns: wall_ns.saturating_sub(working),
        measured_bytes: rows.iter().map(|r| r.bytes).fold(0, u64::saturating_add),
        repeat_spread: spread,
    })
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

/// The size at which two engines cost the same a tensor, all slots working; `None` where one is better at every size, where a line fits badly or does not
/// tell the load that it was fitted to, or where overheads or costs of a byte differ by less than two of their standard errors: then the crossing would be one of noise.
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
    let told = first.fit.tells_the_load() && second.fit.tells_the_load();
    if !differ || !told || first.fit.r2.min(second.fit.r2) < LEAST_R2 {
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
    fn slots_that_work_at_once_count_once_on_the_clock() {
        let (mut measured, wall_ns) = rows(&sizes(), 100_000, 7);
        for row in &mut measured {
            row.start_ns = row.start_ns.map(|t| t / 4);
            row.end_ns = row.end_ns.map(|t| t / 4);
        }
        let model = cost_model(&measured, wall_ns / 4, &[]).unwrap();
        assert!((model.parallelism - 4.0).abs() < 0.01);
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
