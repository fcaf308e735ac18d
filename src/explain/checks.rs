//! One page for each check: what it examines, why that matters, how to look at it by hand, and the remedy.

use crate::domain::FixId;

/// The page of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Id of the check.
    pub(super) id: &'static str,
    /// What it examines.
    pub(super) subject: &'static str,
    /// Why it matters.
    pub(super) why: &'static str,
    /// A command that shows the same fact.
    pub(super) look: &'static str,
    /// The fix, if there is one.
    pub(super) fix: Option<FixId>,
    /// The remedy if there is no fix, or in addition to it.
    pub(super) todo: &'static str,
}

const fn page(
    id: &'static str,
    subject: &'static str,
    why: &'static str,
    look: &'static str,
    fix: Option<FixId>,
    todo: &'static str,
) -> Page {
    Page { id, subject, why, look, fix, todo }
}

/// The page of the check with this id.
pub(super) fn of(id: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.id == id)
}

/// All checks, in the order of the groups.
#[rustfmt::skip]
pub(super) const PAGES: &[Page] = &[
    // GPU and driver.
    page("gpu-present", "whether a GPU is on the bus and the driver reports it", "Without a working driver there is no GPU memory to read into.", "nvidia-smi -L; lspci -d 10de:", Some(FixId::NvidiaDriverOpen), "In a container: start it with --gpus all. On machines with NVSwitch, nvidia-fabricmanager must run too."),
    page("gpu-compute-cap", "the compute capability", "libcufile supports compute capability 6.0 and later.", "nvidia-smi --query-gpu=compute_cap --format=csv", None, "Use a newer GPU; this cannot be changed."),
    page("gpu-class", "whether the GPU is a data-centre or workstation model", "The driver does not map memory of GeForce GPUs for other devices.", "nvidia-smi --query-gpu=name --format=csv", None, "Use a data-centre or workstation GPU. On GeForce, reads go through host memory."),
    page("gpu-gdr-attr", "the CUDA attribute for GPUDirect RDMA", "Without it no device can write into the GPU's memory (integrated GPUs, GeForce, some vGPUs).", "gds-top check -v", None, "Use a GPU with GPUDirect RDMA; reads go through host memory on this one."),
    page("gpu-open-capable", "whether the GPU can use the open kernel modules", "Pascal and Volta need the proprietary modules, and nvidia-fs 2.17.5 and later needs the open ones.", "nvidia-smi --query-gpu=name,compute_cap --format=csv", None, "Use nvidia-fs 2.17.4 with the proprietary driver, or read through host memory."),
    page("gpu-compute-mode", "the compute mode", "A GPU in mode Prohibited is excluded by libcufile; in Exclusive_Process a second process fails.", "nvidia-smi -q -d COMPUTE", None, "sudo nvidia-smi -i N -c 0"),
    page("gpu-bar1-size", "the size of BAR1 next to the GPU's memory", "Direct routes map GPU memory through BAR1; registrations beyond its size fail.", "nvidia-smi -q -d MEMORY", Some(FixId::Bar1Large), "Enable Above 4G Decoding and Resizable BAR in the BIOS."),
    page("gpu-bar1-free", "the unused part of BAR1", "Registering memory fails with 5016 or 5036 when BAR1 is full.", "nvidia-smi -q -d MEMORY", None, "Stop other programs that register memory, or lower max_device_cache_size_kb."),
    page("gpu-static-bar1", "the registry keys that map BAR1 statically", "P2PDMA on x86 needs them; without them CUDA answers 801.", "grep RegistryDwords /proc/driver/nvidia/params", Some(FixId::P2pdmaRegistryKeys), ""),
    page("gpu-p2pdma-model", "whether NVIDIA lists the GPU for P2PDMA", "NVIDIA supports P2PDMA on A100, A40, L4, L40S, H100, H200 and the B series.", "nvidia-smi --query-gpu=name --format=csv", None, "Use nvidia-fs on GPUs that are not listed."),
    page("gpu-stream-memops", "stream memory operations", "cuFileReadAsync fails with 5038 without them.", "gds-top check -v", None, "Use the driver option NVreg_EnableStreamMemOPs=1 and reboot, or set miscellaneous.stream_memops_bypass."),
    page("gpu-persistence", "persistence mode", "Without it the first program waits for the GPU to start; Grace Hopper needs it.", "nvidia-smi --query-gpu=persistence_mode --format=csv", None, "sudo systemctl enable --now nvidia-persistenced"),
    page("gpu-mig-vgpu", "MIG and vGPU", "A vGPU before Ada cannot use GPUDirect Storage; a MIG instance has a part of BAR1 only.", "nvidia-smi -q | grep -i -e 'mig mode' -e virtualization", None, "Pass the complete GPU through to the virtual machine."),
    page("gpu-ecc", "ECC state and errors", "A faulty GPU fails for reasons that have nothing to do with storage.", "nvidia-smi -q -d ECC", None, "Reset or replace the GPU if errors are reported."),
    page("gpu-fabric", "the fabric manager of machines with NVSwitch", "Until it has set up the fabric, CUDA answers 802 (system not ready).", "systemctl status nvidia-fabricmanager", Some(FixId::NvidiaFabricmanager), ""),
    page("gpu-pcie-link", "speed and width of the GPU's PCIe link", "A narrow or slow link limits every route.", "nvidia-smi -q -d PCIE", None, "Reseat the card, and look at bifurcation in the BIOS. An idle GPU lowers its link on purpose."),
    page("gpu-coherent-mode", "how GPU memory appears on Grace", "It decides whether the kernel manages GPU memory as a NUMA node.", "grep CoherentGPUMemoryMode /proc/driver/nvidia/params", None, ""),
    page("driver-version", "the version of the loaded driver", "P2PDMA needs 565.47 or later; nvidia-fs maps memory persistently from 555 on.", "cat /proc/driver/nvidia/version", Some(FixId::NvidiaDriverOpen), ""),
    page("driver-flavour", "open or proprietary kernel modules", "nvidia-fs 2.17.5 and later, and P2PDMA, need the open kernel modules.", "cat /proc/driver/nvidia/version; modinfo -F license nvidia", Some(FixId::NvidiaDriverOpen), ""),
    page("driver-mismatch", "whether kernel module and user-space libraries have one version", "After an unfinished update every CUDA call fails; cuFile reports 5011 or 5033.", "cat /sys/module/nvidia/version; modinfo -F version nvidia", None, "Reboot, so that the installed driver is the loaded one."),
    page("cuda-driver-runtime", "whether the driver is new enough for libcufile's CUDA release", "An older driver answers error 35 (insufficient driver).", "nvidia-smi | grep 'CUDA Version'", Some(FixId::NvidiaDriverOpen), "Or install the libcufile of the driver's CUDA release: pip install nvidia-cufile-cu12."),
    // nvidia-fs.
    page("nvfs-loaded", "whether nvidia-fs is loaded", "The route nvfs needs the module. P2PDMA does not.", "lsmod | grep nvidia_fs", Some(FixId::NvfsLoad), "If it is not installed: gds-top fix nvfs-install."),
    page("nvfs-version", "the version of nvidia-fs", "libcufile rejects modules before 2.12 (5004); 2.25.6 fails every read with -14.", "cat /proc/driver/nvidia-fs/version", Some(FixId::NvfsInstall), ""),
    page("nvfs-devnodes", "the devices of nvidia-fs", "A program that cannot open /dev/nvidia-fs0 gets 5025 or compat mode.", "ls -l /dev/nvidia-fs*", Some(FixId::ContainerDevices), "On the host, remove the udev rule that changes their mode from 0666."),
    page("nvfs-registered", "the storage drivers that registered with nvidia-fs", "Only files on a registered driver take the route nvfs.", "exec 9<>/dev/nvidia-fs0; cat /proc/driver/nvidia-fs/modules", Some(FixId::NvmePatch), "Or use P2PDMA, which needs no patched driver."),
    page("nvfs-nvme-symbol", "whether the NVMe driver is built for nvidia-fs", "An NVMe driver without this symbol cannot hand GPU memory to the disk.", "grep register_nvfs_dma_ops /proc/kallsyms", Some(FixId::NvmePatch), "Or use P2PDMA, which needs no patched driver."),
    page("nvfs-dkms", "the DKMS build of nvidia-fs for the running kernel", "A module for another kernel or driver does not load.", "dkms status nvidia-fs", Some(FixId::NvfsDkms), ""),
    page("nvfs-build-inputs", "headers and symbol versions for the build of nvidia-fs", "A build without the driver's symbol versions succeeds, and the module then fails to load.", "ls /lib/modules/$(uname -r)/build /usr/src/nvidia-*", Some(FixId::NvfsDkms), ""),
    page("nvfs-load-errors", "kernel messages from loading nvidia-fs", "The kernel log has the reason why the module is not loaded.", "sudo journalctl -k -b -o cat | grep -i -e nvidia_fs -e nvidia-fs", None, "Run gds-top explain with the line."),
    page("nvfs-secureboot", "Secure Boot and the signature of nvidia-fs", "With Secure Boot the kernel loads only modules whose signing key is enrolled.", "mokutil --sb-state; modinfo -F signer nvidia_fs", Some(FixId::SecureBootKey), ""),
    page("nvfs-lockdown", "kernel lockdown", "In mode integrity the kernel rejects unsigned modules and raw PCI access.", "cat /sys/kernel/security/lockdown", None, "Sign the modules (gds-top fix secure-boot-key), or disable Secure Boot in the firmware."),
    page("nvfs-autoload", "whether nvidia-fs is loaded at boot, after the driver", "Otherwise reads go through host memory after each reboot.", "cat /etc/modules-load.d/*nvidia*fs*.conf", Some(FixId::NvfsLoad), ""),
    page("nvfs-stats-on", "the I/O counters of nvidia-fs", "They are off by default; the module then reports no reads, which looks like no traffic.", "cat /sys/module/nvidia_fs/parameters/rw_stats_enabled", Some(FixId::NvfsStats), ""),
    page("nvfs-errors", "error counters of nvidia-fs and errors in the kernel log", "They show why a read failed or left the direct route.", "grep -i err /proc/driver/nvidia-fs/stats", None, "Run gds-top explain with the line of the kernel log."),
    page("nvfs-peer-distance", "the distance of GPU and disk as nvidia-fs ranks it", "libcufile chooses by this ranking.", "cat /proc/driver/nvidia-fs/peer_distance", None, "Use the GPU that is nearest to the disk."),
    page("nvfs-bridges-acs", "bridges with ACS that nvidia-fs found", "ACS sends transfers between devices up to the root complex.", "cat /proc/driver/nvidia-fs/bridges", Some(FixId::AcsRedirect), ""),
    page("nvfs-peermem", "nvidia_peermem", "User-space RDMA file systems (WekaFS, Spectrum Scale) need it. Local disks do not.", "lsmod | grep peermem", None, "sudo modprobe nvidia-peermem"),
    // Kernel and platform.
    page("kernel-version", "the kernel release", "Patched NVMe drivers exist for certain kernels only; P2PDMA needs 6.2 or later.", "uname -r", None, "Use P2PDMA on kernels without a patched NVMe driver."),
    page("kernel-p2pdma", "PCI P2PDMA in the kernel", "Without CONFIG_PCI_P2PDMA the route p2pdma does not exist.", "grep -e PCI_P2PDMA -e ZONE_DEVICE /boot/config-$(uname -r)", Some(FixId::KernelP2pdma), ""),
    page("kernel-p2p-rootports", "whether the CPU allows transfers between root ports", "The kernel rejects P2PDMA between root ports of CPUs that are not on its list.", "lspci -tv", None, "Put GPU and NVMe disk below one PCIe switch, or use nvidia-fs."),
    page("iommu-state", "the IOMMU", "On x86 a translating IOMMU breaks or slows down direct reads. Grace needs it enabled.", "cat /proc/cmdline; ls /sys/class/iommu", Some(FixId::IommuOff), ""),
    page("kaslr-p2pdma", "address randomisation with P2PDMA", "NVIDIA lists failures of P2PDMA with KASLR.", "grep -c nokaslr /proc/cmdline", None, "Try nokaslr only if everything else is right and CUDA still answers 801."),
    page("distro-blocklist", "combinations that NVIDIA lists as broken", "RHEL 9.5 on x86 cannot use P2PDMA.", "cat /etc/os-release; uname -r", None, "Update to a later minor release."),
    page("reboot-pending", "settings on disk that the running kernel does not have", "A fix without its reboot or initramfs looks as if it did not work.", "cat /proc/cmdline; cat /etc/modprobe.d/*nv*", Some(FixId::Initramfs), "Reboot."),
    page("cpu-arch", "the CPU architecture", "libcufile exists for x86_64 and aarch64.", "uname -m", None, "Use a supported machine."),
    page("wsl", "Windows Subsystem for Linux", "libcufile aborts under WSL.", "uname -r", None, "Run on Linux."),
    page("vm-type", "the kind of virtual machine and its disks", "A virtual disk cannot write into GPU memory.", "systemd-detect-virt; lsblk -o NAME,TRAN,MODEL", None, "Pass an NVMe disk and the GPU through to the machine (VFIO)."),
    page("numa-affinity", "NUMA nodes of GPU and disk", "Transfers between sockets are slower.", "nvidia-smi topo -m", Some(FixId::GpuNearDisk), ""),
    // PCIe and NVMe.
    page("pcie-topology", "the PCIe path between GPU and disk", "It limits the rate. It does not prevent direct reads through nvidia-fs.", "nvidia-smi topo -m; lspci -tv", Some(FixId::GpuNearDisk), ""),
    page("pcie-acs", "ACS redirection on the bridges between GPU and disk", "Redirected transfers leave the switch, and P2PDMA can fail.", "sudo lspci -vvv | grep -i acsctl", Some(FixId::AcsRedirect), "Do not clear ACS on all bridges: disks can fall off the bus."),
    page("nvme-transport", "the transport of the NVMe disk", "NVMe over TCP has no direct route.", "cat /sys/class/nvme/nvme*/transport", None, "Use RDMA or a local disk."),
    page("nvme-multipath", "native NVMe multipath", "P2PDMA does not pass the multipath device.", "cat /sys/module/nvme_core/parameters/multipath", Some(FixId::NvmeMultipathOff), ""),
    page("nvme-link", "speed and width of the disk's PCIe link", "A narrow or slow link limits every route.", "cat /sys/class/nvme/nvme0/device/current_link_{speed,width}", None, "Reseat the disk."),
    page("nvme-integrity", "protection information on the disk", "nvidia-fs rejects disks with integrity metadata.", "cat /sys/block/nvme0n1/integrity/device_is_integrity_capable", None, "Format the namespace without it: nvme format erases all data."),
    page("blk-geometry", "block sizes and queue limits", "They decide which reads are aligned, and how large a request can be.", "grep . /sys/block/nvme0n1/queue/{logical_block_size,max_sectors_kb,nr_requests}", None, "echo 1024 | sudo tee /sys/block/nvme0n1/queue/nr_requests"),
    page("scsi-blkmq", "multi-queue SCSI", "libcufile supports SCSI disks only with blk-mq.", "cat /sys/module/scsi_mod/parameters/use_blk_mq", None, "Boot with scsi_mod.use_blk_mq=1."),
    // Files and mounts.
    page("fs-resolve", "the mount and the block device behind the path", "Every other check of the path depends on it. Overlay and FUSE have no block device.", "findmnt -T PATH; stat -c %d PATH", Some(FixId::MoveModel), ""),
    page("fs-type", "the file system", "Direct reads need ext4 or xfs on a supported disk, or a supported network file system.", "findmnt -T PATH -o FSTYPE", Some(FixId::MoveModel), ""),
    page("ext4-ordered", "the journal mode of ext4", "libcufile reads data=ordered from the mount options, and the kernel does not print the default.", "grep ext4 /proc/mounts", Some(FixId::Ext4Ordered), ""),
    page("ext4-extents", "whether the file uses extents", "libcufile rejects ext4 files without extents.", "lsattr FILE", None, "Copy the file."),
    page("ext4-lazyinit", "background initialisation after mkfs", "It uses the disk while you measure.", "pgrep ext4lazyinit", None, "Wait until it ends."),
    page("odirect-open", "whether the file opens with O_DIRECT", "Direct reads bypass the page cache.", "dd if=FILE of=/dev/null bs=4096 count=1 iflag=direct", None, "Move the file to ext4 or xfs."),
    page("statx-dioalign", "the alignment that O_DIRECT needs", "Unaligned parts of a read take a detour through a bounce buffer.", "cat /sys/block/nvme0n1/queue/logical_block_size", None, "Align reads to 4096 bytes or the value shown."),
    page("inode-flags", "compression, encryption and other inode flags", "libcufile rejects such files with 5008.", "lsattr FILE", None, "sudo chattr -a -i FILE, or copy the file without encryption and compression."),
    page("sparse-or-delalloc", "holes and blocks not yet on disk", "Holes are read by another code path, and unwritten data is flushed first.", "filefrag -v FILE", None, "cp --sparse=never FILE COPY; sync"),
    page("page-cache-residency", "the share of the file in the page cache", "A cached file makes mmap look fast and a cold load unrealistic.", "fincore FILE", None, "Use --cache cold, which drops the file from the page cache."),
    page("fs-space-owner", "whether the file can be read", "libcufile accepts regular files and block devices only.", "ls -l FILE", None, "Name a regular file that this user may read."),
    page("md-raid", "level and members of a software RAID", "Direct reads need RAID 0 of NVMe disks, with MD_LEVEL in the udev record.", "cat /proc/mdstat; udevadm info -n /dev/md0 | grep MD_LEVEL", Some(FixId::MdUdev), "Use RAID 0 or a single disk."),
    page("dm-lvm", "device mapper: LVM, encryption, multipath", "Requests are remapped by the CPU, so there is no direct route.", "lsblk -o NAME,TYPE", None, "Put the model on a partition or disk without LVM or encryption."),
    page("nfs-rdma", "the transport of an NFS mount", "NFS has a direct route only over RDMA with a client that registered with nvidia-fs.", "grep nfs /proc/mounts", None, "Mount with proto=rdma,port=20049."),
    page("dfs-client-version", "the version of a network file system's client", "Older clients have no support for GPUDirect Storage.", "lctl get_param version; weka version current", None, "Update the client."),
    // libcufile and its configuration.
    page("lib-found", "all copies of libcufile", "A Python wheel can load another copy than the toolkit's, and without cufile.json.", "ldconfig -p | grep cufile; pip list | grep cufile", Some(FixId::LibcufileInstall), ""),
    page("lib-version", "the version of libcufile", "Features depend on it: files without O_DIRECT from 1.7, route counters from 1.15, P2PDMA per transport from 1.16.", "ls -l /usr/local/cuda/lib64/libcufile.so*", Some(FixId::LibcufileInstall), ""),
    page("lib-deps", "libraries that libcufile loads at run time", "Without libcuda there is no GPU memory; without libudev or libmount no file can be registered.", "ldconfig -p | grep -e libcuda.so.1 -e libudev -e libmount -e libnuma", None, "Debian: apt-get install libmount1 libudev1 libnuma1. RHEL: dnf install libmount systemd-libs numactl-libs."),
    page("lib-rdma", "libraries for RDMA", "Only WekaFS, Spectrum Scale and other RDMA clients need them.", "ldconfig -p | grep -e libmlx5 -e librdmacm -e libibverbs", None, "Debian: apt-get install rdma-core ibverbs-providers. RHEL: dnf install rdma-core."),
    page("lib-open-probe", "whether cuFileDriverOpen works", "Errors in cufile.json are printed on standard error only, never in cufile.log.", "gds-top check", None, "Run gds-top explain with the code that it reports."),
    page("tools-found", "gdscheck, gdsio and gds_stats", "gds-top does not need them; NVIDIA's support may ask for their output.", "ls /usr/local/cuda*/gds/tools", None, "Install nvidia-gds or gds-tools."),
    page("cfg-env-path", "the file that CUFILE_ENV_PATH_JSON names", "libcufile ignores a missing file without a message.", "ls -l \"$CUFILE_ENV_PATH_JSON\"", None, "Correct the path, or unset the variable."),
    page("cfg-parse", "syntax and types of cufile.json", "One wrong comma in /etc/cufile.json makes every program fail with 5002 (-22 up to 1.18).", "gds-top config lint", Some(FixId::CufileConfig), ""),
    page("cfg-effective", "the values in effect and keys that are ignored", "A misspelt key has no effect, and libcufile does not report it.", "gds-top config show", None, "gds-top config lint --strict lists every key without effect."),
    page("cfg-compat", "compat mode in cufile.json and the environment", "With compat mode allowed, a missing direct route is not reported.", "gds-top config show | grep compat", None, "Set allow_compat_mode to false to fail instead of reading through host memory."),
    page("cfg-p2p-both", "the two keys that enable P2PDMA", "From 1.16 on libcufile needs use_pci_p2pdma under properties and under block.nvme.", "gds-top config show | grep p2pdma", Some(FixId::CufileP2pdmaKeys), ""),
    page("cfg-vs-hardware", "sizes in cufile.json next to BAR1 and memory", "A cache larger than BAR1 is rejected, and a small pinned limit fails with 5016.", "gds-top config lint", None, "gds-top config tune MODEL prints fitting values."),
    page("log-location", "where cufile.log is written", "Without a log the reason for compat mode is lost.", "gds-top config show | grep logging", Some(FixId::CufileLog), ""),
    page("log-level", "the log level of libcufile", "DEBUG and TRACE slow down every read; ERROR hides the reasons for compat mode.", "gds-top config show | grep logging.level", None, "Set CUFILE_LOGGING_LEVEL=DEBUG for one run."),
    page("log-scan", "cufile.log", "libcufile writes the reason there, and the program sees only a number.", "tail cufile.log", None, "Run gds-top explain with the line."),
    page("kernel-log", "the kernel log", "The kernel writes the reason there, and libcufile sees only a number.", "sudo journalctl -k -b -o cat", None, "Run gds-top explain with the line."),
    page("stats-shm", "shared memory of programs with cuFile statistics", "gds_stats reads it; segments of ended programs stay.", "ipcs -m", None, "ipcrm -m ID for segments of ended programs."),
    page("static-cfg", "cached hardware facts of libcufile", "libcufile trusts these files, also after a hardware change.", "gds-top config show | grep static", None, "gdscheck -e sysfs -o /etc/topology.json"),
    // Container and limits.
    page("udev-database", "the udev record of the disk", "libcufile reads the kind of file system there; without it every file fails with 5027, also in compat mode.", "ls /run/udev/data/; udevadm info --query=property --name=/dev/nvme0n1p1 | grep ID_FS", Some(FixId::UdevRecord), "In a container: start it with -v /run/udev:/run/udev:ro."),
    page("ctr-detect", "the container runtime", "Some fixes are possible on the host only.", "cat /proc/1/cgroup", None, ""),
    page("ctr-devices", "GPU and nvidia-fs devices in the container", "The NVIDIA container runtime does not add /dev/nvidia-fs* by default.", "ls /dev/nvidia*", Some(FixId::ContainerDevices), ""),
    page("ctr-proc-sys", "/proc and /sys in the container", "libcufile 1.16 and later never returns if /proc/modules cannot be read.", "head -1 /proc/modules", None, "Run on the host, or in a runtime with a complete /proc."),
    page("ctr-ipc", "the IPC namespace", "Statistics of a program in another IPC namespace cannot be read.", "readlink /proc/self/ns/ipc", None, "Start the container with --ipc=host."),
    page("ctr-rootfs", "a model on the container's root file system", "overlayfs has no direct route, and fails before libcufile 1.16.", "findmnt -T PATH", None, "Mount a volume with ext4 or xfs into the container."),
    page("lim-memlock", "the limit of locked memory", "RDMA registration and shared-memory statistics lock memory.", "ulimit -l", Some(FixId::Memlock), "In a container: --ulimit memlock=-1."),
    page("lim-nofile", "the limit of open files", "cuFile opens up to three descriptors for each file; beyond the limit it reports 5031.", "ulimit -n", None, "ulimit -n 65536"),
    page("lim-cgroup", "memory and process limits of the cgroup", "The page cache of a mapped model counts against the memory limit.", "cat /sys/fs/cgroup/memory.max", None, "Raise the limit of the container or service."),
    page("lim-hugepages", "huge pages", "cuFile does not need them.", "grep -i huge /proc/meminfo", None, ""),
    page("user-perms", "user and permissions", "Without permission to read the kernel log the diagnosis is incomplete.", "id; cat /proc/sys/kernel/dmesg_restrict", None, "Run sudo gds-top check."),
    page("user-lsm", "SELinux and AppArmor", "A policy can deny /dev/nvidia-fs0 although its mode is 0666.", "getenforce; sudo ausearch -m avc | grep nvidia", None, "Adapt the policy of the container or service."),
    page("k8s-operator", "the GPU Operator's configuration", "With nvidia-fs 2.17.5 and later, the operator must install the open kernel modules.", "kubectl get clusterpolicy -o yaml | grep -A3 -e gds -e kernelModuleType", None, "Set driver.kernelModuleType to open and gds.enabled to true."),
    page("rdma-stack", "DOCA or MLNX_OFED", "They bring the patched NVMe and NFS drivers. Do not install both.", "ofed_info -s", Some(FixId::NvmePatch), ""),
    page("rdma-ips", "the addresses in rdma_dev_addr_list", "WekaFS and Spectrum Scale find their network card by them. Local disks do not need them.", "ip -br addr; rdma link", None, "Correct the list, or leave it empty for local disks."),
];
