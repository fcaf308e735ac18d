//! Parts of the specification of a check: group, scope, and step of the guide.

use crate::core::fix_id::FixId;
use crate::core::route::Route;
use serde::{Deserialize, Serialize};

/// The specification of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckSpec {
    /// Its group on screens and in reports.
    pub group: Group,
    /// Its scope: the machine, each path, each GPU, or each pair.
    pub scope: Scope,
    /// Its part in the guide. `None` if the guide does not contain the check.
    pub step: Option<CheckStep>,
    /// The routes that it can block.
    pub blocks: &'static [Route],
    /// The examined property, in words.
    pub examines: &'static str,
    /// Why it is relevant.
    pub why: &'static str,
    /// A shell command that shows the same fact.
    pub look: &'static str,
    /// The fixes that can resolve it, the usual one first.
    pub fixes: &'static [FixId],
    /// Whether the first fix applies to all problems of this check whose findings name no fix.
    pub(super) has_default_fix: bool,
    /// The advice if no fix applies. It can be empty.
    pub todo: &'static str,
    /// Usual causes, the most likely first. It can be empty.
    pub causes: &'static [&'static str],
}

impl CheckSpec {
    /// The fix for problems of this check whose findings name no fix.
    #[must_use]
    pub const fn default_fix(&self) -> Option<FixId> {
        if self.has_default_fix { self.fixes.first().copied() } else { None }
    }
}

/// A group of checks, in the order of the Checks screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// GPU and driver.
    Gpu,
    /// The nvidia-fs kernel module.
    NvidiaFs,
    /// Kernel, boot and platform.
    Kernel,
    /// PCIe topology and NVMe.
    Storage,
    /// File system, mount and file.
    Files,
    /// libcufile, cufile.json and the log.
    Cufile,
    /// Containers, users and limits.
    Limits,
}

impl Group {
    /// The title of the group.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Gpu => "GPU and driver",
            Self::NvidiaFs => "nvidia-fs",
            Self::Kernel => "Kernel and platform",
            Self::Storage => "PCIe and NVMe",
            Self::Files => "Files and mounts",
            Self::Cufile => "cuFile library and config",
            Self::Limits => "Container and limits",
        }
    }
}

/// The scope of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine as a unit.
    Machine,
    /// Each path.
    Path,
    /// Each GPU.
    Gpu,
    /// Each path with each GPU.
    Pair,
}

/// The part of a check in the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckStep {
    /// The step that contains the check.
    pub step: Step,
    /// Whether the step depends on the check. Without its result, the state of the step is not known.
    pub is_needed: bool,
}

/// A step of the guide to a proven direct route, in the order of the guide. What needs other hardware or another place
/// of the model is first, so that nothing is installed in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Use a GPU and a system that support direct transfers from devices.
    Gpu,
    /// Use a supported disk and file system.
    Disk,
    /// Use a network card with RDMA.
    Network,
    /// Start the container with its devices and files.
    Container,
    /// Install the NVIDIA driver.
    Driver,
    /// Install libcufile.
    Libcufile,
    /// Install a storage driver that works with nvidia-fs. nvidia-fs is compiled against it, so it comes first.
    StorageDriver,
    /// Build nvidia-fs for this kernel and driver.
    Module,
    /// Load nvidia-fs now and at every boot.
    Loaded,
    /// Install a client of the file system that registers with nvidia-fs.
    Client,
    /// Mount the share over RDMA.
    Mount,
    /// Let network cards reach GPU memory.
    Rdma,
    /// Boot a kernel with PCI P2PDMA.
    Kernel,
    /// Make BAR1 large, and keep a part of it free.
    Bar1Size,
    /// Map BAR1 statically.
    Bar1,
    /// Switch NVMe multipath off.
    Multipath,
    /// Set the IOMMU and the bridges between GPU and disk.
    Iommu,
    /// Create the udev record of the disk.
    UdevRecord,
    /// Write a cufile.json that libcufile accepts.
    Config,
    /// Reboot, so that the changes take effect.
    InEffect,
    /// Open libcufile.
    Opens,
    /// Enable P2PDMA in cufile.json.
    P2pConfig,
}

impl Step {
    /// All steps, in the order of the guide.
    pub const ALL: [Self; 22] = [
        Self::Gpu,
        Self::Disk,
        Self::Network,
        Self::Container,
        Self::Driver,
        Self::Libcufile,
        Self::StorageDriver,
        Self::Module,
        Self::Loaded,
        Self::Client,
        Self::Mount,
        Self::Rdma,
        Self::Kernel,
        Self::Bar1Size,
        Self::Bar1,
        Self::Multipath,
        Self::Iommu,
        Self::UdevRecord,
        Self::Config,
        Self::InEffect,
        Self::Opens,
        Self::P2pConfig,
    ];

    /// The title: the state in which the step is done.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Gpu => "A GPU that supports direct transfers from devices",
            Self::Disk => "The model's disk and file system",
            Self::Network => "A network card with RDMA",
            Self::Container => "The container's devices and files",
            Self::Driver => "The NVIDIA driver",
            Self::Libcufile => "libcufile",
            Self::StorageDriver => "A storage driver that works with nvidia-fs",
            Self::Module => "The kernel module nvidia-fs, built for this kernel",
            Self::Loaded => "nvidia-fs loaded, now and at every boot",
            Self::Client => "A storage driver or client registered with nvidia-fs",
            Self::Mount => "A mount over RDMA",
            Self::Rdma => "Network cards that reach GPU memory",
            Self::Kernel => "A kernel with PCI P2PDMA",
            Self::Bar1Size => "The size of the GPU's BAR1",
            Self::Bar1 => "The GPU's BAR1 mapped statically",
            Self::Multipath => "NVMe disks without the multipath head",
            Self::Iommu => "The mode of the IOMMU",
            Self::UdevRecord => "udev's record of the disk",
            Self::Config => "cufile.json",
            Self::InEffect => "The changes in effect",
            Self::Opens => "libcufile opens",
            Self::P2pConfig => "P2PDMA enabled in cufile.json",
        }
    }

    /// Whether a route needs the step.
    #[must_use]
    pub const fn is_for(self, route: Route) -> bool {
        match self {
            Self::StorageDriver | Self::Module | Self::Loaded | Self::Client | Self::Mount => {
                matches!(route, Route::Nvfs)
            }
            Self::Network => matches!(route, Route::Nvfs | Route::Rdma),
            Self::Rdma => matches!(route, Route::Rdma),
            Self::Kernel | Self::Bar1 | Self::Multipath => matches!(route, Route::P2pdma),
            Self::Bar1Size => matches!(route, Route::Nvfs | Route::P2pdma),
            Self::P2pConfig => matches!(route, Route::P2pdma | Route::C2c),
            Self::Iommu => route.is_direct(),
            _ => true,
        }
    }
}
