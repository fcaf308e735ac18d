//! Machines that differ from a fixture in a few files, with the expected results of the checks.
#![allow(dead_code, reason = "each test program uses its part")]

use gds_top::checks::{self, Report};
use gds_top::core::{Route, Status};
use gds_top::machine::Root;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A change of a machine.
#[derive(Clone)]
pub(crate) enum Edit {
    /// Write a file below the directory of the machine.
    Put(String, String),
    /// Remove a file or directory.
    Drop(String),
    /// Set a value in one of the JSON files, by pointer. Its parent must exist.
    Set(String, String, Value),
    /// Remove a key from one of the JSON files, by pointer.
    Unset(String, String),
    /// Create a link.
    Link(String, String),
}

pub(crate) fn put(path: impl Into<String>, text: impl Into<String>) -> Edit {
    Edit::Put(path.into(), text.into())
}

pub(crate) fn without(path: impl Into<String>) -> Edit {
    Edit::Drop(path.into())
}

pub(crate) fn set(file: impl Into<String>, pointer: impl Into<String>, value: Value) -> Edit {
    Edit::Set(file.into(), pointer.into(), value)
}

pub(crate) fn link(path: impl Into<String>, target: impl Into<String>) -> Edit {
    Edit::Link(path.into(), target.into())
}

pub(crate) const COMMANDS: &str = "commands.json";
pub(crate) const PATHS: &str = "paths.json";
pub(crate) const NVML: &str = "nvml.json";
pub(crate) const LIB: &str = "libcufile.json";

pub(crate) fn said(argv: &[&str], stdout: &str) -> Value {
    json!({"argv": argv, "exit_code": 0, "stdout": stdout, "stderr": ""})
}

/// A command has this output.
pub(crate) fn command(argv: &[&str], stdout: &str) -> Edit {
    set(COMMANDS, "/-", said(argv, stdout))
}

pub(crate) const JOURNAL: [&str; 5] = ["journalctl", "-k", "-b", "-o", "cat"];

pub(crate) fn kernel_log(text: &str) -> Edit {
    command(&JOURNAL, text)
}

/// All edits in order.
pub(crate) fn all<const N: usize>(parts: [Vec<Edit>; N]) -> Vec<Edit> {
    parts.into_iter().flatten().collect()
}

/// This kernel, with PCI P2PDMA.
pub(crate) fn kernel(release: &str) -> Vec<Edit> {
    vec![
        put("files/proc/sys/kernel/osrelease", format!("{release}\n")),
        put(format!("files/boot/config-{release}"), "CONFIG_PCI_P2PDMA=y\n"),
    ]
}

/// The open driver with this version.
pub(crate) fn driver(version: &str, cuda: &str) -> Vec<Edit> {
    vec![
        put("files/sys/module/nvidia/version", format!("{version}\n")),
        put(
            "files/proc/driver/nvidia/version",
            format!("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"),
        ),
        set(NVML, "/driver_version", json!(version)),
        set(NVML, "/cuda_version", json!(cuda)),
    ]
}

/// A bridge of NVIDIA with class 0x0680, like an NVSwitch.
pub(crate) fn nvswitch() -> Vec<Edit> {
    const SWITCH: &str = "files/sys/bus/pci/devices/0000:b0:02.0";
    vec![
        put(format!("{SWITCH}/vendor"), "0x10de\n"),
        put(format!("{SWITCH}/device"), "0x22a3\n"),
        put(format!("{SWITCH}/class"), "0x068000\n"),
    ]
}

/// cuFileDriverOpen fails with this CUDA error code.
pub(crate) fn cuda_fails(code: i32) -> Edit {
    set(LIB, "/open", json!({"code": 5011, "cuda_code": code, "stdout": "", "stderr": "", "timed_out": false}))
}

/// The first GPU has this name and capability.
pub(crate) fn gpu(name: &str, capability: &str) -> Vec<Edit> {
    vec![set(NVML, "/gpus/0/name", json!(name)), set(NVML, "/gpus/0/compute_capability", json!(capability))]
}

/// The text of /etc/cufile.json.
pub(crate) fn config(text: impl Into<String>) -> Edit {
    put("files/etc/cufile.json", text)
}

/// The version of libcufile.
pub(crate) fn libcufile(version: &str) -> Edit {
    set(LIB, "/found/0/version", json!(version))
}

