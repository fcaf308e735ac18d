//! The journal of fixes: their changes, the previous contents and the progress. It is written to disk before a fix
//! changes anything.

use super::editable;
use super::error::FixError;
use super::place::Place;
use super::store::{Closed, distrust};
use crate::core::{CheckId, FixId, FixRisk, Needs};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The stage of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its changes are being made. If an entry has this stage at a start, the fix was interrupted.
    Applying,
    /// All of its changes are made.
    Applied,
    /// It is being undone. If an entry has this stage at a start, the undo was interrupted.
    Undoing,
}

/// The previous content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The content.
    pub text: String,
    /// The permission bits.
    pub mode: u32,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// A file that a fix changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// The previous content. `None` if the file did not exist.
    pub before: Option<Before>,
    /// The new content.
    pub after: String,
    /// The permission bits of the new file.
    pub mode: u32,
    /// The directories that the fix creates for it, outermost first.
    pub made_folders: Vec<PathBuf>,
}

/// A fix in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the format.
    pub schema_version: u32,
    /// The fix.
    pub id: FixId,
    /// The id of the check that it resolves.
    pub check: CheckId,
    /// The title, one line.
    pub title: String,
    /// The time in seconds since 1970.
    pub at_unix_s: u64,
    /// Its number in the order in which fixes were applied, from 1. It is 0 in entries of earlier versions.
    #[serde(default)]
    pub sequence: u64,
    /// Its stage.
    pub stage: Stage,
    /// Its files.
    pub files: Vec<Written>,
    /// Its commands in order.
    #[serde(default)]
    pub commands: Vec<CommandRun>,
    /// The number of commands before the first file. They test or install something, and no undo command belongs to
    /// them.
    #[serde(default)]
    pub commands_before_files: usize,
    /// The commands that an undo runs.
    #[serde(default)]
    pub undo_commands: Vec<Vec<String>>,
    /// The commands that the user must run.
    #[serde(default)]
    pub remaining: Vec<String>,
    /// How to verify it.
    #[serde(default)]
    pub verify: String,
    /// Whether it takes effect only after a reboot or a new login.
    #[serde(default)]
    pub waits_for_boot: bool,
    /// The boot in which it was applied (`/proc/sys/kernel/random/boot_id`). `None` if that could not be read.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The rights that it needed. `None` in entries of earlier versions.
    #[serde(default)]
    pub needs: Option<Needs>,
    /// Its risk.
    #[serde(default)]
    pub risk: Option<FixRisk>,
}

impl Entry {
    /// Whether a command after the files was begun. The undo commands are then needed too, so that the restored files
    /// take effect and a file system does not stay unmounted.
    pub(super) fn needs_undo_commands(&self) -> bool {
        let is_begun = |command: &CommandRun| matches!(command.state, CommandState::Started | CommandState::Done);
        self.commands.iter().skip(self.commands_before_files).any(is_begun)
    }
}

/// The state of a command of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// It has not been run.
    Waiting,
    /// It was started. If an entry has this state at a start, the command was interrupted and its result is unknown.
    Started,
    /// It succeeded.
    Done,
    /// It is never run, because the fix was applied to a directory and not to a running machine.
    Skipped,
}

/// A command of a fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// The program and its arguments, as shown in the preview.
    pub argv: Vec<String>,
    /// Its state.
    pub state: CommandState,
}

/// The version of the entries that this program reads and writes.
pub(super) const ENTRY_VERSION: u32 = 1;
/// The maximum size of an entry in bytes: two files of 4 MiB as JSON text.
const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// Parses an entry. The error is a part of a sentence.
fn parse(bytes: &[u8], name: &str) -> Result<Entry, String> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    if let Ok(Version { schema_version }) = serde_json::from_slice(bytes)
        && schema_version != ENTRY_VERSION
    {
        return Err(format!(
            "has form {schema_version}, written by another version of gds-top; this version reads form {ENTRY_VERSION}: use the other version"
        ));
    }
    let entry: Entry = serde_json::from_slice(bytes).map_err(|error| format!("is damaged: {error}"))?;
    if file_name(entry.id) != name {
        return Err(format!("is rejected: it contains the fix {}", entry.id));
    }
    for file in &entry.files {
        if !editable::may_edit(entry.id, &file.path) {
            return Err(format!("is rejected: {} does not edit {}", entry.id, file.path.display()));
        }
        if let Some(folder) = file.made_folders.iter().find(|folder| !file.path.starts_with(folder)) {
            return Err(format!("is rejected: {} is not a directory of {}", folder.display(), file.path.display()));
        }
    }
    Ok(entry)
}

