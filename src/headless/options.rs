//! The form of the output of a session, and the engines and targets that the user named.

use crate::core::Engine;
use crate::report::Format;
use crate::session::{LaneStatus, State};
use std::path::PathBuf;

/// How a session is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The result as JSON instead of text.
    pub json: bool,
    /// Only the answers, the tables, the advice and errors.
    pub quiet: bool,
    /// The complete report, although there is no progress.
    pub full: bool,
    /// Every finding and every note as it comes.
    pub verbose: bool,
    /// A bar that redraws itself; for a terminal only. Otherwise a line for each lane's start and end.
    pub progress: bool,
    /// Colours (ANSI); not with `--plain` or `NO_COLOR`.
    pub colour: bool,
    /// Only ASCII in the bar and its marks.
    pub ascii: bool,
    /// The directory of the report that is written at the end, and its forms.
    pub export: Option<(PathBuf, Vec<Format>)>,
    /// Columns of the text.
    pub width: u16,
    /// The engines and targets that the user named.
    pub asked: Asked,
}

/// The engines and targets that the user asked for by name. If one cannot run, the exit status is 3, although other
/// runs may have succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Engines.
    pub engines: Vec<Engine>,
    /// All cells of a storage grid.
    pub cells: bool,
}

impl Asked {
    /// Whether something that was asked for did not run to its end.
    pub(super) fn is_missing(&self, state: &State) -> bool {
        let ran = |engine: &Engine| {
            let mut lanes = state.lanes.iter().filter(|lane| lane.engine == *engine).peekable();
            lanes.peek().is_some() && lanes.all(|lane| lane.status == LaneStatus::Done)
        };
        let cell_failed = state.grid.iter().flat_map(|grid| grid.results.iter().flatten()).any(|r| r.error.is_some());
        (self.cells && cell_failed) || self.engines.iter().any(|engine| !ran(engine))
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
            colour: false,
            ascii: false,
            export: None,
            width: 100,
            asked: Asked::default(),
        }
    }
}
