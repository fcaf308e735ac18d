//! The result of watching a program: its answer, facts, tables and advice.

mod advice;
pub(super) mod answer;
mod attached;
mod counted;
mod facts;
mod file;
mod missing;
mod tables;
mod tensors;

pub use super::labels::route_proof as proof;
pub use advice::advice;
pub use answer::{answer, end, unmet};
pub(super) use counted::amounts;
pub use facts::facts;
pub use file::{file_failure, is_of_cufile};
pub(super) use file::{is_large, moved, name, route};
pub(super) use missing::reasons;
pub use missing::{NO_END, gap_ids, gaps, incomplete};
pub use tables::tables;
pub use tensors::{
    TENSOR_FILE, TENSOR_HEADS, is_complete_tensor, read_rate, read_share, tensor_cells, tensor_count, tensor_summary,
};