/// cuFileDriverOpen fails with this code and text.
pub(crate) fn open_fails(code: u32, stderr: &str) -> Edit {
    set(LIB, "/open", json!({"code": code, "cuda_code": 0, "stdout": "", "stderr": stderr, "timed_out": false}))
}

pub(crate) fn path(pointer: &str, value: Value) -> Edit {
    set(PATHS, pointer, value)
}

pub(crate) fn filesystem(name: &str) -> Edit {
    path("/0/filesystem", json!(name))
}

pub(crate) fn options(text: &str) -> Edit {
    path("/0/mount_options", json!(text))
}

/// The block devices below the path, with the upper ones first.
pub(crate) fn stack(devices: Value) -> Edit {
    path("/0/block_device", devices)
}

/// A file system without a block device.
pub(crate) fn unbacked(name: &str) -> Vec<Edit> {
    vec![filesystem(name), path("/0/device", json!("0:71")), stack(json!([]))]
}

/// A changed machine with the expected results.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) base: &'static str,
    pub(crate) edits: Vec<Edit>,
    pub(crate) route: Route,
    pub(crate) possible: Route,
    /// The blockers of the first verdict, in order.
    pub(crate) blockers: &'static [&'static str],
    /// All warnings and failures, in any order.
    pub(crate) loud: &'static [&'static str],
}

pub(crate) fn copy(from: &Path, to: &Path) {
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

/// The directory of a fixture. An overlay is built below the target directory, once for each content.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let place = machines().join(name);
    let Ok(text) = std::fs::read_to_string(machines().join(format!("{name}.toml"))) else { return place };
    let overlay: Overlay = toml::from_str(&text).unwrap_or_else(|e| panic!("{name}.toml: {e}"));
    let base = fixture(&overlay.base);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hash_files(&base, &mut hasher);
    hash_files(&place, &mut hasher);
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines");
    let folder = built.join(format!("{name}-{:016x}", hasher.finish()));
    if !folder.exists() {
        std::fs::create_dir_all(&built).unwrap();
        let scratch = tempfile::tempdir_in(&built).unwrap();
        copy(&base, scratch.path());
        apply(scratch.path(), &overlay.edits());
        if place.is_dir() {
            copy(&place, scratch.path());
        }
        // Another test program may have built the same content at the same time. Both results are equal.
        if std::fs::rename(scratch.path(), &folder).is_ok() {
            drop(scratch.keep());
        }
    }
    folder
}

/// A machine as its differences from another one: `NAME.toml` and, if there are any, binary files in a directory NAME.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Overlay {
    about: String,
    base: String,
    /// Files and directories of the base that this machine does not have.
    #[serde(default)]
    remove: Vec<String>,
    /// Changes of JSON files: file, pointer and the new value as JSON. Without a value, the key is removed.
    #[serde(default)]
    json: Vec<Vec<String>>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    /// The expected results, for the test of all such machines.
    #[serde(default)]
    expect: Option<Expect>,
}

/// The expected results of a machine: its verdict and its remedies.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) route: String,
    pub(crate) possible: String,
    /// The blockers of the first verdict, in order.
    pub(crate) blockers: Vec<String>,
    /// The number of steps of the first verdict.
    pub(crate) steps: usize,
    /// The ids of the plans that `fix --list` offers, in order.
    pub(crate) fixes: Vec<String>,
    /// Commands, options and paths that the advice or a plan contains.
    #[serde(default)]
    pub(crate) has: Vec<String>,
    /// Commands that neither the advice nor a plan contains.
    #[serde(default)]
    pub(crate) never: Vec<String>,
}

/// The machines with expected results.
pub(crate) fn with_expectation() -> Vec<(String, Expect)> {
    let of = |name: String| {
        let text = std::fs::read_to_string(machines().join(format!("{name}.toml"))).ok()?;
        let overlay: Overlay = toml::from_str(&text).unwrap_or_else(|e| panic!("{name}.toml: {e}"));
        Some((name, overlay.expect?))
    };
    fixtures().into_iter().filter_map(of).collect()
}

