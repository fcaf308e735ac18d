//! Causes that several codes and log lines share. Most of them name the check that finds them.

use crate::checks::cuda_causes::CudaCause;
use crate::core::CheckId;

/// A cause of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// The cause.
    pub(super) text: &'static str,
    /// The check that finds it. The page of the check has the command and the fix.
    pub(super) check: Option<CheckId>,
    /// A command that shows the cause, if no check finds it.
    pub(super) look: &'static str,
    /// The remedy, if no check has a fix, or if this cause needs another one than its check.
    pub(super) todo: &'static str,
}

/// The command that shows all cuFile calls of a program.
pub(super) const TRACED: &str = "gds-top watch -- PROGRAM";

/// A cause that a check finds.
pub(super) const fn found(check: CheckId, text: &'static str) -> Cause {
    Cause { text, check: Some(check), look: "", todo: "" }
}

/// A cause that a check finds, with a remedy of its own.
pub(super) const fn cured(check: CheckId, text: &'static str, todo: &'static str) -> Cause {
    Cause { todo, ..found(check, text) }
}

/// A cause that the checks name too.
pub(super) const fn shared(cause: CudaCause) -> Cause {
    Cause { text: cause.text, check: cause.check, look: cause.look, todo: cause.todo }
}

/// A cause in the program or elsewhere that no check can find.
pub(super) const fn own(text: &'static str, look: &'static str, todo: &'static str) -> Cause {
    Cause { text, check: None, look, todo }
}

pub(super) const UDEV: Cause = found(
    CheckId::UdevDatabase,
    "The udev database has no record of the disk, often in a container without /run/udev.",
);
pub(super) const OVERLAY: Cause =
    found(CheckId::FsResolve, "The file is on an overlay, FUSE or another file system without a block device.");
pub(super) const FILE_SYSTEM: Cause = found(CheckId::FsType, "cuFile does not support the file system.");
pub(super) const NOT_A_FILE: Cause =
    found(CheckId::FsSpaceOwner, "The path is a file of /proc, a pipe, a directory or a character device.");
pub(super) const INODE_FLAGS: Cause =
    found(CheckId::InodeFlags, "The file is compressed, encrypted, append-only or immutable.");
pub(super) const DEVICE_MAPPER: Cause =
    found(CheckId::DmLvm, "The file is on LVM, an encrypted volume or a multipath device.");
pub(super) const RAID: Cause = found(CheckId::MdRaid, "The file is on a RAID that is not RAID 0 of NVMe disks.");
pub(super) const NVFS_ABSENT: Cause =
    found(CheckId::NvfsLoaded, "nvidia-fs is not loaded, and compat mode is not allowed.");
pub(super) const NVFS_OLD: Cause = found(CheckId::NvfsVersion, "nvidia-fs is older than libcufile expects.");
pub(super) const NVFS_DEVICES: Cause =
    found(CheckId::NvfsDevnodes, "The devices of nvidia-fs cannot be opened, often in a container.");
pub(super) const NVFS_KERNEL_LOG: Cause = found(CheckId::NvfsErrors, "nvidia-fs reported an error in the kernel log.");
pub(super) const NVME_DRIVER: Cause =
    found(CheckId::NvfsNvmeSymbol, "The NVMe driver is not built for nvidia-fs, and compat mode is not allowed.");
pub(super) const P2PDMA_KEYS: Cause =
    found(CheckId::CfgP2pBoth, "P2PDMA is enabled in part: both keys of cufile.json are needed.");
pub(super) const STATIC_BAR1: Cause =
    found(CheckId::GpuStaticBar1, "The driver does not map BAR1 statically, which P2PDMA needs.");
pub(super) const BAR1_FULL: Cause =
    found(CheckId::GpuBar1Free, "BAR1 is full, for example because another program registered memory on this GPU.");
pub(super) const BAR1_SMALL: Cause = found(CheckId::GpuBar1Size, "BAR1 is smaller than the memory to be registered.");
pub(super) const GPU_CLASS: Cause =
    found(CheckId::GpuClass, "The GPU is a GeForce. The driver does not map its memory for other devices.");
pub(super) const GPU_GDR: Cause =
    found(CheckId::GpuGdrAttr, "The GPU has no GPUDirect RDMA (integrated GPU, some vGPUs).");
