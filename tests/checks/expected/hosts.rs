//! Machines without a fixture: GPUs, drivers and versions of nvidia-fs.

use crate::machine::*;
use gds_top::core::Route;
use serde_json::json;

fn log(text: &str) -> Edit {
    kernel_log(&format!("Linux version 6.14.0\n{text}"))
}

/// The first GPU has this name, capability, and GiB of BAR1 and memory.
fn gpu_with(name: &str, capability: &str, bar1: u64, memory: u64) -> Vec<Edit> {
    let sizes = [("/gpus/0/bar1_total_bytes", bar1), ("/gpus/0/memory_total_bytes", memory)];
    gpu(name, capability).into_iter().chain(sizes.map(|(at, gib)| set(NVML, at, json!(gib << 30)))).collect()
}

fn another_gpu() -> Vec<Edit> {
    vec![
        put("files/sys/bus/pci/devices/0000:5e:00.0/vendor", "0x10de\n"),
        put("files/sys/bus/pci/devices/0000:5e:00.0/class", "0x030200\n"),
        put("files/sys/bus/pci/devices/0000:5e:00.0/device", "0x2335\n"),
    ]
}

/// nvidia-fs is installed but not loaded.
fn unloaded() -> Vec<Edit> {
    vec![
        without("files/sys/module/nvidia_fs"),
        without("files/proc/driver/nvidia-fs"),
        without("files/dev/nvidia-fs0"),
        put(
            "files/proc/modules",
            "nvidia_uvm 2000000 0 - Live 0x0\nnvidia 14000000 12 nvidia_uvm, Live 0x0\nnvme 60000 3 - Live 0x0\n",
        ),
        command(
            &["modinfo", "nvidia_fs"],
            "filename:       /lib/modules/6.14.0-37-generic/updates/dkms/nvidia-fs.ko\nversion:        2.26.6\nlicense:        GPL v2\n",
        ),
        command(
            &["dkms", "status"],
            "nvidia-fs/2.26.6, 6.14.0-37-generic, x86_64: installed\nnvidia/580.95.05, 6.14.0-37-generic, x86_64: installed\n",
        ),
    ]
}

const STATS_2_7: &str = "NVFS statistics(ver: 2.0)\nNVFS Driver(version: 2:7:47)\n\nActive Shadow-Buffer (MiB): 0\nActive Process: 0\n\
    Reads\t\t\t\t: n=0 ok=0 err=0 readmb=0 io_state_err=0\nReads\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\nSparse Reads\t\t\t: n=0 io=0 holes=0 pages=0\n\
    Writes\t\t\t\t: n=0 ok=0 err=0 writemb=0 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\nMmap\t\t\t\t: n=0 ok=0 err=0 munmap=0\n\
    Bar1-map\t\t\t: n=0 ok=0 err=0 free=0 callbacks=0 active=0\nError\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=0\nOps\t\t\t\t: Read=0 Write=0\n";
const STATS_2_17: &str = "GDS Version: 1.7.2.10\nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.17.5)\nMellanox PeerDirect Supported: False\n\
    IO stats: Disabled, peer IO stats: Disabled\nLogging level: info\n\nActive Shadow-Buffer (MiB): 0\nActive Process: 0\n\
    Reads\t\t\t\t: err=0 io_state_err=0\nSparse Reads\t\t\t: n=0 io=0 holes=0 pages=0\nWrites\t\t\t\t: err=0 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n\
    Mmap\t\t\t\t: n=0 ok=0 err=0 munmap=0\nBar1-map\t\t\t: n=0 ok=0 err=0 free=0 callbacks=0 active=0\nError\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=0 dma-ref=0\nOps\t\t\t\t: Read=0 Write=0\n";
const STATS_MAPS_FAIL: &str = "GDS Version: 1.14.1.1\nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.26.6)\nMellanox PeerDirect Supported: True\n\
    IO stats: Disabled, peer IO stats: Disabled\nLogging level: info\n\nActive Shadow-Buffer (MiB): 0\nActive Process: 0\n\
    Reads\t\t\t\t: err=0 io_state_err=0\nMmap\t\t\t\t: n=6 ok=6 err=0 munmap=6\nBar1-map\t\t\t: n=6 ok=0 err=6 free=0 callbacks=0 active=0 delay-frees=0\nError\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=0 dma-ref=0\nOps\t\t\t\t: Read=0 Write=0 BatchIO=0\n";

