//! Opens a model: reads all headers in parallel, then checks the rules that involve several shards.

use super::error::{WeightsError, name_text, path_text};
use super::header::{Header, MAX_HEADER_BYTES, read_header_within};
use super::locate::{Located, hub_folders, locate};
use super::marker;
use crate::core::{ModelInfo, ShardInfo};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Opens a model: a `.safetensors` file, a directory of shards, an index, a directory of the Hugging Face cache, or a
/// repository id (`org/name` or `org/name@revision`) in that cache. Only headers are read. A FIFO or a device is
/// rejected before it is opened.
///
/// # Errors
/// Fails if no usable model is found or a file violates the format. Each error is a sentence with the action to take.
pub fn open(spec: impl AsRef<Path>) -> Result<ModelInfo, WeightsError> {
    open_with(spec.as_ref(), &hub_folders())
}

/// Like [`open`], but with the given cache directories.
pub(super) fn open_with(spec: &Path, hubs: &[PathBuf]) -> Result<ModelInfo, WeightsError> {
    let located = locate(spec, hubs)?;
    if let Some(path) = std::iter::once(&located.path).chain(&located.files).find(|path| path.to_str().is_none()) {
        return Err(WeightsError::NotUtf8 { path: path.clone() });
    }
    let headers = headers(&located.files)?;
    assemble(located, headers)
}

/// Reads the headers of a model's files again and checks them. Every loader must do this before it can load. The
/// caller compares the result with the earlier one, to detect files that changed.
///
/// # Errors
/// See [`open`], except for errors of finding the files.
pub fn reread(model: &ModelInfo) -> Result<ModelInfo, WeightsError> {
    let files: Vec<PathBuf> = model.shards.iter().map(|shard| shard.path.clone()).collect();
    let headers = headers(&files)?;
    assemble(Located { name: model.name.clone(), path: model.path.clone(), files, index: None }, headers)
}

/// Reads the headers in parallel. All headers together have the limit of one file, because each tensor needs memory. If
/// several files fail, the error of the first file in order is returned, so that the same directory always gives the same
/// message.
fn headers(files: &[PathBuf]) -> Result<Vec<Header>, WeightsError> {
    // The threads mostly wait for the disk, so more threads than cores are useful. Sixteen threads fill any queue.
    let threads = files.len().min(16);
    let left = AtomicU64::new(MAX_HEADER_BYTES);
    let next = AtomicUsize::new(0);
    let (send, receive) = crossbeam_channel::unbounded();
    std::thread::scope(|scope| {
        let read = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(number) else { break };
                if send.send((number, read_header_within(file, &left))).is_err() {
                    break;
                }
            }
        };
        // If a thread cannot be started, the existing threads and the caller's thread read all files.
        for _ in 1..threads {
            let _ = std::thread::Builder::new().spawn_scoped(scope, read);
        }
        read();
    });
    drop(send);
    let mut done: Vec<(usize, Result<Header, WeightsError>)> = receive.into_iter().collect();
    // The order of the threads determines which file exceeds the limit.
    done.sort_by_key(|(number, read)| (!matches!(read, Err(WeightsError::LargeHeaders { .. })), *number));
    done.into_iter().map(|(_, header)| header).collect()
}

fn assemble(located: Located, headers: Vec<Header>) -> Result<ModelInfo, WeightsError> {
    let total = headers.iter().map(|h| h.tensors.len()).sum();
    let mut model = ModelInfo {
        name: located.name,
        path: located.path,
        shards: Vec::with_capacity(headers.len()),
        tensors: Vec::new(),
        synthetic: headers.first().and_then(|header| marker::parsed(header.metadata.get(marker::KEY)?)),
    };
    for (shard, (path, mut header)) in (0_u32..).zip(located.files.into_iter().zip(headers)) {
        model.shards.push(ShardInfo { path, file_bytes: header.file_bytes, data_offset: header.data_offset });
        if shard == 0 {
            // The tensors of a single file are not copied.
            model.tensors = header.tensors;
            model.tensors.reserve_exact(total - model.tensors.len());
        } else {
            header.tensors.iter_mut().for_each(|tensor| tensor.shard = shard);
            model.tensors.append(&mut header.tensors);
        }
    }
    // Files can be sparse, so their sum can overflow. Sums in other places rely on this check.
    let total_bytes = model.shards.iter().try_fold(0_u64, |sum, shard| sum.checked_add(shard.file_bytes));
    if total_bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
        return Err(WeightsError::Malformed {
            path: model.path,
            problem: "its files have more than 2^63 bytes in total; pass another model".to_owned(),
        });
    }
    let path_of = |shard: u32| model.shards.get(shard as usize).map(|s| s.path.clone()).unwrap_or_default();
    let mut seen: HashMap<&str, u32> = HashMap::with_capacity(total);
    for tensor in &model.tensors {
        if let Some(first) = seen.insert(&tensor.name, tensor.shard) {
            return Err(WeightsError::DuplicateTensor {
                tensor: name_text(&tensor.name),
                first: path_of(first),
                second: path_of(tensor.shard),
            });
        }
    }
    if let Some((path, places)) = &located.index {
        for (tensor, shard) in places {
            let found = match seen.get(tensor.as_str()) {
                Some(found) if found == shard => continue,
                Some(found) => format!("but it is in {}", path_text(&path_of(*found))),
                None => "which does not contain it".to_owned(),
            };
            return Err(WeightsError::BadIndex {
                path: path.clone(),
                problem: format!(
                    "it assigns tensor {} to {}, {found}; use the index and shards of one download",
                    name_text(tensor),
                    path_text(&path_of(*shard))
                ),
            });
        }
    }
    if model.tensor_bytes() == 0 {
        return Err(WeightsError::NothingToLoad { path: model.path });
    }
    Ok(model)
}
