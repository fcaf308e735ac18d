//! The tables of a watched program.

use super::file::{LARGE, is_large, is_of_cufile, is_of_program, name, route};
use super::tensors::{
    TENSOR_FILE, TENSOR_HEADS, is_complete_tensor, is_upper_bound, read_tensors, tensor_cells, tensor_summary,
};
use crate::core::units::{bytes, count, duration, plural, plural_es, plural_ies, verb};
use crate::core::{AttachedFile, AttachedProcess, CallTotal, UNKNOWN_FILE, WatchReport, WatchedFile};
use crate::present::labels::route_proof as proof;
use crate::present::view::{Table, number, text};

/// Maximum number of rows of files or tensors in a terminal.
const ROWS: usize = 20;

/// The tables. A terminal shows only the first rows of long tables.
#[must_use]
pub fn tables(report: &WatchReport, full: bool) -> Vec<Table> {
    let most = if full { usize::MAX } else { ROWS };
    let mut tables = Vec::new();
    if !report.calls.is_empty() {
        let note = calls_note(report);
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
        let unnamed = by_cufile.iter().any(|file| file.path == UNKNOWN_FILE);
        let unnamed = match &report.attached {
            _ if !unnamed => "",
            Some(_) => UNNAMED_OF_PROCESS,
            None => UNNAMED,
        };
        let note = format!("{unnamed} {}", left_out(by_cufile.len(), most, "file")).trim().to_owned();
        let note = of_recorded(report, note);
        tables.push(Table { title: "Files".to_owned(), note, heads, rows: rows.collect() });
    }
    tables.extend(other_calls(report, most));
    tables.extend(other_files(report, most));
    tables.extend(report.attached.as_ref().and_then(|process| open_files(report, process, most)));
    tables.extend(sizes(report));
    tables.extend(tensors(report, most));
    tables
}

/// The causes of paths that are not known.
const UNNAMED: &str =
    "The path of (unknown file) is not known, for example after a lost record or for files opened after chroot.";
/// The same for a running process.
const UNNAMED_OF_PROCESS: &str =
    "(unknown file) is for files that were registered before the attach, and for failed or lost registrations.";

/// The calls that the table of calls contains.
fn calls_note(report: &WatchReport) -> String {
    let mut parts = match &report.attached {
        Some(process) => vec![format!(
            "Only calls of process {} and its children that began and returned after the attach are counted.",
            process.pid
        )],
        None => not_counted(report),
    };
    if report.attached.is_some() && report.uncounted > 0 {
        let calls = plural(report.uncounted, "more call");
        parts.push(format!(
            "The recording did not keep up: {calls} {} not counted.",
            verb(report.uncounted, "is", "are")
        ));
    }
    if parts.is_empty() {
        let until = if report.ended.is_none() { " until the last report" } else { "" };
        parts.push(format!("All calls of all processes{until} are counted."));
    }
    if !report.open_calls.is_empty() {
        let calls = report.open_calls.len() as u64;
        parts.push(format!("{} without a return {} not counted.", plural(calls, "call"), verb(calls, "is", "are")));
    }
    parts.join(" ")
}

/// A sentence for each reason why calls of a started program are missing in the table of calls.
fn not_counted(report: &WatchReport) -> Vec<String> {
    let mut reasons = Vec::new();
    if report.uncounted > 0 {
        let (calls, are) = (plural(report.uncounted, "more call"), verb(report.uncounted, "is", "are"));
        let why = "no memory was left for the thread, or a signal handler made the call inside another one";
        reasons.push(format!("{calls} {are} not counted: {why}."));
    }
    if report.paused {
        reasons.push("The program paused the recording, so not every call is counted.".to_owned());
    }
    if report.unseen.is_some() {
        reasons.push("Calls by addresses that the dynamic linker did not report are missing.".to_owned());
    }
    if report.libraries_left_out > 0 {
        let copies = plural_ies(report.libraries_left_out, "more cop");
        reasons.push(format!("Calls of {copies} of libcufile are not counted."));
    }
    if report.still_running > 0 {
        let processes = plural_es(report.still_running, "process");
        reasons.push(format!("Calls of {processes} after the end of the recording are not counted."));
    }
    if !(report.unrecorded.is_empty() && report.in_other_session.is_empty()) {
        reasons.push("Calls of programs that were not recorded here are missing: the advice lists them.".to_owned());
    }
    reasons
}

