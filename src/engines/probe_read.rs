//! Proves a route with a real read of a file into GPU memory, with compat mode forbidden or allowed. It runs in a
//! child process because it opens CUDA and libcufile. It only reads.

use super::probe::{answer, with_own_log};
use crate::core::{Access, Counted, Made, RouteCounts, units::MIB};
use crate::device::{CudaDevice, Device, DeviceMemory};
use crate::trust::{open_regular, open_regular_blocking, open_regular_direct};
use cufile_ffi::stats::GpuCounters;
use cufile_ffi::values::{PARAM_ALLOW_COMPAT_MODE, PARAM_FORCE_COMPAT_MODE};
use cufile_ffi::{Driver, Error, FileHandle, Library, OpenOptions};
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The minimum size of a test file. The library may read smaller files in another way.
const LEAST_BYTES: u64 = 64 << 10;
/// The maximum number of bytes to read. This is several requests of the library's largest size and takes
/// milliseconds.
const MOST_BYTES: u64 = 32 * MIB;
/// The bytes of one cuFileRead.
const CHUNK_BYTES: u64 = 8 * MIB;
/// The maximum number of examined files in a directory.
const MAX_CANDIDATES: usize = 512;

/// Reads a file below `path` into the memory of the GPU `uuid` and prints the result: `{"ok": true, "file": …,
/// "bytes": …, "route": {…}}` or `{"ok": false, "stage": "cuda|file|library|config|open|register|read|bytes", "code": …,
/// "error": "…"}`. The library writes its log to `scratch`.
#[must_use]
pub fn probe_read(path: &Path, uuid: &str, allow_compat: bool, scratch: &Path) -> u8 {
    if let Some(status) = with_own_log(scratch) {
        return status;
    }
    answer(|_| match read(path, uuid, allow_compat) {
        Ok(said) => said,
        Err(refusal) => {
            json!({"ok": false, "stage": refusal.stage, "code": refusal.code, "error": refusal.error})
        }
    })
}

/// Why a probe failed.
struct Refusal {
    stage: &'static str,
    code: Option<i32>,
    error: String,
}

fn refused(stage: &'static str) -> impl Fn(Error) -> Refusal {
    move |error| Refusal { stage, code: error.code(), error: error.to_string() }
}

fn plain<E: std::fmt::Display>(stage: &'static str) -> impl Fn(E) -> Refusal {
    move |error| Refusal { stage, code: None, error: error.to_string() }
}

