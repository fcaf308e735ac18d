//! Starts and completes the asynchronous transfers of a worker. Several of them run at once on the worker's CUDA
//! stream. A transfer is complete when the callback of the stream has reported it.
//!
//! A transfer through staging memory uses a slot from its start until its bytes were scattered. LMCache registers its
//! staging memory in regions of at most 16 MiB, so a transfer whose slot crosses a region boundary is divided there.

use super::flights::{ABORTED, Flight, Landed, Segment, direction};
use super::job::wrong;
use super::layout::Task;
use super::params::KvSetting;
use super::pipeline::Operation;
use super::shared::OpenFile;
use super::transfer::Worker;
use crate::core::Phase;
use crate::engines::LoadError;
use crossbeam_channel::RecvTimeoutError;
use cufile_ffi::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time after which a waiting worker checks whether another worker failed.
const LOOK: Duration = Duration::from_millis(20);

impl Worker<'_, '_> {
    /// Puts a transfer on the stream as soon as there is space, and processes completed transfers.
    pub(super) fn launch(&mut self, task: &Task) -> Result<(), LoadError> {
        let depth = self.flights.as_ref().map_or(1, |flights| flights.depth);
        while self.in_progress() >= depth {
            self.land(true)?;
        }
        let start_ns = self.rec.now();
        if self.shared.lane.write {
            self.begin_file(task.file)?;
        }
        let opened = self.open(task.file, true).map_err(|refused| refused.error)?;
        let OpenFile::Gds(handle) = &*opened else {
            return Err(wrong("the file is not registered with cuFile".to_owned()));
        };
        let handle = Arc::clone(handle);
        let slot = self.flights.as_mut().and_then(|flights| flights.slots.pop_front());
        let place = slot.unwrap_or_else(|| self.place(task));
        if self.shared.lane.write {
            self.gather(task, place)?;
        }
        let Some(flights) = &mut self.flights else { return Err(LoadError::Stopped) };
        let number = flights.next;
        flights.next += 1;
        let flight = Flight {
            ios: Vec::new(),
            handle,
            task: *task,
            place,
            slot,
            left: 0,
            done: 0,
            start_ns,
            called_ns: self.rec.now(),
        };
        flights.in_progress.insert(number, flight);
        self.put(number, Segment { offset: 0, bytes: task.bytes })?;
        while self.land(false)? {}
        Ok(())
    }

    /// Waits for all unfinished transfers.
    pub(super) fn land_all(&mut self) -> Result<(), LoadError> {
        while self.in_progress() > 0 {
            self.land(true)?;
        }
        Ok(())
    }

    fn in_progress(&self) -> usize {
        self.flights.as_ref().map_or(0, |flights| flights.in_progress.len())
    }

    /// Calls cuFile for a segment of a transfer, once for each region of the segment.
    fn put(&mut self, number: u64, segment: Segment) -> Result<(), LoadError> {
        let mut done = 0;
        while done < segment.bytes {
            let at = self.rec.now();
            let of = self.flights.as_ref().and_then(|flights| flights.in_progress.get(&number));
            let Some((task, place, handle)) = of.map(|of| (of.task, of.place, Arc::clone(&of.handle))) else {
                return Err(LoadError::Stopped);
            };
            let part = self.part(place + segment.offset + done, segment.bytes - done)?;
            let here = Segment { offset: segment.offset + done, bytes: part.bytes };
            let file_offset = self.shared.layout.file_offset(&task) + here.offset;
            // Staged bytes have landed only after they were scattered, which a callback cannot do.
            let reports = self.shared.slab.is_none() && here.offset + here.bytes == task.bytes;
            let Some(flights) = &mut self.flights else { return Err(LoadError::Stopped) };
            flights.most = flights.most.max(flights.on_stream.fetch_add(1, Ordering::Relaxed) + 1);
            let called = flights
                .stream
                .transfer(
                    direction(self.shared.lane.write),
                    &handle,
                    part.memory,
                    part.offset,
                    here.bytes as usize,
                    file_offset,
                )
                .and_then(|io| {
                    io.on_end(flights.callback(number, task.layer, here, reports))?;
                    Ok(io)
                });
            let io = called.map_err(|error| self.aborted(&task, part.offset, &error))?;
            let of = self.of(&task, false);
            let end_ns = self.rec.end(Phase::Submit, at, of);
            if let Some(flights) = &mut self.flights {
                flights.in_call_ns += end_ns - at;
                if let Some(flight) = flights.in_progress.get_mut(&number) {
                    flight.ios.push(io);
                    flight.left += 1;
                }
            }
            done += here.bytes;
        }
        Ok(())
    }

