//! The result of watching a program: answers, tables and advice.

use super::view::{Answer, Table, number, text};
use crate::analysis::{WatchAdvice, is_proven_direct, watch_advice};
use crate::core::units::{self, bytes, count, duration, plural};
use crate::core::{
    AttachedProcess, DriverProperties, ProgramEnd, Route, RouteProof, Status, WatchReport, WatchedFailure, WatchedFile,
};

/// Maximum number of rows of files or tensors in a terminal.
const ROWS: usize = 20;

/// The answer to the question which route the program's transfers take.
#[must_use]
pub fn answer(report: &WatchReport) -> Answer {
    if let Some(process) = report.attached.as_ref().filter(|process| !process.recorded) {
        return attached(process);
    }
    let reads: u64 = units::sum(report.files.iter().map(|file| file.reads.count));
    let writes: u64 = units::sum(report.files.iter().map(|file| file.writes.count));
    if report.processes == 0 {
        return Answer::new(
            Status::Warn,
            "The program could not be recorded.",
            "It is statically linked, uses another libc than glibc or runs with elevated rights.",
        );
    }
    let plain = plain_bytes(report);
    let read = if plain > 0 { format!(" {} read without it.", bytes(plain)) } else { String::new() };
    if report.libraries.is_empty() {
        let conditions = format!("None of {} loaded libcufile.{read}", plural_es(report.processes, "process"));
        return Answer::new(Status::Info, "The program does not use cuFile.", conditions);
    }
    if reads + writes == 0 {
        let headline = "The program loaded libcufile but transferred nothing with it.";
        return Answer::new(Status::Info, headline, read.trim_start().to_owned());
    }
    let moved: u64 = units::sum(report.files.iter().map(|file| file.reads.bytes.saturating_add(file.writes.bytes)));
    let conditions = format!(
        "{} and {}, {} in {}.",
        plural(reads, "read"),
        plural(writes, "write"),
        bytes(moved),
        duration(report.wall_ns)
    );
    let used = || report.files.iter().filter(|file| file.reads.count + file.writes.count > 0);
    let first = used().next().map_or(Route::None, |file| file.route);
    let one_route = used().all(|file| file.route == first);
    match (is_proven_direct(report), first) {
        (Some(true), route) if one_route => Answer::new(
            Status::Pass,
            format!("All cuFile transfers take the direct route {route}, proven."),
            conditions,
        ),
        (Some(true), _) => Answer::new(Status::Pass, "All cuFile transfers take direct routes, proven.", conditions),
        (_, Route::Compat) if one_route => {
            let proven = if used().all(|file| file.proven) { "proven" } else { "inferred" };
            let headline = format!("The cuFile transfers go through host memory (compat), {proven}.");
            Answer::new(Status::Warn, headline, conditions)
        }
        (_, Route::None) if used().all(|file| file.proof == RouteProof::AllFailed) => {
            Answer::new(Status::Fail, "All cuFile transfers failed.", conditions)
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

/// Number of bytes that were read from files without cuFile, if these reads were recorded.
fn plain_bytes(report: &WatchReport) -> u64 {
    units::sum(report.files.iter().map(|file| file.plain.bytes.saturating_add(file.plain.touched_bytes)))
}

/// The answer about a running process, from procfs. It does not prove a route.
fn attached(process: &AttachedProcess) -> Answer {
    let start = "Start it with 'gds-top watch -- COMMAND' to see its calls.";
    match (&process.libcufile, process.readable) {
        (Some(_), _) => {
            let why = process
                .not_recorded
                .as_deref()
                .map_or_else(String::new, |why| format!("Calls are not recorded: {why}. "));
            let headline = "The process has libcufile loaded; its route is not proven.";
            Answer::new(Status::Info, headline, why + start)
        }
        (None, true) => Answer::new(Status::Info, "The process does not have libcufile loaded.", ""),
        (None, false) => Answer::new(
            Status::Warn,
            "The process could not be examined.",
            "Its mappings belong to another user. Run gds-top as that user or as root.",
        ),
    }
}

/// The answer about the end of the program, if the program failed.
#[must_use]
pub fn end(report: &WatchReport) -> Option<Answer> {
    let headline = match report.ended? {
        ProgramEnd::Status(0) | ProgramEnd::Unknown => return None,
        ProgramEnd::Status(code) => format!("The program failed with exit status {code}."),
        ProgramEnd::Signal(signal) => format!("The program was ended by signal {signal}."),
    };
    Some(Answer::new(Status::Fail, headline, ""))
}

/// Facts about the program, each with a label.
#[must_use]
pub fn facts(report: &WatchReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![("command", report.command.join(" ")), ("time", duration(report.wall_ns))];
    if let Some(process) = &report.attached {
        let gap = || super::view::GAP.to_owned();
        facts.push(("process", process.pid.to_string()));
        facts.push(("libcufile", process.libcufile.clone().unwrap_or_else(gap)));
        facts.push(("read calls", process.read_call_bytes.map_or_else(gap, bytes)));
        facts.push(("storage", process.storage_read_bytes.map_or_else(gap, bytes)));
        let counted = process.nvfs_reads.map(|n| format!("{} of all processes", plural(n, "read")));
        facts.push(("nvidia-fs", counted.unwrap_or_else(gap)));
        if !process.recorded {
            return facts;
        }
    }
    facts.push(("processes", count(report.processes)));
    facts.push(("threads", format!("{} called cuFile, {} read", count(report.threads), count(report.reading_threads))));
    for library in &report.libraries {
        let version = library.version.map_or_else(String::new, |v| format!(", version {}.{}", v / 1000, v % 1000 / 10));
        let processes = plural_es(library.processes, "process");
        facts.push(("libcufile", format!("{}{version}, loaded by {processes}", library.path)));
    }
    for configuration in report.configurations.iter().filter(|_| !report.libraries.is_empty()) {
        let origin = if configuration.from_environment { ", named by CUFILE_ENV_PATH_JSON" } else { "" };
        let is = if configuration.exists { "" } else { ", does not exist: defaults" };
        facts.push(("cufile.json", format!("{}{origin}{is}", configuration.path)));
    }
    if let Some(properties) = &report.properties {
        facts.push(("driver", driver(properties)));
    }
    if let Some(io) = &report.process_io {
        let requests = match io.io_uring_requests {
            0 => String::new(),
            requests => format!(", at least {}", plural(requests, "request of io_uring")),
        };
        facts.push((
            "input",
            format!(
                "{} by read calls, {} from storage, {}{requests}",
                bytes(io.read_call_bytes),
                bytes(io.storage_read_bytes),
                plural(io.major_faults, "page fault with storage access")
            ),
        ));
    }
    if report.buffers.registered > 0 {
        facts.push((
            "buffers",
            format!(
                "{} in {}, at most {} at a time",
                plural(report.buffers.registered, "registration"),
                duration(report.buffers.total_ns),
                bytes(report.buffers.most_bytes)
            ),
        ));
    }
    if let Some(seen) = report.statistics {
        facts.push((
            "statistics",
            format!(
                "libcufile counted {}, {} and {} of batches; by route: nvfs {}, p2pdma {}, POSIX {}",
                plural(seen.reads, "read"),
                plural(seen.writes, "write"),
                plural_ies(seen.batch_entries, "entr"),
                count(seen.nvfs),
                count(seen.p2pdma),
                count(seen.posix)
            ),
        ));
    }
    facts
}

/// The enabled bits of `dcontrolflags` and `fflags` (see cufile.h).
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

/// Formats a count with a plural in -es: `1 process`, `3 processes`.
fn plural_es(value: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(value), if value == 1 { "" } else { "es" })
}

/// Formats a count with a plural in -ies: `1 entry`, `3 entries`.
fn plural_ies(value: u64, stem: &str) -> String {
    format!("{} {stem}{}", count(value), if value == 1 { "y" } else { "ies" })
}

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

/// Whether cuFile used a file.
#[must_use]
pub fn is_of_cufile(file: &WatchedFile) -> bool {
    file.reads.count + file.writes.count + file.registrations > 0
}

/// The path of a file. If the file contains a chunk of a KV cache, the chunk is named too.
pub(super) fn name(file: &WatchedFile) -> String {
    let Some(kv) = &file.kv else { return file.path.clone() };
    let layer = match &kv.layer {
        Some(layer) if layer.bytes().all(|byte| byte.is_ascii_digit()) => format!(" layer {layer}"),
        Some(layer) => format!(" {layer}"),
        None => String::new(),
    };
    let chunk: String = kv.chunk.chars().take(12).collect();
    format!("{} chunk {chunk}{layer}: {}", kv.system, file.path)
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
    let note = format!(
        "Touched bytes are inferred from page tables, about 20 times a second. {}",
        left_out(all.len(), most, "file")
    );
    (!rows.is_empty()).then(|| Table { title: "Files without cuFile".to_owned(), note, heads, rows })
}

fn left_out(all: usize, most: usize, thing: &str) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        more => format!("{} more are in the JSON report.", plural(more as u64, thing)),
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

/// The route of a file's transfers. A question mark means that the route is inferred.
pub(super) fn route(file: &WatchedFile) -> String {
    match (file.route, file.proven) {
        (Route::None, _) => super::view::GAP.to_owned(),
        (route, true) => route.to_string(),
        (route, false) => format!("{route}?"),
    }
}

/// The evidence for the route of a file.
#[must_use]
pub const fn proof(proof: RouteProof) -> &'static str {
    match proof {
        RouteProof::Nothing => "not proven: run with --statistics",
        RouteProof::NoTransfer => "no transfer",
        RouteProof::AllFailed => "all transfers failed",
        RouteProof::Statistics => "proven by libcufile's level-3 statistics",
        RouteProof::MixedStatistics => "not proven: libcufile's statistics count several routes",
        RouteProof::NvidiaFsCounter => "inferred: nvidia-fs counted reads, of any process",
        RouteProof::NoDirectRoute => "inferred: nvidia-fs is not loaded, p2pdma is not configured",
    }
}

/// The advice, each with the calls that are the evidence for it.
#[must_use]
pub fn advice(report: &WatchReport) -> Vec<(WatchAdvice, String, String)> {
    watch_advice(report)
        .into_iter()
        .map(|advice| {
            let (text, proof) = sentence(&advice);
            (advice, text, proof)
        })
        .collect()
}

fn sentence(advice: &WatchAdvice) -> (String, String) {
    let of = |count: u64, of: u64| format!("{} of {of}", plural(count, "transfer"));
    match advice {
        WatchAdvice::Failed(failure) => failed(failure),
        WatchAdvice::RegistersPerCall { registered, transfers, total_ns } => (
            "Register one large buffer once and use parts of it.".to_owned(),
            format!("cuFileBufRegister {}, transfers {transfers}, {} to register", registered, duration(*total_ns)),
        ),
        WatchAdvice::Unregistered { count, of: all } => (
            "Register the buffers: unregistered memory goes through a bounce buffer.".to_owned(),
            format!("{} use unregistered memory", of(*count, *all)),
        ),
        WatchAdvice::Unaligned { count, of: all } => (
            "Align offsets, sizes and addresses to 4 KiB: other transfers need a bounce buffer or a second read."
                .to_owned(),
            format!("{} are not aligned", of(*count, *all)),
        ),
        WatchAdvice::SmallReads { count, of } => (
            "Read at least 1 MiB at a time: small reads are dominated by the time of the call.".to_owned(),
            format!("{} of {of} are below 1 MiB", plural(*count, "read")),
        ),
        WatchAdvice::OneThread { reads, bytes: read } => (
            "Read with several threads, or in batches: one synchronous reader rarely fills the device.".to_owned(),
            format!("one thread made all {}, {}", plural(*reads, "read"), bytes(*read)),
        ),
        WatchAdvice::NoODirect { files, of } => (
            "Open the files with O_DIRECT: without it, libcufile may read through the page cache.".to_owned(),
            format!("{} of {of} registered without O_DIRECT", plural(*files, "file")),
        ),
        WatchAdvice::Compat { files, proven } => (
            "Run 'gds-top check' on the folder of these files: it shows what blocks a direct route.".to_owned(),
            format!("{} on the route compat, {}", plural(*files, "file"), if *proven { "proven" } else { "inferred" }),
        ),
        WatchAdvice::NotByCuFile { plain_bytes, cufile_bytes, mapped } => (
            "Check why the program does not use the libcufile that it loaded: 'gds-top check' shows what blocks it."
                .to_owned(),
            format!(
                "{} {}, {} by cuFile",
                bytes(*plain_bytes),
                if *mapped { "mostly by mappings" } else { "by read calls" },
                bytes(*cufile_bytes)
            ),
        ),
        WatchAdvice::RouteUnknown => (
            "Run again with --statistics: libcufile 1.15 and later then counts transfers by route.".to_owned(),
            "no counter shows the route".to_owned(),
        ),
        WatchAdvice::Unfinished(count) => (
            "Synchronize the streams before the end, and check the result of each transfer.".to_owned(),
            format!("no result was seen of {}", plural(*count, "stream transfer")),
        ),
        WatchAdvice::Lost(count) => (
            "Counts of files, tensors and sizes are lower bounds; the table of calls is complete.".to_owned(),
            format!("details of {} were lost", plural(*count, "call")),
        ),
        WatchAdvice::LibrariesLeftOut(count) => (
            "Use one libcufile per process: only the first four copies are recorded.".to_owned(),
            format!(
                "{} not recorded",
                if *count == 1 { "1 copy is".to_owned() } else { format!("{count} copies are") }
            ),
        ),
    }
}

fn failed(failure: &WatchedFailure) -> (String, String) {
    let name = failure.name.as_deref().map_or_else(String::new, |name| format!(" {name}"));
    let file = failure.file.as_deref().map_or_else(String::new, |file| format!(", first on {file}"));
    let proof = format!("{} failed {} times with {}{name}{file}", failure.function, failure.count, failure.code);
    let text = if failure.after_submission {
        "Check the result of each transfer: these failed after a submission that succeeded."
    } else {
        "Check the return value of each call; 'gds-top explain CODE' shows what an error means."
    };
    (text.to_owned(), proof)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::core::{Transfers, WatchedLibrary};

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
            kv: None,
            plain: crate::core::PlainReads::default(),
        }
    }

    pub(in crate::present) fn file_without_route() -> WatchedFile {
        file(Route::None, RouteProof::NoTransfer)
    }

    #[test]
    fn a_direct_route_is_only_called_proven_if_it_is() {
        let report = |files| WatchReport {
            processes: 1,
            libraries: vec![WatchedLibrary::default()],
            files,
            ..WatchReport::default()
        };
        for (files, status, has) in [
            (vec![file(Route::P2pdma, RouteProof::Statistics)], Status::Pass, "p2pdma, proven"),
            (vec![file(Route::Nvfs, RouteProof::NvidiaFsCounter)], Status::Info, "not proven"),
            (vec![file(Route::Compat, RouteProof::NoDirectRoute)], Status::Warn, "inferred"),
            (vec![file(Route::None, RouteProof::Nothing)], Status::Info, "not proven"),
            (vec![file(Route::None, RouteProof::AllFailed)], Status::Fail, "failed"),
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
        assert_eq!(answer(&WatchReport::default()).status, Status::Warn);
    }
}
