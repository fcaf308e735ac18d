//! The C interface of cufile.h: structures with asserted layout, and function types.
//!
//! Sizes and offsets are the results of `sizeof` and `offsetof` for the headers in the NVIDIA wheels (1.11 to 1.20,
//! x86_64 Linux). The ABI test compiles the header of each wheel and compares them again. Values that the library
//! returns are integers and not enums, so that an unknown value is not undefined behaviour.

use libc::{c_char, c_int, c_long, c_uint, c_void, off_t, size_t, ssize_t, timespec};

/// `CUfileHandle_t`: the handle of a registered file.
pub type CUfileHandle = *mut c_void;
/// `CUfileBatchHandle_t`: the handle of a batch.
pub type CUfileBatchHandle = *mut c_void;
/// `CUstream` of the CUDA driver API.
pub type CUstream = *mut c_void;

/// `CUfileError_t`: the result of every status call, returned by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUfileError {
    /// The cuFile code: 0, or a number above 5000 (see [`crate::codes`]). libcufile 1.14 also returns negative errno
    /// values here.
    pub err: c_int,
    /// The `CUresult`. It is valid if `err` is 5011.
    pub cu_err: c_int,
}

/// The union inside [`CUfileDescr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union CUfileDescrHandle {
    /// A Linux file descriptor.
    pub fd: c_int,
    /// A handle of Windows or of a user-space file system.
    pub handle: *mut c_void,
}

/// `CUfileDescr_t`: the file to register.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUfileDescr {
    /// One of `HANDLE_TYPE_*` in [`crate::values`].
    pub handle_type: c_uint,
    /// The descriptor or handle.
    pub handle: CUfileDescrHandle,
    /// The operations of a user-space file system, otherwise null.
    pub fs_ops: *const CUfileFSOps,
}

/// `cufileRDMAInfo_t`: an argument of the operations of a user-space file system.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUfileRdmaInfo {
    /// The version of the description.
    pub version: c_int,
    /// The length of the description in bytes.
    pub desc_len: c_int,
    /// The description.
    pub desc_str: *const c_char,
}

/// `CUfileFSOps_t`: five functions of a user-space file system. Null means the function of the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUfileFSOps {
    /// `fs_type`: returns the name of the file system.
    pub fs_type: *const c_void,
    /// `getRDMADeviceList`.
    pub get_rdma_device_list: *const c_void,
    /// `getRDMADevicePriority`.
    pub get_rdma_device_priority: *const c_void,
    /// `read`.
    pub read: *const c_void,
    /// `write`.
    pub write: *const c_void,
}

/// The `nvfs` part of [`CUfileDrvProps`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUfileNvfsProps {
    /// Major version of nvidia-fs; 0 without the module.
    pub major_version: c_uint,
    /// Minor version of nvidia-fs.
    pub minor_version: c_uint,
    /// The maximum size of transfers with poll mode, in KiB.
    pub poll_thresh_size: size_t,
    /// The longest transfer that the library passes to the kernel, in KiB.
    pub max_direct_io_size: size_t,
    /// The bits of file systems and devices with direct support.
    pub dstatusflags: c_uint,
    /// The bits of enabled features.
    pub dcontrolflags: c_uint,
}

/// `CUfileDrvProps_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CUfileDrvProps {
    /// The part about nvidia-fs.
    pub nvfs: CUfileNvfsProps,
    /// The bits of the library's features.
    pub fflags: c_uint,
    /// The GPU memory for bounce buffers in KiB.
    pub max_device_cache_size: c_uint,
    /// The size of one bounce buffer in KiB.
    pub per_buffer_cache_size: c_uint,
    /// The limit of pinned GPU memory in KiB.
    pub max_device_pinned_mem_size: c_uint,
    /// The maximum number of entries in a batch.
    pub max_batch_io_size: c_uint,
    /// The time-out of a batch in milliseconds.
    pub max_batch_io_timeout_msecs: c_uint,
}

/// `CUfileIOParams_t`: one entry of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUfileIOParams {
    /// Always [`crate::values::BATCH_MODE`].
    pub mode: c_uint,
    /// The start of the memory, which can be registered.
    pub dev_ptr_base: *mut c_void,
    /// The offset in the file, in bytes.
    pub file_offset: off_t,
    /// The offset in the memory, in bytes from `dev_ptr_base`.
    pub dev_ptr_offset: off_t,
    /// The number of bytes to transfer.
    pub size: size_t,
    /// The registered file.
    pub fh: CUfileHandle,
    /// `OPCODE_READ` or `OPCODE_WRITE` of [`crate::values`].
    pub opcode: c_uint,
    /// The library returns it with the event of the entry.
    pub cookie: *mut c_void,
}

