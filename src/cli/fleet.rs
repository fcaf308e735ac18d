//! The command `fleet`: merges the reports of many nodes.

use super::args::ResultArgs;
use super::outcome::{BAD_ANSWER, FINE, Ran, print_coloured, print_file, print_json};
use super::terminal::{columns, headless_options};
use crate::fleet::{self, Fleet};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The arguments of `fleet`.
#[derive(Debug, Args)]
pub(super) struct FleetArgs {
    /// Reports that check, bench, bench-kv and bench-io wrote with --json: files, directories of .json and .jsonl files, or - for standard input
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Format of the result
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    format: Format,
    #[command(flatten)]
    output: ResultArgs,
}

/// The formats of a fleet report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for a terminal, with at most 40 rows per list
    Text,
    /// One HTML page with all rows
    Html,
    /// JSON with all rows
    Json,
    /// CSV with one row per node
    Csv,
}

/// Prints the report of the fleet. The exit status is 1 if a node has no route or no verdict, or if a file
/// could not be read.
pub(super) fn run(args: &FleetArgs) -> Ran {
    let output = args.output.output();
    let fleet = Fleet::read(&args.paths).map_err(|error| error.to_string())?;
    let printed = match args.format {
        Format::Json => print_json(&fleet::json(&fleet)),
        Format::Text if output.json => print_json(&fleet::json(&fleet)),
        Format::Text => {
            let colour = headless_options(&output, None).colour;
            print_coloured(&fleet::text(&fleet, columns(), colour), colour)
        }
        Format::Html => print_file(fleet::html(&fleet).as_bytes()),
        Format::Csv => {
            let mut rows = Vec::new();
            fleet::csv(&fleet, &mut rows).map_err(|error| format!("the table could not be written: {error}"))?;
            print_file(&rows)
        }
    };
    let answer = if fleet.is_fine() { FINE } else { BAD_ANSWER };
    Ok(printed.max(answer))
}
