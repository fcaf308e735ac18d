//! The settings that a user sets: parsing, validation against the specification, and the values for one engine.

use super::engine::Engine;
use super::engine_name::EngineError;
use super::nearest::hint;
use super::spec::Setting;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The settings of one run that the user set. The engine chooses the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineSettings(BTreeMap<Setting, u64>);

impl EngineSettings {
    /// The value of a setting. `None` if the user did not set it.
    #[must_use]
    pub fn get(&self, setting: Setting) -> Option<u64> {
        self.0.get(&setting).copied()
    }

    /// Whether the user set the setting.
    #[must_use]
    pub fn has(&self, setting: Setting) -> bool {
        self.0.contains_key(&setting)
    }

    /// Sets a value.
    pub fn set(&mut self, setting: Setting, value: u64) {
        self.0.insert(setting, value);
    }

    /// All settings with their values, in the order of the specification.
    pub fn iter(&self) -> impl Iterator<Item = (Setting, u64)> + '_ {
        self.0.iter().map(|(setting, value)| (*setting, *value))
    }
}

impl FromIterator<(Setting, u64)> for EngineSettings {
    fn from_iter<I: IntoIterator<Item = (Setting, u64)>>(settings: I) -> Self {
        Self(settings.into_iter().collect())
    }
}

impl Extend<(Setting, u64)> for EngineSettings {
    fn extend<I: IntoIterator<Item = (Setting, u64)>>(&mut self, settings: I) {
        self.0.extend(settings);
    }
}

/// The name of a setting in a result. In files it is the name as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingName {
    /// A setting of an engine.
    Engine(Setting),
    /// A setting of a workload, or of a version that has other settings.
    Other(String),
}

impl SettingName {
    /// The name as text.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Engine(setting) => setting.name(),
            Self::Other(name) => name,
        }
    }

    /// A value with its unit.
    #[must_use]
    pub fn text(&self, value: u64) -> String {
        match self {
            Self::Engine(setting) => setting.text(value),
            Self::Other(_) => value.to_string(),
        }
    }
}

impl From<&str> for SettingName {
    fn from(name: &str) -> Self {
        Setting::named(name).map_or_else(|| Self::Other(name.to_owned()), Self::Engine)
    }
}

// Results are ordered and found by the text of the name.
impl Borrow<str> for SettingName {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl Ord for SettingName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for SettingName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SettingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for SettingName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for SettingName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self::from(name.as_str()))
    }
}

/// A setting as the user typed it: `threads=8` for all engines that accept it, or `pread.threads=8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOrder {
    /// The engine, if the setting is for one engine only.
    pub engine: Option<Engine>,
    /// The setting.
    pub setting: Setting,
    /// Its value.
    pub value: u64,
}

/// The reason why a setting is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The text is not `NAME=NUMBER`.
    #[error("expected NAME=NUMBER, for example threads=8")]
    Form,
    /// The name is not a setting.
    #[error("'{0}' is not a setting{near}", near = hint(.0, &Setting::ALL.iter().map(|one| one.name()).collect::<Vec<_>>()))]
    Unknown(String),
    /// The text before the dot is not an engine.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// The value is not a number.
    #[error("'{0}' is not a number of 64 bits")]
    Number(String),
    /// The value is too small or too large.
    #[error("{order} is out of bounds: {} accepts values from {} to {}", order.name(), bounds.0, bounds.1)]
    OutOfBounds {
        /// The setting.
        order: SettingOrder,
        /// The smallest and the largest value.
        bounds: (u64, u64),
    },
    /// The value is not a multiple of the step.
    #[error("{order} is not a multiple of {step}; the next one is {}", order.value.next_multiple_of(*step))]
    Step {
        /// The setting.
        order: SettingOrder,
        /// The step: values are multiples of it.
        step: u64,
    },
    /// The engine has no such setting.
    #[error("{engine} has no setting '{setting}'; it accepts {}", names(Setting::of(engine)))]
    NotAccepted {
        /// The engine.
        engine: Engine,
        /// The setting.
        setting: Setting,
    },
    /// None of the engines in the race accepts it.
    #[error("'{setting}' has no effect here: {}", accepted(engines))]
    Unused {
        /// The setting.
        setting: Setting,
        /// The engines.
        engines: Vec<Engine>,
    },
    /// It is for an engine that is not in the race.
    #[error("{} is set, but {engine} is not in this race ({})", order.name(), list(engines))]
    OtherEngine {
        /// The setting.
        order: SettingOrder,
        /// Its engine.
        engine: Engine,
        /// The engines of the race.
        engines: Vec<Engine>,
    },
}

