//! Compares two recordings of a watched program.

use super::against::Tolerance;
use super::watch_gaps::WatchGap;
use crate::core::{CallPace, CallTotal, ProgramEnd, WatchReport, WatchedFile, units};
use serde::Serialize;
use std::collections::HashSet;

/// With fewer parts of the time there is no noise to compare a difference with.
const LEAST_PARTS: usize = 5;
/// With fewer calls, a function is after those with enough calls, and the answer does not name it.
pub const ENOUGH_CALLS: u64 = 5;
/// A difference of ranks beyond this many standard deviations is not noise: 0.5 percent of equal programs exceed it.
const CLEAR: f64 = 2.576;
/// The default share by which calls may be slower. Single programs vary more than repeated loads.
pub const WATCH_THRESHOLD: f64 = 0.2;

/// The calls of a function in both recordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallChange {
    /// The function.
    pub function: String,
    /// Its calls in the earlier recording. All fields are zero if there were none.
    pub before: CallTotal,
    /// Its calls in the later recording. All fields are zero if there were none.
    pub now: CallTotal,
}

/// The calls of a function with similar sizes in one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PaceSide {
    /// The number of calls.
    pub count: u64,
    /// The requested bytes.
    pub bytes: u64,
    /// The mean duration in nanoseconds. 0 without calls.
    pub mean_ns: u64,
    /// The calls per second of the program's time. 0 if the time is unknown.
    pub calls_per_s: f64,
}

/// The result of the comparison of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaceResult {
    /// One of the recordings has no such call.
    OnlyOnce,
    /// The means differ by less than the threshold.
    Same,
    /// The calls are slower in most parts of the time.
    Slower,
    /// The calls are faster in most parts of the time.
    Faster,
    /// The means differ by more than the threshold, but the recordings are too short or vary too much, the machine was
    /// too busy, or only one of the recordings has probes in its durations.
    Unclear,
}

/// The calls of a function with similar sizes in both recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaceChange {
    /// The function.
    pub function: String,
    /// The upper bound of the size class in bytes. 0 for functions without a size.
    pub up_to_bytes: u64,
    /// The earlier recording.
    pub before: PaceSide,
    /// The later recording.
    pub now: PaceSide,
    /// The result.
    pub result: PaceResult,
}

/// A result that is worse than in the earlier recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchRegression {
    /// The calls of a function with similar sizes take longer.
    Slower {
        /// The function.
        function: String,
        /// The upper bound of the size class in bytes. 0 for functions without a size.
        up_to_bytes: u64,
        /// The earlier mean duration in nanoseconds.
        before_ns: u64,
        /// The later mean duration in nanoseconds.
        now_ns: u64,
    },
    /// More calls fail.
    MoreErrors {
        /// The function.
        function: String,
        /// The earlier number of failed calls.
        before: u64,
        /// The later number of failed calls.
        now: u64,
    },
    /// A file used a direct route in the earlier recording. In the later one it does not, or there is no proof.
    RouteLost(String),
    /// A smaller share of the bytes of all files took a proven direct route.
    LessDirect {
        /// The earlier bytes on proven direct routes, and all earlier bytes.
        before: [u64; 2],
        /// The later bytes on proven direct routes, and all later bytes.
        now: [u64; 2],
    },
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WatchComparison {
    /// Each function that was called in at least one of the recordings.
    pub calls: Vec<CallChange>,
    /// The durations by function and size.
    pub paces: Vec<PaceChange>,
    /// The results that are worse.
    pub regressions: Vec<WatchRegression>,
    /// The end of the later program, if the earlier one ended otherwise.
    pub other_end: Option<ProgramEnd>,
    /// The share of the time in which tasks waited for a CPU, 0 to 1: the higher one of both recordings.
    pub cpu_pressure: f64,
    /// The share by which calls may be slower.
    pub allowed: f64,
    /// The share by which calls may be slower on an idle machine.
    pub threshold: f64,
    /// Whether the earlier recording proves a direct route, and the later one cannot prove any.
    pub route_unknown: bool,
    /// The reasons why calls are missing in the earlier recording.
    pub missing_before: Vec<WatchGap>,
    /// The reasons why calls are missing in the later recording.
    pub missing: Vec<WatchGap>,
}

