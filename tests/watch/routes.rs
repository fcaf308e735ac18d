//! Tests that a route is called proven only if libcufile's statistics prove it.

use crate::harness::{Place, Seen};
use std::path::Path;
use std::process::Command;

fn with_route(place: &Place, route: &str, options: &[&str], words: &[&str]) -> Seen {
    let all: Vec<&str> = std::iter::once("--json").chain(options.iter().copied()).collect();
    let mut command = place.watch(&all);
    command.env("STANDIN_CUFILE_ROUTE", route).arg(place.file("linked")).arg(place.data()).args(words);
    Seen::of(command)
}

#[test]
fn statistics_prove_the_route_and_decide_the_exit_status() {
    let Some(place) = Place::new() else { return };
    for (route, name, status) in [("p2p", "p2pdma", 0), ("posix", "compat", 1)] {
        let seen = with_route(&place, route, &["--require", "direct"], &["read", "5"]);
        let file = seen.file(&place.data());
        assert_eq!((&file["route"], &file["proven"]), (&name.into(), &true.into()));
        assert_eq!(seen.status(), Some(status), "{route}");
        assert_eq!(seen.report["program"]["statistics"]["reads"], 5);
        // The program did not ask for the version.
        assert_eq!(
            (seen.count("cuFileGetVersion"), &seen.report["program"]["libraries"][0]["version"]),
            (0, &1200.into())
        );
    }
}

#[test]
fn transfers_that_only_libcufile_counted_are_reported() {
    let Some(place) = Place::new() else { return };
    for (words, headline) in [
        (["hidden", "20"].as_slice(), "No cuFile transfer was recorded, but libcufile counted some."),
        (&["read", "5", "hidden", "20"], "The route of the cuFile transfers is not proven."),
    ] {
        let mut command = place.watch(&["--require", "direct", "-q"]);
        command.env("STANDIN_CUFILE_ROUTE", "p2p").arg(place.file("linked")).arg(place.data()).args(words);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(headline) && !text.contains("transferred nothing"), "{text}");
        assert!(text.contains("Not recorded: 20 transfers of 80 KiB that libcufile counted."), "{text}");
        let seen = with_route(&place, "p2p", &["--require", "direct"], words);
        let facts = &seen.report["program"];
        assert_eq!((seen.status(), &facts["unseen"]), (Some(1), &serde_json::json!({"transfers": 20, "bytes": 81920})));
        assert_eq!(seen.file(&place.data())["proven"], false);
        assert!(seen.advice().contains(&"unseen-transfers") && !seen.advice().contains(&"route-unknown"));
    }
    // Reads past the end of the file, entries of batches and transfers on streams are seen.
    let words = ["read", "3", "write", "2", "batch", "4", "stream", "0", "huge", "2", "bad", "fork", "2"];
    let seen = with_route(&place, "p2p", &["--statistics"], &words);
    assert_eq!(seen.report["program"]["unseen"], serde_json::Value::Null, "{}", seen.report["program"]);
    // One process with two copies of libcufile.
    let seen = place.seen("loaded", &["--statistics"], &["twice", "3"]);
    let facts = &seen.report["program"];
    assert_eq!((&facts["unseen"], &facts["statistics"]["processes"]), (&serde_json::Value::Null, &1.into()), "{facts}");
}

/// A part of a copy of libcufile that returns no counters after its destructors.
const ENDING: &str = r"
#include <stdlib.h>
typedef struct { int err, cu_err; } status;
status counters_of_level_3(void *counters);
static int has_ended;
static void end(void) { has_ended = 1; }
__attribute__((constructor)) static void begin(void) { atexit(end); }
status cuFileGetStatsL3(void *counters)
{
    status failed = {5030, 0};
    return has_ended ? failed : counters_of_level_3(counters);
}
";

/// A program that reads with each of the copies of libcufile in its arguments.
const COPIES: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
typedef struct { int err, cu_err; } status;
struct descr { int type; union { int fd; void *handle; } handle; const void *ops; };
static char memory[4096] __attribute__((aligned(4096)));
int main(int count, char **words)
{
    for (int i = 2; i < count; i++) {
        void *copy = dlopen(words[i], RTLD_NOW), *handle = 0;
        if (!copy)
            return 2;
        status (*open_driver)(void) = (status (*)(void))dlsym(copy, "cuFileDriverOpen");
        status (*enter)(void **, struct descr *) = (status (*)(void **, struct descr *))dlsym(copy, "cuFileHandleRegister");
        long (*read_file)(void *, void *, unsigned long, long, long) =
            (long (*)(void *, void *, unsigned long, long, long))dlsym(copy, "cuFileRead");
        struct descr descr = {.type = 1, .handle.fd = open(words[1], O_RDONLY)};
        if (open_driver().err || enter(&handle, &descr).err)
            return 3;
        for (int n = 0; n < i; n++)
            if (read_file(handle, memory, sizeof memory, 0, 0) != sizeof memory)
                return 4;
    }
    return 0;
}
"#;

