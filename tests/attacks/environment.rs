//! Attacks by variables and settings that name files of another user. Programs of the system and libraries read them as
//! root.

use super::{ATTACKER, Stage, can_attack, give, image, skipped};
use crate::program::{PROGRAM, started_by};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A library that reports its variables and opens its log as libcufile does: the variable is used before the settings.
const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { int err, cu_err; } Status;
static void report(FILE *out, const char *name) {
    const char *value = getenv(name);
    fprintf(out, "%s=%s\n", name, value ? value : "");
}
Status cuFileDriverOpen(void) {
    FILE *out = fopen(MARK, "a");
    if (out) {
        report(out, "CUFILE_ENV_PATH_JSON");
        report(out, "CUFILE_LOGFILE_PATH");
        report(out, "CUDA_CACHE_PATH");
        report(out, "UCX_LOG_FILE");
        report(out, "HOME");
        fclose(out);
    }
    const char *log = getenv("CUFILE_LOGFILE_PATH");
    FILE *written = log ? fopen(log, "a") : NULL;
    if (written) {
        fputs("log\n", written);
        fclose(written);
    }
    return (Status){5001, 0};
}
long cuFileRead(void *handle, void *memory, size_t size, long offset, long place) { return -1; }
"#;

/// The library, and the file with its reports. `None` without a compiler.
fn library(stage: &Stage) -> Option<(PathBuf, PathBuf)> {
    let (source, built, mark) = (stage.at("library.c"), stage.at("libcufile.so.0"), stage.at("mark"));
    fs::write(&source, LIBRARY).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", &format!("-DMARK=\"{}\"", mark.display()), "-o"]).arg(&built).arg(&source);
    if !cc.output().is_ok_and(|output| output.status.success()) {
        skipped("the library needs cc");
        return None;
    }
    fs::set_permissions(&built, Permissions::from_mode(0o755)).unwrap();
    fs::write(&mark, "").unwrap();
    Some((built, mark))
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn no_setting_or_log_that_another_user_names_is_opened_by_root() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let Some((library, mark)) = library(&stage) else { return };
    let victim = stage.at("victim/shadow");
    let (settings, log) = (stage.at("work/cufile.json"), stage.at("work/cufile.log"));
    fs::write(&settings, format!("{{\"logging\": {{\"dir\": \"{}\"}}}}", stage.at("victim").display())).unwrap();
    symlink(&victim, &log).unwrap();
    // A file of root in the attacker's directory can be exchanged, and one that all users can write can be changed.
    let of_root = stage.at("work/of-root.json");
    let open = stage.at("open.json");
    for path in [&of_root, &open] {
        fs::copy(&settings, path).unwrap();
    }
    for folder in ["home", "work", "tmp"] {
        give(&stage.at(folder));
    }
    chown(&of_root, Some(0), Some(0)).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o666)).unwrap();
    let shared = stage.at("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let model = stage.at("victim-model").display().to_string();
    assert!(stage.run(&["make-model", "odd-sizes", &model, "--yes", "--scale", "0.05"]).status.success());
    let before = image(&stage.at("victim"));
    let text = |path: &Path| path.display().to_string();
    let bench = ["bench", &model, "--target", "host", "--cache", "as-is", "--engine", "gds", "--yes"];
    for (name, value) in [
        ("CUFILE_ENV_PATH_JSON", text(&settings)),
        ("CUFILE_ENV_PATH_JSON", text(&of_root)),
        ("CUFILE_ENV_PATH_JSON", text(&open)),
        ("CUFILE_ENV_PATH_JSON", "cufile.json".to_owned()),
        ("CUFILE_LOGFILE_PATH", text(&log)),
        ("CUFILE_LOGFILE_PATH", text(&shared.join("cufile.log"))),
        ("CUDA_CACHE_PATH", text(&stage.at("home/cache"))),
        ("UCX_LOG_FILE", format!("file:{}", log.display())),
        ("UCX_LOG_FILE", "cufile.log".to_owned()),
    ] {
        for words in [&["check", "/usr"][..], &bench, &["fix", "--list"]] {
            let mut command = Command::new(PROGRAM);
            command.args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
            command
                .env("GDS_TOP_LIBCUFILE", &library)
                .env("HOME", stage.at("home"))
                .env("TMPDIR", stage.at("victim-model"));
            let output = command.env(name, &value).current_dir(stage.at("work")).output().unwrap();
            assert!(said(&output).contains(&format!("{name} is not used, because ")), "{words:?}: {}", said(&output));
            let reports = fs::read_to_string(&mark).unwrap();
            assert!(words[0] != "check" || !reports.is_empty(), "{name}={value}: the library was not opened");
            for report in reports.lines() {
                let of_others = ["home", "work", "shared", "open.json"].map(|name| text(&stage.at(name)));
                let is_own = !of_others.iter().any(|path| report.contains(path.as_str()));
                let is_relative = ["=cufile.json", "=cufile.log"].iter().any(|name| report.ends_with(name));
                assert!(is_own && !is_relative, "{words:?} with {name}={value}: {report}");
            }
            fs::write(&mark, "").unwrap();
            assert_eq!(image(&stage.at("victim")), before, "{words:?} with {name}={value}");
            assert!(!shared.join("cufile.log").exists());
        }
    }
}

