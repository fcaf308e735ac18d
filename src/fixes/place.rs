//! Where fixes are applied and where their journal is.

use super::error::FixError;
use super::store::{Chain, Closed};
use crate::checks::fix_line;
use crate::core::{FixPlan, Needs};
use crate::machine::Root;
use crate::text::quoted;
use crate::trust;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of root's journal.
const ROOT_STATE: &str = "/var/lib/gds-top";
/// The name of the journal's directory below `--root`.
const STATE: &str = ".gds-top";

/// Where fixes are applied and where their journal is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The directory to which the absolute paths of a plan are relative: `/` for the machine itself, otherwise a copy
    /// of a machine.
    pub root: PathBuf,
    /// The directory of the journal.
    pub state: PathBuf,
    /// The directory that the user named. It is kept open, so that another user cannot redirect a fix by renaming
    /// directories.
    held: Option<Arc<Held>>,
}

#[derive(Debug)]
struct Held {
    /// The directory itself.
    top: OwnedFd,
    /// The directory to which the paths of a plan are relative: the named one, or `files` in it.
    root: OwnedFd,
    /// Whether it is a capture.
    is_capture: bool,
}

impl Place {
    /// This machine. The journal is in `/var/lib/gds-top` for root, and in `$XDG_STATE_HOME/gds-top`
    /// (`~/.local/state/gds-top`) for other users.
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
        Self::below(Path::new("/"), &state)
    }

    /// A copy of a machine: a directory tree, or a capture without its `capture.json`. The files of a capture are
    /// below `files/`. The journal is in its directory `.gds-top`.
    ///
    /// # Errors A sentence if it is not a directory, or if it is the machine itself.
    pub fn folder(folder: &Path) -> Result<Self, String> {
        let unopened = |e: Errno| format!("{} cannot be opened: {e}", folder.display());
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        // The path of the directory can contain links of the user and of root. Paths below it cannot.
        let (top, real) = match trust::Destination::open(folder) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(format!(
                    "{} is not a directory; fixes are written to a directory, so unpack an archive first (tar --zstd -xf)",
                    folder.display()
                ));
            }
            Err(error) => return Err(format!("{} cannot be opened: {error}", folder.display())),
            Ok(opened) => (
                rustix::fs::openat(opened.held(), ".", flags, Mode::empty()).map_err(unopened)?,
                opened.real().unwrap_or_else(|_| folder.to_owned()),
            ),
        };
        let (this, machine) = (rustix::fs::fstat(&top).map_err(unopened)?, rustix::fs::stat("/").map_err(unopened)?);
        if (this.st_dev, this.st_ino) == (machine.st_dev, machine.st_ino) {
            return Err("/ is this machine: omit --sysroot".to_owned());
        }
        let kind = |name: &str| {
            let stat = rustix::fs::statat(&top, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(FileType::from_raw_mode(stat.st_mode))
        };
        if kind("files") == Some(FileType::Symlink) {
            return Err(format!(
                "{} is a symbolic link, and fixes never write through one: pass its target",
                real.join("files").display()
            ));
        }
        let is_capture = kind("capture.json").is_some();
        let (root, below) = if kind("files") == Some(FileType::Directory) {
            (
                rustix::fs::openat(&top, "files", flags | OFlags::NOFOLLOW, Mode::empty()).map_err(unopened)?,
                real.join("files"),
            )
        } else {
            (rustix::io::fcntl_dupfd_cloexec(&top, 0).map_err(unopened)?, real.clone())
        };
        let held = Some(Arc::new(Held { top, root, is_capture }));
        Ok(Self { root: below, state: real.join(STATE), held })
    }

    /// The place with root's journal. `None` if this is it.
    pub(super) fn of_root(&self) -> Option<Self> {
        (self.is_live() && self.state != Path::new(ROOT_STATE)).then(|| Self::below(&self.root, Path::new(ROOT_STATE)))
    }

    /// A directory with a copy of a machine, with the journal in another directory.
    #[must_use]
    pub fn below(root: &Path, state: &Path) -> Self {
        Self { root: root.to_owned(), state: state.to_owned(), held: None }
    }

    /// Whether this is the live machine.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Whether this is a capture.
    #[must_use]
    pub fn is_capture(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_capture)
    }

    /// Returns an error for a capture, because captures are never changed.
    ///
    /// # Errors
    /// [`FixError::Capture`].
    pub fn writable(&self) -> Result<(), FixError> {
        if self.is_capture() { Err(FixError::Capture { state: self.state.clone() }) } else { Ok(()) }
    }

    /// Opens the directory to which the paths of a plan are relative.
    pub(super) fn open_root(&self) -> Result<OwnedFd, FixError> {
        let opened = match &self.held {
            Some(held) => rustix::io::fcntl_dupfd_cloexec(&held.root, 0),
            None => rustix::fs::open(&self.root, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
        };
        opened.map_err(|e| FixError::File { path: self.root.clone(), what: format!("it cannot be opened: {e}") })
    }

    /// Whether a file or directory with the name of the journal's directory exists.
    pub(super) fn has_state(&self) -> bool {
        let looked = match &self.held {
            Some(held) => rustix::fs::statat(&held.top, STATE, AtFlags::SYMLINK_NOFOLLOW),
            None => rustix::fs::lstat(&self.state),
        };
        // If the name cannot be examined, there may be a journal.
        !matches!(looked, Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// The directories that lead to the journal, from `/` or from the directory that the user named. Each of them
    /// must be safe from other users.
    pub(super) fn chain(&self) -> Result<Chain, Closed> {
        match &self.held {
            Some(held) if held.is_capture => {
                let why = "directory is in a capture, and captures are never written";
                Err(Closed::Refused(self.state.clone(), why.to_owned()))
            }
            Some(held) => {
                let top = rustix::io::fcntl_dupfd_cloexec(&held.top, 0);
                let top =
                    top.map_err(|e| Closed::Refused(self.state.clone(), format!("directory cannot be opened: {e}")))?;
                let shown = self.state.parent().unwrap_or(&self.state);
                Ok(Chain::below(top, shown, &[STATE, "journal"]))
            }
            None => Chain::from_root(&self.state.join("journal")),
        }
    }

    /// The command line of `gds-top fix` for this place, with these words after `fix`.
    #[must_use]
    pub fn command(&self, words: &str, path: Option<&Path>, needs: Needs) -> String {
        if self.is_live() {
            return fix_line(Some(&Root::live()), path, words, needs);
        }
        let folder = self.state.parent().unwrap_or(&self.root).display().to_string();
        format!("{} --sysroot {}", fix_line(None, path, words, needs), quoted(&folder))
    }

    /// The command line that this user runs next. If this process is root, it was started by sudo.
    #[must_use]
    pub fn again(&self, words: &str, path: Option<&Path>) -> String {
        let is_root = self.is_live() && rustix::process::geteuid().is_root();
        self.command(words, path, if is_root { Needs::Root } else { Needs::User })
    }

    /// Whether this plan needs root and this process is not root.
    #[must_use]
    pub fn lacks_root(&self, plan: &FixPlan) -> bool {
        let needs = plan.needs != Needs::User;
        #[cfg(debug_assertions)]
        if std::env::var_os("GDS_TOP_TEST_NOT_ROOT").is_some() {
            // Tests of sudo on the terminal also run as root. Release builds do not contain this.
            return needs;
        }
        self.is_live() && needs && !rustix::process::geteuid().is_root()
    }
}
