//! Predicts the load of another model from measured runs. Each run gives one prediction. The median is shown, and the
//! differences between them give the interval.

use super::timing::{Parts, Timing, Untold, along, nearest};
use crate::core::CacheState;
use crate::core::median::median;

/// The model whose load is predicted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// The sizes of its tensors in bytes.
    pub sizes_bytes: Vec<u64>,
    /// The memory that the engine would pin for it, in bytes. `None` if it is unknown or the same for every model.
    pub pinned_bytes: Option<u64>,
    /// The threads that the engine would use for it. `None` if they are unknown or no ceiling was measured for them.
    pub threads: Option<Threads>,
}

/// The threads of the prediction compared with those of the measured runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threads {
    /// The predicted threads divided by the measured ones.
    pub times: f64,
    /// The ceiling of the machine with the runs, in bytes per second.
    pub ceiling_bytes_per_s: f64,
}

impl Threads {
    /// The time per byte with more threads, in nanoseconds. Each thread keeps its measured rate, and all together
    /// stay below the ceiling. With fewer threads the time per byte is unchanged: they lose parallelism but compete
    /// less.
    fn ns_per_byte(&self, measured: f64) -> f64 {
        if self.times <= 1.0 {
            return measured;
        }
        (measured / self.times).max(1e9 / self.ceiling_bytes_per_s).min(measured)
    }
}

impl Shape {
    /// The bytes of all tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sizes_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// The expected time of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Expected wall time in nanoseconds.
    pub wall_ns: u64,
    /// The lower end of the interval in nanoseconds.
    pub low_ns: u64,
    /// The upper end of the interval in nanoseconds.
    pub high_ns: u64,
    /// The part of `wall_ns` that is overhead per tensor. It is 0 if blocks are read, because their time does not
    /// depend on the tensors.
    pub overhead_ns: u64,
    /// Whether the model is far outside the measured range. For loads tensor by tensor, its tensors are more than
    /// twice as large or small. For loads in blocks, it has more than four times or less than a sixty-fourth of the
    /// bytes.
    pub extrapolated: bool,
    /// Whether the runs do not determine the time of tensors of these sizes. The interval then covers all possible
    /// times, and `wall_ns` is its middle.
    pub untold: bool,
    /// The longest measured run divided by the shortest, minus one. It is set only if it exceeds the permitted error
    /// of a prediction, because a prediction cannot be more precise than its runs.
    pub repeats_apart: Option<f64>,
}

/// If repeats differ by more than this share, they show the state of the machine and not the load.
const FAR_APART: f64 = 0.15;
/// The remaining uncertainty as a share of the time if the runs agree. The speed of a machine varies by this from
/// minute to minute.
const LEAST_DOUBT: f64 = 0.05;
/// The remaining uncertainty if one thread loads tensor by tensor. Its share of the machine varies more between
/// processes.
const ONE_THREAD_DOUBT: f64 = 0.15;
/// The remaining uncertainty of cold loads.
const COLD_DOUBT: f64 = 0.15;
/// The extra uncertainty of a single run without repeats.
const SINGLE_RUN_DOUBT: f64 = 0.15;
/// The extra uncertainty for each factor of two between the bytes of the models. It is higher for cold loads, because
/// caches below the disk depend on the size.
const DOUBT_A_DOUBLING: f64 = 0.02;
const COLD_DOUBT_A_DOUBLING: f64 = 0.05;
/// Pinning less memory shortens only a part of the start. Starting threads, opening streams and allocating the target
/// take the same time.
const MOST_SHRINKING: f64 = -0.75;
/// A load in blocks is extrapolated above this multiple of the measured bytes, and below this fraction.
const FAR_MORE: u64 = 4;
const FAR_LESS: u64 = 64;
/// The extra uncertainty outside of the measured range.
const OUTSIDE_DOUBT: f64 = 0.10;

