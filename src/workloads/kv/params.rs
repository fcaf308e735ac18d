//! The settings of each workload. Names and default values are those of the source system.

use crate::core::KvSystem;
use crate::engines::STREAM_UNREGISTERED;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Defines the enum and its names from one list.
macro_rules! settings {
    ($($setting:ident = $name:literal,)*) => {
        /// A setting of a workload. A name can have different meanings in different systems; [`parameters`] describes
        /// it for each system.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum KvSetting {
            $(#[doc = concat!("`", $name, "`.")] #[serde(rename = $name)] $setting,)*
        }

        impl KvSetting {
            /// The name on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$setting => $name,)*
                }
            }
        }
    };
}

settings! {
    Odirect = "odirect",
    PlainOdirect = "plain_odirect",
    Fsync = "fsync",
    BlockTokens = "block_tokens",
    StreamNumber = "stream_number",
    Async = "async",
    AsyncDepth = "async_depth",
    StreamFlags = "stream_flags",
    HandleCache = "handle_cache",
    Register = "register",
    Misalign = "misalign",
    MisalignLength = "misalign_length",
    MisalignedFallback = "misaligned_fallback",
    StagingBytes = "staging_bytes",
    EnableLayerwise = "enable_layerwise",
    ComputeUs = "compute_us",
    BlockSize = "block_size",
    GpuBlock = "gpu_block",
    ThreadsPerGpu = "threads_per_gpu",
    OnFailure = "on_failure",
    WritePercent = "write_percent",
    ReadPriority = "read_priority",
    NReadThreads = "n_read_threads",
    NWriteThreads = "n_write_threads",
    ChunkSize = "chunk_size",
    MaxConcurrentOps = "max_concurrent_ops",
    PrefetchFactor = "prefetch_factor",
    DirectSlot = "direct_slot",
    MaxCacheSizeGb = "max_cache_size_gb",
    MaxCacheSizeMb = "max_cache_size_mb",
    CheckPayload = "check_payload",
    GdsStreams = "gds_streams",
    RegionBytes = "region_bytes",
    CheckResults = "check_results",
    BatchChunks = "batch_chunks",
    NixlThreads = "nixl_threads",
    RecomputeUs = "recompute_us",
}

impl fmt::Display for KvSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A setting of one system: its default, range and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The setting.
    pub setting: KvSetting,
    /// The default value.
    pub default: u64,
    /// The minimum and the maximum value.
    pub range: (u64, u64),
    /// Its meaning with the unit.
    pub what: &'static str,
}

const fn of(setting: KvSetting, default: u64, range: (u64, u64), what: &'static str) -> Parameter {
    Parameter { setting, default, range, what }
}

const HANDLES: (u64, u64) = (0, 1 << 20);
const SWITCH: (u64, u64) = (0, 1);
const ODIRECT: Parameter = of(KvSetting::Odirect, 1, SWITCH, "open files for cuFile with O_DIRECT");
const PLAIN_ODIRECT: Parameter = of(KvSetting::PlainOdirect, 0, SWITCH, "open files of disk and staging with O_DIRECT");
const GPU_BLOCK: Parameter =
    of(KvSetting::GpuBlock, 16, (1, 65_536), "tokens of a block of the paged cache, which determines the slots");
const CHUNK_SIZE: Parameter = of(KvSetting::ChunkSize, 256, (1, 65_536), "tokens of a chunk");
const HANDLES_KEPT: Parameter =
    of(KvSetting::HandleCache, 0, HANDLES, "maximum number of cached file handles; the source caches none");
const FSYNC: Parameter = of(KvSetting::Fsync, 0, SWITCH, "wait for the disk before a file is committed");

const RECOMPUTE: Parameter = of(
    KvSetting::RecomputeUs,
    0,
    (0, 10_000_000),
    "microseconds to compute one token without the cache; the report then compares the times to the first token",
);

const LAYERWISE_UCM: &str = "request all layers at once and wait for each before it is computed, as UCM's connector does; 0 waits for all at the end";

const ASYNC_UCM: &str = "cuFileReadAsync and cuFileWriteAsync on a CUDA stream of each worker, completed by a callback; 0: cuFileRead and cuFileWrite";

