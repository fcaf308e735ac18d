//! Tests that calls are recorded for every method of finding and calling libcufile.

use crate::harness::{Child, Place, Seen};
use crate::standins;
use std::process::Command;

#[test]
fn linked_and_loaded_programs_are_recorded_alike() {
    let Some(place) = Place::new() else { return };
    // Tables of functions, in the program and in a library that it opens. Constant ones become read-only.
    let constant = r#"-DTABLE=__attribute__((section(".data.rel.ro")))"#;
    for (name, options) in [
        ("table", ["-DTABLE=", "-pie", "-fPIE"].as_slice()),
        ("const table", &[constant, "-pie", "-fPIE"]),
        ("table without PIE", &["-DTABLE=", "-no-pie", "-fno-pie"]),
        ("table bound at start", &["-DTABLE=", "-Wl,-z,now"]),
        ("plugin.so", &["-DTABLE=", "-Dmain=run", "-shared", "-fPIC"]),
    ] {
        place.compile(name, true, options);
    }
    let host = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.so", words[0]);
    void *library = dlopen(path, RTLD_NOW);
    return library ? ((int (*)(int, char **))dlsym(library, "run"))(count, words) : 90;
}
"#;
    std::fs::write(place.file("host.c"), host).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-o").args([place.file("plugin"), place.file("host.c")]).arg("-ldl");
    assert!(cc.status().unwrap().success());
    let tables = ["table", "const table", "table without PIE", "table bound at start", "plugin"];
    for name in ["linked", "loaded", "noplt", "now"].into_iter().chain(tables) {
        if name != "linked" && name != "loaded" && !reports_all_slots() {
            standins::skipped(
                "glibc before 2.35 reports slots outside the PLT and slots bound at start to no audit library",
            );
            continue;
        }
        let seen = place.seen(name, &[], &["version", "register", "read", "31", "deregister"]);
        assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
        let calls = seen.calls();
        for (function, count) in [
            ("cuFileDriverOpen", 1),
            ("cuFileGetVersion", 1),
            ("cuFileBufRegister", 1),
            ("cuFileHandleRegister", 1),
            ("cuFileRead", 31),
            ("cuFileHandleDeregister", 1),
            ("cuFileBufDeregister", 1),
            ("cuFileDriverClose_v2", 1),
        ] {
            assert_eq!(calls.get(function), Some(&(count, 0)), "{name}: {calls:?}");
        }
        assert_eq!(calls.len(), 8, "{name}: {calls:?}");
        let file = seen.file(&place.data());
        assert_eq!((&file["reads"]["count"], &file["reads"]["bytes"]), (&31.into(), &(31 * 4096).into()));
        assert_eq!((&file["reads"]["unregistered"], &file["reads"]["unaligned"]), (&0.into(), &0.into()));
        assert_eq!(file["o_direct"], false);
        assert_eq!(seen.report["watch"]["lost_events"], 0);
        let library = &seen.report["program"]["libraries"][0];
        assert!(library["path"].as_str().unwrap().contains("libcufile.so"), "{library}");
        assert_eq!((&library["version"], &library["processes"]), (&1200.into(), &1.into()));
    }
}

#[test]
fn a_report_has_the_facts_of_the_machine_and_the_storage_of_the_files() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["read", "1"]);
    let machine = &seen.report["machine"];
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(machine["kernel"], kernel.trim());
    assert!(machine["cufile_defaults"].as_array().is_some_and(|keys| keys.len() > 50), "{machine}");
    let data = place.data();
    assert_eq!(machine["storage"][0]["path"], data.to_str().unwrap());
    assert!(machine["storage"][0]["mount_point"].is_string() && machine["storage"][0]["filesystem"].is_string());
    assert!(seen.report["command"].as_str().unwrap().starts_with("gds-top watch --json -- "));
    // A program that names another cufile.json does not get the keys of this one.
    let mut other = place.watch(&["--json"]);
    std::fs::write(place.file("other.json"), "{}").unwrap();
    let variable = format!("CUFILE_ENV_PATH_JSON={}", place.file("other.json").display());
    other.args(["env", &variable]).arg(place.file("linked")).arg(&data).args(["read", "1"]);
    let seen = Seen::of(other);
    assert_eq!(seen.report["machine"]["kernel"], kernel.trim());
    assert_eq!(seen.report["machine"]["cufile_defaults"], serde_json::json!([]), "{}", seen.report["program"]);
}

