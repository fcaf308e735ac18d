//! The parts of a specification: the subject of a check, and the steps of the guide.

/// The subject of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine.
    Machine,
    /// Each path.
    Path,
    /// Each GPU.
    Gpu,
    /// Each path with each GPU.
    Pair,
}

/// A step of the guide from a bare machine to a proven direct route, in the order of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A GPU that supports direct transfers from devices.
    Gpu,
    /// The NVIDIA driver.
    Driver,
    /// libcufile.
    Libcufile,
    /// A storage driver that works with nvidia-fs.
    StorageDriver,
    /// nvidia-fs, built for this kernel and driver.
    Module,
    /// nvidia-fs, loaded now and at every boot.
    Loaded,
    /// A kernel with PCI P2PDMA.
    Kernel,
    /// BAR1, mapped statically.
    Bar1,
    /// NVMe disks without the multipath head.
    Multipath,
    /// An IOMMU and bridges that let GPU and disk communicate.
    Iommu,
    /// The disk and its file system.
    Disk,
    /// The udev record of the disk.
    UdevRecord,
    /// A cufile.json that libcufile accepts.
    Config,
    /// P2PDMA enabled in cufile.json.
    P2pConfig,
    /// The changes in effect.
    InEffect,
    /// libcufile opens.
    Opens,
}
