//! Determines the route of the transfers and its evidence. Only counters prove a route.

use super::readings::{Reading, Sum};
use crate::core::{
    self, Access, Counted, Made, NVFS_STATS, Route, RouteProof, RouteStatistics, Transfers, UnseenTransfers,
    WatchReport, WatchedFile,
};
use cufile_audit::layout::{FUNCTIONS, Function};
use std::path::Path;

/// The route counters of the machine while a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineRoutes {
    /// Number of reads that nvidia-fs counted during that time; `None` if it does not count.
    pub(super) nvfs_reads: Option<u64>,
    /// Whether nvidia-fs is loaded.
    pub(super) has_nvidia_fs: bool,
    /// The reason why P2PDMA or C2C may be configured. `None` if they are not.
    pub(super) p2pdma: Option<RouteProof>,
    /// Whether the cufile.log of the process reports compat mode.
    pub(super) log_reports_compat: bool,
}

/// Number of reads that nvidia-fs has counted for all processes. `None` if the module is not loaded or does not
/// count.
pub(super) fn nvfs_reads() -> Option<u64> {
    core::nvfs_reads(&std::fs::read_to_string(NVFS_STATS).ok()?)
}

impl MachineRoutes {
    /// Reads the counters while the program runs or after it has ended. `before` is the number of reads when it
    /// started, and `p2pdma` the reason why its processes may use P2PDMA.
    pub(super) fn look(before: Option<u64>, p2pdma: Option<RouteProof>) -> Self {
        Self {
            nvfs_reads: nvfs_reads().zip(before).map(|(now, before)| now.saturating_sub(before)),
            has_nvidia_fs: Path::new(NVFS_STATS).exists(),
            // Grace systems have C2C without nvidia-fs.
            p2pdma: p2pdma.or(cfg!(target_arch = "aarch64").then_some(RouteProof::Nothing)),
            log_reports_compat: false,
        }
    }

    /// The route of a process without statistics, and its evidence. `reads` is whether it may read: nvidia-fs counts
    /// reads.
    pub(super) const fn route(&self, reads: bool) -> (Route, RouteProof) {
        match *self {
            // Without nvidia-fs, libcufile reports compat mode before it looks for P2PDMA.
            Self { log_reports_compat: true, p2pdma: None, .. } => (Route::Compat, RouteProof::ProcessLog),
            Self { nvfs_reads: Some(1..), .. } if reads => (Route::Nvfs, RouteProof::NvidiaFsCounter),
            Self { has_nvidia_fs: false, p2pdma: None, .. } => (Route::Compat, RouteProof::NoDirectRoute),
            // Only this reason prevents that compat is inferred.
            Self { has_nvidia_fs: false, p2pdma: Some(reason), .. }
            | Self { log_reports_compat: true, p2pdma: Some(reason), .. } => (Route::None, reason),
            _ => (Route::None, RouteProof::Nothing),
        }
    }
}

/// The transfers with which the statistics are compared.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// All transfers, because the program has ended.
    End,
    /// The route that the readings so far prove.
    Running(Option<Route>),
}

/// Sets the route of every file of a program that still runs. Calls and counters are read at other times, so they are not
/// compared here: `held` is the result of [`hold`].
pub(super) fn decide_running(
    report: &mut WatchReport,
    requested_bytes: u64,
    machine: MachineRoutes,
    held: Option<Route>,
) {
    decide_at(report, requested_bytes, machine, Moment::Running(held));
}

/// Sets the route of every file. `requested_bytes` are those of all transfers: libcufile may count a read past the end
/// of a file with the bytes that were requested.
pub(super) fn decide(report: &mut WatchReport, requested_bytes: u64, machine: MachineRoutes) {
    decide_at(report, requested_bytes, machine, Moment::End);
}

/// The route that the readings prove for the transfers until the last one. Transfers that were running at a reading can be
/// in its counters or not. If it is neither proven nor refuted, the earlier result holds.
pub(super) fn hold(held: Option<Route>, reading: &Reading, machine: MachineRoutes) -> Option<Route> {
    let Reading { statistics: seen, bounds, lacks_process } = reading;
    let made = [0, 1].map(|direction: usize| {
        let (least, most) = (bounds.least[direction], bounds.most[direction]);
        Made {
            transfers: least.transfers..=most.transfers.max(least.transfers),
            bytes: least.bytes..=most.bytes.max(least.bytes),
            repeated: 0,
        }
    });
    let proven = proven_by(seen, &made, machine).filter(|_| seen.missing_processes == 0);
    let is_short = |((by_route, bytes), certain): (([u64; 3], u64), Sum)| {
        by_route.iter().fold(0, |sum: u64, more| sum.saturating_add(*more)) < certain.transfers || bytes < certain.bytes
    };
    let is_refuted = *lacks_process || by_direction(seen).into_iter().zip(bounds.certain).any(is_short);
    proven.or(held.filter(|_| !is_refuted))
}

