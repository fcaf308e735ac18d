//! The reasons why a fix was not applied or undone.

use crate::core::FixId;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a fix was not applied or undone.
#[derive(Debug, Error)]
pub enum FixError {
    /// The fix is only shown.
    #[error("{id} is shown and never applied by gds-top: {why}; follow its steps by hand")]
    OnlyShown {
        /// The fix.
        id: FixId,
        /// Why.
        why: String,
    },
    /// It cannot be applied here.
    #[error("{id} cannot be applied here: {why}")]
    Obstacle {
        /// The fix.
        id: FixId,
        /// Why.
        why: String,
    },
    /// It needs root.
    #[error("{id} needs root; run: sudo gds-top fix {id}")]
    NeedsRoot {
        /// The fix.
        id: FixId,
    },
    /// The plan is not the one that the user consented to.
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
        /// The present state.
        found: String,
    },
    /// A file changed since the fix, and the lines of the fix cannot be identified.
    #[error(
        "{path} was changed after the fix, and the fix's lines cannot be identified; nothing was written. The earlier text is in {journal}: remove the fix's lines by hand, then run the undo again"
    )]
    ChangedSince {
        /// The file.
        path: PathBuf,
        /// The entry of the journal.
        journal: PathBuf,
    },
    /// There is a symbolic link where a file or folder was expected.
    #[error("{path} contains a symbolic link, and fixes never write through one")]
    Symlink {
        /// The path.
        path: PathBuf,
    },
    /// A file cannot be handled.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, with the system's message.
        what: String,
    },
    /// The journal does not contain the fix.
    #[error("the journal in {journal} has no applied fix '{id}', so there is nothing to undo")]
    NotApplied {
        /// The fix.
        id: FixId,
        /// The journal's folder.
        journal: PathBuf,
    },
    /// The journal of root contains it, and this process is not root.
    #[error("{id} was applied by root; run: sudo gds-top fix --undo {id}")]
    AppliedByRoot {
        /// The fix.
        id: FixId,
    },
    /// It was interrupted and not resumed.
    #[error("{id} was interrupted; run: gds-top fix {id}")]
    Interrupted {
        /// The fix.
        id: FixId,
    },
    /// This user did not apply it, and the journal of root is private.
    #[error("{id} was not applied by this user; if root applied it, run: sudo gds-top fix --undo {id}")]
    PerhapsByRoot {
        /// The fix.
        id: FixId,
    },
    /// It is applied already.
    #[error("{id} is applied already; undo it first: gds-top fix --undo {id}")]
    AlreadyApplied {
        /// The fix.
        id: FixId,
    },
    /// A command failed.
    #[error("{id}: {command} failed: {what}")]
    Command {
        /// The fix.
        id: FixId,
        /// The command line.
        command: String,
        /// How it ended.
        what: String,
    },
    /// It failed, with a statement about the changes.
    #[error("{cause}; {state}")]
    Failed {
        /// Why.
        cause: Box<FixError>,
        /// The files that are restored and those that are not, computed from the work that was done.
        state: String,
    },
    /// The journal cannot be used.
    #[error("{what}; no file was changed")]
    Journal {
        /// Which folder of it, and why.
        what: String,
    },
    /// The folder is a capture.
    #[error(
        "{} is a capture, and captures are never changed; to try a fix, copy it and remove capture.json from the copy",
        .state.parent().unwrap_or(.state).display()
    )]
    Capture {
        /// The folder of a journal in it.
        state: PathBuf,
    },
    /// It is undone by hand.
    #[error("{id} changed no file, so gds-top cannot undo it; undo it by hand: {how}")]
    UndoByHand {
        /// The fix.
        id: FixId,
        /// How.
        how: String,
    },
    /// Another process works on the same journal.
    #[error("another gds-top is applying or undoing a fix (the journal in {journal} is locked); wait for it to end")]
    Busy {
        /// The journal's folder.
        journal: PathBuf,
    },
    /// The hook of a test stopped the work at a step, as a power cut would.
    #[error("stopped before step {step}")]
    Stopped {
        /// The step.
        step: String,
    },
}

impl FixError {
    /// The error with a statement about the present state of the files. An error without a file stays as it is.
    pub(super) fn with(self, state: String) -> Self {
        match self {
            Self::File { .. } | Self::Changed { .. } | Self::Symlink { .. } | Self::Command { .. } => {
                Self::Failed { cause: Box::new(self), state }
            }
            other => other,
        }
    }

    /// The error without that statement.
    #[must_use]
    pub fn cause(&self) -> &Self {
        if let Self::Failed { cause, .. } = self { cause } else { self }
    }
}
