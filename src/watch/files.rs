//! A file of the watched program, with its transfers and the tensors that they read.

use super::kv_names;
use super::named_file::{Descriptor, NamedFile};
use super::ranges::Ranges;
use crate::core::{
    KvName, PlainReads, Route, RouteProof, TensorInfo, TensorsUnknown, Transfers, UNKNOWN_FILE, WatchedFile,
    WatchedTensor,
};
use crate::device::resident_bytes;
use crate::models::header::{header_bytes, read_header};
use rustix::process::geteuid;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Alignment in bytes for transfers without a bounce buffer. It applies to offsets, sizes and addresses.
const ALIGNED: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Maximum number of touched ranges of a file. The limit is needed because the program can write any number of them into
/// the shared file.
const MOST_RANGES: usize = 1 << 20;
/// Maximum number of bytes of headers that are read for one report. The headers of the largest published models have
/// 20 MB. The limit is needed because the program can use any number of files with long headers.
const MOST_HEADER_BYTES: u64 = 256 << 20;
/// Maximum size of a file whose share in the page cache is read. This takes about a millisecond per GiB.
const MOST_CACHED_FILE: u64 = 1 << 40;
/// The bit of O_DIRECT in the flags of a descriptor.
const O_DIRECT: u64 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

/// The function that submitted a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Single,
    Batch,
    Stream,
}

/// A submitted transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) write: bool,
    pub(super) how: How,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) address: u64,
    /// Whether the memory was registered. `None` if it may have been registered before the recording began.
    pub(super) registered: Option<bool>,
}

impl Transfer {
    /// The largest power of two, at most [`ALIGNED`], that divides the offset, the size and the address.
    pub(super) const fn alignment(&self) -> u64 {
        1 << (self.offset | self.size | self.address | ALIGNED).trailing_zeros()
    }

    /// Changes the count of each property that can make transfers slow, if the transfer has it.
    fn habits(&self, counts: &mut Transfers, change: impl Fn(&mut u64)) {
        let aligned = self.alignment() == ALIGNED;
        for (has, count) in [
            (self.size < MIB, &mut counts.below_mib),
            (!aligned, &mut counts.unaligned),
            (self.registered == Some(false), &mut counts.unregistered),
            (self.registered.is_none(), &mut counts.maybe_registered),
        ] {
            if has {
                change(count);
            }
        }
    }
}

/// The reads of a tensor.
#[derive(Clone, Copy, Debug, Default)]
struct TensorReads {
    count: u64,
    bytes: u64,
    ns: u64,
    /// Whether the time of one of the reads is not known.
    is_untimed: bool,
}

/// A file with its transfers.
#[derive(Debug)]
pub(super) struct File {
    /// The path in reports.
    pub(super) path: String,
    named: NamedFile,
    reads: Transfers,
    writes: Transfers,
    /// The requested bytes of transfers that did not fail and were not empty.
    requested_bytes: u64,
    registrations: u64,
    failed_registrations: u64,
    /// Number of descriptors with and without O_DIRECT.
    direct: [u64; 2],
    /// The tensors sorted by offset; empty if it is not a safetensors file.
    tensors: Vec<TensorInfo>,
    tensors_unknown: Option<TensorsUnknown>,
    /// The reads of each tensor.
    read: Vec<TensorReads>,
    /// The parts that were read, for a file with tensors.
    covered: Ranges,
    /// The parts that a process had in its page tables, sorted and without overlaps.
    touched: Vec<(u64, u64)>,
    pub(super) plain: PlainReads,
    cached_fraction: Option<f64>,
    kv: Option<KvName>,
}

