//! Door: arguments, mode, exit code.

mod args;

use crate::domain::EventBody;
use crate::engines;
use crate::session::live::{GpuChoice, SessionConfig};
use args::{Cli, RaceArgs, Sub};
use clap::Parser;
use std::process::ExitCode;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Sub::Lane) => ExitCode::from(engines::run_lane()),
        Some(Sub::ProbeCufile { scratch }) => {
            ExitCode::from(engines::probe::probe_cufile(&scratch.unwrap_or_else(std::env::temp_dir)))
        }
        Some(Sub::ProbeCuda) => ExitCode::from(engines::probe::probe_cuda()),
        Some(Sub::Load { models, race, .. }) => {
            for model in models {
                let mut c = config(&race);
                c.model = Some(model);
                c.checks = false;
                let feed = crate::session::live::start(c).unwrap();
                for e in feed.events.iter() {
                    match e.body {
                        EventBody::LaneFinished { result, .. } => {
                            eprintln!("{:>8.3} {}", e.at_ns as f64 / 1e9, serde_json::to_string(&result).unwrap())
                        }
                        EventBody::LaneSpans { .. }
                        | EventBody::LaneProgress { .. }
                        | EventBody::ModelOpened { .. } => {}
                        b => eprintln!("{:>8.3} {}", e.at_ns as f64 / 1e9, serde_json::to_string(&b).unwrap()),
                    }
                }
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(2),
    }
}

fn config(race: &RaceArgs) -> SessionConfig {
    let mut config = SessionConfig::new(std::env::current_exe().unwrap_or_default());
    config.engines = (!race.engine.is_empty()).then(|| race.engine.clone());
    if !race.cache.is_empty() {
        config.caches.clone_from(&race.cache);
    }
    config.repeat = race.repeat;
    config.gpu = match race.gpu.as_deref() {
        None => GpuChoice::Auto,
        Some("host") => GpuChoice::Host,
        Some(text) => text.parse().map_or_else(|_| GpuChoice::Uuid(text.to_owned()), GpuChoice::Index),
    };
    config.verify = !race.no_verify;
    config.telemetry = !race.no_telemetry;
    config.knobs = race.settings.iter().cloned().collect();
    config.record.clone_from(&race.record);
    config
}
