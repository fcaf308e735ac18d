//! The mark that distinguishes files written by gds-top from the files of other models.

use super::header::{open_regular, read_metadata};
use super::profile::Profile;
use crate::core::Synthetic;
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

/// The mark of a model with these arguments of `make-model`.
pub(super) fn text(shape: &str, scale: f64, seed: u64) -> String {
    format!("{shape} scale={scale} seed={seed} format=1")
}

/// The arguments in a mark. `None` for a mark of another format. Another program can have written the mark.
pub(super) fn parsed(mark: &str) -> Option<Synthetic> {
    let mut words = mark.split(' ');
    let shape = words.next().filter(|name| Profile::names().contains(name))?;
    let scale: f64 = words.next()?.strip_prefix("scale=")?.parse().ok()?;
    let seed = words.next()?.strip_prefix("seed=")?.parse().ok()?;
    (mark == text(shape, scale, seed)).then(|| Synthetic { shape: shape.to_owned(), scale: scale.to_string(), seed })
}

/// The shards and indices in a directory, including those of earlier programs. Empty if the directory does not exist.
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
