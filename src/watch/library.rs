//! Installs the recording library and the shared file in private directories, which are removed at the end. If processes that
//! load the library still run then, its directory stays: the linker prints an error in each program that they start without
//! it.
//!
//! Programs of root can change their user. Root lets other users read the library, so that such a program starts
//! without an error of the dynamic linker. It cannot open the shared file, so it is not recorded: all recorded processes
//! have the file in memory, and another user must not change memory of processes of root. The reader treats all content
//! of the file as untrusted, because a process that changed its user keeps its mapping.

use super::error::WatchError;
use crate::device::SharedWords;
use crate::trust::Scratch;
use cufile_audit::layout::{FILE_BYTES, HEADER_BYTES, LIBRARY_WORDS, MAGIC, RING_BYTES, VERSION, header, options};
use std::fs::{File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The library from the build script. It is empty on targets without the audit interface of glibc.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcufile_audit.so"));
/// The file name of the library.
pub(super) const NAME: &str = "libcufile_audit.so";
/// The directory of the shared file. It is in memory, so nothing is written to a disk.
const MEMORY_FOLDER: &str = "/dev/shm";
/// Memory in bytes that the file may need if the program has many threads: 64 rings.
const ROOM_BYTES: u64 = 64 * RING_BYTES as u64;

/// The library and the shared file of one session.
#[derive(Debug)]
pub(super) struct Library {
    code: Scratch,
    _memory: Option<Scratch>,
    /// The path of the shared file.
    pub(super) shared: PathBuf,
    /// The mapped shared file.
    pub(super) words: SharedWords,
    /// Whether processes that load the library run after the session.
    pub(super) is_used: bool,
    /// The devices and inodes of the library and the shared file.
    identities: [Option<(u64, u64)>; 2],
}

/// The device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

impl Library {
    /// Writes the library and the shared file.
    pub(super) fn install(statistics: bool) -> Result<Self, WatchError> {
        if LIBRARY.is_empty() {
            return Err(WatchError::Unsupported);
        }
        // Containers mount /dev/shm with noexec, so the library cannot be loaded from there.
        let code = Scratch::for_code("gds-top-watch-").map_err(WatchError::Folder)?;
        let path = code.path().join(NAME);
        let for_all = rustix::process::geteuid().is_root();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| WatchError::File(path, error)
        };
        create(&path, if for_all { 0o555 } else { 0o600 })
            .and_then(|mut file| file.write_all(LIBRARY))
            .map_err(failed(&path))?;
        let memory = Some(Path::new(MEMORY_FOLDER))
            .filter(|folder| rustix::fs::statvfs(*folder).is_ok_and(|s| s.f_bavail * s.f_frsize >= ROOM_BYTES))
            .and_then(|folder| Scratch::new_in(folder, "gds-top-watch-").ok());
        let shared = memory.as_ref().unwrap_or(&code).path().join(format!("calls-{:016x}{:016x}", random(), random()));
        let words = share(&shared, &path, statistics).map_err(failed(&shared))?;
        if for_all {
            code.let_others_enter().map_err(failed(code.path()))?;
        }
        let identities = [&path, &shared].map(|path| identity(path));
        Ok(Self { code, _memory: memory, shared, words, is_used: false, identities })
    }

    /// Whether the library or the shared file was removed or replaced, so that programs that start now are not recorded.
    pub(super) fn is_gone(&self) -> bool {
        [&self.path(), &self.shared].map(|path| identity(path)) != self.identities
    }

    /// The path of the library.
    pub(super) fn path(&self) -> PathBuf {
        self.code.path().join(NAME)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.is_used {
            // The calls of later programs are not read. Without /dev/shm, the file is in the directory that stays.
            let _ = std::fs::remove_file(&self.shared);
            self.code.leave();
        }
    }
}

/// The operating system provides the seed.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// Creates a file with exactly these permissions.
fn create(path: &Path, mode: u32) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Creates the shared file. It is sparse, so only its header uses memory.
fn share(path: &Path, library: &Path, statistics: bool) -> std::io::Result<SharedWords> {
    let file = create(path, 0o600)?;
    file.set_len(FILE_BYTES as u64)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, HEADER_BYTES as u64)?;
    let words = SharedWords::map(&file, FILE_BYTES)?;
    words.store(header::VERSION, VERSION);
    words.store(header::SESSION, std::process::id().into());
    words.store(header::OPTIONS, if statistics { options::STATISTICS } else { 0 });
    let library = library.as_os_str().as_bytes();
    // The library is not added to a changed environment if its path is too long.
    for (index, part) in library.chunks(8).enumerate().filter(|_| library.len() < LIBRARY_WORDS * 8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        words.store(header::LIBRARY + index, u64::from_le_bytes(word));
    }
    words.store(header::MAGIC, MAGIC);
    Ok(words)
}
