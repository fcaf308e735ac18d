//! The command `export`: serves the results of the checks to Prometheus over HTTP.

use super::check::as_state;
use super::outcome::{FINE, Ran, note};
use super::view::{examined, live_view};
use crate::checks;
use crate::headless::MetricsServer;
use crate::report;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// The arguments of `export`.
#[derive(Debug, Args)]
pub(super) struct ExporterArgs {
    /// Files or directories of models (default: the working directory)
    paths: Vec<PathBuf>,
    /// Serve /metrics at this address. By default only this machine can reach it
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9469")]
    listen: String,
    /// Reuse the results of the checks for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    max_age: u64,
}

/// Serves metrics until a signal arrives. A request runs the checks. CUDA is not opened, and no model is read.
pub(super) fn run(args: &ExporterArgs) -> Ran {
    let examine = || {
        let view = live_view(false)?;
        let _kept = view.keep_reads();
        let paths = examined(&view, &args.paths)?;
        let found = checks::run(&view, &paths, None, &mut |_| {});
        let mut text = Vec::new();
        report::write_metrics(&as_state(&view, &found), &mut text).map_err(|error| error.to_string())?;
        Ok::<_, String>(text)
    };
    // A missing path makes the command fail at the start. Otherwise it would serve an empty page later.
    let mut last = (Instant::now(), examine()?);
    let server =
        MetricsServer::bind(&args.listen).map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
        .map_err(|error| format!("signals cannot be received: {error}"))?;
    let signal = Arc::new(AtomicI32::new(0));
    let (stop, seen) = (server.stopper(), signal.clone());
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                seen.store(signal, Ordering::SeqCst);
                stop();
            }
        })
        .map_err(|error| format!("no thread for signals: {error}"))?;
    let address = server.address().map_or_else(|| args.listen.clone(), |address| address.to_string());
    note(&format!("metrics are at http://{address}/metrics"));
    let longest = Duration::from_secs(args.max_age);
    server.run(|| {
        if last.0.elapsed() >= longest {
            match examine() {
                Ok(text) => last = (Instant::now(), text),
                // The timestamp in the old page shows its age.
                Err(error) => note(&error),
            }
        }
        last.1.clone()
    });
    Ok(if signal.load(Ordering::SeqCst) == SIGINT { super::outcome::INTERRUPTED } else { FINE })
}
