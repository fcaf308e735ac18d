//! A second round of machines: what the first one left out.

use super::unseen_hosts::driver;
use super::{COMMANDS, Drop, Edit, LIB, Link, NVML, Put, Set, Variant, bad, fine, path, said, with};
use gds_top::domain::Route;
use serde_json::json;

const KEYS: &str = "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;ForceP2P=0;\"\n";

fn named(name: &str, capability: &str) -> Vec<Edit> {
    vec![Set(NVML, "/gpus/0/name", json!(name)), Set(NVML, "/gpus/0/compute_capability", json!(capability))]
}

fn proprietary(version: &str) -> Edit {
    let line = format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Sep 23 09:55:41 UTC 2025\n");
    Put("files/proc/driver/nvidia/version", Box::leak(line.into_boxed_str()))
}

pub(crate) fn more() -> Vec<Variant> {
    let p2pdma = |name, gpu, capability| {
        fine(
            name,
            "p2pdma-healthy",
            Route::P2pdma,
            with(named(gpu, capability), vec![Put("files/proc/driver/nvidia/params", KEYS)]),
        )
    };
    let fabric = |text: &'static str| {
        vec![Put("files/sys/class/nvme/nvme0/transport", "rdma\n"), Put("files/etc/cufile.json", text)]
    };
    vec![
        p2pdma("P2PDMA on an L4", "NVIDIA L4", "8.9"),
        p2pdma("P2PDMA on an A40", "NVIDIA A40", "8.6"),
        p2pdma("P2PDMA on a B200", "NVIDIA B200", "10.0"),
        bad(
            "P2PDMA on a GPU that NVIDIA does not list",
            "p2pdma-healthy",
            Route::P2pdma,
            Route::P2pdma,
            &[],
            // Expected first as a warning; nothing is wrong where it works, so it is said as a fact.
            &[],
            with(named("NVIDIA RTX 6000 Ada Generation", "8.9"), vec![Put("files/proc/driver/nvidia/params", KEYS)]),
        ),
        bad(
            "P2PDMA and proprietary modules",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["driver-flavour"],
            &["driver-flavour"],
            vec![proprietary("580.95.05")],
        ),
        fine(
            "P2PDMA of NVMe over RDMA, with its own key",
            "p2pdma-healthy",
            Route::P2pdma,
            fabric(
                "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvmeof\": { \"use_pci_p2pdma\": true } } }",
            ),
        ),
        bad(
            "P2PDMA of NVMe over RDMA, with the key of local disks",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["cfg-p2p-both"],
            &["cfg-p2p-both"],
            fabric(
                "{ \"properties\": { \"use_pci_p2pdma\": true }, \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }",
            ),
        ),
        fine(
            "the keys in two files",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/etc/cufile.json", "{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
                Put("files/home/me/cufile.json", "{ \"properties\": { \"use_pci_p2pdma\": true } }"),
                Put("environment.json", "{\"CUFILE_ENV_PATH_JSON\": \"/home/me/cufile.json\"}"),
            ],
        ),
        fine(
            "one key by a variable",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/etc/cufile.json", "{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
                Put("environment.json", "{\"CUFILE_USE_PCIP2PDMA\": \"True\"}"),
            ],
        ),
        bad(
            "one key by a variable that says 1",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["cfg-p2p-both"],
            // Expected first without the word on the variable itself, which is right to be there.
            &["cfg-effective", "cfg-p2p-both"],
            vec![
                Put("files/etc/cufile.json", "{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
                Put("environment.json", "{\"CUFILE_USE_PCIP2PDMA\": \"1\"}"),
            ],
        ),
        // NVIDIA's page on compat mode: it does not work below compute capability 6 either.
        bad(
            "a GPU of Maxwell",
            "nvfs-healthy",
            Route::None,
            Route::None,
            &["gpu-compute-cap"],
            &["gpu-compute-cap"],
            named("Tesla M40", "5.2"),
        ),
        bad(
            "a GPU without BAR1",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["gpu-bar1-size"],
            &["gpu-bar1-size"],
            vec![Set(NVML, "/gpus/0/bar1_total_bytes", json!(0)), Set(NVML, "/gpus/0/bar1_used_bytes", json!(0))],
        ),
        bad(
            "POWER",
            "nvfs-healthy",
            Route::None,
            Route::None,
            &["cpu-arch"],
            &["cpu-arch"],
            vec![Put("files/proc/sys/kernel/arch", "ppc64le\n")],
        ),
        bad(
            "a file of one's own that this user may not read",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![
                Put("environment.json", "{\"CUFILE_ENV_PATH_JSON\": \"/srv/mine/cufile.json\"}"),
                Put("files/srv/mine/cufile.json.denied", "Permission denied (os error 13)"),
                Set(
                    LIB,
                    "/open",
                    json!({"code": 5030, "cuda_code": 0, "stdout": "", "stderr": " cuFile configuration load error\n", "timed_out": false}),
                ),
            ],
        ),
        bad(
            "a level of the log in small letters",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["log-level"],
            vec![Put("files/etc/cufile.json", "{ \"logging\": { \"level\": \"debug\" } }")],
        ),
        bad(
            "a log of everything that somebody left on",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["log-level"],
            vec![Put("files/etc/cufile.json", "{ \"logging\": { \"level\": \"TRACE\" } }")],
        ),
        fine(
            "a weak update, as DKMS 3 tells it, with words around",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/proc/sys/kernel/osrelease", "5.14.0-427.40.1.el9_4.x86_64\n"),
                Put("files/etc/os-release", "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n"),
                Set(
                    COMMANDS,
                    "/-",
                    said(
                        &["dkms", "status"],
                        "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia-fs/2.26.6/source/dkms.conf)\nnvidia-fs/2.26.6, 5.14.0-427.13.1.el9_4.x86_64, x86_64: installed\nnvidia-fs/2.26.6, 5.14.0-427.40.1.el9_4.x86_64, x86_64: installed-weak from 5.14.0-427.13.1.el9_4.x86_64\n",
                    ),
                ),
            ],
        ),
        fine(
            "a lockdown that let nvidia-fs in",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
                Set(COMMANDS, "/-", said(&["mokutil", "--sb-state"], "SecureBoot enabled\n")),
            ],
        ),
        fine(
            "Grace whose memory is a NUMA node",
            "grace",
            Route::C2c,
            vec![Put("files/proc/driver/nvidia/params", "CoherentGPUMemoryMode: \"numa\"\nRegistryDwords: \"\"\n")],
        ),
        bad(
            "Grace over NFS and TCP",
            "grace",
            Route::Compat,
            Route::Nvfs,
            &["nfs-rdma", "nvfs-loaded"],
            &["nfs-rdma", "nvfs-loaded"],
            vec![
                path("/0/filesystem", json!("nfs4")),
                path("/0/mount_options", json!("rw,vers=4.2,proto=tcp")),
                path("/0/device", json!("0:52")),
                path("/0/block_device", json!([])),
                path("/0/inode_flags", serde_json::Value::Null),
                path("/0/source", json!("server:/models")),
            ],
        ),
        bad(
            "a driver that waits for its own update",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["driver-mismatch"],
            vec![Set(
                COMMANDS,
                "/-",
                said(
                    &["modinfo", "nvidia"],
                    "filename:       /lib/modules/6.14.0-37-generic/updates/dkms/nvidia.ko\nversion:        590.44.01\nlicense:        Dual MIT/GPL\n",
                ),
            )],
        ),
        bad(
            "every GPU is kept for virtual machines",
            "new-kernel-no-driver",
            Route::None,
            Route::P2pdma,
            &["gpu-present"],
            &["gpu-present", "lib-open-probe", "cfg-p2p-both"],
            vec![
                Link("files/sys/bus/pci/devices/0000:be:00.0/driver", "../../drivers/vfio-pci"),
                Put("files/sys/bus/pci/drivers/vfio-pci/bind", ""),
            ],
        ),
        bad(
            "WekaFS in a pod without the devices of RDMA",
            "weka",
            Route::Compat,
            Route::Rdma,
            &["rdma-stack"],
            &["rdma-stack"],
            with(
                super::unseen_storage::rdma_host(),
                vec![
                    super::unseen_storage::peermem(),
                    Put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#),
                    Put("files/dev/nvidia0", ""),
                ],
            ),
        ),
        fine(
            "WekaFS in a pod with the devices of RDMA",
            "weka",
            Route::Rdma,
            with(
                with(super::unseen_storage::rdma_host(), super::unseen_storage::says("wekafs", 4)),
                vec![
                    super::unseen_storage::peermem(),
                    Put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#),
                    Put("files/dev/infiniband/uverbs0", ""),
                    Put("files/dev/infiniband/rdma_cm", ""),
                ],
            ),
        ),
        fine(
            "GPFS with the cards of each mount",
            "weka",
            Route::Rdma,
            with(
                with(super::unseen_storage::rdma_host(), super::unseen_storage::says("gpfs", 16)),
                vec![
                    super::unseen_storage::peermem(),
                    path("/0/filesystem", json!("gpfs")),
                    Put(
                        "files/etc/cufile.json",
                        "{ \"fs\": { \"gpfs\": { \"mount_table\": { \"/data\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } } } } }",
                    ),
                ],
            ),
        ),
        bad(
            "virtiofs with both keys, and a library that says nothing",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &[],
            &[],
            vec![
                path("/0/filesystem", json!("virtiofs")),
                path("/0/source", json!("models")),
                path("/0/device", json!("0:71")),
                path("/0/block_device", json!([])),
                path("/0/inode_flags", serde_json::Value::Null),
                path("/0/mount_options", json!("rw")),
                Set(LIB, "/found/0/version", json!("1.17")),
                Put(
                    "files/etc/cufile.json",
                    "{ \"properties\": { \"use_pci_p2pdma\": true }, \"fs\": { \"virtiofs\": { \"use_pci_p2pdma\": true } } }",
                ),
            ],
        ),
        fine(
            "nvidia-fs built for an earlier driver of the same branch",
            "nvfs-healthy",
            Route::Nvfs,
            with(
                driver("580.126.20", "13.0"),
                vec![Put(
                    "files/var/lib/dkms/nvidia-fs/2.26.6/6.14.0-37-generic/x86_64/log/make.log",
                    "Picking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-580.95.05/nvidia. If that\n",
                )],
            ),
        ),
        bad(
            "modprobe is kept from nvidia-fs at boot",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &[],
            vec![
                Put("files/etc/modprobe.d/blacklist.conf", "blacklist nvidia_fs\n"),
                Put("files/etc/modules-load.d/nvidia-fs.conf", "nvidia-fs\n"),
            ],
        ),
        fine("no record of the boot, and nothing wrong", "md-raid0", Route::Nvfs, vec![Drop("files/proc/cmdline")]),
    ]
}
