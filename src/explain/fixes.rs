//! One page for each fix: what it does, what it needs, and whether gds-top can undo it.

/// The page of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Id of the fix.
    pub(super) id: &'static str,
    /// What it does.
    pub(super) does: &'static str,
    /// What it needs, and what to know before it is applied.
    pub(super) needs: &'static str,
}

const fn page(id: &'static str, does: &'static str, needs: &'static str) -> Page {
    Page { id, does, needs }
}

/// The page of the fix with this id.
pub(super) fn of(id: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.id == id)
}

const REBOOT: &str = "It needs root and a reboot.";
const ROOT: &str = "It needs root.";
const PACKAGES: &str = "It needs root and a reboot. Packages are installed by the distribution's package manager; undo does not remove them.";
const SHOWN: &str = "gds-top shows the commands and does not run them.";

/// All fixes, in the order of their recipes.
#[rustfmt::skip]
pub(super) const PAGES: &[Page] = &[
    page("udev-record", "Writes the missing udev record of the disk, with the kind of its file system.", ROOT),
    page("nvidia-repository", "Adds NVIDIA's package repository.", ROOT),
    page("nvidia-driver-open", "Installs the NVIDIA driver with the open kernel modules.", PACKAGES),
    page("nvidia-driver-proprietary", "Installs the proprietary driver branch for GPUs that cannot use the open modules.", PACKAGES),
    page("nvidia-fabricmanager", "Installs and starts the fabric manager of machines with NVSwitch.", PACKAGES),
    page("nvfs-install", "Installs nvidia-fs.", PACKAGES),
    page("nvfs-load", "Loads nvidia-fs now and at every boot, after the drivers that it needs.", ROOT),
    page("nvfs-dkms", "Builds nvidia-fs for the running kernel.", ROOT),
    page("secure-boot-key", "Enrols the key that signs the kernel modules.", "It needs root, a reboot, and a person at the console who chooses 'Enroll MOK'."),
    page("nvme-patch", "Installs DOCA's NVMe driver, which is built for nvidia-fs.", PACKAGES),
    page("iommu-off", "Boots with the IOMMU off or in passthrough.", REBOOT),
    page("acs-redirect", "Disables ACS redirection on the bridges between GPU and disk.", "It needs root and a reboot. Devices below these bridges are no longer isolated from each other."),
    page("ext4-ordered", "Adds data=ordered to the mount options of the file system.", "It needs root and a new mount; the root file system needs a reboot."),
    page("nvme-multipath-off", "Disables native NVMe multipath.", "It needs root and a reboot. Do not use it if disks really have several paths."),
    page("p2pdma-registry-keys", "Sets the driver's registry keys that map BAR1 statically.", REBOOT),
    page("initramfs", "Rebuilds the initramfs, so that module options take effect at the next boot.", REBOOT),
    page("cufile-p2pdma-keys", "Enables P2PDMA in cufile.json, in general and for the transport.", "It needs root for /etc/cufile.json."),
    page("libcufile-install", "Installs libcufile.", "It needs root, or pip for the Python wheel. Undo does not remove packages."),
    page("container-devices", "Shows how to start the container with the devices and mounts that cuFile needs.", SHOWN),
    page("md-udev", "Adds a udev rule that records the level of software RAIDs.", ROOT),
    page("nvfs-stats", "Enables the I/O counters of nvidia-fs.", ROOT),
    page("bar1-large", "Shows how to get a BAR1 as large as the GPU's memory.", SHOWN),
    page("memlock", "Raises the limit of locked memory.", "It needs root and a new login."),
    page("cufile-config", "Corrects a cufile.json that libcufile rejects.", "It needs root for /etc/cufile.json."),
    page("cufile-log", "Shows where libcufile can write its log.", SHOWN),
    page("kernel-p2pdma", "Installs a kernel with PCI P2PDMA, with its headers and the driver's modules.", PACKAGES),
    page("gpu-near-disk", "Shows the GPU that is nearest to the disk.", SHOWN),
    page("move-model", "Shows how to move the model to a local NVMe disk with ext4 or xfs.", SHOWN),
];