impl File {
    /// A file without transfers, and the descriptor with which a process used it. `read_before` is the number of bytes of
    /// the headers that were read for this report.
    pub(super) fn new(named: NamedFile, at: Option<Descriptor>, read_before: &mut u64) -> Self {
        let found = if named.is_safetensors() { tensors(&named, at, read_before) } else { Ok(Vec::new()) };
        let tensors_unknown = found.as_ref().err().copied();
        let tensors = found.unwrap_or_default();
        let path = named.shown();
        Self {
            kv: kv_names::of(&path),
            path,
            named,
            tensors_unknown,
            reads: Transfers::default(),
            writes: Transfers::default(),
            requested_bytes: 0,
            registrations: 0,
            failed_registrations: 0,
            direct: [0; 2],
            read: vec![TensorReads::default(); tensors.len()],
            covered: Ranges::default(),
            touched: Vec::new(),
            tensors,
            plain: PlainReads::default(),
            cached_fraction: None,
        }
    }

    /// Reads which share is in the page cache, if the file was read with `O_DIRECT`: such reads leave the cache as it
    /// was.
    pub(super) fn look_at_cache(&mut self) {
        if self.reads.bytes > 0 && self.direct[0] > 0 {
            self.cached_fraction = cached_fraction(&self.named);
        }
    }

    /// Counts a registration of a descriptor with these flags. `u64::MAX` means that the flags are unknown. Those of an
    /// unknown file say nothing about other unknown files.
    pub(super) fn register(&mut self, failed: bool, flags: u64) {
        self.registrations += 1;
        self.failed_registrations += u64::from(failed);
        if flags != u64::MAX && self.path != UNKNOWN_FILE {
            self.direct[usize::from(flags & O_DIRECT == 0)] += 1;
        }
    }

    /// Counts a submitted transfer.
    pub(super) fn submit(&mut self, transfer: &Transfer) {
        self.requested_bytes = self.requested_bytes.saturating_add(transfer.size);
        let counts = self.counts(transfer.write);
        counts.count += 1;
        counts.batched += u64::from(transfer.how == How::Batch);
        counts.streamed += u64::from(transfer.how == How::Stream);
        transfer.habits(counts, |count| *count += 1);
    }

    /// Counts a completed transfer. `result` is the number of bytes or a negative error code. `took_ns` is `None` if
    /// the time is not known. The habits of a transfer that moved no bytes are not counted, because changing them would
    /// not make the program faster.
    pub(super) fn finish(&mut self, transfer: &Transfer, result: i64, took_ns: Option<u64>) {
        let counts = self.counts(transfer.write);
        let bytes = u64::try_from(result).unwrap_or(0);
        counts.errors += u64::from(result < 0);
        counts.empty += u64::from(result == 0);
        counts.bytes = counts.bytes.saturating_add(bytes);
        if bytes == 0 {
            transfer.habits(counts, |count| *count = count.saturating_sub(1));
            self.requested_bytes = self.requested_bytes.saturating_sub(transfer.size);
        } else if !transfer.write {
            self.read_tensors(transfer.offset, bytes, took_ns);
        }
    }

    /// Counts a transfer that was cancelled. It may have moved some bytes.
    pub(super) fn cancel(&mut self, transfer: &Transfer) {
        let counts = self.counts(transfer.write);
        counts.cancelled += 1;
        transfer.habits(counts, |count| *count = count.saturating_sub(1));
    }

    /// The bytes that were requested in transfers that moved bytes, or that may have moved some.
    pub(super) const fn requested_bytes(&self) -> u64 {
        self.requested_bytes
    }

    const fn counts(&mut self, write: bool) -> &mut Transfers {
        if write { &mut self.writes } else { &mut self.reads }
    }

    /// Counts a completed read of libc.
    pub(super) fn finish_plain(&mut self, offset: u64, result: i64, took_ns: u64) {
        self.plain.count += 1;
        self.plain.total_ns = self.plain.total_ns.saturating_add(took_ns);
        match u64::try_from(result) {
            Ok(bytes) => {
                self.plain.bytes = self.plain.bytes.saturating_add(bytes);
                self.read_tensors(offset, bytes, Some(took_ns));
            }
            Err(_) => self.plain.errors += 1,
        }
    }

    /// Counts a mapping of the file.
    pub(super) fn map(&mut self, bytes: u64) {
        self.plain.mappings += 1;
        self.plain.mapped_bytes = self.plain.mapped_bytes.max(bytes);
    }

