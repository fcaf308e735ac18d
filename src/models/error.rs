//! Errors of models as sentences: the object, the problem, the value found, and the action.

use crate::text::{sanitise_line, truncate};
use std::io;
use std::path::{Path, PathBuf};

/// An error in a model, or an error while a model is written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The path does not exist.
    #[error(
        "{} does not exist: pass a .safetensors file, a directory of them, an index.json, or a repository of the local Hugging Face cache{hint}",
        path_text(path)
    )]
    NotFound {
        /// The path that was named.
        path: PathBuf,
        /// A question that suggests a similar profile name; empty if there is none.
        hint: String,
    },
    /// The operating system reported an error.
    #[error(
        "{} could not be {doing}: {source}; check that the path is right and that this user may read it",
        path_text(path)
    )]
    Unreadable {
        /// Path of the file or directory.
        path: PathBuf,
        /// The failed operation as a past participle: `opened`, `read` or `listed`.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The name cannot be stored in recordings and reports.
    #[error(
        "the name of {} is not UTF-8, which reports cannot store; rename it, or pass a link to it",
        path_text(path)
    )]
    NotUtf8 {
        /// Path of the file or directory.
        path: PathBuf,
    },
    /// The path is not a regular file.
    #[error(
        "{} is {kind}, not a file of tensors; pass a .safetensors file, a directory of them or an index.json",
        path_text(path)
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of the object with its article: `a FIFO`.
        kind: &'static str,
    },
    /// The directory contains no safetensors file.
    #[error("{} has no .safetensors file; pass the directory with the shards", path_text(path))]
    NoWeights {
        /// Path of the directory.
        path: PathBuf,
    },
    /// None of the caches contains this repository id.
    #[error("{repo} is neither a path nor a repository of the local Hugging Face cache (searched {}); download it with hf download {repo}, or pass a directory", looked.iter().map(|p| path_text(p)).collect::<Vec<_>>().join(", "))]
    NotCached {
        /// The repository id as typed, with control characters escaped.
        repo: String,
        /// The cache directories that were searched.
        looked: Vec<PathBuf>,
    },
    /// A directory of the Hugging Face cache contains no usable snapshot.
    #[error(
        "{} is a directory of the Hugging Face cache, but {problem}; download the repository again",
        path_text(path)
    )]
    CacheFolder {
        /// Path of the directory `models--…`.
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// The file is malformed.
    #[error("{} is not a complete safetensors file: {problem}", path_text(path))]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// The value found, and the action.
        problem: String,
    },
    /// All headers together are too large.
    #[error(
        "the shards in {} have headers of more than {most} bytes in total, the limit for one model; pass one model, or fewer files",
        path_text(path)
    )]
    LargeHeaders {
        /// The directory of the shards.
        path: PathBuf,
        /// The limit in bytes.
        most: u64,
    },
    /// The model is valid but has no tensor bytes.
    #[error("{} has no tensor bytes; pass another model", path_text(path))]
    NothingToLoad {
        /// The path that was named.
        path: PathBuf,
    },
    /// The description of one tensor is wrong.
    #[error("tensor {tensor} of {}: {problem}", path_text(path))]
    BadTensor {
        /// Path of the file.
        path: PathBuf,
        /// Name of the tensor, with control characters escaped.
        tensor: String,
        /// The value found, and the action.
        problem: String,
    },
    /// Two tensors have the same name.
    #[error(
        "tensor {tensor} occurs twice, in {} and in {}; keep only one set of shards in the directory",
        path_text(first),
        path_text(second)
    )]
    DuplicateTensor {
        /// Name of the tensor, with control characters escaped.
        tensor: String,
        /// The first file that contains the name.
        first: PathBuf,
        /// The second file that contains the name.
        second: PathBuf,
    },
    /// The index is malformed.
    #[error("the index {} cannot be used: {problem}", path_text(path))]
    BadIndex {
        /// Path of the index.
        path: PathBuf,
        /// The value found, and the action.
        problem: String,
    },
    /// A shard does not exist.
    #[error("shard {shard} is missing in {} ({why}); download it again", path_text(folder))]
    MissingShard {
        /// Name of the shard, with control characters escaped.
        shard: String,
        /// The directory that should contain it.
        folder: PathBuf,
        /// The source that requires the shard.
        why: String,
    },
    /// No profile has this name.
    #[error("there is no model profile '{name}'{}", crate::core::nearest::hint(name, known))]
    UnknownProfile {
        /// The name as typed, with control characters escaped.
        name: String,
        /// The names of all profiles.
        known: Vec<&'static str>,
    },
    /// A profile that is part of gds-top is wrong.
    #[error("the model profile '{name}' is damaged: {problem}")]
    BadProfile {
        /// Its name.
        name: String,
        /// The defect.
        problem: String,
    },
    /// The scale is out of range.
    #[error("a scale of {scale} is not possible; use a number above 0 and at most 4")]
    BadScale {
        /// The given scale.
        scale: f64,
    },
    /// The progress callback stopped the writing.
    #[error("writing the synthetic model was stopped, and its files were removed")]
    Stopped,
    /// The model does not fit on the disk.
    #[error("the model needs {} and {} has {} free; {advice}", crate::core::units::bytes(*needed_bytes), path_text(path), crate::core::units::bytes(*free_bytes))]
    NoSpace {
        /// Path of the directory.
        path: PathBuf,
        /// Bytes that the model needs in addition to the files that it replaces.
        needed_bytes: u64,
        /// Free bytes for this user.
        free_bytes: u64,
        /// The action.
        advice: &'static str,
    },
    /// The directory contains a file that gds-top did not write.
    #[error("{} is not a file of gds-top; choose an empty directory", path_text(path))]
    Foreign {
        /// Path of that file.
        path: PathBuf,
    },
    /// The directory contains a synthetic model of another shape, scale or seed.
    #[error(
        "{} has another synthetic model, {made}; choose another directory, or replace it with --force",
        path_text(path)
    )]
    OtherSynthetic {
        /// Path of the directory.
        path: PathBuf,
        /// The mark of that model, with control characters escaped.
        made: String,
    },
    /// Writing failed.
    #[error("{} could not be {doing}: {source}; {advice}", path_text(path))]
    Unwritable {
        /// Path of the file or directory.
        path: PathBuf,
        /// The failed operation as a past participle: `created`, `written` or `renamed`.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
        /// The action.
        advice: &'static str,
    },
    /// Another user could change the cache directory of root.
    #[error(
        "gds-top does not write a model to {} as root: {source}; set XDG_CACHE_HOME to a directory of root, or pass a model",
        path_text(path)
    )]
    ForeignCache {
        /// Path of the directory.
        path: PathBuf,
        /// The directory or link that another user controls.
        source: io::Error,
    },
    /// There is neither a cache directory nor a home directory.
    #[error(
        "there is no directory for the demo model: neither XDG_CACHE_HOME nor HOME is set; set one of them, or pass a model"
    )]
    NoCacheFolder,
}

