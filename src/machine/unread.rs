//! The reasons why a file of a machine could not be read.

use std::fmt;

/// The reason why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The file does not exist.
    Missing,
    /// The file exists but cannot be opened or read. The kernel's message may be empty.
    Denied(String),
    /// The file is longer than the limit in bytes.
    TooLarge(u64),
    /// The path is not a regular file or a folder.
    WrongKind,
    /// The file could not be read for another reason.
    Failed(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::Denied(why) if why.is_empty() => f.write_str("may not be read"),
            Self::Denied(why) => write!(f, "may not be read: {why}"),
            Self::TooLarge(limit) => write!(f, "is longer than {limit} bytes"),
            Self::WrongKind => f.write_str("is not of the expected kind"),
            Self::Failed(why) => write!(f, "could not be read: {why}"),
        }
    }
}

impl Unread {
    /// Whether the file does not exist. False if it exists but cannot be read.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}
