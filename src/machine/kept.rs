//! Whether a change of a file is kept in a container.

use super::mounts::{mount_for, parse_mountinfo};
use super::root::Root;
use super::summary::container;
use std::path::Path;

/// The fate of a change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is kept.
    Here,
    /// It is lost when the container is started again, and programs that run do not see it.
    Lost,
    /// The file comes from outside the container, and is changed there.
    Outside,
}

/// The fate of a change of the file `path`.
#[must_use]
pub fn kept(root: &Root, path: &str) -> Kept {
    let Some(container) = container(root) else { return Kept::Here };
    // These containers are started again with the same root file system.
    if matches!(container.runtime.as_str(), "lxc" | "nspawn") {
        return Kept::Here;
    }
    let mounts = root.read_bytes("/proc/self/mountinfo").map(parse_mountinfo).unwrap_or_default();
    match mount_for(&mounts, Path::new(path), None) {
        Some(mount) if mount.point == Path::new(path) => Kept::Outside,
        Some(mount) if mount.point == Path::new("/") || matches!(mount.filesystem.as_str(), "tmpfs" | "overlay") => {
            Kept::Lost
        }
        Some(mount) if mount.options.split(',').any(|option| option == "ro") => Kept::Outside,
        Some(_) => Kept::Here,
        None => Kept::Lost,
    }
}
