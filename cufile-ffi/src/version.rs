//! The version of GDS in the encoding of `cuFileGetVersion`.

use std::fmt;

/// A GDS version: 1000 · major + 10 · minor (cufile.h, `cuFileGetVersion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i32);

impl Version {
    /// The version `major.minor`.
    pub const fn new(major: i32, minor: i32) -> Self {
        Self(1000 * major + 10 * minor)
    }

    /// The major number.
    pub const fn major(self) -> i32 {
        self.0 / 1000
    }

    /// The minor number.
    pub const fn minor(self) -> i32 {
        self.0 % 1000 / 10
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())?;
        match self.0 % 10 {
            0 => Ok(()),
            patch => write!(f, ".{patch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_and_orders_like_its_release() {
        assert_eq!(Version(1160).to_string(), "1.16");
        assert_eq!(Version(1075).to_string(), "1.7.5");
        assert_eq!(Version::new(1, 20), Version(1200));
        assert!(Version::new(1, 9) < Version::new(1, 16));
    }
}
