//! Tests of calls without cuFile: reads and mappings by libc, and copies by libcuda.

use crate::harness::{Place, Seen};
use crate::standins;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const LARGE: u64 = 1 << 17;

/// The number and bytes of calls of another function.
fn other(seen: &Seen, function: &str) -> (u64, u64) {
    let calls = seen.report["program"]["other_calls"].as_array().unwrap();
    let call = calls.iter().find(|call| call["function"] == function);
    call.map_or((0, 0), |call| (call["count"].as_u64().unwrap(), call["bytes"].as_u64().unwrap()))
}

#[test]
fn large_reads_of_files_are_recorded_and_small_ones_and_pipes_are_not() {
    let Some(place) = Place::new() else { return };
    for name in ["linked", "loaded"] {
        let seen = place.seen(name, &[], &["plain", "6", "cancel"]);
        assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
        assert_eq!(other(&seen, "pread"), (6, 6 * LARGE), "{}", seen.report["program"]["other_calls"]);
        assert_eq!((other(&seen, "read"), other(&seen, "preadv")), ((1, LARGE), (1, 2 * LARGE)));
        let plain = &seen.file(&place.data())["plain"];
        assert_eq!((&plain["count"], &plain["bytes"]), (&8.into(), &(9 * LARGE).into()));
        // cuFile did not use the file.
        assert_eq!(seen.report["watch"]["files"], serde_json::json!([]));
        assert_eq!(seen.report["watch"]["lost_events"], 0);
    }
}

#[test]
fn touched_parts_of_a_mapping_are_seen_by_tensor() {
    let Some(place) = Place::new() else { return };
    let header = r#"{"first":{"dtype":"U8","shape":[4194304],"data_offsets":[0,4194304]},"last":{"dtype":"U8","shape":[4194304],"data_offsets":[4194304,8388608]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![1; 8 << 20]);
    let path = place.file("model.safetensors");
    std::fs::write(&path, &bytes).unwrap();
    let size = (8 << 20).to_string();
    // A mapping that exists for a while, one that is unmapped at once, and those of programs that end.
    let all: [&[&str]; 5] = [
        &["map", &size],
        &["touch", &size],
        &["glance", &size],
        &["touch", &size, "leave", "0"],
        &["touch", &size, "become"],
    ];
    for words in all {
        touched_half(&place, &path, words);
    }
}

fn touched_half(place: &Place, path: &Path, words: &[&str]) {
    let mut command = place.watch(&["--json"]);
    command.arg(place.file("linked")).arg(path).args(words);
    let seen = Seen::of(command);
    let file = seen.file(path);
    assert_eq!((&file["plain"]["mappings"], &file["plain"]["mapped_bytes"]), (&1.into(), &(8 << 20).into()));
    let touched = file["plain"]["touched_bytes"].as_u64().unwrap();
    // The kernel may map pages next to the touched ones.
    assert!((4 << 20..5 << 20).contains(&touched), "{words:?}: {touched}");
    let tensor = |name: &str| -> u64 {
        let all = file["tensors"].as_array().unwrap();
        all.iter().find(|tensor| tensor["name"] == name).map_or(0, |tensor| tensor["bytes"].as_u64().unwrap())
    };
    assert!(tensor("first") > 4_000_000 && tensor("last") < 1 << 20, "{file}");
    // The other programs can end before procfs is read.
    if words[0] == "map" {
        assert!(seen.report["program"]["process_io"]["minor_faults"].as_u64().unwrap() > 0);
    }
}

