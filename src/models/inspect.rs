//! Properties of a model that matter to a loader: sizes, types, alignment and number of reads.

use super::plan;
use crate::core::{ModelInfo, units};
use crate::text::{sanitise_line, truncate};
use serde::Serialize;
use std::collections::BTreeMap;

/// Block size in bytes of the read plan that is compared with one read per tensor.
pub const PLAN_BLOCK_BYTES: u64 = 16 << 20;

/// Summary of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Name of the model.
    pub name: String,
    /// The absolute form of the path that was named.
    pub path: String,
    /// The files.
    pub shards: Vec<ShardSummary>,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Tensors and bytes by element type.
    pub dtypes: BTreeMap<String, Share>,
    /// Tensors by size, in powers of two. Empty buckets between other buckets are listed.
    pub sizes: Vec<Bucket>,
    /// Alignment of the tensors in their files.
    pub alignment: Alignment,
    /// Number and sizes of the reads.
    pub reads: Reads,
}

/// Summary of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardSummary {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Length of the header in bytes, including its length field.
    pub header_bytes: u64,
    /// Number of tensors in the file.
    pub tensors: u64,
}

/// Number of tensors and bytes in a part of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Tensors with a size of at least `from_bytes` and less than `below_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Smallest size in bytes; 0 for empty tensors.
    pub from_bytes: u64,
    /// Upper bound of the size in bytes (exclusive).
    pub below_bytes: u64,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Number of tensors whose file offset is a multiple of the given number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alignment {
    /// Multiples of 4096. Direct reads of these tensors need no extra bytes at the start.
    pub at_4096: u64,
    /// Multiples of 512.
    pub at_512: u64,
    /// Multiples of 64.
    pub at_64: u64,
    /// Number of extra bytes if each tensor is read in complete 4096-byte pages.
    pub page_excess_bytes: u64,
}

/// Number and sizes of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reads {
    /// Number of reads if each tensor that has bytes is read separately.
    pub per_tensor: u64,
    /// Size of the smallest of these reads in bytes.
    pub smallest_bytes: u64,
    /// Median size of these reads in bytes.
    pub median_bytes: u64,
    /// Size of the largest of these reads in bytes.
    pub largest_bytes: u64,
    /// Size of the blocks of the coalesced plan in bytes.
    pub block_bytes: u64,
    /// Number of reads of the coalesced plan.
    pub coalesced: u64,
}

/// Summarizes a model.
#[must_use]
pub fn inspect(model: &ModelInfo) -> Inspection {
    let mut shards: Vec<ShardSummary> = model
        .shards
        .iter()
        .map(|shard| ShardSummary {
            name: shard.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
            file_bytes: shard.file_bytes,
            header_bytes: shard.data_offset,
            tensors: 0,
        })
        .collect();
    let mut dtypes: BTreeMap<String, Share> = BTreeMap::new();
    let mut buckets: BTreeMap<u32, Share> = BTreeMap::new();
    let mut alignment = Alignment::default();
    for tensor in &model.tensors {
        if let Some(shard) = shards.get_mut(tensor.shard as usize) {
            shard.tensors += 1;
        }
        let bucket = tensor.bytes.checked_ilog2().map_or(0, |log| log + 1);
        for share in [dtypes.entry(tensor.dtype.to_string()).or_default(), buckets.entry(bucket).or_default()] {
            share.tensors += 1;
            share.bytes += tensor.bytes;
        }
        let at = |align: u64| u64::from(tensor.file_offset % align == 0);
        alignment.at_4096 += at(4096);
        alignment.at_512 += at(512);
        alignment.at_64 += at(64);
        if tensor.bytes > 0 {
            let head = tensor.file_offset % 4096;
            alignment.page_excess_bytes += (head + tensor.bytes).next_multiple_of(4096) - tensor.bytes;
        }
    }
    let mut lengths: Vec<u64> = plan::per_tensor(model).iter().map(|range| range.block.bytes).collect();
    lengths.sort_unstable();
    Inspection {
        name: model.name.clone(),
        path: model.path.to_string_lossy().into_owned(),
        shards,
        tensors: model.tensors.len() as u64,
        tensor_bytes: model.tensor_bytes(),
        file_bytes: model.file_bytes(),
        dtypes,
        sizes: spread(&buckets),
        alignment,
        reads: Reads {
            per_tensor: lengths.len() as u64,
            smallest_bytes: lengths.first().copied().unwrap_or(0),
            median_bytes: lengths.get(lengths.len() / 2).copied().unwrap_or(0),
            largest_bytes: lengths.last().copied().unwrap_or(0),
            block_bytes: PLAN_BLOCK_BYTES,
            coalesced: plan::coalesced(model, PLAN_BLOCK_BYTES, 4096).len() as u64,
        },
    }
}

/// Lists the buckets from the smallest to the largest one. Bucket 0 contains empty tensors, and bucket n contains
/// sizes from 2^(n-1) to below 2^n.
fn spread(buckets: &BTreeMap<u32, Share>) -> Vec<Bucket> {
    let (Some((&first, _)), Some((&last, _))) = (buckets.first_key_value(), buckets.last_key_value()) else {
        return Vec::new();
    };
    (first..=last)
        .map(|number| {
            let share = buckets.get(&number).copied().unwrap_or_default();
            Bucket {
                from_bytes: if number == 0 { 0 } else { 1_u64 << (number - 1) },
                below_bytes: 1_u64.checked_shl(number).unwrap_or(u64::MAX),
                tensors: share.tensors,
                bytes: share.bytes,
            }
        })
        .collect()
}

