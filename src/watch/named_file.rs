//! A file as a process named it, and the same file opened here. Its path can name another file: the process can have other
//! mounts, or another file has replaced it.

use crate::core::TensorsUnknown;
use crate::trust::{Examiner, open_regular, process};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, makedev, statx};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The device, the inode and the time of birth of a file. A new file can have the device and the inode of a removed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds. 0 if the file system has no such time.
    birth: [u64; 2],
}

impl Identity {
    fn of(file: &File) -> Option<Self> {
        // Old kernels and filters of system calls have no statx.
        Self::examined(file, AtFlags::EMPTY_PATH).or_else(|| {
            let stat = rustix::fs::fstat(file).ok()?;
            Some(Self { device: stat.st_dev, inode: stat.st_ino, birth: [0; 2] })
        })
    }

    fn examined(file: impl AsFd, flags: AtFlags) -> Option<Self> {
        let stat = statx(file, c"", flags, StatxFlags::INO | StatxFlags::BTIME).ok()?;
        let birth = Some(stat.stx_btime).filter(|_| stat.stx_mask & StatxFlags::BTIME.bits() != 0);
        let birth = birth.map_or([0; 2], |birth| [birth.tv_sec.cast_unsigned(), birth.tv_nsec.into()]);
        Some(Self { device: makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, birth })
    }

    fn is(self, other: Self) -> bool {
        let no_birth = [self.birth, other.birth].contains(&[0; 2]);
        (self.device, self.inode) == (other.device, other.inode) && (no_birth || self.birth == other.birth)
    }
}

/// The path of a file with its bytes, and the identity of the file. Without an identity, only the path is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedFile {
    pub(super) path: OsString,
    identity: Option<Identity>,
}

/// An open file of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub(super) process: u32,
    pub(super) number: u32,
}

impl Descriptor {
    fn link(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", self.process, self.number))
    }

    /// The path of the file and its identity as [`NamedFile::new`] gets it. The file is not opened, and the server of its
    /// file system, which may never answer, is not asked.
    pub(super) fn file(self) -> Option<(Vec<u8>, [u64; 4])> {
        let file = rustix::fs::open(self.link(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let identity = Identity::examined(&file, AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC);
        let identity = identity.map_or([0; 4], |Identity { device, inode, birth: [seconds, nanoseconds] }| {
            [device, inode, seconds, nanoseconds]
        });
        Some((path.into_os_string().into_vec(), identity))
    }
}

/// Whether a process lives and is one of another user. One that has ended has no file any more.
fn is_foreign(process: u32) -> bool {
    let folder = process::folder(process.cast_signed());
    !process::is_own(&folder) && folder.exists()
}

impl NamedFile {
    /// The identity is the device, the inode and the birth in seconds and nanoseconds, or 0 if it is unknown.
    pub(super) fn new(path: Vec<u8>, [device, inode, seconds, nanoseconds]: [u64; 4]) -> Self {
        let identity = Identity { device, inode, birth: [seconds, nanoseconds] };
        Self { path: OsString::from_vec(path), identity: Some(identity).filter(|_| (device, inode) != (0, 0)) }
    }

    /// An entry of files without a known path.
    pub(super) fn without_path(name: &str) -> Self {
        Self { path: name.into(), identity: None }
    }

    /// Whether more than the path is known.
    pub(super) const fn is_identified(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether it can have tensors.
    pub(super) fn is_safetensors(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|ending| ending == "safetensors")
    }

    /// The path as text. Bytes that are not UTF-8 are escaped, so that two paths have two texts.
    pub(super) fn shown(&self) -> String {
        let mut shown = String::new();
        for chunk in self.path.as_bytes().utf8_chunks() {
            shown.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
        }
        shown
    }

    /// Opens and uses this file. A process of another user can have a file on a file system that never answers.
    pub(super) fn with<T: Send + 'static>(
        &self,
        at: Option<Descriptor>,
        read: impl FnOnce(&File) -> Result<T, TensorsUnknown> + Send + 'static,
    ) -> Result<T, TensorsUnknown> {
        static EXAMINER: LazyLock<Mutex<Examiner>> = LazyLock::new(Mutex::default);
        let Some(foreign) = at.filter(|at| is_foreign(at.process)) else { return read(&self.open(at)?) };
        // The kernel does not end a read of FUSE before its server answers, so not even this program could end.
        if !process::has_these_mounts(&process::folder(foreign.process.cast_signed())) && is_foreign(foreign.process) {
            return Err(TensorsUnknown::NotRead);
        }
        let named = self.clone();
        let mut examiner = EXAMINER.lock().unwrap_or_else(PoisonError::into_inner);
        examiner.begin_round();
        examiner
            .ask(process::identity(foreign.process), move |_| read(&named.open(at)?))
            .unwrap_or(Err(TensorsUnknown::NotRead))
    }

    /// Opens this file, and no other one: the descriptor of the process if it is still open, or else the path.
    pub(super) fn open(&self, at: Option<Descriptor>) -> Result<File, TensorsUnknown> {
        let link = at.map(Descriptor::link);
        let Some(identity) = self.identity else {
            // The descriptor has this path now, so it is most likely the same one. The path alone shows nothing.
            let link = link.filter(|link| std::fs::read_link(link).is_ok_and(|path| path.as_os_str() == self.path));
            return link.and_then(|link| open_regular(&link).ok()).ok_or(TensorsUnknown::NotRead);
        };
        let is_same = |file: &File| Identity::of(file).is_some_and(|seen| identity.is(seen));
        if let Some(file) = link.and_then(|link| open_regular(&link).ok()).filter(is_same) {
            return Ok(file);
        }
        let path = Path::new(&self.path);
        let inside = at.and_then(|at| process::path_of(&process::folder(at.process.cast_signed()), path));
        let paths = inside.into_iter().chain([path.to_owned()]);
        let found: Vec<File> = paths.filter_map(|path| open_regular(&path).ok()).collect();
        let why = if found.is_empty() { TensorsUnknown::NotRead } else { TensorsUnknown::OtherFile };
        found.into_iter().find(is_same).ok_or(why)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use std::io::Read;

    /// The file at a path, as the recording library names it.
    pub(in crate::watch) fn named(path: &Path) -> NamedFile {
        NamedFile { path: path.into(), identity: File::open(path).ok().and_then(|file| Identity::of(&file)) }
    }

    fn text(named: &NamedFile, at: Option<Descriptor>) -> Result<String, TensorsUnknown> {
        named.open(at).map(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        })
    }

    #[test]
    fn a_file_that_was_replaced_under_its_name_is_opened_by_its_descriptor_only() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("model"), dir.path().join("other"));
        std::fs::write(&path, "first").unwrap();
        let first = named(&path);
        let open = File::open(&path).unwrap();
        let at = Some(Descriptor { process: std::process::id(), number: open.as_raw_fd().cast_unsigned() });
        assert_eq!((text(&first, None), text(&first, at)), (Ok("first".to_owned()), Ok("first".to_owned())));
        std::fs::write(&other, "second").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!((text(&first, None), text(&first, at)), (Err(TensorsUnknown::OtherFile), Ok("first".to_owned())));
        // The number can be that of another file by now.
        let reused = File::open(&path).unwrap();
        let reused = Some(Descriptor { process: std::process::id(), number: reused.as_raw_fd().cast_unsigned() });
        assert_eq!(text(&first, reused), Err(TensorsUnknown::OtherFile));
        assert_eq!(text(&named(&path), None), Ok("second".to_owned()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text(&first, None), Err(TensorsUnknown::NotRead));
    }

