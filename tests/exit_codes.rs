//! Compares the table of exit statuses with every command of the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "exit_codes/completions.rs"]
mod completions;
#[path = "checks/machine.rs"]
mod machine;
#[path = "program/mod.rs"]
mod program;

use crate::program::gds_top;
use std::path::Path;
use std::process::Output;

fn run(words: &[&str], folder: &Path) -> Output {
    gds_top().args(words).current_dir(folder).env("XDG_CACHE_HOME", folder).output().unwrap()
}

fn root(name: &str) -> String {
    machine::fixture(name).display().to_string()
}

/// A model of one tensor that takes no space on the disk and fits into no memory.
fn sparse_model(path: &Path, bytes: u64) {
    let header = format!("{{\"t\":{{\"dtype\":\"U8\",\"shape\":[{bytes}],\"data_offsets\":[0,{bytes}]}}}}");
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend(header.as_bytes());
    std::fs::write(path, &content).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(content.len() as u64 + bytes).unwrap();
}

#[test]
fn every_command_keeps_the_table_of_exit_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    let (healthy, broken) = (root("nvfs-healthy"), root("h200-vm-no-udev"));
    let no_gpu = root("no-gpu");
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings");
    let recording = std::fs::read_dir(recordings).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
    let recording = recording.display().to_string();
    std::fs::write(top.join("wrong.json"), "{ \"properties\": { \"io_batchsise\": 1 } }").unwrap();
    std::fs::write(top.join("broken.json"), "{ , }").unwrap();
    sparse_model(&top.join("huge.safetensors"), 1 << 42);
    let grid = ["--size", "64K", "--threads", "1", "--file-size", "1M", "--seconds", "0.01", "--access", "read"];
    let grid = |dir: &'static str, more: &[&'static str]| [&["bench-io", dir], &grid[..], more].concat();
    let rows: Vec<(Vec<&str>, i32)> = vec![
        (vec!["--help"], 0),
        (vec!["help", "check"], 0),
        (vec!["help", "chek"], 2),
        (vec!["--nonsense"], 2),
        (vec!["chek"], 2),
        (vec!["/nowhere", "--headless"], 2),
        (vec!["check", "--root", &healthy], 0),
        (vec!["check", "--root", &broken], 1),
        (vec!["check", "--root", &healthy, "--require", "direct"], 0),
        (vec!["check", "--root", &healthy, "--require", "proven"], 1),
        (vec!["check", "--root", &broken, "--require", "compat"], 1),
        (vec!["check", "--root", &healthy, "--require", "nonsense"], 2),
        (vec!["check", "--no-probe", "--require", "proven"], 2),
        (vec!["check", "/nowhere"], 2),
        (vec!["check", "--root", &healthy, "--target", "0"], 0),
        (vec!["check", "--root", &healthy, "--target", "all"], 0),
        (vec!["check", "--root", &healthy, "--target", "7"], 3),
        (vec!["check", "--root", &healthy, "--target", "host"], 2),
        (vec!["check", "--root", &no_gpu, "--target", "all"], 3),
        (vec!["-q", "--color", "never", "check", "--root", &healthy], 0),
        (vec!["-q", "settings"], 2),
        (vec!["check", "--root", "/nowhere"], 2),
        (vec!["fix", "--list", "--root", &healthy], 0),
        (vec!["fix", "udev-record", "--list", "--root", &healthy], 0),
        (vec!["fix", "nonsense", "--list", "--root", &healthy], 2),
        (vec!["fix", "--undo", "nonsense"], 2),
        (vec!["fix", "--undo", "--sysroot", "."], 0),
        (vec!["fix", "--undo", "udev-record", "--sysroot", "."], 3),
        (vec!["fix", "nonsense", "--dry-run", "--root", &healthy], 2),
        (vec!["explain", "5030"], 0),
        (vec!["explain", "-5027"], 0),
        (vec!["explain", "nothing", "of", "the", "kind"], 2),
        (vec!["config", "lint", "wrong.json", "--root", &healthy], 0),
        (vec!["config", "lint", "wrong.json", "--strict", "--root", &healthy], 1),
        (vec!["config", "lint", "broken.json", "--root", &healthy], 1),
        (vec!["config", "lint", "nowhere.json"], 2),
        (vec!["config", "show", "--root", &healthy], 0),
        (vec!["make-model", "odd-sizes", "model"], 0),
        (vec!["make-model", "odd-sizes", "model"], 0),
        (vec!["make-model", "odd-sizes", "model", "--seed", "1"], 2),
        (vec!["make-model", "tiny-tensors", "model"], 2),
        (vec!["make-model", "odd-sizes", "model", "--seed", "1", "--force"], 0),
        (vec!["make-model", "odd-sizes", "model", "--force"], 0),
        (vec!["synth", "odd-sizes", "model2"], 0),
        (vec!["make-model", "nonsense", "model3"], 2),
        (vec!["make-model", "qwen3-0.6b", "model4"], 2),
        (vec!["make-model", "--list"], 0),
        (vec!["inspect", "model"], 0),
        (vec!["inspect", "/nowhere"], 2),
        (vec!["inspect", "qwen3-0.6b", "--predict", "--target", "7"], 3),
        (vec!["inspect", "qwen3-0.6b", "--predict", "--target", "host"], 1),
        (vec!["inspect", "model", "--target", "host"], 2),
        (vec!["bench", "model", "--target", "host", "--engine", "mmap", "--cache", "as-is"], 0),
        (vec!["load", "model", "--gpu", "host", "--engine", "mmap", "--cache", "as-is", "--headless"], 0),
        (vec!["bench", "model", "--target", "host", "--engine", "prad"], 2),
        (vec!["bench", "model", "--target", "host", "--engine", "mmap", "--limit", "5"], 2),
        (vec!["bench", "model", "--target", "7", "--engine", "mmap"], 3),
        (vec!["bench", "model", "--target", "GPU-00000000-0000-0000-0000-000000000000"], 3),
        (vec!["bench", "model", "--target", "host", "--engine", "mmap,command:false", "--cache", "as-is"], 3),
        (vec!["bench", "huge.safetensors", "--target", "host", "--engine", "mmap", "--cache", "as-is"], 3),
        (vec!["bench", "/nowhere"], 2),
        (vec!["bench", "/nowhere", "--sweep", "--target", "host"], 2),
        (vec!["bench", "model", "model", "--sweep", "--target", "host", "--json"], 2),
        (vec!["bench", "qwen2.5-7b"], 2),
        (vec!["bench"], 2),
        (grid(".", &["--target", "host", "--transfer", "cpu"]), 0),
        (grid(".", &["--target", "7"]), 3),
        (vec!["bench-io", "."], 2),
        (vec!["bench-io", "/nowhere"], 2),
        (vec!["bench-kv", "--list"], 0),
        (vec!["bench-kv", "ucm", "/nowhere"], 2),
        (vec!["bench-kv", "nonsense", "."], 2),
        (vec!["report", &recording], 0),
        (vec!["report", "/nowhere"], 2),
        (vec!["replay", &recording, "--headless", "--speed", "0"], 0),
        (vec!["replay", "/nowhere", "--headless"], 2),
        (vec!["learn"], 2),
        (vec!["learn", "--headless"], 0),
        (vec!["capture", "/nowhere/x.tar.zst"], 2),
        (vec!["capture", "machine.tar.gz", "model"], 2),
        (vec!["capture", "machine.tar.zst", "model"], 0),
        (vec!["check", "--root", "machine.tar.zst"], 0),
        (vec!["fleet", "healthy.json"], 0),
        (vec!["fleet", "healthy.json", "no-route.json"], 1),
        (vec!["fleet", "/nowhere"], 2),
        (vec!["fleet"], 2),
        (vec!["watch", "--", "true"], 0),
        (vec!["watch", "--", "false"], 1),
        (vec!["watch", "--require", "direct", "--", "true"], 1),
        (vec!["watch", "--", "/nowhere"], 3),
        (vec!["watch", "--record", "/nowhere/r.gdsrec", "--", "true"], 2),
        (vec!["bench", "model", "--record", "/nowhere/r.gdsrec"], 2),
        (vec!["watch"], 2),
        (vec!["export", "--listen", "nonsense"], 2),
        (vec!["export", "--nonsense"], 2),
        (vec!["selftest", "--target", "host", "--engine", "mmap", "--cache", "as-is"], 0),
        (vec!["selftest", "--target", "7", "--engine", "mmap"], 3),
        (vec!["selftest", "--target", "host", "--engine", "mmap,command:false", "--cache", "as-is"], 3),
        (vec!["top", "--once"], 0),
        (vec!["top", "--prom", "--json"], 2),
        (vec!["selftest", "--nonsense"], 2),
        (vec!["overhead", "/nowhere", "--target", "host"], 2),
        (vec!["overhead", "model", "--target", "7", "--repeat", "1"], 3),
        (vec!["overhead", "model", "--target", "host", "--engine", "command:false", "--repeat", "1"], 3),
        (vec!["settings"], 0),
        (vec!["completions", "bash"], 0),
        (vec!["completions", "nonsense"], 2),
        (vec!["man"], 0),
        (vec!["man", "pages"], 0),
    ];
    for (name, machine) in [("healthy.json", &healthy), ("no-route.json", &broken)] {
        std::fs::write(top.join(name), run(&["check", "--root", machine, "--json"], top).stdout).unwrap();
    }
    let mut wrong = Vec::new();
    for (words, status) in &rows {
        let output = run(words, top);
        if output.status.code() != Some(*status) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            wrong.push(format!("{words:?} ended with {:?} instead of {status}: {said}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut pages: Vec<String> = std::fs::read_dir(top.join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in ["gds-top.1", "gds-top-bench.1", "gds-top-check.1", "gds-top-explain.1", "gds-top-selftest.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} is not among {pages:?}");
    }
    assert!(!pages.iter().any(|name| name.contains("__")), "{pages:?}");
}

