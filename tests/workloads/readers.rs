//! Stores that are read both ways: LMCache's own code loads the chunks of `bench-kv` and the other way round, and
//! llm-d's own mapper finds its files. The packages are not needed otherwise, so the tests are skipped without them.
//!
//! `GDS_TOP_TEST_LMCACHE` names a Python with the packages lmcache and torch, `GDS_TOP_TEST_LLMD` the directory
//! `kv_connectors/llmd_fs_backend` of llm-d's repository.

use crate::place::{Place, files_in};
use crate::standins;
use gds_top::workloads::kv::{METADATA_SUFFIX, examine};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

fn named(variable: &str, what: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|name| !name.is_empty()).map(PathBuf::from);
    if named.is_none() {
        standins::skipped(&format!("{variable} does not name {what}"));
    }
    named
}

fn python(interpreter: &Path, script: &str, arguments: &[&OsStr]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/readers").join(script);
    let output = Command::new(interpreter).arg(script).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn chunks(lines: &[String]) -> Vec<Value> {
    lines.iter().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes a store and keeps it. Returns its directory.
fn kept(place: &Place, system: &str, set: &[&str]) -> PathBuf {
    let (_, status) = place.report(system, &[&["--direction", "write", "--keep"][..], set].concat(), &[]);
    assert_eq!(status, 0);
    place.dir().join(format!("gds-top-kv-{system}/data"))
}

#[test]
fn lmcache_loads_our_chunks() {
    let Some(lmcache) = named("GDS_TOP_TEST_LMCACHE", "a Python with lmcache and torch") else { return };
    let place = Place::host();
    let folder = kept(&place, "lmcache", &["--variants", "disk", "--set", "chunk_size=64", "--batch", "2"]);
    let loaded = chunks(&python(&lmcache, "lmcache_chunks.py", &["read".as_ref(), folder.as_os_str()]));
    assert_eq!(loaded.len(), 8);
    for chunk in loaded {
        let header = examine(Path::new(chunk["path"].as_str().unwrap()), true).unwrap().unwrap();
        assert_eq!(chunk["sha256"].as_str(), header.payload_sha256.as_deref());
        assert_eq!(chunk["shape"], serde_json::json!(header.shape));
        assert_eq!((&chunk["dtype"], chunk["fmt"].as_u64()), (&"torch.bfloat16".into(), Some(header.format)));
        assert_eq!(chunk["bytes"].as_u64(), Some(header.payload_bytes));
        assert!(chunk["key"].as_str().unwrap().starts_with("tiny@1@0@"), "{chunk}");
    }
}

#[test]
fn we_open_chunks_of_lmcache() {
    let Some(lmcache) = named("GDS_TOP_TEST_LMCACHE", "a Python with lmcache and torch") else { return };
    let place = Place::host();
    let stored = chunks(&python(&lmcache, "lmcache_chunks.py", &["write".as_ref(), place.dir().as_os_str()]));
    assert_eq!(stored.len(), 2);
    for chunk in &stored {
        let header = examine(Path::new(chunk["path"].as_str().unwrap()), true).unwrap().unwrap();
        assert_eq!((header.shape, header.dtype.as_str(), header.payload_sha256), ([2, 3, 64, 32], "BF16", None));
        assert_eq!(Some(header.payload_bytes), chunk["bytes"].as_u64());
    }
    let output = place.run(&["inspect", place.dir().to_str().unwrap(), "--json"], &[]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = found.to_string();
    assert!(text.contains("\"lmcache\"") && text.contains("meta/Tiny model"), "{text}");
    assert_eq!(
        files_in(&place.dir()).iter().filter(|file| file.to_string_lossy().ends_with(METADATA_SUFFIX)).count(),
        2
    );
}

#[test]
fn llm_d_finds_our_files_and_we_recognise_its_store() {
    let Some(connector) = named("GDS_TOP_TEST_LLMD", "the directory of llm-d's connector") else { return };
    let (place, connector) = (Place::host(), connector.as_os_str());
    let set = ["--variants", "staging", "--set", "block_size=64", "--cufile-json", "none"];
    let folder = kept(&place, "llmd", &set);
    let ours: Vec<PathBuf> =
        files_in(&folder).into_iter().filter(|file| file.extension().is_some_and(|end| end == "bin")).collect();
    assert_eq!(ours.len(), 4);
    for file in ours {
        let hash = file.file_stem().unwrap();
        let theirs = python(Path::new("python3"), "llmd_files.py", &[connector, folder.as_os_str(), hash]);
        assert_eq!(folder.join(&theirs[0]), file);
    }
    let theirs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    python(Path::new("python3"), "llmd_files.py", &[connector, theirs.path().as_os_str(), "write".as_ref()]);
    let output = place.run(&["inspect", theirs.path().to_str().unwrap(), "--json"], &[]);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(found.contains("\"llmd\"") && found.contains("meta/Tiny"), "{found}");
}
