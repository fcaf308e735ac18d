//! Tests of reads that prove a route: the probe in a child process, and the resulting verdict.

use crate::harness::{STANDIN_UUID, folder, standin_env};
use crate::program::gds_top;
use crate::standins::{self, Standins};
use serde_json::Value;
use std::path::Path;

fn said(built: &Standins, model: &Path, allow: bool, told: &[(&str, &str)]) -> Value {
    let scratch = folder();
    let machine = scratch.path().join("machine");
    standins::machine(&machine, scratch.path());
    standins::load_nvidia_fs(&machine);
    let mut env = standin_env(&built.folder, told);
    env.push(("LD_PRELOAD", built.redirect.to_str().unwrap()));
    env.push(("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()));
    let out = gds_top()
        .args(["__probe-read", "--scratch", scratch.path().to_str().unwrap()])
        .args(allow.then_some("--allow-compat"))
        .arg("--")
        .arg(model)
        .arg(STANDIN_UUID)
        .envs(env)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let last = text.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&out.stderr)));
    serde_json::from_str(last).unwrap()
}

fn model() -> tempfile::TempDir {
    let folder = folder();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    folder
}

#[test]
fn a_direct_route_is_counted_with_compat_mode_forbidden() {
    let Some(built) = standins::build() else { return };
    let model = model();
    for (told, route, count) in [("nvfs", "nvfs", "nvfs_reads"), ("p2p", "p2pdma", "p2p_reads")] {
        let said = said(&built, model.path(), false, &[("STANDIN_CUFILE_ROUTE", told)]);
        assert_eq!((&said["ok"], &said["route"]["route"]), (&true.into(), &route.into()), "{said}");
        assert!(said["route"][count].as_u64().unwrap() > 0 && said["route"]["posix_reads"] == 0, "{said}");
        assert_eq!(said["bytes"], 3_000_000 / 4096 * 4096, "{said}");
    }
    let untouched = std::fs::read(model.path().join("model.safetensors")).unwrap();
    assert!(untouched.len() == 3_000_000 && untouched[1000] == (1000 % 251) as u8);
}

#[test]
fn without_a_direct_route_the_strict_read_is_refused_and_the_other_counts_posix_reads() {
    let Some(built) = standins::build() else { return };
    let model = model();
    let strict = said(&built, model.path(), false, &[]);
    assert_eq!(
        (&strict["ok"], &strict["stage"], &strict["code"]),
        (&false.into(), &"read".into(), &5008.into()),
        "{strict}"
    );
    let allowed = said(&built, model.path(), true, &[]);
    assert_eq!((&allowed["ok"], &allowed["route"]["route"]), (&true.into(), &"compat".into()), "{allowed}");
}

#[test]
fn what_is_in_the_way_of_trying_is_told_with_its_stage() {
    let Some(built) = standins::build() else { return };
    let model = model();
    for (told, stage, code) in [
        (("STANDIN_CUFILE_FAIL", "cuFileHandleRegister:5027"), "register", Value::from(5027)),
        (("STANDIN_CUFILE_FAIL", "cuFileDriverOpen:5001"), "open", Value::from(5001)),
        (("STANDIN_CUDA_FAIL", "cuInit:100"), "cuda", Value::Null),
    ] {
        let said = said(&built, model.path(), true, &[told]);
        assert_eq!((&said["ok"], &said["stage"], &said["code"]), (&false.into(), &stage.into(), &code), "{said}");
    }
    let empty = folder();
    assert_eq!(said(&built, empty.path(), true, &[])["stage"], "file");
}

/// The verdict of `gds-top check --json` with the stand-ins for libcufile, CUDA and NVML.
fn verdict(built: &Standins, model: &Path, more: &[&str], told: &[(&str, &str)]) -> Value {
    checked(built, model, more, told, true)["verdicts"][0].clone()
}

/// The report of `gds-top check --json`, with or without the module nvidia-fs.
fn checked(built: &Standins, model: &Path, more: &[&str], told: &[(&str, &str)], nvidia_fs: bool) -> Value {
    let (scratch, temporary) = (folder(), folder());
    let machine = scratch.path().join("machine");
    standins::machine(&machine, model);
    if nvidia_fs {
        standins::load_nvidia_fs(&machine);
    }
    let mut env = standin_env(&built.folder, told);
    let nvml = built.nvml.to_str().unwrap();
    env.push(("GDS_TOP_NVML", nvml));
    env.push(("LD_PRELOAD", built.redirect.to_str().unwrap()));
    env.push(("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()));
    let out = gds_top()
        .args(["check", "--json"])
        .args(more)
        .arg(model)
        .env("TMPDIR", temporary.path())
        .envs(env)
        .output()
        .unwrap();
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)))
}

