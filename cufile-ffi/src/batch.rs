//! Batches of transfers, restricted to uses that do not crash the library.
//!
//! These rules were found with libcufile 1.16 to 1.20. A batch must use one events array that is zeroed once, and all
//! outstanding entries must be collected in one call. Collecting in parts into new arrays crashed the process.
//!
//! In compat mode, every entry in flight needs a buffer of the pool, and a submit without a free buffer never returns
//! (ai-dynamo/nixl#2070). For aligned entries of an O_DIRECT descriptor, compat mode uses the kernel's asynchronous
//! reads (io_submit). It passes the base of the memory and ignores the offset, so every entry is written to the start
//! of the memory and reported as complete (seen in the system calls of 1.16, 1.18 and 1.20 on host memory). So in
//! compat mode each entry has its own address and no offset, as in NIXL's plugin.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::error::Error;
use crate::handle::{Direction, FileHandle};
use crate::memory::{IoMemory, offset, within};
use crate::raw::{CUfileBatchHandle, CUfileIOEvents, CUfileIOParams};
use crate::values::{BATCH_COMPLETE, BATCH_MODE, OPCODE_READ, OPCODE_WRITE};

/// The number of entries in flight that compat mode supports with the default pool: half of the 64 buffers in the
/// middle class, as a safety margin.
pub const COMPAT_IN_FLIGHT: usize = 32;

/// The expected route of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A direct route is not proven. The pool of compat mode limits the entries in flight.
    MaybeCompat,
    /// A direct route (nvidia-fs, P2PDMA, C2C) is proven for these files. Only the capacity of the batch limits the
    /// entries.
    Direct,
}

/// A transfer in a batch. The batch keeps the handle and the memory until the transfer has ended.
#[derive(Clone)]
pub struct BatchEntry {
    /// The direction of the transfer.
    pub direction: Direction,
    /// The file.
    pub handle: Arc<FileHandle<'static>>,
    /// The memory.
    pub memory: Arc<dyn IoMemory>,
    /// The offset in the memory, in bytes.
    pub memory_offset: usize,
    /// The number of bytes.
    pub len: usize,
    /// The offset in the file, in bytes.
    pub file_offset: u64,
}

/// The result of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// Its index in the submitted entries.
    pub index: usize,
    /// The number of bytes moved, or the error.
    pub bytes: Result<usize, Error>,
}

/// A batch. Submit entries, collect all of them, and submit again.
pub struct Batch {
    raw: CUfileBatchHandle,
    driver: Driver,
    limit: usize,
    route: Route,
    /// It is zeroed once, has the length of the batch, and is not moved before the batch is destroyed. The library
    /// seems to use it outside of its calls.
    events: Box<[CUfileIOEvents]>,
    params: Box<[CUfileIOParams]>,
    entries: Vec<BatchEntry>,
    /// The entries of failed submits. Some of them may still be active.
    abandoned: Vec<BatchEntry>,
    results: Vec<Option<BatchResult>>,
    outstanding: usize,
}

// SAFETY: the raw parts are used only through &mut self, and cuFile can be called from every thread.
unsafe impl Send for Batch {}

