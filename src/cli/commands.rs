//! The command line: the commands and their arguments.

use super::args::{ExportArgs, LoadArgs, RaceArgs, ResultArgs, RunArgs, ScreenArgs};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Checks whether GPUDirect Storage works on this machine, fixes what blocks it, and measures how fast your model
/// loads with it.
#[derive(Debug, Parser)]
#[command(
    name = "gds-top",
    version,
    override_usage = "gds-top [OPTIONS] [MODEL]\n       gds-top <COMMAND>",
    after_long_help = "Sizes are binary (1 MiB = 1 048 576 bytes), rates are decimal (1 GB/s = 1 000 000 000 bytes a second).\n\
                  Settings and keys: 'gds-top settings > ~/.config/gds-top/config.toml' writes all of them, commented out.\n\
                  Environment: GDS_TOP_LIBCUFILE and GDS_TOP_NVML name the file of that library, GDS_TOP_NIXL a file or a directory, GDS_TOP_PYTHON the Python of \
                  loader:NAME; NO_COLOR, CLICOLOR, CLICOLOR_FORCE, COLUMNS. A libcufile or NIXL that is not named is loaded only if it belongs to root or to you and no other user can replace \
                  it."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Sub>,
    /// A model: its files, a Hugging Face repo id, or a shape (qwen3-0.6b)
    ///
    /// A .safetensors file, a directory of shards, an index.json, a Hugging Face repo id in the local cache, or a shape
    /// profile by name (qwen3-0.6b). Without it the screens examine the directory of synthetic models (~/.cache/gds-top),
    /// and nothing is loaded until you press a key; with --headless a synthetic model of 143 MiB is written there on
    /// first use.
    #[arg(value_parser = super::hints::profiles(), hide_possible_values = true)]
    pub(super) model: Option<String>,
    /// Run the checks and the benchmark and print a report
    #[arg(long)]
    pub(super) headless: bool,
    /// Settings file (default: $XDG_CONFIG_HOME/gds-top/config.toml, else ~/.config/gds-top/config.toml); 'gds-top settings' prints one
    #[arg(long = "config", id = "settings_file", value_name = "FILE", global = true, hide_short_help = true)]
    pub(super) config: Option<PathBuf>,
    /// Show a captured machine on the screens
    ///
    /// A capture, or a directory with etc/, usr/ and so on. Nothing is loaded. Fixes are written below DIR, but never
    /// in a capture.
    #[arg(long = "capture", visible_alias = "root", alias = "sysroot", value_name = "FILE|DIR")]
    pub(super) root: Option<PathBuf>,
    #[command(flatten)]
    pub(super) race: RaceArgs,
    #[command(flatten)]
    pub(super) export: ExportArgs,
    #[command(flatten)]
    pub(super) output: RunArgs,
    #[command(flatten)]
    pub(super) screens: ScreenArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(super) enum Sub {
    /// Show whether GDS works for each PATH, why not, and the fix
    ///
    /// Without a GPU no route is in use, so the exit status is 0 also with failures; --require then ends with 1.
    #[command(display_order = 1)]
    Check {
        /// Files or directories of models (default: the working directory)
        paths: Vec<PathBuf>,
        /// Examine a captured machine: a directory or archive written by 'capture', or a directory with etc/, usr/ and so on
        #[arg(long = "capture", visible_alias = "root", value_name = "FILE|DIR")]
        root: Option<PathBuf>,
        /// Do not prove the route by a read into GPU memory; CUDA is not opened
        #[arg(long)]
        no_probe: bool,
        /// Exit with 1 if the route of a PATH is worse: 'compat' needs cuFile reads that work, 'direct' a direct route, 'proven' a direct route that a
        /// read proved
        #[arg(long, value_name = "LEVEL")]
        require: Option<super::check::Level>,
        /// Write a temporary file of 1 MiB into each directory without files, to test O_DIRECT and the route there
        #[arg(long, conflicts_with = "root")]
        test_file: bool,
        /// Examine the routes of one GPU, by index or UUID (default: all GPUs); 'all' also fails if there is no GPU
        #[arg(long, visible_alias = "gpu", value_name = "INDEX|UUID|all")]
        target: Option<String>,
        /// Read the configuration of lmcache, llmd, vllm or nixl (a YAML or JSON file, a command line, or the text itself) and show which path it leads to
        #[arg(long = "for", num_args = 2, value_names = ["SYSTEM", "CONFIG"], value_parser = super::hints::servings(), hide_possible_values = true, conflicts_with_all = ["paths", "target"])]
        serving: Vec<String>,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: RunArgs,
    },
    /// Show fixes and apply those that you confirm, one by one
    #[command(display_order = 2)]
    Fix {
        /// Ids of fixes or of checks (default: all that apply); nvidia-gds: the complete set-up, step by step
        #[arg(value_parser = super::hints::fixes(), hide_possible_values = true)]
        ids: Vec<String>,
        /// Show the changes without applying them
        #[arg(long)]
        dry_run: bool,
        /// Apply without asking
        #[arg(long, conflicts_with = "dry_run")]
        yes: bool,
        /// Undo applied fixes
        #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
        undo: bool,
        /// List fixes: planned, applied, undone
        #[arg(long, conflicts_with_all = ["dry_run", "yes", "undo"])]
        list: bool,
        /// The path for which reads must work (default: the working directory)
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
        /// Work on a directory with etc/, usr/ and so on, or show a captured machine. Files are written below DIR,
        /// but never in a capture; commands are only shown. The journal is in DIR/.gds-top; no other user may write
        /// there
        #[arg(long = "sysroot", visible_alias = "root", alias = "capture", value_name = "DIR")]
        root: Option<PathBuf>,
        /// Apply only if the plan has this digest
        #[arg(long, hide = true)]
        consent: Option<String>,
        /// Print the progress as lines of JSON
        #[arg(long, hide = true)]
        stream: bool,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// Explain an error code, a cufile.json key, a check or a log line
    ///
    /// The explanation has the meaning, the causes, how to check and how to fix. Fixes, variables and engines are explained too.
    #[command(display_order = 8)]
    Explain {
        /// A code of cuFile or CUDA (5030, CU_FILE_INTERNAL_ERROR, 801), a key of cufile.json, a variable, the id of a check or fix, an engine, a line of
        /// cufile.log or of the kernel log; 'matrix' shows the routes of each GPU and storage; '-' reads a log from standard input
        #[arg(
            required = true,
            allow_negative_numbers = true,
            value_name = "CODE|KEY|ID|LINE",
            value_parser = super::hints::checks(),
            hide_possible_values = true
        )]
        query: Vec<String>,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// Lint, show, compare or write cufile.json
    #[command(display_order = 9)]
    Config {
        #[command(subcommand)]
        action: super::config::ConfigSub,
    },
    /// Write what the checks read into one redacted archive or directory
    ///
    /// 'gds-top check --capture FILE' examines it on another machine.
    #[command(display_order = 16)]
    Capture {
        /// A new archive if the name ends in .tar.zst, else a new directory. Endings of other archives are refused
        file: PathBuf,
        /// Files or directories of models (default: the working directory)
        paths: Vec<PathBuf>,
        /// List each file of the capture, not only its directories
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// Load a model with every engine and compare them
    #[command(name = "bench", alias = "load", display_order = 3)]
    Load {
        /// Models, loaded one after another
        #[arg(required_unless_present = "list_loaders", value_parser = super::hints::profiles(), hide_possible_values = true)]
        models: Vec<String>,
        /// Load each model alone and then all of them at the same time (one after another on the GPUs of --target), and
        /// show how much they slow each other down
        #[arg(long, conflicts_with = "sweep")]
        together: bool,
        /// List the published loaders that can run as loader:NAME, and whether they are installed
        #[arg(long)]
        list_loaders: bool,
        /// Without screens, as always
        #[arg(long, hide = true)]
        headless: bool,
        /// Find the best settings of pread, odirect and gds-slab (or of the engines named) by changing one at a time;
        /// print them with the reason and the command
        #[arg(long, conflicts_with_all = ["record", "export", "no_verify", "baseline"])]
        sweep: bool,
        #[command(flatten)]
        race: RaceArgs,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: RunArgs,
    },
    /// Measure the storage below DIR, as a heat map
    ///
    /// The cells are size × threads × read and write × sequential and random × transfer.
    #[command(name = "bench-io", alias = "io", display_order = 4)]
    Io {
        #[command(flatten)]
        io: super::io::IoArgs,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: RunArgs,
        #[command(flatten)]
        screens: ScreenArgs,
    },
    /// Write a synthetic model with a real model's tensor names, shapes and types
    #[command(name = "make-model", alias = "synth", display_order = 11)]
    Synth {
        /// Shape profile (see --list)
        #[arg(required_unless_present = "list", value_name = "SHAPE", value_parser = super::hints::profiles(), hide_possible_values = true)]
        profile: Option<String>,
        /// Destination directory
        #[arg(required_unless_present = "list")]
        dir: Option<PathBuf>,
        /// Multiply the first dimension of every tensor by this factor (above 0, at most 4)
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Seed of the random bytes
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// List the profiles
        #[arg(long)]
        list: bool,
        /// Write more than 1 GiB without asking
        #[arg(long)]
        yes: bool,
        /// Write all files again, and replace a synthetic model of another shape, scale or seed
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        output: ResultArgs,
        /// Do not show the progress
        #[arg(short, long)]
        quiet: bool,
    },
    /// Show tensors, sizes, alignment, read plan and predicted load times
    #[command(display_order = 10)]
    Inspect {
        /// The model
        #[arg(value_parser = super::hints::profiles(), hide_possible_values = true)]
        model: String,
        /// Predict the load time of each engine from recorded loads; MODEL can be the name of a shape profile
        #[arg(long)]
        predict: bool,
        /// Predict from these recordings or report.json files (default: the shipped recordings of an H200)
        #[arg(long, value_name = "FILE", requires = "predict")]
        from: Vec<PathBuf>,
        /// Predict from loads into host memory ('host') or into a GPU of this machine (index, UUID, all); by default from all
        #[arg(long, visible_alias = "gpu", value_name = "INDEX|UUID|host|all", requires = "predict")]
        target: Option<String>,
        #[command(flatten)]
        output: ResultArgs,
    },
    /// Show a recording on the screens
    #[command(display_order = 12)]
    Replay {
        /// The recording
        recording: PathBuf,
        /// Speed as a multiple of real time; 0 is as fast as possible
        #[arg(long, default_value_t = 1.0)]
        speed: f64,
        /// Print the report instead of opening the screens
        #[arg(long)]
        headless: bool,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: RunArgs,
        #[command(flatten)]
        screens: ScreenArgs,
    },
    /// Learn from recorded loads why GDS can be slower on a small model
    #[command(display_order = 14)]
    Learn {
        /// A model to measure with 'm' during the lesson (without it: a small synthetic one)
        #[arg(value_parser = super::hints::profiles(), hide_possible_values = true)]
        model: Option<String>,
        /// Write the lesson as one HTML page, to standard output if no file is named. An earlier page is replaced, a file that gds-top did not write is left alone
        #[arg(long, visible_alias = "export", value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        html: Option<PathBuf>,
        /// Theme: auto, dark, light, high-contrast, colour-blind, mono, or a file of colours (see 'gds-top settings --template dark')
        #[arg(long, value_name = "NAME|FILE")]
        theme: Option<String>,
        /// Print the lesson as text instead of opening the screens
        #[arg(long)]
        headless: bool,
        /// Write more than 1 GiB (a synthetic model) without asking
        #[arg(long)]
        yes: bool,
        /// Do not compare the loaded bytes with the file
        #[arg(long)]
        no_verify: bool,
        #[command(flatten)]
        load: LoadArgs,
    },
    /// Write reports from recordings; several recordings are also compared
    #[command(display_order = 13)]
    Report {
        /// The recordings
        #[arg(required = true)]
        recordings: Vec<PathBuf>,
        /// Compare each with this recording or report.json; exit status 1 on a regression
        #[arg(long, value_name = "FILE")]
        baseline: Option<PathBuf>,
        /// Percent by which an engine may be slower than in the baseline, in addition to the spread of the repeats (default: 5)
        #[arg(long, value_name = "PERCENT", requires = "baseline", value_parser = super::args::threshold)]
        threshold: Option<f64>,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: RunArgs,
    },
    /// Serve the result of the checks to Prometheus
    #[command(display_order = 17)]
    Export(super::exporter::ExporterArgs),
    /// Merge the reports of many nodes and show those that differ
    ///
    /// The result has the nodes that cannot use GDS, with the reason, and the nodes that differ from their peers.
    #[command(display_order = 15)]
    Fleet(super::fleet::FleetArgs),
    /// Write and read KV caches like LMCache, llm-d, vLLM or UCM
    ///
    /// They are compared with host memory and plain files.
    #[command(name = "bench-kv", alias = "kv", display_order = 5)]
    Kv(super::kv::KvArgs),
    /// Show all processes that use libcufile or libcuda
    ///
    /// The rows have the route as far as procfs shows it, rates, GPU memory and page-cache memory.
    #[command(display_order = 7)]
    Top(super::top::TopArgs),
    /// Run a program and show every cuFile call, file, route and tensor
    ///
    /// Child processes are included. '--pid' shows a running process.
    #[command(
        display_order = 6,
        override_usage = "gds-top watch [OPTIONS] -- <COMMAND>...\n       gds-top watch [OPTIONS] --pid <PID>"
    )]
    Watch(super::watch::WatchArgs),
    /// Prove on this hardware that every available engine loads the right bytes
    #[command(hide = true)]
    Selftest {
        #[command(flatten)]
        load: LoadArgs,
        /// Do not read meters during the load
        #[arg(long, hide_short_help = true)]
        no_telemetry: bool,
        /// Record each session
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        #[command(flatten)]
        output: RunArgs,
    },
    /// Print a settings file with all settings and keys, commented out
    #[command(hide = true)]
    Settings {
        /// Print a built-in theme instead, as a template for a custom one
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// Print every action and its keys as a Markdown table instead
        #[arg(long, conflicts_with = "template")]
        keys: bool,
        /// Print the engines and their settings as Markdown tables instead
        #[arg(long, conflicts_with_all = ["template", "keys"])]
        engines: bool,
    },
    /// Measure the profiling overhead: the same load bare, headless with meters, and with the screens, alternating
    #[command(
        hide = true,
        mut_arg("engine", |arg| arg.help("Engines, separated by commas (default: pread)")),
        mut_arg("cache", |arg| arg.help("Page cache before each run: cold, hot, as-is; several are measured one after another (default: hot)")),
        mut_arg("repeat", |arg| arg.help("Rounds; each has one load in each mode (default: 5)")),
    )]
    Overhead {
        /// The model
        #[arg(value_parser = super::hints::profiles(), hide_possible_values = true)]
        model: String,
        #[command(flatten)]
        load: LoadArgs,
        /// Write more than 1 GiB (a synthetic model) without asking
        #[arg(long)]
        yes: bool,
        /// Do not compare the loaded bytes with the file
        #[arg(long)]
        no_verify: bool,
        #[command(flatten)]
        output: ResultArgs,
        /// Do not show the progress
        #[arg(short, long)]
        quiet: bool,
    },
    /// Print shell completions
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        dir: Option<PathBuf>,
    },
    #[command(flatten)]
    Internal(super::internal::Internal),
}

