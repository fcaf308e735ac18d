//! Watches a command until it has ended or must be ended: its lines, and the resource use of its processes.

use super::evidence::Seen;
use super::lines::CommandMessages;
use crate::core::{EventBody, LaneId, LaneOrder, LaneStage, Span, Target};
use crate::engines::nvfs_reads;
use crate::session::live::bus::Bus;
use crate::telemetry::tree::{self, TreeUse};
use crate::telemetry::{GpuProcesses, GpuRef};
use crossbeam_channel::{Receiver, select, tick};
use std::time::{Duration, Instant};

/// Time between two readings of the process tree.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Mappings and shared pages are only read at every n-th reading, because this takes longer.
const LOOK_CLOSELY: u64 = 5;
/// Time limit for a supervisor to end its process tree.
pub(super) const TREE_PATIENCE: Duration = Duration::from_secs(8);

/// Time limit for the last lines of a supervisor that has ended.
const AFTER_SUPERVISOR: Duration = Duration::from_secs(1);

/// The reason why watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Ended,
    Cancelled,
    TooLong,
}

/// A command that is being watched.
pub(super) struct Watched {
    pub(super) pid: u32,
    pub(super) started_ns: u64,
    pub(super) received: CommandMessages,
    pub(super) seen: Seen,
    /// Resource use of the process tree when the clock started, and when it stopped.
    pub(super) at_start: TreeUse,
    pub(super) at_stop: Option<TreeUse>,
    pub(super) most_rss: Option<u64>,
    pub(super) most_shared_once: Option<u64>,
    pub(super) most_processes: u32,
    /// Total used memory of the GPU in bytes: the first reading and the maximum.
    pub(super) gpu_memory: Option<(f64, f64)>,
    /// Maximum GPU memory of the tree's processes in bytes, as counted by NVML.
    pub(super) most_gpu_of_tree: Option<u64>,
    gpu_processes: Option<GpuProcesses>,
    pub(super) nvfs_before: Option<u64>,
    pub(super) spans: Vec<Span>,
    pub(super) looks: u64,
    /// The processes of the tree at the last reading.
    members: Vec<tree::Identity>,
}

impl Watched {
    pub(super) fn new(pid: u32, started_ns: u64, target: &Target) -> Self {
        let gpu_processes = GpuRef::of(target).and_then(|gpu| GpuProcesses::start(gpu, None, LOOK_EVERY).ok());
        Self {
            pid,
            started_ns,
            received: CommandMessages::since(started_ns),
            seen: Seen { readable: true, ..Seen::default() },
            at_start: TreeUse::default(),
            at_stop: None,
            most_rss: None,
            most_shared_once: None,
            most_processes: 0,
            gpu_memory: None,
            most_gpu_of_tree: None,
            gpu_processes,
            nvfs_before: nvfs_reads(),
            spans: Vec::new(),
            looks: 0,
            members: Vec::new(),
        }
    }

