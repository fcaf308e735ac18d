//! Explains lines of cufile.log and of the kernel log.

pub(crate) mod driver_lines;
pub(crate) mod scan;
pub mod signatures;
pub mod xid;
