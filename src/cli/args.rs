//! Arguments that several commands share: engines, conditions and output.

use super::hints::Engines;
use crate::core::{CacheState, Engine, SettingOrder};
use crate::report::Format;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Engines and conditions of a load.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct LoadArgs {
    /// Engines, separated by commas (default: all that can run here)
    ///
    /// mmap, pread, odirect, gds-per-tensor, gds-bounce, gds-slab, gds-batch, gds-stream, nixl, auto; not by default
    /// nixl:GDS_MT, nixl:POSIX, loader:NAME (see 'bench --list-loaders'), command:LINE (any other loader; {model} and
    /// {gpu} are replaced; LINE ends with the argument, so pass it in a separate --engine).
    #[arg(long, value_name = "A,B", value_parser = super::hints::engines(), hide_possible_values = true)]
    pub(super) engine: Vec<Engines>,
    /// Page cache before each run: cold, hot, as-is (default: cold)
    ///
    /// Several, separated by commas, are measured one after another.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = super::hints::caches(), hide_possible_values = true)]
    pub(super) cache: Vec<CacheState>,
    /// Runs of each engine in each cache state, alternating (default: 3; 1 for one engine)
    ///
    /// A winner needs three runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: Option<u32>,
    /// Destination of the bytes: a GPU, 'host' or 'all' (default: the first GPU, else host)
    ///
    /// A GPU by index or UUID, 'host' for host memory, or several targets separated by commas ('all' for every GPU),
    /// among which the model is divided; host,host is two targets without a GPU.
    #[arg(long = "target", visible_alias = "gpu", value_name = "INDEX|UUID|host|all,…")]
    pub(super) gpu: Option<String>,
    /// An engine setting, NAME=NUMBER or ENGINE.NAME=NUMBER ('gds-top settings --engines' lists them). A setting that
    /// no engine of the benchmark accepts is an error
    #[arg(long = "set", value_name = "NAME=NUMBER", hide_short_help = true)]
    pub(super) settings: Vec<SettingOrder>,
    /// Time limit in seconds for a run of a command or loader (default: 600)
    #[arg(long, value_name = "SECONDS", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) limit: Option<u64>,
    /// If files of the model stay in the page cache before a cold load, drop the complete page cache (as root). This slows down all programs
    #[arg(long, hide_short_help = true)]
    pub(super) drop_caches: bool,
}

/// Engines and conditions of the benchmark.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RaceArgs {
    #[command(flatten)]
    pub(super) load: LoadArgs,
    /// Write more than 1 GiB (a synthetic model) without asking
    #[arg(long)]
    pub(super) yes: bool,
    /// Do not read meters during the load
    #[arg(long, hide_short_help = true)]
    pub(super) no_telemetry: bool,
    /// Do not compare the loaded bytes with the file
    #[arg(long, hide_short_help = true)]
    pub(super) no_verify: bool,
    /// First measure the ceilings of this machine (about eight seconds per model): pinned copies to the GPU, O_DIRECT
    /// reads and page-cache reads of the model. Each run is then shown as a share of them. Each round of cold loads
    /// also includes one plain read of all files
    #[arg(long, hide_short_help = true)]
    pub(super) ceilings: bool,
    /// Record the session
    ///
    /// The recording is FILE.partial until the session ends and then replaces an earlier recording, but no other file.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Compare with this recording or report.json; exit status 1 on a regression
    ///
    /// The status is 1 if an engine fails or is slower beyond the noise. An engine that seems slower runs again first.
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    /// Percent by which an engine may be slower than in the baseline, in addition to the spread of the repeats (default: 5)
    #[arg(long, value_name = "PERCENT", requires = "baseline", hide_short_help = true, value_parser = threshold)]
    pub(super) threshold: Option<f64>,
}

/// Parses a percentage.
pub(super) fn threshold(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').trim().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is not a number from 0 to 1000"))
}

impl std::ops::Deref for RaceArgs {
    type Target = LoadArgs;

    fn deref(&self) -> &LoadArgs {
        &self.load
    }
}

impl From<LoadArgs> for RaceArgs {
    fn from(load: LoadArgs) -> Self {
        Self { load, ..Self::default() }
    }
}

/// Destination of the report.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ExportArgs {
    /// Write the report into this directory
    ///
    /// Files of an earlier report are replaced, files that gds-top did not write are left alone.
    #[arg(long, value_name = "DIR")]
    pub(super) export: Option<PathBuf>,
    /// Formats of --export, separated by commas (default: all)
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', requires = "export")]
    format: Vec<FormatArg>,
}

