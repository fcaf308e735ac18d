//! The error codes of cuFile: their names by version, and a sentence for each.
//!
//! The library has no function for error texts (cufile.h compiles them into the caller), so the texts are written
//! here. Codes are integers and not an enum, because 5039 changed its meaning in GDS 1.15 and later versions can add
//! codes.

use crate::version::Version;

/// `CUFILEOP_BASE_ERR`: codes of cuFile are above it, system errors below it.
pub const BASE: i32 = 5000;

/// The name and the meaning of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name in cufile.h: `CU_FILE_INVALID_VALUE`.
    pub name: &'static str,
    /// A sentence without a full stop: what happened, and the usual cause if it is known.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($id:ident = $code:literal, $name:literal, $meaning:literal;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] pub const $id: i32 = $code;)*
        const KNOWN: &[(i32, Description)] = &[$(($code, Description { name: $name, meaning: $meaning }),)*];
    };
}

codes! {
    SUCCESS = 0, "CU_FILE_SUCCESS", "it worked";
    DRIVER_NOT_INITIALIZED = 5001, "CU_FILE_DRIVER_NOT_INITIALIZED",
        "the cuFile driver is not open, or nvidia-fs is absent while cufile.json forbids compat mode";
    DRIVER_INVALID_PROPS = 5002, "CU_FILE_DRIVER_INVALID_PROPS", "a property is invalid, usually because of an error in cufile.json";
    DRIVER_UNSUPPORTED_LIMIT = 5003, "CU_FILE_DRIVER_UNSUPPORTED_LIMIT", "a limit is outside of the range that the library accepts";
    DRIVER_VERSION_MISMATCH = 5004, "CU_FILE_DRIVER_VERSION_MISMATCH", "the nvidia-fs module is too old for this library";
    DRIVER_VERSION_READ_ERROR = 5005, "CU_FILE_DRIVER_VERSION_READ_ERROR",
        "the version of nvidia-fs cannot be read; /proc/driver may be hidden by the container";
    DRIVER_CLOSING = 5006, "CU_FILE_DRIVER_CLOSING", "the cuFile driver is closing or was never opened";
    PLATFORM_NOT_SUPPORTED = 5007, "CU_FILE_PLATFORM_NOT_SUPPORTED",
        "GPUDirect Storage does not support this platform (IOMMU, processor, or no supported GPU)";
    IO_NOT_SUPPORTED = 5008, "CU_FILE_IO_NOT_SUPPORTED",
        "GPUDirect Storage does not support this file because of its file system, its device or its open flags";
    DEVICE_NOT_SUPPORTED = 5009, "CU_FILE_DEVICE_NOT_SUPPORTED", "GPUDirect Storage does not support this GPU";
    NVFS_DRIVER_ERROR = 5010, "CU_FILE_NVFS_DRIVER_ERROR", "a call into the nvidia-fs module failed; see the kernel log";
    CUDA_DRIVER_ERROR = 5011, "CU_FILE_CUDA_DRIVER_ERROR", "a call of the CUDA driver failed";
    CUDA_POINTER_INVALID = 5012, "CU_FILE_CUDA_POINTER_INVALID", "the device pointer is invalid";
    CUDA_MEMORY_TYPE_INVALID = 5013, "CU_FILE_CUDA_MEMORY_TYPE_INVALID",
        "memory of this kind cannot be used (managed memory, or not allocated for GPUDirect)";
    CUDA_POINTER_RANGE_ERROR = 5014, "CU_FILE_CUDA_POINTER_RANGE_ERROR", "the range exceeds the allocation";
    CUDA_CONTEXT_MISMATCH = 5015, "CU_FILE_CUDA_CONTEXT_MISMATCH", "the memory belongs to another CUDA context than the thread's";
    INVALID_MAPPING_SIZE = 5016, "CU_FILE_INVALID_MAPPING_SIZE",
        "the limit of pinned memory is exceeded (max_device_pinned_mem_size_kb, or the GPU's BAR1)";
    INVALID_MAPPING_RANGE = 5017, "CU_FILE_INVALID_MAPPING_RANGE", "the access exceeds the registered range";
    INVALID_FILE_TYPE = 5018, "CU_FILE_INVALID_FILE_TYPE", "neither a regular file nor a block device";
    INVALID_FILE_OPEN_FLAG = 5019, "CU_FILE_INVALID_FILE_OPEN_FLAG",
        "the file was opened with unsuitable flags (O_APPEND, or write-only for a read)";
    DIO_NOT_SET = 5020, "CU_FILE_DIO_NOT_SET", "the file was opened without O_DIRECT, which this library requires";
    INVALID_VALUE = 5022, "CU_FILE_INVALID_VALUE", "an argument is invalid";
    MEMORY_ALREADY_REGISTERED = 5023, "CU_FILE_MEMORY_ALREADY_REGISTERED", "memory at this address is already registered";
    MEMORY_NOT_REGISTERED = 5024, "CU_FILE_MEMORY_NOT_REGISTERED", "no memory is registered at this address";
    PERMISSION_DENIED = 5025, "CU_FILE_PERMISSION_DENIED", "access to the driver or the file was denied";
    DRIVER_ALREADY_OPEN = 5026, "CU_FILE_DRIVER_ALREADY_OPEN", "the driver is open, and this can be set only while it is closed";
    HANDLE_NOT_REGISTERED = 5027, "CU_FILE_HANDLE_NOT_REGISTERED",
        "the file could not be registered, usually because /run/udev/data has no record of its device or file system";
    HANDLE_ALREADY_REGISTERED = 5028, "CU_FILE_HANDLE_ALREADY_REGISTERED",
        "this descriptor is already registered, or a descriptor with this number was closed before its handle was deregistered";
    DEVICE_NOT_FOUND = 5029, "CU_FILE_DEVICE_NOT_FOUND", "the GPU was not found; CUDA_VISIBLE_DEVICES may hide it";
    INTERNAL_ERROR = 5030, "CU_FILE_INTERNAL_ERROR",
        "an internal error of the library; a cufile.json that cannot be read and a missing udev record are known causes";
    GETNEWFD_FAILED = 5031, "CU_FILE_GETNEWFD_FAILED", "no new descriptor is available; the limit on open files may be reached";
    NVFS_SETUP_ERROR = 5033, "CU_FILE_NVFS_SETUP_ERROR",
        "the library could not initialise; before GDS 1.16 also without libcuda";
    IO_DISABLED = 5034, "CU_FILE_IO_DISABLED", "cufile.json forbids transfers of this file";
    BATCH_SUBMIT_FAILED = 5035, "CU_FILE_BATCH_SUBMIT_FAILED", "the batch could not be submitted";
    GPU_MEMORY_PINNING_FAILED = 5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED",
        "GPU memory could not be pinned; BAR1 may be used up or the GPU does not permit it";
    BATCH_FULL = 5037, "CU_FILE_BATCH_FULL", "the batch queue is full";
    ASYNC_NOT_SUPPORTED = 5038, "CU_FILE_ASYNC_NOT_SUPPORTED", "transfers on streams are not supported here";
    INTERNAL_BATCH_SETUP_ERROR = 5039, "CU_FILE_INTERNAL_BATCH_SETUP_ERROR", "setting the batch up failed inside the library";
    INTERNAL_BATCH_SUBMIT_ERROR = 5040, "CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR",
        "submitting the batch failed inside the library; its buffer pool may be exhausted";
    INTERNAL_BATCH_GETSTATUS_ERROR = 5041, "CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR", "reading the state of the batch failed inside the library";
    INTERNAL_BATCH_CANCEL_ERROR = 5042, "CU_FILE_INTERNAL_BATCH_CANCEL_ERROR", "cancelling the batch failed inside the library";
    NOMEM_ERROR = 5043, "CU_FILE_NOMEM_ERROR", "the library ran out of memory for its own buffers";
    IO_ERROR = 5044, "CU_FILE_IO_ERROR", "the transfer failed below the library; see the kernel log";
    INTERNAL_BUF_REGISTER_ERROR = 5045, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR", "registering the memory failed inside the library";
    HASH_OPR_ERROR = 5046, "CU_FILE_HASH_OPR_ERROR", "a table inside the library failed";
    INVALID_CONTEXT_ERROR = 5047, "CU_FILE_INVALID_CONTEXT_ERROR", "the CUDA context does not exist any more";
    NVFS_INTERNAL_DRIVER_ERROR = 5048, "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR", "nvidia-fs failed internally; see the kernel log";
    BATCH_NOCOMPAT_ERROR = 5049, "CU_FILE_BATCH_NOCOMPAT_ERROR", "the batch needs compat mode, which is forbidden";
    RDMA_RESET_TOKEN = 6001, "CU_FILE_RDMA_RESET_TOKEN", "the RDMA layer needs a reset of its queue pair";
    RDMA_RESET_TOKEN_FAILED = 6002, "CU_FILE_RDMA_RESET_TOKEN_FAILED", "resetting the RDMA queue pair failed";
}

