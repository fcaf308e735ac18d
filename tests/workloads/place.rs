//! A directory on a real file system that a workload may fill. The program runs with it, on host memory or with the
//! stand-ins.

use crate::program::gds_top;
use crate::standins::{self, Standins};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    machine: tempfile::TempDir,
    built: Option<Standins>,
}

impl Place {
    pub(crate) fn host() -> Self {
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { folder: folder(), machine: folder(), built: None };
        std::fs::create_dir(place.dir()).unwrap();
        standins::machine(place.machine.path(), place.machine.path());
        standins::load_nvidia_fs(place.machine.path());
        place
    }

    /// With the stand-ins. `None`, with a message, if there is no C compiler.
    pub(crate) fn gpu() -> Option<Self> {
        let built = standins::build()?;
        Some(Self { built: Some(built), ..Self::host() })
    }

    /// The directory that may be filled.
    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gds_top();
        match &self.built {
            Some(built) => {
                command.env("LD_LIBRARY_PATH", &built.folder).env("GDS_TOP_LIBCUFILE", &built.cufile);
                command.env("LD_PRELOAD", &built.redirect).env("GDS_TOP_TEST_REDIRECT", self.machine.path());
            }
            // Runs on host memory must not use a library of the developer's machine.
            None => {
                command.env("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0");
            }
        }
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str], env: &[(&str, &str)]) -> Output {
        let output = self.command(arguments).envs(env.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && !said.contains("registrations left"), "{said}");
        output
    }

    /// Runs the program on the stand-in GPU, or in host memory if there is none. Returns its report and its status.
    pub(crate) fn json(&self, arguments: &[&str], env: &[(&str, &str)]) -> (Value, i32) {
        let host: &[&str] = if self.built.is_none() { &["--gpu", "host"] } else { &[] };
        let output = self.run(&[arguments, &["--json"], host].concat(), env);
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        (value, output.status.code().unwrap())
    }

    /// All files that are left.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        files_in(&self.dir())
    }
}

/// All files in a directory, sorted.
pub(crate) fn files_in(folder: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(folder, &mut found);
    found.sort();
    found
}

/// The arguments as separate words.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

pub(crate) fn check_schema(report: &Value) {
    let schema: Value = serde_json::from_str(gds_top::report::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
}