fn names(settings: impl Iterator<Item = Setting>) -> String {
    settings.map(Setting::name).collect::<Vec<_>>().join(", ")
}

fn list(engines: &[Engine]) -> String {
    engines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn accepted(engines: &[Engine]) -> String {
    let one = |engine: &Engine| format!("{engine} accepts {}", names(Setting::of(engine)));
    engines.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl SettingOrder {
    /// The name with the engine: `pread.threads`.
    #[must_use]
    pub fn name(&self) -> String {
        self.engine.as_ref().map_or_else(|| self.setting.to_string(), |engine| format!("{engine}.{}", self.setting))
    }

    /// Rejects a value that its engine, or every engine, does not accept.
    ///
    /// # Errors
    /// [`SettingError::NotAccepted`], [`SettingError::OutOfBounds`] or [`SettingError::Step`].
    pub fn check(&self) -> Result<(), SettingError> {
        let spec = self.setting.spec();
        let bounds = match &self.engine {
            // A command or loader can have settings that gds-top does not know.
            Some(engine) if engine.is_outside() => return Ok(()),
            Some(engine) if self.setting.use_of(engine).is_none() => {
                return Err(SettingError::NotAccepted { engine: engine.clone(), setting: self.setting });
            }
            Some(engine) => self.setting.bounds(engine),
            None => spec.bounds,
        };
        if !(bounds.0..=bounds.1).contains(&self.value) {
            return Err(SettingError::OutOfBounds { order: self.clone(), bounds });
        }
        if !self.value.is_multiple_of(spec.step) {
            return Err(SettingError::Step { order: self.clone(), step: spec.step });
        }
        Ok(())
    }

    /// Like [`Self::check`], for a race of these engines. At least one of them must accept the setting.
    ///
    /// # Errors
    /// [`SettingError::OtherEngine`], [`SettingError::Unused`], and the errors of [`Self::check`].
    pub fn check_for(&self, engines: &[Engine]) -> Result<(), SettingError> {
        if let Some(engine) = &self.engine {
            if !engines.contains(engine) {
                let (order, engine, engines) = (self.clone(), engine.clone(), engines.to_vec());
                return Err(SettingError::OtherEngine { order, engine, engines });
            }
            return self.check();
        }
        let accepts = |engine: &&Engine| engine.is_outside() || self.setting.use_of(engine).is_some();
        let mut users = engines.iter().filter(accepts).peekable();
        if users.peek().is_none() {
            return Err(SettingError::Unused { setting: self.setting, engines: engines.to_vec() });
        }
        if users.all(Engine::is_outside) { Ok(()) } else { self.check() }
    }

    /// The settings for one engine. A setting for this engine overrides a setting for all engines.
    #[must_use]
    pub fn settings_for(orders: &[Self], engine: &Engine) -> EngineSettings {
        let of = |wanted: Option<&Engine>| {
            let those = orders.iter().filter(move |order| order.engine.as_ref() == wanted);
            those.map(|order| (order.setting, order.value)).collect::<Vec<_>>()
        };
        of(None).into_iter().chain(of(Some(engine))).collect()
    }
}

impl fmt::Display for SettingOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value)
    }
}

impl FromStr for SettingOrder {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (name, value) = text.split_once('=').ok_or(SettingError::Form)?;
        let (engine, name) = match name.rsplit_once('.') {
            Some((engine, name)) => (Some(engine.parse::<Engine>()?), name),
            None => (None, name),
        };
        let setting = Setting::named(name).ok_or_else(|| SettingError::Unknown(name.to_owned()))?;
        let value = value.parse().map_err(|_| SettingError::Number(value.to_owned()))?;
        Ok(Self { engine, setting, value })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn order(text: &str) -> SettingOrder {
        text.parse().unwrap()
    }