#[test]
fn the_counters_of_each_copy_of_libcufile_are_read_before_its_destructors() {
    let Some(place) = Place::new() else { return };
    let compile = |cc: &mut Command| {
        let out = cc.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    let standins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standins");
    let (ending, object) = (place.file("ending.c"), place.file("ending.o"));
    std::fs::write(&ending, ENDING).unwrap();
    std::fs::write(place.file("copies.c"), COPIES).unwrap();
    compile(Command::new("cc").args(["-c", "-fPIC", "-o"]).args([&object, &ending]));
    compile(Command::new("cc").arg("-o").args([place.file("copies"), place.file("copies.c")]).arg("-ldl"));
    let copies = ["one", "two"].map(|name| place.file(name).join("libcufile.so.0"));
    for copy in &copies {
        std::fs::create_dir(copy.parent().unwrap()).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-fvisibility=hidden", "-DcuFileGetStatsL3=counters_of_level_3", "-o"]).arg(copy);
        compile(cc.args([&standins.join("cufile.c"), &object]).args(["-lpthread", "-ldl"]));
    }
    let mut command = place.watch(&["--json", "--statistics"]);
    command.env("STANDIN_CUFILE_ROUTE", "p2p").arg(place.file("copies")).arg(place.data()).args(&copies);
    let seen = Seen::of(command);
    let counted = &seen.report["program"]["statistics"];
    assert_eq!((seen.status(), seen.count("cuFileRead")), (Some(0), 5), "{counted}");
    assert_eq!((&counted["reads"], &counted["p2pdma"]), (&5.into(), &5.into()), "{counted}");
    assert_eq!((&counted["processes"], &counted["missing_processes"]), (&1.into(), &0.into()), "{counted}");
    assert_eq!(seen.file(&place.data())["proven"], true, "{counted}");
}

#[test]
fn the_headline_and_the_files_agree_about_the_proof_if_a_process_still_runs() {
    let Some(place) = Place::new() else { return };
    let line = format!(
        "sleep 100 > /dev/null 2>&1 & echo $!; {} {} read 5",
        place.file("linked").display(),
        place.data().display()
    );
    for json in [true, false] {
        let mut command = place.watch(&[&["--require", "direct"][..], if json { &["--json"] } else { &[] }].concat());
        let output = command.env("STANDIN_CUFILE_ROUTE", "p2p").args(["sh", "-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let printed = String::from_utf8(if json { output.stderr } else { output.stdout.clone() }).unwrap();
        let pid = printed.lines().find_map(|line| line.parse().ok()).and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
        if json {
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(
                (&report["watch"]["files"][0]["proven"], &report["program"]["still_running"]),
                (&true.into(), &1.into())
            );
        } else {
            assert!(
                printed.contains("The recorded cuFile transfers take p2pdma, proven; others may be missing."),
                "{printed}"
            );
        }
    }
}

#[test]
fn counters_that_many_threads_read_at_once_are_counted_once() {
    let Some(place) = Place::new() else { return };
    for _ in 0..3 {
        let seen = with_route(&place, "p2p", &["--require", "direct"], &["storm", "200", "3"]);
        let facts = &seen.report["program"];
        assert_eq!((&facts["statistics"]["reads"], &facts["unseen"]), (&600.into(), &serde_json::Value::Null));
        assert_eq!((seen.status(), &seen.file(&place.data())["proven"]), (Some(0), &true.into()), "{facts}");
    }
}

#[test]
fn statistics_of_a_driver_that_is_opened_implicitly_prove_the_route() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json", "--statistics"]);
    command.env("STANDIN_CUFILE_ROUTE", "p2p").env("STANDIN_CUFILE_IMPLICIT", "1");
    command.arg(place.file("linked")).arg(place.data()).args(["implicit", "read", "5", "read", "2"]);
    let seen = Seen::of(command);
    let file = seen.file(&place.data());
    assert_eq!((seen.status(), seen.count("cuFileDriverOpen")), (Some(0), 0));
    assert_eq!((&file["route"], &file["proven"]), (&"p2pdma".into(), &true.into()), "{}", seen.report["program"]);
    assert_eq!(seen.report["program"]["statistics"]["reads"], 7);
}

#[test]
fn statistics_of_a_program_that_releases_nothing_are_read_at_its_end() {
    let Some(place) = Place::new() else { return };
    for end in ["quit", "leave"] {
        let seen = with_route(&place, "p2p", &["--require", "direct"], &["keep", "9", end, "0"]);
        let statistics = &seen.report["program"]["statistics"];
        assert_eq!((seen.status(), &statistics["reads"]), (Some(0), &9.into()), "{end}: {}", seen.report["program"]);
        assert_eq!(seen.file(&place.data())["proven"], true, "{end}");
    }
    // A child that made no transfer itself has a copy of the counters.
    let seen =
        with_route(&place, "p2p", &["--require", "direct"], &["read", "2", "fork", "0", "keep", "3", "quit", "0"]);
    assert_eq!((seen.status(), &seen.report["program"]["statistics"]["reads"]), (Some(0), &5.into()));
}

#[test]
fn a_program_with_failed_transfers_has_no_direct_route_for_all() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json", "--require", "direct"]);
    command.env("STANDIN_CUFILE_ROUTE", "p2p").env("STANDIN_CUFILE_FAIL", "cuFileRead:5001:2,cuFileRead:5001:4");
    command.arg(place.file("linked")).arg(place.data()).args(["keep", "6", "quit", "0"]);
    let seen = Seen::of(command);
    assert_eq!((seen.status(), seen.calls().get("cuFileRead")), (Some(1), Some(&(6, 2))));
    let file = seen.file(&place.data());
    assert_eq!((&file["route"], &file["proven"]), (&"p2pdma".into(), &true.into()));
}

#[test]
fn a_child_without_statistics_is_missing_once() {
    let Some(place) = Place::new() else { return };
    let seen = with_route(&place, "p2p", &["--statistics"], &["read", "2", "fork", "3", "fork", "2", "read", "1"]);
    let statistics = &seen.report["program"]["statistics"];
    assert_eq!((seen.count("cuFileRead"), &statistics["missing_processes"]), (8, &2.into()), "{statistics}");
}

#[test]
fn without_statistics_no_route_is_proven() {
    let Some(place) = Place::new() else { return };
    let seen = with_route(&place, "nvfs", &[], &["read", "5"]);
    let file = seen.file(&place.data());
    assert_eq!((&file["proven"], &seen.report["program"]["statistics"]), (&false.into(), &serde_json::Value::Null));
    // The program made no additional calls.
    assert_eq!(seen.count("cuFileSetStatsLevel") + seen.count("cuFileGetStatsL3"), 0);
}

#[test]
fn mixed_routes_are_not_attributed_to_a_file() {
    let Some(place) = Place::new() else { return };
    let mut command = place.watch(&["--json", "--statistics"]);
    command.env("STANDIN_CUFILE_ROUTE", "nvfs").env("STANDIN_CUFILE_POSIX_EVERY", "2");
    command.arg(place.file("linked")).arg(place.data()).args(["read", "6"]);
    let seen = Seen::of(command);
    let file = seen.file(&place.data());
    assert_eq!((&file["route"], &file["proven"]), (&"none".into(), &false.into()));
    let statistics = &seen.report["program"]["statistics"];
    assert_eq!((&statistics["nvfs"], &statistics["posix"]), (&3.into(), &3.into()));
    assert!(seen.advice().contains(&"falls-back"), "{:?}", seen.advice());
}

#[test]
fn a_failed_transfer_takes_no_route_and_a_program_that_does_not_close_the_driver_is_proven_too() {
    let Some(place) = Place::new() else { return };
    let seen = with_route(&place, "p2p", &["--statistics"], &["bad", "read", "5", "leave", "0"]);
    let file = seen.file(&place.data());
    assert_eq!((&file["route"], &file["proven"]), (&"p2pdma".into(), &true.into()), "{}", seen.report["program"]);
}

#[test]
fn a_library_that_lies_about_its_routes_proves_none() {
    let Some(place) = Place::new() else { return };
    let lies: [&[(&str, &str)]; 7] = [
        // The module for this route is not loaded.
        &[("STANDIN_CUFILE_ROUTE", "nvfs")],
        &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_COUNT_READS", "1")],
        &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_COUNT_BYTES", "1")],
        &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_POSIX_EVERY", "2")],
        &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_POSIX_EVERY", "6")],
        // Each read is counted twice with its bytes.
        &[
            ("STANDIN_CUFILE_ROUTE", "p2p"),
            ("STANDIN_CUFILE_COUNT_TIMES", "2"),
            ("STANDIN_CUFILE_COUNT_ALL_TIMES", "2"),
        ],
        &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_COUNT_BYTES_TIMES", "2")],
    ];
    for lie in lies {
        if lie[0].1 == "nvfs" && std::path::Path::new("/proc/driver/nvidia-fs/stats").exists() {
            continue;
        }
        for json in [true, false] {
            let mut command = place.watch(if json { &["--json", "--statistics"] } else { &["--statistics"] });
            command.envs(lie.iter().copied()).arg(place.file("linked")).arg(place.data()).args(["read", "12"]);
            if json {
                let seen = Seen::of(command);
                assert_eq!(seen.file(&place.data())["proven"], false, "{lie:?}: {}", seen.report["program"]);
            } else {
                let out = command.output().unwrap();
                let text = String::from_utf8_lossy(&out.stdout).replace("not proven", "");
                assert!(!text.contains("proven"), "{lie:?}: {text}");
            }
        }
    }
}
