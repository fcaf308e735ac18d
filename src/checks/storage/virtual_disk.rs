//! Recognises virtual disks of hypervisors and clouds. Some of them look like NVMe.

use crate::checks::context::Context;
use crate::machine::{self, BlockDevice};

/// The PCI vendor and device ids of virtual NVMe controllers, and their makers. Instance storage (1d0f:cd00 and
/// others) is real hardware. Sources: pci.ids, and the NVMe pages of AWS and Google Cloud.
const BY_ID: &[(&str, &str, &str)] = &[
    ("0x1d0f", "0x8061", "Amazon EBS"),
    ("0x1d0f", "0x0065", "Amazon EBS"),
    ("0x1ae0", "0x001f", "Google Cloud"),
    ("0x1414", "0x00a9", "Azure"),
    ("0x1b36", "0x0010", "QEMU"),
    ("0x15ad", "0x07f0", "VMware"),
    ("0x80ee", "0x4e56", "VirtualBox"),
];

/// The model names of such controllers.
const BY_MODEL: &[(&str, &str)] = &[
    ("Amazon Elastic Block Store", "Amazon EBS"),
    ("nvme_card", "Google Cloud"),
    ("MSFT NVMe Accelerator", "Azure"),
    ("Alibaba Cloud Elastic Block Storage", "Alibaba Cloud"),
    ("QEMU NVMe", "QEMU"),
    ("VMware Virtual NVMe", "VMware"),
    ("ORCL-VBOX-NVME", "VirtualBox"),
    ("bhyve-NVMe", "bhyve"),
];

/// The maker of a virtual disk, and the evidence. `None` for a real disk.
pub(crate) fn maker(ctx: &Context<'_>, disk: &BlockDevice) -> Option<(&'static str, String, String)> {
    if ["vd", "xvd"].iter().any(|start| disk.name.starts_with(start)) {
        return Some(("the hypervisor", "/sys/dev/block".to_owned(), disk.name.clone()));
    }
    let controller = machine::nvme_controller(&disk.name)?;
    let read = |path: &str| ctx.root.read_text(path).ok().map(|text| text.trim().to_owned());
    let model = format!("/sys/class/nvme/{controller}/model");
    let text = read(&model).unwrap_or_default();
    if let Some((_, maker)) = BY_MODEL.iter().find(|(known, _)| text.contains(known)) {
        return Some((maker, model, text));
    }
    let on_bus = disk.pci_bus_id.as_deref().map(|address| format!("/sys/bus/pci/devices/{address}"));
    [on_bus, Some(format!("/sys/class/nvme/{controller}/device"))].into_iter().flatten().find_map(|folder| {
        let (vendor, device) = (read(&format!("{folder}/vendor"))?, read(&format!("{folder}/device"))?);
        let (.., maker) = BY_ID.iter().find(|(v, d, _)| *v == vendor && *d == device)?;
        Some((*maker, folder, format!("{vendor}:{device}")))
    })
}
