//! The facts about a watched program.

use super::file::unknown_tensors;
use super::{attached, missing};
use crate::analysis::SessionEnd;
use crate::core::units::{self, bytes, count, duration, plural, plural_es, plural_ies};
use crate::core::{DriverProperties, Route, RouteStatistics, WatchReport};
use crate::present::labels::route_proof as proof;
use crate::present::top;
use crate::text::truncate_middle;

/// Maximum number of columns of a path. Another user can choose longer ones, for many processes.
const PATH_COLUMNS: usize = 400;
/// Maximum number of listed cufile.json.
const MOST_SETTINGS: usize = 10;

/// Labelled facts about the program.
#[must_use]
pub fn facts(report: &WatchReport, end: SessionEnd) -> Vec<(&'static str, String)> {
    let mut facts = vec![("command", report.command.join(" ")), ("time", duration(report.wall_ns))];
    facts.extend(missing::fact(report, end));
    if let Some(process) = &report.attached {
        facts.extend(attached::facts(process, report.libraries.is_empty()));
        if !process.recorded {
            if process.libcufile.is_some() {
                facts.extend(settings(report));
                let route = if process.route == Route::None { String::new() } else { format!("{}, ", process.route) };
                facts.push(("route", format!("{route}{}", proof(process.route_proof))));
                facts.push(("proven", PROVEN.to_owned()));
                facts.push(("not proven", NOT_PROVEN.to_owned()));
            }
            return facts;
        }
    }
    match &report.attached {
        Some(process) => facts.extend([("processes", count(process.processes)), ("durations", PROBED.to_owned())]),
        None => {
            facts.push(("programs", count(report.programs)));
            facts.extend(top::unexamined(report.unexamined()).map(|text| ("examined", text)));
        }
    }
    facts.push(("threads", threads(report)));
    for library in &report.libraries {
        let version = library.version_text().map_or_else(String::new, |version| format!(", version {version}"));
        let processes = plural_es(library.processes, "process");
        // A process can end before its mappings are read.
        let processes = match &report.attached {
            None => format!("loaded by {processes}"),
            Some(process) if process.processes > library.processes || report.lost_events > 0 => {
                format!("mapped in at least {processes}")
            }
            Some(_) => format!("mapped in {processes}"),
        };
        let path = truncate_middle(&library.path, PATH_COLUMNS);
        facts.push(("libcufile", format!("{path}{version}, {processes}")));
    }
    facts.extend(settings(report));
    if let Some(properties) = &report.properties {
        facts.push(("driver", driver(properties)));
    }
    if let Some(io) = &report.process_io {
        let least = if report.unexamined() > 0 { "at least " } else { "" };
        let requests = match io.io_uring_requests {
            0 => String::new(),
            requests => format!(", at least {}", plural(requests, "io_uring request")),
        };
        facts.push((
            "input",
            format!(
                "{least}{} by system calls, {} from storage, {} with storage access{requests}",
                bytes(io.read_call_bytes),
                bytes(io.storage_read_bytes),
                plural(io.major_faults, "page fault")
            ),
        ));
    }
    facts.extend(unknown_tensors(report).map(|text| ("tensors", text)));
    facts.extend(gpu_copies(report).map(|text| ("GPU copies", text)));
    facts.extend(buffers(report).map(|text| ("buffers", text)));
    if let Some(seen) = report.statistics {
        facts.push((
            "statistics",
            format!(
                "libcufile counted {}, {} and {} of batches; {}",
                plural(seen.reads, "read"),
                plural(seen.writes, "write"),
                plural_ies(seen.batch_entries, "entr"),
                by_route(report, seen)
            ),
        ));
    }
    facts
}

/// A call has two probes. In a virtual machine they add 21 µs (docs/watch.md).
pub(super) const PROBED: &str = "include the kernel probes: about 5 to 30 µs a call";

/// The facts that procfs proves about a process whose calls are not recorded, and those that it does not prove.
const PROVEN: &str = "which libcufile is loaded, which files are open or mapped, and the bytes read by system calls";
const NOT_PROVEN: &str =
    "which bytes cuFile moved, which calls failed, and the route: direct reads are in no counter of a process";

/// The cufile.json of the processes.
fn settings(report: &WatchReport) -> impl Iterator<Item = (&'static str, String)> {
    let more = report.configurations.len().saturating_sub(MOST_SETTINGS) as u64;
    let more = (more > 0).then(|| ("settings", format!("{} more; the JSON report has all", count(more))));
    let listed = report.configurations.iter().take(MOST_SETTINGS).map(|configuration| {
        let origin = if configuration.from_environment { ", named by CUFILE_ENV_PATH_JSON" } else { "" };
        let is = match (configuration.exists, configuration.not_examined) {
            (true, false) => "",
            (true, true) => ", not examined for each process",
            (false, true) => ", not examined",
            (false, false) => ", does not exist: defaults",
        };
        ("settings", format!("{}{origin}{is}", truncate_middle(&configuration.path, PATH_COLUMNS)))
    });
    listed.chain(more)
}

