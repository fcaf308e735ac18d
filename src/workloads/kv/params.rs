//! The settings of each workload, named after its source, with the source's values as defaults.

use crate::core::KvSystem;
use crate::engines::STREAM_UNREGISTERED;

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The default value.
    pub default: u64,
    /// The least and the largest value.
    pub range: (u64, u64),
    /// Its meaning and unit.
    pub what: &'static str,
}

const fn of(name: &'static str, default: u64, range: (u64, u64), what: &'static str) -> Parameter {
    Parameter { name, default, range, what }
}

const HANDLES: (u64, u64) = (0, 1 << 20);
const SWITCH: (u64, u64) = (0, 1);
const ODIRECT: Parameter = of("odirect", 1, SWITCH, "open files for cuFile with O_DIRECT");
const PLAIN_ODIRECT: Parameter = of("plain_odirect", 0, SWITCH, "open files of disk and staging with O_DIRECT");
const FSYNC: Parameter = of("fsync", 0, SWITCH, "wait for the disk before a file is committed");

const LAYERWISE_UCM: &str = "ask for all layers at once and wait for each before it is computed, as UCM's connector does; 0 waits for all at the end";

const ASYNC_UCM: &str = "cuFileReadAsync and cuFileWriteAsync on a CUDA stream of each worker, completed by a callback; 0: cuFileRead and cuFileWrite";

const UCM: [Parameter; 14] = [
    of("block_tokens", 128, (1, 65_536), "tokens of a block, which is a file"),
    of("stream_number", 32, (1, 256), "workers, each with one operation at a time, or with async a stream"),
    of("async", 0, SWITCH, ASYNC_UCM),
    of("async_depth", 16, (1, 4096), "with async: most outstanding operations on a stream"),
    of(
        "stream_flags",
        STREAM_UNREGISTERED,
        (0, STREAM_UNREGISTERED),
        "with async: flags of cuFileStreamRegister; 16 leaves streams unregistered, as UCM does",
    ),
    of("handle_cache", 65_536, HANDLES, "most file handles kept; 0 opens and registers for every operation"),
    of("register", 0, SWITCH, "register the KV tensors with cuFile; 0 leaves it to the library's own buffers"),
    of("misalign", 0, (0, 4095), "bytes by which file and memory offsets miss the 4 KiB grid"),
    of("staging_bytes", 262_144, (4096, 1 << 30), "pinned buffer of a worker without cuFile"),
    of("enable_layerwise", 0, SWITCH, LAYERWISE_UCM),
    of(
        "compute_us",
        1000,
        (0, 10_000_000),
        "with enable_layerwise: simulated computing time of a layer in microseconds",
    ),
    ODIRECT,
    PLAIN_ODIRECT,
    FSYNC,
];

const LLMD: [Parameter; 11] = [
    of("block_size", 256, (1, 65_536), "tokens of a file"),
    of("gpu_block", 16, (1, 65_536), "tokens of a block of the paged cache"),
    of("threads_per_gpu", 64, (1, 256), "threads, never more than CPUs"),
    of("register", 0, (0, 2), "1: register each layer's tensor as one; 2: each KV block separately; 0: neither"),
    of("handle_cache", 0, HANDLES, "most file handles kept; the source keeps none"),
    of("staging_bytes", 1 << 20, (4096, 1 << 30), "pinned buffer of a thread on the staging path"),
    of("write_percent", 0, (0, 100), "files written during a read by the same threads, in percent of those read"),
    of(
        "read_priority",
        1,
        SWITCH,
        "with write_percent: three of four threads take reads before writes; 0: in the order of asking",
    ),
    ODIRECT,
    PLAIN_ODIRECT,
    FSYNC,
];

const LMCACHE: [Parameter; 15] = [
    of("chunk_size", 256, (1, 65_536), "tokens of a chunk, which is a file"),
    of("max_concurrent_ops", 4, (1, 256), "concurrent transfers"),
    of("block_size", 1 << 20, (4096, 1 << 30), "bytes of the largest transfer"),
    of("enable_layerwise", 1, SWITCH, "read layer by layer, computing between; 0 reads chunk by chunk"),
    of("prefetch_factor", 2, (0, 1000), "layers that are loaded ahead of the one that is computed"),
    of("compute_us", 1000, (0, 10_000_000), "simulated computing time of a layer in microseconds"),
    of("gpu_block", 16, (1, 65_536), "tokens of a block of the paged cache, which slots are mapped by"),
    of("register", 0, SWITCH, "register the staging slab on the target with cuFile, as a whole"),
    of("handle_cache", 0, HANDLES, "most file handles kept; the source keeps none"),
    of(
        "max_cache_size_gb",
        256,
        (1, 1 << 30),
        "GiB of chunks that the disk may hold; the least recently written are removed first",
    ),
    of(
        "max_cache_size_mb",
        0,
        (0, 1 << 40),
        "the same in MiB, for stores of less than a GiB; 0 leaves it to max_cache_size_gb",
    ),
    of(
        "check_payload",
        0,
        SWITCH,
        "a lookup compares the payload's checksum too, which reads the chunk through the host",
    ),
    ODIRECT,
    PLAIN_ODIRECT,
    FSYNC,
];

/// The settings of a workload.
#[must_use]
pub const fn parameters(kind: KvSystem) -> &'static [Parameter] {
    match kind {
        KvSystem::Ucm => &UCM,
        KvSystem::Llmd => &LLMD,
        KvSystem::Lmcache => &LMCACHE,
    }
}

/// The place of the other settings of the source, in a sentence.
#[must_use]
pub const fn elsewhere(kind: KvSystem) -> &'static str {
    match kind {
        KvSystem::Ucm => {
            "transferUseDirect is the choice of variants; sizes of libcufile's buffers are in cufile.json (--cufile-json)"
        }
        KvSystem::Llmd => {
            "enable_gds is the choice of variants, shared_storage_path DIR, cufile.json --cufile-json (llmd's default if none is named)"
        }
        KvSystem::Lmcache => {
            "enable_gds is the choice of variants, cache_dir DIR, use_mla the shape's, use_async and eviction_policy (lru) are fixed; \
             enable_rdma, enable_compression and save_decode_cache have no part here"
        }
    }
}

/// Reads `NAME=NUMBER`.
pub(super) fn parse(kind: KvSystem, text: &str) -> Result<(String, u64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not a setting: expected NAME=NUMBER, for example handle_cache=0"))?;
    let known = parameters(kind);
    let Some(parameter) = known.iter().find(|p| p.name == name) else {
        let names: Vec<&str> = known.iter().map(|p| p.name).collect();
        return Err(format!("'{name}' is not a setting of {}; known settings: {}", kind.name(), names.join(", ")));
    };
    let number: u64 = value.parse().map_err(|e| format!("'{value}' of {name} is not a number: {e}"))?;
    let (low, high) = parameter.range;
    if !(low..=high).contains(&number) {
        return Err(format!("{name}={number} is out of range: {low} to {high} ({})", parameter.what));
    }
    Ok((name.to_owned(), number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_in_their_range_and_names_are_told_once() {
        for kind in KvSystem::ALL {
            let known = parameters(kind);
            for (at, p) in known.iter().enumerate() {
                assert!((p.range.0..=p.range.1).contains(&p.default), "{p:?}");
                assert!(known[..at].iter().all(|q| q.name != p.name), "{p:?}");
                assert_eq!(parse(kind, &format!("{}={}", p.name, p.default)), Ok((p.name.to_owned(), p.default)));
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
