//! Compares two recordings of a watched program.

use crate::core::{CallTotal, WatchReport};

/// With fewer calls there is no typical duration.
const LEAST_CALLS: u64 = 16;
/// The default share by which calls may be slower. Single programs vary more than repeated loads.
pub const WATCH_THRESHOLD: f64 = 0.2;

/// The calls of a function in both recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChange {
    /// The function.
    pub function: String,
    /// Its calls in the earlier recording. All fields are zero if there were none.
    pub before: CallTotal,
    /// Its calls in the later recording. All fields are zero if there were none.
    pub now: CallTotal,
}

/// A result that is worse than in the earlier recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchRegression {
    /// The calls of a function take longer on average.
    Slower {
        /// The function.
        function: String,
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
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchComparison {
    /// Each function that was called in at least one of the recordings.
    pub calls: Vec<CallChange>,
    /// The results that are worse.
    pub regressions: Vec<WatchRegression>,
}

/// Compares `now` with `before`. `threshold` is the share by which calls may be slower.
#[must_use]
pub fn compare_watched(before: &WatchReport, now: &WatchReport, threshold: f64) -> WatchComparison {
    let all =
        |report: &WatchReport| -> Vec<CallTotal> { report.calls.iter().chain(&report.other_calls).cloned().collect() };
    let (old, new) = (all(before), all(now));
    let mut names: Vec<&str> = old.iter().chain(&new).map(|call| call.function.as_str()).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    let of = |list: &[CallTotal], name: &str| {
        let none = CallTotal { function: name.to_owned(), ..CallTotal::default() };
        list.iter().find(|call| call.function == name).cloned().unwrap_or(none)
    };
    let mut comparison = WatchComparison::default();
    for name in names {
        let (before, now) = (of(&old, name), of(&new, name));
        let mean = |call: &CallTotal| call.total_ns / call.count.max(1);
        let (before_ns, now_ns) = (mean(&before), mean(&now));
        let many = before.count >= LEAST_CALLS && now.count >= LEAST_CALLS;
        let function = || name.to_owned();
        if many && now_ns as f64 > before_ns as f64 * (1.0 + threshold) {
            comparison.regressions.push(WatchRegression::Slower { function: function(), before_ns, now_ns });
        }
        if now.errors > before.errors {
            let (before, now) = (before.errors, now.errors);
            comparison.regressions.push(WatchRegression::MoreErrors { function: function(), before, now });
        }
        comparison.calls.push(CallChange { function: function(), before, now });
    }
    for file in now.files.iter().filter(|file| !file.route.is_direct() || !file.proven) {
        let was = before.files.iter().find(|old| old.path == file.path);
        if was.is_some_and(|old| old.route.is_direct() && old.proven) {
            comparison.regressions.push(WatchRegression::RouteLost(file.path.clone()));
        }
    }
    comparison
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: u64, errors: u64, total_ns: u64) -> WatchReport {
        let call = CallTotal { function: "cuFileRead".to_owned(), count, errors, bytes: 1, total_ns };
        WatchReport { calls: vec![call], ..WatchReport::default() }
    }

    #[test]
    fn slower_calls_and_more_errors_are_regressions_and_noise_is_not() {
        let before = report(100, 1, 100_000);
        let worse = |now: &WatchReport| compare_watched(&before, now, WATCH_THRESHOLD).regressions;
        assert_eq!(worse(&report(50, 1, 59_000)), []);
        let function = || "cuFileRead".to_owned();
        let slower = WatchRegression::Slower { function: function(), before_ns: 1000, now_ns: 1300 };
        assert_eq!(worse(&report(100, 0, 130_000)), [slower]);
        assert_eq!(worse(&report(2, 0, 130_000)), []);
        let errors = WatchRegression::MoreErrors { function: function(), before: 1, now: 2 };
        assert_eq!(worse(&report(100, 2, 100_000)), [errors]);
        let gone = compare_watched(&before, &WatchReport::default(), WATCH_THRESHOLD);
        assert_eq!((gone.calls.len(), gone.calls[0].now.count, gone.regressions.len()), (1, 0, 0));
    }
}
