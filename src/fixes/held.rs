//! Finds holds, pins and locks of the package manager that would stop the commands of a plan, and the commands that
//! lift them.

use super::parts::{Family, family, run};
use crate::core::{Change, FixId, FixPlan};
use crate::machine::{DriverOrigin, Root, deb_packages, driver_origin};

/// A set of packages that a plan changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Kernel,
    Driver,
    FabricManager,
    Gds,
    Doca,
}

impl Part {
    /// Names of its packages, for patterns.
    const fn examples(self) -> &'static [&'static str] {
        match self {
            Self::Kernel => &["linux-image-amd64", "linux-headers-amd64", "kernel", "kernel-core", "kernel-default"],
            Self::Driver => {
                &["nvidia-driver", "nvidia-driver-580", "nvidia-open", "cuda-drivers", "kmod-nvidia-open-dkms"]
            }
            Self::FabricManager => &["nvidia-fabricmanager-580", "nvidia-fabric-manager"],
            Self::Gds => &["nvidia-gds", "nvidia-gds-13-0", "nvidia-fs", "nvidia-fs-dkms", "libcufile-13-0"],
            Self::Doca => &["doca-ofed", "mlnx-nvme-dkms", "kmod-mlnx-nvme"],
        }
    }

    /// Whether a package belongs to it.
    fn has(self, name: &str) -> bool {
        let starts = |all: &[&str]| all.iter().any(|start| name.starts_with(start));
        match self {
            Self::Kernel => starts(&["linux-image", "linux-headers", "linux-generic", "linux-modules", "kernel"]),
            Self::FabricManager => name.contains("fabricmanager") || name.contains("fabric-manager"),
            Self::Gds => starts(&["nvidia-gds", "nvidia-fs", "libcufile", "gds-tools"]),
            Self::Doca => starts(&["doca", "mlnx", "kmod-mlnx"]),
            Self::Driver => {
                (name.contains("nvidia") || starts(&["cuda-drivers", "libcuda1"]))
                    && !name.contains("container")
                    && ![Self::FabricManager, Self::Gds].iter().any(|other| other.has(name))
            }
        }
    }

    /// Whether a pattern such as `nvidia-*` means one of its packages.
    fn is_meant_by(self, pattern: &str) -> bool {
        let pattern = pattern.trim_start_matches("src:");
        if pattern == "*" {
            return false;
        }
        // Regular expressions of apt: /^nvidia-/.
        let plain = pattern.trim_matches('/').trim_start_matches('^').trim_end_matches(['$', '*', '.']);
        self.has(plain) || self.examples().iter().any(|name| matches(pattern, name))
    }
}

/// Whether a pattern with `*` matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    rest.is_empty() || name.char_indices().any(|(at, _)| matches(rest, &name[at..])) || matches(rest, "")
}

/// The packages that a fix changes. Empty if it installs none.
const fn parts(id: FixId) -> &'static [Part] {
    match id {
        FixId::KernelP2pdma => &[Part::Kernel],
        FixId::NvidiaDriverOpen | FixId::NvidiaDriverProprietary => &[Part::Driver, Part::FabricManager],
        FixId::NvidiaFabricmanager => &[Part::FabricManager],
        FixId::NvfsInstall | FixId::NvfsDkms | FixId::LibcufileInstall => &[Part::Gds],
        FixId::NvmePatch | FixId::NfsRdmaClient => &[Part::Doca],
        _ => &[],
    }
}

