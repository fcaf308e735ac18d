//! The output options of a session, and the engines and targets that the user named.

use crate::core::{Engine, Failure};
use crate::report::Format;
use crate::session::{Lane, LaneStatus, State};
use std::path::PathBuf;

/// The task that the progress shows before the first run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstTask {
    /// The checks of the machine.
    #[default]
    Checks,
    /// Watching a running process.
    Watching,
    /// None is shown: a program that was started writes to the same terminal.
    SharedTerminal,
}

/// How a session is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the result is printed as JSON.
    pub json: bool,
    /// Whether only results, tables, advice and errors are printed.
    pub quiet: bool,
    /// Whether the complete report is printed, even without progress output.
    pub full: bool,
    /// Whether each finding and each note is printed when it arrives.
    pub verbose: bool,
    /// Whether a progress bar is drawn, which needs a terminal. Otherwise the start and the end of each run are
    /// printed as lines.
    pub progress: bool,
    /// The task that the progress shows first.
    pub first_task: FirstTask,
    /// Whether ANSI colours are used. They are off with `--plain` and `NO_COLOR`.
    pub colour: bool,
    /// The directory and the formats of the report that is written at the end.
    pub export: Option<(PathBuf, Vec<Format>)>,
    /// The width of the text in columns.
    pub width: u16,
    /// The width of the progress in columns. Standard error can be a terminal if standard output is not.
    pub progress_width: u16,
    /// The engines and targets that the user named.
    pub asked: Asked,
}

impl Options {
    /// The width at which lines of standard error are wrapped. A terminal would cut a longer line within a word.
    pub(super) fn edge(&self) -> usize {
        if self.progress { usize::from(self.progress_width).max(20) } else { usize::MAX }
    }
}

/// The engines and targets that the user named. If one of them cannot run, the exit status is 3, even if other runs
/// succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The named engines.
    pub engines: Vec<Engine>,
    /// Whether every cell of a storage grid must succeed.
    pub cells: bool,
    /// Whether a model must be loaded.
    pub load: bool,
}

impl Asked {
    /// Whether a model should be loaded, but it could not be opened or written, so that no run was planned.
    pub(super) fn has_no_model(&self, state: &State) -> bool {
        self.load && state.lanes.is_empty() && state.unavailable.is_empty() && state.earlier.is_empty()
    }

    /// Whether a named engine or target did not complete, or any run process crashed. An engine that was not named
    /// may be unable to run on this machine, but it may not crash.
    pub(super) fn is_missing(&self, state: &State) -> bool {
        let ran = |engine: &Engine| {
            let mut lanes = state.lanes.iter().filter(|lane| lane.engine == *engine).peekable();
            lanes.peek().is_some() && lanes.all(|lane| lane.status == LaneStatus::Done)
        };
        let cells = || state.grid.iter().flat_map(|grid| grid.results.iter().flatten());
        let cell_failed = cells().any(|cell| cell.error.is_some());
        let died = |lane: &Lane| matches!(lane.status, LaneStatus::Failed(Failure::Died(_)));
        (self.cells && cell_failed)
            || cells().any(|cell| cell.died)
            || state.lanes.iter().any(died)
            || self.engines.iter().any(|engine| !ran(engine))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            json: false,
            quiet: false,
            full: false,
            verbose: false,
            progress: false,
            first_task: FirstTask::default(),
            colour: false,
            export: None,
            width: 100,
            progress_width: 100,
            asked: Asked::default(),
        }
    }
}
