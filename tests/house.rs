//! Rules for all files of the repository, tested by reading the files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The files of the repository with one of these extensions, without build results and git's files.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let ours = !name.starts_with('.') || name == ".ci";
            if entry.file_type().unwrap().is_dir() {
                if ours && name != "target" {
                    walk(&path, found);
                }
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("."), &mut found);
    found.retain(|path| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)));
    found.sort();
    assert!(!found.is_empty(), "no file ends with {endings:?}");
    found
}

fn wrong(what: &str, files: impl IntoIterator<Item = String>) {
    let files: Vec<String> = files.into_iter().collect();
    assert!(files.is_empty(), "{what}:\n{}", files.join("\n"));
}

#[test]
fn every_source_says_its_job_in_the_first_line_and_has_only_one() {
    let sources: Vec<(PathBuf, String)> =
        files(&[".rs"]).into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    assert!(sources.len() > 100, "{} sources", sources.len());
    let named = |test: &dyn Fn(&str) -> bool| -> Vec<String> {
        sources.iter().filter(|(_, text)| test(text)).map(|(path, _)| path.display().to_string()).collect()
    };
    wrong("without a //! line on top", named(&|text| !text.starts_with("//! ")));
    // The aim is about 500 lines. A longer file has more than one job.
    wrong("over 600 lines", named(&|text| text.lines().count() > 600));
}

#[test]
fn nothing_is_left_unfinished_or_names_the_machine_it_was_written_on() {
    // The words are assembled here, so that this file does not contain them.
    let marks = ["TO", "FIX"].iter().zip(["DO", "ME"]).map(|(a, b)| format!("{a}{b}"));
    let calls = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let places = ["root", "work"].map(|name| format!("/{name}/"));
    let unwanted: Vec<String> = marks.chain(calls).chain(places).collect();
    let mut found = Vec::new();
    for path in files(&[".rs", ".c", ".h", ".md", ".toml", ".css", ".html", ".ci/run", ".ci/wheels"]) {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if let Some(mark) = unwanted.iter().find(|mark| line.contains(mark.as_str())) {
                found.push(format!("{}:{}: {mark}", path.display(), number + 1));
            }
        }
    }
    wrong("unfinished, or of one machine", found);
}

#[test]
fn a_thread_that_the_system_refuses_is_no_panic() {
    let calls =
        ["thread", "scope"].map(|name| format!("{name}{}", if name == "scope" { ".spawn(" } else { "::spawn(" }));
    let outside_tests = |path: &PathBuf| {
        let code = fs::read_to_string(path).unwrap();
        let code = code.split("#[cfg(test)]").next().unwrap();
        calls.iter().any(|call| code.contains(call.as_str()))
    };
    let sources = files(&[".rs"]).into_iter().filter(|path| {
        let inside = |folder: &str| path.starts_with(folder);
        ["./src", "./cufile-audit/src", "./cufile-ffi/src", "./nixl-ffi/src"].iter().any(|folder| inside(folder))
            && !path.ends_with("tests.rs")
            && !path.components().any(|part| part.as_os_str() == "tests")
    });
    let found: Vec<String> = sources.filter(outside_tests).map(|path| path.display().to_string()).collect();
    wrong(
        "threads started by a call that panics if the system refuses them; std::thread::Builder returns an error instead",
        found,
    );
}

#[test]
fn scripts_are_executable_and_stop_at_the_first_failure() {
    for path in files(&[".ci/run", ".ci/wheels"]) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("#!/usr/bin/env bash\n") && text.contains("\nset -euo pipefail\n"),
            "{}",
            path.display()
        );
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{} is not executable", path.display());
        let parsed = std::process::Command::new("bash").arg("-n").arg(&path).status().unwrap();
        assert!(parsed.success(), "{}", path.display());
    }
}

#[test]
fn links_of_the_documents_lead_to_files() {
    let mut dead = Vec::new();
    for path in files(&[".md"]) {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            if !file.is_empty() && !file.contains("://") && !path.parent().unwrap().join(file).exists() {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    wrong("links to nowhere", dead);
}

#[test]
fn the_readme_marks_the_one_command_that_tests_everything() {
    let text = fs::read_to_string("README.md").unwrap();
    let (_, rest) = text.split_once("<!-- test-command -->\n").expect("the mark before the command");
    let (marked, _) = rest.split_once("<!-- /test-command -->\n").expect("the mark behind the command");
    let lines: Vec<&str> = marked.lines().filter(|line| !line.is_empty() && !line.starts_with("```")).collect();
    assert_eq!(lines, ["cargo test --workspace"], ".ci/run runs this line unchanged");
}

#[test]
fn the_version_of_rust_that_is_promised_is_the_same_everywhere() {
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")).unwrap().trim_end_matches('"');
    for path in ["README.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("{version} or later")), "{path} does not name Rust {version}");
    }
}

#[test]
fn tests_start_the_program_without_the_variables_of_who_runs_them() {
    let named: Vec<PathBuf> = files(&[".rs"])
        .into_iter()
        .filter(|path| {
            path.starts_with("./tests") && fs::read_to_string(path).unwrap().contains(concat!("CARGO_BIN_", "EXE"))
        })
        .collect();
    assert_eq!(named, [Path::new("./tests/program/mod.rs")], "start it by program::gds_top()");
}
