//! The raw layer against the real libraries of NVIDIA's Python wheels, without a GPU.
//!
//! Wheels lie unpacked, one folder a version, in the folder that `GDS_TOP_TEST_WHEELS` names (`.ci/wheels` makes it); without it these tests
//! say that they were skipped. Each library is used in a child process: two in one process would share state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../../tests/standins/mod.rs"]
mod standins;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cufile_ffi::raw::*;
use cufile_ffi::stats::{StatsL1, StatsL3};
use cufile_ffi::{
    Batch, BatchEntry, Direction, Driver, Error, FileHandle, HostMemory, IoStream, Library, OpenOptions, Piece, Route,
    Search, StreamIo, Version, codes, values,
};

/// Unpacked wheels: version and folder, oldest first.
fn wheels() -> Vec<(Version, PathBuf)> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS") else {
        eprintln!("skipped: GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the folder)");
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&root).expect("GDS_TOP_TEST_WHEELS is a folder").flatten() {
        let name = entry.file_name().into_string().unwrap();
        let mut parts = name.split('.').map(str::parse::<i32>);
        if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) {
            found.push((Version::new(major, minor), entry.path()));
        }
    }
    assert!(!found.is_empty(), "GDS_TOP_TEST_WHEELS has no folder named after a version");
    found.sort();
    found
}

/// A file below a wheel's `nvidia/*/`.
fn inside(wheel: &Path, name: &str) -> PathBuf {
    ["nvidia/cu13", "nvidia/cufile"]
        .map(|p| wheel.join(p).join(name))
        .into_iter()
        .find(|p| p.is_file())
        .expect("the wheel has the file")
}

/// Runs `test` of this binary in a child on one library, with the preload where wanted, and gives what it wrote; ends it after 60 s.
fn child(test: &str, library: &Path, env: &[(&str, &str)], redirect: bool) -> Option<(bool, String, String)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("CUFILE_FFI_CHILD", library)
        .envs(env.iter().copied());
    command.env("CUFILE_LOGFILE_PATH", dir.path().join("elsewhere.log"));
    command.current_dir(dir.path()).stdin(Stdio::null());
    if redirect {
        let built = standins::build()?;
        let machine = dir.path().join("machine");
        standins::machine(&machine, dir.path());
        command.env("LD_PRELOAD", built.redirect).env("GDS_TOP_TEST_REDIRECT", machine);
    }
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
    let mut running = command.spawn().unwrap();
    let start = Instant::now();
    let success = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status.success();
        }
        if start.elapsed() > Duration::from_secs(60) {
            running.kill().unwrap();
            running.wait().unwrap();
            break false;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Some((success, std::fs::read_to_string(out).unwrap(), std::fs::read_to_string(err).unwrap()))
}

/// Runs `test` in a child and wants it to succeed.
fn must(test: &str, library: &Path, env: &[(&str, &str)], redirect: bool) {
    let Some((success, out, err)) = child(test, library, env, redirect) else { return };
    assert!(success, "{test} on {}:\n{out}\n{err}", library.display());
}

/// In a child: the library it is to use.
fn given() -> Option<PathBuf> {
    std::env::var_os("CUFILE_FFI_CHILD").map(PathBuf::from)
}

/// The exported names that cufile.h of each version has, from `nm -D` of the wheels.
fn expected(name: &str, version: Version) -> bool {
    let at = |minor: i32| version >= Version::new(1, minor);
    let name = name.strip_prefix("cuFile").unwrap();
    match name {
        "GetParameterSizeT" | "SetParameterSizeT" | "GetParameterBool" | "SetParameterBool" | "GetParameterString"
        | "SetParameterString" => at(14),
        "GetBARSizeInKB"
        | "GetParameterMinMaxValue"
        | "GetParameterPosixPoolSlabArray"
        | "SetParameterPosixPoolSlabArray"
        | "SetStatsLevel"
        | "GetStatsLevel"
        | "StatsStart"
        | "StatsStop"
        | "StatsReset"
        | "GetStatsL1"
        | "GetStatsL2"
        | "GetStatsL3" => at(15),
        "DriverGetP2PFlags" | "DriverSetP2PFlags" => at(16),
        "ExportPCIeTopology" | "GetParameterGpuBounceBufferSlabArray" | "SetParameterGpuBounceBufferSlabArray" => {
            at(17)
        }
        "Readv" | "Writev" => at(19),
        _ => true,
    }
}

