//! The measured part of a run: the lookups, then all transfers by the workers and, in parallel, the simulated
//! computing of a read layer by layer.

use super::concurrent::Concurrent;
use super::flights::{Flights, Line, depth};
use super::layout::Task;
use super::opening::tidy;
use super::order::Method;
use super::params::KvSetting;
use super::pipeline::Operation;
use super::shared::Shared;
use super::store::{self, Found};
use super::transfer::Worker;
use super::turns::{Turn, Turns};
use super::window::Window;
use crate::core::{KvSystem, Note, OnStreams, Phase, Span};
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
    pub(super) concurrent: Vec<Operation>,
    /// Measurements of the streams of asynchronous transfers.
    pub(super) on_streams: Option<OnStreams>,
}

impl Done {
    /// Adds the work of a thread.
    fn add(&mut self, mut one: Brought) {
        self.spans.extend(one.rec.into_spans());
        // The time of a thread includes both directions, but the map of pieces shows only reads.
        self.spans.extend(one.concurrent_spans.iter().map(|span| Span { tensor: None, bytes: 0, offset: 0, ..*span }));
        self.concurrent.append(&mut one.concurrent);
        self.operations.append(&mut one.operations);
        self.computing.append(&mut one.computing);
        if let Some(seen) = one.on_stream {
            self.on_streams = Some(self.on_streams.map_or(seen, |before| before.and(seen)));
        }
    }
}

/// The result of one thread.
struct Brought {
    rec: Recorder,
    operations: Vec<Operation>,
    computing: Vec<(u64, u64, u64)>,
    concurrent: Vec<Operation>,
    concurrent_spans: Vec<Span>,
    on_stream: Option<OnStreams>,
}

/// The resources of the workers: their number, the staging slots, and the streams of asynchronous transfers.
pub(super) struct Equipment {
    pub(super) threads: usize,
    pub(super) staging: Vec<Slot>,
    pub(super) lines: Vec<Line>,
}

/// Runs all transfers and the concurrent writes between two readings of the clock.
pub(super) fn run(
    shared: &Shared<'_>,
    concurrent: Option<&Concurrent<'_>>,
    equipment: Equipment,
) -> Result<Done, LoadError> {
    let done = transfer_all(shared, concurrent, equipment);
    if done.is_err() {
        tidy(shared);
        if let Some(concurrent) = concurrent {
            tidy(&concurrent.shared);
        }
    }
    done
}

/// Finds the files of a read. `None` if the run does not search for files.
pub(super) fn look_up(shared: &Shared<'_>) -> Result<Option<Found>, LoadError> {
    if shared.lane.write || shared.method == Method::Ram {
        return Ok(None);
    }
    let looked = store::look_up(shared.order, shared.settings, shared.layout);
    // If no files are stored, all lookups are expected to miss.
    if looked.hits == 0 && !shared.layout.files.is_empty() {
        let asked = looked.lookups;
        let why = match (looked.first_refusal, looked.limited) {
            (Some(why), _) => format!(": {why}"),
            (None, Some(Note::StoreLimited { setting, value, kept, files })) => {
                format!(": {setting}={value} keeps {kept} of {files} files")
            }
            _ => "; the previous run should have written them, so see its error".to_owned(),
        };
        return Err(LoadError::CuFile(format!("none of the {asked} requested files is in the store{why}")));
    }
    Ok(Some(looked))
}

/// Whether the file of a transfer was found, or was not looked up.
pub(super) fn stored(found: Option<&Found>, task: &Task) -> bool {
    found.is_none_or(|found| found.files.get(task.file as usize).is_some_and(|hit| *hit))
}

/// The window of a layer-wise read: the transfers of each layer, and how far ahead of the computing they may be.
fn window(shared: &Shared<'_>, units: &[Range<usize>]) -> Option<Arc<Window>> {
    let layout = shared.layout;
    layout.layerwise.then(|| {
        let mut left = vec![0; layout.layers() as usize];
        for task in units.iter().flat_map(|unit| &layout.tasks[unit.clone()]) {
            if let Some(left) = left.get_mut(task.layer as usize) {
                *left += 1;
            }
        }
        // UCM's connector requests all layers at once. LMCache's connector requests a fixed number of layers ahead.
        let ahead = match shared.order.kind {
            KvSystem::Ucm => usize::MAX,
            _ => shared.settings.get(KvSetting::PrefetchFactor) as usize,
        };
        Arc::new(Window::new(ahead, left))
    })
}

/// The work of a run: its transfers in units, their order, and the resources of the workers.
struct Pool<'a> {
    shared: &'a Shared<'a>,
    concurrent: Option<&'a Concurrent<'a>>,
    threads: usize,
    units: Vec<Range<usize>>,
    window: Option<Arc<Window>>,
    turns: Turns,
    /// Maximum number of spans of each recorder.
    spans: usize,
    staging: Mutex<Vec<Slot>>,
    lines: Mutex<Vec<Line>>,
}

