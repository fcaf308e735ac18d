//! Lists NVIDIA GPUs and NVSwitches on the PCI bus. They are visible without a driver.

use super::root::Root;

/// The first driver branch for Blackwell.
pub const BRANCH_OF_BLACKWELL: u32 = 570;

/// One GPU from sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciGpu {
    /// PCI address.
    pub address: String,
    /// PCI class: `0x030000` (VGA) or `0x030200` (3D).
    pub class: String,
    /// PCI device id, for example `0x2335`.
    pub device: Option<String>,
    /// The kernel driver that is bound to the GPU.
    pub driver: Option<String>,
}

impl PciGpu {
    /// Architecture, from the PCI device id.
    #[must_use]
    pub fn architecture(&self) -> Option<Architecture> {
        Architecture::of_device(number(self.device.as_deref()?)?)
    }

    /// Whether the GPU is bound to a driver that passes it to a virtual machine. The NVIDIA driver does not list such
    /// a GPU.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        matches!(self.driver.as_deref(), Some("vfio-pci" | "pci-stub" | "xen-pciback"))
    }

    /// Whether NVIDIA lists the GPU for P2PDMA: A100, A40, L4, L40, L40S, H100, H200, B200, B300 (pci.ids of 2026-08-22).
    #[must_use]
    pub fn is_listed_for_p2pdma(&self) -> bool {
        const LISTED: &[u32] = &[
            0x20b0, 0x20b1, 0x20b2, 0x20b3, 0x20b5, 0x20f1, 0x2235, 0x27b8, 0x26b5, 0x26b9, 0x2321, 0x2330, 0x2331,
            0x2336, 0x2337, 0x2339, 0x233d, 0x2335, 0x233b,
        ];
        let id = self.device.as_deref().and_then(number);
        self.is_hgx_blackwell() || id.is_some_and(|id| LISTED.contains(&id))
    }

    /// Whether the GPU is a GeForce of Turing or later. Source: pci.ids of 2026-08-22; no other product has an id in these
    /// ranges.
    #[must_use]
    pub fn is_geforce(&self) -> bool {
        const GEFORCE: &[(u32, u32)] = &[
            (0x1e03, 0x1e07),
            (0x1e2d, 0x1e2e),
            (0x1e81, 0x1e93),
            (0x1eae, 0x1eae),
            (0x1ec2, 0x1ed3),
            (0x1f02, 0x1f03),
            (0x1f06, 0x1f0a),
            (0x1f10, 0x1f15),
            (0x1f42, 0x1f55),
            (0x1f82, 0x1fa0),
            (0x1fd9, 0x1fdd),
            (0x2182, 0x2182),
            (0x2184, 0x2184),
            (0x2187, 0x2188),
            (0x2191, 0x2192),
            (0x21c4, 0x21d1),
            (0x2203, 0x220a),
            (0x2216, 0x222f),
            (0x2414, 0x2420),
            (0x2460, 0x2460),
            (0x2482, 0x2482),
            (0x2484, 0x2489),
            (0x248c, 0x249d),
            (0x24ac, 0x24af),
            (0x24bf, 0x24bf),
            (0x24c7, 0x24dd),
            (0x2501, 0x2504),
            (0x2508, 0x252f),
            (0x2544, 0x2563),
            (0x2582, 0x25a2),
            (0x25a5, 0x25af),
            (0x25e0, 0x25ed),
            (0x2684, 0x2689),
            (0x2702, 0x2717),
            (0x2757, 0x2757),
            (0x2782, 0x2783),
            (0x2786, 0x27a0),
            (0x27e0, 0x27e0),
            (0x2803, 0x2822),
            (0x2860, 0x2860),
            (0x2882, 0x28a3),
            (0x28e0, 0x28e3),
            (0x2b85, 0x2b8c),
            (0x2c02, 0x2c19),
            (0x2c58, 0x2c59),
            (0x2d04, 0x2d19),
            (0x2d58, 0x2d59),
            (0x2d83, 0x2d98),
            (0x2dd8, 0x2dd8),
            (0x2f04, 0x2f18),
            (0x2f58, 0x2f58),
        ];
        let id = self.device.as_deref().and_then(number);
        id.is_some_and(|id| GEFORCE.iter().any(|(first, last)| (*first..=*last).contains(&id)))
    }

    /// Whether the GPU is an Ampere or Ada GPU. Sources: pci.ids of 2026-08-22 and the GPUs that the open kernel modules
    /// 595.45.04 support: Ampere 2080 to 20ff (A100), 2200 to 22ff and 2400 to 25ff, Ada 2600 to 28ff. Hopper has 2300 to
    /// 23ff, Turing lower numbers, and Blackwell higher ones.
    #[must_use]
    pub fn is_ampere_or_ada(&self) -> bool {
        let id = self.device.as_deref().and_then(number);
        id.is_some_and(|id| matches!(id, 0x2080..=0x20ff | 0x2200..=0x22ff | 0x2400..=0x28ff))
    }

    /// Whether the GPU is older than a driver branch, so that each of its drivers supports it. Sources: see
    /// [`Self::is_ampere_or_ada`]; all GPUs from Turing to Hopper were released before the first branch for Blackwell.
    #[must_use]
    pub fn is_before_branch(&self, branch: u32) -> bool {
        let id = self.device.as_deref().and_then(number);
        branch >= BRANCH_OF_BLACKWELL && id.is_some_and(|id| (0x1e02..0x2900).contains(&id))
    }

    /// Whether the GPU is a Turing GPU (see [`Self::is_ampere_or_ada`]): 1e00 to 1fff and 2180 to 21ff.
    #[must_use]
    pub fn is_turing(&self) -> bool {
        let id = self.device.as_deref().and_then(number);
        id.is_some_and(|id| matches!(id, 0x1e00..=0x1fff | 0x2180..=0x21ff))
    }

    /// Whether the GPU is a B200 or B300 of an HGX board. The NVSwitches of these boards are not PCI devices of the
    /// host. Fabric Manager reaches them through `ConnectX-7` bridges and needs nvlsm (Fabric Manager User Guide,
    /// fourth-generation `NVSwitches`).
    #[must_use]
    pub fn is_hgx_blackwell(&self) -> bool {
        // Sources: the GPUs that the open GPU kernel modules 595.45.04 support (B200 2901, B300 SXM6 3182), and
        // pci.ids of 2026-08-22 (HGX B200 168GB 2909).
        self.device.as_deref().and_then(number).is_some_and(|id| matches!(id, 0x2901 | 0x2909 | 0x3182))
    }
}

