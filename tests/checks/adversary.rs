//! Misleading machines: storage stacks and fabrics, modern and old kernels and drivers, several GPUs and paths. The
//! cause must be named first, and healthy parts must give no alarm.

use crate::expected::storage::{peermem, rdma_host};
use crate::machine::*;
use gds_top::core::CheckId;
use gds_top::core::{Route, Status};
use serde_json::{Value, json};

/// A process with the name of the kernel thread that initialises an ext4. The fields are those from its parent to its
/// flags.
fn ext4lazyinit(fields: &str) -> Edit {
    put("files/proc/812/stat", format!("812 (ext4lazyinit) S {fields} 0 0 0 0 0 1 0 0 20 0 1 0 4711 0 0\n"))
}

#[test]
fn storage_stacks_and_fabrics() {
    let disk = |name: &str| json!({"name": name, "kind": "disk", "logical_block_bytes": 512});
    judge(vec![
        barred(
            "dm-multipath over NVMe-oF",
            NVFS,
            &["dm-lvm"],
            vec![stack(
                json!([{"name": "dm-3", "kind": "dm", "uuid": "mpath-3600a098"}, disk("nvme0n1"), disk("nvme1n1")]),
            )],
        ),
        barred(
            "dm-crypt below LVM on md raid10",
            MD,
            &["md-raid", "dm-lvm"],
            vec![stack(json!([
                {"name": "dm-2", "kind": "dm", "uuid": "LVM-x"}, {"name": "dm-0", "kind": "dm", "uuid": "CRYPT-LUKS2-y"},
                {"name": "md0", "kind": "md", "level": "raid10"}, disk("nvme0n1"), disk("nvme1n1"),
            ]))],
        ),
        fine(
            "NVMe over RDMA with the patched driver",
            NVFS,
            vec![
                put("files/sys/class/nvme/nvme0/transport", "rdma\n"),
                put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nnvme_rdma: (null)\nwekafsio: 1\n"),
            ],
        ),
        bad(
            "NVMe over RDMA with a stock driver",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            // P2PDMA needs a local disk, so only the driver of DOCA helps.
            &["nvfs-nvme-symbol"],
            &["nvfs-nvme-symbol"],
            vec![
                put("files/sys/class/nvme/nvme0/transport", "rdma\n"),
                put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nwekafsio: 1\n"),
            ],
        ),
        barred(
            "NVMe over Fibre Channel",
            NVFS,
            &["nvme-transport"],
            vec![put("files/sys/class/nvme/nvme0/transport", "fc\n")],
        ),
        fine(
            "BeeGFS with its client for GDS",
            LUSTRE,
            vec![
                filesystem("beegfs"),
                path("/0/source", json!("beegfs_nodev")),
                put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nbeegfs: 7.4.2\nwekafsio: 1\n"),
            ],
        ),
        slowed(
            "BeeGFS with a client that knows no GDS",
            LUSTRE,
            &["nvfs-registered"],
            vec![
                filesystem("beegfs"),
                path("/0/source", json!("beegfs_nodev")),
                put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nwekafsio: 1\n"),
                put("files/proc/kallsyms", "0 T nvme_v1_register_nvfs_dma_ops\t[nvme]\n"),
            ],
        ),
        slowed(
            "GPFS without nvidia_peermem and without addresses",
            WEKA,
            &["nvfs-peermem", "rdma-ips"],
            vec![filesystem("gpfs")],
        ),
        slowed("WekaFS with all RDMA ports down", WEKA, &["rdma-ips"], weka("1: DOWN\n")),
        // Nothing blocks the direct route, but nothing shows that it works either. So it is not claimed.
        bad("WekaFS with a port that is up", "weka", Route::Compat, Route::Rdma, &[], &[], weka("4: ACTIVE\n")),
        slowed(
            "md raid0 and P2PDMA below Linux 7.1, without nvidia-fs",
            P2PDMA,
            &["md-raid"],
            raid0("6.14.0-37-generic\n"),
        ),
        warned("ext4 made a minute ago", NVFS, &["ext4-lazyinit"], vec![ext4lazyinit("2 0 0 0 -1 2129984")]),
        // `cp /bin/sleep ext4lazyinit`.
        fine("a program with the name of a kernel thread", NVFS, vec![ext4lazyinit("700 812 700 34816 812 4194304")]),
    ]);
}

