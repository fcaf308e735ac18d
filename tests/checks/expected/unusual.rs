//! Machines whose cause is not in GDS: a private /dev, a cgroup, an override of modprobe, a GPU to recover, and others.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::json;

const KEYS: &str = "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n";

fn nodes() -> Vec<Edit> {
    ["nvidiactl", "nvidia0", "nvidia-uvm"].map(|name| put(format!("files/dev/{name}"), "")).into()
}

/// NVML does not answer, and this is its error.
fn no_nvml(error: &str) -> Vec<Edit> {
    vec![set(NVML, "/error", json!(error)), set(NVML, "/gpus", json!([]))]
}

pub(crate) fn docker() -> Vec<Edit> {
    vec![
        put("files/.dockerenv", ""),
        put("files/proc/self/cgroup", "0::/\n"),
        put(
            "files/proc/self/mountinfo",
            "30 1 0:61 / / rw,relatime - overlay overlay rw,lowerdir=/l\n36 30 259:3 / /data rw,relatime - ext4 /dev/nvme0n1p1 rw,data=ordered\n",
        ),
    ]
}

/// The driver is not loaded and not installed for the running kernel.
fn no_driver() -> Vec<Edit> {
    all([
        vec![
            without("files/proc/driver"),
            without("files/sys/module/nvidia"),
            put("files/proc/modules", "nvme 60000 3 - Live 0x0\nnvme_core 220000 4 nvme, Live 0x0\n"),
            open_fails(5033, ""),
            set(COMMANDS, "/-", json!({"argv": ["modinfo", "nvidia"], "exit_code": 1, "stdout": "", "stderr": ""})),
        ],
        no_nvml("Driver Not Loaded"),
    ])
}

/// A machine whose driver is not loaded.
pub(crate) fn without_driver(name: &'static str, edits: Vec<Edit>) -> Variant {
    bad(
        name,
        "p2pdma-healthy",
        Route::None,
        Route::P2pdma,
        &["gpu-present", "gpu-static-bar1"],
        &["gpu-present", "gpu-static-bar1", "lib-open-probe"],
        all([no_driver(), edits]),
    )
}

