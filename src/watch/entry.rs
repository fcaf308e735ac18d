//! A file and memory that a process registered, and an entry of a batch that has not ended.

use super::files::Transfer;

/// A registered file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) file: usize,
    /// The end of its registration in nanoseconds.
    pub(super) since_ns: u64,
}

/// Registered memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    /// Bytes.
    pub(super) size: u64,
    /// The end of its registration in nanoseconds.
    pub(super) since_ns: u64,
}

/// A submitted entry of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The value by which the program and libcufile identify it.
    pub(super) cookie: u64,
    pub(super) file: usize,
    pub(super) transfer: Transfer,
    /// The thread that submitted it.
    pub(super) thread: u32,
    pub(super) submitted_ns: u64,
    /// Whether its batch was cancelled.
    pub(super) cancelled: bool,
}
