//! The answer about a watched program.

use super::attached;
use super::counted::{Counted, several_routes, some_failed};
use super::missing;
use crate::analysis::{SessionEnd, failed_set_ups, is_complete, is_proven_direct, not_returned};
use crate::core::units::{self, bytes, count, duration, plural, plural_es, verb};
use crate::core::{NotLoaded, ProgramEnd, Route, RouteProof, Status, UnseenTransfers, WatchReport, WatchedFile};
use crate::present::view::Answer;

/// The sentence if the program does not meet `--require direct`. `None` if it does.
#[must_use]
pub fn unmet(report: Option<&WatchReport>) -> Option<&'static str> {
    match report.map(is_proven_direct) {
        Some(Some(true)) => None,
        Some(Some(false)) => {
            Some("--require direct is not met: a direct route is not proven for every cuFile transfer of the program")
        }
        Some(None) => Some("--require direct is not met: no cuFile transfer of the program was recorded"),
        None => Some("--require direct is not met: nothing was recorded"),
    }
}

/// The answer: the route of the program's transfers. Lost calls are named in it.
#[must_use]
pub fn answer(report: &WatchReport, end: SessionEnd) -> Answer {
    let mut answer = of_route(report, end == SessionEnd::Cut);
    let no_route = report.statistics_name_no_route() && report.transfers() > 0;
    let no_route = no_route.then(|| "The statistics of libcufile name no route.".to_owned());
    let lost =
        (report.lost_events > 0).then(|| format!("Details of {} were lost.", plural(report.lost_events, "call")));
    if lost.is_some() && matches!(answer.status, Status::Pass | Status::Info) {
        answer.status = Status::Warn;
    }
    for sentence in [no_route, lost, missing::early_end(report, end)].into_iter().flatten() {
        answer.conditions = format!("{} {sentence}", answer.conditions).trim_start().to_owned();
    }
    answer
}

