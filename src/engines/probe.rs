//! Probes of libcufile and CUDA. These libraries can hang, crash or print, so each probe runs in a separate child
//! process. The result is the last line on standard output: one JSON object in the form of `libcufile.json` of a
//! capture.

use crate::device::{list_cuda_attributes, list_cuda_devices};
use cufile_ffi::{Driver, ENV_LOGFILE, Error, Library, OpenOptions};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// Size parameters and their numbers (cufile.h, `CUFileSizeTConfigParameter_t`).
const SIZES: [(&str, u32); 12] = [
    ("profile_stats", 0),
    ("max_io_queue_depth", 1),
    ("max_io_threads", 2),
    ("min_io_threshold_size_kb", 3),
    ("max_request_parallelism", 4),
    ("max_direct_io_size_kb", 5),
    ("max_device_cache_size_kb", 6),
    ("per_buffer_cache_size_kb", 7),
    ("max_device_pinned_mem_size_kb", 8),
    ("io_batchsize", 9),
    ("poll_thresh_size_kb", 10),
    ("batch_io_timeout_ms", 11),
];
/// For the ranges of these parameters, the library initialises itself and CUDA, which takes 0.67 s on an H200 (seen
/// in 1.15.1).
const RANGES_OPEN_CUDA: [&str; 2] = ["max_device_cache_size_kb", "max_device_pinned_mem_size_kb"];
/// The library has no range for this parameter and refuses the question with 5022 (seen in 1.15.1 and 1.20.0).
const WITHOUT_RANGE: &str = "profile_stats";
/// Switches and their numbers (`CUFileBoolConfigParameter_t`).
const FLAGS: [(&str, u32); 13] = [
    ("use_poll_mode", 0),
    ("allow_compat_mode", 1),
    ("force_compat_mode", 2),
    ("fs_misc_api_check_aggressive", 3),
    ("parallel_io", 4),
    ("allow_system_memory", 6),
    ("use_pci_p2pdma", 7),
    ("prefer_iouring", 8),
    ("force_odirect_mode", 9),
    ("skip_topology_detection", 10),
    ("stream_memops_bypass", 11),
    ("posix_io_mode", 12),
    ("gds_fallback_io", 13),
];
/// Transports and their bit in `dstatusflags` (`CUfileDriverStatusFlags_t`).
const TRANSPORTS: [(&str, u32); 12] = [
    ("lustre", 0),
    ("wekafs", 1),
    ("nfs", 2),
    ("gpfs", 3),
    ("nvme", 4),
    ("nvmeof", 5),
    ("scsi", 6),
    ("scaleflux", 7),
    ("nvmesh", 8),
    ("beegfs", 9),
    ("scatefs", 12),
    ("virtiofs", 13),
];

/// Finds libcufile, opens its driver if `open` is set, reads its properties, and prints the result. The library
/// writes its log to `scratch`. Opening the driver initialises CUDA.
#[must_use]
pub fn probe_cufile(scratch: &Path, open: bool) -> u8 {
    if let Some(status) = with_own_log(scratch) {
        return status;
    }
    answer(|early| match Library::find() {
        Err(Error::NotFound { tried }) => {
            json!({"tried": tried_json(&tried), "found": [], "chosen": null, "error": "no libcufile was found"})
        }
        Err(error) => json!({"tried": [], "found": [], "chosen": null, "error": error.to_string()}),
        Ok(library) => describe(&library, open, early),
    })
}

/// The file and version of libcufile, in the same form, without loading it; `None` if only the library knows its version.
#[must_use]
pub fn located_cufile() -> Option<Value> {
    match cufile_ffi::locate() {
        cufile_ffi::Located::Found { path, version } => {
            let (path, version) = (path.display().to_string(), version.to_string());
            Some(json!({"tried": [], "found": [{"path": path, "version": version}], "chosen": path}))
        }
        cufile_ffi::Located::Nowhere(tried) => {
            Some(json!({"tried": tried_json(&tried), "found": [], "chosen": null, "error": "no libcufile was found"}))
        }
        cufile_ffi::Located::Unknown => None,
    }
}

/// Lists the CUDA devices and prints them: `{"devices": […]}` or `{"error": "…"}`.
#[must_use]
pub fn probe_cuda() -> u8 {
    answer(|_| match list_cuda_devices() {
        Ok(devices) => json!({ "devices": devices }),
        Err(error) => json!({"error": error.to_string()}),
    })
}

/// Finds NIXL and prints its file, version and plugins.
#[must_use]
pub fn probe_nixl() -> u8 {
    answer(|_| super::nixl_library::probe_nixl())
}

