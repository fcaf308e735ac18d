//! View models. Every sentence, label, table cell and chart series about a result is made here once from
//! [`crate::session::State`]. Screens, the headless mode and reports render them and contain no other sentences about
//! results. Text from other programs is not sanitised here, because each renderer does that.

pub mod advice;
pub mod analysed;
pub mod baseline;
pub mod call_rates;
pub mod calls;
pub mod ceilings;
pub mod comparisons;
pub mod cost;
pub mod engine_rows;
pub mod failures;
pub mod finding;
pub mod fleet;
pub mod flow;
pub mod gaps;
pub mod grid;
pub mod headline;
pub mod labels;
pub(crate) mod layers;
pub(crate) mod lesson;
pub(crate) mod lesson_steps;
pub mod machine;
pub mod notes;
pub mod phase_table;
pub mod phases;
pub mod prediction;
pub mod profiling;
pub mod progress;
pub mod published;
pub mod reproduce;
pub mod selftest;
pub mod series;
pub mod serving;
pub mod setup;
pub mod sweep;
pub mod table;
pub(crate) mod tensors;
pub mod together;
pub mod top;
pub mod verdict;
pub mod view;
pub mod watch;
pub mod watch_compare;
pub mod winner;
pub mod workload;

pub use analysed::SessionAnalysis;
pub use comparisons::{Comparison, comparisons};
pub use engine_rows::{EngineRow, RowGroup, row_groups};
pub use view::{Answer, GAP, Head, Table};
