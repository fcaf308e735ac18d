//! The state that the workers of a run share: the order, the memory, the open files, and the counters.

use super::handles::HandleCache;
use super::job::Job;
use super::layout::Layout;
use super::order::{KvOrder, LaneName, Method, Settings};
use super::prepare::Registered;
use super::store::Limit;
use crate::core::{Fallback, FallbackAction, FallbackReason};
use crate::device::{DeviceMemory, Slot};
use crate::engines::{EngineContext, LoadError};
use cufile_ffi::FileHandle;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that is open.
pub(super) enum OpenFile {
    /// Registered with cuFile.
    Gds(Arc<FileHandle<'static>>),
    /// For plain reads and writes.
    Plain(File),
}

/// The key of an open file: its number, and whether cuFile uses it.
type FileKey = (u32, bool);

/// Transfers that fell back, by reason.
#[derive(Debug, Default)]
pub(super) struct Fallbacks(Mutex<Vec<Fallback>>);

impl Fallbacks {
    pub(super) fn add(
        &self,
        reason: FallbackReason,
        action: FallbackAction,
        (operations, files): (u64, u64),
        order: &KvOrder,
        detail: &str,
    ) {
        let mut fallbacks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match fallbacks.iter_mut().find(|fall| (fall.reason, fall.action) == (reason, action)) {
            Some(fall) => {
                fall.operations += operations;
                fall.files += files;
            }
            None => {
                let provoked = order.provoke == Some(reason);
                let detail = detail.to_owned();
                fallbacks.push(Fallback { reason, action, provoked, operations, files, detail });
            }
        }
    }

    pub(super) fn take(&self) -> Vec<Fallback> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state that the workers of a run share.
pub(super) struct Shared<'a> {
    pub(super) context: &'a EngineContext<'a>,
    pub(super) order: &'a KvOrder,
    pub(super) lane: &'a LaneName,
    pub(super) settings: &'a Settings,
    pub(super) layout: &'a Layout,
    /// The method, after the tests before the clock.
    pub(super) method: Method,
    /// The reason why cuFile is not used although it was requested, with a sentence.
    pub(super) without: Option<(FallbackReason, String)>,
    pub(super) target: &'a Arc<DeviceMemory>,
    pub(super) slab: Option<&'a Arc<DeviceMemory>>,
    /// Number of slots of each worker in the slab.
    pub(super) slots: u64,
    /// The registered ranges of the slab or target, sorted by their start offsets.
    pub(super) registered: &'a Registered,
    pub(super) ram: &'a [Mutex<Slot>],
    pub(super) headers: &'a [Vec<u8>],
    pub(super) handles: HandleCache<FileKey, OpenFile>,
    pub(super) handle_registrations: AtomicU64,
    pub(super) fallbacks: Fallbacks,
    /// Number of remaining transfers by file. The file is moved into place after the last one.
    pub(super) left: Vec<AtomicUsize>,
    pub(super) limit: Limit,
    pub(super) tried: AtomicUsize,
    /// Whether each file was abandoned after a failure, by number.
    pub(super) given_up: Vec<AtomicBool>,
    /// Number of failures that the run ignored.
    pub(super) lost_operations: AtomicU64,
    pub(super) lost_bytes: AtomicU64,
}

impl<'a> Shared<'a> {
    /// The state before the first transfer, without staging in a slab and without a limit of the store.
    pub(super) fn new(
        context: &'a EngineContext<'a>,
        job: &'a Job,
        method: Method,
        target: &'a Arc<DeviceMemory>,
        registered: &'a Registered,
        ram: &'a [Mutex<Slot>],
        handles: usize,
    ) -> Self {
        let Job { order, lane, settings, layout } = job;
        let per_file = layout.tasks.len() / layout.files.len().max(1);
        Self {
            context,
            order,
            lane,
            settings,
            layout,
            method,
            without: None,
            target,
            slab: None,
            slots: 1,
            registered,
            ram,
            headers: &[],
            handles: HandleCache::new(handles),
            handle_registrations: AtomicU64::new(0),
            fallbacks: Fallbacks::default(),
            left: layout.files.iter().map(|_| AtomicUsize::new(per_file)).collect(),
            limit: Limit::new(u64::MAX, layout.file_bytes()),
            tried: AtomicUsize::new(0),
            given_up: layout.files.iter().map(|_| AtomicBool::new(false)).collect(),
            lost_operations: AtomicU64::new(0),
            lost_bytes: AtomicU64::new(0),
        }
    }

    /// The number under which a file's handle is cached. All chunks of a slab share one handle.
    pub(super) fn handle_number(&self, file: u32) -> u32 {
        if self.layout.is_slab() { 0 } else { file }
    }

    /// Whether a file was abandoned.
    pub(super) fn is_given_up(&self, file: usize) -> bool {
        self.given_up.get(file).is_some_and(|gone| gone.load(Ordering::Relaxed))
    }
}

/// The reason why cuFile rejects a file or a transfer.
pub(super) struct Refused {
    pub(super) reason: FallbackReason,
    pub(super) error: LoadError,
}
