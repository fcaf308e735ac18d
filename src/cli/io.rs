//! The command `bench-io`: a grid of storage measurements.

use super::args::{Export, OutputArgs};
use super::outcome::{COULD_NOT_RUN, Ran, fail, has_terminal, not_started};
use super::{consent, race, settings};
use crate::core::units::{GIB, KIB, MIB, bytes};
use crate::core::{Access, GridPlan, Pattern, Transfer};
use crate::session::REAL_TIME;
use crate::session::live::{self, GridRequest, SessionConfig};
use crate::trust::Destination;
use crate::tui;
use crate::workloads::io::{self, FilesError};
use clap::Args;
use std::path::PathBuf;

/// The maximum number of cells. At half a second each, they take more than an hour.
const MOST_CELLS: usize = 10_000;

/// The arguments of `bench-io`.
#[derive(Clone, Debug, Args)]
pub(super) struct IoArgs {
    /// A directory on the storage to measure; two files are created in a new directory inside it and removed at the end
    dir: PathBuf,
    /// Bytes of an operation, multiples of 4K; suffixes K, M, G are binary
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "4K,64K,1M,16M", value_parser = size)]
    size: Vec<u64>,
    /// Threads, each with one operation at a time
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,4,16", value_parser = clap::value_parser!(u32).range(1..=512))]
    threads: Vec<u32>,
    /// Transfer: gds-registered, gds, cpu-gpu, cpu (default: all that can run on this machine)
    #[arg(long, value_name = "TRANSFERS", value_delimiter = ',')]
    transfer: Vec<Transfer>,
    /// Access: read, write
    #[arg(long, value_name = "ACCESSES", value_delimiter = ',', default_value = "read,write")]
    access: Vec<Access>,
    /// Access pattern: sequential, random
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', default_value = "sequential,random")]
    pattern: Vec<Pattern>,
    /// Bytes of each of the two files (default: four of the largest operations for each thread, at least 1G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    file_size: Option<u64>,
    /// Seconds for each cell
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// GPU by index or UUID, or 'host' for host memory
    #[arg(long = "target", visible_alias = "gpu", value_name = "INDEX|UUID|host")]
    gpu: Option<String>,
    /// Write more than 1 GiB without asking
    #[arg(long)]
    yes: bool,
    /// No screens, also on a terminal
    #[arg(long)]
    headless: bool,
    /// Record the session. The recording is FILE.partial until the session ends and then replaces an earlier
    /// recording, but no other file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Parses a size: `64K` is 65 536.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text
        .trim_end_matches(['i', 'B', 'b'])
        .split_at_checked(text.trim_end_matches(['i', 'B', 'b']).len().saturating_sub(1))
    {
        Some((digits, "k" | "K")) => (digits, KIB),
        Some((digits, "m" | "M")) => (digits, MIB),
        Some((digits, "g" | "G")) => (digits, GIB),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| *n > 0);
    match bytes {
        Some(bytes) if bytes.is_multiple_of(4096) => Ok(bytes),
        Some(bytes) => {
            Err(format!("{bytes} bytes is not a multiple of 4096; O_DIRECT and cuFile's direct routes need one"))
        }
        None => Err(format!("'{text}' is not a size; write 4096, 64K, 1M or 16MiB")),
    }
}

pub(super) fn run(args: &IoArgs, export: Option<Export>, output: &OutputArgs) -> Ran {
    let config = match config(args)? {
        Ok(config) => config,
        Err(status) => return Ok(status),
    };
    let screens = !args.headless && !output.json && !output.quiet && has_terminal();
    if !screens {
        return race::follow(config, output, export, None);
    }
    let look = settings::look(output)?;
    match live::start(SessionConfig { end_after_race: false, ..config }) {
        Ok(feed) => race::screens(feed, look, tui::ScreenId::Race, REAL_TIME, export),
        Err(error) => not_started(&error),
    }
}

/// The session of the arguments. The inner error is the exit status if it cannot run.
fn config(args: &IoArgs) -> Result<Result<SessionConfig, u8>, String> {
    let load = super::args::LoadArgs { gpu: args.gpu.clone(), ..super::args::LoadArgs::default() };
    let race = super::args::RaceArgs { record: args.record.clone(), ..load.into() };
    let mut config = race::config(&race)?;
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(format!("--seconds must be above 0 and at most 3600, not {}", args.seconds));
    }
    let transfers = if args.transfer.is_empty() { Transfer::ALL } else { &args.transfer };
    let cells = GridPlan::cells_of(transfers, &args.access, &args.pattern, &args.size, &args.threads);
    if cells.len() > MOST_CELLS {
        return Err(format!("the grid has {} cells; at most {MOST_CELLS} can be measured at once", cells.len()));
    }
    let most_threads = args.threads.iter().copied().max().unwrap_or(1);
    let largest = args.size.iter().copied().max().unwrap_or(MIB);
    let least = largest.saturating_mul(u64::from(most_threads));
    let file_bytes = args.file_size.unwrap_or_else(|| least.saturating_mul(4).max(GIB));
    if file_bytes < least {
        return Err(format!(
            "--file-size {} is too small for {most_threads} threads with {} each; it must be at least {}",
            bytes(file_bytes),
            bytes(largest),
            bytes(least)
        ));
    }
    if !consent::to_create(&args.dir, args.yes)? {
        return Ok(Err(consent::declined()));
    }
    match io::room_for(&args.dir, file_bytes) {
        Ok(()) => {}
        Err(error @ FilesError::NoRoom { .. }) => return Ok(Err(fail(COULD_NOT_RUN, &error.to_string()))),
        Err(error) => return Err(error.to_string()),
    }
    let real = Destination::open(&args.dir).and_then(|folder| folder.real());
    let dir = real.map_err(|e| format!("{} cannot be resolved: {e}", args.dir.display()))?;
    // One file is read and the other is written.
    if !consent::to_write(file_bytes.saturating_mul(2), &dir, args.yes)? {
        return Ok(Err(consent::declined()));
    }
    config.checks = false;
    config.grid = Some(GridRequest {
        plan: GridPlan { dir, target: String::new(), file_bytes, cell_ns: (args.seconds * 1e9) as u64, cells },
        able_only: args.transfer.is_empty(),
        libcufile: None,
        seed: 0x6764_735f_746f_7000,
    });
    Ok(Ok(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_multiples_of_a_page() {
        for (text, bytes) in [("4096", 4096), ("64K", 65536), ("1M", MIB), ("16MiB", 16 * MIB), ("2g", 2 * GIB)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, part) in [
            ("5000", "multiple"),
            ("1", "multiple"),
            ("", "not a size"),
            ("0", "not a size"),
            ("K", "not a size"),
            ("-4K", "not a size"),
            ("99999999999G", "not a size"),
        ] {
            let said = size(text);
            assert!(said.as_ref().is_err_and(|e| e.contains(part)), "{text}: {said:?}");
        }
    }
}
