//! Models that are written on first use and kept in the user's cache directory: the demo model, and profiles that are
//! named instead of a path.

use super::error::{WeightsError, name_text};
use super::held::{self, ModelFolder};
use super::layout::{Layout, lay_out};
use super::marker;
use super::open::open;
use super::profile::Profile;
use super::synth::{SynthOptions, room, synthesize_below};
use crate::core::ModelInfo;
use crate::trust::{Destination, Owners};
use std::path::{Path, PathBuf};

/// Profile of the demo model.
const DEMO_PROFILE: &str = "qwen3-0.6b";
/// Scale of the demo model. The model has 143 MiB.
const DEMO_SCALE: f64 = 0.1;

/// The directory for models that are written on first use: `$XDG_CACHE_HOME/gds-top/models`, or else
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

/// A profile's model in a separate directory below the cache directory. It is written on first use and kept.
pub struct KeptModel {
    profile: Profile,
    options: SynthOptions,
    layout: Layout,
    dir: PathBuf,
}

impl KeptModel {
    /// The small synthetic model that is loaded if no model is named.
    ///
    /// # Errors
    /// See [`cache_folder`].
    pub fn demo() -> Result<Self, WeightsError> {
        Self::of(Profile::named(DEMO_PROFILE)?, &cache_folder()?, SynthOptions { scale: DEMO_SCALE, seed: 0 })
    }

    /// The model of a profile with the sizes of the original.
    ///
    /// # Errors
    /// See [`cache_folder`].
    pub fn full(profile: Profile) -> Result<Self, WeightsError> {
        Self::of(profile, &cache_folder()?, SynthOptions::default())
    }

    /// The model of a profile in a separate directory below `folder` (see [`cache_folder`]).
    ///
    /// # Errors
    /// Fails if the options are out of range.
    pub fn of(profile: Profile, folder: &Path, options: SynthOptions) -> Result<Self, WeightsError> {
        let mut name = profile.name.clone();
        if (options.scale - 1.0).abs() > f64::EPSILON {
            name.push_str(&format!("-x{}", options.scale));
        }
        if options.seed != 0 {
            name.push_str(&format!("-seed{}", options.seed));
        }
        Self::in_folder(profile, &folder.join(name), options)
    }

    /// The model of a profile in the directory `dir`.
    ///
    /// # Errors
    /// Fails if the options are out of range.
    pub fn in_folder(profile: Profile, dir: &Path, options: SynthOptions) -> Result<Self, WeightsError> {
        let layout = lay_out(&profile, options.scale, options.seed)?;
        Ok(Self { profile, options, layout, dir: dir.to_owned() })
    }

    /// Whether its directory has no synthetic model of another shape, scale or seed. A file that gds-top did not write is
    /// an error of [`super::synthesize`].
    ///
    /// # Errors
    /// Fails if there is such a model, which would be replaced.
    pub fn replaces_no_other(&self) -> Result<(), WeightsError> {
        let files = marker::model_files(&self.dir).unwrap_or_default();
        match files.iter().filter_map(|file| marker::of(file)).find(|mark| *mark != self.layout.mark) {
            Some(mark) => Err(WeightsError::OtherSynthetic { path: self.dir.clone(), made: name_text(&mark) }),
            None => Ok(()),
        }
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The size of its files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layout.total_bytes()
    }

    /// Whether the disk has space for its files.
    ///
    /// # Errors
    /// Fails if it has too little space, or if the space is unknown.
    pub fn fits(&self) -> Result<(), WeightsError> {
        room(&self.dir, self.bytes(), 0).map(drop).map_err(WeightsError::in_cache)
    }

    /// The model, if it was written with the same options and is complete.
    #[must_use]
    pub fn written(&self) -> Option<ModelInfo> {
        let model = open(&self.dir).ok()?;
        let files = &self.layout.files;
        let mark = Some(self.layout.mark.as_str());
        let has_index = |(name, _): &(String, String)| marker::of(&self.dir.join(name)).as_deref() == mark;
        let same = model.shards.len() == files.len()
            && self.layout.index.as_ref().is_none_or(has_index)
            && model.shards.iter().zip(files).all(|(shard, file)| {
                shard.path.file_name().is_some_and(|n| n == file.file_name.as_str())
                    && shard.file_bytes == file.head.len() as u64 + file.data_bytes
                    && marker::of(&shard.path).as_deref() == mark
            });
        same.then_some(model)
    }

    /// Opens the model. It is written first if it is incomplete or has other options. `progress` is only called while
    /// it is written.
    ///
    /// # Errors
    /// See [`super::synthesize`]. Fails also if root runs the program and another user can change the directory.
    pub fn open_or_write(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<ModelInfo, WeightsError> {
        if let Some(model) = self.written() {
            return Ok(model);
        }
        // A damaged file may have lost its mark, but the name of the directory shows that gds-top wrote it. A link is
        // not followed here, because it could lead to another model.
        let is_link = std::fs::symlink_metadata(&self.dir).is_ok_and(|meta| meta.is_symlink());
        if !is_link && let Some(held) = ModelFolder::open(&self.dir, Owners::Own)? {
            for name in held.model_files()? {
                if self.layout.files.iter().any(|f| name == f.file_name.as_str()) && held.mark(&name).is_none() {
                    held.remove(&name).map_err(|source| {
                        WeightsError::unwritable(&held.shown(&name), "replaced", source).in_cache()
                    })?;
                }
            }
        }
        synthesize_below(&self.profile, &self.dir, Owners::Own, &self.options, progress).map_err(WeightsError::in_cache)
    }
}

/// Creates the cache directory, so that the disk of the models can be examined. It is removed when the value is dropped,
/// if no model was written.
///
/// # Errors
/// Fails if the directory cannot be created, or if root runs the program and another user can change the directory.
pub fn make_cache_folder() -> Result<(PathBuf, Destination), WeightsError> {
    let folder = cache_folder()?;
    let made = Destination::make(&folder, Owners::Own)
        .map_err(|source| held::unusable(&folder, "created", Owners::Own, source))?;
    Ok((folder, made))
}
