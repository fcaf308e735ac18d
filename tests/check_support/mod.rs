//! Machines that differ from a fixture in a few files, and what is expected of the checks there.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::redundant_pub_crate,
    reason = "each test program uses its part"
)]

pub(crate) mod unseen_hosts;
pub(crate) mod unseen_more;
pub(crate) mod unseen_storage;
pub(crate) mod unseen_systems;
pub(crate) mod unseen_third;

use gds_top::checks::{self, Report};
use gds_top::domain::{Route, Status};
use gds_top::host::Root;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A change of a machine.
pub(crate) enum Edit {
    /// Writes a file below the folder of the machine.
    Put(&'static str, &'static str),
    /// Takes a file or folder away.
    Drop(&'static str),
    /// Sets a value in one of the JSON files, by pointer; the parent must be there.
    Set(&'static str, &'static str, Value),
    /// Makes a link.
    Link(&'static str, &'static str),
}
pub(crate) use Edit::{Drop, Link, Put, Set};

pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) base: &'static str,
    pub(crate) edits: Vec<Edit>,
    pub(crate) route: Route,
    pub(crate) possible: Route,
    /// The blockers of the first verdict, in order.
    pub(crate) blockers: &'static [&'static str],
    /// All findings that warn or fail, in any order.
    pub(crate) loud: &'static [&'static str],
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn build(base: &str, edits: &[Edit]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(base), folder.path());
    let at = |path: &str| -> PathBuf {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for edit in edits {
        match edit {
            Put(path, text) => std::fs::write(at(path), text).unwrap(),
            Drop(path) => {
                let path = at(path);
                if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
            }
            Set(file, pointer, value) => {
                let path = at(file);
                let mut whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                match whole.pointer_mut(parent).unwrap() {
                    Value::Object(map) => {
                        map.insert(key.to_owned(), value.clone());
                    }
                    Value::Array(items) if key == "-" => items.push(value.clone()),
                    Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
                    _ => panic!("{pointer}"),
                }
                std::fs::write(path, whole.to_string()).unwrap();
            }
            Link(path, target) => std::os::unix::fs::symlink(target, at(path)).unwrap(),
        }
    }
    folder
}

pub(crate) fn check(folder: &Path) -> Report {
    let root = Root::folder(folder).unwrap();
    checks::run(&root, &root.captured_paths(), None, &mut |_| {})
}

pub(crate) fn loud(report: &Report) -> Vec<&str> {
    let bad = |status| matches!(status, Status::Fail | Status::Warn);
    report.findings.iter().filter(|f| bad(f.status)).map(|f| f.id.as_str()).collect()
}

pub(crate) fn judge(variants: Vec<Variant>) {
    let mut wrong = Vec::new();
    for variant in variants {
        let folder = build(variant.base, &variant.edits);
        let report = check(folder.path());
        let verdict = &report.verdicts[0];
        let (mut got, mut wanted) = (loud(&report), variant.loud.to_vec());
        got.sort_unstable();
        wanted.sort_unstable();
        if (verdict.route, verdict.possible) != (variant.route, variant.possible)
            || verdict.blockers != variant.blockers
            || got != wanted
        {
            let said: Vec<String> = report
                .findings
                .iter()
                .filter(|f| got.contains(&f.id.as_str()))
                .map(|f| format!("    {:?} {}: {}", f.status, f.id, f.summary))
                .collect();
            wrong.push(format!(
                "{}: route {} possible {} blockers {:?} loud {got:?}\n  wanted {} {} {:?} {wanted:?}\n{}",
                variant.name,
                verdict.route,
                verdict.possible,
                verdict.blockers,
                variant.route,
                variant.possible,
                variant.blockers,
                said.join("\n")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) const COMMANDS: &str = "commands.json";
pub(crate) const PATHS: &str = "paths.json";
pub(crate) const NVML: &str = "nvml.json";
pub(crate) const LIB: &str = "libcufile.json";

pub(crate) fn said(argv: &[&str], stdout: &str) -> Value {
    json!({"argv": argv, "exit_code": 0, "stdout": stdout, "stderr": ""})
}

pub(crate) fn path(pointer: &'static str, value: Value) -> Edit {
    Set(PATHS, pointer, value)
}

/// A machine with something wrong.
pub(crate) fn bad(
    name: &'static str,
    base: &'static str,
    route: Route,
    possible: Route,
    blockers: &'static [&'static str],
    loud: &'static [&'static str],
    edits: Vec<Edit>,
) -> Variant {
    Variant { name, base, edits, route, possible, blockers, loud }
}

/// A machine with nothing wrong, for all its oddities.
pub(crate) fn fine(name: &'static str, base: &'static str, route: Route, edits: Vec<Edit>) -> Variant {
    Variant { name, base, edits, route, possible: route, blockers: &[], loud: &[] }
}

/// Edits, and more of them.
pub(crate) fn with(mut edits: Vec<Edit>, more: Vec<Edit>) -> Vec<Edit> {
    edits.extend(more);
    edits
}

/// All machines whose answers were written down before they were run.
pub(crate) fn unseen() -> Vec<Variant> {
    let mut all = unseen_storage::filesystems();
    all.extend(unseen_storage::fabrics());
    all.extend(unseen_storage::stacks());
    all.extend(unseen_hosts::machines());
    all.extend(unseen_systems::systems());
    all.extend(unseen_systems::settings());
    all.extend(unseen_more::more());
    all.extend(unseen_third::two_faults());
    all.extend(unseen_third::layers());
    all.extend(unseen_third::healthy());
    all
}
