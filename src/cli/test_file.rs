//! A temporary file in a directory without files, so that checks can test O_DIRECT and the route there. The user
//! agrees with `--test-file`.

use crate::trust::{Destination, FileId};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Size of the file in bytes.
const BYTES: usize = 1 << 20;

/// A temporary file in its open directory. It is removed when its value is dropped.
#[derive(Debug)]
pub(super) struct TestFile {
    folder: Destination,
    name: String,
    id: FileId,
}

impl Drop for TestFile {
    fn drop(&mut self) {
        self.folder.remove_same(&self.name, self.id);
    }
}

/// Creates a file in each of these directories that has none. Other paths are left out.
///
/// # Errors
/// A sentence if a file cannot be written. Files that were created before are removed.
pub(super) fn create(paths: &[PathBuf]) -> Result<Vec<TestFile>, String> {
    paths.iter().filter(|path| is_without_files(path)).map(|path| in_directory(path)).collect()
}

/// Whether this is a directory without a regular file that has content. Checks read such files only at this level.
fn is_without_files(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    !entries.flatten().any(|entry| fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file() && meta.len() > 0))
}

fn in_directory(folder: &Path) -> Result<TestFile, String> {
    let name = format!(".gds-top-test-{}", std::process::id());
    let path = folder.join(&name);
    let failed = |error: std::io::Error| {
        format!(
            "--test-file: cannot write {}: {error}; leave the option out, or name a writable directory",
            path.display()
        )
    };
    let folder = Destination::open(folder).map_err(failed)?;
    let opened = folder.create(&name, 0o600).map_err(failed)?;
    let id = FileId::of(&opened).map_err(|errno| failed(errno.into()))?;
    let made = TestFile { folder, name, id };
    written(opened).map_err(failed)?;
    Ok(made)
}

/// Writes content that is not zero, so that the file is not sparse, and waits until it is on the disk.
fn written(mut file: File) -> std::io::Result<()> {
    file.write_all(&vec![0x5a; BYTES])?;
    file.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_without_files_gets_one_and_it_is_removed() {
        let empty = tempfile::tempdir().unwrap();
        let used = tempfile::tempdir().unwrap();
        fs::write(used.path().join("model.safetensors"), "x").unwrap();
        let files = create(&[empty.path().to_owned(), used.path().to_owned(), "/nonexistent".into()]).unwrap();
        assert_eq!(
            (files.len(), fs::metadata(files[0].folder.shown(&files[0].name)).unwrap().len()),
            (1, BYTES as u64)
        );
        drop(files);
        assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(used.path()).unwrap().count(), 1);
    }
}
