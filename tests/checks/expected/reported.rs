//! Machines of users who asked for help in public, and current systems.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::json;

fn os(text: &str) -> Edit {
    put("files/etc/os-release", text)
}

fn empty(path: &str) -> Edit {
    put(format!("files{path}"), "")
}

/// Another disk of this kind below the path.
fn disk(name: &str, numbers: &str, filesystem: &str) -> Vec<Edit> {
    vec![
        path("/0/device", json!(numbers)),
        path("/0/source", json!(format!("/dev/{name}"))),
        path("/0/filesystem", json!(filesystem)),
        options("rw,relatime"),
        stack(json!([{"name": name, "kind": "disk"}])),
        put(
            format!("files/run/udev/data/b{numbers}"),
            format!("E:ID_FS_TYPE={filesystem}\nE:ID_FS_USAGE=filesystem\n"),
        ),
    ]
}

fn mount(kind: &str, source: &str, text: &str) -> Vec<Edit> {
    let mut edits = unbacked(kind);
    edits.extend([path("/0/source", json!(source)), options(text), path("/0/inode_flags", json!(null))]);
    edits
}

/// xfs, which needs no journal option.
fn xfs() -> Vec<Edit> {
    vec![filesystem("xfs"), options("rw,relatime,attr2,inode64,logbufs=8,noquota"), path("/0/inode_flags", json!(0))]
}

