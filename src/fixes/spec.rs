//! The specification of every fix: title, changes, undo, needs, check, systems, and the files that it can edit.
//! Lists, documents and plans use it.

use crate::core::{CheckId, FixId, Needs};

/// The effect of an undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Undo restores all changes.
    All,
    /// Undo restores only the files. The text names what is not restored.
    Stays(&'static str),
    /// Undo is not needed, because gds-top only shows the fix.
    NotNeeded,
}

/// The systems on which a fix works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Systems {
    /// All systems.
    All,
    /// Systems on which changes of `/etc` are permanent.
    KeepEtc,
    /// The families of Debian, RHEL and SUSE, because the fix uses their package manager, initramfs or boot loader.
    Families,
}

/// The specification of a fix.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The title, one line. A plan can replace it by a title with a file or disk of the machine.
    pub title: &'static str,
    /// Its changes.
    pub changes: &'static str,
    /// The effect of an undo.
    pub undo: Undo,
    /// The highest rights that it normally needs. The note names an exception.
    pub needs: Needs,
    /// The check that it resolves.
    pub check: CheckId,
    /// Whether it changes the kernel, driver, mounts or boot. A container shares these with its host.
    pub is_of_host: bool,
    /// The systems on which it works.
    pub systems: Systems,
    /// A warning for the user. It can be empty.
    pub note: &'static str,
    /// Patterns of the files that it can edit (see `editable`).
    pub edits: &'static [&'static str],
}

impl Spec {
    /// The required rights and system, as a sentence.
    #[must_use]
    pub fn needs_text(&self) -> String {
        let rights = match self.needs {
            Needs::User => "No special rights",
            Needs::Root => "Root",
            Needs::Reboot => "Root and a reboot",
        };
        let systems = match self.systems {
            Systems::All => "",
            Systems::KeepEtc => "; a system that keeps changes to /etc",
            Systems::Families => "; a distribution of the families of Debian, RHEL or SUSE",
        };
        format!("{rights}{systems}.")
    }

    /// The effect of an undo, as a sentence.
    #[must_use]
    pub fn undo_text(&self) -> String {
        match self.undo {
            // A limit needs no modules, and it is in effect after a new login.
            Undo::All if self.needs == Needs::Reboot && self.systems == Systems::Families => {
                "Restores the settings. Packages and modules for the kernel of the next boot stay.".to_owned()
            }
            Undo::All => "Restores everything that gds-top changed.".to_owned(),
            Undo::Stays(what) if self.edits.is_empty() => format!("Not restored: {what}."),
            Undo::Stays(what) => format!("Restores the files. Not restored: {what}."),
            Undo::NotNeeded => "Not needed: gds-top shows the commands and changes nothing.".to_owned(),
        }
    }
}

/// The files that contain kernel arguments.
const CMDLINE: &[&str] = &["/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline"];
/// The files that contain kernel arguments or module options.
const CMDLINE_OR_MODPROBE: &[&str] =
    &["/etc/modprobe.d/*.conf", "/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline"];
/// The files that contain kernel arguments or module options, and the file for multipathd.
const MULTIPATH: &[&str] = &[
    "/etc/multipath/conf.d/local-nvme.conf",
    "/etc/modprobe.d/*.conf",
    "/etc/default/grub",
    "/etc/default/grub.d/*.cfg",
    "/etc/kernel/cmdline",
];
/// The files that contain kernel arguments, and the table of mounts.
const CMDLINE_OR_FSTAB: &[&str] =
    &["/etc/fstab", "/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline"];
const MODPROBE: &[&str] = &["/etc/modprobe.d/*.conf"];
/// The system's file, and a file that the user names.
const CUFILE_JSON: &[&str] = &["/etc/cufile.json", "*.json", "$CUFILE_ENV_PATH_JSON"];

/// The file for ib_umad, which Fabric Manager needs on boards with NVLink 5.
const IB_UMAD: &[&str] = &["/etc/modules-load.d/ib_umad.conf"];
/// The file for Debian's component contrib.
const CONTRIB: &[&str] = &["/etc/apt/sources.list.d/contrib.list"];
/// The files for a driver: those above.
const DRIVER: &[&str] = &[
    "/etc/modules-load.d/ib_umad.conf",
    "/etc/apt/sources.list.d/contrib.list",
    "/etc/modprobe.d/10-unsupported-modules.conf",
];
const PACKAGES: &str = "installed packages, their dependencies and modules that DKMS built";

/// Whether a fix itself installs kernel modules. The text about its undo names them.
pub(super) const fn installs_modules(id: FixId) -> bool {
    matches!(
        id,
        FixId::NvidiaDriverOpen
            | FixId::NvidiaDriverProprietary
            | FixId::NvfsInstall
            | FixId::NvfsDkms
            | FixId::NvmePatch
            | FixId::NfsRdmaClient
    )
}

