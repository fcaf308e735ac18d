//! Waiting before a step, so that a test can kill the program there.

use super::{Place, Step};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// The variable: the number of the step, from 1, before which the program waits.
const VARIABLE: &str = "GDS_TOP_FIX_HOLD_AT";
/// A file of this name in the journal's folder lets it go on.
const GO: &str = "go";
/// How long it waits to be killed or let go; then it goes on.
const PATIENCE: Duration = Duration::from_secs(60);

/// The hook that is called before each step. If the variable is set and the fix works below `--root`, it waits before
/// that step and reports it on standard error. On the machine itself the variable has no effect.
pub(super) fn hook(place: &Place) -> impl FnMut(Step) -> bool + use<> {
    let wanted: Option<u32> = std::env::var(VARIABLE).ok().filter(|_| !place.is_live()).and_then(|n| n.parse().ok());
    let go = place.state.join(GO);
    let mut at = 0;
    move |step| {
        at += 1;
        if wanted == Some(at) {
            // The line is for the test that waits for it.
            let _ = writeln!(std::io::stderr(), "holding before step {at}: {step:?}");
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until && !go.exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        true
    }
}
