//! Plans that install: repository, driver, nvidia-fs, libcufile, keys, storage driver, kernel.

use super::recipes::{Family, empty, family, initramfs, run};
use crate::checks::Report;
use crate::domain::{FixPlan, FixPolicy, FixRisk, Needs};
use crate::host::{Root, os_release};

/// The plan of one of these fixes.
pub(super) fn plan(root: &Root, report: &Report, id: &str) -> Option<FixPlan> {
    let family = family(root);
    Some(match id {
        "nvidia-repository" => repository(root, family),
        "nvidia-driver-open" => driver(root, family),
        "nvfs-install" => FixPlan {
            title: "Install nvidia-fs".to_owned(),
            why: format!(
                "The route nvfs needs this kernel module. '{}' says beforehand what comes with it: on RHEL-like systems the package may pull another \
                 kernel (compare grubby --default-kernel before and after), and precompiled driver packages of branch 570 and later do not go with \
                 modules that DKMS builds. The archives of Debian and Ubuntu carry old versions; NVIDIA's repository has the current one.",
                match family {
                    Family::Debian => "apt-get install -s nvidia-gds",
                    Family::RedHat => "dnf install --assumeno nvidia-gds",
                    Family::Suse => "zypper install --dry-run nvidia-gds",
                }
            ),
            changes: vec![run(&install(family, "nvidia-gds")), run("sudo modprobe nvidia-fs")],
            verify: "gds-top check: nvfs-loaded, nvfs-version and nvfs-devnodes".to_owned(),
            undo: format!("{}, which takes the module away at the next boot", remove(family, "nvidia-gds")),
            ..empty(Needs::Root, FixRisk::Medium, FixPolicy::Ask)
        },
        "libcufile-install" => FixPlan {
            title: "Install libcufile".to_owned(),
            why: "Every cuFile read goes through this library. Without root: pip install nvidia-cufile (CUDA 13) or nvidia-cufile-cu12.".to_owned(),
            changes: vec![run(&install(family, &libcufile_package(root)))],
            verify: "gds-top check: lib-found".to_owned(),
            undo: remove(family, &libcufile_package(root)),
            ..empty(Needs::Root, FixRisk::Low, FixPolicy::Ask)
        },
        "nvfs-dkms" => dkms(root, report, family),
        "secure-boot-key" => FixPlan {
            title: "Enrol the key that signs nvidia-fs".to_owned(),
            why: "Secure Boot loads only modules whose key is enrolled. mokutil asks for a password, and 'Enroll MOK' asks for it again at the console \
                  during the next boot, so somebody must be there."
                .to_owned(),
            changes: match family {
                Family::Debian if os_release(root, "ID").as_deref() != Some("debian") => {
                    vec![run("sudo mokutil --import /var/lib/shim-signed/mok/MOK.der"), run("sudo reboot")]
                }
                _ => vec![run("sudo mokutil --import /var/lib/dkms/mok.pub"), run("sudo reboot")],
            },
            verify: "mokutil --list-enrolled and modinfo -F signer nvidia_fs name the same key; then sudo modprobe nvidia-fs".to_owned(),
            undo: "sudo mokutil --delete with the same file, reboot".to_owned(),
            ..empty(Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
        },
        "nvme-patch" => FixPlan {
            title: "An NVMe driver that is built for GDS".to_owned(),
            why: "The route nvfs needs it; P2PDMA does not, and is the shorter way where kernel and GPU have it. It replaces the driver of the disks, \
                  perhaps of the root disk. On Ubuntu the linux-nvidia kernels have it ready."
                .to_owned(),
            changes: vec![
                run(match family {
                    Family::Debian => "sudo apt-get install doca-ofed mlnx-nvme-dkms",
                    Family::RedHat => "sudo dnf install doca-ofed kmod-mlnx-nvme",
                    Family::Suse => "sudo ./mlnxofedinstall --with-nvmf --with-nfsrdma --enable-gds --add-kernel-support --dkms",
                }),
                run(initramfs(family)),
                run("sudo reboot"),
            ],
            verify: "grep nvme_v /proc/kallsyms shows nvme_v1_register_nvfs_dma_ops or nvme_v2_…".to_owned(),
            undo: "remove the packages, rebuild the initramfs, reboot".to_owned(),
            ..empty(Needs::Reboot, FixRisk::High, FixPolicy::Show)
        },
        "kernel-p2pdma" => FixPlan {
            title: "A kernel with PCI P2PDMA".to_owned(),
            why: "P2PDMA into GPU memory needs 6.2 or later with CONFIG_PCI_P2PDMA. RHEL 9.5 on x86 is excluded by NVIDIA; 9.6 and 10 have it.".to_owned(),
            changes: vec![
                run(match family {
                    Family::Debian if os_release(root, "ID").as_deref() == Some("debian") => "sudo apt-get install linux-image-amd64",
                    Family::Debian => "sudo apt-get install linux-generic-hwe-24.04",
                    Family::RedHat => "sudo dnf upgrade kernel",
                    Family::Suse => "sudo zypper update kernel-default",
                }),
                run("sudo reboot"),
            ],
            verify: "gds-top check: kernel-p2pdma".to_owned(),
            undo: "choose the old kernel in the boot menu".to_owned(),
            ..empty(Needs::Reboot, FixRisk::High, FixPolicy::Show)
        },
        _ => return None,
    })
}

fn install(family: Family, package: &str) -> String {
    match family {
        Family::Debian => format!("sudo apt-get install -y {package}"),
        Family::RedHat => format!("sudo dnf install -y {package}"),
        Family::Suse => format!("sudo zypper --non-interactive install {package}"),
    }
}

fn remove(family: Family, package: &str) -> String {
    match family {
        Family::Debian => format!("sudo apt-get remove {package}"),
        Family::RedHat => format!("sudo dnf remove {package}"),
        Family::Suse => format!("sudo zypper remove {package}"),
    }
}

/// The package for the CUDA that the driver can run: a library of CUDA 13 on a driver for CUDA 12 answers with error 35.
fn libcufile_package(root: &Root) -> String {
    let old = root.nvml().cuda_version.as_deref().is_some_and(|version| version.starts_with("12"));
    (if old { "libcufile-12-9" } else { "libcufile-13-0" }).to_owned()
}

/// NVIDIA's package repository for the distribution and release of this machine.
fn repository(root: &Root, family: Family) -> FixPlan {
    let id = os_release(root, "ID").unwrap_or_default();
    let version = os_release(root, "VERSION_ID").unwrap_or_default();
    let major = version.split('.').next().unwrap_or_default();
    let name = match (family, id.as_str()) {
        (Family::Debian, "debian") => format!("debian{major}"),
        (Family::Debian, _) => format!("ubuntu{}", version.replace('.', "")),
        (Family::RedHat, "fedora") => format!("fedora{major}"),
        (Family::RedHat, _) => format!("rhel{major}"),
        (Family::Suse, "opensuse-leap") => format!("opensuse{major}"),
        (Family::Suse, _) => format!("sles{major}"),
    };
    let arm = root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64");
    let arch = if arm { "sbsa" } else { "x86_64" };
    let base = format!("https://developer.download.nvidia.com/compute/cuda/repos/{name}/{arch}");
    let changes = match family {
        Family::Debian => vec![
            run(&format!("wget {base}/cuda-keyring_1.1-1_all.deb")),
            run("sudo dpkg -i cuda-keyring_1.1-1_all.deb"),
            run("sudo apt-get update"),
        ],
        Family::RedHat => vec![run(&format!("sudo dnf config-manager --add-repo {base}/cuda-{name}.repo"))],
        Family::Suse => vec![run(&format!("sudo zypper addrepo {base}/cuda-{name}.repo")), run("sudo zypper refresh")],
    };
    FixPlan {
        title: "Add NVIDIA's package repository".to_owned(),
        why: "The current driver, nvidia-gds and libcufile come from there. Adding it means trusting NVIDIA's signing key for packages on this machine, \
              which is yours to decide; without network it is NVIDIA's local repository package instead."
            .to_owned(),
        changes,
        verify: match family {
            Family::Debian => "apt-cache policy nvidia-gds names developer.download.nvidia.com",
            Family::RedHat => "dnf list nvidia-gds finds it",
            Family::Suse => "zypper search nvidia-gds finds it",
        }
        .to_owned(),
        undo: match family {
            Family::Debian => "sudo apt-get purge cuda-keyring".to_owned(),
            Family::RedHat => format!("remove /etc/yum.repos.d/cuda-{name}.repo"),
            Family::Suse => format!("sudo zypper removerepo cuda-{name}"),
        },
        obstacle: (version.is_empty() && !id.contains("tumbleweed"))
            .then(|| "/etc/os-release does not say which release this is, so the address is not known".to_owned()),
        ..empty(Needs::Root, FixRisk::Medium, FixPolicy::Show)
    }
}

fn driver(root: &Root, family: Family) -> FixPlan {
    let newest = os_release(root, "VERSION_ID").is_some_and(|version| version.starts_with("10"));
    let changes = match family {
        Family::RedHat if newest => vec![run("sudo dnf install nvidia-open"), run("sudo reboot")],
        Family::RedHat => vec![
            run("sudo dnf module reset nvidia-driver"),
            run("sudo dnf module enable nvidia-driver:open-dkms"),
            run("sudo dnf install nvidia-open"),
            run("sudo reboot"),
        ],
        Family::Debian => vec![run("sudo apt-get install nvidia-open"), run("sudo reboot")],
        Family::Suse => vec![run("sudo zypper install nvidia-open"), run("sudo reboot")],
    };
    FixPlan {
        title: "Install the open kernel modules of the NVIDIA driver".to_owned(),
        why: "nvidia-fs from 2.17.5 on and P2PDMA work with the open modules only. Not for Pascal and Volta GPUs. GPU programs must stop.".to_owned(),
        changes,
        verify: "/proc/driver/nvidia/version says 'Open Kernel Module'".to_owned(),
        undo: "install the proprietary package of the same version".to_owned(),
        ..empty(Needs::Reboot, FixRisk::High, FixPolicy::Show)
    }
}

/// The version of nvidia-fs that DKMS knows: `nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed`.
fn dkms_version(root: &Root) -> Option<String> {
    let output = root.command(&["dkms", "status"])?;
    let line = output.stdout.lines().find_map(|line| line.strip_prefix("nvidia-fs/"))?;
    Some(line.split([',', ':']).next()?.trim().to_owned()).filter(|version| !version.is_empty())
}

fn dkms(root: &Root, report: &Report, family: Family) -> FixPlan {
    let kernel = crate::host::kernel_release(root);
    let module = dkms_version(root);
    let (k, v) = (kernel.as_deref().unwrap_or("KERNEL"), module.as_deref().unwrap_or("VERSION"));
    // Sources before 2.29 read .ko and .ko.xz only, and build a module without symbol versions beside a .ko.zst.
    let compressed =
        report.finding("nvfs-build-inputs").is_some_and(|f| f.evidence.iter().any(|e| e.text.contains(".ko.zst")));
    let too_old = compressed && module.as_deref().and_then(release).is_some_and(|version| version < (2, 29));
    let mut changes = vec![run(&match family {
        Family::Debian => format!("sudo apt-get install -y dkms build-essential linux-headers-{k}"),
        Family::RedHat => {
            format!("sudo dnf install -y dkms kernel-devel-{k} kernel-headers gcc make elfutils-libelf-devel")
        }
        Family::Suse => "sudo zypper --non-interactive install dkms kernel-default-devel gcc make".to_owned(),
    })];
    // Its Makefile takes the first driver source that it finds, which may be that of the driver before.
    let other_driver =
        report.finding("nvfs-dkms").is_some_and(|f| f.evidence.iter().any(|e| e.text.contains("NVIDIA_SRC_DIR=")));
    let source = root.read_text("/sys/module/nvidia/version").ok().filter(|_| other_driver);
    let with_source = source
        .map_or_else(String::new, |driver| format!("env NVIDIA_SRC_DIR=/usr/src/nvidia-{}/nvidia ", driver.trim()));
    if too_old {
        changes.push(run(&install(family, "nvidia-gds")));
        changes.push(run("sudo dkms autoinstall"));
    } else {
        changes.push(run(&format!("sudo {with_source}dkms build --force nvidia-fs/{v} -k {k}")));
        changes.push(run(&format!("sudo {with_source}dkms install --force nvidia-fs/{v} -k {k}")));
    }
    // A module that is loaded already, and that may have crashed, is changed by a reboot only.
    let needs = if other_driver { Needs::Reboot } else { Needs::Root };
    if !other_driver {
        changes.push(run("sudo modprobe nvidia-fs"));
    }
    let obstacle = match (&kernel, &module) {
        (None, _) => Some("the release of the running kernel is not known".to_owned()),
        (_, None) => Some(
            "dkms status names no nvidia-fs, so which version to build is not known; see gds-top fix nvfs-install"
                .to_owned(),
        ),
        _ if too_old => Some(format!(
            "the driver's modules are .ko.zst, and nvidia-fs {v} cannot read their symbol versions: 2.29 or later is needed, or a build by hand with \
             KBUILD_EXTRA_SYMBOLS at the driver's Module.symvers"
        )),
        _ => None,
    };
    FixPlan {
        title: "Build nvidia-fs for the running kernel".to_owned(),
        why: "The module must be built for this kernel and against the loaded driver. DKMS reports success even where nvidia_p2p symbols stayed \
              unresolved, so only loading it proves the build."
            .to_owned(),
        changes,
        verify: "gds-top check: nvfs-dkms and nvfs-load-errors; modinfo nvidia_fs".to_owned(),
        undo: format!("sudo dkms uninstall nvidia-fs/{v} -k {k}"),
        obstacle,
        ..empty(needs, FixRisk::Low, FixPolicy::Ask)
    }
}

/// Major and minor of a version.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}
