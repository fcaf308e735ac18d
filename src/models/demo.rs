//! Models that are written on first use and kept in the user's cache folder: the demo model, and profiles that are
//! named instead of a path.

use super::error::WeightsError;
use super::held::ModelFolder;
use super::layout::lay_out;
use super::marker;
use super::open::open;
use super::profile::Profile;
use super::synth::{SynthOptions, synthesize_below};
use crate::core::ModelInfo;
use crate::trust::{Destination, Owners};
use std::path::{Path, PathBuf};

/// Profile of the demo model.
const DEMO_PROFILE: &str = "qwen3-0.6b";
/// Scale of the demo model. The model has about 150 MB.
const DEMO_SCALE: f64 = 0.1;

/// The folder for models that are written on first use: `$XDG_CACHE_HOME/gds-top/models`, or else
/// `~/.cache/gds-top/models`.
///
/// # Errors
/// Fails if neither variable contains an absolute path.
pub fn cache_folder() -> Result<PathBuf, WeightsError> {
    // The XDG base directory specification requires that relative paths are ignored.
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("gds-top/models"))
        .ok_or(WeightsError::NoCacheFolder)
}

/// Opens the small synthetic model that is loaded if no model is named. It is written on first use and reused while
/// it is complete. `progress` is only called while the model is written.
///
/// # Errors
/// See [`profile_model`].
pub fn demo_model(progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<ModelInfo, WeightsError> {
    let profile = Profile::named(DEMO_PROFILE)?;
    profile_model(&profile, &cache_folder()?, &SynthOptions { scale: DEMO_SCALE, seed: 0 }, progress)
}

/// Opens a profile's model in a separate folder below `folder` (see [`cache_folder`]). The model is written first if
/// it is incomplete or has other options.
///
/// # Errors
/// See [`super::synthesize`]. Fails also if root runs the program and another user can change the folder.
pub fn profile_model(
    profile: &Profile,
    folder: &Path,
    options: &SynthOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<ModelInfo, WeightsError> {
    let mut name = profile.name.clone();
    if (options.scale - 1.0).abs() > f64::EPSILON {
        name.push_str(&format!("-x{}", options.scale));
    }
    if options.seed != 0 {
        name.push_str(&format!("-seed{}", options.seed));
    }
    let dir = folder.join(name);
    let layout = lay_out(profile, options.scale, options.seed)?;
    if let Ok(model) = open(&dir) {
        let same = model.shards.len() == layout.files.len()
            && model.shards.iter().zip(&layout.files).all(|(shard, file)| {
                shard.path.file_name().is_some_and(|n| n == file.file_name.as_str())
                    && shard.file_bytes == file.head.len() as u64 + file.data_bytes
                    && marker::of(&shard.path).as_deref() == Some(&layout.mark)
            });
        if same {
            return Ok(model);
        }
    }
    // A damaged file may have lost its mark, but the name of the folder shows that gds-top wrote it. A link is not
    // followed here, because it could lead to another model.
    let is_link = std::fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_symlink());
    if !is_link && let Some(held) = ModelFolder::open(&dir, Owners::Own)? {
        for name in held.model_files()? {
            if layout.files.iter().any(|f| name == f.file_name.as_str()) && held.mark(&name).is_none() {
                held.remove(&name).map_err(|source| WeightsError::Unwritable {
                    path: held.shown(&name),
                    doing: "replaced",
                    source,
                })?;
            }
        }
    }
    synthesize_below(profile, &dir, Owners::Own, options, progress)
}

/// Creates the cache folder, so that the disk of the models can be examined. It is removed when the value is dropped,
/// if no model was written.
///
/// # Errors
/// Fails if the folder cannot be created, or if root runs the program and another user can change the folder.
pub fn make_cache_folder() -> Result<(PathBuf, Destination), WeightsError> {
    let folder = cache_folder()?;
    let made = Destination::make(&folder, Owners::Own)
        .map_err(|source| WeightsError::ForeignCache { path: folder.clone(), source })?;
    Ok((folder, made))
}
