//! The values that shell completions suggest for arguments. The program accepts other values too.

use crate::config::ThemeName;
use crate::core::engine_spec::ENGINES;
use crate::core::{
    CacheState, CheckId, Engine, EngineError, FallbackReason, FixId, KvPath, KvSystem, LOADERS, Serving,
};
use crate::fixes::guide;
use crate::models::Profile;
use crate::workloads::kv::GdsMode;
use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

/// A value parser that suggests names.
#[derive(Debug)]
pub(super) struct Hinted<T> {
    names: fn() -> Vec<String>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Hinted<T> {
    fn clone(&self) -> Self {
        Self { names: self.names, of: PhantomData }
    }
}

impl<T> TypedValueParser for Hinted<T>
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        (|text: &str| text.parse::<T>()).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

const fn hinted<T>(names: fn() -> Vec<String>) -> Hinted<T> {
    Hinted { names, of: PhantomData }
}

/// Engines, separated by commas.
pub(super) const fn engines() -> Hinted<Engines> {
    hinted(|| {
        let named = ENGINES.iter().map(|spec| spec.name.to_owned());
        named.chain(LOADERS.iter().map(|name| format!("loader:{name}"))).collect()
    })
}

/// A state of the page cache.
pub(super) const fn caches() -> Hinted<CacheState> {
    hinted(|| words(["cold", "hot", "as-is"]))
}

/// A shape of a synthetic model, or a model: its files or a shape.
pub(super) const fn profiles() -> Hinted<String> {
    hinted(|| words(Profile::names()))
}

/// Ids of fixes. The command also accepts those of checks.
pub(super) const fn fixes() -> Hinted<String> {
    hinted(|| words([guide::ID].into_iter().chain(FixId::ALL.iter().map(|id| id.as_str()))))
}

/// Programs whose configuration `check --for` reads. The second value is the configuration.
pub(super) const fn servings() -> Hinted<String> {
    hinted(|| words(Serving::ALL.map(Serving::name)))
}

/// A KV-cache system.
pub(super) const fn kv_systems() -> Hinted<KvSystem> {
    hinted(|| words(KvSystem::ALL.map(KvSystem::name)))
}

/// Variants of KV-cache workloads.
pub(super) const fn kv_variants() -> Hinted<String> {
    hinted(|| words(KvPath::ALL.map(KvPath::name)))
}

/// A reason for a fallback.
pub(super) const fn fallbacks() -> Hinted<FallbackReason> {
    hinted(|| words(FallbackReason::ALL.map(FallbackReason::name)))
}

/// A mode of llm-d.
pub(super) const fn gds_modes() -> Hinted<GdsMode> {
    hinted(|| words(GdsMode::ALL.map(|mode| mode.name)))
}

/// A built-in theme. A file of colours is a theme too.
pub(super) const fn themes() -> Hinted<String> {
    hinted(|| ThemeName::ALL.iter().map(ToString::to_string).collect())
}

/// The ids of checks. `explain` also knows fixes, codes, keys and lines.
pub(super) const fn checks() -> Hinted<String> {
    hinted(|| CheckId::ALL.iter().map(ToString::to_string).collect())
}

fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// The shapes as one text of words, which the scripts of the shells contain.
pub(super) fn profile_words() -> String {
    Profile::names().join(" ")
}

/// The engines of one `--engine`. Everything after `command:` belongs to the command, including commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Engines(Vec<Engine>);

impl Engines {
    /// The engines in order.
    pub(super) fn list(&self) -> Vec<Engine> {
        self.0.clone()
    }
}

impl FromStr for Engines {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let mut engines = Vec::new();
        let mut rest = text;
        while !rest.starts_with("command:") {
            match rest.split_once(',') {
                Some((one, more)) => {
                    engines.push(one.parse()?);
                    rest = more;
                }
                None => break,
            }
        }
        engines.push(rest.parse()?);
        Ok(Self(engines))
    }
}