#[test]
fn every_version_has_exactly_the_functions_of_the_table_and_tells_its_version() {
    if let Some(path) = given() {
        let library = Library::open(&Search::only(&path)).unwrap();
        let version = library.version().unwrap();
        let mut text = String::new();
        for (symbol, present) in library.symbols().present() {
            assert_eq!(present, expected(symbol.name, version), "{} in {version}", symbol.name);
            assert_eq!(
                present,
                symbol.since <= version,
                "{} is said to be there from {} on",
                symbol.name,
                symbol.since
            );
            write!(text, "{} ", symbol.name).unwrap();
        }
        assert_eq!(library.path().unwrap(), path.canonicalize().unwrap());
        assert_eq!(std::env::var("EXPECT_VERSION").unwrap(), version.to_string());
        return;
    }
    for (version, wheel) in wheels() {
        let path = inside(&wheel, "lib/libcufile.so.0");
        must(
            "every_version_has_exactly_the_functions_of_the_table_and_tells_its_version",
            &path,
            &[("EXPECT_VERSION", &version.to_string())],
            false,
        );
    }
}

#[test]
fn every_public_function_of_each_header_is_in_the_table() {
    for (version, wheel) in wheels() {
        let header = std::fs::read_to_string(inside(&wheel, "include/cufile.h")).unwrap();
        let mut seen = 0;
        for line in header.lines().filter(|l| !l.trim_start().starts_with('*') && !l.trim_start().starts_with("/*")) {
            for (at, _) in line.match_indices("cuFile") {
                let name: String = line[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if line[at + name.len()..].starts_with('(') {
                    seen += 1;
                    assert!(
                        cufile_ffi::symbols::SYMBOLS.iter().any(|s| s.name == name && s.since <= version),
                        "{name} of cufile.h {version} is not in the table, or with a later version"
                    );
                }
            }
        }
        assert!(seen >= 24, "cufile.h {version} seems to have {seen} functions only");
    }
}

/// Prints from C what the header says; each item is a C expression.
fn ask_header(include: &Path, items: &[String]) -> Option<Vec<i64>> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // cufile.h wants cuda.h for two types only; the toolkit's is not needed.
    std::fs::write(dir.path().join("cuda.h"), "typedef int CUresult; typedef struct CUstream_st *CUstream;\n").unwrap();
    let mut source = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/types.h>\n#include <time.h>\n#include <cufile.h>\nint main(void) {\n".to_owned();
    for item in items {
        writeln!(source, "printf(\"%lld\\n\", (long long)({item}));").unwrap();
    }
    source.push_str("return 0; }\n");
    let c = dir.path().join("ask.c");
    std::fs::write(&c, source).unwrap();
    let program = dir.path().join("ask");
    let out = Command::new("cc")
        .arg("-w")
        .arg("-I")
        .arg(dir.path())
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&program)
        .arg(&c)
        .output();
    let out = match out {
        Ok(out) => out,
        Err(e) => {
            eprintln!("skipped: no C compiler to read cufile.h with: {e}");
            return None;
        }
    };
    assert!(out.status.success(), "cc: {}", String::from_utf8_lossy(&out.stderr));
    let out = Command::new(&program).output().unwrap();
    Some(String::from_utf8(out.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect())
}

macro_rules! layout {
    ($list:ident, $c:literal, $t:ty $(, $($field:ident).+ = $c_field:literal)*) => {
        $list.push((format!("sizeof({})", $c), size_of::<$t>() as i64));
        $($list.push((format!("offsetof({}, {})", $c, $c_field), std::mem::offset_of!($t, $($field).+) as i64));)*
    };
}

