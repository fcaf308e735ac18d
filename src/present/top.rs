//! The processes that use cuFile and GPUs now, as an answer and as tables.

use super::labels::route_proof;
use super::view::{Answer, GAP, Table, number, or_gap, text};
use crate::core::units::{bytes, plural_es, rate, verb};
use crate::core::{OpenFile, ProcessUse, SeenRoute, Status, SystemSample};

/// Reads below this rate, in bytes per second, are not mentioned.
const LEAST_READ: f64 = 1e6;

/// The answer with the number of processes that have libcufile mapped.
#[must_use]
pub fn answer(sample: &SystemSample) -> Answer {
    let found = sample.processes.iter().filter(|process| process.cufile.is_some()).count() as u64;
    let hidden = match (u64::from(sample.hidden_processes), sample.by_root) {
        (0, _) => None,
        (n, true) => Some(format!("The kernel denies access to the mappings of {}.", plural_es(n, "process"))),
        (n, false) => {
            Some(format!("{} of other users cannot be examined. Run as root to see them.", plural_es(n, "process")))
        }
    };
    let conditions: Vec<String> = hidden.into_iter().chain(unexamined(sample.unexamined_processes.into())).collect();
    let is_known = sample.not_seen() == 0;
    let headline = match (found, is_known) {
        (0, true) => "No process has libcufile mapped.".to_owned(),
        (0, false) => "No process that could be examined has libcufile mapped.".to_owned(),
        (n, _) => {
            let least = if is_known { "" } else { "At least " };
            format!("{least}{} {} libcufile mapped.", plural_es(n, "process"), verb(n, "has", "have"))
        }
    };
    Answer::new(Status::Info, headline, conditions.join(" "))
}

/// A sentence about the processes that were not examined. `None` without them.
#[must_use]
pub fn unexamined(processes: u64) -> Option<String> {
    let were = verb(processes, "was", "were");
    (processes > 0).then(|| {
        format!("{} {were} not examined: no answer in time, or a limit was reached.", plural_es(processes, "process"))
    })
}

/// The name of a process's route in JSON, as far as procfs shows it.
#[must_use]
pub const fn route(route: SeenRoute) -> &'static str {
    match route {
        SeenRoute::Unknown => "unknown",
        SeenRoute::NvidiaFs => "nvidia-fs",
        SeenRoute::Cufile => "libcufile",
        SeenRoute::Compat => "compat",
        SeenRoute::Direct => "o-direct",
        SeenRoute::Mapped => "mapping",
        SeenRoute::Cached => "page-cache",
    }
}

/// The route of a process's reads or their access, for people. It is inferred.
#[must_use]
pub const fn method(route: SeenRoute) -> &'static str {
    match route {
        SeenRoute::Unknown => "not known",
        SeenRoute::NvidiaFs => "nvidia-fs open",
        SeenRoute::Cufile => "p2pdma or compat",
        SeenRoute::Compat => "compat, inferred",
        SeenRoute::Direct => "O_DIRECT",
        SeenRoute::Mapped => "mapped",
        SeenRoute::Cached => "page cache",
    }
}

/// The read rate of a process in bytes per second. It is the larger one of two counters: read calls from the page
/// cache cause no storage reads, and mapped files cause no read calls.
#[must_use]
pub fn reading(process: &ProcessUse) -> f64 {
    process.storage_bytes_per_s.unwrap_or(0.0).max(process.call_bytes_per_s.unwrap_or(0.0))
}

/// Whether a process can read without a trace: direct reads of cuFile are in no counter of a process.
fn may_read_unseen(process: &ProcessUse) -> bool {
    process.cufile.is_some() && process.route != SeenRoute::Compat
}

/// Whether no counter of a process's reads is known: there is one sample only, or the kernel denies them.
const fn is_uncounted(process: &ProcessUse) -> bool {
    process.storage_bytes_per_s.is_none() && process.call_bytes_per_s.is_none()
}

