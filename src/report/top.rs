//! The processes that use cuFile and GPUs now, as JSON, Prometheus text and plain text.

use super::prom::{Family, Series, gauge};
use super::section::Section;
use super::text;
use crate::core::{ProcessUse, SystemSample};
use crate::present::top;
use crate::present::view::{Answer, Table};
use serde_json::{Value, json};

/// One line of JSON. Its schema is `schema/top.schema.json`.
#[must_use]
pub fn top_json(sample: &SystemSample) -> String {
    let processes: Vec<Value> = (sample.processes.iter())
        .map(|process| {
            json!({
                "pid": process.pid,
                "name": process.name,
                "command": process.command,
                "uid": process.uid,
                "libcuda": process.cuda,
                "libcufile": process.cufile,
                "route": top::route(process.route),
                "route_proven": false,
                "evidence": top::evidence(process),
                "cpu_percent": process.cpu_percent,
                "threads": process.threads,
                "resident_bytes": process.rss_bytes,
                "page_cache_bytes": process.page_cache_bytes,
                "gpu_memory_bytes": process.gpu_memory_bytes,
                "storage_bytes_per_s": process.storage_bytes_per_s,
                "call_bytes_per_s": process.call_bytes_per_s,
                "mapped_files": process.mapped,
                "open_files": process.files,
                "files_readable": process.files_readable,
            })
        })
        .collect();
    let line = json!({
        "schema_version": 1,
        "processes": processes,
        "gpus": sample.gpus,
        "gpu_problem": sample.gpu_problem,
        "disks": sample.disks,
        "hidden_processes": sample.hidden_processes,
        "unexamined_processes": sample.unexamined_processes,
        "hidden": sample.hidden,
    });
    let mut out = Vec::new();
    // Writing into memory cannot fail.
    let _ = crate::text::write_json(&mut out, &line);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a value of a process, if it is known.
type Reading = fn(&ProcessUse) -> Option<f64>;

const FOUND: Family = gauge("gds_top_processes_with_libcufile", &[], "Processes that have libcufile mapped.");
const HIDDEN: Family = gauge(
    "gds_top_processes_hidden",
    &[],
    "Processes whose mappings cannot be examined; above 0, the other numbers are lower bounds.",
);
const UNEXAMINED: Family = gauge(
    "gds_top_processes_unexamined",
    &[],
    "Processes that did not answer in time, or for which a limit was reached; above 0, the other numbers are lower bounds.",
);
const INFO: Family = gauge(
    "gds_top_process_info",
    &["pid", "name", "libcufile", "route"],
    "A process with libcufile or libcuda; always 1. The route is inferred.",
);
const PROCESS: &[&str] = &["pid", "name"];

/// The families about processes with their values.
const READINGS: [(Family, Reading); 5] = [
    (
        gauge("gds_top_process_storage_bytes_per_second", PROCESS, "Bytes that storage delivers to a process."),
        |process| process.storage_bytes_per_s,
    ),
    (
        gauge("gds_top_process_call_bytes_per_second", PROCESS, "Bytes that a process reads by system calls."),
        |process| process.call_bytes_per_s,
    ),
    (gauge("gds_top_process_gpu_memory_bytes", PROCESS, "GPU memory of a process."), |process| {
        process.gpu_memory_bytes.map(|bytes| bytes as f64)
    }),
    (gauge("gds_top_process_page_cache_bytes", PROCESS, "Page cache that a process has mapped."), |process| {
        process.page_cache_bytes.map(|bytes| bytes as f64)
    }),
    (gauge("gds_top_process_resident_bytes", PROCESS, "Resident memory of a process."), |process| {
        process.rss_bytes.map(|bytes| bytes as f64)
    }),
];

/// The families of `top --prom`.
pub fn top_families() -> impl Iterator<Item = Family> {
    [FOUND, HIDDEN, UNEXAMINED, INFO].into_iter().chain(READINGS.map(|(family, _)| family))
}

/// The sample in the text format of Prometheus.
#[must_use]
pub fn top_metrics(sample: &SystemSample) -> String {
    let found = sample.processes.iter().filter(|process| process.cufile.is_some()).count();
    let mut series = Series::default();
    series.put::<&str>(&FOUND, &[], found as f64);
    series.put::<&str>(&HIDDEN, &[], f64::from(sample.hidden_processes));
    series.put::<&str>(&UNEXAMINED, &[], f64::from(sample.unexamined_processes));
    for process in &sample.processes {
        let (pid, name) = (&*process.pid.to_string(), process.name.as_str());
        let libcufile = process.cufile.as_deref().unwrap_or("");
        series.put(&INFO, &[pid, name, libcufile, top::route(process.route)], 1.0);
        for (family, reading) in &READINGS {
            series.put(family, &[pid, name], reading(process));
        }
    }
    let mut out = Vec::new();
    // Writing into memory cannot fail.
    let _ = series.write(top_families(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// An answer and tables as text.
#[must_use]
pub fn top_text(answer: &Answer, tables: Vec<Table>, width: u16, colour: bool) -> String {
    let sections: Vec<Section> = tables.into_iter().map(Section::from).collect();
    text::lines(std::slice::from_ref(answer), &sections, width, colour)
}
