//! Tests the safe layer with host memory, on the real libraries of the wheels (see abi.rs) and on the stand-in
//! library. Each runs in a child process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cufile_ffi::raw::CUstream;
use cufile_ffi::stats::{StatsL1, StatsL3};
use cufile_ffi::{
    Batch, BatchEntry, Direction, Driver, Error, FileHandle, HostMemory, IoStream, Library, Notice, OpenOptions, Route,
    Search, StreamIo, Version, codes, values,
};

use common::{child, given, inside, must, standins, wheels};

/// A stream whose work is done immediately, as in the stand-in library.
struct Still;

// SAFETY: null is the default stream. The stand-in library makes every transfer inside the call.
unsafe impl IoStream for Still {
    fn raw(&self) -> CUstream {
        std::ptr::null_mut()
    }

    fn synchronize(&self) -> Result<(), String> {
        Ok(())
    }

    fn notify(&self, notice: Notice) -> Result<(), String> {
        notice(Ok(()));
        Ok(())
    }
}

const MIB: usize = 1 << 20;

/// Writes a file of 4 MiB and 123 bytes in which every eight bytes contain their offset.
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

/// Tests all operations with host memory, on the real or the stand-in library.
fn exercise(path: &Path) {
    let driver = open_for_test(path);
    let library = driver.library().clone();
    assert_eq!(library.use_count().unwrap(), 1);
    let bytes = telling_file(Path::new("data"));
    let open = || std::fs::OpenOptions::new().read(true).write(true).open("data").unwrap();

    let borrowed = open();
    let handle = Arc::new(FileHandle::register(&driver, borrowed.try_clone().unwrap()).unwrap());
    let memory = Arc::new(HostMemory::new(8 * MIB).unwrap());
    // The reads are aligned, unaligned, at the end, and after the end.
    for (offset, len, from, want) in
        [(0, MIB, 0, MIB), (13, 4097, 5, 4097), (4096, 8192, 4 * MIB as u64, 123), (0, 4096, 5 * MIB as u64, 0)]
    {
        assert_eq!(handle.read_at(&*memory, offset, len, from).unwrap(), want, "{len} bytes at {from}");
        assert_eq!(memory.read(offset, want).unwrap(), bytes[(from as usize).min(bytes.len())..][..want]);
    }
    assert!(matches!(handle.read_at(&*memory, 8 * MIB - 1, 2, 0), Err(Error::OutOfBounds(_))));

    // Tests registered memory, and the codes of a second registration.
    let registration = driver.register(&memory, 0, 8 * MIB, 0).unwrap();
    assert_eq!(driver.register(&memory, 0, MIB, 0).unwrap_err().code(), Some(codes::MEMORY_ALREADY_REGISTERED));
    assert_eq!(handle.read_at(&registration, MIB, MIB, 2 * MIB as u64).unwrap(), MIB);
    assert_eq!(memory.read(MIB, MIB).unwrap(), bytes[2 * MIB..3 * MIB]);
    assert!(matches!(handle.read_at(&registration, 8 * MIB, 1, 0), Err(Error::OutOfBounds(_))));

    // Several threads read to parts of the same memory.
    std::thread::scope(|scope| {
        for part in 0..4_usize {
            let (handle, memory) = (&handle, &memory);
            scope.spawn(move || {
                assert_eq!(handle.read_at(&**memory, part * MIB, MIB, (part * MIB) as u64).unwrap(), MIB)
            });
        }
    });
    assert_eq!(memory.read(0, 4 * MIB).unwrap(), bytes[..4 * MIB]);

    // A write is read back without cuFile.
    memory.write(100, b"written by cuFile").unwrap();
    assert_eq!(handle.write_at(&*memory, 0, 4096, 8192).unwrap(), 4096);
    assert_eq!(&std::fs::read("data").unwrap()[8192 + 100..][..17], b"written by cuFile");

    // A batch with more entries than permitted, and then the same batch again.
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
        let results = batch.collect(Duration::from_secs(180)).unwrap();
        assert_eq!(results.len(), 32);
        for (i, result) in results.iter().enumerate() {
            assert_eq!((result.index, result.bytes.clone()), (i, Ok(65536)));
        }
        assert_eq!(memory.read(4 * MIB, 2 * MIB).unwrap(), bytes[MIB..3 * MIB]);
    }
    drop(batch);

    // A shorter registration at the same base. In compat mode every entry has its own address, so the memory after
    // the range is not registered, but its bytes arrive.
    let short_memory = Arc::new(HostMemory::new(2 * MIB).unwrap());
    let short = driver.register(&short_memory, 0, MIB, 0).unwrap();
    let mut batch = Batch::new(&driver, 4, Route::MaybeCompat).unwrap();
    let beyond = BatchEntry { memory: Arc::clone(&short_memory) as Arc<_>, memory_offset: MIB + 65536, ..entry(0) };
    batch.submit(vec![beyond, entry(0)]).unwrap();
    for result in batch.collect(Duration::from_secs(180)).unwrap() {
        assert_eq!(result.bytes, Ok(65536));
    }
    assert_eq!(short_memory.read(MIB + 65536, 65536).unwrap(), bytes[MIB..MIB + 65536]);
    drop(batch);
    short.deregister().unwrap();

    // The same descriptor is registered again, and properties and parameters are read while the driver is open.
    {
        use std::os::fd::AsFd;
        let again = FileHandle::register_borrowed(&driver, handle.as_fd()).unwrap_err();
        assert_eq!(again.code(), Some(codes::HANDLE_ALREADY_REGISTERED), "{again}");
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(FileHandle::register(&driver, null).unwrap_err().code(), Some(codes::INVALID_FILE_TYPE));
    }
    match driver.properties() {
        Ok(properties) => assert_eq!(properties.nvfs.major_version, 0),
        // Version 1.16 returns this without a GPU.
        Err(e) => assert_eq!(e.code(), Some(codes::CUDA_DRIVER_ERROR), "{e}"),
    }
    assert_eq!(
        library.set_flag(values::PARAM_FORCE_COMPAT_MODE, true).unwrap_err().code(),
        Some(codes::DRIVER_ALREADY_OPEN)
    );
    assert_eq!(library.posix_pool_slabs().unwrap().iter().map(|s| s.count).collect::<Vec<_>>(), [128, 64, 64]);
    assert_eq!(library.size_range(values::PARAM_IO_BATCHSIZE).unwrap(), (1, 256));

    // Level 3 contains the totals of level 1, which count all transfers.
    let l3: StatsL3 = driver.stats_l3().unwrap();
    let l1: &StatsL1 = &l3.detailed.totals;
    assert_eq!(l1.basic.buf_register_ops.ok, 2, "{l1:?}");
    assert!(l1.basic.read_ops.ok >= 8, "{l1:?}");
    assert!(l1.basic.read_bytes >= 6 * MIB as u64, "{l1:?}");
    assert_eq!(l1.basic.write_bytes, 4096, "{l1:?}");
    assert_eq!(l1.vectored.is_some(), library.version().unwrap() >= Version::new(1, 19));
    driver.stats_stop().unwrap();

    // The objects can be dropped in any order.
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
        standins::skipped("this machine has a GPU");
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
        // The first cuFileRead fails with errno 5, the second with a cuFile code, and the third succeeds.
        let error = read().unwrap_err();
        let answer = error.cufile().unwrap();
        assert_eq!((answer.err, answer.errno), (0, Some(5)), "{error}");
        assert_eq!(read().unwrap_err().code(), Some(codes::IO_ERROR));
        assert_eq!(read(), Ok(4096));
        let error = driver.register(&memory, 0, MIB, 0).unwrap_err();
        let answer = error.cufile().unwrap();
        assert_eq!((answer.err, answer.cu_err), (codes::CUDA_DRIVER_ERROR, 2), "{error}");
        assert_eq!(driver.library().use_count().unwrap(), 1);
        // In a batch whose second entry fails, only that entry has an error.
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
        let results = batch.collect(Duration::from_secs(180)).unwrap();
        let codes: Vec<_> = results.iter().map(|r| r.bytes.as_ref().err().and_then(Error::code)).collect();
        assert_eq!(codes, [None, Some(codes::IO_ERROR), None]);
        drop(batch);
        // On a stream, the first transfer is rejected at submission, the second fails later, and the third succeeds.
        let stream = StreamIo::register(&driver, &Arc::new(Still), values::STREAM_PAGE_ALIGNED_INPUTS).unwrap();
        let submit = || stream.transfer(Direction::Read, &handle, Arc::clone(&memory) as Arc<_>, 0, 4096, 0);
        assert_eq!(submit().err().unwrap().code(), Some(codes::ASYNC_NOT_SUPPORTED));
        assert_eq!(submit().unwrap().wait().unwrap_err().code(), Some(codes::INTERNAL_ERROR));
        let (tell, told) = std::sync::mpsc::channel();
        let io = submit().unwrap();
        io.on_end(move |bytes| tell.send(bytes).unwrap()).unwrap();
        assert_eq!((told.recv().unwrap(), io.wait()), (Ok(4096), Ok(4096)));
        return;
    }
    let Some(built) = standins::build() else { return };
    let told = "cuFileRead:5:1,cuFileRead:5044:2,cuFileBufRegister:5011,cuFileBatchIOSubmit:5037:1,cuFileBatchIO.entry:5044:2,\
                cuFileReadAsync:5038:1,cuFileReadAsync.later:5030:1";
    must("every_failure_keeps_its_codes", &built.cufile, &[("STANDIN_CUFILE_FAIL", told)], true);
}