/// Predicts a load from runs of one engine in one cache state on one model.
///
/// The time of a load in blocks is read from the measured curve of landed bytes. More bytes than measured take the
/// complete time plus the rest at the steady rate; more threads raise this rate. The tail is added. The time of a
/// load tensor by tensor is the one-time part plus the time of each tensor by its size. The start and the tail scale
/// with the pinned memory.
///
/// One thread copies from mappings, and its rate varies between processes and within one process by up to a half. A
/// load of 250 ms has a single rate and is slower at its start. A long load has several rates. So the fastest short
/// run predicts a model of more than twice the bytes, and the start of the slowest long run predicts a model of less
/// than half. This was the most accurate of the simple rules on the shipped recordings.
///
/// The interval spans the lowest and the highest prediction, widened by the uncertainties above. The result is `None`
/// without runs and for a model without bytes.
#[must_use]
pub fn predict(runs: &[Timing], shape: &Shape) -> Option<Prediction> {
    let first = runs.first()?;
    let bytes = shape.bytes();
    if bytes == 0 {
        return None;
    }
    let walls: Vec<f64> = runs.iter().map(|run| wall_ns(run, shape, Price::Middle)).collect();
    let (low, high) = extent(&walls);
    let times = bytes as f64 / first.bytes.max(1) as f64;
    let paced = runs.iter().all(|run| matches!(run.parts, Parts::Tensors { pace: Some(_), .. }));
    let wall = match times {
        _ if !paced => median(&walls)?,
        more if more > 2.0 => low,
        less if less < 0.5 => high,
        _ => median(&walls)?,
    };
    let extrapolated = runs.iter().any(|run| is_outside(run, shape));
    let untold = runs.iter().any(|run| is_untold(run, shape));
    let cold = first.cache != CacheState::Hot;
    let mut doubt = match &first.parts {
        _ if cold => COLD_DOUBT,
        Parts::Tensors { .. } => ONE_THREAD_DOUBT,
        Parts::Blocks { .. } => LEAST_DOUBT,
    };
    doubt += times.log2().abs() * if cold { COLD_DOUBT_A_DOUBLING } else { DOUBT_A_DOUBLING };
    if runs.len() == 1 {
        doubt += SINGLE_RUN_DOUBT;
    }
    if extrapolated && matches!(first.parts, Parts::Tensors { .. }) {
        doubt += OUTSIDE_DOUBT;
    }
    let (low, high) = if untold || paced {
        let at = |price| extent(&runs.iter().map(|run| wall_ns(run, shape, price)).collect::<Vec<_>>());
        (at(Price::Least).0, at(Price::Most).1)
    } else {
        let apart = high.max(1.0) / low.max(1.0);
        // The effect of more threads was not measured for these runs.
        let same_threads = Shape { threads: None, ..shape.clone() };
        let slowest = runs.iter().map(|run| wall_ns(run, &same_threads, Price::Middle)).fold(0.0, f64::max);
        (wall / apart, (wall * apart).max(slowest))
    };
    // Headers grow with the number of tensors. If they are read in parallel with the data they take no extra time, so
    // they only widen the interval.
    let headers = runs.iter().map(|run| run.open_ns).max().unwrap_or(0) as f64
        * (shape.sizes_bytes.len() as f64 / first.tensors.max(1) as f64 - 1.0).max(0.0);
    let overheads: Vec<f64> = runs.iter().map(|run| overhead_ns(run, shape)).collect();
    Some(Prediction {
        wall_ns: wall as u64,
        low_ns: (low * (-doubt).exp()) as u64,
        high_ns: (high * doubt.exp() + headers) as u64,
        overhead_ns: median(&overheads)? as u64,
        extrapolated,
        untold,
        repeats_apart: apart(runs),
    })
}

/// The bound of the undetermined times that a prediction uses.
#[derive(Clone, Copy)]
enum Price {
    Least,
    Middle,
    Most,
}

fn apart(runs: &[Timing]) -> Option<f64> {
    let (low, high) = extent(&runs.iter().map(|run| run.wall_ns as f64).collect::<Vec<_>>());
    Some(high / low.max(1.0) - 1.0).filter(|apart| *apart > FAR_APART)
}

fn extent(walls: &[f64]) -> (f64, f64) {
    walls.iter().fold((f64::MAX, 0.0_f64), |(low, high), ns| (low.min(*ns), high.max(*ns)))
}

