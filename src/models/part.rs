//! Divides a model among several targets: the byte ranges of each part, and the part as a model for its loader.
//!
//! Each file is cut into one contiguous range per part. The ranges have equal lengths, except for the last one. They
//! are cut at multiples of the page size, so that every part reads aligned blocks and no page is read twice. A tensor
//! that crosses a cut is split, as in tensor parallelism. No byte is in two parts.

use crate::core::{ModelInfo, Part, TensorInfo, model::IMAGE_ALIGN};
use std::ops::Range;

/// The range of each file that belongs to a part, as file offsets in bytes. Each range starts at a multiple of the
/// page size. The first range of a file starts at the page of its first tensor byte. A range is empty if a file has
/// fewer pages than there are parts.
#[must_use]
pub fn part_ranges(model: &ModelInfo, part: Part) -> Vec<Range<u64>> {
    let of = u64::from(part.of.max(1));
    let cut = |first: u64, pages: u64, number: u64| {
        first.saturating_add((u128::from(pages) * u128::from(number) / u128::from(of)) as u64 * IMAGE_ALIGN)
    };
    model
        .shards
        .iter()
        .map(|shard| {
            let first = shard.data_offset - shard.data_offset % IMAGE_ALIGN;
            let pages = shard.file_bytes.saturating_sub(first).div_ceil(IMAGE_ALIGN);
            let end = |number| cut(first, pages, number).min(shard.file_bytes).max(first);
            end(u64::from(part.index))..end(u64::from(part.index) + 1)
        })
        .collect()
}

/// The model limited to the given ranges. Tensors at a cut become shorter or start later. Every part contains the
/// tensors without bytes.
#[must_use]
pub fn clipped(model: &ModelInfo, ranges: &[Range<u64>]) -> ModelInfo {
    ModelInfo { tensors: pieces(model, ranges).map(|(_, tensor)| tensor).collect(), ..model.clone() }
}

/// For each tensor of [`clipped`]: its index in the complete model.
#[must_use]
pub fn clipped_numbers(model: &ModelInfo, ranges: &[Range<u64>]) -> Vec<u32> {
    pieces(model, ranges).map(|(number, _)| number).collect()
}

fn pieces<'a>(model: &'a ModelInfo, ranges: &'a [Range<u64>]) -> impl Iterator<Item = (u32, TensorInfo)> + 'a {
    (0_u32..).zip(&model.tensors).filter_map(|(number, tensor)| {
        let range = ranges.get(tensor.shard as usize)?;
        let end = tensor.file_offset.saturating_add(tensor.bytes);
        let (from, to) = (tensor.file_offset.max(range.start), end.min(range.end));
        if tensor.bytes == 0 {
            return Some((number, tensor.clone()));
        }
        (from < to).then(|| (number, TensorInfo { file_offset: from, bytes: to - from, ..tensor.clone() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::any_model::any_model;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_of_every_tensor_is_in_exactly_one_part(model in any_model(), of in 1..6_u32) {
            let mut seen: Vec<u64> = vec![0; model.tensors.len()];
            let mut next: Vec<u64> = model.tensors.iter().map(|t| t.file_offset).collect();
            let mut empty = 0;
            for index in 0..of {
                let ranges = part_ranges(&model, Part { index, of });
                let part = clipped(&model, &ranges);
                for (number, tensor) in clipped_numbers(&model, &ranges).into_iter().zip(&part.tensors) {
                    let number = number as usize;
                    prop_assert_eq!(&tensor.name, &model.tensors[number].name);
                    // The parts are in order, so each piece must begin at the end of the previous piece. No byte is
                    // in two pieces or in none.
                    prop_assert_eq!(tensor.file_offset, next[number]);
                    next[number] += tensor.bytes;
                    seen[number] += tensor.bytes;
                    empty += u32::from(tensor.bytes == 0);
                }
                for (range, shard) in ranges.iter().zip(&model.shards) {
                    prop_assert!(range.start % IMAGE_ALIGN == 0 || range.start == shard.file_bytes);
                    prop_assert!(range.end % IMAGE_ALIGN == 0 || range.end == shard.file_bytes);
                }
            }
            prop_assert_eq!(seen, model.tensors.iter().map(|t| t.bytes).collect::<Vec<_>>());
            prop_assert_eq!(empty, of * model.tensors.iter().filter(|t| t.bytes == 0).count() as u32);
        }

        #[test]
        fn parts_of_a_file_differ_by_a_page_at_most(model in any_model(), of in 1..6_u32) {
            for shard in 0..model.shards.len() {
                let lengths: Vec<u64> =
                    (0..of).map(|index| part_ranges(&model, Part { index, of })[shard].clone()).map(|r| r.end - r.start).collect();
                let (least, most) = (lengths.iter().min().unwrap_or(&0), lengths.iter().max().unwrap_or(&0));
                prop_assert!(most - least <= 2 * IMAGE_ALIGN, "{:?}", lengths);
            }
        }
    }
}
