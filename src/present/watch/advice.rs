//! The advice for a watched program, each with the calls that prove it.

use super::answer::unseen;
use crate::analysis::{WatchAdvice, watch_advice};
use crate::core::units::{bytes, count, duration, plural, plural_es, plural_ies, verb};
use crate::core::{
    Caller, MORE_FILES, ProgramEnd, UNKNOWN_FILE, WITHOUT_SPACE, WatchReport, WatchedFailure, WatchedFile,
};

/// The advice, each with the calls that are the evidence for it.
#[must_use]
pub fn advice(report: &WatchReport) -> Vec<(WatchAdvice, String, String)> {
    watch_advice(report)
        .into_iter()
        .map(|advice| {
            let (text, mut proof) = sentence(&advice);
            // This advice counts rows of files.
            if matches!(advice, WatchAdvice::Compat { .. }) && has_shared_row(report) {
                proof = format!("at least {proof}");
            }
            if report.lost_events > 0 && counts_details(&advice) {
                proof = format!("among the recorded calls: {proof}");
            }
            (advice, text, proof)
        })
        .collect()
}

/// Whether several files can share a row with transfers.
fn has_shared_row(report: &WatchReport) -> bool {
    let is_shared = |file: &WatchedFile| [UNKNOWN_FILE, MORE_FILES].contains(&file.path.as_str());
    report.files.iter().any(|file| is_shared(file) && file.moved() > 0)
}

/// Whether the numbers of a piece of advice are counted from the details of calls, so that lost ones are missing.
const fn counts_details(advice: &WatchAdvice) -> bool {
    matches!(
        advice,
        WatchAdvice::Failed { .. }
            | WatchAdvice::RegistersPerCall { .. }
            | WatchAdvice::Unregistered { .. }
            | WatchAdvice::Unaligned { .. }
            | WatchAdvice::SmallReads { .. }
            | WatchAdvice::OneThread { .. }
            | WatchAdvice::NoODirect { .. }
            | WatchAdvice::ODirectInCompat(_)
            | WatchAdvice::Compat { .. }
            | WatchAdvice::NotByCuFile { .. }
            | WatchAdvice::Unfinished(_)
    )
}