#[test]
fn layouts_and_values_are_those_of_every_header() {
    for (version, wheel) in wheels() {
        let at = |minor: i32| version >= Version::new(1, minor);
        let mut list: Vec<(String, i64)> = Vec::new();
        layout!(list, "CUfileError_t", CUfileError, err = "err", cu_err = "cu_err");
        layout!(list, "CUfileDescr_t", CUfileDescr, handle_type = "type", handle = "handle", fs_ops = "fs_ops");
        layout!(
            list,
            "CUfileFSOps_t",
            CUfileFSOps,
            fs_type = "fs_type",
            get_rdma_device_list = "getRDMADeviceList",
            get_rdma_device_priority = "getRDMADevicePriority",
            read = "read",
            write = "write"
        );
        layout!(
            list,
            "cufileRDMAInfo_t",
            CUfileRdmaInfo,
            version = "version",
            desc_len = "desc_len",
            desc_str = "desc_str"
        );
        layout!(
            list,
            "CUfileDrvProps_t",
            CUfileDrvProps,
            nvfs.major_version = "nvfs.major_version",
            nvfs.minor_version = "nvfs.minor_version",
            nvfs.poll_thresh_size = "nvfs.poll_thresh_size",
            nvfs.max_direct_io_size = "nvfs.max_direct_io_size",
            nvfs.dstatusflags = "nvfs.dstatusflags",
            nvfs.dcontrolflags = "nvfs.dcontrolflags",
            fflags = "fflags",
            max_device_cache_size = "max_device_cache_size",
            per_buffer_cache_size = "per_buffer_cache_size",
            max_device_pinned_mem_size = "max_device_pinned_mem_size",
            max_batch_io_size = "max_batch_io_size",
            max_batch_io_timeout_msecs = "max_batch_io_timeout_msecs"
        );
        layout!(
            list,
            "CUfileIOParams_t",
            CUfileIOParams,
            mode = "mode",
            dev_ptr_base = "u.batch.devPtr_base",
            file_offset = "u.batch.file_offset",
            dev_ptr_offset = "u.batch.devPtr_offset",
            size = "u.batch.size",
            fh = "fh",
            opcode = "opcode",
            cookie = "cookie"
        );
        layout!(list, "CUfileIOEvents_t", CUfileIOEvents, cookie = "cookie", status = "status", ret = "ret");
        if at(19) {
            layout!(list, "CUfileIOVec_t", CUfileIOVec, base = "base", len = "len");
        }
        for (code, description) in codes::known() {
            let since_15 = (5039..=5049).contains(&code);
            if code < 6000 && (at(15) || !since_15) {
                list.push((description.name.to_owned(), i64::from(code)));
            }
        }
        list.push(("CU_FILE_IO_MAX_ERROR".to_owned(), if at(15) { 5050 } else { 5039 }));
        let known = |name: &str, value: u32| (name.to_owned(), i64::from(value));
        list.push(known("CU_FILE_HANDLE_TYPE_OPAQUE_FD", values::HANDLE_TYPE_OPAQUE_FD));
        list.push(known("CU_FILE_HANDLE_TYPE_USERSPACE_FS", values::HANDLE_TYPE_USERSPACE_FS));
        list.push(known("CUFILE_BATCH", values::BATCH_MODE));
        list.push(known("CUFILE_READ", values::OPCODE_READ));
        list.push(known("CUFILE_WRITE", values::OPCODE_WRITE));
        list.push(known("CUFILE_WAITING", values::BATCH_WAITING));
        list.push(known("CUFILE_COMPLETE", values::BATCH_COMPLETE));
        list.push(known("CUFILE_FAILED", values::BATCH_FAILED));
        list.push(known("CU_FILE_STREAM_PAGE_ALIGNED_INPUTS", values::STREAM_PAGE_ALIGNED_INPUTS));
        list.push(known("CU_FILE_RDMA_RELAXED_ORDERING", values::BUF_RDMA_RELAXED_ORDERING));
        list.push(known("CU_FILE_BEEGFS_SUPPORTED", values::TRANSPORT_BEEGFS));
        list.push(known("CU_FILE_ALLOW_COMPAT_MODE", values::CONTROL_ALLOW_COMPAT_MODE));
        list.push(known("CU_FILE_PARALLEL_IO_SUPPORTED", values::FEATURE_PARALLEL_IO));
        if at(14) {
            list.push(known("CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS", values::PARAM_BATCH_IO_TIMEOUT_MS));
            list.push(known("CUFILE_PARAM_STREAM_MEMOPS_BYPASS", values::PARAM_STREAM_MEMOPS_BYPASS));
            list.push(known("CUFILE_PARAM_LOG_DIR", values::PARAM_LOG_DIR));
        }
        if at(15) {
            let (l1, l2, l3) = if at(19) { (624, 1136, 5112) } else { (512, 1024, 5000) };
            list.push(("sizeof(CUfileStatsLevel1_t)".to_owned(), l1));
            list.push(("sizeof(CUfileStatsLevel2_t)".to_owned(), l2));
            list.push(("sizeof(CUfileStatsLevel3_t)".to_owned(), l3));
            list.push(("sizeof(CUfilePerGpuStats_t)".to_owned(), 248));
            for (structure, fields) in cufile_ffi::stats::offsets(at(19)) {
                for (field, offset) in fields {
                    list.push((format!("offsetof({structure}, {field})"), offset as i64));
                }
            }
        }
        if at(16) {
            list.push(known("CU_FILE_SCATEFS_SUPPORTED", values::TRANSPORT_SCATEFS));
            list.push(known("CU_FILE_VIRTIOFS_SUPPORTED", values::TRANSPORT_VIRTIOFS));
            list.push(known("CUFILE_NVIDIA_PEERMEM", values::P2P_NVIDIA_PEERMEM));
        }
        if at(20) {
            list.push(known("CU_FILE_PANFS_SUPPORTED", values::TRANSPORT_PANFS));
            list.push(known("CU_FILE_FALLBACK_IO_MODE", values::CONTROL_FALLBACK_IO));
            list.push(known("CUFILE_PARAM_GDS_FALLBACK_IO", values::PARAM_GDS_FALLBACK_IO));
            list.push(known("CUFILE_PARAM_RDMA_TRANSPORT", values::PARAM_RDMA_TRANSPORT));
        }
        let items: Vec<String> = list.iter().map(|(item, _)| item.clone()).collect();
        let header = inside(&wheel, "include/cufile.h");
        let Some(answers) = ask_header(header.parent().unwrap(), &items) else { return };
        assert_eq!(answers.len(), list.len());
        for ((item, ours), theirs) in list.iter().zip(answers) {
            assert_eq!(*ours, theirs, "{item} of cufile.h {version}");
        }
    }
}

