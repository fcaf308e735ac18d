//! The command `top`: lists the processes that use cuFile and GPUs, or shows them on the System screen.

use super::args::{ResultArgs, ScreenArgs};
use super::outcome::{
    COULD_NOT_RUN, FINE, INTERRUPTED, Ran, fail, has_terminal, print_coloured, print_file, reader_left,
};
use super::race::{ended_by_signals, screens};
use super::settings;
use super::terminal::{columns, headless_options};
use crate::core::SystemSample;
use crate::present::top;
use crate::report;
use crate::session::live::{self, SessionConfig};
use crate::session::{Feed, REAL_TIME};
use crate::telemetry::SystemWatch;
use crate::tui::ScreenId;
use clap::Args;
use crossbeam_channel::RecvTimeoutError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The interval at which signals are polled.
const TICK: Duration = Duration::from_millis(100);

/// The options of `top`.
#[derive(Clone, Debug, Args)]
pub(super) struct TopArgs {
    /// Print the rows once, after half a second of counting, and end. Without it, a terminal shows the System screen alone;
    /// elsewhere, and with --plain or --json, they are printed every two seconds until Ctrl-C
    #[arg(long)]
    once: bool,
    /// Print the text format of Prometheus once, for the textfile collector
    #[arg(long, conflicts_with = "json")]
    prom: bool,
    #[command(flatten)]
    output: ResultArgs,
    #[command(flatten)]
    look: ScreenArgs,
}

pub(super) fn run(args: &TopArgs) -> Ran {
    let output = args.output.on(&args.look);
    let on_screen = !(args.once || args.prom || output.json || output.plain) && has_terminal();
    if let Some(option) = output.without_effect_on_text().filter(|_| !on_screen) {
        return Err(format!(
            "{option} is for the System screen, which needs a terminal and none of --once, --prom, --json and --plain"
        ));
    }
    if on_screen {
        let look = settings::look(&output)?;
        return screens(feed()?, look, ScreenId::System, REAL_TIME, None);
    }
    let (sender, samples) = crossbeam_channel::unbounded();
    let watch = SystemWatch::start(move |sample| _ = sender.send(sample));
    if let Err(error) = &watch {
        return Ok(fail(COULD_NOT_RUN, &format!("the machine cannot be watched: {error}")));
    }
    let ended = ended_by_signals();
    let mut first = true;
    loop {
        match samples.recv_timeout(TICK) {
            // The first sample has no rates.
            Ok(_) if std::mem::take(&mut first) => {}
            Ok(sample) => {
                let status = show(&sample, args);
                if args.once || args.prom || status != FINE || reader_left() {
                    return Ok(status);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(fail(COULD_NOT_RUN, "the thread that reads the machine ended"));
            }
        }
        if ended.load(Ordering::Relaxed) {
            // Ctrl-C is the normal end if there is no limit.
            return Ok(if args.once || args.prom { INTERRUPTED } else { FINE });
        }
    }
}

/// A session that only looks. It uses no engine and no other setting of a benchmark.
fn feed() -> Result<Feed, String> {
    let exe = std::env::current_exe().map_err(|error| format!("the file of this program cannot be found: {error}"))?;
    let mut config = SessionConfig::new(exe);
    config.checks = false;
    config.race = false;
    config.looks_only = true;
    config.end_after_race = false;
    live::start(config).map_err(|error| error.to_string())
}

fn show(sample: &SystemSample, args: &TopArgs) -> u8 {
    if args.prom {
        return print_file(report::top_metrics(sample).as_bytes());
    }
    let output = args.output.output();
    if output.json {
        // Each sample is one line, so that scripts can read it line by line.
        return print_file(format!("{}\n", report::top_json(sample)).as_bytes());
    }
    let colour = headless_options(&output, None).colour;
    print_coloured(&report::top_text(&top::answer(sample), top::tables(sample), columns(), colour), colour)
}
