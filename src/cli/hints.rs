//! The values that shell completions suggest for arguments. The program accepts other values too.

use crate::core::engine_spec::ENGINES;
use crate::core::{CacheState, Engine, EngineError};
use crate::models::Profile;
use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

/// A value parser that suggests names.
#[derive(Debug)]
pub(super) struct Hinted<T> {
    names: fn() -> Vec<&'static str>,
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

const fn hinted<T>(names: fn() -> Vec<&'static str>) -> Hinted<T> {
    Hinted { names, of: PhantomData }
}

/// Engines, separated by commas.
pub(super) const fn engines() -> Hinted<Engines> {
    hinted(|| ENGINES.iter().map(|spec| spec.name).collect())
}

/// A state of the page cache.
pub(super) const fn caches() -> Hinted<CacheState> {
    hinted(|| vec!["cold", "hot", "as-is"])
}

/// A shape of a synthetic model, or a model: its files or a shape.
pub(super) const fn profiles() -> Hinted<String> {
    hinted(Profile::names)
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
