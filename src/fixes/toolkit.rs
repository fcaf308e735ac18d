//! The CUDA version of libcufile and nvidia-gds that matches the driver of a machine.

use super::parts::Family;
use super::{distribution, driver, repository};
use crate::checks::Report;
use crate::machine::{Root, cuda_of_driver, cuda_packages, cuda_served, nvidia_driver};

type Version = (u32, u32);

/// The first CUDA version in a repository, for repositories that start after CUDA 11. Sources: the indexes at
/// developer.download.nvidia.com/compute/cuda/repos (2026-02 to 2026-06). For Ubuntu 24.04 and Debian 13, the release
/// notes of CUDA 12.5 Update 1 and 13.0, which added them.
const FIRST: &[(&str, Version)] =
    &[("debian12", (12, 3)), ("ubuntu2404", (12, 5)), ("debian13", (13, 0)), ("suse16", (13, 2))];

/// From this CUDA version on, nvidia-fs has its own releases and package (NVIDIA GPUDirect Storage Filesystem Kernel
/// Driver, release 2.30; GDS release notes, Included Packages).
const SEPARATE_NVIDIA_FS: Version = (13, 4);

/// The CUDA version of the packages to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolkit {
    /// The version in package names: `12-4`.
    pub(super) suffix: String,
    /// The major version: 12.
    pub(super) major: u32,
    /// Whether nvidia-fs has a separate package.
    pub(super) is_without_nvidia_fs: bool,
    /// Why this version was chosen, in a sentence.
    pub(super) why: String,
    /// Why the repository for this release does not have it. `None` if it does.
    pub(super) obstacle: Option<String>,
    /// Whether the driver supports none of the repository's libraries, but its nvidia-fs.
    pub(super) is_nvidia_fs_only: bool,
}

fn text((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

/// The first CUDA version whose libcufile has P2PDMA (Getting Started with GDS, GDS Installation).
const FIRST_WITH_P2PDMA: Version = (12, 8);

/// The newest packages that the driver supports and that the repository for this release has.
pub(super) fn toolkit(root: &Root, family: Family) -> Toolkit {
    packages(root, family, cuda_packages(root), None)
}

/// The CUDA version that a branch of the driver supports.
fn cuda_of_branch(branch: u32) -> Version {
    cuda_of_driver(&branch.to_string()).unwrap_or((13, 0))
}

/// The packages of a libcufile with P2PDMA. Within a major version, a library of a newer CUDA release runs on an older
/// driver (CUDA Compatibility, minor version compatibility).
pub(super) fn toolkit_with_p2pdma(root: &Root, report: &Report, family: Family) -> Toolkit {
    let coming = driver::coming_branch(root, report);
    let version = coming.map_or_else(|| cuda_packages(root), cuda_of_branch);
    packages(root, family, version.max(FIRST_WITH_P2PDMA), coming)
}

/// The packages of a CUDA version, for the present driver or for that of an earlier step (`coming`).
fn packages(root: &Root, family: Family, version: Version, coming: Option<u32>) -> Toolkit {
    let served = coming.map(cuda_of_branch).or_else(|| cuda_served(root));
    let first = repository::name(root, family)
        .ok()
        .and_then(|name| FIRST.iter().find(|(known, _)| *known == name).map(|(_, first)| *first));
    let of = |version: Version, why: String, obstacle: Option<String>| Toolkit {
        suffix: format!("{}-{}", version.0, version.1),
        major: version.0,
        is_without_nvidia_fs: version >= SEPARATE_NVIDIA_FS,
        why,
        is_nvidia_fs_only: obstacle.is_some() && version.0 == 12,
        obstacle,
    };
    let driver =
        coming.map_or_else(|| nvidia_driver(root), |branch| Some(format!("branch {branch} of an earlier step")));
    let reason = match (served, driver) {
        (Some(served), Some(driver)) if version.0 == served.0 => {
            format!(
                " Driver {driver} supports CUDA {}, so the packages are those of CUDA {}.",
                text(served),
                text(version)
            )
        }
        (Some(served), _) if version.0 < served.0 => {
            format!(" The packages are those of CUDA {}, the last for GPUs before Turing.", text(version))
        }
        (Some(served), _) => {
            format!(" The driver supports CUDA {}, so the packages are those of CUDA {}.", text(served), text(version))
        }
        (None, _) => format!(
            " No driver is known yet; CUDA {} needs driver 580 or later. Install the driver first.",
            text(version)
        ),
    };
    match first {
        // Within a major version, a library of a newer CUDA release runs on an older driver (CUDA Compatibility,
        // minor version compatibility).
        Some(first) if version < first && version.0 == first.0 => of(
            first,
            format!(
                "{reason} The repository for {} starts with CUDA {}, and every release of CUDA {} runs on this driver.",
                distribution::called(root),
                text(first),
                first.0
            ),
            None,
        ),
        Some(first) if version < first => {
            let instead = if version.0 == 12 {
                "take libcufile0 of the distribution's archive or 'pip install nvidia-cufile-cu12', or update the driver to branch 580"
            } else {
                "update the driver to branch 580"
            };
            let why = format!(
                "NVIDIA's repository for {} starts with CUDA {}, but the driver supports only {} (a newer library fails with error 35): {instead}",
                distribution::called(root),
                text(first),
                text(served.unwrap_or(version))
            );
            of(version, reason, Some(why))
        }
        _ => of(version, reason, None),
    }
}
