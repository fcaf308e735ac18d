//! Distribution releases whose newest kernel has no P2PDMA, so that only another release brings one.

use super::packages::{Family, family, id, known_family, release, rhel};
use super::release::kernel_version;
use super::root::Root;
use super::summary::os_release;

/// A distribution release without a kernel that has P2PDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldRelease {
    /// The version of its newest kernel.
    pub newest: &'static str,
    /// The release to move to, as a sentence.
    pub instead: &'static str,
}

/// The release of this machine, if none of its kernels has P2PDMA. `None` if one has it, or if this is not known.
#[must_use]
pub fn old_release(root: &Root) -> Option<OldRelease> {
    if !known_family(root) {
        return None;
    }
    let old = |newest, instead| Some(OldRelease { newest, instead });
    match family(root) {
        Family::Debian => match (ubuntu_base(root), debian_base(root)) {
            (Some((..=21, _)), _) => old("5.15", "Update to Ubuntu 24.04."),
            (None, Some(..=11)) => old("6.1", "Update to Debian 13, which has 6.12."),
            _ => None,
        },
        Family::RedHat => match (id(root).as_str(), release(root).map(|(major, _)| major), rhel(root)) {
            ("amzn", Some(2023), _) if kernel_version(root).is_some_and(|running| running >= (6, 12)) => {
                old("6.12", "Build this kernel with CONFIG_PCI_P2PDMA=y.")
            }
            ("amzn", Some(2023), _) => None,
            ("amzn", ..) => old("5.15", "Move to Amazon Linux 2023, which has 6.12."),
            (_, _, Some(..=8)) => old("4.18", "Move to release 9.6 or 10 (leapp upgrade)."),
            _ => None,
        },
        Family::Suse => match release(root) {
            Some((..=14, _)) => old("of branch 4 or 5", "Move to 15 SP6 or later."),
            Some((15, ..=5)) if id(root) != "sles" => {
                old("5.14", "Move to 15.6: sudo zypper --non-interactive --releasever=15.6 dup.")
            }
            _ => None,
        },
    }
}

/// The Ubuntu release. Distributions that are based on Ubuntu use its kernels and count too.
#[must_use]
pub fn ubuntu_base(root: &Root) -> Option<(u32, u32)> {
    match (id(root).as_str(), os_release(root, "UBUNTU_CODENAME").as_deref()) {
        ("ubuntu", _) => release(root),
        (_, Some("bionic")) => Some((18, 4)),
        (_, Some("focal")) => Some((20, 4)),
        (_, Some("jammy")) => Some((22, 4)),
        (_, Some("noble")) => Some((24, 4)),
        (_, Some(_)) => Some((26, 4)),
        _ => None,
    }
}

/// The Debian release, also of distributions that name it as their base.
#[must_use]
pub fn debian_base(root: &Root) -> Option<u32> {
    let codename = os_release(root, "VERSION_CODENAME").or_else(|| os_release(root, "DEBIAN_CODENAME"));
    match codename.as_deref() {
        Some("buster") => Some(10),
        Some("bullseye") => Some(11),
        Some("bookworm") => Some(12),
        _ if id(root) == "debian" => release(root).map(|(major, _)| major),
        _ => None,
    }
}