/// Makes the library write its log to `scratch` unless the user has named another place. The environment cannot be
/// changed safely inside the process, so the process starts itself again with it. It returns only if that failed.
pub(super) fn with_own_log(scratch: &Path) -> Option<u8> {
    if std::env::var_os(ENV_LOGFILE).is_some() {
        return None;
    }
    let Ok(exe) = std::env::current_exe() else { return Some(2) };
    let log = scratch.join("cufile.log");
    let failed = std::process::Command::new(exe).args(std::env::args_os().skip(1)).env(ENV_LOGFILE, log).exec();
    eprintln!("gds-top: the probe could not start itself again: {failed}");
    Some(2)
}

/// Reserves standard output for the result, because libraries print there. `ask` gets a function that prints an early
/// result on a separate line. The last line is the result.
pub(super) fn answer(ask: impl FnOnce(&mut dyn FnMut(&Value)) -> Value) -> u8 {
    let own = rustix::io::fcntl_dupfd_cloexec(std::io::stdout().as_fd(), 3);
    let moved = rustix::stdio::dup2_stdout(std::io::stderr().as_fd());
    let Ok(own) = own.and_then(|own| moved.map(|()| own)) else { return 2 };
    let mut own = std::fs::File::from(own);
    let mut failed = false;
    let mut say = |value: &Value| failed |= writeln!(own, "{value}").is_err();
    let last = ask(&mut say);
    say(&last);
    u8::from(failed)
}

fn tried_json(tried: &[cufile_ffi::Tried]) -> Value {
    tried.iter().map(|t| json!({"name": t.name, "error": t.error})).collect()
}

fn describe(library: &Library, open: bool, early: &mut dyn FnMut(&Value)) -> Value {
    let path = library.path().map_or_else(|| library.name().to_owned(), |p| p.display().to_string());
    let mut out = Map::new();
    out.insert("tried".to_owned(), tried_json(library.tried()));
    let version = library.version().map(|v| v.to_string());
    out.insert("found".to_owned(), json!([{"path": path, "version": version}]));
    out.insert("chosen".to_owned(), json!(path));
    out.insert("version".to_owned(), json!(version));
    let ranges: Map<String, Value> = SIZES
        .iter()
        .filter(|(name, _)| *name != WITHOUT_RANGE && (open || !RANGES_OPEN_CUDA.contains(name)))
        .filter_map(|(name, number)| {
            library.size_range(*number).ok().map(|(low, high)| ((*name).to_owned(), json!([low, high])))
        })
        .collect();
    out.insert("ranges".to_owned(), Value::Object(ranges));
    if !open {
        return Value::Object(out);
    }
    // Printed before the open, so that the library is known even if the open hangs or crashes.
    early(&Value::Object(out.clone()));
    match Driver::open(library, &OpenOptions::default()) {
        Err(error) => {
            let code = error.code();
            let cuda_code = error.cufile().map(|e| e.cu_err);
            out.insert("open".to_owned(), json!({"code": code, "cuda_code": cuda_code, "error": error.to_string()}));
        }
        Ok(driver) => {
            out.insert(
                "open".to_owned(),
                json!({"code": 0, "cuda_code": 0, "took_ns": driver.opening().as_nanos() as u64}),
            );
            if let Ok(p) = driver.properties() {
                let properties = json!({
                    "nvfs_major": p.nvfs.major_version, "nvfs_minor": p.nvfs.minor_version,
                    "poll_thresh_size": p.nvfs.poll_thresh_size, "max_direct_io_size": p.nvfs.max_direct_io_size,
                    "dstatusflags": p.nvfs.dstatusflags, "dcontrolflags": p.nvfs.dcontrolflags, "fflags": p.fflags,
                    "max_device_cache_size": p.max_device_cache_size, "per_buffer_cache_size": p.per_buffer_cache_size,
                    "max_device_pinned_mem_size": p.max_device_pinned_mem_size, "max_batch_io_size": p.max_batch_io_size,
                });
                out.insert("properties".to_owned(), properties);
            }
            let flags: Map<String, Value> = TRANSPORTS
                .iter()
                .filter_map(|(name, bit)| library.p2p_flags(*bit).ok().map(|mask| ((*name).to_owned(), json!(mask))))
                .collect();
            out.insert("p2p_flags".to_owned(), Value::Object(flags));
        }
    }
    // The open has initialised CUDA in this process, so the attributes take no extra time.
    if let Ok(attributes) = list_cuda_attributes() {
        out.insert("cuda".to_owned(), json!(attributes));
    }
    // The parameters are read after the open, because from 1.20 on several of them are 0 before it.
    let mut parameters = Map::new();
    for (name, number) in SIZES {
        if let Ok(value) = library.size(number) {
            parameters.insert(name.to_owned(), json!(value));
        }
    }
    for (name, number) in FLAGS {
        if let Ok(value) = library.flag(number) {
            parameters.insert(name.to_owned(), json!(value));
        }
    }
    out.insert("parameters".to_owned(), Value::Object(parameters));
    Value::Object(out)
}
