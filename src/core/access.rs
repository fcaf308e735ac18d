//! The direction of an access to storage.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The direction of an access to storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Bytes move from the file to memory.
    Read,
    /// Bytes move from memory to the file.
    Write,
}

impl Access {
    /// All directions.
    pub const ALL: &'static [Self] = &[Self::Read, Self::Write];

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().copied().find(|access| access.name() == text);
        named.ok_or_else(|| format!("'{text}' is not an access; known: read, write"))
    }
}
