//! Collects the facts of one path: mount, device, O_DIRECT (tested by opening a file), alignments, inode flags and
//! block devices.

use super::block::{self, BlockDevice};
use super::lenient;
use super::mounts::{mount_for, parse_mountinfo};
use crate::core::{lossy, units};
use crate::device::unfinished_bytes;
use crate::trust::{open_regular, open_regular_direct};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// `STATX_DIOALIGN` of Linux 6.1 (include/uapi/linux/stat.h).
const STATX_DIOALIGN: u32 = 0x2000;
/// `FS_EXTENT_FL` (include/uapi/linux/fs.h).
const EXTENTS: u64 = 0x80000;
/// Maximum number of files in a directory that are examined to find one to open.
const MAX_CANDIDATES: usize = 512;
/// Time limit for reading the extents of files, because each query of a cold disk causes reads.
const MAX_EXTENTS_TIME: Duration = Duration::from_millis(15);

/// A file that is partly not on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedFile {
    /// Path of the file.
    #[serde(default, serialize_with = "lossy::path")]
    pub path: PathBuf,
    /// Bytes in allocated blocks that were never written. They read as zeros unless their data is still in the page
    /// cache.
    #[serde(default)]
    pub unwritten_bytes: u64,
    /// Bytes in the page cache that have no disk block yet.
    #[serde(default)]
    pub delayed_bytes: u64,
}

/// The facts of a path, in the format of `paths.json`. Unknown facts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFacts {
    /// The requested path.
    #[serde(default, serialize_with = "lossy::path")]
    pub path: PathBuf,
    /// The path with all links resolved; `None` if it does not exist.
    #[serde(default, serialize_with = "lossy::optional")]
    pub real_path: Option<PathBuf>,
    /// File-system type in the notation of the kernel.
    #[serde(default, deserialize_with = "lenient::text")]
    pub filesystem: Option<String>,
    /// Mount point.
    #[serde(default, serialize_with = "lossy::optional")]
    pub mount_point: Option<PathBuf>,
    /// Mount options, comma-separated.
    #[serde(default, deserialize_with = "lenient::text")]
    pub mount_options: Option<String>,
    /// Source of the mount: a device node, an export or a name.
    #[serde(default, deserialize_with = "lenient::text")]
    pub source: Option<String>,
    /// `major:minor` of the file system's device. Major 0 means an anonymous device.
    #[serde(default, deserialize_with = "lenient::text")]
    pub device: Option<String>,
    /// `f_type` of `statfs`.
    #[serde(default, deserialize_with = "lenient::number")]
    pub statfs_magic: Option<u64>,
    /// Result of opening a file with O_DIRECT and reading 4096 bytes. `None` if there was no file to test.
    #[serde(default, deserialize_with = "DirectRead::lenient")]
    pub open_direct: Option<DirectRead>,
    /// Required alignment of memory for direct reads in bytes, if `statx` reports it.
    #[serde(default, deserialize_with = "lenient::number32")]
    pub dio_mem_align: Option<u32>,
    /// Required alignment of offsets for direct reads in bytes, if `statx` reports it.
    #[serde(default, deserialize_with = "lenient::number32")]
    pub dio_offset_align: Option<u32>,
    /// Inode flags from `FS_IOC_GETFLAGS`.
    #[serde(default, deserialize_with = "lenient::number")]
    pub inode_flags: Option<u64>,
    /// The block devices from the file system down to its disks.
    #[serde(default, deserialize_with = "lenient::list")]
    pub block_device: Vec<BlockDevice>,
    /// Size of the tested file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::number")]
    pub size_bytes: Option<u64>,
    /// Bytes that the file system allocated for the tested file. This is less than the size if the file has holes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::number")]
    pub allocated_bytes: Option<u64>,
    /// For a directory: the file that was tested with O_DIRECT, with links resolved. The files of a directory may be links
    /// to another place.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "lossy::optional")]
    pub tried_file: Option<PathBuf>,
    /// The part of that file in the page cache, in thousandths, estimated from samples. `None` if the file system
    /// does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::number32")]
    pub cached_per_mille: Option<u32>,
    /// The files that are partly not on the disk. `None` if the file system does not report this.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::part")]
    pub unfinished: Option<Vec<UnfinishedFile>>,
    /// A sentence with the reason why the facts are missing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::text")]
    pub error: Option<String>,
}

