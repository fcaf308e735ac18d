//! One function for each format that other users, programs and machines write. `tests/fuzz/main.rs` and `cargo fuzz`
//! use them.

use gds_top::checks::{self, cufile_json};
use gds_top::config;
use gds_top::core::{Event, Serving};
use gds_top::engines::protocol::{Frame, LaneMessage};
use gds_top::explain;
use gds_top::fleet::{self, Fleet};
use gds_top::machine::{KernelLog, Root};
use gds_top::models::{self, header};
use gds_top::report;
use gds_top::session::{State, live, recording};
use gds_top::watch;
use gds_top::workloads::kv;
use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A format, and the function that reads any bytes in this format. The function must not panic, hang or need much
/// memory.
pub(crate) struct Target {
    /// Its name, which is also the directory of its corpus in `tests/corpus`.
    pub(crate) name: &'static str,
    /// Reads the bytes.
    pub(crate) run: fn(&[u8]),
}

/// All formats.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "safetensors-header", run: safetensors_header },
    Target { name: "safetensors-index", run: safetensors_index },
    Target { name: "recording", run: recording_lines },
    Target { name: "recording-file", run: recording_file },
    Target { name: "capture-archive", run: capture_archive },
    Target { name: "capture-tar", run: capture_tar },
    Target { name: "capture-folder", run: capture_folder },
    Target { name: "cufile-json", run: cufile_json_text },
    Target { name: "settings", run: settings },
    Target { name: "theme", run: theme },
    Target { name: "run-frames", run: run_frames },
    Target { name: "line-protocol", run: line_protocol },
    Target { name: "audit-ring", run: audit_ring },
    Target { name: "probe-hits", run: probe_hits },
    Target { name: "fleet-report", run: fleet_report },
    Target { name: "kv-chunk", run: kv_chunk },
    Target { name: "kv-shape", run: kv_shape },
    Target { name: "logs", run: logs },
    Target { name: "serving-config", run: serving_config },
    Target { name: "mapped-library", run: mapped_library },
    Target { name: "kv-store", run: kv_store },
];

