//! Tests synthetic models from outside: they are written, read by other readers, interrupted, and written next to
//! files of others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use gds_top::core::ModelInfo;
use gds_top::models::synth::random_bytes;
use gds_top::models::{self, KeptModel, Profile, SynthOptions, WeightsError};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn synth(profile: &str, dir: &Path, scale: f64, seed: u64) -> Result<ModelInfo, WeightsError> {
    models::synthesize(&Profile::named(profile).unwrap(), dir, &SynthOptions { scale, seed }, &mut |_, _| true)
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_safetensors_crate_reads_back_what_was_written() {
    for (profile, scale) in [("qwen3-0.6b", 0.004), ("qwen2.5-7b", 0.0005), ("qwen3-8b-fp8", 0.001)] {
        let dir = TempDir::new().unwrap();
        let model = synth(profile, dir.path(), scale, 3).unwrap();
        let shape = Profile::named(profile).unwrap();
        assert_eq!(model.tensors.len() as u64, shape.tensors_total);
        assert_eq!(model.shards.len() as u64, shape.shards_total);
        let mut seen = 0;
        for (number, shard) in (0_u32..).zip(&model.shards) {
            let bytes = std::fs::read(&shard.path).unwrap();
            let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let mut expected = vec![0; (shard.file_bytes - shard.data_offset) as usize];
            random_bytes(3, u64::from(number), 0, &mut expected);
            assert!(bytes[shard.data_offset as usize..] == expected, "{profile}: the data is not that of the seed");
            for tensor in model.tensors.iter().filter(|t| t.shard == number) {
                let view = theirs.tensor(&tensor.name).unwrap();
                let start = tensor.file_offset as usize;
                assert!(view.data() == &bytes[start..start + tensor.bytes as usize], "{}", tensor.name);
                assert_eq!(view.shape().iter().map(|d| *d as u64).collect::<Vec<_>>(), tensor.shape);
                seen += 1;
            }
            assert_eq!(shard.data_offset % 8, 0);
        }
        assert_eq!(seen, model.tensors.len());
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_wherever_they_are_cut() {
    let mut whole = vec![0; 1 << 16];
    random_bytes(9, 2, 0, &mut whole);
    for (at, bytes) in [(0, 7), (4, 64), (60, 200), (1024, 4096), (65_000, 536)] {
        let mut part = vec![0; bytes];
        random_bytes(9, 2, at, &mut part);
        assert!(part == whole[at as usize..at as usize + bytes], "at {at}");
    }
    let mut other = vec![0; 1 << 16];
    random_bytes(10, 2, 0, &mut other);
    assert!(other != whole);
    random_bytes(9, 3, 0, &mut other);
    assert!(other != whole);
}

#[test]
fn progress_rises_to_the_total_and_no_partial_file_stays() {
    let dir = TempDir::new().unwrap();
    let mut steps = Vec::new();
    let profile = Profile::named("llama-3.1-8b").unwrap();
    let options = SynthOptions { scale: 0.002, seed: 0 };
    let model = models::synthesize(&profile, dir.path(), &options, &mut |done, total| {
        steps.push((done, total));
        true
    })
    .unwrap();
    assert!(steps.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 == pair[1].1), "{steps:?}");
    let (done, total) = *steps.last().unwrap();
    assert_eq!(done, total);
    assert!(total >= model.file_bytes());
    assert_eq!(
        entries(dir.path()),
        [
            "model-00001-of-00004.safetensors",
            "model-00002-of-00004.safetensors",
            "model-00003-of-00004.safetensors",
            "model-00004-of-00004.safetensors",
            "model.safetensors.index.json"
        ]
    );
}

#[test]
fn a_writer_that_is_broken_off_leaves_nothing_behind_and_the_earlier_model_whole() {
    let dir = TempDir::new().unwrap();
    let earlier = synth("qwen3-0.6b", dir.path(), 0.001, 0).unwrap();
    let broken = std::panic::catch_unwind(|| {
        let profile = Profile::named("qwen2.5-7b").unwrap();
        let options = SynthOptions { scale: 0.001, seed: 0 };
        let _ = models::synthesize(&profile, dir.path(), &options, &mut |_, _| panic!("broken off"));
    });
    assert!(broken.is_err());
    let profile = Profile::named("qwen2.5-7b").unwrap();
    let ended = models::synthesize(&profile, dir.path(), &SynthOptions { scale: 0.001, seed: 0 }, &mut |_, _| false);
    assert!(matches!(ended, Err(WeightsError::Stopped)), "{ended:?}");
    assert_eq!(entries(dir.path()), ["model.safetensors"]);
    assert_eq!(models::open(dir.path()).unwrap(), earlier);
}

#[test]
fn an_earlier_synthetic_model_is_replaced_whole() {
    let dir = TempDir::new().unwrap();
    synth("qwen2.5-7b", dir.path(), 0.0003, 0).unwrap();
    // An incomplete file of a killed writer.
    std::fs::write(dir.path().join(".model.safetensors.4294967294.gds-top-partial"), "x").unwrap();
    let model = synth("qwen3-0.6b", dir.path(), 0.001, 0).unwrap();
    assert_eq!(model.tensors.len(), 311);
    assert_eq!(entries(dir.path()), ["model.safetensors"]);
}

#[test]
fn a_model_that_gds_top_did_not_make_is_left_alone() {
    for (name, content) in [
        ("model.safetensors", &b"\x02\0\0\0\0\0\0\0{}"[..]),
        ("other.safetensors", &b"anything"[..]),
        ("model.safetensors.index.json", &b"{\"metadata\":{},\"weight_map\":{}}"[..]),
    ] {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join(name), content).unwrap();
        let said = synth("qwen3-0.6b", dir.path(), 0.001, 0).unwrap_err();
        assert!(matches!(said, WeightsError::Foreign { .. }), "{said}");
        assert!(said.to_string().contains(name), "{said}");
        assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), content);
        assert_eq!(entries(dir.path()), [name]);
    }
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_anything_is_made() {
    let dir = TempDir::new().unwrap();
    let target = dir.path().join("deep/below");
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    let profile = Profile::named("llama-3.1-70b").unwrap();
    if free > 4 * profile.bytes_total {
        eprintln!("skipped: the disk has {free} bytes free, more than the largest model takes");
        return;
    }
    let said = synth("llama-3.1-70b", &target, 4.0, 0).unwrap_err();
    assert!(matches!(said, WeightsError::NoSpace { .. }), "{said}");
    assert!(said.to_string().contains("GiB free; choose a smaller --scale"), "{said}");
    assert!(!dir.path().join("deep").exists());
}

