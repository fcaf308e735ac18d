//! Checks of libcufile and its configuration.

pub(crate) mod config;
pub(crate) mod config_file;
pub mod cuda_causes;
pub(crate) mod cuda_errors;
pub(crate) mod denylist;
pub(crate) mod dependencies;
pub(crate) mod details;
pub(crate) mod library;
pub(crate) mod log;
pub(crate) mod route_table;
pub(crate) mod shared_statistics;
pub(crate) mod static_config;
mod stub;
pub(crate) mod variables;