/// Whether the linker reports symbols that are bound at start.
fn reports_all_slots() -> bool {
    let output = Command::new("ldd").arg("--version").output().map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output).into_owned();
    let version = text.lines().next().and_then(|line| line.rsplit(' ').next()?.split_once('.'));
    version.is_some_and(|(major, minor)| (major.parse().unwrap_or(0), minor.parse().unwrap_or(0)) >= (2, 35))
}

#[test]
fn every_function_of_cufile_h_is_recorded() {
    let Some(place) = Place::new() else { return };
    let names: Vec<&str> = cufile_ffi::symbols::SYMBOLS.iter().map(|symbol| symbol.name).collect();
    let words: Vec<&str> = std::iter::once("unrecorded").chain(names.iter().copied()).collect();
    let mut bare = Command::new(place.file("loaded"));
    place.prepare(bare.arg(place.data()).args(&words));
    let bare = String::from_utf8(bare.output().unwrap().stdout).unwrap();
    assert!(bare.lines().count() > 40, "the program itself sees only {bare}");
    let mut watched = place.watch(&["-q"]);
    let watched = watched.arg(place.file("loaded")).arg(place.data()).args(&words).output().unwrap();
    let text = String::from_utf8(watched.stdout).unwrap();
    let missed: Vec<&str> = names.into_iter().filter(|name| text.lines().any(|line| line == *name)).collect();
    assert_eq!(missed, Vec::<&str>::new());
}

#[test]
fn children_and_threads_are_recorded_and_counted() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["read", "3", "fork", "5", "read", "2", "threads", "8", "20"]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 3 + 5 + 2 + 8 * 20));
    // The main thread, the child and eight more.
    assert_eq!(seen.report["watch"]["threads"], 10);
    assert_eq!(seen.file(&place.data())["reads"]["count"], 170);
    // A program that starts another one.
    let mut shell = place.watch(&["--json"]);
    let line = format!("{0} {1} read 4; {0} {1} read 6", place.file("linked").display(), place.data().display());
    let seen = Seen::of({
        shell.args(["sh", "-c", &line]);
        shell
    });
    assert_eq!(seen.count("cuFileRead"), 10);
    assert_eq!(seen.report["program"]["programs"], 3);
}

#[test]
fn a_thousand_threads_at_once_are_recorded_and_more_are_shown_as_lost() {
    let Some(place) = Place::new() else { return };
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    if files.split_whitespace().nth(4).unwrap().parse().is_ok_and(|most: u32| most < 1200) {
        standins::skipped("each of 1100 threads has an open file, and fewer are permitted");
        return;
    }
    let seen = place.seen("linked", &[], &["storm", "1000", "3"]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 3000));
    assert_eq!((&seen.report["watch"]["threads"], &seen.report["watch"]["lost_events"]), (&1001.into(), &0.into()));
    let seen = place.seen("linked", &[], &["storm", "1100", "3"]);
    assert_eq!(seen.status(), Some(0));
    let calls: u64 = seen.calls().values().map(|(count, _)| count).sum();
    // The two calls of the main thread, and five of each thread.
    let uncounted = seen.report["program"]["uncounted"].as_u64().unwrap();
    assert_eq!(calls + uncounted, 2 + 5 * 1100, "{:?}", seen.calls());
    assert!(uncounted > 0 && seen.report["watch"]["lost_events"].as_u64().unwrap() >= uncounted);
    assert!(seen.advice().contains(&"lost-events"));
}

