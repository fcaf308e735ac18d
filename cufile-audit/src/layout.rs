//! The shared memory: one header, then rings. The library in the program writes, gds-top reads.
//!
//! All fields are words of eight bytes, so that both sides read and write them atomically.

/// Variable with the path of the shared file.
pub const ENV_FILE: &str = "GDS_TOP_WATCH_FILE";

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"gdswatch");
/// Version of this layout; the library records nothing into a file with another one.
pub const VERSION: u64 = 2;

/// Bytes before the first ring. gds-top reserves memory for them, so both sides can use them at any time.
pub const HEADER_BYTES: usize = 8192;
/// Rings in the file: threads that record at the same time.
pub const RINGS: usize = 512;
/// Records of a ring; a power of two.
pub const RECORDS: usize = 4096;
/// Words of a record.
pub const RECORD_WORDS: usize = 16;
/// Bytes before the first record of a ring.
pub const RING_HEADER_BYTES: usize = 4096;
/// Bytes of a ring.
pub const RING_BYTES: usize = RING_HEADER_BYTES + RECORDS * RECORD_WORDS * 8;
/// Bytes of the file. Only the rings in use take memory.
pub const FILE_BYTES: usize = HEADER_BYTES + RINGS * RING_BYTES;

/// Words of the file's header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// Calls that were not recorded because no ring was free.
    pub const WITHOUT_RING: usize = 2;
    /// Programs that loaded the library.
    pub const PROCESSES: usize = 3;
    /// Copies of libcufile beyond [`super::LIBRARIES`] in one process; their calls are not recorded.
    pub const LIBRARIES_LEFT_OUT: usize = 4;
    /// Set before the program starts: bits of [`super::options`].
    pub const OPTIONS: usize = 5;
    /// First of [`super::RINGS`] words: the state of each ring, one of [`super::state`].
    pub const STATES: usize = 512;
}

/// Bits of [`header::OPTIONS`].
pub mod options {
    /// Switch level-3 statistics on when the driver opens, and record them.
    pub const STATISTICS: u64 = 1;
}

/// Words of a ring's header. Words that different processes write are in different cache lines.
pub mod ring {
    /// The process that writes.
    pub const PID: usize = 1;
    /// The thread that writes.
    pub const TID: usize = 2;
    /// The inode of the pid namespace in which both numbers are valid; 0 if it is unknown.
    pub const NAMESPACE: usize = 3;
    /// Records written so far; the writer's.
    pub const WRITTEN: usize = 8;
    /// Calls that were not recorded because the ring was full; the writer's.
    pub const LOST: usize = 9;
    /// Records read so far; the reader's.
    pub const READ: usize = 16;
    /// First word of the totals: [`WORDS_OF_TOTAL`] words for each function.
    pub const TOTALS: usize = 64;
    /// Count, errors, bytes, nanoseconds.
    pub const WORDS_OF_TOTAL: usize = 4;
}

/// States of a ring.
pub mod state {
    /// No thread writes it; it may have no memory.
    pub const FREE: u64 = 0;
    /// A thread is taking it.
    pub const TAKEN: u64 = 1;
    /// A thread writes it.
    pub const IN_USE: u64 = 2;
}
const _: () = assert!((header::STATES + RINGS) * 8 <= HEADER_BYTES);

/// How a function answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `CUfileError_t`: the lower half is 0 or a code.
    Status,
    /// `ssize_t`: bytes, or below zero an error.
    Bytes,
    /// A number or nothing; it cannot fail.
    Plain,
}

/// A recorded function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// The exported name.
    pub name: &'static str,
    /// How it answers.
    pub answer: Answer,
}

