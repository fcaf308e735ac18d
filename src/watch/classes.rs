//! Classes of transfers by size: powers of four from 4 KiB. The last one contains all larger transfers.

/// Number of size classes.
pub(super) const CLASSES: usize = 12;

/// The class of a size in bytes.
pub(super) fn class_of(size: u64) -> usize {
    (0..CLASSES - 1).find(|class| size <= largest(*class)).unwrap_or(CLASSES - 1)
}

/// The largest size of a class in bytes.
pub(super) const fn largest(class: usize) -> u64 {
    if class + 1 == CLASSES { u64::MAX } else { 4096 << (2 * class) }
}
