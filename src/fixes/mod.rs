//! Remedies: plan, preview, apply, verify, undo, journal. Never acts without consent.

mod applied;
mod apply;
mod error;
mod files;
pub mod guide;
mod journal;
mod preview;
mod recipes;
pub mod text;
mod verify;

pub use apply::{Step, apply, recover, undo};
pub use error::FixError;
pub use journal::{Entry, Journal, Stage};
pub use preview::preview;
pub use recipes::plan;
pub use verify::{apply_and_verify, undo_and_verify};

use std::path::{Path, PathBuf};

/// Where fixes act and where they keep their journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the absolute paths of a plan are below: `/` for the machine itself, a folder in tests.
    pub root: PathBuf,
    /// The folder of the journal.
    pub state: PathBuf,
}

impl Place {
    /// This machine, with the journal in `/var/lib/gds-top` for root and in `$XDG_STATE_HOME/gds-top` (`~/.local/state/gds-top`) for others.
    #[must_use]
    pub fn live() -> Self {
        let state = if rustix::process::geteuid().is_root() {
            PathBuf::from("/var/lib/gds-top")
        } else {
            std::env::var_os("XDG_STATE_HOME")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")))
                .unwrap_or_else(std::env::temp_dir)
                .join("gds-top")
        };
        Self { root: PathBuf::from("/"), state }
    }

    /// A folder that stands for a machine.
    #[must_use]
    pub fn below(root: &Path, state: &Path) -> Self {
        Self { root: root.to_owned(), state: state.to_owned() }
    }

    /// Whether this is the machine itself.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }
}
