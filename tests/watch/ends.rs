//! Tests the ends of watched programs, and that no files remain.

use crate::harness::{Child, Place, Seen, UNDER_TEST, wait_until};
use crate::program::gds_top;
use crate::standins;
use rustix::process::{Pid, Signal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The directories that watching sessions created for their library and their calls.
fn left_behind(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).unwrap().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n.starts_with("gds-top-watch-")).collect()
}

#[test]
fn crashes_kills_and_failures_are_shown_with_all_calls() {
    let Some(place) = Place::new() else { return };
    for (words, calls, ended) in [
        (["read", "7", "crash"].as_slice(), 7, serde_json::json!({"signal": 6})),
        (&["read", "8", "die"], 8, serde_json::json!({"signal": 9})),
        (&["read", "9", "leave", "5"], 9, serde_json::json!({"status": 5})),
        (&["read", "9", "leave", "0"], 9, serde_json::json!({"status": 0})),
    ] {
        let seen = place.seen("linked", &[], words);
        assert_eq!(seen.report["program"]["ended"], ended);
        assert_eq!(seen.status(), Some(i32::from(ended != serde_json::json!({"status": 0}))));
        assert_eq!(seen.count("cuFileRead"), calls, "{words:?}");
    }
}

#[test]
fn the_output_of_the_program_is_its_own_and_nothing_stays_behind() {
    let Some(place) = Place::new() else { return };
    let temporary = place.file("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = place.watch(&["--json"]);
    command.env("TMPDIR", &temporary).args(["sh", "-c", "echo from the program; echo $LD_AUDIT >&2"]);
    let seen = Seen::of(command);
    let errors = String::from_utf8_lossy(&seen.output.stderr).into_owned();
    assert!(errors.contains("from the program"), "{errors}");
    assert!(errors.contains(&*temporary.to_string_lossy()), "{errors}");
    assert_eq!(left_behind(&temporary), Vec::<String>::new());
    let mut command = place.watch(&[]);
    let output = command.args(["sh", "-c", "echo from the program"]).output().unwrap();
    assert!(output.stdout.starts_with(b"from the program\n"), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_program_whose_report_cannot_be_written_is_not_started() {
    let Some(place) = Place::new() else { return };
    let (file, mark) = (place.file("file"), place.file("mark"));
    std::fs::write(&file, "").unwrap();
    let report = file.join("report");
    let mut command = place.watch(&["--export", report.to_str().unwrap()]);
    let output = command.arg("touch").arg(&mark).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!mark.exists());
}

#[test]
fn a_command_that_does_not_exist_could_not_run() {
    let Some(place) = Place::new() else { return };
    let output = place.watch(&[]).arg("/no/such/program").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{UNDER_TEST}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/program"));
    let output = place.watch(&[]).arg("").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot start a program without a name"), "{output:?}");
    assert_eq!(place.watch(&[]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    use std::os::unix::fs::PermissionsExt;
    let Some(place) = Place::new() else { return };
    let script = place.file("script");
    std::fs::write(&script, format!("{} {} read \"$1\"\n", place.file("linked").display(), place.data().display()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths([place.folder.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    for name in [script.as_os_str(), "script".as_ref(), "./script".as_ref()] {
        let mut command = place.watch(&["--json"]);
        command.env("PATH", &path).arg(name).arg("6");
        let seen = Seen::of(command);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 6), "{name:?}");
    }
}

#[test]
fn the_program_runs_on_if_gds_top_dies() {
    let Some(place) = Place::new() else { return };
    let temporary = place.file("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let done = place.file("done");
    // The program reads until gds-top has ended, and continues to read.
    let line = format!(
        "touch started; while [ ! -e go ]; do sleep 0.02; done; {} {} read 20000 && touch {}",
        place.file("linked").display(),
        place.data().display(),
        done.display()
    );
    let mut command = place.watch(&["-q"]);
    command.env("TMPDIR", &temporary).args(["sh", "-c", &line]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut gds_top = command.spawn().unwrap();
    let wait_for = |path: &Path| {
        let until = Instant::now() + Duration::from_secs(60);
        while !path.exists() {
            assert!(Instant::now() < until, "{} does not appear", path.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for(&place.file("started"));
    gds_top.kill().unwrap();
    gds_top.wait().unwrap();
    std::fs::write(place.file("go"), "").unwrap();
    wait_for(&done);
    // The next session of this user removes the directories in both places.
    let shared = Path::new("/dev/shm");
    let own = format!("gds-top-watch-{}-", gds_top.id());
    assert_eq!(left_behind(&temporary).len(), 1);
    let mut command = place.watch(&["-q"]);
    let status = command.env("TMPDIR", &temporary).arg("true").output().unwrap().status;
    assert_eq!(status.code(), Some(0));
    assert_eq!(left_behind(&temporary), Vec::<String>::new());
    assert!(!left_behind(shared).iter().any(|name| name.starts_with(&own)), "{:?}", left_behind(shared));
}

/// A shell command that ends while its child runs, and the child. It made the file `begun` half a second before.
fn shell_with_child(place: &Place, actions: &str) -> (String, Child) {
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    let wait = "until [ -e begun ]; do sleep 0.02; done; sleep 0.5";
    (format!("{program} {actions} > /dev/null 2>&1 & echo $! > child; {wait}"), Child(place.file("child")))
}

#[test]
fn totals_and_files_agree_if_a_child_calls_cufile_until_the_end() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json"]);
    let (line, _child) = shell_with_child(&place, "read 1 mark begun read 1000000000");
    command.args(["sh", "-c", &line]);
    let seen = Seen::of(command);
    assert!(seen.report["program"]["still_running"].as_u64() >= Some(1));
    let in_files: u64 = (seen.report["program"]["transfers"].as_array().unwrap().iter())
        .map(|file| file["reads"]["count"].as_u64().unwrap())
        .sum();
    let lost = seen.report["watch"]["lost_events"].as_u64().unwrap();
    assert!(in_files > 0);
    assert_eq!(seen.count("cuFileRead"), in_files + lost);
}

#[test]
fn the_time_of_the_report_contains_calls_after_the_end_of_the_program() {
    let Some(place) = Place::new() else { return };
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    let actions = "read 1 mark begun sleep 100 read 1";
    let line = format!("rm -f begun; {program} {actions} > /dev/null 2>&1 & until [ -e begun ]; do sleep 0.02; done");
    let seen = Seen::of_ended(|| {
        let mut command = place.watch(&["--json"]);
        command.args(["sh", "-c", &line]);
        command
    });
    let last_ns = (seen.report["program"]["timeline"].as_array().unwrap().iter())
        .map(|call| call["start_ns"].as_u64().unwrap() + call["duration_ns"].as_u64().unwrap())
        .max();
    assert_eq!((seen.count("cuFileRead"), &seen.report["program"]["still_running"]), (2, &0.into()));
    assert!(seen.report["program"]["wall_ns"].as_u64() >= last_ns, "{last_ns:?}");
}

#[test]
fn a_call_of_a_child_that_still_runs_did_not_end_with_the_program() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json"]);
    command.env("STANDIN_CUFILE_FAIL", "cuFileRead:hang");
    let (line, _child) = shell_with_child(&place, "mark begun read 1");
    command.args(["sh", "-c", &line]);
    let seen = Seen::of(command);
    let open = seen.report["program"]["open_calls"].as_array().unwrap();
    assert_eq!((open.len(), &open[0]["caller"]), (1, &"running".into()));
}

#[test]
fn a_call_that_never_returned_is_not_finished() {
    let Some(place) = Place::new() else { return };
    let line = format!(
        "{} {} mark begun read 1 & child=$!; until [ -e begun ]; do sleep 0.02; done; sleep 1; kill -9 $child; wait $child; true",
        place.file("linked").display(),
        place.data().display()
    );
    let mut command = place.watch(&["--json"]);
    command.env("STANDIN_CUFILE_FAIL", "cuFileRead:hang").args(["sh", "-c", &line]);
    let seen = Seen::of(command);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 0));
    let open = seen.report["program"]["open_calls"].as_array().unwrap();
    assert_eq!((open.len(), &open[0]["function"]), (1, &"cuFileRead".into()));
    assert!(open[0]["age_ns"].as_u64().unwrap() > 100_000_000, "{open:?}");
    assert!(seen.advice().contains(&"calls-not-returned"), "{:?}", seen.advice());
    assert_eq!(open[0]["caller"], "unknown", "only the shell knows how its child ended");
    // Calls that returned are not open.
    let seen = place.seen("linked", &[], &["register", "read", "3", "batch", "2", "threads", "2", "2"]);
    assert_eq!(seen.report["program"]["open_calls"], serde_json::json!([]));
}

#[test]
fn a_short_result_has_the_verdict_the_tables_and_the_advice() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["-q"]);
    let output = command.arg(place.file("linked")).arg(place.data()).args(["bad", "read", "1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for section in ["Calls", "Files", "Advice"] {
        assert!(text.lines().any(|line| line == section), "{section}: {text}");
    }
    assert!(!text.lines().any(|line| line == "Program"), "{text}");
}

#[test]
fn options_that_need_a_process_or_a_transfer_are_not_ignored() {
    let Some(place) = Place::new() else { return };
    let output = place.watch(&["--seconds", "1"]).arg("true").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let note = |command: &[&str]| {
        let output = place.watch(&["--require", "direct", "-q"]).args(command).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (program, data) = (place.file("linked"), place.data());
    let reads = note(&[program.to_str().unwrap(), data.to_str().unwrap(), "read", "1"]);
    assert_ne!(note(&["true"]), reads);
}

#[test]
fn a_recording_of_a_watched_program_is_replayed() {
    let Some(place) = Place::new() else { return };
    let file = place.file("session.gdsrec");
    let mut command = place.watch(&["--json", "--record", file.to_str().unwrap()]);
    command.arg(place.file("linked")).arg(place.data()).args(["read", "12"]);
    let seen = Seen::of(command);
    let mut replay = crate::program::gds_top();
    replay.args(["replay", "--headless", "--speed", "0", "--json"]).arg(&file);
    let replayed = Seen::of(replay);
    assert_eq!(replayed.report["watch"], seen.report["watch"]);
    assert_eq!(replayed.count("cuFileRead"), 12);
}

#[test]
fn a_program_with_an_audit_library_of_its_own_keeps_it() {
    let Some(place) = Place::new() else { return };
    let source = place.file("other.c");
    let code = "#include <stdio.h>\nunsigned la_version(unsigned v) { fprintf(stderr, \"other audit library\\n\"); return v; }\n";
    std::fs::write(&source, code).unwrap();
    let other = place.file("other.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&other).arg(&source).status().unwrap();
    assert!(built.success());
    let mut command = place.watch(&["--json"]);
    command.args(["env", &format!("LD_AUDIT_BEFORE={}", other.display())]);
    command.args(["sh", "-c", "LD_AUDIT=$LD_AUDIT:$LD_AUDIT_BEFORE exec \"$0\" \"$@\""]);
    command.arg(place.file("linked")).arg(place.data()).args(["read", "2"]);
    let seen = Seen::of(command);
    assert_eq!(seen.count("cuFileRead"), 2);
    assert!(String::from_utf8_lossy(&seen.output.stderr).contains("other audit library"));
}

/// The word is the number of calls without a ring, which is always examined.
#[test]
fn a_watched_program_that_overwrites_the_file_of_its_calls_gives_no_numbers() {
    let Some(place) = Place::new() else { return };
    let script = format!(
        "{} {} read 3; \
         printf '\\377\\377\\377\\377\\377\\377\\377\\177' | dd of=\"$GDS_TOP_WATCH_FILE\" bs=1 seek=16 conv=notrunc status=none",
        place.file("linked").display(),
        place.data().display()
    );
    let mut command = place.watch(&["--json"]);
    command.args(["sh", "-c", &script]);
    let seen = Seen::of(command);
    let facts = &seen.report["program"];
    assert_eq!((seen.status(), &facts["not_loaded"]), (Some(3), &"overwritten".into()), "{facts}");
    assert_eq!((&seen.report["watch"]["lost_events"], seen.calls().len()), (&0.into(), 0));
    assert_eq!((&facts["uncounted"], facts["ended"]["status"].as_i64()), (&0.into(), Some(0)));
}

#[test]
fn a_folder_of_another_user_with_the_name_of_the_own_one_stops_no_session() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    // No user has this number, so no other session has this directory.
    const USER: u32 = 54_377;
    let folder = Path::new("/tmp").join(format!("gds-top-of-{USER}"));
    if !rustix::process::geteuid().is_root() || std::fs::create_dir(&folder).is_err() {
        standins::skipped("only root can create a directory of another user");
        return;
    }
    let mut command = gds_top();
    command.args(["watch", "--", "true"]).env("TMPDIR", "/tmp").env_remove("XDG_RUNTIME_DIR").uid(USER).gid(USER);
    let output = command.output();
    std::fs::remove_dir(&folder).unwrap();
    let start = format!("gds-top-of-{USER}-");
    let made: Vec<_> = std::fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|entry| entry.path())
        .collect();
    let owners: Vec<u32> = made.iter().map(|path| std::fs::metadata(path).unwrap().uid()).collect();
    for path in &made {
        std::fs::remove_dir_all(path).unwrap();
    }
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            standins::skipped(&format!("another user cannot start the program: {error}"));
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(owners, [USER], "{said}");
    assert!(!said.contains("belongs to another user") && !said.contains("cannot be written"), "{said}");
}

#[test]
fn a_signal_to_gds_top_alone_reaches_the_program_as_the_same_signal() {
    let Some(place) = Place::new() else { return };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let ready = place.file(&format!("ready-{}", signal.as_raw()));
        let mut command = place.watch(&["--json"]);
        command.arg(place.file("linked")).arg(place.data()).args(["read", "3", "signals"]).arg(&ready);
        let watch = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the program does not start", || ready.exists());
        let pid = Pid::from_raw(i32::try_from(watch.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let output = watch.wait_with_output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let ended = serde_json::json!({"status": 100 + signal.as_raw()});
        assert_eq!((&report["program"]["ended"], output.status.code()), (&ended, Some(130)), "{signal:?}");
    }
}

#[test]
fn a_program_that_handles_a_signal_and_ends_with_status_0_is_recorded_completely() {
    let Some(place) = Place::new() else { return };
    for (program_status, status) in [(0, 0), (5, 130)] {
        let (ready, recording) =
            (place.file(&format!("ready-{program_status}")), place.file(&format!("{program_status}.gdsrec")));
        let mut command = place.watch(&["-q", "--record", recording.to_str().unwrap()]);
        let script = format!("trap 'exit {program_status}' INT; touch \"$0\"; while :; do sleep 0.02; done");
        command.args(["sh", "-c", &script]).arg(&ready);
        let watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the program does not start", || ready.exists());
        let pid = Pid::from_raw(i32::try_from(watch.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        let output = watch.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), said.contains("gds-top: interrupted;")),
            (Some(status), status == 130),
            "{said}"
        );
        // The recording of an interrupted program is kept, too.
        assert!(recording.is_file(), "{program_status}");
    }
}

#[test]
fn a_program_that_cannot_be_started_leaves_no_recording() {
    let Some(place) = Place::new() else { return };
    let recording = place.file("none.gdsrec");
    let output = place.watch(&["-q", "--record", recording.to_str().unwrap()]).arg("./missing").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let names = std::fs::read_dir(place.folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("none.gdsrec")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_program_ignores_sigpipe_only_if_gds_top_was_started_so() {
    let Some(place) = Place::new() else { return };
    for (action, status) in
        [("trap '' PIPE; ", serde_json::json!({"status": 7})), ("", serde_json::json!({"signal": 13}))]
    {
        let mut command = std::process::Command::new("sh");
        place.prepare(&mut command);
        let program = ["watch", "--json", "--", "sh", "-c", "kill -PIPE $$; exit 7"];
        command.args(["-c", &format!("{action}exec \"$@\""), "sh"]).arg(UNDER_TEST).args(program);
        let seen = Seen::of(command);
        assert_eq!(seen.report["program"]["ended"], status, "{action}");
    }
}

#[test]
fn programs_that_a_daemon_starts_after_the_session_print_no_error() {
    let Some(place) = Place::new() else { return };
    let (go, done) = (place.file("go"), place.file("done"));
    let daemon = "(while [ ! -e go ]; do sleep 0.02; done; ls /nowhere; ls -d .; test -f \"$LD_AUDIT\" && echo \"$LD_AUDIT\") > part 2>&1; mv part done";
    let script = format!("setsid sh -c '{daemon}' > /dev/null 2>&1 &");
    let output = place.watch(&["-q"]).args(["sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::write(&go, "").unwrap();
    let started = Instant::now();
    while !done.exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "the daemon does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let text = std::fs::read_to_string(&done).unwrap();
    let library = std::path::PathBuf::from(text.lines().last().unwrap());
    assert!(library.is_absolute() && !text.contains("cannot be loaded") && text.contains("/nowhere"), "{text}");
    // The daemon ends now, so a later session removes the library, perhaps one of another test.
    while library.exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "{} stays", library.display());
        assert!(place.watch(&["-q"]).arg("true").status().unwrap().success());
    }
}

#[test]
fn a_recording_without_its_end_says_so_and_denies_nothing() {
    let Some(place) = Place::new() else { return };
    let (partial, done) = place.killed_session();
    let mut report = gds_top();
    report.args(["report", "--json"]).arg(&partial);
    let seen = Seen::of(report);
    let answers = seen.report["summary"]["answers"].as_array().unwrap();
    let headlines: Vec<_> = answers.iter().map(|answer| answer["headline"].as_str().unwrap()).collect();
    assert_eq!((seen.status(), headlines[0]), (Some(1), "The session ended unexpectedly. Results are incomplete."));
    assert!(!headlines.iter().any(|headline| headline.contains("does not use cuFile")), "{headlines:?}");
    wait_until("the program does not end", || done.exists());
}

#[test]
fn a_program_with_a_seccomp_filter_ends_as_without_watch() {
    let Some(place) = Place::new() else { return };
    for how in ["sandbox", "prctl"] {
        for end in [["quit", "5"], ["leave", "5"]] {
            let mut native = Command::new(place.file("linked"));
            place.prepare(native.arg(place.data()).args([how, "3"]).args(end));
            assert_eq!(native.status().unwrap().code(), Some(5), "{how}");
            for options in [[].as_slice(), &["--statistics"]] {
                let seen = place.seen("linked", options, &[how, "3", end[0], end[1]]);
                let ended = serde_json::json!({"status": 5});
                assert_eq!((&seen.report["program"]["ended"], seen.count("cuFileRead")), (&ended, 4), "{how} {end:?}");
            }
        }
    }
}
