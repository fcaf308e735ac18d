//! Reads and writes captured machines as `.tar.zst` archives. An archive is written completely or not at all. The
//! content of an archive is not trusted when it is read.

use crate::trust::{Scratch, open_regular};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of entries in an archive, including implied directories. A capture has a few thousand entries.
const MAX_ENTRIES: usize = 20_000;
/// Maximum length of a path in an archive, in bytes. The kernel has the same limit.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum depth of a path in an archive. Paths in sysfs have about twenty levels.
const MAX_DEPTH: usize = 64;
/// Maximum size in bytes of an entry that describes the next entry. It contains at most two paths.
const MAX_EXTENSION_BYTES: u64 = 16 << 10;
/// Maximum size of one file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum size of the unpacked archive, in bytes. A capture has a few million bytes.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// Limits the window of the decompressor to 8 MiB of memory.
const WINDOW_LOG: u32 = 23;

/// The reader returns this error if the unpacked archive exceeds the limit.
#[derive(Debug, thiserror::Error)]
#[error("it unpacks to more than {} MiB", MAX_TOTAL_BYTES >> 20)]
struct TooLarge;

/// Whether the reader stopped at the limit. The error is searched, because `tar` wraps the errors of its reader.
fn is_too_large(error: &io::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(error) = next {
        if error.is::<TooLarge>() {
            return true;
        }
        next = match error.downcast_ref::<io::Error>() {
            Some(wrapped) => wrapped.get_ref().map(|inner| inner as _),
            None => error.source(),
        };
    }
    false
}

/// Packs a directory.
pub(super) fn pack(folder: &Path, into: impl Write) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(into, 9)?;
    {
        let mut builder = tar::Builder::new(&mut encoder);
        builder.follow_symlinks(false);
        builder.mode(tar::HeaderMode::Deterministic);
        builder.append_dir_all("machine", folder)?;
        builder.finish()?;
    }
    encoder.finish()?.flush()
}

/// Unpacks an archive into a temporary directory. Returns that directory and the directory of the machine in it.
pub(super) fn unpack(path: &Path) -> Result<(Scratch, PathBuf), String> {
    let name = path.display();
    let bad = |what: String| {
        format!("{name} is not a captured machine that can be examined: {what}; take it again with 'gds-top capture'")
    };
    let mut file = open_regular(path).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => bad("it is neither a directory nor a regular file".to_owned()),
        _ => format!("{name} cannot be read: {e}; pass a directory or archive that 'gds-top capture' wrote"),
    })?;
    if entries(&mut file).is_some_and(|count| count >= MAX_ENTRIES) {
        return Err(bad(format!("it has more than {MAX_ENTRIES} entries")));
    }
    file.rewind().map_err(|e| format!("{name} cannot be read: {e}"))?;
    let folder = Scratch::new("gds-top-root-").map_err(|e| {
        format!(
            "{name} could not be unpacked: no temporary directory can be made in {}: {e}",
            std::env::temp_dir().display()
        )
    })?;
    let no_zstd = |e: io::Error| bad(format!("it is not compressed with zstd ({e})"));
    let mut archive = opened(file).map_err(no_zstd)?;
    let broken = |e: io::Error| {
        if is_too_large(&e) {
            bad(TooLarge.to_string())
        } else {
            bad(format!("it is damaged or not a tar archive ({e})"))
        }
    };
    // If the disk is full, the archive may still be valid.
    let unwritten = |e: io::Error| format!("{name} could not be unpacked: {}", no_space(&e, folder.path()));
    let (mut written, mut made) = (0_u64, 0_usize);
    let mut next = Described::default();
    // Raw entries are requested because the crate does not limit the entries that describe the next entry. They are
    // limited below.
    for (number, entry) in archive.entries().map_err(broken)?.raw(true).enumerate() {
        let mut entry = entry.map_err(broken)?;
        if next.take(&mut entry).map_err(bad)? {
            continue;
        }
        let Described { path, link } = std::mem::take(&mut next);
        let asked = match path {
            Some(path) => path,
            None => entry.path().map_err(broken)?.into_owned(),
        };
        let inside = inside(&asked).ok_or_else(|| bad(format!("its entry {asked:?} leads out of it")))?;
        if inside.as_os_str().is_empty() {
            continue;
        }
        if inside.as_os_str().len() > MAX_PATH_BYTES || inside.components().count() > MAX_DEPTH {
            return Err(bad(format!("an entry is deeper than {MAX_DEPTH} directories or {MAX_PATH_BYTES} bytes")));
        }
        made += parents(folder.path(), &inside).map_err(|problem| match problem {
            Parents::System(e) => unwritten(e),
            Parents::Entry(what) => bad(format!("its entry {asked:?} {what}")),
        })?;
        if number + made >= MAX_ENTRIES {
            return Err(bad(format!("it has more than {MAX_ENTRIES} entries")));
        }
        let at = folder.path().join(&inside);
        let there = fs::symlink_metadata(&at).ok();
        match entry.header().entry_type() {
            tar::EntryType::Directory => {
                if there.as_ref().is_some_and(|meta| !meta.is_dir()) {
                    return Err(bad(format!("it contains {asked:?} twice")));
                }
                if there.is_none() {
                    fs::create_dir(&at).map_err(unwritten)?;
                }
            }
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                if there.is_some() {
                    return Err(bad(format!("it contains {asked:?} twice")));
                }
                let mut out = Unwritten { file: fs::File::create_new(&at).map_err(unwritten)?, error: None };
                let copied = io::copy(&mut entry.by_ref().take(MAX_FILE_BYTES + 1), &mut out);
                let copied = copied.map_err(|e| out.error.take().map_or_else(|| broken(e), unwritten))?;
                written = written.saturating_add(copied);
                if copied > MAX_FILE_BYTES || written > MAX_TOTAL_BYTES {
                    return Err(bad(format!("it exceeds the maximum size of a capture at {asked:?}")));
                }
            }
            tar::EntryType::Symlink => {
                let target = match link {
                    Some(link) => link,
                    None => entry.link_name().map_err(broken)?.map(std::borrow::Cow::into_owned).unwrap_or_default(),
                };
                if there.is_some() || !stays(&inside, &target) {
                    return Err(bad(format!("its link {asked:?} leads out of it, to {target:?}")));
                }
                std::os::unix::fs::symlink(&target, &at).map_err(unwritten)?;
            }
            other => {
                return Err(bad(format!(
                    "{asked:?} is a {}; only files, directories and links may be in it",
                    kind(other)
                )));
            }
        }
    }
    let top = top(folder.path());
    Ok((folder, top))
}

