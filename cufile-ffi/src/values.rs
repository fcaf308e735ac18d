//! The named numbers of cufile.h, except error codes.

/// A number of cufile.h. Its name is in lower case without the common prefix. `since` is the first GDS version that
/// has it, if it is later than 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The number. In lists of bits, it is the number of the bit.
    pub value: u32,
    /// The name.
    pub name: &'static str,
}

macro_rules! named {
    ($(#[$doc:meta])* $list:ident { $($(#[$item:meta])* $id:ident = $value:literal, $name:literal;)* }) => {
        $($(#[$item])* #[doc = concat!("`", $name, "`.")] pub const $id: u32 = $value;)*
        $(#[$doc])*
        pub const $list: &[Named] = &[$(Named { value: $value, name: $name },)*];
    };
}

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`: a Linux descriptor.
pub const HANDLE_TYPE_OPAQUE_FD: u32 = 1;

/// `CUFILE_BATCH`, the only batch mode.
pub const BATCH_MODE: u32 = 1;
/// `CUFILE_READ`.
pub const OPCODE_READ: u32 = 0;
/// `CUFILE_WRITE`.
pub const OPCODE_WRITE: u32 = 1;

named! {
    /// Status bits of a batch event.
    BATCH_STATUS {
        BATCH_WAITING = 1, "waiting";
        BATCH_PENDING = 2, "pending";
        BATCH_INVALID = 4, "invalid";
        BATCH_CANCELED = 8, "canceled";
        BATCH_COMPLETE = 16, "complete";
        BATCH_TIMEOUT = 32, "timeout";
        BATCH_FAILED = 64, "failed";
    }
}

/// `CU_FILE_STREAM_FIXED_BUF_OFFSET`: the offset in memory is known at submission.
pub const STREAM_FIXED_BUF_OFFSET: u32 = 1;
/// `CU_FILE_STREAM_FIXED_FILE_OFFSET`: the offset in the file is known at submission.
pub const STREAM_FIXED_FILE_OFFSET: u32 = 2;
/// `CU_FILE_STREAM_FIXED_FILE_SIZE`: the size is known at submission.
pub const STREAM_FIXED_FILE_SIZE: u32 = 4;
/// `CU_FILE_STREAM_PAGE_ALIGNED_INPUTS`: size and offsets are multiples of 4 KiB.
pub const STREAM_PAGE_ALIGNED_INPUTS: u32 = 8;

named! {
    /// The bit numbers of `dstatusflags`. `cuFileDriverGetP2PFlags` uses the same numbers.
    TRANSPORTS {
        TRANSPORT_LUSTRE = 0, "lustre";
        TRANSPORT_WEKAFS = 1, "wekafs";
        TRANSPORT_NFS = 2, "nfs";
        TRANSPORT_GPFS = 3, "gpfs";
        TRANSPORT_NVME = 4, "nvme";
        TRANSPORT_NVMEOF = 5, "nvmeof";
        TRANSPORT_SCSI = 6, "scsi";
        TRANSPORT_SCALEFLUX_CSD = 7, "scaleflux_csd";
        TRANSPORT_NVMESH = 8, "nvmesh";
        TRANSPORT_BEEGFS = 9, "beegfs";
        TRANSPORT_YRCLOUDFILE = 10, "yrcloudfile";
        /// The header marks this as deprecated.
        TRANSPORT_NVME_P2P = 11, "nvme_p2p";
        TRANSPORT_SCATEFS = 12, "scatefs";
        /// Exists since GDS 1.16.
        TRANSPORT_VIRTIOFS = 13, "virtiofs";
        /// Exists since GDS 1.19.1.
        TRANSPORT_PANFS = 14, "panfs";
    }
}

named! {
    /// Bit numbers of `dcontrolflags`.
    CONTROLS {
        CONTROL_USE_POLL_MODE = 0, "use_poll_mode";
        CONTROL_ALLOW_COMPAT_MODE = 1, "allow_compat_mode";
        /// Exists since GDS 1.17.
        CONTROL_VANILLA_POSIX_IO = 2, "vanilla_posix_io_mode";
        CONTROL_FALLBACK_IO = 4, "gds_fallback_io";
    }
}

named! {
    /// Bit numbers of `fflags`.
    FEATURES {
        FEATURE_DYN_ROUTING = 0, "dyn_routing";
        FEATURE_BATCH_IO = 1, "batch_io";
        FEATURE_STREAMS = 2, "streams";
        FEATURE_PARALLEL_IO = 3, "parallel_io";
        /// Exists since GDS 1.16.
        FEATURE_P2P = 4, "p2p";
    }
}

named! {
    /// Bit numbers of the P2P flags.
    P2P_ROUTES {
        P2P_PCI_P2PDMA = 0, "p2pdma";
        P2P_NVFS = 1, "nvfs";
        P2P_DMABUF = 2, "dmabuf";
        P2P_C2C = 3, "c2c";
        P2P_NVIDIA_PEERMEM = 4, "nvidia_peermem";
    }
}

named! {
    /// Numeric parameters (`CUFileSizeTConfigParameter_t`).
    SIZE_PARAMETERS {
        PARAM_PROFILE_STATS = 0, "profile_stats";
        PARAM_MAX_IO_QUEUE_DEPTH = 1, "max_io_queue_depth";
        PARAM_MAX_IO_THREADS = 2, "max_io_threads";
        PARAM_MIN_IO_THRESHOLD_SIZE_KB = 3, "min_io_threshold_size_kb";
        PARAM_MAX_REQUEST_PARALLELISM = 4, "max_request_parallelism";
        PARAM_MAX_DIRECT_IO_SIZE_KB = 5, "max_direct_io_size_kb";
        PARAM_MAX_DEVICE_CACHE_SIZE_KB = 6, "max_device_cache_size_kb";
        PARAM_PER_BUFFER_CACHE_SIZE_KB = 7, "per_buffer_cache_size_kb";
        PARAM_MAX_DEVICE_PINNED_MEM_SIZE_KB = 8, "max_device_pinned_mem_size_kb";
        PARAM_IO_BATCHSIZE = 9, "io_batchsize";
        PARAM_POLLTHRESHOLD_SIZE_KB = 10, "pollthreshold_size_kb";
        PARAM_BATCH_IO_TIMEOUT_MS = 11, "batch_io_timeout_ms";
    }
}

named! {
    /// Switches (`CUFileBoolConfigParameter_t`).
    BOOL_PARAMETERS {
        PARAM_USE_POLL_MODE = 0, "use_poll_mode";
        PARAM_ALLOW_COMPAT_MODE = 1, "allow_compat_mode";
        PARAM_FORCE_COMPAT_MODE = 2, "force_compat_mode";
        PARAM_FS_MISC_API_CHECK_AGGRESSIVE = 3, "api_check_aggressive";
        PARAM_PARALLEL_IO = 4, "parallel_io";
        /// It has no effect since GDS 1.16.
        PARAM_NVTX = 5, "nvtx";
        PARAM_ALLOW_SYSTEM_MEMORY = 6, "allow_system_memory";
        PARAM_USE_PCIP2PDMA = 7, "use_pci_p2pdma";
        PARAM_PREFER_IO_URING = 8, "prefer_iouring";
        PARAM_FORCE_ODIRECT_MODE = 9, "force_odirect_mode";
        PARAM_SKIP_TOPOLOGY_DETECTION = 10, "skip_topology_detection";
        PARAM_STREAM_MEMOPS_BYPASS = 11, "stream_memops_bypass";
        PARAM_POSIX_IO_MODE = 12, "posix_io_mode";
        /// Exists since GDS 1.19.
        PARAM_GDS_FALLBACK_IO = 13, "gds_fallback_io";
    }
}

named! {
    /// Text parameters (`CUFileStringConfigParameter_t`).
    STRING_PARAMETERS {
        PARAM_LOGGING_LEVEL = 0, "logging_level";
        /// The library accepts it, but it does not change the path of the log (1.14 to 1.20).
        PARAM_ENV_LOGFILE_PATH = 1, "env_logfile_path";
        /// The library accepts it, but it does not change the path of the log (1.14 to 1.20).
        PARAM_LOG_DIR = 2, "log_dir";
        /// Exists since GDS 1.19.
        PARAM_RDMA_TRANSPORT = 3, "rdma_transport";
    }
}

/// The name of `value` in a list of this module. `None` if the list does not have it.
pub fn name_of(list: &[Named], value: u32) -> Option<&'static str> {
    list.iter().find(|n| n.value == value).map(|n| n.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_name_has_none() {
        assert_eq!(name_of(TRANSPORTS, 14), Some("panfs"));
        assert_eq!(name_of(TRANSPORTS, 99), None);
    }
}
