//! A node and what is compared between nodes.

use crate::core::Route;
use std::collections::BTreeMap;

/// Runs that can be compared: the same engine, cache state, model and size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The engine.
    pub engine: String,
    /// The cache state: `cold`, `hot`, `as-is`.
    pub cache: String,
    /// The model's name.
    pub model: String,
    /// Bytes that were loaded.
    pub bytes: u64,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Host name.
    pub host: String,
    /// The file of its report.
    pub source: String,
    /// When the report was begun, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The program that wrote it.
    pub tool: String,
    /// GPUs, `8 x NVIDIA H200`: nodes with the same GPUs are peers.
    pub gpus: String,
    /// The worst route of its verdicts; `None` if it has no verdict.
    pub route: Option<Route>,
    /// The path of that verdict.
    pub path: String,
    /// The best route that it could take after fixes.
    pub possible: Option<Route>,
    /// Whether reads proved the route of every verdict.
    pub proven: bool,
    /// The first blocker: the id of a check; empty if nothing blocks.
    pub blocker: String,
    /// That check's summary.
    pub summary: String,
    /// The fix of that check, if there is one.
    pub fix: Option<String>,
    /// Values that are compared with those of the peers.
    pub facts: Facts,
    /// Median bytes per second of each workload.
    pub rates: BTreeMap<Workload, f64>,
}

/// Names and values, sorted by name. Both are shared by all nodes: most nodes have the same.
pub type Facts = Vec<(std::sync::Arc<str>, std::sync::Arc<str>)>;

/// The rank of a route for a node: no cuFile is worst, then host memory.
pub(super) const fn badness(route: Route) -> u8 {
    match route {
        Route::None => 2,
        Route::Compat => 1,
        Route::Nvfs | Route::P2pdma | Route::C2c | Route::Rdma => 0,
    }
}