#[test]
fn threads_that_live_for_one_read_are_all_recorded() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["brief", "4000"]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 4000));
    assert_eq!((&seen.report["watch"]["threads"], &seen.report["watch"]["lost_events"]), (&4001.into(), &0.into()));
}

#[test]
fn short_threads_are_all_recorded_while_nothing_reads_their_rings() {
    let Some(place) = Place::new() else { return };
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    let line = format!("kill -STOP $PPID; {program} brief 4000; status=$?; kill -CONT $PPID; exit $status");
    let seen = Seen::of({
        let mut shell = place.watch(&["--json"]);
        shell.args(["sh", "-c", &line]);
        shell
    });
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 4000));
    assert_eq!((&seen.report["watch"]["threads"], &seen.report["watch"]["lost_events"]), (&4001.into(), &0.into()));
}

#[test]
fn children_with_another_environment_are_recorded() {
    let Some(place) = Place::new() else { return };
    for how in [
        "posix_spawn",
        "posix_spawnp",
        "vfork",
        "execve",
        "execvpe",
        "fexecve",
        "execv",
        "execvp",
        "execl",
        "execlp",
        "execle",
    ] {
        let words = ["start", if how == "execve" { "vfork" } else { how }, "3"];
        let seen = place.seen("linked", &[], &words);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 3), "{how}");
        assert_eq!(seen.report["program"]["programs"], 2, "{how}");
    }
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    let folder = place.built.folder.display();
    for line in [
        format!("env -i LD_LIBRARY_PATH={folder} {program} read 3"),
        format!("unset LD_AUDIT GDS_TOP_WATCH_FILE; exec {program} read 3"),
        format!("LD_AUDIT= LD_PRELOAD= {program} read 3; true"),
    ] {
        let mut shell = place.watch(&["--json"]);
        shell.args(["sh", "-c", &line]);
        let seen = Seen::of(shell);
        assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 3), "{line}");
    }
}

#[test]
fn two_copies_of_the_library_in_two_namespaces_keep_their_functions() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("loaded", &[], &["twice", "5", "read", "2"]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 12), "{}", seen.report["program"]["ended"]);
    assert_eq!((seen.count("cuFileDriverOpen"), seen.count("cuFileHandleRegister")), (2, 3));
    let file = seen.file(&place.data());
    assert_eq!((&file["reads"]["count"], &file["reads"]["errors"]), (&12.into(), &0.into()));
}

#[test]
fn a_child_that_outlives_the_program_is_reported() {
    let Some(place) = Place::new() else { return };
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    let mut shell = place.watch(&["--json", "--statistics"]);
    let _child = Child(place.file("child"));
    let wait = "until [ -s started ]; do sleep 0.02; done";
    shell.args(["sh", "-c", &format!("{program} read 2 wait > started 2> /dev/null & echo $! > child; {wait}")]);
    shell.env("STANDIN_CUFILE_ROUTE", "p2p");
    let seen = Seen::of(shell);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 2));
    assert_eq!(seen.report["program"]["still_running"], 1);
    assert!(seen.advice().contains(&"still-running"), "{:?}", seen.advice());
}

#[test]
fn a_helper_that_ends_just_after_the_program_leaves_the_recording_complete() {
    let Some(place) = Place::new() else { return };
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    // The helper waits for the end of its parent, as that of Python's multiprocessing.
    let line = format!("{program} read 2; sleep 0.05 > /dev/null 2>&1 &");
    let seen = Seen::of_ended(|| {
        let mut shell = place.watch(&["--json"]);
        shell.args(["sh", "-c", &line]);
        shell
    });
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 2));
    let report = &seen.report;
    assert_eq!((&report["program"]["still_running"], &report["watch"]["complete"]), (&0.into(), &true.into()));
}

