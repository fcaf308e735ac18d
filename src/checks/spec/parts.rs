//! Parts of a specification: the scope of a check, and the steps of the guide.

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

/// A step of the guide to a proven direct route, in the order of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Use a GPU that supports direct transfers from devices.
    Gpu,
    /// Install the NVIDIA driver.
    Driver,
    /// Install libcufile.
    Libcufile,
    /// Install a storage driver that works with nvidia-fs.
    StorageDriver,
    /// Build nvidia-fs for this kernel and driver.
    Module,
    /// Load nvidia-fs now and at every boot.
    Loaded,
    /// Boot a kernel with PCI P2PDMA.
    Kernel,
    /// Map BAR1 statically.
    Bar1,
    /// Switch NVMe multipath off.
    Multipath,
    /// Let IOMMU and bridges pass transfers between GPU and disk.
    Iommu,
    /// Use a supported disk and file system.
    Disk,
    /// Create the udev record of the disk.
    UdevRecord,
    /// Write a cufile.json that libcufile accepts.
    Config,
    /// Enable P2PDMA in cufile.json.
    P2pConfig,
    /// Reboot, so that the changes take effect.
    InEffect,
    /// Open libcufile.
    Opens,
}
