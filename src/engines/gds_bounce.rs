//! `gds-bounce`: the reads of `gds-slab`, but into memory that was never registered, as UCM's store does by choice. On a direct route the library
//! then moves every byte through its own registered GPU buffers and copies it on the device; in compat mode nothing is registered anyway.

use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::gds_slab;
use super::settings::Chosen;
use crate::core::Setting;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    gds_slab::threaded(context, Chosen::fixed(Setting::Register, 0, "the engine never registers"))
}