impl PathFacts {
    /// The value of a mount option with the form `name=value`.
    #[must_use]
    pub fn option_value(&self, name: &str) -> Option<&str> {
        self.mount_options.as_deref()?.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    }

    /// The complete command that mounts the file system again with its present options and `changed` ones. It also
    /// works if /etc/fstab has no line for it. `None` if the mount is not known.
    #[must_use]
    pub fn mount_command(&self, changed: &[(&str, &str)]) -> Option<Vec<String>> {
        // The kernel prints these, but a mount finds them again.
        const FOUND: [&str; 6] = ["addr", "clientaddr", "mountaddr", "mountport", "seclabel", "namlen"];
        let (filesystem, source) = (self.filesystem.as_deref()?, self.source.as_deref()?);
        let point = self.mount_point.as_deref()?.to_str()?;
        let name = |option: &str| option.split_once('=').map_or(option, |(name, _)| name).to_owned();
        let present = self.mount_options.as_deref().unwrap_or_default().split(',');
        let mut options: Vec<String> = present
            .filter(|option| !option.is_empty() && !FOUND.contains(&name(option).as_str()))
            .filter(|option| changed.iter().all(|(changed, _)| *changed != name(option)))
            .map(str::to_owned)
            .collect();
        options.extend(changed.iter().map(|(name, value)| format!("{name}={value}")));
        Some(["sudo", "mount", "-t", filesystem, "-o", &options.join(","), source, point].map(str::to_owned).to_vec())
    }

    /// Major and minor number of the file system's device.
    #[must_use]
    pub fn device_numbers(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.device.as_deref()?.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// Collects the facts of a path on this machine. It uses a thread, because access to an unreachable network mount
/// never returns.
pub(super) fn look_live(path: &Path, limit: Duration) -> PathFacts {
    let (tx, rx) = mpsc::channel();
    let asked = path.to_owned();
    let begun = std::thread::Builder::new().spawn(move || {
        let _ = tx.send(look(&asked));
    });
    if let Err(error) = begun {
        let error = format!("{} was not examined: {}", path.display(), units::no_thread(error));
        return PathFacts { path: path.to_owned(), error: Some(error), ..PathFacts::default() };
    }
    rx.recv_timeout(limit).unwrap_or_else(|_| PathFacts {
        path: path.to_owned(),
        error: Some(format!("{} did not answer within {} s", path.display(), limit.as_secs())),
        ..PathFacts::default()
    })
}

fn look(path: &Path) -> PathFacts {
    let mut facts = PathFacts { path: path.to_owned(), ..PathFacts::default() };
    let real = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => {
            facts.error = Some(format!("{}: {}", path.display(), super::live::words(&error)));
            return facts;
        }
    };
    if let Some(kind) = other_kind(&real) {
        facts.error =
            Some(format!("{} is {kind}, but models are read from files: pass a file or its directory", path.display()));
        return facts;
    }
    let file = file_to_try(&real);
    // The files of a directory may be links to another place, as in the cache of Hugging Face. The facts must describe
    // the place that is read.
    let read = file.as_deref().unwrap_or(&real);
    let mut id = None;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let at = rustix::fs::CWD;
    if let Ok(stat) = rustix::fs::statx(at, read, AtFlags::empty(), wanted) {
        id = (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id);
        facts.device = Some(format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor));
    }
    // The file is parsed as bytes: if one mount name is not UTF-8, the other mounts are still found.
    if let Ok(text) = std::fs::read("/proc/self/mountinfo")
        && let Some(mount) = mount_for(&parse_mountinfo(text), read, id)
    {
        facts.filesystem = Some(mount.filesystem.clone());
        facts.mount_point = Some(mount.point.clone());
        facts.mount_options = Some(mount.options.clone());
        facts.source = Some(mount.source.clone());
        facts.device.get_or_insert_with(|| mount.device.clone());
    }
    #[allow(clippy::unnecessary_cast, reason = "the type of f_type differs between architectures")]
    {
        facts.statfs_magic = rustix::fs::statfs(read).ok().map(|s| s.f_type as u64 & 0xffff_ffff);
    }
    // The flags of a directory do not apply to its files: a directory may not use extents, and each file may have
    // different flags.
    facts.inode_flags = inode_flags(read).filter(|flags| file.is_some() || flags & EXTENTS != 0);
    if let Some(file) = &file {
        let align = StatxFlags::from_bits_retain(STATX_DIOALIGN);
        if let Ok(stat) = rustix::fs::statx(at, file, AtFlags::empty(), align)
            && stat.stx_mask & STATX_DIOALIGN != 0
        {
            facts.dio_mem_align = Some(stat.stx_dio_mem_align);
            facts.dio_offset_align = Some(stat.stx_dio_offset_align);
        }
        facts.open_direct = Some(match try_direct(file) {
            Ok(()) => DirectRead::Works,
            Err(errno) => DirectRead::Failed(errno_name(errno)),
        });
        if let Ok(meta) = std::fs::metadata(file) {
            facts.size_bytes = Some(meta.len());
            facts.allocated_bytes = Some(std::os::unix::fs::MetadataExt::blocks(&meta).saturating_mul(512));
            facts.cached_per_mille = cached_per_mille(file, meta.len());
        }
    }
    if matches!(facts.filesystem.as_deref(), Some("ext4" | "xfs")) {
        facts.unfinished = unfinished(&shards_of(&real, file.as_deref()));
    }
    facts.tried_file = file.filter(|file| *file != real);
    if let Some(device) = &facts.device {
        facts.block_device = block::chain(device);
    }
    facts.real_path = Some(real);
    facts
}