impl WatchComparison {
    /// The comparison of recordings in which calls are missing for these reasons.
    #[must_use]
    pub fn with_missing(self, missing_before: Vec<WatchGap>, missing: Vec<WatchGap>) -> Self {
        Self { missing_before, missing, ..self }
    }
}

/// Compares `now` with `before`.
#[must_use]
pub fn compare_watched(before: &WatchReport, now: &WatchReport, tolerance: Tolerance) -> WatchComparison {
    let mut comparison = WatchComparison {
        paces: paces(before, now, tolerance),
        other_end: other_end(before, now),
        cpu_pressure: tolerance.pressure,
        allowed: tolerance.allowed(),
        threshold: tolerance.threshold,
        ..WatchComparison::default()
    };
    let slower = comparison.paces.iter().filter(|pace| pace.result == PaceResult::Slower);
    comparison.regressions = slower
        .map(|pace| WatchRegression::Slower {
            function: pace.function.clone(),
            up_to_bytes: pace.up_to_bytes,
            before_ns: pace.before.mean_ns,
            now_ns: pace.now.mean_ns,
        })
        .collect();
    let all =
        |report: &WatchReport| -> Vec<CallTotal> { report.calls.iter().chain(&report.other_calls).cloned().collect() };
    let (old, new) = (all(before), all(now));
    let mut names: Vec<&str> = old.iter().chain(&new).map(|call| call.function.as_str()).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    let of = |list: &[CallTotal], name: &str| {
        let none = CallTotal { function: name.to_owned(), ..CallTotal::default() };
        list.iter().find(|call| call.function == name).cloned().unwrap_or(none)
    };
    for name in names {
        let (before, now) = (of(&old, name), of(&new, name));
        let function = || name.to_owned();
        if now.errors > before.errors {
            let (before, now) = (before.errors, now.errors);
            comparison.regressions.push(WatchRegression::MoreErrors { function: function(), before, now });
        }
        comparison.calls.push(CallChange { function: function(), before, now });
    }
    let routes = lost_routes(before, now, comparison.other_end.is_none());
    comparison.regressions.extend(routes);
    let was_direct = before.files.iter().any(|file| is_direct(&file));
    let is_known = now.wants_statistics || now.files.iter().all(|file| file.proven);
    comparison.route_unknown = was_direct && !is_known;
    comparison
}

/// The end of the later program, if it is known and the earlier one ended otherwise.
fn other_end(before: &WatchReport, now: &WatchReport) -> Option<ProgramEnd> {
    let known = |report: &WatchReport| report.ended.filter(|ended| *ended != ProgramEnd::Unknown);
    known(now).filter(|now| *now != known(before).unwrap_or(ProgramEnd::Status(0)))
}

fn is_direct(file: &&WatchedFile) -> bool {
    file.proven && file.route.is_direct()
}

/// Files that lost a proven direct route. If there are none, the bytes of all files are compared, because their names can
/// differ. A program with another end may have ended before its statistics were read, and without
/// statistics no route is proven. Then only proven routes count.
fn lost_routes(before: &WatchReport, now: &WatchReport, same_end: bool) -> Vec<WatchRegression> {
    let was_direct = |path: &str| before.files.iter().filter(is_direct).any(|old| old.path == path);
    let is_known = |file: &&WatchedFile| same_end && now.wants_statistics || file.proven;
    let lost = now.files.iter().filter(|file| !is_direct(file) && is_known(file) && was_direct(&file.path));
    let lost: Vec<_> = lost.map(|file| WatchRegression::RouteLost(file.path.clone())).collect();
    let shares = [before, now].map(|report| {
        let moved = |file: &WatchedFile| file.reads.bytes.saturating_add(file.writes.bytes);
        let (direct, all) = (report.files.iter().filter(is_direct), report.files.iter());
        [units::sum(direct.map(moved)), units::sum(all.map(moved))]
    });
    let [old, new] = shares.map(|[direct, all]| (u128::from(direct), u128::from(all.max(1))));
    let is_less = new.0 * old.1 < old.0 * new.1;
    if lost.is_empty() && is_less && now.files.iter().all(|file| is_known(&file)) {
        return vec![WatchRegression::LessDirect { before: shares[0], now: shares[1] }];
    }
    lost
}

