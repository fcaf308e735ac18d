//! The directory with the two measured files. It is created and filled, and removed when this value is dropped.

use super::content;
use crate::core::units;
use crate::trust::{self, FileId, Maker, PrivateFolder};
use rustix::fs::Advice;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of bytes that are written at a time while a file is filled.
const PIECE: usize = 4 << 20;

/// Prefix of the directory's name. It is followed by the process that created the directory.
const PREFIX: &str = "gds-top-io-";
/// Name of the file that is only read.
pub const READ: &str = "read.bin";
/// Name of the file that is only written.
pub const WRITE: &str = "write.bin";

/// Removes the directories of killed measurements. Such a directory has the name prefix, the number of a process that has
/// ended, and contains only the two files. A directory with other content is kept.
fn clear_abandoned(dir: &Path) {
    for folder in PrivateFolder::left_in(dir, |maker| !maker.may_live()) {
        let is_measurement =
            folder.path().file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        if is_measurement && folder.has_only(&[READ, WRITE]).unwrap_or(false) {
            let _ = folder.remove();
        }
    }
}

/// The reason why the files could not be created.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The operating system reported an error.
    #[error("{doing} {path} failed: {source}", path = path.display())]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is not valid UTF-8.
    #[error("the name of {} is not UTF-8, so it cannot be passed to the measuring process; rename it, or use another directory", path.display())]
    NoText {
        /// Path of the directory.
        path: PathBuf,
    },
    /// There is too little space.
    #[error(
        "{path} has {free} free, but the measurement needs {needs} for its two files; use a smaller --file-size or another directory",
        path = path.display(), free = units::bytes(*free_bytes), needs = units::bytes(*needs_bytes)
    )]
    NoRoom {
        /// Path of the directory.
        path: PathBuf,
        /// Free bytes.
        free_bytes: u64,
        /// Required bytes.
        needs_bytes: u64,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    move |source| FilesError::System { doing, path: path.to_owned(), source }
}

/// Checks that `dir` is a directory with enough space for two files of `file_bytes`.
///
/// # Errors
/// Fails if it is not a directory or has too little space.
pub fn room_for(dir: &Path, file_bytes: u64) -> Result<(), FilesError> {
    let meta = std::fs::metadata(dir).map_err(failed("looking at", dir))?;
    if !meta.is_dir() {
        return Err(failed("looking into", dir)(io::ErrorKind::NotADirectory.into()));
    }
    // The order of the measuring process is JSON, so the path must be UTF-8.
    if dir.canonicalize().is_ok_and(|complete| complete.to_str().is_none()) {
        return Err(FilesError::NoText { path: dir.to_owned() });
    }
    let may_write = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    may_write.map_err(|e| failed("writing into", dir)(e.into()))?;
    let space = rustix::fs::statvfs(dir).map_err(|e| failed("asking for the free space of", dir)(e.into()))?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    // The file system needs some more space for its metadata.
    let needs_bytes = file_bytes.saturating_mul(2).saturating_add(file_bytes / 50);
    if free_bytes < needs_bytes {
        return Err(FilesError::NoRoom { path: dir.to_owned(), free_bytes, needs_bytes });
    }
    Ok(())
}

/// The measured files in a separate directory, which is removed at the end.
#[derive(Debug)]
pub struct Files {
    /// `None` only while it is being removed.
    folder: Option<PrivateFolder>,
    path: PathBuf,
    id: FileId,
}

