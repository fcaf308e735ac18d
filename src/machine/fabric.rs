//! Whether this machine configures the NVSwitches of its GPUs.

use super::deb::deb_packages;
use super::pci::pci_nvidia;
use super::root::Root;

/// The GPUs of an HGX board.
const BOARD: usize = 8;

/// The vendor of the network cards through which Fabric Manager reaches the NVSwitches of an HGX B200 or B300.
const MELLANOX: &str = "0x15b3";

/// Whether this machine configures the NVSwitches of its GPUs. A virtual machine does so only if it has them: all GPUs of
/// an HGX B200 or B300 and the network cards to its NVSwitches, which are not PCI devices (`NVIDIA/gpu-operator#2781`).
#[must_use]
pub fn runs_fabric(root: &Root) -> bool {
    let Some(seen) = pci_nvidia(root) else { return false };
    let is_guest = || root.nvml().gpus.iter().any(|gpu| gpu.virtualization.as_deref() == Some("passthrough"));
    let of_board = seen.gpus.iter().filter(|gpu| gpu.is_hgx_blackwell() && !gpu.is_lent()).count();
    !seen.nvswitches.is_empty()
        || (of_board > 0 && !is_guest())
        || (of_board >= BOARD
            && root.entries("/sys/bus/pci/devices").is_ok_and(|all| all.iter().any(|at| is_card(root, at))))
}

/// Whether a PCI device is a network card of Mellanox.
fn is_card(root: &Root, address: &str) -> bool {
    let is = |part: &str, wanted: &str| {
        root.read_text(format!("/sys/bus/pci/devices/{address}/{part}"))
            .is_ok_and(|text| text.trim().starts_with(wanted))
    };
    is("vendor", MELLANOX) && is("class", "0x02")
}

/// The version of the installed Fabric Manager, from `Fabric Manager version is : 580.95.05`.
#[must_use]
pub fn fabric_manager_version(root: &Root) -> Option<String> {
    let output = root.command(&["nv-fabricmanager", "--version"])?;
    let text = format!("{}\n{}", output.stdout, output.stderr);
    let version = text.lines().find_map(|line| line.split_once("version is")?.1.split_once(':'))?.1.trim().to_owned();
    (!version.is_empty()).then_some(version)
}

/// The version of Fabric Manager's package in dpkg: `580.82.07` for `580.82.07-1`.
#[must_use]
pub fn fabric_manager_package(root: &Root) -> Option<String> {
    let is_meant = |name: &str| {
        let rest = name.strip_prefix("nvidia-fabricmanager");
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    let package = deb_packages(root).into_iter().find(|package| is_meant(&package.name))?;
    let version = package.version.rsplit(':').next()?.split('-').next()?.to_owned();
    (!version.is_empty()).then_some(version)
}

/// Whether the module is loaded through which Fabric Manager reaches the NVSwitches of boards with NVLink 5.
#[must_use]
pub fn is_umad_loaded(root: &Root) -> bool {
    root.exists("/sys/module/ib_umad")
        || root.read_text("/proc/modules").is_ok_and(|text| text.lines().any(|line| line.starts_with("ib_umad ")))
}
