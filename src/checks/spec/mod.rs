//! The specification of the checks: their scope, the routes that they can block, and the fixes. A check is one
//! entry of the table and one function.

mod page;
mod parts;
mod table;

pub use page::page;
pub use parts::{Scope, Step};
pub use table::{CheckId, CheckSpec};

use serde::{Serialize, Serializer};
use std::fmt;

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

    /// The check with this id. `None` for an id of another version of gds-top.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|check| check.as_str() == id)
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl AsRef<str> for CheckId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<CheckId> for String {
    fn from(id: CheckId) -> Self {
        id.as_str().to_owned()
    }
}

impl PartialEq<CheckId> for String {
    fn eq(&self, id: &CheckId) -> bool {
        self == id.as_str()
    }
}

impl PartialEq<CheckId> for str {
    fn eq(&self, id: &CheckId) -> bool {
        self == id.as_str()
    }
}

impl Serialize for CheckId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_is_found_by_its_id_and_has_its_own_entry() {
        for id in CheckId::ALL {
            assert_eq!(CheckId::of(id.as_str()), Some(*id));
            assert_eq!(id.spec().id, *id);
        }
        assert_eq!(CheckId::of("no-such-check"), None);
    }
}
