//! The commands that a front end can send to a session.

use crate::core::{Engine, FixId};

/// The value of [`Command::Speed`] for real time.
pub const REAL_TIME: u32 = 16;

/// A command for the session. Its results are events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run all checks again.
    Recheck,
    /// Apply this fix. The second value is the digest of the plan that the user consented to (`FixPlan::digest`). A
    /// plan with another digest is rejected.
    ApplyFix(FixId, String),
    /// Report the changes of a fix as fix progress, without making them.
    DryRunFix(FixId),
    /// Undo the fix with this id.
    UndoFix(FixId),
    /// Run the race again. `None` means the engines of the first plan.
    Race(Option<Vec<Engine>>),
    /// Run the plan with this name (see [`crate::core::RacePlan`]). The user has agreed to the files that it writes.
    RunPlan(String),
    /// Stop the current run and drop the waiting ones.
    CancelRace,
    /// Replay only: pause or continue.
    Pause(bool),
    /// Replay only: set the speed in sixteenths of real time (see [`REAL_TIME`]); 0 means as fast as possible.
    Speed(u32),
    /// Replay only: go to this session time in nanoseconds. The result is [`super::Played::Sought`].
    Seek(u64),
    /// Replay only: continue with the first load when the end is reached.
    Loop(bool),
    /// Start or stop sampling the processes that use GPUs and storage. Sampling has an overhead, so it only runs
    /// while its screen is shown.
    WatchSystem(bool),
    /// This signal reached gds-top. The value is whether another process sent it, so that it did not reach a watched
    /// program: a terminal sends signals to all processes in the foreground. A session without a program ends.
    Signal(i32, bool),
    /// End the session.
    Quit,
}
