//! The text about the properties of cuFile's driver.

use crate::core::DriverProperties;

/// Bits of `dcontrolflags` and `fflags`, see cufile.h.
pub(super) fn driver(properties: &DriverProperties) -> String {
    let control = [(0, "poll mode"), (1, "compat mode allowed"), (2, "POSIX only"), (4, "fallback I/O")];
    let features = [(0, "dynamic routing"), (1, "batches"), (2, "streams"), (3, "parallel I/O"), (4, "P2P")];
    let mut parts = vec![match (properties.nvfs_major, properties.nvfs_minor) {
        (0, 0) => "without nvidia-fs".to_owned(),
        (major, minor) => format!("nvidia-fs {major}.{minor}"),
    }];
    let set = |flags: u32, names: &[(u32, &str)]| -> Vec<String> {
        names.iter().filter(|(bit, _)| flags & (1 << bit) != 0).map(|(_, name)| (*name).to_owned()).collect()
    };
    parts.extend(set(properties.control_flags, &control));
    parts.extend(set(properties.features, &features));
    parts.join(", ")
}