/// A stand-in for libcuda whose calls return immediately.
fn libcuda(folder: &Path) {
    let code = r#"
#include <string.h>
int cuMemcpyHtoD_v2(unsigned long to, const void *from, unsigned long n) { return 0; }
static int async(unsigned long to, const void *from, unsigned long n, void *stream) { return n ? 0 : 1; }
int cuMemcpy2D_v2(const unsigned long *description) { return description[14] != 1000; }
int cuMemcpy3DAsync_v2(const unsigned long *description, void *stream) { return description[24] != 30; }
int cuMemcpy3DBatchAsync_v2_ptsz(unsigned long count, const unsigned long *operations) { return operations[14 + 12] != 3; }
int cuMemcpyHtoA_v2_ptds(void *to, unsigned long offset, const void *from, unsigned long n) { return n != 77; }
int cuMemPrefetchAsync(unsigned long at, unsigned long n, int device, void *stream) { return device; }
/* The last two arguments are on the stack. */
static int batch(void *to, void *from, unsigned long *sizes, unsigned long count, void *attributes, void *indexes, unsigned long n,
                 unsigned long *failed, void *stream)
{
    *failed = count;
    return stream != sizes;
}
int cuGetProcAddress_v2(const char *name, void **place, int version, unsigned long flags, void *status)
{
    *place = !strcmp(name, "cuMemcpyBatchAsync") ? (void *)batch : strcmp(name, "cuMemcpyHtoDAsync") ? 0 : (void *)async;
    return *place ? 0 : 500;
}
"#;
    std::fs::write(folder.join("cuda.c"), code).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libcuda.so.1")).arg(folder.join("cuda.c"));
    assert!(built.status().unwrap().success());
}

/// Runs the program with the stand-in for libcuda.
fn with_libcuda(place: &Place, words: &[&str]) -> Seen {
    libcuda(place.folder.path());
    let mut command = place.watch(&["--json"]);
    let folders = format!("{}:{}", place.folder.path().display(), place.built.folder.display());
    command.env("LD_LIBRARY_PATH", folders).arg(place.file("linked")).arg(place.data()).args(words);
    Seen::of(command)
}

#[test]
fn copies_to_the_gpu_are_counted_however_the_program_found_them() {
    let Some(place) = Place::new() else { return };
    let seen = with_libcuda(&place, &["copies", "5"]);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    assert_eq!(other(&seen, "cuMemcpyHtoD"), (5, 5 * 4096), "{}", seen.report["program"]["other_calls"]);
    assert_eq!(other(&seen, "cuMemcpyHtoDAsync"), (5, 5 * LARGE));
    assert_eq!(other(&seen, "cuMemcpyBatchAsync"), (1, 2 * LARGE + 5));
    assert_eq!((other(&seen, "cuMemcpy2D"), other(&seen, "cuMemcpy3DAsync")), ((1, 100_000), (1, 6000)));
    assert_eq!((other(&seen, "cuMemcpy3DBatchAsync"), other(&seen, "cuMemcpyHtoA")), ((1, 314), (1, 77)));
    assert_eq!(other(&seen, "cuMemPrefetchAsync"), (1, LARGE));
    assert_eq!(other(&seen, "cuGetProcAddress"), (0, 0));
}

#[test]
fn a_program_with_libcuda_but_without_recorded_copies_says_so() {
    let Some(place) = Place::new() else { return };
    let seen = with_libcuda(&place, &["copies", "0", "sleep", "3000"]);
    assert_eq!((seen.status(), &seen.report["program"]["cuda_processes"]), (Some(0), &1.into()));
    assert_eq!(other(&seen, "cuMemcpyHtoD"), (0, 0));
}

#[test]
fn a_program_that_falls_back_to_reads_gets_advice() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["plain", "200"]);
    assert!(seen.advice().contains(&"not-by-cufile"), "{:?}", seen.advice());
    let seen = place.seen("linked", &[], &["plain", "2"]);
    assert!(!seen.advice().contains(&"not-by-cufile"), "{:?}", seen.advice());
}

