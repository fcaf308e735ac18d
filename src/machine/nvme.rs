//! NVMe subsystems. A subsystem is a disk or an array of disks with its controllers.

use super::disks::nvme_controller;
use super::root::Root;
use super::unread::Unread;

/// The directory in which the kernel lists the subsystems.
pub const NVME_SUBSYSTEMS: &str = "/sys/class/nvme-subsystem";

/// Lists NVMe subsystems with their controllers: `("nvme-subsys0", ["nvme0"])`. More than one controller means that
/// there are several paths to the same disk.
#[must_use]
pub fn nvme_subsystems(root: &Root) -> Vec<(String, Vec<String>)> {
    let is_controller = |name: &String| {
        name.strip_prefix("nvme").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let of = |name: String| {
        let entries = root.entries(format!("{NVME_SUBSYSTEMS}/{name}")).ok()?;
        Some((name, entries.into_iter().filter(is_controller).collect()))
    };
    root.entries(NVME_SUBSYSTEMS).unwrap_or_default().into_iter().filter_map(of).collect()
}

/// Whether each NVMe disk is known to have a single path.
#[must_use]
pub fn nvme_has_single_paths(root: &Root) -> bool {
    let subsystems = nvme_subsystems(root);
    !subsystems.is_empty() && subsystems.iter().all(|(_, controllers)| controllers.len() == 1)
}

/// The parameter that shows whether the NVMe driver combines the paths of a disk.
pub const NVME_MULTIPATH: &str = "/sys/module/nvme_core/parameters/multipath";

/// A parameter of the NVMe driver that exists only with native multipath (CONFIG_NVME_MULTIPATH).
pub const NVME_IOPOLICY: &str = "/sys/module/nvme_core/parameters/iopolicy";

/// Whether the NVMe driver combines the paths of a disk (native multipath).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvmeMultipath {
    /// It is on, and the parameter can disable it.
    On,
    /// The parameter disables it. The text is its value.
    Off(String),
    /// It is on, and no parameter can disable it. Red Hat removed the parameter in RHEL 10 (RHEL-78133).
    Forced,
    /// The kernel was built without it.
    Absent(Unread),
    /// It could not be read.
    Unread(Unread),
}

/// Reads whether native multipath is on.
#[must_use]
pub fn nvme_multipath(root: &Root) -> NvmeMultipath {
    match root.read_text(NVME_MULTIPATH) {
        Ok(text) if text.trim() == "Y" => NvmeMultipath::On,
        Ok(text) => NvmeMultipath::Off(text.trim().to_owned()),
        Err(why) if why.is_missing() && root.exists(NVME_IOPOLICY) => NvmeMultipath::Forced,
        // Without sysfs, a missing file proves nothing.
        Err(why) if why.is_missing() && root.exists("/sys/module") => NvmeMultipath::Absent(why),
        Err(why) => NvmeMultipath::Unread(why),
    }
}

/// The argument of the running kernel that switches native multipath on. It overrides modprobe.d (kmod,
/// `kmod_config_parse_kcmdline`).
#[must_use]
pub fn nvme_multipath_argument(root: &Root) -> Option<String> {
    let started = root.read_text("/proc/cmdline").ok()?;
    let is_ours = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default().replace('-', "_");
        name == "nvme_core.multipath"
    };
    // The last argument counts.
    let last = started.split_whitespace().rfind(is_ours)?;
    (!is_kernel_false(last)).then(|| last.to_owned())
}

/// Whether the kernel reads a value as false (kstrtobool). The value can follow `KEY=`.
#[must_use]
pub fn is_kernel_false(word: &str) -> bool {
    let value = word.rsplit('=').next().unwrap_or(word);
    matches!(value, "0" | "off" | "Off" | "OFF") || value.starts_with(['n', 'N', 'f', 'F'])
}

