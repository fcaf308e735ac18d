//! The processes that use cuFile and GPUs now, as an answer and as tables.

use super::view::{Answer, GAP, Table, number, or_gap, text};
use crate::core::units::{bytes, plural_es, rate, verb};
use crate::core::{ProcessUse, SeenRoute, Status, SystemSample};

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

/// The visible facts about the reads of a process, for people.
#[must_use]
pub const fn method(route: SeenRoute) -> &'static str {
    match route {
        SeenRoute::Unknown => "not known",
        SeenRoute::NvidiaFs => "nvidia-fs open",
        // Read calls of the program and those of libcufile are in the same counters.
        SeenRoute::Cufile | SeenRoute::Compat => "libcufile mapped",
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

/// The reads of one process, or of the busiest one.
#[must_use]
pub fn reading_now(sample: &SystemSample, opened: Option<&ProcessUse>) -> String {
    let of = |process: &ProcessUse| {
        let reads = match reading(process) {
            bytes_per_s if bytes_per_s > LEAST_READ => format!("reads {}", rate(bytes_per_s)),
            _ => "reads nothing now".to_owned(),
        };
        format!("{} ({}) {reads}: {}.", process.name, process.pid, process.evidence)
    };
    let busiest = sample.processes.iter().max_by(|a, b| reading(a).total_cmp(&reading(b)));
    if let Some(process) = opened.or(busiest.filter(|process| reading(process) > LEAST_READ)) {
        return of(process);
    }
    let read = sample.disks.iter().filter_map(|disk| disk.read_bytes_per_s).fold(0.0, f64::max);
    let seen = if sample.not_seen() == 0 { "" } else { " that could be examined" };
    match sample.processes.len() {
        0 if read > LEAST_READ => {
            format!("No process{seen} uses CUDA or cuFile; the busiest disk is read at {}.", rate(read))
        }
        0 => format!("No process{seen} uses CUDA or cuFile, and no disk is read."),
        1 => "One process uses CUDA or cuFile; it reads nothing now.".to_owned(),
        n => format!("{n} processes use CUDA or cuFile; none of them reads anything now."),
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

/// The visible facts about the reads of a process, with the evidence.
#[must_use]
pub fn seems(process: &ProcessUse) -> String {
    let seen = match process.route {
        SeenRoute::Unknown => "It is not known how it reads",
        SeenRoute::NvidiaFs | SeenRoute::Cufile | SeenRoute::Compat => "No cuFile read was seen",
        SeenRoute::Direct => "It seems to read with O_DIRECT",
        SeenRoute::Mapped => "It seems to read mapped files",
        SeenRoute::Cached => "It seems to read through the page cache",
    };
    let no_proof = match process.route {
        SeenRoute::Direct | SeenRoute::Mapped | SeenRoute::Cached => " (seen from outside, no proof)",
        _ => "",
    };
    format!("{seen}: {}{no_proof}.", process.evidence)
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
    let evidence = processes.iter().filter(|process| process.cufile.is_some());
    let evidence: Vec<_> = evidence.map(|process| vec![process.pid.to_string(), process.evidence.clone()]).collect();
    if !evidence.is_empty() {
        let heads = vec![number("process"), text("evidence")];
        tables.push(Table { title: "Processes with cuFile".to_owned(), note: String::new(), heads, rows: evidence });
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
        more => format!("{} more not shown; --json lists the first 256.", plural_es(more, "process")),
    };
    (!rows.is_empty()).then(|| Table { title: "Not examined".to_owned(), note, heads, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::HiddenProcess;

    #[test]
    fn a_mapped_library_is_no_read_and_an_unknown_way_has_a_plain_phrase() {
        let process = |route, evidence: &str| ProcessUse { route, evidence: evidence.to_owned(), ..Default::default() };
        assert_eq!(
            seems(&process(SeenRoute::Unknown, "no file is open")),
            "It is not known how it reads: no file is open."
        );
        for route in [SeenRoute::Cufile, SeenRoute::Compat] {
            let said = seems(&process(route, "libcufile.so.0 is mapped"));
            assert_eq!(
                (method(route), said.as_str()),
                ("libcufile mapped", "No cuFile read was seen: libcufile.so.0 is mapped.")
            );
        }
        assert!(seems(&process(SeenRoute::Direct, "one file open with O_DIRECT")).ends_with("no proof)."));
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
        assert_eq!((table.rows.len(), table.note.starts_with("9 processes")), (HIDDEN_ROWS, true));
        assert_eq!(table.rows[0], ["1", "", GAP, "maps: Permission denied"]);
    }
}
