//! One row per tensor: when it was loaded, and the time of each phase.

use crate::core::{ModelInfo, PHASES, Phase, PhaseTimes, Span};

/// `O_DIRECT` can read from offsets that are a multiple of this, on every block device in use.
const DIRECT_ALIGN: u64 = 4096;

/// The times of one tensor of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorRow {
    /// Its index in the model's tensors.
    pub tensor: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// The offset of its first byte in its file.
    pub file_offset: u64,
    /// Whether that offset is a multiple of 4096.
    pub aligned: bool,
    /// The start of its first span in nanoseconds since the clock started. `None` without spans.
    pub start_ns: Option<u64>,
    /// The end of its last span in nanoseconds since the clock started. `None` without spans.
    pub end_ns: Option<u64>,
    /// The time on slots by phase. The time of a block is shared among its tensors in proportion to their bytes in
    /// it.
    pub phases: PhaseTimes,
}

impl TensorRow {
    /// The time on slots that this tensor took, without idle time, in nanoseconds.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.phases.total_ns().saturating_sub(self.phases.get(Phase::Idle))
    }

    /// The share of [`Self::busy_ns`] in which no byte moved, 0 to 1. `None` if the tensor took no time.
    #[must_use]
    pub fn overhead_fraction(&self) -> Option<f64> {
        let busy = self.busy_ns();
        (busy > 0).then(|| self.phases.overhead_ns() as f64 / busy as f64)
    }

    fn cover(&mut self, start_ns: u64, end_ns: u64) {
        self.start_ns = Some(self.start_ns.map_or(start_ns, |s| s.min(start_ns)));
        self.end_ns = Some(self.end_ns.map_or(end_ns, |e| e.max(end_ns)));
    }
}

/// One row for each tensor of the model, in the model's order.
///
/// A span that names a tensor belongs to it. The span of a block has no tensor but a range of the model's image, see
/// [`ModelInfo::image_bases`]. It is shared among the tensors in this range in proportion to their bytes in it. All
/// other spans are set-up and belong to no tensor. The time is O((tensors + spans) log) for all inputs, so that a
/// damaged recording cannot stall it.
#[must_use]
pub fn tensor_rows(model: &ModelInfo, spans: &[Span]) -> Vec<TensorRow> {
    let mut rows: Vec<TensorRow> = model
        .tensors
        .iter()
        .enumerate()
        .map(|(i, t)| TensorRow {
            tensor: u32::try_from(i).unwrap_or(u32::MAX),
            bytes: t.bytes,
            file_offset: t.file_offset,
            aligned: t.file_offset.is_multiple_of(DIRECT_ALIGN),
            start_ns: None,
            end_ns: None,
            phases: PhaseTimes::default(),
        })
        .collect();
    let mut blocks = Vec::new();
    for span in spans {
        match span.tensor {
            Some(tensor) => {
                if let Some(row) = rows.get_mut(tensor as usize) {
                    row.cover(span.start_ns, span.end_ns);
                    row.phases.add(span.phase, span.duration_ns());
                }
            }
            None if span.bytes > 0 => blocks.push(*span),
            None => {}
        }
    }
    if !blocks.is_empty() {
        Image::new(model).share(&mut blocks, &mut rows);
    }
    rows
}

/// The tensors with bytes, in the order of the image.
struct Image {
    /// For each tensor its index, the offset of its first byte, and its end.
    places: Vec<(usize, u64, u64)>,
    /// The number of tensor bytes before each place, and the total at the end.
    bytes_before: Vec<u64>,
}

impl Image {
    fn new(model: &ModelInfo) -> Self {
        let bases = model.image_bases();
        let mut places: Vec<(usize, u64, u64)> = model
            .tensors
            .iter()
            .enumerate()
            .filter(|(_, t)| t.bytes > 0)
            .filter_map(|(i, t)| {
                let start = bases.get(t.shard as usize)?.saturating_add(t.file_offset);
                Some((i, start, start.saturating_add(t.bytes)))
            })
            .collect();
        places.sort_unstable_by_key(|(_, start, _)| *start);
        let mut sum = 0_u64;
        let mut bytes_before = vec![0];
        for (_, start, end) in &places {
            sum = sum.saturating_add(end - start);
            bytes_before.push(sum);
        }
        Self { places, bytes_before }
    }

