//! Tests of writing and reading recordings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::RECORDING_VERSION;
use super::super::reader::read_with;
use super::*;
use crate::core::{LaneId, LogLevel, Metric, ModelInfo, PackedSpans, Phase, Sample, ShardInfo, Span, TensorInfo};
use crate::session::recording::read;

fn said(at_ns: u64, text: &str) -> Event {
    Event { at_ns, body: EventBody::Said { level: LogLevel::Info, text: text.to_owned() } }
}

fn compressed(path: &Path, lines: &str) {
    fs::write(path, zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
}

const HEADER: &str = "{\"gds_top_recording\":1,\"tool\":\"gds-top 9\"}\n";

/// Pseudo-random numbers that are the same on every run of the test.
fn noise(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// The model Qwen3-30B-A3B: 18 867 tensors in 16 shards, with the real names.
fn mixture_of_experts() -> ModelInfo {
    let mut names = Vec::new();
    for layer in 0..48 {
        for expert in 0..128 {
            for part in ["gate_proj", "up_proj", "down_proj"] {
                names.push((format!("model.layers.{layer}.mlp.experts.{expert}.{part}.weight"), 768 * 2048 * 2));
            }
        }
        for (part, bytes) in [
            ("input_layernorm", 4096),
            ("post_attention_layernorm", 4096),
            ("mlp.gate", 524_288),
            ("self_attn.k_norm", 256),
            ("self_attn.k_proj", 2_097_152),
            ("self_attn.o_proj", 16_777_216),
            ("self_attn.q_norm", 256),
            ("self_attn.q_proj", 16_777_216),
            ("self_attn.v_proj", 2_097_152),
        ] {
            names.push((format!("model.layers.{layer}.{part}.weight"), bytes));
        }
    }
    for (name, bytes) in [("model.embed_tokens", 622_329_856), ("model.norm", 4096), ("lm_head", 622_329_856)] {
        names.push((format!("{name}.weight"), bytes));
    }
    let mut offset = 0;
    let tensors = names
        .into_iter()
        .enumerate()
        .map(|(i, (name, bytes))| {
            let shard = (i / 1180) as u32;
            if i % 1180 == 0 {
                offset = 150_000;
            }
            let here = offset;
            offset += bytes;
            TensorInfo { name, dtype: "BF16".into(), shape: vec![768, 2048], shard, file_offset: here, bytes }
        })
        .collect();
    let shards = (0..16)
        .map(|i| ShardInfo {
            path: format!("/data/models/Qwen3-30B-A3B/model-{i:05}-of-00016.safetensors").into(),
            file_bytes: 4 << 30,
            data_offset: 150_000,
        })
        .collect();
    ModelInfo {
        name: "Qwen3-30B-A3B".into(),
        path: "/data/models/Qwen3-30B-A3B".into(),
        shards,
        tensors,
        synthetic: None,
    }
}

/// The spans of a run that registers, submits, transfers, copies and deregisters each tensor, on four slots with
/// varying times.
fn per_tensor_spans(model: &ModelInfo, seed: &mut u64) -> PackedSpans {
    let bases = model.image_bases();
    let mut clocks = [0_u64; 4];
    let mut spans = Vec::new();
    for (i, tensor) in model.tensors.iter().enumerate() {
        let slot = i % clocks.len();
        for (phase, typical) in [
            (Phase::RegisterBuffer, 700_000),
            (Phase::Submit, 20_000),
            (Phase::Transfer, tensor.bytes / 4),
            (Phase::Copy, tensor.bytes / 50),
            (Phase::Deregister, 300_000),
        ] {
            let start = clocks[slot] + noise(seed) % 90;
            clocks[slot] = start + typical * 3 / 4 + noise(seed) % (typical / 2 + 1);
            spans.push(Span {
                slot: slot as u16,
                phase,
                tensor: Some(i as u32),
                start_ns: start,
                end_ns: clocks[slot],
                bytes: if phase.moves_bytes() { tensor.bytes } else { 0 },
                offset: if phase.moves_bytes() { bases[tensor.shard as usize] + tensor.file_offset } else { 0 },
            });
        }
    }
    PackedSpans::pack(&spans)
}

#[test]
fn what_was_written_is_read_back_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    let model = mixture_of_experts();
    let events = vec![
        Event {
            at_ns: 0,
            body: EventBody::SessionStarted {
                tool: "gds-top 9".into(),
                unix_ms: 17,
                command: String::new(),
                directory: String::new(),
                left_out_variables: Vec::new(),
            },
        },
        Event { at_ns: 3, body: EventBody::ModelOpened { model: model.clone() } },
        Event { at_ns: 9, body: EventBody::LaneSpans { lane: LaneId(2), spans: per_tensor_spans(&model, &mut 1) } },
        said(11, "done"),
        Event { at_ns: 12, body: EventBody::SessionEnded { interrupted: false } },
    ];
    let mut writer = Writer::create(&path).unwrap();
    events.iter().for_each(|e| writer.write(e).unwrap());
    let finished = writer.finish().unwrap().unwrap();
    assert_eq!((finished.events, finished.span_resolution_ns), (5, 1));
    assert_eq!(finished.file_bytes, fs::metadata(&path).unwrap().len());
    let mut reader = read(&path).unwrap();
    let back: Vec<Event> = (&mut reader).map(Result::unwrap).collect();
    assert_eq!(back, events);
    assert_eq!(reader.summary().sentence(), None);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_killed_session_leaves_a_readable_prefix_and_says_that_the_end_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.gdst");
    let mut writer = Writer::create(&path).unwrap();
    (0..500).for_each(|i| writer.write(&said(i, "before the flush")).unwrap());
    writer.flush().unwrap();
    std::mem::forget(writer); // This is like killing the process: the recording is not completed.
    let why = read(&path).err().unwrap().to_string();
    assert!(why.contains("killed.gdst.partial"), "{why}");
    let mut reader = read(&folder.path().join("killed.gdst.partial")).unwrap();
    assert_eq!((&mut reader).filter(Result::is_ok).count(), 500);
    assert!(reader.summary().sentence().unwrap().contains("end of the recording is missing"));
}

#[test]
fn a_file_cut_anywhere_never_fails_worse_than_ending_early() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cut) = (folder.path().join("whole.gdst"), folder.path().join("cut.gdst"));
    let mut writer = Writer::create(&path).unwrap();
    let mut seed = 5;
    (0..50).for_each(|i| writer.write(&said(i, &noise(&mut seed).to_string())).unwrap());
    writer.finish().unwrap();
    let complete = fs::read(&path).unwrap();
    for length in 0..complete.len() {
        fs::write(&cut, &complete[..length]).unwrap();
        if let Ok(mut reader) = read(&cut) {
            assert!(reader.all(|e| e.is_ok()), "cut at {length}");
            assert!(reader.summary().truncated.is_some() || reader.summary().events == 50, "cut at {length}");
        }
    }
}