pub(super) const GPU_OLD: Cause = found(CheckId::GpuComputeCap, "The compute capability is below 6.0.");
pub(super) const GPU_ABSENT: Cause = found(
    CheckId::GpuPresent,
    "No GPU is visible: no driver, no device in the container, or an empty CUDA_VISIBLE_DEVICES.",
);
pub(super) const FABRIC: Cause =
    found(CheckId::GpuFabric, "The fabric manager of a machine with NVSwitch is not running.");
pub(super) const DRIVER_OLD: Cause =
    found(CheckId::CudaDriverRuntime, "The driver is older than the CUDA release of the library.");
pub(super) const DRIVER_MISMATCH: Cause = found(
    CheckId::DriverMismatch,
    "Kernel module and user-space driver have different versions, often after an update without a reboot.",
);
pub(super) const IOMMU: Cause = found(CheckId::IommuState, "The IOMMU translates addresses between the devices.");
pub(super) const BAD_CONFIG: Cause =
    found(CheckId::CfgParse, "A cufile.json has a syntax error, a wrong type or a value out of range.");
pub(super) const UNREADABLE_CONFIG: Cause = own(
    "This user cannot read a cufile.json.",
    "ls -l /etc/cufile.json \"$CUFILE_ENV_PATH_JSON\"",
    "sudo chmod 644 /etc/cufile.json",
);
pub(super) const DENYLIST: Cause = cured(
    CheckId::CfgEffective,
    "A denylist in cufile.json excludes the file, its disk or its file system.",
    "Remove the entry from the section denylist.",
);
pub(super) const COMPAT_FORBIDDEN: Cause = cured(
    CheckId::CfgCompat,
    "cufile.json does not allow compat mode, and no direct route is open.",
    "Set properties.allow_compat_mode to true, or open a direct route: `gds-top check PATH` shows the steps.",
);
pub(super) const OPEN_FILES: Cause = found(CheckId::LimNofile, "The process has too many open files.");
pub(super) const STREAM_MEMOPS: Cause = found(CheckId::GpuStreamMemops, "The driver has no stream memory operations.");
pub(super) const NO_LIBCUDA: Cause = cured(
    CheckId::LibDeps,
    "libcuda.so.1 cannot be loaded, for example in a container without --gpus.",
    "Start the container with --gpus all. On a host, install the NVIDIA driver, which contains libcuda.",
);
pub(super) const PLATFORM: Cause =
    found(CheckId::CpuArch, "libcufile does not exist for this architecture, or runs under WSL.");
pub(super) const PINNED_LIMIT: Cause = found(
    CheckId::CfgVsHardware,
    "The limit max_device_pinned_mem_size_kb is smaller than the memory to be registered.",
);
pub(super) const MEMORY: Cause =
    found(CheckId::LimCgroup, "The process reached a memory limit, or the pools of cufile.json are too large.");
pub(super) const POOL: Cause = own(
    "The pool of host buffers is used up: in compat mode every entry of a batch needs one.",
    "gds-top config show | grep posix_pool",
    "Raise posix_pool_slab_count, or keep at most 32 entries in flight.",
);
pub(super) const STREAM_OFFSET: Cause = own(
    "A transfer on a stream uses an offset in memory that is not registered. In compat mode, its call succeeds and no byte moves.",
    "grep 'exceeds registered length' cufile.log",
    "Register the memory with cuFileBufRegister, or use a separate allocation with offset 0 for each transfer.",
);
pub(super) const CALL_ORDER: Cause = own(
    "The program calls cuFile before cuFileDriverOpen, after cuFileDriverClose, or from several threads during an open.",
    TRACED,
    "Open the driver once, before any other call, and close it after all transfers.",
);
pub(super) const OPEN_FAILED: Cause =
    found(CheckId::LibOpenProbe, "An earlier cuFileDriverOpen failed, and the program ignored its result.");
pub(super) const BAD_POINTER: Cause = own(
    "The program passes a freed pointer, a host pointer or a wrong length.",
    "compute-sanitizer PROGRAM",
    "Correct the program.",
);
pub(super) const BAD_CONTEXT: Cause = own(
    "The thread has another CUDA context than the memory, often in programs with several GPUs.",
    "",
    "Call cudaSetDevice for the GPU of the memory in each thread.",
);
