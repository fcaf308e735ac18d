//! The machine that a command examines (live or captured), and its paths.

use crate::engines;
use crate::machine::{LibcufileFacts, LiveOptions, Root};
use crate::trust::Scratch;
use std::path::{Path, PathBuf};

/// Opens the live machine, or a captured one. See [`live_view`] for errors of the live machine.
pub(super) fn open_view(root: Option<&Path>) -> Result<Root, String> {
    match root {
        None => {
            Scratch::examine_place()?;
            Ok(Root::live())
        }
        Some(captured) => Root::open(captured),
    }
}

/// The live machine. Without `probe` libcufile is not opened, because that initialises CUDA, and not loaded if its file
/// shows its version.
///
/// # Errors
/// Fails if another user could exchange the temporary directories of the probe.
pub(super) fn live_view(probe: bool) -> Result<Root, String> {
    Scratch::examine_place()?;
    let locate = || engines::probe::located_cufile().and_then(|facts| serde_json::from_value(facts).ok());
    Ok(Root::live_with(LiveOptions {
        open_cufile: probe,
        locate_cufile: (!probe).then_some(locate as fn() -> Option<LibcufileFacts>),
        ..LiveOptions::default()
    }))
}

/// The paths to examine: those that the user named, otherwise those of the capture, otherwise the working directory.
pub(super) fn examined(view: &Root, named: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    if !view.is_live() {
        let captured = view.captured_paths();
        // A copy without a list of paths is a directory tree, and the checks say what they cannot see.
        if let Some(path) = named.iter().find(|path| !captured.is_empty() && view.path_facts(path).is_none()) {
            let known: Vec<String> = captured.iter().map(|path| path.display().to_string()).collect();
            return Err(format!("this capture does not contain {}; it contains {}", path.display(), known.join(", ")));
        }
        return Ok(if named.is_empty() { captured } else { named.to_vec() });
    }
    let here = || {
        std::env::current_dir()
            .map_err(|e| format!("the working directory cannot be read ({e}); name a PATH to examine"))
    };
    if named.is_empty() {
        return Ok(vec![here()?]);
    }
    named
        .iter()
        .map(|path| {
            // The components omit '.', so that 'check .' shows the name of the directory.
            let absolute: PathBuf =
                if path.is_absolute() { path.clone() } else { here()?.join(path) }.components().collect();
            match std::fs::metadata(&absolute) {
                Ok(_) => Ok(absolute),
                Err(error) => {
                    Err(format!("{} cannot be examined: {error}; name a file or directory with models", path.display()))
                }
            }
        })
        .collect()
}
