//! Batches of transfers, within the limits that the library survives.
//!
//! Rules learnt from runs of 1.16 to 1.20: one events array per batch, zeroed once and kept to the end, and
//! everything outstanding collected in one call (collecting in parts into fresh arrays crashed processes); in compat
//! mode every entry in flight takes a pool buffer, and a submit that finds none never returns (ai-dynamo/nixl#2070).
//! Compat mode hands aligned entries of an O_DIRECT descriptor to the kernel's asynchronous reads (io_submit) with
//! the base of the memory as their address and leaves the offset out, registered or not, so every entry is written to
//! the start of the memory and reported as complete (seen in the system calls of 1.16, 1.18 and 1.20 on host memory):
//! there each entry gets its own address and no offset, as in NIXL's plugin.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::error::Error;
use crate::handle::{Direction, FileHandle};
use crate::memory::{IoMemory, offset, within};
use crate::raw::{CUfileBatchHandle, CUfileIOEvents, CUfileIOParams};
use crate::values::{BATCH_COMPLETE, BATCH_MODE, OPCODE_READ, OPCODE_WRITE};

/// Entries in flight that compat mode takes with the pool's default counts (64 buffers of the middle class, half of it to be safe).
pub const COMPAT_IN_FLIGHT: usize = 32;

/// The expected route of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Not proven direct: the pool of compat mode limits the entries in flight.
    MaybeCompat,
    /// Proven direct (nvidia-fs, P2PDMA, C2C) for these files: only the capacity limits.
    Direct,
}

/// One transfer of a batch. The batch keeps handle and memory alive until the transfer is over.
#[derive(Clone)]
pub struct BatchEntry {
    /// Which way.
    pub direction: Direction,
    /// The file.
    pub handle: Arc<FileHandle<'static>>,
    /// The memory.
    pub memory: Arc<dyn IoMemory>,
    /// The offset in the memory, in bytes.
    pub memory_offset: usize,
    /// How many bytes.
    pub len: usize,
    /// The offset in the file, in bytes.
    pub file_offset: u64,
}

/// The result of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// Its place among the submitted entries.
    pub index: usize,
    /// Bytes moved, or why not.
    pub bytes: Result<usize, Error>,
}

/// A batch: submit entries, collect them all, submit again.
pub struct Batch {
    raw: CUfileBatchHandle,
    driver: Driver,
    limit: usize,
    route: Route,
    /// Zeroed once, as long as the batch, in place until the destroy: the library seems to use it outside its calls.
    events: Box<[CUfileIOEvents]>,
    params: Box<[CUfileIOParams]>,
    entries: Vec<BatchEntry>,
    /// Entries of submits that failed; some may be running nevertheless.
    abandoned: Vec<BatchEntry>,
    results: Vec<Option<BatchResult>>,
    outstanding: usize,
}

// SAFETY: the raw parts are only used through &mut self, and cuFile takes calls from any thread.
unsafe impl Send for Batch {}

impl Batch {
    /// Sets a batch up for `capacity` entries (the library's ceiling is 256, its default 128).
    ///
    /// With [`Route::MaybeCompat`] submits are held to half the smallest count of the POSIX pool,
    /// [`COMPAT_IN_FLIGHT`] if the library does not report it; raise the counts before the open for more
    /// ([`crate::Library::set_posix_pool_slabs`]).
    ///
    /// # Errors
    /// The result of `cuFileBatchIOSetUp`; [`Error::MissingSymbol`] before GDS 1.2.
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
            .ok_or_else(|| Error::OutOfBounds(format!("a batch takes 1 to 256 entries, not {capacity}")))?;
        let limit = Self::limit_of(driver, capacity, route);
        let mut raw: CUfileBatchHandle = std::ptr::null_mut();
        // SAFETY: writes one handle.
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

    /// The maximum number of entries of a submit for a batch of this capacity, without setting up the batch.
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

    /// Entries submitted and not collected.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Submits entries; they have no order among each other. In compat mode the call does the transfers itself.
    ///
    /// # Errors
    /// [`Error::Refused`] for more entries than [`Batch::limit`] (the library might wait for ever) or while others are outstanding;
    /// [`Error::OutOfBounds`]; what `cuFileBatchIOSubmit` answered.
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
                "{} entries were not submitted: at most {} may be in flight. In compat mode each takes a buffer of the library's pool, and cuFileBatchIOSubmit hangs if none is left; submit fewer, or raise the pool's counts before the driver is opened",
                entries.len(),
                self.limit
            )));
        }
        let library = self.driver.library();
        let f = library.need(library.symbols().batch_submit, "cuFileBatchIOSubmit")?;
        for (i, (entry, params)) in entries.iter().zip(self.params.iter_mut()).enumerate() {
            within(&*entry.memory, entry.memory_offset, entry.len)?;
            let (dev_ptr_base, dev_ptr_offset) = match self.route {
                // Inside the memory by the check above. A direct route looks registrations up by their base; compat mode has none to find.
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
        // SAFETY: `nr` filled parameters that stay in place until the batch is destroyed; handles and memory are kept in `self.entries`.
        let status = unsafe { f(self.raw, nr as u32, self.params.as_mut_ptr(), 0) };
        if let Err(error) = library.check("cuFileBatchIOSubmit", status) {
            self.abandoned.append(&mut self.entries);
            return Err(error);
        }
        self.outstanding = nr;
        Ok(())
    }

    /// Waits until every entry has ended, `limit` at most, and returns the results in the order of submission.
    ///
    /// # Errors
    /// [`Error::Timeout`]: call again, or drop the batch, which cancels; the result of `cuFileBatchIOGetStatus`.
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
            // SAFETY: `nr` events fit: outstanding never exceeds the capacity that the array has; all places live through the call.
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

    /// Notes the first `nr` events.
    fn take(&mut self, nr: usize) -> Result<(), Error> {
        for event in self.events.iter().take(nr) {
            let index = event.cookie.addr().wrapping_sub(1);
            let Some(slot) = self.results.get_mut(index).filter(|slot| slot.is_none()) else {
                return Err(Error::Nonsense(format!(
                    "cuFileBatchIOGetStatus gave an event with an unknown cookie ({index})"
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

    /// Asks the library to give up what is outstanding; collect afterwards.
    ///
    /// # Errors
    /// What `cuFileBatchIOCancel` answered.
    pub fn cancel(&mut self) -> Result<(), Error> {
        let library = self.driver.library();
        let f = library.need(library.symbols().batch_cancel, "cuFileBatchIOCancel")?;
        // SAFETY: a batch that is set up.
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
            // The library may still write into the memory and the arrays: they stay for ever rather than being used after their end.
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
            // SAFETY: set up by us, nothing outstanding, destroyed once; the driver is dropped after this.
            unsafe { f(self.raw) };
        }
    }
}