/// Runs a program with a library that has `io_submit` of libaio. Returns the count, errors and bytes of its calls, or
/// `None` if the program ended with status 77 because the kernel does not allow Linux AIO.
fn submitted(place: &Place, program: &str) -> Option<[u64; 3]> {
    let library = r#"
#include <errno.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>
int io_submit(aio_context_t context, long count, struct iocb **requests)
{
    long result = syscall(SYS_io_submit, context, count, requests);
    return result < 0 ? -errno : result;
}
"#;
    std::fs::write(place.file("data.bin"), vec![1; LARGE as usize]).unwrap();
    std::fs::write(place.file("aio.c"), library).unwrap();
    std::fs::write(place.file("submit.c"), program).unwrap();
    let compile = |cc: &mut Command| {
        let compiled = cc.output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    };
    let [libaio, submit] = [place.file("libaio.so.1"), place.file("submit")];
    let (library, program) = (place.file("aio.c"), place.file("submit.c"));
    compile(Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&libaio, &library]));
    compile(Command::new("cc").args(["-pthread", "-o"]).args([&submit, &program, &libaio]));
    let mut command = place.watch(&["--json"]);
    command.arg(submit).arg(place.file("data.bin"));
    let seen = Seen::of(command);
    if seen.report["program"]["ended"]["status"] == 77 {
        standins::skipped("the kernel does not allow Linux AIO");
        return None;
    }
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let calls = seen.report["program"]["other_calls"].as_array().unwrap();
    let submitted = calls.iter().find(|call| call["function"] == "io_submit").unwrap();
    Some(["count", "errors", "bytes"].map(|name| submitted[name].as_u64().unwrap()))
}

#[test]
fn reads_by_linux_aio_are_counted_and_its_writes_are_not() {
    let Some(place) = Place::new() else { return };
    let program = r#"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
int io_submit(aio_context_t context, long count, struct iocb **requests);
static char memory[1 << 17];
int main(int count, char **words)
{
    int fd = open(words[1], O_RDWR);
    struct iovec pieces[2] = {{memory, 4096}, {memory + 4096, 8192}};
    struct iocb all[3] = {{0}, {0}, {0}}, *requests[3] = {&all[0], &all[1], &all[2]};
    struct io_event events[3];
    aio_context_t context = 0;
    for (int i = 0; i < 3; i++) {
        all[i].aio_fildes = fd;
        all[i].aio_buf = (unsigned long)memory;
        all[i].aio_nbytes = sizeof memory;
    }
    all[1].aio_lio_opcode = IOCB_CMD_PREADV;
    all[1].aio_buf = (unsigned long)pieces;
    all[1].aio_nbytes = 2;
    all[2].aio_lio_opcode = IOCB_CMD_PWRITE;
    if (syscall(SYS_io_setup, 8, &context))
        return 77;
    if (io_submit(context, 3, requests) != 3 || syscall(SYS_io_getevents, context, 3L, 3L, events, 0) != 3)
        return 2;
    /* The kernel accepts the first request. The second one has no descriptor. */
    all[1].aio_fildes = -1;
    if (io_submit(context, 3, requests) != 1 || syscall(SYS_io_getevents, context, 1L, 1L, events, 0) != 1)
        return 3;
    /* There is no such context. The kernel does not read the requests. */
    return io_submit(0, 3, requests) < 0 && io_submit(0, 3, (struct iocb **)8) < 0 ? 0 : 4;
}
"#;
    let Some(calls) = submitted(&place, program) else { return };
    // Three reads, and two calls that failed.
    assert_eq!(calls, [5, 2, 2 * LARGE + 4096 + 8192]);
}

#[test]
fn a_program_may_free_a_request_of_linux_aio_before_its_submission_returns() {
    let Some(place) = Place::new() else { return };
    // The kernel reads cached data during the submission, so the other thread unmaps the first requests meanwhile.
    let program = r#"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int io_submit(aio_context_t context, long count, struct iocb **requests);
enum { ROUNDS = 50, EACH = 8, ALL = ROUNDS * EACH };
static char memory[1 << 17];
static aio_context_t context;
static void *reap(void *unused)
{
    struct io_event events[EACH];
    for (long ended = 0; ended < ALL;) {
        long count = syscall(SYS_io_getevents, context, 1L, (long)EACH, events, 0);
        for (long i = 0; i < count; i++)
            munmap((void *)events[i].obj, 4096);
        ended += count > 0 ? count : 0;
    }
    return 0;
}
int main(int count, char **words)
{
    int fd = open(words[1], O_RDONLY);
    pthread_t thread;
    if (syscall(SYS_io_setup, ALL, &context))
        return 77;
    pthread_create(&thread, 0, reap, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct iocb *requests[EACH];
        for (int i = 0; i < EACH; i++) {
            requests[i] = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            requests[i]->aio_fildes = fd;
            requests[i]->aio_buf = (unsigned long)memory;
            requests[i]->aio_nbytes = sizeof memory;
            requests[i]->aio_lio_opcode = IOCB_CMD_PREAD;
        }
        if (io_submit(context, EACH, requests) != EACH)
            return 2;
    }
    pthread_join(thread, 0);
    return 0;
}
"#;
    let Some(calls) = submitted(&place, program) else { return };
    assert_eq!(calls, [400, 0, 400 * LARGE]);
}

