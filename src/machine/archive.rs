//! Captured machines as .tar.zst: written completely or not at all, and read from strangers without trust.

use crate::trust::Scratch;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

/// Most entries of an archive; a capture has a few hundred.
const MAX_ENTRIES: usize = 50_000;
/// Most bytes of one file.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Most bytes of all of it, unpacked; a capture has a few million.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// The reader's error if an archive unpacks to more bytes than the bound.
#[derive(Debug, thiserror::Error)]
#[error("it unpacks to more than {} MiB", MAX_TOTAL_BYTES >> 20)]
struct TooLarge;

/// Whether the reader stopped at the bound. `tar` wraps the errors of its reader.
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

/// Packs a folder.
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

/// Unpacks an archive into a temporary folder, and returns the folder of the machine in it.
pub(super) fn unpack(path: &Path) -> Result<(Scratch, PathBuf), String> {
    let name = path.display();
    let bad = |what: String| {
        format!("{name} is not a captured machine that can be examined: {what}; take it again with 'gds-top capture'")
    };
    let file = fs::File::open(path).map_err(|e| {
        format!("{name} cannot be read: {e}; --root wants a folder or archive that 'gds-top capture' wrote")
    })?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(bad("it is neither a folder nor a regular file".to_owned()));
    }
    let folder = Scratch::new("gds-top-root-")
        .map_err(|e| format!("no temporary folder for {name}: {e}; check {}", std::env::temp_dir().display()))?;
    let decoder = zstd::Decoder::new(file).map_err(|e| bad(format!("it is not compressed with zstd ({e})")))?;
    let mut archive = tar::Archive::new(Bounded { inner: decoder, left: MAX_TOTAL_BYTES });
    let broken = |e: io::Error| {
        if is_too_large(&e) {
            bad(TooLarge.to_string())
        } else {
            bad(format!("it is damaged or not a tar archive ({e})"))
        }
    };
    let mut written = 0_u64;
    for (number, entry) in archive.entries().map_err(broken)?.enumerate() {
        if number >= MAX_ENTRIES {
            return Err(bad(format!("it has more than {MAX_ENTRIES} entries")));
        }
        let mut entry = entry.map_err(broken)?;
        let asked = entry.path().map_err(broken)?.into_owned();
        let inside = inside(&asked).ok_or_else(|| bad(format!("its entry {asked:?} leads out of it")))?;
        if inside.as_os_str().is_empty() {
            continue;
        }
        let at = folder.path().join(&inside);
        parents(folder.path(), &inside).map_err(|what| bad(format!("its entry {asked:?} {what}")))?;
        let there = fs::symlink_metadata(&at).ok();
        match entry.header().entry_type() {
            tar::EntryType::Directory => {
                if there.as_ref().is_some_and(|meta| !meta.is_dir()) {
                    return Err(bad(format!("{asked:?} is in it twice")));
                }
                if there.is_none() {
                    fs::create_dir(&at).map_err(broken)?;
                }
            }
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                if there.is_some() {
                    return Err(bad(format!("{asked:?} is in it twice")));
                }
                let mut out = fs::File::create_new(&at).map_err(broken)?;
                let copied = io::copy(&mut entry.by_ref().take(MAX_FILE_BYTES + 1), &mut out).map_err(broken)?;
                written = written.saturating_add(copied);
                if copied > MAX_FILE_BYTES || written > MAX_TOTAL_BYTES {
                    return Err(bad(format!("{asked:?} makes it larger than a capture can be")));
                }
            }
            tar::EntryType::Symlink => {
                let target = entry.link_name().map_err(broken)?.map(std::borrow::Cow::into_owned).unwrap_or_default();
                if there.is_some() || !stays(&inside, &target) {
                    return Err(bad(format!("its link {asked:?} leads out of it, to {target:?}")));
                }
                std::os::unix::fs::symlink(&target, &at).map_err(broken)?;
            }
            tar::EntryType::XGlobalHeader => {}
            other => {
                return Err(bad(format!("{asked:?} is a {}; only files, folders and links may be in it", kind(other))));
            }
        }
    }
    let top = top(folder.path());
    Ok((folder, top))
}

fn kind(other: tar::EntryType) -> &'static str {
    match other {
        tar::EntryType::Link => "hard link",
        tar::EntryType::Char | tar::EntryType::Block => "device node",
        tar::EntryType::Fifo => "FIFO",
        tar::EntryType::GNUSparse => "sparse file",
        _ => "thing of an unknown kind",
    }
}

/// The path without `.`; `None` if it is absolute or has `..`.
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

/// Makes the missing folders of an entry; none of them may be a link or a file.
fn parents(top: &Path, inside: &Path) -> Result<(), String> {
    let mut at = top.to_owned();
    for name in inside.parent().into_iter().flat_map(Path::components) {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(meta) if meta.is_symlink() => return Err("is behind a link".to_owned()),
            Ok(_) => return Err("is below a file".to_owned()),
            Err(_) => fs::create_dir(&at).map_err(|e| format!("cannot be unpacked: {e}"))?,
        }
    }
    Ok(())
}

