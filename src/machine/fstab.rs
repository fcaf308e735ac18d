//! The file systems that /etc/fstab and the mount units of systemd name, and the one that is missing above a path.

use super::mounts::{parse_mountinfo, unescape};
use super::path_facts::PathFacts;
use super::root::Root;
use super::summary::container;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The table of the file systems that are mounted at boot.
pub const FSTAB: &str = "/etc/fstab";

/// The directory with the units of the administrator.
const UNITS: &str = "/etc/systemd/system";

/// A file system that is mounted at boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedMount {
    /// The device as it is named: `UUID=…`, a device node or an export.
    pub device: String,
    /// The mount point.
    pub point: PathBuf,
    /// The type: `xfs`, or `auto`.
    pub filesystem: String,
    /// The options, comma-separated.
    pub options: String,
    /// The file that names it.
    pub file: String,
    /// Its line in this file. For a unit, its name.
    pub line: String,
}

impl PlannedMount {
    /// The facts about a path on this file system while it is not mounted.
    #[must_use]
    pub fn facts(&self, path: &Path) -> PathFacts {
        // The type decides which routes exist, but a local file system has no disks yet.
        let is_known = !matches!(self.filesystem.as_str(), "" | "auto" | "none" | "bind" | "ext4" | "xfs");
        PathFacts {
            path: path.to_owned(),
            filesystem: is_known.then(|| self.filesystem.clone()),
            source: Some(self.device.clone()),
            mount_point: Some(self.point.clone()),
            mount_options: Some(self.all_options()),
            error: Some(format!("{} is not mounted", self.point.display())),
            ..PathFacts::default()
        }
    }

    /// The options with the protocol of NFS, which a mount always lists (nfs(5)).
    fn all_options(&self) -> String {
        let has = |wanted: &str| self.options.split(',').any(|option| option.split('=').next() == Some(wanted));
        match self.filesystem.as_str() {
            "nfs" | "nfs4" if !has("proto") && !has("udp") => {
                format!("{},proto={}", self.options, if has("rdma") { "rdma" } else { "tcp" })
            }
            _ => self.options.clone(),
        }
    }
}

/// The mount point in a field of /etc/fstab. Paths are compared by their components, so a final slash has no effect, as
/// in mount(8).
#[must_use]
pub fn fstab_point(field: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field.as_bytes())))
}

