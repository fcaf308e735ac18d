//! The journal of fixes: what is being changed, what stood there before, how far it came. Written to disk before anything is changed.

use super::FixError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How far a fix has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its changes are being made; found at a start it was interrupted.
    Applying,
    /// All its changes are made.
    Applied,
    /// Its changes are being taken back; found at a start it was interrupted.
    Undoing,
}

/// What stood in a file before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The text.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// One file that a fix changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// What stood there; `None` where it did not exist.
    pub before: Option<Before>,
    /// What the fix writes.
    pub after: String,
    /// Permission bits that the fix gives it.
    pub mode: u32,
    /// Folders that the fix makes for it, outermost first.
    pub made_folders: Vec<PathBuf>,
}

/// A fix in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Form of the entry.
    pub schema_version: u32,
    /// The fix.
    pub id: String,
    /// The check that it mends.
    pub check: String,
    /// One line.
    pub title: String,
    /// Seconds since 1970.
    pub at_unix_s: u64,
    /// How far it came.
    pub stage: Stage,
    /// Its files.
    pub files: Vec<Written>,
}

/// The journal's folder.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// The journal below a state folder.
    #[must_use]
    pub fn at(state: &Path) -> Self {
        Self { folder: state.join("journal") }
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, id: &str) -> PathBuf {
        let safe: String = id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
        self.folder.join(format!("{safe}.json"))
    }

    fn bad(path: &Path, what: String) -> FixError {
        FixError::File { path: path.to_owned(), what }
    }

    /// Writes an entry and waits until it is on disk.
    pub(super) fn write(&self, entry: &Entry) -> Result<(), FixError> {
        let path = self.path(&entry.id);
        let bytes = serde_json::to_vec_pretty(entry).map_err(|e| Self::bad(&path, e.to_string()))?;
        let written = (|| -> std::io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(&bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            fs::File::open(&self.folder)?.sync_all().or(Ok(()))
        })();
        written.map_err(|e| Self::bad(&path, format!("the journal cannot be written: {e}; nothing was changed")))
    }

    /// The entry of a fix.
    pub(super) fn read(&self, id: &str) -> Result<Option<Entry>, FixError> {
        let path = self.path(id);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
                Self::bad(&path, format!("this entry of the journal is damaged: {e}; restore the file by hand"))
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Self::bad(&path, format!("the journal cannot be read: {e}"))),
        }
    }

    /// Forgets a fix whose changes are taken back.
    pub(super) fn forget(&self, id: &str) -> Result<(), FixError> {
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Self::bad(&path, format!("it cannot be removed: {e}")))
            }
            _ => Ok(()),
        }
    }

    /// All entries, by id; damaged ones are left out.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut out: Vec<Entry> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "json"))
            .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
            .collect();
        out.sort_by(|a: &Entry, b: &Entry| a.id.cmp(&b.id));
        out
    }
}