/// The kind of a path that is neither a file nor a directory. cuFile rejects such paths with error 5018. To check a
/// disk, the user names a path on it.
fn other_kind(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = std::fs::metadata(path).ok()?.file_type();
    [
        (kind.is_block_device(), "a disk or partition"),
        (kind.is_char_device(), "a character device"),
        (kind.is_fifo(), "a FIFO"),
        (kind.is_socket(), "a socket"),
    ]
    .into_iter()
    .find_map(|(is_it, name)| is_it.then_some(name))
}

/// The inode flags of a file or directory. Another user could exchange it for a FIFO, so nothing else is opened.
fn inode_flags(path: &Path) -> Option<u64> {
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = match open_regular(path) {
        Ok(file) => rustix::fs::ioctl_getflags(file),
        Err(_) => rustix::fs::ioctl_getflags(rustix::fs::open(path, folder, Mode::empty()).ok()?),
    };
    flags.ok().map(|flags| u64::from(flags.bits()))
}

/// The shards of a model in a directory. If there are none, the file that was chosen for the test.
fn shards_of(path: &Path, file: Option<&Path>) -> Vec<PathBuf> {
    let is_shard = |path: &Path| path.extension().is_some_and(|e| e == "safetensors");
    let mut shards: Vec<PathBuf> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .take(MAX_CANDIDATES)
        .map(|entry| entry.path())
        .filter(|path| is_shard(path))
        .collect();
    shards.sort();
    if shards.is_empty() { file.map(Path::to_owned).into_iter().collect() } else { shards }
}

/// The files that are partly not on the disk, as far as a quick query shows it. `None` if the file system reports
/// nothing.
fn unfinished(files: &[PathBuf]) -> Option<Vec<UnfinishedFile>> {
    let began = std::time::Instant::now();
    let mut found = None;
    for path in files {
        if began.elapsed() > MAX_EXTENTS_TIME {
            break;
        }
        let Ok(fd) = open_regular(path) else { continue };
        let Some(size) = rustix::fs::fstat(&fd).ok().and_then(|stat| u64::try_from(stat.st_size).ok()) else {
            continue;
        };
        let Ok(extents) = unfinished_bytes(&fd, size) else { continue };
        let list = found.get_or_insert_with(Vec::new);
        if extents.unwritten_bytes > 0 || extents.delayed_bytes > 0 {
            list.push(UnfinishedFile {
                path: path.clone(),
                unwritten_bytes: extents.unwritten_bytes,
                delayed_bytes: extents.delayed_bytes,
            });
        }
    }
    found
}

