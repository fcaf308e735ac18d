//! The journal of fixes: what is being changed, what stood there before, how far it came. Written to disk before anything is changed.

use super::FixError;
use crate::domain::{FixRisk, Needs};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
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
    /// Its commands, in order.
    #[serde(default)]
    pub commands: Vec<CommandRun>,
    /// Commands that follow when it is undone.
    #[serde(default)]
    pub undo_commands: Vec<Vec<String>>,
    /// What is left for a person.
    #[serde(default)]
    pub remaining: Vec<String>,
    /// How it is verified.
    #[serde(default)]
    pub verify: String,
    /// It takes effect after a reboot (or a new login) only.
    #[serde(default)]
    pub waits_for_boot: bool,
    /// The boot in which it was applied (`/proc/sys/kernel/random/boot_id`), where that can be read.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// Whom it needed; entries of earlier versions do not say.
    #[serde(default)]
    pub needs: Option<Needs>,
    /// How risky it was.
    #[serde(default)]
    pub risk: Option<FixRisk>,
}

/// How far a command of a fix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// Not run yet.
    Waiting,
    /// Started; found at a start it was interrupted, and whether it ended is not known.
    Started,
    /// It succeeded.
    Done,
    /// Never run: the fix was applied to a folder, not to a running machine.
    Skipped,
}

/// A command of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// Program and arguments, as shown.
    pub argv: Vec<String>,
    /// How far it is.
    pub state: CommandState,
}

/// The form of an entry that this program writes and understands.
pub(super) const ENTRY_VERSION: u32 = 1;
/// Most bytes of an entry: two files of 4 MiB each, as text of JSON.
const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// An entry as it stands in a file. Nothing else than a regular file is one, so that a FIFO does not hang and a link does not lead elsewhere.
fn load(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_ENTRY_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_ENTRY_BYTES {
        return Err(std::io::Error::other("it is longer than any entry"));
    }
    Ok(bytes)
}

/// The entry in these bytes, or a part of a sentence that says why there is none.
fn parse(bytes: &[u8]) -> Result<Entry, String> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    if let Ok(Version { schema_version }) = serde_json::from_slice(bytes)
        && schema_version != ENTRY_VERSION
    {
        return Err(format!(
            "is of form {schema_version}, which another version of gds-top wrote; this one knows {ENTRY_VERSION}: use that version"
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| format!("is damaged: {error}"))
}

/// Names of entries that are being written begin so.
const TEMPORARY: &str = ".entry-";

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

    pub(super) fn path(&self, id: &str) -> PathBuf {
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
            let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.folder)?;
            file.write_all(&bytes)?;
            // What anybody may read in the files may be read here: others then see which fixes wait for a reboot.
            if entry.files.iter().all(|file| file.before.as_ref().is_none_or(|before| before.mode & 0o004 != 0)) {
                file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            }
            file.as_file().sync_all()?;
            file.persist(&path)?;
            fs::File::open(&self.folder)?.sync_all().or(Ok(()))
        })();
        written.map_err(|e| Self::bad(&path, format!("the journal cannot be written: {e}; nothing was changed")))
    }

    /// The entry of a fix.
    pub(super) fn read(&self, id: &str) -> Result<Option<Entry>, FixError> {
        let path = self.path(id);
        match load(&path) {
            Ok(bytes) => parse(&bytes).map(Some).map_err(|what| {
                Self::bad(&path, format!("this entry of the journal {what}; nothing was changed, look at it by hand"))
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

    /// All entries, by id; damaged ones are left out (see [`Journal::damaged`]).
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut out: Vec<Entry> = self
            .files()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .filter_map(|path| parse(&load(&path).ok()?).ok())
            .collect();
        out.sort_by(|a: &Entry, b: &Entry| a.id.cmp(&b.id));
        out
    }

    /// Entries that can be read and make no sense, with what is wrong.
    #[must_use]
    pub fn damaged(&self) -> Vec<String> {
        let broken = |path: &PathBuf| {
            let what = match load(path) {
                Ok(bytes) => parse(&bytes).err()?,
                // Entries of files that not everybody may read are their owner's.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
                Err(error) => format!("cannot be read: {error}"),
            };
            Some(format!(
                "{}: this entry of the journal {what}; what its fix wrote stays, look at it by hand",
                path.display()
            ))
        };
        self.files().iter().filter(|path| path.extension().is_some_and(|e| e == "json")).filter_map(broken).collect()
    }

    /// Removes entries that were cut short while they were written; they had not begun to count.
    pub(super) fn sweep(&self) {
        let is_cut = |path: &&PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(TEMPORARY));
        for path in self.files().iter().filter(is_cut) {
            let _ = fs::remove_file(path);
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect()
    }
}
