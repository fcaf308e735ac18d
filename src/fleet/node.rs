//! A node, and the values that are compared between nodes.

use crate::core::Route;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The key of comparable runs: the same engine, cache state, model and size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The engine, or the transfer of a cell of the storage grid.
    pub engine: String,
    /// The cache state: `cold`, `hot`, `as-is`; empty for the storage grid.
    pub cache: String,
    /// The model's name, or the operations of a cell of the storage grid.
    pub model: String,
    /// The number of loaded bytes, or the bytes of one operation.
    pub bytes: u64,
}

impl Workload {
    /// Its name in the report: `odirect, cold cache, qwen3-0.6b`.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { engine, cache, model, .. } = self;
        if cache.is_empty() { format!("{engine}, {model}") } else { format!("{engine}, {cache} cache, {model}") }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The host name.
    pub host: String,
    /// The file of its report.
    pub source: String,
    /// The start of the report in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The program that wrote the report.
    pub tool: String,
    /// The GPUs: `8 x NVIDIA H200`. Nodes with the same GPUs are peers.
    pub gpus: String,
    /// The worst route in its verdicts. `None` if it has no verdict.
    pub route: Option<Route>,
    /// The path of that verdict.
    pub path: String,
    /// The best route after fixes.
    pub possible: Option<Route>,
    /// Whether reads proved the route of every verdict.
    pub proven: bool,
    /// The id of the check to resolve next, or of the first blocker if no step helps. It is empty if there is none.
    pub blocker: String,
    /// The summary of that check.
    pub summary: String,
    /// The fix of that check. `None` if there is none.
    pub fix: Option<String>,
    /// The advice of that check, if no fix can do it.
    pub advice: Option<String>,
    /// The values that are compared with those of the peers.
    pub facts: Facts,
    /// The median rate of each workload in bytes per second.
    pub rates: BTreeMap<Workload, f64>,
}

/// A property of a node that is compared with those of its peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Of the machine: `driver`.
    Machine(&'static str),
    /// The status of a check.
    Check(Arc<str>),
    /// A key of cufile.json. A node without it has the default, which differs from a value.
    Setting(Arc<str>),
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(name) => f.write_str(name),
            Self::Check(id) => write!(f, "check {id}"),
            Self::Setting(key) => write!(f, "cufile.json {key}"),
        }
    }
}

/// Properties and values, sorted by property. All nodes share the texts, because most nodes have the same ones.
pub type Facts = Vec<(Property, Arc<str>)>;

/// The rank of a route: none is the worst, then host memory.
pub(super) const fn badness(route: Route) -> u8 {
    match route {
        Route::None => 2,
        Route::Compat => 1,
        Route::Nvfs | Route::P2pdma | Route::C2c | Route::Rdma => 0,
    }
}
