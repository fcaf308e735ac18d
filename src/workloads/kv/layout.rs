//! The location of every byte: the files with their payloads, the transfers that move them, and the blocks of the
//! paged cache on the target.

use super::chunk::{self, HEADER_BYTES};
use super::content::mix;
use super::keys::{Chain, Key, hex, token};
use super::mapper::FileMapper;
use super::order::{KvOrder, Settings};
use super::params::KvSetting;
use crate::core::{KvSystem, ModelInfo, ShardInfo, TensorInfo, units};
use crate::device::Piece;
use std::ops::Range;
use std::path::PathBuf;

/// Maximum number of transfers in a run, and of tokens. A larger plan would not fit into memory.
const MOST_TRANSFERS: u64 = 4 << 20;
/// Alignment of places on the target in bytes, which GDS requires.
const PAGE: u64 = 4096;
/// The single file of LMCache's GDS L1 tier.
pub(super) const SLAB: &str = "lmcache_gds_slab.bin";

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLayout {
    /// Its key.
    pub(super) key: Key,
    /// The path of the complete file.
    pub(super) path: PathBuf,
    /// The path while it is being written. For a slab and a pool it is the same path, because they are written in
    /// place.
    pub(super) temporary: PathBuf,
    /// The offset of its payload in the file, in bytes.
    pub(super) start: u64,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Index of the file.
    pub(super) file: u32,
    /// Offset in the payload, in bytes.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) bytes: u64,
    /// The layer, if the transfer belongs to one.
    pub(super) layer: u32,
    /// The piece that the transfer moves completely or partly.
    pub(super) tensor: Option<u32>,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    kind: KvSystem,
    seed: u64,
    /// Number of tokens per file.
    file_tokens: u64,
    pub(super) files: Vec<FileLayout>,
    /// The requested keys of each sequence, whether or not they are stored.
    pub(super) asked: Vec<Vec<Key>>,
    /// Number of bytes in a file before its payload; 0 for the chunks of a slab.
    pub(super) data_offset: u64,
    /// Whether the run writes.
    write: bool,
    /// Size of a file's payload in bytes.
    pub(super) payload: u64,
    /// Number of bytes that are contiguous in the payload and on the target.
    extent: u64,
    /// Number of layers, of vectors per token and layer, and of paged-cache blocks per file.
    layers: u64,
    vectors: u64,
    blocks: u64,
    /// The slot of each block of the paged cache, by its number.
    slots: Vec<u32>,
    /// Number of bytes by which all offsets are moved off the 4 KiB grid.
    pub(super) misalign: u64,
    pub(super) target_bytes: u64,
    /// Whether transfers use a slab on the target, from which the bytes are scattered.
    pub(super) scattered: bool,
    /// Size of the largest transfer in bytes.
    pub(super) largest: u64,
    pub(super) tasks: Vec<Task>,
    /// The units of work, as ranges of `tasks`. A worker takes one unit at a time.
    pub(super) units: Vec<Range<usize>>,
    /// Whether reads go layer by layer.
    pub(super) layerwise: bool,
    /// The pieces of a file: name, offset and size in bytes.
    pieces: Vec<(String, u64, u64)>,
    /// The model's directory and its description, if the files have the format of llm-d or vLLM.
    pub(super) mapper: Option<FileMapper>,
}