    /// Adds parts of the file that a process had in its page tables.
    pub(super) fn touch(&mut self, ranges: &[(u64, u64)]) {
        let room = MOST_RANGES.saturating_sub(self.touched.len());
        self.touched.extend(ranges.iter().filter(|(from, to)| from < to).take(room));
        self.touched.sort_unstable();
        self.touched = joined(&self.touched);
        self.plain.touched_bytes = self.touched.iter().fold(0, |sum: u64, (from, to)| sum.saturating_add(to - from));
    }

    /// The touched bytes of a tensor.
    fn touched_bytes(&self, tensor: &TensorInfo) -> u64 {
        let (first, end) = (tensor.file_offset, tensor.file_offset + tensor.bytes);
        let from = self.touched.partition_point(|(_, to)| *to <= first);
        let inside = self.touched[from..].iter().take_while(|(from, _)| *from < end);
        inside.map(|(from, to)| (*to).min(end).saturating_sub((*from).max(first))).fold(0, u64::saturating_add)
    }

    /// Adds a read to the tensors that it touched. Its time is shared by bytes.
    fn read_tensors(&mut self, offset: u64, bytes: u64, took_ns: Option<u64>) {
        if bytes == 0 || self.tensors.is_empty() {
            return;
        }
        let end = offset.saturating_add(bytes);
        self.covered.add(offset, end);
        let first = self.tensors.partition_point(|tensor| tensor.file_offset + tensor.bytes <= offset);
        for (tensor, read) in self.tensors.iter().zip(&mut self.read).skip(first) {
            if tensor.file_offset >= end {
                break;
            }
            let part = (tensor.file_offset + tensor.bytes).min(end) - tensor.file_offset.max(offset);
            if part > 0 {
                let share = u128::from(took_ns.unwrap_or(0)) * u128::from(part) / u128::from(bytes);
                read.count += 1;
                read.bytes = read.bytes.saturating_add(part);
                read.ns = read.ns.saturating_add(share as u64);
                read.is_untimed |= took_ns.is_none();
            }
        }
    }

    /// The file in the report, without the route, which is determined later.
    pub(super) fn seen(&self) -> WatchedFile {
        let tensors =
            self.tensors.iter().zip(&self.read).map(|(tensor, read)| (tensor, read, self.touched_bytes(tensor)));
        let tensors = tensors.filter(|(_, read, touched)| read.count > 0 || *touched > 0);
        WatchedFile {
            path: self.path.clone(),
            route: Route::None,
            proven: false,
            proof: RouteProof::Nothing,
            reads: self.reads,
            writes: self.writes,
            registrations: self.registrations,
            failed_registrations: self.failed_registrations,
            o_direct: match self.direct {
                [with, 0] if with > 0 => Some(true),
                [0, without] if without > 0 => Some(false),
                _ => None,
            },
            tensors: tensors
                .map(|(tensor, read, touched)| WatchedTensor {
                    name: tensor.name.clone(),
                    size: tensor.bytes,
                    reads: read.count,
                    bytes: read.bytes.max(touched),
                    touched_bytes: touched,
                    covered_bytes: self.covered.bytes(tensor.file_offset, tensor.file_offset + tensor.bytes),
                    read_ns: (read.count > 0 && !read.is_untimed).then_some(read.ns),
                })
                .collect(),
            // No read can move bytes of a tensor without bytes.
            tensors_of_file: self.tensors.iter().filter(|tensor| tensor.bytes > 0).count() as u64,
            tensors_unknown: self.tensors_unknown,
            kv: self.kv.clone(),
            plain: self.plain,
            cached_fraction: self.cached_fraction,
        }
    }
}

