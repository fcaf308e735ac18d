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
mod profiling;
mod rows;
mod sweep;
mod timing;
mod watch;
mod watch_compare;
mod watch_gaps;
mod winner;

pub use advice::{Advice, Lesson, RunFacts, advice};
pub use against::{
    Against, Change, Doubt, LEAST_NOISE, Lack, LeftOut, Measured, Side, Tolerance, against, is_busy, left_out,
};
pub use classes::{SizeClass, size_classes};
pub use compare::{ComparisonGroup, RankedEngine, compare, rank_engines};
pub use cost::{CostModel, Crossover, cost_model, crossover};
pub use curve::LandingCurve;
pub use fit::{Fit, fit};
pub use grid::{GridTable, RateRatio, grid_tables, rate_range, rate_ratio, warmth};
pub use predict::{Prediction, Shape, Threads, predict};
pub use profiling::{ProfilingMode, ProfilingOverhead};
pub use rows::{TensorRow, tensor_rows};
pub use sweep::{LEAST_GAIN, PROOF_RUNS, PhaseGrowth, Proof, Reason, Swept, Tried, Untimed, sweep_noise};
pub use timing::{Timing, Timings, timing};
pub use watch::{WatchAdvice, failed_set_ups, is_not_recorded, is_proven_direct, watch_advice};
pub use watch_compare::{
    CallChange, ENOUGH_CALLS, PaceChange, PaceResult, PaceSide, WATCH_THRESHOLD, WatchComparison, WatchRegression,
    compare_watched,
};
pub use watch_gaps::{SessionEnd, WatchGap, has_all_totals, is_complete, not_returned, watch_gaps};
pub use winner::{LEAST_RUNS, Outcome};

pub use crate::core::median::{median, median_time, median_u64, of_median_time};