impl Layout {
    /// Creates the plan of a run that reads or writes.
    ///
    /// # Errors
    /// Returns a sentence if the numbers contradict each other.
    pub(super) fn new(order: &KvOrder, settings: &Settings, write: bool) -> Result<Self, String> {
        let (kind, shape) = (order.kind, &order.shape);
        let (file_tokens, block_tokens) = match kind {
            KvSystem::Ucm => (settings.get(KvSetting::BlockTokens), settings.get(KvSetting::BlockTokens)),
            KvSystem::Llmd | KvSystem::VllmFs => {
                (settings.get(KvSetting::BlockSize), settings.get(KvSetting::GpuBlock))
            }
            KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => {
                (settings.get(KvSetting::ChunkSize), settings.get(KvSetting::GpuBlock))
            }
        };
        if file_tokens % block_tokens.max(1) != 0 {
            return Err(format!(
                "{file_tokens} tokens of a file are not a multiple of the {block_tokens} tokens of a block (gpu_block)"
            ));
        }
        let of_sequence = order.tokens / file_tokens;
        let stored = stored_of(of_sequence, order.hit_rate);
        if of_sequence == 0 {
            return Err(format!(
                "{} tokens do not fill a file of {file_tokens} tokens; use at least --tokens {file_tokens}",
                order.tokens
            ));
        }
        if stored == 0 && order.hit_rate > 0.0 {
            return Err(format!(
                "a hit rate of {} with {} per sequence stores no complete file; use more tokens or a higher rate",
                order.hit_rate,
                units::plural(of_sequence, "file")
            ));
        }
        let blocks = file_tokens / block_tokens;
        let files = stored.saturating_mul(order.batch);
        let payload = file_tokens * shape.token_bytes();
        // These bytes are contiguous both in the file and on the target: a vector of a block or, if a file is stored
        // block by block, a layer of a block.
        let extent =
            block_tokens * if kind.is_block_major() { shape.layer_token_bytes() } else { shape.vector_bytes() };
        let direct_slot = settings.on(KvSetting::DirectSlot);
        let transfers = match kind {
            KvSystem::Lmcache if !direct_slot => {
                payload.div_ceil(chunk_transfer(settings, payload)).max(shape.layers * shape.vectors())
            }
            KvSystem::LmcacheMp => payload.div_ceil(settings.get(KvSetting::RegionBytes).max(1)),
            KvSystem::LmcacheNixl => 1,
            _ => payload / extent,
        };
        if files.saturating_mul(transfers.max(shape.layers * shape.vectors())) > MOST_TRANSFERS {
            return Err(format!(
                "this would be {} files with {transfers} transfers each, more than can be planned ({MOST_TRANSFERS} together); use fewer tokens, \
                 sequences, or larger blocks",
                units::count(files)
            ));
        }
        let misalign = settings.get(KvSetting::Misalign);
        let mut layout = Self {
            kind,
            seed: order.seed,
            file_tokens,
            files: Vec::new(),
            asked: Vec::new(),
            data_offset: if kind == KvSystem::Lmcache { HEADER_BYTES } else { misalign },
            write,
            payload,
            extent,
            layers: shape.layers,
            vectors: if kind.is_block_major() { 1 } else { shape.vectors() },
            blocks,
            slots: permutation(order.seed, files * blocks, kind.is_chunked()),
            misalign,
            // Memory of length zero cannot be allocated. One page is enough for a run in which every lookup misses.
            target_bytes: (misalign + files * payload).max(PAGE),
            scattered: kind.is_chunked() && !direct_slot,
            largest: 0,
            tasks: Vec::new(),
            units: Vec::new(),
            // If no layers are stored, computing does not wait for any.
            layerwise: settings.on(KvSetting::EnableLayerwise) && !write && files > 0,
            pieces: Vec::new(),
            mapper: FileMapper::new(kind, shape, block_tokens, blocks),
        };
        for sequence in 0..order.batch {
            let mut chain = Chain::default();
            let keys: Vec<Key> = (0..of_sequence)
                .map(|file| {
                    let tokens: Vec<u32> =
                        (0..file_tokens).map(|i| token(order.seed, sequence, file * file_tokens + i)).collect();
                    chain.next(&tokens)
                })
                .collect();
            for key in keys.iter().take(stored as usize) {
                let file = layout.file(order, key, layout.files.len() as u64);
                layout.files.push(file);
            }
            layout.asked.push(keys);
        }
        layout.cut(settings);
        layout.name_pieces();
        Ok(layout)
    }

