//! The time of a run by phase.

use super::view::GAP;
use crate::core::{Phase, PhaseTimes, RunResult};

/// The phases with their share of the time (0 to 1), the largest first.
#[must_use]
pub fn split(times: &PhaseTimes, wall_ns: u64) -> Vec<(Phase, f64)> {
    let mut shares: Vec<(Phase, f64)> =
        times.iter().filter(|(_, ns)| *ns > 0).map(|(phase, ns)| (phase, ns as f64 / wall_ns.max(1) as f64)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// A phase with its share: `transfer 71 %`. No-break spaces keep the words on one line.
#[must_use]
pub fn share((phase, share): (Phase, f64)) -> String {
    format!("{}\u{a0}{:.0}\u{a0}%", title(phase).replace(' ', "\u{a0}"), share * 100.0)
}

/// The display name of a phase: `register buffer`.
#[must_use]
pub const fn title(phase: Phase) -> &'static str {
    match phase {
        Phase::RegisterHandle => "register handle",
        Phase::RegisterBuffer => "register buffer",
        _ => phase.name(),
    }
}

/// The three largest phases of a run: `transfer 71 %, copy 22 %, sync 3 %`.
#[must_use]
pub fn largest(run: &RunResult) -> String {
    let largest: Vec<String> =
        split(&run.phases, run.wall_ns).into_iter().filter(|(_, share)| *share >= 0.01).take(3).map(share).collect();
    if largest.is_empty() { GAP.to_owned() } else { largest.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_phases_come_first_and_small_ones_are_left_out() {
        let mut times = PhaseTimes::default();
        for (phase, ns) in [(Phase::Sync, 30), (Phase::Transfer, 700), (Phase::RegisterBuffer, 260), (Phase::Open, 2)] {
            times.add(phase, ns);
        }
        let split = split(&times, 1000);
        assert_eq!(
            split.iter().map(|(phase, _)| *phase).collect::<Vec<_>>()[..2],
            [Phase::Transfer, Phase::RegisterBuffer]
        );
        assert_eq!(share(split[1]), "register\u{a0}buffer\u{a0}26\u{a0}%");
    }
}