/// The path itself if it is a file. In a directory: the first model shard, or else the largest file, because no direct
/// route reads a file that is smaller than a block. Links are resolved.
fn file_to_try(path: &Path) -> Option<PathBuf> {
    let meta = std::fs::metadata(path).ok()?;
    if meta.is_file() {
        return Some(path.to_owned());
    }
    let bytes = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
    let mut files: Vec<(Reverse<u64>, PathBuf)> = std::fs::read_dir(path)
        .ok()?
        .filter_map(Result::ok)
        .take(MAX_CANDIDATES)
        .filter_map(|entry| Some((bytes(&entry.path()).filter(|bytes| *bytes > 0)?, entry.path())))
        .map(|(bytes, path)| (Reverse(bytes), path))
        .collect();
    files.sort();
    let shards = files.iter().map(|(_, path)| path).filter(|path| path.extension().is_some_and(|e| e == "safetensors"));
    let file = shards.min().or_else(|| files.first().map(|(_, path)| path))?;
    Some(std::fs::canonicalize(file).unwrap_or_else(|_| file.clone()))
}

fn try_direct(path: &Path) -> Result<(), Errno> {
    let fd = open_regular_direct(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    // Manual alignment: 4096 bytes at a multiple of 4096 inside a buffer of twice that size.
    let mut buffer = vec![0_u8; 8192];
    let start = buffer.as_ptr().align_offset(4096);
    let block = buffer.get_mut(start..start + 4096).ok_or(Errno::INVAL)?;
    rustix::io::pread(fd, block, 0).map(|_| ())
}

/// Number of samples that are read from a file.
const SAMPLES: u64 = 64;

/// The part of a file in the page cache, in thousandths. A non-blocking read succeeds only for cached pages.
/// `posix_fadvise` with random access prevents read-ahead.
fn cached_per_mille(path: &Path, size: u64) -> Option<u32> {
    let fd = open_regular(path).ok()?;
    rustix::fs::fadvise(&fd, 0, None, rustix::fs::Advice::Random).ok()?;
    let mut byte = [0_u8; 1];
    let samples = SAMPLES.min(size.div_ceil(4096)).max(1);
    let mut cached = 0_u32;
    for sample in 0..samples {
        let at = (size / samples).saturating_mul(sample);
        let mut buffer = [std::io::IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(&fd, &mut buffer, at, rustix::io::ReadWriteFlags::NOWAIT) {
            Ok(1..) => cached += 1,
            Ok(0) | Err(Errno::AGAIN) => {}
            Err(_) => return None,
        }
    }
    u32::try_from(u64::from(cached) * 1000 / samples).ok()
}

/// The result of a test read with O_DIRECT. In captures it is `ok` or the name of the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum DirectRead {
    /// The read works.
    Works,
    /// The read fails with the error of this C name: `EINVAL`.
    Failed(String),
}

impl DirectRead {
    /// The name of the error as `Err`.
    ///
    /// # Errors
    /// If the read failed.
    pub fn result(&self) -> Result<(), &str> {
        match self {
            Self::Works => Ok(()),
            Self::Failed(error) => Err(error),
        }
    }

    fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(lenient::text(deserializer)?.map(|text| if text == "ok" { Self::Works } else { Self::Failed(text) }))
    }
}

impl From<DirectRead> for String {
    fn from(read: DirectRead) -> Self {
        read.result().err().unwrap_or("ok").to_owned()
    }
}

