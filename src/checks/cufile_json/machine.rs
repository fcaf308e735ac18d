//! Lints the files and variables that libcufile reads on a machine.

use super::environment::lint_environment;
use super::lint::{Surroundings, lint};
use super::together;
use super::types::{Hardware, Linted, Problem, SYSTEM_FILE, Severity};
use crate::machine::{Root, Unread};
use std::path::Path;

/// Lints the text of one file for the installed library and the machine. `root` resolves the paths in the text.
#[must_use]
pub fn lint_text(root: &Root, path: &str, text: &str, hardware: &Hardware) -> Linted {
    let facts = root.libcufile();
    let exists = |path: &str| root.exists(path);
    let is_folder =
        |path: &str| !matches!(root.entries(path), Err(Unread::Missing | Unread::WrongKind | Unread::Failed(_)));
    // A capture contains only the paths that a check read.
    let anything = |_: &str| true;
    let around = Surroundings {
        version: hardware.version,
        ranges: &facts.ranges,
        exists: if root.is_live() { &exists } else { &anything },
        is_folder: if root.is_live() { &is_folder } else { &anything },
    };
    let (document, mut problems) = lint(text, &around);
    if let Some(document) = document {
        let mut against = together::against(text, &document.top, hardware);
        // A path that does not exist is reported once.
        against.retain(|new| {
            !problems
                .iter()
                .any(|old| old.severity == Severity::Error && (old.line, old.column) == (new.line, new.column))
        });
        problems.extend(against);
        problems.sort_by_key(|problem| (problem.line, problem.column));
    }
    Linted { path: path.to_owned(), problems }
}

/// The absolute path in `CUFILE_ENV_PATH_JSON`. A fix edits this file instead of /etc/cufile.json.
#[must_use]
pub fn named_file(root: &Root) -> Option<String> {
    root.variable("CUFILE_ENV_PATH_JSON").filter(|path| path.starts_with('/'))
}

/// The place of a file with the keys of P2PDMA that a container gets from outside, and whether CUFILE_ENV_PATH_JSON must
/// name it. A mount hides the file of the image, whose other keys stay in effect next to a file that the variable names.
#[must_use]
pub fn file_to_mount(root: &Root) -> (String, bool) {
    match named_file(root) {
        Some(path) => (path, false),
        None if root.exists(SYSTEM_FILE) => ("/etc/cufile-p2pdma.json".to_owned(), true),
        None => (SYSTEM_FILE.to_owned(), false),
    }
}

/// Whether the user can edit a file without root, according to its place.
#[must_use]
pub fn is_of_user(path: &str) -> bool {
    !["/etc/", "/usr/", "/opt/", "/var/", "/run/"].iter().any(|folder| path.starts_with(folder))
}

/// Whether a file is below a home directory. Other users may not enter it, so the mode of the file alone changes nothing.
#[must_use]
pub fn is_in_home(path: &str) -> bool {
    ["/root", "/home"].iter().any(|folder| Path::new(path).starts_with(folder))
}

/// Lints /etc/cufile.json, the file in `CUFILE_ENV_PATH_JSON`, and the environment variables of libcufile. A missing
/// file is skipped unless the variable names it. The environment is included only if it has a problem.
#[must_use]
pub fn lint_machine(root: &Root, hardware: &Hardware) -> Vec<Linted> {
    let named = root.variable("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty());
    let mut out = Vec::new();
    for (path, is_named) in [(Some(SYSTEM_FILE.to_owned()), false), (named.clone(), true)] {
        let Some(path) = path else { continue };
        let of_file = |rule: &str, what: String, why: &str, todo: String| Linted {
            path: path.clone(),
            problems: vec![Problem {
                rule: rule.to_owned(),
                severity: Severity::Error,
                line: 1,
                column: 1,
                key: None,
                what,
                why: why.to_owned(),
                todo,
            }],
        };
        match root.read_text(&path) {
            Ok(text) => {
                let mut linted = lint_text(root, &path, &text, hardware);
                if !is_named && named.is_some() && linted.is_bad() {
                    for problem in linted.problems.iter_mut().filter(|p| p.severity == Severity::Error) {
                        // Rule L18: a correct custom file does not replace a broken system file.
                        problem
                            .why
                            .push_str(" The file that CUFILE_ENV_PATH_JSON names does not replace this one (L18).");
                    }
                }
                out.push(linted);
            }
            Err(Unread::Missing) if is_named => out.push(of_file(
                "L18",
                "this file, named by CUFILE_ENV_PATH_JSON, does not exist".to_owned(),
                "libcufile ignores a missing file silently, so none of the intended values is in effect.",
                "Correct the path, or unset the variable.".to_owned(),
            )),
            Err(Unread::Missing) => {}
            Err(why) => out.push(of_file(
                "L19",
                format!("the file {why}"),
                "An unreadable file is fatal: cuFileDriverOpen fails with 5030 for this user.",
                if is_named && is_in_home(&path) {
                    "Unset CUFILE_ENV_PATH_JSON, or name a file outside of home directories.".to_owned()
                } else {
                    format!("sudo chmod 644 {path}")
                },
            )),
        }
    }
    out.extend(lint_environment(root, hardware.version));
    out
}
