//! The threat model names a test for each promise. This file tests that these tests exist, are run, and assert something.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Number of calls through which an assertion is searched: a test can call a function that asserts.
const DEPTH: u32 = 4;

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

/// The functions of a program: their attributes and bodies by name.
type Functions = BTreeMap<String, Vec<(String, String)>>;

/// The functions of a file that rustfmt has formatted: a body ends at the first line with the indent of its head and a
/// brace.
fn functions(code: &str, found: &mut Functions) {
    let lines: Vec<&str> = code.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let head = line.trim_start();
        let indent = line.len() - head.len();
        let head = head.split_once("fn ").filter(|(before, _)| {
            before
                .split_whitespace()
                .all(|word| word.starts_with("pub") || matches!(word, "const" | "unsafe" | "async"))
        });
        let Some((_, rest)) = head else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let above = lines[..index].iter().rev().map(|line| line.trim());
        let attributes: Vec<&str> = above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
        let end = format!("{}}}", " ".repeat(indent));
        let body: Vec<&str> =
            lines[index..].iter().copied().skip(1).take_while(|line| !line.starts_with(&end)).collect();
        let without_comments: Vec<&str> =
            body.iter().copied().filter(|line| !line.trim_start().starts_with("//")).collect();
        found.entry(name).or_default().push((attributes.join("\n"), without_comments.join("\n")));
    }
}

/// The names of the functions and methods that a body calls.
fn calls(body: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    body.match_indices('(')
        .filter_map(|(at, _)| body[..at].rsplit(|c| !is_part(c)).next())
        .filter(|name| !name.is_empty())
        .collect()
}

fn asserts(body: &str, all: &Functions, depth: u32) -> bool {
    let direct = ["assert!(", "assert_eq!(", "assert_ne!(", "assert_snapshot!(", "panic!("];
    let called = || {
        calls(body)
            .into_iter()
            .filter_map(|name| all.get(name))
            .flatten()
            .any(|(_, body)| asserts(body, all, depth - 1))
    };
    direct.iter().any(|word| body.contains(word)) || (depth > 0 && called())
}

/// The reason why a test proves nothing.
fn objection(name: &str, programs: &[Functions]) -> Option<String> {
    let is_test = |attributes: &str| attributes.contains("#[test]");
    let found: Vec<(&Functions, &(String, String))> = programs
        .iter()
        .flat_map(|all| all.get(name).into_iter().flatten().map(move |one| (all, one)))
        .filter(|(_, (attributes, _))| is_test(attributes))
        .collect();
    let [(all, (attributes, body))] = found[..] else { return Some(format!("{} tests have this name", found.len())) };
    if attributes.contains("#[ignore") || attributes.contains("#[cfg(any())]") {
        return Some("it is not run".to_owned());
    }
    (!asserts(body, all, DEPTH)).then(|| "it asserts nothing".to_owned())
}

#[test]
fn every_promise_names_tests_that_are_run_and_assert_something() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(top.join("docs/threat-model.md")).unwrap();
    // Helpers have the same name in several programs, so each of them counts for its own program only.
    let mut roots: Vec<PathBuf> =
        ["src", "cufile-ffi", "cufile-audit", "nixl-ffi"].iter().map(|folder| top.join(folder)).collect();
    roots.extend(fs::read_dir(top.join("tests")).unwrap().flatten().map(|entry| entry.path()));
    let mut helpers = Vec::new();
    for folder in ["tests/program", "tests/standins"] {
        sources(&top.join(folder), &mut helpers);
    }
    let programs: Vec<Functions> = roots
        .iter()
        .map(|root| {
            let mut files = Vec::new();
            if root.is_dir() {
                sources(root, &mut files);
            } else if root.extension().is_some_and(|ending| ending == "rs") {
                files.push(root.clone());
            }
            let shared = helpers.iter().filter(|file| !file.starts_with(root) && !files.is_empty());
            let mut all = Functions::new();
            for file in files.iter().chain(shared) {
                functions(&fs::read_to_string(file).unwrap(), &mut all);
            }
            all
        })
        .collect();
    let (_, promises) = page.split_once("## Promises").unwrap();
    let (promises, _) = promises.split_once("## Not promised").unwrap();
    let rows: Vec<&str> = promises.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 15, "{} promises", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let tests = row.rsplit('|').nth(1).unwrap().split(',').map(|name| name.trim().trim_matches('`'));
        for name in tests {
            if let Some(why) = objection(name, &programs) {
                wrong.push(format!("{name}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_that_prove_nothing_are_found() {
    let code = "#[test]\nfn good() {\n    helper();\n}\n\nfn helper() {\n    assert_eq!(1, 1);\n}\n\n#[test]\nfn empty() {\n}\n\n\
                #[test]\nfn silent() {\n    // assert!(true)\n    let _ = format!(\"x\");\n}\n\n#[test]\n#[ignore]\nfn ignored() {\n    assert!(true);\n}\n\n\
                fn no_test() {\n    assert!(true);\n}\n";
    let mut all = Functions::new();
    functions(code, &mut all);
    let programs = [all];
    assert_eq!(objection("good", &programs), None);
    for name in ["empty", "silent", "ignored", "no_test", "missing"] {
        assert!(objection(name, &programs).is_some(), "{name}");
    }
}

#[test]
fn the_page_and_the_way_to_report_are_found() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let has = |file: &str, link: &str| fs::read_to_string(top.join(file)).unwrap().contains(link);
    assert!(has("docs/SUMMARY.md", "(threat-model.md)") && has("README.md", "docs/threat-model.md"));
    assert!(has("README.md", "SECURITY.md") && has("SECURITY.md", "docs/threat-model.md"));
}
