//! Reads the files of procfs about a process. A process can make its command line, its environment and its list of
//! mappings as long as it wants (`PR_SET_MM_MAP` needs no permission), so only their beginning is read.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of an environment. `execve` accepts at most 6 MiB.
const ENVIRONMENT_BYTES: u64 = 8 << 20;
/// Maximum number of bytes of a list of mappings. A usual process has less than 1 MiB.
const MAPPINGS_BYTES: u64 = 64 << 20;
/// Maximum number of bytes of a command line.
const COMMAND_BYTES: u64 = 64 << 10;

/// The folder of a process in procfs.
#[must_use]
pub fn folder(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The beginning of a file.
#[derive(Debug)]
pub struct Beginning {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the file has more.
    pub is_cut: bool,
}

/// Reads the beginning of a file of procfs.
///
/// # Errors
/// Fails if the file cannot be read: the process has ended, or the permission is missing.
pub fn beginning(file: &Path, limit: u64) -> io::Result<Beginning> {
    let mut bytes = Vec::new();
    File::open(file)?.take(limit + 1).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() as u64 > limit;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Beginning { bytes, is_cut })
}

/// The beginning of the environment that a process had at its start.
///
/// # Errors
/// Fails if it cannot be read.
pub fn environment(process: &Path) -> io::Result<Beginning> {
    beginning(&process.join("environ"), ENVIRONMENT_BYTES)
}

/// The variables that a process had at its start. `None` if they cannot be read or it has none, as after its end.
#[must_use]
pub fn variables(process: &Path) -> Option<HashMap<OsString, OsString>> {
    let all = environment(process).ok()?;
    let pairs = all.bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (pair.get(..at)?, pair.get(at + 1..)?);
        Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
    });
    Some(pairs.collect::<HashMap<_, _>>()).filter(|all| !all.is_empty())
}

/// The words of the command line of a process. A long one is truncated.
///
/// # Errors
/// Fails if it cannot be read.
pub fn command_line(process: &Path) -> io::Result<Vec<String>> {
    let mut bytes = beginning(&process.join("cmdline"), COMMAND_BYTES)?.bytes;
    // Each word ends with a zero byte.
    bytes.pop_if(|last| *last == 0);
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Ok(if bytes.is_empty() { Vec::new() } else { words.collect() })
}

/// The lines of the mappings of a process. A path that is not UTF-8 gets replacement characters.
///
/// # Errors
/// Fails if they cannot be read, or are more than a usual process has.
pub fn mappings(process: &Path) -> io::Result<String> {
    let all = beginning(&process.join("maps"), MAPPINGS_BYTES)?;
    if all.is_cut {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the list is too long"));
    }
    Ok(String::from_utf8_lossy(&all.bytes).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_process_are_read_up_to_a_limit() {
        let place = tempfile::tempdir().unwrap();
        let put = |name: &str, size: u64| File::create(place.path().join(name)).unwrap().set_len(size).unwrap();
        put("environ", ENVIRONMENT_BYTES + 5);
        let seen = environment(place.path()).unwrap();
        assert_eq!((seen.bytes.len() as u64, seen.is_cut), (ENVIRONMENT_BYTES, true));
        put("environ", ENVIRONMENT_BYTES);
        assert!(!environment(place.path()).unwrap().is_cut);
        put("maps", 1 << 40);
        assert!(mappings(place.path()).is_err());
        put("cmdline", 1 << 40);
        assert!(command_line(place.path()).unwrap().iter().all(String::is_empty));
    }

    #[test]
    fn words_and_variables_are_separated_by_zero_bytes() {
        let place = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(place.path().join(name), text).unwrap();
        put("cmdline", b"python\0\0-m\0");
        assert_eq!(command_line(place.path()).unwrap(), ["python", "", "-m"]);
        put("cmdline", b"");
        assert_eq!(command_line(place.path()).unwrap(), Vec::<String>::new());
        put("environ", b"A=1=2\0B=\0broken\0");
        let all = variables(place.path()).unwrap();
        let value = |name: &str| all.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned());
        assert_eq!((value("A"), value("B"), all.len()), (Some("1=2".into()), Some(String::new()), 2));
        put("environ", b"");
        assert!(variables(place.path()).is_none());
    }
}
