//! Installs the Fabric Manager of the driver's version on machines with NVSwitches, and nvlsm on boards with NVLink
//! 5.

use super::packages::install;
use super::parts::{Family, empty, line_in, run};
use super::{distribution, repository};
use crate::checks::Report;
use crate::core::{Change, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{
    DriverOrigin, Root, deb_packages, driver_origin, fabric_manager_package, fabric_manager_version, gpu_kinds,
    has_module, is_umad_loaded, kernel_release, module_info, nvidia_driver, os_release, pci_nvidia,
};

/// The driver version that Fabric Manager must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// An exact version.
    Version(String),
    /// The version that the plan installs of this branch, or of the newest one. It is known after the installation.
    Installed(Option<u32>),
}

impl Driver {
    fn branch(&self) -> Option<u32> {
        match self {
            Self::Version(version) => version.split('.').next()?.parse().ok(),
            Self::Installed(branch) => *branch,
        }
    }

    /// The version in a shell command.
    fn version(&self) -> &str {
        match self {
            Self::Version(version) => version,
            Self::Installed(_) => "$(modinfo -F version nvidia)",
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
    let version = driver.version();
    // Names before branch 580 differ.
    let is_old = driver.branch().is_some_and(|branch| branch < 580);
    match family {
        // Ubuntu's archive has one package per branch, and so does NVIDIA's repository before branch 580.
        Family::Debian => {
            let is_without_repository = || {
                os_release(root, "ID").as_deref() == Some("ubuntu") && repository::configured(root, family) == Err(true)
            };
            let from_archive = match driver_origin(root) {
                Some(DriverOrigin::Ubuntu(_)) => true,
                Some(DriverOrigin::Nvidia) => false,
                _ => is_without_repository(),
            };
            match driver.branch().filter(|_| is_old || from_archive) {
                Some(branch) => format!("nvidia-fabricmanager-{branch}={version}*"),
                None => format!("nvidia-fabricmanager={version}*"),
            }
        }
        // RPM packages had a dash in the name before branch 580 (scripts of the EKS AMI for Amazon Linux 2023).
        Family::RedHat | Family::Suse => {
            let name = if is_old { "nvidia-fabric-manager" } else { "nvidia-fabricmanager" };
            let separator = if family == Family::RedHat { '-' } else { '=' };
            format!("{name}{separator}{version}")
        }
    }
}

/// The command that installs Fabric Manager in the exact version of the driver. It replaces a later one, which dnf does
/// for an exact version without an option.
fn install_exactly(root: &Root, family: Family, driver: &Driver) -> Change {
    let package = package(root, family, driver);
    let line = match family {
        Family::Debian => install(root, family, &format!("--allow-downgrades {package}")),
        Family::RedHat => install(root, family, &package),
        Family::Suse => install(root, family, &format!("--oldpackage {package}")),
    };
    match driver {
        Driver::Version(_) => run(&line),
        Driver::Installed(_) => {
            let script = line.trim_start_matches("sudo ").replace(&package, &format!("\"{package}\""));
            Change::Run { argv: ["sudo", "sh", "-c", &script].map(str::to_owned).to_vec() }
        }
    }
}

/// Whether Fabric Manager is installed in the version of the driver.
fn has_version_of(root: &Root, driver: &Driver) -> bool {
    let Driver::Version(version) = driver else { return false };
    let installed = fabric_manager_version(root).or_else(|| fabric_manager_package(root));
    installed.is_some_and(|installed| installed == *version)
}

/// The packages that Fabric Manager needs on boards with NVLink 5, without those that are installed. Its start script
/// fails without ib_umad and nvlsm (Fabric Manager User Guide, fourth-generation NVSwitches).
fn lacking(root: &Root, family: Family) -> Vec<String> {
    if !has_nvlink5(root) {
        return Vec::new();
    }
    let installed = deb_packages(root);
    let is_absent = |name: &str, files: &[&str]| {
        !installed.iter().any(|package| package.name == name) && !files.iter().any(|file| root.exists(file))
    };
    let library = if family == Family::RedHat { "libibumad" } else { "libibumad3" };
    let libraries = ["/usr/lib64/libibumad.so.3", "/usr/lib/x86_64-linux-gnu/libibumad.so.3"];
    let parts: [(&str, &[&str]); 3] = [
        ("nvlsm", &["/opt/nvidia/nvlsm/sbin/nvlsm"]),
        ("infiniband-diags", &["/usr/sbin/ibstat"]),
        (library, &libraries),
    ];
    let mut out: Vec<String> =
        parts.iter().filter(|(name, files)| is_absent(name, files)).map(|(name, _)| (*name).to_owned()).collect();
    let is_ubuntu = family == Family::Debian && os_release(root, "ID").as_deref() == Some("ubuntu");
    let has_modules = || ["mlx5_ib", "ib_umad"].iter().all(|name| has_module(root, name) == Some(true));
    if let Some(kernel) = kernel_release(root).filter(|_| is_ubuntu && !has_modules()) {
        let modules = format!("linux-modules-extra-{kernel}");
        out.extend(is_absent(&modules, &[]).then_some(modules));
    }
    out
}

/// The commands that install and enable Fabric Manager.
pub(super) fn changes(root: &Root, family: Family, driver: &Driver) -> Vec<Change> {
    let mut out: Vec<Change> =
        (!has_version_of(root, driver)).then(|| install_exactly(root, family, driver)).into_iter().collect();
    let packages = lacking(root, family);
    let is_to_load = has_nvlink5(root) && !is_umad_loaded(root);
    if is_to_load {
        out.extend(line_in(root, "/etc/modules-load.d/ib_umad.conf", "ib_umad"));
    }
    if !packages.is_empty() {
        out.push(run(&install(root, family, &packages.join(" "))));
    }
    if is_to_load {
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
    let has =
        if is_needed(root) { "This machine has NVSwitches" } else { "Fabric Manager is for machines with NVSwitches" };
    format!(
        " {has}: CUDA fails with error 802 until Fabric Manager runs. It accepts only the driver with its exact version.{nvlsm} \
         '{look}' shows the versions; driver and Fabric Manager must come from the same repository.{not_confirmed}"
    )
}

/// The version of the driver that the next boot loads, if it is not the loaded one.
fn next_driver(root: &Root) -> Option<String> {
    let loaded = nvidia_driver(root)?;
    module_info(root, "nvidia")?.version.filter(|version| *version != loaded)
}

/// The plan of the fix `nvidia-fabricmanager`.
pub(super) fn plan(root: &Root, report: &Report, family: Family) -> FixPlan {
    let next = next_driver(root);
    let driver = next.clone().or_else(|| nvidia_driver(root));
    let is_known = driver.is_some();
    let wanted = driver.map_or(Driver::Installed(None), Driver::Version);
    let parts = if has_version_of(root, &wanted) { lacking(root, family) } else { Vec::new() };
    let mut changes = changes(root, family, &wanted);
    changes.push(run(if next.is_some() { "sudo reboot" } else { "sudo systemctl restart nvidia-fabricmanager" }));
    let replaced = report.replaced_driver();
    let obstacle = if !is_needed(root) {
        Some("this machine shows no NVSwitch; if this is a virtual machine, Fabric Manager runs on its host".to_owned())
    } else if !is_known {
        Some("no NVIDIA driver is installed, so the version is not known: install the driver first".to_owned())
    } else {
        replaced.map(|fix| {
            format!(
                "the driver is replaced, and gds-top fix {fix} installs Fabric Manager in the version of the new one"
            )
        })
    };
    let plan = empty(
        FixId::NvidiaFabricmanager,
        if next.is_some() { Needs::Reboot } else { Needs::Root },
        FixRisk::Medium,
        FixPolicy::Show,
    );
    let (title, undo) = if parts.is_empty() {
        (plan.title.clone(), "sudo systemctl disable --now nvidia-fabricmanager, then remove the package".to_owned())
    } else {
        let parts = parts.join(", ");
        (format!("Install {parts} for Fabric Manager"), format!("remove {parts}"))
    };
    FixPlan {
        title,
        why: why(root, family).trim_start().to_owned(),
        changes,
        verify: "systemctl is-active nvidia-fabricmanager shows active; nvidia-smi -q shows Fabric State: Completed; gds-top check: gpu-fabric".to_owned(),
        undo,
        obstacle,
        ..plan
    }
}