#[test]
fn a_bad_call_says_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    for (words, part) in [
        (&["chek"][..], "did you mean 'gds-top check'?"),
        (&["fix", "udev-recrod", "--list", "--root", &root("nvfs-healthy")], "did you mean 'udev-record'?"),
        (&["fix", "nothing-alike", "--list", "--root", &root("nvfs-healthy")], "'nothing-alike' is not a fix"),
        (&["fix", "--undo", "udev-recrod"], "did you mean 'udev-record'?"),
        (&["fix", "nvidia-gsd", "--dry-run", "--root", &root("nvfs-healthy")], "did you mean 'nvidia-gds'?"),
        (&["bench", "m", "--engine", "loader:fastsafetensor"], "did you mean 'fastsafetensors'?"),
        (&["help", "chek"], "did you mean 'gds-top help check'?"),
        (&["help", "config", "lnt"], "did you mean 'gds-top help config lint'?"),
        (&["check", "--jsno"], "Usage: gds-top check [OPTIONS] [PATHS]"),
        (&["config", "lint", "--jsno"], "Usage: gds-top config lint [OPTIONS]"),
        (&["watch"], "gds-top watch [OPTIONS] --pid <PID>"),
        (&["watch", "--pid", "1", "--require", "direct"], "Usage: gds-top watch [OPTIONS] -- <COMMAND>..."),
        (&["make-model", "odd-sizes", "m", "--scale", "-1"], "a scale of -1 is not possible"),
        (&["bench", "m", "--repeat", "-3"], "invalid value '-3' for '--repeat"),
        (&["bench", "m", "--repeat", "0"], "0 is not a number from 1 to 1000"),
        (&["./nosuch"], "/nosuch does not exist"),
        (&["."], "needs a terminal"),
        (&["qwen3-0.6b"], "needs a terminal"),
        (&["hlep"], "did you mean 'gds-top help'?"),
        (&["hepl", "bench"], "did you mean 'gds-top help'?"),
        (&["hlep", "check"], "did you mean 'gds-top help'?"),
        (&["chekc", "/data"], "did you mean 'gds-top check'?"),
        (&["bench-oi", ".", "--threads", "1"], "did you mean 'gds-top bench-io'?"),
        (&["--json", "benhc", "m", "--repeat", "2"], "did you mean 'gds-top bench'?"),
        (&["qwen3-0.6x", "--headless"], "did you mean the shape 'qwen3-0.6b'?"),
        (&["bench", "m", "--engine", "gds-slap"], "did you mean 'gds-slab'?"),
        (&["bench", "m", "--engine", "pread", "--limit", "5"], "--limit has no effect here"),
        (&["overhead", "m", "--engine", "pread", "--limit", "5"], "--limit has no effect here"),
        (&["explain", "io_batchsise"], "properties.io_batchsize"),
        (&["make-model", "qwen3-0.6b", "m"], "--yes"),
        (&["make-model", "qwen3-0.6b", "/dev/null"], "/dev/null is not a directory"),
        (&["qwen3-0.6b", "--headless"], "--yes"),
        (&["bench", "qwen3-0.6b", "--target", "host"], "--yes"),
        (&["bench", "qwen3-0.6b", "--target", "host", "--sweep"], "--yes"),
        (&["overhead", "qwen3-0.6b", "--target", "host"], "--yes"),
        (&["bench", "one-huge", "many-shards", "odd-sizes"], "models (3 models); pass --yes to allow"),
    ] {
        let output = run(words, folder.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(part), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn all_models_are_found_before_the_first_one_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["make-model", "odd-sizes", "m"], folder.path()).status.success());
    for more in [&["--engine", "mmap"][..], &["--engine", "pread", "--sweep"]] {
        let words = [&["bench", "m", "nosuch", "--target", "host", "--cache", "as-is"][..], more].concat();
        let output = run(&words, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("nosuch does not exist"), "{words:?}: {said}");
        assert!(output.stdout.is_empty() && !said.contains("started") && !said.contains("sweeping"), "{said}");
    }
}

