//! Overhead, cost model, comparison and advice. These are pure functions over core types: no I/O, no clock, no
//! sentences.

mod advice;
mod against;
mod classes;
mod compare;
mod cost;
mod curve;
mod fit;
mod grid;
mod predict;
mod rows;
mod timing;
mod watch;
mod watch_compare;
mod winner;

pub use advice::{Advice, Lesson, RunFacts, advice};
pub use against::{Against, Change, LEAST_NOISE, Measured, Side, against};
pub use classes::{SizeClass, size_classes};
pub use compare::{ComparisonGroup, RankedEngine, compare, rank_engines};
pub use cost::{CostModel, Crossover, cost_model, crossover};
pub use curve::LandingCurve;
pub use fit::{Fit, fit};
pub use grid::{GridTable, RateRatio, grid_tables, rate_range, rate_ratio, warmth};
pub use predict::{Prediction, Shape, Threads, predict};
pub use rows::{TensorRow, tensor_rows};
pub use timing::{Timing, Timings, timing};
pub use watch::{WatchAdvice, is_proven_direct, watch_advice};
pub use watch_compare::{CallChange, WATCH_THRESHOLD, WatchComparison, WatchRegression, compare_watched};
pub use winner::{LEAST_RUNS, Outcome};

pub use crate::core::median::{median, median_u64};

/// The run with the median time, which represents its repeats. For an even count it is the faster of the two middle
/// runs. `None` without runs.
#[must_use]
pub fn of_median_time<T>(mut runs: Vec<T>, wall_ns: impl Fn(&T) -> u64) -> Option<T> {
    runs.sort_by_key(wall_ns);
    let middle = runs.len().checked_sub(1)? / 2;
    Some(runs.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_speaks_for_its_repeats_is_a_whole_one_of_the_middle() {
        for (walls, wanted) in [
            (vec![], None),
            (vec![7], Some(7)),
            (vec![9, 4], Some(4)),
            (vec![9, 1, 5], Some(5)),
            (vec![8, 1, 5, 3], Some(3)),
        ] {
            assert_eq!(of_median_time(walls.clone(), |wall| *wall), wanted, "{walls:?}");
        }
    }
}