    /// Watches until the command has ended or must be ended. `supervised` returns whether its supervisor is running.
    pub(super) fn until_end(
        &mut self,
        bus: &Bus,
        (lane, order): (LaneId, &LaneOrder),
        lines: &Receiver<(u64, String)>,
        cancel: &Receiver<()>,
        limit: Duration,
        supervised: &mut dyn FnMut() -> bool,
    ) -> Why {
        let start = Instant::now();
        let clock = tick(LOOK_EVERY);
        let mut stage = LaneStage::Setup;
        let mut go = |to: LaneStage, at_ns: u64| {
            if to != stage {
                bus.emit_at(at_ns, EventBody::LaneStage { lane, stage: to });
                stage = to;
            }
        };
        // A command that sends no lines is treated as loading from its start.
        let mut silent = true;
        go(LaneStage::Loading, self.started_ns);
        loop {
            select! {
                recv(lines) -> line => {
                    let Ok((now_ns, line)) = line else { return Why::Ended };
                    let (ready, done) = (self.received.ready_ns, self.received.done_ns);
                    self.received.take(&line, now_ns);
                    if let (None, Some(at)) = (ready, self.received.ready_ns) {
                        self.at_start = tree::usage(self.pid).unwrap_or_default();
                        self.most_rss = None;
                        self.most_shared_once = None;
                        silent = false;
                        // The first part was set-up, because `ready` arrived.
                        go(LaneStage::Setup, now_ns);
                        go(LaneStage::Loading, at.max(self.started_ns));
                    }
                    if let (None, Some(at)) = (done, self.received.done_ns) {
                        self.look(bus, true);
                        self.at_stop = tree::usage(self.pid);
                        go(LaneStage::Verifying, at);
                    }
                }
                recv(clock) -> _ => {
                    if !supervised() {
                        // The last line may still arrive. A process that outlives the command may keep the pipe open.
                        self.drain(lines, AFTER_SUPERVISOR);
                        return Why::Ended;
                    }
                    self.look(bus, self.looks.is_multiple_of(LOOK_CLOSELY));
                    if self.received.done_ns.is_none() {
                        let landed = self.received.landed.or_else(|| self.moved(silent).map(|(bytes, _)| bytes)).unwrap_or(0);
                        bus.emit(EventBody::LaneProgress {
                            lane,
                            landed_bytes: landed.min(order.model.tensor_bytes()),
                            pinned_bytes: 0,
                            verified_bytes: 0,
                        });
                    }
                    if start.elapsed() > limit {
                        return Why::TooLong;
                    }
                }
                recv(cancel) -> _ => return Why::Cancelled,
            }
        }
    }

    /// Reads the remaining lines for a limited time.
    pub(super) fn drain(&mut self, lines: &Receiver<(u64, String)>, limit: Duration) {
        let until = Instant::now() + limit;
        while let Ok((now_ns, line)) = lines.recv_deadline(until) {
            self.received.take(&line, now_ns);
        }
    }

    /// Ends the processes of the tree and all their descendants.
    pub(super) fn end_members(&self) {
        tree::end(&self.members);
    }

    fn look(&mut self, bus: &Bus, closely: bool) {
        self.looks += 1;
        let Some(used) = tree::usage(self.pid) else { return };
        // If the supervisor was killed between the two readings, its processes have another parent and still run.
        let members = tree::identities(self.pid);
        if !members.is_empty() {
            self.members = members;
        }
        self.most_processes = self.most_processes.max(used.processes);
        self.most_rss = self.most_rss.max(used.rss_bytes);
        if let Some(now) = bus.gpu_memory_bytes() {
            let (first, most) = self.gpu_memory.unwrap_or((now, now));
            self.gpu_memory = Some((first, most.max(now)));
        }
        if let Some(gpu) = &self.gpu_processes {
            self.most_gpu_of_tree = self.most_gpu_of_tree.max(gpu.bytes_of(&tree::members(self.pid)));
        }
        if closely {
            self.most_shared_once = self.most_shared_once.max(tree::shared_once_bytes(self.pid));
            if self.seen.cufile.is_none() {
                let (found, readable) = tree::mapped_cufile(self.pid);
                self.seen.cufile = found;
                self.seen.readable &= readable;
            }
        }
        if self.received.done_ns.is_none() {
            self.at_stop = Some(used);
        }
    }

    /// Bytes that the tree has read since the clock started, and the counter that shows them.
    pub(super) fn moved(&self, all: bool) -> Option<(u64, &'static str)> {
        let start = if all { TreeUse::default() } else { self.at_start.clone() };
        let stop = self.at_stop.as_ref()?;
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        let calls = since(stop.read_call_bytes, start.read_call_bytes);
        let storage = since(stop.storage_read_bytes, start.storage_read_bytes);
        match (calls, storage) {
            (Some(calls), storage) if storage.is_none_or(|s| s <= calls) => Some((calls, "rchar")),
            (_, Some(storage)) => Some((storage, "read_bytes")),
            _ => None,
        }
    }
}
