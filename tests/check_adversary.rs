//! Machines made to mislead: storage stacks and fabrics, modern and old kernels and drivers, several GPUs and paths. The cause is named first, and what is
//! healthy gives no alarm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check_support;

use check_support::{COMMANDS, Drop, LIB, Link, NVML, PATHS, Put, Set, bad, build, check, fine, judge, loud, path};
use gds_top::domain::{Route, Status};
use serde_json::{Value, json};

fn kernel(release: &'static str, config: &'static str) -> Vec<check_support::Edit> {
    vec![Put("files/proc/sys/kernel/osrelease", release), Put(config, "CONFIG_PCI_P2PDMA=y\n")]
}

#[test]
fn storage_stacks_and_fabrics() {
    let disk = |name: &str| json!({"name": name, "kind": "disk", "logical_block_bytes": 512});
    judge(vec![
        bad(
            "dm-multipath over NVMe-oF",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["dm-lvm"],
            &["dm-lvm"],
            vec![path(
                "/0/block_device",
                json!([{"name": "dm-3", "kind": "dm", "uuid": "mpath-3600a098"}, disk("nvme0n1"), disk("nvme1n1")]),
            )],
        ),
        bad(
            "dm-crypt below LVM on md raid10",
            "md-raid0",
            Route::Compat,
            Route::Compat,
            &["md-raid", "dm-lvm"],
            &["dm-lvm", "md-raid"],
            vec![path(
                "/0/block_device",
                json!([
                    {"name": "dm-2", "kind": "dm", "uuid": "LVM-x"}, {"name": "dm-0", "kind": "dm", "uuid": "CRYPT-LUKS2-y"},
                    {"name": "md0", "kind": "md", "level": "raid10"}, disk("nvme0n1"), disk("nvme1n1"),
                ]),
            )],
        ),
        fine(
            "NVMe over RDMA with the patched driver",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/class/nvme/nvme0/transport", "rdma\n"),
                Put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nnvme_rdma: (null)\nwekafsio: 1\n"),
            ],
        ),
        bad(
            // As with a local disk, P2PDMA takes settings and a reboot, and the other route another driver.
            "NVMe over RDMA with a stock driver",
            "nvfs-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1", "cfg-p2p-both"],
            &["cfg-p2p-both", "gpu-static-bar1"],
            vec![
                Put("files/sys/class/nvme/nvme0/transport", "rdma\n"),
                Put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nwekafsio: 1\n"),
            ],
        ),
        bad(
            "NVMe over Fibre Channel",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
            vec![Put("files/sys/class/nvme/nvme0/transport", "fc\n")],
        ),
        fine(
            "BeeGFS with its client for GDS",
            "lustre",
            Route::Nvfs,
            vec![
                path("/0/filesystem", json!("beegfs")),
                path("/0/source", json!("beegfs_nodev")),
                Put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nbeegfs: 7.4.2\nwekafsio: 1\n"),
            ],
        ),
        bad(
            "BeeGFS with a client that knows no GDS",
            "lustre",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-registered"],
            &["nvfs-registered"],
            vec![
                path("/0/filesystem", json!("beegfs")),
                path("/0/source", json!("beegfs_nodev")),
                Put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nwekafsio: 1\n"),
                Put("files/proc/kallsyms", "0 T nvme_v1_register_nvfs_dma_ops\t[nvme]\n"),
            ],
        ),
        bad(
            "GPFS without nvidia_peermem and without addresses",
            "weka",
            Route::Compat,
            Route::Rdma,
            &["nvfs-peermem", "rdma-ips"],
            &["nvfs-peermem", "rdma-ips"],
            vec![path("/0/filesystem", json!("gpfs"))],
        ),
        bad(
            "WekaFS with all RDMA ports down",
            "weka",
            Route::Compat,
            Route::Rdma,
            &["rdma-ips"],
            &["rdma-ips"],
            weka("1: DOWN\n"),
        ),
        // Nothing is in the way, but nothing shows that it works either, so it is not claimed.
        bad("WekaFS with a port that is up", "weka", Route::Compat, Route::Rdma, &[], &[], weka("4: ACTIVE\n")),
        bad(
            "md raid0 and P2PDMA below Linux 7.1, without nvidia-fs",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["md-raid"],
            &["md-raid"],
            raid0("6.14.0-37-generic\n"),
        ),
        bad(
            "ext4 made a minute ago",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["ext4-lazyinit"],
            vec![Put("files/proc/812/comm", "ext4lazyinit\n")],
        ),
    ]);
}