type Opened<F> = tar::Archive<Bounded<zstd::Decoder<'static, io::BufReader<F>>>>;

fn opened<F: Read>(file: F) -> io::Result<Opened<F>> {
    let mut decoder = zstd::Decoder::new(file)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(tar::Archive::new(Bounded { inner: decoder, left: MAX_TOTAL_BYTES }))
}

/// The number of entries and of the directories that their paths imply. Counting ends at [`MAX_ENTRIES`]. It precedes the
/// first file, because a disk needs a minute to create and remove many files. Damaged archives are reported when they
/// are unpacked.
fn entries(file: &mut fs::File) -> Option<usize> {
    let mut archive = opened(file).ok()?;
    let (mut next, mut folders, mut count) = (Described::default(), HashSet::new(), 0);
    for entry in archive.entries().ok()?.raw(true) {
        let Ok(mut entry) = entry else { break };
        count += 1;
        match next.take(&mut entry) {
            Ok(true) => {}
            Ok(false) => {
                let path = std::mem::take(&mut next).path.or_else(|| Some(entry.path().ok()?.into_owned()));
                let Some(inside) = path.and_then(|path| inside(&path)) else { break };
                count += implied(&inside, entry.header().entry_type().is_dir(), &mut folders);
            }
            Err(_) => break,
        }
        if count >= MAX_ENTRIES {
            break;
        }
    }
    Some(count)
}

/// The number of directories above an entry that are not in `folders`, which gets them. The set has hashes of paths,
/// because paths can need much memory. Unpacking counts the directories again, so equal hashes do no harm.
fn implied(inside: &Path, is_folder: bool, folders: &mut HashSet<u64>) -> usize {
    let (mut hasher, mut count) = (DefaultHasher::new(), 0);
    let mut parts = inside.components().take(MAX_DEPTH).peekable();
    while let Some(part) = parts.next() {
        part.hash(&mut hasher);
        let is_above = parts.peek().is_some();
        let is_new = (is_above || is_folder) && folders.insert(hasher.finish());
        if is_new && is_above {
            count += 1;
        }
    }
    count
}