/// NVIDIA devices (vendor 0x10de) on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciNvidia {
    /// Display and 3D devices by address. nvidia-fs treats these two classes as GPUs (nvfs-pci.h).
    pub gpus: Vec<PciGpu>,
    /// Addresses of the `NVSwitches`. The driver treats each bridge of class 0x0680 as an NVSwitch
    /// (`linux_nvswitch.c`).
    pub nvswitches: Vec<String>,
}

/// The NVIDIA devices on the PCI bus; `None` if the bus cannot be listed.
#[must_use]
pub fn pci_nvidia(root: &Root) -> Option<PciNvidia> {
    let base = "/sys/bus/pci/devices";
    let names = match root.entries(base) {
        Ok(names) => names,
        Err(_) => return None,
    };
    let read = |name: &str, part: &str| {
        root.read_text(format!("{base}/{name}/{part}")).ok().map(|text| text.trim().to_owned())
    };
    let mut out = PciNvidia::default();
    for address in names {
        if read(&address, "vendor").as_deref() != Some("0x10de") {
            continue;
        }
        let Some(class) = read(&address, "class") else { continue };
        if class.starts_with("0x0680") {
            out.nvswitches.push(address);
        } else if class.starts_with("0x0300") || class.starts_with("0x0302") {
            let driver = root
                .link(format!("{base}/{address}/driver"))
                .and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()));
            out.gpus.push(PciGpu { class, device: read(&address, "device"), driver, address });
        }
    }
    Some(out)
}

