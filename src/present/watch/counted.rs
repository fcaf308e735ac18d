//! The transfers of a watched program in its answer: their number, and the routes that libcufile counted for them.

use crate::analysis::{has_all_totals, is_complete};
use crate::core::units::{self, bytes, count, plural};
use crate::core::{CallTotal, Route, RouteStatistics, WatchReport};

/// The functions that submit transfers. Their totals do not have the end of these transfers.
const SUBMITTING: [&str; 3] = ["cuFileReadAsync", "cuFileWriteAsync", "cuFileBatchIOSubmit"];

/// The transfers of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) bytes: u64,
    /// Whether the program may have made more.
    pub(super) is_least: bool,
}

impl Counted {
    pub(super) fn of(report: &WatchReport) -> Self {
        let files = || report.files.iter();
        let recorded = Self {
            reads: units::sum(files().map(|file| file.reads.count)),
            writes: units::sum(files().map(|file| file.writes.count)),
            failed: units::sum(files().map(|file| file.reads.errors.saturating_add(file.writes.errors))),
            cancelled: units::sum(files().map(|file| file.reads.cancelled.saturating_add(file.writes.cancelled))),
            bytes: units::sum(files().map(|file| file.reads.bytes.saturating_add(file.writes.bytes))),
            is_least: !is_complete(report),
        };
        // The totals have the calls whose details were lost.
        let totals = Self::of_totals(report).filter(|_| report.lost_events > 0);
        totals.filter(|all| all.reads >= recorded.reads && all.writes >= recorded.writes).unwrap_or(recorded)
    }

    /// The transfers and their bytes: `25 reads and 0 writes (1 failed), 2.14 MiB`.
    pub(super) fn amounts(&self) -> String {
        let (reads, writes) = (plural(self.reads, "read"), plural(self.writes, "write"));
        format!("{reads} and {writes}{}, {}", self.without_bytes(), bytes(self.bytes))
    }

    /// The transfers that moved nothing: ` (1 failed, 4 cancelled)`.
    fn without_bytes(&self) -> String {
        let parts = [(self.failed, "failed"), (self.cancelled, "cancelled")];
        let parts = parts.into_iter().filter(|(transfers, _)| *transfers > 0);
        let parts: Vec<_> = parts.map(|(transfers, how)| format!("{} {how}", count(transfers))).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }

    /// The transfers according to the totals of the calls. `None` if the totals do not have all calls or their results.
    fn of_totals(report: &WatchReport) -> Option<Self> {
        let has = |functions: &[&str]| report.calls.iter().any(|call| functions.contains(&call.function.as_str()));
        if !has_all_totals(report) || has(&SUBMITTING) {
            return None;
        }
        let sum = |functions: &[&str], value: fn(&CallTotal) -> u64| {
            let calls = report.calls.iter().filter(|call| functions.contains(&call.function.as_str()));
            units::sum(calls.map(value))
        };
        let (reads, writes) = (["cuFileRead", "cuFileReadv"], ["cuFileWrite", "cuFileWritev"]);
        let all = [reads, writes].concat();
        Some(Self {
            reads: sum(&reads, |call| call.count),
            writes: sum(&writes, |call| call.count),
            failed: sum(&all, |call| call.errors),
            cancelled: 0,
            bytes: sum(&all, |call| call.bytes),
            is_least: false,
        })
    }
}

/// The transfers of a program and their bytes, and whether it may have made more. `None` without transfers.
pub(in crate::present) fn amounts(report: &WatchReport) -> Option<(String, bool)> {
    let counted = Counted::of(report);
    (counted.reads > 0 || counted.writes > 0).then(|| (counted.amounts(), counted.is_least))
}

/// The headline about transfers on several routes, which only libcufile counts.
pub(super) fn several_routes(seen: RouteStatistics, failed: u64) -> String {
    let (compat, all) = (count(seen.posix), seen.by_route());
    match (seen.posix, failed) {
        (0, 0) => "The cuFile transfers take nvfs and p2pdma, counted by libcufile.".to_owned(),
        (0, failed) => format!("{} failed; the others take nvfs and p2pdma.", plural(failed, "cuFile transfer")),
        (_, 0) => {
            format!("libcufile counted {compat} of {} through host memory (compat).", plural(all, "transfer"))
        }
        (_, failed) => {
            let failed = plural(failed, "transfer");
            format!("{failed} failed; {compat} of {} others used compat.", count(all))
        }
    }
}