#[test]
fn drivers_kernels_and_processors() {
    judge(vec![
        fine(
            "kernel 6.17 with nvidia-fs 2.28.4",
            NVFS,
            all([
                kernel("6.17.0-5-generic"),
                vec![
                    put("files/sys/module/nvidia_fs/version", "2.28.4\n"),
                    put("files/proc/kallsyms", "0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
                ],
            ]),
        ),
        fine("kernel 6.17 and P2PDMA", P2PDMA, kernel("6.17.0-5-generic")),
        slowed(
            "a kernel without CONFIG_PCI_P2PDMA",
            P2PDMA,
            &["kernel-p2pdma"],
            vec![
                put("files/boot/config-6.14.0-37-generic", "# CONFIG_PCI_P2PDMA is not set\n"),
                put("files/proc/kallsyms", "0 T vfs_read\n0 T printk\n"),
            ],
        ),
        slowed(
            "driver 550, open, and P2PDMA",
            P2PDMA,
            &["driver-version"],
            all([driver("550.90.07", "12.4"), vec![libcufile("1.16")]]),
        ),
        fine(
            "driver 535, proprietary, with nvidia-fs 2.17.4",
            NVFS,
            vec![
                put("files/sys/module/nvidia/version", "535.183.01\n"),
                put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n",
                ),
                put("files/sys/module/nvidia_fs/version", "2.17.4\n"),
                put("files/proc/sys/kernel/osrelease", "5.15.0-100-generic\n"),
                set(NVML, "/driver_version", json!("535.183.01")),
                set(NVML, "/cuda_version", json!("12.2")),
                libcufile("1.11"),
            ],
        ),
        // NVIDIA's installation guide skips the step about the IOMMU on Arm.
        fine(
            "ARM without Grace, and an IOMMU that translates",
            NVFS,
            vec![
                put("files/proc/sys/kernel/arch", "aarch64\n"),
                put("files/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0xc0\nCPU part\t: 0xac3\n"),
                put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n",
                ),
                put("files/sys/class/iommu/smmu3.0x00000000/x", ""),
                link("files/sys/bus/pci/devices/0000:be:00.0/iommu_group", "../../../../kernel/iommu_groups/3"),
                put("files/sys/kernel/iommu_groups/3/type", "DMA\n"),
            ],
        ),
        fine(
            "ARM without Grace and without an IOMMU",
            NVFS,
            vec![
                put("files/proc/sys/kernel/arch", "aarch64\n"),
                put("files/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"),
            ],
        ),
        fine(
            "Grace Blackwell",
            GRACE,
            all([
                gpu("NVIDIA GB200", "10.0"),
                vec![put("files/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")],
            ]),
        ),
        bad(
            "locked down, Secure Boot, a module without signature",
            "secure-boot-unsigned",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-secureboot"],
            &["nvfs-secureboot", "nvfs-loaded"],
            vec![put("files/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")],
        ),
        fine("an Intel host whose root ports the kernel's list lets talk", P2PDMA, intel("0x09a2\n")),
        refused("an Intel host whose host bridges may not talk to each other", intel("0x2f00\n")),
        refused("an Intel host that is not on the list", intel("0x1234\n")),
        // The list grows with the kernel, so a host bridge that a later kernel may know is not a failure.
        fine("an Intel host and a later kernel", P2PDMA, all([intel("0x1234\n"), kernel("7.4.0-1-generic")])),
    ]);
}

