//! The overhead per tensor of an engine, and the tensor size at which two engines take the same time.

use super::fit::{Fit, fit};
use super::rows::TensorRow;
use crate::core::median::median;
use std::collections::BTreeMap;

/// The overhead and bandwidth of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// The fitted time of one tensor on one slot.
    pub fit: Fit,
    /// The average number of slots that work at the same time: time on slots divided by wall time. It is always above
    /// 0.
    pub parallelism: f64,
    /// The wall time before the first tensor and after the last one (open, pin, allocate, release), in nanoseconds.
    pub fixed_ns: u64,
    /// The bytes of the measured model.
    pub measured_bytes: u64,
    /// Half the difference between the slowest and the fastest repeat, divided by their median. `None` with fewer
    /// than two repeats.
    pub repeat_spread: Option<f64>,
    /// The measured time of tensors by size. It verifies what the fitted line predicts for a size.
    taken: Vec<Taken>,
}

/// Tensors of similar size and their time on slots.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    /// The size of the smallest and the largest one in bytes.
    sizes_bytes: (u64, u64),
    ns: f64,
}

/// Groups tensors by size, from small to large. Each group spans a quarter of a doubling.
fn taken(rows: &[TensorRow]) -> Vec<Taken> {
    let mut classes: BTreeMap<u32, Taken> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.bytes > 0) {
        let class = ((row.bytes as f64).log2() * 4.0) as u32;
        let known = classes.entry(class).or_insert(Taken { sizes_bytes: (row.bytes, row.bytes), ns: 0.0 });
        known.sizes_bytes = (known.sizes_bytes.0.min(row.bytes), known.sizes_bytes.1.max(row.bytes));
        known.ns += row.busy_ns() as f64;
    }
    classes.into_values().collect()
}

impl CostModel {
    /// The time that one tensor adds to the wall time independent of its size, in nanoseconds.
    #[must_use]
    pub fn per_tensor_ns(&self) -> f64 {
        self.fit.overhead_ns / self.parallelism
    }

    /// Whether the overhead per tensor is measurable: above two standard errors and above one microsecond on its
    /// slot.
    #[must_use]
    pub fn has_overhead(&self) -> bool {
        self.fit.overhead_ns >= (2.0 * self.fit.errors().0).max(1e3)
    }

    /// The wall time of its tensors in a range of sizes if all slots work, in nanoseconds. It is 0 if there are none.
    fn took_ns(&self, sizes: impl Fn((u64, u64)) -> bool) -> f64 {
        self.taken.iter().filter(|t| sizes(t.sizes_bytes)).map(|t| t.ns).sum::<f64>() / self.parallelism
    }

    /// Whether its tensors in a range of sizes took longer than those of the other engine, by more than the repeats
    /// of either differ.
    fn took_longer(&self, other: &Self, sizes: impl Fn((u64, u64)) -> bool + Copy) -> bool {
        let apart = |m: &Self| m.repeat_spread.unwrap_or(SINGLE_RUN_SPREAD);
        let (ours, theirs) = (self.took_ns(sizes), other.took_ns(sizes));
        theirs > 0.0 && ours > theirs * (1.0 + apart(self).max(apart(other)))
    }

    /// Bytes per second of all slots together, without the overhead.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.fit.bytes_per_s * self.parallelism
    }
}

/// The cost model of an engine from the rows of one run, the wall time of that run, and the wall times of all its
/// repeats. `None` if no line can be fitted.
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
        taken: taken(rows),
    })
}

/// The size at which two engines take the same time for a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossover {
    /// Size of the tensor in bytes.
    pub bytes: u64,
    /// Whether the first engine is faster below this size and the second one above it.
    pub first_wins_below: bool,
    /// Whether the size is outside the measured sizes.
    pub extrapolated: bool,
}

/// Lines with a lower R² give no crossover.
const LEAST_R2: f64 = 0.8;

/// The noise that is assumed for a single run without repeats.
const SINGLE_RUN_SPREAD: f64 = 0.03;