/// The time around the tensors by size class. `price` fills in the classes that the run does not determine.
fn priced(around: &[(f64, f64)], untold: &[Untold], price: Price) -> Vec<(f64, f64)> {
    let known = |bytes: f64| untold.iter().find(|class| (class.bytes - bytes).abs() < 0.5);
    let priced = |(bytes, ns): &(f64, f64)| match (known(*bytes), price) {
        (Some(class), Price::Least) => (*bytes, class.least_ns),
        (Some(class), Price::Most) => (*bytes, class.most_ns),
        _ => (*bytes, *ns),
    };
    around.iter().map(priced).collect()
}

fn is_untold(run: &Timing, shape: &Shape) -> bool {
    let Parts::Tensors { around, untold, .. } = &run.parts else { return false };
    let (least, most) = (priced(around, untold, Price::Least), priced(around, untold, Price::Most));
    shape.sizes_bytes.iter().any(|b| *b > 0 && nearest(&least, *b) < nearest(&most, *b))
}

fn wall_ns(run: &Timing, shape: &Shape, price: Price) -> f64 {
    let bytes = shape.bytes() as f64;
    match &run.parts {
        Parts::Blocks { landed, ns_per_byte, tail_ns } => {
            let (Some((_, begun)), Some((all, ended))) = (landed.first(), landed.last()) else { return 0.0 };
            let pace = shape.threads.map_or(*ns_per_byte, |threads| threads.ns_per_byte(*ns_per_byte));
            let at = if bytes > *all { ended + (bytes - all) * pace } else { along(landed, bytes) };
            // Memory is pinned before the first block. At the end the pinned memory is still being copied.
            let ring = match shape.pinned_bytes {
                Some(pinned) if run.pinned_bytes > 0 => {
                    (pinned as f64 / run.pinned_bytes as f64 - 1.0).max(MOST_SHRINKING)
                }
                _ => 0.0,
            };
            (at + tail_ns + (begun + tail_ns) * ring).max(0.0)
        }
        Parts::Tensors {
            once_ns, unmap_ns_per_byte, touch_ns_per_byte, moving, pace, around, untold, scale, ..
        } => {
            let around = priced(around, untold, price);
            let factor = pace.as_ref().map_or(1.0, |pace| pace.factor(bytes));
            let own = |b: &u64| moving.ns(*b) * factor + nearest(&around, *b);
            let tensors: f64 = shape.sizes_bytes.iter().filter(|b| **b > 0).map(own).sum();
            let largest = shape.sizes_bytes.iter().copied().max().unwrap_or(0) as f64;
            once_ns + unmap_ns_per_byte * bytes + scale * tensors + touch_ns_per_byte * largest
        }
    }
}

fn overhead_ns(run: &Timing, shape: &Shape) -> f64 {
    let Parts::Tensors { moving, around, scale, sizes_bytes, .. } = &run.parts else { return 0.0 };
    // A transfer smaller than the smallest measured tensor takes as long as that tensor. Its time is not proportional
    // to its bytes.
    let least = moving.ns(sizes_bytes.0.min(4096));
    shape.sizes_bytes.iter().filter(|b| **b > 0).map(|b| scale * (nearest(around, *b) + least.min(moving.ns(*b)))).sum()
}

