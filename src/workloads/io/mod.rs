//! A grid of storage measurements, like single measurements of NVIDIA's gdsio: block size × threads × access ×
//! pattern × transfer. Each cell has its rate, latencies and proven route.
//!
//! The grid runs in a separate process ([`run_grid`]). It uses two files that the session created: one with known
//! content that is only read, and one that is only written. No other file is opened for writing.

mod cell;
mod content;
mod files;
mod order;
mod process;
mod slots;

pub use files::{Files, FilesError, READ, WRITE, room_for};
pub use order::GridOrder;
pub use process::{GridMessage, run_grid};
