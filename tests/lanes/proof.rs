//! Reads that prove a route: the probe in a child, and the resulting verdict.

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

/// `gds-top check --json` on a machine with the stand-ins for libcufile, CUDA and NVML.
fn verdict(built: &Standins, model: &Path, more: &[&str], told: &[(&str, &str)]) -> Value {
    let (scratch, temporary) = (folder(), folder());
    let machine = scratch.path().join("machine");
    standins::machine(&machine, model);
    standins::load_nvidia_fs(&machine);
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
    let report: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    report["verdicts"][0].clone()
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
    // A library that counts nothing: a read that works with compat mode forbidden is direct, a read that does not is
    // not.
    let quiet = [("STANDIN_CUFILE_FAIL", "cuFileGetStatsL3:5022")];
    let inferred = verdict(&built, model.path(), &[], &quiet);
    assert_eq!((&inferred["route"], &inferred["proven"]), (&"compat".into(), &true.into()), "{inferred}");
    let refused = verdict(&built, model.path(), &[], &[("STANDIN_CUFILE_FAIL", "cuFileHandleRegister:5027")]);
    assert_eq!((&refused["route"], &refused["proven"]), (&"none".into(), &true.into()), "{refused}");
    let hung = verdict(&built, model.path(), &[], &[("STANDIN_CUDA_FAIL", "cuInit:abort")]);
    assert_eq!(hung["proven"], false, "{hung}");
}