const UCM: [Parameter; 17] = [
    of(KvSetting::BlockTokens, 128, (1, 65_536), "tokens per block; each block is a file"),
    of(KvSetting::StreamNumber, 32, (1, 256), "workers, each with one operation at a time, or with async a stream"),
    of(KvSetting::Async, 0, SWITCH, ASYNC_UCM),
    of(KvSetting::AsyncDepth, 16, (1, 4096), "with async: maximum number of outstanding operations on a stream"),
    of(
        KvSetting::StreamFlags,
        STREAM_UNREGISTERED,
        (0, STREAM_UNREGISTERED),
        "with async: flags of cuFileStreamRegister; 16 leaves streams unregistered, as UCM does",
    ),
    of(
        KvSetting::HandleCache,
        65_536,
        HANDLES,
        "maximum number of cached file handles; 0 opens and registers a file for every operation",
    ),
    of(KvSetting::Register, 0, SWITCH, "register the KV tensors with cuFile; 0 uses the buffers of the library"),
    of(KvSetting::Misalign, 0, (0, 4095), "number of bytes by which file and memory offsets are off the 4 KiB grid"),
    of(
        KvSetting::MisalignLength,
        0,
        (0, 4095),
        "number of bytes by which lengths are off the grid; the rest is transferred too",
    ),
    of(
        KvSetting::MisalignedFallback,
        0,
        SWITCH,
        "1: misaligned transfers use staging, as in the proposal; 0: they use cuFile",
    ),
    of(KvSetting::StagingBytes, 262_144, (4096, 1 << 30), "pinned buffer of a worker without cuFile"),
    of(KvSetting::EnableLayerwise, 0, SWITCH, LAYERWISE_UCM),
    of(
        KvSetting::ComputeUs,
        1000,
        (0, 10_000_000),
        "with enable_layerwise: simulated computing time of a layer in microseconds",
    ),
    ODIRECT,
    PLAIN_ODIRECT,
    FSYNC,
    RECOMPUTE,
];

const LLMD: [Parameter; 13] = [
    of(KvSetting::BlockSize, 256, (1, 65_536), "tokens of a file"),
    GPU_BLOCK,
    of(KvSetting::ThreadsPerGpu, 64, (1, 256), "number of threads, at most the number of CPUs"),
    of(
        KvSetting::Register,
        0,
        (0, 2),
        "1: register each layer's tensor as one range; 2: each KV block separately; 0: neither",
    ),
    HANDLES_KEPT,
    of(KvSetting::StagingBytes, 0, (0, 1 << 30), "pinned buffer of a thread on the staging path; 0: a complete file"),
    of(
        KvSetting::OnFailure,
        0,
        SWITCH,
        "0: drop the write or ignore the read, as llm-d 0.22 does; 1: use staging, as in its draft",
    ),
    of(
        KvSetting::WritePercent,
        0,
        (0, 100),
        "number of files that the same threads write during a read, in percent of the files read",
    ),
    of(
        KvSetting::ReadPriority,
        1,
        SWITCH,
        "with write_percent: 1 lets three of four threads prefer reads to writes; 0 keeps the order of the requests",
    ),
    ODIRECT,
    PLAIN_ODIRECT,
    FSYNC,
    RECOMPUTE,
];

const VLLM_FS: [Parameter; 8] = [
    of(KvSetting::BlockSize, 16, (1, 65_536), "tokens of a file"),
    GPU_BLOCK,
    of(KvSetting::NReadThreads, 16, (1, 256), "threads that read"),
    of(KvSetting::NWriteThreads, 16, (1, 256), "threads that write"),
    HANDLES_KEPT,
    of(KvSetting::PlainOdirect, 1, SWITCH, "open files with O_DIRECT, as vLLM does if its directory accepts it"),
    FSYNC,
    RECOMPUTE,
];

