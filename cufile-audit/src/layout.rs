//! The layout of the shared memory: a header and then rings. The library in the program writes it, and gds-top reads
//! it.
//!
//! All fields are words of eight bytes, so that both processes can access them atomically.

/// The environment variable with the path of the shared file.
pub const ENV_FILE: &str = "GDS_TOP_WATCH_FILE";

/// The first word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"gdswatch");
/// The version of this layout. The library records nothing into a file with another version.
pub const VERSION: u64 = 13;

/// The size of the header in bytes. gds-top reserves memory for it, so both processes can use it at any time.
pub const HEADER_BYTES: usize = (header::STARTS + STARTS * start::WORDS) * 8;
/// The number of entries for programs that start. gds-top takes them out every few milliseconds.
pub const STARTS: usize = 256;
/// The number of rings: the maximum number of threads that record at the same time.
pub const RINGS: usize = 1024;
/// The number of records in a ring. It must be a power of two.
pub const RECORDS: usize = 2048;
/// The number of words in a record.
pub const RECORD_WORDS: usize = 16;
/// The bytes of a ring before its first record.
pub const RING_HEADER_BYTES: usize = 4096;
/// The size of a ring in bytes.
pub const RING_BYTES: usize = RING_HEADER_BYTES + RECORDS * RECORD_WORDS * 8;
/// The size of the file in bytes. Only the rings in use need memory.
pub const FILE_BYTES: usize = HEADER_BYTES + RINGS * RING_BYTES;

/// Words of the file's header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// The number of calls that were not recorded because no ring was free.
    pub const WITHOUT_RING: usize = 2;
    /// The number of programs that loaded the library.
    pub const PROGRAMS: usize = 3;
    /// The number of copies of libcufile in one process beyond [`super::LIBRARIES`]. Their calls are not recorded.
    pub const LIBRARIES_LEFT_OUT: usize = 4;
    /// The bits of [`super::options`]. They are set before the program starts. Only a program can set or remove
    /// [`super::options::PAUSED`].
    pub const OPTIONS: usize = 5;
    /// The number of entries of [`super::start`] that were lost because none was free.
    pub const STARTS_LOST: usize = 6;
    /// The number of programs that could map only the header of the file: a limit leaves them too little address space.
    pub const WITHOUT_SPACE: usize = 7;
    /// The id of the process that reads the file, in its own pid namespace. It is set before the program starts.
    pub const SESSION: usize = 8;
    /// The number of the next entry of [`super::start`].
    pub const SEQUENCE: usize = 9;
    /// The first of [`super::LIBRARY_WORDS`] words with the path of the recording library, padded with zero bytes. It
    /// is set before the program starts.
    pub const LIBRARY: usize = 64;
    /// The first of [`super::SLOTS`] words that divide [`WITHOUT_RING`] by process (see [`super::slot_of`]).
    pub const WITHOUT_RING_OF: usize = 256;
    /// The first of [`super::RINGS`] words with the state of each ring (see [`super::state`]).
    pub const STATES: usize = 512;
    /// The first of [`super::STARTS`] entries of [`super::start`].
    pub const STARTS: usize = 2048;
}

/// An entry about a program that a process starts, or that has started. A program that does not report that it loaded the
/// library is not recorded.
pub mod start {
    /// The number of words of an entry.
    pub const WORDS: usize = 32;
    /// [`FREE`], [`TAKEN`] or the kind of the entry, which is written last.
    pub const STATE: usize = 0;
    /// The number of the entry. An entry about an earlier event has a lower number.
    pub const NUMBER: usize = 1;
    /// The id of the process of the program, and the inode of its pid namespace in the upper half.
    pub const PROCESS: usize = 2;
    /// The length of the path in bytes. Of a longer path, the last [`PATH_BYTES`] bytes are stored.
    pub const LENGTH: usize = 3;
    /// The first word of the path of the program.
    pub const PATH: usize = 4;
    /// The bytes of a path.
    pub const PATH_BYTES: usize = (WORDS - PATH) * 8;
    /// No process uses the entry.
    pub const FREE: u64 = 0;
    /// A process writes the entry.
    pub const TAKEN: u64 = 1;
    /// The process is about to become this program.
    pub const BEGINS: u64 = 2;
    /// The process could not become the program.
    pub const FAILED: u64 = 3;
    /// The process was started with this program.
    pub const STARTED: u64 = 4;
    /// The program of the process has loaded the library.
    pub const LOADED: u64 = 5;
    /// A program was started that cannot load the library, or not open the shared file.
    pub const MISSED: u64 = 6;
}

