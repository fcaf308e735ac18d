//! Scripts for published loaders. They are compiled into gds-top and run by the installed Python.

use crate::core::LOADERS;
use crate::text::quoted;
use crate::trust::{foreign_variables, has_foreign_home, has_foreign_packages, own_path};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A loader with a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loader {
    /// Its name after `loader:`.
    pub name: &'static str,
    /// The script.
    pub script: &'static str,
    /// The name of the package whose version is reported, as in `pip`.
    pub package: &'static str,
    /// A line that describes its method.
    pub about: &'static str,
}

/// Code that all scripts share: the line protocol and the files of a model.
const COMMON: &str = include_str!("../../../../profiles/loaders/lane.py");

/// All loaders, in the order of [`LOADERS`].
#[must_use]
pub fn all() -> [Loader; LOADERS.len()] {
    let loader = |name, script, package, about| Loader { name, script, package, about };
    [
        loader(
            LOADERS[0],
            include_str!("../../../../profiles/loaders/safetensors.py"),
            "safetensors",
            "the reference: load_file, tensor by tensor from a mapping; numpy arrays without a GPU",
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
            "threads or io_uring into a ring in host memory, then one copy per tensor",
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
            "the cuFile wrapper of PyTorch, one read per file",
        ),
        loader(
            LOADERS[6],
            include_str!("../../../../profiles/loaders/transformers.py"),
            "transformers",
            "Hugging Face with Accelerate: builds the model and copies each weight from a mapping; needs config.json",
        ),
    ]
}

/// The Python interpreter for the scripts, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// Its name or path.
    pub program: OsString,
    /// Its arguments before those of the script.
    pub arguments: Vec<&'static str>,
}

/// The Python interpreter: the path in `GDS_TOP_PYTHON`, or else `python3`. It imports no packages of another user's home
/// directory. For root, it is a program that no other user could have put there.
///
/// # Errors
/// A sentence if root must not run it.
pub fn python() -> Result<Python, String> {
    let named = std::env::var_os("GDS_TOP_PYTHON").filter(|name| !name.is_empty());
    let is_root = rustix::process::geteuid().is_root();
    let program = match named {
        Some(named) => named,
        None if is_root => crate::trust::program("python3")?.into_os_string(),
        None => "python3".into(),
    };
    // Python imports `usercustomize` and .pth files from there.
    let arguments = if has_foreign_home() || has_foreign_packages() { vec!["-s"] } else { Vec::new() };
    Ok(Python { program, arguments })
}

/// Writes a loader's script into the run's directory. Returns the command line that runs it.
pub(super) fn line(name: &str, folder: &Path) -> Result<String, String> {
    let found = all().into_iter().find(|loader| loader.name == name);
    let Some(loader) = found else { return Err(format!("loader '{name}' does not exist")) };
    let Python { program, arguments } = python()?;
    let script = write(&loader, folder).map_err(|error| format!("its script could not be written: {error}"))?;
    let arguments: String = arguments.iter().map(|argument| format!("{argument} ")).collect();
    let (program, script) = (program.to_string_lossy(), script.to_string_lossy());
    let path = own_path().map(|path| format!("PATH={}; ", quoted(&path.to_string_lossy()))).unwrap_or_default();
    let foreign: String = foreign_variables()
        .iter()
        .filter_map(|name| name.to_str())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .map(|name| format!("unset {name}; "))
        .collect();
    Ok(format!("{path}{foreign}exec {} {arguments}-u {} {{model}} {{gpu}}", quoted(&program), quoted(&script)))
}

fn write(loader: &Loader, folder: &Path) -> std::io::Result<PathBuf> {
    // The script is in a separate directory and its name differs from all packages. Python searches the script's directory
    // before installed packages.
    let folder: PathBuf = folder.join("loader");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("gds_top_lane.py"), COMMON)?;
    let script = folder.join("gds_top_loader.py");
    std::fs::write(&script, loader.script)?;
    Ok(script)
}