impl Files {
    /// Creates a directory in `dir` with two files of `file_bytes`. Both have the content of `seed`, are on the disk,
    /// and are dropped from the page cache. `progress` gets the number of bytes written and returns whether to
    /// continue.
    ///
    /// # Errors
    /// Fails if a file cannot be created or `progress` stopped it. No files remain then.
    pub fn make(
        dir: &Path,
        file_bytes: u64,
        seed: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self, FilesError> {
        clear_abandoned(dir);
        room_for(dir, file_bytes)?;
        let prefix = format!("{PREFIX}{}-", Maker::own());
        let folder =
            PrivateFolder::make_new(dir, &prefix).map_err(|e| failed("making a directory in", dir)(e.into()))?;
        let _ = folder.lock();
        let files = Self { path: folder.path().to_owned(), id: folder.id(), folder: Some(folder) };
        let mut done = 0;
        let mut piece = vec![0; PIECE];
        for (name, path) in [(READ, files.read_path()), (WRITE, files.write_path())] {
            let made = files.folder.as_ref().map_or(Err(io::ErrorKind::NotFound.into()), |folder| folder.create(name));
            let file = made.map_err(failed("creating", &path))?;
            let mut at = 0;
            while at < file_bytes {
                let length = PIECE.min(usize::try_from(file_bytes - at).unwrap_or(PIECE));
                content::fill(&mut piece[..length], seed, at);
                file.write_all_at(&piece[..length], at).map_err(failed("writing", &path))?;
                at += length as u64;
                done += length as u64;
                if !progress(done) {
                    return Err(failed("filling", &path)(io::ErrorKind::Interrupted.into()));
                }
            }
            file.sync_all().map_err(failed("syncing", &path))?;
            // This advice is not required for O_DIRECT. But if a page stays in the page cache, every operation has to
            // find and flush it.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        Ok(files)
    }

    /// The path and the identity of the directory, for a process that enters it.
    #[must_use]
    pub fn folder(&self) -> (&Path, FileId) {
        (&self.path, self.id)
    }

    /// The path of the file that is only read.
    #[must_use]
    pub fn read_path(&self) -> PathBuf {
        self.path.join(READ)
    }

    /// The path of the file that is only written.
    #[must_use]
    pub fn write_path(&self) -> PathBuf {
        self.path.join(WRITE)
    }

    /// Removes the directory and its files.
    ///
    /// # Errors
    /// Fails if something cannot be removed.
    pub fn remove(mut self) -> Result<(), FilesError> {
        let removed = self.folder.take().map_or(Ok(()), PrivateFolder::remove);
        removed.map_err(|why| match why {
            trust::FolderError::System(source) => failed("removing", &self.path)(source),
            why => failed("removing", &self.path)(io::Error::other(why)),
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            // An error cannot be reported here. Callers that need it use `remove`.
            let _ = folder.remove();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn files_have_known_content_and_go_with_their_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mut reported_bytes = 0;
        let files = Files::make(dir.path(), (4 << 20) + 4096, 5, &mut |bytes| {
            reported_bytes = bytes;
            true
        })
        .unwrap();
        assert_eq!(reported_bytes, 2 * ((4 << 20) + 4096));
        let bytes = std::fs::read(files.read_path()).unwrap();
        assert!(content::holds(&bytes, 5, 0));
        files.remove().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_measurement_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: String, files: &[&str]| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            files.iter().for_each(|file| std::fs::write(folder.join(file), "x").unwrap());
            folder
        };
        // This number is above the kernel's maximum process number of 2^22.
        let left = make(format!("{PREFIX}4194305-7-a"), &[READ, WRITE]);
        let with_more = make(format!("{PREFIX}4194305-7-b"), &[READ, "mine.txt"]);
        let alive = make(format!("{PREFIX}{}-c", Maker::own()), &[READ]);
        let other = make("gds-top-iona".to_owned(), &[READ]);
        Files::make(dir.path(), 4096, 5, &mut |_| true).unwrap().remove().unwrap();
        assert!(!left.exists() && with_more.join("mine.txt").exists());
        assert!(alive.join(READ).exists() && other.join(READ).exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        for file in [READ, "thesis.tex"] {
            std::fs::write(victim.path().join(file), "x").unwrap();
        }
        let files = Files::make(dir.path(), 4096, 5, &mut |_| true).unwrap();
        let (path, id) = (files.folder().0.to_owned(), files.folder().1);
        std::fs::rename(&path, dir.path().join("aside")).unwrap();
        std::os::unix::fs::symlink(victim.path(), &path).unwrap();
        // The link is not followed by the measuring process, by the removal, or by a later clean-up.
        assert!(trust::enter(&path, id).is_err());
        assert!(files.remove().unwrap_err().to_string().contains("took its place"));
        std::os::unix::fs::symlink(victim.path(), dir.path().join(format!("{PREFIX}4194305-7-a"))).unwrap();
        Files::make(dir.path(), 4096, 5, &mut |_| true).unwrap().remove().unwrap();
        assert!(victim.path().join(READ).exists() && victim.path().join("thesis.tex").exists());
        assert_eq!(std::fs::read_dir(dir.path().join("aside")).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_of_another_user_is_not_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join(format!("{PREFIX}4194305-7-a"));
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join(READ), "x").unwrap();
        if std::os::unix::fs::chown(&theirs, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a directory to another user");
            return;
        }
        Files::make(dir.path(), 4096, 5, &mut |_| true).unwrap().remove().unwrap();
        assert!(theirs.join(READ).exists());
    }

    #[test]
    fn a_making_that_is_ended_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Files::make(dir.path(), 1 << 20, 5, &mut |_| false).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn too_little_room_is_said_with_what_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let said = room_for(dir.path(), 1 << 60).unwrap_err().to_string();
        assert!(said.contains("--file-size") && said.contains("free"), "{said}");
        assert!(room_for(&dir.path().join("no"), 1).unwrap_err().to_string().contains("looking at"));
        let no_text = dir.path().join(std::ffi::OsStr::from_bytes(b"a\xff"));
        std::fs::create_dir(&no_text).unwrap();
        assert!(room_for(&no_text, 1).unwrap_err().to_string().contains("not UTF-8"));
    }
}
