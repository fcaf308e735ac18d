//! The hardware that a report lists: the processor, relevant kernel parameters, the disks below a path, and the NUMA
//! nodes.

use super::disks::disks;
use super::path_facts::PathFacts;
use super::root::Root;
use crate::core::{Disk, NumaNode, Storage};

/// Arm processors by implementer and part (`arch/arm64/include/asm/cputype.h` of Linux). `/proc/cpuinfo` does not
/// contain their names.
const ARM: [(&str, &str, &str); 5] = [
    ("0x41", "0xd0c", "Arm Neoverse N1"),
    ("0x41", "0xd40", "Arm Neoverse V1"),
    ("0x41", "0xd49", "Arm Neoverse N2"),
    ("0x41", "0xd4f", "Arm Neoverse V2"),
    ("0xc0", "0xac3", "Ampere-1"),
];

/// Prefixes of kernel parameters that influence direct reads: IOMMU, PCIe, NUMA, huge pages and drivers.
const PARAMETERS: [&str; 18] = [
    "amd_iommu",
    "arm-smmu",
    "default_hugepagesz",
    "hugepage",
    "intel_iommu",
    "iommu",
    "isolcpus",
    "lockdown",
    "mem_encrypt",
    "mitigations",
    "modprobe.blacklist",
    "module.sig_enforce",
    "nouveau",
    "numa",
    "nvidia",
    "nvme",
    "pci",
    "transparent_hugepage",
];

/// Mount options whose values contain names of servers or users.
const NAMING: [&str; 10] =
    ["addr", "clientaddr", "cred", "localaddr", "mountaddr", "name", "pass", "secret", "user", "username"];

/// The model name of the processor.
pub(super) fn cpu_model(root: &Root) -> Option<String> {
    let text = root.read_text("/proc/cpuinfo").ok()?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))
            .map(|(_, value)| value.trim().to_owned())
    };
    field("model name").or_else(|| {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        let known = ARM.iter().find(|(i, p, _)| *i == implementer && *p == part);
        Some(known.map_or_else(
            || format!("Arm processor, implementer {implementer}, part {part}"),
            |(_, _, name)| (*name).to_owned(),
        ))
    })
}

/// The kernel parameters that concern devices and memory. Other parameters are left out, because they may identify
/// the site.
pub(super) fn kernel_parameters(root: &Root) -> Vec<String> {
    let text = root.read_text("/proc/cmdline").unwrap_or_default();
    let matters = |word: &&str| {
        let word = word.strip_prefix("rd.driver.blacklist").map_or(*word, |_| "modprobe.blacklist");
        PARAMETERS.iter().any(|name| word.starts_with(name))
    };
    text.split_whitespace().filter(matters).map(str::to_owned).collect()
}

/// The NUMA node of a PCI device; `None` if the machine has one node and does not number it.
#[must_use]
pub fn numa_node(root: &Root, address: &str) -> Option<u32> {
    root.read_text(format!("/sys/bus/pci/devices/{address}/numa_node")).ok()?.trim().parse().ok()
}

