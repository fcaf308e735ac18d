//! The sentences about the tensors of a run: the slowest tensor, the overhead, and the size at which two engines are
//! equally fast.

use super::cost::{NO_CROSSOVER, a_worker, r2};
use crate::analysis::{CostModel, Crossover, TensorRow};
use crate::core::Engine;
use crate::core::units::{bytes, duration, rate};
use crate::session::{Lane, State};

/// The reason why no tensors are shown. `has_run` is true if the rows of the selected run are not known yet.
pub(crate) fn nothing(state: &State, has_run: bool) -> &'static str {
    if has_run {
        "Computing the overhead of each tensor from the timeline of the load …"
    } else if state.running_lane().is_some() {
        "The first load is running; its tensors are shown when it has finished."
    } else if state.grid.is_some() && state.lanes.is_empty() {
        "This session measured the storage and loaded no model, so there are no tensors."
    } else if state.lanes.is_empty() {
        "No load yet, so there are no tensor times."
    } else {
        "No load has finished with its timeline, so there are no tensor times."
    }
}

/// The name of the units that a run moves: pieces of a KV cache, or tensors.
pub(crate) const fn thing(engine: &Engine) -> &'static str {
    if matches!(engine, Engine::Workload(_)) { "piece" } else { "tensor" }
}

/// The slowest tensor of a run as a long and a short sentence. The long one also has the time of another run for this
/// tensor.
pub(crate) fn slowest(lane: &Lane, name: &str, row: &TensorRow, other: Option<(&Lane, u64)>) -> [String; 2] {
    let theirs =
        other.map_or_else(String::new, |(lane, ns)| format!(", {} with {}", duration(ns), lane.engine.label()));
    let of_wall = lane.result.as_deref().map_or_else(String::new, |run| format!(" of {}", duration(run.wall_ns)));
    let (size, time, thing) = (bytes(row.bytes), duration(row.busy_ns()), thing(&lane.engine));
    [
        format!("The slowest {thing} is {name} ({size}): {time}{of_wall} with {}{theirs}.", lane.engine.label()),
        format!("Slowest: {name}, {time} for {size}."),
    ]
}

/// The overhead of each tensor and the rate of its bytes. With `proof` also the number of tensors and R².
pub(crate) fn overhead(lane: &Lane, cost: Option<&CostModel>, proof: bool) -> String {
    let thing = thing(&lane.engine);
    let Some(cost) = cost else { return format!("No line fits the times of its {thing}s.") };
    let arrive = format!("arrive at {}{}", rate(cost.fit.bytes_per_s), a_worker(cost));
    let fitted = format!(" ({} {thing}s, R² {})", cost.fit.used, r2(cost.fit.r2));
    let fitted = if proof { fitted } else { String::new() };
    if cost.fit.overhead_ns < (2.0 * cost.fit.errors().0).max(1e3) {
        return format!("The overhead per {thing} is within noise; bytes {arrive}{fitted}.");
    }
    let overhead = duration(cost.fit.overhead_ns.max(0.0) as u64);
    format!("Each {thing} has an overhead of {overhead}, then its bytes {arrive}{fitted}.")
}

/// The size at which the lines of two runs cross. `fitted` is true if both runs have a line.
pub(crate) fn crossing(lane: &Lane, other: &Lane, crossing: Option<Crossover>, fitted: bool) -> String {
    match crossing {
        Some(at) => {
            let (below, above) = if at.first_wins_below { (lane, other) } else { (other, lane) };
            let guess = if at.extrapolated { " (outside the measured range)" } else { "" };
            let (below, above) = (below.engine.label(), above.engine.label());
            format!("┊ {below} is faster below {}, {above} above{guess}", bytes(at.bytes))
        }
        None if fitted => NO_CROSSOVER.to_owned(),
        None => "no crossover without two fitted lines".to_owned(),
    }
}

/// The label of a crossing in a chart.
pub(crate) fn even(at: Crossover) -> String {
    format!("even at {}", bytes(at.bytes))
}

/// The formula of the fitted line, for example `t = 2.70 ms + bytes / 7.10 GB/s`, for one slot or for the elapsed
/// time of all slots. If several slots worked at once, the second text is for example `, 2.0 at once`.
pub(crate) fn formula(cost: Option<&CostModel>, on_clock: bool) -> [String; 2] {
    let Some(cost) = cost else { return ["no line fits".to_owned(), String::new()] };
    let (overhead_ns, bytes_per_s) = match on_clock {
        true => (cost.per_tensor_ns(), cost.bytes_per_s()),
        false => (cost.fit.overhead_ns, cost.fit.bytes_per_s),
    };
    let several = on_clock && cost.parallelism >= 1.05;
    let slots = if several { format!(", {:.1} at once", cost.parallelism) } else { String::new() };
    [format!("t = {} + bytes / {}", duration(overhead_ns.max(0.0) as u64), rate(bytes_per_s)), slots]
}