/// The reads of one process.
fn reads_of(process: &ProcessUse) -> String {
    let name = format!("{} ({})", process.name, process.pid);
    match reading(process) {
        bytes_per_s if bytes_per_s > LEAST_READ => {
            format!("{name} reads {}; seen from outside: {}.", rate(bytes_per_s), method(process.route))
        }
        _ if is_uncounted(process) => format!("{name}: its read rate is not known."),
        _ if may_read_unseen(process) => format!("{name}: visible reads below 1 MB/s; direct reads are not counted."),
        _ => format!("{name} reads less than 1 MB/s."),
    }
}

/// The reads of one process, or of the busiest one.
#[must_use]
pub fn reading_now(sample: &SystemSample, opened: Option<&ProcessUse>) -> String {
    let busiest = sample.processes.iter().max_by(|a, b| reading(a).total_cmp(&reading(b)));
    if let Some(process) = opened.or(busiest.filter(|process| reading(process) > LEAST_READ)) {
        return reads_of(process);
    }
    let read = sample.disks.iter().filter_map(|disk| disk.read_bytes_per_s).fold(0.0, f64::max);
    let none = if sample.not_seen() == 0 { "No process" } else { "No examined process" };
    let number = sample.processes.len() as u64;
    let (processes, uses) = (plural_es(number, "process"), verb(number, "uses", "use"));
    match number {
        0 if read > LEAST_READ => {
            format!("{none} uses CUDA or cuFile; busiest disk: {}.", rate(read))
        }
        0 => format!("{none} uses CUDA or cuFile, and no disk is read."),
        _ if sample.processes.iter().all(is_uncounted) => {
            format!("{processes} {uses} CUDA or cuFile; the read rate is not known.")
        }
        _ if sample.processes.iter().any(may_read_unseen) => {
            format!("{processes}: visible reads below 1 MB/s; direct reads are not counted.")
        }
        1 => "1 process uses CUDA or cuFile; it reads less than 1 MB/s.".to_owned(),
        _ => format!("{processes} use CUDA or cuFile; none reads 1 MB/s."),
    }
}

/// The position in an open file with its size, and the share before it. Positioned reads do not move the position, so
/// at the beginning of a file it says nothing about reads, and only the size is shown.
#[must_use]
pub fn position(file: &OpenFile) -> (String, Option<f64>) {
    match (file.offset, file.bytes) {
        (0, Some(all)) => (bytes(all), None),
        (0, None) => (String::new(), None),
        (at, Some(all)) => (format!("{} of {}", bytes(at), bytes(all)), (all > 0).then(|| at as f64 / all as f64)),
        (at, None) => (format!("at {}", bytes(at)), None),
    }
}

/// The libraries and the owner of a process.
#[must_use]
pub fn libraries(process: &ProcessUse) -> String {
    let libraries = match (process.cuda, process.cufile.as_deref()) {
        (true, Some(cufile)) => format!("libcuda and {cufile} mapped"),
        (false, Some(cufile)) => format!("{cufile} mapped, libcuda not"),
        _ => "libcuda mapped, no libcufile".to_owned(),
    };
    let owner = process.uid.map_or_else(String::new, |uid| format!(", user {uid}"));
    format!("{libraries}{owner}")
}

/// The inferred route or access of a process's reads, with the evidence.
#[must_use]
pub fn seems(process: &ProcessUse) -> String {
    let seen = match process.route {
        SeenRoute::Unknown => "It is not known how it reads",
        SeenRoute::NvidiaFs | SeenRoute::Cufile => "It can read with cuFile",
        SeenRoute::Compat => "Route compat",
        SeenRoute::Direct => "It seems to read with O_DIRECT",
        SeenRoute::Mapped => "It seems to read mapped files",
        SeenRoute::Cached => "It seems to read through the page cache",
    };
    let no_proof = match process.route {
        SeenRoute::Direct | SeenRoute::Mapped | SeenRoute::Cached => " (seen from outside, no proof)",
        _ => "",
    };
    format!("{seen}: {}{no_proof}.", evidence(process))
}

