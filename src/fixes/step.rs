//! The steps of applying, undoing and resuming a fix, before each of which a hook is called.

use super::FixError;

/// A step of the work. A hook is called before each, so that a test can cut the power there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The journal entry is about to be written.
    Journal,
    /// New content is about to be written next to the file.
    Stage,
    /// Half of it is written.
    Half,
    /// It is about to be put in the file's place.
    Commit,
    /// A command is about to be run.
    Command,
    /// The journal is about to say that all is done.
    Finish,
    /// A file is about to be restored.
    Restore,
    /// Folders that the fix made are about to be removed.
    Folders,
    /// The journal entry is about to be removed.
    Forget,
}

pub(super) type Hook<'a> = &'a mut dyn FnMut(Step) -> bool;

/// Runs a command and says how it failed.
pub(super) type Runner<'a> = &'a mut dyn FnMut(&[String]) -> Result<(), String>;

pub(super) fn step(hook: Hook<'_>, step: Step) -> Result<(), FixError> {
    if hook(step) { Ok(()) } else { Err(FixError::Stopped { step: format!("{step:?}") }) }
}