/// The lines of /etc/fstab for mounts at boot.
#[must_use]
pub fn fstab_mounts(root: &Root) -> Vec<PlannedMount> {
    let text = root.read_text(FSTAB).unwrap_or_default();
    let mount = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [device, point, filesystem, ..] = fields.as_slice() else { return None };
        let options = fields.get(3).copied().unwrap_or_default();
        let is_skipped = options.split(',').any(|option| option == "noauto");
        (!device.starts_with('#') && point.starts_with('/') && !is_skipped).then(|| PlannedMount {
            device: (*device).to_owned(),
            point: fstab_point(point),
            filesystem: (*filesystem).to_owned(),
            options: options.to_owned(),
            file: FSTAB.to_owned(),
            line: line.trim().to_owned(),
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Whether /etc/fstab is known and has no line for a mount point, so that a mount unit or a script mounts it.
#[must_use]
pub fn lacks_fstab_line(root: &Root, point: &Path) -> bool {
    let names = |line: &str| {
        let mut fields = line.split_whitespace();
        fields.next().is_some_and(|device| !device.starts_with('#'))
            && fields.next().is_some_and(|field| fstab_point(field) == point)
    };
    root.read_text(FSTAB).is_ok_and(|text| !text.lines().any(names))
}

/// The enabled mount units of the administrator.
fn unit_mounts(root: &Root) -> Vec<PlannedMount> {
    let is_enabled = |name: &str| {
        ["local-fs", "remote-fs", "multi-user"].iter().any(|target| {
            ["wants", "requires"].iter().any(|kind| root.exists(format!("{UNITS}/{target}.target.{kind}/{name}")))
        })
    };
    let mount = |name: &String| {
        let file = format!("{UNITS}/{name}");
        let text = root.read_text(&file).ok()?;
        let value =
            |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(|v| v.trim().to_owned());
        Some(PlannedMount {
            device: value("What=")?,
            point: PathBuf::from(value("Where=")?),
            filesystem: value("Type=").unwrap_or_default(),
            options: value("Options=").unwrap_or_default(),
            file,
            line: name.clone(),
        })
    };
    let names = root.entries(UNITS).unwrap_or_default();
    names.iter().filter(|name| name.ends_with(".mount") && is_enabled(name)).filter_map(mount).collect()
}

/// The file system that should be mounted above a path and is not, so that the path is on the one below it.
#[must_use]
pub fn unmounted(root: &Root, facts: &PathFacts) -> Option<PlannedMount> {
    // An image can have the fstab of another machine.
    if container(root).is_some() {
        return None;
    }
    let path = facts.tried_file.as_deref().or(facts.real_path.as_deref()).unwrap_or(&facts.path);
    let mounts = parse_mountinfo(root.read_text("/proc/self/mountinfo").ok()?);
    let below = facts.mount_point.as_deref().unwrap_or(Path::new("/"));
    let is_missing = |mount: &PlannedMount| {
        path.starts_with(&mount.point)
            && mount.point.starts_with(below)
            && mount.point != below
            && !mounts.iter().any(|mounted| mounted.point == mount.point)
    };
    let planned = fstab_mounts(root).into_iter().chain(unit_mounts(root));
    planned.filter(is_missing).max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_nfs_mount_has_its_protocol() {
        for (filesystem, options, proto) in [
            ("nfs", "vers=3,_netdev", Some("tcp")),
            ("nfs4", "proto=rdma,port=20049", Some("rdma")),
            ("nfs", "rdma,port=20049", Some("rdma")),
            ("lustre", "flock,_netdev", None),
        ] {
            let planned = PlannedMount {
                filesystem: filesystem.to_owned(),
                options: options.to_owned(),
                point: PathBuf::from("/data"),
                ..PlannedMount::default()
            };
            let facts = planned.facts(Path::new("/data/models"));
            assert_eq!(facts.option_value("proto"), proto, "{options}");
            assert_eq!(facts.mount_point.as_deref(), Some(Path::new("/data")));
        }
    }

    #[test]
    fn a_mount_point_above_the_path_that_is_not_mounted_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "etc/fstab",
            "# UUID=0 /old xfs defaults 0 0\nUUID=1 / ext4 defaults 0 1\nUUID=2 /data xfs nofail 0 0\nUUID=3 /my\\040disk xfs defaults 0 0\n\
             UUID=4 /backup xfs noauto 0 0\nUUID=5 /scratch xfs defaults 0 0\nUUID=6 none swap sw 0 0\n",
        );
        write("etc/systemd/system/srv-models.mount", "[Mount]\nWhat=/dev/nvme1n1\nWhere=/srv/models\nType=xfs\n");
        write("etc/systemd/system/mnt.mount", "[Mount]\nWhat=/dev/nvme2n1\nWhere=/mnt\n");
        write("etc/systemd/system/local-fs.target.wants/srv-models.mount", "");
        write(
            "proc/self/mountinfo",
            "26 1 259:2 / / rw - ext4 /dev/sda2 rw\n91 26 259:5 / /scratch rw - xfs /dev/x rw\n",
        );
        let root = Root::tree(folder.path()).unwrap();
        for (point, is_without) in [("/backup", false), ("/my disk", false), ("/srv/models", true), ("/old", true)] {
            assert_eq!(lacks_fstab_line(&root, Path::new(point)), is_without, "{point}");
        }
        let of = |path: &str, point: &str| {
            let real_path = Some(PathBuf::from(path));
            let mount_point = Some(PathBuf::from(point));
            let facts = PathFacts { path: PathBuf::from(path), real_path, mount_point, ..PathFacts::default() };
            unmounted(&root, &facts).map(|mount| mount.device)
        };
        for (path, point, device) in [
            ("/data/models", "/", Some("UUID=2")),
            ("/data", "/", Some("UUID=2")),
            ("/my disk/a", "/", Some("UUID=3")),
            ("/srv/models/a", "/", Some("/dev/nvme1n1")),
            ("/database", "/", None),
            ("/data/models", "/data/models", None),
            ("/scratch/a", "/scratch", None),
            ("/old/a", "/", None),
            ("/backup/a", "/", None),
            ("/mnt/a", "/", None),
        ] {
            assert_eq!(of(path, point).as_deref(), device, "{path}");
        }
    }
}