/// The attacker is a member of the group of directories with mode 2775, and can create entries of directories with mode 1777. A
/// file of root in such a directory can be a hard link to any file of root, if the kernel does not protect hard links.
#[test]
fn no_log_is_written_and_no_library_is_loaded_from_folders_of_a_group_or_of_all_users() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let Some((library, mark)) = library(&stage) else { return };
    let victim = stage.at("victim/shadow");
    let before = image(&stage.at("victim"));
    let run = |variables: &[(&str, &Path)]| {
        let mut command = Command::new(PROGRAM);
        command.args(["check", "/usr"]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", "/root").env("TMPDIR", stage.at("victim")).current_dir(stage.at("work"));
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let reports = || {
        let text = fs::read_to_string(&mark).unwrap();
        fs::write(&mark, "").unwrap();
        text
    };
    for (number, (mode, group, is_loaded)) in
        [(0o755, 0, true), (0o1777, 0, false), (0o2775, ATTACKER, false), (0o775, ATTACKER, false)]
            .into_iter()
            .enumerate()
    {
        let folder = stage.at(&format!("open-{number}"));
        fs::create_dir(&folder).unwrap();
        fs::copy(&library, folder.join("libcufile.so.0")).unwrap();
        fs::hard_link(&victim, folder.join("cufile.log")).unwrap();
        chown(&folder, Some(0), Some(group)).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        // The library that the directory offers.
        let found = run(&[("LD_LIBRARY_PATH", &folder)]);
        assert_eq!(!reports().is_empty(), is_loaded, "{mode:o}: {}", said(&found));
        // The log that the library opens, with a library that is trusted. In a closed directory, only root made the link.
        if !is_loaded {
            for log in ["cufile.log", "missing.log"] {
                let log = folder.join(log);
                let output = run(&[("GDS_TOP_LIBCUFILE", &library), ("CUFILE_LOGFILE_PATH", &log)]);
                assert!(said(&output).contains("CUFILE_LOGFILE_PATH is not used"), "{mode:o}: {}", said(&output));
                assert!(!reports().contains(&*log.to_string_lossy()), "{mode:o}");
            }
            assert!(!folder.join("missing.log").exists());
        }
        assert_eq!(image(&stage.at("victim")), before, "{mode:o}");
    }
    // A library in a closed directory that a group can write.
    for (mode, group, is_loaded) in [(0o775, 0, true), (0o775, ATTACKER, false), (0o757, 0, false)] {
        let folder = stage.at("of-group");
        let _ = fs::create_dir(&folder);
        let path = folder.join("libcufile.so.0");
        fs::copy(&library, &path).unwrap();
        chown(&path, Some(0), Some(group)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let found = run(&[("LD_LIBRARY_PATH", &folder)]);
        assert_eq!(!reports().is_empty(), is_loaded, "{mode:o} of group {group}: {}", said(&found));
    }
}

/// libcufile reads /etc/cufile.json at every start. The test replaces /etc in a namespace of its own.
#[test]
fn root_starts_no_libcufile_with_settings_of_the_system_that_another_user_can_write() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let Some((library, mark)) = library(&stage) else { return };
    let etc = stage.at("etc");
    let copied = Command::new("cp").args(["-a", "/etc"]).arg(&etc).output().unwrap();
    let settings = etc.join("cufile.json");
    fs::write(&settings, "{}").unwrap();
    let script = "mount --bind \"$1\" /etc && shift && exec \"$@\"";
    let run = |words: &[&str]| {
        let mut command = started_by("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(&etc).arg(PROGRAM).args(words);
        command.env("GDS_TOP_LIBCUFILE", &library).output().unwrap()
    };
    if !copied.status.success() || !run(&["--version"]).status.success() {
        skipped("a mount in a namespace of its own is not possible here");
        return;
    }
    for (mode, owner, is_opened) in [(0o644, 0, true), (0o666, 0, false), (0o644, ATTACKER, false)] {
        fs::set_permissions(&settings, Permissions::from_mode(mode)).unwrap();
        chown(&settings, Some(owner), None).unwrap();
        let output = run(&["check", "/usr", "--verbose"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
        assert_eq!(!fs::read_to_string(&mark).unwrap().is_empty(), is_opened, "{mode:o} {owner}: {text}");
        fs::write(&mark, "").unwrap();
    }
}

/// `dkms` and package managers are scripts: they start other programs by their names and read variables.
#[test]
fn programs_of_the_system_get_no_path_and_no_variable_of_another_user() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let mark = stage.at("mark");
    fs::write(&mark, "").unwrap();
    for name in ["uname", "make", "ls", "dpkg"] {
        executable(
            &stage.at("bin").join(name),
            &format!("#!/bin/sh\necho {name} of another user >> {}\n", mark.display()),
        );
    }
    let sbin = stage.at("sbin");
    fs::create_dir(&sbin).unwrap();
    for name in ["dkms", "modinfo", "nvidia-smi", "ldconfig"] {
        let script =
            format!("#!/bin/sh\nuname -r > /dev/null; ls / > /dev/null; echo {name}; env >> {}\n", mark.display());
        executable(&sbin.join(name), &script);
    }
    for folder in ["home", "work", "tmp", "bin"] {
        give(&stage.at(folder));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(PROGRAM);
    command.args(["check", "/usr", "--no-probe"]).env_clear();
    command.env("PATH", format!("{}:.:{}:{path}", stage.at("bin").display(), sbin.display()));
    command.env("HOME", stage.at("home")).current_dir(stage.at("work"));
    for name in ["APT_CONFIG", "PERL5LIB", "PERL5OPT", "MODPROBE_OPTIONS", "RPM_CONFIGDIR", "BASH_ENV", "ENV"] {
        command.env(name, stage.at("work").join(name));
    }
    // Nothing is started with temporary directories of another user.
    let refused = command.env("TMPDIR", stage.at("tmp")).output().unwrap();
    assert!(refused.status.code() == Some(2) && said(&refused).contains("set TMPDIR"), "{refused:?}");
    assert_eq!(fs::read_to_string(&mark).unwrap(), "");
    command.env_remove("TMPDIR").output().unwrap();
    let seen = fs::read_to_string(&mark).unwrap();
    assert!(seen.contains("LC_ALL=C"), "no program of the system was started: {seen}");
    assert!(!seen.contains("of another user"), "{seen}");
    let attackers: Vec<&str> = seen
        .lines()
        .filter(|line| {
            ["bin", "home", "work", "tmp"]
                .iter()
                .any(|name| line.contains(&*stage.at(name).to_string_lossy()) && !line.contains("sbin:"))
        })
        .collect();
    assert!(attackers.is_empty(), "{attackers:?}");
    assert!(seen.lines().filter_map(|line| line.strip_prefix("PWD=")).all(|folder| folder == "/"), "{seen}");
    for line in seen.lines().filter_map(|line| line.strip_prefix("PATH=")) {
        assert!(
            line.split(':').all(|folder| Path::new(folder) != stage.at("bin") && folder.starts_with('/')),
            "{line}"
        );
    }
}

/// The environment of a watched program has the path of the recording library. Another user exchanges directories that it
/// can change, and writes a library into the working directory of the program.
#[test]
fn the_recording_library_is_never_where_another_user_can_take_its_place() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let (mark, source, trap) = (stage.at("mark"), stage.at("trap.c"), stage.at("trap.so"));
    let note =
        format!("FILE *f = fopen(\"{}\", \"a\"); if (f) {{ fputs(\"loaded\\n\", f); fclose(f); }}", mark.display());
    let code = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void sprung(void) {{ {note} }}\nunsigned la_version(unsigned v) {{ {note} return v; }}\n"
    );
    fs::write(&source, code).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&trap).arg(&source).output();
    if !built.is_ok_and(|output| output.status.success()) {
        skipped("the planted library needs cc");
        return;
    }
    fs::set_permissions(&trap, Permissions::from_mode(0o755)).unwrap();
    fs::write(&mark, "").unwrap();
    fs::set_permissions(&mark, Permissions::from_mode(0o600)).unwrap();
    let plant = stage.at("plant");
    executable(
        &plant,
        &format!(
            "#!/bin/sh\nunset LD_AUDIT\nfor part in $(echo \"$1\" | tr ':' ' '); do folder=$(dirname \"$part\"); \
             mv \"$folder\" \"$folder.old\"; mkdir -p \"$folder\"; cp {} \"$part\"; done 2> /dev/null\nexit 0\n",
            trap.display()
        ),
    );
    let make = |name: &str, mode: u32| {
        let folder = stage.at(name);
        fs::create_dir_all(&folder).unwrap();
        chown(&folder, Some(0), Some(ATTACKER)).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder.display().to_string()
    };
    give(&stage.at("work"));
    let private = tempfile::Builder::new().prefix("gds-top-test-").tempdir_in("/tmp").unwrap();
    let removed = private.path().display().to_string();
    let folders = [
        "tmp".to_owned(),
        ".".to_owned(),
        make("a:b", 0o755),
        make("$ORIGIN", 0o755),
        make("group", 0o775),
        make("sticky", 0o1777),
        make("theirs/inner", 0o755),
        removed.clone(),
        stage.at("missing").display().to_string(),
    ];
    chown(stage.at("theirs"), Some(ATTACKER), Some(ATTACKER)).unwrap();
    let attacker = format!("setpriv --reuid {ATTACKER} --regid {ATTACKER} --clear-groups");
    for folder in folders {
        // The relative names are examined in a directory of root, and the program changes into the attacker's.
        let script = format!(
            "echo \"$LD_AUDIT\"; rm -rf {removed}; cd {}; {attacker} {} \"$LD_AUDIT\"; /bin/true; echo done",
            stage.at("work").display(),
            plant.display()
        );
        let mut command = Command::new(PROGRAM);
        command.args(["watch", "--", "sh", "-c", &script]).env("TMPDIR", &folder).env_remove("XDG_RUNTIME_DIR");
        let output = command.current_dir(stage.dir.path()).output().unwrap();
        if said(&output).contains("watch needs a glibc system") {
            skipped("watch needs glibc");
            return;
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(fs::read_to_string(&mark).unwrap(), "", "TMPDIR={folder}: a planted library was loaded: {printed}");
        // Without a safe place, nothing is watched.
        let Some(library) = printed.lines().next().filter(|line| line.contains("libcufile_audit")) else {
            assert!(!output.status.success() && !said(&output).is_empty(), "TMPDIR={folder}: {output:?}");
            continue;
        };
        assert!(printed.lines().any(|line| line == "done"), "TMPDIR={folder}: {printed}");
        assert!(
            library.starts_with('/') && !library.contains(':') && !library.contains('$'),
            "TMPDIR={folder}: {library}"
        );
    }
    drop(private);
}

/// sudo can keep HOME for every user. Python imports `usercustomize` and .pth files from there.
#[test]
fn a_home_of_another_user_is_not_used_for_children_of_an_ordinary_user() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let (python, mark, home) = (stage.at("python"), stage.at("work/mark"), stage.at("home"));
    executable(&python, &format!("#!/bin/sh\necho \"${{HOME-none}} $1\" > {}\n", mark.display()));
    give(&stage.at("work"));
    let own = format!("{} -c", home.display());
    let own = own.as_str();
    for (owner, expected) in [(ATTACKER, own), (0, own), (ATTACKER + 1, "none -s")] {
        chown(&home, Some(owner), Some(owner)).unwrap();
        let mut command = started_by("setpriv");
        command.args(["--reuid", &ATTACKER.to_string(), "--regid", &ATTACKER.to_string(), "--clear-groups", PROGRAM]);
        command.args(["bench", "--list-loaders"]).env("HOME", &home).env("GDS_TOP_PYTHON", &python);
        let output = command.current_dir(stage.at("work")).output().unwrap();
        let Ok(seen) = fs::read_to_string(&mark) else {
            skipped(&format!("another user cannot run the program: {}", said(&output)));
            return;
        };
        assert_eq!(seen.trim(), expected, "HOME of {owner}");
        fs::remove_file(&mark).unwrap();
    }
}

/// A rule of sudo can keep variables of the caller and permit one command for `watch`. The caller also sets a variable
/// that is left out, so that the program starts itself again.
#[test]
fn no_variable_of_the_caller_becomes_another_one_of_a_watched_program() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    give(&stage.at("work"));
    let (trap, log) = (stage.at("work/trap.so").display().to_string(), stage.at("work/cufile.log"));
    // The caller also knows the number and the start time of the process, because it executes the program itself.
    let script = "started=$(sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f 20); export GDS_TOP_LEFT_OUT_BY=$$:$started; \
                  exec \"$0\" watch -- env";
    for name in ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "PATH", "OPENSSL_CONF", "BASH_ENV", "PYTHONUSERBASE"] {
        let mut command = started_by("sh");
        command.args(["-c", script, PROGRAM]).env("CUFILE_LOGFILE_PATH", &log);
        command.env(format!("GDS_TOP_LEFT_OUT_{name}"), &trap);
        let output = command.current_dir(stage.at("work")).output().unwrap();
        if said(&output).contains("watch needs a glibc system") {
            skipped("watch needs glibc");
            return;
        }
        assert!(said(&output).contains("CUFILE_LOGFILE_PATH is not used, because "), "{}", said(&output));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.lines().any(|line| line.starts_with("LD_AUDIT=")), "{printed}");
        let is_set = |line: &str| line.split_once('=').is_some_and(|(set, to)| set == name && to.contains(&*trap));
        assert!(!printed.lines().any(is_set), "{name}: {printed}");
        assert!(!printed.lines().any(|line| line.starts_with("CUFILE_LOGFILE_PATH=")), "{name}: {printed}");
    }
}

