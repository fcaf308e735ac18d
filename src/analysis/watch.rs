//! Advice for a watched program, as data. Each piece of advice includes the number of calls that prove it.

use super::watch_gaps::{LONG_CALL_NS, is_complete, not_returned};
use crate::core::{
    Caller, ProgramEnd, Route, RouteProof, UnseenTransfers, WatchReport, WatchedFailure, WatchedFile, units,
};

// docs/watch.md documents these limits.
/// With fewer transfers than this there is no pattern.
const HABIT: u64 = 16;
/// Programs read up to this many bytes without cuFile during their start.
const MUCH_PLAIN: u64 = 16 << 20;
/// From this share on, the page cache serves most reads of a file.
const MUCH_CACHED: f64 = 0.5;
/// From this many bytes on, a single thread limits the rate.
const MUCH_BYTES: u64 = 256 << 20;

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchAdvice {
    /// Calls failed.
    Failed {
        /// The calls.
        failure: WatchedFailure,
        /// Whether the program ended with status 0 nevertheless.
        ignored: bool,
    },
    /// The program registers a buffer for about every transfer.
    RegistersPerCall {
        /// The number of registrations.
        registered: u64,
        /// The number of transfers.
        transfers: u64,
        /// The time to register and deregister, in nanoseconds.
        total_ns: u64,
    },
    /// The recording began after the start of the process, so a part of its calls is not known.
    BeganLate {
        /// The number of transfers whose memory may have been registered before.
        maybe_registered: u64,
        /// The number of all transfers.
        of: u64,
    },
    /// Calls that never returned.
    NotReturned {
        /// The function of the first of these calls.
        function: String,
        /// Its process.
        process: u32,
        /// The number of these calls.
        count: u64,
        /// How the program ended during this call. `None` if the call lasted so long that it hung.
        ended: Option<ProgramEnd>,
        /// Its process is the program, or another one whose end is not `ended`.
        caller: Caller,
    },
    /// Transfers use buffers that are not registered.
    Unregistered {
        /// The number of these transfers.
        count: u64,
        /// The number of all transfers.
        of: u64,
    },
    /// Transfers are not aligned to 4 KiB.
    Unaligned {
        /// The number of these transfers.
        count: u64,
        /// The number of all transfers.
        of: u64,
    },
    /// Most reads are below 1 MiB.
    SmallReads {
        /// The number of these reads.
        count: u64,
        /// The number of all reads.
        of: u64,
    },
    /// One thread makes all single reads.
    OneThread {
        /// The number of reads.
        reads: u64,
        /// The bytes of these reads.
        bytes: u64,
    },
    /// Files were opened without `O_DIRECT`, and their route is not compat.
    NoODirect {
        /// The number of these files.
        files: u64,
        /// The number of all registered files.
        of: u64,
    },
    /// Files of which the page cache has half or more were opened with `O_DIRECT`, and their route is compat. So they were
    /// read from the disk.
    ODirectInCompat(u64),
    /// The data of files goes through host memory.
    Compat {
        /// The number of these files.
        files: u64,
        /// Whether the trace proves it.
        proven: bool,
    },
    /// libcufile counts transfers on compat and on direct routes.
    FallsBack {
        /// The transfers on compat.
        compat: u64,
        /// The transfers on direct routes.
        direct: u64,
    },
    /// The program loaded libcufile and read most bytes without it.
    NotByCuFile {
        /// Whether it called any function of cuFile.
        called: bool,
        /// The bytes of read calls.
        plain_bytes: u64,
        /// The touched bytes of mappings.
        mapped_bytes: u64,
        /// The bytes that cuFile transferred.
        cufile_bytes: u64,
    },
    /// The route of the transfers is unknown, or only inferred although libcufile's statistics were read.
    RouteUnknown {
        /// The transfers that libcufile's statistics count, and those that they count by route. `None` without
        /// statistics.
        counted: Option<(u64, u64)>,
        /// Whether the statistics were requested.
        wanted: bool,
        /// Whether the program used batches.
        batches: bool,
        /// The function with which the program changed the statistics.
        changed: Option<String>,
        /// The number of processes with transfers whose statistics could not be read.
        missing_processes: u64,
        /// The number of these processes in which the statistics of another copy of libcufile were read.
        partial_processes: u64,
    },
    /// The number of transfers that libcufile's statistics count on nvfs although nvidia-fs is not loaded.
    NoModule(u64),
    /// Stream transfers without a recorded result when the program ended.
    Unfinished(u64),
    /// Lost details of calls.
    Lost {
        /// The number of calls without details.
        count: u64,
        /// The number of these calls that are not in the totals either.
        uncounted: u64,
    },
    /// Transfers that only the statistics of libcufile show.
    Unseen(UnseenTransfers),
    /// Programs whose calls were not recorded.
    Unrecorded(Vec<String>),
    /// Programs whose calls an inner session of gds-top recorded.
    OtherSession(Vec<String>),
    /// Processes that were still running when the program ended.
    StillRunning(u64),
    /// Calls of additional copies of libcufile, which were not recorded.
    LibrariesLeftOut(u64),
}