fn sentence(advice: &WatchAdvice) -> (String, String) {
    let of = |part: u64, of: u64| format!("{} of {}", plural(part, "transfer"), count(of));
    match advice {
        WatchAdvice::Failed { failure, ignored } => failed(failure, *ignored),
        WatchAdvice::RegistersPerCall { registered, transfers, total_ns } => (
            "Register one large buffer once and use parts of it.".to_owned(),
            format!(
                "{} of buffers for {}, {} to register",
                plural(*registered, "registration"),
                plural(*transfers, "transfer"),
                duration(*total_ns)
            ),
        ),
        WatchAdvice::BeganLate { maybe_registered, of: all } => (
            "Start the program with 'gds-top watch -- COMMAND' to record it completely.".to_owned(),
            format!(
                "not recorded: calls before the attach, reads without cuFile, GPU copies and results of streams; {} may use memory registered before",
                of(*maybe_registered, *all)
            ),
        ),
        WatchAdvice::NotReturned { function, process, count, ended, caller } => (
            match ended {
                Some(_) if *caller == Caller::Running => format!(
                    "Let all processes end before the program: process {process} was still running inside {function}."
                ),
                Some(_) if *caller == Caller::Unknown => format!(
                    "Let calls return before their process ends: the end of process {process} inside {function} is not known."
                ),
                None => format!(
                    "Check the storage and the threads of the program: {} did not return while it was watched.",
                    verb(*count, "this call", "these calls")
                ),
                Some(ended) => format!(
                    "Let calls return before the program ends: {} inside {function}.",
                    match ended {
                        ProgramEnd::Signal(signal) => format!("signal {signal} ended it"),
                        ProgramEnd::Status(status) => format!("it ended with status {status}"),
                        ProgramEnd::Unknown => "it ended".to_owned(),
                    }
                ),
            },
            format!("{} not finished, first {function} in process {process}", plural(*count, "call")),
        ),
        WatchAdvice::Unregistered { count, of: all } => (
            "Register the buffers: unregistered memory goes through a bounce buffer.".to_owned(),
            format!("{} {} unregistered memory", of(*count, *all), verb(*count, "uses", "use")),
        ),
        WatchAdvice::Unaligned { count, of: all } => (
            "Align offsets, sizes and addresses to 4 KiB: other transfers need a bounce buffer or a second read."
                .to_owned(),
            format!("{} {} not aligned", of(*count, *all), verb(*count, "is", "are")),
        ),
        WatchAdvice::SmallReads { count: small, of } => (
            "Read at least 1 MiB at a time: small reads are dominated by the time of the call.".to_owned(),
            format!("{} of {} {} below 1 MiB", plural(*small, "read"), count(*of), verb(*small, "is", "are")),
        ),
        WatchAdvice::OneThread { reads, bytes: read } => (
            "Read with several threads, or in batches: one synchronous reader rarely fills the device.".to_owned(),
            format!("one thread made all {}, {}", plural(*reads, "read"), bytes(*read)),
        ),
        WatchAdvice::NoODirect { files, of } => (
            "Open the files with O_DIRECT: without it, libcufile may read through the page cache.".to_owned(),
            format!("{} of {} registered without O_DIRECT", plural(*files, "file"), count(*of)),
        ),
        WatchAdvice::ODirectInCompat(files) => (
            "Open the files without O_DIRECT as long as the route is compat: the page cache is faster than the disk."
                .to_owned(),
            format!(
                "{} with O_DIRECT on the route compat; the page cache has at least half of {}",
                plural(*files, "file"),
                verb(*files, "it", "each")
            ),
        ),
        WatchAdvice::Compat { files, proven } => (
            "Run 'gds-top check' on the directory of these files: it shows what blocks a direct route.".to_owned(),
            format!("{} on the route compat, {}", plural(*files, "file"), if *proven { "proven" } else { "inferred" }),
        ),
        WatchAdvice::FallsBack { compat, direct } => (
            "Run 'gds-top check' on the directory of each file: a part of the transfers falls back to host memory.".to_owned(),
            format!("libcufile counted {} on compat and {} on direct routes", plural(*compat, "transfer"), count(*direct)),
        ),
        WatchAdvice::NotByCuFile { called, plain_bytes, mapped_bytes, cufile_bytes } => (
            if *called {
                "Check why the program reads without cuFile: 'gds-top check' shows what blocks GDS.".to_owned()
            } else {
                "Compare loaders with 'gds-top bench'. This program loads libcufile, as PyTorch does, but calls none of its functions."
                    .to_owned()
            },
            format!(
                "{} by system calls, {} touched in mappings, {} by cuFile",
                bytes(*plain_bytes),
                bytes(*mapped_bytes),
                bytes(*cufile_bytes)
            ),
        ),
        WatchAdvice::RouteUnknown { counted, wanted, changed: Some(function), .. } => (
            format!(
                "{} the program's calls of statistics functions: after them, the counters lack transfers.",
                if *wanted { "Leave out" } else { "Use --statistics, and leave out" }
            ),
            format!("the program called {function}; {}", counters(*counted)),
        ),
        WatchAdvice::RouteUnknown { counted, missing_processes: missing @ 1.., partial_processes, .. }
            if partial_processes >= missing =>
        (
            "Use one copy of libcufile in each process: the counters of a second one could not be read.".to_owned(),
            format!("no counters of a copy of libcufile in {}; {}", plural_es(*missing, "process"), counters(*counted)),
        ),
        WatchAdvice::RouteUnknown { counted, missing_processes: missing @ 1.., .. } => (
            "Open the driver in each process, after fork, and let each process end by itself: otherwise its counters cannot be read."
                .to_owned(),
            format!("no counters of {} with transfers; {}", plural_es(*missing, "process"), counters(*counted)),
        ),
        WatchAdvice::RouteUnknown { counted, wanted, batches, .. } => route_unknown(*counted, *wanted, *batches),
        WatchAdvice::NoModule(transfers) => (
            "Run 'gds-top check' on the directory of these files: nvidia-fs is not loaded, so the counters of libcufile contradict the machine."
                .to_owned(),
            format!("libcufile counted {} on nvfs", plural(*transfers, "transfer")),
        ),
        WatchAdvice::Unfinished(count) => (
            "Wait for all transfers on streams and in batches before the end, and check the result of each.".to_owned(),
            format!("the program did not wait for {}", plural(*count, "transfer")),
        ),
        WatchAdvice::Lost { count, uncounted } => {
            let calls = if *uncounted > 0 { "; so is the table of calls" } else { "; the table of calls is complete" };
            (
                format!("Counts of files, tensors and sizes are lower bounds{calls}."),
                format!("details of {} were lost", plural(*count, "call")),
            )
        }
        WatchAdvice::Unseen(transfers) => (
            "Look up functions of libcufile with dlsym, not with an ELF reader, or use 'sudo gds-top watch --pid'."
                .to_owned(),
            format!("not recorded: {}", unseen(*transfers)),
        ),
        WatchAdvice::Unrecorded(programs) if programs.iter().all(|program| program.ends_with(WITHOUT_SPACE)) => (
            "Raise 'ulimit -v', or set it to unlimited: it left too little address space (about 70 MB is needed) to record these programs."
                .to_owned(),
            format!("not recorded: {}", programs.join(", ")),
        ),
        WatchAdvice::Unrecorded(programs) => (
            "Calls of these programs are missing. Start them with the user, mounts, limits, files and LD_AUDIT of gds-top, or use 'sudo gds-top watch --pid'."
                .to_owned(),
            format!("not recorded: {}", programs.join(", ")),
        ),
        WatchAdvice::OtherSession(programs) => (
            "See the report of the inner 'gds-top watch': only it has the calls of these programs and their children."
                .to_owned(),
            format!("recorded by an inner session: {}", programs.join(", ")),
        ),
        WatchAdvice::StillRunning(count) => (
            "Watch a command that waits for its child processes: calls after its end are not recorded.".to_owned(),
            format!(
                "{} {} still running when the program ended",
                plural_es(*count, "process"),
                verb(*count, "was", "were")
            ),
        ),
        WatchAdvice::LibrariesLeftOut(count) => (
            "Use one libcufile per process: only the first four copies are recorded.".to_owned(),
            format!("{} {} not recorded", plural_ies(*count, "cop"), verb(*count, "is", "are")),
        ),
    }
}