#[test]
fn reads_of_a_new_file_with_the_inode_of_a_removed_one_are_its_own() {
    let Some(place) = Place::new() else { return };
    let code = r#"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
static char data[1 << 17];
int main(int count, char **paths)
{
    struct stat file[2];
    for (int i = 0; i < 2; i++) {
        int fd = open(paths[i + 1], O_RDWR | O_CREAT | O_EXCL, 0600);
        if (write(fd, data, sizeof data) != sizeof data || pread(fd, data, sizeof data, 0) != sizeof data || fstat(fd, &file[i]))
            return 1;
        close(fd);
        unlink(paths[i + 1]);
    }
    return file[0].st_ino == file[1].st_ino ? 0 : 77;
}
"#;
    std::fs::write(place.file("reuse.c"), code).unwrap();
    let compiled = Command::new("cc").arg("-o").args([place.file("reuse"), place.file("reuse.c")]).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let paths = [place.file("first"), place.file("second")];
    let mut command = place.watch(&["--json"]);
    command.arg(place.file("reuse")).args(&paths);
    let seen = Seen::of(command);
    if seen.report["program"]["ended"]["status"] == 77 {
        standins::skipped("needs a file system that uses the inode of a removed file again");
        return;
    }
    let files = seen.report["program"]["transfers"].as_array().unwrap();
    for path in &paths {
        let file = files.iter().find(|file| file["path"] == path.to_string_lossy().as_ref());
        assert_eq!(file.map(|file| &file["plain"]["bytes"]), Some(&LARGE.into()), "{}: {files:?}", path.display());
    }
}

#[test]
fn the_reads_of_a_program_without_plt_are_recorded() {
    let Some(place) = Place::new() else { return };
    // The watched program is gds-top itself, because Rust calls libc without a PLT.
    let model = place.file("model");
    let mut make = crate::program::gds_top();
    let made = make.args(["make-model", "qwen3-0.6b", "--scale", "0.05", "-q"]).arg(&model).output().unwrap();
    if !made.status.success() {
        standins::skipped(&format!("no model: {}", String::from_utf8_lossy(&made.stderr)));
        return;
    }
    let mut command = place.watch(&["--json"]);
    command.arg(crate::program::PROGRAM).args([
        "--headless",
        "--engine",
        "pread",
        "--target",
        "host",
        "-q",
        "--repeat",
        "1",
    ]);
    command.arg(&model);
    let seen = Seen::of(command);
    let files = seen.report["program"]["transfers"].as_array().unwrap();
    let read = |file: &Value| file["plain"]["bytes"].as_u64().unwrap();
    let model = files.iter().filter(|file| file["path"].as_str().unwrap().ends_with(".safetensors"));
    assert!(model.map(read).sum::<u64>() >= 16 << 20, "{files:?}");
}

#[test]
fn requests_of_io_uring_are_counted_in_a_program_that_ends_at_once() {
    let Some(place) = Place::new() else { return };
    for words in [["uring", "300"].as_slice(), &["uring", "300", "leave", "0"], &["uring", "300", "become"]] {
        let seen = place.seen("linked", &[], words);
        if seen.status() == Some(1) && seen.report["program"]["ended"]["status"] == 77 {
            standins::skipped("the kernel does not allow io_uring");
            return;
        }
        assert_eq!(seen.report["program"]["process_io"]["io_uring_requests"], 300, "{words:?}");
    }
    // The child of a fork has the ring too.
    let seen = place.seen("linked", &[], &["uring", "300", "fork", "1"]);
    assert_eq!(seen.report["program"]["process_io"]["io_uring_requests"], 300);
}
