//! Tests names: of files, directories and processes, the values of all options, and variables.

use crate::{HOSTILE, csv, plain, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The hostile string without the character that a file name cannot have.
fn name() -> String {
    HOSTILE.replace('/', "")
}

fn help(words: &[&str]) -> String {
    let out = crate::program::gds_top().args(words).arg("--help").output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// The commands in a help text.
fn commands(text: &str) -> Vec<String> {
    let (_, list) = text.split_once("Commands:\n").unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty() || list.starts_with('\n'));
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The options with a value in a help text.
fn options(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| line.trim_start().starts_with('-') && line.contains('<')) {
        let long = line.split_whitespace().find(|word| word.starts_with("--"));
        found.extend(long.map(|word| word.split(['=', '[']).next().unwrap_or(word).to_owned()));
    }
    found
}

#[test]
fn no_value_of_any_option_commands_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls: Vec<Vec<String>> = Vec::new();
    for command in commands(&help(&[])) {
        let inner = commands(&help(&[&command]));
        calls.extend(inner.iter().map(|name| vec![command.clone(), name.clone()]));
        calls.push(vec![command]);
    }
    assert!(calls.len() > 15, "{calls:?}");
    let (mut tried, mut arrived) = (0, 0);
    for call in calls {
        let words: Vec<&str> = call.iter().map(String::as_str).collect();
        for option in options(&help(&words)) {
            // The last argument is unknown, so nothing runs.
            let out = crate::program::gds_top()
                .args(&words)
                .args([&format!("{option}={}", name()), "--none-of-these"])
                .current_dir(folder.path())
                .output()
                .unwrap();
            plain(&format!("{words:?} {option}"), &String::from_utf8_lossy(&out.stderr));
            // The string begins with '=', so it is the value again, or the name of an unknown option.
            let out = crate::program::gds_top()
                .args(&words)
                .arg(format!("{option}{}", name()))
                .current_dir(folder.path())
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            arrived += usize::from(plain(&format!("{words:?} {option}"), &String::from_utf8_lossy(&out.stderr)));
            tried += 1;
        }
    }
    assert!(tried > 100 && arrived > 50, "the string arrived {arrived} times in {tried}");
}

/// Text of all files below a directory that an export or a capture wrote.
fn written(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() {
            written(&path);
        } else if ["json", "csv", "md", "html", "prom", "xml"].contains(&ending.as_str()) {
            let what = entry.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            if ending == "csv" {
                csv(&what, &text)
            } else {
                plain(&what, &text)
            };
        }
    }
}

#[test]
fn no_name_of_a_file_or_process_commands_a_terminal_or_is_a_formula() {
    let scratch = tempfile::tempdir().unwrap();
    let top = scratch.path().join(name());
    fs::create_dir(&top).unwrap();
    let at = |end: &str| top.join(format!("{}{end}", name())).display().to_string();
    let header = br#"{"a":{"dtype":"U8","shape":[8192],"data_offsets":[0,8192]}}"#;
    let model = at(".safetensors");
    fs::write(&model, [&(header.len() as u64).to_le_bytes(), header.as_slice(), &[7; 8192]].concat()).unwrap();
    let recording = at(".gdsrec");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-io.gdsrec"), &recording).unwrap();
    let program = at(".sh");
    fs::write(&program, "#!/bin/sh\ncat \"$1\" >/dev/null\nexec sleep \"$2\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = top.display().to_string();
    let (export, capture, page, none) = (at("-export"), at("-capture"), at(".html"), at("-none"));
    let bench = ["bench", &model, "--target", "host", "--cache", "as-is", "--engine", "pread", "--export", &export];
    let mut shown = 0;
    for words in [
        &["check", "--no-probe", &folder][..],
        &["check", "--no-probe", "--json", &model],
        &["check", &none],
        &["check", "--root", &recording],
        &["fix", "--list", "--root", &folder],
        &["inspect", &model],
        &["inspect", &none],
        &["report", &recording, &model],
        &["replay", "--headless", &recording],
        &["fleet", &folder],
        &["fleet", &model],
        &["config", "lint", &model],
        &["config", "lint", "--config", &model],
        &["config", "tune", &model, "-o", &folder],
        &bench,
        &["bench-kv", "ucm", &model, "--target", "host", "--yes"],
        &["bench-io", &model, "--target", "host", "--yes"],
        &["make-model", "odd-sizes", &model, "--yes", "--scale", "0.05"],
        &["learn", "--html", &page],
        &["learn", "--html", &model],
        &["capture", &capture, &folder],
        &["explain", &none],
        &["watch", "--export", &at("-watch"), "--", &program, &model, "0"],
        &["watch", "--", &none],
        &["export", "--listen", &name()],
    ] {
        shown += usize::from(run(words));
    }
    assert!(shown > 15, "the string was shown {shown} times");
    written(&top);
    let mut child = Command::new(&program).args([&model, "60"]).spawn().unwrap();
    let pid = child.id().to_string();
    run(&["watch", "--pid", &pid, "--seconds", "1"]);
    run(&["top", "--once"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_variable_commands_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for variable in [
        "CUFILE_ENV_PATH_JSON",
        "CUFILE_LOGGING_LEVEL",
        "CUFILE_NO_SUCH_KEY",
        "GDS_TOP_LIBCUFILE",
        "GDS_TOP_NVML",
        "GDS_TOP_NIXL",
        "GDS_TOP_PYTHON",
        "HF_HUB_CACHE",
        "HOME",
        "LMCACHE_LOCAL_DISK",
        "TMPDIR",
        "XDG_CONFIG_HOME",
    ] {
        for value in [name(), format!("/{}", name())] {
            for words in [
                &["check", "--no-probe", "-v", "."][..],
                &["config", "lint"],
                &["config", "show"],
                &["bench", "--list-loaders"],
                &["inspect", "org/name"],
                &["check", "--no-probe", "--for", "lmcache", "vllm serve --kv-transfer-config x"],
            ] {
                let mut command = crate::program::gds_top();
                let out = command.args(words).env(variable, &value).current_dir(folder.path()).output().unwrap();
                for bytes in [out.stdout, out.stderr] {
                    plain(&format!("{variable}: {words:?}"), &String::from_utf8(bytes).unwrap());
                }
            }
        }
    }
}
