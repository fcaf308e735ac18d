//! Published loaders with a script of ours each, kept in the program and run by the installed Python.

use crate::core::LOADERS;
use crate::text::quoted;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A loader with a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loader {
    /// Its name behind `loader:`.
    pub name: &'static str,
    /// The script.
    pub script: &'static str,
    /// The package of its version, as `pip` knows it.
    pub package: &'static str,
    /// Its method, in a line.
    pub about: &'static str,
}

/// Shared by all scripts: the line protocol, the files of a model.
const COMMON: &str = include_str!("../../../../profiles/loaders/lane.py");

/// All of them, in the order of [`LOADERS`].
#[must_use]
pub fn all() -> [Loader; LOADERS.len()] {
    let loader = |name, script, package, about| Loader { name, script, package, about };
    [
        loader(
            LOADERS[0],
            include_str!("../../../../profiles/loaders/safetensors.py"),
            "safetensors",
            "the reference: load_file, tensor by tensor out of a mapping; numpy arrays without a GPU",
        ),
        loader(
            LOADERS[1],
            include_str!("../../../../profiles/loaders/fastsafetensors.py"),
            "fastsafetensors",
            "complete files into device buffers by cuFile or pinned memory, tensors are views",
        ),
        loader(
            LOADERS[2],
            include_str!("../../../../profiles/loaders/runai-model-streamer.py"),
            "runai-model-streamer",
            "threads or io_uring into a ring in host memory, then a copy a tensor",
        ),
        loader(
            LOADERS[3],
            include_str!("../../../../profiles/loaders/instanttensor.py"),
            "instanttensor",
            "deep queues of direct reads into pinned memory, copies overlap",
        ),
        loader(
            LOADERS[4],
            include_str!("../../../../profiles/loaders/kvikio.py"),
            "kvikio-cu13",
            "a pool of threads over cuFile or pread, complete files into device buffers",
        ),
        loader(
            LOADERS[5],
            include_str!("../../../../profiles/loaders/torch-cuda-gds.py"),
            "torch",
            "PyTorch's own cuFile wrapper, a read a file",
        ),
    ]
}

/// The Python that runs them: what `GDS_TOP_PYTHON` names, else `python3`.
#[must_use]
pub fn python() -> OsString {
    std::env::var_os("GDS_TOP_PYTHON").filter(|name| !name.is_empty()).unwrap_or_else(|| "python3".into())
}

/// Writes a loader's script into the lane's folder and returns the command line that runs it.
pub(super) fn line(name: &str, folder: &Path) -> std::io::Result<String> {
    let found = all().into_iter().find(|loader| loader.name == name);
    let Some(loader) = found else {
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, format!("there is no loader '{name}'")));
    };
    // A separate folder, and names that no package has: a script finds files in its folder before installed ones.
    let folder: PathBuf = folder.join("loader");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("gds_top_lane.py"), COMMON)?;
    let script = folder.join("gds_top_loader.py");
    std::fs::write(&script, loader.script)?;
    let (python, script) = (python(), script.to_string_lossy());
    Ok(format!("exec {} -u {} {{model}} {{gpu}}", quoted(&python.to_string_lossy()), quoted(&script)))
}