impl Batch {
    /// Sets up a batch for `capacity` entries (at most 256, the default of the library is 128).
    ///
    /// With [`Route::MaybeCompat`], a submit is limited to half the smallest count of the POSIX pool, or to
    /// [`COMPAT_IN_FLIGHT`] if the library does not report the pool. For larger submits, raise the counts before the
    /// driver is opened ([`crate::Library::set_posix_pool_slabs`]).
    ///
    /// # Errors
    /// The error of `cuFileBatchIOSetUp`, or [`Error::MissingSymbol`] before GDS 1.2.
    pub fn new(driver: &Driver, capacity: usize, route: Route) -> Result<Self, Error> {
        let library = driver.library();
        let symbols = library.symbols();
        let f = library.need(symbols.batch_set_up, "cuFileBatchIOSetUp")?;
        library.need(symbols.batch_submit, "cuFileBatchIOSubmit")?;
        library.need(symbols.batch_get_status, "cuFileBatchIOGetStatus")?;
        library.need(symbols.batch_cancel, "cuFileBatchIOCancel")?;
        library.need(symbols.batch_destroy, "cuFileBatchIODestroy")?;
        let nr = u32::try_from(capacity)
            .ok()
            .filter(|n| (1..=256).contains(n))
            .ok_or_else(|| Error::OutOfBounds(format!("a batch has 1 to 256 entries, not {capacity}")))?;
        let limit = Self::limit_of(driver, capacity, route);
        let mut raw: CUfileBatchHandle = std::ptr::null_mut();
        // SAFETY: the call writes one handle.
        library.check("cuFileBatchIOSetUp", unsafe { f(&raw mut raw, nr) })?;
        let no_event = CUfileIOEvents { cookie: std::ptr::null_mut(), status: 0, ret: 0 };
        let no_params = CUfileIOParams {
            mode: BATCH_MODE,
            dev_ptr_base: std::ptr::null_mut(),
            file_offset: 0,
            dev_ptr_offset: 0,
            size: 0,
            fh: std::ptr::null_mut(),
            opcode: OPCODE_READ,
            cookie: std::ptr::null_mut(),
        };
        Ok(Self {
            raw,
            driver: driver.clone(),
            limit,
            route,
            events: vec![no_event; capacity].into(),
            params: vec![no_params; capacity].into(),
            entries: Vec::with_capacity(capacity),
            abandoned: Vec::new(),
            results: Vec::with_capacity(capacity),
            outstanding: 0,
        })
    }

    /// The maximum number of entries of a submit for a batch of this capacity. It does not set up a batch.
    pub fn limit_of(driver: &Driver, capacity: usize, route: Route) -> usize {
        let pool = || {
            let slabs = driver.library().posix_pool_slabs().ok()?;
            slabs.iter().map(|s| s.count / 2).min().filter(|n| *n > 0)
        };
        match route {
            Route::Direct => capacity,
            Route::MaybeCompat => capacity.min(pool().unwrap_or(COMPAT_IN_FLIGHT)),
        }
    }

    /// The maximum number of entries of a submit.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of entries that were submitted but not collected.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Submits entries, which have no order. In compat mode, this call makes the transfers.
    ///
    /// # Errors
    /// [`Error::Refused`] if there are more entries than [`Batch::limit`] (the library could block forever) or if
    /// other entries are outstanding, [`Error::OutOfBounds`], or the error of `cuFileBatchIOSubmit`.
    pub fn submit(&mut self, entries: Vec<BatchEntry>) -> Result<(), Error> {
        if self.outstanding > 0 {
            return Err(Error::Refused(format!(
                "{} entries of the batch are still running; collect them first",
                self.outstanding
            )));
        }
        if entries.is_empty() {
            return Err(Error::Refused("a batch of no entries was not submitted".to_owned()));
        }
        if entries.len() > self.limit {
            return Err(Error::Refused(format!(
                "{} entries were not submitted: at most {} can be in flight. In compat mode each entry needs a buffer of the library's pool, and cuFileBatchIOSubmit hangs if none is free; submit fewer, or raise the pool's counts before the driver is opened",
                entries.len(),
                self.limit
            )));
        }
        let library = self.driver.library();
        let f = library.need(library.symbols().batch_submit, "cuFileBatchIOSubmit")?;
        for (i, (entry, params)) in entries.iter().zip(self.params.iter_mut()).enumerate() {
            within(&*entry.memory, entry.memory_offset, entry.len)?;
            let (dev_ptr_base, dev_ptr_offset) = match self.route {
                // The check above ensures that the address is inside the memory. A direct route finds a registration
                // by its base address. In compat mode there is no registration to find.
                Route::MaybeCompat => (entry.memory.base().wrapping_byte_add(entry.memory_offset), 0),
                Route::Direct => (entry.memory.base(), offset(entry.memory_offset as u64)?),
            };
            *params = CUfileIOParams {
                mode: BATCH_MODE,
                dev_ptr_base,
                file_offset: offset(entry.file_offset)?,
                dev_ptr_offset,
                size: entry.len,
                fh: entry.handle.raw(),
                opcode: match entry.direction {
                    Direction::Read => OPCODE_READ,
                    Direction::Write => OPCODE_WRITE,
                },
                cookie: std::ptr::without_provenance_mut::<c_void>(i + 1),
            };
        }
        let nr = entries.len();
        self.results.clear();
        self.results.resize(nr, None);
        self.entries = entries;
        // SAFETY: `nr` parameters are filled, and they are not moved before the batch is destroyed. `self.entries`
        // keeps handles and memory.
        let status = unsafe { f(self.raw, nr as u32, self.params.as_mut_ptr(), 0) };
        if let Err(error) = library.check("cuFileBatchIOSubmit", status) {
            self.abandoned.append(&mut self.entries);
            return Err(error);
        }
        self.outstanding = nr;
        Ok(())
    }