thread_local! {
    static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

/// A temporary directory, in memory if possible, because each input is a file.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

/// A directory of this thread for files that are read by path.
fn folder() -> PathBuf {
    FOLDER.with_borrow_mut(|folder| {
        let made = folder.get_or_insert_with(in_memory);
        made.path().to_owned()
    })
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("a temporary file");
    path
}

/// The text of a header, and the beginning of a file.
pub(crate) fn safetensors_header(bytes: &[u8]) {
    let _ = header::parse(Path::new("/model.safetensors"), bytes, 1 << 40);
    let path = file("model.safetensors", bytes);
    if let Ok(model) = models::open(&path) {
        let _ = models::inspect(&model).to_text(80);
    }
}

/// An index next to a shard.
pub(crate) fn safetensors_index(bytes: &[u8]) {
    let model = folder().join("indexed");
    fs::create_dir_all(&model).expect("a directory");
    fs::write(model.join("model.safetensors.index.json"), bytes).expect("a file");
    let head = br#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    let shard = [&(head.len() as u64).to_le_bytes(), head.as_slice(), b"1234"].concat();
    fs::write(model.join("model-00001-of-00002.safetensors"), &shard).expect("a file");
    let _ = models::open(&model);
}

/// The lines of a recording.
pub(crate) fn recording_lines(bytes: &[u8]) {
    let path = folder().join("lines.gdsrec");
    let mut out = zstd::Encoder::new(fs::File::create(&path).expect("a file"), 1).expect("an encoder");
    out.write_all(bytes).expect("a file");
    out.finish().expect("a file");
    replayed(&path);
}

/// The file of a recording.
pub(crate) fn recording_file(bytes: &[u8]) {
    replayed(&file("file.gdsrec", bytes));
}

fn replayed(path: &Path) {
    let mut state = State::default();
    let Ok(reader) = recording::read(path) else { return };
    for event in reader.map_while(Result::ok) {
        state.reduce(&event);
    }
    // The report of a long recording takes a second. A part of it is enough to test the rest.
    if state.lanes.len() < 50 {
        let _ = report::full_text(&state, 80, true);
        let _ = report::export(&state, &folder().join("report"), &report::Format::ALL);
    }
}

/// The file of a captured machine.
pub(crate) fn capture_archive(bytes: &[u8]) {
    let _ = Root::open(&file("capture.tar.zst", bytes));
}

/// The tar archive in a capture.
pub(crate) fn capture_tar(bytes: &[u8]) {
    let packed = zstd::encode_all(bytes, 1).expect("memory");
    let _ = Root::open(&file("capture.tar.zst", &packed));
}

/// Files of a captured machine with different content: procfs, sysfs, udev records, logs, configuration, and the JSON
/// files of the capture. The bytes are pieces with the number of a file (two bytes), the length of its content (two
/// bytes), and the content.
pub(crate) fn capture_folder(bytes: &[u8]) {
    thread_local! {
        static MACHINE: RefCell<Option<CopiedMachine>> = const { RefCell::new(None) };
    }
    MACHINE.with_borrow_mut(|machine| {
        let (dir, files) = machine.get_or_insert_with(copied_machine);
        let mut rest = bytes;
        let mut changed = Vec::new();
        while let Some((head, tail)) = rest.split_at_checked(4) {
            let number = usize::from(u16::from_le_bytes([head[0], head[1]])) % files.len();
            let length = usize::from(u16::from_le_bytes([head[2], head[3]])).min(tail.len());
            fs::write(dir.path().join(&files[number].0), &tail[..length]).expect("a file");
            changed.push(number);
            rest = &tail[length..];
        }
        if let Ok(root) = Root::open(dir.path()) {
            let report = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
            let _ = checks::machine(&root, &report.paths);
            let _ = cufile_json::lint_machine(&root, &cufile_json::Hardware::of(&root, &report, None));
        }
        for number in changed {
            fs::write(dir.path().join(&files[number].0), &files[number].1).expect("a file");
        }
    });
}

/// A directory, and its files with path and content.
type CopiedMachine = (tempfile::TempDir, Vec<(PathBuf, Vec<u8>)>);

/// A copy of a test machine with its regular files.
fn copied_machine() -> CopiedMachine {
    let from = machine_folder();
    let dir = in_memory();
    let files = machine_files();
    for (path, bytes) in &files {
        let to = dir.path().join(path);
        fs::create_dir_all(to.parent().expect("a file in a directory")).expect("a directory");
        fs::write(to, bytes).expect("a file");
    }
    assert!(files.len() > 10, "{}", from.display());
    (dir, files)
}

fn machine_folder() -> PathBuf {
    // The directory differs between the package in the repository and the package in `fuzz/`.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    [here, here.parent().unwrap_or(here)]
        .into_iter()
        .map(|folder| folder.join("tests/machines/h200-vm-no-udev"))
        .find(|folder| folder.is_dir())
        .expect("the test machine")
}

/// The regular files of the machine that `capture_folder` changes, sorted by path.
pub(crate) fn machine_files() -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(top: &Path, folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in fs::read_dir(folder).expect("a directory").flatten() {
            let kind = entry.file_type().expect("an entry");
            if kind.is_dir() {
                walk(top, &entry.path(), found);
            } else if kind.is_file() {
                let path = entry.path().strip_prefix(top).expect("below it").to_owned();
                found.push((path, fs::read(entry.path()).expect("a file")));
            }
        }
    }
    let top = machine_folder();
    let mut found = Vec::new();
    walk(&top, &top, &mut found);
    found.sort();
    found
}

/// A cufile.json: lint, repair, edit and effective values.
pub(crate) fn cufile_json_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let top = folder().join("tree");
    fs::create_dir_all(top.join("etc")).expect("a directory");
    fs::write(top.join("etc/cufile.json"), bytes).expect("a file");
    let root = Root::tree(&top).expect("a tree");
    let hardware = cufile_json::Hardware::default();
    let _ = cufile_json::lint_text(&root, "/etc/cufile.json", &text, &hardware);
    let _ = cufile_json::repair(&root, &text);
    let _ = cufile_json::set_keys(&text, &[("properties.allow_compat_mode", "true"), ("logging.level", "\"INFO\"")]);
    let _ = cufile_json::effective(&root, Some(("/x/cufile.json", &text)));
}

