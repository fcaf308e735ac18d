//! The measured part of a lane: lookups, then all transfers over the workers, and beside them the simulated computing of a layer-wise read.

use super::layout::Task;
use super::order::Way;
use super::store::{self, Found};
use super::transfer::{Operation, Shared, Worker, tidy};
use super::window::Window;
use crate::device::{CopyQueue, Slot};
use crate::domain::{Phase, Span};
use crate::engines::{LoadError, Recorder, What, run_workers};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What was done and when.
pub(super) struct Done {
    pub(super) spans: Vec<Span>,
    pub(super) slots: u32,
    pub(super) operations: Vec<Operation>,
    /// Simulated computing by layer: start, end, and how long it waited before.
    pub(super) computing: Vec<(u64, u64, u64)>,
    pub(super) found: Option<Found>,
    pub(super) lookup_ns: u64,
}

/// What one thread brings home.
struct Brought {
    rec: Recorder,
    operations: Vec<Operation>,
    computing: Vec<(u64, u64, u64)>,
}

/// Runs the lane between two readings of its clock. `staging` has a slot for each worker that needs one.
pub(super) fn run(shared: &Shared<'_>, threads: usize, staging: Vec<Slot>) -> Result<Done, LoadError> {
    let done = measured(shared, threads, staging);
    if done.is_err() {
        tidy(shared);
    }
    done
}

fn measured(shared: &Shared<'_>, threads: usize, staging: Vec<Slot>) -> Result<Done, LoadError> {
    let (context, layout) = (shared.context, shared.layout);
    let spans = 6 * layout.tasks.len() / threads.max(1) + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let mut found = None;
    let mut lookup_ns = 0;
    if !shared.lane.write && shared.way != Way::Ram {
        let at = first.now();
        let looked = store::look_up(shared.order, shared.settings, layout);
        lookup_ns = first.end(Phase::Open, at, What::SETUP) - at;
        if looked.hits == 0 {
            let why = looked.first_refusal.unwrap_or_else(|| "there is no such file".to_owned());
            return Err(LoadError::CuFile(format!(
                "none of the {} files asked for is in the store ({why}); they are written by the lane before, which says why where it failed",
                looked.lookups
            )));
        }
        found = Some(looked);
    }
    let stored = |task: &Task| found.as_ref().is_none_or(|f| f.files.get(task.file as usize).is_some_and(|hit| *hit));
    let units: Vec<Range<usize>> =
        layout.units.iter().filter(|unit| layout.tasks.get(unit.start).is_some_and(stored)).cloned().collect();
    let window = layout.layerwise.then(|| {
        let mut left = vec![0; layout.layers() as usize];
        for unit in &units {
            for task in &layout.tasks[unit.clone()] {
                if let Some(left) = left.get_mut(task.layer as usize) {
                    *left += 1;
                }
            }
        }
        Window::new(shared.settings.get("prefetch_factor") as usize, left)
    });
    let next = AtomicUsize::new(0);
    // Computing waits from the moment at which loading may begin, not from when its thread runs.
    let begun_ns = first.now();
    let first = Mutex::new(Some(first));
    let staging = Mutex::new(staging);
    let all = threads + usize::from(window.is_some());
    let brought = run_workers(context, all, |number| {
        let own = if number == 0 { lock(&first).take() } else { None };
        let rec = own.unwrap_or_else(|| Recorder::new(context.clock, number, spans));
        if let Some(window) = &window
            && number == threads
        {
            return compute(shared, window, rec, begun_ns);
        }
        context.device.bind()?;
        let mut worker = Worker {
            shared,
            rec,
            queue: CopyQueue::new(context.device)?,
            staging: lock(&staging).pop(),
            slab_at: number as u64 * layout.slab_step(),
            operations: Vec::with_capacity(units.len() / threads + 16),
        };
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            let tasks = &layout.tasks[unit.clone()];
            let layer = tasks.first().map_or(0, |task| task.layer as usize);
            if let Some(window) = &window
                && !window.may_load(layer, &|| context.stopped())
            {
                return Err(LoadError::Stopped);
            }
            worker.unit(tasks)?;
            if let Some(window) = &window {
                tasks.iter().for_each(|task| window.landed(task.layer as usize));
            }
        }
        Ok(Brought { rec: worker.rec, operations: worker.operations, computing: Vec::new() })
    })?;
    let mut done =
        Done { spans: Vec::new(), slots: all as u32, operations: Vec::new(), computing: Vec::new(), found, lookup_ns };
    for (number, mut one) in brought.into_iter().enumerate() {
        if number == 0 {
            let at = one.rec.now();
            context.device.synchronize()?;
            one.rec.end(Phase::Sync, at, What::SETUP);
        }
        done.spans.extend(one.rec.into_spans());
        done.operations.append(&mut one.operations);
        done.computing.append(&mut one.computing);
    }
    Ok(done)
}

/// Computes layer after layer, which is a sleep of the given length: what a model would do with them is not run. Its waiting is a span; its computing is
/// none, since the load does nothing then.
fn compute(shared: &Shared<'_>, window: &Window, mut rec: Recorder, begun_ns: u64) -> Result<Brought, LoadError> {
    let long = Duration::from_micros(shared.settings.get("compute_us"));
    let mut computing = Vec::with_capacity(shared.layout.layers() as usize);
    let mut at = begun_ns;
    for layer in 0..shared.layout.layers() as usize {
        if !window.is_loaded(layer, &|| shared.context.stopped()) {
            return Err(LoadError::Stopped);
        }
        let start = rec.end(Phase::Sync, at, What::SETUP);
        if !long.is_zero() {
            std::thread::sleep(long);
        }
        let end = rec.now();
        computing.push((start, end, start - at));
        window.computed(layer);
        at = end;
    }
    Ok(Brought { rec, operations: Vec::new(), computing })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