/// A stream that runs at once, as the stand-in's do.
struct Still;

// SAFETY: null is the default stream; the stand-in does every transfer inside the call.
unsafe impl IoStream for Still {
    fn raw(&self) -> CUstream {
        std::ptr::null_mut()
    }

    fn synchronize(&self) -> Result<(), String> {
        Ok(())
    }
}

const MIB: usize = 1 << 20;

/// A file of 4 MiB and 123 bytes, every eight bytes telling their offset.
fn telling_file(path: &Path) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..4 * MIB as u64 / 8).flat_map(|i| (8 * i).to_le_bytes()).collect();
    bytes.extend(std::iter::repeat_n(7, 123));
    std::fs::write(path, &bytes).unwrap();
    bytes
}

fn open_for_test(library: &Path) -> Driver {
    let library = Library::open(&Search::only(library)).unwrap();
    library.set_stats_level(3).unwrap();
    let driver = Driver::open(&library, &OpenOptions::default()).unwrap();
    assert!(Path::new("elsewhere.log").exists() && !Path::new("cufile.log").exists(), "where the log went");
    driver.stats_start().unwrap();
    driver
}

/// Everything on host memory, of the real library or the stand-in.
fn exercise(path: &Path) {
    let driver = open_for_test(path);
    let library = driver.library().clone();
    assert_eq!(library.use_count().unwrap(), 1);
    let bytes = telling_file(Path::new("data"));
    let open = || std::fs::OpenOptions::new().read(true).write(true).open("data").unwrap();

    let borrowed = open();
    let handle = Arc::new(FileHandle::register(&driver, borrowed.try_clone().unwrap()).unwrap());
    let memory = Arc::new(HostMemory::new(8 * MIB).unwrap());
    // Aligned, unaligned, at the end, beyond it.
    for (offset, len, from, want) in
        [(0, MIB, 0, MIB), (13, 4097, 5, 4097), (4096, 8192, 4 * MIB as u64, 123), (0, 4096, 5 * MIB as u64, 0)]
    {
        assert_eq!(handle.read_at(&*memory, offset, len, from).unwrap(), want, "{len} bytes at {from}");
        assert_eq!(memory.read(offset, want).unwrap(), bytes[(from as usize).min(bytes.len())..][..want]);
    }
    assert!(matches!(handle.read_at(&*memory, 8 * MIB - 1, 2, 0), Err(Error::OutOfBounds(_))));

    // Registered memory, and the codes of a second registration.
    let registration = driver.register(&memory, 0, 8 * MIB, 0).unwrap();
    assert_eq!(driver.register(&memory, 0, MIB, 0).unwrap_err().code(), Some(codes::MEMORY_ALREADY_REGISTERED));
    assert_eq!(handle.read_at(&registration, MIB, MIB, 2 * MIB as u64).unwrap(), MIB);
    assert_eq!(memory.read(MIB, MIB).unwrap(), bytes[2 * MIB..3 * MIB]);
    assert!(matches!(handle.read_at(&registration, 8 * MIB, 1, 0), Err(Error::OutOfBounds(_))));

    // Several threads into parts of one memory.
    std::thread::scope(|scope| {
        for part in 0..4_usize {
            let (handle, memory) = (&handle, &memory);
            scope.spawn(move || {
                assert_eq!(handle.read_at(&**memory, part * MIB, MIB, (part * MIB) as u64).unwrap(), MIB)
            });
        }
    });
    assert_eq!(memory.read(0, 4 * MIB).unwrap(), bytes[..4 * MIB]);

    // Writing, read back by other means.
    memory.write(100, b"written by cuFile").unwrap();
    assert_eq!(handle.write_at(&*memory, 0, 4096, 8192).unwrap(), 4096);
    assert_eq!(&std::fs::read("data").unwrap()[8192 + 100..][..17], b"written by cuFile");

    // A batch, more than may be in flight, and the batch again.
    let mut batch = Batch::new(&driver, 64, Route::MaybeCompat).unwrap();
    assert_eq!(batch.limit(), 32);
    let entry = |i: usize| BatchEntry {
        direction: Direction::Read,
        handle: Arc::clone(&handle),
        memory: Arc::clone(&memory) as Arc<dyn cufile_ffi::IoMemory>,
        memory_offset: 4 * MIB + i * 65536,
        len: 65536,
        file_offset: (MIB + i * 65536) as u64,
    };
    assert!(matches!(batch.submit((0..33).map(entry).collect()), Err(Error::Refused(_))));
    for _ in 0..3 {
        batch.submit((0..32).map(entry).collect()).unwrap();
        let results = batch.collect(Duration::from_secs(20)).unwrap();
        assert_eq!(results.len(), 32);
        for (i, result) in results.iter().enumerate() {
            assert_eq!((result.index, result.bytes.clone()), (i, Ok(65536)));
        }
        assert_eq!(memory.read(4 * MIB, 2 * MIB).unwrap(), bytes[MIB..3 * MIB]);
    }
    drop(batch);

    // Vectored transfers, or the version that has them.
    let pieces =
        [Piece { memory: &*memory, offset: 0, len: 4096 }, Piece { memory: &*memory, offset: 8192, len: 4096 }];
    match handle.readv_at(&pieces, 65536) {
        Ok(n) => {
            assert_eq!(n, 8192);
            assert_eq!(memory.read(8192, 4096).unwrap(), bytes[65536 + 4096..][..4096]);
        }
        Err(Error::MissingSymbol { symbol, since, loaded }) => {
            assert_eq!((symbol, since, loaded), ("cuFileReadv", Version::new(1, 19), library.version()));
            assert!(library.version().unwrap() < since);
        }
        Err(e) => panic!("{e}"),
    }

    // The same descriptor again, the properties, parameters while open.
    {
        use std::os::fd::AsFd;
        let again = FileHandle::register_borrowed(&driver, handle.as_fd()).unwrap_err();
        assert_eq!(again.code(), Some(codes::HANDLE_ALREADY_REGISTERED), "{again}");
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(FileHandle::register(&driver, null).unwrap_err().code(), Some(codes::INVALID_FILE_TYPE));
    }
    match driver.properties() {
        Ok(properties) => assert_eq!(properties.nvfs.major_version, 0),
        // 1.16 without a GPU.
        Err(e) => assert_eq!(e.code(), Some(codes::CUDA_DRIVER_ERROR), "{e}"),
    }
    assert_eq!(library.set_size(values::PARAM_IO_BATCHSIZE, 64).unwrap_err().code(), Some(codes::DRIVER_ALREADY_OPEN));
    assert_eq!(library.posix_pool_slabs().unwrap().iter().map(|s| s.count).collect::<Vec<_>>(), [128, 64, 64]);
    assert_eq!(library.size_range(values::PARAM_IO_BATCHSIZE).unwrap(), (1, 256));

    // Level 1 counts what was done; level 2 sums to it.
    let l1: StatsL1 = driver.stats_l1().unwrap();
    assert_eq!(l1.basic.buf_register_ops.ok, 1, "{l1:?}");
    assert!(l1.basic.read_ops.ok >= 8, "{l1:?}");
    assert!(l1.basic.read_bytes >= 6 * MIB as u64, "{l1:?}");
    assert_eq!(l1.basic.write_bytes, 4096, "{l1:?}");
    assert_eq!(l1.vectored.is_some(), library.version().unwrap() >= Version::new(1, 19));
    if let Some(vectored) = l1.vectored {
        assert_eq!((vectored.readv_ops.ok, vectored.readv_bytes), (1, 8192), "{vectored:?}");
    }
    let l3: StatsL3 = driver.stats_l3().unwrap();
    assert_eq!(l3.detailed.totals.basic.read_ops.ok, l1.basic.read_ops.ok);
    assert_eq!(driver.stats_l2().unwrap().totals.basic.write_bytes, 4096);
    driver.stats_stop().unwrap();

    // Released in whatever order they are dropped.
    let other = FileHandle::register(&driver, open()).unwrap();
    drop(driver);
    drop(memory);
    drop(other);
    registration.deregister().unwrap();
    assert_eq!(library.use_count().unwrap(), 1);
    drop(handle);
    assert_eq!(library.use_count().unwrap(), 0);
}

