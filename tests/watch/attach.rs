//! Tests watching a running process with procfs and, as root, with kernel probes.

use crate::harness::{Place, Seen, has_recorded, wait_until};
use crate::program::gds_top;
use crate::standins;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn the_library_and_the_files_of_a_running_process_are_shown() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    place.prepare(program.arg(place.data()).args(["read", "3", "wait"]).stdout(Stdio::piped()));
    let mut running = program.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    let mut command = gds_top();
    command.args(["watch", "--json", "--seconds", "1", "--pid", &running.id().to_string()]);
    let seen = Seen::of(command);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(seen.status(), Some(0));
    let process = &seen.report["program"]["attached"];
    assert!(process["libcufile"].as_str().unwrap().contains("libcufile.so"), "{process}");
    let path = place.data().canonicalize().unwrap();
    let files = process["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == *path.to_string_lossy()).unwrap();
    assert_eq!((&file["o_direct"], &file["descriptors"]), (&true.into(), &1.into()));
    assert_eq!(file["bytes"], std::fs::metadata(&path).unwrap().len());
    // The process makes no cuFile transfer.
    assert_eq!(seen.report["watch"]["files"], serde_json::json!([]));
    let mut command = gds_top();
    let output = command.args(["watch", "--pid", "4194305"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn counts_are_at_least_if_libcufile_is_loaded_after_the_attach() {
    let Some(place) = Place::new() else { return };
    let (program, data) = (place.file("loaded"), place.data());
    let script =
        format!("while [ ! -e go ]; do sleep 0.02; done; exec {} {} steady 100000", program.display(), data.display());
    let mut shell = Command::new("sh");
    place.prepare(shell.args(["-c", &script]).stdout(Stdio::null()));
    let mut running = shell.spawn().unwrap();
    let mut command = gds_top();
    let recording = place.file("late.gdsrec");
    command.args(["watch", "--json", "--record"]).arg(&recording).args(["--pid", &running.id().to_string()]);
    let watch = std::thread::spawn(move || Seen::of(command));
    let partial = place.file("late.gdsrec.partial");
    let attached = |report: &serde_json::Value| report["program"]["attached"].is_object();
    wait_until("the session does not attach", || has_recorded(&partial, attached));
    std::fs::write(place.file("go"), "").unwrap();
    let is_read = |report: &serde_json::Value| {
        let mut calls = report["watch"]["calls"].as_array().into_iter().flatten();
        report["program"]["attached"]["not_recorded"].is_string() || calls.any(|call| call["function"] == "cuFileRead")
    };
    wait_until("no read is recorded", || has_recorded(&partial, is_read));
    // The session ends with the program.
    running.kill().unwrap();
    let seen = watch.join().unwrap();
    running.wait().unwrap();
    let process = &seen.report["program"]["attached"];
    if process["recorded"] == false {
        standins::skipped(&format!("the kernel gives no probes: {}", process["not_recorded"]));
        return;
    }
    let conditions = seen.report["summary"]["answers"][0]["conditions"].as_str().unwrap();
    assert!(process["loaded_late"] == true && conditions.starts_with("At least "), "{process} {conditions}");
}

#[test]
fn the_calls_of_a_running_process_and_its_children_are_recorded_as_root() {
    let Some(place) = Place::new() else { return };
    for name in ["linked", "loaded"] {
        let mut program = Command::new(place.file(name));
        place.prepare(program.arg(place.data()).args(["loop", "100000"]).stdout(Stdio::null()));
        let mut running = program.spawn().unwrap();
        let mut command = gds_top();
        command.args(["watch", "--json", "--seconds", "4", "--pid", &running.id().to_string()]);
        let began = std::time::Instant::now();
        let seen = Seen::of(command);
        let took = began.elapsed();
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(seen.status(), Some(0));
        // The kernel removes probes slowly, but gds-top does not wait for it.
        assert!(took < std::time::Duration::from_secs(60), "{took:?}");
        let process = &seen.report["program"]["attached"];
        if process["recorded"] == false {
            standins::skipped(&format!("the kernel gives no probes: {}", process["not_recorded"]));
            assert!(process["not_recorded"].is_string(), "{process}");
            return;
        }
        assert_eq!(process["loaded_late"], false);
        let (reads, batches) = (seen.count("cuFileRead"), seen.count("cuFileBatchIOSubmit"));
        assert!(batches > 4 && reads > 4 * batches, "{:?}", seen.calls());
        // At both ends, a part of a running round may be missed.
        let near = |count: u64, rounds: u64| count.abs_diff(batches * rounds) <= 3 * rounds;
        assert!(near(seen.count("cuFileHandleRegister"), 4) && near(seen.count("cuFileBufRegister"), 1));
        let file = seen.file(&place.data());
        let transfers = &file["reads"];
        let (count, bytes) = (transfers["count"].as_u64().unwrap(), transfers["bytes"].as_u64().unwrap());
        assert!(count >= 8 * batches && near(transfers["batched"].as_u64().unwrap(), 4), "{file}");
        assert!(bytes.abs_diff(count * 4096) <= 16 * 4096, "{file}");
        let calls = seen.report["watch"]["calls"].as_array().unwrap();
        let ended = calls.iter().find(|call| call["function"] == "cuFileBatchIOGetStatus").unwrap();
        assert!(ended["bytes"].as_u64().unwrap().abs_diff(batches * 4 * 4096) <= 16 * 4096, "{ended} {batches}");
        let timeline = seen.report["program"]["timeline"].as_array().unwrap();
        let of = |function: &str| timeline.iter().find(|call| call["function"] == function).unwrap();
        let (submission, entry) = (of("cuFileBatchIOSubmit"), of("batch entry"));
        assert_eq!((&submission["flags"], &entry["result"]), (&0.into(), &4096.into()), "{submission} {entry}");
        assert_eq!((&transfers["errors"], &transfers["unaligned"]), (&0.into(), &0.into()));
        assert_eq!(transfers["unregistered"], 0, "{file}");
        assert!(seen.advice().contains(&"began-late"), "{:?}", seen.advice());
        assert!(seen.report["program"]["attached"]["processes"].as_u64().unwrap() > 1);
        assert_eq!(seen.report["watch"]["lost_events"], 0);
        let library = &seen.report["program"]["libraries"][0];
        assert!(library["path"].as_str().unwrap().contains("libcufile.so"));
        assert!(library["processes"].as_u64().unwrap() > 1, "{library}");
    }
}

/// Attaches to a program for this number of seconds. `None`, with a message, if the kernel does not allow probes.
fn attached(pid: u32, seconds: &str) -> Option<std::process::Child> {
    let mut command = gds_top();
    command.args(["watch", "--json", "--seconds", seconds, "--pid", &pid.to_string()]);
    Some(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// The report of an attached session. `None`, with a message, if the kernel does not allow probes.
fn report_of(session: std::process::Child) -> Option<Seen> {
    let output = session.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let seen = Seen { report: serde_json::from_slice(&output.stdout).unwrap(), output };
    let process = &seen.report["program"]["attached"];
    if process["recorded"] == false {
        standins::skipped(&format!("the kernel gives no probes: {}", process["not_recorded"]));
        return None;
    }
    Some(seen)
}

#[test]
fn the_log_of_a_running_process_shows_that_it_has_no_direct_route() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    // No settings of this machine enable P2PDMA in the program.
    place.prepare(program.env("CUFILE_ENV_PATH_JSON", "/no/such.json").env_remove("CUFILE_USE_PCIP2PDMA"));
    let mut running = program.arg(place.data()).args(["log", "steady", "100000"]).spawn().unwrap();
    let mut command = gds_top();
    command.args(["watch", "--json", "--seconds", "2", "--pid", &running.id().to_string()]);
    let seen = Seen::of(command);
    running.kill().unwrap();
    running.wait().unwrap();
    let program = &seen.report["program"];
    let (process, settings) = (&program["attached"], &program["configurations"][0]);
    assert_eq!((&process["log"]["lines"], &process["log"]["compat"]), (&1.into(), &true.into()), "{process}");
    assert!(!process["log"]["causes"].as_array().unwrap().is_empty(), "{process}");
    assert_eq!((&settings["path"], &settings["from_environment"]), (&"/no/such.json".into(), &true.into()));
    if cfg!(target_arch = "x86_64") {
        let (route, proof) = match process["recorded"] == true {
            true => (&program["transfers"][0]["route"], &program["transfers"][0]["proof"]),
            false => (&process["route"], &process["route_proof"]),
        };
        assert_eq!((route, proof), (&"compat".into(), &"process_log".into()), "{process}");
    }
}

#[test]
fn the_calls_and_the_files_of_a_busy_process_have_the_same_reads() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    place.prepare(program.arg(place.data()).args(["read", "100000000"]).stdout(Stdio::null()));
    let mut running = program.spawn().unwrap();
    for _ in 0..3 {
        let Some(seen) = attached(running.id(), "1").and_then(report_of) else { break };
        let reads = seen.count("cuFileRead");
        // The first session can attach before the program has registered its file.
        let files = seen.report["program"]["transfers"].as_array().unwrap().iter();
        let in_files: u64 = files.map(|file| file["reads"]["count"].as_u64().unwrap()).sum();
        // The kernel can lose probes of such a program. A lost one is in neither number.
        assert!(reads > 100, "{reads}");
        assert_eq!(reads, in_files);
    }
    running.kill().unwrap();
    running.wait().unwrap();
}

/// While the probes of one session are removed, those of the next one are set.
#[test]
fn sessions_after_each_other_and_at_the_same_time_record_the_calls() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    place.prepare(program.arg(place.data()).args(["loop", "100000"]).stdout(Stdio::null()));
    let mut running = program.spawn().unwrap();
    let mut all = Vec::new();
    for _ in 0..4 {
        all.extend(attached(running.id(), "1").and_then(report_of));
    }
    let two = [attached(running.id(), "2"), attached(running.id(), "2")];
    all.extend(two.into_iter().flatten().filter_map(report_of));
    running.kill().unwrap();
    running.wait().unwrap();
    let counts: Vec<u64> = all.iter().map(|seen| seen.count("cuFileBatchIOSubmit")).collect();
    assert!(counts.iter().all(|batches| *batches > 1), "{counts:?}");
    assert!(all.is_empty() || all.len() == 6);
}

/// The buffer was registered before the attach, so it is not known whether it is registered.
#[test]
fn a_buffer_that_was_registered_before_the_attach_is_neither_registered_nor_unregistered() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    place.prepare(
        program.arg(place.data()).args(["register", "mark", "begun", "steady", "100000"]).stdout(Stdio::null()),
    );
    let mut running = program.spawn().unwrap();
    wait_until("the buffer is not registered", || place.file("begun").exists());
    let seen = attached(running.id(), "2").and_then(report_of);
    running.kill().unwrap();
    running.wait().unwrap();
    let Some(seen) = seen else { return };
    let files = seen.report["program"]["transfers"].as_array().unwrap();
    let reads = &files.iter().find(|file| file["reads"]["count"].as_u64() > Some(4)).unwrap()["reads"];
    assert_eq!((&reads["maybe_registered"], &reads["unregistered"]), (&reads["count"], &0.into()));
    assert!(!seen.advice().contains(&"unregistered-buffers"), "{:?}", seen.advice());
}

#[test]
fn a_process_that_has_ended_is_not_attached() {
    let mut ended = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", ended.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = gds_top().args(["watch", "--pid", &ended.id().to_string()]).output().unwrap();
    ended.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.contains("has ended")), (Some(3), true), "{said}");
}

