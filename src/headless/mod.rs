//! A session without screens. Progress and errors are written to standard error, the result to standard output at the
//! end.

mod options;
mod progress;
mod serve;

use crate::core::{ProgramEnd, Route, Status};
use crate::present::headline;
use crate::report::{self, ExportError};
use crate::session::{Command, Feed, Group, Lane, LaneStatus, State};
use crate::text::{fitted, sanitise_line};
use crossbeam_channel::RecvTimeoutError;
pub use options::{Asked, FirstTask, Options};
pub use progress::Progress;
pub use serve::MetricsServer;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// The outcome of a session.
#[derive(Debug)]
pub struct Outcome {
    /// The final state.
    pub state: State,
    /// The exit status as `gds-top --help` lists it: 0, 1, 2, 3 or 130.
    pub exit: u8,
    /// The paths of the exported files.
    pub exported: Vec<PathBuf>,
}

/// The interval between two redraws of a progress bar if no event arrives.
const TICK: Duration = Duration::from_millis(100);

/// Follows a session to its end. A closed pipe on either stream does not end it.
///
/// The directory of the export is tested before the first event. If it is not writable, the session ends with exit
/// status 2.
pub fn run(feed: &Feed, options: &Options, out: &mut impl Write, err: &mut impl Write) -> Outcome {
    run_observed(feed, options, &mut |_| {}, out, err)
}

/// Like [`run`]. `observe` gets the state after each event.
pub fn run_observed(
    feed: &Feed,
    options: &Options,
    observe: &mut dyn FnMut(&State),
    out: &mut impl Write,
    err: &mut impl Write,
) -> Outcome {
    let mut state = State::default();
    if let Some(Err(e)) = options.export.as_ref().map(|(folder, formats)| report::prepare(folder, formats)) {
        say(err, options, &e.to_string());
        // The session may have ended already.
        let _ = feed.commands.send(Command::Quit);
        // The session ends the programs that it started.
        while feed.events.recv().is_ok() {}
        return Outcome { state, exit: 2, exported: Vec::new() };
    }
    let mut progress = Progress::new(options);
    loop {
        match feed.events.recv_timeout(TICK) {
            Ok(event) => {
                state.reduce(&event);
                progress.event(&state, &event, err);
                observe(&state);
            }
            Err(RecvTimeoutError::Timeout) => progress.tick(&state, err),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    progress.clear(err);
    if let Some(why) = feed.refused.get() {
        say(err, options, why);
        return Outcome { state, exit: 2, exported: Vec::new() };
    }
    let mut exit = exit_code_of(&state, &options.asked);
    if state.ended.is_none() {
        say(err, options, headline::UNEXPECTED_END);
        exit = exit.max(1);
    }
    if feed.unrecorded.get().is_some() {
        exit = exit.max(3);
    }
    if options.json && !state.earlier.is_empty() {
        let all = state.earlier.len() + 1;
        say(
            err,
            options,
            &format!(
                "{all} plans ran in this session; the result is that of the last, {}, and --export writes all",
                state.race_title()
            ),
        );
    }
    match print_result(&state, options, feed.replay, out) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            say(err, options, &format!("the result could not be written to standard output: {e}"));
            exit = exit.max(2);
        }
        _ => {}
    }
    let exported = match export(&state, options) {
        Ok(files) => files,
        Err(e) => {
            say(err, options, &e.to_string());
            exit = exit.max(2);
            Vec::new()
        }
    };
    if !options.quiet {
        exported.iter().for_each(|file| say(err, options, &format!("wrote {}", file.display())));
    }
    Outcome { state, exit, exported }
}

fn say(err: &mut impl Write, options: &Options, text: &str) {
    let line = format!("gds-top: {}", sanitise_line(text));
    // If standard error is closed, there is no other place for the message.
    let _ = writeln!(err, "{}", fitted(&line, options.edge()));
}

/// Writes the result of a session that has ended. `replay` is whether it comes from a recording.
///
/// # Errors
///
/// If the output cannot be written.
pub fn print_result(state: &State, options: &Options, replay: bool, out: &mut impl Write) -> io::Result<()> {
    let text = |state: &State| match () {
        _ if options.quiet && !options.full => report::brief(state, options.width, options.colour),
        // A recording is often read on another machine, so the report includes the machine that it was made on.
        _ if options.verbose || replay => report::full_text(state, options.width, options.colour),
        _ => report::text(state, options.width, options.colour),
    };
    if options.json {
        report::write_json(state, &mut *out)?;
    } else {
        for page in &state.earlier {
            out.write_all(format!("== {}\n\n", sanitise_line(&page.race_title())).as_bytes())?;
            out.write_all(text(page).as_bytes())?;
            out.write_all(b"\n")?;
        }
        if !state.earlier.is_empty() {
            out.write_all(format!("== {}\n\n", sanitise_line(&state.race_title())).as_bytes())?;
        }
        out.write_all(text(state).as_bytes())?;
    }
    out.flush()
}

fn export(state: &State, options: &Options) -> Result<Vec<PathBuf>, ExportError> {
    match &options.export {
        Some((folder, formats)) => report::export(state, folder, formats),
        None => Ok(Vec::new()),
    }
}

/// The exit status of a session in which the user named engines or targets.
#[must_use]
pub fn exit_code_of(state: &State, asked: &Asked) -> u8 {
    match exit_code(state) {
        0 if asked.is_missing(state) => 3,
        0 | 1 if asked.has_no_model(state) => 3,
        exit => exit,
    }
}

/// The exit status of a session:
/// - 130: interrupted
/// - 1: wrong bytes, or a failing check blocks the route in use or every route
/// - 3: nothing could be run
/// - 0: success
///
/// A machine without a GPU has no route to check, so only its runs decide.
#[must_use]
pub fn exit_code(state: &State) -> u8 {
    if state.ended == Some(true) {
        return 130;
    }
    if state.earlier.iter().any(|page| exit_code(page) == 1) {
        return 1;
    }
    if state.lanes.iter().any(|l| l.result.as_deref().is_some_and(|r| r.verified == Some(false))) {
        return 1;
    }
    if let Some(grid) = &state.grid {
        let results = || grid.results.iter().flatten();
        if results().any(|r| r.verified == Some(false)) {
            return 1;
        }
        return if results().any(|r| r.error.is_none()) { 0 } else { 3 };
    }
    if let Some(report) = &state.watch {
        return u8::from(!matches!(report.ended, None | Some(ProgramEnd::Status(0) | ProgramEnd::Unknown)));
    }
    let tried = !state.lanes.is_empty() || !state.unavailable.is_empty();
    // The parts of a model count as one run.
    let alone = |lane: &Lane| lane.share.as_ref().is_none_or(|share| share.part.is_none());
    let done = |lane: &Lane| lane.status == LaneStatus::Done;
    let complete = |group: &Group<'_>| group.is_one_model() && group.lanes.iter().all(|lane| done(lane));
    if tried && !state.lanes.iter().any(|l| alone(l) && done(l)) && !state.groups().iter().any(complete) {
        return 3;
    }
    let bad = state.verdicts.iter().filter(|v| v.gpu.is_some() || !tried).any(|v| {
        state.checks.iter().filter(|f| f.status == Status::Fail).any(|f| {
            f.blocks.contains(&v.route)
                || v.route == Route::None && (!f.blocks.is_empty() || v.blockers.contains(&f.id))
        })
    });
    u8::from(bad)
}
