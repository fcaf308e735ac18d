//! What the tests of KV-cache workloads share: a folder with a small shape, runs of the program over it, and what must hold of every report.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../standins/mod.rs"]
pub mod standins;

use serde_json::Value;
use standins::Standins;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder on a real file system with a small shape beside it.
pub struct Place {
    pub folder: tempfile::TempDir,
    machine: tempfile::TempDir,
    pub built: Option<Standins>,
}

impl Place {
    pub fn host() -> Self {
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { folder: folder(), machine: folder(), built: None };
        let shape = r#"{"name":"tiny","title":"Tiny","source":"made up","layers":6,"kv_heads":2,"head_size":64,"dtype":"BF16","dtype_bytes":2,"mla":false}"#;
        std::fs::write(place.shape(), shape).unwrap();
        std::fs::create_dir(place.dir()).unwrap();
        standins::machine(place.machine.path(), place.machine.path());
        place
    }

    /// With the stand-ins; None, said, where there is no C compiler.
    pub fn gpu() -> Option<Self> {
        let built = standins::build()?;
        Some(Self { built: Some(built), ..Self::host() })
    }

    pub fn shape(&self) -> PathBuf {
        self.folder.path().join("tiny.json")
    }

    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("kv")
    }

    pub fn run(&self, arguments: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gds-top"));
        for name in ["GDS_TOP_LIBCUFILE", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CUFILE_ENV_PATH_JSON"] {
            command.env_remove(name);
        }
        match &self.built {
            Some(built) => {
                command.env("LD_LIBRARY_PATH", &built.folder).env("GDS_TOP_LIBCUFILE", &built.cufile);
                command.env("LD_PRELOAD", &built.redirect).env("GDS_TOP_TEST_REDIRECT", self.machine.path());
            }
            None => {
                command.arg0_host();
            }
        }
        let output =
            command.current_dir(self.folder.path()).args(arguments).envs(env.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && !said.contains("registrations left"), "{said}");
        output
    }

    /// Runs a workload with the small shape and returns its report; the status is the last.
    pub fn report(&self, workload: &str, more: &[&str], env: &[(&str, &str)]) -> (Value, i32) {
        let (shape, dir) = (self.shape(), self.dir());
        let mut arguments = vec!["kv", workload, dir.to_str().unwrap(), "--shape", shape.to_str().unwrap()];
        arguments.extend(["--json", "--no-telemetry"]);
        if !more.contains(&"--tokens") {
            arguments.extend(["--tokens", "300"]);
        }
        if self.built.is_none() {
            arguments.extend(["--gpu", "host"]);
        }
        arguments.extend(more);
        let output = self.run(&arguments, env);
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        (value, output.status.code().unwrap())
    }

    pub fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        walk(&self.dir(), &mut found);
        found.sort();
        found
    }
}

/// Host runs take no library from the developer's machine.
trait Host {
    fn arg0_host(&mut self);
}

impl Host for Command {
    fn arg0_host(&mut self) {
        self.env("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0");
    }
}

pub fn runs(report: &Value) -> Vec<&Value> {
    report["runs"].as_array().unwrap().iter().collect()
}

/// The run of a lane, which went well, was verified, and whose phases add up.
pub fn run<'r>(report: &'r Value, lane: &str) -> &'r Value {
    let run = runs(report)
        .into_iter()
        .find(|run| run["engine"] == lane)
        .unwrap_or_else(|| panic!("no {lane} in {:?}", runs(report).iter().map(|r| &r["engine"]).collect::<Vec<_>>()));
    assert_eq!((&run["error"], &run["verified"]), (&Value::Null, &Value::Bool(true)), "{lane}: {run:#}");
    let phases: u64 = run["phases"].as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum();
    assert_eq!(phases, run["wall_ns"].as_u64().unwrap(), "{lane}");
    let latency = &run["workload"]["latency_ns"];
    assert!(latency["p50"].as_u64().unwrap() <= latency["p99"].as_u64().unwrap(), "{lane}");
    assert!(latency["p99"].as_u64().unwrap() <= latency["max"].as_u64().unwrap(), "{lane}");
    run
}

pub fn number(run: &Value, pointer: &str) -> u64 {
    run.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {run:#}"))
}

pub fn check_schema(report: &Value) {
    let schema: Value = serde_json::from_str(gds_top::report::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