/// `CUfileIOEvents_t`: the result of one entry in a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUfileIOEvents {
    /// The cookie of the entry.
    pub cookie: *mut c_void,
    /// Bits `BATCH_*` of [`crate::values`].
    pub status: c_uint,
    /// The number of transferred bytes. As a negative signed number it is an error.
    pub ret: size_t,
}

/// `CUfileIOVec_t` (since 1.19): a piece of a vectored transfer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUfileIOVec {
    /// The start of the piece in memory.
    pub base: *mut c_void,
    /// Its length in bytes.
    pub len: size_t,
}

macro_rules! layout {
    ($t:ty, $size:literal $(, $($field:ident).+ @ $offset:literal)* $(,)?) => {
        const _: () = {
            assert!(size_of::<$t>() == $size);
            $(assert!(core::mem::offset_of!($t, $($field).+) == $offset);)*
        };
    };
}

#[cfg(target_pointer_width = "64")]
mod asserted {
    use super::*;
    layout!(CUfileError, 8, err @ 0, cu_err @ 4);
    layout!(CUfileDescr, 24, handle_type @ 0, handle @ 8, fs_ops @ 16);
    layout!(CUfileRdmaInfo, 16, version @ 0, desc_len @ 4, desc_str @ 8);
    layout!(CUfileFSOps, 40, fs_type @ 0, get_rdma_device_list @ 8, get_rdma_device_priority @ 16, read @ 24, write @ 32);
    layout!(CUfileDrvProps, 56, nvfs.major_version @ 0, nvfs.minor_version @ 4, nvfs.poll_thresh_size @ 8,
        nvfs.max_direct_io_size @ 16, nvfs.dstatusflags @ 24, nvfs.dcontrolflags @ 28, fflags @ 32, max_device_cache_size @ 36,
        per_buffer_cache_size @ 40, max_device_pinned_mem_size @ 44, max_batch_io_size @ 48, max_batch_io_timeout_msecs @ 52);
    layout!(CUfileIOParams, 64, mode @ 0, dev_ptr_base @ 8, file_offset @ 16, dev_ptr_offset @ 24, size @ 32, fh @ 40, opcode @ 48,
        cookie @ 56);
    layout!(CUfileIOEvents, 24, cookie @ 0, status @ 8, ret @ 16);
    layout!(CUfileIOVec, 16, base @ 0, len @ 8);
}

/// The types of the exported functions, named after their use.
pub mod fns {
    use super::*;