/// The headline about failed transfers if the others have one route, which is not proven to be direct.
pub(super) fn some_failed(failed: u64, route: Route, proven: bool) -> String {
    let (transfers, of_cufile) = (plural(failed, "transfer"), plural(failed, "cuFile transfer"));
    match route {
        Route::Compat => {
            let proven = if proven { "proven" } else { "inferred" };
            format!("{transfers} failed; the others use host memory (compat), {proven}.")
        }
        Route::None => format!("{of_cufile} failed; the others have no proven route."),
        route => format!("{of_cufile} failed; the others seem to take {route}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::SessionEnd;
    use crate::core::{ProgramEnd, RouteProof, Status, Transfers, WatchedFile, WatchedLibrary};
    use crate::present::watch::answer;
    use crate::present::watch::answer::tests::file_without_route;

    fn report(file: WatchedFile) -> WatchReport {
        WatchReport {
            programs: 1,
            ended: Some(ProgramEnd::Status(0)),
            libraries: vec![WatchedLibrary::default()],
            files: vec![file],
            ..WatchReport::default()
        }
    }

    fn file(route: Route, proof: RouteProof, count: u64, errors: u64) -> WatchedFile {
        let reads = Transfers { count, errors, bytes: count << 12, ..Transfers::default() };
        WatchedFile { route, proof, reads, ..file_without_route() }
    }

    #[test]
    fn a_fallback_that_libcufile_counted_and_failures_are_in_the_headline() {
        let shown = |proof, statistics, errors| {
            let report = WatchReport { statistics, ..report(file(Route::None, proof, 25_600, errors)) };
            answer(&report, SessionEnd::Complete)
        };
        let seen = RouteStatistics { posix: 2560, p2pdma: 10_240, ..RouteStatistics::default() };
        let direct = RouteStatistics { posix: 0, nvfs: 5, ..seen };
        let (mixed, unknown) = (RouteProof::MixedStatistics, RouteProof::Nothing);
        for (answer, has) in [
            (shown(mixed, Some(seen), 0), vec![count(2560), count(12_800), "host memory (compat)".to_owned()]),
            (shown(mixed, Some(seen), 12_800), vec![plural(12_800, "transfer") + " failed", count(2560)]),
            (shown(mixed, Some(direct), 0), vec!["nvfs and p2pdma".to_owned()]),
            (shown(mixed, Some(direct), 3), vec!["3 cuFile transfers failed".to_owned()]),
            (shown(unknown, None, 3), vec!["3 cuFile transfers failed; the others have no proven route".to_owned()]),
        ] {
            assert_eq!(answer.status, Status::Warn, "{answer:?}");
            assert!(has.iter().all(|part| answer.headline.contains(part)), "{answer:?}");
            assert!(answer.headline.split_whitespace().count() <= 12, "{answer:?}");
        }
        for (route, proof, has) in [
            (Route::Compat, RouteProof::NoDirectRoute, "use host memory (compat), inferred"),
            (Route::Nvfs, RouteProof::NvidiaFsCounter, "seem to take nvfs"),
        ] {
            let shown = answer(&report(file(route, proof, 4, 3)), SessionEnd::Complete);
            assert!(shown.status == Status::Warn && shown.headline.starts_with("3 "), "{shown:?}");
            assert!(shown.headline.contains(has), "{shown:?}");
        }
    }

    #[test]
    fn a_cancelled_batch_is_no_transfer_without_end() {
        let mut cancelled = file(Route::None, RouteProof::NoTransfer, 4, 0);
        (cancelled.reads.cancelled, cancelled.reads.batched, cancelled.reads.bytes) = (4, 4, 0);
        let shown = answer(&report(cancelled), SessionEnd::Complete);
        assert_eq!(shown.headline, "The cuFile transfers moved no bytes.");
        assert!(shown.conditions.starts_with("4 reads and 0 writes (4 cancelled), 0 B in"), "{shown:?}");
    }

    #[test]
    fn totals_of_calls_are_the_number_of_transfers_if_only_details_were_lost() {
        type Change = fn(&mut WatchReport);
        let call = |function: &str, count, errors| CallTotal {
            function: function.to_owned(),
            count,
            errors,
            bytes: count << 12,
            ..CallTotal::default()
        };
        let calls = vec![call("cuFileHandleRegister", 9, 9), call("cuFileRead", 20, 2), call("cuFileWritev", 5, 0)];
        let whole = WatchReport { calls, ..report(file(Route::Compat, RouteProof::NoDirectRoute, 8, 1)) };
        let recorded = Counted { reads: 8, writes: 0, failed: 1, cancelled: 0, bytes: 8 << 12, is_least: false };
        assert_eq!(Counted::of(&whole), recorded);
        let lost = WatchReport { lost_events: 17, ..whole };
        let all = Counted { reads: 20, writes: 5, failed: 2, bytes: 25 << 12, ..recorded };
        assert_eq!(Counted::of(&lost), all);
        assert!(answer(&lost, SessionEnd::Complete).conditions.starts_with("20 reads and 5 writes (2 failed)"));
        assert!(answer(&lost, SessionEnd::Cut).conditions.starts_with("At least 20 reads"));
        let changes: [Change; 4] = [
            |report| report.uncounted = 1,
            |report| report.still_running = 1,
            |report| report.attached = Some(crate::core::AttachedProcess::default()),
            |report| report.calls[0].function = "cuFileReadAsync".to_owned(),
        ];
        for change in changes {
            let mut report = lost.clone();
            change(&mut report);
            assert_eq!(Counted::of(&report), Counted { is_least: true, ..recorded });
        }
    }
}
