//! Builds the C stand-ins of this directory once, and creates a machine directory for the redirecting preload. It is for
//! tests only.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Source file, file name in the built directory, soname, and whether all symbols are visible.
const SOURCES: [(&str, &str, &str); 6] = [
    ("cufile", "libcufile.so.0", include_str!("cufile.c")),
    ("cuda", "libcuda.so.1", include_str!("cuda.c")),
    ("nvml", "libnvidia-ml.so.1", include_str!("nvml.c")),
    ("nixl", "libnixl_capi.so", include_str!("nixl.c")),
    ("redirect", "redirect.so", include_str!("redirect.c")),
    ("threads", "threads.so", include_str!("threads.c")),
];
const HEADERS: [(&str, &str); 2] = [("standin.h", include_str!("standin.h")), ("streams.h", include_str!("streams.h"))];

/// The directory of the stand-ins.
#[derive(Clone, Debug)]
pub struct Standins {
    /// The directory for LD_LIBRARY_PATH, with `libcufile.so.0`, `libcuda.so.1`, `libnvidia-ml.so.1` and the unversioned
    /// names.
    pub folder: PathBuf,
    /// The libcufile, for `GDS_TOP_LIBCUFILE`.
    pub cufile: PathBuf,
    /// The libcuda.
    pub cuda: PathBuf,
    /// The NVML.
    pub nvml: PathBuf,
    /// The C interface of NIXL, for `GDS_TOP_NIXL`.
    pub nixl: PathBuf,
    /// A library for LD_PRELOAD. `GDS_TOP_TEST_REDIRECT` names a directory that [`machine`] created.
    pub redirect: PathBuf,
    /// A library for LD_PRELOAD that limits the number of threads to `GDS_TOP_TEST_THREADS`.
    pub threads: PathBuf,
}

/// Returns the stand-ins. They are built with `cc` if they do not exist. `None`, with a message on standard error, if
/// there is no `cc`.
///
/// Tests in several processes may call this at the same time. Each builds into a separate directory, and the first one
/// that renames its directory wins.
pub fn build() -> Option<Standins> {
    let mut hasher = std::hash::DefaultHasher::new();
    (SOURCES, HEADERS).hash(&mut hasher);
    let room = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = room.join(format!("standins-{:016x}", hasher.finish()));
    if !folder.is_dir() {
        let scratch =
            tempfile::Builder::new().prefix("standins-building-").tempdir_in(room).expect("a scratch directory");
        for (file, header) in HEADERS {
            std::fs::write(scratch.path().join(file), header).expect("a header");
        }
        for (name, file, source) in SOURCES {
            let c = scratch.path().join(format!("{name}.c"));
            std::fs::write(&c, source).expect("the source");
            let out = Command::new(std::env::var_os("GDS_TOP_TEST_CC").unwrap_or_else(|| "cc".into()))
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra"])
                .args((!matches!(name, "redirect" | "threads")).then_some("-fvisibility=hidden"))
                .arg(format!("-Wl,-soname,{file}"))
                .arg("-o")
                .arg(scratch.path().join(file))
                .arg(&c)
                .args(["-lpthread", "-ldl"])
                .output();
            let out = match out {
                Ok(out) => out,
                Err(e) => {
                    skipped(&format!("the stand-ins need a C compiler, and cc could not be run: {e}"));
                    return None;
                }
            };
            assert!(out.status.success(), "cc {name}.c: {}", String::from_utf8_lossy(&out.stderr));
            if let Some((plain, _)) = file.split_once(".so.") {
                std::os::unix::fs::symlink(file, scratch.path().join(format!("{plain}.so"))).expect("a link");
            }
        }
        // This fails if another process was first. Its directory is then used.
        let _ = std::fs::rename(scratch.path(), &folder);
        assert!(folder.is_dir(), "{} could not be made", folder.display());
    }
    let at = |file: &str| folder.join(file);
    Some(Standins {
        cufile: at("libcufile.so.0"),
        cuda: at("libcuda.so.1"),
        nvml: at("libnvidia-ml.so.1"),
        nixl: at("libnixl_capi.so"),
        redirect: at("redirect.so"),
        threads: at("threads.so"),
        folder,
    })
}

/// Prints to standard error, past the test harness's capture, that something was not tested, with the reason.
pub fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Adds the module nvidia-fs to /proc/modules in a machine directory.
pub fn load_nvidia_fs(folder: &Path) {
    let path = folder.join("proc/modules");
    let modules = std::fs::read_to_string(&path).expect("a machine directory");
    std::fs::write(path, modules + "nvidia_fs 323584 0 - Live 0x0000000000000000\n").expect("a file");
}

/// Fills `folder` for the preload with /proc/modules, and with a udev record that shows an ext4 file system on the
/// device of `path`.
pub fn machine(folder: &Path, path: &Path) {
    let device = std::fs::metadata(path).expect("the device of the path").dev();
    std::fs::create_dir_all(folder.join("proc")).expect("a directory");
    std::fs::create_dir_all(folder.join("run/udev/data")).expect("a directory");
    std::fs::write(folder.join("proc/modules"), "nvme 53248 2 - Live 0x0000000000000000\n").expect("a file");
    let record = format!("run/udev/data/b{}:{}", libc::major(device), libc::minor(device));
    std::fs::write(folder.join(record), "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\n").expect("a file");
}

/// Variables with which the counters of the stand-in library tell the truth or lie, and whether they prove a route.
pub(crate) const COUNTERS: [(&[(&str, &str)], bool); 8] = [
    (&[], true),
    (&[("STANDIN_CUFILE_COUNT_TIMES", "2"), ("STANDIN_CUFILE_COUNT_BYTES_TIMES", "1")], true),
    (&[("STANDIN_CUFILE_COUNT_TIMES", "2"), ("STANDIN_CUFILE_COUNT_ALL_TIMES", "2")], false),
    (&[("STANDIN_CUFILE_COUNT_BYTES_TIMES", "2"), ("STANDIN_CUFILE_COUNT_ALL_TIMES", "2")], false),
    (&[("STANDIN_CUFILE_COUNT_READS", "1")], false),
    (&[("STANDIN_CUFILE_COUNT_BYTES", "1")], false),
    (&[("STANDIN_CUFILE_POSIX_EVERY", "2")], false),
    (&[("STANDIN_CUFILE_COUNT_GPUS", "2")], false),
];