/// The number of words for the path of the recording library. Longer paths are not stored.
pub const LIBRARY_WORDS: usize = 128;
const _: () = assert!(header::LIBRARY + LIBRARY_WORDS <= header::WITHOUT_RING_OF);

/// The number of words with calls that found no free ring. More processes share them.
pub const SLOTS: usize = 256;
const _: () = assert!(header::WITHOUT_RING_OF + SLOTS <= header::STATES);

/// The word of a process among these words.
#[must_use]
pub const fn slot_of(process: u64) -> usize {
    (process % SLOTS as u64) as usize
}

/// Bits of [`header::OPTIONS`].
pub mod options {
    /// Enable the level-3 statistics when the driver is opened, and record them.
    pub const STATISTICS: u64 = 1;
    /// Calls are passed on without being recorded. A benchmark sets and removes it in the program that it measures, to
    /// alternate between recorded and other calls.
    pub const PAUSED: u64 = 2;
}

/// The words of a ring's header. Words that different processes write are in different cache lines.
pub mod ring {
    /// The process id of the writer.
    pub const PID: usize = 1;
    /// The thread id of the writer. A thread that finds no free ring takes that of an ended thread of its process.
    pub const TID: usize = 2;
    /// The inode of the pid namespace of both ids. 0 if it is unknown.
    pub const NAMESPACE: usize = 3;
    /// The number of records written so far. Only the writer changes it.
    pub const WRITTEN: usize = 8;
    /// The number of calls that were lost because the ring was full. Only the writer changes it.
    pub const LOST: usize = 9;
    /// The number of a [`super::Function`] of cuFile, plus 1, that has not returned. 0 if there is none. Only the
    /// writer changes it.
    pub const OPEN: usize = 10;
    /// The start of this call in nanoseconds of CLOCK_MONOTONIC. It is that of the last call after its end, and 0 if the
    /// thread has called no function of cuFile.
    pub const OPEN_SINCE: usize = 11;
    /// The number of earlier threads of the ring that called functions of cuFile. Their counters are in the totals.
    pub const EARLIER: usize = 12;
    /// The end of the last call in nanoseconds that registered a file or memory and whose record was lost. 0 if there is
    /// none. The same applies to the next two words.
    pub const LOST_REGISTRATION_NS: usize = 13;
    /// The end of the last lost call that released a file or memory, or closed the driver: another file can have the
    /// same handle since.
    pub const LOST_RELEASE_NS: usize = 14;
    /// The end of the last lost call that submitted or ended transfers of a batch or stream.
    pub const LOST_TRANSFER_NS: usize = 15;
    /// The number of records read so far. Only the reader changes it.
    pub const READ: usize = 16;
    /// The thread id of the first record that was not read. The first writer sets it, later only the reader changes it.
    pub const READ_TID: usize = 17;
    /// The first word of the totals, with [`WORDS_OF_TOTAL`] words per function.
    pub const TOTALS: usize = 64;
    /// The words of a total: count, errors, bytes, nanoseconds.
    pub const WORDS_OF_TOTAL: usize = 4;
}

/// States of a ring.
pub mod state {
    /// No thread uses the ring. It may not have memory.
    pub const FREE: u64 = 0;
    /// A thread is acquiring the ring, or the reader is freeing it.
    pub const TAKEN: u64 = 1;
    /// A thread writes to the ring.
    pub const IN_USE: u64 = 2;
}
const _: () = assert!(header::STATES + RINGS <= header::STARTS);
const _: () = assert!(HEADER_BYTES.is_multiple_of(4096));

/// The kind of result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `CUfileError_t`: the lower half is 0 or a code.
    Status,
    /// `ssize_t`: the number of bytes, or a negative error.
    Bytes,
    /// A number or nothing. The function cannot fail.
    Plain,
}