/// `is_cut`: the end of the session was not recorded.
fn of_route(report: &WatchReport, is_cut: bool) -> Answer {
    if let Some(process) = report.attached.as_ref().filter(|process| !process.recorded) {
        return attached::answer(process);
    }
    let reads: u64 = units::sum(report.files.iter().map(|file| file.reads.count));
    let writes: u64 = units::sum(report.files.iter().map(|file| file.writes.count));
    let plain = plain_bytes(report);
    let mut read = if plain > 0 { format!(" {} read without it.", bytes(plain)) } else { String::new() };
    if let Some(requests @ 1..) = report.process_io.as_ref().map(|io| io.io_uring_requests) {
        read += &format!(" At least {} completed.", plural(requests, "io_uring request"));
    }
    if let Some(aio) = report.other_calls.iter().find(|call| call.is_aio() && call.count > call.errors) {
        let reads = aio.count - aio.errors;
        let (reads, were) = (plural(reads, "read"), verb(reads, "was", "were"));
        read += &format!(" {reads} of {} {were} submitted by io_submit.", bytes(aio.bytes));
    }
    if is_cut && reads + writes == 0 {
        let headline = "No cuFile transfer was recorded before the session ended.";
        return Answer::new(Status::Warn, headline, read.trim_start().to_owned());
    }
    if report.attached.is_none() && report.programs == 0 {
        return Answer::new(Status::Warn, "The program could not be recorded.", not_loaded(report.not_loaded));
    }
    // The calls are counted before the other facts about them are read.
    let is_running = !is_cut && report.attached.is_none() && report.ended.is_none();
    if is_running && reads + writes == 0 {
        let headline = match report.libraries.is_empty() && report.calls.is_empty() {
            true => "The program has not used cuFile so far.",
            false => "The cuFile transfers of the program are not known yet.",
        };
        return Answer::new(Status::Info, headline, read.trim_start().to_owned());
    }
    if report.libraries.is_empty() {
        let of = match report.programs {
            1 => "It did not load libcufile.".to_owned(),
            n => format!("None of {} recorded programs loaded libcufile.", count(n)),
        };
        let conditions = of + &read;
        if let Some(missing) = missing(report) {
            let headline = "The recorded processes do not use cuFile; other programs were not recorded.";
            return Answer::new(Status::Warn, headline, missing + &read);
        }
        return Answer::new(Status::Info, "The program does not use cuFile.", conditions);
    }
    if reads + writes == 0 {
        let stuck = not_returned(report);
        if let Some(first) = stuck.first() {
            let calls = stuck.len() as u64;
            let calls = format!("{} {}", plural(calls, "call"), verb(calls, "has", "have"));
            let conditions = format!("{} of process {}.{read}", first.function, first.process);
            return Answer::new(
                Status::Warn,
                format!("No cuFile transfer finished: {calls} not returned."),
                conditions,
            );
        }
        if let Some(missing) = missing(report) {
            let headline = match report.unseen {
                Some(_) => "No cuFile transfer was recorded, but libcufile counted some.",
                None => "The recorded processes made no cuFile transfer; other programs were not recorded.",
            };
            return Answer::new(Status::Warn, headline, missing + &read);
        }
        if report.still_running > 0 {
            let left = plural_es(report.still_running, "process");
            let conditions =
                format!("{left} {} running when it ended.{read}", verb(report.still_running, "was", "were"));
            return Answer::new(Status::Warn, "The program made no cuFile transfer before it ended.", conditions);
        }
        let headline = match report.attached {
            Some(_) => "No cuFile transfer of the process was seen.",
            None => "The program loaded libcufile but transferred nothing with it.",
        };
        return Answer::new(Status::Info, headline, read.trim_start().to_owned());
    }
    let counted = Counted::of(report);
    let failed = counted.failed;
    let is_complete = is_complete(report) && !is_cut;
    let missing = missing(report).map_or_else(String::new, |missing| format!(" {missing}"));
    let conditions = format!(
        "{}{} in {}{}.{missing}",
        if counted.is_least || is_cut { "At least " } else { "" },
        counted.amounts(),
        duration(report.wall_ns),
        if is_running { " so far" } else { "" }
    );
    let all = || report.files.iter().filter(|file| file.reads.count + file.writes.count > 0);
    if all().all(|file| file.proof == RouteProof::AllFailed) {
        let all = if is_complete { "All" } else { "All recorded" };
        return Answer::new(Status::Fail, format!("{all} cuFile transfers failed."), conditions);
    }
    // Failed transfers and those of 0 bytes take no route.
    let used = || all().filter(|file| !matches!(file.proof, RouteProof::AllFailed | RouteProof::NoTransfer));
    if used().next().is_none() {
        return Answer::new(Status::Info, "The cuFile transfers moved no bytes.", conditions);
    }
    let mixed = report.statistics.filter(|_| used().any(|file| file.proof == RouteProof::MixedStatistics));
    if let Some(seen) = mixed {
        return Answer::new(Status::Warn, several_routes(seen, failed), conditions);
    }
    let first = used().next().map_or(Route::None, |file| file.route);
    let one_route = used().all(|file| file.route == first);
    let is_direct = one_route && used().all(|file| file.proven && file.route.is_direct());
    match (is_proven_direct(report).map(|is_proven| is_proven && !is_cut), first) {
        (Some(true), route) if one_route => Answer::new(
            Status::Pass,
            format!("All recorded cuFile transfers take the direct route {route}, proven."),
            conditions,
        ),
        (Some(true), _) => {
            Answer::new(Status::Pass, "All recorded cuFile transfers take direct routes, proven.", conditions)
        }
        (_, route) if is_direct => {
            let headline = match (failed, failed_set_ups(report)) {
                (0, 0) => format!("The recorded cuFile transfers take {route}, proven; others may be missing."),
                (0, calls) => {
                    let calls = plural(calls, "call");
                    format!("{calls} to prepare cuFile transfers failed; the transfers take {route}, proven.")
                }
                _ => format!("{} failed; the others take {route}, proven.", plural(failed, "cuFile transfer")),
            };
            Answer::new(Status::Warn, headline, conditions)
        }
        (_, route) if one_route && failed > 0 => {
            let headline = some_failed(failed, route, used().all(|file| file.proven));
            Answer::new(Status::Warn, headline, conditions)
        }
        (_, Route::Compat) if one_route => {
            let proven = if used().all(|file| file.proven) { "proven" } else { "inferred" };
            let headline = format!("The cuFile transfers go through host memory (compat), {proven}.");
            Answer::new(Status::Warn, headline, conditions)
        }
        (_, Route::None) if one_route && is_running && used().all(|file| may_be_proven_later(report, file)) => {
            Answer::new(Status::Info, "The route of the cuFile transfers is not proven yet.", conditions)
        }
        (_, Route::None) if one_route => {
            Answer::new(Status::Info, "The route of the cuFile transfers is not proven.", conditions)
        }
        (_, route) if one_route => {
            Answer::new(Status::Info, format!("The cuFile transfers seem to take {route}; not proven."), conditions)
        }
        _ => Answer::new(Status::Warn, "The cuFile transfers take different routes.", conditions),
    }
}

