//! Logs and lists of healthy machines, with relevant lines added.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::json;

/// The kernel log of a healthy machine in its first minutes.
const BOOT: &str = "Linux version 6.8.0-1040-nvidia (buildd@lcy02-amd64-079)
Command line: BOOT_IMAGE=/vmlinuz root=/dev/nvme1n1p2 ro quiet
DMAR: Host address width 46
DMAR: DRHD base: 0x000000b37fc000 flags: 0x0
DMAR-IR: Enabled IRQ remapping in x2apic mode
secureboot: Secure boot disabled
Lockdown: swapper/0: hibernation is restricted; see man kernel_lockdown.7
PKCS#7 signature not signed with a trusted key
nvme nvme0: pci function 0000:c4:00.0
nvme nvme0: Shutdown timeout set to 10 seconds
nvme nvme0: 64/0/0 default/read/poll queues
EXT4-fs (nvme0n1p1): mounted filesystem 0a1b2c3d-1111-2222-3333-0a1b2c3d4e5f r/w with ordered data mode. Quota mode: none.
nvidia: loading out-of-tree module taints kernel.
nvidia: module verification failed: signature and/or required key missing - tainting kernel
nvidia-nvlink: Nvlink Core is being initialized, major device number 510
nvidia 0000:be:00.0: enabling device (0140 -> 0142)
NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-AF12-01-1)
nvidia_fs: Initializing nvfs driver module
nvidia_fs: registered correctly with major number 506
max_peer_devs : 64 and max_pci_depth : 16
pcieport 0000:b0:01.0: AER: Corrected error message received from 0000:c4:00.0
pcieport 0000:b0:01.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)
mce: [Hardware Error]: Machine check events logged
audit: type=1400 audit(1760000000.123:45): apparmor=\"DENIED\" operation=\"open\" profile=\"snap.lxd.daemon\" name=\"/dev/nvidia-caps/\"
perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750
";

fn log(more: &str) -> Vec<Edit> {
    vec![kernel_log(&format!("{BOOT}{more}"))]
}

/// Machines with different kernel logs.
pub(crate) fn logs() -> Vec<Variant> {
    vec![
        fine("a healthy machine's first minutes", NVFS, log("")),
        fine(
            "a program that read outside its memory",
            NVFS,
            log(
                "NVRM: Xid (PCI:0000:be:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS\nNVRM: Xid (PCI:0000:be:00): 43, pid=4242, name=python3, Ch 00000008\n",
            ),
        ),
        warned(
            "memory of the GPU that lost two bits",
            NVFS,
            &["gpu-ecc"],
            log(
                "NVRM: Xid (PCI:0000:be:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error)\nNVRM: Xid (PCI:0000:be:00): 45, pid=4242, name=python3\n",
            ),
        ),
        fine(
            "a USB controller that the IOMMU of an AMD board stops at every start",
            NVFS,
            log(
                "ahci 0000:03:00.1: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0013 address=0xdffff000 flags=0x0000]\nAMD-Vi: Event logged [IO_PAGE_FAULT device=01:00.0 domain=0x000f address=0x0]\n",
            ),
        ),
        warned(
            "the IOMMU stops the disk",
            NVFS,
            &["nvfs-errors"],
            log(
                "nvme 0000:c4:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0013 address=0xdffff000 flags=0x0000]\n",
            ),
        ),
        fine(
            "the key of another module was refused",
            NVFS,
            log(
                "Loading of module with unavailable key is rejected\nvboxdrv: module verification failed: signature and/or required key missing - tainting kernel\n",
            ),
        ),
        fine(
            "a denial of SELinux that is none of ours",
            NVFS,
            all([
                log(
                    "audit: type=1400 audit(1760000000.1:2): avc:  denied  { read } for  pid=1 comm=\"sssd\" name=\"shadow\"\n",
                ),
                vec![put("files/sys/fs/selinux/enforce", "1\n")],
            ]),
        ),
    ]
}