    #[test]
    fn without_an_identity_only_a_descriptor_with_the_same_path_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("model");
        std::fs::write(&path, "text").unwrap();
        let open = File::open(&path).unwrap();
        let at = Some(Descriptor { process: std::process::id(), number: open.as_raw_fd().cast_unsigned() });
        let without = |path: &Path| NamedFile { path: path.into(), identity: None };
        assert_eq!(text(&without(&path), at), Ok("text".to_owned()));
        assert_eq!(text(&without(&path), None), Err(TensorsUnknown::NotRead));
        assert_eq!(text(&without(&dir.path().join("other")), at), Err(TensorsUnknown::NotRead));
    }

    #[test]
    fn a_file_of_a_process_that_has_ended_is_opened_by_its_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text").unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let at = Some(Descriptor { process: ended.id(), number: 0 });
        ended.wait().unwrap();
        let read = |named: &NamedFile| named.with(at, |mut file| Ok(std::io::read_to_string(&mut file).unwrap()));
        assert_eq!(read(&named(file.path())), Ok("text".to_owned()));
        let without = NamedFile { path: file.path().into(), identity: None };
        assert_eq!(read(&without), Err(TensorsUnknown::NotRead));
    }

    #[test]
    fn reading_a_file_of_another_users_process_ends_in_time() {
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root starts processes of other users");
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = std::process::Command::new("sleep");
        command.arg("60").stdin(file.reopen().unwrap()).uid(54_321);
        let mut other = command.spawn().unwrap();
        let at = Some(Descriptor { process: other.id(), number: 0 });
        let start = std::time::Instant::now();
        let read = named(file.path()).with(at, |_| {
            std::thread::sleep(std::time::Duration::from_secs(20));
            Ok(())
        });
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(read, Err(TensorsUnknown::NotRead));
        assert!(start.elapsed().as_secs() < 10);
    }

    #[test]
    fn paths_that_are_not_utf_8_have_different_texts() {
        let shown = |path: &[u8]| NamedFile::new(path.to_vec(), [0; 4]).shown();
        assert_eq!((shown(b"/a\xff"), shown(b"/a\xfe")), ("/a\\xff".to_owned(), "/a\\xfe".to_owned()));
        assert_eq!(shown("/Modell für ü\n".as_bytes()), "/Modell für ü\n");
    }
}
