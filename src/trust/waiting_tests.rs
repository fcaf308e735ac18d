//! Helpers of tests that wait for processes.

use super::Limits;
use std::time::{Duration, Instant};

/// Limits whose times do not end.
pub(crate) fn patient() -> Limits {
    Limits { process: Duration::from_secs(60), round: Duration::from_secs(600), ..Limits::default() }
}

/// Waits for a condition, for at most a minute.
pub(crate) fn until(mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}
