//! Transfers that the IOMMU stopped, in the kernel log, and whether their device belongs to an examined route.

use crate::checks::context::Context;

/// Whether a line of the kernel log reports a transfer that the IOMMU stopped: of AMD, or of Intel.
pub(crate) fn is_fault(line: &str) -> bool {
    line.contains("IO_PAGE_FAULT") || (line.contains("DMAR:") && line.contains("fault addr"))
}

/// Whether such a line is about a GPU or a disk of the paths. USB controllers of some boards have faults at every boot.
pub(crate) fn is_of_route(ctx: &Context<'_>, line: &str) -> bool {
    let facts = || ctx.subjects.iter().filter_map(|subject| subject.facts.as_ref());
    let disks: Vec<&str> =
        facts().flat_map(|facts| &facts.block_device).filter_map(|disk| disk.pci_bus_id.as_deref()).collect();
    let gpus: Vec<&str> = ctx.pci().into_iter().flatten().map(|gpu| gpu.address.as_str()).collect();
    // Older kernels and DMAR print the address without its PCI domain: `device=01:00.0`, `[01:00.0]`.
    let words = || line.split(|c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.'));
    let names = |address: &&str| {
        let short = address.split_once(':').map_or(*address, |(_, rest)| rest);
        words().map(|word| word.trim_matches([':', '.'])).any(|word| word == *address || word == short)
    };
    let is_unknown = disks.is_empty() && (gpus.is_empty() || line.contains("nvme"));
    is_unknown || disks.iter().chain(&gpus).any(names)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::machine::Root;

    #[test]
    fn a_fault_belongs_to_the_gpu_that_the_line_names() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("sys/bus/pci/devices/0000:be:00.0");
        std::fs::create_dir_all(&device).unwrap();
        for (name, text) in [("vendor", "0x10de\n"), ("class", "0x030200\n"), ("device", "0x2330\n")] {
            std::fs::write(device.join(name), text).unwrap();
        }
        let root = Root::tree(folder.path()).unwrap();
        let ctx = Context::new(&root, &[], None);
        for (line, is_ours) in [
            ("nvidia 0000:be:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x13 address=0xdf]", true),
            ("AMD-Vi: Event logged [IO_PAGE_FAULT device=be:00.0 domain=0x000f address=0x0]", true),
            ("DMAR: [DMA Read NO_PASID] Request device [be:00.0] fault addr 0xdf", true),
            ("DMAR: [DMA Read NO_PASID] Request device [00:14.0] fault addr 0xbe0", false),
            ("xhci_hcd 0001:be:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x13 address=0xdf]", false),
            // The disk of the path is not known.
            ("nvme 0000:c4:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x13 address=0xdf]", true),
        ] {
            assert!(is_fault(line), "{line}");
            assert_eq!(is_of_route(&ctx, line), is_ours, "{line}");
        }
    }
}