fn decide_at(report: &mut WatchReport, requested_bytes: u64, machine: MachineRoutes, moment: Moment) {
    let has_called = |functions: &[Function]| {
        report.calls.iter().any(|call| {
            call.count > call.errors && functions.iter().any(|of| FUNCTIONS[*of as usize].name == call.function)
        })
    };
    // A call whose record was lost may have enabled P2PDMA.
    let is_lost = report.uncounted > 0
        || (report.lost_events > 0 && has_called(&[Function::SetParameterBool, Function::DriverSetP2pFlags]));
    let machine = MachineRoutes { p2pdma: machine.p2pdma.or(is_lost.then_some(RouteProof::Nothing)), ..machine };
    let is_complete = report.lost_events == 0 && report.uncounted == 0 && report.changed_statistics().is_none();
    let all = |of: fn(&WatchedFile) -> &Transfers| {
        let sum =
            |value: fn(&Transfers) -> u64| report.files.iter().map(|file| value(of(file))).fold(0, u64::saturating_add);
        (sum(Transfers::moved), sum(|transfers| transfers.bytes))
    };
    let (reads, writes) = (all(|file| &file.reads), all(|file| &file.writes));
    // The bytes that were requested and not moved.
    let beyond = requested_bytes.saturating_sub(reads.1).saturating_sub(writes.1);
    let made = |(transfers, bytes): (u64, u64)| Made {
        transfers: transfers..=transfers,
        bytes: bytes..=bytes.saturating_add(beyond),
        repeated: 0,
    };
    let shown = report.statistics.and_then(|seen| {
        let proven = match moment {
            Moment::Running(held) => held,
            Moment::End => {
                let proven = proven_by(&seen, &[made(reads), made(writes)], machine);
                proven.filter(|_| seen.missing_processes == 0)
            }
        };
        shown_by(&seen, proven.filter(|_| is_complete), machine.has_nvidia_fs)
    });
    report.unseen = unseen(report, requested_bytes);
    let has_lost = report.lost_events > 0;
    for file in &mut report.files {
        (file.route, file.proof) = route_of(file, shown, machine, has_lost);
        file.proven = matches!(file.proof, RouteProof::Statistics);
    }
}

/// The transfers that libcufile counted and that were not recorded. While the program runs, or if calls were lost, the
/// counters can be ahead of the records. `requested_bytes` are those of all recorded transfers.
fn unseen(report: &WatchReport, requested_bytes: u64) -> Option<UnseenTransfers> {
    let is_over = report.ended.is_some() && report.lost_events == 0 && !report.paused && report.open_calls.is_empty();
    let seen = report.statistics.filter(|_| is_over)?;
    let counted = [seen.all_read_bytes, seen.all_written_bytes, seen.batch_read_bytes];
    let bytes = counted.into_iter().fold(0, u64::saturating_add).saturating_sub(requested_bytes);
    // libcufile counts no transfers on streams.
    let recorded = |of: &Transfers| of.count.saturating_sub(of.errors).saturating_sub(of.streamed);
    let recorded = report.files.iter().map(|file| recorded(&file.reads).saturating_add(recorded(&file.writes)));
    let more = seen.transfers().saturating_sub(recorded.fold(0, u64::saturating_add));
    let transfers = if report.has_libcufile_1_15() { 0 } else { more };
    (bytes > 0).then_some(UnseenTransfers { transfers, bytes })
}

/// The route of the statistics of libcufile, or the reason why they prove none. `None` if they count no direct route and
/// prove nothing. `proven` is the route of all transfers.
const fn shown_by(seen: &RouteStatistics, proven: Option<Route>, has_nvidia_fs: bool) -> Option<(Route, RouteProof)> {
    let routes = (seen.nvfs > 0) as u8 + (seen.p2pdma > 0) as u8 + (seen.posix > 0) as u8;
    match proven {
        _ if routes > 1 => Some((Route::None, RouteProof::MixedStatistics)),
        Some(route) => Some((route, RouteProof::Statistics)),
        None if seen.nvfs > 0 && !has_nvidia_fs => Some((Route::None, RouteProof::NoModule)),
        None if seen.nvfs > 0 || seen.p2pdma > 0 => Some((Route::None, RouteProof::Nothing)),
        None => None,
    }
}

