//! Prepares the page cache before a command. A lane process makes it cold or hot and measures it.

use super::lines::LineStream;
use crate::core::{EventBody, LaneId, LaneOrder, RunResult, units};
use crate::engines::protocol::{Frame, LaneMessage};
use crate::session::live::bus::Bus;
use crate::session::live::child::{ChildProcess, PATIENCE};
use crossbeam_channel::{Receiver, select};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread::Builder;

/// The result of preparing the page cache.
pub(super) enum Prepared {
    Ready(Box<RunResult>),
    Cancelled,
    Failed(String, String),
}

/// Starts a lane process that makes the page cache cold or hot and measures it. This process does not run the
/// command.
pub(super) fn prepare(bus: &Bus, exe: &Path, lane: LaneId, order: &LaneOrder, cancel: &Receiver<()>) -> Prepared {
    let lost = |what: String| Prepared::Failed(format!("the page cache could not be prepared: {what}"), String::new());
    let mut child = match ChildProcess::start(Command::new(exe).arg("__lane")) {
        Ok(child) => child,
        Err(error) => return lost(error.to_string()),
    };
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return lost("no pipes".to_owned());
    };
    bus.emit(EventBody::LaneStarted { lane, pid: child.id() });
    let text = serde_json::to_vec(order).unwrap_or_default();
    let writer = Builder::new().spawn(move || {
        let _ = stdin.write_all(&text);
    });
    let stream = LineStream::start(stdout);
    let lines = match (writer, stream) {
        (Ok(_), Ok(stream)) => stream.lines,
        (Err(error), _) | (_, Err(error)) => return lost(units::no_thread(error)),
    };
    let mut result = None;
    let ended = loop {
        select! {
            recv(cancel) -> _ => break false,
            recv(lines) -> line => match line.ok().map(|(_, line)| serde_json::from_str::<Frame>(&line)) {
                None => break true,
                Some(Ok(Frame { message: LaneMessage::Stage { stage }, at_monotonic_ns })) => {
                    bus.emit_at(at_monotonic_ns, EventBody::LaneStage { lane, stage });
                }
                Some(Ok(Frame { message: LaneMessage::Finished { result: page_cache_result }, .. })) => result = Some(page_cache_result),
                Some(_) => {}
            },
        }
    };
    if !ended || child.wait(PATIENCE).is_none() {
        child.end();
    }
    match result {
        _ if !ended => Prepared::Cancelled,
        Some(result) => Prepared::Ready(Box::new(result)),
        None => Prepared::Failed("the process that prepares the page cache died".to_owned(), child.stderr_tail()),
    }
}