#[test]
fn a_child_that_has_not_called_cufile_yet_is_reported() {
    let Some(place) = Place::new() else { return };
    let program = format!("{} {}", place.file("linked").display(), place.data().display());
    let mut shell = place.watch(&["--json"]);
    let _child = Child(place.file("child"));
    shell.args(["sh", "-c", &format!("{program} until go read 2 > /dev/null 2>&1 & echo $! > child")]);
    let seen = Seen::of(shell);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 0));
    assert!(seen.report["program"]["still_running"].as_u64() >= Some(1));
    assert!(seen.advice().contains(&"still-running"), "{:?}", seen.advice());
}

/// Each program in a process has counters that begin at 0.
#[test]
fn counters_of_a_program_that_another_one_replaced_are_added() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json", "--statistics"]);
    command.arg(place.file("linked")).arg(place.data()).args(["read", "6", "exec", "read", "10"]);
    let seen = Seen::of({
        command.env("STANDIN_CUFILE_ROUTE", "p2p");
        command
    });
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 16));
    assert_eq!(seen.report["program"]["statistics"]["p2pdma"], 16);
}

/// A process that changed its user keeps its mapping of the shared file. It must not determine what others load.
#[test]
fn a_changed_path_in_the_shared_file_loads_no_library() {
    let Some(place) = Place::new() else { return };
    let planted = place.folder.path().join("planted.so");
    let script = format!(
        "printf '%s\\0\\0\\0\\0\\0\\0\\0\\0' '{}' | dd of=\"$GDS_TOP_WATCH_FILE\" bs=1 seek=512 conv=notrunc status=none; \
         sh -c 'env -i /bin/sh -c /usr/bin/env; env'",
        planted.display()
    );
    let mut command = place.watch(&["--json"]);
    command.args(["/bin/sh", "-c", &script]);
    let seen = Seen::of(command);
    let printed =
        String::from_utf8_lossy(&seen.output.stderr).into_owned() + &String::from_utf8_lossy(&seen.output.stdout);
    assert_eq!(seen.status(), Some(0), "{printed}");
    let variables: Vec<&str> = printed.lines().filter(|line| line.starts_with("LD_AUDIT=")).collect();
    assert!(!variables.is_empty(), "{printed}");
    assert!(variables.iter().all(|line| !line.contains("planted")), "{variables:?}");
}

#[test]
fn gds_top_inside_a_session_reports_the_file_of_its_libcufile() {
    let Some(place) = Place::new() else { return };
    let mut shell = place.watch(&["--json"]);
    shell.args(["sh", "-c", &format!("exec '{}' __probe-cufile . --no-open > facts", crate::program::PROGRAM)]);
    assert_eq!(Seen::of(shell).count("cuFileGetVersion"), 1);
    let facts: serde_json::Value = serde_json::from_slice(&std::fs::read(place.file("facts")).unwrap()).unwrap();
    let file = place.built.cufile.canonicalize().unwrap();
    assert_eq!(facts["chosen"], file.to_str().unwrap(), "{facts}");
}

#[test]
fn the_inner_of_two_nested_sessions_records_and_the_outer_names_its_program() {
    let Some(place) = Place::new() else { return };
    let inner = place.file("inner.json");
    let program = place.file("linked");
    let line = format!(
        "{} watch --json -- {} {} read 4 > {}",
        crate::program::PROGRAM,
        program.display(),
        place.data().display(),
        inner.display()
    );
    let mut shell = place.watch(&["--json"]);
    shell.args(["sh", "-c", &line]);
    let outer = Seen::of(shell);
    let inner: serde_json::Value = serde_json::from_slice(&std::fs::read(&inner).unwrap()).unwrap();
    let calls = inner["watch"]["calls"].as_array().unwrap();
    assert!(calls.iter().any(|call| call["function"] == "cuFileRead" && call["count"] == 4), "{calls:?}");
    assert_eq!((outer.status(), outer.count("cuFileRead")), (Some(0), 0));
    let facts = &outer.report["program"];
    assert_eq!(facts["in_other_session"], serde_json::json!([program.to_string_lossy()]));
    assert_eq!(facts["unrecorded"], serde_json::json!([]));
    assert_eq!(outer.advice(), ["other-session"]);
    // The outer program does not use the memory that the inner session shares with its program.
    let files = facts["transfers"].as_array().unwrap();
    assert!(files.iter().all(|file| !file["path"].as_str().unwrap().contains("gds-top-watch-")), "{files:?}");
}

