//! Tests of the probes: child processes that query CUDA and libcufile and print one JSON object, whatever the
//! libraries do.

use crate::harness::{STANDIN_NAME, STANDIN_UUID, folder, standin_env};
use crate::program::gds_top;
use crate::standins::{self, Standins};
use gds_top::session::live::probe_child;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// The end and the output of a probe.
fn probe(arguments: &[&str], env: &[(&str, &str)]) -> (std::process::ExitStatus, String, String) {
    let out = gds_top().args(arguments).envs(env.iter().copied()).stdin(Stdio::null()).output().unwrap();
    (out.status, String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
}

fn answer(arguments: &[&str], env: &[(&str, &str)]) -> Value {
    let (status, out, err) = probe(arguments, env);
    assert!(status.success() && !err.contains("panicked"), "{status}: {err}");
    // The last line is the result. Earlier lines are partial results, in case the process hangs.
    serde_json::from_str(out.lines().last().unwrap()).unwrap_or_else(|e| panic!("{e}: {out:?}"))
}

/// Runs the cuFile probe with the stand-in, on a machine that has /proc/modules.
fn cufile(built: &Standins, scratch: &Path, told: &[(&str, &str)]) -> Value {
    let machine = scratch.join("machine");
    standins::machine(&machine, scratch);
    let mut env = standin_env(&built.folder, told);
    env.push(("LD_PRELOAD", built.redirect.to_str().unwrap()));
    env.push(("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()));
    answer(&["__probe-cufile", scratch.to_str().unwrap()], &env)
}

#[test]
fn cuda_devices_are_listed_or_the_reason_is_told() {
    let Some(built) = standins::build() else { return };
    let two = answer(&["__probe-cuda"], &standin_env(&built.folder, &[("STANDIN_CUDA_DEVICES", "2")]));
    let devices = two["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    assert_eq!((&devices[0]["uuid"], &devices[0]["name"]), (&STANDIN_UUID.into(), &STANDIN_NAME.into()));
    assert_eq!((&devices[1]["ordinal"], &devices[0]["total_bytes"]), (&1.into(), &(8_u64 << 30).into()));
    for (told, part) in [("cuInit:100", "CUDA_ERROR_NO_DEVICE"), ("cuDeviceGetCount:3", "CUDA_ERROR_NOT_INITIALIZED")] {
        let said = answer(&["__probe-cuda"], &standin_env(&built.folder, &[("STANDIN_CUDA_FAIL", told)]));
        assert!(said["error"].as_str().unwrap().contains(part), "{told}: {said}");
    }
}

#[test]
fn libcufile_is_described_when_it_opens() {
    let Some(built) = standins::build() else { return };
    let scratch = folder();
    let said = cufile(&built, scratch.path(), &[("STANDIN_CUFILE_RUDE", "1")]);
    assert_eq!((&said["version"], &said["open"]["code"]), (&"1.20".into(), &0.into()), "{said}");
    assert!(said["chosen"].as_str().unwrap().ends_with("libcufile.so.0"), "{said}");
    assert_eq!(said["parameters"]["allow_compat_mode"], true, "{said}");
    assert_eq!(said["properties"]["nvfs_major"], 0, "{said}");
    assert_eq!(said["ranges"]["io_batchsize"], serde_json::json!([1, 256]), "{said}");
    assert!(scratch.path().join("cufile.log").exists(), "its log is in the scratch directory");
}

#[test]
fn libcufile_that_does_not_open_is_told_with_its_codes() {
    let Some(built) = standins::build() else { return };
    let scratch = folder();
    let said = cufile(&built, scratch.path(), &[("STANDIN_CUFILE_FAIL", "cuFileDriverOpen:5011")]);
    assert_eq!((&said["open"]["code"], &said["open"]["cuda_code"]), (&5011.into(), &2.into()), "{said}");
    let nowhere = scratch.path().join("libcufile.so.0");
    let env = [("GDS_TOP_LIBCUFILE", nowhere.to_str().unwrap())];
    let said = answer(&["__probe-cufile", scratch.path().to_str().unwrap()], &env);
    assert!(said["error"].is_string() && said["chosen"].is_null(), "{said}");
    assert_eq!(said["tried"][0]["name"], nowhere.to_str().unwrap(), "{said}");
}

#[test]
fn a_probe_that_aborts_prints_nothing_that_looks_like_an_answer() {
    let Some(built) = standins::build() else { return };
    let env = standin_env(&built.folder, &[("STANDIN_CUDA_FAIL", "cuInit:abort")]);
    let (status, out, err) = probe(&["__probe-cuda"], &env);
    assert_eq!((status.signal(), out.as_str()), (Some(libc::SIGABRT), ""), "{err}");
}

#[test]
fn a_probe_that_takes_too_long_is_ended_and_said() {
    // The child was killed at the limit. Otherwise the call would return after a day.
    let said = probe_child(Path::new("sleep"), &["86400"], Duration::from_secs(1)).unwrap_err();
    assert!(said.contains("within 1 s"), "{said}");
    let said = probe_child(Path::new("/absent/program"), &["__probe-slow"], Duration::from_secs(1)).unwrap_err();
    assert!(said.contains("could not be started"), "{said}");
}

/// Runs the cuFile probe. Only HOME leads to a libcufile.
fn found_in(home: &Path, built: &Standins, scratch: &Path) -> Value {
    let site = home.join(".local/lib/python3.12/site-packages/nvidia/cu13/lib");
    std::fs::create_dir_all(&site).unwrap();
    std::fs::copy(&built.cufile, site.join("libcufile.so.0")).unwrap();
    let out = gds_top()
        .args(["__probe-cufile", scratch.to_str().unwrap(), "--no-open"])
        .env_clear()
        .envs([("HOME", home.to_str().unwrap()), ("PATH", "/nonexistent")])
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

fn is_from(said: &Value, home: &Path) -> bool {
    said["chosen"].as_str().is_some_and(|chosen| chosen.starts_with(home.to_str().unwrap()))
}

fn refusal(said: &Value, home: &Path) -> String {
    let tried = said["tried"].as_array().unwrap();
    let of_home = tried.iter().find(|t| t["name"].as_str().unwrap().starts_with(home.to_str().unwrap()));
    of_home.and_then(|t| t["error"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn a_libcufile_that_another_user_could_have_put_there_is_not_loaded() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let Some(built) = standins::build() else { return };
    let (top, scratch) = (tempfile::tempdir().unwrap(), folder());
    let home = top.path().join("home");
    let said = found_in(&home, &built, scratch.path());
    if !is_from(&said, &home) && refusal(&said, &home).is_empty() {
        eprintln!("skipped: this machine has a libcufile that the loader finds");
        return;
    }
    assert!(is_from(&said, &home), "{said}");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
    let said = found_in(&home, &built, scratch.path());
    assert!(!is_from(&said, &home) && refusal(&said, &home).contains("can be written by all users"), "{said}");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
    if chown(&home, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a directory to another user");
        return;
    }
    let said = found_in(&home, &built, scratch.path());
    assert!(!is_from(&said, &home) && refusal(&said, &home).contains("uid 12345"), "{said}");
}

#[test]
fn no_log_is_written_through_a_link_that_somebody_planted_in_the_temporary_folder() {
    use std::os::unix::fs::PermissionsExt;
    let Some(built) = standins::build() else { return };
    let (temporary, machine) = (tempfile::tempdir().unwrap(), folder());
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    standins::machine(machine.path(), machine.path());
    let victim = temporary.path().join("victim");
    std::os::unix::fs::symlink(&victim, temporary.path().join("cufile.log")).unwrap();
    let check = |temporary: &Path| {
        gds_top()
            .args(["check", "--json", machine.path().to_str().unwrap()])
            .env_remove("CUFILE_LOGFILE_PATH")
            .env("TMPDIR", temporary)
            .env("LD_LIBRARY_PATH", &built.folder)
            .env("GDS_TOP_LIBCUFILE", &built.cufile)
            .env("LD_PRELOAD", &built.redirect)
            .env("GDS_TOP_TEST_REDIRECT", machine.path())
            .output()
            .unwrap()
    };
    let out = String::from_utf8(check(temporary.path()).stdout).unwrap();
    assert!(out.contains("libcufile") && !victim.exists(), "{out}");
    let names: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["cufile.log"]);
    // If all users could replace the directory, nothing is done.
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = check(temporary.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("set TMPDIR to a directory") && !victim.exists(), "{said}");
}