/// Whether a link stays within the captured machine. Absolute ones do: they mean that machine's root, and are never followed by the kernel.
/// Links are allowed below `files` only: `files` itself as a link would present another folder as the captured machine.
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

/// The folder with the machine: the top, or the only folder in it.
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

/// Ends with an error where more comes than may.
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
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// An archive with entries as an attacker would write them: names go in raw.
    fn archive(entries: &[(&str, tar::EntryType, &str, &[u8])]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = zstd::Encoder::new(file.reopen().unwrap(), 1).unwrap();
        {
            let mut builder = tar::Builder::new(&mut encoder);
            for (name, kind, link, bytes) in entries {
                let mut header = tar::Header::new_gnu();
                header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
                header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
                header.set_entry_type(*kind);
                header.set_size(bytes.len() as u64);
                header.set_mode(0o777);
                header.set_cksum();
                builder.append(&header, *bytes).unwrap();
            }
            builder.finish().unwrap();
        }
        encoder.finish().unwrap();
        file
    }

    fn refusal(entries: &[(&str, tar::EntryType, &str, &[u8])]) -> String {
        unpack(archive(entries).path()).map(|_| ()).expect_err("it was unpacked")
    }

    #[test]
    fn hostile_archives_are_refused_with_a_sentence() {
        use tar::EntryType as T;
        let cases: [(&str, T, &str, &str); 16] = [
            ("../evil", T::Regular, "", "leads out of it"),
            ("machine/files/../../../evil", T::Regular, "", "leads out of it"),
            ("/etc/evil", T::Regular, "", "leads out of it"),
            ("machine/files/a", T::Symlink, "../../../etc/passwd", "leads out of it"),
            ("machine/capture.json", T::Symlink, "/etc/passwd", "leads out of it"),
            ("files", T::Symlink, "/", "leads out of it"),
            ("./files", T::Symlink, "/", "leads out of it"),
            ("machine/files", T::Symlink, "/", "leads out of it"),
            ("machine/files", T::Symlink, "../../..", "leads out of it"),
            ("machine", T::Symlink, "/", "leads out of it"),
            ("machine/files/a/b", T::Symlink, "../../x", "leads out of it"),
            ("machine/files/a", T::Symlink, "b/../../x", "leads out of it"),
            ("machine/files/dev/null", T::Char, "", "device node"),
            ("machine/files/dev/sda", T::Block, "", "device node"),
            ("machine/files/pipe", T::Fifo, "", "FIFO"),
            ("machine/files/hard", T::Link, "/etc/passwd", "hard link"),
        ];
        for (name, kind, link, part) in cases {
            let said = refusal(&[(name, kind, link, b"")]);
            assert!(said.contains(part) && said.contains("gds-top capture"), "{name}: {said}");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_or_over_a_file() {
        use tar::EntryType as T;
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().to_str().unwrap();
        let said =
            refusal(&[("machine/files/a", T::Symlink, target, b""), ("machine/files/a/evil", T::Regular, "", b"x")]);
        assert!(said.contains("behind a link"), "{said}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        let twice = ("machine/files/a", T::Regular, "", b"x".as_slice());
        assert!(refusal(&[twice, twice]).contains("twice"));
    }

    #[test]
    fn an_archive_that_grows_without_end_is_stopped() {
        let zeros = vec![0_u8; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
        let said = refusal(&[("machine/files/bomb", tar::EntryType::Regular, "", &zeros)]);
        assert!(said.contains("larger than"), "{said}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = zstd::Encoder::new(file.reopen().unwrap(), 1).unwrap();
        // A tar header that promises much, and no end of zeros behind it.
        let mut header = tar::Header::new_gnu();
        header.set_path("machine/files/bomb").unwrap();
        header.set_entry_type(tar::EntryType::XHeader);
        header.set_size(1 << 40);
        header.set_cksum();
        encoder.write_all(header.as_bytes()).unwrap();
        let block = vec![0_u8; 1 << 20];
        for _ in 0..300 {
            encoder.write_all(&block).unwrap();
        }
        encoder.finish().unwrap();
        let said = unpack(file.path()).err().unwrap();
        assert!(said.contains(&TooLarge.to_string()), "{said}");
    }

    #[test]
    fn what_is_no_archive_is_said_to_be_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"{\"not\": \"an archive\"}").unwrap();
        assert!(unpack(file.path()).err().unwrap().contains("is not a captured machine"));
        fs::write(file.path(), b"").unwrap();
        assert!(unpack(file.path()).is_err() || !unpack(file.path()).unwrap().1.join("files").exists());
    }

    #[test]
    fn what_was_packed_comes_back_with_its_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("files/sys/class")).unwrap();
        fs::write(folder.path().join("files/sys/x"), "1").unwrap();
        std::os::unix::fs::symlink("../x", folder.path().join("files/sys/class/x")).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        pack(folder.path(), file.reopen().unwrap()).unwrap();
        let (_kept, top) = unpack(file.path()).unwrap();
        assert_eq!(fs::read_to_string(top.join("files/sys/x")).unwrap(), "1");
        assert_eq!(fs::read_link(top.join("files/sys/class/x")).unwrap(), Path::new("../x"));
    }
}
