//! Door: arguments, mode, exit code.

mod args;
mod capture;
mod check;
mod config;
mod fix;
mod io;
mod learn;
mod models;
mod outcome;
mod pictures;
mod predict;
mod race;
mod recordings;
mod selftest;
mod sweep;

use crate::{engines, iogrid};
use args::{Cli, Sub};
use clap::{CommandFactory, Parser};
use outcome::{BAD_CALL, fail};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The program. Everything that went wrong has been said on standard error when this returns.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let status = match cli.command {
        Some(Sub::Lane) => engines::run_lane(),
        Some(Sub::GridProcess) => iogrid::run_grid(),
        Some(Sub::Io { io, output }) => io::run(&io, &output),
        Some(Sub::ProbeCufile { scratch }) => engines::probe::probe_cufile(&scratch.unwrap_or_else(std::env::temp_dir)),
        Some(Sub::ProbeRead { path, gpu, allow_compat, scratch }) => {
            let scratch = scratch.unwrap_or_else(std::env::temp_dir);
            engines::probe_read::probe_read(&path, &gpu, allow_compat, &scratch)
        }
        Some(Sub::ProbeCuda) => engines::probe::probe_cuda(),
        Some(Sub::Pictures { dir, machine }) => pictures::write(&dir, &machine),
        Some(Sub::Load { models, sweep: true, race, output }) => {
            models.iter().map(|model| sweep::run(model, &race, &output)).max().unwrap_or(0)
        }
        Some(Sub::Load { models, sweep: false, race, output }) => race::load(&models, &race, &output),
        Some(Sub::Synth { profile, dir, scale, seed, list, output }) => {
            models::synth(profile.as_deref().zip(dir.as_deref()), scale, seed, list, &output)
        }
        Some(Sub::Inspect { model, predict: true, from, output }) => predict::run(&model, &from, &output),
        Some(Sub::Inspect { model, output, .. }) => models::inspect(&model, &output),
        Some(Sub::Replay { recording, speed, headless, output }) => {
            recordings::replay(&recording, speed, headless, &output)
        }
        Some(Sub::Learn { model, export, theme, race }) => {
            let output = args::OutputArgs { theme, ..args::OutputArgs::default() };
            learn::run(model, export.as_deref(), &race, &output)
        }
        Some(Sub::Report { recordings, output }) => recordings::report(&recordings, &output),
        Some(Sub::Selftest { race, output }) => selftest::run(&race, &output),
        Some(Sub::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gds-top", &mut text);
            outcome::print(&text)
        }
        Some(Sub::Man) => {
            let mut text = Vec::new();
            match clap_mangen::Man::new(Cli::command()).render(&mut text) {
                Ok(()) => outcome::print(&text),
                Err(error) => fail(BAD_CALL, &format!("the manual page could not be made: {error}")),
            }
        }
        Some(Sub::Config { action }) => config::run(action),
        Some(Sub::Capture { file, paths, output }) => capture::run(&file, &paths, &output),
        Some(Sub::Check { paths, root, no_probe, output }) => check::run(&paths, root.as_deref(), !no_probe, &output),
        Some(Sub::Fix { ids, dry_run, yes, undo, list, path, output }) => {
            let mode = match (dry_run, yes, undo, list) {
                (true, ..) => fix::Mode::DryRun,
                (_, true, ..) => fix::Mode::Yes,
                (_, _, true, _) => fix::Mode::Undo,
                (_, _, _, true) => fix::Mode::List,
                _ => fix::Mode::Ask,
            };
            fix::run(&ids, mode, path.as_deref(), &output)
        }
        None if cli.headless => race::headless(cli.model, &cli.race, &cli.output),
        None if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() => fail(
            BAD_CALL,
            "the interactive program needs a terminal on standard input and output; use 'gds-top --headless', 'gds-top check' or 'gds-top load MODEL' \
             without one",
        ),
        None => race::interactive(cli.model, &cli.race, &cli.output),
    };
    // Buffers are empty here; a reader that went away is no error of ours.
    let _ = std::io::stdout().flush();
    ExitCode::from(status)
}
