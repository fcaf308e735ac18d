//! Asynchronous transfers of a worker: started on its CUDA stream, several at once, and completed when the stream's callback reports them.

use super::flights::{ABORTED, Flight, Landed, direction};
use super::layout::Task;
use super::prepare::wrong;
use super::transfer::{OpenFile, Worker};
use crate::core::Phase;
use crate::device::MemoryPart;
use crate::engines::LoadError;
use crossbeam_channel::RecvTimeoutError;
use cufile_ffi::{Error, IoMemory};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a waiting worker checks whether another one failed.
const LOOK: Duration = Duration::from_millis(20);

impl Worker<'_, '_> {
    /// Puts a transfer on the stream once there is room, and takes what has landed.
    pub(super) fn launch(&mut self, task: &Task) -> Result<(), LoadError> {
        let depth = self.flights.as_ref().map_or(1, |flights| flights.depth);
        while self.under_way() >= depth {
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
        self.put(Flight { io: None, handle, task: *task, done: 0, start_ns, called_ns: start_ns })?;
        while self.land(false)? {}
        Ok(())
    }

    /// Waits for all transfers that have not landed.
    pub(super) fn land_all(&mut self) -> Result<(), LoadError> {
        while self.under_way() > 0 {
            self.land(true)?;
        }
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.flights.as_ref().map_or(0, |flights| flights.under_way.len())
    }

    /// Calls cuFile for the rest of a transfer.
    fn put(&mut self, mut flight: Flight) -> Result<(), LoadError> {
        let (task, done) = (flight.task, flight.done);
        let rest = task.bytes - done;
        flight.called_ns = self.rec.now();
        let place = self.place(&task) + done;
        let (memory, offset): (Arc<dyn IoMemory>, usize) = match self.registration(place, rest) {
            Some((start, registration)) => (Arc::clone(registration) as _, (place - start) as usize),
            // The address itself: in compat mode libcufile 1.15 to 1.20 answers EIO at an offset of a larger allocation.
            None => (Arc::new(MemoryPart::new(self.memory(), place, rest as usize)?), 0),
        };
        let direction = direction(self.shared.lane.write);
        let file_offset = self.shared.layout.data_offset + task.offset + done;
        let Some(flights) = &mut self.flights else { return Err(LoadError::Stopped) };
        let number = flights.next;
        flights.next += 1;
        flights.most = flights.most.max(flights.on_stream.fetch_add(1, Ordering::Relaxed) + 1);
        let called = flights
            .stream
            .transfer(direction, &flight.handle, memory, offset, rest as usize, file_offset)
            .and_then(|io| {
                io.on_end(flights.callback(number, task.layer, rest))?;
                Ok(io)
            });
        let io = called.map_err(|error| self.aborted(&task, &error))?;
        let of = self.of(&task, false);
        let end_ns = self.rec.end(Phase::Submit, flight.called_ns, of);
        if let Some(flights) = &mut self.flights {
            flights.in_call_ns += end_ns - flight.called_ns;
            flight.io = Some(io);
            flights.under_way.insert(number, flight);
        }
        Ok(())
    }

    /// Takes a transfer that landed and returns whether there was one; waits for one if that is wanted.
    fn land(&mut self, wait: bool) -> Result<bool, LoadError> {
        let at = self.rec.now();
        let Some(told) = self.next_told(wait)? else { return Ok(false) };
        let flights = self.flights.as_mut();
        let Some((flights, mut flight)) =
            flights.and_then(|all| all.under_way.remove(&told.number).map(|flight| (all, flight)))
        else {
            return Ok(true);
        };
        flights.in_flight_ns += told.at_ns.saturating_sub(flight.called_ns);
        let task = flight.task;
        // It has ended, so this waits for nothing.
        drop(flight.io.take());
        match told.moved {
            Ok(0) => return Err(self.ended_early(&task, flight.done)),
            Ok(moved) => flight.done += moved as u64,
            Err(error) => return Err(self.aborted(&task, &error)),
        }
        let landed = flight.done == task.bytes;
        let of = self.of(&task, landed);
        self.rec.end(Phase::Transfer, at, of);
        if !landed {
            return self.put(flight).map(|()| true);
        }
        self.operations.push((task.layer, flight.start_ns, told.at_ns));
        self.shared.context.landed(task.bytes);
        drop(flight);
        self.close(task.file, true);
        if self.shared.lane.write {
            self.end_file(task.file, 1)?;
        }
        Ok(true)
    }

    /// The next message of a callback; `None` if there is none and none is waited for.
    fn next_told(&self, wait: bool) -> Result<Option<Landed>, LoadError> {
        let Some(flights) = &self.flights else { return Ok(None) };
        if !wait {
            return Ok(flights.told.try_recv().ok());
        }
        loop {
            match flights.told.recv_timeout(LOOK) {
                Ok(told) => return Ok(Some(told)),
                Err(RecvTimeoutError::Timeout) if !self.shared.context.stopped() => {}
                Err(_) => return Err(LoadError::Stopped),
            }
        }
    }

    /// A transfer that cuFile refused or failed.
    fn aborted(&self, task: &Task, error: &Error) -> LoadError {
        let said = self.failed_by_cufile(task, ", asynchronously,", error);
        let errno = error.cufile().and_then(|e| e.errno);
        let hint = match errno {
            Some(libc::ENOSPC) => return said,
            Some(libc::EIO) if !self.shared.registered.is_empty() => {
                "; in compat mode libcufile answers so at an offset of registered memory: the variant gds leaves it unregistered"
            }
            _ => "",
        };
        LoadError::CuFile(format!("{said}{hint}; {ABORTED}"))
    }
}
