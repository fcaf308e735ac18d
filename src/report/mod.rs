//! Paper: the report as JSON, Markdown, HTML, CSV, trace and Prometheus text, made from [`crate::session::State`] and nothing else.

mod ceilings;
mod charts;
mod cost;
mod csv;
mod document;
mod earlier;
mod export;
mod grid;
mod groups;
mod html;
mod json;
mod layers;
mod markdown;
mod prom;
mod replace;
mod setup;
mod trace;
pub mod words;
mod workload;

pub use ceilings::ceiling_words;
pub use export::{ExportError, Format, export, prepare, write_page};
pub use groups::{GroupTable, group_tables};
pub use html::html;
pub use json::{SCHEMA_VERSION, json, write as write_json};
pub use markdown::markdown;
pub use replace::PAGE_MARK;
pub use setup::tables as setup_tables;
pub use workload::{Table, tables as workload_tables};

/// The JSON Schema (2020-12) of [`json()`].
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// What the analysis of a session comes to, for a terminal.
#[derive(Debug)]
pub struct Lessons {
    /// What a tensor costs: the fitted lines.
    pub lines: Option<Table>,
    /// Where two engines cost the same, each a sentence.
    pub crossings: Vec<String>,
    /// What the runs teach beside that, the most costly first.
    pub advice: Vec<String>,
}

/// The analysis of a session in words.
#[must_use]
pub fn lessons(state: &crate::session::State) -> Lessons {
    let document = document::Document::new(state);
    Lessons {
        lines: cost::lines(&document),
        crossings: cost::crossings(&document),
        advice: document.lessons().map(|advice| advice.text.clone()).collect(),
    }
}

/// The good runs of an engine in a cache state, taken apart: what a prediction for another model starts from ([`crate::analysis::predict`]).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Timings {
    /// The engine.
    pub engine: crate::domain::Engine,
    /// Cache state.
    pub cache: crate::domain::CacheState,
    /// Name of the model that was loaded.
    pub model: String,
    /// Where its bytes landed.
    pub target: String,
    /// Logical CPUs of the machine; `None` where it was not recorded.
    pub cpus: Option<u32>,
    /// Settings of the engine.
    pub knobs: std::collections::BTreeMap<String, u64>,
    /// The lowest ceiling measured in that session for such a load, in bytes a second; `None` where none was, or an earlier version wrote the report.
    #[serde(default)]
    pub ceiling_bytes_per_s: Option<f64>,
    /// The runs.
    pub runs: Vec<crate::analysis::Timing>,
}

/// The timings of a session.
#[must_use]
pub fn timings(state: &crate::session::State) -> Vec<Timings> {
    document::Document::new(state).timings()
}

/// The name of a meter in files: `pcie_rx_bytes_per_s`.
fn metric_name(metric: crate::domain::Metric) -> String {
    match serde_json::to_value(metric) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{metric:?}"),
    }
}