/// Output options of commands that print a result.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ResultArgs {
    /// Print the result as JSON on standard output
    #[arg(long)]
    json: bool,
    /// No colours and no progress bar
    #[arg(long, hide_short_help = true)]
    plain: bool,
    /// Colours: auto, always, never
    ///
    /// With auto, the variables NO_COLOR, CLICOLOR and CLICOLOR_FORCE count.
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: When,
}

/// Output options of commands whose result can be shorter or longer.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    result: ResultArgs,
    /// Print only the verdict, the table and the advice
    #[arg(short, long)]
    quiet: bool,
    /// Show more details
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

/// Display options of the screens.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ScreenArgs {
    /// Theme: auto, dark, light, high-contrast, colour-blind, mono, or a file of colours
    ///
    /// 'gds-top settings --template dark' prints such a file.
    #[arg(long, value_name = "NAME|FILE", value_parser = super::hints::themes(), hide_possible_values = true)]
    pub(super) theme: Option<String>,
    /// Characters for the lines of charts: braille, block, ascii
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    markers: Option<String>,
}

/// Output and display options in one form, from the arguments that a command has.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputArgs {
    pub(super) json: bool,
    pub(super) plain: bool,
    pub(super) theme: Option<String>,
    pub(super) markers: Option<String>,
    pub(super) color: When,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
}

impl ScreenArgs {
    fn on(&self, output: OutputArgs) -> OutputArgs {
        OutputArgs { theme: self.theme.clone(), markers: self.markers.clone(), ..output }
    }
}

impl ResultArgs {
    /// The options for a command without other output options.
    pub(super) fn output(&self) -> OutputArgs {
        OutputArgs { json: self.json, plain: self.plain, color: self.color, ..OutputArgs::default() }
    }

    /// The options for a command with screens.
    pub(super) fn on(&self, screens: &ScreenArgs) -> OutputArgs {
        screens.on(self.output())
    }

    /// The options with or without progress output.
    pub(super) fn quiet(&self, quiet: bool) -> OutputArgs {
        OutputArgs { quiet, ..self.output() }
    }
}

impl RunArgs {
    /// The options for a command without screens.
    pub(super) fn output(&self) -> OutputArgs {
        OutputArgs { verbose: self.verbose, ..self.result.quiet(self.quiet) }
    }

    /// The options for a command with screens.
    pub(super) fn on(&self, screens: &ScreenArgs) -> OutputArgs {
        screens.on(self.output())
    }
}

impl OutputArgs {
    /// An option that was given and has no effect on the screens.
    pub(super) fn without_effect_on_screens(&self) -> Option<&'static str> {
        let given = [
            ("--json", self.json),
            ("--quiet", self.quiet),
            ("--verbose", self.verbose),
            ("--color", self.color != When::Auto),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// An option that was given and has an effect on the screens only.
    pub(super) fn without_effect_on_text(&self) -> Option<&'static str> {
        let given = [("--theme", self.theme.is_some()), ("--markers", self.markers.is_some())];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// Colours are used only on a terminal.
    #[default]
    Auto,
    /// Colours are always used.
    Always,
    /// Colours are never used.
    Never,
}

impl When {
    /// Whether the output has colours. `usual` is the result for `auto`.
    pub(super) fn colours(self, usual: bool) -> bool {
        let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_off = |name: &str| value(name).is_some_and(|value| value == "0");
        match self {
            Self::Always => true,
            Self::Never => false,
            // NO_COLOR counts with any value (no-color.org). The others are switched off by 0 (bixense.com/clicolors).
            Self::Auto if value("NO_COLOR").is_some() => false,
            Self::Auto if value("CLICOLOR_FORCE").is_some() && !is_off("CLICOLOR_FORCE") => true,
            Self::Auto => usual && !is_off("CLICOLOR"),
        }
    }
}

/// The formats of a report, as on the command line.
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
    /// JUnit XML
    Junit,
}

/// The directory of the report, and its formats.
pub(super) type Export = (PathBuf, Vec<Format>);

impl ExportArgs {
    /// The export that the user requested. `None` if there is none.
    pub(super) fn plan(&self) -> Option<Export> {
        let formats = match self.format.as_slice() {
            [] => Format::ALL.to_vec(),
            named => named.iter().map(|format| format.format()).collect(),
        };
        self.export.clone().map(|dir| (dir, formats))
    }
}

impl FormatArg {
    const fn format(self) -> Format {
        match self {
            Self::Json => Format::Json,
            Self::Md => Format::Markdown,
            Self::Html => Format::Html,
            Self::Csv => Format::Csv,
            Self::Trace => Format::Trace,
            Self::Prom => Format::Prom,
            Self::Junit => Format::Junit,
        }
    }
}

impl LoadArgs {
    /// The engines that the user named, in order. It is empty if the program chooses them.
    pub(super) fn engines(&self) -> Vec<Engine> {
        self.engine.iter().flat_map(Engines::list).collect()
    }
}