impl WatchAdvice {
    /// Its name in JSON.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "failed-calls",
            Self::RegistersPerCall { .. } => "registration-per-call",
            Self::BeganLate { .. } => "began-late",
            Self::NotReturned { .. } => "calls-not-returned",
            Self::Unregistered { .. } => "unregistered-buffers",
            Self::Unaligned { .. } => "unaligned-transfers",
            Self::SmallReads { .. } => "small-reads",
            Self::OneThread { .. } => "one-thread",
            Self::NoODirect { .. } => "no-o-direct",
            Self::ODirectInCompat(_) => "o-direct-in-compat",
            Self::Compat { .. } => "compat-route",
            Self::FallsBack { .. } => "falls-back",
            Self::NotByCuFile { .. } => "not-by-cufile",
            Self::RouteUnknown { .. } | Self::NoModule(_) => "route-unknown",
            Self::Unfinished(_) => "unfinished-transfers",
            Self::Lost { .. } => "lost-events",
            Self::Unseen(_) => "unseen-transfers",
            Self::Unrecorded(_) => "programs-not-recorded",
            Self::OtherSession(_) => "other-session",
            Self::StillRunning(_) => "still-running",
            Self::LibrariesLeftOut(_) => "libraries-left-out",
        }
    }
}

/// Advice about a program, the most important first.
#[must_use]
pub fn watch_advice(report: &WatchReport) -> Vec<WatchAdvice> {
    let ignored = report.ended == Some(ProgramEnd::Status(0));
    let failed = |failure: &WatchedFailure| WatchAdvice::Failed { failure: failure.clone(), ignored };
    let mut advice = Vec::new();
    // If calls were lost, all numbers below are affected.
    if report.lost_events > 0 {
        advice.push(WatchAdvice::Lost { count: report.lost_events, uncounted: report.uncounted });
    }
    let stuck = not_returned(report);
    let long = stuck.iter().find(|call| call.age_ns >= LONG_CALL_NS);
    if let Some(first) = long.or(stuck.first()) {
        let (function, process, count) = (first.function.clone(), first.process, stuck.len() as u64);
        let ended = report.ended.filter(|_| long.is_none());
        let is_attached = report.attached.as_ref().is_some_and(|attached| attached.pid == process);
        let caller = if is_attached { Caller::Program } else { first.caller };
        advice.push(WatchAdvice::NotReturned { function, process, count, ended, caller });
    }
    advice.extend(report.failures.iter().map(failed));
    let all = || report.files.iter().flat_map(|file| [&file.reads, &file.writes]);
    // Transfers that failed or moved 0 bytes show no habit of the program.
    let transfers: u64 = report.transfers();
    let plain: u64 = units::sum(report.files.iter().map(|file| file.plain.bytes));
    let mapped: u64 = units::sum(report.files.iter().map(|file| file.plain.touched_bytes));
    let cufile_bytes: u64 = units::sum(all().map(|t| t.bytes));
    let without = plain.saturating_add(mapped);
    // A program may read files with cuFile and once more without it, for example to verify them.
    if !report.libraries.is_empty() && without >= MUCH_PLAIN && without / 2 > cufile_bytes {
        let called = !report.calls.is_empty();
        advice.push(WatchAdvice::NotByCuFile { called, plain_bytes: plain, mapped_bytes: mapped, cufile_bytes });
    }
    if report.unfinished > 0 {
        advice.push(WatchAdvice::Unfinished(report.unfinished));
    }
    let used: Vec<_> = report.files.iter().filter(|file| file.moved() > 0).collect();
    let inferred = |file: &&&WatchedFile| file.route == Route::Compat;
    let compat = used.iter().filter(inferred).count() as u64;
    if compat > 0 {
        let proven = used.iter().filter(inferred).all(|file| file.proven);
        advice.push(WatchAdvice::Compat { files: compat, proven });
    }
    if let Some(seen) = report.statistics {
        let (compat, direct) = (seen.posix, seen.nvfs.saturating_add(seen.p2pdma));
        if compat > 0 && direct > 0 {
            advice.push(WatchAdvice::FallsBack { compat, direct });
        }
    }
    let is_unknown = |proof: RouteProof| proof.is_missing() || proof == RouteProof::NvidiaFsCounter;
    if let Some(unseen) = report.unseen {
        advice.push(WatchAdvice::Unseen(unseen));
    } else if used.iter().any(|file| file.proof == RouteProof::NoModule) {
        advice.push(WatchAdvice::NoModule(report.statistics.map_or(0, |seen| seen.nvfs)));
    } else if used.iter().any(|file| is_unknown(file.proof)) || (transfers > 0 && report.statistics_name_no_route()) {
        let counted = report.statistics.map(|seen| (seen.transfers(), seen.by_route()));
        let batches = all().any(|transfers| transfers.batched > 0);
        advice.push(WatchAdvice::RouteUnknown {
            counted,
            wanted: report.wants_statistics,
            batches,
            changed: report.changed_statistics().map(str::to_owned),
            missing_processes: report.statistics.map_or(0, |seen| seen.missing_processes),
            partial_processes: report.statistics.map_or(0, |seen| seen.partial_processes),
        });
    }
    if transfers >= HABIT {
        let registered = report.buffers.registered;
        if registered >= HABIT && registered * 2 >= transfers {
            let total_ns = report.buffers.total_ns;
            advice.push(WatchAdvice::RegistersPerCall { registered, transfers, total_ns });
        }
        // In compat mode, each transfer goes through a buffer of libcufile.
        let others = || report.files.iter().filter(|file| file.route != Route::Compat);
        let others = || others().flat_map(|file| [&file.reads, &file.writes]);
        let (unregistered, unaligned) =
            (units::sum(others().map(|t| t.unregistered)), units::sum(others().map(|t| t.unaligned)));
        if unregistered * 2 >= transfers {
            advice.push(WatchAdvice::Unregistered { count: unregistered, of: transfers });
        }
        if unaligned * 4 >= transfers {
            advice.push(WatchAdvice::Unaligned { count: unaligned, of: transfers });
        }
    }
    let reads = || report.files.iter().map(|file| file.reads);
    let (count, small, bytes) = (
        units::sum(reads().map(|t| t.moved())),
        units::sum(reads().map(|t| t.below_mib)),
        units::sum(reads().map(|t| t.bytes)),
    );
    if count >= HABIT && small * 2 >= count {
        advice.push(WatchAdvice::SmallReads { count: small, of: count });
    }
    let single = reads().all(|t| t.batched + t.streamed == 0);
    if count >= HABIT && bytes >= MUCH_BYTES && single && report.reading_threads == 1 {
        advice.push(WatchAdvice::OneThread { reads: count, bytes });
    }
    // In compat mode, reads without O_DIRECT use the page cache, which is faster than the disk.
    let buffered = used.iter().filter(|file| file.o_direct == Some(false) && file.route != Route::Compat);
    let buffered = buffered.count() as u64;
    if buffered > 0 {
        let of = used.iter().filter(|file| file.registrations > 0).count() as u64;
        advice.push(WatchAdvice::NoODirect { files: buffered, of });
    }
    // Reads from the page cache do not reach the storage.
    let from_storage = report.process_io.map_or(0, |io| io.storage_read_bytes);
    let past_cache = used.iter().filter(|file| {
        file.o_direct == Some(true)
            && file.route == Route::Compat
            && from_storage >= file.reads.bytes / 2
            && file.cached_fraction.is_some_and(|cached| cached >= MUCH_CACHED)
    });
    let past_cache = past_cache.count() as u64;
    if past_cache > 0 {
        advice.push(WatchAdvice::ODirectInCompat(past_cache));
    }
    if report.attached.as_ref().is_some_and(|process| process.recorded) {
        let maybe_registered = units::sum(all().map(|t| t.maybe_registered));
        advice.push(WatchAdvice::BeganLate { maybe_registered, of: transfers });
    }
    if !report.unrecorded.is_empty() {
        advice.push(WatchAdvice::Unrecorded(report.unrecorded.clone()));
    }
    if !report.in_other_session.is_empty() {
        advice.push(WatchAdvice::OtherSession(report.in_other_session.clone()));
    }
    if report.still_running > 0 {
        advice.push(WatchAdvice::StillRunning(report.still_running));
    }
    if report.libraries_left_out > 0 {
        advice.push(WatchAdvice::LibrariesLeftOut(report.libraries_left_out));
    }
    advice
}

