//! Remedies: plan, preview, apply, verify, undo, journal. Never acts without consent.

mod advised;
mod applied;
mod apply;
mod boot;
mod command_line;
mod commands;
mod config;
mod distribution;
mod doca;
mod error;
mod files;
mod fitting;
pub mod guide;
mod held;
mod hold;
mod install;
mod interrupted;
mod journal;
mod kernel;
mod limits;
mod lock;
mod merge;
mod modprobe;
mod multipath;
mod packages;
mod parts;
mod preview;
mod recipes;
mod registry;
mod repository;
mod resume;
pub mod text;
mod udev;
mod undoable;
mod verify;

pub use apply::{Step, Undone, apply, apply_with, undo, undo_with};
pub use commands::{quoted_line, run_streamed};
pub use error::FixError;
pub use interrupted::{interrupted, recover, recover_with};
pub use journal::{CommandRun, CommandState, Entry, Journal, Stage, Written};
pub use preview::preview;
pub use recipes::{RECIPES, Recipe, plan, plan_by_id};
pub use resume::take_up;
pub use undoable::undoable;
pub use verify::{apply_and_verify, undo_and_verify};

use crate::domain::FixPlan;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// Where the journal of root lies.
const ROOT_STATE: &str = "/var/lib/gds-top";

/// Where fixes act and where they keep their journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the absolute paths of a plan are below: `/` for the machine itself, else a folder that stands for one.
    pub root: PathBuf,
    /// The folder of the journal.
    pub state: PathBuf,
}

impl Place {
    /// This machine, with the journal in `/var/lib/gds-top` for root and in `$XDG_STATE_HOME/gds-top` (`~/.local/state/gds-top`) for others.
    #[must_use]
    pub fn live() -> Self {
        let state = if rustix::process::geteuid().is_root() {
            PathBuf::from(ROOT_STATE)
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

    /// A folder that stands for a machine: a captured one (its files are below `files/`) or a plain tree. The journal is in `.gds-top` in it, and
    /// goes when nothing is applied any more.
    ///
    /// # Errors
    /// A sentence, when it is no folder, or the machine itself.
    pub fn folder(folder: &Path) -> Result<Self, String> {
        let real = folder.canonicalize().map_err(|e| format!("{} cannot be opened: {e}", folder.display()))?;
        if !real.is_dir() {
            return Err(format!(
                "{} is no folder; fixes are written to a folder, so unpack an archive first (tar --zstd -xf)",
                folder.display()
            ));
        }
        if real == Path::new("/") {
            return Err("/ is this machine itself: leave --root out".to_owned());
        }
        let files = real.join("files");
        // A folder from a stranger must not lead out of itself.
        for part in [&files, &real.join(".gds-top"), &real.join(".gds-top/journal")] {
            if std::fs::symlink_metadata(part).is_ok_and(|meta| meta.is_symlink()) {
                return Err(format!(
                    "{} is a symbolic link, and fixes never write through one; nothing was changed: replace it by what it points to",
                    part.display()
                ));
            }
        }
        let root = if files.is_dir() { files } else { real.clone() };
        Ok(Self { root, state: real.join(".gds-top") })
    }

    /// A folder that stands for a machine, with the journal elsewhere.
    #[must_use]
    pub fn below(root: &Path, state: &Path) -> Self {
        Self { root: root.to_owned(), state: state.to_owned() }
    }

    /// Whether this is the machine itself.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The journals that tell what was done here: the own one, and that of root where it may be read.
    #[must_use]
    pub fn journals(&self) -> Vec<Journal> {
        let mut out = vec![Journal::at(&self.state)];
        if self.is_live() && self.state != Path::new(ROOT_STATE) {
            out.push(Journal::at(Path::new(ROOT_STATE)));
        }
        out
    }

    /// Whether applying this plan here needs root that this process has not.
    #[must_use]
    pub fn lacks_root(&self, plan: &FixPlan) -> bool {
        let needs = plan.needs != crate::domain::Needs::User;
        #[cfg(debug_assertions)]
        if std::env::var_os("GDS_TOP_TEST_NOT_ROOT").is_some() {
            // For the test that the terminal is lent to sudo, whoever runs it; not in a release.
            return needs;
        }
        self.is_live() && needs && !rustix::process::geteuid().is_root()
    }
}

/// A number for what a plan changes, so that another process of this program can tell whether it would do what the user consented to.
#[must_use]
pub fn consent(plan: &FixPlan) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    plan.id.hash(&mut hasher);
    // Written out for debugging, for that cannot fail: what could not be written otherwise would be consented to unseen.
    format!("{:?}", plan.changes).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