/// All codes of cufile.h whose meaning does not depend on the version, with their descriptions. 5039 has its meaning
/// since 1.15.
pub fn known() -> impl Iterator<Item = (i32, Description)> {
    KNOWN.iter().copied()
}

/// The name and the meaning of `code` in a library of `version` (`None` if it is unknown).
///
/// `code` can also be the negative number that a transfer returned. The result is `None` if cufile.h has no such
/// code.
pub fn describe(code: i32, version: Option<Version>) -> Option<Description> {
    const END: Description = Description {
        name: "CU_FILE_IO_MAX_ERROR",
        meaning: "the end marker of the list of codes, which is never returned",
    };
    let code = code.checked_abs()?;
    let batch_codes = version.is_none_or(|v| v >= Version::new(1, 15));
    match code {
        5039 if !batch_codes => Some(END),
        5040..=5050 | 6001..=6002 if !batch_codes => None,
        5050 => Some(END),
        _ => KNOWN.iter().find(|(known, _)| *known == code).map(|(_, d)| *d),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn code_5039_is_told_by_the_version_of_the_library() {
        let name = |code, version| describe(code, version).map(|d| d.name);
        assert_eq!(name(5039, Some(Version::new(1, 14))), Some("CU_FILE_IO_MAX_ERROR"));
        assert_eq!(name(5039, Some(Version::new(1, 15))), Some("CU_FILE_INTERNAL_BATCH_SETUP_ERROR"));
        assert_eq!(name(5040, Some(Version::new(1, 11))), None);
        assert_eq!(name(-5027, Some(Version::new(1, 20))), Some("CU_FILE_HANDLE_NOT_REGISTERED"));
        assert_eq!(name(5050, Some(Version::new(1, 20))), Some("CU_FILE_IO_MAX_ERROR"));
        assert_eq!(name(5021, None), None);
        assert_eq!(name(i32::MIN, None), None);
    }
}