/// One of several streams. Only the stand-in library distinguishes them.
struct Numbered(usize);

// SAFETY: the stand-in library uses only the number. It makes every transfer inside the call, because CUDA is not
// loaded.
unsafe impl IoStream for Numbered {
    fn raw(&self) -> CUstream {
        std::ptr::without_provenance_mut(self.0)
    }

    fn synchronize(&self) -> Result<(), String> {
        Ok(())
    }

    fn notify(&self, notice: Notice) -> Result<(), String> {
        notice(Ok(()));
        Ok(())
    }
}

#[test]
fn a_stream_that_is_dropped_takes_no_read_from_one_that_is_not_used_yet() {
    const NAME: &str = "a_stream_that_is_dropped_takes_no_read_from_one_that_is_not_used_yet";
    if let Some(path) = given() {
        let driver = open_for_test(&path);
        let bytes = telling_file(Path::new("data"));
        let handle = Arc::new(FileHandle::register(&driver, std::fs::File::open("data").unwrap()).unwrap());
        let register = |number| StreamIo::register(&driver, &Arc::new(Numbered(number)), 0).unwrap();
        let reads = |stream: &Arc<StreamIo<Numbered>>| {
            let memory = Arc::new(HostMemory::new(4096).unwrap());
            let io = stream.transfer(Direction::Read, &handle, memory.clone(), 0, 4096, 4096).unwrap();
            assert_eq!(io.wait(), Ok(4096));
            memory.read(0, 4096).unwrap() == bytes[4096..8192]
        };
        for round in 0..2 {
            let [first, second] = [10 * round + 1, 10 * round + 2].map(register);
            assert!(reads(&first));
            let let_go = Arc::downgrade(first.stream());
            drop(first);
            assert!(reads(&second), "round {round}");
            assert_eq!(let_go.strong_count(), 1, "kept while another is in use");
            drop(second);
            assert_eq!(let_go.strong_count(), 0, "the last one lets all go");
        }
        return;
    }
    let Some(built) = standins::build() else { return };
    must(NAME, &built.cufile, &[], true);
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
        // SAFETY: the test process runs only this test, and its other thread only waits.
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
