//! Tests of small inputs that would become large. Their memory and work are counted, and each is rejected with a
//! sentence.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cap::Cap;
use gds_top::core::{Event, EventBody, LaneId};
use gds_top::session::{State, recording};
use std::alloc::System;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Counts the memory that the process allocates. The tests of this file run one after another, because the counters
/// belong to the process.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);
static ALONE: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;
const HEADER: &str = "{\"gds_top_recording\":2,\"tool\":\"gds-top 0.1.0\"}\n";
const PLANNED: &str = r#"{"at_ns":1,"event":"lane_planned","lane":NUMBER,"engine":"mmap","cache":"cold","target":{"kind":"host"},"repeat":0}"#;
const VERDICT: &str = r#"{"at_ns":1,"event":"verdict_reached","verdict":{"path":"/data/NUMBER","gpu":null,"route":"compat","possible":"nvfs","proven":false,"proof":"","blockers":[BLOCKERS],"advice":""}}"#;

fn write(folder: &Path, lines: impl FnOnce(&mut dyn Write)) -> PathBuf {
    let path = folder.join("bomb.gdsrec");
    let mut out = BufWriter::new(zstd::Encoder::new(File::create(&path).unwrap(), 3).unwrap());
    out.write_all(HEADER.as_bytes()).unwrap();
    lines(&mut out);
    out.into_inner().ok().unwrap().finish().unwrap();
    path
}

/// The state of a recording, or the error, and the maximum memory that reading it needed.
fn read(path: &Path) -> (Result<State, String>, usize) {
    let before = HEAP.allocated();
    let top = HEAP.max_allocated();
    let state = || {
        let mut state = State::default();
        for event in recording::read(path).map_err(|e| e.to_string())? {
            state.reduce(&event.map_err(|e| e.to_string())?);
        }
        Ok(state)
    };
    let state = state();
    // The counter stores the maximum of the process. If it did not increase, this read needed less than an earlier
    // one.
    let most = if HEAP.max_allocated() > top { HEAP.max_allocated() - before } else { 0 };
    (state, most)
}

fn refusal(folder: &Path, most: usize, lines: impl FnOnce(&mut dyn Write)) -> String {
    let path = write(folder, lines);
    let (state, took) = read(&path);
    assert!(took < most, "{} bytes took {} MiB", path.metadata().unwrap().len(), took / MIB);
    let error = state.expect_err("it was read");
    assert!(error.contains("reading stops here"), "{error}");
    error
}

/// The cases are sorted by their memory, because the counter only stores the maximum.
#[test]
fn recordings_take_memory_within_bounds() {
    let _alone = ALONE.lock().unwrap();
    headers_of_many_shards_have_the_limit_of_one();
    a_header_of_a_million_tensors_takes_a_few_times_its_size();
    a_large_state_is_refused();
    a_million_tensors_are_read_back();
}

fn headers_of_many_shards_have_the_limit_of_one() {
    let dir = tempfile::tempdir().unwrap();
    for number in 1..=3 {
        let mut header = format!(r#"{{"tensor{number}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
        header.push_str(&" ".repeat(40_000_000 - header.len()));
        let mut file = File::create(dir.path().join(format!("model-0000{number}-of-00003.safetensors"))).unwrap();
        file.write_all(&[&40_000_000_u64.to_le_bytes(), header.as_bytes(), b"x"].concat()).unwrap();
    }
    let before = HEAP.allocated();
    let error = gds_top::models::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("headers of more than 100000000 bytes in total"), "{error}");
    let most = HEAP.max_allocated() - before;
    assert!(most < 130 * MIB, "{} MiB", most / MIB);
}

fn a_header_of_a_million_tensors_takes_a_few_times_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let mut header = "{".to_owned();
    for n in 0..1_000_000 {
        let comma = if n == 0 { "" } else { "," };
        write!(
            header,
            r#"{comma}"layers.{n}.experts.{}.w":{{"dtype":"U8","shape":[4,1],"data_offsets":[{},{}]}}"#,
            n % 128,
            n * 4,
            n * 4 + 4
        )
        .unwrap();
    }
    header.push('}');
    let mut file = File::create(&path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + header.len() as u64 + 4_000_000).unwrap();
    let bytes = header.len();
    drop(header);
    let before = HEAP.allocated();
    let model = gds_top::models::open(&path).unwrap();
    assert_eq!(gds_top::models::inspect(&model).tensors, 1_000_000);
    let most = HEAP.max_allocated() - before;
    assert!(most < 4 * bytes, "{} MiB for a header of {} MiB", most / MIB, bytes / MIB);
}