/// A machine whose kernel refuses P2PDMA between GPU and disk, so nvidia-fs remains.
fn refused(name: &'static str, edits: Vec<Edit>) -> Variant {
    const ALL: &[&str] = &["kernel-p2p-rootports", "nvfs-nvme-symbol", "nvfs-loaded"];
    bad(name, "p2pdma-healthy", Route::Compat, Route::Nvfs, ALL, ALL, edits)
}

/// WekaFS with the required address and module, and one port in this state.
fn weka(state: &str) -> Vec<Edit> {
    all([rdma_host(), vec![peermem(), put("files/sys/class/infiniband/mlx5_0/ports/1/state", state)]])
}

fn raid0(release: &str) -> Vec<Edit> {
    vec![
        put("files/proc/sys/kernel/osrelease", release),
        config(
            "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"raid\": { \"use_pci_p2pdma\": true } } }",
        ),
        path("/0/source", json!("/dev/md0")),
        path("/0/device", json!("9:0")),
        stack(
            json!([{"name": "md0", "kind": "md", "level": "raid0"}, {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"}]),
        ),
        put("files/run/udev/data/b9:0", "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\nE:MD_LEVEL=raid0\n"),
    ]
}

/// GPU and disk below two host bridges with this device id.
fn intel(id: &str) -> Vec<Edit> {
    vec![
        put("files/proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"),
        without("files/sys/bus/pci/devices/0000:be:00.0"),
        put("files/sys/devices/pci0000:bd/0000:bd:01.0/0000:be:00.0/vendor", "0x10de\n"),
        put("files/sys/devices/pci0000:bd/0000:bd:01.0/0000:be:00.0/class", "0x030200\n"),
        put("files/sys/devices/pci0000:bd/0000:bd:01.0/0000:be:00.0/device", "0x2335\n"),
        link("files/sys/bus/pci/devices/0000:be:00.0", "../../../devices/pci0000:bd/0000:bd:01.0/0000:be:00.0"),
        put("files/sys/devices/pci0000:c3/0000:c3:01.0/0000:c4:00.0/vendor", "0x144d\n"),
        put("files/sys/devices/pci0000:c3/0000:c3:01.0/0000:c4:00.0/class", "0x010802\n"),
        link("files/sys/bus/pci/devices/0000:c4:00.0", "../../../devices/pci0000:c3/0000:c3:01.0/0000:c4:00.0"),
        put("files/sys/bus/pci/devices/0000:bd:00.0/vendor", "0x8086\n"),
        put("files/sys/bus/pci/devices/0000:bd:00.0/device", id),
        put("files/sys/bus/pci/devices/0000:c3:00.0/vendor", "0x8086\n"),
        put("files/sys/bus/pci/devices/0000:c3:00.0/device", id),
    ]
}

fn another_gpu(index: u32, name: &str, capability: &str, bar1: u64, rdma: bool) -> Value {
    json!({
        "index": index, "uuid": format!("GPU-{index}0000000-0000-4000-8000-000000000000"), "name": name,
        "pci_bus_id": format!("0000:{:02x}:00.0", 0x10 + index), "compute_capability": capability, "bar1_total_bytes": bar1,
        "memory_total_bytes": 85_899_345_920_u64, "compute_mode": "default", "persistence": true, "mig": "disabled", "virtualization": "none",
        "attributes": {"gpu_direct_rdma": rdma, "dma_buf": rdma, "stream_mem_ops": true},
    })
}

#[test]
fn gpus_of_different_kinds_get_verdicts_of_their_own() {
    let machine = build(
        "nvfs-healthy",
        &[set(NVML, "/gpus/-", another_gpu(1, "NVIDIA GeForce RTX 4090", "8.9", 256 << 20, false))],
    );
    let report = check(machine.path());
    let told: Vec<(Route, Vec<&str>)> =
        report.verdicts.iter().map(|v| (v.route, v.blockers.iter().map(|id| id.as_str()).collect())).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], (Route::Nvfs, vec![]));
    assert_eq!(told[1].0, Route::Compat, "{told:?}");
    assert_eq!(told[1].1.first(), Some(&"gpu-class"), "{told:?}");
}

#[test]
fn two_paths_on_different_storage_get_verdicts_of_their_own() {
    let nfs: Vec<Value> = serde_json::from_slice(&std::fs::read(fixture("nfs-tcp").join(PATHS)).unwrap()).unwrap();
    let mut other = nfs[0].clone();
    other["path"] = json!("/mnt/share");
    other["real_path"] = json!("/mnt/share");
    other["mount_point"] = json!("/mnt/share");
    let machine = build(
        "nvfs-healthy",
        &[
            filesystem("xfs"),
            options("rw,noatime,inode64"),
            path("/0/inode_flags", json!(0)),
            path("/-", other),
            put("files/sys/class/infiniband/mlx5_0/node_type", "1: CA\n"),
            set("capture.json", "/paths", json!(["/data/models", "/mnt/share"])),
        ],
    );
    let report = check(machine.path());
    let told: Vec<(String, Route, &[CheckId])> =
        report.verdicts.iter().map(|v| (v.path.display().to_string(), v.route, v.blockers.as_slice())).collect();
    assert_eq!((told[0].0.as_str(), told[0].1, told[0].2), ("/data/models", Route::Nvfs, &[][..]), "{told:?}");
    assert_eq!(
        (told[1].0.as_str(), told[1].1, told[1].2),
        ("/mnt/share", Route::Compat, &[CheckId::NfsRdma, CheckId::NvfsRegistered][..]),
        "{told:?}"
    );
    assert_eq!(loud(&report), ["nvfs-registered", "nfs-rdma"]);
}

#[test]
fn the_file_of_a_static_configuration_is_held_against_the_gpus() {
    let settings =
        "{ \"miscellaneous\": { \"enable_static_config\": true, \"static_config_filepath\": \"/etc/gds.json\" } }";
    let own = "GPU-5f1c7a52-0b1e-4f6e-9f0e-2d1d3a4b5c6d";
    let status = |text: Option<String>| {
        let mut edits = vec![config(settings)];
        if let Some(text) = text {
            edits.push(put("files/etc/gds.json", text));
        }
        let report = check(build("nvfs-healthy", &edits).path());
        let finding = report.finding("static-cfg").unwrap();
        (finding.status, finding.summary.clone())
    };
    let listed = |uuid: &str, bar: u64| {
        json!({"gpu_config": {uuid: {"bar1_size_bytes": bar, "pci_p2pdma_supported": true}}}).to_string()
    };
    assert_eq!(status(Some(listed(own, 274_877_906_944))).0, Status::Info);
    for (text, part) in [
        (None, "cannot be read"),
        (Some("{}".to_owned()), "no gpu_config"),
        (Some(listed("GPU-00000000-1111-4222-8333-444444444444", 1)), "does not exist"),
        (Some(listed(own, 1 << 28)), "bytes of BAR1"),
        (Some(json!({"gpu_config": {}}).to_string()), "lists 0 GPUs"),
    ] {
        let (got, summary) = status(text);
        assert!(got == Status::Warn && summary.contains(part), "{part}: {got:?} {summary}");
    }
}

#[test]
fn a_variable_that_does_nothing_is_told_and_stops_nothing() {
    let machine = build(
        "nvfs-healthy",
        &[
            put("environment.json", r#"{"CUFILE_ALLOW_COMPAT_MODE": "false", "CUFILE_STATS_LEVEL": "high"}"#),
            libcufile("1.20"),
        ],
    );
    let report = check(machine.path());
    let finding = report.finding("cfg-effective").unwrap();
    assert_eq!(finding.status, Status::Warn);
    assert!(
        finding.summary.contains("CUFILE_ALLOW_COMPAT_MODE has no effect") && finding.evidence.len() == 2,
        "{finding:?}"
    );
    assert_eq!(report.verdicts[0].route, Route::Nvfs);
}