fn read(path: &Path, uuid: &str, allow_compat: bool) -> Result<Value, Refusal> {
    let chosen = file_under(path).ok_or_else(|| Refusal {
        stage: "file",
        code: None,
        error: format!("there is no readable file of at least {LEAST_BYTES} bytes under {}", path.display()),
    })?;
    let (file, size) = open(&chosen).map_err(plain("file"))?;
    // Only complete pages are read. An unaligned end takes another route and would change the counts.
    let bytes = size.min(MOST_BYTES) & !4095;
    let cuda = CudaDevice::open(0, Some(uuid)).map_err(plain("cuda"))?;
    let device = Device::Cuda(Arc::new(cuda));
    let memory = Arc::new(DeviceMemory::allocate(&device, bytes).map_err(plain("cuda"))?);
    let library = Library::find().map_err(plain("library"))?;
    if !allow_compat {
        library.set_flag(PARAM_ALLOW_COMPAT_MODE, false).map_err(plain("library"))?;
    }
    let driver = Driver::open(&library, &OpenOptions::default()).map_err(refused("open"))?;
    if !allow_compat {
        // force_compat_mode overrides the prohibition. A successful read then proves nothing.
        let is_on = |flag| library.flag(flag).map_err(plain("library"));
        if is_on(PARAM_FORCE_COMPAT_MODE)? || is_on(PARAM_ALLOW_COMPAT_MODE)? {
            return Err(Refusal {
                stage: "config",
                code: None,
                error: "compat mode is forced by the configuration".to_owned(),
            });
        }
    }
    let statistics = library.set_stats_level(3).and_then(|()| driver.stats_start()).is_ok();
    let handle = FileHandle::register_borrowed(&driver, file.as_fd()).map_err(refused("register"))?;
    // In compat mode, registration has no benefit. On a direct route, loaders register too.
    let registered = if allow_compat {
        None
    } else {
        Some(driver.register(&memory, 0, memory.len(), 0).map_err(refused("register"))?)
    };
    // The memory has other bytes than the file everywhere, so that each byte that does not arrive is found.
    let inverted: Vec<u8> = contents(&file, &chosen, bytes)?.iter().map(|byte| !*byte).collect();
    memory.write_pageable(0, &inverted).map_err(plain("cuda"))?;
    let before = (counts(&driver, statistics), super::nvfs::nvfs_reads());
    let (mut done, mut reads) = (0, 0);
    while done < bytes {
        let length = CHUNK_BYTES.min(bytes - done) as usize;
        let got = match &registered {
            Some(target) => handle.read_at(target, done as usize, length, done),
            None => handle.read_at(&*memory, done as usize, length, done),
        }
        .map_err(refused("read"))?;
        if got == 0 {
            return Err(Refusal { stage: "file", code: None, error: format!("{} became shorter", chosen.display()) });
        }
        done += got as u64;
        reads += 1;
    }
    let after = (counts(&driver, statistics), super::nvfs::nvfs_reads());
    let different = difference(&memory, &inverted).map_err(plain("cuda"))?;
    if let Some(at) = different {
        let error = format!("the bytes on the GPU are not those of {}, from byte {at} on", chosen.display());
        return Err(Refusal { stage: "bytes", code: None, error });
    }
    let route = route(before, after, &Made::exactly(reads, done), super::nvfs::is_loaded());
    drop(registered);
    drop(handle);
    Ok(
        json!({"ok": true, "file": chosen.display().to_string(), "bytes": done, "compat_allowed": allow_compat, "route": route}),
    )
}

/// The first bytes of the file, read without libcufile.
fn contents(file: &File, path: &Path, bytes: u64) -> Result<Vec<u8>, Refusal> {
    use std::os::unix::fs::FileExt;
    // The file may be open with O_DIRECT, which needs an aligned buffer.
    let plainly = open_regular(path).map_err(plain("file"))?;
    let same = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino())).map_err(plain("file"));
    if same(file)? != same(&plainly)? {
        return Err(Refusal { stage: "file", code: None, error: format!("{} was replaced", path.display()) });
    }
    let mut contents = vec![0; bytes as usize];
    plainly.read_exact_at(&mut contents, 0).map_err(plain("file"))?;
    Ok(contents)
}

/// The position of the first byte on the GPU that is not the inverted expected one. `None` if there is none.
fn difference(memory: &DeviceMemory, inverted: &[u8]) -> Result<Option<usize>, crate::device::DeviceError> {
    let mut found = vec![0; inverted.len()];
    memory.read_back(0, &mut found)?;
    Ok(found.iter().zip(inverted.iter()).position(|(found, inverted)| *found != !*inverted))
}

/// The reads with nvidia-fs, P2PDMA and POSIX calls on each GPU of this process, and their bytes.
type Counts = Option<Vec<([u64; 3], u64)>>;
/// The counters of the library, and the reads of all processes that nvidia-fs counted.
type Reading = (Counts, Option<u64>);

fn counts(driver: &Driver, on: bool) -> Counts {
    let stats = driver.stats_l3().ok().filter(|_| on)?;
    let of = |c: &GpuCounters| ([c.n_nvfs_reads, c.n_p2p_reads, c.n_posix_reads], c.read_bytes);
    Some(stats.gpus.iter().map(|gpu| of(&gpu.counters)).collect())
}

