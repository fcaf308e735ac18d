//! Machines with one fault each. The tests check the cause and the verdict. A missing part of a capture must not
//! cause a failure.

use crate::machine::*;
use gds_top::core::{Route, Status};
use serde_json::json;

#[test]
fn each_fault_is_named_as_the_cause() {
    judge(vec![
        barred("tmpfs with a library that copies from it", NVFS, &["fs-type"], unbacked("tmpfs")),
        bad(
            "tmpfs with a library before 1.16",
            "nvfs-healthy",
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            all([unbacked("tmpfs"), vec![libcufile("1.14")]]),
        ),
        bad(
            "btrfs before 1.17",
            "nvfs-healthy",
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            vec![filesystem("btrfs"), path("/0/device", json!("0:41")), options("rw,compress=zstd")],
        ),
        barred("zfs with 1.17", NVFS, &["fs-type"], all([unbacked("zfs"), vec![libcufile("1.17")]])),
        barred("9p", NVFS, &["fs-type"], unbacked("9p")),
        barred("a file system that is not in any list", NVFS, &["fs-type"], unbacked("ceph")),
        barred(
            "LVM on md raid0",
            MD,
            &["dm-lvm"],
            vec![stack(json!([
                {"name": "dm-0", "kind": "dm", "uuid": "LVM-abc"}, {"name": "md0", "kind": "md", "level": "raid0"},
                {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"},
            ]))],
        ),
        barred(
            "dm-crypt",
            NVFS,
            &["dm-lvm"],
            vec![path("/0/block_device/-", json!({"name": "dm-1", "kind": "dm", "uuid": "CRYPT-LUKS2-x"}))],
        ),
        barred(
            "md raid1",
            MD,
            &["md-raid"],
            vec![stack(json!([
                {"name": "md0", "kind": "md", "level": "raid1"}, {"name": "nvme0n1", "kind": "disk"}, {"name": "nvme1n1", "kind": "disk"},
            ]))],
        ),
        barred(
            "a SATA disk",
            NVFS,
            &["nvme-transport"],
            vec![stack(json!([{"name": "sda1", "kind": "partition"}, {"name": "sda", "kind": "disk"}]))],
        ),
        barred("NVMe over TCP", NVFS, &["nvme-transport"], vec![put("files/sys/class/nvme/nvme0/transport", "tcp\n")]),
        barred(
            "an NVMe disk made up by QEMU",
            NVFS,
            &["vm-type"],
            vec![put("files/sys/class/nvme/nvme0/model", "QEMU NVMe Ctrl                          \n")],
        ),
        slowed(
            "integrity metadata",
            NVFS,
            &["nvme-integrity"],
            vec![put("files/sys/block/nvme0n1/integrity/device_is_integrity_capable", "1\n")],
        ),
        slowed("an encrypted file", NVFS, &["inode-flags"], vec![path("/0/inode_flags", json!(0x80800))]),
        slowed("an inode without extents", NVFS, &["ext4-extents"], vec![path("/0/inode_flags", json!(0))]),
        slowed("data=writeback", NVFS, &["ext4-ordered"], vec![options("rw,relatime,data=writeback")]),
        slowed(
            "AMD's IOMMU, on by default",
            NVFS,
            &["iommu-state"],
            vec![
                put("files/sys/class/iommu/ivhd0", ""),
                link("files/sys/bus/pci/devices/0000:be:00.0/iommu_group", "../../../../kernel/iommu_groups/31"),
                put("files/sys/kernel/iommu_groups/31/type", "DMA-FQ\n"),
            ],
        ),
        slowed(
            "IOMMU known from the command line only",
            NVFS,
            &["iommu-state"],
            vec![put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on,sm_on\n")],
        ),
        slowed(
            "Grace with a passed-through IOMMU",
            GRACE,
            &["iommu-state"],
            vec![put("files/proc/cmdline", "ro iommu.passthrough=1\n")],
        ),
        slowed(
            "P2PDMA on an A100 without its third key",
            P2PDMA,
            &["gpu-static-bar1"],
            gpu("NVIDIA A100-SXM4-80GB", "8.0"),
        ),
        bad(
            "a T4 next to the H200 switches P2PDMA off",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-p2pdma-model"],
            &["gpu-p2pdma-model"],
            vec![set(
                NVML,
                "/gpus/-",
                json!({
                    "index": 1, "uuid": "GPU-t4", "name": "Tesla T4", "pci_bus_id": "0000:5e:00.0", "compute_capability": "7.5",
                    "bar1_total_bytes": 268_435_456_u64, "memory_total_bytes": 16_106_127_360_u64,
                }),
            )],
        ),
        slowed(
            "the second key of P2PDMA is missing",
            P2PDMA,
            &["cfg-p2p-both"],
            vec![config("{\"properties\":{\"use_pci_p2pdma\":true}}")],
        ),
        slowed("an old kernel for P2PDMA", P2PDMA, &["kernel-version"], kernel("5.15.0-100-generic")),
        slowed(
            "Rocky 9.5",
            P2PDMA,
            &["distro-blocklist"],
            vec![put("files/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\n")],
        ),
        bad(
            "nvidia-fs did not take the hook of a newer NVMe driver",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-nvme-symbol"],
            &["nvfs-nvme-symbol", "nvfs-registered"],
            vec![
                put("files/sys/module/nvidia_fs/version", "2.28.4\n"),
                put("files/proc/driver/nvidia-fs/modules", "wekafsio: 1\n"),
                put("files/proc/kallsyms", "0000000000000000 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ],
        ),
        bad(
            "the kernel changed and the old nvidia-fs does not build on it",
            "dkms-other-kernel",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-dkms"],
            &["nvfs-dkms", "nvfs-loaded"],
            vec![
                put("files/proc/sys/kernel/osrelease", "6.5.0-17-generic\n"),
                put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.18.3, 6.2.0-39-generic, x86_64: installed\nnvidia/580.95.05, 6.5.0-17-generic, x86_64: installed\n","stderr":""}]"#,
                ),
            ],
        ),
        bad(
            "RHEL without kernel-devel",
            "headers-missing",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-build-inputs"],
            &["nvfs-build-inputs", "nvfs-dkms", "nvfs-loaded"],
            vec![
                put("files/proc/sys/kernel/osrelease", "5.14.0-503.el9.x86_64\n"),
                put("files/lib/modules/5.14.0-503.el9.x86_64/modules.dep", ""),
                link("files/lib/modules/5.14.0-503.el9.x86_64/build", "/usr/src/kernels/5.14.0-503.el9.x86_64"),
                put("files/usr/src/kernels/5.14.0-427.el9.x86_64/Makefile", ""),
                put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.26.6: added\n","stderr":""}]"#,
                ),
            ],
        ),
        bad(
            "the log still names the proprietary modules that are gone",
            "proprietary-nvfs",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-load-errors"],
            &["nvfs-load-errors", "nvfs-loaded"],
            vec![put(
                "files/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
            )],
        ),
        bad(
            "a value that only the library refuses",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![open_fails(5002, "error reading config properties.new_key\n")],
        ),
        stopped(
            "no fabric manager",
            NVFS,
            &["lib-open-probe"],
            vec![set(
                LIB,
                "/open",
                json!({"code": 5011, "cuda_code": 802, "stdout": "", "stderr": "", "timed_out": false}),
            )],
        ),
        bad(
            "a crash under WSL",
            "wsl2",
            Route::None,
            Route::None,
            &["wsl"],
            &["wsl"],
            vec![put(
                LIB,
                r#"{"found":[{"path":"/l","version":"1.14"}],"chosen":"/l","open":{"code":null,"stdout":"","stderr":"Assertion failure, file index :cufio-udev  line :143","timed_out":false}}"#,
            )],
        ),
        bad(
            "nvidia-fs older than the library takes",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["nvfs-version"],
            &["nvfs-version", "lib-open-probe"],
            vec![put("files/sys/module/nvidia_fs/version", "2.11.0\n"), open_fails(5004, "")],
        ),
        barred(
            "a vGPU of Ampere",
            ("vgpu", Route::Compat),
            &["gpu-mig-vgpu"],
            vec![set(NVML, "/gpus/0/compute_capability", json!("8.7"))],
        ),
        bad(
            "libraries of another version, known only from NVML's error",
            "driver-mismatch",
            Route::None,
            Route::P2pdma,
            &["driver-mismatch", "gpu-static-bar1", "cfg-p2p-both"],
            &["driver-mismatch", "lib-open-probe", "gpu-static-bar1", "cfg-p2p-both"],
            vec![without("files/sys/module/nvidia")],
        ),
        warned(
            "two different libraries",
            NVFS,
            &["lib-found"],
            vec![set(
                LIB,
                "/found/-",
                json!({"path": "/opt/venv/nvidia/cufile/lib/libcufile.so.0", "version": "1.14"}),
            )],
        ),
        stopped(
            "GPU prohibited",
            NVFS,
            &["gpu-compute-mode"],
            vec![set(NVML, "/gpus/0/compute_mode", json!("prohibited"))],
        ),
    ]);
}

/// Removes parts from captures. A missing part must not cause a new failure.
#[test]
fn what_a_capture_lacks_never_becomes_a_failure() {
    let parts = [NVML, LIB, COMMANDS, "environment.json", PATHS];
    let mut wrong = Vec::new();
    for base in
        ["nvfs-healthy", "p2pdma-healthy", "p2pdma-listed", "grace", "nfs-rdma", "lustre", "md-raid0", "switch-healthy"]
    {
        for part in parts {
            if !fixture(base).join(part).exists() {
                continue;
            }
            let folder = build(base, &[without(part)]);
            let report = check(folder.path());
            let bad = |f: &&gds_top::core::Finding| f.status == Status::Fail;
            let failing: Vec<String> =
                report.findings.iter().filter(bad).map(|f| format!("{}: {}", f.id, f.summary)).collect();
            if !failing.is_empty() {
                wrong.push(format!("{base} without {part}: {failing:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
