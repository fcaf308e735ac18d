//! Healthy machines with harmless oddities: no alarm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check_support;

use check_support::{COMMANDS, Drop, LIB, NVML, Put, Set, Variant, judge, path, said};
use gds_top::domain::Route;
use serde_json::json;

#[test]
fn healthy_machines_with_harmless_oddities_give_no_alarm() {
    let kernel_log = "Linux version 6.14.0\nnvidia_fs: Initializing nvfs driver module\nnvidia_fs: registered correctly with major number 505\n\
                      nvme nvme0: 16/0/0 default/read/poll queues\nusb 1-1: device descriptor read/64, error -71\npcieport 0000:00:1c.0: AER: Correctable error\n\
                      nvidia-nvlink: Nvlink Core is being initialized\nACPI Error: no handler\nCould not resolve symbol [^GPP6.VGA]\n";
    let fine =
        |name, base, route, edits| Variant { name, base, edits, route, possible: route, blockers: &[], loud: &[] };
    judge(vec![
        fine(
            "a login's limits",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put(
                "files/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            1024                 524288               files     \n\
             Max locked memory         8388608              8388608              bytes     \n",
            )],
        ),
        fine(
            "xfs",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                path("/0/filesystem", json!("xfs")),
                path("/0/mount_options", json!("rw,noatime,attr2,inode64,logbufs=8,noquota")),
                path("/0/inode_flags", json!(0)),
                path("/0/statfs_magic", json!(0x5846_5342)),
            ],
        ),
        fine(
            "a noisy kernel log",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(COMMANDS, "/-", said(&["journalctl", "-k", "-b", "-o", "cat"], kernel_log))],
        ),
        fine(
            "compat mode not allowed, and not needed",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put("files/etc/cufile.json", "{ \"properties\": { \"allow_compat_mode\": false } }")],
        ),
        fine(
            "the template that the toolkit ships",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put(
                "files/etc/cufile.json",
                "{\n // NOTE\n \"logging\": { // \"dir\": \"/home/x\",\n \"level\": \"ERROR\" },\n \"profile\": { \"nvtx\": false, \"cufile_stats\": 0 },\n \
             \"execution\": { \"max_io_queue_depth\": 128, \"max_request_parallelism\": 4, \"max_io_threads\": 4, \"parallel_io\": true, \"min_io_threshold_size_kb\": 8192 },\n \
             \"properties\": { \"max_direct_io_size_kb\": 16384, \"max_device_cache_size_kb\": 131072, \"per_buffer_cache_size_kb\": 1024, \
             \"max_device_pinned_mem_size_kb\": 33554432, \"use_poll_mode\": false, \"poll_mode_max_size_kb\": 4, \"use_pci_p2pdma\": false, \
             \"allow_compat_mode\": true, \"gds_rdma_write_support\": true, \"io_batchsize\": 128, \"io_priority\": \"default\", \"rdma_dev_addr_list\": [], \
             \"rdma_load_balancing_policy\": \"RoundRobin\", \"rdma_dynamic_routing\": false, \
             \"rdma_dynamic_routing_order\": [ \"GPU_MEM_NVLINKS\", \"GPU_MEM\", \"SYS_MEM\", \"P2P\" ] },\n \
             \"fs\": { \"generic\": { \"posix_unaligned_writes\": false }, \"lustre\": { \"posix_gds_min_kb\": 0 } },\n \
             \"denylist\": { \"drivers\": [], \"devices\": [], \"mounts\": [], \"filesystems\": [] },\n \
             \"miscellaneous\": { \"api_check_aggressive\": false }\n}\n",
            )],
        ),
        fine(
            "an old driver on bare metal with the nvidia-fs of its time",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/module/nvidia/version", "550.163.01\n"),
                Put(
                    "files/proc/driver/nvidia/version",
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build\n",
                ),
                Set(NVML, "/driver_version", json!("550.163.01")),
                Set(NVML, "/cuda_version", json!("12.4")),
                Put("files/sys/module/nvidia_fs/version", "2.20.5\n"),
                Set(LIB, "/found/0/version", json!("1.10")),
            ],
        ),
        fine(
            "RHEL 9.4 with a weak update of nvidia-fs",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put(
                    "files/etc/os-release",
                    "NAME=\"Red Hat Enterprise Linux\"\nID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n",
                ),
                Put("files/proc/sys/kernel/osrelease", "5.14.0-427.13.1.el9_4.x86_64\n"),
                Set(
                    COMMANDS,
                    "/-",
                    said(
                        &["dkms", "status"],
                        "nvidia-fs/2.25.7, 5.14.0-427.13.1.el9_4.x86_64, x86_64: installed (original_module exists)\n",
                    ),
                ),
            ],
        ),
        fine(
            "SUSE",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put("files/etc/os-release", "NAME=\"SLES\"\nVERSION_ID=\"15.6\"\nID=\"sles\"\nID_LIKE=\"suse\"\n")],
        ),
        fine(
            "persistence off, ECC off",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(NVML, "/gpus/0/persistence", json!(false)), Set(NVML, "/gpus/0/ecc", json!("disabled"))],
        ),
        fine(
            "an IOMMU that passes through",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/class/iommu/dmar0", ""),
                Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on iommu=pt\n"),
            ],
        ),
        fine(
            "IOMMU asked for, and switched off in the firmware",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/class/iommu/.keep", ""),
                Drop("files/sys/class/iommu/.keep"),
                Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on\n"),
            ],
        ),
        fine(
            "a plain user who may not read the kernel log",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(
                COMMANDS,
                "/-",
                json!({"argv": ["journalctl", "-k", "-b", "-o", "cat"], "exit_code": 1, "stdout": "", "stderr": "No journal files were opened due to insufficient permissions."}),
            )],
        ),
        fine(
            "the same libcufile by two names",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(LIB, "/found/-", json!({"path": "/usr/lib/x86_64-linux-gnu/libcufile.so.0", "version": "1.16"}))],
        ),
        fine(
            "P2PDMA whose mapping of BAR1 is the driver's own",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/proc/driver/nvidia/params", "RegistryDwords: \"\"\n"),
                Set(LIB, "/found/0/version", json!("1.20")),
                Set(LIB, "/p2p_flags", json!({"nvme": 1})),
            ],
        ),
        fine(
            "P2PDMA on an A100 with its third key",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Set(NVML, "/gpus/0/name", json!("NVIDIA A100-SXM4-80GB")),
                Set(NVML, "/gpus/0/compute_capability", json!("8.0")),
                Put(
                    "files/proc/driver/nvidia/params",
                    "RegistryDwords: \"RMForceStaticBar1=1;ForceP2P=0;RmForceDisableIomapWC=1;\"\n",
                ),
            ],
        ),
        fine(
            "P2PDMA on RHEL 9.6",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"9.6\"\n"),
                Put("files/proc/sys/kernel/osrelease", "5.14.0-570.12.1.el9_6.x86_64\n"),
                Put("files/boot/config-5.14.0-570.12.1.el9_6.x86_64", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "P2PDMA on Linux 6.18, for which no patched NVMe driver exists",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/proc/sys/kernel/osrelease", "6.18.2-generic\n"),
                Put("files/boot/config-6.18.2-generic", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "Grace with NVMe multipath and persistence",
            "grace",
            Route::C2c,
            vec![Put("files/sys/module/nvme_core/parameters/multipath", "Y\n")],
        ),
        fine(
            "a display GPU of another vendor beside it",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1a03\n"),
                Put("files/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n"),
            ],
        ),
    ]);
}