/// The tensors in the header of a file.
fn tensors(
    named: &NamedFile,
    at: Option<Descriptor>,
    read_before: &mut u64,
) -> Result<Vec<TensorInfo>, TensorsUnknown> {
    let left = MOST_HEADER_BYTES.saturating_sub(*read_before);
    let (length, tensors) = named.with(at, move |file| {
        // This is the open file, also if another one takes its path.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let length = header_bytes(Path::new(&path)).filter(|length| *length <= left).ok_or(TensorsUnknown::NotRead)?;
        let header = read_header(Path::new(&path)).map_err(|_| TensorsUnknown::NotRead);
        Ok((length, header.map(|header| header.tensors)))
    })?;
    *read_before = read_before.saturating_add(length);
    tensors
}

/// The share of a file in the page cache. `None` if it is unknown: for a file of another user, the kernel reports all
/// bytes.
fn cached_fraction(named: &NamedFile) -> Option<f64> {
    let file = named.open(None).ok()?;
    let meta = file.metadata().ok()?;
    let user = geteuid();
    if (!user.is_root() && meta.uid() != user.as_raw()) || meta.len() > MOST_CACHED_FILE {
        return None;
    }
    let cached = resident_bytes(&file, 0..meta.len()).ok()?.min(meta.len());
    (meta.len() > 0).then(|| cached as f64 / meta.len() as f64)
}

