//! The processes that use cuFile and GPUs now, as JSON, Prometheus text and plain text.

use super::prom::quoted;
use super::section::Section;
use super::text;
use crate::core::{ProcessUse, SystemSample};
use crate::present::top;
use crate::present::view::{Answer, Table};
use serde_json::{Value, json};
use std::fmt::Write as _;

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
                "evidence": process.evidence,
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
        "hidden": sample.hidden,
    });
    let mut out = Vec::new();
    // Writing into memory cannot fail.
    let _ = crate::text::write_json(&mut out, &line);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a value of a process, if it is known.
type Reading = fn(&ProcessUse) -> Option<f64>;

/// Name, help text and value of each metric family about processes.
const FAMILIES: [(&str, &str, Reading); 5] = [
    ("gds_top_process_storage_bytes_per_second", "Bytes that storage delivers to a process.", |p| {
        p.storage_bytes_per_s
    }),
    ("gds_top_process_call_bytes_per_second", "Bytes that read calls of a process return.", |p| p.call_bytes_per_s),
    ("gds_top_process_gpu_memory_bytes", "GPU memory of a process.", |p| p.gpu_memory_bytes.map(|bytes| bytes as f64)),
    ("gds_top_process_page_cache_bytes", "Page cache that a process has mapped.", |p| {
        p.page_cache_bytes.map(|bytes| bytes as f64)
    }),
    ("gds_top_process_resident_bytes", "Resident memory of a process.", |p| p.rss_bytes.map(|bytes| bytes as f64)),
];

/// The sample in the text format of Prometheus.
#[must_use]
pub fn top_metrics(sample: &SystemSample) -> String {
    let mut out = String::new();
    let family = |out: &mut String, name: &str, help: &str| {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
    };
    family(&mut out, "gds_top_processes_with_libcufile", "Processes that have libcufile mapped.");
    let found = sample.processes.iter().filter(|process| process.cufile.is_some()).count();
    let _ = writeln!(out, "gds_top_processes_with_libcufile {found}");
    family(&mut out, "gds_top_process_info", "A process with libcufile or libcuda; always 1. The route is inferred.");
    for process in &sample.processes {
        let _ = writeln!(
            out,
            "gds_top_process_info{{pid=\"{}\",name={},libcufile={},route=\"{}\"}} 1",
            process.pid,
            quoted(&process.name),
            quoted(process.cufile.as_deref().unwrap_or("")),
            top::route(process.route)
        );
    }
    for (name, help, reading) in FAMILIES {
        let known: Vec<_> = sample.processes.iter().filter_map(|p| Some((p, reading(p)?))).collect();
        if known.is_empty() {
            continue;
        }
        family(&mut out, name, help);
        for (process, value) in known {
            let _ = writeln!(out, "{name}{{pid=\"{}\",name={}}} {value}", process.pid, quoted(&process.name));
        }
    }
    out
}

/// An answer and tables as text.
#[must_use]
pub fn top_text(answer: &Answer, tables: Vec<Table>, width: u16, colour: bool) -> String {
    let sections: Vec<Section> = tables.into_iter().map(Section::from).collect();
    text::lines(std::slice::from_ref(answer), &sections, width, colour)
}