fn kind(other: tar::EntryType) -> &'static str {
    match other {
        tar::EntryType::Link => "hard link",
        tar::EntryType::Char | tar::EntryType::Block => "device node",
        tar::EntryType::Fifo => "FIFO",
        tar::EntryType::GNUSparse => "sparse file",
        _ => "entry of an unknown type",
    }
}

/// Removes `.` from a path. Returns `None` if the path is absolute or contains `..`.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(out)
}

/// The path and the link target that preceding entries define for an entry.
#[derive(Default)]
struct Described {
    path: Option<PathBuf>,
    link: Option<PathBuf>,
}

impl Described {
    /// Reads an entry that describes the next entry. Returns false for any other entry.
    fn take(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<bool, String> {
        let kind = entry.header().entry_type();
        if !(kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions())
        {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        let damaged = |e: io::Error| {
            if is_too_large(&e) { TooLarge.to_string() } else { format!("it is damaged ({e})") }
        };
        entry.by_ref().take(MAX_EXTENSION_BYTES + 1).read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 > MAX_EXTENSION_BYTES {
            return Err(format!("the name of an entry is larger than {} KiB", MAX_EXTENSION_BYTES >> 10));
        }
        let text = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b"\0").unwrap_or(bytes)));
        if kind.is_gnu_longname() {
            self.path = Some(text(&bytes));
        } else if kind.is_gnu_longlink() {
            self.link = Some(text(&bytes));
        } else if kind.is_pax_local_extensions() {
            for extension in tar::PaxExtensions::new(&bytes) {
                let extension = extension.map_err(|e| format!("it is damaged ({e})"))?;
                match extension.key_bytes() {
                    b"path" => self.path = Some(text(extension.value_bytes())),
                    b"linkpath" => self.link = Some(text(extension.value_bytes())),
                    b"size" => return Err("the size of an entry is not in its header".to_owned()),
                    _ => {}
                }
            }
        }
        Ok(true)
    }
}

/// A file that keeps its last write error, because an error of `io::copy` may be from the reader or the writer.
struct Unwritten {
    file: fs::File,
    error: Option<io::Error>,
}

impl Write for Unwritten {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The message for an error of a write into the temporary directory.
fn no_space(error: &io::Error, folder: &Path) -> String {
    let above = folder.parent().unwrap_or(folder).display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{above} does not have enough space ({error}); set TMPDIR to a directory with more")
        }
        _ => format!("writing to {above} failed: {error}"),
    }
}

/// The reason why the parent directories of an entry could not be created.
enum Parents {
    Entry(&'static str),
    System(io::Error),
}

/// Creates the missing parent directories of an entry and returns their number. Fails if a parent is a link or a file.
fn parents(top: &Path, inside: &Path) -> Result<usize, Parents> {
    let (mut at, mut made) = (top.to_owned(), 0);
    for name in inside.parent().into_iter().flat_map(Path::components) {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(meta) if meta.is_symlink() => return Err(Parents::Entry("is reached through a link")),
            Ok(_) => return Err(Parents::Entry("is below a file")),
            Err(_) => {
                fs::create_dir(&at).map_err(Parents::System)?;
                made += 1;
            }
        }
    }
    Ok(made)
}

/// Whether a link target is within the captured machine. An absolute target is allowed: it is relative to the
/// machine's root, and the kernel never follows it. Links are only allowed below `files`. If `files` were a link
/// itself, another directory would be read as the captured machine.
fn stays(link: &Path, target: &Path) -> bool {
    let parts: Vec<Component<'_>> = link.components().collect();
    let Some(files) = parts.iter().position(|part| part.as_os_str() == "files") else { return false };
    let Some(mut depth) = parts.len().checked_sub(files + 2) else { return false };
    if target.is_absolute() {
        return true;
    }
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => return false,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
    }
    true
}

/// The directory that contains the machine: the given directory, or its only subfolder.
fn top(folder: &Path) -> PathBuf {
    if ["files", "capture.json"].iter().any(|part| fs::symlink_metadata(folder.join(part)).is_ok()) {
        return folder.to_owned();
    }
    let mut inside = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    match (inside.next(), inside.next()) {
        (Some(only), None) if fs::symlink_metadata(&only).is_ok_and(|meta| meta.is_dir()) => only,
        _ => folder.to_owned(),
    }
}

/// Fails if the input is longer than the limit.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(got as u64).ok_or_else(|| io::Error::other(TooLarge))?;
        Ok(got)
    }
}

#[cfg(test)]
mod tests;