/// Whether nothing is known: the process that was attached could not be examined, or no program that was started
/// loaded the recording library.
#[must_use]
pub fn is_not_recorded(report: &WatchReport) -> bool {
    match &report.attached {
        Some(process) => !process.recorded && !process.readable,
        None => report.ended.is_some() && report.programs == 0,
    }
}

/// The calls before a transfer after whose failure a program can read without cuFile. Without a registered buffer, cuFile
/// uses its own.
const SET_UPS: [&str; 3] = ["cuFileHandleRegister", "cuFileBatchIOSetUp", "cuFileBatchIOSubmit"];

/// The number of these calls that failed.
#[must_use]
pub fn failed_set_ups(report: &WatchReport) -> u64 {
    let calls = report.calls.iter().filter(|call| SET_UPS.contains(&call.function.as_str()));
    calls.fold(0, |sum, call| sum.saturating_add(call.errors))
}

/// Whether every transfer of the program is proven to use a direct route. `None` if it made no transfer.
#[must_use]
pub fn is_proven_direct(report: &WatchReport) -> Option<bool> {
    if report.unseen.is_some() {
        return Some(false);
    }
    // Transfers of 0 bytes take no route.
    let takes_route = |file: &&WatchedFile| file.moved() + file.reads.errors + file.writes.errors > 0;
    let mut used = report.files.iter().filter(takes_route).peekable();
    used.peek()?;
    // A failed transfer takes no route, and the program may repeat it without cuFile.
    let failed = |file: &WatchedFile| file.reads.errors + file.writes.errors > 0;
    let is_complete = is_complete(report) && failed_set_ups(report) == 0;
    Some(is_complete && used.all(|file| file.proven && file.route.is_direct() && !failed(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{BufferUse, CallTotal, OpenCall, ProcessIo, RouteStatistics, Transfers, WatchedLibrary};

    fn file(reads: Transfers) -> WatchedFile {
        WatchedFile {
            path: "/m".to_owned(),
            route: Route::P2pdma,
            proven: true,
            proof: RouteProof::Statistics,
            reads,
            writes: Transfers::default(),
            registrations: 1,
            failed_registrations: 0,
            o_direct: Some(true),
            tensors: Vec::new(),
            tensors_of_file: 0,
            tensors_unknown: None,
            kv: None,
            plain: crate::core::PlainReads::default(),
            cached_fraction: None,
        }
    }

    fn ids(report: &WatchReport) -> Vec<&'static str> {
        watch_advice(report).iter().map(WatchAdvice::id).collect()
    }

    #[test]
    fn a_direct_route_is_not_proven_if_a_call_before_a_transfer_failed() {
        let reads = Transfers { count: 4, bytes: 4 << 20, ..Transfers::default() };
        for (function, is_proven) in [
            ("cuFileHandleRegister", false),
            ("cuFileBatchIOSetUp", false),
            ("cuFileBatchIOSubmit", false),
            ("cuFileBufRegister", true),
        ] {
            let failed = CallTotal { function: function.to_owned(), count: 2, errors: 1, ..CallTotal::default() };
            let report = WatchReport { files: vec![file(reads)], calls: vec![failed], ..WatchReport::default() };
            assert_eq!(is_proven_direct(&report), Some(is_proven), "{function}");
        }
    }

    #[test]
    fn a_good_program_gets_no_advice_and_each_habit_its_own() {
        let good = Transfers { count: 100, bytes: 100 << 24, ..Transfers::default() };
        let report = WatchReport { files: vec![file(good)], reading_threads: 4, ..WatchReport::default() };
        assert_eq!(ids(&report), Vec::<&str>::new());
        assert_eq!(is_proven_direct(&report), Some(true));
        for (reads, wanted) in [
            (Transfers { unregistered: 50, ..good }, "unregistered-buffers"),
            (Transfers { unaligned: 25, ..good }, "unaligned-transfers"),
            (Transfers { below_mib: 50, ..good }, "small-reads"),
        ] {
            assert_eq!(ids(&WatchReport { files: vec![file(reads)], ..report.clone() }), [wanted]);
        }
        assert_eq!(ids(&WatchReport { reading_threads: 1, ..report.clone() }), ["one-thread"]);
        let buffers = BufferUse { registered: 100, ..BufferUse::default() };
        assert_eq!(ids(&WatchReport { buffers, ..report.clone() }), ["registration-per-call"]);
        let mut fallen_back = WatchReport { libraries: vec![WatchedLibrary::default()], ..report.clone() };
        fallen_back.files[0].plain.bytes = fallen_back.files[0].reads.bytes * 2;
        assert_eq!(ids(&fallen_back), Vec::<&str>::new());
        fallen_back.files[0].plain.touched_bytes = 2;
        assert_eq!(ids(&fallen_back), ["not-by-cufile"]);
        let split = watch_advice(&fallen_back);
        let [WatchAdvice::NotByCuFile { plain_bytes, mapped_bytes, .. }] = split.as_slice() else {
            unreachable!("one piece of advice")
        };
        assert_eq!((*plain_bytes, *mapped_bytes), (fallen_back.files[0].plain.bytes, 2));
        assert_eq!(ids(&WatchReport { lost_events: 1, ..report.clone() }), ["lost-events"]);
        // It affects all other numbers.
        fallen_back.lost_events = 1;
        assert_eq!(ids(&fallen_back), ["lost-events", "not-by-cufile"]);
        let open = |age_ns| OpenCall { function: "cuFileRead".to_owned(), age_ns, ..OpenCall::default() };
        for (ended, age_ns, is_stuck) in
            [(None, 1_000_000, false), (None, LONG_CALL_NS, true), (Some(ProgramEnd::Signal(9)), 1_000_000, true)]
        {
            let stuck = WatchReport { ended, open_calls: vec![open(age_ns)], ..report.clone() };
            assert_eq!(ids(&stuck).contains(&"calls-not-returned"), is_stuck, "{ended:?} {age_ns}");
            assert_eq!(is_proven_direct(&stuck), Some(!is_stuck));
        }
        // A signal in the middle of a short call says nothing about the storage.
        for (ages, ended) in [(vec![10_000], Some(ProgramEnd::Signal(15))), (vec![10_000, LONG_CALL_NS], None)] {
            let open_calls = ages.into_iter().map(open).collect();
            let killed = WatchReport { ended: Some(ProgramEnd::Signal(15)), open_calls, ..report.clone() };
            let [WatchAdvice::NotReturned { ended: seen, .. }] = watch_advice(&killed)[..] else {
                unreachable!("one piece of advice")
            };
            assert_eq!(seen, ended);
        }
        for (incomplete, id) in [
            (WatchReport { unrecorded: vec!["/bin/x".to_owned()], ..report.clone() }, "programs-not-recorded"),
            (WatchReport { in_other_session: vec!["x".to_owned()], ..report.clone() }, "other-session"),
            (WatchReport { still_running: 2, ..report }, "still-running"),
        ] {
            assert_eq!((ids(&incomplete), is_proven_direct(&incomplete)), (vec![id], Some(false)));
        }
    }

    #[test]
    fn advice_about_buffers_and_o_direct_fits_the_route_and_the_page_cache() {
        let reads = Transfers { count: 20, bytes: 20 << 24, unregistered: 20, unaligned: 20, ..Transfers::default() };
        let of = |route, o_direct, cached_fraction, from_storage| {
            let file = WatchedFile { route, o_direct: Some(o_direct), cached_fraction, ..file(reads) };
            let process_io = Some(ProcessIo { storage_read_bytes: from_storage, ..ProcessIo::default() });
            ids(&WatchReport { files: vec![file], reading_threads: 4, process_io, ..WatchReport::default() })
        };
        assert_eq!(of(Route::Nvfs, false, None, 0), ["unregistered-buffers", "unaligned-transfers", "no-o-direct"]);
        assert_eq!(of(Route::None, false, None, 0), ["unregistered-buffers", "unaligned-transfers", "no-o-direct"]);
        assert_eq!(of(Route::Compat, false, Some(0.9), 0), ["compat-route"]);
        assert_eq!(of(Route::Compat, true, Some(0.9), 20 << 24), ["compat-route", "o-direct-in-compat"]);
        // The bytes came from the page cache.
        assert_eq!(of(Route::Compat, true, Some(0.9), 0), ["compat-route"]);
        assert_eq!(of(Route::Compat, true, Some(0.4), 20 << 24), ["compat-route"]);
        assert_eq!(of(Route::Compat, true, None, 20 << 24), ["compat-route"]);
        assert_eq!(of(Route::Nvfs, true, Some(0.9), 20 << 24), ["unregistered-buffers", "unaligned-transfers"]);
    }

    #[test]
    fn transfers_that_moved_no_bytes_feed_no_advice_about_habits() {
        let reads = Transfers { count: 1000, errors: 500, empty: 500, ..Transfers::default() };
        let buffers = BufferUse { registered: 1000, ..BufferUse::default() };
        let mut report =
            WatchReport { files: vec![file(reads)], buffers, reading_threads: 1, ..WatchReport::default() };
        (report.files[0].proven, report.files[0].o_direct) = (false, Some(false));
        assert_eq!(ids(&report), Vec::<&str>::new());
        assert_eq!(is_proven_direct(&report), Some(false));
        // The share of a habit is that of the transfers that moved bytes.
        report.files[0].reads = Transfers { count: 1020, below_mib: 20, bytes: 20 * 4096, ..reads };
        (report.buffers, report.files[0].o_direct) = (BufferUse::default(), Some(true));
        assert_eq!(watch_advice(&report), [WatchAdvice::SmallReads { count: 20, of: 20 }]);
    }

    #[test]
    fn statistics_without_a_route_are_advised_even_if_the_route_is_inferred() {
        let reads = Transfers { count: 20, bytes: 20 << 24, ..Transfers::default() };
        let statistics = Some(RouteStatistics { processes: 1, reads: 20, ..RouteStatistics::default() });
        let mut report = WatchReport { files: vec![file(reads)], statistics, ..WatchReport::default() };
        report.files[0].proof = RouteProof::NoDirectRoute;
        let unknown = |changed: Option<&str>, missing_processes| WatchAdvice::RouteUnknown {
            counted: Some((20, 0)),
            wanted: false,
            batches: false,
            changed: changed.map(str::to_owned),
            missing_processes,
            partial_processes: 0,
        };
        assert_eq!(watch_advice(&report), [unknown(None, 0)]);
        let reset = CallTotal { function: "cuFileStatsReset".to_owned(), count: 1, ..CallTotal::default() };
        let failed = CallTotal { errors: 1, ..reset.clone() };
        report.calls = vec![failed];
        assert_eq!(watch_advice(&report), [unknown(None, 0)]);
        report.calls = vec![reset];
        report.statistics = report.statistics.map(|seen| RouteStatistics { missing_processes: 1, ..seen });
        assert_eq!(watch_advice(&report), [unknown(Some("cuFileStatsReset"), 1)]);
        report.statistics = Some(RouteStatistics { posix: 20, ..report.statistics.unwrap_or_default() });
        assert_eq!(watch_advice(&report), []);
    }

    #[test]
    fn statistics_of_nvfs_without_its_module_have_their_own_advice() {
        let reads = Transfers { count: 3, bytes: 3 << 20, ..Transfers::default() };
        let statistics = Some(RouteStatistics { processes: 1, reads: 3, nvfs: 3, ..RouteStatistics::default() });
        let mut report = WatchReport { files: vec![file(reads)], statistics, ..WatchReport::default() };
        let file = &mut report.files[0];
        (file.route, file.proven, file.proof) = (Route::None, false, RouteProof::NoModule);
        assert_eq!(watch_advice(&report), [WatchAdvice::NoModule(3)]);
        assert_eq!(is_proven_direct(&report), Some(false));
    }

    #[test]
    fn a_direct_route_must_be_proven_for_all_transfers() {
        let reads = Transfers { count: 1, bytes: 1, ..Transfers::default() };
        let mut report = WatchReport { files: vec![file(reads), file(reads)], ..WatchReport::default() };
        report.files[1].proven = false;
        assert_eq!(is_proven_direct(&report), Some(false));
        report.files[1] = file(reads);
        report.files[1].route = Route::Compat;
        assert_eq!(is_proven_direct(&report), Some(false));
        report.files[1] = file(Transfers::default());
        report.files[1].route = Route::None;
        assert_eq!(is_proven_direct(&report), Some(true));
        assert_eq!(is_proven_direct(&WatchReport::default()), None);
    }

    #[test]
    fn calls_in_progress_leave_the_answer_about_a_running_program_as_it_is() {
        let reads = Transfers { count: 2, bytes: 8192, ..Transfers::default() };
        let open_calls = vec![OpenCall { age_ns: 1000, ..OpenCall::default() }];
        let running = WatchReport { files: vec![file(reads)], open_calls, ..WatchReport::default() };
        assert_eq!(is_proven_direct(&running), Some(true));
        let ended = WatchReport { ended: Some(crate::core::ProgramEnd::Status(0)), ..running };
        assert_eq!(is_proven_direct(&ended), Some(false));
    }
}
