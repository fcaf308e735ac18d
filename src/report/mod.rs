//! Reports: sections with their renderers (text, Markdown, HTML), and the data as JSON, CSV, trace and Prometheus
//! text.

mod bars;
mod common;
mod contents;
mod csv;
mod csv_watch;
mod export;
mod findings;
mod html;
mod json;
mod junit;
mod lesson;
mod markdown;
mod prom;
mod replace;
pub(crate) mod section;
mod sections;
mod svg;
mod text;
mod top;
mod trace;

pub use export::{ExportError, Format, export, prepare, write_page};
pub use findings::{findings, verdicts};
pub use html::html;
pub(crate) use html::page;
pub use json::{SCHEMA_VERSION, json, write as write_json};
pub(crate) use lesson::{lesson_page, lesson_text};
pub use markdown::markdown;
pub use prom::{FAMILIES, Family, Kind, write as write_metrics};
pub use replace::PAGE_MARK;
pub(crate) use text::lines;
pub use text::{brief, full_text, paint, text};
pub use top::{top_families, top_json, top_metrics, top_text};

/// The JSON Schema (2020-12) of [`json()`].
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");