/// The route of the reads between two readings of the counters. `None` if the library has no counters.
fn route(before: Reading, after: Reading, made: &Made, nvidia_fs_loaded: bool) -> Option<RouteCounts> {
    let nvidia_fs_reads = after.1.zip(before.1).map(|(after, before)| after.saturating_sub(before));
    let (before, after) = (before.0?, after.0?);
    let since = after.iter().enumerate().map(|(gpu, (reads, bytes))| {
        let (reads_before, bytes_before) = before.get(gpu).copied().unwrap_or_default();
        let reads: [u64; 3] = std::array::from_fn(|n| reads[n].saturating_sub(reads_before[n]));
        (reads, bytes.saturating_sub(bytes_before))
    });
    let used: Vec<_> = since.filter(|(reads, bytes)| reads.iter().any(|n| *n > 0) || *bytes > 0).collect();
    let counted = Counted {
        access: Access::Read,
        by_route: [0, 1, 2].map(|n| used.iter().fold(0, |sum: u64, (reads, _)| sum.saturating_add(reads[n]))),
        bytes: used.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)),
        all: 0,
        all_bytes: 0,
        nvidia_fs_loaded,
        nvidia_fs_reads,
        gpus: Some(used.len()),
    };
    counted.route(made, "cuFile level-3 statistics of a test read")
}

/// The path itself if it is a file. For a directory it is the first model file, otherwise the first file that is
/// large enough.
fn file_under(path: &Path) -> Option<PathBuf> {
    let enough = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() >= LEAST_BYTES);
    if !path.is_dir() {
        return enough(path).then(|| path.to_owned());
    }
    let entries = std::fs::read_dir(path).ok()?;
    let mut files: Vec<PathBuf> =
        entries.filter_map(Result::ok).take(MAX_CANDIDATES).map(|e| e.path()).filter(|p| enough(p)).collect();
    files.sort();
    let shard = files.iter().find(|file| file.extension().is_some_and(|ending| ending == "safetensors"));
    shard.or_else(|| files.first()).cloned()
}

/// Opens a file with `O_DIRECT`, as loaders do. If the file system does not support it, the file is opened without
/// it.
fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let file = open_regular_direct(path).or_else(|_| open_regular_blocking(path))?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::Route;

    #[test]
    fn a_shard_is_preferred_and_small_files_are_not_tried() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(file_under(folder.path()), None);
        std::fs::write(folder.path().join("a.safetensors"), [0; 100]).unwrap();
        std::fs::write(folder.path().join("a.bin"), vec![0; 70_000]).unwrap();
        assert!(file_under(folder.path()).unwrap().ends_with("a.bin"));
        std::fs::write(folder.path().join("b.safetensors"), vec![0; 70_000]).unwrap();
        assert!(file_under(folder.path()).unwrap().ends_with("b.safetensors"));
        assert_eq!(file_under(Path::new("/dev/null")), None);
    }

    #[test]
    fn the_route_is_proven_by_reads_that_are_all_counted_and_no_reads_are_no_proof() {
        let one = |reads: [u64; 3], bytes: u64| Some(vec![(reads, bytes)]);
        let proven_route = |before, after, (reads, bytes)| {
            let made = Made::exactly(reads, bytes);
            route((before, None), (after, None), &made, true).map(|found| (found.route, found.proven))
        };
        assert_eq!(proven_route(one([0; 3], 0), one([0; 3], 0), (4, 4096)), None);
        assert_eq!(proven_route(None, one([1; 3], 9), (3, 9)), None);
        assert_eq!(proven_route(one([1, 0, 0], 5), one([1, 4, 0], 4101), (4, 4096)), Some((Route::P2pdma, true)));
        assert_eq!(proven_route(one([0; 3], 0), one([1, 0, 0], 1024), (4, 4096)), Some((Route::Nvfs, false)));
        assert_eq!(proven_route(one([0; 3], 0), one([0, 0, 4], 4096), (4, 4096)), Some((Route::Compat, true)));
        // Counters of another GPU can be unchanged. Reads on two GPUs contradict each other.
        let two = |reads| Some(vec![(reads, 2048), ([2, 0, 0], 2048)]);
        assert_eq!(proven_route(two([0; 3]), two([4, 0, 0]), (4, 0)), Some((Route::Nvfs, true)));
        assert_eq!(proven_route(one([0; 3], 0), two([2, 0, 0]), (4, 4096)), Some((Route::Nvfs, false)));
    }
}