/// The tensor size at which two engines take the same time, with all slots working. It is `None` if one engine is
/// faster at every size, if a line fits badly or does not predict the time of its load, if the overheads or the times
/// per byte differ by less than two standard errors, or if neither overhead is measurable.
///
/// Two well-fitted lines can cross at a size at which the measured times do not. So if the size is inside the
/// measured range, the tensors on both sides of it must confirm the crossover by more than the repeats differ.
#[must_use]
pub fn crossover(first: &CostModel, second: &CostModel) -> Option<Crossover> {
    let (a1, a2) = (first.per_tensor_ns(), second.per_tensor_ns());
    let (b1, b2) = (1e9 / first.bytes_per_s(), 1e9 / second.bytes_per_s());
    let error = |m: &CostModel| {
        let (a, b) = m.fit.errors();
        (a / m.parallelism, b / m.parallelism)
    };
    let ((ea1, eb1), (ea2, eb2)) = (error(first), error(second));
    let differ = (a1 - a2).abs() > 2.0 * (ea1 * ea1 + ea2 * ea2).sqrt()
        && (b1 - b2).abs() > 2.0 * (eb1 * eb1 + eb2 * eb2).sqrt();
    let are_explained = first.fit.explains_the_load() && second.fit.explains_the_load();
    if !differ || !are_explained || first.fit.r2.min(second.fit.r2) < LEAST_R2 {
        return None;
    }
    let bytes = (a1 - a2) / (b2 - b1);
    // The result is NaN if the lines are parallel, and negative if one engine is faster at every size.
    if !(1.0..1e18).contains(&bytes) {
        return None;
    }
    let bytes = bytes as u64;
    let inside = |m: &CostModel| (m.fit.sizes_bytes.0..=m.fit.sizes_bytes.1).contains(&bytes);
    let extrapolated = !(inside(first) && inside(second));
    let (below, above) = if a1 < a2 { (first, second) } else { (second, first) };
    if !above.has_overhead() {
        return None;
    }
    let borne_out = above.took_longer(below, |(_, largest)| largest < bytes)
        && below.took_longer(above, |(smallest, _)| smallest >= bytes);
    (extrapolated || borne_out).then_some(Crossover { bytes, first_wins_below: a1 < a2, extrapolated })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fit::tests::{row, sizes};
    use proptest::prelude::*;

    /// Rows of tensors that were loaded one after another on one slot.
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

    /// The cost model of rows that were loaded one after another.
    fn modelled(mut rows: Vec<TensorRow>, repeats_ns: &[u64]) -> CostModel {
        let mut at = 0;
        for row in &mut rows {
            row.start_ns = Some(at);
            at += row.busy_ns();
            row.end_ns = Some(at);
        }
        cost_model(&rows, at, repeats_ns).unwrap()
    }

    #[test]
    fn a_crossing_that_the_tensors_themselves_do_not_bear_out_is_none() {
        // A cold load with slow matrices and two fast embeddings. The lines cross at 20 MB, but one engine was faster
        // on both sides of that size.
        let sizes: Vec<u64> = sizes().into_iter().chain([311_164_928]).collect();
        let taken = |overhead_ns: u64, per_byte: f64, large: f64| -> Vec<TensorRow> {
            let rate = |bytes: u64| if bytes > 100_000_000 { large } else { per_byte };
            sizes.iter().map(|b| row(*b, overhead_ns, (*b as f64 * rate(*b)) as u64)).collect()
        };
        let plain = modelled(taken(2000, 0.40, 0.27), &[]);
        let lines = modelled(taken(2000, 0.40, 0.40), &[]);
        let dear = modelled(taken(1_000_000, 0.35, 0.35), &[]);
        assert!(crossover(&lines, &dear).is_some_and(|c| c.first_wins_below && !c.extrapolated));
        assert!((plain.fit.bytes_per_s / lines.fit.bytes_per_s - 1.0).abs() < 0.05, "{:?}", plain.fit);
        assert_eq!(crossover(&plain, &dear), None);
        // No crossover is reported if the repeats differ more than the two engines.
        let wide = modelled(taken(2000, 0.40, 0.40), &[100, 140, 180]);
        assert_eq!(crossover(&wide, &dear), None);
    }

    fn any_rows() -> impl Strategy<Value = Vec<TensorRow>> {
        let tensor = (prop_oneof![Just(0), 1..5000_u64, 1..400_000_000_u64], 0..3_000_000_u64, 0..3_000_000_u64);
        proptest::collection::vec(tensor.prop_map(|(bytes, before, moving)| row(bytes, before, moving)), 0..60)
    }

    /// Two engines on the same tensors, with noise of a few percent.
    fn two() -> impl Strategy<Value = (Vec<TensorRow>, Vec<TensorRow>)> {
        let noise = || proptest::collection::vec(0.97..1.03_f64, sizes().len());
        (1_000..5_000_000_u64, 1_000..5_000_000_u64, 0.02..1.0_f64, 0.02..1.0_f64, noise(), noise()).prop_map(
            |(a1, a2, b1, b2, n1, n2)| {
                let rows = |overhead: u64, per_byte: f64, noise: &[f64]| {
                    let time = |(bytes, n): (&u64, &f64)| ((overhead as f64 + *bytes as f64 * per_byte) * n) as u64;
                    sizes().iter().zip(noise).map(|of| row(*of.0, 0, time(of).max(1))).collect()
                };
                (rows(a1, b1, &n1), rows(a2, b2, &n2))
            },
        )
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * a.abs().max(b.abs()) + 1e-3
    }

    proptest! {
        #[test]
        fn whatever_was_measured_the_figures_are_figures(first in any_rows(), second in any_rows(), walls in proptest::collection::vec(0..9_u64, 0..4)) {
            let model = |mut rows: Vec<TensorRow>| {
                let mut at = 0;
                for row in &mut rows {
                    (row.start_ns, at) = (Some(at), at + row.busy_ns());
                    row.end_ns = Some(at);
                }
                cost_model(&rows, at, &walls)
            };
            let models = [model(first), model(second)];
            for m in models.iter().flatten() {
                let figures = [m.per_tensor_ns(), m.bytes_per_s(), m.fit.r2, m.fit.explained_share, m.fit.relative_error, m.parallelism, m.fit.errors().0];
                prop_assert!(figures.iter().all(|f| f.is_finite()), "{m:?}");
                prop_assert!(m.per_tensor_ns() >= 0.0 && m.bytes_per_s() > 0.0 && m.fit.r2 <= 1.0, "{m:?}");
            }
            let [a, b] = &models;
            prop_assert!(a.as_ref().zip(b.as_ref()).and_then(|(a, b)| crossover(a, b)).is_none_or(|c| c.bytes > 0));
        }

        #[test]
        fn an_engine_does_not_cross_itself_and_two_cross_at_one_size(rows in two()) {
            let (a, b) = (modelled(rows.0, &[]), modelled(rows.1, &[]));
            prop_assert_eq!(crossover(&a, &a), None);
            let (one, other) = (crossover(&a, &b), crossover(&b, &a));
            prop_assert_eq!(one.map(|c| (c.bytes, c.extrapolated)), other.map(|c| (c.bytes, c.extrapolated)));
            prop_assert!(one.zip(other).is_none_or(|(x, y)| x.first_wins_below != y.first_wins_below));
            if let Some(c) = one {
                // Both engines take the same time at the crossover. Slightly below it, the reported engine is faster.
                let cost = |m: &CostModel, bytes: f64| m.per_tensor_ns() + bytes * 1e9 / m.bytes_per_s();
                let at = c.bytes as f64;
                prop_assert!((cost(&a, at) / cost(&b, at) - 1.0).abs() < 1e-3, "{c:?}");
                prop_assert_eq!(cost(&a, at * 0.5) < cost(&b, at * 0.5), c.first_wins_below);
                prop_assert_eq!(cost(&a, at * 2.0) > cost(&b, at * 2.0), c.first_wins_below);
            }
        }

        #[test]
        fn larger_tensors_in_the_same_time_move_the_rate_and_the_crossing_alone(rows in two(), factor in 2..9_u64) {
            let larger = |rows: &[TensorRow]| -> Vec<TensorRow> {
                rows.iter().map(|r| TensorRow { bytes: r.bytes * factor, ..r.clone() }).collect()
            };
            let (a, b) = (modelled(rows.0.clone(), &[]), modelled(rows.1.clone(), &[]));
            let (c, d) = (modelled(larger(&rows.0), &[]), modelled(larger(&rows.1), &[]));
            prop_assert!(near(a.per_tensor_ns(), c.per_tensor_ns()) && near(a.fit.r2, c.fit.r2), "{a:?} {c:?}");
            prop_assert!(near(a.bytes_per_s() * factor as f64, c.bytes_per_s()), "{a:?} {c:?}");
            let (before, after) = (crossover(&a, &b), crossover(&c, &d));
            // The sizes are grouped differently, so that the check at the borders can have another result.
            if let (Some(before), Some(after)) = (before, after) {
                prop_assert!((after.bytes as f64 / (before.bytes * factor) as f64 - 1.0).abs() < 0.01, "{before:?} {after:?}");
                prop_assert_eq!(before.first_wins_below, after.first_wins_below);
            }
        }

        #[test]
        fn the_order_of_tensors_and_their_number_tell_nothing(rows in two(), seed in any::<u64>()) {
            let (mut turned, twice) = (rows.0.clone(), [rows.0.clone(), rows.0.clone()].concat());
            turned.sort_by_key(|r| r.busy_ns().wrapping_mul(seed | 1));
            let (a, b, c) = (modelled(rows.0, &[]), modelled(turned, &[]), modelled(twice, &[]));
            prop_assert_eq!(&a.fit, &b.fit);
            prop_assert!(near(a.per_tensor_ns(), c.per_tensor_ns()) && near(a.bytes_per_s(), c.bytes_per_s()), "{a:?} {c:?}");
            prop_assert!(near(a.fit.r2, c.fit.r2) && near(a.fit.explained_share, c.fit.explained_share), "{a:?} {c:?}");
        }
    }

    #[test]
    fn engines_of_which_neither_costs_a_tensor_anything_do_not_cross() {
        let sizes: Vec<u64> = (0..200).map(|i| 64 + i % 50 * 80).collect();
        let line = |overhead: u64, per_byte: u64| sizes.iter().map(|b| row(*b, overhead, b * per_byte)).collect();
        let (dear, cheap) = (modelled(line(900, 1), &[]), modelled(line(20, 3), &[]));
        assert!(dear.fit.explains_the_load() && !dear.has_overhead() && !cheap.has_overhead(), "{:?}", dear.fit);
        assert_eq!(crossover(&dear, &cheap), None);
        assert_eq!(crossover(&modelled(line(2000, 1), &[]), &cheap).map(|c| c.bytes), Some(990));
    }

    #[test]
    fn noise_makes_no_crossing() {
        // The overheads differ only by noise, and one engine takes a tenth longer per byte. A crossover would be
        // noise.
        let noisy = |shift: u64, bytes_per_ns| {
            let (mut rows, wall_ns) = rows(&sizes(), 100_000, bytes_per_ns);
            for (i, row) in rows.iter_mut().enumerate() {
                row.phases.add(crate::core::Phase::Sync, row.busy_ns() * ((i as u64 * 5 + shift) % 13) / 30);
            }
            cost_model(&rows, wall_ns, &[]).unwrap()
        };
        let (a, b) = (noisy(0, 11), noisy(3, 10));
        assert!((a.fit.overhead_ns - b.fit.overhead_ns).abs() > 1.0, "they do differ a little");
        assert_eq!(crossover(&a, &b), None);
    }
}
