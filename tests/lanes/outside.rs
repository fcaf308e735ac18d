//! Tests of commands and published loaders as runs: with and without reports, with failures, and without remaining
//! processes and files.

use crate::harness::{STANDIN_UUID, folder};
use crate::models;
use crate::program::gds_top;
use crate::standins;
use gds_top::core::ModelInfo;
use gds_top::engines::protocol::monotonic_ns;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

fn command(model: &Path, arguments: &[&str]) -> Command {
    let mut command = gds_top();
    command
        .args(["load", "--gpu", "host", "--cache", "as-is", "--json"])
        .args(arguments)
        .arg(model)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(model: &Path, engine: &str, more: &[&str]) -> (Output, Value) {
    let mut arguments = vec!["--engine", engine];
    arguments.extend(more);
    let out = command(model, &arguments).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let run = report["runs"][0].clone();
    (out, run)
}

fn model() -> (tempfile::TempDir, ModelInfo) {
    let folder = folder();
    let model = models::odd(folder.path());
    (folder, model)
}

/// The processes whose command line contains the word.
fn alive(word: &str) -> Vec<i32> {
    let all = procfs::process::all_processes().unwrap();
    let named = |p: &procfs::process::Process| p.cmdline().is_ok_and(|line| line.iter().any(|w| w.contains(word)));
    let living = |p: &procfs::process::Process| p.stat().is_ok_and(|stat| stat.state != 'Z');
    all.flatten().filter(|p| named(p) && living(p)).map(|p| p.pid).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    crate::harness::until(what, || done().then_some(()));
}

/// A sleep duration of days that no other process of these tests uses.
fn mark(number: u8) -> String {
    format!("{number}{:07}.5", std::process::id())
}

#[test]
fn a_command_that_tells_has_its_own_clock_phases_bytes_and_verification() {
    let (folder, _) = model();
    // Arguments of engines are separated by commas, so the line must not contain any.
    let script = folder.path().join("load.sh");
    let engine = format!("command:bash {} {{model}} {{gpu}}", script.display());
    let (began, times) = (script.with_extension("began"), script.with_extension("times"));
    for tells_when in [true, false] {
        // The times of the script are relative to its start, which a busy machine may delay.
        let lines = format!(
            r#"
report() {{ echo "$1" >&"$GDS_TOP_FD"; }}
report '{{"program": "tester 1.2"}}'
: > '{began}'
until [ -e '{times}' ]; do sleep 0.01; done
. '{times}'
sleep 0.2
report "{{\"ready\": true$ready}}"
cat "$1"/*.safetensors > /dev/null
report "{{\"phase\": \"transfer\", \"ns\": 50000000, \"bytes\": 4096$moved}}"
report "{{\"done\": true, \"bytes\": 4096$done}}"
echo "model $GDS_TOP_MODEL gpu $GDS_TOP_GPU $2"
report '{{"verified": true}}'
sleep 0.2
"#,
            began = began.display(),
            times = times.display()
        );
        std::fs::write(&script, lines).unwrap();
        let (started, begun) = (monotonic_ns(), Instant::now());
        let (out, run, script_began) = std::thread::scope(|scope| {
            let clock = scope.spawn(|| {
                until("start of the script", || began.exists());
                let now = monotonic_ns();
                let at = |name, ms: u64| format!("{name}=', \"at_ns\": {}'\n", now + ms * 1_000_000);
                let text =
                    if tells_when { at("ready", 100) + &at("moved", 170) + &at("done", 180) } else { String::new() };
                std::fs::write(times.with_extension("new"), text).unwrap();
                std::fs::rename(times.with_extension("new"), &times).unwrap();
                now
            });
            let (out, run) = run(folder.path(), &engine, &[]);
            (out, run, clock.join().unwrap())
        });
        std::fs::remove_file(&began).unwrap();
        std::fs::remove_file(&times).unwrap();
        assert_eq!(out.status.code(), Some(0), "{run:#}");
        let told = (&run["error"], &run["verified"], &run["bytes"]);
        assert_eq!(told, (&Value::Null, &true.into(), &4096.into()), "{run:#}");
        let (wall, setup) = (run["wall_ns"].as_u64().unwrap(), run["setup_ns"].as_u64().unwrap());
        let phases: u64 = run["phases"].as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum();
        assert_eq!(phases, wall, "{run:#}");
        if tells_when {
            // The command runs for at least 400 ms. The time before and after the clock is not counted.
            assert_eq!((wall, run["phases"]["transfer"].as_u64()), (80_000_000, Some(50_000_000)), "{run:#}");
            assert!(setup <= script_began + 100_000_000 - started, "{run:#}");
        } else {
            // The line was sent after the sleep.
            assert!(setup >= 200_000_000 && u128::from(setup + wall) <= begun.elapsed().as_nanos(), "{run:#}");
        }
        let outside = &run["outside"];
        assert_eq!((&outside["program"], &outside["exit"]), (&"tester 1.2".into(), &"status 0".into()));
        assert!(outside["stderr_tail"].as_str().unwrap().contains("gpu host host"), "{outside:#}");
        // The counters are read when the line 'done' is processed. If the session was delayed until everything had
        // ended, it reports that they are unknown.
        let known = outside["read_call_bytes"].as_u64().is_some();
        assert!(known || notes(&run).contains("unknown read by system calls"), "{run:#}");
        assert_eq!(run["route"], Value::Null);
    }
}

#[test]
fn a_silent_command_is_measured_whole_by_what_its_processes_read() {
    let (folder, model) = model();
    let (out, run) = run(folder.path(), "command:(cat {model}/*.safetensors | cat) > /dev/null", &[]);
    assert_eq!(out.status.code(), Some(0), "{run:#}");
    assert_eq!((&run["verified"], run["phases"].as_object().map(serde_json::Map::len)), (&Value::Null, Some(0)));
    let bytes = run["bytes"].as_u64().unwrap();
    assert!(bytes >= model.tensor_bytes(), "children that have ended count: {bytes} of {}", model.tensor_bytes());
    assert!(run["outside"]["bytes_source"].as_str().unwrap().contains("rchar"), "{run:#}");
    assert!(run["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains("includes its set-up")));
}

#[test]
fn a_command_gets_no_list_of_left_out_variables() {
    let (folder, _) = model();
    let other = tempfile::tempdir().unwrap();
    let printed = other.path().join("printed");
    let engine = format!("command:env > {}; cat {{model}}/*.safetensors > /dev/null", printed.display());
    let out = command(folder.path(), &["--engine", &engine]).env("GDS_TOP_LEFT_OUT", "[1,[]]").output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let printed = std::fs::read_to_string(printed).unwrap();
    let has = |name: &str| printed.lines().any(|line| line.split_once('=').is_some_and(|(known, _)| known == name));
    assert_eq!((has("GDS_TOP_MODEL"), has("GDS_TOP_LEFT_OUT")), (true, false), "{printed}");
}

#[test]
fn a_bad_end_is_a_sentence_with_the_stderr_tail() {
    let (folder, _) = model();
    for (line, part) in [
        ("echo it broke >&2; exit 9", "ended with status 9; standard error ends with: it broke"),
        ("kill -SEGV $$", "was killed by signal 11"),
        ("no-such-program-here", "the shell found no such program"),
        (r#"echo '{"ready": true}' >&$GDS_TOP_FD"#, "without reporting that it was done"),
        (r#"echo '{"error": "the disk is full"}' >&$GDS_TOP_FD; exit 1"#, "the disk is full"),
        ("kill -PIPE $$", "killed by signal 13 (PIPE"),
        ("/dev/null", "status 126: the shell found the program and could not run it"),
        (r#"echo "never closed"#, "standard error ends with: sh: "),
        ("trap '' TERM INT HUP; exit 4", "ended with status 4"),
        ("exec >&- 2>&-; exit 3", "ended with status 3"),
        // No byte of it may reach a terminal unchanged.
        (r"printf 'a\033]0;title\007b\n' >&2; exit 5", "standard error ends with: a\u{fffd}]0;title\u{fffd}b"),
        ("head -c 200000 /dev/urandom >&2; exit 7", "(bytes that are not text)"),
        (r#"head -c 300000 /dev/zero | tr '\0' x >&2; exit 7"#, "xxx…"),
        (r#"echo '{"supervisor": {"code": 0}}' >&$GDS_TOP_FD; sleep 0.1; exit 9"#, "ended with status 9"),
    ] {
        let (out, run) = run(folder.path(), &format!("command:{line}"), &[]);
        assert!(run["error"].as_str().unwrap_or_default().contains(part), "{line}: {run:#}");
        assert_eq!((out.status.code(), &run["verified"]), (Some(3), &Value::Null), "{line}");
    }
}

#[test]
fn a_command_beyond_its_limit_is_cut_off_and_so_is_what_left_its_group() {
    let (folder, _) = model();
    let mark = mark(8);
    let line = format!("command:setsid sleep {mark} & (sleep {mark} & wait) & sleep {mark}");
    let (_, run) = run(folder.path(), &line, &["--limit", "1"]);
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("more than 1 s") && error.contains("--limit"), "{error}");
    until("end of the tree", || alive(&mark).is_empty());
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let (folder, _) = model();
    let mark = mark(7);
    let (out, run) = run(folder.path(), &format!("command:setsid sleep {mark} >/dev/null 2>&1 & true"), &[]);
    assert_eq!(out.status.code(), Some(0), "{run:#}");
    until("end of the tree", || alive(&mark).is_empty());
}

#[test]
fn what_a_command_tells_against_reason_is_not_believed() {
    let (folder, model) = model();
    let files: u64 = model.file_bytes();
    let told = |line: &str| run(folder.path(), &format!("command:{line}"), &[]).1;
    // More bytes than any loader of this model can load.
    let absurd =
        told(r#"cat {model}/*.safetensors >/dev/null; echo '{"done": true, "bytes": 99999999999999}' >&$GDS_TOP_FD"#);
    assert!(absurd["bytes"].as_u64().unwrap() < 100 * files, "{absurd:#}");
    assert!(notes(&absurd).contains("claims about the bytes are ignored"), "{absurd:#}");
    // The clock would have started before the command.
    let early =
        told(r#"echo '{"ready": true, "at_ns": 1}' >&$GDS_TOP_FD; echo '{"done": true, "bytes": 64}' >&$GDS_TOP_FD"#);
    assert!(early["wall_ns"].as_u64().unwrap() < 60_000_000_000, "{early:#}");
    // Lines that are not in the protocol, endless lines, and bytes that are not text.
    let noise = told(
        r#"printf '\377\376\n[1]\n{"done": true, "bytes": -5}\n' >&$GDS_TOP_FD; head -c 300000 /dev/zero | tr '\0' a >&$GDS_TOP_FD; echo >&$GDS_TOP_FD; echo '{"done": true, "bytes": 37}' >&$GDS_TOP_FD"#,
    );
    assert_eq!((noise["bytes"].as_u64(), &noise["error"]), (Some(37), &Value::Null), "{noise:#}");
    assert!(
        notes(&noise).contains("not understood") && !notes(&noise).contains(char::REPLACEMENT_CHARACTER),
        "{noise:#}"
    );
}

#[test]
fn a_command_that_reads_too_little_or_too_much_or_leaves_a_daemon_is_said_to() {
    let (folder, model) = model();
    let engine = |line: &str| notes(&run(folder.path(), &format!("command:{line}"), &[]).1);
    // The shell itself reads tens of KiB, so the model must be more than twice as large.
    assert!(model.file_bytes() > 400_000, "{}", model.file_bytes());
    assert!(engine("true").contains("or it did not read the complete model"));
    let twice = engine("cat {model}/*.safetensors {model}/*.safetensors {model}/*.safetensors > /dev/null");
    assert!(twice.contains("times as many bytes as the model's files have"), "{twice}");
    let mark = format!("6{}.5", std::process::id());
    let left = engine(&format!("setsid sleep {mark} >/dev/null 2>&1 & sleep 0.1"));
    assert!(left.contains("still running; they were killed"), "{left}");
    until("end of the daemon", || alive(&mark).is_empty());
}

fn started(folder: &Path, mark: &str) -> Child {
    let arguments = ["--engine", &format!("command:setsid sleep {mark} & sleep {mark}")];
    // A killed session cannot remove its temporary files.
    let child = command(folder, &arguments).env("TMPDIR", folder).spawn().unwrap();
    until("command", || alive(mark).len() >= 2);
    child
}

#[test]
fn a_cancelled_session_and_one_that_was_killed_leave_no_process() {
    let (folder, _) = model();
    for (number, signal) in [(5, "-INT"), (6, "-KILL")] {
        let mark = mark(number);
        let mut child = started(folder.path(), &mark);
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        until("end of the tree", || alive(&mark).is_empty());
        let status = child.wait().unwrap();
        assert!(signal == "-KILL" || status.code() == Some(130), "{status:?}");
    }
}

#[test]
fn a_command_whose_supervisor_is_killed_ends_with_it_and_its_session_goes_on() {
    let (folder, _) = model();
    let mark = mark(4);
    let child = started(folder.path(), &mark);
    // The session, the keeper, the supervisor, the shell and both sleeps name the mark.
    until("tree", || alive(&mark).len() >= 6);
    let of_this_test = alive(&mark);
    let supervisor = alive("__outside-supervisor").into_iter().find(|pid| of_this_test.contains(pid)).unwrap();
    // The session examines the process tree ten times a second, on a busy single core less often.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(Command::new("kill").args(["-KILL", &supervisor.to_string()]).status().unwrap().success());
    until("end of the tree", || alive(&mark).is_empty());
    let out = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(3), "{report:#}");
    assert!(report["runs"][0]["error"].as_str().is_some_and(|why| why.contains("supervisor")), "{report:#}");
}

#[test]
fn a_signal_of_the_terminal_ends_a_command_in_order() {
    use std::os::unix::process::CommandExt;
    let (folder, _) = model();
    let mark = mark(3);
    let arguments = ["--engine", &format!("command:sleep {mark} & sleep {mark}")];
    let mut child = command(folder.path(), &arguments).env("TMPDIR", folder.path()).process_group(0).spawn().unwrap();
    until("command", || alive(&mark).len() >= 2);
    // Like Ctrl-C, the signal is sent to all processes of the foreground group.
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    until("end of the tree", || alive(&mark).is_empty());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A small package `safetensors` that reads files into bytes, and an empty `numpy`.
const FAKE: &str = r#"
import json, struct
class Bytes(bytes):
    def tobytes(self):
        return bytes(self)
def load_file(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    table = json.loads(data[8:8 + length])
    table.pop("__metadata__", None)
    cut = lambda row: Bytes(data[8 + length + row["data_offsets"][0]:8 + length + row["data_offsets"][1]])
    return {name: cut(row) for name, row in table.items()}
"#;

#[test]
fn a_published_loader_runs_by_its_script_and_says_how_to_get_what_is_absent() {
    if Command::new("python3").arg("-V").output().is_err() {
        return standins::skipped("the scripts of loaders need python3");
    }
    let (folder, model) = model();
    let site = crate::harness::folder();
    for (file, text) in [
        ("safetensors/__init__.py", ""),
        ("safetensors/numpy.py", FAKE),
        ("numpy/__init__.py", ""),
        ("ml_dtypes.py", ""),
    ] {
        let file = site.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let runs = |engines: &str| -> Vec<Value> {
        let out = command(folder.path(), &["--engine", engines]).env("PYTHONPATH", site.path()).output().unwrap();
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        report["runs"].as_array().unwrap().clone()
    };
    let run = &runs("loader:safetensors")[0];
    assert_eq!((&run["error"], &run["verified"]), (&Value::Null, &true.into()), "{run:#}");
    assert_eq!(run["bytes"].as_u64(), Some(model.tensor_bytes()));
    assert!(run["phases"]["transfer"].as_u64().unwrap() > 0, "{run:#}");
    assert!(run["outside"]["program"].as_str().unwrap().starts_with("safetensors "), "{run:#}");
    // The other loaders are missing for a Python that ignores the user's packages, or they need a GPU.
    std::fs::write(site.path().join("fastsafetensors.py"), "raise ImportError('not here')").unwrap();
    let run = &runs("loader:fastsafetensors")[0];
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("pip install fastsafetensors") && error.contains("GDS_TOP_PYTHON"), "{error}");
}

#[test]
fn the_list_of_loaders_names_each_with_its_package() {
    let out = gds_top().args(["load", "--list-loaders"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0));
    for name in gds_top::core::LOADERS {
        assert!(text.contains(&format!("loader:{name}")), "{text}");
    }
}

/// Runs `load` on the stand-in GPU, with the stand-ins for NVML and the loaders' packages.
fn on_gpu(built: &standins::Standins, model: &Path, arguments: &[&str], told: &[(&str, &str)]) -> Vec<Value> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standins/python");
    let out = gds_top()
        .args(["load", "--gpu", STANDIN_UUID, "--cache", "as-is", "--json", "--repeat", "1"])
        .args(arguments)
        .arg(model)
        .env("LD_LIBRARY_PATH", &built.folder)
        .env("GDS_TOP_NVML", &built.nvml)
        .env("PYTHONPATH", python)
        .envs(told.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    report["runs"].as_array().unwrap().clone()
}

fn notes(run: &Value) -> String {
    run["notes"].to_string()
}

#[test]
fn the_gpu_memory_of_a_command_is_what_nvml_counts_for_its_processes_else_the_growth_of_the_gpu_s_use() {
    let Some(built) = standins::build() else { return };
    let (folder, _) = model();
    let scratch = crate::harness::folder();
    let list = scratch.path().join("processes");
    let file = list.to_str().unwrap();
    // The command runs until NVML was queried several times, each time a tenth of a second after the last query.
    let (reads, script) = (scratch.path().join("reads"), scratch.path().join("asked.sh"));
    let asked = "n=$(cat \"$1\" 2>/dev/null | wc -c)\nuntil [ $(cat \"$1\" 2>/dev/null | wc -c) -gt $((n + 8)) ]; do sleep 0.05; done\n";
    std::fs::write(&script, asked).unwrap();
    let asked = |what: &str| format!("sh {} {}.{what}", script.display(), reads.display());
    let (processes, memory) = (asked("processes"), asked("memory"));
    // A process of another user also uses the GPU.
    let line = format!(
        r#"command:echo "$$ 4096" > {file}; echo "1 77" >> {file}; sh -c 'echo "$$ 1000" >> {file}; {processes}; true' & wait"#
    );
    let told = [("STANDIN_NVML_PROCESSES", file), ("STANDIN_NVML_READS", reads.to_str().unwrap())];
    let run = &on_gpu(&built, folder.path(), &["--engine", &line], &told)[0];
    assert_eq!((&run["error"], &run["gpu_peak_bytes"]), (&Value::Null, &5096.into()), "{run:#}");
    assert!(notes(run).contains("counted for its processes"), "{run:#}");
    // As in a container, in which NVML knows the processes by other numbers.
    let run = &on_gpu(&built, folder.path(), &["--engine", &format!("command:{memory}; true")], &told)[0];
    assert_eq!((&run["error"], &run["gpu_peak_bytes"]), (&Value::Null, &0.into()), "{run:#}");
    assert!(notes(run).contains("growth of the GPU's total use"), "{run:#}");
}

#[test]
fn every_script_loads_verifies_and_tells_its_phases_with_the_interface_of_its_package() {
    if Command::new("python3").arg("-V").output().is_err() {
        return standins::skipped("the scripts of loaders need python3");
    }
    let Some(built) = standins::build() else { return };
    let (folder, model) = model();
    std::fs::write(folder.path().join("config.json"), r#"{"architectures": ["StandInForCausalLM"]}"#).unwrap();
    let engines: Vec<String> = gds_top::core::LOADERS.iter().map(|name| format!("loader:{name}")).collect();
    let all = engines.join(",");
    let sets: [&[&str]; 3] = [
        &[],
        &[
            "--set",
            "threads=3",
            "--set",
            "block_bytes=1048576",
            "--set",
            "register=1",
            "--set",
            "cufile=2",
            "--set",
            "depth=8",
        ],
        &["--set", "block_bytes=1", "--set", "cufile=0", "--set", "odirect=1", "--set", "register=0"],
    ];
    for more in sets {
        // Only torch.cuda.gds has the setting for a block of one byte.
        let named = if more.contains(&"block_bytes=1") { "loader:torch-cuda-gds,loader:safetensors" } else { &all };
        let told = if more.is_empty() { vec![] } else { vec![("GDS_TOP_INSTANTTENSOR_BACKEND", "BUFFERED")] };
        let arguments: Vec<&str> = ["--engine", named].into_iter().chain(more.iter().copied()).collect();
        let runs = on_gpu(&built, folder.path(), &arguments, &told);
        assert_eq!(runs.len(), named.split(',').count());
        for run in runs {
            assert_eq!((&run["error"], &run["verified"]), (&Value::Null, &true.into()), "{more:?} {run:#}");
            assert_eq!(run["bytes"].as_u64(), Some(model.tensor_bytes()), "{run:#}");
            assert!(run["phases"]["transfer"].as_u64().unwrap() > 0, "{run:#}");
            assert!(run["setup_parts_ns"]["command"].as_u64().unwrap() > 0, "{run:#}");
        }
    }
}

#[test]
fn a_script_without_a_gpu_or_with_a_wrong_setting_ends_with_a_sentence() {
    if Command::new("python3").arg("-V").output().is_err() {
        return standins::skipped("the scripts of loaders need python3");
    }
    let Some(built) = standins::build() else { return };
    let (folder, _) = model();
    for (engine, told, part) in [
        ("loader:kvikio", ("STANDIN_TORCH_CUDA", "0"), "can use no GPU"),
        ("loader:instanttensor", ("GDS_TOP_INSTANTTENSOR_BACKEND", "NONE"), "no back end 'NONE'; it has MMAP"),
    ] {
        let run = &on_gpu(&built, folder.path(), &["--engine", engine], &[told])[0];
        assert!(run["error"].as_str().unwrap_or_default().contains(part), "{run:#}");
    }
    // Transformers builds the model from its configuration.
    let of_transformers = || {
        let run = &on_gpu(&built, folder.path(), &["--engine", "loader:transformers"], &[])[0];
        run["error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(of_transformers().contains("there is no config.json"));
    std::fs::write(folder.path().join("config.json"), r#"{"architectures": ["OtherForCausalLM"]}"#).unwrap();
    assert!(of_transformers().contains("OtherForCausalLM"));
    // For an error in a package, the first line is reported and not the following advice.
    let run = &on_gpu(&built, folder.path(), &["--engine", "loader:fastsafetensors", "--set", "threads=0"], &[])[0];
    assert!(run["error"].as_str().unwrap_or_default().contains("AssertionError"), "{run:#}");
}

#[test]
fn a_command_that_floods_its_line_protocol_takes_no_memory() {
    let (_folder, model) = model();
    // Three million short lines, 400 MB of long lines, and one line of 100 MB.
    let flood = "command:(yes '{\"landed\": 1}' | head -c 42000000; head -c 400000000 /dev/zero | tr '\\0' x | fold -w 60000; \
                 head -c 100000000 /dev/zero; echo) >&$GDS_TOP_FD";
    let mut child = command(&model.path, &["--engine", flood, "--no-telemetry"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut text).map(|_| text)
    });
    let mut most_kib = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        most_kib = peak.unwrap_or(0).max(most_kib);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let report: Value = serde_json::from_str(&reader.join().unwrap().unwrap()).unwrap();
    let notes = report["runs"][0]["notes"].to_string();
    assert!(notes.contains("were dropped"), "{notes}");
    assert!(most_kib > 0 && most_kib < 200 << 10, "{most_kib} KiB");
}
