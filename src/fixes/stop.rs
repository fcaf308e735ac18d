//! Stops the work on a fix before its next step, as a signal requests it.

use super::step::Step;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process applies, undoes or resumes a fix now.
static WORKS: AtomicBool = AtomicBool::new(false);
/// Whether the work must stop.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Lets the fix that is applied, undone or resumed now stop before its next step. Returns false if there is none.
pub fn stop() -> bool {
    let works = WORKS.load(Ordering::SeqCst);
    if works {
        REQUESTED.store(true, Ordering::SeqCst);
    }
    works
}

/// Whether the work must stop, so that no other fix is started.
#[must_use]
pub fn is_stopped() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Notes whether this process works on a fix. The lock of the journal calls it.
pub(super) fn set_working(works: bool) {
    WORKS.store(works, Ordering::SeqCst);
}

/// The hook of all work: whether this step may begin.
pub(super) fn permits(step: Step) -> bool {
    !(is_stopped() && can_wait(step))
}

/// Whether the work can stop before a step. A file that is half written or half restored is completed, because that
/// takes no time.
fn can_wait(step: Step) -> bool {
    matches!(step, Step::Journal | Step::Stage | Step::Command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_that_begins_something_waits() {
        let steps = [
            Step::Journal,
            Step::Stage,
            Step::Half,
            Step::Commit,
            Step::Command,
            Step::Finish,
            Step::Restore,
            Step::Folders,
            Step::Forget,
        ];
        let waiting: Vec<Step> = steps.into_iter().filter(|step| can_wait(*step)).collect();
        assert_eq!(waiting, [Step::Journal, Step::Stage, Step::Command]);
        assert!(steps.into_iter().all(permits), "no signal was sent");
    }
}
