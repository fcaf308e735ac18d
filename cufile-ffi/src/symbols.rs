//! All public functions of cufile.h, each optional, with the first GDS version that has it.

use crate::raw::fns;
use crate::version::Version;

/// A public function of cufile.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolInfo {
    /// The exported name.
    pub name: &'static str,
    /// The first GDS release that has it. The source is `nm -D` of the wheels from 1.11 on. For earlier releases, it
    /// is the first CUDA release whose bindings have it.
    pub since: Version,
}

macro_rules! symbols {
    ($($field:ident: $ty:ty = $name:literal since ($major:literal, $minor:literal);)*) => {
        /// The functions that the loaded library has.
        #[derive(Clone, Copy, Debug)]
        pub struct Symbols {
            $(#[doc = concat!("`", $name, "`, from GDS ", $major, ".", $minor, ".")] pub $field: Option<$ty>,)*
        }

        /// All functions that the crate knows, in the order of [`Symbols`].
        pub const SYMBOLS: &[SymbolInfo] = &[$(SymbolInfo { name: $name, since: Version::new($major, $minor) },)*];

        impl Symbols {
            /// Looks up all names.
            ///
            /// # Safety
            /// `library` must be a libcufile: each function must have the type that cufile.h declares.
            pub(crate) unsafe fn load(library: &libloading::os::unix::Library) -> Self {
                Self {
                    // SAFETY: the caller guarantees the types of cufile.h, and `$ty` corresponds to cufile.h.
                    $($field: unsafe { library.get::<$ty>(concat!($name, "\0").as_bytes()) }.ok().map(|s| *s),)*
                }
            }

            /// All known names, and whether the loaded library has them.
            pub fn present(&self) -> Vec<(SymbolInfo, bool)> {
                let found = [$(self.$field.is_some(),)*];
                SYMBOLS.iter().copied().zip(found).collect()
            }
        }
    };
}

symbols! {
    driver_open: fns::Plain = "cuFileDriverOpen" since (1, 0);
    driver_close: fns::Plain = "cuFileDriverClose" since (1, 0);
    driver_close_v2: fns::Plain = "cuFileDriverClose_v2" since (1, 4);
    use_count: fns::UseCount = "cuFileUseCount" since (1, 4);
    driver_get_properties: fns::GetProperties = "cuFileDriverGetProperties" since (1, 0);
    driver_set_poll_mode: fns::SetPollMode = "cuFileDriverSetPollMode" since (1, 0);
    driver_set_max_direct_io_size: fns::SetSize = "cuFileDriverSetMaxDirectIOSize" since (1, 0);
    driver_set_max_cache_size: fns::SetSize = "cuFileDriverSetMaxCacheSize" since (1, 0);
    driver_set_max_pinned_mem_size: fns::SetSize = "cuFileDriverSetMaxPinnedMemSize" since (1, 0);
    handle_register: fns::HandleRegister = "cuFileHandleRegister" since (1, 0);
    handle_deregister: fns::HandleDeregister = "cuFileHandleDeregister" since (1, 0);
    buf_register: fns::BufRegister = "cuFileBufRegister" since (1, 0);
    buf_deregister: fns::BufDeregister = "cuFileBufDeregister" since (1, 0);
    read: fns::Read = "cuFileRead" since (1, 0);
    write: fns::Write = "cuFileWrite" since (1, 0);
    batch_set_up: fns::BatchSetUp = "cuFileBatchIOSetUp" since (1, 2);
    batch_submit: fns::BatchSubmit = "cuFileBatchIOSubmit" since (1, 2);
    batch_get_status: fns::BatchGetStatus = "cuFileBatchIOGetStatus" since (1, 2);
    batch_cancel: fns::BatchCancel = "cuFileBatchIOCancel" since (1, 2);
    batch_destroy: fns::BatchDestroy = "cuFileBatchIODestroy" since (1, 2);
    read_async: fns::Async = "cuFileReadAsync" since (1, 7);
    write_async: fns::Async = "cuFileWriteAsync" since (1, 7);
    stream_register: fns::StreamRegister = "cuFileStreamRegister" since (1, 7);
    stream_deregister: fns::StreamDeregister = "cuFileStreamDeregister" since (1, 7);
    get_version: fns::GetInt = "cuFileGetVersion" since (1, 8);
    get_parameter_size_t: fns::GetSizeT = "cuFileGetParameterSizeT" since (1, 14);
    get_parameter_bool: fns::GetBool = "cuFileGetParameterBool" since (1, 14);
    get_parameter_string: fns::GetString = "cuFileGetParameterString" since (1, 14);
    set_parameter_size_t: fns::SetSizeT = "cuFileSetParameterSizeT" since (1, 14);
    set_parameter_bool: fns::SetBool = "cuFileSetParameterBool" since (1, 14);
    set_parameter_string: fns::SetString = "cuFileSetParameterString" since (1, 14);
    get_bar_size: fns::GetBarSize = "cuFileGetBARSizeInKB" since (1, 15);
    get_parameter_min_max: fns::GetMinMax = "cuFileGetParameterMinMaxValue" since (1, 15);
    get_posix_pool_slabs: fns::GetSlabs = "cuFileGetParameterPosixPoolSlabArray" since (1, 15);
    set_posix_pool_slabs: fns::SetSlabs = "cuFileSetParameterPosixPoolSlabArray" since (1, 15);
    set_stats_level: fns::SetInt = "cuFileSetStatsLevel" since (1, 15);
    get_stats_level: fns::GetInt = "cuFileGetStatsLevel" since (1, 15);
    stats_start: fns::Plain = "cuFileStatsStart" since (1, 15);
    stats_stop: fns::Plain = "cuFileStatsStop" since (1, 15);
    stats_reset: fns::Plain = "cuFileStatsReset" since (1, 15);
    get_stats_l1: fns::GetStats = "cuFileGetStatsL1" since (1, 15);
    get_stats_l2: fns::GetStats = "cuFileGetStatsL2" since (1, 15);
    get_stats_l3: fns::GetStats = "cuFileGetStatsL3" since (1, 15);
    get_p2p_flags: fns::GetP2pFlags = "cuFileDriverGetP2PFlags" since (1, 16);
    set_p2p_flags: fns::SetP2pFlags = "cuFileDriverSetP2PFlags" since (1, 16);
    export_pcie_topology: fns::ExportTopology = "cuFileExportPCIeTopology" since (1, 17);
    get_gpu_bounce_slabs: fns::GetSlabs = "cuFileGetParameterGpuBounceBufferSlabArray" since (1, 17);
    set_gpu_bounce_slabs: fns::SetSlabs = "cuFileSetParameterGpuBounceBufferSlabArray" since (1, 17);
    readv: fns::Vectored = "cuFileReadv" since (1, 19);
    writev: fns::Vectored = "cuFileWritev" since (1, 19);
}