impl Inspection {
    /// The inspection as text for a terminal of `width` columns.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        let mut out: Vec<String> = vec![
            self.name.clone(),
            self.path.clone(),
            format!(
                "{} tensors · {} of tensors · {} in {} {}",
                units::count(self.tensors),
                units::bytes(self.tensor_bytes),
                units::bytes(self.file_bytes),
                units::count(self.shards.len() as u64),
                if self.shards.len() == 1 { "file" } else { "files" },
            ),
            String::new(),
            "Files".to_owned(),
        ];
        const SHOWN: usize = 12;
        for shard in self.shards.iter().take(SHOWN) {
            out.push(format!(
                "  {:>9}  {:>7} tensors  header {:>9}  {}",
                units::bytes(shard.file_bytes),
                units::count(shard.tensors),
                units::bytes(shard.header_bytes),
                shard.name
            ));
        }
        if self.shards.len() > SHOWN {
            out.push(format!("  … and {} more", self.shards.len() - SHOWN));
        }
        out.extend([String::new(), "Element types".to_owned()]);
        for (dtype, share) in &self.dtypes {
            out.push(format!(
                "  {dtype:<12} {:>7} tensors  {:>9}",
                units::count(share.tensors),
                units::bytes(share.bytes)
            ));
        }
        out.extend([String::new(), "Tensor sizes".to_owned()]);
        let most = self.sizes.iter().map(|b| b.tensors).max().unwrap_or(0);
        // The columns before the bar need 47 characters.
        let bar_width = width.saturating_sub(48).min(40) as u64;
        for bucket in self.sizes.iter().filter(|bucket| bucket.tensors > 0) {
            let bar = (bucket.tensors * bar_width / most.max(1)).max(1);
            let line = format!(
                "  {:>9} to {:>9} {:>8} {:>11}  {}",
                units::bytes(bucket.from_bytes),
                units::bytes(bucket.below_bytes),
                units::count(bucket.tensors),
                units::bytes(bucket.bytes),
                "█".repeat(bar as usize)
            );
            out.push(line.trim_end().to_owned());
        }
        let share = |part: u64| format!("{} of {}", units::count(part), units::count(self.tensors));
        out.extend([
            String::new(),
            "Alignment of the first byte in the file".to_owned(),
            format!("  at 4096 bytes  {}", share(self.alignment.at_4096)),
            format!("  at  512 bytes  {}", share(self.alignment.at_512)),
            format!("  at   64 bytes  {}", share(self.alignment.at_64)),
            format!(
                "  reading each tensor in complete pages reads {} more",
                units::bytes(self.alignment.page_excess_bytes)
            ),
            String::new(),
            "Reads".to_owned(),
            format!(
                "  tensor by tensor     {:>7}, of {} to {}, median {}",
                units::count(self.reads.per_tensor),
                units::bytes(self.reads.smallest_bytes),
                units::bytes(self.reads.largest_bytes),
                units::bytes(self.reads.median_bytes)
            ),
            format!("  in {} blocks   {:>7}", units::bytes(self.reads.block_bytes), units::count(self.reads.coalesced)),
        ]);
        let lines: Vec<String> =
            out.into_iter().map(|line| truncate(&sanitise_line(&line), width).into_owned()).collect();
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{ShardInfo, TensorInfo};

    fn model() -> ModelInfo {
        let mut at = 4096;
        let sizes = [0_u64, 1, 4095, 4096, 1 << 20, (1 << 20) + 1];
        let tensors = sizes.iter().enumerate().map(|(number, bytes)| {
            let tensor = TensorInfo {
                name: format!("t{number}"),
                dtype: if number % 2 == 0 { "U8" } else { "I8" }.into(),
                shape: vec![*bytes],
                shard: 0,
                file_offset: at,
                bytes: *bytes,
            };
            at += bytes;
            tensor
        });
        let tensors = tensors.collect();
        ModelInfo {
            name: "little".to_owned(),
            path: "/models/little".into(),
            shards: vec![ShardInfo {
                path: "/models/little/model.safetensors".into(),
                file_bytes: at,
                data_offset: 4096,
            }],
            tensors,
            synthetic: None,
        }
    }

    #[test]
    fn tensors_are_counted_by_size_type_and_alignment() {
        let seen = inspect(&model());
        assert_eq!(seen.sizes.iter().map(|b| b.tensors).sum::<u64>(), 6);
        assert_eq!(seen.sizes.iter().map(|b| b.bytes).sum::<u64>(), seen.tensor_bytes);
        let bucket = |from: u64| seen.sizes.iter().find(|b| b.from_bytes == from).map(|b| b.tensors);
        assert_eq!(
            (bucket(0), bucket(1), bucket(2048), bucket(4096), bucket(1 << 20)),
            (Some(1), Some(1), Some(1), Some(1), Some(2))
        );
        assert_eq!(bucket(8192), Some(0));
        assert_eq!(seen.dtypes["U8"].tensors, 3);
        // t0, t1 and t3 start at a page boundary. t2 starts one byte after one. t4 and t5 start at page boundaries
        // (4096 + 1 MiB).
        assert_eq!(seen.alignment.at_4096, 5);
        assert_eq!((seen.reads.per_tensor, seen.reads.smallest_bytes, seen.reads.largest_bytes), (5, 1, (1 << 20) + 1));
        assert_eq!(seen.reads.coalesced, 1);
    }

    #[test]
    fn the_text_fits_any_width() {
        for width in [20, 47, 80, 200] {
            for line in inspect(&model()).to_text(width).lines() {
                assert!(crate::text::width(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn the_text_reads_as_on_the_page() {
        insta::assert_snapshot!(inspect(&model()).to_text(80));
    }
}
