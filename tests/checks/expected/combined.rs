//! Two faults at the same time, layered storage, and healthy machines with unusual configurations.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::{Value, json};

const BROKEN: &str = "{ \"properties\": { \"allow_compat_mode\": true, } }";

fn refused() -> Edit {
    open_fails(5002, "parsing error, invalid json config")
}

/// A second GPU on the bus, in the driver and in NVML.
pub(crate) fn second(name: &str, capability: &str) -> Vec<Edit> {
    let mut gpu = json!({
        "index": 1, "uuid": "GPU-6a2d8b63-1c2f-5a7f-8a1f-3e2e4b5c6d7e", "name": name, "pci_bus_id": "0000:5e:00.0",
        "compute_capability": capability, "bar1_total_bytes": 274_877_906_944_u64, "bar1_used_bytes": 1_048_576,
        "memory_total_bytes": 150_754_820_096_u64, "compute_mode": "default", "persistence": true, "mig": "disabled",
        "ecc": "enabled", "virtualization": "none"
    });
    gpu["attributes"] = json!({"gpu_direct_rdma": true, "dma_buf": true, "stream_mem_ops": true});
    vec![set(NVML, "/gpus/-", gpu)]
}

fn on_bus(folder: &str) -> Vec<Edit> {
    let file = |part: &str| format!("files/{folder}/{part}");
    vec![put(file("vendor"), "0x10de\n"), put(file("class"), "0x030200\n"), put(file("device"), "0x2335\n")]
}

/// A GPU close to the disk, and a second GPU below a different, distant host bridge.
pub(crate) fn far_gpu() -> Vec<Edit> {
    const NEAR: &str = "sys/devices/pci0000:b0/0000:b0:01.0/0000:be:00.0";
    const FAR: &str = "sys/devices/pci0000:5c/0000:5c:01.0/0000:5e:00.0";
    let bridge = |root: &str, device: &str| {
        let at = |part: &str| format!("files/{root}/{part}");
        vec![put(at("vendor"), "0x8086\n"), put(at("device"), device), put(at("class"), "0x060400\n")]
    };
    let mut edits = all([second("NVIDIA H200", "9.0"), on_bus(FAR)]);
    edits.push(without("files/sys/bus/pci/devices/0000:be:00.0"));
    edits.extend(on_bus(NEAR));
    edits.push(put("files/sys/devices/pci0000:b0/0000:b0:01.0/0000:c4:00.0/vendor", "0x144d\n"));
    edits.push(put("files/proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\n"));
    for (name, target) in [
        ("files/sys/bus/pci/devices/0000:be:00.0", "../../../devices/pci0000:b0/0000:b0:01.0/0000:be:00.0"),
        ("files/sys/bus/pci/devices/0000:c4:00.0", "../../../devices/pci0000:b0/0000:b0:01.0/0000:c4:00.0"),
        ("files/sys/bus/pci/devices/0000:b0:01.0", "../../../devices/pci0000:b0/0000:b0:01.0"),
        ("files/sys/bus/pci/devices/0000:5e:00.0", "../../../devices/pci0000:5c/0000:5c:01.0/0000:5e:00.0"),
        ("files/sys/bus/pci/devices/0000:5c:01.0", "../../../devices/pci0000:5c/0000:5c:01.0"),
    ] {
        edits.push(link(name, target));
    }
    edits.extend(bridge("sys/devices/pci0000:5c/0000:5c:01.0", "0x2030\n"));
    edits.extend(bridge("sys/devices/pci0000:b0/0000:b0:01.0", "0x2f01\n"));
    edits
}

/// The facts of a volume without a block device, for example one that has several devices.
fn anonymous(kind: &str, source: &str) -> Vec<Edit> {
    vec![
        path("/0/filesystem", json!(kind)),
        path("/0/source", json!(source)),
        path("/0/device", json!("0:61")),
        path("/0/mount_options", json!("rw,relatime")),
        path("/0/inode_flags", Value::Null),
        path("/0/block_device", json!([])),
        libcufile("1.20"),
    ]
}

