//! Storage without a fixture: other names of file systems, layered block devices, and fabrics with RDMA.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::{Value, json};

const RDMA_LIBS: &str = "\tlibibverbs.so.1 (libc6)\n\tlibrdmacm.so.1 (libc6)\n\tlibmlx5.so.1 (libc6)\n";

fn disk(name: &str) -> Value {
    json!({"name": name, "kind": "disk", "logical_block_bytes": 512})
}

/// A mount without a block device.
fn mount(name: &str, source: &str, text: &str) -> Vec<Edit> {
    let more = vec![
        path("/0/source", json!(source)),
        options(text),
        path("/0/statfs_magic", Value::Null),
        path("/0/inode_flags", Value::Null),
    ];
    all([unbacked(name), more])
}

/// The requirements of file systems with RDMA in user space: an address of this host, a port that is up, and
/// libraries.
pub(crate) fn rdma_host() -> Vec<Edit> {
    vec![
        config("{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } }"),
        put("files/proc/net/fib_trie", "Local:\n  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.1\n        /32 host LOCAL\n"),
        put("files/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
        command(&["ldconfig", "-p"], RDMA_LIBS),
    ]
}

pub(crate) fn peermem() -> Edit {
    put("files/sys/module/nvidia_peermem/version", "580.95.05\n")
}

/// The flags of libcufile for one kind of storage: 1 P2PDMA, 2 nvidia-fs, 4 dma-buf, 8 C2C, 16 nvidia_peermem.
pub(crate) fn says(transport: &str, mask: u64) -> Vec<Edit> {
    let none = json!({"nvme": 0, "wekafs": 0, "gpfs": 0, "nfs": 0, "lustre": 0, "beegfs": 0, "scatefs": 0});
    vec![libcufile("1.20"), set(LIB, "/p2p_flags", none), set(LIB, format!("/p2p_flags/{transport}"), json!(mask))]
}

/// File systems with their support by nvidia-fs and libcufile.
pub(crate) fn filesystems() -> Vec<Variant> {
    vec![
        // The mount of Amazon's client. gds-diag lists it with Lustre.
        fine("FSx for Lustre by its other name", LUSTRE, vec![filesystem("fuse.fsx_lustre")]),
        fine(
            "EXAScaler on a DGX",
            LUSTRE,
            vec![
                put("files/sys/fs/lustre/version", "2.14.0_ddn196\n"),
                put("files/proc/sys/kernel/osrelease", "6.8.0-1040-nvidia\n"),
            ],
        ),
        fine(
            "NFS with VAST's client and many addresses",
            NFS,
            vec![
                filesystem("nfs"),
                options(
                    "rw,vers=3,nconnect=8,remoteports=10.0.0.1-10.0.0.8,spread_reads,spread_writes,proto=rdma,port=20049",
                ),
            ],
        ),
        fine(
            "ScaTeFS with its client",
            LUSTRE,
            all([
                mount("scatefs", "nec", "rw"),
                vec![put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nscatefs: (null)\nwekafsio: 1\n")],
            ]),
        ),
        fine(
            "BeeGFS by its old name",
            LUSTRE,
            all([
                mount("fhgfs", "fhgfs_nodev", "rw"),
                vec![put("files/proc/driver/nvidia-fs/modules", "beegfs: (null)\nwekafsio: 1\n")],
            ]),
        ),
        barred(
            "Google's bucket as a directory",
            NVFS,
            &["fs-type"],
            mount("fuse.gcsfuse", "models", "ro,nosuid,nodev"),
        ),
        barred("a share of Windows", NVFS, &["fs-type"], mount("smb3", "//nas/models", "rw,vers=3.1.1")),
        // Without O_DIRECT, even reads through host memory fail. odirect-open is a consequence of this finding.
        bad(
            "FAT",
            "nvfs-healthy",
            Route::None,
            Route::None,
            &["fs-type"],
            &["fs-type", "odirect-open"],
            vec![
                filesystem("vfat"),
                options("rw,fmask=0022"),
                path("/0/open_direct", json!("EINVAL")),
                path("/0/inode_flags", Value::Null),
            ],
        ),
        barred(
            "f2fs",
            NVFS,
            &["fs-type"],
            vec![filesystem("f2fs"), options("rw,lazytime"), path("/0/inode_flags", json!(0))],
        ),
        barred(
            "ext3",
            NVFS,
            &["fs-type"],
            vec![filesystem("ext3"), options("rw,data=ordered"), path("/0/inode_flags", json!(0))],
        ),
        // Before 1.16, the registration fails with 5030 (LMCache#795).
        bad(
            "the image's own layer with libcufile 1.14",
            "overlay-root",
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            vec![libcufile("1.14")],
        ),
        slowed(
            "virtiofs with one key of two",
            P2PDMA,
            &["cfg-p2p-both"],
            all([mount("virtiofs", "models", "rw,relatime"), vec![libcufile("1.17")]]),
        ),
        fine(
            "virtiofs with both keys, and libcufile that confirms it",
            P2PDMA,
            all([
                mount("virtiofs", "models", "rw,relatime"),
                says("virtiofs", 1),
                vec![config(
                    "{ \"properties\": { \"use_pci_p2pdma\": true }, \"fs\": { \"virtiofs\": { \"use_pci_p2pdma\": true } } }",
                )],
            ]),
        ),
    ]
}

/// Routes over RDMA, from files and from the values of libcufile.
pub(crate) fn fabrics() -> Vec<Variant> {
    vec![
        fine("WekaFS over RDMA, as libcufile says", WEKA, all([rdma_host(), vec![peermem()], says("wekafs", 16)])),
        fine(
            "WekaFS by dma-buf, without nvidia_peermem",
            WEKA,
            all([
                rdma_host(),
                says("wekafs", 4),
                vec![config(
                    "{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"], \"rdma_peer_type\": \"dmabuf\" } }",
                )],
            ]),
        ),
        fine(
            "GPFS over RDMA, by its old name",
            WEKA,
            all([rdma_host(), vec![peermem(), filesystem("mmfs")], says("gpfs", 16)]),
        ),
        // With global P2PDMA, libcufile reports P2PDMA for GPFS, although this is not one of its routes (gds-diag,
        // release notes).
        bad(
            "GPFS of which libcufile says P2PDMA",
            "weka",
            Route::Compat,
            Route::Rdma,
            &[],
            &[],
            all([rdma_host(), vec![peermem(), filesystem("gpfs")], says("gpfs", 1)]),
        ),
        bad(
            "WekaFS over RDMA, of which libcufile says compat",
            "weka",
            Route::Compat,
            Route::Rdma,
            &[],
            &[],
            all([rdma_host(), vec![peermem()], says("wekafs", 0)]),
        ),
        slowed(
            "WekaFS with an address of the server",
            WEKA,
            &["rdma-ips"],
            all([
                rdma_host(),
                vec![peermem(), config("{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.200\"] } }")],
            ]),
        ),
        slowed("WekaFS without nvidia_peermem only", WEKA, &["nvfs-peermem"], rdma_host()),
        fine(
            "WekaFS with the addresses in its own section",
            WEKA,
            all([
                rdma_host(),
                says("wekafs", 16),
                vec![peermem(), config("{ \"fs\": { \"weka\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } } }")],
            ]),
        ),
        fine(
            "the module of nvidia_peermem by its old name",
            WEKA,
            all([
                rdma_host(),
                says("wekafs", 16),
                vec![
                    put("files/sys/module/nv_peer_mem/version", "1.3\n"),
                    put(
                        "files/proc/modules",
                        "nv_peer_mem 16384 0 - Live 0x0\nnvidia 14000000 12 nv_peer_mem, Live 0x0\nnvme 60000 3 - Live 0x0\n",
                    ),
                ],
            ]),
        ),
        fine("NFS over RDMA, as libcufile says too", NFS, says("nfs", 2)),
        bad(
            "NFS over RDMA, of which libcufile says compat",
            "nfs-rdma",
            Route::Compat,
            Route::Nvfs,
            &[],
            &[],
            says("nfs", 0),
        ),
        fine("Lustre, as libcufile says too", LUSTRE, says("lustre", 2)),
        barred(
            "NVMe over RDMA and over TCP in one md",
            MD,
            &["nvme-transport"],
            vec![put("files/sys/class/nvme/nvme1/transport", "tcp\n")],
        ),
        fine(
            "InfiniBand on a machine whose models are on a disk",
            NVFS,
            vec![
                put("files/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n"),
                put("files/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n"),
            ],
        ),
    ]
}

/// Layered block devices.
pub(crate) fn stacks() -> Vec<Variant> {
    let compat = |name, blockers: &'static [&'static str], edits| {
        bad(name, "nvfs-healthy", Route::Compat, Route::Compat, blockers, blockers, edits)
    };
    let named = |name: &str| {
        vec![
            path("/0/source", json!(format!("/dev/{name}"))),
            path("/0/device", json!("252:0")),
            stack(json!([{"name": name, "kind": "disk", "logical_block_bytes": 512}])),
            put("files/run/udev/data/b252:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
        ]
    };
    vec![
        compat("a volume of ZFS", &["nvme-transport"], named("zd0")),
        compat("Ceph's block device", &["nvme-transport"], named("rbd0")),
        compat("an image behind a loop device", &["nvme-transport"], named("loop7")),
        compat("persistent memory", &["nvme-transport"], named("pmem0")),
        compat(
            "bcache over NVMe",
            &["nvme-transport"],
            vec![stack(json!([
                {"name": "bcache0", "kind": "disk"}, {"name": "nvme0n1", "kind": "disk"}, {"name": "sda", "kind": "disk"},
            ]))],
        ),
        compat(
            "a device mapper target without an identifier",
            &["dm-lvm"],
            vec![stack(json!([
                {"name": "dm-0", "kind": "dm", "uuid": ""}, {"name": "nvme0n1p1", "kind": "partition"}, disk("nvme0n1"),
            ]))],
        ),
        compat(
            "Stratis",
            &["dm-lvm"],
            vec![
                filesystem("xfs"),
                path("/0/inode_flags", json!(0)),
                stack(json!([
                    {"name": "dm-4", "kind": "dm", "uuid": "stratis-1-private-1d2f-thin-fs-9a"}, {"name": "dm-1", "kind": "dm", "uuid": "stratis-1-private-1d2f-flex-thindata"}, disk("nvme0n1"),
                ])),
            ],
        ),
        barred(
            "md linear",
            MD,
            &["md-raid"],
            vec![
                path("/0/block_device/0/level", json!("linear")),
                put("files/run/udev/data/b9:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=linear\n"),
            ],
        ),
        barred(
            "md raid0 over SATA disks",
            MD,
            &["nvme-transport"],
            vec![stack(json!([{"name": "md0", "kind": "md", "level": "raid0"}, disk("sda"), disk("sdb")]))],
        ),
        fine(
            "Intel's firmware RAID 0",
            MD,
            vec![
                path("/0/source", json!("/dev/md126")),
                path("/0/device", json!("9:126")),
                path("/0/block_device/0/name", json!("md126")),
                put(
                    "files/run/udev/data/b9:126",
                    "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=raid0\nE:MD_METADATA=imsm\n",
                ),
            ],
        ),
        fine(
            "xfs on a DGX's /raid",
            MD,
            vec![
                filesystem("xfs"),
                options("rw,noatime,attr2,inode64,sunit=1024,swidth=4096,noquota"),
                path("/0/inode_flags", json!(0)),
                put("files/run/udev/data/b9:0", "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=raid0\n"),
                put("files/proc/sys/kernel/osrelease", "5.15.0-1066-nvidia\n"),
            ],
        ),
        slowed(
            "files that the kernel reads through the page cache for an unknown reason",
            NVFS,
            &["statx-dioalign"],
            vec![path("/0/dio_offset_align", json!(0)), path("/0/dio_mem_align", json!(0))],
        ),
        slowed(
            "files with fs-verity next to nvidia-fs",
            NVFS,
            &["inode-flags"],
            vec![
                path("/0/dio_offset_align", json!(0)),
                path("/0/dio_mem_align", json!(0)),
                path("/0/inode_flags", json!(0x0018_0000)),
            ],
        ),
        fine(
            "a disk of 4096-byte sectors",
            NVFS,
            vec![
                path("/0/dio_offset_align", json!(4096)),
                path("/0/dio_mem_align", json!(4096)),
                path("/0/block_device/0/logical_block_bytes", json!(4096)),
                path("/0/block_device/1/logical_block_bytes", json!(4096)),
            ],
        ),
        fine(
            "the complete disk without a partition",
            NVFS,
            vec![
                path("/0/source", json!("/dev/nvme0n1")),
                path("/0/device", json!("259:2")),
                stack(json!([disk("nvme0n1")])),
                without("files/run/udev/data/b259:3"),
                put("files/run/udev/data/b259:2", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
            ],
        ),
        slowed("journalled data", NVFS, &["ext4-ordered"], vec![options("rw,relatime,data=journal")]),
    ]
}
