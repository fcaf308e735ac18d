//! The measured part of a run: the lookups, then all transfers by the workers and, in parallel, the simulated
//! computing of a read layer by layer.

use super::beside::Beside;
use super::flights::{Flights, Line};
use super::layout::Task;
use super::opening::tidy;
use super::order::Method;
use super::params::KvSetting;
use super::shared::Shared;
use super::store::{self, Found};
use super::transfer::{Operation, Worker};
use super::turns::{Turn, Turns};
use super::window::Window;
use crate::core::{KvSystem, OnStreams, Phase, Span};
use crate::device::{CopyQueue, Slot};
use crate::engines::{LoadError, Recorder, What, run_workers};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The completed work with its times.
pub(super) struct Done {
    pub(super) spans: Vec<Span>,
    pub(super) slots: u32,
    pub(super) operations: Vec<Operation>,
    /// Simulated computing of each layer: start, end, and the waiting time before, in nanoseconds.
    pub(super) computing: Vec<(u64, u64, u64)>,
    pub(super) found: Option<Found>,
    pub(super) lookup_ns: u64,
    /// The transfers of the concurrent writes.
    pub(super) beside: Vec<Operation>,
    /// Measurements of the streams of asynchronous transfers.
    pub(super) on_streams: Option<OnStreams>,
}

/// The result of one thread.
struct Brought {
    rec: Recorder,
    operations: Vec<Operation>,
    computing: Vec<(u64, u64, u64)>,
    beside: Vec<Operation>,
    beside_spans: Vec<Span>,
    on_stream: Option<OnStreams>,
}

/// Runs the measured part with its concurrent writes. `staging` has a slot for each worker that needs one. `lines`
/// has a stream for each worker if transfers are asynchronous.
pub(super) fn run(
    shared: &Shared<'_>,
    beside: Option<&Beside<'_>>,
    threads: usize,
    staging: Vec<Slot>,
    lines: Vec<Line>,
) -> Result<Done, LoadError> {
    let done = measured(shared, beside, threads, staging, lines);
    if done.is_err() {
        tidy(shared);
        if let Some(beside) = beside {
            tidy(&beside.shared);
        }
    }
    done
}

