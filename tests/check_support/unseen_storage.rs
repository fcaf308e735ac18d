//! Storage that fixtures do not have: file systems by their other names, block devices in layers, fabrics that RDMA reaches.

use super::{COMMANDS, Drop, Edit, LIB, Put, Set, Variant, bad, fine, path, said, with};
use gds_top::domain::Route;
use serde_json::{Value, json};

const RDMA_LIBS: &str = "\tlibibverbs.so.1 (libc6)\n\tlibrdmacm.so.1 (libc6)\n\tlibmlx5.so.1 (libc6)\n";

fn disk(name: &str) -> Value {
    json!({"name": name, "kind": "disk", "logical_block_bytes": 512})
}

fn stack(devices: Value) -> Edit {
    path("/0/block_device", devices)
}

/// A mount without a block device below it.
fn mount(filesystem: &str, source: &str, options: &str) -> Vec<Edit> {
    vec![
        path("/0/filesystem", json!(filesystem)),
        path("/0/source", json!(source)),
        path("/0/mount_options", json!(options)),
        path("/0/device", json!("0:71")),
        path("/0/statfs_magic", Value::Null),
        path("/0/inode_flags", Value::Null),
        stack(json!([])),
    ]
}

/// All that file systems over RDMA in user space ask for: an address of this host, a port that is up, libraries.
pub(crate) fn rdma_host() -> Vec<Edit> {
    vec![
        Put("files/etc/cufile.json", "{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } }"),
        Put("files/proc/net/fib_trie", "Local:\n  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.1\n        /32 host LOCAL\n"),
        Put("files/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
        Set(COMMANDS, "/-", said(&["ldconfig", "-p"], RDMA_LIBS)),
    ]
}

pub(crate) fn peermem() -> Edit {
    Put("files/sys/module/nvidia_peermem/version", "580.95.05\n")
}

/// What libcufile says of one kind of storage: 1 P2PDMA, 2 nvidia-fs, 4 dma-buf, 8 C2C, 16 nvidia_peermem.
pub(crate) fn says(transport: &'static str, mask: u64) -> Vec<Edit> {
    vec![
        Set(LIB, "/found/0/version", json!("1.20")),
        Set(
            LIB,
            "/p2p_flags",
            json!({"nvme": 0, "wekafs": 0, "gpfs": 0, "nfs": 0, "lustre": 0, "beegfs": 0, "scatefs": 0}),
        ),
        Set(
            LIB,
            match transport {
                "wekafs" => "/p2p_flags/wekafs",
                "gpfs" => "/p2p_flags/gpfs",
                "nfs" => "/p2p_flags/nfs",
                "lustre" => "/p2p_flags/lustre",
                "beegfs" => "/p2p_flags/beegfs",
                "scatefs" => "/p2p_flags/scatefs",
                _ => "/p2p_flags/virtiofs",
            },
            json!(mask),
        ),
    ]
}

/// File systems, by what nvidia-fs and libcufile know of them.
pub(crate) fn filesystems() -> Vec<Variant> {
    vec![
        // What Amazon's client is mounted as; gds-diag lists it beside Lustre.
        fine(
            "FSx for Lustre by its other name",
            "lustre",
            Route::Nvfs,
            vec![path("/0/filesystem", json!("fuse.fsx_lustre"))],
        ),
        fine(
            "EXAScaler on a DGX",
            "lustre",
            Route::Nvfs,
            vec![
                Put("files/sys/fs/lustre/version", "2.14.0_ddn196\n"),
                Put("files/proc/sys/kernel/osrelease", "6.8.0-1040-nvidia\n"),
            ],
        ),
        fine(
            "NFS with VAST's client and many addresses",
            "nfs-rdma",
            Route::Nvfs,
            vec![
                path("/0/filesystem", json!("nfs")),
                path(
                    "/0/mount_options",
                    json!(
                        "rw,vers=3,nconnect=8,remoteports=10.0.0.1-10.0.0.8,spread_reads,spread_writes,proto=rdma,port=20049"
                    ),
                ),
            ],
        ),
        fine(
            "ScaTeFS with its client",
            "lustre",
            Route::Nvfs,
            with(
                mount("scatefs", "nec", "rw"),
                vec![Put("files/proc/driver/nvidia-fs/modules", "nvme: (null)\nscatefs: (null)\nwekafsio: 1\n")],
            ),
        ),
        fine(
            "BeeGFS by its old name",
            "lustre",
            Route::Nvfs,
            with(
                mount("fhgfs", "fhgfs_nodev", "rw"),
                vec![Put("files/proc/driver/nvidia-fs/modules", "beegfs: (null)\nwekafsio: 1\n")],
            ),
        ),
        bad(
            "Google's bucket as a folder",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            mount("fuse.gcsfuse", "models", "ro,nosuid,nodev"),
        ),
        bad(
            "a share of Windows",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            mount("smb3", "//nas/models", "rw,vers=3.1.1"),
        ),
        // No O_DIRECT, so not even the way through host memory.
        bad(
            "FAT",
            "nvfs-healthy",
            Route::None,
            Route::None,
            &["fs-type"],
            // odirect-open is folded under it.
            &["fs-type", "odirect-open"],
            vec![
                path("/0/filesystem", json!("vfat")),
                path("/0/mount_options", json!("rw,fmask=0022")),
                path("/0/open_direct", json!("EINVAL")),
                path("/0/inode_flags", Value::Null),
            ],
        ),
        bad(
            "f2fs",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            vec![
                path("/0/filesystem", json!("f2fs")),
                path("/0/mount_options", json!("rw,lazytime")),
                path("/0/inode_flags", json!(0)),
            ],
        ),
        bad(
            "ext3",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            vec![
                path("/0/filesystem", json!("ext3")),
                path("/0/mount_options", json!("rw,data=ordered")),
                path("/0/inode_flags", json!(0)),
            ],
        ),
        // Before 1.16 the register is refused: 5030 (LMCache#795).
        bad(
            "the image's own layer with libcufile 1.14",
            "overlay-root",
            Route::None,
            Route::Compat,
            &["fs-type"],
            &["fs-type"],
            vec![Set(LIB, "/found/0/version", json!("1.14"))],
        ),
        bad(
            "virtiofs with one key of two",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["cfg-p2p-both"],
            &["cfg-p2p-both"],
            with(mount("virtiofs", "models", "rw,relatime"), vec![Set(LIB, "/found/0/version", json!("1.17"))]),
        ),
        fine(
            "virtiofs with both keys, and libcufile that says so",
            "p2pdma-healthy",
            Route::P2pdma,
            with(
                with(mount("virtiofs", "models", "rw,relatime"), says("virtiofs", 1)),
                vec![Put(
                    "files/etc/cufile.json",
                    "{ \"properties\": { \"use_pci_p2pdma\": true }, \"fs\": { \"virtiofs\": { \"use_pci_p2pdma\": true } } }",
                )],
            ),
        ),
    ]
}

/// Routes over RDMA, told from files and by what libcufile says.
pub(crate) fn fabrics() -> Vec<Variant> {
    vec![
        fine(
            "WekaFS over RDMA, as libcufile says",
            "weka",
            Route::Rdma,
            with(with(rdma_host(), vec![peermem()]), says("wekafs", 16)),
        ),
        fine(
            "WekaFS by dma-buf, without nvidia_peermem",
            "weka",
            Route::Rdma,
            with(
                with(rdma_host(), says("wekafs", 4)),
                vec![Put(
                    "files/etc/cufile.json",
                    "{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"], \"rdma_peer_type\": \"dmabuf\" } }",
                )],
            ),
        ),
        fine(
            "GPFS over RDMA, by its old name",
            "weka",
            Route::Rdma,
            with(with(rdma_host(), vec![peermem(), path("/0/filesystem", json!("mmfs"))]), says("gpfs", 16)),
        ),
        // Global P2PDMA makes libcufile say P2PDMA of GPFS; it is none of its routes (gds-diag, release notes).
        bad(
            "GPFS of which libcufile says P2PDMA",
            "weka",
            Route::Compat,
            Route::Rdma,
            &[],
            &[],
            with(with(rdma_host(), vec![peermem(), path("/0/filesystem", json!("gpfs"))]), says("gpfs", 1)),
        ),
        bad(
            "WekaFS over RDMA, of which libcufile says compat",
            "weka",
            Route::Compat,
            Route::Rdma,
            &[],
            &[],
            with(with(rdma_host(), vec![peermem()]), says("wekafs", 0)),
        ),
        bad(
            "WekaFS with an address of the server",
            "weka",
            Route::Compat,
            Route::Rdma,
            &["rdma-ips"],
            &["rdma-ips"],
            with(
                rdma_host(),
                vec![
                    peermem(),
                    Put("files/etc/cufile.json", "{ \"properties\": { \"rdma_dev_addr_list\": [\"10.0.0.200\"] } }"),
                ],
            ),
        ),
        bad(
            "WekaFS without nvidia_peermem only",
            "weka",
            Route::Compat,
            Route::Rdma,
            &["nvfs-peermem"],
            &["nvfs-peermem"],
            rdma_host(),
        ),
        fine(
            "WekaFS with the addresses in its own section",
            "weka",
            Route::Rdma,
            with(
                with(rdma_host(), says("wekafs", 16)),
                vec![
                    peermem(),
                    Put(
                        "files/etc/cufile.json",
                        "{ \"fs\": { \"weka\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } } }",
                    ),
                ],
            ),
        ),
        fine(
            "the module of nvidia_peermem by its old name",
            "weka",
            Route::Rdma,
            with(
                with(rdma_host(), says("wekafs", 16)),
                vec![
                    Put("files/sys/module/nv_peer_mem/version", "1.3\n"),
                    Put(
                        "files/proc/modules",
                        "nv_peer_mem 16384 0 - Live 0x0\nnvidia 14000000 12 nv_peer_mem, Live 0x0\nnvme 60000 3 - Live 0x0\n",
                    ),
                ],
            ),
        ),
        fine("NFS over RDMA, as libcufile says too", "nfs-rdma", Route::Nvfs, says("nfs", 2)),
        bad(
            "NFS over RDMA, of which libcufile says compat",
            "nfs-rdma",
            Route::Compat,
            Route::Nvfs,
            &[],
            &[],
            says("nfs", 0),
        ),
        fine("Lustre, as libcufile says too", "lustre", Route::Nvfs, says("lustre", 2)),
        bad(
            "NVMe over RDMA and over TCP in one md",
            "md-raid0",
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
            vec![Put("files/sys/class/nvme/nvme1/transport", "tcp\n")],
        ),
        fine(
            "InfiniBand on a machine whose models are on a disk",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n"),
                Put("files/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n"),
            ],
        ),
    ]
}

