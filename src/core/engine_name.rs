//! The names of engines on the command line and in reports.

use super::engine::{Engine, LOADERS};
use super::engine_spec::ENGINES;
use super::nearest::{hint, nearest};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The palette index for engines without a fixed name. The first ten engines have the indices below it.
const OUTSIDE: usize = 10;

/// The prefix of a command line.
const COMMAND: &str = "command:";
/// The prefix of a loader with a script.
const LOADER: &str = "loader:";

/// The reason why a text is not an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// `command:` without a command line.
    #[error("'command:' needs a command line after the colon")]
    EmptyCommand,
    /// `loader:` with an unknown name.
    #[error("'{0}' is not a loader with a script; run any other loader as command:LINE{near}", near = hint(.0, &LOADERS))]
    UnknownLoader(String),
    /// No engine has this name.
    #[error("'{0}' is not an engine{near}; known engines: {known}, loader:NAME and command:LINE", near = similar(.0), known = all_names())]
    Unknown(String),
}

fn all_names() -> String {
    ENGINES.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ")
}

/// The engine whose name is similar: `, did you mean 'pread'?`
fn similar(text: &str) -> String {
    let best = nearest(text, ENGINES.iter().map(|spec| spec.name));
    best.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

impl Engine {
    /// Its name in a session with a single workload: the variant of a workload, or the name of an engine.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Workload(lane) => lane.variant(),
            _ => self.to_string(),
        }
    }

    /// Its index among the eleven run colours: the order of [`ENGINES`], one index for all NIXL plugins, then one for
    /// all other engines.
    #[must_use]
    pub fn place(&self) -> usize {
        let same = |engine: &Self| matches!((engine, self), (Self::Nixl(_), Self::Nixl(_))) || engine == self;
        Self::named().take(OUTSIDE).position(same).unwrap_or(OUTSIDE)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(line) => write!(f, "{COMMAND}{line}"),
            Self::Loader(name) => write!(f, "{LOADER}{name}"),
            Self::Workload(lane) => write!(f, "{lane}"),
            _ => f.pad(self.spec().map_or("", |spec| spec.name)),
        }
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        if let Some(line) = text.strip_prefix(COMMAND) {
            let some = Some(line).filter(|line| !line.trim().is_empty());
            return some.map(|line| Self::Command(line.to_owned())).ok_or(EngineError::EmptyCommand);
        }
        if let Some(name) = text.strip_prefix(LOADER) {
            let known = Some(name).filter(|name| LOADERS.contains(name));
            return known
                .map(|name| Self::Loader(name.to_owned()))
                .ok_or_else(|| EngineError::UnknownLoader(name.to_owned()));
        }
        let named = ENGINES.iter().find(|spec| spec.name == text || spec.aliases.contains(&text));
        match (named, text.parse()) {
            (Some(spec), _) => Ok(spec.engine.clone()),
            (None, Ok(lane)) => Ok(Self::Workload(lane)),
            (None, Err(_)) => Err(EngineError::Unknown(text.to_owned())),
        }
    }
}

impl Serialize for Engine {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Engine {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_parse_back_to_their_engine() {
        for spec in &ENGINES {
            assert_eq!(spec.engine.to_string(), spec.name);
            for name in spec.aliases.iter().chain([&spec.name]) {
                assert_eq!(name.parse(), Ok(spec.engine.clone()));
            }
        }
        let lane: Engine = "lmcache/gds:prefetch_factor=0/read".parse().unwrap();
        assert_eq!(lane.to_string(), "lmcache/gds:prefetch_factor=0/read");
        assert!("lmcache//read".parse::<Engine>().is_err() && "ucm/gds/sideways".parse::<Engine>().is_err());
        let command = Engine::Command("python3 load.py".to_owned());
        assert_eq!(command.to_string().parse(), Ok(command));
        for name in LOADERS {
            let loader = Engine::Loader(name.to_owned());
            assert_eq!(loader.to_string().parse(), Ok(loader));
        }
    }

    #[test]
    fn names_of_version_1_are_accepted() {
        assert_eq!("direct".parse(), Ok(Engine::Odirect));
        assert_eq!(serde_json::from_str::<Engine>("\"direct\"").unwrap(), Engine::Odirect);
    }

    #[test]
    fn what_is_not_an_engine_is_refused_by_kind() {
        assert_eq!("gds".parse::<Engine>(), Err(EngineError::Unknown("gds".to_owned())));
        assert_eq!("command: ".parse::<Engine>(), Err(EngineError::EmptyCommand));
        assert_eq!("loader:vllm".parse::<Engine>(), Err(EngineError::UnknownLoader("vllm".to_owned())));
    }

    #[test]
    fn the_plugins_of_nixl_share_a_place_and_all_others_outside_have_the_last() {
        let places: Vec<usize> = Engine::named().map(Engine::place).collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 8]);
        assert_eq!(Engine::Command("x".to_owned()).place(), OUTSIDE);
    }
}