/// The counters by route and the bytes of reads and of writes. The library may leave writes to and from host memory out
/// of its counters by route, so reads and writes are compared separately.
fn by_direction(seen: &RouteStatistics) -> [([u64; 3], u64); 2] {
    // One route has all transfers.
    let by_route = [seen.nvfs, seen.p2pdma, seen.posix];
    let writes = seen.writes_by_route;
    [
        (by_route.map(|count| count.saturating_sub(writes)), seen.read_bytes),
        (by_route.map(|count| count.min(writes)), seen.written_bytes),
    ]
}

/// The route that the statistics prove for these reads and writes.
fn proven_by(seen: &RouteStatistics, made: &[Made; 2], machine: MachineRoutes) -> Option<Route> {
    let mut routes = by_direction(seen).into_iter().zip(made).filter(|((by_route, bytes), made)| {
        *made.transfers.end() > 0 || *bytes > 0 || by_route.iter().any(|count| *count > 0)
    });
    let proven = |((by_route, bytes), made): (([u64; 3], u64), &Made)| {
        // Some versions do not count the bytes of batch entries. Then the route of a program with batches is not proven.
        let counted = Counted {
            access: Access::Read,
            by_route,
            bytes,
            all: 0,
            all_bytes: 0,
            nvidia_fs_loaded: machine.has_nvidia_fs,
            nvidia_fs_reads: machine.nvfs_reads.filter(|_| seen.batch_entries == 0 && seen.writes == 0),
            gpus: None,
        };
        counted.route(made, "").filter(|found| found.proven).map(|found| found.route)
    };
    let first = routes.next().and_then(proven);
    let others_agree = routes.all(|other| proven(other) == first);
    first.filter(|_| others_agree)
}