impl Sub {
    /// Whether the command reads no settings: commands that print fixed texts, and child processes of a session.
    pub(super) fn needs_no_settings(&self) -> bool {
        match self {
            Self::Settings { .. }
            | Self::Explain { .. }
            | Self::Fleet(_)
            | Self::Completions { .. }
            | Self::Man { .. } => true,
            Self::Internal(internal) => internal.needs_no_settings(),
            _ => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Engine};
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn old_names_are_hidden_aliases() {
        for (old, new) in [("load", "bench"), ("io", "bench-io"), ("kv", "bench-kv"), ("synth", "make-model")] {
            let command = Cli::command();
            let found = command.find_subcommand(old).unwrap();
            assert_eq!(found.get_name(), new);
            assert_eq!(found.get_visible_aliases().count(), 0, "{old}");
        }
    }

    #[test]
    fn a_bare_model_and_a_subcommand_are_distinguished() {
        let cli = Cli::try_parse_from(["gds-top", "--headless", "/models/x"]).unwrap();
        assert_eq!(cli.model.as_deref(), Some("/models/x"));
        assert!(cli.headless && cli.command.is_none());
        let cli =
            Cli::try_parse_from(["gds-top", "load", "m", "--cache", "cold,hot", "--engine", "mmap,pread"]).unwrap();
        let Some(Sub::Load { race, .. }) = cli.command else { panic!("not a load") };
        assert_eq!(race.cache, [CacheState::Cold, CacheState::Hot]);
        assert_eq!(race.engines(), [Engine::Mmap, Engine::Pread]);
        let line = "pread,command:load --gpus 0,1 {model}";
        let arguments = ["gds-top", "load", "m", "--engine", line, "--engine", "nixl:POSIX"];
        let Some(Sub::Load { race, .. }) = Cli::try_parse_from(arguments).unwrap().command else {
            panic!("not a load")
        };
        let command = Engine::Command("load --gpus 0,1 {model}".to_owned());
        assert_eq!(race.engines(), [Engine::Pread, command, "nixl:POSIX".parse().unwrap()]);
        assert!(Cli::try_parse_from(["gds-top", "bench", "m", "--engine", "pread,nonsense"]).is_err());
    }
}
