//! What cufile.log and the kernel log say.

pub(crate) mod scan;
pub mod signatures;