    #[test]
    fn names_in_results_are_typed_and_unknown_ones_are_kept() {
        let read: BTreeMap<SettingName, u64> = serde_json::from_str(r#"{"threads": 8, "chunk_size": 256}"#).unwrap();
        let names: Vec<&SettingName> = read.keys().collect();
        let other = SettingName::Other("chunk_size".to_owned());
        assert_eq!(names, [&other, &SettingName::Engine(Setting::Threads)]);
        assert_eq!((read["threads"], read["chunk_size"]), (8, 256));
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"chunk_size":256,"threads":8}"#);
    }

    #[test]
    fn an_order_parses_back_to_its_text_and_old_engine_names_are_accepted() {
        for text in ["threads=8", "pread.threads=8", "nixl:GDS_MT.threads=2"] {
            assert_eq!(order(text).to_string(), text);
        }
        assert_eq!(order("direct.registered=1"), order("odirect.registered=1"));
        for (text, wrong) in [
            ("threads", SettingError::Form),
            ("thread=1", SettingError::Unknown("thread".to_owned())),
            ("x.threads=1", SettingError::Engine(EngineError::Unknown("x".to_owned()))),
            ("threads=a", SettingError::Number("a".to_owned())),
        ] {
            assert_eq!(text.parse::<SettingOrder>(), Err(wrong));
        }
    }

    #[test]
    fn what_changes_nothing_or_is_out_of_bounds_is_refused() {
        let usual = [Engine::Mmap, Engine::Pread];
        let refused = |text: &str| order(text).check_for(&usual).unwrap_err();
        assert!(matches!(refused("threads=0"), SettingError::OutOfBounds { bounds: (1, 256), .. }));
        assert!(matches!(refused("threads=257"), SettingError::OutOfBounds { bounds: (1, 256), .. }));
        assert!(matches!(refused("block_bytes=5000"), SettingError::Step { step: 4096, .. }));
        assert!(matches!(refused("pin_ahead=2"), SettingError::OutOfBounds { bounds: (0, 1), .. }));
        assert!(matches!(refused("max_direct_io_size_kb=1024"), SettingError::Unused { .. }));
        assert!(matches!(refused("depth=8"), SettingError::Unused { .. }));
        assert!(matches!(refused("mmap.threads=2"), SettingError::NotAccepted { engine: Engine::Mmap, .. }));
        assert!(matches!(refused("pread.threads=0"), SettingError::OutOfBounds { bounds: (1, 256), .. }));
        assert!(matches!(refused("odirect.depth=8"), SettingError::OtherEngine { engine: Engine::Odirect, .. }));
        assert_eq!(order("threads=8").check_for(&usual), Ok(()));
        assert_eq!(order("pread.slots=3").check_for(&usual), Ok(()));
        let own = order("gds-batch.block_bytes=33554432").check().unwrap_err();
        assert!(matches!(own, SettingError::OutOfBounds { bounds: (4096, 16_777_216), .. }));
        // A loader script can have settings that gds-top does not know.
        let outside = Engine::Loader("fastsafetensors".to_owned());
        assert_eq!(order("cufile=2").check_for(std::slice::from_ref(&outside)), Ok(()));
        assert!(order("cufile=2").check_for(&[outside, Engine::Auto]).is_err());
    }

    #[test]
    fn an_engines_own_setting_wins_over_the_general_one() {
        let orders = ["threads=4", "pread.threads=8", "odirect.depth=2"].map(order);
        let pread: Vec<_> = SettingOrder::settings_for(&orders, &Engine::Pread).iter().collect();
        assert_eq!(pread, [(Setting::Threads, 8)]);
        let odirect: Vec<_> = SettingOrder::settings_for(&orders, &Engine::Odirect).iter().collect();
        assert_eq!(odirect, [(Setting::Threads, 4), (Setting::Depth, 2)]);
    }
}
