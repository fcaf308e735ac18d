//! Runs that are active at the same time: the share of each, and their common result.

use super::engine::Target;
use super::run::{AutoChoice, RunResult};
use serde::{Deserialize, Serialize};

/// A part of a model that is divided among several targets. Each part has a contiguous range of each file. The ranges
/// have equal lengths and start at multiples of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The number of the part, from 0.
    pub index: u32,
    /// The number of parts.
    pub of: u32,
}

/// The share of a run, in a session with several models or targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaneShare {
    /// Runs with the same number are active at the same time, and their clocks start together. `None` if the run is
    /// alone.
    pub group: Option<u32>,
    /// Name of the model.
    pub model: String,
    /// The tensor bytes that the run loads.
    pub bytes: u64,
    /// The part of the model. `None` for the complete model.
    pub part: Option<Part>,
}

impl LaneShare {
    /// The label of the run in its group: `1/2 on GPU 0`, or the model.
    #[must_use]
    pub fn label(&self, target: &Target) -> String {
        let place = match target {
            Target::Gpu { ordinal, .. } => format!("GPU {ordinal}"),
            Target::Host => "host".to_owned(),
        };
        match self.part {
            Some(part) => format!("part {}/{} on {place}", part.index.saturating_add(1), part.of),
            None => format!("{} on {place}", self.model),
        }
    }
}

/// The common result of the runs in a group. Its time is from the start of the first clock to the end of the last
/// one, and its rate is that of all bytes. Each run is passed with the start of its clock, in nanoseconds of the
/// session. If a run failed, its error is the error of the group. `None` without runs.
#[must_use]
pub fn together(lanes: &[(u64, &RunResult)]) -> Option<RunResult> {
    let (_, first) = lanes.first()?;
    let start = lanes.iter().map(|(start, _)| *start).min()?;
    let end = lanes.iter().map(|(start, r)| start.saturating_add(r.wall_ns)).max()?;
    let wall_ns = end.saturating_sub(start);
    let bytes = lanes.iter().fold(0_u64, |sum, (_, r)| sum.saturating_add(r.bytes));
    let sum = |of: &dyn Fn(&RunResult) -> Option<u64>| {
        lanes.iter().map(|(_, r)| of(r)).try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?)))
    };
    let error = lanes.iter().find_map(|(_, r)| r.error.as_ref().map(|why| format!("{}: {why}", r.target)));
    let verified = if lanes.iter().any(|(_, r)| r.verified == Some(false)) {
        Some(false)
    } else {
        lanes.iter().all(|(_, r)| r.verified == Some(true)).then_some(true)
    };
    // The cached shares are weighted by bytes, as in a single run.
    let resident =
        lanes.iter().try_fold(0.0, |sum, (_, r)| Some(sum + r.cache_resident_before_fraction? * r.bytes as f64));
    Some(RunResult {
        cache_resident_before_fraction: resident.filter(|_| bytes > 0).map(|sum| sum / bytes as f64),
        repeat: first.repeat,
        bytes,
        wall_ns,
        setup_ns: lanes.iter().map(|(_, r)| r.setup_ns).max().unwrap_or(0),
        bytes_per_s: super::units::bytes_per_s(bytes, wall_ns).unwrap_or(0.0),
        verified: verified.filter(|_| error.is_none()),
        slots: lanes.iter().map(|(_, r)| r.slots).sum(),
        host_peak_bytes: sum(&|r| r.host_peak_bytes),
        host_anonymous_bytes: sum(&|r| r.host_anonymous_bytes),
        host_file_bytes: sum(&|r| r.host_file_bytes),
        pinned_peak_bytes: sum(&|r| r.pinned_peak_bytes),
        gpu_peak_bytes: sum(&|r| r.gpu_peak_bytes),
        cpu_ns: sum(&|r| r.cpu_ns),
        auto_choice: common_choice(lanes),
        first_difference: lanes.iter().find_map(|(_, r)| r.first_difference.clone()),
        repeated_reads: lanes.iter().filter_map(|(_, r)| r.repeated_reads).reduce(u64::saturating_add),
        error,
        ..RunResult::new(
            first.engine.clone(),
            joined(lanes.iter().map(|(_, r)| r.model.as_str()), " + "),
            first.cache,
            counted(lanes.iter().map(|(_, r)| r.target.as_str())),
        )
    })
}

/// The engine that `auto` chose, if it chose the same one for every part. The group is then a second sample of that
/// engine.
fn common_choice(lanes: &[(u64, &RunResult)]) -> Option<AutoChoice> {
    let first = lanes.first()?.1.auto_choice.as_ref()?;
    let choices = || lanes.iter().map(|(_, r)| r.auto_choice.as_ref());
    let reason = first.reason.filter(|reason| choices().flatten().all(|choice| choice.reason == Some(*reason)));
    let same = choices().all(|choice| choice.is_some_and(|choice| choice.engine == first.engine));
    same.then(|| AutoChoice { engine: first.engine.clone(), reason })
}

/// The distinct names, joined.
fn joined<'a>(names: impl Iterator<Item = &'a str>, by: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen.join(by)
}

/// The targets in words, `2 × NVIDIA H200` or `host memory`. Several runs can share host memory, so it has no count.
fn counted<'a>(targets: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for target in targets {
        match seen.iter_mut().find(|(name, _)| *name == target) {
            Some((_, count)) => *count += 1,
            None => seen.push((target, 1)),
        }
    }
    let words: Vec<String> =
        seen.iter().map(|(name, n)| if *n == 1 { (*name).to_owned() } else { format!("{n} × {name}") }).collect();
    words.join(" + ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Engine};

    fn run(model: &str, target: &str, wall_ns: u64, bytes: u64) -> RunResult {
        RunResult {
            cache_resident_before_fraction: Some(1.0),
            bytes,
            wall_ns,
            setup_ns: 3,
            bytes_per_s: 1.0,
            verified: Some(true),
            slots: 2,
            host_peak_bytes: Some(10),
            cpu_ns: Some(5),
            ..RunResult::new(Engine::Pread, model, CacheState::Hot, target)
        }
    }

    #[test]
    fn the_slowest_decides_and_all_bytes_count() {
        let (a, b) = (run("m", "H", 1_000, 600), run("m", "H", 1_500, 400));
        let all = together(&[(100, &a), (90, &b)]).unwrap();
        assert_eq!((all.wall_ns, all.bytes, all.target.as_str(), all.model.as_str()), (1_500, 1_000, "2 × H", "m"));
        assert_eq!(
            (all.verified, all.slots, all.host_peak_bytes, all.pinned_peak_bytes),
            (Some(true), 4, Some(20), None)
        );
        assert!((all.bytes_per_s - 1_000.0 * 1e9 / 1_500.0).abs() < 1.0);
    }

    #[test]
    fn one_that_failed_or_was_not_verified_is_the_wholes_failure() {
        let (a, mut b) = (run("a", "G", 10, 1), run("b", "H", 10, 1));
        b.verified = None;
        assert_eq!(together(&[(0, &a), (0, &b)]).unwrap().verified, None);
        b.verified = Some(false);
        assert_eq!(together(&[(0, &a), (0, &b)]).unwrap().verified, Some(false));
        b.error = Some("disk gone".into());
        let all = together(&[(0, &a), (0, &b)]).unwrap();
        assert_eq!((all.model.as_str(), all.target.as_str()), ("a + b", "G + H"));
        assert!(all.error.unwrap().contains("disk gone"));
        assert_eq!(all.verified, None);
        assert!(together(&[]).is_none());
    }
}