#[test]
fn entries_of_batches_have_durations() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["register", "batch", "20", "read", "2"]);
    let count = |name: &str| -> u64 {
        let all = seen.report["program"][name].as_array().unwrap();
        all.iter().map(|class| class["count"].as_u64().unwrap()).sum()
    };
    assert_eq!((count("latencies"), count("sizes")), (22, 22));
    let paces = seen.report["program"]["paces"].as_array().unwrap();
    let entries = paces.iter().find(|pace| pace["function"] == "batch entry").unwrap();
    assert_eq!((&entries["up_to_bytes"], &entries["bytes"]), (&4096.into(), &(20 * 4096).into()));
    let [calls, ns] = [0, 1]
        .map(|at| entries["parts"].as_array().unwrap().iter().map(|part| part[at].as_u64().unwrap()).sum::<u64>());
    assert!(calls == 20 && ns > 0, "{entries}");
}

#[test]
fn a_library_that_is_loaded_twice_is_one_library() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("loaded", &[], &["read", "3", "again", "read", "4"]);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 7));
    assert_eq!(seen.report["program"]["libraries"].as_array().unwrap().len(), 1);
}

#[test]
fn batches_and_streams_are_followed_to_their_end() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["register", "batch", "20"]);
    let reads = &seen.file(&place.data())["reads"];
    assert_eq!((&reads["count"], &reads["batched"], &reads["bytes"]), (&20.into(), &20.into(), &(20 * 4096).into()));
    assert_eq!((seen.count("cuFileBatchIOSubmit"), &seen.report["watch"]["lost_events"]), (1, &0.into()));

    let seen = place.seen("linked", &[], &["stream", "0"]);
    let reads = &seen.file(&place.data())["reads"];
    assert_eq!((&reads["streamed"], &reads["bytes"], &reads["errors"]), (&1.into(), &4096.into(), &0.into()));
    // In compat mode, an offset in unregistered memory fails after a successful call. The program does not check the
    // result.
    let seen = place.seen("linked", &[], &["stream", "4096"]);
    assert_eq!(seen.status(), Some(0));
    let failure = &seen.report["program"]["failures"][0];
    assert_eq!((&failure["code"], &failure["after_submission"]), (&(-5).into(), &true.into()));
    assert!(seen.advice().contains(&"failed-calls"), "{:?}", seen.advice());
}

#[test]
fn errors_are_counted_and_named() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["bad", "bad", "read", "1"]);
    assert_eq!(seen.calls()["cuFileRead"], (3, 2));
    let failure = &seen.report["program"]["failures"][0];
    assert_eq!((&failure["function"], &failure["count"]), (&"cuFileRead".into(), &2.into()));
    assert_eq!(failure["name"], "CU_FILE_HANDLE_NOT_REGISTERED");
}

#[test]
fn errors_of_the_operating_system_have_their_errno() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json"]);
    command.env("STANDIN_CUFILE_FAIL", "cuFileRead:5:2").arg(place.file("linked")).arg(place.data());
    let seen = Seen::of({
        command.args(["each", "3", "0"]);
        command
    });
    let failure = &seen.report["program"]["failures"][0];
    assert_eq!(
        (&failure["function"], &failure["code"], &failure["errno"]),
        (&"cuFileRead".into(), &(-1).into(), &5.into())
    );
    assert!(explained(&seen).contains("gds-top explain -5'"), "{}", explained(&seen));
}

