//! The mark that distinguishes files written by gds-top from the files of other models.

use super::header::{open_regular, read_metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The key of the mark, in `__metadata__` of a shard and in `metadata` of an index.
pub(super) const KEY: &str = "gds_top_synthetic";

/// The mark of a file (a shard or an index); `None` if it has no mark or cannot be read.
pub(super) fn of(path: &Path) -> Option<String> {
    if path.extension().is_some_and(|e| e == "json") {
        let (file, bytes) = open_regular(path).ok()?;
        if bytes > 64 << 20 {
            return None;
        }
        let mut text = Vec::new();
        file.take(bytes).read_to_end(&mut text).ok()?;
        let index: serde_json::Value = serde_json::from_slice(&text).ok()?;
        return Some(index.get("metadata")?.get(KEY)?.as_str()?.to_owned());
    }
    read_metadata(path)?.remove(KEY)
}

/// The shards and indices in a folder, including those of earlier programs. Empty if the folder does not exist.
pub(super) fn model_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