/// The hidden path of a disk that is a multipath device: `nvme1c1n1` for `nvme1n1`. A disk with a single port has none
/// if the kernel does not force such a device (multipath_always_on).
#[must_use]
pub fn nvme_hidden_path(root: &Root, disk: &str) -> Option<String> {
    let (subsystem, namespace) = disk.strip_prefix("nvme")?.split_once('n')?;
    root.entries("/sys/block").ok()?.into_iter().find(|name| {
        let rest = name.strip_prefix("nvme").and_then(|rest| rest.strip_prefix(subsystem)?.strip_prefix('c'));
        rest.and_then(|rest| rest.split_once('n')).is_some_and(|(_, other)| other == namespace)
    })
}

/// The file for multipathd that excludes local NVMe disks.
pub const MULTIPATHD_LOCAL: &str = "/etc/multipath/conf.d/local-nvme.conf";

/// The section of multipath.conf that excludes disks by their identifiers. It is not known whether older multipath-tools
/// support the protocol `nvme:pcie`.
#[must_use]
pub fn multipathd_blacklist(ids: &[impl AsRef<str>]) -> String {
    let lines: String = ids.iter().map(|id| format!(" wwid \"{}\"\n", id.as_ref())).collect();
    format!("blacklist {{\n{lines}}}\n")
}

/// The identifiers (WWIDs) of the local NVMe disks. `None` without such disks, or if one has no plain identifier.
#[must_use]
pub fn local_nvme_ids(root: &Root) -> Option<Vec<String>> {
    let is_local = |name: &&String| {
        let controller = nvme_controller(name).unwrap_or_default();
        // A hidden path has the same identifier: `nvme0c0n1`.
        !name.contains('c')
            && root
                .read_text(format!("/sys/class/nvme/{controller}/transport"))
                .is_ok_and(|transport| transport.trim() == "pcie")
    };
    let id = |name: &String| {
        let id = root.read_text(format!("/sys/block/{name}/wwid")).ok()?.trim().to_owned();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        (id.contains('.') && id.bytes().all(is_plain)).then_some(id)
    };
    let ids: Option<Vec<String>> = root.entries("/sys/block").ok()?.iter().filter(is_local).map(id).collect();
    ids.filter(|ids| !ids.is_empty())
}

/// Whether multipathd creates a map for local NVMe disks too, as soon as native multipath is off. It then creates maps for
/// disks with one path, and no file excludes NVMe or these disks (multipath.conf(5)).
#[must_use]
pub fn multipathd_takes_nvme(root: &Root) -> bool {
    const FOLDER: &str = "/etc/multipath/conf.d";
    let names = root.entries(FOLDER).unwrap_or_default();
    let paths =
        ["/etc/multipath.conf".to_owned()].into_iter().chain(names.iter().map(|name| format!("{FOLDER}/{name}")));
    let text: String = paths.filter_map(|path| root.read_text(path).ok()).collect();
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix("find_multipaths"));
    let value = values.next_back().map(|value| value.trim().trim_matches('"').to_owned());
    value.is_some_and(|value| ["no", "off", "greedy"].contains(&value.as_str()))
        && !text.contains("nvme")
        && !local_nvme_ids(root).is_some_and(|ids| ids.iter().all(|id| text.contains(id)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_that_the_kernel_takes_for_no_are_known() {
        for off in ["N", "n", "0", "no", "off", "false", "nvme_core.multipath=N"] {
            assert!(is_kernel_false(off), "{off}");
        }
        for on in ["Y", "1", "on", "", "nvme_core.multipath=Y"] {
            assert!(!is_kernel_false(on), "{on}");
        }
    }

    #[test]
    fn the_last_argument_switches_multipath_on() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        for (line, argument) in [
            ("ro quiet", None),
            ("ro nvme_core.multipath=N", None),
            ("nvme_core.multipath=Y ro", Some("nvme_core.multipath=Y")),
            ("nvme-core.multipath=1", Some("nvme-core.multipath=1")),
            ("nvme_core.multipath=Y nvme_core.multipath=0", None),
            ("nvme_core.multipath_always_on=1", None),
        ] {
            std::fs::write(folder.path().join("proc/cmdline"), line).unwrap();
            let found = nvme_multipath_argument(&Root::tree(folder.path()).unwrap());
            assert_eq!(found.as_deref(), argument, "{line}");
        }
    }
}
