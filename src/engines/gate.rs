//! Lanes that run together: waiting for the common start of their clocks, and speaking of one image where each loads a part.

use super::error::LoadError;
use super::protocol::{GO, monotonic_ns};
use crate::core::{LaneOrder, Span};
use crate::models::{self, plan};
use std::time::Duration;

/// Waits for the session's message; returns the CLOCK_MONOTONIC nanoseconds at which all lanes continue. `announce`
/// reports that this lane waits.
pub(super) fn wait(gate: u32, announce: &mut dyn FnMut()) -> Result<u64, LoadError> {
    announce();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    let at = line.trim().strip_prefix(GO).and_then(|at| at.trim().parse().ok());
    match (read, at) {
        (Ok(_), Some(at)) => Ok(at),
        (Ok(_), None) => Err(LoadError::Together { gate, said: format!("'{}'", line.trim()) }),
        (Err(error), _) => Err(LoadError::Together { gate, said: error.to_string() }),
    }
}

/// Sleeps until shortly before a time and spins the rest, so that the clocks of a group start within microseconds of each other.
pub(super) fn until(at_monotonic_ns: u64) {
    const SPIN_NS: u64 = 200_000;
    loop {
        let left = at_monotonic_ns.saturating_sub(monotonic_ns());
        if left == 0 {
            return;
        }
        if left > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Engines load a part of a model into a separate image, which is not longer than the part. Outside, spans refer to
/// the complete model's image and its tensors, so that all runs fill one map.
pub(super) fn to_whole_image(order: &LaneOrder, spans: &mut [Span]) -> Result<(), LoadError> {
    let ours = !order.engine.is_outside();
    if order.ranges.is_empty() || !ours {
        return Ok(());
    }
    let (from, to) = (plan::part_bases(&order.ranges), order.model.image_bases());
    let whole = models::reread(&order.model)?;
    let numbers = models::clipped_numbers(&whole, &order.ranges);
    for span in spans {
        if let Some(tensor) = &mut span.tensor {
            *tensor = numbers.get(*tensor as usize).copied().unwrap_or(*tensor);
        }
        if span.bytes == 0 {
            continue;
        }
        // The last base that is not beyond the offset; ranges without bytes share theirs with the next.
        let shard = from[..from.len() - 1].partition_point(|base| *base <= span.offset).saturating_sub(1);
        if let (Some(base), Some(range), Some(place)) = (from.get(shard), order.ranges.get(shard), to.get(shard)) {
            span.offset = place + range.start + (span.offset - base);
        }
    }
    Ok(())
}
