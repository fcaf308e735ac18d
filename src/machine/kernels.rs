//! The installed kernels: their releases, which of them has P2PDMA, and which is not of a distribution.

use super::kconfig::kernel_config;
use super::plain_name::is_plain_name;
use super::root::Root;
use super::summary::kernel_release;

/// The releases of the installed kernels.
#[must_use]
pub fn installed_kernels(root: &Root) -> Vec<String> {
    let names = root.entries("/lib/modules").unwrap_or_default();
    names.into_iter().filter(|name| is_plain_name(name)).collect()
}

/// An installed kernel with P2PDMA for user memory that is not running. `None` if there is none. The NVIDIA driver does
/// not support real-time kernels.
#[must_use]
pub fn kernel_with_p2pdma(root: &Root) -> Option<String> {
    let running = kernel_release(root).unwrap_or_default();
    let has_p2pdma = |release: &String| {
        kernel_config(root, release).is_ok_and(|config| {
            config.source.contains(release.as_str())
                && config.value("CONFIG_PCI_P2PDMA") == Some("y")
                && config.value("CONFIG_PREEMPT_RT").is_none()
        }) && (version(release).is_some_and(|version| version >= (6, 2)) || has_backport(release))
    };
    installed_kernels(root)
        .into_iter()
        .filter(|release| *release != running && root.exists(format!("/boot/vmlinuz-{release}")))
        .filter(has_p2pdma)
        .max_by_key(|release| (!is_foreign_kernel(release), release_numbers(release)))
}

/// Whether a kernel of RHEL 9.6 or later, or of a rebuild, has P2PDMA as a backport (NVIDIA's steps for P2PDMA name 9.6).
fn has_backport(release: &str) -> bool {
    let build = release.strip_prefix("5.14.0-").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    release.contains(".el9") && build.is_some_and(|build| build >= 570)
}

fn version(release: &str) -> Option<(u64, u64)> {
    let numbers = release_numbers(release);
    Some((*numbers.first()?, *numbers.get(1)?))
}

/// The numbers of a kernel release. Their order is that of the releases: the newest one is the largest.
#[must_use]
pub fn release_numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Whether no distribution names its kernels like this: a custom kernel.
#[must_use]
pub fn is_foreign_kernel(release: &str) -> bool {
    const ENDS: &[&str] = &[
        "-generic",
        "-generic-64k",
        "-lowlatency",
        "-lowlatency-64k",
        "-nvidia",
        "-nvidia-64k",
        "-nvidia-lowlatency",
        "-oem",
        "-aws",
        "-aws-64k",
        "-azure",
        "-azure-nvidia",
        "-gcp",
        "-gcp-64k",
        "-gke",
        "-oracle",
        "-oracle-64k",
        "-ibm",
        "-realtime",
        "-amd64",
        "-arm64",
        "-default",
        "-64kb",
        "-pve",
    ];
    const PARTS: &[&str] = &[".el", ".fc", ".amzn", ".azl", ".cm", ".oe"];
    !ENDS.iter().any(|end| release.ends_with(end)) && !PARTS.iter().any(|part| release.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_kernels_differ_from_those_of_distributions() {
        for release in [
            "6.8.0-85-generic",
            "6.14.0-1015-nvidia-64k",
            "5.14.0-570.58.1.el9_6.x86_64",
            "6.12.30+bpo-amd64",
            "6.4.0-150600.23.60-default",
            "6.12.46-66.121.amzn2023.x86_64",
            "6.6.57.1-7.azl3",
            "6.8.12-9-pve",
            "5.14.0-570.el9.aarch64+64k",
        ] {
            assert!(!is_foreign_kernel(release), "{release}");
        }
        for release in ["6.12.31-hpc2", "6.18.0", "6.1.55-custom+"] {
            assert!(is_foreign_kernel(release), "{release}");
        }
    }

    #[test]
    fn the_newest_kernel_has_the_largest_numbers() {
        for (older, newer) in [
            ("6.8.0-99-generic", "6.8.0-100-generic"),
            ("5.15.0-130-generic", "6.14.0-37-generic"),
            ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-570.62.1.el9_6.x86_64"),
            ("6.14.0-37-generic", "6.14.0-37-generic-64k"),
        ] {
            assert!(release_numbers(older) < release_numbers(newer), "{older} {newer}");
        }
    }

    #[test]
    fn only_kernels_of_rhel_9_6_and_later_have_the_backport() {
        assert!(has_backport("5.14.0-570.62.1.0.1.el9_6.x86_64"));
        for release in ["5.14.0-503.11.1.el9_5.x86_64", "5.14.0-1059-oem", "5.15.0-313.189.5.1.el9uek.x86_64"] {
            assert!(!has_backport(release), "{release}");
        }
    }
}