/// The NUMA nodes of the machine by number. Empty if the kernel does not list them.
pub(super) fn numa_nodes(root: &Root) -> Vec<NumaNode> {
    const NODES: &str = "/sys/devices/system/node";
    let names = root.entries(NODES).unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    numbers.sort_unstable();
    let cpus = |node: u32| root.read_text(format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
    numbers.into_iter().map(|node| NumaNode { node, cpus: cpus(node).trim().to_owned() }).collect()
}

/// The storage devices below each path.
#[must_use]
pub fn storage(root: &Root, paths: &[PathFacts]) -> Vec<Storage> {
    let one = |facts: &PathFacts| Storage {
        path: facts.path.display().to_string(),
        filesystem: facts.filesystem.clone(),
        mount_point: facts.mount_point.as_ref().map(|point| point.display().to_string()),
        mount_options: facts.mount_options.as_deref().map(without_names),
        device: facts.source.clone().filter(|source| source.starts_with("/dev/")),
        disks: disks(facts).into_iter().map(|disk| self::disk(root, &disk.name, disk.pci_bus_id.as_deref())).collect(),
    };
    paths.iter().map(one).collect()
}

fn disk(root: &Root, name: &str, address: Option<&str>) -> Disk {
    let folder = format!("/sys/block/{name}/device");
    let read = |part: &str| {
        let text = root.read_text(format!("{folder}/{part}")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let driver = |of: String| {
        let link = root.link(format!("{of}/driver"))?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    };
    Disk {
        name: name.to_owned(),
        model: read("model"),
        // NVMe uses the name `firmware_rev`, and SCSI uses `rev`.
        firmware: read("firmware_rev").or_else(|| read("rev")),
        driver: driver(folder.clone()).or_else(|| driver(format!("/sys/bus/pci/devices/{}", address?))),
        pci_bus_id: address.map(str::to_owned),
        numa_node: address.and_then(|address| numa_node(root, address)),
    }
}

/// Removes mount options that contain names of servers or users.
fn without_names(options: &str) -> String {
    let names =
        |option: &&str| !option.split_once('=').is_some_and(|(key, _)| NAMING.iter().any(|n| key.starts_with(n)));
    options.split(',').filter(names).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::machine::{BlockDevice, BlockKind};
    use std::path::Path;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let root = Root::tree(folder.path()).unwrap();
        (folder, root)
    }

    #[test]
    fn processors_of_both_architectures_have_names() {
        let (_kept, x86) = root(&[("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654\n")]);
        assert_eq!(cpu_model(&x86).as_deref(), Some("AMD EPYC 9654"));
        let (_kept, grace) = root(&[("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")]);
        assert_eq!(cpu_model(&grace).as_deref(), Some("Arm Neoverse V2"));
        let (_kept, other) = root(&[("proc/cpuinfo", "CPU implementer\t: 0x99\nCPU part\t: 0x1\n")]);
        assert_eq!(cpu_model(&other).as_deref(), Some("Arm processor, implementer 0x99, part 0x1"));
    }

    #[test]
    fn parameters_that_name_the_installation_are_left_out() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ip=10.0.0.7 iommu=pt rd.driver.blacklist=nouveau nvme.poll_queues=4 ks=http://site/key\n";
        let (_kept, root) = root(&[("proc/cmdline", line)]);
        assert_eq!(kernel_parameters(&root), ["iommu=pt", "rd.driver.blacklist=nouveau", "nvme.poll_queues=4"]);
    }

    #[test]
    fn numa_nodes_are_listed_by_number_with_their_cpus() {
        let (_kept, several) = root(&[
            ("sys/devices/system/node/node10/cpulist", "\n"),
            ("sys/devices/system/node/node1/cpulist", "16-31\n"),
            ("sys/devices/system/node/node0/cpulist", "0-15\n"),
            ("sys/devices/system/node/online", "0-1,10\n"),
        ]);
        let node = |node, cpus: &str| NumaNode { node, cpus: cpus.to_owned() };
        assert_eq!(numa_nodes(&several), [node(0, "0-15"), node(1, "16-31"), node(10, "")]);
        let (_kept, none) = root(&[]);
        assert_eq!(numa_nodes(&none), []);
    }

    #[test]
    fn a_disk_has_its_model_firmware_and_node_and_no_serial_number() {
        let (_kept, root) = root(&[
            ("sys/block/nvme0n1/device/model", "SAMSUNG MZQL27T6HBLA-00A07\n"),
            ("sys/block/nvme0n1/device/firmware_rev", "GDC5602Q\n"),
            ("sys/block/nvme0n1/device/serial", "S6CKNN0T123456\n"),
            ("sys/bus/pci/devices/0000:41:00.0/numa_node", "1\n"),
        ]);
        let chain = BlockDevice {
            name: "nvme0n1".into(),
            kind: BlockKind::Disk,
            pci_bus_id: Some("0000:41:00.0".into()),
            ..BlockDevice::default()
        };
        let facts = PathFacts {
            path: Path::new("/data").to_owned(),
            filesystem: Some("ext4".into()),
            mount_options: Some("rw,relatime".into()),
            source: Some("/dev/nvme0n1p1".into()),
            block_device: vec![chain],
            ..PathFacts::default()
        };
        let seen = storage(&root, &[facts]);
        let disk = &seen[0].disks[0];
        assert_eq!(disk.model.as_deref(), Some("SAMSUNG MZQL27T6HBLA-00A07"));
        assert_eq!((disk.firmware.as_deref(), disk.numa_node), (Some("GDC5602Q"), Some(1)));
        assert!(!format!("{seen:?}").contains("S6CKNN0T"));
    }

    #[test]
    fn a_network_file_system_names_no_server() {
        let facts = PathFacts {
            source: Some("filer7.corp.example:/models".into()),
            mount_options: Some("rw,proto=rdma,addr=10.1.2.3,username=anna,port=20049".into()),
            ..PathFacts::default()
        };
        let (_kept, root) = root(&[]);
        let seen = storage(&root, &[facts]);
        assert_eq!(
            (seen[0].device.as_deref(), seen[0].mount_options.as_deref()),
            (None, Some("rw,proto=rdma,port=20049"))
        );
    }
}