/// The settings file.
pub(crate) fn settings(bytes: &[u8]) {
    let _ = config::Settings::parse(Path::new("/config.toml"), &String::from_utf8_lossy(bytes));
}

/// A theme file.
pub(crate) fn theme(bytes: &[u8]) {
    let _ = config::parse_theme(Path::new("/theme.toml"), &String::from_utf8_lossy(bytes));
}

/// Messages of a run process, which runs foreign libraries.
pub(crate) fn run_frames(bytes: &[u8]) {
    let mut state = State::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(frame) = serde_json::from_slice::<Frame>(line) else { continue };
        if let LaneMessage::Spans { spans } = &frame.message {
            let _ = spans.unpack();
        }
        if let Ok(event) = serde_json::from_slice::<Event>(line) {
            state.reduce(&event);
        }
    }
}

/// The line protocol of commands.
pub(crate) fn line_protocol(bytes: &[u8]) {
    let _ = live::read_protocol(bytes);
}

/// The shared memory of a watched program.
pub(crate) fn audit_ring(bytes: &[u8]) {
    if let Ok(report) = watch::read_ring(bytes) {
        let mut state = State::default();
        state.watch = Some(report.into());
        let _ = report::text(&state, 80, true);
        let _ = report::write_json(&state, std::io::sink());
    }
}

/// The hits of kernel probes in a watched process.
pub(crate) fn probe_hits(bytes: &[u8]) {
    let mut state = State::default();
    state.watch = Some(watch::read_hits(bytes).into());
    let _ = report::text(&state, 80, true);
    let _ = report::write_json(&state, std::io::sink());
}

/// Reports of other nodes.
pub(crate) fn fleet_report(bytes: &[u8]) {
    let path = file("report.json", bytes);
    if let Ok(fleet) = Fleet::read(&[path]) {
        let _ = fleet::json(&fleet);
        let _ = fleet::text(&fleet, 80, true);
        let _ = fleet::csv(&fleet, std::io::sink());
        let _ = fleet::html(&fleet);
    }
}

/// A chunk of a KV store.
pub(crate) fn kv_chunk(bytes: &[u8]) {
    let _ = kv::Header::decode(bytes);
    let _ = kv::examine(&file("chunk", bytes), true);
}

/// The shape of a KV cache.
pub(crate) fn kv_shape(bytes: &[u8]) {
    if let Some(path) = file("shape.json", bytes).to_str() {
        let _ = kv::Shape::named(path);
    }
}

/// Log lines of cufile.log and of the kernel.
pub(crate) fn logs(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = explain::explain_log(&text);
    let _ = checks::log_signatures::explain_cufile(&text);
    let _ = checks::log_signatures::explain_kernel(&text);
    let _ = checks::log_signatures::explain_messages(&KernelLog::parse(&text));
}

/// The configuration of a serving system: YAML, JSON or a command line.
pub(crate) fn serving_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for serving in Serving::ALL {
        let _ = checks::serving::read(serving, &text, &std::collections::BTreeMap::new(), &|_| Ok(String::new()));
    }
}

/// The file of a library that a watched process has mapped.
pub(crate) fn mapped_library(bytes: &[u8]) {
    let _ = watch::probed_functions(bytes);
}

/// A directory with files of KV stores, each with these bytes.
pub(crate) fn kv_store(bytes: &[u8]) {
    let top = folder().join("store");
    for name in [
        "config.json",
        "m%401%400%40ab.kvcache.safetensors",
        "m%401%400%40ab.kvcache.safetensors.metadata",
        "abc/de_g0/abcde0.bin",
    ] {
        let path = top.join(name);
        fs::create_dir_all(path.parent().expect("a file in a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }
    let _ = kv::recognise(&top);
}
