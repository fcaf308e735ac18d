//! Synchronizes runs in a group: they wait for the common start of their clocks, and their spans refer to the image
//! of the complete model.

use super::error::LoadError;
use super::protocol::{GO, monotonic_ns};
use crate::core::{LaneOrder, Span};
use crate::models::{self, plan};
use std::time::Duration;

/// Waits for the session's message. Returns the CLOCK_MONOTONIC time in nanoseconds at which all runs continue.
/// `announce` reports to the session that this run waits.
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

/// Sleeps until shortly before a time and then polls, so that the clocks of a group start within microseconds of each
/// other.
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

/// Converts spans to the image of the complete model. An engine loads a part of a model into an image of the size of
/// that part. In results, the spans of all runs refer to the complete model.
pub(super) fn to_complete_image(order: &LaneOrder, spans: &mut [Span]) -> Result<(), LoadError> {
    let ours = !order.engine.is_outside();
    if order.ranges.is_empty() || !ours {
        return Ok(());
    }
    let (from, to) = (plan::part_bases(&order.ranges), order.model.image_bases());
    let complete = models::reread(&order.model)?;
    let numbers = models::clipped_numbers(&complete, &order.ranges);
    for span in spans {
        if let Some(tensor) = &mut span.tensor {
            *tensor = numbers.get(*tensor as usize).copied().unwrap_or(*tensor);
        }
        if span.bytes == 0 {
            continue;
        }
        // The last start that is not above the offset. A range without bytes has the same start as the next one.
        let shard = from[..from.len() - 1].partition_point(|base| *base <= span.offset).saturating_sub(1);
        if let (Some(base), Some(range), Some(place)) = (from.get(shard), order.ranges.get(shard), to.get(shard)) {
            span.offset = place + range.start + (span.offset - base);
        }
    }
    Ok(())
}
