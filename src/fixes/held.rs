//! Finds kernel packages that a package manager holds, and the commands that release them.

use super::parts::{Family, run};
use crate::core::Change;
use crate::machine::Root;

/// The commands that release held kernel packages, and a sentence with the reason of the hold.
pub(super) fn released(root: &Root, family: Family) -> (Vec<Change>, Option<String>) {
    let (commands, found) = match family {
        Family::Debian => debian(root),
        Family::RedHat => red_hat(root),
        Family::Suse => suse(root),
    };
    let sentence = (!found.is_empty()).then(|| {
        format!("Kernels are held here ({}); the hold is removed first. Hold them again afterwards.", found.join("; "))
    });
    (commands.iter().map(|line| run(line)).collect(), sentence)
}

/// Whether the package is a kernel, such as `linux-image-amd64` or `linux-headers-generic`.
fn is_kernel(name: &str) -> bool {
    ["linux-image", "linux-headers", "linux-generic", "linux-modules"].iter().any(|start| name.starts_with(start))
}

fn debian(root: &Root) -> (Vec<String>, Vec<String>) {
    const STATUS: &str = "/var/lib/dpkg/status";
    let status = root.read_text(STATUS).unwrap_or_default();
    let held: Vec<&str> = status
        .split("\n\n")
        .filter(|part| part.lines().any(|line| line == "Status: hold ok installed"))
        .filter_map(|part| part.lines().find_map(|line| line.strip_prefix("Package: ")))
        .filter(|name| is_kernel(name))
        .collect();
    let (mut commands, mut found) = (Vec::new(), Vec::new());
    if !held.is_empty() {
        commands.push(format!("sudo apt-mark unhold {}", held.join(" ")));
        found.push(format!("{STATUS}: hold of {}", held.join(" ")));
    }
    let folder = root.entries("/etc/apt/preferences.d").unwrap_or_default();
    let paths = folder.into_iter().map(|name| format!("/etc/apt/preferences.d/{name}"));
    for path in paths.chain(["/etc/apt/preferences".to_owned()]) {
        let text = root.read_text(&path).unwrap_or_default();
        let pinned = text
            .lines()
            .find(|line| line.strip_prefix("Package:").is_some_and(|names| names.split_whitespace().any(is_kernel)));
        if let Some(line) = pinned {
            commands.push(format!("sudoedit {path}"));
            found.push(format!("{path}: {line}"));
        }
    }
    (commands, found)
}

fn red_hat(root: &Root) -> (Vec<String>, Vec<String>) {
    let (mut commands, mut found) = (Vec::new(), Vec::new());
    for path in
        ["/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml"]
    {
        let text = root.read_text(path).unwrap_or_default();
        let line = text.lines().find(|line| !line.trim_start().starts_with('#') && line.contains("kernel"));
        if let Some(line) = line {
            commands.push("sudo dnf versionlock delete kernel*".to_owned());
            found.push(format!("{path}: {}", line.trim()));
            break;
        }
    }
    for path in ["/etc/dnf/dnf.conf", "/etc/yum.conf"] {
        let text = root.read_text(path).unwrap_or_default();
        let excludes = |line: &&str| {
            line.split_once('=')
                .is_some_and(|(key, names)| matches!(key.trim(), "exclude" | "excludepkgs") && names.contains("kernel"))
        };
        if let Some(line) = text.lines().find(excludes) {
            commands.push(format!("sudoedit {path}"));
            found.push(format!("{path}: {}", line.trim()));
            break;
        }
    }
    (commands, found)
}

fn suse(root: &Root) -> (Vec<String>, Vec<String>) {
    const LOCKS: &str = "/etc/zypp/locks";
    let text = root.read_text(LOCKS).unwrap_or_default();
    let locked: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("solvable_name:"))
        .map(str::trim)
        .filter(|name| name.starts_with("kernel"))
        .collect();
    if locked.is_empty() {
        return (Vec::new(), Vec::new());
    }
    (vec![format!("sudo zypper removelock {}", locked.join(" "))], vec![format!("{LOCKS}: {}", locked.join(" "))])
}
