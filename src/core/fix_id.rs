//! The ids of all fixes. `fixes/spec.rs` has the specification of each fix.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! fix_ids {
    ($($(#[$doc:meta])* $variant:ident = $id:literal,)*) => {
        /// A fix. Its id in JSON, in the journal and on the command line is a stable string.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum FixId {
            $($(#[$doc])* #[serde(rename = $id)] $variant,)*
        }

        impl FixId {
            /// All fixes.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The id: `udev-record`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)*
                }
            }
        }
    };
}

fix_ids! {
    /// Makes the udev record of the disk available.
    UdevRecord = "udev-record",
    /// Adds NVIDIA's package repository.
    NvidiaRepository = "nvidia-repository",
    /// Installs the open kernel modules of the NVIDIA driver.
    NvidiaDriverOpen = "nvidia-driver-open",
    /// Installs the proprietary driver, for GPUs older than Turing.
    NvidiaDriverProprietary = "nvidia-driver-proprietary",
    /// Starts Fabric Manager for NVSwitches.
    NvidiaFabricmanager = "nvidia-fabricmanager",
    /// Installs the packages of nvidia-fs.
    NvfsInstall = "nvfs-install",
    /// Loads nvidia-fs now and at every boot.
    NvfsLoad = "nvfs-load",
    /// Builds nvidia-fs for the running kernel.
    NvfsDkms = "nvfs-dkms",
    /// Enrols the signing key for Secure Boot.
    SecureBootKey = "secure-boot-key",
    /// Installs the NVMe driver of DOCA.
    NvmePatch = "nvme-patch",
    /// Installs the NFS client of DOCA.
    NfsRdmaClient = "nfs-rdma-client",
    /// Sets the IOMMU to pass-through mode.
    IommuOff = "iommu-off",
    /// Switches ACS redirection off in the bridges between GPU and disk.
    AcsRedirect = "acs-redirect",
    /// Adds the mount option `data=ordered`.
    Ext4Ordered = "ext4-ordered",
    /// Switches NVMe multipath off.
    NvmeMultipathOff = "nvme-multipath-off",
    /// Sets the registry keys of the driver for P2PDMA.
    P2pdmaRegistryKeys = "p2pdma-registry-keys",
    /// Rebuilds the initramfs with the current module settings.
    Initramfs = "initramfs",
    /// Sets the keys for P2PDMA in cufile.json.
    CufileP2pdmaKeys = "cufile-p2pdma-keys",
    /// Installs the package of libcufile.
    LibcufileInstall = "libcufile-install",
    /// Starts the container with the devices and files that cuFile needs.
    ContainerDevices = "container-devices",
    /// Adds the udev rule that reports the level of RAIDs.
    MdUdev = "md-udev",
    /// Switches the counters of nvidia-fs on.
    NvfsStats = "nvfs-stats",
    /// Enlarges BAR1.
    Bar1Large = "bar1-large",
    /// Raises the limit on locked memory.
    Memlock = "memlock",
    /// Repairs cufile.json.
    CufileConfig = "cufile-config",
    /// Gives libcufile a log file that it can write.
    CufileLog = "cufile-log",
    /// Installs a kernel with PCI P2PDMA.
    KernelP2pdma = "kernel-p2pdma",
    /// Uses the GPU that is nearest to the disk.
    GpuNearDisk = "gpu-near-disk",
    /// Moves the model to a local NVMe disk.
    MoveModel = "move-model",
}

/// The text is not the id of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFix;

impl FromStr for FixId {
    type Err = UnknownFix;

    fn from_str(text: &str) -> Result<Self, UnknownFix> {
        Self::ALL.iter().copied().find(|id| id.as_str() == text).ok_or(UnknownFix)
    }
}

impl FixId {
    /// Whether it installs another driver of the GPU. Its plan also installs Fabric Manager in that driver's version.
    #[must_use]
    pub const fn installs_driver(self) -> bool {
        matches!(self, Self::NvidiaDriverOpen | Self::NvidiaDriverProprietary)
    }

    /// Whether gds-top changes nothing for it and shows what the user can do.
    #[must_use]
    pub const fn is_by_hand(self) -> bool {
        self.only_shows() || matches!(self, Self::Bar1Large)
    }

    /// Whether its command only shows commands, which the user runs. `fix nvidia-gds` can run them with the other
    /// steps.
    #[must_use]
    pub const fn is_shown(self) -> bool {
        self.is_by_hand()
            || matches!(
                self,
                Self::NvidiaRepository
                    | Self::NvidiaDriverOpen
                    | Self::NvidiaDriverProprietary
                    | Self::NvidiaFabricmanager
                    | Self::SecureBootKey
                    | Self::NvmePatch
                    | Self::NfsRdmaClient
                    | Self::IommuOff
                    | Self::AcsRedirect
                    | Self::KernelP2pdma
            )
    }

    /// Whether gds-top only shows commands, which needs no special rights. The commands can need root.
    #[must_use]
    pub const fn only_shows(self) -> bool {
        matches!(self, Self::ContainerDevices | Self::GpuNearDisk | Self::MoveModel)
    }
}

impl fmt::Display for FixId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq<str> for FixId {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for FixId {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

/// Reads the fix of a finding. A recording of a later version can name a fix that this version does not know. The
/// finding is then read without a fix.
///
/// # Errors
/// If the value is not a string.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FixId>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_same_text_in_json_and_on_the_command_line() {
        for id in FixId::ALL {
            assert_eq!(id.as_str().parse(), Ok(*id));
            assert_eq!(serde_json::to_value(id).unwrap(), id.as_str());
            assert_eq!(serde_json::from_value::<FixId>(id.as_str().into()).unwrap(), *id);
        }
        assert_eq!("no-such-fix".parse::<FixId>(), Err(UnknownFix));
    }
}