#[test]
fn the_real_library_serves_host_memory_from_1_16_on() {
    if let Some(path) = given() {
        return exercise(&path);
    }
    for (version, wheel) in wheels() {
        if version >= Version::new(1, 16) {
            must("the_real_library_serves_host_memory_from_1_16_on", &inside(&wheel, "lib/libcufile.so.0"), &[], true);
        }
    }
}

#[test]
fn an_open_that_would_never_return_is_refused() {
    if let Some(path) = given() {
        let library = Library::open(&Search::only(path)).unwrap();
        let error = Driver::open(&library, &OpenOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Refused(words) if words.contains("/proc/modules")), "{error}");
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let Some(built) = standins::build() else { return };
    let env =
        [("LD_PRELOAD", built.redirect.to_str().unwrap()), ("GDS_TOP_TEST_REDIRECT", empty.path().to_str().unwrap())];
    for (version, wheel) in wheels() {
        if version >= Version::new(1, 16) {
            must("an_open_that_would_never_return_is_refused", &inside(&wheel, "lib/libcufile.so.0"), &env, false);
        }
    }
    must("an_open_that_would_never_return_is_refused", &built.cufile, &env, false);
}

#[test]
fn a_library_before_1_16_fails_to_open_without_a_gpu_with_code_and_words_and_leaves_stdout_alone() {
    const NAME: &str = "a_library_before_1_16_fails_to_open_without_a_gpu_with_code_and_words_and_leaves_stdout_alone";
    if let Some(path) = given() {
        let library = Library::open(&Search::only(path)).unwrap();
        let error = Driver::open(&library, &OpenOptions::default()).unwrap_err();
        let answer = error.cufile().unwrap();
        assert!([codes::NVFS_SETUP_ERROR, codes::CUDA_DRIVER_ERROR].contains(&answer.err), "{error}");
        assert!(answer.name().is_some() && answer.call == "cuFileDriverOpen");
        return;
    }
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    for (version, wheel) in wheels() {
        if version < Version::new(1, 16) {
            let Some((success, out, err)) = child(NAME, &inside(&wheel, "lib/libcufile.so.0"), &[], false) else {
                return;
            };
            assert!(success, "{version}: {out}\n{err}");
            assert!(!out.contains("cuFile") && !out.contains("libcuda"), "on stdout: {out}");
            assert!(err.contains("libcuda"), "the library's words belong on stderr: {err}");
        }
    }
}