    /// The location of a file, with the names of the source system. `number` is the index of a chunk in a slab.
    pub(super) fn file(&self, order: &KvOrder, key: &Key, number: u64) -> FileLayout {
        let name = hex(key);
        let folder = order.folder.join("data");
        let at = |path: PathBuf, ending: &str, partial: &str| {
            let with = |ending: &str| {
                let mut name = path.clone().into_os_string();
                name.push(ending);
                PathBuf::from(name)
            };
            FileLayout { key: *key, path: with(ending), temporary: with(partial), start: self.data_offset }
        };
        match (self.kind, &self.mapper) {
            // The two names are the first and the second half of 16 bytes of the hash.
            (KvSystem::Ucm, _) => at(folder.join(&name[..16]).join(&name[16..32]), ".dat", ".act"),
            (_, Some(mapper)) => at(folder.join(mapper.file(&name)), ".bin", ".bin.tmp"),
            (KvSystem::LmcacheMp, _) => {
                let slab = folder.join(SLAB);
                FileLayout { key: *key, path: slab.clone(), temporary: slab, start: number * self.slot_bytes() }
            }
            // LMCache names the files of the pool by number and four random digits, and keeps their keys in memory.
            (KvSystem::LmcacheNixl, _) => {
                let file = folder.join(format!("obj_{number}_{}.bin", &name[..4]));
                FileLayout { key: *key, path: file.clone(), temporary: file, start: 0 }
            }
            (..) => at(folder.join(chunk::file_name(&order.shape, key)), chunk::DATA_SUFFIX, chunk::PARTIAL_SUFFIX),
        }
    }

    /// Whether all chunks are in one file, which is written in place.
    pub(super) fn is_slab(&self) -> bool {
        self.kind == KvSystem::LmcacheMp
    }

    /// Distance in bytes between the starts of two chunks in a slab or its staging memory.
    pub(super) fn slot_bytes(&self) -> u64 {
        self.payload.next_multiple_of(PAGE)
    }

    /// Size of the slab file in bytes.
    pub(super) fn slab_file_bytes(&self) -> u64 {
        self.slot_bytes() * self.files.len() as u64
    }

    /// The offset of a transfer in its file.
    pub(super) fn file_offset(&self, task: &Task) -> u64 {
        self.files.get(task.file as usize).map_or(0, |file| file.start) + task.offset
    }

    /// Divides the payloads into transfers, and the transfers into units of work.
    fn cut(&mut self, settings: &Settings) {
        let files = self.files.len() as u32;
        let layer_bytes = self.payload / self.layers;
        // One vector of all tokens of a file, in one layer.
        let vector_bytes = layer_bytes / self.vectors;
        let piece_bytes = match self.kind {
            KvSystem::Ucm => self.extent,
            KvSystem::Llmd | KvSystem::VllmFs => self.extent * self.layers,
            KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => vector_bytes,
        };
        let per_file = self.payload / piece_bytes;
        let most = match self.kind {
            KvSystem::Lmcache if self.scattered => chunk_transfer(settings, self.payload),
            // The regions of the staging memory of the slab divide it further, depending on its slot.
            KvSystem::LmcacheMp | KvSystem::LmcacheNixl => self.payload,
            _ => self.extent,
        };
        let layer_of = |offset: u64| match self.kind {
            KvSystem::Llmd | KvSystem::VllmFs => (offset / self.extent) % self.layers,
            KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => (offset / vector_bytes) % self.layers,
            KvSystem::Ucm => offset / layer_bytes,
        };
        // A misaligned length leaves a short rest. The rest is a transfer too, because every byte must be moved.
        let rest = settings.get(KvSetting::MisalignLength).min(self.extent.saturating_sub(1));
        let mut tasks = Vec::new();
        let mut units = Vec::new();
        let cut = |file: u32, range: Range<u64>, tasks: &mut Vec<Task>| {
            let mut offset = range.start;
            while offset < range.end {
                let mut bytes = most.min(range.end - offset);
                if rest > 0 {
                    let within = offset % self.extent;
                    bytes = if within == 0 { self.extent - rest } else { self.extent - within };
                }
                let piece = offset / piece_bytes;
                let within = (offset + bytes - 1) / piece_bytes == piece;
                let tensor = within.then(|| (u64::from(file) * per_file + piece) as u32);
                tasks.push(Task { file, offset, bytes, layer: layer_of(offset) as u32, tensor });
                offset += bytes;
            }
        };
        if self.layerwise && self.kind.is_chunked() {
            // The keys of all layers are stored before their values.
            for layer in 0..self.layers {
                for file in 0..files {
                    for vector in 0..self.vectors {
                        let start = (vector * self.layers + layer) * vector_bytes;
                        cut(file, start..start + vector_bytes, &mut tasks);
                    }
                }
            }
        } else if self.layerwise {
            for layer in 0..self.layers {
                for file in 0..files {
                    cut(file, layer * layer_bytes..(layer + 1) * layer_bytes, &mut tasks);
                }
            }
        } else {
            for file in 0..files {
                cut(file, 0..self.payload, &mut tasks);
            }
        }
        // These systems read or write a complete file in one thread. In others, workers take single transfers.
        let complete_files = self.kind != KvSystem::Ucm && !self.layerwise;
        let mut start = 0;
        while start < tasks.len() {
            let file = tasks[start].file;
            let length = if complete_files { tasks[start..].iter().take_while(|t| t.file == file).count() } else { 1 };
            units.push(start..start + length);
            start += length;
        }
        self.largest = tasks.iter().map(|task| task.bytes).max().unwrap_or(0);
        (self.tasks, self.units) = (tasks, units);
    }