/// The machines: GPUs, drivers, kernels.
pub(crate) fn machines() -> Vec<Variant> {
    vec![
        fine("RTX PRO 6000 Blackwell", NVFS, gpu_with("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 128, 96)),
        fine("L40S with its large BAR1", NVFS, gpu_with("NVIDIA L40S", "8.9", 64, 45)),
        fine("A10", NVFS, gpu_with("NVIDIA A10", "8.6", 32, 23)),
        fine(
            "T4 with a window of 256 MiB",
            NVFS,
            all([
                gpu_with("Tesla T4", "7.5", 1, 15),
                vec![set(NVML, "/gpus/0/bar1_total_bytes", json!(268_435_456_u64))],
            ]),
        ),
        slowed(
            "H100 with a window of 256 MiB, and the registry keys",
            P2PDMA,
            &["gpu-bar1-size"],
            all([
                gpu_with("NVIDIA H100 PCIe", "9.0", 1, 80),
                vec![set(NVML, "/gpus/0/bar1_total_bytes", json!(268_435_456_u64))],
            ]),
        ),
        fine(
            "GB200 with pages of 64 KiB",
            GRACE,
            all([
                gpu_with("NVIDIA GB200", "10.0", 256, 185),
                vec![
                    put("files/proc/sys/kernel/osrelease", "6.8.0-1044-nvidia-64k\n"),
                    put("files/boot/config-6.8.0-1044-nvidia-64k", "CONFIG_PCI_P2PDMA=y\nCONFIG_ARM64_64K_PAGES=y\n"),
                    filesystem("xfs"),
                    options("rw,noatime"),
                    path("/0/inode_flags", json!(0)),
                ],
            ]),
        ),
        warned(
            "Grace Hopper whose driver goes to sleep",
            GRACE,
            &["gpu-persistence"],
            vec![set(NVML, "/gpus/0/persistence", json!(false))],
        ),
        slowed("Grace Hopper without the keys", GRACE, &["cfg-p2p-both"], vec![without("files/etc/cufile.json")]),
        barred(
            "Jetson",
            ("dgx-spark", Route::Compat),
            &["gpu-gdr-attr"],
            all([gpu("Orin (nvgpu)", "8.7"), vec![put("files/proc/sys/kernel/osrelease", "5.15.148-tegra\n")]]),
        ),
        bad(
            "H100 in confidential computing",
            "nvfs-healthy",
            Route::Compat,
            Route::Compat,
            &["vm-confidential"],
            // CUDA's attribute is a consequence.
            &["vm-confidential", "gpu-gdr-attr"],
            all([
                gpu_with("NVIDIA H100 80GB HBM3", "9.0", 128, 80),
                vec![
                    set(NVML, "/gpus/0/attributes/gpu_direct_rdma", json!(false)),
                    set(NVML, "/gpus/0/attributes/dma_buf", json!(false)),
                    set(NVML, "/gpus/0/virtualization", json!("passthrough")),
                    put(
                        "files/proc/cpuinfo",
                        "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme hypervisor tdx_guest\n",
                    ),
                ],
            ]),
        ),
        warned("MIG", NVFS, &["gpu-mig-vgpu"], vec![set(NVML, "/gpus/0/mig", json!("enabled"))]),
        warned(
            "a GPU for one process at a time",
            NVFS,
            &["gpu-compute-mode"],
            vec![set(NVML, "/gpus/0/compute_mode", json!("exclusive_process"))],
        ),
        warned(
            "a GPU that fell off the bus",
            NVFS,
            &["gpu-present", "gpu-ecc"],
            all([
                another_gpu(),
                vec![log(
                    "NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
                )],
            ]),
        ),
        fine(
            "a GPU that is lent to a virtual machine",
            NVFS,
            all([
                another_gpu(),
                vec![
                    link("files/sys/bus/pci/devices/0000:5e:00.0/driver", "../../drivers/vfio-pci"),
                    put("files/sys/bus/pci/drivers/vfio-pci/new_id", ""),
                ],
            ]),
        ),
        bad(
            "nouveau has the GPU",
            "new-kernel-no-driver",
            Route::None,
            Route::P2pdma,
            &["gpu-present", "cfg-p2p-both"],
            &["gpu-present", "lib-open-probe", "cfg-p2p-both"],
            vec![
                put("files/proc/modules", "nouveau 2400000 1 - Live 0x0\nnvme 60000 3 - Live 0x0\n"),
                put("files/sys/module/nouveau/refcnt", "1\n"),
                link("files/sys/bus/pci/devices/0000:be:00.0/driver", "../../drivers/nouveau"),
                put("files/sys/bus/pci/drivers/nouveau/bind", ""),
            ],
        ),
        warned("half of the GPU's lanes", NVFS, &["gpu-pcie-link"], vec![set(NVML, "/gpus/0/pcie/width", json!(8))]),
        fine("a GPU that rests", NVFS, vec![set(NVML, "/gpus/0/pcie/generation", json!(1))]),
        fine(
            "driver 595 with nvidia-fs built for it",
            NVFS,
            all([
                driver("595.91.07", "13.2"),
                vec![put(
                    "files/var/lib/dkms/nvidia-fs/2.26.6/6.14.0-37-generic/x86_64/log/make.log",
                    "DKMS make.log for nvidia-fs-2.26.6 for kernel 6.14.0-37-generic (x86_64)\nPicking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-595.91.07/nvidia. If that does not meet your expectation, you might have a stale driver still around and that might cause problems.\n",
                )],
            ]),
        ),
        // gds-nvidia-fs#66: DKMS does not rebuild nvidia-fs when the driver changes, but the format of the page
        // tables changed.
        warned(
            "nvidia-fs built for the driver before",
            NVFS,
            &["nvfs-dkms"],
            all([
                driver("595.91.07", "13.2"),
                vec![put(
                    "files/var/lib/dkms/nvidia-fs/2.26.6/6.14.0-37-generic/x86_64/log/make.log",
                    "DKMS make.log for nvidia-fs-2.26.6 for kernel 6.14.0-37-generic (x86_64)\nPicking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-570.207/nvidia. If that does not meet your expectation, you might have a stale driver still around and that might cause problems.\n",
                )],
            ]),
        ),
        bad(
            "nvidia-fs built for the driver before, and a read that crashed",
            "nvfs-healthy",
            Route::None,
            Route::Nvfs,
            &["nvfs-dkms"],
            &["nvfs-dkms", "nvfs-errors"],
            all([
                driver("595.91.07", "13.2"),
                vec![
                    put(
                        "files/var/lib/dkms/nvidia-fs/2.26.6/6.14.0-37-generic/x86_64/log/make.log",
                        "Picking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-570.207/nvidia. If that does not meet your expectation\n",
                    ),
                    log(
                        "nvidia_fs: registered correctly with major number 505\nnvidia-fs:nvfs_pin_gpu_pages:1383 Incompatible page table version 0x00020000\n------------[ cut here ]------------\nkernel BUG at /var/lib/dkms/nvidia-fs/2.26.6/build/nvfs-stat.c:407!\n",
                    ),
                ],
            ]),
        ),
        stopped(
            "the log of such a read, without a trace of the build",
            NVFS,
            &["nvfs-errors"],
            vec![log(
                "nvidia_fs: registered correctly with major number 505\nnvidia-fs:nvfs_pin_gpu_pages:1383 Incompatible page table version 0x00020000\nkernel BUG at /var/lib/dkms/nvidia-fs/2.26.6/build/nvfs-stat.c:407!\n",
            )],
        ),
        warned(
            "shadow buffers that cannot be pinned",
            NVFS,
            &["nvfs-errors"],
            vec![
                put("files/sys/module/nvidia_fs/version", "2.24.3\n"),
                log(
                    "nvidia-fs:nvfs_mgroup_pin_shadow_pages:397 Unable to pin shadow buffer pages 1024 ret= -14\nnvidia-fs:nvfs_map:1505 Error nvfs_setup_shadow_buffer\n",
                ),
            ],
        ),
        warned(
            "every map of BAR1 failed",
            NVFS,
            &["nvfs-errors"],
            vec![put("files/proc/driver/nvidia-fs/stats", STATS_MAPS_FAIL)],
        ),
        fine("counters of nvidia-fs 2.17", NVFS, vec![put("files/proc/driver/nvidia-fs/stats", STATS_2_17)]),
        fine("counters of the first nvidia-fs", NVFS, vec![put("files/proc/driver/nvidia-fs/stats", STATS_2_7)]),
        slowed(
            "no node of nvidia-fs on the machine itself",
            NVFS,
            &["nvfs-devnodes"],
            vec![without("files/dev/nvidia-fs0")],
        ),
        slowed("nvidia-fs is installed and not loaded", NVFS, &["nvfs-loaded"], unloaded()),
        // nvfs-autoload was expected. But one finding contains both facts: the module is not loaded, and the reason.
        slowed(
            "nvidia-fs is on a denylist of modules",
            NVFS,
            &["nvfs-loaded"],
            all([unloaded(), vec![put("files/etc/modprobe.d/hardening.conf", "install nvidia_fs /bin/false\n")]]),
        ),
        // Reported as gds-nvidia-fs#64.
        bad(
            "nvidia-fs that does not build on this kernel",
            "dkms-other-kernel",
            Route::Compat,
            Route::Nvfs,
            &["nvfs-dkms"],
            &["nvfs-dkms", "nvfs-loaded"],
            vec![
                put(
                    COMMANDS,
                    r#"[{"argv":["dkms","status"],"exit_code":0,"stdout":"nvidia-fs/2.24.3: added\n","stderr":""}]"#,
                ),
                put("files/proc/sys/kernel/osrelease", "6.17.0-5-generic\n"),
                put(
                    "files/var/lib/dkms/nvidia-fs/2.24.3/build/make.log",
                    "nvfs-mmap.c:1307:79: error: \u{2018}struct page\u{2019} has no member named \u{2018}index\u{2019}\nmake[4]: *** Waiting for unfinished jobs....\n",
                ),
            ],
        ),
    ]
}