/// The sorted ranges without overlaps.
pub(super) fn joined(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match joined.last_mut().filter(|(_, end)| *end >= *from) {
            Some(last) => last.1 = last.1.max(*to),
            None => joined.push((*from, *to)),
        }
    }
    joined
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::named_file::tests::named;
    use super::*;

    /// A file whose tensors are set by the test.
    fn plain_file() -> File {
        File::new(NamedFile::without_path("/x"), None, &mut 0)
    }

    fn tensor(name: &str, file_offset: u64, bytes: u64) -> TensorInfo {
        TensorInfo { name: name.to_owned(), dtype: "U8".into(), shape: vec![bytes], shard: 0, file_offset, bytes }
    }

    fn read_of(offset: u64, size: u64) -> Transfer {
        Transfer { write: false, how: How::Single, offset, size, address: 4096, registered: Some(true) }
    }

    #[test]
    fn reads_are_divided_among_the_tensors_that_they_touch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let header = br#"{"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},"b":{"dtype":"U8","shape":[6],"data_offsets":[10,16]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend([0; 16]);
        std::fs::write(&path, bytes).unwrap();
        let data = 8 + header.len() as u64;
        let mut file = File::new(named(&path), None, &mut 0);
        for (offset, size) in [(data + 4, 8), (data, 2), (0, 8)] {
            file.submit(&read_of(offset, size));
            file.finish(&read_of(offset, size), size.cast_signed(), Some(100));
        }
        let seen = file.seen();
        let tensors: Vec<_> =
            seen.tensors.iter().map(|t| (t.name.as_str(), t.reads, t.bytes, t.covered_bytes)).collect();
        assert_eq!(tensors, [("a", 2, 8, Some(8)), ("b", 1, 2, Some(2))]);
        assert_eq!((seen.tensors_of_file, seen.reads.bytes, seen.reads.count), (2, 18, 3));
    }

    #[test]
    fn the_time_of_a_read_is_shared_by_the_bytes_of_its_tensors() {
        let mut file = plain_file();
        file.tensors = vec![tensor("a", 100, 30), tensor("b", 130, 10), tensor("c", 140, 10)];
        file.read = vec![TensorReads::default(); 3];
        let times = |file: &File| file.seen().tensors.iter().map(|tensor| tensor.read_ns).collect::<Vec<_>>();
        // Ten of the 50 bytes are before the first tensor.
        file.finish(&read_of(90, 50), 50, Some(1000));
        assert_eq!(times(&file), [Some(600), Some(200)]);
        file.finish_plain(130, 20, 400);
        assert_eq!(times(&file), [Some(600), Some(400), Some(200)]);
        // A failed read moves no bytes, and the time of a read on a stream is not known.
        file.finish(&read_of(100, 30), -5, Some(1000));
        file.finish(&read_of(140, 10), 10, None);
        assert_eq!(times(&file), [Some(600), Some(400), None]);
    }

    #[test]
    fn a_part_of_a_tensor_that_is_read_twice_is_not_the_complete_tensor() {
        let mut file = plain_file();
        file.tensors = vec![tensor("a", 100, 8)];
        file.read = vec![TensorReads::default()];
        let mut covered = |offset, size: u64| {
            file.finish(&read_of(offset, size), size.cast_signed(), Some(100));
            let seen = file.seen();
            (seen.tensors[0].bytes, seen.tensors[0].covered_bytes)
        };
        assert_eq!([covered(100, 4), covered(100, 4), covered(102, 3)], [(4, Some(4)), (8, Some(4)), (11, Some(5))]);
        assert_eq!(covered(90, 50), (19, Some(8)));
    }

    #[test]
    fn headers_are_read_up_to_a_limit_for_all_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let header = br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        let length = header.len() as u64;
        std::fs::write(&path, [&length.to_le_bytes(), header.as_slice(), b"x"].concat()).unwrap();
        let mut read = MOST_HEADER_BYTES - 2 * length;
        let mut seen = || File::new(named(&path), None, &mut read).seen();
        let seen = [seen(), seen(), seen()].map(|file| (file.tensors_of_file, file.tensors_unknown));
        assert_eq!(seen, [(1, None), (1, None), (0, Some(TensorsUnknown::NotRead))]);
        assert_eq!(read, MOST_HEADER_BYTES);
    }

    #[test]
    fn mapped_tensors_have_the_bytes_that_a_process_touched() {
        let mut file = plain_file();
        file.tensors =
            vec![tensor("a", 100, 5000), tensor("b", 5100, 100), tensor("c", 90_000, 10), tensor("d", 90_010, 0)];
        file.read = vec![TensorReads::default(); 4];
        file.map(100_000);
        file.touch(&[(0, 4096), (8192, 12288)]);
        file.touch(&[(4096, 8192)]);
        let seen = file.seen();
        let tensors: Vec<_> = seen.tensors.iter().map(|t| (t.name.as_str(), t.reads, t.bytes)).collect();
        assert_eq!(tensors, [("a", 0, 5000), ("b", 0, 100)]);
        assert!(seen.tensors.iter().all(|tensor| tensor.touched_bytes == tensor.bytes && tensor.read_ns.is_none()));
        assert_eq!(seen.tensors_of_file, 3, "a tensor without bytes is not counted");
        assert_eq!((seen.plain.mapped_bytes, seen.plain.touched_bytes, seen.plain.mappings), (100_000, 12_288, 1));
    }

    #[test]
    fn errors_alignment_and_o_direct_are_counted() {
        let mut file = plain_file();
        file.register(false, O_DIRECT);
        assert_eq!(file.seen().o_direct, Some(true));
        file.register(true, 0);
        assert_eq!((file.seen().o_direct, file.seen().failed_registrations), (None, 1));
        for transfer in [read_of(0, 8192), read_of(1, 4096), Transfer { registered: Some(false), ..read_of(0, MIB) }] {
            file.submit(&transfer);
        }
        let reads = file.seen().reads;
        assert_eq!((reads.unaligned, reads.below_mib, reads.unregistered, reads.errors), (1, 2, 1, 0));
    }

    #[test]
    fn transfers_without_bytes_are_counted_and_their_habits_are_not() {
        let mut file = plain_file();
        let bad = Transfer { registered: Some(false), ..read_of(1, 100) };
        for (transfer, result) in [(bad, -5), (bad, 0), (bad, 100), (read_of(0, 4096), 4096)] {
            file.submit(&transfer);
            file.finish(&transfer, result, Some(100));
        }
        let reads = file.seen().reads;
        assert_eq!((reads.count, reads.errors, reads.empty, reads.moved(), reads.bytes), (4, 1, 1, 2, 4196));
        assert_eq!((reads.unaligned, reads.below_mib, reads.unregistered, reads.maybe_registered), (1, 2, 1, 0));
    }
}
