//! The profiling overhead of an engine.

use super::labels::plural;
use super::view::{Table, number, text};
use crate::analysis::{Doubt, ProfilingMode, ProfilingOverhead};
use crate::core::units;

const fn meaning(mode: ProfilingMode) -> &'static str {
    match mode {
        ProfilingMode::Bare => "no meters, no output",
        ProfilingMode::Headless => "meters at their usual pace",
        ProfilingMode::Screens => "meters, and the screens on a terminal of 120 by 36",
    }
}

/// The table of the three modes.
#[must_use]
pub fn table(overhead: &ProfilingOverhead) -> Table {
    let rounds = overhead.walls[0].len();
    let row = |mode: ProfilingMode| {
        let walls = &overhead.walls[mode as usize];
        let (low, high) = walls.iter().fold((u64::MAX, 0), |(low, high), ns| (low.min(*ns), high.max(*ns)));
        let middle = overhead.median_ns(mode) as u64;
        vec![
            mode.name().to_owned(),
            units::duration(middle),
            format!("{} – {}", units::duration(low), units::duration(high)),
            units::bytes_per_s(overhead.bytes, middle).map_or_else(String::new, units::rate),
            format!("{:.4}", overhead.ratio(mode)),
            meaning(mode).to_owned(),
        ]
    };
    Table {
        title: format!(
            "{} ({}), {}, {rounds} alternating {}",
            overhead.engine,
            overhead.cache,
            units::bytes(overhead.bytes),
            plural(rounds, "round")
        ),
        note: explanation(overhead),
        heads: vec![text("mode"), number("median"), number("range"), number("rate"), number("ratio"), text("measures")],
        rows: ProfilingMode::ALL.into_iter().map(row).collect(),
    }
}

/// The explanation of the ratios.
fn explanation(overhead: &ProfilingOverhead) -> String {
    if overhead.doubt() == Some(Doubt::BusyCpus) {
        return format!(
            "Not decided: tasks of this machine waited for a CPU in {} of the time. Run again on an idle machine.",
            units::percent(overhead.pressure())
        );
    }
    let (Some(noise), Some(beyond)) = (overhead.noise(), overhead.beyond_noise()) else {
        return "Ratio: time divided by that of the bare load. One round does not show the noise.".to_owned();
    };
    if overhead.doubt().is_some() {
        return format!(
            "Not decided: the bare loads differ by up to {} from their median. Run again on an idle machine with more rounds (--repeat).",
            units::exact_percent(noise)
        );
    }
    let result = match beyond.as_slice() {
        [] => "both ratios are within this noise".to_owned(),
        [one] => format!("the ratio of {} is outside this noise", one.name()),
        _ => "both ratios are outside this noise".to_owned(),
    };
    format!(
        "Ratio: median time divided by that of the bare loads. The bare loads are within ±{} of their median: {result}.",
        units::exact_percent(noise)
    )
}
