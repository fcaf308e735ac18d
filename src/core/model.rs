//! The content of a model according to its files.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Alignment of each shard in the image, in bytes: the page size and the largest logical block size in use.
pub const IMAGE_ALIGN: u64 = 4096;

/// A model: shards and the tensors in them, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// A short name for titles: the folder's or file's name, or the profile's.
    pub name: String,
    /// The path that the user gave, made absolute.
    pub path: PathBuf,
    /// The files, in the order in which they are read.
    pub shards: Vec<ShardInfo>,
    /// The tensors, sorted by shard and offset.
    pub tensors: Vec<TensorInfo>,
}

impl ModelInfo {
    /// Bytes of all tensors together.
    #[must_use]
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes))
    }

    /// The begin of each shard in the *image*, the layout that every engine uses on the target: file after file,
    /// headers included, each at a multiple of [`IMAGE_ALIGN`], so that an offset on the target equals the offset in
    /// the file modulo the page size and large reads need no unaligned head.
    #[must_use]
    pub fn image_bases(&self) -> Vec<u64> {
        let mut base = 0_u64;
        self.shards
            .iter()
            .map(|shard| {
                let here = base;
                base = base.saturating_add(aligned(shard.file_bytes));
                here
            })
            .collect()
    }

    /// Length of the image in bytes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, s| sum.saturating_add(aligned(s.file_bytes)))
    }

    /// Bytes of all files together, headers included.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, s| sum.saturating_add(s.file_bytes))
    }
}

/// Rounds up to [`IMAGE_ALIGN`]; numbers of a damaged recording may be too large for that.
fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(IMAGE_ALIGN).unwrap_or(u64::MAX)
}

/// One safetensors file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardInfo {
    /// Absolute path.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Offset of the first tensor byte: eight bytes of length and the header.
    pub data_offset: u64,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Element type as written in the header, `BF16`.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Index into [`ModelInfo::shards`].
    pub shard: u32,
    /// Offset of its first byte in the file (not in the data section).
    pub file_offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}
