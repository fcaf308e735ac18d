//! Systems that fixtures do not have: kernels, distributions, containers, files of settings.

use super::{Drop, Edit, LIB, Link, PATHS, Put, Set, Variant, bad, fine, with};
use crate::check_support::unseen_hosts::driver;
use gds_top::domain::Route;
use serde_json::{Value, json};

/// Kernels and distributions.
pub(crate) fn systems() -> Vec<Variant> {
    let os = |text| Put("files/etc/os-release", text);
    vec![
        fine(
            "the NVMe driver built into the kernel",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put(
                    "files/proc/kallsyms",
                    "0000000000000000 T pci_p2pdma_add_resource\n0000000000000000 T nvme_v1_register_nvfs_dma_ops\n",
                ),
                Put(
                    "files/proc/modules",
                    "nvidia_fs 260000 0 - Live 0x0\nnvidia_uvm 2000000 0 - Live 0x0\nnvidia 14000000 12 nvidia_uvm, Live 0x0\n",
                ),
            ],
        ),
        fine(
            "Rocky 8 with kernel 4.18",
            "nvfs-healthy",
            Route::Nvfs,
            with(
                driver("570.86.15", "12.8"),
                vec![
                    os("NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.10\"\n"),
                    Put("files/proc/sys/kernel/osrelease", "4.18.0-553.16.1.el8_10.x86_64\n"),
                    Put("files/sys/module/nvidia_fs/version", "2.24.3\n"),
                    Set(LIB, "/found/0/version", json!("1.13")),
                ],
            ),
        ),
        fine(
            "Linux 6.18 with a driver for GDS",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put("files/proc/sys/kernel/osrelease", "6.18.3-1001-nvidia\n"),
                Put("files/sys/module/nvidia_fs/version", "2.30.2\n"),
                Put("files/proc/kallsyms", "0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ],
        ),
        fine(
            "SLES 15 SP6 and P2PDMA",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                os("NAME=\"SLES\"\nVERSION_ID=\"15.6\"\nID=\"sles\"\nID_LIKE=\"suse\"\n"),
                Put("files/proc/sys/kernel/osrelease", "6.4.0-150600.23.25-default\n"),
                Put("files/boot/config-6.4.0-150600.23.25-default", "CONFIG_ZONE_DEVICE=y\nCONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "Debian 13 and P2PDMA",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                os("ID=debian\nVERSION_ID=\"13\"\n"),
                Put("files/proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n"),
                Put("files/boot/config-6.12.48+deb13-amd64", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "Oracle Linux 9.5 with a kernel of its own",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                os("NAME=\"Oracle Linux Server\"\nID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.5\"\n"),
                Put("files/proc/sys/kernel/osrelease", "6.12.0-100.28.2.el9uek.x86_64\n"),
                Put("files/boot/config-6.12.0-100.28.2.el9uek.x86_64", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        bad(
            "AlmaLinux 9.5",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["distro-blocklist"],
            &["distro-blocklist"],
            vec![
                os("NAME=\"AlmaLinux\"\nID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\n"),
                Put("files/proc/sys/kernel/osrelease", "5.14.0-503.11.1.el9_5.x86_64\n"),
                Put("files/boot/config-5.14.0-503.11.1.el9_5.x86_64", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        bad(
            "RHEL CoreOS on 9.4",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["kernel-version"],
            &["kernel-version"],
            vec![
                os(
                    "NAME=\"Red Hat Enterprise Linux CoreOS\"\nID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.16\"\nRHEL_VERSION=9.4\n",
                ),
                Put("files/proc/sys/kernel/osrelease", "5.14.0-427.42.1.el9_4.x86_64\n"),
                Put("files/boot/config-5.14.0-427.42.1.el9_4.x86_64", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "an immutable system, with the kernel's settings beside its modules",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                os("NAME=Bottlerocket\nID=bottlerocket\nVERSION_ID=\"1.44.0\"\n"),
                Drop("files/boot/config-6.14.0-37-generic"),
                Put("files/lib/modules/6.14.0-37-generic/config", "CONFIG_ZONE_DEVICE=y\nCONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "an AMD host with its IOMMU off",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![
                Put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro amd_iommu=off\n"),
                Put("files/proc/cpuinfo", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"),
            ],
        ),
        bad(
            "a stock driver on Linux 6.18",
            "nvme-stock",
            Route::Compat,
            Route::P2pdma,
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both"],
            // Expected first with kernel-version beside it; the missing hook says the same, and nearer to the cause.
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both"],
            vec![
                Put("files/proc/sys/kernel/osrelease", "6.18.2-generic\n"),
                Put("files/boot/config-6.18.2-generic", "CONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "static BAR1 asked for in hexadecimal",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![Put(
                "files/proc/driver/nvidia/params",
                "RegistryDwords: \"RMForceStaticBar1=0x1; RmForceDisableIomapWC=0x1\"\n",
            )],
        ),
        bad(
            "static BAR1 switched off",
            "p2pdma-healthy",
            Route::Compat,
            Route::P2pdma,
            &["gpu-static-bar1"],
            &["gpu-static-bar1"],
            vec![Put(
                "files/proc/driver/nvidia/params",
                "RegistryDwords: \"RMForceStaticBar1=0;RmForceDisableIomapWC=1;\"\n",
            )],
        ),
        fine(
            "static BAR1 for this GPU by its address",
            "p2pdma-healthy",
            Route::P2pdma,
            vec![Put(
                "files/proc/driver/nvidia/params",
                "RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"pci=0000:be:00.0;RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n",
            )],
        ),
    ]
}

/// Containers and settings.
pub(crate) fn settings() -> Vec<Variant> {
    let refused = |stderr: &str| {
        Set(LIB, "/open", json!({"code": 5002, "cuda_code": 0, "stdout": "", "stderr": stderr, "timed_out": false}))
    };
    let broken = |name, text: &'static str, stderr: &str| {
        bad(
            name,
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![Put("files/etc/cufile.json", text), refused(stderr)],
        )
    };
    vec![
        fine(
            "a pod that has all it needs",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put(
                    "environment.json",
                    r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "NVIDIA_VISIBLE_DEVICES": "GPU-5f1c7a52", "NVIDIA_GDS": "enabled"}"#,
                ),
                Put(
                    "files/proc/self/mountinfo",
                    "600 599 0:412 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c\n700 600 259:3 /models /data rw,relatime - ext4 /dev/nvme0n1p1 rw,data=ordered\n",
                ),
                Put("files/proc/self/cgroup", "0::/\n"),
                Put("files/dev/nvidia0", ""),
                Put("files/dev/nvidiactl", ""),
                Put("files/dev/nvidia-uvm", ""),
            ],
        ),
        bad(
            "a pod whose /run/udev knows other disks only",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["udev-database"],
            &["udev-database"],
            vec![
                Drop("files/run/udev/data/b259:3"),
                Put("files/run/udev/data/b259:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
            ],
        ),
        bad(
            "a record of udev without what the volume is used for",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["udev-database"],
            &["udev-database"],
            vec![Put("files/run/udev/data/b259:3", "E:ID_FS_TYPE=ext4\nE:ID_PART_ENTRY_NUMBER=1\n")],
        ),
        bad(
            "nothing allowed but direct, and a stock driver",
            "nvme-stock",
            Route::None,
            Route::P2pdma,
            // Expected first without cfg-compat; that the settings forbid host memory is a step of its own, after the reason.
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-compat", "cfg-p2p-both"],
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-compat", "cfg-p2p-both"],
            vec![Put("files/etc/cufile.json", "{ \"properties\": { \"allow_compat_mode\": false } }")],
        ),
        bad(
            "compat mode forced, in capitals",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["cfg-compat"],
            &["cfg-compat"],
            vec![Put("environment.json", r#"{"CUFILE_FORCE_COMPAT_MODE": "TRUE"}"#)],
        ),
        broken("an empty file of settings", "", "parsing error, invalid json config"),
        broken(
            "a word for a truth",
            "{ \"properties\": { \"force_compat_mode\": \"true\" } }",
            "json type mismatch, config read failed for json field properties.force_compat_mode",
        ),
        broken(
            "Python's True",
            "{ \"properties\": { \"allow_compat_mode\": True } }",
            "parsing error, invalid json config",
        ),
        broken("a comment with a hash", "# ours\n{ \"properties\": {} }", "parsing error, invalid json config"),
        broken(
            "a request size that is no multiple",
            "{ \"properties\": { \"max_direct_io_size_kb\": 1000 } }",
            "error reading config properties.max_direct_io_size_kb",
        ),
        fine(
            "lines that end as on Windows",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Put(
                "files/etc/cufile.json",
                "{\r\n  // ours\r\n  \"properties\": { \"allow_compat_mode\": true }\r\n}\r\n",
            )],
        ),
        fine(
            "a link to settings that are not there",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Link("files/etc/cufile.json", "/etc/alternatives/cufile.json")],
        ),
        bad(
            "the old word for the denylist",
            "nvfs-healthy",
            Route::Nvfs,
            Route::Nvfs,
            &[],
            &["cfg-effective"],
            vec![Put("files/etc/cufile.json", "{ \"blacklist\": { \"filesystems\": [\"ext4\"] } }")],
        ),
        bad(
            "a denied file system",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["cfg-effective"],
            &["cfg-effective"],
            vec![Put("files/etc/cufile.json", "{ \"denylist\": { \"filesystems\": [\"ext4\"] } }")],
        ),
        bad(
            "a denied device",
            "nvfs-healthy",
            Route::Compat,
            Route::Nvfs,
            &["cfg-effective"],
            &["cfg-effective"],
            vec![
                Put("files/etc/cufile.json", "{ \"denylist\": { \"devices\": [\"/dev/nvme0n1p1\"] } }"),
                Put("files/dev/nvme0n1p1", ""),
            ],
        ),
        fine(
            "another device is denied",
            "nvfs-healthy",
            Route::Nvfs,
            vec![
                Put(
                    "files/etc/cufile.json",
                    "{ \"denylist\": { \"devices\": [\"/dev/nvme7n1\"], \"mounts\": [\"/\"] } }",
                ),
                Put("files/dev/nvme7n1", ""),
            ],
        ),
        bad(
            "no libcufile",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["lib-found"],
            &["lib-found"],
            vec![Set(LIB, "/found", json!([])), Set(LIB, "/chosen", Value::Null), Set(LIB, "/open", Value::Null)],
        ),
        fine(
            "the folder of the paths ends in a slash",
            "nvfs-healthy",
            Route::Nvfs,
            vec![Set(PATHS, "/0/mount_options", json!("rw,relatime,data=ordered,discard"))],
        ),
    ]
}