fn is_outside(run: &Timing, shape: &Shape) -> bool {
    match &run.parts {
        Parts::Blocks { .. } => {
            shape.bytes() > run.bytes.saturating_mul(FAR_MORE) || shape.bytes() < run.bytes / FAR_LESS
        }
        Parts::Tensors { sizes_bytes: (low, high), .. } => {
            shape.sizes_bytes.iter().any(|b| *b > high.saturating_mul(2) || (*b > 0 && b.saturating_mul(2) < *low))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fit::tests::{row, sizes};
    use super::super::rows::TensorRow;
    use super::super::timing::timing;
    use super::*;
    use crate::analysis::compare::tests::run;
    use crate::core::{Engine, Phase, Span};

    fn shape(sizes: &[u64]) -> Shape {
        Shape { sizes_bytes: sizes.to_vec(), ..Shape::default() }
    }

    /// Loads tensor after tensor on one slot from 50 ms on. The first call creates an object that later calls reuse.
    fn serial(sizes: &[u64], overhead_ns: u64, bytes_per_ns: u64) -> Timing {
        let (mut at, mut spans, mut rows): (u64, Vec<Span>, Vec<TensorRow>) = (50_000_000, Vec::new(), Vec::new());
        for (i, bytes) in sizes.iter().enumerate() {
            let mut row = row(*bytes, overhead_ns, bytes / bytes_per_ns);
            if i == 0 {
                row.phases.add(Phase::RegisterBuffer, 9_000_000);
            }
            row.start_ns = Some(at);
            let (tensor, start_ns) = (Some(i as u32), at);
            at += row.busy_ns();
            row.end_ns = Some(at);
            spans.push(Span {
                slot: 0,
                phase: Phase::Transfer,
                tensor,
                start_ns,
                end_ns: at,
                bytes: *bytes,
                offset: 0,
            });
            rows.push(row);
        }
        timing(&rows, &spans, &run(Engine::GdsPerTensor, CacheState::Hot, 0, at)).unwrap()
    }

    /// Eight slots that each read blocks of 4 MiB in 1 ms, from 10 ms on. Their first read takes 30 ms.
    fn blocks(count: u64, pinned_bytes: u64) -> Timing {
        const BLOCK: u64 = 4 << 20;
        let spans: Vec<Span> = (0..count)
            .map(|i| {
                let (slot, turn) = ((i % 8) as u16, i / 8);
                let start_ns = if turn == 0 { 10_000_000 } else { 39_000_000 + turn * 1_000_000 };
                let end_ns = 40_000_000 + turn * 1_000_000;
                Span { slot, phase: Phase::Transfer, tensor: None, start_ns, end_ns, bytes: BLOCK, offset: i * BLOCK }
            })
            .collect();
        let wall_ns = spans.iter().map(|s| s.end_ns).max().unwrap() + 5_000_000;
        let mut result = run(Engine::GdsSlab, CacheState::Hot, 0, wall_ns);
        result.pinned_peak_bytes = Some(pinned_bytes);
        timing(&[row(count * BLOCK, 0, 1)], &spans, &result).unwrap()
    }

    #[test]
    fn the_measured_model_is_told_as_it_was_measured() {
        for measured in [serial(&sizes(), 2_700_000, 7), blocks(400, 0)] {
            let own = if matches!(measured.parts, Parts::Tensors { .. }) {
                shape(&sizes())
            } else {
                shape(&[measured.bytes])
            };
            let predicted = predict(std::slice::from_ref(&measured), &own).unwrap();
            assert!(
                (predicted.wall_ns as f64 / measured.wall_ns as f64 - 1.0).abs() < 1e-6,
                "{predicted:?} {}",
                measured.wall_ns
            );
            assert!(
                predicted.low_ns < predicted.wall_ns
                    && predicted.wall_ns < predicted.high_ns
                    && !predicted.extrapolated
            );
        }
    }

    #[test]
    fn tensors_of_another_model_pay_their_own_and_the_first_call_once() {
        let measured = serial(&sizes(), 2_700_000, 7);
        let large: Vec<u64> = (0..339).map(|i| if i % 2 == 0 { 7168 } else { 89_000_000 }).collect();
        let truth = serial(&large, 2_700_000, 7).wall_ns;
        let predicted = predict(&[measured], &shape(&large)).unwrap();
        assert!((predicted.wall_ns as f64 / truth as f64 - 1.0).abs() < 0.01, "{predicted:?} {truth}");
        assert!((predicted.overhead_ns as f64 / 339.0 / 2.7e6 - 1.0).abs() < 0.01, "{predicted:?}");
    }

    /// Registers and reads tensor after tensor. Each item is (bytes, time around the transfer, time of the transfer).
    fn registered(tensors: &[(u64, u64, u64)]) -> Timing {
        let (mut at, mut spans, mut rows): (u64, Vec<Span>, Vec<TensorRow>) = (1_000_000, Vec::new(), Vec::new());
        for (i, (bytes, around, moving)) in tensors.iter().enumerate() {
            let (tensor, start_ns) = (Some(i as u32), at);
            let mut row = row(*bytes, *around, *moving);
            row.start_ns = Some(at);
            at += around + moving;
            row.end_ns = Some(at);
            let phase = Phase::Transfer;
            spans.push(Span { slot: 0, phase, tensor, start_ns, end_ns: at, bytes: *bytes, offset: 0 });
            rows.push(row);
        }
        timing(&rows, &spans, &run(Engine::GdsPerTensor, CacheState::Hot, 0, at)).unwrap()
    }

    #[test]
    fn pages_touched_for_the_first_time_are_paid_for_the_largest_tensor() {
        // The first tensor is the largest. It takes a quarter of a nanosecond more per byte, in addition to a tenth
        // for the transfer.
        let load = |largest: u64| {
            let mut tensors = vec![(largest, 500_000, largest / 10 + largest / 4)];
            tensors.extend([(largest, 500_000, largest / 10)]);
            tensors.extend((0..100).map(|i| (4_000_000 + i, 500_000, 400_000)));
            registered(&tensors)
        };
        let (small, large) = (load(300_000_000), load(1_000_000_000));
        let mut sizes = vec![1_000_000_000; 2];
        sizes.extend((0..100).map(|i| 4_000_000 + i));
        let predicted = predict(&[small], &shape(&sizes)).unwrap();
        assert!(
            (predicted.wall_ns as f64 / large.wall_ns as f64 - 1.0).abs() < 0.01,
            "{predicted:?} {}",
            large.wall_ns
        );
        assert!(!predicted.untold);
    }

    #[test]
    fn what_was_seen_in_first_calls_only_is_said_not_to_be_told() {
        let small = |second: u64| {
            let mut tensors = vec![(300_000_000, 20_000_000, 30_000_000), (300_000_000, second, 30_000_000)];
            tensors.extend((0..100).map(|i| (4_000_000 + i, 800_000, 400_000)));
            registered(&tensors)
        };
        let sizes = vec![100_000_000; 100];
        // The second tensor takes as long as the first. This may be its normal time or an effect of the first calls.
        let predicted = predict(&[small(16_000_000), small(16_000_000)], &shape(&sizes)).unwrap();
        assert!(
            predicted.untold
                && predicted.low_ns < 1_000_000_000 + 80_000_000
                && predicted.high_ns > 1_000_000_000 + 1_600_000_000,
            "{predicted:?}"
        );
        // The second tensor takes as long as the third one would, so its time is known. The time of a model without
        // such tensors is known too.
        let known = predict(&[small(3_000_000), small(3_000_000)], &shape(&sizes)).unwrap();
        assert!(!known.untold && known.high_ns - known.low_ns < predicted.high_ns - predicted.low_ns, "{known:?}");
        assert!(!predict(&[small(16_000_000)], &shape(&[4_000_000; 100])).unwrap().untold);
    }

    #[test]
    fn a_cost_that_leaps_at_the_size_of_a_piece_is_not_carried_over_it() {
        let mut tensors: Vec<(u64, u64, u64)> = (0..50).map(|i| (6_000_000 + i, 700_000, 600_000)).collect();
        tensors.extend((0..50).map(|i| (300_000_000 + i, 3_000_000, 30_000_000)));
        let predicted = predict(&[registered(&tensors)], &shape(&[20_000_000; 10])).unwrap();
        // This size is nearer to 6 MB by ratio, but it is registered in more than one piece.
        assert!(predicted.overhead_ns >= 30_000_000, "{predicted:?}");
    }

    #[test]
    fn what_starts_once_is_paid_once_whichever_model_was_measured() {
        let (small, large) = (blocks(160, 0), blocks(4000, 0));
        for (from, to) in [(&small, &large), (&large, &small)] {
            let predicted = predict(std::slice::from_ref(from), &shape(&[to.bytes])).unwrap();
            assert!((predicted.wall_ns as f64 / to.wall_ns as f64 - 1.0).abs() < 0.02, "{predicted:?} {}", to.wall_ns);
        }
    }

    #[test]
    fn a_larger_ring_takes_longer_to_pin_and_to_drain() {
        let measured = blocks(400, 64 << 20);
        let same = Shape { pinned_bytes: Some(64 << 20), ..shape(&[measured.bytes]) };
        let twice = Shape { pinned_bytes: Some(128 << 20), ..same.clone() };
        let wall = |shape| predict(std::slice::from_ref(&measured), shape).unwrap().wall_ns;
        // 10 ms to the first block and 5 ms after the last one.
        assert_eq!(wall(&twice) - wall(&same), 15_000_000);
    }

    #[test]
    fn more_threads_go_on_at_their_own_pace_up_to_the_ceiling() {
        // 8 × 4 MiB in one millisecond is 33.6 GB/s.
        let (small, large) = (blocks(160, 0), blocks(4000, 0));
        let predicted = |times, ceiling_bytes_per_s| {
            let threads = Some(Threads { times, ceiling_bytes_per_s });
            predict(std::slice::from_ref(&small), &Shape { threads, ..shape(&[large.bytes]) }).unwrap()
        };
        let plain = predict(std::slice::from_ref(&small), &shape(&[large.bytes])).unwrap();
        let more = (large.bytes - small.bytes) as f64;
        let faster = |p: &Prediction| (plain.wall_ns as f64 - p.wall_ns as f64) / more;
        let pace = 1.0 / 33.554_432;
        assert!((faster(&predicted(1.5, 90e9)) - pace / 3.0).abs() < 1e-4, "half as many again, far below the ceiling");
        assert!((faster(&predicted(1.5, 40e9)) - (pace - 1.0 / 40.0)).abs() < 1e-4, "bounded by the ceiling");
        assert_eq!(
            predicted(1.5, 20e9).wall_ns,
            plain.wall_ns,
            "a ceiling below what was measured makes nothing slower"
        );
        assert_eq!(predicted(0.5, 90e9), plain);
        let more = predicted(1.5, 40e9);
        assert!(
            more.high_ns > plain.wall_ns && more.low_ns < more.wall_ns,
            "the measured pace stays possible: {more:?}"
        );
    }

    #[test]
    fn runs_that_differ_and_sizes_never_measured_widen_the_interval() {
        let width = |runs: &[Timing], sizes: &[u64]| {
            let p = predict(runs, &shape(sizes)).unwrap();
            p.high_ns as f64 / p.low_ns as f64
        };
        let (slow, fast) = (serial(&sizes(), 200_000, 7), serial(&sizes(), 100_000, 9));
        let alike = width(&[fast.clone(), fast.clone()], &sizes());
        assert!(width(&[slow.clone(), fast.clone()], &sizes()) > 1.2 * alike);
        assert!(
            width(std::slice::from_ref(&fast), &sizes()) > 1.2 * alike,
            "one run gives a wider interval than two that agree"
        );
        assert!(width(&[fast.clone(), fast.clone()], &[3_000_000_000]) > 1.2 * alike);
        assert!(predict(&[fast], &shape(&[3_000_000_000])).unwrap().extrapolated);
    }

    #[test]
    fn repeats_that_lie_further_apart_than_predictions_may_are_told() {
        let took = |wall_ns| Timing { wall_ns, ..serial(&sizes(), 200_000, 7) };
        let apart = |runs: &[Timing]| predict(runs, &shape(&sizes())).unwrap().repeats_apart;
        assert_eq!((apart(&[took(100)]), apart(&[took(100), took(114), took(105)])), (None, None));
        assert!((apart(&[took(126), took(100), took(110)]).unwrap() - 0.26).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_told_of_nothing() {
        assert_eq!(predict(&[], &shape(&[1])), None);
        assert_eq!(predict(&[blocks(8, 0)], &shape(&[0, 0])), None);
        let result = run(Engine::Mmap, CacheState::Hot, 0, 5);
        assert_eq!(timing(&[], &[], &result), None);
        assert_eq!(timing(&[row(0, 0, 0)], &[], &result), None, "tensors without bytes");
    }

    #[test]
    fn one_tensor_and_tensors_of_one_size_tell_a_rate() {
        for measured in [serial(&[1 << 30], 1_000_000, 10), serial(&[1 << 24; 64], 1_000_000, 10)] {
            let predicted = predict(std::slice::from_ref(&measured), &shape(&[measured.bytes])).unwrap();
            assert!(predicted.wall_ns > measured.bytes / 20 && predicted.wall_ns < measured.bytes, "{predicted:?}");
        }
    }
}
