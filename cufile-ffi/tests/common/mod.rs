//! Shared test code: the wheels, and child processes that use one library each.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../tests/standins/mod.rs"]
pub mod standins;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cufile_ffi::Version;

/// The unpacked wheels with their version and directory, oldest first.
pub fn wheels() -> Vec<(Version, PathBuf)> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS").filter(|root| !root.is_empty()) else {
        standins::skipped("GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the directory)");
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&root).expect("GDS_TOP_TEST_WHEELS is a directory").flatten() {
        let name = entry.file_name().into_string().unwrap();
        let mut parts = name.split('.').map(str::parse::<i32>);
        if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) {
            found.push((Version::new(major, minor), entry.path()));
        }
    }
    assert!(!found.is_empty(), "GDS_TOP_TEST_WHEELS has no directory named after a version");
    found.sort();
    found
}

/// The path of a file below `nvidia/*/` of a wheel.
pub fn inside(wheel: &Path, name: &str) -> PathBuf {
    ["nvidia/cu13", "nvidia/cufile"]
        .map(|p| wheel.join(p).join(name))
        .into_iter()
        .find(|p| p.is_file())
        .expect("the wheel has the file")
}

/// Runs `test` of this binary in a child process with one library, and with the preload library if requested. Returns
/// its output. The child is ended after five minutes.
pub fn child(test: &str, library: &Path, env: &[(&str, &str)], redirect: bool) -> Option<(bool, String, String)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("CUFILE_FFI_CHILD", library)
        .envs(env.iter().copied());
    command.env("CUFILE_LOGFILE_PATH", dir.path().join("elsewhere.log"));
    command.current_dir(dir.path()).stdin(Stdio::null());
    if redirect {
        let built = standins::build()?;
        let machine = dir.path().join("machine");
        standins::machine(&machine, dir.path());
        command.env("LD_PRELOAD", built.redirect).env("GDS_TOP_TEST_REDIRECT", machine);
    }
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
    let mut running = command.spawn().unwrap();
    let start = Instant::now();
    let success = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status.success();
        }
        if start.elapsed() > Duration::from_secs(300) {
            running.kill().unwrap();
            running.wait().unwrap();
            break false;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Some((success, std::fs::read_to_string(out).unwrap(), std::fs::read_to_string(err).unwrap()))
}

/// Runs `test` in a child process and panics if it fails.
pub fn must(test: &str, library: &Path, env: &[(&str, &str)], redirect: bool) {
    let Some((success, out, err)) = child(test, library, env, redirect) else { return };
    assert!(success, "{test} on {}:\n{out}\n{err}", library.display());
}

/// The library that a child process must use.
pub fn given() -> Option<PathBuf> {
    std::env::var_os("CUFILE_FFI_CHILD").map(PathBuf::from)
}
