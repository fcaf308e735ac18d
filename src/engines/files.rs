//! Opens the files of a model and reads complete ranges of them.

use super::error::LoadError;
use crate::core::{LaneOrder, ModelInfo, ShardInfo};
use crate::models;
use crate::trust::{open_regular_blocking, open_regular_direct};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Opens all files of a model for reading, optionally with `O_DIRECT`.
pub(super) fn open_shards(model: &ModelInfo, direct: bool) -> Result<Vec<File>, LoadError> {
    model.shards.iter().map(|shard| open_shard(&shard.path, direct)).collect()
}

/// The files of a model. The first thread that needs a file opens it, so that hundreds of small files are opened in
/// parallel and the first read does not wait for the last open.
pub(super) struct Opened<'a> {
    model: &'a ModelInfo,
    direct: bool,
    files: Vec<OnceLock<Result<File, Mutex<Option<LoadError>>>>>,
}

impl<'a> Opened<'a> {
    pub(super) fn new(model: &'a ModelInfo, direct: bool) -> Self {
        Self { model, direct, files: model.shards.iter().map(|_| OnceLock::new()).collect() }
    }

    /// A file, and whether this call opened it. Its length is checked when it is opened.
    pub(super) fn get(&self, shard: usize) -> Result<(&File, bool), LoadError> {
        let (info, cell) = match (self.model.shards.get(shard), self.files.get(shard)) {
            (Some(info), Some(cell)) => (info, cell),
            _ => return Err(LoadError::Changed { what: format!("file {shard} does not exist") }),
        };
        let mut now = false;
        let opened = cell.get_or_init(|| {
            now = true;
            // Threads arrive in any order, but the error always names the first file that changed.
            let opened = check_length(info).and_then(|()| open_shard(&info.path, self.direct));
            opened.map_err(|e| Mutex::new(Some(check_lengths(self.model).err().unwrap_or(e))))
        });
        match opened {
            Ok(file) => Ok((file, now)),
            // The first caller gets the error. For other callers, the load has already failed.
            Err(error) => {
                Err(error.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(LoadError::Stopped))
            }
        }
    }
}

/// Opens a file for reading.
pub(super) fn open_shard(path: &Path, direct: bool) -> Result<File, LoadError> {
    let opened = if direct { open_regular_direct(path) } else { open_regular_blocking(path) };
    opened.map_err(|source| match Errno::from_io_error(&source) {
        Some(Errno::INVAL) if direct => LoadError::NoDirect { path: path.to_owned(), source },
        Some(Errno::MFILE) => LoadError::TooManyFiles {
            path: path.to_owned(),
            may: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        },
        // The file existed when the session opened it.
        Some(Errno::NOENT) => LoadError::Changed { what: format!("{} no longer exists", path.display()) },
        None | Some(Errno::ISDIR) => {
            LoadError::Changed { what: format!("{} is no longer a regular file", path.display()) }
        }
        Some(_) => LoadError::File { doing: "opening", path: path.to_owned(), source },
    })
}

/// Raises the limit of open files as far as possible and returns it. Some engines keep all files of a model open,
/// with a handle for each.
pub(crate) fn raise_open_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The number of hardware queues of the disk that holds a file, from the kernel's block layer. `None` for network and
/// stacked file systems, which have no such list.
pub(super) fn hardware_queues(path: &Path) -> Option<usize> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(path).ok()?.dev();
    let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let device = std::fs::canonicalize(link).ok()?;
    // A partition uses the queues of its disk.
    let queues =
        [device.join("mq"), device.parent()?.join("mq")].into_iter().find_map(|mq| std::fs::read_dir(mq).ok())?;
    Some(queues.count())
}

/// Reads at `offset` until `enough` bytes are in `buffer` or the file ends. Returns the number of bytes read.
pub(super) fn read_fully(
    file: impl AsFd,
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
    enough: usize,
) -> Result<usize, LoadError> {
    let mut done = 0;
    while done < enough.min(buffer.len()) {
        match rustix::io::pread(&file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) if is_end(done, &errno.into()) => break,
            Err(errno) => {
                return Err(unread(path, offset + done as u64, errno.into()));
            }
        }
    }
    Ok(done)
}

/// Whether a read that failed after `done` bytes was at the end of the file. If an `O_DIRECT` read reaches the end,
/// the next offset may be unaligned. Some file systems then return an error instead of 0 bytes.
pub(super) fn is_end(done: usize, error: &std::io::Error) -> bool {
    done > 0 && error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
}

