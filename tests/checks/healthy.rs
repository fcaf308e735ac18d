//! Healthy machines with harmless peculiarities must give no alarm.

use crate::machine::*;
use serde_json::json;

#[test]
fn healthy_machines_with_harmless_oddities_give_no_alarm() {
    let noise = "Linux version 6.14.0\nnvidia_fs: Initializing nvfs driver module\nnvidia_fs: registered correctly with major number 505\n\
                      nvme nvme0: 16/0/0 default/read/poll queues\nusb 1-1: device descriptor read/64, error -71\npcieport 0000:00:1c.0: AER: Correctable error\n\
                      nvidia-nvlink: Nvlink Core is being initialized\nACPI Error: no handler\nCould not resolve symbol [^GPP6.VGA]\n";
    judge(vec![
        fine(
            "a login's limits",
            NVFS,
            vec![put(
                "files/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            1024                 524288               files     \n\
             Max locked memory         8388608              8388608              bytes     \n",
            )],
        ),
        fine(
            "xfs",
            NVFS,
            vec![
                filesystem("xfs"),
                options("rw,noatime,attr2,inode64,logbufs=8,noquota"),
                path("/0/inode_flags", json!(0)),
                path("/0/statfs_magic", json!(0x5846_5342)),
            ],
        ),
        fine("a noisy kernel log", NVFS, vec![kernel_log(noise)]),
        fine(
            "compat mode not allowed, and not needed",
            NVFS,
            vec![config("{ \"properties\": { \"allow_compat_mode\": false } }")],
        ),
        fine(
            "the template that the toolkit ships",
            NVFS,
            vec![config(
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
            NVFS,
            all([
                driver("550.163.01", "12.4"),
                vec![put("files/sys/module/nvidia_fs/version", "2.20.5\n"), libcufile("1.10")],
            ]),
        ),
        fine(
            "RHEL 9.4 with a weak update of nvidia-fs",
            NVFS,
            vec![
                put(
                    "files/etc/os-release",
                    "NAME=\"Red Hat Enterprise Linux\"\nID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n",
                ),
                put("files/proc/sys/kernel/osrelease", "5.14.0-427.13.1.el9_4.x86_64\n"),
                command(
                    &["dkms", "status"],
                    "nvidia-fs/2.25.7, 5.14.0-427.13.1.el9_4.x86_64, x86_64: installed (original_module exists)\n",
                ),
            ],
        ),
        fine(
            "SUSE",
            NVFS,
            vec![put("files/etc/os-release", "NAME=\"SLES\"\nVERSION_ID=\"15.6\"\nID=\"sles\"\nID_LIKE=\"suse\"\n")],
        ),
        fine(
            "persistence off, ECC off",
            NVFS,
            vec![set(NVML, "/gpus/0/persistence", json!(false)), set(NVML, "/gpus/0/ecc", json!("disabled"))],
        ),
        fine(
            "an IOMMU that passes through",
            NVFS,
            vec![
                put("files/sys/class/iommu/dmar0", ""),
                put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on iommu=pt\n"),
            ],
        ),
        fine(
            "IOMMU asked for, and switched off in the firmware",
            NVFS,
            vec![
                put("files/sys/class/iommu/.keep", ""),
                without("files/sys/class/iommu/.keep"),
                put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro intel_iommu=on\n"),
            ],
        ),
        fine(
            "a plain user who may not read the kernel log",
            NVFS,
            vec![set(
                COMMANDS,
                "/-",
                json!({"argv": ["journalctl", "-k", "-b", "-o", "cat"], "exit_code": 1, "stdout": "", "stderr": "No journal files were opened due to insufficient permissions."}),
            )],
        ),
        fine(
            "the same libcufile by two names",
            NVFS,
            vec![set(LIB, "/found/-", json!({"path": "/usr/lib/x86_64-linux-gnu/libcufile.so.0", "version": "1.16"}))],
        ),
        fine(
            "P2PDMA whose mapping of BAR1 is the driver's own",
            P2PDMA,
            vec![
                put("files/proc/driver/nvidia/params", "RegistryDwords: \"\"\n"),
                libcufile("1.20"),
                set(LIB, "/p2p_flags", json!({"nvme": 1})),
            ],
        ),
        fine(
            "P2PDMA on an A100 with its third key",
            P2PDMA,
            all([
                gpu("NVIDIA A100-SXM4-80GB", "8.0"),
                vec![put(
                    "files/proc/driver/nvidia/params",
                    "RegistryDwords: \"RMForceStaticBar1=1;ForceP2P=0;RmForceDisableIomapWC=1;\"\n",
                )],
            ]),
        ),
        fine(
            "P2PDMA on RHEL 9.6",
            P2PDMA,
            all([
                vec![put("files/etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"9.6\"\n")],
                kernel("5.14.0-570.12.1.el9_6.x86_64"),
            ]),
        ),
        fine("P2PDMA on Linux 6.18, for which no patched NVMe driver exists", P2PDMA, kernel("6.18.2-generic")),
        fine(
            "Grace with NVMe multipath and persistence",
            GRACE,
            vec![put("files/sys/module/nvme_core/parameters/multipath", "Y\n")],
        ),
        fine(
            "a display GPU of another vendor next to it",
            NVFS,
            vec![
                put("files/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1a03\n"),
                put("files/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n"),
            ],
        ),
    ]);
}
