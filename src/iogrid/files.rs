//! The folder and the two files that are measured: made new, filled, and removed with everything in them when this is dropped.

use super::content;
use crate::domain::units;
use rustix::fs::{Advice, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes written at a time while a file is filled.
const PIECE: usize = 4 << 20;

/// Names of the folder (the process that made it follows) and of its files.
const PREFIX: &str = "gds-top-io-";
const READ: &str = "read.bin";
const WRITE: &str = "write.bin";

/// Removes what measurements left behind whose process was killed: folders with our name and the number of a process that is gone, and in them only our
/// two files. A folder with anything else in it stays.
fn clear_abandoned(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        let gone = maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        // A link with this name is not ours.
        if gone && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let folder = entry.path();
            for file in [READ, WRITE] {
                let _ = std::fs::remove_file(folder.join(file));
            }
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Why the files could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The system refused.
    #[error("{doing} {path} failed: {source}", path = path.display())]
    System {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Its name is no text.
    #[error("{} has a name with bytes that are no UTF-8, and the measuring process could not be told of it; rename it, or name another folder", path.display())]
    NoText {
        /// The folder.
        path: PathBuf,
    },
    /// There is too little space.
    #[error(
        "{path} has {free} free, and the measurement needs {needs} for its two files: give a smaller --file-size, or another folder",
        path = path.display(), free = units::bytes(*free_bytes), needs = units::bytes(*needs_bytes)
    )]
    NoRoom {
        /// The folder.
        path: PathBuf,
        /// Bytes free.
        free_bytes: u64,
        /// Bytes needed.
        needs_bytes: u64,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    move |source| FilesError::System { doing, path: path.to_owned(), source }
}

/// Makes sure that `dir` is a folder with room for two files of `file_bytes`.
///
/// # Errors
/// When it is not, or has not.
pub fn room_for(dir: &Path, file_bytes: u64) -> Result<(), FilesError> {
    let meta = std::fs::metadata(dir).map_err(failed("looking at", dir))?;
    if !meta.is_dir() {
        return Err(failed("looking into", dir)(io::ErrorKind::NotADirectory.into()));
    }
    // The measuring process is told of its files in JSON.
    if dir.canonicalize().is_ok_and(|whole| whole.to_str().is_none()) {
        return Err(FilesError::NoText { path: dir.to_owned() });
    }
    let may_write = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    may_write.map_err(|e| failed("writing into", dir)(e.into()))?;
    let space = rustix::fs::statvfs(dir).map_err(|e| failed("asking for the free space of", dir)(e.into()))?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    // A little more than the files, for the file system's own records.
    let needs_bytes = file_bytes.saturating_mul(2).saturating_add(file_bytes / 50);
    if free_bytes < needs_bytes {
        return Err(FilesError::NoRoom { path: dir.to_owned(), free_bytes, needs_bytes });
    }
    Ok(())
}

/// The measured files, in a folder of their own that is removed in the end.
#[derive(Debug)]
pub struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// Makes a folder in `dir` and two files of `file_bytes` in it, both with the content of `seed`, on the disk and not in the page cache.
    /// `progress` is told the bytes written; it answers whether to go on.
    ///
    /// # Errors
    /// When something cannot be made or `progress` ended it; nothing is left then.
    pub fn make(
        dir: &Path,
        file_bytes: u64,
        seed: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self, FilesError> {
        clear_abandoned(dir);
        room_for(dir, file_bytes)?;
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let folder =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(dir).map_err(failed("making a folder in", dir))?;
        let files = Self { folder };
        let mut done = 0;
        let mut piece = vec![0; PIECE];
        for path in [files.read_path(), files.write_path()] {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
                .map(File::from)
                .map_err(|e| failed("creating", &path)(e.into()))?;
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
            // Advice: O_DIRECT does not need it, but a page that stays would be looked for and flushed at each operation.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        Ok(files)
    }

    /// The file that is only read.
    #[must_use]
    pub fn read_path(&self) -> PathBuf {
        self.folder.path().join(READ)
    }

    /// The file that is only written.
    #[must_use]
    pub fn write_path(&self) -> PathBuf {
        self.folder.path().join(WRITE)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// When something stays.
    pub fn remove(self) -> Result<(), FilesError> {
        let path = self.folder.path().to_owned();
        self.folder.close().map_err(failed("removing", &path))
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
        let mut told = 0;
        let files = Files::make(dir.path(), (4 << 20) + 4096, 5, &mut |bytes| {
            told = bytes;
            true
        })
        .unwrap();
        assert_eq!(told, 2 * ((4 << 20) + 4096));
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
        // No process has a number beyond the kernel's limit of 2^22.
        let left = make(format!("{PREFIX}4194305-a"), &[READ, WRITE]);
        let with_more = make(format!("{PREFIX}4194305-b"), &[READ, "mine.txt"]);
        let alive = make(format!("{PREFIX}{}-c", std::process::id()), &[READ]);
        let other = make("gds-top-iona".to_owned(), &[READ]);
        Files::make(dir.path(), 4096, 5, &mut |_| true).unwrap().remove().unwrap();
        assert!(!left.exists() && with_more.join("mine.txt").exists());
        assert!(alive.join(READ).exists() && other.join(READ).exists());
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
        assert!(room_for(&no_text, 1).unwrap_err().to_string().contains("no UTF-8"));
    }
}