    /// The places that a span overlaps, as `from..to`.
    fn range(&self, span: &Span) -> (usize, usize) {
        let end = span.offset.saturating_add(span.bytes);
        let from = self.places.partition_point(|(_, _, place_end)| *place_end <= span.offset);
        let to = self.places.partition_point(|(_, start, _)| *start < end);
        (from, to)
    }

    fn overlap(&self, place: usize, span: &Span) -> u64 {
        self.places.get(place).map_or(0, |(_, start, end)| {
            (*end).min(span.offset.saturating_add(span.bytes)).saturating_sub((*start).max(span.offset))
        })
    }

    fn share(&self, blocks: &mut [Span], rows: &mut [TensorRow]) {
        let count = self.places.len();
        // Nanoseconds by place and phase. `rate` stores where the time per byte of a span starts and ends for the
        // inner tensors, so that the work per span does not depend on their number. `edge` has the first and the last
        // tensor of a span.
        let mut rate = vec![[0.0_f64; PHASES.len()]; count + 1];
        let mut edge = vec![[0.0_f64; PHASES.len()]; count];
        for span in blocks.iter() {
            let (from, to) = self.range(span);
            let Some(last) = to.checked_sub(1).filter(|last| *last >= from) else { continue };
            let (head, tail) = (self.overlap(from, span), if last > from { self.overlap(last, span) } else { 0 });
            let inner =
                if last > from + 1 { self.bytes_before[last].saturating_sub(self.bytes_before[from + 1]) } else { 0 };
            let covered = head as f64 + tail as f64 + inner as f64;
            if covered <= 0.0 {
                continue;
            }
            let (phase, per_byte) = (span.phase as usize, span.duration_ns() as f64 / covered);
            edge[from][phase] += per_byte * head as f64;
            if last > from {
                edge[last][phase] += per_byte * tail as f64;
                rate[from + 1][phase] += per_byte;
                rate[last][phase] -= per_byte;
            }
        }
        let mut level = [0.0_f64; PHASES.len()];
        for (place, (tensor, start, end)) in self.places.iter().enumerate() {
            let Some(row) = rows.get_mut(*tensor) else { continue };
            for (i, phase) in PHASES.iter().enumerate() {
                level[i] += rate[place][i];
                let ns = (level[i] * (end - start) as f64 + edge[place][i]).round();
                row.phases.add(*phase, ns.max(0.0) as u64);
            }
        }
        self.first_and_last(blocks, rows);
    }

    /// The start and the end of each tensor. The first pass visits the spans from the earliest on, the second from
    /// the latest back. Each tensor keeps the first value that it gets, and `next` skips tensors that have a value,
    /// so that each is visited once.
    fn first_and_last(&self, blocks: &mut [Span], rows: &mut [TensorRow]) {
        let mut paint = |blocks: &[Span]| {
            let mut next: Vec<usize> = (0..=self.places.len()).collect();
            for span in blocks {
                let (from, to) = self.range(span);
                let mut at = unpainted(&mut next, from);
                while at < to {
                    if let Some(row) = self.places.get(at).and_then(|(tensor, ..)| rows.get_mut(*tensor)) {
                        row.cover(span.start_ns, span.end_ns);
                    }
                    next[at] = at + 1;
                    at = unpainted(&mut next, at + 1);
                }
            }
        };
        blocks.sort_unstable_by_key(|span| span.start_ns);
        paint(blocks);
        blocks.sort_unstable_by_key(|span| std::cmp::Reverse(span.end_ns));
        paint(blocks);
    }
}

