//! Problems in a cufile.json, and the facts of the machine that a file can contradict.

use crate::checks::report::Report;
use crate::core::{CheckId, Route};
use crate::machine::Root;
use serde::Serialize;

/// The severity of a problem in a cufile.json.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// libcufile fails, or the file is not in effect.
    Error,
    /// A value has no effect or is harmful.
    Warning,
    /// Information that needs no change.
    Note,
}

impl Severity {
    /// The severity as a word.
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
    /// The rule: `L1` to `L21`, or `ENV` for an environment variable.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The dotted key. `None` if the problem is not about a key.
    pub key: Option<String>,
    /// The problem.
    pub what: String,
    /// Why it is a problem.
    pub why: String,
    /// How to fix it.
    pub todo: String,
}

/// A file and its problems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Linted {
    /// The file.
    pub path: String,
    /// Problems in the order of the file.
    pub problems: Vec<Problem>,
}

impl Linted {
    /// Whether libcufile fails because of the file or ignores the file.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Whether there are errors or warnings: a part of the file is rejected, has no effect or is harmful. Notes are
    /// not counted.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity < Severity::Note)
    }
}

/// Facts of the machine that a file can contradict. Unknown facts are not compared.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// Version of the installed library.
    pub version: Option<(u32, u32)>,
    /// The BAR1 size of the smallest GPU in bytes.
    pub bar1_bytes: Option<u64>,
    /// The memory of the largest GPU in bytes.
    pub gpu_memory_bytes: Option<u64>,
    /// The memory of the host in bytes.
    pub host_memory_bytes: Option<u64>,
    /// The size of the model in bytes.
    pub model_bytes: Option<u64>,
    /// The failed checks that block P2PDMA, without those of cufile.json.
    pub p2pdma_blockers: Vec<CheckId>,
    /// The IPv4 addresses of this machine.
    pub own_addresses: Option<Vec<String>>,
    /// The mount points of this machine, with their file systems.
    pub mounts: Option<Vec<(String, String)>>,
    /// The best route that the machine can use.
    pub possible: Option<Route>,
}

impl Hardware {
    /// Collects the facts from the machine and the results of the checks.
    #[must_use]
    pub fn of(root: &Root, report: &Report, model_bytes: Option<u64>) -> Self {
        let nvml = root.nvml();
        let memory = root.read_text("/proc/meminfo").unwrap_or_default();
        let total_kib = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
        let ours = [CheckId::CfgP2pBoth, CheckId::CfgCompat, CheckId::CfgParse, CheckId::CfgEffective];
        Self {
            version: root.libcufile().version_numbers(),
            bar1_bytes: nvml.gpus.iter().filter_map(|gpu| gpu.bar1_total_bytes).min(),
            gpu_memory_bytes: nvml.gpus.iter().filter_map(|gpu| gpu.memory_total_bytes).max(),
            host_memory_bytes: total_kib.map(|kib| kib.saturating_mul(1024)),
            model_bytes,
            p2pdma_blockers: report
                .findings
                .iter()
                .filter(|f| f.blocks.contains(&Route::P2pdma) && !ours.contains(&f.id))
                .map(|f| f.id)
                .collect(),
            own_addresses: own_addresses(root),
            mounts: root.read_bytes("/proc/self/mountinfo").ok().map(|table| {
                let mounts = crate::machine::parse_mountinfo(table).into_iter();
                mounts.map(|mount| (mount.point.to_string_lossy().into_owned(), mount.filesystem)).collect()
            }),
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

/// The file that libcufile always reads.
pub const SYSTEM_FILE: &str = "/etc/cufile.json";
