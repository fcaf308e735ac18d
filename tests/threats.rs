//! The threat model names a test for each guarantee. This file tests that these tests exist.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(top.join("docs/threat-model.md")).unwrap();
    let mut files = Vec::new();
    for folder in ["src", "tests", "cufile-ffi", "cufile-audit", "nixl-ffi"] {
        sources(&top.join(folder), &mut files);
    }
    let code: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let (_, promises) = page.split_once("## Promises").unwrap();
    let (promises, _) = promises.split_once("## Not promised").unwrap();
    let rows: Vec<&str> = promises.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 15, "{} promises", rows.len());
    for row in rows {
        let tests: Vec<&str> =
            row.rsplit('|').nth(1).unwrap().split(',').map(|name| name.trim().trim_matches('`')).collect();
        assert!(!tests.iter().any(|name| name.is_empty()), "no test: {row}");
        for name in tests {
            let Some((before, _)) = code.split_once(&format!("fn {name}()")) else {
                panic!("the test {name} does not exist: {row}")
            };
            assert!(before.trim_end().ends_with("#[test]"), "{name} is not a test");
        }
    }
}

#[test]
fn the_page_and_the_way_to_report_are_found() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let has = |file: &str, link: &str| fs::read_to_string(top.join(file)).unwrap().contains(link);
    assert!(has("docs/SUMMARY.md", "(threat-model.md)") && has("README.md", "docs/threat-model.md"));
    assert!(has("README.md", "SECURITY.md") && has("SECURITY.md", "docs/threat-model.md"));
}
