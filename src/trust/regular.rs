//! Opens files that another user may have created. Only regular files are opened. Opening never waits and never
//! affects a device.

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Opens a regular file and follows links. Opening a FIFO waits for its writer, and opening a device may change the
/// device. So the type is read from an O_PATH descriptor, which opens neither, and the same file is then opened
/// through that descriptor.
///
/// # Errors
/// Fails if the file is not a regular file or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

/// Opens a regular file like [`open_regular`], but with O_DIRECT and without O_NONBLOCK, which cuFile rejects (5019).
///
/// # Errors
/// The errors of [`open_regular`]. `EINVAL` if the file system has no O_DIRECT.
pub fn open_regular_direct(path: &Path) -> io::Result<File> {
    blocking(open_with(path, OFlags::DIRECT)?, OFlags::DIRECT)
}

/// Opens a regular file like [`open_regular`], but without O_NONBLOCK, which cuFile rejects (5019).
///
/// # Errors
/// The errors of [`open_regular`].
pub fn open_regular_blocking(path: &Path) -> io::Result<File> {
    blocking(open_with(path, OFlags::empty())?, OFlags::empty())
}

fn blocking(file: File, flags: OFlags) -> io::Result<File> {
    rustix::fs::fcntl_setfl(&file, flags)?;
    Ok(file)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let named = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&named)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => return Err(not_regular()),
    }
    // The owner of a file can hold a lease on it. An open without O_NONBLOCK waits for the end of the lease.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(format!("/proc/self/fd/{}", named.as_raw_fd()), flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => without_procfs(path, flags),
        opened => Ok(File::from(opened?)),
    }
}

/// The file is opened by name again. It may be another file by now, so a FIFO is rejected without waiting.
fn without_procfs(path: &Path, flags: OFlags) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// The errors of [`open_regular`]. It also fails if the file has more bytes.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_regular(path)?, most)
}

/// Reads a pipe that the caller of this program opened for it, at most `most` bytes: `/dev/stdin`, or `/dev/fd/N` as bash
/// passes for `<(…)`. `None` if the path is not one of these names or the descriptor is not a pipe without a name. Only
/// the argument itself may name one, because reading waits for the writer.
pub fn read_descriptor(path: &Path, most: u64) -> Option<io::Result<Vec<u8>>> {
    let number = match path.to_str()? {
        "/dev/stdin" => "0",
        name => ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|folder| name.strip_prefix(folder))?,
    };
    let number = number.parse::<u16>().ok()?;
    // The link of a pipe without a name is `pipe:[INODE]`. Opening it does not wait for a writer.
    let opened = format!("/proc/self/fd/{number}");
    let is_pipe = std::fs::read_link(&opened).ok()?.to_str()?.starts_with("pipe:[");
    is_pipe.then(|| read_at_most(File::open(&opened)?, most))
}

fn read_at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_are_opened_and_no_fifo_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("fifo"), at("to-fifo")).unwrap();
        symlink("/dev/zero", at("to-zero")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_regular(&at(name), 4).unwrap(), b"text", "{name}");
            assert!(read_regular(&at(name), 3).is_err(), "{name}");
        }
        for name in ["fifo", "to-fifo", "to-zero", "", "missing"] {
            assert!(open_regular(&at(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn only_descriptors_that_are_pipes_without_a_name_are_read() {
        let (reads, mut writes) = io::pipe().unwrap();
        io::Write::write_all(&mut writes, b"text").unwrap();
        drop(writes);
        let of = |name: String| read_descriptor(Path::new(&name), 4);
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        assert!(of(format!("/dev/fd/{}", file.as_raw_fd())).is_none());
        for name in ["/dev/fd/x", "/dev/fd/60000", "/dev/zero", "/dev/fd/../fd/0"] {
            assert!(of(name.to_owned()).is_none(), "{name}");
        }
        assert_eq!(of(format!("/dev/fd/{}", reads.as_raw_fd())).unwrap().unwrap(), b"text");
    }

    #[test]
    fn a_file_for_cufile_is_regular_and_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_regular_blocking(&fifo).is_err() && open_regular_direct(&fifo).is_err());
        std::fs::write(dir.path().join("file"), "").unwrap();
        let file = open_regular_blocking(&dir.path().join("file")).unwrap();
        assert!(!rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
        // Not every file system has O_DIRECT.
        match open_regular_direct(&dir.path().join("file")) {
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(&file).unwrap();
                assert!(flags.contains(OFlags::DIRECT) && !flags.contains(OFlags::NONBLOCK));
            }
            Err(error) => assert_eq!(Errno::from_io_error(&error), Some(Errno::INVAL)),
        }
    }

    #[test]
    fn a_file_without_procfs_is_opened_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(without_procfs(&fifo, flags).is_err());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(without_procfs(&dir.path().join("file"), flags).is_ok());
    }
}
