//! `watch`: what GDS does in any program.

use super::args::{ExportArgs, RunArgs};
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, Ran, fail, note};
use super::race;
use crate::analysis::is_proven_direct;
use crate::session::live::{self, WatchTarget};
use crate::watch::Launch;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The program to watch.
#[derive(Clone, Debug, Args)]
pub(super) struct WatchArgs {
    /// The program and its arguments, after '--'
    #[arg(required_unless_present = "pid", last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Show a running process instead, from procfs: its libcufile, files and reads. Its calls cannot be recorded
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "statistics", "require"], value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// With --pid: stop after this time (default: when the process ends, or at Ctrl-C)
    #[arg(long, value_name = "SECONDS", requires = "pid", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Enable libcufile's level-3 statistics in the program; they prove the route of its transfers (libcufile 1.15 or
    /// later)
    #[arg(long)]
    statistics: bool,
    /// Exit with status 1 unless a direct route is proven for every transfer; implies --statistics
    #[arg(long, value_name = "ROUTE")]
    require: Option<Require>,
    /// Record the session. The recording is FILE.partial until the session ends and then replaces an earlier
    /// recording, but no other file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    output: RunArgs,
}

/// The requirement for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Require {
    /// Every transfer takes a proven direct route
    Direct,
}

pub(super) fn run(args: WatchArgs) -> Ran {
    let output = args.output.output();
    let target = match args.pid {
        Some(pid) => WatchTarget::Process(pid, args.seconds.map(Duration::from_secs)),
        None => WatchTarget::Launch(Launch {
            command: args.command,
            statistics: args.statistics || args.require.is_some(),
            // Only the result is on standard output.
            output_to_stderr: output.json,
        }),
    };
    let feed = match live::watch(&target, args.record.as_deref()) {
        Ok(feed) => feed,
        Err(error) => return Ok(fail(COULD_NOT_RUN, &error.to_string())),
    };
    let outcome = race::follow_feed(&feed, &output, args.export.plan());
    let met = match (args.require, outcome.state.watch.as_deref()) {
        (Some(Require::Direct), Some(report)) => is_proven_direct(report) == Some(true),
        (Some(_), None) => false,
        (None, _) => true,
    };
    if !met {
        note("--require direct is not met: a direct route is not proven for every cuFile transfer of the program");
    }
    Ok(outcome.exit.max(if met { FINE } else { BAD_ANSWER }))
}