/// The durations in both recordings by function and size.
fn paces(before: &WatchReport, now: &WatchReport, tolerance: Tolerance) -> Vec<PaceChange> {
    let mut kinds: Vec<(&str, u64)> =
        before.paces.iter().chain(&now.paces).map(|pace| (pace.function.as_str(), pace.up_to_bytes)).collect();
    let mut seen = HashSet::new();
    kinds.retain(|kind| seen.insert(*kind));
    let of = |report: &WatchReport, (function, up_to_bytes): (&str, u64)| {
        let found = report.paces.iter().find(|pace| pace.function == function && pace.up_to_bytes == up_to_bytes);
        found.cloned().unwrap_or_default()
    };
    // The durations of a process that was attached include its probes.
    let is_probed = |report: &WatchReport| report.attached.as_ref().is_some_and(|process| process.recorded);
    let is_alike = is_probed(before) == is_probed(now);
    let change = |kind: (&str, u64)| {
        let (old, new) = (of(before, kind), of(now, kind));
        let result = match result(&old, &new, tolerance) {
            PaceResult::Slower | PaceResult::Faster if !is_alike => PaceResult::Unclear,
            result => result,
        };
        PaceChange {
            function: kind.0.to_owned(),
            up_to_bytes: kind.1,
            before: side(&old, before.wall_ns),
            now: side(&new, now.wall_ns),
            result,
        }
    };
    let mut paces: Vec<PaceChange> = kinds.into_iter().map(change).collect();
    // A few calls show little, so functions with enough calls are first. Of these, the one with the most time is.
    let weight = |pace: &PaceChange| {
        let calls = pace.before.count.max(pace.now.count);
        let time = |side: &PaceSide| side.mean_ns.saturating_mul(side.count);
        (calls >= ENOUGH_CALLS, time(&pace.before).max(time(&pace.now)))
    };
    paces.sort_by_key(|pace| std::cmp::Reverse(weight(pace)));
    paces
}

fn side(pace: &CallPace, wall_ns: u64) -> PaceSide {
    let count = pace.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.0));
    let total_ns = pace.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.1));
    PaceSide {
        count,
        bytes: pace.bytes,
        mean_ns: total_ns / count.max(1),
        calls_per_s: if wall_ns > 0 { count as f64 * 1e9 / wall_ns as f64 } else { 0.0 },
    }
}

/// The mean duration of each part.
fn means(pace: &CallPace) -> Vec<f64> {
    pace.parts.iter().filter(|part| part.0 > 0).map(|part| part.1 as f64 / part.0 as f64).collect()
}

fn result(before: &CallPace, now: &CallPace, tolerance: Tolerance) -> PaceResult {
    let (old, new) = (means(before), means(now));
    if old.is_empty() || new.is_empty() {
        return PaceResult::OnlyOnce;
    }
    let (before_ns, now_ns) = (side(before, 0).mean_ns as f64, side(now, 0).mean_ns as f64);
    let allowed = tolerance.allowed();
    let slower = now_ns > before_ns * (1.0 + allowed);
    if !slower && before_ns <= now_ns * (1.0 + allowed) {
        return PaceResult::Same;
    }
    let clear = deviation(&old, &new);
    match (slower, old.len().min(new.len()) >= LEAST_PARTS) {
        // Other programs can be the reason, unless the pressure explains only a small part of the difference.
        (true, true) if tolerance.is_busy() && now_ns <= before_ns * (1.0 + tolerance.far(allowed)) => {
            PaceResult::Unclear
        }
        (true, true) if clear > CLEAR => PaceResult::Slower,
        (false, true) if clear < -CLEAR => PaceResult::Faster,
        _ => PaceResult::Unclear,
    }
}

