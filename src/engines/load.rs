//! The function of each engine.

use super::context::{EngineContext, Loaded};
use super::error::LoadError;
use super::{auto, gds_batch, gds_bounce, gds_per_tensor, gds_slab, gds_stream, mmap, nixl, odirect, pread};
use crate::core::Engine;

/// Runs the engine that the order names.
pub(super) fn load(context: &EngineContext<'_>) -> Result<Loaded, LoadError> {
    match &context.order.engine {
        Engine::Mmap => mmap::load(context),
        Engine::Pread => pread::load(context),
        Engine::Odirect => odirect::load(context),
        Engine::GdsPerTensor => gds_per_tensor::load(context),
        Engine::GdsBounce => gds_bounce::load(context),
        Engine::GdsSlab => gds_slab::load(context),
        Engine::GdsBatch => gds_batch::load(context),
        Engine::GdsStream => gds_stream::load(context),
        Engine::Nixl(_) => nixl::load(context),
        Engine::Auto => auto::load(context),
        other => Err(LoadError::Unsupported { engine: other.to_string() }),
    }
}
