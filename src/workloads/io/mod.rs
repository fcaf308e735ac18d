//! A grid of storage measurements, as NVIDIA's gdsio makes single ones: block size × threads × access × pattern × transfer, each cell with its rate,
//! latencies and proven route.
//!
//! The grid runs in a separate process ([`run_grid`]), which works on two files that its session made: one with known
//! content that is only read, and one that is only written. Nothing else is ever opened for writing.

mod cell;
mod content;
mod files;
mod order;
mod process;
mod slots;

pub use files::{Files, FilesError, READ, WRITE, room_for};
pub use order::GridOrder;
pub use process::{GridMessage, run_grid};
