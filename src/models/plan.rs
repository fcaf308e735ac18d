//! Read plans. A plan lists the bytes to read from each file and their place in the image. Plans are computed from a
//! [`ModelInfo`] without access to files.

use crate::core::{ModelInfo, model::IMAGE_ALIGN};
use std::ops::Range;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index into the model's shards.
    pub shard: u32,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Number of bytes to read. The read never extends beyond the end of the file.
    pub bytes: u64,
    /// Offset of the first byte in the image (see [`ModelInfo::image_bases`]).
    pub image_offset: u64,
}

impl Block {
    /// The file offset after the last byte.
    #[must_use]
    pub const fn file_end(&self) -> u64 {
        self.file_offset + self.bytes
    }
}

/// The read of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorRange {
    /// Index into the model's tensors.
    pub tensor: u32,
    /// Source and destination of the tensor's bytes.
    pub block: Block,
}

/// The coalesced read plan. It covers the complete data section of each shard in file order. Blocks are cut at file
/// offsets that are multiples of `block_bytes`, so each block except the first one of a shard begins at such a
/// multiple. All offsets are multiples of `align`; so the first block of a shard may begin inside the header. All
/// lengths are multiples of `align` too, except for the last block of a shard, which ends with the file. Every tensor
/// byte is in exactly one block.
///
/// `block_bytes` is rounded up to a multiple of `align`. An `align` of 0 counts as 1.
#[must_use]
pub fn coalesced(model: &ModelInfo, block_bytes: u64, align: u64) -> Vec<Block> {
    let places = model.image_bases().into_iter().zip(model.shards.iter().map(|shard| 0..shard.file_bytes));
    cut(model, places, block_bytes, align)
}

/// Like [`coalesced`], but only for one range of each file (see [`super::part::part_ranges`]). The image of a part
/// contains its ranges one after another, each at a multiple of the page size. So the image is not larger than the
/// part requires.
#[must_use]
pub fn coalesced_in(model: &ModelInfo, ranges: &[Range<u64>], block_bytes: u64, align: u64) -> Vec<Block> {
    let bases = part_bases(ranges);
    cut(model, bases.into_iter().zip(ranges.iter().cloned()), block_bytes, align)
}

/// The image offset of each range of a part, followed by the length of the image, in bytes.
#[must_use]
pub fn part_bases(ranges: &[Range<u64>]) -> Vec<u64> {
    let mut at = 0_u64;
    let mut bases = Vec::with_capacity(ranges.len() + 1);
    for range in ranges {
        bases.push(at);
        let length = range.end.saturating_sub(range.start);
        at = at.saturating_add(length.checked_next_multiple_of(IMAGE_ALIGN).unwrap_or(u64::MAX));
    }
    bases.push(at);
    bases
}

/// Cuts the data section of each shard into blocks, limited to the range of the shard. `base` is the image offset of
/// the range.
fn cut(model: &ModelInfo, places: impl Iterator<Item = (u64, Range<u64>)>, block_bytes: u64, align: u64) -> Vec<Block> {
    let align = align.max(1);
    let step = block_bytes.max(1).checked_next_multiple_of(align).unwrap_or(align);
    let mut blocks = Vec::new();
    for ((shard, info), (base, range)) in (0_u32..).zip(&model.shards).zip(places) {
        let mut at = (info.data_offset - info.data_offset % align).max(range.start);
        let end = info.file_bytes.min(range.end);
        if info.data_offset >= info.file_bytes {
            continue;
        }
        while at < end {
            let cut = at.saturating_add(step - at % step).min(end);
            blocks.push(Block { shard, file_offset: at, bytes: cut - at, image_offset: base + (at - range.start) });
            at = cut;
        }
    }
    blocks
}

/// One read for each tensor that has bytes, in file order.
#[must_use]
pub fn per_tensor(model: &ModelInfo) -> Vec<TensorRange> {
    let bases = model.image_bases();
    (0_u32..)
        .zip(&model.tensors)
        .filter(|(_, tensor)| tensor.bytes > 0)
        .filter_map(|(number, tensor)| {
            let base = bases.get(tensor.shard as usize)?;
            Some(TensorRange {
                tensor: number,
                block: Block {
                    shard: tensor.shard,
                    file_offset: tensor.file_offset,
                    bytes: tensor.bytes,
                    image_offset: base + tensor.file_offset,
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::any_model::{any_model, model};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_cover_every_tensor_byte_once_and_never_overlap(
            model in any_model(), block in 1..40_000_u64, power in 0..13_u32,
        ) {
            let align = 1_u64 << power;
            let blocks = coalesced(&model, block, align);
            for pair in blocks.windows(2) {
                if pair[0].shard == pair[1].shard {
                    prop_assert_eq!(pair[0].file_end(), pair[1].file_offset);
                } else {
                    prop_assert!(pair[0].shard < pair[1].shard);
                    prop_assert!(pair[0].image_offset + pair[0].bytes.next_multiple_of(align) <= pair[1].image_offset);
                }
            }
            for (number, shard) in (0_u32..).zip(&model.shards) {
                let mine: Vec<&Block> = blocks.iter().filter(|b| b.shard == number).collect();
                match (mine.first(), mine.last()) {
                    (Some(first), Some(last)) => {
                        prop_assert!(first.file_offset <= shard.data_offset);
                        prop_assert!(shard.data_offset - first.file_offset < align);
                        prop_assert_eq!(last.file_end(), shard.file_bytes);
                    }
                    _ => prop_assert_eq!(shard.file_bytes, shard.data_offset),
                }
            }
        }

        #[test]
        fn blocks_are_aligned_and_cut_at_multiples(model in any_model(), block in 1..40_000_u64, power in 0..13_u32) {
            let align = 1_u64 << power;
            let step = block.next_multiple_of(align);
            let bases = model.image_bases();
            for block in coalesced(&model, block, align) {
                let shard = &model.shards[block.shard as usize];
                prop_assert!(block.bytes > 0 && block.bytes <= step);
                prop_assert_eq!(block.file_offset % align, 0);
                prop_assert_eq!(block.image_offset, bases[block.shard as usize] + block.file_offset);
                prop_assert!(block.file_end() % step == 0 || block.file_end() == shard.file_bytes);
                prop_assert_eq!(block.file_offset / step, (block.file_end() - 1) / step);
            }
        }

        #[test]
        fn each_tensor_with_bytes_is_read_once_at_its_place(model in any_model()) {
            let ranges = per_tensor(&model);
            prop_assert_eq!(ranges.iter().map(|r| r.block.bytes).sum::<u64>(), model.tensor_bytes());
            for range in &ranges {
                let tensor = &model.tensors[range.tensor as usize];
                prop_assert_eq!((tensor.shard, tensor.file_offset), (range.block.shard, range.block.file_offset));
            }
        }
    }

    #[test]
    fn a_block_size_of_zero_or_beyond_64_bits_still_covers_the_file() {
        let model = model(&[(100, vec![5000])]);
        assert_eq!(coalesced(&model, u64::MAX, 4096).iter().map(|b| b.bytes).sum::<u64>(), 5100);
        assert_eq!(coalesced(&model, 0, 0).len(), 5000);
    }
}