#[test]
fn the_standin_answers_like_the_real_library_in_both_layouts() {
    const NAME: &str = "the_standin_answers_like_the_real_library_in_both_layouts";
    if let Some(path) = given() {
        return exercise(&path);
    }
    let Some(built) = standins::build() else { return };
    for version in ["1150", "1180", "1200"] {
        must(NAME, &built.cufile, &[("STANDIN_CUFILE_VERSION", version)], true);
    }
}

#[test]
fn level_3_tells_the_route_of_each_read() {
    const NAME: &str = "level_3_tells_the_route_of_each_read";
    if let Some(path) = given() {
        let driver = open_for_test(&path);
        telling_file(Path::new("data"));
        let handle = FileHandle::register(&driver, std::fs::File::open("data").unwrap()).unwrap();
        let memory = HostMemory::new(MIB).unwrap();
        handle.read_at(&memory, 0, MIB, 0).unwrap();
        handle.read_at(&memory, 0, MIB, 0).unwrap();
        let stats = driver.stats_l3().unwrap();
        let gpu = &stats.gpus[0];
        assert_eq!(&gpu.uuid, b"stand-in GPU    ");
        assert_eq!((gpu.counters.n_total_reads, gpu.counters.n_nvfs_reads, gpu.counters.n_posix_reads), (2, 2, 0));
        assert_eq!(gpu.counters.read_bytes, 2 * MIB as u64);
        assert_eq!(stats.detailed.read_size_kb_hist.iter().sum::<u64>(), 2);
        return;
    }
    let Some(built) = standins::build() else { return };
    for version in ["1180", "1200"] {
        must(NAME, &built.cufile, &[("STANDIN_CUFILE_VERSION", version), ("STANDIN_CUFILE_ROUTE", "nvfs")], true);
    }
}

