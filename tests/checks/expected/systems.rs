//! Systems without a fixture: kernels, distributions, containers and settings files.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::{Value, json};

/// Kernels and distributions.
pub(crate) fn systems() -> Vec<Variant> {
    let os = |text| put("files/etc/os-release", text);
    vec![
        fine(
            "the NVMe driver built into the kernel",
            NVFS,
            vec![
                put(
                    "files/proc/kallsyms",
                    "0000000000000000 T pci_p2pdma_add_resource\n0000000000000000 T nvme_v1_register_nvfs_dma_ops\n",
                ),
                put(
                    "files/proc/modules",
                    "nvidia_fs 260000 0 - Live 0x0\nnvidia_uvm 2000000 0 - Live 0x0\nnvidia 14000000 12 nvidia_uvm, Live 0x0\n",
                ),
            ],
        ),
        fine(
            "Rocky 8 with kernel 4.18",
            NVFS,
            all([
                driver("570.86.15", "12.8"),
                vec![
                    os("NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.10\"\n"),
                    put("files/proc/sys/kernel/osrelease", "4.18.0-553.16.1.el8_10.x86_64\n"),
                    put("files/sys/module/nvidia_fs/version", "2.24.3\n"),
                    libcufile("1.13"),
                ],
            ]),
        ),
        fine(
            "Linux 6.18 with a driver for GDS",
            NVFS,
            vec![
                put("files/proc/sys/kernel/osrelease", "6.18.3-1001-nvidia\n"),
                put("files/sys/module/nvidia_fs/version", "2.30.2\n"),
                put("files/proc/kallsyms", "0 T nvme_v2_register_nvfs_dma_ops\t[nvme]\n"),
            ],
        ),
        fine(
            "SLES 15 SP6 and P2PDMA",
            P2PDMA,
            vec![
                os("NAME=\"SLES\"\nVERSION_ID=\"15.6\"\nID=\"sles\"\nID_LIKE=\"suse\"\n"),
                put("files/proc/sys/kernel/osrelease", "6.4.0-150600.23.25-default\n"),
                put("files/boot/config-6.4.0-150600.23.25-default", "CONFIG_ZONE_DEVICE=y\nCONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "Debian 13 and P2PDMA",
            P2PDMA,
            all([vec![os("ID=debian\nVERSION_ID=\"13\"\n")], kernel("6.12.48+deb13-amd64")]),
        ),
        fine(
            "Oracle Linux 9.5 with its separate kernel",
            P2PDMA,
            all([
                vec![os("NAME=\"Oracle Linux Server\"\nID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.5\"\n")],
                kernel("6.12.0-100.28.2.el9uek.x86_64"),
            ]),
        ),
        slowed(
            "AlmaLinux 9.5",
            P2PDMA,
            &["distro-blocklist"],
            all([
                vec![os("NAME=\"AlmaLinux\"\nID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.5\"\n")],
                kernel("5.14.0-503.11.1.el9_5.x86_64"),
            ]),
        ),
        slowed(
            "RHEL CoreOS on 9.4",
            P2PDMA,
            &["kernel-version"],
            all([
                vec![os(
                    "NAME=\"Red Hat Enterprise Linux CoreOS\"\nID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.16\"\nRHEL_VERSION=9.4\n",
                )],
                kernel("5.14.0-427.42.1.el9_4.x86_64"),
            ]),
        ),
        fine(
            "an immutable system, with the kernel's settings next to its modules",
            P2PDMA,
            vec![
                os("NAME=Bottlerocket\nID=bottlerocket\nVERSION_ID=\"1.44.0\"\n"),
                without("files/boot/config-6.14.0-37-generic"),
                put("files/lib/modules/6.14.0-37-generic/config", "CONFIG_ZONE_DEVICE=y\nCONFIG_PCI_P2PDMA=y\n"),
            ],
        ),
        fine(
            "an AMD host with its IOMMU off",
            P2PDMA,
            vec![
                put("files/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro amd_iommu=off\n"),
                put("files/proc/cpuinfo", "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"),
            ],
        ),
        // kernel-version was expected too. The missing hook has the same meaning and is closer to the cause.
        bad(
            "a stock driver on Linux 6.18",
            "nvme-stock",
            Route::Compat,
            Route::P2pdma,
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both"],
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both"],
            kernel("6.18.2-generic"),
        ),
        fine(
            "static BAR1 asked for in hexadecimal",
            P2PDMA,
            vec![put(
                "files/proc/driver/nvidia/params",
                "RegistryDwords: \"RMForceStaticBar1=0x1; RmForceDisableIomapWC=0x1\"\n",
            )],
        ),
        slowed(
            "static BAR1 switched off",
            P2PDMA,
            &["gpu-static-bar1"],
            vec![put(
                "files/proc/driver/nvidia/params",
                "RegistryDwords: \"RMForceStaticBar1=0;RmForceDisableIomapWC=1;\"\n",
            )],
        ),
        fine(
            "static BAR1 for this GPU by its address",
            P2PDMA,
            vec![put(
                "files/proc/driver/nvidia/params",
                "RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"pci=0000:be:00.0;RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n",
            )],
        ),
    ]
}

/// Containers and settings.
pub(crate) fn settings() -> Vec<Variant> {
    let refused = |stderr: &str| open_fails(5002, stderr);
    let broken = |name, text: &'static str, stderr: &str| {
        bad(
            name,
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["cfg-parse"],
            &["cfg-parse", "lib-open-probe"],
            vec![config(text), refused(stderr)],
        )
    };
    vec![
        fine(
            "a pod that has all it needs",
            NVFS,
            vec![
                put(
                    "environment.json",
                    r#"{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "NVIDIA_VISIBLE_DEVICES": "GPU-5f1c7a52", "NVIDIA_GDS": "enabled"}"#,
                ),
                put(
                    "files/proc/self/mountinfo",
                    "600 599 0:412 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c\n700 600 259:3 /models /data rw,relatime - ext4 /dev/nvme0n1p1 rw,data=ordered\n",
                ),
                put("files/proc/self/cgroup", "0::/\n"),
                put("files/dev/nvidia0", ""),
                put("files/dev/nvidiactl", ""),
                put("files/dev/nvidia-uvm", ""),
            ],
        ),
        stopped(
            "a pod whose /run/udev knows other disks only",
            NVFS,
            &["udev-database"],
            vec![
                without("files/run/udev/data/b259:3"),
                put("files/run/udev/data/b259:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n"),
            ],
        ),
        stopped(
            "a record of udev without what the volume is used for",
            NVFS,
            &["udev-database"],
            vec![put("files/run/udev/data/b259:3", "E:ID_FS_TYPE=ext4\nE:ID_PART_ENTRY_NUMBER=1\n")],
        ),
        bad(
            "nothing allowed but direct, and a stock driver",
            "nvme-stock",
            Route::None,
            Route::P2pdma,
            // cfg-compat was not expected. Forbidden host memory is why no read works, and no step.
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-p2p-both", "cfg-compat"],
            &["nvfs-nvme-symbol", "gpu-static-bar1", "cfg-compat", "cfg-p2p-both"],
            vec![config("{ \"properties\": { \"allow_compat_mode\": false } }")],
        ),
        slowed(
            "compat mode forced, in capitals",
            NVFS,
            &["cfg-compat"],
            vec![put("environment.json", r#"{"CUFILE_FORCE_COMPAT_MODE": "TRUE"}"#)],
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
            "a request size that is not a multiple",
            "{ \"properties\": { \"max_direct_io_size_kb\": 1000 } }",
            "error reading config properties.max_direct_io_size_kb",
        ),
        fine(
            "lines that end as on Windows",
            NVFS,
            vec![config("{\r\n  // ours\r\n  \"properties\": { \"allow_compat_mode\": true }\r\n}\r\n")],
        ),
        fine(
            "a link to settings that are not there",
            NVFS,
            vec![link("files/etc/cufile.json", "/etc/alternatives/cufile.json")],
        ),
        warned(
            "the old word for the denylist",
            NVFS,
            &["cfg-effective"],
            vec![config("{ \"blacklist\": { \"filesystems\": [\"ext4\"] } }")],
        ),
        slowed(
            "a denied file system",
            NVFS,
            &["cfg-effective"],
            vec![config("{ \"denylist\": { \"filesystems\": [\"ext4\"] } }")],
        ),
        slowed(
            "a denied device",
            NVFS,
            &["cfg-effective"],
            vec![config("{ \"denylist\": { \"devices\": [\"/dev/nvme0n1p1\"] } }"), put("files/dev/nvme0n1p1", "")],
        ),
        fine(
            "another device is denied",
            NVFS,
            vec![
                config("{ \"denylist\": { \"devices\": [\"/dev/nvme7n1\"], \"mounts\": [\"/\"] } }"),
                put("files/dev/nvme7n1", ""),
            ],
        ),
        stopped(
            "no libcufile",
            NVFS,
            &["lib-found"],
            vec![set(LIB, "/found", json!([])), set(LIB, "/chosen", Value::Null), set(LIB, "/open", Value::Null)],
        ),
        fine(
            "the directory of the paths ends in a slash",
            NVFS,
            vec![set(PATHS, "/0/mount_options", json!("rw,relatime,data=ordered,discard"))],
        ),
    ]
}
