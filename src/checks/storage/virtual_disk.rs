//! Recognises virtual disks of hypervisors and clouds. Some of them look like NVMe.

use crate::checks::classes;
use crate::checks::context::Context;
use crate::machine::{self, BlockDevice};

/// The maker of a virtual disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    Amazon,
    Google,
    Azure,
    Alibaba,
    /// A hypervisor whose host the user may control.
    Hypervisor(&'static str),
    /// A hypervisor that the disk does not name.
    Unnamed,
}

/// How the hypervisor of a virtual machine gives it a real disk. Sources: vSphere documentation (DirectPath I/O), and
/// Documentation/virt/hyperv/vpci.rst of the kernel.
fn through(hypervisor: &str) -> String {
    let how = match hypervisor {
        _ if hypervisor.contains("VMware") => {
            "power the virtual machine off and add an NVMe device to it by DirectPath I/O"
        }
        // P2PDMA between two such devices is not documented (classes::undocumented).
        "Microsoft Corporation" => {
            "assign an NVMe device to the virtual machine by Discrete Device Assignment; no direct route is documented for it"
        }
        "Xen" | "innotek GmbH" | "VirtualBox" | "BHYVE" | "bhyve" => {
            "pass an NVMe device through to the virtual machine"
        }
        _ => "pass an NVMe device through to the virtual machine (VFIO)",
    };
    format!("If you control the host, {how}. Otherwise use a machine with a local NVMe disk.")
}

/// How this virtual machine gets a real disk.
pub(crate) fn pass_through(ctx: &Context<'_>) -> String {
    through(ctx.root.read_text("/sys/class/dmi/id/sys_vendor").unwrap_or_default().trim())
}

impl Maker {
    /// The name in a sentence: a virtual disk of `name`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amazon => "Amazon EBS",
            Self::Google => "Google Cloud",
            Self::Azure => "Azure",
            Self::Alibaba => "Alibaba Cloud",
            Self::Hypervisor(name) => name,
            Self::Unnamed => "the hypervisor",
        }
    }

    /// When the data of a local disk of this cloud is lost.
    pub(crate) const fn loss(self) -> Option<&'static str> {
        match self {
            Self::Amazon => Some("Its data is lost when the instance stops."),
            Self::Google => Some("Its data is lost when the virtual machine stops."),
            Self::Azure => Some("Its data is lost when the machine is deallocated."),
            Self::Alibaba => Some("Its data is lost when the instance is released."),
            Self::Hypervisor(_) | Self::Unnamed => None,
        }
    }

    /// A better disk than those of this maker. A customer of a cloud cannot pass devices through to a virtual machine.
    pub(crate) fn advice(self, ctx: &Context<'_>) -> String {
        let disk = match self {
            // NVIDIA documents only compat mode in virtual machines of Amazon and Azure.
            Self::Amazon if classes::undocumented(ctx).is_some() => {
                "An instance store volume, a local NVMe disk, is faster, but stays in compat mode: no direct route is documented there."
            }
            Self::Amazon => "Keep the model on an instance store volume, a local NVMe disk.",
            // Local SSD is emulated as well (cloud.google.com/compute/docs/disks/local-ssd: vendor 1ae0).
            Self::Google => {
                return "Google Cloud has no disk with a direct route, and its Local SSD is virtual too. Reads stay in compat mode.".to_owned();
            }
            Self::Azure => {
                "A size with a local NVMe disk ('Microsoft NVMe Direct Disk') is faster, but stays in compat mode."
            }
            Self::Alibaba => "Use an instance family with a local NVMe disk for the model.",
            Self::Unnamed => return pass_through(ctx),
            Self::Hypervisor(name) => return through(name),
        };
        format!("{disk} {}", self.loss().unwrap_or_default())
    }
}

