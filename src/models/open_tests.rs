//! Tests of opening models: every kind of object that can be named, and a table of all possible defects.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::error::WeightsError;
use super::open::{open_with, reread};
use crate::core::ModelInfo;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file with the given header text and the given number of data bytes.
fn raw(header: &[u8], data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    file.resize(file.len() + data, 7);
    file
}

/// A valid file with U8 tensors.
fn good(tensors: &[(&str, usize)]) -> Vec<u8> {
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, bytes)| {
            let entry = format!(r#""{name}":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[{at},{}]}}"#, at + bytes);
            at += bytes;
            entry
        })
        .collect();
    raw(format!("{{{}}}", entries.join(",")).as_bytes(), at)
}

fn write(folder: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

fn open(path: impl AsRef<Path>) -> Result<ModelInfo, WeightsError> {
    open_with(path.as_ref(), &[])
}

fn names(model: &ModelInfo) -> Vec<&str> {
    model.tensors.iter().map(|t| t.name.as_str()).collect()
}

#[test]
fn every_malformed_file_gets_its_sentence() {
    let table: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty", vec![], &["it is empty"]),
        ("five bytes", vec![1; 5], &["ends after 5 bytes"]),
        ("text", b"this is not a model at all".to_vec(), &["give a header length of", "another kind of file"]),
        ("over the limit", raw_length(100_000_001, 50), &["over the limit of 100000000"]),
        ("largest length", raw_length(u64::MAX, 50), &["18446744073709551615"]),
        ("header beyond the file", raw_length(500, 50), &["header of 500 bytes is longer than the file, which has 58"]),
        ("no header", raw(b"", 0), &["not valid JSON"]),
        ("bad UTF-8", raw(b"{\"a\xff\":1}", 0), &["byte 3 of its header is not UTF-8"]),
        ("bad JSON", raw(br#"{"a":"#, 0), &["not valid JSON"]),
        ("words after the JSON", raw(b"{} x", 0), &["not valid JSON"]),
        ("an array", raw(b"[1,2]", 0), &["does not describe tensors"]),
        ("a number for a tensor", raw(br#"{"a":3}"#, 0), &["does not describe tensors", "'a'"]),
        ("no shape", raw(br#"{"a":{"dtype":"U8","data_offsets":[0,1]}}"#, 1), &["'a'", "shape"]),
        ("negative dimension", raw(br#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}"#, 1), &["'a'", "-1"]),
        ("three offsets", raw(br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}"#, 1), &["'a'"]),
        (
            "unknown type",
            raw(br#"{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}}"#, 1),
            &["'a'", "type 'Q4' is unknown", "BF16"],
        ),
        (
            "absurd shape",
            raw(br#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,1]}}"#, 1),
            &["does not fit into 64 bits"],
        ),
        (
            "half a byte",
            raw(br#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#, 2),
            &["ends inside a byte"],
        ),
        (
            "size and shape differ",
            raw(br#"{"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,5]}}"#, 5),
            &["needs 6 bytes", "contain 5"],
        ),
        (
            "backward offsets",
            raw(br#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[5,2]}}"#, 5),
            &["ends at 2, before it begins at 5"],
        ),
        (
            "overlap",
            raw(
                br#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
                6,
            ),
            &["'b'", "overlaps with tensor 'a'"],
        ),
        (
            "hole",
            raw(
                br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}"#,
                6,
            ),
            &["'b'", "gap after tensor 'a'"],
        ),
        (
            "hole at the start",
            raw(br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}"#, 6),
            &["gap after the header"],
        ),
        (
            "truncated",
            raw(br#"{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}"#, 8),
            &["ends at 9", "only 8 bytes", "truncated"],
        ),
        (
            "bytes after the last tensor",
            raw(br#"{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}"#, 10),
            &["the file ends at byte"],
        ),
        (
            "name twice",
            raw(
                br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}"#,
                4,
            ),
            &["'a' occurs twice"],
        ),
        ("no tensors", raw(br#"{"__metadata__":{"format":"pt"}}"#, 0), &["no tensor bytes"]),
        (
            "escape in a name",
            raw(b"{\"\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1),
            &["\u{fffd}[2J"],
        ),
        ("deep nesting", raw(format!("{{\"__metadata__\":{}", "[".repeat(100_000)).as_bytes(), 0), &["recursion limit"]),
    ];
    let folder = TempDir::new().unwrap();
    for (what, content, fragments) in table {
        let path = folder.path().join("x.safetensors");
        std::fs::write(&path, content).unwrap();
        let said = open(&path).expect_err(what).to_string();
        for fragment in fragments {
            assert!(said.contains(fragment), "{what}: '{fragment}' is not in: {said}");
        }
        assert!(said.contains("x.safetensors"), "{what}: no path in: {said}");
        assert!(!said.chars().any(char::is_control), "{what}: {said:?}");
    }
}

fn raw_length(announced: u64, rest: usize) -> Vec<u8> {
    let mut file = announced.to_le_bytes().to_vec();
    file.resize(8 + rest, b' ');
    file
}

#[test]
fn things_that_are_no_files_are_refused_without_blocking() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("pipe.safetensors");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert!(open(&fifo).unwrap_err().to_string().contains("is a FIFO"));
    assert!(open(folder.path()).unwrap_err().to_string().contains("is a FIFO"), "a FIFO among the shards");
    assert!(open("/dev/null").unwrap_err().to_string().contains("is a device"));
    assert!(open("/proc/self/status").unwrap_err().to_string().contains("/proc"));
    assert!(open("/proc/self").unwrap_err().to_string().contains("no .safetensors file"));
    assert!(open(folder.path().join("absent")).unwrap_err().to_string().contains("does not exist"));
    assert!(open(folder.path().join("pipe.safetensors/below")).unwrap_err().to_string().contains("does not exist"));
    let socket = folder.path().join("s");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(open(&socket).unwrap_err().to_string().contains("is a socket"));
}

#[test]
fn a_model_without_a_byte_is_whole_and_still_not_loaded() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), &[("none.safetensors", good(&[])), ("one.safetensors", good(&[("a", 0)]))]);
    for name in ["none.safetensors", "one.safetensors"] {
        let said = open(folder.path().join(name)).unwrap_err().to_string();
        assert!(said.contains("no tensor bytes") && !said.contains("not a complete"), "{said}");
    }
}

#[test]
fn a_file_opens_with_its_tensors_in_the_order_of_their_bytes() {
    let folder = TempDir::new().unwrap();
    let header = br#"{"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0,9],"data_offsets":[4,4]},"__metadata__":{"x":3}}   "#;
    write(folder.path(), &[("m.safetensors", raw(header, 16))]);
    let model = open(folder.path().join("m.safetensors")).unwrap();
    assert_eq!((model.name.as_str(), names(&model)), ("m", vec!["a", "e", "b"]));
    let start = 8 + header.len() as u64;
    assert_eq!((model.shards[0].data_offset, model.shards[0].file_bytes), (start, start + 16));
    assert_eq!((model.tensors[2].file_offset, model.tensors[2].bytes), (start + 4, 12));
    assert_eq!(reread(&model).unwrap(), model);
}

#[test]
fn a_changed_file_rereads_differently_and_a_vanished_one_not_at_all() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), &[("m.safetensors", good(&[("a", 5)]))]);
    let model = open(folder.path()).unwrap();
    write(folder.path(), &[("m.safetensors", good(&[("a", 6)]))]);
    assert_ne!(reread(&model).unwrap(), model);
    std::fs::remove_file(folder.path().join("m.safetensors")).unwrap();
    assert!(matches!(reread(&model), Err(WeightsError::NotFound { .. })));
}

fn index(entries: &[(&str, &str)]) -> Vec<u8> {
    let map: Vec<String> = entries.iter().map(|(tensor, file)| format!(r#""{tensor}":"{file}""#)).collect();
    format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{{{}}}}}"#, map.join(",")).into_bytes()
}

const INDEX: &str = "model.safetensors.index.json";

#[test]
fn a_folder_opens_by_its_index_and_otherwise_by_all_its_shards() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    write(
        path,
        &[
            ("2.safetensors", good(&[("b", 5), ("c", 1)])),
            ("1.safetensors", good(&[("a", 3)])),
            (".hidden.safetensors", b"no".to_vec()),
            ("notes.txt", b"no".to_vec()),
        ],
    );
    assert_eq!(names(&open(path).unwrap()), ["a", "b", "c"]);
    write(path, &[("consolidated.safetensors", good(&[("a", 3)]))]);
    assert!(open(path).unwrap_err().to_string().contains("'a' occurs twice"));
    write(path, &[(INDEX, index(&[("a", "1.safetensors"), ("b", "2.safetensors"), ("c", "2.safetensors")]))]);
    let by_folder = open(path).unwrap();
    assert_eq!(names(&by_folder), ["a", "b", "c"]);
    assert_eq!(by_folder.tensors[1].shard, 1);
    let by_index = open(path.join(INDEX)).unwrap();
    assert_eq!((by_index.name, by_index.tensors), (by_folder.name, by_folder.tensors));
}

#[test]
fn every_bad_index_gets_its_sentence() {
    let table: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty", vec![], &["it is empty"]),
        ("no JSON", b"{".to_vec(), &["not valid JSON"]),
        ("another JSON", b"{\"hidden_size\": 5}".to_vec(), &["no weight_map"]),
        ("a map of numbers", br#"{"weight_map":{"a":1}}"#.to_vec(), &["no weight_map of tensor names"]),
        ("nothing in it", index(&[]), &["weight_map is empty"]),
        ("absolute path", index(&[("a", "/etc/passwd")]), &["'/etc/passwd'", "not a file in its directory"]),
        ("path upward", index(&[("a", "../1.safetensors")]), &["not a file in its directory"]),
        ("no file name", index(&[("a", "")]), &["not a file in its directory"]),
        ("missing shard", index(&[("a", "9.safetensors")]), &["shard '9.safetensors' is missing", INDEX]),
        (
            "tensor not in its shard",
            index(&[("a", "1.safetensors"), ("z", "1.safetensors")]),
            &["'z'", "does not contain it"],
        ),
        (
            "tensor in another shard",
            index(&[("a", "2.safetensors"), ("b", "1.safetensors")]),
            &["'a' to", "but it is in", "1.safetensors"],
        ),
        ("name twice", index(&[("a", "1.safetensors"), ("a", "2.safetensors")]), &["'a' twice"]),
    ];
    let folder = TempDir::new().unwrap();
    write(folder.path(), &[("1.safetensors", good(&[("a", 3)])), ("2.safetensors", good(&[("b", 5)]))]);
    for (what, content, fragments) in table {
        std::fs::write(folder.path().join(INDEX), content).unwrap();
        let said = open(folder.path()).expect_err(what).to_string();
        for fragment in fragments {
            assert!(said.contains(fragment), "{what}: '{fragment}' is not in: {said}");
        }
    }
}

#[test]
fn numbered_shards_without_an_index_must_be_complete() {
    let folder = TempDir::new().unwrap();
    write(
        folder.path(),
        &[
            ("model-00001-of-00003.safetensors", good(&[("a", 3)])),
            ("model-00003-of-00003.safetensors", good(&[("b", 3)])),
        ],
    );
    let said = open(folder.path()).unwrap_err().to_string();
    assert!(said.contains("'model-00002-of-00003.safetensors' is missing"), "{said}");
    write(folder.path(), &[("model-00002-of-00003.safetensors", good(&[("c", 3)]))]);
    assert_eq!(names(&open(folder.path()).unwrap()), ["a", "c", "b"]);
}

fn hub() -> (TempDir, PathBuf) {
    let hub = TempDir::new().unwrap();
    let repo = hub.path().join("models--Acme--Tiny-1B");
    write(
        &repo,
        &[("blobs/abc", good(&[("a", 3)])), ("refs/main", b"1234abcd\n".to_vec()), ("refs/v2", b"ffff".to_vec())],
    );
    std::fs::create_dir_all(repo.join("snapshots/1234abcd")).unwrap();
    std::os::unix::fs::symlink("../../blobs/abc", repo.join("snapshots/1234abcd/model.safetensors")).unwrap();
    (hub, repo)
}

#[test]
fn a_repository_of_the_hugging_face_cache_opens_by_id_and_by_folder() {
    let (hub, repo) = hub();
    let hubs = [PathBuf::from("/nonexistent"), hub.path().to_owned()];
    for spec in ["Acme/Tiny-1B", "Acme/Tiny-1B@main", "Acme/Tiny-1B@1234abcd", repo.to_str().unwrap()] {
        let model = open_with(Path::new(spec), &hubs).unwrap();
        assert_eq!((model.name.as_str(), names(&model)), ("Tiny-1B", vec!["a"]), "{spec}");
    }
    let snapshot = open(repo.join("snapshots/1234abcd")).unwrap();
    assert_eq!(snapshot.name, "Tiny-1B");
    let file = open(repo.join("snapshots/1234abcd/model.safetensors")).unwrap();
    assert_eq!(file.name, "Tiny-1B");
}

#[test]
fn a_repository_that_cannot_be_used_says_why() {
    let (hub, repo) = hub();
    let hubs = [hub.path().to_owned()];
    let said = |spec: &str| open_with(Path::new(spec), &hubs).unwrap_err().to_string();
    let absent = said("Acme/Other");
    assert!(absent.contains("Acme/Other") && absent.contains(hub.path().to_str().unwrap()), "{absent}");
    assert!(said("Acme/Tiny-1B@v2").contains("ffff"));
    assert!(said("Acme/Tiny-1B@v3").contains("no revision v3"));
    assert!(said("../up").contains("does not exist"));
    std::fs::remove_file(repo.join("blobs/abc")).unwrap();
    assert!(said("Acme/Tiny-1B").contains("does not exist"), "a link to a blob that was removed");
    std::fs::write(repo.join("refs/main"), "../../etc").unwrap();
    assert!(said("Acme/Tiny-1B").contains("reference main"));
    std::fs::remove_dir_all(repo.join("refs")).unwrap();
    std::fs::create_dir(repo.join("snapshots/5678")).unwrap();
    assert!(said("Acme/Tiny-1B").contains("several snapshots"));
}

#[test]
fn a_hundred_thousand_tensors_in_hundreds_of_shards_open_in_a_moment() {
    let folder = TempDir::new().unwrap();
    for shard in 0..300 {
        let names: Vec<String> =
            (0..334).map(|t| format!("model.layers.{shard}.mlp.experts.{t}.down_proj.weight")).collect();
        let tensors: Vec<(&str, usize)> = names.iter().map(|n| (n.as_str(), 2)).collect();
        write(folder.path(), &[(&format!("{shard:03}.safetensors"), good(&tensors))]);
    }
    // The test measures the CPU time of this thread, because that does not depend on the load of the machine.
    let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let start = used();
    let model = open(folder.path()).unwrap();
    let took_s = used() - start;
    assert_eq!((model.shards.len(), model.tensors.len()), (300, 100_200));
    // Without optimization this takes less than a second. An algorithm with quadratic time would take minutes.
    assert!(took_s < 60, "{took_s} s of CPU time");
}

#[test]
fn a_name_that_is_no_utf8_is_refused_and_a_link_to_it_is_not() {
    use std::os::unix::ffi::OsStringExt;
    let folder = TempDir::new().unwrap();
    let hidden = folder.path().join(std::ffi::OsString::from_vec(b"m\xff".to_vec()));
    std::fs::create_dir(&hidden).unwrap();
    std::fs::write(hidden.join("model.safetensors"), good(&[("a", 8)])).unwrap();
    let said = open_with(&hidden, &[]).unwrap_err();
    assert!(matches!(&said, WeightsError::NotUtf8 { .. }), "{said}");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&hidden, &link).unwrap();
    assert_eq!(open_with(&link, &[]).unwrap().tensors.len(), 1);
}