/// Machines from reports in issue trackers.
pub(crate) fn reports() -> Vec<Variant> {
    let xfs_raid = || {
        vec![
            filesystem("xfs"),
            options("rw,noatime,attr2,inode64,logbufs=8,sunit=1024,swidth=8192,noquota"),
            path("/0/inode_flags", json!(0)),
        ]
    };
    vec![
        // gds-nvidia-fs#87: the DOCA driver has the second hook, but nvidia-fs was built for the first one.
        bad(
            "Oracle's bare metal with DOCA 26.01 and xfs on raid0",
            "md-raid0",
            Route::Compat,
            Route::Nvfs,
            // The missing registration was expected. It is the consequence, and the different generation of the hook
            // is the cause.
            &["nvfs-nvme-symbol"],
            &["nvfs-nvme-symbol", "nvfs-registered"],
            all([
                xfs_raid(),
                driver("595.71.05", "13.2"),
                vec![
                    put("files/proc/sys/kernel/osrelease", "6.8.0-1057-oracle\n"),
                    put("files/boot/config-6.8.0-1057-oracle", "CONFIG_PCI_P2PDMA=y\n"),
                    put("files/sys/module/nvidia_fs/version", "2.29.4\n"),
                    put(
                        "files/proc/kallsyms",
                        "0 T pci_p2pdma_add_resource\n0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n",
                    ),
                    put("files/proc/driver/nvidia-fs/modules", "wekafsio: 1\n"),
                ],
            ]),
        ),
        // LMCache#795: the cache is on a volume for which udev in the container has no record.
        bad(
            "a container whose cache is on a volume without ID_FS_USAGE",
            "p2pdma-healthy",
            Route::None,
            Route::Compat,
            &["dm-lvm", "udev-database"],
            &["dm-lvm", "udev-database"],
            vec![
                empty("/.dockerenv"),
                put(
                    "files/proc/self/mountinfo",
                    "1 1 0:383 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u\n60 1 251:0 /cache /data rw - ext4 /dev/mapper/vg-cache rw\n",
                ),
                path("/0/device", json!("251:0")),
                path("/0/source", json!("/dev/mapper/vg-cache")),
                stack(
                    json!([{"name": "dm-0", "kind": "dm", "uuid": "LVM-x"}, {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"}]),
                ),
                put("files/run/udev/data/b251:0", "E:DM_NAME=vg-cache\n"),
            ],
        ),
        // gds-nvidia-fs#72: the module exists but has no symbol versions. The driver of the disk is the stock driver.
        bad(
            "an H20 with a tainted nvidia-fs and the stock NVMe driver",
            "nvme-stock",
            Route::Compat,
            Route::P2pdma,
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both"],
            &["nvfs-nvme-symbol", "nvfs-load-errors", "gpu-static-bar1", "cfg-p2p-both"],
            all([
                gpu("NVIDIA H20", "9.0"),
                vec![kernel_log(
                    "nvidia_fs: no symbol version for nvidia_p2p_dma_unmap_pages\nnvidia_fs: Initializing nvfs driver module\nnvidia_fs: registered correctly with major number 501\n",
                )],
            ]),
        ),
        // gds-nvidia-fs#66, as far as files show it: VAST's NFS over RDMA on a DGX.
        fine(
            "VAST over RDMA on a DGX H100",
            NFS,
            all([
                driver("580.65.06", "13.0"),
                gpu("NVIDIA H100 80GB HBM3", "9.0"),
                vec![
                    os("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"),
                    put("files/proc/sys/kernel/osrelease", "6.8.0-1040-nvidia\n"),
                    put("files/sys/module/nvidia_fs/version", "2.26.6\n"),
                ],
            ]),
        ),
        // gds-nvidia-fs#31: Rocky 8 with the NVMe driver of the distribution.
        bad(
            "Rocky 8 with nvidia-fs 2.17.3 and its own NVMe driver",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-nvme-symbol"],
            // The missing registration is listed as its consequence.
            &["nvfs-nvme-symbol", "nvfs-registered"],
            all([
                driver("570.86.15", "12.8"),
                vec![
                    os("NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.8\"\n"),
                    put("files/proc/sys/kernel/osrelease", "4.18.0-477.27.1.el8_8.x86_64\n"),
                    put("files/boot/config-4.18.0-477.27.1.el8_8.x86_64", "# CONFIG_PCI_P2PDMA is not set\n"),
                    put("files/sys/module/nvidia_fs/version", "2.24.3\n"),
                    put("files/proc/kallsyms", "0 t nvme_queue_rq\t[nvme]\n"),
                    put("files/proc/driver/nvidia-fs/modules", "wekafsio: 1\n"),
                    libcufile("1.13"),
                ],
            ]),
        ),
        // NCCL#1637: two GPUs, and gdscheck reports Unsupported.
        bad(
            "two RTX 5090",
            "geforce",
            Route::Compat,
            Route::Compat,
            &["gpu-class"],
            // CUDA's attribute of the GPU is listed as a consequence of its class.
            &["gpu-class", "gpu-gdr-attr"],
            gpu("NVIDIA GeForce RTX 5090", "12.0"),
        ),
        // An interrupted download: blocks were allocated, but the end was never written.
        warned(
            "a download that broke off behind fallocate",
            P2PDMA,
            &["sparse-or-delalloc"],
            vec![
                path("/0/size_bytes", json!(4_998_000_000_u64)),
                path("/0/allocated_bytes", json!(4_998_004_736_u64)),
                path(
                    "/0/unfinished",
                    json!([{"path": "/data/models/model-00003-of-00004.safetensors", "unwritten_bytes": 2_147_483_648_u64, "delayed_bytes": 0}]),
                ),
            ],
        ),
        warned(
            "a model that was copied a moment ago",
            NVFS,
            &["sparse-or-delalloc"],
            vec![path(
                "/0/unfinished",
                json!([{"path": "/data/models/model.safetensors", "unwritten_bytes": 0, "delayed_bytes": 104_857_600}]),
            )],
        ),
        fine("a model whose blocks are all written", P2PDMA, vec![path("/0/unfinished", json!([]))]),
        fine("facts of extents that make no sense", P2PDMA, vec![path("/0/unfinished", json!({"what": 1}))]),
    ]
}

/// Machines without problems.
pub(crate) fn healthy() -> Vec<Variant> {
    vec![
        fine("B300 and P2PDMA", P2PDMA, gpu("NVIDIA B300 SXM6 AC", "10.3")),
        fine(
            "L40S and P2PDMA with its third key",
            P2PDMA,
            all([
                gpu("NVIDIA L40S", "8.9"),
                vec![put(
                    "files/proc/driver/nvidia/params",
                    "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;ForceP2P=0;\"\n",
                )],
            ]),
        ),
        fine("RTX PRO 6000 Blackwell by nvidia-fs", NVFS, gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0")),
        fine(
            "Debian 13 by nvidia-fs",
            NVFS,
            all([
                kernel("6.12.48+deb13-amd64"),
                vec![
                    os("ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n"),
                    put("files/sys/module/nvidia_fs/version", "2.27.3\n"),
                ],
            ]),
        ),
        fine(
            "Ubuntu 26.04 with NVIDIA's kernel 7.0",
            NVFS,
            all([
                kernel("7.0.0-1005-nvidia"),
                vec![
                    os("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"26.04\"\n"),
                    put("files/sys/module/nvidia_fs/version", "2.30.1\n"),
                    put(
                        "files/proc/kallsyms",
                        "0 T pci_p2pdma_add_resource\n0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n",
                    ),
                ],
            ]),
        ),
        fine(
            "SLES 15 SP7 with a root on btrfs",
            P2PDMA,
            all([
                kernel("6.4.0-150700.53.19-default"),
                xfs(),
                vec![
                    os("NAME=\"SLES\"\nVERSION_ID=\"15.7\"\nID=\"sles\"\nID_LIKE=\"suse\"\n"),
                    put(
                        "files/proc/self/mountinfo",
                        "1 1 0:31 /@/.snapshots/1/snapshot / rw,relatime - btrfs /dev/nvme1n1p2 rw,subvol=/@/.snapshots/1/snapshot\n60 1 259:3 / /data rw,relatime - xfs /dev/nvme0n1p1 rw\n",
                    ),
                ],
            ]),
        ),
        fine(
            "md raid0 of four disks on Linux 7.1, by P2PDMA",
            ("p2pdma-healthy", Route::P2pdma),
            all([
                kernel("7.1.2-1-default"),
                xfs(),
                vec![
                    path("/0/device", json!("9:127")),
                    path("/0/source", json!("/dev/md127")),
                    stack(json!([
                        {"name": "md127", "kind": "md", "level": "raid0"},
                        {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"},
                        {"name": "nvme1n1", "kind": "disk", "pci_bus_id": "0000:c5:00.0"}
                    ])),
                    put("files/sys/class/nvme/nvme1/transport", "pcie\n"),
                    put("files/run/udev/data/b9:127", "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=raid0\n"),
                    // The answer without this edit was that the key is missing, which was not expected.
                    config(
                        "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true }, \"raid\": { \"use_pci_p2pdma\": true } } }",
                    ),
                ],
            ]),
        ),
        fine(
            "instance storage of a p5 with xfs",
            NVFS,
            all([
                kernel("6.8.0-1030-aws"),
                xfs(),
                vec![
                    put("files/sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
                    put("files/sys/class/dmi/id/product_name", "p5.48xlarge\n"),
                    put("files/sys/class/nvme/nvme0/model", "Amazon EC2 NVMe Instance Storage\n"),
                    set(NVML, "/gpus/0/virtualization", json!("passthrough")),
                ],
            ]),
        ),
        fine("FSx for Lustre over EFA", LUSTRE, vec![path("/0/source", json!("10.0.1.5@efa:/abcdefgh"))]),
        fine(
            "Lustre with servers on two networks",
            LUSTRE,
            vec![path("/0/source", json!("10.0.0.1@tcp,10.1.0.1@o2ib1:10.0.0.2@tcp,10.1.0.2@o2ib1:/fs"))],
        ),
        fine(
            "a DGX under Enroot with all it needs",
            NVFS,
            vec![
                put(
                    "environment.json",
                    r#"{"ENROOT_ROOTFS": "/raid/enroot/data/pyxis_1", "NVIDIA_VISIBLE_DEVICES": "all"}"#,
                ),
                put(
                    "files/proc/self/mountinfo",
                    "1 1 0:90 / / rw,relatime - overlay overlay rw\n60 1 259:3 / /data rw,relatime - ext4 /dev/nvme0n1p1 rw,data=ordered\n",
                ),
            ],
        ),
        fine("Apptainer with the host's udev", P2PDMA, vec![empty("/.singularity.d/runscript")]),
        warned(
            "an H100 cut into instances",
            P2PDMA,
            &["gpu-mig-vgpu"],
            all([gpu("NVIDIA H100 80GB HBM3", "9.0"), vec![set(NVML, "/gpus/0/mig", json!("enabled"))]]),
        ),
    ]
}

/// Machines on which a direct route is not possible.
pub(crate) fn elsewhere() -> Vec<Variant> {
    let fuse =
        |name, kind: &str, source: &str| barred(name, P2PDMA, &["fs-type"], mount(kind, source, "rw,nosuid,nodev"));
    vec![
        fuse("3FS by FUSE", "fuse.hf3fs", "hf3fs.stage"),
        fuse("JuiceFS", "fuse.juicefs", "JuiceFS:models"),
        fuse("Amazon's mountpoint for S3", "fuse", "mountpoint-s3"),
        fuse("CephFS by the kernel", "ceph", "10.0.0.5:6789:/models"),
        barred("a block device of Ceph", NVFS, &["nvme-transport"], disk("rbd0", "252:0", "ext4")),
        barred("persistent memory", NVFS, &["nvme-transport"], disk("pmem0", "259:0", "ext4")),
        barred("a disk over the network of DRBD", NVFS, &["nvme-transport"], disk("drbd0", "147:0", "xfs")),
        barred(
            "a model in an image that is mounted by loop",
            NVFS,
            &["dm-lvm"],
            all([
                disk("loop3", "7:3", "ext4"),
                vec![options("ro,relatime,data=ordered"), stack(json!([{"name": "loop3", "kind": "loop"}]))],
            ]),
        ),
        barred(
            "a thin volume of LVM",
            P2PDMA,
            &["dm-lvm"],
            all([
                disk("dm-4", "253:4", "xfs"),
                vec![stack(json!([
                    {"name": "dm-4", "kind": "dm", "uuid": "LVM-aaa"},
                    {"name": "dm-2", "kind": "dm", "uuid": "LVM-bbb-tpool"},
                    {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"}
                ]))],
            ]),
        ),
        slowed(
            "a partition of a multipath disk by kpartx",
            NVFS,
            &["dm-lvm"],
            all([
                disk("dm-3", "253:3", "xfs"),
                vec![stack(json!([
                    {"name": "dm-3", "kind": "dm", "uuid": "part1-mpath-eui.0025"},
                    {"name": "dm-2", "kind": "dm", "uuid": "mpath-eui.0025"},
                    {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"}
                ]))],
            ]),
        ),
        slowed("Lustre over TCP", LUSTRE, &["fs-type"], vec![path("/0/source", json!("10.0.1.5@tcp:/abcdefgh"))]),
        barred(
            "Jetson Thor",
            ("dgx-spark", Route::Compat),
            &["gpu-gdr-attr"],
            all([
                gpu("NVIDIA Thor", "11.0"),
                vec![
                    put("files/proc/sys/kernel/osrelease", "6.8.12-tegra\n"),
                    put("files/boot/extlinux/extlinux.conf", "LABEL primary\n  APPEND ${cbootargs} quiet\n"),
                ],
            ]),
        ),
        bad(
            "gVisor",
            "p2pdma-healthy",
            // compat mode was expected. But since 1.16 libcufile hangs without /proc/modules, which this sandbox does
            // not have.
            Route::None,
            Route::Compat,
            &["ctr-proc-sys", "kernel-version"],
            &["kernel-version", "ctr-proc-sys"],
            vec![
                put("files/proc/sys/kernel/osrelease", "4.4.0\n"),
                put("files/proc/version", "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"),
                without("files/boot"),
                without("files/proc/kallsyms"),
                without("files/sys/module/nvme_core"),
                without("files/proc/modules"),
            ],
        ),
        barred(
            "a newer gVisor",
            P2PDMA,
            &["kernel-version"],
            vec![
                put("files/proc/sys/kernel/osrelease", "4.19.0-gvisor\n"),
                put("files/proc/version", "Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016\n"),
                without("files/boot"),
                without("files/proc/kallsyms"),
            ],
        ),
        stopped(
            "Apptainer without the host's udev",
            P2PDMA,
            &["udev-database"],
            vec![empty("/.singularity.d/runscript"), without("files/run/udev")],
        ),
    ]
}