fn other_calls(report: &WatchReport, most: usize) -> Option<Table> {
    let heads = vec![text("function"), number("calls"), number("errors"), number("bytes"), number("time")];
    let rows: Vec<_> = (report.other_calls.iter())
        .map(|call| {
            let (calls, errors) = (count(call.count), count(call.errors));
            vec![call.function.clone(), calls, errors, bytes(call.bytes), duration(call.total_ns)]
        })
        .collect();
    let aio = if report.other_calls.iter().any(CallTotal::is_aio) { AIO } else { "" };
    // If no file is listed, there is no table that counts the files.
    let files = match listed_files(report, most) {
        (all @ 1.., listed) if listed.is_empty() => {
            let files = all as u64;
            format!(" Their {} {} in the JSON report.", plural(files, "file"), verb(files, "is", "are"))
        }
        _ => String::new(),
    };
    let note = format!("Reads and mappings of files of 64 KiB or more by libc, and copies by libcuda.{aio}{files}");
    (!rows.is_empty()).then(|| Table { title: "Other calls".to_owned(), note, heads, rows })
}

/// The meaning of the calls of `io_submit`.
const AIO: &str = " Each read that io_submit submitted is a call; its end is not recorded.";

/// The number of files that were used without cuFile, and the listed ones. Small files next to a model, and those of a
/// program, are only in complete lists.
fn listed_files(report: &WatchReport, most: usize) -> (usize, Vec<&WatchedFile>) {
    let all: Vec<_> = report.files.iter().filter(|file| file.plain.count + file.plain.mappings > 0).collect();
    let has_large = report.files.iter().any(is_large);
    let is_full = most == usize::MAX;
    let is_listed = |file: &&WatchedFile| is_full || is_large(file) || !(has_large || is_of_program(&file.path));
    (all.len(), all.into_iter().filter(is_listed).take(most).collect())
}

fn other_files(report: &WatchReport, most: usize) -> Option<Table> {
    let heads = vec![
        text("file without cuFile"),
        number("reads"),
        number("errors"),
        number("read"),
        number("time"),
        number("mapped"),
        number("touched"),
    ];
    let (all, listed) = listed_files(report, most);
    let rows: Vec<_> = (listed.iter())
        .map(|file| {
            let plain = &file.plain;
            let mapped = |of: u64| if plain.mappings > 0 { bytes(of) } else { String::new() };
            vec![
                name(file),
                count(plain.count),
                count(plain.errors),
                bytes(plain.bytes),
                duration(plain.total_ns),
                mapped(plain.mapped_bytes),
                mapped(plain.touched_bytes),
            ]
        })
        .collect();
    let note = format!("Touched bytes are inferred from page tables. {}", left_out(all, listed.len(), "file"));
    (!rows.is_empty()).then(|| Table { title: "Files without cuFile".to_owned(), note, heads, rows })
}

/// The note of a table whose numbers lack the calls whose details were lost.
fn of_recorded(report: &WatchReport, note: String) -> String {
    match report.lost_events {
        0 => note,
        _ => format!("Only recorded details are counted. {note}").trim_end().to_owned(),
    }
}

fn left_out(all: usize, most: usize, thing: &str) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        1 => format!("1 more {thing} is in the JSON report."),
        more => format!("{} more {thing}s are in the JSON report.", count(more as u64)),
    }
}

/// Whether a file of a process can hold the data that it loads: cuFile or `O_DIRECT` uses it, or it is large and not
/// a part of a program.
fn may_be_data(report: &WatchReport, file: &AttachedFile) -> bool {
    let of_cufile = || report.files.iter().any(|used| is_of_cufile(used) && used.path == file.path);
    file.o_direct || (file.bytes >= LARGE && !is_of_program(&file.path)) || of_cufile()
}