fn measured(
    shared: &Shared<'_>,
    beside: Option<&Beside<'_>>,
    threads: usize,
    staging: Vec<Slot>,
    lines: Vec<Line>,
) -> Result<Done, LoadError> {
    let (context, layout) = (shared.context, shared.layout);
    let spans = 6 * layout.tasks.len() / threads.max(1) + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let mut found = None;
    let mut lookup_ns = 0;
    if !shared.lane.write && shared.method != Method::Ram {
        let at = first.now();
        let looked = store::look_up(shared.order, shared.settings, layout);
        lookup_ns = first.end(Phase::Open, at, What::SETUP) - at;
        // If no files are stored, all lookups are expected to miss.
        if looked.hits == 0 && !layout.files.is_empty() {
            let asked = looked.lookups;
            return Err(LoadError::CuFile(match looked.first_refusal.or(looked.limited) {
                Some(why) => format!("none of the {asked} files asked for is in the store to be read: {why}"),
                None => format!(
                    "none of the {asked} files asked for is in the store; they are written by the lane before, which says why where it failed"
                ),
            }));
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
        // UCM's connector requests all layers at once. LMCache's connector requests a fixed number of layers ahead.
        let ahead = match shared.order.kind {
            KvSystem::Ucm => usize::MAX,
            _ => shared.settings.get(KvSetting::PrefetchFactor) as usize,
        };
        Arc::new(Window::new(ahead, left))
    });
    let writes = beside.map_or(0, |beside| beside.units.len());
    let turns = match lines.len() {
        0 => Turns::new(units.len(), writes, threads, shared.settings.on(KvSetting::ReadPriority)),
        streams => Turns::dealt(units.len(), streams),
    };
    // Waiting counts from the time at which loading may begin, not from the start of the computing thread.
    let begun_ns = first.now();
    let first = Mutex::new(Some(first));
    let (staging, lines) = (Mutex::new(staging), Mutex::new(lines));
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
        let worker = |shared, rec, room: usize| {
            let shared: &Shared<'_> = shared;
            Ok::<_, LoadError>(Worker {
                shared,
                rec,
                queue: CopyQueue::new(context.device)?,
                staging: lock(&staging).pop(),
                slab_at: number as u64 * shared.slots * layout.slab_step(),
                operations: Vec::with_capacity(room / threads + 16),
                flights: lock(&lines).pop().map(|line| {
                    let first = number as u64 * shared.slots;
                    let slots = (first..first + shared.slots).map(|slot| slot * layout.slab_step());
                    let slots = if shared.slab.is_some() { slots.collect() } else { VecDeque::new() };
                    Flights::new(line, shared.settings, context.clock, window.clone(), slots)
                }),
            })
        };
        let mut reader = worker(shared, rec, units.len())?;
        let mut writer = beside
            .map(|beside| worker(&beside.shared, Recorder::new(context.clock, number, spans), writes))
            .transpose()?;
        while let Some(turn) = turns.next(number) {
            if context.stopped() {
                return Err(LoadError::Stopped);
            }
            let unit = match turn {
                Turn::Read(at) => &units[at],
                Turn::Write(at) => {
                    if let (Some(beside), Some(writer)) = (beside, &mut writer) {
                        writer.unit(&beside.shared.layout.tasks[beside.units[at].clone()])?;
                    }
                    continue;
                }
            };
            let tasks = &layout.tasks[unit.clone()];
            let layer = tasks.first().map_or(0, |task| task.layer as usize);
            if let Some(window) = &window
                && !window.may_load(layer, &|| context.stopped())
            {
                return Err(LoadError::Stopped);
            }
            if reader.flights.is_some() {
                // Callbacks report completed transfers to the window.
                tasks.iter().try_for_each(|task| reader.launch(task))?;
                continue;
            }
            reader.unit(tasks)?;
            if let Some(window) = &window {
                tasks.iter().for_each(|task| window.landed(task.layer as usize));
            }
        }
        reader.land_all()?;
        let on_stream = reader.flights.as_ref().map(Flights::seen);
        let (beside_spans, beside) =
            writer.map_or_else(Default::default, |writer| (writer.rec.into_spans(), writer.operations));
        Ok(Brought {
            rec: reader.rec,
            operations: reader.operations,
            computing: Vec::new(),
            beside,
            beside_spans,
            on_stream,
        })
    })?;
    let mut done = Done {
        spans: Vec::new(),
        slots: all as u32,
        operations: Vec::new(),
        computing: Vec::new(),
        found,
        lookup_ns,
        beside: Vec::new(),
        on_streams: None,
    };
    for (number, mut one) in brought.into_iter().enumerate() {
        if number == 0 {
            let at = one.rec.now();
            context.device.synchronize()?;
            one.rec.end(Phase::Sync, at, What::SETUP);
        }
        done.spans.extend(one.rec.into_spans());
        // The time of a thread includes both directions, but the map of pieces shows only reads.
        done.spans.extend(one.beside_spans.iter().map(|span| Span { tensor: None, bytes: 0, offset: 0, ..*span }));
        done.beside.append(&mut one.beside);
        done.operations.append(&mut one.operations);
        done.computing.append(&mut one.computing);
        if let Some(seen) = one.on_stream {
            done.on_streams = Some(done.on_streams.map_or(seen, |before| before.and(seen)));
        }
    }
    Ok(done)
}

/// Computes the layers one after another. Each computation is simulated by sleeping. Only the waiting is recorded as
/// a span, because the load is idle while a layer is computed.
fn compute(shared: &Shared<'_>, window: &Window, mut rec: Recorder, begun_ns: u64) -> Result<Brought, LoadError> {
    let long = Duration::from_micros(shared.settings.get(KvSetting::ComputeUs));
    let mut computing = Vec::with_capacity(shared.layout.layers() as usize);
    let mut at = begun_ns;
    let mut is_loaded = false;
    for layer in 0..shared.layout.layers() as usize {
        let mut start = at;
        if !is_loaded {
            if !window.is_loaded(layer, &|| shared.context.stopped()) {
                return Err(LoadError::Stopped);
            }
            start = rec.end(Phase::Sync, at, What::SETUP);
        }
        if !long.is_zero() {
            std::thread::sleep(long);
        }
        let end = rec.now();
        computing.push((start, end, start - at));
        // This is tested before the loading threads start. If the bytes have already landed, no waiting is recorded,
        // in whichever order the threads run.
        is_loaded = window.has_loaded(layer + 1);
        window.computed(layer);
        at = end;
    }
    Ok(Brought {
        rec,
        operations: Vec::new(),
        computing,
        beside: Vec::new(),
        beside_spans: Vec::new(),
        on_stream: None,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