#[test]
fn every_failure_keeps_its_codes() {
    if let Some(path) = given() {
        let driver = open_for_test(&path);
        telling_file(Path::new("data"));
        let handle = Arc::new(FileHandle::register(&driver, std::fs::File::open("data").unwrap()).unwrap());
        let memory = Arc::new(HostMemory::new(MIB).unwrap());
        let read = || handle.read_at(&*memory, 0, 4096, 0);
        // cuFileRead: 5 as errno the first time, a cuFile code the second, then well.
        let error = read().unwrap_err();
        let answer = error.cufile().unwrap();
        assert_eq!((answer.err, answer.errno), (0, Some(5)), "{error}");
        assert_eq!(read().unwrap_err().code(), Some(codes::IO_ERROR));
        assert_eq!(read(), Ok(4096));
        let error = driver.register(&memory, 0, MIB, 0).unwrap_err();
        let answer = error.cufile().unwrap();
        assert_eq!((answer.err, answer.cu_err), (codes::CUDA_DRIVER_ERROR, 2), "{error}");
        assert_eq!(driver.library().use_count().unwrap(), 1);
        // A batch in which the second entry fails tells of that one only.
        let entry = |i: usize| BatchEntry {
            direction: Direction::Read,
            handle: Arc::clone(&handle),
            memory: Arc::clone(&memory) as Arc<dyn cufile_ffi::IoMemory>,
            memory_offset: i * 4096,
            len: 4096,
            file_offset: 0,
        };
        let mut batch = Batch::new(&driver, 8, Route::MaybeCompat).unwrap();
        assert_eq!(batch.submit((0..3).map(entry).collect()).unwrap_err().code(), Some(codes::BATCH_FULL));
        batch.submit((0..3).map(entry).collect()).unwrap();
        let results = batch.collect(Duration::from_secs(5)).unwrap();
        let codes: Vec<_> = results.iter().map(|r| r.bytes.as_ref().err().and_then(Error::code)).collect();
        assert_eq!(codes, [None, Some(codes::IO_ERROR), None]);
        drop(batch);
        // On a stream: refused at submission, failed later, then well.
        let stream = StreamIo::register(&driver, &Arc::new(Still), values::STREAM_PAGE_ALIGNED_INPUTS).unwrap();
        let submit = || stream.transfer(Direction::Read, &handle, Arc::clone(&memory) as Arc<_>, 0, 4096, 0);
        assert_eq!(submit().err().unwrap().code(), Some(codes::ASYNC_NOT_SUPPORTED));
        assert_eq!(submit().unwrap().wait().unwrap_err().code(), Some(codes::INTERNAL_ERROR));
        assert_eq!(submit().unwrap().wait(), Ok(4096));
        return;
    }
    let Some(built) = standins::build() else { return };
    let told = "cuFileRead:5:1,cuFileRead:5044:2,cuFileBufRegister:5011,cuFileBatchIOSubmit:5037:1,cuFileBatchIO.entry:5044:2,\
                cuFileReadAsync:5038:1,cuFileReadAsync.later:5030:1";
    must("every_failure_keeps_its_codes", &built.cufile, &[("STANDIN_CUFILE_FAIL", told)], true);
}