#[test]
fn a_synthetic_model_is_reused_and_another_one_is_replaced_only_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let made = |words: &[&str]| {
        let output = run(&[&["make-model", "--json", "odd-sizes", "m"][..], words].concat(), folder.path());
        let value = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default();
        let files = std::fs::read_dir(folder.path().join("m")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.map(|path| (std::fs::read(&path).unwrap(), path)).collect();
        files.sort_by(|a, b| a.1.cmp(&b.1));
        (output.status.code(), value["reused"].as_bool(), files)
    };
    let (first, again, refused) = (made(&[]), made(&[]), made(&["--seed", "1"]));
    assert_eq!((first.0, first.1, again.0, again.1), (Some(0), Some(false), Some(0), Some(true)));
    assert_eq!((refused.0, refused.1), (Some(2), None));
    assert!(first.2 == again.2 && first.2 == refused.2, "a file changed");
    let forced = made(&["--seed", "1", "--force"]);
    assert!((forced.0, forced.1) == (Some(0), Some(false)) && forced.2 != first.2);
    assert_eq!(made(&["--seed", "1"]).1, Some(true));
}

#[test]
fn the_reason_is_printed_once_if_the_gpu_is_missing_and_also_if_quiet() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["make-model", "odd-sizes", "m"], folder.path()).status.success());
    let grid = ["bench-io", ".", "--size", "64K", "--file-size", "1M", "--seconds", "0.01"];
    for words in [&["bench", "m"][..], &["bench", "m", "-q"], &["selftest"], &["overhead", "m"], &grid] {
        let output = run(&[words, &["--gpu", "77"]].concat(), folder.path());
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        let reasons = said.matches("no GPU can be used").count() + said.matches("there is no GPU").count();
        assert_eq!((output.status.code(), reasons), (Some(3), 1), "{words:?}: {said}");
    }
    // On standard output, the reason is in the report.
    let quiet = ["bench", "m", "--target", "host", "--engine", "command:exit 9", "--cache", "as-is", "-q"];
    let output = run(&quiet, folder.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(3) && said.contains("Runs that failed") && said.contains('9'), "{said}");
}