    /// Processes a completed segment and returns whether there was one. With `wait`, it waits for one.
    fn land(&mut self, wait: bool) -> Result<bool, LoadError> {
        let at = self.rec.now();
        let Some(landing) = self.next_landing(wait)? else { return Ok(false) };
        let check = self.shared.settings.get(KvSetting::CheckResults) != 0 || !self.shared.layout.is_slab();
        let Some(flights) = &mut self.flights else { return Ok(true) };
        let Some(flight) = flights.in_progress.get_mut(&landing.number) else { return Ok(true) };
        flights.in_flight_ns += landing.at_ns.saturating_sub(flight.called_ns);
        flight.left -= 1;
        let (task, expected) = (flight.task, landing.segment);
        let moved = match &landing.moved {
            Ok(0) if check => {
                let done = flight.done;
                return Err(self.ended_early(&task, done));
            }
            Err(error) if check => return Err(self.aborted(&task, 0, error)),
            Ok(moved) => *moved as u64,
            Err(_) => 0,
        };
        if !check && moved < expected.bytes {
            // Like LMCache, a run without checks ignores the result. gds-top counts what is lost.
            self.shared.lost_operations.fetch_add(1, Ordering::Relaxed);
            self.shared.lost_bytes.fetch_add(expected.bytes - moved, Ordering::Relaxed);
        }
        flight.done += moved;
        if check && moved < expected.bytes {
            let rest = Segment { offset: expected.offset + moved, bytes: expected.bytes - moved };
            return self.put(landing.number, rest).map(|()| true);
        }
        let landed = flight.left == 0;
        let of = self.of(&task, landed);
        self.rec.end(Phase::Transfer, at, of);
        if landed {
            self.landed(&landing)?;
        }
        Ok(true)
    }

    /// Completes a transfer after its last segment.
    fn landed(&mut self, landing: &Landed) -> Result<(), LoadError> {
        let Some(mut flight) = self.flights.as_mut().and_then(|all| all.in_progress.remove(&landing.number)) else {
            return Ok(());
        };
        let task = flight.task;
        // All calls have ended, so dropping them does not wait.
        flight.ios.clear();
        let mut end_ns = landing.at_ns;
        if !self.shared.lane.write && self.shared.slab.is_some() {
            self.scatter(&task, flight.place)?;
            end_ns = self.rec.now();
            if let Some(window) = self.flights.as_ref().and_then(|flights| flights.window.as_ref()) {
                window.landed(task.layer as usize);
            }
        }
        if let Some(flights) = &mut self.flights {
            flights.slots.extend(flight.slot);
        }
        self.operations.push(Operation { layer: task.layer, start_ns: flight.start_ns, end_ns, bytes: task.bytes });
        self.shared.context.landed(flight.done);
        drop(flight);
        self.close(task.file, true);
        if self.shared.lane.write {
            self.end_file(task.file, 1)?;
        }
        Ok(())
    }

    /// The next message of a callback. `None` if there is none and `wait` is not set.
    fn next_landing(&self, wait: bool) -> Result<Option<Landed>, LoadError> {
        let Some(flights) = &self.flights else { return Ok(None) };
        if !wait {
            return Ok(flights.landings.try_recv().ok());
        }
        loop {
            match flights.landings.recv_timeout(LOOK) {
                Ok(landing) => return Ok(Some(landing)),
                Err(RecvTimeoutError::Timeout) if !self.shared.context.stopped() => {}
                Err(_) => return Err(LoadError::Stopped),
            }
        }
    }

    /// The error for a transfer that cuFile rejected or that failed.
    fn aborted(&self, task: &Task, offset: usize, error: &Error) -> LoadError {
        let said = self.failed_by_cufile(task, ", asynchronously,", error);
        let errno = error.cufile().and_then(|e| e.errno);
        let unregistered = self.shared.registered.is_empty() && (offset > 0 || self.has_regions());
        let hint = match errno {
            Some(libc::ENOSPC) => return said,
            Some(libc::EIO)
                if self.shared.slab.is_some() && !self.shared.registered.is_empty() && !self.has_regions() =>
            {
                "; with libcufile 1.15 in compat mode, asynchronous transfers into one large registration fail or return wrong bytes: --set region_bytes=16777216 registers regions, as LMCache's GDS L1 does"
            }
            Some(libc::EIO) if unregistered => {
                "; in compat mode libcufile moves nothing at an offset of memory that is not registered: the variant gds-registered registers it"
            }
            _ => "",
        };
        LoadError::CuFile(format!("{said}{hint}; {ABORTED}"))
    }
}