/// The transfers that libcufile's statistics count.
fn counters(counted: Option<(u64, u64)>) -> String {
    match counted {
        None => "no counter shows the route".to_owned(),
        Some((all, 0)) => format!("libcufile counted {}, none of them by route", plural(all, "transfer")),
        Some((all, by_route)) => format!("libcufile counted {}, {} by route", plural(all, "transfer"), count(by_route)),
    }
}

/// The reason why no counter proves the route, and the change that would.
fn route_unknown(counted: Option<(u64, u64)>, wanted: bool, batches: bool) -> (String, String) {
    let advice = match counted {
        None if wanted => {
            "Use libcufile 1.15 or later, and let the program end by itself: its statistics could not be read."
        }
        None => {
            "Start the program with 'gds-top watch --statistics -- COMMAND': libcufile 1.15 and later then counts transfers by route."
        }
        Some((_, 0)) => {
            "Run the program with GPU memory: libcufile counts routes for each GPU, and transfers to or from host memory for none."
        }
        Some(_) if !batches => {
            "Let each process release its files and end by itself: the statistics must count every transfer and its bytes by route."
        }
        Some(_) => {
            "Read single files without batches: the statistics must count every transfer and its bytes by route."
        }
    };
    (advice.to_owned(), counters(counted))
}

/// cuFile's own error codes begin here, see cufile.h.
const CUFILE_CODES: i64 = 5000;

/// The code of the error for `gds-top explain`. A result of -1 only means that the code is in errno. cuFile also
/// stores its own codes there.
fn explained(failure: &WatchedFailure) -> Option<i64> {
    let code = match (failure.code, failure.errno) {
        (-1, errno) => i64::from(errno?),
        (code, _) => code,
    };
    // Codes of the operating system are negative, so that they are not mistaken for those of CUDA.
    let is_cufile = code.saturating_abs() >= CUFILE_CODES;
    Some(if is_cufile { code.saturating_abs() } else { -code.saturating_abs() })
}