fn a_large_state_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let many = |line: &str, count: usize| {
        let line = line.to_owned();
        move |out: &mut dyn Write| {
            (0..count).for_each(|n| writeln!(out, "{}", line.replace("NUMBER", &n.to_string())).unwrap())
        }
    };
    let verdict = VERDICT.replace("BLOCKERS", "");
    assert!(refusal(dir.path(), 64 * MIB, many(PLANNED, 20_000)).contains("more than 10000 runs"));
    assert!(refusal(dir.path(), 64 * MIB, many(&verdict, 100_000)).contains("more than 10000 verdicts"));
    // Each plan keeps a copy of the verdicts.
    let pages = |out: &mut dyn Write| {
        many(&verdict, 5_000)(out);
        for n in 0..1_000 {
            writeln!(out, "{}", PLANNED.replace("NUMBER", &n.to_string())).unwrap();
            writeln!(out, r#"{{"at_ns":1,"event":"race_plan_started","name":"a","title":"b"}}"#).unwrap();
        }
    };
    assert!(refusal(dir.path(), 256 * MIB, pages).contains("on all plans"));
    // The same span of the last slot, repeated.
    let span = r#"{"at_ns":1,"event":"lane_spans_packed","lane":0,"resolution_ns":1,"slot":[65535],"phase":[1],"tensor_delta":[0],"gap":[0],"duration":[1],"bytes":[0],"offset_delta":[0]}"#;
    let work = HEAP.total_allocated();
    let path = write(dir.path(), many(span, 2_000));
    assert!(read(&path).0.is_ok());
    assert!(HEAP.total_allocated() - work < 200 * MIB, "{} MiB for 2000 spans", (HEAP.total_allocated() - work) / MIB);
    // Values of two bytes, in one line and in many lines.
    let empty = VERDICT.replace("BLOCKERS", &vec!["\"\""; 400_000].join(","));
    let long = VERDICT.replace("BLOCKERS", &vec!["\"\""; 600_000].join(","));
    assert!(refusal(dir.path(), 300 * MIB, many(&long, 1)).contains("values in one event"));
    assert!(refusal(dir.path(), 700 * MIB, many(&empty, 20)).contains("values in all events"));
    let blank = " ".repeat(17 << 20);
    let said = format!(r#"{{"at_ns":1,"event":"said","level":"info",{blank}"text":""}}"#);
    assert!(refusal(dir.path(), 300 * MIB, many(&said, 1)).contains("longer than 16777216 bytes"));
    let shards = vec![r#"{"path":"","file_bytes":0,"data_offset":0}"#; 30_000].join(",");
    let model = format!(
        r#"{{"at_ns":1,"event":"model_opened","model":{{"name":"m","path":"/m","shards":[{shards}],"tensors":[]}}}}"#
    );
    assert!(refusal(dir.path(), 300 * MIB, many(&model, 1)).contains("more than 20000 files of a model"));
    let zeros = |out: &mut dyn Write| (0..200).for_each(|_| out.write_all(&vec![b' '; MIB]).unwrap());
    let model = |out: &mut dyn Write| {
        out.write_all(br#"{"at_ns":1,"event":"model_opened","model":{"name":"#).unwrap();
        zeros(out);
        out.write_all(b"\n").unwrap();
    };
    assert!(refusal(dir.path(), 700 * MIB, model).contains("of the file unpack to more than"));
}

fn a_million_tensors_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), |out| {
        let head = r#"{"at_ns":1,"event":"model_opened","model":{"name":"m","path":"/m","shards":[{"path":"/m/a","file_bytes":9,"data_offset":8}],"tensors":["#;
        out.write_all(head.as_bytes()).unwrap();
        for n in 0..1_000_000 {
            let comma = if n == 0 { "" } else { "," };
            write!(out, r#"{comma}{{"name":"model.layers.{n}.mlp.experts.{}.gate_proj.weight","dtype":"BF16","shape":[2048,768],"shard":0,"file_offset":{n},"bytes":3145728}}"#, n % 128).unwrap();
        }
        out.write_all(b"]}}\n").unwrap();
    });
    let (state, took) = read(&path);
    assert_eq!(state.unwrap().model.unwrap().tensors.len(), 1_000_000);
    assert!(took < 1024 * MIB, "{} MiB", took / MIB);
}

#[test]
fn the_work_for_runs_grows_with_their_number_only() {
    let _alone = ALONE.lock().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-hot-qwen3-0.6b.gdsrec");
    let result = recording::read(&recorded).unwrap().map(Result::unwrap).find_map(|event| match event.body {
        EventBody::LaneFinished { result, .. } => Some(result),
        _ => None,
    });
    let result = result.unwrap();
    let work = |runs: u32| {
        let path = write(dir.path(), |out| {
            for n in 0..runs {
                writeln!(out, "{}", PLANNED.replace("NUMBER", &n.to_string())).unwrap();
                writeln!(out, r#"{{"at_ns":1,"event":"lane_started","lane":{n},"pid":1}}"#).unwrap();
                let body = EventBody::LaneFinished { lane: LaneId(n), result: result.clone() };
                let line = serde_json::to_string(&Event { at_ns: 2, body }).unwrap();
                writeln!(out, "{line}").unwrap();
            }
        });
        let state = read(&path).0.unwrap();
        let before = HEAP.total_allocated();
        let text = gds_top::report::text(&state, 100, false);
        assert!(!text.is_empty());
        HEAP.total_allocated() - before
    };
    let (few, many) = (work(500), work(2_000));
    assert!(many < few * 8, "{few} bytes for 500 runs, {many} for 2000");
}
