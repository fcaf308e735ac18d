//! Paper: the report as JSON, Markdown, HTML, CSV, trace and Prometheus text, made from [`crate::session::State`] and nothing else.

mod charts;
mod csv;
mod document;
mod export;
mod grid;
mod html;
mod json;
mod markdown;
mod prom;
mod trace;
pub mod words;

pub use export::{ExportError, Format, export, prepare};
pub use html::html;
pub use json::{SCHEMA_VERSION, json, write as write_json};
pub use markdown::markdown;

/// The JSON Schema (2020-12) of [`json()`].
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// What the runs of a session teach, the most costly first.
#[must_use]
pub fn advice(state: &crate::session::State) -> Vec<crate::analysis::Advice> {
    document::Document::new(state).advice
}

/// The cost model of each engine and cache state that has one, from its first good run: what a prediction for another model starts from
/// ([`crate::analysis::predict`]).
#[must_use]
pub fn cost_models(
    state: &crate::session::State,
) -> Vec<(crate::domain::Engine, crate::domain::CacheState, crate::analysis::CostModel)> {
    let document = document::Document::new(state);
    document.costs().into_iter().map(|(l, cost)| (l.lane.engine.clone(), l.lane.cache, cost.clone())).collect()
}

/// The name of a meter in files: `pcie_rx_bytes_per_s`.
fn metric_name(metric: crate::domain::Metric) -> String {
    match serde_json::to_value(metric) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{metric:?}"),
    }
}
