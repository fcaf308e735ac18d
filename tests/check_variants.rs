//! Machines with one fault each: the cause, the verdict, and nothing failing for want of a part of a capture.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check_support;

use check_support::{COMMANDS, Drop, LIB, Link, NVML, PATHS, Put, Set, Variant, build, check, judge, path};
use gds_top::domain::{Route, Status};
use serde_json::json;
use std::path::Path;

#[test]
fn each_fault_is_named_as_the_cause() {
    let bad = |name, base, edits, route, possible, blockers, loud| Variant {
        name,
        base,
        edits,
        route,
        possible,
        blockers,
        loud,
    };
    judge(vec![
        bad(
            "tmpfs with a library that copies from it",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("tmpfs")),
                path("/0/device", json!("0:25")),
                path("/0/block_device", json!([])),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "tmpfs with a library before 1.16",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("tmpfs")),
                path("/0/device", json!("0:25")),
                path("/0/block_device", json!([])),
                Set(LIB, "/found/0/version", json!("1.14")),
            ],
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "btrfs before 1.17",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("btrfs")),
                path("/0/device", json!("0:41")),
                path("/0/mount_options", json!("rw,compress=zstd")),
            ],
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "zfs with 1.17",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("zfs")),
                path("/0/device", json!("0:41")),
                path("/0/block_device", json!([])),
                Set(LIB, "/found/0/version", json!("1.17")),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "9p",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("9p")),
                path("/0/device", json!("0:41")),
                path("/0/block_device", json!([])),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "a file system that nobody lists",
            "nvfs-healthy",
            vec![
                path("/0/filesystem", json!("ceph")),
                path("/0/device", json!("0:41")),
                path("/0/block_device", json!([])),
            ],
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
        ),
        bad(
            "LVM on md raid0",
            "md-raid0",
            vec![path(
                "/0/block_device",
                json!([
                    {"name": "dm-0", "kind": "dm", "uuid": "LVM-abc"}, {"name": "md0", "kind": "md", "level": "raid0"},
                    {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"},
                ]),
            )],
            Route::Compat,
            Route::Compat,
            &["dm-lvm"],
            &["dm-lvm"],
        ),
        bad(
            "dm-crypt",
            "nvfs-healthy",
            vec![path("/0/block_device/-", json!({"name": "dm-1", "kind": "dm", "uuid": "CRYPT-LUKS2-x"}))],
            Route::Compat,
            Route::Compat,
            &["dm-lvm"],
            &["dm-lvm"],
        ),
        bad(
            "md raid1",
            "md-raid0",
            vec![path(
                "/0/block_device",
                json!([
                    {"name": "md0", "kind": "md", "level": "raid1"}, {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"},
                ]),
            )],
            Route::Compat,
            Route::Compat,
            &["md-raid"],
            &["md-raid"],
        ),
        bad(
            "a SATA disk",
            "nvfs-healthy",
            vec![path(
                "/0/block_device",
                json!([{"name": "sda1", "kind": "partition"}, {"name": "sda", "kind": "disk"}]),
            )],
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
        ),
        bad(
            "NVMe over TCP",
            "nvfs-healthy",
            vec![Put("files/sys/class/nvme/nvme0/transport", "tcp\n")],
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
        ),
        bad(
            "an NVMe disk made up by QEMU",
            "nvfs-healthy",
            vec![Put("files/sys/class/nvme/nvme0/model", "QEMU NVMe Ctrl                          \n")],
            Route::Compat,
            Route::Compat,
            &["vm-type"],
            &["vm-type"],
        ),
        bad(
            "integrity metadata",
            "nvfs-healthy",
            vec![Put("files/sys/block/nvme0n1/integrity/device_is_integrity_capable", "1\n")],
            Route::Compat,
            Route::Nvfs,
            &["nvme-integrity"],
            &["nvme-integrity"],
        ),
        bad(
            "an encrypted file",
            "nvfs-healthy",
            vec![path("/0/inode_flags", json!(0x80800))],
            Route::Compat,
            Route::Nvfs,
            &["inode-flags"],
            &["inode-flags"],
        ),
        bad(
            "an inode without extents",
            "nvfs-healthy",
            vec![path("/0/inode_flags", json!(0))],
            Route::Compat,
            Route::Nvfs,
            &["ext4-extents"],
            &["ext4-extents"],
        ),
        bad(
            "data=writeback",
            "nvfs-healthy",
            vec![path("/0/mount_options", json!("rw,relatime,data=writeback"))],
            Route::Compat,
            Route::Nvfs,
            &["ext4-ordered"],
            &["ext4-ordered"],
        ),
        bad(
            "AMD's IOMMU, on by default",
            "nvfs-healthy",
            vec![
                Put("files/sys/class/iommu/ivhd0", ""),
                Link("files/sys/bus/pci/devices/0000:be:00.0/iommu_group", "../../../../kernel/iommu_groups/31"),
                Put("files/sys/kernel/iommu_groups/31/type", "DMA-FQ\n"),
            ],
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state"],
        ),
        bad(
            "IOMMU known from the command line only",
            "nvfs-healthy",
            vec![Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on,sm_on\n")],
            Route::Compat,
            Route::Nvfs,
            &["iommu-state"],
            &["iommu-state"],
        ),
        bad(
            "Grace with a passed-through IOMMU",
            "grace",
            vec![Put("files/proc/cmdline", "ro iommu.passthrough=1\n")],
            Route::Compat,
            Route::C2c,
            &["iommu-state"],
            &["iommu-state"],
        ),
        bad(
            "P2PDMA on an A100 without its third key",
            "p2pdma-healthy",
            vec![
                Set(NVML, "/gpus/0/name", json!("NVIDIA A100-SXM4-80GB")),
                Set(NVML, "/gpus/0/compute_capability", json!("8.0")),
            ],
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1"],
            &["gpu-static-bar1"],
        ),
        bad(
            "a T4 beside the H200 switches P2PDMA off",
            "p2pdma-healthy",
            vec![Set(
                NVML,
                "/gpus/-",
                json!({
                    "index": 1, "uuid": "GPU-t4", "name": "Tesla T4", "pci_bus_id": "0000:5e:00.0", "compute_capability": "7.5",
                    "bar1_total_bytes": 268_435_456_u64, "memory_total_bytes": 16_106_127_360_u64,
                }),
            )],
            Route::Compat,
            Route::P2pdma,
            &["gpu-p2pdma-model"],
            &["gpu-p2pdma-model", "gpu-bar1-size", "nvfs-loaded", "nvfs-nvme-symbol"],
        ),
        bad(
            "the second key of P2PDMA is missing",
            "p2pdma-healthy",
            vec![Put("files/etc/cufile.json", "{\"properties\":{\"use_pci_p2pdma\":true}}")],
            Route::Compat,
            Route::P2pdma,
            &["cfg-p2p-both"],
            &["cfg-p2p-both"],
        ),
        bad(
            "an old kernel for P2PDMA",
            "p2pdma-healthy",
            vec![
                Put("files/proc/sys/kernel/osrelease", "5.15.0-100-generic\n"),
                Put("files/boot/config-5.15.0-100-generic", "CONFIG_PCI_P2PDMA=y\n"),
            ],
            Route::Compat,
            Route::P2pdma,
            &["kernel-version"],
            &["kernel-version"],
        ),
        bad(
            "Rocky 9.5",
            "p2pdma-healthy",
            vec![Put("files/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\n")],
            Route::Compat,
            Route::P2pdma,
            &["distro-blocklist"],
            &["distro-blocklist"],
        ),
        bad(
            "nvidia-fs did not take the hook of a newer NVMe driver",
            "nvfs-healthy",
            vec![
                Put("files/sys/module/nvidia_fs/version", "2.28.4\n"),
                Put("files/proc/driver/nvidia-fs/modules", "wekafsio: 1\n"),
                Put("files/proc/kallsyms", "0000000000000000 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-nvme-symbol"],
            &["nvfs-nvme-symbol", "nvfs-registered"],
        ),
        bad(
            "the kernel changed and the old nvidia-fs does not build on it",
            "dkms-other-kernel",
            vec![
                Put("files/proc/sys/kernel/osrelease", "6.5.0-17-generic\n"),
                Put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.18.3, 6.2.0-39-generic, x86_64: installed\nnvidia/580.95.05, 6.5.0-17-generic, x86_64: installed\n","stderr":""}]"#,
                ),
            ],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-dkms"],
            &["nvfs-dkms", "nvfs-loaded"],
        ),
        bad(
            "RHEL without kernel-devel",
            "headers-missing",
            vec![
                Put("files/proc/sys/kernel/osrelease", "5.14.0-503.el9.x86_64\n"),
                Put("files/lib/modules/5.14.0-503.el9.x86_64/modules.dep", ""),
                Link("files/lib/modules/5.14.0-503.el9.x86_64/build", "/usr/src/kernels/5.14.0-503.el9.x86_64"),
                Put("files/usr/src/kernels/5.14.0-427.el9.x86_64/Makefile", ""),
                Put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.26.6: added\n","stderr":""}]"#,
                ),
            ],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-build-inputs"],
            &["nvfs-build-inputs", "nvfs-dkms", "nvfs-loaded"],
        ),
        bad(
            "the log still tells of the proprietary modules that are gone",
            "proprietary-nvfs",
            vec![Put(
                "files/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
            )],
            Route::Compat,
            Route::Nvfs,
            &["nvfs-load-errors"],
            &["nvfs-load-errors", "nvfs-loaded"],
        ),
        bad(
            "a value that only the library refuses",
            "nvfs-healthy",
            vec![Set(
                LIB,
                "/open",
                json!({"code": 5002, "cuda_code": 0, "stdout": "", "stderr": "error reading config properties.new_key\n", "timed_out": false}),
            )],
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
        ),
        bad(
            "no fabric manager",
            "nvfs-healthy",
            vec![Set(
                LIB,
                "/open",
                json!({"code": 5011, "cuda_code": 802, "stdout": "", "stderr": "", "timed_out": false}),
            )],
            Route::None,
            Route::Nvfs,
            &["lib-open-probe"],
            &["lib-open-probe"],
        ),
        bad(
            "a crash under WSL",
            "wsl2",
            vec![Put(
                LIB,
                r#"{"found":[{"path":"/l","version":"1.14"}],"chosen":"/l","open":{"code":null,"stdout":"","stderr":"Assertion failure, file index :cufio-udev  line :143","timed_out":false}}"#,
            )],
            Route::None,
            Route::None,
            &["wsl"],
            &["wsl", "lib-open-probe", "nvme-transport"],
        ),
        bad(
            "nvidia-fs older than the library takes",
            "nvfs-healthy",
            vec![
                Put("files/sys/module/nvidia_fs/version", "2.11.0\n"),
                Set(
                    LIB,
                    "/open",
                    json!({"code": 5004, "cuda_code": 0, "stdout": "", "stderr": "", "timed_out": false}),
                ),
            ],
            Route::None,
            Route::Nvfs,
            &["nvfs-version"],
            &["nvfs-version", "lib-open-probe"],
        ),
        bad(
            "a vGPU of Ampere",
            "vgpu",
            vec![Set(NVML, "/gpus/0/compute_capability", json!("8.7"))],
            Route::Compat,
            Route::Compat,
            &["gpu-mig-vgpu"],
            &["gpu-mig-vgpu"],
        ),
        bad(
            "libraries of another version, told by NVML's error only",
            "driver-mismatch",
            vec![Drop("files/sys/module/nvidia")],
            Route::None,
            Route::P2pdma,
            &["driver-mismatch"],
            &["driver-mismatch", "lib-open-probe", "gpu-static-bar1", "cfg-p2p-both"],
        ),
        bad(
            "two different libraries",
            "nvfs-healthy",
            vec![Set(
                LIB,
                "/found/-",
                json!({"path": "/opt/venv/nvidia/cufile/lib/libcufile.so.0", "version": "1.14"}),
            )],
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["lib-found"],
        ),
        bad(
            "GPU prohibited",
            "nvfs-healthy",
            vec![Set(NVML, "/gpus/0/compute_mode", json!("prohibited"))],
            Route::None,
            Route::Nvfs,
            &["gpu-compute-mode"],
            &["gpu-compute-mode"],
        ),
    ]);
}

/// The lists of parts that a capture may lack; whatever is missing, nothing fails that did not fail before.
#[test]
fn what_a_capture_lacks_never_becomes_a_failure() {
    let parts = [NVML, LIB, COMMANDS, "environment.json", PATHS];
    let mut wrong = Vec::new();
    for base in
        ["nvfs-healthy", "p2pdma-healthy", "p2pdma-listed", "grace", "nfs-rdma", "lustre", "md-raid0", "switch-healthy"]
    {
        for part in parts {
            if !Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(base).join(part).exists() {
                continue;
            }
            let folder = build(base, &[Drop(part)]);
            let report = check(folder.path());
            let bad = |f: &&gds_top::domain::Finding| f.status == Status::Fail;
            let failing: Vec<String> =
                report.findings.iter().filter(bad).map(|f| format!("{}: {}", f.id, f.summary)).collect();
            if !failing.is_empty() {
                wrong.push(format!("{base} without {part}: {failing:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
