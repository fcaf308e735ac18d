//! The hidden commands with which the program starts itself: runs, probes and supervisors.

use super::args::RaceArgs;
use super::outcome::Ran;
use super::overhead;
use crate::core::ReaderSetting;
use crate::engines::{self, ceilings, probe, probe_read};
use crate::session::live;
use crate::workloads;
use clap::Subcommand;
use std::path::PathBuf;

/// The hidden commands.
#[derive(Debug, Subcommand)]
pub(super) enum Internal {
    #[command(name = "__lane", hide = true)]
    Lane,
    #[command(name = "__kv", hide = true)]
    KvLane,
    #[command(name = "__io", hide = true)]
    GridProcess,
    #[command(name = "__probe-cufile", hide = true)]
    ProbeCufile {
        /// Private directory for the library's log
        scratch: PathBuf,
        /// Only find the library
        #[arg(long)]
        no_open: bool,
    },
    #[command(name = "__probe-read", hide = true)]
    ProbeRead {
        /// A file, or a directory with one
        path: PathBuf,
        /// UUID of the GPU
        gpu: String,
        /// Allow compat mode
        #[arg(long)]
        allow_compat: bool,
        /// Private directory for the library's log
        #[arg(long)]
        scratch: PathBuf,
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
        /// Do not measure reads
        #[arg(long)]
        copies_only: bool,
        /// Do not measure reads from the page cache, which would fill it
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
    #[command(name = "__outside-supervisor", hide = true)]
    OutsideSupervisor {
        /// The command line
        line: String,
    },
    #[command(name = "__probe-nixl", hide = true)]
    ProbeNixl,
}

impl Internal {
    /// Whether a session starts this command as a child that must not outlive it. A supervisor outlives its session.
    pub(super) const fn is_child_of_a_session(&self) -> bool {
        !matches!(self, Self::Outside { .. } | Self::OutsideSupervisor { .. } | Self::OnTerminal { .. })
    }

    /// Whether the command reads no settings.
    pub(super) const fn needs_no_settings(&self) -> bool {
        !matches!(self, Self::OnTerminal { .. })
    }

    /// Runs the command.
    pub(super) fn run(self) -> Ran {
        Ok(match self {
            Self::Lane => engines::run_lane(),
            Self::KvLane => workloads::kv::run_lane(),
            Self::GridProcess => workloads::io::run_grid(),
            Self::ProbeCufile { scratch, no_open } => probe::probe_cufile(&scratch, !no_open),
            Self::ProbeRead { path, gpu, allow_compat, scratch } => {
                probe_read::probe_read(&path, &gpu, allow_compat, &scratch)
            }
            Self::OnTerminal { model, race } => return overhead::on_terminal(model, &race),
            Self::ProbeCuda => probe::probe_cuda(),
            Self::Ceilings { model, gpu, copies_only, keep_cache, passes_follow } => {
                let (model, gpu) = (model.as_path(), gpu.as_deref());
                ceilings::measure(ceilings::Asked { model, gpu, copies_only, keep_cache, passes_follow })
            }
            Self::ReadPass { model, block_bytes, threads } => {
                ceilings::pass(&model, ReaderSetting { block_bytes, threads })
            }
            Self::Outside { line } => live::keep(&line),
            Self::OutsideSupervisor { line } => live::supervise(&line),
            Self::ProbeNixl => probe::probe_nixl(),
        })
    }
}