#[test]
fn kinds_of_later_versions_are_passed_over_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later.gdst");
    let mut lines = HEADER.to_owned();
    lines += "{\"at_ns\":1,\"event\":\"moon_rose\",\"phase\":{\"full\":true}}\n";
    lines += "{\"at_ns\":2,\"event\":\"said\",\"level\":\"info\",\"text\":\"x\",\"more\":1}\n";
    lines += "{\"at_ns\":3,\"event\":\"engine_unavailable\",\"engine\":\"gds-telepathy\",\"why\":\"x\"}\n";
    compressed(&path, &lines);
    let mut reader = read(&path).unwrap();
    assert_eq!((&mut reader).map(Result::unwrap).collect::<Vec<_>>(), [said(2, "x")]);
    assert_eq!(reader.summary().skipped.get("moon_rose"), Some(&1));
    assert_eq!(reader.summary().skipped.get("engine_unavailable"), Some(&1));
    assert!(reader.summary().sentence().unwrap().starts_with("2 events"));
}

#[test]
fn hostile_files_meet_a_bound_and_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.gdst");
    let fails = |lines: &str, limits: Limits| {
        compressed(&path, lines);
        match read_with(&path, limits) {
            Err(e) => e.to_string(),
            Ok(mut reader) => reader.find_map(Result::err).expect("an error").to_string(),
        }
    };
    let line = "{\"at_ns\":2,\"event\":\"said\",\"level\":\"info\",\"text\":\"x\"}\n";
    let small = Limits { line_bytes: 1000, events: 3, total_bytes: 10_000, bounded_state: true };
    assert!(fails(&(HEADER.to_owned() + &"x".repeat(5000)), small).contains("longer than 1000 bytes"));
    assert!(fails(&(HEADER.to_owned() + &line.repeat(4)), small).contains("more than 3 events"));
    let few = Limits { total_bytes: 100, ..small };
    assert!(fails(&(HEADER.to_owned() + &line.repeat(3)), few).contains("more than 100 bytes"));
    assert!(fails(&(HEADER.to_owned() + "[1,2]\n"), small).contains("line 2: this is not an event"));
    assert!(fails(&"x".repeat(100_000), small).contains("first line is too long"));
    assert!(fails("{}\n", small).contains("not the header"));
    assert!(fails("", small).contains("holds nothing"));
    assert!(
        fails(&format!("{{\"gds_top_recording\":{},\"tool\":\"\"}}\n", RECORDING_VERSION + 1), small)
            .contains("newer gds-top")
    );
    fs::write(&path, "plain text").unwrap();
    assert!(read(&path).err().unwrap().to_string().contains("not compressed with zstd"));
    assert!(matches!(read(folder.path()), Err(RecordingError::NotAFile { .. })));
}