/// Whether a later reading of libcufile's counters can prove the route of a file.
fn may_be_proven_later(report: &WatchReport, file: &WatchedFile) -> bool {
    report.wants_statistics
        && report.lost_events == 0
        && report.changed_statistics().is_none()
        && !report.statistics_name_no_route()
        && file.proof.is_missing()
}

/// The transfers that only libcufile counted.
pub(super) fn unseen(transfers: UnseenTransfers) -> String {
    match (transfers.transfers, bytes(transfers.bytes)) {
        (0, bytes) => format!("transfers of {bytes} that libcufile counted"),
        (count, bytes) => format!("{} of {bytes} that libcufile counted", plural(count, "transfer")),
    }
}

/// The programs and transfers that are not in the report. `None` if all are.
fn missing(report: &WatchReport) -> Option<String> {
    let unrecorded: Vec<String> = report.unrecorded.iter().cloned().chain(report.unseen.map(unseen)).collect();
    let parts = [("Not recorded", &unrecorded), ("Recorded by an inner session", &report.in_other_session)];
    let parts = parts.into_iter().filter(|(_, programs)| !programs.is_empty());
    let parts: Vec<String> = parts.map(|(how, programs)| format!("{how}: {}.", programs.join(", "))).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The reason why no program loaded the recording library.
const fn not_loaded(reason: Option<NotLoaded>) -> &'static str {
    match reason {
        Some(NotLoaded::ElevatedRights) => {
            "It has the set-user-ID bit or capabilities, so the linker ignores LD_AUDIT. Use 'sudo gds-top watch --pid'."
        }
        Some(NotLoaded::Static) => "It is statically linked, so no dynamic linker loads the recording library.",
        Some(NotLoaded::Truncated) => {
            "The file with the recorded calls became shorter: the program truncated it, or its file system is full."
        }
        Some(NotLoaded::Overwritten) => {
            "A program overwrote the file with the recorded calls, so none of its numbers is shown."
        }
        Some(NotLoaded::OtherLibc) => "It uses another libc than glibc, whose linker does not support LD_AUDIT.",
        None => "The dynamic linker did not load the recording library.",
    }
}

/// Bytes of files that were read without cuFile, if they were recorded.
fn plain_bytes(report: &WatchReport) -> u64 {
    units::sum(report.files.iter().map(|file| file.plain.bytes.saturating_add(file.plain.touched_bytes)))
}

/// The end of the program, if it failed.
#[must_use]
pub fn end(report: &WatchReport) -> Option<Answer> {
    let headline = match report.ended? {
        ProgramEnd::Status(0) | ProgramEnd::Unknown => return None,
        ProgramEnd::Status(code) => format!("The program failed with exit status {code}."),
        ProgramEnd::Signal(signal) => format!("The program was ended by signal {signal}."),
    };
    Some(Answer::new(Status::Fail, headline, ""))
}
#[cfg(test)]
pub(in crate::present) mod tests {
    use super::*;
    use crate::core::{Transfers, WatchedLibrary};
    use crate::present::watch::facts::{PROBED, facts};