/// A recorded function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// The name of the exported function.
    pub name: &'static str,
    /// The kind of its result.
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

        /// The functions by their number.
        pub const FUNCTIONS: &[FunctionInfo] = &[$(FunctionInfo { name: $symbol, answer: Answer::$answer },)*];

        impl Function {
            /// All functions by their number.
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
    LibcMunmap = "munmap" Plain;
    LibcExit = "_exit" Plain;
    LibcPrctl = "prctl" Plain;
    LibcSyscall = "syscall" Plain;
    LibcExecl = "execl" Plain;
    LibcExeclp = "execlp" Plain;
    LibcExecle = "execle" Plain;
    LibcExecv = "execv" Plain;
    LibcExecvp = "execvp" Plain;
    LibcExecve = "execve" Plain;
    LibcExecvpe = "execvpe" Plain;
    LibcFexecve = "fexecve" Plain;
    LibcExecveat = "execveat" Plain;
    LibcSpawn = "posix_spawn" Plain;
    LibcSpawnp = "posix_spawnp" Plain;
    LibcSystem = "system" Plain;
    LibcPopen = "popen" Plain;
    AioSubmit = "io_submit" Plain;
    CudaHtoD = "cuMemcpyHtoD" Status;
    CudaHtoDAsync = "cuMemcpyHtoDAsync" Status;
    CudaDtoH = "cuMemcpyDtoH" Status;
    CudaDtoHAsync = "cuMemcpyDtoHAsync" Status;
    CudaCopy = "cuMemcpy" Status;
    CudaCopyAsync = "cuMemcpyAsync" Status;
    CudaCopy2d = "cuMemcpy2D" Status;
    CudaCopy2dUnaligned = "cuMemcpy2DUnaligned" Status;
    CudaCopy2dAsync = "cuMemcpy2DAsync" Status;
    CudaCopy3d = "cuMemcpy3D" Status;
    CudaCopy3dAsync = "cuMemcpy3DAsync" Status;
    CudaHtoA = "cuMemcpyHtoA" Status;
    CudaHtoAAsync = "cuMemcpyHtoAAsync" Status;
    CudaCopyWithAttributes = "cuMemcpyWithAttributesAsync" Status;
    CudaCopy3dWithAttributes = "cuMemcpy3DWithAttributesAsync" Status;
    CudaCopy3dBatch = "cuMemcpy3DBatchAsync" Status;
    CudaPrefetch = "cuMemPrefetchAsync" Status;
    CudaCopyBatch = "cuMemcpyBatchAsync" Status;
    CudaGetAddress = "cuGetProcAddress" Status;
}

impl Function {
    /// Whether it is a function of cufile.h. Other functions have higher numbers.
    #[must_use]
    pub const fn is_cufile(self) -> bool {
        (self as u16) < Self::LibcRead as u16
    }

    /// Whether it starts a program. Such calls are not recorded.
    #[must_use]
    pub const fn starts_program(self) -> bool {
        let number = self as u16;
        number >= Self::LibcExecl as u16 && number <= Self::LibcPopen as u16
    }

    /// Whether it has any number of arguments, in registers and on the stack.
    #[must_use]
    pub const fn has_list(self) -> bool {
        matches!(self, Self::LibcSyscall | Self::LibcExecl | Self::LibcExeclp | Self::LibcExecle)
    }

    /// Whether it is a function of libcuda.
    #[must_use]
    pub const fn is_cuda(self) -> bool {
        self as u16 >= Self::CudaHtoD as u16
    }
}

/// Reads with libc, mappings, and copies with libcuda have a record only if they have at least this many bytes.
/// Smaller copies are counted in the totals, smaller reads and mappings are not.
pub const RECORDED_BYTES: u64 = 64 << 10;

/// The number of recorded functions.
pub const FUNCTION_COUNT: usize = FUNCTIONS.len();
const _: () = assert!((ring::TOTALS + FUNCTION_COUNT * ring::WORDS_OF_TOTAL) * 8 <= RING_HEADER_BYTES);

/// The maximum number of copies of libcufile in one process. Each copy has its own functions.
pub const LIBRARIES: usize = 4;

/// Kinds of records that are not calls of functions. They are above all [`Function`] numbers.
pub mod kind {
    /// A part of a text: the path of a file, library or program. It has [`super::TEXT_BYTES`] bytes from the second
    /// word on.
    pub const TEXT: u16 = 1000;
    /// A process uses its first ring. If it runs the program of a process that it was forked from, the object is the
    /// nearest of them that recorded or lost a call, the base is the start of the record of this kind of that process,
    /// and the offset is the end of the last registration or release of memory before the fork. Otherwise all are 0.
    /// The path of its program follows.
    pub const PROCESS: u16 = 1001;
    /// A libcufile was loaded. Its path follows.
    pub const LIBRARY: u16 = 1002;
    /// An entry of the previous batch submission.
    pub const BATCH_ENTRY: u16 = 1003;
    /// An event of the previous batch status call.
    pub const BATCH_EVENT: u16 = 1004;
    /// Level-3 statistics of libcufile, with the times before and after the reading. There is one record for each GPU
    /// that has statistics.
    pub const STATISTICS: u16 = 1005;
    /// A file before its first read or mapping with libc in a process. Its path follows. The first five words of
    /// [`super::Record::extra`] are its device and inode, the flags of its descriptor, and the seconds and nanoseconds of
    /// its birth. The birth is 0 if it is unknown.
    pub const FILE: u16 = 1006;
    /// The pages of a mapped file in the page tables, before it is unmapped. There is one record for each range, with
    /// its offset in the file and its size.
    pub const TOUCHED: u16 = 1007;
    /// The program starts another one that another session records. The object is [`super::IN_OTHER_SESSION`]. The path
    /// of that program follows.
    pub const NOT_RECORDED: u16 = 1008;
    /// The settings with which libcufile opens its driver: the value of [`super::CONFIGURATION`] follows. The object has
    /// the bits of [`super::settings`].
    pub const SETTINGS: u16 = 1009;
    /// Another thread has taken the ring. The object is its id, and the next records are its own.
    pub const THREAD: u16 = 1010;
    /// A ring of io_uring before the process ends. The object is its descriptor, the offset its inode or 0, and the size
    /// the number of completed requests.
    pub const URING: u16 = 1011;
    /// The highest kind.
    pub const LAST: u16 = URING;
}

