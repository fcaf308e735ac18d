//! The table of all checks. Causes are before their consequences, so that the position is the rank of a check.

use super::parts::{CheckSpec, CheckStep, Group, Scope, Step};
use crate::core::fix_id::FixId;
use crate::core::route::Route;

const EVERY: &[Route] = &[Route::Nvfs, Route::P2pdma, Route::C2c, Route::Rdma, Route::Compat];
const DIRECT: &[Route] = &Route::DIRECT;
const NONE: &[Route] = &[];

checks! {
    Wsl = "wsl", Kernel, Machine, Gpu, EVERY, []
        examines "Windows Subsystem for Linux"
        why "libcufile aborts under WSL."
        look "uname -r" todo "Run on Linux.";
    CpuArch = "cpu-arch", Kernel, Machine, Gpu, EVERY, []
        examines "the CPU architecture"
        why "libcufile exists for x86_64 and aarch64."
        look "uname -m" todo "Use a supported machine.";
    GpuPresent = "gpu-present", Gpu, Machine, Gpu needed, EVERY, [NvidiaDriverOpen, NvidiaDriverProprietary, SecureBootKey]
        examines "whether a GPU is on the bus and the driver reports it"
        why "cuFile reads into GPU memory, which needs a GPU and a working driver."
        look "nvidia-smi -L; lspci -d 10de:" todo "In a container: start it with --gpus all. On machines with NVSwitch, nvidia-fabricmanager must run too."
        causes ["No driver is installed, or not for the running kernel.", "The driver is not signed with a key that Secure Boot accepts, or kernel lockdown rejects it.", "The open kernel modules do not support the GPU (before Turing).", "The kernel is a real-time kernel (PREEMPT_RT), which the driver does not support.", "The GPU failed: GSP, power or PCIe.", "A container without GPU devices."];
    DriverMismatch = "driver-mismatch", Gpu, Machine, Driver, EVERY, []
        examines "whether kernel module and user-space libraries have one version"
        why "After an unfinished update every CUDA call fails; cuFile reports 5011 or 5033."
        look "cat /sys/module/nvidia/version; modinfo -F version nvidia" todo "On a host, reboot to load the installed driver. In a container, correct the part with the other version: its image or its host."
        causes ["The driver was updated without a reboot.", "A container has libraries of another driver than its host."];
    CudaDriverRuntime = "cuda-driver-runtime", Gpu, Machine, Libcufile, EVERY, [LibcufileInstall]
        examines "whether the driver is new enough for libcufile's CUDA release"
        why "An older driver returns error 35 (insufficient driver)."
        look "nvidia-smi | grep 'CUDA Version'" todo "Update the driver, or install the libcufile of the driver's CUDA release: pip install nvidia-cufile-cu12."
        causes ["A Python wheel installed a libcufile of a newer CUDA release than the driver supports."];
    DriverVersion = "driver-version", Gpu, Machine, Driver needed, &[Route::Nvfs, Route::P2pdma, Route::C2c], [NvidiaDriverOpen, NvidiaDriverProprietary]
        examines "the version of the loaded driver"
        why "P2PDMA needs 565.47 or later; nvidia-fs maps memory persistently from 555 on."
        look "cat /proc/driver/nvidia/version" todo ""
        causes ["The driver branch of the distribution is old."];
    DriverFlavour = "driver-flavour", Gpu, Machine, Driver, &[Route::Nvfs, Route::P2pdma], [NvidiaDriverOpen]
        examines "open or proprietary kernel modules"
        why "nvidia-fs 2.17.5 and later, and P2PDMA, need the open kernel modules."
        look "cat /proc/driver/nvidia/version; modinfo -F license nvidia" todo "Install the open kernel modules of the driver: gds-top fix nvidia-driver-open."
        causes ["The proprietary kernel modules were installed; before driver 560 they were the default."];
    GpuFabric = "gpu-fabric", Gpu, Machine, Driver, EVERY, [NvidiaFabricmanager]
        examines "the fabric manager of machines with NVSwitch"
        why "CUDA fails with 802 (system not ready) until it has configured the NVSwitches."
        look "systemctl status nvidia-fabricmanager" todo "Install Fabric Manager in the version of the driver, and start it: sudo systemctl enable --now nvidia-fabricmanager."
        causes ["Fabric Manager is not installed, not running, or of another version than the driver."];
    DistroBlocklist = "distro-blocklist", Kernel, Machine, Kernel, &[Route::P2pdma], []
        examines "combinations that NVIDIA lists as broken"
        why "RHEL 9.5 on x86 cannot use P2PDMA."
        look "cat /etc/os-release; uname -r" todo "Update to a later minor release.";
    VmConfidential = "vm-confidential", Kernel, Machine, Gpu, DIRECT, []
        examines "whether the virtual machine is confidential (SEV-SNP or TDX)"
        why "The memory of a confidential guest is encrypted, so no device can write into GPU memory directly."
        look "sudo dmesg | grep -i -e sev -e tdx" todo "Use a virtual machine without SEV-SNP or TDX for direct routes."
        causes ["SEV-SNP or TDX was enabled for the virtual machine."];
    GpuComputeCap = "gpu-compute-cap", Gpu, Gpu, Gpu, EVERY, []
        examines "the compute capability"
        why "libcufile supports compute capability 6.0 and later."
        look "nvidia-smi --query-gpu=compute_cap --format=csv" todo "Use a newer GPU; this cannot be changed.";
    GpuOpenCapable = "gpu-open-capable", Gpu, Gpu, Gpu, &[Route::Nvfs, Route::P2pdma], []
        examines "whether the GPU can use the open kernel modules"
        why "Pascal and Volta need the proprietary modules, and nvidia-fs 2.17.5 and later needs the open ones."
        look "nvidia-smi --query-gpu=name,compute_cap --format=csv" todo "Use nvidia-fs 2.17.4 with the proprietary driver, or read through host memory.";
    GpuClass = "gpu-class", Gpu, Gpu, Gpu, DIRECT, []
        examines "whether the GPU is a data-centre or workstation model"
        why "The driver does not map memory of GeForce GPUs for other devices."
        look "nvidia-smi --query-gpu=name --format=csv" todo "Use a data-centre or workstation GPU. On GeForce, reads go through host memory."
        causes ["GeForce: the driver does not map its memory for other devices."];
    GpuGdrAttr = "gpu-gdr-attr", Gpu, Gpu, Gpu, DIRECT, []
        examines "the CUDA attribute for GPUDirect RDMA"
        why "Without it no device can write into the GPU's memory (integrated GPUs, GeForce, some vGPUs)."
        look "gds-top check -v" todo "Use a GPU with GPUDirect RDMA; reads go through host memory on this one.";
    GpuMigVgpu = "gpu-mig-vgpu", Gpu, Gpu, Gpu, EVERY, []
        examines "MIG and vGPU"
        why "A vGPU before Ada cannot use GPUDirect Storage; with MIG, CUDA lists only instances."
        look "nvidia-smi -q | grep -i -e 'mig mode' -e virtualization; nvidia-smi -L" todo "Pass the complete GPU through to the virtual machine. With MIG, create an instance: sudo nvidia-smi mig -cgi 0 -C."
        causes ["MIG is on, and no instance exists (CUDA error 100).", "The virtual machine has a vGPU of Ampere or older."];
    GpuBar1Size = "gpu-bar1-size", Gpu, Gpu, Bar1Size, &[Route::Nvfs, Route::P2pdma], [Bar1Large] (default)
        examines "the size of BAR1 compared with the GPU's memory"
        why "Direct routes map GPU memory through BAR1; registrations above its size fail."
        look "nvidia-smi -q -d MEMORY" todo "Enable Above 4G Decoding and Resizable BAR in the BIOS."
        causes ["Above 4G Decoding or Resizable BAR is off in the firmware.", "The virtual machine has a small MMIO window."];
    GpuComputeMode = "gpu-compute-mode", Gpu, Gpu, Gpu, EVERY, []
        examines "the compute mode"
        why "A GPU in mode Prohibited is excluded by libcufile; in Exclusive_Process a second process fails."
        look "nvidia-smi -q -d COMPUTE" todo "sudo nvidia-smi -i N -c 0";
    GpuBar1Free = "gpu-bar1-free", Gpu, Gpu, Bar1Size, &[Route::Nvfs], []
        examines "the unused part of BAR1"
        why "Registering memory fails with 5016 or 5036 when BAR1 is full."
        look "nvidia-smi -q -d MEMORY" todo "Stop other programs that register memory, or lower max_device_cache_size_kb."
        causes ["Another program has registered most of BAR1.", "max_device_cache_size_kb is large."];
    GpuP2pdmaModel = "gpu-p2pdma-model", Gpu, Gpu, Bar1, &[Route::P2pdma], []
        examines "whether NVIDIA lists the GPU for P2PDMA"
        why "NVIDIA supports P2PDMA on A100, A40, L4, L40S, H100, H200 and the B series."
        look "nvidia-smi --query-gpu=name --format=csv" todo "Use nvidia-fs on GPUs that are not listed.";
    FsResolve = "fs-resolve", Files, Path, Disk, EVERY, []
        examines "the mount and the block device behind the path"
        why "All other checks of the path depend on them. Overlay and FUSE have no block device."
        look "findmnt -T PATH; stat -c %d PATH" todo "Keep the model on ext4 or xfs on a local disk. In a container, mount that directory (-v /data:/data)."
        causes ["The file system that /etc/fstab names is not mounted.", "The path is on an overlay, FUSE or another file system without a block device."];
    FsSpaceOwner = "fs-space-owner", Files, Path, Disk, EVERY, []
        examines "whether the file can be read"
        why "libcufile accepts regular files and block devices only."
        look "ls -l FILE" todo "Name a regular file that this user may read.";
    FsType = "fs-type", Files, Path, Disk needed, EVERY, [MoveModel] (default)
        examines "the file system"
        why "A direct route needs ext4 or xfs on a supported disk, or a supported network file system."
        look "findmnt -T PATH -o FSTYPE" todo ""
        causes ["The model is on a container's root file system, on a network file system or in memory."];
    OdirectOpen = "odirect-open", Files, Path, Disk, EVERY, []
        examines "whether the file opens with O_DIRECT"
        why "Direct reads bypass the page cache."
        look "dd if=FILE of=/dev/null bs=4096 count=1 iflag=direct" todo "If the user may not read the file, correct that. If the file system rejects O_DIRECT, move the file to ext4 or xfs.";
    InodeFlags = "inode-flags", Files, Path, Disk, DIRECT, []
        examines "compression, encryption, fs-verity and other inode flags"
        why "libcufile or the kernel reads such files through host memory. libcufile rejects some with 5008 if compat mode is not allowed."
        look "lsattr FILE" todo "sudo chattr -a -i -j FILE (-R for a directory), or copy the file without encryption, compression and fs-verity.";
    Ext4Extents = "ext4-extents", Files, Path, Disk, DIRECT, []
        examines "whether the file uses extents"
        why "libcufile rejects ext4 files without extents."
        look "lsattr FILE" todo "sudo chattr +e FILE (-R for a directory). If that is not supported, copy the file to a file system with extents.";
    NvmeState = "nvme-state", Storage, Path, Disk, EVERY, []
        examines "whether the NVMe controllers work"
        why "A disk that fell off the bus cannot be read, and its path may be missing."
        look "cat /sys/class/nvme/nvme*/state; sudo dmesg | grep nvme" todo "Power the machine off and on. If it happens again, replace the disk."
        causes ["ACS was changed while the disk was in use.", "The disk, its slot or its power failed."];
    NvmeHealth = "nvme-health", Storage, Path, NoStep, NONE, []
        examines "the health that the NVMe disks report (SMART)"
        why "A worn or failing disk is slow, and its reads can fail."
        look "sudo nvme smart-log /dev/nvme0" todo "Save the data and replace the disk."
        causes ["The disk is near the end of its rated life.", "Its memory cells fail."];
    VmType = "vm-type", Storage, Path, Disk, DIRECT, [MoveModel]
        examines "the kind of virtual machine and its disks"
        why "The host copies the data of a virtual disk, so it cannot write into GPU memory."
        look "systemd-detect-virt; lsblk -o NAME,TRAN,MODEL" todo "On your own host, pass an NVMe disk through (VFIO, DirectPath I/O). A cloud's local NVMe disk is faster, but may stay in compat mode."
        causes ["The virtual machine has a virtio disk.", "The cloud volume only looks like an NVMe disk (EBS, Google Cloud, Azure)."];
    NvmeTransport = "nvme-transport", Storage, Path, Disk, DIRECT, [MoveModel]
        examines "the transport of the NVMe disk"
        why "A disk can write into GPU memory only if it is NVMe on the PCIe bus or over RDMA."
        look "cat /sys/class/nvme/nvme*/transport" todo "Use a local NVMe disk. NVMe over RDMA supports only the route nvfs."
        causes ["The disk is SATA or SAS.", "NVMe over TCP."];
    NvmeIntegrity = "nvme-integrity", Storage, Path, Disk, &[Route::Nvfs, Route::P2pdma, Route::C2c], []
        examines "protection information on the disk"
        why "nvidia-fs rejects disks with integrity metadata."
        look "cat /sys/block/nvme0n1/integrity/device_is_integrity_capable" todo "Format the namespace without it: nvme format erases all data.";
    MdRaid = "md-raid", Files, Path, Disk, DIRECT, [MdUdev, MoveModel]
        examines "level and members of a software RAID"
        why "Direct reads need RAID 0 of NVMe disks, with MD_LEVEL in the udev record."
        look "cat /proc/mdstat; udevadm info -n /dev/md0 | grep MD_LEVEL" todo "Use RAID 0 or a single disk."
        causes ["The RAID level is not 0.", "The udev rule of md does not import MD_LEVEL."];
    DmLvm = "dm-lvm", Files, Path, Disk, DIRECT, [MoveModel]
        examines "device mapper: LVM, encryption, multipath"
        why "The CPU remaps the requests, so no direct route exists."
        look "lsblk -o NAME,TYPE" todo "Put the model on a partition or disk without LVM or encryption."
        causes ["The installer of the distribution uses LVM by default.", "The disk is encrypted (LUKS)."];
    NfsRdma = "nfs-rdma", Files, Path, Mount, &[Route::Nvfs], []
        examines "the transport of an NFS mount"
        why "NFS has a direct route only over RDMA with a client that registered with nvidia-fs."
        look "grep nfs /proc/mounts" todo "Mount with proto=rdma,port=20049."
        causes ["The share is mounted over TCP."];
    DfsClientVersion = "dfs-client-version", Files, Path, Client, &[Route::Nvfs, Route::Rdma], []
        examines "the version of a network file system's client, and whether it enables GPUDirect Storage"
        why "Older clients have no support for GPUDirect Storage, and Storage Scale disables it by default."
        look "lctl get_param version; weka version current; mmlsconfig verbsGPUDirectStorage" todo "Update the client, or enable GPUDirect Storage in its settings.";
    CtrDevices = "ctr-devices", Limits, Machine, Container, EVERY, [ContainerDevices] (default)
        examines "GPU and nvidia-fs devices in the container"
        why "A container has only the devices that were added at its start, and --gpus all does not add /dev/nvidia-fs*."
        look "ls /dev/nvidia*" todo ""
        causes ["The container was started without GPUs."];
    UdevDatabase = "udev-database", Files, Path, UdevRecord needed, EVERY, [UdevRecord]
        examines "the udev record of the disk"
        why "libcufile gets the type of the file system from udev; without it every file fails with 5027, even in compat mode."
        look "ls /run/udev/data/; udevadm info --query=property --name=/dev/nvme0n1p1 | grep ID_FS" todo "In a container: start it with -v /run/udev:/run/udev:ro."
        causes ["A container without /run/udev.", "A small image without a udev daemon.", "udev did not probe the device-mapper volume."];
    CtrProcSys = "ctr-proc-sys", Limits, Machine, Container, EVERY, []
        examines "/proc and /sys in the container"
        why "libcufile 1.16 and later never returns if /proc/modules cannot be read."
        look "head -1 /proc/modules" todo "Run on the host, or in a runtime with a complete /proc.";
    CfgParse = "cfg-parse", Cufile, Machine, Config needed, EVERY, [CufileConfig] (default)
        examines "syntax and types of cufile.json"
        why "One wrong comma in /etc/cufile.json makes every program fail with 5002 (-22 up to 1.18)."
        look "gds-top config lint" todo ""
        causes ["A trailing comma, a comment with '#', or a value in quotes.", "The file is not readable for this user."];
    LogLocation = "log-location", Cufile, Machine, Config, EVERY, [CufileLog] (default)
        examines "where cufile.log is written"
        why "Without a log the reason for compat mode is lost."
        look "gds-top config show | grep logging" todo ""
        causes ["logging.dir names a directory that does not exist."];
    LibFound = "lib-found", Cufile, Machine, Libcufile needed, EVERY, [LibcufileInstall]
        examines "all copies of libcufile"
        why "Without it there are no cuFile reads. If several copies are installed, a program can load another one than the toolkit's."
        look "ldconfig -p | grep cufile; pip list | grep cufile" todo ""
        causes ["Neither the CUDA toolkit nor the Python wheel with libcufile is installed."];
    LibDeps = "lib-deps", Cufile, Machine, Libcufile, EVERY, []
        examines "libraries that libcufile loads at run time"
        why "libcufile needs libcuda for GPU memory, and libudev and libmount to register files."
        look "ldconfig -p | grep -e libcuda.so.1 -e libudev -e libmount -e libnuma" todo "Debian: apt-get install libmount1 libudev1 libnuma1. RHEL: dnf install libmount systemd-libs numactl-libs."
        causes ["A slim container image."];
    LibOpenProbe = "lib-open-probe", Cufile, Machine, Opens needed, EVERY, []
        examines "whether cuFileDriverOpen works"
        why "Errors in cufile.json are printed on standard error only, never in cufile.log."
        look "gds-top check" todo "Run gds-top explain with the code that it reports."
        causes ["cufile.json is rejected.", "CUDA does not start.", "nvidia-fs is too old or its devices cannot be opened."];
    KernelVersion = "kernel-version", Kernel, Machine, Kernel, DIRECT, [KernelP2pdma]
        examines "the kernel release"
        why "Patched NVMe drivers exist for certain kernels only; P2PDMA needs 6.2 or later."
        look "uname -r" todo "Use P2PDMA on kernels without a patched NVMe driver."
        causes ["The distribution's kernel is older than 6.2."];
    KernelP2pdma = "kernel-p2pdma", Kernel, Machine, Kernel needed, &[Route::P2pdma], [KernelP2pdma] (default)
        examines "PCI P2PDMA in the kernel"
        why "Without CONFIG_PCI_P2PDMA the route p2pdma does not exist."
        look "grep -e PCI_P2PDMA -e ZONE_DEVICE /boot/config-$(uname -r)" todo ""
        causes ["The distribution built its kernel without CONFIG_PCI_P2PDMA."];
    NvfsSecureboot = "nvfs-secureboot", NvidiaFs, Machine, Module, &[Route::Nvfs], [SecureBootKey] (default)
        examines "Secure Boot and the signature of nvidia-fs"
        why "With Secure Boot the kernel loads only modules whose signing key is enrolled."
        look "mokutil --sb-state; modinfo -F signer nvidia_fs" todo ""
        causes ["DKMS built the module, and its signing key was never enrolled."];
    NvfsBuildInputs = "nvfs-build-inputs", NvidiaFs, Machine, Module, &[Route::Nvfs], [NvfsDkms, NvfsInstall] (default)
        examines "headers and symbol versions for the build of nvidia-fs"
        why "A build without the driver's symbol versions succeeds, and the module then fails to load."
        look "ls /lib/modules/$(uname -r)/build /usr/src/nvidia-*" todo ""
        causes ["The headers of a new kernel are not installed.", "nvidia-fs before 2.29 cannot read a .ko.zst.", "The sources of several drivers are installed."];
    NvfsDkms = "nvfs-dkms", NvidiaFs, Machine, Module, &[Route::Nvfs, Route::Compat], [NvfsDkms, NvfsInstall] (default)
        examines "the DKMS build of nvidia-fs for the running kernel"
        why "A module for another kernel does not load. One for another driver can crash at the first read."
        look "dkms status nvidia-fs" todo ""
        causes ["A kernel update.", "nvidia-fs is too old for this kernel.", "The build failed. make.log has the error."];
    NvfsLoadErrors = "nvfs-load-errors", NvidiaFs, Machine, Module, &[Route::Nvfs], [NvidiaDriverOpen, NvfsDkms, NvfsInstall, SecureBootKey, NvfsLoad]
        examines "kernel messages from loading nvidia-fs"
        why "The kernel log has the reason why the module is not loaded."
        look "sudo journalctl -k -b -o cat | grep -i -e nvidia_fs -e nvidia-fs" todo "Run gds-top explain with the line."
        causes ["The proprietary driver is loaded.", "The module was built for another driver or kernel.", "Secure Boot."];
    NvfsLoaded = "nvfs-loaded", NvidiaFs, Machine, Loaded needed, &[Route::Nvfs], [NvfsLoad, NvfsInstall]
        examines "whether nvidia-fs is loaded"
        why "The route nvfs needs the module. P2PDMA does not."
        look "lsmod | grep nvidia_fs" todo "Load it: sudo modprobe nvidia-fs. If it is not installed: gds-top fix nvfs-install."
        causes ["nvidia-fs is not installed.", "No file loads it at boot."];
    NvfsVersion = "nvfs-version", NvidiaFs, Machine, Module, &[Route::Nvfs], [NvfsInstall]
        examines "the version of nvidia-fs"
        why "libcufile rejects modules before 2.12 (5004); 2.25.6 fails every read with -14."
        look "cat /proc/driver/nvidia-fs/version" todo "Update nvidia-fs: gds-top fix nvfs-install."
        causes ["The package of an old CUDA release."];
    NvfsDevnodes = "nvfs-devnodes", NvidiaFs, Machine, Loaded, &[Route::Nvfs], [ContainerDevices]
        examines "the devices of nvidia-fs"
        why "A program that cannot open /dev/nvidia-fs0 gets 5025 or compat mode."
        look "ls -l /dev/nvidia-fs*" todo "On the host, remove the udev rule that changes their mode from 0666."
        causes ["A container without /dev/nvidia-fs*.", "A udev rule changed the mode."];
    NvfsNvmeSymbol = "nvfs-nvme-symbol", NvidiaFs, Machine, StorageDriver, &[Route::Nvfs], [NvmePatch, NvfsInstall, NvfsDkms] (default)
        examines "whether the NVMe driver is built for nvidia-fs"
        why "Only an NVMe driver that was built for GDS can transfer to GPU memory through nvidia-fs."
        look "grep register_nvfs_dma_ops /proc/kallsyms" todo "Install DOCA with mlnx-nvme-dkms, or use P2PDMA, which needs no patched driver."
        causes ["The distribution's NVMe driver is loaded.", "DOCA's driver is installed, but the initramfs has the other one.", "DOCA's driver is not signed with a key that Secure Boot accepts."];
    NvfsRegistered = "nvfs-registered", NvidiaFs, Path, Client, &[Route::Nvfs], [NfsRdmaClient]
        examines "the storage drivers that registered with nvidia-fs"
        why "Only files on a registered driver take the route nvfs."
        look "exec 9<>/dev/nvidia-fs0; cat /proc/driver/nvidia-fs/modules" todo "Network file systems need a client that is built for GDS. Local NVMe disks can use P2PDMA instead.";
    GpuStaticBar1 = "gpu-static-bar1", Gpu, Machine, Bar1 needed, &[Route::P2pdma], [P2pdmaRegistryKeys, Initramfs]
        examines "the registry keys that map BAR1 statically"
        why "P2PDMA on x86 needs them; without them CUDA returns 801."
        look "grep RegistryDwords /proc/driver/nvidia/params" todo "Set the registry keys and rebuild the initramfs: gds-top fix p2pdma-registry-keys."
        causes ["The registry keys are not set.", "They are set, but the initramfs or the running driver is older.", "Commas or spaces separate them instead of semicolons."];
    NvmeMultipath = "nvme-multipath", Storage, Path, Multipath, &[Route::P2pdma], [NvmeMultipathOff, Initramfs]
        examines "native NVMe multipath"
        why "P2PDMA needs the disk itself, and the multipath device is not a PCI device."
        look "cat /sys/module/nvme_core/parameters/multipath" todo ""
        causes ["The kernel's default."];
    IommuState = "iommu-state", Kernel, Machine, Iommu needed, &[Route::Nvfs, Route::C2c], [IommuOff]
        examines "the IOMMU"
        why "On x86 a translating IOMMU breaks or slows down reads by nvidia-fs. Grace needs it enabled."
        look "cat /proc/cmdline; ls /sys/class/iommu" todo ""
        causes ["The distribution enables the IOMMU by default.", "A virtualization host."];
    Ext4Ordered = "ext4-ordered", Files, Path, Disk, &[Route::Nvfs, Route::P2pdma, Route::C2c], [Ext4Ordered]
        examines "the journal mode of ext4"
        why "libcufile reads data=ordered from the mount options, and the kernel does not print the default."
        look "grep ext4 /proc/mounts" todo ""
        causes ["The kernel does not print the default data=ordered.", "The mount has data=writeback.", "The file system has no journal.", "The superblock sets the mode (tune2fs -o), which the kernel does not print."];
    CfgCompat = "cfg-compat", Cufile, Machine, Config, EVERY, []
        examines "compat mode in cufile.json and the environment"
        why "With compat mode allowed, a missing direct route is not reported."
        look "gds-top config show | grep compat" todo "If compat mode is forced, remove the variable or the key. If it is forbidden, set properties.allow_compat_mode to true, or open a direct route."
        causes ["A variable or cufile.json forces compat mode, often left from a test."];
    CfgEffective = "cfg-effective", Cufile, Path, Config, DIRECT, []
        examines "the values in effect and keys that are ignored"
        why "A misspelt key has no effect, and a denylist sends files through host memory. libcufile reports neither."
        look "gds-top config show" todo "gds-top config lint --strict lists every key without effect."
        causes ["A misspelt key.", "A denylist of the administrator."];
    CfgRdmaRouting = "cfg-rdma-routing", Cufile, Path, Config, &[Route::Nvfs, Route::Rdma], []
        examines "dynamic routing of RDMA in cufile.json"
        why "With SYS_MEM in rdma_dynamic_routing_order, reads of network file systems go through host memory."
        look "gds-top config show | grep rdma_dynamic_routing" todo "Remove SYS_MEM from rdma_dynamic_routing_order."
        causes ["rdma_dynamic_routing is on with its default order, which has SYS_MEM."];
    CfgRdmaPolicy = "cfg-rdma-policy", Cufile, Machine, NoStep, NONE, []
        examines "how requests of user-space RDMA are distributed over network cards"
        why "libcufile ignores an unknown policy. With RoundRobinMaxMin, several GPUs share as few network cards as possible."
        look "gds-top config show | grep rdma_load_balancing_policy" todo "Set properties.rdma_load_balancing_policy to RoundRobinMaxMin if several GPUs have the same nearest network card.";
    CfgP2pBoth = "cfg-p2p-both", Cufile, Path, P2pConfig needed, &[Route::P2pdma, Route::C2c], [CufileP2pdmaKeys]
        examines "the two keys that enable P2PDMA"
        why "From 1.16 on libcufile needs use_pci_p2pdma under properties and under block.nvme."
        look "gds-top config show | grep p2pdma" todo ""
        causes ["P2PDMA is off by default."];
    KernelP2pRootports = "kernel-p2p-rootports", Kernel, Pair, Kernel, &[Route::P2pdma], []
        examines "whether the CPU allows transfers between root ports"
        why "The kernel rejects P2PDMA between root ports of CPUs that are not on its list."
        look "lspci -tv" todo "Put GPU and NVMe disk below one PCIe switch, or use nvidia-fs.";
    GpuPersistence = "gpu-persistence", Gpu, Gpu, NoStep, NONE, []
        examines "persistence mode"
        why "Without it the first program waits for the GPU to start; Grace Hopper needs it."
        look "nvidia-smi --query-gpu=persistence_mode --format=csv" todo "sudo systemctl enable --now nvidia-persistenced";
    GpuPcieLink = "gpu-pcie-link", Gpu, Gpu, NoStep, NONE, []
        examines "speed and width of the GPU's PCIe link"
        why "A narrow or slow link limits every route."
        look "nvidia-smi -q -d PCIE" todo "Reseat the card, and look at bifurcation in the BIOS. An idle GPU lowers its link on purpose.";
    GpuEcc = "gpu-ecc", Gpu, Gpu, Gpu, EVERY, []
        examines "ECC state and errors"
        why "A faulty GPU causes errors that are not related to storage."
        look "nvidia-smi -q -d ECC" todo "Reset or replace the GPU if errors are reported.";
    GpuStreamMemops = "gpu-stream-memops", Gpu, Gpu, NoStep, NONE, []
        examines "stream memory operations"
        why "cuFileReadAsync fails with 5038 without them."
        look "gds-top check -v" todo "Use the driver option NVreg_EnableStreamMemOPs=1 and reboot, or set miscellaneous.stream_memops_bypass.";
    GpuCoherentMode = "gpu-coherent-mode", Gpu, Machine, NoStep, NONE, []
        examines "how GPU memory appears on Grace"
        why "It decides whether the kernel manages GPU memory as a NUMA node."
        look "grep CoherentGPUMemoryMode /proc/driver/nvidia/params" todo "";
    NvfsLockdown = "nvfs-lockdown", NvidiaFs, Machine, NoStep, NONE, []
        examines "kernel lockdown"
        why "In mode integrity the kernel rejects unsigned modules and raw PCI access."
        look "cat /sys/kernel/security/lockdown" todo "Sign the modules (gds-top fix secure-boot-key), or disable Secure Boot in the firmware.";
    NvfsAutoload = "nvfs-autoload", NvidiaFs, Machine, Loaded, NONE, [NvfsLoad] (default)
        examines "whether nvidia-fs is loaded at boot, after the driver"
        why "Otherwise reads go through host memory after each reboot."
        look "cat /etc/modules-load.d/*nvidia*fs*.conf" todo "";
    NvfsStatsOn = "nvfs-stats-on", NvidiaFs, Machine, NoStep, NONE, [NvfsStats] (default)
        examines "the I/O counters of nvidia-fs"
        why "They are off by default; the module then reports no reads, as if there were no traffic."
        look "cat /sys/module/nvidia_fs/parameters/rw_stats_enabled" todo "";
    NvfsErrors = "nvfs-errors", NvidiaFs, Machine, Module, &[Route::Nvfs, Route::Compat], [NvfsDkms]
        examines "error counters of nvidia-fs and errors in the kernel log"
        why "They show why reads failed or went through host memory."
        look "grep -i err /proc/driver/nvidia-fs/stats" todo "Run gds-top explain with the line of the kernel log.";
    NvfsBridgesAcs = "nvfs-bridges-acs", NvidiaFs, Machine, Iommu, NONE, [AcsRedirect] (default)
        examines "bridges with ACS that nvidia-fs found"
        why "ACS sends transfers between devices up to the root complex."
        look "cat /proc/driver/nvidia-fs/bridges" todo "";
    NvfsPeerDistance = "nvfs-peer-distance", NvidiaFs, Machine, NoStep, NONE, []
        examines "the distance of GPU and disk as nvidia-fs ranks it"
        why "libcufile chooses by this ranking."
        look "cat /proc/driver/nvidia-fs/peer_distance" todo "Use the GPU that is nearest to the disk.";
    NvfsPeermem = "nvfs-peermem", NvidiaFs, Machine, Rdma, &[Route::Rdma], []
        examines "nvidia_peermem"
        why "User-space RDMA file systems (WekaFS, Spectrum Scale) need it. Local disks do not."
        look "lsmod | grep peermem" todo "sudo modprobe nvidia-peermem";
    NvfsPeerdirect = "nvfs-peerdirect", NvidiaFs, Machine, Rdma, &[Route::Rdma], []
        examines "whether nvidia-fs was built with PeerDirect"
        why "Storage Scale needs nvidia-fs with PeerDirect, which it has only if it was built after DOCA or MLNX_OFED."
        look "grep PeerDirect /proc/driver/nvidia-fs/stats" todo "Build nvidia-fs again."
        causes ["nvidia-fs was installed before DOCA or MLNX_OFED."];
    RebootPending = "reboot-pending", Kernel, Machine, InEffect, NONE, [Initramfs]
        examines "settings that wait for a reboot, and the kernel of the next boot"
        why "A fix without its reboot or initramfs looks as if it did not work."
        look "cat /proc/cmdline; cat /etc/modprobe.d/*nv*; dkms status" todo "Reboot.";
    KaslrP2pdma = "kaslr-p2pdma", Kernel, Machine, NoStep, NONE, []
        examines "address randomisation with P2PDMA"
        why "NVIDIA lists failures of P2PDMA with KASLR."
        look "grep -c nokaslr /proc/cmdline" todo "Try nokaslr only if all checks pass and CUDA still fails with 801.";
    RdmaAffinity = "rdma-affinity", Storage, Gpu, NoStep, NONE, []
        examines "the PCIe path between GPU and network card"
        why "Data of a network file system crosses the CPU if no network card is near the GPU."
        look "nvidia-smi topo -m" todo "List the addresses of the network cards near the GPU in rdma_dev_addr_list.";
    NumaAffinity = "numa-affinity", Kernel, Path, NoStep, NONE, []
        examines "NUMA nodes of GPU and disk"
        why "Transfers between sockets are slower."
        look "nvidia-smi topo -m" todo "";
    KernelLog = "kernel-log", Kernel, Machine, InEffect, DIRECT, []
        examines "the kernel log"
        why "The kernel log has the reason; libcufile only reports a number."
        look "sudo journalctl -k -b -o cat" todo "Run gds-top explain with the line.";
    PcieTopology = "pcie-topology", Storage, Path, NoStep, NONE, [GpuNearDisk]
        examines "the PCIe path between GPU and disk"
        why "A long path lowers the rate. It does not prevent direct reads through nvidia-fs."
        look "nvidia-smi topo -m; lspci -tv" todo "";
    PcieAcs = "pcie-acs", Storage, Path, Iommu, NONE, [AcsRedirect] (default)
        examines "ACS redirection on the bridges between GPU and disk"
        why "Redirected transfers leave the switch, and P2PDMA can fail."
        look "sudo lspci -vvv | grep -i acsctl" todo "Do not clear ACS on all bridges: disks can fall off the bus.";
    NvmeLink = "nvme-link", Storage, Path, NoStep, NONE, []
        examines "speed and width of the disk's PCIe link"
        why "A narrow or slow link limits every route."
        look "cat /sys/class/nvme/nvme0/device/current_link_{speed,width}" todo "Reseat the disk.";
    BlkGeometry = "blk-geometry", Storage, Path, NoStep, NONE, []
        examines "block sizes and queue limits"
        why "They determine the alignment of reads and the size of requests."
        look "grep . /sys/block/nvme0n1/queue/{logical_block_size,max_sectors_kb,nr_requests}" todo "echo 1024 | sudo tee /sys/block/nvme0n1/queue/nr_requests";
    ScsiBlkmq = "scsi-blkmq", Storage, Path, NoStep, NONE, []
        examines "multi-queue SCSI"
        why "libcufile supports SCSI disks only with blk-mq."
        look "cat /sys/module/scsi_mod/parameters/use_blk_mq" todo "Boot with scsi_mod.use_blk_mq=1.";
    StatxDioalign = "statx-dioalign", Files, Path, Disk, DIRECT, []
        examines "the alignment that O_DIRECT needs"
        why "Unaligned parts of a read go through a bounce buffer. With alignment 0, all reads go through the page cache."
        look "cat /sys/block/nvme0n1/queue/logical_block_size" todo "Align reads to 4096 bytes or the value shown. For alignment 0, see inode-flags.";
    SparseOrDelalloc = "sparse-or-delalloc", Files, Path, NoStep, NONE, []
        examines "holes and blocks not yet on disk"
        why "Holes are read by another code path, and unwritten data is flushed first."
        look "filefrag -v FILE" todo "cp --sparse=never FILE COPY; sync";
    Ext4Lazyinit = "ext4-lazyinit", Files, Path, NoStep, NONE, []
        examines "background initialisation after mkfs"
        why "It uses the disk while you measure."
        look "pgrep -P 2 ext4lazyinit" todo "Wait until it ends.";
    PageCacheResidency = "page-cache-residency", Files, Path, NoStep, NONE, []
        examines "the share of the file in the page cache"
        why "A cached file makes mmap look fast and a cold load unrealistic."
        look "fincore FILE" todo "Use --cache cold, which drops the file from the page cache.";
    CfgEnvPath = "cfg-env-path", Cufile, Machine, P2pConfig, &[Route::P2pdma, Route::C2c], []
        examines "the file that CUFILE_ENV_PATH_JSON names"
        why "libcufile ignores a missing file without a message."
        look "ls -l \"$CUFILE_ENV_PATH_JSON\"" todo "Correct the path, or unset the variable.";
    CfgVsHardware = "cfg-vs-hardware", Cufile, Machine, Config, &[Route::Nvfs], []
        examines "sizes in cufile.json compared with BAR1, memory and nvidia-fs"
        why "A cache larger than BAR1 is rejected, and a small pinned limit fails with 5016. nvidia-fs needs a GPU slab of at most 16 MiB."
        look "gds-top config lint" todo "gds-top config tune MODEL prints fitting values. Add a slab of 16384 KiB if all slabs are larger."
        causes ["All sizes of gpu_bounce_buffer_slab_config exceed 16 MiB.", "max_device_cache_size_kb exceeds BAR1."];
    LibVersion = "lib-version", Cufile, Machine, Libcufile, &[Route::P2pdma], [LibcufileInstall]
        examines "the version of libcufile"
        why "Features depend on it: files without O_DIRECT from 1.7, P2PDMA from 1.13, route counters from 1.15, P2PDMA per transport from 1.16."
        look "ls -l /usr/local/cuda/lib64/libcufile.so*" todo "If a feature is missing, install a newer libcufile: pip install --upgrade nvidia-cufile, or the package of a newer CUDA release.";
    LibRdma = "lib-rdma", Cufile, Machine, Libcufile, &[Route::Rdma], []
        examines "libraries for RDMA"
        why "Only WekaFS, Spectrum Scale and other RDMA clients need them."
        look "ldconfig -p | grep -e libmlx5 -e librdmacm -e libibverbs" todo "Debian: apt-get install rdma-core ibverbs-providers. RHEL: dnf install rdma-core.";
    LogLevel = "log-level", Cufile, Machine, NoStep, NONE, []
        examines "the log level of libcufile"
        why "DEBUG and TRACE slow down every read; ERROR hides the reasons for compat mode."
        look "gds-top config show | grep logging.level" todo "Set CUFILE_LOGGING_LEVEL=DEBUG for one run.";
    LogScan = "log-scan", Cufile, Machine, NoStep, NONE, []
        examines "cufile.log"
        why "The log has the reason; the program only gets a number."
        look "tail cufile.log" todo "Run gds-top explain with the line.";
    StaticCfg = "static-cfg", Cufile, Machine, Config, &[Route::P2pdma, Route::C2c], []
        examines "cached hardware facts of libcufile"
        why "libcufile trusts these files instead of the machine, even after a hardware change."
        look "gds-top config show | grep static" todo "Write both files again with gdscheck, or set both switches to false."
        causes ["A GPU or disk was replaced after the files were written."];
    ToolsFound = "tools-found", Cufile, Machine, NoStep, NONE, []
        examines "gdscheck, gdsio and gds_stats"
        why "gds-top does not need them; NVIDIA's support may ask for their output."
        look "ls /usr/local/cuda*/gds/tools" todo "Install nvidia-gds or gds-tools.";
    StatsShm = "stats-shm", Cufile, Machine, NoStep, NONE, []
        examines "shared memory of programs with cuFile statistics"
        why "gds_stats reads it. Segments of ended programs are not removed."
        look "ipcs -m" todo "ipcrm -m ID for your segments of ended programs.";
    CtrDetect = "ctr-detect", Limits, Machine, NoStep, NONE, []
        examines "the container runtime"
        why "Some fixes are possible on the host only."
        look "cat /proc/1/cgroup" todo "";
    CtrIpc = "ctr-ipc", Limits, Machine, NoStep, NONE, []
        examines "the IPC namespace"
        why "Statistics of a program in another IPC namespace cannot be read."
        look "readlink /proc/self/ns/ipc" todo "Start the container with --ipc=host.";
    CtrRootfs = "ctr-rootfs", Limits, Machine, NoStep, NONE, []
        examines "a model on the container's root file system"
        why "overlayfs has no direct route, and fails before libcufile 1.16."
        look "findmnt -T PATH" todo "Mount a volume with ext4 or xfs into the container.";
    LimMemlock = "lim-memlock", Limits, Machine, Rdma, &[Route::Rdma], [Memlock]
        examines "the limit of locked memory"
        why "RDMA registration and shared-memory statistics lock memory."
        look "ulimit -l" todo "In a container: --ulimit memlock=-1.";
    LimNofile = "lim-nofile", Limits, Machine, NoStep, NONE, []
        examines "the limit of open files"
        why "cuFile opens up to three descriptors for each file; above the limit it reports 5031."
        look "ulimit -n" todo "ulimit -n 65536";
    LimCgroup = "lim-cgroup", Limits, Machine, NoStep, NONE, []
        examines "memory and process limits of the cgroup"
        why "The page cache of a mapped model counts against the memory limit."
        look "cat /sys/fs/cgroup/memory.max" todo "Raise the limit of the container or service.";
    LimHugepages = "lim-hugepages", Limits, Machine, NoStep, NONE, []
        examines "huge pages"
        why "cuFile does not need them."
        look "grep -i huge /proc/meminfo" todo "";
    UserPerms = "user-perms", Limits, Machine, NoStep, NONE, []
        examines "user and permissions"
        why "Without permission to read the kernel log the diagnosis is incomplete."
        look "id; cat /proc/sys/kernel/dmesg_restrict" todo "Run sudo gds-top check.";
    UserLsm = "user-lsm", Limits, Machine, NoStep, NONE, []
        examines "SELinux and AppArmor"
        why "A policy can deny /dev/nvidia-fs0 although its mode is 0666."
        look "getenforce; sudo ausearch -m avc | grep nvidia" todo "Adapt the policy of the container or service.";
    K8sOperator = "k8s-operator", Limits, Machine, NoStep, NONE, []
        examines "the GPU Operator's configuration"
        why "With nvidia-fs 2.17.5 and later, the operator must install the open kernel modules."
        look "kubectl get clusterpolicy -o yaml | grep -A3 -e gds -e kernelModuleType" todo "Set driver.kernelModuleType to open and gds.enabled to true.";
    RdmaStack = "rdma-stack", Limits, Machine, Network, &[Route::Nvfs, Route::Rdma], []
        examines "DOCA or MLNX_OFED"
        why "A network file system reaches GPU memory only over RDMA. DOCA and MLNX_OFED have the drivers, and exclude each other."
        look "ofed_info -s" todo "Look at the ports (ibstat) and at the storage server. Install DOCA or MLNX_OFED, but not both."
        causes ["No RDMA card, or its driver is not loaded.", "WekaFS or Spectrum Scale on RDMA cards of other vendors: the RDMA of libcufile needs an NVIDIA card (mlx5)."];
    RdmaIps = "rdma-ips", Limits, Machine, Rdma, &[Route::Rdma], []
        examines "the addresses in rdma_dev_addr_list"
        why "WekaFS and Spectrum Scale use these addresses to find their network card. Local disks do not need them."
        look "ip -br addr; cat /sys/class/infiniband/*/ports/*/state" todo "Correct the list; local disks need none. A port in INIT needs a subnet manager, one in DOWN a cable or a switch."
        causes ["An address of the list is not one of this machine.", "A port is in INIT: no subnet manager configures the InfiniBand fabric.", "A port is DOWN: its cable, its transceiver or the port of the switch."];
}