#[test]
fn check_proves_its_verdict_with_a_read_unless_told_not_to() {
    let Some(built) = standins::build() else { return };
    let model = model();
    let unproven = verdict(&built, model.path(), &["--no-probe"], &[("STANDIN_CUFILE_ROUTE", "nvfs")]);
    assert_eq!(unproven["proven"], false, "{unproven}");
    let direct = verdict(&built, model.path(), &[], &[("STANDIN_CUFILE_ROUTE", "nvfs")]);
    assert_eq!((&direct["route"], &direct["proven"]), (&"nvfs".into(), &true.into()), "{direct}");
    let copied = verdict(&built, model.path(), &[], &[]);
    assert_eq!((&copied["route"], &copied["proven"]), (&"compat".into(), &true.into()), "{copied}");
    assert!(copied["proof"].as_str().unwrap().contains("5008"), "{copied}");
    // If the library counts nothing, a read that works with compat mode forbidden is direct, and a read that needs
    // compat mode is not.
    let quiet = [("STANDIN_CUFILE_FAIL", "cuFileGetStatsL3:5022")];
    let inferred = verdict(&built, model.path(), &[], &quiet);
    assert_eq!((&inferred["route"], &inferred["proven"]), (&"compat".into(), &true.into()), "{inferred}");
    let refused = verdict(&built, model.path(), &[], &[("STANDIN_CUFILE_FAIL", "cuFileHandleRegister:5027")]);
    assert_eq!((&refused["route"], &refused["proven"]), (&"none".into(), &true.into()), "{refused}");
    let hung = verdict(&built, model.path(), &[], &[("STANDIN_CUDA_FAIL", "cuInit:abort")]);
    assert_eq!(hung["proven"], false, "{hung}");
}

/// The number of values in a report that state that a direct route is proven.
fn proven_direct(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(proven_direct).sum(),
        Value::Object(map) => {
            let direct = ["nvfs", "p2pdma"].iter().any(|route| map.get("route").is_some_and(|r| r == route));
            let here = direct && map.get("proven").is_some_and(|proven| proven == true);
            usize::from(here) + map.values().map(proven_direct).sum::<usize>()
        }
        _ => 0,
    }
}

