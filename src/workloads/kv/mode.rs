//! llm-d's `gds_mode`. It determines in which directions cuFile is used and how the memory is registered
//! (`csrc/storage/backends/fs_gds`).

use crate::core::{Access, KvPath};
use std::str::FromStr;

/// A value of `gds_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GdsMode {
    /// The value in llm-d's configuration.
    pub name: &'static str,
    /// Whether cuFile is used for writes and for reads.
    write: bool,
    read: bool,
    /// Whether complete layers are registered instead of every block. This is the case for the values with `bb_`.
    complete_layers: bool,
}

const fn mode(name: &'static str, write: bool, read: bool, complete_layers: bool) -> GdsMode {
    GdsMode { name, write, read, complete_layers }
}

impl GdsMode {
    /// All values, with llm-d's default first.
    pub const ALL: [Self; 7] = [
        mode("disabled", false, false, false),
        mode("read_only", false, true, false),
        mode("write_only", true, false, false),
        mode("read_write", true, true, false),
        mode("bb_read_only", false, true, true),
        mode("bb_write_only", true, false, true),
        mode("bb_read_write", true, true, true),
    ];

    /// The variant of a run in one direction. Without `bb_` every block is registered with the flag for RDMA, and
    /// with `bb_` each layer is registered as one range.
    #[must_use]
    pub fn variant(self, access: Access) -> String {
        let by_cufile = if access == Access::Write { self.write } else { self.read };
        match by_cufile {
            false => KvPath::Staging.name().to_owned(),
            true => format!("{}:register={}", KvPath::GdsRegistered.name(), if self.complete_layers { 1 } else { 2 }),
        }
    }
}

impl FromStr for GdsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mode| mode.name == text).ok_or_else(|| {
            let names = Self::ALL.map(|mode| mode.name).join(", ");
            format!("'{text}' is not a gds_mode of llm-d; its values: {names}")
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_gives_the_variant_of_each_direction() {
        let of = |name: &str| {
            let mode: GdsMode = name.parse().unwrap();
            (mode.variant(Access::Write), mode.variant(Access::Read))
        };
        let pair = |write: &str, read: &str| (write.to_owned(), read.to_owned());
        assert_eq!(of("disabled"), pair("staging", "staging"));
        assert_eq!(of("read_only"), pair("staging", "gds-registered:register=2"));
        assert_eq!(of("bb_write_only"), pair("gds-registered:register=1", "staging"));
        assert_eq!(of("read_write"), pair("gds-registered:register=2", "gds-registered:register=2"));
        assert!("on".parse::<GdsMode>().unwrap_err().contains("bb_read_write"));
    }
}