fn route_of(
    file: &WatchedFile,
    shown: Option<(Route, RouteProof)>,
    machine: MachineRoutes,
    has_lost: bool,
) -> (Route, RouteProof) {
    let (count, failed) = (file.reads.count + file.writes.count, file.reads.errors + file.writes.errors);
    if count == 0 {
        // Its transfers may be among the lost calls.
        let may_have_some = has_lost && file.registrations > 0;
        return (Route::None, if may_have_some { RouteProof::Nothing } else { RouteProof::NoTransfer });
    }
    if failed >= count {
        return (Route::None, RouteProof::AllFailed);
    }
    if file.moved() == 0 {
        return (Route::None, RouteProof::NoTransfer);
    }
    match shown {
        Some(shown) => shown,
        None => machine.route(file.reads.bytes > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::File;
    use super::super::named_file::NamedFile;
    use super::super::readings::Bounds;
    use super::*;
    use crate::core::CallTotal;

    fn report(statistics: Option<RouteStatistics>) -> WatchReport {
        let mut file = File::new(NamedFile::without_path("/f"), None, &mut 0).seen();
        file.reads = Transfers { count: 4, bytes: 4096, ..Transfers::default() };
        WatchReport { files: vec![file], statistics, ..WatchReport::default() }
    }

    #[test]
    fn only_statistics_of_all_transfers_prove_a_route() {
        let seen = RouteStatistics { processes: 1, read_bytes: 4096, ..RouteStatistics::default() };
        let bare = MachineRoutes::default();
        let nvfs = MachineRoutes { has_nvidia_fs: true, nvfs_reads: Some(9), ..bare };
        let unknown = MachineRoutes { has_nvidia_fs: true, ..bare };
        let by_settings = Some(RouteProof::SettingsMayEnableP2pdma);
        for (statistics, machine, route, proof) in [
            (Some(RouteStatistics { p2pdma: 4, ..seen }), unknown, Route::P2pdma, RouteProof::Statistics),
            (Some(RouteStatistics { posix: 5, ..seen }), nvfs, Route::Compat, RouteProof::Statistics),
            (Some(RouteStatistics { nvfs: 8, ..seen }), nvfs, Route::Nvfs, RouteProof::Statistics),
            // A read past the end of the file may be counted with the bytes that were requested.
            (Some(RouteStatistics { nvfs: 4, read_bytes: 5000, ..seen }), nvfs, Route::Nvfs, RouteProof::Statistics),
            (Some(RouteStatistics { nvfs: 4, ..seen }), unknown, Route::Nvfs, RouteProof::Statistics),
            (Some(RouteStatistics { nvfs: 3, ..seen }), unknown, Route::None, RouteProof::Nothing),
            // Inconsistent counters: nvidia-fs without the module or its own count, a tie, a majority only by number,
            // bytes that were not counted, and each transfer counted twice with its bytes.
            (
                Some(RouteStatistics { nvfs: 4, ..seen }),
                MachineRoutes { nvfs_reads: Some(0), ..nvfs },
                Route::None,
                RouteProof::Nothing,
            ),
            (Some(RouteStatistics { nvfs: 4, read_bytes: 8192, ..seen }), unknown, Route::None, RouteProof::Nothing),
            (
                Some(RouteStatistics { p2pdma: 8, read_bytes: 4096, written_bytes: 4096, ..seen }),
                unknown,
                Route::None,
                RouteProof::Nothing,
            ),
            (Some(RouteStatistics { nvfs: 9, ..seen }), bare, Route::None, RouteProof::NoModule),
            (Some(RouteStatistics { nvfs: 4, ..seen }), bare, Route::None, RouteProof::NoModule),
            // Writes that no counter by route has, and reads with the counters of writes.
            (
                Some(RouteStatistics { p2pdma: 4, written_bytes: 512, ..seen }),
                unknown,
                Route::None,
                RouteProof::Nothing,
            ),
            (
                Some(RouteStatistics { p2pdma: 4, writes_by_route: 4, ..seen }),
                unknown,
                Route::None,
                RouteProof::Nothing,
            ),
            (Some(RouteStatistics { nvfs: 2, posix: 2, ..seen }), unknown, Route::None, RouteProof::MixedStatistics),
            (
                Some(RouteStatistics { p2pdma: 310, posix: 1, ..seen }),
                unknown,
                Route::None,
                RouteProof::MixedStatistics,
            ),
            (Some(RouteStatistics { p2pdma: 9, read_bytes: 4095, ..seen }), unknown, Route::None, RouteProof::Nothing),
            (
                Some(RouteStatistics { nvfs: 9, missing_processes: 1, ..seen }),
                unknown,
                Route::None,
                RouteProof::Nothing,
            ),
            (Some(RouteStatistics { nvfs: 3, posix: 1, ..seen }), bare, Route::None, RouteProof::MixedStatistics),
            (Some(seen), bare, Route::Compat, RouteProof::NoDirectRoute),
            (None, nvfs, Route::Nvfs, RouteProof::NvidiaFsCounter),
            // nvidia-fs counts the reads of all processes.
            (None, MachineRoutes { log_reports_compat: true, ..nvfs }, Route::Compat, RouteProof::ProcessLog),
            (
                None,
                MachineRoutes { log_reports_compat: true, p2pdma: by_settings, ..unknown },
                Route::None,
                RouteProof::SettingsMayEnableP2pdma,
            ),
            (None, unknown, Route::None, RouteProof::Nothing),
            (None, MachineRoutes { p2pdma: by_settings, ..unknown }, Route::None, RouteProof::Nothing),
            (None, MachineRoutes { p2pdma: by_settings, ..bare }, Route::None, RouteProof::SettingsMayEnableP2pdma),
        ] {
            let mut report = report(statistics);
            decide(&mut report, 5000, machine);
            let file = &report.files[0];
            assert_eq!((file.route, file.proof), (route, proof), "{statistics:?} {machine:?}");
            assert_eq!(file.proven, proof == RouteProof::Statistics);
        }
        let mut failed = report(Some(RouteStatistics { nvfs: 4, ..seen }));
        failed.files[0].reads.errors = 4;
        decide(&mut failed, 0, bare);
        assert_eq!(failed.files[0].proof, RouteProof::AllFailed);
        let call = |function: &str| CallTotal { function: function.to_owned(), count: 1, ..CallTotal::default() };
        let mut written = report(Some(RouteStatistics { p2pdma: 4, ..seen }));
        written.files[0].writes = Transfers { count: 1, bytes: 512, ..Transfers::default() };
        decide(&mut written, 4608, unknown);
        assert_eq!(written.files[0].proof, RouteProof::Nothing, "the writes have no route");
        let both = RouteStatistics { p2pdma: 5, writes_by_route: 1, written_bytes: 512, ..seen };
        written.statistics = Some(both);
        decide(&mut written, 4608, unknown);
        assert_eq!((written.files[0].route, written.files[0].proven), (Route::P2pdma, true));
        written.calls = vec![call("cuFileStatsReset")];
        decide(&mut written, 4608, unknown);
        assert_eq!(written.files[0].proof, RouteProof::Nothing, "the program changed the statistics");
        let mut set = report(None);
        set.calls = vec![call("cuFileSetParameterBool")];
        decide(&mut set, 4096, bare);
        assert_eq!((set.files[0].route, set.files[0].proof), (Route::Compat, RouteProof::NoDirectRoute));
        set.lost_events = 1;
        decide(&mut set, 4096, bare);
        assert_eq!((set.files[0].route, set.files[0].proof), (Route::None, RouteProof::Nothing));
        let mut empty = report(Some(RouteStatistics { nvfs: 4, ..seen }));
        empty.files[0].reads.empty = 4;
        decide(&mut empty, 0, bare);
        assert_eq!(empty.files[0].proof, RouteProof::NoTransfer);
    }

    #[test]
    fn while_a_program_runs_the_proof_holds_until_a_reading_refutes_it() {
        let sum = |transfers: u64| [Sum { transfers, bytes: transfers * 4096 }, Sum::default()];
        let reading = |p2pdma: u64, least, most, certain| Reading {
            statistics: RouteStatistics { processes: 1, p2pdma, read_bytes: p2pdma * 4096, ..Default::default() },
            bounds: Bounds { least: sum(least), most: sum(most), certain: sum(certain) },
            lacks_process: false,
        };
        let machine = MachineRoutes { has_nvidia_fs: true, ..MachineRoutes::default() };
        let proven = Some(Route::P2pdma);
        for (held, reading, expected) in [
            (None, reading(4, 4, 4, 0), proven),
            // A transfer was running, and the counters can contain it.
            (None, reading(4, 3, 5, 3), proven),
            // The counters are ahead of the calls, or a little behind.
            (None, reading(7, 4, 4, 0), None),
            (proven, reading(7, 4, 4, 0), proven),
            (proven, reading(3, 4, 4, 3), proven),
            // They still lack a transfer that had ended before the earlier reading.
            (proven, reading(3, 5, 5, 4), None),
        ] {
            assert_eq!(hold(held, &reading, machine), expected, "{held:?} {reading:?}");
        }
        let mut lacking = reading(4, 4, 4, 0);
        lacking.statistics.missing_processes = 1;
        assert_eq!((hold(None, &lacking, machine), hold(proven, &lacking, machine)), (None, proven));
        lacking.lacks_process = true;
        assert_eq!(hold(proven, &lacking, machine), None);
    }

    #[test]
    fn the_answer_about_a_running_program_does_not_depend_on_the_time_of_the_counters() {
        let seen = RouteStatistics { processes: 1, p2pdma: 3, read_bytes: 3072, ..RouteStatistics::default() };
        let machine = MachineRoutes { has_nvidia_fs: true, ..MachineRoutes::default() };
        let shown = |lost_events, held| {
            let mut running = WatchReport { lost_events, ..report(Some(seen)) };
            decide_running(&mut running, 4096, machine, held);
            (running.files[0].route, running.files[0].proof)
        };
        let held = Some(Route::P2pdma);
        assert_eq!(shown(0, held), (Route::P2pdma, RouteProof::Statistics));
        assert_eq!(shown(0, None), (Route::None, RouteProof::Nothing));
        assert_eq!(shown(1, held), (Route::None, RouteProof::Nothing));
        let mut ended = report(Some(seen));
        decide(&mut ended, 4096, machine);
        assert_eq!(ended.files[0].proof, RouteProof::Nothing, "at the end, the counters must have all transfers");
    }

    #[test]
    fn a_registered_file_without_recorded_transfers_may_have_lost_ones() {
        let mut file = report(None).files.remove(0);
        (file.reads, file.registrations) = (Transfers::default(), 1);
        let proof = |has_lost| route_of(&file, None, MachineRoutes::default(), has_lost).1;
        assert_eq!((proof(false), proof(true)), (RouteProof::NoTransfer, RouteProof::Nothing));
    }
}
