//! Machines that differ from others in one property: the GPU, registry keys, the driver, the log, or the devices of a
//! pod.

use super::storage::{peermem, rdma_host, says};
use crate::machine::*;
use gds_top::core::Route;
use serde_json::json;

const KEYS: &str = "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;ForceP2P=0;\"\n";

fn proprietary(version: &str) -> Edit {
    let line = format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Sep 23 09:55:41 UTC 2025\n");
    put("files/proc/driver/nvidia/version", line)
}

pub(crate) fn variations() -> Vec<Variant> {
    let p2pdma = |name, model, capability| {
        fine(name, P2PDMA, all([gpu(model, capability), vec![put("files/proc/driver/nvidia/params", KEYS)]]))
    };
    vec![
        p2pdma("P2PDMA on an L4", "NVIDIA L4", "8.9"),
        p2pdma("P2PDMA on an A40", "NVIDIA A40", "8.6"),
        p2pdma("P2PDMA on a B200", "NVIDIA B200", "10.0"),
        // Nothing is wrong if it works, so it is reported as a fact.
        fine(
            "P2PDMA on a GPU that NVIDIA does not list",
            P2PDMA,
            all([gpu("NVIDIA RTX 6000 Ada Generation", "8.9"), vec![put("files/proc/driver/nvidia/params", KEYS)]]),
        ),
        slowed("P2PDMA and proprietary modules", P2PDMA, &["driver-flavour"], vec![proprietary("580.95.05")]),
        fine(
            "the keys in two files",
            P2PDMA,
            vec![
                config("{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
                put("files/home/me/cufile.json", "{ \"properties\": { \"use_pci_p2pdma\": true } }"),
                put("environment.json", "{\"CUFILE_ENV_PATH_JSON\": \"/home/me/cufile.json\"}"),
            ],
        ),
        fine(
            "one key by a variable",
            P2PDMA,
            vec![
                config("{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
                put("environment.json", "{\"CUFILE_USE_PCIP2PDMA\": \"True\"}"),
            ],
        ),
        // The finding about the variable was not expected, but it is correct.
        bad(
            "one key by a variable that says 1",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["cfg-p2p-both"],
            &["cfg-effective", "cfg-p2p-both"],
            vec![
                config("{ \"block\": { \"nvme\": { \"use_pci_p2pdma\": true } } }"),
                put("environment.json", "{\"CUFILE_USE_PCIP2PDMA\": \"1\"}"),
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
            gpu("Tesla M40", "5.2"),
        ),
        barred(
            "a GPU without BAR1",
            NVFS,
            &["gpu-bar1-size"],
            vec![set(NVML, "/gpus/0/bar1_total_bytes", json!(0)), set(NVML, "/gpus/0/bar1_used_bytes", json!(0))],
        ),
        bad(
            "POWER",
            "nvfs-healthy",
            Route::None,
            Route::None,
            &["cpu-arch"],
            &["cpu-arch"],
            vec![put("files/proc/sys/kernel/arch", "ppc64le\n")],
        ),
        bad(
            "a custom file that this user may not read",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![
                put("environment.json", "{\"CUFILE_ENV_PATH_JSON\": \"/srv/mine/cufile.json\"}"),
                put("files/srv/mine/cufile.json.denied", "Permission denied (os error 13)"),
                open_fails(5030, " cuFile configuration load error\n"),
            ],
        ),
        warned(
            "a level of the log in small letters",
            NVFS,
            &["log-level"],
            vec![config("{ \"logging\": { \"level\": \"debug\" } }")],
        ),
        warned(
            "a log of everything that was left on",
            NVFS,
            &["log-level"],
            vec![config("{ \"logging\": { \"level\": \"TRACE\" } }")],
        ),
        fine(
            "a weak update, as DKMS 3 prints it, with words around",
            NVFS,
            vec![
                put("files/proc/sys/kernel/osrelease", "5.14.0-427.40.1.el9_4.x86_64\n"),
                put("files/etc/os-release", "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n"),
                command(
                    &["dkms", "status"],
                    "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia-fs/2.26.6/source/dkms.conf)\nnvidia-fs/2.26.6, 5.14.0-427.13.1.el9_4.x86_64, x86_64: installed\nnvidia-fs/2.26.6, 5.14.0-427.40.1.el9_4.x86_64, x86_64: installed-weak from 5.14.0-427.13.1.el9_4.x86_64\n",
                ),
            ],
        ),
        fine(
            "a lockdown that let nvidia-fs in",
            NVFS,
            vec![
                put("files/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
                command(&["mokutil", "--sb-state"], "SecureBoot enabled\n"),
            ],
        ),
        fine(
            "Grace whose memory is a NUMA node",
            GRACE,
            vec![put("files/proc/driver/nvidia/params", "CoherentGPUMemoryMode: \"numa\"\nRegistryDwords: \"\"\n")],
        ),
        bad(
            "Grace over NFS and TCP",
            "grace",
            Route::Compat,
            Route::Nvfs,
            &["nfs-rdma", "nvfs-registered", "nvfs-loaded"],
            &["nvfs-loaded", "nvfs-registered", "nfs-rdma"],
            vec![
                filesystem("nfs4"),
                options("rw,vers=4.2,proto=tcp"),
                path("/0/device", json!("0:52")),
                stack(json!([])),
                path("/0/inode_flags", serde_json::Value::Null),
                path("/0/source", json!("server:/models")),
                put("files/sys/class/infiniband/mlx5_0/node_type", "1: CA\n"),
            ],
        ),
        warned(
            "a driver that waits for its own update",
            NVFS,
            &["driver-mismatch"],
            vec![command(
                &["modinfo", "nvidia"],
                "filename:       /lib/modules/6.14.0-37-generic/updates/dkms/nvidia.ko\nversion:        590.44.01\nlicense:        Dual MIT/GPL\n",
            )],
        ),
        bad(
            "every GPU is kept for virtual machines",
            "new-kernel-no-driver",
            Route::None,
            Route::P2pdma,
            &["gpu-present", "cfg-p2p-both"],
            &["gpu-present", "lib-open-probe", "cfg-p2p-both"],
            vec![
                link("files/sys/bus/pci/devices/0000:be:00.0/driver", "../../drivers/vfio-pci"),
                put("files/sys/bus/pci/drivers/vfio-pci/bind", ""),
            ],
        ),
        slowed(
            "WekaFS in a pod without the devices of RDMA",
            WEKA,
            &["rdma-stack"],
            all([
                rdma_host(),
                vec![
                    peermem(),
                    put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#),
                    put("files/dev/nvidia0", ""),
                ],
            ]),
        ),
        fine(
            "WekaFS in a pod with the devices of RDMA",
            WEKA,
            all([
                rdma_host(),
                says("wekafs", 4),
                vec![
                    peermem(),
                    put("environment.json", r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}"#),
                    put("files/dev/infiniband/uverbs0", ""),
                    put("files/dev/infiniband/rdma_cm", ""),
                ],
            ]),
        ),
        fine(
            "GPFS with the cards of each mount",
            WEKA,
            all([
                rdma_host(),
                says("gpfs", 16),
                vec![
                    peermem(),
                    filesystem("gpfs"),
                    config(
                        "{ \"fs\": { \"gpfs\": { \"mount_table\": { \"/data\": { \"rdma_dev_addr_list\": [\"10.0.0.1\"] } } } } }",
                    ),
                ],
            ]),
        ),
        bad(
            "virtiofs with both keys, and a library that says nothing",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &[],
            &[],
            vec![
                filesystem("virtiofs"),
                path("/0/source", json!("models")),
                path("/0/device", json!("0:71")),
                stack(json!([])),
                path("/0/inode_flags", serde_json::Value::Null),
                options("rw"),
                libcufile("1.17"),
                config(
                    "{ \"properties\": { \"use_pci_p2pdma\": true }, \"fs\": { \"virtiofs\": { \"use_pci_p2pdma\": true } } }",
                ),
            ],
        ),
        fine(
            "nvidia-fs built for an earlier driver of the same branch",
            NVFS,
            all([
                driver("580.126.20", "13.0"),
                vec![put(
                    "files/var/lib/dkms/nvidia-fs/2.26.6/6.14.0-37-generic/x86_64/log/make.log",
                    "Picking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-580.95.05/nvidia. If that\n",
                )],
            ]),
        ),
        fine(
            "modprobe is kept from nvidia-fs at boot",
            NVFS,
            vec![
                put("files/etc/modprobe.d/blacklist.conf", "blacklist nvidia_fs\n"),
                put("files/etc/modules-load.d/nvidia-fs.conf", "nvidia-fs\n"),
            ],
        ),
        fine("no record of the boot, and nothing wrong", MD, vec![without("files/proc/cmdline")]),
    ]
}