/// The GPUs on the PCI bus; `None` if the bus cannot be listed.
#[must_use]
pub fn pci_gpus(root: &Root) -> Option<Vec<PciGpu>> {
    pci_nvidia(root).map(|seen| seen.gpus)
}

/// GPU architectures that drivers and cuFile treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// Kepler and older. Driver branch 470 was the last one that supports Kepler.
    BeforeMaxwell,
    /// Compute capability 5.x.
    Maxwell,
    /// Compute capability 6.x.
    Pascal,
    /// Compute capability 7.0 and 7.2.
    Volta,
    /// Compute capability 7.5 and later. These GPUs have the GSP (system processor), which the open kernel modules
    /// need.
    TuringOrLater,
}

impl Architecture {
    /// Architecture from the PCI device id of a display or 3D device. Sources: pci.ids of 2026-08-22, and the GPUs
    /// that the open kernel modules 595.45.04 support. Their list begins at 1E02, and no GPU of an older architecture
    /// has a higher id.
    #[must_use]
    pub const fn of_device(id: u32) -> Option<Self> {
        Some(match id {
            0 => return None,
            0x1e00.. => Self::TuringOrLater,
            0x1d80..=0x1dff => Self::Volta,
            0x15c0..=0x15ff | 0x1720..=0x172f | 0x1b00..=0x1d7f => Self::Pascal,
            0x1340..=0x1aff => Self::Maxwell,
            _ => Self::BeforeMaxwell,
        })
    }

    /// Architecture from the compute capability.
    #[must_use]
    pub const fn of_capability((major, minor): (u32, u32)) -> Self {
        match (major, minor) {
            (..=4, _) => Self::BeforeMaxwell,
            (5, _) => Self::Maxwell,
            (6, _) => Self::Pascal,
            (7, ..=4) => Self::Volta,
            _ => Self::TuringOrLater,
        }
    }

    /// Name of the architecture for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeMaxwell => "Kepler or older",
            Self::Maxwell => "Maxwell",
            Self::Pascal => "Pascal",
            Self::Volta => "Volta",
            Self::TuringOrLater => "Turing or later",
        }
    }
}

/// One GPU of this system, with the facts on which drivers and cuFile depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuKind {
    /// Name of the GPU. If NVML does not list the GPU: its PCI address and device id.
    pub name: String,
    /// Address on the PCI bus.
    pub address: String,
    /// Architecture, from the compute capability, or from the PCI device id if NVML does not list the GPU.
    pub architecture: Architecture,
    /// Whether only the open kernel modules support it. This applies to Blackwell, and to Hopper on a Grace Hopper
    /// board (Driver Installation Guide).
    pub needs_open: bool,
    /// See [`PciGpu::is_hgx_blackwell`].
    pub is_hgx_blackwell: bool,
}

