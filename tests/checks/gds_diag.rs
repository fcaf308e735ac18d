//! Tests the statements of docs/gds-diag.md about each report of NVIDIA's gds-diag. The named check runs on a machine
//! with that condition.

use crate::machine::*;
use gds_top::core::Status;
use gds_top::machine::Root;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// A report of gds-diag, a machine with that condition, and the check that reports it, with words of its summary or
/// evidence.
type Row = (&'static str, &'static str, Vec<Edit>, &'static str, Status, &'static str);

fn rows() -> Vec<Row> {
    use Status::{Fail, Info, Pass, Warn};
    let pod = || put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#);
    vec![
        ("a GPU on the bus, without a driver", "new-kernel-no-driver", vec![], "gpu-present", Fail, "0000:be:00.0"),
        ("open driver", "nvfs-healthy", vec![], "driver-flavour", Pass, "open"),
        ("proprietary driver", "proprietary-nvfs", vec![], "driver-flavour", Fail, "proprietary"),
        ("kernel with PCI P2PDMA", "p2pdma-healthy", vec![], "kernel-p2pdma", Pass, "CONFIG_PCI_P2PDMA"),
        ("a kernel that is too old", "p2pdma-healthy", kernel("5.15.0-100-generic"), "kernel-version", Fail, "6.2"),
        ("RHEL 9.5", "rhel-9-5", vec![], "distro-blocklist", Fail, "9.5"),
        ("IOMMU", "iommu-on", vec![], "iommu-state", Fail, "iommu"),
        ("ACS redirect on switches", "acs", vec![], "pcie-acs", Warn, "bridges"),
        (
            "ext4 without a word on data=ordered",
            "nvfs-healthy",
            vec![options("rw,relatime")],
            "ext4-ordered",
            Warn,
            "data=ordered",
        ),
        (
            "ext4 with data=writeback",
            "nvfs-healthy",
            vec![options("rw,data=writeback")],
            "ext4-ordered",
            Fail,
            "writeback",
        ),
        (
            "O_DIRECT is refused",
            "nvfs-healthy",
            vec![path("/0/open_direct", json!("EINVAL"))],
            "odirect-open",
            Warn,
            "EINVAL",
        ),
        ("nvidia-fs loaded", "nvfs-healthy", vec![], "nvfs-loaded", Pass, "loaded"),
        (
            "nvidia-fs is too old",
            "nvfs-healthy",
            vec![put("files/sys/module/nvidia_fs/version", "2.11.0\n")],
            "nvfs-version",
            Fail,
            "2.12",
        ),
        (
            "its devices",
            "nvfs-healthy",
            vec![without("files/dev/nvidia-fs0")],
            "nvfs-devnodes",
            Fail,
            "/dev/nvidia-fs0",
        ),
        (
            "the keys of P2PDMA",
            "p2pdma-healthy",
            vec![config("{\"properties\":{\"use_pci_p2pdma\":true}}")],
            "cfg-p2p-both",
            Fail,
            "block.nvme",
        ),
        ("NVMe multipath", "multipath-on", vec![], "nvme-multipath", Fail, "multipath"),
        ("static BAR1 keys", "p2pdma-two-steps", vec![], "gpu-static-bar1", Fail, "RMForceStaticBar1"),
        (
            "ForceP2P=0 before Hopper",
            "p2pdma-healthy",
            gpu("NVIDIA A100-SXM4-80GB", "8.0"),
            "gpu-static-bar1",
            Fail,
            "ForceP2P=0",
        ),
        (
            "C2C on Grace",
            "grace",
            vec![put("files/proc/driver/nvidia/params", "CoherentGPUMemoryMode: \"driver\"\n")],
            "gpu-coherent-mode",
            Info,
            "CDMM",
        ),
        ("GPU and NVMe by distance", "switch-healthy", vec![], "pcie-topology", Pass, "switch"),
        ("the table of nvidia-fs", "switch-healthy", vec![], "nvfs-peer-distance", Info, "root port"),
        ("cufile.json is not JSON", "broken-cufile-json", vec![], "cfg-parse", Fail, "cufile.json"),
        (
            "a key that libcufile passes over",
            "nvfs-healthy",
            vec![config("{\"properties\":{\"use_compat_mode\":false}}")],
            "cfg-effective",
            Warn,
            "use_compat_mode",
        ),
        (
            "the pinned limit against the memory of the GPU",
            "nvfs-healthy",
            vec![config("{\"properties\":{\"max_device_pinned_mem_size_kb\":33554432}}")],
            "cfg-vs-hardware",
            Info,
            "is 32 GiB, the GPU has 140 GiB",
        ),
        (
            "other lines of the kernel log",
            "nvfs-healthy",
            vec![kernel_log("Linux version 6.14.0\nnvidia-fs: file generation mismatch\n")],
            "kernel-log",
            Info,
            "generation mismatch",
        ),
        (
            "static routing without its file",
            "nvfs-healthy",
            vec![config("{\"miscellaneous\":{\"enable_static_routing\":true}}")],
            "static-cfg",
            Warn,
            "topology.json",
        ),
        (
            "addresses of RDMA that are not of this host",
            "weka",
            vec![
                config("{\"properties\":{\"rdma_dev_addr_list\":[\"10.9.9.9\"]}}"),
                put("files/proc/net/fib_trie", "Local:\n     |-- 10.0.0.1\n        /32 host LOCAL\n"),
            ],
            "rdma-ips",
            Fail,
            "10.9.9.9",
        ),
        (
            "squashfs before 1.16",
            "nvfs-healthy",
            all([unbacked("squashfs"), vec![libcufile("1.15")]]),
            "fs-type",
            Fail,
            "1.16",
        ),
        ("squashfs from 1.16 on", "nvfs-healthy", unbacked("squashfs"), "fs-type", Warn, "squashfs"),
        (
            "btrfs before 1.17",
            "nvfs-healthy",
            all([unbacked("btrfs"), vec![libcufile("1.16")]]),
            "fs-type",
            Fail,
            "1.17",
        ),
        ("FSx for Lustre by its other name", "lustre", vec![filesystem("fuse.fsx_lustre")], "fs-type", Pass, "lustre"),
        ("BeeGFS by its other name", "lustre", unbacked("fuse.beegfs"), "fs-type", Pass, "beegfs"),
        ("GPFS by its other name", "weka", unbacked("fuse.gpfs"), "fs-type", Pass, "gpfs"),
        ("NFS without proto=rdma", "nfs-tcp", vec![], "nfs-rdma", Fail, "tcp"),
        ("RAID levels", "md-raid5", vec![], "md-raid", Warn, "raid5"),
        ("device mapper", "lvm", vec![], "dm-lvm", Warn, "LVM"),
        (
            "the NVMe transport",
            "nvfs-healthy",
            vec![put("files/sys/class/nvme/nvme0/transport", "tcp\n")],
            "nvme-transport",
            Warn,
            "tcp",
        ),
        ("neither peermem nor dma-buf", "weka", vec![], "nvfs-peermem", Warn, "nvidia_peermem"),
        (
            "dma-buf instead of peermem",
            "weka",
            vec![config("{\"properties\":{\"rdma_peer_type\":\"dmabuf\"}}")],
            "nvfs-peermem",
            Pass,
            "dma-buf",
        ),
        (
            "speed of RDMA links",
            "weka",
            vec![
                put("files/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
                put("files/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
            ],
            "rdma-stack",
            Info,
            "400 Gb/sec",
        ),
        (
            "a queue of the disk below 1024 requests",
            "nvfs-healthy",
            vec![put("files/sys/block/nvme0n1/queue/nr_requests", "1023\n")],
            "blk-geometry",
            Pass,
            "1023",
        ),
        ("the runtime", "nvfs-healthy", vec![pod()], "ctr-detect", Info, "kubernetes"),
        ("/run/udev in a container", "container-no-udev", vec![], "udev-database", Fail, "/run/udev"),
        ("the nodes of the GPU in a container", "container-no-devices", vec![], "ctr-devices", Fail, "/dev/nvidia"),
        ("/dev/infiniband in a container", "weka", vec![pod()], "rdma-stack", Fail, "uverbs"),
        (
            "a port that is down",
            "weka",
            vec![
                put("files/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n"),
                config("{\"properties\":{\"rdma_dev_addr_list\":[\"10.0.0.1\"]}}"),
                put("files/proc/net/fib_trie", "Local:\n     |-- 10.0.0.1\n        /32 host LOCAL\n"),
            ],
            "rdma-ips",
            Fail,
            "1: DOWN",
        ),
        ("libcufile in sight", "slim-image", vec![], "lib-deps", Fail, ""),
        ("lines of nvidia-fs in the kernel log", "unknown-symbol", vec![], "nvfs-load-errors", Fail, "nvidia_p2p"),
        (
            "a GPU of a virtual machine next to it",
            "nvfs-healthy",
            vec![
                put("files/sys/bus/pci/devices/0000:5e:00.0/vendor", "0x10de\n"),
                put("files/sys/bus/pci/devices/0000:5e:00.0/class", "0x030200\n"),
                link("files/sys/bus/pci/devices/0000:5e:00.0/driver", "../../drivers/vfio-pci"),
                put("files/sys/bus/pci/drivers/vfio-pci/bind", ""),
            ],
            "gpu-present",
            Pass,
            "vfio-pci",
        ),
    ]
}

#[test]
fn the_check_that_the_document_names_reports_each_condition_of_gds_diag() {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gds-diag.md")).unwrap();
    let mut wrong = Vec::new();
    for (what, base, edits, id, status, part) in rows() {
        let report = check(build(base, &edits).path());
        let found = report.finding(id).map(|f| {
            let evidence: Vec<String> = f.evidence.iter().map(|e| format!("{} {}", e.source, e.text)).collect();
            (f.status, format!("{} {}", f.summary, evidence.join(" ")))
        });
        if !found.as_ref().is_some_and(|(got, text)| *got == status && text.contains(part)) {
            wrong.push(format!("{what}: {id} {found:?}, wanted {status:?} {part}"));
        }
        if !document.contains(&format!("`{id}`")) {
            wrong.push(format!("{what}: the document does not name {id}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_check_that_the_document_names_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut take = |folder: &Path| {
        let root = Root::folder(folder).unwrap();
        let report = gds_top::checks::run(&root, &root.captured_paths(), None, &mut |_| {});
        known.extend(report.findings.into_iter().map(|f| f.id.to_string()));
    };
    for name in fixtures() {
        take(&fixture(&name));
    }
    for (_, base, edits, ..) in rows() {
        take(build(base, &edits).path());
    }
    // Conditions without a fixture: a file in the page cache, holes, a cgroup limit, root ports, and modules that are
    // loaded at boot.
    let live = [
        "page-cache-residency",
        "sparse-or-delalloc",
        "lim-cgroup",
        "nvfs-autoload",
        "kernel-p2p-rootports",
        "numa-affinity",
        "ext4-lazyinit",
        "tools-found",
        "nvfs-lockdown",
    ];
    let document = std::fs::read_to_string(top.join("docs/gds-diag.md")).unwrap();
    let first_words: BTreeSet<&str> = known.iter().filter_map(|id| id.split('-').next()).collect();
    let unknown: Vec<&str> = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            word.contains('-') && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        })
        .filter(|word| first_words.contains(word.split('-').next().unwrap_or("")))
        .filter(|word| !known.contains(*word) && !live.contains(word))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