    fn name_pieces(&mut self) {
        self.pieces = match self.kind {
            KvSystem::Ucm => (0..self.layers * self.vectors)
                .map(|x| {
                    let vector = if self.vectors == 1 { "" } else { [" K", " V"][(x % 2) as usize] };
                    (format!("layer {}{vector}", x / self.vectors), x * self.extent, self.extent)
                })
                .collect(),
            KvSystem::Llmd | KvSystem::VllmFs => {
                let bytes = self.extent * self.layers;
                (0..self.blocks).map(|b| (format!("gpu block {b}"), b * bytes, bytes)).collect()
            }
            KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => {
                let bytes = self.payload / (self.layers * self.vectors);
                (0..self.layers * self.vectors)
                    .map(|x| {
                        let vector = if self.vectors == 1 { "" } else { [" K", " V"][(x / self.layers) as usize] };
                        (format!("layer {}{vector}", x % self.layers), x * bytes, bytes)
                    })
                    .collect()
            }
        };
    }

    /// The place of an extent of a file on the target.
    fn place_of(&self, file: u64, extent: u64) -> u64 {
        let all = self.slots.len() as u64;
        let (tensor, block) = match self.kind {
            KvSystem::Llmd | KvSystem::VllmFs => (extent % self.layers, extent / self.layers),
            KvSystem::Ucm => (extent / self.blocks, extent % self.blocks),
            // In a chunk, the keys of all layers are before the values. In the paged cache, each layer has keys and
            // values.
            KvSystem::Lmcache | KvSystem::LmcacheMp | KvSystem::LmcacheNixl => {
                let (vector, layer) = (extent / self.blocks / self.layers, extent / self.blocks % self.layers);
                (layer * self.vectors + vector, extent % self.blocks)
            }
        };
        let slot = self.slots.get((file * self.blocks + block) as usize).map_or(0, |slot| u64::from(*slot));
        self.misalign + (tensor * all + slot) * self.extent
    }