/// The file that a process locks while it uses the journal. Only its owner can open it. A lock on the directory could
/// be taken by any user.
pub(super) const LOCK: &str = "lock";
/// The record of a guided set-up. `None` if there is none.
const SETUP: &str = "set-up";
/// The prefix of the names of unfinished entries.
const TEMPORARY: &str = ".entry-";

fn file_name(id: FixId) -> String {
    format!("{id}.json")
}

/// The directory of the journal. It is open if it exists and can be used.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    folder: Result<OwnedFd, Option<Closed>>,
}

impl Journal {
    /// The journal of a place, for reading. If it does not exist or cannot be used, it has no entries (see
    /// [`Journal::problems`]).
    #[must_use]
    pub fn open(place: &Place) -> Self {
        let opened = match place.chain().and_then(|chain| chain.open(false)) {
            // An untrusted directory is reported only if it contains a journal.
            Err(_) if !place.has_state() => Ok(None),
            opened => opened,
        };
        Self { path: place.state.join("journal"), folder: opened.map_err(Some).and_then(|folder| folder.ok_or(None)) }
    }

    /// The journals of a place: this user's journal and root's journal. This user may not be able to read root's
    /// journal.
    #[must_use]
    pub fn all(place: &Place) -> Vec<Self> {
        [Some(Self::open(place)), place.of_root().as_ref().map(Self::open)].into_iter().flatten().collect()
    }

    /// The journal of a place. It is created if it does not exist.
    pub(super) fn make(place: &Place) -> Result<Self, FixError> {
        match place.chain()?.open(true)? {
            Some(folder) => Ok(Self { path: place.state.join("journal"), folder: Ok(folder) }),
            None => Err(Self::bad(&place.state, "the directory of the journal cannot be created".to_owned())),
        }
    }

    /// The journal for writing. `None` if it does not exist.
    pub(super) fn existing(place: &Place) -> Result<Option<Self>, FixError> {
        Ok(place.chain()?.open(false)?.map(|folder| Self { path: place.state.join("journal"), folder: Ok(folder) }))
    }

