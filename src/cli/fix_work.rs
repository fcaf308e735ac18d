//! Parts that all commands for fixes share: the request, the machine, progress and consent.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, note, print_file};
use super::view::open_view;
use crate::core::{FixId, FixProgress};
use crate::fixes::{self, Ended, Place, guide};
use crate::machine::Root;
use crate::text::write_json;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The action of the command on the fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Asks before each fix.
    Ask,
    /// Applies the named fixes, or all of them, without asking.
    Yes,
    /// Shows the fixes.
    DryRun,
    /// Undoes the fixes.
    Undo,
    /// Lists the fixes.
    List,
}

/// The request on the command line.
#[derive(Clone, Debug)]
pub(super) struct Order<'a> {
    /// The ids of fixes or of the checks that they resolve.
    pub(super) ids: &'a [String],
    /// The action.
    pub(super) mode: Mode,
    /// The path for which reads must work.
    pub(super) path: Option<&'a Path>,
    /// A directory that is used in place of this machine.
    pub(super) root: Option<&'a Path>,
    /// The digest of the plan to which the user consented.
    pub(super) consent: Option<String>,
    /// Whether progress is printed as JSON lines.
    pub(super) stream: bool,
}

impl Order<'_> {
    /// Whether the command changes nothing.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self.mode, Mode::DryRun | Mode::List)
    }

    pub(super) fn names_guide(&self) -> bool {
        self.ids.iter().any(|id| id == guide::ID)
    }
}

/// A command for fixes, its machine and its paths.
pub(super) struct Work<'a> {
    pub(super) order: &'a Order<'a>,
    pub(super) output: &'a OutputArgs,
    pub(super) place: Place,
    pub(super) view: Root,
    pub(super) paths: Vec<PathBuf>,
}

impl Work<'_> {
    /// Prints one line of progress.
    pub(super) fn news(&self, progress: &FixProgress) {
        if self.order.stream {
            let mut line = Vec::new();
            // If no process reads the stream, the work continues.
            let _ = write_json(&mut line, progress);
            line.push(b'\n');
            let _ = print_file(&line);
        } else {
            note(&fixes::text::progress(progress));
        }
    }
}

/// The machine that is fixed, and the machine view.
pub(super) fn open(root: Option<&Path>) -> Result<(Place, Root), String> {
    let Some(folder) = root else { return Ok((Place::live(), open_view(None)?)) };
    Ok((Place::folder(folder)?, Root::stand_in(folder)?))
}

/// The exit status for the end of one fix.
pub(super) fn ended(end: Ended) -> u8 {
    match end {
        Ended::Done => FINE,
        Ended::Failed => BAD_ANSWER,
        Ended::NotStarted => COULD_NOT_RUN,
    }
}

/// Asks the user on the terminal for consent to a fix.
pub(super) fn ask(id: FixId) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        return Err(format!(
            "{id} needs your consent, and there is no terminal: pass --yes to apply it, or --dry-run to show it only"
        ));
    }
    ask_word(&format!("Apply {id}?"))
}

/// Asks a question on the terminal. Only an explicit yes is consent.
pub(super) fn ask_word(question: &str) -> Result<bool, String> {
    let mut err = super::streams::err();
    let asked = write!(err, "{question} [y/N] ").and_then(|()| err.flush());
    let mut answer = String::new();
    match asked.and_then(|()| io::stdin().lock().read_line(&mut answer)) {
        Ok(_) => Ok(matches!(answer.trim(), "y" | "Y" | "yes")),
        Err(error) => Err(format!("the answer could not be read: {error}")),
    }
}