#[test]
fn the_lesson_is_written_to_the_named_file_without_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["learn", "--html", "lesson.html", "--headless"], folder.path());
    let page = std::fs::read_to_string(folder.path().join("lesson.html")).unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && page.contains("</html>"));
    let printed = run(&["learn", "--html", "--headless"], folder.path());
    assert_eq!(String::from_utf8(printed.stdout).unwrap().trim_end(), page.trim_end());
}

#[test]
fn all_json_has_a_schema_version() {
    let folder = tempfile::tempdir().unwrap();
    let (healthy, broken) = (root("nvfs-healthy"), root("h200-vm-no-udev"));
    assert!(run(&["make-model", "odd-sizes", "m"], folder.path()).status.success());
    let one = run(&["check", "--root", &healthy, "--json"], folder.path()).stdout;
    std::fs::write(folder.path().join("one.json"), one).unwrap();
    let schema: serde_json::Value = serde_json::from_str(include_str!("../schema/report.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let others: serde_json::Value = serde_json::from_str(include_str!("../schema/outputs.schema.json")).unwrap();
    let others = jsonschema::validator_for(&others).unwrap();
    std::fs::write(folder.path().join("lmcache.yaml"), "local_cpu: false\ngds_path: /data/kv\n").unwrap();
    let record = ["bench", "m", "--target", "host", "--engine", "mmap", "--cache", "as-is", "--record", "e.gdsrec"];
    assert!(run(&record, folder.path()).status.success());
    let mut reports = 0;
    for words in [
        &["check", "--root", &healthy, "--json"][..],
        &["fix", "--list", "--root", &healthy, "--json"],
        &["explain", "5030", "--json"],
        &["explain", "nothing of the kind", "--json"],
        &["config", "lint", "--root", &healthy, "--json"],
        &["config", "show", "--root", &healthy, "--json"],
        &["config", "diff", "--root", &healthy, "--json"],
        &["config", "tune", "m", "--root", &healthy, "--json"],
        &["make-model", "--list", "--json"],
        &["inspect", "m", "--json"],
        &["inspect", "qwen3-0.6b", "--predict", "--json"],
        &["bench", "--list-loaders", "--json"],
        &["bench-kv", "--list", "--json"],
        &["bench", "m", "--target", "host", "--engine", "mmap", "--cache", "as-is", "--json"],
        &["bench", "m", "--target", "host", "--engine", "mmap", "--cache", "as-is", "--record", "r.gdsrec", "--json"],
        &["bench", "m", "m", "--together", "--target", "host", "--engine", "mmap", "--cache", "as-is", "--json"],
        &[
            "bench-io",
            ".",
            "--size",
            "64K",
            "--threads",
            "1",
            "--file-size",
            "1M",
            "--seconds",
            "0.01",
            "--target",
            "host",
            "--transfer",
            "cpu",
            "--json",
        ],
        &["report", "r.gdsrec", "--json"],
        &["replay", "r.gdsrec", "--headless", "--speed", "0", "--json"],
        &["make-model", "odd-sizes", "m3", "--json"],
        &["capture", "c.tar.zst", "m", "--json"],
        &["fix", "--dry-run", "--root", &broken, "--json"],
        &["watch", "--json", "--", "true"],
        &["fleet", "one.json", "--json"],
        &["selftest", "--target", "host", "--engine", "mmap", "--cache", "as-is", "--json"],
        &["fix", "nvidia-gds", "--dry-run", "--root", &broken, "--json"],
        &["check", "--no-probe", "--root", &healthy, "--for", "lmcache", "lmcache.yaml", "--json"],
        &["report", "e.gdsrec", "r.gdsrec", "--json"],
        &["overhead", "m", "--target", "host", "--engine", "mmap", "--repeat", "1", "--json"],
        &[
            "bench", "m", "--sweep", "--target", "host", "--engine", "pread", "--cache", "hot", "--repeat", "1",
            "--json",
        ],
    ] {
        let output = run(words, folder.path());
        let value: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert!(value["schema_version"].is_u64(), "{words:?}");
        let is_report = value.get("runs").is_some() && value.get("verdicts").is_some();
        if is_report {
            let invalid: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(invalid.is_empty(), "{words:?}: {invalid:?}");
            reports += 1;
        } else if words[0] != "fleet" {
            assert!(others.is_valid(&value), "{words:?} does not fit schema/outputs.schema.json: {value}");
        }
    }
    assert!(reports >= 6, "only {reports} of the commands print a report");
    // An option exists only on commands that use it.
    for words in [
        &["make-model", "odd-sizes", "m4", "--theme", "dark"][..],
        &["explain", "5030", "--quiet"],
        &["settings", "--verbose"],
        &["overhead", "m", "--no-telemetry"],
        &["selftest", "--yes"],
        &["m", "--headless", "--theme", "dark"],
        &["replay", "r.gdsrec", "--headless", "--markers", "ascii"],
        &["fix", "--undo", "--root", &broken, "--json"],
    ] {
        assert_eq!(run(words, folder.path()).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn runs_that_are_repeated_for_a_baseline_are_in_every_result() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    assert!(run(&["make-model", "odd-sizes", "model"], folder.path()).status.success());
    let bench = ["bench", "model", "--target", "host", "--engine", "pread,mmap", "--cache", "as-is", "--json"];
    let first = run(&bench, folder.path());
    let mut report: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    for listed in report["runs"].as_array_mut().unwrap() {
        // In this baseline, pread needed a thousandth of its time, and mmap an hour.
        let ns = listed["wall_ns"].as_u64().unwrap();
        listed["wall_ns"] = if listed["engine"] == "pread" { (ns / 1000).max(1) } else { 3_600_000_000_000 }.into();
    }
    std::fs::write(at("baseline.json"), report.to_string()).unwrap();
    let (baseline, recording) = (at("baseline.json"), at("again.gdsrec"));
    let second = run(&[&bench[..], &["--baseline", &baseline, "--record", &recording]].concat(), folder.path());
    let now: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("pread (as-is) was slower than in the baseline; it runs again"), "{said}");
    let standings = now["analysis"]["comparisons"][0]["standings"].as_array().unwrap();
    let of = |engine: &str| standings.iter().find(|standing| standing["engine"] == engine).unwrap();
    assert_eq!((&of("pread")["runs"], &of("mmap")["runs"]), (&6.into(), &3.into()), "{said}");
    let median = gds_top::core::units::duration(of("pread")["wall_ns"].as_u64().unwrap());
    let row = said.lines().find(|line| line.trim_start().starts_with("pread ") && line.contains(" %"));
    assert!(row.is_some_and(|row| row.contains(&median)), "{median}: {said}");
    let recorded = run(&["report", &recording, "--export", "out", "--format", "json"], folder.path());
    assert!(recorded.status.success());
    let recorded = std::fs::read(folder.path().join("out/report.json")).unwrap();
    let recorded: serde_json::Value = serde_json::from_slice(&recorded).unwrap();
    assert_eq!(recorded["analysis"]["comparisons"][0]["standings"], now["analysis"]["comparisons"][0]["standings"]);
}

#[test]
fn colours_follow_the_option_and_the_variables() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = root("nvfs-healthy");
    let coloured = |words: &[&str], variables: &[(&str, &str)]| {
        let words = [&["check", "--root", &healthy], words].concat();
        let output = gds_top().args(words).current_dir(folder.path()).envs(variables.iter().copied()).output().unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&[], &[]));
    assert!(coloured(&["--color", "always"], &[]));
    assert!(coloured(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "0")]));
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!coloured(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "0")]));
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")]));
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&["--plain"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn checks_carry_the_commands_of_their_fix() {
    let folder = tempfile::tempdir().unwrap();
    let schema = serde_json::from_str(include_str!("../schema/report.schema.json")).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let of = |name: &str| -> Vec<serde_json::Value> {
        let output = run(&["check", "--root", &root(name), "--json"], folder.path());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let faults: Vec<String> =
            validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}");
        report["checks"].as_array().unwrap().clone()
    };
    let find = |checks: &[serde_json::Value], id: &str| checks.iter().find(|check| check["id"] == id).unwrap().clone();
    let checks = of("p2pdma-two-steps");
    for check in &checks {
        assert!(!check["why"].as_str().unwrap().is_empty() || check["status"] == "na", "{check}");
        let is_open = ["fail", "warn"].contains(&check["status"].as_str().unwrap());
        assert!(!is_open || check["fix"].is_null() == check["remedy"].is_null(), "{check}");
    }
    let keys = find(&checks, "gpu-static-bar1");
    let steps = keys["remedy"]["steps"].as_array().unwrap();
    assert_eq!(keys["remedy"]["id"], "p2pdma-registry-keys");
    assert!(steps[0]["file"].as_str().unwrap().starts_with("/etc/modprobe.d/"), "{steps:?}");
    let added = |line: &serde_json::Value| line.as_str().unwrap().starts_with("+options nvidia ");
    assert!(steps[0]["diff"].as_array().unwrap().iter().any(added), "{steps:?}");
    assert!(steps.iter().any(|step| step["command"] == "sudo update-initramfs -u -k all"), "{steps:?}");
    // A fix that only its check names also has commands.
    let secure = find(&of("secure-boot"), "nvfs-secureboot");
    assert_eq!(secure["fix"], "secure-boot-key");
    assert!(!secure["remedy"]["steps"].as_array().unwrap().is_empty(), "{secure}");
    // A check without a fix names the routes that it blocks.
    let guest = find(&of("h200-vm-no-udev"), "vm-type");
    assert_eq!((&guest["permanent"], &guest["remedy"]), (&serde_json::json!(true), &serde_json::Value::Null));
    assert!(!guest["blocks"].as_array().unwrap().is_empty(), "{guest}");
}