    /// The places on the target for a range of a file's payload. `from` of each piece is relative to the start of the
    /// range. Adjacent pieces are joined.
    pub(super) fn place(&self, file: u32, offset: u64, bytes: u64) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = offset;
        while at < offset + bytes {
            let (extent, within) = (at / self.extent, at % self.extent);
            let length = (self.extent - within).min(offset + bytes - at);
            let to = self.place_of(u64::from(file), extent) + within;
            match pieces.last_mut() {
                Some(last) if last.to + last.bytes == to => last.bytes += length,
                _ => pieces.push(Piece { from: at - offset, to, bytes: length }),
            }
            at += length;
        }
        pieces
    }

    /// The offset of a transfer in the image of [`Self::model`].
    pub(super) fn image_offset(&self, task: &Task) -> u64 {
        u64::from(task.file) * self.file_bytes().next_multiple_of(crate::core::model::IMAGE_ALIGN)
            + self.data_offset
            + task.offset
    }

    /// Size of a file, or of a chunk's slot in a slab, in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        if self.is_slab() { self.slot_bytes() } else { self.data_offset + self.payload }
    }

    /// Whether the run writes.
    pub(super) const fn is_write(&self) -> bool {
        self.write
    }

    /// Ranges of the target that are registered separately: the tensors of complete layers, or every block.
    pub(super) fn registrations(&self, each_block: bool) -> Vec<Range<u64>> {
        let complete = self.slots.len() as u64 * self.extent;
        if complete == 0 {
            return Vec::new();
        }
        let step = if each_block { self.extent } else { complete };
        (0..self.layers * self.vectors * complete / step)
            .map(|i| self.misalign + i * step..self.misalign + (i + 1) * step)
            .collect()
    }

    /// Distance in bytes between the starts of two workers' areas in the slab.
    pub(super) fn slab_step(&self) -> u64 {
        self.largest.next_multiple_of(PAGE).max(PAGE)
    }

    /// The number that determines a file's content together with the seed. It is derived from the key, so every run
    /// that uses the file computes the same content.
    pub(super) fn content_of(&self, file: usize) -> u64 {
        let key = self.files.get(file).map_or([0; 32], |file| file.key);
        key.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    /// Number of tokens per file.
    pub(super) const fn file_tokens(&self) -> u64 {
        self.file_tokens
    }

    /// Seed of the contents.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of layers.
    pub(super) const fn layers(&self) -> u64 {
        self.layers
    }

    /// The files and their pieces as a model, so that views of tensors can show them.
    pub(super) fn model(&self, order: &KvOrder) -> ModelInfo {
        let dtype = &order.shape.dtype;
        let shards = self.files.iter().map(|file| ShardInfo {
            path: file.path.clone(),
            file_bytes: self.file_bytes(),
            data_offset: self.data_offset,
        });
        let what = if self.kind.is_chunked() { "chunk" } else { "file" };
        let tensors = (0..self.files.len() as u32).flat_map(|file| {
            self.pieces.iter().map(move |(name, offset, bytes)| TensorInfo {
                name: format!("{what} {file} {name}"),
                dtype: dtype.clone().into(),
                shape: vec![bytes / order.shape.dtype_bytes],
                shard: file,
                file_offset: self.data_offset + offset,
                bytes: *bytes,
            })
        });
        let tokens = if order.tokens.is_multiple_of(1024) {
            format!("{}k", order.tokens / 1024)
        } else {
            order.tokens.to_string()
        };
        let batch = if order.batch > 1 { format!(" x{}", order.batch) } else { String::new() };
        ModelInfo {
            name: format!("{} {} {tokens}{batch}", order.kind.name(), order.shape.name),
            path: order.folder.clone(),
            shards: shards.collect(),
            tensors: tensors.collect(),
            synthetic: None,
        }
    }
}

/// Size in bytes of the largest transfer of a chunk: the setting, or the complete payload.
fn chunk_transfer(settings: &Settings, payload: u64) -> u64 {
    match settings.get(KvSetting::BlockSize) {
        0 => payload,
        bytes => bytes,
    }
}

/// Number of stored files of a sequence: the number nearest to the requested share.
pub(super) fn stored_of(files: u64, hit_rate: f64) -> u64 {
    ((files as f64 * hit_rate).round() as u64).min(files)
}

/// The numbers from 0 to `count`. With `shuffled` they are shuffled by the seed, like the blocks of a paged cache
/// after some use.
fn permutation(seed: u64, count: u64, shuffled: bool) -> Vec<u32> {
    let mut slots: Vec<u32> = (0..count as u32).collect();
    if shuffled {
        for at in (1..slots.len()).rev() {
            slots.swap(at, (mix(seed ^ mix(at as u64)) % (at as u64 + 1)) as usize);
        }
    }
    slots
}

#[cfg(test)]
#[path = "layout_tests.rs"]
pub(super) mod tests;