#[test]
fn a_file_that_is_no_recording_is_not_overwritten_but_a_recording_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thesis.txt");
    fs::write(&path, "years of work").unwrap();
    assert!(matches!(Writer::create(&path), Err(RecordingError::WouldOverwrite { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"years of work");
    let path = folder.path().join("old.gdst");
    Writer::create(&path).unwrap().finish().unwrap();
    Writer::create(&path).unwrap().finish().unwrap();
    assert!(matches!(Writer::create(&folder.path().join("no/such/folder")), Err(RecordingError::Io { .. })));
}

#[test]
fn readings_that_are_no_number_become_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gap.gdst");
    let values = [(Metric::PowerWatts, f64::NAN), (Metric::LaneThreads, 4.0)].into();
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&Event { at_ns: 1, body: EventBody::Sampled { sample: Sample { lane: None, values } } }).unwrap();
    writer.finish().unwrap();
    let mut reader = read(&path).unwrap();
    let Some(Ok(Event { body: EventBody::Sampled { sample }, .. })) = reader.next() else { panic!("no sample") };
    assert_eq!(sample.values, [(Metric::LaneThreads, 4.0)].into());
}

#[test]
fn a_race_over_18_867_tensors_stays_under_two_mebibytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moe.gdst");
    let model = mixture_of_experts();
    assert_eq!(model.tensors.len(), 18_867);
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&Event { at_ns: 0, body: EventBody::ModelOpened { model: model.clone() } }).unwrap();
    let mut seed = 3;
    for lane in 0..2 {
        for tick in 0..100_u64 {
            let at_ns = tick * 50_000_000;
            let landed_bytes = tick * 600_000_000 + noise(&mut seed) % 9_000_000;
            let body =
                EventBody::LaneProgress { lane: LaneId(lane), landed_bytes, pinned_bytes: 64 << 20, verified_bytes: 0 };
            writer.write(&Event { at_ns, body }).unwrap();
        }
        let spans = per_tensor_spans(&model, &mut seed);
        writer.write(&Event { at_ns: 9, body: EventBody::LaneSpans { lane: LaneId(lane), spans } }).unwrap();
    }
    let finished = writer.finish().unwrap().unwrap();
    assert!(finished.file_bytes < SIZE_GOAL_BYTES, "{finished:?}");
    assert_eq!(read(&path).unwrap().header().span_resolution_ns, finished.span_resolution_ns);
    assert_eq!(read(&path).unwrap().filter(Result::is_ok).count(), 203);
}