/// The C name of an error number.
fn errno_name(errno: Errno) -> String {
    let name = match errno {
        Errno::INVAL => "EINVAL",
        Errno::ACCESS => "EACCES",
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::IO => "EIO",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::ISDIR => "EISDIR",
        Errno::NXIO => "ENXIO",
        Errno::NODEV => "ENODEV",
        Errno::MFILE => "EMFILE",
        Errno::NFILE => "ENFILE",
        Errno::STALE => "ESTALE",
        Errno::NOSYS => "ENOSYS",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::AGAIN => "EAGAIN",
        _ => return format!("errno {}", errno.raw_os_error()),
    };
    name.to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_real_file_has_a_mount_a_device_and_an_answer_on_direct_opening() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.safetensors"), vec![7_u8; 8192]).unwrap();
        let facts = look_live(folder.path(), Duration::from_secs(180));
        assert_eq!(facts.error, None);
        assert!(facts.filesystem.is_some() && facts.device.is_some());
        assert!(facts.open_direct.is_some());
        assert!(facts.tried_file.unwrap().ends_with("model.safetensors"));
    }

    #[test]
    fn a_folder_without_a_model_is_judged_by_its_largest_file() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a.txt", 83), ("b.bin", 8192), ("c.txt", 100)] {
            std::fs::write(folder.path().join(name), vec![7_u8; bytes]).unwrap();
        }
        assert!(file_to_try(folder.path()).unwrap().ends_with("b.bin"));
    }

    #[test]
    fn a_folder_of_links_is_judged_by_the_files_that_they_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let (blobs, snapshot) = (folder.path().join("blobs"), folder.path().join("snapshots/main"));
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::write(blobs.join("1f"), vec![7_u8; 8192]).unwrap();
        std::os::unix::fs::symlink("../../blobs/1f", snapshot.join("model.safetensors")).unwrap();
        std::os::unix::fs::symlink("../../blobs/gone", snapshot.join("dead.safetensors")).unwrap();
        let facts = look_live(&snapshot, Duration::from_secs(180));
        assert!(facts.open_direct.is_some() && facts.size_bytes == Some(8192), "{facts:?}");
        assert!(facts.tried_file.unwrap().ends_with("blobs/1f"));
    }

    #[test]
    fn what_was_set_aside_and_not_written_is_found_where_the_file_system_says_it() {
        let folder = tempfile::tempdir().unwrap();
        let (complete, part) = (folder.path().join("a.safetensors"), folder.path().join("b.safetensors"));
        let file = std::fs::File::create(&complete).unwrap();
        std::io::Write::write_all(&mut &file, &vec![7_u8; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let file = std::fs::File::create(&part).unwrap();
        if rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).is_err() {
            return;
        }
        file.sync_all().unwrap();
        let said = unfinished(&shards_of(folder.path(), None));
        // If the file system does not support FIEMAP, there is nothing to test.
        let Some(found) = said else { return };
        assert_eq!(found, [UnfinishedFile { path: part, unwritten_bytes: 1 << 20, delayed_bytes: 0 }]);
    }

    #[test]
    fn what_is_no_file_is_named_for_what_it_is() {
        let facts = look_live(Path::new("/dev/null"), Duration::from_secs(180));
        assert!(facts.error.is_some_and(|why| why.contains("a character device")));
    }

    #[test]
    fn a_name_that_is_no_text_is_written_all_the_same() {
        use std::os::unix::ffi::OsStringExt as _;
        let name = PathBuf::from(std::ffi::OsString::from_vec(b"/data/\xff".to_vec()));
        let facts = PathFacts { path: name.clone(), real_path: Some(name), ..PathFacts::default() };
        let text = serde_json::to_string(&facts).unwrap();
        assert!(text.contains("/data/\u{fffd}"), "{text}");
    }

    #[test]
    fn a_missing_path_is_said_and_a_folder_without_files_leaves_direct_unknown() {
        assert!(look_live(Path::new("/no/such/path"), Duration::from_secs(180)).error.is_some());
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(look_live(folder.path(), Duration::from_secs(180)).open_direct, None);
    }

    #[test]
    fn a_fifo_in_place_of_a_file_is_not_opened_for_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
        // A writer waits in `open` until the FIFO is opened for reading.
        let path = fifo.clone();
        let writer = std::thread::spawn(move || std::fs::OpenOptions::new().write(true).open(path).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(inode_flags(&fifo), None);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!writer.is_finished());
        drop(std::fs::File::open(&fifo).unwrap());
        writer.join().unwrap().unwrap();
    }
}