/// The commands of a plan as text.
fn lines(plan: &FixPlan) -> String {
    let line = |change: &Change| match change {
        Change::Run { argv } => argv.join(" "),
        Change::WriteFile { .. } => String::new(),
    };
    plan.changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Puts the commands that lift holds before the commands that these would stop.
pub(super) fn lifted(root: &Root, mut plan: FixPlan) -> FixPlan {
    let parts = parts(plan.id);
    let lines = lines(&plan);
    let family = family(root);
    let (manager, list) = match family {
        Family::Debian => ("apt-get", "apt-mark showhold; apt-cache policy"),
        Family::RedHat => ("dnf", "dnf versionlock list"),
        Family::Suse => ("zypper", "zypper locks"),
    };
    if parts.is_empty() || !lines.contains(manager) {
        return plan;
    }
    let is_meant = |pattern: &str| parts.iter().any(|part| part.is_meant_by(pattern));
    let (commands, found) = match family {
        Family::Debian => debian(root, &is_meant, &lines, parts),
        Family::RedHat => red_hat(root, &is_meant, parts),
        Family::Suse => suse(root, &is_meant),
    };
    if found.is_empty() {
        return plan;
    }
    let what = if parts == [Part::Kernel] { "Kernels" } else { "Packages" };
    plan.why.push_str(&format!(
        " {what} are held here ({}); the hold is removed first. '{list}' shows all holds. Hold them again afterwards.",
        found.join("; ")
    ));
    plan.changes.splice(0..0, commands.iter().map(|line| run(line)));
    plan
}

type Held = (Vec<String>, Vec<String>);

fn debian(root: &Root, is_meant: &dyn Fn(&str) -> bool, lines: &str, parts: &[Part]) -> Held {
    let packages = deb_packages(root);
    let held: Vec<&str> = packages
        .iter()
        .filter(|package| package.is_held && is_meant(&package.name))
        .map(|package| package.name.as_str())
        .collect();
    let (mut commands, mut found) = (Vec::new(), Vec::new());
    if !held.is_empty() {
        commands.push(format!("sudo apt-mark unhold {}", held.join(" ")));
        found.push(format!("/var/lib/dpkg/status: hold of {}", held.join(" ")));
    }
    let folder = root.entries("/etc/apt/preferences.d").unwrap_or_default();
    let paths = folder.into_iter().map(|name| format!("/etc/apt/preferences.d/{name}"));
    for path in paths.chain(["/etc/apt/preferences".to_owned()]) {
        let text = root.read_text(&path).unwrap_or_default();
        if let Some(line) = text.split("\n\n").find_map(|part| pinned(root, part, is_meant, lines, parts)) {
            commands.push(format!("sudoedit {path}"));
            found.push(format!("{path}: {line}"));
        }
    }
    (commands, found)
}

/// The first line of a pin that keeps apt from the packages of a plan: one with a negative priority, or one of another
/// version. Pins of kernels always count, because the plan needs a later one.
fn pinned(root: &Root, part: &str, is_meant: &dyn Fn(&str) -> bool, lines: &str, parts: &[Part]) -> Option<String> {
    let field = |name: &str| part.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (packages, pin) = (field("Package:")?, field("Pin:").unwrap_or_default());
    let is_rejected = field("Pin-Priority:").is_some_and(|number| number.starts_with('-'));
    let is_of_nvidia = ["developer.download.nvidia.com", "NVIDIA"].iter().any(|name| pin.contains(name));
    let is_archive = matches!(driver_origin(root), Some(DriverOrigin::Ubuntu(_) | DriverOrigin::Debian))
        && parts.contains(&Part::Driver);
    let stops = if packages.split_whitespace().any(is_meant) {
        let other_version = || {
            let version = pin.strip_prefix("version")?.trim();
            let branch = version.trim_start_matches(|c: char| !c.is_ascii_digit()).split('.').next()?;
            Some(!branch.is_empty() && !lines.contains(branch))
        };
        parts == [Part::Kernel] || (is_rejected && !(is_of_nvidia && is_archive)) || other_version() == Some(true)
    } else {
        let is_of_source = is_of_nvidia && !parts.contains(&Part::Kernel) && !parts.contains(&Part::Doca);
        packages == "*" && is_rejected && is_of_source && !is_archive
    };
    stops.then(|| format!("Package: {packages}"))
}

/// The name in a line of the version lock: `kernel-core` in `kernel-core-0:5.14.0-427.13.1.el9_4.*`.
fn locked_name(line: &str) -> &str {
    let line = line.trim().trim_start_matches('!');
    let Some((before, _)) = line.split_once(':') else { return line };
    before.rsplit_once('-').map_or(before, |(name, _)| name)
}

fn red_hat(root: &Root, is_meant: &dyn Fn(&str) -> bool, parts: &[Part]) -> Held {
    let (mut commands, mut found) = (Vec::new(), Vec::new());
    for path in
        ["/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml"]
    {
        let text = root.read_text(path).unwrap_or_default();
        // dnf 5 writes `name = "kernel"`.
        let named = |line: &str| match line.trim().strip_prefix("name").and_then(|rest| rest.trim().strip_prefix('=')) {
            Some(name) => name.trim().trim_matches('"').to_owned(),
            None => locked_name(line).to_owned(),
        };
        let locks: Vec<(&str, String)> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
            .map(|line| (line.trim(), named(line)))
            .filter(|(_, name)| is_meant(name))
            .collect();
        if let Some((line, _)) = locks.first() {
            let mut names: Vec<&str> = locks.iter().map(|(_, name)| name.as_str()).collect();
            names.dedup();
            let names = if parts == [Part::Kernel] { "kernel*".to_owned() } else { names.join(" ") };
            commands.push(format!("sudo dnf versionlock delete {names}"));
            found.push(format!("{path}: {line}"));
            break;
        }
    }
    let folder = root.entries("/etc/yum.repos.d").unwrap_or_default();
    let of_nvidia = folder
        .into_iter()
        .map(|name| format!("/etc/yum.repos.d/{name}"))
        .filter(|path| root.read_text(path).is_ok_and(|text| text.contains(super::repository::SERVER)));
    for path in ["/etc/dnf/dnf.conf", "/etc/yum.conf"].map(str::to_owned).into_iter().chain(of_nvidia) {
        let text = root.read_text(&path).unwrap_or_default();
        let excludes = |line: &&str| {
            line.split_once('=').is_some_and(|(key, names)| {
                matches!(key.trim(), "exclude" | "excludepkgs") && names.split([' ', ',']).any(is_meant)
            })
        };
        if let Some(line) = text.lines().find(excludes) {
            commands.push(format!("sudoedit {path}"));
            found.push(format!("{path}: {}", line.trim()));
            break;
        }
    }
    (commands, found)
}

fn suse(root: &Root, is_meant: &dyn Fn(&str) -> bool) -> Held {
    const LOCKS: &str = "/etc/zypp/locks";
    let text = root.read_text(LOCKS).unwrap_or_default();
    let locked: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("solvable_name:"))
        .map(str::trim)
        .filter(|name| is_meant(name))
        .collect();
    if locked.is_empty() {
        return (Vec::new(), Vec::new());
    }
    (vec![format!("sudo zypper removelock {}", locked.join(" "))], vec![format!("{LOCKS}: {}", locked.join(" "))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_the_packages_of_a_part() {
        for (part, pattern, is_meant) in [
            (Part::Driver, "nvidia-driver-550", true),
            (Part::Driver, "nvidia-*", true),
            (Part::Driver, "/^nvidia-/", true),
            (Part::Driver, "nvidia-container-toolkit", false),
            (Part::Driver, "nvidia-fs-dkms", false),
            (Part::Driver, "*", false),
            (Part::Gds, "nvidia-*", true),
            (Part::Gds, "nvidia-driver-550", false),
            (Part::FabricManager, "nvidia-fabricmanager-570", true),
            (Part::Kernel, "kernel*", true),
            (Part::Kernel, "nvidia*", false),
            (Part::Driver, "*nvidia*", true),
        ] {
            assert_eq!(part.is_meant_by(pattern), is_meant, "{part:?} {pattern}");
        }
        assert_eq!(locked_name("nvidia-driver-3:550.90.07-1.el9.*"), "nvidia-driver");
        assert_eq!(locked_name("nvidia*"), "nvidia*");
    }
}
