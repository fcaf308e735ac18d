//! `gds-bounce`: the reads of `gds-slab` into memory that is never registered, as in UCM's store. On a direct route,
//! the library then moves every byte through its own registered GPU buffers and copies it on the device. In compat
//! mode, registration makes no difference.

use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::gds_slab;
use super::settings::Chosen;
use crate::core::Setting;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    gds_slab::threaded(context, Chosen::fixed(Setting::Register, 0, "the engine never registers"))
}