/// The transfers that libcufile counted by route, or the reason why there are none.
fn by_route(report: &WatchReport, seen: RouteStatistics) -> String {
    if seen.by_route() == 0 && seen.transfers() > 0 {
        return "no route: it counts routes for each GPU, and transfers to or from host memory for none".to_owned();
    }
    let counted = [("nvfs", seen.nvfs), ("p2pdma", seen.p2pdma), ("compat", seen.posix)];
    let counted = counted.map(|(route, transfers)| format!("{route} {}", count(transfers))).join(", ");
    format!("by route: {counted}{}", counted_twice(report, seen))
}

/// The reason why libcufile 1.15 counts more transfers by route than it made.
fn counted_twice(report: &WatchReport, seen: RouteStatistics) -> &'static str {
    let by_route = seen.by_route();
    match (by_route > seen.reads.saturating_add(seen.writes), report.has_libcufile_1_15()) {
        (false, _) => "",
        (true, true) => " (libcufile 1.15 counts a read into GPU memory twice in compat mode)",
        (true, false) => " (libcufile divides transfers, and 1.15 counts some of them twice)",
    }
}

/// The threads that called cuFile. The details of lost calls do not have their thread.
pub(super) fn threads(report: &WatchReport) -> String {
    let least = |is_least: bool| if is_least { "at least " } else { "" };
    let all = least(report.uncounted > 0);
    // No more threads can read than call.
    let is_all = report.uncounted == 0 && report.reading_threads >= report.threads;
    let reading = least(report.lost_events > 0 && !is_all);
    format!("{all}{} called cuFile, {reading}{} read with it", count(report.threads), count(report.reading_threads))
}

/// The registrations of buffers. `None` if there is none.
pub(super) fn buffers(report: &WatchReport) -> Option<String> {
    let (registrations, time) = (plural(report.buffers.registered, "registration"), duration(report.buffers.total_ns));
    let size = bytes(report.buffers.most_bytes);
    let text = match report.lost_events {
        0 => format!("{registrations} in {time}, at most {size} at a time"),
        _ => format!("at least {registrations} in {time}, at the peak at least {size}"),
    };
    (report.buffers.registered > 0).then_some(text)
}

/// Copies that are not calls of the recorded functions.
const UNSEEN_COPIES: &str =
    "not seen: graphs, kernels that copy, page faults of managed memory, internal calls of CUDA libraries";

/// The source of the numbers about copies to and from GPUs. `None` if no process used libcuda.
fn gpu_copies(report: &WatchReport) -> Option<String> {
    let copies = units::sum(report.other_calls.iter().filter(|call| call.is_gpu_copy()).map(|call| call.count));
    match (copies, report.cuda_processes) {
        (0, 0) => None,
        // libcufile copies for its transfers itself.
        (0, _) if report.transfers() > 0 => None,
        (0, _) => Some(format!(
            "none recorded; libcuda is loaded ({UNSEEN_COPIES}). 'gds-top top' shows the PCIe traffic of each GPU, of all processes"
        )),
        _ => Some(format!("{} recorded at the functions of libcuda; {UNSEEN_COPIES}", plural_ies(copies, "cop"))),
    }
}