impl Overlay {
    fn edits(&self) -> Vec<Edit> {
        let mut edits: Vec<Edit> = self.remove.iter().map(without).collect();
        edits.push(set("capture.json", "/about", json!(self.about)));
        edits.extend(self.json.iter().map(|change| match change.as_slice() {
            [file, pointer, value] => set(file, pointer, serde_json::from_str(value).unwrap()),
            [file, pointer] => Edit::Unset(file.clone(), pointer.clone()),
            other => panic!("a change has a file, a pointer and perhaps a value: {other:?}"),
        }));
        edits.extend(self.files.iter().map(|(path, text)| put(path, text)));
        edits.extend(self.links.iter().map(|(path, target)| link(path, target)));
        edits
    }
}

fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines")
}

fn hash_files(folder: &Path, hasher: &mut DefaultHasher) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        path.file_name().hash(hasher);
        if path.is_dir() {
            hash_files(&path, hasher);
        } else {
            std::fs::read(&path).unwrap_or_default().hash(hasher);
        }
    }
}

/// All fixtures, by name.
pub(crate) fn fixtures() -> Vec<String> {
    let names = std::fs::read_dir(machines()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

pub(crate) fn build(base: &str, edits: &[Edit]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture(base), folder.path());
    apply(folder.path(), edits);
    folder
}

/// Applies edits to the directory of a machine.
fn apply(folder: &Path, edits: &[Edit]) {
    let at = |path: &str| -> PathBuf {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for edit in edits {
        match edit {
            Edit::Put(path, text) => std::fs::write(at(path), text).unwrap(),
            Edit::Drop(path) => {
                let path = at(path);
                if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
            }
            Edit::Set(file, pointer, value) => {
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
            Edit::Unset(file, pointer) => {
                let path = at(file);
                let mut content: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                let removed = content.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
                assert!(removed.is_some(), "{file} has no {pointer}");
                std::fs::write(path, content.to_string()).unwrap();
            }
            Edit::Link(path, target) => std::os::unix::fs::symlink(target, at(path)).unwrap(),
        }
    }
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

/// A fixture and its best route, which is also its current route.
pub(crate) type Base = (&'static str, Route);
pub(crate) const NVFS: Base = ("nvfs-healthy", Route::Nvfs);
pub(crate) const P2PDMA: Base = ("p2pdma-healthy", Route::P2pdma);
pub(crate) const GRACE: Base = ("grace", Route::C2c);
pub(crate) const MD: Base = ("md-raid0", Route::Nvfs);
pub(crate) const NFS: Base = ("nfs-rdma", Route::Nvfs);
pub(crate) const LUSTRE: Base = ("lustre", Route::Nvfs);
/// The route is RDMA after the missing addresses and the module are added.
pub(crate) const WEKA: Base = ("weka", Route::Rdma);

type Ids = &'static [&'static str];

/// A machine with any result: the current route, the best one, its blockers, and all warnings and failures.
pub(crate) fn bad(
    name: &'static str,
    base: &'static str,
    route: Route,
    possible: Route,
    blockers: Ids,
    loud: Ids,
    edits: Vec<Edit>,
) -> Variant {
    Variant { name, base, edits, route, possible, blockers, loud }
}

/// A machine without problems, although it looks unusual.
pub(crate) fn fine(name: &'static str, base: Base, edits: Vec<Edit>) -> Variant {
    warned(name, base, &[], edits)
}

/// A machine that uses the best route but has warnings.
pub(crate) fn warned(name: &'static str, (base, route): Base, loud: Ids, edits: Vec<Edit>) -> Variant {
    bad(name, base, route, route, &[], loud, edits)
}

/// A machine on which only compat mode works until these causes are fixed.
pub(crate) fn slowed(name: &'static str, (base, possible): Base, causes: Ids, edits: Vec<Edit>) -> Variant {
    bad(name, base, Route::Compat, possible, causes, causes, edits)
}

/// A machine on which nothing works until these causes are fixed.
pub(crate) fn stopped(name: &'static str, (base, possible): Base, causes: Ids, edits: Vec<Edit>) -> Variant {
    bad(name, base, Route::None, possible, causes, causes, edits)
}

/// A machine on which only compat mode is possible.
pub(crate) fn barred(name: &'static str, (base, _): Base, causes: Ids, edits: Vec<Edit>) -> Variant {
    bad(name, base, Route::Compat, Route::Compat, causes, causes, edits)
}
