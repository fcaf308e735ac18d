//! The command line, as `interface.md` fixes it.

use crate::domain::{CacheState, Engine};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Tells whether GPUDirect Storage works here, what to fix and how, and what it buys for your model; and shows the load happening.
#[derive(Debug, Parser)]
#[command(
    name = "gds-top",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Sizes are binary (1 MiB = 1 048 576 bytes), rates are decimal (1 GB/s = 1 000 000 000 bytes a second).\n\
                  Exit status: 0 fine, 1 the answer is bad, 2 the call or the input is wrong, 3 nothing could be run, 130 interrupted."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Sub>,
    /// A .safetensors file, a folder of shards, an index.json, a Hugging Face repo id in the local cache, or a shape profile by name
    /// (qwen3-0.6b). Without it: a small synthetic model, made on first use
    pub(super) model: Option<String>,
    /// Checks, then the race, then a report; needs no terminal
    #[arg(long)]
    pub(super) headless: bool,
    #[command(flatten)]
    pub(super) race: RaceArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(super) enum Sub {
    /// Checks only: the verdict for each PATH (default: the working directory)
    Check {
        /// Files or folders that models are read from
        paths: Vec<PathBuf>,
        /// Examine a captured machine: a folder or archive written by 'capture'
        #[arg(long, value_name = "DIR|ARCHIVE")]
        root: Option<PathBuf>,
        /// Do not prove the route with a read into GPU memory; CUDA is then not opened
        #[arg(long)]
        no_probe: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Plan fixes and apply those that are consented to, one by one
    Fix {
        /// Ids of fixes or of the checks that they mend (default: all that apply); nvidia-gds: the whole way as a checklist
        ids: Vec<String>,
        /// Show what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Apply without asking
        #[arg(long, conflicts_with = "dry_run")]
        yes: bool,
        /// Undo what was applied
        #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
        undo: bool,
        /// List fixes: planned, applied, undone
        #[arg(long)]
        list: bool,
        /// The path whose reads are to work (default: the working directory)
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// cufile.json: lint it, show what is in effect, make one for a model, compare
    Config {
        #[command(subcommand)]
        action: ConfigSub,
    },
    /// Write what the checks read on this machine as one archive, redacted, for examining elsewhere
    Capture {
        /// A folder, or an archive whose name ends in .tar.zst
        file: PathBuf,
        /// Files or folders that models are read from (default: the working directory)
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// The race without checks
    Load {
        /// Models, raced one after another
        #[arg(required = true)]
        models: Vec<String>,
        /// Find the best settings of pread, direct and gds-slab (or the engines named) by changing one at a time, and print them with
        /// the reason and the command that uses them
        #[arg(long, conflicts_with_all = ["record", "export", "no_verify"])]
        sweep: bool,
        #[command(flatten)]
        race: RaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// What the storage under DIR gives: size × threads × read and write × sequential and random × transfer, as a heat map
    Io {
        #[command(flatten)]
        io: super::io::IoArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Write a synthetic model with a real model's tensor names, shapes and types
    Synth {
        /// Shape profile (see --list)
        #[arg(required_unless_present = "list")]
        profile: Option<String>,
        /// Folder to write it to
        #[arg(required_unless_present = "list")]
        dir: Option<PathBuf>,
        /// Shrink (or grow, to 4) every tensor's first dimension by this factor
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Seed of the random bytes
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// List the profiles
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Tensors, shards, size histogram, alignment, read plan, predicted load times
    Inspect {
        /// The model
        model: String,
        /// Predict what each engine takes to load it, from recorded loads; MODEL may be a shape profile by name, without files
        #[arg(long)]
        predict: bool,
        /// Predict from these recordings or report.json files (default: the shipped recordings of an H200)
        #[arg(long, value_name = "FILE", requires = "predict")]
        from: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// The interactive program on a recording
    Replay {
        /// The recording
        recording: PathBuf,
        /// Times real time; 0 is as fast as possible
        #[arg(long, default_value_t = 1.0)]
        speed: f64,
        /// Print the report instead of showing screens
        #[arg(long)]
        headless: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Why GDS can be slower on a small model: a lesson on recorded loads
    Learn {
        /// A model to measure beside the lesson
        model: Option<String>,
        /// Write the lesson as one HTML file
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
        /// Theme: dark, light, high-contrast, colour-blind, mono
        #[arg(long, value_name = "NAME")]
        theme: Option<String>,
        #[command(flatten)]
        race: RaceArgs,
    },
    /// Render reports again from recordings
    Report {
        /// The recordings
        #[arg(required = true)]
        recordings: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Prove on this hardware that every available engine lands the right bytes
    Selftest {
        #[command(flatten)]
        race: RaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    #[command(name = "__lane", hide = true)]
    Lane,
    #[command(name = "__io", hide = true)]
    GridProcess,
    #[command(name = "__probe-cufile", hide = true)]
    ProbeCufile {
        /// Folder for the library's log
        scratch: Option<PathBuf>,
    },
    #[command(name = "__probe-read", hide = true)]
    ProbeRead {
        /// A file, or a folder with one
        path: PathBuf,
        /// UUID of the GPU
        gpu: String,
        /// Allow compat mode
        #[arg(long)]
        allow_compat: bool,
        /// Folder for the library's log
        #[arg(long)]
        scratch: Option<PathBuf>,
    },
    #[command(name = "__probe-cuda", hide = true)]
    ProbeCuda,
    #[command(name = "__pictures", hide = true)]
    Pictures {
        /// Folder to write them to
        dir: PathBuf,
        /// The captured machine whose environment is shown
        #[arg(long, value_name = "DIR")]
        machine: PathBuf,
    },
}

/// What to do with cufile.json.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigSub {
    /// What is wrong in it (default: /etc/cufile.json and the file that CUFILE_ENV_PATH_JSON names)
    Lint {
        /// The file
        file: Option<PathBuf>,
        /// A model that is to be loaded, for limits that it would exceed
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// Lint the files of a captured machine
        #[arg(long, value_name = "DIR|ARCHIVE")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// The value of every key and where it comes from
    Show {
        /// A file to read as if CUFILE_ENV_PATH_JSON named it
        file: Option<PathBuf>,
        /// Show those of a captured machine
        #[arg(long, value_name = "DIR|ARCHIVE")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// A file with only the keys that matter for a model on this machine, each with its reason
    Tune {
        /// The model
        model: String,
        /// Write the file here
        #[arg(long = "output", short = 'o', value_name = "FILE")]
        output_file: Option<PathBuf>,
        /// Loads go through memory that is not registered with cuFile (gds-bounce, UCM)
        #[arg(long)]
        unregistered: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// What differs from the library's defaults, or between two files
    Diff {
        /// The file (default: all that is in effect)
        file: Option<PathBuf>,
        /// Another file to compare it with
        other: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// What is raced and how.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RaceArgs {
    /// Engines, separated by commas: mmap, pread, direct, gds-per-tensor, gds-bounce, gds-slab, gds-batch, gds-stream, auto (default: every
    /// one that can run here)
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) engine: Vec<Engine>,
    /// Page cache before each run: cold, hot, as-is; several are raced in turn (default: cold)
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(super) cache: Vec<CacheState>,
    /// Runs of each engine in each cache state
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// GPU by index or UUID, or 'host' for host memory
    #[arg(long, value_name = "INDEX|UUID|host")]
    pub(super) gpu: Option<String>,
    /// Do not compare the bytes on the target with the file
    #[arg(long)]
    pub(super) no_verify: bool,
    /// Do not read meters during the load
    #[arg(long)]
    pub(super) no_telemetry: bool,
    /// An engine setting, NAME=NUMBER or ENGINE.NAME=NUMBER: threads, slots, depth, block_bytes, register, io_uring, odirect,
    /// keep_heap, cufile, pin_ahead
    #[arg(long = "set", value_name = "NAME=NUMBER", value_parser = parse_setting)]
    pub(super) settings: Vec<(String, u64)>,
    /// Keep a recording of the session
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
}

/// Where results go and how they look.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct OutputArgs {
    /// Write the report into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) export: Option<PathBuf>,
    /// Formats of --export, separated by commas (default: all)
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', requires = "export")]
    pub(super) format: Vec<FormatArg>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// No colour, no bar
    #[arg(long)]
    pub(super) plain: bool,
    /// Theme: dark, light, high-contrast, colour-blind, mono
    #[arg(long, value_name = "NAME")]
    pub(super) theme: Option<String>,
    /// Only the result
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// More about what is being done
    #[arg(short, long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
}

/// Report formats as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatArg {
    /// report.json
    Json,
    /// report.md
    Md,
    /// report.html
    Html,
    /// Tables
    Csv,
    /// Chrome and Perfetto trace
    Trace,
    /// Prometheus text
    Prom,
}

pub(super) fn parse_setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=NUMBER, for example threads=8")?;
    let known = [
        "threads",
        "slots",
        "depth",
        "block_bytes",
        "register",
        "io_uring",
        "odirect",
        "keep_heap",
        "cufile",
        "stream_flags",
        "pin_ahead",
    ];
    let (engine, short) = match name.rsplit_once('.') {
        Some((engine, short)) => (Some(engine), short),
        None => (None, name),
    };
    if let Some(engine) = engine {
        engine.parse::<Engine>()?;
    }
    if !known.contains(&short) {
        return Err(format!("'{short}' is no setting; known are {}", known.join(", ")));
    }
    let value = value.parse().map_err(|e| format!("'{value}' is no number: {e}"))?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bare_model_and_a_subcommand_are_told_apart() {
        let cli = Cli::try_parse_from(["gds-top", "--headless", "/models/x"]).unwrap();
        assert_eq!(cli.model.as_deref(), Some("/models/x"));
        assert!(cli.headless && cli.command.is_none());
        let cli =
            Cli::try_parse_from(["gds-top", "load", "m", "--cache", "cold,hot", "--engine", "mmap,pread"]).unwrap();
        let Some(Sub::Load { race, .. }) = cli.command else { panic!("not a load") };
        assert_eq!(race.cache, [CacheState::Cold, CacheState::Hot]);
        assert_eq!(race.engine, [Engine::Mmap, Engine::Pread]);
    }

    #[test]
    fn settings_are_checked_by_name() {
        assert_eq!(parse_setting("pread.threads=8"), Ok(("pread.threads".to_owned(), 8)));
        for (wrong, part) in [
            ("threads", "NAME=NUMBER"),
            ("thread=1", "known are"),
            ("x.threads=1", "no engine"),
            ("threads=a", "no number"),
        ] {
            let said = parse_setting(wrong).unwrap_err();
            assert!(said.contains(part), "{wrong}: {said}");
        }
    }
}