/// Bits of `dcontrolflags` and `fflags`, see cufile.h.
fn driver(properties: &DriverProperties) -> String {
    let control = [(0, "poll mode"), (1, "compat mode allowed"), (2, "POSIX only"), (4, "fallback I/O")];
    let features = [(0, "dynamic routing"), (1, "batches"), (2, "streams"), (3, "parallel I/O"), (4, "P2P")];
    let mut parts = vec![match (properties.nvfs_major, properties.nvfs_minor) {
        (0, 0) => "without nvidia-fs".to_owned(),
        (major, minor) => format!("nvidia-fs {major}.{minor}"),
    }];
    let set = |flags: u32, names: &[(u32, &str)]| -> Vec<String> {
        names.iter().filter(|(bit, _)| flags & (1 << bit) != 0).map(|(_, name)| (*name).to_owned()).collect()
    };
    parts.extend(set(properties.control_flags, &control));
    parts.extend(set(properties.features, &features));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{CallTotal, ProcessIo, ProgramEnd, WatchedConfiguration, WatchedLibrary};
    use crate::present::watch::answer;

    #[test]
    fn a_report_with_or_without_gpu_copies_names_those_that_are_not_seen() {
        let copies = |count: u64| {
            let call = CallTotal { function: "cuMemcpyHtoD".to_owned(), count, ..CallTotal::default() };
            WatchReport { cuda_processes: 1, other_calls: vec![call], ..WatchReport::default() }
        };
        let texts = [0, 3].map(|count| gpu_copies(&copies(count)).unwrap_or_default());
        assert!(texts.iter().all(|text| text.contains(UNSEEN_COPIES)), "{texts:?}");
        assert!(texts[0].starts_with("none recorded") && texts[1].starts_with("3 copies recorded"), "{texts:?}");
        assert_eq!(gpu_copies(&WatchReport::default()), None);
    }

    #[test]
    fn requests_of_io_uring_are_in_the_answer_if_cufile_is_not_used() {
        let of = |io_uring_requests| {
            let io = ProcessIo { io_uring_requests, ..Default::default() };
            let ended = Some(ProgramEnd::Status(0));
            let report = WatchReport { programs: 1, ended, process_io: Some(io), ..WatchReport::default() };
            answer(&report, SessionEnd::Complete).conditions
        };
        assert_eq!(of(0), "It did not load libcufile.");
        assert_eq!(of(4), "It did not load libcufile. At least 4 io_uring requests completed.");
    }

    #[test]
    fn reads_by_linux_aio_are_in_the_answer_if_cufile_is_not_used() {
        let of = |count, errors| {
            let call = CallTotal { function: "io_submit".to_owned(), count, errors, bytes: 4096, ..Default::default() };
            let ended = Some(ProgramEnd::Status(0));
            let report = WatchReport { programs: 1, ended, other_calls: vec![call], ..WatchReport::default() };
            answer(&report, SessionEnd::Complete).conditions
        };
        assert_eq!(of(3, 1), "It did not load libcufile. 2 reads of 4 KiB were submitted by io_submit.");
        assert_eq!(of(1, 1), "It did not load libcufile.");
    }

    #[test]
    fn the_processes_with_a_library_are_a_lower_bound_if_others_may_have_it() {
        let library = WatchedLibrary { path: "/l".to_owned(), processes: 2, version: None };
        let launched = WatchReport { programs: 1, libraries: vec![library], ..WatchReport::default() };
        let attached = |processes| crate::core::AttachedProcess { recorded: true, processes, ..Default::default() };
        let shown = |attached| {
            let report = WatchReport { attached, ..launched.clone() };
            facts(&report, SessionEnd::Complete).into_iter().find(|(label, _)| *label == "libcufile").map(|fact| fact.1)
        };
        assert_eq!(shown(None).as_deref(), Some("/l, loaded by 2 processes"));
        assert_eq!(shown(Some(attached(2))).as_deref(), Some("/l, mapped in 2 processes"));
        assert_eq!(shown(Some(attached(3))).as_deref(), Some("/l, mapped in at least 2 processes"));
    }

    #[test]
    fn bytes_of_sendfile_are_read_by_system_calls() {
        let io = crate::core::ProcessIo { read_call_bytes: 1 << 20, ..Default::default() };
        let report = WatchReport { process_io: Some(io), ..WatchReport::default() };
        let input = facts(&report, SessionEnd::Complete).into_iter().find(|(label, _)| *label == "input");
        assert!(input.is_some_and(|(_, text)| text.starts_with("1 MiB by system calls, 0 B from storage")));
    }

    #[test]
    fn processes_of_a_started_program_that_were_not_examined_are_counted() {
        let io = Some(crate::core::ProcessIo { read_call_bytes: 1 << 20, ..Default::default() });
        let all = WatchReport { programs: 3, process_io: io, ..WatchReport::default() };
        let some = WatchReport { unexamined_processes: 2, ..all.clone() };
        let text = |report: &WatchReport, label: &str| {
            let facts = facts(report, SessionEnd::Complete).into_iter();
            facts.filter(|(name, _)| *name == label).map(|(_, text)| text).collect::<String>()
        };
        assert_eq!(text(&all, "examined"), "");
        assert!(text(&some, "examined").starts_with("2 processes were not examined"));
        assert!(text(&some, "input").starts_with("at least 1 MiB by system calls"));
    }

    #[test]
    fn many_settings_with_long_paths_are_cut() {
        let configuration = |number: usize| WatchedConfiguration {
            path: format!("/{}/{number}.json", "x".repeat(4000)),
            exists: true,
            ..Default::default()
        };
        let shown = |number: usize| -> Vec<String> {
            let configurations = (0..number).map(configuration).collect();
            let report = WatchReport { programs: 1, configurations, ..WatchReport::default() };
            let facts = facts(&report, SessionEnd::Complete).into_iter();
            facts.filter(|(label, _)| *label == "settings").map(|(_, text)| text).collect()
        };
        assert_eq!(shown(MOST_SETTINGS).len(), MOST_SETTINGS);
        let many = shown(MOST_SETTINGS + 32);
        assert_eq!((many.len(), many[MOST_SETTINGS].starts_with("32 more")), (MOST_SETTINGS + 1, true));
        assert!(many[9].ends_with("x/9.json") && many[9].chars().count() == PATH_COLUMNS, "{}", many[9]);
    }

    #[test]
    fn a_cufile_json_that_was_not_examined_for_a_process_is_named_as_such() {
        let text = |exists, not_examined| {
            let configuration =
                WatchedConfiguration { path: "/c".to_owned(), exists, not_examined, ..Default::default() };
            let report = WatchReport { programs: 1, configurations: vec![configuration], ..WatchReport::default() };
            let facts = facts(&report, SessionEnd::Complete).into_iter();
            facts.filter(|(label, _)| *label == "settings").map(|(_, text)| text).collect::<String>()
        };
        assert_eq!(text(true, false), "/c");
        assert!([text(true, true), text(false, true)].iter().all(|text| text.contains("not examined")));
        assert!(text(false, false).ends_with("does not exist: defaults"));
    }
}
