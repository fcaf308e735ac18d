//! The ids of all fixes. `fixes/spec.rs` describes each fix.

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
    /// The udev record of the disk.
    UdevRecord = "udev-record",
    /// NVIDIA's package repository.
    NvidiaRepository = "nvidia-repository",
    /// The open kernel modules of the NVIDIA driver.
    NvidiaDriverOpen = "nvidia-driver-open",
    /// The proprietary driver, for GPUs before Turing.
    NvidiaDriverProprietary = "nvidia-driver-proprietary",
    /// Fabric Manager for NVSwitches.
    NvidiaFabricmanager = "nvidia-fabricmanager",
    /// The packages of nvidia-fs.
    NvfsInstall = "nvfs-install",
    /// nvidia-fs loaded now and at every boot.
    NvfsLoad = "nvfs-load",
    /// nvidia-fs built for the running kernel.
    NvfsDkms = "nvfs-dkms",
    /// The signing key enrolled for Secure Boot.
    SecureBootKey = "secure-boot-key",
    /// The NVMe driver of DOCA.
    NvmePatch = "nvme-patch",
    /// The IOMMU in pass-through mode.
    IommuOff = "iommu-off",
    /// ACS redirection off for the bridges between GPU and disk.
    AcsRedirect = "acs-redirect",
    /// The mount option data=ordered.
    Ext4Ordered = "ext4-ordered",
    /// NVMe multipath off.
    NvmeMultipathOff = "nvme-multipath-off",
    /// The registry keys of the driver for P2PDMA.
    P2pdmaRegistryKeys = "p2pdma-registry-keys",
    /// The initramfs with the present settings of modules.
    Initramfs = "initramfs",
    /// The keys of P2PDMA in cufile.json.
    CufileP2pdmaKeys = "cufile-p2pdma-keys",
    /// The package of libcufile.
    LibcufileInstall = "libcufile-install",
    /// A container with the devices and files that cuFile needs.
    ContainerDevices = "container-devices",
    /// The udev rule for the level of RAIDs.
    MdUdev = "md-udev",
    /// The counters of nvidia-fs.
    NvfsStats = "nvfs-stats",
    /// A large BAR1.
    Bar1Large = "bar1-large",
    /// The limit on locked memory.
    Memlock = "memlock",
    /// A valid cufile.json.
    CufileConfig = "cufile-config",
    /// A log that libcufile can write.
    CufileLog = "cufile-log",
    /// A kernel with PCI P2PDMA.
    KernelP2pdma = "kernel-p2pdma",
    /// The GPU nearest to the disk.
    GpuNearDisk = "gpu-near-disk",
    /// The model on a local NVMe disk.
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

/// Reads the fix of a finding. A recording of a later version may name a fix that this version does not know: the finding is kept without it.
///
/// # Errors
/// The deserializer's.
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
