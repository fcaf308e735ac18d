//! The causes of each cuFile error code. The most likely cause is first. `cufile-ffi` has the names and meanings.

use super::causes::*;
use crate::core::CheckId;

/// The causes of a code.
pub(super) fn causes(code: i32) -> &'static [Cause] {
    CODES.iter().find(|row| row.0 == code).map_or(&[], |row| row.1)
}

const REGISTERED_TWICE: &[Cause] = &[own(
    "The program registers the same memory twice, or a descriptor whose number was reused before its handle was deregistered.",
    TRACED,
    "Deregister before you close the file or free the memory.",
)];
const ARGUMENTS: &[Cause] = &[own(
    "The program passes an invalid argument: a null handle, an unknown parameter, or a size larger than the buffer.",
    TRACED,
    "Correct the call.",
)];
const BATCH_STATE: &[Cause] = &[own(
    "The program uses a batch that is complete or destroyed, or another thread uses it.",
    TRACED,
    "Collect all entries in one call, with one array of events for the life of the batch.",
)];
const LIBRARY_FAULT: &[Cause] = &[own(
    "The library failed inside.",
    "CUFILE_LOGGING_LEVEL=DEBUG CUFILE_LOGFILE_PATH=$HOME/cufile.log PROGRAM",
    "Update libcufile; report the log to NVIDIA if it persists.",
)];
const RDMA: &[Cause] =
    &[found(CheckId::RdmaStack, "The RDMA connection was reset by the network or the storage server.")];

/// Each code of cufile.h.
#[rustfmt::skip]
pub(super) const CODES: &[(i32, &[Cause])] = &[
    (0, &[]),
    (5001, &[NVFS_ABSENT, COMPAT_FORBIDDEN, OPEN_FAILED, CALL_ORDER]),
    (5002, &[BAD_CONFIG]),
    (5003, &[own("A size that was set in the program is out of the library's range.", "gds-top config lint", "Use a value in the range that gds-top explain KEY shows.")]),
    (5004, &[NVFS_OLD]),
    (5005, &[found(CheckId::CtrProcSys, "A container hides /proc/driver/nvidia-fs."), NVFS_DEVICES]),
    (5006, &[CALL_ORDER]),
    (5007, &[PLATFORM, GPU_ABSENT, GPU_OLD, IOMMU]),
    (5008, &[FILE_SYSTEM, NVME_DRIVER, P2PDMA_KEYS, STATIC_BAR1, INODE_FLAGS, DEVICE_MAPPER, RAID, GPU_CLASS]),
    (5009, &[GPU_CLASS, GPU_GDR, GPU_OLD]),
    (5010, &[NVFS_KERNEL_LOG]),
    (5011, &[DRIVER_MISMATCH, DRIVER_OLD, STATIC_BAR1, GPU_ABSENT, own("A call of CUDA failed; the second number is its code.", "", "Run gds-top explain with that number.")]),
    (5012, &[BAD_POINTER]),
    (5013, &[own("The memory is managed (cudaMallocManaged), or virtual memory without the flag gpuDirectRDMACapable.", "", "Allocate with cudaMalloc, or set the flag for GPUDirect RDMA.")]),
    (5014, &[BAD_POINTER]),
    (5015, &[BAD_CONTEXT]),
    (5016, &[PINNED_LIMIT, BAR1_FULL, BAR1_SMALL]),
    (5017, &[own("The read exceeds the registered range.", TRACED, "Register the complete buffer, and pass its base with an offset.")]),
    (5018, &[NOT_A_FILE]),
    (5019, &[own("The file was opened with O_APPEND, or write-only for a read.", TRACED, "Open it with O_RDONLY or O_RDWR.")]),
    (5020, &[found(CheckId::LibVersion, "libcufile before 1.7 needs O_DIRECT."), found(CheckId::OdirectOpen, "The file system does not support O_DIRECT.")]),
    (5022, ARGUMENTS),
    (5023, REGISTERED_TWICE),
    (5024, &[own("The program deregisters memory that it did not register, or passes the base with an offset.", TRACED, "Pass the pointer that was registered.")]),
    (5025, &[NVFS_DEVICES, found(CheckId::UserLsm, "SELinux or AppArmor denies the device."), found(CheckId::UserPerms, "The user has no permission to open the file or the device.")]),
    (5026, &[own("The program sets a parameter while the driver is open.", TRACED, "Set parameters before cuFileDriverOpen.")]),
    (5027, &[UDEV, OVERLAY, NOT_A_FILE, own("The handle was deregistered before the read.", TRACED, "Keep the handle until all reads are complete.")]),
    (5028, REGISTERED_TWICE),
    (5029, &[GPU_ABSENT, own("CUDA_VISIBLE_DEVICES or CUFILE_VISIBLE_DEVICES excludes the GPU.", "env | grep VISIBLE_DEVICES", "Correct the variable.")]),
    (5030, &[UNREADABLE_CONFIG, UDEV, OVERLAY, OPEN_FAILED]),
    (5031, &[OPEN_FILES, found(CheckId::CtrProcSys, "/proc is not mounted in the container.")]),
    (5033, &[NO_LIBCUDA, DRIVER_MISMATCH, NVFS_DEVICES]),
    (5034, &[DENYLIST, COMPAT_FORBIDDEN]),
    (5035, &[own("The batch has more entries than io_batchsize, or an entry is larger than max_direct_io_size_kb.", "gds-top config show | grep -e io_batchsize -e max_direct_io", "Split the batch, or raise io_batchsize (at most 256)."), POOL]),
    (5036, &[BAR1_FULL, GPU_CLASS, BAR1_SMALL, GPU_GDR]),
    (5037, &[own("The batch has as many entries as cuFileBatchIOSetUp allowed.", TRACED, "Collect completed entries before you submit more.")]),
    (5038, &[STREAM_MEMOPS]),
    (5039, BATCH_STATE),
    (5040, &[POOL, BATCH_STATE[0]]),
    (5041, BATCH_STATE),
    (5042, BATCH_STATE),
    (5043, &[MEMORY, POOL]),
    (5044, &[own("The disk or the file system reported an error.", "sudo journalctl -k -b -o cat | grep -i -e nvme -e error", "Look at the disk: smartctl -a."), NVFS_KERNEL_LOG]),
    (5045, &[BAR1_FULL, GPU_CLASS, GPU_GDR]),
    (5046, LIBRARY_FAULT),
    (5047, &[own("The program destroyed the CUDA context before it closed cuFile.", "", "Close cuFile first, then the context.")]),
    (5048, &[NVFS_KERNEL_LOG]),
    (5049, &[COMPAT_FORBIDDEN]),
    (5050, &[own("The number is the end marker of the list and not an error.", "", "Check how the program reads the code.")]),
    (6001, RDMA),
    (6002, RDMA),
];
