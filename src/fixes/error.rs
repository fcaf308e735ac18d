//! The errors of applying and undoing a fix.

use crate::core::FixId;
use std::path::PathBuf;
use thiserror::Error;

/// Why a fix was not applied or undone.
#[derive(Debug, Error)]
pub enum FixError {
    /// The fix can only be shown.
    #[error("{id} is shown and never applied by gds-top: {why}; follow its steps by hand")]
    OnlyShown {
        /// The fix.
        id: FixId,
        /// The reason.
        why: String,
    },
    /// It cannot be applied on this machine.
    #[error("{id} cannot be applied here: {why}")]
    Obstacle {
        /// The fix.
        id: FixId,
        /// The reason.
        why: String,
    },
    /// It needs root.
    #[error("{id} needs root; run: {command}")]
    NeedsRoot {
        /// The fix.
        id: FixId,
        /// The command line that applies it, see [`super::Place::command`].
        command: String,
    },
    /// The plan differs from the one to which the user consented.
    #[error("the changes of {id} differ from the preview, so nothing was changed; preview the fix again")]
    NotConsented {
        /// The fix.
        id: FixId,
    },
    /// A file changed after the preview.
    #[error("{path} changed since the preview ({found}); preview the fix again")]
    Changed {
        /// The file.
        path: PathBuf,
        /// The current state of the file.
        found: String,
    },
    /// A file changed after the fix, and the lines of the fix cannot be identified in it.
    #[error(
        "{path} was changed after the fix, and the fix's lines cannot be identified; nothing was written. The earlier text is in {journal}: remove the fix's lines by hand, then run the undo again"
    )]
    ChangedSince {
        /// The file.
        path: PathBuf,
        /// The path of the journal entry.
        journal: PathBuf,
    },
    /// A path contains a symbolic link.
    #[error("{path} contains a symbolic link, and fixes never write through one")]
    Symlink {
        /// The path.
        path: PathBuf,
    },
    /// A file is not text, so a plan cannot edit it.
    #[error("{path}: it is not text in UTF-8")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be handled.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// The problem and the message of the system.
        what: String,
    },
    /// The journal does not contain the fix.
    #[error("the journal in {journal} has no applied fix '{id}', so there is nothing to undo")]
    NotApplied {
        /// The fix.
        id: FixId,
        /// The directory of the journal.
        journal: PathBuf,
    },
    /// Root applied it, and this process is not root.
    #[error("{id} was applied by root; run: {command}")]
    AppliedByRoot {
        /// The fix.
        id: FixId,
        /// The command line that undoes it.
        command: String,
    },
    /// It was interrupted and has not been resumed.
    #[error("{id} was interrupted; run: {command}")]
    Interrupted {
        /// The fix.
        id: FixId,
        /// The command line that resumes it.
        command: String,
    },
    /// This user did not apply it. The journal of root cannot be read.
    #[error("{id} was not applied by this user; if root applied it, run: {command}")]
    PerhapsByRoot {
        /// The fix.
        id: FixId,
        /// The command line that undoes it.
        command: String,
    },
    /// The fix is already applied.
    #[error("{id} is already applied; undo it first: {command}")]
    AlreadyApplied {
        /// The fix.
        id: FixId,
        /// The command line that undoes it.
        command: String,
    },
    /// A command failed.
    #[error("{id}: {command} failed: {what}")]
    Command {
        /// The fix.
        id: FixId,
        /// The command line.
        command: String,
        /// Why it failed, with its exit status.
        what: String,
    },
    /// A failure with a sentence about the state of the files.
    #[error("{cause}; {state}")]
    Failed {
        /// The failure.
        cause: Box<FixError>,
        /// The files that were restored and those that were not, derived from the actual work.
        state: String,
    },
    /// The journal cannot be used.
    #[error("{what}; no file was changed")]
    Journal {
        /// The directory and the reason.
        what: String,
    },
    /// The directory is a capture.
    #[error(
        "{} is a capture, and captures are never changed; to try a fix, copy it and remove capture.json from the copy",
        .state.parent().unwrap_or(.state).display()
    )]
    Capture {
        /// The path of the journal in it.
        state: PathBuf,
    },
    /// It can only be undone manually.
    #[error("{id} changed no file, so gds-top cannot undo it; undo it by hand: {how}")]
    UndoByHand {
        /// The fix.
        id: FixId,
        /// The instructions.
        how: String,
    },
    /// Another process uses the same journal.
    #[error("another gds-top is applying or undoing a fix (the journal in {journal} is locked); wait for it to end")]
    Busy {
        /// The directory of the journal.
        journal: PathBuf,
    },
    /// A signal, or the hook of a test, stopped the work at a step. Nothing is undone, as after a power failure.
    #[error("interrupted before its next step")]
    Stopped {
        /// The step.
        step: String,
    },
}

impl FixError {
    /// Whether the work was prevented before it began: root is needed, another process uses the journal, the fix
    /// cannot be applied on this machine, or a fix to undo is not applied.
    #[must_use]
    pub(super) fn is_obstacle(&self) -> bool {
        matches!(
            self,
            Self::OnlyShown { .. }
                | Self::Obstacle { .. }
                | Self::NeedsRoot { .. }
                | Self::NotApplied { .. }
                | Self::AppliedByRoot { .. }
                | Self::PerhapsByRoot { .. }
                | Self::Busy { .. }
        )
    }

    /// Adds a sentence about the state of the files. An error without a file is unchanged.
    pub(super) fn with(self, state: String) -> Self {
        match self {
            Self::File { .. }
            | Self::NotText { .. }
            | Self::Changed { .. }
            | Self::Symlink { .. }
            | Self::Command { .. } => Self::Failed { cause: Box::new(self), state },
            other => other,
        }
    }

    /// The error without the sentence about the state of the files.
    #[must_use]
    pub fn cause(&self) -> &Self {
        if let Self::Failed { cause, .. } = self { cause } else { self }
    }
}