/// How much larger the values of `now` are by rank, in standard deviations (Mann-Whitney U test). A few slow calls
/// change the mean, but not this.
fn deviation(before: &[f64], now: &[f64]) -> f64 {
    let won = |new: &f64| -> f64 {
        before.iter().map(|old| if new > old { 1.0 } else { f64::from(u8::from(new >= old)) / 2.0 }).sum()
    };
    let u: f64 = now.iter().map(won).sum();
    let (m, n) = (before.len() as f64, now.len() as f64);
    (u - m * n / 2.0) / (m * n * (m + n + 1.0) / 12.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{AttachedProcess, PlainReads, Route, RouteProof, Transfers};

    /// A program that reads 4 KiB 100 times in each part, with these mean durations.
    fn paced(means_ns: &[u64]) -> WatchReport {
        let parts = means_ns.iter().map(|mean| (100, 100 * mean)).collect();
        let pace = CallPace { function: "cuFileRead".to_owned(), up_to_bytes: 4096, bytes: 4096, parts };
        WatchReport { paces: vec![pace], wall_ns: 1_000_000_000, ..WatchReport::default() }
    }

    const QUIET: Tolerance = Tolerance { threshold: WATCH_THRESHOLD, pressure: 0.0 };

    fn compared(before: &[u64], now: &[u64]) -> PaceResult {
        compared_with(before, now, QUIET)
    }

    fn compared_with(before: &[u64], now: &[u64], tolerance: Tolerance) -> PaceResult {
        let comparison = compare_watched(&paced(before), &paced(now), tolerance);
        let [pace] = comparison.paces.as_slice() else { unreachable!("one kind of calls") };
        assert_eq!(comparison.regressions.len(), usize::from(pace.result == PaceResult::Slower));
        pace.result
    }

    #[test]
    fn durations_with_probes_are_not_compared_with_others() {
        let attached = |report: WatchReport| {
            let process = AttachedProcess { recorded: true, ..AttachedProcess::default() };
            WatchReport { attached: Some(process), ..report }
        };
        let (plain, slow) = (paced(&[1000; 8]), paced(&[9000; 8]));
        for (before, now, wanted) in [
            (plain.clone(), attached(slow.clone()), PaceResult::Unclear),
            (attached(slow.clone()), plain.clone(), PaceResult::Unclear),
            (attached(plain), attached(slow), PaceResult::Slower),
        ] {
            let comparison = compare_watched(&before, &now, QUIET);
            assert_eq!(comparison.paces[0].result, wanted);
            assert_eq!(comparison.regressions.is_empty(), wanted == PaceResult::Unclear);
        }
    }

    #[test]
    fn a_difference_must_exceed_the_noise_inside_both_recordings() {
        let steady = [1000, 1010, 990, 1005, 995, 1000, 1002, 998];
        let slower = steady.map(|mean| mean * 13 / 10);
        assert_eq!(compared(&steady, &slower), PaceResult::Slower);
        assert_eq!(compared(&slower, &steady), PaceResult::Faster);
        assert_eq!(compared(&steady, &steady.map(|mean| mean * 11 / 10)), PaceResult::Same);
        // One part with a pause raises the mean.
        let mut paused = steady;
        paused[3] = 20_000;
        assert_eq!(compared(&steady, &paused), PaceResult::Unclear);
        // Too short.
        assert_eq!(compared(&steady[..4], &slower[..4]), PaceResult::Unclear);
        assert_eq!(compared(&[1000], &[9000]), PaceResult::Unclear);
        assert_eq!(compared(&steady, &[]), PaceResult::OnlyOnce);
        let sides = &compare_watched(&paced(&steady), &paced(&slower), QUIET).paces[0];
        assert_eq!((sides.before.count, sides.before.mean_ns, sides.now.mean_ns), (800, 1000, 1299));
        assert!((sides.now.calls_per_s - 800.0).abs() < 0.1);
    }

    #[test]
    fn a_busy_machine_decides_only_what_its_pressure_does_not_explain() {
        let steady = [1000, 1010, 990, 1005, 995, 1000, 1002, 998];
        let result = |percent: u64, pressure| {
            let now = steady.map(|mean| mean * percent / 100);
            compared_with(&steady, &now, Tolerance { pressure, ..QUIET })
        };
        assert_eq!(result(130, 0.0), PaceResult::Slower);
        // Tasks wait in 10 percent of the time, so calls may be 11 percent slower than on an idle machine.
        assert_eq!((result(130, 0.1), result(135, 0.1)), (PaceResult::Same, PaceResult::Slower));
        assert_eq!((result(135, 0.6), result(250, 0.6)), (PaceResult::Unclear, PaceResult::Unclear));
        assert_eq!((result(600, 0.6), result(600, 0.9)), (PaceResult::Slower, PaceResult::Unclear));
        assert_eq!((result(110, 0.9), result(50, 0.9)), (PaceResult::Same, PaceResult::Faster));
    }

    #[test]
    fn the_function_with_the_most_time_is_first_and_a_single_call_is_last() {
        let pace = |function: &str, parts: &[(u64, u64)]| CallPace {
            function: function.to_owned(),
            parts: parts.to_vec(),
            ..CallPace::default()
        };
        let paces = vec![
            pace("cuFileDriverOpen", &[(1, 900_000_000)]),
            pace("cuFileBufRegister", &[(20, 1000)]),
            pace("cuFileRead", &[(10, 50_000), (10, 50_000)]),
        ];
        let report = WatchReport { paces, ..WatchReport::default() };
        let compared = compare_watched(&report, &report, QUIET).paces;
        let names: Vec<&str> = compared.iter().map(|pace| pace.function.as_str()).collect();
        assert_eq!(names, ["cuFileRead", "cuFileBufRegister", "cuFileDriverOpen"]);
    }

    #[test]
    fn a_route_that_the_later_recording_cannot_prove_is_neither_lost_nor_kept() {
        let report = |proven, wants_statistics| {
            let file = WatchedFile {
                path: "/m".to_owned(),
                route: Route::P2pdma,
                proven,
                proof: if proven { RouteProof::Statistics } else { RouteProof::Nothing },
                reads: Transfers { count: 1, bytes: 4096, ..Transfers::default() },
                writes: Transfers::default(),
                registrations: 1,
                failed_registrations: 0,
                o_direct: None,
                tensors: Vec::new(),
                tensors_of_file: 0,
                tensors_unknown: None,
                kv: None,
                plain: PlainReads::default(),
                cached_fraction: None,
            };
            WatchReport { files: vec![file], wants_statistics, ..WatchReport::default() }
        };
        let compared = |now: WatchReport| {
            let comparison = compare_watched(&report(true, true), &now, QUIET);
            (comparison.regressions.len(), comparison.route_unknown)
        };
        assert_eq!(compared(report(true, false)), (0, false));
        assert_eq!(compared(report(false, false)), (0, true));
        assert_eq!(compared(report(false, true)), (1, false));
    }

    #[test]
    fn more_errors_are_a_regression() {
        let report = |errors| {
            let call = CallTotal { function: "cuFileRead".to_owned(), count: 100, errors, bytes: 1, total_ns: 100_000 };
            WatchReport { calls: vec![call], ..WatchReport::default() }
        };
        let worse = |errors| compare_watched(&report(1), &report(errors), QUIET).regressions;
        assert_eq!(worse(1), []);
        let errors = WatchRegression::MoreErrors { function: "cuFileRead".to_owned(), before: 1, now: 2 };
        assert_eq!(worse(2), [errors]);
        let gone = compare_watched(&report(1), &WatchReport::default(), QUIET);
        assert_eq!((gone.calls.len(), gone.calls[0].now.count, gone.regressions.len()), (1, 0, 0));
    }
}
