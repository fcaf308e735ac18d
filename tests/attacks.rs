//! Attacks by an ordinary user. root runs commands in directories and with variables of that user. The tests need root
//! and a C compiler.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "attacks/destinations.rs"]
mod destinations;
#[path = "attacks/environment.rs"]
mod environment;
#[path = "program/mod.rs"]
mod program;

use program::PROGRAM;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The user id of the attacker. Files can have it without an account.
const ATTACKER: u32 = 54_321;

fn skipped(why: &str) -> bool {
    eprintln!("skipped: {why}");
    false
}

fn can_attack() -> bool {
    rustix::process::geteuid().is_root() || skipped("two users need root")
}

/// Gives a directory and its content to the attacker.
fn give(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            give(&entry.path());
        } else {
            std::os::unix::fs::lchown(entry.path(), Some(ATTACKER), Some(ATTACKER)).unwrap();
        }
    }
    chown(path, Some(ATTACKER), Some(ATTACKER)).unwrap();
}

/// Path, kind, mode, owner and content of all files below a directory.
fn image(folder: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.insert(path, (meta.mode(), meta.uid(), content));
    }
    all
}

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    /// Creates a directory of root with files that must not change, and the attacker's home, working directory and directory
    /// for temporary files.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let stage = Self { dir };
        for folder in ["victim/inner", "home", "work", "bin", "tmp"] {
            fs::create_dir_all(stage.at(folder)).unwrap();
        }
        fs::write(stage.at("victim/shadow"), "root:secret").unwrap();
        fs::write(stage.at("victim/inner/thesis"), "years of work").unwrap();
        stage
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the program as root with the attacker's variables in the attacker's directory.
    fn run(&self, words: &[&str]) -> Output {
        self.run_with(words, "LD_LIBRARY_PATH", "")
    }

    /// [`Stage::run`] with one more variable.
    fn run_with(&self, words: &[&str], name: &str, value: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new(PROGRAM)
            .args(words)
            .env_clear()
            .env(name, value)
            .env("PATH", format!("{}:{}:{path}", self.at("bin").display(), self.at("sbin").display()))
            .env("HOME", self.at("home"))
            .env("TMPDIR", self.at("tmp"))
            .env("XDG_CONFIG_HOME", self.at("home/.config"))
            .env("XDG_CACHE_HOME", self.at("home/.cache"))
            .env("XDG_DATA_HOME", self.at("home/.local/share"))
            .env("XDG_RUNTIME_DIR", self.at("tmp"))
            .env("CUFILE_ENV_PATH_JSON", self.at("work/cufile.json"))
            .env("VIRTUAL_ENV", self.at("home/venv"))
            .env("CONDA_PREFIX", self.at("home/conda"))
            .env("CUDA_HOME", self.at("home/cuda"))
            .env("TERM", "dumb")
            .current_dir(self.at("work"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs the commands that root may be asked to run, with names that the attacker chose.
    fn run_all(&self, name: &str) {
        let at = |name: &str| self.at(name).display().to_string();
        let out = at(&format!("work/{name}"));
        let recording =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-io.gdsrec").display().to_string();
        let model = at("victim-model");
        for words in [
            &["check", &out, "--export", &out][..],
            &["check", "--root", &out],
            &["fix", "--list"],
            &["fix", "--list", "--root", &at("work")],
            &["fix", "udev-record", "--dry-run", "--root", &at("work")],
            &["fix", "memlock", "--yes", "--root", &at("work")],
            &["fix", "memlock", "--undo", "--root", &at("work")],
            &["make-model", "odd-sizes", &out, "--yes", "--scale", "0.05"],
            &["bench", &model, "--target", "host", "--cache", "as-is", "--engine", "pread", "--record", &out, "--yes"],
            &["bench", &model, "--target", "host", "--cache", "as-is", "--engine", "command:true", "--yes"],
            &[
                "bench-io",
                &out,
                "--file-size",
                "1M",
                "--seconds",
                "0.01",
                "--size",
                "64K",
                "--threads",
                "1",
                "--target",
                "host",
                "--yes",
            ],
            &["bench-kv", "ucm", &out, "--target", "host", "--tokens", "128", "--yes"],
            &["bench-kv", "ucm", &at("work"), "--target", "host", "--tokens", "128", "--yes"],
            &["learn", "--export", &out],
            &["report", &recording, "--export", &out],
            &["capture", &out],
            &["man", &out],
            &["config", "tune", &model, "-o", &out],
            &["explain", &out],
            &["fleet", &out, "--export", &out],
            &["inspect", &out],
            &["watch", "--record", &out, "--", "true"],
            &["watch", "--", "true"],
            &["completions", "bash"],
        ] {
            let output = self.run(words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("panicked"), "{words:?}: {said}");
        }
    }
}

#[test]
fn another_user_gains_nothing_from_commands_of_root() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let victim = stage.at("victim");
    let made = Command::new(PROGRAM)
        .args(["make-model", "odd-sizes", stage.at("victim-model").to_str().unwrap(), "--yes", "--scale", "0.05"])
        .output()
        .unwrap();
    assert!(made.status.success());
    // Creates links at all paths to which the program writes: results, unfinished files, private directories, caches and
    // journals.
    let plant = |name: &str, target: &Path| {
        let at = stage.at(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, at).unwrap();
    };
    for (name, target) in [("file", victim.join("shadow")), ("folder", victim.join("inner")), ("all", victim.clone())] {
        plant(&format!("work/{name}"), &target);
        plant(&format!("work/{name}.partial"), &victim.join("shadow"));
    }
    for name in [
        "work/gds-top-kv-ucm",
        "work/out/gds-top-kv-ucm",
        "work/.gds-top",
        "work/gds-top-baseline",
        "work/etc",
        "home/.config/gds-top",
        "home/.cache/gds-top",
        "home/.local/share/gds-top",
        "tmp/gds-top-watch",
        "tmp/gds-top-root-4194305-7-00",
        "tmp/gds-top-probe-4194305-7-00",
    ] {
        plant(name, &victim.join("inner"));
    }
    for name in [
        "work/out/report.json",
        "work/out/report.html",
        "work/out/model.safetensors",
        "work/out/gds-top.1",
        "work/out/cufile.json",
        "tmp/cufile.log",
        "work/cufile.log",
    ] {
        plant(name, &victim.join("shadow"));
    }
    fs::write(stage.at("work/cufile.json"), format!("{{\"logging\": {{\"dir\": \"{}\"}}}}", victim.display())).unwrap();
    for folder in ["home", "work", "tmp", "bin"] {
        give(&stage.at(folder));
    }
    let before = image(&victim);
    for name in ["out", "file", "folder", "all", "new"] {
        stage.run_all(name);
        let now = image(&victim);
        let changed: Vec<_> =
            before.iter().filter(|(path, was)| now.get(*path) != Some(*was)).map(|(path, _)| path).collect();
        assert!(changed.is_empty(), "{changed:?} after the commands over {name}");
        assert_eq!(now.len(), before.len(), "new files after the commands over {name}: {:?}", now.keys());
    }
    // The attacker's directories must not contain a file of root with a set-id bit.
    for folder in ["home", "work", "tmp"] {
        for (path, (mode, owner, _)) in image(&stage.at(folder)) {
            assert!(mode & 0o6000 == 0 || owner == ATTACKER, "{}", path.display());
        }
    }
}

#[test]
fn a_library_that_another_user_planted_is_not_loaded_by_root() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let mark = stage.at("mark");
    let source = stage.at("trap.c");
    fs::write(&source, format!("#include <stdio.h>\n__attribute__((constructor)) static void sprung(void) {{ FILE *f = fopen(\"{}\", \"a\"); if (f) {{ fputs(\"loaded\\n\", f); fclose(f); }} }}\n", mark.display())).unwrap();
    let trap = stage.at("trap.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&trap).arg(&source).output();
    if !built.is_ok_and(|output| output.status.success()) {
        skipped("the planted library needs cc");
        return;
    }
    for name in [
        "libcufile.so.0",
        "libcufile.so",
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libnixl_capi.so",
        "libcufile_audit.so",
        "libcufile_rdma.so.1",
    ] {
        for folder in [
            "work",
            "tmp",
            "home/.local/lib",
            "home/.local/lib/python3.12/site-packages/nvidia/cufile/lib",
            "home/.local/lib/python3.12/site-packages/nvidia/cu13/lib",
            "home/venv/lib/python3.12/site-packages/nvidia/cufile/lib",
            "home/conda/lib",
            "home/cuda/lib64",
            "home/cuda/targets/x86_64-linux/lib",
        ] {
            let folder = stage.at(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::copy(&trap, folder.join(name)).unwrap();
        }
    }
    for name in [
        "dkms",
        "modinfo",
        "nvidia-smi",
        "journalctl",
        "ldconfig",
        "mokutil",
        "uname",
        "sudo",
        "modprobe",
        "udevadm",
        "sh",
        "python3",
        "bash",
    ] {
        let path = stage.at("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\necho {name} >> {}\n", mark.display())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(&mark, "").unwrap();
    for folder in ["home", "work", "tmp", "bin"] {
        give(&stage.at(folder));
    }
    let made = Command::new(PROGRAM)
        .args(["make-model", "odd-sizes", stage.at("victim-model").to_str().unwrap(), "--yes", "--scale", "0.05"])
        .output()
        .unwrap();
    assert!(made.status.success());
    for folder in ["home", "tmp"] {
        stage.run_all("out");
        assert_eq!(fs::read_to_string(&mark).unwrap(), "", "{folder}: a planted library or program was used");
        // The same attacks with a directory for temporary files that all users share, like /tmp.
        chown(stage.at("tmp"), Some(0), Some(0)).unwrap();
        fs::set_permissions(stage.at("tmp"), Permissions::from_mode(0o1777)).unwrap();
    }
    // An empty part is the working directory.
    for value in [":/usr/local/cuda/lib64", ".", &stage.at("home/.local/lib").display().to_string()] {
        for words in [&["check", "/usr"][..], &["fix", "--list"], &["top", "--once"]] {
            let output = stage.run_with(words, "LD_LIBRARY_PATH", value);
            let said = String::from_utf8_lossy(&output.stderr);
            let is_said = ["is used only in part", "is not used"]
                .iter()
                .any(|how| said.contains(&format!("LD_LIBRARY_PATH {how}")));
            assert!(is_said, "{words:?}: {said}");
            assert_eq!(fs::read_to_string(&mark).unwrap_or_default(), "", "{words:?} with {value}");
        }
    }
}

/// Python searches the working directory and the home directory for modules, and the settings in the home directory can
/// name commands as engines.
#[test]
fn code_of_another_user_is_not_run_by_root() {
    if !can_attack() {
        return;
    }
    let Ok(python) = Command::new("python3")
        .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"])
        .output()
    else {
        skipped("modules of Python need python3");
        return;
    };
    let printed = String::from_utf8(python.stdout).unwrap();
    let (version, executable) = printed.trim().split_once(' ').unwrap();
    let stage = Stage::new();
    let mark = stage.at("mark");
    fs::write(&mark, "").unwrap();
    let module = format!("open({:?}, 'a').write(__file__ + '\\n')\n", mark.display().to_string());
    for name in ["csv", "json", "email", "os", "sys", "pathlib", "safetensors"] {
        fs::write(stage.at("work").join(format!("{name}.py")), &module).unwrap();
    }
    let packages = stage.at("home").join(format!(".local/lib/python{version}/site-packages"));
    fs::create_dir_all(&packages).unwrap();
    fs::write(packages.join("usercustomize.py"), &module).unwrap();
    let program = stage.at("bin/python3");
    fs::write(&program, format!("#!/bin/sh\necho python3 >> {}\n", mark.display())).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    // A python3 of root that is a script, as with pyenv, starts other programs by their names.
    fs::copy(&program, stage.at("bin/dirname")).unwrap();
    fs::create_dir(stage.at("sbin")).unwrap();
    let script = format!("#!/bin/sh\ndirname / > /dev/null\nexec {executable} \"$@\"\n");
    fs::write(stage.at("sbin/python3"), script).unwrap();
    fs::set_permissions(stage.at("sbin/python3"), Permissions::from_mode(0o755)).unwrap();
    let settings = stage.at("home/.config/gds-top/config.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let engine = format!("command:echo settings >> {}", mark.display());
    fs::write(&settings, format!("[race]\nengines = [{engine:?}]\n")).unwrap();
    for folder in ["home", "work", "bin"] {
        give(&stage.at(folder));
    }
    let model = stage.at("victim-model").display().to_string();
    assert!(stage.run(&["make-model", "odd-sizes", &model, "--yes", "--scale", "0.05"]).status.success());
    let bench = ["bench", &model, "--target", "host", "--cache", "as-is", "--repeat", "1", "--yes"];
    for words in
        [&["bench", "--list-loaders"][..], &bench[..], &[&bench[..], &["--engine", "loader:safetensors"]].concat()]
    {
        let output = stage.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("config.toml are not used: "), "{words:?}: {said}");
        assert_eq!(fs::read_to_string(&mark).unwrap(), "", "{words:?}");
    }
}
