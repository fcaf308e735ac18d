//! The ids and the specification of the checks: their scope, the routes that they can block, and the fixes. A check is
//! one entry of the table and one function below `checks`.

mod parts;
/// Declares the checks and their specifications. The word `needed` after the step means that the step depends on the
/// check. `(default)` after the fixes sets `has_default_fix`.
macro_rules! checks {
    ($($name:ident = $id:literal, $group:ident, $scope:ident, $step:ident $($needed:ident)?, $blocks:expr, [$($fix:ident),*] $(($default:ident))?
        examines $examines:literal
        why $why:literal
        look $look:literal todo $todo:literal
        $(causes [$($cause:literal),+])?;)+) => {
        /// A check. Its id in JSON and on the command line is a stable string.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CheckId {
            $(#[doc = concat!("`", $id, "`: ", $examines, ".")] $name,)+
        }

        impl CheckId {
            /// All checks. Causes are before their consequences.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The id of the check: `udev-database`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)+
                }
            }
        }

        pub(super) const TABLE: &[CheckSpec] = &[$(CheckSpec {
            group: Group::$group,
            scope: Scope::$scope,
            step: checks!(@step $step $($needed)?),
            blocks: $blocks,
            examines: $examines,
            why: $why,
            look: $look,
            fixes: &[$(FixId::$fix),*],
            has_default_fix: checks!(@default $($default)?),
            todo: $todo,
            causes: &[$($($cause),+)?],
        },)+];
    };
    (@default default) => { true };
    (@default) => { false };
    (@step NoStep) => { None };
    (@step $step:ident $($needed:ident)?) => {
        Some(CheckStep { step: Step::$step, is_needed: checks!(@needed $($needed)?) })
    };
    (@needed needed) => { true };
    (@needed) => { false };
}

mod table;

pub use parts::{CheckSpec, CheckStep, Group, Scope, Step};
pub use table::CheckId;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

impl CheckId {
    /// The specification of the check.
    #[must_use]
    pub const fn spec(self) -> &'static CheckSpec {
        &table::TABLE[self as usize]
    }

    /// The rank. A cause has a lower rank than its consequences.
    #[must_use]
    pub const fn rank(self) -> usize {
        self as usize
    }
}

/// The text is not the id of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCheck;

impl fmt::Display for UnknownCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this version of gds-top has no check with this id")
    }
}

impl FromStr for CheckId {
    type Err = UnknownCheck;

    fn from_str(text: &str) -> Result<Self, UnknownCheck> {
        Self::ALL.iter().copied().find(|check| check.as_str() == text).ok_or(UnknownCheck)
    }
}

/// The ids of several checks, separated by commas.
#[must_use]
pub fn names(checks: &[CheckId]) -> String {
    checks.iter().map(|check| check.as_str()).collect::<Vec<_>>().join(", ")
}

/// What checks close that close every direct route: the path, the GPU or the machine.
#[must_use]
pub fn place_of(checks: &[CheckId]) -> &'static str {
    let has = |scopes: &[Scope]| checks.iter().any(|check| scopes.contains(&check.spec().scope));
    if has(&[Scope::Machine]) {
        "on this machine"
    } else if has(&[Scope::Gpu]) {
        "with this GPU"
    } else {
        "for this path"
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq<&str> for CheckId {
    fn eq(&self, id: &&str) -> bool {
        self.as_str() == *id
    }
}

impl Serialize for CheckId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for CheckId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Reads a list of checks. A recording of a later version can name checks that this version does not know. They are
/// left out.
///
/// # Errors
/// If the value is not a list of strings.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CheckId>, D::Error> {
    let ids = Vec::<String>::deserialize(deserializer)?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// Reads the check that causes a finding. A check that this version does not know is left out.
///
/// # Errors
/// If the value is not a string.
pub(super) fn known_cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CheckId>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|id| id.parse().ok()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_check_that_can_block_a_route_has_a_step_in_the_guide() {
        let without: Vec<&CheckId> =
            CheckId::ALL.iter().filter(|id| !id.spec().blocks.is_empty() && id.spec().step.is_none()).collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn id_is_the_same_text_in_json_and_on_the_command_line() {
        for id in CheckId::ALL {
            assert_eq!(id.as_str().parse(), Ok(*id));
            assert_eq!(serde_json::to_value(id).unwrap(), id.as_str());
            assert_eq!(serde_json::from_value::<CheckId>(id.as_str().into()).unwrap(), *id);
        }
        assert_eq!("no-such-check".parse::<CheckId>(), Err(UnknownCheck));
        assert!(serde_json::from_str::<CheckId>("\"no-such-check\"").is_err());
    }
}
