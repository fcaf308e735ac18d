//! Facts about the keys and variables of libcufile, for explanations.

use super::environment;
use super::known::{self, KEYS, MISNAMED, Takes};
use serde_json::Value;

/// The values that libcufile accepts for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFacts {
    /// Dotted name.
    pub key: &'static str,
    /// The type, in words.
    pub takes: &'static str,
    /// The lowest and the highest number. `None` if the key has no numeric bounds.
    pub range: Option<(i64, i64)>,
    /// Values are multiples of this number. `None` if every number is accepted.
    pub multiple: Option<u64>,
    /// The accepted words. It is empty if there is no fixed list.
    pub words: &'static [&'static str],
    /// The default of the newest release. It is null if there is none.
    pub default: Value,
    /// The releases of libcufile that support the key. `None` if all do.
    pub releases: Option<String>,
    /// The variable that overrides it.
    pub variable: Option<&'static str>,
}

/// The facts about a key.
#[must_use]
pub fn key_facts(key: &str) -> Option<KeyFacts> {
    let known = known::known(key)?;
    let (range, multiple) = match known.takes {
        Takes::Whole(low, high, multiple) if i64::try_from(high).is_ok_and(|high| high < 1 << 53) => {
            (Some((low.cast_signed(), high.cast_signed())), multiple)
        }
        Takes::Whole(_, _, multiple) => (None, multiple),
        Takes::Signed(low, high) | Takes::Int(low, high) => (Some((low, high)), 1),
        _ => (None, 1),
    };
    let words = match known.takes {
        Takes::Ignored(words) | Takes::One(words) | Takes::Each(words) => words,
        Takes::Level => environment::LEVELS,
        _ => &[],
    };
    Some(KeyFacts {
        key: known.key,
        takes: known.wants(),
        range,
        multiple: (multiple > 1).then_some(multiple),
        words,
        default: known.default(None),
        releases: known.releases(),
        variable: (!known.variable.is_empty()).then_some(known.variable),
    })
}

/// All keys, sorted.
pub fn key_names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|known| known.key)
}

/// All variables that libcufile reads.
pub fn variable_names() -> impl Iterator<Item = &'static str> {
    environment::names()
}

/// The correct key for a name that many files use and libcufile ignores. It is empty if there is no replacement.
#[must_use]
pub fn meant_by(name: &str) -> Option<&'static str> {
    MISNAMED.iter().find(|(wrong, _)| *wrong == name).map(|(_, meant)| *meant)
}
