//! The commands of a front to a session.

use crate::core::{Engine, FixId};

/// The [`Command::Speed`] at which a replay takes as long as the session did.
pub const REAL_TIME: u32 = 16;

/// A request to the session. Answers come back as events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run all checks again.
    Recheck,
    /// Apply this fix. The second value is the digest of the plan that the user consented to (`FixPlan::digest`): a
    /// plan with another digest is rejected.
    ApplyFix(FixId, String),
    /// Say what the fix would do, without doing it (as fix progress).
    DryRunFix(FixId),
    /// Undo the fix with this id.
    UndoFix(FixId),
    /// Run the race again; `None` is the engines of the first plan.
    Race(Option<Vec<Engine>>),
    /// Run the plan of this name, see [`crate::core::RacePlan`]; the user has agreed to the files that it writes.
    RunPlan(String),
    /// Stop the running lane and drop the waiting ones.
    CancelRace,
    /// Replay only: pause or go on.
    Pause(bool),
    /// Replay only: speed in sixteenths of real time, see [`REAL_TIME`]; 0 is as fast as possible.
    Speed(u32),
    /// Replay only: go to this session time, in nanoseconds. The answer is [`super::Played::Sought`].
    Seek(u64),
    /// Replay only: begin again at the first load when the end is reached.
    Loop(bool),
    /// Start or stop watching which processes use GPUs and storage. Watching has an overhead, so it runs only while
    /// its screen is shown.
    WatchSystem(bool),
    /// End the session.
    Quit,
}