    /// Waits until every entry has ended, at most for `limit`. Returns the results in the order of submission.
    ///
    /// # Errors
    /// [`Error::Timeout`]: call it again, or drop the batch, which cancels the entries. Otherwise the error of
    /// `cuFileBatchIOGetStatus`.
    pub fn collect(&mut self, limit: Duration) -> Result<Vec<BatchResult>, Error> {
        let start = Instant::now();
        let library = self.driver.library().clone();
        let f = library.need(library.symbols().batch_get_status, "cuFileBatchIOGetStatus")?;
        while self.outstanding > 0 {
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout {
                    call: "cuFileBatchIOGetStatus",
                    waited: start.elapsed(),
                    outstanding: self.outstanding,
                });
            }
            let mut timeout = libc::timespec {
                tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let want = self.outstanding as u32;
            let mut nr = want;
            // SAFETY: there is space for `nr` events, because the outstanding entries never exceed the capacity,
            // which is the length of the array. All arguments exist during the call.
            let status = unsafe { f(self.raw, want, &raw mut nr, self.events.as_mut_ptr(), &raw mut timeout) };
            library.check("cuFileBatchIOGetStatus", status)?;
            if nr > want {
                return Err(Error::Nonsense(format!(
                    "cuFileBatchIOGetStatus reports {nr} ended entries, but {want} were running"
                )));
            }
            self.take(nr as usize)?;
        }
        self.entries.clear();
        Ok(self.results.drain(..).flatten().collect())
    }

    /// Stores the results of the first `nr` events.
    fn take(&mut self, nr: usize) -> Result<(), Error> {
        for event in self.events.iter().take(nr) {
            let index = event.cookie.addr().wrapping_sub(1);
            let Some(slot) = self.results.get_mut(index).filter(|slot| slot.is_none()) else {
                return Err(Error::Nonsense(format!(
                    "cuFileBatchIOGetStatus returned an event with an unknown cookie ({index})"
                )));
            };
            let asked = self.params.get(index).map_or(0, |p| p.size);
            let returned = event.ret.cast_signed();
            let bytes = if event.status & BATCH_COMPLETE == 0 && returned >= 0 {
                Err(Error::Ended { status: event.status })
            } else {
                self.driver.library().check_bytes("cuFileBatchIOGetStatus", returned, 0, asked)
            };
            *slot = Some(BatchResult { index, bytes });
            self.outstanding -= 1;
        }
        Ok(())
    }

    /// Requests that the library cancels the outstanding entries. Collect them afterwards.
    ///
    /// # Errors
    /// The error of `cuFileBatchIOCancel`.
    pub fn cancel(&mut self) -> Result<(), Error> {
        let library = self.driver.library();
        let f = library.need(library.symbols().batch_cancel, "cuFileBatchIOCancel")?;
        // SAFETY: the batch is set up.
        library.check("cuFileBatchIOCancel", unsafe { f(self.raw) })
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            let _ = self.cancel();
            let _ = self.collect(Duration::from_secs(2));
        }
        if self.outstanding > 0 {
            // The library may still write to the memory and the arrays. They are leaked, so that they are never used
            // after they are freed.
            std::mem::forget(std::mem::take(&mut self.entries));
            std::mem::forget(std::mem::take(&mut self.abandoned));
            std::mem::forget(std::mem::take(&mut self.events));
            std::mem::forget(std::mem::take(&mut self.params));
            return;
        }
        if !self.abandoned.is_empty() {
            // Entries that a failed submit may have started are cancelled before their memory is released.
            let _ = self.cancel();
        }
        if let Some(f) = self.driver.library().symbols().batch_destroy {
            // SAFETY: the batch was set up here, has no outstanding entries, and is destroyed once. The driver is
            // dropped later.
            unsafe { f(self.raw) };
        }
    }
}
