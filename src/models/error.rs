//! Errors of models, as sentences: the problem, the place, the value found, and the action.

use crate::text::{sanitise_line, truncate};
use std::io;
use std::path::{Path, PathBuf};

/// Something is wrong with a model, or it could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// Nothing is there.
    #[error(
        "there is no {}: name a .safetensors file, a folder of them, an index.json, or a repository of the local Hugging Face cache{hint}",
        path_text(path)
    )]
    NotFound {
        /// The path that was named.
        path: PathBuf,
        /// A question about a similar name of a shape; empty without one.
        hint: String,
    },
    /// The operating system reported an error.
    #[error(
        "{} could not be {doing}: {source}; check that the path is right and that this user may read it",
        path_text(path)
    )]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Past participle: `opened`, `read`, `listed`.
        doing: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// A name that recordings and reports cannot store.
    #[error(
        "the name of {} is not UTF-8, which reports cannot store; rename it, or pass a link to it",
        path_text(path)
    )]
    NotUtf8 {
        /// The file or folder.
        path: PathBuf,
    },
    /// Not a regular file.
    #[error(
        "{} is {kind}, not a file of tensors; name a .safetensors file, a folder of them or an index.json",
        path_text(path)
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// With its article: `a FIFO`.
        kind: &'static str,
    },
    /// The directory has no safetensors file.
    #[error("{} has no .safetensors file; name the folder with the shards", path_text(path))]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// A repository id that is in none of the caches.
    #[error("{repo} is neither a path nor a repository of the local Hugging Face cache (searched {}); download it first or name a folder", looked.iter().map(|p| path_text(p)).collect::<Vec<_>>().join(", "))]
    NotCached {
        /// As typed, made printable.
        repo: String,
        /// The cache folders that were searched.
        looked: Vec<PathBuf>,
    },
    /// A folder of the Hugging Face cache without a usable snapshot.
    #[error("{} is a folder of the Hugging Face cache, but {problem}; download the repository again", path_text(path))]
    CacheFolder {
        /// The folder `models--…`.
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// The file as a whole is malformed.
    #[error("{} is not a complete safetensors file: {problem}", path_text(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The value that was found, and the action.
        problem: String,
    },
    /// A valid model without tensor bytes.
    #[error("{} has no tensor bytes; name another model", path_text(path))]
    NothingToLoad {
        /// The path that was named.
        path: PathBuf,
    },
    /// One tensor is described wrongly.
    #[error("tensor {tensor} of {}: {problem}", path_text(path))]
    BadTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name, made printable.
        tensor: String,
        /// The value that was found, and the action.
        problem: String,
    },
    /// A name occurs twice.
    #[error(
        "tensor {tensor} is there twice, in {} and in {}; a tensor may be in one place only: keep one set of shards in the folder",
        path_text(first),
        path_text(second)
    )]
    DuplicateTensor {
        /// The tensor's name, made printable.
        tensor: String,
        /// The file that has it first.
        first: PathBuf,
        /// The file that has it again.
        second: PathBuf,
    },
    /// The index is malformed.
    #[error("the index {} cannot be used: {problem}", path_text(path))]
    BadIndex {
        /// The index.
        path: PathBuf,
        /// The value that was found, and the action.
        problem: String,
    },
    /// A shard is not there.
    #[error("shard {shard} is missing in {} ({why}); download it again", path_text(folder))]
    MissingShard {
        /// Its name, made printable.
        shard: String,
        /// The folder that should contain it.
        folder: PathBuf,
        /// The source that names it.
        why: String,
    },
    /// No profile has this name.
    #[error("there is no model profile '{name}'; known are {}", known.join(", "))]
    UnknownProfile {
        /// As typed, made printable.
        name: String,
        /// The names of all profiles.
        known: Vec<&'static str>,
    },
    /// A shipped profile is wrong.
    #[error("the model profile '{name}' is damaged: {problem}")]
    BadProfile {
        /// Its name.
        name: String,
        /// The defect.
        problem: String,
    },
    /// The scale is out of range.
    #[error("a scale of {scale} is not possible; give a number above 0 and at most 4")]
    BadScale {
        /// As given.
        scale: f64,
    },
    /// The progress callback ended it.
    #[error("writing the synthetic model was stopped, and its files were removed")]
    Stopped,
    /// The model does not fit.
    #[error("the model needs {} and {} has {} free; choose a smaller --scale or another disk", crate::core::units::bytes(*needed_bytes), path_text(path), crate::core::units::bytes(*free_bytes))]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// Bytes that would be written beyond those that are replaced.
        needed_bytes: u64,
        /// Bytes free for this user.
        free_bytes: u64,
    },
    /// Files that gds-top did not write block it.
    #[error("{} is not a file of gds-top; choose an empty folder", path_text(path))]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Writing failed.
    #[error("{} could not be {doing}: {source}; nothing was left behind", path_text(path))]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// Past participle: `created`, `written`, `renamed`.
        doing: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// Neither a cache folder nor a home folder is known.
    #[error("there is no folder for the demo model: neither XDG_CACHE_HOME nor HOME is set; set one, or name a model")]
    NoCacheFolder,
}

/// A path as it may be printed: control characters escaped.
pub(crate) fn path_text(path: &Path) -> String {
    printable(&path.to_string_lossy(), 400)
}

/// A name from a file as it may be printed: control characters escaped, so that no file can send commands to the terminal, and of bounded length.
pub(crate) fn name_text(name: &str) -> String {
    format!("'{}'", printable(name, 160))
}

fn printable(text: &str, columns: usize) -> String {
    truncate(&sanitise_line(text), columns).into_owned()
}
