//! The tensors and files of a model, as its file headers describe them.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::PathBuf;

/// The alignment of each file in the image, in bytes: the page size and the largest logical block size in use.
pub const IMAGE_ALIGN: u64 = 4096;

/// A model: its files and their tensors, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// A short name for titles: the name of the directory or file, or of the profile.
    pub name: String,
    /// The path that the user passed, made absolute.
    pub path: PathBuf,
    /// The files in the order in which they are read.
    pub shards: Vec<ShardInfo>,
    /// The tensors, sorted by file and offset.
    pub tensors: Vec<TensorInfo>,
    /// How gds-top made the model; `None` for other models and in recordings of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<Synthetic>,
}

/// The arguments of `make-model` that made a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synthetic {
    /// The name of the shape profile.
    pub shape: String,
    /// The factor for the first dimension of every tensor, as a decimal number.
    pub scale: String,
    /// The seed of the random bytes.
    pub seed: u64,
}

impl ModelInfo {
    /// The sum of the bytes of all tensors.
    #[must_use]
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes))
    }

    /// The start of each file in the *image*. The image is the layout that every engine uses on the target: all files
    /// one after another with their headers, each at a multiple of [`IMAGE_ALIGN`]. So an offset on the target equals
    /// the offset in the file modulo the page size, and large reads are aligned.
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

    /// The sum of the sizes of all files in bytes, including headers.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, s| sum.saturating_add(s.file_bytes))
    }
}

/// Rounds up to [`IMAGE_ALIGN`]. It does not overflow for the numbers of a damaged recording.
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
    /// The offset of the first tensor byte. The file starts with an eight-byte length and the header.
    pub data_offset: u64,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// The element type as in the header, `BF16`.
    pub dtype: Cow<'static, str>,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Index into [`ModelInfo::shards`].
    pub shard: u32,
    /// The offset of its first byte in the file, not in the data section.
    pub file_offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}
