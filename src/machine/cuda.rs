//! Finds the CUDA version that the NVIDIA driver supports.

use super::pci::{Architecture, gpu_kinds};
use super::root::Root;
use super::summary::nvidia_version_line;

/// CUDA versions and the oldest driver branch that supports each of them. Source: the table "CUDA Toolkit and
/// Corresponding Driver Versions" of the CUDA Toolkit Release Notes
/// (docs.nvidia.com/cuda/cuda-toolkit-release-notes). A driver also supports all older CUDA versions. Branch 565
/// supports 12.7, but no toolkit of that version was released.
const SERVED: &[(u32, (u32, u32))] = &[
    (470, (11, 4)),
    (495, (11, 5)),
    (510, (11, 6)),
    (515, (11, 7)),
    (520, (11, 8)),
    (525, (12, 0)),
    (530, (12, 1)),
    (535, (12, 2)),
    (545, (12, 3)),
    (550, (12, 4)),
    (555, (12, 5)),
    (560, (12, 6)),
    (565, (12, 7)),
    (570, (12, 8)),
    (575, (12, 9)),
    (580, (13, 0)),
    (590, (13, 1)),
    (595, (13, 2)),
    (610, (13, 3)),
];

/// The CUDA version that a driver supports; `None` before branch 470.
#[must_use]
pub fn cuda_of_driver(version: &str) -> Option<(u32, u32)> {
    let branch: u32 = version.split('.').next()?.trim().parse().ok()?;
    SERVED.iter().rev().find(|(oldest, _)| branch >= *oldest).map(|(_, cuda)| *cuda)
}

/// The CUDA version that this machine's driver supports. The source is NVML, or else the branch of the loaded or
/// installed driver.
#[must_use]
pub fn cuda_served(root: &Root) -> Option<(u32, u32)> {
    let of_nvml = root.nvml().cuda_version.as_deref().and_then(|text| {
        let (major, minor) = text.split_once('.')?;
        Some((major.trim().parse().ok()?, minor.trim().parse().ok()?))
    });
    of_nvml.or_else(|| cuda_of_driver(&nvidia_driver(root)?))
}

/// The CUDA versions for which packages `libcufile-X-Y` and `nvidia-gds-X-Y` exist. Sources: labels of nvidia-gds on
/// anaconda.org/nvidia, and indexes of developer.download.nvidia.com/compute/cuda/repos.
const RELEASED: &[(u32, u32)] = &[
    (11, 4),
    (11, 5),
    (11, 6),
    (11, 7),
    (11, 8),
    (12, 0),
    (12, 1),
    (12, 2),
    (12, 3),
    (12, 4),
    (12, 5),
    (12, 6),
    (12, 8),
    (12, 9),
    (13, 0),
    (13, 1),
    (13, 2),
    (13, 3),
    // Source: archive of the CUDA Toolkit release notes, 13.4.1 and 13.4.2.
    (13, 4),
];
/// The last CUDA version for GPUs older than Turing. CUDA 13 removed Maxwell, Pascal and Volta (CUDA 13.0 Release
/// Notes).
const LAST_BEFORE_TURING: (u32, u32) = (12, 9);
/// The CUDA version for a machine without a driver. Any driver of branch 580 or later supports it.
const WITHOUT_DRIVER: (u32, u32) = (13, 0);

/// The newest CUDA version that has packages and that both the driver and the GPUs support.
#[must_use]
pub fn cuda_packages(root: &Root) -> (u32, u32) {
    let is_before_turing = gpu_kinds(root).iter().any(|gpu| gpu.architecture < Architecture::TuringOrLater);
    let limit = if is_before_turing { LAST_BEFORE_TURING } else { (u32::MAX, 0) };
    let wanted = cuda_served(root).unwrap_or(WITHOUT_DRIVER).min(limit);
    RELEASED.iter().rev().find(|version| **version <= wanted).copied().unwrap_or(RELEASED[0])
}

/// The version of the NVIDIA driver: of the loaded driver, or else of the driver that is installed for the running
/// kernel or came from NVIDIA's installer.
#[must_use]
pub fn nvidia_driver(root: &Root) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let loaded = root.read_text("/sys/module/nvidia/version").ok();
    let loaded = loaded.or_else(|| {
        let line = nvidia_version_line(root)?;
        line.split_whitespace().find(is_version).map(str::to_owned)
    });
    let installed = || {
        let output = root.command(&["modinfo", "nvidia"]).filter(|output| output.exit_code == Some(0))?;
        output.stdout.lines().find_map(|line| line.strip_prefix("version:")).map(str::to_owned)
    };
    // NVIDIA's installer without DKMS builds modules for one kernel only, and its log remains.
    let logged = || {
        let log = root
            .read_text("/var/log/nvidia-installer.log")
            .ok()
            .filter(|_| root.exists("/usr/bin/nvidia-uninstall"))?;
        log.lines().find_map(|line| line.strip_prefix("installer version:")).map(str::to_owned)
    };
    loaded.or_else(installed).or_else(logged).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_branch_serves_the_cuda_of_the_release_notes() {
        for (driver, wanted) in [
            ("460.32.03", None),
            ("535.183.01", Some((12, 2))),
            ("550.163.01", Some((12, 4))),
            ("570.133.20", Some((12, 8))),
            ("580.95.05", Some((13, 0))),
            ("585.10", Some((13, 0))),
            ("610.57.04", Some((13, 3))),
        ] {
            assert_eq!(cuda_of_driver(driver), wanted, "{driver}");
        }
    }
}
