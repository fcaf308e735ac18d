//! Installs the Fabric Manager of the driver's version on machines with NVSwitches, and nvlsm on boards with NVLink
//! 5.

use super::packages::install;
use super::parts::{Family, empty, line_in, run};
use super::{distribution, repository};
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{Root, gpu_kinds, kernel_release, nvidia_driver, os_release, pci_nvidia};

/// The driver version that Fabric Manager must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// An exact version.
    Version(String),
    /// The newest version of a branch.
    Branch(u32),
    /// The newest version in the repository.
    Newest,
}

impl Driver {
    fn branch(&self) -> Option<u32> {
        match self {
            Self::Version(version) => version.split('.').next()?.parse().ok(),
            Self::Branch(branch) => Some(*branch),
            Self::Newest => None,
        }
    }

    /// The version as a pattern: `580.95.05`, or `580.*` for the newest version of a branch.
    fn pattern(&self) -> Option<String> {
        match self {
            Self::Version(version) => Some(version.clone()),
            Self::Branch(branch) => Some(format!("{branch}.*")),
            Self::Newest => None,
        }
    }
}

/// Whether the machine has NVSwitches.
pub(super) fn is_needed(root: &Root) -> bool {
    pci_nvidia(root).is_some_and(|seen| !seen.nvswitches.is_empty()) || has_nvlink5(root)
}

fn has_nvlink5(root: &Root) -> bool {
    gpu_kinds(root).iter().any(|gpu| gpu.is_hgx_blackwell)
}

/// The name of the package with its version: `nvidia-fabricmanager-580.95.05`.
fn package(root: &Root, family: Family, driver: &Driver) -> String {
    let branch = driver.branch();
    let pattern = driver.pattern();
    match family {
        // Ubuntu's archive has one package per branch, and so does NVIDIA's repository before branch 580.
        Family::Debian => {
            let from_archive = os_release(root, "ID").as_deref() == Some("ubuntu")
                && repository::configured(root, family) == Err(true);
            let name = match branch {
                Some(branch) if branch < 580 || from_archive => format!("nvidia-fabricmanager-{branch}"),
                _ => "nvidia-fabricmanager".to_owned(),
            };
            pattern.map_or_else(|| name.clone(), |pattern| format!("{name}={}*", pattern.trim_end_matches('*')))
        }
        // RPM packages had a dash in the name before branch 580 (scripts of the EKS AMI for Amazon Linux 2023).
        Family::RedHat | Family::Suse => {
            let name = match branch {
                Some(branch) if branch < 580 => "nvidia-fabric-manager",
                _ => "nvidia-fabricmanager",
            };
            match (pattern, family) {
                (Some(pattern), Family::RedHat) => format!("{name}-{pattern}"),
                (Some(pattern), _) => match pattern.strip_suffix(".*") {
                    Some(branch) => format!("{name}<{}", branch.parse::<u32>().map_or(u32::MAX, |n| n + 1)),
                    None => format!("{name}={pattern}"),
                },
                (None, _) => name.to_owned(),
            }
        }
    }
}

/// The commands that install and enable Fabric Manager.
pub(super) fn changes(root: &Root, family: Family, driver: &Driver) -> Vec<Change> {
    let mut out = vec![run(&install(root, family, &package(root, family, driver)))];
    if has_nvlink5(root) {
        // The start script of Fabric Manager fails without ib_umad and nvlsm (Fabric Manager User Guide,
        // fourth-generation NVSwitches).
        let mut packages = match family {
            Family::Debian => "nvlsm infiniband-diags libibumad3",
            Family::RedHat => "nvlsm infiniband-diags libibumad",
            Family::Suse => "nvlsm infiniband-diags libibumad3",
        }
        .to_owned();
        if let Some(kernel) = kernel_release(root)
            .filter(|_| family == Family::Debian && os_release(root, "ID").as_deref() == Some("ubuntu"))
        {
            packages = format!("{packages} linux-modules-extra-{kernel}");
        }
        out.extend(line_in(root, "/etc/modules-load.d/ib_umad.conf", "ib_umad"));
        out.push(run(&install(root, family, &packages)));
        out.push(run("sudo modprobe ib_umad"));
    }
    out.push(run("sudo systemctl enable nvidia-fabricmanager"));
    out
}

/// A sentence for the plan of a driver. It starts with a space.
pub(super) fn why(root: &Root, family: Family) -> String {
    let look = match family {
        Family::Debian => "apt-cache policy nvidia-fabricmanager".to_owned(),
        Family::RedHat => format!("{} list --showduplicates nvidia-fabricmanager", distribution::dnf(root)),
        Family::Suse => "zypper search -s nvidia-fabricmanager".to_owned(),
    };
    let nvlsm = if has_nvlink5(root) { " B200 and B300 boards need nvlsm and ib_umad too." } else { "" };
    let not_confirmed =
        if family == Family::Suse { " It is not confirmed that its repository for SUSE has them." } else { "" };
    format!(
        " This machine has NVSwitches: CUDA fails with error 802 until Fabric Manager runs. It accepts only the driver with its exact version.{nvlsm} \
         '{look}' shows the versions; driver and Fabric Manager must come from the same repository.{not_confirmed}"
    )
}

/// The plan of the fix `nvidia-fabricmanager`.
pub(super) fn plan(root: &Root, family: Family) -> FixPlan {
    let driver = nvidia_driver(root);
    let wanted = driver.map_or(Driver::Newest, Driver::Version);
    let mut changes = changes(root, family, &wanted);
    changes.push(run("sudo systemctl restart nvidia-fabricmanager"));
    let obstacle = if !is_needed(root) {
        Some("this machine shows no NVSwitch; if this is a virtual machine, Fabric Manager runs on its host".to_owned())
    } else if wanted == Driver::Newest {
        Some("no NVIDIA driver is installed, so the version is not known: install the driver first".to_owned())
    } else {
        None
    };
    FixPlan {
        why: why(root, family).trim_start().to_owned(),
        changes,
        verify: "systemctl is-active nvidia-fabricmanager shows active; nvidia-smi -q shows Fabric State: Completed; gds-top check: gpu-fabric".to_owned(),
        undo: "sudo systemctl disable --now nvidia-fabricmanager, then remove the package".to_owned(),
        obstacle,
        ..empty(FixId::NvidiaFabricmanager, Needs::Root, FixRisk::Medium, FixPolicy::Show)
    }
}
