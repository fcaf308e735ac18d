//! Runs the grid of storage measurements: creates the files, runs the measuring process, and converts its messages to
//! events.

use super::child::{ChildProcess, PATIENCE};
use super::lines::messages as lines_of;
use super::plan::GridRequest;
use super::session::{After, Heard, Session};
use crate::core::{CellResult, EventBody, GridPlan, LogLevel, Target, Transfer, units};
use crate::workloads::io::{self, Files, GridMessage, GridOrder};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select};
use std::io::Write;
use std::process::Command;
use std::thread::Builder;
use std::time::Duration;

/// The time limit of a cell is its duration plus this time, which allows for opening, registering, and one slow
/// operation per thread.
const GRACE: Duration = Duration::from_secs(60);

/// The result of the measuring process.
enum End {
    /// All cells have a result.
    Finished,
    /// The process ended early. The value is the cause.
    Broke(String),
    Cancelled,
}

impl Session {
    /// Measures the grid of the request.
    pub(super) fn grid(&mut self, request: &GridRequest) -> After {
        // Only the first of several targets is used, because a grid measures one path to the storage.
        let mut targets = match super::targets::targets(&self.bus, &self.config.exe, &self.config.gpu, false) {
            Ok(targets) => targets,
            Err(why) => {
                self.bus.say(LogLevel::Error, why.clone());
                self.bus.emit(EventBody::GridPlanned { plan: request.plan.clone() });
                self.fail_rest(&request.plan, 0, &why);
                self.bus.emit(EventBody::GridEnded);
                return After::GoOn;
            }
        };
        if targets.len() > 1 {
            self.bus.say(LogLevel::Warn, format!("storage is measured for one target: {}", targets[0]));
        }
        let target = if targets.is_empty() { Target::Host } else { targets.swap_remove(0) };
        let mut plan = GridPlan { target: target.to_string(), ..request.plan.clone() };
        if request.able_only {
            if target == Target::Host {
                // Without a GPU as the destination of the copy, this transfer would be the same as 'cpu'.
                plan.cells.retain(|cell| cell.transfer != Transfer::CpuGpu);
            }
            if let Some(why) = self.cufile_obstacle(&target) {
                plan.cells.retain(|cell| !cell.transfer.uses_cufile());
                self.bus.say(LogLevel::Warn, format!("cuFile is left out: {why}"));
            }
        }
        self.bus.emit(EventBody::GridPlanned { plan: plan.clone() });
        let (cancel, cancelled) = bounded(1);
        let measured = self.while_listening(vec![cancel], || self.measure(&plan, request, target, &cancelled));
        let heard = match measured {
            Ok(((), heard)) => heard,
            Err(why) => {
                self.bus.say(LogLevel::Error, format!("nothing was measured: {why}"));
                self.fail_rest(&plan, 0, &why);
                Heard::default()
            }
        };
        self.bus.emit(EventBody::GridEnded);
        if heard.quit { After::Quit } else { After::GoOn }
    }

    fn measure(&self, plan: &GridPlan, request: &GridRequest, target: Target, cancelled: &Receiver<()>) {
        let size = crate::core::units::bytes(2 * plan.file_bytes);
        self.bus.say(
            LogLevel::Info,
            format!("writing {size} of test files into {}; they are removed at the end", plan.dir.display()),
        );
        let mut stopped = false;
        let mut reported = 0;
        let of_bytes = 2 * plan.file_bytes;
        let made = Files::make(&plan.dir, plan.file_bytes, request.seed, &mut |bytes| {
            stopped |= cancelled.try_recv().is_ok();
            if bytes - reported >= (of_bytes / 50).max(1) {
                reported = bytes;
                self.bus.emit(EventBody::GridFilesWritten { bytes, of_bytes });
            }
            !stopped
        });
        let files = match made {
            Ok(files) => files,
            Err(_) if stopped => {
                self.bus.say(LogLevel::Warn, "the measurement was cancelled before its first cell");
                return;
            }
            Err(error) => {
                self.bus.say(LogLevel::Error, error.to_string());
                self.fail_rest(plan, 0, &error.to_string());
                return;
            }
        };
        let sampler = self.sampler_on(&target, crate::telemetry::device_of(&plan.dir));
        let mut next = 0;
        while next < plan.cells.len() {
            let order = GridOrder {
                target: target.clone(),
                folder: (files.folder().0.to_owned(), files.folder().1),
                read_path: io::READ.into(),
                write_path: io::WRITE.into(),
                file_bytes: plan.file_bytes,
                cell_ns: plan.cell_ns,
                seed: request.seed,
                libcufile: request.libcufile.clone(),
                cells: (next as u32..).zip(plan.cells[next..].iter().copied()).collect(),
            };
            match self.grid_process(&order, &mut next, cancelled) {
                End::Finished => break,
                End::Cancelled => {
                    self.bus.say(LogLevel::Warn, "the measurement was cancelled; cells that had not ended are empty");
                    break;
                }
                // The cell at which the process failed gets an error as its result. The remaining cells are measured
                // by a new process.
                End::Broke(why) => {
                    let Some(key) = plan.cells.get(next) else { break };
                    let result = CellResult { died: true, ..CellResult::failed(*key, why) };
                    self.bus.emit(EventBody::GridCellDone { result });
                    next += 1;
                }
            }
        }
        drop(sampler);
        if let Err(error) = files.remove() {
            self.bus.say(LogLevel::Warn, error.to_string());
        }
    }