#[test]
fn a_folder_that_cannot_be_written_says_so() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let said = synth("qwen3-0.6b", &file.join("below"), 0.001, 0).unwrap_err().to_string();
    assert!(said.contains("file/below could not be"), "{said}");
    let said = synth("qwen3-0.6b", Path::new("/proc/gds-top-test"), 0.001, 0).unwrap_err().to_string();
    assert!(said.contains("/proc"), "{said}");
}

#[test]
fn a_cached_model_is_used_again_if_complete_and_repaired_if_not() {
    let cache = TempDir::new().unwrap();
    let profile = Profile::named("qwen3-0.6b").unwrap();
    let options = SynthOptions { scale: 0.002, seed: 0 };
    let made = |calls: &mut u32| {
        let kept = KeptModel::of(profile.clone(), cache.path(), options).unwrap();
        kept.open_or_write(&mut |_, _| {
            *calls += 1;
            true
        })
        .unwrap()
    };
    let (mut first, mut second, mut third, mut fourth) = (0, 0, 0, 0);
    let model = made(&mut first);
    assert_eq!(model.name, "qwen3-0.6b-x0.002");
    assert_eq!(made(&mut second), model);
    assert!(first > 0 && second == 0, "{first} {second}");
    let path = &model.shards[0].path;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(model.shards[0].file_bytes - 1).unwrap();
    assert_eq!(made(&mut third), model);
    // Even the mark is destroyed.
    std::fs::write(path, "rubbish").unwrap();
    assert_eq!(made(&mut fourth), model);
    assert!(third > 0 && fourth > 0);
}

#[test]
fn python_reads_back_what_was_written() {
    let probe = Command::new("python3").args(["-c", "import numpy, safetensors"]).output();
    if !probe.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: python3 with numpy and safetensors is not here");
        return;
    }
    let dir = TempDir::new().unwrap();
    let model = synth("qwen3-8b-fp8", dir.path(), 0.001, 5).unwrap();
    let script = r"
import json, os, sys
from safetensors import safe_open, deserialize
index = json.load(open(os.path.join(sys.argv[1], 'model.safetensors.index.json')))['weight_map']
bytes = 0
for name in sorted(set(index.values())):
    path = os.path.join(sys.argv[1], name)
    with safe_open(path, framework='np') as f:
        assert set(f.keys()) == {t for t, s in index.items() if s == name}
        assert 'gds_top_synthetic' in f.metadata()
    bytes += sum(len(t['data']) for _, t in deserialize(open(path, 'rb').read()))
print(len(index), bytes)
";
    let out = Command::new("python3").arg("-c").arg(script).arg(dir.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let expected = format!("{} {}", model.tensors.len(), model.tensor_bytes());
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), expected);
}

#[test]
fn a_link_that_takes_the_folders_place_while_a_model_is_written_is_not_followed() {
    let dir = TempDir::new().unwrap();
    let [target, aside, victim] = ["target", "aside", "victim"].map(|name| dir.path().join(name));
    let theirs = synth("qwen3-0.6b", &victim, 0.001, 1).unwrap();
    let bytes = std::fs::read(&theirs.shards[0].path).unwrap();
    std::fs::create_dir(&target).unwrap();
    let mut swapped = false;
    let profile = Profile::named("qwen3-0.6b").unwrap();
    let options = SynthOptions { scale: 0.001, seed: 2 };
    let _ = models::synthesize(&profile, &target, &options, &mut |_, _| {
        if !std::mem::replace(&mut swapped, true) {
            std::fs::rename(&target, &aside).unwrap();
            std::os::unix::fs::symlink(&victim, &target).unwrap();
        }
        true
    });
    assert!(swapped);
    assert_eq!(entries(&victim), ["model.safetensors"]);
    assert_eq!(std::fs::read(&theirs.shards[0].path).unwrap(), bytes);
    // The model is in the renamed directory.
    assert_eq!(entries(&aside), ["model.safetensors"]);
}
