//! `gds-bounce`: the reads of `gds-slab`, but into memory that was never registered, as UCM's store does by choice. On a direct route the library
//! then moves every byte through its own registered GPU buffers and copies it on the device; in compat mode nothing is registered anyway.

use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::gds_slab;

pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    let mut loaded = gds_slab::threaded(context, false)?;
    if context.order.knobs.get("register").is_some_and(|register| *register != 0) {
        loaded.notes.push("gds-bounce never registers its memory; 'gds-slab' is the engine that does".to_owned());
    }
    Ok(loaded)
}