/// The evidence for the route of a process's reads, or for their access.
#[must_use]
pub fn evidence(process: &ProcessUse) -> String {
    let files = |n: usize| if n == 1 { "one file".to_owned() } else { format!("{n} files") };
    let direct = process.files.iter().filter(|file| file.direct).count();
    let cached = process.files.len() - direct;
    let library = process.cufile.as_ref().map(|library| format!("{library} is mapped"));
    let log = process.log_open.then(|| "cufile.log is open".to_owned());
    let of_direct = (direct > 0).then(|| format!("{} open with O_DIRECT", files(direct)));
    let parts = match process.route {
        SeenRoute::Direct => [of_direct, Some("no cuFile".to_owned()), None, None],
        SeenRoute::Mapped => [Some(format!("{} mapped", files(process.mapped.len()))), None, None, None],
        SeenRoute::Cached => [Some(format!("{} open without O_DIRECT", files(cached))), None, None, None],
        SeenRoute::NvidiaFs => [library, Some("/dev/nvidia-fs is open".to_owned()), None, None],
        SeenRoute::Cufile => [library, log, of_direct, Some("/dev/nvidia-fs is not open: P2PDMA or compat".to_owned())],
        SeenRoute::Compat => [library, log, of_direct, process.compat_proof.map(|proof| route_proof(proof).to_owned())],
        SeenRoute::Unknown if process.files_readable => {
            [library, Some("no model file is open or mapped".to_owned()), None, None]
        }
        SeenRoute::Unknown => {
            [library, Some("its open files need the rights of its owner or of root".to_owned()), None, None]
        }
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The tables of processes and GPUs. Processes with cuFile are first.
#[must_use]
pub fn tables(sample: &SystemSample) -> Vec<Table> {
    let mut processes: Vec<&ProcessUse> = sample.processes.iter().collect();
    processes.sort_by_key(|process| (process.cufile.is_none(), process.pid));
    let per_second = |read: Option<f64>| or_gap(read.map(|bytes_per_s| rate(bytes_per_s.max(0.0))));
    let rows = processes.iter().map(|process| {
        vec![
            process.pid.to_string(),
            process.name.clone(),
            process.cufile.clone().unwrap_or_else(|| GAP.to_owned()),
            method(process.route).to_owned(),
            per_second(process.storage_bytes_per_s),
            per_second(process.call_bytes_per_s),
            or_gap(process.gpu_memory_bytes.map(bytes)),
            or_gap(process.page_cache_bytes.map(bytes)),
            or_gap(process.cpu_percent.map(|percent| format!("{percent:.0} %"))),
        ]
    });
    let heads = vec![
        number("process"),
        text("name"),
        text("libcufile"),
        text("seen from outside"),
        number("from storage"),
        number("by calls"),
        number("GPU memory"),
        number("page cache"),
        number("CPU"),
    ];
    let note =
        "Inferred from open files, mappings, settings and logs; only 'gds-top watch' can prove a route.".to_owned();
    let mut tables = Vec::new();
    if !processes.is_empty() {
        tables.push(Table { title: "Processes".to_owned(), note, heads, rows: rows.collect() });
    }
    let with_cufile = processes.iter().filter(|process| process.cufile.is_some());
    let rows: Vec<_> = with_cufile.map(|process| vec![process.pid.to_string(), evidence(process)]).collect();
    if !rows.is_empty() {
        let heads = vec![number("process"), text("evidence")];
        tables.push(Table { title: "Processes with cuFile".to_owned(), note: String::new(), heads, rows });
    }
    tables.extend(hidden(sample));
    let gpus: Vec<_> = (sample.gpus.iter())
        .map(|gpu| {
            vec![
                gpu.index.to_string(),
                gpu.name.clone(),
                or_gap(gpu.memory_used_bytes.map(bytes)),
                or_gap(gpu.memory_total_bytes.map(bytes)),
                per_second(gpu.rx_bytes_per_s),
                or_gap(gpu.bar1_used_bytes.map(bytes)),
            ]
        })
        .collect();
    if !gpus.is_empty() {
        let heads = vec![
            number("GPU"),
            text("name"),
            number("memory in use"),
            number("memory"),
            number("received by PCIe"),
            number("BAR1 in use"),
        ];
        tables.push(Table { title: "GPUs".to_owned(), note: String::new(), heads, rows: gpus });
    }
    tables
}

/// Maximum number of rows of processes that could not be examined.
const HIDDEN_ROWS: usize = 10;

/// The processes that could not be examined, and the reasons.
fn hidden(sample: &SystemSample) -> Option<Table> {
    let heads = vec![number("process"), text("name"), number("user"), text("reason")];
    let rows: Vec<_> = (sample.hidden.iter().take(HIDDEN_ROWS))
        .map(|process| {
            let user = or_gap(process.uid.map(|uid| uid.to_string()));
            vec![process.pid.to_string(), process.name.clone(), user, process.denied.clone()]
        })
        .collect();
    let more = sample.not_seen().saturating_sub(rows.len() as u64);
    let note = match more {
        0 => String::new(),
        more => {
            let are = verb(more, "is", "are");
            format!("{} {are} not shown; --json lists the first 256.", plural_es(more, "more process"))
        }
    };
    (!rows.is_empty()).then(|| Table { title: "Not examined".to_owned(), note, heads, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{DiskUse, HiddenProcess, RouteProof};

    #[test]
    fn a_mapped_library_is_not_a_read_and_an_inferred_route_is_named() {
        let process = |route, direct: &[bool]| ProcessUse {
            route,
            cufile: Some("libcufile.so.0".to_owned()),
            files: direct.iter().map(|direct| OpenFile { direct: *direct, ..OpenFile::default() }).collect(),
            files_readable: true,
            ..ProcessUse::default()
        };
        assert!(
            seems(&process(SeenRoute::Unknown, &[]))
                .ends_with("libcufile.so.0 is mapped, no model file is open or mapped.")
        );
        let (log_open, compat_proof) = (true, Some(RouteProof::NoDirectRoute));
        let compat = ProcessUse { log_open, compat_proof, ..process(SeenRoute::Compat, &[true, true, false]) };
        assert_eq!(method(compat.route), "compat, inferred");
        let parts = ["libcufile.so.0 is mapped", "cufile.log is open", "2 files open with O_DIRECT"];
        let expected = format!("{}, {}", parts.join(", "), route_proof(RouteProof::NoDirectRoute));
        assert_eq!(evidence(&compat), expected);
        assert!(evidence(&process(SeenRoute::Cufile, &[true])).ends_with("P2PDMA or compat"));
        assert!(seems(&process(SeenRoute::Direct, &[true])).ends_with("no proof)."));
        assert_eq!(evidence(&process(SeenRoute::Cached, &[true, false])), "one file open without O_DIRECT");
    }

    #[test]
    fn a_process_that_can_read_directly_is_not_said_to_read_nothing() {
        let process = |route, rate| ProcessUse {
            pid: 7,
            name: "spin".to_owned(),
            cufile: Some("libcufile.so.0".to_owned()),
            route,
            storage_bytes_per_s: rate,
            ..ProcessUse::default()
        };
        for (seen, words) in [
            (process(SeenRoute::Unknown, Some(0.0)), "direct reads are not counted"),
            (process(SeenRoute::Compat, Some(0.0)), "less than 1 MB/s"),
            (process(SeenRoute::Compat, None), "rate is not known"),
            (process(SeenRoute::Compat, Some(5e7)), "compat, inferred"),
            (process(SeenRoute::Cufile, Some(5e7)), "p2pdma or compat"),
        ] {
            let sample = SystemSample { processes: vec![seen.clone()], ..SystemSample::default() };
            let (now, of_it) = (reading_now(&sample, None), reading_now(&sample, Some(&seen)));
            assert!(now.contains(words) && of_it.contains(words), "{now} {of_it}");
            assert!([&now, &of_it].iter().all(|words| words.split_whitespace().count() <= 12), "{now} {of_it}");
        }
    }

    #[test]
    fn each_headline_without_a_busy_process_has_at_most_twelve_words() {
        let uses = |storage_bytes_per_s| ProcessUse { cuda: true, storage_bytes_per_s, ..ProcessUse::default() };
        let (idle, uncounted) = (uses(Some(0.0)), uses(None));
        let disk = DiskUse { read_bytes_per_s: Some(3.16e8), ..DiskUse::default() };
        for processes in [vec![], vec![idle.clone()], vec![uncounted.clone()], vec![idle, uncounted]] {
            for (disks, hidden_processes) in [(vec![], 0), (vec![disk.clone()], 0), (vec![disk.clone()], 3)] {
                let sample =
                    SystemSample { processes: processes.clone(), disks, hidden_processes, ..SystemSample::default() };
                let now = reading_now(&sample, None);
                assert!(now.split_whitespace().count() <= 12, "{now}");
            }
        }
    }

    #[test]
    fn the_beginning_of_a_file_is_not_shown_as_a_position() {
        let shown = |offset, bytes| position(&OpenFile { offset, bytes, ..OpenFile::default() });
        assert_eq!(shown(0, Some(4 << 20)), ("4 MiB".to_owned(), None));
        assert_eq!(shown(1 << 20, Some(4 << 20)), ("1 MiB of 4 MiB".to_owned(), Some(0.25)));
        assert_eq!(shown(1 << 20, Some(0)).1, None);
        assert_eq!(shown(0, None), (String::new(), None));
    }

    #[test]
    fn processes_with_cufile_come_first_and_missing_values_are_gaps() {
        let process = |pid, cufile: Option<&str>| ProcessUse {
            pid,
            cuda: true,
            cufile: cufile.map(str::to_owned),
            ..ProcessUse::default()
        };
        let processes = vec![process(1, None), process(2, Some("libcufile.so.0"))];
        let sample = SystemSample { processes, hidden_processes: 3, ..SystemSample::default() };
        let tables = tables(&sample);
        assert_eq!((tables.len(), tables[1].rows.len()), (2, 1));
        assert_eq!(tables[0].rows[0][0], "2");
        assert_eq!(tables[0].rows[1][4..], [GAP; 5]);
        assert_eq!(answer(&sample).headline, "At least 1 process has libcufile mapped.");
        let all_seen = SystemSample { hidden_processes: 0, ..sample.clone() };
        assert_eq!(answer(&all_seen).headline, "1 process has libcufile mapped.");
        let none = |hidden_processes| SystemSample { hidden_processes, ..SystemSample::default() };
        assert_eq!(answer(&none(0)).headline, "No process has libcufile mapped.");
        assert_eq!(answer(&none(3)).headline, "No process that could be examined has libcufile mapped.");
        assert_ne!(reading_now(&none(0), None), reading_now(&none(3), None));
        assert_eq!(
            answer(&sample).conditions,
            "3 processes of other users cannot be examined. Run as root to see them."
        );
        let by_root = SystemSample { by_root: true, hidden_processes: 1, ..SystemSample::default() };
        assert_eq!(answer(&by_root).conditions, "The kernel denies access to the mappings of 1 process.");
        assert!(super::tables(&by_root).is_empty());
        let silent = SystemSample { unexamined_processes: 1, hidden_processes: 0, ..by_root.clone() };
        assert_eq!(answer(&silent).headline, "No process that could be examined has libcufile mapped.");
        assert_eq!(
            answer(&silent).conditions,
            "1 process was not examined: no answer in time, or a limit was reached."
        );
        let both = SystemSample { unexamined_processes: 2, ..by_root.clone() };
        assert!(
            answer(&both)
                .conditions
                .ends_with("1 process. 2 processes were not examined: no answer in time, or a limit was reached.")
        );
        let denied =
            |pid| HiddenProcess { pid, denied: "maps: Permission denied".to_owned(), ..HiddenProcess::default() };
        let by_root = SystemSample { hidden: (1..20).map(denied).collect(), hidden_processes: 19, ..by_root };
        let [table] = &super::tables(&by_root)[..] else { unreachable!("one table") };
        assert_eq!((table.rows.len(), table.note.starts_with("9 more processes are")), (HIDDEN_ROWS, true));
        assert_eq!(table.rows[0], ["1", "", GAP, "maps: Permission denied"]);
    }
}