#[test]
fn a_recording_that_stays_too_large_has_its_span_times_rounded_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.gdst");
    let span = |i: u64| Span {
        slot: 0,
        phase: Phase::Transfer,
        tensor: None,
        start_ns: i * 123_457,
        end_ns: i * 123_457 + 99_999,
        bytes: 1,
        offset: i,
    };
    let spans: Vec<Span> = (0..100).map(span).collect();
    let mut writer = Writer::create(&path).unwrap();
    let body = EventBody::LaneSpans { lane: LaneId(0), spans: PackedSpans::pack(&spans) };
    writer.write(&Event { at_ns: 12_345, body }).unwrap();
    let finished = writer.finish_within(1).unwrap().unwrap();
    assert_eq!(finished.span_resolution_ns, 10_000);
    let mut reader = read(&path).unwrap();
    assert_eq!(reader.header().span_resolution_ns, 10_000);
    let Some(Ok(Event { at_ns: 12_345, body: EventBody::LaneSpans { spans: back, .. } })) = reader.next() else {
        panic!("no spans")
    };
    assert!(back.iter().zip(&spans).all(|(a, b)| a.start_ns == b.start_ns / 10_000 * 10_000 && a.offset == b.offset));
}

#[test]
fn a_recording_without_spans_is_compressed_once_and_keeps_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watch.gdst");
    let mut writer = Writer::create(&path).unwrap();
    let mut seed = 7;
    let events: Vec<Event> = (0..200).map(|i| said(i, &noise(&mut seed).to_string())).collect();
    events.iter().for_each(|event| writer.write(event).unwrap());
    let finished = writer.finish_within(1).unwrap().unwrap();
    assert!(finished.file_bytes > 1 && finished.span_resolution_ns == 1, "{finished:?}");
    let lines = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
    let mut expected = Vec::new();
    write_line(&mut expected, &header(1)).unwrap();
    events.iter().for_each(|event| write_event(&mut expected, event, 1).unwrap());
    assert!(lines == expected, "{} and {} bytes", lines.len(), expected.len());
}

/// The message texts of a recording.
fn texts(path: &Path) -> Vec<String> {
    read(path)
        .unwrap()
        .filter_map(|event| match event.unwrap().body {
            EventBody::Said { text, .. } => Some(text),
            _ => None,
        })
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Records a session with these events and returns the result.
fn recorded(path: &Path, events: &[Event]) -> Result<Option<Finished>, RecordingError> {
    let mut writer = Writer::create(path).unwrap();
    events.iter().for_each(|event| writer.write(event).unwrap());
    writer.finish()
}

fn ended(interrupted: bool) -> Event {
    Event { at_ns: 99, body: EventBody::SessionEnded { interrupted } }
}

fn died(how: &str) -> Event {
    let body = EventBody::LaneDied { lane: LaneId(0), how: how.to_owned(), stderr_tail: String::new() };
    Event { at_ns: 50, body }
}

#[test]
fn an_earlier_recording_stays_until_the_next_one_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    recorded(&path, &[said(1, "first")]).unwrap().unwrap();
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&said(1, "second")).unwrap();
    writer.flush().unwrap();
    assert_eq!(texts(&path), ["first"]);
    writer.finish().unwrap().unwrap();
    assert_eq!(texts(&path), ["second"]);
    assert_eq!(names(folder.path()), ["a.gdst"]);
}

#[test]
fn two_sessions_do_not_record_to_one_file_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    let mut first = Writer::create(&path).unwrap();
    assert!(matches!(Writer::create(&path), Err(RecordingError::InUse { .. })));
    first.write(&said(1, "first")).unwrap();
    first.finish().unwrap().unwrap();
    assert_eq!(texts(&path), ["first"]);
    recorded(&path, &[said(1, "second")]).unwrap().unwrap();
    assert_eq!(texts(&path), ["second"]);
}

#[test]
fn an_interrupted_session_takes_the_place_of_an_earlier_one_only_with_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    let first = [said(1, "first"), died("by signal 11"), ended(false)];
    recorded(&path, &first).unwrap().unwrap();
    let cancelled = Event { at_ns: 50, body: EventBody::LaneCancelled { lane: LaneId(0) } };
    let nothing = [said(1, "second"), cancelled, ended(true)];
    assert_eq!(recorded(&path, &nothing).unwrap(), None);
    assert_eq!(texts(&path), ["first"]);
    let result = [said(1, "third"), died("by signal 11"), ended(true)];
    recorded(&path, &result).unwrap().unwrap();
    assert_eq!(texts(&path), ["third"]);
    let seen = |programs| {
        let report = crate::core::WatchReport { programs, ..crate::core::WatchReport::default() };
        Event { at_ns: 50, body: EventBody::ProgramSeen { report: Box::new(report) } }
    };
    assert_eq!(recorded(&path, &[said(1, "fourth"), seen(0), ended(true)]).unwrap(), None);
    recorded(&path, &[said(1, "fifth"), seen(1), ended(true)]).unwrap().unwrap();
    assert_eq!(texts(&path), ["fifth"]);
    // Without an earlier recording, no file is created.
    let other = folder.path().join("b.gdst");
    assert_eq!(recorded(&other, &nothing).unwrap(), None);
    assert_eq!(names(folder.path()), ["a.gdst"]);
}