const LMCACHE: [Parameter; 21] = [
    CHUNK_SIZE,
    of(KvSetting::MaxConcurrentOps, 4, (1, 256), "concurrent transfers (disk_io_threads of today's LMCache)"),
    of(
        KvSetting::BlockSize,
        0,
        (0, 1 << 30),
        "maximum size of a transfer in bytes; 0: a complete chunk, as in LMCache",
    ),
    of(
        KvSetting::EnableLayerwise,
        0,
        SWITCH,
        "1: read layer by layer and compute in between; 0: chunk by chunk, as LMCache does",
    ),
    of(
        KvSetting::PrefetchFactor,
        2,
        (0, 1000),
        "with enable_layerwise: layers that are loaded ahead of the one that is computed",
    ),
    of(
        KvSetting::ComputeUs,
        1000,
        (0, 10_000_000),
        "with enable_layerwise: simulated computing time of a layer in microseconds",
    ),
    GPU_BLOCK,
    of(KvSetting::Register, 0, SWITCH, "register the staging slab on the target with cuFile"),
    of(
        KvSetting::RegionBytes,
        0,
        (0, 1 << 30),
        "with register: bytes of a registered region, at least 1 MiB; 0: the complete slab, as in LMCache",
    ),
    of(
        KvSetting::DirectSlot,
        0,
        SWITCH,
        "1: transfer straight into the slots of the paged cache; 0: through the staging slab",
    ),
    of(
        KvSetting::Async,
        0,
        SWITCH,
        "1: cuFileReadAsync and cuFileWriteAsync on a CUDA stream of each worker; 0: synchronous",
    ),
    of(
        KvSetting::AsyncDepth,
        4,
        (1, 4096),
        "with async: maximum number of outstanding transfers on a stream; each uses a slot in the slab",
    ),
    of(
        KvSetting::StreamFlags,
        7,
        (0, STREAM_UNREGISTERED),
        "with async: flags of cuFileStreamRegister; 16 leaves streams unregistered",
    ),
    HANDLES_KEPT,
    of(
        KvSetting::MaxCacheSizeGb,
        256,
        (1, 1 << 30),
        "maximum size of the stored chunks in GiB; the oldest chunks are removed first (LMCache's back end removes none)",
    ),
    of(
        KvSetting::MaxCacheSizeMb,
        0,
        (0, 1 << 40),
        "the same in MiB, for stores below 1 GiB; 0 means that max_cache_size_gb applies",
    ),
    of(
        KvSetting::CheckPayload,
        0,
        SWITCH,
        "a lookup also compares the payload's checksum, which reads the chunk through host memory",
    ),
    of(KvSetting::Odirect, 0, SWITCH, "open files for cuFile with O_DIRECT (use_direct_io of LMCache)"),
    PLAIN_ODIRECT,
    FSYNC,
    RECOMPUTE,
];

const LMCACHE_MP: [Parameter; 13] = [
    CHUNK_SIZE,
    of(KvSetting::GdsStreams, 1, (1, 64), "CUDA streams, each with a worker"),
    GPU_BLOCK,
    of(KvSetting::Register, 0, SWITCH, "register the staging memory with cuFile, region by region"),
    of(
        KvSetting::RegionBytes,
        16 << 20,
        (1 << 20, 16 << 20),
        "bytes of a registered region; a chunk that crosses two regions is divided",
    ),
    of(
        KvSetting::Async,
        1,
        SWITCH,
        "1: cuFileReadAsync and cuFileWriteAsync, as LMCache uses them; 0: cuFileRead and cuFileWrite",
    ),
    of(
        KvSetting::AsyncDepth,
        4,
        (1, 64),
        "with async: maximum number of outstanding chunks on a stream; each uses a slot in the staging memory",
    ),
    of(
        KvSetting::StreamFlags,
        7,
        (0, STREAM_UNREGISTERED),
        "with async: flags of cuFileStreamRegister; 16 leaves streams unregistered",
    ),
    of(
        KvSetting::CheckResults,
        1,
        SWITCH,
        "with async: 0 ignores the results of the calls, as LMCache does, and counts the losses",
    ),
    ODIRECT,
    PLAIN_ODIRECT,
    FSYNC,
    RECOMPUTE,
];

