//! The transfers, tensors and reads of a file that a watched program used.

use super::route::{Route, RouteProof};
use serde::{Deserialize, Serialize};

/// The transfers of a file in one direction. Each batch entry and each stream transfer counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// The number of submitted transfers.
    pub count: u64,
    /// The bytes that were transferred.
    pub bytes: u64,
    /// The number of failed transfers.
    pub errors: u64,
    /// The number of transfers that succeeded and moved 0 bytes. Like failed ones, they are in no count below, except
    /// `batched` and `streamed`.
    #[serde(default)]
    pub empty: u64,
    /// The number of entries of batches that were cancelled before the program saw their end. Like failed ones, they are in
    /// no count below, except `batched`.
    #[serde(default)]
    pub cancelled: u64,
    /// The number of transfers below 1 MiB.
    pub below_mib: u64,
    /// The number of transfers whose offset, size or memory address is not a multiple of 4 KiB.
    pub unaligned: u64,
    /// The number of transfers to or from unregistered memory.
    pub unregistered: u64,
    /// The number of transfers whose memory may have been registered before the recording began, or by a lost call.
    #[serde(default)]
    pub maybe_registered: u64,
    /// The number of transfers that were entries of a batch.
    pub batched: u64,
    /// The number of transfers on a stream.
    pub streamed: u64,
}

impl Transfers {
    /// The transfers that moved bytes, or whose result is not known.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.count.saturating_sub(self.errors).saturating_sub(self.empty).saturating_sub(self.cancelled)
    }
}

/// A file that cuFile used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedFile {
    /// Its path when it was registered. A number follows if another file had the same path before.
    pub path: String,
    /// The route of its transfers. [`Route::None`] if it is unknown.
    pub route: Route,
    /// Whether the route is proven.
    pub proven: bool,
    /// The evidence for the route.
    pub proof: RouteProof,
    /// The reads of the file.
    pub reads: Transfers,
    /// The writes of the file.
    pub writes: Transfers,
    /// The number of registrations of its descriptors.
    pub registrations: u64,
    /// The number of failed registrations.
    pub failed_registrations: u64,
    /// Whether its descriptors have `O_DIRECT`. `None` if it is unknown or differs between them.
    pub o_direct: Option<bool>,
    /// The tensors that were read, for a safetensors file.
    pub tensors: Vec<WatchedTensor>,
    /// The number of tensors with bytes in the file. 0 if it is not a safetensors file.
    pub tensors_of_file: u64,
    /// The reason why the tensors of a safetensors file are not known.
    #[serde(default)]
    pub tensors_unknown: Option<TensorsUnknown>,
    /// The content of a file of a KV-cache system, according to its name.
    #[serde(default)]
    pub kv: Option<KvName>,
    /// The reads with libc and through mappings.
    #[serde(default)]
    pub plain: PlainReads,
    /// For a file that was read with `O_DIRECT`, the share of it in the page cache after the end. `None` if it is unknown.
    #[serde(default)]
    pub cached_fraction: Option<f64>,
}

impl WatchedFile {
    /// The reads and writes that moved bytes, or whose result is not known.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.reads.moved().saturating_add(self.writes.moved())
    }
}

/// The reason why the tensors of a safetensors file are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorsUnknown {
    /// Another file is at its path.
    OtherFile,
    /// Its header was not read: the file could not be opened, has no valid header, or is beyond a limit.
    NotRead,
}

/// The parts of the file name of a KV cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvName {
    /// `lmcache`, `llmd` or `ucm`.
    pub system: String,
    /// The chunk or block in hexadecimal digits.
    pub chunk: String,
    /// The layer or group, if the name has one.
    pub layer: Option<String>,
    /// The model, if the name has one.
    pub model: Option<String>,
}

/// The reads of a file without cuFile. Reads below 64 KiB are not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlainReads {
    /// The number of read calls.
    pub count: u64,
    /// The bytes that they returned.
    pub bytes: u64,
    /// The number of failed read calls.
    pub errors: u64,
    /// The time inside the read calls in nanoseconds.
    pub total_ns: u64,
    /// The number of mappings.
    pub mappings: u64,
    /// The size of the largest mapping in bytes.
    pub mapped_bytes: u64,
    /// The mapped bytes that were in the page tables of a process when gds-top read them. The process touched them,
    /// or the kernel mapped them together with touched pages.
    pub touched_bytes: u64,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedTensor {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The number of reads that touched it.
    pub reads: u64,
    /// The bytes of the tensor that were read. A byte that was read twice counts twice.
    pub bytes: u64,
    /// The bytes of the tensor in touched pages of a mapping. They are an upper bound, because the kernel maps pages
    /// together. 0 in earlier recordings.
    #[serde(default)]
    pub touched_bytes: u64,
    /// The bytes of the tensor that reads moved at least once. `None` if it is not known, as in earlier recordings.
    #[serde(default)]
    pub covered_bytes: Option<u64>,
    /// The sum of the time of its reads in nanoseconds. A read of several tensors is shared by bytes. `None` if it is
    /// not known, as without a read, with a read on a stream, and in earlier recordings.
    #[serde(default)]
    pub read_ns: Option<u64>,
}