fn open_files(report: &WatchReport, process: &AttachedProcess, most: usize) -> Option<Table> {
    let heads =
        vec![text("open or mapped file"), number("size"), number("descriptors"), text("O_DIRECT"), text("mapped")];
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let data: Vec<_> = process.files.iter().filter(|file| may_be_data(report, file)).collect();
    let rows: Vec<_> = (data.iter().take(most))
        .map(|file| {
            let size = bytes(file.bytes);
            vec![file.path.clone(), size, count(file.descriptors), yes(file.o_direct), yes(file.mapped)]
        })
        .collect();
    let others = match (process.files.len() - data.len()) as u64 {
        0 => String::new(),
        others => {
            format!(" {} left out: small or of the system, without cuFile and O_DIRECT.", plural(others, "file"))
        }
    };
    let note = left_out(data.len(), most, "file") + &others;
    let note = note.trim_start().to_owned();
    (!process.files.is_empty()).then(|| Table { title: "Files in use".to_owned(), note, heads, rows })
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
    let note = of_recorded(report, String::new());
    (!rows.is_empty()).then(|| Table { title: "Reads by size".to_owned(), note, heads, rows })
}

fn tensors(report: &WatchReport, most: usize) -> Option<Table> {
    let mut all: Vec<_> = read_tensors(report).collect();
    if all.is_empty() {
        return None;
    }
    let bound = if is_upper_bound(report) { format!(" {TOUCHED}") } else { String::new() };
    let is_timed = all.iter().any(|(_, tensor)| tensor.read_ns.is_some());
    let shared = if is_timed { format!(" {SHARED}") } else { String::new() };
    let mut note = format!("{}{bound}{shared} {}", tensor_summary(report), left_out(all.len(), most, "tensor"));
    if all.len() > most {
        all.sort_by_key(|(_, tensor)| is_complete_tensor(tensor) == Some(true));
        note += " Incomplete tensors are first.";
    }
    let note = of_recorded(report, note);
    // The file is shown only if there are several.
    let one_file = all.iter().all(|(file, _)| file.path == all[0].0.path);
    let is_shown = |column: usize| column != TENSOR_FILE || !one_file;
    let heads = TENSOR_HEADS.into_iter().enumerate().filter(|(column, _)| is_shown(*column));
    let head = |(column, head): (usize, &'static str)| if column > TENSOR_FILE { number(head) } else { text(head) };
    let rows = all.iter().take(most).map(|(file, tensor)| -> Vec<String> {
        let cells = tensor_cells(file, tensor).into_iter().enumerate();
        cells.filter(|(column, _)| is_shown(*column)).map(|(_, cell)| cell).collect()
    });
    let rows = rows.collect();
    Some(Table { title: "Tensors".to_owned(), note, heads: heads.map(head).collect(), rows })
}

/// The meaning of `≤`.
const TOUCHED: &str = "Bytes with ≤ are touched pages: the kernel maps up to 2 MiB of a file at once.";

/// The meaning of the time of a tensor.
const SHARED: &str =
    "The time of a tensor is the sum of its reads. The time of a read of several tensors is shared by bytes.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::SessionEnd;
    use crate::core::{OpenCall, ProgramEnd, TensorsUnknown, WatchedLibrary, WatchedTensor};
    use crate::present::watch::{advice, answer, answer::tests::file_without_route, facts};

    /// All sentences about a program in which everything happened `many` times.
    fn sentences(many: u64) -> Vec<String> {
        let some = |name: &str| vec![name.to_owned(); many as usize];
        let mut file = file_without_route();
        let tensor = WatchedTensor {
            name: "a".to_owned(),
            size: 2,
            reads: many,
            bytes: 2,
            touched_bytes: 0,
            covered_bytes: Some(2),
            read_ns: Some(1000),
        };
        (file.tensors, file.tensors_of_file) = (vec![tensor; many as usize], many);
        let open = OpenCall { function: "cuFileRead".to_owned(), ..OpenCall::default() };
        let call = |function: &str| crate::core::CallTotal { function: function.to_owned(), ..Default::default() };
        let mut report = WatchReport {
            programs: many,
            ended: Some(ProgramEnd::Status(0)),
            libraries: vec![WatchedLibrary::default()],
            open_calls: vec![open; many as usize],
            lost_events: many,
            uncounted: many,
            libraries_left_out: many,
            still_running: many,
            unfinished: many,
            unrecorded: some("su"),
            in_other_session: some("sh"),
            calls: vec![call("cuFileRead")],
            files: vec![file],
            ..WatchReport::default()
        };
        let mut all = vec![report.clone()];
        // The number of calls without a memory replaces other notes.
        report.uncounted = 0;
        all.push(report);
        all.iter()
            .flat_map(|report| {
                let notes = tables(report, true).into_iter().map(|table| table.note);
                let advice = advice(report).into_iter().flat_map(|(_, text, proof)| [text, proof]);
                let answer = answer(report, SessionEnd::Complete);
                let facts = facts(report, SessionEnd::Complete).into_iter().map(|(_, text)| text);
                notes.chain(advice).chain(facts).chain([answer.headline, answer.conditions]).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn small_files_without_cufile_are_not_listed_next_to_a_model() {
        let small = crate::core::PlainReads { count: 1, bytes: 1 << 16, ..Default::default() };
        let module = crate::core::WatchedFile { plain: small, ..file_without_route() };
        let mut model = file_without_route();
        let titles = |files: Vec<crate::core::WatchedFile>, full| -> Vec<String> {
            let report = WatchReport { files, ..WatchReport::default() };
            tables(&report, full).into_iter().map(|table| table.title).collect()
        };
        assert_eq!(titles(vec![model.clone(), module.clone()], false), ["Files", "Files without cuFile"]);
        model.reads.bytes = 1 << 20;
        assert_eq!(titles(vec![model.clone(), module.clone()], false), ["Files"]);
        assert_eq!(titles(vec![model, module], true), ["Files", "Files without cuFile"]);
    }

    #[test]
    fn modules_are_left_out_without_a_model_too_and_failed_reads_are_counted() {
        let plain = crate::core::PlainReads { count: 3, bytes: 1 << 16, errors: 2, ..Default::default() };
        let file = |path: &str| WatchedFile { path: path.to_owned(), plain, ..file_without_route() };
        let paths = ["/data/a", "/venv/lib/x.pyc", "/usr/lib/python3/os.data", "/venv/site-packages/x/y"];
        let report = WatchReport { files: paths.map(file).to_vec(), ..WatchReport::default() };
        let table = |full| tables(&report, full).into_iter().find(|table| table.title == "Files without cuFile");
        let (Some(few), Some(all)) = (table(false), table(true)) else { unreachable!("two tables") };
        let names = |table: &Table| table.rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
        assert_eq!((names(&few), names(&all)), (vec![paths[0].to_owned()], paths.map(str::to_owned).to_vec()));
        assert!(few.note.ends_with("3 more files are in the JSON report."), "{}", few.note);
        assert_eq!(few.rows[0][1..3], ["3".to_owned(), "2".to_owned()]);
    }

    #[test]
    fn mapped_shards_are_listed_by_their_size_and_files_in_no_table_are_counted() {
        let mapped = |path: &str, mapped_bytes| {
            let plain =
                crate::core::PlainReads { mappings: 1, mapped_bytes, touched_bytes: 1 << 19, ..Default::default() };
            WatchedFile { path: path.to_owned(), plain, ..file_without_route() }
        };
        let call = CallTotal { function: "mmap".to_owned(), count: 2, ..CallTotal::default() };
        let table = |files: &[WatchedFile], title: &str| {
            let report =
                WatchReport { files: files.to_vec(), other_calls: vec![call.clone()], ..WatchReport::default() };
            tables(&report, false).into_iter().find(|table| table.title == title)
        };
        let of_program = [mapped("/usr/lib/locale/locale-archive", 3 << 20), mapped("/venv/a.pyc", 1 << 16)];
        let shards = [&[mapped("/data/1", 4 << 20), mapped("/data/2", 1 << 20)][..], &of_program].concat();
        let listed = table(&shards, "Files without cuFile").unwrap_or_else(|| unreachable!("a table"));
        assert_eq!(listed.rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["/data/1", "/data/2"]);
        assert!(listed.note.ends_with("2 more files are in the JSON report."), "{}", listed.note);
        let note = |files: &[WatchedFile]| table(files, "Other calls").map(|table| table.note).unwrap_or_default();
        assert!(note(&of_program).ends_with("Their 2 files are in the JSON report."), "{}", note(&of_program));
        assert!(!note(&shards).contains("JSON") && table(&of_program, "Files without cuFile").is_none());
    }

    #[test]
    fn files_without_a_path_have_the_possible_causes() {
        let note = |path: &str, attached| {
            let file = WatchedFile { path: path.to_owned(), ..file_without_route() };
            let report = WatchReport { files: vec![file], attached, ..WatchReport::default() };
            tables(&report, false).remove(0).note
        };
        let process = || Some(crate::core::AttachedProcess::default());
        assert_eq!((note("/data/a", process()), note("/data/a", None)), (String::new(), String::new()));
        assert_eq!(
            (note(UNKNOWN_FILE, None).as_str(), note(UNKNOWN_FILE, process()).as_str()),
            (UNNAMED, UNNAMED_OF_PROCESS)
        );
    }

    #[test]
    fn touched_pages_of_a_tensor_are_an_upper_bound() {
        let tensor = |reads, touched_bytes| {
            let covered_bytes = Some(if touched_bytes > 0 { 0 } else { 8 });
            let name = "a".to_owned();
            WatchedTensor { name, size: 8, reads, bytes: 8, touched_bytes, covered_bytes, read_ns: None }
        };
        let table = |tensor| {
            let file = crate::core::WatchedFile { tensors: vec![tensor], tensors_of_file: 2, ..file_without_route() };
            let report = WatchReport { files: vec![file], ..WatchReport::default() };
            tables(&report, true).into_iter().find(|table| table.title == "Tensors")
        };
        let rows = |tensor| table(tensor).map(|table| (table.rows[0][4].clone(), table.note));
        let (read, note) = rows(tensor(1, 0)).unwrap_or_default();
        assert_eq!((read.as_str(), note.trim()), ("8 B", "1 of 2 tensors was read, 1 of them completely."));
        let (read, note) = rows(tensor(0, 8)).unwrap_or_default();
        assert_eq!(read, "≤ 8 B");
        assert!(
            note.starts_with("At most 1 of 2 tensors was read, at most 1 of them completely. Bytes with ≤"),
            "{note}"
        );
    }

    #[test]
    fn the_table_of_calls_has_a_sentence_for_each_reason_of_missing_calls() {
        type Change = fn(&mut WatchReport);
        let complete = WatchReport { ended: Some(ProgramEnd::Status(0)), ..WatchReport::default() };
        let note = |change: Change| {
            let mut report = complete.clone();
            change(&mut report);
            calls_note(&report)
        };
        let reasons: [(Change, &str); 6] = [
            (|report| report.uncounted = 2, "2 more calls are not counted"),
            (|report| report.paused = true, "paused the recording"),
            (|report| report.libraries_left_out = 5, "Calls of 5 more copies of libcufile are not counted."),
            (|report| report.still_running = 1, "Calls of 1 process after the end of the recording are not counted."),
            (|report| report.unrecorded = vec!["su".to_owned()], "programs that were not recorded here"),
            (|report| report.in_other_session = vec!["sh".to_owned()], "programs that were not recorded here"),
        ];
        assert_eq!(note(|_| {}), "All calls of all processes are counted.");
        for (change, words) in reasons {
            let note = note(change);
            assert!(note.contains(words) && !note.contains("All calls"), "{note}");
        }
        let all = note(|report| {
            (report.uncounted, report.paused, report.libraries_left_out, report.still_running) = (2, true, 5, 1);
        });
        assert!(reasons[..4].iter().all(|(_, words)| all.contains(words)), "{all}");
        assert_eq!(note(|report| report.ended = None), "All calls of all processes until the last report are counted.");
        let attached = note(|report| {
            (report.attached, report.uncounted) = (Some(crate::core::AttachedProcess::default()), 1);
        });
        assert!(attached.ends_with("The recording did not keep up: 1 more call is not counted."), "{attached}");
    }

    #[test]
    fn tables_without_lost_calls_are_marked() {
        let marked = |lost_events| -> Vec<String> {
            let sizes = vec![crate::core::SizeClass { count: 1, ..Default::default() }];
            let calls = vec![crate::core::CallTotal::default()];
            let files = vec![file_without_route()];
            let report = WatchReport { sizes, calls, files, lost_events, ..WatchReport::default() };
            let tables = tables(&report, true).into_iter();
            tables.filter(|table| table.note.contains("recorded details")).map(|table| table.title).collect()
        };
        assert_eq!(marked(0), Vec::<String>::new());
        assert_eq!(marked(3), ["Files", "Reads by size"]);
    }

    #[test]
    fn only_tensors_of_which_each_byte_was_read_are_complete() {
        let summary_of = |covered_bytes: &[Option<u64>], lost_events| {
            let tensor = |covered_bytes: &Option<u64>| WatchedTensor {
                name: "a".to_owned(),
                size: 8,
                reads: 2,
                bytes: 8,
                touched_bytes: 0,
                covered_bytes: *covered_bytes,
                read_ns: None,
            };
            let tensors = covered_bytes.iter().map(tensor).collect();
            let file = crate::core::WatchedFile { tensors, tensors_of_file: 2, ..file_without_route() };
            tensor_summary(&WatchReport { files: vec![file], lost_events, ..WatchReport::default() })
        };
        let summary = |covered_bytes: &[Option<u64>]| summary_of(covered_bytes, 0);
        assert_eq!(summary(&[Some(4)]), "1 of 2 tensors was read, 0 of them completely.");
        assert_eq!(summary(&[Some(4), Some(8)]), "2 of 2 tensors were read, 1 of them completely.");
        // Earlier recordings do not have the parts.
        assert_eq!(summary(&[Some(4), None]), "2 of 2 tensors were read, at most 1 of them completely.");
        // Lost reads are in no tensor.
        assert_eq!(summary_of(&[Some(8)], 1), "At least 1 of 2 tensors was read, at least 1 of them completely.");
        assert_eq!(summary_of(&[None], 1), "At least 1 of 2 tensors was read, about 1 of them completely.");
    }

    #[test]
    fn files_whose_tensors_are_unknown_are_named_with_the_reason() {
        let report = |unknown: &[TensorsUnknown]| {
            let file = |why| crate::core::WatchedFile { tensors_unknown: Some(why), ..file_without_route() };
            WatchReport { files: unknown.iter().copied().map(file).collect(), ..WatchReport::default() }
        };
        let (other, unread) = (TensorsUnknown::OtherFile, TensorsUnknown::NotRead);
        assert_eq!(tensor_summary(&report(&[])), "The program used no safetensors file.");
        assert_eq!(tensor_summary(&report(&[other])), "Tensors are unknown for /m (another file is at its path).");
        let several = report(&[unread, other, other]);
        let expected = "unknown for /m (its header was not read), and for 2 other files";
        assert_eq!(tensor_summary(&several), format!("Tensors are {expected}."));
        let fact = facts(&several, SessionEnd::Complete).into_iter().find(|(label, _)| *label == "tensors");
        assert_eq!(fact, Some(("tensors", expected.to_owned())));
    }

    #[test]
    fn the_verb_after_a_count_agrees_with_it() {
        let parts = |many: u64| -> Vec<String> {
            let all = sentences(many);
            all.iter()
                .flat_map(|text| text.split(['.', ':', ';', ',']))
                .map(|part| format!(" {} ", part.trim()))
                .collect()
        };
        let wrong = |many: u64, verbs: [&str; 4]| -> Vec<String> {
            let starts = format!(" {many} ");
            let is_wrong = |part: &String| part.starts_with(&starts) && verbs.iter().any(|verb| part.contains(verb));
            parts(many).into_iter().filter(is_wrong).collect()
        };
        assert_eq!(wrong(1, [" are ", " were ", " have ", "these"]), Vec::<String>::new());
        assert_eq!(wrong(3, [" is ", " was ", " has ", "this "]), Vec::<String>::new());
        let counted = |many: u64| parts(many).iter().filter(|part| part.starts_with(&format!(" {many} "))).count();
        assert!(counted(1) >= 5 && counted(3) >= 5, "{:?}", parts(1));
    }
}
