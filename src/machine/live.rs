//! Reads files of the live machine. Reads are limited in size, accept only regular files, and do not hang on a FIFO.

use super::symbols;
use super::unread::{Denial, Unread};
use crate::core::os_error;
use crate::trust;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Prefixes of the environment variables that may be read, in addition to `NAMES`.
const PREFIXES: &[&str] = &["CUFILE_", "CUDA_", "NVIDIA_", "KVIKIO_", "ENROOT_", "PYXIS_", "CUOBJ_"];
/// Names of the other environment variables that may be read.
const NAMES: &[&str] = &[
    "LD_LIBRARY_PATH",
    "KUBERNETES_SERVICE_HOST",
    "SLURM_JOB_ID",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "container",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
];

pub(super) fn is_relevant_variable(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

pub(super) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| is_relevant_variable(name))
        .collect()
}

pub(super) fn unread(error: &std::io::Error) -> Unread {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Unread::Missing,
        ErrorKind::PermissionDenied => Unread::Denied(match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS) => Denial::Access,
            Some(Errno::PERM) => Denial::NotPermitted,
            _ => Denial::Other(words(error)),
        }),
        _ => Unread::Failed(words(error)),
    }
}

/// The text of an error in lower case.
pub(super) fn words(error: &std::io::Error) -> String {
    os_error(error).to_lowercase()
}

/// A variable of the caller can name any file. Opening a device could change it, and opening a FIFO affects its writer.
fn open(path: &Path) -> Result<File, Unread> {
    trust::open_regular(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::IsADirectory => Unread::WrongKind,
        _ => unread(&error),
    })
}

pub(super) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
    // nvidia-fs lists the registered storage drivers only while a process has its device open (nvfs-mod.c).
    let _held = (path == Path::new("/proc/driver/nvidia-fs/modules")).then(|| File::open("/dev/nvidia-fs0"));
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| unread(&e))?;
    if bytes.len() as u64 > limit {
        return Err(Unread::TooLarge(limit));
    }
    Ok(bytes)
}

/// The modification time in seconds since 1970. Image-based systems set the time of all files to 0 or 1; this counts
/// as unknown.
pub(super) fn modified_unix_s(path: &Path) -> Option<u64> {
    let when = std::fs::metadata(path).ok()?.modified().ok()?;
    let seconds = when.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    (seconds > 1).then_some(seconds)
}

pub(super) fn entries(path: &Path) -> Result<Vec<String>, Unread> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .map_err(|e| unread(&e))?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

pub(super) fn opens(path: &Path) -> Result<(), Unread> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map(drop)
        .map_err(|e| unread(&e))
}

pub(super) fn symbols(path: &Path) -> Result<BTreeSet<String>, Unread> {
    Ok(symbols::found_in(BufReader::with_capacity(1 << 18, open(path)?)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_file_that_is_not_regular_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("cufile.json");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (opened, was_opened) = mpsc::channel();
        let path = fifo.clone();
        // The writer waits until the FIFO is opened for reading.
        let writer = std::thread::spawn(move || opened.send(OpenOptions::new().write(true).open(path).is_ok()));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(read_bytes(&fifo, 10), Err(Unread::WrongKind));
        assert_eq!(read_bytes(dir.path(), 10), Err(Unread::WrongKind));
        assert_eq!(read_bytes(Path::new("/dev/null"), 10), Err(Unread::WrongKind));
        assert!(was_opened.recv_timeout(Duration::from_millis(100)).is_err());
        let _reader = File::open(&fifo).unwrap();
        writer.join().unwrap().unwrap();
        assert!(read_bytes(Path::new("/proc/self/stat"), 1 << 16).unwrap().len() > 20);
    }
}
