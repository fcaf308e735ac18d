//! Paper: the report as JSON, Markdown, HTML, CSV, trace and Prometheus text, made from [`crate::session::State`] and nothing else.

mod document;
mod json;

pub use json::{SCHEMA_VERSION, json, write as write_json};