#[test]
fn a_path_that_a_copy_does_not_contain_is_a_wrong_call() {
    let folder = tempfile::tempdir().unwrap();
    let copy = root("p2pdma-healthy");
    for words in
        [&["check", "--root", &copy, "/not/there"][..], &["fix", "--list", "--root", &copy, "--path", "/not/there"]]
    {
        let output = run(words, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("/not/there") && said.contains("/data/models"), "{said}");
    }
    assert_eq!(run(&["check", "--root", &copy, "/data/models"], folder.path()).status.code(), Some(0));
}

#[test]
fn commands_end_before_they_do_anything_if_others_can_exchange_temporary_folders() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    sparse_model(&top.join("model.safetensors"), 4096);
    let open = top.join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    // The private directory of a user in it could be exchanged too.
    let inner = open.join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o700)).unwrap();
    let measured = ["--target", "host", "--repeat", "1", "--yes", "--headless"];
    let commands: [&[&str]; 10] = [
        &["check", "."],
        &["check", ".", "--no-probe"],
        &["fix", "--list"],
        &["export", "--listen", "127.0.0.1:0"],
        &["capture", "machine"],
        &["capture", "machine.tar.zst"],
        &["overhead", ".", "--target", "host", "--repeat", "1"],
        &[&["bench", ".", "--record", "new.gdsrec", "--cache", "as-is"], &measured[..]].concat(),
        &[&["bench-kv", "ucm", ".", "--variants", "ram", "--tokens", "256"], &measured[..]].concat(),
        &["bench-io", ".", "--target", "host", "--file-size", "256M", "--headless", "--yes"],
    ];
    for words in commands {
        for place in [&open, &inner] {
            let output = gds_top().args(words).current_dir(top).env("TMPDIR", place).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.contains("open can be written by all users; set TMPDIR to a directory"), "{words:?}: {said}");
            let mut names: Vec<_> = std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["model.safetensors", "open"], "{words:?}");
            let inside = std::fs::read_dir(&open).unwrap().chain(std::fs::read_dir(&inner).unwrap());
            assert_eq!(inside.count(), 1, "{words:?}");
        }
    }
}

#[test]
fn a_task_without_a_directory_for_its_files_could_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["bench", "odd-sizes", "--target", "host", "--engine", "mmap", "--cache", "as-is"];
    for (removed, set, advice) in [
        (&["HOME", "XDG_CACHE_HOME"][..], None, "neither XDG_CACHE_HOME nor HOME is set"),
        (&[], Some(("XDG_CACHE_HOME", "/proc")), "set XDG_CACHE_HOME"),
        (&[], Some(("TMPDIR", "/proc")), "set TMPDIR"),
    ] {
        let mut command = gds_top();
        command.args(load).current_dir(folder.path());
        for name in removed {
            command.env_remove(name);
        }
        command.envs(set);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{set:?}: {said}");
        assert!(said.contains(advice) && !said.contains("--scale"), "{set:?}: {said}");
    }
}

#[test]
fn top_ends_if_the_reader_of_its_output_ends() {
    let mut child = gds_top().args(["top", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut first).unwrap();
    let ended = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        child.try_wait().unwrap().is_some()
    });
    let _ = child.kill();
    assert!(first.starts_with('{') && ended && child.wait().unwrap().success(), "{first}");
}