    fn fail_rest(&self, plan: &GridPlan, from: usize, why: &str) {
        for key in plan.cells.iter().skip(from) {
            self.bus.emit(EventBody::GridCellDone { result: CellResult::failed(*key, why) });
        }
    }

    /// Runs one process until it ends. `next` is the first cell without a result.
    fn grid_process(&self, order: &GridOrder, next: &mut usize, cancelled: &Receiver<()>) -> End {
        let mut child = match self.spawn_grid(order) {
            Ok(child) => child,
            Err(error) => return End::Broke(format!("the measuring process could not be started: {error}")),
        };
        let Some(stdout) = child.stdout.take() else {
            return End::Broke("the pipes of the measuring process could not be created".to_owned());
        };
        let (lines, messages) = bounded(64);
        let reader = Builder::new().spawn(move || {
            for line in lines_of(stdout) {
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
        if let Err(error) = reader {
            return End::Broke(units::no_thread(error));
        }
        let limit = Duration::from_nanos(order.cell_ns) + GRACE;
        let mut ended = None;
        while ended.is_none() {
            let line = select! {
                recv(messages) -> line => line.map_err(|_| RecvTimeoutError::Disconnected),
                recv(cancelled) -> _ => {
                    ended = Some(End::Cancelled);
                    continue;
                }
                default(limit) => Err(RecvTimeoutError::Timeout),
            };
            match line.map(|line| serde_json::from_str::<GridMessage>(&line)) {
                Ok(Ok(GridMessage::Started { cell })) => self.bus.emit(EventBody::GridCellStarted { cell }),
                Ok(Ok(GridMessage::Done { result })) => {
                    *next += 1;
                    self.bus.emit(EventBody::GridCellDone { result });
                }
                Ok(Ok(GridMessage::Failed { why })) => ended = Some(End::Broke(why)),
                Ok(Err(error)) => {
                    self.bus.say(
                        LogLevel::Warn,
                        format!("a message of the measuring process could not be parsed: {error}"),
                    );
                }
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!(
                        "no message arrived for {} s, so the process was killed; a hanging library call cannot be cancelled otherwise",
                        limit.as_secs()
                    );
                    ended = Some(End::Broke(why));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = match ended {
            Some(_) => child.end(),
            None => child.wait(PATIENCE).or_else(|| child.end()),
        };
        drop(messages);
        if let Some(ended) = ended {
            return ended;
        }
        let all = order.cells.last().is_none_or(|(last, _)| *next > *last as usize);
        if all && status.is_some_and(|s| s.success()) {
            return End::Finished;
        }
        let status = status.map_or_else(|| "an unknown status".to_owned(), |s| s.to_string());
        let tail = child.stderr_tail();
        let tail = if tail.is_empty() { tail } else { format!("; the end of its standard error: {tail}") };
        End::Broke(format!("the measuring process ended with {status}{tail}"))
    }

    fn spawn_grid(&self, order: &GridOrder) -> std::io::Result<ChildProcess> {
        let log = self.scratch.path().join("cufile.log");
        let mut command = Command::new(&self.config.exe);
        let mut child = ChildProcess::start(
            crate::trust::without_foreign_variables(&mut command).arg("__io").env("CUFILE_LOGFILE_PATH", log),
        )?;
        // The child reads the complete order before it writes anything, so a deadlock is not possible.
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&serde_json::to_vec(order)?)?;
        }
        Ok(child)
    }
}