/// Two faults at the same time. The first one to fix comes first, and faults that are not relevant yet are not
/// alarms.
pub(crate) fn two_faults() -> Vec<Variant> {
    vec![
        warned(
            "the next start takes a kernel without nvidia-fs",
            NVFS,
            &["reboot-pending"],
            next_kernel("extra/nvidia.ko.xz:\n"),
        ),
        fine(
            "the next start takes a newer kernel that has all modules",
            NVFS,
            next_kernel("extra/nvidia.ko.xz:\nextra/nvidia-fs.ko.xz: extra/nvidia.ko.xz\n"),
        ),
        bad(
            "a GeForce, and udev knows no disk",
            "geforce",
            Route::None,
            Route::Compat,
            &["gpu-class", "udev-database"],
            // CUDA's attribute of the GPU was not expected. It is listed as a consequence of the GPU's class.
            &["udev-database", "gpu-class", "gpu-gdr-attr"],
            vec![without("files/run/udev/data/b259:3")],
        ),
        bad(
            "a half-finished upgrade, and a comma too many",
            "driver-mismatch",
            Route::None,
            Route::P2pdma,
            &["driver-mismatch", "cfg-parse", "gpu-static-bar1", "cfg-p2p-both"],
            // The two steps of P2PDMA were not expected. They come after both faults, but are also needed.
            &["driver-mismatch", "cfg-parse", "lib-open-probe", "gpu-static-bar1", "cfg-p2p-both"],
            vec![put("files/etc/cufile.json", BROKEN), refused()],
        ),
        bad(
            "LVM, and an IOMMU that translates",
            "iommu-on",
            Route::Compat,
            Route::Compat,
            &["dm-lvm"],
            &["dm-lvm"],
            vec![
                path("/0/device", json!("253:0")),
                path("/0/source", json!("/dev/mapper/vg-data")),
                path(
                    "/0/block_device",
                    json!([{"name": "dm-0", "kind": "dm", "uuid": "LVM-abc"}, {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"}]),
                ),
                put("files/run/udev/data/b253:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
            ],
        ),
        bad(
            "everything that P2PDMA needs is absent",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1", "nvme-multipath", "cfg-p2p-both"],
            &["gpu-static-bar1", "nvme-multipath", "cfg-p2p-both"],
            vec![
                without("files/etc/cufile.json"),
                put("files/proc/driver/nvidia/params", "RegistryDwords: \"\"\n"),
                put("files/sys/module/nvme_core/parameters/multipath", "Y\n"),
            ],
        ),
        bad(
            "a vGPU of Ampere, and ext4 with its journal switched to writeback",
            "vgpu",
            Route::Compat,
            Route::Compat,
            &["gpu-mig-vgpu"],
            &["gpu-mig-vgpu"],
            vec![path("/0/mount_options", json!("rw,relatime,data=writeback"))],
        ),
        bad(
            "no GPU, and a comma too many",
            "no-gpu",
            Route::None,
            Route::None,
            &["gpu-present"],
            // Without libcufile, no program reads the file. It is broken nevertheless, which deserves a warning.
            &["gpu-present", "cfg-parse", "lib-found"],
            vec![put("files/etc/cufile.json", BROKEN)],
        ),
        bad(
            "a GPU on which nothing may run, udev knows no disk, and compat mode is forced",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["gpu-compute-mode", "udev-database", "cfg-compat"],
            &["gpu-compute-mode", "udev-database", "cfg-compat"],
            vec![
                set(NVML, "/gpus/0/compute_mode", json!("prohibited")),
                without("files/run/udev/data/b259:3"),
                put("environment.json", r#"{"CUFILE_FORCE_COMPAT_MODE": "true"}"#),
            ],
        ),
        bad(
            "an encrypted file on RAID 5",
            "md-raid5",
            Route::Compat,
            Route::Compat,
            &["md-raid"],
            &["md-raid"],
            vec![path("/0/inode_flags", json!(0x0008_0800))],
        ),
        bad(
            "NFS over TCP, and a limit of open files that is far too low",
            "nfs-tcp",
            Route::Compat,
            Route::Nvfs,
            &["nfs-rdma", "nvfs-registered"],
            &["nvfs-registered", "nfs-rdma", "lim-nofile"],
            vec![put(
                "files/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         unlimited            unlimited            bytes\nMax open files            256                  256                  files\n",
            )],
        ),
        bad(
            "an H200 next to a T4",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-p2pdma-model"],
            // The T4 could use nvidia-fs, but its NVMe driver would replace that of the H200.
            &["gpu-p2pdma-model"],
            all([second("Tesla T4", "7.5"), on_bus("sys/bus/pci/devices/0000:5e:00.0")]),
        ),
        bad(
            "Debian 12 with its own kernel",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["kernel-version"],
            &["kernel-version"],
            vec![
                put("files/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n"),
                put("files/proc/sys/kernel/osrelease", "6.1.0-40-amd64\n"),
                put("files/boot/config-6.1.0-40-amd64", "CONFIG_ZONE_DEVICE=y\nCONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        bad(
            "SLES 15 SP5 with a kernel that is too old for P2PDMA",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["kernel-version"],
            &["kernel-version"],
            vec![
                put("files/etc/os-release", "ID=\"sles\"\nVERSION_ID=\"15.5\"\nID_LIKE=\"suse\"\n"),
                put("files/proc/sys/kernel/osrelease", "5.14.21-150500.55.100-default\n"),
                put("files/boot/config-5.14.21-150500.55.100-default", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
    ]
}

/// The next boot uses another kernel, which has these modules.
pub(crate) fn next_kernel(modules: &str) -> Vec<Edit> {
    vec![
        put(
            "files/boot/grub2/grubenv",
            "# GRUB Environment Block\nsaved_entry=5e1f-6.12.0-55.el10.x86_64\nboot_success=1\n####\n",
        ),
        put(
            "files/boot/loader/entries/5e1f-6.12.0-55.el10.x86_64.conf",
            "title Red Hat Enterprise Linux\nversion 6.12.0-55.el10.x86_64\nlinux /vmlinuz-6.12.0-55.el10.x86_64\n",
        ),
        put("files/lib/modules/6.12.0-55.el10.x86_64/modules.dep", modules),
    ]
}

/// Storage without a direct route, each for a single reason.
pub(crate) fn layers() -> Vec<Variant> {
    let closed =
        |name, blockers, edits| bad(name, "p2pdma-healthy", Route::Compat, Route::Compat, blockers, blockers, edits);
    vec![
        closed("btrfs raid1", &["fs-type"], anonymous("btrfs", "/dev/nvme0n1")),
        closed("ZFS", &["fs-type"], anonymous("zfs", "tank/models")),
        closed("bcachefs over two disks", &["fs-type"], anonymous("bcachefs", "/dev/nvme0n1:/dev/nvme1n1")),
        closed(
            "an overlay of the machine's own, with its upper directory on xfs",
            &["fs-type"],
            all([
                anonymous("overlay", "overlay"),
                vec![path(
                    "/0/mount_options",
                    json!("rw,relatime,lowerdir=/srv/base,upperdir=/data/upper,workdir=/data/work"),
                )],
            ]),
        ),
        closed(
            "two paths to one NVMe disk by device-mapper",
            &["dm-lvm"],
            vec![
                path("/0/device", json!("253:2")),
                path("/0/source", json!("/dev/mapper/mpatha")),
                path(
                    "/0/block_device",
                    json!([
                        {"name": "dm-2", "kind": "dm", "uuid": "mpath-eui.0025"},
                        {"name": "nvme0n1", "kind": "disk", "pci_bus_id": "0000:c4:00.0"},
                        {"name": "nvme1n1", "kind": "disk", "pci_bus_id": "0000:c5:00.0"}
                    ]),
                ),
                put("files/run/udev/data/b253:2", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
            ],
        ),
    ]
}

/// Healthy machines that look faulty.
pub(crate) fn healthy() -> Vec<Variant> {
    let os = |text| put("files/etc/os-release", text);
    // Device pages in addition to P2PDMA, which the common kernel of the tests does not have.
    let kernel = |release: &str| {
        vec![
            put("files/proc/sys/kernel/osrelease", release),
            put(format!("files/boot/config-{release}"), "CONFIG_ZONE_DEVICE=y\nCONFIG_PCI_P2PDMA=y\n"),
        ]
    };
    let many: Vec<Value> = (0..64)
        .map(|n| {
            json!({
                "index": n, "uuid": format!("GPU-{n:08x}-0b1e-4f6e-9f0e-2d1d3a4b5c6d"), "name": "NVIDIA H200",
                "pci_bus_id": format!("{:04x}:{:02x}:00.0", n / 8, 16 + n % 8), "compute_capability": "9.0",
                "bar1_total_bytes": 274_877_906_944_u64, "bar1_used_bytes": 0, "memory_total_bytes": 150_754_820_096_u64,
                "compute_mode": "default", "persistence": true, "mig": "disabled", "ecc": "enabled", "virtualization": "none",
                "attributes": {"gpu_direct_rdma": true, "dma_buf": true, "stream_mem_ops": true}
            })
        })
        .collect();
    vec![
        fine(
            "GB200 with four namespaces and memory that the driver keeps",
            GRACE,
            vec![
                set(NVML, "/gpus/0/name", json!("NVIDIA GB200")),
                set(NVML, "/gpus/0/compute_capability", json!("10.0")),
                put("files/proc/driver/nvidia/params", "RegistryDwords: \"\"\nCoherentGPUMemoryMode: \"driver\"\n"),
                put("files/sys/class/nvme/nvme3/transport", "pcie\n"),
                put("files/run/udev/data/b259:9", "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\n"),
                path("/0/device", json!("259:9")),
                path("/0/filesystem", json!("xfs")),
                path("/0/source", json!("/dev/nvme3n4p1")),
                path("/0/mount_options", json!("rw,noatime,attr2,inode64,logbufs=8,noquota")),
                path("/0/inode_flags", json!(0)),
                path(
                    "/0/block_device",
                    json!([{"name": "nvme3n4p1", "kind": "partition"}, {"name": "nvme3n4", "kind": "disk", "pci_bus_id": "0009:01:00.0"}]),
                ),
            ],
        ),
        fine(
            "a Hopper whose models are on the second namespace of the third disk",
            P2PDMA,
            vec![
                put("files/sys/class/nvme/nvme2/transport", "pcie\n"),
                put("files/run/udev/data/b259:7", "E:ID_FS_TYPE=xfs\nE:ID_FS_USAGE=filesystem\n"),
                path("/0/device", json!("259:7")),
                path("/0/filesystem", json!("xfs")),
                path("/0/source", json!("/dev/nvme2n2")),
                path("/0/mount_options", json!("rw,relatime,attr2,inode64,noquota")),
                path("/0/inode_flags", json!(0)),
                path("/0/block_device", json!([{"name": "nvme2n2", "kind": "disk", "pci_bus_id": "0000:c6:00.0"}])),
            ],
        ),
        fine("64 GPUs", P2PDMA, vec![set(NVML, "/gpus", Value::Array(many))]),
        fine("no GPU in /sys, but in NVML", NVFS, vec![without("files/sys/bus")]),
        fine(
            "files of /proc that are not there",
            P2PDMA,
            vec![
                without("files/proc/cmdline"),
                without("files/proc/version"),
                without("files/proc/meminfo"),
                without("files/proc/self/mountinfo"),
                without("files/proc/self/cgroup"),
                without("files/proc/kallsyms"),
            ],
        ),
        fine(
            "a node without a local disk that has an overlay as its root",
            P2PDMA,
            vec![
                put("files/proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 23 0 0\n"),
                put(
                    "files/proc/self/mountinfo",
                    "1 1 0:20 / / rw,relatime shared:1 - overlay rootfs rw,lowerdir=/ro,upperdir=/rw/up,workdir=/rw/work\n60 1 259:3 / /data rw,relatime shared:2 master:1 - ext4 /dev/nvme0n1p1 rw,data=ordered\n",
                ),
            ],
        ),
        fine(
            "a directory bound from elsewhere, with optional fields in the table of mounts",
            P2PDMA,
            vec![put(
                "files/proc/self/mountinfo",
                "1 1 8:1 / / rw shared:1 master:2 propagate_from:3 unbindable - ext4 /dev/sda1 rw\n60 1 259:3 /srv/models /data rw,relatime shared:9 - ext4 /dev/nvme0n1p1 rw,data=ordered\n",
            )],
        ),
        fine(
            "RHEL 10",
            P2PDMA,
            all([
                kernel("6.12.0-124.8.1.el10_1.x86_64"),
                vec![os(
                    "NAME=\"Red Hat Enterprise Linux\"\nID=\"rhel\"\nID_LIKE=\"centos fedora\"\nVERSION_ID=\"10.1\"\n",
                )],
            ]),
        ),
        fine(
            "Rocky 9.6",
            P2PDMA,
            all([
                kernel("5.14.0-570.17.1.el9_6.x86_64"),
                vec![os("NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n")],
            ]),
        ),
        fine(
            "Amazon Linux 2023 with Linux 6.12",
            P2PDMA,
            all([
                kernel("6.12.46-66.121.amzn2023.x86_64"),
                vec![os("NAME=\"Amazon Linux\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n")],
            ]),
        ),
        fine(
            "Azure Linux with a kernel that was built at Microsoft",
            P2PDMA,
            all([
                kernel("6.6.96.2-2.azl3"),
                vec![
                    os("NAME=\"Microsoft Azure Linux\"\nID=azurelinux\nVERSION_ID=\"3.0\"\n"),
                    put(
                        "files/proc/version",
                        "Linux version 6.6.96.2-2.azl3 (builder@azurelinux.microsoft.com) (gcc (GCC) 13.2.0, GNU ld 2.41) #1 SMP\n",
                    ),
                ],
            ]),
        ),
        fine(
            "Ubuntu 20.04 with nvidia-fs",
            NVFS,
            all([
                driver("570.86.15", "12.8"),
                vec![
                    os("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"20.04\"\n"),
                    put("files/proc/sys/kernel/osrelease", "5.15.0-139-generic\n"),
                    put("files/sys/module/nvidia_fs/version", "2.24.3\n"),
                    libcufile("1.13"),
                ],
            ]),
        ),
        fine(
            "Debian 11 with nvidia-fs",
            NVFS,
            all([
                driver("570.86.15", "12.8"),
                vec![
                    os("ID=debian\nVERSION_ID=\"11\"\nVERSION_CODENAME=bullseye\n"),
                    put("files/proc/sys/kernel/osrelease", "5.10.0-35-amd64\n"),
                    put("files/sys/module/nvidia_fs/version", "2.24.3\n"),
                    libcufile("1.13"),
                ],
            ]),
        ),
        fine(
            "Ubuntu 26.04 with Linux 7.0",
            NVFS,
            vec![
                os("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"26.04\"\n"),
                put("files/proc/sys/kernel/osrelease", "7.0.0-1003-nvidia\n"),
                put("files/sys/module/nvidia_fs/version", "2.30.1\n"),
                put("files/proc/kallsyms", "0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ],
        ),
        fine(
            "Talos",
            P2PDMA,
            all([
                kernel("6.12.45-talos"),
                vec![
                    os("NAME=\"Talos\"\nID=talos\nVERSION_ID=v1.11.1\n"),
                    put("files/proc/self/cgroup", "0::/system/runtime\n"),
                ],
            ]),
        ),
        fine(
            "NixOS with links as files in /etc",
            P2PDMA,
            all([
                kernel("6.12.50"),
                vec![
                    without("files/etc/cufile.json"),
                    put(
                        "files/etc/static/cufile.json",
                        "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }\n",
                    ),
                    link("files/etc/cufile.json", "/etc/static/cufile.json"),
                    os("NAME=NixOS\nID=nixos\nVERSION_ID=\"25.11\"\n"),
                ],
            ]),
        ),
        fine(
            "Flatcar with settings in single quotes",
            P2PDMA,
            all([
                kernel("6.6.106-flatcar"),
                vec![os(
                    "NAME='Flatcar Container Linux by Kinvolk'\nID='flatcar'\nID_LIKE='coreos'\nVERSION_ID='4230.2.3'\n",
                )],
            ]),
        ),
        fine(
            "a path of three thousand letters",
            P2PDMA,
            vec![set(PATHS, "/0/real_path", json!(format!("/data/{}", "models/".repeat(430))))],
        ),
    ]
}
