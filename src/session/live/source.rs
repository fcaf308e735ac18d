//! Where a session's models come from: files, the shape of a real model by name, or the small synthetic one.

use super::bus::Bus;
use crate::domain::{LogLevel, ModelInfo};
use crate::weights::{self, Profile, WeightsError};
use std::path::{Path, PathBuf};

/// A model that is open already, or is made on first use.
#[allow(clippy::large_enum_variant, reason = "there are few")]
pub(super) enum Source {
    Opened(ModelInfo),
    Profile(Profile),
    Demo,
}

impl Source {
    /// What a user named: a path wins over a profile of the same name.
    pub(super) fn named(name: &str) -> Result<Self, WeightsError> {
        if !Path::new(name).exists() && Profile::names().contains(&name) {
            return Ok(Self::Profile(Profile::named(name)?));
        }
        Ok(Self::Opened(weights::open(name)?))
    }

    /// The path whose disk matters before the model is there, if it is known.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Opened(model) => Some(model.path.clone()),
            Self::Profile(_) | Self::Demo => None,
        }
    }

    /// The model, made where it is not there yet.
    pub(super) fn model(self, bus: &Bus) -> Result<ModelInfo, WeightsError> {
        match self {
            Self::Opened(model) => Ok(model),
            Self::Demo => {
                bus.say(
                    LogLevel::Info,
                    "no model was named, so a small synthetic one is loaded; it is made once and kept",
                );
                weights::demo_model(&mut |_, _| {})
            }
            Self::Profile(profile) => {
                let text =
                    format!("a synthetic model in the shape of {} is loaded; it is made once and kept", profile.name);
                bus.say(LogLevel::Info, text);
                weights::cache_folder().and_then(|folder| {
                    weights::profile_model(&profile, &folder, &weights::SynthOptions::default(), &mut |_, _| {})
                })
            }
        }
    }
}