/// The environment variable with the path of libcufile's configuration.
pub const CONFIGURATION: &str = "CUFILE_ENV_PATH_JSON";
/// The environment variable that enables P2PDMA.
pub const P2PDMA: &str = "CUFILE_USE_PCIP2PDMA";

/// Bits of the object in a record of settings.
pub mod settings {
    /// [`super::CONFIGURATION`] is set.
    pub const NAMED: u64 = 1;
    /// [`super::P2PDMA`] is set.
    pub const P2PDMA: u64 = 2;
}

/// The object in a record of a program that another session records.
pub const IN_OTHER_SESSION: u64 = 1;

/// The index in [`Record::extra`] of the `errno` of a transfer that returned -1. 0 if it is unknown.
pub const ERRNO_WORD: usize = 6;

/// The index in [`Record::extra`] of the number of events that a batch status call returned.
pub const EVENTS_WORD: usize = 3;

/// The index in [`Record::extra`] of the identity of a registered file: device, inode, and the seconds and nanoseconds
/// of its birth. All are 0 if the file is not regular or not known, and the birth if it is unknown.
pub const IDENTITY_WORD: usize = 2;

/// The bytes of text in a text record.
pub const TEXT_BYTES: usize = (RECORD_WORDS - 1) * 8;

/// A record. `capture.rs` defines the fields of each function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// A [`Function`] or a [`kind`], the number of the library, and the number of following records that belong to
    /// this one (see [`Record::head`]).
    pub head: u64,
    /// The start of the call in nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// The end of the call in nanoseconds of CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// The handle of a file or batch, or a stream.
    pub object: u64,
    /// The offset in the file.
    pub offset: u64,
    /// The requested number of bytes.
    pub size: u64,
    /// The address of the memory.
    pub base: u64,
    /// The offset from `base` in bytes.
    pub base_offset: u64,
    /// The result register.
    pub result: u64,
    /// Additional words. Their meaning depends on the function.
    pub extra: [u64; 7],
}
const _: () = assert!(size_of::<Record>() == RECORD_WORDS * 8);

impl Record {
    /// Builds the first word of a record.
    #[must_use]
    pub const fn head(kind: u16, library: u8, following: u32) -> u64 {
        kind as u64 | (library as u64) << 16 | (following as u64) << 32
    }

    /// The [`Function`] or [`kind`] of the record.
    #[must_use]
    pub const fn kind(&self) -> u16 {
        (self.head & 0xffff) as u16
    }

    /// The number of the library in its process.
    #[must_use]
    pub const fn library(&self) -> u8 {
        ((self.head >> 16) & 0xff) as u8
    }

    /// The number of following records that belong to this one.
    #[must_use]
    pub const fn following(&self) -> u32 {
        (self.head >> 32) as u32
    }

    /// Decodes a record from its words.
    #[must_use]
    pub const fn from_words(words: [u64; RECORD_WORDS]) -> Self {
        let [head, start_ns, end_ns, object, offset, size, base, base_offset, result, a, b, c, d, e, f, g] = words;
        let extra = [a, b, c, d, e, f, g];
        Self { head, start_ns, end_ns, object, offset, size, base, base_offset, result, extra }
    }

    /// Encodes the record as words.
    #[must_use]
    pub const fn words(&self) -> [u64; RECORD_WORDS] {
        let Self { head, start_ns, end_ns, object, offset, size, base, base_offset, result, extra } = *self;
        let [a, b, c, d, e, f, g] = extra;
        [head, start_ns, end_ns, object, offset, size, base, base_offset, result, a, b, c, d, e, f, g]
    }
}