fn failed(failure: &WatchedFailure, ignored: bool) -> (String, String) {
    let name = failure.name.as_deref().map_or_else(String::new, |name| format!(" {name}"));
    let file = failure.file.as_deref().map_or_else(String::new, |file| format!(", first on {file}"));
    let times = if failure.count == 1 { "once".to_owned() } else { format!("{} times", count(failure.count)) };
    let end = if ignored { "; the program ended with status 0" } else { "" };
    let code = match explained(failure) {
        Some(code) if failure.code == -1 => format!("-1, errno {}", code.abs()),
        _ => failure.code.to_string(),
    };
    let proof = format!("{} failed {times} with {code}{name}{file}{end}", failure.function);
    let text = if failure.after_submission {
        "Check the result of each transfer: these failed after a submission that succeeded".to_owned()
    } else {
        "Check the return value of each call".to_owned()
    };
    let explained = match explained(failure) {
        Some(code) => format!("; 'gds-top explain {code}' shows what the error means."),
        None => ".".to_owned(),
    };
    (text + &explained, proof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Route, Transfers};
    use crate::present::watch::answer::tests::file_without_route;
    use crate::present::watch::facts::{buffers, threads};

    #[test]
    fn numbers_are_those_of_the_recorded_calls_if_details_were_lost() {
        let mut file = file_without_route();
        file.reads = Transfers { count: 100, bytes: 1 << 30, ..Transfers::default() };
        let mut report = WatchReport { files: vec![file], threads: 1, reading_threads: 1, ..WatchReport::default() };
        (report.buffers.registered, report.buffers.most_bytes) = (2, 4096);
        let proofs = |report: &WatchReport| -> Vec<(&'static str, String)> {
            advice(report).into_iter().map(|(advice, _, proof)| (advice.id(), proof)).collect()
        };
        let all = "one thread made all 100 reads, 1 GiB";
        assert_eq!(proofs(&report), [("one-thread", all.to_owned())]);
        assert_eq!(threads(&report), "1 called cuFile, 1 read with it");
        assert!(buffers(&report).is_some_and(|text| text.ends_with("at most 4 KiB at a time")));
        report.lost_events = 5;
        let expected = [
            ("lost-events", "details of 5 calls were lost".to_owned()),
            ("one-thread", format!("among the recorded calls: {all}")),
        ];
        assert_eq!(proofs(&report), expected);
        assert_eq!(threads(&report), "1 called cuFile, 1 read with it");
        assert!(
            buffers(&report).is_some_and(|text| text.starts_with("at least 2 ") && text.ends_with("at least 4 KiB"))
        );
        report.threads = 3;
        assert_eq!(threads(&report), "3 called cuFile, at least 1 read with it");
        (report.threads, report.uncounted) = (1, 1);
        assert_eq!(threads(&report), "at least 1 called cuFile, at least 1 read with it");
    }

    #[test]
    fn a_row_of_several_files_makes_their_number_a_lower_bound() {
        let proof = |path: &str| {
            let reads = Transfers { count: 2, bytes: 8192, ..Transfers::default() };
            let file = WatchedFile { path: path.to_owned(), route: Route::Compat, reads, ..file_without_route() };
            advice(&WatchReport { files: vec![file], ..WatchReport::default() }).remove(0).2
        };
        assert_eq!(proof("/data/a"), "1 file on the route compat, inferred");
        assert_eq!(proof(UNKNOWN_FILE), "at least 1 file on the route compat, inferred");
    }

    #[test]
    fn a_signal_inside_a_short_call_is_named_and_a_long_call_points_to_the_storage() {
        let text_of = |ended, caller| {
            let function = "cuFileRead".to_owned();
            sentence(&WatchAdvice::NotReturned { function, process: 7, count: 1, ended, caller }).0
        };
        let text = |ended| text_of(ended, Caller::Program);
        let ends = [ProgramEnd::Signal(15), ProgramEnd::Status(1), ProgramEnd::Unknown].map(|end| text(Some(end)));
        assert!(ends[0].ends_with("signal 15 ended it inside cuFileRead."), "{ends:?}");
        assert!(ends[1].ends_with("it ended with status 1 inside cuFileRead."), "{ends:?}");
        assert!(ends[2].ends_with("it ended inside cuFileRead."), "{ends:?}");
        assert!(text(None).contains("storage") && !ends.concat().contains("storage"));
        // The end of the program is not that of another process.
        let end = Some(ProgramEnd::Status(124));
        let others = [Caller::Running, Caller::Unknown].map(|caller| text_of(end, caller));
        assert!(others[0].ends_with("process 7 was still running inside cuFileRead."), "{others:?}");
        assert!(others[1].ends_with("the end of process 7 inside cuFileRead is not known."), "{others:?}");
        assert!(others.iter().all(|other| !other.contains("124")), "{others:?}");
    }

    #[test]
    fn a_second_copy_of_libcufile_is_not_called_a_fork() {
        let text = |missing_processes, partial_processes| {
            let (counted, wanted, batches, changed) = (Some((7, 7)), true, false, None);
            sentence(&WatchAdvice::RouteUnknown {
                counted,
                wanted,
                batches,
                changed,
                missing_processes,
                partial_processes,
            })
        };
        let (copies, proof) = text(1, 1);
        assert!(copies.contains("one copy") && !copies.contains("fork"), "{copies}");
        assert!(proof.contains("a copy of libcufile in 1 process"), "{proof}");
        assert!([text(1, 0), text(2, 1)].iter().all(|(text, _)| text.contains("fork")));
    }

    #[test]
    fn too_little_address_space_has_the_limit_and_the_need_in_its_advice() {
        let (text, proof) = sentence(&WatchAdvice::Unrecorded(vec![format!("1 program {WITHOUT_SPACE}")]));
        assert!(text.contains("ulimit -v") && text.contains("70 MB"), "{text}");
        assert!(proof.ends_with(WITHOUT_SPACE), "{proof}");
    }
}