/// The first place from `at` on that has no value yet. It compresses the path in `next` for later calls.
fn unpainted(next: &mut [usize], at: usize) -> usize {
    let mut end = at;
    while next[end] != end {
        end = next[end];
    }
    let mut walk = at;
    while next[walk] != end {
        walk = std::mem::replace(&mut next[walk], end);
    }
    end
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::core::{ShardInfo, TensorInfo};
    use proptest::prelude::*;

    /// A model of one file with tensors of these sizes, one after another, behind a header of 100 bytes.
    pub(in crate::analysis) fn model(sizes: &[u64]) -> ModelInfo {
        let mut offset = 100;
        let tensors = sizes
            .iter()
            .enumerate()
            .map(|(i, bytes)| {
                let file_offset = offset;
                offset += bytes;
                TensorInfo {
                    name: format!("t{i}"),
                    dtype: "BF16".into(),
                    shape: vec![*bytes / 2],
                    shard: 0,
                    file_offset,
                    bytes: *bytes,
                }
            })
            .collect();
        let shards = vec![ShardInfo { path: "/m.safetensors".into(), file_bytes: offset, data_offset: 100 }];
        ModelInfo { name: "m".into(), path: "/m.safetensors".into(), shards, tensors, synthetic: None }
    }

    fn block(phase: Phase, start_ns: u64, end_ns: u64, offset: u64, bytes: u64) -> Span {
        Span { slot: 0, phase, tensor: None, start_ns, end_ns, bytes, offset }
    }

    #[test]
    fn a_tensors_own_spans_are_its_own() {
        let own = |phase, start_ns, end_ns| Span { tensor: Some(1), ..block(phase, start_ns, end_ns, 0, 0) };
        let spans =
            [own(Phase::RegisterBuffer, 10, 40), own(Phase::Transfer, 40, 100), own(Phase::Deregister, 100, 110)];
        let rows = tensor_rows(&model(&[50, 3996 + 4096]), &spans);
        assert_eq!((rows[0].start_ns, rows[0].busy_ns(), rows[0].overhead_fraction()), (None, 0, None));
        assert_eq!((rows[1].start_ns, rows[1].end_ns), (Some(10), Some(110)));
        assert_eq!((rows[1].phases.get(Phase::Transfer), rows[1].overhead_fraction()), (60, Some(0.4)));
    }

    #[test]
    fn a_block_is_shared_in_proportion_to_bytes_and_the_header_gets_none() {
        // The image has the header 0..100 and the tensors 100..200, 200..500, 500..1100 and 1100..1200. The block is
        // 0..800.
        let rows = tensor_rows(&model(&[100, 300, 600, 100]), &[block(Phase::Transfer, 5, 705, 0, 800)]);
        let times: Vec<u64> = rows.iter().map(|r| r.phases.get(Phase::Transfer)).collect();
        assert_eq!(times, [100, 300, 300, 0]);
        assert_eq!((rows[2].start_ns, rows[2].end_ns), (Some(5), Some(705)));
        assert_eq!(rows[3].start_ns, None);
    }

    #[test]
    fn alignment_is_that_of_the_offset_in_the_file() {
        let rows = tensor_rows(&model(&[3996, 4096, 1, 7]), &[]);
        assert_eq!(rows.iter().map(|r| r.aligned).collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn spans_over_everything_times_tensors_without_number_take_no_time_to_speak_of() {
        let sizes = vec![1000; 20_000];
        let spans: Vec<Span> = (0..20_000).map(|i| block(Phase::Transfer, i, i + 7, 0, 40_000_000)).collect();
        let rows = tensor_rows(&model(&sizes), &spans);
        assert_eq!((rows[7].start_ns, rows[19_999].end_ns), (Some(0), Some(20_006)));
        assert!(rows.iter().all(|r| r.busy_ns() == 7));
    }

    proptest! {
        #[test]
        fn shares_add_up_and_match_the_simple_way(
            sizes in proptest::collection::vec(0..500_u64, 1..30),
            blocks in proptest::collection::vec((0..1000_u64, 1..100_000_u64, 0..8000_u64, 1..4000_u64), 0..30),
        ) {
            let model = model(&sizes);
            let spans: Vec<Span> =
                blocks.iter().map(|(start, long, offset, bytes)| block(Phase::Copy, *start, start + long, *offset, *bytes)).collect();
            let rows = tensor_rows(&model, &spans);
            for (row, tensor) in rows.iter().zip(&model.tensors) {
                let overlap = |t: &TensorInfo, s: &Span|
                    (t.file_offset + t.bytes).min(s.offset + s.bytes).saturating_sub(t.file_offset.max(s.offset));
                let mine: Vec<&Span> = spans.iter().filter(|s| overlap(tensor, s) > 0).collect();
                prop_assert_eq!(row.start_ns, mine.iter().map(|s| s.start_ns).min());
                prop_assert_eq!(row.end_ns, mine.iter().map(|s| s.end_ns).max());
                let expected: f64 = mine.iter().map(|s| {
                    let covered: u64 = model.tensors.iter().map(|t| overlap(t, s)).sum();
                    s.duration_ns() as f64 * overlap(tensor, s) as f64 / covered as f64
                }).sum();
                prop_assert!((row.busy_ns() as f64 - expected).abs() <= 1.0, "{} {}", row.busy_ns(), expected);
            }
        }
    }
}
