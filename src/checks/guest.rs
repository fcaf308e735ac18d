//! Advice for guests: the topology of a virtual machine is that of its host, and the Windows Subsystem for Linux has
//! nothing to fix for cuFile.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::core::{CheckId, Status};
use crate::machine;

/// Whether this is a virtual machine. A container without access to the processor's flags counts as a host.
pub(crate) fn is_virtual(ctx: &Context<'_>) -> bool {
    const DMI: &str = "/sys/class/dmi/id";
    let cpus = ctx.root.read_text("/proc/cpuinfo").unwrap_or_default();
    if let Some((_, flags)) =
        cpus.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "flags")
    {
        return flags.split_whitespace().any(|flag| flag == "hypervisor");
    }
    // Arm processors have no such flag.
    let read = |name: &str| ctx.root.read_text(format!("{DMI}/{name}")).unwrap_or_default();
    let (vendor, product) = (read("sys_vendor"), read("product_name"));
    ["QEMU", "VMware", "Xen", "innotek"].iter().any(|name| vendor.contains(name))
        || ["KVM", "Virtual Machine", "OpenStack"].iter().any(|name| product.contains(name))
}

/// Whether the CPU type of this virtual machine hides that the host has AMD Zen: the default types of QEMU and Proxmox VE
/// have the vendor of the host and an old family. The kernel allows P2PDMA between root ports from family 17h on
/// (`cpu_supports_p2pdma` in drivers/pci/p2pdma.c, qemu-minimal#59).
pub(crate) fn hides_zen(ctx: &Context<'_>) -> bool {
    let cpus = ctx.root.read_text("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut fields = cpus.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let family = field("cpu family").and_then(|family| family.parse::<u32>().ok());
    field("vendor_id") == Some("AuthenticAMD") && family.is_some_and(|family| family < 0x17) && is_virtual(ctx)
}

/// How the host gives a virtual machine address space for the memory of a GPU. `None` on a machine without a
/// hypervisor. Sources: Dell KB 000199172 and the vGPU release notes of NVIDIA (VMware), Microsoft's "Deploy devices by
/// using DDA" (Hyper-V), OVMF (QEMU).
pub(crate) fn window(ctx: &Context<'_>) -> Option<&'static str> {
    let vendor = ctx.root.read_text("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    if vendor.contains("VMware") {
        return Some(
            "With the virtual machine off and EFI as its firmware, set pciPassthru.use64bitMMIO=TRUE, and pciPassthru.64bitMMIOSizeGB to twice the GPU memory (a power of 2). Then power it on.",
        );
    }
    if !is_virtual(ctx) {
        return None;
    }
    Some(match vendor.trim() {
        "Microsoft Corporation" => {
            "Ask the administrator of the host to enlarge the window: Set-VM NAME -HighMemoryMappedIoSpace 256GB, with the virtual machine off."
        }
        _ => LARGE_WINDOW,
    })
}

const LARGE_WINDOW: &str = "Ask the administrator of the host for a large 64-bit MMIO window (OVMF: X-PciMmio64Mb), and for Resizable BAR on the host.";

/// The request to the administrator of the host for a fault of the topology. `None` for other checks, and for faults
/// that the guest itself configured.
fn request(ctx: &Context<'_>, judged: &Judged) -> Option<&'static str> {
    let cloud = crate::checks::storage::virtual_disk::cloud(ctx).is_some();
    Some(match judged.id {
        CheckId::PcieAcs | CheckId::NvfsBridgesAcs if cloud => {
            "This virtual machine cannot change it. Choose an instance type whose GPUs and NVMe disks share a switch."
        }
        CheckId::PcieAcs | CheckId::NvfsBridgesAcs => {
            "Ask the administrator of the host to switch off ACS redirection for the bridges between GPU and NVMe disk."
        }
        // Grace needs an IOMMU that translates. The arguments of the guest's kernel can prevent that.
        CheckId::IommuState if ctx.is_aarch64() => return None,
        CheckId::IommuState => {
            "Ask the administrator of the host to remove the virtual IOMMU, or to set it to pass-through."
        }
        CheckId::KernelP2pRootports if cloud => {
            "This virtual machine cannot change it. Use nvidia-fs, or an instance type whose GPUs and NVMe disks share a switch."
        }
        CheckId::KernelP2pRootports if hides_zen(ctx) => {
            "On the host, give this virtual machine the CPU type host: in Proxmox VE `qm set VMID --cpu host`, in libvirt `<cpu mode='host-passthrough'/>`. Then shut it down and start it, because a restart inside keeps the old type. It can then only move to hosts with the same CPU."
        }
        CheckId::KernelP2pRootports => {
            "Ask the administrator of the host to put GPU and NVMe disk below one virtual PCIe switch. In libvirt this is a controller pcie-switch-upstream-port with two pcie-switch-downstream-port. Then measure: transfers still pass the IOMMU of the host, and compat mode may be as fast."
        }
        CheckId::GpuBar1Size => window(ctx).unwrap_or(LARGE_WINDOW),
        CheckId::GpuPcieLink | CheckId::NvmeLink => {
            "Ask the administrator of the host to check the slot: its lanes and its bifurcation."
        }
        _ => return None,
    })
}

/// Adapts findings to the Windows Subsystem for Linux and to virtual machines.
pub(crate) fn adapt(ctx: &Context<'_>, judged: Vec<Judged>) -> Vec<Judged> {
    if machine::wsl(ctx.root).is_some() {
        return judged.into_iter().map(in_wsl).collect();
    }
    if !judged.iter().any(|judged| request(ctx, judged).is_some()) || !is_virtual(ctx) {
        return judged;
    }
    let is_cloud = crate::checks::storage::virtual_disk::cloud(ctx).is_some();
    judged
        .into_iter()
        .map(|judged| match request(ctx, &judged) {
            Some(text) if !matches!(judged.finding.status, Status::Pass | Status::Na) && judged.advice.is_some() => {
                let is_changeable = judged.id == CheckId::KernelP2pRootports && !is_cloud;
                let judged = judged.by_hand().advice(text);
                if is_changeable { judged.changeable(Cost::Root) } else { judged }
            }
            _ => judged,
        })
        .collect()
}

/// A finding in WSL: no driver, disk or module changes that cuFile does not work there.
fn in_wsl(judged: Judged) -> Judged {
    if judged.id == CheckId::Wsl || judged.finding.status == Status::Pass {
        return judged;
    }
    Judged { advice: None, explains: false, ..judged.by_hand().aside() }
}