impl WeightsError {
    /// Whether the model is known, but cannot be written anywhere.
    #[must_use]
    pub const fn is_of_the_machine(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Unwritable { .. } | Self::ForeignCache { .. } | Self::NoCacheFolder)
    }

    /// Whether the disk has too little space for the model.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Unwritable { source, .. } => crate::trust::is_full(source),
            _ => false,
        }
    }

    /// The operation on a file of the model failed.
    pub(super) fn unwritable(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Unwritable { path: path.to_owned(), doing, source, advice: "no incomplete file remains" }
    }

    /// The error of a model that is written to the cache directory, with the action that fits.
    pub(super) fn in_cache(self) -> Self {
        const ADVICE: &str = "set XDG_CACHE_HOME to a directory on another disk, or pass a model";
        match self {
            Self::NoSpace { path, needed_bytes, free_bytes, .. } => {
                Self::NoSpace { path, needed_bytes, free_bytes, advice: ADVICE }
            }
            Self::Unwritable { path, doing, source, .. } => Self::Unwritable {
                path,
                doing,
                source,
                advice: "no incomplete file remains; set XDG_CACHE_HOME to a directory that you can write in, or pass a model",
            },
            other => other,
        }
    }
}

/// A path for messages, with control characters escaped.
pub(crate) fn path_text(path: &Path) -> String {
    printable(&path.to_string_lossy(), 400)
}

/// A name from a file for messages. Control characters are escaped, so that a file cannot send commands to the
/// terminal. Long names are cut.
pub(crate) fn name_text(name: &str) -> String {
    format!("'{}'", printable(name, 160))
}

fn printable(text: &str, columns: usize) -> String {
    truncate(&sanitise_line(text), columns).into_owned()
}
