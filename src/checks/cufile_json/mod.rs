//! cufile.json: parsing with places, linting, the values in effect, a file made for a model, and edits that keep what the user wrote.

mod edit;
mod effective;
mod environment;
mod facts;
mod known;
mod lint;
mod nearest;
mod repair;
#[cfg(test)]
mod rules;
mod syntax;
#[cfg(test)]
mod tests;
mod together;
mod tune;
mod values;
mod without_effect;

pub use edit::{EditError, set_keys};
pub use effective::{Effective, Origin, defaults, effective, settings};
pub use facts::{KeyFacts, key_facts, key_names, meant_by, nearest_key, variable_names};
pub use repair::{Repaired, repair};
pub use tune::{Tuned, tune};

pub use environment::PLACE as PLACE_OF_VARIABLES;

pub(super) use environment::lint_environment;
pub(super) use lint::{Surroundings, lint};

use super::Report;
use crate::domain::Route;
use crate::host::{Root, Unread};
use serde::Serialize;

/// How bad a problem of a cufile.json is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// libcufile fails, or the file is not in effect.
    Error,
    /// Something is not in effect, or does harm.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One problem of a cufile.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Rule: `L1` to `L21`, or `ENV` for a variable.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Dotted key, where it is about one.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub todo: String,
}

/// One file and its problems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Linted {
    /// The file.
    pub path: String,
    /// Problems in the order of the file.
    pub problems: Vec<Problem>,
}

impl Linted {
    /// Whether libcufile fails by it, or it is not in effect.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Whether a part of it is rejected, has no effect or does harm: errors and warnings, and no notes.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity < Severity::Note)
    }
}

/// What a file can contradict; what is unknown contradicts nothing.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// Version of the installed library.
    pub version: Option<(u32, u32)>,
    /// BAR1 of the smallest GPU, in bytes.
    pub bar1_bytes: Option<u64>,
    /// Memory of the largest GPU, in bytes.
    pub gpu_memory_bytes: Option<u64>,
    /// Memory of the host, in bytes.
    pub host_memory_bytes: Option<u64>,
    /// Bytes of the model that is to be loaded.
    pub model_bytes: Option<u64>,
    /// Failing checks that keep P2PDMA from working, other than the keys themselves.
    pub p2pdma_blockers: Vec<String>,
    /// IPv4 addresses of this machine.
    pub own_addresses: Option<Vec<String>>,
    /// The best route that the machine could take.
    pub possible: Option<Route>,
}

impl Hardware {
    /// Reads it from the machine and a round of checks.
    #[must_use]
    pub fn of(root: &Root, report: &Report, model_bytes: Option<u64>) -> Self {
        let nvml = root.nvml();
        let memory = root.read_text("/proc/meminfo").unwrap_or_default();
        let total_kib = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
        let ours = ["cfg-p2p-both", "cfg-compat", "cfg-parse", "cfg-effective"];
        Self {
            version: root.libcufile().version_numbers(),
            bar1_bytes: nvml.gpus.iter().filter_map(|gpu| gpu.bar1_total_bytes).min(),
            gpu_memory_bytes: nvml.gpus.iter().filter_map(|gpu| gpu.memory_total_bytes).max(),
            host_memory_bytes: total_kib.map(|kib| kib * 1024),
            model_bytes,
            p2pdma_blockers: report
                .findings
                .iter()
                .filter(|f| f.blocks.contains(&Route::P2pdma) && !ours.contains(&f.id.as_str()))
                .map(|f| f.id.clone())
                .collect(),
            own_addresses: own_addresses(root),
            possible: report.verdicts.iter().map(|verdict| verdict.possible).min(),
        }
    }
}

/// The IPv4 addresses in the kernel's table of local routes.
fn own_addresses(root: &Root) -> Option<Vec<String>> {
    let table = root.read_text("/proc/net/fib_trie").ok()?;
    let mut last = "";
    let mut own = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address;
        } else if line.contains("host LOCAL") {
            own.push(last.to_owned());
        }
    }
    Some(own)
}

/// Lints the text of one file against the installed library and the machine. Paths in it are looked up through `root`.
#[must_use]
pub fn lint_text(root: &Root, path: &str, text: &str, hardware: &Hardware) -> Linted {
    let facts = root.libcufile();
    let exists = |path: &str| root.exists(path);
    // A captured machine does not tell about paths that no check looked at.
    let anything = |_: &str| true;
    let around = Surroundings {
        version: hardware.version,
        ranges: &facts.ranges,
        exists: if root.is_live() { &exists } else { &anything },
    };
    let (document, mut problems) = lint(text, &around);
    if let Some(document) = document {
        problems.extend(together::against(text, &document.top, hardware));
        problems.sort_by_key(|problem| (problem.line, problem.column));
    }
    Linted { path: path.to_owned(), problems }
}

/// Lints what libcufile would read: /etc/cufile.json, the file that `CUFILE_ENV_PATH_JSON` names, and its variables. Files that do not exist are
/// left out, but for a named one, which is then not in effect; the variables are there only where something is wrong with one.
#[must_use]
pub fn lint_machine(root: &Root, hardware: &Hardware) -> Vec<Linted> {
    let named = root.variable("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty());
    let mut out = Vec::new();
    for (path, is_named) in [(Some(SYSTEM_FILE.to_owned()), false), (named.clone(), true)] {
        let Some(path) = path else { continue };
        let whole = |rule: &str, what: String, why: &str, todo: String| Linted {
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
                        // L18: a good file of one's own does not help.
                        problem
                            .why
                            .push_str(" The file that CUFILE_ENV_PATH_JSON names does not replace this one (L18).");
                    }
                }
                out.push(linted);
            }
            Err(Unread::Missing) if is_named => out.push(whole(
                "L18",
                "CUFILE_ENV_PATH_JSON names this file, and it does not exist".to_owned(),
                "libcufile passes over a missing file without a word, so nothing that was meant is in effect.",
                "Correct the path, or unset the variable.".to_owned(),
            )),
            Err(Unread::Missing) => {}
            Err(why) => out.push(whole(
                "L19",
                format!("the file is there, but it {why}"),
                "An unreadable file is fatal: cuFileDriverOpen fails with 5030 for this user.",
                format!("sudo chmod 644 {path}"),
            )),
        }
    }
    out.extend(lint_environment(root, hardware.version));
    out
}

/// The file that libcufile always reads.
pub const SYSTEM_FILE: &str = "/etc/cufile.json";