#[test]
fn drivers_kernels_and_processors() {
    judge(vec![
        fine("kernel 6.17 with nvidia-fs 2.28.4", "nvfs-healthy", Route::Nvfs, {
            let mut edits = kernel("6.17.0-5-generic\n", "files/boot/config-6.17.0-5-generic");
            edits.extend([
                Put("files/sys/module/nvidia_fs/version", "2.28.4\n"),
                Put("files/proc/kallsyms", "0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ]);
            edits
        }),
        fine(
            "kernel 6.17 and P2PDMA",
            "p2pdma-healthy",
            Route::P2pdma,
            kernel("6.17.0-5-generic\n", "files/boot/config-6.17.0-5-generic"),
        ),
        bad(
            "a kernel without CONFIG_PCI_P2PDMA",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["kernel-p2pdma"],
            &["kernel-p2pdma"],
            vec![
                Put("files/boot/config-6.14.0-37-generic", "# CONFIG_PCI_P2PDMA is not set\n"),
                Put("files/proc/kallsyms", "0 T vfs_read\n0 T printk\n"),
            ],
        ),
        bad(
            "driver 550, open, and P2PDMA",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["driver-version"],
            &["driver-version"],
            vec![
                Put("files/sys/module/nvidia/version", "550.90.07\n"),
                Put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n",
                ),
                Set(NVML, "/driver_version", json!("550.90.07")),
                Set(NVML, "/cuda_version", json!("12.4")),
                Set(LIB, "/found/0/version", json!("1.16")),
            ],
        ),
        fine(
            "driver 535, proprietary, with nvidia-fs 2.17.4",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/module/nvidia/version", "535.183.01\n"),
                Put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n",
                ),
                Put("files/sys/module/nvidia_fs/version", "2.17.4\n"),
                Put("files/proc/sys/kernel/osrelease", "5.15.0-100-generic\n"),
                Set(NVML, "/driver_version", json!("535.183.01")),
                Set(NVML, "/cuda_version", json!("12.2")),
                Set(LIB, "/found/0/version", json!("1.11")),
            ],
        ),
        bad(
            "ARM without Grace, and an IOMMU that translates",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state"],
            vec![
                Put("files/proc/sys/kernel/arch", "aarch64\n"),
                Put("files/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0xc0\nCPU part\t: 0xac3\n"),
                Put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n",
                ),
                Put("files/sys/class/iommu/smmu3.0x00000000/x", ""),
                Link("files/sys/bus/pci/devices/0000:be:00.0/iommu_group", "../../../../kernel/iommu_groups/3"),
                Put("files/sys/kernel/iommu_groups/3/type", "DMA\n"),
            ],
        ),
        fine(
            "ARM without Grace and without an IOMMU",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/proc/sys/kernel/arch", "aarch64\n"),
                Put("files/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"),
            ],
        ),
        fine(
            "Grace Blackwell",
            "grace",
            Route::C2c,
            vec![
                Set(NVML, "/gpus/0/name", json!("NVIDIA GB200")),
                Set(NVML, "/gpus/0/compute_capability", json!("10.0")),
                Put("files/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"),
            ],
        ),
        bad(
            "locked down, Secure Boot, a module without signature",
            "secure-boot-unsigned",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-secureboot"],
            &["nvfs-secureboot", "nvfs-loaded"],
            vec![Put("files/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")],
        ),
        fine(
            "an Intel host whose root ports the kernel's list lets talk",
            "p2pdma-healthy",
            Route::P2pdma,
            intel("0x09a2\n"),
        ),
        bad(
            "an Intel host whose host bridges may not talk to each other",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["kernel-p2p-rootports"],
            &["kernel-p2p-rootports"],
            intel("0x2f00\n"),
        ),
        // The list grows with the kernel, so a host bridge that is not known here is no failure.
        fine("an Intel host that is not on the list", "p2pdma-healthy", Route::P2pdma, intel("0x1234\n")),
    ]);
}

