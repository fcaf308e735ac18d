//! Settings of threads and io_uring rings for `pread` and `odirect`, and the rings of a load. Reads into host memory
//! use them too.

use super::context::EngineContext;
use super::error::LoadError;
use super::settings::Chosen;
use crate::core::{Phase, Span};
use crate::device::{DeviceError, ReadBuffer, ReadRing};
use std::sync::{Mutex, PoisonError};

/// The settings of reads with threads.
#[derive(Clone, Debug)]
pub(super) struct ThreadSettings {
    pub(super) direct: bool,
    pub(super) threads: Chosen,
    pub(super) slots: Chosen,
    pub(super) block_bytes: Chosen,
    /// Whether all slots are pinned before the first read. Otherwise each slot is pinned after it is first filled.
    pub(super) pin_ahead: Chosen,
}

/// The rings of a load. They are created first. If one of them cannot be created, threads are used.
pub(super) struct Made<B: ReadBuffer> {
    rings: Mutex<Vec<ReadRing<B>>>,
    /// The time to create the rings, as the first span of slot 0.
    pub(super) span: Span,
}

impl<B: ReadBuffer> Made<B> {
    pub(super) fn make(context: &EngineContext<'_>, count: usize, depth: usize) -> Result<Self, DeviceError> {
        let start_ns = context.clock.now_ns();
        let rings = (0..count).map(|_| ReadRing::new(depth as u32)).collect::<Result<Vec<_>, _>>()?;
        let end_ns = context.clock.now_ns();
        let span = Span { slot: 0, phase: Phase::Submit, tensor: None, start_ns, end_ns, bytes: 0, offset: 0 };
        Ok(Self { rings: Mutex::new(rings), span })
    }

    /// Takes a ring for the calling worker.
    pub(super) fn take(&self) -> Result<ReadRing<B>, LoadError> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).pop().ok_or(LoadError::Stopped)
    }
}

/// The settings of reads with rings.
#[derive(Clone, Debug)]
pub(super) struct Rings {
    pub(super) block_bytes: Chosen,
    pub(super) threads: Chosen,
    /// The number of reads in flight of all threads.
    pub(super) depth: Chosen,
    pub(super) io_uring: Chosen,
    /// Whether the staging buffers are registered with the kernel once, instead of mapped at each read.
    pub(super) registered: Chosen,
}

impl Rings {
    /// Limits the number of threads to the available work. Returns the number of reads in flight per thread.
    pub(super) fn fit(&mut self, most: usize, why: &str) -> usize {
        let each = self.depth.count().div_ceil(self.threads.count());
        self.threads = self.threads.clone().at_most(most as u64, why);
        let all = (self.threads.count() * each) as u64;
        if all != self.depth.value {
            self.depth.why = format!(
                "{each} for each of {} threads, instead of {} ({})",
                self.threads.value, self.depth.value, self.depth.why
            );
            self.depth.value = all;
        }
        each
    }

    pub(super) fn into_settings(self) -> Vec<Chosen> {
        vec![self.block_bytes, self.threads, self.depth, self.io_uring, self.registered]
    }
}
