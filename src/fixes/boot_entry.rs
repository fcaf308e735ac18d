//! Which kernel a plan means: an installed one with P2PDMA, or the one that a command has just installed; and how the
//! boot loader starts it.

use super::parts::{Family, run};
use crate::core::Change;
use crate::machine::{Root, kernel_config, kernel_release};

/// An installed kernel with P2PDMA that is not running. The kernels of RHEL 9 have it as a backport, so their versions
/// are not compared.
pub(super) fn suitable(root: &Root) -> Option<String> {
    let running = kernel_release(root).unwrap_or_default();
    let names = root.entries("/lib/modules").unwrap_or_default().into_iter();
    let has_p2pdma = |release: &String| {
        kernel_config(root, release).is_ok_and(|config| {
            config.source.contains(release.as_str()) && config.value("CONFIG_PCI_P2PDMA") == Some("y")
        }) && version(release).is_some_and(|version| version >= (6, 2))
    };
    names
        .filter(|release| *release != running && root.exists(format!("/boot/vmlinuz-{release}")))
        .filter(has_p2pdma)
        .max_by_key(|release| (!is_foreign(release), numbers(release)))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let numbers = numbers(release);
    Some((*numbers.first()?, *numbers.get(1)?))
}

fn numbers(release: &str) -> Vec<u32> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Whether no distribution names its kernels like this: a custom kernel.
fn is_foreign(release: &str) -> bool {
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

/// Whether the boot loader may start another kernel than the one that a package brings: a custom kernel can
/// have a higher version.
pub(super) fn has_foreign(root: &Root) -> bool {
    let running = kernel_release(root);
    root.entries("/lib/modules").unwrap_or_default().into_iter().chain(running).any(|release| is_foreign(&release))
}

/// A shell command that names the kernel of the package `package` after its installation.
pub(super) fn of_package(family: Family, package: &str) -> String {
    match family {
        // The package only depends on that of the kernel.
        Family::Debian => format!(
            "new=$(dpkg-query -W -f='${{Depends}}' {package} | grep -o 'linux-image-[0-9][^ ,]*' | head -n 1 | cut -d - -f 3-)"
        ),
        Family::RedHat | Family::Suse => format!(
            "new=$(rpm -ql \"$(rpm -q --last {package} | head -n 1 | cut -d ' ' -f 1)\" | grep -o '/lib/modules/[^/]*' | head -n 1 | cut -d / -f 4)"
        ),
    }
}

/// The commands that make a kernel the default of the boot loader. `release` can be a variable of a shell.
pub(super) fn start_by_default(family: Family, release: &str, before: &str) -> Change {
    let script = match family {
        // A file in this folder overrides /etc/default/grub on Debian and Ubuntu.
        Family::Debian => format!(
            "{before}root=$(grub-probe --target=fs_uuid /) && echo \"GRUB_DEFAULT='gnulinux-advanced-$root>gnulinux-{release}-advanced-$root'\" > /etc/default/grub.d/zz-gds-top.cfg && update-grub && grep -q \"gnulinux-{release}-advanced-$root\" /boot/grub/grub.cfg"
        ),
        Family::RedHat => format!("{before}grubby --set-default \"/boot/vmlinuz-{release}\""),
        Family::Suse => format!(
            "{before}root=$(grub2-probe --target=fs_uuid /) && grub2-set-default \"gnulinux-advanced-$root>gnulinux-{release}-advanced-$root\" && grub2-mkconfig -o /boot/grub2/grub.cfg"
        ),
    };
    Change::Run { argv: ["sudo", "sh", "-c", &script].map(str::to_owned).to_vec() }
}

/// How to return to the present kernel.
pub(super) fn undo(family: Family) -> &'static str {
    match family {
        Family::Debian => "sudo rm /etc/default/grub.d/zz-gds-top.cfg && sudo update-grub, then reboot",
        Family::RedHat | Family::Suse => "choose the old kernel in the boot menu",
    }
}

/// The commands that start an installed kernel. DKMS builds its modules first, if it has them for another one only.
pub(super) fn changes(family: Family, release: &str, to_build: bool) -> Vec<Change> {
    let build = to_build.then(|| run(&format!("sudo dkms autoinstall -k {release}")));
    let found = run(&format!("sudo modinfo -k {release} -n nvidia"));
    build.into_iter().chain([found, start_by_default(family, release, ""), run("sudo reboot")]).collect()
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
            assert!(!is_foreign(release), "{release}");
        }
        for release in ["6.12.31-hpc2", "6.18.0", "6.1.55-custom+"] {
            assert!(is_foreign(release), "{release}");
        }
    }
}
