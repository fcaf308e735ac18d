//! The tables of a watched program.

use super::file::{is_of_cufile, name, proof, route};
use crate::core::units::{self, bytes, count, duration, plural};
use crate::core::{AttachedProcess, WatchReport};
use crate::present::view::{Table, number, text};

/// Maximum number of rows of files or tensors in a terminal.
const ROWS: usize = 20;
/// If a file without cuFile has at least this many bytes, a terminal shows no smaller ones.
const LARGE_FILE: u64 = 1 << 20;

/// The tables. A terminal shows only the first rows of long tables.
#[must_use]
pub fn tables(report: &WatchReport, full: bool) -> Vec<Table> {
    let most = if full { usize::MAX } else { ROWS };
    let mut tables = Vec::new();
    if !report.calls.is_empty() {
        let note = if report.uncounted == 0 {
            "Every call is counted, of all processes.".to_owned()
        } else {
            format!("{} more are not counted: no memory was left for their threads.", plural(report.uncounted, "call"))
        };
        let heads =
            vec![text("function"), number("calls"), number("errors"), number("bytes"), number("time"), number("mean")];
        let rows = report.calls.iter().map(|call| {
            vec![
                call.function.clone(),
                count(call.count),
                count(call.errors),
                if call.bytes > 0 { bytes(call.bytes) } else { String::new() },
                duration(call.total_ns),
                duration(call.total_ns / call.count.max(1)),
            ]
        });
        tables.push(Table { title: "Calls".to_owned(), note, heads, rows: rows.collect() });
    }
    let by_cufile: Vec<_> = report.files.iter().filter(|file| is_of_cufile(file)).collect();
    if !by_cufile.is_empty() {
        let heads = vec![
            text("file"),
            text("route"),
            number("reads"),
            number("read"),
            number("writes"),
            number("written"),
            number("errors"),
            text("proof"),
        ];
        let rows = by_cufile.iter().take(most).map(|file| {
            vec![
                name(file),
                route(file),
                count(file.reads.count),
                bytes(file.reads.bytes),
                count(file.writes.count),
                bytes(file.writes.bytes),
                count(file.reads.errors + file.writes.errors + file.failed_registrations),
                proof(file.proof).to_owned(),
            ]
        });
        let note = left_out(by_cufile.len(), most, "file");
        tables.push(Table { title: "Files".to_owned(), note, heads, rows: rows.collect() });
    }
    tables.extend(other_calls(report));
    tables.extend(other_files(report, most));
    tables.extend(report.attached.as_ref().and_then(|process| open_files(process, most)));
    tables.extend(sizes(report));
    tables.extend(tensors(report, most));
    tables
}

fn other_calls(report: &WatchReport) -> Option<Table> {
    let heads = vec![text("function"), number("calls"), number("errors"), number("bytes"), number("time")];
    let rows: Vec<_> = (report.other_calls.iter())
        .map(|call| {
            let (calls, errors) = (count(call.count), count(call.errors));
            vec![call.function.clone(), calls, errors, bytes(call.bytes), duration(call.total_ns)]
        })
        .collect();
    let note = "Reads and mappings of files of 64 KiB or more by libc, and copies by libcuda.".to_owned();
    (!rows.is_empty()).then(|| Table { title: "Other calls".to_owned(), note, heads, rows })
}

fn other_files(report: &WatchReport, most: usize) -> Option<Table> {
    let heads = vec![
        text("file without cuFile"),
        number("reads"),
        number("read"),
        number("time"),
        number("mapped"),
        number("touched"),
    ];
    let all: Vec<_> = report.files.iter().filter(|file| file.plain.count + file.plain.mappings > 0).collect();
    // Next to a model, the modules of an interpreter do not matter.
    let large =
        all.iter().filter(|file| file.plain.bytes.saturating_add(file.plain.touched_bytes) >= LARGE_FILE).count();
    let most = if most == usize::MAX || large == 0 { most } else { most.min(large) };
    let rows: Vec<_> = (all.iter().take(most))
        .map(|file| {
            let plain = &file.plain;
            let mapped = |of: u64| if plain.mappings > 0 { bytes(of) } else { String::new() };
            vec![
                name(file),
                count(plain.count),
                bytes(plain.bytes),
                duration(plain.total_ns),
                mapped(plain.mapped_bytes),
                mapped(plain.touched_bytes),
            ]
        })
        .collect();
    let note = format!("Touched bytes are inferred from page tables. {}", left_out(all.len(), most, "file"));
    (!rows.is_empty()).then(|| Table { title: "Files without cuFile".to_owned(), note, heads, rows })
}

fn left_out(all: usize, most: usize, thing: &str) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        1 => format!("1 more {thing} is in the JSON report."),
        more => format!("{} more {thing}s are in the JSON report.", count(more as u64)),
    }
}

fn open_files(process: &AttachedProcess, most: usize) -> Option<Table> {
    let heads = vec![text("open or mapped file"), number("descriptors"), text("O_DIRECT"), text("mapped")];
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let rows: Vec<_> = (process.files.iter().take(most))
        .map(|file| vec![file.path.clone(), count(file.descriptors), yes(file.o_direct), yes(file.mapped)])
        .collect();
    let note = left_out(process.files.len(), most, "file");
    (!rows.is_empty()).then(|| Table { title: "Files in use".to_owned(), note, heads, rows })
}

fn sizes(report: &WatchReport) -> Option<Table> {
    let heads = vec![text("size up to"), number("reads"), number("mean"), number("longest")];
    let rows = report.sizes.iter().map(|size| {
        vec![
            if size.up_to_bytes == u64::MAX { "larger".to_owned() } else { bytes(size.up_to_bytes) },
            count(size.count),
            duration(size.total_ns / size.count.max(1)),
            duration(size.longest_ns),
        ]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table { title: "Reads by size".to_owned(), note: String::new(), heads, rows })
}

fn tensors(report: &WatchReport, most: usize) -> Option<Table> {
    let all: Vec<_> = report.files.iter().flat_map(|file| &file.tensors).collect();
    if all.is_empty() {
        return None;
    }
    let complete = all.iter().filter(|tensor| tensor.bytes >= tensor.size).count() as u64;
    let of: u64 = units::sum(report.files.iter().map(|file| file.tensors_of_file));
    let note = format!(
        "{} of {} were read, {} of them completely. {}",
        count(all.len() as u64),
        plural(of, "tensor"),
        count(complete),
        left_out(all.len(), most, "tensor")
    );
    let heads = vec![text("tensor"), number("size"), number("reads"), number("read")];
    let rows = all
        .iter()
        .take(most)
        .map(|tensor| vec![tensor.name.clone(), bytes(tensor.size), count(tensor.reads), bytes(tensor.bytes)]);
    Some(Table { title: "Tensors".to_owned(), note, heads, rows: rows.collect() })
}