    /// `CUfileError_t f(void)`.
    pub type Plain = unsafe extern "C" fn() -> CUfileError;
    /// `long cuFileUseCount(void)`.
    pub type UseCount = unsafe extern "C" fn() -> c_long;
    /// `cuFileDriverGetProperties`.
    pub type GetProperties = unsafe extern "C" fn(*mut CUfileDrvProps) -> CUfileError;
    /// `cuFileDriverSetPollMode`.
    pub type SetPollMode = unsafe extern "C" fn(bool, size_t) -> CUfileError;
    /// The setters of other driver limits.
    pub type SetSize = unsafe extern "C" fn(size_t) -> CUfileError;
    /// `cuFileGetVersion`, `cuFileGetStatsLevel`.
    pub type GetInt = unsafe extern "C" fn(*mut c_int) -> CUfileError;
    /// `cuFileSetStatsLevel`.
    pub type SetInt = unsafe extern "C" fn(c_int) -> CUfileError;
    /// `cuFileHandleRegister`.
    pub type HandleRegister = unsafe extern "C" fn(*mut CUfileHandle, *mut CUfileDescr) -> CUfileError;
    /// `cuFileHandleDeregister`.
    pub type HandleDeregister = unsafe extern "C" fn(CUfileHandle);
    /// `cuFileBufRegister`.
    pub type BufRegister = unsafe extern "C" fn(*const c_void, size_t, c_int) -> CUfileError;
    /// `cuFileBufDeregister`.
    pub type BufDeregister = unsafe extern "C" fn(*const c_void) -> CUfileError;
    /// `cuFileRead`: handle, base, size, file offset, offset from the base.
    pub type Read = unsafe extern "C" fn(CUfileHandle, *mut c_void, size_t, off_t, off_t) -> ssize_t;
    /// `cuFileWrite`.
    pub type Write = unsafe extern "C" fn(CUfileHandle, *const c_void, size_t, off_t, off_t) -> ssize_t;
    /// `cuFileReadv`, `cuFileWritev`.
    pub type Vectored = unsafe extern "C" fn(CUfileHandle, *const CUfileIOVec, size_t, off_t, c_uint) -> ssize_t;
    /// `cuFileReadAsync` and `cuFileWriteAsync`: all parameters are pointers that must be valid until the transfer
    /// has completed.
    pub type Async = unsafe extern "C" fn(
        CUfileHandle,
        *mut c_void,
        *mut size_t,
        *mut off_t,
        *mut off_t,
        *mut ssize_t,
        CUstream,
    ) -> CUfileError;
    /// `cuFileStreamRegister`.
    pub type StreamRegister = unsafe extern "C" fn(CUstream, c_uint) -> CUfileError;
    /// `cuFileStreamDeregister`.
    pub type StreamDeregister = unsafe extern "C" fn(CUstream) -> CUfileError;
    /// `cuFileBatchIOSetUp`.
    pub type BatchSetUp = unsafe extern "C" fn(*mut CUfileBatchHandle, c_uint) -> CUfileError;
    /// `cuFileBatchIOSubmit`.
    pub type BatchSubmit = unsafe extern "C" fn(CUfileBatchHandle, c_uint, *mut CUfileIOParams, c_uint) -> CUfileError;
    /// `cuFileBatchIOGetStatus`: the minimum number of events, the space for events (in) and their number (out), the
    /// events, and the time limit.
    pub type BatchGetStatus =
        unsafe extern "C" fn(CUfileBatchHandle, c_uint, *mut c_uint, *mut CUfileIOEvents, *mut timespec) -> CUfileError;
    /// `cuFileBatchIOCancel`.
    pub type BatchCancel = unsafe extern "C" fn(CUfileBatchHandle) -> CUfileError;
    /// `cuFileBatchIODestroy`.
    pub type BatchDestroy = unsafe extern "C" fn(CUfileBatchHandle);
    /// `cuFileGetParameterSizeT`.
    pub type GetSizeT = unsafe extern "C" fn(c_uint, *mut size_t) -> CUfileError;
    /// `cuFileGetParameterBool`: the value is read as a byte, because other values than 0 and 1 would be undefined
    /// behaviour for a bool.
    pub type GetBool = unsafe extern "C" fn(c_uint, *mut u8) -> CUfileError;
    /// `cuFileGetParameterString`.
    pub type GetString = unsafe extern "C" fn(c_uint, *mut c_char, c_int) -> CUfileError;
    /// `cuFileSetParameterSizeT`.
    pub type SetSizeT = unsafe extern "C" fn(c_uint, size_t) -> CUfileError;
    /// `cuFileSetParameterBool`.
    pub type SetBool = unsafe extern "C" fn(c_uint, bool) -> CUfileError;
    /// `cuFileSetParameterString`.
    pub type SetString = unsafe extern "C" fn(c_uint, *const c_char) -> CUfileError;
    /// `cuFileGetParameterMinMaxValue`.
    pub type GetMinMax = unsafe extern "C" fn(c_uint, *mut size_t, *mut size_t) -> CUfileError;
    /// `cuFileGetParameter…SlabArray`: sizes in KiB, counts, and the length of both arrays.
    pub type GetSlabs = unsafe extern "C" fn(*mut size_t, *mut size_t, c_int) -> CUfileError;
    /// `cuFileSetParameter…SlabArray`.
    pub type SetSlabs = unsafe extern "C" fn(*const size_t, *const size_t, c_int) -> CUfileError;
    /// `cuFileGetStatsL1`, `L2`, `L3`: the structures grew in 1.19, so the buffer has no type.
    pub type GetStats = unsafe extern "C" fn(*mut c_void) -> CUfileError;
    /// `cuFileDriverGetP2PFlags`.
    pub type GetP2pFlags = unsafe extern "C" fn(c_uint, *mut c_uint) -> CUfileError;
    /// `cuFileDriverSetP2PFlags`.
    pub type SetP2pFlags = unsafe extern "C" fn(c_uint, c_uint) -> CUfileError;
    /// `cuFileGetBARSizeInKB`.
    pub type GetBarSize = unsafe extern "C" fn(c_int, *mut size_t) -> CUfileError;
    /// `cuFileExportPCIeTopology`.
    pub type ExportTopology = unsafe extern "C" fn(*const c_char) -> CUfileError;
}
