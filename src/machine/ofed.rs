//! MLNX_OFED, the drivers for NVIDIA network cards before DOCA. NVIDIA requires its removal before DOCA is installed
//! (DOCA-Host Installation and Upgrade), so its missing parts come from its own packages.

use super::root::Root;
use super::{container, dkms_rows};

/// The part of its release's name and of the address of its packages.
const MARK: &str = "MLNX_OFED";
const DEBIAN: &str = "/etc/apt/sources.list.d";
const RED_HAT: &str = "/etc/yum.repos.d";

/// An installed MLNX_OFED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MlnxOfed {
    /// Its release, for example `MLNX_OFED_LINUX-24.10-2.1.8.0`; without the number if that is unknown.
    pub release: String,
    /// Whether its configured repository has Debian's format. `None` if there is none, or if DOCA's repository is
    /// configured too: the package manager would take the newer package from there.
    is_debian: Option<bool>,
}

impl MlnxOfed {
    /// The package with a part of it, if its repository is configured: `mlnx-nvme` is in `mlnx-nvme-dkms`, in Red Hat's
    /// format in `kmod-mlnx-nvme`.
    #[must_use]
    pub fn package(&self, part: &str) -> Option<String> {
        self.is_debian.map(|is_debian| if is_debian { format!("{part}-dkms") } else { format!("kmod-{part}") })
    }
}

/// The installed MLNX_OFED. `None` without it, with DOCA in its place, and in a container, whose image can have its
/// libraries.
#[must_use]
pub fn mlnx_ofed(root: &Root) -> Option<MlnxOfed> {
    if container(root).is_some() {
        return None;
    }
    let lines = repository_lines(root);
    let named = lines.iter().find(|(_, line)| line.contains(MARK) || line.contains("/mlnx_ofed/"));
    // DOCA has the same program, which reports OFED-internal.
    let said = root.read_text("/usr/bin/ofed_info").ok().filter(|text| text.contains("OFED"));
    let said = said.or_else(|| root.command(&["ofed_info", "-s"]).map(|output| output.stdout));
    let has_doca = lines.iter().any(|(_, line)| is_doca(line));
    let release = match said.filter(|text| text.contains("OFED")) {
        Some(text) => release(&text)?,
        // DOCA has this module too, and configures its repository.
        None if !has_doca && dkms_rows(root).iter().any(|row| row.name == "mlnx-ofed-kernel") => {
            named.map(|(_, line)| release(line).unwrap_or_else(|| MARK.to_owned()))?
        }
        None => return None,
    };
    let is_debian = named.filter(|(_, line)| !has_doca && is_there(root, line)).map(|(is_debian, _)| *is_debian);
    Some(MlnxOfed { release, is_debian })
}

/// The name of a release in a text.
fn release(text: &str) -> Option<String> {
    let rest = &text[text.find("MLNX_OFED_LINUX-")?..];
    let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "_.-".contains(*c)).collect();
    // The directory of the packages has the distribution after the release.
    let parts: Vec<&str> = name.split('-').take(3).collect();
    Some(parts.join("-"))
}

fn is_doca(line: &str) -> bool {
    line.contains("/repo/doca/") || line.contains("/doca-host-")
}

/// Whether the packages of a repository are there. A directory of this machine can be removed after the installation.
fn is_there(root: &Root, line: &str) -> bool {
    let path = line.split_once("file:").map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default());
    let path = path.map(|path| format!("/{}", path.trim_start_matches('/')));
    path.is_none_or(|path| !root.is_live() || root.exists(&path))
}

/// The lines of the configured repositories, and whether they are Debian's.
fn repository_lines(root: &Root) -> Vec<(bool, String)> {
    let of = |folder: &'static str| {
        let names = root.entries(folder).unwrap_or_default();
        names.into_iter().filter_map(move |name| root.read_text(format!("{folder}/{name}")).ok()).flat_map(
            move |text| {
                let is_off = text.lines().any(|line| line.replace(' ', "") == "enabled=0");
                let lines: Vec<(bool, String)> = text
                    .lines()
                    .filter(|line| !is_off && !line.trim_start().starts_with('#'))
                    .map(|line| (folder == DEBIAN, line.to_owned()))
                    .collect();
                lines
            },
        )
    };
    of(DEBIAN).chain(of(RED_HAT)).collect()
}