const LMCACHE_NIXL: [Parameter; 9] = [
    CHUNK_SIZE,
    GPU_BLOCK,
    of(
        KvSetting::BatchChunks,
        8,
        (1, 4096),
        "chunks of a NIXL transfer, and pages of the buffer (nixl_buffer_size divided by the size of a chunk)",
    ),
    of(KvSetting::NixlThreads, 0, (0, 256), "nixl-gds-mt: threads of the plugin (thread_count); 0: its default"),
    of(KvSetting::MaxConcurrentOps, 4, (1, 256), "disk and ram: concurrent transfers"),
    of(KvSetting::Odirect, 0, SWITCH, "NIXL: open files with O_DIRECT (use_direct_io of LMCache)"),
    PLAIN_ODIRECT,
    FSYNC,
    RECOMPUTE,
];

/// The settings of a workload.
#[must_use]
pub const fn parameters(kind: KvSystem) -> &'static [Parameter] {
    match kind {
        KvSystem::Ucm => &UCM,
        KvSystem::Llmd => &LLMD,
        KvSystem::VllmFs => &VLLM_FS,
        KvSystem::Lmcache => &LMCACHE,
        KvSystem::LmcacheMp => &LMCACHE_MP,
        KvSystem::LmcacheNixl => &LMCACHE_NIXL,
    }
}

/// A sentence about where the other settings of the source system are.
#[must_use]
pub const fn elsewhere(kind: KvSystem) -> &'static str {
    match kind {
        KvSystem::Ucm => {
            "transferUseDirect is the choice of variants; sizes of libcufile's buffers are in cufile.json (--cufile-json)"
        }
        KvSystem::Llmd => {
            "gds_mode is --gds-mode or the choice of variants, shared_storage_path DIR, cufile.json --cufile-json (llmd's default if none is named)"
        }
        KvSystem::VllmFs => "root_dir is DIR; cpu_bytes_to_use, enable_kv_events and locality are not used here",
        KvSystem::Lmcache => {
            "use_gds is the choice of variants, gds_path DIR (several, separated by commas: the GPU's number selects one, as gds_path_sharding=by_gpu), use_mla the shape's; save_decode_cache is not used here"
        }
        KvSystem::LmcacheMp => {
            "--gds-l1-path is DIR, --l1-size-gb follows from --tokens and --batch, --gds-l1-use-direct-io is odirect"
        }
        KvSystem::LmcacheNixl => {
            "nixl_path is DIR, nixl_backend the choice of variants, nixl_pool_size follows from --tokens and --batch"
        }
    }
}

/// Parses `NAME=NUMBER`.
pub(super) fn parse(kind: KvSystem, text: &str) -> Result<(KvSetting, u64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not a setting: expected NAME=NUMBER, for example handle_cache=0"))?;
    let known = parameters(kind);
    let Some(parameter) = known.iter().find(|p| p.setting.name() == name) else {
        let names: Vec<&str> = known.iter().map(|p| p.setting.name()).collect();
        return Err(format!("'{name}' is not a setting of {}; known settings: {}", kind.name(), names.join(", ")));
    };
    let number: u64 = value.parse().map_err(|e| format!("'{value}' of {name} is not a number: {e}"))?;
    let (low, high) = parameter.range;
    if !(low..=high).contains(&number) {
        return Err(format!("{name}={number} is out of range: {low} to {high} ({})", parameter.what));
    }
    Ok((parameter.setting, number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_their_range_and_names_are_unique() {
        for kind in KvSystem::ALL {
            let known = parameters(kind);
            for (at, p) in known.iter().enumerate() {
                assert!((p.range.0..=p.range.1).contains(&p.default), "{p:?}");
                assert!(known[..at].iter().all(|q| q.setting != p.setting), "{p:?}");
                assert_eq!(parse(kind, &format!("{}={}", p.setting, p.default)), Ok((p.setting, p.default)));
            }
        }
    }

    #[test]
    fn wrong_settings_are_answered_with_what_is_right() {
        for (text, part) in [
            ("handle_cache", "NAME=NUMBER"),
            ("threads=3", "known settings: block_tokens"),
            ("register=2", "0 to 1"),
            ("register=x", "not a number"),
        ] {
            let said = parse(KvSystem::Ucm, text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
