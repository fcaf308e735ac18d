//! Rules for every successful run, with any engine, target and settings.

use crate::harness::Outcome;
use gds_top::core::{Engine, LaneStage, ModelInfo, Phase, Span};

/// Compares a run with the model's files. A violated rule fails the test.
pub(crate) fn check(outcome: &Outcome, model: &ModelInfo) {
    let result = outcome.result();
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert!(outcome.status.unwrap().success(), "{:?}", outcome.status);
    assert_eq!(outcome.strays, Vec::<String>::new(), "standard output carries frames only");
    assert_eq!(result.error, None);
    assert_eq!(result.verified, Some(true), "{result:?}");
    assert_eq!(result.bytes, model.tensor_bytes());
    assert_eq!(
        outcome.stages(),
        [LaneStage::Setup, LaneStage::PreparingCache, LaneStage::Loading, LaneStage::Verifying]
    );

    // The times add up.
    assert!(result.wall_ns > 0);
    assert_eq!(result.phases.total_ns(), result.wall_ns, "{:?}", result.phases);
    let rate = result.bytes as f64 / (result.wall_ns as f64 / 1e9);
    assert!((result.bytes_per_s / rate - 1.0).abs() < 1e-6, "{} {rate}", result.bytes_per_s);
    // Releases after the clock are reported with the parts of the set-up, but are not a part of it.
    let parts = result.setup_parts_ns.iter().filter(|(name, _)| *name != "release_after_clock");
    let parts: u64 = parts.map(|(_, ns)| ns).sum();
    assert!(result.setup_ns > 0 && parts == result.setup_ns, "{} {:?}", result.setup_ns, result.setup_parts_ns);
    // Each setting has a reason for its value.
    assert!(result.settings.keys().eq(result.settings_why.keys()), "{:?} {:?}", result.settings, result.settings_why);
    assert!(result.settings_why.values().all(|why| !why.is_empty()), "{:?}", result.settings_why);
    assert!(result.cpu_ns.is_some_and(|ns| ns > 0));
    assert!(result.cache_resident_before_fraction.is_some_and(|share| (0.0..=1.0).contains(&share)), "{result:?}");

    // Landed and verified bytes increase to the total, and no memory stays pinned.
    let progress = outcome.progress();
    assert!(progress.is_sorted_by_key(|(landed, _, verified)| (*landed, *verified)), "{progress:?}");
    let (landed, pinned, verified) = *progress.last().unwrap();
    assert_eq!((landed, verified, pinned), (result.bytes, result.bytes, 0), "{progress:?}");

    let spans = outcome.spans();
    timelines(&spans, result.slots, result.wall_ns);
    let mover = if result.engine == Engine::Mmap { Phase::Copy } else { Phase::Transfer };
    once(&spans, mover, model);
}

/// Spans of one slot follow one another and are within the wall time.
fn timelines(spans: &[Span], slots: u32, wall_ns: u64) {
    assert!(spans.iter().all(|s| u32::from(s.slot) < slots && s.start_ns <= s.end_ns && s.end_ns <= wall_ns));
    for slot in 0..slots {
        let mut own: Vec<&Span> = spans.iter().filter(|s| u32::from(s.slot) == slot).collect();
        // The first worker opens files and allocates. Other workers may find that all blocks are taken.
        assert!(slot > 0 || !own.is_empty(), "the first slot has no span");
        own.sort_by_key(|s| (s.start_ns, s.end_ns));
        for pair in own.windows(2) {
            assert!(pair[0].end_ns <= pair[1].start_ns, "slot {slot}: {pair:?}");
        }
    }
}

/// Every tensor byte is in exactly one span of the phase, at its offset in the image.
fn once(spans: &[Span], phase: Phase, model: &ModelInfo) {
    let mut moved: Vec<&Span> = spans.iter().filter(|s| s.phase == phase && s.bytes > 0).collect();
    moved.sort_by_key(|s| s.offset);
    for pair in moved.windows(2) {
        assert!(pair[0].offset + pair[0].bytes <= pair[1].offset, "moved twice: {pair:?}");
    }
    let bases = model.image_bases();
    for (index, tensor) in model.tensors.iter().enumerate() {
        let start = bases[tensor.shard as usize] + tensor.file_offset;
        let mut at = start;
        while at < start + tensor.bytes {
            let next = moved.partition_point(|s| s.offset + s.bytes <= at);
            let span = moved.get(next).filter(|s| s.offset <= at);
            let span = span.unwrap_or_else(|| panic!("{phase:?}: byte {} of {} moved never", at - start, tensor.name));
            if let Some(told) = span.tensor {
                assert_eq!(told as usize, index, "the span belongs to another tensor than {}", tensor.name);
            }
            at = span.offset + span.bytes;
        }
    }
}