/// The PCI vendor and device ids of virtual NVMe controllers, and their makers. Instance storage (1d0f:cd00 and
/// others) is real hardware. Sources: pci.ids, and the NVMe pages of AWS and Google Cloud.
const BY_ID: &[(&str, &str, Maker)] = &[
    ("0x1d0f", "0x8061", Maker::Amazon),
    ("0x1d0f", "0x0065", Maker::Amazon),
    ("0x1ae0", "0x001f", Maker::Google),
    ("0x1414", "0x00a9", Maker::Azure),
    ("0x1b36", "0x0010", Maker::Hypervisor("QEMU")),
    ("0x15ad", "0x07f0", Maker::Hypervisor("VMware")),
    ("0x80ee", "0x4e56", Maker::Hypervisor("VirtualBox")),
];

/// The model names of such controllers.
const BY_MODEL: &[(&str, Maker)] = &[
    ("Amazon Elastic Block Store", Maker::Amazon),
    ("nvme_card", Maker::Google),
    ("MSFT NVMe Accelerator", Maker::Azure),
    ("Alibaba Cloud Elastic Block Storage", Maker::Alibaba),
    ("QEMU NVMe", Maker::Hypervisor("QEMU")),
    ("VMware Virtual NVMe", Maker::Hypervisor("VMware")),
    ("ORCL-VBOX-NVME", Maker::Hypervisor("VirtualBox")),
    ("bhyve-NVMe", Maker::Hypervisor("bhyve")),
];

/// The names that clouds write into the DMI table of their machines. The number is Azure's; Hyper-V elsewhere has
/// another one.
const BY_DMI: &[(&str, &str, Maker)] = &[
    ("/sys/class/dmi/id/sys_vendor", "Amazon EC2", Maker::Amazon),
    ("/sys/class/dmi/id/sys_vendor", "Google", Maker::Google),
    ("/sys/class/dmi/id/sys_vendor", "Alibaba Cloud", Maker::Alibaba),
    ("/sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", Maker::Azure),
];

/// The cloud of this machine, and the evidence.
pub(crate) fn cloud(ctx: &Context<'_>) -> Option<(Maker, String, String)> {
    BY_DMI.iter().find_map(|(path, name, maker)| {
        let text = ctx.root.read_text(path).ok()?.trim().to_owned();
        (text == *name).then(|| (*maker, (*path).to_owned(), text))
    })
}

/// The maker of a virtual disk, and the evidence. `None` for a real disk.
pub(crate) fn maker(ctx: &Context<'_>, disk: &BlockDevice) -> Option<(Maker, String, String)> {
    let is_named = |starts: &[&str]| starts.iter().any(|start| disk.name.starts_with(start));
    if is_named(&["vd", "xvd"]) {
        let hypervisor = || (Maker::Unnamed, "/sys/dev/block".to_owned(), disk.name.clone());
        return Some(cloud(ctx).unwrap_or_else(hypervisor));
    }
    if is_named(&["sd"]) {
        return cloud(ctx);
    }
    let controller = machine::nvme_controller(&disk.name)?;
    let read = |path: &str| ctx.root.read_text(path).ok().map(|text| text.trim().to_owned());
    let model = format!("/sys/class/nvme/{controller}/model");
    let text = read(&model).unwrap_or_default();
    if let Some((_, maker)) = BY_MODEL.iter().find(|(known, _)| text.contains(known)) {
        return Some((*maker, model, text));
    }
    let on_bus = disk.pci_bus_id.as_deref().map(|address| format!("/sys/bus/pci/devices/{address}"));
    [on_bus, Some(format!("/sys/class/nvme/{controller}/device"))].into_iter().flatten().find_map(|folder| {
        let (vendor, device) = (read(&format!("{folder}/vendor"))?, read(&format!("{folder}/device"))?);
        let (.., maker) = BY_ID.iter().find(|(v, d, _)| *v == vendor && *d == device)?;
        Some((*maker, folder, format!("{vendor}:{device}")))
    })
}
