//! The meaning of lines in cufile.log and the kernel log.

pub(crate) mod scan;
pub mod signatures;