#[test]
fn a_rude_open_neither_closes_stdin_nor_writes_to_stdout() {
    const NAME: &str = "a_rude_open_neither_closes_stdin_nor_writes_to_stdout";
    if let Some(path) = given() {
        drop(open_for_test(&path));
        assert!(std::fs::metadata("/proc/self/fd/0").is_ok(), "descriptor 0 is closed");
        return;
    }
    let Some(built) = standins::build() else { return };
    let env = [("STANDIN_CUFILE_RUDE", "1")];
    let Some((success, out, err)) = child(NAME, &built.cufile, &env, true) else { return };
    assert!(success, "{out}\n{err}");
    assert!(!out.contains("words on standard output") && err.contains("words on standard output"), "{out}\n{err}");
}

#[test]
fn without_a_place_for_its_log_the_driver_is_not_opened() {
    const NAME: &str = "without_a_place_for_its_log_the_driver_is_not_opened";
    if let Some(path) = given() {
        // SAFETY: the test process runs this one test; its other thread only waits.
        unsafe { std::env::remove_var(cufile_ffi::ENV_LOGFILE) };
        let library = Library::open(&Search::only(path)).unwrap();
        let error = Driver::open(&library, &OpenOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Refused(words) if words.contains("CUFILE_LOGFILE_PATH")), "{error}");
        assert_eq!(library.use_count().unwrap(), 0);
        drop(Driver::open(&library, &OpenOptions { log_in_working_directory: true }).unwrap());
        return;
    }
    let Some(built) = standins::build() else { return };
    must(NAME, &built.cufile, &[], true);
}

#[test]
fn a_file_that_is_no_libcufile_is_told_apart_with_the_loaders_words() {
    let Some(built) = standins::build() else { return };
    let Err(Error::NotFound { tried }) = Library::open(&Search::only(&built.nvml)) else {
        panic!("NVML was taken for libcufile")
    };
    assert!(tried[0].error.as_deref().unwrap().contains("not libcufile"), "{tried:?}");
    let Err(error) = Library::open(&Search::only("/nonexistent/libcufile.so.0")) else { panic!("nothing was loaded") };
    assert!(error.to_string().contains("/nonexistent/libcufile.so.0: cannot open shared object file"), "{error}");
}