    fn answer(report: &WatchReport) -> Answer {
        super::answer(report, SessionEnd::Running)
    }

    fn file(route: Route, proof: RouteProof) -> WatchedFile {
        WatchedFile {
            path: "/m".to_owned(),
            route,
            proven: proof == RouteProof::Statistics,
            proof,
            reads: Transfers { count: 1, bytes: 4096, ..Transfers::default() },
            writes: Transfers::default(),
            registrations: 1,
            failed_registrations: 0,
            o_direct: None,
            tensors: Vec::new(),
            tensors_of_file: 0,
            tensors_unknown: None,
            kv: None,
            plain: crate::core::PlainReads::default(),
            cached_fraction: None,
        }
    }

    pub(in crate::present) fn file_without_route() -> WatchedFile {
        file(Route::None, RouteProof::NoTransfer)
    }

    #[test]
    fn a_direct_route_is_only_called_proven_if_it_is() {
        let report = |files| WatchReport {
            programs: 1,
            ended: Some(ProgramEnd::Status(0)),
            libraries: vec![WatchedLibrary::default()],
            files,
            ..WatchReport::default()
        };
        let mut failing = file(Route::P2pdma, RouteProof::Statistics);
        (failing.reads.count, failing.reads.errors) = (2, 1);
        for (files, status, has) in [
            (vec![file(Route::P2pdma, RouteProof::Statistics)], Status::Pass, "p2pdma, proven"),
            (vec![file(Route::Nvfs, RouteProof::NvidiaFsCounter)], Status::Info, "not proven"),
            (vec![failing], Status::Warn, "1 cuFile transfer failed; the others take p2pdma"),
            (vec![file(Route::Compat, RouteProof::NoDirectRoute)], Status::Warn, "inferred"),
            (vec![file(Route::None, RouteProof::Nothing)], Status::Info, "not proven"),
            (vec![file(Route::None, RouteProof::AllFailed)], Status::Fail, "failed"),
            (
                vec![file(Route::Compat, RouteProof::Statistics), file(Route::None, RouteProof::AllFailed)],
                Status::Warn,
                "compat), proven",
            ),
            (
                vec![file(Route::Compat, RouteProof::Statistics), file(Route::Nvfs, RouteProof::Statistics)],
                Status::Warn,
                "different",
            ),
            (vec![], Status::Info, "transferred nothing"),
        ] {
            let answer = answer(&report(files));
            assert_eq!(answer.status, status, "{answer:?}");
            assert!(answer.headline.contains(has), "{answer:?}");
            assert!(answer.headline.split_whitespace().count() <= 12, "{answer:?}");
        }
        let mut late = report(vec![file(Route::P2pdma, RouteProof::Statistics)]);
        late.attached = Some(crate::core::AttachedProcess {
            recorded: true,
            loaded_late: true,
            ..crate::core::AttachedProcess::default()
        });
        assert!(answer(&late).conditions.starts_with("At least 1 read "), "{:?}", answer(&late));
        let durations = facts(&late, SessionEnd::Complete).into_iter().find(|(label, _)| *label == "durations");
        assert_eq!(durations, Some(("durations", PROBED.to_owned())));
        assert_eq!(answer(&WatchReport::default()).status, Status::Warn);
        // Calls of a fifth copy of libcufile are not known.
        let failing = vec![file(Route::None, RouteProof::AllFailed)];
        let shown = answer(&WatchReport { libraries_left_out: 1, ..report(failing) });
        assert_eq!((shown.status, shown.headline.as_str()), (Status::Fail, "All recorded cuFile transfers failed."));
        let direct = vec![file(Route::P2pdma, RouteProof::Statistics)];
        let shown = answer(&WatchReport { libraries_left_out: 1, ..report(direct) });
        assert_eq!(shown.headline, "The recorded cuFile transfers take p2pdma, proven; others may be missing.");
        assert!(shown.headline.split_whitespace().count() <= 12 && shown.conditions.starts_with("At least 1 read"));
    }