macro_rules! functions {
    ($($name:ident = $symbol:literal $answer:ident;)*) => {
        /// The recorded functions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Function {
            $(#[doc = concat!("`", $symbol, "`.")] $name,)*
        }

        /// Each function by its number.
        pub const FUNCTIONS: &[FunctionInfo] = &[$(FunctionInfo { name: $symbol, answer: Answer::$answer },)*];

        impl Function {
            /// All, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }

        /// Calls the macro with the names of all functions.
        #[cfg(any(audit_library, test))]
        macro_rules! for_each_function {
            ($macro:ident) => { $macro! { $($name)* } };
        }
        #[cfg(any(audit_library, test))]
        pub(crate) use for_each_function;
    };
}

functions! {
    DriverOpen = "cuFileDriverOpen" Status;
    DriverClose = "cuFileDriverClose" Status;
    DriverCloseV2 = "cuFileDriverClose_v2" Status;
    UseCount = "cuFileUseCount" Plain;
    DriverGetProperties = "cuFileDriverGetProperties" Status;
    DriverSetPollMode = "cuFileDriverSetPollMode" Status;
    DriverSetMaxDirectIoSize = "cuFileDriverSetMaxDirectIOSize" Status;
    DriverSetMaxCacheSize = "cuFileDriverSetMaxCacheSize" Status;
    DriverSetMaxPinnedMemSize = "cuFileDriverSetMaxPinnedMemSize" Status;
    HandleRegister = "cuFileHandleRegister" Status;
    HandleDeregister = "cuFileHandleDeregister" Plain;
    BufRegister = "cuFileBufRegister" Status;
    BufDeregister = "cuFileBufDeregister" Status;
    Read = "cuFileRead" Bytes;
    Write = "cuFileWrite" Bytes;
    Readv = "cuFileReadv" Bytes;
    Writev = "cuFileWritev" Bytes;
    ReadAsync = "cuFileReadAsync" Status;
    WriteAsync = "cuFileWriteAsync" Status;
    StreamRegister = "cuFileStreamRegister" Status;
    StreamDeregister = "cuFileStreamDeregister" Status;
    BatchSetUp = "cuFileBatchIOSetUp" Status;
    BatchSubmit = "cuFileBatchIOSubmit" Status;
    BatchGetStatus = "cuFileBatchIOGetStatus" Status;
    BatchCancel = "cuFileBatchIOCancel" Status;
    BatchDestroy = "cuFileBatchIODestroy" Plain;
    GetVersion = "cuFileGetVersion" Status;
    GetParameterSizeT = "cuFileGetParameterSizeT" Status;
    GetParameterBool = "cuFileGetParameterBool" Status;
    GetParameterString = "cuFileGetParameterString" Status;
    SetParameterSizeT = "cuFileSetParameterSizeT" Status;
    SetParameterBool = "cuFileSetParameterBool" Status;
    SetParameterString = "cuFileSetParameterString" Status;
    GetParameterMinMaxValue = "cuFileGetParameterMinMaxValue" Status;
    GetParameterPosixPoolSlabArray = "cuFileGetParameterPosixPoolSlabArray" Status;
    SetParameterPosixPoolSlabArray = "cuFileSetParameterPosixPoolSlabArray" Status;
    GetParameterGpuBounceBufferSlabArray = "cuFileGetParameterGpuBounceBufferSlabArray" Status;
    SetParameterGpuBounceBufferSlabArray = "cuFileSetParameterGpuBounceBufferSlabArray" Status;
    GetBarSizeInKb = "cuFileGetBARSizeInKB" Status;
    SetStatsLevel = "cuFileSetStatsLevel" Status;
    GetStatsLevel = "cuFileGetStatsLevel" Status;
    StatsStart = "cuFileStatsStart" Status;
    StatsStop = "cuFileStatsStop" Status;
    StatsReset = "cuFileStatsReset" Status;
    GetStatsL1 = "cuFileGetStatsL1" Status;
    GetStatsL2 = "cuFileGetStatsL2" Status;
    GetStatsL3 = "cuFileGetStatsL3" Status;
    DriverGetP2pFlags = "cuFileDriverGetP2PFlags" Status;
    DriverSetP2pFlags = "cuFileDriverSetP2PFlags" Status;
    ExportPcieTopology = "cuFileExportPCIeTopology" Status;
    ObjectInitialize = "cuFileObjectInitialize" Plain;
    ObjectDriverOpen = "cuFileObjectDriverOpen" Plain;
    ObjectDriverOpenForDiagnostics = "cuFileObjectDriverOpenForDiagnostics" Plain;
    LibcRead = "read" Bytes;
    LibcReadChecked = "__read_chk" Bytes;
    LibcPread = "pread" Bytes;
    LibcPread64 = "pread64" Bytes;
    LibcPreadChecked = "__pread_chk" Bytes;
    LibcPread64Checked = "__pread64_chk" Bytes;
    LibcReadv = "readv" Bytes;
    LibcPreadv = "preadv" Bytes;
    LibcPreadv64 = "preadv64" Bytes;
    LibcPreadv2 = "preadv2" Bytes;
    LibcPreadv64V2 = "preadv64v2" Bytes;
    LibcMmap = "mmap" Bytes;
    LibcMmap64 = "mmap64" Bytes;
    CudaHtoD = "cuMemcpyHtoD" Status;
    CudaHtoDAsync = "cuMemcpyHtoDAsync" Status;
    CudaDtoH = "cuMemcpyDtoH" Status;
    CudaDtoHAsync = "cuMemcpyDtoHAsync" Status;
    CudaCopy = "cuMemcpy" Status;
    CudaCopyAsync = "cuMemcpyAsync" Status;
    CudaGetAddress = "cuGetProcAddress" Status;
}

impl Function {
    /// Whether it is a function of cufile.h. The others come behind these.
    #[must_use]
    pub const fn is_cufile(self) -> bool {
        (self as u16) < Self::LibcRead as u16
    }

    /// Whether it is a function of libcuda.
    #[must_use]
    pub const fn is_cuda(self) -> bool {
        self as u16 >= Self::CudaHtoD as u16
    }
}

/// Reads by libc, mappings and copies by libcuda of fewer bytes have no record. Copies are in the totals all the same, the others are not counted.
pub const RECORDED_BYTES: u64 = 64 << 10;

/// How many functions are recorded.
pub const FUNCTION_COUNT: usize = FUNCTIONS.len();
const _: () = assert!((ring::TOTALS + FUNCTION_COUNT * ring::WORDS_OF_TOTAL) * 8 <= RING_HEADER_BYTES);

/// Copies of libcufile that one process can have; each has its functions.
pub const LIBRARIES: usize = 4;

/// Kinds of record that are not the call of a function; all above every [`Function`].
pub mod kind {
    /// A part of a text: the path of a file, of a library or of a program. [`super::TEXT_BYTES`] bytes, from the second word on.
    pub const TEXT: u16 = 1000;
    /// A process has its first ring. Followed by its program.
    pub const PROCESS: u16 = 1001;
    /// A libcufile was loaded. Followed by its path.
    pub const LIBRARY: u16 = 1002;
    /// An entry of the batch submission before it.
    pub const BATCH_ENTRY: u16 = 1003;
    /// An event of the batch status before it.
    pub const BATCH_EVENT: u16 = 1004;
    /// Level-3 statistics of libcufile: one record for each GPU that has any.
    pub const STATISTICS: u16 = 1005;
    /// A file that libc reads or maps, before its first such call in a process. Followed by its path.
    pub const FILE: u16 = 1006;
}

/// Bytes of text in a record of text.
pub const TEXT_BYTES: usize = (RECORD_WORDS - 1) * 8;

/// One record. The meaning of the fields for each function is in `capture.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// A [`Function`] or a [`kind`], the number of the library, and how many records behind this one belong to it; see [`Record::head`].
    pub head: u64,
    /// Before the call, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// After the call.
    pub end_ns: u64,
    /// The handle of a file or of a batch, or a stream.
    pub object: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Address of the memory.
    pub base: u64,
    /// Offset from `base`.
    pub base_offset: u64,
    /// The returned register.
    pub result: u64,
    /// Further words.
    pub extra: [u64; 7],
}
const _: () = assert!(size_of::<Record>() == RECORD_WORDS * 8);