/// Machines with complete lists and files.
pub(crate) fn lists() -> Vec<Variant> {
    let dkms = |text: &str| command(&["dkms", "status"], text);
    vec![
        fine(
            "DKMS with modules of others that did not build",
            NVFS,
            vec![
                put("files/var/lib/dkms/nvidia-fs/2.28.4/source/dkms.conf", ""),
                dkms(
                    "zfs/2.2.2, 6.14.0-37-generic, x86_64: added\nnvidia/580.95.05, 6.14.0-37-generic, x86_64: installed\nnvidia-fs/2.28.4, 6.14.0-37-generic, x86_64: installed\nmlnx-nvme/25.10, 6.14.0-37-generic, x86_64: installed (WARNING! Diff between built and installed module!)\n",
                ),
            ],
        ),
        fine(
            "DKMS with two versions for two kernels",
            NVFS,
            vec![
                put("files/var/lib/dkms/nvidia-fs/2.28.4/source/dkms.conf", ""),
                dkms(
                    "nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed\nnvidia-fs/2.28.4, 6.14.0-37-generic, x86_64: installed\n",
                ),
            ],
        ),
        fine(
            "all parameters of the driver",
            P2PDMA,
            vec![
                put(
                    "files/proc/driver/nvidia/params",
                    "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileMode: 438\nEnableStreamMemOPs: 0\nEnableUserNUMAManagement: 1\nDynamicPowerManagement: 3\nPreserveVideoMemoryAllocations: 1\nGrdmaPciTopoCheckOverride: 0\nRegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\nRegistryDwordsPerDevice: \"\"\nGpuBlacklist: \"\"\nTemporaryFilePath: \"/var/tmp\"\nCoherentGPUMemoryMode: \"\"\n",
                ),
                put(
                    "files/etc/modprobe.d/nvidia-graphics-drivers-kms.conf",
                    "# made by the package\noptions nvidia_drm modeset=1\noptions nvidia NVreg_PreserveVideoMemoryAllocations=1\noptions nvidia NVreg_TemporaryFilePath=/var/tmp\noptions nvidia NVreg_DynamicPowerManagement=0x02\nblacklist nouveau\nalias nouveau off\n",
                ),
            ],
        ),
        fine(
            "a configuration of the kernel that only root may read",
            P2PDMA,
            vec![
                without("files/boot/config-6.14.0-37-generic"),
                put("files/boot/config-6.14.0-37-generic.denied", "permission denied"),
            ],
        ),
        bad(
            "Secure Boot by the firmware's variable, without mokutil, and a module that is not signed",
            "secure-boot-unsigned",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-secureboot"],
            &["nvfs-secureboot", "nvfs-loaded"],
            vec![
                put(
                    "files/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                    "\u{6}\0\0\0\u{1}",
                ),
                set(COMMANDS, "/1/argv", json!(["mokutil", "--is-not-here"])),
            ],
        ),
        stopped(
            "a directory that a container engine made because there was no cufile.json",
            NVFS,
            &["cfg-parse"],
            vec![put("files/etc/cufile.json/made-by-docker", "")],
        ),
        warned(
            "KvikIO in its compat mode",
            NVFS,
            &["cfg-compat"],
            vec![put("environment.json", r#"{"KVIKIO_COMPAT_MODE": "ON"}"#)],
        ),
        fine(
            "KvikIO that tries cuFile first",
            NVFS,
            vec![put("environment.json", r#"{"KVIKIO_COMPAT_MODE": "AUTO"}"#)],
        ),
        stopped(
            "every GPU hidden by an empty variable",
            NVFS,
            &["gpu-present"],
            vec![put("environment.json", r#"{"CUDA_VISIBLE_DEVICES": ""}"#)],
        ),
        stopped(
            "a GPU asked for that is not there",
            P2PDMA,
            &["gpu-present"],
            vec![put("environment.json", r#"{"CUDA_VISIBLE_DEVICES": "7"}"#)],
        ),
        fine(
            "the first GPU asked for, and one that is not there",
            P2PDMA,
            vec![put("environment.json", r#"{"CUDA_VISIBLE_DEVICES": "0,7"}"#)],
        ),
        fine("multipath by nvidia-fs", NVFS, vec![put("files/sys/module/nvme_core/parameters/multipath", "Y\n")]),
        fine(
            "multipath switched off by the kernel's command line",
            P2PDMA,
            vec![put(
                "files/proc/cmdline",
                "BOOT_IMAGE=/vmlinuz root=/dev/nvme1n1p2 ro quiet nvme_core.multipath=N iommu=pt\n",
            )],
        ),
        fine(
            "a read-only volume with every option that mounts have",
            NVFS,
            vec![options("ro,nosuid,nodev,noexec,noatime,lazytime,errors=remount-ro,stripe=256,data=ordered")],
        ),
        fine(
            "one GPU chosen by its UUID",
            NVFS,
            vec![put(
                "environment.json",
                r#"{"CUDA_VISIBLE_DEVICES": "GPU-5f1c7a52-0b1e-4f6e-9f0e-2d1d3a4b5c6d", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}"#,
            )],
        ),
        fine(
            "a record of udev in its full length",
            NVFS,
            vec![put(
                "files/run/udev/data/b259:3",
                "S:disk/by-id/nvme-eui.0025\nS:disk/by-partuuid/1\nI:1234567\nE:ID_MODEL=SAMSUNG\nE:ID_FS_VERSION=1.0\nE:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:ID_PART_ENTRY_SCHEME=gpt\nG:systemd\nQ:systemd\nV:1\n",
            )],
        ),
        bad(
            "a second GPU that fell off the bus",
            "p2pdma-healthy",
            Route::P2pdma,
            Route::P2pdma,
            &[],
            // The remaining GPU has no problem.
            &["gpu-ecc"],
            vec![
                kernel_log("NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.\n"),
                path("/0/size_bytes", json!(4096)),
            ],
        ),
    ]
}