    #[test]
    fn nothing_is_denied_while_the_program_runs() {
        let calls = vec![crate::core::CallTotal::default()];
        let running = WatchReport { programs: 1, ..WatchReport::default() };
        let transfers = WatchReport {
            libraries: vec![WatchedLibrary::default()],
            files: vec![file(Route::None, RouteProof::Nothing)],
            ..running.clone()
        };
        for (report, has) in [
            (WatchReport { calls, ..running.clone() }, "not known yet"),
            (running, "has not used cuFile so far"),
            (transfers, "so far"),
        ] {
            let shown = answer(&report);
            assert!(shown.text().contains(has) && !shown.text().contains("does not"), "{shown:?}");
        }
    }

    #[test]
    fn a_route_that_a_later_reading_can_prove_is_not_proven_yet() {
        let running = WatchReport {
            programs: 1,
            wants_statistics: true,
            libraries: vec![WatchedLibrary::default()],
            files: vec![file(Route::None, RouteProof::Nothing)],
            ..WatchReport::default()
        };
        let is_pending = |report: &WatchReport| answer(report).headline.ends_with("not proven yet.");
        assert!(is_pending(&running));
        for other in [
            WatchReport { ended: Some(ProgramEnd::Status(0)), ..running.clone() },
            WatchReport { lost_events: 1, ..running.clone() },
            WatchReport { wants_statistics: false, ..running.clone() },
            WatchReport { files: vec![file(Route::None, RouteProof::MixedStatistics)], ..running.clone() },
        ] {
            assert!(!is_pending(&other), "{:?}", answer(&other));
        }
    }

    #[test]
    fn a_session_without_its_end_proves_nothing_and_knows_nothing_later() {
        let running = WatchReport { programs: 1, ..WatchReport::default() };
        let direct = WatchReport {
            libraries: vec![WatchedLibrary::default()],
            files: vec![file(Route::P2pdma, RouteProof::Statistics)],
            ..running.clone()
        };
        for (report, headline) in [
            (WatchReport::default(), "No cuFile transfer was recorded before the session ended."),
            (running, "No cuFile transfer was recorded before the session ended."),
            (direct.clone(), "The recorded cuFile transfers take p2pdma, proven; others may be missing."),
        ] {
            let shown = super::answer(&report, SessionEnd::Cut);
            assert_eq!((shown.status, shown.headline.as_str()), (Status::Warn, headline));
            assert!(!shown.text().contains("so far") && !shown.text().contains("not known yet"), "{shown:?}");
            assert!(
                shown.conditions.ends_with("The recording ends 0 ns after the start, before the program."),
                "{shown:?}"
            );
            let fact = facts(&report, SessionEnd::Cut).into_iter().find(|(label, _)| *label == "complete");
            assert!(fact.is_some_and(|(_, text)| text.starts_with("no: unexpected end of the session")));
        }
        assert!(super::answer(&direct, SessionEnd::Cut).conditions.starts_with("At least 1 read "));
        let complete = |end| facts(&direct, end).into_iter().find(|(label, _)| *label == "complete");
        assert_eq!(complete(SessionEnd::Running), None);
        assert_eq!(complete(SessionEnd::Complete), Some(("complete", "yes".to_owned())));
    }

    #[test]
    fn a_program_that_was_not_recorded_is_not_said_to_use_no_cufile() {
        let unrecorded = WatchReport {
            programs: 2,
            ended: Some(ProgramEnd::Status(0)),
            unrecorded: vec!["su".to_owned()],
            ..WatchReport::default()
        };
        let shown = answer(&unrecorded);
        assert_eq!((shown.status, shown.conditions.as_str()), (Status::Warn, "Not recorded: su."));
        let mut reasons = std::collections::BTreeSet::new();
        for not_loaded in [
            None,
            Some(NotLoaded::ElevatedRights),
            Some(NotLoaded::Static),
            Some(NotLoaded::OtherLibc),
            Some(NotLoaded::Overwritten),
        ] {
            let shown = answer(&WatchReport { not_loaded, ..WatchReport::default() });
            assert_eq!(shown.status, Status::Warn);
            reasons.insert(shown.conditions);
        }
        assert_eq!(reasons.len(), 5);
    }
}