impl Pool<'_> {
    fn worker<'s, 'a>(
        &self,
        shared: &'s Shared<'a>,
        number: usize,
        rec: Recorder,
        room: usize,
    ) -> Result<Worker<'s, 'a>, LoadError> {
        let layout = self.shared.layout;
        Ok(Worker {
            shared,
            rec,
            queue: CopyQueue::new(shared.context.device)?,
            staging: lock(&self.staging).pop(),
            slab_at: number as u64 * shared.slots * layout.slab_step(),
            operations: Vec::with_capacity(room / self.threads + 16),
            flights: lock(&self.lines).pop().map(|line| {
                let first = number as u64 * shared.slots;
                let slots = (first..first + shared.slots).map(|slot| slot * layout.slab_step());
                let slots = if shared.slab.is_some() { slots.collect() } else { VecDeque::new() };
                let registered = !shared.registered.is_empty();
                let depth = depth(shared.context.cufile, shared.settings, self.threads, registered);
                Flights::new(line, depth, self.shared.context.clock, self.window.clone(), slots)
            }),
        })
    }

    /// Takes units of work until none is left.
    fn work(&self, number: usize, rec: Recorder) -> Result<Brought, LoadError> {
        let (shared, context, layout) = (self.shared, self.shared.context, self.shared.layout);
        context.device.bind()?;
        let mut reader = self.worker(shared, number, rec, self.units.len())?;
        let mut writer = self
            .concurrent
            .map(|concurrent| {
                let rec = Recorder::new(context.clock, number, self.spans);
                self.worker(&concurrent.shared, number, rec, concurrent.units.len())
            })
            .transpose()?;
        while let Some(turn) = self.turns.next(number) {
            if context.stopped() {
                return Err(LoadError::Stopped);
            }
            let unit = match turn {
                Turn::Read(at) => &self.units[at],
                Turn::Write(at) => {
                    if let (Some(concurrent), Some(writer)) = (self.concurrent, &mut writer) {
                        writer.unit(&concurrent.shared.layout.tasks[concurrent.units[at].clone()])?;
                    }
                    continue;
                }
            };
            let tasks = &layout.tasks[unit.clone()];
            let layer = tasks.first().map_or(0, |task| task.layer as usize);
            // Staged layers are complete when this worker has scattered them, so it must not wait before that.
            if self.window.as_ref().is_some_and(|window| !window.may_load_now(layer)) {
                reader.land_all()?;
            }
            if let Some(window) = &self.window
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
            if let Some(window) = &self.window {
                tasks.iter().for_each(|task| window.landed(task.layer as usize));
            }
        }
        reader.land_all()?;
        let on_stream = reader.flights.as_ref().map(Flights::seen);
        let (concurrent_spans, concurrent) =
            writer.map_or_else(Default::default, |writer| (writer.rec.into_spans(), writer.operations));
        let (rec, operations) = (reader.rec, reader.operations);
        Ok(Brought { rec, operations, computing: Vec::new(), concurrent, concurrent_spans, on_stream })
    }
}

fn transfer_all(
    shared: &Shared<'_>,
    concurrent: Option<&Concurrent<'_>>,
    equipment: Equipment,
) -> Result<Done, LoadError> {
    let (context, layout) = (shared.context, shared.layout);
    let Equipment { threads, staging, lines } = equipment;
    let spans = 6 * layout.tasks.len() / threads.max(1) + 64;
    let mut first = Recorder::new(context.clock, 0, spans);
    let looked_at = first.now();
    let found = look_up(shared)?;
    let lookup_ns = if found.is_some() { first.end(Phase::Open, looked_at, What::SETUP) - looked_at } else { 0 };
    let units: Vec<Range<usize>> = layout
        .units
        .iter()
        .filter(|unit| layout.tasks.get(unit.start).is_some_and(|task| stored(found.as_ref(), task)))
        .cloned()
        .collect();
    let window = window(shared, &units);
    let turns = match (lines.len(), concurrent.map_or(0, |concurrent| concurrent.units.len())) {
        (0, writes) => Turns::new(units.len(), writes, threads, shared.settings.on(KvSetting::ReadPriority)),
        (streams, _) => Turns::dealt(units.len(), streams),
    };
    // Waiting counts from the time at which loading may begin, not from the start of the computing thread.
    let begun_ns = first.now();
    let first = Mutex::new(Some(first));
    let (staging, lines) = (Mutex::new(staging), Mutex::new(lines));
    let all = threads + usize::from(window.is_some());
    let pool = Pool { shared, concurrent, threads, units, window, turns, spans, staging, lines };
    let brought = run_workers(context, all, |number| {
        let own = if number == 0 { lock(&first).take() } else { None };
        let rec = own.unwrap_or_else(|| Recorder::new(context.clock, number, spans));
        match &pool.window {
            Some(window) if number == threads => compute(shared, window, rec, begun_ns),
            _ => pool.work(number, rec),
        }
    })?;
    let mut done = Done {
        spans: Vec::new(),
        slots: all as u32,
        operations: Vec::new(),
        computing: Vec::new(),
        found,
        lookup_ns,
        concurrent: Vec::new(),
        on_streams: None,
    };
    for (number, mut one) in brought.into_iter().enumerate() {
        if number == 0 {
            let at = one.rec.now();
            context.device.synchronize()?;
            one.rec.end(Phase::Sync, at, What::SETUP);
        }
        done.add(one);
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
        concurrent: Vec::new(),
        concurrent_spans: Vec::new(),
        on_stream: None,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