    /// The path of its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn entry_path(&self, id: FixId) -> PathBuf {
        self.path.join(file_name(id))
    }

    pub(super) fn folder(&self) -> Result<&OwnedFd, FixError> {
        self.folder.as_ref().map_err(|_| Self::bad(&self.path, "the journal cannot be used".to_owned()))
    }

    fn bad(path: &Path, what: String) -> FixError {
        FixError::File { path: path.to_owned(), what }
    }

    /// Writes an entry and waits until it is on the disk.
    pub(super) fn write(&self, entry: &Entry) -> Result<(), FixError> {
        let bytes =
            serde_json::to_vec_pretty(entry).map_err(|e| Self::bad(&self.entry_path(entry.id), e.to_string()))?;
        self.write_file(&file_name(entry.id), &bytes)
    }

    /// The record of a guided set-up. `None` if there is none.
    pub(super) fn read_setup(&self) -> Option<Vec<u8>> {
        self.load(SETUP).ok()
    }

    /// Writes the record of a guided set-up.
    pub(super) fn write_setup(&self, bytes: &[u8]) -> Result<(), FixError> {
        self.write_file(SETUP, bytes)
    }

    /// Removes the record of a guided set-up.
    pub(super) fn forget_setup(&self) {
        if let Ok(folder) = &self.folder {
            let _ = rustix::fs::unlinkat(folder, SETUP, AtFlags::empty());
        }
    }

    /// Writes a file of the journal and waits until it is on the disk.
    fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), FixError> {
        let path = self.path.join(name);
        let folder = self.folder()?;
        let temporary = format!("{TEMPORARY}{name}");
        let written = (|| -> std::io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
            let mut file = File::from(rustix::fs::openat(folder, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
            file.write_all(bytes)?;
            file.sync_all()?;
            rustix::fs::renameat(folder, &temporary, folder, name)?;
            // Some file systems cannot sync a directory. The rename is then as durable as the file system makes it.
            let _ = rustix::fs::fsync(folder);
            Ok(())
        })();
        written.map_err(|e| {
            let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
            Self::bad(&path, format!("the journal cannot be written: {e}"))
        })
    }

    /// The entry of a fix. `None` if there is none.
    pub(super) fn read(&self, id: FixId) -> Result<Option<Entry>, FixError> {
        let path = self.entry_path(id);
        let name = file_name(id);
        match self.load(&name) {
            Ok(bytes) => parse(&bytes, &name)
                .map(Some)
                .map_err(|what| Self::bad(&path, format!("this entry of the journal {what}; examine it by hand"))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Self::bad(&path, format!("the journal cannot be read: {e}"))),
        }
    }

    /// The bytes of an entry. The file must be a regular file that no other user can write.
    fn load(&self, name: &str) -> std::io::Result<Vec<u8>> {
        let folder = self.folder.as_ref().map_err(|_| std::io::ErrorKind::NotFound)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        if let Some(what) = distrust(&file, false) {
            return Err(std::io::Error::other(format!("it {what}")));
        }
        let mut bytes = Vec::new();
        file.take(MAX_ENTRY_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_ENTRY_BYTES {
            return Err(std::io::Error::other("it is longer than any entry"));
        }
        Ok(bytes)
    }

    /// Removes the entry of an undone fix.
    pub(super) fn forget(&self, id: FixId) -> Result<(), FixError> {
        match rustix::fs::unlinkat(self.folder()?, file_name(id), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Self::bad(&self.entry_path(id), format!("this entry of the journal cannot be removed: {e}"))),
        }
    }

    /// All entries, the oldest first. Unusable entries are left out (see [`Journal::problems`]).
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |name: &String| parse(&self.load(name).ok()?, name).ok();
        let mut out: Vec<Entry> = self.names().iter().filter_map(entry).collect();
        out.sort_by(|a, b| (a.sequence, a.at_unix_s, a.id.as_str()).cmp(&(b.sequence, b.at_unix_s, b.id.as_str())));
        out
    }

    /// Sentences about why the journal or some of its entries cannot be used.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        if let Err(Some(closed)) = &self.folder {
            return vec![closed.to_string()];
        }
        let broken = |name: &String| {
            let what = match self.load(name) {
                Ok(bytes) => parse(&bytes, name).err()?,
                Err(error) => format!("cannot be read: {error}"),
            };
            Some(format!(
                "{}: this entry of the journal {what}; the changes of its fix stay; examine the file by hand",
                self.path.join(name).display()
            ))
        };
        self.names().iter().filter_map(broken).collect()
    }

    /// Whether this user has no permission to read it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.folder, Err(Some(Closed::Denied(_))))
    }

    /// Removes unfinished entries. Their fixes changed nothing.
    pub(super) fn sweep(&self) {
        for name in self.all_names() {
            if let (true, Ok(folder)) = (name.as_bytes().starts_with(TEMPORARY.as_bytes()), &self.folder) {
                let _ = rustix::fs::unlinkat(folder, &name, AtFlags::empty());
            }
        }
    }

    /// Removes the journal and its directory if no fix is applied any more, also after a refused fix.
    pub(super) fn tidy(&self, place: &Place) {
        let is_empty = || self.all_names().iter().all(|name| [".", "..", LOCK].iter().any(|known| name == known));
        if !is_empty() {
            return;
        }
        if let (Ok(folder), Ok(chain)) = (&self.folder, place.chain()) {
            let _ = rustix::fs::unlinkat(folder, LOCK, AtFlags::empty());
            chain.remove_empty(2);
        }
    }

    /// The names of the entry files.
    fn names(&self) -> Vec<String> {
        let is_entry = |name: &String| name.ends_with(".json") && !name.starts_with(TEMPORARY);
        let mut names: Vec<String> =
            self.all_names().into_iter().filter_map(|name| name.into_string().ok()).filter(is_entry).collect();
        names.sort();
        names
    }

    fn all_names(&self) -> Vec<OsString> {
        let Ok(folder) = &self.folder else { return Vec::new() };
        let Ok(listed) = rustix::fs::Dir::read_from(folder) else { return Vec::new() };
        listed
            .filter_map(Result::ok)
            .map(|entry| std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
            .collect()
    }
}