#[test]
fn a_session_that_does_not_begin_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&said(1, "first")).unwrap();
    writer.discard();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_a_killed_session_left_is_set_aside_and_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    for text in ["first", "second"] {
        let mut writer = Writer::create(&path).unwrap();
        writer.write(&said(1, text)).unwrap();
        writer.flush().unwrap();
        // This is like killing the process: the descriptor is closed, and the recording is not completed.
        drop(writer);
    }
    let writer = Writer::create(&path).unwrap();
    let aside = writer.set_aside().unwrap().to_owned();
    assert_eq!(aside, folder.path().join("a.gdst.partial-2"));
    writer.finish().unwrap().unwrap();
    assert_eq!(names(folder.path()), ["a.gdst", "a.gdst.partial-1", "a.gdst.partial-2"]);
    assert_eq!(texts(&folder.path().join("a.gdst.partial-1")), ["first"]);
    assert_eq!(texts(&aside), ["second"]);
}

#[test]
fn a_file_that_another_program_wrote_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&said(1, "ours")).unwrap();
    fs::write(&path, "years of work").unwrap();
    assert!(matches!(writer.finish(), Err(RecordingError::Changed { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"years of work");
    assert_eq!(texts(&folder.path().join("a.gdst.partial")), ["ours"]);
}

#[test]
fn what_has_the_name_of_the_partial_file_is_neither_followed_nor_written_over() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (path, partial) = (folder.path().join("a.gdst"), folder.path().join("a.gdst.partial"));
    let victim = folder.path().join("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, &partial).unwrap();
    assert!(Writer::create(&path).is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"");
    assert!(fs::symlink_metadata(&partial).unwrap().is_symlink());
    fs::remove_file(&partial).unwrap();
    fs::hard_link(&victim, &partial).unwrap();
    assert!(matches!(Writer::create(&path), Err(RecordingError::WouldOverwrite { .. })));
    assert_eq!(fs::read(&victim).unwrap(), b"");
    fs::remove_file(&partial).unwrap();
    fs::write(&partial, "years of work").unwrap();
    assert!(matches!(Writer::create(&path), Err(RecordingError::WouldOverwrite { .. })));
    assert_eq!(fs::read(&partial).unwrap(), b"years of work");
    fs::write(&partial, "").unwrap();
    if std::os::unix::fs::chown(&partial, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a file to another user");
        return;
    }
    assert!(matches!(Writer::create(&path), Err(RecordingError::WouldOverwrite { .. })));
}

#[test]
fn a_finished_recording_has_the_permissions_that_the_umask_leaves_and_a_running_one_is_private() {
    use super::super::partial::umask_of;
    use std::os::unix::fs::PermissionsExt as _;
    for (status, umask) in [
        ("Name:\tx\nUmask:\t0022\nState:\tR\n", 0o022),
        ("Umask:\t0000\n", 0),
        ("Umask:\t0077\n", 0o077),
        ("Umask:\tx\n", 0o077),
        ("", 0o077),
    ] {
        assert_eq!(umask_of(status), umask, "{status}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gdst");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let ordinary = 0o644 & !umask_of(&fs::read_to_string("/proc/self/status").unwrap());
    // The first one is new, and the second one replaces it.
    for _ in 0..2 {
        let mut writer = Writer::create(&path).unwrap();
        writer.write(&said(1, "first")).unwrap();
        assert_eq!(mode(&folder.path().join("a.gdst.partial")), 0o600);
        writer.finish().unwrap().unwrap();
        assert_eq!(mode(&path), ordinary);
    }
}
