//! Tests README.md and the book in docs/: tables and outputs are those of the program and of the shipped recordings,
//! commands are accepted, and all pages are linked.
//!
//! `GDS_TOP_UPDATE_README=1 cargo test --test readme -- --test-threads=1` writes the tables and outputs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod book;
#[path = "../program/mod.rs"]
mod program;
mod results;
mod usage;

use crate::program::gds_top;
use gds_top::session::{State, recording};
use std::path::{Path, PathBuf};

/// Whether tables and outputs are written instead of compared.
pub(crate) fn updates() -> bool {
    std::env::var_os("GDS_TOP_UPDATE_README").is_some()
}

pub(crate) fn state(path: &str) -> State {
    let mut state = State::default();
    for event in recording::read(Path::new(path)).unwrap() {
        state.reduce(&event.unwrap());
    }
    state
}

/// Compares the part of a page between two marks, or writes it.
pub(crate) fn part_is(path: &str, mark: &str, wanted: &str) {
    let page = std::fs::read_to_string(path).unwrap();
    let (start, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let from = page.find(&start).unwrap() + start.len();
    let to = page.find(&end).unwrap();
    if updates() {
        std::fs::write(path, format!("{}{wanted}{}", &page[..from], &page[to..])).unwrap();
    } else {
        assert_eq!(&page[from..to], wanted, "{path}: the part '{mark}' is out of date");
    }
}

/// README.md and the pages of the book with their text.
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.push("README.md".into());
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The commands with `gds-top` in the shell examples and claims of a page.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_example = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            in_example = language == "sh";
        } else if in_example && let Some(at) = line.find("gds-top ").filter(|_| !line.starts_with('#')) {
            found.push(line[at..].to_owned());
        } else if let Some(rest) = line.strip_prefix("- Command: `gds-top ") {
            found.push(format!("gds-top {}", rest.split('`').next().unwrap()));
        }
    }
    found
}

/// Adds `--help` to a command of a page, so that the words before it are parsed but nothing runs. Words after `--`
/// belong to another program.
pub(crate) fn assert_accepted(page: &Path, command: &str) {
    let words = shlex::Shlex::new(command.split(" #").next().unwrap()).take_while(|word| word != ">" && word != "--");
    let out = gds_top().args(words.skip(1)).arg("--help").output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: '{command}': {error}", page.display());
}
