//! The hook before each step of the program. It stops the work after a signal. In debug builds it also pauses before a
//! step, so that a test can kill the program at this point.

use super::place::Place;
use super::step::Step;
use super::stop;
#[cfg(debug_assertions)]
use std::{
    io::Write as _,
    time::{Duration, Instant},
};

/// The environment variable with the number of the step, from 1, before which the program pauses.
#[cfg(debug_assertions)]
const VARIABLE: &str = "GDS_TOP_FIX_HOLD_AT";
/// If a file with this name is in the journal's directory, the program continues.
#[cfg(debug_assertions)]
const GO: &str = "go";
/// The maximum duration of the pause. Then, or after a signal, the program continues.
#[cfg(debug_assertions)]
const PATIENCE: Duration = Duration::from_secs(60);

/// The hook before each step. If the variable is set and the fix works below `--root`, the hook pauses before that
/// step and reports it on standard error. On a live machine the variable has no effect.
#[cfg(debug_assertions)]
pub(super) fn hook(place: &Place) -> impl FnMut(Step) -> bool + use<> {
    let wanted: Option<u32> = std::env::var(VARIABLE).ok().filter(|_| !place.is_live()).and_then(|n| n.parse().ok());
    let go = place.state.join(GO);
    let mut at = 0;
    move |step| {
        at += 1;
        if wanted == Some(at) {
            // The test waits for this line.
            let _ = writeln!(std::io::stderr(), "holding before step {at}: {step:?}");
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until && !go.exists() && !stop::is_stopped() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        stop::permits(step)
    }
}

/// The hook before each step.
#[cfg(not(debug_assertions))]
pub(super) fn hook(_: &Place) -> impl FnMut(Step) -> bool + use<> {
    stop::permits
}