/// The text of the first advice.
fn explained(seen: &Seen) -> &str {
    seen.report["watch"]["advice"][0]["text"].as_str().unwrap()
}

#[test]
fn a_code_of_cufile_in_errno_is_named_and_explained() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json"]);
    command
        .env("STANDIN_CUFILE_FAIL", "cuFileRead:5027:2")
        .env("STANDIN_CUFILE_ERRNO", "1")
        .arg(place.file("linked"))
        .arg(place.data());
    let seen = Seen::of({
        command.args(["each", "3", "0"]);
        command
    });
    let failure = &seen.report["program"]["failures"][0];
    assert_eq!((&failure["code"], &failure["errno"]), (&(-1).into(), &5027.into()), "{failure}");
    assert_eq!(failure["name"], "CU_FILE_HANDLE_NOT_REGISTERED");
    assert!(explained(&seen).contains("gds-top explain 5027'"), "{}", explained(&seen));
}

#[test]
fn two_million_calls_are_all_counted() {
    let Some(place) = Place::new() else { return };
    let seen = place.seen("linked", &[], &["time", "2000000"]);
    assert_eq!(seen.calls()["cuFileRead"], (2_000_000, 2_000_000));
    // Details may be lost, but then this is reported. A few other calls may be lost too.
    let files = seen.report["program"]["transfers"].as_array().unwrap();
    let detailed: u64 = files.iter().map(|file| file["reads"]["count"].as_u64().unwrap()).sum();
    let lost = seen.report["watch"]["lost_events"].as_u64().unwrap();
    assert!(detailed <= 2_000_000 && (2_000_000..2_000_010).contains(&(detailed + lost)), "{detailed} {lost}");
}

#[test]
fn the_settings_with_which_a_process_opens_the_driver_are_named() {
    let Some(place) = Place::new() else { return };
    let named = |command: Command| {
        let seen = Seen::of(command);
        let all = seen.report["program"]["configurations"].as_array().unwrap();
        let one = |file: &serde_json::Value| (file["path"].as_str().unwrap().to_owned(), file["exists"] == true);
        all.iter().map(one).collect::<Vec<_>>()
    };
    let own = place.file("own.json").canonicalize().unwrap_or_else(|_| place.file("own.json"));
    std::fs::write(&own, "{}").unwrap();
    let own = own.to_string_lossy().into_owned();
    // The program that gds-top starts only starts another one, with other settings.
    let mut changed = place.watch(&["--json"]);
    changed
        .args(["env", "CUFILE_ENV_PATH_JSON=own.json"])
        .arg(place.file("linked"))
        .arg(place.data())
        .args(["read", "1"]);
    // The program sets the variable itself.
    let mut late = place.watch(&["--json"]);
    late.arg(place.file("linked")).arg(place.data()).args(["implicit", "configure", "/no/such.json", "read", "1"]);
    assert_eq!((named(changed), named(late)), (vec![(own, true)], vec![("/no/such.json".to_owned(), false)]));
}

#[test]
fn calls_are_not_recorded_while_the_program_pauses_the_recording() {
    let Some(place) = Place::new() else { return };
    let words = ["read", "2", "pause", "1", "sleep", "100", "read", "5", "plain", "3", "pause", "0", "read", "4"];
    let seen = place.seen("loaded", &[], &words);
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 6));
    assert_eq!(seen.report["program"]["paused"], true);
    let others = seen.report["program"]["other_calls"].as_array().unwrap();
    assert!(!others.iter().any(|call| call["function"] == "pread"), "{others:?}");
    let whole = place.seen("loaded", &[], &["read", "2", "plain", "3"]);
    assert_eq!(whole.report["program"]["paused"], false);
}