/// Block devices in layers.
pub(crate) fn stacks() -> Vec<Variant> {
    let compat = |name, blockers: &'static [&'static str], edits| {
        bad(name, "nvfs-healthy", Route::Compat, Route::Compat, blockers, blockers, edits)
    };
    let named = |name: &str| {
        vec![
            path("/0/source", json!(format!("/dev/{name}"))),
            path("/0/device", json!("252:0")),
            stack(json!([{"name": name, "kind": "disk", "logical_block_bytes": 512}])),
            Put("files/run/udev/data/b252:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
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
                path("/0/filesystem", json!("xfs")),
                path("/0/inode_flags", json!(0)),
                stack(json!([
                    {"name": "dm-4", "kind": "dm", "uuid": "stratis-1-private-1d2f-thin-fs-9a"}, {"name": "dm-1", "kind": "dm", "uuid": "stratis-1-private-1d2f-flex-thindata"}, disk("nvme0n1"),
                ])),
            ],
        ),
        bad(
            "md linear",
            "md-raid0",
            Route::Compat,
            Route::Compat,
            &["md-raid"],
            &["md-raid"],
            vec![
                path("/0/block_device/0/level", json!("linear")),
                Put("files/run/udev/data/b9:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=linear\n"),
            ],
        ),
        bad(
            "md raid0 over SATA disks",
            "md-raid0",
            Route::Compat,
            Route::Compat,
            &["nvme-transport"],
            &["nvme-transport"],
            vec![stack(json!([{"name": "md0", "kind": "md", "level": "raid0"}, disk("sda"), disk("sdb")]))],
        ),
        fine(
            "Intel's firmware RAID 0",
            "md-raid0",
            Route::Nvfs,
            vec![
                path("/0/source", json!("/dev/md126")),
                path("/0/device", json!("9:126")),
                path("/0/block_device/0/name", json!("md126")),
                Put(
                    "files/run/udev/data/b9:126",
                    "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=raid0\nE:MD_METADATA=imsm\n",
                ),
            ],
        ),
        fine(
            "xfs on a DGX's /raid",
            "md-raid0",
            Route::Nvfs,
            vec![
                path("/0/filesystem", json!("xfs")),
                path("/0/mount_options", json!("rw,noatime,attr2,inode64,sunit=1024,swidth=4096,noquota")),
                path("/0/inode_flags", json!(0)),
                Put("files/run/udev/data/b9:0", "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\nE:MD_LEVEL=raid0\n"),
                Put("files/proc/sys/kernel/osrelease", "5.15.0-1066-nvidia\n"),
            ],
        ),
        fine(
            "a disk of 4096-byte sectors",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                path("/0/dio_offset_align", json!(4096)),
                path("/0/dio_mem_align", json!(4096)),
                path("/0/block_device/0/logical_block_bytes", json!(4096)),
                path("/0/block_device/1/logical_block_bytes", json!(4096)),
            ],
        ),
        fine(
            "the whole disk without a partition",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                path("/0/source", json!("/dev/nvme0n1")),
                path("/0/device", json!("259:2")),
                stack(json!([disk("nvme0n1")])),
                Drop("files/run/udev/data/b259:3"),
                Put("files/run/udev/data/b259:2", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
            ],
        ),
        bad(
            "journalled data",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["ext4-ordered"],
            &["ext4-ordered"],
            vec![path("/0/mount_options", json!("rw,relatime,data=journal"))],
        ),
    ]
}