#[test]
fn a_process_of_another_user_is_named_as_such() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        standins::skipped("only root can start a process of another user");
        return;
    }
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let mut command = gds_top();
    command.args(["watch", "--json", "--seconds", "1", "--pid", &other.id().to_string()]).uid(65_534).gid(65_534);
    let start = std::time::Instant::now();
    let is_late = |output: &std::process::Output| {
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .is_ok_and(|report| report["program"]["attached"]["unexamined_processes"] != 0)
    };
    // On a stalled machine, an answer about the process can be late.
    let mut output = command.output();
    while output.as_ref().is_ok_and(is_late) && start.elapsed().as_secs() < 50 {
        output = command.output();
    }
    other.kill().unwrap();
    other.wait().unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            standins::skipped(&format!("another user cannot start the program: {error}"));
            return;
        }
    };
    assert_eq!(output.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let process = &report["program"]["attached"];
    assert_eq!((&process["other_user"], &process["readable"]), (&true.into(), &false.into()), "{process}");
    // The counters of the process are missing, and nothing was left out because of a limit.
    assert_eq!((&process["reads_at_least"], &process["unexamined_processes"]), (&true.into(), &0.into()), "{process}");
    assert_eq!(
        (&process["read_call_bytes"], &process["libcufile"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

/// Any user can map files with any name and replace them, and root then examines the process.
#[test]
fn a_process_with_hostile_files_in_place_of_its_library_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libcufile.so.0");
    std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let mapping = gds_top::device::FileMapping::new(&std::fs::File::open(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The kernel appends this to the path of a removed file that is mapped.
    let shown = folder.path().join("libcufile.so.0 (deleted)");
    let fifo = |path: &std::path::Path| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let endless = |path: &std::path::Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    for plant in [&fifo as &dyn Fn(&std::path::Path), &endless] {
        plant(&shown);
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "sh", "-c", "ulimit -v 4000000; exec \"$@\"", "sh", crate::program::PROGRAM]);
        command.args(["watch", "--json", "--seconds", "1", "--pid", &std::process::id().to_string()]);
        let output = command.envs(crate::program::VARIABLES).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let process = &report["program"]["attached"];
        assert!(process["libcufile"].as_str().is_some_and(|path| path.ends_with("(deleted)")), "{process}");
        assert_eq!(process["recorded"], false, "{process}");
        std::fs::remove_file(&shown).unwrap();
    }
    drop(mapping);
}