#[test]
fn tensors_of_a_safetensors_file_are_named() {
    let Some(place) = Place::new() else { return };
    let header = r#"{"first":{"dtype":"U8","shape":[4096],"data_offsets":[0,4096]},"second":{"dtype":"U8","shape":[8192],"data_offsets":[4096,12288]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![1; 12288]);
    bytes.truncate(8 + header.len() + 12288);
    let path = place.file("model.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let mut command = place.watch(&["--json"]);
    command.arg(place.file("linked")).arg(&path).args(["read", "1"]);
    let seen = Seen::of(command);
    let file = seen.file(&path);
    assert_eq!((&file["tensors_of_file"], &file["tensors"][0]["name"]), (&2.into(), &"first".into()));
    let read = 4096 - 8 - header.len() as u64;
    assert_eq!((&file["tensors"][0]["bytes"], file["tensors"].as_array().unwrap().len()), (&read.into(), 1));
    assert!(file["tensors"][0]["read_ns"].is_u64(), "{file}");
}

#[test]
fn a_program_in_python_is_recorded_through_ctypes_and_its_children() {
    let Some(place) = Place::new() else { return };
    let script = r"
import ctypes, multiprocessing, os
def use():
    library = ctypes.CDLL(os.environ['LIBRARY'])
    version = ctypes.c_int()
    assert library.cuFileGetVersion(ctypes.byref(version)) == 0
if __name__ == '__main__':
    use()
    for method in ('fork', 'spawn'):
        child = multiprocessing.get_context(method).Process(target=use)
        child.start()
        child.join()
        assert child.exitcode == 0
";
    let file = place.file("script.py");
    std::fs::write(&file, script).unwrap();
    if !Command::new("python3").arg("-c").arg("import ctypes, multiprocessing").status().is_ok_and(|s| s.success()) {
        standins::skipped("python3 is not installed");
        return;
    }
    let mut command = place.watch(&["--json"]);
    command.arg("python3").arg(&file);
    let seen = Seen::of(command);
    assert_eq!((seen.status(), seen.count("cuFileGetVersion")), (Some(0), 3));
}

#[test]
fn a_static_program_is_reported_as_not_recorded() {
    let Some(place) = Place::new() else { return };
    std::fs::write(place.file("s.c"), "int main(void) { return 0; }").unwrap();
    let built =
        Command::new("cc").arg("-static").arg("-o").arg(place.file("s")).arg(place.file("s.c")).output().unwrap();
    if !built.status.success() {
        standins::skipped("a static libc is not installed");
        return;
    }
    let mut command = place.watch(&["--json"]);
    command.arg(place.file("s"));
    let seen = Seen::of(command);
    assert_eq!((seen.status(), &seen.report["program"]["programs"]), (Some(3), &0.into()));
    assert_eq!(seen.report["program"]["not_loaded"], "static");
}

#[test]
fn a_program_with_elevated_rights_is_reported_as_not_recorded() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let Some(place) = Place::new() else { return };
    const NOBODY: u32 = 65_534;
    place.compile("elevated", true, &[]);
    let program = place.file("elevated");
    if std::os::unix::fs::chown(&program, Some(NOBODY), None).is_err() {
        standins::skipped("only root can give a file to another user");
        return;
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(std::fs::metadata(&program).unwrap().uid(), NOBODY);
    let seen = place.seen("elevated", &[], &[]);
    assert_eq!(
        (&seen.report["program"]["programs"], &seen.report["program"]["not_loaded"]),
        (&0.into(), &"elevated-rights".into())
    );
    assert_eq!(seen.status(), Some(3));
    // Its own rights are not elevated.
    std::os::unix::fs::chown(&program, Some(0), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let seen = place.seen("elevated", &[], &["read", "2"]);
    assert_eq!((seen.count("cuFileRead"), &seen.report["program"]["not_loaded"]), (2, &serde_json::Value::Null));
}