#[test]
fn lies_of_the_library_are_not_called_proven() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = crate::models::odd(folder.path());
    // A check reads this file with several calls.
    let large = crate::harness::folder();
    std::fs::write(large.path().join("model.safetensors"), vec![7; 32 << 20]).unwrap();
    /// Name, variables of the library, and whether nvidia-fs is loaded.
    type Lie = (&'static str, &'static [(&'static str, &'static str)], bool);
    let lies: [Lie; 17] = [
        ("one read counted", &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_COUNT_READS", "1")], true),
        ("few bytes counted", &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_COUNT_BYTES", "4096")], true),
        ("a tie", &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_POSIX_EVERY", "2")], true),
        ("a majority", &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_POSIX_EVERY", "3")], true),
        ("no module", &[("STANDIN_CUFILE_ROUTE", "nvfs")], false),
        (
            "one read counted on all levels",
            &[
                ("STANDIN_CUFILE_ROUTE", "nvfs"),
                ("STANDIN_CUFILE_COUNT_READS", "1"),
                ("STANDIN_CUFILE_COUNT_NO_MORE", "1"),
            ],
            true,
        ),
        (
            "few bytes counted on all levels",
            &[
                ("STANDIN_CUFILE_ROUTE", "p2p"),
                ("STANDIN_CUFILE_COUNT_BYTES", "4096"),
                ("STANDIN_CUFILE_COUNT_NO_MORE", "1"),
            ],
            true,
        ),
        ("each read counted twice", &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_COUNT_TIMES", "2")], true),
        (
            "each read and its bytes counted twice on all levels",
            &[
                ("STANDIN_CUFILE_ROUTE", "nvfs"),
                ("STANDIN_CUFILE_COUNT_TIMES", "2"),
                ("STANDIN_CUFILE_COUNT_ALL_TIMES", "2"),
            ],
            true,
        ),
        (
            "the bytes of each read counted twice on all levels",
            &[
                ("STANDIN_CUFILE_ROUTE", "p2p"),
                ("STANDIN_CUFILE_COUNT_BYTES_TIMES", "2"),
                ("STANDIN_CUFILE_COUNT_ALL_TIMES", "2"),
            ],
            true,
        ),
        (
            "each read counted twice, half of them by POSIX",
            &[
                ("STANDIN_CUFILE_ROUTE", "nvfs"),
                ("STANDIN_CUFILE_COUNT_TIMES", "2"),
                ("STANDIN_CUFILE_POSIX_EVERY", "2"),
            ],
            true,
        ),
        ("reads of another GPU", &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_COUNT_GPUS", "2")], true),
        ("a read that moves nothing", &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_LOSE", "3")], true),
        ("a wrong byte", &[("STANDIN_CUFILE_ROUTE", "p2p"), ("STANDIN_CUFILE_CORRUPT", "3")], true),
        (
            "a read that is repeated",
            &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_FAIL", "cuFileRead:5:3,cuFileBatchIO.entry:5:3")],
            true,
        ),
        ("counters that wrap", &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_COUNT_FROM", "-2")], true),
        ("no counters", &[("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_FAIL", "cuFileGetStatsL3:5022")], true),
    ];
    // Real libraries count a read twice, but not its bytes.
    let truths: [Lie; 2] = [
        ("the truth", &[("STANDIN_CUFILE_ROUTE", "nvfs")], true),
        (
            "the truth, reads counted twice",
            &[
                ("STANDIN_CUFILE_ROUTE", "p2p"),
                ("STANDIN_CUFILE_COUNT_TIMES", "2"),
                ("STANDIN_CUFILE_COUNT_BYTES_TIMES", "1"),
            ],
            false,
        ),
    ];
    for (name, told, nvidia_fs) in truths.into_iter().chain(lies) {
        let machine = folder.path().join("machine");
        let _ = std::fs::remove_dir_all(&machine);
        standins::machine(&machine, folder.path());
        if nvidia_fs {
            standins::load_nvidia_fs(&machine);
        }
        let out = folder.path().join("out");
        let run = gds_top()
            .args([
                "bench",
                "--engine",
                "gds-slab,gds-per-tensor,gds-batch",
                "--cache",
                "as-is",
                "--json",
                "--yes",
                "--repeat",
                "1",
                "--set",
                "block_bytes=65536",
            ])
            .arg("--export")
            .arg(&out)
            .arg(&model.path)
            .envs(standin_env(&built.folder, told))
            .env("GDS_TOP_LIBCUFILE", &built.cufile)
            .env("GDS_TOP_NVML", &built.nvml)
            .env("LD_PRELOAD", &built.redirect)
            .env("GDS_TOP_TEST_REDIRECT", &machine)
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&run.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&run.stderr)));
        let verdicts = checked(&built, large.path(), &[], told, nvidia_fs);
        let fleet = {
            let path = folder.path().join("node.json");
            std::fs::write(&path, serde_json::to_vec(&verdicts).unwrap()).unwrap();
            let out = gds_top().args(["fleet", "--json"]).arg(&path).output().unwrap();
            serde_json::from_slice::<Value>(&out.stdout).unwrap()
        };
        let texts: String = ["report.md", "report.html", "gds-top.prom", "runs.csv"]
            .into_iter()
            .filter_map(|file| std::fs::read_to_string(out.join(file)).ok())
            .collect();
        let claims = ["nvfs, proven", "p2pdma, proven", "nvfs, <b>proven"].iter().any(|claim| texts.contains(claim))
            || texts.lines().any(|line| line.starts_with("gds_top_route_proven{") && line.ends_with(" 1"));
        let found = (proven_direct(&report["runs"]), claims, proven_direct(&verdicts), proven_direct(&fleet));
        if name.starts_with("the truth") {
            assert!(found.0 == 3 && found.1 && found.2 > 0 && found.3 > 0, "{found:?}: {report:#}");
            continue;
        }
        assert_eq!((found.0, found.1), (0, false), "{name}: {}", report["runs"]);
        assert_eq!((found.2, found.3), (0, 0), "{name}: {}", verdicts["verdicts"]);
    }
}