/// The GPUs of this system: all GPUs from NVML, and the other GPUs on the PCI bus that no virtual machine uses.
#[must_use]
pub fn gpu_kinds(root: &Root) -> Vec<GpuKind> {
    let on_bus = pci_gpus(root).unwrap_or_default();
    let at = |address: &str| on_bus.iter().find(|gpu| gpu.address == address);
    let needs_open = |gpu: &PciGpu| {
        gpu.device.as_deref().and_then(number).is_some_and(|id| id >= 0x2900 || matches!(id, 0x2342 | 0x2348))
    };
    let nvml = &root.nvml().gpus;
    let listed = nvml.iter().filter_map(|gpu| {
        let pci = at(&gpu.pci_bus_id);
        let capability = gpu.compute_capability.as_deref().and_then(|text| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        Some(GpuKind {
            name: gpu.name.clone(),
            address: gpu.pci_bus_id.clone(),
            architecture: capability.map(Architecture::of_capability).or_else(|| pci?.architecture())?,
            needs_open: pci.is_some_and(needs_open),
            is_hgx_blackwell: pci.is_some_and(PciGpu::is_hgx_blackwell),
        })
    });
    let others = on_bus.iter().filter(|gpu| !gpu.is_lent() && nvml.iter().all(|n| n.pci_bus_id != gpu.address));
    let others = others.filter_map(|gpu| {
        let id = gpu.device.as_deref()?.trim_start_matches("0x");
        Some(GpuKind {
            name: format!("GPU {} (10de:{id})", gpu.address),
            address: gpu.address.clone(),
            architecture: gpu.architecture()?,
            needs_open: needs_open(gpu),
            is_hgx_blackwell: gpu.is_hgx_blackwell(),
        })
    });
    listed.chain(others).collect()
}

/// Parses a hexadecimal number such as `0x2335`.
fn number(id: &str) -> Option<u32> {
    u32::from_str_radix(id.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_show_a_geforce() {
        let is_geforce = |id: &str| {
            let device = Some(id.to_owned());
            PciGpu { address: String::new(), class: String::new(), device, driver: None }.is_geforce()
        };
        // RTX 2080 Ti, RTX 3090, RTX 4090, RTX 4090 Laptop, RTX 5090.
        for id in ["0x1e04", "0x2204", "0x2684", "0x2757", "0x2b85"] {
            assert!(is_geforce(id), "{id}");
        }
        // T4, A100, A40, L4, L40S, H100, B200, RTX A6000, RTX 6000 Ada, RTX PRO 6000.
        for id in ["0x1eb8", "0x20b2", "0x2235", "0x27b8", "0x26b9", "0x2330", "0x2901", "0x2230", "0x26b1", "0x2bb1"] {
            assert!(!is_geforce(id), "{id}");
        }
    }

    #[test]
    fn gpus_from_turing_to_hopper_are_older_than_branch_570() {
        for (id, branch, wanted) in [
            ("0x26b9", 580, true),
            ("0x1eb8", 570, true),
            ("0x2330", 580, true),
            ("0x26b9", 550, false),
            ("0x2901", 580, false),
            ("0x2bb5", 570, false),
        ] {
            let device = Some(id.to_owned());
            let gpu = PciGpu { address: String::new(), class: String::new(), device, driver: None };
            assert_eq!(gpu.is_before_branch(branch), wanted, "{id} {branch}");
        }
    }

    #[test]
    fn device_ids_give_the_architecture() {
        use Architecture::{BeforeMaxwell, Maxwell, Pascal, TuringOrLater, Volta};
        for (id, wanted) in [
            (0x102d, BeforeMaxwell), // K80
            (0x13f2, Maxwell),       // M60
            (0x17fd, Maxwell),       // M40
            (0x1613, Maxwell),       // GRID M60
            (0x15f8, Pascal),        // P100 PCIe
            (0x15f9, Pascal),        // P100 SXM2
            (0x1b38, Pascal),        // P40
            (0x1bb3, Pascal),        // P4
            (0x1d56, Pascal),        // the highest GP108
            (0x1d81, Volta),         // TITAN V
            (0x1db1, Volta),         // V100 SXM2 16GB
            (0x1db6, Volta),         // V100 PCIe 32GB
            (0x1df6, Volta),         // V100S
            (0x1e02, TuringOrLater), // TITAN RTX
            (0x1eb8, TuringOrLater), // T4
            (0x20b2, TuringOrLater), // A100 SXM4 80GB
            (0x2335, TuringOrLater), // H200
            (0x2901, TuringOrLater), // B200
        ] {
            assert_eq!(Architecture::of_device(id), Some(wanted), "{id:x}");
        }
        for (capability, wanted) in
            [((3, 7), BeforeMaxwell), ((5, 2), Maxwell), ((6, 1), Pascal), ((7, 0), Volta), ((7, 5), TuringOrLater)]
        {
            assert_eq!(Architecture::of_capability(capability), wanted, "{capability:?}");
        }
    }
}