impl Record {
    /// The first word.
    #[must_use]
    pub const fn head(kind: u16, library: u8, following: u32) -> u64 {
        kind as u64 | (library as u64) << 16 | (following as u64) << 32
    }

    /// A [`Function`] or a [`kind`].
    #[must_use]
    pub const fn kind(&self) -> u16 {
        (self.head & 0xffff) as u16
    }

    /// The number of the library in its process.
    #[must_use]
    pub const fn library(&self) -> u8 {
        ((self.head >> 16) & 0xff) as u8
    }

    /// How many records behind this one belong to it.
    #[must_use]
    pub const fn following(&self) -> u32 {
        (self.head >> 32) as u32
    }

    /// From its words.
    #[must_use]
    pub const fn from_words(words: [u64; RECORD_WORDS]) -> Self {
        let [head, start_ns, end_ns, object, offset, size, base, base_offset, result, a, b, c, d, e, f, g] = words;
        let extra = [a, b, c, d, e, f, g];
        Self { head, start_ns, end_ns, object, offset, size, base, base_offset, result, extra }
    }

    /// Its words.
    #[must_use]
    pub const fn words(&self) -> [u64; RECORD_WORDS] {
        let Self { head, start_ns, end_ns, object, offset, size, base, base_offset, result, extra } = *self;
        let [a, b, c, d, e, f, g] = extra;
        [head, start_ns, end_ns, object, offset, size, base, base_offset, result, a, b, c, d, e, f, g]
    }
}