/// The number of bytes that a read of the ring returned. It is 0 if the read was interrupted or must be repeated. The
/// code for short reads then repeats it.
pub(super) fn came(read: std::io::Result<usize>, path: &Path, at: u64) -> Result<usize, LoadError> {
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    match read {
        Err(error) if matches!(error.kind(), Interrupted | WouldBlock) => Ok(0),
        other => other.map_err(|source| unread(path, at, source)),
    }
}

/// The error of a read at `at`.
pub(super) fn unread(path: &Path, at: u64, source: std::io::Error) -> LoadError {
    LoadError::Unread { path: path.to_owned(), at, source }
}

/// Reads a block of `useful` bytes. `buffer` can be longer, because `O_DIRECT` reads are rounded up. Returns an error
/// if the file ends early. It does not read after the last useful byte: that offset may be unaligned, which some file
/// systems reject even at the end of the file.
pub(super) fn read_block(
    file: impl AsFd,
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
    useful: usize,
) -> Result<(), LoadError> {
    let done = read_fully(file, path, buffer, offset, useful)?;
    if done < useful {
        return Err(short(path, offset + done as u64, offset + useful as u64));
    }
    Ok(())
}

/// The error of a read that returned no bytes at `at`. With several threads, the first one to notice can be far
/// behind the end, so the length of the file is read.
pub(super) fn short(path: &Path, at: u64, expected: u64) -> LoadError {
    let now = std::fs::metadata(path).map_or(at, |meta| meta.len().min(at));
    LoadError::Short { path: path.to_owned(), at: now, expected }
}

/// Reads the headers again after the clock has started, as every loader must, and compares them with those that the
/// session read.
pub(super) fn reopen_model(order: &LaneOrder) -> Result<(), LoadError> {
    check_lengths(&order.model)?;
    check_headers(order)
}

/// Checks that the files have the lengths that the session read. A loader of complete files needs no other check
/// before it starts.
pub(super) fn check_lengths(model: &ModelInfo) -> Result<(), LoadError> {
    model.shards.iter().try_for_each(check_length)
}

fn check_length(shard: &ShardInfo) -> Result<(), LoadError> {
    // The file could be opened at the start of the session, so it has changed. The length describes the change best.
    let path = shard.path.display();
    let what = match std::fs::metadata(&shard.path) {
        Ok(now) if now.len() == shard.file_bytes => return Ok(()),
        Ok(now) => format!("{path} had {} bytes and has {}", shard.file_bytes, now.len()),
        Err(error) => format!("{path} can no longer be examined: {error}"),
    };
    Err(LoadError::Changed { what })
}

/// Reads all headers in parallel and compares them with those that the session read. It can run during the first
/// reads, because the position of a tensor is needed only after its bytes have arrived.
pub(super) fn check_headers(order: &LaneOrder) -> Result<(), LoadError> {
    let model = &order.model;
    let mut again = match models::reread(model) {
        Ok(again) => again,
        Err(error) => {
            // If the length of a file changed, the error names the length, because that is easier to understand.
            check_lengths(model)?;
            return Err(LoadError::Changed { what: error.to_string() });
        }
    };
    if !order.ranges.is_empty() {
        again = models::clipped(&again, &order.ranges);
    }
    if again.tensors != model.tensors || again.shards != model.shards {
        check_lengths(model)?;
        return Err(LoadError::Changed { what: "its files hold other tensors now".to_owned() });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_process_may_open_all_that_its_hard_limit_allows() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        assert_eq!(raise_open_files(), most.unwrap_or(u64::MAX));
    }

    #[test]
    fn only_a_refusal_behind_bytes_that_came_is_the_end_of_a_file() {
        let refusal = Error::from_raw_os_error(libc::EINVAL);
        assert!(is_end(513, &refusal) && !is_end(0, &refusal) && !is_end(513, &ErrorKind::Interrupted.into()));
    }

    #[test]
    fn what_was_interrupted_is_asked_for_again_and_what_failed_is_an_error() {
        let read = |code| came(Err(Error::from_raw_os_error(code)), Path::new("/m"), 0).ok();
        assert_eq!((read(libc::EINTR), read(libc::EAGAIN), read(libc::EIO)), (Some(0), Some(0), None));
        assert_eq!(came(Ok(5), Path::new("/m"), 0).ok(), Some(5));
    }

    #[test]
    fn a_read_that_the_disk_failed_says_where_and_who_knows_more() {
        let failed = |code| unread(Path::new("/m"), 4096, Error::from_raw_os_error(code)).to_string();
        assert!(failed(libc::EIO).starts_with("reading /m at byte 4096 failed") && failed(libc::EIO).contains("dmesg"));
        assert!(!failed(libc::ESTALE).contains("dmesg"));
    }
}