/// WekaFS with the address and module that it needs, and one port in this state.
fn weka(state: &'static str) -> Vec<check_support::Edit> {
    vec![
        Put("files/etc/cufile.json", "{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } }"),
        Put("files/proc/net/fib_trie", "Local:\n  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.1\n        /32 host LOCAL\n"),
        Put("files/sys/module/nvidia_peermem/version", "580.95.05\n"),
        Put("files/sys/class/infiniband/mlx5_0/ports/1/state", state),
        Put(
            COMMANDS,
            r#"[{"argv":["ldconfig","-p"],"exit_code":0,"stdout":"\tlibibverbs.so.1 (libc6)\n\tlibrdmacm.so.1 (libc6)\n\tlibmlx5.so.1 (libc6)\n","stderr":""}]"#,
        ),
    ]
}

fn raid0(release: &'static str) -> Vec<check_support::Edit> {
    vec![
        Put("files/proc/sys/kernel/osrelease", release),
        Put(
            "files/etc/cufile.json",
            "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"raid\": { \"use_pci_p2pdma\": true } } }",
        ),
        path("/0/source", json!("/dev/md0")),
        path("/0/device", json!("9:0")),
        path(
            "/0/block_device",
            json!([{"name": "md0", "kind": "md", "level": "raid0"}, {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"}]),
        ),
        Put("files/run/udev/data/b9:0", "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\nE:MD_LEVEL=raid0\n"),
    ]
}

/// GPU and disk below two host bridges of this device id.
fn intel(id: &'static str) -> Vec<check_support::Edit> {
    vec![
        Put("files/proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"),
        Drop("files/sys/bus/pci/devices/0000:be:00.0"),
        Put("files/sys/devices/pci0000:bd/0000:bd:01.0/0000:be:00.0/vendor", "0x10de\n"),
        Put("files/sys/devices/pci0000:bd/0000:bd:01.0/0000:be:00.0/class", "0x030200\n"),
        Put("files/sys/devices/pci0000:bd/0000:bd:01.0/0000:be:00.0/device", "0x2335\n"),
        Link("files/sys/bus/pci/devices/0000:be:00.0", "../../../devices/pci0000:bd/0000:bd:01.0/0000:be:00.0"),
        Put("files/sys/devices/pci0000:c3/0000:c3:01.0/0000:c4:00.0/vendor", "0x144d\n"),
        Put("files/sys/devices/pci0000:c3/0000:c3:01.0/0000:c4:00.0/class", "0x010802\n"),
        Link("files/sys/bus/pci/devices/0000:c4:00.0", "../../../devices/pci0000:c3/0000:c3:01.0/0000:c4:00.0"),
        Put("files/sys/bus/pci/devices/0000:bd:00.0/vendor", "0x8086\n"),
        Put("files/sys/bus/pci/devices/0000:bd:00.0/device", id),
        Put("files/sys/bus/pci/devices/0000:c3:00.0/vendor", "0x8086\n"),
        Put("files/sys/bus/pci/devices/0000:c3:00.0/device", id),
    ]
}

fn gpu(index: u32, name: &str, capability: &str, bar1: u64, rdma: bool) -> Value {
    json!({
        "index": index, "uuid": format!("GPU-{index}0000000-0000-4000-8000-000000000000"), "name": name,
        "pci_bus_id": format!("0000:{:02x}:00.0", 0x10 + index), "compute_capability": capability, "bar1_total_bytes": bar1,
        "memory_total_bytes": 85_899_345_920_u64, "compute_mode": "default", "persistence": true, "mig": "disabled", "virtualization": "none",
        "attributes": {"gpu_direct_rdma": rdma, "dma_buf": rdma, "stream_mem_ops": true},
    })
}

#[test]
fn gpus_of_different_kinds_get_verdicts_of_their_own() {
    let machine =
        build("nvfs-healthy", &[Set(NVML, "/gpus/-", gpu(1, "NVIDIA GeForce RTX 4090", "8.9", 256 << 20, false))]);
    let report = check(machine.path());
    let told: Vec<(Route, Vec<&str>)> =
        report.verdicts.iter().map(|v| (v.route, v.blockers.iter().map(String::as_str).collect())).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], (Route::Nvfs, vec![]));
    assert_eq!(told[1].0, Route::Compat, "{told:?}");
    assert_eq!(told[1].1.first(), Some(&"gpu-class"), "{told:?}");
}

#[test]
fn two_paths_on_different_storage_get_verdicts_of_their_own() {
    let nfs: Vec<Value> = serde_json::from_slice(
        &std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/nfs-tcp").join(PATHS))
            .unwrap(),
    )
    .unwrap();
    let mut other = nfs[0].clone();
    other["path"] = json!("/mnt/share");
    other["real_path"] = json!("/mnt/share");
    other["mount_point"] = json!("/mnt/share");
    let machine = build(
        "nvfs-healthy",
        &[
            path("/0/filesystem", json!("xfs")),
            path("/0/mount_options", json!("rw,noatime,inode64")),
            path("/0/inode_flags", json!(0)),
            path("/-", other),
            Set("capture.json", "/paths", json!(["/data/models", "/mnt/share"])),
        ],
    );
    let report = check(machine.path());
    let told: Vec<(String, Route, &[String])> =
        report.verdicts.iter().map(|v| (v.path.display().to_string(), v.route, v.blockers.as_slice())).collect();
    assert_eq!((told[0].0.as_str(), told[0].1, told[0].2), ("/data/models", Route::Nvfs, &[][..]), "{told:?}");
    assert_eq!(
        (told[1].0.as_str(), told[1].1, told[1].2),
        ("/mnt/share", Route::Compat, &["nfs-rdma".to_owned()][..]),
        "{told:?}"
    );
    assert_eq!(loud(&report), ["nfs-rdma"]);
}

#[test]
fn the_file_of_a_static_configuration_is_held_against_the_gpus() {
    let config =
        "{ \"miscellaneous\": { \"enable_static_config\": true, \"static_config_filepath\": \"/etc/gds.json\" } }";
    let own = "GPU-5f1c7a52-0b1e-4f6e-9f0e-2d1d3a4b5c6d";
    let status = |text: Option<String>| {
        let mut edits = vec![Put("files/etc/cufile.json", config)];
        if let Some(text) = text {
            edits.push(Put("files/etc/gds.json", Box::leak(text.into_boxed_str())));
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
        (Some(listed("GPU-00000000-1111-4222-8333-444444444444", 1)), "is not here"),
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
            Put("environment.json", r#"{"CUFILE_ALLOW_COMPAT_MODE": "false", "CUFILE_STATS_LEVEL": "high"}"#),
            Set(LIB, "/found/0/version", json!("1.20")),
        ],
    );
    let report = check(machine.path());
    let finding = report.finding("cfg-effective").unwrap();
    assert_eq!(finding.status, Status::Warn);
    assert!(
        finding.summary.contains("CUFILE_ALLOW_COMPAT_MODE does nothing") && finding.evidence.len() == 2,
        "{finding:?}"
    );
    assert_eq!(report.verdicts[0].route, Route::Nvfs);
}
