//! Plans that install: repository, driver, nvidia-fs, libcufile, keys, storage driver, kernel.

use super::packages::{dkms_version, install, remove};
use super::recipes::{Family, empty, family, run};
use super::{distribution, doca, kernel, repository};
use crate::checks::Report;
use crate::domain::{FixPlan, FixPolicy, FixRisk, Needs};
use crate::host::{Root, os_release};

/// The plan of one of these fixes.
pub(super) fn plan(root: &Root, report: &Report, id: &str) -> Option<FixPlan> {
    let family = family(root);
    Some(match id {
        "nvidia-repository" => repository::plan(root, family),
        "nvidia-driver-open" => repository::driver(root, family),
        "nvfs-install" => FixPlan {
            title: "Install nvidia-fs".to_owned(),
            why: format!(
                "The route nvfs needs this kernel module. '{}' says beforehand what comes with it: on RHEL-like systems the package may pull another \
                 kernel (compare grubby --default-kernel before and after), and precompiled driver packages of branch 570 and later do not go with \
                 modules that DKMS builds. The archives of Debian and Ubuntu carry old versions; NVIDIA's repository has the current one.{}{}",
                match family {
                    Family::Debian => "apt-get install -s nvidia-gds",
                    Family::RedHat => "dnf install --assumeno nvidia-gds",
                    Family::Suse => "zypper install --dry-run nvidia-gds",
                },
                repository::hint(root, family),
                distribution::not_confirmed(root, "nvidia-gds")
            ),
            changes: vec![run(&install(root, family, "nvidia-gds")), run("sudo modprobe nvidia-fs")],
            verify: "gds-top check: nvfs-loaded, nvfs-version and nvfs-devnodes".to_owned(),
            undo: format!(
                "{}: nvidia-gds and what came with it; the loaded module goes at the next boot",
                remove(root, family, "nvidia-gds")
            ),
            // DKMS builds it against the driver's sources and modprobe wants its symbols: a package that cannot be built stays half installed.
            obstacle: (!root.exists("/proc/driver/nvidia/version")).then(|| {
                "nvidia-fs is built against the NVIDIA driver, and none is loaded: install that first, and reboot"
                    .to_owned()
            }),
            ..empty(Needs::Root, FixRisk::Medium, FixPolicy::Ask)
        },
        "libcufile-install" => FixPlan {
            title: "Install libcufile".to_owned(),
            why: format!(
                "Every cuFile read goes through this library. Without root: pip install nvidia-cufile (CUDA 13) or nvidia-cufile-cu12.{}{}",
                repository::hint(root, family),
                distribution::not_confirmed(root, &libcufile_package(root))
            ),
            changes: vec![run(&install(root, family, &libcufile_package(root)))],
            verify: "gds-top check: lib-found".to_owned(),
            undo: remove(root, family, &libcufile_package(root)),
            ..empty(Needs::Root, FixRisk::Low, FixPolicy::Ask)
        },
        "nvfs-dkms" => dkms(root, report, family),
        "secure-boot-key" => key(root, report, family),
        "nvme-patch" => doca::plan(root, report, family),
        "kernel-p2pdma" => kernel::plan(root, report, family),
        _ => return None,
    })
}

/// The key that DKMS signs with is enrolled; a module without a signature is built once more, so that it gets one.
fn key(root: &Root, report: &Report, family: Family) -> FixPlan {
    const UBUNTU: &str = "/var/lib/shim-signed/mok/MOK.der";
    let is_ubuntu = family == Family::Debian && os_release(root, "ID").as_deref() != Some("debian");
    let file = if is_ubuntu { UBUNTU } else { "/var/lib/dkms/mok.pub" };
    let unsigned = report.finding("nvfs-secureboot").is_some_and(|finding| finding.summary.contains("not signed"));
    let mut changes = Vec::new();
    let mut obstacle = None;
    if unsigned {
        if is_ubuntu && !root.exists(UBUNTU) {
            changes.push(run("sudo update-secureboot-policy --new-key"));
        }
        match (dkms_version(root, "nvidia-fs"), crate::host::kernel_release(root)) {
            (Some(version), Some(kernel)) => {
                changes.push(run(&format!("sudo dkms build --force nvidia-fs/{version} -k {kernel}")));
                changes.push(run(&format!("sudo dkms install --force nvidia-fs/{version} -k {kernel}")));
            }
            _ => obstacle = Some("nvidia-fs is not signed, and DKMS, which would sign it, does not know it: install it by its package first".to_owned()),
        }
    }
    changes.push(run(&format!("sudo mokutil --import {file}")));
    changes.push(run("sudo reboot"));
    FixPlan {
        title: "Enrol the key that signs nvidia-fs".to_owned(),
        why: format!(
            "Secure Boot loads only modules whose key is enrolled.{} mokutil asks for a password, and 'Enroll MOK' asks for it again at the console during \
             the next boot, so somebody must be there.",
            if unsigned {
                " The module has no signature yet: DKMS signs what it builds, so it is built once more."
            } else {
                ""
            }
        ),
        changes,
        verify:
            "mokutil --list-enrolled and modinfo -F signer nvidia_fs name the same key; then sudo modprobe nvidia-fs"
                .to_owned(),
        undo: "sudo mokutil --delete with the same file, reboot".to_owned(),
        obstacle,
        ..empty(Needs::Reboot, FixRisk::Medium, FixPolicy::Show)
    }
}

/// The package for the CUDA that the driver can run: a library of CUDA 13 on a driver for CUDA 12 answers with error 35.
fn libcufile_package(root: &Root) -> String {
    let old = root.nvml().cuda_version.as_deref().is_some_and(|version| version.starts_with("12"));
    (if old { "libcufile-12-9" } else { "libcufile-13-0" }).to_owned()
}

fn dkms(root: &Root, report: &Report, family: Family) -> FixPlan {
    let kernel = crate::host::kernel_release(root);
    let module = dkms_version(root, "nvidia-fs");
    let (k, v) = (kernel.as_deref().unwrap_or("KERNEL"), module.as_deref().unwrap_or("VERSION"));
    // Sources before 2.29 read .ko and .ko.xz only, and build a module without symbol versions beside a .ko.zst.
    let compressed =
        report.finding("nvfs-build-inputs").is_some_and(|f| f.evidence.iter().any(|e| e.text.contains(".ko.zst")));
    let too_old = compressed && module.as_deref().and_then(release).is_some_and(|version| version < (2, 29));
    let headers = distribution::headers(root, family, k);
    let tools = match family {
        Family::Debian => format!("dkms build-essential {headers}"),
        Family::RedHat => format!("dkms {headers} gcc make elfutils-libelf-devel"),
        Family::Suse => format!("dkms {headers} gcc make"),
    };
    let mut changes = vec![run(&install(root, family, &tools))];
    // Its Makefile takes the first driver source that it finds, which may be that of the driver before.
    let other_driver =
        report.finding("nvfs-dkms").is_some_and(|f| f.evidence.iter().any(|e| e.text.contains("NVIDIA_SRC_DIR=")));
    let source = root.read_text("/sys/module/nvidia/version").ok().filter(|_| other_driver);
    let with_source = source
        .map_or_else(String::new, |driver| format!("env NVIDIA_SRC_DIR=/usr/src/nvidia-{}/nvidia ", driver.trim()));
    if too_old {
        changes.push(run(&install(root, family, "nvidia-gds")));
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