#[test]
fn a_variable_that_is_left_out_is_in_the_report_and_in_the_recording() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    give(&stage.at("work"));
    let log = stage.at("work/cufile.log");
    let (recording, folder) = (stage.at("victim/left-out.gdsrec"), stage.at("victim-report"));
    let watch = |left_out: bool| {
        let mut command = started_by(PROGRAM);
        command
            .args(["watch", "--json", "--record"])
            .arg(&recording)
            .args(["--", "env"])
            .current_dir(stage.at("victim"));
        if left_out {
            command.env("CUFILE_LOGFILE_PATH", &log).env("UCX_LOG_FILE", format!("file:{}", log.display()));
        }
        command.output().unwrap()
    };
    let json = |output: &Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let whole = watch(false);
    if said(&whole).contains("watch needs a glibc system") {
        skipped("watch needs glibc");
        return;
    }
    assert_eq!(json(&whole)["left_out_variables"], serde_json::json!([]));
    let output = watch(true);
    let report = json(&output);
    let left_out = report["left_out_variables"].as_array().unwrap();
    let mut names: Vec<_> = left_out.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["CUFILE_LOGFILE_PATH", "UCX_LOG_FILE"]);
    let is_named = |variable: &serde_json::Value| {
        variable["in_part"] == false
            && variable["reason"].as_str().unwrap().contains(&stage.at("work").display().to_string())
    };
    assert!(left_out.iter().all(is_named), "{left_out:?}");
    // The program gets neither the variables nor the list of them.
    let is_passed = |line: &str| {
        ["CUFILE_LOGFILE_PATH=", "UCX_LOG_FILE=", "GDS_TOP_LEFT_OUT="].iter().any(|begin| line.starts_with(begin))
    };
    assert!(said(&output).lines().any(|line| line.starts_with("LD_AUDIT=")) && !said(&output).lines().any(is_passed));
    let mut command = started_by(PROGRAM);
    command.arg("report").arg(&recording).arg("--export").arg(&folder).args(["--format", "html,md,json"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    for text in [&text, &read("report.md"), &read("report.html")] {
        // Markdown has a backslash before an underscore.
        let named = text.replace("\\_", "_").matches("UCX_LOG_FILE").count();
        assert_eq!(named, 1, "{text}");
    }
    let replayed: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(replayed["left_out_variables"], report["left_out_variables"]);
}

/// A rule of sudo can permit a command with any --config.
#[test]
fn root_runs_no_engine_of_settings_that_another_user_could_have_written() {
    if !can_attack() {
        return;
    }
    let stage = Stage::new();
    let mark = stage.at("mark");
    let model = stage.at("victim-model").display().to_string();
    assert!(stage.run(&["make-model", "odd-sizes", &model, "--yes", "--scale", "0.05"]).status.success());
    fs::create_dir(stage.at("shared")).unwrap();
    give(&stage.at("work"));
    let command = format!("command:echo ran >> {}", mark.display());
    let command = command.as_str();
    for (folder, mode, owner, engine, runs) in [
        ("victim", 0o755, 0, command, true),
        ("victim", 0o755, ATTACKER, command, false),
        ("work", 0o755, 0, command, false),
        ("shared", 0o1777, 0, command, false),
        ("work", 0o755, ATTACKER, "loader:safetensors", false),
        // Other engines and settings run nothing of that user.
        ("work", 0o755, ATTACKER, "pread", true),
    ] {
        let settings = stage.at(folder).join("c.toml");
        fs::write(&settings, format!("[race]\nengines = [{engine:?}]\n")).unwrap();
        chown(&settings, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(stage.at(folder), Permissions::from_mode(mode)).unwrap();
        fs::write(&mark, "").unwrap();
        let settings = settings.display().to_string();
        let words = ["bench", &model, "--target", "host", "--cache", "as-is", "--repeat", "1", "--config", &settings];
        let output = stage.run(&words);
        let case = format!("{folder} {mode:o} {owner} {engine}: {}", said(&output));
        assert_eq!(output.status.code() == Some(2), !runs, "{case}");
        assert_eq!(said(&output).contains("root does not run the engine"), !runs, "{case}");
        assert_eq!(!fs::read(&mark).unwrap().is_empty(), runs && engine == command, "{case}");
    }
}
