//! The command line: the commands and what each takes.

use super::args::{ExportArgs, OutputArgs, RaceArgs};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// Tells whether GPUDirect Storage works here, what to fix and how, and what it buys for your model; and shows the load happening.
#[derive(Debug, Parser)]
#[command(
    name = "gds-top",
    version,
    override_usage = "gds-top [OPTIONS] [MODEL]\n       gds-top <COMMAND>",
    disable_help_subcommand = true,
    after_help = "Sizes are binary (1 MiB = 1 048 576 bytes), rates are decimal (1 GB/s = 1 000 000 000 bytes a second).\n\
                  Settings: 'gds-top settings > ~/.config/gds-top/config.toml' writes them all, commented out; keys and own themes too.\n\
                  Environment: GDS_TOP_LIBCUFILE and GDS_TOP_NVML name the file of that library, GDS_TOP_NIXL a file or a folder, GDS_TOP_PYTHON the Python of \
                  loader:NAME; NO_COLOR.\n\
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
    /// Settings file (default: $XDG_CONFIG_HOME/gds-top/config.toml, else ~/.config/gds-top/config.toml); 'gds-top settings' prints one
    #[arg(long = "config", id = "settings_file", value_name = "FILE", global = true)]
    pub(super) config: Option<PathBuf>,
    /// Show a folder that stands for a machine (a captured one, or a plain tree of files) on the screens; fixes are written below it and nothing is
    /// loaded
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    #[command(flatten)]
    pub(super) race: RaceArgs,
    #[command(flatten)]
    pub(super) export: ExportArgs,
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
        export: ExportArgs,
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
        #[arg(long, conflicts_with_all = ["dry_run", "yes", "undo"])]
        list: bool,
        /// The path whose reads are to work (default: the working directory)
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
        /// Work on a folder that stands for a machine: a captured one, or a plain tree with etc/ and so on. Files are written below it, commands are
        /// shown and never run, and the journal is in .gds-top in it
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Refuse unless the changes are those that this number stands for
        #[arg(long, hide = true)]
        consent: Option<String>,
        /// Tell the progress as a line of JSON each
        #[arg(long, hide = true)]
        stream: bool,
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
        #[arg(required_unless_present = "list_loaders")]
        models: Vec<String>,
        /// Load each model alone and then all of them at the same time (one after another on the GPUs of --gpu), and show what they cost each
        /// other
        #[arg(long, conflicts_with = "sweep")]
        together: bool,
        /// List the published loaders that race as loader:NAME, and which of them are installed
        #[arg(long)]
        list_loaders: bool,
        /// Find the best settings of pread, direct and gds-slab (or the engines named) by changing one at a time, and print them with
        /// the reason and the command that uses them
        #[arg(long, conflicts_with_all = ["record", "export", "no_verify", "baseline"])]
        sweep: bool,
        #[command(flatten)]
        race: RaceArgs,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// What the storage under DIR gives: size × threads × read and write × sequential and random × transfer, as a heat map
    Io {
        #[command(flatten)]
        io: super::io::IoArgs,
        #[command(flatten)]
        export: ExportArgs,
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
        export: ExportArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Why GDS can be slower on a small model: a lesson on recorded loads
    Learn {
        /// A model to measure beside the lesson with 'm' (without it: a small synthetic one, made then)
        model: Option<String>,
        /// Write the lesson as one HTML file
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
        /// Theme: dark, light, high-contrast, colour-blind, mono, or a file of colours (see 'gds-top settings --template dark')
        #[arg(long, value_name = "NAME|FILE")]
        theme: Option<String>,
        #[command(flatten)]
        race: RaceArgs,
    },
    /// Render reports again from recordings; several are compared as well
    Report {
        /// The recordings
        #[arg(required = true)]
        recordings: Vec<PathBuf>,
        /// Compare each with this recording or report.json; exit status 1 on a regression
        #[arg(long, value_name = "FILE")]
        baseline: Option<PathBuf>,
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// KV caches written to a disk and read back in the way of UCM, llm-d or LMCache, beside host memory and plain files
    Kv(super::kv::KvArgs),
    /// Prove on this hardware that every available engine lands the right bytes
    Selftest {
        #[command(flatten)]
        race: RaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print a settings file with every setting and every key, commented out, to be changed and kept
    Settings {
        /// Print a theme of the program instead, to begin an own one with
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// Print every action and its keys as a Markdown table instead
        #[arg(long, conflicts_with = "template")]
        keys: bool,
    },
    /// What looking costs: the same load bare, headless with meters, and under the screens, in turn, with the ratios (default: pread, hot, 5 rounds)
    Overhead {
        /// The model
        model: String,
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
    #[command(name = "__kv", hide = true)]
    KvLane,
    #[command(name = "__io", hide = true)]
    GridProcess,
    #[command(name = "__probe-cufile", hide = true)]
    ProbeCufile {
        /// Folder for the library's log
        scratch: Option<PathBuf>,
        /// Only find it
        #[arg(long)]
        no_open: bool,
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
    #[command(name = "__on-terminal", hide = true)]
    OnTerminal {
        /// The model
        model: String,
        #[command(flatten)]
        race: RaceArgs,
    },
    #[command(name = "__probe-cuda", hide = true)]
    ProbeCuda,
    #[command(name = "__ceilings", hide = true)]
    Ceilings {
        /// The model
        model: PathBuf,
        /// UUID or index of the GPU
        #[arg(long)]
        gpu: Option<String>,
        /// Measure no reads
        #[arg(long)]
        copies_only: bool,
        /// Measure no reads from the page cache, which would fill it
        #[arg(long)]
        keep_cache: bool,
        /// Only find the best setting for O_DIRECT reads
        #[arg(long)]
        passes_follow: bool,
    },
    #[command(name = "__read-pass", hide = true)]
    ReadPass {
        /// The model
        model: PathBuf,
        /// Bytes of a block
        block_bytes: u64,
        /// Threads
        threads: u64,
    },
    #[command(name = "__outside", hide = true)]
    Outside {
        /// The command line
        line: String,
    },
    #[command(name = "__probe-nixl", hide = true)]
    ProbeNixl,
    #[command(name = "__pictures", hide = true)]
    Pictures {
        /// Folder to write them to
        dir: PathBuf,
        /// The captured machine whose environment is shown
        #[arg(long, value_name = "DIR")]
        machine: PathBuf,
    },
}

impl Cli {
    /// What stands before the command of a call and belongs behind it, as it is typed: before it, it would be read and have no effect.
    pub(super) fn misplaced(call: &ArgMatches) -> Option<String> {
        let command = call.subcommand_name()?;
        let cli = Self::command();
        let given = |arg: &&Arg| call.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let arg = cli.get_arguments().filter(|arg| !arg.is_global_set()).find(given)?;
        let what = arg.get_long().map_or_else(|| "a model".to_owned(), |long| format!("--{long}"));
        Some(format!("{what} stands before the command '{command}'; write it behind: gds-top {command} ..."))
    }
}

impl Sub {
    /// Whether it neither looks at nor is shown by anything that the settings could change: texts of the program, and helpers, whose session has read the
    /// settings that count, maybe from another file than the usual one.
    pub(super) const fn needs_no_settings(&self) -> bool {
        matches!(
            self,
            Self::Settings { .. }
                | Self::Completions { .. }
                | Self::Man
                | Self::Lane
                | Self::KvLane
                | Self::GridProcess
                | Self::Ceilings { .. }
                | Self::ReadPass { .. }
                | Self::Outside { .. }
                | Self::ProbeCufile { .. }
                | Self::ProbeRead { .. }
                | Self::ProbeCuda
                | Self::ProbeNixl
                | Self::Pictures { .. }
        )
    }
}

/// What to do with cufile.json.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigSub {
    /// What is wrong in it (default: /etc/cufile.json, the file that CUFILE_ENV_PATH_JSON names, and the variables of libcufile)
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
        /// Tune for a captured machine; the model is a profile, or lies here
        #[arg(long, value_name = "DIR|ARCHIVE")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// What differs from the library's defaults, or between two files
    Diff {
        /// The file (default: all that is in effect)
        file: Option<PathBuf>,
        /// Another file to compare it with
        other: Option<PathBuf>,
        /// What is in effect on a captured machine
        #[arg(long, value_name = "DIR|ARCHIVE")]
        root: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::domain::{CacheState, Engine};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_stands_before_a_command_is_not_passed_over() {
        let misplaced = |arguments: &[&str]| Cli::misplaced(&Cli::command().try_get_matches_from(arguments).unwrap());
        for (arguments, named) in [
            (["gds-top", "--json", "check", "/models"].as_slice(), "--json stands before the command 'check'"),
            (&["gds-top", "--engine", "pread", "load", "m"], "--engine stands"),
            (&["gds-top", "/models", "check"], "a model stands"),
        ] {
            let said = misplaced(arguments).unwrap();
            assert!(said.contains(named) && said.contains("write it behind"), "{said}");
        }
        for fine in [["gds-top", "--config", "f", "load", "m"].as_slice(), &["gds-top", "m", "--json"], &["gds-top"]] {
            assert_eq!(misplaced(fine), None);
        }
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
        assert_eq!(race.engines(), [Engine::Mmap, Engine::Pread]);
        let line = "pread,command:load --gpus 0,1 {model}";
        let arguments = ["gds-top", "load", "m", "--engine", line, "--engine", "nixl:POSIX"];
        let Some(Sub::Load { race, .. }) = Cli::try_parse_from(arguments).unwrap().command else {
            panic!("not a load")
        };
        let command = Engine::Command("load --gpus 0,1 {model}".to_owned());
        assert_eq!(race.engines(), [Engine::Pread, command, "nixl:POSIX".parse().unwrap()]);
        assert!(Cli::try_parse_from(["gds-top", "load", "m", "--engine", "pread,nonsense"]).is_err());
    }
}
