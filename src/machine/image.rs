//! Recognises hosts whose kernel modules come from an image or from a driver container. A package manager cannot
//! install them there.

use super::root::Root;
use super::summary::{container, os_release};

/// The source of kernel modules on such a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageHost {
    /// RHEL CoreOS of OpenShift, with NVIDIA's GPU Operator.
    OpenShift,
    /// Talos Linux, with system extensions in its image.
    Talos,
    /// Bottlerocket, with the driver in its NVIDIA variants.
    Bottlerocket,
    /// Google's Container-Optimized OS.
    ContainerOptimized,
    /// Flatcar Container Linux, with system extensions.
    Flatcar,
    /// NixOS, with modules and settings from its configuration.
    NixOs,
    /// A system of rpm-ostree or bootc: Fedora CoreOS, Silverblue, RHEL for Edge.
    Ostree,
    /// A system of SUSE whose packages transactional-update changes: SL Micro, MicroOS.
    Transactional,
    /// A distribution with packages whose driver runs in a container of NVIDIA's GPU Operator.
    DriverContainer,
}

impl ImageHost {
    /// The name for sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenShift => "OpenShift",
            Self::Talos => "Talos",
            Self::Bottlerocket => "Bottlerocket",
            Self::ContainerOptimized => "Container-Optimized OS",
            Self::Flatcar => "Flatcar",
            Self::NixOs => "NixOS",
            Self::Ostree => "this image-based system",
            Self::Transactional => "this transactional system",
            Self::DriverContainer => "the GPU Operator",
        }
    }
}

/// The files of the driver container of NVIDIA's GPU Operator, below which its devices and libraries are.
const DRIVER_CONTAINER: [&str; 2] = ["/run/nvidia/driver/dev/nvidiactl", "/run/nvidia/driver/usr/bin/nvidia-smi"];

/// The file that shows that a driver container of NVIDIA's GPU Operator runs the driver of this host.
#[must_use]
pub fn driver_container(root: &Root) -> Option<&'static str> {
    let is_host = container(root).is_none() && !root.exists("/dev/nvidiactl");
    DRIVER_CONTAINER.into_iter().find(|path| is_host && root.exists(path))
}

/// The kind of host. `None` if packages install its kernel modules, and inside a container.
#[must_use]
pub fn image_host(root: &Root) -> Option<ImageHost> {
    if container(root).is_some() {
        return None;
    }
    let variant = os_release(root, "VARIANT_ID").unwrap_or_default();
    match os_release(root, "ID").unwrap_or_default().as_str() {
        "rhcos" => Some(ImageHost::OpenShift),
        "rhel" if variant == "coreos" => Some(ImageHost::OpenShift),
        "talos" => Some(ImageHost::Talos),
        "bottlerocket" => Some(ImageHost::Bottlerocket),
        "cos" => Some(ImageHost::ContainerOptimized),
        "flatcar" => Some(ImageHost::Flatcar),
        "nixos" => Some(ImageHost::NixOs),
        "sl-micro" | "sle-micro" | "opensuse-microos" | "opensuse-leap-micro" => Some(ImageHost::Transactional),
        _ if os_release(root, "OSTREE_VERSION").is_some() || root.exists("/run/ostree-booted") => {
            Some(ImageHost::Ostree)
        }
        _ => driver_container(root).map(|_| ImageHost::DriverContainer),
    }
}

/// The kind of host below a pod or container, from the kernel command line, which a container shares with its host. The
/// image of a container can be another distribution than its host.
#[must_use]
pub fn image_host_of_node(root: &Root) -> Option<ImageHost> {
    let line = root.read_text("/proc/cmdline").ok().filter(|_| container(root).is_some())?;
    let has = |word: &str| line.contains(word);
    Some(match () {
        () if has("/ostree/rhcos-") || has("/ostree/scos-") => ImageHost::OpenShift,
        () if has("talos.platform=") => ImageHost::Talos,
        () if has("flatcar.") => ImageHost::Flatcar,
        () if has(" cros_efi") || has(" cros_secure") => ImageHost::ContainerOptimized,
        () if has(" ostree=") => ImageHost::Ostree,
        () => return None,
    })
}