/// The specification of a fix.
#[must_use]
#[allow(clippy::too_many_lines, reason = "one entry per fix")]
pub const fn of(id: FixId) -> Spec {
    match id {
        FixId::UdevRecord => Spec {
            title: "Write the udev record of the disk",
            changes: "adds ID_FS_USAGE and ID_FS_TYPE to the disk's record below /run/udev/data",
            undo: Undo::All,
            needs: Needs::Root,
            check: CheckId::UdevDatabase,
            is_of_host: false,
            systems: Systems::All,
            note: "",
            edits: &["/run/udev/data/b*"],
        },
        FixId::NvidiaRepository => Spec {
            title: "Add NVIDIA's package repository",
            changes: "adds the repository and its signing key to the package manager",
            undo: Undo::Stays("the repository and its signing key"),
            needs: Needs::Root,
            check: CheckId::DriverFlavour,
            is_of_host: false,
            systems: Systems::Families,
            note: "NVIDIA's signing key is trusted for packages on this machine.",
            edits: CONTRIB,
        },
        FixId::NvidiaDriverOpen => Spec {
            title: "Install the open kernel modules of the NVIDIA driver",
            changes: "installs kernel headers and the driver with open modules; replaces a proprietary one",
            undo: Undo::Stays(PACKAGES),
            needs: Needs::Reboot,
            check: CheckId::DriverFlavour,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: DRIVER,
        },
        FixId::NvidiaDriverProprietary => Spec {
            title: "Install the proprietary NVIDIA driver",
            changes: "installs kernel headers and the last driver branch for GPUs before Turing",
            undo: Undo::Stays(PACKAGES),
            needs: Needs::Reboot,
            check: CheckId::GpuPresent,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: DRIVER,
        },
        FixId::NvidiaFabricmanager => Spec {
            title: "Install Fabric Manager for the NVSwitches",
            changes: "installs and enables Fabric Manager of the driver's version",
            undo: Undo::Stays("the installed packages and the enabled service"),
            needs: Needs::Root,
            check: CheckId::GpuFabric,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: IB_UMAD,
        },
        FixId::NvfsInstall => Spec {
            title: "Install nvidia-fs",
            changes: "installs and loads nvidia-fs; without a libcufile for the driver, installs that too",
            undo: Undo::Stays(PACKAGES),
            needs: Needs::Reboot,
            check: CheckId::NvfsLoaded,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: &["/etc/modules-load.d/nvidia_fs.conf", "/etc/modprobe.d/10-unsupported-modules.conf"],
        },
        FixId::NvfsLoad => Spec {
            title: "Load nvidia-fs now and at every boot, after the drivers that it needs",
            changes: "adds nvidia_fs to modules-load.d and a softdep to modprobe.d (on SLES also the switch for modules without support), and loads the module",
            undo: Undo::Stays("nvidia-fs, loaded until the next boot or 'sudo modprobe -r nvidia-fs'"),
            needs: Needs::Reboot,
            check: CheckId::NvfsAutoload,
            is_of_host: true,
            systems: Systems::KeepEtc,
            note: "",
            edits: &["/etc/modules-load.d/nvidia_fs.conf", "/etc/modprobe.d/*.conf"],
        },
        FixId::NvfsDkms => Spec {
            title: "Build nvidia-fs for the running kernel",
            changes: "installs build tools and kernel headers, builds nvidia-fs by DKMS and loads it",
            undo: Undo::Stays("installed packages and the new module; an earlier build is not restored"),
            needs: Needs::Reboot,
            check: CheckId::NvfsDkms,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: &["/etc/modules-load.d/nvidia_fs.conf"],
        },
        FixId::SecureBootKey => Spec {
            title: "Enrol the key that signs the modules",
            changes: "signs the modules that DKMS built and requests the enrolment of the key",
            undo: Undo::Stays("the key, enrolled until 'sudo mokutil --delete' and a reboot"),
            needs: Needs::Reboot,
            check: CheckId::NvfsSecureboot,
            is_of_host: true,
            systems: Systems::Families,
            note: "A person at the console must choose 'Enroll MOK' during the reboot.",
            edits: &[],
        },
        FixId::NvmePatch => Spec {
            title: "Install an NVMe driver that is built for GDS",
            changes: "adds DOCA's repository (not with MLNX_OFED), replaces the NVMe driver, rebuilds nvidia-fs and the initramfs",
            undo: Undo::Stays("the repository, its keys, installed packages, built modules and the rebuilt initramfs"),
            needs: Needs::Reboot,
            check: CheckId::NvfsNvmeSymbol,
            is_of_host: true,
            systems: Systems::Families,
            note: "It replaces the driver of the NVMe disks, possibly of the root disk.",
            edits: &[
                "/etc/apt/sources.list.d/doca.list",
                "/etc/yum.repos.d/doca.repo",
                "/etc/modprobe.d/10-unsupported-modules.conf",
            ],
        },
        FixId::NfsRdmaClient => Spec {
            title: "Install an NFS client that is built for GDS",
            changes: "adds DOCA's repository, installs its NFS client, rebuilds nvidia-fs and the initramfs; keeps proto=rdma of a mount over RDMA in /etc/fstab",
            undo: Undo::Stays("the repository, its keys, installed packages, built modules and the rebuilt initramfs"),
            needs: Needs::Reboot,
            check: CheckId::NvfsRegistered,
            is_of_host: true,
            systems: Systems::Families,
            note: "It replaces the drivers of the network cards. VAST has a separate client.",
            edits: &[
                "/etc/fstab",
                "/etc/apt/sources.list.d/doca.list",
                "/etc/yum.repos.d/doca.repo",
                "/etc/modprobe.d/10-unsupported-modules.conf",
            ],
        },
        FixId::IommuOff => Spec {
            title: "Boot with the IOMMU in pass-through mode",
            changes: "adds iommu=pt (Arm: iommu.passthrough=1) to the kernel command line",
            undo: Undo::All,
            needs: Needs::Reboot,
            check: CheckId::IommuState,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: CMDLINE,
        },
        FixId::AcsRedirect => Spec {
            title: "Disable the redirection of PCIe switches to the root complex (ACS)",
            changes: "adds pci=disable_acs_redir for the bridges between GPU and disk to the kernel command line",
            undo: Undo::All,
            needs: Needs::Reboot,
            check: CheckId::PcieAcs,
            is_of_host: true,
            systems: Systems::Families,
            note: "Devices below these bridges are then not isolated from each other.",
            edits: CMDLINE,
        },
        FixId::Ext4Ordered => Spec {
            title: "Mount the file system with an explicit data=ordered",
            changes: "sets data=ordered in the mount options and mounts the file system again",
            undo: Undo::All,
            needs: Needs::Root,
            check: CheckId::Ext4Ordered,
            is_of_host: true,
            systems: Systems::KeepEtc,
            note: "The file system is unmounted for a moment. For the root file system a reboot is needed instead.",
            edits: CMDLINE_OR_FSTAB,
        },
        FixId::NvmeMultipathOff => Spec {
            title: "Disable NVMe native multipath",
            changes: "sets multipath=N of nvme_core in modprobe.d, or on the kernel command line if it is built in, and excludes local disks from multipathd",
            undo: Undo::All,
            needs: Needs::Reboot,
            check: CheckId::NvmeMultipath,
            is_of_host: true,
            systems: Systems::Families,
            note: "Do not use it if disks have several paths.",
            edits: MULTIPATH,
        },
        FixId::P2pdmaRegistryKeys => Spec {
            title: "Map the GPU's BAR1 statically",
            changes: "adds registry keys of the NVIDIA driver to modprobe.d, moves those of the kernel command line there, and rebuilds the initramfs",
            undo: Undo::All,
            needs: Needs::Reboot,
            check: CheckId::GpuStaticBar1,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: CMDLINE_OR_MODPROBE,
        },
        FixId::Initramfs => Spec {
            title: "Rebuild the initramfs, so that settings of modules take effect at the next boot",
            changes: "writes the initramfs again from the current files; excludes nouveau if it uses the GPU",
            undo: Undo::Stays("the new initramfs; the earlier one is overwritten"),
            needs: Needs::Reboot,
            check: CheckId::RebootPending,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: MODPROBE,
        },
        FixId::CufileP2pdmaKeys => Spec {
            title: "Enable P2PDMA in cufile.json",
            changes: "sets properties.use_pci_p2pdma and the key of the storage, such as block.nvme.use_pci_p2pdma, in cufile.json",
            undo: Undo::All,
            needs: Needs::Root,
            check: CheckId::CfgP2pBoth,
            is_of_host: false,
            systems: Systems::All,
            note: "A file that CUFILE_ENV_PATH_JSON names needs no root.",
            edits: CUFILE_JSON,
        },
        FixId::LibcufileInstall => Spec {
            title: "Install libcufile",
            changes: "installs the package of libcufile of the CUDA version that the driver supports",
            undo: Undo::Stays("installed packages and their dependencies"),
            needs: Needs::Root,
            check: CheckId::LibFound,
            is_of_host: false,
            systems: Systems::Families,
            note: "",
            edits: &[],
        },
        FixId::ContainerDevices => Spec {
            title: "Start the container with the devices and files that cuFile needs",
            changes: "shows the options for Docker, Podman, containerd, Enroot, Apptainer and Kubernetes",
            undo: Undo::NotNeeded,
            needs: Needs::Root,
            check: CheckId::CtrDevices,
            is_of_host: false,
            systems: Systems::All,
            note: "Kubernetes, Enroot, Apptainer and a Podman without root need no special rights.",
            edits: &[],
        },
        FixId::MdUdev => Spec {
            title: "Let udev record the level of md RAIDs",
            changes: "adds a udev rule that reads the RAID level, and applies it to the block devices",
            undo: Undo::Stays("MD_LEVEL in udev's records until the next event of the device"),
            needs: Needs::Root,
            check: CheckId::MdRaid,
            is_of_host: true,
            systems: Systems::KeepEtc,
            note: "",
            edits: &["/etc/udev/rules.d/64-md-level-gds.rules"],
        },
        FixId::NvfsStats => Spec {
            title: "Let nvidia-fs count reads and writes",
            changes: "sets the parameter rw_stats_enabled of the loaded module",
            undo: Undo::All,
            needs: Needs::Root,
            check: CheckId::NvfsStatsOn,
            is_of_host: true,
            systems: Systems::All,
            note: "",
            edits: &[],
        },
        FixId::Bar1Large => Spec {
            title: "Make BAR1 as large as the GPU's memory",
            changes: "shows the firmware settings: Above-4G decoding and Resizable BAR",
            undo: Undo::NotNeeded,
            needs: Needs::Reboot,
            check: CheckId::GpuBar1Size,
            is_of_host: true,
            systems: Systems::All,
            note: "",
            edits: &[],
        },
        FixId::Memlock => Spec {
            title: "Lift the limit on locked memory",
            changes: "sets memlock to unlimited in /etc/security/limits.d",
            undo: Undo::All,
            needs: Needs::Reboot,
            check: CheckId::LimMemlock,
            is_of_host: true,
            systems: Systems::KeepEtc,
            note: "It takes effect at the next login.",
            edits: &["/etc/security/limits.d/*.conf"],
        },
        FixId::CufileConfig => Spec {
            title: "Repair cufile.json",
            changes: "corrects values that libcufile rejects, or shows the lines that need a decision",
            undo: Undo::All,
            needs: Needs::Root,
            check: CheckId::CfgParse,
            is_of_host: false,
            systems: Systems::All,
            note: "",
            edits: CUFILE_JSON,
        },
        FixId::CufileLog => Spec {
            title: "Give libcufile a log that it can write",
            changes: "creates the directory that logging.dir names, or shows how to name a log file",
            undo: Undo::All,
            needs: Needs::Root,
            check: CheckId::LogLocation,
            is_of_host: false,
            systems: Systems::All,
            note: "",
            edits: &[],
        },
        FixId::KernelP2pdma => Spec {
            title: "Install a kernel with PCI P2PDMA",
            changes: "installs a newer kernel with its headers and builds the modules for it",
            undo: Undo::Stays("a kernel that was installed; the boot menu still has the old one"),
            needs: Needs::Reboot,
            check: CheckId::KernelP2pdma,
            is_of_host: true,
            systems: Systems::Families,
            note: "",
            edits: &["/etc/apt/sources.list.d/bookworm-backports.list"],
        },
        FixId::GpuNearDisk => Spec {
            title: "Use the GPU that is nearest to the disk",
            changes: "shows how to choose the GPU and the memory node for a program",
            undo: Undo::NotNeeded,
            needs: Needs::User,
            check: CheckId::PcieTopology,
            is_of_host: false,
            systems: Systems::All,
            note: "",
            edits: &[],
        },
        FixId::MoveModel => Spec {
            title: "Move the model to a local NVMe disk with ext4 or xfs",
            changes: "shows how to find a disk and copy the model",
            undo: Undo::NotNeeded,
            needs: Needs::Root,
            check: CheckId::FsType,
            is_of_host: false,
            systems: Systems::All,
            note: "A copy in a pod or from a Podman without root needs no special rights.",
            edits: &[],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remount_needs_a_reboot_only_for_the_root_file_system() {
        let spec = of(FixId::Ext4Ordered);
        assert!(!spec.needs_text().contains("reboot") && spec.note.contains("For the root file system a reboot"));
    }

    #[test]
    fn fixes_by_hand_need_no_undo() {
        for id in FixId::ALL {
            assert_eq!(id.is_by_hand(), of(*id).undo == Undo::NotNeeded, "{id}");
        }
    }
}