/// Another device under the path, with its record of udev.
pub(crate) fn disk(name: &str, device: &str) -> Vec<Edit> {
    vec![
        path("/0/source", json!(format!("/dev/{name}"))),
        path("/0/device", json!(device)),
        stack(json!([{"name": name, "kind": "disk", "logical_block_bytes": 4096}])),
        put(format!("files/run/udev/data/b{device}"), "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
    ]
}

/// Devices, cgroups, policies and users.
pub(crate) fn devices() -> Vec<Variant> {
    let denied = |reason: &str| {
        vec![
            without("files/dev"),
            put("files/dev/nvidia-fs0.denied", reason),
            without("files/proc/driver/nvidia-fs/modules"),
            open_fails(5025, "nvidia-fs.ko driver access denied"),
        ]
    };
    vec![
        bad(
            "a systemd unit that denies the devices of nvidia-fs",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["nvfs-devnodes"],
            &["nvfs-devnodes", "lib-open-probe"],
            all([
                nodes(),
                denied("operation not permitted"),
                nodes(),
                vec![put("files/proc/self/cgroup", "0::/system.slice/vllm.service\n")],
            ]),
        ),
        bad(
            "SELinux denies a container the devices of nvidia-fs",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["nvfs-devnodes"],
            &["nvfs-devnodes", "user-lsm", "lib-open-probe"],
            all([
                denied("EACCES"),
                nodes(),
                docker(),
                vec![
                    put("files/sys/fs/selinux/enforce", "1\n"),
                    kernel_log(
                        "Linux version 5.14.0\naudit: type=1400 audit(1763900000.123:456): avc:  denied  { read write } for  pid=4242 comm=\"python3\" name=\"nvidia-fs0\" dev=\"devtmpfs\" scontext=system_u:system_r:container_t:s0 tcontext=system_u:object_r:device_t:s0 tclass=chr_file permissive=0\n",
                    ),
                ],
            ]),
        ),
        bad(
            "a systemd unit with PrivateDevices",
            "p2pdma-healthy",
            Route::None,
            Route::P2pdma,
            &["gpu-present"],
            &["gpu-present", "lib-open-probe"],
            all([
                no_nvml("Unknown Error"),
                vec![
                    cuda_fails(100),
                    put("files/dev/null", ""),
                    put(
                        "files/proc/self/mountinfo",
                        "30 1 259:9 / / rw,relatime - ext4 /dev/nvme1n1p2 rw\n36 30 259:3 / /data rw,relatime,data=ordered - ext4 /dev/nvme0n1p1 rw\n50 30 0:70 / /dev ro,nosuid,noexec - tmpfs tmpfs rw,mode=755\n",
                    ),
                ],
            ]),
        ),
        bad(
            "a driver that allows its devices to one group",
            "p2pdma-healthy",
            Route::None,
            Route::P2pdma,
            &["gpu-present"],
            &["gpu-present", "lib-open-probe"],
            all([
                no_nvml("Insufficient Permissions"),
                vec![
                    cuda_fails(100),
                    put("files/dev/nvidiactl.denied", "EACCES"),
                    put("files/etc/group", "root:x:0:\nvideo:x:44:alice\n"),
                    put(
                        "files/proc/driver/nvidia/params",
                        "DeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\nRegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n",
                    ),
                ],
            ]),
        ),
        bad(
            "a node whose driver runs in a container of the GPU Operator",
            "p2pdma-healthy",
            Route::None,
            Route::P2pdma,
            &["gpu-present"],
            &["gpu-present", "lib-found"],
            all([
                no_nvml("libnvidia-ml.so.1: cannot open shared object file: No such file or directory"),
                vec![
                    set(LIB, "/found", json!([])),
                    set(LIB, "/chosen", json!(null)),
                    set(LIB, "/open", json!(null)),
                    put("files/run/nvidia/driver/dev/nvidiactl", ""),
                ],
            ]),
        ),
        bad(
            "a container to which only nvidia-smi was given",
            "p2pdma-healthy",
            Route::None,
            Route::P2pdma,
            &["lib-open-probe"],
            &["lib-open-probe"],
            all([
                docker(),
                nodes(),
                vec![
                    put(
                        "environment.json",
                        r#"{"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}"#,
                    ),
                    open_fails(5033, "dlopen error libcuda.so.1: cannot open shared object file"),
                ],
            ]),
        ),
        bad(
            "the stub of libcuda in LD_LIBRARY_PATH",
            "p2pdma-healthy",
            Route::None,
            Route::P2pdma,
            &["lib-open-probe"],
            &["lib-open-probe"],
            vec![cuda_fails(34)],
        ),
        bad(
            "a GPU for which the driver requests a reset",
            "p2pdma-healthy",
            Route::None,
            Route::P2pdma,
            &["gpu-ecc"],
            &["gpu-ecc", "lib-open-probe"],
            vec![
                cuda_fails(999),
                kernel_log(
                    "NVRM: Xid (PCI:0000:be:00): 95, pid=4242, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No\nNVRM: Xid (PCI:0000:be:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
                ),
            ],
        ),
    ]
}

/// Settings of modules, kernels and their packages.
pub(crate) fn modules() -> Vec<Variant> {
    let enabled = config(
        "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }",
    );
    let overridden =
        |edits: Vec<Edit>| all([vec![enabled.clone(), put("files/etc/modprobe.d/nvidia-p2pdma.conf", KEYS)], edits]);
    let params = |list: &str| put("files/proc/driver/nvidia/params", format!("RegistryDwords: \"{list}\"\n"));
    let slow = |name, edits| {
        bad(name, "p2pdma-two-steps", Route::Compat, Route::P2pdma, &["gpu-static-bar1"], &["gpu-static-bar1"], edits)
    };
    vec![
        slow(
            "the registry keys of P2PDMA in one file, and another list in a later one",
            overridden(vec![
                put(
                    "files/etc/modprobe.d/zz-cluster.conf",
                    "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"\n",
                ),
                params("PeerMappingOverride=1;"),
            ]),
        ),
        slow(
            "the registry keys of P2PDMA in a file, and another list on the kernel command line",
            overridden(vec![
                put(
                    "files/proc/cmdline",
                    "BOOT_IMAGE=/vmlinuz root=/dev/nvme1n1p2 ro quiet nvidia.NVreg_RegistryDwords=PowerMizerEnable=0x1\n",
                ),
                params("PowerMizerEnable=0x1"),
            ]),
        ),
        without_driver(
            "Ubuntu's built driver, for the kernel before",
            all([
                kernel("6.8.0-90-generic"),
                vec![put("files/lib/modules/6.8.0-88-generic/kernel/nvidia-580srv-open/nvidia.ko.zst", "")],
            ]),
        ),
        without_driver(
            "Proxmox VE without the headers of its kernel",
            all([
                kernel("6.8.12-15-pve"),
                vec![
                    put("files/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n"),
                    command(&["dkms", "status"], "nvidia/580.95.05: added\n"),
                ],
            ]),
        ),
        bad(
            "OpenShift without the registry keys of P2PDMA",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1", "nvme-multipath"],
            &["gpu-static-bar1", "nvme-multipath"],
            all([
                vec![
                    put("files/etc/os-release", "ID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.19\"\n"),
                    put("files/sys/module/nvme_core/parameters/multipath", "Y\n"),
                    params(""),
                ],
                kernel("5.14.0-570.45.1.el9_6.x86_64"),
            ]),
        ),
        fine(
            "RHEL CoreOS on 9.6 with the version of OpenShift",
            P2PDMA,
            all([
                vec![put(
                    "files/etc/os-release",
                    "NAME=\"Red Hat Enterprise Linux CoreOS\"\nID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.19\"\n",
                )],
                kernel("5.14.0-570.45.1.el9_6.x86_64"),
            ]),
        ),
    ]
}

/// Storage that looks like other storage.
pub(crate) fn stores() -> Vec<Variant> {
    let virtual_nvme = |vendor: &str, device: &str| {
        vec![
            put("files/sys/bus/pci/devices/0000:c4:00.0/vendor", format!("{vendor}\n")),
            put("files/sys/bus/pci/devices/0000:c4:00.0/device", format!("{device}\n")),
            put("files/sys/bus/pci/devices/0000:c4:00.0/class", "0x010802\n"),
        ]
    };
    vec![
        // The stock NVMe driver is not the cause: no driver reaches a virtual disk.
        bad(
            "a virtual NVMe disk of VMware, and a stock driver",
            "nvme-stock",
            Route::Compat,
            Route::Compat,
            &["vm-type"],
            &["vm-type"],
            virtual_nvme("0x15ad", "0x07f0"),
        ),
        bad(
            "an NFS server that does not know the handle any more",
            "nfs-rdma",
            Route::None,
            Route::Nvfs,
            &["odirect-open"],
            &["odirect-open"],
            vec![path("/0/open_direct", json!("ESTALE"))],
        ),
        bad(
            "a disk whose file system was shut down",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["odirect-open"],
            &["odirect-open"],
            vec![path("/0/open_direct", json!("EIO"))],
        ),
        bad(
            "a disk with a failed read, which the kernel log names",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["nvme-state"],
            &["odirect-open", "nvme-state"],
            vec![
                path("/0/open_direct", json!("EIO")),
                kernel_log(
                    "Linux version 6.14.0\nI/O error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0\n",
                ),
            ],
        ),
        bad(
            "a path that autofs has not mounted",
            "nvfs-healthy",
            Route::None,
            Route::Compat,
            &["fs-resolve"],
            &["fs-resolve"],
            all([
                unbacked("autofs"),
                vec![
                    path("/0/source", json!("/etc/auto.models")),
                    path("/0/open_direct", json!("ENOENT")),
                    path("/0/inode_flags", json!(null)),
                ],
            ]),
        ),
        warned(
            "an ext4 that the kernel reports as damaged, and an error of another disk",
            P2PDMA,
            &["nvme-state"],
            vec![kernel_log(
                "Linux version 6.14.0\nEXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm python3: reading directory lblock 0\nI/O error, dev sdb, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0\n",
            )],
        ),
        fine(
            "errors of another disk, and blocks of this one that could not be discarded",
            P2PDMA,
            vec![kernel_log(
                "Linux version 6.14.0\nI/O error, dev sdb, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0\nI/O error, dev nvme0n1, sector 8 op 0x3:(DISCARD) flags 0x0 phys_seg 1 prio class 0\n",
            )],
        ),
        barred(
            "an image of erofs",
            NVFS,
            &["fs-type"],
            all([disk("nvme0n1", "259:3"), vec![filesystem("erofs"), path("/0/inode_flags", json!(null))]]),
        ),
        barred("a disk of SupremeRAID", NVFS, &["nvme-transport"], disk("gdg0n1", "511:0")),
        barred("a disk in user space", NVFS, &["nvme-transport"], disk("ublkb0", "259:7")),
    ]
}
