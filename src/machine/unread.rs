//! The reasons why a file of a machine could not be read.

use std::fmt;

/// The reason why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The file does not exist.
    Missing,
    /// The file exists but cannot be opened or read.
    Denied(Denial),
    /// The file is longer than the limit in bytes.
    TooLarge(u64),
    /// The path is not a regular file or a directory.
    WrongKind,
    /// The file could not be read for another reason.
    Failed(String),
}

/// The error with which the kernel denied a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// EACCES: the mode, a security module or a mount option denies it.
    Access,
    /// EPERM: a device cgroup denies a device with this error.
    NotPermitted,
    /// Another error, with its message.
    Other(String),
    /// The error is not known.
    Unknown,
}

impl Denial {
    /// Decodes the message in a capture.
    #[must_use]
    pub fn of_capture(message: &str) -> Self {
        match message.trim().to_ascii_lowercase().as_str() {
            "" => Self::Unknown,
            "permission denied" | "eacces" => Self::Access,
            "operation not permitted" | "eperm" => Self::NotPermitted,
            _ => Self::Other(message.trim().to_owned()),
        }
    }

    /// The message as it is stored in a capture. Empty if the error is not known.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Access => "permission denied",
            Self::NotPermitted => "operation not permitted",
            Self::Other(message) => message,
            Self::Unknown => "",
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::Denied(Denial::Unknown) => f.write_str("may not be read"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_the_same_after_a_capture() {
        let all = [Denial::Access, Denial::NotPermitted, Denial::Other("stale handle".to_owned()), Denial::Unknown];
        for denial in all {
            assert_eq!(Denial::of_capture(denial.message()), denial);
        }
        let live = |errno: i32| crate::machine::live::unread(&std::io::Error::from_raw_os_error(errno));
        assert_eq!(live(libc::EPERM), Unread::Denied(Denial::NotPermitted));
        assert_eq!(live(libc::EACCES), Unread::Denied(Denial::Access));
    }
}
