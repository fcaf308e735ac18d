//! Creates a cufile.json for a model with only the keys that matter on this machine. Each key has its reason.

use super::known::known;
use super::types::Hardware;
use crate::core::Route;
use serde::Serialize;
use serde_json::Value;

/// One key of the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// Dotted name.
    pub key: String,
    /// Value.
    pub value: Value,
    /// The reason, in a sentence.
    pub reason: String,
}

/// The largest request that a release passes to the kernel, in KiB.
const LARGEST_KIB: u64 = 16384;
/// The largest request if reads are staged in host memory, in KiB.
const STAGED_KIB: u64 = 4096;

/// The program for which the file is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunedFor {
    /// Whether it uses unregistered memory, which needs the bounce buffers of the library.
    pub unregistered: bool,
    /// Its threads that call cuFile at the same time. With several, one call need not be split over the threads of
    /// the library. 0: unknown.
    pub threads: u64,
    /// The size of its transfers in bytes. 0: large blocks.
    pub transfer_bytes: u64,
}

/// From this number of threads on, the program keeps the disk busy itself.
const MANY_THREADS: u64 = 4;

/// The keys whose default in the installed library should be changed.
#[must_use]
pub fn tune(hardware: &Hardware, current: &dyn Fn(&str) -> Option<Value>, program: TunedFor) -> Vec<Tuned> {
    let unregistered = program.unregistered;
    let mut out = Vec::new();
    let mut want = |key: &str, value: Value, reason: String| {
        let Some(known) = known(key).filter(|known| known.is_in(hardware.version)) else { return };
        let now = current(key).unwrap_or_else(|| known.default(hardware.version));
        if now != value {
            out.push(Tuned { key: key.to_owned(), value, reason });
        }
    };
    let direct = hardware.possible;
    if direct == Some(Route::P2pdma) || direct == Some(Route::C2c) {
        let name = if direct == Some(Route::C2c) { "C2C" } else { "P2PDMA" };
        want(
            "properties.use_pci_p2pdma",
            true.into(),
            format!("{name} is the best route of this machine and is off by default"),
        );
        want(
            "block.nvme.use_pci_p2pdma",
            true.into(),
            "from 1.16 on each transport needs its key in addition to the general one".to_owned(),
        );
    }
    let staged = matches!(direct, None | Some(Route::Compat | Route::None));
    let direct_io = "properties.max_direct_io_size_kb";
    let now_kib =
        current(direct_io).or_else(|| Some(known(direct_io)?.default(hardware.version))).and_then(|kib| kib.as_u64());
    // A transfer that is shorter than a request need not pin more memory than it has bytes.
    let staged_kib = match program.transfer_bytes.div_ceil(1024).next_multiple_of(64) {
        0 => STAGED_KIB,
        kib => kib.clamp(1024, STAGED_KIB),
    };
    let direct_io_kib = match now_kib {
        Some(kib) if staged => kib.min(staged_kib),
        None if staged => staged_kib,
        _ => LARGEST_KIB,
    };
    let reason = if staged {
        "reads use host memory on this machine, and each registration pins a buffer of this size, independent of the registered size: on an H200 NIXL loaded a model tensor by \
         tensor 1.9 times as fast with 4096 as with 16384 (2.8 times with 1024), and reads of 4 MiB into unregistered memory were not slower"
    } else {
        "weights are read in large blocks; smaller requests only need more calls"
    };
    want(direct_io, direct_io_kib.into(), reason.to_owned());
    let pinned_kib = current("properties.max_device_pinned_mem_size_kb").and_then(|value| value.as_u64());
    if let (Some(model), Some(limit)) = (hardware.model_bytes, pinned_kib)
        && limit > 0
        && limit.saturating_mul(1024) < model
    {
        // An eighth more than the size of the model, because the library has its own buffers.
        let kib = (model + model / 8).div_ceil(1024).next_multiple_of(64);
        want(
            "properties.max_device_pinned_mem_size_kb",
            kib.into(),
            format!(
                "the limit in effect is {limit} KiB, and {} KiB are registered: registering all of it fails with 5016",
                model.div_ceil(1024)
            ),
        );
    }
    if program.threads >= MANY_THREADS {
        // The keys of the library's threads keep their values.
        staged_pool(&mut want, staged, program);
        bounce_buffers(&mut want, hardware, unregistered, direct_io_kib);
        return out;
    }
    want("execution.parallel_io", true.into(), "one large read is split over the library's threads".to_owned());
    let threads = if hardware.model_bytes.is_some_and(|bytes| bytes < 1 << 30) { 8_u64 } else { 16 };
    want(
        "execution.max_io_threads",
        threads.into(),
        "a single file streams fastest over 8 to 16 threads; the pool is off up to 1.15".to_owned(),
    );
    want(
        "execution.max_request_parallelism",
        8_u64.into(),
        "with the default of 4 parts, one read uses only 4 threads".to_owned(),
    );
    staged_pool(&mut want, staged, program);
    bounce_buffers(&mut want, hardware, unregistered, direct_io_kib);
    out
}

/// The host buffers of compat mode: for batches, or for the threads of a program.
fn staged_pool(want: &mut impl FnMut(&str, Value, String), staged: bool, program: TunedFor) {
    const POOL: &str = "properties.posix_pool_slab_count";
    if !staged {
        return;
    }
    if program.threads > 64 {
        let reason = format!("reads use host memory on this machine, and {} threads share 64 buffers", program.threads);
        want(POOL, Value::from(vec![128_u64, program.threads.next_multiple_of(64), 64]), reason);
    } else if program.threads < MANY_THREADS {
        let reason =
            "reads use host memory on this machine; 64 buffers of 1 MiB run out in batches (ai-dynamo/nixl#2070)";
        want(POOL, Value::from(vec![128_u64, 256, 64]), reason.to_owned());
    }
}

/// The bounce buffers on the GPU for unregistered memory.
fn bounce_buffers(
    want: &mut impl FnMut(&str, Value, String),
    hardware: &Hardware,
    unregistered: bool,
    direct_io_kib: u64,
) {
    let Some(bar) = hardware.bar1_bytes.filter(|_| unregistered) else { return };
    // 2 GiB as NIXL recommends, but at most a quarter of BAR1.
    let kib = (bar / 4 / 1024).min(2 << 20) / 64 * 64;
    if kib > 131_072 {
        want(
            "properties.max_device_cache_size_kb",
            kib.into(),
            "reads into unregistered memory go through this cache on the GPU".to_owned(),
        );
        want(
            "properties.per_buffer_cache_size_kb",
            (kib / 128 / 64 * 64).clamp(1024, LARGEST_KIB).min(direct_io_kib).into(),
            "larger bounce buffers, with room for a batch of 128".to_owned(),
        );
    }
}
