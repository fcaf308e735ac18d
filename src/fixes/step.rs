//! The steps of applying, undoing and resuming a fix. A hook is called before each step.

use super::error::FixError;

/// A step of the work. Tests use the hook to stop the work before it, as after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next action writes the journal entry.
    Journal,
    /// The next action starts to write the new content to a temporary file.
    Stage,
    /// Half of the new content is written.
    Half,
    /// The next action replaces the file.
    Commit,
    /// The next action runs a command.
    Command,
    /// The next action marks the entry as complete.
    Finish,
    /// The next action restores a file.
    Restore,
    /// The next action removes directories that the fix created.
    Folders,
    /// The next action removes the journal entry.
    Forget,
}

pub(super) type Hook<'a> = &'a mut dyn FnMut(Step) -> bool;

/// Runs a command. The error is a part of a sentence.
pub(super) type Runner<'a> = &'a mut dyn FnMut(&[String]) -> Result<(), String>;

pub(super) fn step(hook: Hook<'_>, step: Step) -> Result<(), FixError> {
    if hook(step) { Ok(()) } else { Err(FixError::Stopped { step: format!("{step:?}") }) }
}
